"""The only file that talks to the Hub. What goes out passes the gate; what fails becomes one sentence."""

import glob
import hashlib
import json
import logging
import re
import shutil
import tempfile
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from swapbias.errors import HubError, UsageError, quoted
from swapbias.files import file_sha256
from swapbias.network import configure_http
from swapbias.privacy import Files, gate as outgoing

if TYPE_CHECKING:
    from huggingface_hub import CommitInfo, Discussion

NOT_TWICE = "Run the command again: what has arrived is not sent twice."
LOGIN = "Log in with hf auth login, or set HF_TOKEN."


def sentence(error: Exception, doing: str, *, writes: bool = False) -> str | None:
    """The sentence for an error of the client, or None for one that is not the Hub's or the network's.

    Args:
        error: what was raised.
        doing: what was tried, after "to".
        writes: whether that sends something.

    Neither addresses (they may be signed) nor headers (they hold the token) are repeated.
    """
    from huggingface_hub import errors
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    again = NOT_TWICE if writes else "Run the command again."
    causes = _chain(error)
    for one in causes:
        if isinstance(one, errors.LocalTokenNotFoundError):
            return f"There is no token, and it takes one to {doing}. {LOGIN}"
        if isinstance(one, errors.OfflineModeIsEnabled):
            return f"HF_HUB_OFFLINE is set, so that nothing could be sent to {doing}. Unset it."
        if isinstance(one, errors.HfHubHTTPError):
            said = _plain(one.server_message or "")
            status = one.response.status_code
            words = f" ({status}: {said})" if said else f" ({status})"
            found = next((step for name, step in _BY_TYPE.items() if isinstance(one, getattr(errors, name))), "")
            found = found or _BY_STATUS.get(status, "") or (_TROUBLE if status >= 500 else _OTHER)
            access = "write" if writes else "read"
            return found.format(doing=doing, words=words, again=again, access=access, login=LOGIN)
    for one in causes:
        if isinstance(one, httpx.TransportError | ConnectionError | TimeoutError):
            return f"The Hub could not be reached to {doing} ({type(one).__name__}). Check the network. {again}"
    if isinstance(error, errors.HFValidationError | errors.LocalEntryNotFoundError):
        return f"Could not {doing}: {_plain(str(error))}. Correct what it names."
    if isinstance(error, RuntimeError) and "pload" in str(error):  # of a large file, whatever the reason
        return f"An upload broke off, so that nothing was written ({doing}). {NOT_TWICE}"
    if isinstance(error, json.JSONDecodeError | KeyError | IndexError | TypeError | AttributeError):
        return not_a_hub(doing)
    if isinstance(error, ValueError) and "metadata" in str(error).lower():
        return f"Could not {doing}: the Hub finds the card's header invalid: {_plain(str(error))}. Correct it."
    return None


_BY_TYPE = {  # exceptions of huggingface_hub
    "GatedRepoError": "Could not {doing}: it is gated{words}. Ask for access on its page.",
    "RepositoryNotFoundError": (
        "Could not {doing}: it is not there, or the token may not see it{words}. Check the name and the token."
    ),
    "RevisionNotFoundError": "Could not {doing}: it has no such revision{words}. Look at its tags.",
    "EntryNotFoundError": "Could not {doing}: a file is not there{words}. Look at its files.",
    "DisabledRepoError": "Could not {doing}: the Hub has disabled it{words}. Look at its page.",
}
_BY_STATUS = {
    401: "The Hub does not take the token{words}, so that nothing was done ({doing}). {login}",
    403: "The token may not {doing}{words}. Use one with {access} access to it, or another name.",
    404: "Could not {doing}: it is not there{words}. Check the name, and HF_ENDPOINT if it is set.",
    409: "Could not {doing}: it clashes with what is there{words}. {again}",
    412: "Somebody else wrote in between, so that nothing was written ({doing}). Run the command again.",
    413: "Could not {doing}: a file is too large{words}. Leave it out, or make it smaller.",
    429: "The Hub takes no more requests now{words}, so that it was not done ({doing}). Wait. {again}",
}
_TROUBLE = "The Hub has trouble of its own{words}, so that it was not done ({doing}). {again}"
_OTHER = "Could not {doing}{words}. Correct what it names, or run the command again."


def not_a_hub(doing: str) -> str:
    """The sentence for an answer that the client cannot make sense of: a login page of a network, another server."""
    return f"Could not {doing}: the answer is not that of a Hub. Check HF_ENDPOINT and the network."


def _chain(error: BaseException | None) -> list[BaseException]:
    """The error and what caused it."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _plain(text: str) -> str:
    """A stranger's words on one line, printable, short, without addresses."""
    line = " ".join(word for word in text.split() if "://" not in word)
    return "".join(letter for letter in line if letter.isprintable())[:160].rstrip(" .")


READ_LIMIT = 64 * 2**20  # bytes of a file that is read into memory
LONGEST_NAME = 240  # characters of a path that every file system takes
HUB_FILES = frozenset({".gitattributes"})  # what the Hub itself puts into a new repository
_RESERVED = {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10))}
_WRITING = ("write", "admin", "contributor")  # roles in an organisation


@dataclass(frozen=True, slots=True)
class Repo:
    """A repository: ``model``, ``dataset`` or ``space``, and its name ``owner/name``."""

    kind: str
    name: str

    def __post_init__(self) -> None:
        """Refuse a name that cannot be one.

        Raises:
            UsageError: it is not ``owner/name``.
        """
        from huggingface_hub.errors import HFValidationError
        from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

        try:
            validate_repo_id(self.name)
            whole = self.name.count("/") == 1
        except HFValidationError:
            whole = False
        if not whole:
            raise UsageError(f"{self.name!r} is no name of a repository, expected OWNER/NAME. Correct it.")

    @property
    def owner(self) -> str:
        """The user or organisation."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class State:
    """What a repository holds at a commit.

    ``files`` maps paths to what tells their content: ``sha256:...`` where the Hub keeps them as large files,
    ``git:...`` else. ``tags`` maps names to commits; ``size`` is that of all files in bytes.
    """

    repo: Repo
    commit: str
    private: bool
    files: Mapping[str, str]
    tags: Mapping[str, str]
    size: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """Files to write, and paths to delete; false where nothing changes."""

    write: Files
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything changes."""
        return bool(self.write or self.delete)


def difference(state: State | None, files: Files, *, within: str = "") -> Change:
    """What must be written and deleted so that a repository holds exactly ``files`` (``within`` a folder).

    Args:
        state: what is there; None: nothing.
        files: what should be.
        within: a folder; what lies outside it, and the Hub's own files, stay.
    """
    there = state.files if state else {}
    write = {path: content for path, content in files.items() if not _same(there.get(path), content)}
    inside = [path for path in there if path.startswith(f"{within}/") or not within]
    return Change(write, tuple(sorted(path for path in inside if path not in files and path not in HUB_FILES)))


def _same(known: str | None, content: bytes | Path) -> bool:
    if known is None:
        return False
    kind, _, digest = known.partition(":")
    if kind == "sha256" and isinstance(content, Path):
        return digest == file_sha256(content)
    data = content if isinstance(content, bytes) else content.read_bytes()
    if kind == "sha256":
        return digest == hashlib.sha256(data).hexdigest()
    blob = b"blob %d\0" % len(data) + data  # what git names it by
    return digest == hashlib.sha1(blob, usedforsecurity=False).hexdigest()


def check_names(where: str, names: Collection[str]) -> None:
    """Refuse names that a stranger could have chosen to leave the folder or to hide one file behind another.

    Raises:
        HubError: a path that is absolute, climbs, holds control characters or backslashes, is too long or reserved,
            differs from another one by case alone, or is the folder of another one as well.
    """
    seen: dict[str, str] = {}
    folders = {str(folder) for name in names for folder in PurePosixPath(name.casefold()).parents}
    for name in names:
        parts, other = name.split("/"), seen.setdefault(name.casefold(), name)
        troubles = {
            "does not stay in its folder": name.startswith("~") or not {"", ".", ".."}.isdisjoint(parts),
            "has characters that no file name should have": not name.isprintable() or not {*"\\:"}.isdisjoint(name),
            f"is longer than {LONGEST_NAME} bytes": len(name.encode()) > LONGEST_NAME,
            "not every system can keep": any(
                one.partition(".")[0].casefold() in _RESERVED or one.endswith((" ", ".")) for one in parts
            ),
            "belongs to git": ".git" in parts,
            f"differs from {other!r} by case alone": other != name,
            "is the folder of another file as well": name.casefold() in folders,
        }
        if trouble := next((one for one, found in troubles.items() if found), ""):
            raise HubError(f"{where} holds the file {quoted(name)}, which {trouble}. Nothing was fetched.")


class Hub:
    """The Hub, as one user sees it.

    Args:
        endpoint: its address; ``HF_ENDPOINT`` by default.
        token: a user's token; ``HF_TOKEN`` or the stored login by default.

    Every method raises HubError, with one sentence, when the Hub refuses, cannot be reached or holds something
    unreadable.
    """

    def __init__(self, *, endpoint: str | None = None, token: str | None = None) -> None:
        from huggingface_hub import HfApi

        from swapbias import __version__

        configure_http()
        self._api: Any = HfApi(endpoint=endpoint, token=token, library_name="swapbias", library_version=__version__)

    @cached_property
    def _whoami(self) -> dict[str, Any]:
        with self._one_sentence("log in"):
            found = self._api.whoami()
            if not isinstance(found, dict) or not isinstance(found.get("name"), str):
                raise HubError(not_a_hub("log in"))
            return found

    @property
    def user(self) -> str:
        """Whose token it is."""
        return str(self._whoami["name"])

    def owners(self) -> tuple[str, ...]:
        """The user and the organisations that the token may write to."""
        with self._one_sentence("log in"):
            access = self._whoami.get("auth", {}).get("accessToken", {})
            if access.get("role") == "read":
                raise HubError("The token may only read. Make one with write access and log in with hf auth login.")
            orgs = [one for one in self._whoami.get("orgs", []) if one.get("roleInOrg", "write") in _WRITING]
            return (self.user, *(str(one["name"]) for one in orgs))

    def url(self, repo: Repo, *, commit: str = "", path: str = "") -> str:
        """The page of a repository, or of a folder in it at a commit."""
        kind = "" if repo.kind == "model" else f"{repo.kind}s/"
        place = f"/tree/{commit}/{path}".rstrip("/") if commit else ""
        return f"{self._api.endpoint}/{kind}{repo.name}{place}"

    def state(self, repo: Repo, *, revision: str = "main") -> State | None:
        """What a repository holds, or None where it is not there (or not to be seen with this token)."""
        from huggingface_hub.errors import RepositoryNotFoundError

        with self._one_sentence(f"read {repo.name}"):
            try:
                info = self._api.repo_info(repo.name, repo_type=repo.kind, revision=revision)
            except RepositoryNotFoundError:
                return None
            tree = self._api.list_repo_tree(repo.name, recursive=True, revision=info.sha, repo_type=repo.kind)
            entries = [one for one in tree if hasattr(one, "blob_id")]  # folders have none
            files = {one.path: f"sha256:{one.lfs.sha256}" if one.lfs else f"git:{one.blob_id}" for one in entries}
            tags = {
                one.name: one.target_commit for one in self._api.list_repo_refs(repo.name, repo_type=repo.kind).tags
            }
        return State(repo, str(info.sha), bool(info.private), files, tags, sum(one.size for one in entries))

    def commits(self, repo: Repo, *, revision: str = "main") -> list[str]:
        """Titles of the commits that lead to a revision, newest first."""
        with self._one_sentence(f"read {repo.name}"):
            found = self._api.list_repo_commits(repo.name, repo_type=repo.kind, revision=revision)
            return [str(one.title) for one in found]

    def repos(self, owner: str, kind: str) -> list[str]:
        """Names of an owner's repositories of a kind, sorted."""
        listed = {"model": self._api.list_models, "dataset": self._api.list_datasets, "space": self._api.list_spaces}
        with self._one_sentence(f"list what {owner} has"):
            return sorted(str(one.id) for one in listed[kind](author=owner))

    def read(self, repo: Repo, path: str, *, revision: str) -> bytes:
        """A file's content, of up to ``READ_LIMIT`` bytes."""
        with tempfile.TemporaryDirectory() as folder:
            return self.download(repo, Path(folder), [path], revision=revision, limit=READ_LIMIT)[0].read_bytes()

    def content(self, state: State | None, path: str) -> bytes:
        """A file of a repository as it was looked at; empty where it is not there."""
        return self.read(state.repo, path, revision=state.commit) if state and path in state.files else b""

    def download(
        self, repo: Repo, folder: Path, paths: Sequence[str], *, revision: str, limit: int | None = None
    ) -> list[Path]:
        """Fetch files into a folder.

        Refused before anything is fetched: names that leave the folder, and files of more than ``limit`` bytes.
        """
        check_names(repo.name, paths)
        with self._one_sentence(f"read {repo.name}"):
            there = self._api.get_paths_info(repo.name, list(paths), revision=revision, repo_type=repo.kind)
            sizes = {one.path: one.size for one in there if hasattr(one, "blob_id")}
            for path in paths:
                if path not in sizes:
                    raise HubError(f"{repo.name} holds no {path} at {revision}. Look at its files.")
                if limit is not None and sizes[path] > limit:
                    raise HubError(f"{repo.name}: {path} has {sizes[path]:,} bytes, expected at most {limit:,}.")
            for path in paths:
                self._api.hf_hub_download(repo.name, path, repo_type=repo.kind, revision=revision, local_dir=folder)
        shutil.rmtree(folder / ".cache", ignore_errors=True)  # what the client notes down for itself
        return [folder / path for path in paths]

    def snapshot(self, state: State, folder: Path) -> None:
        """Fetch the files of a state at its commit into a folder, several at once."""
        from huggingface_hub import utils

        bars: Any = utils
        check_names(state.repo.name, state.files)
        with ExitStack() as after, self._one_sentence(f"read {state.repo.name}"):
            if not bars.are_progress_bars_disabled():  # they are drawn even where there is no terminal
                bars.disable_progress_bars()
                after.callback(bars.enable_progress_bars)
            self._api.snapshot_download(
                state.repo.name,
                repo_type=state.repo.kind,
                revision=state.commit,
                local_dir=folder,
                allow_patterns=[glob.escape(path) for path in state.files],
            )
        shutil.rmtree(folder / ".cache", ignore_errors=True)  # what the client notes down for itself

    def create(self, repo: Repo, *, private: bool, sdk: str | None = None) -> None:
        """Make a repository; nothing happens where it is there, and its visibility stays."""
        with self._one_sentence(f"create {repo.name}", writes=True):
            self._api.create_repo(repo.name, repo_type=repo.kind, private=private, exist_ok=True, space_sdk=sdk)

    def commit(
        self,
        repo: Repo,
        change: Change,
        message: str,
        *,
        parent: str,
        revision: str = "main",
        description: str = "",
        create_pr: bool = False,
        never: Iterable[str] = (),
    ) -> "CommitInfo":
        """Write a change as one commit, or not at all.

        Args:
            parent: the commit it was made from; where another one came in between nothing is written.
            create_pr: propose it as a pull request.
            never: strings that no file may hold, besides keys and credentialed text.

        Raises:
            UsageError: a file holds what must not leave this machine.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        outgoing.check(change.write, never=(*never, *self.tokens()))
        operations: list[Any] = [
            *(CommitOperationAdd(path, content) for path, content in change.write.items()),
            *(CommitOperationDelete(path, is_folder=False) for path in change.delete),
        ]
        with self._one_sentence(f"write to {repo.name}", writes=True):
            done: CommitInfo = self._api.create_commit(
                repo.name,
                operations,
                commit_message=message,
                commit_description=description,
                repo_type=repo.kind,
                revision=revision,
                parent_commit=parent,
                create_pr=create_pr,
            )
        return done

    def tag(self, repo: Repo, name: str, *, commit: str) -> None:
        """Name a commit."""
        with self._one_sentence(f"tag {repo.name}", writes=True):
            self._api.create_tag(repo.name, tag=name, revision=commit, repo_type=repo.kind)

    def collect(
        self, repos: Iterable[Repo], title: str, *, namespace: str, description: str = "", private: bool = False
    ) -> str:
        """Put repositories into the collection of that title, which is made where it is not there; its page.

        Blank where this Hub has no collections. What the collection holds already, and its visibility, stay.
        """
        from huggingface_hub.errors import HfHubHTTPError

        with self._one_sentence(f"put them into the collection {title!r}", writes=True):
            try:
                found = self._api.create_collection(
                    title, namespace=namespace, description=description, private=private, exists_ok=True
                )
            except HfHubHTTPError as error:
                if error.response.status_code == 404:
                    return ""
                raise
            for repo in repos:
                self._api.add_collection_item(found.slug, repo.name, repo.kind, exists_ok=True)
            return str(found.url)

    def pull_requests(self, repo: Repo, *, title: str) -> "list[Discussion]":
        """This user's pull requests of a title, newest first."""
        with self._one_sentence(f"read the pull requests of {repo.name}"):
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
    def _one_sentence(self, doing: str, *, writes: bool = False) -> Iterator[None]:
        """Turn whatever the client raises into one sentence; its own chatter stays unsaid."""
        chatter = logging.getLogger("huggingface_hub")
        level = chatter.level
        chatter.setLevel(logging.ERROR)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        except (HubError, UsageError):
            raise
        except Exception as error:
            said = sentence(error, doing, writes=writes)
            if said is None:
                raise
            raise HubError(said) from error
        finally:
            chatter.setLevel(level)


SHARED = re.compile(r"(\w[\w.-]*/\w[\w.-]*)(?:/([^/@]+))?(?:@(.+))?")


def is_shared_name(name: str) -> bool:
    """Whether a name can be one of shared runs: OWNER/NAME, OWNER/NAME/RUN, either with @REVISION."""
    return SHARED.fullmatch(name) is not None
