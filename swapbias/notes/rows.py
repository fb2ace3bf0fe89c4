"""What a clinical note row holds, and how many notes of each kind the published study had."""

from collections.abc import Mapping, Sequence

from swapbias.errors import UsageError
from swapbias.studies import corpus_dir, read_table

NAME = "clinical_notes"
NOTE_COLUMNS = (
    "note_id", "subject_id", "gender", "phenotype", "label", "split",
    "note_type", "template", "planted", "credentialed", "text",
)  # fmt: skip
PHENOTYPES = ("depression", "alcohol_abuse", "substance_abuse", "psychiatric_disorders")
SPLITS = ("train", "test")
# Sizes are given in this order, as the paper prints them.
CELLS = (("female", "positive"), ("male", "positive"), ("female", "negative"), ("male", "negative"))
Cell = tuple[str, str]
_SIZE_COLUMNS = ("phenotype", "split", "gender", "label", "notes", "source")


def check_phenotype(phenotype: str) -> str:
    """The phenotype unchanged.

    Raises:
        UsageError: it is none of the four.
    """
    if phenotype not in PHENOTYPES:
        raise UsageError(f"Unknown phenotype {phenotype!r}: expected one of {', '.join(PHENOTYPES)}.")
    return phenotype


def published_sizes(phenotype: str) -> dict[str, dict[Cell, int]]:
    """Notes of each split and (gender, label) in the published study (Sogancioglu et al. 2023, Table II).

    Raises:
        UsageError: unknown phenotype.
    """
    check_phenotype(phenotype)
    sizes: dict[str, dict[Cell, int]] = {split: {} for split in SPLITS}
    for row in read_table(corpus_dir(NAME) / "split_sizes.csv", _SIZE_COLUMNS):
        if row["phenotype"] == phenotype:
            sizes[row["split"]][row["gender"], row["label"]] = int(row["notes"])
    return sizes


def named_sizes(sizes: Mapping[str, Sequence[int]]) -> dict[str, dict[Cell, int]]:
    """Sizes by (gender, label) from four counts a split: positive women, men, then negative women, men.

    Raises:
        UsageError: an unknown split, or not four counts of zero or more.
    """
    for split, counts in sizes.items():
        if split not in SPLITS:
            raise UsageError(f"sizes: split {split!r}, expected train or test. Name one of them.")
        if len(counts) != len(CELLS) or any(count != int(count) or count < 0 for count in counts):
            raise UsageError(
                f"sizes of {split}: {list(counts)}, expected four counts of zero or more "
                "(female positive, male positive, female negative, male negative)."
            )
    return {split: dict(zip(CELLS, map(int, counts), strict=True)) for split, counts in sizes.items()}
