"""Upstream files come from their pinned commit with their pinned sha256, or are not kept at all."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from scripts import pull_sources as script
from swapbias.studies import tables as sources
from tests.conftest import files_below

CORPUS = "gendered_stigma"
GOOD = b"word,label\nnurse,other\n"
WRONG = b"word,label\nnurse,wrong\n"
COMMIT = "ab" * 20


def pin(path):
    sha256 = hashlib.sha256(GOOD).hexdigest()
    return {"path": path, "repository": "lab/code", "commit": COMMIT, "sha256": sha256}


@pytest.fixture
def host(monkeypatch, tmp_path):
    """A stand-in for the raw host; the fixture is the list of paths that were asked for."""
    addresses = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            addresses.append(self.path)
            if "missing" in self.path:
                return self.send_error(404)
            self.send_response(200)
            self.send_header("Content-Length", str(len(GOOD)))
            self.end_headers()
            self.wfile.write(
                GOOD[:7] if "cut" in self.path else WRONG if "wrong" in self.path else GOOD
            )

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/{{repository}}/{{commit}}/{{path}}"
        monkeypatch.setattr(sources, "_RAW_URL", address)
        monkeypatch.setenv("SWAPBIAS_CACHE", str(tmp_path))
        monkeypatch.delenv("SWAPBIAS_UPSTREAM", raising=False)
        yield addresses
        server.shutdown()


def pin_files(monkeypatch, *paths):
    pins = {path: pin(path) for path in paths}
    monkeypatch.setattr(sources, "pinned_files", lambda corpus: pins)
    monkeypatch.setattr(script, "pinned_files", lambda corpus: pins)


def test_right_file(host, monkeypatch, tmp_path, capsys):
    """The right file is fetched from its commit and kept."""
    pin_files(monkeypatch, "data/a file.csv")
    assert script.main([CORPUS]) == 0
    assert host == [f"/lab/code/{COMMIT}/data/a%20file.csv"]
    assert files_below(tmp_path) == {f"upstream/lab/code/{COMMIT}/data/a file.csv": GOOD}
    assert capsys.readouterr().out == f"{CORPUS}: data/a file.csv: ok\n"
    assert script.main([CORPUS]) == 0
    assert len(host) == 1  # it is at hand now


def test_line_for_each_file(host, monkeypatch, tmp_path, capsys):
    """Each file has a line, and the failure of one does not stop the others."""
    expected = {
        "a.csv": "ok", "missing.csv": "could not be fetched", "cut.csv": "IncompleteRead",
        "wrong.csv": "not the pinned one", "b.csv": "ok",
    }  # fmt: skip
    pin_files(monkeypatch, *expected)
    assert script.main([CORPUS]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[1] for line in lines] == list(expected)
    assert all(words in line for line, words in zip(lines, expected.values(), strict=True))
    assert sorted(path.rpartition("/")[2] for path in files_below(tmp_path)) == ["a.csv", "b.csv"]


def test_check(host, monkeypatch, tmp_path, capsys):
    """A check fetches nothing and finds a file that was changed."""
    pin_files(monkeypatch, "a.csv")
    assert script.main([CORPUS, "--check"]) == 1
    assert "was not found" in capsys.readouterr().out
    assert host == []
    assert script.main([CORPUS]) == 0
    assert script.main([CORPUS, "--check"]) == 0
    assert len(host) == 1
    (tmp_path / "upstream" / "lab" / "code" / COMMIT / "a.csv").write_bytes(WRONG)
    assert script.main([CORPUS, "--check"]) == 1
    assert "its sha256 is not the pinned" in capsys.readouterr().out
    assert len(host) == 1
    assert script.main([CORPUS]) == 0  # fetched anew
    assert len(host) == 2


def test_folder_of_a_user(host, monkeypatch, tmp_path, capsys):
    """A folder of the user is read, and a wrong file in it is not replaced."""
    pin_files(monkeypatch, "a.csv")
    monkeypatch.setenv("SWAPBIAS_UPSTREAM", str(tmp_path / "mine"))
    assert script.main([CORPUS]) == 1
    (tmp_path / "mine" / "lab" / "code").mkdir(parents=True)
    (tmp_path / "mine" / "lab" / "code" / "a.csv").write_bytes(WRONG)
    assert script.main([CORPUS]) == 1
    assert "its sha256 is not the pinned" in capsys.readouterr().out
    assert (tmp_path / "mine" / "lab" / "code" / "a.csv").read_bytes() == WRONG
    (tmp_path / "mine" / "lab" / "code" / "a.csv").write_bytes(GOOD)
    assert script.main([CORPUS]) == 0
    assert host == []


def test_unknown_corpus(capsys):
    """An unknown corpus is one sentence with exit code 2."""
    assert script.main(["imdb"]) == 2
    assert "Unknown corpus 'imdb'" in capsys.readouterr().err
