/* SPDX-License-Identifier: Apache-2.0
 *
 * fd: descriptors with one owner each. -1 means none. Any thread.
 */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Closes *fd if there is one, and sets it to -1. Keeps errno. */
void fd_close(int *fd);
/* Gives *fd to the caller and leaves -1 behind. */
int fd_take(int *fd);

#define FD_CLEANUP __attribute__((cleanup(fd_close)))

/* Opens /dev/null on every closed descriptor of 0..2, so that no later file or socket gets that
 * number. *ret_opened gets the bits (1 << fd) of the descriptors that it opened. */
MUST_CHECK bool fd_fill_standard(unsigned *ret_opened, struct err *err);

/* Replaces by /dev/null the descriptors of 0..2 with their bit (1 << fd) in `which`. They must be
 * open: see fd_fill_standard(). False with errno set: /dev/null cannot be opened. */
bool fd_silence(unsigned which);

/* True if `n` more can be opened. Some libraries end the program if they get no descriptor. */
MUST_CHECK bool fd_probe(int n, struct err *err);

/* How many descriptors this process may have open: the soft limit, and the hard limit. */
int64_t fd_limit(void);
int64_t fd_limit_hard(void);
/* Raises the soft limit to `files`, but not above the hard limit. Call once, from the main
 * thread. */
void fd_limit_raise(int64_t files);
/* In a child before its exec: restores the limit that pchrun inherited, for the commands. */
void fd_limit_restore(void);

/* Marks every open descriptor from `first` on close-on-exec, or closes it, except those of `keep`
 * (n of them, -1 allowed). close_range(2) where there is one, else /proc/self/fd, else a loop. */
enum fd_range_what {
    FD_RANGE_CLOEXEC,
    FD_RANGE_CLOSE,
    FD_RANGE_CLOSE_INHERITED, /* closes only those without close-on-exec: inherited ones */
};
void fd_range(int first, enum fd_range_what what, const int *keep, size_t n);

/* Sets O_NONBLOCK on a descriptor that pchrun opened. Never use it on 0..2: the caller and every
 * rank share their open file descriptions, and so the flag. */
MUST_CHECK bool fd_set_nonblock(int fd, struct err *err);

/* Makes a pipe with close-on-exec: ends[0] to read from, ends[1] to write to. `ours`: the end that
 * pchrun keeps, which is non-blocking. False: neither is open. */
MUST_CHECK bool fd_pipe(int ends[2], int ours, struct err *err);

/* Reads until the end, or `size` bytes, through EINTR and short reads. Returns the number of bytes;
 * -1 with errno set. */
ssize_t fd_read_all(int fd, void *data, size_t size);

/* Reads the first size - 1 bytes of a small file, such as one in /proc, and adds a NUL. Does not
 * wait for the writer of a FIFO. Returns the number of bytes; -1 with errno set, and "" in
 * `text`. */
ssize_t fd_read_text(const char *path, char *text, size_t size);

/* Writes all `len` bytes, through EINTR and short writes. False with errno set. */
MUST_CHECK bool fd_write_all(int fd, const void *data, size_t len);

/* Reads the first line of a small file, and replaces its control characters. False: "" in `line`.
 */
bool fd_read_line(const char *path, char *line, size_t size);

/* Waits until `fd` or `other` (-1: none) can be read or is at its end, and returns that descriptor.
 * -1: the time `until` came first (CLOCK_MONOTONIC; CLOCK_NEVER: no limit). */
int fd_wait(int fd, int other, int64_t until);

/* True if only this machine sees the directory: its file system has no other. May block. */
bool fd_is_local_dir(const char *dir);
