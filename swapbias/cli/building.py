"""swapbias build, swap, train, study and lexicon: corpora, swapped texts, trained models, own questions."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from swapbias import files, hub, privacy, report, runs, studies, swapping
from swapbias.cli import terminal as ui
from swapbias.cli.listing import CLUSTER, ModelSettings, engine_of, read_settings
from swapbias.errors import UsageError

_MOST_TERMS = 10  # that a terminal shows; report.csv has them all


def build(
    names: Annotated[list[str] | None, ui.argument("[CORPUS]...")] = None,
    folder: ui.OutFolder = Path("swapbias-corpora"),
    data: Annotated[Path | None, ui.option("Your notes (MIMIC-III, MIMIC-IV-Note, own CSV).")] = None,
) -> None:
    """Write corpora for datasets.load_dataset."""
    from swapbias.hub import datasets

    names = names or [name for name in studies.corpora() if data is None or studies.load_corpus(name).local]
    for name in names:
        studies.load_corpus(name)  # an unknown name is refused before anything is written
    with ui.stoppable(lambda: f"Stopped. Corpora that are whole stay in {folder}: the same command builds all."):
        for name in names:
            left_out: dict[str, list[str]] = {}
            for built in datasets.build(name, folder, data=data):
                if built.reason:
                    left_out.setdefault(built.reason, []).append(built.config)
                else:
                    ui.show(f"{name} {built.config}: {built.rows} rows")
            for reason, configs in left_out.items():
                ui.show(f"{name} {', '.join(configs)}: left out: {reason}")
    ui.show(f"Built in {folder}")


def swap(
    source: Annotated[str, ui.argument("INPUT", "CSV, TSV, JSON lines, Parquet, folder or Hub id.")],
    folder: Annotated[str, ui.option("Folder, new or begun, or s3://BUCKET/FOLDER.", "--out", metavar="PATH")],
    column: Annotated[str, ui.option("Column of texts.")] = "text",
    mode: Annotated[str, ui.option("swap, neutralise, augment or pairs.")] = "swap",
    table: Annotated[
        str, ui.option("resolved, paper, race, age, two pronouns (she-they) or a CSV file.")
    ] = "resolved",
    whose: Annotated[str | None, ui.option("everyone, or patient: relatives and staff stay. MIMIC: patient.")] = None,
    spouses: Annotated[str, ui.option("With --whose patient: swap or keep husbands and wives.")] = "swap",
    gender: Annotated[str | None, ui.option("Column of the patient's gender; none: gender, or text.")] = None,
    processes: Annotated[int, ui.option("Processes that swap.")] = 1,
    split: Annotated[str | None, ui.option("Split of a Hub dataset that has several.")] = None,
    credentialed: Annotated[bool, ui.option("Mark rows as not to be shared.", "--credentialed")] = False,
    plausible: Annotated[
        bool, ui.option("Leave out rows with gender-specific clinical terms (pregnant).", "--plausible")
    ] = False,
    names: Annotated[bool, ui.option("Swap given names too, by how common they are.", "--names")] = False,
    batch_rows: Annotated[int, ui.option("Most rows swapped at once.")] = 2000,
    model_settings: ModelSettings = None,
    as_json: ui.AsJson = False,
) -> None:
    """Swap gendered words in texts.

    It writes Parquet; the same command goes on after a stop.

    More than one machine: -M engine=ray -M workers=N (swapbias help settings cluster).
    """
    job = swapping.Job(
        source, column, mode, table, split, credentialed, whose=whose, spouses=spouses, gender=gender,
        plausible=plausible, names=names,
    )  # fmt: skip
    cluster = read_settings(model_settings, CLUSTER)
    engine = engine_of(cluster, folder)
    with (
        ui.stoppable(lambda: f"Stopped. Whole parts are kept in {folder}: the same command goes on."),
        ui.progress() as bar,
        ui.working_folder(folder, own=cluster.get("own_store", False)) as (here, store),
    ):
        advance, position = None, 0

        def on_progress(step: "swapping.Progress") -> None:
            nonlocal advance, position
            if step.size:  # bytes of the input
                advance = advance or bar("Swapping (bytes)", step.size)
                advance(step.position - position)
                position = step.position

        done = swapping.swap_files(
            job, here, processes=processes, batch_rows=batch_rows, on_progress=on_progress, engine=engine,
            uploaded_to=None if store is None or store.own else str(store),
        )  # fmt: skip
    if as_json:
        ui.show_json({"folder": folder, "credentialed": done.credentialed, **done.totals.counts()})
        return
    for name, total in done.totals.counts().items():
        if isinstance(total, int):
            ui.show(f"{name.replace('_', ' ')}: {total:,}")
    for kind, terms in done.totals.by_kind().items():
        for term, count in terms.most_common(_MOST_TERMS):
            ui.show(f"{kind}: {term}: {count:,}")
        if len(terms) > _MOST_TERMS:
            ui.show(f"{kind}: {len(terms) - _MOST_TERMS} more in report.csv")
    seconds = max(done.last.seconds, 1e-9)
    speed = f", {done.last.text_bytes / 1e6 / seconds:.1f} MB/s" if done.last.text_bytes else ""
    ui.say(f"{done.totals.text_bytes / 1e6:,.1f} MB of text{speed}.")
    if done.credentialed:
        ui.say(f"Every row is marked credentialed ({done.credentialed}): publish, upload or send none to an API.")
    ui.show(f"Swapped: {folder}")


def train(
    kind: Annotated[str, ui.argument("KIND", "bow, bilstm or encoder.")],
    data: Annotated[str, ui.option("sst2 (from the Hub), or a folder with train and dev (.tsv, stsa).")],
    folder: Annotated[Path, ui.option("New folder for the model.", "--out")],
    vectors: Annotated[Path | None, ui.option("Of a bilstm: .kv, .bin, .txt or .vec word vectors.")] = None,
    encoder: Annotated[str | None, ui.option("Hub id or folder; none: bert-base-uncased.")] = None,
    epochs: Annotated[int | None, ui.option("Of an encoder (3), or most of a bilstm (30).", min=1)] = None,
    seed: Annotated[int, ui.option("Seed of weights, dropout and order.", min=0)] = 0,
    device: Annotated[str, ui.option("auto, cpu, cuda or mps.")] = "auto",
    batch_size: Annotated[int, ui.option("Sentences per step.", min=1)] = 32,
    allow_pickle: Annotated[
        bool, ui.option("Read .kv vectors: runs what their maker put in them.", "--allow-pickle")
    ] = False,
    as_json: ui.AsJson = False,
) -> None:
    """Train a sentiment model that swapbias audit takes."""
    from swapbias.models.sentiment import PUBLISHED_AUDIT, TrainSettings, train_model

    settings = TrainSettings(
        kind=kind, data=data, vectors=vectors, encoder=encoder, epochs=epochs, seed=seed, device=device,
        batch_size=batch_size, allow_pickle=allow_pickle,
    )  # fmt: skip
    stopped = f"Stopped. Nothing is kept in {folder}: the same command begins anew."
    with ui.stoppable(lambda: stopped), ui.progress() as bar:
        trained = train_model(settings, folder, say=ui.say, bar=bar)
    if as_json:
        ui.show_json(asdict(trained) | {"folder": str(trained.folder)})
        return
    found = trained.audit
    for group, count, mean in (
        ("male", found.n_male, found.mean_male),
        ("female", found.n_female, found.mean_female),
    ):
        known, share = PUBLISHED_AUDIT[group]
        published = f"published: {known:,}, {share:.3f}"
        ui.show(f"Training sentences with a {group} noun: {count:,}, mean label {_number(mean)} ({published})")
    value, low, high = (_number(one, "+.3f") for one in (found.gap.value, found.gap.ci_low, found.gap.ci_high))
    gap = f"Female - male: {value} [{low}, {high}], p {report.p_value(found.gap.p_value)} (Welch)"
    ui.show(f"{gap}; {found.n_both:,} sentences count in both.")
    ui.show(f"Accuracy on {trained.n_dev} dev sentences: {trained.dev_accuracy:.3f}")
    ui.show(f"Trained: {trained.folder}")


def _number(value: float, form: str = ".3f") -> str:
    return "–" if math.isnan(value) else format(value, form)


# --- studies and words of one's own --------------------------------------------------------------------

study = typer.Typer(no_args_is_help=True, help="Make a study of your own: a folder of tables.")
lexicon = typer.Typer(no_args_is_help=True, help="Rate words of the attitude lexicon.")

Folder = Annotated[Path, ui.argument("FOLDER", "Folder of the study.")]


@study.command("new", cls=ui.Sectioned)
def new(
    folder: Folder, template: Annotated[str, ui.option("slots, or ranking: candidates with CVs and names.")] = "slots"
) -> None:
    """Write a small complete example to edit: it can be audited at once."""
    made = studies.new_study(folder, template)
    ui.show(f"Written to {folder}: {', '.join(one.name for one in made)}.")
    model = "--chat MODEL" if template == "ranking" else "MODEL"
    ui.show(f"Next: edit them, swapbias study check {folder}, swapbias audit {model} --study {folder}")


@study.command("check", cls=ui.Sectioned)
def check_folder(
    source: Annotated[Path, ui.argument("SOURCE", "Folder of the study, or a CSV file of prompts.")],
    reference: Annotated[str, ui.option("Of a CSV file: the group that is subtracted.")] = "",
    words: Annotated[
        Path | None, ui.option("Of a CSV file: words (word,group) counted at <mask>.", "--lexicon")
    ] = None,
    as_json: ui.AsJson = False,
) -> None:
    """Find faults by file and line; exit 1 where an audit would refuse the study."""
    found = studies.check_study(source, reference=reference, lexicon=words)
    designs = [*runs.study_designs(found.corpus)] if found.corpus else []
    if as_json:
        ui.show_json({"faults": found.faults, "advice": found.advice, "designs": designs})
    else:
        for sentence in (*found.faults, *found.advice, *designs):
            ui.show(sentence)
        sound = f"It can be audited{f'; {len(found.advice)} remarks' if found.advice else ''}."
        ui.show(f"{len(found.faults)} to mend before an audit." if found.faults else sound)
    raise typer.Exit(bool(found.faults))


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
    ui.show(f"{done.repo.name}: {done.status}{' (private)' if done.private else ''}, {done.tag}{at}")
    if done.commit:
        ui.show(f"Others run it with swapbias audit MODEL --study {repo}@{done.commit}")


@lexicon.command("export", cls=ui.Sectioned)
def export_words(
    run: ui.RunFolder, file: Annotated[Path, ui.option("CSV to write.", "--out")] = Path("unrated.csv")
) -> None:
    """Write the words of a run without a label, heaviest first."""
    name = studies.rated()[0].name
    items = runs.Run.open(run).items(name)
    if items is None:
        raise UsageError(f"{run} holds no finished {name}. Audit with --study {name}.")
    words = studies.unrated_words(items)
    with privacy.for_owner_alone(privacy.is_credentialed(run)):
        files.write_whole(file, files.as_csv(words))
    ui.show(f"{len(words)} words with {words['mass'].sum():.1%} of the mass are unrated.")
    ui.show(f"Words: {file}")


@lexicon.command("import", cls=ui.Sectioned)
def import_words(file: Annotated[Path, ui.argument("FILE", "CSV with the columns word and label.")]) -> None:
    """Add your labels (positive, negative, neutral, irrelevant) for later audits."""
    ui.show(f"{studies.import_labels(file)} words of your own are now part of the attitude lexicon.")
