/* SPDX-License-Identifier: Apache-2.0
 *
 * pch.h: libpch, the training process's side of pchrun. See libpch(3).
 *
 *     pch_t *job = pch_open(NULL);
 *     for (uint64_t step = pch_resume_step(job); step < steps;) {
 *         train_one_step();
 *         enum pch_action action = pch_step(job, ++step);
 *         if (action == PCH_SAVE) {
 *             save(path);
 *             action = pch_saved(job, step, path);
 *         }
 *         if (action == PCH_EXIT)
 *             break;
 *     }
 *
 * Without a supervisor every call is a no-op, so a program needs no second code path. Threads: call
 * pch_step, pch_saved and pch_close only from one thread, the training thread. Any thread may make
 * the other calls.
 */
#ifndef PCH_H
#define PCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PCH_API __attribute__((visibility("default")))
#else
#define PCH_API
#endif

#define PCH_VERSION "0.1.0"

typedef struct pch pch_t;

/* The next action of the training loop. */
enum pch_action {
    PCH_CONTINUE = 0, /* go on with the next step */
    PCH_SAVE = 1,     /* save this step now, on every rank, then call pch_saved or pch_durable */
    PCH_EXIT = 2      /* leave the loop and exit: the job restarts or stops */
};

enum pch_phase { PCH_START, PCH_TRAIN, PCH_EVAL, PCH_COMPILE, PCH_IN_SAVE };

/* pch_options.flags */
#define PCH_NO_SHIELD 1U /* do not catch SIGTERM, nor other signals that are notices */
#define PCH_NO_SAVE   2U /* only report steps; implies PCH_NO_SHIELD */
/* Whose saves make a whole checkpoint. Neither flag: every rank's save is needed. All ranks give
 * the same. Both count as neither, and a line on standard error says so. */
#define PCH_NEEDS_RANK0 4U /* rank 0's save is the whole checkpoint */
#define PCH_NEEDS_ANY   8U /* each rank's save is a whole checkpoint */

/* Initialize with PCH_OPTIONS_INIT: it sets size to sizeof(struct pch_options), and ranks and sizes
 * to -1, which means unknown. Then set members. Without a size the options are ignored, and a line
 * on standard error says so. */
struct pch_options {
    size_t size;
    int rank, local_rank, world_size, local_world_size;
    uint64_t first_step; /* the step this process starts from, 0: pch_resume_step() */
    uint64_t stride;     /* steps between two calls of pch_step, 0 or 1: every step */
    uint64_t last_step;  /* the training ends after this step; 0: unknown */
    unsigned flags;
};
#define PCH_OPTIONS_INIT                                       \
    {                                                          \
        sizeof(struct pch_options), -1, -1, -1, -1, 0, 0, 0, 0 \
    }

/* Attaches to the supervisor named by PCH_SOCKET. Never NULL: without a supervisor all calls on the
 * job are no-ops. They are also no-ops if the supervisor refuses; a line on standard error says
 * why. A second call returns the same job. A forked child is not attached, but may call this to
 * attach. `options` may be NULL. */
PCH_API pch_t *pch_open(const struct pch_options *options);
/* 1 if the process is attached to a supervisor, else 0. */
PCH_API int pch_supervised(const pch_t *job);
/* The last committed step, from which to train; 0: none. */
PCH_API uint64_t pch_resume_step(const pch_t *job);
/* The path that this rank, or the one rank that saves for all, passed to pch_saved at the resume
 * step. NULL: none. Valid until pch_close. */
PCH_API const char *pch_resume_path(const pch_t *job);
/* This rank's own empty directory, made at the first call; the first call after a commit makes a
 * new one. It is removed after the commit, at exit and at the next start. NULL: it cannot be made.
 * The text is valid until pch_close. */
PCH_API const char *pch_scratch_dir(pch_t *job);

/* Reports that `finished` steps are done. Costs a store and a load. Waits only while the ranks
 * agree on a save, at most until the round's deadline. */
PCH_API enum pch_action pch_step(pch_t *job, uint64_t finished);
/* Reports that the save at `step` is durable. Waits until the save is committed or has failed.
 * `path` may be NULL if another rank saves for this one. A relative path is made absolute. If
 * nothing exists at the path, the save has failed; a URL is not checked. Also report here the saves
 * that the program makes on its own. */
PCH_API enum pch_action pch_saved(pch_t *job, uint64_t step, const char *path);
/* Like pch_saved, for a save that finished in the background. Never waits: in a round that ends the
 * run, the next pch_step waits instead. */
PCH_API void pch_durable(pch_t *job, uint64_t step, const char *path);
PCH_API void pch_save_failed(pch_t *job, uint64_t step, const char *why);

/* Reports the phase of the process from now on. The watchdog's time limit depends on it, see HANGS
 * in pchrun(1). pch_step sets PCH_TRAIN by itself. */
PCH_API void pch_phase(pch_t *job, enum pch_phase phase);
/* Mark the times in which the process waits for other ranks, as in a collective. Between them a
 * step's time is this rank's own, and pchrun names a rank whose own time is far above the median. A
 * second begin, and an end without a begin, do nothing. Cost: below 0.1 us each. */
PCH_API void pch_wait_begin(pch_t *job);
PCH_API void pch_wait_end(pch_t *job);
/* Mark the times in which the training waits for data. `pchctl goodput` takes them off the
 * training: of the rank that waits longest. A second begin, and an end without a begin, do nothing.
 * Cost: below 0.1 us each. */
PCH_API void pch_load_begin(pch_t *job);
PCH_API void pch_load_end(pch_t *job);
/* Reports after how many milliseconds the program's collectives give up their wait for another
 * rank; 0: never. Before that time is over the watchdog looks for a hang, see HANGS in pchrun(1).
 */
PCH_API void pch_collective_timeout(pch_t *job, uint64_t milliseconds);
/* Copies the text of the current notice, cut to `size`. Returns the text's length; 0: no notice. */
PCH_API size_t pch_notice(pch_t *job, char *text, size_t size);
/* Reports why the process is about to fail: pchrun shows it as the cause. pchrun uses the process's
 * exit code, or `code` if the exit code is unknown. Does not end the process. */
PCH_API void pch_error(pch_t *job, int code, const char *text);
/* Reports that the training has come to its end. */
PCH_API void pch_done(pch_t *job);
/* Detaches: from now on only the exit code of the command tells how the process ended. exit and the
 * return from main detach, too, and report the exit status. Any other end (_exit, a signal, a lost
 * connection) and any status other than 0 never counts as a success. */
PCH_API void pch_close(pch_t *job);

#ifdef __cplusplus
}
#endif

#endif
