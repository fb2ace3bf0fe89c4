"""Bias while a model is trained: a callback for the Trainer of transformers."""

import logging
from collections.abc import Sequence
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from swapbias import Audit, audit
from swapbias.findings import metric_values

_log = logging.getLogger("swapbias")


class BiasCallback(TrainerCallback):
    """Audits the model as training begins and every so many steps, and logs the primary gaps as metrics.

    ``trainer.add_callback(BiasCallback(trainer, "gendered_stigma", every=500, limit=200))`` logs
    ``bias/gendered_stigma_rq1`` and its interval (``_low``, ``_high``); with more than two groups each contrast has
    keys of its own (``bias_metrics``). Models with adapters (PEFT) and compiled ones are read as they answer. Of
    several processes the first audits and the others wait.
    """

    def __init__(
        self,
        trainer: Trainer,
        studies: str | Sequence[str] = (),
        *,
        every: int = 500,
        tokenizer: Any = None,
        **options: Any,
    ) -> None:
        """Audit the model of a trainer.

        Args:
            trainer: a trainer of transformers.
            studies: as of ``swapbias.audit``.
            every: steps between two audits.
            tokenizer: the tokenizer of the model; None: that of the trainer.
            options: further ones of ``swapbias.audit``.

        Raises:
            ValueError: ``every`` is no number of steps, or weights lie in parts on several devices.
        """
        if every < 1:
            raise ValueError(f"every is {every}, expected a number of steps from 1 up.")
        if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            raise ValueError(
                "The weights lie in parts on several devices. Audit the saved checkpoints."
            )
        self.trainer = trainer
        self.studies = studies
        self.every = every
        tokenizer = tokenizer or trainer.processing_class
        self.options: dict[str, Any] = {"progress": False, **options, "tokenizer": tokenizer}
        self.last: Audit | None = None
        """The last audit; None before the first."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_more: Any
    ) -> None:
        """Audit for the first time; what cannot be audited is refused here, before a step is lost.

        Args:
            args: the trainer's arguments; not read.
            state: how far the training is.
            control: what the trainer does next; whether it logs stays as it was.
        """
        if state.is_world_process_zero:
            self._measure(control)
        self.trainer.accelerator.wait_for_everyone()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_more: Any
    ) -> None:
        """Audit where it is due; an audit that fails (weights that became NaN) is logged and training goes on.

        Args:
            args: the trainer's arguments; not read.
            state: how far the training is.
            control: what the trainer does next; whether it logs stays as it was.
        """
        if state.global_step % self.every:
            return
        if state.is_world_process_zero:
            try:
                self._measure(control)
            except ValueError as error:
                _log.warning("No bias is logged at step %d: %s", state.global_step, error)
        self.trainer.accelerator.wait_for_everyone()  # else they would run into the next all-reduce

    def _measure(self, control: TrainerControl) -> None:
        """Audit the model, and log its primary gaps."""
        self.last = audit(self.trainer.model, self.studies, **self.options)
        # Logging says that nothing more is due, and the loss of this step may be.
        due = control.should_log
        self.trainer.log(metric_values.bias_metrics(self.last.found))
        control.should_log = due
