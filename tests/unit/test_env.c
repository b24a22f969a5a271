/* SPDX-License-Identifier: Apache-2.0
 *
 * test_env: which variables a command gets, in which order.
 */
#include "commands/env.h"

#include "unit.h"

#include <stdio.h>

static struct env_facts facts(void)
{
    static const struct core_params params = {.node_rank = 1, .nnodes = 2, .children = 4};
    static const struct action start = {
        .type = ACT_START, .start = {.attempt = 3, .resume_step = UINT64_C(18446744073709551615)}};
    return (struct env_facts){.params = &params, .start = &start, .index = 1};
}

/* The list as one text, for comparing. */
static const char *joined(const struct env *env)
{
    static char text[16384];
    text[0] = '\0';
    for (char **entry = env->list; *entry; entry++) {
        strcat(text, *entry);
        strcat(text, "\n");
    }
    return text;
}

#define OURS                                                                          \
    "PCH_RANK=5\nPCH_LOCAL_RANK=1\nPCH_WORLD_SIZE=8\nPCH_NODE_RANK=1\nPCH_NNODES=2\n" \
    "PCH_ATTEMPT=3\nPCH_GENERATION=0\nPCH_RESUME_STEP=18446744073709551615\n"

#define RANKS                                                  \
    "RANK=5\nLOCAL_RANK=1\nWORLD_SIZE=8\nLOCAL_WORLD_SIZE=4\n" \
    "GROUP_RANK=1\nGROUP_WORLD_SIZE=2\n"

static void assert_env(char **inherited, const struct env_facts *f, const char *expected)
{
    struct env env;
    struct err err;
    cr_assert(env_build(&env, inherited, f, &err));
    cr_assert_str_eq(joined(&env), expected);
    env_free(&env);
}

Test(env, passes_on_in_order_and_adds_ours)
{
    char *inherited[] = {"A=1", "EMPTY=", "ODD", "=X=2", "B=x=y", NULL};
    struct env_facts f = facts();
    assert_env(inherited, &f, "A=1\nEMPTY=\nODD\n=X=2\nB=x=y\n" OURS);
}

Test(env, the_last_duplicate_wins_and_ours_always)
{
    char *inherited[] = {"A=1", "PCH_RANK=77", "B=2", "A=3", "PCH_RANK=78", "RANK=9", NULL};
    struct env_facts f = facts();
    assert_env(inherited, &f, "B=2\nA=3\nRANK=9\n" OURS);
    f.with_ranks = true;
    assert_env(inherited, &f, "B=2\nA=3\n" OURS RANKS);
}

/* The user's own MASTER_ADDR and MASTER_PORT stay, if they are set. */
Test(env, the_meeting_point)
{
    char *inherited[] = {"MASTER_ADDR=there", "MASTER_PORT=9", NULL};
    struct env_facts f = facts();
    f.with_ranks = true;
    assert_env(inherited, &f, "MASTER_ADDR=there\nMASTER_PORT=9\n" OURS RANKS);
    f.master_addr = "n0";
    f.master_port = 40001;
    assert_env(inherited, &f, OURS RANKS "MASTER_ADDR=n0\nMASTER_PORT=40001\n");
    f.with_ranks = false;
    f.shutdown_s = 45;
    assert_env(inherited, &f,
               "MASTER_ADDR=there\nMASTER_PORT=9\n" OURS "TORCH_ELASTIC_SHUTDOWN_TIMEOUT=45\n");
}

/* PyTorch's flight recorder writes beside the output; of the user's own values none is replaced. */
Test(env, the_flight_recorder)
{
    char *inherited[] = {"TORCH_NCCL_TRACE_BUFFER_SIZE=9", NULL};
    struct env_facts f = facts();
    f.traces = "/logs/trace.";
    setenv("TORCH_NCCL_TRACE_BUFFER_SIZE", "9", 1);
    assert_env(inherited, &f,
               "TORCH_NCCL_TRACE_BUFFER_SIZE=9\n" OURS "TORCH_FR_DUMP_TEMP_FILE=/logs/trace.\n"
               "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/logs/trace.\nTORCH_NCCL_DUMP_ON_TIMEOUT=1\n");
}

Test(env, keeps_back_what_was_meant_for_us)
{
    char *inherited[] = {
        "PCHRUN_GRACE=1s",         "NOTIFY_SOCKET=/x", "PCH_SOCKET=/old",  "PCH_RESUME_PATH=/old",
        "PCH_CHECKPOINT_DIR=/old", "PCHRUN=1",         "NOTIFY_SOCKETS=2", NULL};
    struct env_facts f = facts();
    assert_env(inherited, &f, "PCHRUN=1\nNOTIFY_SOCKETS=2\n" OURS);
    f.socket = "/run/s";
    f.resume_path = "/ckpt/7";
    f.checkpoint_dir = "/ckpt";
    char expected[1024];
    snprintf(expected, sizeof expected, "PCHRUN=1\nNOTIFY_SOCKETS=2\nPCH_SOCKET=/run/s\n%s%s", OURS,
             "PCH_RESUME_PATH=/ckpt/7\nPCH_CHECKPOINT_DIR=/ckpt\n");
    assert_env(inherited, &f, expected);
}

Test(env, listen_pid_follows_if_it_named_us)
{
    struct env env;
    struct err err;
    struct env_facts f = facts();
    char ours[32];
    snprintf(ours, sizeof ours, "LISTEN_PID=%d", (int)getpid());
    char *inherited[] = {"LISTEN_FDS=1", ours, "LISTEN_PIDFDID=12", NULL};
    cr_assert(env_build(&env, inherited, &f, &err));
    cr_assert(env.own_pid);
    strcpy(env.own_pid, "1234567890");
    cr_assert_str_eq(joined(&env), "LISTEN_FDS=1\nLISTEN_PID=1234567890\n" OURS);
    env_free(&env);

    char *others[] = {"LISTEN_FDS=1", "LISTEN_PID=1", "LISTEN_PIDFDID=12", NULL};
    cr_assert(env_build(&env, others, &f, &err));
    cr_assert(!env.own_pid);
    cr_assert_str_eq(joined(&env), "LISTEN_FDS=1\nLISTEN_PID=1\nLISTEN_PIDFDID=12\n" OURS);
    env_free(&env);
}

/* The exit hook's program gets no variable of a command, and no path of an outer pchrun. */
Test(env, of_the_program_at_the_end)
{
    char *inherited[] = {"A=1",           "PCH_COMMIT_PATH=/old", "PCHRUN_EXIT_HOOK=/h",
                         "PCH_SOCKET=/s", "PCH_CAUSE_NODE=7",     NULL};
    struct env env;
    struct err err;
    struct env_end facts = {.job = "run7",
                            .outcome = "preempted",
                            .exit_code = 42,
                            .node_rank = 1,
                            .nnodes = 2,
                            .cause_node = -1,
                            .attempt = 3,
                            .commit_step = UINT64_C(18446744073709551615)};
    const char *all = "A=1\nPCH_JOB=run7\nPCH_NODE_RANK=1\nPCH_NNODES=2\nPCH_ATTEMPT=3\n"
                      "PCH_OUTCOME=preempted\nPCH_EXIT_CODE=42\n"
                      "PCH_COMMIT_STEP=18446744073709551615\n";
    cr_assert(env_build_end(&env, inherited, &facts, &err));
    cr_assert_str_eq(joined(&env), all);
    env_free(&env);
    char path[4096], want[8192];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    facts.commit_path = path;
    facts.cause_node = 0;
    cr_assert(env_build_end(&env, inherited, &facts, &err));
    snprintf(want, sizeof want, "%sPCH_COMMIT_PATH=%s\nPCH_CAUSE_NODE=0\n", all, path);
    cr_assert_str_eq(joined(&env), want);
    env_free(&env);
}

Test(env, takes_many)
{
    enum { MANY = 5000 };
    static char texts[MANY][24];
    static char *inherited[MANY + 1];
    struct env env;
    struct err err;
    struct env_facts f = facts();
    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "V%d=%d", i % (MANY / 2), i);
        inherited[i] = texts[i];
    }
    cr_assert(env_build(&env, inherited, &f, &err));
    cr_assert_str_eq(env.list[0], "V0=2500");
    cr_assert_str_eq(env.list[MANY / 2 - 1], "V2499=4999");
    cr_assert_str_eq(env.list[MANY / 2], "PCH_RANK=5");
    env_free(&env);
}
