"""What of a run may leave this machine, packed as the files of its folder on the Hub."""

import hashlib
import io
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from swapbias import privacy, runs
from swapbias.errors import UsageError, listed
from swapbias.findings import Finding, findings_table
from swapbias.hub import cards
from swapbias.measures import Estimate
from swapbias.privacy import credentialed, own_data, refuse
from swapbias.runs import Run

_PRINTED = ("published_value", "published_p_value", "published_effect_size", "published_recomputed")


def shared_items(run: Run, items: Mapping[str, pd.DataFrame]) -> dict[str, bytes]:
    """The scored prompts of each study as Parquet, by path; ``items`` have the models' public names."""
    made = {}
    for path, rows in ((f"items/{study}.parquet", rows) for study, rows in items.items()):
        table = pq.read_table(run.folder / path)
        names = pa.array(rows["model_id"], pa.string())
        made[path] = parquet(
            table.set_column(table.column_names.index("model_id"), "model_id", names)
        )
    return made


def parquet(table: pa.Table) -> bytes:
    """A table as Parquet, without what its maker noted beside it; the same rows give the same bytes."""
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata().combine_chunks(), buffer)
    return buffer.getvalue()


def findings_parquet(found: list[Finding], run: str) -> bytes:
    """``findings.csv`` as Parquet with the run's name before it; every run's has the same columns and types."""
    table = findings_table(found)
    for name in _PRINTED:  # in the table texts with the decimals that a paper prints
        table[name] = pd.to_numeric(table[name])
    table.insert(0, "run", run)
    kinds: dict[Any, pa.DataType] = {float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
    types = {
        one.name: kinds.get(one.type, pa.string()) for one in (*fields(Finding), *fields(Estimate))
    }
    types |= dict.fromkeys(_PRINTED, pa.float64())
    schema = pa.schema([(str(name), types.get(str(name), pa.string())) for name in table])
    return parquet(pa.Table.from_pandas(table, schema=schema, preserve_index=False))


@dataclass(frozen=True, slots=True)
class Bundle:
    """A run as it may be shared."""

    name: str
    files: Mapping[str, bytes]
    """By path in the repository."""
    found: list[Finding]
    """With models' public names."""
    manifest: dict[str, Any]
    never: tuple[str, ...]
    """Strings that no outgoing file may hold."""
    withheld: tuple[str, ...]
    """Paths within the run that stay here."""
    rows: int
    """Of its tables."""
    installed: bool
    """The scored prompts are those of the installed corpora."""
    read: Mapping[str, Any]
    """The manifest for the sentences of cards: it has the address of a public service."""

    @property
    def folder(self) -> str:
        """Where the run lies in the repository."""
        return f"runs/{self.name}"


def run_name(manifest: Mapping[str, Any]) -> str:
    """The models' names, and 8 hexadecimal digits of what is audited: models, corpora and settings.

    Results, dates, versions, the revision of a model on the Hub and the version of a corpus do not count.
    """
    public = privacy.public_manifest(manifest)
    models = [str(one["model_id"]) for one in public.get("models", [])]
    settings = runs.without_speed(public["settings"])
    corpora = [
        [str(one.get(name, "")) for name in ("corpus", "config")] for one in public["corpora"]
    ]
    identity = [models, sorted(_pins(manifest.get("models", []))), corpora, settings]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return f"{cards.slug('-'.join(models))}-{digest[:8]}"


def _pins(value: Any) -> Iterator[str]:
    """Digests of models that no revision pins down, however nested (of features within a classifier)."""
    if isinstance(value, Mapping) and not value.get("revision"):
        yield from (
            str(value[name]) for name in ("sha256", "answers") if isinstance(value.get(name), str)
        )
        value = list(value.values())
    for one in value if isinstance(value, list | tuple) else ():
        yield from _pins(one)


def bundle_run(run: Run, *, findings_only: bool = False) -> Bundle:
    """A finished run as it may be shared; packing it twice gives the same bytes.

    UsageError: credentialed data, notes or studies of the user's own, a run that is not complete. ValueError: a file
    that is not of the sha256 that its audit recorded.
    """
    refuse(run.folder, "shared")
    manifest = run.manifest()
    if own := manifest.get("own_studies"):
        raise UsageError(
            f"{run.folder} was audited with your own {listed(own)}, and results repositories hold studies of the "
            "package. Publish it with swapbias study push, so that others can run it."
        )
    if data := own_data(manifest):
        refuse(
            Path(data),
            "shared",
            is_known="mimic" in data.lower() or credentialed.is_mimic_name(data),
        )
        raise UsageError(
            f"{run.folder} is of notes of your own, and findings of notes may tell of patients. Give its "
            "report to those who may read it."
        )
    results = runs.read_run(run.folder)
    if runs.SHA256 not in manifest:
        raise ValueError(
            f"{run.folder} records no sha256 of its files. Share the folder that the audit wrote."
        )
    for study, rows in results.items.items():
        if (
            "credentialed" in rows
            and (rows["credentialed"].astype(str).str.lower() == "true").any()
        ):
            refuse(run.folder / "items" / study, "shared", is_known=True)
    installed = False
    with suppress(
        ValueError, KeyError, TypeError
    ):  # settings of another version, or a corpus that is not at hand
        installed = runs.reads_installed(manifest)
    if not (installed or findings_only):
        raise UsageError(
            f"The scored prompts of {run.folder} are not those of the installed corpora. Audit again, or share "
            "findings alone with --findings-only."
        )
    if findings_only:
        results = replace(results, items={})
    public = runs.as_public(results)
    read = _with_address(public.manifest, manifest)
    name = run_name(manifest)
    with tempfile.TemporaryDirectory(prefix="swapbias-") as folder:
        made = Run(Path(folder))
        made.write_manifest(public.manifest)
        runs.write_results(made, public, command=runs.repeat_command(read))
        made.write("findings.parquet", findings_parquet(public.found, name))
        places = sorted(path for path in made.folder.rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in places}
    files |= shared_items(run, public.items)
    place = run.folder.resolve()
    never = [str(place)] if len(place.parts) > 2 else []  # /data stands in any text
    there = (path for path in run.folder.rglob("*") if path.is_file() or path.is_symlink())
    return Bundle(
        name,
        {f"runs/{name}/{path}": files[path] for path in sorted(files)},
        public.found,
        dict(public.manifest),
        (*privacy.private_strings(manifest), *never),
        tuple(sorted({path.relative_to(run.folder).as_posix() for path in there} - set(files))),
        len(public.found) + sum(map(len, public.items.values())),
        installed=installed,
        read=read,
    )


def _with_address(public: Mapping[str, Any], manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """A public manifest with the whole address of a service, where all of its users have the same."""
    settings = public["settings"]
    chat = settings.get("chat") or {}
    address = (manifest["settings"].get("chat") or {}).get("base_url")
    if not address or "base_url" not in chat:
        return public
    whole = {**chat, "base_url": privacy.public_address(address)}
    return {**public, "settings": {**settings, "chat": whole}}
