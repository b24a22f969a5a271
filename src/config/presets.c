/* SPDX-License-Identifier: Apache-2.0
 * See presets.h.
 *
 * To add a preset: its number in platform.h, its name in platform.c, its row here; if the machine
 * shows it, also a line in platform.c. A grace is the least time that the platform promises, minus
 * the time to end.
 */
#include "config/presets.h"

#include "base/str.h"
#include "config/noticelist.h"
#include "config/options.h"
#include "config/origin.h"
#include "config/values.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
#define RESTART_CODES(code)                                                                        \
    {"exit.preempted", code}, {"exit.preempted_unsaved", code}, {"exit.node_lost", code},          \
    {"exit.hang", code}
/* clang-format on */

const char presets_manual[] =
    "A preset replaces the defaults by the values of one platform.\nA flag, a variable or the file "
    "wins over it; for\n.Cm signals\nthat holds for each signal alone.\n"
    ".Nm pchrun Fl -print-config\nshows under\n.Li $platform\nthe preset in force and why, and the "
    "meaning of\n.Li auto\nin\n.Cm notices .\nIt also marks each value of the preset.\npchrun "
    "sends "
    "no packet to find the platform.\nA grace is the promise of the platform less 5 seconds.\nIf "
    "the promise varies, it is the least: set\n.Cm grace\nif yours is longer.";

const struct preset_row presets[PRESET__COUNT] = {
    [PRESET_AUTO] = {.title = "look where this is",
                     .manual =
                         "The scheduler's preset, by its variables:\n.Li slurm\nby\n"
                         ".Ev SLURM_JOB_ID ,\n.Li sge\nby\n.Ev SGE_ROOT\nand\n.Ev JOB_ID ,\n"
                         ".Li kubernetes\nby\n.Ev KUBERNETES_SERVICE_HOST .\nThe first of these "
                         "counts; without one, the defaults.\nThe sources of notices of the cloud "
                         "are added, by the firmware in\n.Pa /sys/class/dmi/id :\n"
                         ".Li gce-gpu\nor\n.Li gce-spot\n(the firmware does not show whether a VM "
                         "is a Spot VM),\n.Li aws , azure , alibaba\nor\n.Li tencent .\nOther "
                         "values of a cloud's preset are not taken."},
    [PRESET_NONE] = {.title = "nowhere in particular",
                     .manual = "The defaults, without any detection."},
    [PRESET_SLURM] =
        {.title = "Slurm",
         .manual = "Slurm kills 30 seconds after\n.Dv SIGTERM\n(KillWait).\n.Li --signal=USR1\n"
                   "sends\n.Dv SIGUSR1\n60 seconds before the end; for a longer time set\n"
                   ".Cm signals .\nSlurm requeues a job that exits with 42 if slurm.conf has\n"
                   ".Li RequeueExit=42 ,\nand holds a job that exits with 43 if it has\n"
                   ".Li RequeueExitHold=43 .",
         .settings = {{"grace", "25s"}, {"signals", "USR1=preempt:55s"}},
         .source = CONFIG_NOTICE_SLURM},
    [PRESET_KUBERNETES] =
        {.title = "Kubernetes",
         .manual = "A pod has the seconds of its\n.Li terminationGracePeriodSeconds ,\n"
                   "by default 30, which it cannot see; on a Spot node of GKE 15.\nIn a Job, a\n"
                   ".Li podFailurePolicy\nthat ignores 42 keeps preemptions from counting as "
                   "failures.",
         .settings = {{"grace", "25s"}}},
    [PRESET_KUBEFLOW] =
        {.title = "Kubeflow, with restartPolicy ExitCode",
         .manual = "Under this policy of the training operator the codes 1 to 127 are final, so 42 "
                   "would end the job; 128 to 255 restart it.\nA pod cannot detect the policy.\n"
                   "A job without progress keeps 43, which ends it.",
         .settings = {{"grace", "25s"}, RESTART_CODES("143")}},
    [PRESET_SGE] =
        {.title = "Grid Engine",
         .manual = "Only exit code 99 requeues a job.\nGrid Engine sends\n.Dv SIGKILL\nwithout "
                   "warning, unless the job is submitted with\n.Li -notify :\nthen\n.Dv SIGUSR1\n"
                   "comes before a suspension, and\n.Dv SIGUSR2\nbefore the end, by the seconds "
                   "of the queue's\n.Li notify ,\nby default 60.",
         .settings = {{"grace", "25s"},
                      {"signals", "USR1=checkpoint,USR2=preempt:55s"},
                      RESTART_CODES("99")}},
    [PRESET_GCE] = {.title = "Google Compute Engine, a standard VM",
                    .manual = "A standard VM has at least a minute after\n.Dv SIGTERM .",
                    .settings = {{"grace", "55s"}},
                    .source = CONFIG_NOTICE_GCE},
    [PRESET_GCE_GPU] =
        {.title = "Google Compute Engine, a VM with GPUs",
         .manual = "Maintenance of its host stops such a VM, an hour after the notice.\nAfter\n"
                   ".Dv SIGTERM\nit may have only the 30 seconds of a Spot VM.",
         .settings = {{"grace", "25s"}},
         .source = CONFIG_NOTICE_GCE},
    [PRESET_GCE_SPOT] = {.title = "Google Compute Engine, a Spot VM",
                         .manual = "A Spot or preemptible VM has 30 seconds.",
                         .settings = {{"grace", "25s"}},
                         .source = CONFIG_NOTICE_GCE},
    [PRESET_TENSORFLOW_GCE] =
        {.title = "what restarts TensorFlow's jobs on Google Compute Engine",
         .manual = "TensorFlow exits with 143 there, and the program that restarts its jobs knows "
                   "that code.",
         .settings = {{"grace", "25s"}, RESTART_CODES("143")},
         .source = CONFIG_NOTICE_GCE},
    [PRESET_AWS] = {.title = "Amazon EC2",
                    .manual = "A Spot instance has a notice two minutes ahead;\n.Dv SIGTERM\n"
                              "comes only at its shutdown.",
                    .settings = {{"grace", "25s"}},
                    .source = CONFIG_NOTICE_AWS},
    [PRESET_AZURE] = {.title = "Microsoft Azure",
                      .manual =
                          "A Spot VM has a notice at most 30 seconds ahead; other events leave "
                          "5 to 15 minutes.",
                      .settings = {{"grace", "25s"}},
                      .source = CONFIG_NOTICE_AZURE},
    [PRESET_ALIBABA] = {.title = "Alibaba Cloud",
                        .manual = "A spot instance has a notice five minutes ahead;\n"
                                  ".Dv SIGTERM\ncomes only at its shutdown.",
                        .settings = {{"grace", "25s"}},
                        .source = CONFIG_NOTICE_ALIBABA},
    [PRESET_TENCENT] = {.title = "Tencent Cloud",
                        .manual = "A spot instance has a notice two minutes ahead;\n"
                                  ".Dv SIGTERM\ncomes only at its shutdown.",
                        .settings = {{"grace", "25s"}},
                        .source = CONFIG_NOTICE_TENCENT},
};

static bool presets_fill_in(struct config *config, const struct preset_setting *setting,
                            const char *origin, struct err *err)
{
    const struct option *option = option_by_key(setting->key);
    struct config_signal given[CONFIG_SIGNALS];
    if (option->type != OPTION_SIGNALS && origin_from(config, option->key) != FROM_DEFAULT)
        return true;
    memcpy(given, config->signals, sizeof given);
    bool ok = origin_set(config, option, FROM_PRESET, origin, err) &&
              value_from_text(option, setting->text, NULL, config, err);
    for (int number = 0; number < CONFIG_SIGNALS; number++)
        if (given[number].is_given)
            config->signals[number] = given[number];
    return ok;
}

bool presets_apply(struct config *config, char **env, struct err *err)
{
    bool is_auto = config->preset == PRESET_AUTO;
    struct platform found = {.preset = (enum preset)config->preset};
    char origin[PLATFORM_WHY_MAX + OPTION_NAME_MAX];
    if (is_auto)
        platform_scheduler(env, &found);
    else
        str_copy(found.why, sizeof found.why, origin_text(config, "preset"));
    config->platform.preset = found.preset;
    snprintf(config->platform.why, sizeof config->platform.why, "%s %.240s",
             is_auto ? "detected:" : "named by", found.why);
    snprintf(origin, sizeof origin, "preset %s, %s", preset_names[found.preset],
             config->platform.why);
    for (const struct preset_setting *at = presets[found.preset].settings; at->key; at++)
        if (!presets_fill_in(config, at, origin, err))
            return err_wrap(err, "%s of preset %s", at->key, preset_names[found.preset]);
    return true;
}

/* --- "auto" in "notices" --- */

/* Lists the sources of the preset in force and, if that was detected, of the cloud. The list ends
 * with CONFIG_NOTICE_AUTO. */
static void find_sources(const struct config *config, const char *root, struct platform *cloud,
                         enum config_notice_kind kinds[3])
{
    size_t n = 0;
    memset(kinds, 0, 3 * sizeof *kinds);
    *cloud = (struct platform){.preset = PRESET_NONE};
    if (config->preset == PRESET_AUTO)
        platform_cloud(root, cloud);
    kinds[n] = presets[config->platform.preset].source;
    n += kinds[n] != CONFIG_NOTICE_AUTO;
    kinds[n] = presets[cloud->preset].source;
}

bool presets_settle_notices(struct config *config, const char *root, struct err *err)
{
    enum config_notice_kind kinds[3];
    struct platform cloud;
    if (!noticelist_has(config, CONFIG_NOTICE_AUTO))
        return true;
    find_sources(config, root, &cloud, kinds);
    return noticelist_settle(config, kinds, err);
}

/* --- --print-config --- */

/* A warning about the notices of this cloud in a pod; NULL: none. */
static const char *note_of(enum preset scheduler, enum preset cloud)
{
    if (scheduler != PRESET_KUBERNETES)
        return NULL;
    switch (cloud) {
    case PRESET_GCE_GPU:
    case PRESET_GCE_SPOT:
        return "on a Spot node of GKE a pod has 15 s: set grace to 12s there; whether a pod gets "
               "an answer from the VM's metadata server depends on the cluster (workload identity "
               "puts another one before it), SIGTERM does not";
    case PRESET_AWS:
        return "a pod that is not in the host's network gets an answer from the instance's "
               "metadata service only where its hop limit is 2; SIGTERM does not depend on it";
    default:
        return NULL;
    }
}

void presets_show(const struct config *config, struct writer *w)
{
    bool is_auto = config->preset == PRESET_AUTO;
    enum config_notice_kind kinds[3];
    struct platform cloud;
    char why[PLATFORM_WHY_MAX + 32];
    find_sources(config, "", &cloud, kinds);
    snprintf(why, sizeof why, "%s%s", config->platform.why,
             is_auto ? "" : ", so nothing was looked at");
    writer_object(w, "$platform");
    writer_text(w, "preset", preset_names[config->platform.preset]);
    writer_text(w, "why", why);
    if (is_auto) {
        const char *note = note_of(config->platform.preset, cloud.preset);
        writer_text(w, "cloud", cloud.preset == PRESET_NONE ? NULL : preset_names[cloud.preset]);
        writer_text(w, "cloud_why", cloud.why);
        if (note)
            writer_text(w, "note", note);
    }
    writer_list(w, "notices");
    for (size_t i = 0; kinds[i] != CONFIG_NOTICE_AUTO; i++)
        writer_text(w, NULL, notice_kind_names[kinds[i]]);
    writer_end(w);
    writer_end(w);
}
