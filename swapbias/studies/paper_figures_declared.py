"""Declare the figures of a study's paper, as ``paper.toml`` has them."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from swapbias.studies.declared_values import EXPECTED, Number, Text
from swapbias.studies.experiment import Declared

_NAME = r"^[a-z0-9]+(_[a-z0-9]+)*$"
FigureKind = Literal["boxes", "scatter", "sorted", "shares", "bars", "explanation", "heat_map"]


class PaperFigure(Declared):
    """A figure of the paper."""

    name: Annotated[
        str,
        Field(pattern=_NAME, json_schema_extra={EXPECTED: "small letters, digits and _ between"}),
    ]
    """Its name, in names of files."""
    title: Text
    """What it shows, in a line."""
    source: Text
    """Where the paper prints it."""
    kind: FigureKind
    """Its form: boxes of scored rows, a scatter, sorted conditions, shares by model, bars, words that explain a note,
    or a heat map of classes of answers."""
    experiment: Text
    """The experiment that it is drawn of."""
    needs: Text
    """What a run needs for it, in words."""
    axis: Text
    """The label of the axis of values: what is subtracted from what, and the unit."""
    by: Text = "condition"
    """The column of scored rows whose values stand beside each other."""
    order: tuple[Text, ...] = ()
    """The values of ``by`` in order; left out: as they appear."""
    groups: Mapping[Text, Text] = {}
    """The groups of the rows, and what the legend calls them."""
    panel_by: Text = ""
    """The column of scored rows whose values are panels; left out: a panel for each model."""
    panels: Mapping[Text, Text] = {}
    """The values of ``panel_by``, and the titles of their panels."""
    across: Text = ""
    """The label of the axis across, for a scatter or a heat map."""
    down: Text = ""
    """The label of the axis down, for a heat map."""
    classes: Mapping[Text, Text] = {}
    """The columns of scored rows whose means are the cells of a heat map, and what the paper calls them."""
    measure: Text = ""
    """The measure in ``published.csv`` of the cells of a heat map; their contrast is the group and the class."""
    table: Text = ""
    """The file of the corpus with the values across, for a scatter; left out: another experiment has them."""
    column: Text = ""
    """The column of that file with the values across."""
    against: Text = ""
    """The experiment with the values across, for a scatter of two experiments."""
    bars: Mapping[Text, Text] = {}
    """The contrasts that are bars, and what the legend calls them."""
    scale: Number = 1.0
    """What values are multiplied by: 100 for percent."""
