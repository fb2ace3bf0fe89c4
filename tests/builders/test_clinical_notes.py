"""Synthetic clinical notes: exact counterfactuals, and a gender leak of the size that is planted."""

import math
import random
import re
import statistics
from collections import Counter

import pytest

from swapbias.builders._clinical_notes_synthetic import (
    draw_evidence,
    favoured_gender,
    synthetic_notes,
)
from swapbias.builders._clinical_notes_tables import PLACES, SLOT, note_tables, written_for
from swapbias.builders._clinical_notes_text import SECTIONS, Patient
from swapbias.errors import UsageError
from swapbias.notes.note_rows import NOTE_COLUMNS, PHENOTYPES, published_sizes
from swapbias.studies.corpus_folders import corpus_dir
from tests.tables import rows_of


@pytest.fixture(scope="module")
def notes():
    """All rows of the four phenotypes with the default leak."""
    return {phenotype: list(synthetic_notes(phenotype=phenotype)) for phenotype in PHENOTYPES}


TABLES = note_tables()
LEXICON = corpus_dir("gender_lexicon")
PAIRS = {
    (row["female"].lower(), row["male"].lower()) for row in rows_of(LEXICON / "swap_terms.csv")
}


@pytest.mark.parametrize("sort", TABLES.evidence)
def test_evidence_never_contradicts(sort):
    """The evidence of a note is about four topics in two places and never contradicts itself."""
    for seed in range(200):
        chosen = draw_evidence(TABLES.evidence[sort], 2, random.Random(seed))
        assert [one.place for one in chosen] == ["past", "past", "now", "now"]
        assert len({one.topic for one in chosen}) == 4
        assert len({one.form for one in chosen if one.form}) <= 1


def unlike(several):
    assert len(set(several)) == len(several), several


def test_sections_agree_on_the_patient():
    """All sections of a note describe one patient without a contradiction."""
    passages = {one.text: one for several in TABLES.passages.values() for one in several}
    at = {one.text: one for several in TABLES.specific.values() for one in several}
    for seed in range(300):
        patient, again = (
            Patient(("female", "male")[seed % 2], TABLES, random.Random(seed)) for _ in range(2)
        )
        assert patient.acute.youngest <= patient.age <= patient.acute.oldest
        assert all(one.fits(patient.age) for one in patient.chronic)
        assert all(at[text].fits(patient.age) for text in patient.specific.values())
        expected = {slot: patient.value_of(slot) for slot in sorted(SECTIONS) if "." not in slot}
        assert expected["labs"] == patient.value_of("labs")
        unlike(
            [value.rsplit(" ", 1)[0] for value in expected["labs"].split(", ")]
        )  # no sodium twice
        unlike(
            [
                tablet.split()[0]
                for tablet in expected["dischargemeds"].split(", ")
                if tablet[0].isalpha()
            ]
        )
        unlike([line.partition(":")[0] for line in patient.value_of("exam.list").split("\n")])
        for one in patient.chronic:  # what is known is treated, and told of in the course
            assert TABLES.texts("illness", one.name)[0] in expected["pmh"]
            assert all(text in expected["chronic"] for text in TABLES.texts("course", one.name))
        assert not any(
            one.rules_out(f"{expected['pmh']} {expected['psh']}") for one in patient.problems
        )
        slots = (
            "informant",
            "transport",
            "housing",
            "family",
            "ros",
            "psh",
            *("shift", "general", "home") * 5,
        )
        values = [again.value_of(slot) for slot in slots]
        found = [one for text, one in passages.items() if text in values]
        unlike([topic for one in found for topic in one.topics])
        assert all(one.fits(again.age, [each.name for each in again.problems]) for one in found)
        assert "none" not in values[5] or values[5] == "none"
    clinic = next(
        one for one in TABLES.templates if "hip fracture" in one.unless
    )  # nobody walks in with one
    acute = {
        Patient("male", TABLES, random.Random(seed), unless=clinic.unless).acute.name
        for seed in range(200)
    }
    assert acute == {one.name for one in TABLES.problems if one.kind == "acute"} - clinic.unless


@pytest.mark.parametrize("phenotype", PHENOTYPES)
def test_sizes_of_splits(notes, phenotype):
    """Splits have the published sizes, and no two notes are equal."""
    train, test = (
        list(published_sizes("alcohol_abuse")[split].values()) for split in ("train", "test")
    )
    assert (train, test) == ([10, 50, 50, 50], [3, 44, 47, 116])  # of table 2
    counts = Counter((row["split"], row["gender"], row["label"]) for row in notes[phenotype])
    assert counts == {
        (split, *cell): n
        for split, cells in published_sizes(phenotype).items()
        for cell, n in cells.items()
    }
    rows = notes[phenotype]
    assert all(tuple(row) == NOTE_COLUMNS for row in rows)
    others = [row["text"] for row in synthetic_notes(phenotype=phenotype, counterfactual=True)]
    texts = [row["text"] for row in rows]
    assert len({*texts, *others}) == 2 * len(rows)  # nor is a note the counterfactual of another
    for column in ("note_id", "subject_id"):
        assert len({row[column] for row in rows}) == len(rows)
    assert {row["credentialed"] for row in rows} == {"False"}


@pytest.mark.parametrize("phenotype", PHENOTYPES)
def test_lengths_of_notes(notes, phenotype):
    """Lengths of notes and numbers of headings are near those of transcribed reports."""
    # Quartiles of 248 transcribed reports (mtsamples): 1,693, 2,481 and 3,973 characters, 7.8 headings a report.
    quartiles = statistics.quantiles((len(row["text"]) for row in notes[phenotype]), n=4)
    for found, real in zip(quartiles, (1693, 2481, 3973), strict=True):
        assert 0.7 * real < found < 1.1 * real
    headings = [len(re.findall(r"\b[A-Z][A-Z &/]{2,40}:", row["text"])) for row in notes[phenotype]]
    assert 6 < statistics.mean(headings) < 10


@pytest.mark.parametrize("phenotype", PHENOTYPES)
def test_genders_differ_in_gender_words(notes, phenotype):
    """Both genders of a note differ in gender words alone."""
    for row, other in zip(
        notes[phenotype], synthetic_notes(phenotype=phenotype, counterfactual=True), strict=True
    ):
        female, male = (row, other) if row["gender"] == "female" else (other, row)
        both = list(
            zip(
                re.split(r"(\W+|\d+)", female["text"]),
                re.split(r"(\W+|\d+)", male["text"]),
                strict=True,
            )
        )
        changed = [(one.lower(), two.lower()) for one, two in both if one != two]
        assert len(changed) >= 4
        assert set(changed) <= PAIRS | {("f", "m"), ("ms.", "mr."), ("ms", "mr")}
        assert {**row, "gender": "", "text": ""} == {**other, "gender": "", "text": ""}


def test_templates():
    """Templates have known slots, evidence of both places and gender words in slots alone."""
    words = {word for pair in PAIRS for word in pair} | {
        "f",
        "m",
        "hers",
        "mrs",
        "pregnant",
        "prostate",
    }
    of_others = ("family", "informant", "clinician", "home")
    texts = [template.text for template in TABLES.templates]
    texts += [one.sentence for pool in TABLES.evidence.values() for one in pool]
    texts += [
        one.text
        for (_, part), several in TABLES.passages.items()
        for one in several
        if part not in of_others
    ]
    for text in texts:
        left = re.sub(r"\[[A-Za-z_.]+\]", " ", text)
        assert not words & set(re.findall(r"[a-z]+", left.lower())), text
    evidence = [f"evidence.{place}" for place in PLACES]
    for template in TABLES.templates:
        found = SLOT.findall(template.text)
        assert set(found) <= {*SECTIONS, *TABLES.words["female"], *evidence}, template.name
        assert sum(slot in TABLES.words["female"] for slot in found) >= 4, template.name
        assert [found.count(one) for one in evidence] == [1, 1], template.name


def test_frequency_of_gendered_terms(notes):
    """Terms of one gender and other people stand in notes as often as in the measured reports."""
    texts = [row["text"].lower() for rows in notes.values() for row in rows]
    terms = [row["term"] for row in rows_of(LEXICON / "clinical_terms.csv")]
    of_one_gender = re.compile(rf"\b({'|'.join(map(re.escape, terms))})\b")
    kin = re.compile(
        r"\b(mother|father|brother|sister|son|daughter|aunt|uncle|niece|nephew|grandson)s?\b"
    )
    # Of 248 transcribed reports .28 hold such a term; of the 62 with a history .37 name a relative, .45 a clinician.
    for pattern, low, high in (
        (of_one_gender, 0.18, 0.35),
        (kin, 0.3, 0.55),
        (re.compile(r"\bdr\."), 0.15, 0.45),
    ):
        assert low < sum(bool(pattern.search(text)) for text in texts) / len(texts) < high


@pytest.mark.parametrize("phenotype", PHENOTYPES)
def test_leak_notes(notes, phenotype):
    """Leak notes exist in two cells, in the planted number, and carry no evidence."""
    favoured = favoured_gender(phenotype)
    other = "male" if favoured == "female" else "female"
    sizes = published_sizes(phenotype)
    leaks = Counter(
        (row["split"], row["gender"], row["label"]) for row in notes[phenotype] if row["planted"]
    )
    cells = ((favoured, "positive"), (other, "negative"))
    assert leaks == {
        (split, *cell): round(0.2 * sizes[split][cell]) for split in sizes for cell in cells
    }
    sorts = {
        written_for(gender, one.sentence, TABLES): sort
        for sort, pool in TABLES.evidence.items()
        for one in pool
        for gender in ("female", "male")
    }
    for row in notes[phenotype]:
        found = {sort for sentence, sort in sorts.items() if sentence in row["text"]}
        wanted = ("any", "uninformative") if row["planted"] else (phenotype, row["label"])
        assert found == {wanted}, row["note_id"]


def test_larger_leak_keeps_other_notes():
    """The share of leak notes is the requested one, and a larger leak leaves the other notes as
    they are."""
    # Favoured is female: round(.5 * 4) leaks among the positive women, round(.5 * 2) among the negative men.
    rows = list(
        synthetic_notes(
            phenotype="depression", leak=0.5, sizes={"train": (9, 9, 9, 9), "test": (4, 3, 3, 2)}
        )
    )
    assert [bool(row["planted"]) for row in rows if row["split"] == "test"].count(True) == 2 + 1
    assert not any(row["planted"] for row in synthetic_notes(phenotype="depression", leak=0))
    small, large = (
        {row["note_id"]: row for row in synthetic_notes(phenotype="depression", leak=leak)}
        for leak in (0.1, 0.3)
    )
    assert small.keys() == large.keys()
    changed = {note for note in small if small[note] != large[note]}
    assert changed == {
        note for note in small if large[note]["planted"] and not small[note]["planted"]
    }
    assert changed


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"phenotype": "obesity"}, "Unknown phenotype 'obesity': expected one of depression"),
        ({"phenotype": "depression", "leak": 1.5}, "leak is 1.5, expected a share from 0 to 1"),
        (
            {"phenotype": "depression", "leak": math.nan},
            "leak is nan, expected a share from 0 to 1",
        ),
    ],
    ids=["phenotype", "leak above 1", "leak of NaN"],
)
def test_wrong_request(arguments, sentence):
    """A wrong request for notes is refused before the first note is made."""
    with pytest.raises(UsageError, match=sentence):
        synthetic_notes(**arguments)
