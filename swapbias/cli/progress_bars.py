"""Progress bars of commands, on stderr."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from swapbias.cli.terminal import err


@contextmanager
def show_bars() -> Iterator[Callable[[str, int], Callable[[float], Any]]]:
    """Show bars on stderr.

    Returns:
        (title, total) -> a function that is called with how many more are done, which may be parts of one.
    """
    from tqdm import tqdm

    form = "{desc}: {percentage:3.0f} % ({n:.0f}/{total_fmt}), {remaining} to go"
    # Seconds between two states: a log is not filled with them.
    seconds = 0.1 if err.is_terminal else 30
    with ExitStack() as bars:

        def start_bar(title: str, total: int) -> Callable[[float], Any]:
            bar = tqdm(total=total, desc=title, mininterval=seconds, bar_format=form)
            update: Callable[[float], Any] = bars.enter_context(bar).update
            return update

        yield start_bar
