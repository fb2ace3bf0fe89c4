"""gest: the released stereotype rates to their digits, a planted stereotype, made files of other models."""

import math

import numpy as np
import pandas as pd
import pytest

from swapbias.builders.gest import NAME, SENTENCES, rates, released
from swapbias.findings import disaggregate, primary_findings
from swapbias.studies import config_rows, load_corpus
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


def test_stereotype_rate_by_hand():
    """A stereotype rate has the value worked out by hand."""
    # Stereotypes 1 (women) and 8 (men): means of log10 -.1 and .2, so that r is exp(-.1), exp(.2) and g_s exp(.3).
    found = rates([-0.2, 0.0, 0.2], ["1", "1", "8"])
    assert found == pytest.approx({"1": math.exp(-0.1), "8": math.exp(0.2), "g_s": math.exp(0.3)})


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
    assert len(list(one.counts(files))) == 2 * 17
    files[path].write_text("0.1\n0.2\n")
    with pytest.raises(ValueError, match="2 scores, expected 3565"):
        list(one.counts(files))


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
