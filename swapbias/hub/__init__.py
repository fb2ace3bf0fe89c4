"""The Hub: ``client`` is the only file that talks to it."""

from swapbias.hub.client import Commit, Hub, PullRequest, Repo, State
from swapbias.hub.files import Change, difference

__all__ = ["Change", "Commit", "Hub", "PullRequest", "Repo", "State", "difference"]
