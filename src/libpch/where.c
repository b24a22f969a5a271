/* SPDX-License-Identifier: Apache-2.0
 * See where.h.
 */
#include "libpch/where.h"

#include "base/str.h"
#include "wire/procmsg.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static const struct {
    const char *rank, *local_rank, *world_size, *local_world_size;
    bool may_be_inner; /* its launcher usually runs below pchrun */
} families[] = {
    {"PCH_RANK", "PCH_LOCAL_RANK", "PCH_WORLD_SIZE", "PCH_LOCAL_WORLD_SIZE", false},
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", true},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE", true},
    {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", false},
};

static int where_number(const char *name)
{
    int64_t v;
    const char *text = getenv(name);
    return text && str_to_i64(text, 0, INT_MAX, &v) ? (int)v : PROCMSG_UNKNOWN;
}

struct where where_by_env(void)
{
    struct where found = {PROCMSG_UNKNOWN, PROCMSG_UNKNOWN, PROCMSG_UNKNOWN, PROCMSG_UNKNOWN};
    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        struct where w = {where_number(families[i].rank), where_number(families[i].local_rank),
                          where_number(families[i].world_size),
                          where_number(families[i].local_world_size)};
        bool is_first = found.rank == PROCMSG_UNKNOWN;
        bool is_inner = families[i].may_be_inner && found.world_size != PROCMSG_UNKNOWN &&
                        w.world_size > found.world_size;
        if (w.rank != PROCMSG_UNKNOWN && (is_first || is_inner))
            found = w;
    }
    return found;
}

uint64_t where_resume_step(void)
{
    int64_t v;
    const char *text = getenv("PCH_RESUME_STEP");
    return text && str_to_i64(text, 0, INT64_MAX, &v) ? (uint64_t)v : 0;
}
