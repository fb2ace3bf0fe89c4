"""Pairs of which a model reads one input are not measured, and counted: equal scores of them say nothing."""

import json
import math

import pandas as pd
import pytest
from transformers import pipeline

import swapbias
from swapbias.models import LoadOptions, load_scorer
from swapbias.runs.same_inputs import find_same_inputs
from swapbias.studies import MASK, Prompt
from tests import tiny
from tests.cli.test_cli import swapbias as command

UNKNOWN = [("Zyxa", "Qwob"), ("Vujka", "Bxzor")]  # no word of the tiny vocabularies
KNOWN = [("she", "he"), ("woman", "man")]
TEMPLATES = [
    "{} is a person",
    "they say that {} will",
    "everyone and {} takes",
    "{} has depression",
]


def table(names):
    rows = []
    for number, template in enumerate(TEMPLATES):
        for pair in names:
            for group, name in zip(("female", "male"), pair, strict=True):
                row = {"text": template.format(name), "group": group, "pair": f"{pair}/{number}"}
                rows.append({**row, "name": name, "template": template})
    return pd.DataFrame(rows)


def study_of(names):
    return swapbias.open_study(
        table(names), reference="male", name=f"same_{len(names)}_{names[0][0].lower()}"
    )


def audited(model, names, **how):
    return swapbias.audit(model, study_of(names).name, progress=False, **how)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return tiny.save_classifier(tmp_path_factory.mktemp("m"), ["NEGATIVE", "POSITIVE"])


def test_pairs_of_unknown_names_are_no_verdict_of_no_gap(classifier, tmp_path):
    run = audited(str(classifier), UNKNOWN, out=tmp_path / "run")
    primary = run.primary.iloc[0]
    assert (primary["verdict"], primary["reason"]) == ("not measured", "same_input")
    assert math.isnan(primary["value"])
    assert "reads the same input for both texts of each pair" in str(run)
    items = run.items(run.found[0].study)
    assert items["score"].isna().all()
    assert (items["same_input"] == 1).all()
    (sentence,) = json.loads((tmp_path / "run" / "manifest.json").read_text())["same_inputs"]
    assert "reads the same input for both texts of 8 of 8 pairs, which are not measured" in sentence
    with pytest.raises(AssertionError):
        run.assert_below(0.05)


def test_the_other_pairs_are_measured_and_those_are_counted(classifier):
    known, both = (
        audited(str(classifier), names).primary.iloc[0] for names in (KNOWN, [*KNOWN, UNKNOWN[0]])
    )
    assert both["value"] == pytest.approx(known["value"])
    assert (both["n"], both["n_unscored"]) == (8, 4)
    assert (known["n"], known["n_unscored"]) == (8, 0)


def same(scorer, texts, lexicon="", groups=("female", "male")):
    rows = [
        {"prompt_id": group, "pair_id": "p", "group": group, "text": text, "lexicon": lexicon}
        for group, text in zip(groups, texts, strict=True)
    ]
    return sorted(find_same_inputs(rows, [Prompt(**row) for row in rows], scorer))


def masked(place):
    return load_scorer(str(tiny.save("bert", place)))


def cut(place):
    folder = str(tiny.save_classifier(place, ["NEGATIVE", "POSITIVE"]))
    return load_scorer(
        pipeline("text-classification", model=folder, truncation=True, max_length=5, device="cpu")
    )


def bag_of_words(place, change=lambda model: model):
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = change(make_pipeline(TfidfVectorizer(), LogisticRegression()))
    model.fit(
        ["she is well", "he is bad", "they say good", "woman and man"] * 3,
        ["POSITIVE", "NEGATIVE"] * 6,
    )
    return load_scorer(model)


def searched(place):
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    from sklearn.model_selection import GridSearchCV

    return bag_of_words(
        place, lambda model: GridSearchCV(model, {"logisticregression__C": [0.1, 1]}, cv=2)
    )


def word_level_causal(place):
    from transformers import GPT2Config, GPT2LMHeadModel

    words = ["<unk>", "<s>", *" ".join(TEMPLATES).split(), "she", "he"]
    tokenizer = tiny.word_level(list(dict.fromkeys(words)))
    tokenizer.bos_token = "<s>"
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=64)
    return load_scorer(GPT2LMHeadModel(config), tokenizer=tokenizer, name="words")


def local_chat(place):
    from swapbias.models.chat.local import LocalChatScorer

    scorer = word_level_causal(place)
    scorer.tokenizer.chat_template = "{% for turn in messages %}{{ turn.content }} {% endfor %}"
    return LocalChatScorer(scorer.model, scorer.tokenizer, model_id="m", identity={})


MODELS = {
    "masked": masked, "cut": cut, "bag of words": bag_of_words, "searched": searched, "causal": word_level_causal,
    "chat": local_chat,
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_gets_of_two_texts_is_compared(name, tmp_path):
    scorer = MODELS[name](tmp_path / "m" if name == "causal" else tmp_path)
    blank = f" {MASK}" if name == "masked" else ""
    late = "they say that "
    if name == "cut":
        assert same(scorer, [f"{late}{one} will" for one in ("she", "he")]) == [0, 1]
    else:
        assert same(scorer, [f"{late}{one} will{blank}" for one in UNKNOWN[0]]) == [0, 1]
        assert same(scorer, [f"{late}{one} will{blank}" for one in KNOWN[0]]) == []
    assert same(scorer, [f"{one} will say{blank}" for one in KNOWN[0]]) == []


def test_texts_of_one_pair_that_are_equal_or_of_one_group_are_no_swap(tmp_path):
    scorer = masked(tmp_path)
    assert same(scorer, [f"they say {MASK}"] * 2) == []
    assert same(scorer, [f"{one} says {MASK}" for one in UNKNOWN[0]], groups=("male", "male")) == []
    three = [f"{one} says {MASK}" for one in ("Zyxa", "Qwob", "she")]
    assert same(scorer, three, groups=("a", "b", "c")) == [0, 1]


def test_what_nobody_can_look_into_is_not_compared():
    scorer = load_scorer(lambda texts: [0.5] * len(texts), name="toy")
    assert scorer.inputs([Prompt(text="a")]) == [None]
    assert same(scorer, UNKNOWN[0]) == []


def test_scored_prompts_say_so_too(classifier):
    study = study_of([*KNOWN, *UNKNOWN])
    scorer = load_scorer(str(classifier), options=LoadOptions())
    rows = swapbias.score_prompts(swapbias.load_prompts(study.name), scorer).to_pandas()
    assert (rows["score"].isna() == (rows["same_input"] == 1)).all()
    assert rows["score"].isna().sum() == 16
    known = swapbias.score_prompts(swapbias.load_prompts(study_of(KNOWN).name), scorer)
    assert "same_input" not in known.column_names


def test_the_command_says_how_many_pairs_are_not_measured(classifier, tmp_path):
    table([*KNOWN, *UNKNOWN]).to_csv(tmp_path / "prompts.csv", index=False)
    place = tmp_path / "run"
    done = command(
        "audit",
        classifier,
        "--prompts",
        tmp_path / "prompts.csv",
        "--reference",
        "male",
        "--out",
        place,
    )
    assert done.returncode == 0, done.stderr
    said = " ".join((done.stdout + done.stderr).split())
    assert "reads the same input for both texts of 8 of 16 pairs, which are not measured" in said
    assert "same input" in (place / "report.html").read_text(encoding="utf-8")
