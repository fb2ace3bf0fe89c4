"""Names of a paper's models: how the paper calls them, and under which names an audit meets them."""

from dataclasses import dataclass

from swapbias.studies.corpus_folders import corpus_dir
from swapbias.studies.published import KEY, QUANTITIES, Published, published_rows
from swapbias.studies.tables import read_table

MODELS_FILE = "published_models.csv"
_SEPARATOR = ";"


@dataclass(frozen=True, slots=True)
class PaperModel:
    """A model of a paper."""

    model: str
    """The name in ``published.csv``."""
    title: str
    """What the paper calls it."""
    aliases: tuple[str, ...] = ()
    """Further names under which an audit meets it."""

    @property
    def names(self) -> set[str]:
        """Every name of it, whole and by the last part of a path, in small letters."""
        names = (self.model, self.title, *self.aliases)
        return {form for name in names for form in _forms(name)}


def list_models(study: str) -> list[PaperModel]:
    """List the models that a study's paper prints numbers of, in the order of ``published_models.csv``.

    Args:
        study: its name.
    """
    path = corpus_dir(study) / MODELS_FILE
    models = []
    if path.exists():
        for row in read_table(path, ("model", "title", "aliases"), optional={"aliases"}):
            parts = (part.strip() for part in row["aliases"].split(_SEPARATOR))
            aliases = tuple(part for part in parts if part)
            models.append(PaperModel(row["model"], row["title"], aliases))
    listed = {model.model for model in models}
    for name in dict.fromkeys(row["model"] for row in published_rows(study)):
        if name not in listed:
            models.append(PaperModel(name, name.rstrip("/").rsplit("/", 1)[-1]))
    return models


def find_model(study: str, model_id: str) -> PaperModel | None:
    """Find the paper's model that a model of a run is; None where it is none of them.

    The whole name decides: ``lab/roberta-large`` may be anything that ``lab`` trained.

    Args:
        study: the name of the study.
        model_id: the model's name in the run; with an adapter (``a + b``) it is no paper's.
    """
    name = _forms(model_id)[0]
    return next((model for model in list_models(study) if name in model.names), None)


def published_for(study: str, model_id: str) -> dict[tuple[str, ...], Published]:
    """Read the paper's numbers for a model.

    Args:
        study: its name.
        model_id: the model's name in a run.

    Returns:
        The numbers by ``Finding.key``.
    """
    model = find_model(study, model_id)
    if model is None:
        return {}
    by_key: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in published_rows(study):
        if row["model"] == model.model:
            by_key.setdefault(tuple(row[column] for column in KEY), []).append(row)
    return {key: _merged(rows) for key, rows in by_key.items()}


def _merged(rows: list[dict[str, str]]) -> Published:
    """Return the numbers that rows of one key print; of a quantity printed twice the first."""
    values: dict[str, str] = {}
    for row in rows:
        for quantity in QUANTITIES:
            if row[quantity] and quantity not in values:
                values[quantity] = row[quantity]
                values[f"{quantity}_origin"] = row["origin"]
    return Published(
        **values,
        source="; ".join(dict.fromkeys(row["source"] for row in rows)),
        note="; ".join(dict.fromkeys(row["note"] for row in rows if row["note"])),
        recomputed=next((row["recomputed"] for row in rows if row["recomputed"]), ""),
    )


def _forms(name: str) -> list[str]:
    """List a name in small letters, whole and by the last part of its path."""
    whole = name.strip().rstrip("/").casefold()
    return [whole, whole.rsplit("/", 1)[-1]]
