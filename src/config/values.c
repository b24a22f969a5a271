/* SPDX-License-Identifier: Apache-2.0
 * See values.h.
 */
#include "config/values.h"

#include "base/sigtext.h"
#include "base/str.h"
#include "base/value.h"
#include "config/noticelist.h"
#include "config/rules.h"
#include "config/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct value_type value_types[OPTION_TYPE__COUNT] = {
    [OPTION_BOOL] = {NULL, "true or false", JSON_IS_BOOL},
    [OPTION_SWITCH] = {NULL, "true, false or auto", JSON_IS_BOOL},
    [OPTION_INT] = {"N", "a whole number", JSON_IS_INT},
    [OPTION_DURATION] = {"TIME", "a duration such as \"25s\"", JSON_IS_TEXT},
    [OPTION_SIZE] = {"SIZE", "a size such as \"64M\"", JSON_IS_TEXT},
    [OPTION_EVERY] = {"N|TIME|auto", "auto, a whole number of steps or a duration such as \"10m\"",
                      JSON_IS_TEXT},
    [OPTION_TEXT] = {"TEXT", "a string", JSON_IS_TEXT},
    [OPTION_PATH] = {"PATH", "a path as a string", JSON_IS_TEXT},
    [OPTION_TEMPLATE] = {"PATH", "a path as a string", JSON_IS_TEXT},
    [OPTION_CHOICE] = {"WORD", "a string", JSON_IS_TEXT},
    [OPTION_CHOICES] = {"WORD,...", "words with commas between them, as one string", JSON_IS_TEXT},
    [OPTION_SIGNAL] = {"SIGNAL", "a signal's name as a string", JSON_IS_TEXT},
    [OPTION_LIST] = {"ITEM,...", "a list of strings", JSON_IS_LIST},
    [OPTION_CODES] = {"CODE[-CODE],...", "a list of exit codes and of ranges such as \"64-78\"",
                      JSON_IS_LIST},
    [OPTION_COMMAND] = {"PROGRAM", "a program and its arguments as a list", JSON_IS_LIST},
    [OPTION_SIGNALS] = {"RULE,...", "an object of signals", JSON_IS_OBJECT},
    [OPTION_NOTICES] = {"SOURCE,...", "a list of notice sources", JSON_IS_LIST},
};

/* ---- from text ---- */

static bool find_bool(const char *text, bool *ret)
{
    static const char *const names[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!str_is(text, names[i]))
            continue;
        *ret = i % 2;
        return true;
    }
    return false;
}

static const char *const switches[] = {"false", "true", "auto"};
enum { SWITCH_AUTO = 2 };

static bool parse_switch(const char *text, int *field, struct err *err)
{
    bool flag = false, is_auto = str_is(text, switches[SWITCH_AUTO]);
    if (!is_auto && !find_bool(text, &flag))
        return err_set(err, ERR_USAGE, 0, "\"%.80s\" is neither true nor false nor auto", text);
    *field = is_auto ? SWITCH_AUTO : flag;
    return true;
}

/* A number without a unit is a number of steps. */
static bool parse_every(const struct option *option, const char *text, struct config_every *field,
                        struct err *err)
{
    struct config_every every = {.is_auto = str_is(text, "auto")};
    bool is_number = str_is_whole(text);
    if (is_number && !str_to_i64(text, 1, CONFIG_EVERY_MAX, &every.steps))
        return err_set(err, ERR_USAGE, 0, "%.80s steps are out of range (1 to %d)", text,
                       CONFIG_EVERY_MAX);
    bool is_time = !is_number && !every.is_auto;
    if (is_time && !str_to_duration(text, &every.ns))
        return err_set(err, ERR_USAGE, 0,
                       "\"%.80s\" is neither auto, nor a whole number of steps, nor a duration, "
                       "which is a number and its unit (ms, s, m, h or d), as in \"10m\"",
                       text);
    if (is_time && !value_duration(text, option->min, option->max, &every.ns, err))
        return false;
    *field = every;
    return true;
}

static bool parse_int(const struct option *option, const char *text, int *field, struct err *err)
{
    if (value_number(text, option->min, option->max, field, err))
        return true;
    if (option->advice && !str_is_whole(text))
        str_addf(err->text, sizeof err->text, "; %s", option->advice);
    return false;
}

static bool check_template(const char *text, struct err *err)
{
    for (const char *p = strchr(text, '{'); p; p = strchr(p + 1, '{'))
        if (!str_starts(p, "{state_dir}") && !str_starts(p, "{node_rank}"))
            return err_set(err, ERR_USAGE, 0,
                           "\"%.80s\" holds a { that begins neither {state_dir} nor {node_rank}",
                           text);
    return true;
}

/* Texts go into JSON files and to other nodes, so they must be UTF-8; paths may be any bytes. The
 * value of {state_dir} is already an absolute path. */
static bool parse_text(const struct option *option, const char *text, const char *folder,
                       char **field, struct err *err)
{
    bool is_template = option->type == OPTION_TEMPLATE;
    bool is_whole = option->type == OPTION_TEXT || (is_template && str_starts(text, "{state_dir}"));
    bool is_path = option->type != OPTION_TEXT;
    if (!(is_path ? text_check_path(text, err) : text_check(text, option->max, err)) ||
        (is_template && !check_template(text, err)))
        return false;
    if (is_whole && !str_is_utf8(text))
        return err_set(err, ERR_USAGE, 0, "\"%.80s\" is not UTF-8", text);
    return text_keep(field, is_whole ? strdup(text) : text_absolute(folder, text), err) ||
           (!is_whole && err_wrap(err, "cannot make \"%.80s\" an absolute path", text));
}

static bool add_item(const struct option *option, const char *text, char ***list, struct err *err)
{
    size_t n = str_count(*list);
    if (n >= (size_t)option->max)
        return err_set(err, ERR_USAGE, 0, "more than %" PRId64 " items", option->max);
    if (!text_check(text, 300, err))
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

static bool add_choice(const struct option *option, const char *item, unsigned *field,
                       struct err *err)
{
    int choice;
    if (!value_choice(item, option->choices, &choice, err))
        return false;
    *field |= 1U << choice;
    return true;
}

static bool parse_item(const struct option *option, char *item, struct config *config,
                       struct err *err)
{
    if (option->type == OPTION_SIGNALS)
        return rules_add_text(item, config, err);
    item += strspn(item, " ");
    if (option->type == OPTION_CHOICES)
        return add_choice(option, item, value_field(option, config), err);
    return option->type == OPTION_NOTICES
               ? noticelist_add_text(item, NULL, config, err)
               : add_item(option, item, value_field(option, config), err);
}

/* Reads the items of "a,b". */
static bool parse_items(const struct option *option, const char *text, struct config *config,
                        struct err *err)
{
    char *copy = strdup(text), *rest = copy, *item;
    bool ok = copy || err_set(err, ERR_SYSTEM, ENOMEM, "cannot keep it");
    while (ok && (item = strsep(&rest, ",")))
        ok = parse_item(option, item, config, err);
    free(copy);
    return ok;
}

static bool parse_notices(const struct option *option, const char *text, struct config *config,
                          struct err *err)
{
    if (!*text) /* usually an unset shell variable */
        return err_set(err, ERR_USAGE, 0, "the value is empty; write none for no source");
    bool is_none = config->nnotices == 0 && str_is(text, "none");
    return is_none || parse_items(option, text, config, err);
}

/* `folder`: of a path in the file; lists in the file are not read here. An empty text is usually an
 * unset shell variable. If it counted as null, the job might run without its checkpoint directory,
 * for example. */
static bool values_parse(const struct option *option, const char *text, const char *folder,
                         struct config *config, struct err *err)
{
    void *field = value_field(option, config);
    if (option->is_nullable && !*text)
        return err_set(err, ERR_USAGE, 0, "the value is empty; if none is meant, write null");
    switch (option->type) {
    case OPTION_BOOL:
        return find_bool(text, field) ||
               err_set(err, ERR_USAGE, 0, "\"%.80s\" is neither true nor false", text);
    case OPTION_SWITCH:
        return parse_switch(text, field, err);
    case OPTION_INT:
        return parse_int(option, text, field, err);
    case OPTION_DURATION:
        return value_duration(text, option->min, option->max, field, err);
    case OPTION_SIZE:
        return value_size(text, option->min, option->max, field, err);
    case OPTION_EVERY:
        return parse_every(option, text, field, err);
    case OPTION_TEXT:
    case OPTION_PATH:
    case OPTION_TEMPLATE:
        return parse_text(option, text, folder, field, err);
    case OPTION_CHOICE:
        return value_choice(text, option->choices, field, err);
    case OPTION_SIGNAL:
        return signame_parse(text, field, err);
    case OPTION_COMMAND:
        return command_from_text(text, NULL, field, err);
    case OPTION_CHOICES:
        *(unsigned *)field = 0;
        return parse_items(option, text, config, err);
    case OPTION_SIGNALS:
        return parse_items(option, text, config, err);
    case OPTION_NOTICES:
        return parse_notices(option, text, config, err);
    default:
        return begin_list(field, err) && (!*text || parse_items(option, text, config, err));
    }
}

bool value_from_text(const struct option *option, const char *text, struct config *config,
                     struct err *err)
{
    if (!option->is_nullable || !str_is(text, "null"))
        return values_parse(option, text, NULL, config, err);
    value_clear(option, config);
    return true;
}

/* ---- from JSON ---- */

/* Returns a string as it is, and a number or a truth value as text in `number`. So each type is
 * checked in one place. NULL: a value of another kind. */
static const char *scalar_text(const struct json *json, char number[24])
{
    int64_t value;
    bool flag;
    if (json_int(json, &value))
        snprintf(number, 24, "%" PRId64, value);
    else if (json_bool(json, &flag))
        str_copy(number, 24, flag ? "true" : "false");
    else
        return json_text(json);
    return number;
}

static bool list_from_json(const struct option *option, const struct json *json, char ***field,
                           struct err *err)
{
    bool is_codes = option->type == OPTION_CODES;
    if (!begin_list(field, err))
        return false;
    for (const struct json *item = json_first(json); item; item = json_next(item)) {
        char number[24];
        enum json_kind kind = json_kind(item);
        if (kind != JSON_IS_TEXT && !(is_codes && kind == JSON_IS_INT))
            return json_unwanted(item,
                                 is_codes ? "an exit code or a range such as \"64-78\" is wanted"
                                          : "a string is wanted",
                                 err) ||
                   err_wrap(err, "item %zu", str_count(*field) + 1);
        if (!add_item(option, scalar_text(item, number), field, err))
            return false;
    }
    return true;
}

/* Two types of options also accept a JSON value of a second kind. */
static bool is_other_kind(const struct option *option, const struct json *json)
{
    if (option->type == OPTION_SWITCH)
        return json_text(json) && str_is(json_text(json), switches[SWITCH_AUTO]);
    return option->type == OPTION_EVERY && json_kind(json) == JSON_IS_INT;
}

bool value_from_json(const struct option *option, const struct json *json, const char *folder,
                     struct config *config, struct err *err)
{
    const struct value_type *type = &value_types[option->type];
    void *field = value_field(option, config);
    char number[24];
    if (json_kind(json) == JSON_IS_NULL && option->is_nullable) {
        value_clear(option, config);
        return true;
    }
    if (json_kind(json) != type->kind && !is_other_kind(option, json))
        return err_set(err, ERR_USAGE, 0, "%s is wanted, not %s", type->wanted,
                       json_kind_name(json));
    switch (option->type) {
    case OPTION_LIST:
    case OPTION_CODES:
        return list_from_json(option, json, field, err);
    case OPTION_COMMAND:
        return command_from_json(json, folder, field, err);
    case OPTION_SIGNALS:
        return rules_from_json(json, config, err);
    case OPTION_NOTICES:
        return noticelist_from_json(json, folder, config, err);
    default:
        return values_parse(option, scalar_text(json, number), folder, config, err);
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
    } else if (value_types[option->type].kind == JSON_IS_LIST) {
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
    const struct config_every *every = field;
    if (is_text(option))
        return !*(char *const *)field;
    if (option->type == OPTION_COMMAND)
        return !*(char **const *)field;
    if (option->type == OPTION_EVERY)
        return !every->steps && !every->ns && !every->is_auto;
    return option->is_nullable && option->type == OPTION_INT && *(const int *)field < 0;
}

static void format_choices(const struct option *option, unsigned chosen, char *text, size_t size)
{
    for (int i = 0; option->choices[i]; i++)
        if (chosen & (1U << i))
            str_addf(text, size, "%s%s", text[0] ? "," : "", option->choices[i]);
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
        str_copy(text, size, switches[*(const bool *)field]);
    else if (option->type == OPTION_SWITCH)
        str_copy(text, size, switches[*(const int *)field]);
    else if (option->type == OPTION_INT)
        snprintf(text, size, "%d", *(const int *)field);
    else if (option->type == OPTION_DURATION)
        str_duration(*(const int64_t *)field, text, size);
    else if (option->type == OPTION_SIZE)
        value_size_text(*(const int64_t *)field, text, size);
    else if (option->type == OPTION_EVERY && every->steps)
        snprintf(text, size, "%" PRId64, every->steps);
    else if (option->type == OPTION_EVERY && every->is_auto)
        str_copy(text, size, "auto");
    else if (option->type == OPTION_EVERY)
        str_duration(every->ns, text, size);
    else if (option->type == OPTION_CHOICE)
        str_copy(text, size, option->choices[*(const int *)field]);
    else if (option->type == OPTION_CHOICES)
        format_choices(option, *(const unsigned *)field, text, size);
    else if (option->type == OPTION_SIGNAL)
        str_copy(text, size, sigabbrev(*(const int *)field));
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
    else if (value_types[option->type].kind == JSON_IS_LIST)
        command_write(*(char **const *)field, writer, key);
    else if (option->type == OPTION_BOOL)
        writer_bool(writer, key, *(const bool *)field);
    else if (option->type == OPTION_SWITCH && *(const int *)field != SWITCH_AUTO)
        writer_bool(writer, key, *(const int *)field);
    else if (option->type == OPTION_INT)
        writer_int(writer, key, *(const int *)field);
    else if (option->type == OPTION_EVERY && ((const struct config_every *)field)->steps)
        writer_int(writer, key, ((const struct config_every *)field)->steps);
    else if (is_text(option))
        writer_text(writer, key, *(char *const *)field);
    else
        writer_text(writer, key, value_format(option, config, text, sizeof text));
}

/* ---- the origins ---- */

bool origin_set(struct config *config, const struct option *option, enum origin_from from,
                const char *text, struct err *err)
{
    struct config_origin *origin = &config->origins[option - options];
    bool is_merged = option->type == OPTION_SIGNALS && origin->from != from;
    char *whole;
    if (asprintf(&whole, "%s%s%s", is_merged ? origin_text(config, option->key) : "",
                 is_merged ? ", " : "", text) < 0)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot read the configuration");
    bool is_list = value_types[option->type].kind == JSON_IS_LIST;
    if (is_list && (origin->from != from || option->type == OPTION_COMMAND))
        value_clear(option, config);
    free(origin->text);
    *origin = (struct config_origin){.from = from, .text = whole};
    return true;
}

enum origin_from origin_from(const struct config *config, const char *key)
{
    return config->origins[option_by_key(key) - options].from;
}

const char *origin_text(const struct config *config, const char *key)
{
    const char *text = config->origins[option_by_key(key) - options].text;
    return text ? text : "default";
}

bool origin_is_given(const struct config *config, const char *key)
{
    return origin_from(config, key) != FROM_DEFAULT;
}
