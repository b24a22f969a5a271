# SPDX-License-Identifier: Apache-2.0
"""The fixture of the tests of pch.integrations; see conftest_frameworks.py, which these tests import."""

from conftest_frameworks import train  # noqa: F401
