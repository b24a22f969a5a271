/* SPDX-License-Identifier: Apache-2.0
 *
 * reason: why a program has failed, as the text of a report, from what the program gives. Owns
 * nothing.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* A str as UTF-8, or of an exception its name, its text and the program's line that has raised it.
 * Returns new bytes. NULL: an exception, TypeError for any other object. */
PyObject *reason_text(PyObject *why);
