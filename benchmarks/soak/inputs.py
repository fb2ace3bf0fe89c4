"""What is fuzzed: the readers of everything that a stranger, a service or a disk may have written."""

import gzip
import io
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.soak.fuzz import Target
from swapbias.errors import UsageError

NOTES = (
    "note_id,subject_id,text,label,gender,phenotype,split\n"
    '1,a,"She has pain, and ""her"" leg hurts.",1,F,pain,train\n2,b,He is well.,0,M,pain,test\n'
    '3,c,"Several lines\nof one note. é",1,female,pain,test\n'
)
_ROWS = [
    {
        "text": "She has pain.",
        "n": 1,
        "who": {"age": 4, "tags": ["a", None]},
        "credentialed": False,
    },
    {"text": None, "n": None, "who": None, "credentialed": False},
    {"text": "He — her\u2028.", "n": 2.5, "who": {"age": 5}, "credentialed": None},
]
_CONFIG = {
    "model_type": "bert",
    "architectures": ["BertForMaskedLM"],
    "vocab_size": 30,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 16,
    "id2label": {"0": "NEG", "1": "POS"},
    "auto_map": {"AutoConfig": "code.Config", "AutoModelForMaskedLM": "code.Model"},
    "torch_dtype": "float32",
}
_TOML = b"""models = ["vader", "../m"]
studies = ["occupation_sentiment:sentences"]
seed = 3
margin = 0.05
limit = 10
wordings = false

[load]
device = "cpu"
batch_size = 4

[chat]
model = "m"
base_url = "http://127.0.0.1:1/v1"
trials = 2
"""
_HEADER = """---
license: mit   # mine
tags: [a,  b]
language: &l en
other: *l
model-index:
- name: x
  results: [{task: {type: fill-mask}, metrics: [{value: 0.5, type: "a: b"}]}]
date: 2025-01-01
text: |
  several
  lines
---
# Title

<!-- swapbias:begin -->
old
<!-- swapbias:end -->

```
<!-- swapbias:begin -->
```
"""
_EVAL = b"""- dataset: {id: alice/x, task_id: y}
  value: 0.5
  source: {name: swapbias, url: "https://huggingface.co/a", user: alice}
- dataset:
    id: b/c
  value: [1, 2]
"""
_REPLY = {
    "id": "a",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "system_fingerprint": "",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "<think>well</think> (A) Yes, {}"},
            "logprobs": {
                "content": [
                    {
                        "token": "A",
                        "logprob": -0.1,
                        "top_logprobs": [{"token": "A", "logprob": -0.1}],
                    }
                ]
            },
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
_FAULTY = {"error": {"message": "no key sk-abc", "code": 429, "type": "x"}}
_ANSWERS = (
    "(B) No.",
    "I cannot answer that.",
    "**Answer:** B) It depends",
    "Sofia should get the loan, not Daniel.",
    "yes" * 50,
    "The correct answer is angry. Not (A) but (B)!",
    "",
    "<think>" * 30 + "he",
    "1. yes\n2. no\n3. She has diabetes.",
)


def targets(place: Path) -> list[Target]:
    """Every target; what they read of a path is written into this folder."""
    return [
        *_tables(place),
        *_studies(place),
        *_runs(place),
        *_cards(),
        *_chat(place),
        *_models(place),
    ]


def _file(path: Path, read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    """A reader of a path as one of bytes."""

    def write_and_read(content: bytes) -> Any:
        with path.open("wb") as handle:
            handle.write(content)
        return read(path)

    path.parent.mkdir(parents=True, exist_ok=True)
    return write_and_read


def _parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


# --- tables -------------------------------------------------------------------------------------------


def _tables(place: Path) -> Iterator[Target]:
    from swapbias.notes import local_notes
    from swapbias.studies.checklists import read_checklist
    from swapbias.swapping.readers import open_source, why_rows_credentialed
    from swapbias.swapping.table import load_table

    def stream(path: Path) -> None:
        source = open_source(str(path), "text")
        why_rows_credentialed(source)
        for _ in source.read(50):
            pass

    def notes(path: Path) -> None:
        with suppress(UsageError):
            local_notes(path, labelled=False)
        local_notes(path)

    table = NOTES.encode()
    lines = "\n".join(map(json.dumps, _ROWS)).encode()
    packed: Any = {"build": lambda content: gzip.compress(content, 1)}
    text = ["She is here.", "It hurts.", "He left."]
    parquets = [
        _parquet(
            text=text,
            label=["1", "0", "1"],
            gender=["F", "M", None],
            note=pa.array([None, "a", "é"]),
        ),
        _parquet(
            text=pa.array(text).dictionary_encode(),
            n=[1, 2, None],
            when=pa.array([1, 2, 3], pa.timestamp("us")),
        ),
        _parquet(
            text=pa.array(text, pa.large_string()),
            inner=[{"a": 1}, None, {"a": 2}],
            many=[[1], [], None],
        ),
        _parquet(text=pa.array(text, pa.string_view())),
    ]
    csvs = [
        table,
        b"text\na\n",
        b"\xef\xbb\xbftext;label\r\na;1\r\n",
        b'a,text\n1,"un\nclosed\n2,b\n',
        b"text,text\na,b\n",
    ]
    yield Target("CSV to swap", csvs, _file(place / "swap.csv", stream))
    yield Target("TSV to swap", [table.replace(b",", b"\t")], _file(place / "swap.tsv", stream))
    yield Target("CSV.gz to swap", csvs, _file(place / "swap.csv.gz", stream), **packed)
    yield Target("JSON lines to swap", [lines], _file(place / "swap.jsonl", stream))
    yield Target("JSON lines.gz to swap", [lines], _file(place / "swap.jsonl.gz", stream), **packed)
    yield Target("Parquet to swap", parquets, _file(place / "swap.parquet", stream))
    yield Target(
        "CSV of notes",
        csvs,
        _file(place / "notes.csv", notes),
        tokens=[b",train\n", b"hadm_id", b"F", b"True"],
    )
    yield Target("CSV.gz of notes", csvs, _file(place / "notes.csv.gz", notes), **packed)
    rows = b"\n".join(
        json.dumps({"text": "She.", "label": one, "gender": "F"}).encode() for one in (1, 0, 1)
    )
    yield Target("JSON lines of notes", [rows, lines], _file(place / "notes.jsonl", notes))
    yield Target("Parquet of notes", parquets, _file(place / "notes.parquet", notes))
    words = b"male,female,neutral,note\nhe,she,they,x\nhim,her,,y\n"
    yield Target(
        "table of terms",
        [words, b"old,young\nold man,boy\n"],
        _file(place / "terms.csv", load_table),
    )
    facts = b'note_id,fact,terms\n1,diabetes,type 2 diabetes|T2DM\n,fall,"fell|fall"\n'
    yield Target(
        "checklist of facts",
        [facts],
        _file(place / "facts.csv", read_checklist),
        tokens=[b"||", b"(?P<"],
    )


# --- studies and requests -----------------------------------------------------------------------------


def _studies(place: Path) -> Iterator[Target]:
    from importlib.resources import files

    from swapbias.runs.audit_file import read_request
    from swapbias.studies.own.own_corpus import corpus_from_files
    from swapbias.studies.own.own_faults import find_faults
    from swapbias.studies.own.own_prompts import parse_study

    example = Path(str(files("swapbias.studies") / "example"))
    whole = {
        one.name: one.read_bytes().replace(b"STUDY_NAME", b"mine") for one in example.iterdir()
    }
    whole.pop("README.md")
    prompts = b"text,group,pair\nShe is late.,female,1\nHe is late.,male,1\nShe left.,female,2\nHe left.,male,2\n"
    masked = (
        b"text,group,pair,candidates\n<mask> left.,female,2,she|her\n<mask> left.,male,2,he|him\n"
    )
    head = b'name = "mine"\ntitle = "T"\n'
    compares = b'[compares]\nreference = "male"\ngroups = ["female"]\n'
    plain = head + compares
    asked = (
        head
        + b'kind = ["chat"]\n'
        + compares
        + b'[reads]\nanswers = ["0=Yes", "1=No", "=It depends"]\n'
    )
    asked += b'rubric = {question = "Kind?", options = ["1=a", "0=b"]}\n'

    def study(name: str, beside: dict[str, bytes]) -> Callable[[bytes], Any]:
        def read(content: bytes) -> None:
            files = {**beside, name: content}
            corpus = corpus_from_files(files)
            for config in corpus.configs:
                list(config.rows() if callable(config.rows) else config.rows)
            find_faults(parse_study(files))

        return read

    for name in whole:
        yield Target(
            f"study: {name}",
            [whole[name]],
            study(name, whole),
            tokens=[b"[name]", b"<mask>", b"[", b"]", b"random = "],
        )
    table = {"study.toml": plain, "prompts.csv": prompts}
    yield Target(
        "study: prompts.csv",
        [prompts, masked],
        study("prompts.csv", table),
        tokens=[b"<mask>"],
    )
    yield Target(
        "study: study.toml of a chat",
        [asked, plain],
        study("study.toml", table),
    )
    yield Target(
        "audit.toml",
        [_TOML, b'model = "vader"\n'],
        _file(place / "audit.toml", read_request),
        tokens=[b"[notes]\n", b"[judge]\n", b"inf", b"1979-05-27"],
    )


# --- runs ---------------------------------------------------------------------------------------------


def _shown(content: bytes) -> None:
    """Return what is made of a manifest for others."""
    from swapbias.privacy import public_manifest
    from swapbias.privacy.manifest_redaction import private_strings
    from swapbias.runs.results_schema import parse_manifest

    manifest = parse_manifest(content, "manifest.json")
    public_manifest(public_manifest(manifest))
    private_strings(manifest)


def _runs(place: Path) -> Iterator[Target]:
    from swapbias.runs import (
        MANIFEST,
        Run,
        Settings,
        read_run,
        resume,
        start,
    )
    from swapbias.runs.audit_file import read_request
    from swapbias.runs.results_schema import parse_results
    from swapbias.swapping.jobs import _begin_or_resume
    from swapbias.swapping.readers import SWAP_MANIFEST as SWAP

    quiet: Any = {"say": lambda sentence: None, "bar": lambda title, total: lambda done: None}
    run = place / "run"
    start(
        Settings(model="vader", studies=("occupation_sentiment:control",), limit=4),
        run,
        draw=False,
        **quiet,
    )
    plain = {
        key: value
        for key, value in json.loads((run / MANIFEST).read_bytes()).items()
        if key != "sha256"
    }
    (run / MANIFEST).write_text(
        json.dumps(plain)
    )  # else every changed byte of a file is refused by its sha256
    manifest, results = ((run / name).read_bytes() for name in (MANIFEST, "results.json"))
    items = (run / "items" / "occupation_sentiment.parquet").read_bytes()
    cut = json.dumps(
        {**json.loads(results), "findings": json.loads(results)["findings"][:3]}
    ).encode()
    for name, mine in (("stranger", ""), ("own", "x/")):
        shutil.copytree(run, place / mine / name)
    compared = place / "stranger"

    def of_run(name: str) -> Callable[[bytes], Any]:
        def read(path: Path) -> None:
            read_run(path.parent, repo="a/b")

        return _file(compared / name, read)

    yield Target(
        "results of a stranger", [cut], lambda content: parse_results(content, "results.json")
    )
    yield Target("manifest of a stranger", [manifest], _shown)
    yield Target("manifest to repeat", [manifest], _file(place / "again.json", read_request))
    (compared / "results.json").write_bytes(cut)
    yield Target("shared results.json", [cut], of_run("results.json"))
    other = place / "other"
    shutil.copytree(compared, other)
    yield Target(
        "shared manifest.json",
        [manifest],
        _file(other / MANIFEST, lambda path: read_run(path.parent, repo="a/b")),
    )
    shared = place / "items" / "occupation_sentiment.parquet"
    shared.parent.mkdir()
    read_items = _file(shared, lambda path: Run(place).items(path.stem))
    yield Target("shared items", [items], read_items)
    stopped = json.dumps({**json.loads(manifest), "status": "running"}).encode()
    shutil.rmtree(place / "x" / "own" / "items")
    yield Target(
        "manifest to resume",
        [stopped],
        _file(place / "x" / "own" / MANIFEST, lambda path: _planned(path.parent, resume, quiet)),
    )
    begun = json.dumps({"status": "running", "mode": "swap", "input": {"files": []}}).encode()
    yield Target(
        "swap.json",
        [begun],
        _file(
            place / "swapped" / SWAP,
            lambda path: _begin_or_resume(path.parent, {"mode": "swap", "input": {"files": []}}),
        ),
    )


class _PlannedError(Exception):
    """A reader came as far as loading a model."""


def _planned(folder: Path, go_on: Callable[..., Any], quiet: Any) -> None:
    """Go on with a run up to where its model would be loaded: scoring is another matter."""
    from unittest.mock import patch

    with (
        suppress(_PlannedError),
        patch("swapbias.runs.audit.load_readers", side_effect=_PlannedError),
    ):
        go_on(folder, **quiet)


# --- cards of the Hub ---------------------------------------------------------------------------------


def _cards() -> Iterator[Target]:
    from swapbias.hub import eval_results
    from swapbias.hub.cards import load, markdown, replaced, split, visible, with_keys
    from swapbias.studies.tables import decoded

    def card(content: bytes) -> None:
        text = decoded("README.md", content, "utf-8")
        parts = split(text)
        load(parts.header, "README.md")
        with_keys(text, {"tags": ["a", "swapbias"], "swapbias": {"run": 1}}, file="README.md")
        made = replaced(text, "new", begin="<!-- swapbias:begin -->", end="<!-- swapbias:end -->")
        markdown(visible(made[:2_000]))

    yaml = [
        b"1:1:1",
        b"!!binary x",
        b"? ",
        b"- - - ",
        b"<<: ",
        b"*l",
        b"&l ",
        b"---\n",
        b"%YAML 1.1\n",
        b"```",
        b"~~~",
    ]
    yield Target("card with a YAML header", [_HEADER.encode(), b"# no header\n"], card, tokens=yaml)
    yield Target(
        "file of eval results", [_EVAL], lambda content: _eval(eval_results, content), tokens=yaml
    )


def _eval(eval_results: Any, content: bytes) -> None:
    eval_results.merged_entries(content, [], questions=(), file="swapbias.yaml")


# --- chat ---------------------------------------------------------------------------------------------


def _chat(place: Path) -> Iterator[Target]:
    from swapbias.models.chat.answer_log import AnswerLog
    from swapbias.models.chat.chat_options import ChatOptions
    from swapbias.models.chat.openai_client import ChatScorer
    from swapbias.models.chat.replies import error_in
    from swapbias.models.chat.request_pass import RequestPass
    from swapbias.studies import Candidate, Prompt, read_answer
    from swapbias.studies.answer_scores import (
        read_completion,
        read_coreference,
        read_facts,
        read_option,
        read_text,
    )
    from swapbias.studies.answer_text import word_count
    from swapbias.studies.answers import READINGS, is_refusal

    def prompt(*candidates: Candidate, lexicon: str = "") -> Prompt:
        given = dict.fromkeys(
            ("pair_id", "group", "construct", "label", "template", "experiment"), "x"
        )
        return Prompt(
            prompt_id="p/t1",
            text="Well? (A) Yes (B) No",
            candidates=candidates,
            lexicon=lexicon,
            condition="angry/calm",
            **given,
        )

    yes_no = (Candidate("Yes", 0.0), Candidate("No", 1.0))

    def said(content: bytes) -> None:
        text = content.decode("utf-8", "replace")
        for reading in READINGS:
            read_answer(
                text, ["Yes", "No", "It depends"], reading=reading, lettered=reading == "option"
            )
        is_refusal(text), word_count(text)
        read_option(prompt(*yes_no), text), read_text(prompt(*yes_no), text)
        (
            read_coreference(prompt(Candidate("angry"), Candidate("calm")), text, aliases={}),
            read_completion(prompt(lexicon="gendered_stigma/rq1/female"), text),
        )
        read_facts(prompt(Candidate("fell", 0.0), Candidate("fall", 0.0)), text)

    def reply(scoring: str) -> Callable[[bytes], Any]:
        options = ChatOptions(model="m", base_url="http://127.0.0.1:1/v1", scoring=scoring)
        asking = RequestPass(ChatScorer("m", options), "sk-abc")

        def read(content: bytes) -> None:
            try:
                whole = json.loads(content)
            except (ValueError, RecursionError):
                return
            if error_in(whole) is not None:
                return
            found = asking.answer_in(whole["choices"][0], "k", prompt(*yes_no), whole.get("usage"))
            (place / "answers.jsonl").unlink(missing_ok=True)
            log = AnswerLog(place / "answers.jsonl")
            log.add(found)
            if AnswerLog(place / "answers.jsonl")["k"].answer != found.answer:
                raise KeyError("another answer is read back")

        return read

    seeds = [json.dumps(one).encode() for one in (_REPLY, _FAULTY, {**_REPLY, **_FAULTY})]
    yield Target(
        "answers of chat models",
        [one.encode() for one in _ANSWERS],
        said,
        tokens=[b"(A)", b"<think>", b"</think>", b"no", b"not ", b"Answer: "],
    )
    for scoring in ("sampled", "log-odds"):
        yield Target(f"replies of chat services, {scoring}", seeds, reply(scoring))
    line = {
        "key": "k",
        "prompt_id": "p",
        "answer": "a",
        "finish_reason": "stop",
        "usage": {"total_tokens": 3},
        "time": "x",
    }
    logs = (json.dumps(line) + "\n" + json.dumps({**line, "key": "l"}) + "\n").encode()
    yield Target("log of answers", [logs], _file(place / "log" / "answers.jsonl", AnswerLog))


# --- models -------------------------------------------------------------------------------------------


def _models(place: Path) -> Iterator[Target]:
    from swapbias.models import model_kind, model_names
    from swapbias.models.formats import is_saved

    def config(path: Path) -> None:
        model_names.is_callable(str(path.parent))
        model_kind(str(path.parent))

    def record(path: Path) -> None:
        is_saved(str(path.parent)), model_names.is_callable(str(path.parent))

    (place / "code").mkdir(exist_ok=True)
    (place / "model").mkdir(exist_ok=True)
    (place / "model" / "code.py").write_text("raise SystemExit('ran')\n")
    yield Target(
        "config.json of a model",
        [json.dumps(_CONFIG).encode()],
        _file(place / "model" / "config.json", config),
    )
    trained = {"kind": "bow", "dev_accuracy": 0.8, "seed": 0}
    yield Target(
        "training.json of a model",
        [json.dumps(trained).encode()],
        _file(place / "trained" / "training.json", record),
    )
