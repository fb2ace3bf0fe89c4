"""The one flow of commits: a push is planned, and then shown (in a dry run) or carried out."""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Required, TypedDict, Unpack

from swapbias.errors import HubError, UsageError, listed
from swapbias.hub.cards import CARD
from swapbias.hub.client import Hub
from swapbias.hub.hub_errors import is_refused_content
from swapbias.hub.repository import HUB_FILES, Change, Repo, State, as_bytes, difference
from swapbias.privacy import Files, check_upload
from swapbias.report import safe_line

if TYPE_CHECKING:
    from huggingface_hub import CommitInfo

_TEMPLATE = {*HUB_FILES, CARD, "index.html", "style.css"}  # of a new Space
_LONGEST = 10_000  # characters of a line that is shown
_MOST_NAMED = 5  # changes of others
_PUSHED = "Push {} {} with swapbias"  # the title of a push's commit, by which the next push knows the repository

Say = Callable[[str], None]


class PushOptions(TypedDict, total=False):
    """Options of a push."""

    say: Required[Say]
    """Gets lines for the user."""
    private: bool
    """A new repository is private."""
    dry_run: bool
    """Only what would be written is shown."""
    overwrite: bool
    """Changes that somebody made on the Hub since the last push are overwritten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """One commit to a repository, planned or made; with a ``description`` it is a pull request."""

    repo: Repo
    """The repository."""
    status: str
    """``created``, ``updated``, ``tagged``, ``restored``, ``unchanged`` or what happened to a pull request, in a dry
    run ``would be created`` and so on."""
    change: Change
    """What is written and deleted."""
    title: str = ""
    """The title of the commit."""
    existing_state: State | None = None
    """The repository before the push; None where it will be made."""
    private: bool = False
    """Whether few may read the repository."""
    url: str = ""
    """The page to look at."""
    commit: str = ""
    """The commit that holds the change; blank where none was made yet."""
    tag: str = ""
    """Names the commit; blank for none."""
    description: str = ""
    """The text of a pull request; blank for a commit."""
    sdk: str | None = None
    """Kind of a Space that is made."""
    optional: tuple[str, ...] = ()
    """Paths without which the rest is written where the Hub finds them invalid."""

    def sentence(self) -> str:
        """Say what was done, or would be.

        Returns:
            a line.
        """
        visibility = " (private)" if self.private else ""
        commit = f" at {self.commit[:12]}" if self.commit else ""
        return f"{self.repo.name}: {self.status}{visibility}, {self.tag}{commit}"

    def carry_out(self, hub: Hub, *, never: Iterable[str] = ()) -> "Push":
        """Make the repository where it is not there, commit, tag.

        Args:
            hub: the Hub.
            never: strings that no file may hold, as of ``Hub.commit``.

        Returns:
            the push with its commit and page.

        Raises:
            UsageError: somebody changed the repository in between, or a file holds what it may not.
        """
        if self.commit or not (self.change or self.tag):
            return self
        if self.existing_state is None:
            hub.create(self.repo, private=self.private, sdk=self.sdk)
        now = hub.existing_state(self.repo)
        if now.private != self.private or (self.existing_state is None and not is_new(hub, now)):
            raise UsageError(
                f"Somebody changed {self.repo.name} in between. Look at it, and run the command again."
            )
        done = self._write(hub, now, never) if self.change else self
        commit = done.commit or (self.existing_state or now).commit
        if self.tag and self.tag not in now.tags:
            hub.tag(self.repo, self.tag, commit=commit)
        return replace(done, commit=commit)

    def _write(self, hub: Hub, now: State, never: Iterable[str]) -> "Push":
        """Commit the change; return the push with its commit, which is blank where the Hub refused all of it."""
        change = self.change
        if self.existing_state is None:  # what the Hub itself put there goes
            change = difference(now, self.change.write)
        parent = (self.existing_state or now).commit
        info, left_out = self._commit(hub, change, parent, never)
        status = self.status
        if left_out:
            status = f"{status} without {left_out}, which the Hub refused"
        if info is None:  # a push that was cut after its commit still lacks its tag
            verb = "tagged" if self.tag and self.tag not in now.tags else "unchanged,"
            return replace(self, status=f"{verb} {status.partition(' ')[2]}")
        url = info.pr_url or info.commit_url
        if not info.pr_url and self.repo.kind == "dataset":
            url = hub.url(self.repo, commit=info.oid)
        return replace(self, commit=info.oid, url=url, status=status)

    def _commit(
        self, hub: Hub, change: Change, parent: str, never: Iterable[str]
    ) -> tuple["CommitInfo | None", str]:
        """Commit a change, else what of it is not optional (None for nothing), and name what is left out."""

        def commit(change: Change) -> "CommitInfo":
            return hub.commit(
                self.repo,
                change,
                self.title,
                parent=parent,
                description=self.description,
                never=never,
            )

        try:
            return commit(change), ""
        except HubError as error:
            refused = [path for path in change.write if path in self.optional]
            if not refused or not is_refused_content(error):
                raise
        files = {path: file for path, file in change.write.items() if path not in refused}
        rest = Change(files, change.delete)
        return commit(rest) if rest else None, listed(refused)

    def show(self, hub: Hub, say: Say) -> "Push":
        """Say what would be written: every path with its size, and how the card and other texts differ.

        Args:
            hub: the Hub.
            say: gets lines.

        Returns:
            the push with a status in the conditional.
        """
        status = self.status
        if self.change or self.tag:
            subject, _, participle = status.rpartition(" ")
            status = f"{subject} would be {participle}".lstrip()
        visibility = "private" if self.private else "public"
        line = f"{self.repo.kind} {self.repo.name} ({visibility}): {status}"
        say(f"{line}, tag {self.tag}" if self.tag else line)
        if self.description:
            say(f"  Title: {self.title}")
            say(f"  Description: {self.description}")
        files = self.existing_state.files if self.existing_state else {}
        for path, content in sorted(self.change.write.items()):
            letter = "M" if path in files else "A"
            say(f"  {letter} {path} ({len(as_bytes(content)):,} bytes)")
        for path in self.change.delete:
            say(f"  D {safe_line(path, _LONGEST)}")
        for path in sorted(self.change.write):
            if path.endswith((CARD, ".yaml")):
                for line in self._text_difference(hub, path):
                    say(f"  {safe_line(line.expandtabs(), _LONGEST)}")
        return replace(self, status=status)

    def _text_difference(self, hub: Hub, path: str) -> Iterator[str]:
        """Yield the lines of a text that change, with two lines around them."""
        before = hub.content(self.existing_state, path).decode(errors="replace").splitlines()
        after = as_bytes(self.change.write[path]).decode(errors="replace").splitlines()
        return difflib.unified_diff(before, after, "there", "new", lineterm="", n=2)


def push_repo(
    hub: Hub,
    repo: Repo,
    files: Files,
    *,
    tag: str,
    version_hint: str,
    sdk: str | None = None,
    optional: tuple[str, ...] = (),
    **options: Unpack[PushOptions],
) -> Push:
    """Bring a repository to ``files`` in one commit with a tag; a version that is published is not pushed again.

    The next push completes one that was cut. Changes that somebody made on the Hub since the last push are named and
    stay, unless they are to be overwritten.

    Args:
        hub: the Hub.
        repo: the repository; made where it is not there.
        files: all that it is to hold, by path.
        tag: names the commit.
        version_hint: says how to raise the version.
        sdk: kind of a Space that is made.
        optional: paths without which the rest is pushed where the Hub finds them invalid.
        options: the options of the push.

    Returns:
        the push that was made, or would be.

    Raises:
        UsageError: the tag is published with other content, the repository was not made by a push or is public where
            a private one is wanted, or a file must not leave.
        HubError: the Hub refused, or somebody changed the repository since the last push.
    """
    check_upload(files)
    state = hub.state(repo)
    plan = Push(
        repo=repo,
        status="unchanged",
        change=Change({}),
        title=_PUSHED.format(repo.name.partition("/")[2], tag),
        existing_state=state,
        private=_privacy(repo, state, wanted=options.get("private", False)),
        tag=tag,
        optional=optional,
    )
    last_push = _last_push(hub, state) if state else None
    if state and tag in state.tags:
        if _differs(hub.existing_state(repo, revision=tag), files, optional):
            raise UsageError(f"{repo.name}: {tag} is published with other content; {version_hint}.")
        plan = replace(plan, commit=state.tags[tag])
    if _is_complete(hub, plan, last_push, files, options):
        return plan
    change = difference(state, files)
    status = _status_of(plan, change, last_push)
    plan = replace(plan, status=status, change=change, sdk=sdk, commit="")
    if options.get("dry_run"):
        return plan.show(hub, options["say"])
    if last_push:
        for path in change.delete:
            options["say"](f"  D {safe_line(path, _LONGEST)}")
    return plan.carry_out(hub)


def _privacy(repo: Repo, state: State | None, *, wanted: bool) -> bool:
    """Tell whether few may read the repository; a UsageError where a public one is to be private."""
    if state is None:
        return wanted
    if wanted and not state.private:
        raise UsageError(
            f"{repo.name} is public, and a push does not change that. Make it private on the Hub, or drop --private."
        )
    return state.private


def _is_complete(
    hub: Hub, plan: Push, last_push: "_LastPush | None", files: Files, options: PushOptions
) -> bool:
    """Tell whether the repository needs no push: its version is published, and the Hub holds that or a later one."""
    is_published = bool(plan.commit)
    is_latest = last_push is not None and last_push.tag == plan.tag
    if is_published and not is_latest:
        return True
    if plan.existing_state is None or last_push is None:
        return False
    pushed_commit = last_push.commit
    is_changed = _has_foreign_changes(hub, plan.existing_state, pushed_commit, files, options)
    return is_published and not is_changed


def _status_of(plan: Push, change: Change, last_push: "_LastPush | None") -> str:
    """Return what a push does with the repository."""
    if not last_push:
        return "created"
    if plan.commit:
        return "restored"
    return "updated" if change else "tagged"


def _differs(published: State, files: Files, optional: Collection[str]) -> bool:
    """Tell whether a published version has other files; an optional one may have been refused."""
    expected = {
        path: file
        for path, file in files.items()
        if path in published.files or path not in optional
    }
    return bool(difference(published, expected))


def is_new(hub: Hub, state: State) -> bool:
    """Tell whether a repository holds only what the Hub puts into a new one.

    Args:
        hub: the Hub.
        state: the repository now.

    Returns:
        False where pushes made what it holds.

    Raises:
        UsageError: no push made it.
    """
    return _last_push(hub, state) is None


class _LastPush(NamedTuple):
    """The newest push of a repository."""

    commit: str
    """Its commit."""
    tag: str
    """The tag that it set, or would have set."""


def _last_push(hub: Hub, state: State) -> _LastPush | None:
    """Return the last push; None for a new repository, a UsageError where no push made it."""
    commits = hub.commits(state.repo)
    pushed = {}
    for commit in commits:
        if match := re.fullmatch(_PUSHED.format(".+", "(.+)"), commit.title):
            pushed[commit.id] = match[1]
    if pushed:  # a push that wrote nothing tagged the commit of somebody else
        tagged = {commit: tag for tag, commit in state.tags.items() if re.match(r"v\d", tag)}
        pushes = {**tagged, **pushed}
        newest = next(commit.id for commit in commits if commit.id in pushes)
        return _LastPush(newest, pushes[newest])
    template = HUB_FILES
    if state.repo.kind == "space" and len(commits) == 1:
        template = frozenset(_TEMPLATE)
    if state.tags or not set(state.files) <= template:
        raise UsageError(
            f"{state.repo.name} contains something else: none of its commits was made by a push of swapbias. Choose "
            "another --namespace, or rename that repository."
        )
    return None


def _has_foreign_changes(
    hub: Hub, state: State, pushed_commit: str, files: Files, options: PushOptions
) -> bool:
    """Tell whether somebody changed the repository since the last push; a HubError unless that may be overwritten."""
    changes = _foreign_changes(hub, state, pushed_commit, files)
    if changes and not options.get("overwrite"):
        raise HubError(
            f"{state.repo.name} was changed on the Hub since the last push: {listed(changes)}. "
            "Take the changes over, or add --overwrite."
        )
    return bool(changes)


def _foreign_changes(hub: Hub, state: State, pushed_commit: str, files: Files) -> list[str]:
    """List what somebody wrote since the last push and a push would undo, each path after what happened to it."""
    if state.commit == pushed_commit:
        return []
    pushed = hub.existing_state(state.repo, revision=pushed_commit).files
    undone = difference(state, files)
    changes = []
    for path in sorted({*undone.write, *undone.delete} - HUB_FILES):
        before = pushed.get(path)
        now = state.files.get(path)
        if before == now:
            continue
        change = "changed"
        if before is None:
            change = "added"
        elif now is None:
            change = "deleted"
        changes.append(f"{change} {safe_line(path)}")
    if len(changes) > _MOST_NAMED:
        rest = len(changes) - _MOST_NAMED
        changes[_MOST_NAMED:] = [f"and {rest} more"]
    return changes
