"""A name or word that stands for two groups: labels that are swapped in some pairs average to no gap."""

import pandas as pd
import pytest

import swapbias
from swapbias.errors import StudyError, UsageError
from swapbias.studies.own import check_study, new_study, open_study
from swapbias.studies.own.text_pairs import difference
from swapbias.swapping import check_study as check_prompts

WOMEN = ["Emily", "Anne", "Jill", "Sarah"]
MEN = ["Greg", "Todd", "Neil", "Jay"]
JOBS = ["nurse", "cook", "clerk", "driver", "judge", "baker"]
PRONOUN_PAIRS = [(f"She is a {job}.", f"He is a {job}.") for job in JOBS]
NAME_PAIRS = [
    (f"{woman} is a {job}.", f"{man} is a {job}.")
    for job in JOBS
    for woman, man in zip(WOMEN, MEN, strict=True)
]
ADVICE = (
    "Correct the group of one. If both are meant, set shared_fills = true (-M shared-fills=true)."
)


def table(pairs, groups=("female", "male")):
    return pd.DataFrame(
        [
            {"text": text, "group": group, "pair": str(number)}
            for number, texts in enumerate(pairs)
            for group, text in zip(groups, texts, strict=True)
        ]
    )


def swap_labels(pairs, every=2):
    """The pairs, of which every so many has its labels the wrong way round."""
    return [texts[::-1] if number % every else texts for number, texts in enumerate(pairs)]


def check(pairs, groups=("female", "male"), **options):
    return check_study(table(pairs, groups), reference=groups[-1], **options).faults


def test_swapped_labels():
    """Labels that are swapped in some pairs are refused with both rows."""
    assert check(swap_labels(PRONOUN_PAIRS)) == [
        f"prompts.csv:4: 'He' stands for 'female' here and for 'male' in prompts.csv:3. {ADVICE}",
        f"prompts.csv:5: 'She' stands for 'male' here and for 'female' in prompts.csv:2. {ADVICE}",
    ]
    with pytest.raises(StudyError, match=r"set shared_fills = true \(shared_fills=True\)"):
        open_study(table(swap_labels(PRONOUN_PAIRS)), reference="male")
    assert check(swap_labels(PRONOUN_PAIRS), shared_fills=True) == check(PRONOUN_PAIRS) == []


@pytest.mark.parametrize(
    "pairs",
    [
        swap_labels(NAME_PAIRS, 5),
        [*NAME_PAIRS, ("Greg left.", "Bill left.")],
        swap_labels([("She lost her keys.", "He lost his keys."), ("She is late.", "He is late.")]),
        swap_labels(
            [
                (f"{one} lost her {job} job.", f"{two} lost his {job} job.")
                for job in JOBS
                for one, two in zip(WOMEN, MEN, strict=True)
            ],
            3,
        ),
        swap_labels(
            [("La doctora llegó.", "El doctor llegó."), ("La doctora habla.", "El doctor habla.")]
        ),
        swap_labels([("她是医生。", "他是医生。"), ("她是教师。", "他是教师。")]),
        swap_labels([("Call 王丽 now.", "Call 李强 now."), ("王丽 left.", "李强 left.")]),
        swap_labels([("My gay friend left.", "My friend left."), ("A gay man sat.", "A man sat.")]),
        swap_labels(
            [("The widow is late.", "The widower is late."), ("A widow left.", "A widower left.")]
        ),
    ],
    ids=[
        "names",
        "a name",
        "pronouns",
        "with pronouns",
        "Spanish",
        "Chinese",
        "Chinese names",
        "added",
        "nouns",
    ],
)
def test_names_and_words(pairs):
    """Swapped names and words of any kind are found."""
    faults = check(pairs)
    assert faults
    assert all(" stands for " in one and one.endswith(ADVICE) for one in faults)


@pytest.mark.parametrize(
    "pairs",
    [
        PRONOUN_PAIRS,
        NAME_PAIRS,
        [("Emily helped Greg.", "Greg helped Emily."), ("Greg saw Emily.", "Emily saw Greg.")],
        [("She told her husband.", "He told his wife."), ("The wife left.", "The husband left.")],
        [("She met him.", "He met her."), ("We saw her.", "We saw him.")],
        [
            ("She is late.", "She be late."),
            ("They are late.", "They is late."),
            ("I don't.", "I ain't."),
            ("He doesn't.", "He don't."),
        ],
        [("Jordan lost her keys.", "Jordan lost his keys."), ("Emily is late.", "Greg is late.")],
        [("Emily Jordan left.", "Greg Jordan left."), ("Emily Lee left.", "Greg Lee left.")],
        [("A pregnant woman came.", "A man came."), ("A woman left.", "A tall man left.")],
    ],
    ids=[
        "pronouns",
        "names",
        "both names",
        "husband and wife",
        "object and subject",
        "verbs",
        "name of both groups",
        "last names",
        "adjectives",
    ],
)
def test_words_that_are_no_fill(pairs):
    """Words of both texts, and words that agree with others, are no fill."""
    assert check(pairs) == []


def test_several_groups_share_no_fill():
    """No two of several groups share a fill."""
    groups = ("female", "nb", "male")
    pairs = [("She left.", "They left.", "He left."), ("She sat.", "They sat.", "He sat.")]
    assert check(pairs, groups) == []
    assert check([pairs[0], ("They sat.", "She sat.", "He sat.")], groups) == [
        f"prompts.csv:5: 'They' stands for 'female' here and for 'nb' in prompts.csv:3. {ADVICE}",
        f"prompts.csv:6: 'She' stands for 'nb' here and for 'female' in prompts.csv:2. {ADVICE}",
    ]
    crossed = [
        (f"A Black woman {verb}.", f"A Black man {verb}.", f"A white man {verb}.")
        for verb in ("left", "sat")
    ]
    assert check(crossed, ("Black women", "Black men", "white men")) == []


def test_name_column_and_mask_words(tmp_path):
    """The column name and the words at a mask decide what is swapped."""
    rows = table(
        [(f"A call for {one}.", f"A call for {two}.") for one, two in zip(WOMEN, MEN, strict=True)]
    )
    rows = rows.assign(name=[name for pair in zip(WOMEN, MEN, strict=True) for name in pair])
    assert check_study(rows, reference="male").faults == []
    rows.loc[7, "name"] = "emily"
    (fault,) = check_study(rows, reference="male").faults
    assert fault.startswith(
        "prompts.csv:9: 'emily' stands for 'male' here and for 'female' in prompts.csv:2. "
    )
    words = ["she|her", "he|him", "she|her", "he|him", "he|him|they", "she|her|they"]
    masks = table([(f"The {job} said <mask> left.",) * 2 for job in JOBS[:3]]).assign(
        candidates=words
    )
    assert [one.partition(" here")[0] for one in check_study(masks, reference="male").faults] == [
        "prompts.csv:6: 'he' stands for 'female'",
        "prompts.csv:6: 'him' stands for 'female'",
        "prompts.csv:7: 'she' stands for 'male'",
        "prompts.csv:7: 'her' stands for 'male'",
    ]
    assert check_study(masks[:4], reference="male").faults == []
    masks.to_csv(tmp_path / "mine.csv", index=False)
    with pytest.raises(
        StudyError,
        match=r"mine\.csv:6: 'he' stands for 'female' here and for 'male' in mine\.csv:3",
    ):
        open_study(tmp_path / "mine.csv", reference="male")


def edit(folder, name, *changes):
    text = (folder / name).read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / name).write_text(text)


def test_rows_of_slots(tmp_path):
    """Rows of slots are compared as a whole."""
    new_study(tmp_path / "at_work")
    folder = tmp_path / "at_work"
    edit(
        folder, "slots.csv", ("6,female,Sarah", "6,female,Jacob")
    )  # a name alone, with other pronouns
    assert check_study(folder).faults == []
    edit(
        folder,
        "slots.csv",
        ("6,male,Peter,he,him", "6,male,Emily,she,her"),
        ("Jacob,she,her", "Jacob,he,him"),
    )
    assert check_study(folder).faults == [
        f"slots.csv:12: 'Jacob, he, him' stands for 'female' here and for 'male' in slots.csv:3. {ADVICE}",
        f"slots.csv:13: 'Emily, she, her' stands for 'male' here and for 'female' in slots.csv:2. {ADVICE}",
    ]
    edit(folder, "study.toml", ("[shows]", "shared_fills = true\n[shows]"))
    assert open_study(folder).experiments[0].name == "masked"
    edit(folder, "study.toml", ("shared_fills = true", 'shared_fills = "yes"'))
    assert check_study(folder).faults == [
        "study.toml:17: shared_fills is 'yes', expected true or false. Correct it."
    ]


def test_names_to_rank_and_words_to_count(tmp_path):
    """Names to rank and words to count belong to one group, and no declaration allows otherwise,
    since a word of two groups counts for the last alone."""
    new_study(tmp_path / "at_work")
    edit(tmp_path / "at_work", "lexicon.csv", ("boy,male", "She,male"))
    edit(tmp_path / "at_work", "study.toml", ("[shows]", "shared_fills = true\n[shows]"))
    assert check_study(tmp_path / "at_work").faults == [
        "lexicon.csv:9: 'She' is a word of 'male' here and of 'female' in lexicon.csv:2. Remove it from one."
    ]
    new_study(tmp_path / "hire", "ranking")
    edit(tmp_path / "hire", "names.csv", ("White men,Brad,", "White men,Emily,"))
    assert check_study(tmp_path / "hire").faults == [
        "names.csv:10: 'Emily' is a name of 'White men' here and of 'White women' in names.csv:5. Remove it from one."
    ]
    texts = pd.DataFrame({"text": [f"The {job} said <mask> left." for job in JOBS]})
    (tmp_path / "words.csv").write_text("word,group\nshe,female\nhe,male\nshe,male\n")
    with pytest.raises(
        StudyError, match=r"words\.csv:4: 'she' is a word of 'male' here and of 'female' in words"
    ):
        open_study(texts, reference="male", lexicon=tmp_path / "words.csv")


def test_other_faults_come_first():
    """Other faults come first, and long notes and pairs of one text are left out."""
    rows = table(swap_labels(PRONOUN_PAIRS))
    rows.loc[0, "text"] = "[she] is a nurse."
    assert len(check_study(rows, reference="male").faults) == 1
    filler = "The wound was dry and clean. " * 150
    assert (
        check([(f"{one}{filler}", f"{two}{filler}") for one, two in swap_labels(PRONOUN_PAIRS)])
        == []
    )


def test_swap_in_pairs_is_an_audit(tmp_path):
    """The output of a swap in pairs can be audited as it is."""
    from swapbias.cli import app

    texts = [
        "She told her husband that she was late.", "The husband left.", "His wife said he should wait for her.",
        "Mr. Smith and his son saw him.", "Ms. Brown told her that she was right.", "The nurse saw him.",
        "He left her.", "My sister called.", "The father of the bride cried.",
    ]  # fmt: skip
    pd.DataFrame({"text": texts}).to_csv(tmp_path / "texts.csv", index=False)
    place = [
        str(tmp_path / "texts.csv"),
        "--column",
        "text",
        "--mode",
        "pairs",
        "--out",
        str(tmp_path / "pairs"),
    ]
    app(["swap", *place], standalone_mode=False)
    faults = check_prompts(tmp_path / "pairs", reference="male").faults
    assert [one for one in faults if "stands for" in one] == []


@pytest.mark.usefixtures("audits")
def test_shared_fills_option(tmp_path, monkeypatch, capsys):
    """The command line and Python allow shared fills alike."""
    from swapbias.cli import app

    monkeypatch.chdir(tmp_path)
    stereotypes = [
        ("The nurse said she left.", "The nurse said he left."),
        ("The cook said he left.", "The cook said she left."),
    ]
    table(stereotypes, ("stereotype", "other")).to_csv("mine.csv", index=False)
    own = ["--prompts", "mine.csv", "--reference", "other"]
    with pytest.raises(
        StudyError,
        match=r"mine\.csv:4: 'he' stands for 'stereotype' here and for 'other' in mine\.csv:3",
    ):
        app(["plan", "vader", *own], standalone_mode=False)
    assert app(["plan", "vader", *own, "-M", "shared-fills=true"], standalone_mode=False) in (
        0,
        None,
    )
    capsys.readouterr()
    allowed = {"": 1, "true": 0, "false": 1}
    for value, code in allowed.items():
        more = ["-M", f"shared-fills={value}"] if value else []
        check_file = ["study", "check", "mine.csv", "--reference", "other"]
        assert bool(app([*check_file, *more], standalone_mode=False)) == code
    with pytest.raises(UsageError, match="Unknown setting 'temperature'"):
        app(["study", "check", "mine.csv", "-M", "temperature=2"], standalone_mode=False)
    with pytest.raises(UsageError, match="shared_fills are about own prompts"):
        swapbias.audit("vader", shared_fills=True)


def test_text_with_blanks_to_fill():
    """A text that holds the mark of a slot is read, as forms do with "Name: ____"."""
    assert difference("Name: _ she _", "Name: _ he _").frame == ("Name", ":", "__", "_", "__")
    forms = [
        (f"Patient ____: {job}. She signs: _", f"Patient ____: {job}. He signs: _") for job in JOBS
    ]
    assert open_study(table(forms), reference="male").experiments[0].design.random == {
        "pair_id": "pairs"
    }
