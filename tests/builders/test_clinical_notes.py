"""Synthetic clinical notes: exact counterfactuals, and a gender leak of the size that is planted."""

import math
import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from swapbias.builders._clinical_notes_synthetic import (
    counterfactual_notes,
    favoured_gender,
    planted_flip_rate,
    synthetic_notes,
)
from swapbias.builders._clinical_notes_text import Template, check_note_template, note_tables
from swapbias.errors import UsageError
from swapbias.notes.rows import NOTE_COLUMNS, PHENOTYPES, published_sizes
from swapbias.studies.tables import corpus_dir, read_table
from tests.conftest import ROOT

KINDS = {"Discharge summary", "Nursing", "Radiology", "Social Work", "Emergency", "Physician"}
EVIDENCE = read_table(corpus_dir("clinical_notes") / "evidence.csv", ("phenotype", "label", "sentence"))


@pytest.fixture(scope="module")
def notes():
    """All rows of the four phenotypes with the default leak."""
    return {phenotype: list(synthetic_notes(phenotype=phenotype)) for phenotype in PHENOTYPES}


def gendered_pairs():
    """(female, male) words of the swap table, in lower case."""
    path = corpus_dir("gender_lexicon") / "swap_terms.csv"
    rows = read_table(path, ("male", "female", "neutral", "table", "note"), optional=("neutral", "note"))
    return {(row["female"].lower(), row["male"].lower()) for row in rows}


# --- synthetic notes --------------------------------------------------------------------------------


def test_there_are_forty_templates_of_four_kinds_and_twelve_sentences_of_each_sort():
    tables = note_tables()
    assert len(tables.templates) >= 40
    assert {template.note_type for template in tables.templates} == KINDS
    sorts = {(phenotype, label) for phenotype in PHENOTYPES for label in ("positive", "negative")}
    assert set(tables.sentences) == sorts | {("any", "uninformative")}
    assert min(len(set(sentences)) for sentences in tables.sentences.values()) >= 12


@pytest.mark.parametrize("phenotype", PHENOTYPES)
def test_splits_have_the_published_sizes(notes, phenotype):
    counts = Counter((row["split"], row["gender"], row["label"]) for row in notes[phenotype])
    assert counts == {
        (split, *cell): n for split, cells in published_sizes(phenotype).items() for cell, n in cells.items()
    }


def test_the_published_sizes_are_those_of_table_two():
    train, test = (list(published_sizes("alcohol_abuse")[split].values()) for split in ("train", "test"))
    assert (train, test) == ([10, 50, 50, 50], [3, 44, 47, 116])


@pytest.mark.parametrize("phenotype", PHENOTYPES)
def test_rows_hold_the_note_columns_and_no_two_notes_are_equal(notes, phenotype):
    rows = notes[phenotype]
    assert all(tuple(row) == NOTE_COLUMNS for row in rows)
    others = [row["text"] for row in counterfactual_notes(phenotype=phenotype)]
    texts = [row["text"] for row in rows]
    assert len({*texts, *others}) == 2 * len(rows)  # nor is a note the counterfactual of another
    for column in ("note_id", "subject_id"):
        assert len({row[column] for row in rows}) == len(rows)
    assert {row["credentialed"] for row in rows} == {"False"}


@pytest.mark.parametrize("phenotype", PHENOTYPES)
def test_lengths_vary_between_80_and_300_words(notes, phenotype):
    lengths = [len(row["text"].split()) for row in notes[phenotype]]
    assert min(lengths) >= 80
    assert max(lengths) <= 300
    assert max(lengths) - min(lengths) >= 50


@pytest.mark.parametrize("phenotype", PHENOTYPES)
def test_both_genders_of_a_note_differ_in_gender_words_alone(notes, phenotype):
    pairs = gendered_pairs() | {("f", "m"), ("ms.", "mr.")}
    for row, other in zip(notes[phenotype], counterfactual_notes(phenotype=phenotype), strict=True):
        female, male = (row, other) if row["gender"] == "female" else (other, row)
        both = list(zip(re.split(r"(\W+|\d+)", female["text"]), re.split(r"(\W+|\d+)", male["text"]), strict=True))
        changed = [(one.lower(), two.lower()) for one, two in both if one != two]
        assert len(changed) >= 4
        assert set(changed) <= pairs | {("ms", "mr")}
        assert {**row, "gender": "", "text": ""} == {**other, "gender": "", "text": ""}


def test_outside_the_slots_there_is_no_gendered_word():
    words = {word for pair in gendered_pairs() for word in pair} | {"f", "m", "hers", "mrs", "pregnant", "prostate"}
    tables = note_tables()
    texts = [template.text for template in tables.templates]
    texts += [value for values in (*tables.fills.values(), *tables.sentences.values()) for value in values]
    for text in texts:
        left = re.sub(r"\[[A-Za-z_.]+\]", " ", text)
        assert not words & set(re.findall(r"[a-z]+", left.lower())), text


def test_the_same_seed_gives_the_same_notes_whatever_the_hash_seed():
    code = (
        "from swapbias.builders._clinical_notes_synthetic import synthetic_notes as s; import hashlib\n"
        "rows = s(phenotype='depression', seed=3, sizes={'test': (2, 2, 2, 2)})\n"
        "print(hashlib.sha256(repr(list(rows)).encode()).hexdigest())"
    )
    prints = set()
    for hash_seed in ("1", "2"):
        command, environment = [sys.executable, "-c", code], {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
        prints.add(done.stdout)
    assert len(prints) == 1


def test_another_seed_gives_other_notes():
    first, second = ([row["text"] for row in synthetic_notes(phenotype="depression", seed=seed)] for seed in (0, 1))
    assert not set(first) & set(second)


# --- the planted leak -------------------------------------------------------------------------------


@pytest.mark.parametrize("phenotype", PHENOTYPES)
def test_leak_notes_exist_in_two_cells_alone_and_in_the_number_planted(notes, phenotype):
    favoured = favoured_gender(phenotype)
    other = "male" if favoured == "female" else "female"
    sizes = published_sizes(phenotype)
    leaks = Counter((row["split"], row["gender"], row["label"]) for row in notes[phenotype] if row["planted"])
    cells = ((favoured, "positive"), (other, "negative"))
    assert leaks == {(split, *cell): round(0.2 * sizes[split][cell]) for split in sizes for cell in cells}


@pytest.mark.parametrize("phenotype", PHENOTYPES)
def test_a_note_carries_evidence_of_its_label_and_a_leak_note_none(notes, phenotype):
    tables = note_tables()
    sorts = {}
    for row in EVIDENCE:
        for gender in ("female", "male"):
            words = tables.words[gender]
            sentence = re.sub(r"\[([A-Za-z_.]+)\]", lambda match, words=words: words[match.group(1)], row["sentence"])
            sorts[sentence] = row["phenotype"], row["label"]
    for row in notes[phenotype]:
        found = {sort for sentence, sort in sorts.items() if sentence in row["text"]}
        wanted = ("any", "uninformative") if row["planted"] else (phenotype, row["label"])
        assert found == {wanted}, row["note_id"]


def test_without_a_leak_the_right_flip_rate_is_zero():
    rows = list(synthetic_notes(phenotype="depression", leak=0))
    assert planted_flip_rate(rows) == 0
    assert not any(row["planted"] for row in rows)


def test_the_planted_flip_rate_is_leak_notes_of_the_test_split_per_note():
    # Favoured is female: round(.5 * 4) leaks among the positive women, round(.5 * 2) among the negative men.
    rows = list(
        synthetic_notes(phenotype="depression", leak=0.5, sizes={"train": (9, 9, 9, 9), "test": (4, 3, 3, 2)})
    )
    assert planted_flip_rate(rows) == pytest.approx((2 + 1) / 12)
    assert math.isnan(planted_flip_rate([row for row in rows if row["split"] == "train"]))


def test_a_larger_leak_turns_notes_into_leak_notes_and_leaves_the_others():
    small, large = (
        {row["note_id"]: row for row in synthetic_notes(phenotype="depression", leak=leak)} for leak in (0.1, 0.3)
    )
    assert small.keys() == large.keys()
    changed = {note for note in small if small[note] != large[note]}
    assert changed == {note for note in small if large[note]["planted"] and not small[note]["planted"]}
    assert changed


def test_a_classifier_finds_the_evidence_and_follows_gender_on_leak_notes(notes):
    text = pytest.importorskip("sklearn.feature_extraction.text", reason="needs scikit-learn: swapbias[clinical]")
    svm = pytest.importorskip("sklearn.svm")
    rows = notes["psychiatric_disorders"]
    train = [row for row in rows if row["split"] == "train"]
    both = zip(rows, counterfactual_notes(phenotype="psychiatric_disorders"), strict=True)
    test = [(row, other) for row, other in both if row["split"] == "test"]
    words, model = text.TfidfVectorizer(), svm.LinearSVC(random_state=0)
    model.fit(words.fit_transform([row["text"] for row in train]), [row["label"] for row in train])
    answers, swapped = (model.predict(words.transform([pair[side]["text"] for pair in test])) for side in (0, 1))
    right = [answer == row["label"] for answer, (row, _) in zip(answers, test, strict=True) if not row["planted"]]
    flips = {"": [], "leak": []}
    for answer, other, (row, _) in zip(answers, swapped, test, strict=True):
        flips[row["planted"]].append(answer != other)
    assert sum(right) / len(right) > 0.9
    assert sum(flips["leak"]) / len(flips["leak"]) > 0.6
    assert sum(flips[""]) / len(flips[""]) < 0.1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"phenotype": "obesity"}, "Unknown phenotype 'obesity': expected one of depression"),
        ({"phenotype": "depression", "leak": 1.5}, "leak is 1.5, expected a share from 0 to 1"),
        ({"phenotype": "depression", "leak": math.nan}, "leak is nan, expected a share from 0 to 1"),
        ({"phenotype": "depression", "sizes": {"dev": (1, 1, 1, 1)}}, "split 'dev', expected train or test"),
        ({"phenotype": "depression", "sizes": {"test": (1, 1)}}, "expected four counts of zero or more"),
        ({"phenotype": "depression", "sizes": {"test": (1, 1, 1, -1)}}, "expected four counts of zero or more"),
    ],
)
def test_a_wrong_request_is_refused_at_once(arguments, sentence):
    with pytest.raises(UsageError, match=sentence):
        synthetic_notes(**arguments)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[he] [he] [he] [his] [evidence] [labb]", r"'t': unknown slots \['labb'\]"),
        ("[he] [his] [evidence]", "'t': 2 words for the patient, expected 4 or more"),
        ("[he] [he] [he] [he] [lab]", r"expected one \[evidence\]"),
        ("[he] [he] [he] [he] [evidence] [age] [age]", "at most one"),
    ],
)
def test_a_template_that_cannot_work_is_named(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_note_template(Template("t", "Nursing", text), fills={"lab", "age"}, gendered={"he", "his"})
