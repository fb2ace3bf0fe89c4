"""Trouble with the Hub as one sentence that says what to do."""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from swapbias.errors import HubError, UsageError

_LOGIN = "Log in with hf auth login, or set HF_TOKEN."
_OTHER_SIZE = "Consistency check failed"  # how the client begins, in an OSError without a number

_ADVICE = {  # by exception of huggingface_hub or by status: what to do
    "GatedRepoError": "It is gated: ask for access on its page.",
    "RepositoryNotFoundError": "It is not there, or the token may not see it: check the name and the token.",
    "RevisionNotFoundError": "It has no such revision: look at its tags.",
    401: f"The Hub does not take the token. {_LOGIN}",
    402: "It costs money: Spaces that run code need a paid plan, static ones and public datasets do not.",
    403: "The token may not: use one with {access} access to it, or another name.",
    404: "Check the name, and HF_ENDPOINT if it is set.",
    409: "It clashes with what is there. {again}",
    412: "Somebody else wrote in between, so that nothing was written. Run the command again.",
    413: "A file is too large: leave it out, or make it smaller.",
    429: "The Hub takes no more requests now: wait. {again}",
    500: "The Hub has trouble of its own. {again}",
    0: "Correct what it names, or run the command again.",
}


def error_sentence(error: Exception, doing: str, *, writes: bool = False) -> str | None:
    """Write the sentence for an error of the client, without addresses and headers.

    Args:
        error: what was raised.
        doing: what was being done, in the infinitive.
        writes: whether that writes to the Hub.

    Returns:
        the sentence; None for an error of anything else.
    """
    from huggingface_hub import errors

    again = "Run the command again."
    if writes:
        again = "Run the command again: what has arrived is not sent twice."
    for cause in (error, error.__cause__, error.__context__):
        sentence = _sentence_of_client(cause, doing, again, writes=writes)
        if sentence is not None:
            return sentence
    if isinstance(error, json.JSONDecodeError | KeyError | IndexError | TypeError | AttributeError):
        return f"Could not {doing}: the answer is not that of a Hub. Check HF_ENDPOINT and the network."
    if isinstance(error, OSError) and str(error).startswith(_OTHER_SIZE):
        return f"Could not {doing}: a file came with another size than the Hub lists. {again}"
    is_of_client = isinstance(error, errors.HFValidationError | errors.LocalEntryNotFoundError)
    # The client has the Hub look at a card before it sends it; any trouble with a large file is a RuntimeError.
    is_of_upload = writes and isinstance(error, ValueError | RuntimeError)
    if is_of_client or is_of_upload:
        return f"Could not {doing}: {_plain(str(error))}. Correct what it names. {again}"
    return None


def _sentence_of_client(
    error: BaseException | None, doing: str, again: str, *, writes: bool
) -> str | None:
    """Write the sentence for an error that only the client raises; None for any other."""
    from huggingface_hub import errors
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    if isinstance(error, errors.LocalTokenNotFoundError):
        return f"There is no token, and it takes one to {doing}. {_LOGIN}"
    if isinstance(error, UnicodeEncodeError) and error.encoding == "ascii":  # of the header
        return f"Could not {doing}: the token has a letter that no token has. {_LOGIN}"
    if isinstance(error, errors.OfflineModeIsEnabled):
        return f"HF_HUB_OFFLINE is set, so that the Hub could not be asked to {doing}. Unset it."
    if isinstance(error, errors.HfHubHTTPError):
        status = error.response.status_code
        reason = str(status)
        if message := _plain(error.server_message or ""):
            reason = f"{status}: {message}"
        keys = (*(kind.__name__ for kind in type(error).mro()), min(status, 500), 0)
        advice = next(_ADVICE[key] for key in keys if key in _ADVICE)
        advice = advice.format(again=again, access="write" if writes else "read")
        return f"Could not {doing} ({reason}). {advice}"
    if isinstance(error, httpx.TransportError | ConnectionError | TimeoutError):
        kind = type(error).__name__
        return f"The Hub could not be reached to {doing} ({kind}). Check the network. {again}"
    return None


def is_unreachable(error: HubError) -> bool:
    """Tell whether no Hub could be asked: there is no network, or the client may not use it.

    Args:
        error: what ``one_sentence`` raised.
    """
    from huggingface_hub import errors
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    cause = error.__cause__
    no_network = (httpx.TransportError, ConnectionError, TimeoutError)
    return isinstance(cause, (errors.OfflineModeIsEnabled, *no_network))


def is_refused_content(error: HubError) -> bool:
    """Tell whether the Hub took a request for a wrong one, as it does of a file that it reads and finds invalid.

    Args:
        error: what ``one_sentence`` raised.
    """
    from huggingface_hub import errors

    cause = error.__cause__
    return isinstance(cause, errors.HfHubHTTPError) and cause.response.status_code == 400


def _plain(text: str) -> str:
    """Put a stranger's words on one line, printable, short, without addresses."""
    line = " ".join(word for word in text.split() if "://" not in word)
    return "".join(letter for letter in line if letter.isprintable())[:160].rstrip(" .")


@contextmanager
def one_sentence(doing: str, *, writes: bool = False) -> Iterator[None]:
    """Turn whatever the client raises into one sentence; its own warnings and logs are silenced.

    Args:
        doing: what is done, for the sentence.
        writes: whether it writes to the Hub.

    Raises:
        HubError: the client raised an error that there is a sentence for.
    """
    log = logging.getLogger("huggingface_hub")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (HubError, UsageError):
        raise
    except Exception as error:
        sentence = error_sentence(error, doing, writes=writes)
        if sentence is None:
            raise
        raise HubError(sentence) from error
    finally:
        log.setLevel(level)
