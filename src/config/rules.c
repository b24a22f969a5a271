/* SPDX-License-Identifier: Apache-2.0
 * See rules.h.
 */
#include "config/rules.h"

#include "base/str.h"
#include "base/value.h"
#include "config/signames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *const rule_names[] = {
    [SIGNAL_FORWARD] = "forward",
    [SIGNAL_PREEMPT] = "preempt",
    [SIGNAL_CHECKPOINT] = "checkpoint",
    [SIGNAL_IGNORE] = "ignore",
    NULL,
};

/* Replaces the signal's rule, or adds it; the rules stay in the order of the numbers. */
static bool put_rule(struct config *config, const struct config_signal *rule, struct err *err)
{
    size_t at = 0;
    while (at < config->nsignals && config->signals[at].number < rule->number)
        at++;
    if (at == config->nsignals || config->signals[at].number != rule->number) {
        struct config_signal *more =
            realloc(config->signals, (config->nsignals + 1) * sizeof *more);
        if (!more)
            return err_set(err, ERR_SYSTEM, ENOMEM, "cannot keep it");
        memmove(more + at + 1, more + at, (config->nsignals - at) * sizeof *more);
        config->signals = more;
        config->nsignals++;
    }
    config->signals[at] = *rule;
    return true;
}

/* `grace` may be NULL. */
static bool parse_rule(const struct option *option, const char *action, const char *grace,
                       struct config_signal *ret, struct err *err)
{
    ret->grace_ns = -1;
    int rule = 0;
    while (rule_names[rule] && !str_is(rule_names[rule], action))
        rule++;
    if (!rule_names[rule])
        return err_set(err, ERR_USAGE, 0,
                       "\"%.40s\" is not one of preempt, checkpoint, forward, ignore", action);
    ret->rule = (enum signal_rule)rule;
    if (!grace)
        return true;
    if (ret->rule != SIGNAL_PREEMPT)
        return err_set(err, ERR_USAGE, 0, "a grace goes with preempt only, not with %s", action);
    return value_duration(grace, option->min, option->max, &ret->grace_ns, err) ||
           err_wrap(err, "its grace");
}

/* One "NAME=do:grace", which is cut into pieces. */
static bool rule_from_text(const struct option *option, char *text, struct config *config,
                           struct err *err)
{
    char *action = strchr(text, '=');
    if (!action)
        return err_set(err, ERR_USAGE, 0,
                       "\"%.80s\" is no rule; write NAME=DO or NAME=preempt:GRACE", text);
    *action++ = '\0';
    char *grace = strchr(action, ':');
    if (grace)
        *grace++ = '\0';
    struct config_signal rule;
    if (!signame_parse(text, &rule.number, err))
        return false;
    if (!parse_rule(option, action, grace, &rule, err))
        return err_wrap(err, "%s", signame(rule.number));
    return put_rule(config, &rule, err);
}

bool rules_from_text(const struct option *option, const char *text, struct config *config,
                     struct err *err)
{
    char *copy = strdup(text);
    if (!copy)
        return err_set(err, ERR_SYSTEM, ENOMEM, "cannot keep it");
    char *rest = copy, *item;
    bool ok = true;
    while (ok && (item = strsep(&rest, ",")))
        ok = rule_from_text(option, item, config, err);
    free(copy);
    return ok;
}

static bool has_rule(const struct config *config, int number)
{
    for (size_t i = 0; i < config->nsignals; i++)
        if (config->signals[i].number == number)
            return true;
    return false;
}

bool rules_add_missing(const struct option *option, const char *text, struct config *config,
                       struct err *err)
{
    struct config more = {0};
    bool ok = rules_from_text(option, text, &more, err);
    for (size_t i = 0; ok && i < more.nsignals; i++)
        if (!has_rule(config, more.signals[i].number))
            ok = put_rule(config, &more.signals[i], err);
    rules_clear(&more);
    return ok;
}

static bool rule_from_object(const struct option *option, const struct json *json,
                             struct config_signal *ret, struct err *err)
{
    const char *action = NULL, *grace = NULL;
    for (const struct json *member = json_first(json); member; member = json_next(member)) {
        const char *text = json_text(member);
        if (!str_is(json_key(member), "do") && !str_is(json_key(member), "grace"))
            return err_set(err, ERR_USAGE, 0,
                           "unknown key \"%.40s\"; known are \"do\" and \"grace\"",
                           json_key(member));
        if (!text)
            return err_set(err, ERR_USAGE, 0, "%s: a string is wanted, not %s", json_key(member),
                           json_kind_name(member));
        *(str_is(json_key(member), "do") ? &action : &grace) = text;
    }
    if (!action)
        return err_set(err, ERR_USAGE, 0, "the key \"do\" is missing");
    return parse_rule(option, action, grace, ret, err);
}

static bool rule_from_json(const struct option *option, const struct json *json,
                           struct config_signal *ret, struct err *err)
{
    if (json_kind(json) == JSON_IS_OBJECT)
        return rule_from_object(option, json, ret, err);
    const char *action = json_text(json);
    if (!action)
        return err_set(err, ERR_USAGE, 0, "a string or an object is wanted, not %s",
                       json_kind_name(json));
    return parse_rule(option, action, NULL, ret, err);
}

bool rules_from_json(const struct option *option, const struct json *json, struct config *config,
                     struct err *err)
{
    uint64_t seen = 0; /* to the JSON reader "TERM" and "SIGTERM" are different keys */
    for (const struct json *member = json_first(json); member; member = json_next(member)) {
        struct config_signal rule;
        if (!signame_parse(json_key(member), &rule.number, err))
            return false;
        if (seen & UINT64_C(1) << rule.number)
            return err_set(err, ERR_USAGE, 0, "%s is there twice", signame(rule.number));
        seen |= UINT64_C(1) << rule.number;
        if (!rule_from_json(option, member, &rule, err))
            return err_wrap(err, "%s", signame(rule.number));
        if (!put_rule(config, &rule, err))
            return false;
    }
    return true;
}

void rules_clear(struct config *config)
{
    free(config->signals);
    config->signals = NULL;
    config->nsignals = 0;
}

void rules_write(const struct config *config, struct writer *writer, const char *key)
{
    writer_object(writer, key);
    for (size_t i = 0; i < config->nsignals; i++) {
        const struct config_signal *rule = &config->signals[i];
        if (rule->grace_ns < 0) {
            writer_text(writer, signame(rule->number), rule_names[rule->rule]);
            continue;
        }
        char grace[32];
        writer_object(writer, signame(rule->number));
        writer_text(writer, "do", rule_names[rule->rule]);
        writer_text(writer, "grace", str_duration(rule->grace_ns, grace, sizeof grace));
        writer_end(writer);
    }
    writer_end(writer);
}
