"""The report of a run: one HTML file without any external reference."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from swapbias import findings
from swapbias.findings import Finding, experiment_of, judge_findings, primary_findings
from swapbias.measures import MEASURES
from swapbias.privacy import manifest_redaction, own_data, public_manifest
from swapbias.report.category_tables import category_tables
from swapbias.report.cautions import describe_certainty, list_cautions
from swapbias.report.finding_charts import (
    PlacedFinding,
    answer_tables,
    chart_of,
    has_several_models,
    rate_charts,
    slice_charts,
)
from swapbias.report.finding_names import row_name
from swapbias.report.headline_tables import direction_tables, markedness_tables, ratio_tables
from swapbias.report.level_table import level_tables
from swapbias.report.meanings import sign_meaning
from swapbias.report.page_pairs import (
    TemplateTexts,
    extreme_pairs,
    in_unit_of_scores,
    pack_pairs,
    shows_pairs,
    template_texts,
)
from swapbias.report.page_summary import summary_charts
from swapbias.report.page_template import anchor, render_html, render_part
from swapbias.report.pair_pictures import PairPictures, pictures_of_pairs
from swapbias.report.paper_differences import distinct_prompts, find_differences
from swapbias.report.paper_tables import tables_of_page
from swapbias.report.tail_charts import tail_charts
from swapbias.report.verdicts import (
    describe_chance_of_gap,
    describe_margins,
    gaps_of_sets,
    group_by_question,
    state_verdicts,
)
from swapbias.studies import PLACEBO, Study, catalogue, load_study, paper


def render(
    manifest: Mapping[str, Any],
    rows: Sequence[Finding],
    items: Mapping[str, pd.DataFrame],
    coverage: pd.DataFrame,
    command: str = "",
    meanings: Mapping[str, str] | None = None,
) -> str:
    """Return the report of a run as HTML, every value escaped.

    Args:
        manifest: the manifest of the run; no place of the user's machine in it is shown.
        rows: every finding.
        items: scored rows by study, none to show no texts.
        coverage: words of lexicons and whether they were counted.
        command: repeats the run.
        meanings: the meanings of the placeholders in the command, by placeholder.
    """
    manifest = public_manifest(manifest, keep_unknown=True)
    texts_by_question = template_texts(items)
    packed = pack_pairs(rows, items, texts_by_question)
    experiments = list(dict.fromkeys((finding.study, finding.experiment) for finding in rows))
    names = dict.fromkeys(finding.study for finding in rows)
    studies = [catalogue.study_of_run(name, manifest["corpora"]) for name in names]
    skipped = manifest["skipped"]
    planted = [finding for finding in rows if not finding.view and _is_planted(finding)]
    sections = [
        _section(manifest, rows, items.get(question[0]), question, texts_by_question, packed or {})
        for question in experiments
    ]
    sections = [section for section in sections if _has_content(section)]
    places = {section["place"] for section in sections}
    numbers_label = paper.RELEASED_OUTPUTS if manifest.get("released") else paper.THIS_RUN
    return render_html(
        "page.html.j2",
        command=command,
        placeholders=meanings or {},
        packed=packed,
        manifest=manifest,
        models=manifest["models"],
        size=_describe_size(manifest, items),
        corpora=distinct_prompts(manifest["corpora"]),
        answers=_answers(rows),
        summary=summary_charts(rows, places),
        margin=_margin(rows),
        margins=describe_margins(rows),
        chance_of_gap=describe_chance_of_gap(rows),
        reached={finding.verdict for finding in primary_findings(rows)},
        several=has_several_models(rows),
        planted=planted,
        sections=sections,
        places=places,
        paper_tables=tables_of_page(manifest, rows, items, numbers_label),
        studies=studies,
        limits=_limits(studies, experiments, own_notes=own_data(manifest) is not None),
        not_run=[
            entry
            for entry in skipped
            if not entry["experiment"].startswith(manifest_redaction.PARTIAL_EXPERIMENT_PREFIX)
        ],
        remarks=dict.fromkeys(
            entry["reason"]
            for entry in skipped
            if entry["experiment"].startswith(manifest_redaction.PARTIAL_EXPERIMENT_PREFIX)
        ),
        printed_findings=findings.comparisons(rows, views=True),
        with_items=bool(items),
        too_large=bool(items) and packed is None,
        coverage=coverage.groupby(["lexicon", "label"], sort=False) if len(coverage) else (),
    )


def _margin(rows: Sequence[Finding]) -> str:
    """Return the margins of the answers in words; blank where there is none."""
    if all(math.isnan(finding.margin) for finding in primary_findings(rows)):
        return ""
    return describe_margins(rows)


def _is_planted(finding: Finding) -> bool:
    return finding.published is not None and finding.published.planted


def _limits(
    studies: Iterable[Study], experiments: Sequence[tuple[str, str]], *, own_notes: bool
) -> list[str]:
    """Return the limits of the studies of a run, each once."""
    limits: list[str] = []
    for study in studies:
        names = [name for study_name, name in experiments if study_name == study.name]
        limits += study.limits_of_run(names, own_notes=own_notes)
    return list(dict.fromkeys(limits))


def render_summary(rows: Sequence[Finding]) -> str:
    """Return what a notebook shows of a run, as HTML without any reference: the first table, and the verdicts.

    Args:
        rows: findings of the run.
    """
    summary = summary_charts(rows, set())
    return render_part("summary.html.j2", answers=_answers(rows), summary=summary)


def _describe_size(manifest: Mapping[str, Any], items: Mapping[str, pd.DataFrame]) -> str:
    """Say how much was read: ``1,173 prompts from 17 templates``, each once however many models read it."""
    if not items:
        entries = distinct_prompts(manifest["corpora"])
        return f"{sum(entry['rows'] for entry in entries):,} prompts"
    n_prompts = 0
    n_templates = 0
    for frame in items.values():
        prompts = frame[frame["group"] != PLACEBO]
        n_prompts += _count_prompts(prompts)
        if "template" in prompts:
            n_templates += len(prompts[["experiment", "template"]].drop_duplicates())
    if n_templates == 1:
        return f"{n_prompts:,} prompts from 1 template"
    return f"{n_prompts:,} prompts from {n_templates:,} templates"


def _count_prompts(rows: pd.DataFrame) -> int:
    """Return the number of prompts of scored rows; released ones, of one model, may have no ids."""
    if "prompt_id" not in rows:
        return len(rows)
    return len(rows[["experiment", "prompt_id"]].drop_duplicates())


def _answers(rows: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return for each question and model the sentences and their picture."""
    return [_answer(results, rows) for results in group_by_question(rows)]


def _answer(results: Sequence[Finding], rows: Sequence[Finding]) -> dict[str, Any]:
    """Return the sentences on one question and model, and their picture."""
    drawn = _drawn_findings(results, rows)
    first = drawn[0]
    experiment = experiment_of(first)
    placed = [PlacedFinding(finding, row_name(finding)) for finding in drawn]
    return {
        "first": first,
        "place": anchor(first.study, first.experiment),
        "question": experiment.question if experiment else first.experiment,
        "verdicts": state_verdicts(results, rows),
        "beside": _sentences_beside(results, rows),
        "meaning": sign_meaning(first),
        "several": len(drawn) > len(results),
        "has_value": any(not math.isnan(finding.estimate.value) for finding in drawn),
        "chart": chart_of("", "", placed),
    }


def _drawn_findings(results: Sequence[Finding], rows: Sequence[Finding]) -> list[Finding]:
    """Return the findings of an answer's chart, each after the gaps that it compares."""
    drawn: list[Finding] = []
    for finding in results:
        drawn += [*gaps_of_sets(finding, rows), finding]
    if not any(finding.tests_all_groups for finding in results):
        return drawn
    # A test of all groups is a sentence, not a point on the scale.
    gaps = [finding for finding in drawn if MEASURES[finding.measure].gap_span]
    return gaps or drawn


def _sentences_beside(results: Sequence[Finding], rows: Sequence[Finding]) -> list[str]:
    """Return how sure a single answer, or the test of all groups, is and what could change it."""
    alone = results
    if len(results) > 1:
        alone = [finding for finding in results if finding.tests_all_groups][:1]
    sentences: list[str] = []
    for finding in alone:
        sentences.append(describe_certainty(finding))
        sentences += list_cautions(finding, rows, with_range=False)
    return [sentence for sentence in sentences if sentence]


def _section(
    manifest: Mapping[str, Any],
    rows: Sequence[Finding],
    items: pd.DataFrame | None,
    question: tuple[str, str],
    texts_by_question: TemplateTexts,
    packed: Mapping[str, str],
) -> dict[str, Any]:
    """Return everything about one question: charts, published results, sensitivity, pairs."""
    study, name = question
    rows = [finding for finding in rows if (finding.study, finding.experiment) == (study, name)]
    (experiment, *_) = (entry for entry in load_study(study).experiments if entry.name == name)
    question_anchor = anchor(study, name)
    answers = primary_findings(rows)
    gaps = [finding for finding in answers if MEASURES[finding.measure].gap_span]
    examples: list[dict[str, Any]] = []
    pictures: list[PairPictures] = []
    texts = texts_by_question.get(question, {})
    if items is not None:
        items = items[items["experiment"] == name]
        in_unit = in_unit_of_scores(study, experiment, rows)
        examples = extreme_pairs(in_unit, items)
        if shows_pairs(experiment):
            pictures = pictures_of_pairs(in_unit, items, texts, question_anchor)
    return {
        "study": catalogue.study_of_run(study, manifest["corpora"]),
        "experiment": experiment,
        "place": question_anchor,
        "several": has_several_models(rows),
        "answers": gaps or answers,
        "margin": _margin(rows),
        "found": rows,
        "charts": [
            *slice_charts(experiment, rows),
            *tail_charts(experiment, rows),
            *rate_charts(experiment, rows),
            *ratio_tables(experiment, rows),
            *direction_tables(rows),
            *markedness_tables(experiment, rows),
            *answer_tables(experiment, items),
            *level_tables(experiment, rows),
            *category_tables(load_study(study), experiment, items),
        ],
        "compared": _published_findings(rows),
        "differs": find_differences(manifest, study, name).sentence,
        "examples": examples,
        "pictures": pictures,
        "texts": texts,
        "judged": judge_findings.findings_of_judge(rows),
        "pairs": question_anchor if question_anchor in packed else "",
        "has_items": items is not None,
    }


def _has_content(section: Mapping[str, Any]) -> bool:
    """Return whether a section has more than its heading."""
    parts = ("charts", "compared", "examples", "pictures", "judged", "pairs")
    has_parts = any(section[name] for name in parts)
    return has_parts or any(
        list_cautions(finding, section["found"]) for finding in section["answers"]
    )


def _published_findings(rows: Sequence[Finding]) -> list[Finding]:
    """Return what papers print a number for, by their own statistics where there are such."""
    published = [
        finding for finding in rows if finding.published is not None and not _is_planted(finding)
    ]
    by_own_statistic = {(row.model_id, *row.key()) for row in published if row.view}
    return [
        row for row in published if row.view or (row.model_id, *row.key()) not in by_own_statistic
    ]
