"""Reading many texts with one encoder, as fast as its family allows, through prepacked linear layers."""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from swapbias.models.engine.packing import can_pack, head_at, only_rows, pack, read_packed, rows_of, without_window
from swapbias.models.loading import length_batches

SAMPLE = 32  # texts read in both
TOP = 50  # likeliest outputs compared as sets

Encoded = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class RoundingError:
    """How far rounded probabilities are from those in float32.

    Attributes:
        texts: how many were read in both.
        largest: greatest absolute difference of a probability, over all texts and outputs.
        mean: mean over texts of half the summed absolute differences (the probability that moved).
        top: outputs compared as sets; ``same_top``: share of the texts whose sets are equal.
    """

    texts: int
    largest: float
    mean: float
    top: int
    same_top: float
    dtype: str = "bfloat16"

    def sentence(self, model_id: str, *, raw: bool = False) -> str:
        """For people; ``raw``: outputs are scores of a regression and no probabilities."""
        measured = (
            f"{model_id} in {self.dtype}, measured against float32 on {self.texts} texts: the largest error of a"
        )
        if raw:
            return f"{measured} raw score is {self.largest:.2g}."
        return (
            f"{measured} probability is {self.largest:.2g}, on average {self.mean:.2g} of the mass moved, and "
            f"{self.same_top:.0%} of the sets of the {self.top} likeliest outputs are the same."
        )


def rounding_error(exact: torch.Tensor, rounded: torch.Tensor, *, top: int = TOP) -> RoundingError:
    """The error of probabilities of shape (texts, outputs); of two labels or so, the likeliest alone is compared."""
    difference = (exact.double() - rounded.double()).abs()
    count = top if exact.shape[1] > top else 1
    sets = (one.topk(count, dim=1).indices.sort(dim=1).values for one in (exact, rounded))
    same = torch.eq(*sets).all(dim=1)
    return RoundingError(
        texts=len(exact),
        largest=float(difference.max()),
        mean=float(difference.sum(dim=1).mean() / 2),
        top=count,
        same_top=float(same.double().mean()),
    )


class Rounding:
    """The type of an engine's weights, which are loaded in float32 whatever is asked for.

    float32: packed at once. bfloat16, float16: the first texts are read in float32, then the weights are cast one
    after another, each freed as its rounded form takes its place. So a second model is never loaded, and memory is at
    no time above what float32 needs alone.
    """

    def __init__(self, engine: "Engine", dtype: str) -> None:
        """Prepare an engine for ``float32``, ``bfloat16`` or ``float16``."""
        self.engine = engine
        self.error: RoundingError | None = None
        self.dtype, self._due = dtype, dtype != "float32"
        if not self._due:
            engine.prepack()

    def settle(self, encoded: Encoded, read: Callable[[Encoded], torch.Tensor]) -> None:
        """Round the weights if that is due, and measure it on texts spread evenly over these.

        ``read``: a batch of the engine's -> probabilities of shape (texts, outputs).
        """
        if not self._due or not encoded:
            return
        step = max(1, len(encoded) // SAMPLE)
        sample = list(encoded[::step])[:SAMPLE]
        batches = [[sample[at] for at in batch] for batch in self.engine.batches([len(ids) for ids in sample])]
        exact = torch.cat([read(batch) for batch in batches])
        self.engine.model.to(getattr(torch, self.dtype))  # one weight after another
        self.engine.prepack()
        self._due = False
        rounded = torch.cat([read(batch) for batch in batches])
        known = (exact + rounded).isfinite().all(dim=1)  # what gives NaN has no error, and is counted elsewhere
        if known.any():
            self.error = replace(rounding_error(exact[known], rounded[known]), dtype=self.dtype)

    def note(self, model_id: str, *, raw: bool = False) -> str:
        """A sentence on the error; blank in float32 or where nothing was read."""
        return self.error.sentence(model_id, raw=raw) if self.error else ""


_DTYPES = (torch.float32, torch.bfloat16)
_ROWS = 1_024  # the number of tokens that the order of a weight is chosen for; any number may come
# Families that call their linear layers and do nothing else with them; others may read a weight by name.
_FAMILIES = ("bert", "camembert", "distilbert", "electra", "longformer", "mpnet", "roberta", "xlm-roberta", "xlnet")
# Where families apply GELU: the linear layer before it, and the module that applies it.
_GELU_AFTER = (("dense", "intermediate_act_fn"), ("lin1", "activation"))


class PackedLinear(nn.Module):
    """``nn.Linear`` for inference on a CPU, with its weight packed once instead of at every call.

    ``gelu``: the exact GELU is applied to the result in the same pass over memory.
    """

    def __init__(self, linear: nn.Linear, *, gelu: bool = False) -> None:
        """Pack the weight of a linear layer, which keeps its own."""
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        # Not a parameter: a packed weight cannot be trained, moved or saved.
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _ROWS)
        self._bias = None if linear.bias is None else linear.bias.detach()
        self._activation = "gelu" if gelu else "none"

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """As ``nn.Linear``."""
        found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            hidden, self._packed, self._bias, self._activation, [], "none"
        )
        return found


def prepack(model: Any) -> int:
    """Replace the linear layers of a transformers model in place; how many were.

    Each weight is freed as its packed form takes its place, so that memory does not double; only a vocabulary
    head that shares its weight with the embeddings lies there twice. A prepacked model is for inference. Other
    families, devices and types, and builds of torch that cannot pack, are left as they are.
    """
    if model.config.model_type not in _FAMILIES or not can_prepack(next(model.parameters())):
        return 0
    places = list(_linears(model))
    for parent, name in places:
        fused = _fuse_gelu(parent, name)
        setattr(parent, name, PackedLinear(getattr(parent, name), gelu=fused))
    return len(places)


def twin(model: Any) -> Any:
    """The same model in eval mode over the same weights, so that reading and prepacking leave the caller's as it is.

    Hooks and added layers come along: they are part of what the model computes. No memory of a weight is taken.

    Raises:
        ValueError: something in the model cannot be copied, or its ``forward`` was replaced by a function.
    """
    name = type(model).__name__
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    try:
        made = copy.deepcopy(model, shared)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"{name} holds what cannot be copied ({what}). Save it and name its folder.") from error
    if any(isinstance(vars(module).get("forward"), FunctionType) for module in made.modules()):
        raise ValueError(f"The forward of {name} was replaced by a function. Save it and name its folder.")
    return made.eval()


def is_plain(model: Any) -> bool:
    """Whether nobody added to what a transformers model computes: no hooks, wrapped calls or layers of their own."""
    return all(
        type(module).__module__.partition(".")[0] in ("torch", "transformers")
        and not (module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))
        for module in model.modules()
    )


def can_prepack(weight: torch.Tensor) -> bool:
    """Whether weights of this device and type can be packed here, tried on a small one.

    The operations are private to torch: where they are gone, refuse or do something else, models run plainly.
    """
    if weight.device.type != "cpu" or weight.dtype not in _DTYPES or not torch.backends.mkldnn.enabled:
        return False
    return _equals_plain(weight.dtype)


def _equals_plain(dtype: torch.dtype) -> bool:
    """Whether a small packed layer gives what the plain one does."""
    with torch.inference_mode():
        # Not initialised: no random number of the caller is drawn.
        linear = nn.utils.skip_init(nn.Linear, 16, 32, dtype=dtype)  # type: ignore[no-untyped-call]
        wave = torch.arange(16 * 32, dtype=torch.float32).sin()
        linear.weight.copy_(wave.view(32, 16))
        linear.bias.copy_(wave[:32])
        hidden = wave[: 16 * 3].view(1, 3, 16).to(dtype)
        expected = linear(hidden)
        try:
            plain, fused = PackedLinear(linear)(hidden), PackedLinear(linear, gelu=True)(hidden)
        except (AttributeError, RuntimeError):  # NotImplementedError is one of the latter
            return False
        close = 1e-5 if dtype == torch.float32 else 0.1
        return torch.allclose(plain, expected, atol=close) and torch.allclose(
            fused, functional.gelu(expected), atol=close
        )


def _linears(model: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """The parent and name of every plain linear layer; a subclass may mean something else by ``forward``."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                yield parent, name


def _fuse_gelu(parent: Any, name: str) -> bool:
    """Whether an exact GELU follows this layer; it is then replaced by nothing, for the layer applies it."""
    for linear, activation in _GELU_AFTER:
        after = getattr(parent, activation, None)
        if name == linear and getattr(after, "act", None) is functional.gelu:
            setattr(parent, activation, nn.Identity())
            return True
    return False


# Tokens of a row per text of the batch size: 64 texts make rows of 1,024 tokens, beyond which a CPU gains nothing.
_ROOM = {"cpu": 16}
_ROOM_ELSEWHERE = 256


class Engine:
    """A transformers encoder and the way it is read.

    Packed rows where the family can read them, batches of equal length where it cannot: nothing is ever padded.
    The model is not changed unless asked, and only the tokens asked about reach its head.
    """

    def __init__(self, model: Any, *, batch_size: int = 64) -> None:
        """Wrap a model in eval mode, with a head or without."""
        self.model, self.batch_size = model, batch_size
        self._room = batch_size * _ROOM.get(model.device.type, _ROOM_ELSEWHERE)
        self._packing = _packing(model)

    def prepack(self) -> None:
        """Replace the model's linear layers by prepacked ones, where this machine can: for inference alone."""
        if not is_plain(self.model):  # quantised, spread over devices, or of remote code
            return self.read_plainly()
        prepack(self.model)
        self._packing = _packing(self.model)
        return None

    def read_plainly(self) -> None:
        """Read texts of one length at a time, for a model that was added to: it may know nothing of packed rows."""
        self._packing = None

    def batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Indices of the texts that are read together, by length in tokens; every text is in one batch."""
        reach = self._packing[1] if self._packing else 0
        packed = [index for index, length in enumerate(lengths) if length <= reach]
        others = [index for index, length in enumerate(lengths) if length > reach]
        rows = rows_of([lengths[index] for index in packed], self._room)
        batches = length_batches([lengths[index] for index in others], self.batch_size)
        return [[packed[at] for at in row] for row in rows] + [[others[at] for at in batch] for batch in batches]

    def logits(self, encoded: Sequence[Sequence[int]], positions: Sequence[int]) -> torch.Tensor:
        """The head's output at one position of each text of a batch: shape (texts, outputs), float32."""
        places = torch.tensor(positions, device=self.model.device)
        with torch.inference_mode():
            if reader := self._packed_reader(encoded):
                row = pack(encoded, reader)
                with only_rows(reader, row.starts + places):
                    found = read_packed(reader, row).logits
            else:
                with head_at(self.model, places):
                    found = self._read(self.model, encoded).logits
        flat: torch.Tensor = found.float().view(len(encoded), -1)
        return flat

    def class_logits(self, encoded: Sequence[Sequence[int]]) -> torch.Tensor:
        """A text classifier's output for each text of a batch: shape (texts, labels), float32."""
        if self._packed_reader(encoded):  # the heads of all these families read the first token
            return self.logits(encoded, [0] * len(encoded))
        with torch.inference_mode():
            if self.model.config.get_text_config().pad_token_id is None:  # a causal model's head then reads one text
                found = torch.cat([self._read(self.model, [ids]).logits for ids in encoded])
            else:
                found = self._read(self.model, encoded).logits
        return found.float()

    def hidden_states(self, encoded: Sequence[Sequence[int]]) -> torch.Tensor:
        """The encoder's last states of a batch, one text after another: shape (tokens, d)."""
        with torch.inference_mode():
            if reader := self._packed_reader(encoded):
                row = pack(encoded, reader)
                states: torch.Tensor = read_packed(reader.base_model, row).last_hidden_state
            else:
                states = self._read(self.model.base_model, encoded).last_hidden_state
        return states.flatten(0, 1)

    def _packed_reader(self, encoded: Sequence[Sequence[int]]) -> Any:
        """The model that reads packed rows; None where there is none or a text is too long for it."""
        if self._packing is None or max(map(len, encoded)) > self._packing[1]:
            return None
        return self._packing[0]

    def _read(self, model: Any, encoded: Sequence[Sequence[int]]) -> Any:
        """What a model returns for texts of one length."""
        ids = torch.tensor(encoded, device=self.model.device)
        return model(input_ids=ids, attention_mask=torch.ones_like(ids), return_dict=True)


def _packing(model: Any) -> tuple[Any, float] | None:
    """The model that reads packed rows in place of this one, and the longest text that it reads the same."""
    return (model, float("inf")) if can_pack(model.config) else without_window(model)
