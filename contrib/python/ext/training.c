/* SPDX-License-Identifier: Apache-2.0
 * See training.h.
 */
#include "training.h"

#include "libpch/line.h"
#include "stacks.h"

struct training training;

/* The state of a thread that has released the interpreter's lock for a call of libpch. */
static _Thread_local PyThreadState *away;

/* libpch calls this in every wait. A Python handler runs here, and may raise. */
static bool wait_is_over(void)
{
    if (!away)
        return false;
    PyEval_RestoreThread(away);
    bool is_over = PyErr_CheckSignals() != 0;
    away = PyEval_SaveThread();
    return is_over;
}

/* In a fork no save is asked for, and no thread is in a call of libpch. */
static void on_fork_child(void)
{
    training.is_attached = training.is_busy = false;
    training.should_save = training.should_exit = training.is_owed = false;
    training.thread = 0;
    away = NULL;
}

bool training_init(void)
{
    static bool is_done;
    if (!is_done && pthread_atfork(NULL, NULL, on_fork_child) != 0) {
        PyErr_NoMemory();
        return false;
    }
    is_done = true;
    line_is_over = wait_is_over;
    stacks_init();
    return true;
}

bool training_leave(bool is_training_call)
{
    if (is_training_call && training.is_busy) {
        PyErr_SetString(
            PyExc_RuntimeError,
            "another thread, or the code that a signal has interrupted, is in a call of the same "
            "job; the training loop belongs to one thread");
        return false;
    }
    training.is_busy = training.is_busy || is_training_call;
    away = PyEval_SaveThread();
    return true;
}

bool training_return(bool is_training_call)
{
    PyEval_RestoreThread(away);
    away = NULL;
    if (is_training_call)
        training.is_busy = false;
    return !PyErr_Occurred();
}

bool training_attach(const struct pch_options *options)
{
    if (training.is_attached)
        return true;
    if (!training_leave(true))
        return false;
    training.job = pch_open(options);
    if (!training_return(true)) {
        pch_close(training.job);
        return false;
    }
    training.is_attached = true;
    training.counts = options->flags & PCH_NO_SAVE;
    training.is_shielded = !(options->flags & (PCH_NO_SAVE | PCH_NO_SHIELD));
    training.needs = options->flags & (PCH_NEEDS_RANK0 | PCH_NEEDS_ANY);
    training.thread = 0;
    training.should_save = training.should_exit = training.is_owed = false;
    training.iteration = NULL;
    training.stride = options->stride ? options->stride : 1;
    bool resumes = !(options->flags & PCH_NO_SAVE) && options->first_step == 0;
    training.finished = resumes ? pch_resume_step(training.job) : options->first_step;
    stacks_show(training.job);
    return true;
}

bool training_close(void)
{
    if (!training_leave(true))
        return false;
    pch_close(training.job);
    training.is_attached = false;
    training.thread = 0;
    training.should_save = training.is_owed = false;
    return training_return(true);
}

/* The threading.Thread of that thread. NULL, perhaps with an exception: the thread has ended, or
 * Python did not start it. */
static PyObject *find_thread(pthread_t thread)
{
    PyObject *found = NULL;
    PyObject *module = PyImport_ImportModule("threading");
    PyObject *all = module ? PyObject_CallMethod(module, "enumerate", NULL) : NULL;
    Py_ssize_t size = all ? PyList_Size(all) : 0;
    for (Py_ssize_t i = 0; i < size && !found && !PyErr_Occurred(); i++) {
        PyObject *one = PyList_GetItem(all, i);
        PyObject *ident = PyObject_GetAttrString(one, "ident");
        if (ident && ident != Py_None && (pthread_t)PyLong_AsUnsignedLong(ident) == thread)
            found = Py_NewRef(one);
        Py_XDECREF(ident);
    }
    Py_XDECREF(all);
    Py_XDECREF(module);
    return found;
}

static void refuse_thread(PyObject *other)
{
    PyObject *name = PyObject_GetAttrString(other, "name");
    if (name)
        PyErr_Format(
            PyExc_RuntimeError,
            "thread %U makes the steps of this job, and still runs: the steps of two threads "
            "would count double. Let one thread make all steps, or call job.close() and "
            "pch.attach() before another one takes over",
            name);
    Py_XDECREF(name);
}

bool training_take_over(void)
{
    if (training.thread && !training.counts) {
        PyObject *other = find_thread(training.thread);
        if (other)
            refuse_thread(other);
        Py_XDECREF(other);
        if (PyErr_Occurred())
            return false;
    }
    training.thread = pthread_self();
    return true;
}

/* A thread for which Python waits at its end, besides the main thread and this one. It may be the
 * one that writes a save in the background, and reports it. */
static bool has_writer(void)
{
    unsigned others = 0;
    PyObject *module = PyImport_ImportModule("threading");
    PyObject *first = module ? PyObject_CallMethod(module, "main_thread", NULL) : NULL;
    PyObject *own = first ? PyObject_CallMethod(module, "current_thread", NULL) : NULL;
    PyObject *all = own ? PyObject_CallMethod(module, "enumerate", NULL) : NULL;
    Py_ssize_t size = all ? PyList_Size(all) : 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *one = PyList_GetItem(all, i);
        PyObject *is_daemon = PyObject_GetAttrString(one, "daemon");
        others += one != first && one != own && is_daemon == Py_False;
        Py_XDECREF(is_daemon);
    }
    Py_XDECREF(all);
    Py_XDECREF(own);
    Py_XDECREF(first);
    Py_XDECREF(module);
    PyErr_Clear();
    return others > 0;
}

/* With needs="rank0" no commit waits for the reports of the other ranks. Nothing shows before its
 * first report that a program saves in the background, so a thread that may do it is believed. */
bool training_tell_owed(void)
{
    bool is_needed = !(training.needs & PCH_NEEDS_RANK0) || training.job->rank == 0;
    bool tells = training.is_owed && is_needed && !training.has_told_owed;
    training.is_owed = false;
    if (!tells || has_writer())
        return true;
    training.has_told_owed = true;
    return PyErr_WarnFormat(
               PyExc_RuntimeWarning, 1,
               "all ranks save step %llu, and this rank goes on without a report of its save: "
               "call job.saved(path) when the save is on disk, or job.saved(None) if this rank "
               "writes nothing. A save in the background is reported by job.durable(step, path)",
               (unsigned long long)training.finished) == 0;
}

bool training_look(void)
{
    PyObject *seen = training.look && training.is_attached ? PyObject_CallNoArgs(training.look)
                                                           : Py_NewRef(Py_None);
    Py_XDECREF(seen);
    return seen;
}

int training_step_slowly(uint64_t finished)
{
    if (!training_tell_owed() || !training_leave(true))
        return -1;
    enum pch_action action = pch_step(training.job, finished);
    if (!training_return(true))
        return -1;
    training.finished = finished;
    training.iteration = NULL;
    training.should_save = training.is_owed = action == PCH_SAVE;
    training.should_exit = action == PCH_EXIT;
    return training_look() ? training.should_save : -1;
}

int training_end_iteration(void)
{
    return training.iteration ? training_step(training.finished + training.stride) : 0;
}

bool training_saved(const char *path)
{
    if (training_end_iteration() < 0 || !training_leave(true))
        return false;
    enum pch_action action = pch_saved(training.job, training.finished, path);
    if (!training_return(true))
        return false;
    training.should_save = training.is_owed = false;
    training.should_exit = training.should_exit || action == PCH_EXIT;
    return true;
}

bool training_save_failed(uint64_t step, const char *why)
{
    training_leave(false);
    pch_save_failed(training.job, step, why);
    training.is_owed = false;
    if (step == training.finished)
        training.should_save = false;
    return training_return(false);
}
