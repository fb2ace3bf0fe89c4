"""What a file of evaluation results says of one user's measurements: the numbers, without dates and addresses."""

import yaml

from swapbias.cards import header
from swapbias.cards.eval_results import SOURCE


def numbers(content: bytes, where: str, user: str) -> frozenset[tuple[str, ...]]:
    """Dataset, task and value of each entry that this user made with this package; of nothing, nothing.

    Raises:
        ValueError: a file that is no list of entries; it may be anybody's.
    """
    node = header.compose(header.decode(content, where), where)
    try:
        listed = [] if node is None else yaml.SafeLoader("").construct_document(node)
        mine = [one for one in listed if (one.get("source") or {}).get("name") == SOURCE]
        return frozenset(
            (str(one["dataset"]["id"]), str(one["dataset"].get("task_id")), str(one["value"]))
            for one in mine
            if str(one["source"].get("user")) == user
        )
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError, AttributeError, KeyError) as error:
        raise ValueError(f"{where} is no list of entries with dataset and value. Correct or remove it.") from error
