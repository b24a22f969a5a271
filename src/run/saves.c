/* SPDX-License-Identifier: Apache-2.0
 * See saves.h.
 */
#include "run/saves.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void free_step(struct saves_step *step)
{
    for (int i = 0; i < step->nranks; i++)
        free(step->ranks[i].path);
    free(step->ranks);
}

void saves_free(struct saves *saves)
{
    saves_trim(saves, 0);
}

void saves_trim(struct saves *saves, int keep)
{
    while (saves->n > keep) {
        free_step(&saves->steps[0]);
        saves->n--;
        memmove(saves->steps, saves->steps + 1, (size_t)saves->n * sizeof saves->steps[0]);
    }
}

const struct saves_step *saves_find(const struct saves *saves, uint64_t step)
{
    for (int i = 0; i < saves->n; i++)
        if (saves->steps[i].step == step)
            return &saves->steps[i];
    return NULL;
}

/* The place of this step, made if it is new, in ascending order. */
static struct saves_step *place_of(struct saves *saves, uint64_t step)
{
    int at = 0;
    while (at < saves->n && saves->steps[at].step < step)
        at++;
    if (at < saves->n && saves->steps[at].step == step)
        return &saves->steps[at];
    if (saves->n == SAVES_STEPS) {
        saves_trim(saves, SAVES_STEPS - 1);
        at -= at > 0;
    }
    memmove(&saves->steps[at + 1], &saves->steps[at],
            (size_t)(saves->n - at) * sizeof saves->steps[0]);
    saves->n++;
    saves->steps[at] = (struct saves_step){.step = step};
    return &saves->steps[at];
}

static struct saves_rank *rank_of(struct saves_step *step, int rank)
{
    for (int i = 0; i < step->nranks; i++)
        if (step->ranks[i].rank == rank)
            return &step->ranks[i];
    struct saves_rank *ranks =
        realloc(step->ranks, ((size_t)step->nranks + 1) * sizeof step->ranks[0]);
    if (!ranks)
        return NULL;
    step->ranks = ranks;
    ranks[step->nranks] = (struct saves_rank){.rank = rank};
    return &ranks[step->nranks++];
}

bool saves_add(struct saves *saves, uint64_t step, int rank, const char *path)
{
    char *copy = path && path[0] ? strdup(path) : NULL;
    struct saves_rank *place = rank_of(place_of(saves, step), rank);
    if (!place || (path && path[0] && !copy)) {
        free(copy);
        return false;
    }
    free(place->path);
    place->path = copy;
    return true;
}

const char *saves_path(const struct saves_step *step, int rank, bool *ret_known)
{
    *ret_known = false;
    for (int i = 0; step && i < step->nranks; i++)
        if (step->ranks[i].rank == rank) {
            *ret_known = true;
            return step->ranks[i].path;
        }
    return NULL;
}

const char *saves_any_path(const struct saves_step *step)
{
    const struct saves_rank *lowest = NULL;
    for (int i = 0; step && i < step->nranks; i++)
        if (step->ranks[i].path && (!lowest || step->ranks[i].rank < lowest->rank))
            lowest = &step->ranks[i];
    return lowest ? lowest->path : NULL;
}

void saves_write(const struct saves *saves, struct writer *w, uint64_t newest)
{
    writer_list(w, "saves");
    for (int i = 0; i < saves->n && saves->steps[i].step <= newest; i++) {
        writer_object(w, NULL);
        writer_int(w, "step", (int64_t)saves->steps[i].step);
        writer_list(w, "ranks");
        for (int k = 0; k < saves->steps[i].nranks; k++) {
            writer_object(w, NULL);
            writer_int(w, "rank", saves->steps[i].ranks[k].rank);
            writer_text(w, "path", saves->steps[i].ranks[k].path);
            writer_end(w);
        }
        writer_end(w);
        writer_end(w);
    }
    writer_end(w);
}

static bool read_rank(struct saves *saves, uint64_t step, const struct json *item)
{
    int64_t rank;
    const struct json *path = json_find(item, "path");
    bool is_null = path && json_kind(path) == JSON_IS_NULL;
    return json_int(json_find(item, "rank"), &rank) && (is_null || json_text(path)) &&
           saves_add(saves, step, (int)rank, is_null ? NULL : json_text(path));
}

static bool read_step(struct saves *saves, const struct json *item)
{
    int64_t step;
    if (!json_int(json_find(item, "step"), &step) || step < 0)
        return false;
    const struct json *ranks = json_find(item, "ranks");
    for (const struct json *rank = ranks ? json_first(ranks) : NULL; rank; rank = json_next(rank))
        if (!read_rank(saves, (uint64_t)step, rank))
            return false;
    return ranks != NULL;
}

bool saves_read(struct saves *saves, const char *name, const struct json *object, struct err *err)
{
    const struct json *list = json_find(object, "saves");
    if (!list)
        return err_set(err, ERR_USAGE, 0, "%s has no \"saves\"", name);
    for (const struct json *item = json_first(list); item; item = json_next(item))
        if (!read_step(saves, item))
            return err_set(err, ERR_USAGE, 0, "%s:%u:%u: not the save of a step", name,
                           json_line(item), json_column(item));
    return true;
}
