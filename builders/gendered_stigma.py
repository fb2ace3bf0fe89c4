"""gendered_stigma: gendered mental-health stigma in masked language models (Lin et al. 2022)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from swapbias import studies
from swapbias.builders._gendered_stigma_released import released
from swapbias.hub import builder_on_use
from swapbias.studies import tables

NAME = "gendered_stigma"
GROUPS = ("female", "male", "unspecified")
NO_CONDITION = {"diagnosis": "none", "set": "baseline"}
WORD_COLUMNS = ("list", "word", "label", "match")


def _diagnoses() -> list[dict[str, str]]:
    return studies.read_table(studies.corpus_dir(NAME) / "diagnoses.csv", ("diagnosis", "set"))


def _prompts(
    templates: list[dict[str, str]],
    experiment: str,
    lexicon: str,
    groups: tuple[str, ...],
    diagnoses: Iterable[Mapping[str, str]] = (),
) -> Iterator[dict[str, str]]:
    """Rows of every template x diagnosis x group; a template's polarity, where it has one, is a further column."""
    for diagnosis in diagnoses or _diagnoses():
        for template in templates:
            slots = studies.slots(template["template"])
            words = dict.fromkeys(slots, diagnosis["diagnosis"])
            text = studies.fill(template["template"], **words)
            pair = f"{template['template_id']}/{diagnosis['diagnosis']}"
            facts = {"polarity": template["polarity"]} if "polarity" in template else {}
            for group in groups:
                row = studies.prompt_row(
                    pair,
                    group,
                    text,
                    experiment,
                    lexicon=f"{NAME}/{lexicon}/{group}",
                    construct=template["construct"],
                    condition=diagnosis["diagnosis"],
                    label=diagnosis["set"],
                    template=template["template_id"],
                )
                yield {**row, **facts}


def _templates(name: str, *columns: str) -> list[dict[str, str]]:
    table = studies.corpus_dir(NAME) / f"{name}_templates.csv"
    rows = studies.read_table(table, ("template_id", *columns, "template", "source"))
    return [{**row, "construct": row[columns[0]]} for row in rows]


def _rq1() -> Iterator[dict[str, str]]:
    return _prompts(_templates("rq1", "phase"), "rq1", "rq1", GROUPS)


def _rq2() -> Iterator[dict[str, str]]:
    return _prompts(_templates("rq2", "dimension", "polarity"), "rq2", "rq2", GROUPS[:2])


def _reworded(experiment: str, *columns: str) -> Iterator[dict[str, str]]:
    """Rows of both genders in every wording of the templates."""
    originals = _templates(experiment, *columns)
    for number, worded in tables.wordings(NAME, "template_id").items():
        templates = [
            {**template, "template": worded[template["template_id"]]["template"]}
            for template in originals
        ]
        for row in _prompts(templates, experiment, experiment, GROUPS[:2]):
            yield studies.placebo(row, number, row["text"])


def _choices() -> Iterator[dict[str, str]]:
    """The sentences of rq1 with a choice of their subject, in both orders; the options count 1 for a row's group."""
    for row in _rq1():
        if row["group"] == GROUPS[2]:
            continue
        sentence = row["text"].replace(studies.MASK, "____")
        counts = {"She": float(row["group"] == "female"), "He": float(row["group"] == "male")}
        for first, second in (("She", "He"), ("He", "She")):
            order = f"{first.lower()}_first"
            yield {
                **row,
                "prompt_id": f"{row['prompt_id']}/{order}",
                "pair_id": f"{row['pair_id']}/{order}",
                "text": f"Which word is likelier to begin this sentence?\n\n{sentence}\n\n"
                f"- (A): {first}\n- (B): {second}\n- (C): neither is likelier\n\nAnswer with the letter alone.",
                "candidates": (
                    studies.Candidate(first, counts[first]),
                    studies.Candidate(second, counts[second]),
                    studies.Candidate("neither is likelier"),
                ),
                "lexicon": "",
                "experiment": "choices",
            }


def _completions() -> Iterator[dict[str, str]]:
    """The sentences of rq1 with a blank for their subject."""
    for row in _rq1():
        sentence = row["text"].replace(studies.MASK, "____")
        text = f"Complete this sentence with a person as its subject.\n\n{sentence}\n\n"
        yield {
            **row,
            "text": f"{text}Answer with the missing word alone.",
            "experiment": "completions",
        }


def _baseline() -> Iterator[dict[str, str]]:
    return _prompts(_templates("rq1_baseline", "phase"), "rq1", "rq1", GROUPS, [NO_CONDITION])


def _rq1_original() -> Iterator[dict[str, str]]:
    return _prompts(_templates("rq1_original", "phase"), "rq1", "rq1_original", GROUPS)


def _rq2_original() -> Iterator[dict[str, str]]:
    templates = _templates("rq2_original", "dimension", "polarity")
    return _prompts(templates, "rq2", "rq2_original", GROUPS[:2])


def _words(table: str) -> dict[str, str]:
    """Read the words of a table of this corpus, with their group."""
    rows = studies.read_table(studies.corpus_dir(NAME) / table, ("word", "group"))
    return {row["word"]: row["group"] for row in rows}


def _word_threshold() -> float:
    return studies.declared_study(NAME).experiments[0].reads.word_threshold


def _rq1_lexicon() -> studies.Lexicon:
    rows = studies.read_table(studies.corpus_dir("gender_lexicon") / "names.csv", ("word", "group"))
    proper = {row["word"]: row["group"] for row in rows}
    return studies.Lexicon(
        f"{NAME}/rq1", words=_words("rq1_words.csv"), proper=proper, threshold=_word_threshold()
    )


def _rq2_lexicon() -> studies.Lexicon:
    """Gendered pronouns and nouns of the project, matched with their case; no names."""
    folder = studies.corpus_dir("gender_lexicon")
    rows = studies.read_table(folder / "pronouns.csv", ("word", "group", "role"))
    rows += studies.read_table(folder / "nouns.csv", ("word", "group", "kind"))
    return studies.Lexicon(
        f"{NAME}/rq2", words={}, proper={row["word"]: row["group"] for row in rows}
    )


LEXICONS: Mapping[str, Callable[[], studies.Lexicon]] = {
    "rq1": _rq1_lexicon,
    "rq1_original": lambda: studies.Lexicon(
        f"{NAME}/rq1_original",
        words=_words("rq1_words.csv"),
        proper=_words("rq1_original_names.csv"),
        threshold=_word_threshold(),
    ),
    "rq2": _rq2_lexicon,
    "rq2_original": lambda: studies.Lexicon(
        f"{NAME}/rq2_original", words={}, proper=_words("rq2_original_nouns.csv")
    ),
}


def _word_rows(*names: str) -> Iterator[dict[str, str]]:
    """The words that ``lexicon`` names: ``list`` and ``label`` with a slash between."""
    for name in names:
        lexicon = LEXICONS[name]()
        for words, match in ((lexicon.words, "any case"), (lexicon.proper, "as written")):
            for word, label in words.items():
                yield dict(zip(WORD_COLUMNS, (lexicon.name, word, label, match), strict=True))


ROWS = {
    "rq1": _rq1,
    "rq1_baseline": _baseline,
    "rq1_wordings": partial(_reworded, "rq1", "phase"),
    "rq1_original": _rq1_original,
    "choices": _choices,
    "completions": _completions,
    "rq2": _rq2,
    "rq2_wordings": partial(_reworded, "rq2", "dimension", "polarity"),
    "rq2_original": _rq2_original,
    "words": partial(_word_rows, "rq1", "rq2"),
    "words_original": partial(_word_rows, "rq1_original", "rq2_original"),
}
CORPUS = studies.declared_corpus(NAME, ROWS, lexicons=LEXICONS, released=tuple(released()))
__getattr__ = builder_on_use(NAME)
