"""What of a run may leave this machine, packed as the files of its folder on the Hub."""

import hashlib
import io
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
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
from swapbias.runs import (
    Results,
    Run,
    command as run_command,
    plan as run_plan,
    results as run_results,
    run as stored_run,
)

_PRINTED = ("published_value", "published_p_value", "published_effect_size", "published_recomputed")

# --- tables as they are shared ----------------------------------------------------------------------------


def shared_items(run: Run, items: Mapping[str, pd.DataFrame]) -> dict[str, bytes]:
    """Write the scored prompts of each study as Parquet.

    Args:
        run: the run whose files are read.
        items: the scored rows, with the models' public names, by study.

    Returns:
        Parquet by path within the run.
    """
    files = {}
    for study, rows in items.items():
        path = f"items/{study}.parquet"
        table = pq.read_table(run.folder / path)
        names = pa.array(rows["model_id"], pa.string())
        column = table.column_names.index("model_id")
        files[path] = parquet(table.set_column(column, "model_id", names))
    return files


def parquet(table: pa.Table) -> bytes:
    """Write a table as Parquet, without what its maker noted beside it; the same rows give the same bytes.

    Args:
        table: the table.

    Returns:
        Parquet.
    """
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata().combine_chunks(), buffer)
    return buffer.getvalue()


def findings_parquet(findings: Sequence[Finding], run: str) -> bytes:
    """Write ``findings.csv`` as Parquet with the run's name before it; every run's has the same columns and types.

    Args:
        findings: the findings of the run.
        run: its name.

    Returns:
        Parquet.
    """
    table = findings_table(findings)
    for name in _PRINTED:  # in the table texts with the decimals that a paper prints
        table[name] = pd.to_numeric(table[name])
    table.insert(0, "run", run)
    kinds: dict[Any, pa.DataType] = {float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
    types = {
        field.name: kinds.get(field.type, pa.string())
        for field in (*fields(Finding), *fields(Estimate))
    }
    types |= dict.fromkeys(_PRINTED, pa.float64())
    schema = pa.schema([(str(name), types.get(str(name), pa.string())) for name in table])
    return parquet(pa.Table.from_pandas(table, schema=schema, preserve_index=False))


# --- what of a run may leave ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bundle:
    """A run as it may be shared."""

    name: str
    """The run's name on the Hub."""
    files: Mapping[str, bytes]
    """By path in the repository."""
    findings: list[Finding]
    """With models' public names."""
    manifest: dict[str, Any]
    """The public manifest."""
    never: tuple[str, ...]
    """Strings that no outgoing file may hold."""
    withheld: tuple[str, ...]
    """Paths within the run that stay here."""
    rows: int
    """Number of rows of its tables."""
    installed: bool
    """The scored prompts are those of the installed corpora."""
    card_manifest: Mapping[str, Any]
    """The public manifest with the address of a public service, for the sentences of cards."""

    @property
    def folder(self) -> str:
        """The folder of the run in the repository."""
        return f"runs/{self.name}"


def run_name(manifest: Mapping[str, Any]) -> str:
    """Name a run by the models, and 8 hexadecimal digits of what is audited: models, corpora and settings.

    Results, dates, versions, the revision of a model on the Hub and the version of a corpus do not count.

    Args:
        manifest: the manifest of the run.

    Returns:
        the name, of ``a-z``, ``0-9`` and dashes.
    """
    public = privacy.public_manifest(manifest)
    models = [str(pin["model_id"]) for pin in public.get("models", [])]
    settings = run_command.without_speed(public["settings"])
    corpora = [
        [str(entry.get("corpus", "")), str(entry.get("config", ""))] for entry in public["corpora"]
    ]
    identity = [models, sorted(_digests(manifest.get("models", []))), corpora, settings]
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return f"{cards.slug('-'.join(models))}-{digest[:8]}"


def _digests(value: Any) -> Iterator[str]:
    """Yield the digests of models that no revision pins down, however nested (of features within a classifier)."""
    children = value
    if isinstance(value, Mapping):
        if value.get("revision"):
            return
        for name in ("sha256", "answers"):
            if isinstance(value.get(name), str):
                yield str(value[name])
        children = list(value.values())
    if isinstance(children, list | tuple):
        for child in children:
            yield from _digests(child)


def bundle_run(run: Run, *, findings_only: bool = False) -> Bundle:
    """Pack a finished run as it may be shared; packing it twice gives the same bytes.

    Args:
        run: the run.
        findings_only: whether its scored prompts stay here.

    Returns:
        the files, and what is known of them.

    Raises:
        UsageError: credentialed data, notes or studies of the user's own, a run that is not complete.
        ValueError: a file that is not of the sha256 that its audit recorded.
    """
    refuse(run.folder, "shared")
    manifest = run.manifest()
    results = _read_shareable(run, manifest)
    is_installed = reads_installed(manifest)
    if not (is_installed or findings_only):
        raise UsageError(
            f"The scored prompts of {run.folder} are not those of the installed corpora. Audit again, or share "
            "findings alone with --findings-only."
        )
    if findings_only:
        results = replace(results, items={})
    public = run_results.as_public(results)
    card_manifest = _with_address(public.manifest, manifest)
    name = run_name(manifest)
    files = _result_files(public, card_manifest, name)
    files |= shared_items(run, public.items)
    return Bundle(
        name=name,
        files={f"runs/{name}/{path}": files[path] for path in sorted(files)},
        findings=public.found,
        manifest=dict(public.manifest),
        never=_never_strings(run, manifest),
        withheld=_withheld(run, files),
        rows=len(public.found) + sum(len(rows) for rows in public.items.values()),
        installed=is_installed,
        card_manifest=card_manifest,
    )


def reads_installed(manifest: Mapping[str, Any]) -> bool:
    """Tell whether the prompts of a run are those of the installed corpora.

    Args:
        manifest: the manifest of the run; False for settings of another version, or a corpus that is missing.
    """
    with suppress(ValueError, KeyError, TypeError):
        return run_plan.reads_installed(manifest)
    return False


def _read_shareable(run: Run, manifest: Mapping[str, Any]) -> Results:
    """Read a run that holds nothing that may not leave; else UsageError."""
    if manifest.get(stored_run.RELEASED):
        raise UsageError(
            f"{run.folder} is of outputs that others released, and results repositories contain audits. "
            "Share an audit of the model."
        )
    if own_studies := manifest.get("own_studies"):
        raise UsageError(
            f"{run.folder} was audited with your own {listed(own_studies)}, and results repositories contain "
            "studies of the package. Publish it with swapbias study push, so that others can run it."
        )
    if data := own_data(manifest):
        is_mimic = "mimic" in data.lower() or credentialed.is_mimic_name(data)
        refuse(Path(data), "shared", is_known=is_mimic)
        raise UsageError(
            f"{run.folder} is of notes of your own, and findings of notes may tell of patients. Give its "
            "report to those who may read it."
        )
    results = runs.read_run(run.folder)
    if stored_run.SHA256 not in manifest:
        raise ValueError(
            f"{run.folder} records no sha256 of its files. Share the folder that the audit wrote."
        )
    for study, rows in results.items.items():
        if "credentialed" not in rows:
            continue
        if (rows["credentialed"].astype(str).str.lower() == "true").any():
            refuse(run.folder / "items" / study, "shared", is_known=True)
    return results


def _result_files(public: Results, card_manifest: Mapping[str, Any], name: str) -> dict[str, bytes]:
    """Write the manifest, tables, figures and report of public results, by path within the run."""
    with tempfile.TemporaryDirectory(prefix="swapbias-") as folder:
        run = Run(Path(folder))
        run.write_manifest(public.manifest)
        run_results.write_results(run, public, command=run_command.repeat_command(card_manifest))
        run.write("findings.parquet", findings_parquet(public.found, name))
        paths = sorted(path for path in run.folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _never_strings(run: Run, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """List the strings that no outgoing file may hold."""
    strings = [*privacy.private_strings(manifest)]
    folder = run.folder.resolve()
    if len(folder.parts) > 2:  # /data stands in any text
        strings.append(str(folder))
    return tuple(strings)


def _withheld(run: Run, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """List the paths within a run that are not among the files that leave."""
    paths = [path for path in run.folder.rglob("*") if path.is_file() or path.is_symlink()]
    names = {path.relative_to(run.folder).as_posix() for path in paths}
    return tuple(sorted(names - set(files)))


def _with_address(public: Mapping[str, Any], manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a public manifest the whole address of a service, where all of its users have the same."""
    settings = public["settings"]
    chat = settings.get("chat") or {}
    address = (manifest["settings"].get("chat") or {}).get("base_url")
    if not address or "base_url" not in chat:
        return public
    whole = {**chat, "base_url": privacy.public_address(address)}
    return {**public, "settings": {**settings, "chat": whole}}
