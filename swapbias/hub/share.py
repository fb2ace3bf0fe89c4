"""A run shared on the Hub: its results repository, and what a model's page says of it."""

from dataclasses import dataclass, replace
from functools import partial

from swapbias import studies
from swapbias.errors import HubError, UsageError, listed
from swapbias.findings import Finding
from swapbias.hub import cards
from swapbias.hub.bundle import Bundle, bundle_run
from swapbias.hub.client import (
    HUB_FILES,
    Change,
    Hub,
    Push,
    Repo,
    Say,
    difference,
)
from swapbias.hub.dry_run import DryHub
from swapbias.hub.eval_results import EVAL_RESULTS, eval_entries, merged_entries
from swapbias.hub.model_pages import commit_read, findings_of, read_otherwise
from swapbias.privacy import check_upload
from swapbias.report import verdicts
from swapbias.runs import Run

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
        files[EVAL_RESULTS] = merged_entries(
            hub.content(there, EVAL_RESULTS), entries, f"{repo.name}/{EVAL_RESULTS}"
        )
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
        str(one)
        for results in verdicts.group_by_question(found)
        for one in verdicts.state_verdicts(results, found)
    ]
    description = (
        f"{cards.markdown(answers[0])} Adds this{f' and {len(answers) - 1} more' if len(answers) > 1 else ''} with "
        "intervals, limits and the command that repeats it to the card, and to `.eval_results` where the corpus is "
        "published. A measurement on fixed prompts, no ranking and no proof of fairness. Close it if unwanted."
    )
    return replace(plan, status="pull request opened", description=description)
