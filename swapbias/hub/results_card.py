"""The README of a results repository: which runs it holds, what they found, how to load them, how to read them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from swapbias.findings import Finding
from swapbias.hub import markdown as marked
from swapbias.hub.header import load, split, with_keys
from swapbias.hub.markdown import markdown, url
from swapbias.hub.model_card import PromptsRead, headline_rows, prompts_read
from swapbias.studies import Study, corpora, load_corpus, load_study

FINDINGS = "findings"  # the config of every run's findings
BEGIN, END = "<!-- swapbias:begin results -->", "<!-- swapbias:end results -->"
TAGS = ("bias", "fairness", "swapbias")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")  # of a run: a folder, and part of a config's name
_REPO = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


class SharedRun(Protocol):
    """A run in the repository: the name of its folder, its public manifest and what it found."""

    @property
    def name(self) -> str:
        """The folder's name below ``runs``."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """As ``public_manifest`` makes it."""

    @property
    def found(self) -> Sequence[Finding]:
        """Every finding."""


def results_card(
    repo: str, runs: Iterable[SharedRun], items: Mapping[str, Sequence[str]], *, existing: str = ""
) -> str:
    """The README of a results repository, the same for the same runs in any order.

    What its owner wrote stays byte for byte: everything outside the markers ``BEGIN`` and ``END``, and every key of
    the header but ``configs``, ``tags`` (to which ours are added) and ``pretty_name`` (where there is none).

    Args:
        repo: ``owner/name``.
        runs: every run that the repository will hold.
        items: by the name of a run, the studies whose scored prompts are there as well.
        existing: the README that is there; blank for none.

    Raises:
        ValueError: a name of a repository or of a run that cannot be one, or a README that cannot be added to.
    """
    where = f"{repo}/README.md"
    ordered = sorted(runs, key=lambda run: run.name)
    if not _REPO.fullmatch(repo):
        raise ValueError(f"{repo!r} is no name of a repository, expected OWNER/NAME. Correct it.")
    for run in ordered:
        if not is_run_name(run.name):
            raise ValueError(f"{run.name!r} is no name of a run, expected a-z, 0-9, dots and dashes. Rename it.")
    studies = [load_study(name) for name in sorted({one.study for run in ordered for one in run.found})]
    parts = [
        BEGIN,
        *_opening(repo, ordered),
        *_loading(repo, ordered, items),
        "## Headline findings",
        "By run in alphabetical order, which ranks nothing. Values are raw: unit and sign stand under each table. "
        'Intervals and p-values hold over what the column inference names; "as published" is the interval of the '
        "study's own statistic, which takes every prompt for independent.",
        *(part for run in ordered for part in _headlines(run)),
        "## Limits",
        *(_limits(study) for study in studies),
        "## Licence and citation",
        _licences(ordered),
        "Please cite the studies that were audited:\n\n"
        + "\n".join(f"- {markdown(study.title)}: <{url(study.url)}>" for study in studies),
        END,
    ]
    card = marked.replaced(existing, "\n\n".join(parts), begin=BEGIN, end=END, where=where)
    return _with_header(repo, card, _configs(ordered, items), where)


def is_ours(readme: str, *, where: str) -> bool:
    """Whether a README has the markers of a card that ``results_card`` made.

    Raises:
        ValueError: it has some of them, which make no pair.
    """
    return marked.find(readme, begin=BEGIN, end=END, where=where) is not None


def is_run_name(name: str) -> bool:
    """Whether a folder below ``runs`` has a name that a shared run can have."""
    return bool(_NAME.fullmatch(name))


def item_config(run: str, study: str) -> str:
    """The config that holds the scored prompts of a study of a run."""
    return f"{run}-{study}"


def _with_header(repo: str, card: str, configs: list[dict[str, Any]], where: str) -> str:
    """The card with our keys in its header, beside those of its owner."""
    parts = split(card)
    there = load(parts.header, where, first_line=parts.first_line)
    held = there.get("tags")
    tags = held if isinstance(held, list) else [held] if held else []
    added = [tag for tag in TAGS if tag not in tags]
    values: dict[str, Any] = {} if there.get("pretty_name") else {"pretty_name": f"Bias audits in {repo}"}
    if added:
        values["tags"] = [*tags, *added]
    configs_there = there.get("configs")
    others = [one for one in configs_there if not _names_runs(one)] if isinstance(configs_there, list) else []
    made = with_keys(card, {**values, "configs": [*configs, *others]}, where=where)
    return made if parts.has_header else made.replace("---\n<!--", "---\n\n<!--", 1)


def _names_runs(config: Any) -> bool:
    """Whether a config of the header reads files of runs: those are ours, and made anew."""
    files = config.get("data_files") if isinstance(config, Mapping) else None
    listed = files if isinstance(files, list) else [files]
    paths = [one.get("path") if isinstance(one, Mapping) else one for one in listed]
    return all(str(path).startswith("runs/") for path in paths)


def _configs(runs: Sequence[SharedRun], items: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"config_name": FINDINGS, "default": True, "data_files": _one_split("runs/*/findings.parquet")}
    ]
    for run in runs:
        found += [
            {
                "config_name": item_config(run.name, study),
                "data_files": _one_split(f"runs/{run.name}/items/{study}.parquet"),
            }
            for study in sorted(items.get(run.name, ()))
        ]
    return found


def _one_split(path: str) -> list[dict[str, str]]:
    return [{"split": "train", "path": path}]


def _opening(repo: str, runs: Sequence[SharedRun]) -> Iterator[str]:
    yield f"# Bias audits in {markdown(repo)}"
    yield (
        "Results of [swapbias](https://github.com/swapbias/swapbias): it fills templates, swaps one slot (a woman "
        "for a man, one diagnosis for another) and compares the model's numbers. Every row is a measurement on fixed "
        "prompts. Nothing here ranks models, and a gap near zero does not prove that a model is fair."
    )
    rows = [
        (
            f"`{run.name}`",
            _models(run),
            ", ".join(markdown(name) for name in sorted({one.study for one in run.found})),
            markdown(str(run.manifest.get("started", ""))[:10]),
            markdown(str(run.manifest["swapbias"])),
            markdown(_prompts(run)),
            str(len(run.found)),
        )
        for run in runs
    ]
    yield _table(("run", "models", "studies", "date", "swapbias", "prompts", "findings"), rows, numbers=1)


def _prompts(run: SharedRun) -> str:
    """Which prompts it read: the studies' own, or what in their place."""
    read = _read(run)
    prompts = dict.fromkeys(f"{study}: {one.deviation()}" for (study, _), one in read.items() if one.deviation())
    return "; ".join(prompts) or "the studies' own"


def _read(run: SharedRun) -> dict[tuple[str, str], PromptsRead]:
    pairs = dict.fromkeys((one.study, one.experiment) for one in run.found)
    return {pair: prompts_read(run.manifest, *pair) for pair in sorted(pairs)}


def _models(run: SharedRun) -> str:
    return ", ".join(markdown(one["model_id"]) for one in run.manifest.get("models", []))


def _loading(repo: str, runs: Sequence[SharedRun], items: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield "## Load"
    lines = [
        "from datasets import load_dataset",
        "",
        f'findings = load_dataset("{repo}", "{FINDINGS}", split="train")',
    ]
    first = next(((run.name, sorted(items[run.name])[0]) for run in runs if items.get(run.name)), None)
    if first:
        lines.append(f'prompts = load_dataset("{repo}", "{item_config(*first)}", split="train")')
    yield "\n".join(["```python", *lines, "```"])
    yield (
        "`findings` holds every run's findings, one row each, with its unit, its sign convention and its n; an empty "
        "cell is a number that is not defined. Each run has its scored prompts in a config of its own, if they were "
        "shared. Beside them stand in `runs/<run>` the report, the figures and the manifest (settings, models and "
        "versions, hashes of the prompts). To hold fast what you read, give `revision=` with a commit."
    )


def _headlines(run: SharedRun) -> Iterator[str]:
    shown = headline_rows(run.found)
    yield f"### {run.name}"
    if not shown:
        yield "No comparison over all rows; its rates and means stand in its findings and its report."
        return
    names = ("model", "quantity", "rows", "inference", "value", "95 % interval", "as published", "p corrected", "n")
    rows, readings = [], []
    for one, row in shown:
        quantity = f"{one.study} {row.experiment}: {row.what}"
        cells = (
            one.model_id, quantity, row.where, row.inference, row.value, row.interval, row.published, row.p, row.n
        )  # fmt: skip
        rows.append([markdown(cell) for cell in cells])
        unit = f"{row.unit}; {row.direction}" if row.direction else row.unit
        readings.append(f"- {markdown(quantity)}: {markdown(unit)}.")
    yield _table(names, rows, numbers=5)
    yield "\n".join(dict.fromkeys(readings))


def _limits(study: Study) -> str:
    return "\n".join([f"### {markdown(study.name)}", "", *(f"- {markdown(limit)}" for limit in study.limits)])


def _licences(runs: Sequence[SharedRun]) -> str:
    read = [one for run in runs for one in _read(run).values()]
    public = sorted({one.corpus for one in read if not one.own} & set(corpora()))
    named = ", ".join(f"{markdown(name)} ({markdown(load_corpus(name).licence)})" for name in public)
    licences = f"The prompts stand under the licences of their corpora: {named or 'none'}. "
    if any(one.own for one in read):
        licences += "Notes of the user's own are not here; their licence is their owner's matter. "
    return licences + (
        "What a model answered may be bound by the terms of that model. The numbers, tables and figures are facts "
        "about them."
    )


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int) -> str:
    """A table whose last columns are numbers; every cell is escaped already."""
    rules = ["---"] * (len(names) - numbers) + ["---:"] * numbers
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (names, rules, *rows))
