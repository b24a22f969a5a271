/* SPDX-License-Identifier: Apache-2.0
 *
 * grace: a rank of a job that grace.py preempts. Steps, saves and the end are sleeps.
 *
 *     bench-grace SEED STEP_MS MORE_MS SAVE_MS MORE_MS LATER_MS END_MS [BARRIER]
 *
 * A step takes STEP_MS and up to MORE_MS longer, by chance from the seed. So does a save. Each save
 * after the first takes LATER_MS longer. The two ranks that share the file BARRIER wait for each
 * other in every step. It prints a line for each step and each save: "step|saving|saved NUMBER
 * BEGUN ENDED", the times in nanoseconds of CLOCK_MONOTONIC. When pchrun asks it to leave, it ends
 * with 0 after END_MS.
 */
#include "bench/bench.h"

#include <pch.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>

struct shared {
    pthread_barrier_t barrier;
    int is_made;
};

static void rest(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (nanosleep(&left, &left) != 0)
        ;
}

static void tell(const char *what, uint64_t number, int64_t begun, int64_t ended)
{
    printf("%s %" PRIu64 " %" PRId64 " %" PRId64 "\n", what, number, begun, ended);
    fflush(stdout);
}

/* The first of the two ranks makes the barrier. */
static pthread_barrier_t *open_barrier(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) || ftruncate(fd, sizeof(struct shared)))
        bench_die("cannot open %s: %s", path, strerror(errno));
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        bench_die("cannot map %s: %s", path, strerror(errno));
    if (!shared->is_made) {
        pthread_barrierattr_t how;
        pthread_barrierattr_init(&how);
        pthread_barrierattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
        pthread_barrier_init(&shared->barrier, &how, 2);
        shared->is_made = 1;
    }
    flock(fd, LOCK_UN); /* the mapping keeps the file open */
    close(fd);
    return &shared->barrier;
}

int main(int argc, char **argv)
{
    if (argc < 8)
        bench_die("usage: grace SEED STEP_MS MORE_MS SAVE_MS MORE_MS LATER_MS END_MS [BARRIER]");
    int64_t ns[8];
    for (int i = 1; i < 8; i++)
        ns[i] = atoll(argv[i]) * 1000000;
    unsigned seed = (unsigned)atoi(argv[1]);
    int64_t later_ns = 0;
    pthread_barrier_t *barrier = argc > 8 ? open_barrier(argv[8]) : NULL;
    pch_t *job = pch_open(NULL);
    enum pch_action next = PCH_CONTINUE;
    for (uint64_t step = pch_resume_step(job) + 1; next != PCH_EXIT; step++) {
        int64_t begun = bench_now();
        rest(ns[2] + ns[3] * (rand_r(&seed) % 1001) / 1000);
        if (barrier)
            pthread_barrier_wait(barrier);
        tell("step", step, begun, bench_now());
        next = pch_step(job, step);
        if (next != PCH_SAVE)
            continue;
        begun = bench_now();
        tell("saving", step, begun, begun);
        rest(ns[4] + ns[5] * (rand_r(&seed) % 1001) / 1000 + later_ns);
        later_ns = ns[6];
        int64_t ended = bench_now();
        next = pch_saved(job, step, "/dev/null");
        tell("saved", step, begun, ended);
    }
    pch_close(job);
    rest(ns[7]);
    return 0;
}
