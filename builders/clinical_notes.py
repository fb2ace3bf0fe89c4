"""clinical_notes: notes with a phenotype, in four regimes and as counterfactual pairs; synthetic, or a user's own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from swapbias.builders._clinical_notes_synthetic import synthetic_notes
from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.hub import builder_on_use
from swapbias.notes import (
    Notes,
    augmentation,
    in_regime,
    kind_of_folder,
    load,
    local_notes,
    note_rows,
    notes_key,
    rewording,
    stream_notes,
    with_genders,
)
from swapbias.studies import DOUBTFUL, PLACEBO_COLUMNS, Config, declared_corpus

_USUAL_TABLE = "resolved"


@cache
def _synthetic() -> Notes:
    notes = [
        note for phenotype in note_rows.PHENOTYPES for note in synthetic_notes(phenotype=phenotype)
    ]
    swapped = [
        note
        for phenotype in note_rows.PHENOTYPES
        for note in synthetic_notes(phenotype=phenotype, counterfactual=True)
    ]
    texts = ((note["text"], swap["text"]) for note, swap in zip(notes, swapped, strict=True))
    swaps = dict(texts)
    return Notes("synthetic", tuple(notes), known_swaps=swaps)


def _regime(notes: Callable[[], Notes], phenotype: str, regime: str) -> Iterator[Mapping[str, str]]:
    """Give training notes in the regime; test notes as they are, for what is tested are pairs."""
    yield from notes().training(phenotype, regime)
    test_notes = [
        note for note in notes().rows if (note["phenotype"], note["split"]) == (phenotype, "test")
    ]
    yield from in_regime(test_notes, "original", notes().swapper)


ROWS = {
    **{
        f"{phenotype}-{regime}": partial(_regime, _synthetic, phenotype, regime)
        for phenotype in note_rows.PHENOTYPES
        for regime in augmentation.REGIMES
    },
    "pairs": lambda: _synthetic().pairs(),
    "pairs_wordings": lambda: _synthetic().reworded_pairs(),
}


def _local_configs(
    kind: str, phenotypes: Sequence[str], notes: Callable[[], Notes], table: str
) -> tuple[Config, ...]:
    """Phenotype x regime, and the pairs, of notes of the user's, which are read when rows are asked for."""
    swapped_by = "" if table == _USUAL_TABLE else f", swapped by the table {table}"
    trained, pairs, wordings = (
        CORPUS.config(name) for name in ("depression-original", "pairs", "pairs_wordings")
    )
    regimes = tuple(
        replace(
            trained,
            name=f"{phenotype}-{regime}",
            description=f"{kind} notes, the training notes {regime}{swapped_by}",
            rows=partial(_regime, notes, phenotype, regime),
        )
        for phenotype in phenotypes
        for regime in augmentation.REGIMES
    )
    description = f"{kind} test notes in both genders{swapped_by}"
    columns = (*augmentation.PAIR_COLUMNS, DOUBTFUL)
    own_pairs = replace(
        pairs, description=description, rows=lambda: notes().pairs(), columns=columns
    )
    own_wordings = replace(
        wordings,
        description=f"{description}, in {rewording.WORDINGS} wordings",
        rows=lambda: notes().reworded_pairs(),
        columns=(*columns, *PLACEBO_COLUMNS),
    )
    return (*regimes, own_pairs, own_wordings)


def _labelled(kind: str, folder: Path, table: str) -> Notes:
    """Read labelled notes, with the swapper of a table; the gender of a note is read in any case by its context."""
    from swapbias.swapping import Swapper  # numpy and pyarrow, which listing corpora does not need

    reader = Swapper(whose="patient")
    rows = with_genders(local_notes(folder), reader)
    return Notes(kind, tuple(rows), load.swapper_of(table))


def _of_mimic(kind: str, folder: Path, table: str) -> Notes:
    """The notes of MIMIC-III by their annotations, those of MIMIC-IV by the codes of their admission.

    Raises:
        UpstreamMissingError: neither lies in the folder; all notes can still be built.
    """
    try:
        return _labelled(kind, folder, table)
    except UsageError as error:
        raise UpstreamMissingError(str(error)) from error


def _local(folder: Path, table: str = _USUAL_TABLE) -> tuple[Config, ...]:
    """Configs of a folder: all notes of a MIMIC, streamed; regimes and pairs of the labelled ones."""
    load.swapper_of(table)  # an unknown table is refused before notes are read
    kind = kind_of_folder(folder)
    if kind == note_rows.OWN:
        notes = _labelled(kind, folder, table)
        return _keyed(_local_configs(kind, notes.phenotypes, lambda: notes, table), folder)
    all_notes = Config(
        kind,
        "All notes with the patient's gender",
        partial(stream_notes, folder),
        note_rows.STREAM_COLUMNS,
        {"credentialed": "bool"},
        split="train",
        streamed=True,
    )
    labelled = cache(partial(_of_mimic, kind, folder, table))
    configs = (all_notes, *_local_configs(kind, note_rows.PHENOTYPES, labelled, table))
    return _keyed(configs, folder)


def _keyed(configs: Sequence[Config], folder: Path) -> tuple[Config, ...]:
    """Give each config the key of the folder's files, which are read for it once."""
    key = cache(partial(notes_key, folder))
    return tuple(replace(config, content_key=key) for config in configs)


CORPUS = declared_corpus(note_rows.NAME, ROWS, local=_local)
__getattr__ = builder_on_use(note_rows.NAME)
