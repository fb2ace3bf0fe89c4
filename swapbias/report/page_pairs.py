"""Pairs of texts on a page: those that differ most, and all of them, compressed, for search and filter."""

import base64
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd
from markupsafe import Markup

from swapbias.findings import Finding, geometric_means, scored_rows
from swapbias.measures import MEASURES
from swapbias.report import template_text
from swapbias.report.finding_names import group_name, plain_words
from swapbias.report.meanings import levels_unit
from swapbias.report.numbers import unit_format
from swapbias.report.page_template import anchor, mark_unseen
from swapbias.report.scored_pairs import EQUAL, scored_pairs
from swapbias.studies import PLACEBO, Experiment, load_study

EXAMPLES = 4
"""Pairs shown at each end."""
MOST_BYTES = 20_000_000
"""Most bytes of compressed scored prompts in one page."""
TemplateTexts = Mapping[tuple[str, str], Mapping[str, str]]
"""By study and experiment what is shown for each template."""
_FIELDS = ("model_id", "construct", "label", "condition", "template", "wording")  # of the search
_MOST_TOKENS = 8  # of a prompt
_WORD_OR_MASK = re.compile(r"(<mask>|\[MASK\]|\w+)")
_WORD = re.compile(r"\w+")


def in_unit_of_scores(study: str, experiment: Experiment, rows: Sequence[Finding]) -> Experiment:
    """Return the experiment in the unit of the model's scores, which may not be the declared one.

    Args:
        study: its name.
        experiment: the experiment of the study.
        rows: findings of the run.
    """
    for finding in rows:
        is_score = (finding.study, finding.experiment) == (study, experiment.name)
        is_score = is_score and finding.score == "score"
        if is_score and MEASURES[finding.measure].gap_span:
            return experiment.in_unit(finding.scale)
    return experiment.in_unit(experiment.compares.unit)


def extreme_pairs(experiment: Experiment, items: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the pairs with the lowest and the highest gap of any model and contrast.

    Args:
        experiment: the experiment in the unit of the scores.
        items: its scored rows.

    Returns:
        Model, marked texts, scores and gap of each pair, without those whose gap is written as zero; none of notes,
        which are long, or where no pair stands out.
    """
    if {*experiment.shows.rates} - {geometric_means.GEOMETRIC} or not experiment.is_paired:
        return []
    pairs: list[dict[str, Any]] = []
    for (model_id, rows), contrast in product(
        items.groupby("model_id", sort=False), experiment.gaps
    ):
        compares = contrast.compares
        groups = [group_name(contrast, group) for group in (compares.group, compares.reference)]
        of_all = {"model": str(model_id), "compared": " minus ".join(groups)}
        pairs += [{**of_all, **pair} for pair in scored_pairs(contrast, rows).to_dict("records")]
    pairs.sort(key=lambda pair: pair["gap"])
    if not pairs or pairs[-1]["gap"] - pairs[0]["gap"] < EQUAL:
        return []
    if len(pairs) > 2 * EXAMPLES:
        pairs = pairs[:EXAMPLES] + pairs[-EXAMPLES:]
    write_level = unit_format(experiment.compares.unit, signed=False)
    write_gap = unit_format(experiment.compares.unit)
    no_gap = write_gap(0.0)
    examples = []
    for pair in pairs:
        if write_gap(pair["gap"]) == no_gap:
            continue
        examples.append(
            {
                "model": pair["model"],
                "compared": pair["compared"],
                "texts": mark_differences((pair["text_first"], pair["text_second"])),
                "levels": [write_level(pair[side]) for side in ("first", "second")],
                "gap": write_gap(pair["gap"]),
            }
        )
    return examples


def mark_differences(texts: Sequence[str]) -> list[Markup]:
    """Return each different text once, escaped, with marks.

    Args:
        texts: the texts of a pair.

    Returns:
        Of two texts each word that the other text lacks is marked, else the mask.
    """
    unique = list(dict.fromkeys(texts))
    marked = []
    for text in unique:
        words_of_others = {
            word
            for other_text in unique
            if other_text != text
            for word in _WORD.findall(other_text)
        }
        pieces = []
        for index, piece in enumerate(_WORD_OR_MASK.split(text)):
            is_word_or_mask = index % 2 == 1
            is_mask = piece[:1] in ("<", "[")
            is_marked = piece not in words_of_others if len(unique) == 2 else is_mask
            tag = Markup("<mark>{}</mark>") if is_word_or_mask and is_marked else Markup("{}")
            pieces.append(tag.format(mark_unseen(piece)))
        marked.append(Markup("").join(pieces))
    return marked


def template_texts(items: Mapping[str, pd.DataFrame]) -> TemplateTexts:
    """Return the words that all texts of a template share, of each experiment whose pairs are shown.

    Args:
        items: scored rows by study.
    """
    texts = {}
    for study, frame in items.items():
        for experiment in load_study(study).experiments:
            if shows_pairs(experiment):
                prompts = frame[frame["experiment"] == experiment.name]
                texts[study, experiment.name] = template_text.texts_of_templates(prompts)
    return texts


def pack_pairs(
    rows: Sequence[Finding], items: Mapping[str, pd.DataFrame], texts: TemplateTexts
) -> dict[str, str] | None:
    """Return the scored prompts of each experiment, compressed, by its anchor.

    Args:
        rows: findings of the run.
        items: scored rows by study.
        texts: what is shown for templates.

    Returns:
        Addresses of data, none of notes; None where they are too many for a page.
    """
    packed = {}
    for study, frame in items.items():
        for experiment in load_study(study).experiments:
            prompts = frame[frame["experiment"] == experiment.name]
            if len(prompts) and shows_pairs(experiment):
                in_unit_of_run = in_unit_of_scores(study, experiment, rows)
                pairs = list_pairs(in_unit_of_run, prompts, texts[study, experiment.name])
                packed[anchor(study, experiment.name)] = _pack(pairs)
    return packed if sum(map(len, packed.values())) <= MOST_BYTES else None


def shows_pairs(experiment: Experiment) -> bool:
    """Return whether an experiment has a gap and is not about notes.

    Args:
        experiment: the experiment.
    """
    rates = {*experiment.shows.rates} - {scored_rows.ANSWERS, geometric_means.GEOMETRIC}
    is_about_notes = bool(rates or experiment.reads.notes.corpus)
    return bool(experiment.compares.measure) and not is_about_notes


def _pack(content: Mapping[str, Any]) -> str:
    """Return a JSON value as compressed data in an address."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    compressed = zlib.compress(text.encode(errors="replace"), 9)
    return f"data:application/zlib;base64,{base64.b64encode(compressed).decode()}"


def list_pairs(
    experiment: Experiment, rows: pd.DataFrame, texts: Mapping[str, str]
) -> dict[str, Any]:
    """Return scored rows by pair, every text, field and list of tokens once, as ``page.js`` reads them.

    Args:
        experiment: the experiment in the unit of the scores.
        rows: its scored rows.
        texts: what is shown for each template.
    """
    if "side" in rows:
        rows = rows.assign(group=rows["group"].where(rows["group"] != PLACEBO, rows["side"]))
    if "wording" in rows:
        rows = rows.assign(wording=rows["wording"].fillna("original"))
    fields = [name for name in _FIELDS if name in rows and rows[name].nunique() > 1]
    codes = {}
    values = {}
    for name in (*fields, "group", "text", "top_tokens", "answer"):
        codes[name], values[name] = _coded_column(rows, name)
    tokens = [_rounded_tokens(text) for text in values.pop("top_tokens")]
    compares = experiment.compares
    written = unit_format(compares.unit, signed=False)
    titles = {"model_id": "model", compares.subset: "set"}
    titles |= {slice_by.column: slice_by.name for slice_by in experiment.shows.slices}
    return {
        "fields": fields,
        "titles": [titles.get(name, plain_words(name)) for name in fields],
        "labels": _labels(texts, values),
        "values": values,
        "tokens": tokens,
        "contrasts": [[gap.compares.group, gap.compares.reference] for gap in experiment.gaps],
        "entries": _entries(rows, fields, codes),
        "scale": written.factor,
        "start": written.start,
        "unit": levels_unit(compares.unit),
    }


def _labels(texts: Mapping[str, str], values: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return by field what is shown for each value: of a template the words that its texts share."""
    if "template" not in values:
        return {}
    return {"template": [texts.get(template, template) for template in values["template"]]}


def _coded_column(rows: pd.DataFrame, name: str) -> tuple[list[int], list[str]]:
    """Return a column as codes, and the value of each code; a column that is not there is blank."""
    column = pd.Series("", index=rows.index)
    if name in rows:
        column = rows[name].fillna("").astype(str)
    codes, unique = pd.factorize(column)
    return codes.tolist(), [str(value) for value in unique]


def _rounded_tokens(text: str) -> list[list[Any]]:
    """Return the most likely tokens of a prompt with their probabilities."""
    tokens = json.loads(text or "[]")[:_MOST_TOKENS]
    return [[str(token), round(float(probability), 3)] for token, probability in tokens]


def _entries(
    rows: pd.DataFrame, fields: Sequence[str], codes: Mapping[str, Sequence[int]]
) -> list[list[Any]]:
    """Return for each pair the codes of its fields, and its texts with group, score, tokens and answer."""
    scores = [
        None if math.isnan(score) else round(score, 5) for score in rows["score"].astype(float)
    ]
    keys = [rows[name].astype(str) for name in ("pair_id", "model_id", "trial") if name in rows]
    pairs: dict[tuple[str, ...], list[Any]] = {}
    for index, key in enumerate(zip(*keys, strict=True)):
        pair = pairs.setdefault(key, [[codes[name][index] for name in fields], []])
        group = codes["group"][index]
        text = codes["text"][index]
        tokens = codes["top_tokens"][index]
        answer = codes["answer"][index]
        pair[1].append([group, text, scores[index], tokens, answer])
    return list(pairs.values())
