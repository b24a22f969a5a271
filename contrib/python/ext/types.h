/* SPDX-License-Identifier: Apache-2.0
 *
 * types: the types of the module. Their instances hold no state of the job, which is the process's
 * (training.h). There is one Job, as there is one job, one Loading, and any number of Steps.
 */
#pragma once

#include "training.h"

struct module {
    PyObject *job_type, *steps_type, *loading_type;
    PyObject *job;     /* the one pch.Job, NULL: not attached yet */
    PyObject *loading; /* the one pch.Loading */
    PyObject *exit;    /* pch.Exit */
};

extern PyType_Spec job_spec, steps_spec, loading_spec;

/* The iterator of Job.steps. `save` may be NULL. Returns a new reference, NULL: an exception. */
PyObject *steps_new(struct module *module, uint64_t total, PyObject *save);

/* For PyArg_ParseTupleAndKeywords, whose names are not declared const before Python 3.13. */
#define KEYWORDS(names) (char **)(uintptr_t)(names)

/* For PyArg_Parse's O&: a step, or anything that has __index__. */
int step_from(PyObject *object, void *ret_step);
