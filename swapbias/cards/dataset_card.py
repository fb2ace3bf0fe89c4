"""The card of a built corpus: its hand-written README under a header that the Hub reads, and what the tables tell."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from swapbias.cards import header
from swapbias.cards.columns import SECTION, features_section, section
from swapbias.cards.escaping import markdown
from swapbias.cards.provenance import SOURCE, licences, references_section, sources_section
from swapbias.credentialed import NOTE as CREDENTIALED_NOTE
from swapbias.declaring import Corpus
from swapbias.sources import corpus_dir
from swapbias.writing import Written

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
    written: Mapping[str, Written],
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
    readme = (corpus_dir(corpus.name) / "README.md").read_text(encoding="utf-8")
    told = section(readme, SECTION)  # all of it stands below Features
    parts = [
        readme.replace(told, "").strip() if told else readme.strip(),
        _loading_section(corpus, written, namespace),
        _building_section(corpus),
        _rows_section(corpus, written),
        _withheld_section(corpus.name, withheld or {}),
        features_section(corpus, written),
        sources_section(corpus),
        references_section(corpus.name),
        _version_section(corpus),
    ]
    return f"{_header(corpus, written)}\n" + "\n\n".join(part for part in parts if part) + "\n"


def local_card(corpus: Corpus, written: Mapping[str, Written], *, credentialed: bool) -> str:
    """The card of a corpus made from a folder of one's own: without the README, which tells of other rows."""
    rows = "\n".join(f"- `{name}`: {made.rows} rows" for name, made in written.items())
    note = f"{CREDENTIALED_NOTE}\n\n" if credentialed else ""
    return f"{_header(corpus, written)}\n{note}# {corpus.name}\n\n{corpus.title.capitalize()}.\n\n{rows}\n"


def _header(corpus: Corpus, written: Mapping[str, Written]) -> str:
    names = licences(corpus)
    tasks = _tasks(corpus, written)
    metadata = {
        "pretty_name": corpus.title,
        "license": names[0] if len(names) == 1 else names,
        "language": ["en"],
        **({"task_categories": tasks} if tasks else {}),
        "size_categories": [_size(sum(made.rows for made in written.values()))],
        "tags": ["bias", "fairness", "swapbias"],
        "configs": [
            _data_files(name, made, default=index == 0) for index, (name, made) in enumerate(written.items())
        ],
        "dataset_info": [_info(name, made) for name, made in written.items()],
    }
    return f"---\n{header.dump(metadata)}---\n"


def _tasks(corpus: Corpus, written: Mapping[str, Written]) -> list[str]:
    """What the study asks models to do; texts with labels are there to be classified."""
    experiments = corpus.study.experiments if corpus.study else ()
    tasks = {_TASKS[one.kind] for one in experiments if one.kind in _TASKS and set(one.configs) & set(written)}
    if not corpus.study and any({"text", "label"} <= set(made.columns) for made in written.values()):
        tasks.add("text-classification")
    return sorted(tasks)


def _size(rows: int) -> str:
    return next((name for limit, name in _SIZES if rows < limit), "n>1M")


def _data_files(config: str, made: Written, *, default: bool) -> dict[str, Any]:
    files = [{"split": split, "path": f"{config}/{split}-*.parquet"} for split in made.splits]
    entry: dict[str, Any] = {"config_name": config, "data_files": files}
    return {**entry, "default": True} if default else entry


def _info(config: str, made: Written) -> dict[str, Any]:
    return {
        "config_name": config,
        "features": [{"name": name, "dtype": "string"} for name in made.columns],
        "splits": [
            {"name": split, "num_bytes": part.bytes, "num_examples": part.rows} for split, part in made.splits.items()
        ],
        "download_size": sum(part.file_bytes for part in made.splits.values()),
        "dataset_size": sum(part.bytes for part in made.splits.values()),
    }


def _loading_section(corpus: Corpus, written: Mapping[str, Written], namespace: str) -> str:
    if not written:
        return ""
    name, made = next(iter(written.items()))
    where = f'"{namespace}/{corpus.name}", "{name}", split="{next(iter(made.splits))}", revision="v{corpus.version}"'
    return "\n".join(
        [
            "## How to load",
            "",
            "```python",
            "from datasets import load_dataset",
            "",
            f"rows = load_dataset({where})",
            "print(rows[0])",
            "```",
        ]
    )


def _building_section(corpus: Corpus) -> str:
    """How to make the rows oneself. It names no release of the package: the card would change with every one."""
    return "\n".join(
        [
            "## How to build",
            "",
            "```bash",
            f'pip install "swapbias @ git+{SOURCE}"',
            f"swapbias build {corpus.name}",
            "```",
            "",
            f"This makes the rows in a folder that `load_dataset` reads, with [swapbias]({SOURCE}). The files "
            f"that this card names and that do not lie beside it are in "
            f"[datasets_src/{corpus.name}]({SOURCE}/tree/main/datasets_src/{corpus.name}).",
        ]
    )


def _rows_section(corpus: Corpus, written: Mapping[str, Written]) -> str:
    lines = ["## Rows", "", "| config | split | rows | what it holds |", "| --- | --- | ---: | --- |"]
    lines += [
        f"| `{name}` | `{split}` | {part.rows:,} | {markdown(corpus.config(name).description)} |"
        for name, made in written.items()
        for split, part in made.splits.items()
    ]
    return "\n".join(lines)


def _withheld_section(corpus: str, withheld: Mapping[str, Sequence[str]]) -> str:
    if not withheld:
        return ""
    lines = ["## Not published", ""]
    lines += [
        f"- `{name}`: the licence of its upstream files ({', '.join(found)}) does not let others pass them on."
        for name, found in withheld.items()
    ]
    return "\n".join(
        [*lines, "", f"`swapbias build {corpus}` makes them on your machine from the authors' own files."]
    )


def _version_section(corpus: Corpus) -> str:
    return (
        f"## Version\n\n{corpus.version}, tagged `v{corpus.version}`. What a tag holds does not change: other rows "
        "or another card get a new version."
    )
