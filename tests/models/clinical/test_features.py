"""Features of notes and the gender direction: file formats, averages by hand, encoders by a slow
definition."""

import json
import math
import sys

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from swapbias.errors import UsageError
from swapbias.models import LoadOptions
from swapbias.models.clinical.encoder_vectors import ContextualVectors
from swapbias.models.clinical.feature_loading import load_features
from swapbias.models.clinical.tfidf_lsa import TfidfLsa
from swapbias.models.clinical.word_direction import DirectionScorer, read_direction_tables
from swapbias.models.clinical.word_vectors import StaticVectors
from swapbias.models.engine.encoder import Engine
from swapbias.studies import Prompt, corpus_dir, read_table, slots
from tests import tiny

OPTIONS = LoadOptions(device="cpu", batch_size=4)
WORDS = {"he": [1.0, 0.0], "sad": [0.0, 1.0], "Mary": [0.0, -2.0], "fatigue": [3.0, 4.0]}


def keyed_vectors(vectors=WORDS):
    models = pytest.importorskip(
        "gensim.models", reason="needs gensim: pip install 'swapbias[clinical]'"
    )
    keyed = models.KeyedVectors(len(next(iter(vectors.values()))))
    keyed.add_vectors(list(vectors), np.array(list(vectors.values()), dtype=np.float32))
    return keyed


def static(vectors=WORDS):
    return StaticVectors(keyed_vectors(vectors), name="toy")


def tables_with(female, male):
    """Pairs and templates with one more pair."""
    name = f"{female}-{male}"
    frame = {"kind": name, "female": f"a {female}", "male": f"a {male}"}
    return [*PAIRS, {"pair": name, "female": female, "male": male}], [*TEMPLATES, frame]


def direction(**settings):
    return DirectionScorer(static(PLANE), TABLES, **settings)


def word(text, construct="synonym"):
    return Prompt(text=text, construct=construct)


def test_note_is_average_of_words():
    """A note is the average of its known words."""
    # He -> he (1, 0) and sad (0, 1); "was" and 12 are unknown: the mean is (.5, .5). Twice "sad": (1/3, 2/3).
    found = static().vectors(["He was sad 12", "he sad sad", "zzz 12", ""])
    np.testing.assert_allclose(found[:2], [[0.5, 0.5], [1 / 3, 2 / 3]])
    assert np.isnan(found[2:]).all()
    found = static({"mary": [1.0, 0.0], "Mary": [0.0, 1.0]}).vectors(["Mary", "MARY"])
    assert found.tolist() == [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize(
    "name", ["v.bin", "v.bin.gz", "v.txt", "bare.vec.gz"]
)  # which gensim leaves open: the last
def test_formats_of_vectors(name, tmp_path):
    """Every format gives the vectors back."""
    keyed_vectors().save_word2vec_format(
        str(tmp_path / name), binary=".bin" in name, write_header="bare" not in name
    )
    found = load_features(str(tmp_path / name), options=OPTIONS)
    assert found.name == name.split(".")[0]
    np.testing.assert_allclose(found.vectors(["fatigue", "Mary"]), [[3.0, 4.0], [0.0, -2.0]])
    assert found.identity["dimension"] == 2
    assert str(tmp_path) not in json.dumps(dict(found.identity))


def test_fasttext_file(tmp_path):
    """A file of fastText is recognised by its first bytes."""
    fasttext = pytest.importorskip(
        "gensim.models.fasttext", reason="needs gensim: pip install 'swapbias[clinical]'"
    )
    model = fasttext.FastText(
        [["patient", "is", "sad"]] * 5, vector_size=4, min_count=1, epochs=1, bucket=50, seed=1
    )
    fasttext.save_facebook_model(model, str(tmp_path / "ft.bin"))
    found = load_features(str(tmp_path / "ft.bin"), options=OPTIONS)
    np.testing.assert_allclose(found.vectors(["sad"])[0], model.wv["sad"], rtol=1e-5)
    assert np.isnan(found.vectors(["sadly"])).all()  # parts of words are not used
    assert found.name == "ft"


def test_file_without_vectors(tmp_path, monkeypatch):
    """A file that holds no vectors is refused in one sentence."""
    keyed_vectors()
    for name, content in (("a.txt", b"no vectors here\nat all\n"), ("a.bin", b"junk")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(
            ValueError, match=rf"^{name} cannot be read as word vectors \(.*Check its format.$"
        ):
            load_features(str(tmp_path / name), options=OPTIONS)
    with pytest.raises(ValueError, match=r"none\.vec does not exist"):
        load_features(str(tmp_path / "none.vec"), options=OPTIONS)
    (tmp_path / "v.vec").write_text("1 1\nhe 1\n")
    monkeypatch.setitem(sys.modules, "gensim", None)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(UsageError, match=r"needs gensim.*swapbias\[clinical\]"):
        load_features(str(tmp_path / "v.vec"), options=OPTIONS)
    with pytest.raises(UsageError, match=r"needs scikit-learn.*swapbias\[clinical\]"):
        load_features("tfidf-lsa", options=OPTIONS)


def test_tfidf_learns_from_training():
    """TF-IDF learns from training texts alone."""
    tfidf = TfidfLsa()
    # Two texts without a shared word span two directions: equal texts are parallel, the others at right angles.
    fitted = tfidf.fit(["sad tired sad", "pain fever pain"])
    found = fitted.vectors(["sad tired sad", "PAIN fever pain", "unheard words"])
    assert found.shape == (3, 2)
    assert found[0] @ found[1] == pytest.approx(0, abs=1e-12)
    assert np.linalg.norm(found[:2], axis=1) == pytest.approx([1, 1])
    assert np.isnan(found[2]).all()
    with pytest.raises(ValueError, match="Call fit"):
        tfidf.vectors(["sad"])  # fitting makes a copy
    # Three texts, two of them equal: the rank is 2.
    assert tfidf.fit(["sad tired ill", "sad tired ill", "pain fever"]).vectors(["sad"]).shape == (
        1,
        2,
    )
    assert tfidf.fit(["sad tired"] * 4).vectors(["sad"]).shape == (1, 1)
    assert TfidfLsa(dimension=1).fit(["sad tired", "pain fever"]).vectors(["sad"]).shape == (1, 1)
    with pytest.raises(ValueError, match="2 training texts contain fewer than two words"):
        tfidf.fit(["1 2", "sad"])


TEXTS = [
    "she is someone with depression",
    "someone has medication",
    "she has",
    "she is someone with depression",
]


@pytest.fixture(scope="module", params=["bert", "roberta", "xlnet", "distilbert", "longformer"])
def folder(request, tmp_path_factory):
    return tiny.save(request.param, tmp_path_factory.mktemp(request.param))


def slow_mean(folder, text):
    """Mean state of a text's own tokens, one text at a time."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    encoded = tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)
    is_text = encoded.pop("special_tokens_mask")[0] == 0
    is_text &= ~torch.isin(
        encoded["input_ids"][0], torch.tensor([tokenizer.sep_token_id, tokenizer.cls_token_id])
    )
    with torch.no_grad():
        return model(**encoded).last_hidden_state[0][is_text].mean(dim=0).numpy()


def test_encoder_means_tokens(folder):
    """An encoder gives the mean of a text's own tokens."""
    features = load_features(str(folder), options=OPTIONS)
    found = features.sentence_vectors(TEXTS)
    for text, row in zip(TEXTS, found, strict=True):
        np.testing.assert_allclose(row, slow_mean(folder, text), atol=1e-5)
    assert features.name == folder.name
    assert features.identity["dimension"] == found.shape[1] == 32


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tiny.save("bert", tmp_path_factory.mktemp("encoder"))


def test_long_note_in_windows(bert):
    """A long note is read in windows and averaged over all tokens."""
    # 80 words of one token each: the model reads 64 - 2 at once, so the windows hold 62 and 18 tokens.
    features = ContextualVectors.load(str(bert), OPTIONS)
    long = ["she", "is", "someone", "with", "depression", "has", "medication", "treatment"] * 10
    first, second = features.sentence_vectors([" ".join(long[:62]), " ".join(long[62:])])
    np.testing.assert_allclose(
        features.vectors([" ".join(long)])[0], (62 * first + 18 * second) / 80, atol=1e-6
    )
    found = ContextualVectors.load(str(bert), OPTIONS).vectors(["qqqq zzzz", "she qqqq"])
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


def test_shared_texts_are_read_once(bert, monkeypatch):
    """Texts and windows that notes share are read once."""
    # numbers of tokens, special ones included
    read = []
    real = Engine.hidden_states

    def watched(self, encoded):
        read.extend(map(len, encoded))
        return real(self, encoded)

    monkeypatch.setattr(Engine, "hidden_states", watched)
    features = ContextualVectors.load(str(bert), OPTIONS)
    first = features.vectors([*TEXTS, "% 9"])
    assert len(read) == 3  # two texts are equal, and the last has no words
    again = features.vectors(TEXTS[::-1])
    assert len(read) == 3
    np.testing.assert_array_equal(again, first[:4][::-1])
    assert np.isnan(first[4]).all()
    # 124 words are two windows of 62 tokens. The first note holds one of them twice, the second begins with it:
    # two different windows in all, and the second note is the mean of what both give alone.
    read.clear()
    head = " ".join(["she has"] * 31)
    tail = " ".join(["someone has"] * 31)
    twice, both = features.vectors([f"{head} {head}", f"{head} {tail}"])
    assert read == [64, 64]
    alone = features.vectors([head, tail])
    np.testing.assert_allclose(twice, alone[0], atol=1e-6)
    np.testing.assert_allclose(both, alone.mean(axis=0), atol=1e-6)


PAIRS = [
    {"pair": "she-he", "female": "she", "male": "he"},
    {"pair": "woman-man", "female": "woman", "male": "man"},
]
TEMPLATES = [
    {"kind": "she-he", "female": "she has depression", "male": "he has depression"},
    {"kind": "woman-man", "female": "someone is a woman", "male": "someone is a man"},
    {"kind": "synonym", "female": "[word] is someone", "male": "[word] is someone"},
]
TABLES = (PAIRS, TEMPLATES)
# Scaled to length 1 the pairs differ along x alone: g = (1, 0). sadness is (3, 4) / 5: its cosine is .6.
PLANE = {
    "she": [1.0, 1.0],
    "he": [-1.0, 1.0],
    "woman": [2.0, 0.0],
    "man": [-2.0, 0.0],
    "sadness": [3.0, 4.0],
    "gloom": [-4.0, 3.0],
    "Zoe": [1.0, 0.0],
    "dr.": [1.0, 0.0],
    **{f"filler{letter}": [0.0, 1.0] for letter in "abcdefghijkl"},
}


def test_score_is_cosine():
    """The score is the cosine with the gender direction."""
    sadness, gloom, unknown = direction().score([word("Sadness"), word("gloom"), word("x")])
    assert (sadness.score, sadness.answer) == (pytest.approx(0.6), "female")
    assert (gloom.score, gloom.answer) == (pytest.approx(-0.8), "male")
    assert math.isnan(unknown.score)
    assert (unknown.answer, unknown.top_tokens) == ("", "[]")
    (endless,) = DirectionScorer(static({**PLANE, "endless": [math.inf, 0.0]}), TABLES).score(
        [word("endless")]
    )
    assert math.isnan(endless.score)
    assert sadness.parts == {
        "explained_variance": pytest.approx(1.0),
        "dimensions": 2,
        "frequency_known": 0.5,
    }
    swapped = (
        [{"pair": row["pair"], "female": row["male"], "male": row["female"]} for row in PAIRS],
        TEMPLATES,
    )
    there, back = (
        DirectionScorer(static(PLANE), tables).score([word("gloom")])[0]
        for tables in (TABLES, swapped)
    )
    assert back.score == pytest.approx(-there.score)


def test_random_words():
    """Random words have a like rank and are no words of pairs."""
    # sadness stands fifth: ranks 4 to 7 are within a factor 1.5 (5 / 1.5 = 3.3, 5 * 1.5 = 7.5): man, itself, gloom
    # and Zoe, of which only gloom is lower-case, alphabetic, no pair word and not itself.
    one = direction(null=7).score([word("sadness")])[0]
    assert json.loads(one.top_tokens) == [["gloom", -0.8]] * 7
    prompts = [word(name) for name in ("fillera", "fillerf", "fillerk")]
    whole = direction(null=20).score(prompts)
    parts = [direction(null=20).score([one])[0] for one in prompts[::-1]]
    assert whole == parts[::-1]
    other = direction(null=20, seed=1).score(prompts)
    assert [one.top_tokens for one in other] != [one.top_tokens for one in whole]


def test_alphabetical_file():
    """An alphabetical file does not reveal frequencies."""
    features = static({name: PLANE[name] for name in sorted(PLANE)})
    assert features.identity["frequency"] == "unknown"
    assert len(features.like_words("sadness")) == len(PLANE) - 2  # all but Zoe and dr.
    assert (
        DirectionScorer(features, TABLES).score([word("sadness")])[0].parts["frequency_known"] == 0
    )
    counted = static(PLANE)
    counted.keyed.expandos["count"] = np.array(
        [100 * 2 ** (len(PLANE) - at) for at in range(len(PLANE))]
    )
    made_up = static({name: PLANE[name] for name in sorted(PLANE)})
    made_up.keyed.expandos["count"] = np.arange(len(PLANE), 0, -1)
    frequencies = [
        StaticVectors(one.keyed, name="v").identity["frequency"]
        for one in (counted, static(PLANE), made_up)
    ]
    assert frequencies == ["counts", "rank", "unknown"]


def test_cosines_without_each_pair():
    """The cosines without each pair are those with the direction of the others."""
    # mother - father differ along y alone. Without it g = (1, 0), so sadness, (3, 4) / 5, has a cosine of .6.
    # Without woman - man, whose difference is (2, 0), she - he differ by sqrt 2 along x and mother - father by
    # 2 / sqrt 5 * 2 along y: the first component is y, and sadness has .8.
    plane = {**PLANE, "mother": [1.0, 2.0], "father": [1.0, -2.0]}
    tables = tables_with("mother", "father")
    parts = DirectionScorer(static(plane), tables).score([word("sadness")])[0].parts
    assert parts["without_pair_3"] == pytest.approx(0.6)
    without = next(
        number for number, row in enumerate(PAIRS, start=1) if row["pair"] == "woman-man"
    )
    assert parts[f"without_pair_{without}"] == pytest.approx(0.8)
    unknown = DirectionScorer(static(plane), tables).score([word("x")])[0].parts
    assert list(unknown) == list(parts)
    assert math.isnan(unknown["without_pair_3"])


def test_pairs_with_unknown_word():
    """Pairs with an unknown word are left out, and too few pairs are refused."""
    features = static({**PLANE, "girl": [1.0, 5.0]})
    assert DirectionScorer(features, tables_with("girl", "boy")).identity["definitional_pairs"] == 2
    with pytest.raises(ValueError, match="knows 1 of 2 definitional pairs"):
        DirectionScorer(static({name: PLANE[name] for name in ("she", "he", "gloom")}), TABLES)
    with pytest.raises(UsageError, match="tfidf-lsa has no vectors of words"):
        DirectionScorer(load_features("tfidf-lsa", options=OPTIONS), TABLES)
    with pytest.raises(ValueError, match="'woman-man' has no template"):
        DirectionScorer(static(PLANE), (PAIRS, TEMPLATES[:1]))
    with pytest.raises(ValueError, match="Construct 'symptom' has no frame"):
        direction().score([word("gloom", "symptom")])


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_encoder_reads_words_in_a_frame(family, tmp_path):
    """An encoder reads words in their frame."""
    features = ContextualVectors.load(str(tiny.save(family, tmp_path)), OPTIONS)
    scorer = DirectionScorer(features, TABLES, null=5)
    one = scorer.score([word("depression")])[0]
    vector = features.sentence_vectors(["depression is someone"])[0]
    assert one.score == pytest.approx(float(vector @ scorer.direction / np.linalg.norm(vector)))
    names = [name for name, _ in json.loads(one.top_tokens)]
    assert len(names) == 5
    assert all(name.isalpha() and name.islower() for name in names)
    name, cosine = json.loads(one.top_tokens)[0]
    assert scorer.score([word(name)])[0].score == pytest.approx(cosine, abs=1e-6)


def test_tables_fit_together():
    """The tables of pairs and templates fit together."""
    pairs, templates = read_direction_tables("phenotype_fairness")
    frames = {row["kind"]: row for row in templates}
    assert len(pairs) == 10
    for row in pairs:
        female, male = (
            frames[row["pair"]][side].rstrip(".").split() for side in ("female", "male")
        )
        differing = [words for words in zip(female, male, strict=True) if words[0] != words[1]]
        assert differing == [(row["female"], row["male"])]
    rows = read_table(
        corpus_dir("phenotype_fairness") / "depression_words.csv", ("word", "kind", "source")
    )
    words = [row["word"] for row in rows]
    assert len(set(words)) == len(words) == 35
    assert all(one.isalpha() and one.islower() for one in words)
    for kind in {row["kind"] for row in rows}:
        assert slots(frames[kind]["female"]) == ["word"]
        assert frames[kind]["female"] == frames[kind]["male"]
