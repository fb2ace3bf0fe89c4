"""Share a run: its results in a repository of one's own and, if asked, numbers and a section on the model's page."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swapbias.errors import HubError, UsageError
from swapbias.files import write_whole
from swapbias.findings import Finding
from swapbias.hub import audit_cards, cards, eval_results, shared_runs
from swapbias.hub.audit_cards import Figure, prompts_read
from swapbias.hub.bundle import bundle_run
from swapbias.hub.cards import CARD
from swapbias.hub.client import Change, Hub, Repo, State, difference
from swapbias.hub.datasets import PushResult, Say, show_change
from swapbias.hub.eval_results import PATH, numbers
from swapbias.hub.shared_runs import Update, existing_state, text_of
from swapbias.models import weight_files
from swapbias.privacy import gate as outgoing, writing
from swapbias.report import draw_figures
from swapbias.runs import Run
from swapbias.studies import corpora, load_corpus, load_study

if TYPE_CHECKING:
    from huggingface_hub import Discussion

NAMESPACE = "swapbias"  # who publishes the corpora on the Hub
COMMIT, PULL_REQUEST = "commit", "pull request"
TITLE = "Add the results of a swapbias bias audit"
_OPEN = ("open", "draft")
_WITH_CARD = " --card proposes that section as well."
_NO_COMMIT = "0" * 40  # stands for the commit that a rehearsal does not make
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_MOST_KNOWN = 5  # commits that a file names and that are looked up
_VARYING = re.compile(r"\b[0-9a-f]{40}\b|\d{4}-\d{2}-\d{2}")  # in a section: what changes while numbers stay


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOptions:
    """What is to be shared where.

    Attributes:
        results: the results repository, OWNER/NAME; made, private, where it is not there.
        model: the model's repository, if its page is to say something; ``how`` is ``commit`` or ``pull request``.
        audited: the model's name in the run, where it is another one.
        public: everybody may read the results.
        findings_only: no scored prompts, answers or explained notes.
        name: of the run in the repository.
        phenotypes: of the user's own notes, those whose names may leave.
        card: propose the section of the card too; one's own model gets it anyway.
        again: propose what the model's owners closed or took out.
        namespace: owner of the corpora on the Hub.
        out: of a dry run: a folder to write what would be published.
    """

    results: str
    model: str | None = None
    how: str = ""
    audited: str | None = None
    public: bool = False
    findings_only: bool = False
    name: str | None = None
    phenotypes: tuple[str, ...] = ()
    card: bool = False
    again: bool = False
    namespace: str = NAMESPACE
    dry_run: bool = False
    out: Path | None = None


@dataclass(frozen=True, slots=True)
class Weights:
    """What the audited model is on the Hub: the ``commit`` that was read, or the sha256 of each file of weights."""

    commit: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What a run says of one model, and where the whole run stands.

    Attributes:
        model: its repository; ``own``: the user may write to it.
        found: its findings.
        weights: what it is on the Hub (``weights_read``).
        manifest: of the run, as it is shared.
        figures: for the card, by study: a PNG and what it shows.
        results: the results repository; ``folder`` in it holds the run, ``commit`` is where it stands as described.
        revisions: commits of the corpora on the Hub, by corpus.
        options: what is to be shared where.
    """

    model: Repo
    own: bool
    found: Sequence[Finding]
    weights: Weights
    manifest: Mapping[str, Any]
    figures: Mapping[str, tuple[bytes, str]]
    results: Repo
    folder: str
    commit: str
    revisions: Mapping[str, str]
    options: ShareOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCommit:
    """What is to be done to the model's repository.

    Attributes:
        there: what the change is made from; nothing is done where ``change`` is empty.
        status: what will have been done, in a few words.
        page: to look at, where a commit has none of its own.
        revision: the branch that is written to; ``opens``: as a new pull request.
    """

    there: State
    change: Change
    status: str
    page: str
    revision: str = "main"
    opens: bool = False


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
    bundle = bundle_run(run, findings_only=options.findings_only, name=options.name, phenotypes=options.phenotypes)
    found = findings_of(bundle.found, model.name, options.audited) if model else []
    for path in bundle.withheld:
        say(f"Not shared: {path}")
    state, own = _check_access(hub, results, model, options)
    named = options.name is not None
    update = shared_runs.prepare(hub, results, state, bundle, named=named, public=options.public, say=say)
    never = (*bundle.never, *hub.tokens())
    outgoing.check(update.change.write, never=never)
    if model is None:
        if options.dry_run:
            return [_show_results(hub, update, options, say)]
        return [shared_runs.put(hub, update, bundle)]
    audit = Audit(
        model=model,
        own=own,
        found=found,
        weights=weights_read(hub, model, bundle.manifest, found[0].model_id),
        manifest=bundle.manifest,
        figures=_figures(found),
        results=results,
        folder=f"runs/{bundle.name}",
        commit=update.settled or _NO_COMMIT,
        revisions=revisions(hub, bundle.manifest, options.namespace),
        options=options,
    )
    # Rehearsed before anything is written: whatever can be refused is refused while nothing is half done.
    planned = plan_commit(hub, audit)
    outgoing.check(planned.change.write, never=never)
    if options.dry_run:
        return [_show_results(hub, update, options, say), _show_model(hub, audit, planned, say)]
    done = shared_runs.put(hub, update, bundle)
    try:
        audit = replace(audit, commit=done.commit)
        return [done, _carry_out(hub, audit, plan_commit(hub, audit), never=bundle.never)]
    except ValueError as error:
        kind = next((one for one in (HubError, UsageError) if isinstance(error, one)), ValueError)
        raise kind(f"The results are at {done.url}, but {model.name} was not changed: {error}") from error


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
        shared_runs.check_visibility(state, public=options.public)
    if model and not own and not options.public:
        raise UsageError(
            f"The owners of {model.name} could not open private results. Share them with --public, in a repository "
            "that everybody may read."
        )
    return state, own


def revisions(hub: Hub, manifest: Mapping[str, Any], namespace: str) -> dict[str, str]:
    """Commits of the corpora on the Hub at the installed version, by corpus.

    A corpus has one only where the run read the very rows that are installed, and they are on the Hub under the tag
    of their version: a part of them, rows of another version or notes of the user's own have none.
    """
    found = {}
    read = manifest["corpora"]
    for corpus in sorted({str(one["corpus"]) for one in read} & set(corpora())):
        entries = [one for one in read if one["corpus"] == corpus]
        if all(shared_runs.is_installed(one, manifest["settings"]) for one in entries):
            state = hub.state(Repo("dataset", f"{namespace}/{corpus}"))
            tag = f"v{load_corpus(corpus).version}"
            if state and tag in state.tags:
                found[corpus] = state.tags[tag]
    return found


def _figures(found: Sequence[Finding]) -> dict[str, tuple[bytes, str]]:
    figures = {}
    for study in dict.fromkeys(one.study for one in found):
        drawn = next(iter(draw_figures([one for one in found if one.study == study])), None)
        if drawn:
            figures[study] = (drawn.png, drawn.caption)
    return figures


# --- which model it is ------------------------------------------------------------------------------------


def findings_of(found: Sequence[Finding], model: str, audited: str | None) -> list[Finding]:
    """The findings of the model that is ``model`` (OWNER/NAME) on the Hub.

    Raises:
        UsageError: the run audited no model of that name, or of the name that is given.
    """
    names = list(dict.fromkeys(one.model_id for one in found))
    if audited is not None and audited not in names:
        raise UsageError(f"The run audited {', '.join(names)}, and {audited} is none of them. Correct --audited.")
    if audited is None and model not in names:
        raise UsageError(
            f"The run audited {', '.join(names)}, and {model} is none of them. If one of them is {model} under "
            "another name, say which with --audited."
        )
    return [one for one in found if one.model_id == (audited or model)]


def weights_read(hub: Hub, model: Repo, manifest: Mapping[str, Any], audited: str) -> Weights:
    """What a run read under a name, once it is known that the repository holds it.

    Raises:
        UsageError: the repository has other weights, or nothing tells what the run read: its page would show another
            model's numbers.
    """
    identity: Mapping[str, Any] = next((one for one in manifest.get("models", ()) if one["model_id"] == audited), {})
    pin = identity.get("features") or identity  # of an embedding; its classifier was trained in the audit
    elsewhere = any(pin.get(name) for name in ("host", "provider", "sha256"))
    commit = str(pin.get("revision")) if not elsewhere and _COMMIT.fullmatch(str(pin.get("revision"))) else ""
    if commit and _at_commit(hub, model, commit):
        return Weights(commit, {})
    read = dict(pin.get("weights") or {})
    name = audited.partition("+")[0]  # of an embedding without its classifier
    if commit and _HUB_NAME.fullmatch(name):
        read = _weights(_at_commit(hub, Repo("model", name), commit))
    if not read:
        raise UsageError(
            f"Nothing tells which weights the run read as {audited}: a service, a function or a model in memory has "
            f"none. Audit {model.name}, or the folder that was pushed there."
        )
    if _weights(existing_state(hub, model)) != read:
        raise UsageError(f"{model.name} has other weights than {audited}, which the run read. Audit {model.name}.")
    return Weights("", read)


def _at_commit(hub: Hub, repo: Repo, commit: str) -> State | None:
    try:
        return hub.state(repo, revision=commit)
    except HubError:  # no such commit
        return None


def _weights(state: State | None) -> dict[str, str]:
    """The sha256 of each file of weights, as the Hub reports it."""
    files = state.files if state else {}
    return {name: files[name].removeprefix("sha256:") for name in weight_files(files)}


def _commit_read(hub: Hub, there: State, weights: Weights, text: str) -> str:
    """The commit of a model's repository that was read; of several with these weights the one that ``text`` names."""
    named = re.findall(rf"{re.escape(there.repo.name)}@([0-9a-f]{{40}})\b", text)
    for known in () if weights.commit else list(dict.fromkeys(named))[:_MOST_KNOWN]:
        if _weights(_at_commit(hub, there.repo, known)) == weights.files:
            return str(known)
    return weights.commit or there.commit


def _settled(hub: Hub, audit: Audit, text: str) -> Audit:
    """The audit at the commit that ``text`` names already, where the run stands there as it does now.

    Other runs that were shared since move the repository's commit, and are no reason to touch the card.
    """
    begin, end = hub.url(audit.results, commit=_NO_COMMIT, path=audit.folder).split(_NO_COMMIT)
    found = re.findall(rf"{re.escape(begin)}([0-9a-f]{{40}}){re.escape(end)}(?![\w-])", text)
    for known in list(dict.fromkeys(found))[:_MOST_KNOWN]:
        if known == audit.commit or _run_at(hub, audit, known) == _run_at(hub, audit, audit.commit):
            return replace(audit, commit=known)
    return audit


def _run_at(hub: Hub, audit: Audit, commit: str) -> dict[str, str]:
    state = _at_commit(hub, audit.results, commit)
    files = state.files if state else {}
    return {path: known for path, known in files.items() if path.startswith(f"{audit.folder}/")}


# --- what its page gets -----------------------------------------------------------------------------------


def figure_path(study: str) -> str:
    """Where the figure of a study stands in the model's repository."""
    return f"swapbias/{study}.png"


def model_files(hub: Hub, audit: Audit, there: State, *, also: str = "") -> dict[str, bytes]:
    """What the model's repository should hold: the evaluation results and, where asked for, the card with figures.

    All else in both stays. Proposals to others hold whole audits alone; one's own page says what was read.

    Args:
        hub: where it is.
        audit: what is said.
        there: the repository as it is.
        also: a text that may name the commit of the results already.

    Raises:
        UsageError: a proposal of other prompts than the studies' own, or of no number.
        ValueError: a card that cannot be added to (a header that is no YAML, lone markers), a broken file of results.
    """
    readme, existing = text_of(hub, there, CARD), text_of(hub, there, PATH)
    with_card = audit.own or audit.options.card
    other = _other_prompts(audit)
    trouble = next(filter(None, other.values()), "")
    if trouble and not audit.own:
        raise UsageError(
            f"The run read {trouble}, and its numbers would stand beside those of whole audits. Share the "
            "results alone, or audit without it."
        )
    settled = _settled(hub, audit, (readme if with_card else "") + existing + also)
    url = hub.url(settled.results, commit=settled.commit, path=settled.folder)
    entries = eval_results.entries(
        [one for one in audit.found if not other[one.study, one.experiment]],
        namespace=audit.options.namespace,
        revisions=audit.revisions,
        source_url=url,
        source_user=hub.user,
        date=str(audit.manifest.get("finished") or audit.manifest["started"]),
        settings=eval_results.settings_note(audit.manifest, audit.found[0].model_id),
    )
    if not entries and not audit.own:
        raise UsageError(
            "Nothing in this run can be told as one number where higher is fairer. Share the results alone."
        )
    made = {PATH: eval_results.merged(existing.encode(), entries, f"{audit.model.name}/{PATH}")} if entries else {}
    if not with_card:
        return made
    parts = audit_cards.study_parts(
        audit.found,
        audit.manifest,
        model_name=audit.model.name,
        revision=_commit_read(hub, there, audit.weights, readme + also),
        results_url=url,
        results_private=not audit.options.public,
        figures={study: Figure(figure_path(study), caption) for study, (_, caption) in audit.figures.items()},
    )
    where = f"{audit.model.name}/{CARD}"
    cards.load(cards.split(readme).header, where)
    figures = {figure_path(study): content for study, (content, _) in audit.figures.items() if study in parts}
    return {CARD: audit_cards.with_parts(readme, parts, where=where).encode(), **figures, **made}


def _other_prompts(audit: Audit) -> dict[tuple[str, str], str]:
    """What each experiment read in place of its study's own prompts; blank where it read just these.

    A number of a part, of other configs or of the user's own notes must not stand beside those of whole audits.
    """
    other = {}
    for pair in dict.fromkeys((one.study, one.experiment) for one in audit.found):
        read = prompts_read(audit.manifest, *pair)
        other[pair] = "" if read.usual else f"other prompts than the study's own ({', '.join(read.configs)})"
        if read.limit is not None:
            other[pair] = "only a part of the prompts (--limit)"
        if read.own:
            other[pair] = "notes of your own"
    return other


def _is_news(hub: Hub, audit: Audit, there: State, wanted: Mapping[str, bytes]) -> bool:
    """Whether numbers or parts of the section are new: a date or an address alone is no reason to ask strangers."""

    def parts(content: bytes) -> set[str]:
        where = f"{audit.model.name}/{CARD}"
        text = cards.decode(content, where)
        span = cards.find(text, begin=audit_cards.BEGIN, end=audit_cards.END, where=where)
        present = audit_cards.section_parts(text[span.start : span.end], where) if span else {}
        return {_VARYING.sub("", part) for part in present.values()}

    where = f"{audit.model.name}/{PATH}"
    present = numbers(hub.content(there, PATH), where, hub.user)
    new = numbers(wanted.get(PATH, b""), where, hub.user) - present
    return bool(new or (CARD in wanted and parts(wanted[CARD]) - parts(hub.content(there, CARD))))


def plan_commit(hub: Hub, audit: Audit) -> PlannedCommit:
    """The commit or pull request to the model's repository that a share makes; nothing where it holds all of it.

    An open pull request of ours is brought up to date with the audit and with the main branch. What its owners
    closed, or took out after they had merged it, is proposed a second time only with ``again``.
    """
    there = existing_state(hub, audit.model)
    wanted = model_files(hub, audit, there)
    change, page = Change(difference(there, wanted).write), hub.url(audit.model)
    if audit.options.how == COMMIT:
        return PlannedCommit(there=there, change=change, status="updated" if change else "unchanged", page=page)
    if not change or not _is_news(hub, audit, there, wanted):
        return PlannedCommit(there=there, change=Change({}), status="unchanged", page=page)
    earlier = hub.pull_requests(audit.model, title=TITLE)
    for one in earlier:
        if one.status in _OPEN:
            return _updated_request(hub, audit, there, one)
    latest = earlier[0] if earlier and not audit.options.again else None
    declined = ""
    if latest and latest.status == "closed":
        declined = f"not proposed again: its owners closed pull request {latest.num}"
    elif latest and not numbers(hub.content(there, PATH), f"{audit.model.name}/{PATH}", hub.user):
        declined = f"not proposed again: its owners took out what pull request {latest.num} brought"
    if declined:
        return PlannedCommit(there=there, change=Change({}), status=declined, page=page)
    return PlannedCommit(there=there, change=change, status="pull request opened", page=page, opens=True)


def _updated_request(hub: Hub, audit: Audit, there: State, one: "Discussion") -> PlannedCommit:
    """The open pull request with what main holds now and ours; not what its branch began from."""
    ref = one.git_reference or f"refs/pr/{one.num}"
    branch = existing_state(hub, audit.model, revision=ref)
    proposed = "".join(hub.content(branch, path).decode(errors="replace") for path in (CARD, PATH))
    further = Change(difference(branch, model_files(hub, audit, there, also=proposed)).write)
    return PlannedCommit(
        there=branch,
        change=further,
        status=f"pull request {one.num} {'updated' if further else 'unchanged'}",
        page=f"{hub.url(audit.model)}/discussions/{one.num}",
        revision=ref,
    )


def _carry_out(hub: Hub, audit: Audit, planned: PlannedCommit, *, never: Sequence[str]) -> PushResult:
    if not planned.change:
        return PushResult(audit.model, planned.status, planned.change, url=planned.page)
    made = hub.commit(
        audit.model,
        planned.change,
        TITLE,
        parent=planned.there.commit,
        revision=planned.revision,
        description=_description(audit, planned) if planned.opens else "",
        create_pr=planned.opens,
        never=never,
    )
    page = made.pr_url or (made.commit_url if planned.revision == "main" else planned.page)
    return PushResult(audit.model, planned.status, planned.change, url=page, commit=made.oid)


def _description(audit: Audit, planned: PlannedCommit) -> str:
    studies = "; ".join(load_study(name).title for name in dict.fromkeys(one.study for one in audit.found))
    what = f"a section of the card and `{PATH}`" if CARD in planned.change.write else f"`{PATH}` and nothing else"
    if PATH not in planned.change.write:
        what = "a section of the card"
    return (
        f"Adds {what}: results of a bias audit with swapbias ({studies}). A measurement on fixed prompts, no ranking "
        "and no proof of fairness; the source of every number stands beside it, at a commit. Close it if unwanted."
    )


# --- dry run ----------------------------------------------------------------------------------------------


def _show_results(hub: Hub, update: Update, options: ShareOptions, say: Say) -> PushResult:
    """Say what would be written to the results repository: its card, and every path."""
    would = f"would be {update.status}" if update.change else "unchanged"
    say(f"{update.repo.kind} {update.repo.name}: {would}")
    show_change(hub, update.state, update.change, say)
    _lay_out(update.repo, update.change, options)
    return PushResult(update.repo, would, update.change, url=hub.url(update.repo))


def _show_model(hub: Hub, audit: Audit, planned: PlannedCommit, say: Say) -> PushResult:
    """Say what would be written to the model's repository: card and numbers, and what a pull request would say."""
    what, _, done = planned.status.rpartition(" ")
    would = f"{what} would be {done}".lstrip() if planned.change else planned.status
    say(f"model {audit.model.name}: {would}")
    if planned.opens:
        say(f"  Title: {TITLE}")
        say(f"  Description: {_description(audit, planned)}")
    show_change(hub, planned.there, planned.change, say, texts=(CARD, PATH))
    if PATH in planned.change.write:
        say(f"{PATH}: {eval_results.UNSEEN}{'' if CARD in planned.change.write else _WITH_CARD}")
    _lay_out(audit.model, planned.change, audit.options)
    return PushResult(audit.model, would, planned.change, url=planned.page)


def _lay_out(repo: Repo, change: Change, options: ShareOptions) -> None:
    """With ``out``, write there what would be published."""
    if options.out is None:
        return
    with writing(options.out, held=False):
        for path, content in change.write.items():
            target = options.out / repo.name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, content if isinstance(content, bytes) else content.read_bytes())
