/* SPDX-License-Identifier: Apache-2.0
 *
 * args: how a program with words reads its command line, and what it refuses. The command line of
 * pchrun, which has no words, is in test_config.c and test_config_bad.c.
 */
#include "base/args.h"

#include "base/clock.h"
#include "base/str.h"

#include "unit.h"

#include <stdlib.h>

struct options {
    bool is_loud, is_fast;
    const char *text;
    int number, colour;
    int64_t time_ns;
    char taken[64];
};

#define AT(field) offsetof(struct options, field)

static const char *const colours[] = {"red", "green", NULL};

static const char *const helps[] = {"all", NULL};

static struct args_row row(size_t i)
{
    static const struct args_row rows[] = {
        {"help", 'h', "[all]", "this text", ARGS_HELP, .choices = helps, .is_usual = true},
        {"loud", 'l', NULL, "say more", ARGS_FLAG, AT(is_loud)},
        {"fast", 'f', NULL, "take less time", ARGS_FLAG, AT(is_fast), true},
        {"text", 't', "TEXT", "a text", ARGS_TEXT, AT(text), .max = 5, .also = "words",
         .is_usual = true},
        {"number", 'n', "N", "a number", ARGS_NUMBER, AT(number), .max = 9, .fallback = "3"},
        {"colour", 0, "WORD", "a colour", ARGS_CHOICE, AT(colour), .choices = colours},
        {"time", 0, "TIME", "a time", ARGS_TIME, AT(time_ns), false, NS_PER_S, 60 * NS_PER_S},
        {"a.b_c", 0, NULL, "yes or no", ARGS_YES_NO},
    };
    return i < ARRAY_LEN(rows) ? rows[i] : (struct args_row){0};
}

static struct args_word word(size_t i)
{
    static const struct args_word words[] = {{"go", "goes", "PATH", " fast "},
                                             {"stay", "stays", "[PATH]", " "},
                                             {"rest", "rests", NULL, " "}};
    return i < ARRAY_LEN(words) ? words[i] : (struct args_word){0};
}

static bool take(void *options, size_t i, const char *typed, const char *value, struct err *err)
{
    struct options *all = options;
    str_addf(all->taken, sizeof all->taken, "%zu %s=%s;", i, typed, value);
    return true;
}

static struct args args = {.program = "probe",
                           .version = "1.2",
                           .head = "Usage: probe\n\nWords:\n",
                           .tail = "The end.\n",
                           .left = 20,
                           .right = 12,
                           .row = row,
                           .word = word,
                           .word_kind = "word",
                           .take = take};

/* The results of the last line. */
static struct options got;
static struct args_reading reading;
static struct err err;

static enum args_end read_line(const char *line, FILE *out)
{
    static char text[256];
    char *argv[32];
    snprintf(text, sizeof text, "probe %s", line);
    unit_cut(text, argv, ARRAY_LEN(argv));
    got = (struct options){.number = -1, .colour = -1};
    reading = (struct args_reading){.options = &got, .out = out};
    err = (struct err){0};
    return args_read(&args, argv, &reading, &err);
}

Test(args, are_read)
{
    cr_assert_eq(read_line("-lfn4 go --time=2s --colour green x --words a=b", stdout), ARGS_RUN,
                 "%s", err.text);
    cr_expect(got.is_loud && got.is_fast && got.number == 4 && got.colour == 1);
    cr_expect(got.time_ns == 2 * NS_PER_S && str_is(got.text, "a=b"));
    cr_expect(reading.word == 0 && str_is(reading.path, "x"));
    cr_assert_eq(read_line("stay -t -x -- -y", stdout), ARGS_RUN);
    cr_expect(str_is(got.text, "-x") && reading.word == 1 && str_is(reading.path, "-y"));
    cr_assert_eq(read_line("rest --a-b-c --no-a-b-c --a-b-c=maybe", stdout), ARGS_RUN);
    cr_expect_str_eq(got.taken, "7 --a-b-c=true;7 --no-a-b-c=false;7 --a-b-c=maybe;");
}

static const struct {
    const char *line, *why;
} bad[] = {
    {"-l", "which word? probe --help lists all"},
    {"sty", "unknown word \"sty\"; the nearest is \"stay\""},
    {"elsewhere", "unknown word \"elsewhere\"; probe --help lists all"},
    {"go", "go needs its PATH"},
    {"go x y", "\"y\" is one argument too many"},
    {"rest x", "\"x\" is one argument too many"},
    {"-f stay", "stay takes no --fast"},
    {"stay --tex x", "unknown flag --tex; the nearest is --text"},
    {"stay --elsewhere", "unknown flag --elsewhere; probe --help lists all flags"},
    {"stay -lx", "unknown flag -x; the short ones are -f -h -l -n -t"},
    {"stay --text", "--text needs a value: --text TEXT"},
    {"stay --text=", "--text: the value is empty"},
    {"stay -tabcdef", "-t: it has more than 5 bytes"},
    {"stay --loud=1", "--loud takes no value"},
    {"stay --no-a-b-c=1", "--no-a-b-c takes no value"},
    {"stay -n 10", "-n: 10 is out of range (0 to 9)"},
    {"stay -n x", "-n: x is not a whole number from 0 to 9"},
    {"stay --colour blue", "--colour: \"blue\" is not one of red, green"},
    {"stay --time 2m", "--time: \"2m\" is out of range (1s to 1m)"},
};

Test(args, are_refused)
{
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        cr_expect_eq(read_line(bad[i].line, stdout), ARGS_BAD, "%s", bad[i].line);
        cr_expect_eq(err.code, ERR_USAGE);
        cr_expect_str_eq(err.text, bad[i].why);
    }
}

Test(args, a_program_without_arguments)
{
    args.word = NULL;
    args.is_alone = true;
    cr_expect_eq(read_line("-l --text x", stdout), ARGS_RUN);
    cr_expect(got.is_loud && str_is(got.text, "x"));
    static const char *const lines[] = {"-l x", "x -l", "-- x", "-l -- -x"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        cr_expect_eq(read_line(lines[i], stdout), ARGS_BAD, "%s", lines[i]);
        cr_expect(strstr(err.text, "is one argument too many"), "%s", err.text);
    }
}

/* Nothing behind --help is read. */
Test(args, help)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    cr_assert(out);
    cr_assert_eq(read_line("-lh --elsewhere", out), ARGS_SHOWN);
    fclose(out);
    cr_expect_str_eq(text, "Usage: probe\n\nWords:\n"
                           "  go PATH            goes\n"
                           "  stay [PATH]        stays\n"
                           "  rest               rests\n"
                           "\nOptions:\n"
                           "  -h, --help [all]  this text\n"
                           "  -l, --loud        say more\n"
                           "  -f, --fast        take less\n"
                           "                    time (go)\n"
                           "  -t, --text TEXT   a text; also\n"
                           "                    --words\n"
                           "  -n, --number N    a number [3]\n"
                           "  --colour WORD     a colour\n"
                           "  --time TIME       a time\n"
                           "  --[no-]a-b-c      yes or no\n"
                           "\nThe end.\n");
    free(text);
    FILE *full = fopen("/dev/full", "w");
    cr_assert(full);
    cr_expect_eq(read_line("--help", full), ARGS_BAD);
    cr_expect(err.code == ERR_SYSTEM && strstr(err.text, "cannot write to standard output"));
    fclose(full);
}

/* The options and the end of the help that the line prints; the caller frees *text. */
static const char *options_shown(const char *line, char **text)
{
    size_t size;
    FILE *out = open_memstream(text, &size);
    cr_assert(out);
    cr_assert_eq(read_line(line, out), ARGS_SHOWN, "%s", err.text);
    fclose(out);
    return strstr(*text, "\nOptions");
}

/* A program with many options shows the usual ones, unless it is asked for all. */
Test(args, short_help)
{
    static const struct {
        const char *line;
        bool is_all;
    } lines[] = {
        {"--help", false},    {"-h --text", false},  {"--help go all", false}, {"--help all", true},
        {"--help=all", true}, {"-lh all --x", true}, {"-hall", true},
    };
    args.brief = "Ask for all.\n";
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        char *text;
        const char *shown = options_shown(lines[i].line, &text);
        cr_expect_eq(!strcmp(shown, "\nOptions used most:\n"
                                    "  -h, --help [all]  this text\n"
                                    "  -t, --text TEXT   a text; also\n"
                                    "                    --words\n"
                                    "\nAsk for all.\n"),
                     !lines[i].is_all, "%s: %s", lines[i].line, shown);
        cr_expect_eq(strstr(shown, "--loud") && strstr(shown, "The end."), lines[i].is_all);
        free(text);
    }
    cr_expect_eq(read_line("--help=most", stdout), ARGS_BAD);
    cr_expect_str_eq(err.text, "--help: \"most\" is not one of all");
    cr_expect_eq(read_line("stay --elsewhere", stdout), ARGS_BAD);
    cr_expect_str_eq(err.text, "unknown flag --elsewhere; probe --help all lists all flags");
}
