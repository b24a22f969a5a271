/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_health: the health check of a node: nothing starts before its answer, an unhealthy node
 * ends the job with a code of its own, and a stop by hand counts more.
 */
#include "base/str.h"
#include "walk.h"

#include <string.h>

#define ILL "gpu3: Xid 79"

TestSuite(core_health, .fini = walks_end);

static struct core_params checked(int node, int nnodes)
{
    struct core_params p = params_of(node, nnodes, 1);
    p.checks_health = true;
    str_copy(p.host, sizeof p.host, node ? "hostb" : "hosta");
    return p;
}

static void answers(struct walk *w, const char *illness)
{
    feed(w, (struct event){.type = EV_CHECKED, .illness = illness});
}

Test(core_health, the_start_waits_for_the_answer)
{
    struct core_params p = checked(0, 1);
    struct walk *w = walk_begin(&p);
    assert_acts(w, "check");
    passes(w, 3600 * S);
    assert_acts(w, "");
    answers(w, NULL);
    assert_acts(w, "start");
}

Test(core_health, an_unhealthy_node_starts_nothing)
{
    struct core_params p = checked(0, 1);
    struct walk *w = walk_begin(&p);
    assert_acts(w, "check");
    answers(w, ILL);
    assert_did(w, "exit 45 unhealthy");
    assert_did_not(w, "start");
    assert_said(w, "node 0: hosta is not healthy: " ILL "; start the job without this host");
}

/* One node checks its health, and both wait for it. The other has a code that starts it again. */
Test(core_health, one_of_two)
{
    for (int ill = 0; ill < WALK_NODES; ill++)
        for (int is_ill = 0; is_ill < 2; is_ill++) {
            lose_letters();
            for (int i = 0; i < WALK_NODES; i++) {
                struct core_params p = params_of(i, WALK_NODES, 1);
                if (i == ill)
                    p = checked(i, WALK_NODES);
                walk_begin(&p);
            }
            meet();
            assert_did_not(&walks[0], "start");
            assert_did_not(&walks[1], "start");
            answers(&walks[ill], is_ill ? ILL : NULL);
            deliver();
            if (!is_ill) {
                assert_both_did("start");
                continue;
            }
            assert_did(&walks[0], ill ? "strike hostb: " ILL : "strike hosta: " ILL);
            assert_did(&walks[ill], "exit 45 unhealthy");
            assert_did(&walks[1 - ill], "exit 42 unhealthy");
            assert_said(&walks[1 - ill], ill ? "node 1: hostb is not" : "node 0: hosta is not");
        }
}

/* Node 0 names the node whose check the start waits for. If the supervisor of that node is killed,
 * the node is not there yet. */
Test(core_health, the_node_that_checks_is_named)
{
    lose_letters();
    for (int i = 0; i < WALK_NODES; i++) {
        struct core_params p = checked(i, WALK_NODES);
        p.join_timeout_ns = 600 * S;
        walk_begin(&p);
    }
    meet();
    passes(&walks[0], 5 * S);
    assert_not_said(&walks[0], "checks its health");
    passes(&walks[0], 5 * S);
    assert_said(&walks[0], "node 0 (hosta) and one other node check their health, 10 s so far; ");
    answers(&walks[0], NULL);
    deliver();
    passes(&walks[0], 20 * S);
    assert_said(&walks[0], "node 1 (hostb) checks its health, 30 s so far");
    line_closes(&walks[0], true);
    assert_said(&walks[0], "node 1 (hostb): the connection is closed: ");
    assert_said(&walks[0], "; node 0 waits until it joins again");
    passes(&walks[0], 40 * S);
    assert_said(&walks[0], "still waiting for node 1 of 2, 70 s so far");
    assert_did_not(&walks[0], "start");
}

/* It cannot tell node 0, and does not wait for it for as long as a join may take. */
Test(core_health, without_node_0)
{
    struct core_params p = checked(1, 2);
    struct walk *w = walk_begin(&p);
    answers(w, ILL);
    int64_t at = now;
    while (!strstr(w->acts, "exit"))
        wake(w);
    assert_did(w, "exit 45 unhealthy");
    cr_assert_geq(now, at + p.tell_ns);
    cr_assert_leq(now, at + p.tell_ns + S);
}

Test(core_health, a_check_belongs_to_each_generation)
{
    for (int is_ill = 0; is_ill < 2; is_ill++) {
        struct core_params p = checked(0, 1);
        p.restart = (struct restart_policy){.max = 3, .start_max = 3, .startup_ns = S};
        struct walk *w = walk_begin(&p);
        answers(w, NULL);
        started(w, 0);
        w->acts[0] = '\0';
        ends(w, 1 << 8);
        steps_are_read(w);
        assert_did(w, "check");
        passes(w, 60 * S);
        assert_did_not(w, "start");
        answers(w, is_ill ? ILL : NULL);
        if (is_ill)
            assert_did(w, "exit 45 unhealthy");
        else
            assert_did(w, "start");
    }
}

/* A scheduler would start an unhealthy job again. A user who stops it does not want that. */
Test(core_health, a_stop_counts_more)
{
    struct core_params p = checked(0, 1);
    p.restart = (struct restart_policy){.max = 3, .start_max = 3, .startup_ns = S};
    struct walk *w = walk_begin(&p);
    answers(w, NULL);
    started(w, 0);
    ends(w, 1 << 8);
    steps_are_read(w);
    feed(w, (struct event){.type = EV_STOP_ASKED, .stop.why = "stopped by hand"});
    answers(w, ILL);
    assert_did(w, "exit 44 stopped");
}

/* The job has ended for another reason: the answer comes too late. */
Test(core_health, a_late_answer)
{
    struct core_params p = checked(0, 1);
    struct walk *w = walk_begin(&p);
    terminated(w);
    assert_did(w, "exit 42 preempted");
    answers(w, ILL);
    assert_did_not(w, "unhealthy");
}
