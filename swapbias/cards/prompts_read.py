"""Which prompts a run read for an experiment: all of the study's, a part of them, others, or the user's own notes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from swapbias.declaring import Experiment
from swapbias.studies import load_corpus, load_study


@dataclass(frozen=True, slots=True)
class PromptsRead:
    """What an experiment of a run read.

    Attributes:
        corpus: the corpus that its prompts come from, or are made like.
        configs: the configs that were read.
        usual: they are those that the study reads by default.
        own: they were made of the user's own notes: nothing public holds them.
        rows: how many prompts there were; 0 where the manifest does not say.
        limit: the most rows of a table, where only a part was read.
        plausible: notes with terms of one gender were left out.
    """

    corpus: str
    configs: tuple[str, ...]
    usual: bool
    own: bool
    rows: int
    limit: int | None
    plausible: bool

    @property
    def whole(self) -> bool:
        """All the prompts of public configs."""
        return not self.own and self.limit is None and not self.plausible

    def told(self) -> str:
        """What differs from the study's own prompts, in a few words; blank where nothing does."""
        parts = [
            f"the user's own notes ({self.rows} prompts)" if self.own else "",
            f"at most {self.limit} rows of each table" if self.limit is not None else "",
            f"config {', '.join(self.configs)} in place of the usual one" if not self.usual and not self.own else "",
            "plausible notes alone" if self.plausible and not self.own else "",
        ]
        return "; ".join(part for part in parts if part)


def prompts_read(manifest: Mapping[str, Any], study: str, experiment: str) -> PromptsRead:
    """What an experiment of a run read, by the run's manifest (as it is, or as it is shared).

    Raises:
        UsageError: no such study. ValueError: no such experiment.
    """
    declared = experiment_of(study, experiment)
    corpus = declared.corpus or study
    known = {*declared.configs, *declared.alternatives}
    entries = [
        one
        for one in manifest.get("corpora", ())
        if str(one["corpus"]) == corpus and set(str(one["config"]).split(", ")) <= known
    ]
    configs = tuple(dict.fromkeys(name for one in entries for name in str(one["config"]).split(", ")))
    settings = manifest["settings"]
    part = settings.get("notes")
    notes = part if isinstance(part, Mapping) else {}
    noted = load_corpus(corpus).local is not None
    limit = settings.get("limit")
    return PromptsRead(
        corpus=corpus,
        configs=configs or declared.configs,
        usual=not configs or configs == declared.configs,
        own=noted and bool(notes.get("data")),
        rows=max((int(one.get("rows", 0)) for one in entries), default=0),
        limit=limit if isinstance(limit, int) and limit else None,
        plausible=noted and bool(notes.get("plausible")),
    )


def experiment_of(study: str, name: str) -> Experiment:
    """An experiment by its name.

    Raises:
        UsageError: no such study. ValueError: it has no such experiment.
    """
    for one in load_study(study).experiments:
        if one.name == name:
            return one
    raise ValueError(f"{study} has no experiment {name[:60]!r}. Share the run with the version that made it.")
