/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_returned: ranks that end with 0 while a notice holds, and do not say pch_done. Was
 * their training over, or did they leave it for the notice?
 */
#include "walk.h"

#include "unit.h"

#include "base/str.h"

#include <signal.h>
#include <string.h>

/* A notice that leaves much time, of which no process is told. */
static void cloud_says(struct walk *w)
{
    noticed(w, "cloud", 600 * S);
    steps_are_read(w);
}

struct attaching {
    bool is_shielded;
    uint64_t last_step;
};

/* A node of one command, whose rank has finished step 4. */
static struct walk *begin(const struct attaching *how)
{
    struct core_params p = params_of(0, 1, 1);
    p.trains_on = true;
    struct walk *w = walk_begin(&p);
    started(w, 0);
    says(w, 0,
         (struct procmsg){.type = PROCMSG_ATTACH,
                          .rank = 0,
                          .local_rank = 0,
                          .world_size = 1,
                          .local_world_size = 1,
                          .stride = 1,
                          .last_step = how->last_step,
                          .flags = how->is_shielded ? PROCMSG_FLAG_SHIELD : 0});
    steps[0] = 4;
    return w;
}

/* The first save of the notice. */
static void save_agreed(struct walk *w)
{
    steps_are_read(w);
    assert_said(w, "every rank saves step 5");
    steps[0] = 5;
    says(w, 0, (struct procmsg){.type = PROCMSG_SERVING, .step = 5, .tag = 1});
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 5, .tag = 1, .wants_answer = true});
    written(w, EV_PREPARED);
    written(w, EV_COMMITTED);
}

/* It returns from main(), and its command ends with 0. */
static void returns(struct walk *w, uint64_t step)
{
    steps[0] = step;
    closes(w, 0);
    exited(w, 0, 0);
    tree_empty(w);
}

static void assert_ends(struct walk *w, const char *text)
{
    cr_assert_not_null(strstr(w->acts, text), "\"%s\" is not in: %s", text, w->acts);
    walk_end(w);
}

/* A watcher that tells of a limit hours ahead is no reason to train a finished job again. */
Test(core_returned, after_its_last_step)
{
    for (int shielded = 0; shielded < 2; shielded++) {
        struct walk *w = begin(&(struct attaching){.is_shielded = shielded});
        cloud_says(w);
        save_agreed(w);
        returns(w, 20);
        assert_ends(w, "exit 0 completed");
    }
}

/* A save was asked of it, and it has ended instead. */
Test(core_returned, before_the_step_of_the_round)
{
    struct walk *w = begin(&(struct attaching){.is_shielded = true});
    cloud_says(w);
    steps_are_read(w);
    assert_said(w, "every rank saves step 5");
    returns(w, 4);
    assert_ends(w, "exit 42 preempted_unsaved");
}

/* libpch keeps the signal from the program, which so ends by itself. */
Test(core_returned, after_a_signal_that_it_did_not_see)
{
    struct walk *w = begin(&(struct attaching){.is_shielded = true});
    terminated(w);
    save_agreed(w);
    returns(w, 20);
    assert_ends(w, "exit 0 completed");
}

/* The scheduler signals every process of the job, and this one has a handler that ends it. */
Test(core_returned, after_a_signal_that_it_may_have_caught)
{
    struct walk *w = begin(&(struct attaching){.is_shielded = false});
    terminated(w);
    save_agreed(w);
    returns(w, 20);
    assert_ends(w, "exit 42 preempted_unsaved");
}

Test(core_returned, before_the_last_step_that_it_has_told)
{
    static const struct {
        uint64_t step;
        const char *outcome;
    } cases[] = {{20, "exit 42 preempted_unsaved"}, {100, "exit 0 completed"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct walk *w = begin(&(struct attaching){.is_shielded = true, .last_step = 100});
        cloud_says(w);
        save_agreed(w);
        returns(w, cases[i].step);
        assert_ends(w, cases[i].outcome);
    }
}

/* It was asked for a save, and has ended in the midst of it. */
Test(core_returned, with_a_save_that_it_has_begun)
{
    struct walk *w = begin(&(struct attaching){.is_shielded = true});
    cloud_says(w);
    steps_are_read(w);
    says(w, 0, (struct procmsg){.type = PROCMSG_SERVING, .step = 5, .tag = 1});
    returns(w, 5);
    assert_ends(w, "exit 42 preempted_unsaved");
}

Test(core_returned, with_a_save_that_it_has_made)
{
    struct walk *w = begin(&(struct attaching){.is_shielded = true});
    cloud_says(w);
    steps_are_read(w);
    says(w, 0, (struct procmsg){.type = PROCMSG_SERVING, .step = 5, .tag = 1});
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 5, .tag = 1});
    returns(w, 7);
    written(w, EV_PREPARED);
    written(w, EV_COMMITTED);
    assert_ends(w, "exit 0 completed");
}

/* The last save of the run is committed after the training has ended: there is nothing left to do.
 */
Test(core_returned, done_before_its_last_save_is_committed)
{
    struct core_params p = params_of(0, 1, 1);
    struct walk *w = walk_begin(&p);
    started(w, 0);
    attaches(w, 0, 0, 1);
    steps[0] = 4;
    terminated(w);
    steps_are_read(w);
    says(w, 0, (struct procmsg){.type = PROCMSG_SERVING, .step = 5, .tag = 1});
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 5, .tag = 1});
    says(w, 0, (struct procmsg){.type = PROCMSG_DONE, .step = 5});
    returns(w, 5);
    written(w, EV_PREPARED);
    written(w, EV_COMMITTED);
    assert_ends(w, "exit 0 completed");
}

/* One rank has not made the last save, but both have trained to their end. */
Test(core_returned, done_without_the_last_save)
{
    struct core_params p = params_of(0, 1, 2);
    struct walk *w = walk_begin(&p);
    for (int i = 0; i < 2; i++) {
        started(w, i);
        attaches(w, i, i, 2);
        steps[i] = 4;
    }
    terminated(w);
    steps_are_read(w);
    assert_said(w, "every rank saves step 5, then leaves");
    says(w, 0, (struct procmsg){.type = PROCMSG_SAVED, .step = 5, .tag = 1});
    for (int i = 0; i < 2; i++) {
        says(w, i, (struct procmsg){.type = PROCMSG_DONE, .step = 5});
        closes(w, i);
        exited(w, i, 0);
    }
    tree_empty(w);
    assert_said(w, "a rank ended without saving the step");
    assert_ends(w, "exit 0 completed");
}

/* Processes that the command has left take their time to end. The deadline has nothing to end any
 * more. */
Test(core_returned, a_deadline_after_the_training)
{
    struct walk *w = begin(&(struct attaching){.is_shielded = true});
    cloud_says(w);
    save_agreed(w);
    steps[0] = 20;
    closes(w, 0);
    exited(w, 0, 0);
    passes(w, 700 * S);
    tree_empty(w);
    assert_ends(w, "exit 0 completed");
}

/* Nothing is known of the process that did not attach. */
Test(core_returned, beside_one_that_never_attached)
{
    struct core_params p = params_of(0, 1, 2);
    p.trains_on = true;
    struct walk *w = walk_begin(&p);
    for (int i = 0; i < 2; i++)
        started(w, i);
    attaches(w, 0, 0, 2);
    steps[0] = 4;
    cloud_says(w);
    exited(w, 1, 0);
    returns(w, 20);
    assert_ends(w, "exit 42 preempted_unsaved");
}

/* One of two ranks says pch_done, the other returns. */
Test(core_returned, beside_one_that_is_done)
{
    struct core_params p = params_of(0, 1, 2);
    struct walk *w = walk_begin(&p);
    for (int i = 0; i < 2; i++) {
        started(w, i);
        attaches(w, i, i, 2);
        steps[i] = 4;
    }
    says(w, 0, (struct procmsg){.type = PROCMSG_DONE, .step = 4});
    cloud_says(w);
    for (int i = 0; i < 2; i++) {
        closes(w, i);
        exited(w, i, 0);
    }
    tree_empty(w);
    assert_ends(w, "exit 0 completed");
}

/* A program that does not attach is signalled only when `grace` is left. This one ended earlier, so
 * it ended by itself. */
Test(core_returned, of_a_program_that_does_not_attach)
{
    static const enum save_mode modes[] = {SAVE_ATTACH, SAVE_SIGNAL};
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct core_params p = params_of(0, 1, 2);
        p.trains_on = true;
        p.save_mode = modes[i];
        struct walk *w = walk_begin(&p);
        for (int slot = 0; slot < 2; slot++)
            started(w, slot);
        cloud_says(w);
        for (int slot = 0; slot < 2; slot++)
            exited(w, slot, 0);
        tree_empty(w);
        assert_ends(w, "exit 0 completed");
    }
}

/* A signal leaves more time than the notice before it, so nothing is asked. But the scheduler may
 * have signalled the program, too. */
Test(core_returned, of_a_program_that_does_not_attach_after_a_signal)
{
    struct core_params p = params_of(0, 1, 1);
    p.trains_on = true;
    p.signals[SIGUSR1] = (struct signal_plan){.rule = SIGNAL_PREEMPT, .grace_ns = 900 * S};
    struct walk *w = walk_begin(&p);
    started(w, 0);
    cloud_says(w);
    signalled(w, SIGUSR1);
    exited(w, 0, 0);
    tree_empty(w);
    assert_ends(w, "exit 42 preempted_unsaved");
}
