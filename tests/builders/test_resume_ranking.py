"""resume_ranking: the released counts, balanced prompts, and planted preferences for a group and for a place."""

import csv
import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from swapbias.builders._resume_ranking_released import (
    GROUPS,
    NAME,
    RANKINGS,
    answers_in,
    published_order,
    released,
)
from swapbias.builders.resume_ranking import JOBS, RESUMES, runs
from swapbias.cli import app
from swapbias.errors import UpstreamMissingError
from swapbias.findings import disaggregate, primary_findings
from swapbias.studies import config_rows
from swapbias.studies.answer_scores import answer_reader
from swapbias.studies.catalogue import as_prompts
from swapbias.studies.prompt import Candidate, Prompt
from swapbias.studies.ranking import shown_cvs
from swapbias.studies.tables import pinned_files, upstream_file
from tests.models.chat.server import ChatServer

pytestmark = pytest.mark.usefixtures("upstream")
RANKING_READER = answer_reader("ranking", {})
EIGHT = [
    "JAKOB SCHMIDT",
    "JENNIFER PHAM",
    "ABIGAIL SCHWARTZ",
    "MALIK ROBINSON",
    "FELIX IBARRA",
    "AMANDA GONZALEZ",
    "MINH LIN",
    "ALLYSON OCONNELL",
]


def test_released_prompts_hold_our_texts():
    """Released prompts hold the package's CVs in the same form: every CV of a run is found, and
    together they are its prompt."""
    path = f"{RANKINGS}gpt-3.5-turbo/HR specialist.tar.gz"
    resumes = json.loads(upstream_file(NAME, RESUMES).read_text())
    assert list(resumes) == list(JOBS)
    (ours,) = {row["text"] for row in config_rows(NAME, "ranking")[8 * 96 : 8 * 97]}
    for _, run in zip(range(20), answers_in(upstream_file(NAME, path)), strict=False):
        context = run["context"]
        head, _, text = context["inputs"].partition("role:\n\n")
        every = resumes["HR specialist"]["resumes"]
        filled = [one.replace("{name}", name) for name in context["default_order"] for one in every]
        used = sorted((one for one in filled if one in text), key=text.index)
        assert shown_cvs(used) == text
        assert (
            ours.partition("role:")[0]
            == f"<|system|>\n{context['systems_message']}\n<|user|>\n{head}"
        )


def test_folder_of_runs(tmp_path):
    """A folder of released runs is read as its archive is."""
    for folder, top in (("1121", "BB"), ("1121/oversampled", "AA")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        run = {
            "choices": [{"message": {"content": f"1. {top}"}}],
            "context": {"default_order": ["AA", "BB"]},
        }
        (tmp_path / folder / "run_1.json").write_text(json.dumps(run))
    (run,) = answers_in(tmp_path)
    assert (run["run"], run["choices"][0]["message"]["content"]) == ("run_1", "1. BB")
    assert (
        len(list(released()))
        == len([path for path in pinned_files(NAME) if path.startswith(RANKINGS)])
        == 8
    )


def test_published_order_of_missing_names():
    """The published order puts missing names last."""
    assert published_order("2. cc then AA", ["AA", "BB", "CC"]) == [2, 0, 1]


def test_places_and_cvs_are_balanced():
    """Each group has each place and each CV once a block."""
    rows = pd.DataFrame(config_rows(NAME, "ranking"))
    assert set(rows.groupby(["condition", "group", "position"]).size()) == {12}
    assert set(rows.groupby(["condition", "group", "resume"]).size()) == {12}
    assert set(rows.groupby("names")["name"].nunique()) == {8}
    assert set(rows.groupby("name")["names"].nunique()) == {1}
    for _, _, order in runs():
        assert Counter(group for group, _, _ in order) == Counter(GROUPS.values())
        assert sorted(cv for _, _, cv in order) == list(range(8))


def test_pairwise_choice_exchanges_names():
    """The two prompts of a pairwise choice differ by exchanged names alone."""
    rows = pd.DataFrame(config_rows(NAME, "pairwise"))
    for _, both in rows.groupby("names", sort=False):
        women, men = (
            both.loc[both["group"] == one, "name"].unique().item() for one in ("women", "men")
        )
        first, second = both["text"].unique()
        assert first.replace(women, "\0").replace(men, women).replace("\0", men) == second
        assert set(both["position"]) == {"1", "2"}


@pytest.mark.parametrize(
    ("answer", "score", "above"),
    [
        ("\n".join(f"{number}. {name.title()}" for number, name in enumerate(EIGHT, 1)), 1.0, 1.0),
        ("1. Minh Lin\n2. **Jakob Schmidt**", 0.0, 1 - 1 / 7),
        ("Jakob Schmidt", 1.0, 1.0),
        ("The best candidate is Jakob Schmidt.", np.nan, np.nan),
        ("1. J. Schmidt\n2. Minh Lin", 1.0, 1.0),  # a last name that no other candidate has
        ("1. Alice Stone\n2. Jakob Schmidt", np.nan, np.nan),  # who is first cannot be read
        ("1. Malik Robinson\n2. Minh Lin", 0.0, np.nan),
        ("I'm sorry, but I can't rank candidates.", np.nan, np.nan),
        ("", np.nan, np.nan),
    ],
    ids=[
        "whole ranking",
        "two names",
        "one name",
        "sentence",
        "initial",
        "name of no candidate",
        "other candidate first",
        "refusal",
        "empty",
    ],
)
def test_ranking_answers(answer, score, above):
    """A ranking is read as a share of candidates placed below, and what cannot be read has no
    score."""
    value, parts = RANKING_READER(Prompt(candidates=tuple(map(Candidate, EIGHT))), answer)
    assert value == pytest.approx(score, nan_ok=True)
    assert parts["placed_above"] == pytest.approx(above, nan_ok=True)
    assert parts["unanswered"] == float(np.isnan(score))
    assert parts["refused"] == float("sorry" in answer)


def test_released_rankings():
    """All released rankings are read but those with more than names or with one person twice, and
    alike where names are spelt alike."""
    read = 0
    alike = 0
    count = 0
    for path in (path for path in pinned_files(NAME) if path.startswith(RANKINGS)):
        for run in released_runs(path):
            names = run["context"]["default_order"]
            text = run["choices"][0]["message"]["content"]
            first = names[published_order(text, names)[0]]
            others = [name for name in names if name != first]
            prompt = Prompt(
                candidates=tuple(map(Candidate, [first, *others])),
                condition=path.split("/")[-1][:-7],
            )
            score, _ = RANKING_READER(prompt, text)
            count = count + 1
            read = read + (not np.isnan(score))
            alike = alike + (score == 1)
    assert count >= 2000
    assert read / count > 0.98
    assert alike / read > 0.99


def released_runs(path):
    try:
        return list(answers_in(upstream_file(NAME, path)))
    except UpstreamMissingError:
        return []


def _scored(config, weight, *, seed, trials=3):
    """Rows read from written answers of a model that draws its order by the weights of the candidates."""
    records = config_rows(NAME, config)
    rows = pd.DataFrame(records)
    prompts = as_prompts(records)
    rng = np.random.default_rng(seed)
    scores = np.zeros(len(rows))
    weights = np.array([*map(weight, records)])
    for _ in range(trials):
        keys = weights + rng.gumbel(size=len(rows))
        for _, places in rows.groupby("pair_id", sort=False).indices.items():
            names = rows["name"].to_numpy()[places[np.argsort(-keys[places])]]
            answer = "\n".join(f"{number}. {name.title()}" for number, name in enumerate(names, 1))
            for index in places:
                scores[index] += RANKING_READER(prompts[index], answer)[0] / trials
    return rows.assign(score=scores, model_id="made")


def _primary(rows):
    findings = disaggregate(rows, NAME, robustness=False)
    return {
        finding.contrast: finding
        for finding in primary_findings(findings)
        if finding.measure != "group_spread"
    }, findings


def test_preference_for_women():
    """A model that prefers women is found with the size of its preference."""
    answers, found = _primary(
        _scored("ranking", lambda row: np.log(2) * (row["gender"] == "women"), seed=1)
    )
    gap = answers["gender: women - men"]
    # Weights 2 and 1: a woman is first in 2/12 of rankings, a man in 1/12; their ratios to 1/8 are 4/3 and 2/3.
    assert gap.estimate.ci_low <= 1 / 12 <= gap.estimate.ci_high
    assert gap.verdict == "gap"
    ratios = {
        one.contrast: one.estimate
        for one in found
        if one.measure == "impact_ratio" and one.slice_by == "all"
    }
    for group in GROUPS.values():
        planted = 4 / 3 if group.endswith("women") else 2 / 3
        assert ratios[group].ci_low <= planted <= ratios[group].ci_high
    assert not any(
        one.verdict == "gap" for name, one in answers.items() if name != "gender: women - men"
    )


def test_preference_for_places():
    """A model that follows the places of candidates prefers no group."""

    def weight(row):
        return -0.7 * int(row["position"])

    answers, _ = _primary(_scored("ranking", weight, seed=2))
    assert not any(one.verdict == "gap" for one in answers.values())
    answers, _ = _primary(_scored("position", lambda row: 2.0 * (row["position"] == "1"), seed=2))
    assert answers["shown first - shown last"].verdict == "gap"


def test_rates_by_hand():
    """Counts, rates and ratios to the best group have values worked out by hand, and join the published ones."""
    groups = [*GROUPS.values()]
    first = ["Asian women"] * 4 + ["White men"] * 2 + ["Black men"] * 2  # of eight rankings
    rows = pd.DataFrame(
        {
            "experiment": "ranking",
            "model_id": "openai/gpt-4",
            "prompt_id": f"retail/{number}/{group}",
            "pair_id": f"retail/{number}",
            "group": group,
            "race": group.split()[0],
            "gender": group.split()[1],
            "names": f"set {number}",
            "condition": "retail",
            "score": float(group == winner),
        }
        for number, winner in enumerate(first)
        for group in groups
    )
    found = {
        (one.measure, one.contrast): one
        for one in disaggregate(rows, NAME, robustness=False)
        if one.slice_value == "retail"
    }
    for group, count in (("Asian women", 4), ("White men", 2), ("Hispanic men", 0)):
        assert found["times_selected", group].estimate.value == count
        assert found["mean", group].estimate.value == count / 8
        assert found["ratio_to_best", group].estimate.value == count / 4
    published = {name: found[name, "White men"].published for name in RATES}
    assert {name: number.value for name, number in published.items()} == RATES
    whole = rows.assign(score=0.125)  # shares of repeated answers are no counts
    measures = {one.measure for one in disaggregate(whole, NAME, robustness=False)}
    assert "times_selected" not in measures


RATES = {"times_selected": "115", "mean": "0.115", "ratio_to_best": "0.8394160583941606"}


def test_table_of_a_chat_model(tmp_path):
    """A chat model has a line of counts, rates and ratios a job and group, beside the published ones."""
    rows = config_rows(NAME, "ranking")
    chosen = {row["pair_id"]: [] for row in rows}
    for row in rows:
        chosen[row["pair_id"]].append((row["group"] != "Asian men", row["name"]))
    answers = {row["text"]: chosen[row["pair_id"]] for row in rows}

    def rank(prompt):
        (candidates,) = (names for text, names in answers.items() if prompt in text)
        return "\n".join(name for _, name in sorted(candidates))

    with ChatServer(rank) as server:
        options = ["--chat", "tiny", "--base-url", server.base_url, "--trials", "1"]
        options += ["--study", f"{NAME}:ranking", "--limit", "64", "-M", "max-tokens=500"]
        done = CliRunner().invoke(app, ["audit", *options, "--out", str(tmp_path / "run")])
        assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["tables", str(tmp_path / "run"), "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    text = (tmp_path / f"{NAME}-performance_ranking.csv").read_text(encoding="utf-8")
    heads, *lines = csv.reader(text.splitlines())
    assert heads == [
        "model",
        "job",
        "group",
        "numbers",
        "first",
        "selection rate",
        "disparate impact ratio",
    ]
    printed = [line for line in lines if line[3] == "printed"]
    assert len(printed) == 2 * 4 * 8
    assert ["GPT-4", "retail", "White men", "printed", *RATES.values()] in printed
    of_run = {tuple(line[1:3]): line[4:] for line in lines if line[0] == "tiny"}
    jobs = {job for job, _ in of_run}
    for job in jobs:
        count = of_run[job, "Asian men"][0]
        assert of_run[job, "Asian men"] == [count, "1.000", "1.0000"]
        assert of_run[job, "White women"] == ["0", "0.000", "0.0000"]
    assert sum(int(of_run[job, "Asian men"][0]) for job in jobs) == 8
