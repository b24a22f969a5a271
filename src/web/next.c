/* SPDX-License-Identifier: Apache-2.0
 * See next.h.
 */
#include "web/next.h"

#include "base/str.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

struct next {
    const struct identity *job;
    int wanted;             /* the node; below 0: any */
    char dir[FIND_DIR_MAX]; /* of the lowest node so far; "": none */
    int64_t node;
    bool is_twice; /* two pchruns are that node */
    int64_t other; /* the process of a pchrun of another job with this name; 0: none */
};

static void next_weigh(struct next *next, const char *dir, const struct json *answer)
{
    struct identity found;
    int64_t node = json_int_at(answer, "report.node_rank", -1);
    identity_take(answer, &found);
    if (!str_is(found.name, next->job->name) || (next->wanted >= 0 && node != next->wanted))
        return;
    if (!identity_is_same(&found, next->job)) {
        next->other = json_int_at(answer, "pid", 0);
    } else if (!next->dir[0] || node < next->node) {
        str_copy(next->dir, sizeof next->dir, dir);
        next->node = node;
        next->is_twice = false;
    } else if (node == next->node) {
        next->is_twice = true;
    }
}

static void next_ask(void *next, const char *dir)
{
    struct answer answer;
    struct err err;
    if (ask(dir, CONTROL_STATUS, NULL, &answer, &err))
        next_weigh(next, dir, answer.root);
    answer_free(&answer);
}

bool next_find(const struct identity *job, int node, const char *parent, char ret[FIND_DIR_MAX],
               char why[NEXT_WHY_MAX])
{
    struct next next = {.job = job, .wanted = node};
    find_each(parent, next_ask, &next);
    why[0] = '\0';
    if (next.is_twice)
        str_addf(why, NEXT_WHY_MAX, "two pchruns here could be its next attempt: end one of them");
    else if (!next.dir[0] && next.other)
        str_addf(why, NEXT_WHY_MAX,
                 "process %lld here runs another job named %.64s; start pchrun-web again to see it",
                 (long long)next.other, job->name);
    str_copy(ret, FIND_DIR_MAX, next.is_twice ? "" : next.dir);
    return ret[0];
}

static bool is_same_dir(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool next_has_state_dir(const char *dir, const char *state_dir, struct err *err)
{
    struct answer answer;
    char below[PATH_MAX];
    snprintf(below, sizeof below, "%s/.pchrun", state_dir);
    bool ok = ask(dir, CONTROL_STATUS, NULL, &answer, err);
    const char *has = ok ? json_text_at(answer.root, "state_dir") : "";
    if (ok && !is_same_dir(has, state_dir) && !is_same_dir(has, below))
        ok = err_set(err, ERR_USAGE, 0,
                     "the pchrun here, process %d, has another state directory%s%.80s",
                     (int)json_int_at(answer.root, "pid", 0), *has ? ": " : "", has);
    answer_free(&answer);
    return ok;
}
