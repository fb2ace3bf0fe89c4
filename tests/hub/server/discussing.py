"""Pull requests as the Hub lists and shows them."""

import difflib
from typing import TYPE_CHECKING, Any

from .access import signed_in, writable
from .answers import Answer, Refused, Request, as_json
from .repositories import Pull, Repository

if TYPE_CHECKING:
    from .hub import LocalHub

STATUSES = {"all": ("draft", "open", "closed", "merged"), "open": ("draft", "open"), "closed": ("closed", "merged")}


def listing(hub: "LocalHub", request: Request, repo: Repository) -> Answer:
    """One page of pull requests, newest first, by status, author and type."""
    _enabled(repo)
    statuses = STATUSES[request.query.get("status", "all")]
    author, wanted = request.query.get("author"), request.query.get("type", "all")
    rows = [
        _row(hub, repo, pull)
        for pull in reversed(repo.pulls)
        if pull.status in statuses and author in (None, pull.author) and wanted != "discussion"
    ]
    size = min(hub.page_size, 50)
    start = int(request.query.get("p", 0)) * size
    return as_json({"discussions": rows[start : start + size], "count": len(rows), "start": start})


def detail(hub: "LocalHub", request: Request, repo: Repository, number: str) -> Answer:
    """A pull request with its commits and its difference."""
    _enabled(repo)
    pull = _there(repo, number)
    commits = [commit for commit in repo.history(pull.ref) if commit.oid not in _ancestry(repo, pull.base)]
    events = [
        _event(commit.oid[:12], "commit", commit.author, commit.date, {"subject": commit.title, "oid": commit.oid})
        for commit in reversed(commits)
    ]
    told = {"edited": False, "hidden": False, "latest": {"raw": pull.description, "html": ""}}
    first = _event(f"{pull.number:012d}", "comment", pull.author, pull.date, told)
    content = _row(hub, repo, pull) | {"events": [first, *events], "filesWithConflicts": []}
    if request.flag("diff"):
        content["diff"] = _difference(repo, pull)
    return as_json(content)


def change(hub: "LocalHub", request: Request, repo: Repository, number: str, what: str) -> Answer:
    """Close, open again, merge or comment."""
    _enabled(repo)
    pull, user = _there(repo, number), signed_in(request)
    if what == "comment":
        told = {"edited": False, "hidden": False, "latest": {"raw": request.json()["comment"], "html": ""}}
        return as_json({"newMessage": _event("c" * 12, "comment", user.name, pull.date, told)})
    if what == "merge":
        writable(request, repo)
        repo.merge(pull, author=user.name)
        return as_json({})
    if user.name != pull.author:
        writable(request, repo)
    pull.status = request.json()["status"]
    return as_json({"newStatus": _event("d" * 12, "status-change", user.name, pull.date, {"status": pull.status})})


def _enabled(repo: Repository) -> None:
    if not repo.discussions:
        raise Refused(403, "Discussions are disabled for this repo")


def _there(repo: Repository, number: str) -> Pull:
    pull = repo.pull(int(number))
    if pull is None:
        raise Refused(404, "Discussion not found")
    return pull


def _ancestry(repo: Repository, oid: str) -> set[str]:
    return {commit.oid for commit in repo.history(oid)}


def _row(hub: "LocalHub", repo: Repository, pull: Pull) -> dict[str, Any]:
    changes = {"base": "refs/heads/main", **({"mergeCommitId": pull.merged} if pull.merged else {})}
    return {
        "num": pull.number,
        "title": pull.title,
        "status": pull.status,
        "isPullRequest": True,
        "author": {"name": pull.author, "type": "user"},
        "createdAt": pull.date,
        "repo": {"name": repo.name, "type": repo.kind},
        "changes": changes,
    }


def _event(name: str, kind: str, author: str, date: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "type": kind, "createdAt": date, "author": {"name": author}, "data": data}


def _difference(repo: Repository, pull: Pull) -> str:
    before, after = repo.commits[pull.base].files, repo.head(pull.ref).files
    lines = []
    for path in repo.changed(pull):
        old, new = (files[path].data.decode(errors="replace") if path in files else "" for files in (before, after))
        lines += [f"diff --git a/{path} b/{path}\n"]
        lines += difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{path}", f"b/{path}")
    return "".join(lines)
