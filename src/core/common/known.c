/* SPDX-License-Identifier: Apache-2.0
 * See known.h.
 *
 * To add a failure: a row of `known`. It must not be one that a restart may cure, such as a file
 * that is missing for a moment, or a name that an error path left undefined.
 */
#include "core/common/known.h"

#include "base/str.h"

#include <string.h>

/* A wrong argument, by the convention of C and of Python's argparse. Python also exits with this
 * code if its script is missing. */
#define USAGE_CODE 2

enum by {
    BY_EXCEPTION, /* the class of the exception that ended the program, without its module */
    BY_MESSAGE,   /* a part of the exception's message; without an exception, of all the text */
};

static const struct known {
    enum by by;
    const char *text;
} known[] = {
    /* Python */
    {BY_EXCEPTION, "ModuleNotFoundError"},
    {BY_EXCEPTION, "ImportError"},
    {BY_EXCEPTION, "SyntaxError"},
    {BY_EXCEPTION, "IndentationError"},
    {BY_EXCEPTION, "TabError"},
    /* the dynamic linker */
    {BY_MESSAGE, "error while loading shared libraries"},
    {BY_MESSAGE, "symbol lookup error"},
    /* CUDA, and PyTorch without it */
    {BY_MESSAGE, "no kernel image is available for execution on the device"},
    {BY_MESSAGE, "CUDA driver version is insufficient"},
    {BY_MESSAGE, "The NVIDIA driver on your system is too old"},
    {BY_MESSAGE, "invalid device ordinal"},
    {BY_MESSAGE, "Torch not compiled with CUDA enabled"},
    /* configurations: Lightning, pydantic and OmegaConf, Hydra, DeepSpeed, absl */
    {BY_EXCEPTION, "MisconfigurationException"},
    {BY_EXCEPTION, "ValidationError"},
    {BY_EXCEPTION, "ConfigAttributeError"},
    {BY_EXCEPTION, "ConfigKeyError"},
    {BY_EXCEPTION, "ConfigTypeError"},
    {BY_EXCEPTION, "MissingMandatoryValue"},
    {BY_EXCEPTION, "InterpolationKeyError"},
    {BY_EXCEPTION, "InterpolationResolutionError"},
    {BY_EXCEPTION, "UnsupportedInterpolationType"},
    {BY_EXCEPTION, "MissingConfigException"},
    {BY_EXCEPTION, "ConfigCompositionException"},
    {BY_EXCEPTION, "OverrideParseException"},
    {BY_EXCEPTION, "DeepSpeedConfigError"},
    {BY_MESSAGE, "FATAL Flags parsing error"},
    /* Hugging Face */
    {BY_EXCEPTION, "HFValidationError"},
    {BY_MESSAGE, "is not a local folder and is not a valid model identifier"},
    {BY_MESSAGE, "You are trying to access a gated repo"},
    {BY_MESSAGE, "are not used by the HfArgumentParser"},
};

#define NAME_LETTERS STR_LETTERS STR_DIGITS "_."

/* The length of the exception's name at the beginning of the text, "omegaconf.errors.SomeError: …";
 * 0: there is none. The class begins with a capital letter. */
static size_t name_at(const char *text)
{
    size_t len = strspn(text, NAME_LETTERS), begin = len;
    bool ends = !text[len] || strchr(":\r\n", text[len]) || str_starts(text + len, " (");
    while (begin > 0 && text[begin - 1] != '.')
        begin--;
    return ends && text[begin] >= 'A' && text[begin] <= 'Z' ? len : 0;
}

/* "process 7 ended with exit code 1: ImportError: …"; NULL: no exception is named. */
static const char *exception_in(const char *text)
{
    while (text && name_at(text) == 0) {
        text = strstr(text, ": ");
        text = text ? text + 2 : NULL;
    }
    return text;
}

/* Python prints the exception below the indented lines of its traceback. Programs log exceptions
 * that they have caught, so the last one counts. */
static const char *last_traceback_in(const char *tail)
{
    const char *last = NULL, *line = tail, *next;
    for (bool is_below = false; line; line = next) {
        if (is_below && name_at(line) > 0)
            last = line;
        is_below = *line == ' ';
        next = strchr(line, '\n');
        next = next ? next + 1 : NULL;
    }
    return last;
}

static bool is_row(const struct known *row, const char *text, size_t name)
{
    size_t len = strlen(row->text);
    if (row->by == BY_MESSAGE)
        return strstr(text, row->text);
    return name >= len && strncmp(text + name - len, row->text, len) == 0 &&
           (name == len || text[name - len - 1] == '.');
}

/* `name`: the length of the exception's name, 0: the text begins with none. */
static const struct known *row_of(const char *text, size_t name)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (is_row(&known[i], text, name))
            return &known[i];
    return NULL;
}

/* A text that the program gave counts before its output. */
static const struct known *known_find(const struct peer_cause *cause)
{
    const char *said = exception_in(cause->text), *printed = last_traceback_in(cause->tail);
    if (said)
        return row_of(said, name_at(said));
    const struct known *row = row_of(cause->text, 0);
    if (row)
        return row;
    return printed ? row_of(printed, name_at(printed)) : row_of(cause->tail, 0);
}

void known_repeats(const struct peer_cause *cause, bool has_attached, char *what, size_t size)
{
    what[0] = '\0';
    /* A signal may have ended the program for any reason, whatever it has printed before. */
    if (cause->fault != FAULT_EXIT && cause->fault != FAULT_SILENT)
        return;
    const struct known *row = known_find(cause);
    if (row)
        str_addf(what, size, row->by == BY_MESSAGE ? "\"%s\"" : "%s", row->text);
    else if (cause->fault == FAULT_EXIT && cause->code == USAGE_CODE && !has_attached)
        str_addf(what, size, "exit code %d before any process had attached, a wrong argument,",
                 USAGE_CODE);
}
