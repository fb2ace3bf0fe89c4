"""Loading models: files of one commit of the Hub, weights of the requested type, no code of others unless allowed."""

import hashlib
import importlib
import logging
import re
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from swapbias.errors import UsageError
from swapbias.files import file_sha256, is_there
from swapbias.models.base import HALF_PRECISION, LoadOptions, Say
from swapbias.models.network import configure_http

if TYPE_CHECKING:
    import torch

PICKLES = (".joblib", ".kv", ".pkl")
ADAPTER = "adapter_config.json"  # PEFT writes it into the folder of an adapter
_COMMIT = re.compile(r"[0-9a-f]{40}")
_CONNECT_SECONDS = 5
_WEIGHTS = (r"model(-\d+-of-\d+)?\.safetensors", r"pytorch_model(-\d+-of-\d+)?\.bin")
_MODEL_FILES = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model", "*.codes", "*.spm", "*.py")
_RECORDED = ("device_map", "quantization", "attn_implementation", "subfolder", "trust_remote_code")
_DISTRIBUTIONS = {"sklearn": "scikit-learn"}

# --- names and commits ------------------------------------------------------------------------------------


def split_revision(model: str) -> tuple[str, str]:
    """A model's name and the branch, tag or commit in it; blank where there is none, and for folders.

    >>> split_revision("owner/name@v1"), split_revision("owner/name")
    (('owner/name', 'v1'), ('owner/name', ''))
    """
    name, _, revision = (model, "", "") if is_there(model) else model.partition("@")
    return name, revision


def with_revision(model: str | None, revision: str) -> str:
    """``OWNER/NAME@REVISION``; a UsageError for no model, one with a revision already, or none of the Hub."""
    if not model or is_there(model) or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?(@.*)?", model):
        found = f"{Path(model).name or model} is none" if model else "none is named"
        raise UsageError(f"Revision {revision!r} is of a model on the Hub, and {found}. Drop it, or give OWNER/NAME.")
    if "@" in model:
        raise UsageError(f"{model} names its revision, and {revision!r} is given beside it. Drop one of the two.")
    if not revision:
        raise UsageError(f"The revision of {model} is blank, expected a branch, tag or commit. Give one, or none.")
    return f"{model}@{revision}"


def as_pinned(model: str, pinned: Sequence[Mapping[str, Any]]) -> str:
    """A model of the Hub at its commit in a manifest's ``models``, wherever its branch is by now."""
    name, _ = split_revision(model)
    commits = [str(one.get("revision")) for one in pinned if one.get("model_id") == name]
    is_pinned = not is_there(model) and commits and _COMMIT.fullmatch(commits[0])
    return f"{name}@{commits[0]}" if is_pinned else model


def model_name(model: str) -> str:
    """Its name in findings: the Hub id, or the last part of a folder's path (never a path of this machine)."""
    return Path(model).resolve().name if is_there(model) else split_revision(model)[0]


def weight_files(names: Iterable[str]) -> list[str]:
    """Those files of a model's folder or repository from which transformers reads its weights.

    >>> weight_files(["config.json", "model.safetensors", "pytorch_model.bin"])
    ['model.safetensors']
    """
    every = sorted(names)
    found = ([one for one in every if re.fullmatch(pattern, one)] for pattern in _WEIGHTS)
    return next(filter(None, found), [])


def at_commit(model: str) -> str:
    """``OWNER/NAME@COMMIT``: the current commit of a model on the Hub, or that of the revision in its name.

    A local folder and a whole commit (40 hex digits) stay as they are. Where the Hub cannot be reached, it is the
    commit that was fetched last; a ValueError if there is none, or no such model or revision.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import RevisionNotFoundError

    if is_there(model):
        return model
    if model.endswith("@"):
        raise ValueError(f"Model {model!r} names no revision behind its @. Give a branch, tag or commit.")
    configure_http()
    name, revision = split_revision(model)
    offline, cached = offline_reason(), None
    if offline:
        with suppress(ValueError):  # no Hub id
            files = ("config.json", ADAPTER)
            found = (try_to_load_from_cache(name, file, revision=revision or None) for file in files)
            cached = next((one for one in found if isinstance(one, str)), None)
        if cached is None:
            where = f"kept on this machine at revision {revision}" if revision else "kept on this machine"
            raise ValueError(
                f"Model {name!r} cannot be loaded: it is neither a local folder nor {where}, and {offline}. "
                "Go online, or give a local folder."
            )
    if _COMMIT.fullmatch(revision):
        return model
    try:
        resolved = HfApi().resolve_revision(name, revision=revision or None, local_files_only=bool(offline)).resolved
    except RevisionNotFoundError as error:
        raise ValueError(_no_revision(name, revision)) from error
    except Exception as error:
        raise ValueError(_not_found(name, error)) from error
    return f"{name}@{resolved}"


def _no_revision(name: str, revision: str) -> str:
    return f"Model {name!r} has no revision {revision!r} on the Hub. Look at its branches, tags and commits."


def _not_found(name: str, error: Exception) -> str:
    return (
        f"Model {name!r} cannot be loaded: it is neither a local folder nor a model that the Hub gave "
        f"({first_line(error)}). Check the name and the connection."
    )


def offline_reason() -> str:
    """Why the Hub cannot be reached, found at once: its own client tries for a minute; blank where it can."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    host = urlsplit(constants.ENDPOINT)
    if host.hostname and (not getproxies() or proxy_bypass(host.hostname)):
        try:
            socket.create_connection((host.hostname, host.port or 443), timeout=_CONNECT_SECONDS).close()
        except OSError as error:
            return f"{host.hostname} cannot be reached: {error.strerror or error}"
    return ""


def first_line(error: BaseException) -> str:
    """The first line of an error's text, without its final period."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip().rstrip(".") if lines else type(error).__name__


# --- code in models: pickles, Python functions and remote code run what their maker put in them -------------


@dataclass(frozen=True, slots=True)
class Code:
    """Code that loading a model would run: a pickle or a Python function.

    Attributes:
        name: the file, or ``module:function``.
        sha256: of what would be read or imported; None where that has no file.
    """

    name: str
    pickle: bool
    sha256: str | None


def is_pickle(path: Path) -> bool:
    """Whether a file is of a format that runs code when it is read, by its name as loading decides by it."""
    return path.name.lower().endswith(PICKLES)


def check_pickle(path: Path, *, allowed: bool, say: Say | None = None) -> None:
    """Called before any model file is read: a pickle is announced, or refused with a UsageError."""
    if not is_pickle(path):
        return
    warning = f"{path.name} is a pickle: reading it runs what its maker put in it."
    if not allowed:
        safe = "in word2vec format (.bin, .txt)" if path.name.lower().endswith(".kv") else "as .skops"
        raise UsageError(
            f"{warning} Save it {safe}, or allow it if you trust who made it (-M allow-pickle; of train "
            "--allow-pickle)."
        )
    if say:
        say(warning)


def module_file(module: str) -> Path | None:
    """The file that importing a module would run, found without importing anything; None where there is none."""
    here = str(Path.cwd())
    folders = list(sys.path) if {"", here} & set(sys.path) else [here, *sys.path]  # as it will be when it is imported
    found = None
    for part in module.split("."):  # importlib.util.find_spec would import the packages around it
        found = PathFinder.find_spec(part, folders)
        if found is None:
            return None
        folders = list(found.submodule_search_locations or ())
    source = Path(found.origin) if found and found.origin else None
    return source if source and source.is_file() else None


def load_extra(module: str, *, extra: str) -> Any:
    """An optional third-party module; a UsageError with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise UsageError(
            f"The package {_DISTRIBUTIONS.get(package, package)} is not installed. "
            f"Install it with pip install 'swapbias[{extra}]'."
        ) from error


def _needs(package: str, setting: str) -> None:
    if find_spec(package) is None:
        raise UsageError(f"-M {setting} needs the package {package}. Install it: pip install {package}.")


# --- config, weights, tokenizer -----------------------------------------------------------------------------


def read_config(model: str, options: LoadOptions | None = None) -> Any:
    """The config of a local folder or Hub id (at the revision in its name); of an adapter, of the adapted model.

    A ValueError where there is none; a UsageError where remote code is allowed and the commit is not named.
    """
    from huggingface_hub.errors import RevisionNotFoundError
    from transformers import AutoConfig

    chosen = options or LoadOptions()
    folder = Path(model, chosen.subfolder)
    if not is_there(folder) and (folder.is_absolute() or model.startswith(".") or model.count("/") > 1):
        raise ValueError(f"{model} does not exist. Give a local folder or a Hub id like owner/name.")
    is_adapter = Path(model, ADAPTER).is_file()
    if is_there(folder) and not (is_adapter or (folder / "config.json").is_file()):
        raise ValueError(f"{model} is no model folder: it has no config.json. Give a folder saved by transformers.")
    _check_remote_code(model, chosen)
    place = at_commit(model)
    if adapted := _adapted_model(place, chosen):
        return read_config(adapted, chosen)
    name, how = _source(place, chosen)
    try:
        config = AutoConfig.from_pretrained(name, **how)
    except Exception as error:
        if folder.is_dir():
            raise ValueError(f"{folder / 'config.json'} cannot be read ({first_line(error)}). Mend it.") from error
        if isinstance(error.__cause__, RevisionNotFoundError):
            raise ValueError(_no_revision(name, how["revision"])) from error
        raise ValueError(_not_found(name, error)) from error
    _refuse_kernels(model, config)
    return config


def _check_remote_code(model: str, options: LoadOptions) -> None:
    """Code of the Hub runs only at a commit that the user names: a branch may hold other code tomorrow."""
    if options.trust_remote_code and not is_there(model) and not _COMMIT.fullmatch(split_revision(model)[1]):
        raise UsageError(
            f"trust-remote-code runs code of {split_revision(model)[0]}, which is not pinned. Read the code and name "
            "its commit: OWNER/NAME@COMMIT (40 hex digits)."
        )


def _refuse_kernels(model: str, config: Any) -> None:
    """Kernels in a config are compiled code of the Hub, which would run unasked."""
    for part in (config, *(getattr(config, name, None) for name in getattr(config, "sub_configs", {}))):
        for name in ("_attn_implementation", "_experts_implementation"):
            named = getattr(part, name, None)
            for value in named.values() if isinstance(named, Mapping) else (named,):
                if isinstance(value, str) and "/" in value:
                    raise ValueError(
                        f"The config of {model} names {name.strip('_')} {value[:80]!r}, compiled code of the Hub, "
                        "which is not run. Take it out of config.json."
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
        raise UsageError(f"device {device}: torch finds none on this machine. Pass --device cpu.") from error


def rounds_later(options: LoadOptions) -> bool:
    """Whether an encoder is loaded in float32 and rounded once the effect of rounding was measured on a sample."""
    return options.dtype in HALF_PRECISION and not (options.device_map or options.quantization)


def load_model(
    model: str, auto_class: Any, options: LoadOptions, *, exact: bool = False
) -> tuple[Any, Any, dict[str, Any]]:
    """Model (in eval mode, on its device), tokenizer, and what identifies the model, for the manifest.

    The commit of a model on the Hub is looked up once: config, tokenizer and weights are all of that one.

    Args:
        model: a local folder, a Hub id, or an adapter of either (PEFT), which is merged into the model it adapts.
        auto_class: has ``from_pretrained``.
        options: of loading; what transformers takes is passed to it.
        exact: load in float32 where ``rounds_later``.

    Raises:
        UsageError: a device or package that this machine does not have, remote code that is not pinned.
        ValueError: the folder or Hub id gives no model of this class, or one whose head has no weights.
    """
    import torch
    from transformers import AutoTokenizer

    where = pick_device(options.device)
    place, adapter = at_commit(model), options.adapter
    if adapted := _adapted_model(place, options):
        place, adapter = at_commit(adapted), place
    _check_remote_code(adapted or model, options)
    config = read_config(place, options)
    name, how = _source(place, options)
    dtype = "float32" if exact and rounds_later(options) else options.dtype
    weights = {"dtype": dtype if dtype == "auto" else getattr(torch, dtype)} | _weight_settings(options)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **how)
        loaded, missing = _quietly(auto_class, name, config=config, **weights, **how)
    except Exception as error:
        reason = f"{first_line(error)}."
        if "weights_only" in str(error):  # what it advises nobody should do
            reason = "its weights are a pickle that would run code. Take a model with weights in .safetensors."
        raise ValueError(f"Model {model!r} cannot be loaded: {reason}") from error
    _check_tokenizer(model, tokenizer, loaded)
    folder = Path(name, options.subfolder)
    pin = _files_pin(folder) if is_there(name) else {"revision": how["revision"]}
    pin = {"architecture": [*architectures(config), config.model_type][0], **pin}
    if adapter:
        loaded, pin["adapter"], replaced = _adapt(loaded, adapter, merge="quantization_config" not in weights)
        missing = {key for key in missing if not set(key.split(".")) & set(replaced)}
    if missing:
        raise ValueError(
            f"Model {model!r} has no weights for {min(missing)} ({len(missing)} missing): its head would be random. "
            "Use a model that was trained with this head."
        )
    if not {"device_map", "quantization_config"} & set(weights):
        loaded = loaded.to(where)
    loaded = loaded.eval()
    dtype = str(loaded.dtype).removeprefix("torch.") if options.dtype == "auto" else options.dtype
    settings = {one: value for one in _RECORDED if (value := getattr(options, one))}
    return loaded, tokenizer, {**pin, "device": loaded.device.type, "dtype": dtype, **settings}


def _weight_settings(options: LoadOptions) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` for the weights alone; a UsageError for a missing package or a kernel."""
    found: dict[str, Any] = {}
    if options.device_map:
        if options.device != "auto":
            raise UsageError(f"device {options.device} and device-map {options.device_map} exclude each other.")
        _needs("accelerate", "device-map")
        found["device_map"] = options.device_map
    if options.attn_implementation:
        if "/" in options.attn_implementation:  # compiled code of the Hub
            raise UsageError("attn-implementation names a kernel on the Hub, which is not run. Give sdpa or eager.")
        found["attn_implementation"] = options.attn_implementation
    if options.quantization:
        from transformers import BitsAndBytesConfig

        _needs("bitsandbytes", "quantization")
        bits: Any = {f"load_in_{options.quantization}": True}
        found["quantization_config"] = BitsAndBytesConfig(**bits)  # type: ignore[no-untyped-call]
        found.setdefault("device_map", {"": str(pick_device(options.device))})
    return found


def _adapted_model(place: str, options: LoadOptions) -> str | None:
    """The model that an adapter (PEFT) adapts; None where the folder or Hub id is a whole model itself."""
    if options.adapter or _file(place, "config.json", options.subfolder) or not (file := _file(place, ADAPTER)):
        return None
    _needs("peft", "adapter")
    from peft import PeftConfig

    base = PeftConfig.from_pretrained(str(file.parent)).base_model_name_or_path
    if not base:
        raise ValueError(f"{place} is an adapter, and its {ADAPTER} names no model. Name the model, and -M adapter.")
    return str(base)


def _file(place: str, name: str, subfolder: str = "") -> Path | None:
    """A file of a local folder or Hub id; None where it is not there, or nothing can be reached."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    if is_there(place):
        path = Path(place, subfolder, name)
        return path if path.is_file() else None
    repository, commit = split_revision(place)
    how: dict[str, Any] = {"revision": commit or None, "local_files_only": bool(offline_reason())}
    with suppress(EntryNotFoundError, OSError, ValueError):  # whoever reads the config reports it
        return Path(hf_hub_download(repository, name, subfolder=subfolder or None, **how))
    return None


def _adapt(loaded: Any, adapter: str, *, merge: bool) -> tuple[Any, dict[str, Any], Sequence[str]]:
    """The model with an adapter in it, what identifies the adapter, and the modules that the adapter replaces."""
    _needs("peft", "adapter")
    from peft import PeftModel

    name, commit = split_revision(at_commit(adapter))
    try:
        made = PeftModel.from_pretrained(loaded, name, revision=commit or None)
    except Exception as error:
        raise ValueError(f"Adapter {model_name(adapter)!r} cannot be loaded: {first_line(error)}.") from error
    pin = {"name": model_name(adapter), **_files_pin(Path(name))} if is_there(name) else {"name": name}
    pin |= {"revision": commit} if commit else {}
    replaced = made.active_peft_config.modules_to_save or ()
    return (made.merge_and_unload() if merge else made.get_base_model()), pin, replaced


def _check_tokenizer(model: str, tokenizer: Any, loaded: Any) -> None:
    """A folder without tokenizer files gets an empty default tokenizer: every text would read the same."""
    words, rows = len(tokenizer), loaded.get_input_embeddings().weight.shape[0]
    if words < rows / 2 or words > rows:
        raise ValueError(
            f"Model {model!r} has embeddings of {rows} tokens and its tokenizer knows {words}: they do not belong "
            "together. Put the tokenizer's own files into the folder."
        )


def _source(place: str, options: LoadOptions) -> tuple[str, dict[str, Any]]:
    """A model's name or folder, and how transformers is to find it: no file of another commit, no code unasked."""
    configure_http()
    name, commit = split_revision(place)
    offline = bool(commit and offline_reason())  # its client would try for a minute to list files
    how = {"revision": commit or None, "local_files_only": offline, "trust_remote_code": options.trust_remote_code}
    return name, how | ({"subfolder": options.subfolder} if options.subfolder else {})


def _quietly(auto_class: Any, model: str, **how: Any) -> tuple[Any, set[str]]:
    """A model and its missing weights, without progress bars and reports on unexpected weights of unused heads."""
    from transformers.utils import logging as library

    log, shown = logging.getLogger("transformers"), library.is_progress_bar_enabled()
    level = log.level
    log.setLevel(logging.ERROR)
    library.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        loaded, info = auto_class.from_pretrained(model, output_loading_info=True, **how)
    finally:
        log.setLevel(level)
        if shown:
            library.enable_progress_bar()  # type: ignore[no-untyped-call]
    return loaded, set(info["missing_keys"])


def _files_pin(folder: Path) -> dict[str, Any]:
    """The sha256 over the files of a model's folder, and of each file of weights."""
    paths = sorted({path for pattern in _MODEL_FILES for path in folder.glob(pattern)})
    files = {path.name: file_sha256(path) for path in paths}
    digest = hashlib.sha256("".join(f"{name} {sha256}\n" for name, sha256 in files.items()).encode())
    return {"sha256": digest.hexdigest(), "weights": {name: files[name] for name in weight_files(files)}}


def loaded_pin(model: Any) -> dict[str, Any]:
    """What identifies a model in memory: its class, and the sha256 of its weights."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    dtype = str(model.dtype).removeprefix("torch.")
    made = type(model).__name__
    return {"architecture": made, "sha256": digest.hexdigest(), "device": model.device.type, "dtype": dtype}


# --- lengths --------------------------------------------------------------------------------------------------


def length_limit(tokenizer: Any, model: Any) -> int:
    """Most tokens the model can read."""
    positions = getattr(model.config, "max_position_embeddings", None) or -1
    if positions < 0:  # XLNet has no limit of its own
        positions = tokenizer.model_max_length
    padding = position_padding(model)  # positions up to it are lost
    return int(min(tokenizer.model_max_length, positions if padding is None else positions - padding - 1))


def position_padding(model: Any) -> int | None:
    """The token that has no position of its own, after which RoBERTa and its kin begin to count; None for others.

    It is read from the position embeddings: the config may name another padding token since the model was made.
    """
    embeddings = getattr(model.base_model, "embeddings", None)
    padding: int | None = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
    return padding


def length_batches(lengths: list[int], batch_size: int) -> list[list[int]]:
    """Indices in batches of equal length, at most ``batch_size`` each: nothing is ever padded.

    >>> length_batches([3, 5, 3, 3], 2)
    [[0, 2], [3], [1]]
    """
    by_length: dict[int, list[int]] = {}
    for index, length in enumerate(lengths):
        by_length.setdefault(length, []).append(index)
    return [
        members[start : start + batch_size]
        for _, members in sorted(by_length.items())
        for start in range(0, len(members), batch_size)
    ]
