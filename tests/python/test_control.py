# SPDX-License-Identifier: Apache-2.0
"""The package's requests to pchrun's control socket. A caller gets an answer or an OSError, whatever listens there, and
also if the socket is missing. Any other exception would end the training."""

import pytest

# A server at ./ctl answers every request with the bytes of a file. The program prints what both calls return or raise.
ASKS = """
import os, socket, threading
from pch import _control
with open("answer", "rb") as file:
    answer = file.read()
server = socket.socket(socket.AF_UNIX)
server.bind("ctl")
server.listen()
def serve():
    while True:
        connection, _ = server.accept()
        with connection:
            connection.makefile("rb").readline()
            connection.sendall(answer)
threading.Thread(target=serve, daemon=True).start()
if os.environ.get("PCH_SOCKET"):
    os.environ["PCH_SOCKET"] = os.path.abspath(os.environ["PCH_SOCKET"])
for call in (lambda: _control.ask("status"), _control.committed_step):
    try:
        print(call())
    except OSError as error:
        print(f"OSError: {error}")
os.unlink("ctl")
"""

UNREADABLE = "OSError: pchrun has not answered to status"
UNKNOWN = "OSError: pchrun's answer to status has no commit_step"


def answers(program, answer, **env):
    one = program(ASKS)
    (one.world.cwd / "answer").write_bytes(answer.encode(errors="surrogateescape"))
    status, out, err = one.alone(**env)
    assert (status, err) == (0, "")
    return out.splitlines()


@pytest.mark.parametrize("env", [{}, {"PCH_SOCKET": ""}])
def test_no_pchrun_to_ask(program, env):
    """The program asks no socket, not even one of that name in the working directory."""
    said = "OSError: no pchrun has started this process (PCH_SOCKET is not set)"
    assert answers(program, '{"ok": true}', **env) == [said, said]


FOREIGN = {
    "a commit": ('{"ok": true, "was": {"commit_step": 7}}\n', "{'ok': True, 'was': {'commit_step': 7}}", "7"),
    "half of it": ('{"ok": true, "was": {"commi', UNREADABLE, UNREADABLE),
    "nothing": ("", UNREADABLE, UNREADABLE),
    "no text": ("\udcff\n", UNREADABLE, UNREADABLE),
    "deep": ("[" * 100000 + "\n", UNREADABLE, UNREADABLE),
    "a list": ("[]\n", UNREADABLE, UNREADABLE),
    "a number": ("7\n", UNREADABLE, UNREADABLE),
    "a refusal": ('{"ok": false, "error": "why"}\n', *["OSError: pchrun refuses status: why"] * 2),
    "no was": ('{"ok": true}\n', "{'ok': True}", UNKNOWN),
    "null for was": ('{"ok": true, "was": null}\n', "{'ok': True, 'was': None}", UNKNOWN),
    "null for a step": ('{"ok": true, "was": {"commit_step": null}}\n', "{'ok': True, 'was': {'commit_step': None}}", UNKNOWN),
    "text for a step": ('{"ok": true, "was": {"commit_step": "x"}}\n', "{'ok': True, 'was': {'commit_step': 'x'}}", UNKNOWN),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_answer_is_an_os_error(program, name):
    answer, *said = FOREIGN[name]
    assert answers(program, answer, PCH_SOCKET="ctl") == said
