# SPDX-License-Identifier: Apache-2.0
"""What is common to the integrations whose framework writes a folder by itself, and does not wait for the disk."""

import os


def sync_tree(top: str) -> None:
    """Makes the folder, all that is in it and its name durable."""
    for folder, _, names in os.walk(top, onerror=_fail):
        for name in names:
            _sync(os.path.join(folder, name))
        _sync(folder)
    _sync(os.path.dirname(top))


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _fail(error: OSError) -> None:
    raise error
