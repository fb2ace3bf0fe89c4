"""Failures of requests: what is tried instead, and the error that ends a run."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from swapbias.errors import ServiceError, ServiceUsageError
from swapbias.models.chat.answering import AnsweringScorer
from swapbias.models.chat.chat_options import key_names
from swapbias.models.chat.replies import RequestTrouble
from swapbias.studies import Prompt

INVALID = (400, 422)  # of settings that a service refuses
# Ways out, by settings that some models refuse, such as those that think first.
WAYS_OUT = {
    "temperature": "Start a new run with the -M temperature that it takes, mostly 1",
    "seed": "Start a new run with -M no-seed, and trials will differ from run to run",
}


class Failure(NamedTuple):
    """A request without an answer."""

    trouble: RequestTrouble
    """What happened."""
    prompt: Prompt
    """The prompt of the request."""
    attempts: int
    """The number of attempts."""


def status_in(error: Any) -> int:
    """Return the status of HTTP that an error in a reply has as its code.

    Args:
        error: the error as the service gives it.

    Returns:
        400 to 599; 0: none.
    """
    code = str(error.get("code")) if isinstance(error, dict) else ""
    is_status = len(code) == 3 and code.isdecimal() and "400" <= code <= "599"
    return int(code) if is_status else 0


def fewer_tops(trouble: RequestTrouble, body: Mapping[str, Any]) -> int:
    """Return the number of first tokens to ask for where a service refuses so many.

    Args:
        trouble: what went wrong with the request.
        body: the body of the request.

    Returns:
        The largest smaller number that the service names, else half; 0 where it refuses something else.
    """
    most = int(body["top_logprobs"])
    words = f"{trouble.param} {trouble.words}"
    if trouble.status not in INVALID or most < 2 or "logprobs" not in words:
        return 0
    numbers = [int(number) for number in re.findall(r"\d+", trouble.words.partition(":")[2])]
    allowed = [number for number in numbers if 0 < number < most]
    if allowed:
        return max(allowed)
    return most // 2 if "top_logprobs" in words else 0


def service_error(failure: Failure, scorer: AnsweringScorer) -> ServiceError:
    """Return the error that a run stops with.

    Args:
        failure: the first of a pass.
        scorer: the scorer whose request it was.

    Returns:
        A ServiceUsageError for a wrong key or model.
    """
    trouble = failure.trouble
    words = trouble.words
    service = scorer.options.service
    prompt_id = failure.prompt.prompt_id
    so_far = f"Answers so far: {len(scorer.log):,}."
    if trouble.is_spent:
        return ServiceError(
            f"{service} answers no more because the quota is spent ({words}). Top it up. {so_far}"
        )
    if trouble.status in (401, 403):
        variable = key_names(scorer.options)[0]
        return ServiceUsageError(
            f"{service} refuses the key ({words}). Set {variable} to a valid one. {so_far}"
        )
    if trouble.status == 404:
        return ServiceUsageError(
            f"{service} does not know model {scorer.model_id!r} ({words}). Check both names. {so_far}"
        )
    if trouble.passes:
        return ServiceError(
            f"{service} did not answer {prompt_id} in {failure.attempts} attempts ({words}). {so_far}"
        )
    way_out = _way_out(trouble, log_odds=scorer.options.log_odds)
    return ServiceError(f"{service} cannot answer {prompt_id} ({words}){way_out}. {so_far}")


def _way_out(trouble: RequestTrouble, *, log_odds: bool) -> str:
    """Return advice on a setting that the service refuses; blank where that is not known."""
    if trouble.status not in INVALID:
        return ""
    if trouble.param in WAYS_OUT:
        return f". {WAYS_OUT[trouble.param]}"
    if log_odds:
        return "; not every service gives log-probabilities: -M scoring=sampled needs none"
    return ""
