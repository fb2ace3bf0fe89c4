"""Several splits of the same notes: each seed splits otherwise, and the split is a random factor of a gap."""

import numpy as np
import pytest

from swapbias import paired_gap
from swapbias.models.clinical import NoteOptions
from swapbias.notes import load_notes
from tests.notes import mimic

SIMULATIONS = 200


def test_seed_splits_notes_otherwise(tmp_path):
    """Each seed tests other subjects of MIMIC-III, and no subject that it trains on."""
    mimic.write_mimic3(tmp_path, notes=300)
    tested = []
    for seed in range(3):
        rows = load_notes(NoteOptions(data=str(tmp_path)), seed).rows
        of_depression = [row for row in rows if row["phenotype"] == "depression"]
        subjects = {
            split: {row["subject_id"] for row in of_depression if row["split"] == split}
            for split in ("train", "test")
        }
        assert not subjects["train"] & subjects["test"]
        tested.append(frozenset(subjects["test"]))
    assert len(set(tested)) == 3


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


def test_value_over_splits_is_the_mean_of_pairs():
    """The gap over splits is the mean of all pairs, summed one by one."""
    scores, groups, pairs, *_ = scored = scored_splits(np.random.default_rng(2))
    total = 0.0
    for pair in set(pairs):
        for score, group, other in zip(scores, groups, pairs, strict=True):
            if other == pair:
                total += score if group == "female" else -score
    estimate = gap_over(scored, "subjects", "splits")
    assert estimate.value == pytest.approx(total / len(set(pairs)))
