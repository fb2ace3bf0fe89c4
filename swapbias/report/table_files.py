"""Write filled tables of papers as CSV, Markdown and LaTeX."""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, repeat

from swapbias.files import escape_csv_cell
from swapbias.report.paper_tables import PaperTable

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "–": "--",
    "[": "{[}", "]": "{]}",
}  # fmt: skip
_MARKDOWN = re.compile(r"([\\`*_|<>\[\]])")
_NEGATIVE = re.compile(r"-(?=\.?\d)")


def as_csv(table: PaperTable) -> str:
    """Write a table as CSV: its headings in one line, and no cell is a formula.

    Args:
        table: the filled table.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for line in (table.flat_heads, *table.lines):
        writer.writerow([escape_csv_cell(cell) for cell in line])
    return buffer.getvalue()


def as_markdown(table: PaperTable) -> str:
    """Write a table as Markdown, with its title above and its notes below.

    Args:
        table: the filled table.
    """
    marks = ["---" if column < table.text_columns else "--:" for column in range(len(table.heads))]
    lines = [f"**{_in_markdown(table.title)}**", "", _markdown_line(table.flat_heads)]
    lines.append(f"| {' | '.join(marks)} |")
    lines += [_markdown_line(line) for line in table.lines]
    lines += ["", *(_in_markdown(note) for note in table.notes), ""]
    return "\n".join(lines)


def _markdown_line(cells: Sequence[str]) -> str:
    """Write a line of a table."""
    return f"| {' | '.join(map(_in_markdown, cells))} |"


def _in_markdown(text: str) -> str:
    """Write a text that is no mark of Markdown, on one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def as_latex(table: PaperTable) -> str:
    r"""Write a table as LaTeX, which needs the package ``booktabs``.

    Args:
        table: the filled table.
    """
    form = "".ljust(table.text_columns, "l").ljust(len(table.heads), "r")
    lines = [
        "% needs \\usepackage{booktabs}", r"\begin{table}", r"\centering",
        rf"\caption{{{_in_latex(table.title)}}}", rf"\label{{tab:{table.file_stem}}}",
        rf"\begin{{tabular}}{{{form}}}", r"\toprule",
    ]  # fmt: skip
    lines += _latex_groups(table)
    lines += [_latex_line([heading for _, heading in table.heads]), r"\midrule"]
    lines += [_latex_line(line) for line in table.lines]
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\smallskip {{\footnotesize {_in_latex(' '.join(table.notes))}}}"]
    lines += [r"\end{table}", ""]
    return "\n".join(lines)


def _latex_groups(table: PaperTable) -> list[str]:
    """Write the line of the groups of columns, with a rule below each; nothing where there are none."""
    cells: list[str] = []
    rules: list[str] = []
    start = 1
    for group, heads in groupby(table.heads, key=_group_of):
        width = len([*heads])
        if group:
            cells.append(rf"\multicolumn{{{width}}}{{c}}{{{_in_latex(group)}}}")
            rules.append(rf"\cmidrule(lr){{{start}-{start + width - 1}}}")
        else:
            cells.extend(repeat("", width))
        start += width
    return [rf"{' & '.join(cells)} \\", " ".join(rules)] if rules else []


def _group_of(head: tuple[str, str]) -> str:
    """Give the group of a column."""
    return head[0]


def _latex_line(cells: Sequence[str]) -> str:
    """Write a line of a table."""
    return rf"{' & '.join(map(_in_latex, cells))} \\"


def _in_latex(text: str) -> str:
    """Write a text that is no command of LaTeX, on one line; the minus of a number is one."""
    text = " ".join(text.split())
    escaped = "".join(_LATEX.get(letter, letter) for letter in text)
    return _NEGATIVE.sub("$-$", escaped) if _is_numeric(text) else escaped


def _is_numeric(text: str) -> bool:
    """Tell whether a cell is a number, or an interval, with its marks."""
    return bool(re.match(r"[\[<>]?-?\.?\d", text))


TABLE_FORMS: Mapping[str, Callable[[PaperTable], str]] = {
    "csv": as_csv,
    "md": as_markdown,
    "tex": as_latex,
}
"""The function that writes a table, by the ending of its file."""
