"""Word lists with labels, and which label a model's token carries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from swapbias.files import cache_dir
from swapbias.studies.tables import read_table


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Words with labels.

    Attributes:
        name: ``corpus/lexicon``.
        words: lower-case word -> label; matched whatever the case of the token.
        proper: word -> label; matched with its case (names: "Mark" is one, "mark" is not), unless the
            model's vocabulary has no upper case at all.
        rest: the label of every other word.
    """

    name: str
    words: Mapping[str, str]
    proper: Mapping[str, str] = field(default_factory=dict)
    rest: str = "unspecified"

    def labels(self, words: Iterable[str], *, uncased: bool = False) -> list[str]:
        """The label of each word, as decoded from one token and stripped.

        >>> pronouns = Lexicon("x/y", words={"she": "female"}, proper={"Will": "male"})
        >>> pronouns.labels(["She", "Will", "will"])
        ['female', 'male', 'unspecified']
        """
        proper = {word.lower(): label for word, label in self.proper.items()} if uncased else self.proper
        return [self.words.get(word.lower()) or proper.get(word, self.rest) for word in words]

    def entries(self) -> list[tuple[str, str]]:
        """Every (word, label), in order: first the words, then the proper names."""
        return [*self.words.items(), *self.proper.items()]


def imported_path(name: str) -> Path:
    """Where labels that a user imported for a lexicon are kept."""
    return cache_dir() / "lexicons" / f"{name.replace('/', '-')}.csv"


def with_imported(lexicon: Lexicon) -> Lexicon:
    """The lexicon with the words that the user imported for it; an imported label wins."""
    path = imported_path(lexicon.name)
    if not path.exists():
        return lexicon
    own = {row["word"]: row["label"] for row in read_table(path, ("word", "label"))}
    return replace(lexicon, words={**lexicon.words, **own})
