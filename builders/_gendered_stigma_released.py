"""What the authors of gendered_stigma released: raw outputs as scored rows, and their own prompts and words."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from swapbias.studies import Released, csv_rows, prompt_row

# The released RQ1 files hold templates without a phase; their order is that of the phases (paper, section 3).
PHASE_SIZES = {"diagnosis": 4, "intention": 6, "action": 7}


def original_templates(table: Path) -> list[dict[str, str]]:
    texts = list(dict.fromkeys(row["prompt"] for row in csv_rows(table)))
    phases = [phase for phase, size in PHASE_SIZES.items() for _ in range(size)]
    return [
        {"template_id": f"original{number}", "construct": phase, "template": text}
        for number, (text, phase) in enumerate(zip(texts, phases, strict=True), start=1)
    ]


# Labels differ between the released files.
_RELEASED_GROUP = {"female": "female", "male": "male", "unspecified": "unspecified", "ambig": "unspecified"}
Scored = dict[str, Any]
NOUN_FILES = {"female": "data/women_nouns.csv", "male": "data/men_nouns.csv"}


def _released_row(experiment: str, pair: str, group: str, score: str, **facts: str) -> Scored:
    return {**prompt_row(pair, group, "", experiment, **facts), "score": float(score)}


def _released_rq1(sets: Mapping[str, str], files: Mapping[str, Path]) -> Iterator[Scored]:
    for label, path in sets.items():
        phases = {row["template"]: row["construct"] for row in original_templates(files[path])}
        for cell in csv_rows(files[path]):
            template, group = cell["prompt"], _RELEASED_GROUP[cell["gender"].lower()]
            facts = {"construct": phases[template], "condition": cell["diagnosis"], "label": label}
            pair = f"{label}/{template}/{cell['diagnosis']}"
            yield _released_row("rq1", pair, group, cell["probability"], template=template, **facts)


def _released_rq2(sets: Mapping[str, str], files: Mapping[str, Path]) -> Iterator[Scored]:
    for label, path in sets.items():
        for cell in csv_rows(files[path]):
            template, construct = cell["sequence"], cell["stigma_category"].lower()
            facts = {"construct": construct, "condition": cell["diagnosis"], "label": label}
            pair = f"{label}/{template}/{cell['diagnosis']}"
            for group in ("female", "male"):
                yield _released_row("rq2", pair, group, cell[f"{group}_prob"], template=template, **facts)


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
        for group, path in NOUN_FILES.items()
        for noun in files[path].read_text(encoding="utf-8").split("\n")
    }
    rows = list(csv_rows(files[results]))
    patterns: dict[tuple[str, str], re.Pattern[str]] = {}
    sums: dict[tuple[str, str, str], float] = {}
    for cell in rows:
        text = re.escape(cell["sequence"].replace("[diagnosis]", cell["diagnosis"]))
        patterns[cell["diagnosis"], cell["sequence"]] = re.compile(text.replace(re.escape("<mask>"), "(.+)"))
    for row in csv_rows(files[phrases]):
        for (diagnosis, sequence), pattern in patterns.items():
            match = pattern.fullmatch(row["sequence"]) if diagnosis == row["diagnosis"] else None
            if match:
                group = _ending_gender(match.group(1).split(" "), gender)
                key = (diagnosis, sequence, group)
                sums[key] = sums.get(key, 0.0) + float(row["probability"])
    differences = (
        abs(sums.get((cell["diagnosis"], cell["sequence"], group), 0.0) - float(cell[f"{group}_prob"]))
        for cell in rows
        for group in ("female", "male")
    )
    equal = sum(max(both) < 1e-9 for both in zip(differences, differences, strict=True))  # of each cell both genders
    yield (label, "phrase_table_cells", "sums equal to the result table", float(equal))


def _outputs(stem: str) -> str:
    return f"output/attribute_recursive_3steps_TOPK_10_BEAM_10_{stem}.csv"


# model -> stem of its RQ1 files; file stems of its RQ2 results (mental, other); stem of its phrase table.
# The published RoBERTa rows come from roberta_nonmh_result: roberta_non_result is a copy of another model's. Those of
# Clinical-Longformer come from clinicallongformer_result, a run with three misspelt prompts.
_MODELS = {
    "roberta-large": ("roberta", ("roberta__result", "roberta_nonmh_result"), "roberta_"),
    "mental/mental-roberta-base": (
        "mentalroberta",
        ("mentalroberta__result", "mentalroberta_non_result"),
        "mentalroberta_",
    ),
    "yikuan8/Clinical-Longformer": (
        "clinicallongformer",
        ("clinicallongformer_result", "clinicallongformer_non_result"),
        "",
    ),
    "bert-large-uncased": ("", ("bert__result", "bert_non_result"), ""),
    "mental/mental-bert-base-uncased": ("", ("mentalbert__result", "mentalbert_non_result"), ""),
}
_SETS = ("mental_health", "other_health")
# The run with the spelling put right: its RQ2 results (mental, other) and phrase table, and what it changes.
_CORRECTED = (
    "yikuan8/Clinical-Longformer",
    ("clinicallongformer__result", "clinicallongformer_non_result"),
    "clinicallongformer_",
)
_RESPELT = ("coercion", "segregation", "avoidance")
_NOTE = (
    "the paper printed a run with three misspelt prompts (treament, emploer, nieghbors); this is the authors' "
    "corrected run, whose numbers differ in coercion, segregation and avoidance"
)


def released() -> Iterator[Released]:
    for model, (rq1, rq2, phrases) in _MODELS.items():
        if rq1:
            stems = (f"output/{rq1}_all_df_intention.csv", f"output/{rq1}_all_df_intention_non_mh.csv")
            rows = partial(_released_rq1, dict(zip(_SETS, stems, strict=True)))
            yield Released(model=model, experiment="rq1", files=stems, rows=rows)
        yield from _rq2(model, rq2, phrases)
    yield from _rq2(*_CORRECTED, note=_NOTE, corrected=_RESPELT)


def _rq2(model: str, stems: tuple[str, str], phrases: str, **more: Any) -> Iterator[Released]:
    """The results of a run, and its phrase table where there is one."""
    results = (_outputs(stems[0]), _outputs(stems[1]))
    rows = partial(_released_rq2, dict(zip(_SETS, results, strict=True)))
    yield Released(model=model, experiment="rq2", files=results, rows=rows, **more)
    if phrases:
        table = _outputs(phrases)
        yield Released(
            model=model,
            experiment="rq2",
            files=(table, results[0], *NOUN_FILES.values()),
            rows=lambda files: (),
            counts=partial(_phrase_table_cells, _SETS[0], table, results[0]),
        )
