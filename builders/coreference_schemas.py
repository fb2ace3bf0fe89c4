"""coreference_schemas: sentences that differ in one pronoun, of somebody in an occupation or not (Winogender)."""

from collections.abc import Iterator, Mapping
from typing import Any

from swapbias import studies

NAME = "coreference_schemas"
FOLDER = studies.corpus_dir(NAME)
SOMEONE = "someone"
PRONOUNS = {
    "male": {"subject": "he", "object": "him", "possessive": "his", "was": "was"},
    "female": {"subject": "she", "object": "her", "possessive": "her", "was": "was"},
    "neutral": {"subject": "they", "object": "them", "possessive": "their", "was": "were"},
}
_ROLES = ("subject", "object", "possessive")
_QUESTION = (
    "{sentence}\n\nWho does '{pronoun}' refer to?\n- (A): the {occupation}\n- (B): {participant}\n- (C): unsure\n\n"
    "Answer with the letter alone."
)
_OCCUPATIONS = ("occupation", "bergsma_percent_women", "bls_percent_women", "bls_year", "source")


def _sentences(
    pronouns: Mapping[str, Mapping[str, str]],
) -> Iterator[tuple[dict[str, str], str, str, str, str]]:
    """Of every template with the other person named or just someone: the row, that person, group, pronoun, text."""
    for row in studies.read_table(
        FOLDER / "templates.csv", ("occupation", "participant", "referent", "template", "source")
    ):
        used = studies.slots(row["template"])
        role = next(one for one in _ROLES if one in used)
        for other in (f"the {row['participant']}", SOMEONE):
            known = {
                "occupation": row["occupation"],
                "participant": other,
                "capital_participant": other.capitalize(),
            }
            known["any_participant"] = other.replace("the ", "a ", 1)
            for group, forms in pronouns.items():
                text = studies.fill(
                    row["template"], **{slot: {**known, **forms}[slot] for slot in used}
                )
                yield row, other, group, forms[role], text


def _row(
    experiment: str, row: Mapping[str, str], other: str, group: str, text: str, **more: Any
) -> studies.Row:
    pair = f"{row['occupation']}.{other.removeprefix('the ')}.{row['referent']}"
    prompt = studies.prompt_row(
        pair,
        group,
        text,
        experiment,
        construct=SOMEONE if other == SOMEONE else "participant",
        condition=row["occupation"],
        label=row["referent"],
        template=row["template"],
        **more,
    )
    return {**prompt, "participant": row["participant"]}


def _whole() -> Iterator[dict[str, str]]:
    for row, other, group, pronoun, text in _sentences(PRONOUNS):
        yield {**_row("sentences", row, other, group, text), "pronoun": pronoun}


def _masked() -> Iterator[dict[str, str]]:
    """The pronoun masked; the verb agrees with the pronoun that is counted."""
    masked = {
        group: {**forms, **dict.fromkeys(_ROLES, studies.MASK)} for group, forms in PRONOUNS.items()
    }
    named = [pronoun for _, _, _, pronoun, _ in _sentences(PRONOUNS)]
    for (row, other, group, _, text), pronoun in zip(_sentences(masked), named, strict=True):
        yield {
            **_row("masked", row, other, group, text, lexicon=f"{NAME}/pronouns/{group}"),
            "pronoun": pronoun,
        }


def _choices() -> Iterator[dict[str, str]]:
    for row, other, group, pronoun, text in _sentences(PRONOUNS):
        question = _QUESTION.format(
            sentence=text, pronoun=pronoun, occupation=row["occupation"], participant=other
        )
        options = (
            studies.Candidate(f"the {row['occupation']}", 1.0),
            studies.Candidate(other, 0.0),
            studies.Candidate("unsure"),
        )
        yield {
            **_row("choices", row, other, group, question, candidates=options),
            "pronoun": pronoun,
        }


def _pronouns() -> studies.Lexicon:
    words = {forms[role]: group for group, forms in PRONOUNS.items() for role in _ROLES}
    return studies.Lexicon(f"{NAME}/pronouns", words=words)


def _women(column: str) -> dict[str, float]:
    return {
        row["occupation"]: float(row[column])
        for row in studies.read_table(FOLDER / "occupations.csv", _OCCUPATIONS)
    }


STUDY = studies.declared_study(
    NAME,
    covariates=(
        studies.Covariate(
            "percent women by BLS", "condition", _women("bls_percent_women"), of_gap=True
        ),
        studies.Covariate(
            "percent women by Bergsma and Lin",
            "condition",
            _women("bergsma_percent_women"),
            of_gap=True,
        ),
    ),
)


CORPUS = studies.declared_corpus(
    NAME,
    {"sentences": _whole, "masked": _masked, "choices": _choices},
    study=STUDY,
    lexicons={"pronouns": _pronouns},
)
