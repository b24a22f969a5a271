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
 * number. *ret_opened gets the bits (1 << fd) of those it opened. */
MUST_CHECK bool fd_fill_standard(unsigned *ret_opened, struct err *err);

/* Puts /dev/null in place of the descriptors of 0..2 whose bits (1 << fd) are set. These must be
 * open: see fd_fill_standard(). False with errno set: it cannot be opened. */
bool fd_silence(unsigned which);

/* Are `n` more descriptors available? For libraries that end the program if not. */
MUST_CHECK bool fd_probe(int n, struct err *err);

/* How many descriptors we may have open: the soft limit, and the hard one. */
int64_t fd_limit(void);
int64_t fd_limit_hard(void);
/* Raises the soft limit to `files`, or as far as the hard one allows. Call once, from the main
 * thread. */
void fd_limit_raise(int64_t files);
/* In a child before its exec: the commands get the limit that we have inherited. */
void fd_limit_restore(void);

/* Marks every open descriptor from `first` on close-on-exec, or closes it, except those of `keep`
 * (n of them, -1 allowed). close_range(2) where there is one, else /proc/self/fd, else a loop. */
enum fd_range_what {
    FD_RANGE_CLOEXEC,
    FD_RANGE_CLOSE,
    FD_RANGE_CLOSE_INHERITED, /* only those that exec leaves open: our own are close-on-exec */
};
void fd_range(int first, enum fd_range_what what, const int *keep, size_t n);

/* O_NONBLOCK on a descriptor of ours. Never use it on 0..2: the flag lives in the open file
 * description, which the caller and every rank share. */
MUST_CHECK bool fd_set_nonblock(int fd, struct err *err);

/* Reads until the end, or `size` bytes, through EINTR and short reads. Returns the number of bytes;
 * -1 with errno set. */
ssize_t fd_read_all(int fd, void *data, size_t size);

/* Reads a small file, such as the kernel's, and ends it with a NUL: at most size - 1 bytes, the
 * first ones. Does not wait for the writer of a FIFO. Returns the number of bytes; -1 with errno
 * set, and "" in `text`. */
ssize_t fd_read_text(const char *path, char *text, size_t size);

/* Writes all of it, through EINTR and short writes. False with errno set. */
MUST_CHECK bool fd_write_all(int fd, const void *data, size_t len);

/* Reads the first line of a small file, and replaces its control characters. False: "" in `line`.
 */
bool fd_read_line(const char *path, char *line, size_t size);

/* Waits until `fd` or `other` (-1: none) can be read or is at its end. Returns that descriptor; -1:
 * `until` (CLOCK_MONOTONIC; CLOCK_NEVER) has come before. */
int fd_wait(int fd, int other, int64_t until);
