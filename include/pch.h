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
 * Without a supervisor every call is a no-op, so a program needs no second code path. Threads:
 * pch_step, pch_saved and pch_close belong to one thread, the training thread; every other call may
 * come from any.
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

/* What the training loop does next. */
enum pch_action {
    PCH_CONTINUE = 0, /* go on with the next step */
    PCH_SAVE = 1,     /* save this step now, on every rank, then call pch_saved or pch_durable */
    PCH_EXIT = 2 /* leave the loop and end: the job will be started again, or is being stopped */
};

enum pch_phase { PCH_START, PCH_TRAIN, PCH_EVAL, PCH_COMPILE, PCH_IN_SAVE };

/* pch_options.flags */
#define PCH_NO_SHIELD 1U /* do not catch SIGTERM, nor other signals that are notices */
#define PCH_NO_SAVE   2U /* only tell the steps, to the watchdog and to people; implies the above */

/* Set size to sizeof(struct pch_options), ranks and sizes to -1 where they are to be found out
 * (PCH_OPTIONS_INIT does that). */
struct pch_options {
    size_t size;
    int rank, local_rank, world_size, local_world_size;
    uint64_t first_step; /* the step this process starts from, 0: pch_resume_step() */
    uint64_t stride;     /* steps between two calls of pch_step, 0 or 1: every step */
    uint64_t last_step;  /* the training ends after it, 0: unknown */
    unsigned flags;
};
#define PCH_OPTIONS_INIT                                       \
    {                                                          \
        sizeof(struct pch_options), -1, -1, -1, -1, 0, 0, 0, 0 \
    }

/* Attaches to the supervisor named by PCH_SOCKET. Never NULL: without a supervisor (or when it
 * refuses, which is said on standard error) all calls on it are no-ops. Opening twice gives the
 * same. A fork is not attached, but may attach by calling it. `options` may be NULL. */
PCH_API pch_t *pch_open(const struct pch_options *options);
/* Is there a supervisor? */
PCH_API int pch_supervised(const pch_t *job);
/* The last committed step, 0 if none: train from there. */
PCH_API uint64_t pch_resume_step(const pch_t *job);
/* What this rank (or the one rank that saves for all) passed to pch_saved at that step; NULL if
 * none. Lives as long as the job. */
PCH_API const char *pch_resume_path(const pch_t *job);
/* An empty directory of this rank's own, made at the first call, and another one at the first call
 * after a commit; removed after the commit, at exit, and at the next start. NULL where none can be
 * had. The text lives as long as the job. */
PCH_API const char *pch_scratch_dir(pch_t *job);

/* `finished` steps are done. The fast path is a store and a load; it waits only while a save is
 * being agreed on, and never longer than the round's deadline. */
PCH_API enum pch_action pch_step(pch_t *job, uint64_t finished);
/* The save at `step` is durable. Waits until it is committed on every rank, or given up. `path` may
 * be NULL where another rank saves for this one. A relative path is made absolute. If there is
 * nothing at the path, the save has failed; a URL is not looked for. Saves that the program does by
 * itself go through here, too. */
PCH_API enum pch_action pch_saved(pch_t *job, uint64_t step, const char *path);
/* The same for a save that finished in the background. Never waits; in a round that ends the run
 * the next pch_step waits instead. */
PCH_API void pch_durable(pch_t *job, uint64_t step, const char *path);
PCH_API void pch_save_failed(pch_t *job, uint64_t step, const char *why);

/* What the process is doing from now on: how long it may take without a step depends on it, see
 * HANGS in pchrun(1). pch_step sets PCH_TRAIN by itself. */
PCH_API void pch_phase(pch_t *job, enum pch_phase phase);
/* Copies the live notice's text, cut to `size`; returns its length, 0 if there is none. */
PCH_API size_t pch_notice(pch_t *job, char *text, size_t size);
/* "This is why I die": kept, and told as the cause if the process fails; its own exit code counts,
 * and `code` where that is not known. Ends nothing. */
PCH_API void pch_error(pch_t *job, int code, const char *text);
/* Trained to the end. */
PCH_API void pch_done(pch_t *job);
/* Detaches: from here on the process is on its own, and the exit code of its command alone tells
 * how it ended. exit and the return from main do the same, and tell the exit status. A process that
 * ends without any of them (_exit, a signal, a lost connection), or with a status other than 0, is
 * never counted as a success. */
PCH_API void pch_close(pch_t *job);

#ifdef __cplusplus
}
#endif

#endif
