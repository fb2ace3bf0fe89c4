"""One call in Python has the numbers of the command line, and leaves a model in memory
unchanged."""

import copy
import gc
import re
import tempfile

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from transformers import AutoModelForMaskedLM, AutoTokenizer

import swapbias
from swapbias.cli import app
from swapbias.errors import UsageError
from swapbias.runs import results
from swapbias.studies import config_rows
from swapbias.studies.prompt import Prompt
from tests import tiny

CONTROL = "occupation_sentiment:control"


def planted(texts):
    """Women .3 lower, and a little more of less with the noun: enough spread for an interval."""
    return [
        0.8 - (0.3 + len(text) / 1000) * text.startswith(("She", "This woman", "This girl"))
        for text in texts
    ]


def audit(model, studies=CONTROL, **options):
    return swapbias.audit(model, studies, **{"progress": False, **options})


def even(texts):
    """No gap in any pair, another score for every third pair, and a higher one for any other text."""
    pairs = {row["text"]: row["pair_id"] for row in config_rows("occupation_sentiment", "control")}
    places = {pair: place for place, pair in enumerate(dict.fromkeys(pairs.values()))}
    return [0.5 + 0.01 * (places[pairs[text]] % 3 == 0) if text in pairs else 0.9 for text in texts]


@pytest.fixture(scope="module")
def tilted():
    """Women are lower by .30 to .34 in every pair."""
    female = {
        row["text"]: 0.3 + number / 1000
        for number, row in enumerate(_control())
        if row["group"] == "female"
    }
    return audit(
        lambda texts: [0.8 - female.get(text, 0.0) for text in texts], name="<b>tilted</b>"
    )


def _control():
    return list(config_rows("occupation_sentiment", "control"))


AUTOS = {
    "causal": transformers.AutoModelForCausalLM,
    "classifier": transformers.AutoModelForSequenceClassification,
    "xlnet": transformers.XLNetLMHeadModel,
}


def loaded(family, folder):
    saved = folder / family
    saved.mkdir()
    if family == "causal":
        tiny.save_causal(saved)
    elif family == "classifier":
        tiny.save_classifier(saved, ["negative", "positive"])
    else:
        tiny.save(family, saved)
    return AUTOS.get(family, AutoModelForMaskedLM).from_pretrained(
        saved
    ), AutoTokenizer.from_pretrained(saved)


@pytest.mark.parametrize(
    ("family", "study"), [("bert", "gendered_stigma:rq1"), ("classifier", CONTROL)]
)
def test_python_equals_command_line(tmp_path, capsys, monkeypatch, family, study):
    """An audit from Python has the numbers and the table of the command line, bit for bit."""
    monkeypatch.setattr(
        results, "_write_report", lambda run, results, command: None
    )  # drawing takes longest
    model, tokenizer = loaded(family, tmp_path)
    app(
        [
            "audit",
            str(tmp_path / family),
            "--study",
            study,
            "--limit",
            "40",
            "--out",
            str(tmp_path / "cli"),
        ],
        standalone_mode=False,
    )
    printed = capsys.readouterr().out
    run = audit(model, study, tokenizer=tokenizer, limit=40)
    there = swapbias.Audit.open(tmp_path / "cli")
    name = study.partition(":")[0]
    pd.testing.assert_frame_equal(run.findings, there.findings, check_exact=True)
    pd.testing.assert_frame_equal(run.items(name), there.items(name), check_exact=True)
    assert repr(run) in "\n".join(line.rstrip() for line in printed.splitlines())


def test_folder_pipeline_and_scorer_agree(tmp_path):
    """A folder, a pipeline and a scorer of one model have equal scores."""
    model, tokenizer = loaded("classifier", tmp_path)
    in_memory = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    scorer = swapbias.load_scorer(model, tokenizer=tokenizer)
    scores = [
        audit(one).items("occupation_sentiment")["score"]
        for one in (tmp_path / "classifier", in_memory, scorer)
    ]
    assert scores[0].equals(scores[1])
    assert scores[0].equals(scores[2])


def test_resume_of_a_model_in_memory(tmp_path, capsys):
    """A stopped run of a model in memory is resumed with the same model only."""
    from swapbias.runs import resume

    model, tokenizer = loaded("bert", tmp_path)
    masked = type(swapbias.load_scorer(model, tokenizer=tokenizer))
    scored = []

    def go(limit=240, **more):
        return audit(
            model, "gendered_stigma:rq1", tokenizer=tokenizer, wordings=False, limit=limit, **more
        )

    with pytest.MonkeyPatch.context() as patch:

        def stop(self, prompts, on_progress=None, read=masked.score):
            scored.append(len(prompts))
            if len(scored) == 2:
                raise KeyboardInterrupt
            return read(self, prompts, on_progress)

        patch.setattr(masked, "score", stop)
        patch.setattr(masked, "chunk_rows", 120)
        with pytest.raises(KeyboardInterrupt):
            go(out=tmp_path / "run")
        with pytest.raises(UsageError, match="was begun with limit 240, now 10"):
            go(limit=10, out=tmp_path / "run")
        with pytest.raises(UsageError, match=r"begun in Python with a model in memory.*and out="):
            resume(tmp_path / "run", say=print, bar=lambda title, total: lambda done: None)
        with torch.no_grad():
            next(model.parameters())[0] += 1
        with pytest.raises(UsageError, match=r"begun with model 'bert', now 'bert \(in memory\)'"):
            go(out=tmp_path / "run")
        with pytest.raises(UsageError, match="another version of the model"):
            go(out=tmp_path / "run", name="bert")
        model.load_state_dict(AutoModelForMaskedLM.from_pretrained(tmp_path / "bert").state_dict())
        found = go(out=tmp_path / "run").findings
    whole = go()
    del scored[1]  # which was stopped
    assert sum(scored) == len(whole.items("gendered_stigma"))  # each prompt once
    # Other batches: float32 differs in its last digits, and p-values near 1 multiply the difference.
    odds = [name for name in found if name.startswith("p_")]
    pd.testing.assert_frame_equal(
        found.drop(columns=odds), whole.findings.drop(columns=odds), atol=1e-5
    )
    pd.testing.assert_frame_equal(found[odds], whole.findings[odds], atol=1e-3)


def prompts(family):
    text = {"causal": "He is a clerk.", "classifier": "He is a clerk."}.get(family, tiny.texts()[0])
    return [Prompt(text=text, lexicon="gendered_stigma/rq1/female")]


def state(model):
    return (
        [
            (
                name,
                id(one),
                one.training,
                list(one._modules),
                [len(getattr(one, f"_forward{kind}")) for kind in HOOKS],
            )
            for name, one in model.named_modules()
        ],
        [
            (
                name,
                one.data_ptr(),
                one.dtype,
                one.device,
                one.requires_grad,
                one.is_inference(),
                one._version,
            )
            for name, one in [*model.named_parameters(), *model.named_buffers()]
        ],
        model.config.to_dict(),
        model.config._attn_implementation,
        torch.get_rng_state().tolist(),
    )


HOOKS = ("_hooks", "_pre_hooks")


@pytest.mark.parametrize(
    "family", ["bert", "distilbert", "roberta", "longformer", "xlnet", "causal", "classifier"]
)
def test_model_in_memory_stays_unchanged(tmp_path, family):
    """An audit leaves weights, modes, gradients and hooks of a model in memory as they were."""
    model, tokenizer = loaded(family, tmp_path)
    model.train()
    last = list(model.modules())[-1]
    last.eval()  # one part alone: a mode for the whole model would not do
    next(model.parameters()).requires_grad_(False)
    before = state(model)
    weights = {name: one.clone() for name, one in model.state_dict().items()}
    scored = swapbias.load_scorer(model, tokenizer=tokenizer).score(prompts(family))
    assert np.isfinite(scored[0].score)
    assert state(model) == before
    assert all(torch.equal(one, weights[name]) for name, one in model.state_dict().items())
    ids = tokenizer("He is a clerk.", return_tensors="pt")["input_ids"]
    model(input_ids=ids).logits.sum().backward()  # it can still be trained
    if family == "bert":  # nor does an audit that fails leave a trace
        with torch.no_grad():
            model.bert.embeddings.word_embeddings.weight.fill_(float("nan"))
        before = state(model)
        with pytest.raises(ValueError, match="NaN or infinite numbers for"):
            audit(model, "gendered_stigma:rq1", tokenizer=tokenizer, limit=20)
        assert state(model) == before


def test_hooks_of_a_model(tmp_path):
    """Hooks of a model change its scores and stay on it after the audit."""
    model, tokenizer = loaded("classifier", tmp_path)
    plain = swapbias.load_scorer(model, tokenizer=tokenizer).score(prompts("classifier"))[0].score
    handle = model.classifier.register_forward_hook(lambda module, given, found: 0 * found)
    steered = swapbias.load_scorer(model, tokenizer=tokenizer).score(prompts("classifier"))[0].score
    assert plain != pytest.approx(0.5)
    assert steered == 0.5  # logits of 0: each of two labels is as likely
    assert list(model.classifier._forward_hooks) == [handle.id]
    scorer = swapbias.load_scorer(model.to(torch.bfloat16), tokenizer=tokenizer)
    assert scorer.identity["dtype"] == "bfloat16"
    assert 0 <= scorer.score(prompts("classifier"))[0].score <= 1
    assert model.dtype == torch.bfloat16


def test_scikit_learn_pipeline():
    """A scikit-learn pipeline is scored by the probability of its positive class."""
    pytest.importorskip("sklearn", reason="needs scikit-learn, of the extra clinical")
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = ["he is happy", "she is sad", "it is there"] * 4
    classes = ["positive", "negative", "neutral"] * 4
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, classes)
    items = audit(model).items("occupation_sentiment")
    column = list(model.classes_).index("positive")
    unknown = items["same_input"] == 1  # pairs of words that it counts none of are not measured
    assert items.loc[unknown, "score"].isna().all()
    measured = items[~unknown]
    assert measured["score"].tolist() == model.predict_proba(measured["text"])[:, column].tolist()
    assert set(items["model_id"]) == {"Pipeline"}
    with pytest.raises(UsageError, match="Pipeline has no classes_: it is not fitted"):
        audit(make_pipeline(CountVectorizer(), LogisticRegression()))
    with pytest.raises(ValueError, match="LogisticRegression cannot read texts"):
        audit(LogisticRegression().fit([[0.0], [1.0]], [0, 1]))
    numbered = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts[:2] * 4, [1, 0] * 4)
    assert (
        audit(numbered).items("occupation_sentiment").query("group == 'male'")["score"].mean() > 0.5
    )


@pytest.mark.parametrize(
    ("model", "more", "sentence"),
    [
        (3, {}, "A int cannot be audited. Give a Hub id"),
        (torch.nn.Linear(2, 2), {}, "A Linear cannot be audited"),
        (planted, {"batchsize": 3}, "audit has no argument batchsize. Did you mean batch_size"),
        (planted, {"tokenizer": 1}, "tokenizer is of transformers models"),
        (planted, {"margin": 5}, "margin is 5.0, expected a number from 0 to 1"),
        (
            planted,
            {"studies": "gendered_stigma"},
            "it needs a masked model and planted is of kind classifier",
        ),
        ("vader", {"name": "mine"}, "tokenizer and name are of models in memory"),
        ("vader", {"kind": "masked"}, "is of kind classifier, not masked. Drop kind."),
        (
            None,
            {"chat": "m", "max_cost": 3.0, "studies": None},
            "Costs take both price_in and price_out, and max_cost is given. Drop it.",
        ),
        (
            "vader",
            {"studies": "gendered_stigma"},
            "name one with chat. Choose another model or studies, such as occupation_sentiment.",
        ),
    ],
    ids=[
        "number as model",
        "bare layer",
        "misspelt option",
        "tokenizer of a function",
        "margin above 1",
        "masked study",
        "name of a known model",
        "wrong kind",
        "cost without prices",
        "unfit study",
    ],
)
def test_impossible_audit_in_one_sentence(model, more, sentence, tmp_path, monkeypatch):
    """An impossible audit is refused in one sentence without options of the command line."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(UsageError, match=re.escape(sentence)) as raised:
        audit(model, **more)
    assert not re.search(r"--\w|-M ", str(raised.value))
    assert list(tmp_path.iterdir()) == []


def test_model_without_tokenizer_or_head(tmp_path):
    """A model without tokenizer, without head or with a replaced forward is refused in one
    sentence."""
    model, tokenizer = loaded("bert", tmp_path)
    changed = copy.copy(model)
    changed.forward = lambda **given: None
    for one, more, sentence in (
        (model, {}, "BertForMaskedLM comes without its tokenizer"),
        (model.bert, {"tokenizer": tokenizer}, "BertModel has no head"),
        (model, {"tokenizer": tokenizer, "dtype": "bfloat16"}, "Drop device and dtype"),
        (
            changed,
            {"tokenizer": tokenizer},
            "forward of BertForMaskedLM was replaced by a function",
        ),
    ):
        with pytest.raises(ValueError, match=sentence):
            audit(one, **more)


def test_nothing_is_written_without_out(tmp_path, monkeypatch):
    """An audit without out leaves no file behind, neither in the cache nor in the temporary folder."""
    for name in ("temporary", "here", "cache"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("SWAPBIAS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SWAPBIAS_CACHE_LIMIT", "1000000000")
    run = audit(planted)
    assert len(run.items("occupation_sentiment")) == 40
    folder = run.run.folder
    assert folder.parent == tmp_path / "temporary"
    del run
    gc.collect()
    assert [path for path in tmp_path.rglob("*") if path.is_file() or path == folder] == []


def test_assert_below_names_the_gap(tilted):
    """A gap above the margin fails with study, groups, value, interval and margin in the message."""
    with pytest.raises(AssertionError) as failed:
        tilted.assert_below(0.05, study="occupation_sentiment")
    text = r"occupation_sentiment:control.* women minus men.* −3\d.*\(95 % interval −3.*beyond the margin of 5 points"
    assert re.search(text, " ".join(str(failed.value).split())), failed.value
    tilted.assert_below(0.5)
    with pytest.raises(
        UsageError, match="The run contains no primary finding of rq1: it has occupation_sentiment"
    ):
        tilted.assert_below(0.05, study="rq1")
    pairs = dict.fromkeys(row["pair_id"] for row in _control())
    far = {name: 0.4 * (-1) ** number for number, name in enumerate(pairs)}
    of_text = {row["text"]: far[row["pair_id"]] * (row["group"] == "female") for row in _control()}
    run = audit(
        lambda texts: [0.5 + of_text[text] for text in texts]
    )  # gaps of .4 either way: none on average
    with pytest.raises(AssertionError, match="the interval crosses the margin of 5 points"):
        run.assert_below(0.05)
    run.assert_below(0.05, undecided=True)


def test_worst_pairs(tilted):
    """The worst pairs of a study stand in one table with both texts and their gap."""
    worst = tilted.worst_pairs("occupation_sentiment", n=3)
    rows = _control()
    last = [row for row in rows if row["group"] == "female"][-1]  # the gap grows from row to row
    assert (worst["text"][0], worst["pair_id"][0]) == (last["text"], last["pair_id"])
    assert worst["gap"][0] == pytest.approx(-(0.3 + rows.index(last) / 1000))
    assert (worst["score"] - worst["reference_score"]).tolist() == worst["gap"].tolist()
    assert worst["reference_group"].tolist() == ["male"] * 3
    assert worst["gap"].abs().is_monotonic_decreasing
    run = audit(
        lambda texts: [0.5 + len(text) / 1000 for text in texts], "social_distance", limit=40
    )
    with pytest.raises(UsageError, match="compares no pairs"):
        run.worst_pairs("social_distance")


def test_worst_pairs_of_every_contrast():
    """The worst pairs of three groups are chosen over all contrasts."""
    names = {"white": "Emily", "black": "Lakisha", "latina": "Maria"}
    rows = [
        {"text": f"{name} is late{'.' * number}", "group": group, "pair": str(number)}
        for number in range(1, 5)
        for group, name in names.items()
    ]

    def score(texts):
        return [
            0.5 + 0.01 * text.count(".") * (text.startswith("Maria") - 0.5 * ("Lak" in text))
            for text in texts
        ]

    worst = audit(score, prompts=pd.DataFrame(rows), reference="white", progress=False).worst_pairs(
        "prompts", n=3
    )
    assert worst[["group", "pair_id"]].values.tolist() == [
        ["latina", "4"],
        ["latina", "3"],
        ["black", "4"],
    ]
    assert worst["gap"].tolist() == pytest.approx([0.04, 0.03, -0.02])
    assert set(worst["reference_text"]) == {"Emily is late....", "Emily is late..."}


def test_notebook_view(tilted, tmp_path):
    """A notebook shows the verdict with escaped names and loads nothing from outside."""
    shown = tilted._repr_html_()
    assert "<b>Gap</b>: " in shown
    chart = shown[: shown.index("<p>")]
    assert '<span class="v gap">Gap</span>' in chart
    assert chart.count('class="dot gap') == 1
    style = chart[chart.index("<style>") + 7 : chart.index("</style>")]
    selectors = re.sub(r"{[^}]*}", ",", style).strip(",\n ").split(",")
    assert len(selectors) > 20
    assert all(one.strip().startswith(".swapbias ") for one in selectors)  # it reaches nothing else
    assert "<b>tilted" not in shown
    assert not re.search(r"<script|https?://|url\(", shown)
    assert not (tilted.run.folder / "figures").exists()
    page = tilted.report(tmp_path / "page.html")
    assert page.read_text() == tilted.report().read_text()
    assert "&lt;b&gt;tilted&lt;/b&gt;" in page.read_text()


def test_comparison_of_two_audits(tilted):
    """Two audits are compared pair by pair, and the difference is that of their gaps."""
    found = tilted.compare(audit(even, name="even"))
    shown = found._repr_html_()
    chart, table = shown.split("</div>", 1)
    assert chart.count('class="dot g') == 2  # a row a model
    assert "&lt;b&gt;tilted&lt;/b&gt;" in chart
    assert "model_difference" in table
    assert "swapbias" not in found.head()._repr_html_().partition("<table")[0]
    first = found.iloc[0]
    assert first["contrast"] == "<b>tilted</b> - even"
    assert first["value"] == pytest.approx(tilted.primary["value"][0])  # the other has no gap
    assert first["cluster_vars"]
    assert set(tilted.compare(tilted)["value"]) == {0.0}
    other = audit(planted, "social_distance", limit=40)
    with pytest.raises(UsageError, match="no experiment in common"):
        tilted.compare(other)


def test_prompts_of_a_user(tmp_path):
    """Prompts from a table, a dataset or a file are audited as the command line does it."""
    table = pd.DataFrame(
        [
            (f"{who} is late on day {day}.", group, day)
            for day in range(8)
            for who, group in SIDES.items()
        ],
        columns=["text", "group", "pair"],
    )
    table.to_csv(tmp_path / "late.csv", index=False)
    rows = datasets.Dataset.from_pandas(table)
    for prompts in (table, tmp_path / "late.csv", rows, rows.to_iterable_dataset()):
        one = audit(
            lambda texts: [0.8 - 0.1 * text.startswith("She") for text in texts],
            (),
            prompts=prompts,
            reference="male",
        )
        assert one.primary["value"].tolist() == pytest.approx([-0.1])
        assert one.primary["contrast"].tolist() == ["female - male"]
    with pytest.raises(UsageError, match="about own prompts"):
        audit(planted, reference="male")


SIDES = {"He": "male", "She": "female"}
