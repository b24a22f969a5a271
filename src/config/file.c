/* SPDX-License-Identifier: Apache-2.0
 * See sources.h.
 */
#include "base/str.h"
#include "config/origin.h"
#include "config/show.h"
#include "config/sources.h"
#include "config/values.h"
#include "json/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The file being read. */
struct file {
    const char *path;
    char *folder; /* absolute, for relative paths in it */
    struct config *config;
};

/* Puts "run7.json:3:5: " before the error. Returns false. */
static bool at(const struct file *file, const struct json *json, struct err *err)
{
    return err_wrap(err, "%.200s:%u:%u", file->path, json_line(json), json_column(json));
}

static bool apply_option(const struct file *file, const struct option *option,
                         const struct json *json, struct err *err)
{
    char where[256];
    snprintf(where, sizeof where, "file %.200s:%u", file->path, json_line(json));
    if (!origin_set(file->config, option, FROM_FILE, where, err))
        return false;
    struct place place = {.folder = file->folder};
    if (value_from_json(option, json, &place, file->config, err))
        return true;
    err_wrap(err, "%s", option->key);
    return at(file, place.at, err);
}

static bool apply_group(const struct file *file, const char *name, const struct json *json,
                        struct err *err)
{
    if (json_kind(json) != JSON_IS_OBJECT) {
        err_set(err, ERR_USAGE, 0, "%s: an object is wanted, not %s", name, json_kind_name(json));
        return at(file, json, err);
    }
    for (const struct json *member = json_first(json); member; member = json_next(member)) {
        char key[2 * OPTION_NAME_MAX]; /* longer than any known name, even if cut */
        snprintf(key, sizeof key, "%s.%s", name, json_key(member));
        const struct option *option = option_by_key(key);
        if (!option) {
            option_unknown_key(key, err);
            return at(file, member, err);
        }
        if (!apply_option(file, option, member, err))
            return false;
    }
    return true;
}

static const struct option_group *find_group(const char *name)
{
    for (size_t i = 0; i < option_groups_count; i++)
        if (option_groups[i].name[0] && str_is(option_groups[i].name, name))
            return &option_groups[i];
    return NULL;
}

static bool apply_member(const struct file *file, const struct json *member, struct err *err)
{
    const char *key = json_key(member);
    if (str_is(key, "$schema")) /* for editors */
        return true;
    for (const char *const *added = show_added; *added; added++)
        if (str_is(key, *added))
            return true;
    const struct option_group *group = find_group(key);
    if (group)
        return apply_group(file, group->name, member, err);
    /* "cluster.port" is an option, but not a key of the outermost object. */
    const struct option *option = strchr(key, '.') ? NULL : option_by_key(key);
    if (option)
        return apply_option(file, option, member, err);
    if (option_by_key(key))
        err_set(err, ERR_USAGE, 0, "unknown key \"%s\"; write it as an object in an object", key);
    else
        option_unknown_key(key, err);
    return at(file, member, err);
}

/* The file's folder as an absolute path; NULL with errno set. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *here = path[0] == '/' ? strdup("") : getcwd(NULL, 0);
    char *folder = NULL;
    int len = slash ? (int)(slash - path) : 0;
    const char *between = len > 0 && path[0] != '/' ? "/" : "";
    if (here &&
        asprintf(&folder, "%s%s%.*s", str_is(here, "/") ? "" : here, between, len, path) < 0)
        folder = NULL;
    free(here);
    return folder;
}

static bool apply_root(const struct file *file, const struct json *root, struct err *err)
{
    if (json_kind(root) != JSON_IS_OBJECT) {
        err_set(err, ERR_USAGE, 0, "an object is wanted, not %s", json_kind_name(root));
        return at(file, root, err);
    }
    for (const struct json *member = json_first(root); member; member = json_next(member))
        if (!apply_member(file, member, err))
            return false;
    return true;
}

/* An error inside the file begins with its place there, for editors. */
static bool say_which_file(const char *path, struct err *err)
{
    bool has_place = strncmp(err->text, path, strlen(path)) == 0;
    return has_place ? false : err_wrap(err, "the configuration file (-c, PCHRUN_CONFIG)");
}

bool file_apply(const char *path, struct config *config, struct err *err)
{
    struct json *root = json_read_file(path, CONFIG_FILE_MAX, err);
    if (!root)
        return say_which_file(path, err);
    struct file file = {.path = path, .folder = folder_of(path), .config = config};
    bool ok = file.folder
                  ? apply_root(&file, root, err)
                  : err_set(err, ERR_SYSTEM, errno, "cannot find the folder of %.200s", path);
    free(file.folder);
    json_free(root);
    return ok;
}
