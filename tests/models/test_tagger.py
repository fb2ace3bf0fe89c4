"""Models that label words: their labels, whether they find a name by hand, and how they are named and read."""

import math
import re

import numpy as np
import pytest

from swapbias import StudyError, audit, open_study
from swapbias.errors import UsageError
from swapbias.models import LoadOptions, load_scorer, model_kind
from swapbias.models.person_labels import person_labels, split_labels
from swapbias.models.tag_scorer import score_spans
from swapbias.studies import Candidate, Prompt, config_rows
from swapbias.studies.own import check_study, new_study
from tests import tiny


@pytest.fixture(scope="session")
def tagger_folder(tmp_path_factory):
    return tiny.save_tagger(tmp_path_factory.mktemp("tagger") / "capitals")


def asks(text, name):
    return Prompt(prompt_id="p", text=text, candidates=(Candidate(name, 1.0),))


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (["O", "B-PER", "I-PER", "B-LOC"], ("B-PER", "I-PER")),
        (["LOC", "PER"], ("PER",)),
        (["O", "B-FIRST_NAME", "L-LAST_NAME", "U-DATE"], ("B-FIRST_NAME", "L-LAST_NAME")),
        (["O", "PATIENT", "HCP", "HOSPITAL"], ("PATIENT", "HCP")),
        (["O", "B_private-person"], ("B_private-person",)),
    ],
    ids=["positions", "plain", "parts of names", "clinical", "marks"],
)
def test_labels_of_a_person(labels, found):
    """Labels that mean a person are known with and without positions, in any case and with any marks."""
    assert person_labels(labels) == found


def test_named_labels():
    """Labels that a user names are taken by entity or whole; one that is none is refused with the nearest."""
    labels = ["O", "B-WHO", "I-WHO", "B-PLACE"]
    assert person_labels(labels, split_labels("who")) == ("B-WHO", "I-WHO")
    assert person_labels(labels, ("B-WHO",)) == ("B-WHO",)
    with pytest.raises(UsageError, match=r"none is 'WO'.* Correct -M person"):
        person_labels(labels, ("WO",))
    with pytest.raises(UsageError, match="Pass -M person with each label"):
        person_labels(["LABEL_0", "LABEL_1"])


NOTE = asks("Seen with Mary Ann today.", "Mary Ann")  # seven letters, at 10 to 18


@pytest.mark.parametrize(
    ("spans", "score", "covered"),
    [
        ([(10, 18, "PERSON")], 1, 1),
        ([(10, 14, "B-PER"), (15, 18, "I-PER")], 1, 1),
        ([(5, 25, "PER")], 1, 1),
        ([(10, 14, "PER")], 0, 4 / 7),
        ([(11, 18, "PER")], 0, 6 / 7),
        ([(10, 18, "LOC")], 0, 0),
        ([], 0, 0),
    ],
    ids=["exact", "two words", "wider", "first word", "first letter lost", "a place", "nothing"],
)
def test_score_by_hand(spans, score, covered):
    """A name is found where spans of persons cover each of its letters; the share that they cover stands beside."""
    tagger = load_scorer(lambda texts: [spans for _ in texts], kind="tagger", name="spans")
    (scored,) = tagger.score([NOTE])
    assert scored.score == score
    assert scored.parts["covered"] == pytest.approx(covered)


def test_every_mention_counts():
    """A name that stands twice is found where both are; as a part of another word it is no name."""
    note = asks("Ann called. Annual visit of Ann.", "Ann")
    tagger = load_scorer(lambda texts: [[(0, 3, "PER")]], kind="tagger")
    (scored,) = tagger.score([note])
    assert (scored.score, scored.parts["covered"]) == (0, 0.5)


def test_name_that_is_not_there():
    """A text without the name has no score, and a prompt that asks for no name is refused."""
    assert math.isnan(score_spans(asks("Nobody came.", "Ann"), []).score)
    with pytest.raises(UsageError, match="does not say which name to find"):
        score_spans(Prompt(prompt_id="p", text="Ann came."), [])


def test_spans_as_pipelines_write_them():
    """Spans may be mappings, as pipelines of transformers return them."""
    found = [{"entity_group": "PER", "start": 10, "end": 18, "score": 0.9}]
    assert load_scorer(lambda texts: [found], kind="tagger").score([NOTE])[0].score == 1


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ([0.5], r"returned list, expected a list of \(start, end, label\)"),
        ([[(1, 2)]], "expected a list of"),
        ([[("Mary", 2, "PER")]], "expected a list of"),
        ([[{"start": 1, "end": 2}]], "expected a list of"),
        ([], "returned 0 lists for 1 texts"),
    ],
    ids=["a number", "no label", "no place", "mapping without label", "too few"],
)
def test_what_are_no_spans(returned, sentence):
    """A function that returns no spans is refused in a sentence that repeats nothing of the text."""
    with pytest.raises(ValueError, match=sentence) as refusal:
        load_scorer(lambda texts: returned, kind="tagger").score([NOTE])
    assert "Mary" not in str(refusal.value)


def test_kind_of_a_model(tagger_folder):
    """A token classifier is known by its config; a function is one where its kind says so."""
    assert model_kind(str(tagger_folder)) == "tagger"
    assert model_kind("json:loads", "tagger") == "tagger"
    assert model_kind("json:loads") == "classifier"
    with pytest.raises(UsageError, match="is of kind tagger, not masked"):
        model_kind(str(tagger_folder), "masked")


def test_word_of_several_pieces(tagger_folder):
    """The first piece labels its word; where each piece has its own label, one of three letters is found."""
    tagger = load_scorer(str(tagger_folder))
    (whole,) = tagger.score([asks("the results of Ann.", "Ann")])
    (lower,) = tagger.score([asks("the results of ann.", "ann")])
    assert (whole.score, whole.answer, lower.score, lower.answer) == (1, "PER", 0, "O")
    (each,) = tagger.finding(pieces="each").score([asks("the results of Ann.", "Ann")])
    assert (each.score, each.parts["covered"]) == (0, pytest.approx(1 / 3))


def test_text_that_is_too_long(tagger_folder):
    """A text that is longer than the model reads has no score, and others beside it have theirs."""
    notes = [asks(f"{'a ' * 200}Ann", "Ann"), asks("Ann", "Ann")]
    long_text, short_text = load_scorer(str(tagger_folder)).score(notes)
    assert math.isnan(long_text.score)
    assert math.isnan(long_text.parts["covered"])
    assert short_text.score == 1


def test_labels_that_mean_no_person(tmp_path):
    """A model whose labels are numbers is refused until the user says which is a person's."""
    tagger = load_scorer(str(tiny.save_tagger(tmp_path / "m", ("LABEL_0", "LABEL_1"))))
    with pytest.raises(UsageError, match="none is known to mean a person"):
        tagger.score([NOTE])
    named = tagger.finding(("LABEL_1",))
    assert named.score([NOTE])[0].score == 1
    assert named.identity["person"] == ["LABEL_1"]


@pytest.mark.parametrize("batch_size", [1, 64])
def test_same_labels_as_the_model(batch_size, tmp_path):
    """Packed texts have the outputs that the model gives for each text alone."""
    import torch
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    folder = tiny.save_tagger(tmp_path / "m")
    torch.manual_seed(0)
    model = AutoModelForTokenClassification.from_pretrained(folder)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tagger = load_scorer(model, tokenizer=tokenizer, options=LoadOptions(batch_size=batch_size))
    texts = ["Ann left.", "We saw Bo.", "Ann and Bo.", "To"]
    encoded = tagger.encode(texts)
    seen = 0
    for members, (output,) in tagger.outputs(texts, lambda ids: (tagger.engine.token_logits(ids),)):
        alone = [model(torch.tensor([encoded[index]])).logits[0] for index in members]
        expected = torch.cat(alone).detach().numpy()
        np.testing.assert_allclose(output.numpy(), expected, atol=1e-4)
        seen += len(members)
    assert seen == len(texts)


def test_pipeline_in_memory(tagger_folder):
    """A plain pipeline is read as its model and tokenizer."""
    from transformers import pipeline

    tagger = load_scorer(pipeline("token-classification", model=str(tagger_folder)))
    assert tagger.kind == "tagger"
    assert tagger.score([asks("the results of Ann.", "Ann")])[0].score == 1


NOTES = {
    "study.toml": 'name = "our_notes"\ntitle = "Our notes"\nkind = ["tagger"]\n[compares]\nreference = "b"\n',
    "templates.csv": "template\n" + "".join(f"{word} [name] called and [name] left.\n" for word in "abcdefgh"),
    "slots.csv": "pair,group,name\n" + "".join(
        f"{pair},{group},{name}{pair}\n" for pair in "stuvwxyz" for group, name in (("a", "Ann"), ("b", "Bo"))
    ),
}  # fmt: skip


def written(folder, **changed):
    folder.mkdir()
    for name, text in {**NOTES, **changed}.items():
        (folder / name).write_text(text)
    return folder


def test_names_in_own_notes(tmp_path):
    """Own notes are asked for the names of their slots: a tagger that misses those of a group has that gap."""
    folder = written(tmp_path / "our_notes")

    def tag(texts):
        names = re.compile(r"\bBo\w|\bAnn[s-v]")  # half of the names of the one group
        return [[(*match.span(), "PER") for match in names.finditer(text)] for text in texts]

    outcome = audit(tag, studies=[folder], kind="tagger", wordings=False, progress=False)
    scores = outcome.items("our_notes").groupby("group")["score"].mean()
    assert scores.to_dict() == {"a": 0.5, "b": 1.0}
    (gap,) = (one for one in outcome.found if one.primary)
    assert gap.estimate.value == -0.5
    assert gap.unit == "share of names found"


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"templates.csv": "template\n[who] left.\n", "slots.csv": "pair,group,who\n1,a,Ann\n1,b,Bo\n"},
            "nothing says which name to find",
        ),
        ({"templates.csv": "template\nx[name] left.\n"}, "is not in the text"),
    ],
    ids=["no name", "part of a word"],
)  # fmt: skip
def test_own_notes_without_names(changed, sentence, tmp_path):
    """Notes that do not say which name to find are refused with their line."""
    folder = written(tmp_path / "our_notes", **changed)
    with pytest.raises(StudyError, match=sentence):
        open_study(folder)


def test_template_of_notes(tmp_path):
    """The template is notes with drawn names of four groups, each of which stands in its text."""
    new_study(tmp_path / "ours", "tagger")
    checked = check_study(tmp_path / "ours")
    assert (checked.faults, checked.advice) == ([], [])
    (experiment,) = open_study(tmp_path / "ours").experiments
    assert experiment.kind == "tagger"
    assert experiment.design.random.keys() == {"template", "words"}
    rows = config_rows("ours", "names")
    assert len(rows) == 10 * 24 * 4  # templates, names of women and of men, groups
    assert all(row["candidates"][0].text in row["text"] for row in rows)


def test_notes_for_a_tagger(tagger_folder, tmp_path):
    """Clinical notes are not read by a tagger, which is said with the way that works."""
    (tmp_path / "notes.csv").write_text("text,label\nShe fell.,1\n")
    with pytest.raises(UsageError, match=r"of kind tagger, which reads none\. Ask it about names"):
        audit(str(tagger_folder), data=tmp_path / "notes.csv", progress=False)


def test_credentialed_notes_with_names(tmp_path, capsys):
    """Own notes that say they are credentialed are refused before anything is read, and nothing of them is shown."""
    rows = "text,group,pair,name,credentialed\nAnn hid it.,a,1,Ann,True\nBo hid it.,b,1,Bo,True\n"
    folder = tmp_path / "our_notes"
    folder.mkdir()
    (folder / "study.toml").write_text(NOTES["study.toml"])
    (folder / "prompts.csv").write_text(rows)
    seen = []
    with pytest.raises(UsageError, match="may contain credentialed clinical notes") as refusal:
        audit(seen.append, studies=[folder], kind="tagger", out=tmp_path / "run")
    shown = capsys.readouterr()
    assert "hid" not in f"{refusal.value}{shown.out}{shown.err}"
    assert not seen
    assert not (tmp_path / "run").exists()
