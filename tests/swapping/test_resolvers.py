"""Language models that decide to whom a word refers, over real HTTP and as tiny classifiers; and
privacy."""

import json
import re
import zlib

import pyarrow.parquet as pq
import pytest

from swapbias.errors import UsageError
from swapbias.swapping import Job, Swapper, evaluate, gold_notes, load_resolver, swap_files
from swapbias.swapping.resolvers import CLASSES, MarkedNote, TokenResolver, windows
from tests.cli.test_cli import swapbias
from tests.models.chat.server import ChatServer
from tests.tables import write

ROWS = gold_notes()[::6]
BY_TEXT = {row["text"]: row for row in gold_notes()}
NUMBERED = re.compile(r"\[\[(\d+):([^\]]*)\]\]")
GENDER_WORDS = {
    "male": {"he", "him", "his", "himself"},
    "female": {"she", "her", "hers", "herself"},
}


def marks_of(prompt):
    """The note of a prompt, and of each number what the gold says: (number, word, class)."""
    numbered = prompt.partition(".\n\n")[2] if prompt.startswith("The patient is ") else prompt
    row = BY_TEXT[NUMBERED.sub(r"\2", numbered)]
    spans = json.loads(row["spans"])
    shift = 0
    marks = []
    for mark in NUMBERED.finditer(numbered):
        start = mark.start() - shift
        shift += len(mark[0]) - len(mark[2])
        end = start + len(mark[2])
        referent = next(
            (span["whose"] for span in spans if span["start"] < end and start < span["end"]),
            "other",
        )
        marks.append((int(mark[1]), mark[2].lower(), referent))
    return row, marks


def gold(prompt):
    return json.dumps({str(number): whose for number, _, whose in marks_of(prompt)[1]})


def resolver_of(server, **options):
    return load_resolver("chat:tiny", base_url=server.base_url, **options)


def test_perfect_model():
    """A model with all the right answers reaches them exactly."""
    with ChatServer(gold) as server:
        (whole, *_) = evaluate(Swapper(whose="patient", resolver=resolver_of(server)), ROWS)
        requests = server.requests
    assert whole.precision.value == whole.others_left.value == 1
    assert whole.recall.value > 0.995  # a word that no table has stays
    assert whole.exact.value > 0.9
    schema = requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["required"] == [str(at + 1) for at in range(len(schema["required"]))]
    assert all(one["enum"] == list(CLASSES) for one in schema["properties"].values())
    assert {(body["temperature"], body["max_tokens"]) for body in requests} == {(0.0, 4096)}


def test_places_in_characters():
    """A resolver is given the places of words in characters."""

    class Seen:
        name = "seen"
        sends_text = False

        def whose(self, notes):
            self.notes = notes
            return [["patient"] * len(one.words) for one in notes]

    seen = Seen()
    text = "née Müller — 45F. She saw “his” naïve wife; 他 gave her his."
    Swapper(whose="patient", resolver=seen).run(["He left.", f"{text} " * 2])
    words = [[one.text[start:end] for start, end in one.words] for one in seen.notes]
    assert words == [["He"], ["F", "She", "his", "wife", "her", "his"] * 2]


def test_model_with_known_errors():
    """The measured accuracy of a model is that of its planted errors."""
    others = 0
    wrong = 0

    def errs(prompt):
        nonlocal others, wrong
        row, marks = marks_of(prompt)
        answers = {}
        for number, word, whose in marks:
            other = whose == "other" and word in GENDER_WORDS[row["gender"]]
            fails = other and zlib.crc32(f"{number}{prompt}".encode()) % 4 == 0
            others = others + other
            wrong = wrong + fails
            answers[str(number)] = "patient" if fails else whose
        return json.dumps(answers)

    with ChatServer(errs) as server:
        (whole, *_) = evaluate(Swapper(whose="patient", resolver=resolver_of(server)), ROWS)
    assert wrong > 10
    assert whole.others_left.n == others
    assert whole.others_left.value == pytest.approx(1 - wrong / others)


READABLE = '<think>{"1": "other"}</think>Here: ```json\n{"1": "patient", "2": "patient", "3": "other"}\n```'
UNREADABLE = [
    "I do not know.", "{", '["1", "2", "3"]', '{"1": "patient", "2": "other"}',
    '{"1": "other", "2": "other", "3": "nurse"}', '{"1": "other", "2": "other", "3": "other", "2": "patient"}',
    '{"1": "other", "2": "other", "3": "other", "4": "other"}',
]  # fmt: skip


@pytest.mark.parametrize("said", [READABLE, *UNREADABLE])
def test_unreadable_answer(said):
    """An answer that cannot be read leaves the note to the rules."""
    with ChatServer(lambda prompt: said) as server:
        found = Swapper(whose="patient", resolver=resolver_of(server)).run(
            ["58M. His sister."], genders=["male"]
        )
    rules = Swapper(whose="patient").run(["58M. His sister."], genders=["male"])
    assert found.texts.to_pylist() == rules.texts.to_pylist() == ["58F. Her sister."]
    assert (found.unread.tolist(), rules.unread.tolist()) == ([said in UNREADABLE], [False])


NOTES = {"text": ["58M. His sister is a nurse. Canary", "Nothing."]}
CREDENTIALED = NOTES | {"HADM_ID": ["1", "2"]}


def test_credentialed_notes_and_services(tmp_path):
    """Credentialed notes go to no service but a declared one."""
    path = write(tmp_path / "n.csv", CREDENTIALED)
    with ChatServer(lambda prompt: '{"1": "patient", "2": "other", "3": "other"}') as server:
        job = Job(str(path), resolver=resolver_of(server))
        with pytest.raises(
            UsageError, match=r"sends texts to a service, and these rows are credentialed"
        ):
            swap_files(job, tmp_path / "out")
        assert server.requests == []
        assert not (tmp_path / "out").exists()
        own = Job(str(path), resolver=resolver_of(server, own_address=(server.base_url,)))
        done = swap_files(own, tmp_path / "out")
        assert len(server.requests) == 1
    assert done.totals.rows_unread == 0
    rows = pq.read_table(tmp_path / "out" / "data").to_pylist()
    assert rows[0]["text"] == "58F. His sister is a nurse. Canary"
    assert json.loads((tmp_path / "out" / "swap.json").read_text())["resolver"] == "chat:tiny"


def test_failing_service(tmp_path, caplog):
    """A service that fails repeats no note."""
    path = write(tmp_path / "n.csv", CREDENTIALED)
    with ChatServer(lambda prompt: "", fault=lambda prompt, n: "400") as server:
        more = ("-M", f"own-address={server.base_url}")
        done = swapbias(
            "swap",
            path,
            "--out",
            tmp_path / "out",
            "--resolver",
            "chat:tiny",
            "--base-url",
            server.base_url,
            *more,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Canary" not in done.stdout + done.stderr + caplog.text


def test_table_of_a_resolver():
    """The table of a resolver is printed."""
    with ChatServer(gold) as server:
        done = swapbias(
            "swap", "--evaluate", "--resolver", "chat:tiny", "--base-url", server.base_url
        )
    assert "180 notes of clinical_swaps, test; by chat:tiny" in done.stdout
    (whole,) = re.findall(r"100%.*", done.stdout)
    assert whole.split()[2] == "1.000"


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        (("--base-url", "http://127.0.0.1:1/v1"), "is of a resolver, and none is named"),
        (
            ("--resolver", "folder", "--base-url", "http://127.0.0.1:1/v1"),
            "Write --resolver chat:folder",
        ),
        (
            ("--resolver", "chat:m", "--base-url", "http://127.0.0.1:1/v1", "--processes", "2"),
            "runs in one process",
        ),
        (
            ("--resolver", "chat:m", "--base-url", "http://127.0.0.1:1/v1", "--whose", "everyone"),
            "Take whose='patient'",
        ),
        (("--max-doubt", "0.1", "--whose", "everyone"), "Add --whose patient"),
    ],
    ids=[
        "address without resolver",
        "address of a folder",
        "processes",
        "everyone",
        "doubt of everyone",
    ],
)
def test_contradicting_options(tmp_path, more, wanted):
    """Options that contradict each other are refused in one sentence."""
    done = swapbias(
        "swap",
        write(tmp_path / "n.csv", NOTES),
        "--out",
        tmp_path / "out",
        "--whose",
        "patient",
        *more,
    )
    assert done.returncode == 2
    assert wanted in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A tiny untrained encoder whose vocabulary is that of some notes."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    torch.manual_seed(0)
    words = sorted(
        {word for row in ROWS[:8] for word in re.findall(r"\w+|[^\w\s]", row["text"].lower())}
    )
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "patient",
        ":",
        "female",
        "male",
        *words,
    ]
    vocabulary = {piece: at for at, piece in enumerate(dict.fromkeys(pieces))}
    folder = tmp_path_factory.mktemp("encoder")
    BertTokenizer(vocab=vocabulary, do_lower_case=True, model_max_length=48).save_pretrained(folder)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    BertModel(
        BertConfig(vocab_size=len(vocabulary), max_position_embeddings=48, **sizes)
    ).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def trained(encoder, tmp_path_factory):
    from scripts.fit_resolver import fit

    folder = tmp_path_factory.mktemp("trained")
    fit(str(encoder), ROWS[:8], folder, epochs=60, learning_rate=2e-3)
    return folder


def test_trained_classifier(trained):
    """A classifier that is trained here learns its notes, and one with other labels is refused."""
    (by_rules, *_), (whole, *_) = (
        evaluate(Swapper(whose="patient", resolver=one), ROWS[:8])
        for one in (None, load_resolver(str(trained)))
    )
    assert whole.precision.value > max(0.95, by_rules.precision.value - 0.05)
    assert whole.others_left.value > 0.9
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    model = AutoModelForTokenClassification.from_pretrained(
        trained, id2label={0: "a", 1: "b", 2: "patient"}
    )
    with pytest.raises(
        UsageError, match=r"has the labels a, b, patient, expected patient, spouse, other"
    ):
        TokenResolver(model, AutoTokenizer.from_pretrained(trained), "m")


def test_local_resolver(trained, tmp_path, monkeypatch):
    """Credentialed notes are resolved here without the network."""

    def refuse(*arguments, **more):
        raise AssertionError("a connection is made")

    monkeypatch.setattr("socket.socket.connect", refuse)
    path = write(tmp_path / "n.csv", CREDENTIALED)
    done = swapbias("swap", path, "--out", tmp_path / "out", "--resolver", trained)
    assert done.returncode == 0
    assert "rows unread: 0" in done.stdout


def test_windows_of_long_notes(encoder):
    """Long notes are split into windows that hold every word."""
    from transformers import AutoTokenizer

    text = "He saw her. " * 60
    places = [(found.start(), found.end()) for found in re.finditer("He|her", text)]
    found = windows(AutoTokenizer.from_pretrained(encoder), MarkedNote(text, places, "male"), 48)
    assert len(found) > 3
    assert max(len(inputs["input_ids"]) for inputs, _ in found) <= 48
    assert {word for _, words in found for word in words} == {None, *range(len(places))}
    for inputs, words in found:
        assert [kind == 1 for kind in inputs["token_type_ids"]] == [
            word is not None for word in words
        ]
