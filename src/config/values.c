/* SPDX-License-Identifier: Apache-2.0
 * See values.h.
 */
#include "config/values.h"

#include "base/str.h"
#include "base/value.h"
#include "config/noticelist.h"
#include "config/rules.h"
#include "config/signames.h"
#include "config/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct value_type types[OPTION_TYPE__COUNT] = {
    [OPTION_BOOL] = {NULL, "true or false", JSON_IS_BOOL},
    [OPTION_INT] = {"N", "a whole number", JSON_IS_INT},
    [OPTION_DURATION] = {"TIME", "a duration such as \"25s\"", JSON_IS_TEXT},
    [OPTION_SIZE] = {"SIZE", "a size such as \"64M\"", JSON_IS_TEXT},
    [OPTION_EVERY] = {"N|TIME", "a whole number of steps or a duration such as \"10m\"",
                      JSON_IS_TEXT},
    [OPTION_TEXT] = {"TEXT", "a string", JSON_IS_TEXT},
    [OPTION_PATH] = {"PATH", "a path as a string", JSON_IS_TEXT},
    [OPTION_TEMPLATE] = {"PATH", "a path as a string", JSON_IS_TEXT},
    [OPTION_CHOICE] = {"WORD", "a string", JSON_IS_TEXT},
    [OPTION_SIGNAL] = {"SIGNAL", "a signal's name as a string", JSON_IS_TEXT},
    [OPTION_LIST] = {"ITEM,...", "a list of strings", JSON_IS_LIST},
    [OPTION_CODES] = {"CODE[-CODE],...", "a list of exit codes and of ranges such as \"64-78\"",
                      JSON_IS_LIST},
    [OPTION_COMMAND] = {"PROGRAM", "a program and its arguments as a list", JSON_IS_LIST},
    [OPTION_SIGNALS] = {"RULE,...", "an object of signals", JSON_IS_OBJECT},
    [OPTION_NOTICES] = {"SOURCE,...", "a list of notice sources", JSON_IS_LIST},
};

const struct value_type *value_type(const struct option *option)
{
    return &types[option->type];
}

/* ---- from text ---- */

static bool parse_bool(const char *text, bool *field, struct err *err)
{
    static const char *const names[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!str_is(text, names[i]))
            continue;
        *field = i % 2;
        return true;
    }
    return err_set(err, ERR_USAGE, 0, "\"%.80s\" is neither true nor false", text);
}

/* A number without a unit is a number of steps. */
static bool parse_every(const struct option *option, const char *text, struct config_every *field,
                        struct err *err)
{
    struct config_every every = {0};
    bool is_number = str_is_whole(text);
    if (is_number && !str_to_i64(text, 1, CONFIG_EVERY_MAX, &every.steps))
        return err_set(err, ERR_USAGE, 0, "%.80s steps are out of range (1 to %d)", text,
                       CONFIG_EVERY_MAX);
    if (!is_number && !str_to_duration(text, &every.ns))
        return err_set(err, ERR_USAGE, 0,
                       "\"%.80s\" is neither a whole number of steps nor a duration, which is a "
                       "number and its unit (ms, s, m, h or d), as in \"10m\"",
                       text);
    if (!is_number && !value_duration(text, option->min, option->max, &every.ns, err))
        return false;
    *field = every;
    return true;
}

/* Texts go into JSON files and to other nodes, so they must be UTF-8; paths may be any bytes. */
static bool parse_text(const struct option *option, const char *text, char **field, struct err *err)
{
    if (!text_check(text, option->min, option->max, err))
        return false;
    if (!str_is_utf8(text))
        return err_set(err, ERR_USAGE, 0, "\"%.80s\" is not UTF-8", text);
    return text_keep(field, strdup(text), err);
}

static bool parse_path(const struct option *option, const char *text, const char *folder,
                       char **field, struct err *err)
{
    if (!text_check(text, option->min, option->max, err))
        return false;
    if (!text_keep(field, text_absolute(folder, text), err))
        return err_wrap(err, "cannot make \"%.80s\" an absolute path", text);
    return true;
}

static bool parse_template(const struct option *option, const char *text, const char *folder,
                           char **field, struct err *err)
{
    for (const char *p = strchr(text, '{'); p; p = strchr(p + 1, '{'))
        if (!str_starts(p, "{state_dir}") && !str_starts(p, "{node_rank}"))
            return err_set(err, ERR_USAGE, 0,
                           "\"%.80s\" holds a { that begins neither {state_dir} nor {node_rank}",
                           text);
    /* The value of {state_dir} is already an absolute path. */
    return str_starts(text, "{state_dir}") ? parse_text(option, text, field, err)
                                           : parse_path(option, text, folder, field, err);
}

static bool add_item(const struct option *option, const char *text, char ***list, struct err *err)
{
    size_t n = str_count(*list);
    if (n >= (size_t)option->max)
        return err_set(err, ERR_USAGE, 0, "more than %" PRId64 " items", option->max);
    if (!text_check(text, 1, 300, err))
        return err_wrap(err, "item %zu", n + 1);
    return command_add(list, strdup(text), err) &&
           (option->type != OPTION_CODES ||
            value_codes(*list + n, (bool[VALUE_CODES_MAX]){0}, err));
}

/* Makes an empty list, because struct config never has NULL for a list. */
static bool begin_list(char ***list, struct err *err)
{
    if (!*list)
        *list = calloc(1, sizeof **list);
    return *list || err_set(err, ERR_SYSTEM, ENOMEM, "cannot keep it");
}

static bool parse_item(const struct option *option, char *item, const char *folder,
                       struct config *config, struct err *err)
{
    if (option->type == OPTION_SIGNALS)
        return rules_add_text(item, config, err);
    item += strspn(item, " ");
    return option->type == OPTION_NOTICES
               ? noticelist_add_text(item, folder, config, err)
               : add_item(option, item, value_field(option, config), err);
}

/* Reads the items of "a,b". */
static bool parse_items(const struct option *option, const char *text, const char *folder,
                        struct config *config, struct err *err)
{
    char *copy = strdup(text), *rest = copy, *item;
    bool ok = copy || err_set(err, ERR_SYSTEM, ENOMEM, "cannot keep it");
    while (ok && (item = strsep(&rest, ",")))
        ok = parse_item(option, item, folder, config, err);
    free(copy);
    return ok;
}

static bool parse_list(const struct option *option, const char *text, struct config *config,
                       struct err *err)
{
    return begin_list(value_field(option, config), err) &&
           (!*text || parse_items(option, text, NULL, config, err));
}

static bool parse_notices(const struct option *option, const char *text, const char *folder,
                          struct config *config, struct err *err)
{
    if (!*text) /* usually an unset shell variable */
        return err_set(err, ERR_USAGE, 0, "the value is empty; write none for no source");
    bool is_none = config->nnotices == 0 && str_is(text, "none");
    return is_none || parse_items(option, text, folder, config, err);
}

/* An empty text is usually an unset shell variable. If it counted as null, the job would run
 * without, for example, its checkpoint directory. */
static bool values_parse(const struct option *option, const char *text, const char *folder,
                         struct config *config, struct err *err)
{
    void *field = value_field(option, config);
    if (option->is_nullable && !*text)
        return err_set(err, ERR_USAGE, 0, "the value is empty; if none is meant, write null");
    switch (option->type) {
    case OPTION_BOOL:
        return parse_bool(text, field, err);
    case OPTION_INT:
        return value_number(text, option->min, option->max, field, err);
    case OPTION_DURATION:
        return value_duration(text, option->min, option->max, field, err);
    case OPTION_SIZE:
        return value_size(text, option->min, option->max, field, err);
    case OPTION_EVERY:
        return parse_every(option, text, field, err);
    case OPTION_TEXT:
        return parse_text(option, text, field, err);
    case OPTION_PATH:
        return parse_path(option, text, folder, field, err);
    case OPTION_TEMPLATE:
        return parse_template(option, text, folder, field, err);
    case OPTION_CHOICE:
        return value_choice(text, option->choices, field, err);
    case OPTION_SIGNAL:
        return signame_parse(text, field, err);
    case OPTION_COMMAND:
        command_clear(field); /* a command of another source is replaced as a whole */
        return command_from_text(text, folder, field, err);
    case OPTION_SIGNALS:
        return parse_items(option, text, folder, config, err);
    case OPTION_NOTICES:
        return parse_notices(option, text, folder, config, err);
    default:
        return parse_list(option, text, config, err);
    }
}

bool value_from_text(const struct option *option, const char *text, const char *folder,
                     struct config *config, struct err *err)
{
    if (!option->is_nullable || !str_is(text, "null"))
        return values_parse(option, text, folder, config, err);
    value_clear(option, config);
    return true;
}

/* ---- from JSON ---- */

/* The item as text. An exit code may be a JSON number: `number` gets its digits. */
static const char *item_text(const struct option *option, const struct json *item, char number[24])
{
    int64_t value;
    number[0] = '\0';
    if (option->type == OPTION_CODES && json_int(item, &value) &&
        str_addf(number, 24, "%" PRId64, value))
        return number;
    return json_text(item);
}

static bool list_from_json(const struct option *option, const struct json *json, char ***field,
                           struct err *err)
{
    if (!begin_list(field, err))
        return false;
    for (const struct json *item = json_first(json); item; item = json_next(item)) {
        char number[24];
        const char *text = item_text(option, item, number);
        if (!text)
            return json_unwanted(item,
                                 option->type == OPTION_CODES
                                     ? "an exit code or a range such as \"64-78\" is wanted"
                                     : "a string is wanted",
                                 err) ||
                   err_wrap(err, "item %zu", str_count(*field) + 1);
        if (!add_item(option, text, field, err))
            return false;
    }
    return true;
}

/* Turns a scalar into text, so each type is checked in one place. */
static bool scalar_from_json(const struct option *option, const struct json *json,
                             const char *folder, struct config *config, struct err *err)
{
    char number[24] = "";
    int64_t value;
    bool flag;
    const char *text = json_text(json);
    if (json_int(json, &value))
        str_addf(number, sizeof number, "%" PRId64, value);
    else if (json_bool(json, &flag))
        str_copy(number, sizeof number, flag ? "true" : "false");
    return values_parse(option, text ? text : number, folder, config, err);
}

bool value_from_json(const struct option *option, const struct json *json, const char *folder,
                     struct config *config, struct err *err)
{
    const struct value_type *type = value_type(option);
    void *field = value_field(option, config);
    if (json_kind(json) == JSON_IS_NULL && option->is_nullable) {
        value_clear(option, config);
        return true;
    }
    bool may_be_number = option->type == OPTION_EVERY && json_kind(json) == JSON_IS_INT;
    if (json_kind(json) != type->kind && !may_be_number)
        return err_set(err, ERR_USAGE, 0, "%s is wanted, not %s", type->wanted,
                       json_kind_name(json));
    switch (option->type) {
    case OPTION_LIST:
    case OPTION_CODES:
        return list_from_json(option, json, field, err);
    case OPTION_COMMAND:
        command_clear(field);
        return command_from_json(json, folder, field, err);
    case OPTION_SIGNALS:
        return rules_from_json(json, config, err);
    case OPTION_NOTICES:
        return noticelist_from_json(json, folder, config, err);
    default:
        return scalar_from_json(option, json, folder, config, err);
    }
}

/* ---- and back ---- */

static bool is_text(const struct option *option)
{
    return option->type == OPTION_TEXT || option->type == OPTION_PATH ||
           option->type == OPTION_TEMPLATE;
}

void value_clear(const struct option *option, struct config *config)
{
    void *field = value_field(option, config);
    if (option->type == OPTION_SIGNALS) {
        memset(field, 0, sizeof config->signals);
    } else if (option->type == OPTION_NOTICES) {
        noticelist_clear(config);
    } else if (types[option->type].kind == JSON_IS_LIST) {
        command_clear(field);
    } else if (is_text(option)) {
        free(*(char **)field);
        *(char **)field = NULL;
    } else if (option->type == OPTION_INT) {
        *(int *)field = -1;
    } else if (option->type == OPTION_EVERY) {
        *(struct config_every *)field = (struct config_every){0};
    }
}

static bool value_is_null(const struct option *option, const struct config *config)
{
    const void *field = value_field(option, config);
    if (is_text(option))
        return !*(char *const *)field;
    if (option->type == OPTION_COMMAND)
        return !*(char **const *)field;
    if (option->type == OPTION_EVERY)
        return !((const struct config_every *)field)->steps &&
               !((const struct config_every *)field)->ns;
    return option->is_nullable && option->type == OPTION_INT && *(const int *)field < 0;
}

char *value_number_text(const struct option *option, int64_t number, char *text, size_t size)
{
    if (option->type == OPTION_SIZE)
        return value_size_text(number, text, size);
    if (option->type != OPTION_INT)
        return str_duration(number, text, size);
    snprintf(text, size, "%" PRId64, number);
    return text;
}

char *value_format(const struct option *option, const struct config *config, char *text,
                   size_t size)
{
    const void *field = value_field(option, config);
    const struct config_every *every = field;
    text[0] = '\0';
    if (value_is_null(option, config))
        return text;
    if (is_text(option))
        str_copy(text, size, *(char *const *)field);
    else if (option->type == OPTION_BOOL)
        str_copy(text, size, *(const bool *)field ? "true" : "false");
    else if (option->type == OPTION_INT)
        value_number_text(option, *(const int *)field, text, size);
    else if (option->type == OPTION_DURATION || option->type == OPTION_SIZE)
        value_number_text(option, *(const int64_t *)field, text, size);
    else if (option->type == OPTION_EVERY && every->steps)
        snprintf(text, size, "%" PRId64, every->steps);
    else if (option->type == OPTION_EVERY)
        str_duration(every->ns, text, size);
    else if (option->type == OPTION_CHOICE)
        str_copy(text, size, option->choices[*(const int *)field]);
    else if (option->type == OPTION_SIGNAL)
        str_copy(text, size, signame(*(const int *)field));
    return text;
}

void value_write(const struct option *option, const struct config *config, struct writer *writer,
                 const char *key)
{
    const void *field = value_field(option, config);
    char text[64];
    if (value_is_null(option, config))
        writer_null(writer, key);
    else if (option->type == OPTION_SIGNALS)
        rules_write(config, writer, key);
    else if (option->type == OPTION_NOTICES)
        noticelist_write(config, writer, key);
    else if (types[option->type].kind == JSON_IS_LIST)
        command_write(*(char **const *)field, writer, key);
    else if (option->type == OPTION_BOOL)
        writer_bool(writer, key, *(const bool *)field);
    else if (option->type == OPTION_INT)
        writer_int(writer, key, *(const int *)field);
    else if (option->type == OPTION_EVERY && ((const struct config_every *)field)->steps)
        writer_int(writer, key, ((const struct config_every *)field)->steps);
    else if (is_text(option))
        writer_text(writer, key, *(char *const *)field);
    else
        writer_text(writer, key, value_format(option, config, text, sizeof text));
}
