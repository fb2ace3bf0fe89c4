"""A real HTTP server for chat completions, with planned faults and a record of its requests."""

import json
import socket
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATH = "/v1/chat/completions"


@dataclass(frozen=True)
class Reply:
    """A whole reply, in place of an answer or a named fault."""

    body: object
    status: int = 200
    headers: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    content: bytes
    headers: dict = field(default_factory=dict)


def cut_off(content=None, **message):
    """Return the reply of a model that reached the most tokens; further parts of its message are
    named."""
    whole = _completion(content)
    whole["choices"][0]["message"] |= message
    whole["choices"][0]["finish_reason"] = "length"
    return Reply(whole)


class ChatServer:
    """Answers ``answer(prompt)``, unless ``fault(prompt, n)`` names a fault for the n-th request of a prompt.

    Faults: a status ("429", "500"), one with a wait ("429 after 0.2"), "slow" (no answer until the server closes),
    "cut" (the connection ends within the answer), "half" (malformed JSON), "empty" (no choices), "other" (a JSON
    list), "null" (no content); or a Reply.
    ``meet`` requests must be under way at once before any is answered. ``tokens(prompt)`` gives the first tokens of
    an answer with their log-probabilities; as many of them are told as are asked for. A service that knows
    ``several`` gives n answers to a request. ``others`` are further models by name, each as ``answer`` or a Reply.
    """

    def __init__(
        self,
        answer,
        *,
        fault=None,
        key=None,
        model="tiny",
        meet=1,
        pause=0.0,
        port=0,
        tokens=None,
        several=False,
        others=None,
    ):
        self.answer = answer
        self.fault = fault or (lambda prompt, n: None)
        self.key = key
        self.model = model
        self.others = others or {}
        self.requests = []  # bodies, in the order of arrival
        self.asked_by_prompt = Counter()
        self.authorizations = set()
        self.headers = []  # of each request
        self.now = self.most_at_once = 0
        self.closing = threading.Event()
        self.pause = pause
        self.port = port
        self.tokens = tokens
        self.several = several
        self.lock = threading.Lock()
        self.meeting = threading.Barrier(meet, timeout=10)

    def asked(self, prompt):
        return self.asked_by_prompt[prompt]

    @contextmanager
    def under_way(self, body):
        with self.lock:
            self.requests.append(body)
            self.asked_by_prompt[_prompt(body)] += 1
            self.now += 1
            self.most_at_once = max(self.most_at_once, self.now)
        try:
            yield self.asked(_prompt(body))
        finally:
            with self.lock:
                self.now -= 1

    def __enter__(self):
        handler = type("Handler", (_Handler,), {"chat": self})
        self.http = _Server(("127.0.0.1", self.port), handler)
        self.base_url = f"http://127.0.0.1:{self.http.server_port}/v1"
        self.thread = threading.Thread(
            target=self.http.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.closing.set()
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """Clients that go away are part of the plan."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a body waits for no acknowledgement of its head
    chat = None

    def log_message(self, format, *args):
        """Nothing on stderr."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        authorization = self.headers["Authorization"]
        with self.chat.under_way(body) as n:
            self.chat.authorizations.add(authorization)
            self.chat.headers.append(dict(self.headers))
            self.chat.meeting.wait()
            self.chat.closing.wait(self.chat.pause)
            if self.chat.key is not None and authorization != f"Bearer {self.chat.key}":
                return self.send(401, {"error": {"message": f"wrong key in {authorization}"}})
            known = {self.chat.model: self.chat.answer, **self.chat.others}
            if self.path != PATH or body["model"] not in known:
                return self.send(404, {"error": {"message": f"no model {body['model']}"}})
            prompt = _prompt(body)
            fault = self.chat.fault(prompt, n)
        if fault:
            return self.fail(fault, prompt)
        answer = known[body["model"]](prompt)
        if isinstance(answer, Reply):
            return self.fail(answer, prompt)
        whole = _completion(answer)
        if self.chat.several:
            whole["choices"] *= body.get("n", 1)
        if self.chat.tokens and body.get("logprobs"):
            tops = sorted(self.chat.tokens(prompt), key=lambda one: -one[1])[: body["top_logprobs"]]
            first_tokens = [{"token": token, "logprob": log, "bytes": None} for token, log in tops]
            whole["choices"][0]["logprobs"] = {
                "content": [{**first_tokens[0], "top_logprobs": first_tokens}]
            }
        return self.send(200, whole)

    def fail(self, fault, prompt):
        if isinstance(fault, Raw):
            self.head(200, len(fault.content), fault.headers)
            return self.wfile.write(fault.content)
        if isinstance(fault, Reply):
            return self.send(fault.status, fault.body, fault.headers)
        name, _, wait = fault.partition(" after ")
        if name.isdigit():
            return self.send(
                int(name), {"error": f"planned {name}"}, {"Retry-After": wait} if wait else {}
            )
        if name == "slow":
            self.chat.closing.wait()
            self.close_connection = True
            return None
        whole = json.dumps(_completion(self.chat.answer(prompt))).encode()
        if name == "cut":
            self.head(200, len(whole))
            self.wfile.write(whole[:20])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return None
        if name == "half":
            self.head(200, 20)
            self.wfile.write(whole[:20])
            return None
        replies = {"empty": {"choices": []}, "other": ["what"], "null": _completion(None)}
        return self.send(200, replies[name])

    def send(self, status, content, headers=None):
        encoded = json.dumps(content).encode()
        self.head(status, len(encoded), headers)
        self.wfile.write(encoded)

    def head(self, status, length, headers=None):
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()


def _prompt(body):
    return body["messages"][-1]["content"]


def _completion(content):
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
    }
