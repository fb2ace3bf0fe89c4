"""The card of a results repository: ours between markers and under our keys, all else its owner's, byte for byte."""

import pytest

from swapbias.hub.audit_cards import RESULTS_BEGIN as BEGIN, RESULTS_END as END, is_ours, results_card
from swapbias.hub.cards import load, split
from swapbias.runs.compare import ComparedRun
from tests.hub.shared_runs import GAP, MANIFEST

RUN = ComparedRun("o/r", "x-1", "c" * 40, MANIFEST, [GAP])
OURS = [
    {
        "config_name": "findings",
        "default": True,
        "data_files": [{"split": "train", "path": "runs/*/findings.parquet"}],
    }
]


def card(existing="", **changed):
    return results_card("o/r", [RUN], {}, existing=existing)


def test_a_card_made_twice_is_the_same():
    made = card()
    assert made.startswith("---\npretty_name: Bias audits in o/r\n")
    assert card(made) == made
    assert is_ours(made, where="x")
    assert not is_ours("# Data\n", where="x")


def test_the_owners_keys_tags_configs_and_texts_stay():
    theirs = (
        "---\nlicense: cc-by-4.0   # mine\npretty_name: Audits of the lab\ntags: [lab,  bias]\n"
        "configs:\n- config_name: extra\n  data_files: extra/*.csv\n---\n# The lab\n\nOur words.\n"
    )
    made = card(theirs)
    header = load(split(made).header, "card")
    assert "license: cc-by-4.0   # mine\npretty_name: Audits of the lab\n" in made
    assert header["tags"] == ["lab", "bias", "fairness", "swapbias"]
    assert header["configs"] == [*OURS, {"config_name": "extra", "data_files": "extra/*.csv"}]
    assert f"---\n# The lab\n\nOur words.\n\n{BEGIN}\n" in made
    below = made + "\nMore words.\n"
    assert card(below) == below


def test_an_owners_byte_order_mark_hides_no_metadata():
    theirs = "---\nlicense: mit\n---\n# The lab\n"
    assert card(f"\ufeff{theirs}") == card(theirs)
    assert is_ours(f"\ufeff{card(theirs)}", where="x")


def test_a_lost_marker_is_told_by_the_name_of_the_repository():
    with pytest.raises(ValueError, match=r"o/r/README\.md:\d+: 1 lines of .* Put <!-- swapbias:end results --> back"):
        card(card().replace(END, ""))


def test_the_prompts_column_tells_a_part():
    assert "| the studies' own |" in card()
    part = ComparedRun("o/r", "x-1", "c" * 40, MANIFEST | {"settings": {"limit": 40}}, [GAP])
    assert "at most 40 rows of each table" in results_card("o/r", [part], {})
