"""A missing id is refused with its row, in every type of tables; a missing score is left out and
counted."""

import math

import evaluate
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import swapbias
from swapbias import paired_gap
from swapbias.measures import factorial, flip_rate, group_gap, selection_rate
from swapbias.studies import config_rows
from swapbias.studies.own import open_study

SCORES = [0.9, 0.8, 0.7, 0.6, 0.9, 0.1]
GROUPS = ["f", "m"] * 3
PAIRS = ["a", "a", "b", "b", "c", "c"]
TYPES = ["string", "string[pyarrow]", "category", "object", "Int64", "int64[pyarrow]"]
MISSING = [None, math.nan, pd.NA, pd.NaT, "", " "]


def ids_of(dtype, ids=(1, 1, 2, 2, 3, 3)):
    """Ids in a type, texts where it is one of texts."""
    is_number = dtype.lower().startswith("int")
    return pd.Series(
        [value if is_number or value is None else f"p{value}" for value in ids], dtype=dtype
    )


@pytest.mark.parametrize("missing", MISSING, ids=repr)
@pytest.mark.parametrize("argument", ["groups", "pair_ids", "cluster_ids"])
def test_missing_id(argument, missing):
    """A missing id is refused with its argument and row."""
    values = {"groups": list(GROUPS), "pair_ids": list(PAIRS), "cluster_ids": list("xxyyzz")}
    values[argument][4] = missing
    with pytest.raises(ValueError, match=rf"{argument}: row 5 .* expected an id in every row"):
        paired_gap(SCORES, reference_group="m", **values)


@pytest.mark.parametrize("dtype", TYPES)
def test_columns_of_any_type(dtype):
    """A column of any type is read, and a value that it lacks is refused."""
    whole = paired_gap(SCORES, GROUPS, PAIRS, reference_group="m")
    assert (
        paired_gap(pd.Series(SCORES, dtype="Float64"), GROUPS, ids_of(dtype), reference_group="m")
        == whole
    )
    assert (
        paired_gap(pa.array(SCORES), pa.array(GROUPS), pa.array(PAIRS), reference_group="m")
        == whole
    )
    with pytest.raises(ValueError, match="pair_ids: row 5 "):
        paired_gap(SCORES, GROUPS, ids_of(dtype, (1, 1, 2, 2, None, None)), reference_group="m")
    is_f = pd.Series([True, False] * 3, dtype="boolean")
    assert paired_gap(SCORES, is_f, PAIRS, reference_group=False).value == whole.value


@pytest.mark.parametrize("missing", [None, pd.NA, math.nan], ids=repr)
def test_missing_score(missing):
    """A missing score is left out and counted: both gaps of the other pairs are .1."""
    found = paired_gap([*SCORES[:5], missing], GROUPS, PAIRS, reference_group="m")
    assert (round(found.value, 9), found.n, found.n_unscored) == (0.1, 2, 1)


def test_missing_level():
    """A missing level of a factor is refused with its row."""
    race = ["b", "w", math.nan] * 2
    with pytest.raises(ValueError, match="levels of race: row 3 contains nan"):
        factorial(
            SCORES,
            {"gender": ["f"] * 3 + ["m"] * 3, "race": race},
            reference={"gender": "m", "race": "w"},
        )


def test_missing_group():
    """A missing group is refused with its row."""
    for measure in (selection_rate, group_gap):
        options = {} if measure is selection_rate else {"reference_group": "m"}
        with pytest.raises(ValueError, match="groups: row 8 "):
            measure([1, 1, 0, 1, 0, 0, 0, 1], ["f"] * 3 + ["m"] * 4 + [math.nan], **options)
    with pytest.raises(ValueError, match="pair_ids: row 1 "):
        flip_rate([1, 0], ["f", "m"], [pd.NA, pd.NA], reference_group="m")


MODULES = {
    "paired_gap": ("pair_ids", {"reference_group": 0}), "flip_rate": ("pair_ids", {"reference_group": 0}),
    "group_gap": ("groups", {"reference_group": 0}), "selection_rate": ("groups", {}), "share_above": ("groups", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_modules_take_batches(name):
    """Metric modules compute the same from batches, single rows and whole columns, and refuse
    missing ids."""
    column, options = MODULES[name]
    module = evaluate.load(swapbias.metric_path(name))
    rows = {"predictions": [1, 0, 1, 1, 0, 1], "groups": [1, 0] * 3}
    rows |= {"pair_ids": [1, 1, 2, 2, 3, 3]} if column == "pair_ids" else {}
    whole = module.compute(**rows, **options)
    for start in (0, 2, 4):
        module.add_batch(**{key: values[start : start + 2] for key, values in rows.items()})
    assert module.compute(**options) == pytest.approx(whole, nan_ok=True)
    for row in range(6):
        one = {key: values[row] for key, values in rows.items()}
        module.add(prediction=one.pop("predictions"), **one)
    assert module.compute(**options) == pytest.approx(whole, nan_ok=True)
    nullable = {key: pd.Series(values, dtype="Int64") for key, values in rows.items()}
    assert module.compute(**nullable, **options) == pytest.approx(whole, nan_ok=True)
    with pytest.raises(ValueError, match=f"{column}: row 2 "):
        module.compute(**(rows | {column: [1, pd.NA, *rows[column][2:]]}), **options)
    with pytest.raises(ValueError, match="is given no groups"):
        module.add_batch(predictions=[1, 0])


@pytest.mark.parametrize("missing", [None, math.nan, pd.NA], ids=repr)
@pytest.mark.parametrize(
    "column", ["pair_id", "group", "template", "prompt_id", "model_id", "experiment"]
)
def test_scored_rows_without_id(column, missing):
    """Scored rows without an id are refused with column and row."""
    rows = pd.DataFrame(config_rows("occupation_sentiment", "control")).assign(
        experiment="control", model_id="toy"
    )
    rows = rows.assign(score=np.linspace(0, 1, len(rows))).astype({column: object})
    rows.loc[3, column] = missing
    with pytest.raises(ValueError, match=f"column {column}: row 3 has no value"):
        swapbias.disaggregate(rows, "occupation_sentiment", robustness=False)


@pytest.mark.parametrize("column", ["pair", "group", "text", "name", "template"])
def test_prompts_without_value(column):
    """Prompts of a user without a value are refused with file, row and column."""
    rows = {
        "text": ["Eve ran.", "Al ran.", "Ida sat.", "Bob sat."],
        "group": ["f", "m"] * 2,
        "name": list("ambn"),
        "template": ["ran"] * 2 + ["sat"] * 2,
        "pair": [1, 1, 2, 2],
    }
    prompts = pd.DataFrame(rows).convert_dtypes()
    study = open_study(prompts, reference="m", name="nullable")
    assert [row["pair_id"] for row in config_rows(study.name, "texts")] == ["1", "1", "2", "2"]
    prompts.loc[2, column] = pd.NA
    with pytest.raises(ValueError, match=f"prompts.csv:4: column '{column}' is blank"):
        open_study(prompts, reference="m", name="nullable")
