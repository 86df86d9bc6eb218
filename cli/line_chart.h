/*
 * line_chart.h - lines over logarithmic axes, panels beside each other, as SVG
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_LINE_CHART_H
#define GRAM_CLI_LINE_CHART_H
#include "output.h"

enum line_unit {
    LINE_NUMBER,
    LINE_SECONDS,
    LINE_BYTES
};

/* Points that are not above 0 in both directions are left out. */
struct line {
    const char *name; /* in the legend; UTF-8 */
    int colour;       /* a number from 0 on; lines of one number look alike */
    int count;
    const double *x, *y;
};

struct line_panel {
    const char *title, *x_label;
    enum line_unit unit; /* of y */
    const struct line *lines;
    int count;
};

void line_chart_write(struct output *out, const char *title, const struct line_panel *panels,
                      int count);
#endif
