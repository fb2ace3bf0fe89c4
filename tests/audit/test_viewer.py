"""A folder of runs in a browser: this machine alone, nothing but what runs hold, and nothing that runs."""

import http.client
import threading
from contextlib import contextmanager
from urllib.parse import quote

import pytest
import typer

from swapbias.audit import RunsServer, Viewer
from swapbias.errors import UsageError
from tests.hub.shared_runs import on_disk
from tests.report.browser import Browser, find

SETTINGS = {"model": "m", "load": {}, "notes": {}, "chat": None}
HOSTILE = '<img src=x onerror="window.hit=1">'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three runs, one of them of a stranger, and three that cannot be shown."""
    place = tmp_path_factory.mktemp("served") / "runs"
    on_disk(place / "one", "lab/one", 0.3, settings=SETTINGS)
    on_disk(place / "deep" / "two", "lab/two", 0.1, settings=SETTINGS)
    on_disk(place / HOSTILE, HOSTILE, 0.2, settings=SETTINGS)
    (place / HOSTILE / "report.html").write_text("<script>window.hit=1</script>")
    on_disk(place / "begun", status="running")
    (on_disk(place / "broken") / "results.json").write_text("{")
    (place / "no-manifest").mkdir()
    (place / "no-manifest" / "manifest.json").write_bytes(b"\x00\xff")
    (place.parent / "secret.txt").write_text("secret")
    on_disk(place.parent / "outside", "lab/outside")
    (place / "link").symlink_to(place.parent / "outside")
    return place


@contextmanager
def served(folder):
    with RunsServer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def server(folder):
    with served(folder) as running:
        yield running


def ask(server, path, *, method="GET", host=None):
    port = server.server_address[1]
    caller = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    caller.putrequest(method, path, skip_host=True)
    if host != "":
        caller.putheader("Host", host or f"127.0.0.1:{port}")
    caller.endheaders()
    answer = caller.getresponse()
    told = answer.status, dict(answer.getheaders()), answer.read().decode()
    caller.close()
    return told


def keys(server):
    import re

    page = ask(server, "/")[2]
    return dict(re.findall(r'<a href="/run/(\w+)">([^<]+)</a>', page))


def test_the_list_says_what_each_run_is_and_of_a_damaged_one_why(server):
    status, headers, page = ask(server, "/")
    assert status == 200
    hostile = "&lt;img src=x onerror=&#34;window.hit=1&#34;&gt;"
    assert sorted(keys(server).values()) == sorted(["one", "deep/two", hostile])
    for part in ("lab/one", "gendered_stigma", "2026-11-20", "of 6 runs"):
        assert part in page
    assert "It is not complete: go on with swapbias audit --resume." in page
    assert page.count("It cannot be read:") == 2
    assert "outside" not in page
    assert HOSTILE not in page
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "form-action 'self'" in page.replace("&#39;", "'")


def test_the_list_is_filtered(server):
    assert "lab/two" not in ask(server, "/?search=LAB%2Fone")[2]
    assert "lab/one" in ask(server, "/?search=LAB%2Fone&study=gendered_stigma")[2]
    assert "No run is like that." in ask(server, "/?study=none")[2]
    assert f'value="{HOSTILE}"' not in ask(server, f"/?search={quote(HOSTILE)}")[2]


def test_a_report_is_made_of_what_was_checked_and_never_sent_as_it_lies_there(server):
    for key in keys(server):
        status, _, page = ask(server, f"/run/{key}")
        assert status == 200
        assert "Bias audit of" in page
        assert "<script>window.hit" not in page
        assert "default-src &#39;none&#39;" in page


def test_a_run_that_lacks_what_a_report_tells_is_one_sentence(tmp_path):
    on_disk(tmp_path / "one", settings={"model": "m"})
    viewer = Viewer(tmp_path)
    key = viewer.page("/")[1].partition('"/run/')[2][:16]
    status, said = viewer.page(f"/run/{key}")
    assert status == 422
    assert "Audit again." in said


def test_ticked_runs_are_compared_and_fewer_are_refused(server):
    names = {name: key for key, name in keys(server).items()}
    status, _, page = ask(server, f"/compare?run={names['one']}&run={names['deep/two']}")
    assert status == 200
    assert "lab/one and lab/two compared" in page
    for wanted in (f"run={names['one']}", f"run={names['one']}&run={names['one']}", "run=../../etc&run=x", ""):
        status, _, said = ask(server, f"/compare?{wanted}")
        assert status == 422
        assert "expected two or more" in said


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt", "//etc/passwd", "/run/../../secret.txt", "/run/%2e%2e%2f%2e%2e%2fsecret.txt", "/run/",
        "/run/0000000000000000", "/secret.txt%00", "/run/..%5c..%5csecret.txt", "http://evil.example/secret.txt",
        "/one/manifest.json", "/manifest.json", "/run/link", "/%3Cscript%3E", "*", "file:///etc/passwd",
    ],
)  # fmt: skip
def test_no_address_reaches_a_file(server, path):
    status, headers, said = ask(server, path)
    assert status == 404
    assert said == "There is no such page. Go back to the list of runs."
    assert headers["Content-Type"].startswith("text/plain")


def test_a_page_by_another_name_is_refused(server):
    port = server.server_address[1]
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"127.0.0.1.evil.example:{port}",
        "",
    ):
        status, _, said = ask(server, "/", host=host)
        assert status == 403, host
        assert "lab/one" not in said
    assert ask(server, "/", host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "WHATEVER"])
def test_nothing_but_looking_is_possible(server, method):
    status, headers, _ = ask(server, "/", method=method)
    assert status == 405
    assert headers["Allow"] == "GET, HEAD"


def test_head_tells_as_much_without_the_page(server):
    status, headers, page = ask(server, "/", method="HEAD")
    assert (status, page) == (200, "")
    assert int(headers["Content-Length"]) > 1_000


def test_an_address_that_is_too_long_is_refused(server):
    assert ask(server, "/?search=" + "x" * 2**17)[0] in (400, 414)
    assert ask(server, "/?" + "&".join("run=1" for _ in range(3_000)))[0] == 422


def test_it_listens_on_this_machine_alone_and_says_where(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_address[1]}/"
    with pytest.raises(UsageError, match=r"Port \d+ cannot be used .* Choose another with --port"):
        RunsServer(server.RequestHandlerClass.args[0].folder, port=server.server_address[1])


def test_a_folder_that_is_none_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match="is no folder"):
        Viewer(tmp_path / "gone")
    status, page = Viewer(tmp_path).page("/")
    assert status == 200
    assert "There is no run here yet" in page


def test_a_run_that_is_written_again_is_read_again(tmp_path):
    on_disk(tmp_path / "one", "lab/one")
    viewer = Viewer(tmp_path)
    assert "lab/one" in viewer.page("/")[1]
    path = tmp_path / "one" / "results.json"
    path.write_text(path.read_text().replace("lab/one", "lab/other"))
    assert "lab/other" in viewer.page("/")[1]


def test_the_command_serves_and_opens_nothing_by_itself(monkeypatch, folder, capsys):
    import webbrowser

    from swapbias.cli.view import view

    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(RunsServer, "serve_forever", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(typer.Exit, match="130"):
        view(folder, port=0)
    assert opened == []
    with pytest.raises(typer.Exit, match="130"):
        view(folder, port=0, open_=True)
    assert opened[0].startswith("http://127.0.0.1:")
    assert "Stopped: the runs in" in capsys.readouterr().err


def test_runs_are_ticked_and_compared_in_a_browser(server, tmp_path):
    program = find()
    if program is None:
        pytest.skip("needs Chromium on the path: apt-get install chromium")
    browser = Browser(program, tmp_path)
    try:
        browser.open(server.address)
        assert browser.run("document.querySelectorAll('[type=checkbox]').length") == 3
        browser.run("document.querySelectorAll('[type=checkbox]').forEach((one) => { one.checked = true; })")
        browser.run("document.querySelector('form[action=\"/compare\"] button').click()")
        browser.wait("location.pathname === '/compare' && document.querySelector('.versus')")
        browser.run("location.hash = 'gendered_stigma.rq1.pairs'")
        browser.wait("document.querySelector('.pair')")
        assert browser.run("window.hit") is None
        assert browser.faults() == []
        assert {one.split("/")[2] for one in browser.requests() if not one.startswith("data:")} <= {
            server.address.split("/")[2]
        }
    finally:
        browser.close()
