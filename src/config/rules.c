/* SPDX-License-Identifier: Apache-2.0
 * See rules.h.
 */
#include "config/rules.h"

#include "base/clock.h"
#include "base/sigtext.h"
#include "base/str.h"
#include "base/value.h"

#include <ctype.h>
#include <signal.h>
#include <string.h>
#include <strings.h>

#define GRACE_MAX_NS (7 * 24 * 3600 * NS_PER_S)

enum { SIGNALS_END = 32 };

/* Why pchrun cannot use a signal; NULL: a user may name it. */
static const char *const refused[SIGNALS_END] = {
    [SIGKILL] = "no program can handle it",
    [SIGSTOP] = "no program can handle it",
    [SIGCHLD] = "pchrun itself needs it",
    [SIGPIPE] = "it reports a broken pipe",
    [SIGTSTP] = "it belongs to job control",
    [SIGTTIN] = "it belongs to job control",
    [SIGTTOU] = "it belongs to job control",
    [SIGCONT] = "it belongs to job control",
    [SIGWINCH] = "it belongs to the terminal",
    [SIGURG] = "it belongs to sockets",
    [SIGSEGV] = "it reports an error in the program",
    [SIGBUS] = "it reports an error in the program",
    [SIGFPE] = "it reports an error in the program",
    [SIGILL] = "it reports an error in the program",
    [SIGTRAP] = "it reports an error in the program",
    [SIGSYS] = "it reports an error in the program",
    [SIGABRT] = "it reports an error in the program",
    [SIGXFSZ] = "it reports an error in the program",
};

const char *const *signame_list(void)
{
    static const char *names[SIGNALS_END];
    size_t n = 0;
    for (int number = 1; number < SIGNALS_END; number++)
        if (!refused[number])
            names[n++] = sigabbrev(number);
    return names;
}

static bool unknown_signal(const char *name, const char *bare, struct err *err)
{
    char upper[32];
    str_copy(upper, sizeof upper, bare);
    for (char *p = upper; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    struct nearest nearest = nearest_to(upper);
    for (const char *const *known = signame_list(); *known; known++)
        nearest_consider(&nearest, "", *known);
    return err_set(err, ERR_USAGE, 0, "\"%.40s\" is not a signal; %s%s", name,
                   nearest.name[0] ? "the nearest is " : "write a name, such as TERM",
                   nearest.name);
}

bool signame_parse(const char *name, int *ret, struct err *err)
{
    const char *bare = strncasecmp(name, "SIG", 3) == 0 ? name + 3 : name;
    for (int number = 1; number < SIGNALS_END; number++) {
        if (strcasecmp(bare, sigabbrev(number)) != 0)
            continue;
        if (refused[number])
            return err_set(err, ERR_USAGE, 0, "SIG%s cannot be used here: %s", sigabbrev(number),
                           refused[number]);
        *ret = number;
        return true;
    }
    return unknown_signal(name, bare, err);
}

/* ---- the meaning of signals ---- */

const char *const rule_names[] = {
    [SIGNAL_FORWARD] = "forward",
    [SIGNAL_PREEMPT] = "preempt",
    [SIGNAL_CHECKPOINT] = "checkpoint",
    [SIGNAL_IGNORE] = "ignore",
    NULL,
};

/* `grace` may be NULL. */
static bool parse_rule(const char *action, const char *grace, struct config_signal *ret,
                       struct err *err)
{
    *ret = (struct config_signal){.is_given = true, .grace_ns = -1};
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
        return err_set(err, ERR_USAGE, 0, "only preempt takes a grace, not %s", action);
    return value_duration(grace, 0, GRACE_MAX_NS, &ret->grace_ns, err) ||
           err_wrap(err, "its grace");
}

bool rules_add_text(char *text, struct config *config, struct err *err)
{
    char *action = strchr(text, '=');
    if (!action)
        return err_set(err, ERR_USAGE, 0,
                       "\"%.80s\" is not a rule; write NAME=DO or NAME=preempt:GRACE", text);
    *action++ = '\0';
    char *grace = strchr(action, ':');
    if (grace)
        *grace++ = '\0';
    int number;
    return signame_parse(text, &number, err) &&
           (parse_rule(action, grace, &config->signals[number], err) ||
            err_wrap(err, "%s", sigabbrev(number)));
}

static bool rule_from_json(const struct json *json, struct config_signal *ret, struct err *err)
{
    const char *action = json_text(json), *grace = NULL;
    if (!action && json_kind(json) != JSON_IS_OBJECT)
        return json_unwanted(json, "a string or an object is wanted", err);
    for (const struct json *member = json_first(json); member; member = json_next(member)) {
        const char *text = json_need_text(member, err);
        if (!str_is(json_key(member), "do") && !str_is(json_key(member), "grace"))
            return err_set(err, ERR_USAGE, 0,
                           "unknown key \"%.40s\"; known are \"do\" and \"grace\"",
                           json_key(member));
        if (!text)
            return err_wrap(err, "%s", json_key(member));
        *(str_is(json_key(member), "do") ? &action : &grace) = text;
    }
    if (!action)
        return err_set(err, ERR_USAGE, 0, "the key \"do\" is missing");
    return parse_rule(action, grace, ret, err);
}

bool rules_from_json(const struct json *json, struct config *config, struct err *err)
{
    uint64_t seen = 0; /* the JSON reader accepts "TERM" beside "SIGTERM" */
    for (const struct json *member = json_first(json); member; member = json_next(member)) {
        int number;
        if (!signame_parse(json_key(member), &number, err))
            return false;
        if (seen & UINT64_C(1) << number)
            return err_set(err, ERR_USAGE, 0, "%s is given twice", sigabbrev(number));
        seen |= UINT64_C(1) << number;
        if (!rule_from_json(member, &config->signals[number], err))
            return err_wrap(err, "%s", sigabbrev(number));
    }
    return true;
}

void rules_write(const struct config *config, struct writer *writer, const char *key)
{
    writer_object(writer, key);
    for (int number = 0; number < CONFIG_SIGNALS; number++) {
        const struct config_signal *rule = &config->signals[number];
        if (!rule->is_given)
            continue;
        if (rule->grace_ns < 0) {
            writer_text(writer, sigabbrev(number), rule_names[rule->rule]);
            continue;
        }
        char grace[32];
        writer_object(writer, sigabbrev(number));
        writer_text(writer, "do", rule_names[rule->rule]);
        writer_text(writer, "grace", str_duration(rule->grace_ns, grace, sizeof grace));
        writer_end(writer);
    }
    writer_end(writer);
}

int64_t config_grace(const struct config *config, int number)
{
    const struct config_signal *rule = &config->signals[number];
    if (rule->rule != SIGNAL_PREEMPT)
        return -1;
    return rule->grace_ns >= 0 ? rule->grace_ns : config->grace_ns;
}

int64_t config_least_grace(const struct config *config)
{
    int64_t least = config->grace_ns;
    for (int number = 0; number < CONFIG_SIGNALS; number++) {
        int64_t grace = config_grace(config, number);
        if (grace >= 0 && grace < least)
            least = grace;
    }
    return least;
}
