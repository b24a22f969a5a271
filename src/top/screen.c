/* SPDX-License-Identifier: Apache-2.0
 * See screen.h.
 */
#include "top/screen.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "top/view/view.h"

#include <curses.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <term.h>
#include <unistd.h>

/* A key that sends several characters, beginning with Escape, sends them within this time. */
enum { ESCAPE_MS = 50 };

static struct {
    SCREEN *terminal;
    sigset_t mask_before;
    int signals; /* a signalfd; -1: none */
    int ended_by;
    attr_t styles[STYLE__COUNT];
    short pairs[STYLE__COUNT];
} screen = {.signals = -1};

static const int signals_taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};

/* --- opening --- */

bool screen_is_possible(struct err *err)
{
    static const char advice[] = "; use pchctl status --watch, which needs no screen";
    const char *term = getenv("TERM");
    int why;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return err_set(err, ERR_USAGE, 0, "top needs a terminal as standard input and output%s",
                       advice);
    if (!term || !*term)
        return err_set(err, ERR_USAGE, 0, "top needs to know the terminal, and TERM is not set%s",
                       advice);
    if (setupterm(NULL, STDOUT_FILENO, &why) != OK)
        return err_set(err, ERR_USAGE, 0, "top does not know the terminal TERM=%.60s%s", term,
                       advice);
    bool can = cursor_address && clear_screen;
    del_curterm(cur_term);
    return can || err_set(err, ERR_USAGE, 0, "the terminal TERM=%.60s cannot show a screen%s", term,
                          advice);
}

static void screen_take_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(signals_taken); i++)
        sigaddset(&set, signals_taken[i]);
    sigprocmask(SIG_BLOCK, &set, &screen.mask_before);
    screen.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Colours only mark what the text says, too. NO_COLOR (no-color.org) turns them off. */
static void screen_choose_styles(void)
{
    static const short colors[STYLE__COUNT] = {
        [STYLE_GOOD] = COLOR_GREEN, [STYLE_WARN] = COLOR_YELLOW, [STYLE_BAD] = COLOR_RED};
    const char *no_color = getenv("NO_COLOR");
    bool has_colors_here = !(no_color && *no_color) && has_colors() && start_color() == OK &&
                           use_default_colors() == OK;
    screen.styles[STYLE_BOLD] = A_BOLD;
    screen.styles[STYLE_DIM] = A_DIM;
    screen.styles[STYLE_BAR] = A_REVERSE;
    screen.styles[STYLE_TITLE] = A_UNDERLINE;
    screen.styles[STYLE_WARN] = screen.styles[STYLE_BAD] = A_BOLD;
    for (short i = 0; i < STYLE__COUNT && has_colors_here; i++)
        if (colors[i] && init_pair(i, colors[i], -1) == OK)
            screen.pairs[i] = i;
}

/* ncurses asks the terminal; its own signal handler is not used. */
static void screen_take_size(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        resizeterm(size.ws_row, size.ws_col);
}

bool screen_open(struct err *err)
{
    screen_take_signals();
    if (screen.signals >= 0)
        screen.terminal = newterm(NULL, stdout, stdin);
    if (!screen.terminal) {
        err_set(err, ERR_SYSTEM, errno, "cannot use the terminal");
        screen_close();
        return false;
    }
    set_escdelay(ESCAPE_MS);
    cbreak();
    noecho();
    nonl();
    curs_set(0);
    keypad(stdscr, true);
    nodelay(stdscr, true);
    screen_choose_styles();
    screen_take_size();
    return true;
}

void screen_close(void)
{
    if (screen.terminal) {
        endwin();
        delscreen(screen.terminal);
        screen.terminal = NULL;
    }
    if (screen.ended_by) {
        signal(screen.ended_by, SIG_DFL);
        raise(screen.ended_by);
    }
    fd_close(&screen.signals);
    sigprocmask(SIG_SETMASK, &screen.mask_before, NULL);
}

/* --- drawing --- */

void screen_size(int *ret_rows, int *ret_cols)
{
    getmaxyx(stdscr, *ret_rows, *ret_cols);
}

static void screen_draw_row(const struct cells *cells, int row)
{
    for (int col = 0; col < cells->cols; col++) {
        const struct cell *cell = cells_at(cells, row, col);
        const wchar_t text[] = {cell->ch, 0};
        cchar_t ch;
        if (cell->ch &&
            setcchar(&ch, text, screen.styles[cell->style], screen.pairs[cell->style], NULL) == OK)
            mvwadd_wch(stdscr, row, col, &ch);
    }
}

/* ncurses sends only what has changed. */
void screen_draw(const struct cells *cells)
{
    for (int row = 0; row < cells->rows; row++)
        screen_draw_row(cells, row);
    refresh();
}

/* --- waiting --- */

/* As a shell's user expects: the terminal is as it was while pchctl is stopped. */
static void screen_stop(void)
{
    sigset_t stop, before;
    endwin();
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    signal(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);
    /* cppcheck-suppress unreachableCode ; the signal is blocked until here */
    sigprocmask(SIG_UNBLOCK, &stop, &before); /* it stops here, and goes on here */
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Draws all anew: a shell has used the terminal, or the terminal has moved its lines. */
static enum screen_news screen_begin_anew(void)
{
    reset_prog_mode(); /* a shell sets modes of its own */
    clearok(stdscr, true);
    screen_take_size();
    return SCREEN_RESIZED;
}

static enum screen_news screen_take_signal(void)
{
    struct signalfd_siginfo info;
    if (read(screen.signals, &info, sizeof info) != sizeof info)
        return SCREEN_NOTHING;
    switch (info.ssi_signo) {
    case SIGTSTP:
        screen_stop();
        return SCREEN_RESIZED;
    case SIGCONT:
    case SIGWINCH:
        return screen_begin_anew();
    default:
        screen.ended_by = (int)info.ssi_signo;
        return SCREEN_GONE;
    }
}

static uint32_t screen_translate(wint_t key)
{
    static const struct {
        wint_t key;
        enum view_key to;
    } keys[] = {
        {KEY_UP, VIEW_KEY_UP},         {KEY_DOWN, VIEW_KEY_DOWN},
        {KEY_PPAGE, VIEW_KEY_PAGE_UP}, {KEY_NPAGE, VIEW_KEY_PAGE_DOWN},
        {KEY_HOME, VIEW_KEY_HOME},     {KEY_END, VIEW_KEY_END},
        {KEY_ENTER, VIEW_KEY_ENTER},   {KEY_BACKSPACE, VIEW_KEY_BACKSPACE},
    };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (keys[i].key == key)
            return keys[i].to;
    return VIEW_KEY_NONE;
}

static enum screen_news screen_take_key(uint32_t *ret_key)
{
    wint_t key;
    int kind = wget_wch(stdscr, &key);
    if (kind == ERR)
        return SCREEN_NOTHING;
    if (kind == KEY_CODE_YES)
        *ret_key = screen_translate(key);
    else
        *ret_key = key == '\r' || key == '\n' ? VIEW_KEY_ENTER
                   : key == 0x1b              ? VIEW_KEY_ESCAPE
                                              : (uint32_t)key;
    return SCREEN_KEY;
}

enum screen_news screen_wait(int fd, int other, int64_t until, uint32_t *ret_key)
{
    enum { KEYS, SIGNALS, FIRST, SECOND };
    struct pollfd polled[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                              {.fd = screen.signals, .events = POLLIN},
                              {.fd = fd, .events = POLLIN},
                              {.fd = other, .events = POLLIN}};
    enum screen_news news = screen_take_key(ret_key); /* ncurses may have read ahead */
    int64_t left = until - clock_now_ns();
    struct timespec wait = {.tv_sec = left / NS_PER_S, .tv_nsec = left % NS_PER_S};
    if (left <= 0)
        wait = (struct timespec){0};
    if (news == SCREEN_KEY || ppoll(polled, ARRAY_LEN(polled), &wait, NULL) <= 0)
        return news;
    if (polled[SIGNALS].revents)
        return screen_take_signal();
    if (!polled[KEYS].revents)
        return SCREEN_NOTHING;
    news = screen_take_key(ret_key);
    bool is_gone = polled[KEYS].revents & (POLLHUP | POLLERR | POLLNVAL);
    return news != SCREEN_KEY && is_gone ? SCREEN_GONE : news;
}
