# SPDX-License-Identifier: Apache-2.0
"""Where checkpoints go; makes files durable that a framework has written without waiting for the disk."""

import glob
import os
import re
from typing import Optional, Union


def is_url(path: str) -> bool:
    """Whether the path begins with a scheme, as in gs://bucket/run7."""
    return re.match(r"[A-Za-z0-9+.-]+://", path) is not None


def checkpoint_folder(folder: "Optional[Union[str, os.PathLike[str]]]", *, may_be_url: bool = False) -> str:
    """The absolute path of the folder; a URL as it is. None: pchrun's checkpoint.dir; without pchrun `checkpoints` in the
    working directory."""
    path = os.fspath(folder or os.environ.get("PCH_CHECKPOINT_DIR") or "checkpoints")
    if isinstance(folder, os.PathLike) and re.match(r"[A-Za-z0-9+.-]+:/[^/]", path):
        raise ValueError(f"{path} is a URL that has lost a slash in a Path: give the URL as text")
    if not is_url(path):
        return os.path.abspath(path)
    if not may_be_url:
        raise ValueError(f"{path} is a URL, and this integration writes files: give a folder of a mounted file system. A "
                         "program that saves to a URL by itself passes that URL to job.saved()")
    return path


def sync_tree(top: str) -> None:
    """Makes the folder, its contents and its name durable."""
    for folder, _, names in os.walk(top, onerror=_fail):
        for name in names:
            sync_file(os.path.join(folder, name))
        sync_file(folder)
    sync_file(os.path.dirname(top))


def sync_prefix(prefix: str) -> str:
    """Makes a TensorFlow checkpoint durable: the files whose names begin with the prefix, or that file or folder. Returns
    the absolute path. A checkpoint at a URL, or in no local folder, is left to TensorFlow."""
    whole = os.path.abspath(prefix)
    folder = os.path.dirname(whole)
    if is_url(prefix) or not os.path.isdir(folder):
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
