"""The only file that talks to the Hub: what goes out is checked, what fails becomes one sentence."""

import difflib
import hashlib
import json
import logging
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Required, TypedDict, Unpack

from swapbias.errors import HubError, UsageError
from swapbias.files import file_sha256
from swapbias.hub.cards import CARD, TAGS, decode, load, split
from swapbias.models import configure_http
from swapbias.privacy import Files, check_upload

if TYPE_CHECKING:
    from huggingface_hub import CommitInfo, Discussion

SOURCE = "https://github.com/swapbias/swapbias"
READ_LIMIT = 64 * 2**20  # bytes of a file that is read into memory
HUB_FILES = frozenset({".gitattributes"})  # what the Hub itself puts into a new repository
SHARED = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:/([^/@]+))?(?:@(.+))?")
_TEMPLATE = {*HUB_FILES, CARD, "index.html", "style.css"}  # of a new static Space
_AGAIN = "Run the command again."
_LOGIN = "Log in with hf auth login, or set HF_TOKEN."
_SENTENCES = {  # by exception of huggingface_hub or by status: what is wrong and what to do
    "GatedRepoError": "Could not {doing}: it is gated{why}. Ask for access on its page.",
    "RepositoryNotFoundError": (
        "Could not {doing}: it is not there, or the token may not see it{why}. Check the name and the token."
    ),
    "RevisionNotFoundError": "Could not {doing}: it has no such revision{why}. Look at its tags.",
    401: "The Hub does not take the token{why}, so that nothing was done ({doing}). {login}",
    403: "The token may not {doing}{why}. Use one with {access} access to it, or another name.",
    404: "Could not {doing}: it is not there{why}. Check the name, and HF_ENDPOINT if it is set.",
    409: "Could not {doing}: it clashes with what is there{why}. {again}",
    412: "Somebody else wrote in between, so that nothing was written ({doing}). Run the command again.",
    413: "Could not {doing}: a file is too large{why}. Leave it out, or make it smaller.",
    429: "The Hub takes no more requests now{why}, so that it was not done ({doing}). Wait. {again}",
    500: "The Hub has trouble of its own{why}, so that it was not done ({doing}). {again}",
    0: "Could not {doing}{why}. Correct what it names, or run the command again.",
}


def is_shared_name(name: str) -> bool:
    """Whether a name can be one of shared runs: OWNER/NAME, OWNER/NAME/RUN, either with @REVISION."""
    return SHARED.fullmatch(name) is not None


def error_sentence(error: Exception, doing: str, *, writes: bool = False) -> str | None:
    """The sentence for an error of the client, or None for one that is not the Hub's or the network's.

    ``doing`` is what was tried, after "to"; ``writes`` whether that sends something. Neither addresses (they may be
    signed) nor headers (they hold the token) are repeated.
    """
    from huggingface_hub import errors
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    again = f"{_AGAIN[:-1]}: what has arrived is not sent twice." if writes else _AGAIN
    for one in filter(None, (error, error.__cause__, error.__context__)):
        if isinstance(one, errors.LocalTokenNotFoundError):
            return f"There is no token, and it takes one to {doing}. {_LOGIN}"
        if isinstance(one, errors.OfflineModeIsEnabled):
            return f"HF_HUB_OFFLINE is set, so that nothing could be sent to {doing}. Unset it."
        if isinstance(one, errors.HfHubHTTPError):
            message, status = _plain(one.server_message or ""), one.response.status_code
            keys = (*(kind.__name__ for kind in type(one).mro()), min(status, 500), 0)
            sentence = next(_SENTENCES[key] for key in keys if key in _SENTENCES)
            why = f" ({status}: {message})" if message else f" ({status})"
            access = "write" if writes else "read"
            return sentence.format(doing=doing, why=why, again=again, access=access, login=_LOGIN)
        if isinstance(one, httpx.TransportError | ConnectionError | TimeoutError):
            return f"The Hub could not be reached to {doing} ({type(one).__name__}). Check the network. {again}"
    if isinstance(error, errors.HFValidationError | errors.LocalEntryNotFoundError):
        return f"Could not {doing}: {_plain(str(error))}. Correct what it names."
    if isinstance(error, json.JSONDecodeError | KeyError | IndexError | TypeError | AttributeError):
        return f"Could not {doing}: the answer is not that of a Hub. Check HF_ENDPOINT and the network."
    if writes and isinstance(error, ValueError):  # the client has the Hub look at a card before it sends it
        return f"Could not {doing}: the Hub finds the card's header invalid: {_plain(str(error))}. Correct it."
    if writes and isinstance(error, RuntimeError):  # of a large file, whatever the reason
        return f"An upload broke off, so that nothing was written ({doing}). {again}"
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
        """Refuse a name that cannot be one."""
        from huggingface_hub.errors import HFValidationError
        from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

        with suppress(HFValidationError):
            validate_repo_id(self.name)
            if self.name.count("/") == 1:
                return
        raise UsageError(f"{self.name!r} is no name of a repository, expected OWNER/NAME. Correct it.")

    @property
    def owner(self) -> str:
        """The user or organisation."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class State:
    """What a repository holds at a commit.

    ``files`` maps paths to digests of their content: ``sha256:...`` where the Hub stores them as large files,
    ``git:...`` else; ``sizes`` maps them to bytes, ``tags`` names to commits.
    """

    repo: Repo
    commit: str
    private: bool
    files: Mapping[str, str]
    tags: Mapping[str, str]
    sizes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Change:
    """Files to write, and paths to delete; false where nothing changes."""

    write: Files
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything changes."""
        return bool(self.write or self.delete)


def difference(state: State | None, files: Files, *, within: str = "") -> Change:
    """What must be written and deleted so that a repository holds exactly ``files``.

    Outside the folder ``within`` everything stays, and so do the Hub's own files.
    """
    there = state.files if state else {}
    write = {path: content for path, content in files.items() if not _same(there.get(path), content)}
    inside = [path for path in there if path.startswith(f"{within}/") or not within]
    return Change(write, tuple(sorted(path for path in inside if path not in files and path not in HUB_FILES)))


def _same(known: str | None, content: bytes | Path) -> bool:
    kind, _, digest = (known or "").partition(":")
    if kind == "sha256" and isinstance(content, Path):
        return digest == file_sha256(content)
    data = as_bytes(content)
    if kind == "sha256":
        return digest == hashlib.sha256(data).hexdigest()
    return digest == hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def as_bytes(content: bytes | Path) -> bytes:
    """The content of a file that is in memory or on disk."""
    return content if isinstance(content, bytes) else content.read_bytes()


class Hub:
    """The Hub, as one user sees it: at ``endpoint`` (``HF_ENDPOINT``) by ``token`` (``HF_TOKEN`` or the stored one).

    Every method raises HubError, with one sentence, when the Hub refuses, cannot be reached or holds something
    unreadable.
    """

    def __init__(self, *, endpoint: str | None = None, token: str | None = None) -> None:
        from huggingface_hub import HfApi

        from swapbias import __version__

        configure_http()
        self._api: Any = HfApi(endpoint=endpoint, token=token, library_name="swapbias", library_version=__version__)

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
                raise HubError("The token may only read. Make one with write access and log in with hf auth login.")
            roles = ("write", "admin", "contributor")
            orgs = [one for one in self._account.get("orgs", []) if one.get("roleInOrg", "write") in roles]
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
            tree = self._api.list_repo_tree(repo.name, recursive=True, revision=info.sha, repo_type=repo.kind)
            entries = [one for one in tree if hasattr(one, "blob_id")]  # folders have none
            files = {one.path: f"sha256:{one.lfs.sha256}" if one.lfs else f"git:{one.blob_id}" for one in entries}
            refs = self._api.list_repo_refs(repo.name, repo_type=repo.kind)
            tags = {one.name: one.target_commit for one in refs.tags}
        return State(repo, str(info.sha), bool(info.private), files, tags, {one.path: one.size for one in entries})

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
            return [str(one.title) for one in self._api.list_repo_commits(repo.name, repo_type=repo.kind)]

    def last_commit(self, state: State, folder: str) -> str:
        """The last commit that changed a folder; that of the state where the server does not name one."""
        how = {"revision": state.commit, "repo_type": state.repo.kind}
        with _one_sentence(f"read {state.repo.name}"):
            (found,) = self._api.get_paths_info(state.repo.name, folder, expand=True, **how)
            return str(found.last_commit.oid) if found.last_commit else state.commit

    def repos(self, owner: str, kind: str) -> list[str]:
        """Names of an owner's repositories of a kind, sorted."""
        listed = {"model": self._api.list_models, "dataset": self._api.list_datasets, "space": self._api.list_spaces}
        with _one_sentence(f"list what {owner} has"):
            return sorted(str(one.id) for one in listed[kind](author=owner))

    def content(self, state: State | None, path: str) -> bytes:
        """A file of up to ``READ_LIMIT`` bytes, at the commit of the state; empty where it is not there."""
        if state is None or path not in state.files:
            return b""
        with tempfile.TemporaryDirectory() as folder:
            self.download(state, Path(folder), [path], limit=READ_LIMIT)
            return (Path(folder) / path).read_bytes()

    def text(self, state: State | None, path: str) -> str:
        """A text of a repository, blank where it is not there; ValueError where it is not UTF-8."""
        return decode(self.content(state, path), f"{state.repo.name}/{path}" if state else path)

    def download(self, state: State, folder: Path, paths: Iterable[str], *, limit: int | None = None) -> None:
        """Fetch files of a state into a folder, at its commit; none of more than ``limit`` bytes."""
        from huggingface_hub import utils

        bars: Any = utils
        chosen = list(paths)
        for path in chosen:
            if limit is not None and state.sizes[path] > limit:
                raise HubError(
                    f"{state.repo.name}: {path} has {state.sizes[path]:,} bytes, expected at most {limit:,}."
                )
        drawn = not bars.are_progress_bars_disabled()  # they are drawn even where there is no terminal
        bars.disable_progress_bars()
        how = {"repo_type": state.repo.kind, "revision": state.commit, "local_dir": folder}
        try:
            with _one_sentence(f"read {state.repo.name}"), ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda path: self._api.hf_hub_download(state.repo.name, path, **how), chosen))
        finally:
            if drawn:
                bars.enable_progress_bars()
        shutil.rmtree(folder / ".cache", ignore_errors=True)  # what the client notes down for itself

    def create(self, repo: Repo, *, private: bool, sdk: str | None = None) -> None:
        """Make a repository; nothing happens where it is there, and its visibility stays."""
        with _one_sentence(f"create {repo.name}", writes=True):
            self._api.create_repo(repo.name, repo_type=repo.kind, private=private, exist_ok=True, space_sdk=sdk)

    def commit(
        self,
        repo: Repo,
        change: Change,
        message: str,
        *,
        parent: str,
        description: str = "",
        create_pr: bool = False,
        never: Iterable[str] = (),
    ) -> "CommitInfo":
        """Write a change as one commit, or not at all.

        ``parent`` is the commit it was made from: where another one came in between nothing is written. ``never`` are
        strings that no file may hold, besides keys and credentialed text: UsageError where one does.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        check_upload(change.write, never=(*never, *self.tokens()))
        operations: list[Any] = [
            *(CommitOperationAdd(path, content) for path, content in change.write.items()),
            *(CommitOperationDelete(path, is_folder=False) for path in change.delete),
        ]
        with _one_sentence(f"write to {repo.name}", writes=True):
            done: CommitInfo = self._api.create_commit(
                repo.name,
                operations,
                commit_message=message,
                commit_description=description,
                repo_type=repo.kind,
                parent_commit=parent,
                create_pr=create_pr,
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
            mine = [one for one in found if (one.is_pull_request, one.author, one.title) == (True, self.user, title)]
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


class PushOptions(TypedDict, total=False):
    """How something is pushed; ``say`` gets lines, with ``dry_run`` what would be written, and nothing is."""

    say: Required[Say]
    private: bool
    dry_run: bool


@dataclass(frozen=True, slots=True)
class PushResult:
    """What was done to a repository, or would be: what was written and deleted, and where to look at it.

    ``status``: ``created``, ``updated``, ``tagged`` (the content was there, the tag was not), ``unchanged`` or what
    happened to a pull request; in a dry run ``would be created`` and so on, and ``commit`` is blank.
    """

    repo: Repo
    status: str
    change: Change
    url: str = ""
    commit: str = ""
    tag: str = ""
    private: bool = False


def push_repo(
    hub: Hub,
    repo: Repo,
    files: Files,
    *,
    tag: str,
    message: str,
    raise_hint: str,
    sdk: str | None = None,
    **options: Unpack[PushOptions],
) -> PushResult:
    """Bring a repository to ``files`` in one commit, tagged ``tag``; a version that is published is not pushed again.

    The card has the tag ``swapbias``, by which the next push knows the repository. A push that was cut is completed
    by the next one. ``raise_hint`` says how a version is raised.

    Raises:
        UsageError: the tag is published with other content, the repository is somebody's own or public where a
            private one is wanted, or a file must not leave. HubError: the Hub refused.
    """
    say, private = options["say"], options.get("private", False)
    check_upload(files)
    state = hub.state(repo)
    new = state is None or _check_ours(hub, state, private=private)
    done = PushResult(repo, "unchanged", Change({}), tag=tag, private=state.private if state else private)
    if state and tag in state.tags:
        if difference(hub.state(repo, revision=tag), files):
            raise UsageError(f"{repo.name}: {tag} is published with other content; {raise_hint}.")
        return replace(done, commit=state.tags[tag])
    change = difference(state, files)
    status = "created" if new else "updated" if change else "tagged"
    if options.get("dry_run"):
        say(f"{repo.kind} {repo.name}: {'private' if done.private else 'public'}, tag {tag}, message {message!r}")
        show_change(hub, state, change, say)
        return replace(done, status=f"would be {status}", change=change)
    if state is None:
        hub.create(repo, private=private, sdk=sdk)
        state = hub.existing_state(repo)  # the Hub puts files of its own into a new repository
        _check_ours(hub, state, private=private)  # somebody else may have made it in between
        change = difference(state, files)
    commit = hub.commit(repo, change, message, parent=state.commit).oid if change else state.commit
    for path in () if new else change.delete:
        say(f"  D {printable(path)}")
    hub.tag(repo, tag, commit=commit)
    return replace(done, status=status, change=change, commit=commit)


def _check_ours(hub: Hub, state: State, *, private: bool) -> bool:
    """Whether the repository is new; UsageError where it holds something that no push made."""
    if private and not state.private:
        raise UsageError(
            f"{state.repo.name} is public, and a push does not change that. Make it private on the Hub, or drop "
            "--private."
        )
    paths = set(state.files)
    if not state.tags:
        template = state.repo.kind == "space" and paths <= _TEMPLATE
        if paths <= HUB_FILES or (template and len(hub.commits(state.repo)) == 1):
            return True
    what = f"has no tag {TAGS[-1]!r}" if CARD in paths else "is missing"
    try:
        tags = load(split(hub.text(state, CARD)).header, CARD).get("tags")
    except ValueError:
        tags, what = None, "cannot be read"
    if not isinstance(tags, list) or TAGS[-1] not in tags:
        raise UsageError(
            f"{state.repo.name} holds something else: its {CARD} {what}. Choose another --namespace, or rename that "
            "repository."
        )
    return False


def show_change(hub: Hub, state: State | None, change: Change, say: Say, *, texts: Iterable[str] = (CARD,)) -> None:
    """Say every path that would be added (A), modified (M) or deleted (D), its size, and how ``texts`` differ."""
    for path, content in sorted(change.write.items()):
        say(f"  {'M' if state and path in state.files else 'A'} {path} ({len(as_bytes(content)):,} bytes)")
    for path in change.delete:
        say(f"  D {printable(path)}")
    for path in texts:
        if path in change.write:
            both = (hub.content(state, path), as_bytes(change.write[path]))
            before, after = (content.decode(errors="replace").splitlines() for content in both)
            for line in difflib.unified_diff(before, after, "there", "new", lineterm="", n=2):
                say(f"  {printable(line)}")


def printable(text: str) -> str:
    """A stranger's text without control characters."""
    return "".join(one if one.isprintable() or one == "\t" else "�" for one in text)
