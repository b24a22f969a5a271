/* SPDX-License-Identifier: Apache-2.0
 *
 * test_drill_phases: what a drill finds out about the phases of a training, and how it tells that.
 */
#include "run/drill_phases.h"

#include "base/clock.h"
#include "base/str.h"
#include "unit.h"

static struct drill_phases phases;
static struct drill_line lines[DRILL_LINES_MAX];
static int nlines;

static void begin(void)
{
    phases = (struct drill_phases){.began_at = 100 * NS_PER_S};
}

TestSuite(drill_phases, .init = begin);

static int64_t at(double seconds)
{
    return phases.began_at + (int64_t)(seconds * 1e9);
}

static uint64_t first_step; /* of all ranks */

/* A look at a rank of the slot with its number. */
static void look(double seconds, int rank, uint64_t step, enum page_phase phase)
{
    struct drill_rank seen = {
        .slot = rank, .pid = 10 + rank, .first_step = first_step, .step = step, .phase = phase};
    drill_phases_look(&phases, &seen, 1, at(seconds));
}

static void look_serving(double seconds, uint64_t step, enum page_phase phase)
{
    drill_phases_look(&phases,
                      &(struct drill_rank){
                          .slot = 0, .pid = 10, .step = step, .phase = phase, .is_serving = true},
                      1, at(seconds));
}

static void tell(double grace, double save)
{
    struct drill_saving saving = {.grace_ns = (int64_t)(grace * 1e9),
                                  .save_ns = (int64_t)(save * 1e9)};
    memset(lines, 'x', sizeof lines);
    nlines = drill_phases_tell(&phases, &saving, lines);
}

static void expect_line(int number, bool is_bad, const char *want)
{
    cr_assert_lt(number, nlines);
    cr_expect_str_eq(lines[number].text, want);
    cr_expect_eq(lines[number].is_bad, is_bad, "%s", want);
}

/* Attached after 12 s, and the first step 20 s later. */
static void start_training(void)
{
    look(12, 0, 0, PAGE_START);
    look(31, 0, 0, PAGE_START);
    look(32, 0, 1, PAGE_TRAIN);
}

#define START                                                                                    \
    "import: 12 s from the start of the commands until every rank had attached; first step: 20 " \
    "s more; a notice in these 32 s saves nothing"

Test(drill_phases, of_nothing_there_is_nothing_to_tell)
{
    tell(30, 1);
    cr_expect_eq(nlines, 0);
    drill_phases_look(&phases, NULL, 0, at(1));
    drill_phases_end(&phases, at(2));
    tell(30, 1);
    cr_expect_eq(nlines, 0);
}

Test(drill_phases, before_the_first_step_nothing_is_saved)
{
    start_training();
    tell(30, 1);
    cr_expect_eq(nlines, 1);
    expect_line(0, false, START);
}

/* A fast rank makes its first step before the drill looks for the first time. The drill then took
 * its second step for the first, and measured no step. */
Test(drill_phases, a_rank_that_had_stepped_before_the_first_look)
{
    first_step = 40;
    look(2, 0, 41, PAGE_TRAIN);
    look(3, 0, 42, PAGE_EVAL);
    look(5, 0, 42, PAGE_TRAIN);
    tell(30, 1);
    expect_line(0, false,
                "import: 2 s from the start of the commands until every rank had attached; first "
                "step: 0 s more; a notice in these 2 s saves nothing");
    expect_line(1, false,
                "a notice in these is saved in time: step (up to 1 s), evaluation (up to 2 s)");
}

/* The last rank counts for the attach, and the first one for the step. */
Test(drill_phases, of_several_ranks)
{
    first_step = 40;
    look(5, 1, 40, PAGE_START);
    look(12, 0, 40, PAGE_START);
    look(32, 1, 41, PAGE_TRAIN);
    look(33, 0, 41, PAGE_TRAIN);
    look(34, 2, 40, PAGE_START); /* a new process, too late to matter */
    tell(30, 1);
    expect_line(0, false, START);
}

Test(drill_phases, without_a_step)
{
    look(12, 0, 0, PAGE_COMPILE);
    look(40, 0, 0, PAGE_COMPILE);
    tell(30, 1);
    expect_line(0, false,
                "import: 12 s from the start of the commands until every rank had attached; a "
                "notice in it saves nothing");
    expect_line(1, false, "an evaluation was not seen in this drill");
    cr_expect_eq(nlines, 2);
}

Test(drill_phases, an_evaluation_that_is_too_long)
{
    start_training();
    look(33, 0, 2, PAGE_TRAIN);
    look(33.5, 0, 2, PAGE_EVAL);
    look(80, 0, 2, PAGE_EVAL);
    look(128.5, 0, 3, PAGE_TRAIN);
    look(129, 0, 3, PAGE_EVAL); /* a shorter one */
    look(130, 0, 4, PAGE_TRAIN);
    tell(30, 2);
    cr_expect_eq(nlines, 3);
    expect_line(
        1, true,
        "evaluation: up to 95 s; a notice at its start needs 97 s with the save, and has 30 "
        "s; shorten it, or leave it when pch_notice (in Python: job.notice) has a text");
    expect_line(2, false, "a notice in these is saved in time: step (up to 1 s)");
}

/* The save must fit behind the phase. */
Test(drill_phases, the_save_counts)
{
    start_training();
    look(50, 0, 1, PAGE_EVAL);
    look(70, 0, 2, PAGE_TRAIN);
    tell(30, 10);
    cr_expect_eq(nlines, 2);
    expect_line(1, false,
                "a notice in these is saved in time: step (up to 18 s), evaluation (up to 20 s)");
    tell(30, 10.5);
    cr_expect_eq(nlines, 3);
    cr_expect(lines[1].is_bad && strstr(lines[1].text, "evaluation: up to 20 s; ") &&
              strstr(lines[1].text, "needs 30.5 s with the save, and has 30 s"));
    /* of a save that never came, nothing is promised */
    tell(30, 0);
    cr_expect_eq(nlines, 1);
}

Test(drill_phases, each_phase_has_its_advice)
{
    static const struct {
        enum page_phase phase;
        const char *name, *advice;
    } rows[] = {
        {PAGE_TRAIN, "step: ", "; call pch_step (in Python: job.step) more often"},
        {PAGE_EVAL, "evaluation: ", " has a text"},
        {PAGE_COMPILE,
         "compilation: ", "; compile before the first step, or keep the compiled code"},
        {PAGE_SAVE,
         "the program's own save: ", "; save faster, or in the background (pch_durable)"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        begin();
        start_training();
        look(32.5, 0, 2, rows[i].phase);
        look(92.5, 0, 3, PAGE_TRAIN);
        tell(30, 1);
        const char *text = lines[1].text;
        cr_expect(lines[1].is_bad);
        cr_expect(strncmp(text, rows[i].name, strlen(rows[i].name)) == 0, "%s", text);
        cr_expect_str_eq(text + strlen(text) - strlen(rows[i].advice), rows[i].advice);
        cr_expect(strstr(text, ": up to 60 s; a notice at its start needs 61 s"), "%s", text);
        bool wants_eval = rows[i].phase == PAGE_COMPILE || rows[i].phase == PAGE_SAVE;
        cr_expect_eq(strcmp(lines[nlines - 1].text, "an evaluation was not seen in this drill") ==
                         0,
                     wants_eval);
    }
}

/* All lines at once, with the longest figures. */
Test(drill_phases, all_lines_fit)
{
    look(1e6, 0, 0, PAGE_START);
    look(2e6, 0, 1, PAGE_TRAIN);
    look(2.5e6, 0, 2, PAGE_COMPILE);
    look(3.5e6, 0, 3, PAGE_SAVE);
    look(4.5e6, 0, 4, PAGE_TRAIN);
    tell(0.5, 12345678);
    cr_expect_eq(nlines, 5);
    for (int i = 0; i < nlines; i++)
        cr_expect(strlen(lines[i].text) < DRILL_LINE_SIZE - 1, "%s", lines[i].text);
}

/* The drill measures an agreed save by itself. */
Test(drill_phases, an_agreed_save_is_no_step)
{
    start_training();
    look(32.5, 0, 2, PAGE_TRAIN);
    look_serving(33, 3, PAGE_TRAIN);
    look_serving(34, 3, PAGE_SAVE);
    look(90, 0, 3, PAGE_TRAIN);
    look(91, 0, 4, PAGE_TRAIN);
    look_serving(92, 5, PAGE_TRAIN);
    drill_phases_end(&phases, at(120));
    tell(30, 1);
    cr_expect_eq(nlines, 3);
    expect_line(1, false, "a notice in these is saved in time: step (up to 1 s)");
}

/* The end cuts it short. It counts from half of the grace on, since pchrun keeps some of that. */
Test(drill_phases, an_evaluation_at_the_end)
{
    start_training();
    look(33, 0, 2, PAGE_EVAL);
    look(59, 0, 2, PAGE_EVAL);
    drill_phases_end(&phases, at(60));
    tell(30, 0);
    cr_expect_eq(nlines, 2);
    expect_line(1, true,
                "evaluation: 27 s, and not over when the time was up; shorten it, or leave it when "
                "pch_notice (in Python: job.notice) has a text");
    tell(55, 0);
    cr_expect_eq(nlines, 1);
    look(100, 0, 3, PAGE_TRAIN); /* after the end */
    drill_phases_end(&phases, at(200));
    tell(30, 0);
    cr_expect(strstr(lines[1].text, "evaluation: 27 s, "), "%s", lines[1].text);
}

/* A rank that has ended is in no phase, and another process in its slot begins anew. */
Test(drill_phases, a_rank_that_ends)
{
    start_training();
    look(33, 0, 2, PAGE_EVAL);
    look(33, 1, 2, PAGE_TRAIN);
    look(34, 1, 3, PAGE_TRAIN);
    drill_phases_end(&phases, at(90));
    cr_expect_eq(phases.longest[PAGE_EVAL].ns, 0);
    cr_expect_eq(drill_phases_longest(&phases), at(90) - at(34));
    begin();
    cr_expect_eq(drill_phases_longest(&phases), 0);
    start_training();
    look(33, 0, 2, PAGE_EVAL);
    drill_phases_look(&phases,
                      &(struct drill_rank){.slot = 0, .pid = 99, .step = 2, .phase = PAGE_START}, 1,
                      at(50));
    cr_expect_eq(phases.longest[PAGE_EVAL].ns, 0);
    cr_expect_eq(phases.attached_at, at(12));
}

/* In another namespace all pids are 0. */
Test(drill_phases, ranks_without_a_pid)
{
    struct drill_rank rank = {.slot = 3, .first_step = 7, .step = 7};
    drill_phases_look(&phases, &rank, 1, at(2));
    rank.step = 8;
    drill_phases_look(&phases, &rank, 1, at(3));
    cr_expect_eq(phases.attached_at, at(2));
    cr_expect_eq(phases.stepped_at, at(3));
}
