/*
 * machine_tree.c - rows split in halves along directions in which the target changes
 *
 * The direction is the leading eigenvector of the average gradient outer product G of a small
 * machine trained on a sample of the rows (as in xRFM, arXiv:2508.10053).  It has no metric: with
 * that of a first round of feature learning, whose directions are sharper, the leaves predict new
 * rows worse.  Rows near the median go to both sides, so that the leaves agree where they meet.
 *
 * Of several trees, all but the first have directions drawn from a normal distribution with the
 * covariance G, so that they differ in their splits, and split most where the target changes most.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/random.h"
#include "core/threads.h"
#include "machine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE_ROWS = 3000,   /* for the direction: one small factorisation */
    ROWS_AT_A_TIME = 1024 /* whose places a thread finds */
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

/* A number from the standard normal distribution (Box and Muller, 1958). */
static double normal(uint64_t *state)
{
    const double u = 1 - gram_random_unit(state), v = gram_random_unit(state);

    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* The sum of eigenvectors, each times the root of its eigenvalue and a normal number. */
static void draw_direction(int64_t width, const double *vectors, const double *values,
                           uint64_t *state, double *out)
{
    double squares = 0;

    memset(out, 0, (size_t)width * sizeof *out);
    for (int64_t k = 0; k < width; k++) {
        const double factor = normal(state) * sqrt(fmax(values[k], 0));

        for (int64_t j = 0; j < width; j++)
            out[j] += factor * vectors[k * width + j];
    }
    for (int64_t j = 0; j < width; j++)
        squares += out[j] * out[j];
    for (int64_t j = 0; squares > 0 && j < width; j++)
        out[j] /= sqrt(squares);
}

/* The leading eigenvector of agop, width by width, or a direction that is drawn if state is not
 * NULL; the first unit vector if there is none.  agop becomes its eigenvectors. */
static gram_status direction_of(gram_context *g, int64_t width, double *agop, uint64_t *state,
                                double *out)
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
    if (info == 0 && w[width - 1] > 0 && state)
        draw_direction(width, agop, w, state, out);
    else if (info == 0 && w[width - 1] > 0)
        memcpy(out, agop + (width - 1) * width, (size_t)width * sizeof *out);
    gram_free(g, w, bytes);
    return GRAM_OK;
}

/* Some rows of data, drawn, without their weights. */
struct sample {
    struct machine_data data;
    char *memory;
    size_t bytes;
};

static gram_status sample_open(gram_context *g, const struct machine_data *data, uint64_t seed,
                               int64_t *rows, int64_t count, struct sample *s)
{
    const size_t size = gram_dtype_size(data->dtype);
    const int64_t chosen = count < SAMPLE_ROWS ? count : SAMPLE_ROWS;
    const size_t x = gram_round64((size_t)(chosen * data->width) * size);

    *s = (struct sample){.data = *data, .bytes = x + (size_t)(chosen * data->outputs) * size};
    s->memory = gram_alloc(g, s->bytes);
    if (!s->memory)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", s->bytes);
    gram_random_choose(&seed, rows, count, chosen);
    gram_machine_gather(data->dtype, data->width, data->x, rows, chosen, s->memory);
    gram_machine_gather_columns(data->dtype, data->rows, data->outputs, data->y, rows, chosen,
                                s->memory + x);
    s->data.rows = chosen;
    s->data.x = s->memory;
    s->data.y = s->memory + x;
    s->data.weights = NULL;
    return GRAM_OK;
}

static void sample_close(gram_context *g, struct sample *s)
{
    gram_free(g, s->memory, s->bytes);
}

/* What the splitting works on. */
struct builder {
    const struct machine_params *params;
    const struct machine_data *data;
    int64_t leaf_rows;
    struct machine_tree *tree;
    struct machine_leaf_rows *rows;
    double *places, *sorted, *scratch; /* of the rows of the part being split */
    uint64_t seed;                     /* of the tree's samples */
    bool drawn;                        /* its directions are; else they are the leading ones */
    uint64_t random;                   /* of drawn directions */
};

/* Trains a small machine on a sample of rows and finds the direction of its gradients. */
static gram_status find_direction(gram_context *g, struct builder *b, int64_t *rows, int64_t count,
                                  double *direction)
{
    struct machine_params small = *b->params;
    const struct machine_data none = {0};
    struct machine_report report = {0};
    struct machine_leaf leaf = {0};
    const int64_t width = b->data->width;
    const size_t bytes = (size_t)(width * width) * sizeof(double);
    struct sample sample;
    double *agop = NULL;
    gram_status status = sample_open(g, b->data, b->seed, rows, count, &sample);

    small.iterations = 0;
    small.full = true;
    small.ard = false;
    small.start = NULL;
    if (status == GRAM_OK)
        status = gram_machine_leaf_fit(g, &small, &sample.data, &none, &leaf, &report);
    sample.data.x = leaf.x;
    if (status == GRAM_OK && !(agop = gram_alloc(g, bytes)))
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    if (status == GRAM_OK)
        status = gram_machine_metric_agop(g,
                                          &(struct machine_gradients){&small, leaf.bandwidth,
                                                                      &sample.data, &sample.data,
                                                                      leaf.alpha},
                                          &leaf.metric, agop);
    if (status == GRAM_OK)
        status = direction_of(g, width, agop, b->drawn ? &b->random : NULL, direction);
    gram_machine_leaf_destroy(g, &leaf);
    gram_free(g, agop, bytes);
    sample_close(g, &sample);
    return status;
}

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

/* Rows whose places on a node's direction are found. */
struct placing {
    const struct builder *b;
    const struct machine_node *node;
    const int64_t *rows;
    int64_t count;
};

static void place_some(void *arg, int64_t index, int thread)
{
    const struct placing *p = arg;
    const struct machine_data *data = p->b->data;
    const int64_t first = index * ROWS_AT_A_TIME;
    const int64_t end = gram_least(first + ROWS_AT_A_TIME, p->count);

    (void)thread;
    for (int64_t i = first; i < end; i++)
        p->b->places[i] = p->b->sorted[i] =
            gram_machine_node_place(p->node, data->width, data->dtype, data->x, p->rows[i]);
}

/* Places of the rows on the node's direction, and its low and high; false if they cannot be told
 * apart: then the direction is zero and every row belongs half to each side. */
static bool place_rows(gram_context *g, struct builder *b, struct machine_node *node,
                       const int64_t *rows, int64_t count)
{
    struct placing placing = {b, node, rows, count};
    int64_t low = (int64_t)((0.5 - overlap) * (double)count);
    int64_t high = (int64_t)((0.5 + overlap) * (double)count);
    int64_t left = 0, right = 0;

    gram_for(g, (double)(count * b->data->width), gram_ceil_div(count, ROWS_AT_A_TIME), place_some,
             &placing);
    gram_sort_numbers(b->sorted, count, b->scratch);
    node->low = b->sorted[low];
    node->high = b->sorted[high];
    node->scale = b->sorted[count * 3 / 4] - b->sorted[count / 4];
    for (int64_t i = 0; i < count; i++) {
        double share = gram_machine_node_share(node, 0, b->places[i]);
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
    TRY(find_direction(g, b, rows, count, b->tree->node[at].direction));
    told_apart = place_rows(g, b, &b->tree->node[at], rows, count);
    if (!told_apart) {
        memset(b->tree->node[at].direction, 0, (size_t)b->tree->width * sizeof(double));
        b->tree->node[at].low = -1, b->tree->node[at].high = 1;
        b->tree->node[at].scale = 0;
    }
    part = malloc((size_t)(2 * room) * sizeof *part);
    if (!part)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)count);
    int64_t parts[2] = {0, 0};
    for (int64_t i = 0; i < count; i++) {
        double share = told_apart ? gram_machine_node_share(&b->tree->node[at], 0, b->places[i])
                                  : (double)(i % 2);
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

/* One tree after the other. */
static gram_status build(gram_context *g, struct builder *b, int trees, int64_t *all)
{
    const int64_t rows = b->data->rows;

    for (int64_t i = 0; i < rows; i++)
        all[i] = i;
    b->seed = b->params->seed;
    if (rows <= b->leaf_rows)
        return split(g, b, all, rows, -1, 0);
    for (int t = 0; t < trees; t++) {
        b->random = b->seed ^ 0x7472656573u;
        b->drawn = t > 0;
        b->tree->root[b->tree->trees++] = b->tree->count;
        TRY(split(g, b, all, rows, -1, 0));
        b->seed = gram_random(&b->random);
    }
    return GRAM_OK;
}

gram_status gram_machine_tree_build(gram_context *g, const struct machine_params *params,
                                    const struct machine_data *data, int64_t leaf_rows, int trees,
                                    struct machine_tree *tree, struct machine_leaf_rows *rows)
{
    struct builder b = {
        .params = params, .data = data, .leaf_rows = leaf_rows, .tree = tree, .rows = rows};
    size_t bytes = (size_t)data->rows * sizeof(double);
    int64_t *all = malloc(bytes + 1);
    gram_status status = GRAM_OK;

    *tree = (struct machine_tree){.width = data->width};
    *rows = (struct machine_leaf_rows){0};
    b.places = gram_alloc(g, 3 * bytes);
    b.sorted = b.places + data->rows;
    b.scratch = b.sorted + data->rows;
    if (!all || !b.places)
        status =
            gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)data->rows);
    if (status == GRAM_OK)
        status = build(g, &b, trees, all);
    gram_free(g, b.places, 3 * bytes);
    free(all);
    if (status != GRAM_OK) {
        gram_machine_tree_destroy(tree);
        gram_machine_leaf_rows_destroy(rows);
    }
    return status;
}
