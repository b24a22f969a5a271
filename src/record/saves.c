/* SPDX-License-Identifier: Apache-2.0
 * See saves.h.
 */
#include "record/saves.h"

#include "base/str.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_step(struct saves_step *step)
{
    for (int i = 0; i < step->nranks; i++)
        free(step->ranks[i].path);
    free(step->ranks);
}

static void saves_forget(struct saves *saves, int at)
{
    free_step(&saves->steps[at]);
    saves->n--;
    memmove(saves->steps + at, saves->steps + at + 1,
            (size_t)(saves->n - at) * sizeof saves->steps[0]);
}

void saves_free(struct saves *saves)
{
    while (saves->n > 0)
        saves_forget(saves, saves->n - 1);
}

void saves_trim(struct saves *saves, int keep)
{
    int old = 0;
    while (old < saves->n && saves->steps[old].step <= saves->committed)
        old++;
    for (; old > keep; old--)
        saves_forget(saves, 0);
}

void saves_forget_newer(struct saves *saves, uint64_t step)
{
    while (saves->n > 0 && saves->steps[saves->n - 1].step > step)
        saves_forget(saves, saves->n - 1);
}

uint64_t saves_newest(const struct saves *saves)
{
    return saves->n > 0 ? saves->steps[saves->n - 1].step : 0;
}

const struct saves_step *saves_find(const struct saves *saves, uint64_t step)
{
    for (int i = 0; i < saves->n; i++)
        if (saves->steps[i].step == step)
            return &saves->steps[i];
    return NULL;
}

/* The oldest step that is neither held nor committed. At most two are held, and one is committed.
 */
static int oldest_free(const struct saves *saves)
{
    _Static_assert(SAVES_STEPS > 3, "one step of a full list is free");
    int at = 0;
    while (saves->steps[at].is_held || saves->steps[at].step == saves->committed)
        at++;
    return at;
}

void saves_hold(struct saves *saves, uint64_t step, uint64_t own)
{
    for (int i = 0; i < saves->n; i++) {
        struct saves_step *s = &saves->steps[i];
        s->is_held = s->step == step || s->step == own;
    }
}

/* The entry of this step, added in ascending order if it is new. */
static struct saves_step *saves_place_of(struct saves *saves, uint64_t step)
{
    const struct saves_step *known = saves_find(saves, step);
    if (known)
        return &saves->steps[known - saves->steps];
    if (saves->n == SAVES_STEPS)
        saves_forget(saves, oldest_free(saves));
    int at = 0;
    while (at < saves->n && saves->steps[at].step < step)
        at++;
    memmove(&saves->steps[at + 1], &saves->steps[at],
            (size_t)(saves->n - at) * sizeof saves->steps[0]);
    saves->n++;
    saves->steps[at] = (struct saves_step){.step = step};
    return &saves->steps[at];
}

static struct saves_rank *saves_rank_of(struct saves_step *step, int rank)
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

bool saves_add(struct saves *saves, uint64_t step, int world, int rank, const char *path)
{
    char *copy = path && path[0] ? strdup(path) : NULL;
    struct saves_step *at = saves_place_of(saves, step);
    struct saves_rank *place = saves_rank_of(at, rank);
    if (world > 0)
        at->world = world;
    if (!place || (path && path[0] && !copy)) {
        free(copy);
        return false;
    }
    free(place->path);
    place->path = copy;
    return true;
}

int saves_missing(const struct saves_step *step)
{
    bool is_known = true;
    int rank = 0;
    for (; rank < step->world && is_known; rank++)
        saves_path(step, rank, &is_known);
    return is_known ? -1 : rank - 1;
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

const char *saves_common_path(const struct saves_step *step)
{
    const char *path = NULL;
    for (int i = 0; step && i < step->nranks; i++) {
        const char *other = step->ranks[i].path;
        if (path && other && strcmp(path, other) != 0)
            return NULL;
        path = other ? other : path;
    }
    return path;
}

const char *saves_any_path(const struct saves_step *step)
{
    const struct saves_rank *lowest = NULL;
    for (int i = 0; step && i < step->nranks; i++)
        if (step->ranks[i].path && (!lowest || step->ranks[i].rank < lowest->rank))
            lowest = &step->ranks[i];
    return lowest ? lowest->path : NULL;
}

/* Ranks without a path first, then by path, then by rank. */
static int compare_paths(const void *left, const void *right)
{
    const struct saves_rank *a = left, *b = right;
    int order = a->path && b->path ? strcmp(a->path, b->path) : !!a->path - !!b->path;
    return order ? order : a->rank - b->rank;
}

int saves_least_world(const struct saves_step *step)
{
    if (!step || !saves_any_path(step) || saves_common_path(step))
        return 0;
    int least = 0, n = step->nranks;
    struct saves_rank *sorted = NULL;
    if (saves_missing(step) < 0)
        sorted = malloc((size_t)n * sizeof sorted[0]);
    if (!sorted)
        return step->world;
    memcpy(sorted, step->ranks, (size_t)n * sizeof sorted[0]);
    qsort(sorted, (size_t)n, sizeof sorted[0], compare_paths);
    for (int i = 0; i < n; i++)
        if (sorted[i].path && sorted[i].rank >= least &&
            (i == 0 || !sorted[i - 1].path || strcmp(sorted[i - 1].path, sorted[i].path) != 0))
            least = sorted[i].rank + 1;
    free(sorted);
    return least;
}

const char *saves_below(const char *dir, const char *path)
{
    size_t len = dir ? strlen(dir) : 0;
    while (len > 1 && dir[len - 1] == '/')
        len--;
    if (len == 0 || strncmp(path, dir, len) != 0 || (len > 1 && path[len] && path[len] != '/'))
        return NULL;
    path += len + strspn(path + len, "/");
    if (strstr(path, "..") || str_is_url(path))
        return NULL;
    return path[0] ? path : ".";
}

bool saves_names_below(const struct saves_step *step, const char *dir)
{
    for (int i = 0; i < step->nranks; i++)
        if (step->ranks[i].path && saves_below(dir, step->ranks[i].path))
            return true;
    return false;
}

static void write_path(struct writer *w, const char *dir, const char *path)
{
    char hex[2 * PATH_MAX + 1] = "";
    size_t n = 0;
    const char *relative = path ? saves_below(dir, path) : NULL;
    path = relative ? relative : path;
    if (!path || str_is_utf8(path)) {
        writer_text(w, "path", path);
        return;
    }
    for (const unsigned char *p = (const unsigned char *)path; *p && n + 2 < sizeof hex;
         p++, n += 2)
        snprintf(hex + n, sizeof hex - n, "%02x", *p);
    writer_text(w, "path_hex", hex);
}

void saves_write(const struct saves *saves, const char *dir, struct writer *w, uint64_t newest)
{
    writer_list(w, "saves");
    if (newest < saves->committed)
        newest = saves->committed;
    for (int i = 0; i < saves->n && saves->steps[i].step <= newest; i++) {
        writer_object(w, NULL);
        writer_int(w, "step", (int64_t)saves->steps[i].step);
        if (saves->steps[i].world > 0)
            writer_int(w, "world", saves->steps[i].world);
        writer_list(w, "ranks");
        for (int k = 0; k < saves->steps[i].nranks; k++) {
            writer_object(w, NULL);
            writer_int(w, "rank", saves->steps[i].ranks[k].rank);
            write_path(w, dir, saves->steps[i].ranks[k].path);
            writer_end(w);
        }
        writer_end(w);
        writer_end(w);
    }
    writer_end(w);
}

static int hex_value(char digit)
{
    const char *digits = "0123456789abcdef", *at = digit ? strchr(digits, digit) : NULL;
    return at ? (int)(at - digits) : -1;
}

static bool read_hex(const char *hex, char path[PATH_MAX])
{
    size_t n = 0;
    while (hex[0] && n + 1 < PATH_MAX) {
        int high = hex_value(hex[0]), low = high < 0 ? -1 : hex_value(hex[1]);
        if (low < 0 || (high == 0 && low == 0))
            return false;
        path[n++] = (char)(high << 4 | low);
        hex += 2;
    }
    path[n] = '\0';
    return !hex[0] && n > 0;
}

/* False: the path below `dir` is too long. */
static bool make_absolute(const char *dir, char room[PATH_MAX], const char **path)
{
    char full[PATH_MAX] = "";
    bool is_dir = *path && str_is(*path, ".");
    if (!dir || !*path || !(*path)[0] || (*path)[0] == '/' || str_is_url(*path))
        return true;
    if (!str_addf(full, sizeof full, "%s%s%s", dir, is_dir ? "" : "/", is_dir ? "" : *path))
        return false;
    *path = memcpy(room, full, sizeof full);
    return true;
}

/* *ret NULL: the rank named no path. */
static bool read_path(const struct json *item, char room[PATH_MAX], const char **ret)
{
    const struct json *path = json_find(item, "path");
    const char *hex = json_text(json_find(item, "path_hex"));
    *ret = path ? json_text(path) : NULL;
    if (path || !hex)
        return *ret || (path && json_kind(path) == JSON_IS_NULL);
    *ret = room;
    return read_hex(hex, room);
}

/* `of`: the step and the world. */
static bool read_rank(struct saves *saves, const char *dir, const struct saves_step *of,
                      const struct json *item)
{
    char room[PATH_MAX];
    const char *path;
    int64_t rank;
    return json_int(json_find(item, "rank"), &rank) && rank >= 0 && rank <= INT_MAX &&
           read_path(item, room, &path) && make_absolute(dir, room, &path) &&
           saves_add(saves, of->step, of->world, (int)rank, path);
}

/* json_first() also finds the members of an object, which is not a list. */
static bool is_list(const struct json *value)
{
    return value && json_kind(value) == JSON_IS_LIST;
}

static bool read_step(struct saves *saves, const char *dir, const struct json *item)
{
    int64_t step, size = 0;
    const struct json *ranks = json_find(item, "ranks"), *world = json_find(item, "world");
    if (!json_int(json_find(item, "step"), &step) || step <= 0 || !is_list(ranks) ||
        (world && (!json_int(world, &size) || size <= 0 || size > INT_MAX)))
        return false;
    struct saves_step of = {.step = (uint64_t)step, .world = (int)size};
    for (const struct json *rank = json_first(ranks); rank; rank = json_next(rank))
        if (!read_rank(saves, dir, &of, rank))
            return false;
    return true;
}

bool saves_read(struct saves *saves, const char *dir, const char *name, const struct json *object,
                struct err *err)
{
    const struct json *list = json_find(object, "saves");
    if (!is_list(list))
        return err_set(err, ERR_USAGE, 0, "%s has no list \"saves\"", name);
    size_t n = 1;
    for (const struct json *item = json_first(list); item; item = json_next(item), n++)
        if (!read_step(saves, dir, item))
            return err_set(err, ERR_USAGE, 0, "%s: saves: item %zu is not the save of a step", name,
                           n);
    return true;
}
