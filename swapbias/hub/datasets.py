"""Corpora as folders with a card that ``load_dataset`` reads, and on the Hub."""

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from reprlib import Repr
from typing import Any, NamedTuple, Unpack

import pyarrow as pa
from datasets import (
    ArrowBasedBuilder,
    DatasetInfo,
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)
from datasets.exceptions import DatasetGenerationError
from datasets.splits import SplitGenerator

from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.files import CREDENTIALED, OWNER_FOLDER, atomic_directory, is_url
from swapbias.hub.cards import CARD, TAGS, configs_yaml, dump, rendered, size_category
from swapbias.hub.client import Hub, Push, PushOptions, Repo, Say, push_repo
from swapbias.privacy import credentialed, refuse
from swapbias.studies import (
    PROMPT_COLUMNS,
    Config,
    Corpus,
    catalogue,
    config_rows,
    corpus_dir,
    corpus_file,
    load_corpus,
    prompt,
    read_table,
    tables,
)

MARKER = ".swapbias-corpus"  # tells a folder that may be replaced from a user's own
SHARD_BYTES = 256 * 2**20  # of rows in one Parquet file
GROUP = 1_000  # rows of a row group in it
OTHER_LICENCE = "other"  # of a corpus that was made from a folder of the user's
NAMESPACE = "NS"  # in a card that is not published: the user or organisation it would lie under

# --- rows as Parquet --------------------------------------------------------------------------------------


class CorpusBuilder(ArrowBasedBuilder):  # type: ignore[misc]
    """One config of a corpus for ``datasets``, which writes its rows; ``credentialed`` once one of them was."""

    def __init__(self, corpus: Corpus, config: Config, *, cache_dir: Path) -> None:
        self.corpus = corpus
        self.corpus_config = config
        self.credentialed = False
        named = {
            "dataset_name": corpus.name,
            "config_name": config.name,
            "version": corpus.version,
            "hash": "build",
        }
        super().__init__(cache_dir=str(cache_dir), **named)

    def _info(self) -> DatasetInfo:
        return DatasetInfo(features=catalogue.config_features(self.corpus_config))

    def _split_generators(self, dl_manager: Any) -> list[SplitGenerator]:
        """Everything that can be wrong with tables is found here: errors of generators are buried by ``datasets``."""
        config = self.corpus_config
        if config.stored:
            for path in config.upstream:
                tables.upstream_file(self.corpus.name, path)
            return [SplitGenerator(config.split, gen_kwargs={"rows": None})]
        by_split: dict[str, list[dict[str, str]]] = {}
        for row in config_rows(self.corpus, config.name):
            by_split.setdefault(
                row[config.split_column] if config.split_column else config.split, []
            ).append(row)
        # As a tuple: datasets would take the members of a list for shards.
        return [
            SplitGenerator(split, gen_kwargs={"rows": tuple(rows)})
            for split, rows in by_split.items()
        ]

    def _generate_tables(
        self, rows: Iterable[Mapping[str, str]] | None
    ) -> Iterator[tuple[int, pa.Table]]:
        every = iter(self.corpus_config.rows() if rows is None else rows)
        schema = self.info.features.arrow_schema
        for number, batch in enumerate(iter(lambda: list(islice(every, GROUP)), [])):
            self.credentialed |= any(row.get("credentialed") == "True" for row in batch)
            yield (
                number,
                pa.Table.from_pylist([*self.corpus_config.typed_rows(batch)], schema=schema),
            )


# --- licences and sources ---------------------------------------------------------------------------------

LICENCES = "LICENSES.md"  # the file beside a card that holds the notices of what others wrote
# In lower case: licences that the Hub has under another name, or under none.
_ON_THE_HUB = {
    "pddl-1.0": "pddl",
    "odc-by-1.0": "odc-by",
    "unicode-3.0": OTHER_LICENCE,
    "mit-0": OTHER_LICENCE,
    "0bsd": OTHER_LICENCE,
    "not stated": OTHER_LICENCE,
}
Pins = Mapping[str, Mapping[str, str]]  # path -> row of sources.csv
_REFERENCES = re.compile(r"^References: (.+)$", re.MULTILINE)
_LANGUAGE = re.compile(r"^Language: `([a-z-]+)`$", re.MULTILINE)
_KEY = re.compile(r"`([^`]+)`")
_ENTRY = re.compile(r"^@\w+\{([^,\s]+),\n.*?^\}", re.MULTILINE | re.DOTALL)


def withheld_configs(corpus: Corpus) -> dict[str, list[str]]:
    """The configs that are not published, with the licences that do not allow it (``not stated`` is one of them)."""
    pins = tables.pinned_files(corpus.name)
    found = {
        config.name: sorted(
            {pins[path]["licence"] for path in _made_from(config, pins)}
            - {*corpus_file.REDISTRIBUTABLE}
        )
        for config in corpus.configs
    }
    return {name: refused for name, refused in found.items() if refused}


def licences(corpus: Corpus) -> list[str]:
    """The licences of what the configs of a corpus hold, its own first, by the names that the Hub has for them."""
    pins = tables.pinned_files(corpus.name)
    upstream = {
        pins[path]["licence"].lower()
        for config in corpus.configs
        for path in _made_from(config, pins)
    }
    own = corpus.licence.lower()
    others = sorted({_ON_THE_HUB.get(licence, licence) for licence in upstream} - {own})
    return [own, *others]


def _made_from(config: Config, pins: Pins) -> list[str]:
    """The upstream files whose content is in a config: those it reads, and those a table of ours was taken from."""
    named = {
        config.name,
        "every config",
    }  # with which, and a colon, the ``used_for`` of the latter begins
    copied = [
        path
        for path, pin in pins.items()
        if named & {*pin["used_for"].partition(":")[0].split(", ")}
    ]
    return [*config.upstream, *copied]


def licences_file(corpus: Corpus) -> bytes | None:
    """``LICENSES.md``: for each repository whose content is in the configs, commit, licence and copyright notice."""
    pins = tables.pinned_files(corpus.name)
    folder = corpus_dir(corpus.name)
    grouped: dict[tuple[str, str, str], dict[str, None]] = {}  # an ordered set of configs
    for config in corpus.configs:
        for pin in (pins[path] for path in _made_from(config, pins)):
            grouped.setdefault((pin["repository"], pin["commit"], pin["licence"]), {})[
                config.name
            ] = None
    if not grouped:
        return None
    table = folder / "notices.csv"
    rows = read_table(table, ("repository", "notice")) if table.exists() else []
    notices = dict.fromkeys((one for one, *_ in grouped), "") | {
        row["repository"]: row["notice"] for row in rows
    }
    texts = {
        name: path.read_text(encoding="utf-8").strip()
        for name in sorted({licence for _, _, licence in grouped})
        if (path := folder.parent / f"{name}.txt").exists()
    }
    links = {source[0]: source_url(*source[:2]) for source in grouped}
    values = {
        "corpus": corpus,
        "grouped": grouped,
        "notices": notices,
        "texts": texts,
        "links": links,
    }
    return f"{rendered('licences.md.j2', **values)}\n".encode()


def source_url(repository: str, commit: str) -> str:
    """Return the address of a source: of a repository on GitHub at a commit or tag, or as ``sources.csv`` has it."""
    return repository if is_url(repository) else f"https://github.com/{repository}/tree/{commit}"


def citation(corpus_name: str) -> str:
    """The BibTeX entries that the ``References:`` line of a corpus' README names; blank where it names none."""
    folder = corpus_dir(corpus_name)
    named = _REFERENCES.search((folder / CARD).read_text(encoding="utf-8-sig"))
    keys = _KEY.findall(named[1]) if named else []
    text = (folder.parent / "references.bib").read_text(encoding="utf-8") if keys else ""
    entries = {found[1]: found[0] for found in _ENTRY.finditer(text)}
    for key in keys:
        if key not in entries:
            raise ValueError(
                f"{corpus_name}/{CARD}: reference {key!r} is not in references.bib. Add an entry for it."
            )
    return "\n\n".join(entries[key] for key in keys)


# --- the card ---------------------------------------------------------------------------------------------

SECTION = "Columns"  # of a README: a table of column, its configs, meaning
RECIPE = "From rows to a finding"  # of a README: code, with which the card ends
_ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", re.MULTILINE)
_CONFIGS = re.compile(
    r"^\| config \| rows \|.*?\n\n", re.MULTILINE | re.DOTALL
)  # of a README: the card has its own
_TASKS = {
    "masked": "fill-mask",
    "classifier": "text-classification",
    "causal": "text-generation",
    "chat": "text-generation",
    "embedding": "feature-extraction",
}
_STRUCTURES = {  # types that hold others
    "candidates": "list of `text` (string) and `value` (float64)",
    "messages": "list of `role` and `content` (strings)",
}
Infos = Mapping[str, DatasetInfo]  # of configs that were written, by name


def section(text: str, title: str) -> str:
    """The section of that title of a Markdown text, heading and all; blank where there is none."""
    found = re.search(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def dataset_card(
    corpus: Corpus,
    infos: Infos,
    *,
    namespace: str = NAMESPACE,
    withheld: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The card of a corpus of the package, of the configs (``infos``) that were written, and those ``withheld``.

    ValueError: a column without a meaning, or a reference that is not in ``references.bib``.
    """
    corpus = replace(
        corpus, configs=tuple(config for config in corpus.configs if config.name in infos)
    )
    readme = _CONFIGS.sub("", (corpus_dir(corpus.name) / CARD).read_text(encoding="utf-8-sig"))
    # the first stands below Features
    columns = section(readme, SECTION)
    recipe = section(readme, RECIPE)
    for moved in filter(None, (columns, recipe)):
        readme = readme.replace(moved, "")
    readme = _REFERENCES.sub(lambda _: f"```bibtex\n{citation(corpus.name)}\n```", readme)
    title, about, rest = [*readme.strip().split("\n\n", 2), "", ""][:3]
    pins = tables.pinned_files(corpus.name)
    first = next(iter(infos), "")
    split = next(iter(infos[first].splits), "") if infos else ""
    sources: dict[tuple[str, str, str], list[str]] = {}
    for source in tables.outside_sources(corpus.name):
        link = source_url(source["repository"], source["commit"])
        sources.setdefault((source["repository"], link, source["licence"]), []).append(
            source["used_for"]
        )
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
        example=_example(corpus.config(first), split) if infos else "",
        withheld=withheld,
        features=list(features(corpus)),
        sources=sources,
        holding=[f"`{config.name}`" for config in corpus.configs if _made_from(config, pins)],
        recipe=recipe.replace('"NS/', f'"{namespace}/')
        .replace('"VERSION"', f'"v{corpus.version}"')
        .strip(),
    )
    return f"{_header(corpus, infos)}\n{body}\n"


def _example(config: Config, split: str) -> str:
    """The first row of a split as it is published, as a comment: long texts and lists are cut."""
    short = Repr()
    short.maxstring = 60
    short.maxlist = 2
    rows = (
        config.typed(row)
        for row in config.rows()
        if not config.split_column or row[config.split_column] == split
    )
    return "".join(
        f"# {{{', '.join(f'{name!r}: {short.repr(value)}' for name, value in row.items())}}}\n"
        for row in islice(rows, 1)
    )


def local_card(corpus: Corpus, infos: Infos, *, is_credentialed: bool) -> str:
    """The card of a corpus made from a folder of one's own: without the README, which tells of other rows."""
    rows = "\n".join(f"- `{name}`: {_count(info)} rows" for name, info in infos.items())
    note = f"{credentialed.WARNING}\n\n{credentialed.HOW_TO_READ}\n\n" if is_credentialed else ""
    return f"{_header(corpus, infos, own=True)}\n{note}# {corpus.name}\n\n{corpus.title.capitalize()}.\n\n{rows}\n"


def _count(info: DatasetInfo) -> int:
    return sum(split.num_examples for split in info.splits.values())


def _header(corpus: Corpus, infos: Infos, *, own: bool = False) -> str:
    """The metadata; types of columns are in the Parquet files, where ``datasets`` and the viewer read them."""
    names = licences(corpus)
    pins = tables.pinned_files(corpus.name)
    made = {bool(_made_from(corpus.config(name), pins)) for name in infos}
    experiments = corpus.study.experiments if corpus.study else ()
    tasks = {
        _TASKS[one.kind]
        for one in experiments
        if one.kind in _TASKS and set(one.reads.configs) & set(infos)
    }
    if not corpus.study and any({"text", "label"} <= set(info.features) for info in infos.values()):
        tasks.add("text-classification")
    card = corpus_dir(corpus.name) / CARD  # that of a user's own corpus lies elsewhere
    language = _LANGUAGE.search(card.read_text(encoding="utf-8-sig")) if card.is_file() else None
    origins = [
        name for name, others in (("original", False), ("extended|other", True)) if others in made
    ]
    paths = {
        name: {split: f"{name}/{split}-*.parquet" for split in info.splits}
        for name, info in infos.items()
    }
    values = {
        "pretty_name": corpus.title,
        "license": names[0] if len(names) == 1 else names,
        "language": [language[1] if language else "en"],
        "task_categories": sorted(tasks),
        "size_categories": [size_category(sum(map(_count, infos.values())))],
        "source_datasets": [] if own else origins,
        "tags": [*TAGS, *corpus.tags],
        "configs": configs_yaml(paths),
    }
    return f"---\n{dump({name: one for name, one in values.items() if one}, flow=None)}---\n"


def features(corpus: Corpus) -> Iterator[tuple[str, str, str]]:
    """Each column of any config with type and meaning, or each meaning after the configs that have it."""
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for config in corpus.configs:
        for column, meaning in meanings(corpus, config):
            kind = config.type_of(column)
            kind = _STRUCTURES.get(kind, kind) if isinstance(kind, str) else kind
            if not isinstance(kind, str):
                kind = f"class: {', '.join(f'{n} `{name}`' for n, name in enumerate(kind))}"
            found.setdefault((f"`{column}`", kind), {}).setdefault(meaning, []).append(config.name)
    for (column, kind), texts in found.items():
        cell = []
        for text, names in texts.items():
            others = [one.name for one in corpus.configs if one.name not in names]
            few, but = (others, "all but ") if len(others) < len(names) else (names, "")
            cell.append(
                f"{but}{', '.join(f'`{name}`' for name in few)}: {text}" if others else text
            )
        yield column, kind, "<br>".join(cell)


def meanings(corpus: Corpus, config: Config) -> Iterator[tuple[str, str]]:
    """Each column of a config with its meaning: of its README's table, or what all prompts say of it."""
    text = section((corpus_dir(corpus.name) / CARD).read_text(encoding="utf-8-sig"), SECTION)
    own = {
        column: meaning
        for column, names, meaning in _ROW.findall(text)
        if not (patterns := _KEY.findall(names))
        or any(fnmatchcase(config.name, one) for one in patterns)
    }
    prompts = (
        prompt.PROMPT_MEANINGS if config.columns[: len(PROMPT_COLUMNS)] == PROMPT_COLUMNS else {}
    )
    for column in config.published:
        meaning = own.get(column) or prompts.get(column, "")
        if not meaning:
            raise ValueError(
                f"{corpus.name}/{CARD}: column {column!r} of config {config.name!r} has no meaning. Add a row to its "
                f"table under '## {SECTION}'."
            )
        yield column, meaning


# --- folders ----------------------------------------------------------------------------------------------


class BuiltConfig(NamedTuple):
    """One config: written with so many rows, or left out for a reason."""

    config: str
    rows: int
    reason: str = ""


def build(
    corpus: Corpus,
    out: Path,
    *,
    namespace: str = NAMESPACE,
    withheld: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[BuiltConfig]:
    """Write a corpus to ``out/<corpus>``: Parquet by config and split, and the card.

    An older build is replaced as a whole. ``namespace`` and ``withheld`` are for the card. UsageError: a folder that
    no build made. ValueError: a broken table.
    """
    target = out / corpus.name
    if target.exists() and not (target / MARKER).exists() and any(target.iterdir()):
        raise UsageError(
            f"{target} holds something else than a built corpus. Choose another --out."
        )
    with atomic_directory(target) as making:
        infos: dict[str, DatasetInfo] = {}
        for config in corpus.configs:
            try:
                infos[config.name] = info = write_config(making / config.name, corpus, config)
            except UpstreamMissingError as error:
                yield BuiltConfig(config.name, 0, str(error))
                continue
            yield BuiltConfig(config.name, _count(info))
        any_credentialed = (making / CREDENTIALED).exists()
        if corpus.licence == OTHER_LICENCE:  # not ours to describe
            card = local_card(corpus, infos, is_credentialed=any_credentialed)
        else:
            card = dataset_card(corpus, infos, namespace=namespace, withheld=withheld)
            present = tuple(one for one in corpus.configs if one.name in infos)
            if notices := licences_file(replace(corpus, configs=present)):
                (making / LICENCES).write_bytes(notices)
        (making / CARD).write_text(card, encoding="utf-8")
        (making / MARKER).write_text(f"{corpus.name} {corpus.version}\n", encoding="utf-8")
        for path in (
            making.rglob("*") if any_credentialed else ()
        ):  # until here the folder itself was closed
            path.chmod(OWNER_FOLDER if path.is_dir() else 0o600)


def write_config(folder: Path, corpus: Corpus, config: Config) -> DatasetInfo:
    """Write a config into a new folder of Parquet files; UpstreamMissingError: nothing is written."""
    scratch = folder.with_name(f".{folder.name}")
    shown = not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        builder = CorpusBuilder(corpus, config, cache_dir=scratch)
        builder.download_and_prepare(
            str(scratch / "made"), file_format="parquet", max_shard_size=SHARD_BYTES
        )
        folder.mkdir()
        for path in sorted((scratch / "made").glob("*.parquet")):
            split = path.stem.removeprefix(f"{corpus.name}-")
            path.rename(folder / f"{split}{'' if '-of-' in split else '-00000-of-00001'}.parquet")
        if builder.credentialed:
            credentialed.mark(folder.parent)
    except DatasetGenerationError as error:
        if isinstance(error.__cause__, ValueError):  # the sentence on the rows
            raise error.__cause__ from None
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if shown:
            enable_progress_bars()
    return builder.info


def push_dataset(
    hub: Hub, corpus_name: str, *, namespace: str, **options: Unpack[PushOptions]
) -> Push:
    """Build a corpus of the package and publish it as ``namespace/corpus_name``, tagged with its version.

    UpstreamMissingError: a config that is published needs a file that is not at hand. Else as ``push_repo``.
    """
    corpus = load_corpus(corpus_name)
    hint = (
        f"raise version in datasets_src/{corpus.name}/corpus.toml (now {corpus.version}), or if no row changed "
        "install with constraints.txt (another pyarrow writes other bytes)"
    )
    with tempfile.TemporaryDirectory(prefix="swapbias-push-") as scratch:
        files = dataset_files(corpus, Path(scratch), namespace=namespace, say=options["say"])
        repo = Repo("dataset", f"{namespace}/{corpus.name}")
        return push_repo(hub, repo, files, tag=f"v{corpus.version}", version_hint=hint, **options)


def dataset_files(
    corpus: Corpus, out: Path, *, namespace: str, say: Say
) -> dict[str, bytes | Path]:
    """The files of a published dataset by path, built below ``out``."""
    withheld = withheld_configs(corpus)
    for name, licences in withheld.items():
        say(
            f"{corpus.name} {name}: not published, its upstream files have the licence: {', '.join(licences)}"
        )
    published = replace(
        corpus, configs=tuple(one for one in corpus.configs if one.name not in withheld)
    )
    for built in build(published, out, namespace=namespace, withheld=withheld):
        if built.reason:
            raise UpstreamMissingError(
                f"{corpus.name} is not pushed, for it would go without its config {built.config}: {built.reason}"
            )
        say(f"{corpus.name} {built.config}: {built.rows} rows")
    folder = out / corpus.name
    refuse(folder, "published")
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)
    return {path.relative_to(folder).as_posix(): path for path in paths}
