"""Whether a study of one's own asks what it means to: faults, advice, and how large a gap it could find."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from swapbias.models import Scorer
from swapbias.runs.plan import Task, design_note
from swapbias.studies import (
    MASK,
    Corpus,
    Parsed,
    Row,
    as_named,
    checked_rows,
    faults,
    having,
    own_corpus,
    parse_study,
    spellings,
    study_files,
    unlike_pairs,
)

WORDINGS_WANTED = 5  # of each template, as in the studies of the package
_ARTICLE = re.compile(r"\b([Aa]n?) ([A-Za-z][\w'-]*)")
_AN = re.compile(r"[aeio]|u(?!ni|s[aeiu]|t[aei]|r[aeiou]|k|rani)|hour|honest|honou?r|heir", re.IGNORECASE)
_A_AFTER_ALL = re.compile(r"(one|once|eu|ewe|uni(?!n|m))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Soundness:
    """What a check tells, a sentence each.

    Attributes:
        faults: what an audit would refuse, with file and line.
        advice: what it would not, and what may bend the numbers.
        told: of each experiment its design and the smallest gap that it could find; none where there are faults.
    """

    faults: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


def check_study(source: Any, *, scorer: Scorer | None = None, **of_table: Any) -> Soundness:
    """Check a study of one's own before anything is scored.

    Args:
        source: a folder, a CSV file, a DataFrame or a Dataset, as ``open_study`` takes it.
        scorer: a model whose vocabulary has to hold the words that are counted.
        of_table: ``reference``, ``group``, ``lexicon`` and ``name``, as of ``open_study``.

    Raises:
        UsageError: no such folder or file.
    """
    found = _checked(study_files(source, **of_table), scorer)
    named = partial(as_named, source=source, lexicon=of_table.get("lexicon"))
    return Soundness(*(tuple(dict.fromkeys(map(named, one))) for one in (found.faults, found.advice, found.told)))


def _checked(files: Mapping[str, bytes], scorer: Scorer | None) -> Soundness:
    parsed = parse_study(files)
    if found := faults(parsed):
        return Soundness(tuple(found), tuple(_of_texts(parsed)))
    try:
        corpus = own_corpus(files)
    except ValueError as error:
        return Soundness((str(error),))
    advice = chain(
        unlike_pairs(parsed),
        spellings(parsed),
        _of_texts(parsed),
        _of_groups(parsed),
        _of_masks(parsed),
        _of_wordings(parsed),
        _of_words(parsed, corpus, scorer),
    )
    return Soundness((), tuple(advice), tuple(_told(corpus)))


def article_is_wrong(article: str, word: str) -> bool:
    """Whether "a" or "an" does not go with a word, by its letters; of a word in capitals nobody can tell.

    >>> [article_is_wrong("a", one) for one in ("engineer", "university", "hour", "nurse", "MRI")]
    [True, False, True, False, False]
    """
    if word.isupper():
        return False
    wants_an = bool(_AN.match(word)) and not _A_AFTER_ALL.match(word)
    return wants_an != (article.lower() == "an")


def _of_texts(parsed: Parsed) -> Iterator[str]:
    """Articles that do not go with what follows, once a template; texts that stand twice."""
    prompts = parsed.prompts
    for where, texts in prompts.groupby("where", sort=False)["text"]:
        words = dict.fromkeys(found for text in texts for found in _ARTICLE.findall(text))
        for article, word in words:
            if article_is_wrong(article, word):
                better = "a" if article.lower() == "an" else "an"
                yield f"{where}: '{article} {word}', expected '{better} {word}'. Write it into the value."
    first = prompts.groupby(["text", "group", "counted"], sort=False)["where"].transform("first")
    again = prompts.assign(before=first)[prompts.duplicated(["text", "group", "counted"])].drop_duplicates("where")
    for row in again.itertuples():
        before = "the same line" if row.before == row.where else row.before
        yield f"{row.where}: the text stands in {before} already: pairs of the same texts count once. Remove one."


def _of_groups(parsed: Parsed) -> Iterator[str]:
    """Groups that are in fewer pairs than the reference: of two groups that is a fault, of more it is not."""
    pairs = parsed.prompts.groupby("group")["pair_id"].nunique()
    most = pairs[parsed.declared.reference]
    for group in parsed.groups:
        if pairs[group] < most:
            yield f"Group {group!r} is in {pairs[group]} of {most} pairs, so that groups are compared on other texts."


def _of_masks(parsed: Parsed) -> Iterator[str]:
    """Articles before a mask favour words by their first letter; words that no token can be."""
    prompts, words = parsed.prompts, parsed.table("lexicon.csv").get("word", {})
    if len({article_is_wrong("a", word) for _, word in words.items()}) > 1:
        for where in prompts["where"][prompts["text"].str.contains(rf"\b[Aa]n? {MASK}").astype(bool)].unique():
            yield f"{where}: the article before {MASK} favours words by their first letter. Put it elsewhere."
    for line, word in words.items():
        if not re.fullmatch(r"[^\W_]+(['’][^\W_]+)?", word):
            yield f"lexicon.csv:{line}: {word!r} is no single word and can never be counted. Replace it."


def _of_wordings(parsed: Parsed) -> Iterator[str]:
    if "templates.csv" not in parsed.tables:
        yield "prompts.csv: there are no other wordings of the texts, and nothing tells whether a gap hangs on them."
        return
    reworded = set(parsed.table("wordings.csv").get("template_id", ()))
    for line, name in parsed.templates["template_id"].items():
        if name not in reworded:
            yield (
                f"templates.csv:{line}: template {name} has no other wording in wordings.csv: nothing tells whether "
                f"a gap hangs on its words. Add some; the studies of the package have {WORDINGS_WANTED}."
            )


def _of_words(parsed: Parsed, corpus: Corpus, scorer: Scorer | None) -> Iterator[str]:
    """Words of the lists that a model cannot fill in."""
    if scorer is None:
        return
    line_of = {word: f"lexicon.csv:{line}" for line, word in parsed.table("lexicon.csv").get("word", {}).items()}
    known: dict[tuple[str, str], int] = {}
    for name in corpus.lexicons:
        for one in scorer.coverage(corpus.lexicons[name]()):
            known[name, one.label] = known.get((name, one.label), 0) + one.in_vocabulary
            if not one.in_vocabulary:
                where = line_of.get(one.word, "prompts.csv, column candidates")
                yield f"{where}: {one.word!r} is not one token of {scorer.model_id} and is never counted there."
    for (_, label), count in known.items():
        if not count:
            yield f"No word of {label!r} is one token of {scorer.model_id}: its mass is always 0. Add other words."


def _told(corpus: Corpus) -> Iterator[str]:
    rows_of: Mapping[str, Sequence[Row]] = {
        one.name: checked_rows(corpus, one.name) for one in corpus.configs if not one.name.endswith("_wordings")
    }
    for experiment in corpus.study.experiments if corpus.study else ():
        rows = having(rows_of[experiment.configs[0]], experiment=experiment.name)
        task = Task(corpus.study, experiment, experiment.configs, "", rows, len(rows)) if corpus.study else None
        if task:
            yield f"{corpus.name} {experiment.name}: {len(rows)} prompts; {design_note(task)}."
