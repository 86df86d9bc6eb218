/*
 * machine_tree.c - rows split in halves along the direction in which the target changes most
 *
 * The direction is the leading eigenvector of the average gradient outer product of a small machine
 * trained on a sample of the rows (as in xRFM, arXiv:2508.10053).  Rows near the median go to both
 * sides, so that the leaves agree where they meet.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/random.h"
#include "machine.h"
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE_ROWS = 3000 /* for the direction: one small factorisation */
};
static const double overlap = 0.05; /* of the rows, on each side of the median, in both leaves */

void gram_machine_leaf_rows_destroy(struct machine_leaf_rows *rows)
{
    free(rows->first);
    free(rows->row);
    *rows = (struct machine_leaf_rows){0};
}

void gram_machine_tree_destroy(struct machine_tree *tree)
{
    for (int64_t i = 0; i < tree->count; i++)
        free(tree->node[i].direction);
    free(tree->node);
    *tree = (struct machine_tree){0};
}

void gram_machine_gather(gram_dtype dtype, int64_t width, const void *x, const int64_t *rows,
                         int64_t count, void *out)
{
    size_t bytes = (size_t)width * gram_dtype_size(dtype);

    for (int64_t i = 0; i < count; i++)
        memcpy((char *)out + (size_t)i * bytes, (const char *)x + (size_t)rows[i] * bytes, bytes);
}

void gram_machine_gather_columns(gram_dtype dtype, int64_t n, int64_t columns, const void *y,
                                 const int64_t *rows, int64_t count, void *out)
{
    size_t size = gram_dtype_size(dtype);

    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < count; i++)
            memcpy((char *)out + (size_t)(j * count + i) * size,
                   (const char *)y + (size_t)(j * n + rows[i]) * size, size);
}

struct machine_data gram_machine_part(const struct machine_data *data, int64_t first, int64_t rows,
                                      char *y)
{
    const size_t size = gram_dtype_size(data->dtype), column = (size_t)rows * size;
    struct machine_data part = *data;

    part.rows = rows;
    part.x += (size_t)(first * data->width) * size;
    part.weights = data->weights ? data->weights + first : NULL;
    part.y = y;
    for (int64_t j = 0; j < data->outputs; j++)
        memcpy(y + (size_t)j * column, data->y + (size_t)(j * data->rows + first) * size, column);
    return part;
}

static double place(const struct machine_node *node, int64_t width, gram_dtype dtype, const void *x,
                    int64_t row)
{
    double sum = 0;

    for (int64_t j = 0; j < width; j++)
        sum += node->direction[j] * (dtype == GRAM_F32 ? (double)((const float *)x)[row * width + j]
                                                       : ((const double *)x)[row * width + j]);
    return sum;
}

/* How much of a row at place t goes right. */
static double right_share(const struct machine_node *node, double t)
{
    if (t <= node->low)
        return 0;
    if (t >= node->high)
        return 1;
    return (t - node->low) / (node->high - node->low);
}

static bool add_place(struct machine_places *p, int64_t leaf, int64_t row, double weight)
{
    if (p->count == p->room) {
        int64_t room = 2 * p->room + 64;
        struct machine_place *at = realloc(p->at, (size_t)room * sizeof *at);
        if (!at)
            return false;
        p->at = at;
        p->room = room;
    }
    p->at[p->count++] = (struct machine_place){leaf, row, weight};
    return true;
}

/* Down the tree with the row: every node that has a part of it is looked at once.  open holds those
 * that wait, of which none is an ancestor of another, and has room for as many as there are nodes.
 * A row whose place is NaN goes to both sides, and its weights are NaN. */
static bool place_row(const struct machine_tree *tree, gram_dtype dtype, const void *x, int64_t row,
                      struct machine_place *open, struct machine_places *out)
{
    int64_t waiting = 0;

    open[waiting++] = (struct machine_place){0, row, 1};
    while (waiting > 0) {
        const struct machine_place at = open[--waiting];
        const struct machine_node *node = &tree->node[at.leaf];
        double right = right_share(node, place(node, tree->width, dtype, x, row));
        double share[2] = {1 - right, right};
        for (int side = 1; side >= 0; side--) {
            int64_t child = node->child[side];
            double weight = at.weight * share[side];
            if (weight == 0)
                continue;
            if (child >= 0)
                open[waiting++] = (struct machine_place){child, row, weight};
            else if (!add_place(out, ~child, row, weight))
                return false;
        }
    }
    return true;
}

static int by_leaf(const void *a, const void *b)
{
    const struct machine_place *x = a, *y = b;

    if (x->leaf != y->leaf)
        return x->leaf < y->leaf ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

gram_status gram_machine_tree_places(gram_context *g, const struct machine_tree *tree,
                                     gram_dtype dtype, const void *x, int64_t rows,
                                     struct machine_places *out)
{
    struct machine_place *open = malloc(((size_t)tree->count + 1) * sizeof *open);
    bool done = open != NULL;

    *out = (struct machine_places){0};
    for (int64_t row = 0; done && row < rows; row++)
        done = place_row(tree, dtype, x, row, open, out);
    free(open);
    if (done && out->count > 0)
        qsort(out->at, (size_t)out->count, sizeof *out->at, by_leaf);
    if (done)
        return GRAM_OK;
    free(out->at);
    *out = (struct machine_places){0};
    return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the leaves of %lld rows",
                     (long long)rows);
}

/* The leading eigenvector of agop, width by width; the first unit vector if there is none. */
static gram_status leading_direction(gram_context *g, int64_t width, double *agop, double *out)
{
    int64_t lwork, liwork;
    size_t bytes;
    double *w;
    int info;

    gram_blas_syevd_sizes(width, &lwork, &liwork);
    bytes = (size_t)(width + lwork) * sizeof(double) + (size_t)liwork * sizeof(int32_t);
    w = gram_alloc(g, bytes);
    if (!w)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    gram_blas_threads(g);
    info = gram_blas_syevd(GRAM_F64, GRAM_LOWER, width, agop, width, w, w + width, lwork,
                           (int32_t *)(w + width + lwork), liwork);
    memset(out, 0, (size_t)width * sizeof *out);
    out[0] = 1;
    if (info == 0 && w[width - 1] > 0)
        memcpy(out, agop + (width - 1) * width, (size_t)width * sizeof *out);
    gram_free(g, w, bytes);
    return GRAM_OK;
}

/* Trains a small machine on a sample of rows and finds the direction of its gradients. */
static gram_status find_direction(gram_context *g, const struct machine_params *params,
                                  const struct machine_data *data, int64_t *rows, int64_t count,
                                  double *direction)
{
    struct machine_params small = *params;
    struct machine_data sample = *data;
    const struct machine_data none = {0};
    struct machine_report report = {0};
    struct machine_leaf leaf = {0};
    int64_t chosen = count < SAMPLE_ROWS ? count : SAMPLE_ROWS, width = data->width;
    size_t size = gram_dtype_size(data->dtype);
    size_t x_bytes = gram_round64((size_t)(chosen * width) * size);
    size_t y_bytes = gram_round64((size_t)(chosen * data->outputs) * size);
    size_t bytes = x_bytes + y_bytes + (size_t)(width * width) * sizeof(double);
    char *memory = gram_alloc(g, bytes);
    double *agop = (double *)(memory + x_bytes + y_bytes);
    uint64_t state = params->seed;
    gram_status status;

    if (!memory)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    gram_random_choose(&state, rows, count, chosen);
    gram_machine_gather(data->dtype, width, data->x, rows, chosen, memory);
    gram_machine_gather_columns(data->dtype, data->rows, data->outputs, data->y, rows, chosen,
                                memory + x_bytes);
    sample.rows = chosen;
    sample.x = memory;
    sample.y = memory + x_bytes;
    sample.weights = NULL;
    small.iterations = 0;
    small.full = true;
    small.start = NULL;
    status = gram_machine_leaf_fit(g, &small, &sample, &none, &leaf, &report);
    sample.x = leaf.x;
    if (status == GRAM_OK)
        status = gram_machine_metric_agop(
            g, &(struct machine_gradients){&small, leaf.bandwidth, &sample, &sample, leaf.alpha},
            &leaf.metric, agop);
    if (status == GRAM_OK)
        status = leading_direction(g, width, agop, direction);
    gram_machine_leaf_destroy(g, &leaf);
    gram_free(g, memory, bytes);
    return status;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* What the splitting works on. */
struct builder {
    const struct machine_params *params;
    const struct machine_data *data;
    int64_t leaf_rows;
    struct machine_tree *tree;
    struct machine_leaf_rows *rows;
    double *places, *sorted; /* of the rows of the part being split */
};

static gram_status add_leaf(gram_context *g, struct builder *b, const int64_t *rows, int64_t count)
{
    int64_t n = b->rows->leaves, used = n > 0 ? b->rows->first[n] : 0;
    int64_t *first = realloc(b->rows->first, (size_t)(n + 2) * sizeof *first);
    int64_t *row = realloc(b->rows->row, (size_t)(used + count + 1) * sizeof *row);

    b->rows->first = first ? first : b->rows->first;
    b->rows->row = row ? row : b->rows->row;
    if (!first || !row)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the rows of a leaf");
    first[n] = used;
    memcpy(row + used, rows, (size_t)count * sizeof *row);
    first[n + 1] = used + count;
    b->rows->leaves++;
    return GRAM_OK;
}

static gram_status add_node(gram_context *g, struct builder *b, int64_t parent, int side)
{
    struct machine_tree *tree = b->tree;
    struct machine_node *node = realloc(tree->node, (size_t)(tree->count + 1) * sizeof *node);
    double *direction = calloc((size_t)tree->width + 1, sizeof *direction);

    tree->node = node ? node : tree->node;
    if (!node || !direction) {
        free(direction);
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a node of the tree");
    }
    node[tree->count++] = (struct machine_node){
        .direction = direction, .parent = parent, .side = side, .low = -1, .high = 1};
    return GRAM_OK;
}

/* Places of the rows on the node's direction, and its low and high; false if they cannot be told
 * apart: then the direction is zero and every row belongs half to each side. */
static bool place_rows(struct builder *b, struct machine_node *node, const int64_t *rows,
                       int64_t count)
{
    int64_t low = (int64_t)((0.5 - overlap) * (double)count);
    int64_t high = (int64_t)((0.5 + overlap) * (double)count);
    int64_t left = 0, right = 0;

    for (int64_t i = 0; i < count; i++)
        b->places[i] = b->sorted[i] =
            place(node, b->data->width, b->data->dtype, b->data->x, rows[i]);
    qsort(b->sorted, (size_t)count, sizeof *b->sorted, by_value);
    node->low = b->sorted[low];
    node->high = b->sorted[high];
    for (int64_t i = 0; i < count; i++) {
        double share = right_share(node, b->places[i]);
        left += share < 1;
        right += share > 0;
    }
    return left <= count * 3 / 4 && right <= count * 3 / 4 && left > 0 && right > 0;
}

/* Makes rows a leaf, or a node whose two parts are split in turn. */
static gram_status split(gram_context *g, struct builder *b, int64_t *rows, int64_t count,
                         int64_t parent, int side)
{
    int64_t at = b->tree->count, room = count + 1;
    int64_t *part = NULL;
    bool told_apart;
    gram_status status;

    if (count <= b->leaf_rows) {
        if (parent >= 0)
            b->tree->node[parent].child[side] = ~b->rows->leaves;
        return add_leaf(g, b, rows, count);
    }
    TRY(add_node(g, b, parent, side));
    if (parent >= 0)
        b->tree->node[parent].child[side] = at;
    TRY(find_direction(g, b->params, b->data, rows, count, b->tree->node[at].direction));
    told_apart = place_rows(b, &b->tree->node[at], rows, count);
    if (!told_apart) {
        memset(b->tree->node[at].direction, 0, (size_t)b->tree->width * sizeof(double));
        b->tree->node[at].low = -1, b->tree->node[at].high = 1;
    }
    part = malloc((size_t)(2 * room) * sizeof *part);
    if (!part)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)count);
    int64_t parts[2] = {0, 0};
    for (int64_t i = 0; i < count; i++) {
        double share = told_apart ? right_share(&b->tree->node[at], b->places[i]) : (double)(i % 2);
        if (share < 1)
            part[parts[0]++] = rows[i];
        if (share > 0)
            part[room + parts[1]++] = rows[i];
    }
    status = split(g, b, part, parts[0], at, 0);
    if (status == GRAM_OK)
        status = split(g, b, part + room, parts[1], at, 1);
    free(part);
    return status;
}

gram_status gram_machine_tree_build(gram_context *g, const struct machine_params *params,
                                    const struct machine_data *data, int64_t leaf_rows,
                                    struct machine_tree *tree, struct machine_leaf_rows *rows)
{
    struct builder b = {
        .params = params, .data = data, .leaf_rows = leaf_rows, .tree = tree, .rows = rows};
    size_t bytes = (size_t)data->rows * sizeof(double);
    int64_t *all = malloc(bytes + 1);
    gram_status status = GRAM_OK;

    *tree = (struct machine_tree){.width = data->width};
    *rows = (struct machine_leaf_rows){0};
    b.places = gram_alloc(g, bytes);
    b.sorted = gram_alloc(g, bytes);
    if (!all || !b.places || !b.sorted)
        status =
            gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)data->rows);
    for (int64_t i = 0; all && i < data->rows; i++)
        all[i] = i;
    if (status == GRAM_OK)
        status = split(g, &b, all, data->rows, -1, 0);
    gram_free(g, b.places, bytes);
    gram_free(g, b.sorted, bytes);
    free(all);
    if (status != GRAM_OK) {
        gram_machine_tree_destroy(tree);
        gram_machine_leaf_rows_destroy(rows);
    }
    return status;
}
