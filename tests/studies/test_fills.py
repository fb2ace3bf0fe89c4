"""Names in a user's prompts: found by comparing texts, a random factor, with the stated error
rate."""

import numpy as np
import pandas as pd
import pytest

from swapbias import disaggregate
from swapbias.findings import with_verdicts
from swapbias.findings.terms import TOO_FEW
from swapbias.studies import config_rows
from swapbias.studies.own import open_study

WOMEN = ["Emily", "Anne", "Jill", "Laurie", "Sarah", "Meredith"]
MEN = ["Greg", "Todd", "Neil", "Brett", "Jay", "Brad"]


def table(*, names=6, prompts=12, shift=0, text="{name} is {prompt} minutes late.", column=False):
    rows = []
    for prompt in range(prompts):
        for number in range(names):
            pair = (("female", WOMEN[number]), ("male", MEN[(number + shift * prompt) % names]))
            for group, name in pair:
                row = {
                    "text": text.format(name=name, prompt=prompt),
                    "group": group,
                    "pair": f"{prompt}-{number}",
                }
                rows.append(row | ({"name": name} if column else {}))
    return pd.DataFrame(rows)


def classifier(rows, name="late"):
    return open_study(rows, reference="male", name=name).experiments[0]


def test_paired_names_and_templates():
    """Names that are paired alike are one factor, and texts that recur are templates."""
    experiment = classifier(table())
    assert experiment.design.random == {"template": "templates", "fill_pair": "pairs of words"}
    rows = pd.DataFrame(config_rows("late", experiment.reads.configs[0]))
    assert set(rows["fill_pair"]) == {
        f"{woman} / {man}" for woman, man in zip(WOMEN, MEN, strict=True)
    }
    assert rows["template"].nunique() == 12
    assert list(classifier(table(shift=1)).design.random) == [
        "template",
        "group_fill",
        "reference_fill",
    ]
    experiment = classifier(
        table(column=True, text="{name}, {prompt} minutes late, lost {name}'s place in line.")
    )
    assert experiment.design.random == {"template": "templates", "fill_pair": "pairs of names"}
    expected = classifier(table()).design.random
    rows = table()
    assert classifier(rows.assign(template="t1")).design.random == expected
    assert (
        classifier(rows.assign(name=rows["pair"])).design.random == expected
    )  # of the prompt, not of the person
    experiment = classifier(rows.assign(fill_pair="x / y", group_fill="x"))
    assert experiment.design.random == expected
    assert set(pd.DataFrame(config_rows("late", experiment.reads.configs[0]))["fill_pair"]) != {
        "x / y"
    }
    assert (
        "template"
        in classifier(rows.assign(template=[f"t{n % 3}" for n in range(len(rows))])).design.random
    )


def test_word_without_alternative():
    """A word that no text has beside another one is no sample of words."""
    rows = pd.DataFrame(
        [
            {"text": text.replace("woman", word), "group": group, "pair": str(pair)}
            for pair, text in enumerate(
                ["A woman is late.", "The woman left.", "No woman is here."]
            )
            for group, word in (("female", "woman"), ("male", "man"))
        ]
    )
    study = open_study(rows, reference="male", name="one_word")
    assert study.experiments[0].design.random == {"pair_id": "pairs"}
    assert (
        "Every prompt names female as 'woman': other names or words may score otherwise."
        in study.limits
    )

    def turns(names):
        rows = [
            {"text": f"{word} waited {prompt} hours.", "group": group, "pair": str(prompt)}
            for prompt in range(24)
            for group, every in (("female", WOMEN), ("male", MEN))
            for word in [every[prompt % names]]
        ]
        return classifier(pd.DataFrame(rows)).design.random

    assert turns(4) == {"fill_pair": "pairs of words"}
    assert turns(2) == {"pair_id": "pairs"}


def verdicts(rows, *, spread, gap=0.0, audits=40):
    """Verdicts of models with effects of names alone, and of prompts that both groups share."""
    study = open_study(rows, reference="male", name="late")
    brief = study.changed(
        experiments=(study.experiments[0].changed(shows={"slices": (), "levels": ()}),)
    )
    prompts = pd.DataFrame(config_rows("late", "texts")).assign(
        experiment="classifier", model_id="toy"
    )
    rng = np.random.default_rng(1)
    names = prompts["text"].str.split().str[0]
    templates = pd.factorize(prompts["template"])[0]
    women = (prompts["group"] == "female").to_numpy()
    primary = []
    for _ in range(audits):
        of_names = dict(zip(WOMEN + MEN, rng.normal(0, spread, 12), strict=True))
        scores = (
            0.4
            + rng.normal(0, 0.1, 12)[templates]
            + names.map(of_names)
            + rng.normal(0, 0.03, len(prompts))
        )
        findings = with_verdicts(
            disaggregate(prompts.assign(score=scores + gap * women), brief, robustness=False)
        )
        primary += [finding for finding in findings if finding.primary]
    return primary


@pytest.mark.simulation
@pytest.mark.parametrize("shift", [0, 1])
def test_false_alarms_of_names(shift):
    """A model without a gap whose scores depend on names is seldom called biased."""
    found = verdicts(table(shift=shift), spread=0.05)
    assert np.mean([one.verdict.startswith("gap") for one in found]) < 0.12
    passed = verdicts(table(shift=shift), spread=0.05, gap=0.05)  # the margin
    assert np.mean([one.verdict.startswith("no gap") for one in passed]) < 0.1


def test_planted_gap_and_few_names():
    """A planted gap is found, and few names have no verdict."""
    assert all(one.verdict == "gap" for one in verdicts(table(), spread=0.02, gap=0.3, audits=3))
    assert {one.verdict for one in verdicts(table(names=3), spread=0.02, gap=0.3, audits=3)} == {
        TOO_FEW
    }
