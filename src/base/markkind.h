/* SPDX-License-Identifier: Apache-2.0
 *
 * markkind: what a job does, as the marks of its ledger say: the core emits them, the ledger keeps
 * them, pchctl reads them. A mark begins a span, which ends where the next one begins. Only a
 * commit and a tick begin no span.
 */
#pragma once

enum mark_kind {
    MARK_NONE,
    MARK_STARTING,   /* a run or a generation begins: from here to a step on every node */
    MARK_WAITING,    /* nodes are missing, at the join or after a loss */
    MARK_UNATTACHED, /* the commands run, and no process has attached: no step is known */
    MARK_TRAINING,
    MARK_SAVING,     /* every rank has begun to save: no rank trains */
    MARK_HUNG,       /* no rank makes progress */
    MARK_RESTARTING, /* a generation ends, and another follows in place */
    MARK_STOPPING,   /* the training is over: its processes end */
    MARK_ENDED,      /* pchrun ends the job */
    MARK_COMMIT,     /* a step is committed */
    MARK_TICK,       /* the same goes on */
    MARK__COUNT
};
