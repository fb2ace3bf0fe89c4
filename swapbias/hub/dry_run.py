"""The Hub of a dry run, which needs neither a token nor a network."""

from swapbias.errors import HubError
from swapbias.hub.client import Hub
from swapbias.hub.push import Say
from swapbias.hub.repository import Repo, State

_AS_NEW = "What is on the Hub is not known, so everything is shown as new."


class DryHub(Hub):
    """The Hub as a dry run sees it: where it cannot be asked, nothing is there and the named owner is the user.

    Attributes:
        unreachable: whether it could not be read.
    """

    def __init__(self, hub: Hub, owner: str, *, say: Say) -> None:
        """Take over how a Hub is reached.

        Args:
            hub: the one that would be written to.
            owner: who stands before the slash of what would be written.
            say: gets a sentence where the Hub cannot be asked.
        """
        self._api = hub._api
        self._owner = owner
        self._say = say
        self.unreachable = False

    @property
    def user(self) -> str:
        """Name the user whose token it is, else the owner."""
        try:
            return super().user
        except HubError:
            return self._owner

    def owners(self) -> tuple[str, ...]:
        """List the user and the organisations of the token; without a token that may write only the owner."""
        try:
            return super().owners()
        except HubError as error:
            self._say(f"{error} This dry run continues without it, as if {self._owner} were yours.")
            return (self._owner,)

    def state(self, repo: Repo, *, revision: str = "main") -> State | None:
        """Read what a repository holds; None where it is not there or the Hub cannot be reached.

        Args:
            repo: the repository.
            revision: a branch, tag or commit of it.
        """
        if self.unreachable:
            return None
        try:
            return super().state(repo, revision=revision)
        except HubError as error:
            self.unreachable = True
            self._say(f"{error} {_AS_NEW}")
            return None
