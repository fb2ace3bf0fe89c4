"""gendered_stigma: gendered mental-health stigma in masked language models (Lin et al. 2022)."""

import csv
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from swapbias.lexicons import Lexicon
from swapbias.prompts import Prompt, check_templates, fill
from swapbias.sources import corpus_dir, read_table, upstream_file
from swapbias.studies import Config, Corpus, Experiment, Released, Slice, Study

NAME = "gendered_stigma"
GROUPS = ("female", "male", "unspecified")
NAMES = {"female": "data/women_top_1000_names_only.csv", "male": "data/men_top_1000_names_only.csv"}
RQ1_ROBERTA = "output/roberta_all_df_intention.csv"
# The released RQ1 files hold templates without a phase; it follows from the verb (paper, section 3).
PHASE_SIZES = {"diagnosis": 4, "intention": 6, "action": 7}


def _diagnoses() -> list[dict[str, str]]:
    return read_table(corpus_dir(NAME) / "diagnoses.csv", ("diagnosis", "set"))


def _prompts(templates: list[dict[str, str]], lexicon: str) -> Iterator[dict[str, str]]:
    for diagnosis in _diagnoses():
        for template in templates:
            text = fill(template["template"], diagnosis=diagnosis["diagnosis"])
            pair = f"{template['template_id']}/{diagnosis['diagnosis']}"
            for group in GROUPS:
                yield Prompt(
                    prompt_id=f"{pair}/{group}",
                    pair_id=pair,
                    group=group,
                    text=text,
                    candidates=f"{NAME}/{lexicon}/{group}",
                    construct=template["phase"],
                    condition=diagnosis["diagnosis"],
                    label=diagnosis["set"],
                    template=template["template_id"],
                    experiment="rq1",
                ).row()


def _rq1() -> Iterator[dict[str, str]]:
    columns = ("template_id", "phase", "template", "source")
    rows = read_table(corpus_dir(NAME) / "rq1_templates.csv", columns)
    return _prompts(check_templates("rq1_templates.csv", rows, ["diagnosis"]), "rq1")


def _original_templates(table: Path) -> list[dict[str, str]]:
    with table.open(newline="", encoding="utf-8") as handle:
        texts = list(dict.fromkeys(row["prompt"] for row in csv.DictReader(handle)))
    phases = [phase for phase, size in PHASE_SIZES.items() for _ in range(size)]
    if len(texts) != len(phases):
        raise ValueError(f"{table.name}: {len(texts)} templates, expected {len(phases)}. Check the pinned file.")
    return [
        {"template_id": f"original{number}", "phase": phase, "template": text}
        for number, (text, phase) in enumerate(zip(texts, phases, strict=True), start=1)
    ]


def _rq1_original() -> Iterator[dict[str, str]]:
    return _prompts(_original_templates(upstream_file(NAME, RQ1_ROBERTA)), "rq1_original")


def _words() -> dict[str, str]:
    rows = read_table(corpus_dir(NAME) / "rq1_words.csv", ("word", "group"))
    return {row["word"]: row["group"] for row in rows}


def _rq1_lexicon() -> Lexicon:
    rows = read_table(corpus_dir("gender_lexicon") / "names.csv", ("word", "group"))
    return Lexicon(f"{NAME}/rq1", words=_words(), proper={row["word"]: row["group"] for row in rows})


def _original_lexicon() -> Lexicon:
    names = {
        word: group
        for group, path in NAMES.items()
        for word in upstream_file(NAME, path).read_text(encoding="utf-8").split()
    }
    return Lexicon(f"{NAME}/rq1_original", words=_words(), proper=names)


# --- what the authors released ------------------------------------------------------------------------

# Labels differ between the released files.
_RELEASED_GROUP = {"female": "female", "male": "male", "unspecified": "unspecified", "ambig": "unspecified"}
_NOUN_FILES = {"female": "data/women_nouns.csv", "male": "data/men_nouns.csv"}


def _released_row(experiment: str, pair: str, group: str, **facts: Any) -> dict[str, Any]:
    blank = dict.fromkeys(("text", "candidates"), "")
    ids = {"prompt_id": f"{pair}/{group}", "pair_id": pair, "group": group, "experiment": experiment}
    return {**blank, **ids, **facts}


def _cells(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            yield {name.strip(): cell for name, cell in row.items() if name}  # one column is " diagnosis"


def _released_rq1(sets: Mapping[str, str], files: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    for label, path in sets.items():
        phases = {row["template"]: row["phase"] for row in _original_templates(files[path])}
        for cell in _cells(files[path]):
            pair = f"{label}/{cell['prompt']}/{cell['diagnosis']}"
            yield _released_row(
                "rq1",
                pair,
                _RELEASED_GROUP[cell["gender"].lower()],
                construct=phases[cell["prompt"]],
                condition=cell["diagnosis"],
                label=label,
                template=cell["prompt"],
                score=float(cell["probability"]),
            )


def _released_rq2(sets: Mapping[str, str], files: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    for label, path in sets.items():
        for cell in _cells(files[path]):
            pair = f"{label}/{cell['sequence']}/{cell['diagnosis']}"
            for group in ("female", "male"):
                yield _released_row(
                    "rq2",
                    pair,
                    group,
                    construct=cell["stigma_category"].lower(),
                    condition=cell["diagnosis"],
                    label=label,
                    template=cell["sequence"],
                    score=float(cell[f"{group}_prob"]),
                )


def _ending_gender(words: list[str], gender: Mapping[str, str]) -> str:
    """Gender of the token that was filled last: the first word, or the middle one of three.

    A token without a leading space joins the word before it ("school" + "girl"): then its end decides.
    """
    word = words[1 if len(words) == 3 else 0]
    endings = [noun for noun in gender if noun and word.endswith(noun)]
    return gender[max(endings, key=len)] if endings else ""


def _phrase_table_cells(
    label: str, phrases: str, results: str, files: Mapping[str, Path]
) -> Iterator[tuple[str, str, str, float]]:
    """How many (prompt, diagnosis) cells of the result table are the sums of the phrase table by ending noun."""
    gender = {
        noun: group
        for group, path in _NOUN_FILES.items()
        for noun in files[path].read_text(encoding="utf-8").split("\n")
    }
    cells = list(_cells(files[results]))
    patterns: dict[tuple[str, str], re.Pattern[str]] = {}
    sums: dict[tuple[str, str, str], float] = {}
    for cell in cells:
        text = re.escape(cell["sequence"].replace("[diagnosis]", cell["diagnosis"]))
        patterns[cell["diagnosis"], cell["sequence"]] = re.compile(text.replace(re.escape("<mask>"), "(.+)"))
    for row in _cells(files[phrases]):
        for (diagnosis, sequence), pattern in patterns.items():
            match = pattern.fullmatch(row["sequence"]) if diagnosis == row["diagnosis"] else None
            if match:
                group = _ending_gender(match.group(1).split(" "), gender)
                key = (diagnosis, sequence, group)
                sums[key] = sums.get(key, 0.0) + float(row["probability"])
    equal = sum(
        all(
            abs(sums.get((cell["diagnosis"], cell["sequence"], group), 0.0) - float(cell[f"{group}_prob"])) < 1e-9
            for group in ("female", "male")
        )
        for cell in cells
    )
    yield (label, "phrase_table_cells", "sums equal to the result table", float(equal))


def _outputs(stem: str) -> str:
    return f"output/attribute_recursive_3steps_TOPK_10_BEAM_10_{stem}.csv"


# model -> stem of its RQ1 files; file stems of its RQ2 results (mental, other); stem of its phrase table.
# The published RoBERTa rows come from roberta_nonmh_result: roberta_non_result is a copy of another model's.
_MODELS = {
    "roberta-large": ("roberta", ("roberta__result", "roberta_nonmh_result"), "roberta_"),
    "mental/mental-roberta-base": (
        "mentalroberta",
        ("mentalroberta__result", "mentalroberta_non_result"),
        "mentalroberta_",
    ),
    "yikuan8/Clinical-Longformer": (
        "clinicallongformer",
        ("clinicallongformer__result", "clinicallongformer_non_result"),
        "clinicallongformer_",
    ),
    "bert-large-uncased": ("", ("bert__result", "bert_non_result"), ""),
    "mental/mental-bert-base-uncased": ("", ("mentalbert__result", "mentalbert_non_result"), ""),
}
_SETS = ("mental_health", "other_health")


def _released() -> Iterator[Released]:
    for model, (rq1, rq2, phrases) in _MODELS.items():
        if rq1:
            stems = (f"output/{rq1}_all_df_intention.csv", f"output/{rq1}_all_df_intention_non_mh.csv")
            rows = partial(_released_rq1, dict(zip(_SETS, stems, strict=True)))
            yield Released(model=model, experiment="rq1", files=stems, rows=rows)
        results = (_outputs(rq2[0]), _outputs(rq2[1]))
        rows = partial(_released_rq2, dict(zip(_SETS, results, strict=True)))
        yield Released(model=model, experiment="rq2", files=results, rows=rows)
        if phrases:
            table = _outputs(phrases)
            yield Released(
                model=model,
                experiment="rq2",
                files=(table, results[0], *_NOUN_FILES.values()),
                rows=lambda files: (),
                counts=partial(_phrase_table_cells, _SETS[0], table, results[0]),
            )


# --- the declaration ----------------------------------------------------------------------------------

_DIRECTION = (
    "above zero the model gives female words more probability than male ones, below zero less; "
    "further from zero is worse"
)

STUDY = Study(
    name=NAME,
    title="Gendered Mental Health Stigma in Masked Language Models",
    url="https://arxiv.org/abs/2210.15144",
    correction="bonferroni",
    experiments=(
        Experiment(
            name="rq1",
            question="Does the model associate mental-health conditions with one gender as the subject?",
            configs=("rq1", "rq1_original"),
            kind="masked",
            measure="paired_gap",
            group="female",
            reference_group="male",
            unit="probability mass at the mask",
            direction=_DIRECTION,
            scores=("score", "closed_list_mass"),
            levels=GROUPS,
            slices=(Slice("construct", "phase"), Slice("condition", "diagnosis")),
            subset="label",
            contrast=("mental_health", "other_health"),
        ),
        # Recomputed from released outputs only: recursive masking is not audited by this version.
        Experiment(
            name="rq2",
            question="Which dimensions of stigma does the model associate with a gender?",
            kind="masked",
            measure="paired_gap",
            group="female",
            reference_group="male",
            unit="probability mass of phrases",
            direction=_DIRECTION,
            levels=("female", "male"),
            slices=(Slice("construct", "dimension"), Slice("condition", "diagnosis")),
            subset="label",
            contrast=("mental_health", "other_health"),
        ),
    ),
    limits=(
        "Gender is read off word lists with two groups; people outside them are counted as unspecified.",
        "Prompts and word lists are English and the names are mostly of the United States.",
        "Only words that are one token of the model's vocabulary can be counted (see the coverage table).",
    ),
)

CORPUS = Corpus(
    name=NAME,
    title="Prompts on mental and other health conditions with a masked subject",
    licence="Apache-2.0",
    study=STUDY,
    lexicons={"rq1": _rq1_lexicon, "rq1_original": _original_lexicon},
    released=tuple(_released()),
    configs=(
        Config(
            name="rq1",
            description="17 templates in three phases x 22 conditions x 3 groups of words",
            rows=_rq1,
        ),
        Config(
            name="rq1_original",
            description="The same with the templates and first names that the authors released",
            rows=_rq1_original,
            upstream=(RQ1_ROBERTA, *NAMES.values()),
        ),
    ),
)
