/* SPDX-License-Identifier: Apache-2.0
 *
 * env: the environment of one command: pchrun's own plus the job's variables, without those that
 * were meant for pchrun alone. Also the environment of the program that runs at the end. Owns its
 * memory: env_free(). Main thread, before fork.
 */
#pragma once

#include "config/config.h"
#include "core/common/action.h"
#include "core/common/params.h"
#include "os/spawn.h"

#include <stdint.h>

/* How long torchrun leaves its workers after a SIGTERM by default. With less time, they may be
 * killed in the middle of a save. PyTorch reads the variable from 2.12 on. */
#define ENV_SHUTDOWN   "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
#define ENV_SHUTDOWN_S 30

struct env_facts {
    const struct core_params *params;
    const struct action *start; /* ACT_START */
    int index;                  /* of this command on its node */
    bool with_ranks;            /* set RANK and the like, too: the user gave -n */
    const char *socket, *resume_path, *error_file; /* NULL: none */
    /* For a Python program with --instrument; NULL: the variables are the user's. */
    const char *python_path, *checkpoint_dir;
    /* With with_ranks: where the ranks meet. NULL and 0: the variables are the user's. */
    const char *master_addr;
    uint16_t master_port;
    int shutdown_s; /* how long torchrun leaves its workers to end; 0: the user's variable */
};

/* For the program of exit.hook. */
struct env_end {
    const char *job, *outcome, *commit_path; /* commit_path: NULL: none */
    const char *notice_source, *notice_id;   /* "": none */
    int exit_code, node_rank, nnodes;
    uint32_t attempt;
    uint64_t commit_step; /* 0: none */
};

/* Refers to itself: it must stay where it is. */
struct env {
    char **list;   /* "name=value", ended by NULL */
    char *own_pid; /* in the list: the child writes its pid there; NULL: no variable needs it */
    /* private from here on */
    char **room, *texts;
    char listen_pid[sizeof "LISTEN_PID=" + SPAWN_PID_SIZE];
};

/* If `inherited` names a variable twice, the last one counts. Leaves out PCHRUN_* and
 * NOTIFY_SOCKET. If LISTEN_PID named pchrun, it names the command. */
MUST_CHECK bool env_build(struct env *env, char **inherited, const struct env_facts *facts,
                          struct err *err);
/* The same for the program of exit.hook, with these facts instead. */
MUST_CHECK bool env_build_end(struct env *env, char **inherited, const struct env_end *facts,
                              struct err *err);
void env_free(struct env *env);

/* The rank of this node's command `index`, if each command is a rank. */
int env_rank(const struct core_params *params, int index);

/* The seconds for ENV_SHUTDOWN: as long as pchrun itself may take; 0: the variable is the user's.
 */
int env_shutdown_s(const struct config *config);
/* The value of PYTHONPATH with which an unchanged Python program takes part (option `instrument`):
 * our folder, then `inherited` (NULL: none). The folder's sitecustomize.py does the rest in every
 * interpreter (contrib/python/instrument). The caller frees it. NULL: pchrun is not installed as a
 * whole, see *err. */
MUST_CHECK char *env_python_path(const char *inherited, struct err *err);
