"""Collections: named lists of repositories."""

import hashlib
import re
from typing import TYPE_CHECKING, Any

from .access import signed_in, visible
from .answers import Answer, Refused, Request, as_json

if TYPE_CHECKING:
    from .hub import LocalHub

LONGEST = 150  # characters of a description


def create(hub: "LocalHub", request: Request) -> Answer:
    """A new collection; one of the same title in the namespace clashes, and its slug is told."""
    user, asked = signed_in(request), request.json()
    title, owner = asked["title"], asked["namespace"]
    if not user.may_write(owner):
        raise Refused(403, f'You don\'t have the rights to create a collection under the namespace "{owner}"')
    if not title or len(asked.get("description", "")) > LONGEST:
        raise Refused(400, "Invalid title or description")
    plain = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    slug = f"{owner}/{plain}-{hashlib.sha256(f'{owner}/{title}'.encode()).hexdigest()[:24]}"
    if slug in hub.collections:
        return as_json({"error": "This collection already exists", "slug": slug}, status=409)
    hub.collections[slug] = {
        "slug": slug, "title": title, "owner": owner, "items": [], "lastUpdated": "2026-01-01T00:00:00.000Z",
        "position": 0, "private": asked["private"], "theme": "green", "upvotes": 0,
        "description": asked.get("description", ""),
    }  # fmt: skip
    return as_json(hub.collections[slug])


def read(hub: "LocalHub", request: Request, slug: str) -> Answer:
    """A collection with its items."""
    return as_json(_there(hub, request, slug))


def add(hub: "LocalHub", request: Request, slug: str) -> Answer:
    """One more item, which must be a repository that the user sees."""
    found, item = _there(hub, request, slug), request.json()["item"]
    if not signed_in(request).may_write(found["owner"]):
        raise Refused(403, "Forbidden")
    visible(hub, request, item["type"], item["id"])
    if any((one["id"], one["type"]) == (item["id"], item["type"]) for one in found["items"]):
        raise Refused(409, "This item is in the collection already")
    place = len(found["items"])
    found["items"].append({"_id": f"{place:024d}", **item, "position": place})
    return as_json(found)


def _there(hub: "LocalHub", request: Request, slug: str) -> dict[str, Any]:
    found = hub.collections.get(slug)
    if found is None or (found["private"] and not (request.user and request.user.may_read(found["owner"]))):
        raise Refused(404, "Collection not found")
    return found
