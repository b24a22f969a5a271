# SPDX-License-Identifier: Apache-2.0
"""_forkserver: loaded by multiprocessing's fork server alone, which it makes a helper; see _children.py."""

from . import _children

_children.help_parent()
