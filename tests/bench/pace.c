/* SPDX-License-Identifier: Apache-2.0
 *
 * pace: preloaded into a training process, measures what the calls of libpch cost. At the end it
 * writes one line to the file PACE with the process number appended: nanoseconds in pch_step(),
 * nanoseconds of a whole step, and the number of steps that ended after the order to save.
 */
#include "bench/bench.h"

#include <dlfcn.h>
#include <pch.h>
#include <stdbool.h>
#include <unistd.h>

static struct {
    enum pch_action (*step)(pch_t *, uint64_t);
    int64_t first_at, last_at, held, steps, steps_after;
    bool has_saved;
} pace;

/* A step lasts from one call to the next; the round's save is not a step. */
enum pch_action pch_step(pch_t *job, uint64_t finished)
{
    if (!pace.step)
        *(void **)&pace.step = dlsym(RTLD_NEXT, "pch_step");
    int64_t from = bench_now();
    if (pace.first_at == 0)
        pace.first_at = from;
    enum pch_action action = pace.step(job, finished);
    int64_t to = bench_now();
    pace.held += to - from;
    if (pace.has_saved)
        pace.steps_after++;
    else
        pace.steps++;
    if (!pace.has_saved)
        pace.last_at = from;
    pace.has_saved = pace.has_saved || action == PCH_SAVE;
    return action;
}

static __attribute__((destructor)) void write_down(void)
{
    char path[4096];
    const char *name = getenv("PACE");
    if (!name || pace.steps < 2)
        return;
    snprintf(path, sizeof path, "%s.%d", name, (int)getpid());
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fprintf(file, "%" PRId64 " %" PRId64 " %" PRId64 "\n", pace.held,
            (pace.last_at - pace.first_at) / (pace.steps - 1), pace.steps_after);
    fclose(file);
}
