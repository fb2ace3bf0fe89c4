"""Texts without the group: what is swapped becomes one text, whatever it was."""

from swapbias.studies import load_study
from swapbias.swapping import without_groups

WORDS = {"John": "[name]", "Mary": "[name]", "White": "[race]", "African American": "[race]", "8th grade": "[school]"}


def test_versions_of_one_answer_become_the_same():
    said = "{name}'s {a} {race} {noun}. {He} left school early, and I trust {him}; {his} {noun} friends do, too."
    people = [
        {"name": "John", "noun": "man", "He": "He", "him": "him", "his": "his"},
        {"name": "Mary", "noun": "woman", "He": "She", "him": "her", "his": "her"},
    ]
    races = [
        {"a": "a", "race": "White"},
        {"a": "an", "race": "African-American"},
        {"a": "an", "race": "african american"},
    ]
    texts = [said.format(**one, **race) for one in people for race in races]
    assert len(set(texts)) == 6
    assert len(set(without_groups(texts, WORDS))) == 1
    (shown,) = without_groups(["Johnson whitewashed an 8th-grade wall."], WORDS)
    assert shown == "Johnson whitewashed a [school] wall."
    assert without_groups(["Nothing here."], {}) == ["Nothing here."]


def test_no_prompt_of_the_vignettes_tells_its_group_once_neutralised():
    from swapbias.studies import config_rows

    experiments = [one for one in load_study("stigma_vignettes").experiments if one.rubric]
    for experiment in experiments:
        rows = config_rows("stigma_vignettes", experiment.configs[0])[::37]
        every = config_rows("stigma_vignettes", experiment.configs[0])
        for row in rows:
            pair = [one["text"] for one in every if one["pair_id"] == row["pair_id"]]
            assert len(pair) > 1
            assert len(set(without_groups(pair, experiment.rubric.neutral))) == 1
