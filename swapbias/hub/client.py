"""The only file that talks to the Hub: what goes out is checked, what fails becomes one sentence."""

import glob
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swapbias.errors import HubError, UsageError, listed
from swapbias.hub.hub_errors import one_sentence
from swapbias.hub.repository import Change, Commit, Repo, State
from swapbias.hub_http import configure_http
from swapbias.privacy import check_upload
from swapbias.studies import tables

if TYPE_CHECKING:
    from huggingface_hub import CommitInfo, Discussion

SOURCE = "https://github.com/swapbias/swapbias"


@contextmanager
def _without_bars() -> Iterator[None]:
    """Let the client show no progress bars, as it does without a terminal too."""
    from huggingface_hub.utils import (  # type: ignore[attr-defined]
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


class Hub:
    """The Hub, as one user sees it; every method raises HubError, of one sentence, for trouble with it."""

    def __init__(self, *, endpoint: str | None = None, token: str | None = None) -> None:
        """Reach the Hub.

        Args:
            endpoint: its address; None for the client's own.
            token: the token of the user; None for the stored one.
        """
        from huggingface_hub import HfApi

        from swapbias import __version__

        configure_http()
        self._api: Any = HfApi(
            endpoint=endpoint, token=token, library_name="swapbias", library_version=__version__
        )

    @cached_property
    def _account(self) -> dict[str, Any]:
        with one_sentence("log in"):
            account = self._api.whoami()
            return {**account, "name": str(account["name"])}

    @property
    def user(self) -> str:
        """Name of the user whose token it is."""
        return str(self._account["name"])

    def owners(self) -> tuple[str, ...]:
        """List the user and the organisations that the token may write to.

        Returns:
            their names, the user's first.

        Raises:
            HubError: there is no token, or one that may only read.
        """
        with one_sentence("log in"):
            if self._account.get("auth", {}).get("accessToken", {}).get("role") == "read":
                raise HubError(
                    "The token may only read. Make one with write access and log in with hf auth login."
                )
            names = [self.user]
            for organisation in self._account.get("orgs", []):
                if organisation.get("roleInOrg", "write") in ("write", "admin", "contributor"):
                    names.append(str(organisation["name"]))
            return tuple(names)

    def url(self, repo: Repo, *, commit: str = "", path: str = "") -> str:
        """Return the page of a repository, or of a folder in it at a commit.

        Args:
            repo: the repository.
            commit: a commit; blank for the repository's page.
            path: a folder at that commit.

        Returns:
            the address.
        """
        kind = "" if repo.kind == "model" else f"{repo.kind}s/"
        page = f"{self._api.endpoint}/{kind}{repo.name}"
        return f"{page}/tree/{commit}/{path}".rstrip("/") if commit else page

    def state(self, repo: Repo, *, revision: str = "main") -> State | None:
        """Read what a repository holds.

        Args:
            repo: the repository.
            revision: a branch, tag or commit.

        Returns:
            its files and tags; None where it is not there, or not to be seen with this token.
        """
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

        with one_sentence(f"read {repo.name}"):
            try:
                info = self._api.repo_info(repo.name, repo_type=repo.kind, revision=revision)
            except RepositoryNotFoundError:
                return None
            except RevisionNotFoundError as error:
                names = listed(sorted(self._tags(repo)), "its tags, but it has none")
                raise HubError(
                    f"{repo.name} has no revision {revision}, expected main or one of {names}. Name one of these."
                ) from error
            tree = self._api.list_repo_tree(
                repo.name, recursive=True, revision=info.sha, repo_type=repo.kind
            )
            files = {}
            for entry in tree:
                if not hasattr(entry, "blob_id"):  # a folder
                    continue
                files[entry.path] = f"git:{entry.blob_id}"
                if entry.lfs:
                    files[entry.path] = f"sha256:{entry.lfs.sha256}"
            tags = self._tags(repo)
        return State(repo, str(info.sha), bool(info.private), files, tags)

    def _tags(self, repo: Repo) -> dict[str, str]:
        """Return the commit of each tag of a repository."""
        refs = self._api.list_repo_refs(repo.name, repo_type=repo.kind)
        return {str(tag.name): str(tag.target_commit) for tag in refs.tags}

    def existing_state(self, repo: Repo, *, revision: str = "main") -> State:
        """Read what a repository holds that must be there.

        Args:
            repo: the repository.
            revision: a branch, tag or commit.

        Returns:
            its files and tags.

        Raises:
            UsageError: it is not there.
        """
        state = self.state(repo, revision=revision)
        if state is None:
            raise UsageError(
                f"{repo.name} is not there, or cannot be seen with this token. Check its name, or log in."
            )
        return state

    def commits(self, repo: Repo) -> list[Commit]:
        """List the commits of the main branch.

        Args:
            repo: the repository.

        Returns:
            commits, newest first.
        """
        with one_sentence(f"read {repo.name}"):
            commits = self._api.list_repo_commits(repo.name, repo_type=repo.kind)
            return [Commit(str(commit.commit_id), str(commit.title)) for commit in commits]

    def last_commit(self, state: State, folder: str) -> str:
        """Return the last commit that changed a folder.

        Args:
            state: the repository at a commit.
            folder: a path in it.

        Returns:
            the commit; that of the state where the server does not name one.
        """
        with one_sentence(f"read {state.repo.name}"):
            (info,) = self._api.get_paths_info(
                state.repo.name,
                folder,
                expand=True,
                revision=state.commit,
                repo_type=state.repo.kind,
            )
            return str(info.last_commit.oid) if info.last_commit else state.commit

    def repos(self, owner: str, kind: str) -> list[str]:
        """List what an owner has.

        Args:
            owner: a user or organisation.
            kind: ``dataset`` or ``space``.

        Returns:
            names of repositories, OWNER/NAME, sorted.
        """
        list_repos = self._api.list_datasets if kind == "dataset" else self._api.list_spaces
        with one_sentence(f"list what {owner} has"):
            return sorted(str(repo.id) for repo in list_repos(author=owner))

    def content(self, state: State | None, path: str) -> bytes:
        """Read a file at the commit of a state.

        Args:
            state: the repository at a commit; None where it is not there.
            path: the path of the file.

        Returns:
            its content; empty where it is not there.
        """
        if state is None or path not in state.files:
            return b""
        return self.fetch(state, [path])[path].read_bytes()

    def text(self, state: State | None, path: str) -> str:
        """Read a text of a repository.

        Args:
            state: the repository at a commit; None where it is not there.
            path: the path of the file.

        Returns:
            the text; blank where it is not there.

        Raises:
            ValueError: it is not UTF-8.
        """
        file = f"{state.repo.name}/{path}" if state else path
        return tables.decoded(file, self.content(state, path), "utf-8")

    def fetch(self, state: State, paths: Iterable[str]) -> dict[str, Path]:
        """Fetch files of a state into the client's cache.

        Args:
            state: the repository at a commit.
            paths: the paths of the files.

        Returns:
            the file in the cache by path.
        """
        from huggingface_hub.utils import silent_tqdm  # type: ignore[attr-defined] # bars need no terminal

        def download(path: str) -> str:
            file: str = self._api.hf_hub_download(
                state.repo.name,
                path,
                repo_type=state.repo.kind,
                revision=state.commit,
                tqdm_class=silent_tqdm,
            )
            return file

        wanted = list(paths)
        with one_sentence(f"read {state.repo.name}"), ThreadPoolExecutor(8) as pool:
            files = pool.map(download, wanted)
            return dict(zip(wanted, map(Path, files), strict=True))

    def snapshot(self, state: State, paths: Iterable[str], *, offline: bool = False) -> Path:
        """Fetch files of a state into the client's cache; those that are there are not fetched again.

        Args:
            state: the repository at a commit.
            paths: the paths of the files.
            offline: whether all must be in the cache.

        Returns:
            the folder in the cache that holds them.
        """
        with one_sentence(f"read {state.repo.name}"), _without_bars():
            folder = self._api.snapshot_download(
                state.repo.name,
                repo_type=state.repo.kind,
                revision=state.commit,
                allow_patterns=[glob.escape(path) for path in paths],
                local_files_only=offline,
            )
        return Path(folder)

    def create(self, repo: Repo, *, private: bool, sdk: str | None = None) -> None:
        """Make a repository; nothing happens where it is there, and its visibility stays.

        Args:
            repo: the repository.
            private: whether few may read it.
            sdk: the SDK of a Space, ``static`` or ``gradio``.
        """
        with one_sentence(f"create {repo.name}", writes=True):
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
        """Write a change as one commit, or as a pull request; or not at all.

        Args:
            repo: the repository.
            change: what is written and deleted.
            title: the title of the commit.
            parent: the commit it was made from; where another one came in between nothing is written.
            description: the description of a pull request; blank for a commit.
            never: strings that no file may hold, besides keys and credentialed text.

        Returns:
            the commit, as the client describes it.

        Raises:
            UsageError: a file holds what it may not.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        check_upload(change.write, never=(*never, *self.tokens()))
        operations: list[Any] = [
            *(CommitOperationAdd(path, content) for path, content in change.write.items()),
            *(CommitOperationDelete(path, is_folder=False) for path in change.delete),
        ]
        bars = nullcontext() if sys.stderr.isatty() else _without_bars()
        with one_sentence(f"write to {repo.name}", writes=True), bars:
            commit: CommitInfo = self._api.create_commit(
                repo.name,
                operations,
                commit_message=title,
                commit_description=description,
                repo_type=repo.kind,
                parent_commit=parent,
                create_pr=bool(description),
            )
        return commit

    def tag(self, repo: Repo, name: str, *, commit: str) -> None:
        """Name a commit.

        Args:
            repo: the repository.
            name: the name of the tag.
            commit: the commit.
        """
        with one_sentence(f"tag {repo.name}", writes=True):
            self._api.create_tag(repo.name, tag=name, revision=commit, repo_type=repo.kind)

    def pull_requests(self, repo: Repo, *, title: str) -> "list[Discussion]":
        """List this user's pull requests of a title.

        Args:
            repo: the repository.
            title: the title of the pull requests.

        Returns:
            the pull requests, newest first.
        """
        with one_sentence(f"read the pull requests of {repo.name}"):
            discussions = self._api.get_repo_discussions(
                repo.name, author=self.user, discussion_type="pull_request", repo_type=repo.kind
            )
            wanted = (True, self.user, title)
            pull_requests = [
                request
                for request in discussions
                if (request.is_pull_request, request.author, request.title) == wanted
            ]
        return sorted(pull_requests, key=lambda request: -request.num)

    def tokens(self) -> Iterator[str]:
        """Yield the tokens that no file may hold: the one in use and the stored one.

        Returns:
            tokens.
        """
        from huggingface_hub import get_token

        for token in (self._api.token, get_token()):
            if isinstance(token, str) and token:
                yield token
