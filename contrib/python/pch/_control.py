# SPDX-License-Identifier: Apache-2.0
"""Questions to pchrun over its control socket, as pchctl asks them; see pchrun-protocol(7).

Every failure is an OSError: there is no pchrun, it does not answer in time, or it refuses.
"""

import json
import os
import socket
from typing import Any, Dict

_PATIENCE = 5.0


def ask(do: str, **more: Any) -> Dict[str, Any]:
    """Sends one request, and returns the answer."""
    path = os.environ.get("PCH_SOCKET")
    if not path:
        raise OSError("no pchrun has started this process (PCH_SOCKET is not set)")
    request = json.dumps({"version": 1, "do": do, **more})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE)
        connection.connect(os.path.join(os.path.dirname(path), "ctl"))
        connection.sendall(request.encode() + b"\n")
        with connection.makefile("rb") as answers:
            line = answers.readline()
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise OSError(f"pchrun has not answered to {do}")
    if not answer.get("ok"):
        raise OSError(f"pchrun refuses {do}: {answer.get('error')}")
    return answer


def committed_step() -> int:
    """The step of the last commit; 0 before the first one."""
    try:
        return int(ask("status")["was"]["commit_step"])
    except (LookupError, TypeError, ValueError):
        raise OSError("pchrun's answer to status has no commit_step") from None
