"""What goes in and out of the local Hub: a request, an answer, and a refusal as the Hub words it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from .hub import User

JSON = "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """One request after its token was looked up; ``user`` is None for somebody who is not signed in."""

    method: str
    path: str  # as sent: percent-encoded
    query: dict[str, str]
    headers: Message
    body: bytes
    user: "User | None"

    def json(self) -> Any:
        """The body as JSON; an empty body is an empty object."""
        return json.loads(self.body or b"{}")

    def flag(self, name: str) -> bool:
        """Whether a query parameter is set to something true."""
        return self.query.get(name, "").lower() in ("1", "true")


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, content and headers of a response."""

    status: int = 200
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Refused(Exception):  # noqa: N818 - not an error of this server
    """The Hub says no: raised by a route, sent as an answer."""

    def __init__(
        self, status: int, message: str, *, code: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.headers = status, message, code, headers or {}

    def answer(self) -> Answer:
        """The answer with the headers by which the clients tell refusals apart."""
        headers = {"X-Error-Message": self.message, **self.headers}
        if self.code:
            headers["X-Error-Code"] = self.code
        return as_json({"error": self.message}, status=self.status, headers=headers)


def as_json(content: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """An answer that holds JSON."""
    return Answer(status, json.dumps(content).encode(), {"Content-Type": JSON, **(headers or {})})


def page(request: Request, rows: list[dict[str, Any]], *, size: int) -> Answer:
    """One page of rows as JSON, with a Link header where more follow (the cursor is a position)."""
    limit = min(size, int(request.query.get("limit") or size))
    start = int(request.query.get("cursor") or 0)
    headers = {}
    if start + limit < len(rows):
        following = urlencode({**request.query, "cursor": start + limit})
        headers["Link"] = f'<http://{request.headers["Host"]}{request.path}?{following}>; rel="next"'
    return as_json(rows[start : start + limit], headers=headers)
