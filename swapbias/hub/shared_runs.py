"""Repositories of shared runs: reading and writing them, and several runs side by side as a static Space."""

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from swapbias import __version__
from swapbias.errors import HubError, UpstreamMissingError, UsageError
from swapbias.hub.audit_cards import is_ours, is_run_name, prompts_read, results_card
from swapbias.hub.bundle import Bundle, item_type, run_name
from swapbias.hub.cards import CARD, decode, dump, markdown, md_table, split
from swapbias.hub.client import HUB_FILES, READ_LIMIT, SHARED, Change, Hub, Repo, State, difference, is_shared_name
from swapbias.hub.datasets import PushResult, Say, push_repo
from swapbias.models.chat import CHAT, trial_rows
from swapbias.models.clinical import NoteOptions
from swapbias.report import shown
from swapbias.runs import Compared, ComparedRun, compare_runs, load_notes, read_run, write_comparison
from swapbias.studies import (
    PROMPT_COLUMNS,
    Experiment,
    Row,
    config_rows,
    fingerprint,
    having,
    joined,
    load_study,
    studies,
)

MOST_RUNS = 200  # of one repository
MOST_ITEMS = 300_000  # scored rows of one study of a run
_LONGEST_TEXT = 300  # bytes of a column that rows are told apart by
_TEXTS = ("text", "candidates", "answer", "top_tokens")  # what differences do not depend on
_NEEDED = {*PROMPT_COLUMNS, "model_id", "score"}.difference(_TEXTS)
_RESULTS = re.compile(r"runs/([^/]+)/results\.json")
_FILES = ("manifest.json", "results.json")
_MOST_FAILURES = 3  # runs that the Hub does not give: after them it is the Hub's trouble and not theirs


def find_run(named: "str | PathLike[str]") -> ComparedRun:
    """A finished run by its folder, or by its name on the Hub: OWNER/NAME[/RUN][@REVISION].

    Raises:
        UsageError: no such folder or repository, or one of several runs. ValueError: not what swapbias writes.
        HubError: the Hub refuses or cannot be reached.
    """
    name = fspath(named)
    if Path(name).exists() or not is_shared_name(name):
        return read_run(Path(name))
    runs, broken = load_all_shared(Hub(), [name])
    if len(runs) == 1:
        return runs[0]
    if not runs:
        raise UsageError(f"{name} is no folder here, and no run on the Hub that can be read: {broken[0]}")
    has = ", ".join(shown(one.name) for one in runs)
    raise UsageError(f"{name} holds {len(runs)} runs ({has}), expected one. Name it as OWNER/NAME/RUN.")


def load_all_shared(hub: Hub, names: Sequence[str]) -> tuple[list[ComparedRun], list[str]]:
    """The runs of several repositories, and why those that cannot be read cannot: they do not stop the others.

    Args:
        hub: where they are.
        names: as ``is_shared_name`` takes them.
    """
    runs: list[ComparedRun] = []
    broken: list[str] = []
    for name in dict.fromkeys(names):
        parts = SHARED.fullmatch(name)
        repo, run, revision = parts.groups() if parts else (name, "", "")
        try:
            found, unreadable = load_shared(hub, repo, revision=revision or "main", only=run or "")
        except (UsageError, HubError) as error:
            broken.append(str(error))
            continue
        runs += found
        broken += unreadable.values()
    return runs, broken


def load_shared(
    hub: Hub, repo_name: str, *, revision: str = "main", only: str = "", strict: bool = False
) -> tuple[list[ComparedRun], dict[str, str]]:
    """The runs of a results repository, all read at one commit, and by name why others cannot be read.

    Args:
        hub: where it is.
        repo_name: OWNER/NAME.
        revision: branch, tag or commit.
        only: the name of one run; all of them by default.
        strict: a run that the Hub does not give now is an error and not a broken run; one that holds something else
            than swapbias writes stays a broken one.

    Raises:
        UsageError: there is no such repository, or it holds no runs.
        HubError: the Hub refuses or cannot be reached.
    """
    repo = Repo("dataset", repo_name)
    state = hub.state(repo, revision=revision)
    if state is None:
        raise UsageError(f"{repo_name} is no dataset repository that can be seen. Check its name, or log in.")
    names = sorted(found[1] for found in map(_RESULTS.fullmatch, state.files) if found and only in ("", found[1]))
    if not names:
        run = f"runs/{shown(only) or 'NAME'}/results.json"
        raise UsageError(f"{repo_name} holds no {run}. Name a repository made with swapbias share.")
    if len(names) > MOST_RUNS:
        raise UsageError(f"{repo_name} holds {len(names)} runs, at most {MOST_RUNS} are read. Name another one.")
    runs: list[ComparedRun] = []
    broken: dict[str, str] = {}
    failed = 0
    for name in names:
        try:
            runs.append(_run(hub, state, name))
        except HubError as error:
            failed += 1
            if strict or failed > _MOST_FAILURES:
                raise
            broken[name] = str(error)
        except ValueError as error:
            broken[name] = str(error)
    return runs, broken


def _run(hub: Hub, state: State, name: str) -> ComparedRun:
    """One run."""
    paths = [f"runs/{name}/{file}" for file in _FILES]
    if paths[0] not in state.files:
        where = f"{state.repo.name}/{shown(f'runs/{name}')}"
        raise ValueError(f"{where}: manifest.json is missing. Its owner can share it again.")
    with tempfile.TemporaryDirectory(prefix="swapbias-") as folder:
        hub.download(state.repo, Path(folder), paths, revision=state.commit, limit=READ_LIMIT)
        run = read_run(Path(folder) / "runs" / name, repo=state.repo.name, commit=state.commit)
    return replace(run, items=partial(_items, hub, state, name, run.manifest))


def _items(hub: Hub, state: State, name: str, manifest: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """The scored rows of a run by study, with the installed texts of the prompts that it read, and no others."""
    there = [path for study in studies() if (path := f"runs/{name}/items/{study}.parquet") in state.files]
    if not there:
        return {}
    where = f"{state.repo.name}/{shown(f'runs/{name}')}"
    with tempfile.TemporaryDirectory(prefix="swapbias-") as folder:
        paths = hub.download(state.repo, Path(folder), there, revision=state.commit, limit=READ_LIMIT)
        return {path.stem: _with_texts(path.stem, _rows(path, where), manifest) for path in paths}


def _with_texts(study: str, rows: pd.DataFrame, manifest: Mapping[str, Any]) -> pd.DataFrame:
    """The rows with the texts of the installed prompts, blank for other prompts; no texts where none is installed."""
    texts = {
        (experiment.name, row["prompt_id"]): row["text"]
        for entry in manifest["corpora"]
        if entry["corpus"] == study and "training" not in entry
        for experiment, prompts in _installed(entry, manifest["settings"])
        for row in prompts
    }
    keys = zip(rows["experiment"], rows["prompt_id"], strict=True)
    return rows.assign(text=[texts.get(key, "") for key in keys]) if texts else rows


def is_installed(entry: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether an entry of a manifest's corpora is of the installed rows, by their sha256."""
    if "training" in entry:  # pairs that are made of notes: the notes are what is published
        own = (settings.get("notes") or {}).get("data")
        notes = () if own else load_notes(NoteOptions(), int(settings.get("seed") or 0)).rows
        return not own and entry["training"] == fingerprint(notes)
    return any(True for _ in _installed(entry, settings))


def _installed(entry: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[tuple[Experiment, Sequence[Row]]]:
    """The experiments that read an entry's configs and whose installed rows have its sha256, with these rows."""
    corpus, names = str(entry["corpus"]), str(entry["config"]).split(", ")
    for experiment in load_study(corpus).experiments if corpus in studies() else ():
        if not set(names) <= {*experiment.configs, *experiment.alternatives}:
            continue
        try:
            rows = joined(having(config_rows(corpus, name), experiment=experiment.name) for name in names)
            if experiment.kind == CHAT.name:
                chat = settings.get("chat") or {}
                trials = int(chat.get("trials") or 1)
                rows = trial_rows(rows, trials, str(chat.get("scoring"))) if len(rows) * trials <= MOST_ITEMS else ()
        except (UpstreamMissingError, TypeError, AttributeError, ValueError):
            continue  # a config of another version, a file that is not at hand, or settings of a stranger's
        if fingerprint(rows) == entry["sha256"]:
            yield experiment, rows


def _rows(path: Path, where: str) -> pd.DataFrame:
    """The rows of a stranger's file: known columns of short texts and numbers, as many as an audit has."""
    wrong = f"{where}: its scored prompts of {shown(path.stem)} are not what an audit writes"
    try:
        schema = pq.read_schema(path)
        types = {name: item_type(path.stem, name) for name in schema.names if name not in _TEXTS}
        types = {name: kind for name, kind in types.items() if kind is not None}
        known = types.keys() >= _NEEDED and len(set(schema.names)) == len(schema)
        if not known or any(schema.field(name).type != kind for name, kind in types.items()):
            raise ValueError(f"{wrong}: it has other columns.")
        if pq.read_metadata(path).num_rows > MOST_ITEMS:
            raise ValueError(f"{wrong}: it has more than {MOST_ITEMS:,} rows.")
        # Texts are read as numbers of words: a few bytes may stand for one long text in every row.
        texts = [name for name, kind in types.items() if kind == pa.string()]
        table = pq.read_table(path, columns=list(types), read_dictionary=texts).replace_schema_metadata()
        words = [chunk.dictionary for name in texts for chunk in table[name].chunks]
        if any((pc.max(pc.binary_length(one)).as_py() or 0) > _LONGEST_TEXT for one in words):
            raise ValueError(f"{wrong}: a text has more than {_LONGEST_TEXT} bytes.")
        rows: pd.DataFrame = table.cast(pa.schema(types)).to_pandas()
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise ValueError(f"{wrong} ({type(error).__name__}).") from error
    return rows


@dataclass(frozen=True, slots=True)
class Update:
    """A results repository as it was looked at, and what must be written; ``state`` is None where it is not there."""

    repo: Repo
    state: State | None
    change: Change
    folder: str
    public: bool

    @property
    def status(self) -> str:
        """What will have been done to it."""
        if self.state is None:
            return "created"
        return "updated" if self.change else "unchanged"

    @property
    def settled(self) -> str:
        """The commit that holds the run as it is already; blank where the run itself is to be written."""
        touched = [*self.change.write, *self.change.delete]
        unchanged = self.state is not None and not any(path.startswith(f"{self.folder}/") for path in touched)
        return self.state.commit if self.state is not None and unchanged else ""


def check_visibility(state: State, *, public: bool) -> None:
    """Refuse a repository that is not as visible as was asked: its visibility is never changed.

    Raises:
        UsageError: it is public and was not to be, or the other way round.
    """
    if not state.private and not public:
        raise UsageError(f"{state.repo.name} is public, and runs are shared privately unless you say --public.")
    if state.private and public:
        raise UsageError(
            f"{state.repo.name} is private, with all that it holds. Make it public on its page, or drop --public."
        )


def prepare(
    hub: Hub, repo: Repo, state: State | None, bundle: Bundle, *, named: bool, public: bool, say: Say
) -> Update:
    """What must be written for the repository to hold this run, and a card of all its runs.

    Args:
        named: the user chose the run's name in it.
        public: everybody may read it.

    Raises:
        UsageError: it holds something else, or another run of that name.
        HubError: a run in it cannot be read now.
        ValueError: its card cannot be added to.
    """
    readme = text_of(hub, state, CARD) if state else ""
    others = _others(hub, state, readme, bundle, named=named, say=say) if state else []
    items = {one.name: _studies(state, one.name) for one in others} | {bundle.name: bundle.studies}
    card = results_card(repo.name, [*others, bundle], items, existing=readme)
    folder = f"runs/{bundle.name}"
    files = difference(state, bundle.files, within=folder)
    top = difference(state, {CARD: card.encode()}, within=CARD)
    return Update(repo, state, Change({**files.write, **top.write}, files.delete), folder, public)


def put(hub: Hub, update: Update, bundle: Bundle) -> PushResult:
    """Write what must be written; ``commit`` of the result holds the run.

    Raises:
        UsageError: the repository is not as visible as it was to be. HubError: the Hub refused, or somebody wrote in
            between.
    """
    state, change, repo = update.state, update.change, update.repo
    if state is not None and not change:
        return PushResult(repo, "unchanged", change, url=hub.url(repo, commit=state.commit), commit=state.commit)
    if state is None:
        hub.create(repo, private=not update.public)
    # Right before the commit: somebody else may have made the repository, or opened it, since it was looked at.
    now = existing_state(hub, repo)
    check_visibility(now, public=update.public)
    if state is None and not set(now.files) <= HUB_FILES:
        raise HubError(f"Somebody else wrote to {repo.name} in between, so that nothing was written. Share again.")
    parent = now.commit if state is None else state.commit
    made = hub.commit(repo, change, f"Share {bundle.name}", parent=parent, never=bundle.never)
    return PushResult(repo, update.status, change, url=hub.url(repo, commit=made.oid), commit=made.oid)


def existing_state(hub: Hub, repo: Repo, *, revision: str = "main") -> State:
    """What a repository holds.

    Raises:
        HubError: it is not there.
    """
    state = hub.state(repo, revision=revision)
    if state is None:
        raise HubError(f"{repo.name} is not there, or the token may not see it. Check its name, or log in.")
    return state


def text_of(hub: Hub, there: State, path: str) -> str:
    """A text of a repository; blank where it is not there.

    Raises:
        ValueError: it is not UTF-8.
    """
    return decode(hub.content(there, path), f"{there.repo.name}/{path}")


def _others(hub: Hub, state: State, readme: str, bundle: Bundle, *, named: bool, say: Say) -> list[ComparedRun]:
    """The other runs that it holds, so far as a card can list them."""
    runs: list[ComparedRun] = []
    broken: dict[str, str] = {}
    if any(path.startswith("runs/") and path.endswith("/results.json") for path in state.files):
        runs, broken = load_shared(hub, state.repo.name, revision=state.commit, strict=True)
    _refuse_foreign(state, readme, bool(runs))
    if named:
        same = [one for one in runs if one.name == bundle.name]
        known = same and run_name(same[0].manifest) == run_name(bundle.manifest)
        if not known and any(path.startswith(f"runs/{bundle.name}/") for path in state.files):
            raise UsageError(f"{state.repo.name} holds another run named {bundle.name}. Choose another --name.")
    others = []
    for one in runs:
        if one.name != bundle.name and (reason := _unlisted(one)):
            say(f"Left out of the card: {reason}")
        elif one.name != bundle.name:
            others.append(one)
    for name, reason in broken.items():
        if name != bundle.name:
            say(f"Left out of the card: {reason}")
    return others


def _refuse_foreign(state: State, readme: str, readable: bool) -> None:
    """A repository is ours by the marks in its card; without any card, by a run that can be read."""
    paths = set(state.files) - HUB_FILES
    if CARD in paths:
        where = f"{state.repo.name}/{CARD}"
        blank = paths == {CARD} and not split(readme).after.removeprefix("---").strip()
        ours = blank or is_ours(readme, where=where)
    else:
        ours = not paths or readable
    if not ours:
        raise UsageError(f"{state.repo.name} holds something else than shared runs. Choose another repository.")


def _unlisted(run: ComparedRun) -> str:
    """Why a card cannot list a run that can be read; blank where it can."""
    if not is_run_name(run.name):
        return f"{run.name!r} is no name of a run, expected a-z, 0-9, dots and dashes. Rename its folder."
    try:
        for pair in {(one.study, one.experiment) for one in run.found}:
            prompts_read(run.manifest, *pair)
    except ValueError as error:  # of a newer version
        return f"{run.name}: {error}"
    return ""


def _studies(state: State | None, run: str) -> Sequence[str]:
    start = f"runs/{run}/items/"
    return [Path(path).stem for path in (state.files if state else ()) if path.startswith(start)]


PAGE = "index.html"
NO_RANKING = (
    "This is a comparison and not a ranking: models stand in the order of their names, and have different "
    "vocabularies, which the studies' word lists cover to different degrees. A value near zero is no proof that a "
    "model is fair: it says that this quantity is small on these prompts."
)
_REPORT = "report.html"  # the page, where a comparison is written with one
_LONGEST_NAME = 200  # characters of a name in a table


def push_comparison(
    hub: Hub, results: Sequence[str], space: str, *, private: bool = False, dry_run: bool = False, say: Say
) -> PushResult:
    """Publish what ``swapbias compare`` makes of shared runs as the static Space ``space``.

    The same results at the same commits change nothing; others make a commit and a tag of their own.

    Args:
        hub: where they are.
        results: repositories of results, as ``swapbias compare`` takes them: OWNER/NAME[/RUN][@REVISION].
        space: OWNER/NAME.
        private: make a new Space private.
        dry_run: write nothing.
        say: told what is left out.

    Raises:
        UsageError: fewer than two runs, nothing in common, or private results for a Space that everybody may read;
            and as ``push_repo``. HubError: the Hub refuses or is out of reach.
    """
    repo = Repo("space", space)
    runs, broken = load_all_shared(hub, results)
    for sentence in broken:
        say(f"Left out: {sentence}")
    if len(runs) < 2:
        raise UsageError(f"{len(runs)} shared runs can be read, expected two or more. Name further repositories.")
    if not private:
        _refuse_private(hub, runs)
    sources = sorted({f"{run.place}@{run.commit}/{run.name}" for run in runs})
    digest = hashlib.sha256("\n".join((__version__, *sources)).encode()).hexdigest()
    compared = compare_runs(runs)
    for sentence in compared.left_out:
        say(sentence)
    return push_repo(
        hub,
        repo,
        space_files(compared, runs, space=space, url=hub.url),
        tag=f"results-{digest[:12]}",
        message=f"Compare {len(runs)} runs of {len({run.place for run in runs})} repositories",
        private=private,
        sdk="static",
        dry_run=dry_run,
        raise_hint="share a run again, or push with the version of swapbias that made it",
        say=say,
    )


def _refuse_private(hub: Hub, runs: Sequence[ComparedRun]) -> None:
    """Numbers of private results would be read by everybody."""
    for place in sorted({run.place for run in runs}):
        state = hub.state(Repo("dataset", place))
        if state is None or state.private:
            raise UsageError(f"{place} is private, and the Space would show it to everybody. Add --private.")


def space_files(
    compared: Compared, runs: Sequence[ComparedRun], *, space: str, url: Callable[..., str]
) -> dict[str, bytes]:
    """The files of the Space by path: page, tables and figures of a comparison, and a card of what was read.

    Args:
        compared: the runs.
        runs: the same, for the list of what was read.
        space: OWNER/NAME.
        url: gives the page of a repository at a commit (``Hub.url``).
    """
    with tempfile.TemporaryDirectory(prefix="swapbias-") as folder:
        write_comparison(Path(folder), compared)
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file()
        }
    metadata = {
        "title": space.rpartition("/")[2],
        "description": "Bias audits of several models side by side",
        "emoji": "⚖️",
        "sdk": "static",
        "app_file": PAGE,
        "license": "apache-2.0",
        "tags": ["bias", "fairness", "swapbias"],
    }
    texts = [f"# Bias audits in {markdown(space)}", NO_RANKING, "## What was read", _read(runs, url)]
    card = f"---\n{dump(metadata)}---\n\n" + "\n\n".join(texts) + "\n"
    page = files.pop(_REPORT)
    return {**files, CARD: card.encode(), PAGE: page}


def _read(runs: Sequence[ComparedRun], url: Callable[..., str]) -> str:
    rows = []
    for run in sorted(runs, key=lambda one: one.key):
        models = ", ".join(dict.fromkeys(one.model_id for one in run.found))
        page = url(Repo("dataset", run.place), commit=run.commit)
        where = f"[{markdown(run.place)} at {run.commit[:8]}]({page})"
        rows.append((markdown(shown(run.name)), markdown(shown(models, _LONGEST_NAME)), where))
    return md_table(("run", "models", "repository at the commit"), rows)
