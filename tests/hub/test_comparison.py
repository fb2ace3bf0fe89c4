"""Other people's results stand side by side only where they are comparable, in no order of merit, and do no harm."""

import csv
import io
import random
from dataclasses import replace

import pytest
from rich.console import Console

from swapbias.errors import UsageError
from swapbias.hub.comparison import SharedRun, shown, side_by_side
from swapbias.hub.results_repo import Broken
from swapbias.hub.shared import inert, print_shared, shared_table
from swapbias.measures.estimate import Estimate
from tests.hub.shared_runs import GAP, MANIFEST, RQ1, UNDEFINED

COMMIT = "c0ffee" * 6 + "0000"


def run(model, value, *, repo="ann/results", name="", commit=COMMIT, found=None, dtype="float32", **manifest):
    """A run of one model with one gap."""
    one = replace(GAP, model_id=model, estimate=replace(GAP.estimate, value=value))
    models = [{"model_id": model, "dtype": dtype}]
    return SharedRun(repo, name or f"{model} run", commit, {**MANIFEST, "models": models, **manifest}, found or [one])


def printed(comparison, broken=(), width=150):
    out = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    print_shared(out, comparison, broken)
    return out.file.getvalue()


def test_columns_stand_by_name_whatever_the_values_and_the_order_given():
    runs = [run("zeta", 0.01), run("Beta", 0.9), run("alpha", 0.5), run("gamma", -0.3)]
    for seed in range(5):
        random.Random(seed).shuffle(runs)
        comparison = side_by_side(runs)
        assert [one.model_id for one in comparison.columns] == ["alpha", "Beta", "gamma", "zeta"]
        assert [one.estimate.value for one in comparison.rows[0].found] == [0.5, 0.9, -0.3, 0.01]


def test_the_same_prompts_give_one_row_and_no_note():
    comparison = side_by_side([run("a", 0.1), run("b", 0.2)])
    assert len(comparison.rows) == 1
    assert comparison.rows[0].note == ""
    assert comparison.footnotes == ()


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"rows": 60, "sha256": "bb" * 32}, "60 prompts (bbbbbbbb)"),
        ({"lexicons": {"gendered_stigma/rq1": "22" * 32}}, "word lists 22222222"),
        ({"training": "33" * 32}, "notes 33333333"),
    ],
)
def test_numbers_from_other_prompts_or_word_lists_stand_in_other_rows(entry, told):
    other = run("b", 0.2, corpora=[{**RQ1, **entry}])
    comparison = side_by_side([run("a", 0.1), other])
    assert [[one is not None for one in row.found] for row in comparison.rows] == [[True, False], [False, True]]
    assert "prompts differ: 1,122 prompts (6a6a6a6a)" in comparison.rows[0].note
    assert told in comparison.rows[1].note
    assert "cannot be compared" in comparison.footnotes[0]


def test_runs_that_do_not_state_their_prompts_are_never_compared():
    comparison = side_by_side([run("a", 0.1, corpora=[]), run("b", 0.2, corpora=[])])
    assert [row.note for row in comparison.rows] == ["prompts differ: not stated"] * 2


def test_other_trials_of_a_chat_model_are_another_row():
    found = [replace(GAP, study="adjective_coreference", experiment="answers", subset="")]
    corpora = [{"corpus": "adjective_coreference", "config": "wino_style-stereotype", "rows": 9, "sha256": "aa" * 32}]
    few, many = ({"chat": {"trials": trials, "temperature": 1.0}} for trials in (1, 5))
    runs = [
        run("m", 0.1, repo=repo, found=found, corpora=corpora, settings=settings)
        for repo, settings in (("ann/r", few), ("bob/r", many), ("eve/r", many))
    ]
    comparison = side_by_side(runs)
    assert [sum(one is not None for one in row.found) for row in comparison.rows] == [1, 2]
    assert "1 trials at temperature 1.0" in comparison.rows[0].note


def test_other_weights_are_said_within_the_row():
    comparison = side_by_side([run("a", 0.1), run("a", 0.2, repo="bob/r", dtype="bfloat16")])
    assert comparison.rows[0].note == "weights differ: bfloat16, float32"
    assert "number format" in comparison.footnotes[0]


def test_another_unit_is_another_row():
    other = replace(GAP, model_id="b", unit="logit")
    assert len(side_by_side([run("a", 0.1), run("b", 0.1, found=[other])]).rows) == 2


def test_robust_views_means_slices_and_other_scores_are_not_compared():
    left_out = [
        replace(GAP, robust="clustered by template"),
        replace(GAP, measure="mean"),
        replace(GAP, slice_by="phase", slice_value="1"),
        replace(GAP, score="closed_list_mass"),
    ]
    assert len(side_by_side([run("lab/small", 0, found=[GAP, *left_out])]).rows) == 1
    with pytest.raises(UsageError, match="hold no finding over all rows"):
        side_by_side([run("lab/small", 0, found=left_out)])


def test_one_model_of_several_repositories_and_runs_is_told_apart():
    runs = [
        run("m", 0.1),
        run("m", 0.2, repo="bob/r"),
        run("m", 0.3, repo="bob/r", name="second"),
        run("m", 0.4, repo="bob/r", name="second", commit="d" * 40),
    ]
    titles = [one.title for one in side_by_side(runs).columns]
    assert titles[0] == "m @ ann/results"
    assert len(set(titles)) == 4
    assert "m @ bob/r (m run)" in titles
    assert "m @ bob/r (second) at dddddddd" in titles


def test_a_run_given_twice_is_one_column():
    assert len(side_by_side([run("m", 0.1), run("m", 0.1)]).columns) == 1


def test_the_table_shows_value_interval_and_n_and_says_that_nobody_wins():
    text = printed(
        side_by_side([run("a", 0.25), run("b", -0.5)]), [Broken("eve/r", "x", "eve/r/runs/x: it is broken.")]
    )
    assert "a @ ann/results" in text
    assert "+0.250" in text
    assert "[+0.125, +0.375]" in text
    assert "n = 187 (+2 not scored)" in text
    assert "not a ranking" in text
    assert "near zero is no proof" in text
    assert "Left out: eve/r/runs/x: it is broken." in text


def test_what_was_not_measured_is_a_dash_and_nan_is_never_zero():
    text = printed(side_by_side([run("lab/small", 0.25, found=[GAP]), run("x", 0, found=[UNDEFINED])]))
    assert "0.000" not in text
    assert "–" in text


def test_many_runs_fit_a_narrow_terminal():
    text = printed(side_by_side([run(f"model-{index}", 0.1) for index in range(7)]), width=80)
    rows = text.split("This is a comparison")[0].splitlines()  # the sentence wraps by itself
    assert max(map(len, rows)) <= 80
    assert all(f"model-{index}" in text for index in range(7))


def test_of_a_run_with_too_many_models_or_quantities_the_first_are_shown_and_the_rest_is_said():
    models = [replace(GAP, model_id=f"m{number:02}") for number in range(26)]
    comparison = side_by_side([run("-", 0, name="many", found=models), run("b", 0.1)])
    assert [one.model_id for one in comparison.columns] == ["b", *(f"m{number:02}" for number in range(24))]
    assert comparison.footnotes == ("Of ann/results, run many, only the first 24 of 26 models are shown.",)
    long = [replace(GAP, contrast=f"c{number}") for number in range(402)]
    comparison = side_by_side([run("lab/small", 0, name="long", found=long), run("b", 0.1)])
    assert len(comparison.rows) == 400 + 1
    assert comparison.footnotes == ("Of ann/results, run long, only the first 400 of 402 quantities are shown.",)
    assert "first 400 of 402" in printed(comparison)


def test_what_would_fill_the_memory_is_refused():
    found = [replace(GAP, contrast=f"c{number}", model_id=f"m{number % 24}") for number in range(400)]
    # 60 runs of 24 models with 400 quantities that no other has: 24,000 rows of 1,440 columns
    runs = [
        run("-", 0, name=f"r{number}", found=found, corpora=[{**RQ1, "sha256": f"{number:064}"}])
        for number in range(60)
    ]
    with pytest.raises(UsageError, match=r"24,000 rows and 1,440 columns.*Name fewer repositories"):
        side_by_side(runs)


def test_no_more_is_printed_than_anybody_reads(monkeypatch):
    monkeypatch.setattr("swapbias.hub.shared.MOST_CELLS", 10)
    text = printed(side_by_side([run(f"model-{number:02}", 0.1) for number in range(20)]), width=100)
    # 100 - 32 characters hold two columns of 24, so five tables of two cells are printed
    assert [f"model-{number:02}" in text for number in range(20)] == [True] * 10 + [False] * 10
    assert "more than is printed here" in text
    assert "--out" in text
    assert "not a ranking" in text


def test_a_row_is_printed_only_beside_columns_that_have_it():
    found = [replace(GAP, contrast="rare", model_id="a")]
    text = printed(
        side_by_side([run("a", 0, found=found), *(run(f"b{number}", 0.1) for number in range(4))]), width=60
    )
    assert text.count("rare") == 1


def test_columns_of_one_title_are_numbered():
    found = [replace(GAP, model_id=f"gpt2{letter}") for letter in ("\u200b", "\u200c", "\u200d")]
    titles = [one.title for one in side_by_side([run("-", 0, name="r", found=found)]).columns]
    first = "gpt2\ufffd @ ann/results (r) at c0ffeec0"
    assert titles == [f"{first} [1]", f"{first} [2]", f"{first} [3]"]


@pytest.mark.parametrize(
    "name", ["[bold red]x[/]", "\x1b[2Jx", "a\u202eb", "gpt\u200b2", "[link=http://x]y[/link]", "[/]"]
)
def test_a_hostile_name_is_printed_as_it_is_or_marked(name):
    text = printed(side_by_side([run(name, 0.1)]), [Broken("r", name, f"{name} broke")])
    assert not {"\x1b", "\u202e", "\u200b"} & set(text)
    assert shown(name) in text.replace("\n", "")
    if name.isprintable():
        assert shown(name) == name
    else:
        assert "\ufffd" in shown(name)


def test_two_names_that_look_alike_are_seen_to_differ():
    titles = [one.title for one in side_by_side([run("gpt2", 0.1), run("gpt\u200b2", 0.2)]).columns]
    assert titles == ["gpt2 @ ann/results", "gpt\ufffd2 @ ann/results"]


def test_the_csv_has_numbers_in_full_and_no_formulas():
    name = '=HYPERLINK("http://x","y")'
    found = [replace(GAP, model_id=name, subset="+1", contrast=" @SUM(A1)", estimate=Estimate(-0.1234567890123, n=3))]
    table = shared_table(side_by_side([run(name, 0, found=found), run("b", 0.25)]))
    first, second = csv.DictReader(io.StringIO(table.to_csv(index=False)))
    title = f"'{name} @ ann/results"
    assert first["subset"] == "'+1"
    assert first["contrast"] == "' @SUM(A1)"
    assert first[f"{title}: value"] == "-0.1234567890123"  # a number is no formula
    assert first[f"{title}: n"] == "3"
    assert first[f"{title}: ci_low"] == ""
    assert first["b @ ann/results: n"] == ""
    assert second["b @ ann/results: value"] == "0.25"
    assert second["b @ ann/results: n"] == "187"


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", " =1", "\t=1", "＝1"])
def test_what_a_spreadsheet_would_run_begins_with_an_apostrophe(text):
    assert inert(text) == f"'{text}"
