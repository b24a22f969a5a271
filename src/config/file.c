/* SPDX-License-Identifier: Apache-2.0
 * See sources.h.
 */
#include "base/str.h"
#include "config/origin.h"
#include "config/sources.h"
#include "config/text.h"
#include "config/values.h"
#include "json/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file being read. */
struct file {
    const char *path;
    const char *folder; /* absolute, for relative paths in it */
    struct config *config;
};

static bool apply_option(const struct file *file, const struct option *option,
                         const struct json *json, struct err *err)
{
    char where[256];
    snprintf(where, sizeof where, "file %.200s", file->path);
    if (!origin_set(file->config, option, FROM_FILE, where, err))
        return false;
    return value_from_json(option, json, file->folder, file->config, err) ||
           err_wrap(err, "%s", option->key);
}

static bool apply_group(const struct file *file, const char *name, const struct json *json,
                        struct err *err)
{
    if (json_kind(json) != JSON_IS_OBJECT)
        return json_unwanted(json, "an object is wanted", err) || err_wrap(err, "%s", name);
    for (const struct json *member = json_first(json); member; member = json_next(member)) {
        char key[2 * OPTION_NAME_MAX]; /* a key that is cut is still too long to be known */
        snprintf(key, sizeof key, "%s.%s", name, json_key(member));
        const struct option *option = option_by_key(key);
        if (!option)
            return option_unknown_key(key, err);
        if (!apply_option(file, option, member, err))
            return false;
    }
    return true;
}

static bool apply_member(const struct file *file, const struct json *member, struct err *err)
{
    const char *key = json_key(member);
    if (str_is(key, "$schema")) /* editors read this key */
        return true;
    for (const char *const *added = show_added; *added; added++)
        if (str_is(key, *added))
            return true;
    for (size_t i = 0; i < option_groups_count; i++)
        if (option_groups[i].name[0] && str_is(key, option_groups[i].name))
            return apply_group(file, key, member, err);
    /* "cluster.port" is an option, but not a key of the outermost object. */
    const struct option *option = strchr(key, '.') ? NULL : option_by_key(key);
    if (option)
        return apply_option(file, option, member, err);
    if (!option_by_key(key))
        return option_unknown_key(key, err);
    return err_set(err, ERR_USAGE, 0, "unknown key \"%s\"; write it as an object in an object",
                   key);
}

static bool apply_root(const struct file *file, const struct json *root, struct err *err)
{
    if (json_kind(root) != JSON_IS_OBJECT)
        return json_unwanted(root, "an object is wanted", err);
    for (const struct json *member = json_first(root); member; member = json_next(member))
        if (!apply_member(file, member, err))
            return false;
    return true;
}

bool file_apply(const char *path, struct config *config, struct err *err)
{
    struct json *root = json_read_file(path, CONFIG_FILE_MAX, err);
    if (!root) /* a syntax error already begins with the path */
        return strncmp(err->text, path, strlen(path)) == 0
                   ? false
                   : err_wrap(err, "the configuration file (-c, PCHRUN_CONFIG)");
    char *folder = text_absolute(NULL, path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash)
        *slash = '\0';
    bool ok = slash ? apply_root(&(struct file){path, folder, config}, root, err)
                    : err_set(err, ERR_SYSTEM, errno, "cannot find the folder");
    free(folder);
    json_free(root);
    return ok || err_wrap(err, "%.200s", path);
}
