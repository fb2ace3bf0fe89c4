"""Numbers to hold findings against: a paper's, as printed."""

from dataclasses import dataclass

from swapbias.sources import corpus_dir, read_table

PUBLISHED_COLUMNS = (
    "model", "experiment", "subset", "measure", "contrast", "slice_by", "slice_value",
    "value", "p_value", "effect_size", "source", "note", "recomputed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Published:
    """A number to hold a finding against: a paper's, or the planted one of a model made for calibration.

    Strings keep the decimals that were printed; blank where not printed. Where a paper's own release disagrees
    with what it prints, ``recomputed`` holds the released value and ``note`` the explanation.
    """

    value: str = ""
    p_value: str = ""
    effect_size: str = ""
    source: str = ""
    note: str = ""
    recomputed: str = ""


def published_rows(study: str) -> list[dict[str, str]]:
    """The paper's numbers, as printed (strings keep their decimals); empty where a study lists none."""
    table = corpus_dir(study) / "published.csv"
    blank_allowed = set(PUBLISHED_COLUMNS) - {"model", "experiment", "measure", "contrast", "source"}
    return read_table(table, PUBLISHED_COLUMNS, optional=blank_allowed) if table.exists() else []


def published_for(study: str, model_id: str) -> dict[tuple[str, ...], Published]:
    """The paper's numbers for a model, by ``Finding.key``; a model is known by its name or last path part."""
    merged: dict[tuple[str, ...], Published] = {}
    for row in published_rows(study):
        if row["model"].split("/")[-1].lower() != model_id.rstrip("/").split("/")[-1].lower():
            continue
        key = tuple(row[name] for name in ("experiment", "subset", "measure", "contrast", "slice_by", "slice_value"))
        before = merged.get(key, Published())
        merged[key] = Published(
            before.value or row["value"],
            before.p_value or row["p_value"],
            before.effect_size or row["effect_size"],
            "; ".join(dict.fromkeys(part for part in (before.source, row["source"]) if part)),
            before.note or row["note"],
            before.recomputed or row["recomputed"],
        )
    return merged
