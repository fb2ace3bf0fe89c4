"""Pull requests as the Hub lists and shows them."""

from typing import TYPE_CHECKING, Any

from .answers import Answer, Refused, Request, as_json
from .repositories import Pull, Repository

if TYPE_CHECKING:
    from .hub import LocalHub

STATUSES = {"all": ("draft", "open", "closed", "merged"), "open": ("draft", "open"), "closed": ("closed", "merged")}


def listing(hub: "LocalHub", request: Request, repo: Repository) -> Answer:
    """One page of pull requests, newest first, by status, author and type."""
    if not repo.discussions:
        raise Refused(403, "Discussions are disabled for this repo")
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
