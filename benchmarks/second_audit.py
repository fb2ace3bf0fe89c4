"""A second audit of the same model: scores come from files, and every byte of the items is the same."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from benchmarks.frame import Prepared, Scale, Side, Workload, scaled
from benchmarks.made_models import roberta, tokenizer

SECOND = "second audit"
FIRST = "audit that scores everything"
STUDIES = ("gendered_stigma:rq1", "social_distance")
ROWS = 1_000  # most of a config


def _prepare(scale: Scale) -> Prepared:
    from swapbias.runs import Settings
    from swapbias.runs.audit import start

    place = tempfile.TemporaryDirectory()
    model = Path(place.name) / "model"
    roberta("base").save_pretrained(model)
    tokenizer().save_pretrained(model)
    settings = Settings(model=str(model), studies=STUDIES, limit=scaled(ROWS, scale, least=20))

    def audit(*, cache: bool) -> dict[str, bytes]:
        with (
            mock.patch.dict(os.environ, {"SWAPBIAS_CACHE": str(Path(place.name) / "cache")}),
            tempfile.TemporaryDirectory() as folder,
        ):
            run, _ = start(
                settings,
                Path(folder) / "run",
                say=lambda _: None,
                bar=lambda *_: lambda _: None,
                cache=cache,
            )
            found = {path.name: path.read_bytes() for path in (run.folder / "items").iterdir()}
            return {**found, "rows": str(run.manifest().get("from_cache", 0)).encode()}

    audit(cache=True)  # fills the cache; what is timed is a second one
    return Prepared(
        ours=(Side(SECOND, lambda: audit(cache=True)),),
        peers=(Side(FIRST, lambda: audit(cache=False)),),
        check=_compare,
        size=f"{' and '.join(STUDIES)}, at most {settings.limit:,} rows a config",
    )


def _compare(outputs: Mapping[str, Mapping[str, bytes]]) -> str:
    second, first = outputs[SECOND], outputs[FIRST]
    if (int(second["rows"]), int(first["rows"])) == (0, 0):
        raise ValueError("no row came from a file, expected all. Is SWAPBIAS_CACHE_LIMIT 0?")
    different = [name for name in first if name != "rows" and first[name] != second.get(name)]
    if different:
        raise ValueError(f"{different[0]} differs between the two audits, expected the same bytes.")
    return f"the same bytes of items; {int(second['rows']):,} rows came from files."


WORKLOAD = Workload("second_audit", "A second audit of a model", {(SECOND, FIRST): 3.0}, _prepare)
