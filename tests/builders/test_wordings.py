"""Wordings: the same is claimed with other words, nothing is swapped, rows align with those that they reword."""

import csv
import re
from collections import Counter
from dataclasses import replace

import pytest

from swapbias.builders import _adjective_coreference_sentences as sentences
from swapbias.builders._clinical_notes_tables import note_tables, written_for
from swapbias.notes import WORDINGS, carrier_synonyms
from swapbias.notes.augmentation import _carried, _worded
from swapbias.studies import PLACEBO, PROMPT_COLUMNS, Config, placebo
from swapbias.studies.catalogue import config_rows, load_corpus, load_study, local_corpus, studies
from swapbias.studies.study import slots
from swapbias.studies.tables import corpus_dir, read_table, wordings
from swapbias.swapping import Swapper


def reworded(text, wording):
    return _worded(text, _carried(text), wording)


NUMBERS = ["1", "2", "3", "4", "5"]
# Corpus: the column of wordings.csv that names what is reworded, columns that may be blank.
TABLES = {
    "gendered_stigma": ("template_id", ()), "occupation_sentiment": ("frame", ()),
    "social_distance": ("name", ("baseline",)), "adjective_coreference": ("sentence", ()),
}  # fmt: skip
# Corpus and config of placebo rows: the config that they reword, and which of its rows.
PLACEBOS = {
    ("gendered_stigma", "rq1_wordings"): ("rq1", lambda row: row["group"] != "unspecified"),
    ("gendered_stigma", "rq2_wordings"): ("rq2", lambda row: True),
    ("occupation_sentiment", "sentences_wordings"): ("sentences", lambda row: True),
    ("social_distance", "sentiment_wordings"): ("sentiment", lambda row: row["rendering"] in FIRSTS),
    ("adjective_coreference", "wino_style-stereotype_wordings"): (
        "wino_style-stereotype",
        lambda row: row["condition"] == "baseline",
    ),
    ("clinical_notes", "pairs_wordings"): ("pairs", lambda row: True),
    ("social_distance", "templates_wordings"): (
        ("template1", "template2", "template3", "template4"),
        lambda row: row["rendering"] in FIRSTS,
    ),
    ("spanish_occupations", "sentences_es_wordings"): ("sentences_es", lambda row: True),
    **{
        ("group_packs", f"{claim}_{pack}_wordings"): (f"{claim}_{pack}", lambda row: True)
        for claim in ("occupation", "diagnosis")
        for pack in ("names", "full_names", "age", "disability")
    },
}
FIRSTS = set(
    {row["condition"]: row["singular"] for row in config_rows("social_distance", "conditions")[::-1]}.values()
)


def own_table(corpus, name, *columns):
    return {row[columns[0]]: row for row in read_table(corpus_dir(corpus) / name, columns)}


def originals(corpus):
    if corpus == "gendered_stigma":
        found = own_table(corpus, "rq1_templates.csv", "template_id", "phase", "template", "source")
        found |= own_table(corpus, "rq2_templates.csv", "template_id", "dimension", "polarity", "template", "source")
    elif corpus == "occupation_sentiment":
        rows = own_table(corpus, "noun_pairs.csv", "noun_pair", "male", "female", "template").values()
        return {row["template"]: row["template"] for row in rows}
    elif corpus == "social_distance":
        found = own_table(corpus, "masked_templates.csv", "name", "template", "source")
        found |= own_table(corpus, "sentiment_templates.csv", "name", "template", "baseline", "source")
    else:
        found = own_table(corpus, "wino_sentences.csv", "sentence", "male", "female", "referent", "template")
    return {key: row["template"] for key, row in found.items()}


def worded(corpus):
    """What is reworded -> its templates in the order of the wordings."""
    key, optional = TABLES[corpus]
    found = {}
    for rows in wordings(corpus, key, optional=optional).values():
        for name, row in rows.items():
            found.setdefault(name, []).append(row["template"])
    return found


def lexicon():
    folder = corpus_dir("gender_lexicon")
    words = set()
    for name in ("pronouns", "nouns", "names", "swap_terms", "clinical_terms", "definitional_pairs"):
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as handle:
            for row in csv.DictReader(handle):
                words |= {row[column].lower() for column in ("word", "male", "female", "term") if row.get(column)}
    return words


GENDERED = lexicon()
# Names that are other words in these sentences.
NAMES_TOO = {"will", "grant", "may", "grace", "hope", "faith", "mark", "bill", "page", "chase", "art", "rose", "dawn"}


def gendered(text):
    return Counter(word for word in re.findall(r"[a-z]+", text.lower()) if word in GENDERED - NAMES_TOO)


@pytest.fixture(params=list(TABLES))
def tables(request):
    return originals(request.param), worded(request.param), request.param


def test_every_template_has_five_different_wordings_that_keep_slots_gendered_words_start_and_end(tables):
    before, after, corpus = tables
    assert set(after) == set(before)
    assert list(wordings(corpus, TABLES[corpus][0], optional=TABLES[corpus][1])) == NUMBERS
    assert {len(found) for found in after.values()} == {5}
    texts = [text for found in after.values() for text in found] + list(dict.fromkeys(before.values()))
    assert [text for text, times in Counter(texts).items() if times > 1] == []
    before, after, _ = tables
    for name, found in after.items():
        for text in found:
            assert slots(text) == slots(before[name])
            assert gendered(text) == gendered(before[name])
            assert text.endswith(".") == before[name].endswith(".")
            assert text[0].isupper() or text[0] in "<["


def test_a_reworded_sentence_keeps_occupations_articles_order_and_referent():
    before = {one.sentence_id: one for one in sentences.own_sentences()}
    pronoun = re.compile(r"\b(he|she|him|her|his|hers|himself|herself)\b")

    def mentions(one, side):
        text = one.texts[side].lower()
        found = [re.search(rf"\b(an?|the) {name.lower()}\b", text) for name in one.occupations.values()]
        assert all(text.count(name.lower()) == 1 for name in one.occupations.values())
        return [match[0] for match in sorted(found, key=lambda match: match.start())]

    for _, found in sentences.reworded_sentences():
        assert [one.sentence_id for one in found] == list(before)
        for one in found:
            original = before[one.sentence_id]
            assert (one.referent, one.occupations, one.pronouns) == (
                original.referent, original.occupations, original.pronouns)  # fmt: skip
            for side in sentences.SIDES:
                assert pronoun.findall(one.texts[side].lower()) == [one.pronouns[side]]
                assert mentions(one, side) == mentions(original, side)


@pytest.mark.parametrize(("corpus", "config"), list(PLACEBOS))
def test_placebo_rows_align_one_to_one_with_the_rows_that_they_reword(corpus, config):
    names, wanted = PLACEBOS[corpus, config]
    names = (names,) if isinstance(names, str) else names
    before = [row for name in names for row in config_rows(corpus, name) if wanted(row)]
    rows = config_rows(corpus, config)
    assert len(rows) == 5 * len(before)
    for place, number in enumerate(NUMBERS):
        mine = rows[place * len(before) : (place + 1) * len(before)]
        for one, original in zip(mine, before, strict=True):
            assert one == placebo(original, number, one["text"])
            assert one["group"] == PLACEBO
            assert one["text"] != original["text"]
    if "experiment" in rows[0]:
        (study,) = {name for name in studies() if config in _placebos(name)}
        asked = {one.name: one for one in load_study(study).experiments}[rows[0]["experiment"]]
        assert {row["side"] for row in rows} == set(asked.compared)


def _placebos(study):
    return {config for one in load_study(study).experiments for config in one.placebo}


def test_every_experiment_with_groups_declares_its_placebo_rows_and_its_baseline():
    for name in studies():
        for one in load_study(name).experiments:
            home = load_corpus(one.corpus or name)
            for config in (*one.placebo, *one.baseline):
                assert home.config(config).columns[: len(PROMPT_COLUMNS)] == PROMPT_COLUMNS
            without = (name, one.name) in {
                ("occupation_sentiment", "control"),  # itself a control
                ("phenotype_fairness", "leakage"),  # compares no groups
                ("phenotype_fairness", "direct_bias"),  # of single words
            }
            # Whose groups share phrases or templates, which reword each other as it is.
            without |= name == "group_packs" and one.measure == "paired_gap"
            without |= name in ("coreference_schemas", "gest")  # sentences that are published as they are
            # Further requests.
            without |= one.reading in ("options", "completion", "text", "label", "facts", "ranking", "tone")
            assert bool(one.placebo) != without
    assert load_study("gendered_stigma").experiments[0].baseline == ("rq1_baseline",)


def test_rows_of_a_placebo_pair_are_told_apart_by_their_side():
    leaf = load_corpus("gendered_stigma")
    rows = config_rows("gendered_stigma", "rq1_wordings")[:2]
    assert rows[0]["pair_id"] == rows[1]["pair_id"] == "d1/depression/w1"

    def config(rows):
        return replace(leaf, configs=(Config(name="x", description="x", rows=lambda: rows, columns=tuple(rows[0])),))

    assert config_rows(config(rows), "x") == rows
    twice = [rows[0], {**rows[1], "side": rows[0]["side"]}]
    with pytest.raises(ValueError, match="group 'female' of pair 'd1/depression/w1' stands 2 times"):
        config_rows(config(twice), "x")


def test_a_wording_that_stands_twice_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("swapbias.studies.tables.corpus_dir", lambda name: tmp_path)
    (tmp_path / "wordings.csv").write_text("name,wording,template,source\na,1,x,own\na,1,y,own\n")
    with pytest.raises(ValueError, match="wording 1 of 'a' stands twice"):
        wordings("toy", "name")


@pytest.fixture(scope="module")
def pairs():
    return config_rows("clinical_notes", "pairs")


def test_carrier_phrases_have_five_alternatives_and_no_gendered_word_and_stand_in_no_evidence():
    table = carrier_synonyms()
    assert len(table) >= 150
    for phrase, alternatives in table.items():
        assert len({phrase, *alternatives}) == 6
        assert phrase == phrase.lower()
        for text in (phrase, *alternatives):
            assert not gendered(text)
            assert not {"m", "f", "patient", "pt"} & set(text.split())
    tables = note_tables()
    for found in tables.evidence.values():
        for one in found:
            for gender in ("female", "male"):
                text = written_for(gender, one.sentence, tables)
                assert reworded(text, 1) == text


@pytest.mark.parametrize("wording", range(1, WORDINGS + 1))
def test_every_synthetic_note_changes_in_three_places_and_keeps_its_evidence(pairs, wording):
    assert min(len(_carried(row["text"])) for row in pairs) >= 3
    tables = note_tables()
    evidence = [
        written_for(gender, one.sentence, tables)
        for gender in ("female", "male")
        for found in tables.evidence.values()
        for one in found
    ]
    for row in pairs[::40]:
        text = reworded(row["text"], wording)
        assert [one for one in evidence if one in row["text"]] == [one for one in evidence if one in text]
        assert text != row["text"]


@pytest.mark.parametrize("wording", range(1, WORDINGS + 1))
def test_a_reworded_pair_differs_in_the_words_for_the_patient_alone(pairs, wording):
    swapper = Swapper()
    for one, other in zip(pairs[::20], pairs[1::20], strict=True):
        texts = [reworded(row["text"], wording) for row in (one, other)]
        before, after = ([re.findall(r"\w+", text) for text in found] for found in
                         ((one["text"], other["text"]), texts))  # fmt: skip
        changed = [[pair for pair in zip(*found, strict=True) if pair[0] != pair[1]] for found in (before, after)]
        assert changed[0] == changed[1]
        swapped = swapper.swap([one["text"]])  # every gendered word: the same in both orders
        assert swapper.swap(texts[:1]) == [reworded(swapped[0], wording)]


def slowly(text, wording):
    """Left to right, the longest phrase that begins here and ends with a word."""
    table, done, at = carrier_synonyms(), "", 0
    longest = sorted(table, key=len, reverse=True)
    while at < len(text):
        fits = at == 0 or not (text[at - 1].isalnum() or text[at - 1] in "_-")
        for phrase in longest if fits else ():
            after = text[at + len(phrase) : at + len(phrase) + 1]
            if text[at : at + len(phrase)].lower() == phrase and not (after.isalnum() or after in ("_", "-")):
                found, new = text[at : at + len(phrase)], table[phrase][wording - 1]
                if found.isupper():
                    new = new.upper()
                elif found == found.title() and " " in found:
                    new = " ".join(word.capitalize() for word in new.split(" "))
                elif found[0].isupper():
                    new = new[0].upper() + new[1:]
                done, at = done + new, at + len(phrase)
                break
        else:
            done, at = done + text[at], at + 1
    return done


def test_rewording_equals_the_slow_definition(pairs):
    for row in pairs[::200]:
        assert reworded(row["text"], 2) == slowly(row["text"], 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She was admitted to the ward.", "She was admitted into the ward."),
        ("Vital signs: stable.", "Vitals: stable."),
        ("VITAL SIGNS: STABLE.", "VITALS: STABLE."),
        ("the Operating Room", "the Operating Theater"),
        ("She was admitted\nto the ward.", "She was admitted into the ward."),  # over the end of a line
        ("a pre-hospital course-book", "a pre-hospital course-book"),  # no whole word
        ("She takes no pills.", "She takes no pills."),
    ],
)
def test_whole_phrases_are_replaced_and_capitals_kept(text, expected):
    assert reworded(text, 1) == expected


def test_most_real_reports_change_in_three_places_and_no_gendered_word_does(clinical):
    csv.field_size_limit(2**24)
    with (clinical / "mtsamples_first_half.csv").open(encoding="utf-8", newline="") as handle:
        texts = [row["text"] for row in csv.DictReader(handle)]
    changes = [len(_carried(text)) for text in texts]
    assert sum(count >= 3 for count in changes) / len(texts) > 0.85
    for text, count in zip(texts[::5], changes[::5], strict=True):
        for wording in range(1, WORDINGS + 1):
            other = reworded(text, wording)
            assert (other != text) == (count > 0)
            assert gendered(other) == gendered(text)


def test_a_folder_of_ones_own_notes_has_wordings_too(tmp_path):
    (tmp_path / "test.csv").write_text(
        "text,label,gender,split\n"
        + "".join(f"She was admitted to ward {number}.,{number % 2},female,test\n" for number in range(4))
    )
    leaf = local_corpus("clinical_notes", tmp_path)
    rows = config_rows(leaf, "pairs_wordings")
    assert len(rows) == 4 * 2 * WORDINGS
    assert [row["text"] for row in rows[:2]] == ["She was admitted into ward 0.", "He was admitted into ward 0."]
    assert [row["side"] for row in rows[:2]] == ["female", "male"]
    assert {row["credentialed"] for row in rows} == {"False"}
