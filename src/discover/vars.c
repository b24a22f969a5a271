/* SPDX-License-Identifier: Apache-2.0
 * See vars.h.
 */
#include "discover/vars.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>

const char *vars_get(const struct place *place, const char *name)
{
    const char *value = str_variable(place->env, name);
    return value && *value ? value : NULL;
}

const char *vars_need(const struct place *place, const char *name, const char *with,
                      struct err *err)
{
    const char *text = vars_get(place, name), *other = vars_get(place, with);
    if (!text && other)
        err_set(err, ERR_NOT_FOUND, 0, "%s is set (%.60s), but %s is not", with, other, name);
    else if (!text)
        err_set(err, ERR_NOT_FOUND, 0, "neither %s nor %s is set", with, name);
    return text;
}

static bool read_whole(const struct place *place, const char *name, int64_t max, int64_t *ret,
                       struct err *err)
{
    const char *text = vars_get(place, name);
    return str_to_i64(text, 0, max, ret) ||
           err_set(err, ERR_USAGE, 0,
                   "%s is '%.60s', which is not a whole number from 0 to %" PRId64, name, text,
                   max);
}

bool vars_number_if_set(const struct place *place, const char *name, int *ret, struct err *err)
{
    int64_t number;
    if (!vars_get(place, name))
        return true;
    if (!read_whole(place, name, INT32_MAX, &number, err))
        return false;
    *ret = (int)number;
    return true;
}

bool vars_number(const struct place *place, const char *name, const char *with, int *ret,
                 struct err *err)
{
    return vars_need(place, name, with, err) && vars_number_if_set(place, name, ret, err);
}

bool vars_id(const struct place *place, const char *name, const char *with, uint64_t *ret,
             struct err *err)
{
    int64_t number;
    if (!vars_need(place, name, with, err) || !read_whole(place, name, INT64_MAX, &number, err))
        return false;
    *ret = (uint64_t)number;
    return true;
}

bool vars_take_nodes(const struct place *place, const char *count, const char *rank,
                     struct discovery *ret, struct err *err)
{
    int n = 0, i = 0;
    if (!vars_number(place, count, rank, &n, err))
        return false;
    ret->nnodes = n; /* set before the checks: discover_find() uses it even if the node rank is
                      * missing */
    if (!vars_number(place, rank, count, &i, err))
        return false;
    if (n < 1 || n > DISCOVER_NODES_MAX)
        return err_set(err, ERR_USAGE, 0, "%s is %d; a job has 1 to %d nodes", count, n,
                       DISCOVER_NODES_MAX);
    if (i >= n)
        return err_set(err, ERR_USAGE, 0, "%s is %d, but %s is %d, and ranks count from 0", rank, i,
                       count, n);
    ret->node_rank = i;
    snprintf(ret->nnodes_why, sizeof ret->nnodes_why, "%s is %d", count, n);
    snprintf(ret->node_rank_why, sizeof ret->node_rank_why, "%s is %d", rank, i);
    return true;
}

bool vars_take_chief(struct discovery *ret, const char *text, const char *variable, struct err *err)
{
    struct address address;
    if (!address_parse(text, 1, &address, err))
        return err_wrap(err, "%s", variable);
    str_copy(ret->chief, sizeof ret->chief, address.host);
    snprintf(ret->chief_why, sizeof ret->chief_why, "%s is %.100s", variable, text);
    return true;
}

void vars_take_loopback(struct discovery *ret, const char *why)
{
    str_copy(ret->chief, sizeof ret->chief, "127.0.0.1");
    snprintf(ret->chief_why, sizeof ret->chief_why, "all are on this machine: %s", why);
}

void vars_take_port(struct discovery *ret, uint64_t number, const char *variable, const char *id)
{
    ret->port = DISCOVER_PORT_FIRST + (int)(number % DISCOVER_PORTS);
    snprintf(ret->port_why, sizeof ret->port_why, "%s is %.60s", variable, id);
}
