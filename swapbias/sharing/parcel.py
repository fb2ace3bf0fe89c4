"""What of a run may leave the machine, made anew from what was scored and found: nothing is copied unseen."""

import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from swapbias import credentialed
from swapbias.errors import UsageError
from swapbias.fairness import experiment_of
from swapbias.findings import Finding, findings_table
from swapbias.notes.folder import OWN, kind_of_folder
from swapbias.notes.rows import PHENOTYPES
from swapbias.public import own_data, private_strings
from swapbias.results import Results, as_public, read_results, write_results
from swapbias.runs import Run
from swapbias.sharing.naming import run_name
from swapbias.sharing.scored_prompts import parquet, shared_items, unknown_columns

__all__ = ["Parcel", "findings_parquet", "pack", "run_name"]

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")
_WHOLE = ("n", "n_unscored")
_UNNAMED = "own"  # the phenotype of own notes that name none


@dataclass(frozen=True, slots=True)
class Parcel:
    """A run as it may be shared.

    Attributes:
        name: of the run: what was asked of which model; the same for a repeated audit.
        files: by path in the repository, ``runs/<name>/...``.
        found: every finding, models by their public names.
        manifest: as it is shared.
        never: strings that no outgoing file may hold.
        withheld: paths within the run that stay here, and columns of files that leave without them.
    """

    name: str
    files: Mapping[str, bytes]
    found: list[Finding]
    manifest: dict[str, Any]
    never: tuple[str, ...]
    withheld: tuple[str, ...]

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies whose scored prompts are in it."""
        start = f"runs/{self.name}/items/"
        return tuple(sorted(Path(path).stem for path in self.files if path.startswith(start)))


def pack(
    run: Run, *, findings_only: bool = False, name: str | None = None, phenotypes: Collection[str] = ()
) -> Parcel:
    """A finished run as it may be shared; packing it twice gives the same bytes.

    Args:
        run: the run.
        findings_only: leave out scored prompts, answers, phrases and explained notes: whatever is about one text.
        name: names the run in the repository; by default what was asked tells it (``run_name``).
        phenotypes: of the user's own notes, those whose names may leave.

    Raises:
        UsageError: credentialed data, private texts without ``findings_only``, phenotypes of the user's own that are
            not among ``phenotypes``, a run that is not complete, a name that cannot be one.
        ValueError: a file of the run is missing or broken.
    """
    credentialed.refuse(run.folder, "shared")
    manifest = run.manifest()
    data = own_data(manifest)
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
        _refuse_names(results, phenotypes)
    public = as_public(_without_texts(results) if findings_only else results)
    chosen = run_name(manifest) if name is None else name
    if not _NAME.fullmatch(chosen):
        raise UsageError(f"{chosen!r} is no name of a run, expected a-z, 0-9 and dashes, at most 80. Choose another.")
    made = {**_files(public, chosen), **({} if findings_only else shared_items(run, public.items))}
    return Parcel(
        chosen,
        {f"runs/{chosen}/{path}": made[path] for path in sorted(made)},
        public.found,
        dict(public.manifest),
        tuple(_never(run, manifest)),
        tuple(sorted(_withheld(run, made))),
    )


# --- what must stay --------------------------------------------------------------------------------------


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


def _refuse_names(results: Results, allowed: Collection[str]) -> None:
    """Phenotypes of the user's own leave only where the user named them: a cell of that column may hold anything."""
    if any(not (name.isprintable() and name) for name in allowed):
        raise UsageError(
            "A name given with --phenotype is blank or holds line breaks or what cannot be seen. Rename it in your "
            "file and audit again."
        )
    held = {one.slice_value for one in results.found if _reads_notes(one) and one.slice_by != "all"}
    held |= {str(one["experiment"]).partition(", ")[2] for one in results.manifest["skipped"]}
    unnamed = held - {"", _UNNAMED, *PHENOTYPES, *allowed}
    if unnamed:
        raise UsageError(
            f"{len(unnamed)} phenotype{'s' * (len(unnamed) > 1)} of your own notes would be named in what is shared, "
            "and such a name may tell of a patient. Allow each with --phenotype NAME, which may be repeated."
        )


def _reads_notes(finding: Finding) -> bool:
    experiment = experiment_of(finding)
    return experiment is None or bool(experiment.corpus)


def _without_texts(results: Results) -> Results:
    return Results(results.manifest, results.found, {}, results.coverage)


def _never(run: Run, manifest: Mapping[str, Any]) -> Iterator[str]:
    yield from private_strings(manifest)
    folder = run.folder.resolve()
    if len(folder.parts) > 2:  # /data might stand in any text
        yield str(folder)


def _withheld(run: Run, made: Mapping[str, Any]) -> Iterator[str]:
    """What is in the folder and is not shared: logs of answers, hidden and unknown files, unknown columns."""
    for path in run.folder.rglob("*"):
        within = path.relative_to(run.folder).as_posix()
        if (path.is_file() or path.is_symlink()) and within not in made:
            yield within
        elif within.startswith("items/") and within in made:
            yield from (f"{within}, column {name!r}" for name in unknown_columns(path))


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


def findings_parquet(found: list[Finding], run: str) -> bytes:
    """``findings.csv`` as Parquet with the run's name before it; every run's has the same columns and types."""
    table = findings_table(found)
    table.insert(0, "run", run)
    return parquet(pa.Table.from_pandas(table, schema=_schema(table), preserve_index=False))


def _schema(table: pd.DataFrame) -> pa.Schema:
    numbers = ("value", "ci_low", "ci_high", "effect_size", "effect_size_z", "p_value", "p_adjusted")
    types = dict.fromkeys(numbers, pa.float64()) | dict.fromkeys(_WHOLE, pa.int64())
    return pa.schema([(str(name), types.get(str(name), pa.string())) for name in table])
