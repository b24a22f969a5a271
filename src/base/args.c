/* SPDX-License-Identifier: Apache-2.0
 * See args.h.
 */
#include "base/args.h"

#include "base/str.h"
#include "base/value.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define WORD_WIDTH 21 /* columns for a word in --help */

char *args_name(const char *name, char text[ARGS_NAME_MAX])
{
    str_copy(text, ARGS_NAME_MAX, name);
    for (char *p = text; *p; p++)
        if (*p == '.' || *p == '_')
            *p = '-';
    return text;
}

bool args_takes(const struct args_word *word, const struct args_row *row)
{
    char name[ARGS_NAME_MAX + 2];
    snprintf(name, sizeof name, " %s ", row->name);
    return !row->is_some || strstr(word->options, name);
}

/* ---- values ---- */

static bool keep_argument(const struct args_row *row, const char *value, const char **ret,
                          struct err *err)
{
    size_t len = strlen(value);
    if (len == 0)
        return err_set(err, ERR_USAGE, 0, "the value is empty");
    if (row->max > 0 && len > (size_t)row->max)
        return err_set(err, ERR_USAGE, 0, "it has more than %" PRId64 " bytes", row->max);
    *ret = value;
    return true;
}

static bool set_field(const struct args_row *row, const char *value, void *field, struct err *err)
{
    switch (row->type) {
    case ARGS_FLAG:
        *(bool *)field = true;
        return true;
    case ARGS_TEXT:
        return keep_argument(row, value, field, err);
    case ARGS_NUMBER:
        return value_number(value, row->min, row->max, field, err);
    case ARGS_TIME:
        return value_duration(value, row->min, row->max, field, err);
    case ARGS_CHOICE:
        return value_choice(value, row->choices, field, err);
    default:
        return true;
    }
}

/* ---- --help ---- */

/* Prints `text` in lines of `right` columns. The left side of the first line is `used` wide. */
static void print_wrapped(const struct args *args, const char *text, int used, FILE *out)
{
    int column = 0;
    if (used >= args->left)
        fprintf(out, "\n");
    fprintf(out, "%*s", used >= args->left ? args->left : args->left - used, "");
    while (*text) {
        int len = (int)strcspn(text, " ");
        if (args->right > 0 && column > 0 && column + 1 + len > args->right) {
            fprintf(out, "\n%*s", args->left, "");
            column = 0;
        }
        fprintf(out, "%s%.*s", column > 0 ? " " : "", len, text);
        column += len + (column > 0);
        text += len + (text[len] == ' ');
    }
    fprintf(out, "\n");
}

/* Appends the words that take the option, such as " (status, stop)". */
static void add_takers(const struct args *args, const struct args_row *row, char *text, size_t size)
{
    const char *before = " (";
    struct args_word word;
    for (size_t i = 0; (word = args->word(i)).name; i++)
        if (args_takes(&word, row)) {
            str_addf(text, size, "%s%s", before, word.name);
            before = ", ";
        }
    str_addf(text, size, ")");
}

static void print_row(const struct args *args, const struct args_row *row, FILE *out)
{
    char left[160] = "  ", right[400], name[ARGS_NAME_MAX];
    if (row->letter)
        str_addf(left, sizeof left, "-%c, ", row->letter);
    str_addf(left, sizeof left, "--%s%s", row->type == ARGS_YES_NO ? "[no-]" : "",
             args_name(row->name, name));
    if (row->metavar)
        str_addf(left, sizeof left, " %s", row->metavar);
    str_copy(right, sizeof right, row->help);
    if (row->also)
        str_addf(right, sizeof right, "; also --%s", row->also);
    if (row->fallback && row->fallback[0])
        str_addf(right, sizeof right, " [%s]", row->fallback);
    if (row->is_some)
        add_takers(args, row, right, sizeof right);
    fprintf(out, "%s", left);
    print_wrapped(args, right, (int)strlen(left), out);
}

static void print_words(const struct args *args, FILE *out)
{
    struct args_word word;
    for (size_t i = 0; args->word && (word = args->word(i)).name; i++) {
        char left[40];
        snprintf(left, sizeof left, "  %s%s%s", word.name, word.path ? " " : "",
                 word.path ? word.path : "");
        fprintf(out, "%-*s%s\n", WORD_WIDTH, left, word.help);
    }
}

static void print_help(const struct args *args, bool is_brief, FILE *out)
{
    struct args_row row;
    fputs(args->head, out);
    print_words(args, out);
    for (size_t i = 0; (row = args->row(i)).name; i++) {
        const char *first = i > 0 ? NULL : is_brief ? "Options used most" : "Options";
        const char *title = args->title && !is_brief ? args->title(i) : first;
        if (title)
            fprintf(out, "\n%s:\n", title);
        if (!is_brief || row.is_usual)
            print_row(args, &row, out);
    }
    fprintf(out, "\n%s", is_brief ? args->brief : args->tail);
}

bool args_flush(FILE *out, struct err *err)
{
    return (fflush(out) == 0 && !ferror(out)) ||
           err_set(err, ERR_SYSTEM, errno, "cannot write to standard output");
}

static bool args_print(const struct args *args, enum args_type what, bool is_brief, FILE *out,
                       struct err *err)
{
    if (what == ARGS_HELP)
        print_help(args, is_brief, out);
    else if (what == ARGS_VERSION)
        fprintf(out, "%s %s\n", args->program, args->version);
    else
        print_words(args, out);
    return args_flush(out, err);
}

/* ---- reading ---- */

struct scan {
    const struct args *args;
    char **next; /* of argv */
    struct args_reading *reading;
    bool has_word;
    uint64_t given; /* a bit for each row that was given */
    bool is_over;   /* the rest of argv is not read */
    bool is_shown;
};

static bool unknown_flag(const struct args *args, const char *typed, struct err *err)
{
    char name[ARGS_NAME_MAX], no[ARGS_NAME_MAX + 3];
    struct nearest nearest = nearest_to(typed);
    struct args_row row;
    const char *here = args->foreign ? args->foreign(args_name(typed, name)) : NULL;
    if (here)
        return err_set(err, ERR_USAGE, 0, "unknown flag --%.80s; %s", typed, here);
    for (size_t i = 0; (row = args->row(i)).name; i++) {
        nearest_consider(&nearest, "--", args_name(row.name, name));
        if (row.also)
            nearest_consider(&nearest, "--", row.also);
        snprintf(no, sizeof no, "no-%s", name);
        if (row.type == ARGS_YES_NO && str_starts(typed, "no-"))
            nearest_consider(&nearest, "--", no);
    }
    if (nearest.name[0])
        return err_set(err, ERR_USAGE, 0, "unknown flag --%.80s; the nearest is %s", typed,
                       nearest.name);
    return err_set(err, ERR_USAGE, 0, "unknown flag --%.80s; %s --help%s lists all flags", typed,
                   args->program, args->brief ? " all" : "");
}

static bool find_letter(const struct args *args, char letter, size_t *ret)
{
    struct args_row row;
    for (*ret = 0; (row = args->row(*ret)).name; ++*ret)
        if (row.letter == letter)
            return true;
    return false;
}

static bool unknown_letter(const struct args *args, char letter, struct err *err)
{
    char all[64] = "";
    size_t i;
    for (int c = '!'; c <= '~'; c++)
        if (find_letter(args, (char)c, &i))
            str_addf(all, sizeof all, " -%c", c);
    return err_set(err, ERR_USAGE, 0, "unknown flag -%c; the short ones are%s", letter, all);
}

static bool find_option(const struct args *args, const char *typed, size_t *ret, bool *ret_is_no)
{
    char name[ARGS_NAME_MAX];
    struct args_row row;
    for (*ret = 0; (row = args->row(*ret)).name; ++*ret) {
        args_name(row.name, name);
        *ret_is_no = row.type == ARGS_YES_NO && str_starts(typed, "no-") && str_is(typed + 3, name);
        if (*ret_is_no || str_is(typed, name) || (row.also && str_is(typed, row.also)))
            return true;
    }
    return false;
}

/* Takes the next argument as the option's value. */
static bool take_next(struct scan *scan, const char *typed, const char *metavar, const char **ret,
                      struct err *err)
{
    *ret = *scan->next;
    if (!*ret)
        return err_set(err, ERR_USAGE, 0, "%s needs a value: %s %s", typed, typed, metavar);
    if (!scan->args->word && (*ret)[0] == '-' && (*ret)[1])
        return err_set(err, ERR_USAGE, 0, "%s needs a value: %s %s; %.60s follows, which is a flag",
                       typed, typed, metavar, *ret);
    scan->next++;
    return true;
}

/* Prints what the row is for. The next argument is its value only if that is one of the row's
 * choices. */
static bool args_show(struct scan *scan, const struct args_row *row, const char *typed,
                      const char *value, struct err *err)
{
    int choice;
    const char *word = value ? value : *scan->next;
    bool is_choice = row->choices && word && value_choice(word, row->choices, &choice, err);
    if (row->choices && value && !is_choice)
        return err_wrap(err, "%s", typed);
    if (is_choice)
        value = word;
    scan->is_over = scan->is_shown = true;
    return args_print(scan->args, row->type, scan->args->brief && !value, scan->reading->out, err);
}

/* `value`: the text that is joined to the option, as in --n=4 or -n4; NULL: none. */
static bool take_option(struct scan *scan, size_t i, const char *typed, const char *value,
                        struct err *err)
{
    struct args_row row = scan->args->row(i);
    scan->given |= UINT64_C(1) << (i & 63);
    scan->is_over = row.is_last;
    if (value && !row.metavar && row.type != ARGS_YES_NO)
        return err_set(err, ERR_USAGE, 0, "%s takes no value", typed);
    if (row.type <= ARGS_LIST)
        return args_show(scan, &row, typed, value, err);
    if (row.metavar && !value && !take_next(scan, typed, row.metavar, &value, err))
        return false;
    if (row.type >= ARGS_TAKE)
        return scan->args->take(scan->reading->options, i, typed, value, err);
    return set_field(&row, value, (char *)scan->reading->options + row.offset, err) ||
           err_wrap(err, "%s", typed);
}

/* "--x", "--no-x", "--x value" or "--x=value" */
static bool long_option(struct scan *scan, const char *arg, struct err *err)
{
    char typed[ARGS_NAME_MAX + 4];
    bool is_no;
    size_t i, len = strcspn(arg, "=");
    const char *value = arg[len] ? arg + len + 1 : NULL;
    snprintf(typed, sizeof typed, "%.*s", (int)len, arg);
    if (!find_option(scan->args, typed + 2, &i, &is_no))
        return unknown_flag(scan->args, typed + 2, err);
    if (is_no && value)
        return err_set(err, ERR_USAGE, 0, "%s takes no value", typed);
    if (scan->args->row(i).type == ARGS_YES_NO && !value)
        value = is_no ? "false" : "true";
    return take_option(scan, i, typed, value, err);
}

/* "-v", "-vg", "-n4" or "-n 4" */
static bool short_options(struct scan *scan, const char *arg, struct err *err)
{
    size_t i;
    for (const char *p = arg + 1; *p && !scan->is_over; p++) {
        char typed[] = {'-', *p, '\0'};
        if (!find_letter(scan->args, *p, &i))
            return unknown_letter(scan->args, *p, err);
        struct args_row row = scan->args->row(i);
        const char *value = row.type == ARGS_YES_NO ? "true" : row.metavar && p[1] ? p + 1 : NULL;
        if (!take_option(scan, i, typed, value, err))
            return false;
        if (row.metavar)
            return true;
    }
    return true;
}

static bool find_word(const struct args *args, const char *typed, size_t *ret, struct err *err)
{
    struct nearest nearest = nearest_to(typed);
    struct args_word word;
    for (*ret = 0; (word = args->word(*ret)).name; ++*ret) {
        if (str_is(word.name, typed))
            return true;
        nearest_consider(&nearest, "", word.name);
    }
    if (nearest.name[0])
        return err_set(err, ERR_USAGE, 0, "unknown %s \"%.80s\"; the nearest is \"%s\"",
                       args->word_kind, typed, nearest.name);
    return err_set(err, ERR_USAGE, 0, "unknown %s \"%.80s\"; %s --help lists all", args->word_kind,
                   typed, args->program);
}

static bool too_many(const struct args *args, const char *arg, struct err *err)
{
    return err_set(err, ERR_USAGE, 0, "\"%.80s\" is one argument too many%s%s", arg,
                   args->too_many ? "; " : "", args->too_many ? args->too_many : "");
}

static bool take_plain(struct scan *scan, const char *arg, struct err *err)
{
    struct args_reading *reading = scan->reading;
    if (!scan->has_word) {
        scan->has_word = true;
        return find_word(scan->args, arg, &reading->word, err);
    }
    if (!scan->args->word(reading->word).path || reading->path)
        return too_many(scan->args, arg, err);
    reading->path = arg;
    return *arg || err_set(err, ERR_USAGE, 0, "the path is empty");
}

/* After all arguments are read: refuses options that the word does not take. */
static bool check_word(const struct scan *scan, struct err *err)
{
    const struct args *args = scan->args;
    if (!scan->has_word)
        return err_set(err, ERR_USAGE, 0, "which %s? %s --help lists all", args->word_kind,
                       args->program);
    struct args_word word = args->word(scan->reading->word);
    if (word.path && word.path[0] != '[' && !scan->reading->path)
        return err_set(err, ERR_USAGE, 0, "%s needs its %s", word.name, word.path);
    struct args_row row;
    for (size_t i = 0; (row = args->row(i)).name; i++)
        if ((scan->given & UINT64_C(1) << i) && !args_takes(&word, &row))
            return err_set(err, ERR_USAGE, 0, "%s takes no --%s", word.name, row.name);
    return true;
}

static bool scan_arguments(struct scan *scan, struct err *err)
{
    bool are_words = false;
    while (!scan->is_over && *scan->next) {
        const char *arg = *scan->next;
        bool is_word = are_words || arg[0] != '-' || !arg[1], is_end = str_is(arg, "--");
        if (is_word && scan->args->is_alone)
            return too_many(scan->args, arg, err);
        if (is_word && !scan->args->word)
            return true;
        scan->next++;
        if (!is_word && is_end)
            are_words = true;
        else if (!(is_word         ? take_plain
                   : arg[1] == '-' ? long_option
                                   : short_options)(scan, arg, err))
            return false;
    }
    return scan->is_over || !scan->args->word || check_word(scan, err);
}

enum args_end args_read(const struct args *args, char **argv, struct args_reading *reading,
                        struct err *err)
{
    struct scan scan = {.args = args, .next = argv + (*argv != NULL), .reading = reading};
    if (!scan_arguments(&scan, err))
        return ARGS_BAD;
    reading->command = scan.next;
    return scan.is_shown ? ARGS_SHOWN : ARGS_RUN;
}
