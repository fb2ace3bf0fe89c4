"""Factors of a user's prompts: a column whose values recur is random from four levels on."""

import re

import pandas as pd
import pytest

import swapbias
from swapbias.errors import StudyError, UsageError
from swapbias.hub import own_study
from swapbias.runs import Run
from swapbias.studies import config_rows, load_study
from swapbias.studies.own import check_study, new_study, open_study

WORDS = (("female", "She"), ("male", "He"))


def table(count=24, **columns):
    """Pairs that share nothing but the values of columns, each a function of the number of the pair."""
    return pd.DataFrame(
        [
            {"text": f"{word} waited {pair} hours.", "group": group, "pair": str(pair)}
            | {name: value(pair) for name, value in columns.items()}
            for pair in range(count)
            for group, word in WORDS
        ]
    )


def levels(count, name="v"):
    return lambda pair: f"{name}{pair % count}"


def first(rows, **options):
    return open_study(rows, reference="male", name="waits", **options).experiments[0]


def declared(rows, **options):
    experiment = first(rows, **options)
    return experiment.design.random, experiment.design.fixed


def edited(folder, name, *changes):
    text = (folder / name).read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("column", "count", "random", "fixed"),
    [
        ("topic", 4, {"topic": "topics"}, {}),
        ("topic", 3, {"pair_id": "pairs"}, {"topic": "topics"}),
        ("adjective", 2, {"pair_id": "pairs"}, {"adjective": "adjectives"}),
        ("adjective", 1, {"pair_id": "pairs"}, {}),
        ("Category", 6, {"Category": "categories"}, {}),
        ("condition", 5, {"condition": "conditions"}, {}),
        ("condition", 3, {"pair_id": "pairs"}, {"condition": "conditions"}),
        ("construct", 12, {"construct": "constructs"}, {}),
        ("sentence_id", 24, {"pair_id": "pairs"}, {}),  # of which none recurs
        ("sentence_id", 23, {"sentence_id": "sentences"}, {}),
        (
            "template",
            2,
            {"template": "templates"},
            {},
        ),  # too few, but never what a claim is about unasked
        ("template", 24, {"template": "templates"}, {}),
    ],
    ids=[
        "4 topics",
        "3 topics",
        "2 adjectives",
        "1 adjective",
        "6 categories",
        "5 conditions",
        "3 conditions",
        "12 constructs",
        "24 sentence ids",
        "23 sentence ids",
        "2 templates",
        "24 templates",
    ],
)
def test_random_from_four_levels(column, count, random, fixed):
    """A column whose values recur is a random factor from four levels on and fixed below."""
    assert declared(table(**{column: levels(count)})) == (random, fixed)


def test_column_within_pairs():
    """A column that differs within pairs or repeats another column is no factor."""
    rows = table(topic=levels(4))
    assert declared(rows.assign(place=[f"p{number % 6}" for number in range(len(rows))])) == (
        {"topic": "topics"},
        {},
    )
    assert declared(rows.assign(number=rows["topic"].str[1:])) == ({"topic": "topics"}, {})
    assert declared(rows.assign(number=rows["topic"].str[1:]), fixed="topic") == (
        {"pair_id": "pairs"},
        {"topic": "topics"},
    )
    both = table(topic=levels(4), topic_id=levels(5), place=levels(2), mood=levels(3))
    assert declared(both) == (
        {"topic": "topics", "topic_id": "values of topic_id"},
        {"place": "places", "mood": "moods"},
    )


def test_fixed_columns(tmp_path):
    """A fixed column stays fixed whatever the number of its levels."""
    rows = table(topic=levels(6), mood=levels(5), template=levels(8))
    assert declared(rows) == ({"template": "templates", "topic": "topics", "mood": "moods"}, {})
    expected = {"template": "templates"}, {"topic": "topics", "mood": "moods"}
    for fixed in ("topic,mood", ["topic", "mood"], ("topic, mood",)):
        assert declared(rows, fixed=fixed) == expected
    assert declared(rows, fixed="template")[1] == {"template": "templates"}
    rows.to_csv(tmp_path / "waits.csv", index=False)
    assert own_study(tmp_path / "waits.csv", reference="male", fixed="mood").experiments[
        0
    ].design.fixed == {"mood": "moods"}
    (tmp_path / "folder").mkdir()
    rows.to_csv(tmp_path / "folder" / "prompts.csv", index=False)
    toml = 'name = "waits"\ntitle = "t"\n[compares]\nreference = "male"\n'
    toml += '[design]\nrandom = ["mood"]\nfixed = ["topic"]\n'
    (tmp_path / "folder" / "study.toml").write_text(toml)
    experiment = open_study(tmp_path / "folder").experiments[0]
    assert experiment.design.random == {
        "mood": "moods",
        "template": "templates",
    }  # what is declared, and what recurs
    assert experiment.design.fixed == {"topic": "topics"}
    with pytest.raises(
        UsageError,
        match="says reference, group, words, unit, range, fixed columns and shared fills",
    ):
        open_study(tmp_path / "folder", fixed="topic")


@pytest.mark.parametrize(
    ("fixed", "sentence"),
    [
        ("topics", "fixed names the column 'topics', and no table has it. Did you mean topic?"),
        ("colour", "fixed names the column 'colour', and no table has it. Correct it."),
        ("group", "'group' differs within a pair, expected one value. Take it out."),
        ("place", "'place' differs within a pair, expected one value. Take it out."),
        (
            "pair",
            "fixed names the pairs, and every interval is about other pairs too. Take it out.",
        ),
        ("condition", "fixed names the column 'condition', and no table has it."),
    ],
    ids=["misspelt", "unknown", "group", "differs within pairs", "pairs", "column of the package"],
)
def test_wrong_fixed_column(fixed, sentence):
    """A fixed column that cannot be one is refused with the reason."""
    rows = table(topic=levels(6))
    rows = rows.assign(place=[f"p{number % 6}" for number in range(len(rows))])
    (fault,) = check_study(rows, reference="male", fixed=fixed).faults
    assert fault.startswith(sentence)
    with pytest.raises(StudyError) as refused:
        open_study(rows, reference="male", fixed=fixed)
    assert sentence in str(refused.value)


def test_fixed_and_random_column(tmp_path):
    """A folder with a column that is fixed and random is refused with its line."""
    new_study(tmp_path / "at_work")
    edited(
        tmp_path / "at_work", "study.toml", ("[shows]", 'fixed = ["themes",\n  "words"]\n[shows]')
    )
    assert check_study(tmp_path / "at_work").faults == [
        "study.toml:17: fixed names the column 'themes', and no table has it. Did you mean theme?",
        "study.toml:18: 'words' is in both random and fixed. Remove it from one.",
    ]


def test_columns_of_every_table(tmp_path):
    """Columns of templates, slots and conditions of a folder are factors, whatever random names
    besides."""
    new_study(tmp_path / "at_work")
    experiment = open_study(tmp_path / "at_work").experiments[1]
    assert experiment.design.random == {
        "template": "templates",
        "words": "pairs of words",
        "condition": "conditions",
    }
    assert experiment.design.fixed == {"theme": "themes", "field": "fields"}
    folder = tmp_path / "at_work"
    lines = (folder / "slots.csv").read_text().splitlines()
    ages = [
        f"{line},{'age' if number == 0 else (number + 1) // 2}" for number, line in enumerate(lines)
    ]
    (folder / "slots.csv").write_text("\n".join(ages) + "\n")
    edited(
        folder,
        "conditions.csv",
        ("a mechanic,technical", "a mechanic,workshop"),
        ("a teacher,care", "a teacher,x"),
    )
    edited(
        folder,
        "study.toml",
        ('random = ["template", "words", "condition"]', 'random = ["template"]'),
    )
    for experiment in open_study(folder).experiments[1:]:
        assert experiment.design.random == {
            "template": "templates",
            "words": "pairs of words",
            "condition": "conditions",
            "field": "fields",
        }
        assert experiment.design.fixed == {"theme": "themes"}
        assert experiment.design.equal_levels


def test_levels_weigh_alike(tmp_path):
    """Levels weigh the same in prompts of a user but not in rankings, which are balanced and whose
    gaps are differences of selection rates."""
    assert first(table()).design.equal_levels
    new_study(tmp_path / "hire", "ranking")
    (ranking,) = open_study(tmp_path / "hire").experiments
    assert (ranking.design.equal_levels, ranking.design.random, ranking.design.fixed) == (
        False,
        {"names": "sets of names"},
        {"condition": "jobs"},
    )
    cvs = (tmp_path / "hire" / "cvs.csv").read_text()
    head, body = cvs.split("\n", 1)
    more = [
        body.replace("\nnurse,", f"\n{job},").replace("\nelectrician,", f"\n{job},")
        for job in ("cook", "clerk")
    ]
    more = [
        part.replace("nurse,", f"{job},", 1)
        for part, job in zip(more, ("cook", "clerk"), strict=True)
    ]
    (tmp_path / "hire" / "cvs.csv").write_text(
        "\n".join([head, body.strip("\n"), *(one.strip("\n") for one in more)])
    )
    (ranking,) = open_study(tmp_path / "hire").experiments
    assert ranking.design.random == {"names": "sets of names", "condition": "jobs"}
    assert not load_study("occupation_sentiment").experiments[0].design.equal_levels


def test_factors_of_several_groups():
    """Several groups have the same factors, each with its names."""
    names = {"female": ["Emily", "Anne"], "male": ["Greg", "Todd"], "nb": ["Sky", "Ash"]}
    rows = [
        {
            "text": f"{names[group][number % 2]} waited {pair} hours.",
            "group": group,
            "pair": f"{pair}-{number}",
            "topic": f"t{pair % 5}",
            "mood": f"m{pair % 2}",
        }
        for pair in range(10)
        for number in range(2)
        for group in names
    ]
    experiment = first(pd.DataFrame(rows))
    assert experiment.design.random["topic"] == "topics"
    assert "topic" not in experiment.design.random_of
    assert all(
        "topic" in gap.design.random and gap.design.fixed == {"mood": "moods"}
        for gap in experiment.gaps
    )
    chosen = first(pd.DataFrame(rows), fixed="topic")
    assert all(
        "topic" not in gap.design.random and set(gap.design.fixed) == {"topic", "mood"}
        for gap in chosen.gaps
    )


def test_fixed_on_command_line_and_python(tmp_path, monkeypatch, capsys):
    """The command line and Python fix columns alike."""
    pytest.importorskip("torch", reason="needs torch: pip install 'swapbias[models]'")
    from swapbias.cli import app

    monkeypatch.chdir(tmp_path)
    table(topic=levels(6), mood=levels(5)).to_csv("waits.csv", index=False)
    own = ["--prompts", "waits.csv", "--reference", "male"]
    app(
        ["audit", "vader", *own, "-M", "fixed=topic", "-M", "fixed=mood", "--out", "run"],
        standalone_mode=False,
    )
    assert (
        'fixed = ["topic", "mood"]'
        in (tmp_path / "run" / "studies" / "waits" / "study.toml").read_text()
    )
    Run.open(tmp_path / "run")
    assert load_study("waits").experiments[0].design.fixed == {"topic": "topics", "mood": "moods"}
    swapbias.audit("vader", prompts="waits.csv", reference="male", fixed=["mood"], progress=False)
    assert load_study("waits").experiments[0].design.fixed == {"mood": "moods"}
    with pytest.raises(UsageError, match="fixed and shared_fills are about own prompts"):
        swapbias.audit("vader", fixed="mood")
    with pytest.raises(UsageError, match=r"own prompts\. Add --prompts"):
        app(["plan", "vader", "-M", "fixed=mood"], standalone_mode=False)
    capsys.readouterr()
    with pytest.raises(StudyError, match=r"fixed names the column 'moods'.*Did you mean mood\?"):
        app(["plan", "vader", *own, "-M", "fixed=moods"], standalone_mode=False)


WOMEN = ["Emily", "Anne", "Jill", "Sarah", "Laurie"]
MEN = ["Greg", "Todd", "Neil", "Jay", "Brett"]


def named_table(text="{name} was late for work.", prompts=1, **columns):
    return pd.DataFrame(
        [
            {
                "text": text.format(name=name, prompt=prompt),
                "group": group,
                "pair": f"{prompt}-{number}",
            }
            | columns
            for prompt in range(prompts)
            for number, pair in enumerate(zip(WOMEN, MEN, strict=True))
            for group, name in zip(("female", "male"), pair, strict=True)
        ]
    )


@pytest.mark.parametrize(
    "rows",
    [
        named_table(),
        named_table("{name} said: “I was late.” Was {name} right?"),
        named_table(template="late"),
        named_table().assign(name=lambda rows: rows["text"].str.split().str[0]),
        named_table("{name}迟到了。"),
        named_table("{name} was <mask>.").assign(candidates="late|early"),
    ],
    ids=["no column", "name twice", "column template", "column name", "Chinese", "mask"],
)
def test_one_text_with_several_names(rows):
    """One text with several names is one template."""
    experiment = first(rows)
    assert list(experiment.design.random) == ["template", "fill_pair"]
    assert experiment.design.random["template"] == "templates"
    prompts = pd.DataFrame(config_rows("waits", experiment.reads.configs[0]))
    assert (prompts["template"].nunique(), (prompts["template"] == "").any()) == (1, False)
    chosen = first(rows, fixed=["template"])
    assert (list(chosen.design.random), chosen.design.fixed) == (
        ["fill_pair"],
        {"template": "templates"},
    )
    prompts = pd.DataFrame(config_rows("waits", chosen.reads.configs[0]))
    assert (prompts["template"].nunique(), (prompts["template"] == "").any()) == (1, False)


def test_texts_of_no_template():
    """Texts that are not of one template stay without one."""
    assert declared(table(40)) == ({"pair_id": "pairs"}, {})
    assert declared(table(40), fixed="template") == (
        {"pair_id": "pairs"},
        {"template": "templates"},
    )
    assert list(first(named_table("{name} waited {prompt} hours.", prompts=2)).design.random) == [
        "template",
        "fill_pair",
    ]
    languages = [
        ("Llego tarde.", "I am late."),
        ("Me voy.", "I leave now."),
        ("Hola a todos.", "Hello, folks."),
    ]
    rows = [
        {"text": text, "group": group, "pair": str(pair)}
        for pair, texts in enumerate(languages)
        for group, text in zip(("female", "male"), texts, strict=True)
    ]
    assert "template" not in first(pd.DataFrame(rows)).design.random  # they share a period alone
    one_word = named_table("{name} left.").replace(
        dict.fromkeys(WOMEN, "She") | dict.fromkeys(MEN, "He"), regex=True
    )
    assert declared(one_word) == ({"pair_id": "pairs"}, {})


def test_folder_with_one_template(tmp_path):
    """A folder with one template declares it as fixed or random."""
    new_study(tmp_path / "at_work")
    folder = tmp_path / "at_work"
    lines = (folder / "templates.csv").read_text().splitlines()
    (folder / "templates.csv").write_text("\n".join([*lines[:2], lines[6]]) + "\n")
    lines = (folder / "wordings.csv").read_text().splitlines()
    kept = [line for line in lines if line.startswith(("template_id", "works", "mask_tired"))]
    (folder / "wordings.csv").write_text("\n".join(kept) + "\n")
    for random, rest in (
        ('["template", "words", "condition"]', "condition"),
        ('["words"]', "pair_id"),
    ):
        text = (folder / "study.toml").read_text()
        (folder / "study.toml").write_text(re.sub(r"random = \[.*?\]", f"random = {random}", text))
        masked, classifier, _ = open_study(folder).experiments
        assert set(masked.design.random) == {
            "template",
            rest,
        }  # of which each mask has another condition
        assert set(classifier.design.random) == {"template", "words", "condition"}
    edited(folder, "study.toml", ("[shows]", 'fixed = ["template"]\n[shows]'))
    masked, classifier, _ = open_study(folder).experiments
    assert (set(masked.design.random), masked.design.fixed["template"]) == (
        {"pair_id"},
        "templates",
    )
    assert (set(classifier.design.random), classifier.design.fixed["template"]) == (
        {"words", "condition"},
        "templates",
    )


def test_one_template_of_several_groups():
    """One template is one for each of several groups."""
    names = {"female": WOMEN, "male": MEN, "nb": ["Sky", "Ash", "Wren", "Sage", "Ari"]}
    rows = pd.DataFrame(
        [
            {
                "text": f"{names[group][number]} was late for work.",
                "group": group,
                "pair": str(number),
            }
            for number in range(5)
            for group in names
        ]
    )
    experiment = first(rows)
    assert experiment.design.random["template"] == "templates"
    assert all("template" in gap.design.random for gap in experiment.gaps)
    assert all(
        gap.design.fixed == {"template": "templates"} for gap in first(rows, fixed="template").gaps
    )
