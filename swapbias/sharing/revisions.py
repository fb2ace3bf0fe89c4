"""Which commit of a corpus on the Hub holds the rows that a run read; none where they are other rows."""

from collections.abc import Iterator, Mapping
from typing import Any

from swapbias.chatting import asked_rows
from swapbias.declaring import Experiment
from swapbias.errors import UpstreamMissingError
from swapbias.hub import Hub, Repo
from swapbias.phenotyping import NoteSettings, load_notes
from swapbias.planning import CHAT
from swapbias.sources import fingerprint
from swapbias.studies import config_rows, corpora, load_corpus, load_study, studies

Entry = Mapping[str, Any]


def revisions(hub: Hub, manifest: Mapping[str, Any], namespace: str) -> dict[str, str]:
    """Commits of the corpora on the Hub at the installed version, by corpus.

    A corpus has one only where the run read the very rows that are installed, and they are on the Hub under the tag
    of their version: a part of them, rows of another version or notes of the user's own have none.
    """
    found = {}
    read = manifest["corpora"]
    for corpus in sorted({str(one["corpus"]) for one in read} & set(corpora())):
        entries = [one for one in read if one["corpus"] == corpus]
        if not all(_is_installed(one, manifest["settings"]) for one in entries):
            continue
        state = hub.state(Repo("dataset", f"{namespace}/{corpus}"))
        tag = f"v{load_corpus(corpus).version}"
        if state and tag in state.tags:
            found[corpus] = state.tags[tag]
    return found


def _is_installed(entry: Entry, settings: Mapping[str, Any]) -> bool:
    """Whether an entry of a manifest's corpora is of the installed rows, by their sha256."""
    if "training" in entry:  # pairs that are made of notes: the notes are what is published
        own = (settings.get("notes") or {}).get("data")
        notes = () if own else load_notes(NoteSettings(), int(settings.get("seed") or 0)).rows
        return not own and entry["training"] == fingerprint(notes)
    try:
        return any(entry["sha256"] == one for one in _fingerprints(entry, settings))
    except (UpstreamMissingError, ValueError):  # a config of another version, or a file that is not at hand
        return False


def _fingerprints(entry: Entry, settings: Mapping[str, Any]) -> Iterator[str]:
    """Of the installed rows of these configs, as each experiment that reads them has them."""
    corpus, names = str(entry["corpus"]), str(entry["config"]).split(", ")
    for experiment in _experiments(corpus):
        if set(names) <= {*experiment.configs, *experiment.alternatives}:
            rows = [{**row, "experiment": experiment.name} for name in names for row in config_rows(corpus, name)]
            if experiment.kind == CHAT:
                rows = asked_rows(rows, int((settings.get("chat") or {}).get("trials") or 1))
            yield fingerprint(rows)


def _experiments(corpus: str) -> tuple[Experiment, ...]:
    return load_study(corpus).experiments if corpus in studies() else ()
