/* SPDX-License-Identifier: Apache-2.0
 *
 * env: the environment of one command: pchrun's own plus the job's variables, without those that
 * were meant for pchrun alone. Also the environment of exit.hook. Owns its memory: env_free(). Main
 * thread, before fork.
 */
#pragma once

#include "config/config.h"
#include "core/common/action.h"
#include "core/common/params.h"
#include "os/spawn.h"

#include <stdint.h>

/* The time that torchrun by default gives its workers after a SIGTERM. With less time, they may be
 * killed in the middle of a save. PyTorch reads the variable from 2.12 on. */
#define ENV_SHUTDOWN   "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
#define ENV_SHUTDOWN_S 30

struct env_facts {
    const struct core_params *params;
    const struct action *start; /* ACT_START */
    int index;                  /* of this command on its node */
    bool with_ranks;            /* set RANK and the like, too: the user gave -n */
    const char *socket, *resume_path, *error_file, *checkpoint_dir; /* NULL: none */
    const char *python_path; /* with --instrument; NULL: the variable is the user's */
    /* With with_ranks: where the ranks meet. NULL and 0: the variables are the user's. */
    const char *master_addr;
    uint16_t master_port;
    const char
        *traces;    /* where PyTorch's flight recorder puts its files; NULL: no output is kept */
    int shutdown_s; /* the value of ENV_SHUTDOWN; 0: the user has set it */
};

/* For the program of exit.hook. */
struct env_end {
    const char *job, *outcome, *commit_path; /* commit_path: NULL: none */
    const char *notice_source, *notice_id;   /* "": none */
    int exit_code, node_rank, nnodes;
    const char *unhealthy_hosts; /* "": none */
    int cause_node;              /* where the first failure was; -1: nothing has failed */
    uint32_t attempt;
    uint64_t commit_step; /* 0: none */
};

/* Has pointers into itself: do not copy or move it. */
struct env {
    char **list;   /* "name=value", ended by NULL */
    char *own_pid; /* in the list: the child writes its pid there; NULL: no variable needs it */
    /* private from here on */
    char **room, *texts;
    char listen_pid[sizeof "LISTEN_PID=" + SPAWN_PID_SIZE];
};

/* If `inherited` names a variable twice, the last one counts. Leaves out PCHRUN_* and
 * NOTIFY_SOCKET. A LISTEN_PID that names pchrun is changed to the command's pid. */
MUST_CHECK bool env_build(struct env *env, char **inherited, const struct env_facts *facts,
                          struct err *err);
/* Like env_build(), but for the program of exit.hook, with the facts of the job's end. */
MUST_CHECK bool env_build_end(struct env *env, char **inherited, const struct env_end *facts,
                              struct err *err);
void env_free(struct env *env);

/* The rank of this node's command `index`, if each command is a rank. */
int env_rank(const struct core_params *params, int index);

/* The value of ENV_SHUTDOWN: the seconds that pchrun itself may take; 0: the user has set it. */
int env_shutdown_s(const struct config *config);
/* The value of PYTHONPATH for option `instrument`: our folder, then `inherited` (NULL: none). Every
 * Python interpreter then runs sitecustomize.py of that folder (contrib/python/instrument), which
 * attaches the program. The caller frees the value. NULL: a file of pchrun is missing, see *err. */
MUST_CHECK char *env_python_path(const char *inherited, struct err *err);
