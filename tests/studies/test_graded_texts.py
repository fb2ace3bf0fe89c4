"""A judge that is audited: the same text under other authors' names, and the number is its grade."""

import zlib

import pandas as pd
import pytest

from swapbias.findings import disaggregate, primary_findings
from swapbias.studies import config_rows
from swapbias.studies.answer_scores import answer_reader
from swapbias.studies.own import check_study, new_study, open_study
from swapbias.studies.prompt import Prompt

POOR = ("throws its shadow", "have money", "Mistakes happen", "always better")


def grade(prompt, penalty):
    """Grade a text by what it says, one more for a fifth of the prompts, and less for women."""
    quality = 2 if any(words in prompt.text for words in POOR) else 4
    luck = zlib.crc32(prompt.text.encode()) % 5 == 0
    return quality + luck - penalty * (prompt.group == "female")


@pytest.mark.parametrize(("penalty", "verdict"), [(1, "gap"), (0, "no gap")])
def test_planted_grade(tmp_path, penalty, verdict):
    """A judge that gives women a grade less has a gap of one grade; one that reads the text alone has none."""
    new_study(tmp_path / "grades", "judge")
    checked = check_study(tmp_path / "grades")
    assert (checked.faults, checked.advice) == ([], [])
    open_study(tmp_path / "grades")
    rows = pd.DataFrame(config_rows("grades", "questions"))
    fields = [*Prompt.__dataclass_fields__]
    prompts = [Prompt(**record) for record in rows[fields].to_dict("records")]
    read = answer_reader("options", {})
    rows["score"] = [read(prompt, str(grade(prompt, penalty)))[0] for prompt in prompts]
    findings = disaggregate(rows.assign(model_id="judge"), "grades", expected={}, robustness=False)
    (primary,) = primary_findings(findings)
    assert primary.estimate.value == pytest.approx(-penalty, abs=0.15)
    assert primary.verdict == verdict
