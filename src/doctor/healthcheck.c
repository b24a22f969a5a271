/* SPDX-License-Identifier: Apache-2.0
 * See doctor.h: what do the health checks of this node say? health.check is the one program of the
 * user that the doctor runs, because it is made to look, and because a wrong answer would stop the
 * job.
 */
#include "base/clock.h"
#include "base/sigtext.h"
#include "doctor/doctor.h"
#include "health/healthgpu.h"
#include "health/healthline.h"
#include "os/program.h"
#include "os/reap.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 64 * 1024 };

void check_health(const struct patient *patient, struct finding *ret)
{
    static char text[TEXT_MAX];
    char how[SIGTEXT_MAX + 32], why[400];
    struct health_answer answer;
    struct err err;
    char *const *check = patient->config->health.check;
    if (!check)
        return;
    char **argv = program_args(check, getenv("PATH"), &err); /* as a run does */
    if (!argv) {
        finding_set(ret, FINDING_BAD, "health.check: %.400s", err.text);
        return;
    }
    int status = ask_status(argv, ASK_NS, text, sizeof text, &err);
    if (status == REAP_LOST) {
        finding_set(ret, FINDING_UNKNOWN, "%.400s", err.text);
        return;
    }
    sigtext_of_status(status, how, sizeof how);
    healthline_read(status, how, text, strlen(text), &answer);
    healthline_describe(&answer, why, sizeof why);
    if (answer.verdict == HEALTH_GOOD) {
        finding_set(ret, FINDING_OK, "'%.200s' says that this node is healthy", check[0]);
    } else if (answer.verdict == HEALTH_BAD) {
        finding_set(ret, FINDING_BAD, "'%.200s' says that this node is not healthy: %.250s",
                    check[0], why);
        finding_advise(ret, "repair it, or run the job without this host");
    } else {
        finding_set(ret, FINDING_WARN, "'%.200s' gives no answer: %.250s", check[0], why);
        finding_advise(ret, "run it yourself to see why; HEALTH CHECKS in pchrun(1) has the rules");
    }
}

void check_health_gpu(const struct patient *patient, struct finding *ret)
{
    struct healthgpu_answer answer;
    char why[400];
    if (!patient->config->health.gpu)
        return;
    healthgpu_ask(&(struct healthgpu_past){0}, &answer);
    healthline_describe(&answer.health, why, sizeof why);
    switch (answer.health.verdict) {
    case HEALTH_GOOD:
        finding_set(ret, FINDING_OK, "%u healthy%s%s", answer.past.gpus, why[0] ? "; " : "", why);
        break;
    case HEALTH_BAD:
        finding_set(ret, FINDING_BAD, "not healthy: %s", why);
        finding_advise(ret, "repair it, or run the job without this host");
        break;
    case HEALTH_UNKNOWN:
        finding_set(ret, FINDING_WARN, "no answer: %s", why);
        finding_advise(ret, "nvidia-smi may say more");
        break;
    case HEALTH_SKIPPED:
        finding_set(ret, FINDING_UNKNOWN, "%s", why);
        break;
    }
}
