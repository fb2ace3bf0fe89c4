"""The corpus and the study that the files of a user's own study come to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pandas as pd

from swapbias.errors import StudyError, quoted
from swapbias.measures import comparison_of, units
from swapbias.studies.corpus import Config, Corpus
from swapbias.studies.declared_values import Rubric
from swapbias.studies.experiment import Experiment, OwnStudy, Reads, Shows, Study, Words
from swapbias.studies.own.factors import (
    SPREADS_OF,
    category_columns,
    factors_of,
    own_columns,
    slices_of,
    spreads_of,
)
from swapbias.studies.own.fills import UNNAMED, Fills, fills_of
from swapbias.studies.own.own_faults import find_faults
from swapbias.studies.own.own_files import CVS, EDITS, LEXICON, NAMES, PROMPTS, SLOTS, Files
from swapbias.studies.own.own_prompts import Parsed, parse_study
from swapbias.studies.own.own_tables import table_column, unique_names
from swapbias.studies.own.ranges import unit_declared
from swapbias.studies.own.searches import (
    CONTROL,
    NO_FILLS,
    RANK,
    RETRIEVAL,
    control_experiment,
    control_prompts,
    group_words,
    is_ranked,
    other_documents,
)
from swapbias.studies.prompt import PLACEBO, PROMPT_COLUMNS, Candidate
from swapbias.studies.tables import Lexicon

# the kinds of models that read each config
_CONFIGS = {
    "masks": ("masked",),
    "questions": ("chat",),
    "texts": ("classifier", "causal"),
    "names": ("tagger",),
    "searches": (RETRIEVAL,),
}
_KINDS_BY_DEFAULT = ("masked", "classifier", "causal")
_MOST_FAULTS = 20  # that an error names


class _KindWords(NamedTuple):
    """Words of a report about the scores of a kind of model."""

    unit: str
    """The unit of the scores."""
    higher: str
    """What a gap above zero means, with the places of two groups."""
    limit: str
    """A limit for the report; blank for none."""


_RANKED = _KindWords(
    RANK,
    "documents of {group} are ranked higher than the same ones of {reference}",
    "",
)
_KINDS = {
    "masked": _KindWords(
        "probability mass at the mask",
        "the model gives words of {group} more probability than those of {reference}",
        "Only words that are one token of the model's vocabulary can be counted (see the coverage table).",
    ),
    "classifier": _KindWords(
        units.UNNAMED_SCORE.name,
        "texts of {group} score higher than the same ones of {reference}",
        "",
    ),
    "causal": _KindWords(
        "log-probability",
        "texts of {group} are more likely than the same ones of {reference}",
        "A text of more or rarer words is less likely whatever it says: swapped words must be alike in both.",
    ),
    "tagger": _KindWords(
        "share of names found",
        "names of {group} are found more often than those of {reference}",
        "A model that finds no name shows no gap either: see the shares of names found.",
    ),
    RETRIEVAL: _KindWords(
        "similarity",
        "documents of {group} are more similar to their query than the same ones of {reference}",
        "",
    ),
    "chat": _KindWords(
        "share of answers",
        "answers about {group} count more than those about {reference}",
        "An answer that comes to no decision has no score: see what the gap could be whatever was not answered.",
    ),
}


def corpus_from_files(files: Files, *, origin: str = "") -> Corpus:
    """Make the corpus that the files of a study come to.

    Args:
        files: content of each file by its name.
        origin: the repository of the Hub that they were read from.

    Raises:
        StudyError: a line for each fault, with file and line.
    """
    parsed = parse_study(files)
    refuse_study(find_faults(parsed))
    return make_corpus(parsed, origin)


def refuse_study(faults: Sequence[str], rename_files: Callable[[str], str] = str) -> None:
    """Refuse a study that has faults.

    Args:
        faults: a sentence each.
        rename_files: writes a sentence with the names of the user's own files.

    Raises:
        StudyError: there are faults; it has a line for each of the first.
    """
    if faults:
        lines = [*faults[:_MOST_FAULTS]]
        count = len(faults) - _MOST_FAULTS
        if count > 0:
            lines.append(f"{count} more: list all with swapbias study check.")
        raise StudyError(rename_files("\n".join(lines)))


def make_corpus(parsed: Parsed, origin: str = "") -> Corpus:
    """Make the corpus of a study without faults.

    Args:
        parsed: the files of the study.
        origin: the repository of the Hub that they were read from; blank: none.
    """
    declared = parsed.declared
    lexicons, labels = _lexicons(parsed)
    is_ranking = CVS in parsed.tables
    prompts = parsed.prompts[parsed.prompts["group"].isin(parsed.groups)]
    prompts = prompts.assign(
        prompt_id=prompts["pair_id"] + "/" + prompts["group"],
        lexicon=prompts["counted"].map(labels),
        candidates=prompts["candidates"] if is_ranking else [()] * len(prompts),
    )
    configs: list[Config] = []
    experiments: list[Experiment] = []
    limits: dict[str, None] = {}
    for name, kinds in _CONFIGS.items():
        chosen = prompts[prompts["masked"] == (name == "masks")]
        readers = [kind for kind in kinds if kind in (declared.kind or _KINDS_BY_DEFAULT)]
        if not len(chosen) or not readers:
            continue
        fills = _find_fills(parsed, chosen)
        limits |= dict.fromkeys(_limits_of_fills(fills))
        rows = chosen.assign(experiment=readers[0])
        if name == "questions" and not is_ranking:
            rows["candidates"] = [declared.reads.answers] * len(rows)
        elif name == "names":
            rows["candidates"] = [(Candidate(inserted, 1.0),) for inserted in rows["inserted"]]
        elif name == "searches":
            rows["candidates"] = rows["condition"].map(other_documents(parsed))
        of_name = _configs(name, rows, fills)
        configs += of_name
        config_names = [config.name for config in of_name]
        of_kinds = [_experiment(parsed, kind, config_names, chosen, fills) for kind in readers]
        if name == "searches" and EDITS in parsed.tables:
            control = control_prompts(parsed, rows, fills)
            configs += _configs(CONTROL, control, NO_FILLS)
            experiments.append(control_experiment(parsed, of_kinds[0], control))
        experiments += of_kinds
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
        own_files=dict(parsed.files),
        origin=origin,
    )


def _find_fills(parsed: Parsed, prompts: pd.DataFrame) -> Fills:
    """Find what fills the swapped slot of plain prompts; of slots the declaration says what is random."""
    design = parsed.declared.design
    return fills_of(
        prompts if PROMPTS in parsed.tables else prompts[:0],
        parsed.compared,
        parsed.declared.compares.reference,
        with_templates="template" in (*design.random, *design.fixed),
    )


def _limits_of_fills(fills: Fills) -> list[str]:
    """List the limits for the report of names that were not found, or that are one for all prompts."""
    if fills.unclear:
        return [UNNAMED]
    return [
        f"Every prompt names {group} as {quoted(words[0])}: other names or words may score otherwise."
        for group, words in fills.words.items()
        if len(words) == 1 and words[0]
    ]


# --- word lists -----------------------------------------------------------------------------------------


def _lexicons(parsed: Parsed) -> tuple[dict[str, Callable[[], Lexicon]], dict[str, str]]:
    """Make the word lists, and what names the words of each cell: one list, or one a cell where cells contradict."""
    if CVS in parsed.tables:
        return {}, dict.fromkeys(parsed.prompts["counted"], "")
    corpus = parsed.declared.name
    words = table_column(parsed.tables, LEXICON, "word")
    listed = dict(zip(words, table_column(parsed.tables, LEXICON, "group"), strict=True))
    lists = {"words": listed} if listed else {}
    labels = {"": "", **{group: f"{corpus}/words/{group}" for group in parsed.labels}}
    cells = _word_cells(parsed)
    groups = {word: cell.group for cell in cells for word in cell.words}  # of the last cell
    contradict = any(groups[word] != cell.group for cell in cells for word in cell.words)
    is_shared = len({cell.group for cell in cells}) < len(cells)
    if listed or contradict or is_shared:
        names = unique_names(cell.text for cell in cells)
        for cell, name in zip(cells, names, strict=True):
            list_name = f"{name}_counted" if name == "words" else name
            lists[list_name] = dict.fromkeys(cell.words, "counted")
            labels[cell.text] = f"{corpus}/{list_name}/counted"
    else:
        lists = {"words": groups}
        labels |= {cell.text: f"{corpus}/words/{cell.group}" for cell in cells}
    lexicons: dict[str, Callable[[], Lexicon]] = {
        name: partial(_lexicon, f"{corpus}/{name}", words_of) for name, words_of in lists.items()
    }
    return lexicons, labels


class _WordCell(NamedTuple):
    """A cell with the words that are counted for a group."""

    text: str
    """The cell."""
    words: list[str]
    """The words of the cell."""
    group: str
    """The group whose words are counted."""


def _word_cells(parsed: Parsed) -> list[_WordCell]:
    """List the different cells of words that are counted, with the group of the last prompt that has one."""
    prompts = parsed.prompts
    of_cells = prompts[~prompts["counted"].isin(["", *parsed.labels])]
    last = of_cells.drop_duplicates("counted", keep="last")
    return [
        _WordCell(text, [word.strip() for word in text.split("|")], group)
        for text, group in zip(last["counted"], last["group"], strict=True)
    ]


def _lexicon(name: str, words: Mapping[str, str]) -> Lexicon:
    """Make a lexicon: words in lower case are matched in any case, others as they are written."""
    lower = {word: label for word, label in words.items() if word == word.lower()}
    proper = {word: label for word, label in words.items() if word != word.lower()}
    return Lexicon(name, lower, proper, rest="other words")


# --- configs and experiments ----------------------------------------------------------------------------


def _configs(name: str, prompts: pd.DataFrame, fills: Fills) -> list[Config]:
    """Make the config of one comparison, and that of its other wordings where there are any."""
    added = [column for column in own_columns(prompts) if column not in PROMPT_COLUMNS]
    filled = {column: prompts["pair_id"].map(fills.by_pair[column]) for column in fills.by_pair}
    rows = prompts.assign(**filled)[[*PROMPT_COLUMNS, *added, *fills.random]]
    is_reworded = prompts["wording"] != ""
    reworded = rows.assign(side=rows["group"], wording=prompts["wording"])[is_reworded]
    ids = {
        column: reworded[column] + "/w" + reworded["wording"] for column in ("prompt_id", "pair_id")
    }
    configs = (
        _config(name, "Own prompts", rows[~is_reworded]),
        _config(f"{name}_wordings", "In other wordings", reworded.assign(**ids, group=PLACEBO)),
    )
    return [config for config in configs if config is not None]


def _config(name: str, description: str, rows: pd.DataFrame) -> Config | None:
    """Make a config of rows; None of no rows."""
    if not len(rows):
        return None
    # Rows share values; pandas would take the tuples of candidates for levels of an index.
    shared = rows.astype({column: "category" for column in rows if column != "candidates"})
    return Config(name, description, partial(shared.to_dict, "records"), tuple(shared))


def _experiment(
    parsed: Parsed, kind: str, configs: Sequence[str], prompts: pd.DataFrame, fills: Fills
) -> Experiment:
    """Make the experiment of one kind of model from what a study declares, and what its prompts come to."""
    declared = parsed.declared
    factors = factors_of(
        prompts,
        fills,
        random=declared.design.random,
        fixed=declared.design.fixed,
        is_ranking=declared.is_ranking,
    )
    usual = units.named_unit(_words_of_kind(parsed, kind).unit)
    unit = unit_declared(kind, usual, declared.compares.unit, _counted_options(declared))
    span = unit.span if unit.in_points else 1.0
    compares = declared.compares.changed(
        groups=parsed.compared, unit=unit, factors=_crossed_columns(parsed, prompts)
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
        scores=_score_columns(parsed, kind),
        levels=(*parsed.compared, declared.compares.reference),
        slices=slices_of(prompts, declared.shows.slices, is_ranking=declared.is_ranking),
        rates=("selection",) if declared.is_ranking else (),
        decisions=declared.shows.decisions,
        quantiles=declared.shows.quantiles,
        categories=declared.shows.categories or category_columns(prompts),
    )
    reads = Reads(
        configs=tuple(configs[:1]),
        rewordings=tuple(configs[1:]),
        reading=_reading(parsed, kind),
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
        words=_words(parsed, kind),
    )


def _words(parsed: Parsed, kind: str) -> Words:
    """Write how sentences say what the experiment of a kind of model found."""
    kind_words = _words_of_kind(parsed, kind)
    group = parsed.compared[0] if len(parsed.compared) == 1 else "a group"
    reference = parsed.declared.compares.reference
    higher = kind_words.higher.format(group=group, reference=reference)
    direction = f"above zero {higher}, below zero less; further from zero is worse"
    if kind == RETRIEVAL:
        return group_words(parsed, direction)
    return Words(
        direction=direction,
        says="ranks {more} first more often than {less}" if parsed.declared.is_ranking else "",
        limits=(kind_words.limit,) if kind_words.limit else (),
    )


def _words_of_kind(parsed: Parsed, kind: str) -> _KindWords:
    """Return the words about the scores of a kind of model, which of searches may be ranks."""
    if kind == RETRIEVAL and is_ranked(parsed):
        return _RANKED
    return _KINDS[kind]


def _reading(parsed: Parsed, kind: str) -> str:
    """Name the way in which a model of a kind is read; blank for the usual one."""
    if kind == "chat":
        return parsed.declared.reading
    return "rank" if kind == RETRIEVAL and is_ranked(parsed) else ""


def _score_columns(parsed: Parsed, kind: str) -> tuple[str, ...]:
    """List the columns of scores that a kind of model gives."""
    declared = parsed.declared
    if declared.is_ranking:
        return ("score", "unanswered", "refused")
    if kind == "masked":
        return ("score", "log_odds", "matched_mass")
    if kind == "tagger":
        return ("score", "covered")
    if kind == RETRIEVAL and is_ranked(parsed):
        return ("score", "similarity")
    if kind != "chat":
        return ("score",)
    if declared.reading == "options":
        return ("score", "unanswered")
    judged = ("judged",) if declared.reads.rubric else ()
    return ("score", "unanswered", "refused", "length", *judged)


def _crossed_columns(parsed: Parsed, prompts: pd.DataFrame) -> tuple[str, ...]:
    """List the columns of names whose levels cross to the groups that are ranked; none where names have no such.

    Only means have effects of crossed factors.
    """
    comparison = comparison_of(parsed.declared.compares.measure)
    if not parsed.declared.is_ranking or comparison is None or not comparison.is_mean:
        return ()
    columns = [column for column in parsed.tables[NAMES] if column not in ("group", "name")]
    if len(columns) < 2:
        return ()
    levels = prompts.groupby("group")[columns].nunique()
    return tuple(columns) if levels.eq(1).all(axis=None) else ()


def _rubric(parsed: Parsed) -> Rubric | None:
    """Give the question to a judge with the swapped words, which it is not shown; None where answers choose."""
    rubric = parsed.declared.reads.rubric
    if rubric is None or parsed.declared.reading in ("options", "ranking"):
        return None
    slots = parsed.tables.get(SLOTS, pd.DataFrame())
    words = slots.drop(columns=["pair", "group"], errors="ignore")
    neutral = {word: f"[{column}]" for column in words for word in words[column]}
    return replace(rubric, neutral=neutral)


def _counted_options(declared: OwnStudy) -> tuple[Candidate, ...]:
    """List the options whose numbers answers score; none where candidates are ranked, or nothing is asked."""
    return () if declared.is_ranking else declared.reads.answers
