"""A pipeline has the scores that it returns: from the fast engine where they are equal, else by
calling it."""

import types

import pytest
from transformers import FillMaskPipeline, Pipeline, TextClassificationPipeline, pipeline

import swapbias
from swapbias.errors import UsageError
from swapbias.models import LoadOptions, load_scorer
from swapbias.models.pipelines import PipelineScorer
from swapbias.models.transformers_scorer import TextClassifierScorer
from swapbias.studies import Prompt, as_prompts, config_rows
from tests import tiny

PROMPTS = as_prompts(config_rows("occupation_sentiment", "sentences"))[::61]
TWO = ["NEGATIVE", "POSITIVE"]
THREE = ["negative", "neutral", "positive"]
NLI = ["contradiction", "neutral", "entailment"]


class Prefixed(TextClassificationPipeline):
    def preprocess(self, inputs, **arguments):
        return super().preprocess(f"she is a person and {inputs}", **arguments)


class Sharper(TextClassificationPipeline):
    def postprocess(self, model_outputs, **arguments):
        return super().postprocess({"logits": model_outputs["logits"] * 3}, **arguments)


class Lowered(TextClassificationPipeline):
    def __call__(self, inputs, **arguments):
        return super().__call__(f"he is {inputs}", **arguments)


class Forwarded(TextClassificationPipeline):
    def _forward(self, model_inputs):
        outputs = super()._forward(model_inputs)
        outputs["logits"] = outputs["logits"].flip(-1)
        return outputs


class OnePositive(TextClassificationPipeline):
    def postprocess(self, model_outputs, **arguments):
        return {
            "label": "POSITIVE",
            "score": float(model_outputs["logits"][0].sigmoid()[1]),
            "more": "text",
        }


class TopAlone(TextClassificationPipeline):
    def postprocess(self, model_outputs, **arguments):
        index = int(1_000 * model_outputs["logits"][0, 0]) % 2  # any of the two
        return {"label": f"LABEL_{index}", "score": 0.7}


class Numbers(TextClassificationPipeline):
    def postprocess(self, model_outputs, **arguments):
        return float(model_outputs["logits"][0, 0])


class OwnPipeline(Pipeline):
    def _sanitize_parameters(self, **arguments):
        return {}, {}, {}

    def preprocess(self, inputs):
        return self.tokenizer(f"he is {inputs}", return_tensors="pt")

    def _forward(self, model_inputs):
        return self.model(**model_inputs)

    def postprocess(self, model_outputs):
        p = model_outputs.logits[0].softmax(-1)
        return [{"label": label, "score": float(p[place])} for place, label in enumerate(TWO)]


def classifier(folder, labels=TWO, made=None, **settings):
    if made is None:
        return pipeline(
            "text-classification",
            model=str(tiny.save_classifier(folder, labels)),
            device="cpu",
            **settings,
        )
    plain = classifier(folder, labels)
    return made(model=plain.model, tokenizer=plain.tokenizer, device="cpu", **settings)


def truth(made, label="POSITIVE"):
    """The score of a label by calling the pipeline on one text at a time."""
    label_scores = []
    for prompt in PROMPTS:
        rows = (
            made(prompt.text)
            if isinstance(made, OnePositive | OwnPipeline)
            else made(prompt.text, top_k=None)
        )
        rows = [rows] if isinstance(rows, dict) else rows
        rows = rows[0] if isinstance(rows[0], list) else rows
        label_scores.append(next(row["score"] for row in rows if row["label"] == label))
    return label_scores


def scores(scorer):
    return [result.score for result in scorer.score(PROMPTS)]


@pytest.mark.parametrize(
    "made",
    [Prefixed, Sharper, Lowered, Forwarded, OnePositive, OwnPipeline],
    ids=lambda one: one.__name__,
)
def test_own_step(made, tmp_path):
    """A pipeline with a step of its own is called."""
    own = classifier(tmp_path, made=made)
    scorer = load_scorer(own)
    assert isinstance(scorer, PipelineScorer)
    assert scorer.model_id == made.__name__
    assert scores(scorer) == pytest.approx(truth(own), abs=1e-5)
    plain = scores(load_scorer(classifier(tmp_path)))
    assert scores(scorer) != pytest.approx(plain, abs=1e-3)


def test_patched_step(tmp_path):
    """A step that is put into a pipeline is called."""
    own = classifier(tmp_path)
    stock = own.preprocess
    own.preprocess = types.MethodType(
        lambda self, text, **more: stock(text.replace("She", "He"), **more), own
    )
    scorer = load_scorer(own)
    assert isinstance(scorer, PipelineScorer)
    assert scores(scorer) == pytest.approx(truth(own), abs=1e-5)


@pytest.mark.parametrize(
    "settings",
    [{}, {"top_k": 1}, {"top_k": 2}, {"top_k": None}, {"function_to_apply": "sigmoid"}],
    ids=["plain", "top 1", "top 2", "all", "sigmoid"],
)
def test_plain_pipeline(settings, tmp_path):
    """A plain pipeline is read by the engine and has its scores."""
    scorer = load_scorer(classifier(tmp_path, THREE, **settings))
    assert isinstance(scorer, TextClassifierScorer)
    assert scores(scorer) == pytest.approx(
        truth(classifier(tmp_path, THREE, **settings), "positive"), abs=1e-5
    )


@pytest.mark.parametrize(
    "settings",
    [{"truncation": True, "max_length": 5}, {"padding": "max_length"}],
    ids=["truncation", "padding"],
)
def test_preprocessing_parameters(settings, tmp_path):
    """Parameters of the preprocessing are kept."""
    made = classifier(tmp_path, THREE, **settings)
    scorer = load_scorer(made, name="short")
    assert isinstance(scorer, PipelineScorer)
    assert scorer.model_id == "short"
    assert scores(scorer) == pytest.approx(truth(made, "positive"), abs=1e-5)
    inputs = scorer.inputs(
        [
            Prompt(text=text)
            for text in ("she is a clerk", "she is a clerk and well", "he is a clerk")
        ]
    )
    assert (inputs[0] == inputs[1]) is ("truncation" in settings)
    assert inputs[0] != inputs[2]


def test_patched_library(tmp_path, monkeypatch):
    """Numbers that the engine does not give are taken from the pipeline, as for a patch of the
    library's class."""
    made = classifier(tmp_path)
    stock = TextClassificationPipeline.preprocess
    monkeypatch.setattr(
        TextClassificationPipeline,
        "preprocess",
        lambda self, text, **more: stock(self, f"he is {text}", **more),
    )
    scorer = load_scorer(made)
    assert isinstance(scorer, PipelineScorer)
    assert scores(scorer) == pytest.approx(truth(made), abs=1e-5)


@pytest.mark.parametrize(
    "settings",
    [{}, {"hypothesis_template": "he is {}."}, {"multi_label": True}],
    ids=["plain", "template", "several labels"],
)
def test_zero_shot(settings, tmp_path):
    """A zero-shot pipeline is read by its labels or refused."""
    folder = str(tiny.save_classifier(tmp_path, NLI))
    bare = pipeline("zero-shot-classification", model=folder, device="cpu", **settings)
    with pytest.raises(
        UsageError, match=r"A zero-shot pipeline has no labels of its own.*candidate_labels"
    ):
        load_scorer(bare, options=LoadOptions(positive_label="entailment"))
    labels = ["positive", "negative"]
    made = pipeline(
        "zero-shot-classification", model=folder, device="cpu", candidate_labels=labels, **settings
    )
    returned = [made(prompt.text) for prompt in PROMPTS]
    expected = [
        dict(zip(one["labels"], one["scores"], strict=True))["positive"] for one in returned
    ]
    assert scores(load_scorer(made)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("made", "labels", "sentence"),
    [
        (TopAlone, TWO, "returns other labels|none is positive"),
        (Numbers, TWO, "returns no labels with scores"),
    ],
)
def test_no_score_of_every_label(made, labels, sentence, tmp_path):
    """A pipeline without a score of every label is one sentence."""
    with pytest.raises(UsageError, match=sentence):
        load_scorer(classifier(tmp_path, labels, made))


@pytest.mark.parametrize("label", ["LABEL_0", "LABEL_1"])
def test_top_label_alone(label, tmp_path):
    """A pipeline of the top label alone is refused where the label changes."""
    with pytest.raises(ValueError, match=r"returns other labels for one text|none is 'LABEL_1'"):
        scores(
            load_scorer(
                classifier(tmp_path, TWO, TopAlone), options=LoadOptions(positive_label=label)
            )
        )


def test_other_pipelines(tmp_path):
    """Other pipelines are refused in one sentence."""
    masked = str(tiny.save("bert", tmp_path))
    causal = str(tiny.save_causal(tmp_path / "m"))
    fill = pipeline("fill-mask", model=masked, device="cpu")

    class Filled(FillMaskPipeline):
        def preprocess(self, inputs, **arguments):
            return super().preprocess(f"he {inputs}", **arguments)

    for made in (
        pipeline("fill-mask", model=masked, device="cpu", targets=["she", "he"]),
        pipeline("fill-mask", model=masked, device="cpu", tokenizer_kwargs={"truncation": True}),
        Filled(model=fill.model, tokenizer=fill.tokenizer, device="cpu"),
        pipeline("text-generation", model=causal, device="cpu", prefix="she "),
    ):
        with pytest.raises(
            UsageError, match="steps or parameters of its own, which an audit cannot use"
        ):
            load_scorer(made)
    with pytest.raises(UsageError, match="gives a text no label with a probability"):
        load_scorer(pipeline("feature-extraction", model=masked, device="cpu"))
    assert load_scorer(pipeline("fill-mask", model=masked, device="cpu", top_k=3)).kind == "masked"
    assert (
        load_scorer(pipeline("text-generation", model=causal, device="cpu", max_new_tokens=3)).kind
        == "causal"
    )


def test_called_pipeline_is_audited(tmp_path):
    """A called pipeline can be audited."""
    made = classifier(tmp_path, made=Prefixed)
    run = swapbias.audit(made, "occupation_sentiment:control", progress=False)
    items = run.items("occupation_sentiment")
    row = items.iloc[0]
    expected = next(
        one["score"] for one in made(row["text"], top_k=None) if one["label"] == "POSITIVE"
    )
    assert row["score"] == pytest.approx(expected, abs=1e-5)
    assert run.primary.iloc[0]["model_id"] == "Prefixed"
