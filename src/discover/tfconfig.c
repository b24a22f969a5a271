/* SPDX-License-Identifier: Apache-2.0
 *
 * tfconfig: TF_CONFIG, the JSON text that describes the tasks of a TensorFlow job.
 *
 * The chief (or "master") and the workers are nodes, in this order. An evaluator is not part of the
 * cluster and runs by itself. Parameter servers take no steps that others could wait for, so a job
 * that has them is refused. The ports belong to TensorFlow. See vars.h.
 */
#include "base/str.h"
#include "discover/vars.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

#define NAME "TF_CONFIG"

/* The tasks of a type in "cluster" are a list, or an object with indices as keys. */
static int count_tasks(const struct json *cluster, const char *type)
{
    int n = 0;
    const struct json *tasks = json_find(cluster, type);
    for (const struct json *at = json_first(tasks); at; at = json_next(at))
        n++;
    return n;
}

static bool read_index(const struct json *task, int *ret)
{
    const struct json *index = json_find(task, "index");
    const char *text = json_text(index);
    int64_t number = 0;
    if (index && !json_int(index, &number) && !(text && str_to_i64(text, 0, INT32_MAX, &number)))
        return false;
    if (number < 0 || number >= DISCOVER_NODES_MAX)
        return false;
    *ret = (int)number;
    return true;
}

/* The task with index 0, whether the tasks are a list or an object. */
static const char *first_address(const struct json *tasks)
{
    const struct json *zero =
        json_kind(tasks) == JSON_IS_OBJECT ? json_find(tasks, "0") : json_first(tasks);
    return json_text(zero);
}

static bool take_chief(const struct json *tasks, struct discovery *ret, struct err *err)
{
    struct address address;
    char port[16];
    const char *text = first_address(tasks);
    if (!text)
        return err_set(err, ERR_USAGE, 0, NAME ": the address of \"%s\" 0 is missing",
                       json_key(tasks));
    if (!address_parse(text, 0, &address, err) ||
        !vars_take_chief(ret, text, "the first task of " NAME, err))
        return err_wrap(err, NAME);
    snprintf(port, sizeof port, "%d", address.port);
    if (address.port > 0)
        vars_take_port(ret, (uint64_t)address.port, "the port of the first task of " NAME, port);
    return true;
}

static bool place_task(const struct json *cluster, const char *type, int index,
                       struct discovery *ret, struct err *err)
{
    const char *head = count_tasks(cluster, "chief") > 0 ? "chief" : "master";
    int heads = count_tasks(cluster, head), workers = count_tasks(cluster, "worker");
    bool is_worker = str_is(type, "worker");
    if (!is_worker && !str_is(type, head))
        return err_set(err, ERR_USAGE, 0,
                       NAME ": the task's type is \"%.40s\", which is not in "
                            "the cluster",
                       type);
    if (index >= (is_worker ? workers : heads) || heads > 1 || heads + workers > DISCOVER_NODES_MAX)
        return err_set(err, ERR_USAGE, 0,
                       NAME ": the task is \"%s\" %d, but the cluster has %d \"%s\" and %d "
                            "\"worker\"",
                       type, index, heads, head, workers);
    ret->nnodes = heads + workers;
    ret->node_rank = index + (is_worker ? heads : 0);
    snprintf(ret->nnodes_why, sizeof ret->nnodes_why, NAME " has %d \"%s\", %d \"worker\"", heads,
             head, workers);
    snprintf(ret->node_rank_why, sizeof ret->node_rank_why, NAME "'s task is \"%s\" %d", type,
             index);
    return ret->nnodes == 1 ||
           take_chief(json_find(cluster, heads > 0 ? head : "worker"), ret, err);
}

/* A malformed TF_CONFIG is an error: if it counted as missing, every task would run alone. */
static bool check_kinds(const struct json *root, const struct json *cluster, struct err *err)
{
    if (json_kind(root) != JSON_IS_OBJECT)
        return err_set(err, ERR_USAGE, 0, NAME " is %s; an object is wanted", json_kind_name(root));
    if (!cluster || json_kind(cluster) == JSON_IS_NULL)
        return true;
    if (json_kind(cluster) != JSON_IS_OBJECT)
        return err_set(err, ERR_USAGE, 0, NAME ": the \"cluster\" is %s; an object is wanted",
                       json_kind_name(cluster));
    for (const struct json *at = json_first(cluster); at; at = json_next(at))
        if (json_kind(at) != JSON_IS_LIST && json_kind(at) != JSON_IS_OBJECT)
            return err_set(err, ERR_USAGE, 0,
                           NAME
                           ": \"%.40s\" in the \"cluster\" is %s; a list of addresses is wanted",
                           json_key(at), json_kind_name(at));
    return true;
}

static bool read(const struct json *root, struct discovery *ret, struct err *err)
{
    const struct json *cluster = json_find(root, "cluster");
    const struct json *task = json_find(root, "task");
    const char *type = json_text(json_find(task, "type"));
    int index;
    if (!check_kinds(root, cluster, err))
        return false;
    if (!cluster || !json_first(cluster)) /* without a cluster TensorFlow itself runs alone */
        return true;
    if (!type)
        return err_set(err, ERR_USAGE, 0,
                       NAME " has a \"cluster\", but no \"task\" with a \"type\"");
    if (!read_index(task, &index))
        return err_set(err, ERR_USAGE, 0,
                       NAME ": the \"index\" of the \"task\" is not a whole number");
    if (str_is(type, "evaluator")) {
        ret->nnodes = 1;
        str_copy(ret->nnodes_why, sizeof ret->nnodes_why, NAME "'s task is \"evaluator\"");
        return true;
    }
    if (str_is(type, "ps") || count_tasks(cluster, "ps") > 0)
        return err_set(err, ERR_USAGE, 0,
                       NAME " has parameter servers (\"ps\"), which save at no common step");
    return place_task(cluster, type, index, ret, err);
}

bool find_tf_config(const struct place *place, struct discovery *ret, struct err *err)
{
    const char *text = vars_get(place, NAME);
    JSON_CLEANUP struct json *root = json_read(NAME, text, strlen(text), err);
    return root && read(root, ret, err);
}
