/* SPDX-License-Identifier: Apache-2.0
 *
 * env: the environment of one command: ours, with the job's variables, and without what was meant
 * for us alone; and that of the program that is run at the end. Owns its memory: env_free(). Main
 * thread, before fork.
 */
#ifndef PCHRUN_RUN_ENV_H
#define PCHRUN_RUN_ENV_H

#include "config/config.h"

#include <stdint.h>

/* How long a torchrun leaves its workers after a SIGTERM if nobody tells it: less may be in the
 * middle of the save. The variable is heeded from PyTorch 2.12 on. */
#define ENV_SHUTDOWN   "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
#define ENV_SHUTDOWN_S 30

struct spawn_start;

struct env_facts {
    int rank, local_rank, world_size, local_world_size; /* of this command */
    bool with_ranks; /* RANK and the like, too: the user asked for several commands */
    int node_rank, nnodes;
    uint32_t attempt, generation;
    uint64_t resume_step;
    const char *socket, *resume_path, *error_file; /* NULL: none */
    /* Of a Python program that is to take part as it is; NULL: the variables are the user's. */
    const char *python_path, *checkpoint_dir;
    /* With the ranks: where they meet; NULL and 0: the variables are the user's. */
    const char *master_addr;
    uint16_t master_port;
    int shutdown_s; /* how long torchrun leaves its workers to end; 0: the variable is the user's */
};

/* Of the program that exit.hook names. */
struct env_end {
    const char *job, *outcome, *commit_path; /* commit_path: NULL: none */
    const char *notice_source, *notice_id;   /* "": none */
    int exit_code, node_rank, nnodes;
    uint32_t attempt;
    uint64_t commit_step; /* 0: none */
};

struct env {
    char **list;   /* "name=value", ended by NULL */
    char *own_pid; /* in the list, for the child to write its pid to; NULL: no variable wants it */
    void *texts;
};

/* Of names that are there twice the last one wins, as is written in `inherited`; PCHRUN_* and
 * NOTIFY_SOCKET are left out; LISTEN_PID follows the command if it named us. */
MUST_CHECK bool env_build(struct env *env, char **inherited, const struct env_facts *facts,
                          struct err *err);
/* The same for that program: it gets these facts instead. */
MUST_CHECK bool env_build_end(struct env *env, char **inherited, const struct env_end *facts,
                              struct err *err);
void env_free(struct env *env);
/* Nothing of what a program was started with is in use any more: env_free(), and spawn_release() of
 * *start, which becomes NULL. */
void env_release(struct env *env, struct spawn_start **start);

/* What torchrun is told: as long as we ourselves may take; 0: the variable is the user's. */
int env_shutdown_s(const struct config *config);

#endif
