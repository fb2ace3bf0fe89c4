"""Rows of a dataset of the Hub, streamed at one commit; its own code is never run."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from swapbias.errors import UsageError, first_line, listed
from swapbias.hub_http import configure_http
from swapbias.swapping.row_formats import Batches

_HUB_ID = re.compile(
    r"(?P<dataset>[\w-][\w.-]*/[\w-][\w.-]*)"
    r"(?::(?P<config>[\w.-]+))?(?:@(?P<revision>[\w./-]+))?(?::(?P<last_config>[\w.-]+))?"
)
_CONFIGS = re.compile(r"available configs: \[(.*?)\]|Available: \[(.*?)\]")
_SPLITS = re.compile(r"(?:Should be one of|Available splits:) \[(.*?)\]")
_ERRORS = {
    "GatedRepoError": "is gated. Ask for access on its page, and log in.",
    "RevisionNotFoundError": "has no revision {revision!r}. Name a branch, a tag or a commit.",
}
"""What is wrong, by the name of an error of the Hub's libraries."""


@dataclass(frozen=True, slots=True)
class HubName:
    """A dataset of the Hub as it is named."""

    dataset: str
    """``owner/name``."""
    config: str | None
    """None: its only one."""
    revision: str | None
    """A branch, tag or commit; None: the newest."""


def read_hub_name(name: str) -> HubName | None:
    """Read ``owner/name``, ``owner/name@revision``, ``owner/name:config`` or both; None for anything else.

    >>> read_hub_name("owner/name@v1:config")
    HubName(dataset='owner/name', config='config', revision='v1')

    Args:
        name: the name.
    """
    parts = _HUB_ID.fullmatch(name)
    if parts is None:
        return None
    return HubName(parts["dataset"], parts["config"] or parts["last_config"], parts["revision"])


class HubRows:
    """A split of a dataset of the Hub."""

    def __init__(self, name: str, hub_name: HubName, split: str | None) -> None:
        """Find the split, and read its first row.

        Args:
            name: how the dataset is named, for errors.
            hub_name: the dataset.
            split: its split; None: the only one.

        Raises:
            UsageError: several configs or splits and none chosen. ValueError: the Hub does not give it.
        """
        self._name = f"{name} (split {split})" if split else name
        self._of = hub_name
        configure_http()
        with self._sentences():
            commit = self._commit(hub_name)
            stream = self._stream(name, hub_name, commit, split)
        with self._sentences(of_rows=True), closing(stream.iter(1)) as rows:
            first = next(rows, None)
        if first is None:
            raise ValueError(
                f"{name} (split {self.split}) contains no rows, expected some. Choose another --split."
            )
        self.schema: pa.Schema = _with_values(first.schema.remove_metadata())
        """Columns and types; a column without a value in the first rows is one of texts."""
        self.classes = _class_names(stream.features)
        """Names of the classes of each column of classes."""
        self.identity = {
            "dataset": hub_name.dataset,
            "config": hub_name.config,
            "split": self.split,
            "revision": commit,
        }
        """Dataset, config, split and commit."""
        self._rows = stream

    def read(self, rows: int) -> Batches:
        """Yield the rows in batches.

        Args:
            rows: most rows of a batch.

        Raises:
            ValueError: the Hub does not give further rows.
        """
        with self._sentences(of_rows=True):
            for table in self._rows.iter(rows):
                for batch in table.combine_chunks().to_batches():
                    yield batch, 0

    @staticmethod
    def _commit(hub_name: HubName) -> str | None:
        """Return the commit of the revision."""
        from huggingface_hub import HfApi

        return HfApi().dataset_info(hub_name.dataset, revision=hub_name.revision).sha

    def _stream(self, name: str, hub_name: HubName, commit: str | None, split: str | None) -> Any:
        """Return the rows of the split as they stream; UsageError: several splits."""
        from datasets import load_dataset

        def load(**features: Any) -> Any:
            return load_dataset(
                hub_name.dataset,
                hub_name.config,
                split=split,
                revision=commit,
                streaming=True,
                **features,
            )

        loaded = load()
        by_split = {split: loaded} if split else dict(loaded)
        if len(by_split) > 1:
            raise UsageError(f"{name} has the splits {listed(by_split)}. Choose one with --split.")
        self.split, stream = next(iter(by_split.items()))
        self.split = str(self.split)
        features = _filled_features(stream.features)
        if features is not None:
            loaded = load(features=features)
            stream = loaded if split else loaded[self.split]
        return stream.with_format("arrow")

    @contextmanager
    def _sentences(self, *, of_rows: bool = False) -> Iterator[None]:
        """Say in a sentence what the Hub's libraries refuse; an error ``of_rows`` may hold their text."""
        log = logging.getLogger("datasets")
        level = log.level
        log.setLevel(logging.CRITICAL)  # it says the same in many lines
        try:
            yield
        except UsageError:
            raise
        except Exception as error:
            if of_rows:
                raise self._sentence_of_rows(error) from None
            raise self._sentence(error) from error
        finally:
            log.setLevel(level)

    def _sentence_of_rows(self, error: Exception) -> ValueError:
        """Return the sentence of an error in rows."""
        if "Couldn't cast" in str(error):
            return ValueError(
                f"{self._name} has rows of other columns or types than its card or first rows say. "
                "Fetch it, and give one of its files."
            )
        return ValueError(
            f"{self._name} gave no further rows ({type(error).__name__}). Check the connection, or fetch it and give "
            "its files."
        )

    def _sentence(self, error: Exception) -> ValueError | UsageError:
        """Return the sentence of an error."""
        text = str(error)
        name, _, split = self._name.partition(" (split ")
        dataset = self._of.dataset
        if configs := _CONFIGS.search(text):
            names = re.findall(r"'([^']+)'", configs[1] or configs[2])
            lacks = (
                f"no config {self._of.config!r}, there are" if self._of.config else "the configs"
            )
            return UsageError(
                f"{dataset} has {lacks} {listed(names[:8])}. Choose one: {dataset}:{names[0]}."
            )
        if splits := _SPLITS.search(text):
            names = re.findall(r"'([^']+)'", splits[1])
            return UsageError(
                f"{name} has no split {split[:-1]!r}, there are {listed(names)}. Choose with --split."
            )
        if "scripts are no longer supported" in text:
            return UsageError(
                f"{dataset} is a program, which is never run. Try {dataset}@refs/convert/parquet, or fetch its files."
            )
        if type(error).__module__.startswith("yaml."):
            return ValueError(
                f"{dataset} has a README.md whose first lines are no YAML. Fetch it, and give one of its files."
            )
        if sentence := _ERRORS.get(type(error).__name__):
            return ValueError(f"{dataset} {sentence.format(revision=self._of.revision)}")
        return ValueError(
            f"{self._name} is neither a local file nor a dataset that the Hub gave ({first_line(error)}). Check the "
            "name, --split and the connection."
        )


def _filled_features(features: Any) -> Any:
    """Return features with texts for what has no value in the first rows; None where all have values."""
    from datasets import Features

    if features is None:
        return None
    schema = features.arrow_schema
    filled = _with_values(schema)
    if filled.equals(schema):
        return None
    new = Features.from_arrow_schema(filled.remove_metadata())
    return Features(
        {
            name: new[name] if filled.field(name) != schema.field(name) else feature
            for name, feature in features.items()
        }
    )


def _with_values(schema: pa.Schema) -> pa.Schema:
    """Return columns with texts in place of a type without values."""
    return pa.schema([pa.field(field.name, _with_text(field.type)) for field in schema])


def _with_text(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts in place of one without values."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _with_text(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_with_text(kind.value_type))
    return kind


def _class_names(features: Any) -> Mapping[str, tuple[str, ...]]:
    """Return the names of the classes of each column of classes."""
    return {
        name: tuple(feature.names)
        for name, feature in (features or {}).items()
        if type(feature).__name__ == "ClassLabel"
    }
