/* SPDX-License-Identifier: Apache-2.0
 *
 * job: the type pch.Job, a handle of the process's one job. The docstrings of its methods are the
 * reference; libpch(3) says more.
 */
#include "reason.h"
#include "types.h"

#include <string.h>

#define DOC(name, signature, text) PyDoc_STRVAR(name##_doc, #name signature "\n--\n\n" text)

int step_from(PyObject *object, void *ret_step)
{
    PyObject *number = PyNumber_Index(object);
    if (!number)
        return 0;
    unsigned long long step = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_OverflowError))
        return 0;
    if (PyErr_Occurred() || step >= STEP_LIMIT) {
        PyErr_Format(PyExc_ValueError, "%S is not a number of steps from 0 to 2**48 - 2", object);
        return 0;
    }
    *(uint64_t *)ret_step = step;
    return 1;
}

/* A path as bytes, NULL for None. False: an exception. */
static bool path_from(PyObject *object, PyObject **ret_path)
{
    *ret_path = NULL;
    return object == Py_None || PyUnicode_FSConverter(object, ret_path);
}

/* The result of a method that returns nothing. Releases `held`, which may be NULL. */
static PyObject *none_if(bool ok, PyObject *held)
{
    Py_XDECREF(held);
    return ok ? Py_NewRef(Py_None) : NULL;
}

static const char *path_text(PyObject *path)
{
    return path ? PyBytes_AsString(path) : NULL;
}

/* The training loop */

DOC(step, "($self, finished=None, /)",
    "Reports one more finished step (stride), or the number of all finished steps. True: save\n"
    "now, on every rank, then call saved(). Look at should_exit after it.");

static PyObject *job_step(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    uint64_t finished = training.finished + training.stride;
    if (count > 1)
        return PyErr_Format(PyExc_TypeError, "step() takes at most 1 argument (%zd given)", count);
    if (count == 1 && args[0] != Py_None && !step_from(args[0], &finished))
        return NULL;
    if (finished < training.finished || finished >= STEP_LIMIT)
        return PyErr_Format(PyExc_ValueError, "step %llu is finished already, so %llu cannot be",
                            (unsigned long long)training.finished, (unsigned long long)finished);
    int result = training_step(finished);
    return result < 0 ? NULL : Py_NewRef(result ? Py_True : Py_False);
}

DOC(steps, "($self, total, /, save=None)",
    "Iterates over the remaining steps: for step in job.steps(total). One iteration is one\n"
    "step; step is the number of steps finished before it. Ask should_save at the end of each\n"
    "iteration. Or give save: then save(step) is called when all ranks save, and returns the path "
    "of\n"
    "the checkpoint, or None. Raises Exit when the job has to leave.");

static PyObject *job_steps(PyObject *self, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"", "save", NULL};
    uint64_t total;
    PyObject *save = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&|O:steps", KEYWORDS(names), step_from,
                                     &total, &save))
        return NULL;
    if (save != Py_None && !PyCallable_Check(save))
        return PyErr_Format(PyExc_TypeError, "save must be a function, not %R", save);
    return steps_new(PyType_GetModuleState(Py_TYPE(self)), total, save == Py_None ? NULL : save);
}

static PyObject *job_should_save(PyObject *self, void *closure)
{
    if (training.iteration && training_end_iteration() < 0)
        return NULL;
    return Py_NewRef(training.should_save ? Py_True : Py_False);
}

static PyObject *job_should_exit(PyObject *self, void *closure)
{
    return Py_NewRef(training.should_exit ? Py_True : Py_False);
}

/* Saves */

DOC(saved, "($self, path=None, /)",
    "Reports that the save of the last finished step is durable: it survives a loss of power.\n"
    "Waits until the save is committed on every rank, or given up. path (str, bytes or PathLike)\n"
    "becomes resume_path; None if another rank saves for this one. A relative path is made\n"
    "absolute. The save fails if the path does not exist; a URL is not checked.\n"
    "Also reports the saves that the program makes by itself.");

static PyObject *job_saved(PyObject *self, PyObject *args)
{
    PyObject *object = Py_None, *path;
    if (!PyArg_ParseTuple(args, "|O:saved", &object) || !path_from(object, &path))
        return NULL;
    bool ok = training_saved(path_text(path));
    return none_if(ok, path);
}

DOC(durable, "($self, step, path=None, /)",
    "Reports that a save in the background, of that step, is durable. Never waits; any thread may\n"
    "call it. In a round that ends the run the next step() waits instead.");

static PyObject *job_durable(PyObject *self, PyObject *args)
{
    PyObject *object = Py_None, *path;
    uint64_t step;
    if (!PyArg_ParseTuple(args, "O&|O:durable", step_from, &step, &object) ||
        !path_from(object, &path))
        return NULL;
    training.is_owed = false;
    training.has_told_owed = true;
    training_leave(false);
    pch_durable(training.job, step, path_text(path));
    bool ok = training_return(false);
    return none_if(ok, path);
}

DOC(save_failed, "($self, why, step=None, /)",
    "Reports that there is no save of that step (by default the last finished one), and why (a\n"
    "text, or the exception). Then no rank commits it. For a save in the background give step.");

static PyObject *job_save_failed(PyObject *self, PyObject *args)
{
    PyObject *why, *object = Py_None;
    uint64_t step = 0;
    if (!PyArg_ParseTuple(args, "O|O:save_failed", &why, &object))
        return NULL;
    PyObject *bytes = reason_text(why);
    bool ok = bytes;
    if (object != Py_None) /* a save in the background must not end the iteration */
        ok = ok && step_from(object, &step);
    else if ((ok = ok && training_end_iteration() >= 0))
        step = training.finished;
    ok = ok && training_save_failed(step, PyBytes_AsString(bytes));
    return none_if(ok, bytes);
}

DOC(scratch_dir, "($self, /)",
    "The path of an empty directory of this rank, for files between the beginning of a save and\n"
    "its commit. It is removed after the commit. None if it cannot be made.");

static PyObject *job_scratch_dir(PyObject *self, PyObject *unused)
{
    training_leave(false);
    const char *path = pch_scratch_dir(training.job);
    if (!training_return(false))
        return NULL;
    return path ? PyUnicode_DecodeFSDefault(path) : Py_NewRef(Py_None);
}

/* Status */

DOC(phase, "($self, name, /)",
    "Reports the phase of the process from now on: 'start', 'train', 'eval', 'compile' or 'save'.\n"
    "The watchdog's time limit depends on it. A step sets 'train' by itself.");

static PyObject *job_phase(PyObject *self, PyObject *args)
{
    static const char *const names[] = {
        [PCH_START] = "start",     [PCH_TRAIN] = "train",  [PCH_EVAL] = "eval",
        [PCH_COMPILE] = "compile", [PCH_IN_SAVE] = "save",
    };
    const char *name;
    if (!PyArg_ParseTuple(args, "s:phase", &name))
        return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) != 0)
            continue;
        training_leave(false);
        pch_phase(training.job, (enum pch_phase)i);
        return none_if(training_return(false), NULL);
    }
    return PyErr_Format(PyExc_ValueError,
                        "'%s' is not a phase; there are start, train, eval, compile and save",
                        name);
}

DOC(wait_begin, "($self, /)",
    "Marks that this rank waits for other ranks from now on, as in a collective, until\n"
    "wait_end(). The rest of a step's time is its own: pchrun names a rank whose own time is far\n"
    "above the median. A second wait_begin(), and a wait_end() without one, do nothing.");

static PyObject *job_wait_begin(PyObject *self, PyObject *unused)
{
    pch_wait_begin(training.job); /* never waits, so the interpreter's lock is kept */
    return Py_NewRef(Py_None);
}

DOC(wait_end, "($self, /)", "Marks the end of that wait.");

static PyObject *job_wait_end(PyObject *self, PyObject *unused)
{
    pch_wait_end(training.job);
    return Py_NewRef(Py_None);
}

DOC(loading, "($self, /)",
    "For `with job.loading():` around the wait for a batch. `pchctl goodput` takes this time off\n"
    "the training, of the rank that waits longest. Workers that load ahead do not use it.");

static PyObject *job_loading(PyObject *self, PyObject *unused)
{
    const struct module *module = PyType_GetModuleState(Py_TYPE(self));
    return Py_NewRef(module->loading);
}

DOC(collective_timeout, "($self, seconds, /)",
    "Reports after how many seconds the program's collectives give up their wait for another "
    "rank;\n"
    "0: never. The watchdog then looks for a hang before that. The time-out of PyTorch's process\n"
    "groups is reported without this call.");

static PyObject *job_collective_timeout(PyObject *self, PyObject *object)
{
    const double most = 1e9; /* a longer one never comes */
    double seconds = PyFloat_AsDouble(object);
    if (PyErr_Occurred())
        return NULL;
    if (!(seconds >= 0))
        return PyErr_Format(PyExc_ValueError, "%R is not a number of seconds", object);
    training_leave(false);
    pch_collective_timeout(training.job, seconds < most ? (uint64_t)(seconds * 1000) : 0);
    return none_if(training_return(false), NULL);
}

DOC(notice, "($self, /)", "The text of the notice that is in force, None without one.");

static PyObject *job_notice(PyObject *self, PyObject *unused)
{
    char text[1024];
    training_leave(false);
    size_t size = pch_notice(training.job, text, sizeof text);
    if (!training_return(false))
        return NULL;
    return size ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace")
                : Py_NewRef(Py_None);
}

DOC(error, "($self, text, code=1, /)",
    "Reports why this process is about to fail (a text, or the exception): pchrun shows it as the\n"
    "cause, with the program's line that has raised the exception. Ends nothing. An uncaught\n"
    "exception is reported without this call.");

static PyObject *job_error(PyObject *self, PyObject *args)
{
    PyObject *text;
    int code = 1;
    if (!PyArg_ParseTuple(args, "O|i:error", &text, &code))
        return NULL;
    PyObject *bytes = reason_text(text);
    if (!bytes)
        return NULL;
    training_leave(false);
    pch_error(training.job, code, PyBytes_AsString(bytes));
    bool ok = training_return(false);
    return none_if(ok, bytes);
}

/* The end */

DOC(done, "($self, /)",
    "Reports that the training has come to its end. A `with` block that ends without an exception\n"
    "reports it by itself.");

static bool say_done(void)
{
    if (training_end_iteration() < 0 || !training_tell_owed())
        return false;
    training_leave(false);
    pch_done(training.job);
    return training_return(false);
}

static PyObject *job_done(PyObject *self, PyObject *unused)
{
    return none_if(say_done(), NULL);
}

DOC(close, "($self, /)", "Detaches the process. Every later call does nothing, until attach().");

static PyObject *job_close(PyObject *self, PyObject *unused)
{
    return none_if(training_close(), NULL);
}

static PyObject *job_enter(PyObject *self, PyObject *unused)
{
    return Py_NewRef(self);
}

DOC(__exit__, "($self, kind, value, trace, /)",
    "Without an exception: done(), unless the job has to leave, then close(). With an exception\n"
    "the job stays attached, so that the exception can be reported if it stays uncaught.");

static PyObject *job_exit(PyObject *self, PyObject *args)
{
    PyObject *kind = Py_None, *value, *trace;
    if (!PyArg_ParseTuple(args, "OOO:__exit__", &kind, &value, &trace))
        return NULL;
    if (kind == Py_None && ((!training.should_exit && !say_done()) || !training_close()))
        return NULL;
    return Py_NewRef(Py_False);
}

/* Properties */

static PyObject *job_supervised(PyObject *self, void *closure)
{
    return PyBool_FromLong(pch_supervised(training.job));
}

static PyObject *job_finished(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(training.finished);
}

static PyObject *job_rank(PyObject *self, void *closure)
{
    return pch_supervised(training.job) ? PyLong_FromLong(training.job->rank) : Py_NewRef(Py_None);
}

static PyObject *job_needs(PyObject *self, void *closure)
{
    return PyUnicode_FromString(training.needs == PCH_NEEDS_RANK0 ? "rank0"
                                : training.needs == PCH_NEEDS_ANY ? "any"
                                                                  : "all");
}

static PyObject *job_resume_step(PyObject *self, void *closure)
{
    return PyLong_FromUnsignedLongLong(pch_resume_step(training.job));
}

static PyObject *job_resume_path(PyObject *self, void *closure)
{
    const char *path = pch_resume_path(training.job);
    return path ? PyUnicode_DecodeFSDefault(path) : Py_NewRef(Py_None);
}

static PyObject *job_repr(PyObject *self)
{
    const char *what = training.should_exit   ? ", to leave"
                       : training.should_save ? ", to save"
                                              : "";
    unsigned long long finished = training.finished;
    if (!pch_supervised(training.job))
        return PyUnicode_FromFormat("<pch.Job, not under pchrun, %llu steps finished>", finished);
    return PyUnicode_FromFormat("<pch.Job of rank %d, %llu steps finished%s>", training.job->rank,
                                finished, what);
}

static PyObject *job_reduce(PyObject *self, PyObject *unused)
{
    PyErr_SetString(PyExc_TypeError,
                    "a pch.Job cannot be pickled or copied: it is this process's connection to "
                    "pchrun; a process that trains calls pch.attach() by itself");
    return NULL;
}

/* The module has the job, the job has its type, and the type has the module. */
static int job_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void job_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

#define METHOD(name, function, flags)                                     \
    {                                                                     \
#name, (PyCFunction)(void (*)(void))(function), flags, name##_doc \
    }

static PyMethodDef methods[] = {
    METHOD(step, job_step, METH_FASTCALL),
    METHOD(steps, job_steps, METH_VARARGS | METH_KEYWORDS),
    METHOD(saved, job_saved, METH_VARARGS),
    METHOD(durable, job_durable, METH_VARARGS),
    METHOD(save_failed, job_save_failed, METH_VARARGS),
    METHOD(scratch_dir, job_scratch_dir, METH_NOARGS),
    METHOD(phase, job_phase, METH_VARARGS),
    METHOD(wait_begin, job_wait_begin, METH_NOARGS),
    METHOD(wait_end, job_wait_end, METH_NOARGS),
    METHOD(loading, job_loading, METH_NOARGS),
    METHOD(collective_timeout, job_collective_timeout, METH_O),
    METHOD(notice, job_notice, METH_NOARGS),
    METHOD(error, job_error, METH_VARARGS),
    METHOD(done, job_done, METH_NOARGS),
    METHOD(close, job_close, METH_NOARGS),
    {"__enter__", job_enter, METH_NOARGS, NULL},
    METHOD(__exit__, job_exit, METH_VARARGS),
    {"__reduce__", job_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef members[] = {
    {"should_save", job_should_save, NULL,
     "True if all ranks save this step. Asking ends the iteration of steps(), and so reports that\n"
     "the step is finished. It stays True until saved(), save_failed() or the next step.",
     NULL},
    {"should_exit", job_should_exit, NULL,
     "True if the program must leave the training loop and end: the job restarts or stops.", NULL},
    {"supervised", job_supervised, NULL, "True if the process is attached to a pchrun.", NULL},
    {"finished", job_finished, NULL, "The number of finished steps that were reported.", NULL},
    {"rank", job_rank, NULL, "This process's rank in the job, None without a pchrun.", NULL},
    {"needs", job_needs, NULL,
     "Whose saves make a whole checkpoint, as attach() got it: 'all', 'rank0' or 'any'.", NULL},
    {"resume_step", job_resume_step, NULL,
     "The last committed step, 0 without one: train from there.", NULL},
    {"resume_path", job_resume_path, NULL,
     "The path that this rank, or the rank that saves for all, passed to saved() at that step, or\n"
     "None.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"The job of this process; attach() returns it. There is one. Without\n"
                        "pchrun it never asks for a save."},
    {Py_tp_methods, methods},
    {Py_tp_getset, members},
    {Py_tp_repr, (void *)job_repr},
    {Py_tp_traverse, (void *)job_traverse},
    {Py_tp_dealloc, (void *)job_dealloc},
    {0, NULL},
};

PyType_Spec job_spec = {
    .name = "pch.Job",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
