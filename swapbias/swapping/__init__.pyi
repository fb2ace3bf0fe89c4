from .files import Done as Done, Job as Job, Step as Step, swap_files as swap_files
from .neutral import without_groups as without_groups
from .quotes import QuoteCheck as QuoteCheck, open_stream as open_stream
from .resolving import features as features, verb_class as verb_class
from .swapper import MODES as MODES, Swapped as Swapped, Swapper as Swapper
