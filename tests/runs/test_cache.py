"""Scores kept between audits: exact, never for other settings, never of notes, and bounded in
size."""

import math
import os
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from swapbias.errors import UsageError
from swapbias.models import LoadOptions, Scored, load_scorer, masked
from swapbias.models.clinical import NoteOptions
from swapbias.models.masked import MaskedScorer
from swapbias.runs import Settings, cache as caching, start
from swapbias.runs.cache import ScoreCache, is_pinned
from swapbias.runs.run import with_scores
from swapbias.studies import as_prompts, config_rows, load_lexicon
from tests import tiny
from tests.conftest import ROOT
from tests.scoring import read_as, score_rows

OPTIONS = LoadOptions()
ROWS = config_rows("gendered_stigma", "rq1")[:12]


class Counting:
    """A scorer that looks like a loaded model and knows how many prompts it scored."""

    kind = "masked"
    unit = "probability"
    model_id = "counting"

    def __init__(self, scores=None, **identity):
        identity_fields = {
            "architecture": "X",
            "device": "cpu",
            "dtype": "float32",
            "sha256": "a" * 64,
        }
        self.identity = {**identity_fields, **identity}
        self.scores = scores
        self.asked = 0

    def score(self, prompts, on_progress=None):
        self.asked += len(prompts)
        return self.scores or [
            Scored(len(prompt.text) / 7, "She", '[["She", 0.1]]') for prompt in prompts
        ]


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    """An empty cache without a limit of the surroundings."""
    monkeypatch.setenv("SWAPBIAS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SWAPBIAS_CACHE_LIMIT", raising=False)
    return tmp_path / "cache"


def files(cache_folder):
    return sorted(path for path in (cache_folder / "scores").rglob("*") if path.is_file())


def scores_of(options=OPTIONS, in_run=Path("not-there")):
    return ScoreCache(options, in_run, shared=True)


def cached(rows, scorer, cache):
    """The rows with their scores, from files where they have them."""
    prompts = as_prompts(rows)
    path = cache.place(prompts, scorer, private=False)
    scored = cache.read(path, len(rows))
    if scored is None:
        scored = scorer.score(prompts)
        cache.write(path, scored)
        cache.trim()
    return with_scores(rows, scored, scorer.model_id)


def score_with_new_cache(scorer, rows=ROWS, options=OPTIONS):
    """Return the number of rows that an audit asks the scorer for, and the scored rows."""
    before = scorer.asked
    scored_rows = cached(rows, scorer, scores_of(options))
    return scorer.asked - before, scored_rows


def test_scored_prompts_are_reused():
    """Prompts that were scored are not scored again."""
    scorer = Counting()
    assert score_with_new_cache(scorer)[0] == 12
    cache = scores_of()
    again = cached(ROWS, scorer, cache)
    assert (scorer.asked, cache.rows_reused) == (12, 12)
    assert again == score_rows(ROWS, Counting())
    score_with_new_cache(Counting())
    other = Counting()
    other.model_id = "copy"
    count, found = score_with_new_cache(other)
    assert (count, {row["model_id"] for row in found}) == (0, {"copy"})


def test_scores_round_trip_bit_for_bit():
    """Every score comes back bit for bit: NaN, signed zero and parts that some rows lack."""
    quiet_nan = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]
    values = [
        math.nan,
        quiet_nan,
        -0.0,
        0.1 + 0.2,
        5e-324,
        math.inf,
        -1e300,
        1 / 3,
        0.0,
        1.0,
        2.0,
        3.0,
    ]
    scores = [Scored(value, f"ä\n{index}", "[]") for index, value in enumerate(values)]
    scores[1] = replace(scores[1], parts={"b": quiet_nan, "a": -0.0})
    scores[2] = replace(scores[2], parts={"a": math.nan})
    score_with_new_cache(Counting(scores))
    count, found = score_with_new_cache(Counting(scores))
    assert count == 0
    expected = score_rows(ROWS, Counting(scores))
    assert [list(row) for row in found] == [list(row) for row in expected]
    assert [bits(row) for row in found] == [bits(row) for row in expected]


def test_chunk_with_non_finite_score():
    """No score of a chunk with a number that was not finite is kept."""
    scorer = Counting([*[Scored(0.0)] * 11, Scored(math.nan, finite=False)])
    assert [score_with_new_cache(scorer)[0] for _ in range(2)] == [12, 12]


def bits(row):
    """A row with its numbers as bytes, so that NaN equals itself and -0.0 not 0.0."""
    return {
        name: struct.pack("<d", value) if isinstance(value, float) else value
        for name, value in row.items()
    }


def test_whole_numbers_are_floats(monkeypatch):
    """Whole numbers are floats whether they were kept or not."""
    scores = [Scored(0, parts={"mass": 1})] * 12
    found = [
        score_rows(ROWS, Counting(scores)),
        score_with_new_cache(Counting(scores))[1],
        score_with_new_cache(Counting(scores))[1],
    ]
    for rows in found:
        assert {(type(row["score"]), type(row["mass"])) for row in rows} == {(float, float)}

    def full(path, content):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(caching, "write_whole", full)
    assert score_with_new_cache(Counting(sha256="c" * 64))[1] == score_rows(ROWS, Counting())


def test_no_text_is_kept(cache_folder):
    """No text of a prompt is kept, and only the user can read the files."""
    score_with_new_cache(Counting())
    (file,) = files(cache_folder)
    assert ROWS[0]["text"].encode() not in file.read_bytes()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


CHANGES = {
    "weights": lambda patch: {"scorer": Counting(sha256="b" * 64)},
    "top_k": lambda patch: {"scorer": Counting(top_k=50)},
    "dtype": lambda patch: {"options": LoadOptions(dtype="bfloat16")},
    "batch size": lambda patch: {"options": LoadOptions(batch_size=8)},
    "positive label": lambda patch: {"options": LoadOptions(positive_label="good")},
    "negative label": lambda patch: {"options": LoadOptions(negative_label="bad")},
    "limit": lambda patch: {"rows": ROWS[:6]},
    "a word of a prompt": lambda patch: {
        "rows": [{**ROWS[0], "text": "<mask> has flu."}, *ROWS[1:]]
    },
    "the words counted": lambda patch: {
        "rows": [{**ROWS[0], "lexicon": "gendered_stigma/rq1/male"}, *ROWS[1:]]
    },
    "order": lambda patch: {"rows": ROWS[::-1]},
    "version": lambda patch: patch.setattr(caching, "__version__", "0.0.1"),
    "torch": lambda patch: patch.setattr(
        caching, "library_versions", lambda names: {"torch": "0.0.1"}
    ),
    "code": lambda patch: patch.setattr(caching, "code_sha256", lambda: "c" * 64),
    "word list": lambda patch: patch.setattr(caching, "load_lexicon", with_another_word),
}


def with_another_word(name):
    lexicon = load_lexicon(name)
    return replace(lexicon, words={**lexicon.words, "duchess": "female"})


@pytest.mark.parametrize("change", CHANGES)
def test_changed_setting_is_scored_again(change, monkeypatch):
    """A changed setting is scored again and kept beside the other."""
    score_with_new_cache(Counting())
    changed = CHANGES[change](monkeypatch) or {}
    scorer = changed.pop("scorer", Counting())
    assert score_with_new_cache(scorer, **changed)[0] == len(changed.get("rows", ROWS))
    assert score_with_new_cache(scorer, **changed)[0] == 0  # and is kept beside the other


def test_readings_and_weights(tmp_path, monkeypatch):
    """Each reading and each change of the weights of a folder has scores of its own."""
    folder = tiny.save("bert", tmp_path / "model")
    before = load_scorer(str(folder))
    scorers = [before, *(read_as(before, reading) for reading in ("attitude", "phrases"))]
    rows = [{**row, "lexicon": "social_distance/attitude/negative"} for row in ROWS[:2]]
    for mine in scorers:
        fresh_rows = cached(rows, mine, scores_of())
        cache = scores_of()
        again = cached(rows, mine, cache)
        assert cache.rows_reused == 2
        assert [bits(row) for row in again] == [bits(row) for row in fresh_rows]
    with monkeypatch.context() as patched:
        patched.setattr(masked, "TOP_K", 50)
        scorers.append(load_scorer(str(folder)))
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 32}')
    scorers.append(load_scorer(str(folder)))
    assert {one.model_id for one in scorers} == {"model"}
    assert len({scores_of().key(as_prompts(rows), one) for one in scorers}) == 5


@pytest.mark.parametrize(
    "identity",
    [{"sha256": None, "revision": None}, {"sha256": ""}, {"dtype": None, "revision": ""}],
    ids=["no sha256", "empty sha256", "no dtype"],
)
def test_model_without_pin(identity, cache_folder, tmp_path):
    """Scores of a model without a pin stay in the run."""
    scorer = Counting(**identity)
    if "dtype" in identity:
        del scorer.identity["sha256"], scorer.identity["dtype"]
    for run, count in (("a", 12), ("a", 12), ("b", 24)):
        cached(ROWS, scorer, scores_of(in_run=tmp_path / run))
        assert scorer.asked == count
    assert files(cache_folder) == []


def test_notes_and_models_without_pin(tmp_path):
    """Scores of notes stay in the run, and those of models without a pin are not shared."""
    chat = Counting()
    notes = Counting()
    prompts = as_prompts(ROWS)
    chat.kind = "chat"
    notes.kind = "phenotype"
    unpinned = [load_scorer(model) for model in ("vader", "tests.runs.test_cache:fall_risk")]
    assert [is_pinned(one) for one in (chat, notes, *unpinned, Counting())] == [*[False] * 4, True]
    assert scores_of(in_run=tmp_path).place(prompts, Counting(), private=True).parent == tmp_path
    assert (
        scores_of(in_run=tmp_path).place(prompts, chat, private=False) is None
    )  # answers have their log


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        # One bit of the first data page, which no reader of Parquet would notice without a checksum.
        lambda content: content[:60] + bytes([content[60] ^ 1]) + content[61:],
        lambda content: b"",
        lambda content: b"no parquet",
    ],
    ids=["half", "a bit", "empty", "other"],
)
def test_broken_file(damage, cache_folder):
    """A broken file is dropped, and its prompts are scored again."""
    scorer = Counting()
    expected = score_with_new_cache(scorer)[1]
    (file,) = files(cache_folder)
    file.write_bytes(damage(file.read_bytes()))
    assert score_with_new_cache(scorer) == (12, expected)
    assert score_with_new_cache(scorer) == (0, expected)


AT_ONCE = """
from pathlib import Path
from swapbias.runs.cache import ScoreCache
from swapbias.studies import Prompt
from swapbias.models import LoadOptions, Scored

class Scorer:
    kind, unit, model_id = "masked", "mass", "x"
    identity = {"architecture": "X", "device": "cpu", "dtype": "float32", "revision": "1"}
    def score(self, prompts, on_progress=None):
        return [Scored(len(one.text) / 7) for one in prompts]

prompts = [Prompt(*["x" * number] * 4) for number in range(500)]
for turn in range(60):
    asked = prompts[: 300 + turn % 3]
    cache = ScoreCache(LoadOptions(), Path("not-there"), shared=True)
    path = cache.place(asked, Scorer(), private=False)
    scored = cache.read(path, len(asked))
    if scored is None:
        cache.write(path, Scorer().score(asked))
    elif scored != Scorer().score(asked):
        raise SystemExit("other scores")
    if turn % 7 == 6:
        cache.limit = 1
        cache.trim()
"""


def test_concurrent_processes(cache_folder):
    """Processes that keep, read and clear at once get whole scores."""
    running = [
        subprocess.Popen([sys.executable, "-c", AT_ONCE], cwd=ROOT, env=dict(os.environ))
        for _ in range(2)
    ]
    assert [process.wait() for process in running] == [0, 0]
    assert not [path for path in files(cache_folder) if path.name.endswith(".tmp")]


def test_least_recently_used(cache_folder, monkeypatch):
    """Beyond the limit the least recently used scores are removed first."""
    scorer = Counting()
    for count in (3, 4, 5):
        score_with_new_cache(scorer, ROWS[:count])
    for age, count in enumerate((4, 5)):  # three stays the newest: it is used again below
        path = file_of(scorer, ROWS[:count], cache_folder)
        os.utime(path, (1_000 + age, 1_000 + age))
    score_with_new_cache(scorer, ROWS[:3])
    sizes = sum(path.stat().st_size for path in files(cache_folder))
    monkeypatch.setenv("SWAPBIAS_CACHE_LIMIT", str(sizes))
    score_with_new_cache(scorer, ROWS[:6])  # a fourth file: the oldest, of four rows, has to go
    assert sum(path.stat().st_size for path in files(cache_folder)) <= sizes
    assert [score_with_new_cache(scorer, ROWS[:count])[0] for count in (3, 6)] == [0, 0]
    assert not file_of(scorer, ROWS[:4], cache_folder).exists()


def file_of(scorer, rows, cache_folder):
    return scores_of().place(as_prompts(rows), scorer, private=False)


def test_cache_limit(tmp_path, monkeypatch):
    """The limit is a size in bytes, and with a limit of zero scores stay in the run."""
    assert caching.cache_limit() == 2 * 10**9
    monkeypatch.setenv("SWAPBIAS_CACHE_LIMIT", "3000000000")
    assert caching.cache_limit() == 3 * 10**9
    monkeypatch.setenv("SWAPBIAS_CACHE_LIMIT", "0")
    assert (
        scores_of(in_run=tmp_path).place(as_prompts(ROWS), Counting(), private=False).parent
        == tmp_path
    )
    for given in ("", "much", "2 GB"):
        monkeypatch.setenv("SWAPBIAS_CACHE_LIMIT", given)
        with pytest.raises(UsageError, match="expected a number of bytes"):
            scores_of()


def test_second_audit(tmp_path, quiet, monkeypatch):
    """A second audit scores nothing and writes the same bytes."""
    settings = Settings(
        model=str(tiny.save("bert", tmp_path / "model")), studies=("gendered_stigma:rq1",), limit=60
    )
    plain, _ = start(settings, tmp_path / "plain", **quiet)
    first, _ = start(settings, tmp_path / "first", cache=True, **quiet)
    monkeypatch.setattr(MaskedScorer, "score", lambda *a, **k: pytest.fail("scored again"))
    second, _ = start(settings, tmp_path / "second", cache=True, **quiet)
    for name in (
        "items/gendered_stigma.parquet",
        "findings.csv",
        "results.json",
        "lexicon_coverage.csv",
    ):
        assert len({(run.folder / name).read_bytes() for run in (plain, first, second)}) == 1
    assert [run.manifest().get("from_cache") for run in (plain, first, second)] == [None, 0, 60]


def fall_risk(texts):
    return [0.9 if "he" in text.split() else 0.1 for text in texts]


def test_private_notes(tmp_path, quiet, cache_folder, monkeypatch):
    """Scores of a user's notes are not kept, whatever reads them."""
    monkeypatch.setattr(caching, "is_pinned", lambda scorer: True)
    path = tmp_path / "notes.csv"
    path.write_text(
        "text,label\n" + "".join(f"Note {index}: he fell twice.,positive\n" for index in range(6))
    )
    settings = Settings(
        options=(NoteOptions(data=str(path), classifier="tests.runs.test_cache:fall_risk"),)
    )
    run, _ = start(settings, tmp_path / "run", cache=True, **quiet)
    assert len(run.items("phenotype_fairness")) == 12  # each note as a woman's and as a man's
    assert files(cache_folder) == []
    assert run.manifest()["from_cache"] == 0
