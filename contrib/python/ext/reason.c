/* SPDX-License-Identifier: Apache-2.0
 * See reason.h.
 */
#include "reason.h"

#include <stdbool.h>

/* " (train.py:12, in save)", or "" for an exception that was not raised. */
static PyObject *place_of(PyObject *exception)
{
    PyObject *module = PyImport_ImportModule("pch._attach");
    PyObject *place = module ? PyObject_CallMethod(module, "place_of", "O", exception) : NULL;
    Py_XDECREF(module);
    if (place && PyUnicode_Check(place))
        return place;
    PyErr_Clear();
    Py_XDECREF(place);
    return PyUnicode_FromString("");
}

/* The last line of its traceback, or the name alone if the exception has no text; and its place. */
static PyObject *text_of_exception(PyObject *exception)
{
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(exception), "__name__");
    PyObject *said = PyObject_Str(exception), *text = NULL;
    if (!said)
        PyErr_Clear();
    bool has_text = said && PyUnicode_GetLength(said) > 0;
    PyObject *place = name ? place_of(exception) : NULL;
    if (place && has_text)
        text = PyUnicode_FromFormat("%U: %U%U", name, said, place);
    else if (place)
        text = PyUnicode_FromFormat("%U%U", name, place);
    Py_XDECREF(place);
    Py_XDECREF(said);
    Py_XDECREF(name);
    return text;
}

/* Characters that UTF-8 does not have are escaped, so that the report of a failure does not fail
 * itself. */
PyObject *reason_text(PyObject *why)
{
    PyObject *text = NULL;
    if (PyUnicode_Check(why))
        text = Py_NewRef(why);
    else if (PyExceptionInstance_Check(why))
        text = text_of_exception(why);
    else
        PyErr_SetString(PyExc_TypeError, "a str or an exception is needed to say why");
    PyObject *bytes = text ? PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace") : NULL;
    Py_XDECREF(text);
    return bytes;
}
