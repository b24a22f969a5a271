/* SPDX-License-Identifier: Apache-2.0
 * See doctor.h: do the notice sources answer? pchrun-watch asks them as in a run, but once
 * (--check), and answers in one line: "verdict: what". The doctor does not start the user's own
 * sources.
 */
#include "base/clock.h"
#include "base/str.h"
#include "config/noticelist.h"
#include "config/values.h"
#include "doctor/doctor.h"
#include "notices/inbox.h"

#include <stdio.h>
#include <string.h>

#define ONE_NS (4 * NS_PER_S)

enum { ARGS_MAX = 4, LINE_MAX_SIZE = 640 };

/* The words of the verdicts; pchrun-watch prints them, too. */
const char *const finding_names[FINDING__COUNT] = {[FINDING_NONE] = "",
                                                   [FINDING_OK] = "ok",
                                                   [FINDING_UNKNOWN] = "unknown",
                                                   [FINDING_WARN] = "warn",
                                                   [FINDING_BAD] = "bad"};

/* Runs the source with its own arguments and --check. */
static bool ask_source(const struct source *source, char *line, struct err *err)
{
    char check[] = "--check";
    char *argv[ARGS_MAX + 2] = {NULL};
    size_t n = 0;
    while (n < ARGS_MAX && source->argv[n]) {
        argv[n] = source->argv[n];
        n++;
    }
    argv[n] = check;
    return ask(argv, ONE_NS, line, LINE_MAX_SIZE, err);
}

/* "warn: what" */
static enum finding_verdict verdict_of(const char *line)
{
    size_t len = strcspn(line, ":");
    for (enum finding_verdict i = FINDING_OK; i < FINDING__COUNT; i++)
        if (strncmp(line, finding_names[i], len) == 0 && !finding_names[i][len])
            return i;
    return FINDING_UNKNOWN;
}

static void doctor_advise_source(const struct source *source, const char *line, struct finding *ret)
{
    if (strstr(line, "hop limit"))
        str_copy(ret->advice, sizeof ret->advice,
                 "aws ec2 modify-instance-metadata-options --http-put-response-hop-limit 2 "
                 "--instance-id ID; or give the container the host's network");
    else
        snprintf(ret->advice, sizeof ret->advice,
                 "run it to see the error: %.200s %.60s; without it, only signals give notice",
                 source->argv[0], source->argv[1]);
}

/* If a run found the source by itself, a failure is only a warning: the run goes on. */
static void doctor_ask_one_source(const struct source *source, bool is_own, struct finding *ret)
{
    char line[LINE_MAX_SIZE];
    struct err err;
    if (!ask_source(source, line, &err))
        snprintf(line, sizeof line, "unknown: %.400s", err.text);
    line[strcspn(line, "\n")] = '\0';
    enum finding_verdict verdict = verdict_of(line);
    if (verdict == FINDING_BAD && is_own)
        verdict = FINDING_WARN;
    const char *what = strchr(line, ' ');
    str_addf(ret->seen, sizeof ret->seen, "%s%s: %s", ret->seen[0] ? "; " : "", source->name,
             what ? what + 1 : line);
    if (verdict != FINDING_OK && verdict >= ret->verdict)
        doctor_advise_source(source, line, ret);
    finding_make_worse(ret, verdict);
}

/* By the name: the inbox lacks a source of auto that is not installed. */
static bool is_users(const struct config *config, const struct source *source)
{
    for (size_t i = 0; i < config->nnotices; i++)
        if (str_is(config->notices[i].name, source->name))
            return noticelist_is_program(config->notices[i].kind);
    return true;
}

/* The process ends afterwards: nothing is freed. A missing program is a finding of "programs". */
void check_sources(const struct patient *patient, struct finding *ret)
{
    const struct config *config = patient->config;
    struct inbox inbox = {0};
    bool is_own = !origin_is_given(config, "notices");
    struct err err;
    if (!inbox_init(&inbox, config, NULL, &err))
        return;
    for (size_t i = 0; i < inbox.count; i++)
        if (!is_users(config, &inbox.sources[i]))
            doctor_ask_one_source(&inbox.sources[i], is_own, ret);
}
