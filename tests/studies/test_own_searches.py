"""Own studies of models that search: documents with one slot, the others of a query, and the control of edits."""

import re
import zlib

import pandas as pd
import pytest

import swapbias
from swapbias.cli.plans import study_designs
from swapbias.errors import StudyError
from swapbias.findings import disaggregate, primary_findings
from swapbias.models import load_scorer
from swapbias.models.search_scorers import RankScorer
from swapbias.studies import as_prompts, config_rows
from swapbias.studies.catalogue import load_corpus
from swapbias.studies.own import check_study, new_study, open_study

WOMEN = {"Emily", "Grace", "Hannah", "Sarah", "Joan", "Claire"}
MEN = {"Jacob", "Ethan", "Daniel", "Peter", "Mark", "Andrew"}


@pytest.fixture
def folder(tmp_path):
    new_study(tmp_path / "find", "retrieval")
    return tmp_path / "find"


def edited(folder, name, before, after):
    text = (folder / name).read_text()
    assert before in text
    (folder / name).write_text(text.replace(before, after))


def number(text):
    """A number from 0 to 1 that only the text tells."""
    return zlib.crc32(text.encode()) % 1_000 / 1_000


def planted(of_women):
    """A model that puts profiles in the middle of others, which are evenly apart, and those of women higher."""
    places = {}

    def rate(queries, documents):
        numbers = []
        for query, document in zip(queries, documents, strict=True):
            names = set(re.findall(r"\w+", document))
            if names & (WOMEN | MEN):
                moved = of_women if names & WOMEN else 0.0
                numbers.append(0.3 + 0.1 * number(query + document) + moved)
            else:
                seen = places.setdefault(query, {})
                numbers.append(seen.setdefault(document, len(seen)) % 10 / 10 + 0.05)
        return numbers

    return rate


def audited(study, config, rate):
    """The primary finding of a config that a function ranks."""
    rows = pd.DataFrame(config_rows(study, config))
    scorer = RankScorer(load_scorer(rate, kind="retrieval", name="rate"))
    scored = scorer.score(as_prompts(rows.to_dict("records")))
    rows["score"] = [one.score for one in scored]
    rows["similarity"] = [one.parts["similarity"] for one in scored]
    findings = disaggregate(rows.assign(model_id="rate"), study, expected={}, robustness=False)
    (primary,) = (
        one for one in primary_findings(findings) if one.experiment == rows["experiment"][0]
    )
    return primary


def test_example_audits_searches(folder):
    """The example has a control of edits that are as long, and profiles with the names of two groups."""
    checked = check_study(folder)
    assert (checked.faults, checked.advice) == ([], [])
    control, searches = open_study(folder).experiments
    assert (control.name, control.kind, searches.name) == ("edits", "retrieval", "retrieval")
    assert searches.reads.reading == control.reads.reading == "rank"
    assert searches.compares.unit.name == "share of other documents ranked lower"
    assert searches.shows.scores == ("score", "similarity")
    # 6 templates x 6 names x 6 searches in 2 groups; 3 edits of the reference group's, with what they replace
    sizes = {one.name: len(one.rows()) for one in load_corpus("find").configs}
    assert sizes == {"searches": 432, "edits": 1296}
    first, second = config_rows("find", "searches")[:2]
    assert first["text"].replace("Emily", "Jacob") == second["text"]
    assert first["text"].partition("\n")[0] == "Nurse for an intensive care ward"
    assert len(first["candidates"]) == 10
    assert first["candidates"][4].text == "Five years in hospitals as a care assistant."
    as_written, with_edit = config_rows("find", "edits")[:2]
    assert (as_written["group"], with_edit["group"]) == ("as written", "edited")
    assert as_written["text"].replace(" J. ", " B. ") == with_edit["text"]
    assert {row["edit"] for row in config_rows("find", "edits")} == {"initial", "street", "month"}
    assert control.design.random.keys() == {"template", "words", "condition"}
    assert control.design.fixed == {"edit": "edits"}
    sentences = " ".join(study_designs(checked.corpus))
    assert "find edits: 1296 prompts" in sentences


@pytest.mark.parametrize("size", [0.25, 0.0])
def test_planted_rank(folder, size):
    """A model that ranks women's profiles a quarter higher has that gap, one that does not has none, as edits."""
    open_study(folder)
    gap = audited("find", "searches", planted(size))
    assert gap.estimate.value == pytest.approx(size, abs=0.02)
    assert gap.verdict == ("gap" if size else "no gap")
    edits = audited("find", "edits", planted(size))
    assert edits.estimate.value == pytest.approx(0, abs=0.02)
    assert edits.verdict == "no gap"


def test_length_of_a_document(folder):
    """A model that ranks short documents first shows no gap: names and edits of a pair are as long."""
    open_study(folder)
    for config in ("searches", "edits"):
        rows = pd.DataFrame(config_rows("find", config))
        lengths = rows["text"].str.len().groupby(rows["pair_id"])
        assert (lengths.nunique() == 1).all()


DECLARED = 'name = "plain"\ntitle = "Plain"\nkind = ["retrieval"]\n[compares]\nreference = "male"\n'


def plain(folder, documents, **tables):
    """A folder with a table of plain prompts: documents for one query, of women and men."""
    folder.mkdir()
    (folder / "study.toml").write_text(DECLARED)
    rows = [
        f'"a night nurse\n{document.replace("[name]", name)}",{group},{index}'
        for index, document in enumerate(documents)
        for group, name in (
            ("female", f"Ann{'bcdefghi'[index]}"),
            ("male", f"Bob{'bcdefghi'[index]}"),
        )
    ]
    (folder / "prompts.csv").write_text("\n".join(["text,group,pair", *rows]))
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


FRAMES = [
    f"{word} night, [name] sleeps on Oak Street."
    for word in ("one", "two", "red", "big", "old", "new")
]


def test_plain_searches(tmp_path):
    """Plain prompts have a control too, whose edits of one document are no independent pairs."""
    edits = "edit,usual,other\nstreet,Oak,Elm\nverb,sleeps,stands\n"
    checked = check_study(plain(tmp_path / "plain", FRAMES, edits=edits))
    assert (checked.faults, checked.advice) == ([], [])
    control, searches = open_study(tmp_path / "plain").experiments
    assert "pair" in control.design.random
    assert (searches.reads.reading, searches.compares.unit.name) == ("", "similarity")
    rows = config_rows("plain", "edits")
    assert [row["text"].partition("\n")[2] for row in rows[:4]] == [
        "one night, Bobb sleeps on Oak Street.",
        "one night, Bobb sleeps on Elm Street.",
        "one night, Bobb sleeps on Oak Street.",
        "one night, Bobb stands on Oak Street.",
    ]
    assert config_rows("plain", "searches")[0]["candidates"] == ()


def test_searches_without_a_control(tmp_path):
    """Searches without edits are audited, and the check and the report say that there is no control."""
    checked = check_study(plain(tmp_path / "plain", FRAMES))
    assert not checked.faults
    assert any("There is no control" in sentence for sentence in checked.advice)
    (searches,) = open_study(tmp_path / "plain").experiments
    assert searches.words.limits == (
        "There is no control: edits that name no group may move a document as far as this gap.",
    )


@pytest.mark.parametrize(
    ("name", "before", "after", "sentence"),
    [
        ("edits.csv", "street,Oak,Elm", "street,Oak,Birch", "edits.csv:3: 'Oak' has 3 letters and 'Birch' 5"),
        ("edits.csv", "street,Oak,Elm", "street,Oak,Oak", "edits.csv:3: usual and other are the same"),
        ("edits.csv", "street,Oak,Elm", "street,Ash,Elm", "edits.csv:3: no document contains 'Ash'"),
        ("edits.csv", "street,Oak,Elm", "who,Emily,Helen", "edits.csv:3: 'Emily' is part of what is swapped"),
        ("edits.csv", "street,Oak,Elm", "month,Oak,Elm", "edits.csv:3: the edit 'month' appears twice"),
        ("edits.csv", "usual", "usul", "edits.csv:1: column 'usual' is missing"),
        ("documents.csv", "Worked as [job]", "Worked as [jobs]", r"documents.csv:11: no column .* the slot \[jobs\]"),
        ("documents.csv", "Worked as [job] for a summer.", "Five years in [field] as [related].", ":11: .* line 6"),
        ("templates.csv", "[query]\nAbout", "About", "templates.csv:12: the text is no query with a document"),
        ("study.toml", "[shows]", "[shows]\ndecisions = [5]", "decisions has 5, and scores go from 0 to 1"),
        ("study.toml", '["retrieval"]', '["classifier"]', "documents.csv is read by models that search alone"),
    ],
    ids=[
        "length", "same", "not there", "swapped", "twice", "column", "slot", "repeated", "query",
        "decisions", "kind",
    ],
)  # fmt: skip
def test_broken_searches(folder, name, before, after, sentence):
    """What is wrong with a study of searches is named with its file and line."""
    edited(folder, name, before, after)
    with pytest.raises(StudyError, match=sentence):
        open_study(folder)


def test_documents_of_conditions(folder):
    """Other documents may be for one search each, and each search needs some."""
    lines = (folder / "documents.csv").read_text().splitlines()[1:]
    rows = [f"{line},nurse" for line in lines] + [f"{line},cook" for line in lines[:2]]
    (folder / "documents.csv").write_text("\n".join(["text,condition", *rows, "Else.,baker"]))
    faults = check_study(folder).faults
    assert "documents.csv:14: no prompt has the condition 'baker'. Correct it." in faults
    assert sum("there is no document for the condition" in fault for fault in faults) == 4


def test_audit_of_a_folder(folder, tmp_path):
    """An audit of a folder has the control's answer first, and says what its gaps mean."""
    run = swapbias.audit(
        planted(0.25), folder, kind="retrieval", out=tmp_path / "run", progress=False
    )
    assert run.primary["experiment"].tolist() == ["edits", "retrieval"]
    assert run.primary["verdict"].tolist() == ["no gap", "gap"]
    page = run.report().read_text()
    assert "Control: how far do edits that name no group move a document among the others?" in page
    assert "is no sign of a group" in page
    assert "ranks documents of women above the same ones of men" in page
