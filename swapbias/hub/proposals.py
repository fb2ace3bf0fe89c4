"""A change in a model's repository: its owner's card and the file of results, or a pull request of that file."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from swapbias.errors import HubError, UsageError
from swapbias.findings import Finding
from swapbias.hub import eval_results, header, markdown as marked, model_card
from swapbias.hub.client import Change, Hub, PullRequest, Repo, State, difference
from swapbias.hub.eval_results import numbers
from swapbias.hub.model_card import Figure, audited, prompts_read
from swapbias.scorers import weight_files

CARD = "README.md"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_MOST_KNOWN = 5  # commits that a file names and that are looked up; a hostile file may name thousands
_VARYING = re.compile(r"\b[0-9a-f]{40}\b|\d{4}-\d{2}-\d{2}")  # in a section: what changes while numbers stay


@dataclass(frozen=True, slots=True)
class Weights:
    """What the audited model is on the Hub: the ``commit`` that was read, or the sha256 of each file of weights."""

    commit: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What a run says of one model, and where the whole run stands.

    Attributes:
        found: findings of the one model.
        weights: what it is on the Hub (``weights_read``).
        manifest: of the run, as it is shared.
        figures: for the card, by study: a PNG and what it shows.
        results: the results repository; ``folder`` in it holds the run, ``commit`` is where it stands as described.
        private: whether only some can open it.
        namespace: owner of the corpora on the Hub; ``revisions`` are their commits, by corpus.
    """

    found: Sequence[Finding]
    weights: Weights
    manifest: Mapping[str, Any]
    figures: Mapping[str, tuple[bytes, str]]
    results: Repo
    folder: str
    commit: str
    private: bool
    namespace: str
    revisions: Mapping[str, str]


Files = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Make:
    """How a repository is added to.

    Attributes:
        files: what should stand there, given what does and a text that may name the commit of the results already.
        path: the file by which a proposal is known.
        ours: what of that file's content is ours and tells something: no dates, no addresses. Raises ValueError for a
            content that cannot be read.
    """

    files: Callable[[State, str], Files]
    path: str
    ours: Callable[[bytes], frozenset[Any]]


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
    commit = str(pin["revision"]) if _of_the_hub(pin) else ""
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
    if _weights(seen(hub, model)) != read:
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
    if weights.commit:
        return weights.commit
    named = re.findall(rf"{re.escape(there.repo.name)}@([0-9a-f]{{40}})\b", text)
    for known in list(dict.fromkeys(named))[:_MOST_KNOWN]:
        if _weights(_at_commit(hub, there.repo, known)) == weights.files:
            return str(known)
    return there.commit


def _of_the_hub(identity: Mapping[str, Any]) -> bool:
    """Whether a commit of the Hub pins a model down."""
    elsewhere = any(identity.get(name) for name in ("host", "provider", "sha256"))
    return not elsewhere and bool(_COMMIT.fullmatch(str(identity.get("revision"))))


def figure_path(study: str) -> str:
    """Where the figure of a study stands in the model's repository."""
    return f"swapbias/{study}.png"


def card_files(hub: Hub, model: Repo, audit: Audit) -> Make:
    """The owner's card with a part for each study and its figure, and the file of evaluation results beside it.

    All else in both stays. ``files`` raises ValueError for a card that cannot be added to (a header that is no YAML,
    lone markers).
    """
    where = f"{model.name}/{CARD}"
    other = _other_prompts(audit)
    listed = [one for one in audit.found if not other[one.study, one.experiment]]

    def files(there: State, known: str) -> Files:
        readme, existing = text_of(hub, there, CARD), text_of(hub, there, eval_results.PATH)
        split = header.split(readme)
        header.load(split.header, where, first_line=split.first_line)
        settled = _settled(hub, audit, readme + existing + known)
        studies = audited(
            audit.found,
            audit.manifest,
            model_name=model.name,
            revision=_commit_read(hub, there, audit.weights, readme + known),
            results_url=_url(hub, settled),
            results_private=audit.private,
            figures={study: Figure(figure_path(study), caption) for study, (_, caption) in audit.figures.items()},
        )
        parts = {one.study: model_card.part(one) for one in studies}
        made = model_card.with_parts(readme, parts, where=where)
        figures = {figure_path(study): content for study, (content, _) in audit.figures.items() if study in parts}
        return {
            CARD: made.encode(),
            **figures,
            **_evaluation_results(hub, model, replace(settled, found=listed), existing),
        }

    def ours(content: bytes) -> frozenset[str]:
        text = header.decode(content, where)
        span = marked.find(text, begin=model_card.BEGIN, end=model_card.END, where=where)
        held = model_card.held_parts(text[span.start : span.end], where) if span else {}
        return frozenset(_VARYING.sub("", part) for part in held.values())

    return Make(files, CARD, ours)


def result_files(hub: Hub, model: Repo, audit: Audit) -> Make:
    """The one file of a pull request to somebody else's model, beside the entries of others that it holds.

    Raises:
        UsageError: the run did not read all prompts of its studies: one number for each task must come from the
            task's own prompts.
    """
    path = eval_results.PATH
    for trouble in filter(None, _other_prompts(audit).values()):
        raise UsageError(
            f"The run read {trouble}, and its numbers would stand beside those of whole audits. Share the "
            "results alone, or audit without it."
        )

    def files(there: State, known: str) -> Files:
        existing = text_of(hub, there, path)
        made = _evaluation_results(hub, model, _settled(hub, audit, existing + known), existing)
        if not made:
            raise UsageError(
                "Nothing in this run can be told as one number where higher is fairer. Share the results alone."
            )
        return made

    return Make(files, path, lambda content: numbers(content, f"{model.name}/{path}", hub.user))


def with_card(hub: Hub, model: Repo, audit: Audit) -> Make:
    """A pull request to somebody else's model that brings the section of the card besides the file.

    It is known by the numbers, so that it goes into a pull request that brings these alone and is not proposed where
    they were declined; where the model has the numbers already, by the section.

    Raises:
        UsageError: as ``result_files``.
    """
    results, card = result_files(hub, model, audit), card_files(hub, model, audit)
    there = seen(hub, model)
    held = hub.content(there, results.path)
    settled = results.ours(results.files(there, "")[results.path]) <= results.ours(held)
    return card if settled else replace(results, files=card.files)


def _evaluation_results(hub: Hub, model: Repo, audit: Audit, existing: str) -> Files:
    """The file of evaluation results with those of an audit; nothing where it has none.

    Raises:
        ValueError: the file that is there holds something else.
    """
    entries = eval_results.entries(
        audit.found,
        namespace=audit.namespace,
        revisions=audit.revisions,
        source_url=_url(hub, audit),
        source_user=hub.user,
        date=str(audit.manifest.get("finished") or audit.manifest["started"]),
        settings=eval_results.settings_note(audit.manifest, audit.found[0].model_id if audit.found else None),
    )
    path = eval_results.PATH
    return {path: eval_results.merged(existing.encode(), entries, f"{model.name}/{path}")} if entries else {}


def _url(hub: Hub, audit: Audit) -> str:
    return hub.url(audit.results, commit=audit.commit, path=audit.folder)


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


def text_of(hub: Hub, there: State, path: str) -> str:
    """A text of a repository; blank where it is not there.

    Raises:
        ValueError: it is not UTF-8.
    """
    return header.decode(hub.content(there, path), f"{there.repo.name}/{path}")


def _settled(hub: Hub, audit: Audit, text: str) -> Audit:
    """The audit at the commit that ``text`` names already, where the run stands there as it does now.

    Other runs that were shared since move the repository's commit, and are no reason to touch the card.
    """
    begin, end = hub.url(audit.results, commit="0" * 40, path=audit.folder).split("0" * 40)
    found = re.findall(rf"{re.escape(begin)}([0-9a-f]{{40}}){re.escape(end)}(?![\w-])", text)
    for known in list(dict.fromkeys(found))[:_MOST_KNOWN]:
        if known == audit.commit or _run_at(hub, audit, known) == _run_at(hub, audit, audit.commit):
            return replace(audit, commit=known)
    return audit


def _run_at(hub: Hub, audit: Audit, commit: str) -> dict[str, str]:
    state = _at_commit(hub, audit.results, commit)
    files = state.files if state else {}
    return {path: known for path, known in files.items() if path.startswith(f"{audit.folder}/")}


TITLE = "Add the results of a swapbias bias audit"
COMMIT, PULL_REQUEST = "commit", "pull request"
_OPEN = ("open", "draft")


@dataclass(frozen=True, slots=True)
class Done:
    """What happened to a repository: a sentence's status, and the page to look at."""

    repo: Repo
    status: str
    url: str
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is to be done to a repository.

    Attributes:
        there: what the change is made from.
        change: nothing is done where it is empty.
        status: what will have been done, in a few words.
        page: to look at, where a commit has none of its own.
        revision: the branch that is written to; ``opens``: as a new pull request.
        note: what the user should know besides.
    """

    there: State
    change: Change
    status: str
    page: str
    revision: str = "main"
    opens: bool = False
    note: str = ""

    @property
    def would(self) -> str:
        """The status of a rehearsal."""
        if not self.change:
            return self.status + self.note
        what, _, done = self.status.rpartition(" ")
        return f"{what} would be {done}".lstrip() + self.note


@dataclass(frozen=True, slots=True)
class _Proposed:
    """An earlier pull request, where it stands, its content and what that would bring."""

    request: PullRequest
    there: State
    content: bytes
    brings: frozenset[Any]


def commit(hub: Hub, model: Repo, make: Make) -> Step:
    """Write to the model's repository itself; nothing where it holds all of it."""
    there = seen(hub, model)
    change = Change(difference(there, make.files(there, "")).write)
    return Step(there=there, change=change, status="updated" if change else "unchanged", page=hub.url(model))


def pull_request(hub: Hub, model: Repo, make: Make, *, again: bool) -> Step:
    """Open a pull request, or bring the one that is open up to date with the audit and with the main branch.

    What its owners closed, or took out after they had merged it, is proposed a second time only ``again``.
    """
    there = seen(hub, model)
    wanted = make.files(there, "")
    change = Change(difference(there, wanted).write)
    held = make.ours(hub.content(there, make.path))
    adds = make.ours(wanted[make.path]) - held
    if not change or not adds:  # at most a date or an address differs: no reason to ask strangers for anything
        return Step(there=there, change=Change({}), status="unchanged", page=hub.url(model))
    earlier, lost, unreadable = _earlier(hub, there, make, held)
    note = "".join(f"; pull request {one.number} holds a file that cannot be read" for one in unreadable)
    for one in earlier:
        if one.request.status in _OPEN:
            return _up_to_date(hub, there, make, one, note)
    declined = "" if again else _declined(earlier, lost, adds, bool(held))
    if declined:
        return Step(there=there, change=Change({}), status=declined, page=hub.url(model), note=note)
    return Step(there=there, change=change, status="pull request opened", page=hub.url(model), opens=True, note=note)


def carry_out(hub: Hub, step: Step, *, description: str = "", never: Sequence[str]) -> Done:
    """Do it.

    Raises:
        UsageError: a file holds what must not leave. HubError: the Hub refused, or somebody wrote in between.
    """
    repo = step.there.repo
    if not step.change:
        return Done(repo, step.status + step.note, step.page, step.change)
    made = hub.commit(
        repo,
        step.change,
        TITLE,
        parent=step.there.commit,
        revision=step.revision,
        description=description if step.opens else "",
        create_pr=step.opens,
        never=never,
    )
    page = made.pull_request or (made.url if step.revision == "main" else step.page)
    return Done(repo, step.status + step.note, page, step.change)


def seen(hub: Hub, repo: Repo) -> State:
    """What a repository holds.

    Raises:
        HubError: it is not there.
    """
    state = hub.state(repo)
    if state is None:
        raise HubError(f"{repo.name} is not there, or the token may not see it. Check its name, or log in.")
    return state


def _up_to_date(hub: Hub, there: State, make: Make, one: _Proposed, note: str) -> Step:
    """The open pull request with what main holds now and ours; not what its branch began from."""
    files: Files = make.files(there, one.content.decode(errors="replace"))
    further = Change(difference(one.there, files).write)
    return Step(
        there=one.there,
        change=further,
        status=f"pull request {one.request.number} {'updated' if further else 'unchanged'}",
        page=_page(hub, there, one.request),
        revision=one.request.ref,
        note=note,
    )


def _declined(earlier: Sequence[_Proposed], lost: Sequence[PullRequest], adds: frozenset[Any], held: bool) -> str:
    """Why a thing is not proposed again; blank where nothing speaks against it."""
    for one in earlier:
        if one.request.status == "closed" and adds <= one.brings:
            return f"not proposed again: its owners closed pull request {one.request.number}"
        if one.request.status == "merged" and not held:
            return f"not proposed again: its owners took out what pull request {one.request.number} brought"
    return f"not proposed again: its owners closed pull request {lost[0].number}" if lost else ""


def _earlier(
    hub: Hub, there: State, make: Make, held: frozenset[Any]
) -> tuple[list[_Proposed], list[PullRequest], list[PullRequest]]:
    """The user's pull requests of this kind, newest first; those whose branch is gone; those that cannot be read.

    They are known by what they would bring, whatever their title is now.
    """
    found, lost, unreadable = [], [], []
    for one in hub.pull_requests(there.repo):
        state = _at(hub, there.repo, one)
        if state is None:
            lost += [one] if one.title == TITLE and one.status not in _OPEN else []
            continue
        if make.path not in state.files or state.files[make.path] == there.files.get(make.path):
            continue
        content = hub.read(state.repo, make.path, revision=state.commit)
        try:
            brings = make.ours(content) - held
        except ValueError:
            unreadable.append(one)
            continue
        if brings:
            found.append(_Proposed(one, state, content, brings))
    merged = frozenset().union(*(one.brings for one in found if one.request.status == "merged"))
    # A branch that began from an older main holds what was merged then, and proposes none of it.
    mine = [
        one
        for one in found
        if one.request.status == "merged" or one.request.title == TITLE or not one.brings <= merged
    ]
    return mine, lost, unreadable


def _at(hub: Hub, repo: Repo, one: PullRequest) -> State | None:
    try:
        return hub.state(repo, revision=one.ref)
    except HubError:  # the branch of a closed one may be gone
        if one.status in _OPEN:
            raise
        return None


def _page(hub: Hub, there: State, one: PullRequest) -> str:
    return f"{hub.url(there.repo)}/discussions/{one.number}"
