/* SPDX-License-Identifier: Apache-2.0
 * See svg.h.
 */
#include "timeline/svg.h"

#include "base/str.h"

#include <stdint.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
#define DOTS        "..."

/* The text in place of the character; NULL: the character itself. */
static const char *instead_of(uint32_t code)
{
    switch (code) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\t':
    case '\n':
    case '\r':
        return " ";
    case 0xfffe: /* XML has no such characters */
    case 0xffff:
        return REPLACEMENT;
    default:
        return str_is_control(code) ? "?" : NULL;
    }
}

void svg_escape(FILE *out, const char *text)
{
    while (*text) {
        unsigned len = str_utf8_len(text);
        const char *instead = len ? instead_of(str_utf8_code(text, len)) : REPLACEMENT;
        if (instead)
            fputs(instead, out);
        else
            fwrite(text, 1, len, out);
        text += len ? len : 1;
    }
}

double svg_round(double x)
{
    return (double)(int64_t)(x * 100 + 0.5) / 100; /* no x is negative */
}

void svg_text(FILE *out, const char *class, struct svg_at at, const char *text)
{
    static const char *const sides[] = {[SVG_START] = "",
                                        [SVG_MIDDLE] = " text-anchor=\"middle\"",
                                        [SVG_END] = " text-anchor=\"end\""};
    fprintf(out, "<text x=\"%g\" y=\"%g\"%s", svg_round(at.x), svg_round(at.y), sides[at.side]);
    if (*class)
        fprintf(out, " class=\"%s\"", class);
    fputc('>', out);
    svg_escape(out, text);
    fputs("</text>\n", out);
}

void svg_title(FILE *out, const char *text)
{
    fputs("<title>", out);
    svg_escape(out, text);
    fputs("</title>", out);
}

/* In hundredths of the size, from ' ' on: DejaVu Sans, which is wider than most fonts. */
static const unsigned char widths[] = {
    32, 40, 46, 84, 64, 95, 78, 27, 39,  39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 34, 34, 84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79,
    60, 79, 69, 63, 61, 73, 68, 99, 69,  61, 69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63, 62, 35, 63,
    63, 28, 28, 58, 28, 97, 63, 61, 63,  63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84};

static double width_of(const char *text, unsigned len, double size)
{
    unsigned char c = (unsigned char)*text;
    return size * (len == 1 && c >= ' ' && c < 0x7f ? widths[c - ' '] / 100.0 : 1);
}

double svg_width(const char *text, double size)
{
    double width = 0;
    while (*text) {
        unsigned len = str_utf8_len(text);
        width += width_of(text, len, size);
        text += len ? len : 1;
    }
    return width;
}

void svg_fit(char *text, size_t room, double size, double width)
{
    double used = 0, left = width - svg_width(DOTS, size);
    size_t kept = 0;
    if (svg_width(text, size) <= width)
        return;
    while (text[kept]) {
        unsigned len = str_utf8_len(text + kept);
        used += width_of(text + kept, len, size);
        if (used > left || kept + len + sizeof DOTS > room)
            break;
        kept += len ? len : 1;
    }
    while (kept > 0 && text[kept - 1] == ' ')
        kept--;
    str_copy(text + kept, room - kept, DOTS);
}
