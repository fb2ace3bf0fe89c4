"""A user's own study: a folder of tables or one table of prompts, as a Study like those of the package.

Data only: ``study.toml`` is read by tomllib, tables as CSV, and nothing that a folder holds is run.
"""

import csv
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files as resources
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from swapbias.errors import StudyError, UsageError, quoted
from swapbias.files import LOCK, locked, write_whole
from swapbias.measures import named_group
from swapbias.studies.catalogue import load_study, register
from swapbias.studies.study import (
    MESSAGES,
    PLACEBO,
    PROMPT_COLUMNS,
    Config,
    Corpus,
    Experiment,
    Rubric,
    Slice,
    Study,
    text_of,
    unknown,
)
from swapbias.studies.tables import Lexicon
from swapbias.studies.validation import (
    CVS,
    DECLARATION,
    LEXICON,
    NAMES,
    PROMPTS,
    SLOTS,
    STUDY_FILES,
    Files,
    Parsed,
    advice,
    constant_columns,
    faults,
    options_of,
    parse_study,
    table_column,
    unique_names,
    warnings,
)

EXAMPLES = {"slots": "example", "ranking": "example_ranking"}  # folders of new studies
_log = logging.getLogger("swapbias")
_CONFIGS = {"masks": ("masked",), "questions": ("chat",), "texts": ("classifier", "causal")}  # who reads what
# Of each kind of model the unit of its scores, what a gap above zero means, and a limit for the report.
_KINDS = {
    "masked": (
        "probability mass at the mask",
        "the model gives words of {group} more probability than those of {reference}",
        "Only words that are one token of the model's vocabulary can be counted (see the coverage table).",
    ),
    "classifier": (
        "probability of positive sentiment", "texts of {group} score higher than the same ones of {reference}", "",
    ),
    "causal": (
        "log-probability",
        "texts of {group} are likelier than the same ones of {reference}",
        "A text of more or rarer words is less likely whatever it says: swapped words must be alike in both.",
    ),
    "chat": (
        "share of answers",
        "answers about {group} count more than those about {reference}",
        "An answer that comes to no decision has no score: see what the gap could be whatever was not answered.",
    ),
}  # fmt: skip
_RANDOM = {"template": "templates", "words": "pairs of words", "condition": "conditions", "pair_id": "pairs"}
# Before a run: the spreads in released outputs of gendered_stigma (masked) and occupation_sentiment (classifier),
# those of its noun pairs for templates and names too, and for pairs that share nothing their sum.
_SPREADS: Mapping[str, Mapping[str, float]] = {
    "masked": {"template": 0.042, "words": 0.042, "condition": 0.115, "pair_id": 0.13, "": 0.035},
    "classifier": {"template": 0.125, "words": 0.125, "condition": 0.048, "pair_id": 0.19, "": 0.136},
}
GROUP_FILL, REFERENCE_FILL, FILL_PAIR = FILLS = ("group_fill", "reference_fill", "fill_pair")
_BESIDE = {"counted", "wording", "where", "unit", "masked", *FILLS}  # columns that are none of a row's own
_PRONOUNS = frozenset((
    "he", "she", "they", "him", "her", "them", "his", "hers", "their", "theirs", "himself", "herself", "themselves",
    "themself", "it", "its", "itself",
))  # fmt: skip
_SAMPLE = 4  # fills that recur, each in texts of its own: fewer are forms of a word (woman, women)

# --- the words that fill the swapped slot: names are a sample of many, as templates are ----------------


class Fills(NamedTuple):
    """What fills the slot of each pair, and the text around it.

    ``words``: by group every fill. ``random``: columns of fills that are a sample, by what they are called: of two or
    more that the prompts name or that stand in the same text, or of four or more that recur; the pair of both where
    they always go together. ``random_of``: of several groups the one whose fills a column holds. ``by_pair``: these
    columns by pair_id, and ``template`` where texts recur with other fills and no column tells such templates.
    """

    words: dict[str, list[str]]
    random: dict[str, str]
    random_of: dict[str, str]
    by_pair: pd.DataFrame


def fills_of(prompts: pd.DataFrame, groups: Sequence[str], reference: str) -> Fills:
    """What fills the slots of pairs: their column ``name``, else the words in which texts of a pair differ."""
    found = Fills({}, {}, {}, pd.DataFrame(index=prompts["pair_id"].unique()))
    several = len(groups) > 1  # then each group has a column of its own, for a gap of two is not about the others
    for number, group in enumerate(groups if len(prompts) else (), start=1):
        pairs, sampled, noun, recur = _fill_pairs(prompts, group, reference)
        owners = {GROUP_FILL: group, REFERENCE_FILL: reference}
        found.words.update({owner: list(pairs[side].unique()) for side, owner in owners.items()})
        if recur and "template" not in found.by_pair:
            found.by_pair["template"] = pairs["template"]
        for side in FILLS[:2] if several and sampled == [FILL_PAIR] else sampled:
            column, owner = f"{side}_{number}" if several and side == GROUP_FILL else side, owners.get(side, "")
            if column not in found.random:
                found.by_pair[column] = pairs[side]
                found.random[column] = f"{noun} for {owner}" if owner else f"pairs of {noun}"
                found.random_of.update({column: owner} if several else {})
    return found


def _fill_pairs(rows: pd.DataFrame, group: str, reference: str) -> tuple[pd.DataFrame, list[str], str, bool]:
    """The fills of each pair, which of them are a sample, what they are called, and whether texts are templates."""
    rows = rows.assign(name=rows.get("name", "")).drop_duplicates(["pair_id", "group"]).set_index("pair_id")
    sides = [rows.loc[rows["group"] == one, ["text", "name", "template"]] for one in (group, reference)]
    both = sides[0].merge(sides[1], left_index=True, right_index=True, suffixes=("", "_reference"))
    pairs = pd.DataFrame(
        [swapped(one, other) for one, other in zip(both["text"], both["text_reference"], strict=True)],
        columns=[GROUP_FILL, REFERENCE_FILL, "template"], index=both.index, dtype=object,
    )  # fmt: skip
    named = bool((both["name"] != both["name_reference"]).any())  # else the column names something else
    if named:
        pairs[GROUP_FILL], pairs[REFERENCE_FILL] = both["name"], both["name_reference"]
    pairs[FILL_PAIR] = pairs[GROUP_FILL] + " / " + pairs[REFERENCE_FILL]
    texts, counts = pairs["template"].nunique(), pairs.nunique()
    recur = any(len(pairs.drop_duplicates([side, "template"])) > texts for side in FILLS[:2])
    sampled = [
        side for side in FILLS[:2] if counts[side] > 1 and (named or recur or _SAMPLE <= counts[side] < len(pairs))
    ]
    if len(sampled) > 1 and counts[FILL_PAIR] == counts[GROUP_FILL] == counts[REFERENCE_FILL]:
        sampled = [FILL_PAIR]
    templates = recur and texts > 1 and both["template"].nunique() < 2
    return pairs, sampled, "names" if named else "words", templates


def swapped(text: str, other: str) -> tuple[str, str, str]:
    """Where two texts differ: the words of each without pronouns, and the text around them.

    >>> swapped("Emily lost her keys.", "Greg lost his keys.")
    ('Emily', 'Greg', '_ lost _ keys.')
    >>> swapped("Mary Ann is late.", "Greg is late.")
    ('Mary Ann', 'Greg', '_ is late.')
    """
    first, second = text.split(), other.split()
    if len(first) == len(second):
        pairs = list(zip(first, second, strict=True))
        fills = zip(*(pair for pair in pairs if pair[0] != pair[1]), strict=True)
        one, two = map(_fill, list(fills) or ((), ()))
        return one, two, " ".join(word if word == same else "_" for word, same in pairs)
    start = _common(first, second)
    end = _common(first[start:][::-1], second[start:][::-1])
    fills_at = [_fill(words[start : len(words) - end]) for words in (first, second)]
    return fills_at[0], fills_at[1], " ".join([*first[:start], "_", *first[len(first) - end :]])


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """How many words both begin with."""
    return sum(1 for _ in takewhile(lambda two: two[0] == two[1], zip(first, second, strict=False)))


def _fill(words: Iterable[str]) -> str:
    bare = [one.strip(".,;:!?\"'()[]“”‘’").removesuffix("'s").removesuffix("’s") for one in words]
    return " ".join(dict.fromkeys(one for one in bare if one.casefold() not in _PRONOUNS))


# --- the files of a study -------------------------------------------------------------------------------


def open_study(
    source: Any, *, reference: str = "", group: str = "", lexicon: Path | str | None = None, name: str = "",
    origin: str = "",
) -> Study:  # fmt: skip
    """A study from a folder, a CSV file, a DataFrame or a Dataset, known by its name from now on.

    It can then be audited, loaded and reported as those of the package, by ``study.name``; one that is opened later
    under the same name takes its place.

    Args:
        source: a folder with ``study.toml`` (see ``swapbias study new``), or one table with the columns ``text``,
            ``group`` and ``pair`` (see docs/own.md): a path of a CSV file, a DataFrame or a Dataset.
        reference, group: of a table: the group that is subtracted, and the one compared with it (each other one).
        lexicon: of a table: a CSV file with the columns ``word`` and ``group``, counted at ``<mask>``.
        name: of the study; by default that of the file, or ``prompts``.
        origin: where it comes from, for the manifest of a run (``OWNER/NAME@commit``).

    Raises:
        UsageError: no such folder or file.
        StudyError: what is wrong with the declaration and the tables, a line each with file and line.

    >>> import pandas as pd
    >>> texts, groups = ["He is late.", "She is late.", "He left.", "She left."], ["male", "female"] * 2
    >>> table = pd.DataFrame({"text": texts, "group": groups, "pair": ["late", "late", "left", "left"]})
    >>> study = open_study(table, reference="male", name="punctual")
    >>> [one.name for one in study.experiments], study.experiments[0].group
    (['classifier', 'causal'], 'female')
    """
    parsed = parse_study(study_files(source, reference=reference, group=group, lexicon=lexicon, name=name))
    named = partial(_with_file_names, source=source, lexicon=lexicon)
    register(_corpus(parsed, origin, named))
    for sentence in warnings(parsed):
        _log.warning("%s", named(sentence))
    return load_study(parsed.declared.name)


class Check(NamedTuple):
    """Faults, for which an audit refuses a study, as sentences with file and line; without any, advice and corpus."""

    faults: list[str]
    advice: list[str]
    corpus: Corpus | None


def check_study(source: Any, **of_table: Any) -> Check:
    """The faults of a user's own study, and without any, advice on what may bend its numbers.

    ``source`` and ``of_table`` (``reference``, ``group``, ``lexicon`` and ``name``) are those of ``open_study``.
    """
    parsed = parse_study(study_files(source, **of_table))
    found = faults(parsed)
    named = [_with_file_names(one, source, of_table.get("lexicon")) for one in found or advice(parsed)]
    return Check(named, [], None) if found else Check([], named, _corpus(parsed))


def reopen_study(folder: Path, origin: str) -> None:
    """Make a study known from the copy that a run keeps of it; ``origin`` is that of the manifest."""
    register(own_corpus(study_files(folder), origin="" if origin == "local" else origin))


def _with_file_names(sentence: str, source: Any, lexicon: Path | str | None) -> str:
    """A sentence about a study that names the user's own CSV files, where it was made from such."""
    if not isinstance(source, str | Path) or not Path(source).expanduser().is_dir():
        sentence = re.sub(rf"{DECLARATION}:\d+: ", "", sentence)
    for standard, place in ((PROMPTS, source), (LEXICON, lexicon)):
        if isinstance(place, str | Path) and Path(place).expanduser().is_file():
            sentence = sentence.replace(standard, Path(place).name)
    return sentence


def study_files(
    source: Any, *, reference: str = "", group: str = "", lexicon: Path | str | None = None, name: str = ""
) -> dict[str, bytes]:
    """The files of a study by name: those of a folder, or what a table comes to, as ``open_study`` takes it."""
    place = Path(source).expanduser() if isinstance(source, str | Path) else None
    if place is not None and place.is_dir():
        if reference or group or lexicon:
            raise UsageError(f"{place} says reference, group and words in its files. Drop --reference and the like.")
        if not (place / DECLARATION).is_file():
            raise UsageError(f"{place} holds no {DECLARATION}. Write one with swapbias study new.")
        return {name: (place / name).read_bytes() for name in STUDY_FILES if (place / name).is_file()}
    if place is not None:
        if not place.is_file():
            raise UsageError(f"{source} is no folder of a study and no CSV file. Check the path.")
        content, name = place.read_bytes(), name or _study_name(place.stem)
    else:
        table = source.to_pandas() if hasattr(source, "to_pandas") else source
        if not isinstance(table, pd.DataFrame):
            found = type(source).__name__
            raise UsageError(f"prompts are a {found}, expected a folder, a CSV file, a DataFrame or a Dataset.")
        if "candidates" in table:  # as corpora have them, or as a CSV file does
            table = table.assign(candidates=[_words(one) for one in table["candidates"]])
        if MESSAGES in table:
            table = table.assign(text=[text_of(one) for one in table[MESSAGES]]).drop(columns=MESSAGES)
        if "group" in table:
            reference, group = (named_group(one, set(map(str, table["group"]))) for one in (reference, group))
        quotes = csv.QUOTE_NONNUMERIC  # else a carriage return in a text would end its row
        content, name = table.to_csv(index=False, lineterminator="\n", quoting=quotes).encode(), name or "prompts"
    groups = [str(group), str(reference)] if str(group) else []
    keys = {"name": name, "title": f"Own prompts ({name})", "reference": str(reference), "groups": groups}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in keys.items() if value]
    words = {LEXICON: Path(lexicon).expanduser().read_bytes()} if lexicon else {}
    return {DECLARATION: "".join(lines).encode(), PROMPTS: content, **words}


def _words(cell: Any) -> Any:
    """Words that are counted as a cell of a CSV file has them, from a list of ``{"text": ...}`` as corpora have."""
    return cell if isinstance(cell, str) or not hasattr(cell, "__len__") else "|".join(one["text"] for one in cell)


def _study_name(text: str) -> str:
    (name,) = unique_names([text], most=46)
    return name if name[0].isalpha() else f"own_{name}"


def new_study(folder: Path, template: str = "slots") -> list[Path]:
    """Write a small complete example of a study into a new folder, named after it; gives the files.

    ``template``: ``slots`` (templates whose slots are swapped) or ``ranking`` (candidates with CVs and names).
    """
    if template not in EXAMPLES:
        raise unknown("template", template, list(EXAMPLES))
    if folder.exists() and (not folder.is_dir() or any(one.name != LOCK for one in folder.iterdir())):
        raise UsageError(f"{folder} is not empty, expected a new folder. Choose another.")
    folder.mkdir(parents=True, exist_ok=True)
    example = sorted(Path(str(resources("swapbias.studies") / EXAMPLES[template])).iterdir())
    with locked(folder):
        for one in example:
            text = one.read_text(encoding="utf-8").replace("STUDY_NAME", _study_name(folder.resolve().name))
            write_whole(folder / one.name, text.encode())
    return [folder / one.name for one in example]


# --- the corpus ---------------------------------------------------------------------------------------


def own_corpus(files: Files, *, origin: str = "") -> Corpus:
    """The corpus that the files of a study come to; StudyError has a line for each fault, with file and line."""
    return _corpus(parse_study(files), origin)


def _corpus(parsed: Parsed, origin: str = "", named: Callable[[str], str] = str) -> Corpus:
    if found := faults(parsed):
        rest = [f"{len(found) - 20} more: list all with swapbias study check."] if len(found) > 20 else []
        raise StudyError(named("\n".join([*found[:20], *rest])))
    declared, prompts = parsed.declared, parsed.prompts
    ranks = CVS in parsed.tables
    lexicons, labels = ({}, dict.fromkeys(prompts["counted"], "")) if ranks else _lexicons(parsed)
    prompts = prompts[prompts["group"].isin(parsed.groups)]
    prompts = prompts.assign(
        prompt_id=prompts["pair_id"] + "/" + prompts["group"], lexicon=prompts["counted"].map(labels),
        candidates=prompts["candidates"] if ranks else [()] * len(prompts),
    )  # fmt: skip
    configs: list[Config] = []
    experiments: list[Experiment] = []
    limits: dict[str, None] = {}
    for name, kinds in _CONFIGS.items():
        chosen = prompts[prompts["masked"] == (name == "masks")]
        readers = [one for one in kinds if one in (declared.kind or ("masked", "classifier", "causal"))]
        if not (len(chosen) and readers):
            continue
        plain = chosen if PROMPTS in parsed.tables else chosen[:0]  # of slots the declaration says what is random
        fills = fills_of(plain, parsed.compared, declared.reference)
        for group, words in fills.words.items():
            if len(words) == 1 and words[0]:
                what = f"Every prompt names {group} as {quoted(words[0])}"
                limits[f"{what}: other names or words may score otherwise."] = None
        rows = chosen.assign(experiment=readers[0])
        if name == "questions" and not ranks:
            rows["candidates"] = [options_of(declared.answers)] * len(rows)
        made = _configs(name, rows, fills)
        configs += made
        experiments += [_experiment(parsed, kind, [one.name for one in made], chosen, fills) for kind in readers]
    of_kinds = [limit for one in experiments if (limit := _KINDS[one.kind][2])]
    study = Study(
        name=declared.name, title=declared.title, url=declared.url, experiments=tuple(experiments),
        limits=(*declared.limits, *limits, *of_kinds),
    )  # fmt: skip
    return Corpus(
        name=declared.name, title=declared.title, licence=declared.licence, version=declared.version, study=study,
        lexicons=lexicons, configs=tuple(configs), own=dict(parsed.files), origin=origin,
    )  # fmt: skip


def _lexicons(parsed: Parsed) -> tuple[dict[str, Callable[[], Lexicon]], dict[str, str]]:
    """The word lists, and what names the words of each cell: one list, or one a cell where cells contradict."""
    corpus, prompts = parsed.declared.name, parsed.prompts
    listed = dict(zip(*(table_column(parsed.tables, LEXICON, one) for one in ("word", "group")), strict=True))
    cells = prompts[~prompts["counted"].isin(["", *parsed.labels])].drop_duplicates("counted", keep="last")
    words = {cell: [word.strip() for word in cell.split("|")] for cell in cells["counted"]}
    groups = dict(zip(cells["counted"], cells["group"], strict=True))
    labels = {word: groups[cell] for cell in words for word in words[cell]}
    lists = {"words": listed} if listed else {}
    found = {"": "", **{one: f"{corpus}/words/{one}" for one in parsed.labels}}
    contradict = any(labels[word] != groups[cell] for cell in words for word in words[cell])
    if listed or contradict or not cells["group"].is_unique:
        for cell, name in zip(words, unique_names(words), strict=True):
            name = f"{name}_counted" if name == "words" else name
            lists[name] = dict.fromkeys(words[cell], "counted")
            found[cell] = f"{corpus}/{name}/counted"
    else:
        lists = {"words": labels}
        found |= {cell: f"{corpus}/words/{group}" for cell, group in groups.items()}
    return {name: partial(_lexicon, f"{corpus}/{name}", one) for name, one in lists.items()}, found


def _lexicon(name: str, words: Mapping[str, str]) -> Lexicon:
    """Words in lower case are matched in any case, others as they are written."""
    lower, proper = ({one: words[one] for one in words if (one == one.lower()) is same} for same in (True, False))
    return Lexicon(name, lower, proper, rest="other words")


def _configs(name: str, prompts: pd.DataFrame, fills: Fills) -> list[Config]:
    """The prompts of one comparison, and its other wordings where there are any."""
    more = [one for one in prompts if one not in {*PROMPT_COLUMNS, *_BESIDE} and (prompts[one] != "").any()]
    filled = {column: prompts["pair_id"].map(fills.by_pair[column]) for column in fills.by_pair}
    rows = prompts.assign(**filled)[[*PROMPT_COLUMNS, *more, *fills.random]]
    again = rows.assign(side=rows["group"], wording=prompts["wording"])[prompts["wording"] != ""]
    ids = {one: again[one] + "/w" + again["wording"] for one in ("prompt_id", "pair_id")}
    parts = [
        (name, "Own prompts", rows[prompts["wording"] == ""]),
        (f"{name}_wordings", "In other wordings", again.assign(**ids, group=PLACEBO)),
    ]
    return [
        Config(one, what, partial(_shared(frame).to_dict, "records"), tuple(frame))
        for one, what, frame in parts
        if len(frame)
    ]


def _shared(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows that share values; pandas would take the tuples of candidates for levels of an index."""
    return frame.astype({one: "category" for one in frame if one != "candidates"})


def _experiment(parsed: Parsed, kind: str, configs: Sequence[str], prompts: pd.DataFrame, fills: Fills) -> Experiment:
    declared, groups, random = parsed.declared, parsed.compared, _random(parsed, prompts, fills)
    spreads = {one: _SPREADS.get(kind, {}).get("words" if one in fills.random else one) for one in ("", *random)}
    unit, higher, _ = _KINDS[kind]
    higher = higher.format(group=groups[0] if len(groups) == 1 else "a group", reference=declared.reference)
    rubric, scores = None, ["score", *(("closed_list_mass", "matched_mass") if kind == "masked" else ())]
    factors: tuple[str, ...] = ()
    if ranks := declared.reading == "ranking":
        scores += ["unanswered", "refused"]
        named = [one for one in parsed.tables[NAMES] if one not in ("group", "name")]
        crossed = prompts.groupby("group")[named].nunique().eq(1).all(axis=None) if len(named) > 1 else False
        factors = tuple(named) if crossed else ()
    elif kind == "chat":
        scores += ["unanswered"] if declared.reading == "options" else ["unanswered", "refused", "length"]
        if declared.rubric and declared.reading != "options":
            scores.append("judged")
            table = parsed.tables.get(SLOTS, pd.DataFrame()).drop(columns=["pair", "group"], errors="ignore")
            words = {value: f"[{name}]" for name in table for value in table[name]}  # which a judge is not shown
            rubric = Rubric(question=declared.rubric, candidates=options_of(declared.rubric_options), neutral=words)
    return Experiment(
        name=kind, question=declared.question or declared.title, configs=tuple(configs[:1]),
        placebo=tuple(configs[1:]), kind=kind, measure="paired_gap", group=groups[0], groups=groups[1:],
        reference_group=declared.reference, levels=(*groups, declared.reference),
        unit=(declared.unit if kind == "classifier" else "") or unit,
        direction=f"above zero {higher}, below zero less; further from zero is worse", scores=tuple(scores),
        reading=declared.reading if kind == "chat" else "", rubric=rubric, random=random, random_of=fills.random_of,
        spreads={one: spread for one, spread in spreads.items() if spread is not None},
        slices=(Slice("condition", "job"),) if ranks else tuple(_slices(parsed, prompts)), margin=declared.margin,
        factors=factors, rates=("selection",) if ranks else (),
        says="ranks {more} first more often than {less}" if ranks else "",
    )  # fmt: skip


def _random(parsed: Parsed, prompts: pd.DataFrame, fills: Fills) -> dict[str, str]:
    """Columns that are a sample, by what they are called: fills and what is named, else what varies, or the pairs."""
    if CVS in parsed.tables:
        return {"names": "sets of names"}
    if parsed.declared.random:
        named = ["pair_id" if one == "pair" else one for one in parsed.declared.random]
        return {one: _RANDOM.get(one, f"values of {one}") for one in named} | fills.random
    varying = {one for one in prompts if one in _RANDOM and prompts[one].nunique() > 1} | {*fills.by_pair}
    found = {one: _RANDOM[one] for one in ("template", "words", "condition") if one in varying}
    return found | fills.random or {"pair_id": _RANDOM["pair_id"]}


def _slices(parsed: Parsed, prompts: pd.DataFrame) -> Iterator[Slice]:
    if parsed.declared.slices:
        yield from (Slice("pair_id" if one == "pair" else one, one) for one in parsed.declared.slices)
        return
    beside = {"pair_id", "prompt_id", "text", "group", "candidates", *_BESIDE}
    for column in constant_columns(prompts, [one for one in prompts if one not in beside]):
        if 1 < prompts[column].nunique() <= 100:  # one of more is a slice only where it is named as one
            yield Slice(column, "pair of words" if column == "words" else column)
