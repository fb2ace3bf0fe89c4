"""Who is asking, and making, hiding and removing repositories."""

import re
from typing import TYPE_CHECKING, Any

import yaml

from .access import signed_in
from .answers import Answer, Refused, Request, as_json
from .repositories import Repository, stored

if TYPE_CHECKING:
    from .hub import LocalHub

# What the Hub itself puts into a new repository.
ATTRIBUTES = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n*.png filter=lfs diff=lfs merge=lfs -text\n"
STATIC_SPACE = {
    "README.md": b"---\ntitle: New\nsdk: static\n---\n",
    "index.html": b"<!doctype html>\n<p>Welcome\n",
    "style.css": b"body { padding: 2rem; }\n",
}
FRONT = re.compile(r"\A\ufeff?\s*---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)


def whoami(hub: "LocalHub", request: Request) -> Answer:
    """The account of the token, its organisations and its role."""
    user = signed_in(request)
    access: dict[str, Any] = {"displayName": "test", "role": user.role}
    orgs = [{"type": "org", "name": name, "fullname": name, "roleInOrg": role} for name, role in user.orgs.items()]
    auth = {"type": "access_token", "accessToken": access}
    return as_json({"type": "user", "name": user.name, "fullname": user.name, "orgs": orgs, "auth": auth})


def create(hub: "LocalHub", request: Request) -> Answer:
    """A new repository with what the Hub puts there."""
    user, asked = signed_in(request), request.json()
    kind, owner = asked.get("type") or "model", asked.get("organization") or user.name
    name = f"{owner}/{asked['name']}"
    if not user.may_write(owner):
        told = f'You don\'t have the rights to create a {kind} under the namespace "{owner}"'
        raise Refused(403, told)
    if (there := hub.repo(kind, name)) is not None:
        url = hub.url + there.address
        return as_json({"error": f"You already created this {kind} repo", "url": url}, status=409)
    private = asked.get("visibility") == "private" or bool(asked.get("private"))
    made = Repository(kind, name, private=private, sdk=asked.get("sdk") or "")
    files = {".gitattributes": ATTRIBUTES, **(STATIC_SPACE if made.sdk == "static" else {})}
    state = {path: stored(path, data) for path, data in files.items()}
    made.commit("refs/heads/main", state, title="initial commit", author=user.name)
    hub.repositories[kind, name] = made
    return as_json({"url": hub.url + made.address, "name": name, "id": made.refs["refs/heads/main"][:24]})


def validate_yaml(hub: "LocalHub", request: Request) -> Answer:
    """What is wrong with the YAML header of a README."""
    content = request.json()["content"]
    errors = [{"message": told} for told in faults(content)]
    missing = {"message": "empty or missing yaml metadata in repo card"}
    warnings = [] if errors or header(content) else [missing]
    return as_json({"errors": errors, "warnings": warnings}, status=400 if errors else 200)


def header(content: str) -> Any:
    """The YAML header of a README as read; {} where there is none. `yaml.YAMLError` where it is broken."""
    found = FRONT.match(content)
    try:
        return (yaml.safe_load(found[1]) or {}) if found else {}
    except RecursionError:
        raise yaml.YAMLError("nested too deep") from None


def faults(content: str) -> list[str]:
    """What the Hub refuses in the YAML header of a README, as sentences."""
    try:
        card = header(content)
    except yaml.YAMLError as error:
        return [f"YAML metadata is broken: {' '.join(str(error).split())}"]
    if not isinstance(card, dict):
        return ["YAML metadata must be a mapping"]
    told = [f'"{name}" must be a string' for name in ("license",) if not isinstance(card.get(name, ""), str | list)]
    index = card.get("model-index", [])
    if not isinstance(index, list) or not all(isinstance(entry, dict) and "name" in entry for entry in index):
        return [*told, '"model-index" must be a list of models with a "name"']
    return told + [
        fault for entry in index for result in entry.get("results", []) for fault in _result_faults(result)
    ]


def _result_faults(result: dict[str, Any]) -> list[str]:
    wanted = {"task": ("type",), "dataset": ("type", "name")}
    told = [
        f'"model-index[0].results[0].{part}.{name}" is required'
        for part, names in wanted.items()
        for name in names
        if not isinstance(result.get(part), dict) or not result[part].get(name)
    ]
    metrics = result.get("metrics", [])
    if any(not isinstance(metric, dict) or "type" not in metric or "value" not in metric for metric in metrics):
        told.append('"model-index[0].results[0].metrics" need a "type" and a "value"')
    return told
