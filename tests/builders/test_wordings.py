"""Rewordings keep the claim and the gendered words, and align with the rows that they reword."""

import re
from collections import Counter

import pytest

from swapbias.builders import _adjective_coreference_sentences as sentences
from swapbias.builders._clinical_notes_tables import note_tables, written_for
from swapbias.notes.rewording import WORDINGS, carrier_synonyms, find_carriers, reword
from swapbias.studies import PLACEBO, PROMPT_COLUMNS, placebo
from swapbias.studies.catalogue import config_rows, load_corpus, load_study, local_corpus, studies
from swapbias.studies.corpus_folders import corpus_dir
from swapbias.swapping import Swapper
from tests.tables import rows_of, write


def reworded(text, wording):
    return reword(text, find_carriers(text), wording)


FIRSTS = {
    row["condition"]: row["singular"] for row in config_rows("social_distance", "conditions")[::-1]
}
# Which of the rows of a config have wordings, where not all do.
REWORDED = {
    "wino_style-stereotype_wordings": lambda row: row["condition"] == "baseline",
    "sentiment_wordings": lambda row: row["rendering"] == FIRSTS.get(row["condition"]),
    "templates_wordings": lambda row: row["rendering"] == FIRSTS.get(row["condition"]),
}
# Configs of placebo rows: an experiment whose rows they reword.
PLACEBOS = {
    (one.reads.notes.corpus or name, config): one
    for name in studies()
    # The first to read a config says whose rows it rewords: others may read several at once.
    for one in reversed(load_study(name).experiments)
    for config in one.reads.rewordings
}


def lexicon():
    rows = [
        row
        for name in (
            "pronouns",
            "nouns",
            "names",
            "swap_terms",
            "clinical_terms",
            "definitional_pairs",
        )
        for row in rows_of(corpus_dir("gender_lexicon") / f"{name}.csv")
    ]
    return {
        row[name].lower()
        for row in rows
        for name in ("word", "male", "female", "term")
        if row.get(name)
    }


GENDERED = lexicon()
# Names that are other words in these sentences.
WORDS_AND_NAMES = {
    "will",
    "grant",
    "may",
    "grace",
    "hope",
    "faith",
    "mark",
    "bill",
    "page",
    "chase",
    "art",
    "rose",
    "dawn",
}


UNAMBIGUOUS = GENDERED - WORDS_AND_NAMES


def gendered(text):
    return Counter(word for word in re.findall(r"[a-z]+", text.lower()) if word in UNAMBIGUOUS)


def test_reworded_sentence_keeps_referent():
    """A reworded sentence keeps occupations, articles, order and referent."""
    before = {one.sentence_id: one for one in sentences.own_sentences()}
    pronoun = re.compile(r"\b(he|she|him|her|his|hers|himself|herself)\b")

    def mentions(one, side):
        text = one.texts[side].lower()
        found = [
            re.search(rf"\b(an?|the) {name.lower()}\b", text) for name in one.occupations.values()
        ]
        assert all(text.count(name.lower()) == 1 for name in one.occupations.values())
        return [match[0] for match in sorted(found, key=lambda match: match.start())]

    for _, found in sentences.reworded_sentences():
        assert [one.sentence_id for one in found] == list(before)
        for one in found:
            original = before[one.sentence_id]
            assert (one.referent, one.occupations, one.pronouns) == (
                original.referent,
                original.occupations,
                original.pronouns,
            )
            for side in sentences.SIDES:
                assert pronoun.findall(one.texts[side].lower()) == [one.pronouns[side]]
                assert mentions(one, side) == mentions(original, side)


@pytest.mark.parametrize(("corpus", "config"), list(PLACEBOS))
def test_placebo_rows(corpus, config):
    """Placebo rows reword each row five times and keep its gendered words, its start and its end."""
    declared = PLACEBOS[corpus, config]
    wanted = REWORDED.get(config, lambda row: True)
    before = [row for name in declared.reads.configs for row in config_rows(corpus, name)]
    before = [row for row in before if row["group"] in declared.compared and wanted(row)]
    rows = config_rows(corpus, config)
    assert len(rows) == 5 * len(before)
    assert {row["group"] for row in rows} == {PLACEBO}
    assert {row["side"] for row in rows} == set(declared.compared)
    for place, original in enumerate(before):
        versions = rows[place :: len(before)]
        assert versions == [
            placebo(original, str(at), one["text"]) for at, one in enumerate(versions, start=1)
        ]
        texts = [original["text"], *(one["text"] for one in versions)]
        assert len(set(texts)) == 6
        if corpus != "clinical_notes" and place % 5 == 0:  # whose carrier phrases are tested below
            assert {text.endswith(".") for text in texts} == {texts[0].endswith(".")}
            assert all(text[0].isupper() or text[0] == "<" for text in texts)
            assert all(gendered(text) == gendered(texts[0]) for text in texts)
    sides = Counter((row["text"], row["group"], row.get("side")) for row in [*before, *rows])
    assert set(sides.values()) == {1}


def is_control(corpus, experiment):
    """Tell whether all rows of an experiment are a control."""
    rows = [row for config in experiment.reads.configs for row in config_rows(corpus, config)]
    return {row["construct"] for row in rows} == {"control"}


def test_experiments_declare_placebos():
    """Every experiment with groups declares its placebo rows and its baseline."""
    for name in studies():
        for one in load_study(name).experiments:
            home = load_corpus(one.reads.notes.corpus or name)
            for config in (*one.reads.rewordings, *one.reads.baseline):
                assert home.config(config).columns[: len(PROMPT_COLUMNS)] == PROMPT_COLUMNS
            without = one.comparison is None  # no groups, or single words
            without |= one.kind == "chat" and bool(one.reads.reading)  # further requests
            # Sentences that are published as they are.
            without |= name == "coreference_schemas"
            without |= any(home.config(config).upstream for config in one.reads.configs)
            # Ten templates of one claim reword each other.
            without |= name == "cross_care"
            # Three instructions of one claim reword each other.
            without |= name == "implicit_association"
            # Whose groups share phrases or templates, which reword each other as it is.
            without |= name == "group_packs" and one.is_paired
            without = without or is_control(home.name, one)
            wanted = (
                "no rewordings, and names"
                if without
                else "rewordings (five of each template), and names"
            )
            names = ", ".join(one.reads.rewordings) or "none"
            assert bool(one.reads.rewordings) != without, (
                f"{name} {one.name} should have {wanted} {names}"
            )
    assert load_study("gendered_stigma").experiments[0].reads.baseline == ("rq1_baseline",)


EVIDENCE = [
    written_for(gender, one.sentence, note_tables())
    for gender in ("female", "male")
    for found in note_tables().evidence.values()
    for one in found
]


@pytest.fixture(scope="module")
def pairs():
    return config_rows("clinical_notes", "pairs")


def test_carrier_phrases():
    """A carrier phrase has five alternatives, holds no gendered word and stands in no evidence."""
    table = carrier_synonyms()
    assert len(table) >= 150
    for phrase, alternatives in table.items():
        assert len({phrase, *alternatives}) == 6
        assert phrase == phrase.lower()
        for text in (phrase, *alternatives):
            assert not gendered(text)
            assert not {"m", "f", "patient", "pt"} & set(text.split())
    assert [text for text in EVIDENCE if reworded(text, 1) != text] == []


@pytest.mark.parametrize("wording", range(1, WORDINGS + 1))
def test_reworded_pair_keeps_evidence(pairs, wording):
    """The texts of a reworded pair differ in the words for the patient alone and keep their
    evidence."""
    assert min(len(find_carriers(row["text"])) for row in pairs[wording - 1 :: WORDINGS]) >= 3
    swapper = Swapper()
    for one, other in zip(pairs[::20], pairs[1::20], strict=True):
        texts = [reworded(row["text"], wording) for row in (one, other)]
        before, after = (
            [re.findall(r"\w+", text) for text in found]
            for found in ((one["text"], other["text"]), texts)
        )
        changed = [
            [pair for pair in zip(*found, strict=True) if pair[0] != pair[1]]
            for found in (before, after)
        ]
        assert changed[0] == changed[1]
        assert [text in one["text"] for text in EVIDENCE] == [text in texts[0] for text in EVIDENCE]
        swapped = swapper.swap([one["text"]])  # every gendered word: the same in both orders
        assert swapper.swap(texts[:1]) == [reworded(swapped[0], wording)]


def slowly(text, wording):
    """Left to right, the longest phrase that begins here and ends with a word."""
    table = carrier_synonyms()
    done = ""
    at = 0
    longest = sorted(table, key=len, reverse=True)
    while at < len(text):
        fits = at == 0 or not (text[at - 1].isalnum() or text[at - 1] in "_-")
        for phrase in longest if fits else ():
            after = text[at + len(phrase) : at + len(phrase) + 1]
            if text[at : at + len(phrase)].lower() == phrase and not (
                after.isalnum() or after in ("_", "-")
            ):
                written = text[at : at + len(phrase)]
                new = table[phrase][wording - 1]
                if written.isupper():
                    new = new.upper()
                elif written == written.title() and " " in written:
                    new = " ".join(word.capitalize() for word in new.split(" "))
                elif written[0].isupper():
                    new = new[0].upper() + new[1:]
                done = done + new
                at = at + len(phrase)
                break
        else:
            done = done + text[at]
            at = at + 1
    return done


def test_rewording_equals_slow_definition(pairs):
    """Rewording equals a slow search for each phrase."""
    for row in pairs[::200]:
        assert reworded(row["text"], 2) == slowly(row["text"], 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She was admitted to the ward.", "She was admitted into the ward."),
        ("Vital signs: stable.", "Vitals: stable."),
        ("VITAL SIGNS: STABLE.", "VITALS: STABLE."),
        ("the Operating Room", "the Operating Theater"),
        (
            "She was admitted\nto the ward.",
            "She was admitted into the ward.",
        ),  # over the end of a line
        ("a pre-hospital course-book", "a pre-hospital course-book"),  # no whole word
        ("She takes no pills.", "She takes no pills."),
    ],
)
def test_whole_phrases_and_capitals(text, expected):
    """Whole phrases are replaced, and their capitals stay."""
    assert reworded(text, 1) == expected


def test_real_reports_are_reworded(clinical):
    """Most real reports change in three places, and no gendered word of them changes."""
    texts = [row["text"] for row in rows_of(clinical / "mtsamples_first_half.csv")]
    changes = [len(find_carriers(text)) for text in texts]
    assert sum(count >= 3 for count in changes) / len(texts) > 0.85
    for text, count in zip(texts[::5], changes[::5], strict=True):
        for wording in range(1, WORDINGS + 1):
            other = reworded(text, wording)
            assert (other != text) == (count > 0)
            assert gendered(other) == gendered(text)


def test_folder_of_notes_has_wordings(tmp_path):
    """A folder of a user's notes has reworded rows too."""
    texts = [f"She was admitted to ward {number}." for number in range(4)]
    columns = {"label": [*"0101"], "gender": ["female"] * 4, "split": ["test"] * 4}
    write(tmp_path / "test.csv", {"text": texts, **columns})
    leaf = local_corpus("clinical_notes", tmp_path)
    rows = config_rows(leaf, "pairs_wordings")
    assert len(rows) == 4 * 2 * WORDINGS
    assert [row["text"] for row in rows[:2]] == [
        "She was admitted into ward 0.",
        "He was admitted into ward 0.",
    ]
    assert [row["side"] for row in rows[:2]] == ["female", "male"]
    assert {row["credentialed"] for row in rows} == {"False"}
