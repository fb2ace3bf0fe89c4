"""Share a run on the Hub: commit it to a results repository, and add its findings to the page of a model."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from swapbias import studies
from swapbias.errors import HubError, UsageError, listed
from swapbias.findings import Finding
from swapbias.hub import cards, run_cards
from swapbias.hub.bundle import Bundle, bundle_run
from swapbias.hub.client import Hub
from swapbias.hub.dry_run import DryHub
from swapbias.hub.eval_results import (
    EVAL_RESULTS,
    Entry,
    entry_keys,
    eval_entries,
    merged_entries,
)
from swapbias.hub.licences import licences
from swapbias.hub.model_index import index_results, result_keys, with_results
from swapbias.hub.model_pages import commit_read, findings_of, read_otherwise
from swapbias.hub.push import Push, Say
from swapbias.hub.repository import HUB_FILES, Change, Repo, State, difference
from swapbias.privacy import check_upload
from swapbias.report import verdicts
from swapbias.runs import Run

COMMIT: Final = "commit"
PULL_REQUEST: Final = "pull request"
TITLE = "Add the results of a swapbias bias audit"
# The commit in the addresses of a page that is planned before its results are committed.
_PLANNED_COMMIT = "0" * 40


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOptions:
    """Options of sharing: where a run goes, and how."""

    results: str
    """The results repository, OWNER/NAME; made, private, where it is not there."""
    model: str | None = None
    """The model's repository, OWNER/NAME; None: no page of a model is changed."""
    model_change: Literal["", "commit", "pull request"] = ""
    """The way to change the model's page: COMMIT or PULL_REQUEST; blank where no model is named."""
    audited: str | None = None
    """The model's name in the run, where it differs from its name on the Hub."""
    public: bool = False
    """Everybody may read the results."""
    findings_only: bool = False
    """No scored prompts or answers."""
    repropose: bool = False
    """Propose again what the model's owners closed or took out."""
    namespace: str = "swapbias"
    """Owner of the corpora on the Hub."""
    dry_run: bool = False
    """Only what would be written is shown."""


def share_run(run: Run, options: ShareOptions, hub: Hub, *, say: Say) -> list[Push]:
    """Share a run; sharing it again changes nothing, and sharing a later audit of the same models updates its folder.

    Everything that can be refused is refused before anything is written.

    Args:
        run: a finished run.
        options: the repositories, and the form of the change.
        hub: the Hub.
        say: gets lines for the user.

    Returns:
        the push to the results repository, and that to the model's page if one is named.

    Raises:
        UsageError: private data, a repository that is not the user's, a model that the run did not audit.
        ValueError: a broken run or card.
        HubError: the Hub refused.
    """
    results_repo = Repo("dataset", options.results)
    model_repo = Repo("model", options.model) if options.model else None
    if options.dry_run:
        hub = DryHub(hub, results_repo.owner, say=say)
    bundle = bundle_run(run, findings_only=options.findings_only)
    findings: list[Finding] = []
    if model_repo:
        pins = bundle.manifest["models"]
        findings = findings_of(bundle.findings, model_repo.name, options.audited, pins)
    for path in bundle.withheld:
        say(f"Not shared: {path}")
    owners = hub.owners()
    _check_results_owner(results_repo, owners)
    is_owner = model_repo is not None and model_repo.owner in owners
    if model_repo:
        _check_model_access(model_repo, options, is_owner=is_owner)
    forbidden_strings = (*bundle.never, *hub.tokens())
    results_plan = _plan_results(hub, results_repo, bundle, public=options.public)
    plans = [results_plan]
    page = None
    results_commit: str | None = None  # None: the push of the results will make it
    if model_repo and isinstance(hub, DryHub) and hub.unreachable:
        say(f"The page of {model_repo.name} cannot be shown without the Hub.")
    elif model_repo:
        state = results_plan.existing_state
        if state and not _changes_runs(results_plan.change):
            results_commit = hub.last_commit(state, bundle.folder)
        page = _ModelPage(
            hub=hub,
            model_repo=model_repo,
            is_owner=is_owner,
            options=options,
            bundle=bundle,
            findings=findings,
            results_repo=results_repo,
        )
        # A rehearsal: what can be refused is refused while nothing is half done. The page is planned again, with the
        # commit of the results, once that is made.
        plans.append(page.plan(results_commit or _PLANNED_COMMIT))
    for plan in plans:
        check_upload(plan.change.write, never=forbidden_strings)
    if options.dry_run:
        return [plan.show(hub, say) for plan in plans]
    results_push = results_plan.carry_out(hub, never=forbidden_strings)
    if page is None:
        return [results_push]
    commit = results_commit or results_push.commit
    page_push = _push_page(page, commit, results_push.url, never=forbidden_strings)
    return [results_push, page_push]


def _push_page(
    page: "_ModelPage", results_commit: str, results_url: str, *, never: Collection[str]
) -> Push:
    """Push the change of a model's page; an error says that the results are shared all the same."""
    try:
        return page.plan(results_commit).carry_out(page.hub, never=never)
    except ValueError as error:
        sentence = (
            f"The results are at {results_url}, but {page.model_repo.name} was not changed: {error}"
        )
        # As the same error for the command line, which ends otherwise for each of these.
        if isinstance(error, HubError):
            raise HubError(sentence) from error
        if isinstance(error, UsageError):
            raise UsageError(sentence) from error
        raise ValueError(sentence) from error


def _changes_runs(change: Change) -> bool:
    """Tell whether a change writes or deletes files of runs, and not only the card of a results repository."""
    return any(path.startswith("runs/") for path in (*change.write, *change.delete))


def _check_results_owner(results_repo: Repo, owners: Collection[str]) -> None:
    """Refuse a results repository of somebody else."""
    if results_repo.owner not in owners:
        raise UsageError(
            f"{results_repo.name} is not yours: expected one of {listed(owners, 'your accounts')} before the slash."
        )


def _check_model_access(model: Repo, options: ShareOptions, *, is_owner: bool) -> None:
    """Refuse to change a model's page where the form is not chosen, or is not one that the user may choose."""
    if not options.model_change and is_owner:
        raise UsageError(
            f"How {model.name} gets it is not said. Add --commit to write to its card, or --create-pr to propose it."
        )
    if not options.model_change:
        raise UsageError(f"How {model.name} gets it is not said. Add --create-pr to propose it.")
    if not is_owner and options.model_change == COMMIT:
        raise UsageError(
            f"{model.name} is not yours, and nobody writes to it unasked. Propose it with --create-pr."
        )
    if not is_owner and not options.public:
        raise UsageError(
            f"The owners of {model.name} could not open private results. Share them with --public, in a repository "
            "that everybody may read."
        )


# --- the results repository -------------------------------------------------------------------------------


def _plan_results(hub: Hub, repo: Repo, bundle: Bundle, *, public: bool) -> Push:
    """Plan the commit after which the repository holds this run, with its part of the card."""
    state = hub.state(repo)
    if state:
        _check_visibility(state, public=public)
    readme = hub.text(state, cards.CARD)
    paths = set(state.files if state else ()) - HUB_FILES
    _check_holds_runs(repo, readme, paths)
    paths_of_others = [path for path in paths if not path.startswith(f"{bundle.folder}/")]
    card = run_cards.results_card(
        repo.name,
        bundle.name,
        bundle.findings,
        bundle.card_manifest,
        {*paths_of_others, *bundle.files},
        readme,
        licences=_licences_of_rows(bundle),
        rows=bundle.rows,
    )
    files = difference(state, bundle.files, within=bundle.folder)
    card_file = difference(state, {cards.CARD: card.encode()}, within=cards.CARD)
    change = Change({**files.write, **card_file.write}, files.delete)
    status = "created"
    commit = ""
    if state:
        status = "updated" if change else "unchanged"
        commit = "" if change else state.commit
    return Push(
        repo=repo,
        status=status,
        change=change,
        title=f"Share {bundle.name}",
        existing_state=state,
        private=not public,
        url=hub.url(repo, commit=commit),
        commit=commit,
    )


def _check_visibility(state: State, *, public: bool) -> None:
    """Refuse to share otherwise than the repository is: its visibility is never changed."""
    name = state.repo.name
    if state.private and public:
        raise UsageError(
            f"{name} is private, with all that it contains. Make it public on its page, or drop --public."
        )
    if not state.private and not public:
        raise UsageError(
            f"{name} is public, and runs are shared privately unless you say --public."
        )


def _check_holds_runs(repo: Repo, readme: str, paths: set[str]) -> None:
    """Refuse a repository that holds something else than shared runs."""
    # The text after a header begins with the line that closes it.
    is_blank = not cards.split(readme).after.removeprefix("---").strip()
    if is_blank and all(path.startswith("runs/") for path in paths - {cards.CARD}):
        return
    file = f"{repo.name}/{cards.CARD}"
    begin = run_cards.RESULTS_BEGIN
    if not cards.find(readme, begin=begin, end=run_cards.RESULTS_END, file=file):
        raise UsageError(
            f"{repo.name} contains something else than shared runs. Choose another repository."
        )


def _licences_of_rows(bundle: Bundle) -> list[str]:
    """List the licences of the corpora that a run read."""
    names = {str(entry["corpus"]) for entry in bundle.manifest["corpora"]}
    ordered: dict[str, None] = {}
    for name in sorted(names & set(studies.corpora())):
        ordered |= dict.fromkeys(licences(studies.load_corpus(name)))
    return list(ordered)


# --- the page of a model ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModelPage:
    """The page of a model, to which the findings in a results repository are added."""

    hub: Hub
    model_repo: Repo
    """The model's repository."""
    is_owner: bool
    """Whether that is the user's own."""
    options: ShareOptions
    bundle: Bundle
    findings: list[Finding]
    """The findings of this model."""
    results_repo: Repo
    """The results repository."""

    def plan(self, results_commit: str) -> Push:
        """Plan the commit or pull request that makes the page say what the results at a commit hold."""
        state = self.hub.existing_state(self.model_repo)
        manifest = self.bundle.card_manifest
        model_commit = commit_read(self.hub, self.model_repo, manifest, self.findings[0].model_id)
        if not self.is_owner:
            self._check_model_as_it_is()
            _check_measured(self.findings, self.model_repo.name)
        deviations = self._deviations()
        if not self.is_owner:
            _check_usual_prompts(deviations)
        source_url = self.hub.url(self.results_repo, commit=results_commit, path=self.bundle.folder)
        usual_findings = [
            finding
            for finding in self.findings
            if not deviations[finding.study, finding.experiment]
        ]
        revisions = self._corpus_revisions()
        entries = eval_entries(
            usual_findings,
            manifest,
            namespace=self.options.namespace,
            revisions=revisions,
            source_url=source_url,
            source_user=self.hub.user,
            model_commit=model_commit,
        )
        readme = self.hub.text(state, cards.CARD)
        file = f"{self.model_repo.name}/{cards.CARD}"
        # A card that cannot be read is not added to; errors name lines of what is there.
        cards.metadata_of(readme, file)
        run_cards.section_parts(readme, file)
        parts = run_cards.study_parts(
            self.findings,
            manifest,
            model_name=self.model_repo.name,
            revision=model_commit,
            results_url=source_url,
            results_private=not self.options.public,
        )
        if self.is_owner:
            results = []
            if self.bundle.installed:  # not of other rows under the same name
                results = index_results(
                    usual_findings,
                    namespace=self.options.namespace,
                    revisions=revisions,
                    source_url=source_url,
                    model_commit=model_commit,
                )
            readme = with_results(
                readme,
                results,
                questions=result_keys(self.findings),
                model_name=self.model_repo.name.partition("/")[2],
                file=file,
            )
        card = run_cards.with_parts(readme, parts, file=file).encode()
        eval_change = self._eval_change(state, entries)
        write = {**difference(state, {cards.CARD: card}).write, **eval_change.write}
        change = Change(write, eval_change.delete)
        plan = Push(
            repo=self.model_repo,
            status="updated" if change else "unchanged",
            change=change,
            title=TITLE,
            existing_state=state,
            private=state.private,
            url=self.hub.url(self.model_repo),
            optional=(EVAL_RESULTS,),
        )
        if not change or self.options.model_change == COMMIT:
            return plan
        return self._as_pull_request(plan)

    def _eval_change(self, state: State, entries: Sequence[Entry]) -> Change:
        """Return the change of the file of evaluation results, which goes where no entry is left."""
        existing = self.hub.content(state, EVAL_RESULTS)
        questions = entry_keys(
            self.findings, namespace=self.options.namespace, source_user=self.hub.user
        )
        name = f"{self.model_repo.name}/{EVAL_RESULTS}"
        content = merged_entries(existing, entries, questions=questions, file=name)
        if content:
            return Change(difference(state, {EVAL_RESULTS: content}).write)
        return Change({}, (EVAL_RESULTS,) if EVAL_RESULTS in state.files else ())

    def _deviations(self) -> dict[tuple[str, str], str]:
        """Say for each study and experiment which prompts were read in place of the usual ones; blank for these."""
        names = dict.fromkeys((finding.study, finding.experiment) for finding in self.findings)
        return {
            (study, experiment): run_cards.prompts_read(
                self.bundle.card_manifest, study, experiment
            )
            for study, experiment in names
        }

    def _check_model_as_it_is(self) -> None:
        """Refuse results of a model in another form: only a page of the user's own model can say so."""
        if changed := read_otherwise(self.bundle.card_manifest, self.findings[0].model_id):
            raise UsageError(
                f"The run read {self.model_repo.name} in {changed}, and such results go to a page of your own alone. "
                "Share them without --model, or audit the model as it is."
            )

    def _corpus_revisions(self) -> dict[str, str]:
        """Return the commits of the published corpora that the run read, where its prompts are theirs."""
        if not self.bundle.installed:
            return {}
        revisions = {}
        names = {str(entry["corpus"]) for entry in self.bundle.manifest["corpora"]}
        for corpus in names & set(studies.corpora()):
            state = self.hub.state(Repo("dataset", f"{self.options.namespace}/{corpus}"))
            tag = f"v{studies.load_corpus(corpus).version}"
            if state and tag in state.tags:
                revisions[corpus] = state.tags[tag]
        return revisions

    def _as_pull_request(self, plan: Push) -> Push:
        """Propose a change to the model's owners, unless they have it already."""
        latest = next(iter(self.hub.pull_requests(self.model_repo, title=TITLE)), None)
        is_open = latest is not None and latest.status in ("open", "draft")
        if latest and (is_open or not self.options.repropose):
            return replace(
                plan,
                change=Change({}),
                status=f"not proposed again: pull request {latest.num} is {latest.status}",
                url=f"{plan.url}/discussions/{latest.num}",
            )
        answers = [
            str(verdict)
            for results in verdicts.group_by_question(self.findings)
            for verdict in verdicts.state_verdicts(results, self.findings)
        ]
        added = "this"
        if len(answers) > 1:
            added = f"this and {len(answers) - 1} more"
        description = (
            f"{cards.markdown(answers[0])} Adds {added} with intervals, limits and the command that repeats it to "
            "the card, and to `.eval_results` where the corpus is published. A measurement on fixed prompts, no "
            "ranking and no proof of fairness. Close it if unwanted."
        )
        return replace(plan, status="pull request opened", description=description)


def _check_measured(findings: Sequence[Finding], model: str) -> None:
    """Refuse to propose a section that only says that nothing was measured."""
    answers = [answer for question in verdicts.group_by_question(findings) for answer in question]
    if answers and all(math.isnan(answer.estimate.value) for answer in answers):
        raise UsageError(
            f"The run measured nothing of {model}, so there is nothing to propose. Share the results without --model."
        )


def _check_usual_prompts(deviations: Mapping[tuple[str, str], str]) -> None:
    """Refuse results of other prompts than the usual ones: only a page of the user's own model can say so."""
    deviation = next(filter(None, deviations.values()), "")
    if deviation:
        raise UsageError(
            f"The run read {deviation}, and its numbers would be listed with those of whole audits. "
            "Share the results alone, or audit without it."
        )
