/*
 * chart.h - a picture of numbers with names: horizontal bars, as SVG
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_CHART_H
#define GRAM_CLI_CHART_H
#include "output.h"

struct chart_bar {
    const char *name; /* UTF-8 */
    double value;     /* >= 0 */
};

/* Bars from top to bottom; values are shares, printed as percentages. */
struct chart {
    const char *title, *subtitle;
    const struct chart_bar *bars;
    int count;
};

/* A text at (x, y), escaped, of at most limit characters. */
void chart_label(struct output *out, double x, double y, const char *attributes, const char *text,
                 int limit);
void chart_write(struct output *out, const struct chart *chart);
#endif
