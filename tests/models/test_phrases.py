"""Recursive masking against a slow definition: one sequence at a time, depth first, decoded by hand."""

import json

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from swapbias.errors import UsageError
from swapbias.models.auto import load_scorer, read_as
from swapbias.models.base import LoadOptions
from swapbias.models.recursive_masking import BEAM, MOST_LOST, PhraseScorer, _Stimulus
from swapbias.runs.audit import start
from swapbias.runs.plan import Settings
from swapbias.studies.catalogue import as_prompts, config_rows, load_lexicon
from tests import tiny


@pytest.fixture(scope="module", params=["bert", "roberta"])
def family(request, tmp_path_factory):
    return tiny.save(request.param, tmp_path_factory.mktemp(request.param))


def prompts(count):
    rows = config_rows("gendered_stigma", "rq2")
    step = len(rows) // count
    return as_prompts(rows[:: step + (step % 2 == 0)])


class Slow:
    """The definition as the study gives it, for one text."""

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


def test_the_phrases_of_a_group_sum_to_its_score(family):
    for one in read_as(load_scorer(str(family), kind="masked"), "phrases").score(prompts(8)):
        phrases = json.loads(one.top_tokens)
        assert sum(p for _, p in phrases) == pytest.approx(one.score, abs=1e-6)
        assert all(1 <= len(phrase.split()) <= 3 for phrase, _ in phrases)


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


def test_progress_adds_up_to_the_prompts(tmp_path):
    scorer = read_as(load_scorer(str(tiny.save("bert", tmp_path)), kind="masked"), "phrases")
    told = []
    asked = prompts(4)
    scorer.score(asked, told.append)
    assert sum(told) == pytest.approx(len(asked))


def test_a_joined_token_is_written_as_one_word(tmp_path):
    scorer = read_as(load_scorer(str(tiny.save("bert", tmp_path)), kind="masked"), "phrases")
    piece, whole = scorer.inner.words.index("##she"), scorer.inner.words.index("woman")
    assert scorer._phrase(("friend", "school"), piece) == "schoolshe friend"
    assert scorer._phrase(("friend", "old"), whole) == "old woman friend"
    assert scorer._phrase(("friend",), whole) == "woman friend"
    assert scorer._phrase((), whole) == "woman"


ROUNDING = 1e-6


@pytest.mark.parametrize("prune", [1e-4, 1e-3, 1e-2])
def test_what_pruning_loses_is_no_more_than_it_says(family, prune):
    masked, asked = load_scorer(str(family), kind="masked"), prompts(8)
    exact, pruned = PhraseScorer(masked).score(asked), PhraseScorer(masked, prune=prune).score(asked)
    for one, other in zip(exact, pruned, strict=True):
        assert other.parts["pruned_mass"] >= 0
        # Fewer sequences stand in other rows: float32 differs in the seventh digit.
        assert -ROUNDING <= one.score - other.score <= other.parts["pruned_mass"] + ROUNDING
        for phrase, probability in json.loads(other.top_tokens):  # several paths may spell one phrase
            known = [p for name, p in json.loads(one.top_tokens) if name == phrase]
            assert min(abs(p - probability) for p in known) <= ROUNDING
    assert all(one.parts == {} for one in exact)


def test_pruning_gives_up_branches_below_the_threshold_and_runs_less(tmp_path):
    masked, asked = load_scorer(str(tiny.save("bert", tmp_path)), kind="masked"), prompts(4)
    exact, pruned, strict = (PhraseScorer(masked, prune=prune, most_lost=1) for prune in (0.0, 0.02, 0.999))
    for scorer in (exact, pruned, strict):
        scorer.score(asked)
    assert len(strict._known) == len({prompt.text for prompt in asked})  # no branch of step 1 is that likely
    assert len(strict._known) < len(pruned._known) < len(exact._known)


def test_pruning_gives_up_the_least_likely_first_and_no_more_than_may_be_lost(tmp_path):
    masked, asked = load_scorer(str(tiny.save("bert", tmp_path)), kind="masked"), prompts(8)
    found = PhraseScorer(masked, prune=0.999).score(asked)
    assert all(0 < one.parts["pruned_mass"] <= MOST_LOST for one in found)
    # By hand: of .004, .005 and .003 below .02 the least two are .007, and with the third it would be .012.
    one = _Stimulus("text", "lexicon", branches=[(("a",), 0.004), (("b",), 0.005), (("c",), 0.5), (("d",), 0.003)])
    one.prune(0.02, MOST_LOST)
    assert one.branches == [(("b",), 0.005), (("c",), 0.5)]
    assert one.pruned == pytest.approx(0.007)


def test_pruned_mass_is_the_probability_of_the_branches_given_up(tmp_path):
    """With a threshold that no branch reaches, it is that of the ten first words less gendered and unusable ones."""
    scorer = PhraseScorer(load_scorer(str(tiny.save("bert", tmp_path)), kind="masked"), prune=0.999, most_lost=1)
    prompt = prompts(8)[0]
    one = scorer.score([prompt])[0]
    slow = Slow(tmp_path)
    open_branches = sum(p for word, p in slow.top(prompt.text) if word not in slow.gender)
    assert one.parts["pruned_mass"] == pytest.approx(open_branches, abs=1e-6)


def test_pruning_is_part_of_the_identity_only_when_asked_for(tmp_path):
    masked = load_scorer(str(tiny.save("bert", tmp_path)), kind="masked")
    assert "prune" not in PhraseScorer(masked).identity
    assert PhraseScorer(masked, prune=0.001).identity["prune"] == 0.001
    for wrong in (-0.1, 1.0, float("nan")):
        with pytest.raises(UsageError, match=r"prune .* prune below 1"):
            PhraseScorer(masked, prune=wrong)
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(UsageError, match="most_lost"):
            PhraseScorer(masked, prune=0.001, most_lost=wrong)


def test_an_audit_says_what_pruning_may_have_lost(tmp_path):
    settings = Settings(
        model=str(tiny.save("bert", tmp_path)),
        studies=("gendered_stigma:rq2",),
        limit=4,
        load=LoadOptions(prune=0.9),
    )
    said = []
    run, _ = start(settings, tmp_path / "run", say=said.append, bar=lambda *_: lambda done: None)
    (told,) = (one for one in said if "pruning gave up" in one)
    lost = run.items("gendered_stigma")["pruned_mass"]
    assert f"{lost.mean():.2g} of a prompt's probability on average and {lost.max():.2g} at most" in told
    assert run.manifest()["pruning"] == [told]
    assert ">pruning</th>" in (run.folder / "report.html").read_text(encoding="utf-8")
