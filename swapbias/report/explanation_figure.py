"""Draw the words that weigh most in both versions of a note, side by side."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from swapbias.findings import explained_notes
from swapbias.report.figure_files import LOOKS
from swapbias.report.finding_names import safe_line
from swapbias.studies import paper, paper_figures_declared as declared_figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TOWARD, _AGAINST = LOOKS[0][0], LOOKS[1][0]


def draw_explanation(
    study: str, entry: declared_figures.PaperFigure, models: Sequence[paper.PaperRun]
) -> "Figure | None":
    """Draw a note of each model by training regime: a panel for each version, a bar for each word.

    Args:
        study: the name of the study; it makes no difference.
        entry: the figure of the paper, whose groups are the versions.
        models: the models of runs, with their explanations.

    Returns:
        The figure; None where no model has an explained note.
    """
    from matplotlib.figure import Figure

    explained = [*_explained(entry, models)]
    if not explained:
        return None
    figure = Figure(figsize=(7.2, 2.5 * len(explained) + 0.9), layout="constrained")
    panels = figure.subplots(len(explained), len(entry.groups), squeeze=False, sharex=True)
    for line, (title, explanation) in zip(panels, explained, strict=True):
        for axis, (group, version) in zip(line, entry.groups.items(), strict=True):
            _draw_words(axis, explanation.words[group])
            score = explanation.scores[group]
            axis.set_title(f"{version}: score {score:.2f}", fontsize=8, loc="left")
            axis.set_xlabel(entry.axis, fontsize=7)
        phenotype = explanation.phenotype.replace("_", " ")
        notes = f"training notes: {explanation.regime}"
        line[0].set_title(
            f"{title}, {phenotype}, {notes}\n{line[0].get_title(loc='left')}",
            fontsize=8,
            loc="left",
        )
    figure.suptitle(entry.title, fontsize=9)
    figure.legend(*_legend(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def _explained(
    entry: declared_figures.PaperFigure, models: Sequence[paper.PaperRun]
) -> Iterator[tuple[str, explained_notes.Explanation]]:
    """Yield the title of each model with the explanations of its most mismatched note, one for each regime."""
    for model in models:
        whole = [
            explanation
            for explanation in model.explanations
            if set(entry.groups) <= set(explanation.words) & set(explanation.scores)
        ]
        for explanation in whole:
            is_shown = not entry.order or explanation.regime in (*entry.order, whole[0].regime)
            if explanation.pair_id == whole[0].pair_id and is_shown:
                yield safe_line(model.title, 40), explanation


def _draw_words(axis: "Axes", words: Sequence[tuple[str, float]]) -> None:
    """Draw a bar for each word, the heaviest on top."""
    weights = [weight for _, weight in words]
    colours = [_TOWARD if weight > 0 else _AGAINST for weight in weights]
    places = range(len(words))
    axis.barh(places, weights, color=colours)
    axis.set_yticks(places, [safe_line(word, 24) for word, _ in words])
    axis.invert_yaxis()
    axis.axvline(0, color="black", linewidth=0.6)
    axis.tick_params(labelbottom=True)


def _legend() -> tuple[list[Any], list[str]]:
    """Return the marks of a legend of both colours, and what they mean."""
    from matplotlib.patches import Patch

    labels = ["speaks for the phenotype", "speaks against it"]
    return [Patch(color=_TOWARD), Patch(color=_AGAINST)], labels
