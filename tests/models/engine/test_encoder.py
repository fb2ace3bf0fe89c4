"""The engine: packed rows, one token at the head, Longformer without its window."""

import random

import pytest
import torch
import transformers
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    pipeline,
)

from swapbias.models import LoadOptions, load_scorer
from swapbias.models.engine.encoder import Engine
from swapbias.models.engine.packing import pack
from swapbias.studies import as_prompts, config_rows
from tests import tiny

MASKED = ("albert", "bert", "bertweet", "distilbert", "electra", "longformer", "mpnet", "roberta")
PACKED = ("bert", "bertweet", "distilbert", "electra", "roberta")


def sizes(vocabulary=300):
    return {"vocab_size": vocabulary, "max_position_embeddings": 64, **tiny.SIZES, **tiny.SPREAD}


def make_model(family):
    """A tiny random masked model; ids are enough for the engine, so no tokenizer."""
    torch.manual_seed(0)
    config = {
        "albert": lambda: transformers.AlbertConfig(embedding_size=16, **sizes()),
        "electra": lambda: transformers.ElectraConfig(embedding_size=16, **sizes()),
        "mpnet": lambda: transformers.MPNetConfig(**sizes()),
    }.get(family)
    return (
        AutoModelForMaskedLM.from_config(config()).eval()
        if config
        else tiny.MODELS[family](300).eval()
    )


def ids(count=24, shortest=3, longest=14):
    draw = random.Random(0)
    return [
        [draw.randrange(5, 300) for _ in range(draw.randint(shortest, longest))]
        for _ in range(count)
    ]


def one_by_one(model, encoded, positions):
    """The slow definition: one text at a time, the head on every token."""
    with torch.no_grad():
        return torch.stack(
            [
                model(torch.tensor([one])).logits[0, place]
                for one, place in zip(encoded, positions, strict=True)
            ]
        )


def in_batches(engine, encoded, positions):
    batches = engine.batches([len(ids) for ids in encoded])
    assert sorted(index for batch in batches for index in batch) == list(range(len(encoded)))
    logits_by_text = [None] * len(encoded)
    for batch in batches:
        logits = engine.logits([encoded[at] for at in batch], [positions[at] for at in batch])
        for at, row in zip(batch, logits, strict=True):
            logits_by_text[at] = row
    return torch.stack(logits_by_text)


@pytest.mark.parametrize("family", MASKED)
def test_batches_equal_one_by_one(family):
    """Logits and hidden states equal those of one text at a time in any order and batch."""
    encoded = ids()
    positions = [place % len(one) for place, one in enumerate(encoded)]
    model = make_model(family)
    expected = one_by_one(model, encoded, positions)
    for size, step in ((2, 1), (64, -1)):
        found = in_batches(Engine(model, batch_size=size), encoded[::step], positions[::step])
        found = found.flip(0) if step < 0 else found
        assert torch.allclose(found.softmax(-1), expected.softmax(-1), atol=1e-5)
        assert torch.equal(found.argmax(-1), expected.argmax(-1))
    model = make_model(family).base_model
    encoded = ids()
    engine = Engine(model, batch_size=2)
    for batch in engine.batches([len(one) for one in encoded]):
        texts = [encoded[at] for at in batch]
        states = engine.hidden_states(texts).split([len(one) for one in texts])
        for one, found in zip(texts, states, strict=True):
            with torch.no_grad():
                assert torch.allclose(
                    found, model(torch.tensor([one])).last_hidden_state[0], atol=1e-4
                )


def test_hooked_model():
    """A model with a hook is read one length at a time."""
    model = make_model("bert")
    encoded = ids(6)
    expected = one_by_one(model, encoded, [1] * 6)
    model.bert.encoder.layer[0].register_forward_hook(lambda module, inputs, found: found)
    engine = Engine(model)
    assert all(
        len({len(encoded[at]) for at in batch}) == 1
        for batch in engine.batches([len(one) for one in encoded])
    )
    assert torch.allclose(in_batches(engine, encoded, [1] * 6), expected, atol=1e-4)


@pytest.mark.parametrize("family", PACKED)
def test_mask_after_packing(family):
    """A model that was read in packed rows still uses a mask."""
    model = make_model(family)
    encoded = ids(2, 6, 6)
    expected = one_by_one(model, encoded, [1, 1])
    Engine(model).logits(encoded, [1, 1])
    assert torch.equal(one_by_one(model, encoded, [1, 1]), expected)
    padded = torch.tensor([encoded[0], [*encoded[1][:4], 0, 0]])
    mask = torch.tensor([[1] * 6, [1, 1, 1, 1, 0, 0]])
    short = one_by_one(model, [encoded[1][:4]], [1])
    with torch.no_grad():
        assert torch.allclose(model(padded, attention_mask=mask).logits[1, 1], short[0], atol=1e-4)


def test_row_without_padding():
    """A row holds many texts without padding."""
    encoded = ids()
    batches = Engine(make_model("bert"), batch_size=64).batches([len(one) for one in encoded])
    assert len(batches) == 1  # 24 texts of at most 14 tokens fit into one row
    row = pack([encoded[at] for at in batches[0]], make_model("bert"))
    assert row.ids.shape == (1, sum(map(len, encoded)))


def test_wanted_tokens_only():
    """Only the wanted tokens reach the last feed-forward layer and the head."""
    roberta = make_model("roberta")
    distilbert = make_model("distilbert")
    last = roberta.roberta.encoder.layer[-1]
    other = distilbert.distilbert.transformer.layer[-1]
    for model, feed in ((roberta, last.intermediate.dense), (distilbert, other.ffn.lin1)):
        seen = []
        engine = Engine(model)

        def count(module, inputs, found, seen=seen):
            seen.append(inputs[0].shape[:-1].numel())

        for module in (feed, model.get_output_embeddings()):
            module.register_forward_hook(count)
        engine.logits(ids(10, 7, 7), [3] * 10)
        assert seen == [10, 10]  # of 70 tokens


def test_longformer(
    monkeypatch,
):
    """A Longformer needs no window for short texts, shares its layers and keeps global attention."""
    # The window is 16: a token sees 8 on either side, so up to 9 tokens all see each other; 10 do not.
    model = make_model("longformer")
    engine = Engine(model)
    ran = []
    monkeypatch.setattr(
        model.longformer, "forward", lambda *given, **named: ran.append(1) or real(*given, **named)
    )
    real = type(model.longformer).forward.__get__(model.longformer)
    encoded = ids(4, 9, 9)
    engine.logits(encoded, [0, 4, 8, 8])
    assert not ran
    longer = ids(2, 10, 10)
    found = engine.logits(longer, [0, 9])
    assert ran
    assert torch.allclose(found, one_by_one(make_model("longformer"), longer, [0, 9]), atol=1e-4)
    model = make_model("longformer")
    reader, reach = Engine(model)._packing
    assert reach == 9
    own = {id(one) for one in model.parameters()}
    kept = {name for name, one in reader.named_parameters() if id(one) not in own}
    assert all(one.device.type != "meta" or name in kept for name, one in reader.named_parameters())
    assert not kept
    torch.manual_seed(0)
    model = transformers.LongformerForSequenceClassification(make_model("longformer").config).eval()
    encoded = ids(4, 6, 6)
    with torch.no_grad():
        expected = model(torch.tensor(encoded)).logits
    assert torch.allclose(Engine(model).class_logits(encoded), expected, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "longformer", "real"])
def test_fill_mask_pipeline(family, tmp_path, request):
    """Scores are those of the fill-mask pipeline."""
    folder = str(
        request.getfixturevalue("real_masked_model")
        if family == "real"
        else tiny.save(family, tmp_path)
    )
    texts = tiny.texts()[::31]
    scorer = load_scorer(folder, kind="masked")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pipe = pipeline(
        "fill-mask", model=AutoModelForMaskedLM.from_pretrained(folder).eval(), tokenizer=tokenizer
    )
    theirs = pipe([text.replace("<mask>", tokenizer.mask_token) for text in texts], top_k=50)
    for members, probabilities in scorer.mask_probabilities(texts):
        for index, row in zip(members, probabilities, strict=True):
            filled = {one["token"]: one["score"] for one in theirs[index]}
            assert all(abs(float(row[token]) - p) < 1e-4 for token, p in filled.items())
            mine = set(row.topk(50).indices.tolist())
            least = min(filled.values())
            assert all(abs(float(row[token]) - least) < 1e-6 for token in mine ^ set(filled))


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "xlnet"])
def test_classifiers_equal_one_by_one(family):
    """Logits of classifiers equal those of one text at a time."""
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(make_model(family).config).eval()
    encoded = ids()
    with torch.no_grad():
        expected = torch.cat([model(torch.tensor([one])).logits for one in encoded])
    engine = Engine(model, batch_size=2)
    for batch in engine.batches([len(one) for one in encoded]):
        found = engine.class_logits([encoded[at] for at in batch])
        assert torch.allclose(found, expected[batch], atol=1e-4)


@pytest.mark.parametrize("changed", [1, 2, None])
@pytest.mark.parametrize("family", ["Roberta", "XLMRoberta", "Camembert"])
def test_padding_tokens_within_a_text(family, changed):
    """Padding tokens within a text have the position that the model gives them, by the padding
    index that it was made with."""
    torch.manual_seed(0)
    settings = {**sizes(), "pad_token_id": 1, "max_position_embeddings": 66}
    config = getattr(transformers, f"{family}Config")(**settings)
    model = getattr(transformers, f"{family}ForSequenceClassification")(config).eval()
    encoded = [[0, 9, 1, 8, 2], [0, 7, 2], [0, 5, 6, 1, 1, 4, 2], [1, 5, 2]]
    with torch.no_grad():
        expected = torch.cat([model(torch.tensor([one])).logits for one in encoded])
    model.config.pad_token_id = changed
    engine = Engine(model)
    assert len(engine.batches([len(one) for one in encoded])) == 1  # one packed row
    assert torch.allclose(engine.class_logits(encoded), expected, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounded_weights(dtype, tmp_path):
    """Rounded weights give nearly the scores of float32."""
    folder = str(tiny.save("bert", tmp_path))
    prompts = as_prompts(config_rows("gendered_stigma", "rq1"))[::9]
    exact = load_scorer(folder)
    coarse = load_scorer(folder, options=LoadOptions(device="cpu", dtype=dtype))
    assert coarse.identity["dtype"] == dtype
    first = exact.score(prompts)
    rounded = coarse.score(prompts)
    assert coarse.model.dtype == getattr(torch, dtype)
    assert rounded == coarse.score(prompts)
    apart = max(abs(one.score - other.score) for one, other in zip(first, rounded, strict=True))
    masses = [[one.parts["closed_list_mass"] for one in scored] for scored in (first, rounded)]
    assert masses[1] == pytest.approx(masses[0], abs=0.05)
    assert 0 < apart < 0.5
