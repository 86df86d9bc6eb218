/*
 * chart.h - the charts of the command: horizontal bars, as SVG in the style of gram.plot
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

void chart_write(struct output *out, const struct chart *chart);
#endif
