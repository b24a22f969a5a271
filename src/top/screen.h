/* SPDX-License-Identifier: Apache-2.0
 *
 * screen: a terminal, used through ncurses: draws cells, reads keys. While it is open, the signals
 * that would end or stop pchctl are read as keys are, so that the terminal is always left as it
 * was. SIGKILL alone leaves it. There is one screen. Owns the terminal's modes, the signal mask and
 * one descriptor. Main thread.
 */
#pragma once

#include "top/view/cells.h"

enum screen_news {
    SCREEN_NOTHING, /* the time came, or a descriptor of the caller can be read */
    SCREEN_KEY,     /* *ret_key: a view_key of view.h, or a character */
    SCREEN_RESIZED, /* also after a stop: all is to be drawn again */
    SCREEN_GONE,    /* the terminal hangs up, or a signal asks pchctl to end */
};

/* Whether standard input and output are a terminal that can show a screen. Changes nothing. */
MUST_CHECK bool screen_is_possible(struct err *err);
/* False: *err; the terminal is as before. */
MUST_CHECK bool screen_open(struct err *err);
/* Gives the terminal back as it was. If a signal has asked pchctl to end, it ends here by that
 * signal. */
void screen_close(void);

void screen_size(int *ret_rows, int *ret_cols);
void screen_draw(const struct cells *cells);
/* Waits for a key, a signal, or until `until` (CLOCK_MONOTONIC), or until one of these two
 * descriptors (-1: none) can be read. */
enum screen_news screen_wait(int fd, int other, int64_t until, uint32_t *ret_key);
