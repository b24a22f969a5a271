/* SPDX-License-Identifier: Apache-2.0
 * pchrun-sim: runs schedules until one breaks a promise. See sim.h.
 */
#include "sim.h"

#include "core/verdict.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: pchrun-sim [options]\n"
    "Runs the core of pchrun under virtual time, one schedule per seed, and checks the design's\n"
    "promises in each. Exits with 1 at the first seed that breaks one, and prints its trace.\n"
    "\n"
    "  --seeds N    how many schedules to run (default 10000)\n"
    "  --from SEED  the first seed (default 1)\n"
    "  --trace SEED run this one seed and print what happens\n"
    "  --quiet      no progress line, and no trace of a failing seed\n"
    "  --help       this text\n";

struct options {
    uint64_t seeds, from, trace;
    bool is_quiet;
};

static uint64_t number(const char *text)
{
    char *end;
    uint64_t v = strtoull(text, &end, 0);
    if (!*text || *end) {
        fprintf(stderr, "pchrun-sim: \"%s\" is not a number\n", text);
        exit(2);
    }
    return v;
}

static void parse(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {{"seeds", 1, 0, 'n'}, {"from", 1, 0, 'f'},
                                          {"trace", 1, 0, 't'}, {"quiet", 0, 0, 'q'},
                                          {"help", 0, 0, 'h'},  {0}};
    int c;
    *o = (struct options){.seeds = 10000, .from = 1};
    while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        if (c == 'n')
            o->seeds = number(optarg);
        else if (c == 'f')
            o->from = number(optarg);
        else if (c == 't')
            o->trace = number(optarg);
        else if (c == 'q')
            o->is_quiet = true;
        else {
            fputs(usage, c == 'h' ? stdout : stderr);
            exit(c == 'h' ? 0 : 2);
        }
    }
}

static bool run_one(struct world *w, uint64_t seed, FILE *out)
{
    struct schedule s;
    schedule_draw(&s, seed);
    if (out)
        schedule_print(&s, out);
    world_run(w, &s, out);
    return w->failure[0] == '\0';
}

int main(int argc, char **argv)
{
    struct options o;
    parse(argc, argv, &o);
    struct world *w = calloc(1, sizeof *w);
    if (!w)
        return 2;
    if (o.trace) {
        bool ok = run_one(w, o.trace, stdout);
        printf("seed %llu: %s\n", (unsigned long long)o.trace,
               ok ? "every promise held" : w->failure);
        return !ok;
    }
    uint64_t outcomes[OUTCOME__COUNT] = {0}, events = 0;
    bool is_terminal = isatty(2);
    for (uint64_t i = 0; i < o.seeds; i++) {
        uint64_t seed = o.from + i;
        if (!run_one(w, seed, NULL)) {
            printf("seed %llu breaks a promise: %s\n", (unsigned long long)seed, w->failure);
            if (!o.is_quiet)
                run_one(w, seed, stdout);
            return 1;
        }
        outcomes[w->hosts[0].outcome]++;
        events += w->events;
        if (is_terminal && !o.is_quiet && i % 1000 == 999)
            fprintf(stderr, "\r%llu of %llu schedules", (unsigned long long)(i + 1),
                    (unsigned long long)o.seeds);
    }
    if (is_terminal && !o.is_quiet)
        fputc('\n', stderr);
    printf("%llu schedules, %llu events, every promise held; node 0 ended:",
           (unsigned long long)o.seeds, (unsigned long long)events);
    for (int i = 0; i < OUTCOME__COUNT; i++)
        if (outcomes[i])
            printf(" %s %llu", verdict_name((enum outcome)i), (unsigned long long)outcomes[i]);
    putchar('\n');
    free(w->heap);
    free(w);
    return 0;
}
