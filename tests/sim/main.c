/* SPDX-License-Identifier: Apache-2.0
 * pchrun-sim: runs schedules until one breaks a promise. See sim.h.
 */
#include "sim.h"

#include "core/common/verdict.h"
#include "table.h"

#include <getopt.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: pchrun-sim [options] [SEED ...]\n"
    "Runs the core of pchrun under virtual time, one schedule per seed, and checks the design's\n"
    "promises in each. Exits with 1 at the first seed that breaks one, and prints its trace.\n"
    "\n"
    "  SEED ...     run these seeds alone\n"
    "  --seeds N    how many schedules to run (default 10000)\n"
    "  --minutes N  run for N minutes instead\n"
    "  --from SEED  the first seed (default 1; with --minutes, by the clock)\n"
    "  --trace SEED run this one seed and print what happens\n"
    "  --table[=N]  instead, show how the chief's work grows with the job, from 8 to N nodes\n"
    "               (default 10000)\n"
    "  --replace    only the seeds, one in 34, in whose schedules a lost node may be replaced\n"
    "  --quiet      no progress line, and no trace of a failing seed\n"
    "  --help       this text\n";

struct options {
    uint64_t seeds, minutes, from, trace;
    uint64_t table; /* up to this many nodes, 0: no table */
    bool is_quiet, replaces;
    char **kept; /* seeds to run alone, nkept of them; 0: all from `from` */
    uint64_t nkept;
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
    static const struct option longs[] = {
        {"seeds", 1, 0, 'n'},   {"minutes", 1, 0, 'm'}, {"from", 1, 0, 'f'},
        {"trace", 1, 0, 't'},   {"table", 2, 0, 'T'},   {"quiet", 0, 0, 'q'},
        {"replace", 0, 0, 'r'}, {"help", 0, 0, 'h'},    {0}};
    int c;
    *o = (struct options){.seeds = 10000};
    while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        if (c == 'n')
            o->seeds = number(optarg);
        else if (c == 'm')
            o->minutes = number(optarg);
        else if (c == 'f')
            o->from = number(optarg);
        else if (c == 't')
            o->trace = number(optarg);
        else if (c == 'T')
            o->table = optarg ? number(optarg) : 10000;
        else if (c == 'q')
            o->is_quiet = true;
        else if (c == 'r')
            o->replaces = true;
        else {
            fputs(usage, c == 'h' ? stdout : stderr);
            exit(c == 'h' ? 0 : 2);
        }
    }
    o->kept = argv + optind;
    o->nkept = (uint64_t)(argc - optind);
    if (o->nkept)
        o->seeds = o->nkept;
    /* Each long run tries other schedules. A failure prints its seed. */
    if (o->from == 0)
        o->from = o->minutes ? (uint64_t)clock_real_ns() / NS_PER_MS : 1;
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

struct sum {
    uint64_t schedules, events, outcomes[OUTCOME__COUNT];
    uint64_t last; /* the seed of the last schedule */
};

static bool goes_on(const struct options *o, const struct sum *sum, int64_t started_at)
{
    if (!o->minutes)
        return sum->schedules < o->seeds;
    return clock_now_ns() - started_at < (int64_t)o->minutes * 60 * NS_PER_S;
}

static void show_progress(const struct options *o, const struct sum *sum)
{
    if (!o->is_quiet && isatty(2) && sum->schedules % 1000 == 0)
        fprintf(stderr, "\r%llu schedules", ull(sum->schedules));
}

static bool may_replace(uint64_t seed)
{
    struct schedule s;
    schedule_draw(&s, seed);
    return s.replace_wait > 0;
}

static bool run_all(struct world *w, const struct options *o, struct sum *sum)
{
    int64_t started_at = clock_now_ns();
    for (uint64_t i = 0; goes_on(o, sum, started_at); i++) {
        uint64_t seed = o->nkept ? number(o->kept[i]) : o->from + i;
        if (o->replaces && !may_replace(seed))
            continue;
        if (!run_one(w, seed, NULL)) {
            printf("seed %llu breaks a promise: %s\n", ull(seed), w->failure);
            if (!o->is_quiet)
                run_one(w, seed, stdout);
            return false;
        }
        sum->last = seed;
        sum->schedules++;
        sum->events += w->events;
        sum->outcomes[w->hosts[0].outcome]++;
        show_progress(o, sum);
    }
    return true;
}

static void show(const struct options *o, const struct sum *sum)
{
    printf("%llu schedules from seed %llu to %llu, %llu events, every promise held; node 0 ended:",
           ull(sum->schedules), o->nkept ? number(o->kept[0]) : ull(o->from), ull(sum->last),
           ull(sum->events));
    for (int i = 0; i < OUTCOME__COUNT; i++)
        if (sum->outcomes[i])
            printf(" %s %llu", verdict_name((enum outcome)i), ull(sum->outcomes[i]));
    putchar('\n');
}

/* Each schedule uses the memory of the last one again. Otherwise the kernel takes the memory back
 * each time, which costs a third of the time. */
static void keep_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

int main(int argc, char **argv)
{
    struct options o;
    struct sum sum = {0};
    parse(argc, argv, &o);
    if (o.table)
        return table_show(o.table);
    keep_memory();
    struct world *w = calloc(1, sizeof *w);
    if (!w)
        return 2;
    bool ok;
    if (o.trace) {
        ok = run_one(w, o.trace, stdout);
        printf("seed %llu: %s\n", ull(o.trace), ok ? "every promise held" : w->failure);
    } else {
        ok = run_all(w, &o, &sum);
        if (ok)
            show(&o, &sum);
    }
    heap_free(&w->queue);
    free(w);
    return !ok;
}
