/*
 * line_chart.c - lines over logarithmic axes, panels beside each other, as SVG
 *
 * A grid line stands at every 1, 2, ..., 9 times a power of ten; the powers have labels, and where
 * an axis has less than two of them also their doubles and fivefolds.
 *
 * SPDX-License-Identifier: MIT
 */
#include "line_chart.h"
#include "chart.h"
#include <math.h>

enum {
    WIDTH = 480, /* of a panel with its labels */
    HEIGHT = 400,
    LEFT = 66,
    RIGHT = 14,
    TOP = 78,
    BOTTOM = 44,
    LEGEND_ROW = 16,
    NAME_LIMIT = 24
};

/* An axis from the logarithms low to high, drawn from `from` to `to`. */
struct axis {
    double low, high, from, to;
    enum line_unit unit;
};

static double place(const struct axis *a, double value)
{
    return a->from + (log10(value) - a->low) / (a->high - a->low) * (a->to - a->from);
}

/* 1, 10 us, 2 GB. */
static void tick_text(enum line_unit unit, double value, char text[32])
{
    static const struct {
        double size;
        const char *name;
    } units[][4] = {
        [LINE_NUMBER] = {     {1, ""},       {1, ""},              {1, ""},       {1, ""}},
        [LINE_SECONDS] = {   {1, " s"}, {1e-3, " ms"}, {1e-6, " \xc2\xb5s"}, {1e-9, " ns"}},
        [LINE_BYTES] = {{1e9, " GB"},  {1e6, " MB"},         {1e3, " kB"},     {1, " B"}},
    };
    int at = 0;

    while (at < 3 && value < units[unit][at].size * 0.999)
        at++;
    snprintf(text, 32, "%.6g%s", value / units[unit][at].size, units[unit][at].name);
}

static void grid(struct output *out, const struct axis *a, const struct axis *other, int vertical)
{
    int dense = a->high - a->low < 2;

    for (int power = (int)floor(a->low); power <= (int)ceil(a->high); power++)
        for (int digit = 1; digit <= 9; digit++) {
            double value = digit * pow(10, power), at, x, y;
            char text[32];
            if (log10(value) < a->low - 1e-9 || log10(value) > a->high + 1e-9)
                continue;
            at = place(a, value);
            x = vertical ? at : other->from;
            y = vertical ? other->from : at;
            output_format(out,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                          "stroke=\"%s\"/>\n",
                          x, y, vertical ? at : other->to, vertical ? other->to : at,
                          digit == 1 ? "#cccccc" : "#eeeeee");
            if (digit != 1 && !(dense && (digit == 2 || digit == 5)))
                continue;
            tick_text(a->unit, value, text);
            chart_label(out, vertical ? x : x - 6, vertical ? y + 16 : y + 4,
                        vertical ? "text-anchor=\"middle\" fill=\"#555555\""
                                 : "text-anchor=\"end\" fill=\"#555555\"",
                        text, 31);
        }
}

/* The range of all points; a whole decade where there is none or one. */
static void range(const struct line_panel *p, int of_y, struct axis *a)
{
    double least = INFINITY, most = 0;

    for (int i = 0; i < p->count; i++)
        for (int j = 0; j < p->lines[i].count; j++) {
            double x = p->lines[i].x[j], y = p->lines[i].y[j], value = of_y ? y : x;
            if (x > 0 && y > 0) {
                least = fmin(least, value);
                most = fmax(most, value);
            }
        }
    a->low = most > 0 ? log10(least) : 0;
    a->high = most > 0 ? log10(most) : 1;
    if (of_y || a->high - a->low < 0.3) {
        a->low = floor(a->low);
        a->high = fmax(ceil(a->high), a->low + 1);
    }
}

static void draw(struct output *out, const struct line *line, const struct axis *x,
                 const struct axis *y, const char *colour)
{
    output_format(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
                  colour);
    for (int i = 0; i < line->count; i++)
        if (line->x[i] > 0 && line->y[i] > 0)
            output_format(out, "%.1f,%.1f ", place(x, line->x[i]), place(y, line->y[i]));
    output_text(out, "\"/>\n");
    for (int i = 0; i < line->count; i++)
        if (line->x[i] > 0 && line->y[i] > 0)
            output_format(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n",
                          place(x, line->x[i]), place(y, line->y[i]), colour);
}

static void write_panel(struct output *out, const struct line_panel *p, double left)
{
    static const char *const colours[] = {"#2f6db3", "#c8553d", "#3c8d5a", "#8a5fb0",
                                          "#c79a2b", "#4a9aa8", "#666666"};
    struct axis x = {.from = left + LEFT, .to = left + WIDTH - RIGHT};
    struct axis y = {.from = HEIGHT - BOTTOM, .to = TOP, .unit = p->unit};

    range(p, 0, &x);
    range(p, 1, &y);
    chart_label(out, left + LEFT, TOP - 12, "font-weight=\"bold\"", p->title, 60);
    grid(out, &x, &y, 1);
    grid(out, &y, &x, 0);
    chart_label(out, (x.from + x.to) / 2, HEIGHT - 8, "text-anchor=\"middle\"", p->x_label, 40);
    for (int i = 0; i < p->count; i++) {
        const struct line *line = &p->lines[i];
        const char *colour = colours[line->colour % (int)(sizeof colours / sizeof *colours)];
        double row = TOP + 16 + i * LEGEND_ROW;
        draw(out, line, &x, &y, colour);
        output_format(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"4\" fill=\"%s\"/>\n",
                      x.from + 8, row - 6, colour);
        chart_label(out, x.from + 28, row, "", line->name, NAME_LIMIT);
    }
}

void line_chart_write(struct output *out, const char *title, const struct line_panel *panels,
                      int count)
{
    int width = count * WIDTH;

    output_format(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                  "viewBox=\"0 0 %d %d\" font-family=\"Helvetica, Arial, 'DejaVu Sans', "
                  "sans-serif\" font-size=\"12\" fill=\"#222222\">\n"
                  "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
                  width, HEIGHT, width, HEIGHT, width, HEIGHT);
    chart_label(out, LEFT, 30, "font-size=\"17\" font-weight=\"bold\"", title, 100);
    for (int i = 0; i < count; i++)
        write_panel(out, &panels[i], (double)i * WIDTH);
    output_text(out, "</svg>\n");
}
