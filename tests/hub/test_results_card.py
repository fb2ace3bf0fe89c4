"""The card of a results repository: ours between markers and under our keys, all else its owner's, byte for byte."""

from swapbias.hub.cards import RESULTS_BEGIN as BEGIN, load, results_card, split
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


def test_the_parts_of_other_runs_stay_while_their_folders_do():
    both = card(card(), name="y-2", paths=[*PATHS, "runs/y-2/items/gendered_stigma.parquet"])
    assert both.index("\n## x-1\n") < both.index("\n## y-2\n")
    names = [one["config_name"] for one in load(split(both).header, "card")["configs"]]
    assert names == ["findings", "y-2-gendered_stigma"]
    assert "\n## x-1\n" not in card(both, name="y-2", paths=["runs/y-2/results.json"])
