# SPDX-License-Identifier: Apache-2.0
"""_torchrun: warns if torchrun may kill this process before it has used the whole grace.

When torchrun itself gets SIGTERM, it kills its workers after 30 seconds. Since PyTorch 2.12 a variable sets that time, and
pchrun sets the variable from the grace. An older PyTorch does not read it. The module imports nothing of PyTorch.
"""

import os
import re
import sys

_WAITS_S = 30
_READS_THE_VARIABLE = (2, 12)


def warn() -> None:
    """Only the first worker of a node warns."""
    torch = sys.modules.get("torch")
    version = re.match(r"(\d+)\.(\d+)", str(getattr(torch, "__version__", "")))
    wait = os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "")
    is_below_torchrun = "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("LOCAL_RANK") == "0"
    if (not is_below_torchrun or not version or tuple(map(int, version.groups())) >= _READS_THE_VARIABLE
            or not wait.isdigit() or int(wait) <= _WAITS_S):
        return
    sys.stderr.write(f"pch: torchrun of PyTorch {version[0]} kills its workers {_WAITS_S} seconds after a SIGTERM of its own, "
                     f"but a save and the end may take {wait} seconds here: use PyTorch 2.12, or let pchrun start the "
                     "ranks (pchrun -n)\n")
