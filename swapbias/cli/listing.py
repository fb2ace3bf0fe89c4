"""swapbias list, help, reproduce and cache: what can be asked and set, what was published, what is stored here."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer

from swapbias.cli.terminal import AsJson, Sectioned, out, plain_table, show, show_json
from swapbias.cluster import Engine
from swapbias.errors import UsageError, quoted
from swapbias.files import cache_dir, is_url
from swapbias.models import FLAGS, LoadOptions, kinds, settable

if TYPE_CHECKING:
    from rich.table import Table

    from swapbias.findings import Reproduced
    from swapbias.studies import Experiment

# --- settings of -M ------------------------------------------------------------------------------------

ModelSettings = Annotated[
    list[str] | None,
    typer.Option("-M", metavar="KEY=VALUE", help="Further setting: swapbias help settings."),
]


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of ``-M``: its group, type, default and meaning."""

    name: str
    group: str
    type: Any
    default: Any
    help: str

    @property
    def key(self) -> str:
        """As it is written."""
        return self.name.replace("_", "-")

    def read(self, text: str) -> Any:
        """A value from its text.

        Raises:
            UsageError: it is no value of the type.
        """
        wanted = next((one for one in get_args(self.type) if one is not type(None)), self.type)
        if not text and wanted is not bool:
            raise UsageError(f"-M {self.key} has no value. Write -M {self.key}=VALUE.")
        read, expected = _READERS.get(wanted, (str, "a text"))
        try:
            return read(text)
        except (ValueError, KeyError) as error:
            raise UsageError(f"-M {self.key} is {quoted(text)}, expected {expected}.") from error


_READERS: Mapping[Any, tuple[Callable[[str], Any], str]] = {
    bool: ({"true": True, "false": False, "": True}.__getitem__, "true or false"),
    int: (int, "a whole number"),
    float: (float, "a number"),
}
_CLUSTER = (
    Setting("engine", "cluster", str, "local", "local, or ray: workers on machines of a cluster."),
    Setting("address", "cluster", str | None, None, "Your Ray cluster, as HOST:PORT or auto; none: this machine."),
    Setting("workers", "cluster", int | None, None, "Number of workers; as the cluster has room for by default."),
    Setting("gpus_per_worker", "cluster", float, 0.0, "GPUs of a worker; may be a part of one."),
    Setting("own_store", "cluster", bool, False, "The store is yours alone: credentialed notes may lie there."),
)
_RUN = (
    Setting("group", "prompts", str, "", "Own prompts: the group compared with the reference; each by default."),
    Setting("lexicon", "prompts", str, "", "Own prompts: a CSV file of words (word, group) counted at <mask>."),
    *_CLUSTER,
)
CLUSTER = tuple(one.name for one in _CLUSTER)
RUN = tuple(one.name for one in _RUN)


def known_settings() -> Iterator[Setting]:
    """Every setting of ``-M``, in the order of the help."""
    every: list[Any] = [LoadOptions, *(one.options for one in kinds() if one.options)]
    for made in every:
        for one, hint in settable(made):
            name = one.metadata.get("name", one.name)
            if name not in FLAGS:
                group = "model" if made is LoadOptions else made.key
                default = None if get_origin(hint) is tuple else one.default
                yield Setting(name, group, hint, default, one.metadata["help"])
    yield from _RUN


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
        if name in FLAGS:
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
    """Where the work is done, of settings of the cluster.

    Args:
        settings: by name.
        place: what is written to.

    Raises:
        UsageError: settings that do not fit together.
    """
    if settings.get("own_store") and not (place and is_url(place)):
        raise UsageError("own-store is about a store, and a folder of this machine is written. Drop it.")
    engine = Engine(
        name=settings.get("engine", "local"),
        address=settings.get("address"),
        workers=settings.get("workers"),
        gpus=settings.get("gpus_per_worker", 0.0),
    )
    engine.check()
    return engine


class WithSettings(Sectioned):
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
    topic: Annotated[str, typer.Argument(metavar="settings", help="What to explain.")] = "settings",
    group: Annotated[str | None, typer.Argument(metavar="[KIND]", help="Settings of one kind.")] = None,
) -> None:
    """List the settings of -M with defaults and meanings."""
    groups: dict[str, list[Setting]] = {}
    for one in known_settings():
        groups.setdefault(one.group, []).append(one)
    if topic != "settings" or (group and group not in groups):
        what = f"settings, or settings and one of {', '.join(groups)}"
        raise UsageError(f"No help on {quoted(group or topic)}. Expected {what}.")
    for name in [group] if group else groups:
        show(f"{name}:")
        for one in groups[name]:
            default = str(one.default).lower() if one.type is bool else one.default
            show(f"  {one.key}={'' if default is None else default}  {one.help}")


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
    with_corpora: Annotated[bool, typer.Option("--corpora", help="Corpora, their configs and row counts.")] = False,
    with_measures: Annotated[bool, typer.Option("--measures", help="Measures (evaluate modules).")] = False,
    as_json: AsJson = False,
) -> None:
    """List what can be asked of each kind of model."""
    from swapbias.studies import corpora, load_corpus, load_study, metrics, row_count, studies

    asked = [(name, one) for name in studies() for one in load_study(name).experiments]
    rows = [
        (name, one.name, row_count(name, one.name), one.description)
        for name in (corpora() if as_json or with_corpora else ())
        for one in load_corpus(name).configs
    ]
    if as_json:
        fields = ("name", "kind", "configs", "question")
        experiments = [{"study": study, **{name: getattr(one, name) for name in fields}} for study, one in asked]
        names = ("corpus", "config", "rows", "description")
        tables = [dict(zip(names, one, strict=True)) for one in rows]
        show_json({"studies": experiments, "corpora": tables, "measures": metrics()})
        return
    if with_measures:
        show(f"Measures (evaluate modules): {', '.join(metrics())}")
    for corpus in dict.fromkeys(row[0] for row in rows):
        show(f"\nCorpus {corpus}")
        for _, config, count, description in (row for row in rows if row[0] == corpus):
            _show_line(f"{config} ({'needs upstream' if count is None else count})", description)
    if not (with_corpora or with_measures):
        show("Name a study to run it: swapbias audit MODEL --study STUDY[:EXPERIMENT]")
        for kind, title in _KINDS.items():
            _show_kind(title, [(study, one) for study, one in asked if one.kind == kind and one.configs])


def _show_kind(title: str, asked: "Sequence[tuple[str, Experiment]]") -> None:
    """A line for each experiment, or for each study that has many: its name and the question."""
    from swapbias.studies import load_study

    show(f"\n{title}")
    for name in dict.fromkeys(name for name, _ in asked):
        experiments = [one for study, one in asked if study == name]
        if len(experiments) > _MOST_NAMED:
            _show_line(f"{name} ({len(experiments)} experiments)", load_study(name).title)
        else:
            for one in experiments:
                _show_line(f"{name}:{one.name}", one.question)


def _show_line(name: str, description: str) -> None:
    """A name that must be typed, never cut, and as much of what it is as there is room for."""
    out.print(f"  {name:<34} {description}", no_wrap=True, overflow="ellipsis")


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="[STUDY]...")] = None,
    every: Annotated[bool, typer.Option("--all", help="Print every number, and what is not at hand.")] = False,
    as_json: AsJson = False,
) -> None:
    """Recompute published numbers.

    They come from the outputs that the authors released.

    Exit code 1: a number differs, or no released output is at hand.
    """
    from swapbias.findings import NotAtHand, recompute
    from swapbias.studies import load_study, studies

    names = names or studies()
    for name in names:
        load_study(name)
    found = [one for name in names for one in recompute(name)]
    missing = [one for one in found if isinstance(one, NotAtHand)]
    rows = [one for one in found if not isinstance(one, NotAtHand)]
    if as_json:
        show_json({"numbers": [asdict(one) for one in rows], "not_at_hand": [asdict(one) for one in missing]})
    else:
        if wanted := [row for row in rows if every or row.match == "no"]:
            out.print(_table(wanted))
        for gone in missing if every else ():
            show(f"Skipped: {gone.study} {gone.experiment} of {gone.model}: {gone.reason}")
        for name in dict.fromkeys(one.study for one in found):
            count = sum(one.study == name for one in missing)
            matches = _count_matches([row for row in rows if row.study == name])
            show(f"{name}: {matches}; {count} sets of outputs are not at hand.")
        if rows:
            show(f"{_count_matches(rows)}.")
    if not rows:
        raise ValueError(
            "No released output is at hand, so nothing was recomputed. Go online, where the files of the pinned "
            "commits are fetched, or set SWAPBIAS_UPSTREAM to a folder that holds them as OWNER/REPOSITORY/PATH; "
            "--all names each."
        )
    if any(row.match == "no" for row in rows):
        raise typer.Exit(1)


def _table(rows: "Sequence[Reproduced]") -> "Table":
    table = plain_table("", "model", "number", "published", "recomputed", "match", "file")
    for row in rows:
        note = f"{row.match}: {row.note}" if row.match == "explained" else row.match
        number = f"{row.study} {row.number}"
        # What no paper prints has nothing to match.
        table.add_row(row.model, number, row.published or "–", f"{row.recomputed:.6g}", note or "–", row.file)
    return table


def _count_matches(rows: "Sequence[Reproduced]") -> str:
    matches = [row.match for row in rows if row.published]
    if not matches:
        return "nothing to compare"
    wrong, explained = matches.count("no"), matches.count("explained")
    right = len(matches) - wrong - explained
    return f"{right} of {len(matches)} numbers match, {explained} explained, {wrong} do not"


def cache(
    clear: Annotated[str | None, typer.Option(help="Remove scores, upstream, models or all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is stored here, or remove it."""
    from rich.filesize import decimal

    from swapbias.runs import cache as store

    if clear is not None:
        for one in [store.clear(kind) for kind in (store.CLEARED if clear == "all" else (clear,))]:
            show(f"{one.kind}: {one.entries} removed, {decimal(one.bytes)} freed.")
    elif as_json:
        show_json({"kept": [asdict(one) for one in store.usage()], "place": str(cache_dir())})
    else:
        table = plain_table("Cache", "kept", numbers=("entries", "size"))
        for one in store.usage():
            table.add_row(one.kind, str(one.entries), decimal(one.bytes))
        out.print(table)
        show(f"At most {decimal(store.cache_limit())} of scores are kept ({store.LIMIT}).")
        show(f"Place: {cache_dir()}")
