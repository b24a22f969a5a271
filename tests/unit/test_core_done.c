/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_done: walks of ranks that are done, and whose processes stay: what the log says of
 * them, and when.
 */
#include "walk.h"

TestSuite(core_done, .fini = walks_end);

static void say_done(struct walk *w, int slot)
{
    says(w, slot, (struct procmsg){.type = PROCMSG_DONE, .step = 4});
}

static struct core_params params_done(int ranks, enum watchdog_mode mode, int64_t end_ns)
{
    struct core_params p = params_of(0, 1, ranks);
    p.watchdog.mode = mode;
    p.watchdog.end_ns = end_ns;
    p.watchdog.factor = 1;
    return p;
}

static struct walk *begin_by(const struct core_params *p)
{
    struct walk *w = begin_ranks(p);
    for (int slot = 0; slot < p->children; slot++)
        say_done(w, slot);
    return w;
}

static struct walk *begin_done(int ranks, enum watchdog_mode mode, int64_t end_ns)
{
    struct core_params p = params_done(ranks, mode, end_ns);
    return begin_by(&p);
}

/* Time passes until the core has said something of those who stay. */
static int64_t waits_for_word(struct walk *w)
{
    int64_t since = now;
    while (!strstr(w->log, "every rank is done") && now - since < 60 * S) {
        wake(w);
        if (strstr(w->acts, "read"))
            steps_are_read(w);
        w->acts[0] = '\0';
    }
    return now - since;
}

/* A teardown hung for ten minutes, and the log was silent until they were over. */
Test(core_done, a_process_that_stays_is_named_in_seconds)
{
    struct walk *w = begin_done(2, WATCHDOG_ON, 600 * S);
    closes(w, 0);
    exited(w, 0, 0);
    cr_assert_eq(waits_for_word(w), 10 * S);
    assert_said(
        w, "every rank is done: the training is complete; waits up to 10m (watchdog.end) "
           "for process 1001 of rank 1 to end; then pchrun ends what is left, and exits with 0\n");
    w->log[0] = '\0';
    passes(w, 30 * S);
    assert_not_said(w, "every rank is done");
    closes(w, 1);
    exited(w, 1, 0);
    tree_empty(w);
    assert_did(w, "exit 0 completed");
}

/* A step that was read after the last STATUS moved the limit during the examination. A second one
 * began, and the evidence of the first was lost. */
Test(core_done, those_who_stay_are_examined_once)
{
    struct walk *w = begin_done(1, WATCHDOG_ON, 5 * S);
    now += 100 * MS;
    steps[0] = 4;
    steps_are_read(w);
    w->acts[0] = '\0';
    passes(w, 4900 * MS);
    assert_acts(w, "examine");
    passes(w, 200 * MS);
    assert_did_not(w, "examine");
    feed(w, (struct event){.type = EV_EXAMINED, .examined = {.number = 1}});
    steps_are_read(w);
    assert_said(w, "every rank is done, but not every process has ended within 5s: pchrun ends");
    assert_did_not(w, "examine");
}

static void passes_in_seconds(struct walk *w, int64_t seconds)
{
    for (; seconds > 0; seconds--) {
        passes(w, S);
        if (strstr(w->acts, "read"))
            steps_are_read(w);
    }
}

/* A user waited ten minutes to see where a teardown hung. */
Test(core_done, those_who_stay_are_examined_after_a_minute_too)
{
    struct walk *w = begin_done(1, WATCHDOG_ON, 600 * S);
    passes_in_seconds(w, 59);
    assert_did_not(w, "examine");
    passes_in_seconds(w, 1);
    assert_did(w, "examine");
    assert_said(w, "no process of the job has ended for 1m: looks at what process 1000 of rank 0 "
                   "does\n");
    feed(w, (struct event){.type = EV_EXAMINED, .examined = {.number = 1}});
    w->acts[0] = '\0';
    passes_in_seconds(w, 539);
    assert_did_not(w, "examine");
    assert_not_said(w, "not every process has ended");
    passes_in_seconds(w, 1);
    assert_did(w, "examine");
    assert_said(w, "every rank is done, but not every process has ended within 10m\n");
}

/* The limit brings the evidence in time. */
Test(core_done, a_short_limit_has_one_examination)
{
    struct walk *w = begin_done(1, WATCHDOG_ON, 120 * S);
    passes_in_seconds(w, 119);
    assert_did_not(w, "examine");
    assert_not_said(w, "looks at what");
}

Test(core_done, without_a_limit_those_who_stay_are_examined_once)
{
    struct walk *w = begin_done(1, WATCHDOG_ON, 0);
    passes_in_seconds(w, 60);
    assert_did(w, "examine");
    feed(w, (struct event){.type = EV_EXAMINED, .examined = {.number = 1}});
    w->acts[0] = '\0';
    passes_in_seconds(w, 700);
    assert_did_not(w, "examine");
}

Test(core_done, several_processes_that_stay)
{
    struct walk *w = begin_done(3, WATCHDOG_ON, 600 * S);
    waits_for_word(w);
    assert_said(w, "for process 1000 of rank 0, and those of 2 other ranks, to end");
}

Test(core_done, without_a_limit_none_is_promised)
{
    struct walk *w = begin_done(2, WATCHDOG_ON, 0);
    passes(w, 10 * S);
    assert_said(w, "every rank is done: the training is complete; waits for process 1000 of rank "
                   "0, and that of 1 other rank, to end\n");
    w = begin_done(1, WATCHDOG_LOG, 600 * S);
    passes(w, 10 * S);
    assert_said(w, "waits for process 1000 of rank 0 to end\n");
}

static struct walk *done_after(uint64_t resume_step, int code)
{
    struct core_params p = params_done(1, WATCHDOG_ON, 600 * S);
    p.resume_step = resume_step;
    p.exit.done_killed = code;
    struct walk *w = begin_by(&p);
    waits_for_word(w);
    return w;
}

/* A user who sees a job that does not end must know whether its training is safe, and how it ends.
 */
Test(core_done, the_log_says_what_is_committed)
{
    struct walk *w = done_after(4, 0);
    assert_said(w, "every rank is done: the training is complete, and step 4 is committed; waits");
    w = done_after(3, 9);
    assert_said(w, "the training is complete, and step 3 of 4 is committed; waits up to 10m");
    assert_said(w, "to end; then pchrun ends what is left, and exits with 9\n");
}

Test(core_done, a_process_that_ends_soon_is_not_named)
{
    struct walk *w = begin_done(1, WATCHDOG_ON, 600 * S);
    passes(w, 9 * S);
    closes(w, 0);
    ends(w, 0);
    assert_did(w, "exit 0 completed");
    assert_not_said(w, "every rank is done");
}

/* The notice's own deadline ends the wait. */
Test(core_done, near_a_notice_none_is_named)
{
    struct walk *w = begin_done(1, WATCHDOG_ON, 600 * S);
    terminated(w);
    passes(w, 12 * S);
    assert_not_said(w, "waits up to");
}

/* A rank that trains on may call the others back. */
Test(core_done, the_time_counts_from_the_last_rank)
{
    struct core_params p = params_of(0, 1, 2);
    struct walk *w = begin_ranks(&p);
    say_done(w, 0);
    passes(w, 30 * S);
    say_done(w, 1);
    passes(w, 9 * S);
    assert_not_said(w, "every rank is done");
    passes(w, S);
    assert_said(w, "the training is complete; waits for process 1000 of rank 0");
}

Test(core_done, the_process_of_another_node)
{
    begin_two();
    for (int i = 0; i < WALK_NODES; i++)
        say_done(&walks[i], 0);
    deliver();
    closes(&walks[0], 0);
    exited(&walks[0], 0, 0);
    passes(&walks[0], 10 * S);
    assert_said(&walks[0], "the training is complete; waits for process 1000 of rank 1 on node 1 "
                           "to end\n");
    lose_letters();
}
