"""swapbias build, swap and train: the data of audits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from swapbias import studies, swapping
from swapbias.cli import progress_bars, terminal as ui
from swapbias.cli.completion import complete_corpora
from swapbias.errors import UsageError
from swapbias.models import LoadOptions
from swapbias.models.chat import ChatOptions
from swapbias.studies import catalogue, corpus_file, corpus_folders


def build(
    names: Annotated[
        ui.Names, ui.argument("CORPUS", "Corpora to build [all].", autocompletion=complete_corpora)
    ] = None,
    folder: ui.OutFolder = Path("swapbias-corpora"),
    data: Annotated[
        Path | None, ui.option("Your notes, or a folder of data that CORPUS reads.", metavar="PATH")
    ] = None,
    table: Annotated[
        str, ui.option("Words swapped in your notes: resolved, paper or published.")
    ] = "",
) -> None:
    """Write corpora for datasets.load_dataset."""
    from swapbias.hub import datasets

    if table and data is None:
        raise UsageError("--table is of notes of yours, and none are named. Add --data.")
    names = names or _all_corpora(of_notes=data is not None)
    for name in names:
        studies.load_corpus(name)  # an unknown name is refused before anything is written
    stopped = f"Stopped. Corpora that are whole stay in {folder}: the same command builds all."
    with ui.stoppable(stopped):
        for name in names:
            corpus = (
                catalogue.local_corpus(name, data, table=table)
                if data
                else studies.load_corpus(name)
            )
            for config in datasets.build(corpus, folder):
                if config.reason:
                    ui.show(f"{name} {config.config}: left out: {config.reason}")
                else:
                    ui.show(f"{name} {config.config}: {config.rows} rows")
    ui.show(f"Built in {folder}")


def _all_corpora(*, of_notes: bool) -> list[str]:
    """Return the names of all corpora that load, or of those alone that are made of the user's notes."""
    names = loadable(studies.corpora())
    if of_notes:
        return [
            name for name in names if corpus_file.corpus_declaration(name).reads_folders == "notes"
        ]
    return names


def loadable(names: "Sequence[str]") -> list[str]:
    """Return these corpora without those of other distributions that do not load, of which a sentence is shown.

    Args:
        names: the names of the corpora.
    """
    loaded = []
    for name in names:
        try:
            loaded.append(studies.load_corpus(name).name)
        except ValueError as error:
            if not corpus_folders.CORPORA.distribution(name):
                raise
            say_of_corpus(name, error)
    return loaded


def say_of_corpus(name: str, error: ValueError) -> None:
    """Say that a corpus cannot be read, of another distribution with its name.

    Args:
        name: name of the corpus.
        error: says what is wrong.
    """
    distribution = corpus_folders.CORPORA.distribution(name)
    ui.say(str(error) if distribution in str(error) else f"{error} It is of {distribution}.")


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
        str | None,
        ui.option("Column of the patient's gender [gender, else by the text].", metavar="COLUMN"),
    ] = None,
    spans: Annotated[
        str | None, ui.option("Column of labelled spans, moved along.", metavar="COLUMN")
    ] = None,
    processes: Annotated[int, ui.option("Number of processes.")] = 1,
    split: Annotated[str | None, ui.option("Split of a dataset that has several.")] = None,
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
    if base_url:
        settings.setdefault("base_url", base_url)
    model = _resolver(resolver, settings)
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
        spans=spans,
    )
    engine = ui.engine_of(cluster, folder)
    with (
        ui.stoppable(
            f"Stopped. Whole parts are kept in {folder}: run the same command again to resume."
        ),
        progress_bars.show_bars() as bar,
        ui.working_folder(folder, is_own=cluster.get("own_store", False)) as (here, store),
    ):
        done = swapping.swap_files(
            job,
            here,
            processes=processes,
            bar=bar,
            engine=engine,
            uploaded_to=None if store is None or store.own else store.url,
        )
    _show_swaps(done)
    ui.show(f"Swapped: {folder}")


def _show_swaps(done: Any) -> None:
    """Show how many words were swapped, the most frequent of each kind, and whether rows may leave."""
    for name, total in done.totals.counts().items():
        if isinstance(total, int):
            ui.show(f"{name.replace('_', ' ')}: {total:,}")
    for kind, terms in done.totals.by_kind().items():
        most = ", ".join(f"{term} {count:,}" for term, count in terms.most_common(5))
        if len(terms) > 5:
            most = f"{most}, and more in report.csv"
        if most:
            ui.show(f"{kind}: {most}")
    for column, count in done.totals.genders_left.items():
        rows = "1 swapped row" if count == 1 else f"{count:,} swapped rows"
        ui.say(
            f"Column {column} stays in {rows}: nothing says which of its values is female or male."
        )
    ui.say(f"{done.totals.text_bytes / 1e6:,.1f} MB of text.")
    if reason := done.credentialed_because:
        ui.say(
            f"Every row is marked credentialed ({reason}): publish, upload or send none to an API."
        )


# Settings of a resolver.
_OF_CHAT = ("own_address", "api_key_env", "provider", "max_tokens", "concurrency", "timeout")
_OF_LOADING = ("device", "dtype", "batch_size")


def _resolver(name: str | None, settings: Mapping[str, Any]) -> "swapping.Resolver | None":
    """Load the resolver that is named, with those of the settings that are of chat models or of loading models."""
    chat = {name: settings[name] for name in ("base_url", *_OF_CHAT) if name in settings}
    loading = {name: settings[name] for name in _OF_LOADING if name in settings}
    if name is not None:
        return swapping.load_resolver(name, LoadOptions(**loading), **chat)
    options = [*ChatOptions.settings(), *LoadOptions.settings()]
    needless = [setting.written for setting in options if setting.name in {**chat, **loading}]
    if needless:
        raise UsageError(
            f"{' and '.join(needless)} is of a resolver, and none is named. Add --resolver."
        )
    return None


def _show_accuracy(swapper: "swapping.Swapper") -> None:
    """Show how well words are swapped on the annotated notes, by how much doubt is left in."""
    notes = swapping.gold_notes()
    accuracies = swapping.evaluate(swapper, notes)
    by = swapper.resolver.name if swapper.resolver else "rules"
    ui.show(f"{len(notes)} notes of clinical_swaps, test; by {by}")
    ui.show(
        "least doubt  doubt up to  precision           recall              others' pronouns left  notes exact"
    )
    for accuracy in accuracies:
        estimates = (accuracy.precision, accuracy.recall, accuracy.others_left)
        cells = [f"{accuracy.share:>11.0%}", f"{accuracy.doubt:>11.2f}"]
        for estimate in estimates:
            interval = f"({estimate.ci_low:.3f}-{estimate.ci_high:.3f})"
            cells.append(f"{estimate.value:.3f} {interval}")
        cells.append(f"   {accuracy.exact.value:.3f}")
        ui.show("  ".join(cells))


def train(
    kind: Annotated[str, ui.argument("KIND", "bow, bilstm or encoder.")],
    data: Annotated[
        str, ui.option("sst2 (from the Hub), or a folder with stsa.binary.train and .dev.")
    ],
    folder: Annotated[Path, ui.option("New folder for the model.", "--out", metavar="FOLDER")],
    vectors: Annotated[
        Path | None, ui.option("Of a bilstm: .bin, .txt or .vec word vectors.", metavar="FILE")
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

    checked_by_settings: Any = kind
    settings = TrainSettings(
        kind=checked_by_settings,
        data=data,
        vectors=vectors,
        encoder=encoder,
        epochs=epochs,
        seed=seed,
        device=device,
    )
    stopped = f"Stopped. Nothing is kept in {folder}: run the same command again to start over."
    with ui.stoppable(stopped), progress_bars.show_bars() as bar:
        trained = train_model(settings, folder, bar=bar)
    data_audit = trained["audit"]
    gap = data_audit["gap"]
    for group in ("male", "female"):
        published = "published: {:,}, {:.3f}".format(*training_data.PUBLISHED_AUDIT[group])
        count = data_audit[f"n_{group}"]
        mean = numbers.format_number(data_audit[f"mean_{group}"])
        ui.show(
            f"Training sentences with a {group} noun: {count:,}, mean label {mean} ({published})"
        )
    value = numbers.format_number(gap.value, signed=True)
    ends = [numbers.NumberFormat(signed=True).end(end, [0.0]) for end in (gap.ci_low, gap.ci_high)]
    ui.show(f"Female - male: {value} (95 % interval {' to '.join(ends)}, Welch)")
    ui.show(f"Accuracy on {trained['n_dev']} dev sentences: {trained['dev_accuracy']:.3f}")
    ui.show(f"Trained: {folder}")
