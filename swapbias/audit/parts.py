"""A run by experiment and model, as forms of others hold it, and the plain values that they are made of."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd

from swapbias.audit.results import Results
from swapbias.errors import UsageError
from swapbias.files import as_json
from swapbias.findings import Finding, comparisons, experiment_of
from swapbias.studies import load_corpus

Files = dict[str, bytes]  # path below the folder -> content


@dataclass(frozen=True, slots=True)
class Part:
    """One experiment of one model: what was found, and its scored rows (none where they stay)."""

    study: str
    experiment: str
    model_id: str
    found: Sequence[Finding]
    rows: pd.DataFrame

    @property
    def scored(self) -> pd.DataFrame:
        """The rows that have a score."""
        return self.rows[self.rows["score"].notna()] if len(self.rows) else self.rows


def parts_of(results: Results) -> Iterator[Part]:
    keys = dict.fromkeys((one.study, one.experiment, one.model_id) for one in results.found)
    for study, experiment, model in keys:
        rows = results.items.get(study, pd.DataFrame())
        if len(rows):
            rows = rows[(rows["experiment"] == experiment) & (rows["model_id"] == model)]
        mine = [
            one for one in results.found if (one.study, one.experiment, one.model_id) == (study, experiment, model)
        ]
        yield Part(study, experiment, model, comparisons(mine, rates=True, views=True), rows)


def json_text(content: Any, *, indent: int | None = None) -> str:
    return json.dumps(as_json(content), indent=indent, ensure_ascii=False, allow_nan=False)


def json_lines(records: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(f"{json_text(one)}\n" for one in records).encode()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def finished(manifest: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(str(manifest.get("finished") or manifest["started"]))


def of_model(manifest: Mapping[str, Any], model_id: str) -> Mapping[str, Any]:
    """What pins a model down, as the manifest lists it."""
    models = manifest.get("models", [])
    return next((one for one in models if one["model_id"] == model_id), {})


def corpora_of(manifest: Mapping[str, Any], part: Part) -> list[Mapping[str, Any]]:
    """What the manifest says of the prompts of an experiment."""
    declared = experiment_of(part.found[0]) if part.found else None
    corpus = (declared.corpus if declared else "") or part.study
    configs = {*declared.configs, *declared.alternatives} if declared else set()
    read = [one for one in manifest["corpora"] if one["corpus"] == corpus]
    return [one for one in read if not configs or set(str(one["config"]).split(", ")) <= configs] or read


def version_of(study: str) -> str:
    try:
        return load_corpus(study).version
    except UsageError:  # a study without a corpus of its own
        return ""


def texts(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """The cells that hold something, as texts."""
    cells = {name: as_json(row[name]) for name in names}
    return {name: str(cell) for name, cell in cells.items() if cell is not None and str(cell) != ""}


def answer_of(row: Mapping[str, Any]) -> str:
    return str(as_json(row["answer"]) or "") if "answer" in row else ""
