/* SPDX-License-Identifier: Apache-2.0
 * See loadsteps.h.
 */
#include "config/loadsteps.h"

#include "base/str.h"
#include "base/value.h"
#include "config/noticelist.h"
#include "config/options.h"
#include "config/presets.h"
#include "config/rules.h"
#include "config/values.h"
#include "json/json.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

const char *const show_added[] = {"$platform", "$cluster", "$sources", NULL};

#define SHOWN_MAX (16 * 1024 * 1024) /* CONFIG_FILE_MAX, with room for escapes and indentation */

static bool show_finish(struct writer *w, FILE *out, struct err *err)
{
    size_t len;
    const char *text = writer_done(w, &len);
    if (text)
        fwrite(text, 1, len, out);
    else
        err_set(err, ERR_SYSTEM, ENOMEM, "cannot print it");
    writer_free(w);
    return text;
}

/* The last part of a key: its name within its group. */
static const char *leaf(const struct option *option)
{
    const char *point = strchr(option->key, '.');
    return point ? point + 1 : option->key;
}

bool show_config(const struct config *config, char **env, FILE *out, struct err *err)
{
    struct writer w;
    writer_init(&w, SHOWN_MAX, WRITER_PRETTY);
    writer_object(&w, NULL);
    presets_show(config, &w);
    discovered_show(config, env, &w);
    for (size_t i = 0; i < option_groups_count; i++) {
        const struct option_group *group = &option_groups[i];
        if (group->name[0])
            writer_object(&w, group->name);
        for (size_t n = 0; n < options_count; n++)
            if (option_group(&options[n]) == group)
                value_write(&options[n], config, &w, leaf(&options[n]));
        if (group->name[0])
            writer_end(&w);
    }
    writer_object(&w, "$sources");
    for (size_t i = 0; i < options_count; i++)
        writer_text(&w, options[i].key, origin_text(config, options[i].key));
    writer_end(&w);
    writer_end(&w);
    return show_finish(&w, out, err);
}

/* ---- the schema: written as JSON, with ' for " ---- */

#define STRING         "'type': 'string'"
#define DURATION_FORM  "(0+|[0-9][0-9.]*(ns|us|ms|s|m|h|d))"
#define DURATION       "'pattern': '^" DURATION_FORM "$'"
#define CLOSED         "'additionalProperties': false"
#define STRINGS        "'items': {" STRING "}"
#define LENGTH         "'minLength': 1, 'maxLength': {max}"
#define FRAGMENT_BYTES 4096

/* Writes the members of the object in the formatted text. */
PRINTF_LIKE(2, 3) static void schema_put(struct writer *w, const char *fmt, ...)
{
    char text[FRAGMENT_BYTES];
    struct err err;
    va_list ap;
    va_start(ap, fmt);
    int len = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    assert(len > 0 && (size_t)len < sizeof text);
    for (char *quote = text; (quote = strchr(quote, '\''));)
        *quote = '"';
    struct json *root = json_read("the schema", text, (size_t)len, &err);
    for (const struct json *member = json_first(root); member; member = json_next(member))
        writer_json(w, json_key(member), member);
    json_free(root);
}

/* "'a', 'b'", or "a|b" for a pattern */
static void schema_words(const char *const *words, bool is_pattern, char *text, size_t size)
{
    const char *quote = is_pattern ? "" : "'", *between = is_pattern ? "|" : ", ";
    text[0] = '\0';
    for (size_t i = 0; words && words[i]; i++)
        str_addf(text, size, "%s%s%s%s", i > 0 ? between : "", quote, words[i], quote);
}

/* Adds {"file": PATH, "name": TEXT}; for a program [PROGRAM, ARGUMENT, ...] and the times. */
static void add_notice_schema(enum config_notice_kind kind, char *text, size_t size)
{
    str_addf(text, size,
             ", {'type': 'object', 'properties': {'%s': {%s},"
             " 'name': {" STRING ", 'minLength': 1, 'maxLength': %d}%s},"
             " 'required': ['%s'], " CLOSED "}",
             notice_kind_names[kind],
             noticelist_is_program(kind) ? "'type': 'array', " STRINGS ", 'minItems': 1"
                                         : STRING ", 'minLength': 1",
             CONFIG_NOTICE_NAME_MAX,
             kind == CONFIG_NOTICE_POLL ? ", 'interval': {" STRING ", " DURATION "},"
                                          " 'timeout': {" STRING ", " DURATION "}"
                                        : "",
             notice_kind_names[kind]);
}

/* Each source is a word, a word with a path, or an object: "'pattern': '^(auto|(file):.+)$'},
 * {...". */
static const char *notice_schemas(char *text, size_t size)
{
    str_copy(text, size, "'pattern': '^(none");
    for (int kind = 0; kind < CONFIG_NOTICE__COUNT; kind++)
        str_addf(text, size, "|%s%s", kind == CONFIG_NOTICE_FILE ? "(" : "",
                 notice_kind_names[kind]);
    str_addf(text, size, "):.+)$'}");
    for (int kind = CONFIG_NOTICE_FILE; kind < CONFIG_NOTICE__COUNT; kind++)
        add_notice_schema((enum config_notice_kind)kind, text, size);
    return text;
}

/* The limits of each type's values. A word in braces is one of the parts in schema_limits(). */
static const char *const limits[OPTION_TYPE__COUNT] = {
    [OPTION_BOOL] = "",
    [OPTION_SWITCH] = "'pattern': '^auto$'",
    [OPTION_INT] = "'minimum': {min}, 'maximum': {max}",
    [OPTION_DURATION] = DURATION,
    [OPTION_SIZE] = "'pattern': '^(0+|[0-9]+[BKMGT])$'",
    [OPTION_EVERY] = "'minimum': 1, 'maximum': {steps}, 'pattern': '^(auto|" DURATION_FORM ")$'",
    [OPTION_TEXT] = LENGTH,
    [OPTION_PATH] = LENGTH,
    [OPTION_TEMPLATE] = LENGTH,
    [OPTION_CHOICE] = "'enum': [{choices}]",
    [OPTION_CHOICES] = "'pattern': '^({words})(,({words}))*$'",
    [OPTION_SIGNAL] = "'pattern': '^(SIG)?({signals})$'",
    [OPTION_LIST] = STRINGS ", 'maxItems': {max}",
    [OPTION_CODES] = "'items': {'type': ['integer', 'string'], 'minimum': 1, 'maximum': {code},"
                     " 'pattern': '^[0-9]+(-[0-9]+)?$'}, 'maxItems': {max}",
    [OPTION_COMMAND] = STRINGS ", 'minItems': 1",
    [OPTION_SIGNALS] =
        "'patternProperties': {'^(SIG)?({signals})$': {'anyOf': [{'enum': [{rules}]},"
        " {'type': 'object', 'properties': {'do': {'enum': [{rules}]},"
        " 'grace': {" STRING ", " DURATION "}}, 'required': ['do'], " CLOSED "}]}},"
        " " CLOSED,
    [OPTION_NOTICES] = "'items': {'anyOf': [{" STRING ", {notices}]}, 'maxItems': {max}",
};

static void schema_limits(struct writer *w, const struct option *option)
{
    char text[FRAGMENT_BYTES] = "", notices[FRAGMENT_BYTES], signals[256], choices[256], rules[128];
    char words[256], min[24], max[24], steps[24], code[24];
    const struct str_part parts[] = {
        {"{min}", min},         {"{max}", max},     {"{steps}", steps},     {"{code}", code},
        {"{choices}", choices}, {"{rules}", rules}, {"{signals}", signals}, {"{notices}", notices},
        {"{words}", words},     {NULL, NULL},
    };
    snprintf(min, sizeof min, "%" PRId64, option->min);
    snprintf(max, sizeof max, "%" PRId64, option->max);
    snprintf(steps, sizeof steps, "%d", CONFIG_EVERY_MAX);
    snprintf(code, sizeof code, "%d", VALUE_CODES_MAX - 1);
    schema_words(option->choices, false, choices, sizeof choices);
    schema_words(option->choices, true, words, sizeof words);
    schema_words(rule_names, false, rules, sizeof rules);
    schema_words(signame_list(), true, signals, sizeof signals);
    notice_schemas(notices, sizeof notices);
    str_fill_in(text, sizeof text, limits[option->type], parts);
    schema_put(w, "{%s}", text);
}

static void schema_member(struct writer *w, const struct option *option,
                          const struct config *config)
{
    static const char *const names[] = {
        [JSON_IS_BOOL] = "boolean", [JSON_IS_INT] = "integer",   [JSON_IS_TEXT] = "string",
        [JSON_IS_LIST] = "array",   [JSON_IS_OBJECT] = "object",
    };
    const char *also = option->type == OPTION_EVERY    ? ", 'integer'"
                       : option->type == OPTION_SWITCH ? ", 'string'"
                                                       : "";
    writer_object(w, leaf(option));
    writer_text(w, "description", option->help);
    if (option->is_nullable || also[0])
        schema_put(w, "{'type': ['%s'%s%s]}", names[value_types[option->type].kind], also,
                   option->is_nullable ? ", 'null'" : "");
    else
        schema_put(w, "{'type': '%s'}", names[value_types[option->type].kind]);
    schema_limits(w, option);
    value_write(option, config, w, "default");
    writer_end(w);
}

static void schema_group(struct writer *w, const struct option_group *group,
                         const struct config *config)
{
    schema_put(w, "{'type': 'object'}");
    writer_object(w, "properties");
    for (size_t i = 0; i < options_count; i++)
        if (option_group(&options[i]) == group)
            schema_member(w, &options[i], config);
}

bool show_schema(const struct config *config, FILE *out, struct err *err)
{
    struct writer w;
    writer_init(&w, SHOWN_MAX, WRITER_PRETTY);
    writer_object(&w, NULL);
    schema_put(&w, "{'$schema': 'https://json-schema.org/draft/2020-12/schema',"
                   " 'title': 'pchrun configuration'}");
    schema_group(&w, &option_groups[0], config);
    for (size_t i = 1; i < option_groups_count; i++) {
        writer_object(&w, option_groups[i].name);
        schema_group(&w, &option_groups[i], config);
        writer_end(&w);
        schema_put(&w, "{" CLOSED "}");
        writer_end(&w);
    }
    schema_put(&w, "{'$schema': {" STRING "}}");
    for (const char *const *name = show_added; *name; name++)
        schema_put(
            &w, "{'%s': {'description': 'added by --print-config; ignored when the file is read'}}",
            *name);
    writer_end(&w);
    schema_put(&w, "{" CLOSED "}");
    writer_end(&w);
    return show_finish(&w, out, err);
}
