"""swapbias view: a folder of runs in the browser of this machine, and nowhere else."""

from pathlib import Path
from typing import Annotated

import typer

from swapbias.cli.terminal import out, stoppable


def view(
    folder: Annotated[Path, typer.Argument(metavar="RUNS_DIR", help="Folder that holds runs.")] = Path(
        "swapbias-runs"
    ),
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0: any that is free.", min=0, max=65_535)] = 8_760,
    open_: Annotated[bool, typer.Option("--open", help="Open the list in your browser.")] = False,
) -> None:
    """Show a folder of runs in your browser: a list, filters, reports, comparisons. Nobody else can reach it."""
    from swapbias.audit import RunsServer

    with RunsServer(folder, port=port) as server:
        out.print(f"Runs in {folder}: {server.address} (until Ctrl-C)", soft_wrap=True, markup=False)
        if open_:
            import webbrowser

            webbrowser.open(server.address)
        with stoppable(lambda: f"Stopped: the runs in {folder} are shown no more."):
            server.serve_forever()
