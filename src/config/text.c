/* SPDX-License-Identifier: Apache-2.0
 * See text.h.
 */
#include "config/text.h"

#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARGS_MAX 256

bool text_check(const char *text, int64_t max, struct err *err)
{
    size_t len = strlen(text);
    if (len == 0)
        return err_set(err, ERR_USAGE, 0, "the value is empty; it must have 1 to %" PRId64 " bytes",
                       max);
    if (len > (size_t)max)
        return err_set(err, ERR_USAGE, 0, "\"%.80s\" has %zu bytes; allowed are 1 to %" PRId64,
                       text, len, max);
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return err_set(err, ERR_USAGE, 0, "\"%.80s\" holds a control character", text);
    return true;
}

/* The first "$NAME" or "${NAME}"; NULL: there is none. */
static const char *find_variable(const char *text)
{
    for (const char *p = strchr(text, '$'); p; p = strchr(p + 1, '$'))
        if (p[1] && strchr(STR_LETTERS "_{", p[1]))
            return p;
    return NULL;
}

bool text_check_path(const char *text, struct err *err)
{
    if (!text_check(text, TEXT_PATH_MAX, err))
        return false;
    if (str_is_url(text))
        return err_set(err, ERR_USAGE, 0,
                       "\"%.80s\" is a URL; pchrun needs a path of a mounted file system (the "
                       "program itself may save to a URL, and report it with saved())",
                       text);
    const char *variable = find_variable(text);
    if (text[0] == '~' || variable)
        return err_set(err, ERR_USAGE, 0,
                       "\"%.80s\" holds %.1s, which only a shell expands; write the path in full, "
                       "or give it on the command line, without quotes",
                       text, variable ? variable : text);
    return true;
}

char *text_absolute(const char *folder, const char *path)
{
    if (path[0] == '/')
        return strdup(path);
    while (path[0] == '.' && path[1] == '/')
        path += 1 + strspn(path + 1, "/");
    char *here = folder ? strdup(folder) : getcwd(NULL, 0);
    char *whole = NULL;
    if (here && asprintf(&whole, "%s%s%s", here, str_is(here, "/") ? "" : "/", path) < 0)
        whole = NULL;
    free(here);
    return whole;
}

bool text_keep(char **field, char *copy, struct err *err)
{
    if (!copy)
        return err_set(err, ERR_SYSTEM, errno, "cannot keep it");
    free(*field);
    *field = copy;
    return true;
}

/* ---- lists ---- */

bool command_add(char ***args, char *copy, struct err *err)
{
    size_t n = str_count(*args);
    char **more = copy ? realloc(*args, (n + 2) * sizeof *more) : NULL;
    if (!more) {
        free(copy);
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot keep it");
    }
    *args = more;
    more[n] = copy;
    more[n + 1] = NULL;
    return true;
}

bool command_from_text(const char *text, const char *folder, char ***args, struct err *err)
{
    bool is_path = strchr(text, '/');
    return (is_path ? text_check_path(text, err) : text_check(text, TEXT_PATH_MAX, err)) &&
           command_add(args, is_path ? text_absolute(folder, text) : strdup(text), err);
}

static bool command_add_json(const struct json *item, const char *folder, char ***args,
                             struct err *err)
{
    const char *text = json_need_text(item, err);
    if (!text)
        return false;
    if (!*args)
        return command_from_text(text, folder, args, err);
    if (str_count(*args) >= ARGS_MAX)
        return err_set(err, ERR_USAGE, 0, "more than %d arguments", ARGS_MAX - 1);
    return command_add(args, strdup(text), err);
}

bool command_from_json(const struct json *json, const char *folder, char ***args, struct err *err)
{
    if (json_kind(json) != JSON_IS_LIST)
        return json_unwanted(json, "a list of the program and its arguments is wanted", err);
    size_t n = 1;
    for (const struct json *item = json_first(json); item; item = json_next(item), n++)
        if (!command_add_json(item, folder, args, err))
            return err_wrap(err, "item %zu", n);
    return *args || err_set(err, ERR_USAGE, 0, "the list is empty; name a program");
}

void command_clear(char ***args)
{
    for (size_t i = 0; *args && (*args)[i]; i++)
        free((*args)[i]);
    free(*args);
    *args = NULL;
}

void command_write(char *const *args, struct writer *writer, const char *key)
{
    writer_list(writer, key);
    for (size_t i = 0; args && args[i]; i++)
        writer_text(writer, NULL, args[i]);
    writer_end(writer);
}
