"""The card of a corpus: metadata, features, sources and licences around its README."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from datasets import DatasetInfo

from swapbias.hub.card_parts import names_in_short, opening, published_code, size_category
from swapbias.hub.cards import CARD, TAGS, dump, rendered
from swapbias.hub.licences import licences, made_from, source_url
from swapbias.hub.run_cards import configs_yaml
from swapbias.privacy import credentialed
from swapbias.studies import (
    PROMPT_COLUMNS,
    Config,
    Corpus,
    corpus_dir,
    prompt,
    tables,
)

NAMESPACE = "NS"  # in a card that is not published: the user or organisation it would lie under
SECTION = "Columns"  # of a README: a table of column, its configs, meaning
RECIPE = "From rows to a finding"  # of a README: code, with which the card ends
_REFERENCES = re.compile(r"^References: (.+)$", re.MULTILINE)
_LANGUAGES = re.compile(r"^Language: (.+)$", re.MULTILINE)
_KEY = re.compile(r"`([^`]+)`")
_ENTRY = re.compile(r"^@\w+\{([^,\s]+),\n.*?^\}", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", re.MULTILINE)
# Of a README: the card has its own.
_CONFIGS = re.compile(r"^\| config \| rows \|.*?\n\n", re.MULTILINE | re.DOTALL)
MOST_LETTERS = 400
"""Of a line of a card."""
_MOST_LINES = 200  # of a card that has the types of columns in its metadata
_TASKS = {
    "masked": "fill-mask",
    "classifier": "text-classification",
    "causal": "text-generation",
    "chat": "text-generation",
    "embedding": "feature-extraction",
    "retrieval": "sentence-similarity",
}
_STRUCTURES = {  # types that hold others
    "candidates": "list of `text` (string) and `value` (float64)",
    "messages": "list of `role` and `content` (strings)",
}
Infos = Mapping[str, DatasetInfo]  # of configs that were written, by name


# --- parts of a README ------------------------------------------------------------------------------------


def section(text: str, title: str) -> str:
    """Return a section of a Markdown text.

    Args:
        text: the text.
        title: the title of the section, a heading of level 2.

    Returns:
        the section, heading and all; blank where there is none.
    """
    pattern = rf"^## {re.escape(title)}\n.*?(?=^## |\Z)"
    match = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    return match[0] if match else ""


def citation(corpus_name: str) -> str:
    """Return the BibTeX entries that the ``References:`` line of a corpus' README names.

    Args:
        corpus_name: name of the corpus.

    Returns:
        the entries; blank where it names none.

    Raises:
        ValueError: a reference that is not in ``references.bib``.
    """
    folder = corpus_dir(corpus_name)
    line = _REFERENCES.search(_readme(corpus_name))
    keys = _KEY.findall(line[1]) if line else []
    if not keys:
        return ""
    text = (folder.parent / "references.bib").read_text(encoding="utf-8")
    entries = {match[1]: match[0] for match in _ENTRY.finditer(text)}
    for key in keys:
        if key not in entries:
            raise ValueError(
                f"{corpus_name}/{CARD}: reference {key!r} is not in references.bib. Add an entry for it."
            )
    return "\n\n".join(entries[key] for key in keys)


def _readme(corpus_name: str) -> str:
    """Read the README of a corpus of the package."""
    return (corpus_dir(corpus_name) / CARD).read_text(encoding="utf-8-sig")


# --- the card ---------------------------------------------------------------------------------------------


def dataset_card(
    corpus: Corpus,
    infos: Infos,
    *,
    namespace: str = NAMESPACE,
    withheld: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Write the card of a corpus of the package.

    Args:
        corpus: the corpus.
        infos: the configs that were written.
        namespace: the user or organisation under which it lies.
        withheld: configs that are not published, with the licences that do not allow it.

    Returns:
        the whole README, with its header.

    Raises:
        ValueError: a column without a meaning, or a reference that is not in ``references.bib``.
    """
    written = tuple(config for config in corpus.configs if config.name in infos)
    corpus = replace(corpus, configs=written)
    readme = _CONFIGS.sub("", _readme(corpus.name))
    recipe = section(readme, RECIPE)
    for part in (section(readme, SECTION), recipe):  # the first stands below Features
        if part:
            readme = readme.replace(part, "")
    recipe = published_code(recipe, namespace)
    readme = _REFERENCES.sub(lambda _: f"```bibtex\n{citation(corpus.name)}\n```", readme)
    title, about, rest = [*readme.strip().split("\n\n", 2), "", ""][:3]
    sources = tables.outside_sources(corpus.name)
    first, example = opening(corpus, [*infos]) if infos else ("", "")
    split = next(iter(infos[first].splits), "") if infos else ""
    body = rendered(
        "dataset_card.md.j2",
        title=title,
        about=about,
        readme=rest.strip(),
        namespace=namespace,
        corpus=corpus,
        infos=infos,
        first=first,
        split=split,
        example=example,
        asks_chat=_asks_chat_alone(corpus),
        withheld=withheld,
        features=list(features(corpus)),
        sources=_sources(corpus),
        holding=[f"`{config.name}`" for config in corpus.configs if made_from(config, sources)],
        recipe=recipe.strip(),
    )
    return f"{_header(corpus, infos, body=body)}\n{body}\n"


def _asks_chat_alone(corpus: Corpus) -> bool:
    """Tell whether all experiments of a corpus are of chat models."""
    experiments = corpus.study.experiments if corpus.study else ()
    return bool(experiments) and all(experiment.kind == "chat" for experiment in experiments)


def _sources(corpus: Corpus) -> list[str]:
    """Return a line of a table for each outside source: address, licence, uses; several where a line is long."""
    uses: dict[tuple[str, str, str], dict[str, int]] = {}
    for source in tables.outside_sources(corpus.name):
        link = source_url(source["repository"], source["commit"])
        counts = uses.setdefault((source["repository"], link, source["licence"]), {})
        counts[source["used_for"]] = counts.get(source["used_for"], 0) + 1
    lines = []
    for (repository, link, licence), counts in uses.items():
        head = f"| [{repository}]({link}) | {licence} | "
        texts = [f"{use} ({count})" if count > 1 else use for use, count in counts.items()]
        for line in _packed(texts, MOST_LETTERS - len(head) - len(" |"), separator="; "):
            lines.append(f"{head}{line} |")
    return lines


def local_card(corpus: Corpus, infos: Infos, *, is_credentialed: bool) -> str:
    """Write the card of a corpus made from a folder of one's own, without the README, which tells of other rows.

    Args:
        corpus: the corpus.
        infos: the configs that were written.
        is_credentialed: whether rows are of credentialed notes.

    Returns:
        the whole README, with its header.
    """
    rows = "\n".join(f"- `{name}`: {row_count(info)} rows" for name, info in infos.items())
    note = ""
    if is_credentialed:
        note = f"{credentialed.WARNING}\n\n{credentialed.HOW_TO_READ}\n\n"
    title = corpus.title.capitalize()
    body = f"{note}# {corpus.name}\n\n{title}.\n\n{rows}"
    return f"{_header(corpus, infos, body=body, of_package=False)}\n{body}\n"


def row_count(info: DatasetInfo) -> int:
    """Count the rows of a config over its splits.

    Args:
        info: the description of the config.

    Returns:
        the number of rows.
    """
    return sum(split.num_examples for split in info.splits.values())


# --- metadata ---------------------------------------------------------------------------------------------


def _header(corpus: Corpus, infos: Infos, *, body: str, of_package: bool = True) -> str:
    """Write the metadata: sizes of splits, and types of columns where they leave the card short.

    In any case types are in the Parquet files, where ``datasets`` and the viewer read them.
    """
    names = licences(corpus)
    rows = sum(row_count(info) for info in infos.values())
    paths = {
        name: {split: f"{name}/{split}-*.parquet" for split in info.splits}
        for name, info in infos.items()
    }
    values = {
        "pretty_name": corpus.name.replace("_", " ").capitalize(),
        "license": names[0] if len(names) == 1 else names,
        "language": _languages(corpus),
        "task_categories": sorted(_task_categories(corpus, infos)),
        "size_categories": [size_category(rows)],
        "source_datasets": _origins(corpus, infos) if of_package else [],
        "tags": [*TAGS, *corpus.tags],
        "dataset_info": _config_infos(infos, with_features=True),
        "configs": configs_yaml(paths),
    }
    header = _header_text(values)
    if len(f"{header}\n{body}".splitlines()) <= _MOST_LINES:
        return header
    return _header_text({**values, "dataset_info": _config_infos(infos, with_features=False)})


def _header_text(values: Mapping[str, Any]) -> str:
    """Write the metadata that is there."""
    return f"---\n{dump({name: value for name, value in values.items() if value}, flow=None)}---\n"


def _config_infos(infos: Infos, *, with_features: bool) -> list[dict[str, Any]]:
    """Return what ``load_dataset_builder`` shows as ``info`` of each config: its splits, and its columns."""
    entries: list[dict[str, Any]] = []
    for name, info in infos.items():
        entry: dict[str, Any] = {"config_name": name}
        if with_features:
            entry["features"] = info.features._to_yaml_list()
        entry["splits"] = [
            {
                "name": split.name,
                "num_bytes": split.num_bytes,
                "num_examples": split.num_examples,
            }
            for split in info.splits.values()
        ]
        entries.append(entry)
    return entries


def _languages(corpus: Corpus) -> list[str]:
    """Return the codes of languages that the README of a corpus names, else English."""
    card = corpus_dir(corpus.name) / CARD
    if not card.is_file():  # that of a user's own corpus lies elsewhere
        return ["en"]
    line = _LANGUAGES.search(card.read_text(encoding="utf-8-sig"))
    return _KEY.findall(line[1]) if line else ["en"]


def _task_categories(corpus: Corpus, infos: Infos) -> set[str]:
    """Return the Hub's names for what models do with the written configs; ``other`` of tables of words."""
    experiments = corpus.study.experiments if corpus.study else ()
    reading = [experiment for experiment in experiments if {*experiment.reads.configs} & {*infos}]
    tasks = {
        _TASKS[experiment.kind]
        for experiment in reading or experiments
        if experiment.kind in _TASKS
    }
    columns = [set(info.features) for info in infos.values()]
    if not tasks and any({"text", "label"} <= names for names in columns):
        return {"text-classification"}
    if not tasks and any({"text", "counterfactual"} <= names for names in columns):
        return {"text-generation"}
    return tasks or {"other"}


def _origins(corpus: Corpus, infos: Infos) -> list[str]:
    """Return the Hub's names for whether rows are new, or made from those of others."""
    sources = tables.outside_sources(corpus.name)
    of_others = {bool(made_from(corpus.config(name), sources)) for name in infos}
    origins = []
    if False in of_others:
        origins.append("original")
    if True in of_others:
        origins.append("extended|other")
    return origins


# --- columns ----------------------------------------------------------------------------------------------


def features(corpus: Corpus) -> Iterator[tuple[str, str, str]]:
    """Yield each column of any config with its meaning.

    Args:
        corpus: the corpus.

    Returns:
        column, type and meaning; where configs differ, each meaning after the configs that have it, in several lines
        where they make a long one.

    Raises:
        ValueError: a column without a meaning.
    """
    cells: dict[tuple[str, str], dict[str, list[str]]] = {}
    for config in corpus.configs:
        for column, meaning in meanings(corpus, config):
            key = (f"`{column}`", _type_name(config, column))
            cells.setdefault(key, {}).setdefault(meaning, []).append(config.name)
    all_names = [config.name for config in corpus.configs]
    for (column, kind), configs_by_meaning in cells.items():
        texts = []
        for meaning, names in configs_by_meaning.items():
            short = names_in_short(names, all_names)
            texts.append(f"{short}: {meaning}" if short else meaning)
        for line in _packed(texts, MOST_LETTERS - len(f"| {column} | {kind} |  |")):
            yield column, kind, line


def _packed(texts: Sequence[str], room: int, *, separator: str = "<br>") -> list[str]:
    """Join texts into lines that have room for them, each into the first that has."""
    lines: list[str] = []
    for text in texts:
        length = len(separator) + len(text)
        number = next((at for at, line in enumerate(lines) if len(line) + length <= room), None)
        if number is None:
            lines.append(text)
        else:
            lines[number] += f"{separator}{text}"
    return lines


def _type_name(config: Config, column: str) -> str:
    """Name the type of a column, with its parts or classes."""
    kind = config.type_of(column)
    if isinstance(kind, str):
        return _STRUCTURES.get(kind, kind)
    return f"class: {', '.join(f'{number} `{name}`' for number, name in enumerate(kind))}"


def meanings(corpus: Corpus, config: Config) -> Iterator[tuple[str, str]]:
    """Yield each column of a config with its meaning: of its README's table, or what all prompts say of it.

    Args:
        corpus: the corpus.
        config: one of its configs.

    Returns:
        column and meaning.

    Raises:
        ValueError: a column without a meaning.
    """
    in_table = {}
    for column, names, meaning in _ROW.findall(section(_readme(corpus.name), SECTION)):
        patterns = _KEY.findall(names)
        if not patterns or any(fnmatchcase(config.name, pattern) for pattern in patterns):
            in_table[column] = meaning
    of_prompts: Mapping[str, str] = {}
    if config.columns[: len(PROMPT_COLUMNS)] == PROMPT_COLUMNS:
        of_prompts = prompt.prompt_meanings()
    for column in config.published_columns:
        meaning = in_table.get(column) or of_prompts.get(column, "")
        if not meaning:
            raise ValueError(
                f"{corpus.name}/{CARD}: column {column!r} of config {config.name!r} has no meaning. Add a row to its "
                f"table under '## {SECTION}'."
            )
        yield column, meaning
