"""What the authors of gendered_stigma released: raw outputs as scored rows, and their own prompts and words."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from swapbias.studies import Released, corpus_dir, prompt_row, read_table, tables
from swapbias.studies.published import ReleasedNumber

# The released RQ1 files hold templates without a phase; their order is that of the phases (paper, section 3).
PHASE_SIZES = {"diagnosis": 4, "intention": 6, "action": 7}


def original_templates(table: Path) -> list[dict[str, str]]:
    texts = list(dict.fromkeys(row["prompt"] for row in tables.csv_rows(table)))
    phases = [phase for phase, size in PHASE_SIZES.items() for _ in range(size)]
    return [
        {"template_id": f"original{number}", "construct": phase, "template": text}
        for number, (text, phase) in enumerate(zip(texts, phases, strict=True), start=1)
    ]


# Labels differ between the released files.
_RELEASED_GROUP = {
    "female": "female",
    "male": "male",
    "unspecified": "unspecified",
    "ambig": "unspecified",
}
Scored = dict[str, Any]
NOUN_FILES = {"female": "data/women_nouns.csv", "male": "data/men_nouns.csv"}


def _released_row(experiment: str, pair: str, group: str, score: str, **facts: str) -> Scored:
    return {**prompt_row(pair, group, "", experiment, **facts), "score": float(score)}


def _released_rq1(sets: Mapping[str, str], files: Mapping[str, Path]) -> Iterator[Scored]:
    for label, path in sets.items():
        phases = {row["template"]: row["construct"] for row in original_templates(files[path])}
        for cell in tables.csv_rows(files[path]):
            template = cell["prompt"]
            group = _RELEASED_GROUP[cell["gender"].lower()]
            facts = {"construct": phases[template], "condition": cell["diagnosis"], "label": label}
            pair = f"{label}/{template}/{cell['diagnosis']}"
            yield _released_row("rq1", pair, group, cell["probability"], template=template, **facts)


def _released_rq2(sets: Mapping[str, str], files: Mapping[str, Path]) -> Iterator[Scored]:
    for label, path in sets.items():
        for cell in tables.csv_rows(files[path]):
            template = cell["sequence"]
            construct = cell["stigma_category"].lower()
            facts = {"construct": construct, "condition": cell["diagnosis"], "label": label}
            pair = f"{label}/{template}/{cell['diagnosis']}"
            for group in ("female", "male"):
                yield _released_row(
                    "rq2", pair, group, cell[f"{group}_prob"], template=template, **facts
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
) -> Iterator[ReleasedNumber]:
    """Count (prompt, diagnosis) cells of the result table that are the sums of the phrase table by ending noun."""
    gender = {
        noun: group
        for group, path in NOUN_FILES.items()
        for noun in files[path].read_text(encoding="utf-8").split("\n")
    }
    rows = list(tables.csv_rows(files[results]))
    patterns: dict[tuple[str, str], re.Pattern[str]] = {}
    sums: dict[tuple[str, str, str], float] = {}
    for cell in rows:
        text = re.escape(cell["sequence"].replace("[diagnosis]", cell["diagnosis"]))
        patterns[cell["diagnosis"], cell["sequence"]] = re.compile(
            text.replace(re.escape("<mask>"), "(.+)")
        )
    for row in tables.csv_rows(files[phrases]):
        for (diagnosis, sequence), pattern in patterns.items():
            match = pattern.fullmatch(row["sequence"]) if diagnosis == row["diagnosis"] else None
            if match:
                group = _ending_gender(match.group(1).split(" "), gender)
                key = (diagnosis, sequence, group)
                sums[key] = sums.get(key, 0.0) + float(row["probability"])
    equal = 0
    for cell in rows:
        key = (cell["diagnosis"], cell["sequence"])
        differences = [
            abs(sums.get((*key, group), 0.0) - float(cell[f"{group}_prob"]))
            for group in ("female", "male")
        ]
        if max(differences) < 1e-9:
            equal += 1
    yield ReleasedNumber(
        label, "phrase_table_cells", "sums equal to the result table", float(equal)
    )


def _outputs(stem: str) -> str:
    return f"output/attribute_recursive_3steps_TOPK_10_BEAM_10_{stem}.csv"


_SETS = ("mental_health", "other_health")
_COLUMNS = ("model", "rq1", *_SETS, "phrases", "corrected", "note")


def released() -> Iterator[Released]:
    """The runs of ``released.csv``: of rq1, of rq2, and the phrase table of this where there is one.

    The published RoBERTa rows come from roberta_nonmh_result: roberta_non_result is a copy of another model's.
    """
    for run in read_table(
        corpus_dir("gendered_stigma") / "released.csv", _COLUMNS, optional=_COLUMNS
    ):
        whole = partial(Released, model=run["model"])
        if run["rq1"]:
            stems = (
                f"output/{run['rq1']}_all_df_intention.csv",
                f"output/{run['rq1']}_all_df_intention_non_mh.csv",
            )
            rows = partial(_released_rq1, dict(zip(_SETS, stems, strict=True)))
            yield whole(experiment="rq1", files=stems, rows=rows)
        results = tuple(_outputs(run[name]) for name in _SETS)
        rows = partial(_released_rq2, dict(zip(_SETS, results, strict=True)))
        corrected = tuple(filter(None, run["corrected"].split("; ")))
        yield whole(
            experiment="rq2", files=results, rows=rows, note=run["note"], corrected=corrected
        )
        if run["phrases"]:
            table = _outputs(run["phrases"])
            counts = partial(_phrase_table_cells, _SETS[0], _outputs(run["phrases"]))
            files = (table, results[0], *NOUN_FILES.values())
            yield whole(
                experiment="rq2",
                files=files,
                rows=lambda files: (),
                counts=partial(counts, results[0]),
            )
