"""README.md files of the Hub: header, text between markers, tables, and what they say of audits."""

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from swapbias.errors import listed, quoted
from swapbias.findings import Finding
from swapbias.privacy import manifest_schema, own_data
from swapbias.report import finding_names, numbers, verdicts
from swapbias.runs import placeholders_in, repeat_command
from swapbias.studies import load_corpus, load_study

CARD = "README.md"
BYTE_ORDER_MARK = "\ufeff"
TAGS = ("bias", "fairness", "swapbias")
_LINE_END = re.compile(r"\r\n?|\n")  # as Markdown counts lines
# The Hub allows white space before the header, and ends it at the first line of ---. Byte order marks are no text.
_OPENED = re.compile(r"[\ufeff\s]*---[ \t]*\r?\n")
_CLOSED = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)


class Split(NamedTuple):
    """A README.md in three parts that make the whole again; the lines of --- are in the outer ones."""

    before: str
    header: str
    after: str


def newline(text: str) -> str:
    """The line end of a text: that of its first line, or a plain one where it has none."""
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"


def split(text: str) -> Split:
    r"""A README.md in header and body. A rule (``---``) that nothing closes opens no header.

    >>> split("---\nlicense: mit\n---\n# Title\n")
    Split(before='---\n', header='license: mit\n', after='---\n# Title\n')
    """
    opened = _OPENED.match(text)
    closed = _CLOSED.search(text, opened.end()) if opened else None
    if opened is None or closed is None:
        return Split("", "", text)
    return Split(text[: opened.end()], text[opened.end() : closed.start()], text[closed.start() :])


def load(header: str, where: str, *, first_line: int = 1) -> dict[Any, Any]:
    """The metadata of a header; empty where it holds nothing. ValueError where it is no YAML, or no mapping."""
    made = read_yaml(header, where, first_line=first_line)
    if not isinstance(made, dict | None):
        raise ValueError(
            f"{where}:{first_line}: its YAML is no mapping of keys to values. Write 'key: value' lines."
        )
    return made or {}


def read_yaml(text: str, where: str, *, first_line: int = 1) -> Any:
    """What YAML holds, plain values alone, None for nothing; ValueError with file and line, never with content."""
    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = first_line + (error.problem_mark.line if error.problem_mark else 0)
        raise ValueError(f"{where}:{line}: its YAML cannot be read. Correct this line.") from None
    except (
        yaml.YAMLError,
        ValueError,
        TypeError,
        OverflowError,
        RecursionError,
        KeyError,
        AttributeError,
    ):
        raise ValueError(
            f"{where}: its YAML holds a value that cannot be read. Correct it."
        ) from None


def dump(value: Any, *, flow: bool | None = False) -> str:
    """YAML of native values, keys in their order; with ``flow=None`` what holds plain values alone is one line."""
    text: str = yaml.safe_dump(
        value, sort_keys=False, allow_unicode=True, width=1_000_000, default_flow_style=flow
    )
    return text


def with_keys(readme: str, values: Mapping[str, Any], *, where: str) -> str:
    """The README with these keys in its header; the other keys stay, and the body byte for byte.

    Where a value differs the header is written anew, without comments and byte order marks, behind which the Hub's
    own client sees no metadata. ValueError: a header that cannot be read.
    """
    parts = split(readme)
    line_end = newline(readme)
    before = load(parts.header, where, first_line=parts.before.count("\n") + 1)
    if all(key in before and before[key] == value for key, value in values.items()):
        return readme
    header = dump({**before, **values}).replace("\n", line_end)
    body = parts.after if parts.before else f"---{line_end}{readme.lstrip(BYTE_ORDER_MARK)}"
    return f"---{line_end}{header}{body}"


def replaced(text: str, part: str, *, begin: str, end: str, where: str = CARD) -> str:
    """The text with the part where its markers stand, or at its end after a blank line.

    The part gets the line ends of the text. ``begin`` and ``end`` are HTML comments of one line. ValueError: they
    make no pair, or Markdown swallows what follows.
    """
    line_end = newline(text)
    ours = part.replace("\n", line_end)
    place = find(text, begin=begin, end=end, where=where)
    if place is not None:
        return text[: place[0]] + ours + text[place[1] :]
    if text and not re.search(r"(?:\A|\n)[ \t]*\r?\n\Z", text):
        text += line_end if text.endswith("\n") else line_end * 2
    # Tried with nothing between the markers: a code block of the part would close one that the text left open.
    if find(f"{text}{begin}{line_end}{end}{line_end}", begin=begin, end=end, where=where) is None:
        raise ValueError(
            f"{where} ends within a code block. Close it (a line of ``` or ~~~) first."
        )
    return text + ours + line_end


def find(text: str, *, begin: str, end: str, where: str = CARD) -> tuple[int, int] | None:
    """The span of the markers and what is between them, or None; ValueError where they make no pair."""
    found = _markers(text, begin, end)
    if not found:
        return None
    names = [name for name, _ in found]
    if names == [begin, end]:
        return found[0][1], found[1][1] + len(end)
    line = len(_LINE_END.findall(text[: found[0][1]])) + 1
    raise ValueError(
        f"{where}:{line}: {names.count(begin)} lines of {begin} and {names.count(end)} of {end}, expected one of "
        "each in this order. Put back the one that is missing, or remove the others with what is in between."
    )


def _markers(text: str, begin: str, end: str) -> list[tuple[str, int]]:
    """The markers in their order, with the place of each: lines of HTML that stand in nothing else."""
    from markdown_it import MarkdownIt

    parts = split(text)
    closing = _LINE_END.search(parts.after) if parts.before else None
    offset = len(parts.before) + len(parts.header) + (closing.end() if closing else 0)
    body = text[offset:] if closing or not parts.before else ""
    lines = [0, *(found.end() for found in _LINE_END.finditer(body)), len(body)]
    tokens = MarkdownIt("commonmark").disable("inline").parse(body)
    spans = [
        token.map
        for token in tokens
        if token.type == "html_block" and token.level == 0 and token.map
    ]
    found = []
    for number in (one for first, last in spans for one in range(first, min(last, len(lines) - 1))):
        line = body[lines[number] : lines[number + 1]]
        if line.strip() in (begin, end):
            found.append((line.strip(), offset + lines[number] + line.index("<")))
    return found


# Entities where the character has a meaning before inline text is read (table cells, comments, tags) or to what runs
# after it (links, mentions, formulas, emoji); a backslash, which reads better, for the rest.
_ENTITIES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "|": "&#124;",
    "\\": "&#92;",
    "$": "&#36;",
    "@": "&#64;",
}
_ESCAPED = str.maketrans({**_ENTITIES, **{mark: f"\\{mark}" for mark in "`*_[]#~"}})
_COLON = re.compile(r":(?=\S)")  # http://, :emoji:
_WWW = re.compile(r"\b(www)\.", re.IGNORECASE)
_ORDINAL = re.compile(r"^([0-9]+)([.)])(?= |$)")
_OPENING = re.compile(
    r"^(?:[-+](?= |$)|-(?=[-: ]*$)|=(?=[= ]*$))"
)  # a list, a rule, the underline of a heading


def visible(text: str) -> str:
    """One line of what a reader sees: no control, direction, zero-width or tag characters, single spaces."""
    # Unicode's Cc also holds tab and line ends, which split() reads as spaces; half surrogates (Cs) cannot be saved.
    seen = (
        char
        for char in text
        if char.isspace() or unicodedata.category(char) not in ("Cc", "Cf", "Cs")
    )
    return " ".join("".join(seen).split())


def markdown(text: str) -> str:
    r"""Any text as Markdown that shows it and does nothing else, within a line, at its start or in a table cell.

    It is for running text: within a code span or block the escapes would show.

    >>> markdown("<!-- a|b --> [x](http://y) snake_case")
    '&lt;!-- a&#124;b --&gt; \\[x\\](http&#58;//y) snake\\_case'
    """
    safe = visible(text).translate(_ESCAPED)
    safe = _WWW.sub(r"\1&#46;", _COLON.sub("&#58;", safe))
    if _OPENING.match(safe):
        return f"\\{safe}"
    return _ORDINAL.sub(lambda found: f"{found[1]}\\{found[2]}", safe)


def slug(text: str, limit: int = 60) -> str:
    """Part of a file name of ``a-z``, ``0-9`` and single dashes; a text without a letter or digit gives its hash.

    >>> slug("owner/Model_v1.5"), slug("../..")
    ('owner-model-v1-5', 'x0cfd1c96')
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:limit].strip("-")
    return name or f"x{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"[:limit]


def rendered(template: str, **values: Any) -> str:
    """A text that cards are made of, with these values; the filter ``md`` is ``markdown``."""
    pages = Environment(
        loader=PackageLoader("swapbias.hub", ""), undefined=StrictUndefined, trim_blocks=True
    )
    pages.filters["md"] = markdown
    return pages.get_template(template).render(values).strip()


# --- what is said of a run --------------------------------------------------------------------------------

_MOST_ROWS = 4  # of a study's table


def prompts_read(manifest: Mapping[str, Any], study: str, experiment: str) -> str:
    """What an experiment read in place of its study's own prompts, in a few words; blank where just these."""
    declared = next((one for one in load_study(study).experiments if one.name == experiment), None)
    if declared is None:
        raise ValueError(
            f"{study} has no experiment {quoted(experiment)}. Share the run with the version that made it."
        )
    corpus = declared.reads.notes.corpus or study
    known = {*declared.reads.configs, *declared.reads.alternatives}
    settings = manifest["settings"]
    every = [one for one in manifest.get("corpora", ()) if one["corpus"] == corpus]
    entries = {tuple(str(one["config"]).split(", ")): one for one in every}
    mine = {names: one for names, one in entries.items() if set(names) <= known}
    configs = tuple(dict.fromkeys(name for names in mine for name in names))
    notes = (settings.get("notes") or {}) if load_corpus(corpus).local is not None else {}
    parts = [
        int(one["rows"]) for one in mine.values() if one.get("of")
    ]  # slow, and not all of it by default
    limit = settings.get("limit") or max(parts, default=None)
    texts = [
        f"at most {limit} rows of each table" if isinstance(limit, int) else "",
        f"config {', '.join(configs)} in place of the usual one"
        if configs not in ((), declared.reads.configs)
        else "",
        "plausible notes alone" if notes.get("plausible") else "",
    ]
    return "; ".join(filter(None, texts))


def study_parts(
    found: Sequence[Finding],
    manifest: Mapping[str, Any],
    *,
    model_name: str,
    revision: str = "",
    results_url: str = "",
    results_private: bool = False,
) -> dict[str, str]:
    """What is said of one model by study, in Markdown: the conclusions, at most four numbers, how to repeat it.

    ``model_name`` is its name on the Hub, ``revision`` the commit there whose weights were read, ``results_url`` the
    full results at a commit. ValueError: findings of several models, or none that answers a question.
    """
    models = sorted({one.model_id for one in found})
    if len(models) > 1:
        raise ValueError(
            f"Findings of {len(models)} models ({listed(models)[:200]}), expected one. Choose one."
        )
    answers = verdicts.group_by_question(found)
    if not answers:
        raise ValueError(
            "The run holds no comparison of two groups for this model. Audit it with another --study."
        )
    audited = models[0]
    command = repeat_command(
        manifest, page="" if model_name == audited else model_name, revision=revision
    )
    made = {}
    for study in (load_study(name) for name in dict.fromkeys(one.study for one, *_ in answers)):
        mine = [one for one in answers if one[0].study == study.name]
        shown = [finding for results in mine for finding in _shown(results, found)]
        skipped = [
            str(one["experiment"]) for one in manifest["skipped"] if one["study"] == study.name
        ]
        read = {
            one.experiment: prompts_read(manifest, study.name, one.experiment) for one, *_ in mine
        }
        part = rendered(
            "study_part.md.j2",
            study=study,
            limits=study.limits_of_run(
                [one.experiment for one, *_ in mine], own_notes=own_data(manifest) is not None
            ),
            by=str(manifest["swapbias"]),
            date=_date(manifest),
            model=model_name,
            audited=audited,
            revision=revision,
            read_as=_read_as(manifest, audited),
            read=read,
            verdicts=[
                (one[0].experiment, str(each))
                for one in mine
                for each in verdicts.state_verdicts(one, found)
            ],
            rows=[_cells(finding, shown) for finding in shown[:_MOST_ROWS]],
            interval=numbers.interval_heading(shown),
            count=len(shown),
            url=results_url,
            private=results_private,
            skipped=[one for one in skipped if not one.startswith(manifest_schema.PART_OF)],
            command=command,
            meanings=placeholders_in(command),
        )
        made[study.name] = re.sub(r"\n{3,}", "\n\n", part)
    return made


def _read_as(manifest: Mapping[str, Any], audited: str) -> dict[str, Any]:
    """How a model was read where that is not as it is: adapter, quantization, subfolder, type of its numbers."""
    pins = (one for one in manifest.get("models", ()) if one["model_id"] == audited)
    pin: Mapping[str, Any] = next(pins, {})
    adapter = pin.get("adapter") or {}
    dtype = pin.get("dtype")
    label = (manifest["settings"].get("load") or {}).get("positive_label")
    return {
        "quantization": pin.get("quantization"),
        "subfolder": pin.get("subfolder"),
        "adapter": adapter.get("name"),
        "base": pin.get("base") or audited,
        "dtype": "" if dtype == "float32" else dtype,
        "positive_label": ", ".join(label) if isinstance(label, list | tuple) else label,
    }


def _date(manifest: Mapping[str, Any]) -> str:
    return str(manifest.get("finished") or manifest.get("started") or "")[:10]


def _shown(results: Sequence[Finding], found: Sequence[Finding]) -> list[Finding]:
    """The answers of an experiment, each before the gaps that it compares."""
    return [
        finding for result in results for finding in (result, *verdicts.gaps_of_sets(result, found))
    ]


def _cells(finding: Finding, others: Sequence[Finding]) -> list[str]:
    """A row of a card's table; ``others``: the findings of all rows."""
    estimate = finding.estimate
    count = (
        f"{estimate.n} (+{estimate.n_unscored} unscored)"
        if estimate.n_unscored
        else str(estimate.n)
    )
    margin = "–" if math.isnan(finding.margin) else numbers.format_margin(finding)
    interval = numbers.interval_cell(finding, others)
    cells = (
        finding.experiment,
        finding_names.row_name(finding),
        numbers.format_value(finding),
        interval,
        margin,
        count,
    )
    return list(map(markdown, cells))


# --- sections between markers -----------------------------------------------------------------------------

BEGIN = "<!-- swapbias:begin -->"
END = "<!-- swapbias:end -->"
RESULTS_BEGIN = "<!-- swapbias:begin results -->"
RESULTS_END = "<!-- swapbias:end results -->"
FINDINGS = "findings"  # the config of every run's findings
_PART = re.compile(
    r"^<!-- swapbias:begin (?P<key>[a-z0-9._-]+) -->[ \t]*\n.*?^<!-- swapbias:end (?P=key) -->[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_LONE = re.compile(r"^<!-- swapbias:(?:begin|end) [a-z0-9._-]+ -->[ \t]*$", re.MULTILINE)


def with_parts(readme: str, parts: Mapping[str, str], *, where: str = CARD) -> str:
    """The README with a section that holds these parts (``study_parts``); it goes to the end where there is none.

    Parts of other studies and everything outside the section stay, byte for byte. ValueError: markers that make no
    pair, or a code block that is never closed.
    """
    both = {
        **section_parts(readme, where),
        **{key: _marked(key, text) for key, text in parts.items()},
    }
    texts = [
        BEGIN,
        "## Bias audit",
        rendered("reading.md"),
        *(both[key] for key in sorted(both)),
        END,
    ]
    return replaced(readme, "\n\n".join(texts), begin=BEGIN, end=END, where=where)


def _marked(key: str, text: str) -> str:
    return f"<!-- swapbias:begin {key} -->\n\n{text}\n\n<!-- swapbias:end {key} -->"


def section_parts(readme: str, where: str, *, begin: str = BEGIN, end: str = END) -> dict[str, str]:
    """The parts of a README's section by key, with plain line ends; ValueError for a marker without its other one."""
    place = find(readme, begin=begin, end=end, where=where)
    text = _LINE_END.sub("\n", readme[place[0] + len(begin) : place[1] - len(end)]) if place else ""
    if lone := _LONE.search(_PART.sub("", text)):
        raise ValueError(
            f"{where}: in the section on bias, {lone[0].strip()} stands without the other marker of its study. Put "
            "that back, or remove this one with what belongs to it."
        )
    return {found["key"]: found[0].rstrip() for found in _PART.finditer(text)}


def results_card(
    repo: str,
    name: str,
    found: Sequence[Finding],
    manifest: Mapping[str, Any],
    paths: Iterable[str],
    existing: str = "",
    *,
    licences: Sequence[str] = (),
    rows: int = 0,
) -> str:
    """The README of a results repository with the part of a run; other parts and what its owner wrote stay.

    ``paths`` are the files that the repository will hold, ``licences`` those of the run's scored prompts. ValueError:
    an ``existing`` README that cannot be added to.
    """
    where = f"{repo}/{CARD}"
    paths = set(paths)
    items = sorted(
        one.groups()
        for path in paths
        if (one := re.fullmatch(r"runs/([^/]+)/items/(\w+)\.parquet", path))
    )
    configs = {FINDINGS: "runs/*/findings.parquet"} | {
        f"{r}-{s}": f"runs/{r}/items/{s}.parquet" for r, s in items
    }
    names = {path.split("/")[1] for path in paths if path.startswith("runs/")}
    there = section_parts(existing, where, begin=RESULTS_BEGIN, end=RESULTS_END)
    parts = {key: text for key, text in there.items() if key in names} | {
        name: _run_part(name, found, manifest)
    }
    load_lines = zip(("findings", "prompts"), configs, strict=False)
    intro = rendered(
        "results_card.md.j2", repo=repo, load=load_lines, reading=rendered("reading.md")
    )
    section = "\n\n".join(
        [RESULTS_BEGIN, intro, *(parts[key] for key in sorted(parts)), RESULTS_END]
    )
    card = replaced(existing, section, begin=RESULTS_BEGIN, end=RESULTS_END, where=where)
    header = split(card)
    owned = load(header.header, where)
    others = [
        one for one in owned.get("configs") or () if "'runs/" not in str(one)
    ]  # ours are made anew
    sizes = [*filter(None, [owned.get("size_categories")]), size_category(rows)]
    values = {
        "pretty_name": owned.get("pretty_name") or f"Bias audits in {repo}",
        "license": _joined(owned.get("license"), licences) or "other",
        "size_categories": max(
            sizes, key=lambda one: SIZES.index(one) if one in SIZES else len(SIZES)
        ),
        "tags": _joined(owned.get("tags"), TAGS),
        "configs": [
            *configs_yaml({name: {"train": path} for name, path in configs.items()}),
            *others,
        ],
    }
    made = with_keys(card, values, where=where)
    return made if header.before else made.replace("---\n<!--", "---\n\n<!--", 1)


def _joined(owned: Any, ours: Sequence[str]) -> Any:
    """What an owner's header lists with ours after it; as it is where nothing is added."""
    listed = owned if isinstance(owned, list) else [owned] if owned else []
    return [*listed, *more] if (more := [one for one in ours if one not in listed]) else owned


SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M")


def size_category(rows: int) -> str:
    """The Hub's name for so many rows."""
    return SIZES[min(max(len(str(rows)) - 3, 0), len(SIZES) - 1)]


def configs_yaml(paths: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """The ``configs`` of a header, the first as the default: by config the path of each split."""
    return [
        {
            "config_name": name,
            **({} if number else {"default": True}),
            "data_files": [{"split": split, "path": path} for split, path in splits.items()],
        }
        for number, (name, splits) in enumerate(paths.items())
    ]


def _run_part(name: str, found: Sequence[Finding], manifest: Mapping[str, Any]) -> str:
    """What is said of a run: its models, and the conclusions about each."""
    models = sorted({one.model_id for one in found})
    texts = [
        f"## {name}",
        f"{markdown(', '.join(models))}, {markdown(_date(manifest))}, {len(found)} findings.",
    ]
    for model in models:
        mine = [one for one in found if one.model_id == model]
        answered = any(one.primary for one in mine)
        texts += (
            study_parts(mine, manifest, model_name=model).values() if answered else [_UNANSWERED]
        )
    return _marked(name, "\n\n".join(texts))


_UNANSWERED = (
    "No comparison over all rows; its rates and means stand in its findings and its report."
)
