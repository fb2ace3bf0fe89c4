"""HTTP in and out: reads a request, plays the planned fault, writes the answer."""

import socket
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from .answers import Answer, Refused, Request, as_json

if TYPE_CHECKING:
    from .faults import Plan
    from .hub import LocalHub


class Server(ThreadingHTTPServer):
    """Serves one hub; closes what is still open when it stops."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, hub: "LocalHub") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub = hub
        self.connections: set[socket.socket] = set()

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away are part of the plan."""

    def hang_up(self) -> None:
        """End the connections that clients keep open."""
        for connection in list(self.connections):
            end(connection)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # head and content leave in one packet
    server: Server

    @property
    def hub(self) -> "LocalHub":
        return self.server.hub

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on stderr."""

    def handle_request(self) -> None:
        split = urlsplit(self.path)
        address = unquote(split.path) + (f"?{unquote(split.query)}" if split.query else "")
        user = self.hub.user_of(self.headers.get("Authorization"))
        self.hub.log.append((self.command, address, user.name if user else None))
        callbacks, fault = self.hub.plans.due(self.command, address)
        self.run(callbacks)
        if fault is not None and fault.cut == "request":
            self.rfile.read(min(fault.after_bytes, self.length))
            return self.drop()
        content = self.content()
        if fault is not None and fault.hangs:
            return self.send_and_hang(fault)
        if len(content) < self.length:  # the client went away while it sent: nothing is carried out
            return self.drop()
        request = Request(self.command, split.path, dict(parse_qsl(split.query)), self.headers, content, user)
        if fault is not None and not fault.cut:
            return self.send(Answer(fault.status, fault.content, fault.headers))
        answer = self.answer(request)
        return self.send(answer) if fault is None else self.send_part(answer, fault.after_bytes)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_request  # noqa: N815 - the names http.server calls

    def run(self, callbacks: list[Callable[[], object]]) -> None:
        try:
            for callback in callbacks:
                callback()
        except Exception:  # noqa: BLE001 - raised again where the test ends
            self.hub.broken.append(traceback.format_exc())

    @property
    def length(self) -> int:
        return int(self.headers.get("Content-Length") or 0)

    def content(self) -> bytes:
        """The whole body, sent with a length or in chunks."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(self.length)
        whole = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def answer(self, request: Request) -> Answer:
        try:
            if self.headers.get("Authorization") and request.user is None:
                # Wrong everywhere, also where no token is needed; the clients know this sentence.
                raise Refused(401, "Invalid credentials in Authorization header")
            return self.hub.answer(request)
        except Refused as refused:
            return refused.answer()
        except Exception:  # noqa: BLE001 - a fault of this server has to show in the test that met it
            told = traceback.format_exc()
            self.hub.broken.append(told)
            return as_json({"error": told}, status=501)

    def head(self, answer: Answer) -> None:
        self.send_response(answer.status)
        headers = {"Content-Type": "text/plain; charset=utf-8", **answer.headers}
        for name, value in {**headers, "Content-Length": str(len(answer.content))}.items():
            self.send_header(name, value)
        self.end_headers()

    def send(self, answer: Answer) -> None:
        self.head(answer)
        if self.command != "HEAD":
            self.wfile.write(answer.content)

    def send_part(self, answer: Answer, size: int) -> None:
        """The head and the first bytes of an answer that says it is longer."""
        self.head(answer)
        self.wfile.write(answer.content[:size])
        self.wfile.flush()
        self.drop()

    def send_and_hang(self, fault: "Plan") -> None:
        """Some bytes of an answer, and nothing more until the server stops."""
        whole = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n" + b" " * 1000
        self.wfile.write(whole[: fault.after_bytes])
        self.wfile.flush()
        self.hub.closing.wait(3600.0)
        self.drop()

    def drop(self) -> None:
        end(self.connection)
        self.close_connection = True


def end(connection: socket.socket) -> None:
    """End a connection for both sides, whether or not the other side still is there."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
