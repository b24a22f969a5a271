/* SPDX-License-Identifier: Apache-2.0
 *
 * The presets: their table against the option table, and what wins over them.
 */
#include "base/clock.h"
#include "base/str.h"
#include "config/options.h"
#include "config/presets.h"
#include "config/values.h"
#include "configload.h"
#include "json/json.h"

#define SLURM "SLURM_JOB_ID=17"

TestSuite(presets, .init = folder_make, .fini = load_leave);

/* Each text of a preset is valid for its option, and takes effect. */
Test(presets, every_setting_takes_effect)
{
    for (int i = 0; i < PRESET__COUNT; i++) {
        char args[128], origin_wanted[64];
        snprintf(args, sizeof args, "--preset %s x", preset_names[i]);
        load_l_ok(args, "");
        snprintf(origin_wanted, sizeof origin_wanted, "preset %s, named by flag --preset",
                 preset_names[i]);
        for (const struct preset_setting *at = presets[i].settings; at->key; at++) {
            const struct option *option = option_by_key(at->key);
            cr_assert(option, "preset %s sets %s, which is no option", preset_names[i], at->key);
            char flag[OPTION_NAME_MAX], have[64], want[64];
            struct load alone;
            snprintf(args, sizeof args, "--preset none --%s %s x", args_name(option->key, flag),
                     at->text);
            load_ok(&alone, args, "");
            cr_expect_str_eq(value_format(option, &l.config, have, sizeof have),
                             value_format(option, &alone.config, want, sizeof want));
            for (int n = 0; option->type == OPTION_SIGNALS && n < CONFIG_SIGNALS; n++) {
                cr_expect_eq(l.config.signals[n].is_given, alone.config.signals[n].is_given);
                cr_expect_eq(l.config.signals[n].rule, alone.config.signals[n].rule);
                cr_expect_eq(l.config.signals[n].grace_ns, alone.config.signals[n].grace_ns);
            }
            cr_expect(strstr(origin_text(&l.config, at->key), origin_wanted), "%s: %s", at->key,
                      origin_text(&l.config, at->key));
            unload(&alone);
        }
    }
    cr_expect(!preset_names[PRESET__COUNT]);
}

/* A user may name the preset of a scheduler that is not on this machine. Then nothing else is
 * examined. */
Test(presets, a_name_wins_over_what_is_found)
{
    load_l_ok("--preset=kubeflow x", SLURM);
    cr_expect(l.config.exit.codes.preempted == 143 && l.config.exit.codes.preempted_unsaved == 143);
    cr_expect(l.config.exit.codes.node_lost == 143 && l.config.exit.codes.hang == 143);
    cr_expect_eq(l.config.exit.codes.no_progress, 43, "a user must look");
    cr_expect(!l.config.signals[SIGUSR1].is_given);
    load_l_ok("--preset=none x", SLURM);
    cr_expect(!l.config.signals[SIGUSR1].is_given);
    cr_expect_str_eq(origin_text(&l.config, "grace"), "default");
}

Test(presets, one_that_is_found)
{
    load_l_ok("--log-level=info x", SLURM);
    struct config_signal rule = rule_of(&l.config, SIGUSR1);
    cr_expect(rule.rule == SIGNAL_PREEMPT && rule.grace_ns == 55 * NS_PER_S);
    cr_expect_eq(rule_of(&l.config, SIGTERM).rule, SIGNAL_PREEMPT);
    cr_expect_str_eq(origin_text(&l.config, "grace"),
                     "preset slurm, detected: SLURM_JOB_ID is set");
    cr_expect_str_eq(origin_text(&l.config, "signals"),
                     "default, preset slurm, detected: SLURM_JOB_ID is set");
    cr_expect_str_eq(origin_text(&l.config, "exit.preempted"), "default");
    load_l_ok("--log-level=info x", "");
    cr_expect_eq(l.config.platform.preset, PRESET_NONE);
    cr_expect_str_eq(origin_text(&l.config, "grace"), "default");
}

/* It is added to the platform, found or named, and every value of it can be replaced. */
Test(presets, unreliable_is_added_to_a_platform)
{
    static const struct {
        const char *args, *env;
        enum preset platform;
        int restarts;
    } rows[] = {
        {"--preset unreliable x", SLURM, PRESET_SLURM, 3},
        {"--preset unreliable x", "", PRESET_NONE, 3},
        {"--preset auto,unreliable x", SLURM, PRESET_SLURM, 3},
        {"--preset none,unreliable x", SLURM, PRESET_NONE, 3},
        {"--preset unreliable,kubeflow x", SLURM, PRESET_KUBEFLOW, 3},
        {"--restart-max 0 x", SLURM " PCHRUN_PRESET=sge,unreliable", PRESET_SGE, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        load_l_ok(rows[i].args, rows[i].env);
        cr_expect_eq(l.config.platform.preset, rows[i].platform, "row %zu", i);
        cr_expect_eq(l.config.restart.max, rows[i].restarts, "row %zu", i);
        cr_expect(l.config.checkpoint.every.is_auto, "row %zu", i);
        cr_expect_eq(l.config.cluster.join_timeout_ns, 3600 * NS_PER_S, "row %zu", i);
    }
    load_l_ok("--preset unreliable x", SLURM);
    cr_expect_str_eq(origin_text(&l.config, "grace"),
                     "preset slurm, detected: SLURM_JOB_ID is set");
    cr_expect_str_eq(origin_text(&l.config, "checkpoint.every"),
                     "preset unreliable, named by flag --preset");
}

Test(presets, two_platforms)
{
    load_l("--preset slurm,aws x", "");
    cr_assert_eq(l.result, ARGS_BAD);
    cr_expect_str_eq(l.err.text, "preset, set by the flag --preset, names two platforms; only "
                                 "unreliable may be beside one");
}

/* Each field by itself: a value set elsewhere stays, the other values are those of the preset. */
Test(presets, every_source_wins_over_a_preset)
{
    char args[600];
    folder_put("c.json", "{\"preset\": \"sge\", \"exit\": {\"hang\": 3}}");
    snprintf(args, sizeof args, "-c %s --exit-preempted=1 x", folder_path("c.json"));
    load_l_ok(args, "PCHRUN_EXIT_NODE_LOST=2");
    cr_expect_eq(l.config.exit.codes.preempted, 1);
    cr_expect_eq(l.config.exit.codes.node_lost, 2);
    cr_expect_eq(l.config.exit.codes.hang, 3);
    cr_expect_eq(l.config.exit.codes.preempted_unsaved, 99);
    cr_expect(
        strstr(origin_text(&l.config, "exit.preempted_unsaved"), "preset sge, named by file "));
    cr_expect_str_eq(origin_text(&l.config, "exit.preempted"), "flag --exit-preempted");
}

/* A preset has a grace only if its platform promises one. Kubernetes does not tell a pod how long
 * it has, and a Spot node of GKE leaves 15 s. */
Test(presets, which_know_how_long_the_grace_is)
{
    static const enum preset known[] = {PRESET_SLURM, PRESET_GCE, PRESET_GCE_GPU, PRESET_GCE_SPOT,
                                        PRESET_TENSORFLOW_GCE};
    for (int i = 0; i < PRESET__COUNT; i++) {
        char args[128];
        bool is_known = false;
        for (size_t k = 0; k < ARRAY_LEN(known); k++)
            is_known = is_known || known[k] == (enum preset)i;
        snprintf(args, sizeof args, "--preset %s x", preset_names[i]);
        load_l_ok(args, "");
        cr_expect_eq(config_is_guess(&l.config, SIGTERM), !is_known, "%s", preset_names[i]);
        cr_expect_eq(config_is_guess(&l.config, 0), !is_known, "%s", preset_names[i]);
        cr_expect_eq(l.config.grace_ns, (i == PRESET_GCE ? 55 : 25) * NS_PER_S);
    }
}

Test(presets, what_makes_the_grace_known)
{
    static const struct {
        const char *args, *env;
        bool term, usr1, source; /* is a guess: of SIGTERM, of SIGUSR1, of a notice without one */
    } rows[] = {
        {"x", "", true, true, true},
        {"--grace 25s x", "", false, false, false},
        {"x", "PCHRUN_GRACE=25s", false, false, false},
        {"--signals TERM=preempt x", "", true, true, true},
        {"--signals TERM=preempt:9s x", "", false, true, true},
        {"--signals USR1=preempt:240s x", "", true, false, true},
        {"x", "KUBERNETES_SERVICE_HOST=1", true, true, true},
        {"--preset sge --signals USR1=preempt x", "", true, true, true},
        {"--preset sge --grace 9s x", "", false, false, false},
        {"x", SLURM, false, false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        load_l_ok(rows[i].args, rows[i].env);
        cr_expect_eq(config_is_guess(&l.config, SIGTERM), rows[i].term, "row %zu", i);
        cr_expect_eq(config_is_guess(&l.config, SIGUSR1), rows[i].usr1, "row %zu", i);
        cr_expect_eq(config_is_guess(&l.config, 0), rows[i].source, "row %zu", i);
    }
    load_l_ok("--preset sge x", "");
    cr_expect(!config_is_guess(&l.config, SIGUSR2), "the queue's notify");
}

/* A given value stays, even if it equals the default: the preset does not replace it. */
Test(presets, a_default_that_is_given_stays)
{
    load_l_ok("--preset=gce --grace=25s x", "");
    cr_expect_eq(l.config.grace_ns, 25 * NS_PER_S);
}

Test(presets, signals_are_filled_in_one_by_one)
{
    load_l_ok("--preset=sge --signals USR2=forward,TERM=checkpoint,HUP=preempt x", "");
    cr_expect_eq(rule_of(&l.config, SIGUSR1).rule, SIGNAL_CHECKPOINT, "the preset's");
    cr_expect_eq(rule_of(&l.config, SIGUSR2).rule, SIGNAL_FORWARD);
    cr_expect_eq(rule_of(&l.config, SIGTERM).rule, SIGNAL_CHECKPOINT);
    cr_expect_eq(rule_of(&l.config, SIGHUP).rule, SIGNAL_PREEMPT);
    cr_expect_eq(signals_given(&l.config), 4);
    cr_expect_str_eq(origin_text(&l.config, "signals"),
                     "default, flag --signals, preset sge, named by flag --preset");
}

/* Without a preset nothing changes. */
Test(presets, none_is_the_defaults)
{
    load_l_ok("--preset=none x", "");
    for (size_t i = 0; i < options_count; i++)
        cr_expect_neq(origin_from(&l.config, options[i].key), FROM_PRESET, "%s", options[i].key);
}

static struct json *show(const char *preset, const char *env)
{
    char args[64];
    snprintf(args, sizeof args, "--print-config --preset=%s", preset);
    load_l(args, env);
    cr_assert_eq(l.result, ARGS_SHOWN, "%s", l.err.text);
    struct json *root = json_read("out", l.out, l.size, &l.err);
    cr_assert(root, "%s", l.err.text);
    return root;
}

Test(presets, the_evidence_is_shown)
{
    struct json *root = show("auto", SLURM);
    const struct json *found = json_find(root, "$platform");
    cr_expect_str_eq(json_text(json_find(found, "preset")), "slurm");
    cr_expect_str_eq(json_text(json_find(found, "why")), "detected: SLURM_JOB_ID is set");
    cr_expect(json_find(found, "cloud"));
    cr_expect(strstr(json_text(json_find(found, "cloud_why")), "/sys/class/dmi/id/"));
    cr_expect_eq(json_first(root), found, "at the top");
    json_free(root);
    root = show("auto", "");
    found = json_find(root, "$platform");
    cr_expect_str_eq(json_text(json_find(found, "preset")), "none");
    cr_expect(strstr(json_text(json_find(found, "why")), "none is set"));
    json_free(root);
    root = show("sge", SLURM);
    found = json_find(root, "$platform");
    cr_expect_str_eq(json_text(json_find(found, "preset")), "sge");
    cr_expect_str_eq(json_text(json_find(found, "why")),
                     "named by flag --preset, so pchrun did not detect it");
    cr_expect(!json_find(found, "cloud"));
    cr_expect(json_find(found, "notices"));
    json_free(root);
}

/* --- what "auto" in "notices" stands for --- */

/* Puts the sources of a machine of Amazon's in the place of "auto". */
static bool settle(struct err *err)
{
    folder_put("sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
    return presets_settle_notices(&l.config, folder, err);
}

/* The sources' names on that machine, as "slurm aws". */
static void expect_sources(const char *env, const char *preset, const char *notices,
                           const char *want)
{
    char args[128], have[256] = "";
    struct err err;
    snprintf(args, sizeof args, "--preset %s --notices %s x", preset, notices);
    load_l_ok(args, env);
    cr_expect(settle(&err), "%s", err.text);
    for (size_t i = 0; i < l.config.nnotices; i++) {
        cr_expect_neq(l.config.notices[i].kind, CONFIG_NOTICE_AUTO);
        str_addf(have, sizeof have, "%s%s", i > 0 ? " " : "", l.config.notices[i].name);
    }
    cr_expect_str_eq(have, want, "%s, %s: %s", preset, notices, have);
}

Test(presets, auto_in_notices)
{
    expect_sources("", "auto", "auto", "aws");
    expect_sources(SLURM, "auto", "auto", "slurm aws");
    expect_sources(SLURM, "auto", "file:/a,auto,poll:/b", "file slurm aws b");
    /* A source that is named by itself stays where it is. */
    expect_sources(SLURM, "auto", "auto,aws", "slurm aws");
    expect_sources(SLURM, "auto", "aws,auto", "aws slurm");
    /* Two sources never have one name. */
    expect_sources(SLURM, "auto", "auto,command:/bin/slurm", "slurm-2 aws slurm");
    expect_sources(SLURM, "auto", "azure", "azure");
    expect_sources(SLURM, "auto", "none", "");
}

/* The sources of a named preset, whatever machine this is. */
Test(presets, auto_in_notices_of_a_named_preset)
{
    expect_sources(SLURM, "gce-spot", "auto", "gce");
    expect_sources(SLURM, "gce", "azure,auto", "azure gce");
    expect_sources(SLURM, "kubernetes", "auto,azure", "azure");
    expect_sources(SLURM, "none", "auto", "");
}

Test(presets, auto_that_makes_too_many)
{
    struct err err;
    load_l_ok("--notices poll:1,poll:2,poll:3,poll:4,poll:5,poll:6,poll:7,poll:8 --notices "
              "poll:9,poll:10,poll:11,poll:12,poll:13,poll:14,poll:15,auto x",
              SLURM);
    cr_expect(!settle(&err));
    cr_expect_str_eq(err.text, "notices, for auto: more than 16 sources");
}
