/*
 * table_categories.c - which categories of a column have a feature of their own, and which share
 * one
 *
 * SPDX-License-Identifier: MIT
 */
#include "table.h"
#include <stdlib.h>
#include <string.h>

/* A category and how often it was seen. */
struct seen {
    const char *label;
    int64_t times;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_label(const void *a, const void *b)
{
    return strcmp(((const struct seen *)a)->label, ((const struct seen *)b)->label);
}

/* The most frequent first; as often, bytewise. */
static int by_times(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;

    if (x->times != y->times)
        return x->times < y->times ? 1 : -1;
    return by_label(a, b);
}

/* Counts sorted labels into seen, one entry a category, sorted. */
static int64_t count_labels(const char *const *label, int64_t count, struct seen *seen)
{
    int64_t distinct = 0;

    for (int64_t i = 0; i < count; i++)
        if (distinct > 0 && strcmp(seen[distinct - 1].label, label[i]) == 0)
            seen[distinct - 1].times++;
        else
            seen[distinct++] = (struct seen){label[i], 1};
    return distinct;
}

/* Copies the labels of the categories that are kept. */
static bool keep(const struct seen *seen, int64_t count, struct gram_encoded_column *c)
{
    c->category = calloc((size_t)count + 1, sizeof *c->category);
    c->categories = 0;
    for (int64_t i = 0; c->category && i < count; i++) {
        c->category[i] = strdup(seen[i].label);
        if (!c->category[i])
            return false;
        c->categories++;
    }
    return c->category != NULL;
}

/* Chooses among the present labels, which are sorted here. */
static bool choose(const char **label, int64_t present, int64_t most, struct gram_encoded_column *c)
{
    struct seen *seen = malloc(((size_t)present + 1) * sizeof *seen);
    int64_t distinct;
    bool kept;

    if (!seen)
        return false;
    qsort(label, (size_t)present, sizeof *label, by_text);
    distinct = count_labels(label, present, seen);
    c->other = distinct > most;
    if (c->other) {
        qsort(seen, (size_t)distinct, sizeof *seen, by_times);
        distinct = most - 1;
        qsort(seen, (size_t)distinct, sizeof *seen, by_label);
    }
    kept = keep(seen, distinct, c);
    free(seen);
    return kept;
}

gram_status gram_categories_fit(gram_context *g, const gram_column *from, const int64_t *rows,
                                int64_t count, int64_t most, struct gram_encoded_column *c)
{
    const char **label = malloc((size_t)(count > 0 ? count : 1) * sizeof *label);
    int64_t present = 0;
    bool chosen;

    for (int64_t i = 0; label && i < count; i++)
        if (from->labels[rows[i]])
            label[present++] = from->labels[rows[i]];
    chosen = label && choose(label, present, most, c);
    free(label);
    if (!chosen)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate memory to encode column \"%s\"",
                         from->name);
    c->missing = present < count;
    c->width = gram_category_width(c);
    if (c->width == 0)
        c->missing = false;
    return GRAM_OK;
}

int64_t gram_category_width(const struct gram_encoded_column *c)
{
    int64_t width = c->categories + c->other + c->missing;

    return width < 2 ? 0 : width;
}

int64_t gram_category_feature(const struct gram_encoded_column *c, const char *label)
{
    char **found;

    if (c->width == 0)
        return -1;
    if (!label)
        return c->missing ? c->width - 1 : -1;
    found = bsearch(&label, c->category, (size_t)c->categories, sizeof *c->category, by_text);
    if (found)
        return found - c->category;
    return c->other ? c->categories : -1;
}
