"""Planned trouble: refusals, cut connections and things that happen in between."""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Plan:
    """What to do when a request of this method ("*": any) whose address matches arrives.

    The pattern is searched in the decoded path with its query. Two requests may arrive at once, so the counting is
    under the lock of `Plans`.
    """

    method: str
    pattern: str
    times: int = 1
    after: int = 0
    status: int = 0  # answer with this status
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""
    cut: str = ""  # "request" or "answer": where the connection ends
    after_bytes: int = 0
    hangs: bool = False  # after so many bytes of the answer
    callback: Callable[[], object] | None = None

    def takes(self, method: str, address: str) -> bool:
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

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.lock = threading.Lock()

    def add(self, plan: Plan) -> None:
        with self.lock:
            self.plans.append(plan)

    def due(self, method: str, address: str) -> tuple[list[Callable[[], object]], Plan | None]:
        """The callbacks to run and the first fault (or None) for a request."""
        with self.lock:
            callbacks = [plan.callback for plan in self.plans if plan.callback and plan.takes(method, address)]
            faults = (plan for plan in self.plans if not plan.callback and plan.takes(method, address))
            return callbacks, next(faults, None)
