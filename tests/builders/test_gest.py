"""gest: the released stereotype rates to their digits, a planted stereotype, made files of other models."""

import csv
import math

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from swapbias.builders.gest import NAME, SENTENCES, released
from swapbias.cli import app
from swapbias.findings import disaggregate, primary_findings
from swapbias.studies import config_rows, load_corpus, load_study
from swapbias.studies.tables import pinned_files, upstream_file

pytestmark = pytest.mark.usefixtures("upstream")


@pytest.fixture(scope="module")
def rows():
    return {kind: pd.DataFrame(config_rows(NAME, kind)) for kind in ("masked", "causal")}


def test_counts_of_sentences(rows):
    """Each stereotype has as many sentences as published."""
    known = {row["stereotype"]: int(row["sentences"]) for row in config_rows(NAME, "stereotypes")}
    for kind, templates in (("masked", 4), ("causal", 2)):
        counted = rows[kind].groupby("construct").size() / templates / 2
        assert counted.to_dict() == known
    assert sum(known.values()) == 3_565


def scored_sentences(gaps):
    """Rows of a template: of each stereotype and side, gaps of its sentences in log10."""
    rows = []
    for (stereotype, about), values in gaps.items():
        for number, value in enumerate(values):
            for group, score in (("male", value * math.log(10)), ("female", 0.0)):
                pair = f"{stereotype}/{number}"
                rows.append(
                    {
                        "experiment": "causal",
                        "model_id": "made",
                        "prompt_id": f"{pair}/{group}",
                        "pair_id": pair,
                        "group": group,
                        "construct": stereotype,
                        "condition": f"sentence {pair}",
                        "label": about,
                        "template": "..., he",
                        "score": score,
                    }
                )
    return pd.DataFrame(rows)


def test_stereotype_rate_by_hand():
    """A stereotype rate has the value worked out by hand; stereotypes with few sentences count as much."""
    gaps = {
        ("gentle", "women"): [-0.2, 0.0, 0.2, -0.4],  # mean -.1
        ("neat", "women"): [0.1],
        ("tough", "men"): [0.2],
        ("strong", "men"): [0.3, 0.5],  # mean .4
    }
    found = {
        (one.measure, one.contrast): one.estimate
        for one in disaggregate(scored_sentences(gaps), NAME, robustness=False)
        if one.slice_by == "template"
    }
    for name, mean in (("gentle", -0.1), ("neat", 0.1), ("tough", 0.2), ("strong", 0.4)):
        assert found["geometric_mean", name].value == pytest.approx(math.exp(mean))
    assert found["geometric_mean", "gentle"].n == 4
    rate = found["geometric_ratio", "men / women"]
    assert rate.value == pytest.approx(math.exp(0.3))
    # Welch's t: means .3 and 0, both variances .02, so that the standard error is .02 ** .5, at 2 degrees of freedom.
    half = 4.302653 * math.sqrt(0.02)
    assert rate.ci_low == pytest.approx(math.exp(0.3 - half), rel=1e-5)
    assert rate.ci_high == pytest.approx(math.exp(0.3 + half), rel=1e-5)
    assert (rate.n, rate.test) == (4, "none")
    assert math.isnan(rate.p_value)


def test_interval_of_the_stereotype_rate():
    """Of models without a stereotype about 95 % of intervals hold 1, whatever their stereotypes differ by."""
    study = load_study(NAME)
    (causal,) = (one for one in study.experiments if one.name == "causal")
    study = study.changed(experiments=(causal.changed(shows={"slices": ()}),))
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(40):
        rows = scored_sentences(
            {
                (f"stereotype {number}", "women" if number < 7 else "men"): list(
                    rng.normal(0, 0.13) + rng.normal(0, 0.17, 3)
                )
                for number in range(16)
            }
        )
        (rate,) = (
            one.estimate
            for one in disaggregate(rows, study, robustness=False)
            if one.measure == "geometric_ratio"
        )
        held += rate.ci_low <= 1 <= rate.ci_high
    assert 35 <= held <= 40


def read_cells(path):
    return list(csv.reader(path.read_text(encoding="utf-8").splitlines()))


def test_rates_of_a_small_model(audits, real_masked_model, tmp_path):
    """A masked model has a line of stereotype rates a template, beside what follows from the released scores."""
    options = ["--study", f"{NAME}:masked", "--limit", "640", "--no-wordings"]
    done = CliRunner().invoke(
        app, ["audit", str(real_masked_model), *options, "--out", str(tmp_path / "run")]
    )
    assert done.exit_code == 0, done.output
    assert "Pairs that differ most" in (tmp_path / "run" / "report.html").read_text()
    done = CliRunner().invoke(app, ["tables", str(tmp_path / "run"), "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    lines = read_cells(tmp_path / f"{NAME}-stereotype_rates.csv")
    assert lines[0] == ["model", "template", "numbers", "g_s", "95 % interval"]
    assert ["roberta-base", "..., he said", "recomputed", "1.2863", "–"] in lines
    of_run = {line[1]: line[3:] for line in lines if line[0] == "mini-mlm"}
    assert [*of_run] == ["He said: ...", "The man said: ...", "..., he said", "..., the man said"]
    found = pd.read_csv(tmp_path / "run" / "findings.csv")
    rates = found[found["measure"] == "geometric_ratio"].set_index("slice_value")["value"]
    for template, (rate, interval) in of_run.items():
        assert rate == f"{rates[template]:.4f}"
        assert float(interval[1:7]) < rates[template] < float(interval[-7:-1])
    heads, *lines = read_cells(tmp_path / f"{NAME}-stereotypes.csv")
    assert len(heads) == 3 + 16
    assert all("–" not in line for line in lines)


def test_released_models_join():
    """An audit of a released model, by its name on the Hub, has each number that was recomputed beside its own."""
    rows = scored_sentences({("tough", "men"): [0.1, 0.2], ("gentle", "women"): [0.0, 0.1]})
    found = disaggregate(rows.assign(model_id="openai-community/gpt2"), NAME, robustness=False)
    joined = {one.contrast: one.published.value for one in found if one.published}
    assert joined == {"men / women": "1.1135", "tough": "1.0771", "gentle": "1.0009"}


def test_released_files_of_every_model(tmp_path):
    """Files of every pinned model are read; those that are not at hand are made of one number a
    line, in the order of the sentences."""
    assert len(list(released())) == len(
        {path.partition("_template-")[0] for path in pinned_files(NAME) if "predictions" in path}
    )
    one = next(each for each in load_corpus(NAME).released if each.model == "phi-2")
    files = {SENTENCES: upstream_file(NAME, SENTENCES)}
    rng = np.random.default_rng(0)
    for path in one.files[1:]:
        files[path] = tmp_path / path.rpartition("/")[2]
        files[path].write_text("\n".join(f"{value:.3f}" for value in rng.normal(0.2, 0.1, 3_565)))
    assert len(list(one.rows(files))) == 2 * 2 * 3_565
    files[path].write_text("0.1\n0.2\n")
    with pytest.raises(ValueError, match="2 scores, expected 3565"):
        list(one.rows(files))


@pytest.mark.parametrize(("kind", "planted"), [("masked", 0.5), ("causal", 0.5), ("masked", 0.0)])
def test_planted_stereotype(rows, kind, planted):
    """A planted stereotype is found at its size, and none is found where none is."""
    table = rows[kind]
    rng = np.random.default_rng(3)
    construct = dict(zip(table["construct"].unique(), rng.normal(0, 0.1, 16), strict=True))
    about = (
        np.where(table["label"] == "men", planted, 0.0) + table["construct"].map(construct) + 1.5
    )  # writes "he"
    score = np.where(table["group"] == "male", about, 0.0) + rng.normal(0, 0.5, len(table))
    (one,) = primary_findings(
        disaggregate(table.assign(model_id="made", score=score), NAME, robustness=False)
    )
    assert one.estimate.ci_low <= planted <= one.estimate.ci_high
    assert (one.verdict == "gap") == (planted > 0)
    assert set(one.cluster_vars.split(" + ")) == {"stereotypes"} | (
        {"templates"} if kind == "masked" else set()
    )
