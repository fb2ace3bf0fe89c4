"""The `evaluate` modules give the values, ends and p-values that an audit reports for the same
items."""

import math
import zlib

import numpy as np
import pandas as pd
import pytest

from swapbias.findings import disaggregate
from swapbias.findings.terms import AS_PUBLISHED
from swapbias.models.auto import load_scorer
from swapbias.models.chat.chat_kind import trial_rows
from swapbias.models.clinical.word_direction import DirectionScorer
from swapbias.studies.answer_scores import read_coreference
from swapbias.studies.catalogue import as_prompts, config_rows, load_lexicon, metric_path, metrics
from swapbias.studies.declared_values import Covariate
from swapbias.studies.experiment import Study
from swapbias.studies.prompt import PROMPT_COLUMNS, Prompt
from tests import tiny
from tests.experiments import experiment
from tests.models.clinical.test_features import static

evaluate = pytest.importorskip("evaluate")

RNG = np.random.default_rng(5)
PAIRS = 30
IDS = np.repeat([f"p{number}" for number in range(PAIRS)], 2).tolist()
SCORES = RNG.uniform(size=2 * PAIRS)
SCORES[7] = math.nan
ROWS = pd.DataFrame(
    {
        **dict.fromkeys(PROMPT_COLUMNS, ""),
        "experiment": "tiny",
        "model_id": "m",
        "pair_id": IDS,
        "group": ["f", "m"] * PAIRS,
        "condition": [f"c{number // 2 % 5}" for number in range(2 * PAIRS)],
        "label": np.repeat(RNG.choice(["positive", "negative"], PAIRS), 2),
        "answer": RNG.choice(["f", "m", ""], 2 * PAIRS),
        "score": SCORES,
        "predicted": np.where(np.isnan(SCORES), math.nan, SCORES > 0.5),
    }
)
SIDES = {"groups": ROWS["group"].tolist(), "reference_group": "m"}
DESIGN = {"random": {"condition": "conditions"}}
CLUSTERS = {"cluster_ids": {"conditions": ROWS["condition"].tolist()}}


def module(name, **inputs):
    return evaluate.load(metric_path(name)).compute(**inputs)


def audit(rows=ROWS, **declared):
    """The findings of one experiment over these rows."""
    crossed = {"template": "templates", "condition": "conditions"}
    usual = {"measure": "", "groups": ("f",), "reference": "m", "random": crossed} | declared
    declared_experiment = experiment(name="tiny", kind="masked", unit="u", **usual)
    return disaggregate(
        rows, Study(name="tiny", title="", url="", experiments=(declared_experiment,)), expected={}
    )


def numbers(findings, measure, contrast=None, *, designed=False):
    """Value, ends, p and counts of the one finding of that measure; of two the one as published, or as designed."""
    candidates = [
        candidate
        for candidate in findings
        if candidate.measure == measure and contrast in (None, candidate.contrast)
    ]
    (one,) = [
        each for each in candidates if each.view == ("" if designed else AS_PUBLISHED)
    ] or candidates
    return [
        getattr(one.estimate, name)
        for name in ("value", "ci_low", "ci_high", "p_value", "n", "n_unscored")
    ]


def keys(findings, value="value", prefix="", p="p_value", n="n"):
    names = (
        value,
        f"{prefix}ci_low",
        f"{prefix}ci_high",
        p,
        f"{prefix}{n}",
        f"{prefix}{n}_unscored",
    )
    return [findings.get(name, math.nan) for name in names]


def paired_gap():
    inputs = {"predictions": SCORES, "pair_ids": IDS, **SIDES}
    findings = audit(measure="paired_gap", **DESIGN)
    yield keys(module("paired_gap", **inputs)), numbers(findings, "paired_gap")
    yield (
        keys(module("paired_gap", **inputs, **CLUSTERS)),
        numbers(findings, "paired_gap", designed=True),
    )


def median_gap():
    inputs = {"predictions": SCORES, "pair_ids": IDS, **SIDES}
    findings = audit(measure="median_gap", **DESIGN)
    yield keys(module("median_gap", **inputs)), numbers(findings, "median_gap")
    yield (
        keys(module("median_gap", **inputs, **CLUSTERS)),
        numbers(findings, "median_gap", designed=True),
    )


def group_gap():
    inputs = {"predictions": SCORES, **SIDES}
    findings = audit(measure="group_gap", test="welch", **DESIGN)
    yield keys(module("group_gap", **inputs)), numbers(findings, "group_gap")
    yield (
        keys(module("group_gap", **inputs, **CLUSTERS)),
        numbers(findings, "group_gap", designed=True),
    )
    findings = audit(measure="group_gap", test="t", **DESIGN)
    yield keys(module("group_gap", **inputs, test="t")), numbers(findings, "group_gap")


def bias_correlation():
    values = {f"c{number}": number**2 for number in range(5)}
    findings = audit(covariates=(Covariate("pay", "condition", values),))
    means = ROWS.groupby("condition", sort=False)["score"].mean()
    results = module(
        "bias_correlation",
        predictions=means.tolist(),
        references=[values[name] for name in means.index],
    )
    results |= {"pearson_n": results["n"], "pearson_n_unscored": results["n_unscored"]}
    yield keys(results, "pearson", "pearson_", "pearson_p_value"), numbers(findings, "correlation")


def share_above():
    findings = audit(thresholds=(0.5, 1.0))
    for threshold, sign in ((0.5, ">"), (1.0, "=")):
        results = module(
            "share_above", predictions=SCORES, groups=SIDES["groups"], threshold=threshold
        )
        for group in "fm":
            # An audit counts the conditions of its study, which are no sample: it gives the count no interval.
            counted = [
                results[f"count_{group}"],
                *3 * [math.nan],
                results[f"n_{group}"],
                results[f"n_unscored_{group}"],
            ]
            yield counted, numbers(findings, "count_above", f"{group} {sign} {threshold:g}")


def selection_rate():
    findings = audit(rates=("selection",), **DESIGN)
    results = module(
        "selection_rate", predictions=SCORES, groups=SIDES["groups"], pair_ids=IDS, **CLUSTERS
    )
    for group in "fm":
        names = ("ratio", "ratio_low", "ratio_high", "p_value", "n", "n_unscored")
        yield (
            [results[f"{name}_{group}"] for name in names],
            numbers(findings, "impact_ratio", group),
        )


def flip_rate():
    results = module("flip_rate", predictions=SCORES, pair_ids=IDS, threshold=0.5, **SIDES)
    yield keys(results), numbers(audit(rates=("flips",)), "flip_rate")


def rate_ratio():
    labels = (ROWS["label"] == "positive").astype(int).tolist()
    results = module(
        "rate_ratio",
        predictions=ROWS["predicted"].tolist(),
        references=labels,
        pair_ids=IDS,
        **SIDES,
    )
    findings = audit(rates=("ratios",))
    for name in ("tprr", "fprr"):
        yield keys(results, name, f"{name}_"), numbers(findings, name, "f and m")
        counts = {"n": results[f"{name}_n"], "n_unscored": results[f"{name}_n_unscored"]}
        for prefix in (f"{name[:3]}_difference", f"log_{name}"):
            part = {
                key.removeprefix(f"{prefix}_"): value
                for key, value in results.items()
                if key.startswith(prefix)
            }
            yield keys({**part, **counts}, prefix), numbers(findings, prefix)


def leakage_uar():
    results = module(
        "leakage_uar", predictions=ROWS["answer"].tolist(), references=SIDES["groups"], note_ids=IDS
    )
    yield keys(results, "uar"), numbers(audit(rates=("leakage",)), "leakage_uar")


def direct_bias():
    pairs = [("she", "he"), ("woman", "man"), ("her", "his")]
    words = [f"word{letter}" for letter in "abcdefghijkl"]
    features = static(
        {word: RNG.normal(size=6) for word in (*words, *(one for pair in pairs for one in pair))}
    )
    rows = [{"pair": f, "female": f, "male": m} for f, m in pairs]
    frames = [
        {"kind": "", "female": "[word]", "male": ""},
        *({"kind": f, "female": f, "male": m} for f, m in pairs),
    ]
    scorer = DirectionScorer(features, (rows, frames), null=0)
    blank = dict.fromkeys(PROMPT_COLUMNS, "")
    scored = scorer.score([Prompt(**{**blank, "text": word}) for word in words])
    items = [
        {**blank, "score": result.score, "top_tokens": result.top_tokens, **result.parts}
        for result in scored
    ]
    findings = audit(
        pd.DataFrame(items).assign(group="word", experiment="tiny", model_id="m"),
        rates=("direction",),
    )
    female, male = (features.word_vectors(side, side) for side in zip(*pairs, strict=True))
    results = module(
        "direct_bias", predictions=features.word_vectors(words, words), female=female, male=male
    )
    yield keys(results, "direct_bias"), numbers(findings, "direct_bias")
    signed = {**results, "signed_n": results["n"], "signed_n_unscored": results["n_unscored"]}
    yield keys(signed, "signed_mean", "signed_"), numbers(findings, "signed_mean")


def answer_bias():
    rows = [
        row
        for row in config_rows("adjective_coreference", "wino_style-stereotype")
        if row["condition"] == "old"
    ]
    prompted = trial_rows(rows, 1)
    items = []
    unsure = [zlib.crc32(row["text"].encode()) % 3 == 0 for row in prompted]
    rights = [row["correct"].removeprefix("the ") for row in prompted]
    answers = [
        "I cannot tell" if none else right for none, right in zip(unsure, rights, strict=True)
    ]
    for row, prompt, answer in zip(prompted, as_prompts(prompted), answers, strict=True):
        score, parts = read_coreference(prompt, answer, aliases={})
        # Every sentence with occupations of its own: a module has no others.
        occupations = dict.fromkeys(("male_answer", "female_answer"), row["template"])
        items.append(
            {
                **row,
                **occupations,
                "model_id": "m",
                "score": score,
                "answer": answer,
                "top_tokens": "[]",
                **parts,
            }
        )
    findings = disaggregate(pd.DataFrame(items), "adjective_coreference", expected={})
    over_all = [finding for finding in findings if finding.slice_by == "all"]
    for parser, measure in (("tolerant", "paired_gap"), ("strict", "answer_bias")):
        values = module(
            "answer_bias",
            predictions=answers,
            references=[row["correct"] for row in prompted],
            parser=parser,
            incorrect=[row["incorrect"] for row in prompted],
            sides=[row["group"] for row in prompted],
            pair_ids=[row["template"] for row in prompted],
            cluster_ids=[row["template"] for row in prompted],
        )
        yield keys(values, "bias"), numbers(over_all, measure)


def lexicon_mass(folder):
    model = load_scorer(str(tiny.save("bert", folder)))
    prompts = as_prompts(config_rows("gendered_stigma", "rq1")[:90])
    rows = pd.DataFrame(prompt.row() for prompt in prompts).assign(
        model_id="m", experiment="tiny", score=[result.score for result in model.score(prompts)]
    )
    findings = audit(rows, groups=("female",), reference="male", levels=("female", "male"))
    texts = list(dict.fromkeys(prompt.text for prompt in prompts))
    tops = {}
    for members, probabilities in model.mask_probabilities(texts):
        for place, index in enumerate(members):
            top = probabilities[place].topk(min(100, probabilities.shape[1]))
            tops[texts[index]] = (
                [model.words[token] for token in top.indices.tolist()],
                top.values.tolist(),
            )
    lexicon = load_lexicon(prompts[0].lexicon.rpartition("/")[0])
    labels = zip(model.words, lexicon.labels(model.words, uncased=True), strict=True)
    words = {word.strip().lower(): label for word, label in labels if label != lexicon.rest}
    for group in ("female", "male"):
        chosen = [prompt for prompt in prompts if prompt.group == group]
        tokens, probabilities = zip(*(tops[prompt.text] for prompt in chosen), strict=True)
        crossed = {
            f"{name}s": [getattr(finding, name) for finding in chosen]
            for name in ("condition", "template")
        }
        mass = module(
            "lexicon_mass",
            predictions=tokens,
            probabilities=probabilities,
            lexicon=words,
            threshold=0.01,
            cluster_ids=crossed,
        )
        ends = mass[f"ci_low_{group}"], mass[f"ci_high_{group}"]
        value, low, high, _, n, lost = numbers(findings, "mean", group, designed=True)
        yield [mass[group], mass["n"], mass["n_unscored"]], [value, n, lost]
        np.testing.assert_allclose(
            ends, [low, high], rtol=1e-12
        )  # the errors of clusters are added in another order


@pytest.mark.parametrize("name", metrics())
def test_module_equals_audit(name, tmp_path):
    """A module gives what an audit reports."""
    case = globals()[name]  # a new module needs a case of its own here
    exact = (
        1e-12 if name == "answer_bias" else 0
    )  # sums over clusters of one sentence round otherwise than an SD
    both = np.array([*(case(tmp_path) if name == "lexicon_mass" else case())], dtype=float)
    np.testing.assert_allclose(both[:, 0], both[:, 1], rtol=exact)
    assert np.isfinite(both[:, 0, 0]).all()
