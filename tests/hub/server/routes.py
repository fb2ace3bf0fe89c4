"""Which function answers which address."""

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from . import accounts, committing, discussing, reading
from .access import visible
from .answers import Answer, Refused, Request
from .repositories import Repository

if TYPE_CHECKING:
    from .hub import LocalHub

KINDS = {"models": "model", "datasets": "dataset", "spaces": "space", None: "model"}
NAME = r"([^/]+/[^/]+?)"

# Without a repository: method, address, function(hub, request, *groups).
PLAIN = (
    ("GET", r"/api/whoami-v2", accounts.whoami),
    ("POST", r"/api/validate-yaml", accounts.validate_yaml),
    ("POST", r"/api/repos/create", accounts.create),
    ("PUT", r"/lfs/([0-9a-f]{64})", committing.receive),
    ("POST", r"/lfs/([0-9a-f]{64})/verify", committing.verify),
)

# Below /api/<kind>s/<owner>/<name>/: method, the rest, function(hub, request, repo, *groups).
OF_REPO = (
    ("GET", r"", reading.info),
    ("GET", r"revision/([^/]+)", reading.info),
    ("GET", r"tree/([^/]+)(?:/(.+))?", reading.tree),
    ("POST", r"paths-info/([^/]+)", reading.paths_info),
    ("GET", r"refs", reading.refs),
    ("GET", r"commits/([^/]+)", reading.commits),
    ("POST", r"preupload/([^/]+)", committing.preupload),
    ("POST", r"commit/([^/]+)", committing.commit),
    ("POST", r"tag/([^/]+)", committing.tag),
    ("GET", r"discussions", discussing.listing),
)


def route(hub: "LocalHub", request: Request) -> Answer:
    """The answer to a request; `Refused` where the Hub would refuse it."""
    for method, pattern, function in PLAIN:
        if method == request.method and (found := re.fullmatch(pattern, request.path)):
            return function(hub, request, *found.groups())
    if found := re.fullmatch(rf"/(?:(datasets|spaces)/)?{NAME}\.git/info/lfs/objects/batch", request.path):
        return committing.batch(hub, request, visible(hub, request, KINDS[found[1]], found[2]))
    if found := re.fullmatch(rf"/(?:(datasets|spaces)/)?{NAME}/resolve/([^/]+)/(.+)", request.path):
        repo = visible(hub, request, KINDS[found[1]], found[2])
        return reading.content(hub, request, repo, unquote(found[3]), unquote(found[4]))
    if found := re.fullmatch(r"/api/(models|datasets|spaces)", request.path):
        return reading.listing(hub, request, KINDS[found[1]])
    if found := re.fullmatch(rf"/api/(models|datasets|spaces)/{NAME}(?:/(.*))?", request.path):
        return _of_repo(hub, request, visible(hub, request, KINDS[found[1]], found[2]), found[3] or "")
    raise Refused(404, f"Sorry, no {request.method} at {request.path}.")


def _of_repo(hub: "LocalHub", request: Request, repo: Repository, rest: str) -> Answer:
    for method, pattern, function in OF_REPO:
        if method == request.method and (found := re.fullmatch(pattern, rest)):
            groups = (unquote(group) if group else "" for group in found.groups())
            return function(hub, request, repo, *groups)
    raise Refused(404, f"Sorry, no {request.method} at {request.path}.")
