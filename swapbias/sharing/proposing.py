"""An audit in the repository of a model: in its owner's own card, or as a pull request to somebody else's."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from swapbias.cards import eval_results, model_card, model_index
from swapbias.errors import HubError, UsageError
from swapbias.finding import Finding
from swapbias.hub import Change, Hub, PullRequest, Repo, State, difference
from swapbias.studies import load_study

CARD = "README.md"
FIGURE = "swapbias/bias-audit.png"
TITLE = "Add the results of a swapbias bias audit"
COMMIT, PULL_REQUEST = "commit", "pull request"
_OPEN = ("open", "draft")


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What a run says of one model, and where the whole run stands.

    Attributes:
        found: findings of the one model.
        manifest: of the run, as it is shared.
        figure: a PNG for the card and what it shows, if there is one.
        results: the results repository; ``folder`` in it holds the run, ``commit`` is where it stands as described.
        private: whether only some can open it.
        namespace: owner of the corpora on the Hub; ``revisions`` are their commits, by corpus.
    """

    found: Sequence[Finding]
    manifest: Mapping[str, Any]
    figure: tuple[bytes, str] | None
    results: Repo
    folder: str
    commit: str
    private: bool
    namespace: str
    revisions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Done:
    """What happened to a repository: a sentence's status, and the page to look at."""

    repo: Repo
    status: str
    url: str
    change: Change


Files = dict[str, bytes]
Make = Callable[[State], Files]  # what should stand in a repository, given what stands there


def findings_of(found: Sequence[Finding], model: str, audited: str | None) -> list[Finding]:
    """The findings of the model that is ``model`` (OWNER/NAME) on the Hub.

    Raises:
        UsageError: the run audited no model of that name: its card would show another model's numbers.
    """
    names = list(dict.fromkeys(one.model_id for one in found))
    same = [one for one in names if one in (model, model.partition("/")[2])]
    wanted = audited or (same[0] if same else "")
    if wanted not in names:
        raise UsageError(
            f"The run audited {', '.join(names)}, and {audited or model} is none of them. If one of them is {model} "
            "under another name, say which with --audited."
        )
    return [one for one in found if one.model_id == wanted]


def card_files(hub: Hub, model: Repo, audit: Audit) -> Make:
    """The owner's card with the audit's section, figure and model-index entries; all else in it stays.

    What is returned raises ValueError for a card that cannot be added to (a header that is no YAML, lone markers).
    """

    def files(there: State) -> Files:
        readme = _text(hub, there, CARD)
        settled = _settled(hub, audit, readme)
        url = hub.url(audit.results, commit=settled.commit, path=audit.folder)
        figure = model_card.Figure(FIGURE, audit.figure[1]) if audit.figure else None
        told = model_card.audited(
            audit.found,
            audit.manifest,
            model_name=model.name,
            results_url=url,
            results_private=audit.private,
            figure=figure,
        )
        entries = model_index.entries(
            audit.found,
            model_name=model.name,
            results_url=url,
            dataset_namespace=audit.namespace,
            revisions=audit.revisions,
        )
        where = f"{model.name}/{CARD}"
        made = model_card.with_section(readme, model_card.section(told))
        made = model_index.with_entries(made, entries, model_name=model.name, where=where)
        return {CARD: made.encode(), **({FIGURE: audit.figure[0]} if audit.figure else {})}

    return files


def result_files(hub: Hub, model: Repo, audit: Audit) -> Make:
    """The one file of a pull request to somebody else's model, beside the entries of others that it holds."""

    _refuse_other_prompts(audit)

    def files(there: State) -> Files:
        path = eval_results.PATH
        existing = hub.read(model, path, revision=there.commit) if path in there.files else None
        settled = _settled(hub, audit, (existing or b"").decode(errors="replace"))
        entries = eval_results.entries(
            audit.found,
            namespace=audit.namespace,
            revisions=audit.revisions,
            source_url=hub.url(audit.results, commit=settled.commit, path=audit.folder),
            source_user=hub.user,
            date=str(audit.manifest.get("finished") or audit.manifest["started"]),
            settings=f"seed {audit.manifest['settings'].get('seed', 0)}",
        )
        if not entries:
            raise UsageError(
                "Nothing in this run can be told as one number where higher is fairer. Share the results alone."
            )
        return {path: eval_results.merged(existing, entries, f"{model.name}/{path}")}

    return files


def _refuse_other_prompts(audit: Audit) -> None:
    """One number for each task: it must come from the task's own prompts, all of them.

    Raises:
        UsageError: the run read a part, other configs than the study's, or notes of the user's own.
    """
    settings = audit.manifest["settings"]
    studies = dict.fromkeys(one.study for one in audit.found)
    usual = {
        (each.corpus or study, name)
        for study in studies
        for each in load_study(study).experiments
        for name in each.configs
    }
    read = {(str(one["corpus"]), str(one["config"])) for one in audit.manifest["corpora"]}
    other = sorted(config for corpus, config in read - usual if corpus in {corpus for corpus, _ in usual})
    trouble = "only a part of the prompts (--limit)" if settings.get("limit") else ""
    trouble = trouble or (f"other prompts than the study's own ({', '.join(other)})" if other else "")
    if (settings.get("notes") or {}).get("data"):
        trouble = "notes of your own"
    if trouble:
        raise UsageError(
            f"The run read {trouble}, and its numbers would stand beside those of whole audits. Share the results "
            "alone, or audit without it."
        )


def commit(hub: Hub, model: Repo, make: Make, *, never: Sequence[str]) -> Done:
    """Write to the model's repository itself; nothing where it holds all of it."""
    there = seen(hub, model)
    change = Change(difference(there, make(there)).write)
    if not change:
        return Done(model, "unchanged", hub.url(model), change)
    made = hub.commit(model, change, TITLE, parent=there.commit, never=never)
    return Done(model, "updated", made.url, change)


def pull_request(hub: Hub, model: Repo, make: Make, *, description: str, never: Sequence[str]) -> Done:
    """Open a pull request, or bring the one that is open up to date.

    One that its owners closed is not opened a second time with the same content.
    """
    there = seen(hub, model)
    if not (change := Change(difference(there, make(there)).write)):
        return Done(model, "unchanged", hub.url(model), change)
    for one in hub.pull_requests(model, title=TITLE):
        page = f"{hub.url(model)}/discussions/{one.number}"
        proposed = _proposed(hub, model, one)
        if proposed is None:
            continue
        further = Change(difference(proposed, make(proposed)).write)
        if one.status in _OPEN and further:
            hub.commit(model, further, TITLE, parent=proposed.commit, revision=one.ref, never=never)
            return Done(model, f"pull request {one.number} updated", page, further)
        if one.status in _OPEN:
            return Done(model, f"pull request {one.number} unchanged", page, further)
        if one.status == "closed" and not further:
            return Done(model, f"not proposed again: its owners closed pull request {one.number}", page, further)
    made = hub.commit(model, change, TITLE, parent=there.commit, description=description, create_pr=True, never=never)
    return Done(model, "pull request opened", made.pull_request or made.url, change)


def seen(hub: Hub, model: Repo) -> State:
    """What a repository holds.

    Raises:
        HubError: it is not there.
    """
    state = hub.state(model)
    if state is None:
        raise HubError(f"{model.name} is not there, or the token may not see it. Check its name, or log in.")
    return state


def _proposed(hub: Hub, model: Repo, one: PullRequest) -> State | None:
    try:
        return hub.state(model, revision=one.ref)
    except HubError:  # the branch of a closed one may be gone
        return None


def _text(hub: Hub, there: State, path: str) -> str:
    if path not in there.files:
        return ""
    try:
        return hub.read(there.repo, path, revision=there.commit).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{there.repo.name}/{path} is not UTF-8. Save it as UTF-8; nothing was written.") from error


def _settled(hub: Hub, audit: Audit, text: str) -> Audit:
    """The audit at the commit that ``text`` names already, where the run stands there as it does now.

    Other runs that were shared since move the repository's commit, and are no reason to touch the card.
    """
    begin = re.escape(hub.url(audit.results, commit="COMMIT")).replace("COMMIT", "([0-9a-f]{40})")
    for known in dict.fromkeys(re.findall(f"{begin}/{re.escape(audit.folder)}\\b", text)):
        if known == audit.commit or _run_at(hub, audit, known) == _run_at(hub, audit, audit.commit):
            return replace(audit, commit=known)
    return audit


def _run_at(hub: Hub, audit: Audit, commit: str) -> dict[str, str]:
    try:
        state = hub.state(audit.results, revision=commit)
    except HubError:  # no such commit
        return {}
    files = state.files if state else {}
    return {path: known for path, known in files.items() if path.startswith(f"{audit.folder}/")}
