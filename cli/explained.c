/*
 * explained.c - how much of a target one column explains on its own
 *
 * The rows are sorted by the column.  Those of the same value are a group, and the prediction for
 * one of them is the mean of the others.  A number that occurs once is predicted by the line
 * through the means of the groups on both sides, and the first and the last such number not at
 * all.  For classes the prediction is a row that is drawn from the others of the group, or from
 * the two neighbours: what counts is the chance that its class is right, and the share is
 * (chance - chance without the column) / (1 - chance without the column).
 *
 * SPDX-License-Identifier: MIT
 */
#include "explained.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ROWS = 20000, /* more say the same, and cost time on every table */
    LEAST_ROWS = 20
};

struct pair {
    double x, y;
};

static int by_pair(const void *a, const void *b)
{
    const struct pair *p = a, *q = b;

    if (p->x != q->x)
        return p->x < q->x ? -1 : 1;
    return (p->y > q->y) - (p->y < q->y);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The value of a column in the chosen rows as numbers: texts by their place in the order of all.
 * Missing numbers are -infinity, which no value is, and missing texts -1. */
static void as_numbers(struct explained *e, const struct column *c, double *out)
{
    int64_t present = 0, distinct = 0;

    for (int64_t i = 0; c->numbers && i < e->count; i++) {
        const double value = c->numbers[e->row[i]];
        out[i] = isnan(value) ? -INFINITY : value;
    }
    if (!c->texts)
        return;
    for (int64_t i = 0; i < e->count; i++)
        if (c->texts[e->row[i]])
            e->text[present++] = c->texts[e->row[i]];
    qsort(e->text, (size_t)present, sizeof *e->text, by_text);
    for (int64_t i = 0; i < present; i++)
        if (distinct == 0 || strcmp(e->text[distinct - 1], e->text[i]) != 0)
            e->text[distinct++] = e->text[i];
    for (int64_t i = 0; i < e->count; i++) {
        const char *text = c->texts[e->row[i]];
        const char **found =
            text ? bsearch(&text, e->text, (size_t)distinct, sizeof text, by_text) : NULL;
        out[i] = found ? (double)(found - e->text) : -1;
    }
}

enum exit_status explained_begin(const struct table *t, int64_t target, int classes,
                                 struct explained *out, struct failure *why)
{
    const struct column *c = &t->columns[target];
    const int64_t step = t->rows / MOST_ROWS + 1;
    const size_t most = (size_t)(t->rows / step) + 1;

    *out = (struct explained){.classes = classes || c->texts, .plain = -1};
    out->row = calloc(most, sizeof *out->row);
    out->value = malloc(most * sizeof *out->value);
    out->x = malloc(most * sizeof *out->x);
    out->pair = malloc(most * sizeof *out->pair);
    out->text = malloc(most * sizeof *out->text);
    if (!out->row || !out->value || !out->x || !out->pair || !out->text) {
        explained_end(out);
        return fail_memory(why, "a first look at the table");
    }
    for (int64_t row = 0; row < t->rows; row += step)
        if (c->texts ? c->texts[row] != NULL : c->numbers && !isnan(c->numbers[row]))
            out->row[out->count++] = row;
    as_numbers(out, c, out->value);
    return CLI_OK;
}

void explained_end(struct explained *e)
{
    free(e->row);
    free(e->value);
    free(e->x);
    free(e->pair);
    free(e->text);
    *e = (struct explained){0};
}

/* The chance that a row and one that is drawn from the others of the sorted rows agree, summed
 * over all. */
static double agreement(const struct pair *pair, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && pair[next].y == pair[i].y; next++)
            ;
        sum += (double)(next - i) * (double)(next - i - 1);
    }
    return count > 1 ? sum / (double)(count - 1) : 0;
}

static double mean(const struct pair *pair, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += pair[i].y;
    return sum / (double)count;
}

/* Squared errors of rows that are predicted by the mean of the others. */
static double squares(const struct pair *pair, int64_t count)
{
    const double middle = mean(pair, count), grow = (double)count / (double)(count - 1);
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += (pair[i].y - middle) * (pair[i].y - middle);
    return sum * grow * grow;
}

/* How wrong the neighbours are about the one row of [at]: those before begin at `from`, those
 * behind end at `to`. */
static double from_neighbours(const struct explained *e, int64_t from, int64_t at, int64_t to)
{
    const struct pair *p = e->pair;
    const double before = mean(p + from, at - from), behind = mean(p + at + 1, to - at - 1);
    const double part = (p[at].x - p[from].x) / (p[at + 1].x - p[from].x);
    const double line = isinf(p[from].x) ? behind : before + part * (behind - before);

    if (e->classes)
        return (p[at - 1].y == p[at].y ? 0 : 0.5) + (p[at + 1].y == p[at].y ? 0 : 0.5);
    return (p[at].y - line) * (p[at].y - line);
}

static int64_t group_end(const struct explained *e, int64_t begin, int64_t count)
{
    int64_t end = begin + 1;

    while (end < count && e->pair[end].x == e->pair[begin].x)
        end++;
    return end;
}

/* Errors of predictions without a column, which are those of all columns. */
static double plain_errors(struct explained *e)
{
    const int64_t n = e->count;

    if (e->plain >= 0)
        return e->plain;
    for (int64_t i = 0; i < n; i++)
        e->pair[i] = (struct pair){0, e->value[i]};
    qsort(e->pair, (size_t)n, sizeof *e->pair, by_pair);
    e->plain = e->classes ? (double)n - agreement(e->pair, n) : squares(e->pair, n);
    return e->plain;
}

double explained_by(struct explained *e, const struct column *column)
{
    const int64_t n = e->count;
    double wrong = 0, plain;
    int64_t judged = 0, previous = 0;

    if (n < LEAST_ROWS || (!column->numbers && !column->texts))
        return NAN;
    plain = plain_errors(e);
    as_numbers(e, column, e->x);
    for (int64_t i = 0; i < n; i++)
        e->pair[i] = (struct pair){e->x[i], e->value[i]};
    qsort(e->pair, (size_t)n, sizeof *e->pair, by_pair);
    for (int64_t i = 0, end; i < n; previous = i, i = end) {
        end = group_end(e, i, n);
        if (end > i + 1)
            wrong += e->classes ? (double)(end - i) - agreement(e->pair + i, end - i)
                                : squares(e->pair + i, end - i);
        else if (column->texts)
            wrong += plain / (double)n;
        else if (i == 0 || end == n)
            continue;
        else
            wrong += from_neighbours(e, previous, i, group_end(e, end, n));
        judged += end - i;
    }
    return judged < LEAST_ROWS || 2 * judged < n
               ? (double)NAN
               : 1 - (wrong / (double)judged) / (plain / (double)n);
}
