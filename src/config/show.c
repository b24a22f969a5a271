/* SPDX-License-Identifier: Apache-2.0
 * See sources.h.
 */
#include "config/sources.h"

#include "base/str.h"
#include "base/value.h"
#include "config/noticelist.h"
#include "config/options.h"
#include "config/origin.h"
#include "config/presets.h"
#include "config/rules.h"
#include "config/signames.h"
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
#define DURATION       "'pattern': '^(0+|[0-9][0-9.]*(ns|us|ms|s|m|h|d))$'"
#define CLOSED         "'additionalProperties': false"
#define STRINGS        "'items': {" STRING "}"
#define FRAGMENT_BYTES 4096

/* Writes the members of the object that the text is. */
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
    for (const struct json *member = root ? json_first(root) : NULL; member;
         member = json_next(member))
        writer_json(w, json_key(member), member);
    json_free(root);
}

/* "'a', 'b'" */
static const char *schema_words(const char *const *words, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; words[i]; i++)
        str_addf(text, size, "%s'%s'", i > 0 ? ", " : "", words[i]);
    return text;
}

/* "^(SIG)?(HUP|INT)$" */
static const char *signal_pattern(char *text, size_t size)
{
    str_copy(text, size, "^(SIG)?(");
    for (unsigned i = 0; signame_at(i); i++)
        str_addf(text, size, "%s%s", i > 0 ? "|" : "", signame_at(i));
    str_addf(text, size, ")$");
    return text;
}

/* The value for a signal: a word, or an object of a word and a grace. */
static void schema_signals(struct writer *w)
{
    char pattern[256], words[128];
    schema_words(rule_names, words, sizeof words);
    schema_put(w,
               "{'patternProperties': {'%s': {'anyOf': [{'enum': [%s]}, {'type': 'object',"
               " 'properties': {'do': {'enum': [%s]}, 'grace': {" STRING ", " DURATION "}},"
               " 'required': ['do'], " CLOSED "}]}}, " CLOSED "}",
               signal_pattern(pattern, sizeof pattern), words, words);
}

/* Adds {"file": PATH, "name": TEXT}; for a program [PROGRAM, ARGUMENT, ...] and the times. */
static void add_notice_schema(enum config_notice_kind kind, char *text, size_t size)
{
    bool is_program = kind == CONFIG_NOTICE_COMMAND || kind == CONFIG_NOTICE_POLL;
    str_addf(text, size,
             ", {'type': 'object', 'properties': {'%s': {%s},"
             " 'name': {" STRING ", 'minLength': 1, 'maxLength': %d}%s},"
             " 'required': ['%s'], " CLOSED "}",
             notice_kind_names[kind],
             is_program ? "'type': 'array', " STRINGS ", 'minItems': 1" : STRING ", 'minLength': 1",
             CONFIG_NOTICE_NAME_MAX,
             kind == CONFIG_NOTICE_POLL ? ", 'interval': {" STRING ", " DURATION "},"
                                          " 'timeout': {" STRING ", " DURATION "}"
                                        : "",
             notice_kind_names[kind]);
}

/* Each source is a word, a word with a path, or an object. */
static void schema_notices(struct writer *w)
{
    char words[128] = "none", with_path[128] = "", objects[FRAGMENT_BYTES] = "";
    for (int kind = 0; kind < CONFIG_NOTICE__COUNT; kind++) {
        bool is_word = kind < CONFIG_NOTICE_FILE;
        str_addf(is_word ? words : with_path, sizeof words, "%s%s",
                 is_word || kind > CONFIG_NOTICE_FILE ? "|" : "", notice_kind_names[kind]);
        if (!is_word)
            add_notice_schema((enum config_notice_kind)kind, objects, sizeof objects);
    }
    schema_put(w,
               "{'items': {'anyOf': [{" STRING ", 'pattern': '^(%s|(%s):.+)$'}%s]},"
               " 'maxItems': %d}",
               words, with_path, objects, CONFIG_NOTICES_MAX);
}

static void schema_limits(struct writer *w, const struct option *option)
{
    char text[256];
    switch (option->type) {
    case OPTION_INT:
        schema_put(w, "{'minimum': %" PRId64 ", 'maximum': %" PRId64 "}", option->min, option->max);
        break;
    case OPTION_DURATION:
        schema_put(w, "{" DURATION "}");
        break;
    case OPTION_SIZE:
        schema_put(w, "{'pattern': '^(0+|[0-9]+[BKMGT])$'}");
        break;
    case OPTION_EVERY:
        schema_put(w, "{'minimum': 1, 'maximum': %d, " DURATION "}", CONFIG_EVERY_MAX);
        break;
    case OPTION_TEXT:
    case OPTION_PATH:
    case OPTION_TEMPLATE:
        schema_put(w, "{'minLength': 1, 'maxLength': %" PRId64 "}", option->max);
        break;
    case OPTION_CHOICE:
        schema_put(w, "{'enum': [%s]}", schema_words(option->choices, text, sizeof text));
        break;
    case OPTION_SIGNAL:
        schema_put(w, "{'pattern': '%s'}", signal_pattern(text, sizeof text));
        break;
    case OPTION_LIST:
        schema_put(w, "{" STRINGS ", 'maxItems': %" PRId64 "}", option->max);
        break;
    case OPTION_CODES:
        schema_put(w,
                   "{'items': {'type': ['integer', 'string'], 'minimum': 1, 'maximum': %d,"
                   " 'pattern': '^[0-9]+(-[0-9]+)?$'}, 'maxItems': %" PRId64 "}",
                   VALUE_CODES_MAX - 1, option->max);
        break;
    case OPTION_COMMAND:
        schema_put(w, "{" STRINGS ", 'minItems': 1}");
        break;
    case OPTION_SIGNALS:
        schema_signals(w);
        break;
    case OPTION_NOTICES:
        schema_notices(w);
        break;
    default:
        break;
    }
}

static void schema_member(struct writer *w, const struct option *option,
                          const struct config *config)
{
    static const char *const names[] = {
        [JSON_IS_BOOL] = "boolean", [JSON_IS_INT] = "integer",   [JSON_IS_TEXT] = "string",
        [JSON_IS_LIST] = "array",   [JSON_IS_OBJECT] = "object",
    };
    const char *also = option->type == OPTION_EVERY ? "'integer', " : "";
    writer_object(w, leaf(option));
    writer_text(w, "description", option->help);
    if (option->is_nullable)
        schema_put(w, "{'type': ['%s', %s'null']}", names[value_type(option)->kind], also);
    else
        schema_put(w, "{'type': '%s'}", names[value_type(option)->kind]);
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
        schema_put(&w, "{'%s': {'description': 'what --print-config adds; not read'}}", *name);
    writer_end(&w);
    schema_put(&w, "{" CLOSED "}");
    writer_end(&w);
    return show_finish(&w, out, err);
}
