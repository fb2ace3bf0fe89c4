"""A study of one's own: a folder of tables or one table of prompts, as a Study like those of the package.

Data only: ``study.toml`` is read by tomllib, tables as CSV, and nothing that a folder holds is run.
"""

import csv
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import pandas as pd

from swapbias.errors import StudyError, UsageError, quoted
from swapbias.files import LOCK, locked, write_whole
from swapbias.measures import named_group
from swapbias.studies.catalogue import load_study, register
from swapbias.studies.parsed import (
    DECLARATION,
    LEXICON,
    MOST_BYTES,
    PROMPTS,
    SLOTS,
    STUDY_FILES,
    Declaration,
    Files,
    Parsed,
    constant_columns,
    faults,
    parse_study,
    spellings,
    unique_names,
    unlike_pairs,
)
from swapbias.studies.prompt import PLACEBO, PROMPT_COLUMNS, Rows, arrow_table
from swapbias.studies.study import Config, Corpus, Experiment, Rubric, Slice, Study
from swapbias.studies.tables import Lexicon

_log = logging.getLogger("swapbias")
_KINDS, _CHAT = ("masked", "classifier", "causal"), "chat"  # chat models are asked where they are named
_UNITS = {
    "masked": "probability mass at the mask",
    "classifier": "probability of positive sentiment",
    "causal": "log-probability",
    _CHAT: "share of answers",
}
_HIGHER = {
    "masked": "the model gives words of {group} more probability than those of {reference}",
    "classifier": "texts of {group} score higher than the same ones of {reference}",
    "causal": "texts of {group} are likelier than the same ones of {reference}",
    _CHAT: "answers about {group} count more than those about {reference}",
}
_RANDOM = {"template": "templates", "words": "pairs of words", "condition": "conditions", "pair_id": "pairs"}
# Before a run: the spreads in released outputs of gendered_stigma (masked) and occupation_sentiment (classifier),
# those of its noun pairs for templates and names too, and for pairs that share nothing their sum.
_SPREADS: Mapping[str, Mapping[str, float]] = {
    "masked": {"template": 0.042, "words": 0.042, "condition": 0.115, "pair_id": 0.13, "": 0.035},
    "classifier": {"template": 0.125, "words": 0.125, "condition": 0.048, "pair_id": 0.19, "": 0.136},
}
_LIMITS = {
    _CHAT: "An answer that comes to no decision has no score: see what the gap could be whatever was not answered.",
    "masked": "Only words that are one token of the model's vocabulary can be counted (see the coverage table).",
    "causal": "A text of more or rarer words is less likely whatever it says: swapped words must be alike in both.",
}
_MOST_VALUES = 100  # of a column that is a slice without being named as one
_MOST_FAULTS = 20  # that one error lists
GROUP_FILL, REFERENCE_FILL, FILL_PAIR = FILLS = ("group_fill", "reference_fill", "fill_pair")
NAME = "name"  # the column that says what fills the slot, where texts are not compared
_PRONOUNS = frozenset((
    "he", "she", "they", "him", "her", "them", "his", "hers", "their",
    "theirs", "himself", "herself", "themselves", "themself", "it", "its", "itself",
))  # fmt: skip
_EDGES = ".,;:!?\"'()[]“”‘’"
_SLOT = "_"
_SAMPLE = 4  # fills that recur, each in texts of its own: fewer are forms of a word (woman, women)

# --- the words that fill the swapped slot: names are a sample of many, as templates are ----------------


@dataclass(frozen=True)
class Fills:
    """What fills the slot of each pair, and the text around it.

    Attributes:
        words: by group every fill of it.
        random: columns of fills that are a sample, by what they are called: of two or more that the prompts name or
            that stand in the same text, or of four or more that recur. Of two groups whose fills go together in the
            same pairs it is the pair of both.
        of_groups: of each column of a comparison of several groups the group whose fills it holds.
        named: a column of the prompts says the fills.
        templates: texts recur with other fills, so that they are templates, and no column tells such apart.
        of_pairs: a row a pair, by its id, with the columns.
    """

    words: Mapping[str, list[str]] = field(default_factory=dict)
    random: Mapping[str, str] = field(default_factory=dict)
    of_groups: Mapping[str, str] = field(default_factory=dict)
    named: bool = False
    templates: bool = False
    of_pairs: pd.DataFrame = field(default_factory=pd.DataFrame)

    def columns(self, pair_ids: pd.Series) -> dict[str, pd.Series]:
        """The columns of rows of these pairs: the random ones, and the template where texts are one."""
        names = [*(["template"] if self.templates else []), *self.random]
        return {name: pair_ids.map(self.of_pairs[name]) for name in names}


def fills_of(prompts: pd.DataFrame, groups: Sequence[str], reference: str) -> Fills:
    """What fills the slots of prompts: their column ``name``, else the words in which the texts of a pair differ.

    A column ``name`` with the same in both rows of every pair names something else.

    Args:
        prompts: rows with ``pair_id``, ``group``, ``text``, ``template`` and ``wording``, of which the first is read.
        groups: compared with the reference.
        reference: the group that is subtracted.
    """
    rows = prompts[prompts["wording"] == ""] if len(prompts) else prompts
    if not len(rows):
        return Fills()
    found = [_of_two(rows[rows["group"].isin([one, reference])], one, reference) for one in groups]
    if len(groups) == 1:
        return found[0]
    # Of several groups each has a column of its own, for a gap of two is not about the others.
    columns = pd.DataFrame(index=rows["pair_id"].unique())
    random: dict[str, str] = {}
    of_groups: dict[str, str] = {}
    for number, (group, fills) in enumerate(zip(groups, found, strict=True), start=1):
        sampled = {GROUP_FILL, REFERENCE_FILL} if FILL_PAIR in fills.random else {*fills.random}
        what = _called(fills.named)
        for side, name in ((GROUP_FILL, group), (REFERENCE_FILL, reference)):
            column = f"{side}_{number}" if side == GROUP_FILL else side
            if side in sampled and column not in random:
                columns[column], random[column], of_groups[column] = fills.of_pairs[side], f"{what} for {name}", name
    templates = [fills for fills in found if fills.templates]
    if templates:
        columns["template"] = templates[0].of_pairs["template"]
    words = {name: listed for fills in found for name, listed in fills.words.items()}
    return Fills(words, random, of_groups, templates=bool(templates), of_pairs=columns)


def _of_two(rows: pd.DataFrame, group: str, reference: str) -> Fills:
    rows = rows.assign(**{NAME: rows.get(NAME, "")})
    rows = rows.drop_duplicates(["pair_id", "group"]).set_index("pair_id")[["group", "text", NAME, "template"]]
    is_reference = rows["group"] == reference
    both = rows[~is_reference].merge(
        rows[is_reference], left_index=True, right_index=True, suffixes=("", "_reference")
    )
    pairs = pd.DataFrame(
        [swapped(one, other) for one, other in zip(both["text"], both["text_reference"], strict=True)],
        columns=[GROUP_FILL, REFERENCE_FILL, "template"], index=both.index, dtype=object,
    )  # fmt: skip
    named = bool((both[NAME] != both[f"{NAME}_reference"]).any())
    if named:
        pairs[GROUP_FILL], pairs[REFERENCE_FILL] = both[NAME], both[f"{NAME}_reference"]
    sides = (GROUP_FILL, REFERENCE_FILL)
    words = [list(pairs[side].unique()) for side in sides]
    texts = pairs["template"].nunique()
    recur = any(len(pairs.drop_duplicates([side, "template"])) > texts for side in sides)
    sampled = [
        side
        for side, mine in zip(sides, words, strict=True)
        if len(mine) > 1 and (named or recur or _SAMPLE <= len(mine) < len(pairs))
    ]
    if len(sampled) > 1 and len(pairs.drop_duplicates(list(sides))) == len(words[0]) == len(words[1]):
        sampled = [FILL_PAIR]
    pairs[FILL_PAIR] = pairs[GROUP_FILL] + " / " + pairs[REFERENCE_FILL]
    what = _called(named)
    called = dict(zip(FILLS, (f"{what} for {group}", f"{what} for {reference}", f"pairs of {what}"), strict=True))
    templates = recur and texts > 1 and both["template"].nunique() < 2
    return Fills(
        {group: words[0], reference: words[1]}, {one: called[one] for one in sampled}, named=named,
        templates=templates, of_pairs=pairs,
    )  # fmt: skip


def _called(named: bool) -> str:
    return "names" if named else "words"


def swapped(text: str, other: str) -> tuple[str, str, str]:
    """Where two texts differ: the words of each without pronouns, and the text around them.

    >>> swapped("Emily lost her keys.", "Greg lost his keys.")
    ('Emily', 'Greg', '_ lost _ keys.')
    >>> swapped("Mary Ann is late.", "Greg is late.")
    ('Mary Ann', 'Greg', '_ is late.')
    """
    first, second = text.split(), other.split()
    if len(first) == len(second):
        frame = [one if one == two else _SLOT for one, two in zip(first, second, strict=True)]
        places = [place for place, one in enumerate(frame) if one == _SLOT]
        sides = [[words[place] for place in places] for words in (first, second)]
        return _fill(sides[0]), _fill(sides[1]), " ".join(frame)
    start = _alike(first, second)
    end = _alike(first[start:][::-1], second[start:][::-1])
    frame = [*first[:start], _SLOT, *first[len(first) - end :]]
    return _fill(first[start : len(first) - end]), _fill(second[start : len(second) - end]), " ".join(frame)


def _alike(first: Sequence[str], second: Sequence[str]) -> int:
    """How many words both begin with."""
    pairs = zip(first, second, strict=False)
    return next((place for place, (one, two) in enumerate(pairs) if one != two), min(len(first), len(second)))


def _fill(words: Sequence[str]) -> str:
    bare = [one.strip(_EDGES).removesuffix("'s").removesuffix("’s") for one in words]
    return " ".join(dict.fromkeys(one for one in bare if one.casefold() not in _PRONOUNS))


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
        UsageError: no such folder or file.
        StudyError: what is wrong with the declaration and the tables, a line each with file and line.

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
    files = study_files(source, reference=reference, group=group, lexicon=lexicon, name=name)
    try:
        parsed = _checked(files)
        corpus = _corpus(parsed, origin)
    except StudyError as error:
        raise StudyError(as_named(str(error), source, lexicon)) from error
    for sentence in (*spellings(parsed), *unlike_pairs(parsed)):
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
    if not isinstance(source, str | Path) or not Path(source).expanduser().is_dir():
        sentence = re.sub(rf"{DECLARATION}:\d+: ", "", sentence)
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
        if "group" in table:
            reference, group = (named_group(one, set(map(str, table["group"]))) for one in (reference, group))
        quotes = csv.QUOTE_NONNUMERIC  # else a carriage return in a text would end its row
        content, name = table.to_csv(index=False, lineterminator="\n", quoting=quotes).encode(), name or "prompts"
    reference, group = str(reference), str(group)
    groups = [group, reference] if group else []
    keys = {"name": name, "title": f"Own prompts ({name})", "reference": reference, "groups": groups}
    declaration = "".join(
        f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in keys.items() if value
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
    (slug,) = unique_names([text], most=46)
    return slug if slug[0].isalpha() else f"own_{slug}"


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
        StudyError: what is wrong with the files, a line each with file and line.
    """
    return _corpus(_checked(files), origin)


def _checked(files: Files) -> Parsed:
    parsed = parse_study(files)
    if found := list(dict.fromkeys(faults(parsed))):
        more = len(found) - _MOST_FAULTS
        rest = [f"{more} more: list all with swapbias study check."] if more > 0 else []
        raise StudyError("\n".join([*found[:_MOST_FAULTS], *rest]))
    return parsed


def _corpus(parsed: Parsed, origin: str) -> Corpus:
    declared, prompts = parsed.declared, parsed.prompts
    reference = declared.reference
    lexicons, candidates = _lexicons(parsed)
    prompts = prompts.assign(
        prompt_id=prompts["pair_id"] + "/" + prompts["group"], candidates=prompts["counted"].map(candidates)
    )
    configs: list[Config] = []
    experiments: list[Experiment] = []
    fixed: dict[str, None] = {}
    for groups, ending in _comparisons(parsed):
        for masked in (True, False):
            chosen = prompts[(prompts["masked"] == masked) & prompts["group"].isin([*groups, reference])]
            chosen = chosen[chosen["unit"].isin(chosen["unit"][chosen["group"] != reference])]
            if not len(chosen):
                continue
            plain = chosen if PROMPTS in parsed.tables else chosen[:0]  # of slots the declaration says what is random
            fills = fills_of(plain, groups, reference)
            fixed |= dict.fromkeys(_fixed(fills))
            kinds = [one for one in declared.kind or _KINDS if (one == "masked") == masked and one != _CHAT]
            asked = [("questions", (_CHAT,))] if _CHAT in declared.kind and not masked else []
            for name, readers in [*asked, ("masks" if masked else "texts", tuple(kinds))]:
                if readers:
                    rows = chosen.assign(experiment=readers[0] + ending)
                    if name == "questions":
                        rows["candidates"] = "|".join(declared.answers)
                    made = _configs(name + ending, rows, fills)
                    configs += made
                    names = tuple(one.name for one in made)
                    experiments += [_experiment(parsed, one, groups, ending, names, chosen, fills) for one in readers]
    if not experiments:
        raise StudyError(f"{DECLARATION}: no text can be read by a model of kind {', '.join(declared.kind)}.")
    limits = [_LIMITS[one] for one in dict.fromkeys(one.kind for one in experiments) if one in _LIMITS]
    study = Study(
        name=declared.name, title=declared.title, url=declared.url, experiments=tuple(experiments),
        limits=(*declared.limits, *fixed, *limits),
    )  # fmt: skip
    return Corpus(
        name=declared.name, title=declared.title, licence=declared.licence, version=declared.version, study=study,
        lexicons=lexicons, configs=tuple(configs), own=dict(parsed.files), origin=origin,
    )  # fmt: skip


def _comparisons(parsed: Parsed) -> list[tuple[tuple[str, ...], str]]:
    """Groups that are compared with the reference in one experiment, and what its name ends on.

    All, where each pair has each of them; else each alone, in the pairs that have it.
    """
    others = tuple(one for one in parsed.groups if one != parsed.declared.reference)
    compared = parsed.prompts[parsed.prompts["group"].isin(parsed.groups)]
    if len(compared) == compared["unit"].nunique() * (len(others) + 1):
        return [(others, "")]
    return [((one,), f"_{name}") for one, name in zip(others, unique_names(others), strict=True)]


def _lexicons(parsed: Parsed) -> tuple[dict[str, Callable[[], Lexicon]], dict[str, str]]:
    """The word lists, and what names the words of each cell: one list, or one a cell where cells contradict."""
    corpus, prompts = parsed.declared.name, parsed.prompts
    listed = dict(zip(*(parsed.table(LEXICON).get(one, ()) for one in ("word", "group")), strict=True))
    cells = prompts[prompts["counted"] != ""].drop_duplicates("counted", keep="last")
    cells = cells[~cells["counted"].isin(parsed.labels)]
    words = {cell: [word.strip() for word in cell.split("|")] for cell in cells["counted"]}
    labels = dict.fromkeys(
        (word, group) for cell, group in zip(words, cells["group"], strict=True) for word in words[cell]
    )
    found = {"": "", **{one: f"{corpus}/words/{one}" for one in parsed.labels}}
    several: dict[str, dict[str, str]] = {"words": listed} if listed else {}
    if not listed and cells["group"].is_unique and len(dict(labels)) == len(labels):
        several = {"words": dict(labels)}
        found |= {cell: f"{corpus}/words/{group}" for cell, group in zip(words, cells["group"], strict=True)}
    else:
        for cell, name in zip(words, unique_names(words), strict=True):
            name = f"{name}_counted" if name == "words" else name
            several[name] = dict.fromkeys(words[cell], "counted")
            found[cell] = f"{corpus}/{name}/counted"
    return {name: partial(_lexicon, f"{corpus}/{name}", one) for name, one in several.items()}, found


def _lexicon(name: str, words: Mapping[str, str]) -> Lexicon:
    """Words in lower case are matched in any case, others as they are written."""
    lower = {word: label for word, label in words.items() if word == word.lower()}
    proper = {word: label for word, label in words.items() if word not in lower}
    return Lexicon(name, lower, proper, rest="other words")


def _configs(name: str, prompts: pd.DataFrame, fills: Fills) -> list[Config]:
    """The prompts of one comparison, and its other wordings where there are any."""
    extra = [
        one
        for one in prompts
        if one not in {*PROMPT_COLUMNS, *FILLS, "counted", "wording", "where", "unit", "masked"}
        and (prompts[one] != "").any()
    ]
    filled = fills.columns(prompts["pair_id"])
    rows = prompts.assign(**filled)[[*PROMPT_COLUMNS, *extra, *(one for one in filled if one != "template")]]
    again = rows.assign(side=rows["group"], wording=prompts["wording"])[prompts["wording"] != ""]
    number = "/w" + again["wording"]
    again = again.assign(
        prompt_id=again["prompt_id"] + number, pair_id=again["pair_id"] + number, group=PLACEBO
    )  # fmt: skip
    first = rows[prompts["wording"] == ""]
    told = [(name, "Own prompts", first), (f"{name}_wordings", "In other wordings", again)]
    return [
        Config(name=one, description=what, rows=partial(Rows, arrow_table(frame)), columns=tuple(frame))
        for one, what, frame in told
        if len(frame)
    ]


def _experiment(
    parsed: Parsed,
    kind: str,
    groups: tuple[str, ...],
    ending: str,
    configs: tuple[str, ...],
    prompts: pd.DataFrame,
    fills: Fills,
) -> Experiment:
    declared, reference = parsed.declared, parsed.declared.reference
    random = _random(declared, prompts, fills)
    spreads, of_fills = _SPREADS.get(kind, {}), dict.fromkeys(fills.random, "words")
    whose = groups[0] if len(groups) == 1 else "a group"
    return Experiment(
        name=f"{kind}{ending}",
        question=declared.question or declared.title,
        configs=configs[:1],
        placebo=configs[1:],
        kind=kind,
        measure="paired_gap",
        group=groups[0],
        groups=groups[1:],
        reference_group=reference,
        unit=(declared.unit if kind == "classifier" else "") or _UNITS[kind],
        direction=f"above zero {_HIGHER[kind].format(group=whose, reference=reference)}, below zero less; "
        "further from zero is worse",
        scores=_scores(declared, kind),
        reading=declared.reading if kind == _CHAT else "",
        rubric=_rubric(parsed) if kind == _CHAT else None,
        levels=(*groups, reference),
        random=random,
        random_of=fills.of_groups,
        spreads={one: spreads[of_fills.get(one, one)] for one in ("", *random) if of_fills.get(one, one) in spreads},
        slices=tuple(_slices(declared, prompts)),
        margin=declared.margin,
    )


def _scores(declared: Declaration, kind: str) -> tuple[str, ...]:
    if kind == _CHAT:
        judged = ("judged",) if declared.rubric else ()
        return ("score", "unanswered", *(() if declared.reading == "options" else ("refused", "length", *judged)))
    return ("score", "closed_list_mass", "matched_mass") if kind == "masked" else ("score",)


def _rubric(parsed: Parsed) -> Rubric | None:
    """What a judge is asked; it is shown none of the words that fill a slot of a pair."""
    declared, table = parsed.declared, parsed.table(SLOTS)
    if not declared.rubric or declared.reading == "options":
        return None
    words = {value: f"[{name}]" for name in table if name not in ("pair", "group") for value in table[name]}
    return Rubric(question=declared.rubric, candidates="|".join(declared.rubric_options), neutral=words)


def _random(declared: Declaration, prompts: pd.DataFrame, fills: Fills) -> dict[str, str]:
    """Columns that are a sample, by what they are called: what is named, else what varies; else the pairs.

    Fills of the swapped slot are one wherever a group has several.
    """
    if declared.random:
        named = ["pair_id" if one == "pair" else one for one in declared.random]
        return {one: _RANDOM.get(one, f"values of {one}") for one in named} | dict(fills.random)
    varying = {one for one in prompts if one in _RANDOM and prompts[one].nunique() > 1}
    varying |= {"template"} if fills.templates else set()
    found = {one: _RANDOM[one] for one in ("template", "words", "condition") if one in varying}
    return found | dict(fills.random) or {"pair_id": _RANDOM["pair_id"]}


def _fixed(fills: Fills) -> Iterator[str]:
    """What is said of a group that stands in every prompt by the same words."""
    for group, words in fills.words.items():
        if len(words) == 1 and words[0]:
            yield f"Every prompt names {group} as {quoted(words[0])}: other names or words may score otherwise."


def _slices(declared: Declaration, prompts: pd.DataFrame) -> Iterator[Slice]:
    if declared.slices:
        yield from (Slice("pair_id" if one == "pair" else one, one) for one in declared.slices)
        return
    beside = {"pair_id", "prompt_id", "text", "group", "candidates", "counted", "wording", "where", "unit", "masked"}
    for column in constant_columns(prompts, [one for one in prompts if one not in beside | {*FILLS}]):
        if 1 < prompts[column].nunique() <= _MOST_VALUES:
            yield Slice(column, "pair of words" if column == "words" else column)
