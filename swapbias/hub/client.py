"""The only file that talks to the Hub: what goes out is checked, what fails becomes one sentence."""

import difflib
import hashlib
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Required, TypedDict, Unpack

from swapbias.errors import HubError, UsageError
from swapbias.files import file_sha256
from swapbias.hub.cards import CARD
from swapbias.hub_http import configure_http
from swapbias.privacy import Files, check_upload
from swapbias.report import safe_line
from swapbias.studies import tables

if TYPE_CHECKING:
    from huggingface_hub import CommitInfo, Discussion

SOURCE = "https://github.com/swapbias/swapbias"
HUB_FILES = frozenset({".gitattributes"})  # what the Hub itself puts into a new repository
_REPO = re.compile(r"\w[\w.-]*/\w[\w.-]*(?<!\.git)", re.ASCII)
SHARED = re.compile(rf"({_REPO.pattern})(?:/([^/@]+))?(?:@(.+))?", re.ASCII)
_TEMPLATE = {*HUB_FILES, CARD}  # of a new Space
_LONGEST = 10_000  # characters of a line that is shown
_LOGIN = "Log in with hf auth login, or set HF_TOKEN."
_ADVICE = {  # by exception of huggingface_hub or by status: what to do
    "GatedRepoError": "It is gated: ask for access on its page.",
    "RepositoryNotFoundError": "It is not there, or the token may not see it: check the name and the token.",
    "RevisionNotFoundError": "It has no such revision: look at its tags.",
    401: f"The Hub does not take the token. {_LOGIN}",
    403: "The token may not: use one with {access} access to it, or another name.",
    404: "Check the name, and HF_ENDPOINT if it is set.",
    409: "It clashes with what is there. {again}",
    412: "Somebody else wrote in between, so that nothing was written. Run the command again.",
    413: "A file is too large: leave it out, or make it smaller.",
    429: "The Hub takes no more requests now: wait. {again}",
    500: "The Hub has trouble of its own. {again}",
    0: "Correct what it names, or run the command again.",
}


def is_shared_name(name: str) -> bool:
    """Whether a name can be one of shared runs: OWNER/NAME, OWNER/NAME/RUN, either with @REVISION."""
    return SHARED.fullmatch(name) is not None


def error_sentence(error: Exception, doing: str, *, writes: bool = False) -> str | None:
    """The sentence for an error of the client, without addresses and headers; None for any other error."""
    from huggingface_hub import errors
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    again = (
        "Run the command again: what has arrived is not sent twice."
        if writes
        else "Run the command again."
    )
    for one in filter(None, (error, error.__cause__, error.__context__)):
        if isinstance(one, errors.LocalTokenNotFoundError):
            return f"There is no token, and it takes one to {doing}. {_LOGIN}"
        if isinstance(one, errors.OfflineModeIsEnabled):
            return f"HF_HUB_OFFLINE is set, so that nothing could be sent to {doing}. Unset it."
        if isinstance(one, errors.HfHubHTTPError):
            status = one.response.status_code
            why = ": ".join(filter(None, (str(status), _plain(one.server_message or ""))))
            keys = (*(kind.__name__ for kind in type(one).mro()), min(status, 500), 0)
            step = next(_ADVICE[key] for key in keys if key in _ADVICE)
            return f"Could not {doing} ({why}). {step.format(again=again, access='write' if writes else 'read')}"
        if isinstance(one, httpx.TransportError | ConnectionError | TimeoutError):
            return f"The Hub could not be reached to {doing} ({type(one).__name__}). Check the network. {again}"
    if isinstance(error, json.JSONDecodeError | KeyError | IndexError | TypeError | AttributeError):
        return f"Could not {doing}: the answer is not that of a Hub. Check HF_ENDPOINT and the network."
    known = (errors.HFValidationError, errors.LocalEntryNotFoundError)
    # The client has the Hub look at a card before it sends it; any trouble with a large file is a RuntimeError.
    if isinstance(error, known) or (writes and isinstance(error, ValueError | RuntimeError)):
        return f"Could not {doing}: {_plain(str(error))}. Correct what it names. {again}"
    return None


def _plain(text: str) -> str:
    """A stranger's words on one line, printable, short, without addresses."""
    line = " ".join(word for word in text.split() if "://" not in word)
    return "".join(letter for letter in line if letter.isprintable())[:160].rstrip(" .")


@dataclass(frozen=True, slots=True)
class Repo:
    """A repository: ``model``, ``dataset`` or ``space``, and its name ``owner/name``, else UsageError."""

    kind: str
    name: str

    def __post_init__(self) -> None:
        if not _REPO.fullmatch(self.name):
            raise UsageError(
                f"{self.name!r} is no name of a repository, expected OWNER/NAME. Correct it."
            )

    @property
    def owner(self) -> str:
        """The user or organisation."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class State:
    """What a repository holds at a commit."""

    repo: Repo
    commit: str
    private: bool
    files: Mapping[str, str]
    """Path -> digest, ``sha256:...`` of large files and ``git:...`` of others."""
    tags: Mapping[str, str]
    """Name -> commit."""


@dataclass(frozen=True, slots=True)
class Change:
    """Files to write, and paths to delete; false where nothing changes."""

    write: Files
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.write or self.delete)


def difference(state: State | None, files: Files, *, within: str = "") -> Change:
    """What must be written and deleted so that a repository, or its folder ``within``, holds exactly ``files``."""
    there = state.files if state else {}
    write = {
        path: content for path, content in files.items() if not _same(there.get(path), content)
    }
    inside = [path for path in there if path.startswith(f"{within}/") or not within]
    return Change(
        write, tuple(sorted(path for path in inside if path not in files and path not in HUB_FILES))
    )


def _same(known: str | None, content: bytes | Path) -> bool:
    kind, _, digest = (known or "").partition(":")
    if kind == "sha256":
        return digest == (
            file_sha256(content)
            if isinstance(content, Path)
            else hashlib.sha256(content).hexdigest()
        )
    data = as_bytes(content)
    return (
        digest == hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    )


def as_bytes(content: bytes | Path) -> bytes:
    """The content of a file that is in memory or on disk."""
    return content if isinstance(content, bytes) else content.read_bytes()


class Hub:
    """The Hub, as one user sees it; every method raises HubError, of one sentence, for trouble with it."""

    def __init__(self, *, endpoint: str | None = None, token: str | None = None) -> None:
        from huggingface_hub import HfApi

        from swapbias import __version__

        configure_http()
        self._api: Any = HfApi(
            endpoint=endpoint, token=token, library_name="swapbias", library_version=__version__
        )

    @cached_property
    def _account(self) -> dict[str, Any]:
        with _one_sentence("log in"):
            account = self._api.whoami()
            return {**account, "name": str(account["name"])}

    @property
    def user(self) -> str:
        """Whose token it is."""
        return str(self._account["name"])

    def owners(self) -> tuple[str, ...]:
        """The user and the organisations that the token may write to."""
        with _one_sentence("log in"):
            if self._account.get("auth", {}).get("accessToken", {}).get("role") == "read":
                raise HubError(
                    "The token may only read. Make one with write access and log in with hf auth login."
                )
            roles = ("write", "admin", "contributor")
            orgs = [
                one
                for one in self._account.get("orgs", [])
                if one.get("roleInOrg", "write") in roles
            ]
            return (self.user, *(str(one["name"]) for one in orgs))

    def url(self, repo: Repo, *, commit: str = "", path: str = "") -> str:
        """The page of a repository, or of a folder in it at a commit."""
        kind = "" if repo.kind == "model" else f"{repo.kind}s/"
        place = f"/tree/{commit}/{path}".rstrip("/") if commit else ""
        return f"{self._api.endpoint}/{kind}{repo.name}{place}"

    def state(self, repo: Repo, *, revision: str = "main") -> State | None:
        """What a repository holds, or None where it is not there (or not to be seen with this token)."""
        from huggingface_hub.errors import RepositoryNotFoundError

        with _one_sentence(f"read {repo.name}"):
            try:
                info = self._api.repo_info(repo.name, repo_type=repo.kind, revision=revision)
            except RepositoryNotFoundError:
                return None
            tree = self._api.list_repo_tree(
                repo.name, recursive=True, revision=info.sha, repo_type=repo.kind
            )
            entries = [one for one in tree if hasattr(one, "blob_id")]  # folders have none
            files = {
                one.path: f"sha256:{one.lfs.sha256}" if one.lfs else f"git:{one.blob_id}"
                for one in entries
            }
            refs = self._api.list_repo_refs(repo.name, repo_type=repo.kind)
            tags = {one.name: one.target_commit for one in refs.tags}
        return State(repo, str(info.sha), bool(info.private), files, tags)

    def existing_state(self, repo: Repo, *, revision: str = "main") -> State:
        """What a repository holds; UsageError where it is not there."""
        state = self.state(repo, revision=revision)
        if state is None:
            raise UsageError(
                f"{repo.name} is not there, or cannot be seen with this token. Check its name, or log in."
            )
        return state

    def commits(self, repo: Repo) -> list[str]:
        """Titles of the commits of the main branch, newest first."""
        with _one_sentence(f"read {repo.name}"):
            return [
                str(one.title)
                for one in self._api.list_repo_commits(repo.name, repo_type=repo.kind)
            ]

    def last_commit(self, state: State, folder: str) -> str:
        """The last commit that changed a folder; that of the state where the server does not name one."""
        how = {"revision": state.commit, "repo_type": state.repo.kind}
        with _one_sentence(f"read {state.repo.name}"):
            (found,) = self._api.get_paths_info(state.repo.name, folder, expand=True, **how)
            return str(found.last_commit.oid) if found.last_commit else state.commit

    def repos(self, owner: str, kind: str) -> list[str]:
        """Names of an owner's datasets or Spaces, sorted."""
        listed = self._api.list_datasets if kind == "dataset" else self._api.list_spaces
        with _one_sentence(f"list what {owner} has"):
            return sorted(str(one.id) for one in listed(author=owner))

    def content(self, state: State | None, path: str) -> bytes:
        """A file at the commit of the state; empty where it is not there."""
        return (
            self.fetch(state, [path])[path].read_bytes() if state and path in state.files else b""
        )

    def text(self, state: State | None, path: str) -> str:
        """A text of a repository, blank where it is not there; ValueError where it is not UTF-8."""
        return tables.decoded(
            f"{state.repo.name}/{path}" if state else path, self.content(state, path), "utf-8"
        )

    def fetch(self, state: State, paths: Iterable[str]) -> dict[str, Path]:
        """Files of a state by path, in the client's cache."""
        from huggingface_hub.utils import silent_tqdm  # type: ignore[attr-defined] # bars need no terminal

        chosen = list(paths)
        how = {"repo_type": state.repo.kind, "revision": state.commit, "tqdm_class": silent_tqdm}
        with _one_sentence(f"read {state.repo.name}"), ThreadPoolExecutor(8) as pool:
            found = pool.map(
                lambda path: self._api.hf_hub_download(state.repo.name, path, **how), chosen
            )
            return dict(zip(chosen, map(Path, found), strict=True))

    def create(self, repo: Repo, *, private: bool, sdk: str | None = None) -> None:
        """Make a repository; nothing happens where it is there, and its visibility stays."""
        with _one_sentence(f"create {repo.name}", writes=True):
            self._api.create_repo(
                repo.name, repo_type=repo.kind, private=private, exist_ok=True, space_sdk=sdk
            )

    def commit(
        self,
        repo: Repo,
        change: Change,
        title: str,
        *,
        parent: str,
        description: str = "",
        never: Iterable[str] = (),
    ) -> "CommitInfo":
        """Write a change as one commit, or with a ``description`` as a pull request; or not at all.

        ``parent`` is the commit it was made from: where another one came in between nothing is written. ``never`` are
        strings that no file may hold, besides keys and credentialed text: UsageError where one does.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        check_upload(change.write, never=(*never, *self.tokens()))
        operations: list[Any] = [
            *(CommitOperationAdd(path, content) for path, content in change.write.items()),
            *(CommitOperationDelete(path, is_folder=False) for path in change.delete),
        ]
        how = {"repo_type": repo.kind, "parent_commit": parent, "create_pr": bool(description)}
        with _one_sentence(f"write to {repo.name}", writes=True):
            done: CommitInfo = self._api.create_commit(
                repo.name, operations, commit_message=title, commit_description=description, **how
            )
        return done

    def tag(self, repo: Repo, name: str, *, commit: str) -> None:
        """Name a commit."""
        with _one_sentence(f"tag {repo.name}", writes=True):
            self._api.create_tag(repo.name, tag=name, revision=commit, repo_type=repo.kind)

    def pull_requests(self, repo: Repo, *, title: str) -> "list[Discussion]":
        """This user's pull requests of a title, newest first."""
        with _one_sentence(f"read the pull requests of {repo.name}"):
            found = self._api.get_repo_discussions(
                repo.name, author=self.user, discussion_type="pull_request", repo_type=repo.kind
            )
            mine = [
                one
                for one in found
                if (one.is_pull_request, one.author, one.title) == (True, self.user, title)
            ]
        return sorted(mine, key=lambda one: -one.num)

    def tokens(self) -> Iterator[str]:
        """Tokens that no file may hold: the one in use and the stored one."""
        from huggingface_hub import get_token

        yield from (one for one in (self._api.token, get_token()) if isinstance(one, str) and one)


@contextmanager
def _one_sentence(doing: str, *, writes: bool = False) -> Iterator[None]:
    """Turn whatever the client raises into one sentence; its own warnings and logs are silenced."""
    log = logging.getLogger("huggingface_hub")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (HubError, UsageError):
        raise
    except Exception as error:
        sentence = error_sentence(error, doing, writes=writes)
        if sentence is None:
            raise
        raise HubError(sentence) from error
    finally:
        log.setLevel(level)


# --- one flow of commits --------------------------------------------------------------------------------

Say = Callable[[str], None]
_PUSHED = "Push {} {} with swapbias"  # the title of a push's commit, by which the next push knows the repository


class PushOptions(TypedDict, total=False):
    """How something is pushed; ``say`` gets lines, with ``dry_run`` what would be written, and nothing is."""

    say: Required[Say]
    private: bool
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """One commit to a repository, planned or made; with a ``description`` it is a pull request.

    ``there`` is what the repository holds, None where it will be made; ``status``: ``created``, ``updated``,
    ``tagged``, ``unchanged`` or what happened to a pull request, in a dry run ``would be created`` and so on.
    """

    repo: Repo
    status: str
    change: Change
    title: str = ""
    there: State | None = None
    private: bool = False
    url: str = ""
    commit: str = ""
    tag: str = ""
    description: str = ""
    sdk: str | None = None

    def carry_out(self, hub: Hub, *, never: Iterable[str] = ()) -> "Push":
        """Do it: make the repository where it is not there, commit, tag. ``never`` is as of ``Hub.commit``."""
        if self.commit or not (self.change or self.tag):
            return self
        if self.there is None:
            hub.create(self.repo, private=self.private, sdk=self.sdk)
        now = hub.existing_state(self.repo)
        if now.private != self.private or (self.there is None and not is_new(hub, now)):
            raise UsageError(
                f"Somebody changed {self.repo.name} in between. Look at it, and run the command again."
            )
        commit = (self.there or now).commit
        url = self.url
        if self.change:
            text = self.description
            made = hub.commit(
                self.repo, self.change, self.title, parent=commit, description=text, never=never
            )
            page = (
                hub.url(self.repo, commit=made.oid)
                if self.repo.kind == "dataset"
                else made.commit_url
            )
            commit = made.oid
            url = made.pr_url or page
        if self.tag:
            hub.tag(self.repo, self.tag, commit=commit)
        return replace(self, commit=commit, url=url)

    def show(self, hub: Hub, say: Say) -> "Push":
        """Say what would be written: every path with its size, and how the card and other texts differ."""
        what, _, done = self.status.rpartition(" ")
        would = f"{what} would be {done}".lstrip() if self.change or self.tag else self.status
        tag = f", tag {self.tag}" if self.tag else ""
        say(
            f"{self.repo.kind} {self.repo.name} ({'private' if self.private else 'public'}): {would}{tag}"
        )
        for line in (
            (f"Title: {self.title}", f"Description: {self.description}") if self.description else ()
        ):
            say(f"  {line}")
        files = self.there.files if self.there else {}
        for path, content in sorted(self.change.write.items()):
            say(f"  {'M' if path in files else 'A'} {path} ({len(as_bytes(content)):,} bytes)")
        for path in self.change.delete:
            say(f"  D {safe_line(path, _LONGEST)}")
        for path in sorted(path for path in self.change.write if path.endswith((CARD, ".yaml"))):
            both = (hub.content(self.there, path), as_bytes(self.change.write[path]))
            before, after = (content.decode(errors="replace").splitlines() for content in both)
            for line in difflib.unified_diff(before, after, "there", "new", lineterm="", n=2):
                say(f"  {safe_line(line.expandtabs(), _LONGEST)}")
        return replace(self, status=would)


def push_repo(
    hub: Hub,
    repo: Repo,
    files: Files,
    *,
    tag: str,
    version_hint: str,
    sdk: str | None = None,
    **options: Unpack[PushOptions],
) -> Push:
    """Bring a repository to ``files`` in one commit, tagged ``tag``; a version that is published is not pushed again.

    The next push completes one that was cut. ``version_hint`` says how to raise the version. UsageError: the tag
    is published with other content, the repository was not made by a push or is public where a private one is wanted,
    or a file must not leave. HubError: the Hub refused.
    """
    say = options["say"]
    private = options.get("private", False)
    check_upload(files)
    state = hub.state(repo)
    if state and private and not state.private:
        raise UsageError(
            f"{repo.name} is public, and a push does not change that. Make it private on the Hub, or drop --private."
        )
    new = state is None or is_new(hub, state)
    title = _PUSHED.format(repo.name.partition("/")[2], tag)
    private = state.private if state else private
    plan = Push(
        repo=repo,
        status="unchanged",
        change=Change({}),
        title=title,
        there=state,
        private=private,
        tag=tag,
    )
    if state and tag in state.tags:
        if difference(hub.state(repo, revision=tag), files):
            raise UsageError(f"{repo.name}: {tag} is published with other content; {version_hint}.")
        return replace(plan, commit=state.tags[tag])
    change = difference(state, files)
    plan = replace(
        plan, status="created" if new else "updated" if change else "tagged", change=change, sdk=sdk
    )
    if options.get("dry_run"):
        return plan.show(hub, say)
    for path in () if new else change.delete:
        say(f"  D {safe_line(path, _LONGEST)}")
    return plan.carry_out(hub)


def is_new(hub: Hub, state: State) -> bool:
    """Whether a repository holds only what the Hub puts into a new one; UsageError where no push made the rest."""
    titles = hub.commits(state.repo)
    if any(re.fullmatch(_PUSHED.format(".+", ".+"), title) for title in titles):
        return False
    template = _TEMPLATE if state.repo.kind == "space" and len(titles) == 1 else HUB_FILES
    if state.tags or not set(state.files) <= template:
        raise UsageError(
            f"{state.repo.name} holds something else: none of its commits was made by a push of swapbias. Choose "
            "another --namespace, or rename that repository."
        )
    return True
