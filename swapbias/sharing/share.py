"""Share a run: first its results, in a repository of one's own; then, if asked, what a model's page says of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from swapbias import outgoing
from swapbias.cards import eval_results
from swapbias.cards.results_card import results_card
from swapbias.errors import HubError, UsageError
from swapbias.finding import Finding
from swapbias.hub import Change, Hub, Repo, State, difference
from swapbias.publishing.previewing import show_change
from swapbias.report.figures import draw_figures
from swapbias.runs import Run
from swapbias.sharing import proposing
from swapbias.sharing.parcel import Parcel, pack
from swapbias.sharing.proposing import COMMIT, Audit, Done
from swapbias.sharing.shared import load_shared
from swapbias.studies import load_corpus, load_study

CARD = "README.md"
NAMESPACE = "swapbias"  # who publishes the corpora on the Hub
_NOWHERE = "0" * 40  # stands for the commit that a rehearsal does not make
_OF_THE_HUB = {".gitattributes"}
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be shared where.

    Attributes:
        results: the results repository, OWNER/NAME; made, private, where it is not there.
        model: the model's repository, if its page is to say something; ``how`` is ``commit`` or ``pull request``.
        audited: the model's name in the run, where it is another one.
        public: everybody may read the results.
        findings_only: no scored prompts, answers or explained notes.
        name: of the run in the repository.
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
    namespace: str = NAMESPACE
    dry_run: bool = False
    out: Path | None = None


def share(run: Run, wanted: Wanted, hub: Hub, *, say: Say) -> list[Done]:
    """Share a run. Sharing it again changes nothing; after another audit of the same it updates in place.

    Everything that can be refused is refused before anything is written. Where the model's page fails after the
    results arrived, the same call goes on from there.

    Raises:
        UsageError: credentialed or private data, a key or a place of this machine in a file, a repository that is
            not the user's or holds something else, a model that the run did not audit.
        ValueError: a broken run, or a card that cannot be added to. HubError: the Hub refused or is out of reach.
    """
    results = Repo("dataset", wanted.results)
    model = Repo("model", wanted.model) if wanted.model else None
    parcel = pack(run, findings_only=wanted.findings_only, name=wanted.name)
    found = proposing.findings_of(parcel.found, model.name, wanted.audited) if model else []
    for path in parcel.withheld:
        say(f"Not shared: {path}")
    state, own = _look(hub, results, model, wanted, say)
    change = _results_change(hub, results, state, parcel, say)
    if model is None:
        if wanted.dry_run:
            return [_show(hub, results, state, change, wanted, say)]
        return [_write_results(hub, results, state, change, parcel, wanted)[0]]
    audit = _audit(hub, parcel, found, results, wanted)
    there = proposing.seen(hub, model)
    rehearsed = Change(difference(there, _make(hub, model, audit, own=own)(there)).write)
    outgoing.check(rehearsed.write, never=parcel.never)
    if wanted.dry_run:
        return [
            _show(hub, results, state, change, wanted, say),
            _show(hub, model, there, rehearsed, wanted, say),
        ]
    done, commit = _write_results(hub, results, state, change, parcel, wanted)
    try:
        told = _write_model(hub, model, replace(audit, commit=commit), own=own, wanted=wanted, never=parcel.never)
    except HubError as error:
        raise HubError(f"The results are at {done.url}, but {model.name} was not changed: {error}") from error
    return [done, told]


def _look(hub: Hub, results: Repo, model: Repo | None, wanted: Wanted, say: Say) -> tuple[State | None, bool]:
    """The results repository as it is, and whether the model is the user's own.

    Raises:
        UsageError: what must not or cannot be written to.
    """
    owners = hub.owners()
    if results.owner not in owners:
        raise UsageError(f"{results.name} is not yours: expected one of {', '.join(owners)} before the slash.")
    own = model is not None and model.owner in owners
    if model and not wanted.how:
        way = "--commit to write to its card, or --create-pr to propose it" if own else "--create-pr to propose it"
        raise UsageError(f"How {model.name} gets it is not said. Add {way}.")
    if model and not own and wanted.how == COMMIT:
        raise UsageError(f"{model.name} is not yours, and nobody writes to it unasked. Propose it with --create-pr.")
    state = hub.state(results)
    if state and not state.private and not wanted.public:
        raise UsageError(f"{results.name} is public, and runs are shared privately unless you say --public.")
    if state and state.private and wanted.public:
        raise UsageError(
            f"{results.name} is private, with all that it holds. Make it public on its page, or drop --public."
        )
    if model and not own and not wanted.public:
        raise UsageError(
            f"The owners of {model.name} could not open private results. Share them with --public, in a repository "
            "that everybody may read."
        )
    return state, own


def _results_change(hub: Hub, results: Repo, state: State | None, parcel: Parcel, say: Say) -> Change:
    """What must be written for the repository to hold this run, and a card of all its runs."""
    others = []
    if state and any(path.endswith("/results.json") for path in state.files):
        runs, broken = load_shared(hub, results.name, revision=state.commit)
        others = [one for one in runs if one.name != parcel.name]
        for one in broken:
            if one.name != parcel.name:
                say(f"Left out of the card: {one.reason}")
    elif state and not set(state.files) <= _OF_THE_HUB:
        raise UsageError(f"{results.name} holds something else than shared runs. Choose another repository.")
    items = {one.name: _studies(state, one.name) for one in others} | {parcel.name: parcel.studies}
    card = results_card(results.name, [*others, parcel], items)
    files = difference(state, parcel.files, within=f"runs/{parcel.name}")
    top = difference(state, {CARD: card.encode()}, within=CARD)
    return Change({**files.write, **top.write}, files.delete)


def _studies(state: State | None, run: str) -> Sequence[str]:
    start = f"runs/{run}/items/"
    return [Path(path).stem for path in (state.files if state else ()) if path.startswith(start)]


def _audit(hub: Hub, parcel: Parcel, found: list[Finding], results: Repo, wanted: Wanted) -> Audit:
    drawn = next(iter(draw_figures(found)), None)
    return Audit(
        found=found,
        manifest=parcel.manifest,
        figure=(drawn.png, drawn.caption) if drawn else None,
        results=results,
        folder=f"runs/{parcel.name}",
        commit=_NOWHERE,
        private=not wanted.public,
        namespace=wanted.namespace,
        revisions=_revisions(hub, parcel, wanted.namespace),
    )


def _revisions(hub: Hub, parcel: Parcel, namespace: str) -> dict[str, str]:
    """Commits of the corpora on the Hub, at the version that was read; those that are not there have none."""
    found = {}
    for corpus in sorted({str(one["corpus"]) for one in parcel.manifest["corpora"]}):
        state = hub.state(Repo("dataset", f"{namespace}/{corpus}"))
        tag = f"v{load_corpus(corpus).version}"
        if state and tag in state.tags:
            found[corpus] = state.tags[tag]
    return found


def _make(hub: Hub, model: Repo, audit: Audit, *, own: bool) -> proposing.Make:
    return proposing.card_files(hub, model, audit) if own else proposing.result_files(hub, model, audit)


def _write_results(
    hub: Hub, results: Repo, state: State | None, change: Change, parcel: Parcel, wanted: Wanted
) -> tuple[Done, str]:
    """What happened, and the commit that holds the run."""
    if state is not None and not change:
        return Done(results, "unchanged", hub.url(results, commit=state.commit), change), state.commit
    status = "created" if state is None else "updated"
    if state is None:
        hub.create(results, private=not wanted.public)
        state = proposing.seen(hub, results)
    made = hub.commit(results, change, f"Share {parcel.name}", parent=state.commit, never=parcel.never)
    return Done(results, status, hub.url(results, commit=made.commit), change), made.commit


def _write_model(hub: Hub, model: Repo, audit: Audit, *, own: bool, wanted: Wanted, never: Sequence[str]) -> Done:
    make = _make(hub, model, audit, own=own)
    if wanted.how == COMMIT:
        return proposing.commit(hub, model, make, never=never)
    return proposing.pull_request(hub, model, make, description=_description(audit, own=own), never=never)


def _description(audit: Audit, *, own: bool) -> str:
    studies = "; ".join(load_study(name).title for name in dict.fromkeys(one.study for one in audit.found))
    what = "a section of the card" if own else f"`{eval_results.PATH}` and nothing else"
    return (
        f"Adds {what}: results of a bias audit with swapbias ({studies}). A measurement on fixed prompts, no ranking "
        "and no proof of fairness; the source of every number stands beside it, at a commit. Close it if unwanted."
    )


def _show(hub: Hub, repo: Repo, there: State | None, change: Change, wanted: Wanted, say: Say) -> Done:
    """Say what would be written and, with ``out``, write it there."""
    would = "would be created" if there is None else "would be written to" if change else "unchanged"
    outgoing.check(change.write)
    say(f"{repo.kind} {repo.name}: {would}")
    held = set(there.files) if there else set()
    card = hub.read(repo, CARD, revision=there.commit) if there and CARD in held else b""
    show_change(change, held, card, say)
    for path, content in change.write.items() if wanted.out else ():
        target = Path(wanted.out or "") / repo.name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    return Done(repo, would, hub.url(repo), change)
