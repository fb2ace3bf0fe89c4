"""swapbias list, help, reproduce and cache: what can be asked and set, what was published, what is stored here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import Annotated, Any, NamedTuple, get_origin

import typer

from swapbias import findings, studies
from swapbias.cli import terminal as ui
from swapbias.errors import UsageError, quoted
from swapbias.files import cache_dir, is_url
from swapbias.models import FLAGS, LoadOptions, kinds, settable
from swapbias.swapping import Engine

# --- settings of -M ------------------------------------------------------------------------------------

ModelSettings = Annotated[
    list[str] | None, ui.option("Further setting: swapbias help settings.", "-M", metavar="KEY=VALUE")
]


class Setting(NamedTuple):
    """A setting of an audit: its group, type, default, meaning and range."""

    name: str
    group: str
    type: Any
    default: Any
    help: str
    least: float | None = None
    most: float | None = None

    @property
    def key(self) -> str:
        """As it is written."""
        return self.name.replace("_", "-")

    def read(self, text: str) -> Any:
        """A value from its text; a switch needs none.

        Raises:
            UsageError: it is no value of the type.
        """
        from pydantic import TypeAdapter, ValidationError

        if not text and self.type is not bool:
            raise UsageError(f"-M {self.key} has no value. Write -M {self.key}=VALUE.")
        try:
            return TypeAdapter(self.type).validate_python(text or "true")
        except ValidationError as error:
            why = error.errors(include_url=False)[0]["msg"]
            raise UsageError(f"-M {self.key} is {quoted(text)}. {why}.") from None


_RUN = (
    Setting("group", "prompts", str, "", "Own prompts: the group compared with the reference; each by default."),
    Setting("lexicon", "prompts", str, "", "Own prompts: a CSV file of words (word, group) counted at <mask>."),
    Setting("engine", "cluster", str, "local", "local, or ray: workers on machines of a cluster."),
    Setting("address", "cluster", str | None, None, "Your Ray cluster, as HOST:PORT or auto; none: this machine."),
    Setting("workers", "cluster", int | None, None, "Number of workers; as the cluster has room for by default."),
    Setting("gpus_per_worker", "cluster", float, 0.0, "GPUs of a worker; may be a part of one."),
    Setting("own_store", "cluster", bool, False, "The store is yours alone: credentialed notes may lie there."),
)
RUN = tuple(one.name for one in _RUN)
CLUSTER = tuple(one.name for one in _RUN if one.group == "cluster")


def model_settings() -> Iterator[Setting]:
    """What a user sets of models: options of ``swapbias audit`` (``FLAGS``), and settings of ``-M``."""
    every: list[Any] = [LoadOptions, *(one.options for one in kinds() if one.options)]
    for made in every:
        for one, hint in settable(made):
            more, default = one.metadata, None if get_origin(hint) is tuple else one.default
            group, name = "model" if made is LoadOptions else made.key, more.get("name", one.name)
            yield Setting(name, group, hint, default, more["help"], more.get("least"), more.get("most"))


def known_settings() -> list[Setting]:
    """Every setting of ``-M``, in the order of the help."""
    return [*model_settings(), *_RUN]


def read_settings(pairs: Sequence[str] | None, only: Sequence[str] = ()) -> dict[str, Any]:
    """The settings that ``KEY=VALUE`` pairs name, of ``only`` these or all; of a key with several values a list.

    Raises:
        UsageError: an unknown key, one named twice, or a value that does not fit.
    """
    known = {one.name: one for one in known_settings() if not only or one.name in only}
    found: dict[str, Any] = {}
    for pair in pairs or ():
        key, _, text = pair.partition("=")
        name = key.strip().replace("-", "_")
        if name in FLAGS and name not in known:
            raise UsageError(f"{key} has an option of its own. Write --{key.replace('_', '-')}.")
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0].replace('_', '-')}?" if near else "See swapbias help settings."
            raise UsageError(f"Unknown setting {quoted(key)}. {hint}")
        if get_origin(known[name].type) is tuple:
            found.setdefault(name, []).append(text)
        elif name in found:
            raise UsageError(f"-M {known[name].key} is given twice. Drop one of them.")
        else:
            found[name] = known[name].read(text)
    return found


def engine_of(settings: Mapping[str, Any], place: str | None) -> Engine:
    """Where the work is done that writes to a place, of settings of the cluster.

    Raises:
        UsageError: settings that do not fit together.
    """
    if settings.get("own_store") and not (place and is_url(place)):
        raise UsageError("own-store is about a store, and a folder of this machine is written. Drop it.")
    names = {"engine": "name", "gpus_per_worker": "gpus", "address": "address", "workers": "workers"}
    engine = Engine(**{names[one]: value for one, value in settings.items() if one in names})
    engine.check()
    return engine


class WithSettings(ui.Sectioned):
    """A command with ``-M``; a setting that is written as an option gets one sentence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse ``--temperature 0``, which is ``-M temperature=0``."""
        options = {name for one in self.params for name in one.opts}
        keys = {f"--{one.key}": one for one in known_settings()}
        for written in (one.partition("=")[0] for one in args):
            if written in keys and written not in options:
                value = "" if keys[written].type is bool else "=VALUE"
                key = f"{keys[written].key}{value}"
                raise UsageError(f"{written} is a setting. Write -M {key} (all: swapbias help settings).")
        return super().parse_args(ctx, args)


def help_on(
    topic: Annotated[str, ui.argument("settings", "What to explain.")] = "settings",
    group: Annotated[str | None, ui.argument("[KIND]", "Settings of one kind.")] = None,
) -> None:
    """List the settings of -M with defaults and meanings."""
    every = known_settings()
    groups = dict.fromkeys(one.group for one in every)
    if topic != "settings" or (group and group not in groups):
        what = f"settings, or settings and one of {', '.join(groups)}"
        raise UsageError(f"No help on {quoted(group or topic)}. Expected {what}.")
    for name in [group] if group else groups:
        ui.show(f"{name}:")
        for one in every:
            default = "" if one.default is None else str(one.default).lower() if one.type is bool else one.default
            if one.group == name:
                ui.show(f"  {one.key}={default}  {one.help}")


# --- list, reproduce and cache -------------------------------------------------------------------------

_KINDS = {
    "masked": "Masked language models (BERT, RoBERTa)",
    "causal": "Causal language models (GPT-2, Llama)",
    "classifier": "Classifiers, Python functions, vader",
    "chat": "Chat models (--chat)",
    "embedding": "Clinical notes (word vectors, encoders)",
}
_MOST_NAMED = 3  # experiments of a study for one kind of model; more are one line


def list_(
    with_corpora: Annotated[bool, ui.option("Corpora, their configs and row counts.", "--corpora")] = False,
    with_measures: Annotated[bool, ui.option("Measures (evaluate modules).", "--measures")] = False,
    as_json: ui.AsJson = False,
) -> None:
    """List what can be asked of each kind of model."""
    if as_json or with_corpora:
        every = {name: studies.load_corpus(name).configs for name in studies.corpora()}
        rows = [
            (name, one.name, studies.row_count(name, one.name), one.description)
            for name in every
            for one in every[name]
        ]
    if as_json:
        fields = ("name", "kind", "configs", "question")
        experiments = [
            {"study": name, **{field: getattr(one, field) for field in fields}}
            for name in studies.studies()
            for one in studies.load_study(name).experiments
        ]
        configs = [dict(zip(("corpus", "config", "rows", "description"), one, strict=True)) for one in rows]
        ui.show_json({"studies": experiments, "corpora": configs, "measures": studies.metrics()})
        return
    if with_measures:
        ui.show(f"Measures (evaluate modules): {', '.join(studies.metrics())}")
    if with_corpora:
        for name in every:
            ui.show(f"\nCorpus {name}")
            for _, config, count, description in (row for row in rows if row[0] == name):
                _show_line(f"{config} ({'needs upstream' if count is None else count})", description)
    if with_corpora or with_measures:
        return
    ui.show("Name a study to run it: swapbias audit MODEL --study STUDY[:EXPERIMENT]")
    for kind, title in _KINDS.items():
        ui.show(f"\n{title}")
        for study in map(studies.load_study, studies.studies()):
            mine = [one for one in study.experiments if one.kind == kind and one.configs]
            if len(mine) > _MOST_NAMED:
                _show_line(f"{study.name} ({len(mine)} experiments)", study.title)
            for one in mine if len(mine) <= _MOST_NAMED else ():
                _show_line(f"{study.name}:{one.name}", one.question)


def _show_line(name: str, description: str) -> None:
    """A name that must be typed, never cut, and as much of what it is as there is room for."""
    ui.out.print(f"  {name:<34} {description}", no_wrap=True, overflow="ellipsis")


def reproduce(
    names: Annotated[list[str] | None, ui.argument("[STUDY]...")] = None,
    every: Annotated[bool, ui.option("Print every number, and what is not at hand.", "--all")] = False,
    as_json: ui.AsJson = False,
) -> None:
    """Recompute published numbers.

    They come from the outputs that the authors released.

    Exit code 1: a number differs, or no released output is at hand.
    """
    names = [studies.load_study(name).name for name in names or studies.studies()]
    found = [one for name in names for one in findings.recompute(name)]
    missing = [one for one in found if isinstance(one, findings.NotAtHand)]
    rows = [one for one in found if not isinstance(one, findings.NotAtHand)]
    if as_json:
        ui.show_json({"numbers": [asdict(one) for one in rows], "not_at_hand": [asdict(one) for one in missing]})
    else:
        for row in (one for one in rows if every or one.match == "no"):
            match = f"{row.match}: {row.note}" if row.match == "explained" else row.match or "nothing printed"
            numbers = f"published {row.published or '–'}, recomputed {row.recomputed:.6g}"
            ui.show(f"{row.study} {row.number} of {row.model}: {numbers} ({match}), {row.file}")
        for gone in missing if every else ():
            ui.show(f"Skipped: {gone.study} {gone.experiment} of {gone.model}: {gone.reason}")
        for name in dict.fromkeys(one.study for one in found):
            count = sum(one.study == name for one in missing)
            matches = _count_matches([row for row in rows if row.study == name])
            ui.show(f"{name}: {matches}; {count} sets of outputs are not at hand.")
        if rows:
            ui.show(f"{_count_matches(rows)}.")
    if not rows:
        raise ValueError(
            "No released output is at hand, so nothing was recomputed. Go online, where the files of the pinned "
            "commits are fetched, or set SWAPBIAS_UPSTREAM to a folder that holds them as OWNER/REPOSITORY/PATH; "
            "--all names each."
        )
    if any(row.match == "no" for row in rows):
        raise typer.Exit(1)


def _count_matches(rows: "Sequence[findings.Reproduced]") -> str:
    matches = [row.match for row in rows if row.published]
    if not matches:
        return "nothing to compare"
    wrong, explained = matches.count("no"), matches.count("explained")
    right = len(matches) - wrong - explained
    return f"{right} of {len(matches)} numbers match, {explained} explained, {wrong} do not"


def cache(
    clear: Annotated[str | None, ui.option("Remove scores, upstream, models or all.")] = None,
    as_json: ui.AsJson = False,
) -> None:
    """Show what is stored here, or remove it."""
    from rich.filesize import decimal

    from swapbias.runs import cache as store

    if clear is not None:
        for one in [store.clear(kind) for kind in (store.CLEARED if clear == "all" else (clear,))]:
            ui.show(f"{one.kind}: {one.entries} removed, {decimal(one.bytes)} freed.")
    elif as_json:
        ui.show_json({"kept": [asdict(one) for one in store.usage()], "place": str(cache_dir())})
    else:
        for one in store.usage():
            ui.show(f"{one.kind}: {one.entries} kept, {decimal(one.bytes)}")
        ui.show(f"At most {decimal(store.cache_limit())} of scores are kept ({store.LIMIT}).")
        ui.show(f"Place: {cache_dir()}")
