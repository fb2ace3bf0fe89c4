from .audit_notes import Notes as Notes
from .augmentation import (
    AS_TRAINED as AS_TRAINED,
    in_regime as in_regime,
    with_genders as with_genders,
)
from .load import (
    kind_of_folder as kind_of_folder,
    load_notes as load_notes,
    local_notes as local_notes,
    stream_notes as stream_notes,
)
from .notes_content import notes_key as notes_key
