"""Notes to report, by classifiers and chat models: rates by hand, planted leaks and omissions,
privacy."""

import json
import math
import re
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact

from swapbias import load_prompts
from swapbias.builders._clinical_notes_tables import note_tables, written_for
from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.files import CREDENTIALED
from swapbias.findings import disaggregate
from swapbias.findings.predictions import RANDOM_DIRECT, ROUNDED
from swapbias.hub import datasets as building
from swapbias.measures import MEASURES
from swapbias.models.chat import ChatOptions
from swapbias.models.clinical import NoteOptions
from swapbias.notes import Notes, in_regime, load_notes, stream_notes, with_genders
from swapbias.notes.augmentation import counterfactual_pairs
from swapbias.notes.note_rows import NOTE_COLUMNS
from swapbias.privacy import credentialed
from swapbias.runs import Run, Settings, Task, plan_tasks, resume, start
from swapbias.runs.scorers import refuse_sending
from swapbias.runs.task_rows import note_rows
from swapbias.studies import Candidate, Prompt, config_rows, load_study
from swapbias.studies.answer_scores import read_facts
from swapbias.studies.catalogue import local_corpus
from swapbias.studies.checklists import facts_of, read_checklist, stated
from swapbias.studies.published import published_rows
from swapbias.swapping import Swapper
from tests import tiny
from tests.models.chat.server import ChatServer, Reply
from tests.notes import mimic

SWAPPER = Swapper()
RATIOS = ("tprr", "fprr", "log_tprr", "log_fprr")
# Ten notes with their label. The rules below call a note positive where vodka is named, or falls of one gender.
TEN_NOTES = (
    ("He drinks vodka daily.", "1"), ("She drinks vodka daily.", "1"),
    ("She has falls and she is unsteady.", "1"), ("He has falls and he is unsteady.", "1"),
    ("He denies alcohol.", "0"), ("She denies alcohol.", "0"),
    ("After falls he was tired.", "0"), ("After falls she was tired.", "0"),
    ("She brought vodka to a friend.", "0"), ("He is well.", "0"),
)  # fmt: skip


def rule(text, *, falls):
    return "vodka" in text or ("falls" in text and any(f" {word} " in text for word in falls))


def men_fall(texts):
    return [0.9 if rule(text, falls=("he",)) else 0.2 for text in texts]


RULES = {"original": ("he",), "swapped": ("she",), "neutralised": ("he", "she"), "augmented": ()}


@pytest.fixture(scope="module", autouse=True)
def few_settings():
    """Limit the settings that are tried for a support vector machine, to be quick."""
    with pytest.MonkeyPatch.context() as patch:
        grid = {"svc__C": [0.1, 1], "svc__kernel": ["rbf", "linear"]}
        patch.setattr("swapbias.models.clinical.phenotype.SVM_GRID", grid)
        yield


@pytest.fixture
def ten(tmp_path):
    pd.DataFrame(TEN_NOTES, columns=["text", "label"]).to_csv(tmp_path / "notes.csv", index=False)
    return tmp_path / "notes.csv"


def numbers(findings, subset, *, slice_by="phenotype"):
    results = [
        finding for finding in findings if (finding.subset, finding.slice_by) == (subset, slice_by)
    ]
    return {
        result.measure: result
        for result in results
        if ROUNDED not in result.contrast
        if MEASURES[result.measure].tabled or result.measure in RATIOS
    }


def test_regimes_by_hand(ten):
    """The table of training regimes has the values that ten notes give by hand."""
    # With "he": as men, notes 1-4 of the positives and 7, 8, 9 of the negatives are positive; as women 1, 2 and 9.
    #   flips: notes 3, 4, 7, 8 of 10, all positive as men alone; McNemar 2 * .5 ** 4 = .125
    #   TPR 2/4 and 4/4, ratio .5; FPR 1/6 and 3/6, ratio 1/3
    #   TP 6, FN 2, FP 4, TN 8: F1 12/18 and 16/22, macro .69697
    # With "she" the same with the groups changed over. With both: TP 8, FP 6, TN 6: F1 16/22 and 12/18, no flips.
    # With neither: TP 4, FN 4, FP 2, TN 10: F1 8/14 and 20/26, macro .67033; TPR .5 and .5, FPR 1/6 and 1/6.
    notes = load_notes(NoteOptions(data=str(ten), classifier="own"), 0)
    phenotyping = load_study("phenotype_fairness").experiments[0]
    rows = pd.DataFrame(note_rows(phenotyping, notes, notes.pairs(), trains=True)).assign(
        model_id="rules"
    )
    answers = [
        rule(text, falls=RULES[regime])
        for text, regime in zip(rows["text"], rows["construct"], strict=True)
    ]
    rows = rows.assign(
        predicted=np.array(answers, dtype=float),
        score=np.array(answers, dtype=float),
        top_tokens="[]",
    )
    found = disaggregate(rows, "phenotype_fairness", expected={})
    expected = {
        "original": (0.4, 0.5, 1 / 3, 0.69697, "male"), "swapped": (0.4, 0.5, 1 / 3, 0.69697, "female"),
        "neutralised": (0.0, 1.0, 1.0, 0.69697, ""), "augmented": (0.0, 1.0, 1.0, 0.67033, ""),
    }  # fmt: skip
    for regime, (flips, tprr, fprr, f1, higher) in expected.items():
        mine = numbers(found, regime)
        assert mine["flip_rate"].estimate.value == pytest.approx(flips)
        assert mine["tprr"].estimate.value == pytest.approx(tprr)
        assert mine["fprr"].estimate.value == pytest.approx(fprr)
        assert mine["macro_f1"].estimate.value == pytest.approx(f1, abs=1e-5)
        sign = {"male": -1, "female": 1, "": 0}[higher]
        assert mine["tpr_difference"].estimate.value == pytest.approx(sign * 0.5)  # female - male
        assert mine["fpr_difference"].estimate.value == pytest.approx(sign / 3)
        assert mine["log_tprr"].estimate.value == pytest.approx(math.log(tprr) * -sign)
        assert mine["log_fprr"].estimate.value == pytest.approx(math.log(fprr) * -sign)
        assert {one.higher_group for name, one in mine.items() if name != "macro_f1"} == {higher}
        assert mine["flip_rate"].estimate.n == 10
        rounded = {
            one.measure: one for one in found if ROUNDED in one.contrast and one.subset == regime
        }
        # As the authors' code has it: .17 / .5; of equal rates 1.
        assert rounded["tprr"].estimate.value == tprr
        assert rounded["fprr"].estimate.value == (0.34 if higher else 1.0)
        assert {one.higher_group for one in rounded.values()} == {higher}
        assert {one.view for one in rounded.values()} == {"as published"}
    assert numbers(found, "original")["flip_rate"].estimate.p_value == pytest.approx(0.125)
    assert math.isnan(numbers(found, "augmented")["flip_rate"].estimate.p_value)


def test_classifier_of_a_user(ten, tmp_path, quiet):
    """A classifier of a user is audited on the user's notes."""
    settings = NoteOptions(data=str(ten), classifier="tests.runs.test_clinical:men_fall")
    run, found = start(Settings(options=(settings,)), tmp_path / "run", **quiet)
    mine = numbers(found, "as trained")
    assert mine["flip_rate"].estimate.value == pytest.approx(0.4)
    assert mine["flip_rate"].higher_group == "male"
    (gap,) = (
        one for one in found if one.measure == "paired_gap" and not one.view
    )  # by phenotype, and never pooled
    assert gap.estimate.value == pytest.approx(-0.28)  # .7 less as a woman in 4 of 10 notes
    skipped = {one["experiment"]: one["reason"] for one in run.manifest()["skipped"]}
    assert set(skipped) == {"leakage", "direct_bias"}
    assert "-M embedding" in skipped["leakage"]
    explained = json.loads((run.folder / "explanations.json").read_text())
    assert explained[0]["words"]["male"][0][0] in ("falls", "he")
    assert len({one["pair_id"] for one in explained}) == 3  # of the four that differ


def test_notes_cut_before_the_swap(tmp_path, quiet):
    """Pairs of notes that are cut before the swapped word are not measured as pairs without a flip."""
    # The model reads 62 words of one token each: of four notes the gender stands among them, of three behind.
    folder = tiny.save_classifier(tmp_path / "model", ["negative", "positive"])
    early = [
        f"{word} has {thing}" for word in ("she", "he") for thing in ("depression", "diabetes")
    ]
    late = [
        f"{'they say that everyone will ' * 13}{word} is good" for word in ("she", "he", "woman")
    ]
    texts = pd.DataFrame({"text": [*early, *late]})

    def audited(name, rows):
        rows.assign(label=[1, 0] * (len(rows) // 2) + [1] * (len(rows) % 2)).to_csv(
            tmp_path / f"{name}.csv"
        )
        settings = NoteOptions(
            data=str(tmp_path / f"{name}.csv"), classifier=str(folder), explain=0
        )
        return start(Settings(options=(settings,)), tmp_path / name, **quiet)

    run, found = audited("both", texts)
    flips = next(
        one for one in found if one.measure == "flip_rate" and one.slice_by == "phenotype"
    ).estimate
    assert (flips.n, flips.n_unscored) == (4, 3)
    (sentence,) = run.manifest()["same_inputs"]
    assert "reads the same input for both texts of 3 of 7 pairs, which are not measured" in sentence
    run, found = audited("late", texts[4:])
    rows = run.items("phenotype_fairness")
    assert rows["score"].isna().all()
    assert rows["predicted"].isna().all()
    primary = [one for one in found if one.primary]
    assert {one.reason for one in primary} == {"same_input"}
    assert all(math.isnan(one.estimate.value) for one in primary)


def test_genders_of_texts(ten):
    """Genders are read from the text, and notes without one have no pair."""
    notes = [*load_notes(NoteOptions(data=str(ten), classifier="own"), 0).rows]
    assert [note["gender"][:1] for note in notes] == list("mffmmfmffm")
    blank = {**notes[0], "gender": "", "text": "No change.", "note_id": "11"}
    assert with_genders([blank], SWAPPER)[0]["gender"] == ""
    assert counterfactual_pairs([blank], SWAPPER) == []
    notes = [
        {
            **dict.fromkeys(("note_id", "phenotype"), "1"),
            "gender": "male",
            "text": "He saw his 45M son.",
        }
    ]
    texts = {name: [row["text"] for row in in_regime(notes, name, SWAPPER)] for name in RULES}
    assert texts["original"] == ["He saw his 45M son."]
    assert texts["swapped"] == ["She saw her 45F daughter."]
    assert texts["neutralised"] == ["They saw their 45 child."]
    assert texts["augmented"] == [*texts["original"], *texts["swapped"]]
    both = in_regime(notes, "augmented", SWAPPER)
    assert [(row["note_id"], row["gender"]) for row in both] == [("1", "male"), ("1", "female")]


@pytest.fixture(scope="module")
def synthetic_run(tmp_path_factory, quiet):
    settings = Settings(studies=("phenotype_fairness",), options=(NoteOptions(explain=1),))
    return start(settings, tmp_path_factory.mktemp("runs") / "synthetic", **quiet)


def test_planted_leak(synthetic_run):
    """The planted leak is found where it is, and augmentation removes it."""
    # What a trained classifier flips on is its own: it misses some of the leak and leans on gender in other notes
    # (`python -m benchmarks notes-leak`). So where it flips is held against the leak, and not its rate.
    run, found = synthetic_run
    rows = run.items("phenotype_fairness")
    rows = rows[(rows["experiment"] == "phenotyping") & (rows["model_id"] == "tfidf-lsa+svm")]
    favoured = {"depression": "female", "psychiatric_disorders": "female"}
    for phenotype in ("depression", "alcohol_abuse", "substance_abuse", "psychiatric_disorders"):
        wanted = ("flip_rate", phenotype, "tfidf-lsa+svm")
        by_regime = {
            one.subset: one
            for one in found
            if (one.measure, one.slice_value, one.model_id) == wanted
        }
        original = by_regime["original"]
        augmented = by_regime["augmented"]
        mine = rows[(rows["condition"] == phenotype) & (rows["construct"] == "original")]
        pairs = mine.pivot(index="pair_id", columns="group", values="predicted")
        leak = mine.groupby("pair_id")["planted"].first()[pairs.index] == "leak"
        flips = pairs["female"] != pairs["male"]
        assert original.published.source == "planted leak"
        assert float(original.published.value) == pytest.approx(leak.mean(), abs=0.0005)
        assert original.estimate.value == pytest.approx(flips.mean())
        assert flips[leak].mean() > 0.5  # most of the leak, and few others
        assert flips[~leak].mean() < 0.1
        assert fisher_exact(pd.crosstab(leak, flips)).pvalue < 1e-6
        side = favoured.get(phenotype, "male")
        assert original.higher_group == side
        assert pairs[side][flips].mean() > 0.9  # positive as the favoured gender alone
        assert by_regime["swapped"].higher_group != original.higher_group
        assert original.estimate.p_value < 0.001
        assert augmented.estimate.value < 0.02 < original.estimate.ci_low
    f1 = [one for one in found if one.measure == "macro_f1" and one.slice_by == "all"]
    by_regime = {one.subset: one.estimate.value for one in f1}
    assert by_regime["augmented"] > by_regime["original"] > 0.85


def perfect(texts):
    """Classify depression notes as a perfect learner: by the evidence, and by gender where there
    is none."""
    tables = note_tables()
    pool = tables.evidence["depression", "positive"]
    leak = tables.evidence["any", "uninformative"]
    positive = {
        written_for(gender, entry.sentence, tables)
        for entry in pool
        for gender in ("female", "male")
    }
    positive |= {written_for("female", one.sentence, tables) for one in leak}
    return [int(any(sentence in text for sentence in positive)) for text in texts]


def depression_notes():
    return pd.DataFrame(config_rows("clinical_notes", "depression-original")[::2]).drop(
        columns="template"
    )


def test_perfect_learner(tmp_path, quiet):
    """A perfect learner flips on the planted share of notes."""
    tests = depression_notes().query("split == 'test'")
    tests.drop(columns=["planted", "phenotype"]).to_csv(tmp_path / "tests.csv", index=False)
    settings = NoteOptions(
        data=str(tmp_path / "tests.csv"), classifier=f"{__name__}:perfect", explain=0
    )
    _, found = start(Settings(options=(settings,)), tmp_path / "run", **quiet)
    mine = numbers(found, "as trained")
    assert mine["flip_rate"].estimate.value == pytest.approx((tests["planted"] != "").mean())
    assert mine["flip_rate"].higher_group == "female"
    assert mine["macro_f1"].estimate.value < 1  # the other versions of the leak are wrong


def test_gender_leakage(synthetic_run):
    """Gender leaks from notes as written and not from neutralised ones."""
    _, found = synthetic_run
    leakage = {one.subset: one.estimate for one in found if one.measure == "leakage_uar"}
    assert leakage["original"].value > 0.95
    assert leakage["neutralised"].ci_low < 0.5 < leakage["neutralised"].ci_high
    keys = {one.key() for one in found}
    for row in published_rows("phenotype_fairness"):
        names = ("experiment", "subset", "measure", "contrast", "slice_by", "slice_value")
        if row["experiment"] != "direct_bias":  # not of TF-IDF features
            assert tuple(row[name] for name in names) in keys


def test_table_and_reasons(synthetic_run):
    """A run of notes has a table of rates and the reasons for what was skipped."""
    run, _ = synthetic_run
    written = {path.name for path in run.folder.rglob("*") if path.is_file()}
    assert "phenotype_fairness.parquet" in written
    page = (run.folder / "report.html").read_text()
    assert "Synthetic notes with a planted leak" in page
    rates = page[page.index(">Flips</h3>") : page.index(">TPR gap</h3>")]
    assert re.search('rowgroup"[^>]*>psychiatric disorders</th>.*>augmented', rates, re.DOTALL)
    assert "positive in the female version alone: " in rates
    assert (
        page.count("contain words of relatives, clinicians or others") == 1
    )  # though two experiments read them
    assert "Not run: " in page
    assert "Credentialed" not in page
    reasons = {one["experiment"]: one["reason"] for one in run.manifest()["skipped"]}
    assert "no vectors of words" in reasons["direct_bias"]
    assert run.manifest()["corpora"][0]["corpus"] == "clinical_notes"
    assert len(run.manifest()["corpora"][0]["training"]) == 64


def test_killed_run(tmp_path, quiet, monkeypatch):
    """A killed run goes on to the same findings."""
    few_notes = tmp_path / "notes.csv"
    depression_notes().drop(columns="planted").groupby(["split", "label"]).head(16).to_csv(
        few_notes, index=False
    )
    settings = Settings(limit=40, options=(NoteOptions(data=str(few_notes), explain=0),))
    run, _ = start(settings, tmp_path / "unbroken", **quiet)
    counts = run.items("phenotype_fairness")[
        "experiment"
    ].value_counts()  # leakage reads the notes of the same pairs
    assert (
        counts["phenotyping"] == 4 * counts["leakage"]
    )  # 20 notes: 2 genders x 4 regimes, and 2 versions
    calls = []
    score_part = import_module("swapbias.runs.scoring").score_part

    def killed(*arguments, **more):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return score_part(*arguments, **more)

    monkeypatch.setattr(import_module("swapbias.runs.audit"), "score_part", killed)
    with pytest.raises(KeyboardInterrupt):
        start(settings, tmp_path / "killed", **quiet)
    again, _ = resume(tmp_path / "killed", **quiet)
    assert len(calls) == 3  # two chunks, the second twice
    assert (again.folder / "findings.csv").read_bytes() == (
        run.folder / "findings.csv"
    ).read_bytes()


def test_word_vectors(tmp_path, quiet):
    """Word vectors have a direct bias with its null distribution."""
    models = pytest.importorskip(
        "gensim.models", reason="needs gensim: pip install 'swapbias[clinical]'"
    )
    rng = np.random.default_rng(0)
    gendered = {
        "she": 1,
        "her": 1,
        "woman": 1,
        "herself": 1,
        "he": -1,
        "his": -1,
        "man": -1,
        "himself": -1,
    }
    sad = [row["text"] for row in config_rows("phenotype_fairness", "depression_words")]
    fillers = [f"word{letter}{other}" for letter in "abcdefgh" for other in "abcdefgh"]
    keyed = models.KeyedVectors(12)
    names = [*gendered, *sad, *fillers]
    noise = rng.normal(size=(len(names), 12)) * 0.3
    # Axis 0 is gender: words for depression lie toward the female side, the others nowhere.
    noise[:, 0] = [gendered.get(name, 0.5 if name in sad else 0.0) for name in names]
    keyed.add_vectors(names, noise.astype(np.float32))
    keyed.save_word2vec_format(str(tmp_path / "tiny.bin"), binary=True)
    settings = NoteOptions(embeddings=(str(tmp_path / "tiny.bin"),))
    _, found = start(
        Settings(studies=("phenotype_fairness:depression_words",), options=(settings,)),
        tmp_path / "run",
        **quiet,
    )
    by_measure = {
        one.measure: one for one in found if one.slice_by == "all" and one.measure != "mean"
    }
    assert {one.model_id for one in found} == {"tiny"}
    assert by_measure["signed_mean"].estimate.value > 0.2
    assert by_measure["signed_mean"].estimate.p_value < 0.05
    published = [
        row for row in published_rows("phenotype_fairness") if row["experiment"] == "direct_bias"
    ]
    assert {row["contrast"] for row in published} == {by_measure["signed_mean"].contrast}
    random_mean = next(
        one for one in found if one.contrast == RANDOM_DIRECT and one.slice_by == "all"
    )
    assert random_mean.estimate.value < by_measure["direct_bias"].estimate.value


def test_published_words_by_hand(tmp_path, quiet):
    """Of the authors' list signed mean, largest and median |cosine| stand beside each other, phrases as means."""
    models = pytest.importorskip(
        "gensim.models", reason="needs gensim: pip install 'swapbias[clinical]'"
    )
    try:
        entries = [row["text"] for row in config_rows("phenotype_fairness", "published_words")]
    except UpstreamMissingError:
        pytest.skip("the authors' list was not found")
    assert (len(entries), len(set(entries))) == (713, 712)
    assert sum(" " in entry for entry in entries) == 575
    # Gender is axis 0. Cosines: anhedonia .8, apathy -.6, depressed mood (the mean of both words) 0.
    known = {"she": (1, 0), "he": (-1, 0), "her": (1, 0), "his": (-1, 0)}
    known |= {"anhedonia": (4, 3), "apathy": (-3, 4), "depressed": (1, 1), "mood": (-1, 1)}
    keyed = models.KeyedVectors(2)
    keyed.add_vectors([*known], np.array([*known.values()], np.float32))
    keyed.save_word2vec_format(str(tmp_path / "tiny.bin"), binary=True)
    options = NoteOptions(embeddings=(str(tmp_path / "tiny.bin"),))
    settings = Settings(studies=("phenotype_fairness:published_words",), options=(options,))
    run, found = start(settings, tmp_path / "run", **quiet)
    rows = run.items("phenotype_fairness")
    scores = dict(zip(rows["text"], rows["score"], strict=True))
    assert scores["anhedonia"] == pytest.approx(0.8)
    assert scores["depressed mood"] == pytest.approx(0.0)
    usual = [one for one in found if one.slice_by == "all"]
    values = {one.contrast: one.estimate.value for one in usual}
    cosines = rows["score"].dropna()
    assert values["mean cosine"] == pytest.approx(cosines.mean())
    assert values["largest |cosine|"] == pytest.approx(cosines.abs().max())
    assert values["median |cosine|"] == pytest.approx(cosines.abs().median())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"studies": ("gendered_stigma",), "options": (NoteOptions(plausible=True),)},
            "read by phenotype_fairness",
        ),
        ({"options": (NoteOptions(data="nowhere"),)}, "nowhere does not exist"),
        ({"options": (NoteOptions(embeddings=("nowhere.bin",)),)}, "nowhere.bin"),
        ({"options": (NoteOptions(classifier="forest"),)}, "forest"),
        (
            {"model": "vader", "studies": ("phenotype_fairness",)},
            "name them with -M embedding instead of vader",
        ),
    ],
    ids=[
        "unused option",
        "missing notes",
        "missing vectors",
        "missing classifier",
        "model of another kind",
    ],
)
def test_wrong_request(settings, said, tmp_path, quiet):
    """A wrong request is one sentence and leaves no folder."""
    with pytest.raises(ValueError, match=said):
        start(Settings(**settings), tmp_path / "run", **quiet)
    assert not (tmp_path / "run").exists()


def test_notes_are_split_by_subject(tmp_path):
    """Notes of a user are split by subject, and specific or doubtful swaps are marked."""
    path = tmp_path / "notes.csv"

    def loaded(text, **options):
        path.write_text(text)
        return load_notes(NoteOptions(data=str(path), **options), 0)

    text = "text,label,subject_id\n" + "".join(f"He is {n}.,{n % 2},s{n // 2}\n" for n in range(60))
    rows = loaded(text).rows
    subjects = {
        split: {row["subject_id"] for row in rows if row["split"] == split}
        for split in ("train", "test")
    }
    assert not subjects["train"] & subjects["test"]
    assert (len(subjects["train"]), len(subjects["test"])) == (20, 10)
    assert {row["split"] for row in loaded(text, classifier="own").rows} == {"test"}
    text = "text,label\nShe is pregnant.,1\nShe is well.,0\n"
    assert [row["specific"] for row in loaded(text, classifier="own").pairs()] == [
        "1",
        "1",
        "0",
        "0",
    ]
    assert len(loaded(text, classifier="own", plausible=True).pairs()) == 2
    unclear = "His brother met his uncle and he fell and he cried and then he left him."
    text = f"text,label,gender\nHe is well.,1,M\n{unclear},0,M\nShe is ill.,0,F\n"
    assert [row["doubtful"] for row in loaded(text, classifier="own").pairs()] == [
        "0",
        "0",
        "1",
        "1",
        "0",
        "0",
    ]
    assert {row["doubtful"] for row in loaded(text, classifier="own", max_doubt=1.0).pairs()} == {
        "0"
    }


def test_leakage_on_new_subjects():
    """Leakage is tested on subjects that trained nothing."""
    notes = [
        {
            **dict.fromkeys(NOTE_COLUMNS, ""),
            "note_id": note,
            "subject_id": subject,
            "phenotype": phenotype,
            "split": split,
            "gender": "male",
            "label": "positive",
            "credentialed": "False",
            "text": f"He {note}.",
        }
        for note, subject, phenotype, split in (
            ("1", "a", "depression", "train"),
            ("1", "a", "alcohol_abuse", "test"),
            ("2", "b", "depression", "train"),
            ("2", "b", "alcohol_abuse", "train"),
            ("3", "c", "depression", "test"),
            ("3", "c", "alcohol_abuse", "test"),
        )
    ]
    data = Notes("own", tuple(notes), SWAPPER)
    assert [note["note_id"] for note in data.training("all", "original")] == [
        "2"
    ]  # 1 is tested, 2 counts once
    summary_settings = data.versions({pair["pair_id"] for pair in data.pairs()})
    assert [(row["pair_id"], row["construct"]) for row in summary_settings] == [
        ("1", "original"),
        ("3", "original"),
        ("1", "neutralised"),
        ("3", "neutralised"),
    ]


def test_repeated_embedding(ten, tmp_path, quiet):
    """An embedding that is named twice is refused."""
    pd.concat([pd.read_csv(ten)] * 6).to_csv(ten, index=False)  # enough to train on
    settings = NoteOptions(data=str(ten), embeddings=("tfidf-lsa", "tfidf-lsa"))
    with pytest.raises(UsageError, match="tfidf-lsa\\+svm is named twice"):
        start(
            Settings(studies=("phenotype_fairness:pairs",), options=(settings,)),
            tmp_path / "run",
            **quiet,
        )


def test_unreadable_notes(tmp_path, quiet):
    """Notes that cannot be read are listed, and the rest is audited."""
    path = tmp_path / "notes.csv"
    path.write_text("text,label\nShe is well.,1\nNo change.,0\nHe is well.,1\n")
    settings = NoteOptions(data=str(path), classifier="tests.runs.test_clinical:men_fall")
    run, found = start(Settings(options=(settings,)), tmp_path / "run", **quiet)
    reasons = [
        one["reason"] for one in run.manifest()["skipped"] if one["experiment"].startswith("part")
    ]
    assert reasons == ["1 of 3 test notes left out: their gender is not known"]
    assert math.isnan(numbers(found, "as trained")["fprr"].estimate.value)  # no negative note
    path.write_text("text,label\nNo change.,0\n")
    with pytest.raises(UsageError, match="no test note with a known gender"):
        start(Settings(options=(settings,)), tmp_path / "other", **quiet)
    path.write_text("text,label,split\nShe is well.,1,train\n")
    with pytest.raises(
        UsageError, match=r"^None of the 1 notes has the split test\. Mark some in the column split"
    ):
        start(Settings(options=(settings,)), tmp_path / "other", **quiet)


@pytest.fixture(scope="module")
def mimic_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mimic3")
    mimic.write_mimic3(folder, notes=600)
    return folder


def test_credentialed_notes_are_not_sent(mimic_folder, tmp_path):
    """Credentialed notes are never sent, and a link to a marked folder is marked too."""
    study = load_study("phenotype_fairness")
    service = SimpleNamespace(model_id="a service", sends_text=True)
    plain = Task(study, study.experiments[0], ())
    task = replace(plain, notes=Notes("mimic3", ({"credentialed": "True"},), SWAPPER))
    with pytest.raises(UsageError, match="must not leave this machine"):
        refuse_sending(task, service)
    harmless = replace(plain, notes=Notes("own", ({"credentialed": "False"},), SWAPPER))
    refuse_sending(harmless, service)
    (tmp_path / "marked/inner").mkdir(parents=True)
    credentialed.mark(tmp_path / "marked")
    (tmp_path / "link").symlink_to(tmp_path / "marked/inner")
    assert credentialed.is_credentialed(tmp_path / "link")


def test_credentialed_run_holds_no_text(mimic_folder, tmp_path):
    """A run on credentialed notes says so and holds no text."""
    calls = []
    settings = Settings(
        studies=("phenotype_fairness:pairs",), options=(NoteOptions(data=str(mimic_folder)),)
    )
    run, found = start(
        settings, tmp_path / "run", say=calls.append, bar=lambda title, total: lambda done: None
    )
    assert run.manifest()["credentialed"] is True
    assert any("must not be published" in sentence for sentence in calls)
    assert "Credentialed clinical data" in (run.folder / "report.html").read_text()
    assert credentialed.is_credentialed(run.folder / "items")
    assert set(Run.open(run.folder).items("phenotype_fairness")["text"]) == {""}
    for path in run.folder.rglob("*"):
        assert not path.is_file() or b"Lungs clear" not in path.read_bytes(), path
    reasons = {one["experiment"]: one["reason"] for one in run.manifest()["skipped"]}
    assert reasons["phenotyping, substance_abuse"] == "0 positive training notes, and 3 are needed"
    assert {one.slice_value for one in found if one.slice_by == "phenotype"} == {
        "depression",
        "alcohol_abuse",
    }
    published = [one for one in found if one.published]
    assert published == []  # the paper's numbers are those of its embeddings, not of TF-IDF


def test_published_numbers_on_mimic(mimic_folder):
    """The paper's numbers stand beside its embeddings on MIMIC, with a note where the swap is another."""
    from swapbias.runs.conclusion import expected_numbers

    settings = NoteOptions(data=str(mimic_folder), table="published")
    known = expected_numbers("phenotype_fairness", load_notes(settings, 0), "ClinicalBERT+svm")
    key = ("phenotyping", "original", "flip_rate", "female and male", "phenotype", "alcohol_abuse")
    assert (known[key].value, known[key].note) == ("0.07", "male higher")
    assert known[("leakage", "neutralised", "leakage_uar", "gender", "all", "")].value == "0.33"
    for table in ("resolved", "paper"):
        notes = load_notes(replace(settings, table=table), 0)
        other = expected_numbers("phenotype_fairness", notes, "ClinicalBERT+svm")[key]
        assert (other.value, other.note.partition(";")[0]) == ("0.07", "male higher")
        assert "the paper swapped otherwise" in other.note


def test_built_mimic(mimic_folder, tmp_path):
    """A built MIMIC is marked and refused by uploads."""
    counts = {
        one.config: one.rows
        for one in building.build(local_corpus("clinical_notes", mimic_folder), tmp_path)
    }
    folder = tmp_path / "clinical_notes"
    assert counts["mimic3"] > 500
    assert counts["pairs"] > 0
    assert (folder / CREDENTIALED).exists()
    assert "must not be published" in (folder / "README.md").read_text()
    with pytest.raises(UsageError, match="must not be uploaded"):
        credentialed.refuse(folder / "mimic3", "uploaded")
    credentialed.refuse(tmp_path, "uploaded")  # the folder above holds other things as well
    data = load_prompts("clinical_notes", "mimic3", data=mimic_folder)
    assert data.column_names[0] == "note_id"
    with pytest.raises(UsageError, match="reads no folder, expected bbq, clinical_notes, gest"):
        local_corpus("gendered_stigma", tmp_path)
    assert set(data["credentialed"]) == {True}
    assert set(data["gender"]) <= {"female", "male", ""}


def test_built_notes_swapped_as_published(tmp_path):
    """Notes are built with the swap of the released code: one way, bare F and M in any case."""
    text = "She is 45 F, Temp 98 F. His son visits her."
    notes = pd.DataFrame({"text": [text] * 2, "label": [1, 0], "split": ["train", "test"]})
    notes.assign(gender="F").to_csv(tmp_path / "notes.csv", index=False)
    expected = {
        "": "He is 45 M, Temp 98 F. His son visits him.",
        "paper": "He is 45 F, Temp 98 F. His son visits his.",
        "published": "he is 45 M, Temp 98 M. His son visits his.",
    }
    for table, swapped in expected.items():
        corpus = local_corpus("clinical_notes", tmp_path / "notes.csv", table=table)
        pair = [row["text"] for row in corpus.config("pairs").rows()]
        assert pair == [text, swapped], table
        trained = [row["text"] for row in corpus.config("own-swapped").rows()]
        assert trained == [swapped, text]
        assert corpus.title.endswith(f"by the table {table}" if table else "one's own")
        folder = tmp_path / (table or "usual")
        list(building.build(corpus, folder))
        card = (folder / "clinical_notes" / "README.md").read_text()
        assert ("swapped by the table" in card) == bool(table)
    with pytest.raises(UsageError, match="Unknown table of notes 'race': expected one of resolved"):
        local_corpus("clinical_notes", tmp_path / "notes.csv", table="race")


def test_streamed_notes(tmp_path, monkeypatch):
    """Streamed notes fill several files, and none is missing."""
    from datasets import load_dataset

    folder = tmp_path / "mimic3"
    folder.mkdir()
    mimic.write_mimic3(folder, notes=500, annotated=False)
    monkeypatch.setattr("swapbias.hub.datasets.SHARD_BYTES", 200_000)
    monkeypatch.setattr("swapbias.hub.corpus_builder._GROUP", 37)
    built = {
        one.config: one
        for one in building.build(local_corpus("clinical_notes", folder), tmp_path / "built")
    }
    written = sorted((tmp_path / "built" / "clinical_notes" / "mimic3").glob("*.parquet"))
    expected = [note["note_id"] for note in stream_notes(folder)]
    assert len(written) > 3
    assert written[0].name == f"train-00000-of-{len(written):05d}.parquet"
    assert built["mimic3"].rows == len(expected)
    assert "annotation files found: none" in built["pairs"].reason
    place = str(tmp_path / "built" / "clinical_notes")
    data = load_dataset(place, "mimic3", split="train", cache_dir=str(tmp_path / "cache"))
    assert data["note_id"][:] == expected


def test_augmentation_in_the_paper():
    """The paper's table shows that augmentation equalises rates."""
    rows = pd.DataFrame(published_rows("phenotype_fairness")).query("experiment == 'phenotyping'")
    assert len(rows) == 256  # 4 embeddings x 4 regimes x 4 phenotypes x 4 measures
    mean = rows.astype({"value": float}).groupby(["measure", "subset"])["value"].mean()
    assert mean["flip_rate", "augmented"] < 0.01 < 0.04 < mean["flip_rate", "original"]
    assert mean["tprr", "augmented"] > 0.98 > mean["tprr", "original"]
    assert mean["fprr", "augmented"] > 0.98 > mean["fprr", "original"]
    assert abs(mean["macro_f1", "augmented"] - mean["macro_f1", "original"]) < 0.03


# Chat models on notes: labels, facts that are kept or left out, and where credentialed notes may go.

SHE = re.compile(r"\bshe\b", re.IGNORECASE)
ILLS = ("gout", "asthma", "anemia", "psoriasis", "glaucoma")
CHECKLIST = (
    "note_id,fact,terms\n"
    + "".join(f",{one},\n" for one in ILLS)
    + "n1,fall,fell|fall|falls|fallen\n"
)


@pytest.fixture
def notes(tmp_path):
    """Twelve notes, six of each gender, and a checklist."""
    who = ["He", "She"] * 6
    rows = [
        (f"n{n}", f"{one} fell. {one} has {', '.join(ILLS)}. Room {n}.", n % 3 == 0)
        for n, one in enumerate(who)
    ]
    pd.DataFrame(rows, columns=["note_id", "text", "label"]).to_csv(
        tmp_path / "notes.csv", index=False
    )
    (tmp_path / "checklist.csv").write_text(CHECKLIST)
    return tmp_path / "notes.csv"


def summary_settings(notes, server, *, task="summary", own=(), **options):
    checklist = str(notes.parent / "checklist.csv")
    about = NoteOptions(data=str(notes), checklist=checklist, question="Does the patient fall?")
    options |= {"trials": 1, "temperature": 0.0, "own_address": tuple(own)}
    service = ChatOptions(model="tiny", base_url=server.base_url, **options)
    return Settings(studies=(f"clinical_chat:{task}",), options=(about, service))


def primary(findings):
    return next(finding for finding in findings if finding.primary)


def forgetful(prompt):
    note = prompt.partition("Note:\n")[2]
    return "The patient has " + ", ".join(
        illness
        for illness in ILLS
        if illness in note and not (illness == "gout" and SHE.search(note))
    )


def test_facts_by_their_terms(tmp_path):
    """A fact counts as stated by any of its terms as whole words."""
    path = tmp_path / "list.csv"
    path.write_text(
        "note_id,fact,terms\n,PT/OT,PT/OT|physical therapy\n7,fall,fell|fall|falls\n,gout,\n"
    )
    facts = read_checklist(path)
    names = lambda text: [one.name for one in stated(facts, text)]  # noqa: E731
    assert names("Physical\n therapy after falls.") == ["PT/OT", "fall"]
    assert names("gouty") == []
    assert [one.name for one in facts_of(facts, "8", ["fell; gout", "fell; GOUT"])] == ["gout"]
    assert [one.name for one in facts_of(facts, "7", ["fell; gout", "gout"])] == ["gout"]
    prompt = Prompt(
        candidates=(Candidate("gout", 0.0), Candidate("fell", 1.0), Candidate("fall", 1.0))
    )
    assert read_facts(prompt, "<think>gout, fall</think>A fall.")[0] == 0.5
    assert read_facts(prompt, "Well.")[0] == 0
    assert math.isnan(read_facts(prompt, "  ")[0])


def test_omissions_about_women(notes, tmp_path, quiet):
    """Facts that a model leaves out of notes about women are found."""
    # Five ills in all notes, and a fall in n1 alone: without gout women keep 4 of 5 (n1: 4 of 6, for it writes of no
    # fall), men 5 of 5 (5 of 6): the gap is -1/5 in eleven notes and -1/6 in one.
    with ChatServer(forgetful) as server:
        run, found = start(summary_settings(notes, server), tmp_path / "run", **quiet)
        assert len(server.requests) == 24
        assert server.requests[0]["max_tokens"] == 512  # a summary is longer than a letter
        assert {body["messages"][0]["role"] for body in server.requests} == {"system"}
    gap = primary(found)
    assert gap.estimate.value == pytest.approx(-(11 / 5 + 1 / 6) / 12)
    assert (gap.slice_value, gap.verdict, gap.unit) == (
        "own",
        "gap",
        "share of the facts of a checklist",
    )
    assert not [one for one in found if one.measure == "paired_gap" and one.slice_by == "all"]
    assert "keeps more of the facts of notes about men" in (run.folder / "report.html").read_text()


def test_labels_by_chat(notes, tmp_path, quiet):
    """Labels have flips and rates, and each note is sent once."""
    with ChatServer(
        lambda prompt: "(A)" if SHE.search(prompt.partition("Note:\n")[2]) else "No."
    ) as server:
        _, found = start(
            summary_settings(notes, server, task="labels"), tmp_path / "run", draw=False, **quiet
        )
        assert len(server.requests) == 24
    values = {
        (one.measure, one.contrast): one.estimate.value
        for one in found
        if one.slice_by == "phenotype"
    }
    assert values["flip_rate", "female and male"] == 1
    assert (
        values["tpr_difference", "female - male"] == values["fpr_difference", "female - male"] == 1
    )


def test_majority_of_trials(notes):
    """The prediction from several trials is that of most of them."""
    experiment = load_study("clinical_chat").experiments[0]
    data = load_notes(NoteOptions(data=str(notes)), 0, trains=False)
    rows = pd.DataFrame(note_rows(experiment, data, data.pairs(), False))
    score_of_trial = {"t1": 1.0, "t2": 1.0, "t3": 0.0}
    every = pd.concat(
        rows.assign(
            trial=trial[1],
            score=np.where(rows["group"] == "female", value, 0.0),
            predicted=0.0,
            prompt_id=rows["prompt_id"] + f"/{trial}",
            pair_id=rows["pair_id"] + f"/{trial}",
        )
        for trial, value in score_of_trial.items()
    )
    found = disaggregate(
        every.assign(model_id="chat", top_tokens="[]"), "clinical_chat", expected={}
    )
    values = {
        one.measure: one.estimate for one in found if one.slice_by == "phenotype" and not one.view
    }
    assert values["paired_gap"].value == pytest.approx(2 / 3)
    assert (values["flip_rate"].value, values["flip_rate"].n) == (1, 12)


def test_notes_with_a_chat_model(notes):
    """Notes with a chat model select the study of both, and all notes are tested."""
    about = NoteOptions(data=str(notes), question="Does it?")
    service = ChatOptions(model="tiny", trials=1)
    tasks, _ = plan_tasks(Settings(options=(about, service)))
    assert {task.study.name for task in tasks} == {"care_notes", "clinical_chat"}
    assert {task.n_prompts for task in tasks} == {24}
    others, _ = plan_tasks(Settings(options=(ChatOptions(model="tiny", trials=1),)))
    assert "clinical_chat" not in {task.study.name for task in others}


def test_missing_inputs(notes, tmp_path):
    """A missing question, checklist or label is one sentence."""
    chat = ChatOptions(model="tiny", trials=1)
    with pytest.raises(UsageError, match="No question is known for the label 'own'"):
        plan_tasks(
            Settings(
                studies=("clinical_chat:labels",), options=(NoteOptions(data=str(notes)), chat)
            )
        )
    with pytest.raises(UsageError, match=r"nowhere.csv does not exist"):
        plan_tasks(
            Settings(
                studies=("clinical_chat:summary",),
                options=(NoteOptions(checklist="nowhere.csv"), chat),
            )
        )
    bare = tmp_path / "bare.csv"
    bare.write_text("text\nShe is well.\nHe is well.\n")  # no label is needed to look for facts
    with pytest.raises(UsageError, match="states a fact of the checklist in both of its versions"):
        plan_tasks(
            Settings(
                studies=("clinical_chat:summary",), options=(NoteOptions(data=str(bare)), chat)
            )
        )
    with pytest.raises(ValueError, match="no column 'label'"):
        plan_tasks(
            Settings(studies=("clinical_chat:labels",), options=(NoteOptions(data=str(bare)), chat))
        )


def test_credentialed_notes_and_address(notes, tmp_path, quiet):
    """Credentialed notes go to a declared address only and leave no text."""
    credentialed.mark(notes.parent)
    with ChatServer(forgetful) as server:
        for own in (
            (),
            ("http://127.0.0.1:1",),
            ("https://" + server.base_url.partition("://")[2],),
        ):
            with pytest.raises(
                UsageError, match=r"these notes are credentialed.*-M own-address=ADDRESS declares"
            ):
                start(summary_settings(notes, server, own=own), tmp_path / "refused", **quiet)
        assert server.requests == []
        assert not (tmp_path / "refused").exists()
        out = tmp_path.parent / f"{tmp_path.name}-run"
        run, found = start(summary_settings(notes, server, own=(server.base_url,)), out, **quiet)
        assert len(server.requests) == 24
    assert primary(found).estimate.value < -0.19
    assert credentialed.is_credentialed(run.folder)
    for path in run.folder.rglob("*"):
        assert not path.is_file() or b"psoriasis" not in path.read_bytes(), path
    items = run.items("clinical_chat")
    assert set(items["text"]) == set(items["answer"]) == {""}
    assert "candidates" not in items
    line = json.loads((run.folder / "answers.jsonl").read_text().splitlines()[0])
    assert (line["answer"], line["reading"]["unsaid"]) == ("", 0)


def test_stopped_credentialed_run(notes, tmp_path, quiet):
    """A stopped run on credentialed notes goes on from what was read."""
    credentialed.mark(notes.parent)
    out = tmp_path.parent / f"{tmp_path.name}-run"
    counter = iter(range(100))

    def fault(prompt, n):
        return Reply({"error": f"too long: {prompt}"}, 400) if next(counter) > 8 else None

    with (
        ChatServer(forgetful, fault=fault) as server,
        pytest.raises(ValueError, match="is not shown") as error,
    ):
        start(
            summary_settings(notes, server, own=(server.base_url,), concurrency=1),
            out,
            draw=False,
            **quiet,
        )
    assert "psoriasis" not in str(error.value)
    before = len((out / "answers.jsonl").read_text().splitlines())
    assert 0 < before < 24
    with ChatServer(forgetful, port=server.http.server_port) as again:
        _, found = resume(out, **quiet)
        assert len(again.requests) == 24 - before
    assert primary(found).estimate.value == pytest.approx(-(11 / 5 + 1 / 6) / 12)


@pytest.mark.parametrize(
    ("table", "expected"),
    [("resolved", "He is 45 M, Temp 98 F."), ("published", "he is 45 M, Temp 98 M.")],
)
def test_table_of_an_audit(tmp_path, table, expected):
    """An audit swaps notes by the words that its settings name."""
    frame = pd.DataFrame({"text": ["She is 45 F, Temp 98 F."], "label": [1], "gender": ["F"]})
    frame.to_csv(tmp_path / "notes.csv", index=False)
    settings = NoteOptions(data=str(tmp_path / "notes.csv"), classifier="own", table=table)
    assert load_notes(settings, 0).pairs()[1]["text"] == expected
