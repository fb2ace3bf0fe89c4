"""Where a corpus comes from: its upstream files, what their licences allow, and what to cite."""

import re
from collections.abc import Mapping

from swapbias.declaring import Config, Corpus
from swapbias.sources import corpus_dir, pinned_files, read_table

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

    The latter say so in ``used_for``, which then begins with the config and a colon.
    """
    copied = [path for path, pin in pins.items() if pin["used_for"].startswith(f"{config.name}:")]
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
    notices = _notices(corpus.name)
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


def _notices(corpus_name: str) -> dict[str, str]:
    """Repository -> the copyright line of its LICENSE."""
    table = corpus_dir(corpus_name) / "notices.csv"
    rows = read_table(table, ("repository", "notice")) if table.exists() else []
    return {row["repository"]: row["notice"] for row in rows}


def sources_section(corpus: Corpus) -> str:
    """A table of the pinned repositories with licence, number of files and use; a sentence where there are none."""
    pins = pinned_files(corpus.name)
    own = f"## Sources and licences\n\nWhat this project wrote is under {corpus.licence}."
    if not pins:
        return f"{own} Nothing else is in it."
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for path, pin in pins.items():
        grouped.setdefault((pin["repository"], pin["commit"], pin["licence"]), []).append(path)
    lines = [own, "", "| repository at the pinned commit | licence | files | used for |", "| --- | --- | --- | --- |"]
    for (repository, commit, licence), paths in grouped.items():
        link = f"[{repository}](https://github.com/{repository}/tree/{commit})"
        uses = "; ".join(dict.fromkeys(pins[path]["used_for"] for path in paths))
        lines.append(f"| {link} | {licence} | {len(paths)} | {uses} |")
    holding = [f"`{config.name}`" for config in corpus.configs if _made_from(config, pins)]
    included = (
        f"Rows made from these files are in {', '.join(holding)}, and stay under the licence of their source: "
        f"`{LICENCES}` has the notices."
        if holding
        else "No row here is made from these files: they are read to check and to reproduce."
    )
    return "\n".join([*lines, "", included])


def references_section(corpus_name: str) -> str:
    """The BibTeX entries that the ``References:`` line of the corpus' README names; blank where it names none.

    Raises:
        ValueError: a key that ``references.bib`` does not have.
    """
    folder = corpus_dir(corpus_name)
    named = _REFERENCES.search((folder / "README.md").read_text(encoding="utf-8"))
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
    return "\n".join(["## BibTeX", "", "```bibtex", "\n\n".join(entries[key] for key in keys), "```"])
