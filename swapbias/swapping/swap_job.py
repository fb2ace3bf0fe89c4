"""The settings of a swap of whole files."""

from dataclasses import dataclass, field

from swapbias.swapping.gender_columns import Classes
from swapbias.swapping.resolvers import Resolver
from swapbias.swapping.swapper import MODES

FILE_MODES = (*MODES, "augment", "pairs")


@dataclass(frozen=True, slots=True)
class Job:
    """A swap of files: what is swapped, and how."""

    source: str
    """A file, a folder of files (``folder[:config]``), or a Hub dataset ``owner/name[@revision][:config]``."""
    column: str = "text"
    """The column of texts."""
    mode: str = "swap"
    """``swap`` or ``neutralise`` (the texts are replaced), ``augment`` (each row followed by its swapped version) or
    ``pairs`` (the same with ``pair_id`` and ``group``, without rows where nothing was replaced)."""
    table: str = "resolved"
    """Of terms: ``resolved``, ``paper`` or a CSV file."""
    split: str | None = None
    """Of a Hub dataset, or of a folder with files of several."""
    credentialed: bool = False
    """These rows may not be shared."""
    whose: str | None = None
    """``everyone`` or ``patient`` (see ``Swapper``); None: the patient in notes of MIMIC, else everyone."""
    spouses: str = "swap"
    """``swap`` or ``keep``, where it is the patient."""
    gender: str | None = None
    """Column of the patient's gender; None: a column ``gender`` where there is one, else the text tells."""
    plausible: bool = False
    """Leave out rows with gender-specific clinical terms, whose other version is implausible; in mode ``augment``
    that version alone."""
    max_doubt: float = 1.0
    """Leave out rows with a ``swapbias_doubt`` above it, 0 to 1; of ``augment`` their swapped version."""
    resolver: Resolver | None = None
    """The model that says whose each word is (see ``load_resolver``); None: the rules."""
    spans: str | None = None
    """Column of labelled spans in the texts, which are moved along (see ``label_spans``)."""
    classes: Classes = field(default_factory=dict)
    """Names of the classes of columns of numbers; ``swap_files`` reads them from the source."""
