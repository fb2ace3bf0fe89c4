"""Table II of Sogancioglu et al. 2023: how many notes of women and men each phenotype has, in training and test."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from swapbias.builders._paper_lines import NOTHING, put_beside
from swapbias.notes import note_rows
from swapbias.studies.corpus import CalculatedTable
from swapbias.studies.paper import PaperRun
from swapbias.studies.published import PRINTED

_CELLS = tuple(product(("positive", "negative"), ("female", "male")))
_HEADER = [
    "phenotype",
    "numbers",
    *(
        f"{split}, {label} {gender[0].upper()}"
        for split in note_rows.SPLITS
        for label, gender in _CELLS
    ),
]


def count_notes(runs: Sequence[PaperRun]) -> CalculatedTable:
    """Count the notes of each phenotype by split, label and gender: those of the paper, and those that runs tested.

    Args:
        runs: the models of runs; several of a run read the same notes and have a line once.
    """
    lines = dict.fromkeys(tuple(line) for run in runs for line in _lines_of_run(run))
    return CalculatedTable(_HEADER, put_beside([*_printed_lines()], [[*line] for line in lines]))


def _printed_lines() -> Iterator[list[str]]:
    """Yield the line of each phenotype, as printed."""
    for phenotype in note_rows.PHENOTYPES:
        sizes = note_rows.published_sizes(phenotype)
        cells = [
            str(sizes[split][gender, label])
            for split in note_rows.SPLITS
            for label, gender in _CELLS
        ]
        yield [_in_words(phenotype), PRINTED, *cells]


def _lines_of_run(run: PaperRun) -> Iterator[list[str]]:
    """Yield the line of each phenotype of a run, of the notes as written; a run keeps no training notes."""
    if run.rows is None or "version" not in run.rows:
        return
    is_note = (run.rows["experiment"] == "phenotyping") & (run.rows["version"] == "original")
    notes = run.rows[is_note].drop_duplicates(["condition", "pair_id"])
    for phenotype in dict.fromkeys(notes["condition"]):
        of_phenotype = notes[notes["condition"] == phenotype]
        counts: Mapping[tuple[str, str], int] = of_phenotype.value_counts(
            ["label", "group"]
        ).to_dict()
        training = [NOTHING] * len(_CELLS)
        tested = [str(counts.get(cell, 0)) for cell in _CELLS]
        yield [_in_words(phenotype), run.label, *training, *tested]


def _in_words(phenotype: str) -> str:
    return phenotype.replace("_", " ")
