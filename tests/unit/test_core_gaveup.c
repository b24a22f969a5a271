/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_gaveup: walks of ranks that give up their wait for another rank, as PyTorch's process
 * groups make them do. The job has hung, and the rank that did not give up is named.
 */
#include "walk.h"

#include <string.h>

TestSuite(core_gaveup, .fini = walks_end);

#define GAVE_UP "Timed out waiting 60000ms for recv operation to complete"

static struct core_params watched(int children)
{
    struct core_params p = params_of(0, 1, children);
    p.watchdog = (struct watchdog_plan){.mode = WATCHDOG_ON, .evidence_ns = 5 * S, .factor = 5};
    for (int i = 0; i < PAGE_PHASES; i++)
        p.watchdog.limit_ns[i] = 1800 * S;
    return p;
}

/* Two ranks at step 3, whose collectives give up after a minute. */
static struct walk *begin_training(struct core_params p)
{
    struct walk *w = begin_ranks(&p);
    for (int slot = 0; slot < p.children; slot++) {
        steps[slot] = 3;
        says(w, slot, (struct procmsg){.type = PROCMSG_TIMEOUT, .number = 60000});
    }
    steps_are_read(w);
    w->acts[0] = '\0';
    return w;
}

/* No rank moves for so long. */
static void stands_for(struct walk *w, int64_t time)
{
    for (int64_t until = now + time; now < until;) {
        passes(w, S);
        steps_are_read(w);
    }
    w->acts[0] = '\0';
}

/* The node wakes whenever it wants to, and nothing else happens. */
static void wakes_for(struct walk *w, int64_t time)
{
    int64_t until = now + time;
    while (core_wake_at(w->core) <= until)
        wake(w);
    now = until;
}

static void complains(struct walk *w, int slot, const char *text)
{
    struct procmsg msg = {.type = PROCMSG_ERROR, .number = 1};
    strcpy(msg.text, text);
    says(w, slot, msg);
}

static void examined(struct walk *w, uint32_t number)
{
    feed(w, (struct event){.type = EV_EXAMINED, .examined = {.number = number}});
    steps_are_read(w);
}

static void fails(struct walk *w, int slot, int status)
{
    gone(w, slot);
    exited(w, slot, status);
}

/* The ranks are examined while the one that is behind still lives, and the end waits for that. */
Test(core_gaveup, is_a_hang_of_the_rank_that_did_not)
{
    struct walk *w = begin_training(watched(2));
    stands_for(w, 61 * S);
    complains(w, 0, GAVE_UP);
    assert_did(w, "examine");
    fails(w, 0, 1 << 8);
    assert_did_not(w, "SIGTERM");
    examined(w, 1);
    assert_did(w, "gate leave; SIGTERM to tree");
    fails(w, 1, SIGTERM);
    tree_empty(w);
    assert_did(w, "exit 42 hang");
    assert_said(w, "end: rank 1 (process 1001 on node 0");
    assert_said(w, "is behind: it has stood at step 3 for");
    cr_assert_eq(report_of(w).first_cause.rank, 0);
}

/* Of several that waited one gives up later. It is not taken for the one that they waited for. */
Test(core_gaveup, one_after_the_other)
{
    struct walk *w = begin_training(watched(3));
    stands_for(w, 61 * S);
    complains(w, 2, GAVE_UP);
    fails(w, 2, 1 << 8);
    examined(w, 1);
    assert_did_not(w, "SIGTERM");
    passes(w, S);
    complains(w, 0, GAVE_UP);
    assert_did_not(w, "SIGTERM"); /* rank 0 still writes what it keeps of its failure */
    passes(w, 2900 * NS_PER_MS);
    steps_are_read(w);
    assert_did_not(w, "SIGTERM");
    passes(w, S);
    steps_are_read(w);
    assert_did(w, "SIGTERM");
    assert_said(w, "ending: hang: rank 1 ");
}

/* Each of many gives the others more time, but not for ever. */
Test(core_gaveup, one_after_the_other_for_long)
{
    struct walk *w = begin_training(watched(20));
    stands_for(w, 61 * S);
    complains(w, 0, GAVE_UP);
    fails(w, 0, 1 << 8);
    examined(w, 1);
    int64_t since = now;
    for (int slot = 1; !strstr(w->acts, "SIGTERM") && slot < 19; slot++) {
        complains(w, slot, GAVE_UP);
        passes(w, 2 * S);
        steps_are_read(w);
    }
    cr_assert(now >= since + 30 * S && now <= since + 32 * S, "after %d s",
              (int)((now - since) / S));
}

/* If no other gives up, the end comes all the same; and if the examination does not end. */
Test(core_gaveup, and_nothing_else_happens)
{
    struct walk *w = begin_training(watched(3));
    complains(w, 2, GAVE_UP);
    fails(w, 2, 1 << 8);
    int64_t since = now;
    while (!strstr(w->acts, "SIGTERM") && now < since + 60 * S)
        wake(w);
    assert_said(w, "ending: hang: rank 0 ");
    assert_said(w, "as another rank does; node 0: rank 2, process 1002");
    cr_assert_leq(now, since + 11 * S);
}

/* Ranks that wait for each other all give up. If none of them ends, the limit of a step ends the
 * job, and no rank is called behind. */
Test(core_gaveup, all_of_them_and_none_ends)
{
    struct walk *w = begin_training(watched(2));
    int64_t since = now;
    stands_for(w, 61 * S);
    complains(w, 0, GAVE_UP);
    complains(w, 1, GAVE_UP);
    examined(w, 1);
    while (!strstr(w->acts, "SIGTERM") && now < since + 3600 * S)
        steps_are_read(w), wake(w);
    cr_assert(now >= since + 1800 * S && now <= since + 1801 * S, "after %d s",
              (int)((now - since) / S));
    assert_said(
        w, "ending: hang: ranks gave up their wait for other ranks and have not ended; no rank");
}

/* A user has set no limit for a step. */
Test(core_gaveup, all_of_them_without_a_limit)
{
    struct core_params p = watched(2);
    p.watchdog.limit_ns[PAGE_TRAIN] = 0;
    struct walk *w = begin_training(p);
    complains(w, 0, GAVE_UP);
    complains(w, 1, GAVE_UP);
    examined(w, 1);
    stands_for(w, 3600 * S);
    assert_did_not(w, "SIGTERM");
}

/* They go on after all. */
Test(core_gaveup, all_of_them_for_a_while)
{
    struct walk *w = begin_training(watched(2));
    complains(w, 0, GAVE_UP);
    complains(w, 1, GAVE_UP);
    examined(w, 1);
    stands_for(w, 1700 * S);
    steps[0] = steps[1] = 4;
    stands_for(w, 1700 * S);
    assert_did_not(w, "SIGTERM");
}

/* NCCL's watchdog aborts the process, which says so only on standard error. */
Test(core_gaveup, by_an_abort_after_its_time)
{
    struct walk *w = begin_training(watched(2));
    stands_for(w, 61 * S);
    fails(w, 0, SIGABRT);
    examined(w, 1);
    assert_did(w, "SIGTERM");
    assert_said(w, "ending: hang: rank 1 ");
    assert_said(w, "process 1000 ended with signal 6 (Aborted): it had waited for other ranks");
}

/* A second rank aborts, and takes long to end. Node 0 counts it from its death on. */
/* Its save ended in the background meanwhile. The rank has stood all the same. */
Test(core_gaveup, by_an_abort_behind_a_background_save)
{
    struct walk *w = begin_training(watched(2));
    stands_for(w, 30 * S);
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 2, .text = "/two"});
    stands_for(w, 31 * S);
    fails(w, 0, SIGABRT);
    examined(w, 1);
    assert_said(w, "process 1000 ended with signal 6 (Aborted): it had waited for other ranks");
    assert_said(w, "ending: hang: rank 1 ");
}

Test(core_gaveup, by_two_aborts)
{
    struct walk *w = begin_training(watched(3));
    steps[0] = steps[2] = 4;
    stands_for(w, 61 * S);
    dying(w, 0, SIGABRT);
    wakes_for(w, 9 * S);
    dying(w, 2, SIGABRT);
    wakes_for(w, 2 * S); /* the examination has had its time */
    assert_did_not(w, "SIGTERM");
    wakes_for(w, S);
    assert_did(w, "SIGTERM");
    assert_said(w, "ending: hang: rank 1 ");
}

Test(core_gaveup, an_abort_before_its_time_is_a_failure)
{
    struct walk *w = begin_training(watched(2));
    stands_for(w, 30 * S);
    fails(w, 0, SIGABRT);
    assert_did(w, "SIGTERM");
    assert_said(w, "ending: failed: node 0: rank 0");
}

Test(core_gaveup, a_failure_with_another_reason_is_a_failure)
{
    struct walk *w = begin_training(watched(2));
    stands_for(w, 61 * S);
    complains(w, 0, "ValueError: no such step");
    fails(w, 0, 1 << 8);
    assert_did(w, "SIGTERM");
    assert_did_not(w, "examine");
    assert_said(w, "ending: failed: node 0: rank 0");
}

/* A rank had failed, and took long to end. The others gave up meanwhile. */
Test(core_gaveup, because_a_rank_had_failed)
{
    struct walk *w = begin_training(watched(2));
    complains(w, 1, "ValueError: no such step");
    stands_for(w, 61 * S);
    complains(w, 0, GAVE_UP);
    fails(w, 0, 1 << 8);
    examined(w, 1);
    fails(w, 1, SIGTERM);
    tree_empty(w);
    assert_did(w, "exit 1 failed");
    assert_said(w, "end: node 0: rank 1, process 1001 had failed: ValueError: no such step");
}

Test(core_gaveup, near_a_notice_is_a_preemption)
{
    struct walk *w = begin_training(watched(2));
    terminated(w);
    complains(w, 0, GAVE_UP);
    fails(w, 0, 1 << 8);
    assert_did(w, "SIGTERM");
    assert_said(w, "ending: preempted_unsaved");
}

Test(core_gaveup, restarts_in_place)
{
    struct core_params p = watched(2);
    p.restart.max = 1;
    struct walk *w = begin_training(p);
    complains(w, 0, GAVE_UP);
    fails(w, 0, 1 << 8);
    steps_are_read(w);
    examined(w, 1);
    assert_said(w, "restart: rank 1 (process 1001");
    assert_said(w, "restarting in place");
}

/* A moment before the collectives give up, the ranks are examined. They give up by themselves. */
Test(core_gaveup, is_foreseen)
{
    struct core_params p = watched(2);
    p.watchdog.follows_timeout = true;
    struct walk *w = begin_training(p);
    int64_t since = now;
    while (!strstr(w->acts, "examine") && now < since + 100 * S)
        steps_are_read(w), wake(w);
    cr_assert(now >= since + 48 * S && now < since + 58 * S, "after %d s",
              (int)((now - since) / S));
    examined(w, 1);
    complains(w, 1, GAVE_UP);
    fails(w, 1, 1 << 8);
    assert_said(w, "ending: hang: rank 0 ");
}

/* After the examination a rank fails for another reason. That is no hang. */
Test(core_gaveup, is_foreseen_and_a_rank_fails)
{
    struct core_params p = watched(2);
    p.watchdog.follows_timeout = true;
    struct walk *w = begin_training(p);
    stands_for(w, 49 * S);
    assert_said(w, "no rank makes progress");
    examined(w, 1);
    complains(w, 1, "ValueError: no such step");
    fails(w, 1, 1 << 8);
    assert_said(w, "ending: failed: node 0: rank 1");
}

/* None has given up by then: no rank is known to be the one that the other waits for. */
Test(core_gaveup, does_not_come)
{
    struct core_params p = watched(2);
    p.watchdog.follows_timeout = true;
    struct walk *w = begin_training(p);
    int64_t since = now;
    for (uint32_t n = 1; !strstr(w->acts, "SIGTERM") && now < since + 200 * S;) {
        steps_are_read(w);
        wake(w);
        if (strstr(w->acts, "examine") && n == 1)
            examined(w, n++);
    }
    cr_assert(now >= since + 72 * S && now <= since + 80 * S, "after %d s",
              (int)((now - since) / S));
    assert_said(w, "ending: hang: rank 0 ");
    assert_said(w, "as another rank does");
}

/* A user has set the limit: it stays. */
Test(core_gaveup, is_not_foreseen_with_a_limit_of_the_user_s)
{
    struct walk *w = begin_training(watched(2));
    int64_t since = now;
    while (now < since + 200 * S)
        steps_are_read(w), wake(w);
    assert_did_not(w, "examine");
}
