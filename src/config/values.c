/* SPDX-License-Identifier: Apache-2.0
 * See values.h.
 */
#include "config/values.h"

#include "base/str.h"
#include "base/value.h"
#include "config/command.h"
#include "config/noticelist.h"
#include "config/rules.h"
#include "config/signames.h"
#include "config/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The functions of a type. For nullable options `parse` never gets "" or "null". */
struct type {
    const char *metavar, *wanted;
    enum json_kind kind; /* its JSON type in the file */
    bool (*parse)(const struct option *option, const char *text, const char *folder, void *field,
                  struct err *err);
    bool (*format)(const struct option *option, const void *field, char *text, size_t size);
};

static bool parse_bool(const struct option *option, const char *text, const char *folder,
                       void *field, struct err *err)
{
    static const char *const names[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!str_is(text, names[i]))
            continue;
        *(bool *)field = i % 2;
        return true;
    }
    return err_set(err, ERR_USAGE, 0, "\"%.80s\" is neither true nor false", text);
}

static bool format_bool(const struct option *option, const void *field, char *text, size_t size)
{
    return str_copy(text, size, *(const bool *)field ? "true" : "false");
}

static bool parse_int(const struct option *option, const char *text, const char *folder,
                      void *field, struct err *err)
{
    return value_number(text, option->min, option->max, field, err);
}

static bool format_int(const struct option *option, const void *field, char *text, size_t size)
{
    text[0] = '\0';
    return str_addf(text, size, "%d", *(const int *)field);
}

static bool parse_duration(const struct option *option, const char *text, const char *folder,
                           void *field, struct err *err)
{
    return value_duration(text, option->min, option->max, field, err);
}

static bool format_duration(const struct option *option, const void *field, char *text, size_t size)
{
    str_duration(*(const int64_t *)field, text, size);
    return true;
}

static bool parse_size(const struct option *option, const char *text, const char *folder,
                       void *field, struct err *err)
{
    return value_size(text, option->min, option->max, field, err);
}

static bool format_size(const struct option *option, const void *field, char *text, size_t size)
{
    value_size_text(*(const int64_t *)field, text, size);
    return true;
}

/* A number without a unit is a number of steps. */
static bool parse_every(const struct option *option, const char *text, const char *folder,
                        void *field, struct err *err)
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
    *(struct config_every *)field = every;
    return true;
}

static bool format_every(const struct option *option, const void *field, char *text, size_t size)
{
    const struct config_every *every = field;
    text[0] = '\0';
    if (every->steps)
        return str_addf(text, size, "%" PRId64, every->steps);
    str_duration(every->ns, text, size);
    return true;
}

/* Takes `copy`, which is from malloc(). */
static bool values_keep_text(char **field, char *copy, struct err *err)
{
    if (!copy)
        return err_set(err, ERR_SYSTEM, errno, "cannot keep it");
    free(*field);
    *field = copy;
    return true;
}

static bool parse_text(const struct option *option, const char *text, const char *folder,
                       void *field, struct err *err)
{
    return text_check(text, option->min, option->max, err) && text_check_utf8(text, err) &&
           values_keep_text(field, strdup(text), err);
}

static bool parse_path(const struct option *option, const char *text, const char *folder,
                       void *field, struct err *err)
{
    if (!text_check(text, option->min, option->max, err))
        return false;
    if (!values_keep_text(field, text_absolute(folder, text), err))
        return err_wrap(err, "cannot make \"%.80s\" an absolute path", text);
    return true;
}

static bool parse_template(const struct option *option, const char *text, const char *folder,
                           void *field, struct err *err)
{
    for (const char *p = strchr(text, '{'); p; p = strchr(p + 1, '{'))
        if (!str_starts(p, "{state_dir}") && !str_starts(p, "{node_rank}"))
            return err_set(err, ERR_USAGE, 0,
                           "\"%.80s\" holds a { that begins neither {state_dir} nor {node_rank}",
                           text);
    /* {state_dir} is already absolute. */
    bool is_path = !str_starts(text, "{state_dir}");
    return (is_path ? parse_path : parse_text)(option, text, folder, field, err);
}

static bool format_text(const struct option *option, const void *field, char *text, size_t size)
{
    return str_copy(text, size, *(char *const *)field);
}

static bool parse_choice(const struct option *option, const char *text, const char *folder,
                         void *field, struct err *err)
{
    return value_choice(text, option->choices, field, err);
}

static bool format_choice(const struct option *option, const void *field, char *text, size_t size)
{
    return str_copy(text, size, option->choices[*(const int *)field]);
}

static bool parse_signal(const struct option *option, const char *text, const char *folder,
                         void *field, struct err *err)
{
    return signame_parse(text, field, err);
}

static bool format_signal(const struct option *option, const void *field, char *text, size_t size)
{
    return str_copy(text, size, signame(*(const int *)field));
}

static bool add_item(const struct option *option, const char *text, char ***list, struct err *err)
{
    size_t n = command_count(*list);
    if (n >= (size_t)option->max)
        return err_set(err, ERR_USAGE, 0, "more than %" PRId64 " items", option->max);
    if (!text_check(text, 1, 300, err))
        return err_wrap(err, "item %zu", n + 1);
    return command_add(list, strdup(text), err) &&
           (option->type != OPTION_CODES ||
            value_codes(*list + n, (bool[VALUE_CODES_MAX]){0}, err));
}

/* Even an empty list is not NULL. */
static bool begin_list(char ***list, struct err *err)
{
    if (!*list)
        *list = calloc(1, sizeof **list);
    return *list || err_set(err, ERR_SYSTEM, ENOMEM, "cannot keep it");
}

static bool parse_list(const struct option *option, const char *text, const char *folder,
                       void *field, struct err *err)
{
    char *copy = begin_list(field, err) ? strdup(text) : NULL;
    if (!copy)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot keep it");
    char *rest = *copy ? copy : NULL, *item;
    bool ok = true;
    while (ok && (item = strsep(&rest, ",")))
        ok = add_item(option, item + strspn(item, " "), field, err);
    free(copy);
    return ok;
}

/* Exit codes may be JSON numbers; `number` has room for one. */
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
            return err_set(
                err, ERR_USAGE, 0, "item %zu: %s is wanted, not %s", command_count(*field) + 1,
                option->type == OPTION_CODES ? "an exit code or a range such as \"64-78\""
                                             : "a string",
                json_kind_name(item));
        if (!add_item(option, text, field, err))
            return false;
    }
    return true;
}

/* A command replaces an older one: its parts never come from several sources. */
static bool keep_command(char ***field, char **args, bool is_good)
{
    if (is_good) {
        command_clear(field);
        *field = args;
    } else {
        command_clear(&args);
    }
    return is_good;
}

static bool parse_command(const struct option *option, const char *text, const char *folder,
                          void *field, struct err *err)
{
    char **args = NULL;
    bool is_good = command_from_text(text, folder, &args, err);
    return keep_command(field, args, is_good);
}

static bool parse_json_command(const struct json *json, const char *folder, char ***field,
                               struct err *err)
{
    char **args = NULL;
    bool is_good = command_from_json(json, folder, &args, err);
    return keep_command(field, args, is_good);
}

static const struct type types[OPTION_TYPE__COUNT] = {
    [OPTION_BOOL] = {NULL, "true or false", JSON_IS_BOOL, parse_bool, format_bool},
    [OPTION_INT] = {"N", "a whole number", JSON_IS_INT, parse_int, format_int},
    [OPTION_DURATION] = {"TIME", "a duration such as \"25s\"", JSON_IS_TEXT, parse_duration,
                         format_duration},
    [OPTION_SIZE] = {"SIZE", "a size such as \"64M\"", JSON_IS_TEXT, parse_size, format_size},
    [OPTION_EVERY] = {"N|TIME", "a whole number of steps or a duration such as \"10m\"",
                      JSON_IS_TEXT, parse_every, format_every},
    [OPTION_TEXT] = {"TEXT", "a string", JSON_IS_TEXT, parse_text, format_text},
    [OPTION_PATH] = {"PATH", "a path as a string", JSON_IS_TEXT, parse_path, format_text},
    [OPTION_TEMPLATE] = {"PATH", "a path as a string", JSON_IS_TEXT, parse_template, format_text},
    [OPTION_CHOICE] = {"WORD", "a string", JSON_IS_TEXT, parse_choice, format_choice},
    [OPTION_SIGNAL] = {"SIGNAL", "a signal's name as a string", JSON_IS_TEXT, parse_signal,
                       format_signal},
    [OPTION_LIST] = {"ITEM,...", "a list of strings", JSON_IS_LIST, parse_list, NULL},
    [OPTION_CODES] = {"CODE[-CODE],...", "a list of exit codes and of ranges such as \"64-78\"",
                      JSON_IS_LIST, parse_list, NULL},
    [OPTION_COMMAND] = {"PROGRAM", "a program and its arguments as a list", JSON_IS_LIST,
                        parse_command, NULL},
    [OPTION_SIGNALS] = {"RULE,...", "an object of signals", JSON_IS_OBJECT, NULL, NULL},
    [OPTION_NOTICES] = {"SOURCE,...", "a list of notice sources", JSON_IS_LIST, NULL, NULL},
};

/* An empty text is usually an unset shell variable. If it counted as null, the job would run
 * without, for example, its checkpoint directory. */
static bool values_parse(const struct option *option, const char *text, const char *folder,
                         struct config *config, struct err *err)
{
    if (option->is_nullable && !*text)
        return err_set(err, ERR_USAGE, 0, "the value is empty; if none is meant, write null");
    return types[option->type].parse(option, text, folder, value_field(option, config), err);
}

bool value_from_text(const struct option *option, const char *text, const char *folder,
                     struct config *config, struct err *err)
{
    if (option->type == OPTION_SIGNALS)
        return rules_from_text(option, text, config, err);
    if (option->type == OPTION_NOTICES)
        return noticelist_from_text(text, folder, config, err);
    if (option->is_nullable && str_is(text, "null")) {
        value_clear(option, config);
        return true;
    }
    return values_parse(option, text, folder, config, err);
}

/* Scalars are checked as text, so each type has one check. */
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
    const struct type *type = &types[option->type];
    if (json_kind(json) == JSON_IS_NULL && option->is_nullable) {
        value_clear(option, config);
        return true;
    }
    bool may_be_number = option->type == OPTION_EVERY && json_kind(json) == JSON_IS_INT;
    if (json_kind(json) != type->kind && !may_be_number)
        return err_set(err, ERR_USAGE, 0, "%s is wanted, not %s", type->wanted,
                       json_kind_name(json));
    if (option->type == OPTION_SIGNALS)
        return rules_from_json(option, json, config, err);
    if (option->type == OPTION_NOTICES)
        return noticelist_from_json(json, folder, config, err);
    if (option->type == OPTION_LIST || option->type == OPTION_CODES)
        return list_from_json(option, json, value_field(option, config), err);
    if (option->type == OPTION_COMMAND)
        return parse_json_command(json, folder, value_field(option, config), err);
    return scalar_from_json(option, json, folder, config, err);
}

void value_clear(const struct option *option, struct config *config)
{
    void *field = value_field(option, config);
    if (option->type == OPTION_SIGNALS) {
        rules_clear(config);
    } else if (option->type == OPTION_NOTICES) {
        noticelist_clear(config);
    } else if (types[option->type].kind == JSON_IS_LIST) {
        command_clear(field);
    } else if (types[option->type].format == format_text) {
        free(*(char **)field);
        *(char **)field = NULL;
    } else if (option->type == OPTION_INT) {
        *(int *)field = -1;
    } else if (option->type == OPTION_EVERY) {
        *(struct config_every *)field = (struct config_every){0};
    }
}

bool value_is_null(const struct option *option, const struct config *config)
{
    const void *field = value_field(option, config);
    if (types[option->type].format == format_text)
        return !*(char *const *)field;
    if (option->type == OPTION_COMMAND)
        return !*(char **const *)field;
    if (option->type == OPTION_EVERY)
        return !((const struct config_every *)field)->steps &&
               !((const struct config_every *)field)->ns;
    return option->is_nullable && option->type == OPTION_INT && *(const int *)field < 0;
}

char *value_format(const struct option *option, const struct config *config, char *text,
                   size_t size)
{
    text[0] = '\0';
    if (types[option->type].format && !value_is_null(option, config))
        types[option->type].format(option, value_field(option, config), text, size);
    return text;
}

static void write_list(char *const *list, struct writer *writer, const char *key)
{
    writer_list(writer, key);
    for (size_t i = 0; list && list[i]; i++)
        writer_text(writer, NULL, list[i]);
    writer_end(writer);
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
        write_list(*(char **const *)field, writer, key);
    else if (option->type == OPTION_BOOL)
        writer_bool(writer, key, *(const bool *)field);
    else if (option->type == OPTION_INT)
        writer_int(writer, key, *(const int *)field);
    else if (option->type == OPTION_EVERY && ((const struct config_every *)field)->steps)
        writer_int(writer, key, ((const struct config_every *)field)->steps);
    else if (types[option->type].format == format_text)
        writer_text(writer, key, *(char *const *)field);
    else
        writer_text(writer, key, value_format(option, config, text, sizeof text));
}

const char *value_metavar(const struct option *option)
{
    return option->metavar ? option->metavar : types[option->type].metavar;
}

const char *value_wanted(const struct option *option)
{
    return types[option->type].wanted;
}

enum json_kind value_kind(const struct option *option)
{
    return types[option->type].kind;
}
