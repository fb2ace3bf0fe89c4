"""Published numbers: what each is, how rows of a key are merged, and which files are refused."""

import pytest

from swapbias.studies import corpora, published
from swapbias.studies.paper_models import find_model, list_models, published_for
from swapbias.studies.published import ORIGINS, Published, published_rows

HEADER = (
    "model,experiment,subset,measure,contrast,slice_by,slice_value,"
    "value,p_value,effect_size,source,note,recomputed,origin\n"
)


def write_rows(folder, monkeypatch, *lines):
    """Write a table of published numbers and make it the one of every study."""
    (folder / "published.csv").write_text(HEADER + "".join(f"{line}\n" for line in lines))
    monkeypatch.setattr(published, "corpus_dir", lambda study: folder)


def test_value_and_bound_of_a_key(tmp_path, monkeypatch):
    """A value beside a p-value that is printed as a bound is two rows, which are read as one number."""
    key = "m,e,,mean,female,all,"
    write_rows(
        tmp_path, monkeypatch, f"{key},0.2,,,Table 1,,,printed", f"{key},,<0.01,,text,,,bound"
    )
    (number,) = published_for("any", "M").values()
    assert number == Published(
        "0.2", "<0.01", source="Table 1; text", value_origin="printed", p_value_origin="bound"
    )
    assert not number.is_recomputed


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        (
            "0.2,,,Table 1,,,guessed",
            ":2: origin 'guessed', expected one of printed, recomputed, bound",
        ),
        (
            "<0.2,,,Table 1,,,printed",
            ":2: value '<0.2' of origin printed. Begin a bound with < or >",
        ),
        ("0.2,,,Table 1,,,bound", ":2: value '0.2' of origin bound. Begin a bound with < or >"),
        ("0.2 %,,,Table 1,,,printed", ":2: value '0.2 %', expected a decimal number"),
        ("0.2,,,Table 1,,,", ":2: column 'origin' is blank"),
    ],
)
def test_refused_rows(tmp_path, monkeypatch, cells, sentence):
    """A row is refused with its line where its origin or a number is wrong."""
    write_rows(tmp_path, monkeypatch, f"m,e,,mean,female,all,,{cells}")
    with pytest.raises(ValueError, match=r"published\.csv") as error:
        published_rows("any")
    assert sentence in str(error.value)


def test_origins_of_the_package():
    """GEST's numbers are recomputed, ten quantities of the occupations are, and every row has an origin."""
    rows = {name: published_rows(name) for name in corpora()}
    assert {row["origin"] for of_study in rows.values() for row in of_study} <= set(ORIGINS)
    assert {row["origin"] for row in rows["gest"]} == {"recomputed"}
    cells = [
        (row["origin"], row[quantity])
        for row in rows["occupation_sentiment"]
        for quantity in ("value", "p_value")
        if row[quantity]
    ]
    assert ("bound", "<0.01") in cells
    assert {("printed", value) for value in ("-0.040", "0.039", "0.99", "0.34")} <= set(cells)


@pytest.mark.parametrize(
    ("study", "model", "called"),
    [
        ("phenotype_fairness", "google-bert/bert-base-cased", "BERT_base_cased"),
        ("phenotype_fairness", "emilyalsentzer/Bio_ClinicalBERT", "ClinicalBERT"),
        ("phenotype_fairness", "GoogleNews", "word2vec_news"),
        ("occupation_sentiment", "bow", "logistic regression (bag of words)"),
        ("occupation_sentiment", "bilstm", "bidirectional LSTM"),
        ("occupation_sentiment", "bert", "bert-base-uncased (fine-tuned on SST-2)"),
        ("care_notes", "facebook/bart-large-cnn", "bart"),
        ("social_distance", "vinai/bertweet-base", "bertweet-base"),
        ("gendered_stigma", "FacebookAI/RoBERTa-large", "roberta-large"),
        ("gendered_stigma", "roberta-large + lab/lora", None),
        ("gendered_stigma", "roberta-large (4bit)", None),
        ("gendered_stigma", "lab/roberta-large-finetuned", None),
        ("gendered_stigma", "lab/roberta-large", None),
        ("phenotype_fairness", "lab/bert-base-cased", None),
        ("occupation_sentiment", "bert-base-uncased", None),
    ],
)
def test_models_of_papers(study, model, called):
    """A model joins printed numbers by an alias; an adapter, a quantization, a finetuned
    variant or a namesake of another owner does not."""
    paper_model = find_model(study, model)
    assert (paper_model and paper_model.model) == called
    rows = [row for row in published_rows(study) if row["model"] == called]
    assert bool(published_for(study, model)) == bool(rows)


def test_models_are_listed():
    """Each study with published numbers lists its paper's models, without a name that stands for two."""
    for study in corpora():
        if not published_rows(study):
            continue
        names = [name for model in list_models(study) for name in model.names]
        assert len(names) == len(set(names)), study
