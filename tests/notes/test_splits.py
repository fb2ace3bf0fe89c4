"""Several train/test splits: a classifier is trained on each, and the split is a random factor of gaps and rates."""

import math
import random
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from swapbias import paired_gap
from swapbias.cli import app
from swapbias.errors import UsageError
from swapbias.findings import disaggregate
from swapbias.measures import split_rates
from swapbias.models.clinical import NoteOptions
from swapbias.notes import load_notes
from swapbias.notes.load import load_splits
from swapbias.privacy import public_manifest
from swapbias.report import cautions
from swapbias.runs import Settings, start
from tests.notes import mimic

runner = CliRunner()
SIMULATIONS = 200
PHENOTYPING = "phenotype_fairness:phenotyping"


@pytest.fixture(scope="module", autouse=True)
def one_setting():
    """Try one setting of the support vector machine, to be quick."""
    with pytest.MonkeyPatch.context() as patch:
        grid = {"svc__C": [1], "svc__kernel": ["linear"]}
        patch.setattr("swapbias.models.clinical.phenotype.SVM_GRID", grid)
        yield


def audited(folder, quiet, *, seed=0, studies=(PHENOTYPING,), **notes):
    settings = Settings(
        studies=studies, seed=seed, wordings=False, options=(NoteOptions(explain=0, **notes),)
    )
    run, found = start(settings, folder, **quiet)
    return run, run.items("phenotype_fairness"), found


# --- notes ------------------------------------------------------------------------------------------------


def test_seed_splits_notes_otherwise(tmp_path):
    """Each split of MIMIC-III tests other subjects, none that it trains on, and is that of its seed."""
    mimic.write_mimic3(tmp_path, notes=300)
    options = NoteOptions(data=str(tmp_path), splits=3)
    splits = load_splits(options, 4)
    assert [notes.split for notes in splits] == ["4", "5", "6"]
    tested = set()
    for seed, notes in enumerate(splits, start=4):
        of_depression = [row for row in notes.rows if row["phenotype"] == "depression"]
        subjects = {
            split: {row["subject_id"] for row in of_depression if row["split"] == split}
            for split in ("train", "test")
        }
        assert not subjects["train"] & subjects["test"]
        tested.add(frozenset(subjects["test"]))
        alone = load_notes(replace(options, splits=1), seed)
        assert (alone.rows, alone.split) == (notes.rows, "")
    assert len(tested) == 3


def test_splits_of_synthetic_notes():
    """The synthetic notes are split anew in the sizes of the study; asked for one split they stay as they are."""
    first, second = load_splits(NoteOptions(splits=2), 0)
    alone = load_notes(NoteOptions(), 0)
    for notes in (first, second):
        sizes = pd.DataFrame(notes.rows).groupby(["phenotype", "split", "gender", "label"]).size()
        expected = pd.DataFrame(alone.rows).groupby(["phenotype", "split", "gender", "label"])
        assert sizes.to_dict() == expected.size().to_dict()
    assert (
        len({frozenset(note["note_id"] for note in notes.rows) for notes in (first, second)}) == 1
    )
    assert first.rows != second.rows


# --- audits -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mimic_runs(tmp_path_factory, quiet):
    folder = tmp_path_factory.mktemp("mimic")
    mimic.write_mimic3(folder, notes=200)
    runs = {"splits": audited(folder / "splits", quiet, seed=1, data=str(folder), splits=2)}
    runs["2"] = audited(folder / "run", quiet, seed=2, data=str(folder))
    return runs


def test_split_is_an_audit_of_its_seed(mimic_runs):
    """A split has the scores of an audit with its seed, whose rows have no column for it."""
    run, rows, _ = mimic_runs["splits"]
    assert set(rows["split"]) == {"1", "2"}
    alone = mimic_runs["2"][1]
    assert "split" not in alone
    of_split = rows[rows["split"] == "2"]
    assert of_split["pair_id"].str.removesuffix("/s2").tolist() == alone["pair_id"].tolist()
    assert of_split["score"].tolist() == pytest.approx(alone["score"].tolist(), nan_ok=True)
    assert not rows.duplicated(["prompt_id", "experiment"]).any()
    assert public_manifest(run.manifest())["settings"]["notes"]["splits"] == 2


def test_gap_of_an_audit_is_over_splits(mimic_runs):
    """The gap of an audit is that of both splits' pairs, with an interval over subjects and splits."""
    _, rows, found = mimic_runs["splits"]
    (gap,) = (
        one
        for one in found
        if (one.measure, one.subset, one.slice_value, one.view)
        == ("paired_gap", "original", "depression", "")
    )
    assert gap.cluster_vars == "subjects + train/test splits"
    assert (gap.estimate.fewest, gap.estimate.fewest_of) == (2, "train/test splits")
    chosen = rows[(rows["construct"] == "original") & (rows["condition"] == "depression")]
    pairs = chosen.pivot(index="pair_id", columns="group", values="score").dropna()
    assert gap.estimate.value == pytest.approx((pairs["female"] - pairs["male"]).mean())
    one_split = [one for one in mimic_runs["2"][2] if "splits" in one.cluster_vars]
    assert one_split == []


def test_plan_of_splits(tmp_path):
    """A plan counts the splits of an audit as levels of one question."""
    path = leaking_notes(tmp_path / "notes.csv")
    planned = runner.invoke(
        app, ["plan", "--study", PHENOTYPING, "-M", f"data={path}", "-M", "splits=5"]
    )
    assert planned.output.count("phenotyping: ") == 1
    assert "5 train/test splits" in planned.output


def leaking_notes(path, subjects=160):
    """Notes of a subject each: of one in four only the gender tells the label, of the others a word does."""
    rng = random.Random(3)
    rows = []
    for subject in range(subjects):
        is_woman = rng.random() < 0.5
        leaks = subject % 4 == 0
        label = is_woman if leaks else rng.random() < 0.5
        word = "here" if leaks else ("sad" if label else "well")
        who = "She" if is_woman else "He"
        lines = [
            f"{who} is {word}.",
            f"{who} slept, {who.lower()} ate.",
            f"Bed {subject}.",
        ]
        rows.append({"text": " ".join(lines), "label": int(label), "subject_id": f"p{subject}"})
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def leaking_run(tmp_path_factory, quiet):
    folder = tmp_path_factory.mktemp("leak")
    data = leaking_notes(folder / "notes.csv")
    return audited(folder / "run", quiet, studies=("phenotype_fairness",), data=str(data), splits=6)


def test_planted_leak_over_splits(leaking_run):
    """A leak of one note in four flips one in four over the splits, women positive, until both versions train."""
    _, rows, found = leaking_run
    by_regime = {one.subset: one for one in found if one.measure == "flip_rate"}
    original = by_regime["original"]
    assert original.estimate.ci_low <= 0.25 <= original.estimate.ci_high
    assert original.estimate.ci_high < 0.4
    assert original.cluster_vars == "subjects + train/test splits"
    assert (original.higher_group, original.only_reference) == ("female", 0)
    assert original.estimate.p_value < 0.001
    augmented = by_regime["augmented"].estimate
    assert augmented.value < 0.05
    leakage = next(
        one for one in found if one.measure == "leakage_uar" and one.subset == "original"
    )
    assert leakage.estimate.value > 0.9
    assert rows[rows["experiment"] == "leakage"]["split"].nunique() == 6


def test_splits_on_the_page(leaking_run):
    """The page says that rates are means over splits, and that splits were left out one at a time."""
    run, _, found = leaking_run
    page = (run.folder / "report.html").read_text()
    assert "Means over the train/test splits" in page
    (gap,) = (one for one in found if one.primary and one.measure == "paired_gap")
    sentences = " ".join(cautions.list_cautions(gap, found))
    assert "Whichever one train/test split is left out" in sentences
    assert "allows for other subjects and train/test splits" in cautions.describe_certainty(gap)


def test_refused_splits(tmp_path):
    """Splits are refused for notes that name theirs, and where the audit trains no classifier."""
    notes = pd.read_csv(leaking_notes(tmp_path / "notes.csv"))
    notes["split"] = ["train", "test"] * (len(notes) // 2)
    notes.to_csv(tmp_path / "split.csv", index=False)
    with pytest.raises(UsageError, match="name theirs"):
        load_splits(NoteOptions(data=str(tmp_path / "split.csv"), splits=2), 0)
    options = NoteOptions(
        data=str(tmp_path / "notes.csv"), classifier="tests.cluster_workers:positive", splits=2
    )
    settings = Settings(studies=(PHENOTYPING,), options=(options,))
    with pytest.raises(UsageError, match="trains none"):
        start(settings, tmp_path / "run", say=print, bar=None)


# --- estimates --------------------------------------------------------------------------------------------


def scored_splits(rng, gap=0.0, subjects=60):
    """Score the pairs of ten splits, each of a third of the subjects: every subject and split leans its way."""
    lean_of_subject = rng.normal(0, 0.1, subjects)
    rows = []
    for split in range(10):
        lean_of_split = rng.normal(0, 0.05)
        for subject in rng.choice(subjects, subjects // 3, replace=False):
            half = (gap + lean_of_subject[subject] + lean_of_split + rng.normal(0, 0.1)) / 2
            rows += [
                (0.5 + half, "female", f"{subject}/{split}", subject, split),
                (0.5 - half, "male", f"{subject}/{split}", subject, split),
            ]
    return [*zip(*rows, strict=True)]


def gap_over(scored, *factors):
    scores, groups, pairs, subjects, splits = scored
    every = {"subjects": subjects, "splits": splits}
    clusters = {name: every[name] for name in factors}
    return paired_gap(scores, groups, pairs, reference_group="male", cluster_ids=clusters)


def test_split_is_a_random_factor():
    """Without a gap 5 % of intervals over subjects and splits miss 0; of those over subjects alone far more do."""
    rng = np.random.default_rng(54)
    missed = {("subjects",): 0, ("subjects", "splits"): 0}
    for _ in range(SIMULATIONS):
        scored = scored_splits(rng)
        for factors in missed:
            estimate = gap_over(scored, *factors)
            missed[factors] += not estimate.ci_low <= 0 <= estimate.ci_high
    assert missed["subjects", "splits"] <= 0.1 * SIMULATIONS  # .05 and three standard errors
    assert missed[("subjects",)] > 0.1 * SIMULATIONS


def test_planted_gap_over_splits():
    """A planted gap of .2 lies in the interval over subjects and splits, which leaves 0 out."""
    estimate = gap_over(scored_splits(np.random.default_rng(1), gap=0.2), "subjects", "splits")
    assert estimate.ci_low <= 0.2 <= estimate.ci_high
    assert estimate.ci_low > 0
    assert (estimate.n, estimate.fewest, estimate.fewest_of) == (200, 10, "splits")


def predicted_splits(rng, *, splits=8, subjects=60, rate=0.2, leans=True):
    """Predict the two versions of notes of which a third is tested in each split; a version is as likely positive."""
    lean_of_subject = rng.normal(0, 1, subjects) * leans
    rows = []
    for split in range(splits):
        lean_of_split = rng.normal(0, 0.4) * leans
        for subject in rng.choice(subjects, subjects // 3, replace=False):
            lean = math.log(rate / (1 - rate)) + lean_of_subject[subject] + lean_of_split
            tilt = rng.normal(0, 0.3) * leans
            for group, side in (("female", 1), ("male", -1)):
                answer = float(rng.random() < 1 / (1 + math.exp(-lean - side * tilt)))
                rows.append(
                    (split, subject, group, answer, "positive" if subject % 2 else "negative")
                )
    frame = pd.DataFrame(rows, columns=["split", "subject_id", "group", "predicted", "label"])
    pair = frame["subject_id"].astype(str) + "/s" + frame["split"].astype(str)
    return frame.astype({"split": str, "subject_id": str}).assign(
        pair_id=pair, prompt_id=pair + "/" + frame["group"], score=frame["predicted"],
        experiment="phenotyping", model_id="toy", construct="original", condition="depression",
        answer="", top_tokens="[]",
    )  # fmt: skip


def rates_by_split(rows):
    """Yield flips, rates by group and label, and macro F1 of each split, counted one by one."""
    for _, part in rows.groupby("split"):
        answers = {(row.pair_id, row.group): row.predicted for row in part.itertuples()}
        pairs = sorted({row.pair_id for row in part.itertuples()})
        flips = [answers[pair, "female"] != answers[pair, "male"] for pair in pairs]
        rate = {}
        for group in ("female", "male"):
            for label in ("positive", "negative"):
                chosen = [
                    row.predicted
                    for row in part.itertuples()
                    if (row.group, row.label) == (group, label)
                ]
                rate[group, label] = sum(chosen) / len(chosen)
        f1 = []
        for label, answer in (("positive", 1.0), ("negative", 0.0)):
            hits = sum((part["label"] == label) & (part["predicted"] == answer))
            f1.append(2 * hits / (sum(part["label"] == label) + sum(part["predicted"] == answer)))
        yield sum(flips) / len(flips), rate, sum(f1) / 2


def test_rates_are_means_over_splits():
    """Flips, differences and ratios of rates and F1 are means over the splits, each counted one by one."""
    rows = predicted_splits(np.random.default_rng(8), rate=0.4)
    rows = rows[~((rows["split"] == "0") & rows["subject_id"].isin(["1", "2", "3", "4", "5"]))]
    found = disaggregate(rows, "phenotype_fairness", expected={}, robustness=False)
    found = {one.measure: one for one in found if one.slice_value and "rounded" not in one.contrast}
    flips, rate, f1 = zip(*rates_by_split(rows), strict=True)
    tpr = {group: [one[group, "positive"] for one in rate] for group in ("female", "male")}
    fpr = {group: [one[group, "negative"] for one in rate] for group in ("female", "male")}
    expected = {
        "flip_rate": np.mean(flips),
        "macro_f1": np.mean(f1),
        "tpr_difference": np.mean(tpr["female"]) - np.mean(tpr["male"]),
        "fpr_difference": np.mean(fpr["female"]) - np.mean(fpr["male"]),
        "log_tprr": math.log(np.mean(tpr["female"]) / np.mean(tpr["male"])),
        "tprr": np.mean([min(pair) / max(pair) for pair in zip(*tpr.values(), strict=True)]),
        "fprr": np.mean([min(pair) / max(pair) for pair in zip(*fpr.values(), strict=True)]),
    }
    for measure, value in expected.items():
        assert found[measure].estimate.value == pytest.approx(value), measure
    assert math.isnan(found["tprr"].estimate.ci_low)
    assert found["flip_rate"].estimate.ci_low < np.mean(flips) < found["flip_rate"].estimate.ci_high


def split_rows(rows):
    codes = {name: pd.factorize(rows[name])[0] for name in ("split", "pair_id", "subject_id")}
    factors = {"subjects": codes["subject_id"], "splits": codes["split"]}
    return split_rates.SplitRows(codes["split"], codes["pair_id"], factors, codes["subject_id"])


def test_rates_without_a_gap():
    """Without a difference 5 % of the intervals of rates and log ratios over subjects and splits miss 0."""
    rng = np.random.default_rng(12)
    missed = {split_rates.PLAIN: 0, split_rates.LOG: 0}
    simulations = 100
    for _ in range(simulations):
        rows = predicted_splits(rng)
        whole = rows["group"].to_numpy()[:, None] == ["female", "male"]
        part = whole & (rows["predicted"].to_numpy() == 1)[:, None]
        for scale in missed:
            estimate = split_rows(rows).mean(part, whole, (1.0, -1.0), scale=scale, tested=True)
            missed[scale] += not estimate.ci_low <= 0 <= estimate.ci_high
            assert (estimate.p_value < 0.05) == (not estimate.ci_low <= 0 <= estimate.ci_high)
    assert max(missed.values()) <= 0.12 * simulations  # .05 and three standard errors


def test_few_flips_have_no_interval():
    """Rates of which two subjects differ from the rest have a value and no interval."""
    rows = predicted_splits(np.random.default_rng(2), leans=False)
    flips = rows.drop_duplicates("pair_id")
    for subjects, has_interval in ((["1", "2"], False), (["1", "2", "3"], True)):
        counted = flips["subject_id"].isin(subjects).to_numpy()[:, None]
        estimate = split_rows(flips).mean(counted, np.ones_like(counted), (1.0,))
        assert estimate.value > 0
        assert math.isnan(estimate.ci_low) != has_interval
    # Fewer subjects than splits: the two subjects are counted, not the splits that they recur in.
    flips = predicted_splits(np.random.default_rng(2), subjects=6, leans=False)
    flips = flips.drop_duplicates("pair_id")
    counted = flips["subject_id"].isin(["1", "2"]).to_numpy()
    assert flips[counted]["split"].nunique() > 3
    estimate = split_rows(flips).mean(counted[:, None], np.ones((len(flips), 1)), (1.0,))
    assert math.isnan(estimate.ci_low)
