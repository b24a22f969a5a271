/* SPDX-License-Identifier: Apache-2.0
 *
 * libpch against a real procs: the library runs in a process of its own (tests/helpers/pchclient),
 * the supervisor's side in the test.
 */
#include "base/clock.h"
#include "base/str.h"
#include "wire/gate.h"
#include "world.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

static struct world world;

static struct client *start(void)
{
    return client_start(&world, NULL, NULL);
}

static void expect_killed_by_term(struct client *c)
{
    int status = client_end(c);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "status %x", status);
}

static void set_gate(uint64_t step, uint32_t round, bool decided, bool ends_run)
{
    procs_gate(world.procs, gate_make(step, round, decided, ends_run));
}

static void answer(const struct call *call, enum procmsg_action action)
{
    struct procmsg msg = {.type = PROCMSG_ANSWER, .step = call->msg.step, .action = action};
    procs_send(world.procs, call->slot, &msg);
}

/* The next message is of this type, and of this step in this round (0: in none). */
static const struct call *expect_of(uint8_t type, uint64_t step, uint32_t tag)
{
    const struct call *call = world_expect(&world, CALL_MESSAGE, type);
    cr_expect_eq(call->msg.step, step, "step %llu", (unsigned long long)call->msg.step);
    cr_expect_eq(call->msg.tag, tag, "tag %u", call->msg.tag);
    return call;
}

static void expect_one_line(const char *said)
{
    cr_expect_eq(strchr(said, '\n'), said + strlen(said) - 1, "said once: %s", said);
}

/* A process with which a supervisor in a process of its own talks. */
static void open_below(struct client *super, struct client *c, const char *command)
{
    client_say(c, "%s", command);
    client_expect(super, "attached 0");
    client_expect(c, "open supervised=1 same=1 resume=0 path=-");
}

static uint64_t step_of(int slot)
{
    uint64_t steps[CORE_SLOTS_MAX];
    uint8_t phases[CORE_SLOTS_MAX];
    struct page_own own[CORE_SLOTS_MAX];
    procs_look(world.procs, steps, phases, own);
    return steps[slot];
}

WorldTest(libpch, without_supervisor_all_is_a_no_op)
{
    static const char *const env[] = {"PCH_SOCKET=", NULL};
    struct client *c = client_start(
        &world, (const char *const[]){"/usr/bin/env", "-u", "PCH_SOCKET", PCHCLIENT, NULL}, env);
    client_ask(c, "open", "open supervised=0 same=1 resume=0 path=-");
    client_step(c, 1, "continue");
    client_ask(c, "saved 1 at:///a", "saved 1 continue");
    client_ask(c, "scratch", "scratch -");
    client_ask(c, "notice", "notice 0 ");
    client_ask(c, "done", "done");
    cr_expect_str_eq(client_stderr(c), "");
    cr_expect_eq(client_end(c), 0);
    cr_expect(world_is_quiet(&world));
}

/* Standard error is a pipe whose reader has gone. A word of libpch must not end the program. */
WorldTest(libpch, what_it_says_ends_no_program)
{
    static const char *const env[] = {"PCH_SOCKET=/nonexistent", NULL};
    static const char script[] = "dir=$(mktemp -d); mkfifo $dir/pipe; exec 3<>$dir/pipe; "
                                 "exec 2>$dir/pipe 3<&-; rm -r $dir; exec \"$0\"";
    struct client *c =
        client_start(&world, (const char *const[]){"/bin/sh", "-c", script, PCHCLIENT, NULL}, env);
    client_ask(c, "open", "open supervised=0 same=1 resume=0 path=-");
    cr_expect_eq(client_end(c), 0);
}

WorldTest(libpch, attaches_with_options_and_resumes)
{
    world.welcome.step = 70;
    str_copy(world.welcome.path, sizeof world.welcome.path, "/ckpt/70");
    struct client *c = start();
    client_ask(c, "open rank=5 local_rank=1 world=8 local_world=2 first=70 stride=10 last=900",
               "open supervised=1 same=1 resume=70 path=/ckpt/70");
    const struct call *call = world_expect(&world, CALL_ATTACHED, 0);
    cr_expect_eq(call->pid, client_pid(c));
    cr_expect_eq(call->msg.rank, 5);
    cr_expect_eq(call->msg.local_rank, 1);
    cr_expect_eq(call->msg.world_size, 8);
    cr_expect_eq(call->msg.local_world_size, 2);
    cr_expect_eq(call->msg.first_step, 70);
    cr_expect_eq(call->msg.stride, 10);
    cr_expect_eq(call->msg.last_step, 900);
    cr_expect_eq(call->msg.flags, PROCMSG_FLAG_SHIELD);
    /* Opening twice gives the same job, and does not attach twice. */
    client_ask(c, "open rank=9", "open supervised=1 same=1 resume=70 path=/ckpt/70");
    client_end_well(c);
}

WorldTest(libpch, true_step_is_in_the_page_before_it_is_attached)
{
    world.is_silent = true;
    struct client *c = start();
    client_say(c, "open rank=0 world=1 first=41");
    const struct call *call = world_expect(&world, CALL_ATTACHED, 0);
    cr_expect_eq(step_of(call->slot), 41);
    procs_send(world.procs, call->slot, &world.welcome);
    client_expect(c, "open supervised=1 same=1 resume=0 path=-");
    client_step(c, 42, "continue");
    cr_expect_eq(step_of(call->slot), 42);
    client_end_well(c);
}

/* The process stood still between its connection and its first message. */
WorldTest(libpch, a_dropped_connection_is_made_anew)
{
    world.is_silent = true;
    struct client *c = start();
    client_say(c, "open rank=0 world=1");
    procs_close(world.procs, world_expect(&world, CALL_ATTACHED, 0)->slot);
    const struct call *call = world_expect(&world, CALL_ATTACHED, 0);
    procs_send(world.procs, call->slot, &world.welcome);
    client_expect(c, "open supervised=1 same=1 resume=0 path=-");
    client_step(c, 1, "continue");
    cr_expect_str_eq(client_stderr(c), "");
    client_end_well(c);
}

WorldTest(libpch, refusal_is_said_once_and_training_goes_on)
{
    world.is_silent = true;
    struct client *c = start();
    client_say(c, "open rank=7 world=2");
    const struct call *call = world_expect(&world, CALL_ATTACHED, 0);
    struct procmsg no = {.type = PROCMSG_REFUSED, .text = "rank 7 is out of range"};
    procs_send(world.procs, call->slot, &no);
    procs_close(world.procs, call->slot);
    client_expect(c, "open supervised=0 same=1 resume=0 path=-");
    client_ask(c, "open", "open supervised=0 same=1 resume=0 path=-");
    client_step(c, 1, "continue");
    const char *said = client_stderr(c);
    cr_expect(strstr(said, "rank 7 is out of range"), "%s", said);
    expect_one_line(said);
    cr_expect_eq(client_end(c), 0);
    /* procs_close() reports nothing. */
    cr_expect(world_is_quiet(&world));
}

struct env_case {
    int ranks[4]; /* rank, local_rank, world_size, local_world_size */
    const char *env[12];
};

WorldTest(libpch, ranks_come_from_the_nearest_launcher)
{
    static const struct env_case cases[] = {
        {{-1, -1, -1, -1}, {NULL}},
        {{3, 1, 4, -1}, {"PCH_RANK=3", "PCH_LOCAL_RANK=1", "PCH_WORLD_SIZE=4"}},
        {{3, 1, 4, 2}, {"RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2"}},
        {{3, 0, 4, 1},
         {"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_SIZE=4",
          "OMPI_COMM_WORLD_LOCAL_SIZE=1"}},
        {{2, 0, 3, -1},
         {"SLURM_PROCID=2", "SLURM_LOCALID=0", "SLURM_NTASKS=3", "SLURM_NTASKS_PER_NODE=1(x3)"}},
        /* The ranks of pchrun win over those of its own environment, */
        {{9, -1, 16, -1}, {"PCH_RANK=9", "PCH_WORLD_SIZE=16", "SLURM_PROCID=1", "SLURM_NTASKS=2"}},
        {{0, -1, 1, -1}, {"PCH_RANK=0", "PCH_WORLD_SIZE=1", "SLURM_PROCID=0", "SLURM_NTASKS=8"}},
        {{9, -1, 16, -1}, {"PCH_RANK=9", "PCH_WORLD_SIZE=16", "RANK=1", "WORLD_SIZE=2"}},
        /* but not over those of a torchrun below pchrun. */
        {{13, 5, 16, 8},
         {"PCH_RANK=1", "PCH_WORLD_SIZE=2", "RANK=13", "LOCAL_RANK=5", "WORLD_SIZE=16",
          "LOCAL_WORLD_SIZE=8"}},
        /* A program that starts its ranks itself may name only their local ranks. */
        {{-1, 1, 2, -1},
         {"PCH_RANK=0", "PCH_WORLD_SIZE=1", "LOCAL_RANK=1", "WORLD_SIZE=2", "NODE_RANK=0"}},
        {{0, -1, 1, -1}, {"PCH_RANK=0", "PCH_WORLD_SIZE=1", "LOCAL_RANK=0", "WORLD_SIZE=1"}},
        {{0, -1, 1, -1}, {"PCH_RANK=0", "PCH_WORLD_SIZE=1", "LOCAL_RANK=1"}},
        /* A value that is not a number is ignored. */
        {{-1, -1, -1, -1}, {"PCH_RANK=x", "PCH_WORLD_SIZE=-1"}},
        {{-1, -1, -1, -1}, {"RANK=-3", "WORLD_SIZE=99999999999"}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct client *c = client_start(&world, NULL, cases[i].env);
        const struct procmsg *msg = &client_open(c, "open")->msg;
        const int got[] = {msg->rank, msg->local_rank, msg->world_size, msg->local_world_size};
        cr_expect_arr_eq(got, cases[i].ranks, sizeof got, "case %zu", i);
        client_end_well(c);
    }
}

WorldTest(libpch, options_win_over_the_environment)
{
    static const char *const env[] = {
        "PCH_RANK=3",         "PCH_LOCAL_RANK=1",      "PCH_WORLD_SIZE=4",
        "PCH_RESUME_STEP=12", "PCH_RESUME_PATH=/c/12", NULL};
    world.welcome.step = 12;
    struct client *c = client_start(&world, NULL, env);
    client_ask(c, "open rank=2", "open supervised=1 same=1 resume=12 path=/c/12");
    const struct call *call = world_expect(&world, CALL_ATTACHED, 0);
    cr_expect_eq(call->msg.rank, 2);
    cr_expect_eq(call->msg.local_rank, 1);
    cr_expect_eq(call->msg.first_step, 12);
    cr_expect_eq(step_of(call->slot), 12);
    client_end_well(c);
}

/* As after `struct pch_options o = {.stride = 8}`. Ranks with other strides save at other steps, so
 * this must not be silent. */
WorldTest(libpch, options_without_a_size_are_ignored_and_that_is_said_once)
{
    struct client *c = start();
    const struct procmsg *msg = &client_open(c, "open rank=0 world=1 stride=8 unsized")->msg;
    cr_expect_eq(msg->stride, 1);
    cr_expect_eq(msg->rank, PROCMSG_UNKNOWN);
    client_ask(c, "open unsized", "open supervised=1 same=1 resume=0 path=-");
    const char *said = client_stderr(c);
    cr_expect(strstr(said, "their size is 0; write struct pch_options options = PCH_OPTIONS_INIT;"),
              "%s", said);
    expect_one_line(said);
    cr_expect_eq(client_end(c), 0);
}

/* Only the program knows whether its ranks write parts or the whole. */
WorldTest(libpch, it_says_whose_saves_are_needed)
{
    static const struct {
        const char *open;
        uint32_t flags;
    } cases[] = {
        {"open rank=0 world=1 needs_rank", PROCMSG_FLAG_SHIELD | PROCMSG_FLAG_NEEDS_RANK0},
        {"open rank=0 world=1 needs_any", PROCMSG_FLAG_SHIELD | PROCMSG_FLAG_NEEDS_ANY},
        {"open rank=0 world=1 bare needs_any", PROCMSG_FLAG_NEEDS_ANY},
        {"open rank=0 world=1 counts needs_rank", PROCMSG_FLAG_COUNTS},
    };
    struct client *c = start();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cr_expect_eq(client_open(c, cases[i].open)->msg.flags, cases[i].flags, "%s", cases[i].open);
        client_ask(c, "close", "close supervised=0 step=continue term=default");
        world_expect(&world, CALL_MESSAGE, PROCMSG_CLOSE);
    }
    cr_expect_str_eq(client_stderr(c), "");
    cr_expect_eq(client_end(c), 0);
}

WorldTest(libpch, two_answers_to_whose_saves_are_needed_are_none)
{
    struct client *c = start();
    const struct call *call = client_open(c, "open rank=0 world=1 needs_rank needs_any");
    cr_expect_eq(call->msg.flags, PROCMSG_FLAG_SHIELD);
    const char *said = client_stderr(c);
    cr_expect(strstr(said, "ignores PCH_NEEDS_RANK0 and PCH_NEEDS_ANY"), "%s", said);
    expect_one_line(said);
    cr_expect_eq(client_end(c), 0);
}

/* The whole of a round: tentative, proposed again, decided, saved, committed, lifted. */
ClientTest(libpch, one_round)
{
    client_step(c, 4, "continue");
    set_gate(5, 1, false, false);
    client_say(c, "step 5");
    const struct call *call = world_expect(&world, CALL_MESSAGE, PROCMSG_WAITING);
    cr_expect_eq(call->msg.step, 5);
    cr_expect_eq(call->msg.word, gate_make(5, 1, false, false));
    cr_expect_eq(step_of(call->slot), 5);

    /* A proposal above the process's step: it goes on, with no other message than LOOK. */
    struct procmsg look = {.type = PROCMSG_LOOK};
    set_gate(7, 1, false, false);
    procs_send(world.procs, call->slot, &look);
    client_expect(c, "step 5 continue");
    client_step(c, 6, "continue");

    client_say(c, "step 7");
    call = world_expect(&world, CALL_MESSAGE, PROCMSG_WAITING);
    set_gate(7, 1, true, false);
    procs_send(world.procs, call->slot, &look);
    expect_of(PROCMSG_SERVING, 7, 1);
    client_expect(c, "step 7 save");

    client_say(c, "saved 7 at:///ckpt/7");
    call = expect_of(PROCMSG_SAVED, 7, 1);
    cr_expect_eq(call->msg.wants_answer, 1);
    cr_expect_str_eq(call->msg.path, "at:///ckpt/7");
    answer(call, PROC_CONTINUE);
    client_expect(c, "saved 7 continue");

    /* The process has served this round: the gate, still closed, does not stop it again. */
    client_step(c, 8, "continue");
    procs_gate(world.procs, GATE_OPEN);
    client_step(c, 9, "continue");
    /* A save of its own is not the round's. */
    client_say(c, "saved 9 at:///own/9");
    call = world_expect(&world, CALL_MESSAGE, PROCMSG_SAVED);
    cr_expect_eq(call->msg.tag, 0);
    answer(call, PROC_CONTINUE);
    client_expect(c, "saved 9 continue");

    /* The next round ends the run. */
    set_gate(10, 2, true, true);
    client_say(c, "step 12");
    expect_of(PROCMSG_SERVING, 12, 2);
    client_expect(c, "step 12 save");
    client_say(c, "saved 12");
    call = world_expect(&world, CALL_MESSAGE, PROCMSG_SAVED);
    cr_expect_str_eq(call->msg.path, "");
    answer(call, PROC_EXIT);
    client_expect(c, "saved 12 exit");
    client_step(c, 13, "exit");
}

/* The gate moves while a process is on its way to it, and no LOOK comes: the process looks by
 * itself. */
ClientTest(libpch, a_lost_look_costs_a_second_not_the_run)
{
    set_gate(1, 1, false, false);
    client_say(c, "step 1");
    world_expect(&world, CALL_MESSAGE, PROCMSG_WAITING);
    procs_gate(world.procs, GATE_OPEN);
    client_expect(c, "step 1 continue");
}

ClientTest(libpch, answers_to_another_question_are_dropped)
{
    struct procmsg stale = {.type = PROCMSG_ANSWER, .step = 3, .action = PROC_EXIT};
    /* An answer without a question, */
    procs_send(world.procs, 0, &stale);
    client_step(c, 3, "continue");
    client_say(c, "saved 4 at:///a");
    const struct call *call = world_expect(&world, CALL_MESSAGE, PROCMSG_SAVED);
    cr_expect_eq(call->msg.tag, 0, "its own save");
    /* and answers for another step, before and after the right one. */
    procs_send(world.procs, 0, &stale);
    answer(call, PROC_CONTINUE);
    procs_send(world.procs, 0, &stale);
    client_expect(c, "saved 4 continue");
    client_say(c, "saved 5 at:///a");
    call = world_expect(&world, CALL_MESSAGE, PROCMSG_SAVED);
    procs_send(world.procs, 0, &stale);
    answer(call, PROC_CONTINUE);
    client_expect(c, "saved 5 continue");
    client_step(c, 6, "continue");
}

ClientTest(libpch, leave_gate_ends_the_loop_without_a_save)
{
    client_step(c, 1, "continue");
    procs_gate(world.procs, gate_leave());
    client_step(c, 2, "exit");
    procs_gate(world.procs, GATE_OPEN);
    client_step(c, 3, "exit");
    /* The process can still say why it leaves. */
    client_ask(c, "done", "done");
    cr_expect_eq(world_expect(&world, CALL_MESSAGE, PROCMSG_DONE)->msg.step, 2);
}

ClientTest(libpch, durable_from_another_thread_in_a_round_that_goes_on)
{
    set_gate(3, 1, true, false);
    client_reach(c, 3);
    client_step(c, 4, "continue");
    client_ask(c, "aside durable 3 at:///c/3", "durable 3");
    const struct call *call = world_expect(&world, CALL_MESSAGE, PROCMSG_SAVED);
    cr_expect_eq(call->msg.tag, 1);
    cr_expect_eq(call->msg.wants_answer, 0);
    /* A save of its own, of another step, is not the round's. */
    client_ask(c, "aside durable 4 at:///c/4", "durable 4");
    cr_expect_eq(world_expect(&world, CALL_MESSAGE, PROCMSG_SAVED)->msg.tag, 0);
    client_step(c, 5, "continue");
}

/* A rank whose save of the last round runs in the background trains no further (async.pml). */
ClientTest(libpch, durable_in_a_round_that_ends_the_run_holds_the_next_step)
{
    set_gate(3, 1, true, true);
    client_reach(c, 3);
    client_ask(c, "aside durable 3 at:///c/3", "durable 3");
    world_expect(&world, CALL_MESSAGE, PROCMSG_SAVED);
    client_say(c, "step 4");
    const struct call *call = expect_of(PROCMSG_HELD, 3, 1);
    answer(call, PROC_EXIT);
    client_expect(c, "step 4 exit");
}

ClientTest(libpch, a_failed_save_is_reported_and_the_answer_awaited)
{
    set_gate(3, 1, true, true);
    client_reach(c, 3);
    client_ask(c, "failed 3 no space left", "failed 3");
    const struct call *call = world_expect(&world, CALL_MESSAGE, PROCMSG_SAVE_FAILED);
    cr_expect_eq(call->msg.tag, 1);
    cr_expect_str_eq(call->msg.text, "no space left");
    client_say(c, "step 4");
    call = world_expect(&world, CALL_MESSAGE, PROCMSG_HELD);
    procs_gate(world.procs, GATE_OPEN);
    answer(call, PROC_CONTINUE);
    client_expect(c, "step 4 continue");
}

WorldTest(libpch, a_path_that_does_not_fit_is_a_failed_save)
{
    char path[PROCMSG_PATH_MAX + 1];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    struct client *c = client_attached(&world);
    client_say(c, "saved 3 %s", path);
    client_expect(c, "saved 3 continue");
    world_expect(&world, CALL_MESSAGE, PROCMSG_SAVE_FAILED);
    client_end_well(c);
}

/* The mistake is reported once, when a thread comes to a gate: pch_step itself has no time to look.
 */
WorldTest(libpch, two_threads_that_train)
{
    struct client *c = client_attached(&world);
    client_step(c, 1, "continue");
    for (int step = 2; step <= 3; step++) {
        set_gate(step, step, true, false);
        client_say(c, "aside step %d", step);
        world_expect(&world, CALL_MESSAGE, PROCMSG_SERVING);
        client_expect(c, "step %d save", step);
    }
    const char *said = client_stderr(c);
    const char *line = strstr(said, "calls pch_step, but thread ");
    cr_expect(line && !strstr(line + 1, "calls pch_step"), "%s", said);
    cr_expect(str_starts(said, "pch: rank 0: thread "), "%s", said);
    cr_expect_eq(client_end(c), 0);
}

/* The first thread has ended: another one may train. */
ClientTest(libpch, a_thread_that_takes_over)
{
    client_ask(c, "aside step 1", "step 1 continue");
    set_gate(2, 1, true, false);
    client_reach(c, 2);
}

ClientTest(libpch, notice_error_phase_and_done)
{
    client_ask(c, "notice", "notice 0 ");
    procs_notice(world.procs, "SIGTERM, 25 s left", CLOCK_NEVER);
    client_ask(c, "notice", "notice 18 SIGTERM, 25 s left");
    procs_notice(world.procs, "", CLOCK_NEVER);
    client_ask(c, "notice", "notice 0 ");
    client_ask(c, "error 17 out of memory", "error 17");
    const struct call *call = world_expect(&world, CALL_MESSAGE, PROCMSG_ERROR);
    cr_expect_eq(call->msg.number, 17);
    cr_expect_str_eq(call->msg.text, "out of memory");
    client_ask(c, "error 0", "error 0");
    cr_expect_str_eq(world_expect(&world, CALL_MESSAGE, PROCMSG_ERROR)->msg.text,
                     "no reason given");
    client_ask(c, "failed 3", "failed 3");
    cr_expect_str_eq(world_expect(&world, CALL_MESSAGE, PROCMSG_SAVE_FAILED)->msg.text,
                     "no reason given");
    client_ask(c, "phase 2", "phase 2");
    client_step(c, 6, "continue");
    client_ask(c, "done", "done");
    cr_expect_eq(world_expect(&world, CALL_MESSAGE, PROCMSG_DONE)->msg.step, 6);
}

WorldTest(libpch, what_is_in_force_is_there_when_it_attaches)
{
    set_gate(1, 4, true, false);
    procs_notice(world.procs, "spot", CLOCK_NEVER);
    struct client *c = client_attached(&world);
    client_ask(c, "notice", "notice 4 spot");
    client_say(c, "step 1");
    cr_expect_eq(world_expect(&world, CALL_MESSAGE, PROCMSG_SERVING)->msg.tag, 4);
    client_expect(c, "step 1 save");
    client_end_well(c);
}

ClientTest(libpch, close_detaches_and_a_later_open_attaches_anew)
{
    client_ask(c, "close", "close supervised=0 step=continue term=default");
    world_expect(&world, CALL_MESSAGE, PROCMSG_CLOSE);
    client_open(c, "open rank=0 world=1");
    client_step(c, 2, "continue");
    cr_expect_eq(step_of(0), 2);
}

/* A connection ended and left a question without an answer. No call waits for that answer any
 * more. */
WorldTest(libpch, a_question_ends_with_its_connection)
{
    enum { N = 100 };
    struct client *c = client_attached(&world);
    client_say(c, "reopen %d", N);
    client_expect(c, "reopen %d supervised=1", N);
    client_say(c, "scratch");
    cr_expect(str_starts(client_line(c), "scratch /"));
    cr_expect_eq(client_end(c), 0);
}

static void expect_status(struct client *c, int status)
{
    client_step(c, 4, "continue");
    client_say(c, "exit %d", status);
    cr_expect_eq(WEXITSTATUS(client_end(c)), status & 0xff);
    const struct call *call = world_expect(&world, CALL_MESSAGE, PROCMSG_CLOSE);
    cr_expect_eq(call->msg.step, 4);
    cr_expect_eq(call->msg.number, status & 0xff, "%lld", (long long)call->msg.number);
    cr_expect(world_is_quiet(&world));
}

/* The command may hide the exit status. */
WorldTest(libpch, the_end_tells_the_exit_status)
{
    expect_status(client_attached(&world), 3);
    expect_status(client_attached(&world), 256 + 7);
    expect_status(client_attached(&world), 0);
}

static void expect_status_of(const char *program)
{
    struct client *c = client_start(&world, (const char *const[]){program, NULL}, NULL);
    client_open(c, "open rank=0 world=1");
    expect_status(c, 9);
}

WorldTest(libpch, the_end_tells_the_exit_status_of_every_build)
{
    expect_status_of(PCHCLIENT_DL);
#ifdef PCHCLIENT_STATIC
    expect_status_of(PCHCLIENT_STATIC);
#endif
}

ClientTest(libpch, the_end_of_a_fork_tells_nothing)
{
    client_ask(c, "forkexit 5", "forkexit 5");
}

/* The thread that waits reads for all threads. No answer is lost, whichever thread reads it. */
WorldTest(libpch, every_thread_may_call)
{
    enum { N = 100 };
    struct client *c = client_attached(&world);
    world.is_storm = true;
    client_say(c, "storm %d", N);
    client_expect(c, "storm %d bad=0", N);
    world.is_storm = false;
    cr_expect_eq(world.counts[PROCMSG_SAVED], 4 * N + N);
    cr_expect_eq(world.counts[PROCMSG_SAVE_FAILED], 4 * N);
    cr_expect_eq(world.counts[PROCMSG_ERROR], 4 * N);
    cr_expect_eq(step_of(0), N);
    client_end_well(c);
}

static bool is_gone(const char *path)
{
    struct stat st;
    return stat(path, &st) != 0 && errno == ENOENT;
}

WorldTest(libpch, scratch_lives_until_the_commit_and_until_the_end)
{
    char first[PATH_MAX], file[PATH_MAX + 8];
    struct client *c = client_attached(&world);
    client_say(c, "scratch");
    const char *line = client_line(c);
    cr_assert(str_starts(line, "scratch /"), "%s", line);
    str_copy(first, sizeof first, line + 8);
    struct stat st;
    cr_assert(stat(first, &st) == 0 && S_ISDIR(st.st_mode));
    cr_expect_eq(st.st_mode & 0777, 0700);
    snprintf(file, sizeof file, "%s/sub", first);
    cr_assert_eq(mkdir(file, 0700), 0);
    client_say(c, "scratch");
    client_expect(c, "scratch %s", first);

    procs_scratch_clear(world.procs);
    cr_expect(is_gone(first), "removed after the commit");
    client_say(c, "scratch");
    line = client_line(c);
    cr_expect(str_starts(line, "scratch /") && !str_is(line + 8, first),
              "another one, so that a slow removal cannot hit it: %s", line);
    str_copy(first, sizeof first, line + 8);
    cr_expect_eq(stat(first, &st), 0);
    client_end_well(c);
    cr_expect(is_gone(first), "removed at the end");
}

WorldTest(libpch, a_fork_is_not_attached)
{
    struct client *c = client_attached(&world);
    client_say(c, "fork");
    client_expect(c, "fork supervised=0 step=continue saved=continue term=ours "
                     "scratch=- sockets=0 pages=0");
    /* The parent is unchanged, */
    client_step(c, 4, "continue");
    cr_expect_eq(step_of(0), 4);
    client_say(c, "saved 4");
    const struct call *call = world_expect(&world, CALL_MESSAGE, PROCMSG_SAVED);
    answer(call, PROC_CONTINUE);
    client_expect(c, "saved 4 continue");
    /* and the end of the parent is seen at once, although the fork lives on. */
    cr_assert_eq(kill(client_pid(c), SIGKILL), 0);
    world_expect(&world, CALL_GONE, 0);
    client_end(c);
}

/* The fork is a process of its own, beside its parent. */
ClientTest(libpch, a_fork_may_attach)
{
    client_step(c, 4, "continue");
    const struct call *call = client_open(c, "forkopen rank=1 world=2");
    cr_expect(call->pid != client_pid(c) && call->msg.rank == 1);
    client_expect(c, "forked step 1 continue");
    client_expect(c, "forkopen");
    cr_expect_eq(world_expect(&world, CALL_MESSAGE, PROCMSG_CLOSE)->msg.step, 1);
    cr_expect_eq(step_of(0), 4);
    client_ask(c, "raise", "raise survived");
    world_expect(&world, CALL_MESSAGE, PROCMSG_NOTICE);
}

WorldTest(libpch, a_fork_may_attach_after_its_parent_has_left)
{
    struct client *c = client_attached(&world);
    client_ask(c, "close", "close supervised=0 step=continue term=default");
    world_expect(&world, CALL_MESSAGE, PROCMSG_CLOSE);
    client_open(c, "forkopen rank=0 world=1");
    client_expect(c, "forked step 1 continue");
    client_expect(c, "forkopen");
    world_expect(&world, CALL_MESSAGE, PROCMSG_CLOSE);
    cr_expect_eq(client_end(c), 0);
}

/* The locks in such a child are in an unknown state. */
WorldTest(libpch, a_fork_that_cannot_attach_is_told_so_once)
{
    struct client *c = client_attached(&world);
    client_ask(c, "cloneopen", "open supervised=0 same=1 resume=0 path=-");
    client_expect(c, "forked step 1 continue");
    client_expect(c, "cloneopen");
    cr_expect_str_eq(client_stderr(c),
                     "pch: cannot attach to pchrun: this process is a copy of an attached one, "
                     "not made by fork(2); it trains unsupervised\n");
    cr_expect_eq(client_end(c), 0);
    world_expect(&world, CALL_MESSAGE, PROCMSG_CLOSE);
    cr_expect(world_is_quiet(&world));
}

WorldTest(libpch, grandchildren_attach_by_themselves)
{
    static const char *const argv[] = {"/bin/sh", "-c", "\"$0\"; exit $?", PCHCLIENT, NULL};
    struct client *c = client_start(&world, argv, NULL);
    cr_expect_neq(client_open(c, "open rank=0 world=1")->pid, client_pid(c));
    client_step(c, 1, "continue");
    client_end_well(c);
}

static void try_build(const char *program)
{
    const char *argv[] = {program, NULL};
    struct client *c = client_start(&world, argv, NULL);
    client_open(c, "open rank=0 world=1");
    set_gate(2, 1, true, false);
    client_step(c, 2, "save");
    world_expect(&world, CALL_MESSAGE, PROCMSG_SERVING);
    client_say(c, "saved 2 at:///c/2");
    answer(world_expect(&world, CALL_MESSAGE, PROCMSG_SAVED), PROC_CONTINUE);
    client_expect(c, "saved 2 continue");
    client_ask(c, "raise", "raise survived");
    world_expect(&world, CALL_MESSAGE, PROCMSG_NOTICE);
    client_end_well(c);
}

WorldTest(libpch, works_when_opened_at_run_time)
{
    try_build(PCHCLIENT_DL);
}

#ifdef PCHCLIENT_STATIC
WorldTest(libpch, works_in_a_static_program)
{
    try_build(PCHCLIENT_STATIC);
}
#endif

WorldTest(libpch, who_only_counts_is_asked_for_nothing)
{
    struct client *c = start();
    set_gate(1, 3, false, true);
    cr_expect_eq(client_open(c, "open rank=0 world=1 counts")->msg.flags, PROCMSG_FLAG_COUNTS);
    client_step(c, 1, "continue"); /* a tentative gate, */
    set_gate(1, 3, true, true);
    client_step(c, 2, "continue"); /* a save, */
    procs_gate(world.procs, gate_leave());
    client_step(c, 3, "continue"); /* and an end, none of which concerns this process */
    cr_expect_eq(step_of(0), 3);
    client_ask(c, "saved 3 at:///c/3", "saved 3 continue");
    client_end_well(c); /* the process has sent nothing but its end */
}

ClientTest(libpch, scribbling_reaches_only_its_own_page)
{
    client_ask(c, "scribble", "scribble own=1 supervisor=1 mprotect=Permission denied");
    cr_expect_eq(step_of(0), UINT64_MAX, "passed on as it is, for the core to judge");
    client_step(c, 3, "continue");
}

/* A daemon's habit: the program closes all descriptors, and its own files get the numbers. */
WorldTest(libpch, a_program_that_closes_its_socket_is_told_to_leave)
{
    struct client *c = client_attached(&world);
    client_ask(c, "closefds", "closefds");
    client_ask(c, "aside durable 1 at:///c/1", "durable 1");
    client_step(c, 1, "exit");
    client_ask(c, "strangers", "strangers 0");
    cr_expect(strstr(client_stderr(c), "this program has closed libpch's connection"));
    world_expect(&world, CALL_GONE, 0);
    /* Nor does the shield write into another file. */
    client_say(c, "raise");
    expect_killed_by_term(c);
}

WorldTest(libpch, let_go_without_an_answer_means_that_the_supervisor_is_gone)
{
    world.is_silent = true;
    struct client *c = start();
    client_say(c, "open rank=0 world=1");
    for (int i = 0; i < 4; i++)
        procs_close(world.procs, world_expect(&world, CALL_ATTACHED, 0)->slot);
    client_expect(c, "open supervised=0 same=1 resume=0 path=-");
    client_step(c, 1, "exit");
    cr_expect_eq(client_end(c), 0);
}

/* The clone is not made by fork(2): no handler of the C library runs in it, but the kernel has
 * wiped the page. */
ClientTest(libpch, a_clone_is_not_attached)
{
    client_ask(c, "clone", "clone exit=-1 signal=15");
    client_step(c, 4, "continue");
    cr_expect_eq(step_of(0), 4);
}

WorldTest(libpch, being_let_go_ends_every_wait)
{
    struct client *c = client_attached(&world);
    client_say(c, "saved 1 at:///c/1");
    world_expect(&world, CALL_MESSAGE, PROCMSG_SAVED);
    procs_close(world.procs, 0);
    client_expect(c, "saved 1 exit");
    client_step(c, 2, "exit");
    client_ask(c, "aside durable 2 at:///c/2", "durable 2");
    expect_one_line(client_stderr(c));
    cr_expect_eq(client_end(c), 0);
    cr_expect(world_is_quiet(&world));
}

/* Supervisors that are killed, in a process of their own. */

static struct client *start_super(const char *gate, char socket[256])
{
    const char *argv[] = {PCHSUPER, gate, NULL};
    char runtime[128];
    snprintf(runtime, sizeof runtime, "XDG_RUNTIME_DIR=%s", world.dir);
    const char *env[] = {runtime, NULL};
    struct client *super = client_start(&world, argv, env);
    const char *line = client_line(super);
    cr_assert(str_starts(line, "socket "), "%s", line);
    snprintf(socket, 256, "PCH_SOCKET=%s", line + 7);
    return super;
}

static struct client *start_at(const char *socket)
{
    const char *argv[] = {"/usr/bin/env", socket, PCHCLIENT, NULL};
    return client_start(&world, argv, NULL);
}

static void kill_super(struct client *super)
{
    cr_assert_eq(kill(client_pid(super), SIGKILL), 0);
    client_end(super);
}

/* A killed supervisor leaves its socket behind. The next supervisor removes it. */
static void expect_next_removes_it(const char *socket)
{
    char gone[256], next[256];
    struct stat st;
    str_copy(gone, sizeof gone, socket + strlen("PCH_SOCKET="));
    cr_expect_eq(stat(gone, &st), 0, "%s", gone);
    struct client *super = start_super(NULL, next);
    cr_expect(is_gone(gone), "%s", gone);
    cr_expect_eq(stat(procs_run_dir(world.procs)->addr.sun_path, &st), 0,
                 "and not that of a living one");
    cr_expect_eq(client_end(super), 0);
}

WorldTest(libpch, supervisor_killed_in_mid_training)
{
    char socket[256];
    struct client *super = start_super(NULL, socket), *c = start_at(socket);
    open_below(super, c, "open rank=0 world=1");
    client_step(c, 1, "continue");
    kill_super(super);
    client_step(c, 2, "exit");
    client_ask(c, "saved 2 at:///c/2", "saved 2 exit");
    client_step(c, 3, "exit");
    const char *said = client_stderr(c);
    cr_expect(strstr(said, "rank 0: pchrun has died"), "%s", said);
    expect_one_line(said);
    /* Without a supervisor there is no shield. */
    client_say(c, "raise");
    expect_killed_by_term(c);
    expect_next_removes_it(socket);
}

WorldTest(libpch, supervisor_killed_while_a_process_waits_at_the_gate)
{
    char socket[256];
    struct client *super = start_super("2", socket), *c = start_at(socket);
    open_below(super, c, "open rank=0 world=1");
    client_say(c, "step 2");
    client_expect(super, "waiting 0");
    kill_super(super);
    client_expect(c, "step 2 exit");
    cr_expect_eq(client_end(c), 0);
    expect_next_removes_it(socket);
}

WorldTest(libpch, who_only_counts_outlives_the_supervisor)
{
    char socket[256];
    struct client *super = start_super(NULL, socket), *c = start_at(socket);
    open_below(super, c, "open rank=0 world=1 counts");
    kill_super(super);
    client_step(c, 1, "continue");
    client_step(c, 2, "continue");
    cr_expect_str_eq(client_stderr(c), "");
    client_say(c, "raise");
    expect_killed_by_term(c);
    expect_next_removes_it(socket);
}

WorldTest(libpch, supervisor_killed_before_a_process_attaches)
{
    char socket[256];
    struct client *super = start_super(NULL, socket), *c = start_at(socket);
    kill_super(super);
    client_ask(c, "open rank=0 world=1", "open supervised=0 same=1 resume=0 path=-");
    client_step(c, 1, "exit");
    cr_expect(strstr(client_stderr(c), "pchrun has died"));
    cr_expect_eq(client_end(c), 0);
    expect_next_removes_it(socket);
}

WorldTest(libpch, supervisor_that_ends_in_order_lets_its_processes_go)
{
    char socket[256];
    struct stat st;
    struct client *super = start_super(NULL, socket), *c = start_at(socket);
    open_below(super, c, "open rank=0 world=1");
    cr_expect_eq(client_end(super), 0);
    cr_expect_neq(stat(socket + strlen("PCH_SOCKET="), &st), 0, "it takes its socket along");
    client_step(c, 1, "exit");
    cr_expect_eq(client_end(c), 0);
}

WorldTest(libpch, no_socket_there_is_said_and_training_goes_on)
{
    struct client *c = start_at("PCH_SOCKET=/nonexistent/pchrun.x/socket");
    client_ask(c, "open rank=0 world=1", "open supervised=0 same=1 resume=0 path=-");
    client_step(c, 1, "continue");
    cr_expect(strstr(client_stderr(c), "/nonexistent/pchrun.x/socket"));
    cr_expect_eq(client_end(c), 0);
}
