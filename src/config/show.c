/* SPDX-License-Identifier: Apache-2.0
 * See show.h.
 */
#include "config/show.h"

#include "base/str.h"
#include "config/codes.h"
#include "config/discovered.h"
#include "config/noticelist.h"
#include "config/options.h"
#include "config/origin.h"
#include "config/presets.h"
#include "config/rules.h"
#include "config/signames.h"
#include "config/values.h"

#include <errno.h>
#include <string.h>

const char *const show_added[] = {"$platform", "$cluster", "$sources", NULL};

#define SHOWN_MAX (16 * 1024 * 1024) /* CONFIG_FILE_MAX, with room for escapes and indentation */

static bool finish(struct writer *w, FILE *out, struct err *err)
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

typedef void member_fn(struct writer *w, const struct option *option, const struct config *config);

static void each_in_group(struct writer *w, const struct option_group *group,
                          const struct config *config, member_fn *member)
{
    for (size_t i = 0; i < options_count; i++)
        if (option_is_in(&options[i], group))
            member(w, &options[i], config);
}

static void write_member(struct writer *w, const struct option *option, const struct config *config)
{
    value_write(option, config, w, leaf(option));
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
        each_in_group(&w, group, config, write_member);
        if (group->name[0])
            writer_end(&w);
    }
    writer_object(&w, "$sources");
    for (size_t i = 0; i < options_count; i++)
        writer_text(&w, options[i].key, origin_text(config, &options[i]));
    writer_end(&w);
    writer_end(&w);
    return finish(&w, out, err);
}

static void schema_choices(struct writer *w, const char *const *choices)
{
    writer_list(w, "enum");
    for (; *choices; choices++)
        writer_text(w, NULL, *choices);
    writer_end(w);
}

/* "^(SIG)?(HUP|INT)$" */
static char *signal_pattern(char *text, size_t size)
{
    str_copy(text, size, "^(SIG)?(");
    for (unsigned i = 0; signame_at(i); i++)
        str_addf(text, size, "%s%s", i > 0 ? "|" : "", signame_at(i));
    str_addf(text, size, ")$");
    return text;
}

static void schema_duration(struct writer *w)
{
    writer_text(w, "pattern", "^(0+|[0-9][0-9.]*(ns|us|ms|s|m|h|d))$");
}

/* A signal's value: a word, or a word and a grace. */
static void schema_rule(struct writer *w)
{
    writer_list(w, "anyOf");
    writer_object(w, NULL);
    schema_choices(w, rule_names);
    writer_end(w);
    writer_object(w, NULL);
    writer_text(w, "type", "object");
    writer_object(w, "properties");
    writer_object(w, "do");
    schema_choices(w, rule_names);
    writer_end(w);
    writer_object(w, "grace");
    writer_text(w, "type", "string");
    schema_duration(w);
    writer_end(w);
    writer_end(w);
    writer_list(w, "required");
    writer_text(w, NULL, "do");
    writer_end(w);
    writer_bool(w, "additionalProperties", false);
    writer_end(w);
    writer_end(w);
}

static void schema_signals(struct writer *w)
{
    char pattern[256];
    writer_object(w, "patternProperties");
    writer_object(w, signal_pattern(pattern, sizeof pattern));
    schema_rule(w);
    writer_end(w);
    writer_end(w);
    writer_bool(w, "additionalProperties", false);
}

/* {"file": PATH, "name": TEXT}, and for a program: [PROGRAM, ARGUMENT, ...] and the times. */
static void schema_notice(struct writer *w, enum config_notice_kind kind)
{
    bool is_program = kind == CONFIG_NOTICE_COMMAND || kind == CONFIG_NOTICE_POLL;
    writer_object(w, NULL);
    writer_text(w, "type", "object");
    writer_object(w, "properties");
    writer_object(w, notice_kind_names[kind]);
    writer_text(w, "type", is_program ? "array" : "string");
    if (is_program) {
        writer_object(w, "items");
        writer_text(w, "type", "string");
        writer_end(w);
    }
    writer_int(w, is_program ? "minItems" : "minLength", 1);
    writer_end(w);
    writer_object(w, "name");
    writer_text(w, "type", "string");
    writer_int(w, "minLength", 1);
    writer_int(w, "maxLength", CONFIG_NOTICE_NAME_MAX);
    writer_end(w);
    for (int i = 0; kind == CONFIG_NOTICE_POLL && i < 2; i++) {
        writer_object(w, i == 0 ? "interval" : "timeout");
        writer_text(w, "type", "string");
        schema_duration(w);
        writer_end(w);
    }
    writer_end(w);
    writer_list(w, "required");
    writer_text(w, NULL, notice_kind_names[kind]);
    writer_end(w);
    writer_bool(w, "additionalProperties", false);
    writer_end(w);
}

/* As text: a word, or one with a path. */
static void schema_notice_texts(struct writer *w)
{
    char pattern[256] = "^(none";
    int kind = 0;
    for (; kind < CONFIG_NOTICE_FILE; kind++)
        str_addf(pattern, sizeof pattern, "|%s", notice_kind_names[kind]);
    for (const char *between = "|("; kind < CONFIG_NOTICE__COUNT; kind++, between = "|")
        str_addf(pattern, sizeof pattern, "%s%s", between, notice_kind_names[kind]);
    str_addf(pattern, sizeof pattern, "):.+)$");
    writer_text(w, "pattern", pattern);
}

static void schema_notices(struct writer *w)
{
    writer_object(w, "items");
    writer_list(w, "anyOf");
    writer_object(w, NULL);
    writer_text(w, "type", "string");
    schema_notice_texts(w);
    writer_end(w);
    for (int kind = CONFIG_NOTICE_FILE; kind < CONFIG_NOTICE__COUNT; kind++)
        schema_notice(w, (enum config_notice_kind)kind);
    writer_end(w);
    writer_end(w);
    writer_int(w, "maxItems", CONFIG_NOTICES_MAX);
}

static void schema_codes(struct writer *w)
{
    writer_object(w, "items");
    writer_list(w, "type");
    writer_text(w, NULL, "integer");
    writer_text(w, NULL, "string");
    writer_end(w);
    writer_int(w, "minimum", 1);
    writer_int(w, "maximum", CODES_MAX - 1);
    writer_text(w, "pattern", "^[0-9]+(-[0-9]+)?$");
    writer_end(w);
}

static void schema_limits(struct writer *w, const struct option *option)
{
    char pattern[256];
    switch (option->type) {
    case OPTION_INT:
        writer_int(w, "minimum", option->min);
        writer_int(w, "maximum", option->max);
        break;
    case OPTION_DURATION:
        schema_duration(w);
        break;
    case OPTION_SIZE:
        writer_text(w, "pattern", "^(0+|[0-9]+[BKMGT])$");
        break;
    case OPTION_EVERY:
        writer_int(w, "minimum", 1);
        writer_int(w, "maximum", CONFIG_EVERY_MAX);
        schema_duration(w);
        break;
    case OPTION_TEXT:
    case OPTION_PATH:
    case OPTION_TEMPLATE:
        writer_int(w, "minLength", 1);
        writer_int(w, "maxLength", option->max);
        break;
    case OPTION_CHOICE:
        schema_choices(w, option->choices);
        break;
    case OPTION_SIGNAL:
        writer_text(w, "pattern", signal_pattern(pattern, sizeof pattern));
        break;
    case OPTION_LIST:
        writer_object(w, "items");
        writer_text(w, "type", "string");
        writer_end(w);
        writer_int(w, "maxItems", option->max);
        break;
    case OPTION_CODES:
        schema_codes(w);
        writer_int(w, "maxItems", option->max);
        break;
    case OPTION_COMMAND:
        writer_object(w, "items");
        writer_text(w, "type", "string");
        writer_end(w);
        writer_int(w, "minItems", 1);
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

static const char *const schema_types[OPTION_TYPE__COUNT] = {
    [OPTION_BOOL] = "boolean",   [OPTION_INT] = "integer",   [OPTION_DURATION] = "string",
    [OPTION_TEXT] = "string",    [OPTION_PATH] = "string",   [OPTION_TEMPLATE] = "string",
    [OPTION_CHOICE] = "string",  [OPTION_SIGNAL] = "string", [OPTION_LIST] = "array",
    [OPTION_EVERY] = "string",   [OPTION_SIZE] = "string",   [OPTION_COMMAND] = "array",
    [OPTION_SIGNALS] = "object", [OPTION_NOTICES] = "array", [OPTION_CODES] = "array",
};

static void schema_member(struct writer *w, const struct option *option,
                          const struct config *config)
{
    writer_object(w, leaf(option));
    writer_text(w, "description", option->help);
    if (option->is_nullable) {
        writer_list(w, "type");
        writer_text(w, NULL, schema_types[option->type]);
        if (option->type == OPTION_EVERY)
            writer_text(w, NULL, "integer");
        writer_text(w, NULL, "null");
        writer_end(w);
    } else {
        writer_text(w, "type", schema_types[option->type]);
    }
    schema_limits(w, option);
    value_write(option, config, w, "default");
    writer_end(w);
}

static void schema_group(struct writer *w, const struct option_group *group,
                         const struct config *config)
{
    writer_text(w, "type", "object");
    writer_object(w, "properties");
    each_in_group(w, group, config, schema_member);
}

bool show_schema(const struct config *config, FILE *out, struct err *err)
{
    struct writer w;
    writer_init(&w, SHOWN_MAX, WRITER_PRETTY);
    writer_object(&w, NULL);
    writer_text(&w, "$schema", "https://json-schema.org/draft/2020-12/schema");
    writer_text(&w, "title", "pchrun configuration");
    schema_group(&w, &option_groups[0], config);
    for (size_t i = 1; i < option_groups_count; i++) {
        writer_object(&w, option_groups[i].name);
        schema_group(&w, &option_groups[i], config);
        writer_end(&w);
        writer_bool(&w, "additionalProperties", false);
        writer_end(&w);
    }
    writer_object(&w, "$schema");
    writer_text(&w, "type", "string");
    writer_end(&w);
    for (const char *const *name = show_added; *name; name++) {
        writer_object(&w, *name);
        writer_text(&w, "description", "what --print-config adds; not read");
        writer_end(&w);
    }
    writer_end(&w);
    writer_bool(&w, "additionalProperties", false);
    writer_end(&w);
    return finish(&w, out, err);
}
