"""Licences of a corpus: which configs may be published, and the notices that go with them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from swapbias.files import is_url
from swapbias.hub.cards import rendered
from swapbias.studies import Config, Corpus, corpus_dir, corpus_file, read_table, tables

LICENCES = "LICENSES.md"  # the file beside a card that holds the notices of what others wrote
OTHER_LICENCE = "other"  # of a corpus that was made from a folder of the user's
# In lower case: licences that the Hub has under another name, or under none.
_ON_THE_HUB = {
    "pddl-1.0": "pddl",
    "odc-by-1.0": "odc-by",
    "unicode-3.0": OTHER_LICENCE,
    "mit-0": OTHER_LICENCE,
    "0bsd": OTHER_LICENCE,
    "not stated": OTHER_LICENCE,
    "non-commercial": OTHER_LICENCE,
}
_EVERY_CONFIG = "every config"  # begins, with a colon, the ``used_for`` of what tables of all configs were taken from
Sources = Sequence[Mapping[str, str]]  # rows of sources.csv
_Source = tuple[str, str, str]  # repository, commit and licence


def withheld_configs(corpus: Corpus) -> dict[str, list[str]]:
    """List the configs that are not published.

    Args:
        corpus: the corpus.

    Returns:
        by config the licences that do not allow it (``not stated`` is one of them).
    """
    sources = tables.outside_sources(corpus.name)
    withheld = {}
    for config in corpus.configs:
        licences = {source["licence"] for source in made_from(config, sources)}
        if refused := licences - {*corpus_file.REDISTRIBUTABLE}:
            withheld[config.name] = sorted(refused)
    return withheld


def licences(corpus: Corpus) -> list[str]:
    """List the licences of what the configs of a corpus hold.

    Args:
        corpus: the corpus.

    Returns:
        its own licence first, each by the name that the Hub has for it.
    """
    sources = tables.outside_sources(corpus.name)
    upstream = {
        source["licence"].lower()
        for config in corpus.configs
        for source in made_from(config, sources)
    }
    first = corpus.licence.lower()
    others = {_ON_THE_HUB.get(licence, licence) for licence in upstream}
    return [first, *sorted(others - {first})]


def made_from(config: Config, sources: Sources) -> list[Mapping[str, str]]:
    """List the sources whose content is in a config: files it reads, and what a table of ours was taken from.

    Args:
        config: the config.
        sources: rows of ``sources.csv``.

    Returns:
        some of these rows.
    """
    names = {config.name, _EVERY_CONFIG}
    files = {row["path"]: row for row in sources if not is_url(row["repository"])}
    copied = [row for row in sources if names & {*row["used_for"].partition(":")[0].split(", ")}]
    return [*(files[path] for path in config.upstream), *copied]


def licences_file(corpus: Corpus) -> bytes | None:
    """Write ``LICENSES.md``: for each repository whose content is in the configs, commit, licence and notice.

    Args:
        corpus: the corpus.

    Returns:
        the file; None where nothing of others is in the configs.
    """
    sources = _configs_by_source(corpus)
    if not sources:
        return None
    folder = corpus_dir(corpus.name)
    page = rendered(
        "licences.md.j2",
        corpus=corpus,
        grouped=sources,
        notices=_notices(folder, sources),
        texts=_licence_texts(folder.parent, sources),
        links={source[0]: source_url(source[0], source[1]) for source in sources},
    )
    return f"{page}\n".encode()


def _configs_by_source(corpus: Corpus) -> dict[_Source, list[str]]:
    """Return the configs that hold content of a source, by the source, both in their order."""
    rows = tables.outside_sources(corpus.name)
    by_source: dict[_Source, list[str]] = {}
    for config in corpus.configs:
        for row in made_from(config, rows):
            source = (row["repository"], row["commit"], row["licence"])
            configs = by_source.setdefault(source, [])
            if config.name not in configs:
                configs.append(config.name)
    return by_source


def _notices(folder: Path, sources: Mapping[_Source, list[str]]) -> dict[str, str]:
    """Return the copyright notice of each repository; blank where ``notices.csv`` has none."""
    notices = {repository: "" for repository, *_ in sources}
    table = folder / "notices.csv"
    if table.exists():
        for row in read_table(table, ("repository", "notice")):
            notices[row["repository"]] = row["notice"]
    return notices


def _licence_texts(folder: Path, sources: Mapping[_Source, list[str]]) -> dict[str, str]:
    """Return the text of each licence that has a file here, by its name."""
    texts = {}
    for name in sorted({licence for *_, licence in sources}):
        path = folder / f"{name}.txt"
        if path.exists():
            texts[name] = path.read_text(encoding="utf-8").strip()
    return texts


def source_url(repository: str, commit: str) -> str:
    """Return the address of a source.

    Args:
        repository: OWNER/NAME on GitHub, or the address as ``sources.csv`` has it.
        commit: a commit or tag there.

    Returns:
        the address.
    """
    return repository if is_url(repository) else f"https://github.com/{repository}/tree/{commit}"
