"""The metrics as Spaces: an `evaluate` module that needs no swapbias, its card, and a page to try it on."""

import re
from collections.abc import Sequence
from importlib.metadata import requires
from importlib.resources import files
from pathlib import Path
from typing import Unpack

from swapbias import __version__
from swapbias.hub.card_parts import published_code
from swapbias.hub.cards import CARD, TAGS, dump, load, split
from swapbias.hub.client import SOURCE, Hub
from swapbias.hub.metric_page import INSTALL, PAGE, metric_page
from swapbias.hub.push import Push, PushOptions, push_repo
from swapbias.hub.repository import Repo
from swapbias.studies import metric_path

STATIC = "static"
GRADIO = "gradio"
FORMS = (STATIC, GRADIO)
"""What shows a Space: a page that anybody's browser runs, or evaluate's form, which takes a paid plan."""
NOT_A_RANKING = (
    "A measurement of one difference on these texts: "
    "no ranking of models, no proof that a model is fair."
)
_RECIPE = "## From rows to a finding"  # the last section
# All that a metric and what lies beside it import of others.
_NEEDS = ("datasets", "evaluate", "numpy", "scipy")
_GRADIO_VERSION = "6.31.0"  # that the form was tried with
_REFERENCE = "In the form of this page, the group of the first row is the reference group, which is subtracted.\n"
_FIXED = {  # what a form has no column for: as in the worked example
    "direct_bias": {"female": [[1.0, 0.0], [3.0, 4.0]], "male": [[-1.0, 0.0], [-3.0, 4.0]]},
    "lexicon_mass": {"lexicon": {"she": "female", "he": "male"}},
}


def push_metric(
    hub: Hub,
    name: str,
    *,
    namespace: str,
    form: str = STATIC,
    **options: Unpack[PushOptions],
) -> Push:
    """Publish a metric as the Space ``namespace/name``, tagged with the version of swapbias.

    Args:
        hub: the Hub.
        name: the name of the metric.
        namespace: the user or organisation.
        form: what shows it, one of ``FORMS``.
        options: the options of the push.

    Returns:
        the push that was made, or would be.

    Raises:
        UsageError: unknown metric, or as ``push_repo``.
        HubError: as ``push_repo``.
    """
    return push_repo(
        hub,
        Repo("space", f"{namespace}/{name}"),
        space_files(name, namespace=namespace, version=__version__, form=form),
        tag=f"v{__version__}",
        version_hint="raise the version of swapbias in pyproject.toml",
        sdk=form,
        **options,
    )


def space_files(name: str, *, namespace: str, version: str, form: str = STATIC) -> dict[str, bytes]:
    """Make the files of a metric's Space: its code, card and page, all of one release.

    The code computes without swapbias: what it reads of the package lies beside it.

    Args:
        name: the name of the metric.
        namespace: the user or organisation.
        version: the version of swapbias.
        form: what shows it, one of ``FORMS``.

    Returns:
        the files by path.

    Raises:
        UsageError: unknown metric.
        ValueError: the card or module lacks a part, or the module reads what is not shipped.
    """
    repo = Repo("space", f"{namespace}/{name}")
    folder = Path(metric_path(name))
    # The load of the package's own metric becomes one from the Hub.
    from_hub = (
        ("import evaluate, swapbias\n", "import evaluate\n"),
        (f'swapbias.metric_path("{name}")', f'"{repo.name}", revision="{version}"'),
    )
    source = _replace_once(name, (folder / f"{name}.py").read_text(encoding="utf-8"), from_hub)
    how_to_use = f"## How to use\n\n```bash\n{INSTALL}\n```\n"
    if form == GRADIO and "reference_group=" in source:
        how_to_use += f"\n{_REFERENCE}"
    card = split((folder / CARD).read_text(encoding="utf-8-sig"))
    in_card = (
        ("## How to use\n", how_to_use),
        ("## Limits\n", f"## Limits\n\n{NOT_A_RANKING}\n"),
    )
    text = card.after.partition("\n")[2].strip()
    body = _replace_once(name, text, (*from_hub, *in_card))
    origin = f"Made from [metrics/{name}]({SOURCE}/tree/v{version}/metrics/{name}) of swapbias {version}."
    body = body.replace(_RECIPE, f"{origin}\n\n{_RECIPE}")
    body = published_code(body, namespace).replace('"VERSION"', f'"{version}"')
    metadata = {**load(card.header, name), "sdk": form, "license": "apache-2.0"}
    metadata["tags"] = [*metadata["tags"], TAGS[-1]]
    texts = standing_alone(name, source)
    if form == GRADIO:
        metadata |= {"sdk_version": _GRADIO_VERSION, "app_file": "app.py"}
        app = (files("swapbias.hub") / "metric_app.txt").read_text("utf-8")
        texts["app.py"] = app.format(name=name, fixed=_FIXED.get(name, {}))
        texts["requirements.txt"] = _requirements()
    else:
        metadata["app_file"] = PAGE
        texts[PAGE] = metric_page(name, metadata, body)
    texts[CARD] = f"---\n{dump(metadata)}---\n\n{body}\n"
    return {path: text.encode() for path, text in texts.items()}


def _replace_once(name: str, text: str, changes: Sequence[tuple[str, str]]) -> str:
    """Make each change of a text, which must hold its old part once; else ValueError."""
    for old, new in changes:
        count = text.count(old)
        if count != 1:
            raise ValueError(
                f"The card or module of {name} has {count} times {old.strip()!r}, expected once. Edit it."
            )
        text = text.replace(old, new)
    return text


def _requirements() -> str:
    """Write the requirements of a Space: those of swapbias that its code imports."""
    lines = []
    for line in requires("swapbias") or ():
        requirement, _, marker = line.partition(";")
        if line.startswith(_NEEDS) and marker.strip() in ("", 'extra == "metrics"'):
            lines.append(f"{requirement.strip()}\n")
    return "".join(sorted(lines))


# --- code without swapbias --------------------------------------------------------------------------------

_DOOR = "measures"  # the front door of that room: beside a metric it opens on the files beside it
_COMPARISONS = "comparisons"  # the folder of that room, whose files have its name before theirs beside a metric
_IMPORT = re.compile(
    r"^( *)from swapbias\.(?:measures\.|studies\.)?(\w+) import(.*?)(?:  # From: .*)?$",
    re.MULTILINE,
)


def shipped() -> dict[str, Path]:
    """List the files of the package that lie beside a metric's own.

    Returns:
        the file by the name of its module there.
    """
    room = Path(str(files("swapbias")))
    shipped_files = {path.stem: path for path in sorted((room / _DOOR).glob("[!_]*.py"))}
    shipped_files |= {
        _DOOR: room / _DOOR / "__init__.pyi",
        "answer_reasons": room / "studies/answer_reasons.py",
        "answer_text": room / "studies/answer_text.py",
        "answers": room / "studies/answers.py",
        "errors": room / "errors.py",
        "public_calls": room / "public_calls.py",
        "registry": room / "registry.py",
        _COMPARISONS: room / _DOOR / _COMPARISONS / "__init__.py",
    }
    for path in sorted((room / _DOOR / _COMPARISONS).glob("[!_]*.py")):
        shipped_files[f"{_COMPARISONS}_{path.stem}"] = path
    return shipped_files


def standing_alone(name: str, source: str) -> dict[str, str]:
    """Make a metric's module and those of the package that it may read import each other as siblings.

    `evaluate` copies the files that the main module imports, and does not look into those: so it imports every one.

    Args:
        name: the name of the metric.
        source: its module.

    Returns:
        the modules by file name.

    Raises:
        ValueError: an import of anything else of swapbias.
    """
    modules = {module: path.read_text(encoding="utf-8") for module, path in shipped().items()}
    lines = ["\n# evaluate copies the files that this one imports.\n"]
    for module, text in modules.items():
        defined = re.findall(r"^(?:class|def) (\w+)|import \($\s+(\w+)", text, re.MULTILINE)[0]
        lines.append(f"from .{module} import {''.join(defined)} as _\n")
    modules[name] = source + "".join(lines)
    foreign_import = re.compile(
        rf"^ *(?:from|import) (?:swapbias\b|\.(?!(?:{'|'.join(modules)}) )).*", re.MULTILINE
    )
    for module, text in modules.items():
        nested = f"swapbias.{_DOOR}.{_COMPARISONS}"
        modules[module] = _IMPORT.sub(
            r"\1from .\2 import\3", text.replace(f"{nested}.", f"{nested}_")
        )
        if line := foreign_import.search(modules[module]):
            raise ValueError(
                f"{module}.py has {line[0].strip()!r}, expected imports of {_DOOR}, studies.answers and errors: a "
                "Space ships no other code. Move what it needs there."
            )
    return {f"{module}.py": text for module, text in modules.items()}
