/*
 * chart.h - the charts of the command, as SVG in the style of gram.plot: bars, points, matrices
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

enum chart_guide {
    GUIDE_DIAGONAL, /* the line y = x; both axes have one range */
    GUIDE_ZERO      /* the line y = 0 */
};

/* Points of a plane, of which those that are not finite are left out. */
struct chart_plane {
    const char *title, *x_name, *y_name;
    const double *x, *y;
    int64_t count;
    enum chart_guide guide;
    int shares; /* the axes go from 0 to 1, and a line joins the points */
};

/* Counts as shaded cells: size rows (from top to bottom) by size columns. */
struct chart_matrix {
    const char *title, *x_name, *y_name;
    const char *const *names; /* of rows and columns */
    const int64_t *count;     /* row-major */
    int size;
};

/* Square panels, two side by side: the matrix, if there is one, and a plane; or pairs of planes,
 * one pair below the other. */
struct chart_pair {
    const char *title, *subtitle;
    const struct chart_matrix *matrix; /* NULL: planes alone */
    const struct chart_plane *planes;
    int64_t pairs; /* of planes; with a matrix, 1 */
};

void chart_pair_write(struct output *out, const struct chart_pair *pair);
#endif
