# SPDX-License-Identifier: Apache-2.0
"""What takes part in the loops of training frameworks; one module each, which alone imports its framework."""
