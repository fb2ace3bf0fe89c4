"""Who may see and who may write what, and what they are told otherwise."""

from typing import TYPE_CHECKING

from .answers import Refused, Request
from .repositories import Commit, Repository

if TYPE_CHECKING:
    from .hub import LocalHub, User


def signed_in(request: Request) -> "User":
    """The user of a request."""
    if request.user is None:
        raise Refused(401, "Invalid username or password.")
    return request.user


def visible(hub: "LocalHub", request: Request, kind: str, name: str) -> Repository:
    """A repository this user may see. One they may not see answers like one that is not there."""
    repo = hub.repo(kind, name)
    user = request.user
    if repo is None or (repo.private and not (user and user.may_read(repo.owner))):
        if user is None:
            raise Refused(401, "Invalid username or password.", code="RepoNotFound")
        raise Refused(404, "Repository not found", code="RepoNotFound")
    return repo


def writable(request: Request, repo: Repository) -> "User":
    """The user of a request that writes to a repository."""
    user = signed_in(request)
    if not user.may_write(repo.owner):
        raise Refused(403, "Forbidden: pass `create_pr=1` as a query parameter to create a Pull Request")
    return user


def proposing(request: Request, repo: Repository) -> "User":
    """The user of a request that opens a pull request; anybody with a token that writes may."""
    user = signed_in(request)
    if user.role == "read":
        raise Refused(403, "Forbidden: this token cannot open a Pull Request")
    if not repo.discussions:
        raise Refused(403, "Discussions are disabled for this repo")
    return user


def at(repo: Repository, revision: str) -> Commit:
    """The commit of a revision."""
    commit = repo.resolve(revision)
    if commit is None:
        raise Refused(404, f"Invalid rev id: {revision}", code="RevisionNotFound")
    return commit
