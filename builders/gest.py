"""gest: which gender a model gives to sentences with a stereotype about women or men (Pikuliak et al. 2024)."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from swapbias import studies
from swapbias.builders._gest_translations import (
    GROUPS,
    NAME,
    TEMPLATES,
    Translation,
    bare,
    config_name,
    content_key,
    language_files,
    language_templates,
    read_translations,
)
from swapbias.errors import UsageError
from swapbias.hub import builder_on_use
from swapbias.studies import tables

FOLDER = studies.corpus_dir(NAME)
SENTENCES = "data/gest.csv"
MENDED = "data/gest_1.1.csv"
_STEREOTYPES = ("number", "stereotype", "about", "sentences")
_PREDICTIONS = {
    "masked": "data/predictions/english_mlm/",
    "causal": "data/predictions/english_glm/",
}


@cache
def _stereotypes() -> dict[str, dict[str, str]]:
    rows = studies.read_table(FOLDER / "stereotypes.csv", _STEREOTYPES)
    return {row["number"]: row for row in rows}


def _templates(config: str) -> list[dict[str, str]]:
    rows = studies.read_table(
        FOLDER / "templates.csv", ("config", "template", "text", "male", "female")
    )
    return [row for row in rows if row["config"] == config]


def _sentences(path: Path) -> list[tuple[str, dict[str, str]]]:
    """The sentences in the order of the released file, each with its stereotype."""
    stereotypes = _stereotypes()
    return [(row["sentence"], stereotypes[row["stereotype"]]) for row in tables.csv_rows(path)]


def _lexicon_name(template: Mapping[str, str]) -> str:
    return {"He": "first_words", "he": "pronouns", "man": "nouns"}[template["male"]]


def _lexicon(name: str) -> studies.Lexicon:
    """The two words of a template, in the case that they have there."""
    templates = [part for part in _templates("masked") if _lexicon_name(part) == name]
    template = templates[0]
    return studies.Lexicon(
        f"{NAME}/{name}", words={}, proper={template[group]: group for group in GROUPS}
    )


def _rows(config: str, path: str) -> Iterator[dict[str, str]]:
    """Every sentence in every template, of a man and of a woman; in ``masked`` the word is a blank."""
    sentences = _sentences(tables.upstream_file(NAME, path))
    for template in _templates(config):
        for number, (sentence, stereotype) in enumerate(sentences):
            for group in GROUPS:
                masked = config == "masked"
                text = studies.fill(
                    template["text"],
                    sentence=sentence,
                    word=studies.MASK if masked else template[group],
                )
                yield _row(config, template, number, stereotype, group, text)


def _row(
    experiment: str,
    template: Mapping[str, str],
    number: int,
    stereotype: Mapping[str, str],
    group: str,
    text: str,
) -> dict[str, str]:
    return studies.prompt_row(
        f"{template['template']}/{number + 1}",
        group,
        text,
        experiment,
        construct=stereotype["stereotype"],
        lexicon=f"{NAME}/{_lexicon_name(template)}/{group}" if experiment == "masked" else "",
        condition=f"sentence {number + 1}",
        label=stereotype["about"],
        template=template["template"],
    )


# Released scores: a line a sentence, log10 of the male word's probability over the female one's.
def _scores(
    files: Mapping[str, Path], experiment: str
) -> Iterator[tuple[dict[str, str], list[float]]]:
    """Read the scores of each template, in the order of the sentences.

    Raises:
        ValueError: not a score for each sentence.
    """
    count = len(_sentences(files[SENTENCES]))
    paths = [path for path in files if path != SENTENCES]
    for template, path in zip(_templates(experiment), paths, strict=True):
        scores = [float(line) for line in files[path].read_text(encoding="utf-8").split()]
        if len(scores) != count:
            raise ValueError(
                f"{path}: {len(scores)} scores, expected {count}, one for each sentence."
            )
        yield template, scores


def _released_rows(experiment: str, files: Mapping[str, Path]) -> Iterator[dict[str, object]]:
    """Half of each log-odds for the male word and half against the female one: only their difference was released."""
    sentences = _sentences(files[SENTENCES])
    for template, scores in _scores(files, experiment):
        for number, ((_, stereotype), score) in enumerate(zip(sentences, scores, strict=True)):
            for group, side in (("male", 0.5), ("female", -0.5)):
                row = _row(experiment, template, number, stereotype, group, "")
                yield {**row, "score": side * score * math.log(10)}


def released() -> Iterator[studies.Released]:
    """Every model whose scores are pinned: its name and template stand in the path."""
    for experiment, folder in _PREDICTIONS.items():
        by_model: dict[str, list[str]] = defaultdict(list)
        for path in sorted(tables.pinned_files(NAME)):
            if path.startswith(folder):
                model = path.removeprefix(folder).rpartition("_template-")[0]
                by_model[model].append(path)
        for model, paths in by_model.items():
            yield studies.Released(
                model=model,
                experiment=experiment,
                files=(SENTENCES, *paths),
                rows=partial(_released_rows, experiment),
            )


# Other languages: pairs whose words tell who says them, and sentences in templates that say who does.
def _pair_rows(path: Path) -> Iterator[dict[str, str]]:
    """Both sentences of each pair of a language, as they are."""
    template = {"template": "words of the sentence"}
    for translation in read_translations(path, _stereotypes()):
        for group, text in translation.pair.items():
            yield _language_row(translation, template, group, text)


def _template_rows(path: Path) -> Iterator[dict[str, str]]:
    """Every sentence of a language that tells no gender, in every template, of a man and of a woman."""
    translations = [one for one in read_translations(path, _stereotypes()) if one.neutral]
    for template in language_templates(path):
        for translation in translations:
            sentence = bare(translation.neutral)
            for group in GROUPS:
                text = studies.fill(template["text"], sentence=sentence, word=template[group])
                yield _language_row(translation, template, group, text)


def _language_row(
    translation: Translation, template: Mapping[str, str], group: str, text: str
) -> dict[str, str]:
    stereotype = _stereotypes()[translation.stereotype]
    return studies.prompt_row(
        f"{template['template']}/{translation.sentence}",
        group,
        text,
        "causal",
        construct=stereotype["stereotype"],
        condition=f"sentence {translation.sentence}",
        label=stereotype["about"],
        template=template["template"],
    )


def _local(folder: Path) -> tuple[studies.Config, ...]:
    """Make the configs of a user's tables in the form of EuroGEST's, which nothing pins.

    Raises:
        UsageError: there is no such table, or none with anything to compare.
        ValueError: a table is wrong; the error names file and line.
    """
    configs = []
    for path in language_files(folder):
        translations = read_translations(path, _stereotypes())
        if any(one.pair for one in translations):
            configs.append(_language_config(path, "pairs", _pair_rows))
        if any(one.neutral for one in translations) and language_templates(path):
            configs.append(_language_config(path, "templates", _template_rows))
    if not configs:
        raise UsageError(
            f"No table in {folder} has pairs, or templates of its language. Add them to {TEMPLATES} beside it."
        )
    return tuple(configs)


def _language_config(
    path: Path, table: str, rows_of: Callable[[Path], Iterator[dict[str, str]]]
) -> studies.Config:
    """Make a config of a language, read as the causal one is."""
    return replace(
        CORPUS.config("causal"),
        name=config_name(path, table),
        description=f"{path.name}, a table of the user's that nothing pins: {table}",
        rows=partial(rows_of, path),
        content_key=partial(content_key, path),
        upstream=(),
        reads_as="causal",
        language=path.stem,
    )


ROWS = {
    f"{kind}{version}": partial(_rows, kind, path)
    for version, path in (("", SENTENCES), ("_1_1", MENDED))
    for kind in _PREDICTIONS
}
CORPUS = studies.declared_corpus(
    NAME,
    ROWS,
    lexicons={name: partial(_lexicon, name) for name in ("first_words", "pronouns", "nouns")},
    released=tuple(released()),
    local=_local,
)
__getattr__ = builder_on_use(NAME)
