"""What the authors of social_distance released: sentiment labels, as scored rows."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from swapbias.studies import Released, prompt_row, tables
from swapbias.studies.published import ReleasedNumber

NAME = "social_distance"
_CONDITIONS = "data/Prompts and word ratings/stigma_conditions.csv"
_SENTIMENT = "data/SentimentClassifier results/{stem}_{group}_sentiment.csv"
_GROUPS = {"stigma": "stigmatized", "nonstigma": "other"}
_CLASSIFIERS = {
    "distilbert-base-uncased-finetuned-sst-2-english": "distilbert",
    "siebert/sentiment-roberta-large-english": "SiEBERT",
    "cardiffnlp/twitter-roberta-base-sentiment-latest": "TwitterRB",
    "finiteautomata/bertweet-base-sentiment-analysis": "bertweet-base",
}
# One of the 29 has two renderings, which the released labels list as if they were two conditions.
_SAME = {"a monogamous relationship": "monogamous"}
# The released files hold a third sentence, "We are people who ...", that the paper does not use.
_TEMPLATES = {"They": "they", "These": "these"}


def _rows(path: Path) -> Iterator[dict[str, str]]:
    return ({name: cell.strip() for name, cell in row.items()} for row in tables.csv_rows(path))


def _labels(classifiers: Mapping[str, str], files: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    """Give released labels as scored rows: 1 for a negative one."""
    for model, stem in classifiers.items():
        for part, group in _GROUPS.items():
            for row in _rows(files[_SENTIMENT.format(stem=stem, group=part)]):
                template = _TEMPLATES.get(row["prompts"].split(" ")[0])
                if template is None:
                    continue
                rendering = row["condition"]
                name = row["pachankis_conditions"]
                if group == "other":
                    name = _SAME.get(rendering, rendering)
                pair = f"{model}/{row['prompts']}"
                prompt = prompt_row(
                    pair,
                    group,
                    row["prompts"],
                    "sentiment",
                    prompt_id=pair,
                    construct="people",
                    template=template,
                    condition=name.lower(),
                    label=row["category"].lower(),
                )
                score = float(row["sentiment"].upper().startswith("NEG"))
                yield {**prompt, "rendering": rendering, "score": score}


def _count_rendered_twice(files: Mapping[str, Path]) -> Iterator[ReleasedNumber]:
    """Count the stigmatized conditions that the released table renders in several ways."""
    counts = Counter(
        row["Pachankis_condition"].lower() for path in files.values() for row in _rows(path)
    )
    several = sum(count > 1 for count in counts.values())
    yield ReleasedNumber("", "count", "conditions with several renderings", float(several))


def _files(stem: str) -> tuple[str, ...]:
    return tuple(_SENTIMENT.format(stem=stem, group=group) for group in _GROUPS)


def released() -> Iterator[Released]:
    """Each classifier by itself, the four together, whose shares the paper counts, and the table of conditions."""
    for model, stem in _CLASSIFIERS.items():
        yield Released(
            model=model,
            experiment="sentiment",
            files=_files(stem),
            rows=partial(_labels, {model: stem}),
        )
    all_files = tuple(path for stem in _CLASSIFIERS.values() for path in _files(stem))
    yield Released(
        model="four sentiment classifiers",
        experiment="sentiment",
        files=all_files,
        rows=partial(_labels, _CLASSIFIERS),
    )
    yield Released(
        model="six masked models",
        experiment="attitude",
        files=(_CONDITIONS,),
        rows=lambda files: (),
        counts=_count_rendered_twice,
    )
