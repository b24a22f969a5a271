/* SPDX-License-Identifier: Apache-2.0
 *
 * view: what the user of `pchctl top` has chosen to see: a table, its order, a filter, a place to
 * scroll to. Keys change it; it is drawn together with a picture of the job. Owns its rows. One
 * thread at a time.
 */
#pragma once

#include "top/view/cells.h"
#include "top/view/head.h"
#include "top/view/rows.h"

enum { VIEW_FILTER_MAX = 64 };

/* Keys that are no character; a character's key is its code. */
enum view_key {
    VIEW_KEY_NONE = 0x110000,
    VIEW_KEY_UP,
    VIEW_KEY_DOWN,
    VIEW_KEY_PAGE_UP,
    VIEW_KEY_PAGE_DOWN,
    VIEW_KEY_HOME,
    VIEW_KEY_END,
    VIEW_KEY_ENTER,
    VIEW_KEY_ESCAPE,
    VIEW_KEY_BACKSPACE,
};

/* Begins as all zeros. */
struct view {
    enum table table;
    int order[TABLE__COUNT];
    int at[TABLE__COUNT]; /* the first row on the screen */
    int help_at;
    char filter[VIEW_FILTER_MAX];
    bool is_typing; /* the filter */
    bool is_helping;
    bool is_paused; /* the owner keeps the picture as it is */
    int page;       /* lines for rows in the last drawing */
    uint64_t paused_events;
    struct gist gist;
    struct rows rows;
    bool has_gist, has_rows; /* they are of this picture, and of this table */
};

/* The picture has changed. */
void view_renew(struct view *view);
/* A key was pressed. Returns false if the user wants to leave. */
bool view_press(struct view *view, const struct picture *picture, uint32_t key);
/* Fills `cells`, whose size is set. False: no memory. */
MUST_CHECK bool view_draw(struct view *view, const struct picture *picture, struct cells *cells,
                          struct err *err);
void view_free(struct view *view);
