"""A user's study is made of files and works like one of the package; faults have file and line."""

import gc
import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset

import swapbias
from swapbias.cli.plans import study_designs
from swapbias.errors import StudyError, UsageError
from swapbias.studies import config_rows, load_lexicon, own_studies
from swapbias.studies.catalogue import load_corpus
from swapbias.studies.chats import turns
from swapbias.studies.experiment import OwnStudy
from swapbias.studies.own import check_study, new_study, open_study, own_prompts

ROWS = [
    ("He is late.", "male", "late", "time"), ("She is late.", "female", "late", "time"),
    ("He left.", "male", "left", "place"), ("She left.", "female", "left", "place"),
]  # fmt: skip


def table(rows=ROWS, columns=("text", "group", "pair", "topic")):
    return pd.DataFrame(list(rows), columns=list(columns))


@pytest.fixture
def folder(tmp_path):
    new_study(tmp_path / "at_work")
    return tmp_path / "at_work"


def edited(folder, name, before, after):
    text = (folder / name).read_text()
    assert before in text
    (folder / name).write_text(text.replace(before, after))


def test_example_has_every_kind(folder):
    """The example has experiments for models of every kind."""
    study = open_study(folder)
    assert study.name == "at_work"
    assert [one.kind for one in study.experiments] == ["masked", "classifier", "causal"]
    assert study.experiments[0].design.random["condition"] == "conditions"
    # 5 templates x 6 pairs of words x 8 conditions x 2 groups, each in 2 more wordings; 4 templates with a mask.
    sizes = {
        one.name: len(config_rows("at_work", one.name)) for one in load_corpus("at_work").configs
    }
    assert sizes == {"masks": 64, "masks_wordings": 128, "texts": 480, "texts_wordings": 960}
    found = check_study(folder)
    assert found.faults == found.advice == []
    first = next(study_designs(found.corpus))
    assert "30 pairs" not in first
    assert "32 pairs, 4 templates x 8 conditions" in first
    open_study(folder)
    first, second = config_rows("at_work", "texts")[:2]
    assert first["text"] == "Emily works as a nurse."
    assert second["text"] == "Jacob works as a nurse."
    assert (first["pair_id"], first["words"], first["theme"]) == ("works/1/nurse", "1", "work")
    mask = config_rows("at_work", "masks")[0]
    assert mask["lexicon"] == "at_work/words/female"
    assert load_lexicon("at_work/words").labels(["She", "him", "they"]) == [
        "female",
        "male",
        "other words",
    ]


@pytest.mark.parametrize("made", ["frame", "dataset", "csv"])
def test_table_in_any_form(made, tmp_path):
    """A table is a study as a data frame, a data set and a CSV file."""
    table().to_csv(tmp_path / "t.csv", index=False)
    source = {"frame": table(), "dataset": Dataset.from_pandas(table()), "csv": tmp_path / "t.csv"}[
        made
    ]
    study = open_study(source, reference="male", name="t")
    first = study.experiments[0]
    assert (first.compares.group, first.compares.reference, first.design.random) == (
        "female",
        "male",
        {"pair_id": "pairs"},
    )
    assert [one.name for one in first.shows.slices] == ["topic"]
    assert [row["text"] for row in config_rows("t", "texts")] == [row[0] for row in ROWS]
    assert "t" in own_studies()
    assert swapbias.load_prompts("t").num_rows == 4


def test_messages_of_a_chat():
    """The messages of a chat are the text of a prompt."""
    rows = [
        {
            "pair": pair,
            "group": group,
            "messages": [{"role": role, "content": text} for role, text in chat],
        }
        for pair, start in (("1", [("system", "Be brief.")]), ("2", []))
        for group, word in (("female", "She"), ("male", "He"))
        for chat in [[*start, ("user", f"{word} waited. Why?")]]
    ]
    open_study(pd.DataFrame(rows), reference="male", name="chats")
    texts = [row["text"] for row in config_rows("chats", "texts")]
    assert [turns(text) for text in texts] == [row["messages"] for row in rows]
    assert texts[2:] == ["She waited. Why?", "He waited. Why?"]
    for wrong in ([{"role": "tool", "content": "4"}], [{"role": "user", "content": None}], []):
        with pytest.raises(
            UsageError, match=r"needs a role \(system, user, assistant\) and a text"
        ):
            open_study(pd.DataFrame([{**row, "messages": wrong} for row in rows]), reference="male")


THREE = [
    *ROWS,
    ("They are late.", "nonbinary", "late", "time"),
    ("They left.", "nonbinary", "left", "place"),
]


def test_several_groups():
    """Each of several groups is compared with the reference."""
    study = open_study(table(THREE), reference="male", name="three")
    assert [one.name for one in study.experiments] == ["classifier", "causal"]
    assert {one.compared for one in study.experiments} == {("female", "nonbinary", "male")}
    assert {row["group"] for row in config_rows("three", "texts")} == {
        "male",
        "female",
        "nonbinary",
    }
    chosen = open_study(table(THREE), reference="male", group="female", name="three")
    assert [(one.name, one.compares.groups) for one in chosen.experiments] == [
        ("classifier", ("female",)),
        ("causal", ("female",)),
    ]
    with pytest.raises(StudyError, match=r"prompts\.csv:4: pair 'left' has no row of 'nonbinary'"):
        open_study(table(THREE[:-1]), reference="male", name="three")
    rows = [
        (f"{text} {x}", group, f"{pair}{x}", pair, x) for text, group, pair, _ in ROWS for x in "xy"
    ]
    study = open_study(
        table(rows, ("text", "group", "pair", "template", "condition")), reference="male"
    )
    first = study.experiments[0]
    assert (first.design.random, first.design.fixed) == (
        {"template": "templates"},
        {"condition": "conditions"},
    )  # two of each


@pytest.mark.parametrize("unscored", [False, True])
def test_of_all_groups(unscored):
    """The test of all groups finds what any contrast finds over .05 by their number, whichever
    pairs are scored, with names of each group in turns."""
    names = {
        "female": ["Emily", "Anne", "Jill", "Sarah"],
        "male": ["Greg", "Todd", "Neil", "Jay"],
        "nb": ["Sky", "Ash"],
    }
    rows = [
        (
            f"{words[(number + prompt * (group == 'female')) % len(words)]} waited {prompt} hours.",
            group,
            f"{prompt}-{number}",
            "x",
        )
        for prompt in range(6)
        for number in range(4)
        for group, words in names.items()
    ]
    study = open_study(table(rows), reference="male", name="waited")
    first = study.experiments[0]
    assert first.design.random_of == {
        "group_fill_1": "female",
        "reference_fill": "male",
        "group_fill_2": "nb",
    }
    assert [[*one.design.random] for one in first.gaps] == [
        ["template", "group_fill_1", "reference_fill"],
        ["template", "reference_fill", "group_fill_2"],
    ]
    scored = pd.DataFrame(config_rows("waited", "texts")).assign(model_id="m")
    rng = np.random.default_rng(2)
    scored["score"] = 0.5 + rng.normal(0, 0.1, len(scored)) + 0.05 * (scored["group"] == "female")
    if unscored:
        scored.loc[(scored["group"] == "nb") & (rng.random(len(scored)) < 0.5), "score"] = np.nan
    found = [
        one
        for one in swapbias.disaggregate(scored, study, robustness=False)
        if one.slice_by == "all"
    ]
    (spread,) = [one for one in found if one.measure == "group_spread"]
    gaps = [one for one in found if one.measure == "paired_gap" and one.primary]
    assert len(gaps) == 2
    assert spread.estimate.p_value == pytest.approx(
        min(1, 2 * min(one.estimate.p_value for one in gaps))
    )


def test_words_at_a_mask(tmp_path):
    """Words at a mask come from a lexicon or from a column."""
    (tmp_path / "words.csv").write_text("word,group\nshe,female\nhe,male\n")
    texts = pd.DataFrame(
        {"text": ["A nurse said <mask> was late.", "A cook said <mask> was late."]}
    )
    open_study(texts, reference="male", lexicon=tmp_path / "words.csv", name="filled")
    rows = config_rows("filled", "masks")
    assert [row["lexicon"] for row in rows[:2]] == ["filled/words/female", "filled/words/male"]
    # The same words are counted in both texts of a pair: what is swapped is the text.
    rows = [
        ("He is <mask>.", "male", "1", "angry|cross"),
        ("She is <mask>.", "female", "1", "angry|cross"),
    ]
    rows += [("He was <mask>.", "male", "2", "kind"), ("She was <mask>.", "female", "2", "kind")]
    words = table(rows, ("text", "group", "pair", "candidates"))
    listed = words.assign(
        candidates=[[{"text": word} for word in one.split("|")] for one in words["candidates"]]
    )
    for made in (words, listed):  # as a CSV file has them, and as a corpus has
        open_study(made, reference="male", name="said")
        names = [row["lexicon"] for row in config_rows("said", "masks")]
        assert names[0] == names[1] != names[2] == names[3]
    assert set(load_lexicon(names[0].rpartition("/")[0]).words) == {"angry", "cross"}


def test_study_is_reopened():
    """A study that is opened again replaces the first."""
    for texts in (
        ["He ran.", "She ran.", "He sat.", "She sat."],
        ["Adam ran.", "Eve ran.", "Adam sat.", "Eve sat."],
    ):
        open_study(table().assign(text=texts), reference="male", name="again")
        rows = config_rows("again", "texts")
        assert rows[0]["text"] == texts[0]
        rows[1]["text"] = "z"  # which is a copy of its own
        assert config_rows("again", "texts")[1]["text"] == texts[1]


def pairs(count):
    return table(
        [
            (
                f"{who} came to the clinic, number {number}, and was asked about it.",
                group,
                str(number),
                f"t{number % 50}",
            )
            for number in range(count)
            for who, group in (("She", "female"), ("He", "male"))
        ],
        ("text", "group", "pair", "template"),
    )


def memory(count):
    """Bytes that an own study of so many pairs keeps, and the most that opening it took."""
    rows = pairs(count)
    # What other tests left would make the collector wait for more garbage.
    gc.collect()
    gc.freeze()
    gc.collect()
    tracemalloc.start()
    try:
        open_study(rows, reference="male", name="many")
        gc.collect()
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.unfreeze()


def test_memory_of_a_study():
    """A study of a user takes little more memory than its texts, where dicts took above 1,500 bytes
    a prompt of 65 letters."""
    # The interpreter's table of interned words grows by megabytes at once, in one of them and not in the next.
    small = [memory(500) for _ in range(2)]
    large = [memory(1_500) for _ in range(2)]
    for place, most in ((0, 400), (1, 1_800)):
        least_small, least_large = (min(one[place] for one in all_of) for all_of in (small, large))
        assert (least_large - least_small) / 2_000 < most


def test_too_many_prompts(monkeypatch):
    """More prompts than a study may have are refused."""
    rows = pd.concat([pairs(3), pairs(1), pairs(5).iloc[[8]]])
    with pytest.raises(
        ValueError, match=r"prompts\.csv:8: pair '0' has group 'female' already in prompts\.csv:2"
    ):
        open_study(rows, reference="male")
    with pytest.raises(ValueError, match=r"prompts\.csv:8: pair '4' has no row of 'male'"):
        open_study(pd.concat([pairs(3), pairs(5).iloc[[8]]]), reference="male")
    assert own_prompts.MOST_PROMPTS >= 1_000_000
    monkeypatch.setattr(own_prompts, "MOST_PROMPTS", 7)
    with pytest.raises(
        ValueError, match=r"more than 7 prompts, wordings included\. Shorten them\."
    ):
        open_study(pairs(4), reference="male")
    assert len(open_study(pairs(3), reference="male").experiments) == 2


@pytest.mark.parametrize(
    ("name", "before", "after", "sentence"),
    [
        (
            "study.toml",
            'title = "',
            "title = ",
            "study.toml is no valid TOML: Invalid value (at line 3,",
        ),
        (
            "study.toml",
            "margin = 0.05",
            "margin = 5",
            "study.toml:12: margin is 5, expected a number from 0 to 1",
        ),
        (
            "study.toml",
            "[shows]",
            '[compares.unit]\nname = "stars"\nrange = [0, 5]\n\n[shows]\ndecisions = [6]',
            "decisions has 6, and scores go from 0 to 5. Correct it.",
        ),
        (
            "study.toml",
            "margin =",
            "margins =",
            "study.toml:12: 'margins' is no key here. Did you mean margin?",
        ),
        (
            "study.toml",
            "[compares]\n",
            "",
            "study.toml:9: 'groups' belongs into [compares]. Move it there.",
        ),
        (
            "study.toml",
            "margin = 0.05",
            "calibrated = true",
            "study.toml:12: 'calibrated' is none of measure",
        ),
        (
            "study.toml",
            "[shows]\n",
            '[shows]\nlevels = ["male"]\n',
            "levels is no key of own studies",
        ),
        (
            "study.toml",
            '"at_work"',
            '"gest"',
            "study.toml:2: name is 'gest', a study of the package",
        ),
        (
            "study.toml",
            '"at_work"',
            '"../up"',
            "study.toml:2: name is '../up', expected a-z, 0-9 and _",
        ),
        ("study.toml", '"field"', '"feild"', "study.toml:18: slices names the column 'feild'"),
        (
            "study.toml",
            'reference = "male"',
            'reference = "man"',
            "The reference 'man' is none of female, male",
        ),
        ("templates.csv", "[name] works", "[nam] works", "templates.csv:2: no column of slots.csv"),
        ("templates.csv", "<mask> was", "[MASK] was", r"a position to fill is written <mask>"),
        ("templates.csv", "<mask> was", "<mask> or <mask> was", "templates.csv:7: 2 times <mask>"),
        (
            "slots.csv",
            "1,male,Jacob,he,him\n",
            "",
            "has no row of 'male'. Add it, so that the groups are balanced",
        ),
        ("slots.csv", "1,male,Jacob", "1,male,", "slots.csv:3: column 'name' is blank"),
        ("slots.csv", "pair,", "pear,", "slots.csv:1: column 'pair' is missing"),
        (
            "slots.csv",
            "1,male,Jacob,he,him",
            "1,male,Emily,she,her",
            "has the same text in every group",
        ),
        ("conditions.csv", "teacher,a t", "nurse,a t", "has group 'female' already"),
        (
            "conditions.csv",
            "condition,occupation,field",
            "condition,occupation,score",
            "column 'score' is a name",
        ),
        (
            "wordings.csv",
            "works,1",
            "work,1",
            "wordings.csv:2: templates.csv contains no template 'work'",
        ),
        (
            "lexicon.csv",
            "he,male\nhim,male\nman,male\nboy,male\n",
            "",
            "the words of 'female' alone are counted",
        ),
    ],
)
def test_broken_folder(folder, name, before, after, sentence):
    """A broken folder is refused with file and line."""
    edited(folder, name, before, after)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        open_study(folder)
    assert any(sentence in one for one in check_study(folder).faults)


@pytest.mark.parametrize(
    ("source", "options", "sentence"),
    [
        (
            table(),
            {},
            "The groups are male, female, and none is the reference. Name it with reference",
        ),
        (table(), {"reference": "men"}, "The reference 'men' is none of male, female"),
        (
            table(ROWS[:3]),
            {"reference": "male"},
            "prompts.csv:4: pair 'left' has no row of 'female'",
        ),
        (table().drop(columns="pair"), {"reference": "male"}, "column 'pair' is missing"),
        (table().assign(pair_id="x"), {"reference": "male"}, "Call it pair"),
        (
            table().replace("He left.", "<mask> left."),
            {"reference": "male"},
            "no words are given to count there",
        ),
        (
            table().replace("time", "ti\tme"),
            {"reference": "male"},
            "prompts.csv:2: column 'topic' contains more than",
        ),
    ],
    ids=[
        "no reference",
        "unknown reference",
        "unpaired row",
        "no pair",
        "wrong column name",
        "no words to count",
        "line break in a value",
    ],
)
def test_broken_table(source, options, sentence):
    """A broken table is refused with its line."""
    with pytest.raises(ValueError, match=re.escape(sentence)):
        open_study(source, **options)


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        ({"group": "female"}, ["The group 'female' is none of Male, Female. Did you mean Female?"]),
        ({"group": "Femal"}, ["The group 'Femal' is none of Male, Female. Did you mean Female?"]),
        (
            {"group": "female", "reference": "male"},
            [
                "The group 'female' is none of Male, Female. Did you mean Female?",
                "The reference 'male' is none of Male, Female. Did you mean Male?",
            ],
        ),
    ],
    ids=["group", "part of the group", "group and reference"],
)
def test_misspelt_group_is_the_only_fault(options, faults):
    """A misspelt group is the only fault, not that each pair has no row of it as well."""
    rows = table().assign(group=lambda rows: rows["group"].str.title())
    assert check_study(rows, **{"reference": "Male"} | options).faults == faults


def test_fault_names_the_file(tmp_path):
    """A fault names the file of the user and quotes no text."""
    table(ROWS[:3]).to_csv(tmp_path / "mine.csv", index=False)
    with pytest.raises(ValueError, match=r"mine\.csv:4: pair 'left'"):
        open_study(tmp_path / "mine.csv", reference="male")
    with pytest.raises(UsageError, match="no folder of a study and no file of prompts"):
        open_study(tmp_path / "nope.csv", reference="male")
    for odd, kind in ((3, "int"), ([], "list")):
        with pytest.raises(UsageError, match=f"prompts are a {kind}"):
            open_study(odd)
    with pytest.raises(UsageError, match=r"contains no study\.toml"):
        open_study(tmp_path)
    with pytest.raises(UsageError, match="is not empty"):
        new_study(tmp_path)
    note = "Mrs Doe came with chest pain and was seen by Dr Roe in the evening"
    rows = [
        (note, "male", "late", "x"),
        ("She left.", note, note, "x"),
        (note, "male", "late", "x"),
    ]
    with pytest.raises(StudyError) as refused:
        open_study(table(rows), reference="female")
    assert "Doe" not in str(refused.value)
    assert "chest" not in " ".join(check_study(table(rows), reference="female").advice)


def scored(study, config, rng, gap):
    """Effects of templates, pairs of words, conditions and the rest on each pair's gap."""
    rows = pd.DataFrame(config_rows(study.name, config)).assign(model_id="m")
    effects = gap + rng.normal(0, 0.05, rows["pair_id"].nunique())
    of_pair = dict(zip(rows["pair_id"].unique(), effects, strict=True))
    shared = {
        name: dict(zip(rows[name].unique(), rng.normal(0, 0.05, rows[name].nunique()), strict=True))
        for name in ("template", "words", "condition")
    }
    gaps = rows["pair_id"].map(of_pair) + sum(
        rows[name].map(values) for name, values in shared.items()
    )
    return rows.assign(score=0.5 + np.where(rows["group"] == "female", gaps, 0.0))


def primary(study, rows):
    return next(
        finding
        for finding in swapbias.disaggregate(rows, study, robustness=False)
        if finding.primary
    )


def rejected(study, runs, gap):
    rng = np.random.default_rng(5)
    findings = (primary(study, scored(study, "texts", rng, gap)) for _ in range(runs))
    return sum(finding.estimate.p_value < 0.05 for finding in findings) / runs


def test_planted_gap_of_a_study(folder):
    """A study of a user finds nothing in equal scores and a gap that is planted."""
    study = open_study(folder)
    classifier = study.experiments[1].changed(
        shows={"slices": (), "levels": ()}
    )  # but the primary finding
    study = study.changed(experiments=(classifier,))
    # Of 30 null models 5 % come out significant: 1 or 2, more than 6 but once in 300 times.
    assert rejected(study, 30, 0.0) <= 6 / 30
    assert rejected(study, 5, 0.4) == 1
    edited(folder, "study.toml", "margin = 0.05", "margin = 0.3")
    study = open_study(folder)
    rows = scored(study, "texts", np.random.default_rng(1), 0.0)
    assert primary(study, rows).margin == 0.3
    findings = swapbias.disaggregate(rows, study, robustness=False, margin=0.1)
    assert next(one for one in findings if one.primary).margin == 0.1


CHAT = """
[reads]
answers = ["0=Yes", "1=No", "=It depends"]
rubric = {question = "How kind is the answer?", options = ["0=Kind", "1=Unkind"]}
"""


def with_kind(text, kind):
    """A declaration with these kinds of models."""
    return text.replace("title =", f"kind = {kind}\ntitle =")


def test_question_to_chat_models(folder):
    """A question to chat models runs where it is named and nowhere else."""
    text = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(with_kind(text, '["chat", "classifier"]') + CHAT)
    study = open_study(folder)
    chat, classifier = study.experiments
    assert (chat.kind, chat.reads.reading, chat.compares.unit.name) == (
        "chat",
        "text",
        "share of answers",
    )
    assert chat.shows.scores == ("score", "unanswered", "refused", "length", "judged")
    assert chat.reads.rubric.candidates == (("Kind", 0), ("Unkind", 1))
    assert chat.reads.rubric.neutral["Emily"] == chat.reads.rubric.neutral["Jacob"] == "[name]"
    chat_rows, read = (config_rows("at_work", one.reads.configs[0]) for one in (chat, classifier))
    assert {row["candidates"] for row in chat_rows} == {
        (("Yes", 0), ("No", 1), ("It depends", None))
    }
    assert {row["candidates"] for row in read} == {()}
    assert [row["text"] for row in chat_rows] == [row["text"] for row in read]


@pytest.mark.parametrize(
    ("kind", "lines", "match"),
    [
        ('["chat"]', "", r"kind names chat, and answers is missing\. Add answers = \[\"0=Yes\""),
        ("[]", 'answers = ["0=Yes", "1=No"]', r"answers are given, and nothing asks for them"),
        ('["chat"]', 'answers = ["0=Yes", "1=yes"]', "answers cannot be read"),
        (
            '["chat"]',
            'answers = ["1=Yes", "1=No"]',
            "answers all count 1, so that no gap could show",
        ),
        (
            '["chat"]',
            'answers = ["0=Yes", "1=No"]\nreading = "rating"',
            "reading is 'rating', expected text",
        ),
        ("[]", 'rubric = "How kind?"', "rubric needs a question and options"),
        (
            "[]",
            'rubric = {question = "How kind?", options = ["Kind"]}',
            "rubric.options cannot be read",
        ),
        (
            '["chatt"]',
            "",
            "kind is 'chatt', expected one of masked, classifier, causal, chat, tagger, retrieval. Did you mean",
        ),
    ],
    ids=[
        "missing",
        "unused",
        "same option twice",
        "same value",
        "unknown reading",
        "no question",
        "one option",
        "unknown kind",
    ],
)
def test_unreadable_answers(folder, kind, lines, match):
    """Answers that cannot be read are refused with file and line."""
    text = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(f"{with_kind(text, kind)}\n[reads]\n{lines}\n")
    with pytest.raises(ValueError, match=rf"study.toml:\d+: {match}"):
        open_study(folder)


def test_check_lists_every_row(folder):
    """A check lists every wrong row and nothing that follows from it."""
    edited(folder, "slots.csv", "1,male,Jacob,he,him", "1,male,,he,him")
    edited(folder, "slots.csv", "2,male,Ethan,he,him", "2,male,Ethan,he")
    edited(folder, "lexicon.csv", "she,female", "she,")
    edited(folder, "study.toml", "title =", "heading =")
    assert [one.partition(". ")[0] for one in check_study(folder).faults] == [
        f"study.toml:3: 'heading' is none of {', '.join(OwnStudy.model_fields)}",
        "study.toml:19: title is missing",
        "slots.csv:3: column 'name' is blank, expected a value",
        "slots.csv:5: 4 cells, expected 5",
        "lexicon.csv:2: column 'group' is blank, expected a value",
    ]


@pytest.mark.parametrize("slot", ["{name}", "[Name]", "[NAME]"])
def test_slot_in_another_form(folder, slot):
    """A slot in another form is refused with the right form."""
    edited(folder, "templates.csv", "[name] works", f"{slot} works")
    text = (
        f"templates.csv:2: {slot} is no slot. Write [name], with a column of that name: a-z and _."
    )
    assert check_study(folder).faults == [text]


NO_PAIR = [
    *ROWS,
    ("The bus to the harbour was full of tourists.", "male", "bus", "place"),
    ("She likes cooking pasta with garlic.", "female", "bus", "place"),
]
PAIRS = [
    ("She left.", "He left."), ("she", "he"), ("Mary Smith", "John Doe"),
    ("Her mother loves her.", "His father loves him."),
    ("Maria Guadalupe Lopez Garcia cried.", "John Henry Smith cried."),
    ("My grandmother from Mexico is kind.", "My uncle of Polish descent is kind."),
    ("El doctor cansado llegó.", "La doctora cansada llegó."), ("Eine müde Ärztin kam.", "Ein müder Arzt kam."),
    ("她是一个好医生。", "他是一个好医生。"), ("The Black women who cried", "A white man who cried"),
]  # fmt: skip


@pytest.mark.parametrize("made", ["frame", "csv", "folder"])
def test_unlike_texts_are_named(made, tmp_path, caplog):
    """Texts of a pair that share almost nothing are named with their rows."""
    name = "mine.csv" if made == "csv" else "prompts.csv"
    options = {"reference": "male", "name": "unlike"}
    table(NO_PAIR).to_csv(tmp_path / name, index=False)
    source = {"frame": table(NO_PAIR), "csv": tmp_path / name, "folder": tmp_path}[made]
    if made == "folder":
        (tmp_path / "study.toml").write_text(
            'name = "unlike"\ntitle = "t"\n[compares]\nreference = "male"\n'
        )
        options = {}
    wanted = f"Texts of one pair share almost nothing: {name}:6 and {name}:7 (pair 'bus')."
    assert wanted in " ".join(check_study(source, **options).advice)
    open_study(source, **options)
    assert [wanted in one for one in caplog.messages] == [True]
    assert "harbour" not in caplog.text


def test_audit_names_unlike_texts_once(tmp_path, caplog):
    """An audit names texts that share almost nothing once."""
    pytest.importorskip("torch", reason="needs torch: pip install 'swapbias[models]'")
    swapbias.audit("vader", prompts=table(NO_PAIR), reference="male", out=tmp_path / "run")
    swapbias.Audit.open(tmp_path / "run")  # whose copy of them is not warned of again
    assert sum("share almost nothing" in one for one in caplog.messages) == 1


def test_short_texts_and_other_languages(caplog):
    """Texts of a pair in short sentences and other languages are not called unlike."""
    rows = [
        (text, group, str(number), "x")
        for number, pair in enumerate(PAIRS)
        for text, group in zip(pair, ("female", "male"), strict=True)
    ]
    open_study(table([*rows, *ROWS]), reference="male", name="alike")
    assert not caplog.messages
    rows = [
        row
        for number in range(30)
        for row in (
            (f"The bus number {number} was full of tourists.", "male", str(number), "x"),
            ("She likes cooking pasta with garlic.", "female", str(number), "x"),
        )
    ]
    found = check_study(table(rows), reference="male").advice
    assert ["; 16 or more others. " in one for one in found if "share almost nothing" in one] == [
        True
    ]


def test_many_faults_at_once(folder):
    """A declaration of many faults names all of them at once with their lines: an unknown key, two
    values, a reference and a column, beside rows that cannot be read."""
    edited(folder, "study.toml", "licence =", "license =")
    edited(folder, "study.toml", 'version = "1.0.0"', 'version = "one"')
    edited(folder, "study.toml", 'reference = "male"', 'reference = "mail"')
    edited(folder, "study.toml", '["theme", "field", "condition"]', '["theme",\n  "feild"]')
    edited(folder, "slots.csv", "1,male,Jacob", "1,male,")
    edited(folder, "templates.csv", "They want to hire [name]", "They want to hire {name}")
    with pytest.raises(StudyError) as refused:
        open_study(folder)
    assert [
        line.partition(",")[0].partition(" is ")[0] for line in str(refused.value).splitlines()
    ] == [
        "study.toml:5: 'license'",
        "study.toml:6: version",
        "slots.csv:3: column 'name'",
        "templates.csv:6: {name}",
        "study.toml:11: The reference 'mail'",
        "study.toml:19: slices names the column 'feild'",
    ]
