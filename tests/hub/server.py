"""A Hugging Face Hub on this machine, for tests: real HTTP, real clients, repositories in memory, planned trouble."""

import base64
import hashlib
import json
import re
import socket
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

import yaml

KINDS = {"models": "model", "datasets": "dataset", "spaces": "space", None: "model"}
PREFIXES = {"model": "", "dataset": "datasets/", "space": "spaces/"}
BINARY = frozenset((".arrow", ".bin", ".gz", ".jpg", ".npy", ".parquet", ".png", ".safetensors", ".skops", ".zip"))
# What the Hub itself puts into a new repository.
ATTRIBUTES = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n*.png filter=lfs diff=lfs merge=lfs -text\n"
STATIC_SPACE = {
    "README.md": b"---\ntitle: New\nsdk: static\n---\n",
    "index.html": b"<!doctype html>\n<p>Welcome\n",
    "style.css": b"body { padding: 2rem; }\n",
}
FRONT = re.compile(r"\A\ufeff?\s*---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
Files = Mapping[str, bytes | str]


# --- repositories -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class File:
    """The content of a file and whether it is stored in large-file storage."""

    data: bytes
    lfs: bool = False

    @property
    def sha256(self):
        return hashlib.sha256(self.data).hexdigest()

    @property
    def pointer(self):
        """What git itself stores for a file in large-file storage."""
        size = len(self.data)
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {size}\n".encode()

    @property
    def oid(self):
        """The name git gives to the blob."""
        blob = self.pointer if self.lfs else self.data
        return hashlib.sha1(b"blob %d\0" % len(blob) + blob).hexdigest()


def is_large(path, size, sample):
    """Whether the Hub wants a file in large-file storage: by extension, by size, or because it is binary."""
    return PurePosixPath(path).suffix.lower() in BINARY or size > 10_000_000 or b"\0" in sample


def stored(files):
    """Files, stored as the Hub would choose by name, size and content."""
    content = {path: data.encode() if isinstance(data, str) else data for path, data in files.items()}
    return {path: File(data, lfs=is_large(path, len(data), data[:512])) for path, data in content.items()}


@dataclass(frozen=True, slots=True)
class Commit:
    """A state of all files; ``oid`` follows from what is in it, so equal histories have equal names."""

    oid: str
    parent: str
    title: str
    date: str
    files: dict[str, File]


@dataclass(slots=True)
class Pull:
    """A pull request; ``base`` is the commit it was opened on."""

    number: int
    title: str
    author: str
    base: str
    status: str = "open"  # open, closed or merged


@dataclass(slots=True)
class Repository:
    """One repository of the Hub."""

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

    @property
    def address(self):
        """The path of its page."""
        return f"/{PREFIXES[self.kind]}{self.name}"

    def commit(self, ref, files, title, parent=""):
        """Move a ref to a new commit that holds ``files``; returns the commit."""
        names = {path: file.oid for path, file in sorted(files.items())}
        key = json.dumps([self.kind, self.name, parent, title, names])
        date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        made = Commit(hashlib.sha1(key.encode()).hexdigest(), parent, title, date, dict(files))
        self.commits[made.oid] = made
        self.refs[ref] = made.oid
        return made

    def resolve(self, revision):
        """The commit a branch, a tag, a full ref or a commit name stands for; None where there is none."""
        for name in (revision, f"refs/heads/{revision}", f"refs/tags/{revision}"):
            if name in self.refs:
                return self.commits[self.refs[name]]
        return self.commits.get(revision)

    def history(self, revision):
        """Commits from the newest to the first."""
        commit = self.resolve(revision)
        while commit is not None:
            yield commit
            commit = self.commits.get(commit.parent)

    def last_change(self, commit, path):
        """The newest commit up to this one that changed a file or folder."""
        below = [one for one in commit.files if one == path or one.startswith(f"{path}/")]
        last = commit
        for one in self.history(commit.oid):
            if {name: one.files.get(name) for name in below} != {name: commit.files[name] for name in below}:
                return last
            last = one
        return last

    def named(self, folder):
        """Refs under a folder such as "refs/tags/", by short name."""
        return {ref.removeprefix(folder): oid for ref, oid in self.refs.items() if ref.startswith(folder)}

    def changed(self, pull):
        """Paths that a pull request adds, changes or deletes."""
        before, after = self.commits[pull.base].files, self.commits[self.refs[f"refs/pr/{pull.number}"]].files
        return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


@dataclass(frozen=True, slots=True)
class User:
    """An account with one token; ``orgs`` are organisations it may write to."""

    name: str
    token: str
    role: str = "write"  # of the token: "write" or "read"
    orgs: tuple[str, ...] = ()

    def may_read(self, owner):
        return owner in (self.name, *self.orgs)

    def may_write(self, owner):
        return self.role == "write" and self.may_read(owner)


# --- the Hub as a test sees it ----------------------------------------------------------------------------


@dataclass(slots=True)
class Plan:
    """What to do when a request of this method ("*": any) whose address matches arrives, ``times`` times."""

    method: str
    pattern: str
    times: int = 1
    after: int = 0  # so many pass before
    status: int = 0  # answer with this status
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    cuts: bool = False  # the connection ends after so many bytes of the request
    hangs: bool = False  # after so many bytes of the answer
    after_bytes: int = 0
    callback: Callable[[], object] | None = None

    def takes(self, method, address):
        """Whether the request is this plan's; counts it."""
        if self.method not in ("*", method) or not re.search(self.pattern, address) or self.times == 0:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.times -= 1
        return True


class Plans:
    """All that is planned for a server."""

    def __init__(self):
        self.plans = []
        self.lock = threading.Lock()

    def due(self, method, address):
        """The callbacks to run and the first fault (or None) for a request."""
        with self.lock:
            callbacks = [one.callback for one in self.plans if one.callback and one.takes(method, address)]
            faults = (one for one in self.plans if not one.callback and one.takes(method, address))
            return callbacks, next(faults, None)


class LocalHub:
    """A Hub at ``url`` while the ``with`` block runs. Nothing is shared between two of them."""

    def __init__(self):
        self.users = {}  # by token
        self.repositories = {}  # by kind and name
        self.large = {}  # large files that arrived, by sha256
        self.log = []  # method, path with its query, user
        self.broken = []  # tracebacks of faults of this server
        self.plans = Plans()
        self.lock = threading.RLock()
        self.closing = threading.Event()

    def __enter__(self):
        self.server = Server(self)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.closing.set()
        self.server.shutdown()
        self.thread.join()
        for connection in list(self.server.connections):
            end(connection)
        self.server.server_close()
        if self.broken and kind is None:
            raise RuntimeError("the local Hub broke:\n" + "\n".join(self.broken))

    def add_user(self, name, *, token, orgs=(), role="write"):
        self.users[token] = User(name, token, role, tuple(orgs))

    def add_repo(self, kind, name, *, files=None, private=False, sdk="", discussions=True, tags=()):
        """A repository with one commit of the given files, under the tags; returns the commit's name."""
        made = Repository(kind, name, private, sdk, discussions)
        commit = made.commit("refs/heads/main", stored(files or {}), "initial commit")
        made.refs.update({f"refs/tags/{tag}": commit.oid for tag in tags})
        self.repositories[kind, name] = made
        return commit.oid

    def push(self, kind, name, files, title="a change", *, delete=()):
        """A commit of somebody else to the main branch; returns its name."""
        with self.lock:
            repo = self.repositories[kind, name]
            parent = repo.commits[repo.refs["refs/heads/main"]]
            others = {path: file for path, file in parent.files.items() if path not in set(delete)}
            return repo.commit("refs/heads/main", others | stored(files), title, parent.oid).oid

    def remove_repo(self, kind, name):
        del self.repositories[kind, name]

    def close_pull_request(self, kind, name, number):
        self.repositories[kind, name].pulls[number - 1].status = "closed"

    def merge_pull_request(self, kind, name, number):
        repo = self.repositories[kind, name]
        pull, after = repo.pulls[number - 1], self.files(kind, name, revision=f"refs/pr/{number}")
        changed = repo.changed(pull)
        self.push(
            kind,
            name,
            {path: after[path] for path in changed if path in after},
            f"{pull.title} (#{number})",
            delete=changed,
        )
        pull.status = "merged"

    def fail(self, method, pattern, *, status=500, times=1, headers=None, body=b""):
        """Answer the next ``times`` (-1: all) matching requests with a status; ``body`` is bytes or becomes JSON."""
        plain = isinstance(body, bytes)
        sent = {**({} if plain else {"Content-Type": "application/json"}), **(headers or {})}
        content = body if plain else json.dumps(body).encode()
        self.plans.plans.append(Plan(method, pattern, times, status=status, headers=sent, content=content))

    def cut(self, method, pattern, *, times=1, after_bytes=0):
        """End the connection while a request is still being read, so that nothing happened."""
        self.plans.plans.append(Plan(method, pattern, times, cuts=True, after_bytes=after_bytes))

    def hang(self, method, pattern, *, after_bytes=0):
        """Answer nothing after ``after_bytes`` of an answer, and stay connected."""
        self.plans.plans.append(Plan(method, pattern, -1, hangs=True, after_bytes=after_bytes))

    def on(self, method, pattern, callback, *, times=1, after=0):
        """Run something when a matching request arrives, before it is handled."""
        self.plans.plans.append(Plan(method, pattern, times, after, callback=callback))

    def repo(self, kind, name):
        return self.repositories.get((kind, name))

    def files(self, kind, name, *, revision="main"):
        """Content by path at a revision."""
        commit = self.repositories[kind, name].resolve(revision)
        if commit is None:
            raise KeyError(f"{name} has no revision {revision}")
        return {path: file.data for path, file in sorted(commit.files.items())}

    def commits(self, kind, name):
        """Names and titles of commits of the main branch, newest first."""
        return [(commit.oid, commit.title) for commit in self.repositories[kind, name].history("main")]

    def tags(self, kind, name):
        """The commit of each tag."""
        return self.repositories[kind, name].named("refs/tags/")

    def pull_requests(self, kind, name):
        """Number, title, status, author and changed paths of each pull request."""
        repo = self.repositories[kind, name]
        return [(p.number, p.title, p.status, p.author, repo.changed(p)) for p in repo.pulls]


# --- answers ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``user`` is None for somebody who is not signed in."""

    method: str
    path: str  # as sent: percent-encoded
    query: dict[str, str]
    headers: Any
    body: bytes
    user: User | None

    def json(self):
        return json.loads(self.body or b"{}")

    def flag(self, name):
        return self.query.get(name, "").lower() in ("1", "true")


Answer = tuple[int, bytes, Mapping[str, str]]  # status, content, headers


class Refused(Exception):  # noqa: N818 - not an error of this server
    """The Hub says no, with the headers by which the clients tell refusals apart."""

    def __init__(self, status, message, code="", **headers):
        super().__init__(message)
        named = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {}), **headers}
        self.answer = as_json({"error": message}, status, **named)


def as_json(content, status=200, **headers):
    return status, json.dumps(content).encode(), {"Content-Type": "application/json; charset=utf-8", **headers}


def answer(hub, request):
    """The answer to a request; ``Refused`` where the Hub would refuse it."""
    method, path, signed_in = request.method, request.path, request.user
    if method == "GET" and path == "/api/whoami-v2":
        user = signed_in_user(request)
        orgs = [{"type": "org", "name": name, "fullname": name, "roleInOrg": "write"} for name in user.orgs]
        auth = {"type": "access_token", "accessToken": {"displayName": "test", "role": user.role}}
        return as_json({"type": "user", "name": user.name, "fullname": user.name, "orgs": orgs, "auth": auth})
    if method == "POST" and path == "/api/validate-yaml":
        errors = [{"message": one} for one in faults(request.json()["content"])]
        return as_json({"errors": errors, "warnings": []}, 400 if errors else 200)
    if method == "POST" and path == "/api/repos/create":
        return create(hub, request)
    if method == "PUT" and (found := re.fullmatch(r"/lfs/([0-9a-f]{64})", path)):
        if hashlib.sha256(request.body).hexdigest() != found[1]:
            raise Refused(400, "BadDigest: the content is not what was announced")
        hub.large[found[1]] = request.body
        return 200, b"", {"ETag": f'"{found[1]}"'}
    if method == "GET" and (found := re.fullmatch(r"/api/(models|datasets|spaces)", path)):
        author, kind = request.query.get("author"), KINDS[found[1]]
        rows = [
            info(repo, repo.commits[repo.refs["refs/heads/main"]])
            for (of_kind, _), repo in hub.repositories.items()
            if of_kind == kind and author in (None, repo.owner)
            if not repo.private or (signed_in and signed_in.may_read(repo.owner))
        ]
        return as_json(rows)
    if found := re.fullmatch(r"/(?:(datasets|spaces)/)?([^/]+/[^/]+?)\.git/info/lfs/objects/batch", path):
        visible(hub, request, found)
        if signed_in_user(request).role == "read":
            raise Refused(403, "Forbidden: this token is read-only")
        rows = request.json()["objects"]
        for one in rows:
            if one["oid"] not in hub.large:
                one["actions"] = {"upload": {"href": f"{hub.url}/lfs/{one['oid']}"}}
        return as_json({"transfer": "basic", "objects": rows})
    if found := re.fullmatch(r"/(?:(datasets|spaces)/)?([^/]+/[^/]+?)/resolve/([^/]+)/(.+)", path):
        return content(visible(hub, request, found), request, unquote(found[3]), unquote(found[4]))
    if found := re.fullmatch(
        r"/api/(models|datasets|spaces)/([^/]+/[^/]+?)(?:/([^/]*)(?:/([^/]+)(?:/(.+))?)?)?", path
    ):
        repo, revision = visible(hub, request, found), unquote(found[4] or "main")
        function = OF_REPO.get((method, found[3] or ""))
        if function:
            return function(hub, request, repo, revision)
    raise Refused(404, f"Sorry, no {method} at {path}.")


def signed_in_user(request):
    if request.user is None:
        raise Refused(401, "Invalid username or password.")
    return request.user


def visible(hub, request, found):
    """A repository this user may see. One they may not see answers like one that is not there."""
    repo, user = hub.repo(KINDS[found[1]], found[2]), request.user
    if repo is None or (repo.private and not (user and user.may_read(repo.owner))):
        if user is None:
            raise Refused(401, "Invalid username or password.", "RepoNotFound")
        raise Refused(404, "Repository not found", "RepoNotFound")
    return repo


def may_write(request, repo):
    """The user of a request that writes; anybody with a token that writes may open a pull request."""
    user = signed_in_user(request)
    if request.flag("create_pr"):
        if user.role == "read" or not repo.discussions:
            raise Refused(403, "Discussions are disabled for this repo")
    elif not user.may_write(repo.owner):
        raise Refused(403, "Forbidden: pass `create_pr=1` as a query parameter to create a Pull Request")
    return user


def at(repo, revision):
    commit = repo.resolve(revision)
    if commit is None:
        raise Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
    return commit


def create(hub, request):
    """A new repository with what the Hub puts there."""
    user, wanted = signed_in_user(request), request.json()
    kind, owner = wanted.get("type") or "model", wanted.get("organization") or user.name
    name = f"{owner}/{wanted['name']}"
    if not user.may_write(owner):
        raise Refused(403, f'You don\'t have the rights to create a {kind} under the namespace "{owner}"')
    url = f"{hub.url}/{PREFIXES[kind]}{name}"
    if hub.repo(kind, name) is not None:
        return as_json({"error": f"You already created this {kind} repo", "url": url}, 409)
    private, sdk = wanted.get("visibility") == "private" or bool(wanted.get("private")), wanted.get("sdk") or ""
    files = {".gitattributes": ATTRIBUTES, **(STATIC_SPACE if sdk == "static" else {})}
    hub.add_repo(kind, name, files=files, private=private, sdk=sdk)
    return as_json({"url": url, "name": name, "id": "x" * 24})


def header(readme):
    """The YAML header of a README; {} where there is none. ``yaml.YAMLError`` where it is broken."""
    found = FRONT.match(readme)
    try:
        return (yaml.safe_load(found[1]) or {}) if found else {}
    except RecursionError:
        raise yaml.YAMLError("nested too deep") from None


def faults(readme):
    """What the Hub refuses in the YAML header of a README, as sentences."""
    try:
        card = header(readme)
    except yaml.YAMLError as error:
        return [f"YAML metadata is broken: {' '.join(str(error).split())}"]
    if not isinstance(card, dict):
        return ["YAML metadata must be a mapping"]
    wrong = [] if isinstance(card.get("license", ""), str | list) else ['"license" must be a string']
    index = card.get("model-index", [])
    named = isinstance(index, list) and all(isinstance(one, dict) and "name" in one for one in index)
    return wrong + ([] if named else ['"model-index" must be a list of models with a "name"'])


def info(repo, commit):
    """A repository at a commit."""
    readme = commit.files["README.md"].data.decode(errors="replace") if "README.md" in commit.files else ""
    found = FRONT.match(readme)
    try:  # JSON would write out what a header repeats by reference
        repeats = (
            any(isinstance(one, yaml.AliasEvent) for one in yaml.parse(found[1], yaml.SafeLoader)) if found else 0
        )
        card = {} if repeats else header(readme)
    except yaml.YAMLError:
        card = {}
    card = card if isinstance(card, dict) else {}
    row = {
        "_id": "x" * 24, "id": repo.name, "author": repo.owner, "sha": commit.oid, "private": repo.private,
        "gated": False, "disabled": False, "downloads": 0, "likes": 0, "tags": card.get("tags") or [],
        "createdAt": commit.date, "lastModified": commit.date,
        "cardData": json.loads(json.dumps(card, default=str, skipkeys=True)),
        "siblings": [{"rfilename": path} for path in sorted(commit.files)],
    }  # fmt: skip
    row |= {"modelId": repo.name} if repo.kind == "model" else {}
    return row | ({"sdk": repo.sdk} if repo.sdk else {})


def tree(hub, request, repo, revision):
    """Files and folders below a folder; all levels with ``recursive``."""
    commit = at(repo, revision)
    folder = unquote(request.path.partition("/tree/")[2]).removeprefix(revision).strip("/")
    below = [path for path in sorted(commit.files) if not folder or path.startswith(f"{folder}/")]
    if folder and not below:
        raise Refused(404, f"{folder} does not exist on {revision}", "EntryNotFound")
    depth = len(PurePosixPath(folder).parts)
    folders = {str(parent) for path in below for parent in PurePosixPath(path).parents}
    names = [name for name in sorted({*below, *folders}) if len(PurePosixPath(name).parts) > depth]
    deep = request.flag("recursive")
    names = [name for name in names if deep or len(PurePosixPath(name).parts) == depth + 1]
    return as_json([entry(repo, commit, name, expand=request.flag("expand")) for name in names])


def paths_info(hub, request, repo, revision):
    """Files and folders by name; what is not there is left out."""
    commit, is_json = at(repo, revision), "json" in (request.headers.get("Content-Type") or "")
    wanted = request.json() if is_json else parse_qs(request.body.decode())
    expand = "true" in str(wanted.get("expand", "")).lower()
    paths = [path.strip("/") for path in wanted.get("paths", [])]
    there = [path for path in paths if any(name == path or name.startswith(f"{path}/") for name in commit.files)]
    return as_json([entry(repo, commit, path, expand=expand) for path in there])


def entry(repo, commit, path, *, expand):
    file = commit.files.get(path)
    row = {"type": "directory", "path": path, "oid": hashlib.sha1(path.encode()).hexdigest(), "size": 0}
    if file is not None:
        row |= {"type": "file", "oid": file.oid, "size": len(file.data)}
        if file.lfs:
            row["lfs"] = {"oid": file.sha256, "size": len(file.data), "pointerSize": len(file.pointer)}
    if expand:
        last = repo.last_change(commit, path)
        row["lastCommit"] = {"id": last.oid, "title": last.title, "date": last.date}
    return row


def refs(hub, request, repo, revision):
    """Branches and tags."""
    found = {
        kind: [{"name": n, "ref": folder + n, "targetCommit": oid} for n, oid in repo.named(folder).items()]
        for kind, folder in (("branches", "refs/heads/"), ("tags", "refs/tags/"))
    }
    return as_json({**found, "converts": [], "pullRequests": []})


def commits(hub, request, repo, revision):
    """The history of a revision, newest first."""
    rows = [
        {"id": one.oid, "title": one.title, "message": "", "date": one.date, "authors": [{"user": repo.owner}]}
        for one in repo.history(at(repo, revision).oid)
    ]
    return as_json(rows)


def content(repo, request, revision, path):
    """A file, or a part of it, with the headers from which clients name their cache."""
    commit = at(repo, revision)
    headers = {"X-Repo-Commit": commit.oid}
    file = commit.files.get(path)
    if file is None:
        raise Refused(404, "Entry not found", "EntryNotFound", **headers)
    etag, size = file.sha256 if file.lfs else file.oid, len(file.data)
    headers |= {"ETag": f'"{etag}"', "Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
    headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(size)} if file.lfs else {}
    if found := re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range") or ""):
        start, stop = int(found[1]), min(int(found[2] or size - 1) + 1, size)
        if start >= stop:
            return 416, b"", headers | {"Content-Range": f"bytes */{size}"}
        return 206, file.data[start:stop], headers | {"Content-Range": f"bytes {start}-{stop - 1}/{size}"}
    return 200, file.data, headers


def discussions(hub, request, repo, revision):
    """Pull requests, newest first."""
    if not repo.discussions:
        raise Refused(403, "Discussions are disabled for this repo")
    rows = [
        {
            "num": one.number, "title": one.title, "status": one.status, "isPullRequest": True,
            "author": {"name": one.author, "type": "user"}, "createdAt": "2026-01-01T00:00:00.000Z",
            "repo": {"name": repo.name, "type": repo.kind}, "changes": {"base": "refs/heads/main"},
        }
        for one in reversed(repo.pulls)
        if request.query.get("author") in (None, one.author)
    ]  # fmt: skip
    return as_json({"discussions": rows, "count": len(rows), "start": 0})


def preupload(hub, request, repo, revision):
    """How each file has to be sent, and what is there under its name now."""
    may_write(request, repo)
    commit, rows = at(repo, revision), []
    for one in request.json()["files"]:
        path, sample = one["path"], base64.b64decode(one.get("sample") or "")
        mode = "lfs" if is_large(path, one["size"], sample) else "regular"
        there = {"oid": commit.files[path].oid} if path in commit.files else {}
        rows.append({"path": path, "uploadMode": mode, "shouldIgnore": False, **there})
    return as_json({"files": rows, "commitOid": commit.oid})


def commit(hub, request, repo, revision):
    """One commit to a branch, or a new pull request: all of it or nothing."""
    user, opens = may_write(request, repo), request.flag("create_pr")
    lines = [json.loads(line) for line in request.body.splitlines() if line.strip()]
    head = next(line["value"] for line in lines if line["key"] == "header")
    base, parent = at(repo, revision), head.get("parentCommit") or ""
    if opens and parent:
        base = at(repo, parent)
    elif not base.oid.startswith(parent):
        raise Refused(412, "A commit has happened since. Please refresh and try again.")
    files = dict(base.files)
    for line in lines:
        apply(hub, files, line["key"], line["value"])
    readme = files.get("README.md", File(b""))
    if readme != base.files.get("README.md") and (wrong := faults(readme.data.decode(errors="replace"))):
        raise Refused(400, f"Invalid metadata in README.md: {'; '.join(wrong)}")
    row = {"success": True, "hookOutput": ""}
    ref = f"refs/heads/{revision}"
    if opens:
        pull = Pull(len(repo.pulls) + 1, head["summary"], user.name, base.oid)
        repo.pulls.append(pull)
        ref, row["pullRequestUrl"] = f"refs/pr/{pull.number}", f"{hub.url}{repo.address}/discussions/{pull.number}"
    made = repo.commit(ref, files, head["summary"], base.oid)
    return as_json({**row, "commitOid": made.oid, "commitUrl": f"{hub.url}{repo.address}/commit/{made.oid}"})


def apply(hub, files, key, value):
    """Carry out one line of a commit on ``files``."""
    if key == "header":
        return
    path = value["path"]
    if not set(path.split("/")).isdisjoint(("", ".", "..", ".git")):
        raise Refused(400, f"Invalid path: {path!r}")
    if key == "file":
        files[path] = File(base64.b64decode(value["content"], validate=True))
    elif key == "lfsFile" and value["oid"] in hub.large:
        files[path] = File(hub.large[value["oid"]], lfs=True)
    elif key != "deletedFile" or files.pop(path, None) is None:
        raise Refused(404, f"{path} has not arrived, or does not exist", "EntryNotFound")


def tag(hub, request, repo, revision):
    """A tag on a commit; a tag never moves."""
    may_write(request, repo)
    ref = f"refs/tags/{request.json()['tag']}"
    if ref in repo.refs:
        raise Refused(409, f"Reference already exists: {ref}")
    repo.refs[ref] = at(repo, revision).oid
    return as_json({})


def of_revision(hub, request, repo, revision):
    return as_json(info(repo, at(repo, revision)))


OF_REPO = {
    ("GET", ""): of_revision, ("GET", "revision"): of_revision, ("GET", "tree"): tree, ("GET", "refs"): refs,
    ("POST", "paths-info"): paths_info, ("GET", "commits"): commits, ("GET", "discussions"): discussions,
    ("POST", "preupload"): preupload, ("POST", "commit"): commit, ("POST", "tag"): tag,
}  # fmt: skip


# --- HTTP in and out --------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Serves one hub; closes what is still open when it stops."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, hub):
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub = hub
        self.connections = set()

    def handle_error(self, request, client_address):
        """Clients that go away are part of the plan."""


class Handler(BaseHTTPRequestHandler):
    """One connection: reads a request, plays the planned fault, writes the answer."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # head and content leave in one packet

    def setup(self):
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self):
        self.server.connections.discard(self.connection)
        super().finish()

    def log_message(self, format, *args):
        """Nothing on stderr."""

    def handle_request(self):
        hub, split = self.server.hub, urlsplit(self.path)
        address = unquote(split.path) + (f"?{unquote(split.query)}" if split.query else "")
        authorization = self.headers.get("Authorization") or ""
        user = hub.users.get(authorization.removeprefix("Bearer ").strip())
        hub.log.append((self.command, address, user.name if user else None))
        callbacks, fault = hub.plans.due(self.command, address)
        length = int(self.headers.get("Content-Length") or 0)
        if fault is not None and fault.cuts:
            self.rfile.read(min(fault.after_bytes, length))
            return self.drop()
        try:
            for callback in callbacks:
                callback()
            body = (
                self.chunks() if "chunked" in self.headers.get("Transfer-Encoding", "") else self.rfile.read(length)
            )
            if fault is not None and fault.hangs:
                return self.send_and_hang(fault)
            if len(body) < length:  # the client went away while it sent: nothing is carried out
                return self.drop()
            if fault is not None:
                return self.send(fault.status, fault.content, fault.headers)
            if authorization and user is None:  # wrong everywhere, also where no token is needed
                raise Refused(401, "Invalid credentials in Authorization header")
            request = Request(self.command, split.path, dict(parse_qsl(split.query)), self.headers, body, user)
            if request.method == "HEAD":
                request = Request("GET", *(getattr(request, name) for name in Request.__slots__[1:]))
            with hub.lock:
                made = answer(hub, request)
        except Refused as refused:
            made = refused.answer
        except Exception:  # noqa: BLE001 - a fault of this server has to show in the test that met it
            hub.broken.append(traceback.format_exc())
            made = as_json({"error": hub.broken[-1]}, 501)
        return self.send(*made)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_request  # noqa: N815 - the names http.server calls

    def chunks(self):
        whole = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def send(self, status, content, headers):
        self.send_response(status)
        sent = {"Content-Type": "text/plain; charset=utf-8", **headers, "Content-Length": str(len(content))}
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_and_hang(self, fault):
        """Some bytes of an answer, and nothing more until the server stops."""
        whole = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n" + b" " * 1000
        self.wfile.write(whole[: fault.after_bytes])
        self.wfile.flush()
        self.server.hub.closing.wait(3600.0)
        self.drop()

    def drop(self):
        end(self.connection)
        self.close_connection = True


def end(connection):
    """End a connection for both sides, whether or not the other side still is there."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
