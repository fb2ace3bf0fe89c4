"""The kind of chat models: answers to prompts, each asked several times."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from swapbias.errors import UsageError
from swapbias.scorers.chat.options import ChatOptions, api_key, check_provider, settings
from swapbias.scorers.kind import PAIRS, PROMPTS, Column, Fit, Kind, Reading, Request, Training, short_name
from swapbias.scorers.notes.options import NoteOptions
from swapbias.scorers.scorer import Bar, Say, Scorer
from swapbias.studies import (
    Experiment,
    Fact,
    as_prompts,
    conversation,
    corpus_dir,
    facts_of,
    facts_written,
    fill,
    read_checklist,
    read_table,
)

FACTS = "facts"
LONG = 512  # tokens of a text, where nothing else is asked for
PROMPTS_OF = "clinical_chat"
YES_OR_NO = "1=yes|0=no"


class Chat(Kind):
    """Models behind a service or on this machine, named with ``--chat``."""

    name = "chat"
    options = ChatOptions
    readings: Mapping[str, Reading] = {
        "": Reading((Column("score", "percentage points", "the answer is right", 0.0, 100.0),)),
        "options": Reading((
            Column("score", "share of answers", "options that count more"),
            Column("unanswered", "share of answers", "no option that counts anything"),
        )),
        "label": Reading((
            Column("score", "share of answers", "the phenotype is found"),
            Column("unanswered", "share of answers", "neither yes nor no"),
        )),
        "facts": Reading((
            Column("score", "share of the facts of a checklist", "more facts are kept"),
            Column("unanswered", "share of answers", "nothing was written"),
        )),
        "completion": Reading((
            Column("score", "share of answers", "words of the group"),
            Column("unanswered", "share of answers", "no completion"),
        )),
    }  # fmt: skip

    def check(self, request: Request) -> None:
        """Refuse settings that name no model, or that the way it is asked would leave unheard."""
        asked = request.of(ChatOptions)
        if asked.model is None and self.given(request):
            raise UsageError("Settings of a chat model are given and no model is. Name it with --chat.")
        asked.check()

    def fits(self, experiment: Experiment, request: Request, found: str | None) -> Iterator[Fit]:
        """The model that is named."""
        model = request.of(ChatOptions).model
        yield model or "", "" if model else "it asks a chat model; name one with --chat"

    def rows(self, experiment: Experiment) -> str:
        """Notes, where the experiment names a corpus of them."""
        return PAIRS if experiment.corpus else PROMPTS

    def asked(self, rows: list[dict[str, str]], request: Request, experiment: Experiment) -> list[dict[str, str]]:
        """Every prompt once a trial; of notes with what is asked of them.

        Raises:
            UsageError: no question for a phenotype. ValueError: a broken checklist.
        """
        if experiment.corpus:
            rows = posed(rows, experiment.name, request.of(NoteOptions), facts=experiment.reading == FACTS)
        return asked_rows(rows, request.of(ChatOptions).trials)

    def unheard(self, request: Request, studies: str) -> str:
        """Nothing else asks it."""
        return f"--chat {short_name(request.of(ChatOptions).model)} is asked by {studies} alone."

    def announce(self, rows: Sequence[Mapping[str, Any]], request: Request) -> str:
        """Requests, tokens and costs; nothing is sent and no key is needed.

        Raises:
            UsageError: an unknown provider.
        """
        from swapbias.scorers.chat.service import ChatScorer

        options = _asked(request, long=bool(rows) and str(rows[0]["candidates"]).startswith("{"))
        check_provider(options)
        needed = ChatScorer(options.model or "", options).estimate(as_prompts(rows), ())
        more = options.max_requests is not None and needed.requests > options.max_requests
        told = f" That is more than --max-requests allows: {options.max_requests:,}." if more else ""
        return f"{needed.sentence()}{told}"

    def calls(self, experiment: Experiment, rows: Sequence[Mapping[str, Any]]) -> str:
        """Requests are announced."""
        return ""

    def load(self, model: str, request: Request, rows: Sequence[Mapping[str, Any]], *, say: Say, bar: Bar) -> Any:
        """The scorer of a chat model, once it is known that these rows may be asked.

        Raises:
            UsageError: no key, an unknown provider, more requests than allowed.
            ValueError: a local model that cannot be loaded.
        """
        options = _asked(request)
        if request.of(ChatOptions).local:
            from swapbias.scorers.chat.local import LocalChatScorer

            return LocalChatScorer.load(model, request.load, options)
        from swapbias.scorers.chat.service import ChatScorer

        check_provider(options)
        api_key(options)
        scorer = ChatScorer(model, options)
        needed = scorer.estimate(as_prompts(rows)).requests
        if options.max_requests is not None and needed > options.max_requests:
            raise UsageError(
                f"{needed:,} requests are needed, and --max-requests allows {options.max_requests:,}. Raise it, or "
                "take fewer prompts (--limit) or trials."
            )
        return scorer

    def read(
        self, model: Any, experiment: Experiment, request: Request, *, corpus: str, training: Training
    ) -> Scorer:
        """Answers as right or wrong, by the experiment's names of what was meant, or as options that they name."""
        from swapbias.scorers.chat import answers

        scorer: Any = copy(model)
        if experiment.reading == FACTS:
            scorer.options = _asked(request, long=True)
            scorer.identity = {**model.identity, **settings(scorer.options)}
        right = partial(answers.read_answer, aliases=experiment.aliases)
        ways = {
            "options": answers.read_option, "completion": answers.read_completion, "label": answers.read_label,
            FACTS: answers.read_facts,
        }  # fmt: skip
        scorer.read = ways.get(experiment.reading, right)
        scorer.unit = self.readings[experiment.reading].columns[0].unit
        reader: Scorer = scorer
        return reader


def asked_rows(rows: Sequence[dict[str, str]], trials: int) -> list[dict[str, str]]:
    """Every prompt once a trial; ``prompt_id`` and ``pair_id`` end in the trial, which is a column as well."""
    return [
        {
            **row,
            "prompt_id": f"{row['prompt_id']}/t{trial}",
            "pair_id": f"{row['pair_id']}/t{trial}",
            "trial": str(trial),
        }
        for trial in range(1, trials + 1)
        for row in rows
    ]


def posed(
    rows: Sequence[dict[str, str]], task: str, options: NoteOptions, *, facts: bool = False
) -> list[dict[str, str]]:
    """Notes in both genders as conversations, with the options or facts that their answers are read by.

    Notes that state no fact are left out.

    Raises:
        UsageError: no question for a phenotype, or no checklist there. ValueError: a broken checklist.
    """
    folder = corpus_dir(PROMPTS_OF)
    asks = next(one for one in read_table(folder / "prompts.csv", ("task", "system", "user")) if one["task"] == task)
    named = read_table(folder / "questions.csv", ("phenotype", "question"))
    questions = {row["phenotype"]: row["question"] for row in named}
    texts: dict[str, list[str]] = {}
    for row in rows:
        texts.setdefault(row["pair_id"], []).append(row["text"])
    checklist = _checklist(options) if facts else ()
    stated = {pair: facts_of(checklist, pair.partition("/")[2], both) for pair, both in texts.items()}
    found = []
    for row in rows:
        if facts and not stated[row["pair_id"]]:
            continue
        values = {"note": row["text"]}
        if "[question]" in asks["user"]:
            values["question"] = _question(row["condition"], options, questions)
        text = conversation(("system", asks["system"]), ("user", fill(asks["user"], **values)))
        candidates = facts_written(stated[row["pair_id"]]) if facts else YES_OR_NO
        found.append({**row, "text": text, "candidates": candidates})
    return found


def _question(phenotype: str, options: NoteOptions, known: Mapping[str, str]) -> str:
    told = options.question or known.get(phenotype)
    if told is None:
        raise UsageError(
            f"No question is known for the label {phenotype!r}. Ask one with --question 'Does the note ...?'"
        )
    return told


def _checklist(options: NoteOptions) -> tuple[Fact, ...]:
    if options.checklist is None:
        return read_checklist(corpus_dir(PROMPTS_OF) / "checklist.csv")
    path = Path(options.checklist)
    if not path.is_file():
        raise UsageError(
            f"{path} does not exist, expected a CSV file with note_id, fact and terms. Give another one."
        )
    return read_checklist(path)


def _asked(request: Request, *, long: bool = False) -> ChatOptions:
    options = request.of(ChatOptions)
    if long and options.max_tokens == ChatOptions().max_tokens:  # of an answer that is a letter
        options = replace(options, max_tokens=LONG)
    return replace(options, seed=request.seed, provider=None if options.local else options.provider)


CHAT = Chat()
