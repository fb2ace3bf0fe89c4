from .augmentation import (
    AS_TRAINED as AS_TRAINED,
    PAIR_COLUMNS as PAIR_COLUMNS,
    REGIMES as REGIMES,
    WORDINGS as WORDINGS,
    Notes as Notes,
    carrier_synonyms as carrier_synonyms,
    in_regime as in_regime,
    with_genders as with_genders,
)
from .load import (
    kind_of_folder as kind_of_folder,
    load_notes as load_notes,
    local_notes as local_notes,
    note_tables as note_tables,
    stream_notes as stream_notes,
)
from .mimic import STREAM_COLUMNS as STREAM_COLUMNS
from .rows import (
    CELLS as CELLS,
    GENDERS as GENDERS,
    NAME as NAME,
    NOTE_COLUMNS as NOTE_COLUMNS,
    OWN as OWN,
    PHENOTYPES as PHENOTYPES,
    SPLITS as SPLITS,
    Cell as Cell,
    published_sizes as published_sizes,
)
from .store import stored_rows as stored_rows
