"""Experiments: the questions of a study, which rows they read and how two groups of them are compared."""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator

from swapbias.errors import did_you_mean, listed, quoted
from swapbias.measures import Unit, comparison_of, comparisons, units
from swapbias.studies.declared_values import (
    EXPECTED,
    FOR_PACKAGE,
    SET_BY_AUDIT,
    Columns,
    Covariate,
    Group,
    Groups,
    Number,
    Numbers,
    Quantile,
    Rates,
    Rubric,
    Share,
    Slice,
    Switch,
    Text,
    Texts,
    as_list,
    as_numbers,
    read_rubric,
    read_slices,
    read_unit,
)
from swapbias.studies.option_texts import read_options
from swapbias.studies.prompt import Candidate

if TYPE_CHECKING:
    from swapbias.measures import Comparison


class Declared(BaseModel):
    """A part of a declaration: what is no field is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, arbitrary_types_allowed=True
    )

    def changed(self, **values: Any) -> Self:
        """Copy with other values, which are not checked.

        Args:
            values: by field; those of a section as a mapping: ``compares={...}``.

        Raises:
            TypeError: a name is no field.
        """
        if strange := sorted(values.keys() - type(self).model_fields):
            raise TypeError(f"{type(self).__name__} has no {listed(strange)}.")
        update = {name: self._part(name, value) for name, value in values.items()}
        return self.model_copy(update=update)

    def _part(self, name: str, value: Any) -> Any:
        """Give the new value of a field; of a section a copy with the values of a mapping."""
        section = getattr(self, name)
        if isinstance(section, Declared) and isinstance(value, Mapping):
            return section.changed(**value)
        return value


class NotesRead(Declared):
    """The clinical notes that are read, by models that read notes."""

    corpus: Text = ""
    """The corpus whose notes are read, where it is not the study's own."""
    prompts: Text = ""
    """The corpus whose tables say what a chat model is asked about a note."""
    regimes: Texts = ()
    """Treatments of training notes, each of which trains a classifier."""


class Reads(Declared):
    """The rows that are read, and the way in which the model is read on them."""

    configs: Annotated[Texts, FOR_PACKAGE] = ()
    """The configs that are audited."""
    alternatives: Annotated[Texts, FOR_PACKAGE] = ()
    """Configs that are audited in their place, one at a time, where they are named."""
    rewordings: Annotated[Texts, FOR_PACKAGE] = ()
    """Configs of the same rows in other wordings, in which nothing is swapped."""
    baseline: Annotated[Texts, FOR_PACKAGE] = ()
    """Configs of the same templates about no condition."""
    notes: Annotated[NotesRead, FOR_PACKAGE] = NotesRead()
    """Which clinical notes are read."""
    reading: Text = ""
    """How the model is read; blank: in the usual way of its kind. Of own studies for chat models: how an answer is
    read (options, text, person or ranking)."""
    answers: Annotated[
        tuple[Candidate, ...],
        BeforeValidator(lambda value: read_options(value, "answers")),
        Field(json_schema_extra={EXPECTED: "a list of texts, each value=option"}),
    ] = ()
    """The options of a chat model's answer and what each counts, ``["0=Yes", "1=No", "=It depends"]``; blank: not
    counted. Two must count differently."""
    ask: Text = ""
    """What is asked above the CVs of a ranking; ``[job]`` is the job."""
    aliases: Annotated[Mapping[str, str], SET_BY_AUDIT] = {}
    """Other names of right and wrong answers."""
    rubric: Annotated[Rubric | None, PlainValidator(read_rubric)] = None
    """What judges are asked of an answer in free text: a question, and options with what each counts."""
    word_threshold: Annotated[Share, FOR_PACKAGE] = 0.0
    """The least probability at a mask from which a word counts."""
    calibrated: Annotated[Switch, FOR_PACKAGE] = False
    """Whether the calibration model is trained for it."""


class Primary(Declared):
    """The findings that answer the question, where neither contrast nor measure says so."""

    measure: Text = ""
    """Their measure; blank: the one that compares the groups."""
    subset: Text = ""
    """The value of ``subset`` that they are about; blank: all rows."""
    slice: Text = "all"
    """The slice, one answer for each of its values, which may cancel and are never pooled; ``all``: one answer."""


def _known_measure(value: str) -> str:
    names = comparisons.COMPARISONS.names()
    if value and value not in names:
        near = did_you_mean(value, names) or f" Expected one of {listed(names)}."
        raise ValueError(
            f"measure is {quoted(value)}, and no measure compares groups by this name.{near}"
        )
    return value


class Compares(Declared):
    """The groups that are compared, the measure and its unit."""

    measure: Annotated[Text, AfterValidator(_known_measure)] = "paired_gap"
    """The measure that compares each group with the reference: ``paired_gap``, ``median_gap`` (the median of pairs)
    or ``group_gap`` (rows that are no pairs). Another package may add more. Blank: none."""
    test: Annotated[Literal["t", "welch"], FOR_PACKAGE] = "t"
    """The paper's test, whose p-value is reported next to ours as published."""
    groups: Groups = ()
    """The groups that are compared with the reference, in order; own studies may name the reference too."""
    reference: Group = ""
    """The group that is subtracted."""
    factors: Annotated[Texts, FOR_PACKAGE] = ()
    """Columns whose levels cross to the groups: main effects and interactions are tested. Of one (also ``group``)
    each level is compared with the mean of the others, with ``contrast`` in one set less another."""
    subset: Annotated[Text, FOR_PACKAGE] = ""
    """A column whose values are analysed one by one."""
    contrast: Annotated[
        tuple[Text, Text] | None, BeforeValidator(lambda value: value or None), FOR_PACKAGE
    ] = None
    """Two values of it, whose gaps are compared."""
    unit: Annotated[Unit, PlainValidator(read_unit)] = units.UNNAMED_SCORE
    """What the score is, with its range: the name of a unit of the package, or ``{name = "stars", range = [0, 5]}``.
    Answers have the range of their options."""
    margin: Share | None = None
    """The gap that counts as small, as a share of the range of the unit (5 points is 0.05); by default 0.05."""
    orders: Annotated[Switch, FOR_PACKAGE] = False
    """Whether the groups are orders of the options, which no reading may average."""
    slopes: Annotated[Mapping[Text, Text], FOR_PACKAGE] = {}
    """Columns of a number for each group and value of the first random column, with its name. Scores follow it by the
    interaction of the two, within each value of the other random columns."""
    primary: Annotated[Primary, FOR_PACKAGE] = Primary()
    """Which findings answer the question."""

    @property
    def group(self) -> str:
        """The first group that is compared; blank where none is."""
        return next(iter(self.groups), "")


class Design(Declared):
    """The claim of a gap: columns that are samples of many, and columns that the claim is about."""

    random: Columns = {}
    """Random factors: columns whose values are some of many, with a plural for sentences. In own studies they are
    added to templates and words, and to columns that recur with four values or more."""
    random_of: Annotated[Mapping[str, str], SET_BY_AUDIT] = {}
    """The one group that a random column is about."""
    fixed: Columns = {}
    """Columns whose values the claim is about, however many. In own studies they are added to columns that recur
    with two or three values."""
    equal_levels: Annotated[Switch, SET_BY_AUDIT] = False
    """Whether each value of the random column with the fewest counts the same in a mean."""
    shared_fills: Switch = False
    """Whether a name or word may stand for two groups, as "she" in stereotypes and in other sentences."""
    unnamed_fills: Annotated[Switch, SET_BY_AUDIT] = False
    """Whether names recur in the texts that could not be told apart: then no gap is measured."""
    planned_sd: Annotated[Mapping[str, Number], FOR_PACKAGE] = {}
    """By random column the SD of its effects on a gap that a plan assumes; blank: of what none of them explains."""
    planned_sd_of: Annotated[Texts, FOR_PACKAGE] = ()
    """Study and model of the outputs from which these SDs were computed."""
    sd_measured_by: Annotated[Literal["authors", "audit"], FOR_PACKAGE] = "authors"
    """Whose outputs they are: those that the ``authors`` released, or those of an ``audit`` by this project."""
    controls: Annotated[Mapping[Text, Text], FOR_PACKAGE] = {}
    """By config that of a positive control, audited with it: where its gap is not above zero, nothing is measured."""
    aggregate: Annotated[Texts, FOR_PACKAGE] = ()
    """Columns to average over before groups are compared; the last is the unit."""


class Shows(Declared):
    """The numbers that are shown beside the answer."""

    scores: Annotated[Texts, FOR_PACKAGE] = ("score",)
    """Columns of scores that are analysed, the published one first."""
    levels: Annotated[Texts, FOR_PACKAGE] = ()
    """Groups whose mean is reported; ``all`` pools them."""
    slices: Annotated[tuple[Slice, ...], BeforeValidator(read_slices)] = ()
    """Columns that break the findings down, with what they are called."""
    decisions: Numbers = ()
    """Scores from which on a decision is positive: how many decisions change with the group, and for whom. A score is
    the mean of a prompt's answers."""
    quantiles: Annotated[tuple[Quantile, ...], as_numbers] = ()
    """Shares of the scores that lie below: the gap between the groups there, as at 0.1, 0.5 and 0.9."""
    thresholds: Annotated[tuple[Number, ...], FOR_PACKAGE] = ()
    """Numbers above each of which units are counted."""
    reported: Annotated[Texts, FOR_PACKAGE] = ()
    """Further columns whose mean is reported."""
    categories: Mapping[Literal["sex", "race"], Text] = {}
    """The columns of sex and race: rates of selection are shown by each and by both. Own studies have them by default
    where columns are called so."""
    covariates: Annotated[tuple[Covariate, ...], SET_BY_AUDIT] = ()
    """Numbers to correlate mean scores with."""
    rates: Annotated[tuple[Rates, ...], FOR_PACKAGE] = ()
    """Rates of predictions and labels, of answers, or of cosines; geometric means of ratios of probabilities. Of
    answers ``balance``: which of two is given more; ``exchanges``: by words or by places; ``markedness``: D."""
    beside: Annotated[Mapping[Text, Text], FOR_PACKAGE] = {}
    """Measures (value, p) or scores (mean of ``all``) in the row of a slice's gap on the page, by their headings."""
    folded: Annotated[Texts, FOR_PACKAGE] = ()
    """Measures whose gaps by slice are folded on the page."""


class Words(Declared):
    """The words in which sentences say what was found."""

    direction: Annotated[Text, FOR_PACKAGE] = ""
    """What above and below zero mean, and which is worse."""
    says: Annotated[Text, FOR_PACKAGE] = ""
    """What follows the model's name where it scores one group higher, with ``{more}`` and ``{less}``."""
    says_of_contrast: Annotated[Text, FOR_PACKAGE] = ""
    """The same of a rise from the second set of ``contrast`` to the first. Alone: a gap in one set is no claim."""
    named: Annotated[Mapping[str, Text], FOR_PACKAGE] = {}
    """Groups and values of ``subset`` as sentences name them."""
    limits: Annotated[Texts, FOR_PACKAGE] = ()
    """Sentences that reports repeat where the experiment was run."""


class Question(Declared):
    """A question, in sections."""

    question: Text = ""
    """What is asked, shown above its answer; of own studies the title where nothing is stated."""
    reads: Reads = Reads()
    """The rows that are read, and how."""
    compares: Compares = Compares()
    """The groups that are compared, the measure and its unit."""
    design: Design = Design()
    """The claim of a gap."""
    shows: Shows = Shows()
    """The numbers that are shown beside the answer."""
    words: Words = Words()
    """The words in which sentences say what was found."""

    def decision_faults(self) -> Iterator[str]:
        """Say which scores of a decision lie beyond the scale."""
        unit = self.compares.unit
        for threshold in self.shows.decisions:
            if threshold < unit.low or threshold > unit.high:
                scale = f"scores go from {unit.low:g} to {unit.high:g}"
                yield f"decisions has {threshold:g}, and {scale}. Correct it."


class Experiment(Question):
    """One question of a study: which rows, kind of model and comparison (a group minus ``reference``)."""

    name: Text = ""
    """What it is called; stands in the ``experiment`` column of its rows."""
    kind: Text = ""
    """The kind of model that can answer, as ``swapbias list`` names them."""
    on_request: Switch = False
    """Whether it is read whole only where its study is named: it costs many times the others."""
    own_family: Switch = False
    """Whether its intervals and p-values are for itself alone, not at once for the questions of its study."""
    from_tables: tuple[Literal["aliases", "covariates", "rubric"], ...] = ()
    """Fields whose values its builder reads from tables."""

    @property
    def comparison(self) -> "Comparison | None":
        """The comparison of two groups; None where they are not compared."""
        return comparison_of(self.compares.measure)

    @property
    def is_paired(self) -> bool:
        """True where pairs of rows are compared."""
        comparison = self.comparison
        return comparison is not None and comparison.is_paired

    @property
    def compared(self) -> tuple[str, ...]:
        """All groups, the reference last."""
        return (*self.compares.groups, self.compares.reference)

    @property
    def never_pooled(self) -> bool:
        """True where gaps and rates of its slices are never pooled: those of opposite signs cancel."""
        return self.compares.primary.slice != "all" and bool(self.compares.measure)

    @property
    def gaps(self) -> "tuple[Experiment, ...]":
        """The experiment as one of two groups, once for each contrast."""
        return tuple(self._about(group) for group in self.compares.groups)

    def in_unit(self, unit: Unit) -> "Experiment":
        """Copy the experiment with its score in another unit.

        Args:
            unit: the unit of the score.
        """
        return self.changed(compares={"unit": unit})

    def _about(self, group: str) -> "Experiment":
        """Give the experiment as one of a group and the reference, with the random columns that are about them."""
        owners = {group, self.compares.reference, None}
        random = {
            column: name
            for column, name in self.design.random.items()
            if self.design.random_of.get(column) in owners
        }
        return self.changed(
            compares={"groups": (group,)}, design={"random": random, "random_of": {}}
        )

    @property
    def primary(self) -> tuple[str, str, str]:
        """Measure, subset and slice of the findings that answer the question."""
        if self.compares.contrast:
            return "gap_difference", " - ".join(self.compares.contrast), "all"
        chosen = self.compares.primary
        return chosen.measure or self.compares.measure, chosen.subset, chosen.slice


class Source(Declared):
    """The name of a study and its source."""

    name: Annotated[
        Text,
        Field(
            pattern=r"^[a-z][a-z0-9_]{0,49}$",
            json_schema_extra={EXPECTED: "a-z, 0-9 and _, a letter first, 50 at most"},
        ),
    ] = "study"
    """What the study is called: a-z, 0-9 and _, a letter first, 50 at most."""
    title: Text = "study"
    """One line for reports."""
    url: Annotated[
        Text,
        Field(
            pattern=r"^(https?://.*)?$",
            json_schema_extra={EXPECTED: "one that begins with https://"},
        ),
    ] = ""
    """Where the study is described."""
    limits: Texts = ()
    """Sentences that every report repeats."""


class Study(Source):
    """A study: what it asks and how it was analysed.

    >>> Study(name="toy", title="Cats and dogs", url="https://example.org").correction
    'holm'
    """

    correction: Literal["holm", "bonferroni"] = "holm"
    """How p-values of a family are corrected."""
    synthetic_limits: Texts = ()
    """Limits of the synthetic notes of the package."""
    agreement: Texts = ()
    """Two experiments of the same conditions, whose scores a comparison correlates."""
    on_request: Switch = False
    """Whether audits that name no study leave it out."""
    notice: Text = ""
    """A sentence before the texts of a page or dataset card: that these may hurt."""
    family: Literal["study", "experiment"] = "study"
    """Tests corrected together: the questions of the study, or the contrasts of each experiment of a pack."""
    experiments: tuple[Experiment, ...] = ()
    """The questions."""

    def control_of(self, experiment: Experiment) -> Experiment | None:
        """Return the experiment that is the positive control of another; None where it has none.

        Args:
            experiment: an experiment of the study.
        """
        wanted = {*experiment.design.controls.values()}
        for control in self.experiments:
            if wanted & {*control.reads.configs, *control.reads.alternatives}:
                return control
        return None

    def limits_of_run(self, experiments: Collection[str], *, own_notes: bool) -> list[str]:
        """List the limits of a run of some experiments.

        Args:
            experiments: their names.
            own_notes: whether the user gave notes; else the limits of synthetic ones are among them.
        """
        limits = [*self.limits]
        if not own_notes:
            limits += self.synthetic_limits
        for experiment in self.experiments:
            if experiment.name in experiments:
                limits += experiment.words.limits
        return list(dict.fromkeys(limits))


# of models that read prompts
Kind = Literal["masked", "classifier", "causal", "chat", "tagger", "retrieval"]
OwnReading = Literal["", "text", "person", "options", "ranking"]


class OwnStudy(Question, Source):
    """A user's own study: one question, asked of every kind of model that can answer it."""

    licence: Text = "other"
    """The licence of your texts."""
    version: Annotated[
        Text,
        Field(
            pattern=r"^\d+\.\d+\.\d+$", json_schema_extra={EXPECTED: "three numbers as in 1.0.0"}
        ),
    ] = "1.0.0"
    """Raise it when the texts change."""
    kind: Annotated[tuple[Kind, ...], as_list] = ()
    """Kinds of models that can answer; all that fit where nothing is stated."""

    @property
    def reading(self) -> str:
        """The way in which a chat model's answer is read."""
        return self.reads.reading or "text"

    @property
    def is_ranking(self) -> bool:
        """True where candidates are ranked."""
        return self.reading == "ranking"
