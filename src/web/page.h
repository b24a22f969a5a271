/* SPDX-License-Identifier: Apache-2.0
 *
 * page: the files of the page, compiled in by page/embed.py. Constant; any thread.
 */
#pragma once

#include <stddef.h>

struct page_file {
    const char *path, *type; /* "/app.css", and its media type; path NULL: no more files */
    const unsigned char *data;
    size_t size;
};
extern const struct page_file page_files[];
