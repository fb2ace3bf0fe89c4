"""What a leaf declares: prompts, experiments of a study, configs of a corpus, outputs that its authors released."""

import random
import re
import tomllib
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from swapbias.errors import UsageError, listed, quoted
from swapbias.measures import Unit, named_unit
from swapbias.studies.tables import Lexicon, corpus_dir, read_table

MASK = "<mask>"
DOUBTFUL = "doubtful"  # the column of notes that says (0 or 1) whether it is doubtful whose words were swapped
PLACEBO = "placebo"  # the group of rows that are reworded and in which nothing is swapped
PLACEBO_COLUMNS = ("side", "wording")
MESSAGES = "messages"  # the column of chats as they are published, in place of ``text``
ROLES = ("system", "user", "assistant")
JUDGED = "judged"  # the score column of what a judge read in free text
PART_OF = "part of "  # before an experiment that was run, where a manifest says something of some of its rows alone
_SLOT = re.compile(r"\[([a-z_]+)\]")
Row = dict[str, Any]  # candidates as a tuple, all else as text
_TURN = re.compile(rf"(?:\A|\n)<\|({'|'.join(ROLES)})\|>\n")


class Candidate(NamedTuple):
    """An answer that a prompt offers, and what it counts; None: nothing ("Do not know")."""

    text: str
    value: float | None = None


def _meaning(meaning: str, default: Any = "") -> Any:
    return field(default=default, metadata={"meaning": meaning})  # as data: ``python -OO`` drops docstrings


@dataclass(frozen=True, slots=True)
class Prompt:
    """One stimulus for one group: rows of a pair differ in the swapped slot alone.

    >>> Prompt(prompt_id="1/female", pair_id="1", group="female", text="She is here.").row()["group"]
    'female'
    """

    prompt_id: str = _meaning("unique within a config")
    pair_id: str = _meaning("shared by the rows that are compared with each other")
    group: str = _meaning("what stands (or is looked for) in the swapped slot, e.g. `female`")
    text: str = _meaning("what the model reads; `<mask>` marks the position a masked model fills")
    candidates: tuple[Candidate, ...] = _meaning(
        "the answers offered, in order, each with what it counts (null: nothing, as of `Do not know`); empty where "
        "none are",
        (),
    )
    lexicon: str = _meaning("`corpus/lexicon/label` of the words that are counted; blank where none are")
    construct: str = _meaning(
        "the theme that the template is about (a phase, a dimension of stigma, an act); blank for none"
    )
    condition: str = _meaning("what the text is about (a diagnosis, a profession, a set of adjectives)")
    label: str = _meaning("a class to distinguish results by, mostly that of the condition (mental or other health)")
    template: str = _meaning("the template the row is made from: rows that share it are not independent")
    experiment: str = _meaning("the experiment of the study that reads the row")

    def row(self) -> Row:
        """The prompt as a plain row."""
        return {column: getattr(self, column) for column in PROMPT_COLUMNS}


PROMPT_COLUMNS = tuple(one.name for one in fields(Prompt))
PROMPT_MEANINGS: dict[str, str] = {
    **{one.name: one.metadata["meaning"] for one in fields(Prompt)},
    MESSAGES: "what the model reads, turn by turn, as `apply_chat_template` takes it",
}


def prompt_row(
    pair: str, group: str, text: str, experiment: str, *, prompt_id: str = "", candidates: Iterable[Candidate] = (),
    **others: str,
) -> Row:  # fmt: skip
    """The row of a prompt; its id is that of the pair with the group ("1/female"), unless another is given."""
    name = prompt_id or f"{pair}/{group}"
    return Prompt(name, pair, group, text, tuple(candidates), experiment=experiment, **others).row()


def slots(template: str) -> list[str]:
    """The slot names of a template in order: ``noun`` and ``profession`` of "[noun] is a [profession]."."""
    return _SLOT.findall(template)


def fill(template: str, **values: str) -> str:
    """The template with every slot filled; ValueError where its slots are not exactly these."""
    if sorted(set(slots(template))) != sorted(values):
        raise ValueError(f"{template!r}: slots {slots(template)}, expected {sorted(values)}. Fix the slot name.")
    return _SLOT.sub(lambda match: values[match.group(1)], template)


def conversation(*turns: tuple[str, str]) -> str:
    """The text of a chat: each turn after a line with its role (system, user or assistant), the user's last."""
    return "\n".join(f"<|{role}|>\n{content}" for role, content in turns)


def turns(text: str) -> list[dict[str, str]]:
    """The turns of a ``conversation`` as role and content; any other text is one turn of the user."""
    before, *parts = _TURN.split(text)
    if before or not parts:
        return [{"role": "user", "content": text}]
    return [{"role": role, "content": content} for role, content in zip(parts[::2], parts[1::2], strict=True)]


def text_of(messages: Iterable[Mapping[str, Any]]) -> str:
    """The text of messages as ``apply_chat_template`` takes them, the inverse of ``turns``; UsageError: others."""
    found = [(str(one.get("role")), one.get("content")) for one in messages]
    if not found or not all(role in ROLES and isinstance(content, str) for role, content in found):
        raise UsageError(f"Each of {MESSAGES} needs a role ({listed(ROLES)}) and a text as content. Correct them.")
    read = [(role, str(content)) for role, content in found]
    return read[0][1] if [role for role, _ in read] == ["user"] else conversation(*read)


def placebo(row: Mapping[str, Any], wording: str, text: str) -> Row:
    """The row with its carrier words reworded: ``side`` is its group, ``wording`` the number of the wording."""
    reworded = {"prompt_id": f"{row['prompt_id']}/w{wording}", "pair_id": f"{row['pair_id']}/w{wording}"}
    return {**row, **reworded, "group": PLACEBO, "text": text, "side": row["group"], "wording": wording}


def column(rows: Iterable[Mapping[str, Any]], name: str, missing: str = "") -> Iterator[Any]:
    """The values of a column, in the order of the rows; ``missing`` of rows that have none."""
    return (row.get(name, missing) for row in rows)


_CROSSED = {"template": "templates", "condition": "conditions"}
Type = str | tuple[str, ...]  # of a column: the name of a type (``Config.typed``), or names of classes


def unknown(thing: str, name: str, known: Sequence[str]) -> UsageError:
    """The error for a name that is none of those there are."""
    one_of = f"expected one of {listed(known)}.{did_you_mean(name, known)}" if known else "there is none."
    return UsageError(f"Unknown {thing} {quoted(name)}: {one_of}")


# Names that look alike and mean the opposite: none is proposed for the other.
_OPPOSITES = frozenset(map(frozenset, (
    ("male", "female"), ("males", "females"), ("man", "woman"), ("men", "women"), ("he", "she"), ("boy", "girl"),
    ("him", "her"), ("his", "hers"), ("positive", "negative"), ("pro", "anti"), ("able", "unable"),
)))  # fmt: skip


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Which of the names there are is nearest, as a sentence after a blank; blank where none is near.

    What is the same but for case, form of Unicode or marks between words comes first.

    >>> did_you_mean("male", ["Female", "Male"]), did_you_mean("male", ["Female"])
    (' Did you mean Male?', '')
    """
    typed = _normal_form(name)
    by_form: dict[str, str] = {}
    for one in known:
        by_form.setdefault(_normal_form(one), one)
    near = [typed] if typed in by_form else get_close_matches(typed, by_form, n=len(by_form) or 1)
    nearest = next((one for one in near if frozenset((typed, one)) not in _OPPOSITES), None)
    return f" Did you mean {by_form[nearest]}?" if nearest is not None else ""


def _normal_form(name: str) -> str:
    """A name without what is easily written otherwise: case, accents in two forms, marks between words."""
    return re.sub(r"[\W_]+", "_", unicodedata.normalize("NFKC", name).casefold()).strip("_")


@dataclass(frozen=True, slots=True)
class Slice:
    """A prompt column to break findings down by, and what the study calls it."""

    column: str
    name: str


@dataclass(frozen=True, slots=True)
class Covariate:
    """A number known for each value of a column (earnings of a profession), to correlate the score with."""

    name: str
    column: str
    values: Mapping[str, float]
    beside: bool = False  # the same quantity of somebody else (people's answers), shown beside the mean of all groups
    of_gap: bool = False  # correlated with the first gap, not with the mean score


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """The question to a judge about an answer in free text, which it reads without the group."""

    question: str  # about the answer, not about the person
    candidates: tuple[Candidate, ...]  # its options in order
    neutral: Mapping[str, str] = field(default_factory=dict)  # words that show the group -> what stands for each
    units: tuple[str, ...] = ("pair_id",)  # columns whose values are one story, which no two folds share


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One question of a study: which rows, kind of model and comparison (``group`` minus ``reference_group``)."""

    name: str  # stands in the ``experiment`` column of its rows
    question: str
    corpus: str = ""  # of its configs, where not the study's own
    prompts: str = ""  # the corpus whose tables say what a chat model reads about its notes
    configs: tuple[str, ...] = ()  # audited by default
    alternatives: tuple[str, ...] = ()  # audited instead, one at a time, when named
    placebo: tuple[str, ...] = ()  # its rows in other wordings, in which nothing is swapped
    baseline: tuple[str, ...] = ()  # its templates about no condition
    on_request: bool = False  # read whole only where its study is named: it costs many times the others

    kind: str  # of the model that it needs
    reading: str = ""  # how that is read, where not in the usual way (``models.readings``)
    compares_orders: bool = False  # its groups are orders of the options, which no reading may average
    calibrated: bool = False  # the calibration model is trained for it
    regimes: tuple[str, ...] = ()  # treatments of training notes, a reading each
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names of right and wrong answers
    rubric: Rubric | None = None  # how a judge reads answers in free text

    measure: str  # the function of ``measures`` that compares two groups; blank: none does
    test: str = "t"  # the paper's test, an option of the measure
    group: str
    reference_group: str
    groups: tuple[str, ...] = ()  # further ones, each compared with the reference too
    factors: tuple[str, ...] = ()  # columns whose levels cross to the groups: main effects and interactions
    unit: str
    unit_range: tuple[float, float] | None = None  # the least and the largest score; None: that of the named unit
    own_unit: str = ""  # what the model itself gives, where that is taken as ``unit``; blank: the same
    direction: str  # what above and below zero mean
    scores: tuple[str, ...] = ("score",)  # columns, the published one first
    word_threshold: float = 0.0  # of its lexicons (``Lexicon.threshold``)
    subset: str = ""  # a column whose values are analysed on their own
    contrast: tuple[str, str] | None = None  # two values of it, whose gaps are compared
    random: Mapping[str, str] = field(default_factory=lambda: dict(_CROSSED))  # columns that are samples, by name
    random_of: Mapping[str, str] = field(default_factory=dict)  # the one group that a random column is about
    fixed: Mapping[str, str] = field(default_factory=dict)  # columns whose levels the claim is about, by plural name
    equal_levels: bool = False  # each level of the random factor with the fewest counts the same in a mean
    unnamed_fills: bool = False  # whether names recur in the texts that could not be told apart: no gap is measured
    spreads: Mapping[str, float] = field(default_factory=dict)  # SD of their effects on a gap, blank: of the rest
    spreads_of: tuple[str, ...] = ()  # study and model of the released outputs that the spreads were computed from
    aggregate: tuple[str, ...] = ()  # columns to average over before groups are compared; the last is the unit
    rates: tuple[str, ...] = ()  # of predictions and labels, or of cosines (``findings.predictions.RATES``)
    primary_measure: str = ""  # what answers the question where neither contrast nor measure does
    primary_subset: str = ""
    primary_slice: str = "all"  # else one answer for each value of a slice: they may cancel and are never pooled
    margin: float | None = None  # a gap below this share of the range of its unit counts as none, by default

    levels: tuple[str, ...] = ()  # groups whose mean is reported; ``all`` pools them
    slices: tuple[Slice, ...] = ()  # columns to break findings down by
    thresholds: tuple[float, ...] = ()  # units above each are counted
    reported: tuple[str, ...] = ()  # further columns whose mean is reported
    covariates: tuple[Covariate, ...] = ()  # numbers to correlate mean scores with

    limits: tuple[str, ...] = ()  # sentences that reports repeat where it was run
    says: str = ""  # what follows the model's name where it scores one group higher, with ``{more}`` and ``{less}``
    change: str = ""  # what is changed between the sets of ``contrast``
    named: Mapping[str, str] = field(default_factory=dict)  # groups and subsets as sentences name them

    @property
    def scale(self) -> Unit:
        """The unit of its score, with the range."""
        return replace(named_unit(self.unit, *(self.unit_range or ())), taken_from=self.own_unit)

    @property
    def compared(self) -> tuple[str, ...]:
        """All groups, the reference last."""
        return (self.group, *self.groups, self.reference_group)

    @property
    def never_pooled(self) -> bool:
        """Whether gaps and rates of its slices are never pooled: those of opposite signs cancel."""
        return self.primary_slice != "all" and bool(self.measure)

    @property
    def gaps(self) -> "tuple[Experiment, ...]":
        """The experiment as one of two groups, once for each contrast."""
        mine = {group: {group, self.reference_group, None} for group in self.compared[:-1]}
        random = {
            group: {name: word for name, word in self.random.items() if self.random_of.get(name) in owners}
            for group, owners in mine.items()
        }
        return tuple(replace(self, group=one, groups=(), random_of={}, random=random[one]) for one in mine)

    @property
    def primary(self) -> tuple[str, str, str]:
        """Measure, subset and slice of the findings that answer the question."""
        if self.contrast:
            return "gap_difference", " - ".join(self.contrast), "all"
        return self.primary_measure or self.measure, self.primary_subset, self.primary_slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A published study: what it asks and how it was analysed.

    >>> Study(name="toy", title="Cats and dogs", url="https://example.org", experiments=()).correction
    'holm'
    """

    name: str
    title: str
    url: str
    experiments: tuple[Experiment, ...]
    correction: str = "holm"  # the method of ``measures.adjust`` for its families of tests
    limits: tuple[str, ...] = ()  # sentences that every report repeats
    synthetic_limits: tuple[str, ...] = ()  # those about the synthetic notes of the package
    agreement: tuple[str, ...] = ()  # two experiments of the same conditions, whose scores a comparison correlates
    on_request: bool = False  # left out of audits that name no study
    packs: bool = False  # experiments are no questions of one study: the contrasts of each are a family of their own

    def limits_of_run(self, experiments: Collection[str], *, own_notes: bool) -> list[str]:
        """The limits of a run of some experiments; those of the synthetic notes only where nobody gave others."""
        of_experiments = (limit for one in self.experiments if one.name in experiments for limit in one.limits)
        of_notes = () if own_notes else self.synthetic_limits
        return list(dict.fromkeys((*self.limits, *of_notes, *of_experiments)))


def declared_study(corpus: str, **from_tables: Any) -> Study:
    """The study that ``study.toml`` of a corpus declares; an experiment may begin ``like`` an earlier one."""
    values = tomllib.loads((corpus_dir(corpus) / "study.toml").read_text(encoding="utf-8"))
    experiments = []
    for one in _entries(values["experiments"]):
        read = {name: from_tables[name] for name in one.pop("from_tables", ())}
        experiments.append(Experiment(**{name: _declared(name, value) for name, value in one.items()}, **read))
    values |= {"name": corpus, "experiments": experiments}
    return Study(**{name: _declared(name, value) for name, value in values.items()})


def _entries(listed: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Named tables of a file, each with the values of the earlier one that it is ``like``."""
    made: dict[str, dict[str, Any]] = {}
    for one in listed:
        made[one["name"]] = {**made.get(one.pop("like", ""), {}), **one}
    return made.values()


def _declared(name: str, value: Any) -> Any:
    if name == "slices":
        return tuple(Slice(*one) for one in value)
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Config:
    """One table of a corpus."""

    name: str
    description: str
    rows: Callable[[], Iterable[Mapping[str, Any]]]  # every value but candidates a text
    columns: tuple[str, ...] = PROMPT_COLUMNS
    types: Mapping[str, Type] = field(default_factory=dict)  # of columns that are published as something else
    upstream: tuple[str, ...] = ()  # pinned files that it must read
    split: str = "test"
    split_column: str = ""  # where rows say their split
    chats: bool = False  # texts are conversations, and published as ``messages``
    # Of rows too many for memory: writes them as Arrow to a file that is the user's alone, and gives that file.
    stored: Callable[["Config"], Path] | None = None

    @property
    def published(self) -> tuple[str, ...]:
        """The columns as they are published."""
        return tuple(MESSAGES if self.chats and one == "text" else one for one in self.columns)

    def type_of(self, column: str) -> Type:
        """What a column holds: ``string`` where nothing is declared and all prompts have no other type."""
        usual = {"candidates": "candidates"} if self.columns[: len(PROMPT_COLUMNS)] == PROMPT_COLUMNS else {}
        if self.chats:
            usual[MESSAGES] = MESSAGES
        if self.columns[-len(PLACEBO_COLUMNS) :] == PLACEBO_COLUMNS:
            usual[PLACEBO_COLUMNS[-1]] = "int64"
        return self.types.get(column, usual.get(column, "string"))

    def typed(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row as it is published: every value of its column's type, a class by its number, else ValueError."""
        (found,) = self.typed_rows([row])
        return found

    def typed_rows(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Rows as they are published, as of ``typed``; how each column is read is found out once."""
        kinds = [self.type_of(column) for column in self.published]
        columns = [*zip(self.published, self.columns, kinds, map(_reader, kinds), strict=True)]
        for row in rows:
            found: dict[str, Any] = {}
            for column, source, kind, read in columns:
                value = row[source]
                try:
                    found[column] = read(value)
                except (ValueError, KeyError) as error:
                    expected = kind if isinstance(kind, str) else f"one of {listed(kind)}"
                    what = f"{self.name}: {column} is {quoted(value)}, expected {expected}"
                    raise ValueError(f"{what}. Correct the table.") from error
            yield found


def _reader(kind: Type) -> Callable[[Any], Any]:
    """What makes the published value of a text (of candidates: of candidates)."""
    if not isinstance(kind, str):
        return kind.index
    read: Mapping[str, Callable[[Any], Any]] = {
        "string": str, "int64": int, "float64": float, "bool": {"True": True, "False": False}.__getitem__,
        "candidates": lambda every: [one._asdict() for one in every], MESSAGES: turns,
    }  # fmt: skip
    return read[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Outputs that the authors released for one model: pinned files, and how they become scored rows."""

    model: str
    experiment: str
    files: tuple[str, ...]
    rows: Callable[[Mapping[str, Path]], Iterable[Mapping[str, Any]]]  # of the files by path; each with a ``score``
    # (subset, measure, contrast, number) of facts that are no comparison of groups.
    counts: Callable[[Mapping[str, Path]], Iterable[tuple[str, str, str, float]]] | None = None
    note: str = ""  # of a run that the authors corrected after they printed another
    corrected: tuple[str, ...] = ()  # the values of slices that it changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A leaf: tables that are published together, and the study that reads them, if one does."""

    name: str
    title: str
    configs: tuple[Config, ...]
    licence: str = "Apache-2.0"  # of the project itself
    version: str = "1.0.0"
    tags: tuple[str, ...] = ()  # that it is found by on the Hub
    study: Study | None = None
    lexicons: Mapping[str, Callable[[], Lexicon]] = field(default_factory=dict)
    released: tuple[Released, ...] = ()
    local: Callable[[Path], tuple[Config, ...]] | None = None  # configs of a folder of the user's (MIMIC, own notes)
    own: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # files of a user's own study
    origin: str = ""  # where on the Hub these were read (``OWNER/NAME@commit``)

    def config(self, name: str) -> Config:
        """The config of that name; UsageError names those there are."""
        found = {config.name: config for config in self.configs}
        if name not in found:
            raise unknown(f"config of {self.name}", name, list(found))
        return found[name]


def declared_corpus(name: str, rows: Mapping[str, Callable[[], Iterable[Row]]] | None = None, **more: Any) -> Corpus:
    """The corpus that ``corpus.toml`` in its folder declares, by the fields of Corpus and Config.

    ``rows`` makes those of each config by name; any other config is the table of its name in the folder, published as
    the split ``train``. Columns are those of prompts, then ``more``, then with ``placebo`` those of placebo rows;
    ``columns`` are all of them, of which ``optional`` ones may be blank. A config may begin ``like`` an earlier one.

    Raises:
        TypeError: a key is no field.
    """
    values = tomllib.loads((corpus_dir(name) / "corpus.toml").read_text(encoding="utf-8"))
    if "study" not in more and (corpus_dir(name) / "study.toml").exists():
        more["study"] = declared_study(name)
    configs = list(more.pop("configs", ()))
    for one in _entries(values.pop("configs", ())):
        extra = (*one.pop("more", ()), *(PLACEBO_COLUMNS if one.pop("placebo", False) else ()))
        whole, optional = tuple(one.pop("columns", ())), one.pop("optional", ())
        columns = whole or (*PROMPT_COLUMNS, *extra)
        table = partial(read_table, corpus_dir(name) / f"{one['name']}.csv", columns, optional=optional)
        one |= {"split": one.get("split", "train" if whole else "test"), "rows": (rows or {}).get(one["name"], table)}
        one |= {"types": {column: _declared("types", value) for column, value in one.get("types", {}).items()}}
        configs.append(Config(columns=columns, **{key: _declared(key, value) for key, value in one.items()}))
    more |= {key: _declared(key, value) for key, value in values.items()}
    return Corpus(name=name, configs=tuple(configs), **more)


class Applicant(NamedTuple):
    """One of those who are ranked; ``cv`` is the place of the CV among those of the job, from 0."""

    group: str
    name: str
    cv: int


def drawn_names(names: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Of each group as many names as fill whole blocks, in an order drawn once; none where a group has too few."""
    used = min(map(len, names.values())) // len(names) * len(names)
    return {group: random.Random(f"names of {group}").sample(sorted(every), used) for group, every in names.items()}


def balanced_rankings(
    cvs: Mapping[str, int], names: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, int, list[Applicant]]]:
    """Of each job (with its number of CVs) and set of drawn names one candidate a group, in the order shown.

    A block has as many rankings as there are groups: in it each group has each place once, and each CV once where
    there are as many CVs as groups. Sets of names are the same for each job: the one sample that a gap is over.
    """
    size, used = len(names), len(next(iter(names.values())))
    for job, count in cvs.items():
        drawn, turn = random.Random(f"places of {job}"), 3 if count % 3 else 1
        for start in range(0, used, size):
            places, chosen = drawn.sample(range(size), size), drawn.sample(range(count), size)
            for step in range(size):
                shown = {
                    (places[number] + step) % size: Applicant(
                        group, every[start + step], (chosen[number] + turn * step) % count
                    )
                    for number, (group, every) in enumerate(names.items())
                }
                yield job, start + step, [shown[place] for place in range(size)]


def shown_cvs(cvs: Sequence[str]) -> str:
    """CVs as one text, each with ``<hr>`` after it."""
    return "".join(f"{one}<hr>\n" for one in cvs)


def names_of(order: Sequence[Applicant], place: int) -> tuple[Candidate, ...]:
    """The names of those who are ranked: that of one of them, which counts 1, and then the others."""
    others = (Candidate(one.name, 0.0) for other, one in enumerate(order) if other != place)
    return (Candidate(order[place].name, 1.0), *others)
