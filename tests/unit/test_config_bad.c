/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad configuration: every kind of it, with the exact line that the user gets. Each test runs in a
 * directory of its own, where the file is c.json.
 */
#include "base/str.h"
#include "configload.h"

TestSuite(config_bad, .init = folder_enter, .fini = folder_remove);

/* `args` and `env` are words with spaces between. Nothing may be printed, *config not be touched,
 * and the error be one line. */
static void expect_bad(const char *args, const char *env, const char *want)
{
    struct load bad;
    struct config before;
    memset(&before, LOAD_UNTOUCHED, sizeof before);
    load(&bad, args, env);
    cr_expect_eq(bad.result, ARGS_BAD, "%s %s is accepted", env, args);
    cr_expect_str_eq(bad.err.text, want, "%s %s:\n  %s\nnot\n  %s", env, args, bad.err.text, want);
    cr_expect_eq(bad.err.code, ERR_USAGE);
    cr_expect_eq(bad.size, 0);
    cr_expect(memcmp(&bad.config, &before, sizeof before) == 0);
    unload(&bad);
}

struct bad {
    const char *in, *want;
};

static void expect_bad_files(const struct bad *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        folder_put("c.json", rows[i].in);
        expect_bad("-c c.json x", "", rows[i].want);
        expect_bad("--print-config", "PCHRUN_CONFIG=c.json", rows[i].want);
    }
}

Test(config_bad, files_that_cannot_be_read)
{
    expect_bad("-c none.json x", "",
               "the configuration file (-c, PCHRUN_CONFIG): cannot open none.json: No such file or "
               "directory");
    expect_bad("x", "PCHRUN_CONFIG=none.json",
               "the configuration file (-c, PCHRUN_CONFIG): cannot open none.json: No such file or "
               "directory");
    expect_bad("-c . x", "",
               "the configuration file (-c, PCHRUN_CONFIG): cannot read .: Is a directory");
    expect_bad("-c /dev/null x", "",
               "the configuration file (-c, PCHRUN_CONFIG): cannot read /dev/null: it is not a "
               "regular file");
}

Test(config_bad, a_file_without_permission)
{
    folder_put("c.json", "{}");
    cr_assert(chmod("c.json", 0) == 0);
    uid_t me = geteuid();
    cr_assert(me != 0 || (chmod(folder, 0755) == 0 && seteuid(65534) == 0));
    expect_bad("-c c.json x", "",
               "the configuration file (-c, PCHRUN_CONFIG): cannot open c.json: Permission denied");
    cr_assert(seteuid(me) == 0);
}

Test(config_bad, a_file_over_the_limit_and_one_at_it)
{
    folder_put("c.json", "{");
    int fd = open("c.json", O_WRONLY | O_TRUNC);
    cr_assert(fd >= 0 && ftruncate(fd, CONFIG_FILE_MAX + 1) == 0);
    expect_bad("-c c.json x", "",
               "the configuration file (-c, PCHRUN_CONFIG): cannot read c.json: it has 1048577 "
               "bytes, the limit is 1048576");
    char *text = malloc(CONFIG_FILE_MAX);
    memset(text, ' ', CONFIG_FILE_MAX);
    memcpy(text, "{\"jop\":", 7);
    memcpy(text + CONFIG_FILE_MAX - 2, "1}", 2);
    cr_assert(pwrite(fd, text, CONFIG_FILE_MAX, 0) == CONFIG_FILE_MAX);
    cr_assert(ftruncate(fd, CONFIG_FILE_MAX) == 0);
    expect_bad("-c c.json x", "", "c.json: unknown key \"jop\"; the nearest is \"job\"");
    free(text);
    close(fd);
}

#define WRITE                                                                              \
    "; write a comma between two values but none after the last, each string in \"double " \
    "quotes\", and no comment"

static const struct bad not_json[] = {
    {"", "c.json:1:1: '[' or '{' expected near end of file; it is empty or cut off: write at least "
         "{}, and close each quote and bracket"},
    {"{\"job\": }", "c.json:1:9: unexpected token near '}'" WRITE},
    {"{\n  \"job\": \"a\"\n  \"grace\": \"1s\"\n}",
     "c.json:3:9: '}' expected near '\"grace\"'" WRITE},
    {"{\"job\": \"a\",\n \"job\": \"b\"}",
     "c.json:2:6: duplicate object key near '\"job\"'; write each key of an object once"},
    {"{\"cluster\": {\"port\": 1,\n\"port\": 2}}",
     "c.json:2:6: duplicate object key near '\"port\"'; write each key of an object once"},
    {"{} {}",
     "c.json:1:4: end of file expected near '{'; remove all that follows the last bracket"},
    {"[]", "c.json: an object is wanted, not a list"},
};

Test(config_bad, files_that_are_not_strict_json)
{
    expect_bad_files(not_json, ARRAY_LEN(not_json));
}

static const struct bad keys[] = {
    {"{\"grce\": \"1s\"}", "c.json: unknown key \"grce\"; the nearest is \"grace\""},
    {"{\n\t\"clutser\": {\"port\": 1}}",
     "c.json: unknown key \"clutser\"; the nearest is \"cluster\""},
    {"{\"cluster\": {\n  \"prot\": 1}}",
     "c.json: unknown key \"cluster.prot\"; the nearest is \"cluster.port\""},
    {"{\"cluster\": {\"per_node\": 1}}",
     "c.json: unknown key \"cluster.per_node\"; the nearest is \"procs.per_node\""},
    {"{\"port\": 1}", "c.json: unknown key \"port\"; the nearest is \"cluster.port\""},
    {"{\"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
     "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
     "kkk"
     "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\": 1}",
     "c.json: unknown key "
     "\"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\"; pchrun "
     "--print-config shows all keys"},
    {"{\"cluster.port\": 1}", "c.json: unknown key \"cluster.port\"; write it as a nested object"},
    {"{\"config\": 1}", "c.json: unknown key \"config\"; pchrun --print-config shows all keys"},
    {"{\"\": 1}", "c.json: unknown key \"\"; pchrun --print-config shows all keys"},
    {"{\"a\\nb\": 1}", "c.json: unknown key \"a?b\"; pchrun --print-config shows all keys"},
    {"{\"signals\": {\"TREM\": \"preempt\"}}",
     "c.json: signals: \"TREM\" is not a signal; the nearest is TERM"},
    {"{\"signals\": {\"TERM\": {\"do\": \"preempt\", \"wait\": \"1s\"}}}",
     "c.json: signals: TERM: unknown key \"wait\"; known are \"do\" and \"grace\""},
    {"{\"signals\": {\"TERM\": {\"grace\": \"1s\"}}}",
     "c.json: signals: TERM: the key \"do\" is missing"},
};

Test(config_bad, unknown_keys)
{
    expect_bad_files(keys, ARRAY_LEN(keys));
}

static const struct bad types[] = {
    {"{\"job\": 7}", "c.json: job: a string is wanted, not a number"},
    {"{\"cluster\": {\"port\": \"14242\"}}",
     "c.json: cluster.port: a whole number is wanted, not a string"},
    {"{\"cluster\": {\"port\": 14242.0}}", "c.json: cluster.port: a whole number is wanted, "
                                           "not a number with a fraction or exponent"},
    {"{\"cluster\": {\"insecure\": 1}}",
     "c.json: cluster.insecure: true or false is wanted, not a number"},
    {"{\"cluster\": {\"nodes\": \"n0\"}}",
     "c.json: cluster.nodes: a list of strings is wanted, not a string"},
    {"{\"cluster\": {\"nodes\": [\"127.0.0.1\", 2]}}",
     "c.json: cluster.nodes: item 2: a string is wanted, not a number"},
    {"{\"exit\": {\"hook\": \"/h\"}}",
     "c.json: exit.hook: a program and its arguments as a list is wanted, not a string"},
    {"{\"exit\": {\"hook\": []}}", "c.json: exit.hook: the list is empty; name a program"},
    {"{\"exit\": {\"hook\": [\"\"]}}",
     "c.json: exit.hook: item 1: the value is empty; it must have 1 to 4095 bytes"},
    {"{\"exit\": {\"hook\": [\"/h\", 1]}}",
     "c.json: exit.hook: item 2: a string is wanted, not a number"},
    {"{\"preset\": \"slum\"}", "c.json: preset: \"slum\" is not one of auto, none, slurm, "
                               "kubernetes, kubeflow, sge, gce, "
                               "gce-gpu, gce-spot, tensorflow-gce, aws, azure, "
                               "alibaba, tencent, unreliable"},
    {"{\"cluster\": [\"127.0.0.1\"]}", "c.json: cluster: an object is wanted, not a list"},
    {"{\"cluster\": null}", "c.json: cluster: an object is wanted, not null"},
    {"{\"grace\": 25}", "c.json: grace: a duration such as \"25s\" is wanted, not a number"},
    {"{\"grace\": \"25\"}", "c.json: grace: \"25\" is not a duration; write a number and its "
                            "unit (ms, s, m, h or d), as in \"25s\""},
    {"{\"grace\": \"25 s\"}", "c.json: grace: \"25 s\" is not a duration; write a number and "
                              "its unit (ms, s, m, h or d), as in \"25s\""},
    {"{\"grace\": \"25sec\"}", "c.json: grace: \"25sec\" is not a duration; write a number and "
                               "its unit (ms, s, m, h or d), as in \"25s\""},
    {"{\"checkpoint\": {\"every\": 1.5}}",
     "c.json: checkpoint.every: auto, a whole number of steps "
     "or a duration such as \"10m\" is wanted, "
     "not a number with a fraction or exponent"},
    {"{\"checkpoint\": {\"every\": \"1.5\"}}",
     "c.json: checkpoint.every: \"1.5\" is neither auto, nor a whole number of steps, nor a "
     "duration, "
     "which "
     "is a number and its unit (ms, s, m, h or d), as in \"10m\""},
    {"{\"save\": {\"train_on\": \"true\"}}",
     "c.json: save.train_on: true, false or auto is wanted, not a string"},
    {"{\"save\": {\"train_on\": 1}}",
     "c.json: save.train_on: true, false or auto is wanted, not a number"},
    {"{\"restart\": {\"fatal_codes\": 3}}",
     "c.json: restart.fatal_codes: a list of exit codes "
     "and of ranges such as \"64-78\" is wanted, not a number"},
    {"{\"restart\": {\"fatal_codes\": [3, 4.0]}}",
     "c.json: restart.fatal_codes: item 2: an exit code or a range such as \"64-78\" is wanted, "
     "not a "
     "number with a fraction or exponent"},
    {"{\"restart\": {\"fatal_codes\": [true]}}",
     "c.json: restart.fatal_codes: item 1: an exit code or a range such as \"64-78\" is wanted, "
     "not a "
     "boolean"},
    {"{\"restart\": {\"fatal_codes\": [2, 256]}}",
     "c.json: restart.fatal_codes: '256' is not an exit code or a range of them, such as 3 or "
     "64-78 (1 to 255)"},
    {"{\"restart\": {\"fatal_codes\": [\"9-3\"]}}",
     "c.json: restart.fatal_codes: '9-3' is not an exit code or a range of them, such as 3 or "
     "64-78 (1 to 255)"},
    {"{\"signals\": \"TERM\"}", "c.json: signals: an object of signals is wanted, not a string"},
    {"{\"signals\": {\"TERM\": 1}}",
     "c.json: signals: TERM: a string or an object is wanted, not a number"},
    {"{\"signals\": {\"TERM\": {\"do\": \"preempt\", \"grace\": 1}}}",
     "c.json: signals: TERM: grace: a string is wanted, not a number"},
    {"{\"signals\": {\"TERM\": {\"do\": \"preempt\", \"grace\": \"1\"}}}",
     "c.json: signals: TERM: its grace: \"1\" is not a duration; write a number and its unit "
     "(ms, s, m, h or d), as in \"25s\""},
};

Test(config_bad, wrong_types_and_units)
{
    expect_bad_files(types, ARRAY_LEN(types));
}

static const struct bad ranges[] = {
    {"{\"cluster\": {\n\"port\": 65536}}",
     "c.json: cluster.port: 65536 is out of range (1 to 65535)"},
    {"{\"cluster\": {\"port\": -1}}", "c.json: cluster.port: -1 is out of range (1 to 65535)"},
    {"{\"procs\": {\"count\": 257}}", "c.json: procs.count: 257 is out of range (1 to 256)"},
    {"{\"procs\": {\"count\": 0}}", "c.json: procs.count: 0 is out of range (1 to 256)"},
    {"{\"grace\": \"8d\"}", "c.json: grace: \"8d\" is out of range (0s to 7d)"},
    {"{\"grace\": \"99999999999999d\"}",
     "c.json: grace: \"99999999999999d\" is out of range (0s to 7d)"},
    {"{\"cluster\": {\"join_timeout\": \"0s\"}}",
     "c.json: cluster.join_timeout: \"0s\" is out of range (1ms to 7d)"},
    {"{\"exit\": {\"preempted\": 0}}", "c.json: exit.preempted: 0 is out of range (1 to 255)"},
    {"{\"exit\": {\"preempted\": 256}}", "c.json: exit.preempted: 256 is out of range (1 to 255)"},
    {"{\"save\": {\"mode\": \"magic\"}}",
     "c.json: save.mode: \"magic\" is not one of attach, signal, forward"},
    {"{\"job\": \"\"}", "c.json: job: the value is empty; if none is meant, write null"},
    {"{\"job\": \"0123456789012345678901234567890123456789012345678901234567890123\"}",
     "c.json: job: \"0123456789012345678901234567890123456789012345678901234567890123\" has 64 "
     "bytes; allowed are 1 to 63"},
    {"{\"job\": \"a\\nb\"}", "c.json: job: \"a?b\" holds a control character"},
    {"{\"report\": \"{rank}.json\"}", "c.json: report: \"{rank}.json\" holds a { that begins "
                                      "neither {state_dir} nor {node_rank}"},
    {"{\"signals\": {\"TERM\": \"die\"}}",
     "c.json: signals: TERM: \"die\" is not one of preempt, checkpoint, forward, ignore"},
    {"{\"signals\": {\"TERM\": {\"do\": \"preempt\", \"grace\": \"8d\"}}}",
     "c.json: signals: TERM: its grace: \"8d\" is out of range (0s to 7d)"},
    {"{\"signals\": {\"TERM\": {\"do\": \"ignore\", \"grace\": \"1s\"}}}",
     "c.json: signals: TERM: only preempt takes a grace, not ignore"},
    {"{\"signals\": {\"TERM\": \"preempt\", \"SIGTERM\": \"ignore\"}}",
     "c.json: signals: TERM is given twice"},
    {"{\"signals\": {\"KILL\": \"preempt\"}}",
     "c.json: signals: SIGKILL cannot be used here: no program can handle it"},
    {"{\"signals\": {\"SIGCHLD\": \"ignore\"}}",
     "c.json: signals: SIGCHLD cannot be used here: pchrun itself needs it"},
    {"{\"save\": {\"signal\": \"STOP\"}}",
     "c.json: save.signal: SIGSTOP cannot be used here: no program can handle it"},
};

/* A variable of the shell that is not set must not mean: train without a record. */
Test(config_bad, empty_values)
{
    static const char *const options[] = {"report",         "run-dir",      "state-dir",
                                          "cluster-chief",  "cluster-bind", "cluster-key-file",
                                          "checkpoint-dir", "procs-count",  "cluster-node-rank"};
    char line[64], want[128];
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        snprintf(line, sizeof line, "--%s= x", options[i]);
        snprintf(want, sizeof want, "--%s: the value is empty; if none is meant, write null",
                 options[i]);
        expect_bad(line, "", want);
    }
    expect_bad("x", "PCHRUN_CHECKPOINT_DIR=",
               "PCHRUN_CHECKPOINT_DIR: the value is empty; if none is meant, write null");
    expect_bad("x",
               "PCHRUN_CONFIG=", "PCHRUN_CONFIG: the value is empty; name a file, or leave it out");
    folder_put("c.json", "{\"checkpoint\": {\"dir\": \"\"}}");
    expect_bad("-c c.json x", "",
               "c.json: checkpoint.dir: the value is empty; if none is meant, write null");
}

/* Such a path was taken as a relative one, and its missing folder blamed on a file system. */
Test(config_bad, paths_of_which_only_a_shell_or_a_program_knows)
{
    static const char *const dirs[] = {"checkpoint-dir", "state-dir", "run-dir", "logs-dir"};
#define URL                                                                                     \
    "is a URL; pchrun needs a path of a mounted file system (the program itself may save to a " \
    "URL, "                                                                                     \
    "and report it with saved())"
#define UNEXPANDED(c)                                                                             \
    "holds " c ", which only a shell expands; write the path in full, or give it on the command " \
    "line, without quotes"
    char line[64], want[300];
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        snprintf(line, sizeof line, "--%s gs://bucket/run7 x", dirs[i]);
        snprintf(want, sizeof want, "--%s: \"gs://bucket/run7\" " URL, dirs[i]);
        expect_bad(line, "", want);
    }
    expect_bad("x", "PCHRUN_STATE_DIR=/run/$USER",
               "PCHRUN_STATE_DIR: \"/run/$USER\" " UNEXPANDED("$"));
    static const struct bad files[] = {
        {"{\"checkpoint\": {\"dir\": \"~/run7\"}}",
         "c.json: checkpoint.dir: \"~/run7\" " UNEXPANDED("~")},
        {"{\"checkpoint\": {\"dir\": \"$SCRATCH/run7\"}}",
         "c.json: checkpoint.dir: \"$SCRATCH/run7\" " UNEXPANDED("$")},
        {"{\"report\": \"run-${ID}.json\"}", "c.json: report: \"run-${ID}.json\" " UNEXPANDED("$")},
        {"{\"exit\": {\"hook\": [\"~/hook\"]}}",
         "c.json: exit.hook: item 1: \"~/hook\" " UNEXPANDED("~")},
        {"{\"notices\": [\"file:s3://b/n\"]}", "c.json: notices: item 1: file: \"s3://b/n\" " URL},
    };
    expect_bad_files(files, ARRAY_LEN(files));
}

/* They are names like any other. */
Test(config_bad, paths_that_only_look_so)
{
    static const char *const good[] = {"./~/run7", "run~7", "c$/run7", "run$", "a:b//c", "://x"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct load ok;
        char line[64];
        snprintf(line, sizeof line, "--checkpoint-dir %s x", good[i]);
        load(&ok, line, "");
        cr_expect_eq(ok.result, ARGS_RUN, "%s: %s", good[i], ok.err.text);
        unload(&ok);
    }
}

Test(config_bad, out_of_range)
{
    expect_bad_files(ranges, ARRAY_LEN(ranges));
}

#define NO_COUNT                                                                            \
    " is not a whole number from 1 to 256; write how many ranks this node has, as in -n 8 " \
    "(pchrun counts no devices)"

#define NO_COMMAND(typed)                                              \
    "no command is given; write it after \"--\", as in: pchrun " typed \
    "-- python train.py (pchrun --help has the options)"

static const struct bad flags[] = {
    {"", NO_COMMAND("")},
    {"-n 4", NO_COMMAND("-n 4 ")},
    {"--", NO_COMMAND("")},
    {"--doctor", NO_COMMAND("--doctor ")},
    {"--drill 10s", NO_COMMAND("--drill 10s ")},
    {"--report out/run.json --grace=5s --", NO_COMMAND("--report out/run.json --grace=5s ")},
    {"--job a;b", NO_COMMAND("[options] ")},
    {"--job a\xff x", "--job: \"a\xff\" is not UTF-8"},
    {"--grce 1s x", "unknown flag --grce; the nearest is --grace"},
    {"--grac=1s x", "unknown flag --grac; the nearest is --grace"},
    {"--gracex 1s x", "unknown flag --gracex; the nearest is --grace"},
    {"--no-grace x", "unknown flag --no-grace; the nearest is --grace"},
    {"--no-checkpoint-share x",
     "unknown flag --no-checkpoint-share; the nearest is --no-checkpoint-shared"},
    {"--foo x", "unknown flag --foo; pchrun --help all lists all flags"},
    {"--grace 999999999999d x", "--grace: \"999999999999d\" is out of range (0s to 7d)"},
    {"-n 99999999999999999999 x", "-n: 99999999999999999999 is out of range (1 to 256)"},
    {"--signals BLAH=preempt x", "--signals: \"BLAH\" is not a signal; write a name, such as TERM"},
    {"-n gpu x", "-n: gpu" NO_COUNT},
    {"--nproc_per_node=2 x", "unknown flag --nproc_per_node; the nearest is --nproc-per-node"},
    {"--nnodes 1:4 x",
     "--nnodes: 1:4 is not a whole number from 1 to 16384; the number of nodes is "
     "fixed: write one number"},
    {"--max-restarts 3 x",
     "unknown flag --max-restarts; torchrun's --max-restarts is --restart-max here"},
    {"--max_restarts=3 x",
     "unknown flag --max_restarts; torchrun's --max-restarts is --restart-max here"},
    {"--standalone x", "unknown flag --standalone; one node is the default; leave the flag out"},
    {"--checkpoint d x", "unknown flag --checkpoint; the nearest is --checkpoint-dir"},
    {"--restart=3 x", "unknown flag --restart; the nearest is --restart-max"},
    {"--log debug x", "unknown flag --log; the nearest is --log-level"},
    {"--no-exit x", "unknown flag --no-exit; the nearest is --no-exit-reraise"},
    {"--port 1 x", "unknown flag --port; the nearest is --cluster-port"},
    {"-z x", "unknown flag -z; the short ones are -V -c -g -h -n -q -v"},
    {"-vz x", "unknown flag -z; the short ones are -V -c -g -h -n -q -v"},
    {"--grace", "--grace needs a value: --grace TIME"},
    {"--grace -- x", "--grace needs a value: --grace TIME; -- follows, which is a flag"},
    {"--job -n 4 x", "--job needs a value: --job NAME; -n follows, which is a flag"},
    {"-n", "-n needs a value: -n N"},
    {"-c", "-c needs a value: -c FILE"},
    {"-n -v x", "-n needs a value: -n N; -v follows, which is a flag"},
    {"-n x", "-n: x" NO_COUNT},
    {"-n= x", "-n: =" NO_COUNT},
    {"-n0 x", "-n: 0 is out of range (1 to 256)"},
    {"--procs-count 257 x", "--procs-count: 257 is out of range (1 to 256)"},
    {"--help=x", "--help: \"x\" is not one of all"},
    {"--no-cluster-insecure=false x", "--no-cluster-insecure takes no value"},
    {"--cluster-insecure=maybe x", "--cluster-insecure: \"maybe\" is neither true nor false"},
    {"--save-train-on=maybe x", "--save-train-on: \"maybe\" is neither true nor false nor auto"},
    {"--grace= x", "--grace: \"\" is not a duration; write a number and its unit (ms, s, m, h or "
                   "d), as in \"25s\""},
    {"--grace 25 x", "--grace: \"25\" is not a duration; write a number and its unit (ms, s, m, h "
                     "or d), as in \"25s\""},
    {"--logs-max-size 64 x",
     "--logs-max-size: \"64\" is not a size; write a whole number and its unit "
     "(B, K, M, G or T), as in \"64M\""},
    {"--logs-max-size 64MB x",
     "--logs-max-size: \"64MB\" is not a size; write a whole number and its "
     "unit (B, K, M, G or T), as in \"64M\""},
    {"--logs-max-size 2000T x", "--logs-max-size: \"2000T\" is out of range (0 to 1024T)"},
    {"--logs-max-size 99999999999999T x",
     "--logs-max-size: \"99999999999999T\" is out of range (0 to 1024T)"},
    {"--logs-prefix x",
     "logs.prefix is set (flag --logs-prefix), but logs.dir is not, so nothing is "
     "passed on by pchrun; set logs.dir"},
    {"--health-disk x",
     "health.disk is set (flag --health-disk), but checkpoint.dir is not, so there is no "
     "directory to check; set checkpoint.dir"},
    {"--log-level loud x",
     "--log-level: \"loud\" is not one of error, warning, notice, info, debug"},
    {"--cluster-nodes 127.0.0.1,,127.0.0.2 x",
     "--cluster-nodes: item 2: the value is empty; it must have 1 to 300 bytes"},
    {"--signals TERM x", "--signals: \"TERM\" is not a rule; write NAME=DO or NAME=preempt:GRACE"},
    {"--signals= x", "--signals: \"\" is not a rule; write NAME=DO or NAME=preempt:GRACE"},
    {"--signals TERM=preempt:1 x", "--signals: TERM: its grace: \"1\" is not a duration; write a "
                                   "number and its unit (ms, s, m, h or d), as in \"25s\""},
    {"--signals usr3=preempt x", "--signals: \"usr3\" is not a signal; the nearest is USR1"},
    {"--config= x", "-c: the value is empty; name a file, or leave it out"},
    {"--make-key=", "--make-key: the value is empty; name a file"},
    {"-c a.json -c b.json x", "-c is given twice (a.json and b.json); one file only"},
};

Test(config_bad, command_lines)
{
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        expect_bad(flags[i].in, "", flags[i].want);
}

static const struct bad variables[] = {
    {"PCHRUN_GRCE=1s", "unknown environment variable PCHRUN_GRCE; the nearest is PCHRUN_GRACE "
                       "(PCHRUN_* is reserved for configuration)"},
    {"PCHRUN_=1", "unknown environment variable PCHRUN_; PCHRUN_* is reserved for configuration, "
                  "and pchrun --help all shows all options"},
    {"PCHRUN_PORT=1", "unknown environment variable PCHRUN_PORT; the nearest is "
                      "PCHRUN_CLUSTER_PORT (PCHRUN_* is reserved for configuration)"},
    {"PCHRUN_SAVE=x", "unknown environment variable PCHRUN_SAVE; the nearest is PCHRUN_SAVE_MODE "
                      "(PCHRUN_* is reserved for configuration)"},
    {"PCHRUN_COMMAND=x", "unknown environment variable PCHRUN_COMMAND; PCHRUN_* is reserved for "
                         "configuration, and pchrun --help all shows all options"},
    {"PCHRUN_GRACE=soon", "PCHRUN_GRACE: \"soon\" is not a duration; write a number and its unit "
                          "(ms, s, m, h or d), as in \"25s\""},
    {"PCHRUN_GRACE=", "PCHRUN_GRACE: \"\" is not a duration; write a number and its unit (ms, s, "
                      "m, h or d), as in \"25s\""},
    {"PCHRUN_NODE_RANK=0 PCHRUN_CLUSTER_NODE_RANK=0",
     "PCHRUN_CLUSTER_NODE_RANK: cluster.node_rank is set already by the environment "
     "PCHRUN_NODE_RANK; keep one of the two"},
    {"PCHRUN_CHECKPOINT_SHARED=TRUE",
     "PCHRUN_CHECKPOINT_SHARED: \"TRUE\" is neither true nor false"},
};

Test(config_bad, environments)
{
    for (size_t i = 0; i < ARRAY_LEN(variables); i++)
        expect_bad("x", variables[i].in, variables[i].want);
}

/* One address that others can reach, without a key that keeps them out. */
#define TWINS "; nodes on one machine need ports of their own, as in n0:14242, n0:14243"
#define NO_KEY                                                                                 \
    ", and the nodes have no key. Make one, copy it to every node, and name it there: pchrun " \
    "--make-key run.key; pchrun --cluster-key-file run.key ...; or, on a network that you "    \
    "trust, add --cluster-insecure"

static const struct bad clusters[] = {
    {"--node-rank 1 x", "cluster.node_rank is 1 (flag --node-rank), but the job has 1 node "
                        "(default); ranks count from 0"},
    {"--nnodes 2 x", "cluster.nnodes is 2 (flag --nnodes), but nothing says where node 0 is; set "
                     "cluster.nodes or cluster.chief"},
    {"--nnodes 3 --cluster-nodes 127.0.0.1,127.0.0.2 x",
     "cluster.nnodes is 3 (flag --nnodes), but cluster.nodes has 2 entries (flag --cluster-nodes)"},
    {"--cluster-nodes 127.0.0.1,127.0.0.2 --node-rank 2 x",
     "cluster.node_rank is 2 (flag --node-rank), but the job has 2 nodes (the length of "
     "cluster.nodes); ranks count from 0"},
    {"--cluster-nodes 127.0.0.1,127.0.0.2 --cluster-chief localhost x",
     "cluster.nodes (flag --cluster-nodes) and cluster.chief (flag --cluster-chief) exclude each "
     "other; keep one"},
    {"--cluster-chief localhost x",
     "cluster.chief (flag --cluster-chief) needs cluster.nnodes, the number of nodes"},
    {"--cluster-chief localhost --nnodes 2 x", "cluster.chief (flag --cluster-chief) is set; set "
                                               "cluster.node_rank, too: the number of this node"},
    {"--cluster-nodes 127.0.0.1,127.0.0.2,127.0.0.1 x",
     "cluster.nodes (flag --cluster-nodes): nodes 0 and 2 are the same, 127.0.0.1 port "
     "14242" TWINS},
    {"--cluster-nodes 127.0.0.1:14242,127.0.0.2,127.0.0.1 x",
     "cluster.nodes (flag --cluster-nodes): nodes 0 and 2 are the same, 127.0.0.1 port "
     "14242" TWINS},
    {"--cluster-nodes n0,N0:7 --cluster-port 7 --cluster-insecure x",
     "cluster.nodes (flag --cluster-nodes): nodes 0 and 1 are the same, n0 port 7" TWINS},
    {"--cluster-nodes n0,n1 x",
     "cluster.nodes (flag --cluster-nodes): node 0: n0 is not a loopback address" NO_KEY},
    {"--cluster-nodes 127.0.0.1,10.0.0.1 x",
     "cluster.nodes (flag --cluster-nodes): node 1: 10.0.0.1 is not a loopback address" NO_KEY},
    {"--cluster-nodes 127.0.0.1,127.0.0.2 --cluster-bind 0.0.0.0 x",
     "cluster.bind (flag --cluster-bind): 0.0.0.0 is not a loopback address" NO_KEY},
    {"--cluster-chief n0 --nnodes 2 --node-rank 0 x",
     "cluster.chief (flag --cluster-chief): n0 is not a loopback address" NO_KEY},
    {"--cluster-nodes 127.0.0.1:0,127.0.0.2 x",
     "cluster.nodes (flag --cluster-nodes): node 0: the port of '127.0.0.1:0' is not a number from "
     "1 to 65535"},
    {"--cluster-nodes [::1]7 x", "cluster.nodes (flag --cluster-nodes): node 0: '[::1]7' is not an "
                                 "address; write host, host:port or [IPv6 address]:port"},
    {"--cluster-nodes a_b:7,-x x",
     "cluster.nodes (flag --cluster-nodes): node 0: a_b is not a loopback address" NO_KEY},
    {"--cluster-nodes [::1 x", "cluster.nodes (flag --cluster-nodes): node 0: '[::1' is not an "
                               "address; write host, host:port or [IPv6 address]:port"},
    {"--cluster-nodes a:b:c x", "cluster.nodes (flag --cluster-nodes): node 0: 'a:b:c' is not an "
                                "address; write host, host:port or [IPv6 address]:port"},
    {"--cluster-port 29500 x", "cluster.port (flag --cluster-port): port 29500 is used by "
                               "torch.distributed; take another one, such as 14242"},
    {"--cluster-port 29400 x", "cluster.port (flag --cluster-port): port 29400 is used by "
                               "torchrun's rendezvous; take another one, such as 14242"},
    {"--cluster-port 8482 x", "cluster.port (flag --cluster-port): port 8482 is used by JAX on "
                              "TPU; take another one, such as 14242"},
    {"--cluster-port 55527 x", "cluster.port (flag --cluster-port): port 55527 is used by JAX on "
                               "Kubernetes; take another one, such as 14242"},
    {"--cluster-port 61440 x", "cluster.port (flag --cluster-port): port 61440 is used by JAX "
                               "under Slurm and Open MPI; take another one, such as 14242"},
    {"--cluster-port 65535 x", "cluster.port (flag --cluster-port): port 65535 is used by JAX "
                               "under Slurm and Open MPI; take another one, such as 14242"},
    {"--cluster-nodes 127.0.0.1:29500,127.0.0.2 x",
     "cluster.nodes (flag --cluster-nodes): node 0: port 29500 is used by torch.distributed; take "
     "another one, such as 14242"},
    {"--cluster-heartbeat-interval 8s x",
     "cluster.heartbeat_timeout is 15s (default), less than twice cluster.heartbeat_interval, "
     "which is 8s (flag --cluster-heartbeat-interval)"},
    {"--cluster-replace-wait 1h x",
     "cluster.replace_wait (flag --cluster-replace-wait) is for the nodes of a job, and this job "
     "has one; its scheduler starts it again"},
    {"--cluster-nodes 127.0.0.1,127.0.0.2 --cluster-replace-wait 1h x",
     "cluster.replace_wait (flag --cluster-replace-wait) needs checkpoint.dir: a replacement finds "
     "there where its ranks resume"},
    {"--cluster-nodes 127.0.0.1,127.0.0.2 --checkpoint-dir /c --cluster-replace-wait 22s x",
     "cluster.replace_wait is 22s (flag --cluster-replace-wait), but the processes of a lost node "
     "may run for 22 s: cluster.heartbeat_timeout and stop.kill_wait, and a tenth of both; give "
     "its "
     "replacement more time"},
    {"--cluster-nodes 127.0.0.1,127.0.0.2 --state-dir /s --cluster-replace-wait 32s "
     "--cluster-heartbeat-timeout 25s x",
     "cluster.replace_wait is 32s (flag --cluster-replace-wait), but the processes of a lost node "
     "may run for 33 s: cluster.heartbeat_timeout and stop.kill_wait, and a tenth of both; give "
     "its "
     "replacement more time"},
    {"--cluster-nodes 127.0.0.1,127.0.0.2 --checkpoint-dir /c --cluster-spares 1 x",
     "cluster.spares is 1 (flag --cluster-spares), and the job has 2 nodes with its spares (the "
     "length of cluster.nodes), but two nodes at least must train: a spare cannot replace node 0; "
     "start pchrun on 3 nodes or more"},
    {"--cluster-spares 7 --checkpoint-dir /c x",
     "cluster.spares is 7 (flag --cluster-spares), and the job has 1 node with its spares "
     "(default), but two nodes at least must train: a spare cannot replace node 0; start pchrun on "
     "9 nodes or more"},
    {"--cluster-chief ::1 --nnodes 4 --node-rank 4 --cluster-spares 2 --checkpoint-dir /c x",
     "cluster.node_rank is 4 (flag --node-rank), but the job has 4 nodes (flag --nnodes); ranks "
     "count from 0"},
    {"--cluster-chief ::1 --nnodes 4 --node-rank 1 --cluster-spares 2 --checkpoint-dir /c "
     "--cluster-replace-wait 0 x",
     "cluster.spares is 2 (flag --cluster-spares), but cluster.replace_wait is 0 (flag "
     "--cluster-replace-wait), so the job waits for no spare; leave cluster.replace_wait out, or "
     "give it a time"},
    {"--cluster-chief ::1 --nnodes 4 --node-rank 1 --cluster-spares 2 x",
     "cluster.replace_wait (the default with cluster.spares) needs checkpoint.dir: a replacement "
     "finds there where its ranks resume"},
    {"--cluster-chief ::1 --nnodes 4 --node-rank 1 --cluster-spares 2 --checkpoint-dir /c "
     "--cluster-heartbeat-timeout 10m x",
     "cluster.replace_wait is 10m (the default with cluster.spares), but the processes of a lost "
     "node may run for 11.1 min: cluster.heartbeat_timeout and stop.kill_wait, and a tenth of "
     "both; "
     "give its replacement more time"},
};

Test(config_bad, clusters_that_cannot_be)
{
    for (size_t i = 0; i < ARRAY_LEN(clusters); i++)
        expect_bad(clusters[i].in, "", clusters[i].want);
}

/* The contents of a file or an argument must not control a terminal. */
Test(config_bad, control_characters_are_not_repeated)
{
    folder_put("c.json", "{\"\\u001b[31m\": 1}");
    expect_bad("-c c.json x", "",
               "c.json: unknown key \"?[31m\"; pchrun --print-config shows all keys");
    expect_bad("--\x1b[31m x", "", "unknown flag --?[31m; pchrun --help all lists all flags");
    expect_bad("-\x1b x", "", "unknown flag -?; the short ones are -V -c -g -h -n -q -v");
}
