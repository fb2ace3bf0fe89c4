"""swapbias cache: what is kept on this machine, and clearing it."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from swapbias.cli.terminal import AsJson, out, print_json
from swapbias.files import cache_dir

ALL = "all"


def cache(
    clear: Annotated[
        str | None, typer.Option(help="Remove what is kept: scores, upstream, models or all.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is kept between audits (scores, files of studies, the calibration model), or clear it."""
    from swapbias.audit import cache as keeping

    if as_json and clear is None:
        print_json({"kept": [asdict(one) for one in keeping.kept()], "place": str(cache_dir())})
        return
    if clear is None:
        table = Table("kept", "entries", "size", title="Cache", title_justify="left")
        for one in keeping.kept():
            table.add_row(one.kind, str(one.entries), size(one.bytes))
        out.print(table)
        out.print(f"At most {size(keeping.cache_limit())} of scores are kept ({keeping.LIMIT}).", markup=False)
        out.print(f"Place: {cache_dir()}", soft_wrap=True, markup=False)
        return
    gone = [keeping.clear(kind) for kind in (keeping.CLEARED if clear == ALL else (clear,))]
    for one in gone:
        out.print(f"{one.kind}: {one.entries} removed, {size(one.bytes)} freed.", markup=False)


def size(count: int) -> str:
    """Bytes for people.

    >>> size(0), size(999), size(1_500_000), size(2_000_000_000)
    ('0 B', '999 B', '1.5 MB', '2.0 GB')
    """
    if count < 1_000:
        return f"{count} B"
    number, unit = float(count), ""
    for unit in ("kB", "MB", "GB", "TB"):  # noqa: B007 - the last one stands where it ends
        number /= 1_000
        if number < 999.95:
            break
    return f"{number:.1f} {unit}"
