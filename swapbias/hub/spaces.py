"""The metrics as static Spaces: the `evaluate` module pinned to a release, its card, and a page made of the card."""

import ast
import doctest
import math
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from swapbias import __version__
from swapbias.errors import UsageError
from swapbias.hub import header
from swapbias.hub.client import Hub, Repo
from swapbias.hub.dataset_card import SOURCE
from swapbias.hub.push import Pushed, push_repo
from swapbias.report import environment
from swapbias.studies import metric_path

ANCHORS = "Anchor values"  # the section of a card that the number line is drawn from
NOT_A_RANKING = (
    "A measurement of one difference on the texts at hand: no ranking of models, no proof that a model is fair."
)
_WIDTH, _MARGIN = 420, 8  # of the number line
_ANCHOR = re.compile(r"^\| *(\*\*)?(-?[\d.]+)(?:\*\*)? *\| *([^:|]+)", re.MULTILINE)
_RECIPE = "## From rows to a finding"  # the last section
_AXIS = re.compile(r"^\| *([^|]+?) *\|[^\n]*\n\| *-", re.MULTILINE)
_OUTPUT = re.compile(r"```text\n.*?```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Mark:
    """A value on the number line; ``fair`` is the one in bold, ``x`` its place in the drawing."""

    value: str
    label: str
    x: float
    fair: bool


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: its heading and what stands below, rendered."""

    title: str
    body: Markup


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
    """The files of a metric's Space by path: module, requirements, card and page, all of one release.

    Raises:
        UsageError: unknown metric, or a namespace that cannot be one.
        ValueError: the card lacks a part, or the module's own example does not hold.
    """
    repo = Repo("space", f"{namespace}/{name}")
    release = f"git+{SOURCE}@v{version}"
    card = space_card(name, repo=repo, version=version)
    files = {
        f"{name}.py": space_module(name, repo=repo, version=version),
        "requirements.txt": f"{release}\n",
        "README.md": card,
        "index.html": page(card, name=name, version=version),
    }
    return {path: text.encode() for path, text in files.items()}


def space_module(name: str, *, repo: Repo, version: str) -> str:
    """The metric's module with its import pinned to the release and its example loading from the Hub.

    Raises:
        UsageError: unknown metric. ValueError: the module lacks the pin or the example's load.
    """
    source = (Path(metric_path(name)) / f"{name}.py").read_text(encoding="utf-8")
    release = f"git+{SOURCE}@v{version}"
    module = re.sub(rf"# From: git\+{re.escape(SOURCE)}$", f"# From: {release}", source, flags=re.MULTILINE)
    if release not in module:
        raise ValueError(f"{name}.py: no import ends in '# From: git+{SOURCE}'. evaluate needs one: add it.")
    return _loading_from_hub(name, module, repo=repo, version=version)


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
    install = f'```bash\npip install "swapbias @ git+{SOURCE}@v{version}"\n```'
    body = _loading_from_hub(name, body, repo=repo, version=version)
    body = body.replace('"NS/', f'"{repo.name.partition("/")[0]}/').replace('"VERSION"', f'"{version}"')
    body = _swapped(name, body, "## How to use\n", f"## How to use\n\n{install}\n")
    body = _swapped(name, body, "## Limits\n", f"## Limits\n\n{NOT_A_RANKING}\n")
    body = _swapped(name, body, _found(name, _OUTPUT, body), output_block(worked_example(name)))
    origin = f"Made from [metrics/{name}]({SOURCE}/tree/v{version}/metrics/{name}) of swapbias {version}."
    before, _, recipe = body.strip().partition(_RECIPE)
    return f"---\n{header.dump(metadata)}---\n\n{before}{origin}\n\n{_RECIPE}{recipe}\n"


def _swapped(name: str, text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        where = f"The card or module of {name}"
        raise ValueError(f"{where} has {text.count(old)} times {old.strip()!r}, expected once. Edit it.")
    return text.replace(old, new)


def _found(name: str, pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    if found is None:
        raise ValueError(f"The card of {name} has no part like {pattern.pattern!r}. Add it.")
    return found[found.re.groups]


def split_card(card: str) -> tuple[dict[str, Any], str]:
    """A card's header and its Markdown.

    Raises:
        ValueError: there is no header.
    """
    parts = header.split(card)
    if not parts.has_header:
        raise ValueError("The card has no YAML header between two lines of '---'. Add one with title, description.")
    return header.load(parts.header, "The card"), parts.after.partition("\n")[2].strip()


def page(card: str, *, name: str, version: str) -> str:
    """The card as one HTML page without any external reference, everything in it escaped, with the number line.

    Raises:
        ValueError: no header, or no table of anchor values.
    """
    anchors = _sections(split_card(card)[1])[1].get(ANCHORS, "")
    return card_page(
        card,
        kind="Bias measure",
        version=version,
        name=name,
        axis=_found(name, _AXIS, anchors),
        marks=marks(name, anchors),
    )


def card_page(card: str, *, kind: str, version: str = __version__, **drawn: Any) -> str:
    """A card as one HTML page; ``drawn`` is what a metric's number line is made of.

    Raises:
        ValueError: no header.
    """
    metadata, body = split_card(card)
    intro, texts = _sections(body)
    return (
        environment()
        .get_template("metric.html.j2")
        .render(
            kind=kind,
            title=str(metadata["title"]),
            description=str(metadata["description"]),
            version=version,
            intro=_html(re.sub(r"^# .+\n", "", intro)),
            sections=[Section(title, _html(text)) for title, text in texts.items()],
            anchors=ANCHORS if drawn else "",
            width=_WIDTH,
            margin=_MARGIN,
            **drawn,
        )
    )


def _sections(body: str) -> tuple[str, dict[str, str]]:
    """What stands before the first heading of a card, and each heading with what stands below."""
    intro, *parts = re.split(r"^## (.+)$", body, flags=re.MULTILINE)
    return intro, dict(zip(parts[::2], parts[1::2], strict=True))


def _html(markdown: str) -> Markup:
    """Markdown as HTML: no tag of the text survives, nothing is fetched from elsewhere, wide tables scroll."""
    parser = MarkdownIt("js-default", {"html": False}).disable("image")
    html = parser.render(markdown)
    html = html.replace('<a href="', '<a rel="noopener" href="')  # text holds no "<": the parser escapes it
    html = html.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    return Markup(html)  # safe: made by the parser, which escapes


def marks(name: str, anchors: str) -> list[Mark]:
    """The rows of a table of anchor values, each with its place on the number line.

    Raises:
        ValueError: fewer than two different values.
    """
    rows = [(bool(bold), value, label.strip()) for bold, value, label in _ANCHOR.findall(anchors)]
    values = [float(value) for _, value, _ in rows]
    if len(set(values)) < 2:
        raise ValueError(f"The card of {name} has {len(set(values))} anchor values, expected two or more. Add them.")
    low, span = min(values), max(values) - min(values)
    inner = _WIDTH - 2 * _MARGIN
    return [
        Mark(text.replace("-", "−"), label, round(_MARGIN + (value - low) / span * inner, 1), fair)
        for (fair, text, label), value in zip(rows, values, strict=True)
    ]


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
