"""Writing: upload modes, large-file storage, commits, tags and branches."""

import base64
import hashlib
import json
import secrets
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from .access import at, proposing, signed_in, writable
from .accounts import faults
from .answers import Answer, Refused, Request, as_json
from .repositories import Commit, File, Repository, Upload, ignored, is_large

if TYPE_CHECKING:
    from .hub import LocalHub, User

LFS = "application/vnd.git-lfs+json"


def preupload(hub: "LocalHub", request: Request, repo: Repository, revision: str) -> Answer:
    """How each file has to be sent, and what is there under its name now."""
    if request.flag("create_pr"):
        proposing(request, repo)
    else:
        _writer(request, repo, revision)
    asked, files = request.json(), at(repo, revision).files
    gitignore = asked.get("gitIgnore") or (files[".gitignore"].data.decode() if ".gitignore" in files else "")
    rows = []
    for file in asked["files"]:
        path = file["path"]
        large = is_large(path, file["size"], base64.b64decode(file.get("sample") or ""))
        mode = "lfs" if large else "regular"
        row = {"path": path, "uploadMode": mode, "shouldIgnore": ignored(path, gitignore)}
        rows.append(row | ({"oid": files[path].etag} if path in files else {}))
    return as_json({"files": rows, "commitOid": at(repo, revision).oid})


def _writer(request: Request, repo: Repository, revision: str) -> "User":
    """The user of a write to a revision; the author of a pull request may write to it while it is open."""
    number = revision.removeprefix("refs/pr/")
    if number == revision:
        return writable(request, repo)
    pull = repo.pull(int(number)) if number.isdigit() else None
    if pull is None:
        raise Refused(404, f"Invalid rev id: {revision}", code="RevisionNotFound")
    if pull.status in ("closed", "merged"):
        raise Refused(403, f"Pull request {number} is {pull.status}")
    user = signed_in(request)
    return user if user.name == pull.author and user.role != "read" else writable(request, repo)


def batch(hub: "LocalHub", request: Request, repo: Repository) -> Answer:
    """Where to send large files; nowhere for those that are there."""
    user = signed_in(request)
    if user.role == "read":
        raise Refused(403, "Forbidden: this token is read-only")
    rows = []
    for asked in request.json()["objects"]:
        oid, size = asked["oid"], asked["size"]
        row = {"oid": oid, "size": size}
        if _received(hub, repo, oid) is None:
            upload = hub.objects.setdefault((repo.kind, repo.name, oid), Upload(size))
            address = f"{hub.url}/lfs/{oid}"
            actions = {"upload": f"{address}?key={upload.key}", "verify": f"{address}/verify?key={upload.key}"}
            row["actions"] = {name: {"href": href} for name, href in actions.items()}
        rows.append(row)
    return as_json({"transfer": "basic", "objects": rows}, headers={"Content-Type": LFS})


def _received(hub: "LocalHub", repo: Repository, oid: str) -> bytes | None:
    upload = hub.objects.get((repo.kind, repo.name, oid))
    if upload is not None:
        return upload.data
    files = (file for commit in repo.commits.values() for file in commit.files.values())
    return next((file.data for file in files if file.lfs and file.sha256 == oid), None)


def _announced(hub: "LocalHub", request: Request, oid: str) -> Upload:
    for (_, _, name), upload in hub.objects.items():
        if name == oid and secrets.compare_digest(upload.key, request.query.get("key", "")):
            return upload
    raise Refused(403, "AccessDenied")


def receive(hub: "LocalHub", request: Request, oid: str) -> Answer:
    """Take a large file if its size and checksum are as announced."""
    upload = _announced(hub, request, oid)
    if len(request.body) != upload.size or hashlib.sha256(request.body).hexdigest() != oid:
        raise Refused(400, "BadDigest: the content is not what was announced")
    upload.data = request.body
    return Answer(200, b"", {"ETag": f'"{oid}"'})


def verify(hub: "LocalHub", request: Request, oid: str) -> Answer:
    """Whether a large file has arrived."""
    upload, asked = _announced(hub, request, oid), request.json()
    if upload.data is None or asked != {"oid": oid, "size": upload.size}:
        raise Refused(404, "The object has not arrived")
    return as_json({})


def commit(hub: "LocalHub", request: Request, repo: Repository, revision: str) -> Answer:
    """One commit to a branch or a pull request, or a new pull request: all of it or nothing."""
    opens = request.flag("create_pr")
    user = proposing(request, repo) if opens else _writer(request, repo, revision)
    base = at(repo, revision)
    lines = [json.loads(line) for line in request.body.splitlines() if line.strip()]
    told = next((line["value"] for line in lines if line["key"] == "header"), None)
    if told is None:
        raise Refused(400, "The commit has no header")
    if parent := told.get("parentCommit"):
        if opens:
            base = at(repo, parent)
        elif not base.oid.startswith(parent):
            raise Refused(412, "A commit has happened since. Please refresh and try again.")
    files = dict(base.files)
    for line in lines:
        _apply(hub, repo, files, line["key"], line["value"])
    _check_readme(base.files, files)
    words = {"title": told["summary"], "author": user.name, "description": told.get("description") or ""}
    content = {"success": True, "hookOutput": ""}
    if opens:
        pull, made = repo.open_pull(base, files, **words)
        content["pullRequestUrl"] = f"{hub.url}{repo.address}/discussions/{pull.number}"
    else:
        ref = revision if revision.startswith("refs/") else f"refs/heads/{revision}"
        if ref not in repo.refs:
            raise Refused(400, f"{revision} is not a branch")
        made = repo.commit(ref, files, parent=base.oid, **words)
    url = f"{hub.url}{repo.address}/commit/{made.oid}"
    return as_json(content | {"commitOid": made.oid, "commitUrl": url})


def _apply(hub: "LocalHub", repo: Repository, files: dict[str, File], key: str, value: dict[str, Any]) -> None:
    """Carry out one line of a commit on ``files``."""
    if key == "header":
        return
    path = value["path"]
    if not set(path.rstrip("/").split("/")).isdisjoint(("", ".", "..", ".git")):
        raise Refused(400, f"Invalid path: {path!r}")
    if key == "file":
        files[path] = File(base64.b64decode(value["content"], validate=True))
        if is_large(path, len(files[path].data), b"") and files[path].data:
            raise Refused(400, f"{path} has to be stored as a large file")
    elif key == "lfsFile":
        data = _received(hub, repo, value["oid"])
        if data is None:
            raise Refused(400, f"The large file {path} has not arrived")
        files[path] = File(data, lfs=True)
    elif key == "deletedFile":
        if files.pop(path, None) is None:
            raise Refused(404, f"A file with the name {path} does not exist", code="EntryNotFound")
    elif key == "deletedFolder":
        inside = [name for name in files if PurePosixPath(name).is_relative_to(path)]
        if not inside:
            raise Refused(404, f"A folder with the name {path} does not exist", code="EntryNotFound")
        for name in inside:
            del files[name]
    else:
        raise Refused(400, f"Unknown operation {key!r}")


def _check_readme(before: dict[str, File], after: dict[str, File]) -> None:
    readme = after.get("README.md")
    if readme is None or readme == before.get("README.md"):
        return
    if wrong := faults(readme.data.decode(errors="replace")):
        raise Refused(400, f"Invalid metadata in README.md: {'; '.join(wrong)}")


def tag(hub: "LocalHub", request: Request, repo: Repository, revision: str) -> Answer:
    """A tag on a commit; a tag never moves."""
    writable(request, repo)
    ref = f"refs/tags/{request.json()['tag']}"
    commit = at(repo, revision)
    return _new_ref(repo, ref, commit)


def _new_ref(repo: Repository, ref: str, commit: Commit) -> Answer:
    if ref in repo.refs:
        raise Refused(409, f"Reference already exists: {ref}")
    repo.refs[ref] = commit.oid
    return as_json({})
