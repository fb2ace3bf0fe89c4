"""What of a run may leave the machine, made anew from what was scored and found: nothing is copied unseen."""

import hashlib
import io
import json
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from swapbias.errors import UsageError
from swapbias.findings import Finding, experiment_of, findings_table
from swapbias.hub.audit_cards import MACHINE
from swapbias.hub.cards import slug
from swapbias.measures import Estimate
from swapbias.models import Coverage
from swapbias.notes import OWN, PHENOTYPES, kind_of_folder
from swapbias.privacy import credentialed, left_out, own_data, private_strings, public_manifest, shaped
from swapbias.runs import Results, Run, as_public, prompts_asked, read_results, write_results
from swapbias.studies import PROMPT_COLUMNS, load_corpus, load_study

_PINS = ("sha256", "answers")  # what tells a model that has no revision from others of its name


def run_name(manifest: Mapping[str, Any]) -> str:
    """The models' names, and 8 hexadecimal digits of what was asked of them.

    Results, dates and versions do not count: auditing the same again gives the same name, other settings another.
    Neither does the revision of a model on the Hub, nor the version of a corpus: their later ones are shared in
    place of the earlier. What has no public name counts by its content: models from a folder or file, and notes of
    the user's own.
    """
    public = public_manifest(manifest)
    models = [str(one["model_id"]) for one in public.get("models", [])]
    digests = ("sha256", "training") if own_data(manifest) is not None else ()
    identity = {
        "models": models,
        "pins": sorted(_pins(manifest.get("models", []))),
        "corpora": [
            [str(one["corpus"]), str(one["config"]), *(str(one.get(name, "")) for name in digests)]
            for one in public["corpora"]
        ],
        "settings": {
            key: {name: one for name, one in value.items() if name not in MACHINE.get(key, ())}
            if isinstance(value, Mapping)
            else value
            for key, value in public["settings"].items()
        },
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return f"{slug('-'.join(models), 60)}-{digest[:8]}"


def _pins(value: Any) -> Iterator[str]:
    """Digests of models that no revision pins down, however nested (of features within a classifier)."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from _pins(one)
    elif isinstance(value, Mapping) and not value.get("revision"):
        for name, one in value.items():
            if name in _PINS and isinstance(one, str):
                yield one
            else:
                yield from _pins(one)


_TEXTS = ("trial", "looks", "model_id", "answer")  # what an audit writes beside the columns of its prompts
TOKENS = "top_tokens"  # a JSON list in a run, a list of tokens with their values in what is shared
_TOKENS = pa.list_(pa.struct([("token", pa.string()), ("value", pa.float64())]))
# What scorers give: the score, and the parts that it was made from.
_NUMBERS = re.compile(
    r"score|log_odds|log_odds_per_token|antonym_log_odds|positive_probability|predicted|explained_variance"
    r"|dimensions|frequency_known|without_pair_[0-9]+"
    r"|tokens|truncated|non_finite|(closed_list|matched|pruned|top|positive|negative|neutral|irrelevant|unrated)_mass"
    r"|(said|strict)_(correct|incorrect|unsure|other)|unanswered|refused|not_answered|outside|hidden|length"
    r"|judged(_first|_second)?"
)


def shared_items(run: Run, items: Mapping[str, pd.DataFrame]) -> dict[str, bytes]:
    """The scored prompts of each study as Parquet, by path within the run; the same rows give the same bytes.

    Args:
        run: holds the rows.
        items: the same rows with models by their public names.

    Raises:
        ValueError: a column of numbers or texts holds something else.
    """
    return {f"items/{study}.parquet": _shared_rows(run, study, rows) for study, rows in items.items()}


def unknown_columns(path: Path) -> list[str]:
    """The columns of a file of scored prompts that no audit writes, and that do not leave."""
    return [name for name in pq.read_schema(path).names if item_type(path.stem, name) is None]


def parquet(table: pa.Table) -> bytes:
    """A table as Parquet, without what its maker noted beside it; the same rows give the same bytes."""
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata().combine_chunks(), buffer)
    return buffer.getvalue()


def _shared_rows(run: Run, study: str, rows: pd.DataFrame) -> bytes:
    path = run.folder / "items" / f"{study}.parquet"
    table = pq.read_table(path)
    types = {name: item_type(study, name) for name in table.column_names}
    schema = pa.schema([(name, kind) for name, kind in types.items() if kind is not None])
    table = table.select(schema.names)
    names = pa.array(list(rows["model_id"]), pa.string())
    table = table.set_column(table.column_names.index("model_id"), "model_id", names)
    try:
        if TOKENS in schema.names:
            tokens = pa.array([_tokens(cell) for cell in rows[TOKENS]], _TOKENS)
            table = table.set_column(table.column_names.index(TOKENS), TOKENS, tokens)
        return parquet(table.cast(schema))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} holds numbers or texts of another kind than an audit writes. Audit again."
        ) from error


def _tokens(cell: str) -> list[dict[str, Any]]:
    """
    >>> _tokens('[["she", 0.4], ["he", 0.1]]')
    [{'token': 'she', 'value': 0.4}, {'token': 'he', 'value': 0.1}]
    """
    return [{"token": str(token), "value": float(value)} for token, value in json.loads(cell)]


def item_type(study: str, column: str) -> pa.DataType | None:
    """The type of a column of scored rows as they are shared; None of one that no audit writes."""
    if column == TOKENS:
        return _TOKENS
    if column in _prompt_columns(study) or column in _TEXTS:
        return pa.string()
    return pa.float64() if _NUMBERS.fullmatch(column) else None


@cache
def _prompt_columns(study: str) -> frozenset[str]:
    """The columns of the prompts that a study reads, its own and those made from a corpus of notes."""
    found = set(PROMPT_COLUMNS)
    for one in load_study(study).experiments:
        corpus = load_corpus(one.corpus or study)
        for name in (*one.configs, *one.alternatives, *one.placebo, *one.baseline):
            found.update(corpus.config(name).columns)
    return frozenset(found)


_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")
_UNNAMED = "own"  # the phenotype of own notes that name none


@dataclass(frozen=True, slots=True)
class Bundle:
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


def bundle_run(
    run: Run, *, findings_only: bool = False, name: str | None = None, phenotypes: Collection[str] = ()
) -> Bundle:
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
    if own := manifest.get("own_studies"):
        raise UsageError(
            f"{run.folder} was audited with your own {', '.join(own)}, and results repositories hold studies of the "
            "package. Publish it with swapbias study push, so that others can run it."
        )
    data = own_data(manifest)
    if data:
        _refuse_mimic(data)
    results = read_results(run)
    _refuse_credentialed_items(results)
    if data and not findings_only:
        raise UsageError(
            f"{run.folder} holds texts of your own ({Path(data).name}), which are private. Share findings, tables "
            "and aggregate figures alone with --findings-only."
        )
    if data:
        _refuse_names(results, phenotypes)
    if not findings_only:
        _refuse_changed(run, results)
    public = as_public(Results(results.manifest, results.found, {}, results.coverage) if findings_only else results)
    public = replace(
        public,
        manifest=shaped(public.manifest),
        coverage=public.coverage[[name for name in public.coverage if name in _COVERAGE]],
    )
    chosen = run_name(manifest) if name is None else name
    if not _NAME.fullmatch(chosen):
        raise UsageError(f"{chosen!r} is no name of a run, expected a-z, 0-9 and dashes, at most 80. Choose another.")
    made = {**_files(public, chosen), **({} if findings_only else shared_items(run, public.items))}
    return Bundle(
        chosen,
        {f"runs/{chosen}/{path}": made[path] for path in sorted(made)},
        public.found,
        dict(public.manifest),
        tuple(_never(run, manifest)),
        tuple(sorted(_withheld(run, made, results.manifest))),
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


def _refuse_credentialed_items(results: Results) -> None:
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
    named = {
        one.slice_value
        for one in results.found
        if one.slice_by != "all" and ((experiment := experiment_of(one)) is None or experiment.corpus)
    }
    named |= {str(one["experiment"]).partition(", ")[2] for one in results.manifest["skipped"]}
    unnamed = named - {"", _UNNAMED, *PHENOTYPES, *allowed}
    if unnamed:
        raise UsageError(
            f"{len(unnamed)} phenotype{'s' * (len(unnamed) > 1)} of your own notes would be named in what is shared, "
            "and such a name may tell of a patient. Allow each with --phenotype NAME, which may be repeated."
        )


def _refuse_changed(run: Run, results: Results) -> None:
    """Scored prompts leave as their corpora have them, whoever wrote the file; so do words of explained notes."""
    if not results.items:
        return
    try:
        prompts = prompts_asked(results.manifest)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"Nothing tells whether the scored prompts of {run.folder} are those of its corpora ({error}) Share "
            "findings alone with --findings-only."
        ) from error
    for study, rows in results.items.items():
        others = sum(
            _differs(row, prompts.get((study, row["experiment"], row["prompt_id"])))
            for row in rows[[name for name in PROMPT_COLUMNS if name in rows]].to_dict("records")
        )
        if others:
            raise UsageError(
                f"{run.folder / 'items'}: {others:,} scored prompts of {study} are not those of its corpus. Audit "
                "again, or share findings alone with --findings-only."
            )
    texts = {text for rows in results.items.values() for text in rows["text"]}
    known = {word for text in texts for word in re.findall(r"\w+", text)} if results.explained else set()
    for one in results.explained:
        if (
            not {part for words in one.words.values() for word, _ in words for part in re.findall(r"\w+", word)}
            <= known
        ):
            raise UsageError(
                f"{run.folder} explains words that its notes do not hold. Audit again, or share findings alone with "
                "--findings-only."
            )


def _differs(row: Mapping[str, Any], wanted: Mapping[str, str] | None) -> bool:
    return wanted is None or any(row[name] != wanted[name] for name in row if name in wanted and name != "experiment")


_COVERAGE = (*(one.name for one in fields(Coverage)), "model_id", "lexicon")


def _never(run: Run, manifest: Mapping[str, Any]) -> Iterator[str]:
    yield from private_strings(manifest)
    folder = run.folder.resolve()
    if len(folder.parts) > 2:  # /data might stand in any text
        yield str(folder)


def _withheld(run: Run, made: Mapping[str, Any], manifest: Mapping[str, Any]) -> Iterator[str]:
    """What is not shared: logs of answers, hidden and unknown files, unknown columns and entries of the manifest."""
    yield from (f"manifest.json, {place}" for place in dict.fromkeys(left_out(public_manifest(manifest))))
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


_PRINTED = ("published_value", "published_p_value", "published_effect_size", "published_recomputed")


def findings_parquet(found: list[Finding], run: str) -> bytes:
    """``findings.csv`` as Parquet with the run's name before it; every run's has the same columns and types."""
    table = findings_table(found)
    for name in _PRINTED:  # in the table texts with the decimals that a paper prints
        table[name] = pd.to_numeric(table[name])
    table.insert(0, "run", run)
    return parquet(pa.Table.from_pandas(table, schema=_schema(table), preserve_index=False))


def _schema(table: pd.DataFrame) -> pa.Schema:
    kinds: dict[Any, pa.DataType] = {float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
    types = {one.name: kinds.get(one.type, pa.string()) for one in (*fields(Finding), *fields(Estimate))}
    types |= dict.fromkeys(_PRINTED, pa.float64())
    return pa.schema([(str(name), types.get(str(name), pa.string())) for name in table])
