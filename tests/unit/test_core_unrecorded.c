/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_unrecorded: a job without a record that its scheduler starts again and again. Each
 * start begins at step 0, so the job must not start for ever. A program that resumes by itself
 * must.
 */
#include "walk.h"

#include "base/str.h"

TestSuite(core_unrecorded, .fini = walks_end);

/* The third start of a job without a record. */
static struct core_params params_of_third(void)
{
    struct core_params p = params_of(0, 1, 1);
    p.attempt = 3;
    p.attempts_without_commit = 2;
    p.no_progress_limit = 3;
    return p;
}

/* A process attaches and is at `step` when SIGTERM comes. */
static struct walk *preempt(const struct core_params *p, uint64_t from, uint64_t step,
                            uint32_t flags)
{
    struct walk *w = begin_started(p);
    attaches_alone(w, (struct procmsg){.flags = flags, .step = from, .first_step = from});
    steps[0] = step;
    terminated(w);
    return w;
}

/* The last save, which no record names. */
static void save(struct walk *w, uint64_t step)
{
    steps_are_read(w);
    steps[0] = step;
    serves(w, 0, step, 1);
    saves_and_waits(w, 0, step, 1);
    committed(w);
    closes(w, 0);
    exits(w, 0);
}

static void expect(const struct walk *w, const char *wanted, size_t i)
{
    cr_expect_not_null(strstr(w->acts, wanted), "%zu: \"%s\", not \"%s\"", i, w->acts, wanted);
}

Test(core_unrecorded, starts_that_begin_anew_are_no_progress)
{
    static const struct {
        int before, limit;
        uint64_t from, step;
        bool has_record;
        const char *wanted;
    } cases[] = {
        {2, 3, 0, 4, false, "exit 43 no_progress"},
        {1, 3, 0, 4, false, "exit 42 preempted"},
        {1, 2, 0, 4, false, "exit 43 no_progress"},
        {9, 0, 0, 4, false, "exit 42 preempted"},
        /* The scheduler does not count, or starts the job for the first time. */
        {0, 1, 0, 4, false, "exit 42 preempted"},
        /* A commit that a record names is progress. */
        {2, 3, 0, 4, true, "exit 42 preempted"},
        /* The program resumes by itself, or quickly passes its first steps: that is unknown. */
        {2, 3, 0, 100, false, "exit 43 no_progress"},
        {2, 3, 0, 101, false, "exit 42 preempted"},
        {2, 3, 40, 41, false, "exit 42 preempted"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct core_params p = params_of_third();
        p.attempts_without_commit = cases[i].before;
        p.no_progress_limit = cases[i].limit;
        p.has_record = cases[i].has_record;
        struct walk *w = preempt(&p, cases[i].from, cases[i].step, 0);
        save(w, cases[i].step + 1);
        expect(w, cases[i].wanted, i);
    }
}

Test(core_unrecorded, the_end_says_what_to_do)
{
    struct core_params p = params_of_third();
    struct walk *w = preempt(&p, 0, 4, 0);
    save(w, 5);
    assert_said(w, "end: 3 starts of this job, the last at the first step again: no record exists, "
                   "and --checkpoint-dir DIR keeps the progress (if the program resumes by itself, "
                   "set exit.no_progress_after to 0); the last: saved without a record");
}

/* Without a save the count is the same. If the first steps were not seen, nothing is counted. */
Test(core_unrecorded, ends_without_a_save_count_too)
{
    static const struct {
        uint64_t step;
        const char *wanted;
    } cases[] = {{4, "exit 43 no_progress"}, {4000, "exit 42 preempted_unsaved"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct core_params p = params_of_third();
        struct walk *w = preempt(&p, 0, cases[i].step, 0);
        steps_are_read(w);
        closes(w, 0);
        exits(w, 0);
        expect(w, cases[i].wanted, i);
    }
}

/* Without a watchdog the steps of a node alone are read only for this, until there is a first one.
 * The notice comes long after it. */
Test(core_unrecorded, the_first_steps_are_looked_for)
{
    struct core_params p = params_of_third();
    struct walk *w = begin_ranks(&p);
    assert_acts(w, "0: WELCOME; read");
    steps_are_read(w);
    while (!strstr(w->acts, "read"))
        wake(w);
    steps[0] = 7;
    steps_are_read(w);
    w->acts[0] = '\0';
    passes(w, 10 * S);
    assert_acts(w, "");
    steps[0] = 5000;
    terminated(w);
    save(w, 5001);
    assert_did(w, "exit 43 no_progress");
}

/* Where the scheduler does not count, the first steps are not needed. */
Test(core_unrecorded, other_first_steps_are_not_looked_for)
{
    struct core_params p = params_of_third();
    p.has_record = true;
    assert_acts(begin_ranks(&p), "0: WELCOME");
    p = params_of_third();
    p.attempts_without_commit = 0;
    assert_acts(begin_ranks(&p), "0: WELCOME");
    p = params_of_third();
    p.save_mode = SAVE_SIGNAL; /* the ranks take no part in saves */
    assert_acts(begin_ranks(&p), "0: WELCOME");
}

/* The program has failed: its own exit code tells the scheduler. */
Test(core_unrecorded, a_failure_stays_a_failure)
{
    struct core_params p = params_of_third();
    struct walk *w = begin_ranks(&p);
    steps[0] = 7;
    steps_are_read(w);
    gone(w, 0);
    exits(w, 1 << 8);
    assert_did(w, "exit 1 failed");
}

/* A process that only counts its steps takes no part in saves. */
Test(core_unrecorded, a_process_that_only_counts_does_not_count)
{
    struct core_params p = params_of_third();
    struct walk *w = preempt(&p, 0, 7, PROCMSG_FLAG_COUNTS);
    gone(w, 0);
    exits(w, 0);
    assert_did(w, "exit 42 preempted_unknown");
}
