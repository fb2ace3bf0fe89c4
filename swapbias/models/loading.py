"""Loading models: files of one commit of the Hub, weights of the requested type, no code of others unless allowed."""

import hashlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swapbias.errors import UsageError, first_line, need, quoted
from swapbias.files import file_sha256, is_there
from swapbias.hub_http import configure_http, offline_reason
from swapbias.models.adapter_config import base_of, read_adapter_config
from swapbias.models.base import LoadOptions
from swapbias.models.formats import refuse_other_formats, refuse_quantized, refuse_without_weights
from swapbias.models.model_names import COMMIT, model_name, split_revision, weight_files
from swapbias.models.tokens import refuse_other_tokenizer

if TYPE_CHECKING:
    import torch

PICKLES = (".joblib", ".kv", ".pkl")
# a file of ``swapbias train``
SKOPS = "model.skops"
_WORTH_ROUNDING = 4.0  # times that bfloat16 must be as fast for ``auto`` to take it
_MODEL_FILES = (
    "*.json", "*.safetensors", "*.bin", "*.txt", "*.model", "*.codes", "*.spm", "*.py", "*.skops", "*.jinja",
)  # fmt: skip
_RECORDED = ("device_map", "quantization", "attn_implementation", "subfolder", "trust_remote_code")


def is_saved(model: str) -> bool:
    """Whether it is a scikit-learn model: a file of skops (or a pickle), or a folder of ``swapbias train``."""
    return model.lower().endswith((".skops", *PICKLES)) or Path(model, SKOPS).is_file()


def at_commit(model: str) -> str:
    """``OWNER/NAME@COMMIT`` of a model on the Hub, or of the revision in its name; folders and commits stay.

    Offline it is the commit that was fetched last. ValueError: there is none, or no such model or revision.
    """
    from huggingface_hub import HfApi

    name, revision = split_revision(model)
    if is_there(model) or COMMIT.fullmatch(revision):
        return model
    if model.endswith("@"):
        raise ValueError(
            f"Model {model!r} names no revision behind its @. Give a branch, tag or commit."
        )
    configure_http()
    offline = bool(offline_reason())
    try:
        found = HfApi().resolve_revision(name, revision=revision or None, local_files_only=offline)
    except Exception as error:
        raise ValueError(_not_found(model, error)) from error
    return f"{name}@{found.resolved}"


def _not_found(model: str, error: Exception) -> str:
    from huggingface_hub.errors import RevisionNotFoundError

    name, revision = split_revision(model)
    if isinstance(error, RevisionNotFoundError) or isinstance(
        error.__cause__, RevisionNotFoundError
    ):
        return f"Model {name!r} has no revision {revision!r} on the Hub. Look at its branches, tags and commits."
    unread = f"Model {name!r} cannot be loaded: it is neither a local folder nor"
    if offline := offline_reason():
        where = (
            f"stored on this machine at revision {revision}"
            if revision
            else "stored on this machine"
        )
        return f"{unread} {where}, and {offline}. Go online, or give a local folder."
    return f"{unread} a model that the Hub gave ({first_line(error)}). Check the name and the connection."


def refuse_pickle(path: Path) -> None:
    """A UsageError for a file of a format that runs code when it is read (by its name), before it is read."""
    name = path.name.lower()
    if name.endswith(PICKLES):
        safe = (
            "with save_word2vec_format as .bin"
            if name.endswith(".kv")
            else "with skops.io.dump as .skops"
        )
        why = f"{path.name} is a pickle: it may run code of its maker"
        raise UsageError(f"{why}. If you trust it, load it in Python and save it {safe}.")


def module_file(module: str) -> Path | None:
    """The file that importing a module would run, found without importing anything; None where there is none."""
    here = str(Path.cwd())
    folders = (
        list(sys.path) if {"", here} & set(sys.path) else [here, *sys.path]
    )  # as it will be when it is imported
    found = None
    for part in module.split("."):  # importlib.util.find_spec would import the packages around it
        found = PathFinder.find_spec(part, folders)
        if found is None:
            return None
        folders = list(found.submodule_search_locations or ())
    source = Path(found.origin) if found and found.origin else None
    return source if source and source.is_file() else None


def _needs(package: str, setting: str) -> None:
    if find_spec(package) is None:
        raise UsageError(
            f"-M {setting} needs the package {package}. Install it: pip install {package}."
        )


def read_config(model: str, options: LoadOptions | None = None) -> Any:
    """The config of a local folder or Hub id, of an adapter that of its base; raises as ``load_model``."""
    need("This", "transformers")
    return _located(*split_adapter(model, options or LoadOptions()))[1]


def split_adapter(model: str, options: LoadOptions) -> tuple[str, LoadOptions]:
    """A model and its settings; where an adapter (PEFT) stands in its place, its base with the adapter beside it.

    UsageError: another adapter is named as well. ValueError: a base that is not at hand, or a whole model beside.
    """
    _refuse_unpinned_code(model, options)
    place = at_commit(model) if _may_be_hub_id(model) else model
    declared = _adapter_config(place, options.subfolder)
    if declared is None:
        return model, options
    name = model_name(model)
    if options.adapter:
        raise UsageError(
            f"{name} is an adapter, and -M adapter names another. Name the model of one of them."
        )
    folder = Path(model, options.subfolder)
    weights = weight_files(os.listdir(folder)) if is_there(folder) else []
    if any(not file.startswith("adapter_model") for file in weights):
        raise ValueError(
            f"{name} holds a whole model and an adapter. Put one of them into a folder of its own."
        )
    base = base_of(declared)
    if not base or not (is_there(base) or _may_be_hub_id(base)):
        why = f"{name} is an adapter of {quoted(base)}, which is not on this machine"
        raise ValueError(f"{why}. Name its model, and it with -M adapter.")
    adapter = str(folder) if is_there(model) else place
    return base, replace(options, adapter=adapter, subfolder="")


def _adapter_config(place: str, subfolder: str = "") -> Mapping[str, Any] | None:
    is_remote = not is_there(place)
    return read_adapter_config(place, subfolder, offline=is_remote and bool(offline_reason()))


def _may_be_hub_id(model: str) -> bool:
    return not (Path(model).is_absolute() or model.startswith(".") or model.count("/") > 1)


def _located(model: str, options: LoadOptions) -> tuple[str, Any]:
    """A model at its commit, and its config."""
    from transformers import AutoConfig, PreTrainedConfig

    folder = Path(model, options.subfolder)
    if not is_there(folder) and (
        folder.is_absolute() or model.startswith(".") or model.count("/") > 1
    ):
        raise ValueError(
            f"{model} does not exist. Give a local folder or a Hub id like owner/name."
        )
    refuse_other_formats(model, folder)
    if is_there(folder) and not (folder / "config.json").is_file():
        raise ValueError(f"{model} is no model folder: it has no config.json. Name another folder.")
    _refuse_unpinned_code(model, options)
    place = at_commit(model)
    name, how = _source(place, options)
    try:
        if PreTrainedConfig.get_config_dict(name, **how)[0].get("model_type") == "bilstm":
            import_module("swapbias.models.bilstm")  # transformers knows it from then on
        config = AutoConfig.from_pretrained(name, **how)
    except Exception as error:
        if folder.is_dir():
            raise ValueError(
                f"{folder / 'config.json'} cannot be read ({first_line(error)}). Mend it."
            ) from error
        raise ValueError(_not_found(place, error)) from error
    _refuse_kernels(model, config)
    refuse_quantized(model, config)
    return place, config


def _refuse_unpinned_code(model: str, options: LoadOptions) -> None:
    """Code of the Hub runs only at a commit that the user names: a branch may hold other code tomorrow."""
    if (
        options.trust_remote_code
        and not is_there(model)
        and not COMMIT.fullmatch(split_revision(model)[1])
    ):
        name = split_revision(model)[0]
        code = f"trust-remote-code runs code of {name}, which is not pinned"
        raise UsageError(
            f"{code}. Read it and add its commit to the name: {name}@ and 40 hex digits."
        )


def _refuse_kernels(model: str, config: Any) -> None:
    """Kernels in a config are compiled code of the Hub, which would run unasked."""
    for part in (
        config,
        *(getattr(config, name, None) for name in getattr(config, "sub_configs", {})),
    ):
        for name in ("_attn_implementation", "_experts_implementation"):
            named = getattr(part, name, None)
            for value in named.values() if isinstance(named, Mapping) else (named,):
                if isinstance(value, str) and "/" in value:
                    named = f"{name.strip('_')} {value[:80]!r}, compiled code of the Hub"
                    raise ValueError(
                        f"The config of {model} names {named}, which is not run. Drop it."
                    )


def architectures(config: Any) -> Sequence[str]:
    """The architectures in a config; none where it has no such key."""
    named = config.architectures
    return [one for one in named if isinstance(one, str)] if isinstance(named, list | tuple) else ()


def pick_device(device: str) -> "torch.device":
    """The torch device of ``auto`` (cuda where there is one) or a name; a UsageError if this machine has none."""
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=device).device
    except (AssertionError, RuntimeError) as error:
        raise UsageError(
            f"device {device}: torch finds none on this machine. Pass --device cpu."
        ) from error


def _chosen_dtype(options: LoadOptions) -> str:
    """The type of the weights; of ``auto`` bfloat16 where that is four times as fast here as float32."""
    if options.dtype != "auto":
        return options.dtype
    times = _times_faster(pick_device(options.device).type)
    chosen = "bfloat16" if times >= _WORTH_ROUNDING else "float32"
    logging.getLogger("swapbias").info(
        "dtype auto: %s, for bfloat16 is %.1f times as fast here.", chosen, times
    )
    return chosen


@cache
def _times_faster(device: str) -> float:
    """How many times as fast as in float32 a device multiplies matrices in bfloat16, tried for some 50 ms."""
    import torch
    from torch.utils.benchmark import Timer  # waits for a GPU

    size = 512 if device == "cpu" else 4_096
    ones = [
        torch.ones(size, size, dtype=dtype, device=device)
        for dtype in (torch.float32, torch.bfloat16)
    ]
    timed = [
        Timer("one @ one", globals={"one": one}, num_threads=torch.get_num_threads())
        for one in ones
    ]
    exact, rounded = (one.blocked_autorange(min_run_time=0.025).median for one in timed)
    return exact / rounded


def load_model(
    model: str, auto_class: Any, options: LoadOptions, *, labels: Sequence[str] = ()
) -> tuple[Any, Any, dict[str, Any]]:
    """Model (in eval mode, on its device), tokenizer, and what identifies the model, for the manifest.

    All files are of one commit; an adapter (PEFT) is merged. ``labels``: of a new head, still to be trained.
    UsageError: a missing device or package, remote code that is not pinned. ValueError: no model of this class, or a
    head without weights.
    """
    import torch
    from transformers import AutoTokenizer

    where = pick_device(options.device)
    dtype = _chosen_dtype(options)
    model, options = split_adapter(model, options)
    place, config = _located(model, options)
    name, how = _source(place, options)
    weights = {"dtype": getattr(torch, dtype)} | _weight_settings(options)
    if labels:
        config.id2label = dict(enumerate(labels))
        config.label2id = {name: at for at, name in enumerate(labels)}
        weights["ignore_mismatched_sizes"] = True
    refuse_without_weights(model, Path(model, options.subfolder))
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **how)
        with quiet():
            loaded, info = auto_class.from_pretrained(
                name, output_loading_info=True, config=config, **weights, **how
            )
        missing = set(info["missing_keys"])
    except Exception as error:
        reason = f"{first_line(error)}."
        if "weights_only" in str(error):  # what it advises nobody should do
            reason = "its weights are a pickle that would run code. Take a model with weights in .safetensors."
        raise ValueError(f"Model {model!r} cannot be loaded: {reason}") from error
    if labels:  # the head and what feeds it may lack weights
        body = f"{loaded.base_model_prefix}."
        missing = {key for key in missing if key.startswith(body) and "pooler" not in key}
    refuse_other_tokenizer(model, loaded, tokenizer)
    pin = {
        "architecture": [*architectures(config), config.model_type][0],
        **files_pin(place, options.subfolder),
    }
    if options.adapter:
        loaded, trained, adapter_pin = _with_adapter(
            loaded, options.adapter, merge=not options.quantization
        )
        missing = {key for key in missing if not set(key.split(".")) & trained}
        pin["adapter"] = adapter_pin
    if options.adapter or options.quantization or options.subfolder:
        pin["base"] = model_name(model)
    if missing:
        lacks = f"has no weights for {min(missing)} ({len(missing)} missing)"
        raise ValueError(f"Model {model!r} {lacks}. Use one that was trained with this head.")
    if not {"device_map", "quantization_config"} & set(weights):
        loaded = loaded.to(where)
    loaded = loaded.eval()
    settings = {one: value for one in _RECORDED if (value := getattr(options, one))}
    return loaded, tokenizer, {**pin, "device": loaded.device.type, "dtype": dtype, **settings}


def _with_adapter(model: Any, adapter: str, *, merge: bool) -> tuple[Any, set[str], dict[str, Any]]:
    """A model with its adapter, the modules that the adapter brings along, and what identifies the adapter."""
    _needs("peft", "adapter")
    from peft import PeftModel

    place = at_commit(adapter)
    name, commit = split_revision(place)
    try:
        adapted = PeftModel.from_pretrained(model, name, revision=commit or None)
    except Exception as error:
        raise ValueError(
            f"Adapter {model_name(adapter)!r} cannot be loaded: {first_line(error)}."
        ) from error
    trained = set(adapted.active_peft_config.modules_to_save or ())
    loaded = adapted.merge_and_unload() if merge else adapted.get_base_model()
    declared = base_of(_adapter_config(place) or {})
    base = {"base": model_name(declared)} if declared else {}
    return loaded, trained, {"name": model_name(adapter), **base, **files_pin(place)}


def _weight_settings(options: LoadOptions) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` for the weights alone; a UsageError for a missing package or a kernel."""
    if "/" in (options.attn_implementation or ""):  # compiled code of the Hub
        raise UsageError(
            "attn-implementation names a kernel on the Hub, which is not run. Give sdpa or eager."
        )
    if options.device_map:
        if options.device != "auto":
            raise UsageError(
                f"device {options.device} and device-map {options.device_map} exclude each other."
            )
        _needs("accelerate", "device-map")
    every = {name: getattr(options, name) for name in ("device_map", "attn_implementation")}
    found: dict[str, Any] = {name: value for name, value in every.items() if value}
    if options.quantization:
        from transformers import BitsAndBytesConfig

        _needs("bitsandbytes", "quantization")
        bits: Any = {f"load_in_{options.quantization}": True}
        found["quantization_config"] = BitsAndBytesConfig(**bits)  # type: ignore[no-untyped-call]
        found.setdefault("device_map", {"": str(pick_device(options.device))})
    return found


def _source(place: str, options: LoadOptions) -> tuple[str, dict[str, Any]]:
    """A model's name or folder, and how transformers is to find it: no file of another commit, no code unasked."""
    configure_http()
    name, commit = split_revision(place)
    offline = bool(commit and offline_reason())  # its client would try for a minute to list files
    how = {
        "revision": commit or None,
        "local_files_only": offline,
        "trust_remote_code": options.trust_remote_code,
    }
    return name, how | ({"subfolder": options.subfolder} if options.subfolder else {})


@contextmanager
def quiet() -> Iterator[None]:
    """Let transformers show no progress bars and no reports on unexpected weights of unused heads."""
    from transformers.utils import logging as library

    log = logging.getLogger("transformers")
    shown = library.is_progress_bar_enabled()
    level = log.level
    log.setLevel(logging.ERROR)
    library.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        log.setLevel(level)
        if shown:
            library.enable_progress_bar()  # type: ignore[no-untyped-call]


def files_pin(place: str, subfolder: str = "") -> dict[str, Any]:
    """The commit of a model on the Hub, or the sha256 over the files of its folder and of each file of weights."""
    if not is_there(place):
        return {"revision": split_revision(place)[1]}
    paths = sorted(
        {path for pattern in _MODEL_FILES for path in Path(place, subfolder).glob(pattern)}
    )
    files = {path.name: file_sha256(path) for path in paths}
    digest = hashlib.sha256(
        "".join(f"{name} {sha256}\n" for name, sha256 in files.items()).encode()
    )
    return {
        "sha256": digest.hexdigest(),
        "weights": {name: files[name] for name in weight_files(files)},
    }


def quantization_of(model: Any) -> dict[str, str]:
    """The quantization of a model in memory, as ``read_name`` takes it; empty without one."""
    config = getattr(model.config, "quantization_config", None)
    if config is None:
        return {}
    values = config if isinstance(config, Mapping) else config.to_dict()
    bits = next((f"{bits}bit" for bits in (4, 8) if values.get(f"load_in_{bits}bit")), "")
    return {"quantization": bits or str(values.get("quant_method") or "quantized")}


def loaded_pin(model: Any) -> dict[str, Any]:
    """What identifies a model in memory: its class, and the sha256 of its weights."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    made = type(model).__name__
    dtype = str(model.dtype).removeprefix("torch.")
    return {
        "architecture": made,
        "sha256": digest.hexdigest(),
        "device": model.device.type,
        "dtype": dtype,
    }


def length_limit(tokenizer: Any, model: Any) -> int:
    """Most tokens the model can read."""
    most = tokenizer.model_max_length
    positions = getattr(model.config, "max_position_embeddings", None) or -1
    padding = position_padding(model)  # positions up to it are lost
    # XLNet has no limit of its own
    return int(
        most
        if positions < 0
        else min(most, positions if padding is None else positions - padding - 1)
    )


def position_padding(model: Any) -> int | None:
    """The token after which RoBERTa and its kin count positions, by the embeddings; None for other models."""
    embeddings = getattr(model.base_model, "embeddings", None)
    padding: int | None = getattr(
        getattr(embeddings, "position_embeddings", None), "padding_idx", None
    )
    return padding


def length_batches(lengths: list[int], batch_size: int) -> list[list[int]]:
    """Indices in batches of equal length, at most ``batch_size`` each: nothing is ever padded.

    >>> length_batches([3, 5, 3, 3], 2)
    [[0, 2], [3], [1]]
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    groups = (list(members) for _, members in groupby(order, key=lengths.__getitem__))
    return [
        members[at : at + batch_size]
        for members in groups
        for at in range(0, len(members), batch_size)
    ]
