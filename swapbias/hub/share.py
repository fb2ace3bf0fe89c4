"""Share a run: first its results, in a repository of one's own; then, if asked, what a model's page says of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from swapbias.audit import Run
from swapbias.errors import HubError, UsageError
from swapbias.files import write_whole
from swapbias.findings import Finding
from swapbias.hub import eval_results, proposals as proposing, results_repo
from swapbias.hub.bundle import Bundle, pack
from swapbias.hub.client import Change, Hub, Repo, State
from swapbias.hub.proposals import (
    CARD,
    COMMIT,
    Audit,
    Done,
    Step,
    Weights,
    card_files,
    findings_of,
    result_files,
    weights_read,
    with_card,
)
from swapbias.hub.push import show_change
from swapbias.hub.results_repo import Update
from swapbias.privacy import gate as outgoing, writing
from swapbias.report import draw_figures
from swapbias.studies import corpora, load_corpus, load_study


def revisions(hub: Hub, manifest: Mapping[str, Any], namespace: str) -> dict[str, str]:
    """Commits of the corpora on the Hub at the installed version, by corpus.

    A corpus has one only where the run read the very rows that are installed, and they are on the Hub under the tag
    of their version: a part of them, rows of another version or notes of the user's own have none.
    """
    found = {}
    read = manifest["corpora"]
    for corpus in sorted({str(one["corpus"]) for one in read} & set(corpora())):
        entries = [one for one in read if one["corpus"] == corpus]
        if not all(results_repo.is_installed(one, manifest["settings"]) for one in entries):
            continue
        state = hub.state(Repo("dataset", f"{namespace}/{corpus}"))
        tag = f"v{load_corpus(corpus).version}"
        if state and tag in state.tags:
            found[corpus] = state.tags[tag]
    return found


NAMESPACE = "swapbias"  # who publishes the corpora on the Hub
_WITH_CARD = " --card proposes that section as well."
_NOWHERE = "0" * 40  # stands for the commit that a rehearsal does not make
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


def share_run(run: Run, wanted: Wanted, hub: Hub, *, say: Say) -> list[Done]:
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
    bundle = pack(run, findings_only=wanted.findings_only, name=wanted.name, phenotypes=wanted.phenotypes)
    found = findings_of(bundle.found, model.name, wanted.audited) if model else []
    for path in bundle.withheld:
        say(f"Not shared: {path}")
    state, own = _look(hub, results, model, wanted)
    named = wanted.name is not None
    update = results_repo.prepare(hub, results, state, bundle, named=named, public=wanted.public, say=say)
    never = (*bundle.never, *hub.tokens())
    outgoing.check(update.change.write, never=never)
    if model is None:
        return [
            _show_results(hub, update, wanted, say) if wanted.dry_run else results_repo.put(hub, update, bundle)[0]
        ]
    weights = weights_read(hub, model, bundle.manifest, found[0].model_id)
    audit = _audit(hub, bundle, found, weights, results, wanted)
    # Rehearsed before anything is written: whatever can be refused is refused while nothing is half done.
    step = _step(hub, model, replace(audit, commit=update.settled or _NOWHERE), own=own, wanted=wanted)
    outgoing.check(step.change.write, never=never)
    if wanted.dry_run:
        return [
            _show_results(hub, update, wanted, say),
            _show_model(hub, step, _description(audit, step), wanted, say),
        ]
    done, commit = results_repo.put(hub, update, bundle)
    try:
        step = _step(hub, model, replace(audit, commit=commit), own=own, wanted=wanted)
        of_model = proposing.carry_out(hub, step, description=_description(audit, step), never=bundle.never)
    except ValueError as error:
        kind = next((one for one in (HubError, UsageError) if isinstance(error, one)), ValueError)
        raise kind(f"The results are at {done.url}, but {model.name} was not changed: {error}") from error
    return [done, of_model]


def _look(hub: Hub, results: Repo, model: Repo | None, wanted: Wanted) -> tuple[State | None, bool]:
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
    if state:
        results_repo.check_visibility(state, public=wanted.public)
    if model and not own and not wanted.public:
        raise UsageError(
            f"The owners of {model.name} could not open private results. Share them with --public, in a repository "
            "that everybody may read."
        )
    return state, own


def _audit(hub: Hub, bundle: Bundle, found: list[Finding], weights: Weights, results: Repo, wanted: Wanted) -> Audit:
    figures = {}
    for study in dict.fromkeys(one.study for one in found):
        drawn = next(iter(draw_figures([one for one in found if one.study == study])), None)
        if drawn:
            figures[study] = (drawn.png, drawn.caption)
    return Audit(
        found=found,
        weights=weights,
        manifest=bundle.manifest,
        figures=figures,
        results=results,
        folder=f"runs/{bundle.name}",
        commit=_NOWHERE,
        private=not wanted.public,
        namespace=wanted.namespace,
        revisions=revisions(hub, bundle.manifest, wanted.namespace),
    )


def _step(hub: Hub, model: Repo, audit: Audit, *, own: bool, wanted: Wanted) -> Step:
    make = (card_files if own else with_card if wanted.card else result_files)(hub, model, audit)
    if wanted.how == COMMIT:
        return proposing.commit(hub, model, make)
    return proposing.pull_request(hub, model, make, again=wanted.again)


def _description(audit: Audit, step: Step) -> str:
    studies = "; ".join(load_study(name).title for name in dict.fromkeys(one.study for one in audit.found))
    numbers = f"`{eval_results.PATH}`"
    what = f"a section of the card and {numbers}" if CARD in step.change.write else f"{numbers} and nothing else"
    if eval_results.PATH not in step.change.write:
        what = "a section of the card"
    return (
        f"Adds {what}: results of a bias audit with swapbias ({studies}). A measurement on fixed prompts, no ranking "
        "and no proof of fairness; the source of every number stands beside it, at a commit. Close it if unwanted."
    )


def _show_results(hub: Hub, update: Update, wanted: Wanted, say: Say) -> Done:
    """Say what would be written to the results repository: its card, and every path."""
    would = f"would be {update.status}" if update.change else "unchanged"
    say(f"{update.repo.kind} {update.repo.name}: {would}")
    show_change(hub, update.state, update.change, say)
    _lay_out(update.repo, update.change, wanted)
    return Done(update.repo, would, hub.url(update.repo), update.change)


def _show_model(hub: Hub, step: Step, description: str, wanted: Wanted, say: Say) -> Done:
    """Say what would be written to the model's repository: card and numbers, and what a pull request would say."""
    repo = step.there.repo
    say(f"{repo.kind} {repo.name}: {step.would}")
    if step.opens:
        say(f"  Title: {proposing.TITLE}")
        say(f"  Description: {description}")
    show_change(hub, step.there, step.change, say, texts=(CARD, eval_results.PATH))
    if eval_results.PATH in step.change.write:
        say(f"{eval_results.PATH}: {eval_results.UNSEEN}{'' if CARD in step.change.write else _WITH_CARD}")
    _lay_out(repo, step.change, wanted)
    return Done(repo, step.would, step.page, step.change)


def _lay_out(repo: Repo, change: Change, wanted: Wanted) -> None:
    """With ``out``, write there what would be published."""
    if wanted.out is None:
        return
    with writing(wanted.out, held=False):
        for path, content in change.write.items():
            target = wanted.out / repo.name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, content if isinstance(content, bytes) else content.read_bytes())
