/*
 * folds.c - which rows of a table are held out together
 *
 * All plans begin with the rows that have a target in random order.  They are then sorted by a
 * column, where rows with equal values keep their random order.
 *
 * SPDX-License-Identifier: MIT
 */
#include "folds.h"
#include "holdout.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A row in the order in which rows are dealt. */
struct dealt {
    int64_t row, place; /* its place in the random order */
    double number;
    const char *text; /* NULL: the key is the number */
};

static int compare_keys(const struct dealt *a, const struct dealt *b)
{
    return a->text ? strcmp(a->text, b->text) : (a->number > b->number) - (a->number < b->number);
}

static int by_key(const void *a, const void *b)
{
    const struct dealt *x = a, *y = b;
    const int order = compare_keys(x, y);

    return order ? order : (x->place > y->place) - (x->place < y->place);
}

static int is_missing(const struct column *c, int64_t row)
{
    return c->texts ? !c->texts[row] : isnan(c->numbers[row]);
}

static int lacks_target(const struct fold_plan *p, int64_t row)
{
    int lacks = 0;

    for (int64_t i = 0; i < p->targets->count; i++)
        lacks |= is_missing(&p->table->columns[p->targets->column[i]], row);
    return lacks;
}

/* The rows with all targets, in random order, with the values of column `key` (-1: all equal). */
static enum exit_status collect(const struct fold_plan *p, int64_t key, struct dealt *rows,
                                int64_t *count, struct failure *why)
{
    const struct table *t = p->table;
    int64_t *order = malloc((size_t)(t->rows + 1) * sizeof *order);

    if (!order)
        return fail_memory(why, "the order of the rows");
    holdout_order(order, t->rows, p->seed);
    *count = 0;
    for (int64_t i = 0; i < t->rows; i++) {
        const int64_t row = order[i];
        const struct column *c = key >= 0 ? &t->columns[key] : NULL;
        if (lacks_target(p, row))
            continue;
        if (c && is_missing(c, row)) {
            free(order);
            return table_fail(t, p->path, row, key, why,
                              "the value is missing, expected one for every row with a target");
        }
        rows[(*count)++] = (struct dealt){row, i, c && c->numbers ? c->numbers[row] : 0,
                                          c && c->texts ? c->texts[row] : NULL};
    }
    free(order);
    return CLI_OK;
}

static enum exit_status too_few(const struct fold_plan *p, int64_t count, const char *what,
                                struct failure *why)
{
    return fail(why, CLI_BAD_DATA, "%s has %lld %s, expected at least %lld for %lld folds",
                text_name(p->path), (long long)count, what, (long long)(p->folds + (p->time >= 0)),
                (long long)p->folds);
}

/* A run of rows with one key. */
struct group {
    int64_t first, count;
};

static int by_count(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    return x->count != y->count ? (x->count < y->count ? 1 : -1)
                                : (x->first > y->first) - (x->first < y->first);
}

/* Finds the runs of equal keys in sorted rows; returns their number. */
static int64_t find_groups(const struct dealt *rows, int64_t count, struct group *out)
{
    int64_t groups = 0;

    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || compare_keys(&rows[i - 1], &rows[i]) != 0)
            out[groups++] = (struct group){i, 0};
        out[groups - 1].count++;
    }
    return groups;
}

static enum exit_status deal_groups(const struct fold_plan *p, const struct dealt *rows,
                                    struct group *groups, int64_t count, int64_t *fold,
                                    struct failure *why)
{
    int64_t *load = calloc((size_t)p->folds, sizeof *load);

    if (!load)
        return fail_memory(why, "the folds");
    qsort(groups, (size_t)count, sizeof *groups, by_count);
    for (int64_t i = 0; i < count; i++) {
        int64_t least = 0;
        for (int64_t f = 1; f < p->folds; f++)
            least = load[f] < load[least] ? f : least;
        load[least] += groups[i].count;
        for (int64_t k = 0; k < groups[i].count; k++)
            fold[rows[groups[i].first + k].row] = least;
    }
    free(load);
    return CLI_OK;
}

/* Cuts the times after the first that reaches each share of the rows, and leaves at least one time
 * for every later part. */
static void deal_times(const struct fold_plan *p, const struct dealt *rows,
                       const struct group *times, int64_t count, int64_t total, int64_t *fold)
{
    const int64_t parts = p->folds + 1;
    int64_t part = 0;

    for (int64_t i = 0; i < count; i++) {
        const int64_t end = times[i].first + times[i].count;
        for (int64_t k = times[i].first; k < end; k++)
            fold[rows[k].row] = part == 0 ? FOLD_ALWAYS : part - 1;
        if (part + 1 < parts &&
            ((double)end * (double)parts >= (double)total * (double)(part + 1) ||
             count - i - 1 == parts - part - 1))
            part++;
    }
}

static enum exit_status deal(const struct fold_plan *p, struct dealt *rows, struct group *groups,
                             int64_t *fold, struct failure *why)
{
    const int64_t key = p->groups >= 0 ? p->groups : p->time >= 0 ? p->time : p->classes;
    int64_t count, distinct;

    TRY(collect(p, key, rows, &count, why));
    if (count < p->folds)
        return too_few(p, count, "rows with a target", why);
    if (key >= 0)
        qsort(rows, (size_t)count, sizeof *rows, by_key);
    if (p->groups < 0 && p->time < 0) {
        for (int64_t i = 0; i < count; i++)
            fold[rows[i].row] = i % p->folds;
        return CLI_OK;
    }
    distinct = find_groups(rows, count, groups);
    if (distinct < p->folds + (p->time >= 0))
        return too_few(p, distinct, p->time >= 0 ? "different times" : "groups", why);
    if (p->groups >= 0)
        return deal_groups(p, rows, groups, distinct, fold, why);
    deal_times(p, rows, groups, distinct, count, fold);
    return CLI_OK;
}

enum exit_status folds_deal(const struct fold_plan *p, int64_t *fold, struct failure *why)
{
    struct dealt *rows = malloc((size_t)(p->table->rows + 1) * sizeof *rows);
    struct group *groups = malloc((size_t)(p->table->rows + 1) * sizeof *groups);
    enum exit_status status = CLI_OK;

    for (int64_t i = 0; i < p->table->rows; i++)
        fold[i] = FOLD_NEVER;
    status = rows && groups ? deal(p, rows, groups, fold, why) : fail_memory(why, "the folds");
    free(rows);
    free(groups);
    return status;
}
