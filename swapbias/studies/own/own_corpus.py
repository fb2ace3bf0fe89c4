"""The corpus and the study that the files of a user's own study come to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from swapbias.errors import StudyError, quoted
from swapbias.measures import UNNAMED_SCORE, comparison_of, named_unit
from swapbias.studies.corpus import Config, Corpus
from swapbias.studies.experiment import Experiment, OwnStudy, Reads, Rubric, Shows, Study, Words
from swapbias.studies.own.factors import SPREADS_OF, factors_of, own_columns, slices_of, spreads_of
from swapbias.studies.own.fills import UNNAMED, Fills, fills_of
from swapbias.studies.own.own_faults import faults
from swapbias.studies.own.own_files import CVS, LEXICON, NAMES, PROMPTS, SLOTS, Files
from swapbias.studies.own.own_prompts import Parsed, parse_study
from swapbias.studies.own.own_tables import table_column, unique_names
from swapbias.studies.own.ranges import unit_declared
from swapbias.studies.prompt import PLACEBO, PROMPT_COLUMNS, Candidate
from swapbias.studies.tables import Lexicon

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


def corpus_from_files(files: Files, *, origin: str = "") -> Corpus:
    """The corpus that the files of a study come to; StudyError has a line for each fault, with file and line."""
    parsed = parse_study(files)
    refuse_study(faults(parsed))
    return corpus_of(parsed, origin)


def refuse_study(found: Sequence[str], named: Callable[[str], str] = str) -> None:
    """Raise a StudyError of the first faults, where there are any."""
    if found:
        rest = (
            [f"{len(found) - 20} more: list all with swapbias study check."]
            if len(found) > 20
            else []
        )
        raise StudyError(named("\n".join([*found[:20], *rest])))


def corpus_of(parsed: Parsed, origin: str = "") -> Corpus:
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
