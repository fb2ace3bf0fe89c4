"""Nothing is decided by words: with every sentence of the report rewritten, findings and exit codes are the same."""

import inspect

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import swapbias
from swapbias.cli import app
from swapbias.report import text

WOMEN = {"She": 0.0, "He": 0.02}


def uneven(texts):
    rng = np.random.default_rng(len(texts))
    return [0.5 - WOMEN.get(text.split()[0], 0.0) + rng.normal(0, 0.01) for text in texts]


def constant(texts):
    return [0.5] * len(texts)


def audited(place, model):
    rows = [
        (f"{who} tells story {pair}.", group, pair)
        for pair in range(40)
        for who, group in (("She", "f"), ("He", "m"))
    ]
    table = pd.DataFrame(rows, columns=["text", "group", "pair"]).assign(
        condition=lambda rows: [f"c{pair % 5}" for pair in rows["pair"]]
    )
    swapbias.audit(model, prompts=table, reference="m", out=place, progress=False)
    gate = CliRunner().invoke(app, ["check", str(place)], env={"GITHUB_ACTIONS": ""})
    return (place / "findings.csv").read_bytes(), (place / "results.json").read_bytes(), gate.exit_code


@pytest.mark.parametrize(("model", "code"), [(uneven, 0), (constant, 3)])
def test_other_sentences_give_the_same_findings_verdicts_and_exit_codes(tmp_path, monkeypatch, model, code):
    before = audited(tmp_path / "before", model)
    rewritten = 0
    for name, function in inspect.getmembers(text, inspect.isfunction):
        if inspect.signature(function).return_annotation is str and function.__module__ == text.__name__:
            monkeypatch.setattr(text, name, lambda *values, **options: "x")
            rewritten += 1
    assert rewritten > 30
    assert audited(tmp_path / "after", model) == before
    assert before[-1] == code
    assert ">x<" in (tmp_path / "after/report.html").read_text().replace(" ", "").replace("\n", "")
