"""One call in Python: any model audited, and what it came to as an object."""

import logging
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from swapbias import findings, report, runs
from swapbias.errors import ServiceError, UsageError, extras_named, listed, quoted
from swapbias.files import is_url, write_whole
from swapbias.findings import Finding, findings_table, terms
from swapbias.hub import find_run, own_study, study_names
from swapbias.models import Scorer, load_scorer, progress as progress_bars
from swapbias.models.chat import ChatOptions
from swapbias.privacy import for_owner_alone, is_credentialed
from swapbias.public_calls import public_call
from swapbias.runs import Results, Run
from swapbias.studies import PLACEBO, Experiment, load_study
from swapbias.swapping import Engine

_log = logging.getLogger("swapbias")
Studies = str | PathLike[str] | Sequence[str | PathLike[str]] | None


@extras_named()
@public_call
def audit(
    model: Any = None,
    studies: Studies = (),
    *,
    tokenizer: Any = None,
    name: str | None = None,
    kind: str | None = None,
    out: "str | PathLike[str] | None" = None,
    limit: int | None = None,
    seed: int = 0,
    margin: float | None = None,
    wordings: bool | None = None,
    prompts: Any = None,
    reference: str | float = "",
    group: str | float = "",
    lexicon: "str | PathLike[str] | None" = None,
    unit: str = "",
    range: Sequence[float] | None = None,
    fixed: str | Sequence[str] = (),
    shared_fills: bool = False,
    progress: bool = True,
    engine: "str | Engine" = "local",
    own_store: bool = False,
    **options: Any,
) -> "Audit":
    """Audit a model as ``swapbias audit`` does: score the prompts, compare the groups, say how sure the findings are.

    >>> def positive(texts):  # what she does is .1 less positive
    ...     return [0.7 if text.startswith("She") else 0.8 for text in texts]
    >>> run = audit(positive, "occupation_sentiment:control", progress=False)
    >>> run.primary[["experiment", "contrast", "verdict"]].values.tolist()
    [['control', 'female - male', 'no gap']]
    >>> run.worst_pairs("occupation_sentiment", n=1)[["text", "reference_text", "gap"]].round(2).values.tolist()
    [['She is a person.', 'He is a person.', -0.1]]

    Args:
        model: a Hub id (``OWNER/NAME[@REVISION]``) or folder, ``vader``, ``module:function``, or in memory: a
            transformers model (with its tokenizer; also with adapters of PEFT, compiled, on several devices) or
            pipeline, a SentenceTransformer or CrossEncoder, a fitted scikit-learn pipeline of texts, a function of
            texts that returns a score for each (a probability of positive sentiment where a study of the package asks
            for that), a scorer; it stays as it is. None: the calibration model, and without studies a demonstration.
        studies: ``name``, ``name:config``, a folder or ``OWNER/NAME[@REVISION]`` of your own, one or several; none:
            all that fit the model, unless there are prompts.
        tokenizer: the tokenizer of a model in memory.
        name: the name of a model in memory; findings carry it.
        kind: ``masked``, ``classifier``, ``regression``, ``causal`` or ``retrieval``, where the model does not tell.
        out: a folder for the run, or one in a store (``s3://BUCKET/FOLDER``), where the same call resumes a stopped
            run and reads a complete one. None: a temporary folder, which is removed with the returned object.
        limit: most prompts per config.
        seed: the seed of resampling.
        margin: a gap below this share of the range of its unit counts as none (None: as the study says, else .05).
        wordings: read prompts in five other wordings too.
        prompts: your own, as ``open_study`` takes them.
        reference: the group of ``prompts`` that is subtracted.
        group: the group of ``prompts`` that is compared with it; blank: each other one.
        lexicon: a CSV file of the words (``word``, ``group``) that are counted at ``<mask>`` in ``prompts``.
        unit: what the scores of ``prompts`` are, for a classifier or function.
        range: the least and the largest score of ``prompts``; None: as the model says.
        fixed: columns of ``prompts`` whose levels the claim is about; others that recur over pairs are a sample.
        shared_fills: whether a name or word of ``prompts`` may stand for two groups.
        progress: show bars, where there is a terminal or a notebook.
        engine: ``local`` (this process), ``ray`` (a cluster on this machine), ``vllm`` (GPUs here), or an ``Engine``.
        own_store: the store of ``out`` is yours alone, so that credentialed notes may lie there.
        options: further ones of the command line by name: ``batch_size=16``, ``positive_label="LABEL_1"``, ...

    Raises:
        UsageError: an unknown name, or a model that fits nothing.
        ValueError: a model or rows that cannot be loaded or read.
    """
    names = study_names(_names(studies))
    if prompts is not None:
        study = own_study(
            prompts,
            reference=reference,
            group=group,
            lexicon=None if lexicon is None else Path(lexicon),
            unit=unit,
            range=range,
            fixed=fixed,
            shared_fills=shared_fills,
        )
        names.append(study.name)
    else:
        texts = (reference, group)
        _refuse_settings_of_prompts(*texts, lexicon, unit, range, fixed, shared_fills=shared_fills)
    path = str(model) if isinstance(model, str | PathLike) else None
    options = ChatOptions.in_engine({**options, "engine": engine})
    engine_name = options.pop("engine", "local")  # which Engine checks
    settings = runs.settings_of(
        path,
        names,
        options,
        arguments=signature(audit).parameters,
        kind=kind,
        limit=limit,
        seed=seed,
        margin=margin,
        wordings=wordings,
    )
    own_store = runs.StoreOptions(own_store=own_store).own_store
    if out is not None and not isinstance(out, str | PathLike):
        raise UsageError(
            f"out is {quoted(out)}, expected a folder or a place in a store. Change out."
        )
    scorer: Scorer | None = None
    if model is not None and path is None:
        scorer = load_scorer(
            model, tokenizer=tokenizer, name=name, kind=kind, options=settings.load
        )
        settings = replace(settings, model=scorer.model_id, kind=scorer.kind)
    elif tokenizer is not None or name is not None:
        raise UsageError(
            "tokenizer and name are of models in memory, and none is given. Drop them."
        )
    start = partial(
        _start_with_bars,
        settings,
        show_bars=progress,
        cache=out is not None and scorer is None,
        scorer=scorer,
        engine=engine if isinstance(engine, Engine) else Engine(name=engine_name),
    )
    if out is None:
        return _audit_in_temporary_folder(start)
    if is_url(out):
        return _audit_in_temporary_folder(start, runs.Store(str(out), own=own_store))
    with _advise_to_repeat(kept=True):
        run, findings_of_run = start(Path(out))
    return Audit(run, tuple(findings_of_run))


def _refuse_settings_of_prompts(
    reference: str | float,
    group: str | float,
    lexicon: "str | PathLike[str] | None",
    unit: str,
    range: Sequence[float] | None,
    fixed: str | Sequence[str],
    *,
    shared_fills: bool,
) -> None:
    """Raise a UsageError where a setting of own prompts is given, and no prompts are."""
    is_given = (
        reference != ""
        or group != ""
        or bool(lexicon or unit)
        or range is not None
        or bool(fixed or shared_fills)
    )
    if is_given:
        raise UsageError(
            "reference, group, lexicon, unit, range, fixed and shared_fills are about own prompts. Add prompts=, or "
            "write them in the study.toml of a folder."
        )


def _audit_in_temporary_folder(start: Callable[..., Any], store: Any = None) -> "Audit":
    """Run an audit whose folder goes with the returned object; in a store, which keeps it, or nowhere else."""
    folder = Path(tempfile.mkdtemp(prefix="swapbias-"))
    try:
        if store is None:
            with _advise_to_repeat(kept=False):
                run, findings_of_run = start(folder, draw=False)
        else:
            with store.mirrored() as mirror:
                _, findings_of_run = start(mirror, store=store)
                shutil.copytree(mirror, folder, dirs_exist_ok=True)
            run = Run(folder, store.url)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finished = Audit(run, tuple(findings_of_run))
    weakref.finalize(finished, shutil.rmtree, folder, ignore_errors=True)
    return finished


def _names(studies: Any) -> Sequence["str | PathLike[str]"]:
    """Return the names of studies that a call gives, one or several; a UsageError for anything else."""
    if studies is None:
        return ()
    is_several = isinstance(studies, Iterable) and not isinstance(studies, str | PathLike)
    names = tuple(studies) if is_several else (studies,)
    if not all(isinstance(name, str | PathLike) for name in names):
        raise UsageError(
            f"studies is {quoted(studies)}, expected a name, a folder, or a list of them. "
            "Change studies."
        )
    return names


@contextmanager
def _advise_to_repeat(*, kept: bool) -> Iterator[None]:
    """Let errors of a service say how the call goes on, by whether its answers are kept."""
    try:
        yield
    except ServiceError as error:
        advice = "They are not kept: with out=FOLDER the same call resumes."
        if kept:
            advice = "The same call resumes."
        error.args = (f"{error} {advice}",)
        raise


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """A finished audit.

    >>> def even(texts):  # by the number of letters, whoever it is about
    ...     return [0.4 + len(text) % 10 / 50 for text in texts]
    >>> run = audit(even, "occupation_sentiment:sentences", progress=False)
    >>> run.assert_below(0.05)
    >>> print(run)  # doctest: +ELLIPSIS
    occupation_sentiment:sentences, even: ...
      NO GAP        even's gap, women minus men, is +0.3 points (95 % interval −0.7...
    """

    run: Run
    """Its folder; a temporary one is removed with this object."""
    found: tuple[Finding, ...]
    """Every finding."""

    @classmethod
    @public_call
    def open(cls, folder: "str | PathLike[str]") -> "Audit":
        """Open a finished run of ``swapbias audit`` or of ``out=``.

        Args:
            folder: the folder of the run.

        Raises:
            ValueError: There is no finished run in it.
        """
        return cls(Run.open(Path(folder)), tuple(runs.read_run(Path(folder)).found))

    @property
    def findings(self) -> pd.DataFrame:
        """Return every finding, one row each, with all columns of ``findings.csv`` (docs/columns.md)."""
        return findings_table(self.found)

    @property
    def primary(self) -> pd.DataFrame:
        """Return the findings that answer the questions of their experiments, with the ten columns read most.

        All columns of these rows are ``run.findings.query("primary")``.
        """
        return findings_table(findings.primary_findings(self.found), short=True)

    @public_call
    def items(self, study: str) -> pd.DataFrame:
        """Return the scored prompts of a study of this audit.

        Args:
            study: its name.

        Returns:
            Prompt columns, ``model_id``, ``score``, ``answer``, ...

        Raises:
            UsageError: The study is none of this audit.
        """
        studies = dict.fromkeys(finding.study for finding in self.found)
        if study not in studies:
            raise UsageError(
                f"{study!r} is no study of this audit: expected one of {listed(studies)}."
            )
        return self.run.items(study)

    @public_call
    def worst_pairs(self, study: str, n: int = 10) -> pd.DataFrame:
        """Return the pairs of a study with the largest ``gap`` (score - reference score).

        Args:
            study: its name.
            n: pairs, at most.

        Returns:
            A row for each pair, the largest gap first; with more than two groups for each group of a pair beside the
            reference group.

        Raises:
            UsageError: The study has no pairs, or is none of this audit.
        """
        rows = self.items(study)
        pairs = []
        for experiment in load_study(study).experiments:
            if experiment.is_paired:
                pairs += [_pair_scores(contrast, rows) for contrast in experiment.gaps]
        pairs = [part for part in pairs if len(part)]
        if not pairs:
            raise UsageError(f"{study} compares no pairs of prompts. See items.")
        by_gap = pd.concat(pairs).sort_values(
            "gap", key=abs, ascending=False, kind="stable", ignore_index=True
        )
        return by_gap.head(n)

    @public_call
    def report(self, path: "str | PathLike[str] | None" = None) -> Path:
        """Write the page of this audit, one HTML file without any external reference.

        Args:
            path: the path of a copy; None: the page is that in the folder of the run.

        Returns:
            Its path.
        """
        page = self.run.folder / runs.REPORT
        if not page.exists():
            runs.rebuild_report(self.run)
        if path is None:
            return page
        with for_owner_alone(is_credentialed(self.run.folder)):
            write_whole(Path(path), page.read_bytes())
        return Path(path)

    @public_call
    def assert_below(
        self,
        margin: float | None = None,
        *,
        study: str | None = None,
        baseline: "Audit | str | PathLike[str] | None" = None,
        undecided: bool = False,
    ) -> None:
        """Pass only where intervals say that no primary gap is as large as a margin: ``swapbias check`` in Python.

        Args:
            margin: a share of the range of the unit; None: that of the audit.
            study: ``name[:experiment]``; None: all of them.
            baseline: another audit of the same prompts (its folder, or OWNER/NAME on the Hub), beside which no gap
                may be larger by the margin.
            undecided: pass too where the intervals leave it open.

        Raises:
            AssertionError: A gap is larger, or undecided.
        """
        before = None if baseline is None else _read_results(baseline)
        studies = () if study is None else (study,)
        gate = runs.check_run(self.run.folder, max_gap=margin, studies=studies, baseline=before)
        bad = (terms.FAILS,) if undecided else (terms.FAILS, terms.OPEN)
        wrong = [check for check in gate.checks if check.outcome in bad]
        if wrong:
            raise AssertionError(" ".join(report.describe_check(check) for check in wrong))

    @public_call
    def compare(self, other: "Audit | str | PathLike[str]") -> pd.DataFrame:
        """Return differences between the models of two audits, paired by prompt.

        Args:
            other: another audit, its folder, or OWNER/NAME on the Hub.

        Returns:
            ``this - other``, as their contrast says; above 0 this audit's gap is higher. Notebooks show a chart too.

        Raises:
            UsageError: The audits have no experiment in common.
        """
        results = [
            replace(_read_results(audited), place=name, name=name)
            for name, audited in (("other", other), ("this", self))
        ]
        compared = runs.compare_runs(results)
        if not compared.differences:
            raise UsageError(
                "The audits have no experiment in common. Audit both with the same studies."
            )
        table = _Differences(findings_table(compared.differences))
        table.comparison = compared
        return table

    def __repr__(self) -> str:
        """Write the verdicts, as the command line prints them."""
        return report.render_terminal(self.found)

    def _repr_html_(self) -> str:
        """Write results with their verdicts, for notebooks."""
        return report.render_summary(self.found)


class _Differences(pd.DataFrame):  # type: ignore[misc]
    """Differences of models, which a notebook shows below a chart; a table computed from it has none."""

    _metadata: ClassVar[list[str]] = ["comparison"]
    comparison: "report.ComparisonPage | None" = None

    def _repr_html_(self) -> str:
        """Write the chart of the comparison, and the table."""
        chart = self.comparison._repr_html_() if self.comparison else ""
        return f"{chart}\n{pd.DataFrame(self)._repr_html_()}"


def _read_results(audited: "Audit | str | PathLike[str]") -> Results:
    """Return the results of an audit, or of a run by its folder or repository."""
    return find_run(audited.run.folder if isinstance(audited, Audit) else audited)


def _pair_scores(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs of two groups, side by side; trials of one prompt are averaged."""
    of_experiment = rows[(rows["experiment"] == experiment.name) & (rows["group"] != PLACEBO)]
    keys = ["experiment", "model_id", "construct", "condition", "template", "pair_id"]
    grouped = of_experiment.groupby([*keys, "group"], sort=False, as_index=False)
    prompts = grouped.agg({"text": "first", "score": "mean"})
    group = prompts[prompts["group"] == experiment.compares.group]
    reference = prompts[prompts["group"] == experiment.compares.reference]
    names = {name: f"reference_{name}" for name in ("group", "text", "score")}
    pairs = group.merge(reference.rename(columns=names), on=keys)
    pairs = pairs.assign(gap=pairs["score"] - pairs["reference_score"]).dropna(subset="gap")
    return pairs[[*keys, *chain.from_iterable(names.items()), "gap"]]


def _start_with_bars(settings: Any, folder: Path, *, show_bars: bool, **options: Any) -> Any:
    """Start an audit, with bars where somebody sees them."""
    with progress_bars.watched_bars(_log.info, show_bars=show_bars) as (say, bar):
        return runs.start(settings, folder, say=say, bar=bar, **options)
