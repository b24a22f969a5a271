/* SPDX-License-Identifier: Apache-2.0
 *
 * steps: `for step in job.steps(total)`. One iteration of the loop is one step (or one stride). The
 * step is reported when the iteration ends: the program asks should_save, reports a save, or begins
 * the next iteration.
 */
#include "reason.h"
#include "types.h"

#include <stddef.h>

struct steps {
    PyObject_HEAD uint64_t total;
    PyObject *save; /* NULL: none */
};

PyObject *steps_new(struct module *module, uint64_t total, PyObject *save)
{
    struct steps *self = PyObject_GC_New(struct steps, (PyTypeObject *)module->steps_type);
    if (!self)
        return NULL;
    self->total = total;
    self->save = Py_XNewRef(save);
    PyObject_GC_Track((PyObject *)self);
    return (PyObject *)self;
}

static int steps_traverse(PyObject *object, visitproc visit, void *arg)
{
    struct steps *self = (struct steps *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->save);
    return 0;
}

static int steps_clear(PyObject *object)
{
    struct steps *self = (struct steps *)object;
    Py_CLEAR(self->save);
    return 0;
}

static void steps_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (training.iteration == object)
        training.iteration =
            NULL; /* the program has left the loop in the middle of this iteration */
    steps_clear(object);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

/* The save of that step has failed by the exception that is set. It stays set. */
static void report_exception(uint64_t step)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace)
        PyException_SetTraceback(value, trace);
    PyObject *why = reason_text(value);
    PyErr_Clear();
    training_save_failed(step, why ? PyBytes_AsString(why) : NULL);
    PyErr_Clear();
    Py_XDECREF(why);
    PyErr_Restore(type, value, trace);
}

/* Calls the function that was given to steps(). The function returns the path, or None. */
static bool call_save(struct steps *self)
{
    PyObject *path = NULL;
    uint64_t step = training.finished;
    PyObject *saved = PyObject_CallFunction(self->save, "K", (unsigned long long)step);
    bool ok = saved && (saved == Py_None || PyUnicode_FSConverter(saved, &path));
    if (ok) {
        /* The function may have reported the save by itself. */
        ok = !training.should_save || training_saved(path ? PyBytes_AsString(path) : NULL);
    } else {
        report_exception(step);
    }
    Py_XDECREF(path);
    Py_XDECREF(saved);
    return ok;
}

/* All ranks save at the end of an iteration in which the program did not look at should_save. */
static bool serve(struct steps *self)
{
    if (self->save)
        return call_save(self);
    return training_save_failed(training.finished, "the program has not looked at should_save") &&
           PyErr_WarnEx(
               PyExc_RuntimeWarning,
               "pchrun has asked for a save in an iteration that did not look at "
               "job.should_save; look at it in every iteration, or give job.steps() a save "
               "function",
               1) == 0;
}

static PyObject *steps_next(PyObject *object)
{
    struct steps *self = (struct steps *)object;
    if (training.iteration == object) {
        int result = training_end_iteration();
        if (result < 0 || (result == 1 && !serve(self)))
            return NULL;
    } else if (!training_is_mine()) {
        return NULL; /* a new iteration would drop the other thread's iteration unreported */
    } else if (!training_tell_owed() || !training_look()) {
        return NULL;
    }
    if (training.should_exit) {
        struct module *module = PyType_GetModuleState(Py_TYPE(object));
        PyErr_SetNone(module->exit);
        return NULL;
    }
    if (training.finished >= self->total)
        return NULL;
    training.iteration = object;
    return PyLong_FromUnsignedLongLong(training.finished);
}

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"The iterator over the remaining steps; Job.steps() returns it."},
    {Py_tp_traverse, (void *)steps_traverse},
    {Py_tp_clear, (void *)steps_clear},
    {Py_tp_dealloc, (void *)steps_dealloc},
    {Py_tp_iter, (void *)PyObject_SelfIter},
    {Py_tp_iternext, (void *)steps_next},
    {0, NULL},
};

PyType_Spec steps_spec = {
    .name = "pch.Steps",
    .basicsize = sizeof(struct steps),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
