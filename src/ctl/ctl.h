/* SPDX-License-Identifier: Apache-2.0
 *
 * ctl: pchctl. ctl has the commands and the options, in two tables, and what each command does.
 * find looks for the supervisor, ask talks to it, and show prints its answer as text for people.
 * tally, figures, words and waits (each with its header) say what an answer means. offline makes an
 * answer of the files of a job, ended shows its attempts, hours reads its ledger, events a journal.
 * showhours prints the hours, timeline draws them, lastmetrics has the metrics that are left of a
 * job. pchrun-web uses find, ask, hours, lastmetrics and these words. Every wait for a supervisor
 * has a deadline. Main thread; find and ask any thread, one at a time.
 */
#pragma once

#include "base/args.h"
#include "base/buf.h"
#include "wire/control.h"
#include "json/json.h"

struct ctl;
/* Carries out a command. False: *err. */
typedef bool ctl_fn(struct ctl *ctl, struct err *err);

/* A time that does not count in the hours of a job. */
struct ctl_exclusion {
    int64_t from_ns, to_ns; /* CLOCK_REALTIME */
    const char *reason;     /* "": none is given */
};

enum { CTL_EXCLUSIONS_MAX = 32 };

/* Not given: NULL, -1 or false; times get the command's default. */
struct ctl_options {
    enum control_verb verb;
    ctl_fn *run;
    const char *job, *run_dir; /* which job is meant */
    int node;
    bool is_json, watches, follows, cancels, saves;
    int64_t interval_ns, wait_ns;
    int64_t in_ns; /* of a notice: the time until its deadline */
    const char *text;
    bool is_quiet;       /* find_dir() prints no table, and errors name no command */
    bool is_raw;         /* texts in the answer keep their control characters */
    const char *command; /* of one that reads files: its name */
    const char *path;    /* of the files of a job */
    const char *output;  /* the file of the picture; NULL or "-": the standard output */
    int64_t since_ns;    /* CLOCK_REALTIME; 0: not given */
    struct ctl_exclusion exclusions[CTL_EXCLUSIONS_MAX];
    int nexclusions;
};

/* --- ask.c --- */

#define FIND_DIR_MAX 108 /* bytes of a Unix socket's path */

enum { FIND_JOBS_MAX = 64 };

/* A connection: owns its descriptor and memory. */
struct talk {
    int fd; /* -1: none */
    struct lines in;
};

enum talk_result {
    TALK_LINE,
    TALK_END,    /* the supervisor has closed the connection */
    TALK_LATE,   /* no line came in time; *err says so */
    TALK_FAILED, /* *err */
};

/* Sets *err: this user may not enter `dir`. Names its owner, and the users that may. */
void talk_denied(const char *dir, struct err *err);
/* Connects, and sends the request `verb` with its options. `dir` is the supervisor's private
 * directory. options NULL: only the state of this pchrun, without the other nodes. False: no
 * process of this user listens there. Call talk_close() in either case. */
MUST_CHECK bool talk_open(const char *dir, enum control_verb verb,
                          const struct ctl_options *options, struct talk *ret, struct err *err);
void talk_close(struct talk *talk);
/* Reads the next line. `until`: the deadline, CLOCK_MONOTONIC. *ret_line ends with a NUL instead of
 * the newline, and is valid until the next call. */
enum talk_result talk_read(struct talk *talk, int64_t until, char **ret_line, size_t *ret_len,
                           struct err *err);

struct answer {
    struct json *root; /* an object; unless is_raw, its texts have no control characters */
    char *text;        /* the received line, without its newline */
};

/* Connects, sends the request, reads the answer; options as for talk_open(). False: no answer, a
 * malformed one, or a refusal; see *err. Free the answer with answer_free(). */
MUST_CHECK bool ask(const char *dir, enum control_verb verb, const struct ctl_options *options,
                    struct answer *ret, struct err *err);
/* A supervisor that is asked beside others. */
struct asked {
    char dir[FIND_DIR_MAX];
    struct answer answer; /* root NULL: none; err has the reason */
    struct err err;
};

/* Asks at most FIND_JOBS_MAX supervisors at once for their status. wait_ns is the time for all of
 * them to begin their answers, so some that are stopped delay the others no longer than one. Free
 * each answer. */
void ask_each(struct asked *list, int n, const struct ctl_options *options, int64_t wait_ns);
/* True if ask() failed because no pchrun runs there any more. */
bool ask_found_nobody(const struct err *err);
/* Parses a received line and keeps it. False: it is malformed. Free the answer in either case. */
MUST_CHECK bool answer_read(struct answer *ret, const char *line, size_t len, struct err *err);
void answer_free(struct answer *answer);
/* Sleeps, also through signals. */
void ask_pause(int64_t ns);

/* --- find.c --- */

/* A pchrun that does not answer. */
struct find_silent {
    char dir[FIND_DIR_MAX], why[256];
};

struct find_jobs {
    char dirs[FIND_JOBS_MAX][FIND_DIR_MAX]; /* sorted by the jobs' names */
    int n;
    struct find_silent silent[FIND_JOBS_MAX];
    int nsilent;
};

/* Finds the directory of the supervisor that fits the options: among private directories of this
 * user (root: of all users) in the usual places. Asks each supervisor for its job and node. Of
 * several nodes of one job it is the lowest. False: none or several fit. *err names the searched
 * places, or the options to choose by; a table of those found is on standard error. One thread at a
 * time. */
MUST_CHECK bool find_dir(const struct ctl_options *options, char ret[FIND_DIR_MAX],
                         struct err *err);

/* The same for a look, for which no choice is needed: all jobs that fit, each with its lowest node.
 * False: no pchrun that fits answers; *ret then has those that do not answer. */
MUST_CHECK bool find_jobs(const struct ctl_options *options, struct find_jobs *ret,
                          struct err *err);

/* If err is that no pchrun runs where PCH_SOCKET says, tells so, and what to do. */
void find_explain(const struct ctl_options *options, struct err *err);

/* Calls fn for each private directory in `base` that may have a supervisor of this user (root: of
 * any). */
typedef void find_fn(void *ctx, const char *dir);
void find_each(const char *base, find_fn *fn, void *ctx);

/* --- look.c --- */

/* Prints the state of each job; with several pchruns a line for each. False: none answers. */
ctl_fn look_show;
/* Repeats that until no pchrun is left. */
ctl_fn look_watch;

/* --- show.c --- */

/* Prints the answer to CONTROL_STATUS. `said`: the last lines of the process that failed first,
 * which this changes; NULL: none. */
void show_status(const struct json *answer, char *said);
/* Prints one line about a job of several. `answer` NULL: the head of the list. */
void show_job(const struct json *answer, const char *run_dir);
/* The same of a pchrun that does not answer. `is_list`: it is one of several. */
void show_silent(const struct find_silent *silent, bool is_list);
/* Prints one line about the end of an attempt, from that event of the journal. `attempt` is for an
 * attempt without a recorded end: then `event` is NULL. With both 0 it prints the head. */
void show_attempt(const struct json *event, int64_t attempt);
/* Prints a pchrun to choose, on standard error. `answer` NULL: the head of the list. */
void show_choice(const struct json *answer, const char *run_dir);

/* --- offline.c --- */

/* Prints the state of a job by its files. *ret_is_over: the job has ended. False: there is no
 * report, or it cannot be read. */
MUST_CHECK bool offline_show(const struct ctl_options *options, bool *ret_is_over, struct err *err);
/* The same as an answer, in the form of a supervisor's. Free it in either case. */
MUST_CHECK bool offline_answer(const struct ctl_options *options, struct answer *ret,
                               struct err *err);

/* --- lastmetrics.c --- */

/* Prints the metrics of a job whose pchrun does not run, by its files. False: there is no report,
 * or it cannot be read. */
MUST_CHECK bool lastmetrics_print(const struct ctl_options *options, struct err *err);

/* --- ended.c --- */

/* Prints the ends of all attempts, by the journal in this directory, and this report of the last
 * attempt. */
void ended_show(const char *dir, const struct json *report);

/* Where to look for the files of a job: the path that is given, else by the variables of pchrun's
 * options, else the working directory. */
const char *ended_place(const struct ctl_options *options);

/* --- hours.c --- */

/* The values of --since and --exclude; `typed`: the option. False: *err. */
MUST_CHECK bool hours_take_since(struct ctl_options *options, const char *typed, const char *value,
                                 struct err *err);
MUST_CHECK bool hours_take_exclusion(struct ctl_options *options, const char *typed,
                                     const char *value, struct err *err);

/* --- showhours.c --- */

/* Prints where the hours of a job went, from its ledger. False: there is none, or it cannot be
 * read. */
MUST_CHECK bool hours_show(const struct ctl_options *options, struct err *err);

/* --- events.c --- */

/* A line of a journal, without its newline; it may be changed. */
typedef void events_fn(void *ctx, char *line, size_t len);
/* Calls fn for each line of the node's journal in the state directory `dir`, in order. Skips lines
 * that are too long. False: the node has no journal there that can be read. */
bool events_each(const char *dir, int64_t node, events_fn *fn, void *ctx);
/* The same for a journal by the path of its file. */
bool events_of(const char *path, events_fn *fn, void *ctx);

/* --- timeline.c --- */

/* Draws the timeline of a job to the file of --output, or to the standard output. False: there is
 * no ledger, or the file cannot be written. */
MUST_CHECK bool timeline_show(const struct ctl_options *options, struct err *err);
/* Prints the data of the picture as a line of JSON, for a page that draws it: "views" has the whole
 * job, and its last hours if it is older; see timeline_tell(). False: there is no ledger. */
MUST_CHECK bool timeline_print_data(const struct ctl_options *options, struct err *err);

/* --- openfile.c --- */

/* Opens a regular file: a FIFO or a device would be read for ever. The caller closes it. NULL with
 * errno set; EINVAL: it is another kind of file. */
FILE *openfile_text(const char *path);
/* Sets *err: this user may not look for the file, such as a "report", there. Returns false. */
bool openfile_denied(const char *what, const char *place, struct err *err);

/* --- ctl.c --- */

/* Shows a job on the whole screen, for `pchctl top`: a room above this one. */
struct ctl_screen {
    /* False: there is no terminal for it; *err. */
    bool (*is_possible)(struct err *err);
    /* Returns when the user leaves. `dir`: as for talk_open(). */
    bool (*show)(const struct ctl_options *options, const char *dir, struct err *err);
};

struct ctl {
    const struct ctl_options *options;
    const struct ctl_screen *screen;
    struct find_jobs jobs; /* a look is at all of them, any other command asks the first */
};

extern const struct args ctl_args;

/* The whole program; argv ends with NULL. Returns the exit code. */
int ctl_main(char **argv, const struct ctl_screen *screen);
