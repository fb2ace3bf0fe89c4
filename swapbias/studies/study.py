"""What a leaf declares: experiments of a study, configs of a corpus, outputs that its authors released."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from swapbias.errors import UsageError, quoted
from swapbias.studies.prompt import PLACEBO_COLUMNS, PROMPT_COLUMNS
from swapbias.studies.tables import Lexicon, corpus_dir, read_table


def unknown(thing: str, name: str, known: Sequence[str]) -> UsageError:
    """The error for a name that is none of those there are."""
    return UsageError(
        f"Unknown {thing} {quoted(name)}: expected one of {', '.join(known)}.{did_you_mean(name, known)}"
    )


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Which of the names there are was probably meant, as a sentence after a blank; blank where none is near.

    >>> did_you_mean("ocupation_sentiment", ["gendered_stigma", "occupation_sentiment"])
    ' Did you mean occupation_sentiment?'
    """
    near = get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]}?" if near else ""


_CROSSED = {"template": "templates", "condition": "conditions"}
# What the questions to chat models share whose answer is one of several options.
CLOSED_QUESTION: Mapping[str, Any] = MappingProxyType(
    {
        "kind": "chat",
        "reading": "options",
        "unit": "share of answers",
        "scores": ("score", "log_odds", "unanswered", "refused", "said_unsure"),
        "reported": ("outside",),
    }
)


@dataclass(frozen=True, slots=True)
class Slice:
    """A prompt column to break findings down by, and what the study calls it.

    ``ordered``: its values have an order of their own, that of the rows, which figures keep.
    """

    column: str
    name: str
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Covariate:
    """A number known for each value of a column (earnings of a profession), to correlate the score with.

    ``beside``: it is the same quantity of somebody else (people's answers): its mean stands beside that of all groups
    instead. ``of_gap``: it is correlated with the first gap, not with the mean score (a pronoun against another).
    """

    name: str
    column: str
    values: Mapping[str, float]
    beside: bool = False
    of_gap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """What a judge is asked of an answer in free text, which it reads without the group.

    Attributes:
        question: about the answer, not about the person.
        candidates: its options, as ``Prompt.candidates`` has them: ``value=option|value=option``, in order.
        neutral: words that tell the group, beside the gendered ones, and what stands for each (``[name]``).
        units: columns whose values together are one story: answers about one are never in two folds, where it is
            tried to tell the group from what the judge saw.
    """

    question: str
    candidates: str
    neutral: Mapping[str, str] = field(default_factory=dict)
    units: tuple[str, ...] = ("pair_id",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One question of a study: which rows, which kind of model, which comparison.

    Rows:
        name: stands in the ``experiment`` column of its rows. corpus: of its configs, where not the study's own.
        configs: audited by default. alternatives: audited instead, one at a time, when asked for by name.
        placebo: its rows in other wordings, in which nothing is swapped. baseline: its templates about no condition.
        on_request: read whole only where its study is named: it costs many times the others.

    Model:
        kind: the kind of model it needs. reading: how it is read, where not in the usual way (``models.readings``).
        compares_orders: its groups are orders of the options of one question, which no reading may average.
        calibrated: the calibration model is trained for it. regimes: treatments of training notes, a reading each.
        aliases: other names of right and wrong answers. rubric: how a judge reads answers in free text.

    Comparison:
        measure: the function of ``measures`` that compares two groups; test: the paper's test, an option of it.
        group, reference_group: the value is group minus reference. groups: further ones, each compared with it too.
        factors: columns whose levels cross to the groups: main effects and interactions answer the question then.
        unit, direction: of the value, and what above and below zero mean. scores: columns, the published one first.
        subset: a column whose values are analysed on their own; contrast: two of them, whose gaps are compared.
        random: columns whose values are a sample of many, and their name: intervals allow for each. random_of: the
            one group that a random column is about. spreads: SD of the effects of each on a gap, from released
            outputs (blank: of the rest); none: not known before a run.
        aggregate: columns to average over before groups are compared; the last is the unit of the comparison.
        rates: what is made of predictions and true labels, or of cosines (``findings.predictions.RATES``).
        headline_measure, headline_subset: what answers the question where neither contrast nor measure does.
        headline_slice: one answer for each value of this slice: they may cancel and are never pooled.
        margin: a gap below this share of the range of its unit counts as none, by default.

    Beside it:
        levels: groups whose mean is reported; ``all`` pools them. slices: columns to break findings down by.
        thresholds: units above each are counted. reported: further columns whose mean is reported.
        covariates: numbers to correlate mean scores with.

    Sentences:
        says: what follows the model's name where it scores one group higher, with ``{more}`` and ``{less}``.
        change: what is changed between the sets of ``contrast``. named: groups and subsets as sentences name them.
    """

    name: str
    question: str
    kind: str
    measure: str
    group: str
    reference_group: str
    groups: tuple[str, ...] = ()
    factors: tuple[str, ...] = ()
    unit: str
    direction: str
    configs: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    placebo: tuple[str, ...] = ()
    baseline: tuple[str, ...] = ()
    reading: str = ""
    compares_orders: bool = False
    on_request: bool = False
    scores: tuple[str, ...] = ("score",)
    levels: tuple[str, ...] = ()
    slices: tuple[Slice, ...] = ()
    subset: str = ""
    contrast: tuple[str, str] | None = None
    random: Mapping[str, str] = field(default_factory=lambda: dict(_CROSSED))
    random_of: Mapping[str, str] = field(default_factory=dict)
    spreads: Mapping[str, float] = field(default_factory=dict)
    test: str = "t"
    aggregate: tuple[str, ...] = ()
    thresholds: tuple[float, ...] = ()
    reported: tuple[str, ...] = ()
    covariates: tuple[Covariate, ...] = ()
    corpus: str = ""
    regimes: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    calibrated: bool = False
    headline_measure: str = ""
    headline_subset: str = ""
    headline_slice: str = "all"
    margin: float | None = None
    says: str = ""
    change: str = ""
    named: Mapping[str, str] = field(default_factory=dict)
    rubric: Rubric | None = None

    @property
    def compared(self) -> tuple[str, ...]:
        """All groups, the reference last."""
        return (self.group, *self.groups, self.reference_group)

    @property
    def never_pooled(self) -> bool:
        """Whether gaps and rates of its slices are told one by one alone: pooled, those of opposite signs cancel."""
        return self.headline_slice != "all" and bool(self.measure)

    @property
    def gaps(self) -> "tuple[Experiment, ...]":
        """The experiment as one of two groups, once for each contrast."""
        if not self.groups:
            return (self,)
        return tuple(
            replace(self, group=group, groups=(), random_of={}, random={
                name: word for name, word in self.random.items()
                if self.random_of.get(name) in (group, self.reference_group, None)
            })
            for group in self.compared[:-1]
        )  # fmt: skip

    @property
    def headline(self) -> tuple[str, str, str]:
        """Measure, subset and slice of the findings that answer the question."""
        if self.contrast:
            return "gap_difference", " - ".join(self.contrast), "all"
        return self.headline_measure or self.measure, self.headline_subset, self.headline_slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Two experiments that score the same conditions by two kinds of model; a comparison correlates their scores."""

    first: str
    second: str
    direction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """An experiment whose likeliest words people rate: the lexicon that holds their labels, and which there are."""

    experiment: str
    lexicon: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A published study: what it asks and how it was analysed.

    >>> toy = Study(name="toy", title="Cats and dogs", url="https://example.org", experiments=())
    >>> toy.correction, toy.limits
    ('holm', ())

    ``correction`` is the method of ``measures.adjust`` for its families of tests; ``limits`` are sentences
    that every report repeats; ``on_request`` leaves it out of audits that name no study; ``packs``: its experiments
    are no questions of one study, so that the contrasts of each are a family of their own.
    """

    name: str
    title: str
    url: str
    experiments: tuple[Experiment, ...]
    correction: str = "holm"
    limits: tuple[str, ...] = ()
    agreement: Agreement | None = None
    rated: Rated | None = None
    on_request: bool = False
    packs: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """One table of a corpus.

    Attributes:
        rows: makes it, every value a text.
        types: what a column holds that is published as something else than a text: ``bool``, ``int64``, ``float64``,
            or the names of classes in their order (a ClassLabel). Columns that experiments compare by name are texts.
        upstream: pinned files that it must read.
        split: its split; with ``split_column`` the rows say theirs.
        stream: too large for memory: it is written as it is made, and not checked as a whole.
        count: gives the number of rows without making them, where that takes long.
    """

    name: str
    description: str
    rows: Callable[[], Iterable[Mapping[str, str]]]
    columns: tuple[str, ...] = PROMPT_COLUMNS
    types: Mapping[str, "Type"] = field(default_factory=dict)
    upstream: tuple[str, ...] = ()
    split: str = "test"
    split_column: str = ""
    stream: bool = False
    count: Callable[[], int] | None = None

    def type_of(self, column: str) -> "Type":
        """What a column holds: ``string`` where nothing is declared; the number of a wording is one."""
        number = column == PLACEBO_COLUMNS[-1] and self.columns[-len(PLACEBO_COLUMNS) :] == PLACEBO_COLUMNS
        return self.types.get(column, "int64" if number else "string")

    def typed(self, row: Mapping[str, str]) -> dict[str, Any]:
        """A row as it is published: every value of its column's type, a class by its number.

        Raises:
            ValueError: a value that is none of its type.
        """
        found: dict[str, Any] = {}
        for column in self.columns:
            kind, value = self.type_of(column), row[column]
            try:
                found[column] = _READ[kind](value) if isinstance(kind, str) else kind.index(value)
            except (ValueError, KeyError) as error:
                expected = kind if isinstance(kind, str) else f"one of {', '.join(kind)}"
                what = f"{self.name}: {column} is {quoted(value)}, expected {expected}"
                raise ValueError(f"{what}. Correct the table.") from error
        return found


Type = str | tuple[str, ...]
_READ: Mapping[str, Callable[[str], Any]] = {
    "string": str, "int64": int, "float64": float, "bool": {"True": True, "False": False}.__getitem__,
}  # fmt: skip


def table_config(
    corpus: str, name: str, description: str, columns: tuple[str, ...], *, optional: tuple[str, ...] = (),
    types: Mapping[str, Type] | None = None,
) -> Config:  # fmt: skip
    """A table of a corpus as it stands in its folder, to be published as the split ``train``."""
    rows = partial(read_table, corpus_dir(corpus) / f"{name}.csv", columns, optional=optional)
    return Config(name, description, rows, columns, types or {}, split="train")


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Outputs that the authors released for one model: pinned files, and how they become scored rows.

    ``rows`` takes the files by path and yields prompt rows with a ``score``; ``counts`` yields
    (subset, measure, contrast, number) for facts that are no comparison of groups. A run that the authors corrected
    after they printed another has a ``note`` that says so, and ``corrected``, the values of slices that it changes:
    it is shown where it differs from what was printed.
    """

    model: str
    experiment: str
    files: tuple[str, ...]
    rows: Callable[[Mapping[str, Path]], Iterable[Mapping[str, Any]]]
    counts: Callable[[Mapping[str, Path]], Iterable[tuple[str, str, str, float]]] | None = None
    note: str = ""
    corrected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A leaf: tables that are published together, and the study that reads them, if one does.

    ``tags`` are what it is found by on the Hub. ``local`` makes configs from a folder of the user's (MIMIC, own
    notes). Of a study of the user's own, ``own`` are its files by name, and ``origin`` says where on the Hub they
    were read (``OWNER/NAME@commit``).
    """

    name: str
    title: str
    licence: str
    configs: tuple[Config, ...]
    version: str = "1.0.0"
    tags: tuple[str, ...] = ()
    study: Study | None = None
    lexicons: Mapping[str, Callable[[], Lexicon]] = field(default_factory=dict)
    released: tuple[Released, ...] = ()
    local: Callable[[Path], tuple[Config, ...]] | None = None
    own: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    origin: str = ""

    def config(self, name: str) -> Config:
        """The config of that name.

        Raises:
            UsageError: naming the configs there are.
        """
        found = {config.name: config for config in self.configs}
        if name not in found:
            raise unknown(f"config of {self.name}", name, list(found))
        return found[name]


_PART = "part of "


def part_of(experiment: str) -> str:
    """How a manifest names some rows of an experiment, of which it tells something.

    >>> of_a_part(part_of("leakage")), of_a_part("leakage")
    (True, False)
    """
    return f"{_PART}{experiment}"


def of_a_part(name: str) -> bool:
    """Whether the experiment was run, and what is told is of some of its rows alone (``part_of``)."""
    return name.startswith(_PART)
