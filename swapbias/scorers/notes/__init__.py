"""Clinical notes: features, phenotype classifiers, word directions, and explanations of one note."""

from typing import TYPE_CHECKING

from swapbias import front_door

if TYPE_CHECKING:
    from swapbias.scorers.notes.explanation import Explained as Explained, explain_pair as explain_pair
    from swapbias.scorers.notes.features import load_features as load_features
    from swapbias.scorers.notes.phenotype import PhenotypeScorer as PhenotypeScorer
    from swapbias.scorers.notes.trained import load_phenotype_classifier as load_phenotype_classifier
    from swapbias.scorers.notes.word_direction import (
        DirectionScorer as DirectionScorer,
        read_direction_tables as read_direction_tables,
    )

__getattr__ = front_door(
    __name__,
    {
        "explanation": "Explained explain_pair",
        "features": "load_features",
        "phenotype": "PhenotypeScorer",
        "trained": "load_phenotype_classifier",
        "word_direction": "DirectionScorer read_direction_tables",
    },
)
