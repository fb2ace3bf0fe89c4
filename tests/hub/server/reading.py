"""What a repository holds: information, listings, refs, history and content."""

import hashlib
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import yaml

from .access import at, visible
from .accounts import FRONT, header
from .answers import Answer, Refused, Request, as_json, page
from .repositories import Commit, Repository

if TYPE_CHECKING:
    from .hub import LocalHub


def listing(hub: "LocalHub", request: Request, kind: str) -> Answer:
    """Repositories of a kind (of an author) that the user may see."""
    rows = []
    for (of_kind, name), repo in hub.repositories.items():
        if of_kind != kind or request.query.get("author", repo.owner) != repo.owner:
            continue
        if request.query.get("search", "").lower() not in name.lower():
            continue
        try:
            rows.append(_info(visible(hub, request, kind, name), repo.head()))
        except Refused:
            continue
    return page(request, rows, size=hub.page_size)


def info(hub: "LocalHub", request: Request, repo: Repository, revision: str = "main") -> Answer:
    """A repository at a revision."""
    return as_json(_info(repo, at(repo, revision)))


def _written_out(readme: str) -> str:
    """A README whose header repeats nothing by reference; else none, since JSON would write every repetition out."""
    found = FRONT.match(readme)
    events = yaml.parse(found[1], Loader=yaml.SafeLoader) if found else ()
    return "" if any(isinstance(one, yaml.AliasEvent) for one in events) else readme


def _info(repo: Repository, commit: Commit) -> dict[str, Any]:
    readme = commit.files.get("README.md")
    try:
        card = header(_written_out(readme.data.decode(errors="replace"))) if readme else {}
    except yaml.YAMLError:
        card = {}
    card = card if isinstance(card, dict) else {}
    row = {
        "_id": hashlib.sha256(repo.name.encode()).hexdigest()[:24],
        "id": repo.name,
        "author": repo.owner,
        "sha": commit.oid,
        "private": repo.private,
        "gated": False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": card.get("tags") or [],
        "createdAt": commit.date,
        "lastModified": commit.date,
        "cardData": _plain(card),
        "siblings": [{"rfilename": path} for path in sorted(commit.files)],
    }
    row |= {"modelId": repo.name} if repo.kind == "model" else {}
    return row | ({"sdk": repo.sdk} if repo.sdk else {})


def _plain(value: Any) -> Any:
    """YAML as JSON can hold it: dates become text."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def tree(hub: "LocalHub", request: Request, repo: Repository, revision: str, folder: str = "") -> Answer:
    """Files and folders below a folder; all levels with ``recursive``."""
    commit, folder = at(repo, revision), folder.strip("/")
    below = [path for path in sorted(commit.files) if not folder or path.startswith(f"{folder}/")]
    if folder and not below:
        raise Refused(404, f"{folder} does not exist on {revision}", code="EntryNotFound")
    deep, depth = request.flag("recursive"), len(PurePosixPath(folder).parts)
    folders = {str(parent) for path in below for parent in PurePosixPath(path).parents}
    names = [name for name in {*below, *folders} if len(PurePosixPath(name).parts) > depth]
    rows = [_entry(repo, commit, name, expand=request.flag("expand")) for name in sorted(names)]
    shown = [row for row in rows if deep or len(PurePosixPath(row["path"]).parts) == depth + 1]
    return page(request, shown, size=hub.page_size)


def paths_info(hub: "LocalHub", request: Request, repo: Repository, revision: str) -> Answer:
    """Files and folders by name; what is not there is left out."""
    commit = at(repo, revision)
    is_json = "json" in (request.headers.get("Content-Type") or "")
    asked = request.json() if is_json else parse_qs(request.body.decode())
    expand = str(asked.get("expand", [""])).lower().find("true") >= 0
    paths = [path.strip("/") for path in asked.get("paths", [])]
    there = [path for path in paths if any(name == path or name.startswith(f"{path}/") for name in commit.files)]
    return as_json([_entry(repo, commit, path, expand=expand) for path in there])


def _entry(repo: Repository, commit: Commit, path: str, *, expand: bool) -> dict[str, Any]:
    file = commit.files.get(path)
    row = {"type": "directory", "path": path, "oid": hashlib.sha1(path.encode()).hexdigest(), "size": 0}
    if file is not None:
        row |= {"type": "file", "oid": file.oid, "size": len(file.data)}
        if file.lfs:
            row["lfs"] = {"oid": file.sha256, "size": len(file.data), "pointerSize": len(file.pointer)}
    if expand:
        row["lastCommit"] = {"id": commit.oid, "title": commit.title, "date": commit.date}
    return row


def refs(hub: "LocalHub", request: Request, repo: Repository) -> Answer:
    """Branches, tags and (if asked for) pull requests."""

    def under(folder: str, prefix: str) -> list[dict[str, str]]:
        named = repo.named(folder).items()
        return [{"name": prefix + name, "ref": folder + name, "targetCommit": oid} for name, oid in named]

    pulls = under("refs/pr/", "pr/") if request.flag("include_prs") else []
    found = {"branches": under("refs/heads/", ""), "tags": under("refs/tags/", ""), "converts": []}
    return as_json({**found, "pullRequests": pulls})


def commits(hub: "LocalHub", request: Request, repo: Repository, revision: str) -> Answer:
    """The history of a revision, newest first."""
    at(repo, revision)
    rows = [
        {
            "id": commit.oid,
            "title": commit.title,
            "message": commit.description,
            "date": commit.date,
            "authors": [{"user": commit.author}],
        }
        for commit in repo.history(revision)
    ]
    return page(request, rows, size=hub.page_size)


def content(hub: "LocalHub", request: Request, repo: Repository, revision: str, path: str) -> Answer:
    """A file, or a part of it, with the headers from which clients name their cache."""
    commit = at(repo, revision)
    headers = {"X-Repo-Commit": commit.oid}
    file = commit.files.get(path)
    if file is None:
        raise Refused(404, "Entry not found", code="EntryNotFound", headers=headers)
    headers |= {"ETag": f'"{file.etag}"', "Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
    if file.lfs:
        headers |= {"X-Linked-Etag": f'"{file.sha256}"', "X-Linked-Size": str(len(file.data))}
    if found := re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("Range") or ""):
        return _part(file.data, found[1], found[2], headers)
    return Answer(200, file.data, headers)


def _part(data: bytes, first: str, last: str, headers: dict[str, str]) -> Answer:
    size = len(data)
    start = int(first) if first else max(size - int(last or 0), 0)
    stop = min(int(last) + 1, size) if first and last else size
    if start >= size or start >= stop:
        return Answer(416, b"", headers | {"Content-Range": f"bytes */{size}"})
    return Answer(206, data[start:stop], headers | {"Content-Range": f"bytes {start}-{stop - 1}/{size}"})
