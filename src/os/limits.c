/* SPDX-License-Identifier: Apache-2.0
 * See limits.h.
 */
#include "os/limits.h"

#include <sys/resource.h>

static struct rlimit original;
static bool is_raised;

static int64_t limits_number(rlim_t value)
{
    return value < INT32_MAX ? (int64_t)value : INT32_MAX;
}

int64_t limits_files(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limits_number(limit.rlim_cur) : INT32_MAX;
}

int64_t limits_files_hard(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limits_number(limit.rlim_max) : INT32_MAX;
}

void limits_want(int64_t files)
{
    if (is_raised || getrlimit(RLIMIT_NOFILE, &original) != 0 ||
        limits_number(original.rlim_cur) >= files)
        return;
    struct rlimit wanted = original;
    wanted.rlim_cur = limits_number(original.rlim_max) < files ? original.rlim_max : (rlim_t)files;
    is_raised = setrlimit(RLIMIT_NOFILE, &wanted) == 0;
}

void limits_restore(void)
{
    if (is_raised)
        setrlimit(RLIMIT_NOFILE, &original);
}
