"""The local Hub and the clients that use it, in this process and in another."""

import os
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from unittest import mock

import pytest

from swapbias.cli import main


def command(*arguments):
    with (
        mock.patch.object(sys, "argv", ["swapbias", *map(str, arguments)]),
        pytest.raises(SystemExit) as done,
    ):
        main()
    return done.value.code or 0


def writes(hub):
    """Method, path and user of each request that is no question; the Hub is asked for sizes of files by POST."""
    return [
        request
        for request in hub.log
        if request[0] not in ("GET", "HEAD") and "/paths-info/" not in request[1]
    ]


@contextmanager
def online(monkeypatch, hub, *, home, token=""):
    """Within the block the Hub's client in this process talks to ``hub``, retries without waiting and uses no Xet."""
    import huggingface_hub.utils._http as http
    from huggingface_hub import constants, file_download, set_client_factory

    with monkeypatch.context() as patch:
        for name, value in settings(hub, home=home, token=token).items():
            patch.setenv(name, value) if value else patch.delenv(name, raising=False)
        # The client reads its environment once, at import.
        patch.setattr(constants, "ENDPOINT", hub.url)
        patch.setattr(
            constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            hub.url + "/{repo_id}/resolve/{revision}/{filename}",
        )
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        patch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        patch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
        patch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
        for module in (http, file_download):
            patch.setattr(module, "time", SimpleNamespace(sleep=lambda seconds: None))
        set_client_factory(http.default_client_factory)  # which ends open sessions
        try:
            yield
        finally:
            set_client_factory(http.default_client_factory)


def environment(hub, *, home, token=""):
    """The environment of a subprocess whose clients (huggingface_hub, datasets, evaluate) talk to ``hub``."""
    changed = settings(hub, home=home, token=token)
    kept = {name: value for name, value in os.environ.items() if name not in changed}
    return kept | {name: value for name, value in changed.items() if value}


def settings(hub, *, home, token):
    """Environment variables that point the clients at ``hub``; empty: must not be set."""
    unset = (
        "HUGGING_FACE_HUB_TOKEN HF_HUB_CACHE HF_DATASETS_CACHE HF_HUB_OFFLINE HF_DATASETS_OFFLINE"
    )
    return {
        **dict.fromkeys((*unset.split(), "TRANSFORMERS_OFFLINE", "HTTP_PROXY", "http_proxy"), ""),
        **{f"HF_HUB_DISABLE_{name}": "1" for name in ("XET", "TELEMETRY", "PROGRESS_BARS")},
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": token,
        "HF_HOME": str(home),
        "NO_PROXY": "127.0.0.1",
        "USE_TORCH": "0",  # datasets would load it
    }
