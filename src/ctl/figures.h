/* SPDX-License-Identifier: Apache-2.0
 *
 * figures: the figures of a rank or a node, as short texts for a table; "-": unknown. All members
 * of an answer may be missing. Each returns text. Pure; any thread.
 */
#pragma once

#include "json/json.h"

enum { FIGURES_SIZE = 48 };

/* "2.03 s"; `is_least`: ">1 s". Below 0: unknown. */
char *figures_seconds(double seconds, bool is_least, char text[FIGURES_SIZE]);
/* Steps per second: "10.4". 0: unknown. */
char *figures_pace(double pace, char text[FIGURES_SIZE]);
/* The attached ranks of a node, and those that are expected: "3/4", "3/?". */
char *figures_ranks(const struct json *node, char text[FIGURES_SIZE]);
