# SPDX-License-Identifier: Apache-2.0
"""Questions to pchrun over its control socket, as pchctl asks them; see pchrun-protocol(7)."""

import json
import os
import socket
from typing import Any, Dict

_PATIENCE = 5.0


def ask(do: str, **more: Any) -> Dict[str, Any]:
    """Sends one request, and returns the answer. An OSError says that pchrun cannot be asked, or has refused."""
    folder = os.path.dirname(os.environ.get("PCH_SOCKET", ""))
    request = json.dumps({"version": 1, "do": do, **more})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE)
        connection.connect(os.path.join(folder, "ctl"))
        connection.sendall(request.encode() + b"\n")
        with connection.makefile("rb") as answers:
            line = answers.readline()
    try:
        answer: Dict[str, Any] = json.loads(line)
    except ValueError:
        raise OSError(f"pchrun has not answered to {do}") from None
    if not answer.get("ok"):
        raise OSError(f"pchrun refuses {do}: {answer.get('error')}")
    return answer
