"""swapbias list, help, build, swap, train, study and reproduce: what can be measured, and on which data."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import fill, wrap
from typing import Annotated, Any

import typer

from swapbias import findings, hub, measures, models, studies, swapping
from swapbias.cli import terminal as ui
from swapbias.cli.auditing import OF_TABLE, study_designs
from swapbias.errors import UpstreamMissingError, UsageError, listed, quoted
from swapbias.models import LoadOptions, Setting, auto
from swapbias.models.chat import ChatOptions
from swapbias.studies import catalogue, corpus_file, corpus_folders, own

_MOST_NAMED = 3  # experiments of a study for one kind of model; more are one line


def help_on(
    topic: Annotated[str, ui.argument("settings", "What to explain.")] = "settings",
    group: Annotated[str | None, ui.argument("[KIND]", "Settings of one kind.")] = None,
) -> None:
    """List the settings of -M with defaults and meanings."""
    every = ui.known_settings()
    groups = dict.fromkeys(setting.section for setting in every)
    if topic != "settings" or (group and group not in groups):
        what = f"settings, or settings and one of {listed(groups)}"
        raise UsageError(f"No help on {quoted(group or topic)}. Expected {what}.")
    for name in [group] if group else groups:
        ui.show(f"{name}:")
        for setting in every:
            if setting.section == name:
                ui.show(f"  {setting.key}={_shown_default(setting)}  {setting.help}")


def _shown_default(setting: Setting) -> str:
    """The value of a setting where nothing is set, as -M takes it; blank where it has none."""
    if setting.default is None or setting.is_several:
        return ""
    return (
        str(setting.default).lower() if isinstance(setting.default, bool) else str(setting.default)
    )


def list_(
    with_corpora: Annotated[bool, ui.option("Corpora and their configs.", "--corpora")] = False,
    with_measures: Annotated[bool, ui.option("Measures (evaluate modules).", "--measures")] = False,
) -> None:
    """List what can be measured on each kind of model."""
    if with_measures:
        ui.show(f"Measures (evaluate modules): {', '.join(catalogue.metrics())}")
    if with_corpora:
        _show_corpora()
    if with_corpora or with_measures:
        return
    ui.show("Name a study to run it: swapbias audit MODEL --study STUDY[:EXPERIMENT]")
    known = [*_outlines()]
    for kind in models.kinds():
        ui.show(f"\n{kind.title or kind.name}")
        _show_studies(known, kind.name)
    for sentence in (
        *auto.KINDS.faults(),
        *measures.COMPARISONS.faults(),
        *corpus_folders.CORPORA.clashes(),
    ):
        ui.say(sentence)


def _show_corpora() -> None:
    for name in studies.corpora():
        try:
            configs = corpus_file.corpus_declaration(name).configs
        except ValueError as error:
            _say_of_corpus(name, error)
            continue
        ui.show(f"\nCorpus {name}")
        for config in configs:
            _show_line(config.name, config.description)
    for sentence in corpus_folders.CORPORA.clashes():
        ui.say(sentence)


def _outlines() -> "Iterator[studies.Study]":
    """The studies as their files state them; a sentence of those that cannot be read."""
    for name in studies.studies():
        try:
            yield catalogue.outline(name)
        except ValueError as error:
            _say_of_corpus(name, error)


def _say_of_corpus(name: str, error: ValueError) -> None:
    """Say that a corpus cannot be read, of another distribution with its name."""
    distribution = corpus_folders.CORPORA.distribution(name)
    ui.say(str(error) if distribution in str(error) else f"{error} It is of {distribution}.")


def _show_studies(known: "Sequence[studies.Study]", kind: str) -> None:
    """Show the experiments that a kind of model reads, those of a study with many as one line."""
    for study in known:
        experiments = [one for one in study.experiments if one.kind == kind and one.reads.configs]
        if len(experiments) > _MOST_NAMED:
            _show_line(f"{study.name} ({len(experiments)} experiments)", study.title)
            continue
        for experiment in experiments:
            _show_line(f"{study.name}:{experiment.name}", experiment.question)


def _show_line(name: str, description: str) -> None:
    """A name that must be typed, never cut, and as much of what it is as there is room for."""
    ui.out.print(f"  {name:<34} {description}", no_wrap=True, overflow="ellipsis")


def build(
    names: Annotated[ui.Names, ui.argument("[CORPUS]...")] = None,
    folder: ui.OutFolder = Path("swapbias-corpora"),
    data: Annotated[
        Path | None, ui.option("Your notes (MIMIC-III, MIMIC-IV-Note, own CSV).")
    ] = None,
) -> None:
    """Write corpora for datasets.load_dataset."""
    from swapbias.hub import datasets

    names = names or _all_corpora(read_folders=data is not None)
    for name in names:
        studies.load_corpus(name)  # an unknown name is refused before anything is written
    with ui.stoppable(
        f"Stopped. Corpora that are whole stay in {folder}: the same command builds all."
    ):
        for name in names:
            corpus = catalogue.local_corpus(name, data) if data else studies.load_corpus(name)
            for one in datasets.build(corpus, folder):
                ui.show(
                    f"{name} {one.config}: {f'left out: {one.reason}' if one.reason else f'{one.rows} rows'}"
                )
    ui.show(f"Built in {folder}")


def _all_corpora(*, read_folders: bool) -> list[str]:
    """Return the names of all corpora that load, or of those alone that are made of a folder of the user's."""
    names = _loadable(studies.corpora())
    return (
        [name for name in names if corpus_file.corpus_declaration(name).reads_folders]
        if read_folders
        else names
    )


def _loadable(names: "Sequence[str]") -> list[str]:
    """Return these corpora without those of other distributions that do not load, of which a sentence is shown."""
    loadable = []
    for name in names:
        try:
            loadable.append(studies.load_corpus(name).name)
        except ValueError as error:
            if not corpus_folders.CORPORA.distribution(name):
                raise
            _say_of_corpus(name, error)
    return loadable


def swap(
    source: Annotated[
        str, ui.argument("INPUT", "CSV, TSV, JSON lines, Parquet, folder or Hub id.")
    ] = "",
    folder: Annotated[
        str, ui.option("New or partial folder, or s3://BUCKET/FOLDER.", "--out", metavar="PATH")
    ] = "",
    column: Annotated[str, ui.option("Column of texts.")] = "text",
    mode: Annotated[str, ui.option("swap, neutralise, augment or pairs.")] = "swap",
    table: Annotated[
        str, ui.option("resolved, paper, race, age, two pronouns (she-they) or CSV file.")
    ] = "resolved",
    whose: Annotated[
        str | None, ui.option("everyone, or patient: relatives and staff stay. MIMIC: patient.")
    ] = None,
    spouses: Annotated[
        str, ui.option("With --whose patient: swap or keep husbands and wives.")
    ] = "swap",
    gender: Annotated[
        str | None, ui.option("Column of the patient's gender [gender, else by the text].")
    ] = None,
    processes: Annotated[int, ui.option("Number of processes.")] = 1,
    split: Annotated[str | None, ui.option("Split of a Hub dataset that has several.")] = None,
    credentialed: Annotated[
        bool, ui.option("Mark rows as not to be shared.", "--credentialed")
    ] = False,
    plausible: Annotated[
        bool, ui.option("Leave out sex-specific rows (pregnant, prostate).", "--plausible")
    ] = False,
    max_doubt: Annotated[
        float, ui.option("Most chance of a wrong word (--whose patient).", min=0, max=1)
    ] = 1.0,
    resolver: Annotated[
        str | None, ui.option("chat:MODEL or classifier: whom each word is about.")
    ] = None,
    base_url: Annotated[
        str | None, ui.option("OpenAI-compatible endpoint of --resolver chat:MODEL.")
    ] = None,
    evaluate: Annotated[
        bool, ui.option("Test --whose patient on annotated notes; no INPUT.", "--evaluate")
    ] = False,
    model_settings: ui.ModelSettings = None,
) -> None:
    """Swap gendered words in texts.

    It writes Parquet; after a stop the same command continues.

    More than one machine: -M engine=ray -M workers=N (swapbias help settings cluster).
    """
    settings = ui.read_settings(model_settings, (*ui.CLUSTER, *_OF_CHAT, *_OF_LOADING))
    cluster = {name: value for name, value in settings.items() if name in ui.CLUSTER}
    model = _resolver(resolver, {**({"base_url": base_url} if base_url else {}), **settings})
    if evaluate:
        _show_accuracy(swapping.Swapper(table, whose="patient", spouses=spouses, resolver=model))
        return
    if not source or not folder:
        raise UsageError(
            "INPUT and --out say what is swapped, and where to. Give both, or --evaluate."
        )
    job = swapping.Job(
        source,
        column,
        mode,
        table,
        split,
        credentialed,
        whose=whose,
        spouses=spouses,
        gender=gender,
        plausible=plausible,
        max_doubt=max_doubt,
        resolver=model,
    )
    engine = ui.engine_of(cluster, folder)
    with (
        ui.stoppable(f"Stopped. Whole parts are kept in {folder}: the same command goes on."),
        ui.progress() as bar,
        ui.working_folder(folder, own=cluster.get("own_store", False)) as (here, store),
    ):
        done = swapping.swap_files(
            job,
            here,
            processes=processes,
            bar=bar,
            engine=engine,
            uploaded_to=None if store is None or store.own else store.url,
        )
    for name, total in done.totals.counts().items():
        if isinstance(total, int):
            ui.show(f"{name.replace('_', ' ')}: {total:,}")
    for kind, terms in done.totals.by_kind().items():
        if most := ", ".join(f"{term} {count:,}" for term, count in terms.most_common(5)):
            ui.show(f"{kind}: {most}{', and more in report.csv' if len(terms) > 5 else ''}")
    ui.say(f"{done.totals.text_bytes / 1e6:,.1f} MB of text.")
    if why := done.credentialed_because:
        ui.say(f"Every row is marked credentialed ({why}): publish, upload or send none to an API.")
    ui.show(f"Swapped: {folder}")


_OF_CHAT = (
    "own_address",
    "api_key_env",
    "provider",
    "max_tokens",
    "concurrency",
    "timeout",
)  # of a resolver
_OF_LOADING = ("device", "dtype", "batch_size")


def _resolver(name: str | None, settings: Mapping[str, Any]) -> "swapping.Resolver | None":
    """The resolver that is named, with those of the settings that are of chat models or of loading models."""
    chat = {name: settings[name] for name in ("base_url", *_OF_CHAT) if name in settings}
    loading = {name: settings[name] for name in _OF_LOADING if name in settings}
    if name is None:
        options = [*ChatOptions.settings(), *LoadOptions.settings()]
        if given := [setting.written for setting in options if setting.name in {**chat, **loading}]:
            raise UsageError(
                f"{' and '.join(given)} is of a resolver, and none is named. Add --resolver."
            )
        return None
    return swapping.load_resolver(name, LoadOptions(**loading), **chat)


def _show_accuracy(swapper: "swapping.Swapper") -> None:
    notes = swapping.gold_notes()
    found = swapping.evaluate(swapper, notes)
    by = swapper.resolver.name if swapper.resolver else "rules"
    ui.show(f"{len(notes)} notes of clinical_swaps, test; by {by}")
    ui.show(
        "least doubt  doubt up to  precision           recall              others' pronouns left  notes exact"
    )
    for one in found:
        values = (one.precision, one.recall, one.others_left)
        shown = "  ".join(
            f"{each.value:.3f} ({each.ci_low:.3f}-{each.ci_high:.3f})" for each in values
        )
        ui.show(f"{one.share:>11.0%}  {one.doubt:>11.2f}  {shown}     {one.exact.value:.3f}")


def train(
    kind: Annotated[str, ui.argument("KIND", "bow, bilstm or encoder.")],
    data: Annotated[
        str, ui.option("sst2 (from the Hub), or a folder with stsa.binary.train and .dev.")
    ],
    folder: Annotated[Path, ui.option("New folder for the model.", "--out")],
    vectors: Annotated[
        Path | None, ui.option("Of a bilstm: .bin, .txt or .vec word vectors.")
    ] = None,
    encoder: Annotated[str | None, ui.option("Hub id or folder; none: bert-base-uncased.")] = None,
    epochs: Annotated[
        int | None, ui.option("Of an encoder (3), or most of a bilstm (30).", min=1)
    ] = None,
    seed: Annotated[int, ui.option("Seed of weights, dropout and order.", min=0)] = 0,
    device: Annotated[str, ui.option("auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Train a sentiment model that swapbias audit takes."""
    from swapbias.models import TrainSettings, train_model, training_data
    from swapbias.report import numbers

    chosen: Any = kind  # which the settings check
    settings = TrainSettings(
        kind=chosen,
        data=data,
        vectors=vectors,
        encoder=encoder,
        epochs=epochs,
        seed=seed,
        device=device,
    )
    stopped = f"Stopped. Nothing is kept in {folder}: the same command begins anew."
    with ui.stoppable(stopped), ui.progress() as bar:
        trained = train_model(settings, folder, bar=bar)
    found = trained["audit"]
    gap = trained["audit"]["gap"]
    for group in ("male", "female"):
        published = "published: {:,}, {:.3f}".format(*training_data.PUBLISHED_AUDIT[group])
        count = found[f"n_{group}"]
        mean = numbers.format_number(found[f"mean_{group}"])
        ui.show(
            f"Training sentences with a {group} noun: {count:,}, mean label {mean} ({published})"
        )
    ends = " to ".join(numbers.format_number(end, signed=True) for end in (gap.ci_low, gap.ci_high))
    ui.show(
        f"Female - male: {numbers.format_number(gap.value, signed=True)} (95 % interval {ends}, Welch)"
    )
    ui.show(f"Accuracy on {trained['n_dev']} dev sentences: {trained['dev_accuracy']:.3f}")
    ui.show(f"Trained: {folder}")


study = typer.Typer(no_args_is_help=True, help="Make a study of your own: a folder of tables.")

Folder = Annotated[Path, ui.argument("FOLDER", "Folder of the study.")]


@study.command("new", cls=ui.Sectioned)
def new(
    folder: Folder,
    template: Annotated[
        str, ui.option("slots, or ranking: candidates with CVs and names.")
    ] = "slots",
) -> None:
    """Write a small complete example to edit: it can be audited at once."""
    made = own.new_study(folder, template)
    ui.show(f"Written to {folder}: {', '.join(one.name for one in made)}.")
    model = "--chat MODEL" if template == "ranking" else "MODEL"
    ui.show(
        f"Next: edit them, swapbias study check {folder}, swapbias audit {model} --study {folder}"
    )


@study.command("check", cls=ui.WithSettings)
def check_folder(
    source: Annotated[
        Path, ui.argument("SOURCE", "Folder, file of prompts, or a study of the package.")
    ],
    reference: Annotated[str, ui.option("Of a file: the group that is subtracted.")] = "",
    words: Annotated[
        Path | None, ui.option("Of a file: words (word,group) at <mask>.", "--lexicon")
    ] = None,
    settings: ui.ModelSettings = None,
) -> None:
    """Find faults by file and line; exit 1 where an audit would refuse the study.

    Settings of own prompts are those of swapbias audit: -M fixed=topic.
    """
    of_table = ui.read_settings(settings, OF_TABLE)
    if words and "lexicon" in of_table:
        raise UsageError("lexicon is an option and a setting of -M. Drop one of them.")
    is_folder = str(source).isidentifier() and studies.corpus_dir(str(source)).is_dir()
    if not source.exists() and (is_folder or str(source) in studies.corpora()):
        _check_package(str(source))
        return
    found = swapping.check_study(source, reference=reference, **{"lexicon": words} | of_table)
    designs = [*study_designs(found.corpus)] if found.corpus else []
    for sentence in (*found.faults, *found.advice, *designs):
        ui.show(sentence)
    sound = f"It can be audited{f'; {len(found.advice)} remarks' if found.advice else ''}."
    ui.show(f"{len(found.faults)} to mend before an audit." if found.faults else sound)
    raise typer.Exit(bool(found.faults))


def _check_package(name: str) -> None:
    """Show the faults of a study of the package; exit 1 where there are any."""
    faults, unread = models.package_faults(name)
    for sentence in (*faults, *unread):
        ui.show(sentence)
    ui.show(f"{len(faults)} to mend before an audit." if faults else "It can be audited.")
    raise typer.Exit(bool(faults))


@study.command("push", cls=ui.Sectioned)
def push_folder(
    folder: Folder,
    repo: Annotated[str, ui.argument("OWNER/NAME", "A dataset on the Hub; made if need be.")],
    public: Annotated[bool, ui.option("Everybody may read it.", "--public")] = False,
    dry_run: ui.DryRun = False,
) -> None:
    """Publish a study as a dataset: others run it with --study OWNER/NAME."""
    done = hub.push_study(hub.Hub(), folder, repo, private=not public, dry_run=dry_run, say=ui.say)
    at = f" at {done.commit[:12]}" if done.commit else ""
    ui.show(
        f"{done.repo.name}: {done.status}{' (private)' if done.private else ''}, {done.tag}{at}"
    )
    if done.commit:
        ui.show(f"Others run it with swapbias audit MODEL --study {repo}@{done.commit}")


_WIDE = 100  # columns of what reproduce prints


def reproduce(
    names: Annotated[ui.Names, ui.argument("[STUDY]...")] = None,
    every: Annotated[
        bool, ui.option("Print every number, and what is not at hand.", "--all")
    ] = False,
) -> None:
    """Recompute published numbers.

    They come from the outputs that the authors released.

    Exit code 1: a number differs, or no released output is at hand.
    """
    names = [studies.load_study(name).name for name in names or _loadable(studies.studies())]
    found = [one for name in names for one in findings.recompute(name)]
    missing = [one for one in found if isinstance(one, findings.NotAtHand)]
    rows = [one for one in found if not isinstance(one, findings.NotAtHand)]
    for (study, model, file), group in groupby(
        rows, key=lambda one: (one.study, one.model, one.file)
    ):
        if not (mine := [one for one in group if every or one.match == "no"]):
            continue
        lines = wrap(
            f"{study}, {model}{f' ({file})' if file else ''}: published, recomputed", _WIDE
        )
        for row in mine:
            *before, last = wrap(row.number, 60, initial_indent="  ", subsequent_indent="    ")
            lines += [
                *before,
                f"{last:<60}  {row.published or '–':>10}  {row.recomputed:>12.6g}  {row.match}",
            ]
            lines += [
                f"    {line}"
                for line in wrap(row.note if row.match == "explained" else "", _WIDE - 4)
            ]
        ui.show("\n".join(lines))
    for gone in missing if every else ():
        ui.show(
            fill(f"Skipped: {gone.study} {gone.experiment} of {gone.model}: {gone.reason}", _WIDE)
        )
    for name in dict.fromkeys(one.study for one in found):
        count = sum(one.study == name for one in missing)
        ui.show(
            f"{name}: {_count_matches([row for row in rows if row.study == name])}; {count} sets not at hand."
        )
    if not rows:
        how = "Go online, or set SWAPBIAS_UPSTREAM to a folder that holds them as OWNER/REPOSITORY/PATH"
        missing_outputs = "No released output is at hand, so nothing was recomputed"
        raise UpstreamMissingError(f"{missing_outputs}. {how}; --all names each.")
    ui.show(f"{_count_matches(rows)}.")
    if any(row.match == "no" for row in rows):
        raise typer.Exit(1)


def _count_matches(rows: "Sequence[findings.Reproduced]") -> str:
    matches = [row.match for row in rows if row.published]
    wrong = matches.count("no")
    explained = matches.count("explained")
    right = len(matches) - wrong - explained
    all_of_them = f"{right} of {len(matches)} numbers match, {explained} explained, {wrong} do not"
    return all_of_them if matches else "nothing to compare"
