/* SPDX-License-Identifier: Apache-2.0
 * See command.h.
 */
#include "config/command.h"

#include "config/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PATH_LEN 4095
#define ARGS_MAX 256

size_t command_count(char *const *args)
{
    size_t n = 0;
    while (args && args[n])
        n++;
    return n;
}

bool command_add(char ***args, char *copy, struct err *err)
{
    size_t n = command_count(*args);
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
    return text_check(text, 1, PATH_LEN, err) &&
           command_add(args, strchr(text, '/') ? text_absolute(folder, text) : strdup(text), err);
}

static bool command_add_json(const struct json *item, const char *folder, char ***args,
                             struct err *err)
{
    const char *text = json_text(item);
    if (!text)
        return err_set(err, ERR_USAGE, 0, "a string is wanted, not %s", json_kind_name(item));
    if (!*args)
        return command_from_text(text, folder, args, err);
    if (command_count(*args) >= ARGS_MAX)
        return err_set(err, ERR_USAGE, 0, "more than %d arguments", ARGS_MAX - 1);
    return command_add(args, strdup(text), err);
}

bool command_from_json(const struct json *json, const char *folder, char ***args, struct err *err)
{
    if (json_kind(json) != JSON_IS_LIST)
        return err_set(err, ERR_USAGE, 0, "a list is wanted, the program and its arguments, not %s",
                       json_kind_name(json));
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
