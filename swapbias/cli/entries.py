"""Lists of names and what they are, as wide as the terminal."""

from textwrap import wrap

from swapbias.cli import terminal as ui


def show_entry(line: str, *, indent: int) -> None:
    """Print a name and what it is, wrapped between words on a terminal, and else as one line.

    Args:
        line: the line; a name that is longer than the terminal is wide stays whole.
        indent: blanks before each further line.
    """
    if not ui.out.is_terminal:
        ui.show(line)
        return
    rows = wrap(
        line,
        ui.out.width,
        subsequent_indent="".ljust(indent),
        break_on_hyphens=False,
        break_long_words=False,
    )
    for row in rows:
        ui.show(row)
