"""Whether the package's sources are the release that a published metric is pinned to."""

import shutil
import subprocess
from pathlib import Path

from swapbias.errors import UsageError


def check_release(folder: Path, version: str) -> None:
    """The sources in a folder are those of the tag ``vVERSION``, unchanged.

    Raises:
        UsageError: they are not, or git cannot tell.
    """
    tag = f"v{version}"
    if shutil.which("git") is None or not _git(folder, "ls-files", "."):
        raise UsageError(
            f"{folder} is in no git repository that could tell whether {tag} is released. Push from a clone, or "
            "add --untagged."
        )
    if tag not in (_git(folder, "tag", "--points-at", "HEAD") or "").split():
        raise UsageError(
            f"The commit that is checked out has no tag {tag}, which the pages would name. Check out {tag}, tag "
            "the release, or add --untagged."
        )
    if _git(folder, "status", "--porcelain", "--untracked-files=no") != "":
        raise UsageError(
            f"The checkout has changes that {tag} has not. Commit them as a new version, or add --untagged."
        )


def _git(folder: Path, *arguments: str) -> str | None:
    """What git answers, None where it refuses."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None
