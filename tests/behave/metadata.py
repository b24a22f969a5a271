# SPDX-License-Identifier: Apache-2.0
"""metadata: the metadata services of clouds on loopback, with faults on demand.

A service answers like its cloud's. spoil() queues faults: the next requests get those instead. If a fault
carries an answer, this is `lie`, the opposite of the truth. All requests are kept in order, with their results;
wait() waits for them. There is one thread for each connection.
"""

import email.utils
import hashlib
import http.client
import json
import socket
import ssl
import struct
import subprocess
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from harness import DEADLINE, Late


@dataclass
class Request:
    method: str
    path: str
    query: dict
    headers: dict  # names in lower case
    body: bytes
    fault: str = ""  # the fault that replaced the answer
    status: int = 0  # the status of the answer; 0: no answer yet


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict = field(default_factory=dict)


def encode(answer, length=None):
    head = [f"HTTP/1.1 {answer.status} {http.HTTPStatus(answer.status).phrase}",
            f"Content-Length: {len(answer.body) if length is None else length}",
            *(f"{name}: {value}" for name, value in answer.headers.items())]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + answer.body


# ---- faults: function(service, connection, what a true answer with the lie would be); True: the
# connection goes on. ----

def answering(name, change):
    """A fault that answers with change(lie), in whole; the connection stays open."""
    def fault(_service, connection, lie):
        connection.sendall(encode(change(lie)))
        return True
    fault.__name__ = name
    return fault


http_503, http_429, http_500 = (
    answering(f"http_{status}", lambda lie, status=status: Answer(status, lie.body, lie.headers))
    for status in (503, 429, 500))
# A whole answer that no client can parse.
nonsense = answering("nonsense", lambda lie: Answer(200, b'{"what": [\x01', lie.headers))
empty = answering("empty", lambda lie: Answer(200, b"", lie.headers))
# The answer of a stand-in for Google's metadata server, without its header.
no_flavor = answering("no_flavor", lambda lie: Answer(200, lie.body))
wrong_flavor = answering("wrong_flavor",
                         lambda lie: Answer(200, lie.body, {**lie.headers, "Metadata-Flavor": "Goggle"}))
absent_unflavored = answering("absent_unflavored", lambda _lie: Answer(404))


def redirect(service, connection, lie):
    """To a port where a true service would answer with the lie."""
    connection.sendall(encode(Answer(302, b"", {**lie.headers, "Location": service.trap.url})))
    return True


def reset(_service, connection, _lie):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def closed(_service, _connection, _lie):
    return False


def silent(service, _connection, _lie):
    """Never answers; holds the connection until the client gives up."""
    service.until_gone(_connection)
    return False


def slow(service, connection, lie):
    """Begins its answer at once, and never finishes it."""
    text = encode(lie, length=1000)
    for i in range(len(text)):
        connection.sendall(text[i:i + 1])
        if service.until_gone(connection, 0.02):
            break
    service.until_gone(connection)
    return False


def truncated(_service, connection, lie):
    connection.sendall(encode(lie, length=len(lie.body) + 1))
    return False


def cut_head(_service, connection, lie):
    connection.sendall(encode(lie)[:20])
    return False


def huge(_service, connection, lie):
    """The lie, followed by more data than a client should keep."""
    connection.sendall(encode(Answer(200, lie.body + b" " * (5 << 20), lie.headers)))
    return False


def endless(_service, connection, lie):
    """Chunks without end."""
    head = encode(lie).split(b"\r\n\r\n")[0].replace(b"Content-Length", b"X-Length")
    connection.sendall(head + b"\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"1000\r\n" + b" " * 0x1000 + b"\r\n")


def endless_head(_service, connection, lie):
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-More: " + b"x" * 1000 + b"\r\n")


def garbage(_service, connection, _lie):
    connection.sendall(b"\x00\xffSSH-2.0-what\r\n\r\n")
    return False


FAULTS = [http_503, http_429, http_500, redirect, reset, closed, silent, slow, truncated, cut_head, huge,
          endless, endless_head, garbage, nonsense, empty]
FLAVOR_FAULTS = [no_flavor, wrong_flavor, absent_unflavored]


# ---- services ----

class Service:
    source = None  # pchrun-watch's word for the service

    def __init__(self, port=0, values=()):
        self.requests = []
        self.faults = []
        self.values = dict(values)
        self.lies = {}  # by path; for Google by key
        self.changed = threading.Condition()
        self.ends = False
        self.connections = set()
        self.threads = []
        self.trap = None
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._start(self._accept)

    def _start(self, function, *args):
        thread = threading.Thread(target=function, args=args, daemon=True)
        self.threads.append(thread)
        thread.start()

    def close(self):
        if self.ends:
            return
        with self.changed:
            self.ends = True
            self.changed.notify_all()
            connections = list(self.connections)
        # Wakes accept(), which close() would not.
        self.listener.shutdown(socket.SHUT_RDWR)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # the client has gone already
                pass
        for thread in self.threads:
            thread.join(DEADLINE)
            assert not thread.is_alive()
        self.listener.close()
        if self.trap:
            self.trap.close()

    def _accept(self):
        while not self.ends:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with self.changed:
                if self.ends:  # the shutdown does not know of this connection yet
                    connection.close()
                    return
                self.connections.add(connection)
            self._start(self._serve, connection)

    def _serve(self, connection):
        try:
            with connection:
                stream = connection.makefile("rb")
                while self._serve_one(connection, stream):
                    pass
                stream.close()
        except OSError:  # the other side has gone
            pass
        with self.changed:
            self.connections.discard(connection)

    def _serve_one(self, connection, stream):
        request = read_request(stream)
        if not request:
            return False
        with self.changed:
            fault = self.next_fault(request.path)
            request.fault = fault.__name__ if fault else ""
            self.requests.append(request)
            self.changed.notify_all()
        if fault:
            lie = Answer(200, self.lie_for(request), self.headers_for(request))
            return fault(self, connection, lie)
        answer = self.answer(request)
        if answer is None:  # the client does not wait any more
            return False
        connection.sendall(encode(answer))
        with self.changed:
            request.status = answer.status
            self.changed.notify_all()
        return True

    def until_gone(self, connection, seconds=DEADLINE):
        """Waits until the other side has closed; False: it has not closed in that time."""
        connection.settimeout(seconds)
        try:
            return not connection.recv(1)
        except TimeoutError:
            return False
        except OSError:
            return True
        finally:
            connection.settimeout(None)

    # ---- for the tests ----

    def spoil(self, fault, times=1, path=None):
        """The next requests get the fault; with a path, the next ones on that path."""
        with self.changed:
            self.faults += [(fault, path)] * times

    def next_fault(self, path):
        for i, (fault, only) in enumerate(self.faults):
            if only in (None, path):
                del self.faults[i]
                return fault
        return None

    def wait(self, condition, what):
        """Waits until condition() is true, and returns its value. Checks it after each change."""
        end = time.monotonic() + DEADLINE
        with self.changed:
            while not (value := condition()):
                if not self.changed.wait(end - time.monotonic()):
                    raise Late(f"waited {DEADLINE:g} s for {what}; there was: {self.requests[-8:]}")
            return value

    def wait_spoiled(self):
        self.wait(lambda: not self.faults, "the faults to be met")

    def answered(self, path, since=0):
        """How many requests on the path, from number `since` on, have got a true answer."""
        return sum(r.path == path and r.status != 0 for r in self.requests[since:])

    def wait_answered(self, *paths, more=2):
        """Waits for `more` new answers on each path. The client has then acted on the last but one."""
        since = len(self.requests)
        self.wait(lambda: all(self.answered(p, since) >= more for p in paths), f"{more} answers of {paths}")

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def lie_for(self, request):
        return self.lies.get(request.path, "").encode()

    def headers_for(self, _request):
        return {}

    def answer(self, request):
        raise NotImplementedError


def read_request(stream):
    line = stream.readline(65536).decode("latin-1").split()
    if len(line) != 3:
        return None
    headers = {name.lower(): value for name, value in http.client.parse_headers(stream).items()}
    url = urlsplit(line[1])
    query = {name: values[-1] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
    return Request(line[0], url.path, query, headers, stream.read(int(headers.get("content-length", 0))))


class Trap(Service):
    """A service that no request may reach. A request gets the lie of `of`, so that a test sees it in the output."""

    def __init__(self, of):
        super().__init__()
        self.of = of

    def answer(self, request):
        return Answer(200, self.of.lie_for(request), self.of.headers_for(request))


class Gce(Service):
    source = "gce"
    ROOT = "/computeMetadata/v1/instance/"
    KEYS = ("maintenance-event", "preempted", "upcoming-maintenance", "shutdown-details/stop-state")
    PATHS = tuple("/computeMetadata/v1/instance/" + key for key in KEYS)
    # The server's answer, with 503, on a machine that never had a maintenance.
    NONE_YET = '{ "error": "no notifications have been received yet, try again later" }'

    def __init__(self, port=0, event="NONE"):
        self.holds_s = 0.12  # how long a request is held: long enough for a client to count it as held; None: does
                             # not hold
        self.has_etag = True
        super().__init__(port, {"maintenance-event": event, "preempted": "FALSE", "upcoming-maintenance": None,
                                "shutdown-details/stop-state": None, "shutdown-details/max-duration": None,
                                "shutdown-details/request-timestamp": None})

    def etag(self, key):
        return hashlib.sha256(repr(self.values[key]).encode()).hexdigest()[:16]

    def headers_for(self, request):
        return {"Metadata-Flavor": "Google", "Content-Type": "application/text"}

    def lie_for(self, request):
        return self.lies.get(request.path.removeprefix(self.ROOT), "NONE").encode()

    def answer(self, request):
        key = request.path.removeprefix(self.ROOT)
        if request.headers.get("metadata-flavor") != "Google" or "x-forwarded-for" in request.headers:
            return Answer(403)
        if key not in self.values:
            return Answer(404, b"", self.headers_for(request))
        if request.query.get("wait_for_change") == "true":
            self._hold(key, request)
        with self.changed:
            value, etag = self.values[key], self.etag(key)
        if value is None:
            return Answer(404, b"", self.headers_for(request))
        headers = {**self.headers_for(request), **({"ETag": etag} if self.has_etag else {})}
        if value == self.NONE_YET:
            return Answer(503, value.encode() + b"\n", headers)
        return Answer(200, value.encode() + b"\n", headers)

    def _hold(self, key, request):
        if self.holds_s is None:
            return
        end = time.monotonic() + min(self.holds_s, int(request.query.get("timeout_sec", 60)))
        with self.changed:
            while self.etag(key) == request.query.get("last_etag") and not self.ends:
                if not self.changed.wait(max(0, end - time.monotonic())):
                    return

    def hanging(self):
        """Requests that the server holds."""
        return sum("wait_for_change" in r.query and r.status == 0 and not r.fault for r in self.requests)


class Aws(Service):
    source = "aws"
    ROOT = "/latest/meta-data/"
    ACTION, TERMINATION = ROOT + "spot/instance-action", ROOT + "spot/termination-time"
    REBALANCE = ROOT + "events/recommendations/rebalance"
    SCHEDULED = ROOT + "events/maintenance/scheduled"
    LIFECYCLE = ROOT + "autoscaling/target-lifecycle-state"
    TOKEN = "/latest/api/token"
    PATHS = (ACTION,)
    HEADER, WITHOUT = "x-aws-ec2-metadata-token", 401

    def __init__(self):
        self.tokens = set()
        self.ttl_s = 21600
        self.put = "ok"  # "hangs", "403"
        self.needs_token = False
        super().__init__(values={self.SCHEDULED: "[]"})

    def forget_tokens(self):
        with self.changed:
            self.tokens.clear()

    def _new_token(self, request):
        if self.put == "hangs":
            with self.changed:
                self.changed.wait_for(lambda: self.ends or self.put != "hangs", DEADLINE)
            return None
        if self.put == "403" or "x-forwarded-for" in request.headers:
            return Answer(403)
        if not 1 <= int(request.headers.get(self.HEADER + "-ttl-seconds", 0)) <= 21600:
            return Answer(400)
        with self.changed:
            token = f"token-{len(self.requests)}=="
            self.tokens.add(token)
        return Answer(200, token.encode(), {self.HEADER + "-ttl-seconds": self.ttl_s})

    def answer(self, request):
        if request.path == self.TOKEN:
            return self._new_token(request) if request.method == "PUT" else Answer(405)
        token = request.headers.get(self.HEADER)
        if (token is not None or self.needs_token) and token not in self.tokens:
            return Answer(401 if token is not None else self.WITHOUT)
        value = self.values.get(request.path)
        return Answer(404) if value is None else Answer(200, value.encode())


class Alibaba(Aws):
    source = "alibaba"
    TERMINATION = Aws.ROOT + "instance/spot/termination-time"
    PATHS = (TERMINATION,)
    HEADER, WITHOUT = "x-aliyun-ecs-metadata-token", 403


class Tencent(Aws):
    """Tencent's service has no tokens."""
    source = "tencent"
    PATHS = (Aws.TERMINATION,)

    def answer(self, request):
        assert self.HEADER not in request.headers
        return Answer(405) if request.method != "GET" else super().answer(request)


class Azure(Service):
    source = "azure"
    EVENTS, NAME = "/metadata/scheduledevents", "/metadata/instance/compute/name"
    PATHS = (EVENTS,)

    def __init__(self):
        self.events = []
        self.own_name = "node_1"
        self.acknowledged = []
        super().__init__()
        self.lies = []

    def set(self, *events):
        with self.changed:
            self.events = list(events)

    def document(self, events):
        return json.dumps({"DocumentIncarnation": len(self.requests), "Events": events}).encode()

    def lie_for(self, request):
        return self.document(self.lies)

    def answer(self, request):
        if request.headers.get("metadata") != "true" or "api-version" not in request.query:
            return Answer(400)
        if request.path == self.NAME:
            return Answer(200, self.own_name.encode()) if self.own_name else Answer(404)
        if request.path != self.EVENTS:
            return Answer(404)
        if request.method == "POST":
            with self.changed:
                self.acknowledged += [r["EventId"] for r in json.loads(request.body)["StartRequests"]]
            return Answer(200)
        return Answer(200, self.document(self.events))


class ApiServer(Service):
    """Kubernetes's API server, as a pod sees it: with TLS, and a token that limits what the pod may read."""

    POD, NODE = "/api/v1/namespaces/train/pods/train-0", "/api/v1/nodes/n1"
    PATHS = (POD,)

    def __init__(self, account):
        """`account`: the folder that the kubelet would make."""
        account.mkdir()
        (account / "token").write_text("secret\n")
        (account / "namespace").write_text("train")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                        "-nodes", "-days", "2", "-subj", "/CN=api", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", account / "key", "-out", account / "ca.crt"], check=True, capture_output=True)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(account / "ca.crt", account / "key")
        self.account = account
        self.forbidden = set()
        self.laggard = None  # the pod and the node in the answers of a server that lags behind
        self.pod = {"kind": "Pod", "metadata": {"name": "train-0", "uid": "u-1"},
                    "spec": {"nodeName": "n1"}, "status": {}}
        self.node = {"kind": "Node", "metadata": {"uid": "u-2"}, "spec": {}}
        super().__init__()
        self.env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port),
                    "POD_NAME": "train-0"}

    def _serve(self, connection):
        wrapped = self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self.changed:
            self.connections = self.connections - {connection} | {wrapped}
            ends = self.ends
        try:
            if not ends:
                wrapped.do_handshake()
                super()._serve(wrapped)
        except OSError:  # the client does not trust us, or has gone
            pass
        wrapped.close()
        with self.changed:
            self.connections.discard(wrapped)

    def set(self, conditions=(), taints=(), **meta):
        with self.changed:
            version = str(len(self.requests) + 1)
            self.pod = {**self.pod, "metadata": {"name": "train-0", "uid": "u-1", "resourceVersion": version, **meta},
                        "status": {"conditions": list(conditions)}}
            self.node = {**self.node, "metadata": {"uid": "u-2", "resourceVersion": version},
                         "spec": {"taints": list(taints)}}

    def answer(self, request):
        if request.headers.get("authorization") != f"Bearer {(self.account / 'token').read_text().strip()}":
            return Answer(401)
        if request.path in self.forbidden:
            return Answer(403, b'{"kind": "Status", "status": "Failure", "reason": "Forbidden"}')
        found = {self.POD: self.pod, self.NODE: self.node}.get(request.path)
        version = request.query.get("resourceVersion")
        if self.laggard and version is not None and found:
            found = dict(zip((self.POD, self.NODE), self.laggard, strict=True))[request.path]
            if int(found["metadata"]["resourceVersion"]) < int(version):
                return Answer(504, b'{"kind": "Status", "reason": "Timeout"}')  # Too large resource version
        return Answer(200, json.dumps(found).encode()) if found else Answer(404, b'{"kind": "Status"}')


class TrainJob(ApiServer):
    """The status server in the controller of Kubeflow Trainer 2.2, as its source describes it. It keeps the newest
    update alone, and accepts an empty one without keeping it."""

    PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/train/trainjobs/run7/status"

    def __init__(self, account):
        super().__init__(account)
        self.posted = []
        self.env = {"KUBEFLOW_TRAINER_SERVER_URL": f"https://127.0.0.1:{self.port}{self.PATH}",
                    "KUBEFLOW_TRAINER_SERVER_CA_CERT": str(account / "ca.crt"),
                    "KUBEFLOW_TRAINER_SERVER_TOKEN": str(account / "token")}

    def metrics(self):
        """Of the newest update; {}: there is none."""
        with self.changed:
            newest = self.posted[-1] if self.posted else {"metrics": []}
        return {metric["name"]: metric["value"] for metric in newest["metrics"]}

    def answer(self, request):
        if (request.method, request.path) != ("POST", self.PATH):
            return Answer(404)
        if request.headers.get("authorization") != f"Bearer {(self.account / 'token').read_text().strip()}":
            return Answer(403, b'{"kind": "Status", "status": "Failure", "message": "Forbidden"}')
        try:
            update = json.loads(request.body)
        except ValueError:
            return Answer(422, b'{"kind": "Status", "status": "Failure", "message": "Invalid payload"}')
        if "trainerStatus" in update:
            with self.changed:
                self.posted.append(update["trainerStatus"])
        return Answer(200, request.body)


# ---- what clouds write ----

def rfc3339(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def beijing(seconds):
    """The time eight hours ahead, without a time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() + 8 * 3600 + seconds))


def rfc1123(seconds):
    return email.utils.formatdate(time.time() + seconds, usegmt=True)


def spot_action(seconds, action="terminate"):
    return json.dumps({"action": action, "time": rfc3339(seconds)})


def azure_event(kind="Preempt", ident="E-1", seconds=30, **more):
    return {"EventId": ident, "EventType": kind, "ResourceType": "VirtualMachine", "Resources": ["node_1"],
            "EventStatus": "Scheduled", "NotBefore": rfc1123(seconds) if seconds is not None else "",
            "Description": "what happens", "EventSource": "Platform", "DurationInSeconds": -1, **more}
