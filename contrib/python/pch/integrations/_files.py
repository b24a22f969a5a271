# SPDX-License-Identifier: Apache-2.0
"""Where checkpoints go; makes files durable that a framework has written without waiting for the disk."""

import glob
import os
from typing import Optional, Union


def checkpoint_folder(folder: "Optional[Union[str, os.PathLike[str]]]") -> str:
    """The absolute path of the folder. None: pchrun's checkpoint.dir; without pchrun `checkpoints` in the working directory."""
    return os.path.abspath(folder or os.environ.get("PCH_CHECKPOINT_DIR") or "checkpoints")


def sync_tree(top: str) -> None:
    """Makes the folder, its contents and its name durable."""
    for folder, _, names in os.walk(top, onerror=_fail):
        for name in names:
            sync_file(os.path.join(folder, name))
        sync_file(folder)
    sync_file(os.path.dirname(top))


def sync_prefix(prefix: str) -> str:
    """Makes a TensorFlow checkpoint durable: the files whose names begin with the prefix, or that file or folder. Returns
    the absolute path. A checkpoint that is not in a local folder (gs://...) is left to TensorFlow."""
    whole = os.path.abspath(prefix)
    folder = os.path.dirname(whole)
    if not os.path.isdir(folder):
        return prefix
    if os.path.isdir(whole):
        sync_tree(whole)
        return whole
    names = [name for name in [whole, *glob.glob(f"{glob.escape(whole)}.*")] if os.path.isfile(name)]
    if not names:
        raise FileNotFoundError(f"there is no checkpoint {whole}")
    for name in [*names, *glob.glob(f"{glob.escape(folder)}/checkpoint"), folder]:
        sync_file(name)
    return whole


def sync_file(path: str) -> None:
    """Makes the contents of a file, or the names in a folder, durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _fail(error: OSError) -> None:
    raise error
