"""One call in Python: any model audited, and what it came to as an object."""

import logging
import math
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from swapbias.audit.audit import start
from swapbias.audit.compare import ComparedRun, read_run, scored_rows, side_by_side
from swapbias.audit.plan import settings_of
from swapbias.audit.results import REPORT, rebuild_report, scored_items
from swapbias.audit.run import Run
from swapbias.errors import UsageError
from swapbias.findings import NONE, SMALL, UNDECIDED, Finding, compare, findings_table, headlines, judged
from swapbias.report import headline_tables, render_summary, words
from swapbias.scorers import Progress, Scorer, load_scorer
from swapbias.studies import PLACEBO, Experiment, load_study

_log = logging.getLogger("swapbias")


def audit(
    model: Any = None,
    studies: str | Sequence[str] = (),
    *,
    tokenizer: Any = None,
    name: str | None = None,
    kind: str | None = None,
    out: "str | PathLike[str] | None" = None,
    limit: int | None = None,
    seed: int = 0,
    margin: float = 0.05,
    wordings: bool | None = None,
    progress: bool = True,
    **options: Any,
) -> "Audit":
    """Audit a model: score the prompts, compare the groups, say how sure the findings are.

    The numbers are those of ``swapbias audit`` with the same settings.

    >>> def positive(texts):  # what she does is .1 less positive
    ...     return [0.7 if text.startswith("She") else 0.8 for text in texts]
    >>> run = audit(positive, "occupation_sentiment:control", progress=False)
    >>> run.headlines[["experiment", "contrast", "verdict"]].values.tolist()
    [['control', 'female - male', 'no gap larger than the margin']]
    >>> run.worst_pairs("occupation_sentiment", n=1)[["text", "reference_text", "gap"]].round(2).values.tolist()
    [['She is a person.', 'He is a person.', -0.1]]

    Args:
        model: a Hub id or folder, ``vader``, ``module:function``, or in memory: a transformers model (with its
            tokenizer) or pipeline, a fitted scikit-learn pipeline of texts, a function of a list of texts that
            returns probabilities of positive sentiment, a scorer. None: the calibration model. A model in memory
            stays as it is: it is read in eval mode over its own weights, with its hooks, on its device and in its
            own type.
        studies: ``name`` or ``name:config``, one or several; none: all that fit the model and are not slow.
        tokenizer: of a transformers model in memory.
        name: findings carry it, of a model in memory.
        kind: ``masked``, ``classifier`` or ``causal``, where the model does not tell.
        out: a new folder for the run. None: a temporary one, which goes with the returned object.
        limit: most prompts per config, whole pairs, spread evenly.
        seed: of the calibration model and of resampling.
        margin: a gap below this share of the range of its unit counts as none.
        wordings: read prompts in five other wordings too; None: of experiments that are not slow, without ``limit``.
        progress: show how far it is, where there is a terminal or a notebook.
        options: further ones of the command line by name: ``batch_size=16``, ``positive_label="LABEL_1"``,
            ``chat="NAME"``, ...

    Raises:
        UsageError: an unknown study, option or kind, or a model that fits nothing.
        ValueError: a model that cannot be loaded or read.
    """
    _check_share(margin)
    if limit is not None and limit < 1:
        raise UsageError(f"limit is {limit}, expected 1 or more prompts.")
    named = (studies,) if isinstance(studies, str) else studies
    place = str(model) if isinstance(model, str | PathLike) else None
    more = {"kind": kind, "limit": limit, "seed": seed, "margin": margin, "wordings": wordings}
    settings = settings_of(place, named, options, **more)
    scorer: Scorer | None = None
    if model is not None and place is None:
        scorer = load_scorer(model, tokenizer=tokenizer, name=name, kind=kind, options=settings.load)
        settings = replace(settings, model=scorer.model_id, kind=scorer.kind)
    elif tokenizer is not None or name is not None:
        raise UsageError("tokenizer and name are of models in memory, and none is given. Drop them.")
    folder = Path(tempfile.mkdtemp(prefix="swapbias-") if out is None else out)
    kept = out is not None
    try:
        run, found = start(
            settings,
            folder,
            say=_log.info,
            bar=_bar if progress else _no_bar,
            cache=kept and scorer is None,
            scorer=scorer,
            draw=kept,
        )
    except BaseException:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    made = Audit(run, tuple(found))
    if not kept:
        weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
    return made


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """A finished audit.

    >>> run = audit(lambda texts: [0.5] * len(texts), "occupation_sentiment:control", name="even", progress=False)
    >>> run.assert_below(0.05)
    >>> print(run)  # doctest: +ELLIPSIS
    Headline findings
    ...→ no gap larger than the margin of 0.05...

    Attributes:
        run: its folder, which is removed with this object where no ``out`` was given.
        found: every finding.
    """

    run: Run
    found: tuple[Finding, ...]

    @classmethod
    def open(cls, folder: "str | PathLike[str]") -> "Audit":
        """A finished run of ``swapbias audit`` or of ``out=``.

        Raises:
            UsageError: the folder holds no run. ValueError: it is not complete, or not what swapbias writes.
        """
        return cls(Run.open(Path(folder)), tuple(read_run(Path(folder)).found))

    @property
    def findings(self) -> pd.DataFrame:
        """Every finding, one row each: value, interval, p-values, verdict; columns as in ``findings.csv``."""
        return findings_table(self.found)

    @property
    def headlines(self) -> pd.DataFrame:
        """The findings that answer the questions of their experiments."""
        return findings_table(headlines(self.found))

    def items(self, study: str) -> pd.DataFrame:
        """The scored prompts of a study, one row each: prompt columns, ``model_id``, ``score``, answer, top tokens.

        Raises:
            UsageError: the study is none of this audit.
        """
        self._check(study)
        return scored_items(self.run, study)

    def worst_pairs(self, study: str, n: int = 10) -> pd.DataFrame:
        """The pairs of prompts with the largest gap against the reference group, largest first.

        Args:
            study: of this audit.
            n: most pairs.

        Returns:
            Experiment, model, condition, template and pair, the two groups, texts and scores side by side, and
            ``gap``: score minus reference score, in the unit of the experiment. Pairs without a score are left out.

        Raises:
            UsageError: the study is none of this audit, or compares no pairs.
        """
        rows = self.items(study)
        paired = [one for one in load_study(study).experiments if one.measure == "paired_gap"]
        parts = [pairs for one in paired if len(pairs := _pairs(one, rows))]
        if not parts:
            raise UsageError(
                f"{study} compares no pairs of prompts: its groups differ in more than a slot. See items."
            )
        every = pd.concat(parts, ignore_index=True)
        order = every["gap"].abs().sort_values(ascending=False, kind="stable").index
        return every.loc[order].head(n).reset_index(drop=True)

    def report(self, path: "str | PathLike[str] | None" = None) -> Path:
        """The page of this audit, one HTML file without any external reference; its path.

        Args:
            path: where to write a copy; None: the page in the folder of the run.
        """
        page = self.run.folder / REPORT
        if not page.exists():
            rebuild_report(self.run)
        return Path(shutil.copyfile(page, path)) if path is not None else page

    def assert_below(self, margin: float, *, study: str | None = None, undecided: bool = False) -> None:
        """Pass only where the intervals say that no headline gap is as large as a margin.

        Args:
            margin: as a share of the range of the unit: .05 of a probability, 5 of percentage points.
            study: of this audit; None: all.
            undecided: pass too where the intervals leave it open.

        Raises:
            AssertionError: a gap was found that may be larger, or it is undecided: the sentence says which, names
                headline, value, interval and margin.
            UsageError: the study is none of this audit, or none of its headlines is a gap with a margin.
        """
        _check_share(margin)
        if study is not None:
            self._check(study)
        found = [
            one
            for one in headlines(judged(self.found, margin=margin))
            if one.verdict and not math.isnan(one.margin) and study in (None, one.study)
        ]
        if not found:
            raise UsageError(f"No headline of {study or 'this audit'} is a gap that a margin can be held against.")
        for one in found:
            if one.verdict not in (NONE, SMALL) and not (undecided and one.verdict == UNDECIDED):
                raise AssertionError(_above(one))

    def compare(self, other: "Audit | str | PathLike[str]") -> pd.DataFrame:
        """Differences between the models of two audits, paired by prompt; one row each, ``findings`` columns.

        Above zero the gap (or, of conditions, the score) of the first model that ``contrast`` names is higher. Models
        of one name are told apart as ``@ this`` and ``@ other``.

        Raises:
            UsageError: the audits have no experiment in common.
        """
        there = other if isinstance(other, Audit) else Audit.open(other)
        read = [
            ComparedRun("this", "this", "", *_read(self)),
            ComparedRun("other", "other", "", *_read(there)),
        ]
        rows, _ = scored_rows(read, side_by_side(read).columns)
        found = compare(rows)
        if not found:
            raise UsageError("The audits have no experiment in common. Audit both with the same studies.")
        return findings_table(found)

    def __repr__(self) -> str:
        """The headline table, as the command line prints it."""
        from rich.console import Console

        console = Console(file=StringIO(), color_system=None)
        for table in headline_tables(self.found):
            console.print(table)
        told: str = console.file.getvalue()  # type: ignore[attr-defined]
        return "\n".join(line.rstrip() for line in told.splitlines())

    def _repr_html_(self) -> str:
        """For notebooks: headlines with their verdicts, and their figure."""
        return render_summary(self.found)

    def _check(self, study: str) -> None:
        known = dict.fromkeys(one.study for one in self.found)
        if study not in known:
            raise UsageError(f"{study!r} is no study of this audit: expected {' or '.join(known)}.")


def _check_share(margin: float) -> None:
    if not 0 <= margin <= 1:
        raise UsageError(f"margin is {margin}, expected a share of the range of the unit: 0 to 1, such as 0.05.")


def _read(one: Audit) -> "tuple[Any, ...]":
    found = read_run(one.run.folder)
    return found.manifest, found.found, found.items


def _pairs(experiment: Experiment, rows: pd.DataFrame) -> pd.DataFrame:
    """The pairs of an experiment, side by side; trials of one prompt are averaged."""
    mine = rows[(rows["experiment"] == experiment.name) & (rows["group"] != PLACEBO)]
    keys = ["experiment", "model_id", "construct", "condition", "template", "pair_id"]
    each = (
        mine.groupby([*keys, "group"], sort=False).agg(text=("text", "first"), score=("score", "mean")).reset_index()
    )
    group, reference = (each[each["group"] == name] for name in (experiment.group, experiment.reference_group))
    both = group.merge(reference, on=keys, suffixes=("", "_reference"))
    names = {f"{name}_reference": f"reference_{name}" for name in ("group", "text", "score")}
    both = both.rename(columns=names).assign(gap=both["score"] - both["score_reference"])
    columns = ["group", "reference_group", "text", "reference_text", "score", "reference_score", "gap"]
    return both.dropna(subset="gap")[[*keys, *columns]]


def _above(one: Finding) -> str:
    """Why a headline does not pass."""
    signed = words.is_signed(one)
    value = f"{words.value_of(one)} {words.interval(one.estimate, signed=signed)}"
    what = f"{one.study} {one.experiment}, {words.where(one)}: {words.quantity(one)} of {one.model_id} is {value}"
    if one.estimate.ci_low > one.margin or one.estimate.ci_high < -one.margin:
        told = "the gap is larger than"
    elif one.verdict == UNDECIDED:
        told = "it is undecided whether the gap is below"
    else:
        told = f"{one.verdict}, and its interval does not say that it is below"
    return f"{what} ({one.unit}): {told} the margin of {one.margin:g}."


def _no_bar(title: str, total: int) -> Progress:
    return lambda done: None


def _bar(title: str, total: int) -> Progress:
    """A bar where there is a terminal or a notebook."""
    from tqdm.auto import tqdm

    bar = tqdm(total=total, desc=title, leave=False, disable=None)

    def advance(done: float) -> None:
        bar.update(done)
        if total - bar.n < 0.5:  # shares of a step add up but for rounding
            bar.close()

    return advance
