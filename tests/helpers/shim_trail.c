/* SPDX-License-Identifier: Apache-2.0
 *
 * shim_trail: each rank writes down when it trains, in the file SHIM_TRAIL: a line when it opens
 * the job, and one for each step and each save. A line is: rank, generation, pid, CLOCK_MONOTONIC
 * in nanoseconds, "open" or "step", and the step at which it resumes, or that it has finished. All
 * namespaces of a machine have the same clock.
 */
#include "shim.h"

#include "pch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <time.h>

static void write_line(const char *word, uint64_t step)
{
    const char *path = getenv("SHIM_TRAIL"), *rank = getenv("PCH_RANK");
    const char *generation = getenv("PCH_GENERATION");
    struct timespec now;
    char line[128];
    int fd = path && rank && generation
                 ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600)
                 : -1;
    if (fd < 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int n = snprintf(line, sizeof line, "%s %s %d %lld %s %" PRIu64 "\n", rank, generation,
                     getpid(), now.tv_sec * 1000000000LL + now.tv_nsec, word, step);
    if (write(fd, line, (size_t)n) != n)
        fprintf(stderr, "shim_trail: cannot write to %s: %m\n", path);
    close(fd);
}

SHIM_API pch_t *pch_open(const struct pch_options *options)
{
    pch_t *job = SHIM_NEXT(pch_open)(options);
    write_line("open", pch_resume_step(job));
    return job;
}

SHIM_API enum pch_action pch_step(pch_t *job, uint64_t finished)
{
    write_line("step", finished);
    return SHIM_NEXT(pch_step)(job, finished);
}

SHIM_API enum pch_action pch_saved(pch_t *job, uint64_t step, const char *path)
{
    write_line("step", step);
    return SHIM_NEXT(pch_saved)(job, step, path);
}
