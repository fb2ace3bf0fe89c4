"""Corpora as folders that ``datasets.load_dataset`` reads, offline or from the Hub."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swapbias import credentialed
from swapbias.cards.dataset_card import NAMESPACE, dataset_card, local_card
from swapbias.declaring import Corpus
from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.studies import load_corpus, local_corpus
from swapbias.writing import Written, write_config

MARKER = ".swapbias-corpus"  # tells a folder that may be replaced from a user's own
LOCAL = "own"  # in the mark of a corpus that was made from a folder of the user's
OTHER_LICENCE = "other"  # of such a corpus


@dataclass(frozen=True, slots=True)
class Built:
    """One config: written with so many rows, or left out for a reason."""

    corpus: str
    config: str
    rows: int
    left_out: str = ""


def build(corpus_name: str, out: Path, *, data: Path | None = None) -> Iterator[Built]:
    """Write a corpus to ``out/<corpus>``: Parquet by config and split, and the card.

    A folder that is there is replaced as a whole, once the new one is complete. With ``data``, a folder of the
    user's, the corpus' configs are made from it; where its notes are credentialed the result says so.

    Raises:
        UsageError: unknown corpus, or a folder that no build made.
        ValueError: a broken table. OSError: ``out`` cannot be written.
    """
    yield from write_corpus(local_corpus(corpus_name, data) if data else load_corpus(corpus_name), out)


def write_corpus(
    corpus: Corpus, out: Path, *, namespace: str = NAMESPACE, withheld: Mapping[str, Sequence[str]] | None = None
) -> Iterator[Built]:
    """``build`` of a corpus at hand; ``namespace`` and ``withheld`` are what a published card tells.

    Raises:
        UsageError, ValueError, OSError: as ``build``.
    """
    target = out / corpus.name
    if target.exists() and not (target / MARKER).exists() and any(target.iterdir()):
        raise UsageError(f"{target} holds something else than a built corpus. Choose another --out.")
    out.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f".{corpus.name}.", dir=out))
    try:
        written: dict[str, Written] = {}
        for config in corpus.configs:
            try:
                made = write_config(making / config.name, corpus, config)
            except UpstreamMissingError as error:
                yield Built(corpus.name, config.name, 0, str(error))
                continue
            written[config.name] = made
            yield Built(corpus.name, config.name, made.rows)
        held = any(made.credentialed for made in written.values())
        if corpus.licence == OTHER_LICENCE:  # not ours to describe
            card = local_card(corpus, written, credentialed=held)
        else:
            card = dataset_card(corpus, written, namespace=namespace, withheld=withheld)
        (making / "README.md").write_text(card, encoding="utf-8")
        origin = f" {LOCAL}" if corpus.licence == OTHER_LICENCE else ""
        (making / MARKER).write_text(f"{corpus.name} {corpus.version}{origin}\n", encoding="utf-8")
        if held:
            credentialed.mark(making)
        making.chmod(0o755)
        put_in_place(making, target)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def put_in_place(made: Path, target: Path) -> None:
    """Swap a finished folder in: the old one is moved aside first, and goes only when the new one stands."""
    aside = target.with_name(f".{target.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    if target.exists():
        target.rename(aside)
    made.rename(target)
    shutil.rmtree(aside, ignore_errors=True)
