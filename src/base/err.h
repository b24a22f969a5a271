/* SPDX-License-Identifier: Apache-2.0
 *
 * err: an error as a value.
 *
 * A function that can fail takes a `struct err *` last, returns false (or NULL, or -1) and fills it
 * in. The text says what failed, on which object, why, and what to do. The value has a fixed size
 * and owns nothing. So it can be copied, written raw to a helper's socket, and filled in when
 * memory has run out. Any thread.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>

#define MUST_CHECK        __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

/* The kind of failure; the exit code follows from it (verdict.h). */
enum err_code {
    ERR_NONE,
    ERR_USAGE,     /* command line or configuration: the user can correct it */
    ERR_SYSTEM,    /* a system call failed */
    ERR_NOT_FOUND, /* the command does not exist */
    ERR_NOT_EXEC,  /* the command exists and cannot be executed */
    ERR_PROTOCOL,  /* a peer or a process sent what it must not */
    ERR_TAKEN,     /* another supervisor has this lock or rank */
    ERR_REPLACED,  /* a later attempt has taken over this job */
    ERR_PEER,      /* a peer refused this node, or is missing */
    ERR__COUNT
};

struct err {
    int code;      /* enum err_code */
    int sys_errno; /* 0: no system call was involved */
    char text[500];
};

/* Fills *err in and returns false, for `return err_set(...)`. A sys_errno other than 0 adds ": "
 * and its text, and for EMFILE the advice. `err` may be NULL. */
bool err_set(struct err *err, enum err_code code, int sys_errno, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* Puts "what: " before the text, keeps the code, returns false. */
bool err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);
