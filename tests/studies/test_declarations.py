"""A fault in study.toml of any study of the package is an error with file, line and the nearest right word."""

import re
import tomllib
from itertools import cycle

import pytest

from swapbias.errors import StudyError, UpstreamMissingError
from swapbias.models import check_readings
from swapbias.studies import catalogue, package_study, row_check
from swapbias.studies.catalogue import check_notes
from swapbias.studies.declared import parse_declaration, sections_of
from swapbias.studies.experiment import Experiment
from swapbias.studies.row_check import check_rows

STUDIES = catalogue.studies()
TEXTS = {
    name: (package_study.corpus_dir(name) / "study.toml").read_text(encoding="utf-8")
    for name in STUDIES
}
# What a reader sees beside an answer, or how it is worded: without them no verdict is another.
SHOWN_KEYS = {
    "synthetic_limits", "agreement", "on_request", "levels", "slices", "thresholds", "reported", "rates", "scores",
    "says", "change", "named", "limits", "calibrated", "planned_sd", "prompts", "regimes", "alternatives",
    "rewordings", "baseline", "from_tables", "notice",
}  # fmt: skip
# Values that are words of a vocabulary, of tables or of other keys; all others are sentences.
NAMES = {
    "kind", "configs", "alternatives", "rewordings", "baseline", "reading", "measure", "test", "groups", "reference",
    "factors", "subset", "contrast", "unit", "aggregate", "rates", "correction", "family", "agreement", "from_tables",
    "scores", "reported",
}  # fmt: skip
KEY = re.compile(r"(?m)^(?!\[)([\w.\"]+) = ")


@pytest.fixture(scope="module")
def rows():
    """The rows of a config, made once; none where its upstream files are not at hand."""
    rows_by_config = {}

    def read(study, config):
        if (study, config) not in rows_by_config:
            try:
                rows_by_config[study, config] = catalogue.config_rows(study, config, download=False)
            except UpstreamMissingError:
                rows_by_config[study, config] = []
        return rows_by_config[study, config]

    return read


def faults(name, text, monkeypatch, rows):
    """What is wrong with a study of the package whose study.toml is this text; blank for nothing."""
    before = catalogue.load_corpus(name)

    def read_study_file(corpus):
        try:
            return parse_declaration(f"{corpus}/study.toml", text, package_study.TAKEN)
        except ValueError as error:
            raise StudyError(str(error)) from None

    monkeypatch.setattr(package_study, "read_study_file", read_study_file)
    try:
        study = package_study.declared_study(name, **tables_of(before.study))
        columns = {config.name: config.columns for config in before.configs}
        row_check.check_columns(study, columns, [released.model for released in before.released])
        check_readings(study)
        check_notes(study)
        old = {candidate.name: candidate for candidate in before.study.experiments}
        for experiment in study.experiments:
            if experiment == old.get(experiment.name) or experiment.reads.notes.corpus:
                continue
            of_configs = [row for config in experiment.reads.configs for row in rows(name, config)]
            if of_configs:
                check_rows(study, experiment, of_configs)
    except StudyError as error:
        return str(error)
    return ""


def tables_of(study):
    """What the builder of a study reads from tables."""
    columns_by_table = {}
    for experiment in study.experiments:
        for field in experiment.from_tables:
            columns_by_table[field] = getattr(
                experiment.shows if field == "covariates" else experiment.reads, field
            )
    return columns_by_table


def keys(text):
    """Each key with its match and value, once for each value that it has."""
    seen = set()
    for match, value in all_keys(text):
        if (match[1], value) not in seen:
            seen.add((match[1], value))
            yield match, value


def all_keys(text):
    for match in KEY.finditer(text):
        rest = text[match.end() :]
        lines = rest.split("\n")
        for count in range(1, len(lines) + 1):
            value = "\n".join(lines[:count])
            try:
                tomllib.loads(f"x = {value}")
            except tomllib.TOMLDecodeError:
                continue
            break
        yield match, value


def line_of(text, place):
    return text.count("\n", 0, place) + 1


def test_sections_have_twelve_fields():
    """A section has at most twelve fields, and each has a description."""
    for section in (Experiment, *sections_of(Experiment).values()):
        assert len(section.model_fields) <= 12, section
        own = {
            name: info
            for name, info in section.model_fields.items()
            if name not in sections_of(Experiment)
        }
        assert all(info.description for info in own.values()), section


@pytest.mark.parametrize("name", STUDIES)
def test_studies_have_no_fault(name, monkeypatch, rows):
    """The studies of the package have no fault."""
    assert faults(name, TEXTS[name], monkeypatch, rows) == ""


@pytest.mark.parametrize("name", STUDIES)
def test_misspelt_key(name, monkeypatch, rows):
    """A misspelt key is refused with its line and the right key."""
    text = TEXTS[name]
    for match, value in keys(text):
        key = match[1].partition(".")[0]
        wrong = key[:-2] + key[-1] + key[-2] if key[-1] != key[-2] else key + "s"
        sentences = faults(
            name,
            text[: match.start()] + wrong + text[match.start() + len(key) :],
            monkeypatch,
            rows,
        )
        line = line_of(text, match.start())
        wanted = rf"{name}/study\.toml:{line}: '{re.escape(wrong)}' is no key here\. Did you mean {key}\?"
        assert re.search(wanted, sentences), (key, line, value, sentences)


@pytest.mark.parametrize("name", STUDIES)
def test_value_of_another_type(name, monkeypatch, rows):
    """A value of another type is refused with its line."""
    text = TEXTS[name]
    wrongs = cycle(("7", '["x", 7]', "{x = 7}"))
    for match, value in keys(text):
        wrong = next(wrongs)
        changed = text[: match.end()] + wrong + text[match.end() + len(value) :]
        sentences = faults(name, changed, monkeypatch, rows)
        assert f"{name}/study.toml:" in sentences, (match[1], wrong)
        assert "pydantic" not in sentences


@pytest.mark.parametrize("name", STUDIES)
def test_missing_key(name, monkeypatch, rows):
    """A key that is left out is an error where it decides a verdict."""
    text = TEXTS[name]
    base = catalogue.load_corpus(name).study
    for match, value in keys(text):
        key = (
            match[1].partition(".")[-1]
            if match[1].startswith("notes.")
            else match[1].partition(".")[0]
        )
        end = match.end() + len(value) + 1
        sentences = faults(name, text[: match.start()] + text[end:], monkeypatch, rows)
        if sentences:
            assert f"{name}/study.toml:" in sentences, (key, sentences)
        else:  # what an experiment is like says the same, or only words and tables change
            assert key in SHOWN_KEYS or has_same_design(
                base, changed_study(name, text[: match.start()] + text[end:])
            ), (
                key,
                line_of(text, match.start()),
            )


def changed_study(name, text):
    declaration = parse_declaration("x", text, package_study.TAKEN)
    study, _ = package_study.validate(
        declaration, package_study.Study, {"name": name, **declaration.values}
    )
    return study


def has_same_design(one, other):
    return [(experiment.compares, experiment.design) for experiment in one.experiments] == [
        (candidate.compares, candidate.design) for candidate in other.experiments
    ]


@pytest.mark.parametrize("name", STUDIES)
def test_misspelt_name(name, monkeypatch, rows):
    """A misspelt name in a list or table is refused with its line where the rows of its experiment
    are at hand."""
    text = TEXTS[name]
    experiments = {one.name: one for one in catalogue.load_corpus(name).study.experiments}
    current = ""
    for match, value in keys(text):
        key = match[1]
        if key == "name":
            current = value.strip('"')
        experiment = experiments.get(current)
        if key not in NAMES or (
            experiment
            and key in ("groups", "reference", "contrast")
            and not has_rows(name, experiment, rows)
        ):
            continue
        if isinstance(tomllib.loads(f"x = {value}")["x"], dict):
            continue
        for word in re.finditer(r'"([^"]{5,})"', value):
            wrong = word[1][0] + word[1][2:]
            start = match.end() + word.start(1)
            sentences = faults(
                name, text[:start] + wrong + text[start + len(word[1]) :], monkeypatch, rows
            )
            line = line_of(text, start)
            assert re.search(rf"{name}/study\.toml:\d+: .*", sentences), (key, line, wrong)
            assert f"Did you mean {word[1]}?" in sentences or key == "reading", (
                key,
                line,
                wrong,
                sentences,
            )


def has_rows(name, experiment, rows):
    notes = experiment.reads.notes.corpus
    return not notes and all(rows(name, config) for config in experiment.reads.configs)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ('name = "control"', 'name = "sentences"', "name 'sentences' appears twice"),
        (
            'reference = "male"',
            'reference = ""',
            "reference is blank, and paired_gap compares groups with one",
        ),
        (
            'groups = ["female"]',
            "groups = []",
            "groups is blank, and paired_gap compares groups with one",
        ),
    ],
)
def test_contradicting_keys(before, after, sentence, monkeypatch, rows):
    """A value that contradicts another one is refused."""
    name = "occupation_sentiment"
    found = faults(name, TEXTS[name].replace(before, after), monkeypatch, rows)
    assert re.search(rf"{name}/study\.toml:\d+: {sentence}", found)
