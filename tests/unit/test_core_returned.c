/* SPDX-License-Identifier: Apache-2.0
 *
 * test_core_returned: ranks that end with 0 while a notice holds, and do not say pch_done. Was
 * their training over, or did they leave it for the notice?
 */
#include "walk.h"

#include "base/str.h"

TestSuite(core_returned, .fini = walks_end);

/* A notice that leaves much time, of which no process learns. */
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
    p.train_on = TRAIN_ON_ALWAYS;
    struct walk *w = begin_started(&p);
    attaches_alone(w, (struct procmsg){.last_step = how->last_step,
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
    serves(w, 0, 5, 1);
    saves_and_waits(w, 0, 5, 1);
    committed(w);
}

/* The rank returns from main(), and its command ends with 0. */
static void returns(struct walk *w, uint64_t step)
{
    steps[0] = step;
    closes(w, 0);
    exits(w, 0);
}

/* The rank has made the save of the notice, and has trained on. */
Test(core_returned, after_a_save)
{
    static const struct {
        struct attaching how;
        bool is_signalled;
        uint64_t step;
        const char *outcome;
    } cases[] = {
        /* A watcher that tells of a limit hours ahead is no reason to train a finished job again.
         */
        {{.is_shielded = false}, false, 20, "exit 0 completed"},
        {{.is_shielded = true}, false, 20, "exit 0 completed"},
        /* libpch keeps the signal from the program, which so ends by itself. */
        {{.is_shielded = true}, true, 20, "exit 0 completed"},
        /* The scheduler signals every process, and this one has a handler that ends it. */
        {{.is_shielded = false}, true, 20, "exit 42 preempted_unsaved"},
        /* The rank has told which step is its last. */
        {{.is_shielded = true, .last_step = 100}, false, 20, "exit 42 preempted_unsaved"},
        {{.is_shielded = true, .last_step = 100}, false, 100, "exit 0 completed"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct walk *w = begin(&cases[i].how);
        if (cases[i].is_signalled)
            terminated(w);
        else
            cloud_says(w);
        save_agreed(w);
        returns(w, cases[i].step);
        assert_did(w, cases[i].outcome);
    }
}

/* A save was asked of the rank, and it has ended instead. */
Test(core_returned, before_the_step_of_the_round)
{
    struct walk *w = begin(&(struct attaching){.is_shielded = true});
    cloud_says(w);
    steps_are_read(w);
    assert_said(w, "every rank saves step 5");
    returns(w, 4);
    assert_did(w, "exit 42 preempted_unsaved");
}

/* The rank was asked for a save, and has ended in the middle of it. */
Test(core_returned, with_a_save_that_it_has_begun)
{
    struct walk *w = begin(&(struct attaching){.is_shielded = true});
    cloud_says(w);
    steps_are_read(w);
    serves(w, 0, 5, 1);
    returns(w, 5);
    assert_did(w, "exit 42 preempted_unsaved");
}

Test(core_returned, with_a_save_that_it_has_made)
{
    struct walk *w = begin(&(struct attaching){.is_shielded = true});
    cloud_says(w);
    steps_are_read(w);
    serves(w, 0, 5, 1);
    saves(w, 0, 5, 1);
    returns(w, 7);
    committed(w);
    assert_did(w, "exit 0 completed");
}

/* The last save of the run is committed after the training has ended: there is nothing left to do.
 */
Test(core_returned, done_before_its_last_save_is_committed)
{
    struct walk *w = begin_attached(1);
    steps[0] = 4;
    terminated(w);
    steps_are_read(w);
    serves(w, 0, 5, 1);
    saves(w, 0, 5, 1);
    says(w, 0, (struct procmsg){.type = PROCMSG_DONE, .step = 5});
    returns(w, 5);
    committed(w);
    assert_did(w, "exit 0 completed");
}

/* One rank has not made the last save, but both have trained to their end. */
Test(core_returned, done_without_the_last_save)
{
    struct walk *w = begin_attached(2);
    steps[0] = steps[1] = 4;
    terminated(w);
    steps_are_read(w);
    assert_said(w, "every rank saves step 5, then leaves");
    saves(w, 0, 5, 1);
    for (int i = 0; i < 2; i++) {
        says(w, i, (struct procmsg){.type = PROCMSG_DONE, .step = 5});
        closes(w, i);
        exited(w, i, 0);
    }
    tree_empty(w);
    assert_said(w, "a rank ended without saving the step");
    assert_did(w, "exit 0 completed");
}

/* Both ranks come to the save step, and train on to their end: the program saves, and reports no
 * save. A training that ends before the step is another fault. */
Test(core_returned, done_without_a_report)
{
    for (uint64_t last = 4; last <= 9; last += 5) {
        struct walk *w = begin_attached(2);
        steps[0] = steps[1] = 4;
        terminated(w);
        steps_are_read(w);
        assert_said(w, "every rank saves step 5");
        for (int i = 0; i < 2; i++) {
            if (last > 5)
                serves(w, i, 5, 1);
            steps[i] = last;
            says(w, i, (struct procmsg){.type = PROCMSG_DONE, .step = last});
            closes(w, i);
            exited(w, i, 0);
        }
        tree_empty(w);
        if (last > 5)
            assert_said(w,
                        "step 5 is not saved, so it is not committed: no rank reported its save; "
                        "every rank has to call pch_saved (in Python: job.saved), without a "
                        "path if it writes nothing");
        else
            assert_said(w, "the training ended before the save step");
        assert_did(w, "exit 0 completed");
    }
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
    assert_did(w, "exit 0 completed");
}

/* Nothing is known of the process that did not attach. */
Test(core_returned, beside_one_that_never_attached)
{
    struct core_params p = params_of(0, 1, 2);
    p.train_on = TRAIN_ON_ALWAYS;
    struct walk *w = begin_started(&p);
    attaches(w, 0, 0, 2);
    steps[0] = 4;
    cloud_says(w);
    exited(w, 1, 0);
    returns(w, 20);
    assert_did(w, "exit 42 preempted_unsaved");
}

/* One of two ranks says pch_done, the other returns. */
Test(core_returned, beside_one_that_is_done)
{
    struct walk *w = begin_attached(2);
    steps[0] = steps[1] = 4;
    says(w, 0, (struct procmsg){.type = PROCMSG_DONE, .step = 4});
    cloud_says(w);
    for (int i = 0; i < 2; i++) {
        closes(w, i);
        exited(w, i, 0);
    }
    tree_empty(w);
    assert_did(w, "exit 0 completed");
}

/* A program that does not attach is signalled only when `grace` is left. This one ended earlier, so
 * it ended by itself. */
Test(core_returned, of_a_program_that_does_not_attach)
{
    static const enum save_mode modes[] = {SAVE_ATTACH, SAVE_SIGNAL};
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct core_params p = params_of(0, 1, 2);
        p.train_on = TRAIN_ON_ALWAYS;
        p.save_mode = modes[i];
        struct walk *w = begin_started(&p);
        cloud_says(w);
        for (int slot = 0; slot < 2; slot++)
            exited(w, slot, 0);
        tree_empty(w);
        assert_did(w, "exit 0 completed");
    }
}

/* A signal leaves more time than the notice before it, so the program is asked nothing. But the
 * scheduler may have signalled the program, too. */
Test(core_returned, of_a_program_that_does_not_attach_after_a_signal)
{
    struct core_params p = params_of(0, 1, 1);
    p.train_on = TRAIN_ON_ALWAYS;
    p.signals[SIGUSR1] = (struct signal_plan){.rule = SIGNAL_PREEMPT, .grace_ns = 900 * S};
    struct walk *w = begin_started(&p);
    cloud_says(w);
    signalled(w, SIGUSR1);
    exits(w, 0);
    assert_did(w, "exit 42 preempted_unsaved");
}
