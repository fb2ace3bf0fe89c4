"""The metrics as static Spaces: an `evaluate` module that stands alone, its card, and a page made of the card."""

import ast
import doctest
import math
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from swapbias import __version__
from swapbias.errors import UsageError
from swapbias.hub import header
from swapbias.hub.card_page import found_in, page, split_card
from swapbias.hub.client import Hub, Repo
from swapbias.hub.dataset_card import SOURCE
from swapbias.hub.metric_modules import requirements, standing_alone
from swapbias.hub.push import Pushed, push_repo
from swapbias.studies import metric_path

NOT_A_RANKING = (
    "A measurement of one difference on the texts at hand: no ranking of models, no proof that a model is fair."
)
_RECIPE = "## From rows to a finding"  # the last section
_OUTPUT = re.compile(r"```text\n.*?```", re.DOTALL)


def push_metric(
    hub: Hub,
    name: str,
    *,
    namespace: str,
    private: bool = False,
    dry_run: bool = False,
    say: Callable[[str], None],
) -> Pushed:
    """Publish a metric as the static Space ``namespace/name``, tagged with the version of swapbias.

    Raises:
        UsageError, HubError: as ``push_repo``, and for an unknown metric. ValueError: a broken card.
    """
    return push_repo(
        hub,
        Repo("space", f"{namespace}/{name}"),
        space_files(name, namespace=namespace, version=__version__),
        tag=f"v{__version__}",
        message=f"{name} of swapbias {__version__}",
        private=private,
        sdk="static",
        dry_run=dry_run,
        raise_hint="raise the version of swapbias in pyproject.toml",
        say=say,
    )


def space_files(name: str, *, namespace: str, version: str) -> dict[str, bytes]:
    """The files of a metric's Space by path: its code, requirements, card and page, all of one release.

    The code computes without swapbias: what it reads of the package lies beside it.

    Raises:
        UsageError: unknown metric, or a namespace that cannot be one.
        ValueError: the card lacks a part, the module reads what is not shipped, or its own example does not hold.
    """
    repo = Repo("space", f"{namespace}/{name}")
    card = space_card(name, repo=repo, version=version)
    files = {
        **space_code(name, repo=repo, version=version),
        "requirements.txt": requirements(),
        "README.md": card,
        "index.html": page(card, name=name, version=version),
    }
    return {path: text.encode() for path, text in files.items()}


def space_code(name: str, *, repo: Repo, version: str) -> dict[str, str]:
    """The metric's module, its example loading from the Hub, and the modules that it reads, by file name.

    Raises:
        UsageError: unknown metric. ValueError: the module lacks the example's load, or reads what is not shipped.
    """
    source = (Path(metric_path(name)) / f"{name}.py").read_text(encoding="utf-8")
    source = _loading_from_hub(name, source, repo=repo, version=version)
    return standing_alone(name, source, origin=f"{SOURCE}/blob/v{version}")


def _loading_from_hub(name: str, text: str, *, repo: Repo, version: str) -> str:
    """The text with the load of the package's own metric turned into one from the Hub."""
    text = _swapped(name, text, "import evaluate, swapbias\n", "import evaluate\n")
    return _swapped(name, text, f'swapbias.metric_path("{name}")', f'"{repo.name}", revision="{version}"')


def worked_example(name: str) -> dict[str, Any]:
    """What a metric gives for the example in its own documentation, computed now.

    Raises:
        UsageError: unknown metric. ValueError: the example gives something else than it says.
    """
    text = _documentation(Path(metric_path(name)) / f"{name}.py")
    test = doctest.DocTestParser().get_doctest(text, {}, name, f"{name}.py", 0)
    output: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(test, out=output.append, clear_globs=False)
    if outcome.failed or "result" not in test.globs:
        raise ValueError(f"{name}.py: its example does not hold. {''.join(output).strip()}")
    return dict(test.globs["result"])


def _documentation(file: Path) -> str:
    """The text that evaluate shows for a module's inputs, read without importing the module."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_KWARGS_DESCRIPTION":
            return str(ast.literal_eval(node.value))
    raise ValueError(f"{file.name}: no _KWARGS_DESCRIPTION, which holds the example. Write one.")


def output_block(result: Mapping[str, float]) -> str:
    """A result as a fenced block, a key a line, five digits.

    >>> print(output_block({"value": 0.5, "n": 3.0}))
    ```text
    value  0.5
    n      3
    ```
    """
    wide = max(map(len, result))
    lines = [f"{key:<{wide}}  {'NaN' if math.isnan(value) else f'{value:.5g}'}" for key, value in result.items()]
    return "\n".join(["```text", *lines, "```"])


def space_card(name: str, *, repo: Repo, version: str) -> str:
    """The metric's own card with the load from the Hub, the example's output as it is now and the release.

    Raises:
        ValueError: the card lacks a part.
    """
    metadata, body = split_card((Path(metric_path(name)) / "README.md").read_text(encoding="utf-8-sig"))
    metadata |= {"sdk": "static", "app_file": "index.html", "license": "apache-2.0"}
    install = "```bash\npip install evaluate scipy\n```"
    body = _loading_from_hub(name, body, repo=repo, version=version)
    body = body.replace('"NS/', f'"{repo.name.partition("/")[0]}/').replace('"VERSION"', f'"{version}"')
    body = _swapped(name, body, "## How to use\n", f"## How to use\n\n{install}\n")
    body = _swapped(name, body, "## Limits\n", f"## Limits\n\n{NOT_A_RANKING}\n")
    body = _swapped(name, body, found_in(name, _OUTPUT, body), output_block(worked_example(name)))
    origin = f"Made from [metrics/{name}]({SOURCE}/tree/v{version}/metrics/{name}) of swapbias {version}."
    before, _, recipe = body.strip().partition(_RECIPE)
    return f"---\n{header.dump(metadata)}---\n\n{before}{origin}\n\n{_RECIPE}{recipe}\n"


def _swapped(name: str, text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        where = f"The card or module of {name}"
        raise ValueError(f"{where} has {text.count(old)} times {old.strip()!r}, expected once. Edit it.")
    return text.replace(old, new)


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
