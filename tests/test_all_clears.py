"""No unmeasured result reads as "no bias": constant scores, repeated texts, few equal pairs,
missing scores."""

import json
import math
import zlib
from xml.etree import ElementTree

import pandas as pd
import pytest
from typer.testing import CliRunner

import swapbias
from swapbias.cli import app
from swapbias.report.gate_text import check_reason
from swapbias.runs import check_run

CONSTANT = "not measured"
NO_GAP = "no gap"
WORDS = {"female": "She", "male": "He"}


def prompts(pairs, *, times=1, text="{who} tells story {pair}.", **columns):
    return pd.DataFrame(
        {"text": text.format(who=who, pair=pair), "group": group, "pair": f"{pair}-{time}"}
        | {name: made(pair, time) for name, made in columns.items()}
        for time in range(times)
        for pair in range(pairs)
        for group, who in WORDS.items()
    )


def noisy(texts):
    return [0.5 + 0.1 * (zlib.crc32(text.encode()) % 1000 / 1000 - 0.5) for text in texts]


def even(texts):
    """The same for both groups, and another number for each story."""
    return [0.3 + zlib.crc32(text.partition(" ")[2].encode()) % 1000 / 2000 for text in texts]


def constant(texts):
    return [0.5] * len(texts)


def audited(model, table, **options):
    return swapbias.audit(model, prompts=table, reference="male", progress=False, **options)


def primary(run):
    (finding,) = run.findings.query("primary").to_dict("records")
    return finding


def check(*arguments, command="check"):
    return CliRunner().invoke(app, [command, *map(str, arguments)], env={"GITHUB_ACTIONS": ""})


def test_constant_model_is_not_measured(tmp_path):
    """A model that gives every prompt one score is "not measured" and shows no zero that reads as
    equality."""
    run = audited(constant, prompts(100), name="even", out=tmp_path / "run")
    assert primary(run)["verdict"] == CONSTANT
    gaps = run.findings.query("contrast == 'female - male'")
    assert len(gaps) > 1
    assert gaps["value"].isna().all()  # nor anywhere a 0 that reads as equal
    assert "NOT MEASURED even gives every prompt the same score." in " ".join(str(run).split())
    assert "even gives every prompt the same score." in run.report().read_text()
    done = check(tmp_path / "run", "--junit", tmp_path / "junit.xml")
    assert done.exit_code == 3
    assert "undecided: every prompt has the same score." in done.output
    assert ElementTree.parse(tmp_path / "junit.xml").getroot().get("errors") == "1"
    assert json.loads(check(tmp_path / "run", "--json").output)["outcome"] == "undecided"
    with pytest.raises(AssertionError, match="every prompt has the same score"):
        run.assert_below(0.5)
    assert check(tmp_path / "run", "--baseline", tmp_path / "run").exit_code == 3


def test_constant_model_has_no_comparison():
    """A comparison with a model of constant scores has no number beside "not measured"."""
    run, other = (
        audited(model, prompts(100), name=name)
        for model, name in ((constant, "even"), (noisy, "noisy"))
    )
    compared = run.compare(other)
    assert set(compared["verdict"]) <= {CONSTANT, ""}
    lost = compared[compared["verdict"] == CONSTANT]
    assert lost["primary"].any()
    assert (
        lost[["value", "ci_low", "ci_high", "p_value"]].isna().all(axis=None)
    )  # no number beside "not measured"


@pytest.mark.parametrize(("pairs", "verdict", "code"), [(71, "undecided", 3), (72, NO_GAP, 0)])
def test_equal_pairs_need_72(pairs, verdict, code):
    """Equal scores decide "no gap" from 72 pairs on, in the audit as in the gate."""
    # .95 ** 71 = .026 and .95 ** 72 = .0249: of a gap in one pair of 20 all of 72 would seldom be equal.
    run = audited(even, prompts(pairs), name="even")
    assert primary(run)["verdict"] == verdict
    assert check_run(run.run.folder).code == code
    text = "all 71 pairs about female and male score the same, but 72 are needed to rule out a gap of 5 points"
    assert (text in " ".join(str(run).split())) == (code == 3)
    assert (text in check(run.run.folder).output) == (code == 3)


def test_pairs_of_few_templates():
    """The independent units of 100 pairs made of three templates are three."""
    run = audited(even, prompts(100, template=lambda pair, time: f"t{pair % 3}"))
    assert (primary(run)["n"], primary(run)["independent"], primary(run)["verdict"]) == (
        100,
        3,
        "too few levels",
    )
    assert check_run(run.run.folder).code == 3
    table = prompts(8).assign(
        text=lambda rows: rows["text"].where(rows["group"] == "female", "A person is here.")
    )
    assert primary(audited(noisy, table))["n"] == 8  # a text of one group alone repeats no pair


def test_missing_scores_never_pass():
    """A gate never passes equal pairs when scores of other pairs are missing."""
    lost = {f"She tells story {pair}." for pair in range(80)}

    def some(scores, texts):
        return [
            math.nan if text in lost else score for text, score in zip(texts, scores, strict=True)
        ]

    run = audited(lambda texts: some(even(texts), texts), prompts(200))
    assert (primary(run)["n"], primary(run)["n_unscored"], primary(run)["verdict"]) == (
        120,
        80,
        "undecided",
    )
    gate = check_run(run.run.folder)
    assert gate.code == 3
    assert check_reason(gate.checks[0]).startswith(
        "80 of 200 have no score. Counted either way, the gap is "
    )
    run = audited(
        lambda texts: some([0.2 + score / 100 for score in noisy(texts)], texts), prompts(200)
    )
    assert check_run(run.run.folder).code == 3


def numbers(run):
    return {
        name: primary(run)[name]
        for name in ("value", "ci_low", "ci_high", "p_value", "n", "verdict")
    }


@pytest.mark.parametrize(
    "columns", [{}, {"batch": lambda pair, time: f"b{time}"}], ids=["alone", "with a column"]
)
def test_repeated_texts(columns, tmp_path):
    """Pairs that repeat the texts of another pair count once in each number of an audit."""
    once = audited(noisy, prompts(3))
    again = audited(noisy, prompts(3, times=40, **columns), out=tmp_path / "run")
    assert numbers(again) == pytest.approx(numbers(once))
    text = "prompts classifier: 117 of 120 pairs repeat another pair's texts and count once."
    assert check(tmp_path / "run").output.splitlines()[1] == text
    assert json.loads(check(tmp_path / "run", "--json").output)["notes"] == [text]
    prompts(3, times=40).to_csv(tmp_path / "prompts.csv", index=False)
    own = (
        "--prompts",
        tmp_path / "prompts.csv",
        "--reference",
        "male",
        "--out",
        tmp_path / "typed",
    )
    assert text in check("vader", *own, command="audit").output


def test_repeated_texts_in_comparison():
    """A comparison of two runs counts repeated texts once."""

    def compared(times):
        table = prompts(3, times=times, template=lambda pair, time: f"t{pair}")
        found = (
            audited(noisy, table, name="a")
            .compare(audited(even, table, name="b"))
            .query("primary")
            .iloc[0]
        )
        return found[["value", "ci_low", "ci_high", "n"]].tolist()

    assert compared(40) == pytest.approx(compared(1))


def test_levels_beside_difference(tmp_path):
    """The gate of a difference shows the levels that make it and does not gate them."""
    folder = tmp_path / "run"
    swapbias.audit(
        None, "gendered_stigma:rq1", out=folder, wordings=False, limit=300, progress=False
    )
    (gap,) = check_run(folder).checks
    assert gap.finding.measure == "gap_difference"
    assert {one.subset for one in gap.components} >= {"mental_health", "other_health"}
    assert "Levels not gated: " in check(folder).output
    record = json.loads(check(folder, "--json").output)["checks"][0]
    assert {one["subset"] for one in record["levels_not_gated"]} >= {
        "mental_health",
        "other_health",
    }


@pytest.mark.parametrize(
    ("given", "nearest"),
    [({"reference": "mael"}, "male"), ({"reference": "male", "group": "femal"}, "female")],
    ids=["reference", "group"],
)
def test_misspelt_group(given, nearest, tmp_path):
    """A misspelt group is refused with the nearest group, in a call and in a word list."""
    with pytest.raises(ValueError, match=f"is none of female, male. Did you mean {nearest}?"):
        swapbias.audit(noisy, prompts=prompts(3), progress=False, **given)
    (tmp_path / "words.csv").write_text("word,group\nshe,female\nhe,male\nher,femael\n")
    table = pd.DataFrame({"text": ["<mask> is a nurse.", "<mask> is a clerk."]})
    with pytest.raises(
        ValueError, match=r"words.csv:4: group 'femael' is none of .*Did you mean female?"
    ):
        swapbias.audit(
            None, prompts=table, reference="male", group="female", lexicon=tmp_path / "words.csv"
        )


@pytest.mark.parametrize("letter", ["\u2028", "\x85", "\x0c", "\r"])
def test_texts_are_scored_unchanged(letter, caplog):
    """A text reaches the model with its blanks and line breaks, and advice names them once."""
    run = audited(noisy, prompts(3, text=f" {{who}} tells{letter}story {{pair}}.\n"))
    assert run.items("prompts")["text"].tolist()[:2] == [
        f" {who} tells{letter}story 0.\n" for who in WORDS.values()
    ]
    assert [
        one.getMessage() for one in caplog.records if "begin or end with blanks" in one.getMessage()
    ] == [
        "prompts.csv:2: 6 texts begin or end with blanks, which models read too. Remove those that should not be "
        "there."
    ]


@pytest.mark.parametrize("kind", [int, float])
def test_groups_as_numbers(kind):
    """Groups may be integers or floats, and the contrast keeps their form."""
    table = prompts(3).assign(group=[kind(one == "female") for one in prompts(3)["group"]])
    run = swapbias.audit(noisy, prompts=table, reference=0, group=1, progress=False)
    assert primary(run)["contrast"] == f"{kind(1)} - {kind(0)}"
