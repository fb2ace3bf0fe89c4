"""Whose page on the Hub a run may be shown on: that of the very model that was read, by its commit or its weights."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from swapbias.errors import HubError, UsageError, listed
from swapbias.findings import Finding
from swapbias.hub.client import Hub, Repo, State
from swapbias.models import model_names
from swapbias.privacy import names_within

Pin = Mapping[str, Any]  # what identifies a model in a manifest


def findings_of(
    found: Sequence[Finding], model: str, audited: str | None, pins: Sequence[Pin] = ()
) -> list[Finding]:
    """The findings of the model whose page on the Hub is ``model`` (OWNER/NAME), by the ``pins`` of a manifest.

    UsageError: it was not audited, or with an adapter that has a page of its own.
    """
    names = list(dict.fromkeys(one.model_id for one in found))
    if audited is not None and audited not in names:
        raise UsageError(
            f"The run audited {listed(names, 'no model')}, and {audited} is none of them. Correct --audited."
        )
    if audited is None and model not in names:
        pages = {str(pin["model_id"]): _page_of(pin) for pin in pins}
        of_page = [name for name in names if pages.get(name) == model]
        if len(of_page) == 1:
            return [one for one in found if one.model_id == of_page[0]]
        for pin in (pin for pin in pins if pin["model_id"] in names):
            _refuse_base(model, pin)
        raise UsageError(
            f"The run audited {listed(names, 'no model')}, and {model} is none of them. If one of them is {model} "
            "under another name, say which with --audited."
        )
    return [one for one in found if one.model_id == (audited or model)]


def _page_of(pin: Pin) -> str:
    """The name on the Hub of the model whose page may tell what was read: of an adapter its own, else the base's."""
    adapter = pin.get("adapter")
    if isinstance(adapter, Mapping):
        return str(adapter.get("name"))
    return str(pin.get("base") or pin["model_id"])


def _refuse_base(model: str, pin: Pin) -> None:
    """Refuse the page of a base, with a UsageError, for what its adapter makes of it."""
    adapter = pin.get("adapter")
    if isinstance(adapter, Mapping) and model == str(pin.get("base")):
        page = str(adapter.get("name"))
        step = (
            f"Share it with --model {page}" if "/" in page else "Push the adapter and name its page"
        )
        raise UsageError(
            f"The run read {model} with the adapter {page}, whose numbers are not those of {model}. {step}, or share "
            "the results without --model."
        )


def read_otherwise(manifest: Mapping[str, Any], audited: str) -> str:
    """In which other form than its own a model was read, in a few words; blank for its weights as they are."""
    pin = _pin_of(manifest, audited)
    subfolder = f"the subfolder {pin['subfolder']}" if pin.get("subfolder") else ""
    return " and ".join(filter(None, (str(pin.get("quantization") or ""), subfolder)))


def _pin_of(manifest: Mapping[str, Any], audited: str) -> Pin:
    pin: Pin = next((one for one in manifest.get("models", ()) if one["model_id"] == audited), {})
    return pin.get("features") or pin  # of an embedding; its classifier was trained in the audit


def commit_read(hub: Hub, model: Repo, manifest: Mapping[str, Any], audited: str) -> str:
    """The commit of a model that a run read under a name; blank where it read files of the same sha256 elsewhere.

    Of a base with an adapter it is the adapter's. UsageError: the repository has other weights, or is the base's, or
    nothing tells what the run read.
    """
    pin = _pin_of(manifest, audited)
    _refuse_base(model.name, pin)
    adapter = pin.get("adapter")
    if isinstance(adapter, Mapping):
        _refuse_other_base(model.name, pin, adapter)
        return _commit_of(hub, model, adapter, str(adapter.get("name")), audited)
    return _commit_of(hub, model, pin, names_within(audited)[0], audited)


def _refuse_other_base(model: str, pin: Pin, adapter: Pin) -> None:
    """Refuse the page of an adapter, with a UsageError, for another base than the one that its config names."""
    declared = str(adapter.get("base") or "")
    base = str(pin.get("base") or "")
    if (
        "/" in declared
        and base != declared
        and not (pin.get("sha256") and base == declared.rpartition("/")[2])
    ):
        raise UsageError(
            f"{model} is an adapter of {declared}, and the run read it on {base}. Audit it on {declared}, or share "
            "the results without --model."
        )


def _commit_of(hub: Hub, model: Repo, pin: Pin, name: str, audited: str) -> str:
    """``commit_read`` of one of the parts that a model was read from, which is ``name`` in its manifest."""
    revision = str(pin.get("revision"))
    elsewhere = any(pin.get(key) for key in ("host", "provider", "sha256"))
    commit = revision if re.fullmatch("[0-9a-f]{40}", revision) and not elsewhere else ""
    if commit and _at_commit(hub, model, commit):
        return commit
    read = dict(pin.get("weights") or {})
    if commit and re.fullmatch(r"[\w.-]+/[\w.-]+", name, re.ASCII):
        read = _weights(_at_commit(hub, Repo("model", name), commit))
    if not read:
        raise UsageError(
            f"Nothing tells which weights the run read as {audited}: a service, a function or a model in memory has "
            f"none. Audit {model.name}, or the folder that was pushed there."
        )
    if _weights(hub.existing_state(model)) != read:
        raise UsageError(
            f"{model.name} has other weights than {audited}, which the run read. Audit {model.name}."
        )
    return ""


def _at_commit(hub: Hub, repo: Repo, commit: str) -> State | None:
    try:
        return hub.state(repo, revision=commit)
    except HubError:  # no such commit
        return None


def _weights(state: State | None) -> dict[str, str]:
    """The sha256 of each file of weights, as the Hub reports it."""
    files = state.files if state else {}
    return {name: files[name].removeprefix("sha256:") for name in model_names.weight_files(files)}
