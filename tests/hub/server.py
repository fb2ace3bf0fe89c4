"""A Hugging Face Hub on this machine, for tests: real HTTP, repositories in memory, planned
faults."""

import base64
import hashlib
import json
import re
import socket
import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

KINDS = {"models": "model", "datasets": "dataset", "spaces": "space", None: "model"}
PREFIXES = {"model": "", "dataset": "datasets/", "space": "spaces/"}
BINARY = frozenset(
    (".arrow", ".bin", ".gz", ".jpg", ".npy", ".parquet", ".png", ".safetensors", ".skops", ".zip")
)
ATTRIBUTES = {
    ".gitattributes": b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"
}  # in every new repository
NEW_SPACE = {"README.md": b"---\ntitle: New\nsdk: gradio\napp_file: app.py\n---\n"}
NEW_PAGE = {
    "index.html": b"<p>Welcome</p>\n",
    "style.css": b"p { color: red; }\n",
}  # of a static one
DATE = "2026-01-01T00:00:00.000Z"
MAIN = "refs/heads/main"


@dataclass(frozen=True, slots=True)
class File:
    """A file, and whether it is stored in large-file storage."""

    data: bytes
    lfs: bool = False

    @property
    def sha256(self):
        return hashlib.sha256(self.data).hexdigest()

    @property
    def oid(self):
        return hashlib.sha1(b"blob %d\0" % len(self.data) + self.data).hexdigest()


def is_large(path, size, sample):
    """Tell whether the Hub wants a file in large-file storage: by extension, by size, or because
    it is binary."""
    return PurePosixPath(path).suffix.lower() in BINARY or size > 10_000_000 or b"\0" in sample


def stored(files):
    """Files, stored as the Hub would choose by name, size and content."""
    content = {
        path: data.encode() if isinstance(data, str) else data for path, data in files.items()
    }
    return {
        path: File(data, lfs=is_large(path, len(data), data[:512]))
        for path, data in content.items()
    }


@dataclass(frozen=True, slots=True)
class Commit:
    """A state of all files; ``oid`` follows from what is in it, so equal histories have equal names."""

    oid: str
    parent: str
    title: str
    files: dict[str, File]


@dataclass(slots=True)
class Pull:
    number: int
    title: str
    author: str
    status: str = "open"
    """Open, closed or merged."""


@dataclass(slots=True)
class Repository:
    kind: str
    name: str
    private: bool = False
    sdk: str = ""
    discussions: bool = True
    commits: dict[str, Commit] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    pulls: list[Pull] = field(default_factory=list)

    @property
    def owner(self):
        return self.name.partition("/")[0]

    def commit(self, ref, files, title, parent=""):
        names = {path: file.oid for path, file in sorted(files.items())}
        key = json.dumps([self.kind, self.name, parent, title, names])
        new_commit = Commit(hashlib.sha1(key.encode()).hexdigest(), parent, title, dict(files))
        self.commits[new_commit.oid] = new_commit
        self.refs[ref] = new_commit.oid
        return new_commit

    def resolve(self, revision):
        """The commit a branch, a tag, a full ref or a commit name stands for; None where there is none."""
        for name in (revision, f"refs/heads/{revision}", f"refs/tags/{revision}"):
            if name in self.refs:
                return self.commits[self.refs[name]]
        return self.commits.get(revision)

    def history(self, revision):
        commit = self.resolve(revision)
        while commit is not None:
            yield commit
            commit = self.commits.get(commit.parent)

    def last_change(self, commit, path):
        """The newest commit up to this one that changed a file or folder."""
        below = [entry for entry in commit.files if entry == path or entry.startswith(f"{path}/")]
        same = takewhile(
            lambda entry: all(entry.files.get(name) == commit.files[name] for name in below),
            self.history(commit.oid),
        )
        return list(same)[-1]

    def named(self, folder):
        """Refs under a folder such as "refs/tags/", by short name."""
        return {
            ref.removeprefix(folder): oid
            for ref, oid in self.refs.items()
            if ref.startswith(folder)
        }


@dataclass(frozen=True, slots=True)
class User:
    """An account with one token, which may only "read" or "write" too; ``orgs`` it may write to."""

    name: str
    role: str
    orgs: tuple[str, ...]

    def sees(self, repo):
        return not repo.private or repo.owner in (self.name, *self.orgs)


@dataclass(slots=True)
class Plan:
    """What to do when a request of this method ("*": any) whose address matches arrives, ``times`` times."""

    method: str
    pattern: str
    times: int = 1
    status: int = 0
    """Answer with this status."""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    cuts: int | None = None
    """The connection ends after so many bytes of the request."""
    hangs: int | None = None
    """Or nothing comes after so many bytes of the answer."""
    skips: int = 0
    """So many matching requests pass before."""
    unanswered: bool = False
    """Or the request is carried out, and the connection ends before the answer."""
    callback: Any = None

    def takes(self, method, address):
        matches = (
            self.method in ("*", method) and re.search(self.pattern, address) and self.times != 0
        )
        if matches and self.skips:
            self.skips -= 1
            return False
        self.times -= bool(matches)
        return matches


class LocalHub:
    """A Hub at ``url`` while the ``with`` block runs. Nothing is shared between two of them."""

    def __init__(self):
        self.users: dict[str, User] = {}  # by token
        self.repositories: dict[tuple[str, str], Repository] = {}  # by kind and name
        self.large: dict[str, bytes] = {}  # large files that arrived, by sha256
        self.log: list[tuple[str, str, str | None]] = []  # method, path with its query, user
        self.broken: list[str] = []  # tracebacks of faults of this server
        self.plans: list[Plan] = []
        self.lock = threading.RLock()
        self.closing = threading.Event()

    def __enter__(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.hub = self
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.closing.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
        if self.broken and kind is None:
            raise RuntimeError("the local Hub broke:\n" + "\n".join(self.broken))

    def add_user(self, name, *, token, orgs=(), role="write"):
        self.users[token] = User(name, role, tuple(orgs))

    def add_repo(self, kind, name, *, files=None, private=False, sdk="", discussions=True, tags=()):
        """A repository with one commit of the given files, under the tags; returns the commit's name."""
        repository = Repository(kind, name, private, sdk, discussions)
        commit = repository.commit(MAIN, stored(files or {}), "initial commit")
        repository.refs.update({f"refs/tags/{tag}": commit.oid for tag in tags})
        self.repositories[kind, name] = repository
        return commit.oid

    def push(self, kind, name, files, title="a change", *, delete=()):
        with self.lock:
            repo = self.repositories[kind, name]
            parent = repo.resolve("main")
            others = {path: file for path, file in parent.files.items() if path not in set(delete)}
            return repo.commit(MAIN, others | stored(files), title, parent.oid).oid

    def merge_pull_request(self, kind, name, number):
        pull = self.repositories[kind, name].pulls[number - 1]
        self.push(kind, name, self.files(kind, name, revision=f"refs/pr/{number}"), pull.title)
        pull.status = "merged"

    def fail(self, method, pattern, *, status=500, **fields):
        """Answer the next matching request with a status, or as ``how``, the fields of a Plan, says."""
        self.plans.append(Plan(method, pattern, status=status, **fields))

    def on(self, method, pattern, callback):
        self.plans.append(Plan(method, pattern, callback=callback))

    def due(self, method, address):
        with self.lock:
            callbacks = [
                plan.callback
                for plan in self.plans
                if plan.callback and plan.takes(method, address)
            ]
            faults = (
                plan for plan in self.plans if not plan.callback and plan.takes(method, address)
            )
            return callbacks, next(faults, None)

    def repo(self, kind, name):
        return self.repositories.get((kind, name))

    def files(self, kind, name, *, revision="main"):
        files = self.repositories[kind, name].resolve(revision).files
        return {path: file.data for path, file in sorted(files.items())}

    def commits(self, kind, name):
        return [
            (commit.oid, commit.title) for commit in self.repositories[kind, name].history("main")
        ]

    def tags(self, kind, name):
        return self.repositories[kind, name].named("refs/tags/")


class Refused(Exception):  # noqa: N818 - not an error of this server
    """The Hub says no, with the headers by which the clients tell refusals apart."""

    def __init__(self, status, message, code="", **headers):
        super().__init__(message)
        named = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {}), **headers}
        self.answer = as_json({"error": message}, status, **named)


def as_json(content, status=200, **headers):
    return (
        status,
        json.dumps(content).encode(),
        {"Content-Type": "application/json; charset=utf-8", **headers},
    )


@dataclass(frozen=True, slots=True)
class Request:
    """One request, and its answer; ``user`` is None for somebody who is not signed in."""

    hub: LocalHub
    method: str
    path: str
    """As sent: percent-encoded."""
    query: dict[str, str]
    headers: Any
    body: bytes
    user: User | None
    repo: Any = None
    """What it is about."""
    revision: str = "main"

    def json(self):
        return json.loads(self.body)

    def flag(self, name):
        return self.query.get(name, "").lower() in ("1", "true")

    def answer(self):
        for method, pattern, function in PLAIN:
            if method == self.method and (match := re.fullmatch(pattern, self.path)):
                return function(self, *match.groups())
        for pattern, function in OF_REPO:
            if match := re.fullmatch(pattern, self.path):
                kind, name, *rest = match.groups()
                return function(replace(self, repo=self.visible(KINDS[kind], name)), *rest)
        raise Refused(404, f"Sorry, no {self.method} at {self.path}.")

    def signed_in(self):
        if self.user is None:
            raise Refused(401, "Invalid username or password.")
        return self.user

    def visible(self, kind, name):
        """A repository this user may see. One they may not see answers like one that is not there."""
        repo = self.hub.repo(kind, name)
        if repo is None or (repo.private and not (self.user and self.user.sees(repo))):
            if self.user is None:
                raise Refused(401, "Invalid username or password.", "RepoNotFound")
            raise Refused(404, "Repository not found", "RepoNotFound")
        return repo

    def writer(self):
        """The user of a request that writes; anybody with a token that writes may open a pull request."""
        user = self.signed_in()
        if self.flag("create_pr"):
            if user.role == "read" or not self.repo.discussions:
                raise Refused(403, "Discussions are disabled for this repo")
        elif user.role == "read" or self.repo.owner not in (user.name, *user.orgs):
            raise Refused(
                403, "Forbidden: pass `create_pr=1` as a query parameter to create a Pull Request"
            )
        return user

    def at(self):
        commit = self.repo.resolve(self.revision)
        if commit is None:
            raise Refused(404, f"Invalid rev id: {self.revision}", "RevisionNotFound")
        return commit

    def whoami(self):
        user = self.signed_in()
        orgs = [
            {"type": "org", "name": name, "fullname": name, "roleInOrg": "write"}
            for name in user.orgs
        ]
        auth = {"type": "access_token", "accessToken": {"displayName": "test", "role": user.role}}
        return as_json(
            {"type": "user", "name": user.name, "fullname": user.name, "orgs": orgs, "auth": auth}
        )

    def create(self):
        user = self.signed_in()
        wanted = self.json()
        kind = wanted.get("type") or "model"
        owner = wanted.get("organization") or user.name
        name = f"{owner}/{wanted['name']}"
        sdk = wanted.get("sdk") or ""
        if user.role == "read" or owner not in (user.name, *user.orgs):
            raise Refused(
                403, f'You don\'t have the rights to create a {kind} under the namespace "{owner}"'
            )
        url = f"{self.hub.url}/{PREFIXES[kind]}{name}"
        if self.hub.repo(kind, name) is not None:
            return as_json({"error": f"You already created this {kind} repo", "url": url}, 409)
        private = wanted.get("visibility") == "private" or bool(wanted.get("private"))
        files = {
            **ATTRIBUTES,
            **(NEW_SPACE if sdk else {}),
            **(NEW_PAGE if sdk == "static" else {}),
        }
        self.hub.add_repo(kind, name, files=files, private=private, sdk=sdk)
        return as_json({"url": url, "name": name, "id": "x" * 24})

    def receive(self, oid):
        self.hub.large[oid] = self.body
        return 200, b"", {"ETag": f'"{oid}"'}

    def listing(self, kinds):
        author = self.query.get("author")
        stranger = User("", "read", ())
        there = [
            repository
            for (kind, _), repository in self.hub.repositories.items()
            if kind == KINDS[kinds]
        ]
        there = [
            repository
            for repository in there
            if author in (None, repository.owner) and (self.user or stranger).sees(repository)
        ]
        return as_json(
            [json.loads(replace(self, repo=repository).info()[1]) for repository in there]
        )

    def batch(self):
        """Answer where to send large files, and nowhere for those that are there."""
        self.signed_in()
        rows = self.json()["objects"]
        for row in rows:
            if row["oid"] not in self.hub.large:
                row["actions"] = {"upload": {"href": f"{self.hub.url}/lfs/{row['oid']}"}}
        return as_json({"transfer": "basic", "objects": rows})

    def content(self, revision, path):
        """A file, or a part of it, with the headers from which clients name their cache."""
        commit = replace(self, revision=unquote(revision)).at()
        headers = {"X-Repo-Commit": commit.oid}
        file = commit.files.get(unquote(path))
        if file is None:
            raise Refused(404, "Entry not found", "EntryNotFound", **headers)
        etag = file.sha256 if file.lfs else file.oid
        size = len(file.data)
        headers |= {
            "ETag": f'"{etag}"',
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
        }
        headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(size)} if file.lfs else {}
        if byte_range := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or ""):
            start = int(byte_range[1])
            stop = min(int(byte_range[2] or size - 1) + 1, size)
            return (
                206,
                file.data[start:stop],
                headers | {"Content-Range": f"bytes {start}-{stop - 1}/{size}"},
            )
        return 200, file.data, headers

    def api(self, endpoint, revision, path):
        """Answer requests below /api/<kind>s/<owner>/<name>/."""
        function = API.get((self.method, endpoint or ""))
        if function is None:
            raise Refused(404, f"Sorry, no {self.method} at {self.path}.")
        about = replace(self, revision=unquote(revision or "main"))
        return function(about, unquote(path or "")) if endpoint == "tree" else function(about)

    def info(self):
        repo = self.repo
        commit = self.at()
        row = {
            "_id": "x" * 24,
            "id": repo.name,
            "author": repo.owner,
            "sha": commit.oid,
            "private": repo.private,
            "gated": False,
            "tags": [],
            "createdAt": DATE,
            "lastModified": DATE,
            "cardData": {},
            "siblings": [{"rfilename": path} for path in sorted(commit.files)],
        }
        return as_json(row | ({"sdk": repo.sdk} if repo.sdk else {}))

    def tree(self, folder):
        """Files and folders below a folder; all levels with ``recursive``."""
        files = self.at().files
        folder = folder.strip("/")
        below = [path for path in files if not folder or path.startswith(f"{folder}/")]
        depth = len(PurePosixPath(folder).parts)
        folders = {str(parent) for path in below for parent in PurePosixPath(path).parents}
        depths = {
            name: len(PurePosixPath(name).parts) - depth for name in sorted({*below, *folders})
        }
        deep = self.flag("recursive")
        names = [name for name, level in depths.items() if level == 1 or (deep and level > 1)]
        return as_json([self.entry(name) for name in names])

    def paths_info(self):
        """Files and folders by name; what is not there is left out."""
        wanted = parse_qs(self.body.decode())
        files = self.at().files
        expand = "true" in str(wanted.get("expand", "")).lower()
        paths = [path.strip("/") for path in wanted.get("paths", [])]
        there = [
            path
            for path in paths
            if any(name == path or name.startswith(f"{path}/") for name in files)
        ]
        return as_json([self.entry(path, expand=expand) for path in there])

    def entry(self, path, *, expand=False):
        commit = self.at()
        file = commit.files.get(path)
        row = {
            "type": "directory",
            "path": path,
            "oid": hashlib.sha1(path.encode()).hexdigest(),
            "size": 0,
        }
        if file is not None:
            row |= {"type": "file", "oid": file.oid, "size": len(file.data)}
            if file.lfs:
                row["lfs"] = {"oid": file.sha256, "size": len(file.data), "pointerSize": 130}
        if expand:
            last = self.repo.last_change(commit, path)
            row["lastCommit"] = {"id": last.oid, "title": last.title, "date": DATE}
        return row

    def refs(self):
        refs_by_kind = {
            kind: [
                {"name": n, "ref": folder + n, "targetCommit": oid}
                for n, oid in self.repo.named(folder).items()
            ]
            for kind, folder in (("branches", "refs/heads/"), ("tags", "refs/tags/"))
        }
        return as_json({**refs_by_kind, "converts": [], "pullRequests": []})

    def commits(self):
        authors = [{"user": self.repo.owner}]
        usual = {"message": "", "date": DATE, "authors": authors}
        return as_json(
            [
                {"id": commit.oid, "title": commit.title, **usual}
                for commit in self.repo.history(self.at().oid)
            ]
        )

    def discussions(self):
        if not self.repo.discussions:
            raise Refused(403, "Discussions are disabled for this repo")
        repo = {"name": self.repo.name, "type": self.repo.kind}
        rows = [
            {
                "num": pull.number,
                "title": pull.title,
                "status": pull.status,
                "isPullRequest": True,
                "repo": repo,
                "author": {"name": pull.author, "type": "user"},
                "createdAt": DATE,
                "changes": {"base": MAIN},
            }
            for pull in reversed(self.repo.pulls)
            if self.query.get("author") in (None, pull.author)
        ]
        return as_json({"discussions": rows, "count": len(rows), "start": 0})

    def preupload(self):
        """Answer how each file has to be sent."""
        self.writer()
        rows = []
        for file in self.json()["files"]:
            path = file["path"]
            sample = base64.b64decode(file.get("sample") or "")
            mode = "lfs" if is_large(path, file["size"], sample) else "regular"
            rows.append({"path": path, "uploadMode": mode, "shouldIgnore": False})
        return as_json({"files": rows})

    def commit(self):
        """One commit to a branch, or a new pull request: all of it or nothing."""
        user = self.writer()
        opens = self.flag("create_pr")
        repo = self.repo
        lines = [json.loads(line) for line in self.body.splitlines() if line.strip()]
        head = lines.pop(0)["value"]
        base = self.at()
        parent = head.get("parentCommit") or ""
        if opens and parent:
            base = replace(self, revision=parent).at()
        elif not base.oid.startswith(parent):
            raise Refused(412, "A commit has happened since. Please refresh and try again.")
        files = dict(base.files)
        for line in lines:
            self.apply(files, line["key"], line["value"])
        row = {"success": True, "hookOutput": ""}
        page = f"{self.hub.url}/{PREFIXES[repo.kind]}{repo.name}"
        ref = MAIN
        if opens:
            pull = Pull(len(repo.pulls) + 1, head["summary"], user.name)
            repo.pulls.append(pull)
            ref = f"refs/pr/{pull.number}"
            row["pullRequestUrl"] = f"{page}/discussions/{pull.number}"
        new_commit = repo.commit(ref, files, head["summary"], base.oid)
        return as_json(
            {**row, "commitOid": new_commit.oid, "commitUrl": f"{page}/commit/{new_commit.oid}"}
        )

    def apply(self, files, key, value):
        path = value["path"]
        large = self.hub.large
        if key == "file":
            files[path] = File(base64.b64decode(value["content"], validate=True))
        elif key == "lfsFile" and value["oid"] in large:
            files[path] = File(large[value["oid"]], lfs=True)
        elif key != "deletedFile" or files.pop(path, None) is None:
            raise Refused(404, f"{path} has not arrived, or does not exist", "EntryNotFound")

    def tag(self):
        self.writer()
        ref = f"refs/tags/{self.json()['tag']}"
        if ref in self.repo.refs:
            raise Refused(409, f"Reference already exists: {ref}")
        self.repo.refs[ref] = self.at().oid
        return as_json({})


PLAIN = (
    ("GET", r"/api/whoami-v2", Request.whoami),
    ("POST", r"/api/validate-yaml", lambda _: as_json({"errors": []})),
    ("POST", r"/api/repos/create", Request.create),
    ("PUT", r"/lfs/([0-9a-f]{64})", Request.receive),
    ("GET", r"/api/(models|datasets|spaces)", Request.listing),
)
OF_REPO = (
    (r"/(?:(datasets|spaces)/)?([^/]+/[^/]+?)\.git/info/lfs/objects/batch", Request.batch),
    (r"/(?:(datasets|spaces)/)?([^/]+/[^/]+?)/resolve/([^/]+)/(.+)", Request.content),
    (
        r"/api/(models|datasets|spaces)/([^/]+/[^/]+?)(?:/([^/]*)(?:/([^/]+)(?:/(.+))?)?)?",
        Request.api,
    ),
)
API = {
    ("GET", ""): Request.info,
    ("GET", "revision"): Request.info,
    ("GET", "tree"): Request.tree,
    ("GET", "refs"): Request.refs,
    ("POST", "paths-info"): Request.paths_info,
    ("GET", "commits"): Request.commits,
    ("GET", "discussions"): Request.discussions,
    ("POST", "preupload"): Request.preupload,
    ("POST", "commit"): Request.commit,
    ("POST", "tag"): Request.tag,
}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """Clients that go away are part of the plan."""


class Handler(BaseHTTPRequestHandler):
    """One connection: reads a request, plays the planned fault, writes the answer."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # head and content leave in one packet

    def log_message(self, format, *args):
        """Nothing on stderr."""

    def handle_request(self):
        hub = self.server.hub
        split = urlsplit(self.path)
        address = unquote(split.path) + (f"?{unquote(split.query)}" if split.query else "")
        authorization = self.headers.get("Authorization") or ""
        user = hub.users.get(authorization.removeprefix("Bearer ").strip())
        hub.log.append((self.command, address, user.name if user else None))
        callbacks, fault = hub.due(self.command, address)
        length = int(self.headers.get("Content-Length") or 0)
        if fault is not None and fault.cuts is not None:
            self.rfile.read(min(fault.cuts, length))
            return self.drop()
        try:
            for callback in callbacks:
                callback()
            body = self.rfile.read(length)
            if fault is not None and fault.hangs is not None:
                return self.send_and_hang(fault.hangs)
            if len(body) < length:  # the client went away while it sent: nothing is carried out
                return self.drop()
            if fault is not None and not fault.unanswered:
                return self.send(fault.status, fault.body, fault.headers)
            if authorization and user is None:  # wrong everywhere, also where no token is needed
                raise Refused(401, "Invalid credentials in Authorization header")
            method = "GET" if self.command == "HEAD" else self.command
            with hub.lock:
                query = dict(parse_qsl(split.query))
                response = Request(
                    hub, method, split.path, query, self.headers, body, user
                ).answer()
        except Refused as refused:
            response = refused.answer
        except Exception:  # noqa: BLE001 - a fault of this server has to show in the test that met it
            hub.broken.append(traceback.format_exc())
            response = as_json({"error": hub.broken[-1]}, 501)
        if fault is not None and fault.unanswered:
            return self.drop()
        return self.send(*response)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_request  # noqa: N815 - the names http.server calls

    def send(self, status, content, headers):
        self.send_response(status)
        sent = {
            "Content-Type": "text/plain; charset=utf-8",
            **headers,
            "Content-Length": str(len(content)),
        }
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_and_hang(self, count):
        """Some bytes of an answer, and nothing more until the server stops."""
        whole = (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
            + b" " * 1000
        )
        self.wfile.write(whole[:count])
        self.wfile.flush()
        self.server.hub.closing.wait(3600.0)
        self.drop()

    def drop(self):
        """End the connection for both sides, whether or not the other side still is there."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
