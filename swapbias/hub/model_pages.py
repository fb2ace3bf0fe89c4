"""Whose page on the Hub a run may be shown on: that of the very model that was read, by its commit or its weights."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from swapbias.errors import HubError, UsageError, listed
from swapbias.findings import Finding
from swapbias.hub.client import Hub
from swapbias.hub.repository import Repo, State
from swapbias.models import model_names
from swapbias.privacy import names_within

Pin = Mapping[str, Any]  # what identifies a model in a manifest


def findings_of(
    findings: Sequence[Finding], model: str, audited: str | None, pins: Sequence[Pin] = ()
) -> list[Finding]:
    """Return the findings of the model whose page on the Hub is to show them.

    Args:
        findings: the findings of a run.
        model: name of the page, OWNER/NAME.
        audited: the model's name in the run, where it is another one.
        pins: what identifies the models in the run's manifest.

    Returns:
        the findings of this model.

    Raises:
        UsageError: it was not audited, or with an adapter that has a page of its own.
    """
    names = list(dict.fromkeys(finding.model_id for finding in findings))
    if audited is not None and audited not in names:
        raise UsageError(
            f"The run audited {listed(names, 'no model')}, and {audited} is none of them. Correct --audited."
        )
    name = audited or model
    if audited is None and model not in names:
        name = _name_in_run(names, model, pins)
    return [finding for finding in findings if finding.model_id == name]


def _name_in_run(names: Sequence[str], model: str, pins: Sequence[Pin]) -> str:
    """Return the name in a run of the model that has a page; UsageError where there is none or several."""
    pages = {str(pin["model_id"]): _page_of(pin) for pin in pins}
    of_page = [name for name in names if pages.get(name) == model]
    if len(of_page) == 1:
        return of_page[0]
    for pin in pins:
        if pin["model_id"] in names:
            _refuse_base(model, pin)
    raise UsageError(
        f"The run audited {listed(names, 'no model')}, and {model} is none of them. If one of them is {model} "
        "under another name, say which with --audited."
    )


def _page_of(pin: Pin) -> str:
    """Return the name on the Hub of the model whose page may tell what was read: an adapter's, else the base's."""
    adapter = pin.get("adapter")
    if isinstance(adapter, Mapping):
        return str(adapter.get("name"))
    return str(pin.get("base") or pin["model_id"])


def _refuse_base(model: str, pin: Pin) -> None:
    """Refuse the page of a base, with a UsageError, for what its adapter makes of it."""
    adapter = pin.get("adapter")
    if isinstance(adapter, Mapping) and model == str(pin.get("base")):
        page = str(adapter.get("name"))
        step = "Push the adapter and name its page"
        if "/" in page:
            step = f"Share it with --model {page}"
        raise UsageError(
            f"The run read {model} with the adapter {page}, whose numbers are not those of {model}. {step}, or share "
            "the results without --model."
        )


def read_otherwise(manifest: Mapping[str, Any], audited: str) -> str:
    """Say in which other form than its own a model was read.

    Args:
        manifest: the manifest of the run.
        audited: the model's name in it.

    Returns:
        a few words; blank for its weights as they are.
    """
    pin = _pin_of(manifest, audited)
    forms = []
    if pin.get("quantization"):
        forms.append(str(pin["quantization"]))
    if pin.get("subfolder"):
        forms.append(f"the subfolder {pin['subfolder']}")
    return " and ".join(forms)


def _pin_of(manifest: Mapping[str, Any], audited: str) -> Pin:
    """Return what identifies a model; of an embedding itself, for its classifier was trained in the audit."""
    pins = (pin for pin in manifest.get("models", ()) if pin["model_id"] == audited)
    pin: Pin = next(pins, {})
    return pin.get("features") or pin


def commit_read(hub: Hub, model: Repo, manifest: Mapping[str, Any], audited: str) -> str:
    """Return the commit of a model that a run read under a name.

    Args:
        hub: the Hub.
        model: the model's repository.
        manifest: the manifest of the run.
        audited: the model's name in it.

    Returns:
        the commit, of a base with an adapter the adapter's; blank where it read files of the same sha256 elsewhere.

    Raises:
        UsageError: the repository has other weights, or is the base's, or nothing tells what the run read.
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
    is_folder_of_it = pin.get("sha256") and base == declared.rpartition("/")[2]
    if "/" in declared and base != declared and not is_folder_of_it:
        raise UsageError(
            f"{model} is an adapter of {declared}, and the run read it on {base}. Audit it on {declared}, or share "
            "the results without --model."
        )


def _commit_of(hub: Hub, model: Repo, pin: Pin, name: str, audited: str) -> str:
    """Return the commit of a part that a model was read from, which is ``name`` in its manifest."""
    revision = str(pin.get("revision"))
    elsewhere = any(pin.get(key) for key in ("host", "provider", "sha256"))
    commit = ""
    if re.fullmatch("[0-9a-f]{40}", revision) and not elsewhere:
        commit = revision
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
    """Read what a repository holds at a commit; None where it has no such commit."""
    try:
        return hub.state(repo, revision=commit)
    except HubError:  # no such commit
        return None


def _weights(state: State | None) -> dict[str, str]:
    """Return the sha256 of each file of weights, as the Hub reports it."""
    files = state.files if state else {}
    return {name: files[name].removeprefix("sha256:") for name in model_names.weight_files(files)}
