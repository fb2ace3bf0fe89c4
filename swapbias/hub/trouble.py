"""What the Hub's client raises, as one sentence: what was tried, what came back, what to do."""

import json

SHOWN = 160  # characters of the Hub's own words
AGAIN = "Run the command again."
NOT_TWICE = "Run the command again: what has arrived is not sent twice."
LOGIN = "Log in with hf auth login, or set HF_TOKEN."


def sentence(error: Exception, doing: str, *, writes: bool = False) -> str | None:
    """The sentence for an error of the client, or None for one that is not the Hub's or the network's.

    Args:
        error: what was raised.
        doing: what was tried, after "to".
        writes: whether that sends something.

    Neither addresses (they may be signed) nor headers (they hold the token) are repeated.
    """
    from huggingface_hub import errors

    for one in _chain(error):
        if isinstance(one, errors.LocalTokenNotFoundError):
            return f"There is no token, and it takes one to {doing}. {LOGIN}"
        if isinstance(one, errors.OfflineModeIsEnabled):
            return f"HF_HUB_OFFLINE is set, so that nothing could be sent to {doing}. Unset it."
        if isinstance(one, errors.HfHubHTTPError):
            return _answered(one, doing, writes=writes)
    for one in _chain(error):
        if _is_network(one):
            return (
                f"The Hub could not be reached to {doing} ({type(one).__name__}). Check the network. {_again(writes)}"
            )
    if isinstance(error, errors.HFValidationError | errors.LocalEntryNotFoundError):
        return f"Could not {doing}: {_plain(str(error))}. Correct what it names."
    if isinstance(error, RuntimeError) and "pload" in str(error):  # of a large file, whatever the reason
        return f"An upload broke off, so that nothing was written ({doing}). {NOT_TWICE}"
    if isinstance(error, json.JSONDecodeError | KeyError | IndexError | TypeError | AttributeError):
        return not_a_hub(doing)
    if isinstance(error, ValueError) and "metadata" in str(error).lower():
        return f"Could not {doing}: the Hub finds the card's header invalid: {_plain(str(error))}. Correct it."
    return None


def not_a_hub(doing: str) -> str:
    """The sentence for an answer that the client cannot make sense of: a login page of a network, another server."""
    return f"Could not {doing}: the answer is not that of a Hub. Check HF_ENDPOINT and the network."


def _again(writes: bool) -> str:
    return NOT_TWICE if writes else AGAIN


def _answered(error: Exception, doing: str, *, writes: bool) -> str:
    from huggingface_hub import errors

    response = getattr(error, "response", None)
    status = getattr(response, "status_code", 0)
    said = _plain(getattr(error, "server_message", None) or "")
    words = f" ({status}: {said})" if said else f" ({status})"
    if isinstance(error, errors.GatedRepoError):
        return f"Could not {doing}: it is gated{words}. Ask for access on its page."
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            f"Could not {doing}: it is not there, or the token may not see it{words}. Check the name and the token."
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return f"Could not {doing}: it has no such revision{words}. Look at its tags."
    if isinstance(error, errors.EntryNotFoundError):
        return f"Could not {doing}: a file is not there{words}. Look at its files."
    if isinstance(error, errors.DisabledRepoError):
        return f"Could not {doing}: the Hub has disabled it{words}. Look at its page."
    return _by_status(status, doing, words, writes=writes)


def _by_status(status: int, doing: str, words: str, *, writes: bool) -> str:
    again = _again(writes)
    if status == 401:
        return f"The Hub does not take the token{words}, so that nothing was done ({doing}). {LOGIN}"
    if status == 403:
        access = "write" if writes else "read"
        return f"The token may not {doing}{words}. Use one with {access} access to it, or another name."
    if status == 404:
        return f"Could not {doing}: it is not there{words}. Check the name, and HF_ENDPOINT if it is set."
    if status == 409:
        return f"Could not {doing}: it clashes with what is there{words}. {again}"
    if status == 412:
        return f"Somebody else wrote in between, so that nothing was written ({doing}). Run the command again."
    if status == 413:
        return f"Could not {doing}: a file is too large{words}. Leave it out, or make it smaller."
    if status == 429:
        return f"The Hub takes no more requests now{words}, so that it was not done ({doing}). Wait. {again}"
    if status >= 500:
        return f"The Hub has trouble of its own{words}, so that it was not done ({doing}). {again}"
    return f"Could not {doing}{words}. Correct what it names, or run the command again."


def _chain(error: BaseException | None) -> list[BaseException]:
    """The error and what caused it."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _is_network(error: BaseException) -> bool:
    import httpx2

    return isinstance(error, httpx2.TransportError | ConnectionError | TimeoutError)


def _plain(text: str) -> str:
    """A stranger's words on one line, printable, short, without addresses."""
    words = [word for word in text.split() if "://" not in word]
    line = "".join(letter for letter in " ".join(words) if letter.isprintable())
    return line[:SHOWN].rstrip(" .")
