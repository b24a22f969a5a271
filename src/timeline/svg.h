/* SPDX-License-Identifier: Apache-2.0
 *
 * svg: texts of a picture, whatever bytes they have, and how wide they are. For this room alone.
 *
 * A text from a job is hostile: it may have markup, control characters or broken UTF-8. The
 * output is always well-formed XML. Owns nothing. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

enum svg_side { SVG_START, SVG_MIDDLE, SVG_END };

struct svg_at {
    double x, y;
    enum svg_side side; /* the part of the text that is at x */
};

/* Writes the characters of a text. U+FFFD stands for bytes that are not UTF-8, '?' for a control
 * character, and for one that changes the direction of the text. */
void svg_escape(FILE *out, const char *text);
/* A <text>. `class` may be "". */
void svg_text(FILE *out, const char *class, struct svg_at at, const char *text);
/* A <title>: what a mouse shows. */
void svg_title(FILE *out, const char *text);
/* A coordinate as it is printed: a hundredth of a pixel. */
double svg_round(double x);

/* The width of a text in a wide font, so at most that in most fonts. */
double svg_width(const char *text, double size);
/* Cuts the text to this width, with "..." at its end. `text` has `room` bytes. */
void svg_fit(char *text, size_t room, double size, double width);
