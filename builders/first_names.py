"""first_names: names in the United States by the race and sex that their bearers reported in 2020."""

from collections.abc import Iterator
from typing import Any

from swapbias.hub import builder_on_use
from swapbias.studies import declared_corpus, name_bank

NAME = name_bank.BANK


def names(
    race_share: float = 0.8, sex_share: float = 0.95, bearers: int = 2_000
) -> Iterator[dict[str, Any]]:
    """Yield the names that rules allow, those with most bearers first.

    >>> sum(1 for _ in names()), next(names(race_share=0.95, bearers=100_000))["name"]
    (2325, 'Jose')

    Args:
        race_share: the least share of bearers who reported the race, from 0.5.
        sex_share: the least share of bearers who reported the sex, from 0.9.
        bearers: the least number of bearers, from 1,000.
    """
    yield from name_bank.named_by(name_bank.NameRules(race_share, sex_share, bearers))


def _names() -> Iterator[dict[str, str]]:
    """Yield the names of the usual rules as a table has them."""
    for row in names():
        shares = {share: f"{row[share]:g}" for share in ("race_share", "sex_share")}
        yield {**row, **shares, "bearers": str(row["bearers"])}


CORPUS = declared_corpus(NAME, {"names": _names})
__getattr__ = builder_on_use(NAME)
