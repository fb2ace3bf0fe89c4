"""What all commands print through: the two consoles, sentences and progress bars."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

out = Console()
err = Console(stderr=True, highlight=False)


def say(sentence: str) -> None:
    """A sentence for the user, beside the results."""
    err.print(sentence, soft_wrap=True, markup=False)


@contextmanager
def progress() -> Iterator[Callable[[str, int], Callable[[float], None]]]:
    """Bars: (title, total) -> called with how many more are done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err) as bars:

        def bar(title: str, total: int) -> Callable[[float], None]:
            task = bars.add_task(title, total=total)

            def advance(done: float) -> None:
                bars.advance(task, done)
                if total - bars.tasks[task].completed < 0.5:  # shares of a step add up but for rounding
                    bars.update(task, completed=total)

            return advance

        yield bar
