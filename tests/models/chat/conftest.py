import pytest


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("SWAPBIAS_API_KEY", "OPENAI_API_KEY", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    """Between attempts of the client."""
    import openai._base_client  # once tests/conftest.py has set HF_HUB_OFFLINE

    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr(openai._base_client, "MAX_RETRY_DELAY", 0.01)
