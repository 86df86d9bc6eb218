/*
 * reference_shampoo.c - Shampoo, one parameter, straight from the formulas in gram.h
 *
 * Every element knows its block and its coordinates there; sums go over all pairs of elements.
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct block {
    int64_t count, *element; /* of the parameter, in row-major order of the block */
    int64_t size[GRAM_MAX_DIMS];
    double *factor[GRAM_MAX_DIMS], *root[GRAM_MAX_DIMS];
    double *m, *v, *b;
    int64_t taken; /* gradients that its factors have */
};

struct reference_shampoo {
    gram_optimizer_options o;
    int order;
    int64_t merged[GRAM_MAX_DIMS], count, blocks, number, t;
    struct block *block;
};

/* ---- Shapes ------------------------------------------------------------------------------- */

static void merge(struct reference_shampoo *r, int ndim, const int64_t *shape)
{
    int64_t kept[GRAM_MAX_DIMS], current = 0;
    int count = 0;

    for (int i = ndim - 1; i >= 0; i--) { /* from the right: kept is in reverse */
        if (r->o.merge && shape[i] == 1)
            continue;
        if (r->o.merge && current > 0 && current * shape[i] <= r->o.block) {
            current *= shape[i];
            kept[count - 1] = current;
        } else {
            kept[count++] = current = shape[i];
        }
    }
    if (count == 0)
        kept[count++] = 1;
    r->order = count;
    for (int i = 0; i < count; i++)
        r->merged[i] = kept[count - 1 - i];
}

/* The block of a coordinate, numbered in row-major order; with its place in the block. */
static int64_t block_of(const struct reference_shampoo *r, int64_t element)
{
    int64_t coordinate[GRAM_MAX_DIMS], number = 0;

    for (int i = r->order - 1; i >= 0; i--) {
        coordinate[i] = element % r->merged[i];
        element /= r->merged[i];
    }
    for (int i = 0; i < r->order; i++) {
        int64_t pieces = (r->merged[i] + r->o.block - 1) / r->o.block;
        number = number * pieces + coordinate[i] / r->o.block;
    }
    return number;
}

static double *zeros(int64_t count)
{
    double *array = calloc((size_t)count + 1, sizeof *array);

    if (!array)
        exit(2); /* a test without memory */
    return array;
}

static void shape_block(struct reference_shampoo *r, int64_t number)
{
    struct block *b = &r->block[number];
    int64_t rest = number;

    for (int i = r->order - 1; i >= 0; i--) {
        int64_t pieces = (r->merged[i] + r->o.block - 1) / r->o.block, at = rest % pieces;
        int64_t left = r->merged[i] - at * r->o.block;
        b->size[i] = left < r->o.block ? left : r->o.block;
        rest /= pieces;
    }
    b->element = malloc((size_t)r->count * sizeof *b->element + 1);
    if (!b->element)
        exit(2);
    for (int64_t e = 0; e < r->count; e++)
        if (block_of(r, e) == number)
            b->element[b->count++] = e;
    for (int k = 0; k < r->order; k++) {
        b->factor[k] = zeros(b->size[k] * b->size[k]);
        b->root[k] = zeros(b->size[k] * b->size[k]);
        for (int64_t i = 0; i < b->size[k]; i++)
            b->root[k][i * b->size[k] + i] = 1;
    }
    b->m = zeros(b->count);
    b->v = zeros(b->count);
    b->b = zeros(b->count);
}

struct reference_shampoo *reference_shampoo_create(const gram_optimizer_options *options, int ndim,
                                                   const int64_t *shape, int64_t number)
{
    struct reference_shampoo *r = calloc(1, sizeof *r);

    if (!r)
        exit(2);
    r->o = *options;
    r->number = number;
    r->count = 1;
    for (int i = 0; i < ndim; i++)
        r->count *= shape[i];
    if (r->count == 0)
        return r;
    merge(r, ndim, shape);
    r->blocks = block_of(r, r->count - 1) + 1;
    r->block = calloc((size_t)r->blocks, sizeof *r->block);
    if (!r->block)
        exit(2);
    for (int64_t i = 0; i < r->blocks; i++)
        shape_block(r, i);
    return r;
}

void reference_shampoo_destroy(struct reference_shampoo *r)
{
    for (int64_t i = 0; i < r->blocks; i++) {
        struct block *b = &r->block[i];
        for (int k = 0; k < r->order; k++) {
            free(b->factor[k]);
            free(b->root[k]);
        }
        free(b->element);
        free(b->m);
        free(b->v);
        free(b->b);
    }
    free(r->block);
    free(r);
}

int64_t reference_shampoo_blocks(const struct reference_shampoo *r)
{
    return r->blocks;
}

double reference_shampoo_matrix(const struct reference_shampoo *r, int64_t block, int k, bool root,
                                int64_t i, int64_t j)
{
    const struct block *b = &r->block[block];

    return (root ? b->root : b->factor)[k][i * b->size[k] + j];
}

/* ---- A step ------------------------------------------------------------------------------- */

/* Elements e of a block with coordinate i of dimension k: e = (before n + i) after + behind. */
static int64_t after(const struct reference_shampoo *r, const struct block *b, int k)
{
    int64_t product = 1;

    for (int i = k + 1; i < r->order; i++)
        product *= b->size[i];
    return product;
}

static void update_factor(const struct reference_shampoo *r, struct block *b, int k,
                          const double *g)
{
    int64_t n = b->size[k], behind = after(r, b, k), others = b->count / n;
    double beta = r->o.beta2, take = beta == 1 ? 1 : 1 - beta;

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t other = 0; other < others; other++) {
                int64_t base = other / behind * n * behind + other % behind;
                sum += g[base + i * behind] * g[base + j * behind];
            }
            b->factor[k][i * n + j] = beta * b->factor[k][i * n + j] + take * sum;
        }
}

static void take_root(const struct reference_shampoo *r, struct block *b, int k)
{
    int64_t n = b->size[k];
    double correction = 1, e = r->o.exponent > 0 ? r->o.exponent : 1.0 / (2 * r->order);
    struct reference_matrix_power power = {
        n, -(int)lround(e * 5040), 5040, r->o.epsilon, r->o.epsilon_relative != 0, true, 0, 0};
    long double *a = malloc((size_t)(n * n) * 4 * sizeof *a);

    if (!a)
        exit(2);
    if (r->o.bias_correction && r->o.beta2 < 1)
        correction = 1 - pow(r->o.beta2, (double)b->taken);
    for (int64_t i = 0; i < n * n; i++)
        a[i] = b->factor[k][i] / correction;
    reference_matrix_power(&power, a, a + n * n, a + 3 * n * n, a + 2 * n * n);
    for (int64_t i = 0; i < n * n; i++)
        b->root[k][i] = (double)a[2 * n * n + i];
    free(a);
}

static void apply_root(const struct reference_shampoo *r, const struct block *b, int k, double *p)
{
    int64_t n = b->size[k], behind = after(r, b, k);
    double *to = zeros(b->count);

    for (int64_t e = 0; e < b->count; e++) {
        int64_t base = e / (n * behind) * n * behind + e % behind, i = e / behind % n;
        for (int64_t j = 0; j < n; j++)
            to[e] += b->root[k][i * n + j] * p[base + j * behind];
    }
    memcpy(p, to, (size_t)b->count * sizeof *p);
    free(to);
}

static double norm(int64_t n, const double *x)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* The graft's step from filtered gradients f; V takes g in first. */
static void graft(const struct reference_shampoo *r, struct block *b, const double *g,
                  const double *f, double *to)
{
    double beta = r->o.graft_beta2;

    for (int64_t i = 0; i < b->count; i++) {
        double v = 0;
        to[i] = f[i];
        if (r->o.graft <= GRAM_GRAFT_SGD)
            continue;
        if (r->o.graft == GRAM_GRAFT_ADAGRAD)
            v = b->v[i] += g[i] * g[i];
        else
            v = b->v[i] = beta * b->v[i] + (1 - beta) * g[i] * g[i];
        if (r->o.graft == GRAM_GRAFT_ADAM)
            v /= 1 - pow(beta, (double)r->t);
        if (f[i] != 0)
            to[i] = f[i] / (sqrt(v) + r->o.graft_epsilon);
    }
}

/* f: the filtered gradient; M takes g in. */
static void filter(const struct reference_shampoo *r, struct block *b, const double *g, double *f)
{
    double b1 = r->o.beta1, b3 = r->o.beta3 < 0 ? b1 : r->o.beta3;

    for (int64_t i = 0; i < b->count; i++) {
        f[i] = b3 * b->m[i] + (1 - b3) * g[i];
        b->m[i] = b1 * b->m[i] + (1 - b1) * g[i];
        if (r->o.bias_correction)
            f[i] /= 1 - b3 * pow(b1, (double)r->t - 1);
    }
}

static bool due(const struct reference_shampoo *r, int64_t block)
{
    int64_t start = r->o.start ? r->o.start : r->o.refresh;
    int64_t number = r->o.stagger ? r->number + block : 0;

    return r->t == start || (r->t > start && (r->t + number) % r->o.refresh == 0);
}

static void precondition(const struct reference_shampoo *r, struct block *b, const double *f,
                         const double *grafted, double *p)
{
    int64_t start = r->o.start ? r->o.start : r->o.refresh;

    memcpy(p, r->t < start ? grafted : f, (size_t)b->count * sizeof *p);
    if (r->t < start)
        return;
    for (int k = 0; k < r->order; k++)
        apply_root(r, b, k, p);
    if (r->o.graft != GRAM_GRAFT_NONE) {
        double scale = norm(b->count, grafted) / (norm(b->count, p) + 1e-16);
        for (int64_t i = 0; i < b->count; i++)
            p[i] *= scale;
    }
}

static void finish(const struct reference_shampoo *r, struct block *b, const double *w, double *p)
{
    for (int64_t i = 0; i < b->count; i++) {
        if (r->o.decay == GRAM_DECAY_DECOUPLED)
            p[i] += r->o.weight_decay * w[i];
        if (r->o.momentum > 0) {
            b->b[i] = r->o.momentum * b->b[i] + (1 - r->o.dampening) * p[i];
            p[i] = r->o.nesterov ? p[i] + r->o.momentum * b->b[i] : b->b[i];
        }
    }
}

static void step_block(const struct reference_shampoo *r, int64_t number, const double *w,
                       const double *g, double *p)
{
    struct block *b = &r->block[number];
    double *own = zeros(5 * b->count), *bw = own + b->count, *f = own + 2 * b->count,
           *grafted = own + 3 * b->count, *bp = own + 4 * b->count;
    const bool takes = r->t == 1 || r->t % r->o.statistics == 0;

    for (int64_t i = 0; i < b->count; i++) {
        bw[i] = w[b->element[i]];
        own[i] = g[b->element[i]];
        if (r->o.decay == GRAM_DECAY_L2)
            own[i] += r->o.weight_decay * bw[i];
    }
    b->taken += takes;
    for (int k = 0; k < r->order; k++) {
        if (takes)
            update_factor(r, b, k, own);
        if (due(r, number))
            take_root(r, b, k);
    }
    filter(r, b, own, f);
    graft(r, b, own, f, grafted);
    precondition(r, b, f, grafted, bp);
    finish(r, b, bw, bp);
    for (int64_t i = 0; i < b->count; i++)
        p[b->element[i]] = bp[i];
    free(own);
}

void reference_shampoo_direction(struct reference_shampoo *r, const double *w, const double *g,
                                 double *p)
{
    memset(p, 0, (size_t)r->count * sizeof *p);
    if (!g)
        return;
    r->t++;
    for (int64_t i = 0; i < r->blocks; i++)
        step_block(r, i, w, g, p);
}
