"""Recursive masking against a slow definition: one sequence at a time, depth first, decoded by hand."""

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from swapbias.models.auto import load_scorer
from swapbias.models.masked import BEAM
from swapbias.studies.catalogue import as_prompts, config_rows, load_lexicon
from tests import tiny
from tests.scoring import read_as


@pytest.fixture(scope="module", params=["bert", "roberta"])
def family(request, tmp_path_factory):
    return tiny.save(request.param, tmp_path_factory.mktemp(request.param))


def prompts(count):
    rows = config_rows("gendered_stigma", "rq2")
    step = len(rows) // count
    return as_prompts(rows[:: step + (step % 2 == 0)])


class Slow:
    def __init__(self, folder):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForMaskedLM.from_pretrained(folder).eval()
        uncased = self.tokenizer.decode(self.tokenizer("She")["input_ids"], skip_special_tokens=True).strip() == "she"
        proper = load_lexicon("gendered_stigma/rq2").proper
        self.gender = {word.lower(): group for word, group in proper.items()} if uncased else dict(proper)

    def top(self, text):
        ids = self.tokenizer(text.replace("<mask>", self.tokenizer.mask_token), return_tensors="pt")["input_ids"]
        place = ids[0].tolist().index(self.tokenizer.mask_token_id)
        with torch.no_grad():
            top = torch.softmax(self.model(ids).logits[0, place], dim=-1).topk(BEAM)
        for p, token in zip(top.values.tolist(), top.indices.tolist(), strict=True):
            if token not in self.tokenizer.all_special_ids and self.tokenizer.decode([token]).strip():
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


def test_breadth_first_equals_the_slow_definition(family):
    slow, asked = Slow(family), prompts(8)
    scored = read_as(load_scorer(str(family), kind="masked"), "phrases").score(asked)
    for prompt, one in zip(asked, scored, strict=True):
        assert one.score == pytest.approx(slow.masses(prompt.text)[prompt.group], abs=1e-6)
    assert {prompt.group for prompt in asked} == {"female", "male"}
    assert any(one.score > 0 for one in scored)


def test_identical_sequences_run_once(tmp_path, monkeypatch):
    scorer = read_as(load_scorer(str(tiny.save("bert", tmp_path)), kind="masked"), "phrases")
    real, ran = scorer.inner.probabilities, []
    monkeypatch.setattr(scorer.inner, "probabilities", lambda ids: ran.extend(map(tuple, ids)) or real(ids))
    asked = prompts(8)
    first = scorer.score([*asked, *asked])
    assert first[: len(asked)] == first[len(asked) :]
    assert len(ran) == len(set(ran))
    count = len(ran)
    assert scorer.score(asked) == first[: len(asked)]
    assert len(ran) == count


def test_a_joined_token_is_written_as_one_word(tmp_path):
    scorer = read_as(load_scorer(str(tiny.save("bert", tmp_path)), kind="masked"), "phrases")
    piece, whole = scorer.inner.words.index("##she"), scorer.inner.words.index("woman")
    assert scorer._phrase(("friend", "school"), piece) == "schoolshe friend"
    assert scorer._phrase(("friend", "old"), whole) == "old woman friend"
    assert scorer._phrase(("friend",), whole) == "woman friend"
    assert scorer._phrase((), whole) == "woman"
