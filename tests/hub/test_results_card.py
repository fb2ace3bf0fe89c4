"""The card of a results repository: ours between markers and under our keys, all else its owner's, byte for byte."""

import pytest

from swapbias.hub.cards import RESULTS_BEGIN as BEGIN, RESULTS_END as END, is_ours, load, results_card, split
from tests.hub.shared_runs import GAP, MANIFEST

PATHS = ["runs/x-1/results.json"]
OURS = [
    {
        "config_name": "findings",
        "default": True,
        "data_files": [{"split": "train", "path": "runs/*/findings.parquet"}],
    }
]


def card(existing="", name="x-1", paths=PATHS, **changed):
    return results_card("o/r", name, [GAP], {**MANIFEST, **changed}, paths, existing)


def test_a_card_made_twice_is_the_same():
    made = card()
    assert made.startswith("---\npretty_name: Bias audits in o/r\n")
    assert card(made) == made
    assert is_ours(made, where="x")
    assert not is_ours("# Data\n", where="x")


def test_the_owners_keys_tags_configs_and_texts_stay():
    theirs = (
        "---\nlicense: cc-by-4.0\npretty_name: Audits of the lab\ntags: [lab,  bias]\n"
        "configs:\n- config_name: extra\n  data_files: extra/*.csv\n---\n# The lab\n\nOur words.\n"
    )
    made = card(theirs)
    header = load(split(made).header, "card")
    assert "license: cc-by-4.0\npretty_name: Audits of the lab\n" in made
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
    with pytest.raises(ValueError, match=r"o/r/README\.md:\d+: 1 lines of .* Put back the one that is missing"):
        card(card().replace(END, ""))


def test_a_part_of_the_prompts_is_named():
    assert "with the prompts of this study" in card()
    assert "at most 40 rows of each table" in card(settings={"limit": 40})


def test_the_parts_of_other_runs_stay_while_their_folders_do():
    both = card(card(), name="y-2", paths=[*PATHS, "runs/y-2/items/gendered_stigma.parquet"])
    assert both.index("\n## x-1\n") < both.index("\n## y-2\n")
    names = [one["config_name"] for one in load(split(both).header, "card")["configs"]]
    assert names == ["findings", "y-2-gendered_stigma"]
    assert "\n## x-1\n" not in card(both, name="y-2", paths=["runs/y-2/results.json"])
