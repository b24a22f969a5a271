/* SPDX-License-Identifier: Apache-2.0
 *
 * The presets: their table against the option table, and what wins over them.
 */
#include "base/clock.h"
#include "base/str.h"
#include "config/config.h"
#include "config/options.h"
#include "config/origin.h"
#include "config/presets.h"
#include "config/values.h"
#include "json/json.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Loads "pchrun ARGS x" with these variables. */
static struct config load(const char *const *args, char **env)
{
    char *argv[16] = {"pchrun"};
    size_t n = 1;
    for (; *args; args++)
        argv[n++] = (char *)*args;
    argv[n] = "x";
    struct config config;
    struct err err;
    cr_assert_eq(config_load(argv, env, stdout, &config, &err), ARGS_RUN, "%s", err.text);
    return config;
}

#define LOAD(env, ...) load((const char *[]){__VA_ARGS__, NULL}, env)

static char *no_env[] = {NULL};
static char *slurm_env[] = {"SLURM_JOB_ID=17", NULL};

static struct config_signal rule_of(const struct config *config, int number)
{
    cr_assert(config->signals[number].is_given, "signal %d has no rule", number);
    return config->signals[number];
}

/* Each text of a preset is one that its option takes, and it is then in force. */
Test(presets, every_setting_takes_effect)
{
    for (int i = 0; i < PRESET__COUNT; i++) {
        struct config config = LOAD(no_env, "--preset", preset_names[i]);
        char origin_wanted[64];
        snprintf(origin_wanted, sizeof origin_wanted, "preset %s, named by flag --preset",
                 preset_names[i]);
        for (const struct preset_setting *at = presets[i].settings; at->key; at++) {
            const struct option *option = option_by_key(at->key);
            cr_assert(option, "preset %s sets %s, which is no option", preset_names[i], at->key);
            char flag[OPTION_NAME_MAX + 2] = "--", have[64], want[64];
            args_name(option->key, flag + 2);
            struct config alone = LOAD(no_env, "--preset", "none", flag, at->text);
            cr_expect_str_eq(value_format(option, &config, have, sizeof have),
                             value_format(option, &alone, want, sizeof want));
            for (int n = 0; option->type == OPTION_SIGNALS && n < CONFIG_SIGNALS; n++) {
                cr_expect_eq(config.signals[n].is_given, alone.signals[n].is_given);
                cr_expect_eq(config.signals[n].rule, alone.signals[n].rule);
                cr_expect_eq(config.signals[n].grace_ns, alone.signals[n].grace_ns);
            }
            cr_expect(strstr(origin_text(&config, at->key), origin_wanted), "%s: %s", at->key,
                      origin_text(&config, at->key));
            config_free(&alone);
        }
        cr_expect(presets[i].title && presets[i].manual, "%s", preset_names[i]);
        config_free(&config);
    }
    cr_expect(!preset_names[PRESET__COUNT]);
}

/* A preset may be told to the other side of a scheduler that this machine is not part of, and then
 * nothing else is looked at. */
Test(presets, a_name_wins_over_what_is_found)
{
    struct config config = LOAD(slurm_env, "--preset=kubeflow");
    cr_expect(config.exit.codes.preempted == 143 && config.exit.codes.preempted_unsaved == 143);
    cr_expect(config.exit.codes.node_lost == 143 && config.exit.codes.hang == 143);
    cr_expect_eq(config.exit.codes.no_progress, 43, "a user must look");
    cr_expect(!config.signals[SIGUSR1].is_given);
    config_free(&config);
    config = LOAD(slurm_env, "--preset=none");
    cr_expect(!config.signals[SIGUSR1].is_given);
    cr_expect_str_eq(origin_text(&config, "grace"), "default");
    config_free(&config);
}

Test(presets, one_that_is_found)
{
    struct config config = LOAD(slurm_env, "--log-level=info");
    struct config_signal rule = rule_of(&config, SIGUSR1);
    cr_expect(rule.rule == SIGNAL_PREEMPT && rule.grace_ns == 55 * NS_PER_S);
    cr_expect_eq(rule_of(&config, SIGTERM).rule, SIGNAL_PREEMPT);
    cr_expect_str_eq(origin_text(&config, "grace"), "preset slurm, detected: SLURM_JOB_ID is set");
    cr_expect_str_eq(origin_text(&config, "signals"),
                     "default, preset slurm, detected: SLURM_JOB_ID is set");
    cr_expect_str_eq(origin_text(&config, "exit.preempted"), "default");
    config_free(&config);
    config = LOAD(no_env, "--log-level=info");
    cr_expect_eq(config.platform.preset, PRESET_NONE);
    cr_expect_str_eq(origin_text(&config, "grace"), "default");
    config_free(&config);
}

/* Each field by itself: a value set elsewhere stays, the other values are those of the preset. */
Test(presets, every_source_wins_over_a_preset)
{
    char path[] = "/tmp/test_presets.XXXXXX";
    int fd = mkstemp(path);
    static const char text[] = "{\"preset\": \"sge\", \"exit\": {\"hang\": 3}}";
    cr_assert(fd >= 0 && write(fd, text, sizeof text - 1) == sizeof text - 1 && close(fd) == 0);
    char *env[] = {"PCHRUN_EXIT_NODE_LOST=2", NULL};
    struct config config = LOAD(env, "-c", path, "--exit-preempted=1");
    unlink(path);
    cr_expect_eq(config.exit.codes.preempted, 1);
    cr_expect_eq(config.exit.codes.node_lost, 2);
    cr_expect_eq(config.exit.codes.hang, 3);
    cr_expect_eq(config.exit.codes.preempted_unsaved, 99);
    cr_expect(strstr(origin_text(&config, "exit.preempted_unsaved"), "preset sge, named by file "));
    cr_expect_str_eq(origin_text(&config, "exit.preempted"), "flag --exit-preempted");
    config_free(&config);
}

/* A value that is the default's, but was given, is not the preset's. */
Test(presets, a_default_that_is_given_stays)
{
    struct config config = LOAD(no_env, "--preset=gce", "--grace=25s");
    cr_expect_eq(config.grace_ns, 25 * NS_PER_S);
    config_free(&config);
}

Test(presets, signals_are_filled_in_one_by_one)
{
    struct config config =
        LOAD(no_env, "--preset=sge", "--signals", "USR2=forward,TERM=checkpoint,HUP=preempt");
    cr_expect_eq(rule_of(&config, SIGUSR1).rule, SIGNAL_CHECKPOINT, "the preset's");
    cr_expect_eq(rule_of(&config, SIGUSR2).rule, SIGNAL_FORWARD);
    cr_expect_eq(rule_of(&config, SIGTERM).rule, SIGNAL_CHECKPOINT);
    cr_expect_eq(rule_of(&config, SIGHUP).rule, SIGNAL_PREEMPT);
    int given = 0;
    for (int number = 0; number < CONFIG_SIGNALS; number++)
        given += config.signals[number].is_given;
    cr_expect_eq(given, 4);
    cr_expect_str_eq(origin_text(&config, "signals"),
                     "default, flag --signals, preset sge, named by flag --preset");
    config_free(&config);
}

/* Without a preset nothing is other than it was. */
Test(presets, none_is_the_defaults)
{
    struct config config = LOAD(no_env, "--preset=none");
    for (size_t i = 0; i < options_count; i++)
        cr_expect_neq(origin_from(&config, options[i].key), FROM_PRESET, "%s", options[i].key);
    config_free(&config);
}

static struct json *show(char *preset, char **env)
{
    char *argv[] = {"pchrun", "--print-config", preset, NULL}, *text;
    size_t len;
    struct config config;
    struct err err;
    FILE *out = open_memstream(&text, &len);
    cr_assert_eq(config_load(argv, env, out, &config, &err), ARGS_SHOWN, "%s", err.text);
    fclose(out);
    struct json *root = json_read("out", text, len, &err);
    cr_assert(root, "%s", err.text);
    free(text);
    return root;
}

Test(presets, the_evidence_is_shown)
{
    struct json *root = show("--preset=auto", slurm_env);
    const struct json *found = json_find(root, "$platform");
    cr_expect_str_eq(json_text(json_find(found, "preset")), "slurm");
    cr_expect_str_eq(json_text(json_find(found, "why")), "detected: SLURM_JOB_ID is set");
    cr_expect(json_find(found, "cloud"));
    cr_expect(strstr(json_text(json_find(found, "cloud_why")), "/sys/class/dmi/id/"));
    cr_expect_eq(json_first(root), found, "at the top");
    json_free(root);
    root = show("--preset=auto", no_env);
    found = json_find(root, "$platform");
    cr_expect_str_eq(json_text(json_find(found, "preset")), "none");
    cr_expect(strstr(json_text(json_find(found, "why")), "none is set"));
    json_free(root);
    root = show("--preset=sge", slurm_env);
    found = json_find(root, "$platform");
    cr_expect_str_eq(json_text(json_find(found, "preset")), "sge");
    cr_expect_str_eq(json_text(json_find(found, "why")),
                     "named by flag --preset, so nothing was looked at");
    cr_expect(!json_find(found, "cloud"));
    cr_expect(json_find(found, "notices"));
    json_free(root);
}

/* --- what "auto" in "notices" stands for --- */

static const char *const tree[] = {"", "/sys", "/sys/class", "/sys/class/dmi", "/sys/class/dmi/id"};

/* A machine of this vendor; returns its root. */
static const char *make_machine(const char *vendor)
{
    static char root[64];
    char path[256];
    strcpy(root, "/tmp/test_presets.XXXXXX");
    cr_assert(mkdtemp(root));
    for (size_t i = 1; i < ARRAY_LEN(tree); i++) {
        snprintf(path, sizeof path, "%s%s", root, tree[i]);
        cr_assert(mkdir(path, 0700) == 0);
    }
    snprintf(path, sizeof path, "%s/sys/class/dmi/id/sys_vendor", root);
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(vendor, file) >= 0 && fclose(file) == 0);
    return root;
}

static void remove_machine(const char *root)
{
    char path[256];
    snprintf(path, sizeof path, "%s/sys/class/dmi/id/sys_vendor", root);
    cr_assert(unlink(path) == 0);
    for (size_t i = ARRAY_LEN(tree); i-- > 0;) {
        snprintf(path, sizeof path, "%s%s", root, tree[i]);
        cr_assert(rmdir(path) == 0);
    }
}

/* The sources' names on that machine, as "slurm aws". */
static void expect_sources(char **env, const char *preset, const char *notices, const char *want)
{
    char have[256] = "";
    struct err err;
    const char *root = make_machine("Amazon EC2\n");
    struct config config = LOAD(env, "--preset", preset, "--notices", notices);
    cr_expect(presets_settle_notices(&config, root, &err), "%s", err.text);
    for (size_t i = 0; i < config.nnotices; i++) {
        cr_expect_neq(config.notices[i].kind, CONFIG_NOTICE_AUTO);
        str_addf(have, sizeof have, "%s%s", i > 0 ? " " : "", config.notices[i].name);
    }
    cr_expect_str_eq(have, want, "%s, %s: %s", preset, notices, have);
    config_free(&config);
    remove_machine(root);
}

Test(presets, auto_in_notices)
{
    expect_sources(no_env, "auto", "auto", "aws");
    expect_sources(slurm_env, "auto", "auto", "slurm aws");
    expect_sources(slurm_env, "auto", "file:/a,auto,poll:/b", "file slurm aws b");
    /* A source that is named by itself stays where it is. */
    expect_sources(slurm_env, "auto", "auto,aws", "slurm aws");
    expect_sources(slurm_env, "auto", "aws,auto", "aws slurm");
    /* Two sources never have one name. */
    expect_sources(slurm_env, "auto", "auto,command:/bin/slurm", "slurm-2 aws slurm");
    expect_sources(slurm_env, "auto", "azure", "azure");
    expect_sources(slurm_env, "auto", "none", "");
}

/* Of a preset that is named, whatever machine this is. */
Test(presets, auto_in_notices_of_a_named_preset)
{
    expect_sources(slurm_env, "gce-spot", "auto", "gce");
    expect_sources(slurm_env, "gce", "azure,auto", "azure gce");
    expect_sources(slurm_env, "kubernetes", "auto,azure", "azure");
    expect_sources(slurm_env, "none", "auto", "");
}

Test(presets, auto_that_makes_too_many)
{
    struct err err;
    const char *root = make_machine("Amazon EC2\n");
    struct config config =
        LOAD(slurm_env, "--notices", "poll:1,poll:2,poll:3,poll:4,poll:5,poll:6,poll:7,poll:8",
             "--notices", "poll:9,poll:10,poll:11,poll:12,poll:13,poll:14,poll:15,auto");
    cr_expect(!presets_settle_notices(&config, root, &err));
    cr_expect_str_eq(err.text, "notices, for auto: more than 16 sources");
    config_free(&config);
    remove_machine(root);
}
