/* SPDX-License-Identifier: Apache-2.0
 *
 * The option "notices": the lists of sources that it takes, their results, and every refusal by its
 * exact words. Each test runs in a directory of its own, where its file is sub/c.json.
 */
#include "config/noticelist.h"

#include "base/clock.h"
#include "base/str.h"
#include "configload.h"

TestSuite(noticelist, .init = folder_enter, .fini = load_leave);

/* The value of "notices" in the file, and then of each flag; NULL: none. */
static void try_load(const char *value, const char *flag, const char *again)
{
    char *argv[10] = {"pchrun"}, *env[] = {NULL}, text[2048];
    const char *flags[] = {flag, again};
    int argc = 1;
    unload(&l);
    snprintf(text, sizeof text, "{\"notices\":\n%s}", value ? value : "[]");
    folder_put("sub/c.json", text);
    if (value) {
        argv[argc++] = "-c";
        argv[argc++] = "sub/c.json";
    }
    for (int i = 0; i < 2 && flags[i]; i++) {
        argv[argc++] = "--notices";
        argv[argc++] = (char *)flags[i];
    }
    argv[argc] = "true";
    load_words(&l, argv, env);
}

static void try_ok(const char *value, const char *flag, const char *again)
{
    try_load(value, flag, again);
    cr_assert_eq(l.result, ARGS_RUN, "%s: %s", value ? value : flag, l.err.text);
}

/* Checks the source number `at`; `arg` is its first argument, "" for none. */
static void expect_source(size_t at, enum config_notice_kind kind, const char *name,
                          const char *arg)
{
    cr_assert_lt(at, l.config.nnotices);
    const struct config_notice *notice = &l.config.notices[at];
    cr_expect_eq(notice->kind, kind, "source %zu is of kind %d", at, notice->kind);
    cr_expect_str_eq(notice->name, name);
    cr_expect_str_eq(notice->args ? notice->args[0] : "", arg);
}

Test(noticelist, all_kinds_as_a_flag)
{
    try_ok(NULL, "auto,gce, aws,azure,slurm,file:f", "kubernetes:/k,command:./c,poll:p");
    cr_assert_eq(l.config.nnotices, 9);
    expect_source(0, CONFIG_NOTICE_AUTO, "auto", "");
    expect_source(1, CONFIG_NOTICE_GCE, "gce", "");
    expect_source(2, CONFIG_NOTICE_AWS, "aws", "");
    expect_source(3, CONFIG_NOTICE_AZURE, "azure", "");
    expect_source(4, CONFIG_NOTICE_SLURM, "slurm", "");
    expect_source(5, CONFIG_NOTICE_FILE, "file", folder_path("f"));
    expect_source(6, CONFIG_NOTICE_KUBERNETES, "kubernetes", "/k");
    expect_source(7, CONFIG_NOTICE_COMMAND, "c", folder_path("c"));
    expect_source(8, CONFIG_NOTICE_POLL, "p", "p");
    cr_expect_eq(l.config.notices[8].interval_ns, NS_PER_S);
    cr_expect_eq(l.config.notices[8].timeout_ns, 10 * NS_PER_S);
}

Test(noticelist, all_kinds_in_the_file)
{
    try_ok("[\"slurm\", {\"file\": \"f\"}, {\"name\": \"pod\", \"kubernetes\": \"/k\"},"
           " {\"command\": [\"./c\", \"-x\", \"\", \"a\\nb\"]}, \"file:g\","
           " {\"interval\": \"100ms\", \"poll\": [\"p\"], \"timeout\": \"1h\"}]",
           NULL, NULL);
    cr_assert_eq(l.config.nnotices, 6);
    expect_source(0, CONFIG_NOTICE_SLURM, "slurm", "");
    expect_source(1, CONFIG_NOTICE_FILE, "file", folder_path("sub/f"));
    expect_source(2, CONFIG_NOTICE_KUBERNETES, "pod", "/k");
    expect_source(3, CONFIG_NOTICE_COMMAND, "c", folder_path("sub/c"));
    cr_expect_str_eq(l.config.notices[3].args[1], "-x");
    cr_expect_str_eq(l.config.notices[3].args[2], "");
    cr_expect_str_eq(l.config.notices[3].args[3], "a\nb");
    cr_expect(!l.config.notices[3].args[4]);
    expect_source(4, CONFIG_NOTICE_FILE, "file-2", folder_path("sub/g"));
    expect_source(5, CONFIG_NOTICE_POLL, "p", "p");
    cr_expect_eq(l.config.notices[5].interval_ns, 100 * NS_PER_MS);
    cr_expect_eq(l.config.notices[5].timeout_ns, 3600 * NS_PER_S);
}

Test(noticelist, nobody)
{
    static const char *const ways[][2] = {
        {NULL, "none"}, {"[\"gce\"]", "none"}, {"[]", NULL}, {"[\"none\"]", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        try_ok(ways[i][0], ways[i][1], NULL);
        cr_expect_eq(l.config.nnotices, 0);
    }
}

Test(noticelist, a_stronger_source_of_the_configuration_begins_anew)
{
    try_ok("[\"gce\", \"aws\"]", "slurm", "azure");
    cr_assert_eq(l.config.nnotices, 2);
    expect_source(0, CONFIG_NOTICE_SLURM, "slurm", "");
    expect_source(1, CONFIG_NOTICE_AZURE, "azure", "");
}

/* Sources are told apart by their names; names are cut where a character ends. */
Test(noticelist, names_differ)
{
    try_ok("[{\"command\": [\"/a/watch\"]}, {\"poll\": [\"/b/watch\"]},"
           " {\"file\": \"/x\", \"name\": \"watch-3\"}, {\"command\": [\"watch\"]},"
           " {\"command\": [\"/a/abcdefghijklmnopqrstuvwxyz\\u00e4\\u00e4\\u00e4\"]},"
           " {\"command\": [\"/a/abcdefghijklmnopqrstuvwxyz\\u00e4\\u00e4\\u00e4\"]}]",
           NULL, NULL);
    expect_source(0, CONFIG_NOTICE_COMMAND, "watch", "/a/watch");
    expect_source(1, CONFIG_NOTICE_POLL, "watch-2", "/b/watch");
    expect_source(2, CONFIG_NOTICE_FILE, "watch-3", "/x");
    expect_source(3, CONFIG_NOTICE_COMMAND, "watch-4", "watch");
    cr_expect_str_eq(l.config.notices[4].name, "abcdefghijklmnopqrstuvwxyz\xc3\xa4");
    cr_expect_str_eq(l.config.notices[5].name, "abcdefghijklmnopqrstuvwxyz\xc3\xa4-2");
    try_ok(NULL, "command:/a/\xff", "poll:/a/");
    expect_source(0, CONFIG_NOTICE_COMMAND, "command", "/a/\xff");
    expect_source(1, CONFIG_NOTICE_POLL, "poll", "/a/");
}

struct bad {
    const char *in, *want;
};

static void expect_bad(const char *value, const char *flag, const char *want)
{
    try_load(value, flag, NULL);
    cr_expect_eq(l.result, ARGS_BAD, "%s is accepted", value ? value : flag);
    cr_expect_str_eq(l.err.text, want, "%s:\n  %s\nnot\n  %s", value ? value : flag, l.err.text,
                     want);
    cr_expect_eq(l.err.code, ERR_USAGE);
}

static const struct bad flags[] = {
    {"", "--notices: the value is empty; write none for no source"},
    {"gcs", "--notices: there is no notice source \"gcs\"; the nearest is \"gce\""},
    {"kubernets:/k", "--notices: there is no notice source \"kubernets\"; the nearest is "
                     "\"kubernetes\""},
    {"openstack", "--notices: there is no notice source \"openstack\"; there are auto, gce, aws, "
                  "azure, alibaba, tencent, pod, slurm, file, kubernetes, command and poll"},
    {"gce,", "--notices: there is no notice source \"\"; there are auto, gce, aws, azure, alibaba, "
             "tencent, pod, slurm, file, kubernetes, command and poll"},
    {"gce,none", "--notices: none stands alone"},
    {"none,gce", "--notices: none stands alone"},
    {"gce,aws,gce", "--notices: gce is given twice"},
    {"gce:/x", "--notices: gce takes no path"},
    {"file", "--notices: file needs a path; write file:PATH"},
    {"poll:", "--notices: poll: the value is empty; it must have 1 to 4095 bytes"},
    {"file:a\nb", "--notices: file: \"a?b\" holds a control character"},
    {"poll:1,poll:2,poll:3,poll:4,poll:5,poll:6,poll:7,poll:8,poll:9,poll:10,poll:11,poll:12,"
     "poll:13,poll:14,poll:15,poll:16,poll:17",
     "--notices: more than 16 sources"},
};

Test(noticelist, bad_flags)
{
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        expect_bad(NULL, flags[i].in, flags[i].want);
}

static const struct bad values[] = {
    {"\"gce\"", "notices: a list of notice sources is wanted, not a string"},
    {"[1]", "notices: item 1: a string or an object is wanted, not a number"},
    {"[\"gcs\"]", "notices: item 1: there is no notice source \"gcs\"; the nearest is \"gce\""},
    {"[\"gce\", \"none\"]", "notices: item 2: none stands alone"},
    {"[{}]", "notices: item 1: a key must say what it is: file, kubernetes, command or poll"},
    {"[{\"name\": \"a\"}]",
     "notices: item 1: a key must say what it is: file, kubernetes, command or poll"},
    {"[{\"fiel\": \"/x\"}]", "notices: item 1: unknown key \"fiel\"; the nearest is \"file\""},
    {"[{\"file\": \"/x\", \"nam\": \"a\"}]",
     "notices: item 1: unknown key \"nam\"; the nearest is \"name\""},
    {"[{\"poll\": [\"p\"], \"intervall\": \"5s\"}]",
     "notices: item 1: unknown key \"intervall\"; the nearest is \"interval\""},
    {"[{\"file\": \"/x\", \"comment\": \"a\"}]",
     "notices: item 1: unknown key \"comment\"; the nearest is \"command\""},
    {"[{\"path\": \"/x\"}]",
     "notices: item 1: unknown key \"path\"; there are file, kubernetes, command, poll, name, "
     "interval and timeout"},
    {"[{\"gce\": \"/x\"}]", "notices: item 1: gce is not an object; write \"gce\""},
    {"[{\"file\": \"/x\", \"poll\": [\"p\"]}]",
     "notices: item 1: file and poll are two sources; write two objects"},
    {"[{\"file\": [\"/x\"]}]", "notices: item 1: file: a path as a string is wanted, not a list"},
    {"[{\"file\": \"\"}]",
     "notices: item 1: file: the value is empty; it must have 1 to 4095 bytes"},
    {"[{\"command\": \"x\"}]",
     "notices: item 1: command: a list of the program and its arguments is wanted, not a string"},
    {"[{\"command\": []}]", "notices: item 1: command: the list is empty; name a program"},
    {"[{\"command\": [\"\"]}]",
     "notices: item 1: command: item 1: the value is empty; it must have 1 to 4095 bytes"},
    {"[{\"command\": [\"x\", 7]}]",
     "notices: item 1: command: item 2: a string is wanted, not a number"},
    {"[{\"command\": [\"x\"], \"interval\": \"1s\"}]", "notices: item 1: only poll takes interval"},
    {"[{\"timeout\": \"1s\", \"file\": \"/x\"}]", "notices: item 1: only poll takes timeout"},
    {"[{\"poll\": [\"x\"], \"interval\": 1}]",
     "notices: item 1: interval: a string is wanted, not a number"},
    {"[{\"poll\": [\"x\"], \"interval\": \"1\"}]",
     "notices: item 1: interval: \"1\" is not a duration; write a number and its unit (ms, s, m, h "
     "or d), as in \"25s\""},
    {"[{\"poll\": [\"x\"], \"timeout\": \"2h\"}]",
     "notices: item 1: timeout: \"2h\" is out of range (100ms to 1h)"},
    {"[{\"file\": \"/x\", \"name\": \"\"}]",
     "notices: item 1: name: the value is empty; it must have 1 to 31 bytes"},
    {"[{\"file\": \"/x\", \"name\": \"abcdefghijklmnopqrstuvwxyz012345\"}]",
     "notices: item 1: name: \"abcdefghijklmnopqrstuvwxyz012345\" has 32 bytes; allowed are 1 to "
     "31"},
    {"[{\"file\": \"/x\", \"name\": 1}]",
     "notices: item 1: name: a string is wanted, not a number"},
    {"[{\"file\": \"/x\", \"name\": \"a\"}, {\"poll\": [\"/y\"], \"name\": \"a\"}]",
     "notices: item 2: two sources are called \"a\"; give one of them another name"},
    {"[{\"file\": \"/x\"}, {\"poll\": [\"/y\"], \"name\": \"file\"}]",
     "notices: item 2: two sources are called \"file\"; give one of them another name"},
};

Test(noticelist, bad_files)
{
    char want[300];
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        snprintf(want, sizeof want, "sub/c.json: %s", values[i].want);
        expect_bad(values[i].in, NULL, want);
    }
}
