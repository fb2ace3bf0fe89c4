"""A corpus as a dataset repository: what of it is published, and the push."""

import tempfile
from dataclasses import replace
from pathlib import Path

from swapbias import building, credentialed
from swapbias.cards.provenance import withheld_configs
from swapbias.declaring import Corpus
from swapbias.errors import UpstreamMissingError, UsageError
from swapbias.hub import Hub, Repo
from swapbias.publishing.pushing import Pushed, Say, push_repo
from swapbias.studies import load_corpus


def push_dataset(
    hub: Hub, corpus_name: str, *, namespace: str, private: bool = False, dry_run: bool = False, say: Say
) -> Pushed:
    """Build a corpus and publish it as the dataset ``namespace/corpus_name``, tagged with its version.

    Only corpora of the package are published, never what was made from a folder of one's own. Configs whose upstream
    files do not allow it are left out, and the card says how to build them.

    Raises:
        UpstreamMissingError: a config that is published needs a file that is not at hand.
        UsageError, HubError: as ``push_repo``. ValueError: a broken table.
    """
    corpus = load_corpus(corpus_name)
    repo = Repo("dataset", f"{namespace}/{corpus.name}")
    with tempfile.TemporaryDirectory(prefix="swapbias-push-") as scratch:
        files = dataset_files(corpus, Path(scratch), namespace=namespace, say=say)
        return push_repo(
            hub,
            repo,
            files,
            tag=f"v{corpus.version}",
            message=f"{corpus.name} {corpus.version}",
            private=private,
            raise_hint=f"give CORPUS version=... (now {corpus.version}) in builders/{corpus.name}.py",
            dry_run=dry_run,
            say=say,
        )


def dataset_files(corpus: Corpus, out: Path, *, namespace: str, say: Say) -> dict[str, bytes | Path]:
    """The files of a published dataset by path, built below ``out``.

    Raises:
        UpstreamMissingError, UsageError, ValueError: as ``push_dataset``.
    """
    withheld = withheld_configs(corpus)
    for name, licences in withheld.items():
        say(f"{corpus.name} {name}: not published, its upstream files have the licence: {', '.join(licences)}")
    kept = replace(corpus, configs=tuple(one for one in corpus.configs if one.name not in withheld))
    for built in building.write_corpus(kept, out, namespace=namespace, withheld=withheld):
        if built.left_out:
            raise UpstreamMissingError(
                f"{corpus.name} is not pushed, for it would go without its config {built.config}: {built.left_out}"
            )
        say(f"{corpus.name} {built.config}: {built.rows} rows")
    return packed(out / corpus.name)


def packed(folder: Path) -> dict[str, bytes | Path]:
    """The files of a built corpus by path, without the mark of the build.

    Raises:
        UsageError: it holds credentialed text, or comes from a folder of the user's own.
    """
    credentialed.refuse(folder, "published")
    if not (folder / building.MARKER).exists():
        raise UsageError(f"{folder} is no built corpus. Give one that swapbias build made.")
    if (folder / building.MARKER).read_text(encoding="utf-8").strip().endswith(building.LOCAL):
        raise UsageError(f"{folder} was made from a folder of one's own, which is not published. Keep it here.")
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != building.MARKER)
    return {path.relative_to(folder).as_posix(): path for path in paths}
