"""The metrics as Spaces: an `evaluate` module that needs no swapbias, its card, and evaluate's form to try it in."""

import ast
from importlib.metadata import requires
from importlib.resources import files
from pathlib import Path
from typing import Unpack

from swapbias import __version__
from swapbias.hub.cards import CARD, TAGS, dump, load, split
from swapbias.hub.client import SOURCE, Hub, Push, PushOptions, Repo, push_repo
from swapbias.studies import metric_path

NOT_A_RANKING = (
    "A measurement of one difference on the texts at hand: no ranking of models, no proof that a model is fair."
)
_RECIPE = "## From rows to a finding"  # the last section
_ROOM = "swapbias.measures"
_SHIPPED = {"swapbias.errors": "errors", "swapbias.studies.answers": "answers"}  # beside it
_NEEDS = ("datasets", "evaluate", "numpy", "scipy")  # all that a metric and `_ROOM` import of others
_GRADIO = "6.31.0"  # that the form was tried with
_FIXED = {  # what a form has no column for: as in the worked example
    "direct_bias": {"female": [[1.0, 0.0], [3.0, 4.0]], "male": [[-1.0, 0.0], [-3.0, 4.0]]},
    "lexicon_mass": {"lexicon": {"she": "female", "he": "male"}},
}


def push_metric(hub: Hub, name: str, *, namespace: str, **options: Unpack[PushOptions]) -> Push:
    """Publish a metric as the Space ``namespace/name``, tagged with the version of swapbias."""
    made = space_files(name, namespace=namespace, version=__version__)
    hint, repo = "raise the version of swapbias in pyproject.toml", Repo("space", f"{namespace}/{name}")
    return push_repo(hub, repo, made, tag=f"v{__version__}", raise_hint=hint, sdk="gradio", **options)


def space_files(name: str, *, namespace: str, version: str) -> dict[str, bytes]:
    """The files of a metric's Space by path: its code, requirements, card and form, all of one release.

    The code computes without swapbias: what it reads of the package lies beside it. UsageError: unknown metric.
    ValueError: the card or module lacks a part, or the module reads what is not shipped.
    """
    repo, folder = Repo("space", f"{namespace}/{name}"), Path(metric_path(name))

    def swapped(text: str, *changes: tuple[str, str]) -> str:
        """The text with each change done once; the load of the package's own metric becomes one from the Hub."""
        load_it = (f'swapbias.metric_path("{name}")', f'"{repo.name}", revision="{version}"')
        for old, new in (("import evaluate, swapbias\n", "import evaluate\n"), load_it, *changes):
            if text.count(old) != 1:
                where = f"The card or module of {name}"
                raise ValueError(f"{where} has {text.count(old)} times {old.strip()!r}, expected once. Edit it.")
            text = text.replace(old, new)
        return text

    parts = split((folder / CARD).read_text(encoding="utf-8-sig"))
    body = swapped(
        parts.after.partition("\n")[2].strip(),
        ("## How to use\n", "## How to use\n\n```bash\npip install evaluate scipy\n```\n"),
        ("## Limits\n", f"## Limits\n\n{NOT_A_RANKING}\n"),
    )
    origin = f"Made from [metrics/{name}]({SOURCE}/tree/v{version}/metrics/{name}) of swapbias {version}."
    body = body.replace(_RECIPE, f"{origin}\n\n{_RECIPE}")
    body = body.replace('"NS/', f'"{namespace}/').replace('"VERSION"', f'"{version}"')
    metadata = load(parts.header, name)
    metadata |= {"sdk": "gradio", "sdk_version": _GRADIO, "app_file": "app.py", "license": "apache-2.0"}
    metadata["tags"] = [*metadata["tags"], TAGS[-1]]
    source = swapped((folder / f"{name}.py").read_text(encoding="utf-8"))
    wanted = sorted(one for one in requires("swapbias") or () if one.startswith(_NEEDS) and ";" not in one)
    made = {
        **standing_alone(name, source, origin=f"{SOURCE}/blob/v{version}"),
        "requirements.txt": "".join(f"{one}\n" for one in wanted),
        CARD: f"---\n{dump(metadata)}---\n\n{body}\n",
        "app.py": (files("swapbias.hub") / "metric_app.txt")
        .read_text("utf-8")
        .format(name=name, fixed=_FIXED.get(name, {})),
    }
    return {path: text.encode() for path, text in made.items()}


# --- code without swapbias --------------------------------------------------------------------------------


def shipped_names() -> tuple[str, ...]:
    """The modules that may lie beside a metric's own, without their suffix."""
    stems = (Path(one.name).stem for one in files(_ROOM).iterdir() if one.name.endswith(".py"))
    return tuple(sorted({*_SHIPPED.values(), *stems} - {"__init__"}))


def standing_alone(name: str, source: str, *, origin: str) -> dict[str, str]:
    """A metric's module and those that it reads, by file name; each imports the others as its siblings.

    `evaluate` copies the files that the main module imports, and does not look into those: so it imports every one.
    ``origin`` is the address of the package's sources. Raises ValueError where it imports something else of swapbias.
    """
    own, direct = _flat(f"{name}.py", source)
    places = {other: place.removeprefix("swapbias.").replace(".", "/") for place, other in _SHIPPED.items()}
    made: dict[str, str] = {}
    waiting = list(direct)
    while waiting:
        module = waiting.pop()
        if module not in made:
            path = f"swapbias/{places.get(module, f'measures/{module}')}.py"
            text = (Path(str(files("swapbias"))).parent / path).read_text("utf-8")
            text, more = _flat(f"{module}.py", text)
            made[module] = f"# From {origin}/{path}, with its imports made relative.\n{text}"
            waiting.extend(more)
    if not made:
        raise ValueError(f"{name}.py imports nothing of {_ROOM}. Compute there what audits compute, and import it.")
    last = max(one.end_lineno or 0 for one in ast.parse(own).body if isinstance(one, ast.Import | ast.ImportFrom))
    lines = own.splitlines(keepends=True)
    for module in sorted(made.keys() - set(direct), reverse=True):
        # evaluate takes an import of a sibling as a whole only with a name that it defines
        defined = ast.parse(made[module]).body
        first = next(one.name for one in defined if isinstance(one, ast.ClassDef | ast.FunctionDef))
        lines.insert(last, f"from .{module} import {first}\n")
    return {f"{name}.py": "".join(lines), **{f"{module}.py": made[module] for module in sorted(made)}}


def _flat(file: str, source: str) -> tuple[str, list[str]]:
    """The text with its imports of the package made imports of siblings, one line each; and the siblings."""
    lines = source.splitlines(keepends=True)
    found: set[str] = set()
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in sorted(imports, key=lambda one: -one.lineno):
        module = (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        if module.partition(".")[0] == "swapbias":
            homes: dict[str, list[ast.alias]] = {}
            for alias in node.names:
                homes.setdefault(_home(file, node, module, alias.name), []).append(alias)
            made = [ast.unparse(ast.ImportFrom(home, names, level=1)) for home, names in homes.items()]
            lines[node.lineno - 1 : node.end_lineno] = [f"{' ' * node.col_offset}{one}\n" for one in made]
            found.update(homes)
    return "".join(lines), sorted(found)


def _home(file: str, node: ast.stmt, module: str, name: str) -> str:
    """The shipped module that holds a name which an import reads."""
    home = _SHIPPED.get(module) or module.removeprefix(f"{_ROOM}.")
    if module == _ROOM:
        door = ast.parse((files(_ROOM) / "__init__.pyi").read_text(encoding="utf-8")).body
        parts = (one for one in door if isinstance(one, ast.ImportFrom))
        home = next((one.module or "" for one in parts if name in {alias.name for alias in one.names}), "")
    if home not in shipped_names() or isinstance(node, ast.Import):
        raise ValueError(
            f"{file} has {ast.unparse(node)!r}, expected names from {', '.join([_ROOM, *_SHIPPED])} alone: a Space "
            "ships no other code. Move what it needs there."
        )
    return home
