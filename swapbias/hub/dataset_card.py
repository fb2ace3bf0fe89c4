"""The card of a built corpus: its README under a header that the Hub reads, its columns, where it comes from."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from swapbias.hub.cards import CARD, dump, markdown, md_table
from swapbias.privacy import NOTE as CREDENTIALED_NOTE
from swapbias.studies import (
    PROMPT_COLUMNS,
    PROMPT_MEANINGS,
    Config,
    Corpus,
    config_features,
    corpus_dir,
    pinned_files,
    read_table,
)

SECTION = "Columns"  # of a README: a table of column, configs it is meant for, meaning
RECIPE = "From rows to a finding"  # of a README: code, with which the card ends
_ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", re.MULTILINE)


@dataclass(slots=True)
class SplitInfo:
    """One split: its rows, their bytes in memory and in files."""

    rows: int = 0
    bytes: int = 0
    file_bytes: int = 0


@dataclass(slots=True)
class ConfigInfo:
    """A config on disk."""

    config: Config
    splits: dict[str, SplitInfo] = field(default_factory=dict)
    credentialed: bool = False

    @property
    def rows(self) -> int:
        """Of all splits."""
        return sum(part.rows for part in self.splits.values())


def section(text: str, title: str) -> str:
    """The section of that title of a Markdown text, heading and all; blank where there is none."""
    found = re.search(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def features_section(corpus: Corpus, configs: Iterable[str]) -> str:
    """Tables of column, type and meaning, one for all configs with the same ones.

    Raises:
        ValueError: a column that nobody says the meaning of.
    """
    grouped: dict[tuple[tuple[str, str, str], ...], list[str]] = {}
    for name in configs:
        config = corpus.config(name)
        meanings = _meanings(corpus.name, config)
        rows = tuple((f"`{column}`", _type(config, column), meaning) for column, meaning in meanings.items())
        grouped.setdefault(rows, []).append(name)
    tables = [
        f"{', '.join(f'`{name}`' for name in names)}\n\n{md_table(('column', 'type', 'what it holds'), rows)}"
        for rows, names in grouped.items()
    ]
    return "\n\n".join(["## Features", *tables])


def _type(config: Config, column: str) -> str:
    """The type of a column in words; classes by number and name."""
    found = config.type_of(column)
    if isinstance(found, str):
        return found
    return "class: " + ", ".join(f"{number} `{name}`" for number, name in enumerate(found))


def _meanings(corpus: str, config: Config) -> Mapping[str, str]:
    """The meaning of each column of a config: its README's table, or what all prompts say of it.

    A row of that table is meant for the configs that it names (``*`` at the end: all that begin so), or for all.
    """
    text = section((corpus_dir(corpus) / CARD).read_text(encoding="utf-8-sig"), SECTION)
    mine = {
        column: meaning
        for column, names, meaning in _ROW.findall(text)
        if not (patterns := _KEY.findall(names)) or any(fnmatchcase(config.name, one) for one in patterns)
    }
    prompts = PROMPT_MEANINGS if config.columns[: len(PROMPT_COLUMNS)] == PROMPT_COLUMNS else {}
    for column in config.columns:
        if not (prompts.get(column) or mine.get(column)):
            raise ValueError(
                f"{corpus}/README.md: column {column!r} of config {config.name!r} has no meaning. Add a row to its "
                f"table under '## {SECTION}'."
            )
    return {column: mine.get(column) or prompts[column].replace("|", "\\|") for column in config.columns}


SOURCE = "https://github.com/swapbias/swapbias"
LICENCES = "LICENSES.md"  # the file beside a card that holds the notices of what others wrote
# Licences under which what is derived from a file may be passed on, given credit. Anything else is not published.
REDISTRIBUTABLE = frozenset(
    {
        "Apache-2.0", "MIT", "MIT-0", "ISC", "Zlib", "Unlicense", "0BSD", "BSD-2-Clause", "BSD-3-Clause",
        "CC0-1.0", "CC-BY-4.0", "PDDL-1.0", "ODC-By-1.0",
    }
)  # fmt: skip
Pins = Mapping[str, Mapping[str, str]]  # path -> row of sources.csv
MIT_LICENCE = """\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""
_REFERENCES = re.compile(r"^References: (.+)$", re.MULTILINE)
_LANGUAGE = re.compile(r"^Language: `([a-z-]+)`$", re.MULTILINE)
_KEY = re.compile(r"`([^`]+)`")
_ENTRY = re.compile(r"^@\w+\{([^,\s]+),\n.*?^\}", re.MULTILINE | re.DOTALL)


def withheld_configs(corpus: Corpus) -> dict[str, list[str]]:
    """The configs that are not published, with the licences that do not allow it (``not stated`` is one of them)."""
    pins = pinned_files(corpus.name)
    found: dict[str, list[str]] = {}
    for config in corpus.configs:
        refused = sorted({pins[path]["licence"] for path in _made_from(config, pins)} - REDISTRIBUTABLE)
        if refused:
            found[config.name] = refused
    return found


def licences(corpus: Corpus) -> list[str]:
    """The licences of what the configs of a corpus hold, its own first, as the Hub writes them."""
    pins = pinned_files(corpus.name)
    upstream = {pins[path]["licence"].lower() for config in corpus.configs for path in _made_from(config, pins)}
    own = corpus.licence.lower()
    return [own, *sorted(upstream - {own})]


def _made_from(config: Config, pins: Pins) -> list[str]:
    """The upstream files whose content is in a config: those it reads, and those a table of ours was taken from.

    The latter say so in ``used_for``, which then begins with the configs, or with "every config", and a colon.
    """
    named = {config.name, "every config"}
    copied = [path for path, pin in pins.items() if named & {*pin["used_for"].partition(":")[0].split(", ")}]
    return [*config.upstream, *copied]


def licences_file(corpus: Corpus) -> bytes | None:
    """``LICENSES.md``: for each repository whose content is in the configs, commit, licence and copyright notice.

    The notices are those of ``notices.csv``; a repository without one is said to be its authors'. None where no
    config holds upstream content.

    Raises:
        ValueError: a broken table.
    """
    pins = pinned_files(corpus.name)
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for config in corpus.configs:
        for path in _made_from(config, pins):
            pin = pins[path]
            configs = grouped.setdefault((pin["repository"], pin["commit"], pin["licence"]), [])
            if config.name not in configs:
                configs.append(config.name)
    if not grouped:
        return None
    table = corpus_dir(corpus.name) / "notices.csv"
    rows = read_table(table, ("repository", "notice")) if table.exists() else []
    notices = {row["repository"]: row["notice"] for row in rows}
    lines = [f"# Licences of what others wrote in {corpus.name}"]
    lines += ["", f"What this project wrote is under {corpus.licence}: see the card."]
    for (repository, commit, licence), configs in grouped.items():
        where = f"[{repository}](https://github.com/{repository}/tree/{commit}) at commit {commit}"
        lines += ["", f"## {repository}", "", f"In {', '.join(f'`{name}`' for name in configs)}. From {where}."]
        lines += ["", f"Licence: {licence} (https://spdx.org/licenses/{licence}.html)"]
        lines += ["", notices.get(repository) or "Copyright its authors, as the repository states."]
    if any(licence == "MIT" for _, _, licence in grouped):
        lines += ["", "## The MIT licence", "", MIT_LICENCE.strip()]
    return ("\n".join(lines) + "\n").encode()


def sources_section(corpus: Corpus) -> str:
    """A table of the pinned repositories with licence, number of files and use; a sentence where there are none."""
    pins = pinned_files(corpus.name)
    own = f"## Sources and licences\n\nWhat this project wrote is under {corpus.licence}."
    if not pins:
        return f"{own} Nothing else is in it."
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for path, pin in pins.items():
        grouped.setdefault((pin["repository"], pin["commit"], pin["licence"]), []).append(path)
    rows = []
    for (repository, commit, licence), paths in grouped.items():
        link = f"[{repository}](https://github.com/{repository}/tree/{commit})"
        uses = "; ".join(dict.fromkeys(pins[path]["used_for"] for path in paths))
        rows.append((link, licence, str(len(paths)), uses))
    table = md_table(("repository at the pinned commit", "licence", "files", "used for"), rows)
    holding = [f"`{config.name}`" for config in corpus.configs if _made_from(config, pins)]
    included = (
        f"Rows made from these files are in {', '.join(holding)}, and stay under the licence of their source: "
        f"`{LICENCES}` has the notices."
        if holding
        else "No row here is made from these files: they are read to check and to reproduce."
    )
    return f"{own}\n\n{table}\n\n{included}"


def references_section(corpus_name: str) -> str:
    """The BibTeX entries that the ``References:`` line of the corpus' README names; blank where it names none.

    Raises:
        ValueError: a key that ``references.bib`` does not have.
    """
    found = citation(corpus_name)
    return "\n".join(["## BibTeX", "", "```bibtex", found, "```"]) if found else ""


def citation(corpus_name: str) -> str:
    """The entries of ``references_section`` alone."""
    folder = corpus_dir(corpus_name)
    named = _REFERENCES.search((folder / "README.md").read_text(encoding="utf-8-sig"))
    if not named:
        return ""
    text = (folder.parent / "references.bib").read_text(encoding="utf-8")
    entries = {found[1]: found[0] for found in _ENTRY.finditer(text)}
    keys = _KEY.findall(named[1])
    for key in keys:
        if key not in entries:
            raise ValueError(
                f"{corpus_name}/README.md: reference {key!r} is not in references.bib. Add an entry for it."
            )
    return "\n\n".join(entries[key] for key in keys)


OTHER_LICENCE = "other"  # of a corpus that was made from a folder of the user's
NAMESPACE = "NS"  # in a card that is not published: the user or organisation it would lie under
_TASKS = {
    "masked": "fill-mask",
    "classifier": "text-classification",
    "causal": "text-generation",
    "chat": "text-generation",
    "embedding": "feature-extraction",
}
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def dataset_card(
    corpus: Corpus,
    written: Mapping[str, ConfigInfo],
    *,
    namespace: str = NAMESPACE,
    withheld: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The card of a corpus of the package, complete.

    Args:
        corpus: what was built.
        written: its configs that were written, by name.
        namespace: the user or organisation it is published under.
        withheld: configs that are not published, with the licences that do not allow it.

    Raises:
        ValueError: a column without a meaning, or a reference that is not in ``references.bib``.
    """
    corpus = replace(corpus, configs=tuple(config for config in corpus.configs if config.name in written))
    readme = (corpus_dir(corpus.name) / "README.md").read_text(encoding="utf-8-sig")
    columns, recipe = section(readme, SECTION), section(readme, RECIPE)  # the first stands below Features
    for moved in filter(None, (columns, recipe)):
        readme = readme.replace(moved, "")
    parts = [
        readme.strip(),
        _loading_section(corpus, written, namespace),
        _building_section(corpus),
        _rows_section(corpus, written),
        _withheld_section(corpus.name, withheld or {}),
        features_section(corpus, written),
        sources_section(corpus),
        references_section(corpus.name),
        _version_section(corpus),
        recipe.replace('"NS/', f'"{namespace}/').replace('"VERSION"', f'"v{corpus.version}"').strip(),
    ]
    return f"{_header(corpus, written)}\n" + "\n\n".join(part for part in parts if part) + "\n"


def local_card(corpus: Corpus, written: Mapping[str, ConfigInfo], *, credentialed: bool) -> str:
    """The card of a corpus made from a folder of one's own: without the README, which tells of other rows."""
    rows = "\n".join(f"- `{name}`: {made.rows} rows" for name, made in written.items())
    note = f"{CREDENTIALED_NOTE}\n\n" if credentialed else ""
    return f"{_header(corpus, written, own=True)}\n{note}# {corpus.name}\n\n{corpus.title.capitalize()}.\n\n{rows}\n"


def _header(corpus: Corpus, written: Mapping[str, ConfigInfo], *, own: bool = False) -> str:
    names = licences(corpus)
    tasks, rows = _tasks(corpus, written), sum(made.rows for made in written.values())
    metadata = {
        "pretty_name": corpus.title,
        "license": names[0] if len(names) == 1 else names,
        "language": [_language(corpus.name)],
        **({"task_categories": tasks} if tasks else {}),
        "size_categories": [next((name for limit, name in _SIZES if rows < limit), "n>1M")],
        **({} if own else {"source_datasets": _origins(corpus, written)}),
        "tags": ["bias", "fairness", "swapbias", *corpus.tags],
        "configs": [
            {
                "config_name": name,
                "data_files": [{"split": split, "path": f"{name}/{split}-*.parquet"} for split in made.splits],
                **({"default": True} if index == 0 else {}),
            }
            for index, (name, made) in enumerate(written.items())
        ],
        "dataset_info": [_info(corpus, made, own=own) for made in written.values()],
    }
    return f"---\n{dump(metadata)}---\n"


def _language(corpus: str) -> str:
    """The code of the language of a corpus, as its README says it; English where it says none."""
    card = corpus_dir(corpus) / "README.md"  # that of a user's own corpus lies elsewhere
    found = _LANGUAGE.search(card.read_text(encoding="utf-8-sig")) if card.is_file() else None
    return found[1] if found else "en"


def _tasks(corpus: Corpus, written: Mapping[str, ConfigInfo]) -> list[str]:
    """What the study asks models to do; texts with labels are there to be classified."""
    experiments = corpus.study.experiments if corpus.study else ()
    tasks = {_TASKS[one.kind] for one in experiments if one.kind in _TASKS and set(one.configs) & set(written)}
    if not corpus.study and any({"text", "label"} <= set(made.config.columns) for made in written.values()):
        tasks.add("text-classification")
    return sorted(tasks)


def _origins(corpus: Corpus, written: Mapping[str, ConfigInfo]) -> list[str]:
    """Whether rows are this project's own, or made from what others published."""
    pins = pinned_files(corpus.name)
    made = {bool(_made_from(one.config, pins)) for one in written.values()}
    return [name for name, there in (("original", False), ("extended|other", True)) if there in made]


def _info(corpus: Corpus, made: ConfigInfo, *, own: bool) -> dict[str, Any]:
    """What ``load_dataset_builder(...).info`` tells of a config; a README tells nothing of a user's ``own`` rows."""
    return {
        "config_name": made.config.name,
        **about(corpus, made.config, own=own),
        "features": config_features(made.config)._to_yaml_list(),
        "splits": [
            {"name": split, "num_bytes": part.bytes, "num_examples": part.rows} for split, part in made.splits.items()
        ],
        "download_size": sum(part.file_bytes for part in made.splits.values()),
        "dataset_size": sum(part.bytes for part in made.splits.values()),
    }


def about(corpus: Corpus, config: Config, *, own: bool) -> dict[str, str]:
    """What a config says of itself wherever ``datasets`` reads it, as of ``_info``."""
    meanings = {} if own else _meanings(corpus.name, config)
    columns = "".join(f"\n{name}: {text.replace('`', '').replace(chr(92), '')}" for name, text in meanings.items())
    return {
        "description": f"{corpus.title}. {config.description}.{columns}",
        **({} if own else {"citation": citation(corpus.name), "homepage": SOURCE}),
        "license": ", ".join(licences(corpus)),
    }


def _loading_section(corpus: Corpus, written: Mapping[str, ConfigInfo], namespace: str) -> str:
    if not written:
        return ""
    name, made = next(iter(written.items()))
    where = f'"{namespace}/{corpus.name}", "{name}", split="{next(iter(made.splits))}", revision="v{corpus.version}"'
    return f"""## How to load

```python
from datasets import load_dataset

rows = load_dataset({where})
print(rows[0])
```"""


def _building_section(corpus: Corpus) -> str:
    """How to make the rows oneself. It names no release of the package: the card would change with every one."""
    return f"""## How to build

```bash
pip install "swapbias @ git+{SOURCE}"
swapbias build {corpus.name}
```

This makes the rows in a folder that `load_dataset` reads, with [swapbias]({SOURCE}). The files that this card \
names and that do not lie beside it are in \
[datasets_src/{corpus.name}]({SOURCE}/tree/main/datasets_src/{corpus.name})."""


def _rows_section(corpus: Corpus, written: Mapping[str, ConfigInfo]) -> str:
    rows = [
        (f"`{name}`", f"`{split}`", f"{part.rows:,}", markdown(corpus.config(name).description))
        for name, made in written.items()
        for split, part in made.splits.items()
    ]
    return f"## Rows\n\n{md_table(('config', 'split', 'rows', 'what it holds'), rows)}"


def _withheld_section(corpus: str, withheld: Mapping[str, Sequence[str]]) -> str:
    if not withheld:
        return ""
    lines = [
        f"- `{name}`: the licence of its upstream files ({', '.join(found)}) does not let others pass them on."
        for name, found in withheld.items()
    ]
    lines += ["", f"`swapbias build {corpus}` makes them on your machine from the authors' own files."]
    return "\n".join(["## Not published", "", *lines])


def _version_section(corpus: Corpus) -> str:
    return (
        f"## Version\n\n{corpus.version}, tagged `v{corpus.version}`. What a tag holds does not change: other rows "
        "or another card get a new version."
    )
