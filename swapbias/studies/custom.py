"""A user's own study: its tables are read (nothing in them is run), faults named by line, and a Corpus made."""

import csv
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from swapbias.errors import StudyError, UsageError, arguments_named, quoted
from swapbias.files import LOCK, locked, write_whole
from swapbias.measures import UNNAMED_SCORE, comparison_of, named_group, named_unit
from swapbias.studies.catalogue import load_study, register
from swapbias.studies.corpus import Config, Corpus
from swapbias.studies.declaration import shown
from swapbias.studies.experiment import Experiment, OwnStudy, Reads, Rubric, Shows, Study, Words
from swapbias.studies.factors import (
    SPREADS_OF,
    Columns,
    factors_of,
    own_columns,
    read_columns,
    slices_of,
    spreads_of,
)
from swapbias.studies.fills import UNNAMED, Fills, fills_of
from swapbias.studies.names import unknown
from swapbias.studies.own_faults import faults, warnings
from swapbias.studies.own_prompts import Parsed, parse_study
from swapbias.studies.own_tables import (
    CVS,
    DECLARATION,
    LEXICON,
    NAMES,
    PROMPTS,
    SLOTS,
    STUDY_FILES,
    Files,
    table_column,
    unique_names,
)
from swapbias.studies.prompt import MESSAGES, PLACEBO, PROMPT_COLUMNS, Candidate, text_of
from swapbias.studies.ranges import Range, read_range, unit_declared
from swapbias.studies.table_layout import composed
from swapbias.studies.tables import Lexicon

EXAMPLES = {"slots": "example", "ranking": "example_ranking"}  # folders of new studies
_log = logging.getLogger("swapbias")
_CONFIGS = {
    "masks": ("masked",),
    "questions": ("chat",),
    "texts": ("classifier", "causal"),
}  # who reads what
# Of each kind of model the unit of its scores, what a gap above zero means, and a limit for the report.
_KINDS = {
    "masked": (
        "probability mass at the mask",
        "the model gives words of {group} more probability than those of {reference}",
        "Only words that are one token of the model's vocabulary can be counted (see the coverage table).",
    ),
    "classifier": (
        UNNAMED_SCORE.name,
        "texts of {group} score higher than the same ones of {reference}",
        "",
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
}

# --- the files of a study -------------------------------------------------------------------------------


@arguments_named()
def open_study(
    source: Any,
    *,
    reference: str = "",
    group: str = "",
    lexicon: Path | str | None = None,
    name: str = "",
    origin: str = "",
    unit: str = "",
    range: Range = None,
    fixed: Columns = (),
    shared_fills: bool = False,
) -> Study:
    """Open a study from a folder, a CSV file, a DataFrame or a Dataset; ``swapping.open_study`` reads more files."""
    files = study_files(
        source,
        reference=reference,
        group=group,
        lexicon=lexicon,
        name=name,
        unit=unit,
        range=range,
        fixed=fixed,
        shared_fills=shared_fills,
    )
    parsed = parse_study(files)
    named = partial(_with_file_names, source=source, lexicon=lexicon)
    _refuse(faults(parsed), named)
    register(corpus := _corpus(parsed, origin))
    for sentence in (*warnings(parsed), *_unnamed(corpus)):
        _log.warning("%s", named(sentence))
    return load_study(parsed.declared.name)


def _unnamed(corpus: Corpus) -> list[str]:
    """Advice where the names in the texts could not be found."""
    return (
        [UNNAMED]
        if corpus.study and any(one.design.unnamed_fills for one in corpus.study.experiments)
        else []
    )


class Check(NamedTuple):
    """Faults, for which an audit refuses a study, as sentences with file and line; without any, advice and corpus."""

    faults: list[str]
    advice: list[str]
    corpus: Corpus | None


def check_study(source: Any, **of_table: Any) -> Check:
    """The faults of a user's own study, and without any, advice on what may bend its numbers; as ``open_study``."""
    parsed = parse_study(study_files(source, **of_table))
    named = partial(_with_file_names, source=source, lexicon=of_table.get("lexicon"))
    if found := faults(parsed):
        return Check(list(map(named, found)), [], None)
    corpus = _corpus(parsed)
    return Check([], list(map(named, [*warnings(parsed), *_unnamed(corpus)])), corpus)


def reopen_study(folder: Path, origin: str) -> None:
    """Make a study known from the copy that a run keeps of it; ``origin`` is that of the manifest."""
    register(own_corpus(study_files(folder), origin="" if origin == "local" else origin))


def source_name(source: Any) -> str:
    """Give the name of the file that a table was read from; blank for any other table."""
    return str(getattr(source, "attrs", {}).get("file", ""))


def _with_file_names(sentence: str, source: Any, lexicon: Path | str | None) -> str:
    """A sentence about a study that names the user's own CSV files, where it was made from such."""
    if not isinstance(source, str | Path) or not Path(source).expanduser().is_dir():
        sentence = re.sub(rf"{DECLARATION}:\d+: ", "", sentence)
    if name := source_name(source):
        sentence = sentence.replace(PROMPTS, name)
    for standard, place in ((PROMPTS, source), (LEXICON, lexicon)):
        if isinstance(place, str | Path) and Path(place).expanduser().is_file():
            sentence = sentence.replace(standard, Path(place).name)
    return sentence


def study_files(
    source: Any,
    *,
    reference: str = "",
    group: str = "",
    lexicon: Path | str | None = None,
    name: str = "",
    unit: str = "",
    range: Range = None,
    fixed: Columns = (),
    shared_fills: bool = False,
) -> dict[str, bytes]:
    """The files of a study by name: those of a folder, or what a table comes to, as ``open_study`` takes it."""
    place = Path(source).expanduser() if isinstance(source, str | Path) else None
    if place is not None and place.is_dir():
        if any((reference, group, lexicon, unit, range, fixed, shared_fills)):
            raise UsageError(
                f"{place} says reference, group, words, unit, range, fixed columns and shared fills in its files. "
                "Write them there, and drop --reference and the like."
            )
        return _files_of_folder(place)
    if place is not None:
        if not place.is_file():
            raise UsageError(
                f"{source} is no folder of a study and no file of prompts. Check the path."
            )
        content = place.read_bytes()
        name = name or _study_name(place.stem)
    else:
        table = _prompt_table(source)
        if "group" in table:
            reference, group = (
                named_group(one, set(map(str, table["group"]))) for one in (reference, group)
            )
        quotes = csv.QUOTE_NONNUMERIC  # else a carriage return in a text would end its row
        content = table.to_csv(index=False, lineterminator="\n", quoting=quotes).encode()
        name = name or _study_name(source_name(source).partition(".")[0] or "prompts")
    group = composed(str(group))
    reference = composed(str(reference))
    if group and group == reference:
        raise UsageError(
            f"{shown(group)} is the reference and the group compared with it. Name another group."
        )
    groups = [group, reference] if group else []
    declared = _declaration_of_table(
        name,
        {"groups": groups, "reference": reference},
        unit,
        read_range(range),
        read_columns(fixed),
        shared_fills,
    )
    words = {LEXICON: Path(lexicon).expanduser().read_bytes()} if lexicon else {}
    return {DECLARATION: declared.encode(), PROMPTS: content, **words}


def _declaration_of_table(
    name: str,
    compares: dict[str, Any],
    unit: str,
    ends: Sequence[float],
    fixed: Sequence[str],
    shared_fills: bool,
) -> str:
    """Write ``study.toml`` of a table of prompts."""
    if unit and ends:
        compares["unit"] = {"name": unit, "range": ends}
    elif unit:
        compares["unit"] = unit
    elif ends:
        compares["unit"] = {"range": ends}
    design = {"fixed": fixed, "shared_fills": bool(shared_fills)}
    sections = {
        "": {"name": name, "title": f"Own prompts ({name})"},
        "compares": compares,
        "design": design,
    }
    lines: list[str] = []
    for section, values in sections.items():
        stated = {key: value for key, value in values.items() if value}
        if section and stated:
            lines.append(f"\n[{section}]")
        lines += [f"{key} = {_toml(value)}" for key, value in stated.items()]
    return "\n".join([*lines, ""])


def _toml(value: Any) -> str:
    """Write a text, number, switch, list, or table of these as TOML."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key} = {_toml(inner)}' for key, inner in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _files_of_folder(folder: Path) -> dict[str, bytes]:
    """Read the files of a study from its folder."""
    if not (folder / DECLARATION).is_file():
        raise UsageError(f"{folder} holds no {DECLARATION}. Write one with swapbias study new.")
    return {name: (folder / name).read_bytes() for name in STUDY_FILES if (folder / name).is_file()}


def _prompt_table(source: Any) -> pd.DataFrame:
    """Give prompts in memory as a table whose cells are those of a CSV file."""
    table = _with_class_names(source)
    if not isinstance(table, pd.DataFrame):
        found = type(source).__name__
        raise UsageError(
            f"prompts are a {found}, expected a folder, a CSV file, a DataFrame or a Dataset."
        )
    if "candidates" in table:  # as corpora have them, or as a CSV file does
        table = table.assign(candidates=[_words(one) for one in table["candidates"]])
    if MESSAGES in table:
        table = table.assign(text=[text_of(one) for one in table[MESSAGES]]).drop(columns=MESSAGES)
    return table


def _with_class_names(source: Any) -> Any:
    """A table as a DataFrame; of a Dataset columns of classes hold the names of these."""
    if not hasattr(source, "to_pandas"):
        return source
    table = source.to_pandas()
    for column, feature in (getattr(source, "features", None) or {}).items():
        if hasattr(feature, "int2str") and isinstance(table, pd.DataFrame):
            classes = [
                None if pd.isna(value) or value < 0 else int(value) for value in table[column]
            ]
            names = [None if number is None else feature.int2str(number) for number in classes]
            table = table.assign(**{column: names})
    return table


def _words(cell: Any) -> Any:
    """Words that are counted as a cell of a CSV file has them, from a list of ``{"text": ...}`` as corpora have."""
    return (
        cell
        if isinstance(cell, str) or not hasattr(cell, "__len__")
        else "|".join(one["text"] for one in cell)
    )


def _study_name(text: str) -> str:
    (name,) = unique_names([text], most=46)
    return name if name[0].isalpha() else f"own_{name}"


def new_study(folder: Path, template: str = "slots") -> list[Path]:
    """Write an example (``slots``, or ``ranking``: candidates with CVs) into a new folder; gives the files."""
    if template not in EXAMPLES:
        raise unknown("template", template, list(EXAMPLES))
    if folder.exists() and (
        not folder.is_dir() or any(one.name != LOCK for one in folder.iterdir())
    ):
        raise UsageError(f"{folder} is not empty, expected a new folder. Choose another.")
    folder.mkdir(parents=True, exist_ok=True)
    example = sorted(Path(str(resources("swapbias.studies") / EXAMPLES[template])).iterdir())
    with locked(folder):
        for one in example:
            text = one.read_text(encoding="utf-8").replace(
                "STUDY_NAME", _study_name(folder.resolve().name)
            )
            write_whole(folder / one.name, text.encode())
    return [folder / one.name for one in example]


# --- the corpus ---------------------------------------------------------------------------------------


def own_corpus(files: Files, *, origin: str = "") -> Corpus:
    """The corpus that the files of a study come to; StudyError has a line for each fault, with file and line."""
    parsed = parse_study(files)
    _refuse(faults(parsed))
    return _corpus(parsed, origin)


def _refuse(found: Sequence[str], named: Callable[[str], str] = str) -> None:
    """Raise a StudyError of the first faults, where there are any."""
    if found:
        rest = (
            [f"{len(found) - 20} more: list all with swapbias study check."]
            if len(found) > 20
            else []
        )
        raise StudyError(named("\n".join([*found[:20], *rest])))


def _corpus(parsed: Parsed, origin: str = "") -> Corpus:
    """The corpus of a study without faults."""
    declared = parsed.declared
    prompts = parsed.prompts
    ranks = CVS in parsed.tables
    lexicons, labels = ({}, dict.fromkeys(prompts["counted"], "")) if ranks else _lexicons(parsed)
    prompts = prompts[prompts["group"].isin(parsed.groups)]
    prompts = prompts.assign(
        prompt_id=prompts["pair_id"] + "/" + prompts["group"],
        lexicon=prompts["counted"].map(labels),
        candidates=prompts["candidates"] if ranks else [()] * len(prompts),
    )
    configs: list[Config] = []
    experiments: list[Experiment] = []
    limits: dict[str, None] = {}
    for name, kinds in _CONFIGS.items():
        chosen = prompts[prompts["masked"] == (name == "masks")]
        readers = [
            one for one in kinds if one in (declared.kind or ("masked", "classifier", "causal"))
        ]
        if not (len(chosen) and readers):
            continue
        plain = (
            chosen if PROMPTS in parsed.tables else chosen[:0]
        )  # of slots the declaration says what is random
        with_templates = "template" in (*declared.design.random, *declared.design.fixed)
        fills = fills_of(
            plain, parsed.compared, declared.compares.reference, with_templates=with_templates
        )
        if fills.unclear:
            limits[UNNAMED] = None
        for group, words in fills.words.items() if not fills.unclear else ():
            if len(words) == 1 and words[0]:
                what = f"Every prompt names {group} as {quoted(words[0])}"
                limits[f"{what}: other names or words may score otherwise."] = None
        rows = chosen.assign(experiment=readers[0])
        if name == "questions" and not ranks:
            rows["candidates"] = [declared.reads.answers] * len(rows)
        made = _configs(name, rows, fills)
        configs += made
        experiments += [
            _experiment(parsed, kind, [one.name for one in made], chosen, fills) for kind in readers
        ]
    study = Study(
        name=declared.name,
        title=declared.title,
        url=declared.url,
        experiments=tuple(experiments),
        limits=(*declared.limits, *limits),
    )
    return Corpus(
        name=declared.name,
        title=declared.title,
        licence=declared.licence,
        version=declared.version,
        study=study,
        lexicons=lexicons,
        configs=tuple(configs),
        own=dict(parsed.files),
        origin=origin,
    )


def _lexicons(parsed: Parsed) -> tuple[dict[str, Callable[[], Lexicon]], dict[str, str]]:
    """The word lists, and what names the words of each cell: one list, or one a cell where cells contradict."""
    corpus = parsed.declared.name
    prompts = parsed.prompts
    listed = dict(
        zip(*(table_column(parsed.tables, LEXICON, one) for one in ("word", "group")), strict=True)
    )
    cells = prompts[~prompts["counted"].isin(["", *parsed.labels])].drop_duplicates(
        "counted", keep="last"
    )
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
    lower, proper = (
        {one: words[one] for one in words if (one == one.lower()) is same} for same in (True, False)
    )
    return Lexicon(name, lower, proper, rest="other words")


def _configs(name: str, prompts: pd.DataFrame, fills: Fills) -> list[Config]:
    """The prompts of one comparison, and its other wordings where there are any."""
    more = [column for column in own_columns(prompts) if column not in PROMPT_COLUMNS]
    filled = {column: prompts["pair_id"].map(fills.by_pair[column]) for column in fills.by_pair}
    rows = prompts.assign(**filled)[[*PROMPT_COLUMNS, *more, *fills.random]]
    again = rows.assign(side=rows["group"], wording=prompts["wording"])[prompts["wording"] != ""]
    ids = {one: again[one] + "/w" + again["wording"] for one in ("prompt_id", "pair_id")}
    parts = [
        (name, "Own prompts", rows[prompts["wording"] == ""]),
        (f"{name}_wordings", "In other wordings", again.assign(**ids, group=PLACEBO)),
    ]
    # Rows share values; pandas would take the tuples of candidates for levels of an index.
    shared = [
        frame.astype({one: "category" for one in frame if one != "candidates"})
        for *_, frame in parts
    ]
    return [
        Config(one, what, partial(frame.to_dict, "records"), tuple(frame))
        for (one, what, _), frame in zip(parts, shared, strict=True)
        if len(frame)
    ]


def _experiment(
    parsed: Parsed, kind: str, configs: Sequence[str], prompts: pd.DataFrame, fills: Fills
) -> Experiment:
    """Make the experiment of one kind of model from what a study declares, and what its prompts come to."""
    declared = parsed.declared
    reference = declared.compares.reference
    factors = factors_of(
        prompts,
        fills,
        random=declared.design.random,
        fixed=declared.design.fixed,
        is_ranking=declared.is_ranking,
    )
    unit = unit_declared(
        kind, named_unit(_KINDS[kind][0]), declared.compares.unit, _options(declared)
    )
    span = unit.span if unit.in_points else 1.0
    compares = declared.compares.changed(
        groups=parsed.compared, unit=unit, factors=_crossed(parsed, prompts)
    )
    design = declared.design.changed(
        random=factors.random,
        random_of=fills.random_of,
        fixed=factors.fixed,
        unnamed_fills=fills.unclear,
        # rankings are balanced, and selection rates beside their gaps are means of rows
        equal_levels=not declared.is_ranking,
        planned_sd=spreads_of(kind, factors, fills, span),
        planned_sd_of=SPREADS_OF.get(kind, ()),
    )
    shows = Shows(
        scores=_scores(declared, kind),
        levels=(*parsed.compared, reference),
        slices=slices_of(prompts, declared.shows.slices, is_ranking=declared.is_ranking),
        rates=("selection",) if declared.is_ranking else (),
    )
    reads = Reads(
        configs=tuple(configs[:1]),
        rewordings=tuple(configs[1:]),
        reading=declared.reading if kind == "chat" else "",
        rubric=_rubric(parsed) if kind == "chat" else None,
    )
    return Experiment(
        name=kind,
        question=declared.question or declared.title,
        kind=kind,
        reads=reads,
        compares=compares,
        design=design,
        shows=shows,
        words=_sentences(parsed, kind),
    )


def _sentences(parsed: Parsed, kind: str) -> Words:
    """How sentences say what the experiment of a kind of model found."""
    _, higher, limit = _KINDS[kind]
    first = parsed.compared[0] if len(parsed.compared) == 1 else "a group"
    higher = higher.format(group=first, reference=parsed.declared.compares.reference)
    return Words(
        direction=f"above zero {higher}, below zero less; further from zero is worse",
        says="ranks {more} first more often than {less}" if parsed.declared.is_ranking else "",
        limits=(limit,) if limit else (),
    )


def _scores(declared: OwnStudy, kind: str) -> tuple[str, ...]:
    """The columns of scores that a kind of model gives."""
    if declared.is_ranking:
        return ("score", "unanswered", "refused")
    if kind == "masked":
        return ("score", "log_odds", "matched_mass")
    if kind != "chat":
        return ("score",)
    if declared.reading == "options":
        return ("score", "unanswered")
    judged = ("judged",) if declared.reads.rubric else ()
    return ("score", "unanswered", "refused", "length", *judged)


def _crossed(parsed: Parsed, prompts: pd.DataFrame) -> tuple[str, ...]:
    """The columns of names whose levels cross to the groups that are ranked; none where names have no such.

    Only means have effects of crossed factors.
    """
    comparison = comparison_of(parsed.declared.compares.measure)
    if not parsed.declared.is_ranking or comparison is None or not comparison.is_mean:
        return ()
    columns = [column for column in parsed.tables[NAMES] if column not in ("group", "name")]
    of_groups = prompts.groupby("group")[columns].nunique() if len(columns) > 1 else None
    return tuple(columns) if of_groups is not None and of_groups.eq(1).all(axis=None) else ()


def _rubric(parsed: Parsed) -> Rubric | None:
    """What a judge is asked, and the swapped words, which it is not shown; None where answers choose an option."""
    rubric = parsed.declared.reads.rubric
    if rubric is None or parsed.declared.reading in ("options", "ranking"):
        return None
    table = parsed.tables.get(SLOTS, pd.DataFrame()).drop(
        columns=["pair", "group"], errors="ignore"
    )
    return replace(rubric, neutral={value: f"[{name}]" for name in table for value in table[name]})


def _options(declared: OwnStudy) -> tuple[Candidate, ...]:
    """The options whose numbers answers score; none where candidates are ranked, or nothing is asked."""
    return () if declared.is_ranking else declared.reads.answers
