/*
 * chart.c - the charts of the command: horizontal bars, as SVG in the style of gram.plot
 *
 * SVG cannot measure text.  A character is therefore assumed to be 0.62 em wide, a little more than
 * usual sans-serif fonts need, and long names are cut.  Colours, fonts and the grid are those of
 * gram.plot.STYLE (python/gram/plot.py); a test compares the two.
 *
 * SPDX-License-Identifier: MIT
 */
#include "chart.h"
#include "text.h"
#include <math.h>
#include <string.h>

#define FONTS "Helvetica, Arial, 'DejaVu Sans', sans-serif"
static const char ink[] = "#222222", muted[] = "#555555", paper[] = "#ffffff", grid[] = "#e3e3e3",
                  first_colour[] = "#2f6db3";

enum {
    WIDTH = 760,
    MARGIN = 24,
    FIRST_ROW = 84, /* top of the first bar */
    AXIS = 28,      /* room below the last bar, for the numbers of the axis */
    MOST_LINES = 6, /* of the grid */
    ROW = 26,
    BAR = 17,
    FONT = 13,
    NAME_LIMIT = 36, /* characters */
    VALUE_ROOM = 62, /* right of the longest bar */
};

/* Escaped for XML; at most `limit` characters, control characters as '?'. */
static void xml_text(struct output *out, const char *text, int limit)
{
    int cut = text_characters(text) > limit, count = 0;
    const char *bad = text_find_invalid_utf8(text, text + strlen(text));

    for (; *text; text++) {
        const char *escaped = *text == '&'   ? "&amp;"
                              : *text == '<' ? "&lt;"
                              : *text == '>' ? "&gt;"
                              : *text == '"' ? "&quot;"
                                             : NULL;
        count += ((unsigned char)*text & 0xc0) != 0x80;
        if (cut && count == limit) {
            output_text(out, "\xe2\x80\xa6"); /* an ellipsis */
            return;
        }
        if (escaped)
            output_text(out, escaped);
        else if ((unsigned char)*text < 0x20 || (bad && text >= bad) ||
                 ((unsigned char)*text == 0xc2 && (unsigned char)text[1] < 0xa0))
            output_text(out, "?");
        else
            output_write(out, text, 1);
    }
}

/* A text at (x, y), escaped, of at most limit characters. */
static void label(struct output *out, double x, double y, const char *attributes, const char *text,
                  int limit)
{
    output_format(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    xml_text(out, text, limit);
    output_text(out, "</text>\n");
}

static void muted_label(struct output *out, double x, double y, const char *anchor,
                        const char *text, int limit)
{
    char attributes[64];

    snprintf(attributes, sizeof attributes, "fill=\"%s\" text-anchor=\"%s\"", muted, anchor);
    label(out, x, y, attributes, text, limit);
}

static double name_room(const struct chart *chart)
{
    int longest = 4;

    for (int i = 0; i < chart->count; i++) {
        int size = text_characters(chart->bars[i].name);
        longest = size > longest ? size : longest;
    }
    return (longest < NAME_LIMIT ? longest : NAME_LIMIT) * 0.62 * FONT;
}

/* The distance of the grid lines: 1, 2 or 5 times a power of ten, so that at most MOST_LINES lines
 * are within `largest`. */
static double grid_step(double largest)
{
    static const double factors[] = {1, 2, 5, 10};
    const double power = pow(10, floor(log10(largest / MOST_LINES)));

    for (int i = 0; i < LENGTH(factors); i++)
        if (largest <= MOST_LINES * factors[i] * power)
            return factors[i] * power;
    return 10 * power;
}

/* Draws lines across the bars, with a percentage below each; `room` pixels stand for `largest`. */
static void draw_grid(struct output *out, double left, double room, double bottom, double largest)
{
    const double step = grid_step(largest);

    for (int i = 0; i * step <= largest * (1 + 1e-9); i++) {
        const double x = left + i * step / largest * room;
        char text[32];
        snprintf(text, sizeof text, "%.6g %%", i * step * 100);
        output_format(out, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n",
                      x, FIRST_ROW - 6, x, bottom, grid);
        muted_label(out, x, bottom + FONT + 5, "middle", text, 31);
    }
}

static void draw_bar(struct output *out, const struct chart_bar *bar, double left, double y,
                     double length)
{
    const double middle = y + BAR / 2.0 + FONT * 0.36;
    char value[32];

    snprintf(value, sizeof value, "%.1f %%", bar->value * 100);
    label(out, left - 10, middle, "text-anchor=\"end\"", bar->name, NAME_LIMIT);
    output_format(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
                  left, y, length, BAR, first_colour);
    muted_label(out, left + length + 7, middle, "start", value, 31);
}

void chart_write(struct output *out, const struct chart *chart)
{
    const double left = MARGIN + name_room(chart) + 10, room = WIDTH - MARGIN - VALUE_ROOM - left;
    const int bottom = FIRST_ROW + chart->count * ROW, height = bottom + AXIS + MARGIN;
    double largest = 0;

    for (int i = 0; i < chart->count; i++)
        largest = chart->bars[i].value > largest ? chart->bars[i].value : largest;
    output_format(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                  "viewBox=\"0 0 %d %d\" font-family=\"" FONTS
                  "\" font-size=\"%d\" fill=\"%s\">\n"
                  "<rect width=\"%d\" height=\"%d\" fill=\"%s\"/>\n",
                  WIDTH, height, WIDTH, height, FONT, ink, WIDTH, height, paper);
    label(out, MARGIN, 36, "font-size=\"19\" font-weight=\"bold\"", chart->title, 70);
    muted_label(out, MARGIN, 58, "start", chart->subtitle, 100);
    if (largest > 0)
        draw_grid(out, left, room, bottom, largest);
    for (int i = 0; i < chart->count; i++) {
        const double length = largest > 0 ? chart->bars[i].value / largest * room : 0;
        draw_bar(out, &chart->bars[i], left, FIRST_ROW + i * ROW, length > 1 ? length : 1);
    }
    output_text(out, "</svg>\n");
}
