# SPDX-License-Identifier: Apache-2.0
"""One module for each training framework. Only that module imports the framework."""
