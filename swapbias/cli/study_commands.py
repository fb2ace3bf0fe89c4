"""swapbias study: make a study of your own, check it, publish it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from swapbias import hub, models, studies, swapping
from swapbias.cli import terminal as ui
from swapbias.cli.auditing import PROMPT_OPTIONS
from swapbias.cli.completion import complete_corpora
from swapbias.cli.help_screens import CommandList
from swapbias.cli.plans import study_designs
from swapbias.errors import UsageError
from swapbias.studies import own

study = typer.Typer(
    cls=CommandList, no_args_is_help=True, help="Make a study of your own: a folder of tables."
)

Folder = Annotated[Path, ui.argument("FOLDER", "Folder of the study.")]


@study.command("new", cls=ui.Sectioned)
def new(
    folder: Folder,
    template: Annotated[
        str,
        ui.option(
            "slots; ranking: candidates with CVs and names; judge: texts that a model grades; "
            "retrieval: documents that a search finds; tagger: notes with names to find."
        ),
    ] = "slots",
) -> None:
    """Write a small complete example to edit: it can be audited at once."""
    files = own.new_study(folder, template)
    ui.show(f"Written to {folder}: {', '.join(file.name for file in files)}.")
    model = "--chat MODEL" if template in ("ranking", "judge") else "MODEL"
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
        Path | None,
        ui.option("Of a file: words (word,group) at <mask>.", "--lexicon", metavar="FILE"),
    ] = None,
    settings: ui.ModelSettings = None,
) -> None:
    """Find faults by file and line; exit 1 where an audit would refuse the study.

    Settings of own prompts are those of swapbias audit: -M fixed=topic.
    """
    prompt_options = ui.read_settings(settings, PROMPT_OPTIONS)
    if words and "lexicon" in prompt_options:
        raise UsageError("lexicon is an option and a setting of -M. Drop one of them.")
    if not source.exists() and _is_packaged(str(source)):
        _check_declarations(str(source))
        return
    checked = swapping.check_study(
        source, reference=reference, **{"lexicon": words} | prompt_options
    )
    designs = [*study_designs(checked.corpus)] if checked.corpus else []
    for sentence in (*checked.faults, *checked.advice, *designs):
        ui.show(sentence)
    if checked.faults:
        ui.show(_describe_errors(len(checked.faults), "running an audit"))
        raise typer.Exit(1)
    if checked.advice:
        remarks = "1 remark" if len(checked.advice) == 1 else f"{len(checked.advice)} remarks"
        ui.show(f"It can be audited; {remarks}.")
    else:
        ui.show("It can be audited.")


@study.command("test", cls=ui.Sectioned)
def check_before_publishing(
    name: Annotated[
        str,
        ui.argument(
            "NAME", "Corpus or study of the package, or installed.", autocompletion=complete_corpora
        ),
    ],
    write: Annotated[bool, ui.option("Record its rows in rows.csv.", "--write")] = False,
) -> None:
    """Find what a corpus and its study lack before they are published; exit 1 where they lack anything.

    Faults of the declarations, rows that are not those recorded, missing parts of the card, rewordings.
    """
    if not _is_packaged(name):
        raise UsageError(
            f"{name} is no corpus of the package, and none is installed by that name. "
            "A folder of your own is checked by swapbias study check."
        )
    has_faults = _show_declaration_faults(name)
    from swapbias.hub import corpus_check  # which imports a large library

    if write and not has_faults:
        ui.show(f"Written: {corpus_check.record_rows(name)}")
    lacking = corpus_check.check_corpus(name, cards_only=has_faults)
    _show_sentences([*lacking.faults, *lacking.remarks])
    if lacking.faults:
        ui.show(_describe_errors(len(lacking.faults), "publishing it"))
        ui.show(f"Rows are recorded by swapbias study test {name} --write")
    elif not has_faults:
        ui.show("It can be published.")
    raise typer.Exit(has_faults or bool(lacking.faults))


def _describe_errors(count: int, next_step: str) -> str:
    """Say how many errors there are, and what they must be fixed for."""
    errors = "1 error; fix it" if count == 1 else f"{count} errors; fix them"
    return f"{errors} before {next_step}."


def _is_packaged(name: str) -> bool:
    """Tell whether a name is that of a corpus of the package, or of one that another distribution installed."""
    has_tables = name.isidentifier() and studies.corpus_dir(name).is_dir()
    return has_tables or name in studies.corpora()


def _check_declarations(name: str) -> None:
    """Show the faults of a study of the package; exit 1 where there are any."""
    raise typer.Exit(_show_declaration_faults(name))


def _show_declaration_faults(name: str) -> bool:
    """Show the faults of a study of the package, and tell whether there are any."""
    faults, unread = models.package_faults(name)
    _show_sentences([*faults, *unread])
    if faults:
        ui.show(_describe_errors(len(faults), "running an audit"))
    else:
        ui.show("It can be audited.")
    return bool(faults)


def _show_sentences(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        ui.show(sentence)


@study.command("push", cls=ui.Sectioned)
def push_folder(
    folder: Folder,
    repo: Annotated[str, ui.argument("OWNER/NAME", "A dataset on the Hub; made if need be.")],
    public: Annotated[bool, ui.option("Everybody may read it.", "--public")] = False,
    overwrite: ui.Overwrite = False,
    dry_run: ui.DryRun = False,
) -> None:
    """Publish a study as a dataset: others run it with --study OWNER/NAME."""
    pushed = hub.push_study(
        hub.Hub(),
        folder,
        repo,
        private=not public,
        overwrite=overwrite,
        dry_run=dry_run,
        say=ui.say,
    )
    ui.show(pushed.sentence())
    if pushed.commit:
        ui.show(f"Others run it with swapbias audit MODEL --study {repo}@{pushed.commit}")
