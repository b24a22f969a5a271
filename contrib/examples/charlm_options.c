/* SPDX-License-Identifier: Apache-2.0
 *
 * charlm_options: the example's command line. One table drives the parser and --help.
 */
#include "charlm.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#define NUMBER_MAX 1000000

struct options opt = {
    .text = "/usr/share/common-licenses/GPL-3",
    .dir = "charlm-checkpoints",
    .root = "127.0.0.1",
    .port = "14300",
    .steps = 400,
    .log_every = 20,
    .join_timeout_s = 60,
};

/* Either `text` or `number` is set: where the value goes. */
static const struct row {
    const char *name, *value, *help, **text;
    long *number, min;
} rows[] = {
    {"text", "FILE", "the text to learn", .text = &opt.text},
    {"steps", "N", "train to this step", .number = &opt.steps, .min = 1},
    {"dir", "DIR", "where the checkpoints go", .text = &opt.dir},
    {"save-every", "N", "save every N steps, 0: only at the end", .number = &opt.save_every},
    {"resume", "STEP", "without pchrun: go on from this step", .number = &opt.resume},
    {"root", "ADDR", "where rank 0 listens for the others", .text = &opt.root},
    {"port", "PORT", "the same", .text = &opt.port},
    {"join-timeout", "S", "seconds to wait for a rank", .number = &opt.join_timeout_s, .min = 1},
    {"log-every", "N", "steps to a line of progress", .number = &opt.log_every, .min = 1},
    {"step-time", "MS", "sleep in each step, as if it were work", .number = &opt.step_time_ms},
    {"save-time", "MS", "the same in each save", .number = &opt.save_time_ms},
    {"skew", "MS", "rank r sleeps r times as long in addition", .number = &opt.skew_ms},
};
#define ROWS (sizeof rows / sizeof rows[0])

static void print_help(void)
{
    puts("usage: charlm [options]\n"
         "Trains a character language model on a text, alone or as one of several ranks.\n");
    for (const struct row *row = rows; row < rows + ROWS; row++)
        printf("  --%-12s %-9s  %s\n", row->name, row->value, row->help);
    puts("\nRank and number of ranks: PCH_RANK and PCH_WORLD_SIZE, as pchrun sets them, else RANK\n"
         "and WORLD_SIZE, else one rank. Under pchrun the training resumes from the last commit.");
}

static bool take(const struct row *row, const char *value)
{
    char *end;
    if (row->text) {
        *row->text = value;
        return value[0] != '\0';
    }
    *row->number = strtol(value, &end, 10);
    return value[0] && !*end && *row->number >= row->min && *row->number <= NUMBER_MAX;
}

void options_parse(int argc, char **argv)
{
    struct option longs[ROWS + 2] = {[ROWS] = {"help", no_argument, NULL, 'h'}};
    for (size_t i = 0; i < ROWS; i++)
        longs[i] = (struct option){rows[i].name, required_argument, NULL, 'o'};
    int c, i;
    while ((c = getopt_long(argc, argv, "h", longs, &i)) == 'o') {
        if (!take(&rows[i], optarg)) {
            fprintf(stderr, "charlm: --%s %s: not %s\n", rows[i].name, optarg, rows[i].value);
            exit(2);
        }
    }
    if (c == 'h')
        print_help();
    else if (c == -1 && optind < argc)
        fprintf(stderr, "charlm: %s: charlm takes options only\n", argv[optind]);
    if (c != -1 || optind < argc)
        exit(c == 'h' ? 0 : 2);
}
