"""The two kinds of trouble a user can cause; everything else is a bug."""


class UsageError(ValueError):
    """The command or call cannot be meant as given (unknown name, model that does not fit): exit code 2."""


class UpstreamMissingError(ValueError):
    """A file that the package reads from a study's own repository is not reachable."""


class HubError(ValueError):
    """The Hub refused, could not be reached, or holds something that cannot be read."""
