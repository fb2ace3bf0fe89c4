"""The kind of chat models: answers to prompts, several of each."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from swapbias.errors import need
from swapbias.models.base import VADER, Request, need_vader
from swapbias.models.chat.chat_options import LOG_ODDS, SAMPLED, ChatOptions, api_key
from swapbias.models.clinical import NoteOptions, note_conversations
from swapbias.models.formats import refuse_other_formats
from swapbias.models.kind import Fit, Kind, Reading, RowSource
from swapbias.models.scorer import Scorer
from swapbias.studies import Experiment, Row, as_prompts

FACTS = "facts"
_LONG_TEXTS = (FACTS, "tone", "assignment")  # readings of extracts, summaries and lists
_LONG_TOKENS = 512  # tokens of a text, where nothing else is set
_CLOSED_QUESTIONS = (
    "options",
    "label",
)  # readings of questions whose options an answer may be bound to
_RIGHT_ANSWER = "answers"  # the reading of questions of which an option is right
_BY_LOG_ODDS = ("options", _RIGHT_ANSWER)  # readings of questions whose options have probabilities
FREE_TEXT = ("text", "person", "ranking")  # readings whose answers need several words
_FEWEST_TOKENS = 64  # of such an answer


def _share_units(*names: str) -> dict[str, str]:
    """Return the unit of score columns that are shares of answers."""
    return dict.fromkeys(names or ("score", "unanswered", "refused"), "share of answers")


_FREE_READING = Reading(
    {**_share_units(), "length": "natural log of words", "judged": "share of the rubric"}
)
_SENTIMENT_UNITS = dict.fromkeys(("score", "neutral", "source"), "sentiment from 0 to 1")
_THEME_UNITS = dict.fromkeys(("health_words", "emotion_words", "need_words"), "words in 100")


class Chat(Kind):
    """Models behind a service or on this machine, named with ``--chat``."""

    name = "chat"
    title = "Chat models (--chat)"
    options = ChatOptions
    readings: Mapping[str, Reading] = {
        "": Reading({"score": "percentage points"}),
        "options": Reading(
            {
                **_share_units("score", "unanswered", "outside", "refused", "said_unsure"),
                "log_odds": "natural log-odds of the options that count more",
            }
        ),
        _RIGHT_ANSWER: Reading(
            {
                "score": "correct answer is more likely",
                "log_odds": "natural log-odds of the right answer",
                **_share_units("outside", "hidden"),
            }
        ),
        "label": Reading(_share_units()),
        "facts": Reading(
            {"score": "share of the facts of a checklist", **_share_units("unanswered", "refused")}
        ),
        "completion": Reading(_share_units()),
        "ranking": Reading({**_share_units(), "placed_above": "share of the other candidates"}),
        "assignment": Reading(_share_units()),
        "tone": Reading(
            {
                **_SENTIMENT_UNITS,
                "length": "natural log of words",
                **_THEME_UNITS,
                **_share_units("unanswered", "refused"),
            }
        ),
        "text": _FREE_READING,
        "person": _FREE_READING,
    }
    """The ways to read answers by the name that experiments declare."""

    def fits(
        self, experiment: Experiment, request: Request, model_kind: str | None
    ) -> Iterator[Fit]:
        """Yield the chat model, and why it does not read an experiment, blank where it does.

        Args:
            experiment: an experiment of prompts for chat models.
            request: names the chat model.
            model_kind: the kind of ``request.model``, which is another one.

        Yields:
            One pair; the model is blank where another setting is needed.
        """
        chat = request.of(ChatOptions)
        model = "" if _cuts_answers(experiment, chat) else chat.model or ""
        yield Fit(model, _unfit_reason(experiment, chat))

    def also_reads(self, experiment: Experiment, request: Request) -> bool:
        """Return whether a chat model reads a causal model's questions with options.

        Args:
            experiment: an experiment of any other kind.
            request: names the chat model, and no other.
        """
        if request.model is not None or not request.of(ChatOptions).model:
            return False
        return experiment.kind == "causal" and experiment.reads.reading in _BY_LOG_ODDS

    def check_installed(self, model: str, experiment: Experiment, request: Request) -> None:
        """Raise a MissingExtraError where a library is missing that asks the model or reads its answers.

        Args:
            model: the name of the chat model.
            experiment: the experiment that it reads.
            request: names service and scorer.
        """
        chat = request.of(ChatOptions)
        if chat.by_vllm:
            need("The engine vllm", "vllm", extra="vllm")
        elif not chat.local:
            need("A chat service", "openai", extra="chat")
        if experiment.reads.reading == "tone" and chat.scorer == VADER:
            need_vader()

    def rows(self, experiment: Experiment) -> RowSource:
        """Return which rows an experiment reads.

        Args:
            experiment: an experiment of prompts or of notes.

        Returns:
            Prompts, or notes in both genders.
        """
        return RowSource.PAIRS if experiment.reads.notes.corpus else RowSource.PROMPTS

    def expand(
        self, rows: Sequence[Row], request: Request, experiment: Experiment
    ) -> Sequence[Row]:
        """Return the rows of all trials (``trial_rows``); of notes they are conversations about them.

        Args:
            rows: prompts or notes.
            request: says how many trials there are.
            experiment: the experiment of the rows.

        Returns:
            New rows.
        """
        chat = request.of(ChatOptions)
        if experiment.reads.notes.corpus:
            rows = note_conversations(
                rows,
                experiment.name,
                request.of(NoteOptions),
                prompts_of=experiment.reads.notes.prompts,
                facts=experiment.reads.reading == FACTS,
            )
        if experiment.reads.reading == _RIGHT_ANSWER:
            from swapbias.models.chat.log_odds import with_letters

            rows = [{**row, "text": with_letters(row["text"], row["candidates"])} for row in rows]
        return trial_rows(rows, chat.trials, chat.scoring)

    def announce(
        self,
        rows: Sequence[Mapping[str, Any]],
        request: Request,
        experiment: Experiment,
        seen: set[str],
    ) -> str:
        """Describe requests, tokens and costs; nothing is sent and no key is needed.

        Args:
            rows: the rows of all trials.
            request: names the model.
            experiment: the experiment of the rows.
            seen: keys of requests that experiments before have announced; those of these rows are added.

        Returns:
            Sentences.
        """
        from swapbias.models.chat.answering import CHARACTERS_PER_TOKEN, AnsweringScorer

        options = _options_of(request, long=experiment.reads.reading in _LONG_TEXTS)
        options.check_open()
        sizes = AnsweringScorer(options.model or "", options).requests(as_prompts(rows))
        fresh = [sizes[key] for key in sizes.keys() - seen]
        is_first = not seen
        seen |= sizes.keys()
        if not fresh:
            return "sent by the experiments above."
        count = len(fresh)
        tokens = sum(prompt_tokens for prompt_tokens, _ in fresh)
        most = sum(output_tokens for _, output_tokens in fresh)
        cost = options.cost(tokens, most)
        trials = 1 if options.log_odds else options.trials
        requests = (
            f"{count:,} requests to send: about {tokens:,} prompt tokens (characters / {CHARACTERS_PER_TOKEN}) "
            f"and at most {most:,} output tokens"
        )
        of_each = f"Each of {trials} trials: {count // trials:,} requests"
        if not math.isnan(cost):
            requests = f"{requests}, at most about {cost:,.2f}"
            of_each = f"{of_each}, at most about {cost / trials:,.2f}"
        sentences = [f"{requests}."]
        if math.isnan(cost) and not options.local and is_first:
            sentences.append("The cost is not known: give -M price-in and -M price-out.")
        if trials > 1:
            sentences.append(f"{of_each}.")
        if options.max_requests is not None and count > options.max_requests:
            sentences.append(f"That is more than -M max-requests allows: {options.max_requests:,}.")
        return " ".join(sentences)

    def load(self, model: str, request: Request, **unused: Any) -> Any:
        """Load the chat model that the options name.

        Args:
            model: its name.
            request: says where it runs.
            unused: sentences and a bar, which are not needed here.

        Returns:
            A scorer.
        """
        return load_chat(request.of(ChatOptions), request)

    def read(self, model: Any, experiment: Experiment, request: Request, **unused: Any) -> Scorer:
        """Return the scorer that reads an experiment.

        Args:
            model: as ``load`` returns it, or a scorer of the user's own, which reads answers itself.
            experiment: says how answers are read.
            request: says how long they are.
            unused: corpus and training notes, which are not needed here.

        Returns:
            A scorer with the answers of the model.
        """
        from swapbias.models.chat.answering import AnsweringScorer, option_fields, unread
        from swapbias.studies import answer_scores  # numpy, which listing the studies does not need

        if not isinstance(model, AnsweringScorer):
            reader: Scorer = model.reading_in(experiment.compares.unit)
            return reader
        reading = experiment.reads.reading
        if reading == _RIGHT_ANSWER:
            from swapbias.models.chat.log_odds import score_right_answer

            unit = self.readings[reading].units["score"]
            return model.with_reader(unread, unit=unit, score_orders=score_right_answer)
        is_long = reading in _LONG_TEXTS
        return model.with_reader(
            answer_scores.answer_reader(reading, experiment.reads.aliases),
            unit=experiment.compares.unit.name,
            fields=option_fields if reading in _CLOSED_QUESTIONS else None,
            max_tokens=_options_of(request, long=True).max_tokens if is_long else None,
        )


def _unfit_reason(experiment: Experiment, chat: ChatOptions) -> str:
    """Return why a chat model does not read an experiment, blank where it does."""
    if not chat.model:
        return "it asks a chat model; name one with --chat"
    is_by_log_odds = experiment.kind != CHAT.name or experiment.reads.reading == _RIGHT_ANSWER
    if is_by_log_odds and not chat.log_odds:
        return "a chat model reads it by log-odds of its options alone; ask it with -M scoring=log-odds"
    if chat.log_odds and experiment.reads.reading not in _BY_LOG_ODDS:
        return "it has no options to score by log-odds; ask it with -M scoring=sampled"
    if chat.log_odds and experiment.compares.orders:
        return (
            "log-odds are averaged over the orders that it compares; ask it with -M scoring=sampled"
        )
    if _cuts_answers(experiment, chat):
        return f"its answers are free text that {chat.max_tokens} tokens would cut; give -M max-tokens=200"
    return ""


def _cuts_answers(experiment: Experiment, chat: ChatOptions) -> bool:
    """Return whether the most tokens are too few for free text."""
    return experiment.reads.reading in FREE_TEXT and chat.max_tokens < _FEWEST_TOKENS


def trial_rows(rows: Sequence[Row], trials: int, scoring: str = SAMPLED) -> list[Row]:
    """Return every prompt once a trial.

    Scored by log-odds there are no trials, and of pairs that differ in the order of their options alone (it is
    averaged over), the first stands for all.

    Args:
        rows: prompts.
        trials: number of answers to each prompt.
        scoring: ``sampled`` or ``log-odds``.

    Returns:
        Rows whose ``prompt_id`` and ``pair_id`` end in the trial, which is a column as well.
    """
    if scoring == LOG_ODDS:
        return _one_order_of_pairs(rows)
    in_trials = []
    for trial in range(1, trials + 1):
        for row in rows:
            prompt_id = f"{row['prompt_id']}/t{trial}"
            pair_id = f"{row['pair_id']}/t{trial}"
            in_trials.append(
                {**row, "prompt_id": prompt_id, "pair_id": pair_id, "trial": str(trial)}
            )
    return in_trials


def _one_order_of_pairs(rows: Sequence[Row]) -> list[Row]:
    """Return rows without the pairs that differ from an earlier one in the order of their options alone."""
    contents: dict[str, set[Any]] = {}
    for row in rows:
        contents.setdefault(row["pair_id"], set()).add(_content_in_any_order(row))
    first_of_content: dict[Any, str] = {}
    for pair_id, content in contents.items():
        first_of_content.setdefault(frozenset(content), pair_id)
    chosen = set(first_of_content.values())
    return [row for row in rows if row["pair_id"] in chosen]


def _content_in_any_order(row: Row) -> tuple[Any, ...]:
    """Return a row without its names and the order of its options."""
    from swapbias.models.chat.log_odds import orders

    (prompt,) = as_prompts([row])
    texts = frozenset(ordered.text for ordered, _ in orders(prompt))
    names = ("prompt_id", "pair_id", "text", "candidates")
    rest = frozenset((name, value) for name, value in row.items() if name not in names)
    return texts, frozenset(row["candidates"]), rest


def load_chat(options: ChatOptions, request: Request) -> Any:
    """Load the chat model that some options name, here or behind its service.

    Args:
        options: name the model.
        request: says how a model that runs here is loaded, and the seed.

    Returns:
        A scorer.

    Raises:
        UsageError: there is no key.
    """
    chat = _options_of(request, options)
    model = chat.model or ""
    if options.by_vllm:
        need("The engine vllm", "vllm", extra="vllm")
        from swapbias.models.chat.offline_vllm import VllmScorer

        return VllmScorer.load(model, request.load, chat)
    if options.local:
        from swapbias.models.chat.local import LocalChatScorer

        return LocalChatScorer.load(model, request.load, chat)
    if not chat.base_url:  # a service may call its models by the names of files
        refuse_other_formats(model, Path(model))
    need("A chat service", "openai", extra="chat")
    from swapbias.models.chat.openai_client import ChatScorer

    api_key(chat)
    return ChatScorer(model, chat)


def _options_of(
    request: Request, options: ChatOptions | None = None, *, long: bool = False
) -> ChatOptions:
    """Return options with the seed of a request; answers are ``long`` where no other length is set."""
    options = options or request.of(ChatOptions)
    if long and not options.not_usual("max_tokens"):
        options = replace(options, max_tokens=_LONG_TOKENS)
    is_by_transformers = options.local and not options.by_vllm
    provider = None if is_by_transformers else options.provider
    return replace(options, seed=request.seed, provider=provider)


CHAT = Chat()
