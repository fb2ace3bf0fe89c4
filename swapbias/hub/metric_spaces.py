"""The metrics as Spaces: an `evaluate` module that needs no swapbias, its card, and evaluate's form to try it in."""

import re
from importlib.metadata import requires
from importlib.resources import files
from pathlib import Path
from typing import Unpack

from swapbias import __version__
from swapbias.hub.cards import CARD, TAGS, dump, load, split
from swapbias.hub.client import SOURCE, Hub, Push, PushOptions, Repo, push_repo
from swapbias.studies import metric_path

NOT_A_RANKING = (
    "A measurement of one difference on the texts at hand: "
    "no ranking of models, no proof that a model is fair."
)
_RECIPE = "## From rows to a finding"  # the last section
_NEEDS = (
    "datasets",
    "evaluate",
    "numpy",
    "scipy",
)  # all that a metric and what lies beside it import of others
_GRADIO = "6.31.0"  # that the form was tried with
_REFERENCE = "In the form of this page, the group of the first row is the reference group, which is subtracted.\n"
_FIXED = {  # what a form has no column for: as in the worked example
    "direct_bias": {"female": [[1.0, 0.0], [3.0, 4.0]], "male": [[-1.0, 0.0], [-3.0, 4.0]]},
    "lexicon_mass": {"lexicon": {"she": "female", "he": "male"}},
}


def push_metric(hub: Hub, name: str, *, namespace: str, **options: Unpack[PushOptions]) -> Push:
    """Publish a metric as the Space ``namespace/name``, tagged with the version of swapbias."""
    made = space_files(name, namespace=namespace, version=__version__)
    hint = "raise the version of swapbias in pyproject.toml"
    repo = Repo("space", f"{namespace}/{name}")
    return push_repo(
        hub, repo, made, tag=f"v{__version__}", version_hint=hint, sdk="gradio", **options
    )


def space_files(name: str, *, namespace: str, version: str) -> dict[str, bytes]:
    """The files of a metric's Space by path: its code, requirements, card and form, all of one release.

    The code computes without swapbias: what it reads of the package lies beside it. UsageError: unknown metric.
    ValueError: the card or module lacks a part, or the module reads what is not shipped.
    """
    repo = Repo("space", f"{namespace}/{name}")
    folder = Path(metric_path(name))

    def swapped(text: str, *changes: tuple[str, str]) -> str:
        """The text with each change done once; the load of the package's own metric becomes one from the Hub."""
        load_it = (f'swapbias.metric_path("{name}")', f'"{repo.name}", revision="{version}"')
        for old, new in (("import evaluate, swapbias\n", "import evaluate\n"), load_it, *changes):
            if text.count(old) != 1:
                where = f"The card or module of {name}"
                raise ValueError(
                    f"{where} has {text.count(old)} times {old.strip()!r}, expected once. Edit it."
                )
            text = text.replace(old, new)
        return text

    source = swapped((folder / f"{name}.py").read_text(encoding="utf-8"))
    form = f"\n{_REFERENCE}" if "reference_group=" in source else ""
    parts = split((folder / CARD).read_text(encoding="utf-8-sig"))
    body = swapped(
        parts.after.partition("\n")[2].strip(),
        ("## How to use\n", f"## How to use\n\n```bash\npip install evaluate scipy\n```\n{form}"),
        ("## Limits\n", f"## Limits\n\n{NOT_A_RANKING}\n"),
    )
    origin = f"Made from [metrics/{name}]({SOURCE}/tree/v{version}/metrics/{name}) of swapbias {version}."
    body = body.replace(_RECIPE, f"{origin}\n\n{_RECIPE}")
    body = body.replace('"NS/', f'"{namespace}/').replace('"VERSION"', f'"{version}"')
    metadata = load(parts.header, name)
    metadata |= {
        "sdk": "gradio",
        "sdk_version": _GRADIO,
        "app_file": "app.py",
        "license": "apache-2.0",
    }
    metadata["tags"] = [*metadata["tags"], TAGS[-1]]
    wanted = sorted(
        one for one in requires("swapbias") or () if one.startswith(_NEEDS) and ";" not in one
    )
    made = {
        **standing_alone(name, source),
        "requirements.txt": "".join(f"{one}\n" for one in wanted),
        CARD: f"---\n{dump(metadata)}---\n\n{body}\n",
        "app.py": (files("swapbias.hub") / "metric_app.txt")
        .read_text("utf-8")
        .format(name=name, fixed=_FIXED.get(name, {})),
    }
    return {path: text.encode() for path, text in made.items()}


# --- code without swapbias --------------------------------------------------------------------------------

_DOOR = "measures"  # the front door of that room: beside a metric it opens on the files beside it
_COMPARISONS = "comparisons"  # the folder of that room, whose files have its name before theirs beside a metric
_IMPORT = re.compile(
    r"^( *)from swapbias\.(?:measures\.|studies\.)?(\w+) import(.*?)(?:  # From: .*)?$",
    re.MULTILINE,
)


def shipped() -> dict[str, Path]:
    """The files of the package that lie beside a metric's own, by the name of their module there."""
    room = Path(str(files("swapbias")))
    others = {
        _DOOR: room / _DOOR / "__init__.pyi",
        "answer_reasons": room / "studies/answer_reasons.py",
        "answers": room / "studies/answers.py",
        "errors": room / "errors.py",
        "registry": room / "registry.py",
    }
    compared = sorted((room / _DOOR / _COMPARISONS).glob("[!_]*.py"))
    others[_COMPARISONS] = room / _DOOR / _COMPARISONS / "__init__.py"
    others |= {f"{_COMPARISONS}_{path.stem}": path for path in compared}
    return {path.stem: path for path in sorted((room / _DOOR).glob("[!_]*.py"))} | others


def standing_alone(name: str, source: str) -> dict[str, str]:
    """A metric's module and those of the package that it may read, by file name; each imports the others as siblings.

    `evaluate` copies the files that the main module imports, and does not look into those: so it imports every one.
    ValueError: an import of anything else of swapbias.
    """
    made = {module: path.read_text(encoding="utf-8") for module, path in shipped().items()}
    lines = ["\n# evaluate copies the files that this one imports.\n"]
    for module, text in made.items():
        defined = re.findall(r"^(?:class|def) (\w+)|import \($\s+(\w+)", text, re.MULTILINE)[0]
        lines.append(f"from .{module} import {''.join(defined)} as _\n")
    made[name] = source + "".join(lines)
    known = "|".join(made)
    for module, text in made.items():
        text = text.replace(
            f"swapbias.{_DOOR}.{_COMPARISONS}.", f"swapbias.{_DOOR}.{_COMPARISONS}_"
        )
        made[module] = _IMPORT.sub(r"\1from .\2 import\3", text)
        if other := re.search(
            rf"^ *(?:from|import) (?:swapbias\b|\.(?!(?:{known}) )).*", made[module], re.MULTILINE
        ):
            raise ValueError(
                f"{module}.py has {other[0].strip()!r}, expected imports of {_DOOR}, studies.answers and errors: a "
                "Space ships no other code. Move what it needs there."
            )
    return {f"{module}.py": text for module, text in made.items()}
