"""The local Hub as a test sees it: users and repositories to set up, faults to plan, and what arrived."""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from .answers import JSON, Answer, Request
from .faults import Plan, Plans
from .repositories import File, Repository, Upload, stored
from .routes import route
from .serving import Server

Files = Mapping[str, bytes | str]


@dataclass(frozen=True, slots=True)
class User:
    """An account with one token; ``orgs`` maps organisations to the role there ("read" cannot write)."""

    name: str
    token: str
    role: str = "write"  # of the token: "write" or "read"
    orgs: Mapping[str, str] = field(default_factory=dict)

    def may_read(self, owner: str) -> bool:
        """Whether private repositories of a namespace are visible with this token."""
        return owner == self.name or owner in self.orgs

    def may_write(self, owner: str) -> bool:
        """Whether this token may write to a namespace."""
        return self.role == "write" and (owner == self.name or self.orgs.get(owner, "read") != "read")


class LocalHub:
    """A Hub at ``url`` while the ``with`` block runs. Nothing is shared between two of them.

    Args:
        page_size: how many rows a listing holds before the client has to ask for the next page.
    """

    def __init__(self, *, page_size: int = 1000) -> None:
        self.page_size = page_size
        self.users: dict[str, User] = {}  # by token
        self.repositories: dict[tuple[str, str], Repository] = {}  # by kind and name
        self.objects: dict[tuple[str, str, str], Upload] = {}  # large files by kind, name and sha256
        self.log: list[tuple[str, str, str | None]] = []  # method, path with its query, user
        self.broken: list[str] = []  # tracebacks of faults of this server
        self.plans = Plans()
        self.lock = threading.RLock()
        self.closing = threading.Event()

    def __enter__(self) -> Self:
        self.server = Server(self)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self.server.shutdown()
        self.thread.join()
        self.server.hang_up()
        self.server.server_close()
        if self.broken and kind is None:
            raise RuntimeError("the local Hub broke:\n" + "\n".join(self.broken))

    # Setting up

    def add_user(
        self,
        name: str,
        *,
        token: str,
        orgs: Iterable[str] | Mapping[str, str] = (),
        role: str = "write",
    ) -> None:
        """An account; ``orgs`` is names (may write there) or a mapping of names to roles."""
        roles = dict(orgs) if isinstance(orgs, Mapping) else dict.fromkeys(orgs, "write")
        self.users[token] = User(name, token, role, roles)

    def add_repo(
        self,
        kind: str,
        name: str,
        *,
        files: Files | None = None,
        private: bool = False,
        sdk: str = "",
        discussions: bool = True,
        tags: Iterable[str] = (),
    ) -> str:
        """A repository with one commit of the given files, under the tags; returns the commit's name.

        Names are taken as they are, also those the real Hub would refuse.
        """
        made = Repository(kind, name, private=private, sdk=sdk, discussions=discussions)
        commit = made.commit("refs/heads/main", _stored(files or {}), title="initial commit", author=made.owner)
        made.refs.update({f"refs/tags/{tag}": commit.oid for tag in tags})
        with self.lock:
            self.repositories[kind, name] = made
        return commit.oid

    def push(
        self,
        kind: str,
        name: str,
        files: Files,
        title: str = "a change",
        *,
        author: str = "",
        delete: Iterable[str] = (),
    ) -> str:
        """A commit of somebody else to the main branch (by default of the owner); returns its name."""
        with self.lock:
            repo = self.repositories[kind, name]
            parent = repo.head()
            kept = {path: file for path, file in parent.files.items() if path not in set(delete)}
            state = kept | _stored(files)
            author = author or repo.owner
            return repo.commit("refs/heads/main", state, title=title, author=author, parent=parent.oid).oid

    def remove_repo(self, kind: str, name: str) -> None:
        with self.lock:
            del self.repositories[kind, name]

    def close_pull_request(self, kind: str, name: str, number: int) -> None:
        with self.lock:
            self.repositories[kind, name].pulls[number - 1].status = "closed"

    def merge_pull_request(self, kind: str, name: str, number: int) -> None:
        with self.lock:
            repo = self.repositories[kind, name]
            repo.merge(repo.pulls[number - 1], author=repo.owner)

    # Planning trouble

    def fail(
        self,
        method: str,
        pattern: str,
        *,
        status: int = 500,
        times: int = 1,
        after: int = 0,
        headers: Mapping[str, str] | None = None,
        body: Any = b"",
    ) -> None:
        """Answer the next ``times`` matching requests with a status, after letting ``after`` pass.

        ``times=-1``: every one. ``body`` is bytes, or something that becomes JSON.
        """
        plain = isinstance(body, bytes)
        sent = {**({} if plain else {"Content-Type": JSON}), **(headers or {})}
        content = body if plain else json.dumps(body).encode()
        self.plans.add(Plan(method, pattern, times, after, status=status, headers=sent, content=content))

    def cut(
        self,
        method: str,
        pattern: str,
        *,
        times: int = 1,
        after: int = 0,
        after_bytes: int = 0,
        answer: bool | None = None,
    ) -> None:
        """End the connection in the middle.

        By default while a POST or PUT is still being read (so nothing happened), and within the answer of any other
        request. ``answer=True``: the request is carried out, but the client does not get the whole answer.
        """
        late = method not in ("POST", "PUT") if answer is None else answer
        where = "answer" if late else "request"
        self.plans.add(Plan(method, pattern, times, after, cut=where, after_bytes=after_bytes))

    def hang(
        self,
        method: str,
        pattern: str,
        *,
        times: int = -1,
        after: int = 0,
        after_bytes: int = 0,
    ) -> None:
        """Answer nothing after ``after_bytes`` of an answer, and stay connected."""
        self.plans.add(Plan(method, pattern, times, after, hangs=True, after_bytes=after_bytes))

    def on(
        self, method: str, pattern: str, callback: Callable[[], object], *, times: int = 1, after: int = 0
    ) -> None:
        """Run something when a matching request arrives, before it is handled."""
        self.plans.add(Plan(method, pattern, times, after, callback=callback))

    # What is there now

    def repo(self, kind: str, name: str) -> Repository | None:
        """The repository itself (private, sdk, ...); None where there is none."""
        return self.repositories.get((kind, name))

    def files(self, kind: str, name: str, *, revision: str = "main") -> dict[str, bytes]:
        """Content by path at a revision."""
        commit = self.repositories[kind, name].resolve(revision)
        if commit is None:
            raise KeyError(f"{name} has no revision {revision}")
        return {path: file.data for path, file in sorted(commit.files.items())}

    def commits(self, kind: str, name: str, *, revision: str = "main") -> list[tuple[str, str]]:
        """Names and titles of commits, newest first."""
        return [(commit.oid, commit.title) for commit in self.repositories[kind, name].history(revision)]

    def tags(self, kind: str, name: str) -> dict[str, str]:
        """The commit of each tag."""
        return self.repositories[kind, name].named("refs/tags/")

    def pull_requests(self, kind: str, name: str) -> list[tuple[int, str, str, str, list[str]]]:
        """Number, title, status, author and changed paths of each pull request."""
        repo = self.repositories[kind, name]
        return [(p.number, p.title, p.status, p.author, repo.changed(p)) for p in repo.pulls]

    # For the server

    def user_of(self, authorization: str | None) -> User | None:
        """The user of an Authorization header; None for none and for a token nobody has."""
        return self.users.get((authorization or "").removeprefix("Bearer ").strip())

    def answer(self, request: Request) -> Answer:
        """The answer to a request; one request at a time."""
        with self.lock:
            return route(self, request)


def _stored(files: Files) -> dict[str, File]:
    return {path: stored(path, data.encode() if isinstance(data, str) else data) for path, data in files.items()}
