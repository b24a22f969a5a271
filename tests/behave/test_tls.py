# SPDX-License-Identifier: Apache-2.0
"""Nodes with a key work like nodes without one. A stranger without the key can do nothing. Also: how the key is
loaded, kept and shown."""

import contextlib
import hmac
import os
import re
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from harness import DEADLINE, OWN_ERROR, libm_of, open_files, read_proc, wait_until
from nodes import Nodes, far, free_port, preempt, saved_steps, start_training  # noqa: F401

ONE_JOB = 'give every node the same --job ("pchrun": none was given)'
ONE_KEY = "all nodes need the same cluster.key_file"
LIBRARIES = ("libssl.so.3", "libcrypto.so.3")

# A certificate for "n0" and its key, which keep no secret.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQglmLHIOMurJlvK/Jg
NOtpLm1oh4jCuRdDGM14YMkGx7qhRANCAAQa+6j7zMF0ntz9zwpvQl+goJQD8gG4
kisaDsOfUWBkOsrwBFq+ClOUes8OyvoOmk5LhChjGvzdHVa/ner1KCnr
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBcTCCARegAwIBAgIUS8UySOYcDbJDhqWc416llMwchqcwCgYIKoZIzj0EAwIw
DTELMAkGA1UEAwwCbjAwIBcNMjYxMTIxMTM1MjA3WhgPMjEyNjEwMjgxMzUyMDda
MA0xCzAJBgNVBAMMAm4wMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEGvuo+8zB
dJ7c/c8Kb0JfoKCUA/IBuJIrGg7Dn1FgZDrK8ARavgpTlHrPDsr6DppOS4QoYxr8
3R1Wv53q9Sgp66NTMFEwHQYDVR0OBBYEFCp7rhHdPSjcqz8te+6OHBNlFnoyMB8G
A1UdIwQYMBaAFCp7rhHdPSjcqz8te+6OHBNlFnoyMA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSAAwRQIhAOLS5F4ybufT9NHIuVXaXq7ePr6C/wiyY8uVEq1C
Vs0rAiADsM02AELPTz3ILvQ/WmR0xbv38SjQSk/xSCBlzXRo7w==
-----END CERTIFICATE-----
"""


def make_key(world, name):
    path = world.root / name
    assert world.launch("--make-key", path).finish() == 0
    return path


@pytest.fixture
def key(world):
    return make_key(world, "job.key")


@pytest.fixture
def nodes(world, key):
    return lambda count, *options, key_file=key, **more: Nodes(
        world, count, [*options, *(["--cluster-key-file", key_file] if key_file else [])], **more)


def held_nodes(world, nodes, *options):
    """Two nodes that run until the test lets them end."""
    two = nodes(2, *options)
    two.start_all("hold end")
    return two


def libraries_of(pid):
    maps = read_proc(pid, "maps").decode()
    return {name for name in LIBRARIES if name in maps}


def fds_of(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


# --- with the key --------------------------------------------------------------------------------

@pytest.mark.parametrize("count", [2, 3])
def test_a_job_is_preempted(world, nodes, count):
    """A job with a key saves and leaves like one without."""
    job = nodes(count)
    first = start_training(world, job)
    last = preempt(job, 1)
    assert first < last and saved_steps(job) == {first: 2 * count, last: 2 * count}
    assert job.agreed()["outcome"] == "preempted"


def test_the_key_stays_where_it_is(world, nodes, key):
    """Neither the command nor any output of pchrun has the key, only its path."""
    two = held_nodes(world, nodes, "--log-level", "debug")
    digits = key.read_text().strip().split(":")[1]
    needles = [digits.encode(), bytes.fromhex(digits)]
    for rank in (0, 1):
        command = two.pid(rank)
        assert libraries_of(two.jobs[rank].pid) == set(LIBRARIES)
        assert not libraries_of(command)
        for pid in (command, two.jobs[rank].pid):
            assert str(key) not in open_files(pid)
        for name in ("environ", "cmdline"):
            assert not any(needle in read_proc(command, name) for needle in needles)
    world.let_end(two)
    shown = subprocess.run([world.pchrun, "--cluster-key-file", key, "--print-config"],
                           env=world.env, capture_output=True, check=True, cwd=world.cwd).stdout
    assert str(key).encode() in shown
    written = [path.read_bytes() for path in world.root.rglob("*")
               if path.is_file() and path != key]
    assert not any(needle in text for needle in needles for text in [shown, *written])


def readable_memory(pid):
    """All memory that a debugger could read."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in read_proc(pid, "maps").decode().splitlines():
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            if " rw" in line and end - start < 1 << 26:
                try:
                    memory.seek(start)
                    yield memory.read(end - start)
                except OSError:
                    pass


def test_the_key_is_forgotten(world, nodes, key):
    """The job's secrets are derived from the key: a reader of one job's memory cannot join another job."""
    two = held_nodes(world, nodes)
    digits = key.read_text().strip().split(":")[1]
    if not world.has_sanitizer():  # a sanitizer keeps freed memory
        for rank in (0, 1):
            for piece in readable_memory(two.jobs[rank].pid):
                assert digits.encode() not in piece and bytes.fromhex(digits) not in piece
    world.let_end(two)


def test_nothing_is_loaded_without_need(world, nodes):
    """Without a key, or without peers, OpenSSL costs neither time nor memory."""
    two = nodes(2, key_file=None)
    two.start_all("hold end")
    alone = world.act("say alone hold end", options=["--cluster-key-file", world.root / "job.key"], ready="alone")
    assert not any(libraries_of(job.pid) for job in (alone, *two.jobs.values()))
    world.go_on("end")
    assert two.finish() == 0 and alone.finish() == 0
    linked = subprocess.run(["ldd", world.pchrun], capture_output=True, text=True).stdout
    assert "libc.so" in linked and "libssl" not in linked and "libcrypto" not in linked


def stock_client(port, key, *options, said=b""):
    """The output of OpenSSL's own client, with the secret as pchrun-protocol(7) derives it."""
    secret = hmac.digest(bytes.fromhex(key.read_text().strip().split(":")[1]),
                         b"pchrun/1 tls13 sha256 member to chief pchrun\x01", "sha256").hex()
    return subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-psk", secret, "-psk_identity",
         "pchrun/1 pchrun", *options], input=said, capture_output=True, timeout=DEADLINE).stdout.decode()


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs the openssl program")
def test_the_protocol_is_what_the_manual_says(world, nodes, key):
    """Another program gets through the handshake, by the one way that there is, and no further."""
    two = held_nodes(world, nodes)
    suite = ["-ciphersuites", "TLS_AES_128_GCM_SHA256"]
    shown = stock_client(two.port, key, "-tls1_3", *suite, said=b"GET / HTTP/1.0\n")
    assert "Reused, TLSv1.3, Cipher is TLS_AES_128_GCM_SHA256" in shown
    assert "no peer certificate available" in shown
    two.say(0, "is not a pchrun: it began with")
    for options in (["-tls1_2"], ["-tls1_3", *suite, "-groups", "P-521"],
                    ["-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"],
                    ["-tls1_3", *suite, "-psk_identity", "pchrun/1 other"],
                    ["-tls1_3", *suite, "-psk", "00" * 32]):
        assert "Cipher is (NONE)" in stock_client(two.port, key, *options), options
    world.let_end(two)


# --- without the key -----------------------------------------------------------------------------

def refused(world, two, stranger, theirs, ours):
    """A stranger gets nowhere, and the node that belongs there can still come."""
    assert stranger.finish() == OWN_ERROR
    assert theirs in stranger.err
    two.say(0, ours)
    line = next(line for line in two.jobs[0].err_lines if ours in line)
    assert re.search(r"closed a connection: 127\.0\.0\.1:\d+: ", line)
    two.start(1)
    assert two.finish() == 0
    assert not world.events.all("stranger")


STRANGER = ["--cluster-join-timeout", "1500ms"]


def test_another_key(world, nodes):
    two = nodes(2)
    two.start(0)
    stranger = nodes(2, "--cluster-join-timeout", "3s", key_file=make_key(world, "other.key"),
                     port=two.port).launch(1, world.actor, "say", "stranger")
    theirs = f"node 0 has another key; {ONE_KEY}"
    refused(world, two, stranger, theirs, f"it has another key; {ONE_KEY}")
    # The node logs the reason once before it gives up, for a user who waits for the job.
    assert len(re.findall(f"waiting for node 0, for 3s at most: .*{theirs}", stranger.err)) == 1
    assert 1 <= two.jobs[0].err.count("it has another key") <= 3  # of some seven attempts


@pytest.mark.parametrize("ours, theirs, options, said, answer", [
    ({}, {}, ["--job", "run8"], f'node 0 does not know job "run8"; {ONE_JOB}',
     f'it belongs to job "run8", this is job "pchrun"; {ONE_JOB}'),
    ({}, {"key_file": None}, [], f"node 0 has a key, this node has no key; {ONE_KEY}",
     f"it has no key, this node has a key; {ONE_KEY}"),
    ({"key_file": None}, {}, [], f"node 0 has no key, this node has a key; {ONE_KEY}",
     f"it has a key, this node has no key; {ONE_KEY}"),
], ids=["the key is that of one job", "a node without a key", "a chief without a key"])
def test_a_stranger(world, nodes, ours, theirs, options, said, answer):
    """Nothing gets through: also with the same file for two jobs, and a port that changed hands."""
    two = nodes(2, **ours)
    two.start(0)
    stranger = nodes(2, *STRANGER, *options, port=two.port, **theirs).launch(1, world.actor, "say", "stranger")
    refused(world, two, stranger, said, answer)


@pytest.mark.parametrize("wrong", ["key", "job", "none", "plain job"])
def test_the_last_line_names_what_was_wrong(world, nodes, wrong):
    """A user looks at the end of node 0's log: it names the address of the refused node and the reason."""
    keys = {"key": {"key_file": make_key(world, "other.key")}, "none": {"key_file": None}}.get(wrong, {})
    options = ["--job", "run8"] if "job" in wrong else []
    both = {"key_file": None} if wrong == "plain job" else {}
    two = nodes(2, "--cluster-join-timeout", "3s", **both)
    two.start(0)
    two.say(0, "join: waiting for")
    stranger = nodes(2, *STRANGER, *options, port=two.port, **{**both, **keys}).launch(1, "true")
    assert stranger.finish() == OWN_ERROR
    assert two.finish() == OWN_ERROR
    came = {"key": "it has another key", "none": "it has no key, this node has a key",
            "job": 'it belongs to job "run8", this is job "pchrun"',
            "plain job": re.escape(f'belongs to job "run8", node 0 to "pchrun"; {ONE_JOB}')}[wrong]
    last = two.jobs[0].err_lines[-1]
    assert re.search(rf"1 of 2 nodes did not join within 3s: node 1 \(127.*\); last refused: .*127\.0\.0\.1:\d+.*{came}", last)


def talk_to(port, data):
    """Sends something and reads until the other side closes."""
    with socket.create_connection(("127.0.0.1", port), 15) as s:
        answer = b""
        try:
            s.sendall(data)
            while more := s.recv(65536):
                answer += more
        except ConnectionError:
            pass
        return answer


GARBAGE = {
    "text": b"GET / HTTP/1.1\r\nHost: n0\r\n\r\n", "zeros": bytes(100000), "ones": b"\xff" * 100000,
    "empty records": bytes.fromhex("1703030000") * 10000,
    "an alert": bytes.fromhex("15030300020228"),
    "a long record": bytes.fromhex("160303ffff") + b"x" * 65535,
    "a frame": b"CP", "half a frame": b"CP\1\1\xff\xff\xff\xff",
}


def test_garbage_on_the_port(world, nodes):
    """A port scan, a health check, a fuzzer: closed and logged, and nothing else happens."""
    two = held_nodes(world, nodes)
    idle = [socket.create_connection(("127.0.0.1", two.port)) for _ in range(2)]
    idle[0].sendall(bytes.fromhex("16030100510100004d0303"))  # how a ClientHello begins
    for name, data in GARBAGE.items():
        answer = talk_to(two.port, data)
        assert len(answer) < 1000, name
    two.say(0, "closed a connection")
    two.say(0, 'is not a pchrun: it began with "GET / HTTP/1.1"')
    world.let_end(two)
    for each in idle:
        each.close()


def browser_hello():
    """A ClientHello of TLS 1.3 as browsers send it, without our key."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="n0")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_no_descriptor_is_lost(world, nodes):
    """A scanner that comes again and again for a month."""
    two = held_nodes(world, nodes)
    hello = browser_hello()
    talk_to(two.port, hello)
    before = wait_until(lambda: fds_of(two.jobs[0].pid), "descriptors")
    for i in range(200):
        assert talk_to(two.port, [hello, *GARBAGE.values()][i % 4])[:1] != b"\x16"
    wait_until(lambda: fds_of(two.jobs[0].pid) <= before, "the last to be closed")
    world.let_end(two)


def test_a_client_with_no_key_but_all_else(world, nodes):
    """OpenSSL falls back to certificates; there is none to fall back to."""
    two = held_nodes(world, nodes)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context.minimum_version = context.maximum_version = version
        with socket.create_connection(("127.0.0.1", two.port), 15) as s:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(s).recv(1)
    two.say(0, "the TLS handshake failed: ")
    world.let_end(two)


@pytest.fixture
def stands_in(world, nodes):
    """A function: a server has node 0's port, and node 1 connects to it until it gives up, at least so many times. It
    runs nothing. Returns what node 1 has logged."""
    def serve(answer, times=1, **settings):
        two = nodes(2, *STRANGER, **settings)
        with socket.create_server(("127.0.0.1", two.port)) as listener:
            listener.settimeout(0.05)
            two.start(1, "say stranger")
            while two.jobs[1].process.poll() is None:
                with contextlib.suppress(TimeoutError, ConnectionError), listener.accept()[0] as s:
                    times -= 1
                    s.settimeout(DEADLINE)
                    answer(s)
        assert two.finish() == OWN_ERROR and times <= 0
        assert not world.events.all("stranger")
        return two.jobs[1].err
    return serve


NOT_NODE_0 = r"127\.0\.0\.1:\d+: is not a pchrun: {}; does node 0 run there, and is cluster\.port right\?"


WEB = (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", 'it began with "HTTP/1.1 400 Bad Request"')


@pytest.mark.parametrize("greeting, began, settings", [
    (*WEB, {}), (*WEB, {"key_file": None}),
    (b"SSH-2.0-OpenSSH_9.2p1\r\n", 'it began with "SSH-2.0-OpenSSH_9.2p1"', {}),
    (b"\x00\x01\x02", "it began with the bytes 00 01 02; a message begins with 43 50", {}),
], ids=["a web server", "a web server, and no key", "sshd", "bytes"])
def test_another_program_has_the_port(stands_in, greeting, began, settings):
    """The user learns which program it is, and what to look at: once before the end, which may be ten minutes away."""
    said = stands_in(lambda s: s.sendall(greeting), **settings)
    assert said.count("is not a pchrun") <= 2
    assert re.search(NOT_NODE_0.format(re.escape(began)), said)


def test_a_server_with_a_certificate(world, stands_in):
    """Another server has node 0's port: a valid certificate is no proof without the key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(world.file("certificate", CERTIFICATE))

    def answer(s):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(s, server_side=True).recv(1)
    assert re.search(NOT_NODE_0.format("it shows a certificate"), stands_in(answer))


def test_a_server_of_older_tls(world, stands_in):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(world.file("certificate", CERTIFICATE))
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    def answer(s):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(s, server_side=True)
    assert re.search(NOT_NODE_0.format(r"it does not speak TLS 1\.3"), stands_in(answer))


# --- on the way ----------------------------------------------------------------------------------

@pytest.mark.parametrize("fault, rank", [("change", 1), ("cut", 0)])
def test_a_connection_that_ends_on_the_way_is_made_again(far, fault, rank):
    """One bit is changed, again and again, or the connection is cut at any place in a record: the job goes on."""
    two, proxy = far
    first = start_training(two.world, two)
    for count in range(1, 6):
        getattr(proxy, fault)()
        two.say(1, "back as node 1 of 2", count=count)
    last = preempt(two, rank)
    assert saved_steps(two) == {first: 4, last: 4}
    assert fault != "change" or "damaged on the way" in two.jobs[0].err + two.jobs[1].err


def test_what_was_recorded(world, far):
    """A recording that is sent to the chief again has no effect, and shows no text of the job."""
    two, proxy = far
    two.start_all("hold end")
    member, chief = list(proxy.heard.values())[:2]
    for word in (b"cluster.heartbeat_interval", socket.gethostname().encode()[:63] + b"\0"):
        assert word not in member + chief
    port = int(re.search(r"127\.0\.0\.1, port (\d+)", two.jobs[0].err)[1])
    for data in (member, chief, member[:-1], member[:700]):
        talk_to(port, data + bytes(1000))
    said = two.jobs[0].err.split("all 2 nodes are there")[1]
    assert "node 1" not in said and "rank" not in said
    world.let_end(two)


def test_a_mirror_in_place_of_node_0(stands_in):
    """A server that sends all bytes back proves nothing."""
    def answer(s):
        with contextlib.suppress(ConnectionError):
            while data := s.recv(65536):
                s.sendall(data)
    stands_in(answer, times=3)


# --- the file, and the library -------------------------------------------------------------------

def start_with(world, path, env=None):
    """The one line that a start with this key file ends with."""
    job = world.launch("--cluster-nodes", f"127.0.0.1:{free_port()},127.0.0.2", "--node-rank", 0, "--cluster-key-file",
                       path, "--", "true", env=env, code=OWN_ERROR)
    line, = job.err_lines
    return line


def test_a_key_is_made_once(world):
    path = world.root / "new.key"
    made = world.launch("--make-key", path, preexec_fn=lambda: os.umask(0) and None)
    assert made.finish() == 0 and made.err == ""
    assert path.stat().st_mode & 0o7777 == 0o600
    text = path.read_text()
    assert re.fullmatch(r"pchrun-key-1:[0-9a-f]{64}\n", text)
    assert f"--cluster-key-file {path}" in made.out and text[13:40] not in made.out
    again = world.launch("--make-key", path, code=OWN_ERROR)
    assert "is there already" in again.err and path.read_text() == text


@pytest.mark.parametrize("text,mode,words", [
    (None, 0, ["there is no key file", "pchrun --make-key"]),
    ("", 0o600, ["is empty", "pchrun --make-key"]),
    ("secret\n", 0o600, ["does not hold a key", "pchrun --make-key"]),
    ("pchrun-key-1:" + "0" * 64 + "\n", 0o644, ["open to others (mode 0644)", "chmod g-w,o= "]),
], ids=["none", "empty", "garbage", "open"])
def test_a_key_file_that_cannot_be_used(world, text, mode, words):
    path = world.root / "bad.key"
    if text is not None:
        world.file("bad.key", text, mode)
    line = start_with(world, path)
    for word in [str(path), *words]:
        assert word in line


@pytest.fixture
def without(world):
    """The environment of a container without OpenSSL: the files under its names are empty."""
    folder = world.root / "none"
    folder.mkdir()
    for name in (LIBRARIES[0], "libssl.so.1.1"):
        (folder / name).write_bytes(b"")
    return {"LD_LIBRARY_PATH": str(folder)}


def test_openssl_is_not_there(world, key, without):
    """A container without OpenSSL; and another library under its name."""
    line = start_with(world, key, env=without)
    for word in ("needs OpenSSL 3", "file too short", "libssl3", "unset LD_LIBRARY_PATH"):
        assert word in line
    shutil.copy(libm_of(world.pchrun), Path(without["LD_LIBRARY_PATH"], LIBRARIES[0]))
    line = start_with(world, key, env=without)
    assert "needs OpenSSL 3" in line and "undefined symbol" in line


@pytest.mark.parametrize("place", ["Conda", "venv"])
def test_the_openssl_of_the_environment(world, nodes, without, place):
    """Conda has an OpenSSL of its own. A virtual environment may be made with Conda's Python."""
    conda, environment = world.root / "conda", world.root / ("conda" if place == "Conda" else "env")
    for folder in {conda / "lib", environment / "bin"}:
        folder.mkdir(parents=True)
    if place == "venv":
        (environment / "pyvenv.cfg").write_text(f"home = {conda}/bin\nversion = 3.12.1\n")
        (conda / "bin").mkdir()
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    shutil.copy(re.search(rf"{LIBRARIES[0]} .*=> (\S+)", listed)[1], conda / "lib")
    world.pchrun = shutil.copy(world.pchrun, environment / "bin")
    two = nodes(2, "-v")
    two.launch_all("true", env=without)
    assert two.finish() == 0
    assert re.search(rf"tls: OpenSSL 3\.\S+ .*, in {conda}/\S*/libssl.so.3 and ", two.jobs[0].err)


def test_which_openssl_was_loaded(world, nodes):
    """Conda's OpenSSL comes first in LD_LIBRARY_PATH; the log shows which one was loaded."""
    folder = world.root / "lib"
    folder.mkdir()
    two = held_nodes(world, nodes, "-v")
    for name in LIBRARIES:
        place = re.search(rf"(/\S+/{name})", read_proc(two.jobs[0].pid, "maps").decode())[1]
        shutil.copy(place, folder / name)
        two.say(0, f"{place.rpartition('/')[2]}")
    world.let_end(two)
    other = nodes(2, "-v")
    other.launch_all("true", env={"LD_LIBRARY_PATH": str(folder)})
    assert other.finish() == 0
    assert re.search(rf"tls: OpenSSL 3\.\S+ .*, in {folder}/libssl.so.3 and {folder}/libcrypto.so.3",
                     other.jobs[0].err)


def test_openssl_cnf_is_not_asked(world, nodes):
    """openssl.cnf may demand other protocols, or load modules that are missing."""
    config = world.file("openssl.cnf", "openssl_conf = x\n[x]\nssl_conf = y\n[y]\nsystem_default = z\n"
                                       "[z]\nMaxProtocol = TLSv1.2\nCiphersuites = none\n")
    two = nodes(2)
    two.launch_all("true", env={"OPENSSL_CONF": str(config)})
    assert two.finish() == 0


def test_no_core_dump_shows_the_secret(world, nodes):
    """The page with the secret is kept out of core dumps, and is not copied into our children."""
    two = held_nodes(world, nodes)
    flags = [line.split()[1:] for line in read_proc(two.jobs[0].pid, "smaps").decode().splitlines()
             if line.startswith("VmFlags:")]
    assert sum("dd" in each and "wf" in each for each in flags) == 1
    world.let_end(two)
