"""The output of swapbias plan: a gap on the scale, named spreads or those of a run, and needed
templates."""

import csv
import json
import re
import shutil

import numpy as np
import pytest

from tests import tiny
from tests.cli.test_cli import refused, swapbias
from tests.conftest import ROOT

SCORER = '''
import hashlib

def drawn(text):
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 2**32 - 0.5

def score(texts):
    """Effects of names, of templates on the gap, and of the rest."""
    scores = []
    for text in texts:
        name, _, rest = text.partition(" ")
        gap = 0.05 + 0.3 * drawn("gap " + rest) + 0.2 * drawn(name) if name.startswith("Anna") else 0.0
        scores.append(0.4 + 0.2 * drawn(rest) + gap + 0.1 * drawn(text))
    return scores

def flat(texts):
    return [0.5] * len(texts)

def extreme(texts):
    return [float(drawn(text) > 0) for text in texts]
'''
WOMEN = [f"Anna{number}" for number in range(40)]
MEN = [f"Paul{number}" for number in range(40)]


def write_prompts(path, templates, names, columns=("template", "name")):
    rows = [
        {
            "text": f"{name} did task {number}.",
            "group": group,
            "pair": f"{number}/{index}",
            "template": number,
            "name": name,
        }
        for number in range(templates)
        for index in range(names)
        for group, name in (("female", WOMEN[index]), ("male", MEN[index]))
    ]
    fields = ["text", "group", "pair", *columns]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fields, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A function, prompts of its 10 templates and 8 pairs of names, and its run."""
    folder = tmp_path_factory.mktemp("plan")
    (folder / "scoring.py").write_text(SCORER)
    write_prompts(folder / "mine.csv", 10, 8)
    done = swapbias(
        "audit",
        "scoring:score",
        "--prompts",
        "mine.csv",
        "--reference",
        "male",
        "--out",
        "run",
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return folder


def plan(folder, prompts, *arguments, model="scoring:score"):
    done = swapbias(
        "plan", model, "--prompts", prompts, "--reference", "male", *arguments, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def detected(output):
    return float(re.search(r"has 80 % power for gaps of (\S+) points", output)[1])


def detectable(run):
    """The detectable gaps of the primary findings of a run, in points."""
    findings = json.loads((run / "results.json").read_text())["findings"]
    return [
        100 * finding["minimum_detectable_effect"]
        for finding in findings
        if finding["primary"] and finding["minimum_detectable_effect"] is not None
    ]


def table_of(output):
    """The rows of a plan's table: points, then the numbers behind them."""
    rows = re.findall(r"^   (\d+) points? +(.*)$", output, re.MULTILINE)
    return {int(points): re.findall(r"(?:under |> )?[\d,]+", rest) for points, rest in rows}


def test_plan_like_a_run(folder):
    """A plan like a run of the same prompts states the gap that the run states."""
    output = plan(folder, "mine.csv", "--like", "run")
    (of_run,) = detectable(folder / "run")
    assert detected(output) == pytest.approx(of_run, abs=0.05001)
    assert "as in run for scoring:score" in output
    assert "swapbias audit scoring:score --prompts mine.csv --reference male\n" in output
    assert "--like" not in output
    shown = swapbias("report", "run", cwd=folder)
    assert shown.returncode == 0


def test_plan_of_another_size(folder):
    """A plan of another size is scaled."""
    whole = detected(plan(folder, "mine.csv", "--like", "run"))
    write_prompts(folder / "more.csv", 40, 8)
    write_prompts(folder / "fewer.csv", 5, 6)
    assert detected(plan(folder, "more.csv", "--like", "run")) < whole
    assert detected(plan(folder, "fewer.csv", "--like=run")) > whole


def test_templates_of_the_table(folder):
    """The number of templates in the table finds its gap, and a smaller number does not."""
    rows = table_of(plan(folder, "mine.csv", "--like", "run"))
    assert list(rows) == [2, 5, 10]
    for points in (5, 10):
        needed = [int(number) for number in rows[points][:2]]
        write_prompts(folder / "needed.csv", *needed)
        assert detected(plan(folder, "needed.csv", "--like", "run")) <= points
        pairs = zip(needed, (10, 8), strict=True)  # what has grown
        write_prompts(
            folder / "needed.csv",
            *(int(0.85 * now) if now > before else now for now, before in pairs),
        )
        assert detected(plan(folder, "needed.csv", "--like", "run")) > points


def test_plan_like_a_masked_run(tmp_path):
    """A plan like a run of a masked model states its gap."""
    tiny.save("bert", tmp_path / "model")
    asks = ("./model", "--study", "gendered_stigma:rq1", "--no-wordings")
    assert swapbias("audit", *asks, "--out", "run", cwd=tmp_path).returncode == 0
    output = swapbias("plan", *asks, "--like", "run", cwd=tmp_path).stdout
    assert any(
        detected(output) == pytest.approx(one, abs=0.05001) for one in detectable(tmp_path / "run")
    )
    assert "374 pairs, 17 templates x 22 diagnoses; has 80 % power" in output
    assert table_of(output)
    # An experiment of the plan that the run did not read keeps the declared spreads.
    both = swapbias(
        "plan",
        "./model",
        "--study",
        "gendered_stigma",
        "--no-wordings",
        "--like",
        "run",
        cwd=tmp_path,
    )
    assert "run has no such gap, so its spreads are not used here." in both.stdout
    assert "as in the released outputs of gendered_stigma for roberta-large." in both.stdout


def test_unscored_prompts(folder):
    """Prompts that the earlier run could not score are left out."""
    shutil.copy(folder / "scoring.py", folder / "gaps.py")
    with (folder / "gaps.py").open("a") as file:
        file.write(
            "\nLOST = ['Anna1 did task 3.', 'Paul2 did task 3.', 'Anna4 did task 8.']\n"
            "def some(texts):\n"
            "    pairs = zip(texts, score(texts))\n"
            "    return [float('nan') if text in LOST else value for text, value in pairs]\n"
        )
    done = swapbias(
        "audit",
        "gaps:some",
        "--prompts",
        "mine.csv",
        "--reference",
        "male",
        "--out",
        "holes",
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    (of_run,) = detectable(folder / "holes")
    assert detected(plan(folder, "mine.csv", "--like", "holes")) == pytest.approx(
        of_run, abs=0.05001
    )


def test_unequal_levels(folder):
    """Spreads of unequal levels give the same gap too."""
    # One factor whose levels have from 1 to 6 pairs: the error of the run is not that of its components.
    with (folder / "unequal.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "group", "pair", "template"])
        for number in range(12):
            for place in range(number % 6 + 1):
                for word in ("female", "male"):
                    text = f"{WOMEN[0] if word == 'female' else MEN[0]} did {number} and {place}."
                    writer.writerow([text, word, f"{number}/{place}", number])
    asks = ("scoring:score", "--prompts", "unequal.csv", "--reference", "male")
    assert swapbias("audit", *asks, "--out", "unequal", cwd=folder).returncode == 0
    (of_run,) = detectable(folder / "unequal")
    assert detected(plan(folder, "unequal.csv", "--like", "unequal")) == pytest.approx(
        of_run, abs=0.05001
    )


def test_gap_within_the_scale(folder):
    """No detectable gap is beyond the scale."""
    write_prompts(folder / "four.csv", 4, 4)
    asks = ("--prompts", "four.csv", "--reference", "male")
    done = swapbias("audit", "scoring:extreme", *asks, "--out", "extreme", cwd=folder)
    assert done.returncode == 0, done.stderr
    output = plan(folder, "four.csv", "--like", "extreme", model="scoring:extreme")
    assert "a run of this size cannot find any gap, not even one of 100 points" in output
    needed = re.search(
        r"At least (\d+) templates x (\d+) pairs of names are needed to find a gap of 100 points",
        output,
    )
    assert int(needed[1]) > 4 or int(needed[2]) > 4
    assert "inf" not in output.replace("information", "")
    for points in re.findall(r"gaps? of ([\d.]+) points", output):
        assert float(points) <= 100


def test_too_few_templates(folder):
    """Fewer templates than a verdict takes are reported instead of a gap."""
    write_prompts(folder / "three.csv", 3, 8)
    output = plan(folder, "three.csv")
    assert "3 templates are too few for a verdict; at least 4 are needed" in output
    assert "80 % power" not in output
    assert table_of(output)


def test_assumed_spreads(folder):
    """A plan names the spreads that it assumes and where nothing is known."""
    output = plan(folder, "mine.csv")
    assert (
        "Assumed: SD 12.5 points between templates, 12.5 between pairs of names, 13.6 left, as in the released "
        "outputs of occupation_sentiment for bert-base-uncased (fine-tuned on SST-2), if scores lie between 0 and 1."
    ) in output
    done = swapbias(
        "plan",
        "someone/model",
        "--kind",
        "causal",
        "--study",
        "adjective_coreference",
        "--limit",
        "32",
    )
    assert (
        "Where the gap is unknown, no spread of men's occupations, women's occupations is known"
        in done.stdout
    )
    assert "then plan again with --like RUN" in done.stdout
    assert "Assumed" not in done.stdout


def test_minutes(folder):
    """Minutes are those of the earlier run, and none are stated for kept scores."""
    manifest = folder / "run" / "manifest.json"
    slow = folder / "slow"
    shutil.copytree(folder / "run", slow)
    saved = json.loads(manifest.read_text())
    saved |= {
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:08:00+00:00",
        "from_cache": 0,
    }
    (slow / "manifest.json").write_text(json.dumps(saved))
    output = plan(folder, "mine.csv", "--like", "slow")
    assert (
        "Time: 8 minutes, at the speed of slow (480 s for 160 prompts)." in output
    )  # 3 s a prompt
    for _, _, prompts, minutes in table_of(output).values():
        assert int(minutes.replace(",", "")) == np.ceil(int(prompts.replace(",", "")) * 3 / 60)
    saved["from_cache"] = 160
    (slow / "manifest.json").write_text(json.dumps(saved))
    assert "Time:" not in plan(folder, "mine.csv", "--like", "slow")


def test_table_in_80_columns(folder):
    """The table of a plan is aligned in 80 columns."""
    for output in (
        plan(folder, "mine.csv"),
        plan(folder, "mine.csv", "--like", "run"),
        swapbias("plan").stdout,
    ):
        lines = [line for line in output.splitlines() if line.startswith("   ")]
        assert lines
        assert max(map(len, lines)) <= 80
        blocks = [len(line) for line in lines if line.startswith("   to find")]
        assert blocks
        assert not re.search(r"\b(inf|nan)\b", output)


def test_spreads_of_other_prompts(folder):
    """Prompts of a user take the spreads of others with the same random factors."""
    # The earlier study has the name of the planned one, and other prompts.
    (folder / "other").mkdir()
    write_prompts(folder / "other" / "mine.csv", 20, 5)
    output = plan(folder, "other/mine.csv", "--like", "run")
    assert "mine classifier: 200 prompts" in output
    assert "100 pairs, 20 templates x 5 pairs of names; has 80 % power" in output
    assert "as in run for scoring:score" in output
    write_prompts(folder / "renamed.csv", 20, 5)
    assert detected(plan(folder, "renamed.csv", "--like", "run")) == detected(output)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (
            (
                "audit",
                "scoring:score",
                "--prompts",
                "mine.csv",
                "--reference",
                "male",
                "--like",
                "run",
            ),
            ("--dry-run",),
        ),
        (
            ("plan", "vader", "--study", "occupation_sentiment", "--like", "run"),
            ("none of the gaps", "mine"),
        ),
        (
            (
                "plan",
                "scoring:score",
                "--prompts",
                "plain.csv",
                "--reference",
                "male",
                "--like",
                "run",
            ),
            ("same random factors",),
        ),
        (("plan", "vader", "--like", "nowhere"), ("nowhere contains no run",)),
        (("plan", "vader", "--like", "bare"), ("bare has no scored prompts",)),
    ],
    ids=["audit", "other study", "other factors", "missing run", "no rows"],
)
def test_unusable_run(folder, arguments, parts):
    """A run that is no use for a plan is refused in one sentence."""
    write_prompts(folder / "plain.csv", 8, 1, columns=())
    if not (folder / "bare").exists():
        shutil.copytree(folder / "run", folder / "bare")
        shutil.rmtree(folder / "bare" / "items")
        manifest = json.loads((folder / "bare" / "manifest.json").read_text())
        manifest["sha256"] = {
            name: sha for name, sha in manifest["sha256"].items() if not name.startswith("items/")
        }
        (folder / "bare" / "manifest.json").write_text(json.dumps(manifest))
    refused(swapbias(*arguments, cwd=folder), 2, *parts)


def test_run_without_spread(folder):
    """A run in which nothing varies gives no spread."""
    asks = ("scoring:flat", "--prompts", "mine.csv", "--reference", "male")
    assert swapbias("audit", *asks, "--out", "flat", cwd=folder).returncode == 0
    output = plan(folder, "mine.csv", "--like", "flat", model="scoring:flat")
    assert "flat shows no spread of this gap: too little was scored, or nothing varies." in output
    assert "the gap that it could find is unknown before a run" in output


@pytest.mark.parametrize(
    ("page", "arguments"),
    [
        ("audit.md", ("--study", "gendered_stigma:rq1")),
        (
            "chat.md",
            (
                "--study",
                "adjective_coreference",
                "--chat",
                "MODEL",
                "--base-url",
                "https://host/v1",
                "-M",
                "price-in=0.5",
                "-M",
                "price-out=1.5",
            ),
        ),
    ],
    ids=["masked", "chat"],
)
def test_examples_of_the_docs(page, arguments):
    """The examples of the docs are what a plan prints."""
    text = (ROOT / "docs" / page).read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    block = next(
        block for language, block in blocks if not language and "80 % power for gaps of" in block
    )
    printed = " ".join(swapbias("plan", *arguments).stdout.split())
    for sentence in block.strip().splitlines():
        assert " ".join(sentence.split()) in printed


def test_run_without_scores(tmp_path):
    """An earlier run that scored nothing is reported as such."""
    tiny.save("bert", tmp_path / "model")
    asks = ("./model", "--study", "social_distance:attitude", "--no-wordings", "--limit", "40")
    assert swapbias("audit", *asks, "--out", "run", cwd=tmp_path).returncode == 0
    output = swapbias("plan", *asks, "--like", "run", cwd=tmp_path).stdout
    assert "run shows no spread of this gap: too little was scored, or nothing varies." in output
    assert "80 % power" not in output
