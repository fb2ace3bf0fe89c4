"""A fault in corpus.toml of any corpus is an error with file, line and the nearest right word."""

import re
from functools import partial

import pytest

from swapbias.errors import StudyError, UpstreamMissingError
from swapbias.studies import catalogue, config_check, corpus, corpus_file as declaring, tables
from swapbias.studies.corpus_folders import corpora, corpus_dir
from swapbias.studies.declared import parse_declaration
from tests.studies.test_declarations import keys, line_of

TEXTS = {name: (corpus_dir(name) / "corpus.toml").read_text(encoding="utf-8") for name in corpora()}
FREE_TEXTS = {"title", "description", "limits_of_data"}  # read by people alone
SENTENCES = {*FREE_TEXTS, "version"}
DECLARED = {}  # rows of each config and the upstream files that they were made of


def rows_of(name, config, build):
    """The rows of a config, made once; each time its upstream files are seen to be read."""
    if (name, config) not in DECLARED:
        with tables.recorded_reads() as reads:
            try:
                DECLARED[name, config] = [*build()], reads
            except UpstreamMissingError:
                DECLARED[name, config] = None, reads
    rows, reads = DECLARED[name, config]
    if rows is None:
        raise UpstreamMissingError("not at hand")
    if (seen := tables._READS.get()) is not None:
        seen += reads
    return rows


def builders(name):
    """Return rows by config from the builder of a corpus, and whether it reads folders."""
    whole = catalogue.load_corpus(name)
    corpus = {declared.name: declared.rows.args[-1] for declared in whole.configs}
    rows = {
        config: partial(rows_of, name, config, build)
        for config, build in corpus.items()
        if getattr(build, "func", None) is not config_check.checked_table
    }
    return rows, {"local": whole.local, "study": None}


def faults(name, text, monkeypatch):
    """What is wrong with a corpus whose corpus.toml is this text: in the file, or in the rows of a changed config."""
    before = {
        declared_config.name: declared_config
        for declared_config in declaring.corpus_declaration(name).configs
    }
    rows, more = builders(name)

    def read_corpus_file(corpus_name):
        try:
            return parse_declaration(f"{corpus_name}/corpus.toml", text)
        except ValueError as error:
            raise StudyError(str(error)) from None

    with monkeypatch.context() as patched:
        for module in (declaring, corpus, config_check):
            patched.setattr(module, "read_corpus_file", read_corpus_file)
        patched.setattr(corpus, "corpus_declaration", declaring.corpus_declaration.__wrapped__)
        try:
            made = corpus.declared_corpus(name, rows, **more)
            declared = declaring.corpus_declaration.__wrapped__(name)
            for config, one in zip(made.configs, declared.configs, strict=True):
                if one != before.get(one.name):
                    config.rows()
        except (StudyError, ValueError) as error:
            if isinstance(error, UpstreamMissingError):
                pytest.skip("needs the authors' files")
            return str(error)
    return ""


def declared(name, text):
    """Return the declarations of a text, without its free texts."""
    values = parse_declaration("x", text).values
    fields = declaring.DeclaredCorpus(**values).model_dump(exclude={"title"})
    for config in fields["configs"]:
        del config["description"]
    return fields


@pytest.mark.parametrize("name", corpora())
def test_misspelt_key(name, monkeypatch):
    """A misspelt key is refused with its line and the right key."""
    text = TEXTS[name]
    for match, value in keys(text):
        key = match[1]
        wrong = key[:-2] + key[-1] + key[-2] if key[-1] != key[-2] else key + "s"
        sentences = faults(
            name, text[: match.start()] + wrong + text[match.start() + len(key) :], monkeypatch
        )
        wanted = f"{name}/corpus.toml:{line_of(text, match.start())}: '{wrong}' is no key here. Did you mean {key}?"
        assert wanted in sentences, (key, value, sentences)


@pytest.mark.parametrize("name", corpora())
def test_value_of_another_type(name, monkeypatch):
    """A value of another type is refused with its line."""
    text = TEXTS[name]
    for match, value in keys(text):
        for wrong in ("7", '["x", 7]', "{x = 7}", "true" if value[0] in '["{' else '"true"'):
            sentences = faults(
                name, text[: match.end()] + wrong + text[match.end() + len(value) :], monkeypatch
            )
            assert f"{name}/corpus.toml:{line_of(text, match.start())}: " in sentences, (
                match[1],
                wrong,
                sentences,
            )
            assert "pydantic" not in sentences


@pytest.mark.parametrize("name", corpora())
def test_missing_key(name, monkeypatch):
    """A key that is left out is an error or changes nothing that is published."""
    text = TEXTS[name]
    for match, value in keys(text):
        changed = text[: match.start()] + text[match.end() + len(value) + 1 :]
        sentences = faults(name, changed, monkeypatch)
        if sentences:
            assert re.search(r"[\w/]+\.(toml|csv):\d+: ", sentences), (match[1], sentences)
        else:  # as where it is like an earlier one that says the same
            assert declared(name, changed) == declared(name, text), (
                match[1],
                line_of(text, match.start()),
            )


@pytest.mark.parametrize("name", corpora())
def test_misspelt_name(name, monkeypatch):
    """A misspelt name is refused with its line and the right name."""
    text = TEXTS[name]
    for match, value in keys(text):
        if match[1] in SENTENCES:
            continue
        words = re.finditer(r'"([^"]{4,})"|(?<=[{,] )(\w{4,})(?= =)|(?<=\{)(\w{4,})(?= =)', value)
        for word in words:
            group = next(number for number in (1, 2, 3) if word[number])
            right = word[group]
            start = match.end() + word.start(group)
            wrong = right[0] + right[2:]
            sentences = faults(name, text[:start] + wrong + text[start + len(right) :], monkeypatch)
            line = line_of(text, start)
            assert f"{name}/corpus.toml:" in sentences, (match[1], line, wrong, sentences)
            # Another key that names the same says so the other way round: "like names 'right'. Did you mean wrong?"
            other_way = f"'{right}'" in sentences and f"Did you mean {wrong}?" in sentences
            assert other_way or f"Did you mean {right}?" in sentences, (
                match[1],
                line,
                wrong,
                sentences,
            )


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            'licence = "Apache-2.0"',
            'licence = "Proprietary"',
            ":3: licence is 'Proprietary', under which nothing",
        ),
        (
            'version = "3.0.',
            'version = "3.',
            r":2: version is '3\.\d', expected three numbers as in 1.0.0",
        ),
        (
            'like = "conditions"',
            'like = "nothing"',
            r"like names 'nothing', and no earlier table is called so",
        ),
        (
            'more = ["person", "asked",',
            'more = ["person", "person",',
            "more names the column 'person' twice",
        ),
        (
            "chats = true",
            "",
            "texts of conditions contain turns of a chat, and chats is not stated. Add chats = true",
        ),
        ('percent = "int64"', 'percent = "float64"', "rows contain whole numbers: int64"),
        (
            'percent = "int64"',
            'percent = "bool"',
            "types says bool of the column 'percent', and a row has",
        ),
        (
            'types = {percent = "int64"}',
            "types = {}",
            "rows contain int64 in the column 'percent', and types does not",
        ),
        ('types = {percent = "int64"}', "", "types is missing, which a table with columns states"),
        (
            '"data/questions.jsonl"',
            '"data/vignettes.jsonl"',
            "are made of 'data/questions.jsonl', which upstream",
        ),
        (
            '"data/questions.jsonl"',
            '"data/none.csv"',
            "upstream names 'data/none.csv', which sources.csv does not",
        ),
    ],
    ids=[
        "licence",
        "version",
        "earlier table",
        "repeated column",
        "chats",
        "whole numbers",
        "bool",
        "untyped column",
        "missing types",
        "other upstream file",
        "unknown upstream file",
    ],
)
def test_declaration_unlike_rows(before, after, sentence, monkeypatch):
    """A declaration that contradicts the rows or files is refused with its line."""
    text = TEXTS["stigma_vignettes"]
    assert before in text
    found = faults("stigma_vignettes", text.replace(before, after, 1), monkeypatch)
    assert re.search(sentence, found), found
    assert "stigma_vignettes/corpus.toml:" in found


def test_tags(monkeypatch):
    """Tags of another topic are accepted, and misspelt or malformed ones are refused."""
    text = TEXTS["stigma_vignettes"]

    def faults_of(tag):
        return faults(
            "stigma_vignettes", text.replace("tags = [", f'tags = ["{tag}", ', 1), monkeypatch
        )

    for tag in ("age-bias", "race-bias", "class-bias", "name-bias", "accent-bias", "legal"):
        assert faults_of(tag) == ""
    for tag, near in (
        ("gendr-bias", "gender-bias"),
        ("genderbias", "gender-bias"),
        ("Medcal", "medical"),
    ):
        assert f"tags names '{tag}'. Did you mean {near}?" in faults_of(tag)
    expected = f"tags names 'of law!', expected words with hyphens, as {', '.join(declaring.TAGS)}. Correct it."
    assert expected in faults_of("of law!")


@pytest.mark.parametrize("table", ["sources.csv", "published.csv", "noun_pairs.csv"])
def test_fault_in_a_table(table, tmp_path, monkeypatch):
    """A fault in a table names its corpus."""
    folder = tmp_path / "occupation_sentiment"
    folder.mkdir()
    (folder / table).write_text("wrong\n")
    monkeypatch.setattr(tables, "corpus_dir", lambda corpus: folder)
    with pytest.raises(
        ValueError, match=f"^occupation_sentiment/{table}:1: columns wrong, expected "
    ):
        tables.read_table(folder / table, ("right",))
