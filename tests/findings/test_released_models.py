"""Two released models compared as the paper compared them."""

import pandas as pd
import pytest

from swapbias.errors import UpstreamMissingError
from swapbias.findings import compare
from swapbias.studies import load_corpus
from swapbias.studies.tables import upstream_file

FIRST = "roberta-large"
SECOND = "mental/mental-roberta-base"


def released_rows(model):
    """The rows of rq1 that the authors released of a model; the test is skipped without them."""
    released = next(
        outputs
        for outputs in load_corpus("gendered_stigma").released
        if (outputs.model, outputs.experiment) == (model, "rq1")
    )
    try:
        files = {path: upstream_file("gendered_stigma", path) for path in released.files}
    except UpstreamMissingError as error:
        pytest.skip(f"The released outputs of {model} are not at hand: {error}")
    return pd.DataFrame([{**row, "model_id": model} for row in released.rows(files)])


def test_effect_size_of_released_models():
    """RoBERTa minus MentalRoBERTa is the paper's d of .95 (.948) about mental health."""
    models = {SECOND: released_rows(SECOND), FIRST: released_rows(FIRST)}
    (found,) = (
        difference
        for difference in compare({"gendered_stigma": models})
        if (difference.subset, difference.slice_by, difference.view) == ("mental_health", "all", "")
        and difference.measure == "model_difference"
    )
    assert found.contrast == f"{FIRST} - {SECOND}"
    assert found.estimate.n == 187
    assert found.estimate.effect_size == pytest.approx(0.948, abs=0.0005)
