"""Runs on the Hub: what of a run may leave, how it is shared and read back, and what a model's page says of it."""

import hashlib
import io
import json
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Unpack

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from swapbias import __version__, privacy, runs, studies
from swapbias.errors import HubError, UpstreamMissingError, UsageError
from swapbias.findings import Finding, Oriented, experiment_of, findings_table, headline_of_each, oriented
from swapbias.hub import cards
from swapbias.hub.client import (
    HUB_FILES,
    READ_LIMIT,
    SHARED,
    Change,
    Hub,
    PushOptions,
    PushResult,
    Repo,
    Say,
    State,
    difference,
    is_shared_name,
    push_repo,
    show_change,
)
from swapbias.measures import Estimate
from swapbias.models import Coverage, weight_files
from swapbias.models.chat import CHAT, scoring_in_words, trial_rows
from swapbias.models.clinical import NoteOptions
from swapbias.notes import OWN, PHENOTYPES, kind_of_folder, load_notes
from swapbias.privacy import check_upload, own_data, refuse
from swapbias.report import shown
from swapbias.runs import LazyItems, Results, Run
from swapbias.studies import PROMPT_COLUMNS

# --- columns of scored prompts ----------------------------------------------------------------------------

TOKENS = "top_tokens"  # a JSON list in a run, a list of tokens with their values in what is shared
_TOKENS = pa.list_(pa.struct([("token", pa.string()), ("value", pa.float64())]))
_TEXTS = ("trial", "looks", "model_id", "answer")  # what an audit writes beside the columns of its prompts
# What scorers give: the score, and the parts that it was made from.
_NUMBERS = re.compile(
    r"score|log_odds|log_odds_per_token|antonym_log_odds|positive_probability|predicted|explained_variance"
    r"|dimensions|frequency_known|without_pair_[0-9]+"
    r"|tokens|truncated|non_finite|(closed_list|matched|pruned|top|positive|negative|neutral|irrelevant|unrated)_mass"
    r"|(said|strict)_(correct|incorrect|unsure|other)|unanswered|refused|not_answered|outside|hidden|length"
    r"|judged(_first|_second)?"
)


def item_type(study: str, column: str) -> pa.DataType | None:
    """The type of a column of scored rows as they are shared; None of one that no audit writes."""
    if column == TOKENS:
        return _TOKENS
    if column in _prompt_columns(study) or column in _TEXTS:
        return pa.string()
    return pa.float64() if _NUMBERS.fullmatch(column) else None


@cache
def _prompt_columns(study: str) -> frozenset[str]:
    """The columns of the prompts that a study reads, its own and those made from a corpus of notes."""
    found = set(PROMPT_COLUMNS)
    for one in studies.load_study(study).experiments:
        corpus = studies.load_corpus(one.corpus or study)
        for name in (*one.configs, *one.alternatives, *one.placebo, *one.baseline):
            found.update(corpus.config(name).columns)
    return frozenset(found)


def shared_items(run: Run, items: Mapping[str, pd.DataFrame]) -> dict[str, bytes]:
    """The scored prompts of each study as Parquet, by path within the run; ``items`` have the models' public names.

    The same rows give the same bytes. Raises ValueError where a column holds something else than an audit writes.
    """
    made = {}
    for study, rows in items.items():
        path = run.folder / "items" / f"{study}.parquet"
        table = pq.read_table(path)
        types = [(name, kind) for name in table.column_names if (kind := item_type(study, name)) is not None]
        columns = {name: table[name] for name, _ in types} | {"model_id": pa.array(rows["model_id"], pa.string())}
        try:
            if TOKENS in columns:
                cells = [json.loads(cell) for cell in rows[TOKENS]]
                tokens = [[{"token": str(one), "value": float(value)} for one, value in cell] for cell in cells]
                columns[TOKENS] = pa.array(tokens, _TOKENS)
            made[f"items/{study}.parquet"] = parquet(pa.table(columns).cast(pa.schema(types)))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} holds numbers or texts of another kind than an audit writes. Audit again."
            ) from error
    return made


def parquet(table: pa.Table) -> bytes:
    """A table as Parquet, without what its maker noted beside it; the same rows give the same bytes."""
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata().combine_chunks(), buffer)
    return buffer.getvalue()


_PRINTED = ("published_value", "published_p_value", "published_effect_size", "published_recomputed")


def findings_parquet(found: list[Finding], run: str) -> bytes:
    """``findings.csv`` as Parquet with the run's name before it; every run's has the same columns and types."""
    table = findings_table(found)
    for name in _PRINTED:  # in the table texts with the decimals that a paper prints
        table[name] = pd.to_numeric(table[name])
    table.insert(0, "run", run)
    kinds: dict[Any, pa.DataType] = {float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
    types = {one.name: kinds.get(one.type, pa.string()) for one in (*fields(Finding), *fields(Estimate))}
    types |= dict.fromkeys(_PRINTED, pa.float64())
    schema = pa.schema([(str(name), types.get(str(name), pa.string())) for name in table])
    return parquet(pa.Table.from_pandas(table, schema=schema, preserve_index=False))


# --- what of a run may leave ------------------------------------------------------------------------------

_UNNAMED = "own"  # the phenotype of own notes that name none
_COVERAGE = (*(one.name for one in fields(Coverage)), "model_id", "lexicon")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A run as it may be shared: its files by path in the repository, findings with models' public names, manifest.

    ``never`` are strings that no outgoing file may hold; ``withheld`` names paths within the run that stay here, and
    columns of files that leave without them.
    """

    name: str
    files: Mapping[str, bytes]
    found: list[Finding]
    manifest: dict[str, Any]
    never: tuple[str, ...]
    withheld: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Where the run lies in the repository."""
        return f"runs/{self.name}"


def run_name(manifest: Mapping[str, Any]) -> str:
    """The models' names, and 8 hexadecimal digits of the settings, the corpora and the models.

    Results, dates and versions do not count: auditing the same again gives the same name, other settings another.
    Neither does the revision of a model on the Hub, nor the version of a corpus: their later ones are shared in
    place of the earlier. What has no public name counts by its content: models from a folder or file, and notes of
    the user's own.
    """
    public = privacy.public_manifest(manifest)
    models = [str(one["model_id"]) for one in public.get("models", [])]
    digests = ("sha256", "training") if own_data(manifest) is not None else ()
    identity = {
        "models": models,
        "pins": sorted(_pins(manifest.get("models", []))),
        "corpora": [
            [str(one["corpus"]), str(one["config"]), *(str(one.get(name, "")) for name in digests)]
            for one in public["corpora"]
        ],
        "settings": {
            key: {name: one for name, one in value.items() if name not in cards.MACHINE.get(key, ())}
            if isinstance(value, Mapping)
            else value
            for key, value in public["settings"].items()
        },
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return f"{cards.slug('-'.join(models), 60)}-{digest[:8]}"


def _pins(value: Any) -> Iterator[str]:
    """Digests of models that no revision pins down, however nested (of features within a classifier)."""
    if isinstance(value, Mapping) and not value.get("revision"):
        yield from (str(value[name]) for name in ("sha256", "answers") if isinstance(value.get(name), str))
        value = list(value.values())
    for one in value if isinstance(value, list | tuple) else ():
        yield from _pins(one)


def bundle_run(run: Run, *, findings_only: bool = False, phenotypes: Collection[str] = ()) -> Bundle:
    """A finished run as it may be shared; packing it twice gives the same bytes.

    ``findings_only`` leaves out whatever is about one text; ``phenotypes`` are those of the user's own notes whose
    names may leave.

    Raises:
        UsageError: credentialed data, private texts without ``findings_only``, phenotypes of the user's own that are
            not among ``phenotypes``, a run that is not complete. ValueError: a file of the run is missing or broken.
    """
    refuse(run.folder, "shared")
    manifest = run.manifest()
    if own := manifest.get("own_studies"):
        raise UsageError(
            f"{run.folder} was audited with your own {', '.join(own)}, and results repositories hold studies of the "
            "package. Publish it with swapbias study push, so that others can run it."
        )
    data = own_data(manifest)
    if data:
        _refuse_mimic(Path(data))
    results = runs.read_results(run)
    for study, rows in results.items.items():
        if "credentialed" in rows and (rows["credentialed"].astype(str).str.lower() == "true").any():
            refuse(run.folder / "items" / study, "shared", known=True)
    if data and not findings_only:
        raise UsageError(
            f"{run.folder} holds texts of your own ({Path(data).name}), which are private. Share findings, tables "
            "and aggregate figures alone with --findings-only."
        )
    if data:
        _refuse_names(results, phenotypes)
    if findings_only:
        results = replace(results, items={}, explained=())
    _refuse_changed(run, results)
    public = runs.as_public(results)
    coverage = public.coverage[[name for name in public.coverage if name in _COVERAGE]]
    public = replace(public, manifest=privacy.filter_manifest(public.manifest), coverage=coverage)
    name = run_name(manifest)
    made = {**_files(public, name), **shared_items(run, public.items)}
    folder = str(run.folder.resolve())
    never = [folder] if folder.count("/") > 1 else []  # /data stands in any text
    return Bundle(
        name,
        {f"runs/{name}/{path}": made[path] for path in sorted(made)},
        public.found,
        dict(public.manifest),
        (*privacy.private_strings(manifest), *never),
        tuple(sorted(_withheld(run, made))),
    )


def _refuse_mimic(place: Path) -> None:
    """Notes of MIMIC are credentialed, whatever the manifest says of them."""
    if place.exists():
        refuse(place, "shared")
    named = "mimic" in str(place).lower() or privacy.is_mimic_name(str(place))
    if named or (place.exists() and kind_of_folder(place) != OWN):
        raise UsageError(
            f"{place.name} is or may be MIMIC, credentialed clinical data, which must not be shared. Keep the run on "
            "this machine."
        )


def _refuse_names(results: Results, allowed: Collection[str]) -> None:
    """Phenotypes of the user's own leave only where the user named them: a cell of that column may hold anything."""
    if any(not (name.isprintable() and name) for name in allowed):
        raise UsageError(
            "A name given with --phenotype is blank or holds line breaks or what cannot be seen. Rename it in your "
            "file and audit again."
        )
    named = {
        one.slice_value
        for one in results.found
        if one.slice_by != "all" and ((experiment := experiment_of(one)) is None or experiment.corpus)
    }
    named |= {str(one["experiment"]).partition(", ")[2] for one in results.manifest["skipped"]}
    unnamed = named - {"", _UNNAMED, *PHENOTYPES, *allowed}
    if unnamed:
        raise UsageError(
            f"{len(unnamed)} phenotype{'s' * (len(unnamed) > 1)} of your own notes would be named in what is shared, "
            "and such a name may tell of a patient. Allow each with --phenotype NAME, which may be repeated."
        )


def _refuse_changed(run: Run, results: Results) -> None:
    """Scored prompts leave as their corpora have them, whoever wrote the file; so do words of explained notes."""
    if not results.items:
        return
    try:
        prompts = runs.run_prompts(results.manifest)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"Nothing tells whether the scored prompts of {run.folder} are those of its corpora ({error}) Share "
            "findings alone with --findings-only."
        ) from error
    wrong = ""
    for study, rows in results.items.items():
        others = 0
        for row in rows[[name for name in PROMPT_COLUMNS if name in rows]].to_dict("records"):
            prompt = prompts.get((study, row.pop("experiment"), row["prompt_id"]))
            others += prompt is None or any(row[name] != prompt[name] for name in row if name in prompt)
        if others:
            wrong = f"{run.folder / 'items'}: {others:,} scored prompts of {study} are not those of its corpus."
    texts = {text for rows in results.items.values() for text in rows["text"]} if results.explained else set()
    known = {word for text in texts for word in re.findall(r"\w+", text)}
    explained = [word for one in results.explained for words in one.words.values() for word, _ in words]
    if not {part for word in explained for part in re.findall(r"\w+", word)} <= known:
        wrong = f"{run.folder} explains words that its notes do not hold."
    if wrong:
        raise UsageError(f"{wrong} Audit again, or share findings alone with --findings-only.")


def _withheld(run: Run, made: Collection[str]) -> Iterator[str]:
    """What of a folder is not shared: logs of answers, hidden and unknown files, and unknown columns."""
    for path in run.folder.rglob("*"):
        within = path.relative_to(run.folder).as_posix()
        if (path.is_file() or path.is_symlink()) and within not in made:
            yield within
        elif within.startswith("items/") and within in made:
            unknown = (name for name in pq.read_schema(path).names if item_type(path.stem, name) is None)
            yield from (f"{within}, column {name!r}" for name in unknown)


def _files(public: Results, name: str) -> dict[str, bytes]:
    """Everything but the scored prompts, by path within the run."""
    with tempfile.TemporaryDirectory(prefix="swapbias-") as folder:
        made = Run(Path(folder))
        made.write_manifest(public.manifest)
        runs.write_results(made, public)
        made.write("findings.parquet", findings_parquet(public.found, name))
        return _contents(made.folder)


def _contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# --- reading shared runs ----------------------------------------------------------------------------------

MOST_RUNS = 200  # of one repository
MOST_ITEMS = 300_000  # scored rows of one study of a run
_NEEDED = {*PROMPT_COLUMNS, "model_id", "score"} - {"text", "candidates"}
_HEAVY = ("text", "candidates", "answer", TOKENS)  # what differences do not depend on


def find_run(named: "str | PathLike[str]") -> Results:
    """A finished run by its folder, or by its name on the Hub: OWNER/NAME[/RUN][@REVISION].

    UsageError: no such folder or repository, or one of several runs. ValueError: not what swapbias writes.
    """
    name = fspath(named)
    if Path(name).exists() or not is_shared_name(name):
        return runs.read_run(Path(name))
    loaded, broken = load_all_shared(Hub(), [name])
    if len(loaded) == 1:
        return loaded[0]
    if not loaded:
        raise UsageError(f"{name} is no folder here, and no run on the Hub that can be read: {broken[0]}")
    has = ", ".join(shown(one.name) for one in loaded)
    raise UsageError(f"{name} holds {len(loaded)} runs ({has}), expected one. Name it as OWNER/NAME/RUN.")


def load_all_shared(hub: Hub, names: Sequence[str]) -> tuple[list[Results], list[str]]:
    """The runs of several repositories, and why those that cannot be read cannot: they do not stop the others."""
    loaded: list[Results] = []
    broken: list[str] = []
    for name in dict.fromkeys(names):
        parts = SHARED.fullmatch(name)
        repo, run, revision = parts.groups() if parts else (name, "", "")
        try:
            found, unreadable = load_shared(hub, repo, revision=revision or "main", only=run or "")
        except (UsageError, HubError) as error:
            broken.append(str(error))
        else:
            loaded += found
            broken += unreadable.values()
    return loaded, broken


def load_shared(
    hub: Hub, repo_name: str, *, revision: str = "main", only: str = ""
) -> tuple[list[Results], dict[str, str]]:
    """The runs of a results repository, all read at one commit, and by name why others cannot be read.

    ``revision`` is a branch, tag or commit; ``only`` the name of one run. UsageError: no such repository, or no runs.
    """
    state = hub.state(Repo("dataset", repo_name), revision=revision)
    if state is None:
        raise UsageError(f"{repo_name} is no dataset repository that can be seen. Check its name, or log in.")
    places = (re.fullmatch(r"runs/([^/]+)/results\.json", path) for path in state.files)
    names = sorted(found[1] for found in places if found and only in ("", found[1]))
    if not names:
        run = f"runs/{shown(only) or 'NAME'}/results.json"
        raise UsageError(f"{repo_name} holds no {run}. Name a repository made with swapbias share.")
    if len(names) > MOST_RUNS:
        raise UsageError(f"{repo_name} holds {len(names)} runs, at most {MOST_RUNS} are read. Name another one.")
    loaded: list[Results] = []
    broken: dict[str, str] = {}
    for name in names:
        try:
            loaded.append(_run(hub, state, name))
        except HubError:
            raise
        except ValueError as error:
            broken[name] = str(error)
    return loaded, broken


def _run(hub: Hub, state: State, name: str) -> Results:
    """One run."""
    paths = [f"runs/{name}/{file}" for file in ("manifest.json", "results.json")]
    where = f"{state.repo.name}/{shown(f'runs/{name}')}"
    if paths[0] not in state.files:
        raise ValueError(f"{where}: manifest.json is missing. Its owner can share it again.")
    if not cards.is_run_name(name):
        raise ValueError(f"{name!r} is no name of a run, expected a-z, 0-9, dots and dashes. Rename its folder.")
    with tempfile.TemporaryDirectory(prefix="swapbias-") as folder:
        hub.download(state, Path(folder), paths, limit=READ_LIMIT)
        run = runs.read_run(Path(folder) / "runs" / name, repo=state.repo.name, commit=state.commit)
    there = [study for study in studies.studies() if f"runs/{name}/items/{study}.parquet" in state.files]
    return replace(
        run, items=LazyItems(there, partial(_items, hub, state, f"runs/{name}/items", where, run.manifest))
    )


def _items(hub: Hub, state: State, items: str, where: str, manifest: Mapping[str, Any], study: str) -> pd.DataFrame:
    """The scored rows of a study, with the installed texts of the prompts that were read, and no others."""
    with tempfile.TemporaryDirectory(prefix="swapbias-") as folder:
        hub.download(state, Path(folder), [f"{items}/{study}.parquet"], limit=READ_LIMIT)
        return _with_texts(_rows(Path(folder) / items / f"{study}.parquet", where), manifest)


def _with_texts(rows: pd.DataFrame, manifest: Mapping[str, Any]) -> pd.DataFrame:
    """The rows with the texts of the installed prompts, blank for other prompts; no texts where none is installed."""
    texts = {
        (experiment.name, row["prompt_id"]): row["text"]
        for entry in manifest["corpora"]
        if entry["corpus"] == rows.attrs["study"] and "training" not in entry
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
        return not own and entry["training"] == studies.fingerprint(notes)
    return any(True for _ in _installed(entry, settings))


def _installed(
    entry: Mapping[str, Any], settings: Mapping[str, Any]
) -> Iterator[tuple[studies.Experiment, Sequence[studies.Row]]]:
    """The experiments that read an entry's configs and whose installed rows have its sha256, with these rows."""
    corpus, names = str(entry["corpus"]), str(entry["config"]).split(", ")
    for experiment in studies.load_study(corpus).experiments if corpus in studies.studies() else ():
        if not set(names) <= {*experiment.configs, *experiment.alternatives}:
            continue
        try:
            rows = studies.joined(
                studies.having(studies.config_rows(corpus, name), experiment=experiment.name) for name in names
            )
            if experiment.kind == CHAT.name:
                chat = settings.get("chat") or {}
                trials = int(chat.get("trials") or 1)
                rows = trial_rows(rows, trials, str(chat.get("scoring"))) if len(rows) * trials <= MOST_ITEMS else ()
        except (UpstreamMissingError, TypeError, AttributeError, ValueError):
            continue  # a config of another version, a file that is not at hand, or settings of a stranger's
        if studies.fingerprint(rows) == entry["sha256"]:
            yield experiment, rows


def _rows(path: Path, where: str) -> pd.DataFrame:
    """The rows of a stranger's file: known columns of texts and numbers, at most as many as an audit has."""
    wrong = f"{where}: its scored prompts of {shown(path.stem)} are not what an audit writes"
    try:
        schema = pq.read_schema(path)
        types = {name: item_type(path.stem, name) for name in schema.names if name not in _HEAVY}
        types = {name: kind for name, kind in types.items() if kind is not None}
        known = types.keys() >= _NEEDED and len(set(schema.names)) == len(schema)
        if not known or any(schema.field(name).type != kind for name, kind in types.items()):
            raise ValueError(f"{wrong}: it has other columns.")
        if pq.read_metadata(path).num_rows > MOST_ITEMS:
            raise ValueError(f"{wrong}: it has more than {MOST_ITEMS:,} rows.")
        rows: pd.DataFrame = pq.read_table(path, columns=list(types)).replace_schema_metadata().to_pandas()
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise ValueError(f"{wrong} ({type(error).__name__}).") from error
    rows.attrs["study"] = path.stem
    return rows


# --- the file of evaluation results in a model's repository -----------------------------------------------

PATH = ".eval_results/swapbias.yaml"
SOURCE_NAME = "swapbias"  # tells this package's entries from those of others
DECIMALS = 4
LIMITS = "One measure of one study: 1 is no measured difference, not proof of fairness; this is not a leaderboard."
UNSEEN = (
    "The Hub shows such numbers on a model's page only where their dataset is on its list of benchmarks, and none of "
    "swapbias is yet: today a reader of the page sees the section of the card, and no number beside it."
)
Entry = dict[str, Any]


def eval_entries(
    found: Iterable[Finding],
    *,
    namespace: str,
    revisions: Mapping[str, str],
    source_url: str,
    source_user: str,
    date: str,
    settings: str = "",
) -> list[Entry]:
    """One entry for each experiment whose headline can be oriented (``findings.headline_of_each``, ``oriented``).

    ``value`` is 0 to 1, higher is fairer, rounded to 4 decimals; unit, raw value, interval and n are in ``notes``.

    Args:
        found: findings of one model.
        namespace: owner of the dataset repos, which are named after the corpora.
        revisions: corpus -> commit of its dataset repo; a corpus that is not there has no revision.
        source_url, source_user: the full results, at a commit, and who shares them.
        date: when they were made, ISO 8601.
        settings: how, in a few words (``settings_note``).
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    made = []
    for one in headline_of_each(found):
        number, experiment = oriented(one), experiment_of(one)
        corpus = experiment.corpus if experiment and experiment.corpus else one.study
        if number is not None:
            made.append(
                EvalResultEntry(
                    dataset_id=f"{namespace}/{corpus}",
                    task_id=one.experiment,
                    value=round(float(number.value), DECIMALS),
                    dataset_revision=revisions.get(corpus),
                    date=date,
                    source_url=source_url,
                    source_name=SOURCE_NAME,
                    source_user=source_user,
                    notes=_notes(one, number, settings),
                )
            )
    entries: list[Entry] = eval_result_entries_to_yaml(made)
    return entries


def merged_entries(existing: bytes, new: Sequence[Entry], where: str) -> bytes:
    """The file with new entries in it: each replaces ours of the same dataset and task, or goes to the end.

    Ours are those with this package's source name and the same source user; all others stay. A file that holds the
    new entries already is returned as it is. Raises ValueError where what is there is no list of entries.
    """
    before = cards.read_yaml(cards.decode(existing, where).lstrip(cards.BYTE_ORDER_MARK), where) or []
    if not isinstance(before, list) or not all(map(_is_entry, before)):
        raise ValueError(f"{where} is no list of entries with dataset and value. Correct or remove the file.")
    waiting = {_key(one): one for one in new}
    ours = set(waiting)
    after = [waiting.pop(key, None) if (key := _key(one)) in ours else one for one in before]
    after = [*(one for one in after if one is not None), *waiting.values()]  # None: ours a second time
    return existing if existing and after == before else cards.dump(after).encode()


def _is_entry(one: Any) -> bool:
    dataset = one.get("dataset") if isinstance(one, dict) else None
    return isinstance(dataset, dict) and isinstance(dataset.get("id"), str) and "value" in one


def _key(entry: Entry) -> tuple[str, ...]:
    """Dataset, task and user of an entry of ours; empty for those of others."""
    source = entry.get("source")
    if not isinstance(source, dict) or source.get("name") != SOURCE_NAME:
        return ()
    return (*(str(entry["dataset"].get(name)) for name in ("id", "task_id")), str(source.get("user")))


def settings_note(manifest: Mapping[str, Any], model_id: str | None = None) -> str:
    """How an audit was made, in a few words: what a number depends on besides model and prompts.

    Seed, and where they matter the most prompts of a config, number format of the weights, trials and temperature of
    a chat model, and that only notes without gender-specific clinical terms were read. ``model_id``: of one model.
    """
    settings = manifest["settings"]
    models = [one for one in manifest.get("models", []) if model_id in (None, one["model_id"])]
    formats = sorted({str(one["dtype"]) for one in models if one.get("dtype")})
    parts = [f"seed {settings.get('seed', 0)}"]
    parts += [f"at most {settings['limit']} prompts of each config"] if settings.get("limit") else []
    parts += [f"weights in {' and '.join(formats)}"] if formats else []
    parts += sorted({scoring_in_words(one) for one in models if "trials" in one or "scoring" in one})
    if (settings.get("notes") or {}).get("plausible") and any("training" in one for one in manifest["corpora"]):
        parts.append("notes with gender-specific clinical terms left out (-M plausible)")
    return ", ".join(parts)


def _notes(finding: Finding, number: Oriented, settings: str) -> str:
    """What the number is, from what it was made, and what it does not tell."""
    estimate = finding.estimate
    rows = f", {finding.subset}" if finding.subset else ""
    lost = f" ({int(estimate.n_unscored)} not scored)" if estimate.n_unscored else ""
    text = (
        f"Higher is fairer: {number.how}. {finding.measure}, {finding.contrast}{rows}: {_number(estimate.value)} "
        f"{_ends(estimate.ci_low, estimate.ci_high)}, n = {int(estimate.n)}{lost}; oriented interval "
        f"{_ends(number.low, number.high)}. swapbias {__version__}{f', {settings}' if settings else ''}. {LIMITS}"
    )
    return " ".join(text.split())


def _ends(low: float, high: float) -> str:
    return "without interval" if low != low or high != high else f"[{_number(low)}, {_number(high)}]"


def _number(value: float) -> str:
    return f"{round(float(value), DECIMALS) + 0.0:g}"  # zero has no sign


# --- sharing ----------------------------------------------------------------------------------------------

COMMIT, PULL_REQUEST = "commit", "pull request"
TITLE = "Add the results of a swapbias bias audit"
_NO_COMMIT = "0" * 40  # stands for the commit that a rehearsal does not make


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOptions:
    """What is to be shared where.

    Attributes:
        results: the results repository, OWNER/NAME; made, private, where it is not there.
        model: the model's repository, if its page is to say something; ``how`` is ``commit`` or ``pull request``.
        audited: the model's name in the run, where it is another one.
        public: everybody may read the results.
        findings_only: no scored prompts, answers or explained notes.
        phenotypes: of the user's own notes, those whose names may leave.
        card: propose the section of the card too; one's own model gets it anyway.
        again: propose what the model's owners closed or took out.
        namespace: owner of the corpora on the Hub.
        dry_run: say what would be written.
    """

    results: str
    model: str | None = None
    how: str = ""
    audited: str | None = None
    public: bool = False
    findings_only: bool = False
    phenotypes: tuple[str, ...] = ()
    card: bool = False
    again: bool = False
    namespace: str = "swapbias"
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PlannedCommit:
    """A commit to a repository, made from ``there``; with a ``description`` it is a pull request."""

    repo: Repo
    there: State | None
    change: Change
    status: str
    title: str
    url: str
    description: str = ""

    def carry_out(self, hub: Hub, never: Sequence[str], *, public: bool = True) -> PushResult:
        """Do it; where the repository is not there it is made, ``public`` or private."""
        if not self.change:
            return PushResult(self.repo, self.status, self.change, self.url, self.there.commit if self.there else "")
        if self.there is None:
            hub.create(self.repo, private=not public)
        now = hub.existing_state(self.repo)
        if self.repo.kind == "dataset":  # somebody else may have opened it since it was looked at
            _check_visibility(now, public=public)
        made = hub.commit(
            self.repo,
            self.change,
            self.title,
            parent=self.there.commit if self.there else now.commit,
            description=self.description,
            create_pr=bool(self.description),
            never=never,
        )
        page = hub.url(self.repo, commit=made.oid) if self.repo.kind == "dataset" else made.commit_url
        return PushResult(self.repo, self.status, self.change, made.pr_url or page, made.oid)

    def show(self, hub: Hub, say: Say) -> PushResult:
        """Say what would be written: paths, and how texts differ."""
        what, _, done = self.status.rpartition(" ")
        would = f"{what} would be {done}".lstrip() if self.change else self.status
        say(f"{self.repo.kind} {self.repo.name}: {would}")
        if self.description:
            say(f"  Title: {self.title}")
            say(f"  Description: {self.description}")
        show_change(hub, self.there, self.change, say, texts=(cards.CARD, PATH))
        if PATH in self.change.write:
            with_card = "" if cards.CARD in self.change.write else " --card proposes that section as well."
            say(f"{PATH}: {UNSEEN}{with_card}")
        return PushResult(self.repo, would, self.change, self.url)


def share_run(run: Run, options: ShareOptions, hub: Hub, *, say: Say) -> list[PushResult]:
    """Share a run. Sharing it again changes nothing; after another audit of the same it updates in place.

    Everything that can be refused is refused before anything is written. Where the model's page fails after the
    results arrived, the same call goes on from there.

    Raises:
        UsageError: credentialed or private data, a key or a place of this machine in a file, a repository that is
            not the user's or holds something else, a model that the run did not audit.
        ValueError: a broken run, or a card that cannot be added to. HubError: the Hub refused or is out of reach.
    """
    results = Repo("dataset", options.results)
    model = Repo("model", options.model) if options.model else None
    bundle = bundle_run(run, findings_only=options.findings_only, phenotypes=options.phenotypes)
    found = findings_of(bundle.found, model.name, options.audited) if model else []
    for path in bundle.withheld:
        say(f"Not shared: {path}")
    state, own = _check_access(hub, results, model, options)
    change = _results_change(hub, results, state, bundle)
    never = (*bundle.never, *hub.tokens())
    check_upload(change.write, never=never)
    status = ("updated" if change else "unchanged") if state else "created"
    url = hub.url(results, commit=state.commit if state and not change else "")
    plans = [PlannedCommit(results, state, change, status, f"Share {bundle.name}", url)]
    moved = state is None or any(path.startswith("runs/") for path in (*change.write, *change.delete))
    page = None
    if model:
        page = _ModelPage(hub, model, own, options, bundle, found, results)
        commit = _NO_COMMIT if state is None or moved else hub.last_commit(state, bundle.folder)
        plans.append(page.plan(commit))  # rehearsed: what can be refused is refused while nothing is half done
        check_upload(plans[-1].change.write, never=never)
    if options.dry_run:
        return [one.show(hub, say) for one in plans]
    done = plans[0].carry_out(hub, never, public=options.public)
    if page is None:
        return [done]
    try:
        return [done, page.plan(done.commit if moved else commit).carry_out(hub, never)]
    except ValueError as error:
        kind = next((one for one in (HubError, UsageError) if isinstance(error, one)), ValueError)
        raise kind(f"The results are at {done.url}, but {page.repo.name} was not changed: {error}") from error


def _check_access(hub: Hub, results: Repo, model: Repo | None, options: ShareOptions) -> tuple[State | None, bool]:
    """The results repository as it is, and whether the model is the user's own."""
    owners = hub.owners()
    if results.owner not in owners:
        raise UsageError(f"{results.name} is not yours: expected one of {', '.join(owners)} before the slash.")
    own = model is not None and model.owner in owners
    if model and not options.how:
        way = "--commit to write to its card, or --create-pr to propose it" if own else "--create-pr to propose it"
        raise UsageError(f"How {model.name} gets it is not said. Add {way}.")
    if model and not own and options.how == COMMIT:
        raise UsageError(f"{model.name} is not yours, and nobody writes to it unasked. Propose it with --create-pr.")
    state = hub.state(results)
    if state:
        _check_visibility(state, public=options.public)
    if model and not own and not options.public:
        raise UsageError(
            f"The owners of {model.name} could not open private results. Share them with --public, in a repository "
            "that everybody may read."
        )
    return state, own


def _check_visibility(state: State, *, public: bool) -> None:
    """Refuse a repository that is not as visible as was wanted: its visibility is never changed."""
    if not state.private and not public:
        raise UsageError(f"{state.repo.name} is public, and runs are shared privately unless you say --public.")
    if state.private and public:
        raise UsageError(
            f"{state.repo.name} is private, with all that it holds. Make it public on its page, or drop --public."
        )


def _results_change(hub: Hub, repo: Repo, state: State | None, bundle: Bundle) -> Change:
    """What must be written for the repository to hold this run, with its part of the card."""
    readme, where = hub.text(state, cards.CARD), f"{repo.name}/{cards.CARD}"
    paths = set(state.files if state else ()) - HUB_FILES
    blank = not cards.split(readme).after.removeprefix("---").strip()
    ours = all(path.startswith("runs/") for path in paths - {cards.CARD}) and blank
    if not (ours or (cards.CARD in paths and cards.is_ours(readme, where=where))):
        raise UsageError(f"{repo.name} holds something else than shared runs. Choose another repository.")
    others = {path for path in paths if not path.startswith(f"{bundle.folder}/")}
    every = {*others, *bundle.files}
    card = cards.results_card(repo.name, bundle.name, bundle.found, bundle.manifest, every, readme).encode()
    files = difference(state, bundle.files, within=bundle.folder)
    return Change({**files.write, **difference(state, {cards.CARD: card}, within=cards.CARD).write}, files.delete)


def findings_of(found: Sequence[Finding], model: str, audited: str | None) -> list[Finding]:
    """The findings of the model that is ``model`` (OWNER/NAME) on the Hub; UsageError where it was not audited."""
    names = list(dict.fromkeys(one.model_id for one in found))
    if audited is not None and audited not in names:
        raise UsageError(f"The run audited {', '.join(names)}, and {audited} is none of them. Correct --audited.")
    if audited is None and model not in names:
        raise UsageError(
            f"The run audited {', '.join(names)}, and {model} is none of them. If one of them is {model} under "
            "another name, say which with --audited."
        )
    return [one for one in found if one.model_id == (audited or model)]


def commit_read(hub: Hub, model: Repo, manifest: Mapping[str, Any], audited: str) -> str:
    """The commit of a model that a run read under a name; blank where it read files of the same sha256 elsewhere.

    UsageError: the repository has other weights, or nothing tells what the run read.
    """
    pin: Mapping[str, Any] = next((one for one in manifest.get("models", ()) if one["model_id"] == audited), {})
    pin = pin.get("features") or pin  # of an embedding; its classifier was trained in the audit
    revision, name = str(pin.get("revision")), audited.partition("+")[0]
    elsewhere = any(pin.get(key) for key in ("host", "provider", "sha256"))
    commit = revision if re.fullmatch("[0-9a-f]{40}", revision) and not elsewhere else ""
    if commit and _at_commit(hub, model, commit):
        return commit
    read = dict(pin.get("weights") or {})
    if commit and re.fullmatch(r"[\w.-]+/[\w.-]+", name, re.ASCII):
        read = _weights(_at_commit(hub, Repo("model", name), commit))
    if not read:
        raise UsageError(
            f"Nothing tells which weights the run read as {audited}: a service, a function or a model in memory has "
            f"none. Audit {model.name}, or the folder that was pushed there."
        )
    if _weights(hub.existing_state(model)) != read:
        raise UsageError(f"{model.name} has other weights than {audited}, which the run read. Audit {model.name}.")
    return ""


def _at_commit(hub: Hub, repo: Repo, commit: str) -> State | None:
    try:
        return hub.state(repo, revision=commit)
    except HubError:  # no such commit
        return None


def _weights(state: State | None) -> dict[str, str]:
    """The sha256 of each file of weights, as the Hub reports it."""
    files = state.files if state else {}
    return {name: files[name].removeprefix("sha256:") for name in weight_files(files)}


class _ModelPage:
    """What a run says on the page of one model, which is the user's ``own`` or somebody else's."""

    def __init__(
        self,
        hub: Hub,
        repo: Repo,
        own: bool,
        options: ShareOptions,
        bundle: Bundle,
        found: list[Finding],
        results: Repo,
    ) -> None:
        self.hub, self.repo, self.own, self.options, self.bundle = hub, repo, own, options, bundle
        self.found, self.results = found, results
        self.commit_read = commit_read(hub, repo, bundle.manifest, found[0].model_id)
        self.deviations = self._deviations()
        self.revisions = dict(self._revisions())

    def _revisions(self) -> Iterator[tuple[str, str]]:
        """Each corpus with its commit on the Hub at the tag of the installed version.

        A corpus has one only where the run read the very rows that are installed: a part of them, rows of another
        version or notes of the user's own have none.
        """
        manifest = self.bundle.manifest
        for corpus in sorted({str(one["corpus"]) for one in manifest["corpora"]} & set(studies.corpora())):
            entries = [one for one in manifest["corpora"] if one["corpus"] == corpus]
            if all(is_installed(one, manifest["settings"]) for one in entries):
                state = self.hub.state(Repo("dataset", f"{self.options.namespace}/{corpus}"))
                tag = f"v{studies.load_corpus(corpus).version}"
                if state and tag in state.tags:
                    yield corpus, state.tags[tag]

    def _deviations(self) -> dict[tuple[str, str], str]:
        """What each experiment read in place of its study's own prompts; blank where it read just these.

        A number of a part, of other configs or of the user's own notes must not stand beside those of whole audits:
        proposals to others hold whole audits alone, one's own page says what was read.
        """
        other = {}
        for study, experiment in dict.fromkeys((one.study, one.experiment) for one in self.found):
            read = cards.prompts_read(self.bundle.manifest, study, experiment)
            part = "only a part of the prompts (--limit)" if read.limit is not None else ""
            config = "" if read.usual else f"other prompts than the study's own ({read.deviation})"
            other[study, experiment] = "notes of your own" if read.own else part or config
        deviation = next(filter(None, other.values()), "")
        if deviation and not self.own:
            raise UsageError(
                f"The run read {deviation}, and its numbers would stand beside those of whole audits. Share the "
                "results alone, or audit without it."
            )
        return other

    def plan(self, commit: str) -> PlannedCommit:
        """The commit or pull request that makes the page say it; ``commit`` holds the results.

        Nothing is proposed while a pull request of ours is open; nor after one, merged or closed, unless ``again``.
        """
        there, url = self.hub.existing_state(self.repo), self.hub.url(self.repo)
        change = Change(difference(there, self._files(there, commit)).write)
        if not change or self.options.how == COMMIT:
            return PlannedCommit(self.repo, there, change, "updated" if change else "unchanged", TITLE, url)
        latest = next(iter(self.hub.pull_requests(self.repo, title=TITLE)), None)
        if latest and (latest.status in ("open", "draft") or not self.options.again):
            status = f"not proposed again: pull request {latest.num} is {latest.status}"
            return PlannedCommit(self.repo, there, Change({}), status, TITLE, f"{url}/discussions/{latest.num}")
        titles = "; ".join(studies.load_study(name).title for name in dict.fromkeys(one.study for one in self.found))
        files = {cards.CARD: "a section of the card", PATH: f"`{PATH}`"}
        added = " and ".join(text for path, text in files.items() if path in change.write)
        description = (
            f"Adds {added}{'' if cards.CARD in change.write else ' and nothing else'}: results of a bias audit with "
            f"swapbias ({titles}). A measurement on fixed prompts, no ranking and no proof of fairness; the source "
            "of every number stands beside it, at a commit. Close it if unwanted."
        )
        return PlannedCommit(self.repo, there, change, "pull request opened", TITLE, url, description)

    def _files(self, there: State, commit: str) -> dict[str, bytes]:
        """The evaluation results and, where wanted, the card; all else in both stays."""
        existing, manifest = self.hub.text(there, PATH), self.bundle.manifest
        url = self.hub.url(self.results, commit=commit, path=self.bundle.folder)
        entries = eval_entries(
            [one for one in self.found if not self.deviations[one.study, one.experiment]],
            namespace=self.options.namespace,
            revisions=self.revisions,
            source_url=url,
            source_user=self.hub.user,
            date=str(manifest.get("finished") or manifest["started"]),
            settings=settings_note(manifest, self.found[0].model_id),
        )
        if not entries and not self.own:
            raise UsageError(
                "Nothing in this run can be given as one number where higher is fairer. Share the results alone."
            )
        where = f"{self.repo.name}/{PATH}"
        made = {PATH: merged_entries(existing.encode(), entries, where)} if entries else {}
        if self.own or self.options.card:
            where, readme = f"{self.repo.name}/{cards.CARD}", self.hub.text(there, cards.CARD)
            cards.load(cards.split(readme).header, where)  # a card that cannot be read is not added to
            parts = cards.study_parts(
                self.found,
                manifest,
                model_name=self.repo.name,
                revision=self.commit_read,
                results_url=url,
                results_private=not self.options.public,
            )
            made[cards.CARD] = cards.with_parts(readme, parts, where=where).encode()
        return made


# --- runs side by side as a Space -------------------------------------------------------------------------

PAGE = "index.html"
NO_RANKING = (
    "This is a comparison and not a ranking: models stand in the order of their names, and have different "
    "vocabularies, which the studies' word lists cover to different degrees. A value near zero is no proof that a "
    "model is fair: it says that this quantity is small on these prompts."
)


def push_comparison(hub: Hub, results: Sequence[str], space: str, **options: Unpack[PushOptions]) -> PushResult:
    """Publish what ``swapbias compare`` makes of shared runs (OWNER/NAME[/RUN][@REVISION]) as the static Space.

    The same results at the same commits change nothing; others make a commit and a tag of their own. UsageError:
    fewer than two runs, nothing in common, or private results for a Space that everybody may read.
    """
    say = options["say"]
    loaded, broken = load_all_shared(hub, results)
    for sentence in broken:
        say(f"Left out: {sentence}")
    if len(loaded) < 2:
        raise UsageError(f"{len(loaded)} shared runs can be read, expected two or more. Name further repositories.")
    places = sorted({run.place for run in loaded})
    for place in () if options.get("private") else places:
        state = hub.state(Repo("dataset", place))
        if state is None or state.private:
            raise UsageError(f"{place} is private, and the Space would show it to everybody. Add --private.")
    compared = runs.compare_runs(loaded)
    for sentence in compared.notes:
        say(sentence)
    with tempfile.TemporaryDirectory(prefix="swapbias-") as folder:
        runs.write_comparison(Path(folder), compared)
        files = _contents(Path(folder))
    files[PAGE] = files.pop("report.html")
    rows = []
    for run in sorted(loaded, key=lambda one: one.key):
        models = ", ".join(dict.fromkeys(one.model_id for one in run.found))
        page = hub.url(Repo("dataset", run.place), commit=run.commit)
        where = f"[{cards.markdown(run.place)} at {run.commit[:8]}]({page})"
        rows.append((cards.markdown(shown(run.name)), cards.markdown(shown(models, 200)), where))
    metadata = {
        "title": space.rpartition("/")[2],
        "description": "Bias audits of several models side by side",
        "emoji": "⚖️",
        "sdk": "static",
        "app_file": PAGE,
        "license": "apache-2.0",
        "tags": list(cards.TAGS),
    }
    read = cards.md_table(("run", "models", "repository at the commit"), rows)
    texts = [
        f"---\n{cards.dump(metadata)}---",
        f"# Bias audits in {cards.markdown(space)}",
        NO_RANKING,
        "## What was read",
        read,
    ]
    sources = sorted({f"{run.place}@{run.commit}/{run.name}" for run in loaded})
    digest = hashlib.sha256("\n".join((__version__, *sources)).encode()).hexdigest()
    return push_repo(
        hub,
        Repo("space", space),
        {**files, cards.CARD: ("\n\n".join(texts) + "\n").encode()},
        tag=f"results-{digest[:12]}",
        message=f"Compare {len(loaded)} runs of {len(places)} repositories",
        raise_hint="share a run again, or push with the version of swapbias that made it",
        sdk="static",
        **options,
    )
