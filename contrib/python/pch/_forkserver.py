# SPDX-License-Identifier: Apache-2.0
"""_forkserver: multiprocessing's fork server loads this module, which makes the server a helper; see
_children.py."""

from . import _children

_children.help_parent()
