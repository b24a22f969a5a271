/* SPDX-License-Identifier: Apache-2.0
 *
 * module: the extension pch._pch, libpch for CPython. It uses the limited API, so one build serves
 * every version from 3.10. It contains libpch, so no other library need be installed. It is never
 * unloaded, as libpch requires. It refuses subinterpreters: they would share the process's one job,
 * and their loops could not be told apart.
 */
#include "types.h"

#include "libpch/shield.h"
#include "stacks.h"

#include <signal.h>
#include <string.h>

PyDoc_STRVAR(attach_doc,
             "attach(*, rank=-1, local_rank=-1, world_size=-1, local_world_size=-1, first_step=0, "
             "stride=1, last_step=0, shield=True, saves=True, needs='all')\n--\n\nSee pch.attach.");

/* For PyArg_ParseTupleAndKeywords: whose saves are needed, as the flags of libpch. */
static int needs_from(PyObject *object, unsigned *ret)
{
    static const struct {
        const char *name;
        unsigned flags;
    } needs[] = {{"all", 0}, {"rank0", PCH_NEEDS_RANK0}, {"any", PCH_NEEDS_ANY}};
    const char *name = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, NULL) : "";
    for (size_t i = 0; name && i < sizeof needs / sizeof *needs; i++) {
        *ret = needs[i].flags;
        if (strcmp(name, needs[i].name) == 0)
            return 1;
    }
    if (name)
        PyErr_Format(PyExc_ValueError, "needs cannot be %R; there are 'all', 'rank0' and 'any'",
                     object);
    return 0;
}

static PyObject *module_attach(PyObject *self, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {
        "rank",       "local_rank", "world_size", "local_world_size",
        "first_step", "stride",     "last_step",  "shield",
        "saves",      "needs",      NULL};
    struct module *module = PyModule_GetState(self);
    struct pch_options options = PCH_OPTIONS_INIT;
    int is_shielded = 1, saves = 1;
    unsigned needs = 0;
    options.stride = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$iiiiO&O&O&ppO&:attach", KEYWORDS(names),
                                     &options.rank, &options.local_rank, &options.world_size,
                                     &options.local_world_size, step_from, &options.first_step,
                                     step_from, &options.stride, step_from, &options.last_step,
                                     &is_shielded, &saves, needs_from, &needs))
        return NULL;
    if (options.stride == 0)
        return PyErr_Format(PyExc_ValueError, "stride must be 1 or more steps");
    options.flags = (is_shielded ? 0 : PCH_NO_SHIELD) | (saves ? 0 : PCH_NO_SAVE) | needs;
    if (!training_attach(&options))
        return NULL;
    if (!module->job && (module->job = PyObject_GC_New(PyObject, (PyTypeObject *)module->job_type)))
        PyObject_GC_Track(module->job);
    return Py_XNewRef(module->job);
}

/* The module may then hold the only reference to `object`. */
static bool add(PyObject *self, const char *name, PyObject *object)
{
    return object && PyModule_AddObjectRef(self, name, object) == 0;
}

static int module_exec(PyObject *self)
{
    struct module *module = PyModule_GetState(self);
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError,
                        "pch works in the main interpreter only: the job is the process's, not a "
                        "subinterpreter's");
        return -1;
    }
    if (!training_init())
        return -1;
    module->job_type = PyType_FromModuleAndSpec(self, &job_spec, NULL);
    module->steps_type = PyType_FromModuleAndSpec(self, &steps_spec, NULL);
    module->loading_type = PyType_FromModuleAndSpec(self, &loading_spec, NULL);
    if (module->loading_type)
        module->loading = PyObject_New(PyObject, (PyTypeObject *)module->loading_type);
    module->exit = PyErr_NewExceptionWithDoc(
        "pch.Exit",
        "The job has to leave: it restarts or stops. A SystemExit, with status 0: the scheduler\n"
        "sees pchrun's exit code.",
        PyExc_SystemExit, NULL);
    bool ok = add(self, "Job", module->job_type) && add(self, "Steps", module->steps_type) &&
              add(self, "Loading", module->loading_type) && module->loading &&
              add(self, "Exit", module->exit) &&
              PyModule_AddStringConstant(self, "__version__", PCH_VERSION) == 0;
    return ok ? 0 : -1;
}

static int module_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct module *module = PyModule_GetState(self);
    Py_VISIT(module->job);
    Py_VISIT(module->job_type);
    Py_VISIT(module->steps_type);
    Py_VISIT(module->loading_type);
    Py_VISIT(module->exit);
    return 0;
}

static int module_clear(PyObject *self)
{
    struct module *module = PyModule_GetState(self);
    Py_CLEAR(module->job);
    Py_CLEAR(module->job_type);
    Py_CLEAR(module->steps_type);
    Py_CLEAR(module->loading);
    Py_CLEAR(module->loading_type);
    Py_CLEAR(module->exit);
    return 0;
}

/* For _children.py: the supervisor and the signals for a helper of this process. None: no shield.
 */
static PyObject *module_shield(PyObject *self, PyObject *ignored)
{
    pid_t supervisor;
    unsigned long long signals = shield_over(&supervisor);
    return signals ? Py_BuildValue("iK", (int)supervisor, signals) : Py_NewRef(Py_None);
}

static PyObject *module_help(PyObject *self, PyObject *args)
{
    int owner, supervisor;
    unsigned long long signals;
    if (!PyArg_ParseTuple(args, "iiK:_help", &owner, &supervisor, &signals))
        return NULL;
    shield_help(owner, supervisor, signals);
    return Py_NewRef(Py_None);
}

/* For _children.py: the descriptor and the signal by which a child shows its stacks. None: this
 * process shows none. */
static PyObject *module_stacks(PyObject *self, PyObject *ignored)
{
    int fd, number;
    return stacks_are_shown(&fd, &number) ? Py_BuildValue("ii", fd, number) : Py_NewRef(Py_None);
}

static PyObject *module_show_stacks(PyObject *self, PyObject *args)
{
    int fd, number;
    if (!PyArg_ParseTuple(args, "ii:_show_stacks", &fd, &number))
        return NULL;
    stacks_help(fd, number);
    return Py_NewRef(Py_None);
}

/* Called in a helper that has replaced libpch's handlers. */
static PyObject *module_cover_signals(PyObject *self, PyObject *ignored)
{
    shield_cover();
    return Py_NewRef(Py_None);
}

/* For frameworks that install a handler for SIGTERM after the process has attached, and then ignore
 * the signal. Restores the default action, then the shield, unless attach() had shield=False. */
static PyObject *module_take_sigterm(PyObject *self, PyObject *ignored)
{
    const struct pch *job = training.job;
    if (pch_supervised(job) && signal(SIGTERM, SIG_DFL) != SIG_ERR && training.is_shielded)
        shield_raise(job, job->notices | UINT64_C(1) << (SIGTERM - 1));
    return Py_NewRef(Py_None);
}

/* For _attach.py. The extension is never unloaded, so the reference stays. */
static PyObject *module_look_by(PyObject *self, PyObject *function)
{
    Py_XDECREF(training.look);
    training.look = Py_NewRef(function);
    return Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
    {"attach", (PyCFunction)(void (*)(void))module_attach, METH_VARARGS | METH_KEYWORDS,
     attach_doc},
    {"_shield", module_shield, METH_NOARGS, NULL},
    {"_help", module_help, METH_VARARGS, NULL},
    {"_stacks", module_stacks, METH_NOARGS, NULL},
    {"_show_stacks", module_show_stacks, METH_VARARGS, NULL},
    {"_cover_signals", module_cover_signals, METH_NOARGS, NULL},
    {"_take_sigterm", module_take_sigterm, METH_NOARGS, NULL},
    {"_look_by", module_look_by, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)module_exec},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "pch._pch",
    .m_doc = "libpch for CPython; see the package pch.",
    .m_size = sizeof(struct module),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__pch(void);

PyMODINIT_FUNC PyInit__pch(void)
{
    return PyModuleDef_Init(&definition);
}
