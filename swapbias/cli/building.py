"""swapbias build, swap, train, study and lexicon: corpora, swapped texts, trained models, own questions."""

import csv
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swapbias.cli.listing import CLUSTER, ModelSettings, engine_of, read_settings
from swapbias.cli.terminal import (
    AsJson,
    DryRun,
    RunFolder,
    out,
    plain_table,
    progress,
    say,
    show,
    show_json,
    stoppable,
    working_folder,
)
from swapbias.errors import UsageError

if TYPE_CHECKING:
    from swapbias.models.sentiment import GenderAudit
    from swapbias.swapping import Progress, SwapResult

_MOST_TERMS = 10  # in the closing table; report.csv has them all


def build(
    names: Annotated[list[str] | None, typer.Argument(metavar="[CORPUS]...")] = None,
    folder: Annotated[Path, typer.Option("--out", help="Folder to write to.")] = Path("swapbias-corpora"),
    data: Annotated[Path | None, typer.Option(help="Your notes (MIMIC-III, MIMIC-IV-Note, own CSV).")] = None,
) -> None:
    """Write corpora for datasets.load_dataset."""
    from swapbias.studies import corpora, load_corpus

    names = names or [name for name in corpora() if data is None or load_corpus(name).local]
    for name in names:
        load_corpus(name)  # an unknown name is refused before anything is written
    with stoppable(lambda: f"Stopped. Corpora that are whole stay in {folder}: the same command builds all."):
        _build(names, folder, data)
    show(f"Built in {folder}")


def _build(names: Sequence[str], folder: Path, data: Path | None) -> None:
    from swapbias.hub import datasets as writing

    for name in names:
        left_out: dict[str, list[str]] = {}
        for built in writing.build(name, folder, data=data):
            if built.reason:
                left_out.setdefault(built.reason, []).append(built.config)
            else:
                show(f"{name} {built.config}: {built.rows} rows")
        for reason, configs in left_out.items():
            show(f"{name} {', '.join(configs)}: left out: {reason}")


def swap(
    source: Annotated[str, typer.Argument(metavar="INPUT", help="CSV, TSV, JSON lines, Parquet, folder or Hub id.")],
    folder: Annotated[
        str, typer.Option("--out", metavar="PATH", help="Folder, new or begun, or s3://BUCKET/FOLDER.")
    ],
    column: Annotated[str, typer.Option(help="Column of texts.")] = "text",
    mode: Annotated[str, typer.Option(help="swap, neutralise, augment or pairs.")] = "swap",
    table: Annotated[
        str, typer.Option(help="resolved, paper, race, age, two pronouns (she-they) or a CSV file.")
    ] = "resolved",
    whose: Annotated[
        str | None, typer.Option(help="everyone, or patient: relatives and staff stay. MIMIC: patient.")
    ] = None,
    spouses: Annotated[str, typer.Option(help="With --whose patient: swap or keep husbands and wives.")] = "swap",
    gender: Annotated[str | None, typer.Option(help="Column of the patient's gender; none: gender, or text.")] = None,
    processes: Annotated[int, typer.Option(help="Processes that swap.")] = 1,
    split: Annotated[str | None, typer.Option(help="Split of a Hub dataset that has several.")] = None,
    credentialed: Annotated[bool, typer.Option("--credentialed", help="Mark rows as not to be shared.")] = False,
    plausible: Annotated[
        bool, typer.Option("--plausible", help="Leave out rows with gender-specific clinical terms (pregnant).")
    ] = False,
    names: Annotated[bool, typer.Option("--names", help="Swap given names too, by how common they are.")] = False,
    batch_rows: Annotated[int, typer.Option(help="Most rows swapped at once.")] = 2000,
    model_settings: ModelSettings = None,
    as_json: AsJson = False,
) -> None:
    """Swap gendered words in texts.

    It writes Parquet; the same command goes on after a stop.

    More than one machine: -M engine=ray -M workers=N (swapbias help settings cluster).
    """
    from swapbias.swapping import Job, swap_files

    job = Job(
        source, column, mode, table, split, credentialed, whose=whose, spouses=spouses, gender=gender,
        plausible=plausible, names=names,
    )  # fmt: skip
    cluster = read_settings(model_settings, CLUSTER)
    engine = engine_of(cluster, folder)
    sentence = f"Stopped. Whole parts are kept in {folder}: the same command goes on."
    with (
        stoppable(lambda: sentence),
        progress() as bar,
        working_folder(folder, own=cluster.get("own_store", False)) as (here, store),
    ):
        advance, position = None, 0

        def on_progress(step: "Progress") -> None:
            nonlocal advance, position
            if step.size:  # bytes of the input
                advance = advance or bar("Swapping (bytes)", step.size)
                advance(step.position - position)
                position = step.position

        done = swap_files(
            job, here, processes=processes, batch_rows=batch_rows, on_progress=on_progress, engine=engine, say=say,
            uploaded_to=None if store is None or store.own else str(store),
        )  # fmt: skip
    if as_json:
        show_json({"folder": folder, "credentialed": done.credentialed, **asdict(done.totals)})
    else:
        _show_swapped(done, folder)


def _show_swapped(done: "SwapResult", place: str) -> None:
    """One table: rows, terms, doubts, and where it all is."""
    totals, last = done.totals, done.last
    table = plain_table("Swapped", "what", numbers=("count",))
    for what, count in (
        ("rows read", totals.rows_read),
        ("rows written", totals.rows_written),
        ("rows with a replacement", totals.rows_replaced),
        ("rows left out: nothing to replace", totals.rows_left_out),
        ("rows left out: implausible in the other gender", totals.rows_implausible),
        ("rows with a doubtful decision", totals.rows_ambiguous),
        ("rows with a gender-specific term", totals.rows_specific),
    ):
        table.add_row(what, f"{count:,}")
    for kind, counts in totals.by_kind().items():
        table.add_section()
        first = counts.most_common(_MOST_TERMS)
        for term, count in first:
            table.add_row(f"{kind}: {term}", f"{count:,}")
        if rest := len(counts) - len(first):
            others = sum(counts.values()) - sum(count for _, count in first)
            table.add_row(f"{kind}: {rest} more, see report.csv", f"{others:,}")
    out.print(table)
    speed = f", {last.text_bytes / 1e6 / max(last.seconds, 1e-9):.1f} MB/s" if last.text_bytes else ""
    say(f"{totals.text_bytes / 1e6:,.1f} MB of text{speed}.")
    if done.credentialed:
        say(f"Every row is marked credentialed ({done.credentialed}): do not publish, upload or send them to an API.")
    show(f"Swapped: {place}")


def train(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="bow, bilstm or encoder.")],
    data: Annotated[
        str, typer.Option(help="sst2 (from the Hub), or a folder with train and dev (.tsv, .csv, stsa).")
    ],
    folder: Annotated[Path, typer.Option("--out", help="New folder for the model.")],
    vectors: Annotated[Path | None, typer.Option(help="Of a bilstm: .kv, .bin, .txt or .vec word vectors.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Hub id or folder; none: bert-base-uncased.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Of an encoder (3), or most of a bilstm (30).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, dropout and order.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences per step.")] = 32,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Read .kv vectors: runs what their maker put in them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a sentiment model that swapbias audit takes."""
    from swapbias.models.sentiment import TrainSettings, train_model

    settings = TrainSettings(
        kind=kind, data=data, vectors=vectors, encoder=encoder, epochs=epochs, seed=seed, device=device,
        batch_size=batch_size, allow_pickle=allow_pickle,
    )  # fmt: skip
    with stoppable(lambda: f"Stopped. Nothing is kept in {folder}: the same command begins anew."), progress() as bar:
        trained = train_model(settings, folder, say=say, bar=bar)
    if as_json:
        show_json(asdict(trained) | {"folder": str(trained.folder)})
        return
    _show_training_data(trained.audit)
    show(f"Accuracy on {trained.n_dev} dev sentences: {trained.dev_accuracy:.3f}")
    show(f"Trained: {trained.folder}")


def _show_training_data(audit: "GenderAudit") -> None:
    """Labels of the training sentences with male and with female nouns, beside the published numbers."""
    from swapbias.models.sentiment import PUBLISHED_AUDIT
    from swapbias.report import p_value

    numbers = ("sentences", "mean label", "published", "published mean")
    table = plain_table("Training data by gender", "training sentences", numbers=numbers)
    for group, count, mean in (
        ("male", audit.n_male, audit.mean_male),
        ("female", audit.n_female, audit.mean_female),
    ):
        known, share = PUBLISHED_AUDIT[group]
        table.add_row(f"with a {group} noun", f"{count:,}", _number(mean), f"{known:,}", f"{share:.3f}")
    out.print(table)
    value, low, high = (_number(one, "+.3f") for one in (audit.gap.value, audit.gap.ci_low, audit.gap.ci_high))
    gap = f"Female - male: {value} [{low}, {high}], p {p_value(audit.gap.p_value)} (Welch)"
    show(f"{gap}; {audit.n_both:,} sentences count in both.")


def _number(value: float, form: str = ".3f") -> str:
    return "–" if math.isnan(value) else format(value, form)


# --- studies and words of one's own --------------------------------------------------------------------

study = typer.Typer(no_args_is_help=True, help="Make a study of your own: a folder of tables.")
lexicon = typer.Typer(no_args_is_help=True, help="Rate words of the attitude lexicon.")

Folder = Annotated[Path, typer.Argument(help="Folder of the study.")]
Labels = Annotated[Path, typer.Argument(help="CSV with the columns word and label.")]


@study.command("new")
def new(folder: Folder) -> None:
    """Write a small complete example to edit: it can be audited at once."""
    from swapbias.studies import new_study

    made = new_study(folder)
    show(f"Written to {folder}: {', '.join(one.name for one in made)}.")
    show(f"Next: edit them, swapbias study check {folder}, swapbias audit MODEL --study {folder}")


@study.command("check")
def check_folder(
    source: Annotated[Path, typer.Argument(help="Folder of the study, or a CSV file of prompts.")],
    reference: Annotated[str, typer.Option(help="Of a CSV file: the group that is subtracted.")] = "",
    words: Annotated[
        Path | None, typer.Option("--lexicon", help="Of a CSV file: words (word,group) counted at <mask>.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find faults by file and line; exit 1 where an audit would refuse the study."""
    from swapbias.runs import study_designs
    from swapbias.studies import check_study

    found = check_study(source, reference=reference, lexicon=words)
    designs = [*study_designs(found.corpus)] if found.corpus else []
    if as_json:
        show_json({"faults": found.faults, "advice": found.advice, "designs": designs})
        raise typer.Exit(1 if found.faults else 0)
    for sentence in (*found.faults, *found.advice, *designs):
        show(sentence)
    if found.faults:
        show(f"{len(found.faults)} to mend before an audit.")
        raise typer.Exit(1)
    show(f"It can be audited{f'; {len(found.advice)} remarks' if found.advice else ''}.")


@study.command("read")
def read(
    answers: Annotated[
        Path, typer.Argument(help="CSV: answer, options (joined by |), if need be reading, lettered.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show how each answer of a chat model is read: as an option, refused or unreadable."""
    from swapbias.studies import read_answer

    with answers.open(encoding="utf-8-sig", newline="") as handle:
        reader = csv.DictReader(handle, restval="")
        lines = [(reader.line_num, row) for row in reader]
    rows, read_as = [row for _, row in lines], []
    for name in ("answer", "options"):
        if name not in (reader.fieldnames or ()):
            raise UsageError(f"{answers.name} has no column {name}. Add it.")
    for line, row in lines:
        lettered = (row.get("lettered") or "").strip().lower() in ("yes", "true", "1")
        try:
            how: Any = {"reading": row.get("reading") or "option", "lettered": lettered}
            read_as.append(read_answer(row["answer"], row["options"].split("|"), **how))
        except UsageError as error:
            raise UsageError(f"{answers.name}:{line}: {error}") from error
    if as_json:
        show_json([{**row, "read_as": one} for row, one in zip(rows, read_as, strict=True)])
        return
    for row, one in zip(rows, read_as, strict=True):
        show(f"{one:<24} {' '.join(row['answer'].split())[:90]}")
    counts = Counter(one if one in ("refused", "unreadable") else "read" for one in read_as)
    show(f"{counts['read']} of {len(rows)} read, {counts['refused']} refused, {counts['unreadable']} unreadable.")


@study.command("push")
def push_folder(
    folder: Folder,
    repo: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="A dataset on the Hub; made if need be.")],
    public: Annotated[bool, typer.Option("--public", help="Everybody may read it.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Publish a study as a dataset: others run it with --study OWNER/NAME."""
    from swapbias.hub import Hub, push_study

    done = push_study(Hub(), folder, repo, private=not public, dry_run=dry_run, say=say)
    at = f" at {done.commit[:12]}" if done.commit else ""
    show(f"{done.repo.name}: {done.status}{' (private)' if done.private else ''}, {done.tag}{at}")
    if done.commit:
        show(f"Others run it with swapbias audit MODEL --study {repo}@{done.commit}")


@lexicon.command("export")
def export_words(
    run: RunFolder,
    file: Annotated[Path, typer.Option("--out", help="CSV to write.")] = Path("unrated.csv"),
) -> None:
    """Write the words of a run without a label, heaviest first."""
    from swapbias.files import as_csv, write_whole
    from swapbias.privacy import for_owner_alone, is_credentialed
    from swapbias.runs import Run
    from swapbias.studies import rated, unrated_words

    name = rated()[0].name
    items = Run.open(run).items(name)
    if items is None:
        raise UsageError(f"{run} holds no finished {name}. Audit with --study {name}.")
    words = unrated_words(items)
    with for_owner_alone(is_credentialed(run)):
        write_whole(file, as_csv(words))
    show(f"{len(words)} words with {words['mass'].sum():.1%} of the mass are unrated.")
    show(f"Words: {file}")


@lexicon.command("import")
def import_words(file: Labels) -> None:
    """Add your labels (positive, negative, neutral, irrelevant) for later audits."""
    from swapbias.studies import import_labels

    show(f"{import_labels(file)} words of your own are now part of the attitude lexicon.")


@lexicon.command("agreement")
def compare_raters(first: Labels, second: Labels) -> None:
    """Compute Cohen's kappa of two raters over the words that both labelled."""
    from swapbias.studies import agreement, read_labels

    kappa, share, words = agreement(read_labels(first), read_labels(second))
    show(f"kappa {kappa:.3f}, equal labels {share:.1%}, words {words}")
