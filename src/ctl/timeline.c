/* SPDX-License-Identifier: Apache-2.0
 * See ctl.h. The timeline of a job as a file: from its ledger and its journals, by the room
 * timeline. The file is replaced as a whole, or not at all.
 */
#include "base/fd.h"
#include "base/str.h"
#include "ctl/hours.h"
#include "json/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct timeline timeline_of(const struct hours *hours, const struct moments *moments)
{
    return (struct timeline){.of = &hours->of,
                             .moments = moments->list,
                             .nmoments = moments->n,
                             .notes = moments->notes,
                             .nnotes = moments->nnotes};
}

/* The picture as a text; the caller frees it. NULL: *err. */
static char *compose(const struct hours *hours, const struct moments *moments, size_t *ret_len,
                     struct err *err)
{
    char *text = NULL;
    const char *reasons[CTL_EXCLUSIONS_MAX];
    const struct ctl_options *options = hours->options;
    struct timeline timeline = timeline_of(hours, moments);
    for (int i = 0; i < options->nexclusions; i++)
        reasons[i] = options->exclusions[i].reason;
    timeline.reasons = reasons;
    timeline.nreasons = options->nexclusions;
    FILE *out = open_memstream(&text, ret_len);
    bool ok = out && timeline_draw(&timeline, out);
    ok = out && fclose(out) == 0 && ok;
    if (ok)
        return text;
    free(text);
    err_set(err, ERR_SYSTEM, ENOMEM, "cannot draw the timeline of %s", hours->path);
    return NULL;
}

/* A new file gets the mode that the user's umask gives; an old one keeps its mode. */
static mode_t mode_of(const char *path)
{
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    return stat(path, &st) == 0 ? st.st_mode & 07777 : 0666 & ~mask;
}

static bool write_temporary(int fd, const char *path, const char *text, size_t len)
{
    return fd >= 0 && fd_write_all(fd, text, len) && fchmod(fd, mode_of(path)) == 0 &&
           fsync(fd) == 0;
}

/* A device or a pipe would be replaced by a file. */
static bool may_be_replaced(const char *path, struct err *err)
{
    struct stat st;
    return stat(path, &st) != 0 || S_ISREG(st.st_mode) ||
           err_set(err, ERR_USAGE, 0,
                   "%s is not a regular file; without --output the picture goes "
                   "to the standard output",
                   path);
}

/* Follows a symbolic link, so that the link stays. */
static bool write_file(const char *given, const char *text, size_t len, struct err *err)
{
    char path[PATH_MAX], temporary[PATH_MAX + 16];
    if (!may_be_replaced(given, err))
        return false;
    if (!realpath(given, path) && !str_copy(path, sizeof path, given))
        return err_set(err, ERR_USAGE, ENAMETOOLONG, "cannot write the picture to %s", given);
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    FD_CLEANUP int fd = mkostemp(temporary, O_CLOEXEC);
    bool ok = write_temporary(fd, path, text, len) && rename(temporary, path) == 0;
    int fault = errno;
    if (!ok && fd >= 0)
        unlink(temporary);
    return ok || err_set(err, ERR_SYSTEM, fault, "cannot write the picture to %s", given);
}

bool timeline_show(const struct ctl_options *options, struct err *err)
{
    static struct hours hours;
    struct moments moments = {.n = 0};
    char *text = NULL;
    size_t len = 0;
    bool has_file = options->output && !str_is(options->output, "-");
    if (!options->output && isatty(STDOUT_FILENO))
        return err_set(err, ERR_USAGE, 0,
                       "the picture is a file for a browser: give it a name by -o FILE.svg (-o - "
                       "prints it)");
    bool ok = hours_read(options, &hours, err) &&
              (hours.of.nspans > 0 || err_set(err, ERR_USAGE, 0,
                                              "job %s: nothing has happened since "
                                              "then, so there is no picture",
                                              hours.of.job)) &&
              moments_read(&hours, &moments, err) &&
              (text = compose(&hours, &moments, &len, err)) &&
              (!has_file || write_file(options->output, text, len, err));
    if (ok && !has_file)
        fwrite(text, 1, len, stdout);
    free(text);
    moments_free(&moments);
    hours_free(&hours);
    return ok;
}

/* --- the data of the picture --- */

enum { DATA_MAX = 4 * 1024 * 1024 };

/* 0: the whole job. */
static const int view_hours[] = {0, 24, 6, 1};

/* False: the job is not older than that. */
static bool cut_view(struct goodput *g, int hours)
{
    const struct goodput_span *last = &g->spans[g->nspans - 1];
    int64_t from_ms = last->at_ms + last->ms - hours * INT64_C(3600) * 1000;
    if (hours == 0)
        return true;
    bool is_older = g->spans[0].at_ms < from_ms;
    if (is_older)
        goodput_since(g, from_ms);
    return is_older && g->nspans > 0;
}

/* From the longest view to the shortest, since each cuts off what the next one lacks, too. */
static bool tell_views(struct hours *hours, const struct moments *moments, struct writer *w)
{
    bool ok = true;
    const struct timeline timeline = timeline_of(hours, moments);
    writer_list(w, "views");
    for (size_t i = 0; ok && i < ARRAY_LEN(view_hours); i++) {
        if (hours->of.nspans == 0 || !cut_view(&hours->of, view_hours[i]))
            continue;
        writer_object(w, NULL);
        writer_int(w, "hours", view_hours[i]);
        ok = timeline_tell(&timeline, w);
        writer_end(w);
    }
    writer_end(w);
    return ok;
}

static void tell_notes(const struct hours *hours, const struct moments *moments, struct writer *w)
{
    struct goodput_notes notes = goodput_find_notes(&hours->of);
    writer_list(w, "notes");
    for (int i = 0; i < notes.n; i++)
        writer_text(w, NULL, notes.text[i]);
    for (int i = 0; i < moments->nnotes; i++)
        writer_text(w, NULL, moments->notes[i]);
    writer_end(w);
}

static bool print_data(struct hours *hours, const struct moments *moments, struct err *err)
{
    struct writer w;
    writer_init(&w, DATA_MAX, WRITER_LINE);
    writer_object(&w, NULL);
    writer_bool(&w, "running", hours->of.is_running);
    timeline_tell_looks(&w, "kinds");
    tell_notes(hours, moments, &w);
    bool ok = tell_views(hours, moments, &w);
    writer_end(&w);
    const char *text = ok ? writer_done(&w, NULL) : NULL;
    if (text)
        fputs(text, stdout);
    writer_free(&w);
    return text || err_set(err, ERR_SYSTEM, ENOMEM, "cannot draw the timeline of %s", hours->path);
}

bool timeline_print_data(const struct ctl_options *options, struct err *err)
{
    static struct hours hours;
    struct moments moments = {.n = 0};
    bool ok = hours_read(options, &hours, err) && moments_read(&hours, &moments, err) &&
              print_data(&hours, &moments, err);
    moments_free(&moments);
    hours_free(&hours);
    return ok;
}
