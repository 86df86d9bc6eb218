/*
 * chart.c - the charts of the command, as SVG in the style of gram.plot: bars, points, matrices
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

/* The picture's size, its background and what stands above it. */
static void open_svg(struct output *out, const char *title, const char *subtitle, int height)
{
    output_format(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                  "viewBox=\"0 0 %d %d\" font-family=\"" FONTS
                  "\" font-size=\"%d\" fill=\"%s\">\n"
                  "<rect width=\"%d\" height=\"%d\" fill=\"%s\"/>\n",
                  WIDTH, height, WIDTH, height, FONT, ink, WIDTH, height, paper);
    label(out, MARGIN, 36, "font-size=\"19\" font-weight=\"bold\"", title, 70);
    muted_label(out, MARGIN, 58, "start", subtitle, 100);
}

void chart_write(struct output *out, const struct chart *chart)
{
    const double left = MARGIN + name_room(chart) + 10, room = WIDTH - MARGIN - VALUE_ROOM - left;
    const int bottom = FIRST_ROW + chart->count * ROW, height = bottom + AXIS + MARGIN;
    double largest = 0;

    for (int i = 0; i < chart->count; i++)
        largest = chart->bars[i].value > largest ? chart->bars[i].value : largest;
    open_svg(out, chart->title, chart->subtitle, height);
    if (largest > 0)
        draw_grid(out, left, room, bottom, largest);
    for (int i = 0; i < chart->count; i++) {
        const double length = largest > 0 ? chart->bars[i].value / largest * room : 0;
        draw_bar(out, &chart->bars[i], left, FIRST_ROW + i * ROW, length > 1 ? length : 1);
    }
    output_text(out, "</svg>\n");
}

/* ---- Two panels --------------------------------------------------------------------------- */

enum {
    PANELS = 2,
    PANEL_TOP = 108,  /* of the frame; its title stands above */
    PANEL_LEFT = 66,  /* from the panel's edge to its frame: room for names and numbers */
    PANEL_BELOW = 58, /* room below the frame */
    PANEL_TITLE = 32, /* room above a lower frame, for its title */
    SIDE = WIDTH / PANELS - PANEL_LEFT - 20,
    MOST_POINTS = 3000,
    MOST_COUNTS = 12, /* rows of a matrix whose counts are written */
    MOST_NAMES = 26   /* rows of a matrix whose names are written */
};

#define LARGEST 1e307

/* A square on the picture, and the ranges that its sides stand for. */
struct frame {
    double left;
    double low[2], high[2];
};

static double x_of(const struct frame *f, double value)
{
    return f->left + (value - f->low[0]) / (f->high[0] - f->low[0]) * SIDE;
}

static double y_of(const struct frame *f, double value)
{
    return PANEL_TOP + SIDE - (value - f->low[1]) / (f->high[1] - f->low[1]) * SIDE;
}

static void line(struct output *out, double x1, double y1, double x2, double y2,
                 const char *attributes)
{
    output_format(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2,
                  y2, attributes);
}

/* The panel's title, and the names of its axes. */
static void draw_names(struct output *out, double left, const char *title, const char *x_name,
                       const char *y_name)
{
    const double middle = PANEL_TOP + SIDE / 2.0, at = left - PANEL_LEFT + FONT + 2;
    char attributes[160];

    snprintf(attributes, sizeof attributes,
             "fill=\"%s\" text-anchor=\"middle\" transform=\"rotate(-90 %.1f %.1f)\"", muted, at,
             middle);
    label(out, left, PANEL_TOP - 12, "font-weight=\"bold\"", title, NAME_LIMIT);
    muted_label(out, left + SIDE / 2.0, PANEL_TOP + SIDE + 42, "middle", x_name, NAME_LIMIT);
    label(out, at, middle, attributes, y_name, NAME_LIMIT);
}

/* Widens a range by the values that are finite; its length stays so, too. */
static void extend(const double *value, int64_t count, double *low, double *high)
{
    for (int64_t i = 0; i < count; i++)
        if (isfinite(value[i])) {
            *low = fmax(fmin(*low, value[i]), -LARGEST);
            *high = fmin(fmax(*high, value[i]), LARGEST);
        }
}

/* The range of an axis, with a little room on either side; never empty. */
static void set_range(double low, double high, double *out_low, double *out_high)
{
    double room = 0.03 * (high - low);

    if (low > high) /* no values */
        low = high = 0;
    if (!(room > 0))
        room = 0.5 * fmax(fabs(low), 1);
    *out_low = low - room;
    *out_high = high + room;
}

static struct frame frame_of(const struct chart_plane *p, double left)
{
    struct frame f = {
        left, {0, 0},
         {1, 1}
    };
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};

    if (p->shares)
        return f;
    extend(p->x, p->count, &low[0], &high[0]);
    extend(p->y, p->count, &low[1], &high[1]);
    if (p->guide == GUIDE_DIAGONAL) {
        low[0] = low[1] = fmin(low[0], low[1]);
        high[0] = high[1] = fmax(high[0], high[1]);
    }
    for (int d = 0; d < 2; d++)
        set_range(low[d], high[d], &f.low[d], &f.high[d]);
    return f;
}

/* Lines at round numbers of an axis (0: x, 1: y), and the numbers. */
static void draw_axis(struct output *out, const struct frame *f, int axis)
{
    const double step = grid_step(f->high[axis] - f->low[axis]), right = f->left + SIDE;
    char attributes[48], text[32];

    snprintf(attributes, sizeof attributes, "stroke=\"%s\"", grid);
    for (int i = 0; i <= MOST_LINES; i++) { /* bounded also where numbers are too coarse */
        const double at = ceil(f->low[axis] / step) + i, value = at == 0 ? 0 : at * step;
        const double x = x_of(f, value), y = y_of(f, value);
        if (!(value <= f->high[axis]))
            break;
        snprintf(text, sizeof text, "%.4g", value);
        if (axis == 0) {
            line(out, x, PANEL_TOP, x, PANEL_TOP + SIDE, attributes);
            muted_label(out, x, PANEL_TOP + SIDE + 18, "middle", text, 31);
        } else {
            line(out, f->left, y, right, y, attributes);
            muted_label(out, f->left - 6, y + FONT * 0.36, "end", text, 31);
        }
    }
}

static void draw_guide(struct output *out, const struct frame *f, enum chart_guide guide)
{
    char attributes[64];

    snprintf(attributes, sizeof attributes, "stroke=\"%s\" stroke-dasharray=\"4 3\"", muted);
    if (guide == GUIDE_DIAGONAL)
        line(out, f->left, PANEL_TOP + SIDE, f->left + SIDE, PANEL_TOP, attributes);
    else
        line(out, f->left, y_of(f, 0), f->left + SIDE, y_of(f, 0), attributes);
}

/* Every point, or every so many-th one where there are very many. */
static void draw_points(struct output *out, const struct chart_plane *p, const struct frame *f)
{
    const int64_t step = (p->count + MOST_POINTS - 1) / MOST_POINTS;
    char attributes[64];
    int64_t before = -1;

    snprintf(attributes, sizeof attributes, "stroke=\"%s\" stroke-width=\"1.5\"", first_colour);
    for (int64_t i = 0; i < p->count; i += step) {
        if (!isfinite(p->x[i]) || !isfinite(p->y[i]))
            continue;
        if (p->shares && before >= 0)
            line(out, x_of(f, p->x[before]), y_of(f, p->y[before]), x_of(f, p->x[i]),
                 y_of(f, p->y[i]), attributes);
        output_format(out,
                      "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\" "
                      "fill-opacity=\"%s\"/>\n",
                      x_of(f, p->x[i]), y_of(f, p->y[i]), p->shares ? "3.5" : "2.2", first_colour,
                      p->shares ? "1" : "0.45");
        before = i;
    }
}

static void draw_plane(struct output *out, const struct chart_plane *p, double left)
{
    const struct frame f = frame_of(p, left);

    draw_names(out, left, p->title, p->x_name, p->y_name);
    draw_axis(out, &f, 0);
    draw_axis(out, &f, 1);
    draw_guide(out, &f, p->guide);
    draw_points(out, p, &f);
}

/* A cell is as dark as its share of its row. */
static void draw_cell(struct output *out, double x, double y, double side, double share)
{
    output_format(out,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" "
                  "fill-opacity=\"%.3f\" stroke=\"%s\"/>\n",
                  x, y, side, side, first_colour, share, grid);
}

static void draw_matrix(struct output *out, const struct chart_matrix *m, double left)
{
    const double side = (double)SIDE / (m->size > 0 ? m->size : 1);
    const int limit = m->size > 8 ? 3 : 7; /* characters of a name */

    draw_names(out, left, m->title, m->x_name, m->y_name);
    for (int i = 0; i < m->size; i++) {
        const double y = PANEL_TOP + i * side, middle = y + side / 2 + FONT * 0.36;
        double sum = 0;

        for (int j = 0; j < m->size; j++)
            sum += (double)m->count[i * m->size + j];
        for (int j = 0; j < m->size; j++) {
            const int64_t count = m->count[i * m->size + j];
            const double share = sum > 0 ? (double)count / sum : 0, x = left + j * side;
            char text[32], attributes[64];

            draw_cell(out, x, y, side, share);
            if (m->size > MOST_COUNTS || count == 0)
                continue;
            snprintf(text, sizeof text, "%lld", (long long)count);
            snprintf(attributes, sizeof attributes,
                     "fill=\"%s\" text-anchor=\"middle\" font-size=\"%d\"",
                     share > 0.5 ? paper : ink, m->size > 8 ? 9 : FONT - 1);
            label(out, x + side / 2, middle, attributes, text, 31);
        }
        if (m->size > MOST_NAMES)
            continue;
        muted_label(out, left - 5, middle, "end", m->names[i], limit);
        muted_label(out, left + (i + 0.5) * side, PANEL_TOP + SIDE + 18, "middle", m->names[i],
                    side > 4 * FONT   ? limit
                    : side > 2 * FONT ? 3
                                      : 1);
    }
}

void chart_pair_write(struct output *out, const struct chart_pair *pair)
{
    const double second = WIDTH / (double)PANELS + PANEL_LEFT;
    const int64_t each = SIDE + PANEL_BELOW + PANEL_TITLE;

    open_svg(out, pair->title, pair->subtitle,
             (int)(PANEL_TOP + SIDE + PANEL_BELOW + (pair->pairs - 1) * each));
    if (pair->matrix) {
        draw_matrix(out, pair->matrix, PANEL_LEFT);
        draw_plane(out, &pair->planes[0], second);
    }
    for (int64_t i = 0; !pair->matrix && i < pair->pairs; i++) {
        const long long y = i * each;

        output_format(out, "<g transform=\"translate(0 %lld)\">\n", y);
        draw_plane(out, &pair->planes[2 * i], PANEL_LEFT);
        draw_plane(out, &pair->planes[2 * i + 1], second);
        output_text(out, "</g>\n");
    }
    output_text(out, "</svg>\n");
}
