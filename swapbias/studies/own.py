"""A study of one's own: a folder of tables or one table of prompts, as a Study like those of the package.

Data only: ``study.toml`` is read by tomllib, tables as CSV, and nothing that a folder holds is run.
"""

import csv
import json
import logging
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files as resources
from itertools import compress
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError, quoted
from swapbias.files import LOCK, locked, write_whole
from swapbias.studies.catalogue import load_study, register
from swapbias.studies.declaration import CHAT, DECLARATION, KINDS, NAME, Declared
from swapbias.studies.draft import (
    LEXICON,
    MOST_BYTES,
    MOST_VALUES,
    PROMPTS,
    SLOTS,
    STUDY_FILES,
    Columns,
    Draft,
    Files,
    Line,
    Lines,
    lines,
    read_draft,
)
from swapbias.studies.fills import FILLS, Fills, fills_of
from swapbias.studies.prompt import PLACEBO_COLUMNS, PROMPT_COLUMNS, placebo
from swapbias.studies.refusals import faults, spellings, unlike_pairs
from swapbias.studies.rows import Row, Rows
from swapbias.studies.study import Config, Corpus, Experiment, Rubric, Slice, Study
from swapbias.studies.tables import Lexicon

_log = logging.getLogger("swapbias")
_UNITS = {
    "masked": "probability mass at the mask",
    "classifier": "probability of positive sentiment",
    "causal": "log-probability",
    CHAT: "share of answers",
}
_HIGHER = {
    "masked": "the model gives words of {group} more probability than those of {reference}",
    "classifier": "texts of {group} score higher than the same ones of {reference}",
    "causal": "texts of {group} are likelier than the same ones of {reference}",
    CHAT: "answers about {group} count more than those about {reference}",
}
_RANDOM = {"template": "templates", "words": "pairs of words", "condition": "conditions", "pair_id": "pairs"}
# Before a run: the spreads in released outputs of gendered_stigma (masked) and occupation_sentiment (classifier),
# those of its noun pairs for templates too, and for pairs that share nothing their sum.
_SPREADS: Mapping[str, Mapping[str, float]] = {
    "masked": {"template": 0.042, "words": 0.042, "condition": 0.115, "pair_id": 0.13, "": 0.035},
    "classifier": {"template": 0.125, "words": 0.125, "condition": 0.048, "pair_id": 0.19, "": 0.136},
    "causal": {},
    CHAT: {},
}
_LIKE = dict.fromkeys(FILLS, "words")  # whose spread is taken for that of fills
_LIMITS = {
    CHAT: "An answer that comes to no decision has no score: see what the gap could be whatever was not answered.",
    "masked": "Only words that are one token of the model's vocabulary can be counted (see the coverage table).",
    "causal": "A text of more or rarer words is less likely whatever it says: swapped words must be alike in both.",
}

# --- what a study is made of --------------------------------------------------------------------------


def open_study(
    source: Any,
    *,
    reference: str = "",
    group: str = "",
    lexicon: Path | str | None = None,
    name: str = "",
    origin: str = "",
) -> Study:
    """A study from a folder, a CSV file, a DataFrame or a Dataset, known by its name from now on.

    It can then be audited, loaded and reported as those of the package, by ``study.name``; one that is opened later
    under the same name takes its place.

    Args:
        source: a folder with ``study.toml`` (see ``swapbias study new``); or one table with the columns ``text``,
            ``group`` and ``pair``: a path of a CSV file, a ``pandas.DataFrame`` or a ``datasets.Dataset``. Columns
            ``template`` and ``condition`` are random factors, others are slices. A text with ``<mask>`` needs the
            words that are counted there: a column ``candidates`` (``she|her``) or a lexicon.
        reference: of a table: the group that is subtracted.
        group: of a table: the group that is compared with it; each other one by default.
        lexicon: of a table: a CSV file with the columns ``word`` and ``group``.
        name: of the study; by default that of the file, or ``prompts``.
        origin: where it comes from, for the manifest of a run (``OWNER/NAME@commit``).

    Raises:
        UsageError: no such folder or file, or a reference that is missing or no group.
        ValueError: a broken table, naming file and line.

    >>> import pandas as pd
    >>> table = pd.DataFrame({
    ...     "text": ["He is late.", "She is late.", "He left.", "She left."],
    ...     "group": ["male", "female"] * 2,
    ...     "pair": ["late", "late", "left", "left"],
    ... })
    >>> study = open_study(table, reference="male", name="punctual")
    >>> [one.name for one in study.experiments], study.experiments[0].group
    (['classifier', 'causal'], 'female')
    """
    told: Any = {"reference": reference, "group": group, "lexicon": lexicon, "name": name}
    try:
        draft, made = _sound(study_files(source, **told))
        corpus = _made(draft, made, origin)
    except UsageError:
        raise
    except ValueError as error:
        raise ValueError(as_named(str(error), source, lexicon)) from error
    for sentence in (*spellings(draft, made), *filter(None, [unlike_pairs(made)])):
        _log.warning("%s", as_named(sentence, source, lexicon))
    register(corpus)
    return load_study(corpus.name)


def reopen_study(folder: Path, origin: str) -> None:
    """Make a study known from the copy that a run keeps of it; ``origin`` is that of the manifest.

    Raises:
        UsageError, ValueError: as ``open_study``.
    """
    register(own_corpus(study_files(folder), origin="" if origin == "local" else origin))


def as_named(sentence: str, source: Any, lexicon: Path | str | None = None) -> str:
    """A sentence about a study that names the user's own CSV files, where it was made from such."""
    for standard, place in ((PROMPTS, source), (LEXICON, lexicon)):
        if isinstance(place, str | Path) and Path(place).expanduser().is_file():
            sentence = sentence.replace(standard, Path(place).name)
    return sentence


def study_files(
    source: Any, *, reference: str = "", group: str = "", lexicon: Path | str | None = None, name: str = ""
) -> dict[str, bytes]:
    """The files of a study by name: those of a folder, or what a table comes to.

    Raises:
        UsageError, ValueError: as ``open_study``.
    """
    place = Path(source).expanduser() if isinstance(source, str | Path) else None
    if place is not None and place.is_dir():
        if reference or group or lexicon:
            raise UsageError(f"{place} says reference, group and words in its files. Drop --reference and the like.")
        return _of_folder(place)
    if place is not None and not place.is_file():
        raise UsageError(f"{source} is no folder of a study and no CSV file. Check the path.")
    if place is not None:
        content, name = _content(place), name or _slug(place.stem)
    else:
        table = source.to_pandas() if hasattr(source, "to_pandas") else source
        if not hasattr(table, "to_csv"):
            raise UsageError(
                f"prompts are a {type(source).__name__}, expected a folder, a CSV file, a DataFrame or a Dataset."
            )
        from swapbias.measures import named_group  # numpy, which reading files does not need

        if "group" in table:
            reference, group = (named_group(one, set(map(str, table["group"]))) for one in (reference, group))
        quotes = csv.QUOTE_NONNUMERIC  # else a carriage return in a text would end its row
        content, name = table.to_csv(index=False, lineterminator="\n", quoting=quotes).encode(), name or "prompts"
    reference, group = str(reference), str(group)
    groups = [group, reference] if group else []
    told = {"name": name, "title": f"Own prompts ({name})", "reference": reference, "groups": groups}
    declaration = "".join(
        f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in told.items() if value
    )
    words = {LEXICON: _content(Path(lexicon).expanduser())} if lexicon else {}
    return {DECLARATION: declaration.encode(), PROMPTS: content, **words}


def _of_folder(folder: Path) -> dict[str, bytes]:
    if not (folder / DECLARATION).is_file():
        raise UsageError(f"{folder} holds no {DECLARATION}. Write one with swapbias study new.")
    return {name: _content(folder / name) for name in STUDY_FILES if (folder / name).is_file()}


def _content(path: Path) -> bytes:
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path.name} has {path.stat().st_size:,} bytes, expected at most {MOST_BYTES:,}. Cut it.")
    return path.read_bytes()


def _slug(text: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:50]
    return slug if NAME.fullmatch(slug) else f"own_{slug}"[:50]


def new_study(folder: Path) -> list[Path]:
    """Write a small complete example of a study into a new folder, named after it; gives the files.

    Raises:
        UsageError: the folder holds something.
    """
    if folder.exists() and (not folder.is_dir() or any(one.name != LOCK for one in folder.iterdir())):
        raise UsageError(f"{folder} is not empty, expected a new folder. Choose another.")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        return _write_example(folder)


def _write_example(folder: Path) -> list[Path]:
    made = []
    for one in sorted(Path(str(resources("swapbias.studies") / "example")).iterdir()):
        text = one.read_text(encoding="utf-8").replace("STUDY_NAME", _slug(folder.resolve().name))
        write_whole(folder / one.name, text.encode())
        made.append(folder / one.name)
    return made


# --- the corpus ---------------------------------------------------------------------------------------


def own_corpus(files: Files, *, origin: str = "") -> Corpus:
    """The corpus that the files of a study come to, with the study that reads it.

    Raises:
        ValueError: broken files: the first fault, naming file and line.
    """
    return _made(*_sound(files), origin)


def _sound(files: Files) -> tuple[Draft, Lines]:
    draft = read_draft(files)
    made = lines(draft)
    if trouble := next(faults(draft, made), ""):
        raise ValueError(trouble)
    return draft, made


def _made(draft: Draft, made: Lines, origin: str) -> Corpus:
    declared = draft.declared
    options = "|".join(declared.answers)

    def answers(line: Line) -> str:
        return options

    lexicons, named = _lexicons(draft, made)
    extra = tuple(one for one in made.filled if one not in (*PROMPT_COLUMNS, *FILLS))
    configs: list[Config] = []
    experiments: list[Experiment] = []
    fixed: dict[str, None] = {}
    others = [one for one in draft.groups if one != declared.reference]
    for group, ending in zip(others, _endings(others), strict=True):
        for masked in (True, False):
            chosen = _chosen(made, group, declared.reference, masked=masked)
            flat = made.at(chosen) if PROMPTS in draft.sheets else ()  # of slots the declaration says what is random
            fills = fills_of(flat, declared.reference)
            fixed |= dict.fromkeys(_fixed(fills, (group, declared.reference)))
            kinds = [one for one in declared.kind or KINDS if (one == "masked") == masked and one != CHAT]
            if CHAT in declared.kind and chosen and not masked:
                asked = _configs(f"questions{ending}", made, chosen, CHAT + ending, extra, answers, fills)
                configs += asked
                names = tuple(one.name for one in asked)
                experiments.append(_experiment(draft, CHAT, group, ending, names, Columns(made, chosen), fills))
            if not chosen or not kinds:
                continue
            mine = _configs(
                f"{'masks' if masked else 'texts'}{ending}", made, chosen, kinds[0] + ending, extra, named, fills
            )
            configs += mine
            names, columns = tuple(one.name for one in mine), Columns(made, chosen)
            experiments += [_experiment(draft, kind, group, ending, names, columns, fills) for kind in kinds]
    if not experiments:
        raise ValueError(f"{DECLARATION}: no text can be read by a model of kind {', '.join(declared.kind)}.")
    limits = [_LIMITS[one] for one in dict.fromkeys(one.kind for one in experiments) if one in _LIMITS]
    study = Study(
        name=declared.name, title=declared.title, url=declared.url, experiments=tuple(experiments),
        limits=(*declared.limits, *fixed, *limits),
    )  # fmt: skip
    return Corpus(
        name=declared.name, title=declared.title, licence=declared.licence, version=declared.version, study=study,
        lexicons=lexicons, configs=tuple(configs), own=dict(draft.files), origin=origin,
    )  # fmt: skip


def _endings(others: Sequence[str]) -> list[str]:
    """What the names of configs and experiments end on, each another; nothing where there is one group.

    >>> _endings(["women"]), _endings(["Black women", "non-binary", "non binary"])
    ([''], ['_black_women', '_2', '_3'])
    """
    slugs = [re.sub(r"[^a-z0-9]+", "_", one.lower()).strip("_") for one in others]
    told = [slug if slug and slugs.count(slug) == 1 else str(number) for number, slug in enumerate(slugs, start=1)]
    return [f"_{one}" for one in told] if len(others) > 1 else [""]


def _chosen(made: Lines, group: str, reference: str, *, masked: bool) -> "array[int]":
    """The places of both groups' lines with a mask, or without one, of the pairs that have the group."""
    first, second = made.groups.get(group, -1), made.groups.get(reference, -1)
    with_group = bytearray(made.units)
    for pair, one, has_mask in zip(made.pair, made.group, made.masked, strict=True):
        with_group[pair] |= one == first and has_mask == masked
    kept = (
        has_mask == masked and one in (first, second) and with_group[pair]
        for pair, one, has_mask in zip(made.pair, made.group, made.masked, strict=True)
    )  # fmt: skip
    return array("q", compress(range(len(made)), kept))


def _lexicons(draft: Draft, made: Lines) -> tuple[dict[str, Callable[[], Lexicon]], Callable[[Line], str]]:
    """The word lists, and what names the words that a line counts: one list, or one a cell that others contradict."""
    corpus = draft.declared.name
    at_masks = array("q", compress(range(len(made)), made.masked))
    cells = {one.counted: one.cells["group"] for one in made.at(at_masks)}
    listed: dict[str, str] = {row["word"]: row["group"] for _, row in draft.sheet(LEXICON).rows}
    written = {cell: group for cell, group in cells.items() if cell not in draft.labels}
    label_of: dict[str, str] = {}
    consistent = len(set(written.values())) == len(written)
    for cell, group in written.items():
        for word in cell.split("|"):
            consistent &= label_of.setdefault(word.strip(), group) == group
    if not written:
        consistent, label_of = True, listed
    if consistent and (not written or not listed):
        groups = {**written, **{one: one for one in draft.labels}}
        return {
            "words": partial(_lexicon, f"{corpus}/words", label_of)
        }, lambda line: f"{corpus}/words/{groups[line.counted]}" if line.counted else ""
    names = {cell: f"cell{number}" for number, cell in enumerate(written, start=1)}
    several: dict[str, Callable[[], Lexicon]] = {
        name: partial(_lexicon, f"{corpus}/{name}", {word.strip(): "counted" for word in cell.split("|")})
        for cell, name in names.items()
    }
    if listed:
        several["words"] = partial(_lexicon, f"{corpus}/words", listed)
    of = {cell: f"{corpus}/{name}/counted" for cell, name in names.items()}
    of |= {one: f"{corpus}/words/{one}" for one in draft.labels}
    return several, lambda line: of.get(line.counted, "")


def _lexicon(name: str, words: Mapping[str, str]) -> Lexicon:
    """Words in lower case are matched in any case, others as they are written."""
    lower = {word: label for word, label in words.items() if word == word.lower()}
    return Lexicon(
        name, lower, {word: label for word, label in words.items() if word not in lower}, rest="other words"
    )


def _configs(
    name: str,
    made: Lines,
    chosen: Sequence[int],
    experiment: str,
    extra: tuple[str, ...],
    named: Callable[[Line], str],
    fills: Fills,
) -> list[Config]:
    """The prompts of one comparison, and its other wordings where there are any."""
    columns = (*PROMPT_COLUMNS, *extra, *fills.random)

    def row(line: Line) -> Row:
        cells = {one: line.cells.get(one, "") for one in columns}
        cells |= fills.cells(cells["pair_id"], cells["template"])
        prompt = f"{cells['pair_id']}/{cells['group']}"
        return {**cells, "prompt_id": prompt, "candidates": named(line), "experiment": experiment}

    def reworded(line: Line) -> Row:
        asked = row(line)
        return placebo(asked, line.wording, asked["text"])

    first, others = (array("q", (one for one in chosen if made.worded[one] == worded)) for worded in (False, True))
    rows = Rows(map(row, made.at(first)))
    configs = [Config(name=name, description="Own prompts", rows=lambda: rows, columns=columns)]
    if others:
        again = Rows(map(reworded, made.at(others)))
        columns_again = (*columns, *PLACEBO_COLUMNS)
        configs.append(
            Config(
                name=f"{name}_wordings",
                description="In other wordings",
                rows=lambda: again,
                columns=columns_again,
            )
        )
    return configs


def _experiment(
    draft: Draft, kind: str, group: str, ending: str, configs: tuple[str, ...], columns: Columns, fills: Fills
) -> Experiment:
    declared, reference = draft.declared, draft.declared.reference
    random = _random(declared, columns, fills, (group, reference))
    return Experiment(
        name=f"{kind}{ending}",
        question=declared.question or declared.title,
        configs=configs[:1],
        placebo=configs[1:],
        kind=kind,
        measure="paired_gap",
        group=group,
        reference_group=reference,
        unit=(declared.unit if kind == "classifier" else "") or _UNITS[kind],
        direction=f"above zero {_HIGHER[kind].format(group=group, reference=reference)}, below zero less; "
        "further from zero is worse",
        scores=_scores(declared, kind),
        reading=declared.reading if kind == CHAT else "",
        rubric=_rubric(draft) if kind == CHAT else None,
        levels=(group, reference),
        random=random,
        spreads={
            one: _SPREADS[kind][_LIKE.get(one, one)] for one in ("", *random) if _LIKE.get(one, one) in _SPREADS[kind]
        },
        slices=tuple(_slices(declared, columns)),
        margin=declared.margin,
    )


def _scores(declared: Declared, kind: str) -> tuple[str, ...]:
    if kind == CHAT:
        more = (
            () if declared.reading == "options" else ("refused", "length", *(("judged",) if declared.rubric else ()))
        )
        return ("score", "unanswered", *more)
    return ("score", "closed_list_mass", "matched_mass") if kind == "masked" else ("score",)


def _rubric(draft: Draft) -> Rubric | None:
    """What a judge is asked; it is shown none of the words that fill a slot of a pair."""
    declared = draft.declared
    if not declared.rubric or declared.reading == "options":
        return None
    cells = ((name, row[name]) for _, row in draft.sheet(SLOTS).rows for name in row if name not in ("pair", "group"))
    words = {value: f"[{name}]" for name, value in cells}
    return Rubric(question=declared.rubric, candidates="|".join(declared.rubric_options), neutral=words)


def _random(declared: Declared, columns: Columns, fills: Fills, groups: tuple[str, str]) -> dict[str, str]:
    """Columns that are a sample, by what they are called: what is named, else what varies; else the pairs.

    Fills of the swapped slot are one wherever a group has several.
    """
    what = "names" if fills.named else "words"
    called = (f"{what} for {groups[0]}", f"{what} for {groups[1]}", f"pairs of {what}")
    filled = {one: name for one, name in zip(FILLS, called, strict=True) if one in fills.random}
    if declared.random:
        named = ["pair_id" if one == "pair" else one for one in declared.random]
        return {one: _RANDOM.get(one, f"values of {one}") for one in named} | filled
    found = {one: _RANDOM[one] for one in ("template", "words", "condition") if len(columns.values.get(one, ())) > 1}
    if fills.templates:
        found = {"template": _RANDOM["template"], **found}
    return found | filled or {"pair_id": _RANDOM["pair_id"]}


def _fixed(fills: Fills, groups: tuple[str, str]) -> Iterator[str]:
    """What is said of a group that stands in every prompt by the same words."""
    for words, group in zip(fills.words, groups, strict=True):
        if len(words) == 1 and words[0]:
            yield f"Every prompt names {group} as {quoted(words[0])}: other names or words may score otherwise."


def _slices(declared: Declared, columns: Columns) -> Iterator[Slice]:
    if declared.slices:
        yield from (Slice("pair_id" if one == "pair" else one, one) for one in declared.slices)
        return
    for column, held in columns.values.items():
        if column in columns.constant - {"pair_id", "text", "group", *FILLS} and 1 < len(held) <= MOST_VALUES:
            yield Slice(column, "pair of words" if column == "words" else column)
