"""swapbias audit: from a model to a report."""

from pathlib import Path
from typing import Annotated

import typer

from swapbias.cli.terminal import out, progress, say
from swapbias.errors import UsageError

_WITH_RESUME = ("resume", "no_cache", "allow_pickle", "trust")  # anything else is taken from the run
BUILT_IN = ("svm", "rf", "mlp", "tfidf-lsa", "vader")


def audit(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(show_default=False, help="Hub id, local folder, vader or module:function; none: calibration."),
    ] = None,
    study: Annotated[list[str] | None, typer.Option(help="NAME or NAME:CONFIG; may be repeated.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="masked, classifier or causal, where the config does not tell.")
    ] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="Folder of the run.", show_default=False)] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Most prompts per config (and trial of a chat model), whole pairs.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts per forward pass.")] = 64,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="float32, or bfloat16 (faster, changes results).")] = "float32",
    prune: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Recursive masking: give up branches less likely (.01 in all at most); 0 is exact."
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the calibration model and of resampling.")] = 0,
    positive_label: Annotated[str | None, typer.Option(help="The classifier's label for positive.")] = None,
    negative_label: Annotated[str | None, typer.Option(help="The classifier's label for negative.")] = None,
    embedding: Annotated[
        list[str] | None,
        typer.Option(help="Word vectors (file) or encoder (Hub id, folder), NAME=PATH; may be repeated."),
    ] = None,
    classifier: Annotated[
        str, typer.Option(help="svm, rf or mlp, trained here; or your own: file, folder, Hub id, module:function.")
    ] = "svm",
    data: Annotated[Path | None, typer.Option(help="Your notes: MIMIC-III folder, CSV, JSON lines, Parquet.")] = None,
    allow_pickle: Annotated[
        bool,
        typer.Option("--allow-pickle", help="Read .joblib, .pkl, .kv: runs what their makers put in them."),
    ] = False,
    plausible: Annotated[
        bool, typer.Option("--plausible", help="Leave notes with gender-specific clinical terms out.")
    ] = False,
    chat: Annotated[
        str | None, typer.Option(help="Chat model: its name at the endpoint, a Hub id, or a local folder.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="OpenAI-compatible endpoint; none: Hugging Face Inference Providers.")
    ] = None,
    provider: Annotated[
        str | None, typer.Option(help="Inference provider, or local: run the Hub id with transformers here.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, max=1000, help="Times each prompt is asked.")] = 5,
    temperature: Annotated[float, typer.Option(min=0.0, help="Of the chat model.")] = 1.0,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Most tokens of an answer; models that think first need thousands.")
    ] = 16,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests at once.")] = 8,
    max_requests: Annotated[
        int | None, typer.Option(min=0, help="Stop before the first request beyond this.")
    ] = None,
    price_in: Annotated[float | None, typer.Option(min=0.0, help="Price of a million prompt tokens.")] = None,
    price_out: Annotated[float | None, typer.Option(min=0.0, help="Price of a million answer tokens.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many requests, tokens and how much it costs; send nothing.")
    ] = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Score everything again, and keep no scores for later audits.")
    ] = False,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="With --resume: run the Python function or pickle that the run names.")
    ] = False,
) -> None:
    """Audit a model: score the prompts, compare the groups, write findings, figures and a report."""
    from swapbias import audit as auditing
    from swapbias.cli.terminal import print_headlines
    from swapbias.scorers import LoadOptions
    from swapbias.scorers.chat import ChatSettings

    with progress() as bar:
        if resume:
            given = [name for name in context.params if _was_given(context, name) and name not in _WITH_RESUME]
            if given:
                named = ", ".join("MODEL" if name == "model" else name for name in given)
                raise UsageError(f"--resume takes everything from the run, and {named} is given. Drop the others.")
            allowed = {"trust": trust, "allow_pickle": allow_pickle}
            run, found = auditing.resume(resume, say=say, bar=bar, cache=not no_cache, **allowed)
        elif trust:
            raise UsageError("--trust is for the code that a run names, and no --resume is given. Drop it.")
        else:
            settings = auditing.Settings(
                model=_absolute(model) if model else None,
                studies=tuple(study or ()),
                kind=kind,
                limit=limit,
                seed=seed,
                load=LoadOptions(
                    device=device,
                    dtype=dtype,
                    prune=prune,
                    batch_size=batch_size,
                    positive_label=positive_label,
                    negative_label=negative_label,
                    allow_pickle=allow_pickle,
                ),
                notes=auditing.NoteSettings(
                    embeddings=tuple(_absolute(one) for one in embedding or ()),
                    classifier=_absolute(classifier),
                    data=str(data.resolve()) if data else None,
                    plausible=plausible,
                ),
                chat=ChatSettings(
                    model=_absolute(chat) if chat else None,
                    base_url=base_url,
                    provider=provider,
                    trials=trials,
                    temperature=temperature,
                    max_tokens=max_tokens,
                    concurrency=concurrency,
                    max_requests=max_requests,
                    price_in=price_in,
                    price_out=price_out,
                ),
            )
            if dry_run:
                for sentence in auditing.told_plan(settings):
                    out.print(sentence, soft_wrap=True, markup=False)
                out.print("Dry run: nothing was sent.")
                return
            place = folder or auditing.default_folder(settings)
            run, found = auditing.start(settings, place, say=say, bar=bar, cache=not no_cache)
    for one in run.manifest()["skipped"]:
        out.print(f"Not run: {one['study']} {one['experiment']}: {one['reason']}.", soft_wrap=True, markup=False)
    print_headlines(out, found)
    out.print(f"Report: {run.folder / 'report.html'}", soft_wrap=True, markup=False)


def _absolute(model: str) -> str:
    """A model, or NAME=PATH, with the path of a local file or folder made absolute, so that a run can go on."""
    if model in BUILT_IN:  # a folder of that name does not matter
        return model
    name, equals, path = model.rpartition("=")
    place = Path(path) if equals and not Path(model).exists() else Path(model)
    return f"{name}{equals}{place.resolve()}" if equals and place.exists() else _resolved(model)


def _resolved(model: str) -> str:
    return str(Path(model).resolve()) if Path(model).exists() else model


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
