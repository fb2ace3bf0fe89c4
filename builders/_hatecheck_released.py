"""The cases of hatecheck, and what the authors released: the label that each model gave each case."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from swapbias.studies import Released, Row, prompt_row, tables
from swapbias.studies.published import ReleasedNumber

NAME = "hatecheck"
CASES = "test_suite_cases.csv"
LABELS = "derived/"
HATEFUL = "hateful"
INNOCENT = "non-hateful"
EXPERIMENTS = {INNOCENT: "false_alarms", HATEFUL: "misses"}
"""By the label of a case the experiment that reads it."""
_SLOT = "[IDENTITY"
_FORMS = {"S": "singular", "P": "plural", "A": "adjective"}


@dataclass(frozen=True, slots=True)
class Case:
    """One text of the suite."""

    case_id: str
    """Its number."""
    functionality: str
    """What it tests."""
    text: str
    """The text as released, with the blank at its end where it has one."""
    label: str
    """``hateful`` or ``non-hateful``."""
    group: str
    """The group that it is about; blank for none."""
    template: str
    """The template, by its number."""
    pattern: str
    """The template, with its slot."""

    @property
    def is_swapped(self) -> bool:
        """True where the template has a slot for the words of a group, so that it is there for every group."""
        return _SLOT in self.pattern

    @property
    def form(self) -> str:
        """The form of the words in the slot: singular, plural or adjective."""
        return _FORMS[self.pattern.partition(f"{_SLOT}_")[2][0]]


def read_cases(path: Path) -> list[Case]:
    """Read the cases of the suite, in order.

    Args:
        path: the table.

    Raises:
        ValueError: a case has an unknown label.
    """
    cases = []
    for row in tables.csv_rows(path):
        if row["label_gold"] not in EXPERIMENTS:
            raise ValueError(
                f"{path.name}: case {row['case_id']} has the label {row['label_gold']!r}, expected {HATEFUL} or "
                f"{INNOCENT}. Correct it."
            )
        cases.append(
            Case(
                case_id=row["case_id"],
                functionality=row["functionality"],
                text=row["test_case"],
                label=row["label_gold"],
                group=row["target_ident"],
                template=f"template {row['templ_id']}",
                pattern=row["case_templ"],
            )
        )
    return cases


def case_row(case: Case, text: str, experiment: str) -> Row:
    """Make the prompt of a case whose template is there for every group.

    Args:
        case: the case.
        text: what a model reads.
        experiment: the experiment that reads it.
    """
    row = prompt_row(
        case.template,
        case.group,
        text,
        experiment,
        construct=case.functionality,
        label=case.label,
        template=case.template,
    )
    return {**row, "identity": case.group, "form": case.form}


def _labelled(files: Mapping[str, Path], path: str) -> list[tuple[Case, str]]:
    """Read each case with the label that a model gave it; ValueError where one has none."""
    labels = {row["case_id"]: row["label"] for row in tables.csv_rows(files[path])}
    cases = read_cases(files[CASES])
    missing = [case.case_id for case in cases if labels.get(case.case_id) not in EXPERIMENTS]
    if missing:
        raise ValueError(
            f"{path}: case {missing[0]} has no label {HATEFUL} or {INNOCENT}, nor have {len(missing) - 1} others."
        )
    return [(case, labels[case.case_id]) for case in cases]


def _rows(path: str, files: Mapping[str, Path]) -> Iterator[Row]:
    """Give the labels of swapped cases as scored rows: 1 for hateful."""
    for case, label in _labelled(files, path):
        if case.is_swapped:
            row = case_row(case, case.text, EXPERIMENTS[case.label])
            yield {**row, "score": float(label == HATEFUL)}


def _accuracy(labelled: Sequence[tuple[Case, str]]) -> float:
    """Return the share of cases whose label is right."""
    return sum(label == case.label for case, label in labelled) / len(labelled)


def _counts(path: str, files: Mapping[str, Path]) -> Iterator[ReleasedNumber]:
    """Compute the accuracies that are published, and the shares called hateful that they pool."""
    labelled = _labelled(files, path)
    for name in dict.fromkeys(case.functionality for case, _ in labelled):
        part = [pair for pair in labelled if pair[0].functionality == name]
        yield ReleasedNumber("", "accuracy", "accuracy", _accuracy(part), "functionality", name)
    swapped = [pair for pair in labelled if pair[0].is_swapped]
    groups = list(dict.fromkeys(case.group for case, _ in swapped))
    for group in groups:
        part = [pair for pair in swapped if pair[0].group == group]
        yield ReleasedNumber("", "accuracy", "accuracy", _accuracy(part), "target group", group)
    for name in (*EXPERIMENTS, "all"):
        part = [pair for pair in labelled if name in ("all", pair[0].label)]
        yield ReleasedNumber("", "accuracy", f"accuracy, {name}", _accuracy(part))
    for gold in EXPERIMENTS:
        for group in groups:
            part = [pair for pair in swapped if (pair[0].group, pair[0].label) == (group, gold)]
            share = sum(label == HATEFUL for _, label in part) / len(part)
            contrast = f"called hateful, of {gold} cases"
            yield ReleasedNumber("", "share_flagged", contrast, share, "target group", group)


def released() -> Iterator[Released]:
    """Every model whose labels are pinned: its name is that of the file."""
    for path in tables.pinned_files(NAME):
        if path.startswith(LABELS):
            yield Released(
                model=PurePosixPath(path).stem,
                experiment="misses",
                files=(CASES, path),
                rows=partial(_rows, path),
                counts=partial(_counts, path),
            )
