"""One call in Python: any model audited, and what it came to as an object."""

import logging
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from swapbias import findings, report, runs
from swapbias.errors import ServiceError, UsageError, arguments_named, extras_named, listed, quoted
from swapbias.files import is_url, write_whole
from swapbias.findings import Finding, findings_table
from swapbias.hub import find_run, own_study, study_names
from swapbias.models import Progress, Scorer, load_scorer
from swapbias.privacy import for_owner_alone, is_credentialed
from swapbias.runs import Results, Run
from swapbias.studies import PLACEBO, Experiment, load_study
from swapbias.swapping import Engine

_log = logging.getLogger("swapbias")
Studies = str | PathLike[str] | Sequence[str | PathLike[str]] | None


@extras_named()
@arguments_named()
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
            pipeline, a fitted scikit-learn pipeline of texts, a function of a list of texts that returns a score for
            each (a probability of positive sentiment where a study of the package asks for that), a scorer; it stays
            as it is. None: the calibration model.
        studies: ``name``, ``name:config``, a folder or ``OWNER/NAME[@REVISION]`` of your own, one or several; none:
            all that fit the model, unless there are prompts.
        tokenizer, name: of a model in memory; findings carry the name.
        kind: ``masked``, ``classifier``, ``regression`` or ``causal``, where the model does not tell.
        out: a folder for the run, or one in a store (``s3://BUCKET/FOLDER``), where the same call resumes a stopped
            run and reads a complete one. None: a temporary folder, which is removed with the returned object.
        limit, seed, margin, wordings: most prompts per config; of resampling; a gap below this share of the range of
            its unit counts as none (None: as the study says, else .05); read prompts in five other wordings too.
        prompts, reference, group, lexicon, unit, range, fixed, shared_fills: your own, as ``open_study`` takes them.
        progress: show bars, where there is a terminal or a notebook.
        engine: ``local`` (this process), ``ray`` (a cluster on this machine), or an ``Engine``.
        own_store: the store of ``out`` is yours alone, so that credentialed notes may lie there.
        options: further ones of the command line by name: ``batch_size=16``, ``positive_label="LABEL_1"``, ...

    Raises:
        UsageError, ValueError: an unknown name or a model that fits nothing, or that cannot be loaded or read.
    """
    named = study_names(_names(studies))
    if prompts is not None:
        words = None if lexicon is None else Path(lexicon)
        of_table: dict[str, Any] = {
            "reference": reference,
            "group": group,
            "lexicon": words,
            "unit": unit,
        }
        named.append(
            own_study(prompts, **of_table, range=range, fixed=fixed, shared_fills=shared_fills).name
        )
    elif (
        reference != ""
        or group != ""
        or lexicon
        or unit
        or range is not None
        or fixed
        or shared_fills
    ):
        raise UsageError(
            "reference, group, lexicon, unit, range, fixed and shared_fills are about own prompts. Add prompts=, or "
            "write them in the study.toml of a folder."
        )
    place = str(model) if isinstance(model, str | PathLike) else None
    more = {"kind": kind, "limit": limit, "seed": seed, "margin": margin, "wordings": wordings}
    settings = runs.settings_of(place, named, options, **more)
    own_store = runs.StoreOptions(own_store=own_store).own_store
    if out is not None and not isinstance(out, str | PathLike):
        raise UsageError(
            f"out is {quoted(out)}, expected a folder or a place in a store. Change out."
        )
    chosen: Any = engine  # which Engine checks
    scorer: Scorer | None = None
    if model is not None and place is None:
        scorer = load_scorer(
            model, tokenizer=tokenizer, name=name, kind=kind, options=settings.load
        )
        settings = replace(settings, model=scorer.model_id, kind=scorer.kind)
    elif tokenizer is not None or name is not None:
        raise UsageError(
            "tokenizer and name are of models in memory, and none is given. Drop them."
        )
    how: dict[str, Any] = {
        "say": _log.info,
        "bar": partial(_bar, disable=None if progress else True),
        "cache": out is not None and scorer is None,
        "scorer": scorer,
        "engine": engine if isinstance(engine, Engine) else Engine(name=chosen),
    }
    if out is not None and not is_url(out):
        with _continued(kept=True):
            run, found = runs.start(settings, Path(out), **how)
        return Audit(run, tuple(found))
    folder = Path(tempfile.mkdtemp(prefix="swapbias-"))
    try:
        if out is None:
            with _continued(kept=False):
                run, found = runs.start(settings, folder, **how, draw=False)
        else:
            store = runs.Store(str(out), own=own_store)
            with store.mirrored() as mirror:
                _, found = runs.start(settings, mirror, **how, store=store)
                shutil.copytree(mirror, folder, dirs_exist_ok=True)
            run = Run(folder, store.url)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    made = Audit(run, tuple(found))
    weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
    return made


def _names(studies: Any) -> Sequence["str | PathLike[str]"]:
    """The names of studies that a call gives, one or several; a UsageError for anything else."""
    is_single = isinstance(studies, str | PathLike) or not isinstance(studies, Iterable)
    names = () if studies is None else (studies,) if is_single else tuple(studies)
    if not all(isinstance(name, str | PathLike) for name in names):
        expected = "a name, a folder, or a list of them"
        raise UsageError(f"studies is {quoted(studies)}, expected {expected}. Change studies.")
    return names


@contextmanager
def _continued(*, kept: bool) -> Iterator[None]:
    """Errors of a service say how the call goes on, by whether its answers are kept."""
    try:
        yield
    except ServiceError as error:
        advice = (
            "The same call goes on."
            if kept
            else "They are not kept: with out=FOLDER the same call goes on."
        )
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

    Attributes:
        run: its folder; a temporary one is removed with this object.
        found: every finding.
    """

    run: Run
    found: tuple[Finding, ...]

    @classmethod
    @arguments_named()
    def open(cls, folder: "str | PathLike[str]") -> "Audit":
        """A finished run of ``swapbias audit`` or of ``out=``; a ValueError for any other folder."""
        return cls(Run.open(Path(folder)), tuple(runs.read_run(Path(folder)).found))

    @property
    def findings(self) -> pd.DataFrame:
        """Every finding, one row each: value, interval, p-values, verdict; columns as in ``findings.csv``."""
        return findings_table(self.found)

    @property
    def primary(self) -> pd.DataFrame:
        """The findings that answer the questions of their experiments."""
        return findings_table(findings.primary_findings(self.found))

    @arguments_named()
    def items(self, study: str) -> pd.DataFrame:
        """The scored prompts of a study of this audit: prompt columns, ``model_id``, ``score``, ``answer``, ..."""
        known = dict.fromkeys(one.study for one in self.found)
        if study not in known:
            raise UsageError(
                f"{study!r} is no study of this audit: expected one of {listed(known)}."
            )
        return self.run.items(study)

    @arguments_named()
    def worst_pairs(self, study: str, n: int = 10) -> pd.DataFrame:
        """The pairs of a study with the largest ``gap`` (score - reference score); UsageError: it has no pairs.

        With more than two groups there is a row for each group of a pair beside the reference group.
        """
        rows = self.items(study)
        paired = [one for one in load_study(study).experiments if one.is_paired]
        contrasts = [contrast for experiment in paired for contrast in experiment.gaps]
        pairs = [part for contrast in contrasts if len(part := _pairs(contrast, rows))]
        if not pairs:
            raise UsageError(f"{study} compares no pairs of prompts. See items.")
        every = pd.concat(pairs).sort_values(
            "gap", key=abs, ascending=False, kind="stable", ignore_index=True
        )
        return every.head(n)

    @arguments_named()
    def report(self, path: "str | PathLike[str] | None" = None) -> Path:
        """The page of this audit, one HTML file without any external reference, or a copy of it; its path."""
        page = self.run.folder / runs.REPORT
        if not page.exists():
            runs.rebuild_report(self.run)
        if path is None:
            return page
        with for_owner_alone(is_credentialed(self.run.folder)):
            write_whole(Path(path), page.read_bytes())
        return Path(path)

    @arguments_named()
    def assert_below(
        self,
        margin: float | None = None,
        *,
        study: str | None = None,
        baseline: "Audit | str | PathLike[str] | None" = None,
        undecided: bool = False,
    ) -> None:
        """Pass only where intervals say that no primary gap is as large as a margin: ``swapbias check`` in Python.

        ``margin``: a share of the range of the unit, None: that of the audit; ``study``: ``name[:experiment]``;
        ``baseline``: another audit of the same prompts (its folder, or OWNER/NAME on the Hub), beside which no gap
        may be larger by the margin;
        ``undecided``: pass too where the intervals leave it open. AssertionError: a gap is larger, or undecided.
        """
        before = None if baseline is None else _read(baseline)
        studies = () if study is None else (study,)
        gate = runs.check_run(self.run.folder, max_gap=margin, studies=studies, baseline=before)
        bad = (findings.FAILS,) if undecided else (findings.FAILS, findings.OPEN)
        if wrong := [one for one in gate.checks if one.outcome in bad]:
            raise AssertionError(" ".join(report.describe_check(one) for one in wrong))

    @arguments_named()
    def compare(self, other: "Audit | str | PathLike[str]") -> pd.DataFrame:
        """Differences between the models of two audits, paired by prompt: ``this - other``, as their contrast says.

        Above 0 the gap of this audit's model is higher.
        """
        both = [
            replace(_read(one), place=name, name=name)
            for name, one in (("other", other), ("this", self))
        ]
        found = runs.compare_runs(both).differences
        if not found:
            raise UsageError(
                "The audits have no experiment in common. Audit both with the same studies."
            )
        return findings_table(found)

    def __repr__(self) -> str:
        """The verdicts, as the command line prints them."""
        return report.render_terminal(self.found)

    def _repr_html_(self) -> str:
        """For notebooks: results with their verdicts."""
        return report.render_summary(self.found)


def _read(one: "Audit | str | PathLike[str]") -> Results:
    return find_run(one.run.folder if isinstance(one, Audit) else one)


def _pairs(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """The pairs of two groups, side by side; trials of one prompt are averaged."""
    mine = rows[(rows["experiment"] == experiment.name) & (rows["group"] != PLACEBO)]
    keys = ["experiment", "model_id", "construct", "condition", "template", "pair_id"]
    each = mine.groupby([*keys, "group"], sort=False, as_index=False).agg(
        {"text": "first", "score": "mean"}
    )
    group, reference = (
        each[each["group"] == name]
        for name in (experiment.compares.group, experiment.compares.reference)
    )
    names = {name: f"reference_{name}" for name in ("group", "text", "score")}
    both = group.merge(reference.rename(columns=names), on=keys)
    both = both.assign(gap=both["score"] - both["reference_score"]).dropna(subset="gap")
    return both[[*keys, *chain.from_iterable(names.items()), "gap"]]


def _bar(title: str, total: int, *, disable: bool | None) -> Progress:
    """A bar, which goes with its last call; where ``disable`` is None, if there is a terminal or a notebook."""
    from tqdm.auto import tqdm

    advance: Progress = tqdm(total=total, desc=title, leave=False, disable=disable).update
    return advance
