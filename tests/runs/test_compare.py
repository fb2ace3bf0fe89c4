"""Results stand side by side only where they are comparable, in no order of merit; hostile names
do no harm."""

import csv
import io
import os
import random
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

import swapbias
from swapbias.cli.finished_runs import show_comparison
from swapbias.errors import UsageError
from swapbias.files import as_csv
from swapbias.findings import compare
from swapbias.findings.terms import AS_PUBLISHED
from swapbias.measures import Estimate
from swapbias.report import safe_line
from swapbias.runs import Results, read_run
from swapbias.runs.compare import _columns, _side_by_side, compare_runs, comparison_table
from swapbias.runs.compared_rows import scored_rows
from tests.hub.shared_runs import GAP, MANIFEST, RQ1, UNDEFINED, on_disk

COMMIT = "c0ffee" * 6 + "0000"


def run(
    model,
    value,
    *,
    repo="ann/results",
    name="",
    commit=COMMIT,
    found=None,
    dtype="float32",
    **manifest,
):
    """A run of one model with one gap."""
    loaded = replace(GAP, model_id=model, estimate=replace(GAP.estimate, value=value))
    models = [{"model_id": model, "dtype": dtype}]
    whole = {**MANIFEST, "models": models, **manifest}
    return Results(whole, found or [loaded], place=repo, name=name or f"{model} run", commit=commit)


def side_by_side(runs):
    return _side_by_side(_columns(runs))


def printed(comparison, left_out=(), width=150):
    with redirect_stdout(io.StringIO()) as out, patch.dict(os.environ, COLUMNS=str(width)):
        show_comparison(replace(comparison, notes=(*comparison.notes, *left_out)))
    return out.getvalue()


def at_revision(branch, commit, value=0.1, **changed):
    """A run that read lab/m at a revision."""
    settings = {**MANIFEST["settings"], "model": f"lab/m@{branch}" if branch else "lab/m"}
    made = run("lab/m", value, settings=settings, **changed)
    (pin,) = made.manifest["models"]
    made.manifest["models"] = [{**pin, "revision": commit}]
    return made


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        (("v1", "1" * 40), ("v2", "2" * 40), ["lab/m@v1", "lab/m@v2"]),
        (("", "1" * 40), ("", "2" * 40), ["lab/m@11111111", "lab/m@22222222"]),
        (("main", "1" * 40), ("main", "2" * 40), ["lab/m@11111111", "lab/m@22222222"]),
        (("1" * 40, "1" * 40), ("v2", "2" * 40), ["lab/m@11111111", "lab/m@v2"]),
        (("", "1" * 40), ("", "1" * 40), ["lab/m @ ann/a", "lab/m @ ann/b"]),
    ],
    ids=["tags", "default", "one branch", "commit and tag", "one commit"],
)
def test_revisions_of_one_model(first, second, names):
    """Names of one model say which revision was read, where that differs; else which run."""
    runs = [at_revision(*first, repo="ann/a"), at_revision(*second, 0.2, repo="ann/b")]
    page = side_by_side(runs)
    assert [model.name for model in page.models] == names
    assert {row.model_id for quantity in page.quantities for row in quantity.known} == {*names}


def test_revisions_and_runs_of_one_model():
    """Of three runs, two at one revision, each name says its revision, and these two their run."""
    runs = [
        at_revision("v1", "1" * 40, repo="ann/a"),
        at_revision("v1", "1" * 40, repo="ann/b"),
        at_revision("v2", "2" * 40, repo="ann/c"),
    ]
    names = [model.name for model in side_by_side(runs).models]
    assert names == ["lab/m@v1 @ ann/a", "lab/m@v1 @ ann/b", "lab/m@v2"]


def test_columns_by_name():
    """Columns are sorted by the name of the model, whatever the values and the order of the runs."""
    runs = [run("zeta", 0.01), run("Beta", 0.9), run("alpha", 0.5), run("gamma", -0.3)]
    for seed in range(5):
        random.Random(seed).shuffle(runs)
        comparison = side_by_side(runs)
        assert [one.name for one in comparison.models] == ["alpha", "Beta", "gamma", "zeta"]
        assert [one.estimate.value for one in comparison.quantities[0].found] == [
            0.5,
            0.9,
            -0.3,
            0.01,
        ]
    left_out = [
        replace(GAP, view=AS_PUBLISHED),
        replace(GAP, measure="mean"),
        replace(GAP, slice_by="phase", slice_value="1"),
        replace(GAP, score="closed_list_mass"),
    ]
    left_out = [replace(one, primary=False) for one in left_out]
    assert len(side_by_side([run("lab/small", 0, found=[GAP, *left_out])]).quantities) == 1
    assert side_by_side([run("lab/small", 0, found=left_out)]).quantities == []


def read_with(tokenizer, **pin):
    return {"models": [{"model_id": "a", "tokenizer_sha256": tokenizer, **pin}]}


@pytest.mark.parametrize(
    ("first", "second", "note"),
    [
        (read_with("t1"), read_with("t1"), []),
        (read_with("t1"), read_with("t2"), ["a"]),
        (read_with("t1", model_id="b"), read_with("t2"), []),
        (
            read_with("t1", model_id="b", weights={"w": "1"}),
            read_with("t2", weights={"w": "1"}),
            ["a, b"],
        ),
        (
            read_with("t1", model_id="b", sha256="1", layers_sha256="2"),
            read_with("t2", sha256="1", layers_sha256="3"),
            ["a, b"],
        ),
        (read_with("t1"), {"models": [{"model_id": "a"}]}, []),
    ],
    ids=["same", "name", "others", "files", "memory", "older"],
)
def test_different_tokenizers(first, second, note):
    """A comparison says that runs read one model, by its name or weights, with different tokenizers."""
    comparison = side_by_side([run("a", 0.1, **first), run("a", 0.2, repo="bob/r", **second)])
    assert comparison.notes == [
        f"The runs read {names} with different tokenizers." for names in note
    ]


def test_rows_of_the_comparison():
    """Equal quantities of two models stand in one row and different ones in several."""
    comparison = side_by_side([run("a", 0.1), run("b", 0.2)])
    assert len(comparison.quantities) == 1
    assert comparison.quantities[0].note == ""
    assert comparison.notes == []
    comparison = side_by_side([run("a", 0.1, corpora=[]), run("b", 0.2, corpora=[])])
    assert [row.note for row in comparison.quantities] == ["prompts differ: not stated"] * 2
    comparison = side_by_side([run("a", 0.1), run("a", 0.2, repo="bob/r", dtype="bfloat16")])
    assert comparison.quantities[0].note == ""
    assert comparison.notes == [
        "The runs were made with different number formats: bfloat16, float32."
    ]
    other = replace(GAP, model_id="b", unit="logit")
    assert len(side_by_side([run("a", 0.1), run("b", 0.1, found=[other])]).quantities) == 2
    assert len(side_by_side([run("m", 0.1), run("m", 0.1)]).models) == 1


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"rows": 60, "sha256": "bb" * 32}, "60 prompts (bbbbbbbb)"),
        ({"lexicons": {"gendered_stigma/rq1": "22" * 32}}, "word lists 22222222"),
        ({"training": "33" * 32}, "notes 33333333"),
    ],
    ids=["prompts", "word lists", "training notes"],
)
def test_other_prompts_are_other_rows(entry, told):
    """Numbers from other prompts, word lists or notes stand in other rows, with a note."""
    other = run("b", 0.2, corpora=[{**RQ1, **entry}])
    comparison = side_by_side([run("a", 0.1), other])
    assert [[one is not None for one in row.found] for row in comparison.quantities] == [
        [True, False],
        [False, True],
    ]
    assert "prompts differ: 1,122 prompts (6a6a6a6a)" in comparison.quantities[0].note
    assert told in comparison.quantities[1].note
    assert "cannot be compared" in comparison.notes[0]


def test_other_trials_are_other_rows():
    """Numbers from other numbers of trials stand in other rows."""
    found = [replace(GAP, study="adjective_coreference", experiment="answers", subset="")]
    corpora = [
        {
            "corpus": "adjective_coreference",
            "config": "wino_style-stereotype",
            "rows": 9,
            "sha256": "aa" * 32,
        }
    ]
    few, many = ({"chat": {"trials": trials, "temperature": 1.0}} for trials in (1, 5))
    runs = [
        run("m", 0.1, repo=repo, found=found, corpora=corpora, settings=settings)
        for repo, settings in (("ann/r", few), ("bob/r", many), ("eve/r", many))
    ]
    comparison = side_by_side(runs)
    assert [sum(one is not None for one in row.found) for row in comparison.quantities] == [1, 2]
    assert "1 trials at temperature 1" in comparison.quantities[0].note


def test_one_model_in_several_runs():
    """One model from several repositories and runs has a column for each."""
    runs = [
        run("m", 0.1),
        run("m", 0.2, repo="bob/r"),
        run("m", 0.3, repo="bob/r", name="second"),
        run("m", 0.4, repo="bob/r", name="second", commit="d" * 40),
    ]
    titles = [one.title for one in side_by_side(runs).models]
    assert titles[0] == "m @ ann/results"
    assert len(set(titles)) == 4
    assert "m @ bob/r (m run)" in titles
    assert "m @ bob/r (second) at dddddddd" in titles
    found = [replace(GAP, model_id=f"gpt2{letter}") for letter in ("\u200b", "\u200c", "\u200d")]
    titles = [one.title for one in side_by_side([run("-", 0, name="r", found=found)]).models]
    first = "gpt2\ufffd @ ann/results (r) at c0ffeec0"
    assert titles == [f"{first} [1]", f"{first} [2]", f"{first} [3]"]
    titles = [one.title for one in side_by_side([run("gpt2", 0.1), run("gpt\u200b2", 0.2)]).models]
    assert titles == ["gpt2 @ ann/results", "gpt\ufffd2 @ ann/results"]


def test_table_has_no_winner():
    """The table has value, interval and n, and the sentence says that no model wins."""
    made = side_by_side([run("a", 0.25), run("b", -0.5)])
    table = comparison_table(made)
    assert {0.25, 0.125, 0.375, 187} <= set(table.to_numpy().ravel().tolist())
    text = printed(made, ["Left out: eve/r/runs/x: it is broken."])
    assert "not a ranking" in text
    assert "not that a model is fair" in " ".join(text.split())
    assert "Left out: eve/r/runs/x: it is broken." in text
    made = side_by_side([run("lab/small", 0.25, found=[GAP]), run("x", 0, found=[UNDEFINED])])
    assert "0.000" not in printed(made)
    numbers = comparison_table(made).astype(object).to_numpy().ravel().tolist()
    assert not [one for one in numbers if isinstance(one, float) and one == 0]


@pytest.mark.parametrize(
    "name",
    ["[bold red]x[/]", "\x1b[2Jx", "a\u202eb", "gpt\u200b2", "[link=http://x]y[/link]", "[/]"],
)
def test_hostile_names(name):
    """A hostile name is printed as it is or with a mark for what cannot be printed."""
    text = printed(side_by_side([run(name, 0.1)]), [f"{name} broke"])
    assert not {"\x1b", "\u202e", "\u200b"} & set(text)
    assert safe_line(name) in text.replace("\n", "")
    if name.isprintable():
        assert safe_line(name) == name
    else:
        assert "\ufffd" in safe_line(name)


def test_csv_without_formulas():
    """The CSV has numbers in full and no formulas."""
    name = '=HYPERLINK("http://x","y")'
    found = [
        replace(
            GAP,
            model_id=name,
            subset="+1",
            contrast=" @SUM(A1)",
            estimate=Estimate(-0.1234567890123, n=3),
        )
    ]
    table = comparison_table(side_by_side([run(name, 0, found=found), run("b", 0.25)]))
    first, second = csv.DictReader(io.StringIO(as_csv(table).decode()))
    title = f"'{name} @ ann/results"
    assert first["subset"] == "'+1"
    assert first["contrast"] == "' @SUM(A1)"
    assert first[f"{title}: value"] == "-0.1234567890123"  # a number is no formula
    assert first[f"{title}: n"] == "3"
    assert first[f"{title}: ci_low"] == ""
    assert first["b @ ann/results: n"] == ""
    assert second["b @ ann/results: value"] == "0.25"
    assert second["b @ ann/results: n"] == "187"


def differences(runs):
    rows, left_out = scored_rows(runs, _columns(runs))
    return [
        row for row in compare(rows) if row.slice_by == "all" and row.subset == "mental_health"
    ], left_out


def test_run_on_disk(tmp_path):
    """A run on disk is read like one of the Hub, and an unfinished one is refused in one sentence."""
    one = read_run(on_disk(tmp_path / "one"))
    assert (one.place, one.name, one.commit) == (str(tmp_path / "one"), "one", "")
    assert one.found[0] == GAP
    assert one.manifest == MANIFEST
    assert set(one.items["gendered_stigma"]["model_id"]) == {"lab/small"}
    folder = on_disk(tmp_path / "two", credentialed=True)
    assert read_run(folder).found
    with pytest.raises(ValueError, match="credentialed data, which nobody may share"):
        read_run(folder, repo="eve/r")
    with pytest.raises(UsageError, match="contains no run"):
        read_run(tmp_path)
    with pytest.raises(UsageError, match=r"one is not complete\. Continue with .*--resume"):
        read_run(on_disk(tmp_path / "one", status="running"))


def test_differences_of_rows(tmp_path, monkeypatch):
    """Differences are computed from the scored rows in the order of the runs."""
    runs = [
        read_run(on_disk(tmp_path / name, name, higher))
        for name, higher in (("b", 0.3), ("a", 0.1))
    ]
    (paired, plain), left_out = differences(runs)
    assert (plain.contrast, plain.view) == ("a - b", "as published")
    assert (paired.contrast, paired.cluster_vars) == ("a - b", "templates + diagnoses")
    assert paired.estimate.value == pytest.approx(0.1 - 0.3)
    assert left_out == []
    monkeypatch.chdir(tmp_path)
    runs = [read_run(on_disk(Path(name), "m", higher)) for name, higher in (("x", 0.3), ("y", 0.1))]
    assert [one.name for one in side_by_side(runs).models] == ["m @ x", "m @ y"]
    found, _ = differences(runs)
    assert {one.contrast for one in found} == {"m @ y - m @ x"}
    assert differences([runs[0], runs[0]])[0] == []  # a run given twice is one


@pytest.mark.parametrize("credentialed", [False, True])
def test_moved_pairs_without_credentialed(tmp_path, credentialed):
    """Pairs that moved are shown with their texts, and never those of credentialed notes."""
    runs = [read_run(on_disk(tmp_path / "b", "b", 0.3))]
    runs.append(read_run(on_disk(tmp_path / "a", "a", 0.1, credentialed=credentialed)))
    compared = compare_runs(runs)
    assert bool(compared.moved) is not credentialed
    for pair in compared.moved.get(("gendered_stigma", "rq1"), ()):
        assert (pair.model, round(pair.difference, 6)) == ("a", -20)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.drop(columns="pair_id"),
        lambda rows: rows.assign(pair_id="one"),
        lambda rows: rows.assign(score="high"),
        lambda rows: rows[rows["group"] == "female"],
    ],
    ids=["no pair_id", "one pair", "text as score", "one group"],
)
def test_wrong_rows_are_left_out(tmp_path, change):
    """Rows that no audit writes are left out of the differences and named."""
    runs = [read_run(on_disk(tmp_path / name, name)) for name in "abc"]
    broken = replace(
        runs[2], commit=COMMIT, items={name: change(rows) for name, rows in runs[2].items.items()}
    )
    found, (sentence,) = differences([*runs[:2], broken])
    assert {one.contrast for one in found} == {"b - a"}
    assert sentence.startswith("Left out of the differences: c @ ")
    assert "gendered_stigma are not what an audit writes" in sentence


def own_run(folder, name, sentence, score):
    """The run of a function on own prompts whose pairs have the same names whatever the sentence."""
    names = zip(("Grace", "Emily", "Hannah"), ("James", "Jacob", "Ethan"), strict=True)
    rows = [
        f"{sentence.format(word)},{group},p{number}"
        for number, pair in enumerate(names)
        for group, word in zip(("female", "male"), pair, strict=True)
    ]
    file = folder / name / "mine.csv"
    file.parent.mkdir()
    file.write_text("\n".join(["text,group,pair", *rows]) + "\n", encoding="utf-8")
    options = {"prompts": file, "reference": "male", "out": folder / f"run {name}"}
    return swapbias.audit(score, progress=False, **options).run.folder


def in_language(results, language):
    """The same run, with prompts that its manifest says to be of a language."""
    corpora = [{**entry, "language": language} for entry in results.manifest["corpora"]]
    return replace(results, manifest={**results.manifest, "corpora": corpora})


def test_same_texts_in_two_languages(tmp_path):
    """A comparison says where two runs read the same texts as two languages, and nothing of one language."""
    folders = [
        own_run(
            tmp_path, name, "{} is a friend.", lambda texts: [len(text) % 7 / 7 for text in texts]
        )
        for name in "ab"
    ]
    first, second = map(read_run, folders)
    spanish = in_language(first, "Spanish")
    two = compare_runs([spanish, in_language(second, "Italian")])
    (note,) = [note for note in two.notes if "same texts" in note]
    assert "read the same texts, as Spanish and as Italian. Check the data." in note
    one = compare_runs([spanish, in_language(second, "Spanish")])
    assert not [note for note in one.notes if "same texts" in note]


def test_other_own_prompts_are_not_compared(tmp_path):
    """Own prompts of the same names with other texts give no difference; those with the same texts do."""

    def first(texts):
        return [0.1 * (len(text) % 7) for text in texts]

    def second(texts):
        return [0.1 * (len(text) % 5) for text in texts]

    folders = [
        own_run(tmp_path, "a", "{} is a friend.", first),
        own_run(tmp_path, "b", "{} is a friend.", second),
        own_run(tmp_path, "c", "{} is a dreadful thief.", second),
    ]
    same, same_too, other = map(read_run, folders)
    assert compare_runs([same, same_too]).differences
    with pytest.raises(UsageError, match="The runs read different prompts"):
        compare_runs([same, other])
    comparison = compare_runs([same, same_too, other])
    (note,) = [note for note in comparison.notes if note.startswith("Left out")]
    assert "its prompts of mine classifier are not those of" in note
    contrasts = {difference.contrast for difference in comparison.differences}
    assert len({contrast for contrast in contrasts if " - " in contrast}) == 1
