/*
 * chart.c - a picture of numbers with names: horizontal bars, as SVG
 *
 * SVG cannot measure text, so a character is taken to be 0.62 em wide, which is a little more than
 * the usual sans-serif fonts need, and long names are cut.
 *
 * SPDX-License-Identifier: MIT
 */
#include "chart.h"
#include "text.h"
#include <string.h>

enum {
    WIDTH = 760,
    MARGIN = 24,
    FIRST_ROW = 84, /* top of the first bar */
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

void chart_label(struct output *out, double x, double y, const char *attributes, const char *text,
                 int limit)
{
    output_format(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    xml_text(out, text, limit);
    output_text(out, "</text>\n");
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

void chart_write(struct output *out, const struct chart *chart)
{
    double left = MARGIN + name_room(chart) + 10, room = WIDTH - MARGIN - VALUE_ROOM - left;
    double largest = 0;
    int height = FIRST_ROW + chart->count * ROW + MARGIN;

    for (int i = 0; i < chart->count; i++)
        largest = chart->bars[i].value > largest ? chart->bars[i].value : largest;
    output_format(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                  "viewBox=\"0 0 %d %d\" font-family=\"Helvetica, Arial, 'DejaVu Sans', "
                  "sans-serif\" font-size=\"%d\" fill=\"#222222\">\n"
                  "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
                  WIDTH, height, WIDTH, height, FONT, WIDTH, height);
    chart_label(out, MARGIN, 36, "font-size=\"19\" font-weight=\"bold\"", chart->title, 70);
    chart_label(out, MARGIN, 58, "fill=\"#555555\"", chart->subtitle, 100);
    for (int i = 0; i < chart->count; i++) {
        const struct chart_bar *bar = &chart->bars[i];
        double y = FIRST_ROW + i * ROW, middle = y + BAR / 2.0 + FONT * 0.36;
        double length = largest > 0 ? bar->value / largest * room : 0;
        char value[32];
        snprintf(value, sizeof value, "%.1f %%", bar->value * 100);
        chart_label(out, left - 10, middle, "text-anchor=\"end\"", bar->name, NAME_LIMIT);
        output_format(out,
                      "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\" "
                      "fill=\"#2f6db3\"/>\n",
                      left, y, length > 1 ? length : 1, BAR);
        chart_label(out, left + (length > 1 ? length : 1) + 7, middle, "fill=\"#555555\"", value,
                    31);
    }
    output_text(out, "</svg>\n");
}
