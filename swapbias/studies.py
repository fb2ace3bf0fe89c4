"""What a study is, and how its leaf (one builder file, one folder of tables) is found by name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.lexicons import Lexicon
from swapbias.prompts import PROMPT_COLUMNS, Prompt, checked
from swapbias.sources import upstream_file

if TYPE_CHECKING:
    from datasets import Dataset


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One question of a study: which rows, which kind of model, which comparison.

    Attributes:
        name: stands in the ``experiment`` column of its rows.
        question: one sentence.
        configs: configs of the corpus that hold its rows, all audited by default.
        alternatives: configs to audit instead, one at a time, when asked for by name.
        kind: the kind of model it needs (``masked``, ``classifier``, ``causal``).
        on_request: run only where its study is named: it costs many times the others.
        reading: how the model is read, where that is not the kind's usual way (see ``scorers.readings``).
        measure: the function of ``measures`` that compares the two groups.
        group, reference_group: the value is group minus reference_group.
        unit: unit of the score and so of the value.
        direction: what above and below zero mean, and which is worse.
        scores: score columns, the published one first.
        levels: groups whose mean is reported beside the comparison; ``all`` pools every group.
        slices: columns to break findings down by.
        subset: column whose values are analysed apart; blank for none.
        contrast: two values of ``subset`` whose gaps are compared.
        cluster: column whose rows are not independent (template); the robust view clusters on it. Blank: none.
        contrast_cluster: the same for the contrast: a column whose values each lie in one subset. Templates stand
            in both subsets, so that their effects cancel; what the subsets differ in (conditions) does not.
        test: the paper's test, an option of the measure.
        units: units of score columns that are in another unit than the published one.
        aggregate: columns to average over before groups are compared, from the finest: the last is the unit of
            the comparison (conditions), whose robust view is a permutation test.
        thresholds: units above each are counted per group (1 counts those that reach it).
        reported: further columns whose mean is reported (the unrated mass).
        grid: two columns whose means are drawn as a heat map.
        covariates: numbers to correlate mean scores with.
    """

    name: str
    question: str
    kind: str
    measure: str
    group: str
    reference_group: str
    unit: str
    direction: str
    configs: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    reading: str = ""
    on_request: bool = False
    scores: tuple[str, ...] = ("score",)
    levels: tuple[str, ...] = ()
    slices: tuple[Slice, ...] = ()
    subset: str = ""
    contrast: tuple[str, str] | None = None
    cluster: str = "template"
    contrast_cluster: str = "condition"
    test: str = "t"
    units: Mapping[str, str] = field(default_factory=dict)
    aggregate: tuple[str, ...] = ()
    thresholds: tuple[float, ...] = ()
    reported: tuple[str, ...] = ()
    grid: tuple[str, str] | None = None
    covariates: tuple[Covariate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A published study: what it asks and how it was analysed.

    ``correction`` is the method of ``measures.adjust`` for its families of tests; ``limits`` are sentences
    that every report repeats.
    """

    name: str
    title: str
    url: str
    experiments: tuple[Experiment, ...]
    correction: str = "holm"
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One table of a corpus. ``rows`` makes it; ``upstream`` names pinned files that it must read."""

    name: str
    description: str
    rows: Callable[[], Iterable[Mapping[str, str]]]
    columns: tuple[str, ...] = PROMPT_COLUMNS
    upstream: tuple[str, ...] = ()
    split: str = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Outputs that the authors released for one model: pinned files, and how they become scored rows.

    ``rows`` takes the files by path and yields prompt rows with a ``score``; ``counts`` yields
    (subset, measure, contrast, number) for facts that are no comparison of groups.
    """

    model: str
    experiment: str
    files: tuple[str, ...]
    rows: Callable[[Mapping[str, Path]], Iterable[Mapping[str, Any]]]
    counts: Callable[[Mapping[str, Path]], Iterable[tuple[str, str, str, float]]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A leaf: tables that are published together, and the study that reads them, if one does."""

    name: str
    title: str
    licence: str
    configs: tuple[Config, ...]
    version: str = "1.0.0"
    study: Study | None = None
    lexicons: Mapping[str, Callable[[], Lexicon]] = field(default_factory=dict)
    released: tuple[Released, ...] = ()

    def config(self, name: str) -> Config:
        """The config of that name.

        Raises:
            UsageError: naming the configs there are.
        """
        for config in self.configs:
            if config.name == name:
                return config
        raise _unknown(f"config of {self.name}", name, [config.name for config in self.configs])


def _unknown(thing: str, name: str, known: Sequence[str]) -> UsageError:
    return UsageError(f"Unknown {thing} {name!r}: expected one of {', '.join(known)}.")


def _leaves(package: str, pattern: str) -> list[str]:
    folder = Path(str(files(package)))
    return sorted(path.stem for path in folder.glob(pattern) if not path.stem.startswith("_"))


def corpora() -> list[str]:
    """Names of all corpora."""
    return _leaves("swapbias.builders", "*.py")


@cache
def load_corpus(name: str) -> Corpus:
    """The corpus of that name.

    Raises:
        UsageError: naming the corpora there are.
    """
    if name not in corpora():
        raise _unknown("corpus", name, corpora())
    corpus: Corpus = import_module(f"swapbias.builders.{name}").CORPUS
    return corpus


def studies() -> list[str]:
    """Names of all studies."""
    return [name for name in corpora() if load_corpus(name).study is not None]


def load_study(name: str) -> Study:
    """The study of that name.

    Raises:
        UsageError: naming the studies there are.
    """
    study = load_corpus(name).study if name in corpora() else None
    if study is None:
        raise _unknown("study", name, studies())
    return study


def metrics() -> list[str]:
    """Names of all evaluate modules."""
    return _leaves("swapbias.metrics", "[a-z]*")


def metric_path(name: str) -> str:
    """The folder of an evaluate module, for ``evaluate.load(metric_path("paired_gap"))``.

    Raises:
        UsageError: naming the modules there are.
    """
    if name not in metrics():
        raise _unknown("measure", name, metrics())
    return str(files("swapbias.metrics") / name)


def config_rows(corpus: str, config: str, *, download: bool = True) -> list[dict[str, str]]:
    """The rows of a config, checked.

    Raises:
        UsageError: unknown corpus or config.
        UpstreamMissingError: an upstream file it needs is not reachable.
        ValueError: a table of the package is broken.
    """
    leaf = load_corpus(corpus)
    wanted = leaf.config(config)
    for path in wanted.upstream:
        upstream_file(corpus, path, download=download)
    rows = [dict(row) for row in wanted.rows()]
    if wanted.columns[: len(PROMPT_COLUMNS)] == PROMPT_COLUMNS:
        kinds = {experiment.name: experiment.kind for experiment in leaf.study.experiments} if leaf.study else {}
        masked = bool(rows) and kinds.get(rows[0]["experiment"]) == "masked"
        list(checked(as_prompts(rows), masked=masked))
    for row in rows:
        if tuple(row) != wanted.columns:
            raise ValueError(f"{corpus}/{config}: columns {list(row)}, expected {list(wanted.columns)}.")
    return rows


def as_prompts(rows: Iterable[Mapping[str, Any]]) -> list[Prompt]:
    """Rows as prompts; columns that a Prompt does not have are left out."""
    return [Prompt(**{name: row[name] for name in PROMPT_COLUMNS}) for row in rows]


def row_count(corpus: str, config: str) -> int | None:
    """Rows of a config, or None where it needs an upstream file that is not on this machine."""
    try:
        return len(config_rows(corpus, config, download=False))
    except UpstreamMissingError:
        return None


def load_prompts(corpus: str, config: str | None = None) -> "Dataset":
    """A config of a corpus as a ``datasets.Dataset`` of strings (the first config by default).

    Raises:
        UsageError: unknown corpus or config.
        UpstreamMissingError: an upstream file it needs is not reachable.
    """
    from datasets import Dataset, Features, Value

    chosen = load_corpus(corpus).config(config) if config else load_corpus(corpus).configs[0]
    features = Features({column: Value("string") for column in chosen.columns})
    rows = config_rows(corpus, chosen.name)
    columns = {column: [row[column] for row in rows] for column in chosen.columns}
    return Dataset.from_dict(columns, features=features)


@cache
def load_lexicon(name: str) -> Lexicon:
    """A lexicon by ``corpus/lexicon``.

    Raises:
        UsageError: naming the lexicons of the corpus.
    """
    corpus, _, lexicon = name.partition("/")
    known = load_corpus(corpus).lexicons
    if lexicon not in known:
        raise _unknown(f"lexicon of {corpus}", lexicon, sorted(known))
    return known[lexicon]()
