"""Pairs of which a model reads one input are counted and not measured: equal scores of them mean
nothing."""

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

UNKNOWN_NAMES = [("Zyxa", "Qwob"), ("Vujka", "Bxzor")]  # no word of the tiny vocabularies
KNOWN_NAMES = [("she", "he"), ("woman", "man")]
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


def audited(model, names, **options):
    return swapbias.audit(model, study_of(names).name, progress=False, **options)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return tiny.save_classifier(tmp_path_factory.mktemp("m"), ["NEGATIVE", "POSITIVE"])


def test_unknown_names_are_not_measured(classifier, tmp_path):
    """Pairs of names that a model does not know are not measured, instead of having no gap."""
    run = audited(str(classifier), UNKNOWN_NAMES, out=tmp_path / "run")
    primary = run.findings.query("primary").iloc[0]
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


def test_other_pairs_are_measured(classifier):
    """The other pairs are measured, and the unmeasured ones are counted."""
    known, both = (
        audited(str(classifier), names).findings.query("primary").iloc[0]
        for names in (KNOWN_NAMES, [*KNOWN_NAMES, UNKNOWN_NAMES[0]])
    )
    assert both["value"] == pytest.approx(known["value"])
    assert (both["n"], both["n_unscored"]) == (8, 4)
    assert (known["n"], known["n_unscored"]) == (8, 0)


def pairs_of_same_input(scorer, texts, lexicon="", groups=("female", "male")):
    rows = [
        {"prompt_id": group, "pair_id": "p", "group": group, "text": text, "lexicon": lexicon}
        for group, text in zip(groups, texts, strict=True)
    ]
    return sorted(find_same_inputs(rows, [Prompt(**row) for row in rows], scorer))


def masked(place):
    return load_scorer(str(tiny.save("bert", place)))


def truncating_pipeline(place):
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


def grid_search(place):
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
    "masked": masked,
    "cut": truncating_pipeline,
    "bag of words": bag_of_words,
    "searched": grid_search,
    "causal": word_level_causal,
    "chat": local_chat,
}


@pytest.mark.parametrize("name", MODELS)
def test_inputs_are_compared(name, tmp_path):
    """The inputs that a model gets for two texts are compared, for each kind of model."""
    scorer = MODELS[name](tmp_path / "m" if name == "causal" else tmp_path)
    blank = f" {MASK}" if name == "masked" else ""
    late = "they say that "
    if name == "cut":
        assert pairs_of_same_input(scorer, [f"{late}{one} will" for one in ("she", "he")]) == [0, 1]
    else:
        assert pairs_of_same_input(
            scorer, [f"{late}{one} will{blank}" for one in UNKNOWN_NAMES[0]]
        ) == [
            0,
            1,
        ]
        assert (
            pairs_of_same_input(scorer, [f"{late}{one} will{blank}" for one in KNOWN_NAMES[0]])
            == []
        )
    assert pairs_of_same_input(scorer, [f"{one} will say{blank}" for one in KNOWN_NAMES[0]]) == []


def test_equal_texts_are_no_swap(tmp_path):
    """Equal texts of a pair, or texts of one group, are no swap."""
    scorer = masked(tmp_path)
    assert pairs_of_same_input(scorer, [f"they say {MASK}"] * 2) == []
    assert (
        pairs_of_same_input(
            scorer, [f"{one} says {MASK}" for one in UNKNOWN_NAMES[0]], groups=("male", "male")
        )
        == []
    )
    three = [f"{one} says {MASK}" for one in ("Zyxa", "Qwob", "she")]
    assert pairs_of_same_input(scorer, three, groups=("a", "b", "c")) == [0, 1]


def test_opaque_functions():
    """The inputs of a function cannot be compared."""
    scorer = load_scorer(lambda texts: [0.5] * len(texts), name="toy")
    assert scorer.inputs([Prompt(text="a")]) == [None]
    assert pairs_of_same_input(scorer, UNKNOWN_NAMES[0]) == []


def test_scored_prompts(classifier):
    """Scored prompts mark pairs with the same input."""
    study = study_of([*KNOWN_NAMES, *UNKNOWN_NAMES])
    scorer = load_scorer(str(classifier), options=LoadOptions())
    rows = swapbias.score_prompts(swapbias.load_prompts(study.name), scorer).to_pandas()
    assert (rows["score"].isna() == (rows["same_input"] == 1)).all()
    assert rows["score"].isna().sum() == 16
    known = swapbias.score_prompts(swapbias.load_prompts(study_of(KNOWN_NAMES).name), scorer)
    assert "same_input" not in known.column_names


def test_command_counts_unmeasured_pairs(classifier, tmp_path):
    """The command states how many pairs are not measured."""
    table([*KNOWN_NAMES, *UNKNOWN_NAMES]).to_csv(tmp_path / "prompts.csv", index=False)
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
    output = " ".join((done.stdout + done.stderr).split())
    assert "reads the same input for both texts of 8 of 16 pairs, which are not measured" in output
    assert "same input" in (place / "report.html").read_text(encoding="utf-8")
