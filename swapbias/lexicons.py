"""Word lists with labels, and which label a model's token carries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


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
