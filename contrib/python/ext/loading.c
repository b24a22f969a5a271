/* SPDX-License-Identifier: Apache-2.0
 *
 * loading: `with job.loading():` around the wait for data. The marks are the process's, so there is
 * one such object, and it holds nothing.
 */
#include "types.h"

/* Never waits, so the interpreter's lock is kept. */
static PyObject *loading_enter(PyObject *self, PyObject *unused)
{
    pch_load_begin(training.job);
    return Py_NewRef(Py_None);
}

static PyObject *loading_exit(PyObject *self, PyObject *args)
{
    pch_load_end(training.job);
    return Py_NewRef(Py_False);
}

static void loading_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"__enter__", loading_enter, METH_NOARGS, NULL},
    {"__exit__", loading_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"A wait for data; Job.loading() returns it."},
    {Py_tp_methods, methods},
    {Py_tp_dealloc, (void *)loading_dealloc},
    {0, NULL},
};

PyType_Spec loading_spec = {
    .name = "pch.Loading",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
