"""Swapping text: contexts of the table, batches, and swapping back."""

import gc
import json
import os
import pickle
import re
import subprocess
import sys
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from datasets.fingerprint import Hasher
from hypothesis import given, settings, strategies as st

from swapbias.errors import UsageError
from swapbias.findings.judge_findings import without_groups
from swapbias.studies import config_rows, load_study
from swapbias.swapping import PublishedSwapper
from swapbias.swapping.folding import padded
from swapbias.swapping.gendered import ALWAYS, is_pronoun
from swapbias.swapping.matches import Matcher
from swapbias.swapping.possessives import log_odds_of_his
from swapbias.swapping.rule_tables import GLUED
from swapbias.swapping.swapper import Swapper
from swapbias.swapping.table import ALONE, OBJECTS, clinical_terms, load_table
from tests.cli.test_cli import swapbias
from tests.tables import rows_of

SWAPPERS = {table: Swapper(table) for table in ("resolved", "paper", "race", "age")}
SWAPPER = SWAPPERS["resolved"]
PAPER = SWAPPERS["paper"]

FOLDER = Path(__file__).parent
CONTEXTS = [tuple(row.values()) for row in rows_of(FOLDER / "contexts.csv")]
LINES = [
    tuple(row.values()) for row in rows_of(FOLDER / "lines.csv")
]  # what each becomes, and that it comes back
NAMES = {
    "John": "[name]",
    "Mary": "[name]",
    "White": "[race]",
    "African American": "[race]",
    "8th grade": "[school]",
}


@pytest.mark.parametrize(("table", "mode", "text", "becomes"), CONTEXTS)
def test_text_in_context(table, mode, text, becomes):
    """A text is swapped by its context and neutralised without gaps."""
    assert SWAPPERS[table].run([text], mode).texts.to_pylist() == [becomes]


@pytest.mark.parametrize(("text", "swapped"), LINES)
def test_line_and_back(text, swapped):
    """A line is swapped, and swapping it again gives the line."""
    assert SWAPPER.swap([text]) == [swapped]
    assert SWAPPER.swap([swapped]) == [text]


def test_command_and_map(tmp_path):
    """The command and Dataset.map swap as a call does."""
    texts, swapped = map(list, zip(*LINES, strict=True))
    assert (
        swapbias(
            "swap", FOLDER / "lines.csv", "--column", "text", "--out", tmp_path / "out"
        ).returncode
        == 0
    )
    assert pq.read_table(tmp_path / "out/data")["text"].to_pylist() == swapped
    rows = Dataset.from_dict({"text": texts})
    for of, more in (
        (rows, {"num_proc": 2, "keep_in_memory": True}),
        (rows.to_iterable_dataset(), {}),
    ):
        mapped = of.map(
            lambda batch: {"text": SWAPPER.swap(batch["text"])}, batched=True, batch_size=7, **more
        )
        assert [row["text"] for row in mapped] == swapped


SWAPPERS_IN_A_PROCESS = """
import json, sys
from datasets.fingerprint import Hasher
from swapbias.swapping import Swapper
hashes = {}
for arguments in json.loads(sys.argv[1]):
    swapper = eval(f"Swapper({arguments})")
    before = Hasher.hash(swapper)
    swapper.swap(["She lost her keys, and he saw her."])
    swapper.sha256
    hashes[arguments] = [before, Hasher.hash(swapper), Hasher.hash(lambda rows: swapper.swap(rows))]
print(json.dumps(hashes))
"""
ARGUMENTS = ("'resolved'", "'race'", "'she-they'", "whose='patient'")


@pytest.fixture(scope="module")
def hashes_by_process():
    """The hashes of swappers in two processes of other seeds: before a swap, behind it, and of a function of each."""
    return [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", SWAPPERS_IN_A_PROCESS, json.dumps(ARGUMENTS)],
                env={**os.environ, "PYTHONHASHSEED": seed},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for seed in ("1", "2")
    ]


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_fingerprint_in_every_process(arguments, hashes_by_process):
    """Each process gives a swapper one fingerprint, so that the cache of Dataset.map is used again."""
    first, second = (hashes[arguments] for hashes in hashes_by_process)
    assert first == second
    assert first[0] == first[1]


def test_pickled_swappers():
    """A pickled swapper swaps alike; others have another fingerprint."""
    swappers = [*SWAPPERS.values(), Swapper(whose="patient"), PublishedSwapper()]
    assert len({Hasher.hash(swapper) for swapper in swappers}) == len(swappers)
    texts = ["His wife met her brother. A 45-year-old white man, Sex: M."]
    for swapper in swappers:
        copy = pickle.loads(pickle.dumps(swapper))  # noqa: S301 - made here
        assert type(copy) is type(swapper)
        assert copy.sha256 == swapper.sha256
        ours, theirs = (of.run(texts, genders=["male"]).texts.to_pylist() for of in (copy, swapper))
        assert ours == theirs


def test_versions_without_groups():
    """Versions of one answer become the same text without groups."""
    text = "{name}'s {a} {race} {noun}. {He} left school early, and I trust {him}; {his} {noun} friends do, too."
    people = [
        {"name": "John", "noun": "man", "He": "He", "him": "him", "his": "his"},
        {"name": "Mary", "noun": "woman", "He": "She", "him": "her", "his": "her"},
    ]
    races = [
        {"a": "a", "race": "White"},
        {"a": "an", "race": "African-American"},
        {"a": "an", "race": "african american"},
    ]
    texts = [text.format(**one, **race) for one in people for race in races]
    assert len(set(texts)) == 6
    assert len(set(without_groups(texts, NAMES))) == 1
    (shown,) = without_groups(["Johnson whitewashed an 8th-grade wall."], NAMES)
    assert shown == "Johnson whitewashed a [school] wall."
    assert without_groups(["Nothing here."], {}) == ["Nothing here."]


def test_vignettes_without_groups():
    """No prompt of the vignettes reveals its group once it is neutralised."""
    for experiment in load_study("stigma_vignettes").experiments:
        pairs = {}
        for row in (
            config_rows("stigma_vignettes", experiment.reads.configs[0])
            if experiment.reads.rubric
            else ()
        ):
            pairs.setdefault(row["pair_id"], []).append(row["text"])
        for texts in list(pairs.values())[::15]:
            assert len(texts) > 1
            assert len(set(without_groups(texts, experiment.reads.rubric.neutral))) == 1


def test_report_by_hand():
    """The counts of the report have the values worked out by hand."""
    found = SWAPPER.run(["He is pregnant; her book, her MR.", None, "", "She and he"])
    # Row 0: he, her, her are replaced; MR stays; "pregnant" is specific. Row 3 is a tie.
    assert found.texts.to_pylist()[1:] == [None, "", "He and she"]
    assert found.replaced.tolist() == [3, 0, 0, 2]
    assert found.specific.tolist() == [1, 0, 0, 0]
    assert found.sides.tolist() == [1, 0, 0, 0]
    assert found.terms["he -> she"] == 2
    assert found.terms["her -> his"] + found.terms["her -> him"] == 2
    assert found.specific_terms == Counter({"pregnant": 1})
    terms = [
        "her",
        "her own",
        "great-great-grandmothers",
        "counterrevolutionary",
        "counterrevolutionarily",
    ]
    text = b"Her  own hers her GREAT-great-grandmothers counterrevolutionarily counterrevolutionary her ownership"
    found = Matcher(terms).find(padded(text), np.array([0, len(text)]))
    assert [text[s:e].decode() for s, e in zip(found.start, found.end, strict=True)] == [
        "Her  own",
        "her",
        "GREAT-great-grandmothers",
        "counterrevolutionarily",
        "counterrevolutionary",
        "her",
    ]


def test_his_or_hers():
    """The word his becomes hers only where no noun can follow."""
    found = Counter()
    for line in (FOLDER / "his_or_hers.txt").read_text(encoding="utf-8").splitlines():
        marked = re.findall(r"\[(hers?)\]", line, re.IGNORECASE)
        given = re.sub(
            r"\[(h)ers?\]", lambda one: "His" if one[1] == "H" else "his", line, flags=re.IGNORECASE
        )
        pronouns = re.findall(r"\bhers?\b", SWAPPER.swap([given])[0], re.IGNORECASE)
        found.update(
            (word.lower(), new.lower()) for word, new in zip(marked, pronouns, strict=True)
        )
    assert found.total() == 145
    assert found["her", "hers"] == 0
    assert found["hers", "hers"] >= 0.65 * (found["hers", "hers"] + found["hers", "her"])


def test_arrow_types():
    """Arrow types, slices and chunks are kept, and threads can share a swapper."""
    for kind in (pa.string(), pa.large_string()):
        array = pa.array(["no", "he", None, "she is", ""], type=kind)
        found = SWAPPER.run(array.slice(1, 3)).texts
        assert (found.type, found.to_pylist()) == (kind, ["she", None, "he is"])
    chunked = pa.chunked_array([["he"], [None, "his own"]])
    assert SWAPPER.run(chunked).texts.to_pylist() == ["she", None, "her own"]
    assert SWAPPER.run(pa.array([], pa.string())).texts.to_pylist() == []
    assert SWAPPER.run(pa.array([None, None])).texts.to_pylist() == [None, None]
    texts = [
        f"gave her word{chr(97 + number % 26)} of his. It is hers, Sex: M" for number in range(400)
    ]
    shared = Swapper()
    wanted = Swapper().swap(texts)
    with ThreadPoolExecutor(8) as pool:
        assert all(found == wanted for found in pool.map(shared.swap, [texts] * 24))


def test_pickled_swapper():
    """A swapper is pickled without the texts that it has read and is freed when it is no longer
    used."""
    swapper = Swapper(whose="patient")
    texts = ["Mr. Xanthopoulos, 45M: she saw her card, and he gave her his."]
    before = pickle.dumps(swapper)
    swapped = swapper.swap(texts)
    assert pickle.loads(before).swap(texts) == swapped  # noqa: S301 - made here
    assert pickle.dumps(swapper) == before  # datasets.map finds in its cache what it has made
    gone = weakref.ref(swapper._deciders["swap"])
    del swapper
    gc.collect()
    assert gone() is None


# --- invariances ---------------------------------------------------------------------------------------


def invertible(table, text):
    """Whether a term comes back when its text is swapped twice, given that its context decides rightly."""

    def reached(term, contextual):
        return [other.lower() for other in (term.others if contextual else term.others[:1])]

    ways = [table.terms[counterpart] for counterpart in reached(table.terms[text], table.context)]
    return all(
        text in reached(way, table.context and way.choices in {*OBJECTS, *ALONE}) for way in ways
    )


# Terms whose way back needs no context: "him" becomes "her", which must be told from "his" by what stands beside it.
PEOPLE = (
    "man",
    "men",
    "women",
    "lady",
    "gentleman",
    "sisters",
    "brothers",
    "daughters",
    "sons",
    "fathers",
)
INVERTIBLE = sorted(
    text
    for text, term in SWAPPER.table.terms.items()
    if invertible(SWAPPER.table, text) and not {text, *term.choices} & (ALWAYS - {*PEOPLE})
)
FILLERS = [
    "pain",
    "the",
    "élève",
    "45",
    "(",
    ")",
    ",",
    ".",
    "—",
    "\n",
    "’s",
    "-",
    "über",
    "Mitral",
    "123",
    "日本",
]
WORDS = st.sampled_from([*INVERTIBLE, *FILLERS])
CASES = st.sampled_from([str.lower, str.capitalize, str.upper])


@given(st.lists(st.tuples(WORDS, CASES, st.sampled_from([" ", "  ", "\n", ", "])), max_size=12))
@settings(max_examples=150, deadline=None)
def test_swapping_twice(parts):
    """Swapping twice gives the text back."""
    # "HE" may be an abbreviation: its neighbours decide, and they are others on the way back.
    cased = [
        (word if word in ("he", "she") and case is str.upper else case(word)) + gap
        for word, case, gap in parts
    ]
    assert SWAPPER.swap(SWAPPER.swap(["".join(cased)])) == ["".join(cased)]


def test_invertible_terms():
    """The invertible terms are most of the table."""
    assert {"he", "she", "himself", "male", "women", "wife", "mother"} <= {*INVERTIBLE}
    assert len(INVERTIBLE) > 100
    assert not set(clinical_terms()) & set(SWAPPER.table.terms)
    assert not invertible(SWAPPER.table, "mrs")  # Mrs becomes Mr, and Mr becomes Ms
    assert not invertible(PAPER.table, "him")  # him becomes her, and her always becomes his


def test_table_of_a_user(tmp_path):
    """A table of a user with other groups swaps its terms."""
    path = tmp_path / "own.csv"
    path.write_text(
        "young,old,neutral\nboy king,old king,king\nyouth,senior,person\n♂ él,♀ élla,\n",
        encoding="utf-8",
    )
    own = Swapper(path)
    assert (own.table.groups, SWAPPERS["age"].table.groups) == (
        ("young", "old"),
        ("younger", "older"),
    )
    assert own.swap(["A Boy  King, a YOUTH; ♂ Él"]) == ["An Old king, a SENIOR; ♀ élla"]
    assert own.run(["seniors senior"]).sides.tolist() == [1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("male\nhe\n", "expected two groups"),
        ("male,female\nhe,she\nshe,it\n", "belongs to both groups"),
        ("male,female\nhe,HE\n", "is its own counterpart"),
        ("male,female\n--,she\n", "has no letter"),
        ("male,female\n", "no rows"),
        ("male,female\nhe\n", "1 cells, expected 2"),
    ],
)
def test_broken_table(tmp_path, content, said):
    """A broken table is refused in one sentence."""
    path = tmp_path / "own.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=said):
        load_table(path)


def test_wrong_requests():
    """Wrong requests are refused with what is expected."""
    with pytest.raises(UsageError, match="resolved or paper"):
        Swapper("nothing")
    with pytest.raises(UsageError, match="swap or neutralise"):
        SWAPPER.run(["x"], "flip")
    with pytest.raises(ValueError, match="Give strings"):
        SWAPPER.swap([1, 2])
    with pytest.raises(ValueError, match="put it into a list"):
        SWAPPER.swap("he")
    with pytest.raises(ValueError, match="Give strings"):
        SWAPPER.swap(["\ud800"])


def pronouns_of(conllu):
    """(text before, text after, his or him) of each her, his and him: PRP$ is "his", PRP is "him"."""
    sentence = []
    for line in [*conllu.read_text(encoding="utf-8").splitlines(), ""]:
        cells = line.split("\t")
        if len(cells) == 10 and cells[0].isdigit():
            sentence.append(cells)
        elif not line and sentence:
            words = [word[1] + ("" if "SpaceAfter=No" in word[9] else " ") for word in sentence]
            for place, word in enumerate(sentence):
                if word[1].lower() in ("her", "his", "him"):
                    gap = words[place][len(word[1]) :]
                    before = "".join(words[:place])
                    after = gap + "".join(words[place + 1 :])
                    yield before, after, "his" if word[4] == "PRP$" else "him"
            sentence = []


def accuracy(items):
    odds = [log_odds_of_his(before[-100:], after[:100]) for before, after, _ in items]
    return np.mean(
        [(value > 0) == (word == "his") for value, (_, _, word) in zip(odds, items, strict=True)]
    )


UD_DEV = "UniversalDependencies/UD_English-EWT/en_ewt-ud-dev.conllu"


def test_universal_dependencies(upstream):
    """The choice between his and him agrees with Universal Dependencies in 72 of 73 cases."""
    items = list(pronouns_of(upstream / UD_DEV))
    assert len(items) == 73
    assert round(73 * accuracy(items)) == 72


@pytest.fixture
def reports(clinical):
    return [row["text"] for row in rows_of(clinical / "mtsamples_first_half.csv")]


UNCHANGED_WORDS = [
    r"\([sS]\)he$", r"(X Y|CD), M$", r"\bmiss$", r"\bMS$", r"\bMR$", r"\d\.?\d*°? ?[MF]$", r"\bDr\. F$", r"[ap]\.m$",
    r"Theragran-M$", r"\d0 m$", r"SN60WF$", r"N1b M$", r"\(wo\)man$", r"\bm$", r"\d WF$", r"CATEGORY M$", r"DTRs$",
]  # fmt: skip


def test_real_reports_have_no_term_left(reports):
    """No gendered term is left in real reports but for those known to stay."""
    word = re.compile(r"[^\W\d_]+")
    swapped = SWAPPER.swap(reports)
    left = []
    for before, after in zip(reports, swapped, strict=True):
        pairs = zip(word.finditer(before), word.finditer(after), strict=True)
        for old, new in pairs:
            low = old.group().lower()
            if low in SWAPPER.table.terms and low not in GLUED and old.group() == new.group():
                left.append(before[max(0, old.start() - 20) : old.end()])
    unexplained = [
        text for text in left if not any(re.search(reason, text) for reason in UNCHANGED_WORDS)
    ]
    assert unexplained == []
    assert len(left) < 41 < 2_000 < SWAPPER.run(reports).replaced.sum()
    back = SWAPPER.swap(swapped)
    same = [len(a) == len(b) and a == b for a, b in zip(reports, back, strict=True)]
    assert np.mean(same) > 0.85  # her, his and him by context; Mrs and Ms are one on the way back
    items = [
        (text[: found.start()], text[found.end() :], found.group().lower())
        for text in reports
        for found in re.finditer(r"\b(his|him)\b", text, re.IGNORECASE)
    ]
    assert len(items) > 250
    assert accuracy(items) >= 0.97
    flags = [
        is_pronoun(text[max(0, one.start() - 100) : one.start()], text[one.end() : one.end() + 100])
        for text in reports
        for one in re.finditer(r"\bhis\b", text, re.IGNORECASE)
    ]
    assert len(flags) > 240
    assert not any(flags)  # read one by one: none stands for a noun


def test_swap_as_published():
    """The published swap goes one way by the patient's gender, spoils bare letters and loses case."""
    texts = ["She told HIM. Sex:\n F. Temp 98.6 F.", "His wife: she. I'm 72 y/o M."]
    swapper = PublishedSwapper()
    swapped = swapper.run(texts, genders=["F", "male"])
    assert swapped.texts.to_pylist() == [
        "he told HIM. Sex: M. Temp 98.6 M.",
        "her wife: she. I'F 72 y/o F.",
    ]
    assert swapped.replaced.tolist() == [3, 3]
    assert swapper.neutralise(["He and her, male."]) == ["patient and its, ."]
    assert swapper.run(["She left."], genders=[" Woman "]).texts.to_pylist() == ["he left."]
