"""What of a run may leave the machine, made anew from what was scored and found: nothing is copied unseen."""

import hashlib
import io
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from swapbias import credentialed
from swapbias.cards.escaping import slug
from swapbias.errors import UsageError
from swapbias.findings import Finding, findings_table
from swapbias.notes.folder import OWN, kind_of_folder
from swapbias.public import private_strings, public_manifest
from swapbias.results import Results, as_public, read_results, write_results
from swapbias.runs import Run

LONGEST_VALUE = 60  # characters of a slice's value: what is longer may be a text
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")
_MACHINE = {  # settings that change how fast or how dear an audit is, not what it asks
    "load": ("device", "batch_size"),
    "chat": ("concurrency", "max_requests", "timeout"),
}
_WHOLE = ("n", "n_unscored")


@dataclass(frozen=True, slots=True)
class Parcel:
    """A run as it may be shared.

    Attributes:
        name: of the run: what was asked of which model; the same for a repeated audit.
        files: by path in the repository, ``runs/<name>/...``.
        found: every finding, models by their public names.
        manifest: as it is shared.
        never: strings that no outgoing file may hold.
        withheld: paths within the run that stay here.
    """

    name: str
    files: Mapping[str, bytes | Path]
    found: list[Finding]
    manifest: dict[str, Any]
    never: tuple[str, ...]
    withheld: tuple[str, ...]

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies whose scored prompts are in it."""
        start = f"runs/{self.name}/items/"
        return tuple(sorted(Path(path).stem for path in self.files if path.startswith(start)))


def pack(run: Run, *, findings_only: bool = False, name: str | None = None) -> Parcel:
    """A finished run as it may be shared; packing it twice gives the same bytes.

    Args:
        run: the run.
        findings_only: leave out scored prompts, answers, phrases and explained notes: whatever is about one text.
        name: names the run in the repository; by default what was asked tells it (``run_name``).

    Raises:
        UsageError: credentialed data, private texts without ``findings_only``, a run that is not complete, a name
            that cannot be one.
        ValueError: a file of the run is missing or broken.
    """
    credentialed.refuse(run.folder, "shared")
    manifest = run.manifest()
    data = _own_data(manifest)
    if data:
        _refuse_mimic(data)
    results = read_results(run)
    _refuse_held_items(results)
    if data and not findings_only:
        raise UsageError(
            f"{run.folder} holds texts of your own ({Path(data).name}), which are private. Share findings, tables "
            "and aggregate figures alone with --findings-only."
        )
    if data:
        _refuse_texts(results)
    public = as_public(_without_texts(results) if findings_only else results)
    chosen = run_name(manifest) if name is None else name
    if not _NAME.fullmatch(chosen):
        raise UsageError(f"{chosen!r} is no name of a run, expected a-z, 0-9 and dashes, at most 80. Choose another.")
    made = {**_files(public, chosen), **({} if findings_only else _items(run, results, public))}
    return Parcel(
        chosen,
        {f"runs/{chosen}/{path}": made[path] for path in sorted(made)},
        public.found,
        dict(public.manifest),
        tuple(_never(run, manifest)),
        tuple(_withheld(run, made)),
    )


def run_name(manifest: Mapping[str, Any]) -> str:
    """The models' names, and 8 hexadecimal digits of what was asked of them.

    Results, dates and versions do not count: auditing the same again gives the same name, other settings another.
    """
    public = public_manifest(manifest)
    models = [str(one["model_id"]) for one in public.get("models", [])]
    settings = {
        key: {name: one for name, one in value.items() if name not in _MACHINE.get(key, ())}
        if isinstance(value, Mapping)
        else value
        for key, value in public["settings"].items()
    }
    read = [[one["corpus"], one["config"]] for one in public["corpora"]]
    asked = json.dumps({"models": models, "corpora": read, "settings": settings}, sort_keys=True)
    return f"{slug('-'.join(models), 60)}-{hashlib.sha256(asked.encode()).hexdigest()[:8]}"


# --- what must stay --------------------------------------------------------------------------------------


def _own_data(manifest: Mapping[str, Any]) -> str | None:
    data = (manifest["settings"].get("notes") or {}).get("data")
    return str(data) if data else None


def _refuse_mimic(data: str) -> None:
    """Notes of MIMIC are credentialed, whatever the manifest says of them."""
    place = Path(data)
    if place.exists():
        credentialed.refuse(place, "shared")
    named = "mimic" in data.lower() or credentialed.is_mimic_name(data)
    if named or (place.exists() and kind_of_folder(place) != OWN):
        raise UsageError(
            f"{place.name} is or may be MIMIC, credentialed clinical data, which must not be shared. Keep the run on "
            "this machine."
        )


def _refuse_held_items(results: Results) -> None:
    for study, rows in results.items.items():
        if "credentialed" in rows and (rows["credentialed"].astype(str).str.lower() == "true").any():
            raise UsageError(
                f"The scored prompts of {study} are of credentialed clinical data, which must not be shared. Keep "
                "the run on this machine."
            )


def _refuse_texts(results: Results) -> None:
    """Values of the user's own columns that stand in findings and in the manifest must be names, not texts."""
    named = [value for one in results.found for value in (one.slice_value, one.subset, one.contrast)]
    named += [str(one["experiment"]).partition(", ")[2] for one in results.manifest["skipped"]]
    if any(len(value) > LONGEST_VALUE or len(value.splitlines()) > 1 for value in named):
        raise UsageError(
            f"A phenotype of your own has a name of more than {LONGEST_VALUE} characters or of several lines, which "
            "may be a text. Rename it in your file and audit again."
        )


def _without_texts(results: Results) -> Results:
    return Results(results.manifest, results.found, {}, results.coverage)


def _never(run: Run, manifest: Mapping[str, Any]) -> Iterator[str]:
    yield from private_strings(manifest)
    folder = run.folder.resolve()
    if len(folder.parts) > 2:  # /data might stand in any text
        yield str(folder)


def _withheld(run: Run, made: Mapping[str, Any]) -> Iterator[str]:
    """What is in the folder and is not shared: logs of answers, hidden and unknown files."""
    for path in sorted(run.folder.rglob("*")):
        within = path.relative_to(run.folder).as_posix()
        if (path.is_file() or path.is_symlink()) and within not in made:
            yield within


# --- what leaves -----------------------------------------------------------------------------------------


def _files(public: Results, name: str) -> dict[str, bytes]:
    """Everything but the scored prompts, by path within the run."""
    with tempfile.TemporaryDirectory(prefix="swapbias-") as folder:
        made = Run(Path(folder))
        made.write_manifest(public.manifest)
        write_results(made, public)
        made.write("findings.parquet", findings_parquet(public.found, name))
        written = [path for path in made.folder.rglob("*") if path.is_file()]
        return {path.relative_to(made.folder).as_posix(): path.read_bytes() for path in written}


def _items(run: Run, results: Results, public: Results) -> dict[str, bytes | Path]:
    """The scored prompts: the files as they are, made anew only where a model is called by another name."""
    found: dict[str, bytes | Path] = {}
    for study, rows in public.items.items():
        path = run.folder / "items" / f"{study}.parquet"
        renamed = set(rows["model_id"]) != set(results.items[study]["model_id"])
        found[f"items/{study}.parquet"] = _with_models(path, rows) if renamed else path
    return found


def _with_models(path: Path, rows: pd.DataFrame) -> bytes:
    table = pq.read_table(path)
    names = pa.array(list(rows["model_id"]), table.schema.field("model_id").type)
    table = table.set_column(table.schema.get_field_index("model_id"), table.schema.field("model_id"), names)
    return _parquet(table)


def findings_parquet(found: list[Finding], run: str) -> bytes:
    """``findings.csv`` as Parquet with the run's name before it; every run's has the same columns and types."""
    table = findings_table(found)
    table.insert(0, "run", run)
    return _parquet(
        pa.Table.from_pandas(table, schema=_schema(table), preserve_index=False).replace_schema_metadata()
    )


def _schema(table: pd.DataFrame) -> pa.Schema:
    numbers = ("value", "ci_low", "ci_high", "effect_size", "effect_size_z", "p_value", "p_adjusted")
    types = dict.fromkeys(numbers, pa.float64()) | dict.fromkeys(_WHOLE, pa.int64())
    return pa.schema([(str(name), types.get(str(name), pa.string())) for name in table])


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()
