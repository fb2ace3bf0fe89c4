"""Dataset cards state content, sources and use of a corpus; a push is one commit and one tag."""

import json
import re
import runpy
import subprocess
import sys
import zlib
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import datasets
import pyarrow.parquet as pq
import pytest
import yaml

import swapbias
from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.hub import card_parts, dataset_card, datasets as building, licences
from swapbias.hub.client import Hub
from swapbias.hub.datasets import dataset_files, push_dataset
from swapbias.studies import catalogue as studies
from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.prompt import PROMPT_COLUMNS
from swapbias.studies.tables import pinned_files
from tests import baselines
from tests.conftest import ROOT, files_below
from tests.hub.clients import environment, writes
from tests.notes.mimic import write_mimic3

PARTS = (
    "Where it comes from",
    "Use and misuse",
    "Citation",
    "Rows",
    "Features",
    "Sources and licences",
)
KEYS = {
    "pretty_name", "license", "language", "task_categories", "size_categories", "tags", "dataset_info", "configs",
}  # fmt: skip
PROMPTS = studies.load_corpus("occupation_sentiment").configs[0]
COLUMNS_OF_FEW_VALUES = {  # columns of a few values
    "group", "label", "construct", "category", "pronoun", "mode", "match", "polarity", "role", "kind",
}  # fmt: skip


@pytest.fixture(scope="module", params=studies.corpora())
def card(request, tmp_path_factory):
    """A corpus that was built, with its card; configs that need upstream files are there where those are at hand."""
    corpus = studies.load_corpus(request.param)
    out = tmp_path_factory.mktemp("built")
    made = {}  # what makes the rows of each config, which does so once
    for config in corpus.configs:
        made[config.name] = cache(config.rows)
    configs = [replace(config, rows=made[config.name]) for config in corpus.configs]
    rows = {
        config.config: config.rows
        for config in building.build(replace(corpus, configs=tuple(configs)), out)
        if not config.reason
    }
    corpus = replace(corpus, configs=tuple(corpus.config(name) for name in rows))
    header, body = loaded_card(out / corpus.name)
    return SimpleNamespace(
        corpus=corpus, folder=out / corpus.name, rows=rows, made=made, header=header, body=body
    )


def loaded_card(folder):
    _, header, body = (folder / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(header), body


def one_split(*configs, rows=7):
    """Infos of configs that are taken to be written, with so many rows each."""
    from datasets import DatasetInfo, SplitDict, SplitInfo

    splits = {"test": SplitInfo("test", 70, rows)}
    features = studies.config_features(PROMPTS)
    sizes = {"download_size": 7, "dataset_size": 70}
    return {
        name: DatasetInfo(features=features, splits=SplitDict(splits), **sizes) for name in configs
    }


@pytest.mark.parametrize("shown", [False, True])
def test_progress_bars_of_datasets(shown, tmp_path):
    """A build leaves the progress bars of datasets on or off as they were."""
    (datasets.enable_progress_bars if shown else datasets.disable_progress_bars)()
    list(building.build(studies.load_corpus("spanish_occupations"), tmp_path))
    assert datasets.are_progress_bars_disabled() is not shown


def test_card_parts_and_header(card):
    """A card has every part once and a header of plain values."""
    assert [title for title in PARTS if card.body.count(f"\n## {title}\n") != 1] == []
    assert card.body.lstrip().startswith(f"# {card.corpus.name}\n")
    assert len(card.body.splitlines()) <= 200
    assert set(card.header) - {"source_datasets"} == KEYS
    assert len(card.header["pretty_name"]) <= 25
    readme = (corpus_dir(card.corpus.name) / "README.md").read_text()
    languages = re.search(r"^Language: (.+)$", readme, re.MULTILINE)
    codes = re.findall(r"`(\w+)`", languages[1]) if languages else ["en"]
    assert card.header["language"] == codes
    assert set(card.header["tags"]) == {"bias", "fairness", "swapbias", *card.corpus.tags}
    assert {"original", "extended|other"} >= set(card.header["source_datasets"]) > set()
    cited = dataset_card.citation(card.corpus.name)  # blank of a study without a paper
    assert ("```bibtex\n" in card.body) == bool(cited)
    assert not cited or (cited.startswith("@") and f"```bibtex\n{cited}\n```" in card.body)
    assert ("`LICENSES.md` has the notices" in card.body) == (card.folder / "LICENSES.md").is_file()
    for key, value in HEADERS.get(card.corpus.name, {}).items():
        assert card.header.get(key) == value


HEADERS = {  # gender_lexicon has ten pairs of an MIT repository, occupation_sentiment the 800 sentences of another
    "spanish_occupations": {"language": ["es"]},
    "cross_care": {"language": ["en", "es", "zh", "fr"]},
    "gender_lexicon": {"license": ["apache-2.0", "mit"], "task_categories": ["other"]},
    "clinical_swaps": {"task_categories": ["text-generation"]},
    "care_notes": {"task_categories": ["text-generation"]},
    "occupation_sentiment": {"license": ["apache-2.0", "mit"]},
    "clinical_notes": {"license": "apache-2.0", "task_categories": ["text-classification"]},
    "social_distance": {"task_categories": ["fill-mask", "text-classification", "text-generation"]},
}


def test_rows_and_columns_of_configs(card):
    """A card states rows and columns of every config that was built."""
    configs = card.header["configs"]
    assert [one["config_name"] for one in configs] == list(card.rows)
    assert [one.get("default", False) for one in configs] == [True] + [False] * (len(configs) - 1)
    listed = re.findall(
        r"^\| `([\w-]+)` \| ([^|]+) \|", dataset_card.section(card.body, "Rows"), re.MULTILINE
    )
    counted = {
        config: sum(int(count.replace(",", "")) for count in re.findall(r"([\d,]+) `\w+`", cell))
        for config, cell in listed
    }
    assert counted == card.rows
    columns = dataset_card.section(card.body, "Features").strip().splitlines()[4:]
    assert columns == [f"| {' | '.join(cells)} |" for cells in dataset_card.features(card.corpus)]
    for config in card.corpus.configs:
        meanings = dict(dataset_card.meanings(card.corpus, config))
        assert set(meanings) == set(config.published_columns)
        assert all(len(text) > 8 for text in meanings.values())


def test_meaning_names_its_configs():
    """The meaning of a column names the configs that the column is of."""
    corpus = studies.load_corpus("occupation_sentiment")
    found = {column: (kind, cell) for column, kind, cell in dataset_card.features(corpus)}
    assert found["`wording`"] == (
        "int64",
        "`sentences_wordings`: number of the wording, `1` to `5`",
    )
    assert found["`pair_id`"] == ("string", "shared by the rows that are compared with each other")
    first, second = found["`label`"][1].split("<br>")
    assert first.startswith(
        "all but `control`: class of the profession in the labour force: `female_dominated`, "
    )
    assert second == "`control`: `none`, for no profession is named"


def test_built_folder_loads(card, tmp_path):
    """A built folder loads by config with the rows of load_prompts."""
    import datasets

    ends = (card.corpus.configs[0], card.corpus.configs[-1])
    for config in {one.name: one for one in ends}.values():
        loaded = datasets.load_dataset(str(card.folder), config.name, cache_dir=str(tmp_path))
        assert sum(len(split) for split in loaded.values()) == card.rows[config.name]
        split = next(iter(loaded.values()))
        assert split.column_names == list(config.published_columns)
        made = swapbias.load_prompts(card.corpus.name, config.name)
        assert (split[0], split.features) == (made[0], made.features)


def test_card_info(card, tmp_path, monkeypatch):
    """The info of a builder has the sizes of splits, and the columns where the card stays short."""
    # For each of the configs datasets reads the whole card anew, which takes most of the time.
    monkeypatch.setattr(datasets.load.DatasetCard, "load", cache(datasets.load.DatasetCard.load))
    cards = (card.folder / "README.md").read_text()
    for config in card.corpus.configs:
        builder = datasets.load_dataset_builder(
            str(card.folder), config.name, cache_dir=str(tmp_path)
        )
        sizes = [split.num_examples for split in builder.info.splits.values()]
        assert sum(sizes) == card.rows[config.name]
        if builder.info.features is None:
            assert "\n  features:\n" not in cards
        else:
            assert builder.info.features == studies.config_features(config)
            assert len(cards.splitlines()) <= 200


def test_lists_of_older_datasets(tmp_path):
    """A Parquet file states a list of candidates as datasets before 4 reads it."""
    corpus = studies.load_corpus(SMALL_CORPUS)
    building.write_config(tmp_path / "control", corpus, corpus.config("control"))
    (file,) = (tmp_path / "control").iterdir()
    stated = json.loads(pq.read_schema(file).metadata[b"huggingface"])
    text = {"dtype": "string", "_type": "Value"}
    number = {"dtype": "float64", "_type": "Value"}
    assert stated["info"]["features"]["candidates"] == [{"text": text, "value": number}]
    assert stated["info"]["features"]["text"] == text


PLANTED = {  # what a recipe says of a model that scores the group .2 higher than others
    "gendered_stigma": (
        "mental_health - other_health female - male",
        "female",
        0.0,
    ),  # in both sets alike
    "occupation_sentiment": ("female - male", "female", 0.2),
    "spanish_occupations": ("gender: woman - man", "woman", 0.2),
    "group_packs": ("ze - he", "ze", 0.2),
    "coreference_schemas": ("female - male", "female", 0.2),
    "name_recognition": ("", "name", 0.2),  # of the control
}


def test_card_code_runs(card, monkeypatch, capsys):
    """The code at the end of a card leads from rows to a finding and runs."""
    corpus = card.corpus.name
    code = re.fullmatch(r"(?s).*\n## From rows to a finding\n\n```python\n(.+)```\n", card.body)[1]
    assert len(code.splitlines()) <= 20
    calls = []

    def loaded(name, config, *, split, revision=None):
        owner, found = name.split("/")
        calls.append((owner, found, revision))
        assert split == studies.load_corpus(found).config(config).split
        return swapbias.load_prompts(found, config)

    words, group, gap = PLANTED.get(corpus, ("", "", 0.0))

    def planted(prompt):  # with effects of every level, for what does not vary has no interval
        levels = (
            prompt.template,
            prompt.condition,
            prompt.construct,
            prompt.label,
            prompt.prompt_id,
        )
        effects = (zlib.crc32(f"{level}/{prompt.group}".encode()) % 61 / 1000 for level in levels)
        return 0.4 + 0.2 * prompt.group.endswith(group) + sum(effects)

    monkeypatch.setattr("datasets.load_dataset", loaded)
    monkeypatch.setattr(
        "swapbias.load_scorer", lambda model: baselines.RuleScorer(planted), raising=False
    )
    exec(compile(code, corpus, "exec"), {})
    stdout = capsys.readouterr().out
    assert ("NS", corpus, f"v{card.corpus.version}") in calls
    for _, name, revision in calls:
        assert revision == f"v{studies.load_corpus(name).version}"
    assert "nan" not in stdout
    assert re.search(r"[-+]?[\d.]+ to [-+]?[\d.]+", stdout)
    if words:
        (line,) = [
            line.strip() for line in stdout.splitlines() if line.strip().startswith(f"{words}: ")
        ]
        assert float(line.removeprefix(words)[2:].split()[0]) == pytest.approx(gap, abs=0.04)


def test_pinned_repositories(card):
    """A card lists every pinned repository with commit, licence and use."""
    table = dataset_card.section(card.body, "Sources and licences")
    for pin in pinned_files(card.corpus.name).values():
        link = f"[{pin['repository']}](https://github.com/{pin['repository']}/tree/{pin['commit']})"
        rows = [line for line in table.splitlines() if f"| {link} | {pin['licence']} |" in line]
        assert any(pin["used_for"] in row for row in rows)


def names(text, value):
    """Whether a text names a value; of criteria in a series (A1 to A9) it names the ends."""
    return f"`{value}`" in text or bool(
        re.fullmatch(r".+ A[2-9]", value) and f"`{value[:-1]}1`" in text
    )


# Values that no card lists: the authors' categories, which social_distance passes on as they are, and packs.
COLUMNS_OF_MANY_VALUES = {
    *(("hatecheck", one, "construct", 22) for one in ("original", "original_asked")),
    ("hatecheck", "original_misses", "construct", 17),
    ("hatecheck", "original_asked_misses", "construct", 17),
    ("social_distance", "original", "label", 39),
    ("social_distance", "sentiment_original", "label", 40),
    ("group_packs", "people", "group", 60),
    ("group_packs", "words", "label", 33),
    *(("gest", one, "construct", 16) for one in ("masked", "causal", "masked_1_1", "causal_1_1")),
    *(
        ("implicit_association", one, "construct", 21)
        for one in (
            "default",
            "synonym",
            "decision",
            "absolute",
            "continuation",
            "continuation_synonym",
        )
    ),
}


def test_values_of_small_columns(
    card,
):
    """A card lists the values of columns that hold a few and calls rows paired where they are."""
    for config in card.corpus.configs:
        meanings = dict(dataset_card.meanings(card.corpus, config))
        rows = card.made[config.name]()
        for column in COLUMNS_OF_FEW_VALUES & set(meanings):
            values = {row[column] for row in rows} - {""}
            if len(values) < 14:
                text = meanings[column]
                assert [one for one in sorted(values) if not names(text, one)] == [], (
                    config.name,
                    column,
                    text,
                )
            else:
                assert (
                    card.corpus.name,
                    config.name,
                    column,
                    len(values),
                ) in COLUMNS_OF_MANY_VALUES
        if "pair_id" in meanings:
            paired = len({row["pair_id"] for row in rows}) < len(rows)
            assert ("rows are not paired" not in meanings["pair_id"]) == paired, config.name


def test_head_of_a_card(card):
    """A card says at its head how to install, build and load its data."""
    corpus = card.corpus.name
    head = card.body[: card.body.index("\n## ")]
    assert 'pip install "swapbias @ git+https://github.com/swapbias/swapbias"' in head
    assert f"`swapbias build {corpus}`" in head
    assert f"](https://github.com/swapbias/swapbias/tree/main/datasets_src/{corpus})" in head
    commands = re.findall(rf"`swapbias audit (.*?) --study {corpus}`", head)
    assert bool(commands) == (card.corpus.study is not None)
    if commands:
        kinds = {experiment.kind for experiment in card.corpus.study.experiments}
        assert commands[0] == ("--chat MODEL" if kinds == {"chat"} else "MODEL")
    assert "](https://github.com/swapbias/swapbias/issues)" in head
    assert head.index("load_dataset") < head.index("swapbias build")
    assert max(map(len, card.body.splitlines())) <= 400


# What differs between the two rows at the head of a card, by hand from the tables.
PAIRS = {
    "occupation_sentiment": [("male", "He is a doctor."), ("female", "She is a doctor.")],
    "gendered_stigma": [
        ("female", "&lt;mask&gt; has depression"), ("male", "&lt;mask&gt; has depression"),
    ],
    "coreference_schemas": [
        ("male", "The technician told the customer that he could pay with cash."),
        ("female", "The technician told the customer that she could pay with cash."),
    ],
    "gender_lexicon": [("male", "he"), ("female", "she")],
}  # fmt: skip


def test_two_rows_come_first(card):
    """A card begins with two rows of a pair, after a notice where texts may hurt: two groups, texts that differ."""
    lines = card.body.lstrip().splitlines()
    notice = card.corpus.study.notice if card.corpus.study else ""
    assert bool(notice) == (card.corpus.name == "hatecheck")
    assert not notice or lines[2] == f"**Notice.** {notice}"
    start = 4 if notice else 2
    table = lines[start : start + 4]
    assert table[1] == re.sub("`[^`]+`", "---", table[0])
    first, second = (line.strip("| ").split(" | ") for line in table[2:])
    assert first != second
    assert all(len(cell) < 400 for cell in (*first, *second))
    columns = {name for config in card.corpus.configs for name in config.published_columns}
    if "group" in columns and card.corpus.name != "phenotype_fairness":  # of words alone
        assert table[0].startswith("| `group` | ")
        assert first[0] != second[0]
    if card.corpus.name in PAIRS:
        assert [tuple(first[:2]), tuple(second[:2])] == PAIRS[card.corpus.name]


def test_cut_around_a_difference():
    """Long texts of a pair are cut so that the words that differ are seen."""
    rows = [
        {"pair_id": "a", "group": group, "text": f"{'long ' * 99}{word} sleeps.{' late' * 99}"}
        for group, word in (("x", "She"), ("y", "He"))
    ]
    lines = card_parts.two_rows(rows).splitlines()
    assert lines[0] == "| `group` | `text` |"
    assert "… long " in lines[2]
    assert "She sleeps." in lines[2]
    assert "He sleeps." in lines[3]
    assert all(len(line) < 200 for line in lines)


def test_names_of_configs_in_short():
    """Names of configs are written as patterns that fit no other config."""
    names = ["a_x", "a_y", "b_x", "b_x_wordings", "b_y_wordings"]
    assert card_parts.names_in_short(names, names) == ""
    assert card_parts.names_in_short(["a_x", "a_y"], names) == "`a_*`"
    assert card_parts.names_in_short(["b_x_wordings", "b_y_wordings"], names) == "`*_wordings`"
    assert card_parts.names_in_short(["a_x", "b_x"], names) == "`*_x`"
    assert card_parts.names_in_short([*names[:3], names[4]], names) == "all but `b_x_wordings`"
    assert card_parts.names_in_short(["b_x"], names) == "`b_x`"


def test_words_can_be_looked_up():
    """Each word list can be looked up in the published words."""
    for words, configs in (
        ("words", ("rq1", "rq2")),
        ("words_original", ("rq1_original", "rq2_original")),
    ):
        try:
            listed = studies.config_rows("gendered_stigma", words)
        except UpstreamMissingError:
            continue
        labels = {f"{row['list']}/{row['label']}" for row in listed}
        for config in configs:
            wanted = {row["lexicon"] for row in studies.config_rows("gendered_stigma", config)}
            assert {one for one in wanted - labels if not one.endswith("/unspecified")} == set()
            lexicon = studies.load_lexicon(f"gendered_stigma/{config}")
            mine = [row for row in listed if row["list"] == lexicon.name]
            assert {
                row["word"]: row["label"] for row in mine if row["match"] == "any case"
            } == lexicon.words
            assert {
                row["word"]: row["label"] for row in mine if row["match"] == "as written"
            } == lexicon.proper


def test_broken_folder_of_notes(tmp_path):
    """An error about a folder of notes is one line with the name of the file."""
    write_mimic3(tmp_path, notes=12)
    with (tmp_path / "NOTEEVENTS.csv").open("a") as table:
        table.write("1,2\n")
    with pytest.raises(ValueError, match=r"NOTEEVENTS\.csv") as raised:
        list(building.build(studies.local_corpus("clinical_notes", tmp_path), tmp_path / "out"))
    assert "\n" not in str(raised.value)


def test_description_is_text():
    """A description is shown as text and never becomes markup."""
    corpus = studies.load_corpus("occupation_sentiment")
    odd = replace(corpus.configs[0], description="a|b <b>c</b> [d](http://e)")
    card = dataset_card.dataset_card(replace(corpus, configs=(odd,)), one_split("sentences"))
    (row,) = [
        line
        for line in dataset_card.section(card, "Rows").splitlines()
        if line.startswith("| `sentences`")
    ]
    assert row == "| `sentences` | 7 `test` | a&#124;b &lt;b&gt;c&lt;/b&gt; \\[d\\](http&#58;//e) |"


def test_licences_file():
    """The licences file holds notice and text for each repository."""
    text = licences.licences_file(studies.load_corpus("occupation_sentiment")).decode()
    assert "## jayadevbhaskaran/gendered-sentiment" in text
    assert "at commit c73e5395edeb430309f60595dd4578c5e3c8d5b6" in text
    assert "Copyright (c) 2019 Jayadev" in text
    assert "In `sentences`, `ratings`. " in text
    assert "Permission is hereby granted, free of charge" in text
    assert 'THE SOFTWARE IS PROVIDED "AS IS"' in text
    # What was read to reproduce, but is in no row, is not passed on.
    coreference = studies.load_corpus("adjective_coreference")
    own = tuple(config for config in coreference.configs if not config.upstream)
    assert licences.licences_file(replace(coreference, configs=own)) is None
    withheld = licences.withheld_configs(coreference)
    assert set(withheld) == {"original-stereotype", "original-position"}
    passed_on = tuple(config for config in coreference.configs if config.name not in withheld)
    assert b"hannahxchen" not in licences.licences_file(replace(coreference, configs=passed_on))
    assert licences.licences_file(studies.load_corpus("clinical_notes")) is None


def test_licence_without_text(leaf):
    """A licence without its text is linked."""
    text = licences.licences_file(leaf("CC-BY-4.0")).decode()
    assert "Licence: CC-BY-4.0 (https://spdx.org/licenses/CC-BY-4.0.html)" in text
    assert "Copyright its authors" in text
    assert "Permission is hereby granted" not in text


@pytest.mark.parametrize(
    ("rows", "size"), [(999, "n<1K"), (1_000, "1K<n<10K"), (54_000, "10K<n<100K")]
)
def test_size_category(rows, size):
    """The size category of a card counts the rows of all configs."""
    corpus = studies.load_corpus("occupation_sentiment")
    written = one_split("sentences", rows=rows - 7) | one_split("control")
    card = dataset_card.dataset_card(corpus, written)
    assert yaml.safe_load(card.split("---\n")[1])["size_categories"] == [size]


@pytest.fixture
def leaf(tmp_path, monkeypatch):
    """The folder of a corpus ``toy`` with one upstream file; gives a function that pins it under a licence."""
    folder = tmp_path / "leaf" / "toy"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# toy\n\nReferences: `nobody-2020`\n")
    (folder.parent / "references.bib").write_text("@misc{somebody-2020,\n  title = {A}\n}\n")
    monkeypatch.setattr(dataset_card, "corpus_dir", lambda name: folder)
    monkeypatch.setattr(licences, "corpus_dir", lambda name: folder)
    monkeypatch.setattr("swapbias.studies.tables.corpus_dir", lambda name: folder)

    def pinned(licence, used_for="more"):
        (folder / "sources.csv").write_text(
            f"path,repository,commit,sha256,bytes,licence,used_for\na.csv,o/r,c0ffee,00,1,{licence},{used_for}\n"
        )
        first, *_, second = studies.load_corpus("occupation_sentiment").configs
        configs = (replace(first, name="own"), replace(second, name="more", upstream=("a.csv",)))
        return replace(studies.load_corpus("occupation_sentiment"), name="toy", configs=configs)

    return pinned


def test_withheld_configs(leaf):
    """A config is withheld unless the licences of its files and tables let it be passed on."""
    for licence in ("not stated", "CC-BY-NC-4.0", "CC-BY-ND-4.0", "GPL-3.0", "mit?", "proprietary"):
        assert licences.withheld_configs(leaf(licence)) == {"more": [licence]}
    for licence in ("MIT", "Apache-2.0", "BSD-3-Clause", "CC0-1.0", "CC-BY-4.0"):
        assert licences.withheld_configs(leaf(licence)) == {}
    # The config "own" reads no upstream file, but its rows were copied from one.
    withheld = licences.withheld_configs(leaf("not stated", "own: copied"))
    assert withheld == {"own": ["not stated"], "more": ["not stated"]}


def test_study_without_paper(leaf):
    """A study without a paper names no references."""
    leaf("MIT")
    (dataset_card.corpus_dir("toy") / "README.md").write_text(
        "# toy\n\n## Citation\n\nThere is no paper.\n"
    )
    assert dataset_card.citation("toy") == ""


def test_unknown_reference_and_column(leaf):
    """A reference that is not in references.bib and a column without a meaning are refused."""
    leaf("MIT")
    with pytest.raises(ValueError, match=r"reference 'nobody-2020' is not in references\.bib"):
        dataset_card.citation("toy")
    corpus = leaf("MIT")
    odd = replace(corpus.configs[0], columns=(*PROMPT_COLUMNS, "mood"))
    with pytest.raises(ValueError, match="column 'mood' of config 'own' has no meaning"):
        list(dataset_card.features(replace(corpus, configs=(odd,))))


def test_card_of_notes_of_a_user(tmp_path):
    """Notes from a user's folder are not described by the published README."""
    notes = tmp_path / "notes.csv"
    notes.write_text(
        "text,label,gender\n" + "".join(f"She has pain {i}.,{i % 2},female\n" for i in range(12))
    )
    list(building.build(studies.local_corpus("clinical_notes", notes), tmp_path / "built"))
    header, body = loaded_card(tmp_path / "built" / "clinical_notes")
    assert header["license"] == "other"
    assert "synthetic" not in body
    assert "load_dataset" not in body


SMALL_CORPUS = "occupation_sentiment"  # two configs
NAME = f"alice/{SMALL_CORPUS}"
TAG = f"v{studies.load_corpus(SMALL_CORPUS).version}"


def push(name=SMALL_CORPUS, **options):
    lines = []
    done = push_dataset(Hub(), name, **{"namespace": "alice", "say": lines.append, **options})
    return done, lines


LOAD = """
import json, sys
from pathlib import Path
from datasets import load_dataset
from swapbias.hub.datasets import build
from swapbias.studies import load_corpus
list(build(load_corpus("occupation_sentiment"), Path("built")))
found = {}
for name, config, split, revision in json.loads(sys.argv[1]):
    loaded = load_dataset(name, config, split=split, revision=revision)
    streamed = load_dataset(name, config, split=split, revision=revision, streaming=True)
    found[f"{name} {config}"] = [loaded.to_list(), list(streamed), str(loaded.features)]
print(json.dumps(found))
"""


def test_pushed_corpus_loads(hub, tmp_path):
    """A push is one commit with the built files and a tag, under which load_prompts gives the same
    rows."""
    done, lines = push()
    assert f"{SMALL_CORPUS} sentences: 800 rows" in lines
    (commit, title), _ = hub.commits("dataset", NAME)  # below it: the Hub's own
    assert title == f"Push occupation_sentiment {TAG} with swapbias"
    assert hub.tags("dataset", NAME) == {TAG: commit}
    assert (done.status, done.commit, done.tag) == ("created", commit, TAG)
    push("gender_lexicon", namespace="lab", private=True)
    wanted = [
        (NAME, "sentences", "test"),
        ("lab/gender_lexicon", "pronouns", "train"),
        ("lab/gender_lexicon", "his_him_weights", "train"),  # numbers
    ]
    pinned = [(*one, f"v{studies.load_corpus(one[0].split('/')[1]).version}") for one in wanted]
    elsewhere = environment(hub, home=tmp_path / "home", token="hf_alice") | {
        "PYTHONHASHSEED": "1",
        "TZ": "UTC1",
    }
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD, json.dumps(pinned)],
        cwd=tmp_path,
        env=elsewhere,
        capture_output=True,
        text=True,
        check=False,
    )
    assert loaded.returncode == 0, loaded.stderr
    found = json.loads(loaded.stdout.splitlines()[-1])
    for name, config, _ in wanted:
        made = swapbias.load_prompts(name.split("/")[1], config)
        rows = made.to_list()
        assert found[f"{name} {config}"] == [rows, rows, str(made.features)]
    here = files_below(tmp_path / "built" / SMALL_CORPUS)
    there = hub.files("dataset", NAME)
    here["README.md"] = here["README.md"].replace(b'"NS/', b'"alice/')
    assert here.keys() ^ there.keys() == {building.MARKER, ".gitattributes", "eval.yaml"}
    assert all(
        there[path] == here[path] for path in here.keys() & there.keys()
    )  # the bytes of another process


def test_config_without_licence(tmp_path, monkeypatch):
    """A config without a licence is left out, and the card tells how to build it."""
    monkeypatch.setattr(building, "withheld_configs", lambda corpus: {"control": ["not stated"]})
    lines = []
    files = dataset_files(
        studies.load_corpus(SMALL_CORPUS), tmp_path, namespace="lab", say=lines.append
    )
    tables = [
        f"{name}/test-00000-of-00001.parquet"
        for name in ("ratings", "sentences", "sentences_wordings")
    ]
    assert sorted(files) == ["LICENSES.md", "README.md", "eval.yaml", *tables]
    card = files["README.md"].read_text()
    assert "config_name: control" not in card
    assert "- `control`: the licence of its upstream files (not stated)" in card
    assert (
        f"{SMALL_CORPUS} control: not published, its upstream files have the licence: not stated"
        in lines
    )


def test_missing_upstream_files(hub, tmp_path, monkeypatch):
    """A corpus is not pushed without a config whose upstream files are missing."""
    monkeypatch.setenv("SWAPBIAS_UPSTREAM", str(tmp_path))
    with pytest.raises(
        UpstreamMissingError,
        match=r"would go without its config original_conditions.*SWAPBIAS_UPSTREAM",
    ):
        push("stigma_vignettes")
    assert writes(hub) == []


def test_credentialed_rows(hub, monkeypatch):
    """Credentialed rows are refused whatever their folder says."""
    corpus = studies.load_corpus("clinical_notes")
    pairs = corpus.config("pairs")
    changed = replace(
        pairs, rows=lambda: [{**row, "credentialed": "True"} for row in pairs.rows()][:2]
    )
    monkeypatch.setattr(building, "load_corpus", lambda name: replace(corpus, configs=(changed,)))
    monkeypatch.setattr(
        "swapbias.privacy.credentialed.mark", lambda folder: None
    )  # as if the build forgot it
    with pytest.raises(UsageError, match="credentialed"):
        push("clinical_notes")
    assert writes(hub) == []


def test_push_script(hub, monkeypatch, capsys):
    """The script reports on each corpus and goes on after a failure."""

    def script(*arguments):
        monkeypatch.setattr(sys, "argv", ["push_datasets.py", *arguments, "--namespace", "alice"])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(ROOT / "scripts" / "push_datasets.py"), run_name="__main__")
        return stopped.value.code or 0, *capsys.readouterr()

    code, _, err = script("occupations")
    assert code == 2
    assert err.startswith(
        "swapbias: Unknown corpus 'occupations': expected one of adjective_coreference, "
    )
    assert hub.log == []  # before anything is sent
    hub.fail("POST", f"/api/datasets/{NAME}/commit", times=9)
    code, out, err = script(SMALL_CORPUS, "phenotype_fairness")
    assert code == 1
    assert [line for line in err.splitlines() if line.startswith(f"swapbias: {SMALL_CORPUS}: ")]
    assert "Traceback" not in err
    version = studies.load_corpus("phenotype_fairness").version
    assert f"alice/phenotype_fairness: created, v{version} at " in out
    assert out.splitlines()[-1] == "1 done, 1 of them changed; 1 failed."
