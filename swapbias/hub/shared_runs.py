"""Runs on the Hub: what of a run may leave, how it is shared and read back, and what a model's page says of it."""

import hashlib
import io
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from swapbias import __version__, privacy, runs, studies
from swapbias.errors import HubError, UsageError, listed
from swapbias.findings import Finding, experiment_of, findings_table, oriented
from swapbias.hub import cards
from swapbias.hub.client import (
    HUB_FILES,
    SHARED,
    Change,
    Hub,
    Push,
    Repo,
    Say,
    State,
    difference,
    is_shared_name,
)
from swapbias.hub.dry_run import DryHub
from swapbias.hub.model_pages import commit_read, findings_of, read_otherwise
from swapbias.measures import Estimate
from swapbias.models.chat import scoring_in_words
from swapbias.privacy import check_upload, credentialed, own_data, refuse
from swapbias.report import shown, text as wording
from swapbias.runs import LazyItems, Results, Run

# --- tables as they are shared ----------------------------------------------------------------------------

_PRINTED = ("published_value", "published_p_value", "published_effect_size", "published_recomputed")


def shared_items(run: Run, items: Mapping[str, pd.DataFrame]) -> dict[str, bytes]:
    """The scored prompts of each study as Parquet, by path; ``items`` have the models' public names."""
    made = {}
    for path, rows in ((f"items/{study}.parquet", rows) for study, rows in items.items()):
        table = pq.read_table(run.folder / path)
        names = pa.array(rows["model_id"], pa.string())
        made[path] = parquet(
            table.set_column(table.column_names.index("model_id"), "model_id", names)
        )
    return made


def parquet(table: pa.Table) -> bytes:
    """A table as Parquet, without what its maker noted beside it; the same rows give the same bytes."""
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata().combine_chunks(), buffer)
    return buffer.getvalue()


def findings_parquet(found: list[Finding], run: str) -> bytes:
    """``findings.csv`` as Parquet with the run's name before it; every run's has the same columns and types."""
    table = findings_table(found)
    for name in _PRINTED:  # in the table texts with the decimals that a paper prints
        table[name] = pd.to_numeric(table[name])
    table.insert(0, "run", run)
    kinds: dict[Any, pa.DataType] = {float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
    types = {
        one.name: kinds.get(one.type, pa.string()) for one in (*fields(Finding), *fields(Estimate))
    }
    types |= dict.fromkeys(_PRINTED, pa.float64())
    schema = pa.schema([(str(name), types.get(str(name), pa.string())) for name in table])
    return parquet(pa.Table.from_pandas(table, schema=schema, preserve_index=False))


# --- what of a run may leave ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bundle:
    """A run as it may be shared."""

    name: str
    files: Mapping[str, bytes]
    """By path in the repository."""
    found: list[Finding]
    """With models' public names."""
    manifest: dict[str, Any]
    never: tuple[str, ...]
    """Strings that no outgoing file may hold."""
    withheld: tuple[str, ...]
    """Paths within the run that stay here."""
    rows: int
    """Of its tables."""
    installed: bool
    """The scored prompts are those of the installed corpora."""
    read: Mapping[str, Any]
    """The manifest for the sentences of cards: it has the address of a public service."""

    @property
    def folder(self) -> str:
        """Where the run lies in the repository."""
        return f"runs/{self.name}"


def run_name(manifest: Mapping[str, Any]) -> str:
    """The models' names, and 8 hexadecimal digits of what is audited: models, corpora and settings.

    Results, dates, versions, the revision of a model on the Hub and the version of a corpus do not count.
    """
    public = privacy.public_manifest(manifest)
    models = [str(one["model_id"]) for one in public.get("models", [])]
    settings = runs.without_speed(public["settings"])
    corpora = [
        [str(one.get(name, "")) for name in ("corpus", "config")] for one in public["corpora"]
    ]
    identity = [models, sorted(_pins(manifest.get("models", []))), corpora, settings]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return f"{cards.slug('-'.join(models))}-{digest[:8]}"


def _pins(value: Any) -> Iterator[str]:
    """Digests of models that no revision pins down, however nested (of features within a classifier)."""
    if isinstance(value, Mapping) and not value.get("revision"):
        yield from (
            str(value[name]) for name in ("sha256", "answers") if isinstance(value.get(name), str)
        )
        value = list(value.values())
    for one in value if isinstance(value, list | tuple) else ():
        yield from _pins(one)


def bundle_run(run: Run, *, findings_only: bool = False) -> Bundle:
    """A finished run as it may be shared; packing it twice gives the same bytes.

    UsageError: credentialed data, notes or studies of the user's own, a run that is not complete. ValueError: a file
    that is not of the sha256 that its audit recorded.
    """
    refuse(run.folder, "shared")
    manifest = run.manifest()
    if own := manifest.get("own_studies"):
        raise UsageError(
            f"{run.folder} was audited with your own {listed(own)}, and results repositories hold studies of the "
            "package. Publish it with swapbias study push, so that others can run it."
        )
    if data := own_data(manifest):
        refuse(
            Path(data), "shared", known="mimic" in data.lower() or credentialed.is_mimic_name(data)
        )
        raise UsageError(
            f"{run.folder} is of notes of your own, and findings of notes may tell of patients. Give its "
            "report to those who may read it."
        )
    results = runs.read_run(run.folder)
    if runs.SHA256 not in manifest:
        raise ValueError(
            f"{run.folder} records no sha256 of its files. Share the folder that the audit wrote."
        )
    for study, rows in results.items.items():
        if (
            "credentialed" in rows
            and (rows["credentialed"].astype(str).str.lower() == "true").any()
        ):
            refuse(run.folder / "items" / study, "shared", known=True)
    installed = False
    with suppress(
        ValueError, KeyError, TypeError
    ):  # settings of another version, or a corpus that is not at hand
        installed = runs.reads_installed(manifest)
    if not (installed or findings_only):
        raise UsageError(
            f"The scored prompts of {run.folder} are not those of the installed corpora. Audit again, or share "
            "findings alone with --findings-only."
        )
    if findings_only:
        results = replace(results, items={})
    public = runs.as_public(results)
    read = _with_address(public.manifest, manifest)
    name = run_name(manifest)
    with tempfile.TemporaryDirectory(prefix="swapbias-") as folder:
        made = Run(Path(folder))
        made.write_manifest(public.manifest)
        runs.write_results(made, public, command=runs.repeat_command(read))
        made.write("findings.parquet", findings_parquet(public.found, name))
        places = sorted(path for path in made.folder.rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in places}
    files |= shared_items(run, public.items)
    place = run.folder.resolve()
    never = [str(place)] if len(place.parts) > 2 else []  # /data stands in any text
    there = (path for path in run.folder.rglob("*") if path.is_file() or path.is_symlink())
    return Bundle(
        name,
        {f"runs/{name}/{path}": files[path] for path in sorted(files)},
        public.found,
        dict(public.manifest),
        (*privacy.private_strings(manifest), *never),
        tuple(sorted({path.relative_to(run.folder).as_posix() for path in there} - set(files))),
        len(public.found) + sum(map(len, public.items.values())),
        installed=installed,
        read=read,
    )


def _with_address(public: Mapping[str, Any], manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """A public manifest with the whole address of a service, where all of its users have the same."""
    settings = public["settings"]
    chat = settings.get("chat") or {}
    address = (manifest["settings"].get("chat") or {}).get("base_url")
    if not address or "base_url" not in chat:
        return public
    whole = {**chat, "base_url": privacy.public_address(address)}
    return {**public, "settings": {**settings, "chat": whole}}


# --- reading shared runs ----------------------------------------------------------------------------------


def find_run(named: "str | PathLike[str]") -> Results:
    """A finished run by its folder, or its name on the Hub: OWNER/NAME[/RUN][@REVISION]; else UsageError."""
    name = fspath(named)
    if Path(name).exists() or not is_shared_name(name):
        return runs.read_run(Path(name))
    loaded, broken = load_all_shared(Hub(), [name])
    if not loaded:
        raise UsageError(
            f"{name} is no folder here, and no run on the Hub that can be read: {broken[0]}"
        )
    if len(loaded) > 1:
        has = listed(shown(one.name) for one in loaded)
        raise UsageError(
            f"{name} holds {len(loaded)} runs ({has}), expected one. Name one of these."
        )
    return loaded[0]


def load_all_shared(hub: Hub, names: Iterable[str]) -> tuple[list[Results], list[str]]:
    """The runs named OWNER/NAME[/RUN][@REVISION], of a repository at one commit, and why others cannot be read."""
    loaded: list[Results] = []
    broken: list[str] = []
    for name in dict.fromkeys(names):
        repo, only, revision = (
            found.groups() if (found := SHARED.fullmatch(name)) else (name, "", "")
        )
        try:
            state = hub.existing_state(Repo("dataset", repo), revision=revision or "main")
            places = (re.fullmatch(r"runs/([^/]+)/results\.json", path) for path in state.files)
            there = sorted(found[1] for found in places if found and only in (None, "", found[1]))
            if not there:
                lacks = (
                    f"no runs/{shown(only)}/results.json"
                    if only
                    else "no results.json in a folder of runs"
                )
                raise UsageError(
                    f"{repo} holds {lacks}. Name a repository made with swapbias share."
                )
            for one in there:
                try:
                    loaded.append(_run(hub, state, one))
                except HubError:  # the others could not be read either
                    raise
                except ValueError as error:
                    broken.append(str(error))
        except (UsageError, HubError) as error:
            broken.append(str(error))
    return loaded, broken


def _run(hub: Hub, state: State, name: str) -> Results:
    where = f"{state.repo.name}/{shown(f'runs/{name}')}"
    files = [f"runs/{name}/{file}" for file in ("manifest.json", "results.json")]
    if files[0] not in state.files:
        raise ValueError(f"{where}: manifest.json is missing. Its owner can share it again.")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        raise ValueError(
            f"{name!r} is no name of a run, expected a-z, 0-9, dots and dashes. Rename its folder."
        )
    place = hub.fetch(state, files)[files[0]].parent
    there = [
        study for study in studies.studies() if f"runs/{name}/items/{study}.parquet" in state.files
    ]

    def scored(study: str) -> pd.DataFrame:
        hub.fetch(state, [f"runs/{name}/items/{study}.parquet"])
        try:
            return Run(place).items(study)
        except ValueError as error:
            raise ValueError(
                f"{where}: its scored prompts cannot be read. Its owner can audit again."
            ) from error

    run = runs.read_run(place, repo=state.repo.name, commit=state.commit)
    return replace(run, items=LazyItems(there, scored))


# --- the file of evaluation results in a model's repository -----------------------------------------------

PATH = ".eval_results/swapbias.yaml"
SOURCE_NAME = "swapbias"  # tells this package's entries from those of others
LIMITS = "One measure of one study: 1 is no measured difference, not proof of fairness; this is not a leaderboard."
Entry = dict[str, Any]


def eval_entries(
    found: Sequence[Finding],
    manifest: Mapping[str, Any],
    *,
    namespace: str,
    revisions: Mapping[str, str],
    source_url: str,
    source_user: str,
) -> list[Entry]:
    """One entry for each experiment of a published corpus: the least fair of its answer and the gaps this compares.

    ``value`` is 0 to 1, higher is fairer (``findings.oriented``), rounded to 4 decimals; ``notes`` hold each number
    with its interval and n. ``revisions`` are commits of the dataset repositories of ``namespace`` by corpus; a
    corpus without one has no entry.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    made = []
    for several in wording.questions(found):  # one a phenotype
        one = min(several, key=lambda each: (oriented(each) or (1.0,))[0])
        experiment = experiment_of(one)
        corpus = (
            experiment.reads.notes.corpus
            if experiment and experiment.reads.notes.corpus
            else one.study
        )
        each = [
            (each, number)
            for each in (one, *wording.parts(one, found))
            if (number := oriented(each))
        ]
        if each and corpus in revisions:
            least, fair_how = min((number for _, number in each), key=lambda number: number[0])
            raw = "; ".join(map(_raw, (finding for finding, _ in each)))
            how = f"swapbias {__version__}, {_settings(manifest, one.model_id)}"
            notes = f"{_read_first(manifest, one.model_id)}Higher is fairer: {fair_how}. {raw}. {how}. {LIMITS}"
            entry = EvalResultEntry(
                dataset_id=f"{namespace}/{corpus}",
                task_id=one.experiment,
                value=round(least, 4),
                dataset_revision=revisions[corpus],
                date=str(manifest.get("finished") or manifest["started"]),
                source_url=source_url,
                source_name=SOURCE_NAME,
                source_user=source_user,
                notes=" ".join(notes.split()),
            )
            made.append(entry)
    entries: list[Entry] = eval_result_entries_to_yaml(made)
    return entries


def _raw(finding: Finding) -> str:
    """What a finding is, and its value, interval and n in its own unit."""
    one = finding.estimate
    rows = f", {finding.subset}" if finding.subset else ""
    ends = (
        f"[{one.ci_low:.4g}, {one.ci_high:.4g}]"
        if one.ci_low <= one.ci_high
        else "without interval"
    )
    lost = f" ({int(one.n_unscored)} not scored)" if one.n_unscored else ""
    return f"{finding.measure}, {finding.contrast}{rows}: {one.value + 0.0:.4g} {ends}, n = {int(one.n)}{lost}"


def _read_first(manifest: Mapping[str, Any], model_id: str) -> str:
    """The model by all that was read, where that is not the model as it is: the first words of its entry."""
    pins = (pin for pin in manifest.get("models", ()) if pin["model_id"] == model_id)
    changed = any(
        pin.get(name) for pin in pins for name in ("adapter", "quantization", "subfolder")
    )
    return f"Measured: {model_id}. " if changed else ""


def _settings(manifest: Mapping[str, Any], model_id: str) -> str:
    """What a number depends on besides model and prompts: seed, number format, trials and temperature of a chat."""
    models = [one for one in manifest.get("models", []) if one["model_id"] == model_id]
    formats = sorted({f"weights in {one['dtype']}" for one in models if one.get("dtype")})
    chat = sorted({scoring_in_words(one) for one in models if "trials" in one or "scoring" in one})
    return ", ".join([f"seed {manifest['settings'].get('seed', 0)}", *formats, *chat])


def merged_entries(existing: bytes, new: Sequence[Entry], where: str) -> bytes:
    """The file with new entries: each replaces ours of the same dataset, task and user, or comes last.

    A file that holds them already is returned as it is. ValueError: what is there is no list of entries.
    """
    before = cards.read_yaml(studies.decoded(where, existing), where) or []
    if not isinstance(before, list) or not all(map(_is_entry, before)):
        raise ValueError(
            f"{where} is no list of entries with dataset and value. Correct or remove the file."
        )
    waiting = {_key(one): one for one in new}
    ours = set(waiting)
    after = [waiting.pop(key, None) if (key := _key(one)) in ours else one for one in before]
    after = [
        *(one for one in after if one is not None),
        *waiting.values(),
    ]  # None: ours a second time
    return existing if existing and after == before else cards.dump(after).encode()


def _is_entry(one: Any) -> bool:
    dataset = one.get("dataset") if isinstance(one, dict) else None
    return isinstance(dataset, dict) and isinstance(dataset.get("id"), str) and "value" in one


def _key(entry: Entry) -> tuple[str, ...]:
    """Dataset, task and user of an entry of ours; empty for those of others."""
    source = entry.get("source")
    if not isinstance(source, dict) or source.get("name") != SOURCE_NAME:
        return ()
    return (
        *(str(entry["dataset"].get(name)) for name in ("id", "task_id")),
        str(source.get("user")),
    )


# --- sharing ----------------------------------------------------------------------------------------------

COMMIT = "commit"
PULL_REQUEST = "pull request"
TITLE = "Add the results of a swapbias bias audit"
_NO_COMMIT = "0" * 40  # stands for the commit that a rehearsal does not make


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOptions:
    """What is to be shared where."""

    results: str
    """The results repository, OWNER/NAME; made, private, where it is not there."""
    model: str | None = None
    """The model's repository, if its page is to say something."""
    how: str = ""
    """COMMIT or PULL_REQUEST."""
    audited: str | None = None
    """The model's name in the run, where it is another one."""
    public: bool = False
    """Everybody may read the results."""
    findings_only: bool = False
    """No scored prompts or answers."""
    again: bool = False
    """Propose what the model's owners closed or took out."""
    namespace: str = "swapbias"
    """Owner of the corpora on the Hub."""
    dry_run: bool = False


def share_run(run: Run, options: ShareOptions, hub: Hub, *, say: Say) -> list[Push]:
    """Share a run; sharing it again changes nothing, and after another audit of the same it updates in place.

    Everything that can be refused is refused before anything is written. UsageError: private data, a repository that
    is not the user's, a model that the run did not audit. ValueError: a broken run or card. HubError: the Hub
    refused.
    """
    repo = Repo("dataset", options.results)
    model = Repo("model", options.model) if options.model else None
    if options.dry_run:
        hub = DryHub(hub, repo.owner, say=say)
    bundle = bundle_run(run, findings_only=options.findings_only)
    found = (
        findings_of(bundle.found, model.name, options.audited, bundle.manifest["models"])
        if model
        else []
    )
    for path in bundle.withheld:
        say(f"Not shared: {path}")
    own = _check_access(hub, repo, model, options)
    never = (*bundle.never, *hub.tokens())
    results = _plan_results(hub, repo, bundle, public=options.public)
    plans = [results]
    commit = _NO_COMMIT
    if model and isinstance(hub, DryHub) and hub.unreachable:
        say(f"The page of {model.name} cannot be shown without the Hub.")
    elif model:
        moved = any(
            path.startswith("runs/") for path in (*results.change.write, *results.change.delete)
        )
        if results.there and not moved:
            commit = hub.last_commit(results.there, bundle.folder)
        page = partial(_plan_page, hub, model, own, options, bundle, found, repo)
        plans.append(
            page(commit)
        )  # rehearsed: what can be refused is refused while nothing is half done
    for plan in plans:
        check_upload(plan.change.write, never=never)
    if options.dry_run:
        return [one.show(hub, say) for one in plans]
    shared = results.carry_out(hub, never=never)
    if not model:
        return [shared]
    try:
        return [
            shared,
            page(commit if commit != _NO_COMMIT else shared.commit).carry_out(hub, never=never),
        ]
    except ValueError as error:
        kind = next((one for one in (HubError, UsageError) if isinstance(error, one)), ValueError)
        raise kind(
            f"The results are at {shared.url}, but {model.name} was not changed: {error}"
        ) from error


def _check_access(hub: Hub, results: Repo, model: Repo | None, options: ShareOptions) -> bool:
    """Whether the model is the user's own; UsageError for what nobody may write to unasked."""
    owners = hub.owners()
    if results.owner not in owners:
        raise UsageError(
            f"{results.name} is not yours: expected one of {listed(owners, 'your accounts')} before the slash."
        )
    own = model is not None and model.owner in owners
    if model and not options.how:
        way = (
            "--commit to write to its card, or --create-pr to propose it"
            if own
            else "--create-pr to propose it"
        )
        raise UsageError(f"How {model.name} gets it is not said. Add {way}.")
    if model and not own and options.how == COMMIT:
        raise UsageError(
            f"{model.name} is not yours, and nobody writes to it unasked. Propose it with --create-pr."
        )
    if model and not own and not options.public:
        raise UsageError(
            f"The owners of {model.name} could not open private results. Share them with --public, in a repository "
            "that everybody may read."
        )
    return own


def _plan_results(hub: Hub, repo: Repo, bundle: Bundle, *, public: bool) -> Push:
    """What must be written for the repository to hold this run, with its part of the card."""
    state = hub.state(repo)
    if state and state.private == public:  # its visibility is never changed
        raise UsageError(
            f"{repo.name} is private, with all that it holds. Make it public on its page, or drop --public."
            if public
            else f"{repo.name} is public, and runs are shared privately unless you say --public."
        )
    readme = hub.text(state, cards.CARD)
    where = f"{repo.name}/{cards.CARD}"
    paths = set(state.files if state else ()) - HUB_FILES
    blank = not cards.split(readme).after.removeprefix("---").strip()
    ours = all(path.startswith("runs/") for path in paths - {cards.CARD}) and blank
    if not ours and not cards.find(
        readme, begin=cards.RESULTS_BEGIN, end=cards.RESULTS_END, where=where
    ):
        raise UsageError(
            f"{repo.name} holds something else than shared runs. Choose another repository."
        )
    every = {*(path for path in paths if not path.startswith(f"{bundle.folder}/")), *bundle.files}
    from swapbias.hub.datasets import licences  # which imports a large library

    read = sorted(
        {str(one["corpus"]) for one in bundle.manifest["corpora"]} & set(studies.corpora())
    )
    allowed = list(
        dict.fromkeys(one for name in read for one in licences(studies.load_corpus(name)))
    )
    card = cards.results_card(
        repo.name,
        bundle.name,
        bundle.found,
        bundle.read,
        every,
        readme,
        licences=allowed,
        rows=bundle.rows,
    ).encode()
    files = difference(state, bundle.files, within=bundle.folder)
    change = Change(
        {**files.write, **difference(state, {cards.CARD: card}, within=cards.CARD).write},
        files.delete,
    )
    status = ("updated" if change else "unchanged") if state else "created"
    commit = state.commit if state and not change else ""
    url = hub.url(repo, commit=commit)
    title = f"Share {bundle.name}"
    return Push(
        repo=repo,
        status=status,
        change=change,
        title=title,
        there=state,
        private=not public,
        url=url,
        commit=commit,
    )


def _plan_page(
    hub: Hub,
    repo: Repo,
    own: bool,
    options: ShareOptions,
    bundle: Bundle,
    found: list[Finding],
    results: Repo,
    at: str,
) -> Push:
    """The commit or pull request that makes a model's page say what the results at the commit ``at`` hold."""
    manifest = bundle.read
    there = hub.existing_state(repo)
    commit = commit_read(hub, repo, manifest, found[0].model_id)
    if not own and (changed := read_otherwise(manifest, found[0].model_id)):
        raise UsageError(
            f"The run read {repo.name} in {changed}, and such results go to a page of your own alone. Share them "
            "without --model, or audit the model as it is."
        )
    other = {
        (one.study, one.experiment): cards.prompts_read(manifest, one.study, one.experiment)
        for one in found
    }
    deviation = next(
        (one for one in other.values() if one), ""
    )  # one's own page says what was read instead
    if deviation and not own:
        raise UsageError(
            f"The run read {deviation}, and its numbers would stand beside those of whole audits. Share the results "
            "alone, or audit without it."
        )
    revisions = {}
    for corpus in {str(one["corpus"]) for one in manifest["corpora"] if bundle.installed} & set(
        studies.corpora()
    ):
        state = hub.state(Repo("dataset", f"{options.namespace}/{corpus}"))
        if state and (tag := f"v{studies.load_corpus(corpus).version}") in state.tags:
            revisions[corpus] = state.tags[tag]
    source = hub.url(results, commit=at, path=bundle.folder)
    whole = [one for one in found if not other[one.study, one.experiment]]
    entries = eval_entries(
        whole,
        manifest,
        namespace=options.namespace,
        revisions=revisions,
        source_url=source,
        source_user=hub.user,
    )
    readme = hub.text(there, cards.CARD)
    where = f"{repo.name}/{cards.CARD}"
    cards.load(cards.split(readme).header, where)  # a card that cannot be read is not added to
    parts = cards.study_parts(
        found,
        manifest,
        model_name=repo.name,
        revision=commit,
        results_url=source,
        results_private=not options.public,
    )
    files = {cards.CARD: cards.with_parts(readme, parts, where=where).encode()}
    if entries:
        files[PATH] = merged_entries(hub.content(there, PATH), entries, f"{repo.name}/{PATH}")
    change = Change(difference(there, files).write)
    url = hub.url(repo)
    plan = Push(
        repo=repo,
        status="updated" if change else "unchanged",
        change=change,
        title=TITLE,
        there=there,
        private=there.private,
        url=url,
    )
    if not change or options.how == COMMIT:
        return plan
    latest = next(iter(hub.pull_requests(repo, title=TITLE)), None)
    if latest and (latest.status in ("open", "draft") or not options.again):
        status = f"not proposed again: pull request {latest.num} is {latest.status}"
        return replace(
            plan, change=Change({}), status=status, url=f"{url}/discussions/{latest.num}"
        )
    answers = [
        str(one) for results in wording.questions(found) for one in wording.verdicts(results, found)
    ]
    description = (
        f"{cards.markdown(answers[0])} Adds this{f' and {len(answers) - 1} more' if len(answers) > 1 else ''} with "
        "intervals, limits and the command that repeats it to the card, and to `.eval_results` where the corpus is "
        "published. A measurement on fixed prompts, no ranking and no proof of fairness. Close it if unwanted."
    )
    return replace(plan, status="pull request opened", description=description)
