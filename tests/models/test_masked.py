"""The masked scorer against a slow definition, on every family that it supports."""

import itertools
import json
import math
import random

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, XLNetLMHeadModel

from swapbias.models import load_scorer
from swapbias.models.masked import TOP_K
from swapbias.models.phrase_scorer import BEAM
from swapbias.models.vocabulary import Vocabulary
from swapbias.models.word_matches import matched_words
from swapbias.studies import Prompt, as_prompts, config_rows, load_lexicon
from tests import tiny
from tests.scoring import read_as


@pytest.fixture(scope="module", params=sorted(tiny.MODELS))
def family(request, tmp_path_factory):
    return tiny.save(request.param, tmp_path_factory.mktemp(request.param))


def prompts(count=60, config="rq1"):
    rows = config_rows("gendered_stigma", config)
    step = len(rows) // count
    groups = 3 if config == "rq1" else 2
    return as_prompts(
        rows[:: step + (step % groups == 0)]
    )  # never a multiple: every group turns up


def is_uncased(tokenizer):
    return (
        tokenizer.decode(tokenizer("She")["input_ids"], skip_special_tokens=True).strip() == "she"
    )


def slow_logits(folder, ids, place):
    if "xlnet" in folder.name:
        model = XLNetLMHeadModel.from_pretrained(folder).eval()
        hidden = torch.zeros(1, ids.shape[1], ids.shape[1])
        target = torch.zeros(1, 1, ids.shape[1])
        hidden[0, :, place] = 1
        target[0, 0, place] = 1
        with torch.no_grad():
            return model(ids, perm_mask=hidden, target_mapping=target).logits[0, 0]
    with torch.no_grad():
        return AutoModelForMaskedLM.from_pretrained(folder).eval()(ids).logits[0, place]


def slow_masses(folder, prompt):
    """One sentence at a time, the head on every token, each of the top tokens decoded and looked up by hand."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(prompt.text.replace("<mask>", tokenizer.mask_token), return_tensors="pt")[
        "input_ids"
    ]
    position = ids[0].tolist().index(tokenizer.mask_token_id)
    p = torch.softmax(slow_logits(folder, ids, position), dim=-1)
    name, _, label = prompt.lexicon.rpartition("/")
    lexicon = load_lexicon(name)
    uncased = is_uncased(tokenizer)
    folded = {word.lower(): group for word, group in lexicon.proper.items()}

    def label_of(token):
        word = tokenizer.decode([token]).strip()
        if word.lower() in lexicon.words:
            return lexicon.words[word.lower()]
        return (folded if uncased else lexicon.proper).get(word, lexicon.rest)

    top = p.topk(min(TOP_K, len(p)))
    pairs = zip(top.values.tolist(), top.indices.tolist(), strict=True)
    thresholded = sum(
        value for value, token in pairs if value >= lexicon.threshold and label_of(token) == label
    )
    closed = sum(float(value) for token, value in enumerate(p) if label_of(token) == label)
    return thresholded, closed


def test_scores_equal_slow_definition(family):
    """Scores equal the slow sum over the vocabulary."""
    scored_prompts = prompts(16)
    scored = load_scorer(str(family), kind="masked").score(scored_prompts)
    for prompt, one in zip(scored_prompts, scored, strict=True):
        thresholded, closed = slow_masses(family, prompt)
        assert one.score == pytest.approx(thresholded, abs=1e-5)
        assert one.parts["closed_list_mass"] == pytest.approx(closed, abs=1e-5)
    assert any(one.score > 0 for one in scored)


def slow_matches(words, label_of):
    """Every pair of a she-word and a he-word by how far their first places are apart, the nearest taken first."""
    first = {}
    for place, (word, label) in enumerate(zip(words, label_of, strict=True)):
        first.setdefault((label, word), place)
    hers, his = ([word for label, word in first if label == group] for group in (1, 2))
    if len(his) < len(hers):
        hers, his = his, hers
    labels = (1, 2) if hers and (1, hers[0]) in first else (2, 1)
    pairs = [
        (
            abs(math.log(first[labels[0], one] + 1) - math.log(first[labels[1], other] + 1)),
            place,
            one,
            other,
        )
        for place, (one, other) in enumerate(itertools.product(hers, his))
    ]
    used = set()
    for apart, _, one, other in sorted(pairs):
        if apart <= math.log(2) and not {(0, one), (1, other)} & used:
            used |= {(0, one), (1, other)}
    return [
        (label == labels[0] and (0, word) in used) or (label == labels[1] and (1, word) in used)
        for word, label in zip(words, label_of, strict=True)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_matched_words_equal_slow_definition(seed):
    """Matched words are those of the slow definition, as many for each group."""
    rng = random.Random(seed)
    words = [f"w{number // 2}" if number % 7 == 1 else f"w{number}" for number in range(400)]
    label_of = [rng.choices((0, 1, 2), (6, 1, 3))[0] for _ in words]
    found = matched_words(words, np.array(label_of), 0)
    assert found.tolist() == slow_matches(words, label_of)
    hers, his = (
        len({words[n] for n in np.flatnonzero(found) if label_of[n] == group}) for group in (1, 2)
    )
    assert hers == his > 20


def test_matched_mass_of_lost_names(tmp_path):
    """Matched mass has no gap where a vocabulary lost half of the names of one gender: of 17 and 9
    equally likely names the gap of -8/60 is the vocabulary's alone."""
    names = load_lexicon("gendered_stigma/rq1").proper
    hers, his = (
        [name.lower() for name, group in names.items() if group == kept]
        for kept in ("female", "male")
    )
    scorer = load_scorer(str(tiny.save("bert", tmp_path)), kind="masked")
    more = [word for pair in zip(his[:16:2], his[1:16:2], hers, strict=False) for word in pair]
    words = [
        *[f"word{number}" for number in range(20)],
        "she",
        "he",
        *more,
        *[f"more{number}" for number in range(14)],
    ]
    vocabulary = Vocabulary(tiny.word_level(words), len(words))
    scorer = scorer._changed(
        vocabulary=vocabulary,
        words=vocabulary.words,
        _lexicons={},
        batch_probabilities=lambda encoded: torch.full((len(encoded), len(words)), 1 / 60),
    )
    rows = prompts(3)
    found = {prompt.group: one for prompt, one in zip(rows, scorer.score(rows), strict=True)}
    assert len(scorer.words) == 60
    assert found["female"].score - found["male"].score == pytest.approx(-8 / 60)
    assert found["female"].parts["matched_mass"] == pytest.approx(9 / 60)
    assert found["male"].parts["matched_mass"] == pytest.approx(9 / 60)
    assert found["unspecified"].parts["matched_mass"] == pytest.approx(42 / 60)
    assert not matched_words(["a", "b"], np.array([1, 0]), 0).any()
    assert not matched_words(["a", "b"], np.array([0, 0]), 0).any()


def test_top_tokens(family):
    """Top tokens are words without spaces in falling order and equal when they are computed again."""
    scorer = load_scorer(str(family), kind="masked")
    (one, *_) = scored = scorer.score(prompts(8))
    assert scored == scorer.score(prompts(8))
    top = json.loads(one.top_tokens)
    assert len(top) >= 10
    assert min((p for _, p in top[10:]), default=1) >= 0.01  # beyond ten only what is counted
    assert [p for _, p in top] == sorted((p for _, p in top), reverse=True)
    assert all(word == word.strip() for word, _ in top)
    assert one.answer == top[0][0]


def test_xlnet_does_not_see_its_token(tmp_path):
    """XLNet does not see the token that it predicts: only other positions change the prediction."""
    scorer = load_scorer(str(tiny.save("xlnet", tmp_path)))
    encoded = scorer.encode(["<mask> has depression"])[0]
    place = encoded.index(scorer.tokenizer.mask_token_id)
    expected = scorer.batch_probabilities([encoded])
    scorer.tokenizer.mask_token = (
        "she"  # the hidden position is now found by another token, which must not show
    )
    leaked = list(encoded)
    leaked[place] = scorer.tokenizer.mask_token_id
    assert leaked != encoded
    assert torch.equal(scorer.batch_probabilities([leaked]), expected)
    changed = list(leaked)
    changed[place + 1] = scorer.tokenizer.convert_tokens_to_ids("takes")
    assert not torch.allclose(scorer.batch_probabilities([changed]), expected)


def test_coverage(tmp_path):
    """Coverage lists the words that are one token."""
    scorer = load_scorer(str(tiny.save("roberta", tmp_path)))
    rows = scorer.coverage(load_lexicon("gendered_stigma/rq1"))
    known = {scorer.tokenizer.decode([token]).strip() for token in range(len(scorer.tokenizer))}
    assert len(rows) == 561
    assert [row["in_vocabulary"] for row in rows[20:]] == [
        row["word"] in known for row in rows[20:]
    ]
    assert 0 < sum(row["in_vocabulary"] for row in rows) < len(rows)
    assert all(row["in_vocabulary"] for row in rows if row["matched"])
    matched = [
        sum(row["matched"] for row in rows if row["label"] == label) for label in ("female", "male")
    ]
    assert 0 < matched[0] == matched[1]


def test_long_text_and_added_token(tmp_path):
    """A text longer than the model reads scores NaN, and an added token keeps the model uncased."""
    scorer = load_scorer(str(tiny.save("bert", tmp_path)))
    row = prompts(1)[0].row() | {"text": "<mask> has " + "OCD " * 80}
    assert torch.isnan(torch.tensor(scorer.score([Prompt(**row)])[0].score))
    from tokenizers import AddedToken

    folder = tiny.save("bert", tmp_path)
    words = load_lexicon("gendered_stigma/rq1")
    before = sum(row["in_vocabulary"] for row in load_scorer(str(folder)).coverage(words))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([AddedToken("[PATIENT]", normalized=False)])
    model = AutoModelForMaskedLM.from_pretrained(folder)
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    scorer = load_scorer(str(folder))
    assert scorer.vocabulary.uncased
    assert sum(row["in_vocabulary"] for row in scorer.coverage(words)) == before


class SlowPhrases:
    """Recursive masking, one sequence at a time, depth first, decoded by hand."""

    def __init__(self, folder):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForMaskedLM.from_pretrained(folder).eval()
        proper = load_lexicon("gendered_stigma/rq2").proper
        folds = is_uncased(self.tokenizer)
        self.gender = (
            {word.lower(): group for word, group in proper.items()} if folds else dict(proper)
        )

    def top(self, text):
        ids = self.tokenizer(
            text.replace("<mask>", self.tokenizer.mask_token), return_tensors="pt"
        )["input_ids"]
        position = ids[0].tolist().index(self.tokenizer.mask_token_id)
        with torch.no_grad():
            top = torch.softmax(self.model(ids).logits[0, position], dim=-1).topk(BEAM)
        for p, token in zip(top.values.tolist(), top.indices.tolist(), strict=True):
            if (
                token not in self.tokenizer.all_special_ids
                and self.tokenizer.decode([token]).strip()
            ):
                yield self.tokenizer.decode([token]).strip(), p

    def masses(self, text):
        mass = {"female": 0.0, "male": 0.0}
        for t1, p1 in self.top(text):
            if t1 in self.gender:
                mass[self.gender[t1]] += p1
                continue
            for t2, p2 in self.top(text.replace("<mask>", f"<mask> {t1}")):
                if t2 in self.gender:
                    mass[self.gender[t2]] += p1 * p2
                    continue
                for t3, p3 in self.top(text.replace("<mask>", f"{t2} <mask> {t1}")):
                    if t3 in self.gender:
                        mass[self.gender[t3]] += p1 * p2 * p3
        return mass


@pytest.mark.parametrize("family", ["bert", "roberta"], indirect=True)
def test_phrases_equal_slow_definition(family):
    """Phrases searched breadth first equal the slow definition."""
    slow = SlowPhrases(family)
    scored_prompts = prompts(8, "rq2")
    scored = read_as(load_scorer(str(family), kind="masked"), "phrases").score(scored_prompts)
    for prompt, one in zip(scored_prompts, scored, strict=True):
        assert one.score == pytest.approx(slow.masses(prompt.text)[prompt.group], abs=1e-6)
    assert {prompt.group for prompt in scored_prompts} == {"female", "male"}
    assert any(one.score > 0 for one in scored)


def test_identical_sequences_run_once(tmp_path, monkeypatch):
    """Identical sequences are computed once."""
    scorer = read_as(load_scorer(str(tiny.save("bert", tmp_path)), kind="masked"), "phrases")
    real = type(scorer.inner).batch_probabilities
    ran = []

    def noted(self, ids):
        ran.extend(map(tuple, ids))
        return real(self, ids)

    monkeypatch.setattr(type(scorer.inner), "batch_probabilities", noted)
    scored_prompts = prompts(8, "rq2")
    first = scorer.score([*scored_prompts, *scored_prompts])
    assert first[: len(scored_prompts)] == first[len(scored_prompts) :]
    assert len(ran) == len(set(ran))
    count = len(ran)
    assert scorer.score(scored_prompts) == first[: len(scored_prompts)]
    assert len(ran) == count


def test_joined_token(tmp_path):
    """A joined token is written as one word."""
    scorer = read_as(load_scorer(str(tiny.save("bert", tmp_path)), kind="masked"), "phrases")
    piece = scorer.inner.words.index("##she")
    whole = scorer.inner.words.index("woman")
    assert scorer._phrase(("friend", "school"), piece) == "schoolshe friend"
    assert scorer._phrase(("friend", "old"), whole) == "old woman friend"
    assert scorer._phrase(("friend",), whole) == "woman friend"
    assert scorer._phrase((), whole) == "woman"
