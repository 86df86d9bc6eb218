/*
 * cpu_sample_grad_product.c - gram_sample_grad on the CPU, of linear layers and convolutions: see
 * cpu_sample_grad.h
 *
 * With a part of what goes in as P, features by positions, and of the gradients as G, the gradient
 * is W = G P^T, made a block of G's features at a time, over blocks of positions.  Its norm is that
 * of the blocks, or, without W, sum_st (P^T P)_st (G^T G)_st over tiles of positions ("ghost"), the
 * cheaper one where 2 S^2 <= I O.
 *
 * The sums of the samples' gradients are
 *
 *   sum_n c[n] G[n] P[n]^T = (G c) P^T over the positions of all samples
 *
 * A block of positions of both at a time, the gradients multiplied on the way, is one product that
 * is added to the sum in scratch.  A feature more of P, which is 1, gives the bias.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_sample_grad.h"
#include <math.h>
#include <string.h>

enum {
    WEIGHT_BYTES = 1 << 20, /* of a block of W */
    LEAST_FEATURES = 16,    /* of G in a block of W */
    TILE = 256              /* positions of a tile of products */
};

/* ---- Sums ----------------------------------------------------------------------------------- */

struct sum_plan {
    int64_t cols, positions, count; /* of the sum; of all samples; of a block */
    size_t left_at, right_at, bytes;
};

static struct sum_plan plan_of(const struct cpu_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    size_t size = gram_dtype_size(l->dtype);
    struct sum_plan p = {.cols = l->in + job->op->sum_bias.wanted,
                         .positions = l->samples * l->positions};

    p.count = cpu_layer_block_count(l, gram_most(p.cols, l->out), p.positions);
    p.left_at = gram_round64((size_t)l->out * (size_t)p.cols * size);
    p.right_at = p.left_at + gram_round64((size_t)(p.cols * p.count) * size);
    p.bytes = p.right_at + gram_round64((size_t)(l->out * p.count) * size);
    return p;
}

static gram_status plan_sums(struct cpu_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;

    if ((double)l->out * (double)(l->in + 1) > (double)(INT64_MAX / 64))
        return gram_fail(job->g, GRAM_INVALID_ARGUMENT, "the size of the gradient overflows");
    job->sum_bytes = plan_of(job).bytes;
    return GRAM_OK;
}

static void sum_group(struct cpu_sample_job *job, const struct sum_plan *p, int64_t group)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct cpu_layer_block left = {
        .layer = l, .group = group, .factors = job->factor, .ones = job->op->sum_bias.wanted};
    struct cpu_layer_block right = {
        .layer = l, .group = group, .factors = job->factor, .gradients = true};

    memset(job->sum, 0, p->left_at);
    for (int64_t first = 0; first < p->positions; first += p->count) {
        int64_t count = gram_least(p->count, p->positions - first);
        struct gram_blas_matrix a =
            cpu_layer_block_load(job->g, &left, first, count, job->sum + p->left_at);
        struct gram_blas_matrix d =
            cpu_layer_block_load(job->g, &right, first, count, job->sum + p->right_at);
        d.transposed = !d.transposed;
        gram_blas_threads(job->g);
        gram_blas_gemm(l->dtype, (int64_t[]){p->cols, l->out, count}, 1, a, d, 1, job->sum,
                       p->cols);
    }
}

static void sum_products(struct cpu_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    const struct sum_plan p = plan_of(job);
    struct cpu_layer_store store = {
        .dtype = l->dtype, .rows = l->out, .scale = 1, .add = job->op->accumulate};

    if (l->out == 0 || p.cols == 0)
        return;
    for (int64_t group = 0; group < l->groups; group++) {
        sum_group(job, &p, group);
        store.row = group * l->out;
        store.cols = l->in;
        store.out = &job->op->sum_weight;
        if (store.out->wanted)
            cpu_layer_store(&store, job->sum, p.cols);
        store.cols = 1;
        store.out = &job->op->sum_bias;
        if (store.out->wanted)
            cpu_layer_store(&store, job->sum + (size_t)l->in * gram_dtype_size(l->dtype), p.cols);
    }
}

/* ---- Samples -------------------------------------------------------------------------------- */

/* W can be written where it is wanted: rows of one stride. */
static bool is_direct(const struct gram_layer_output *w, int64_t cols)
{
    int64_t step = w->row.ndim ? w->row.stride[0] : cols;

    return w->wanted && w->row.ndim <= 1 && w->col.ndim <= 1 &&
           (w->col.ndim == 0 || w->col.stride[0] == 1) && step >= cols && step <= INT32_MAX;
}

static gram_status plan_products(struct cpu_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    size_t size = gram_dtype_size(l->dtype), left, right, weight;
    int64_t tile = gram_least(TILE, l->positions), bytes = l->in * (int64_t)size;

    if (!gram_blas_fits(l->in + 1, l->out, l->positions) || l->in > INT64_MAX / 64)
        return gram_fail(job->g, GRAM_INVALID_ARGUMENT,
                         "a layer of %lld by %lld and %lld positions is too large for BLAS",
                         (long long)l->in, (long long)l->out, (long long)l->positions);
    job->ghost = gram_sample_grad_is_ghost(job->op);
    job->direct = is_direct(&job->op->weight, l->in);
    job->positions = job->ghost ? tile : cpu_layer_block_count(l, l->in, l->positions);
    job->features = gram_most(bytes > 0 ? WEIGHT_BYTES / bytes : l->out, LEAST_FEATURES);
    job->features = gram_least(job->features, l->out);
    left = gram_round64((size_t)(l->in * job->positions) * size);
    right =
        gram_round64((size_t)(job->ghost ? l->out : job->features) * (size_t)job->positions * size);
    weight = job->ghost    ? gram_round64((size_t)(tile * tile) * size)
             : job->direct ? 0
                           : gram_round64((size_t)(job->features * l->in) * size);
    /* ghost: P of two tiles, G of two tiles, two products */
    job->left_at = 0;
    job->right_at = (job->ghost ? 2 : 1) * left;
    job->weight_at = job->right_at + (job->ghost ? 2 : 1) * right;
    job->second_at = job->weight_at + weight;
    job->doubles_at = job->second_at + (job->ghost ? weight : 0);
    job->thread_bytes = job->each ? job->doubles_at + 2 * (size_t)l->out * sizeof(double) : 0;
    return job->sums ? plan_sums(job) : GRAM_OK;
}

static struct cpu_layer_part part_of(const struct cpu_sample_job *job, bool gradients,
                                     int64_t sample, int64_t group)
{
    const struct gram_layer_op *l = &job->op->layer;

    return (struct cpu_layer_part){.layer = l,
                                   .gradients = gradients,
                                   .sample = sample,
                                   .group = group,
                                   .features = gradients ? l->out : l->in,
                                   .positions = l->positions};
}

/* The sum of squares of rows by cols numbers. */
static double sum_squares(gram_dtype dtype, const void *w, int64_t ld, int64_t rows, int64_t cols)
{
    double sum = 0;

    for (int64_t i = 0; i < rows; i++) {
        const float *f = (const float *)w + i * ld;
        const double *d = (const double *)w + i * ld;
        double row = 0;
        for (int64_t j = 0; j < cols; j++) {
            double v = dtype == GRAM_F32 ? (double)f[j] : d[j];
            row += v * v;
        }
        sum += row;
    }
    return sum;
}

/* A block of W and where it goes: features of G from first on. */
struct weight_block {
    int64_t sample, group, first, count;
    void *left, *right; /* scratch */
    void *w;
    int64_t ld;
    bool keep_left; /* left holds P already */
};

static void multiply(const struct cpu_sample_job *job, const struct weight_block *b)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct cpu_layer_part p = part_of(job, false, b->sample, b->group);
    struct cpu_layer_part d = part_of(job, true, b->sample, b->group);
    struct gram_blas_matrix left = {b->left, l->positions, true}, right;

    d.feature = b->first;
    d.features = b->count;
    for (int64_t t = 0; t < l->positions; t += job->positions) {
        int64_t mnk[3] = {l->in, b->count, gram_least(job->positions, l->positions - t)};
        p.position = d.position = t;
        p.positions = d.positions = mnk[2];
        if (!b->keep_left)
            left = cpu_layer_load(&p, b->left);
        right = cpu_layer_load(&d, b->right);
        right.transposed = !right.transposed;
        gram_blas_gemm(l->dtype, mnk, job->op->scale, left, right, t > 0, b->w, b->ld);
    }
    for (int64_t i = 0; l->positions == 0 && i < b->count; i++)
        memset((char *)b->w + (size_t)(i * b->ld) * gram_dtype_size(l->dtype), 0,
               (size_t)l->in * gram_dtype_size(l->dtype));
}

/* A sample's W of one group, block by block, stored where it is wanted; returns |W|^2. */
static double by_blocks(const struct cpu_sample_job *job, int64_t sample, int64_t group, int thread)
{
    const struct gram_layer_op *l = &job->op->layer;
    const struct gram_layer_output *out = &job->op->weight;
    struct weight_block b = {.sample = sample,
                             .group = group,
                             .left = cpu_sample_at(job, thread, job->left_at),
                             .right = cpu_sample_at(job, thread, job->right_at),
                             .w = cpu_sample_at(job, thread, job->weight_at),
                             .ld = l->in};
    double square = 0;

    for (; b.first < l->out; b.first += b.count) {
        int64_t row = group * l->out + b.first;
        b.count = gram_least(job->features, l->out - b.first);
        if (job->direct) {
            b.ld = out->row.ndim ? out->row.stride[0] : l->in;
            b.w = out->data +
                  (sample * out->sample_stride + row * b.ld) * (int64_t)gram_dtype_size(l->dtype);
        }
        multiply(job, &b);
        b.keep_left = l->patches && job->positions == l->positions;
        if (job->squares)
            square += sum_squares(l->dtype, b.w, b.ld, b.count, l->in);
        if (out->wanted && !job->direct) {
            const struct cpu_layer_store store = {.out = out,
                                                  .dtype = l->dtype,
                                                  .sample = sample,
                                                  .row = row,
                                                  .rows = b.count,
                                                  .cols = l->in,
                                                  .scale = 1};
            cpu_layer_store(&store, b.w, b.ld);
        }
    }
    return square;
}

/* sum_ij x[i][j] y[i][j] of two tiles; symmetric: of two lower triangles (of BLAS), twice but for
 * the diagonal. */
static double dot_tiles(gram_dtype dtype, const void *x, const void *y, const int64_t size[2],
                        bool symmetric)
{
    double sum = 0, diagonal = 0;

    for (int64_t j = 0; j < size[1]; j++) {
        int64_t first = symmetric ? j + 1 : 0, at = j * size[0];
        double column = 0;
        for (int64_t i = first; i < size[0]; i++)
            column += dtype == GRAM_F32
                          ? (double)((const float *)x)[at + i] * (double)((const float *)y)[at + i]
                          : ((const double *)x)[at + i] * ((const double *)y)[at + i];
        sum += column;
        if (symmetric)
            diagonal +=
                dtype == GRAM_F32
                    ? (double)((const float *)x)[at + j] * (double)((const float *)y)[at + j]
                    : ((const double *)x)[at + j] * ((const double *)y)[at + j];
    }
    return symmetric ? 2 * sum + diagonal : sum;
}

/* The product of two tiles of one side, rows[0] by rows[1] positions. */
static void multiply_tiles(const struct cpu_layer_part *p, const int64_t first[2],
                           const int64_t size[2], char *scratch, void *product)
{
    const struct gram_layer_op *l = p->layer;
    size_t half = gram_round64((size_t)(p->features * gram_least(TILE, l->positions)) *
                               gram_dtype_size(l->dtype));
    struct cpu_layer_part part = *p;
    struct gram_blas_matrix left, right;
    const int64_t mnk[3] = {size[0], size[1], p->features};

    part.position = first[0], part.positions = size[0];
    left = cpu_layer_load(&part, scratch);
    left.transposed = !left.transposed;
    if (p->features == 0) {
        memset(product, 0, (size_t)(size[0] * size[1]) * gram_dtype_size(l->dtype));
    } else if (first[0] == first[1]) {
        gram_blas_syrk(l->dtype, GRAM_LOWER, size[0], p->features, 1, left, 0, product, size[0]);
    } else {
        part.position = first[1], part.positions = size[1];
        right = cpu_layer_load(&part, scratch + half);
        gram_blas_gemm(l->dtype, mnk, 1, left, right, 0, product, size[0]);
    }
}

/* |W|^2 of one group without W. */
static double by_ghosts(const struct cpu_sample_job *job, int64_t sample, int64_t group, int thread)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct cpu_layer_part p = part_of(job, false, sample, group);
    struct cpu_layer_part d = part_of(job, true, sample, group);
    void *x = cpu_sample_at(job, thread, job->weight_at);
    void *y = cpu_sample_at(job, thread, job->second_at);
    double square = 0;

    for (int64_t i = 0; i < l->positions; i += TILE)
        for (int64_t j = 0; j <= i; j += TILE) {
            const int64_t first[2] = {i, j};
            const int64_t size[2] = {gram_least(TILE, l->positions - i),
                                     gram_least(TILE, l->positions - j)};
            double part;
            multiply_tiles(&p, first, size, cpu_sample_at(job, thread, job->left_at), x);
            multiply_tiles(&d, first, size, cpu_sample_at(job, thread, job->right_at), y);
            part = dot_tiles(l->dtype, x, y, size, i == j);
            square += i == j ? part : 2 * part;
        }
    square *= job->op->scale * job->op->scale;
    return square < 0 ? 0 : square; /* what rounding leaves of 0; NaN stays */
}

/* A sample's gradient of the bias of one group, stored where it is wanted; returns its square. */
static double sum_bias(const struct cpu_sample_job *job, int64_t sample, int64_t group, int thread)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct cpu_layer_part d = part_of(job, true, sample, group);
    double *sums = cpu_sample_at(job, thread, job->doubles_at), square = 0;

    cpu_layer_sums(&d, sums);
    for (int64_t o = 0; o < l->out; o++) {
        sums[o] *= job->op->scale;
        square += sums[o] * sums[o];
    }
    if (job->op->bias.wanted) {
        const struct cpu_layer_store store = {.out = &job->op->bias,
                                              .dtype = l->dtype,
                                              .sample = sample,
                                              .row = group * l->out,
                                              .rows = l->out,
                                              .cols = 1,
                                              .scale = 1};
        cpu_sample_round(l->dtype, sums, l->out, 1, sums + l->out);
        cpu_layer_store(&store, sums + l->out, 1);
    }
    return square;
}

static void each_products(void *arg, int64_t sample, int thread)
{
    const struct cpu_sample_job *job = arg;
    const struct gram_layer_op *l = &job->op->layer;
    double square = 0;

    for (int64_t group = 0; group < l->groups; group++) {
        if (l->in > 0 && l->out > 0 && job->ghost && job->squares)
            square += by_ghosts(job, sample, group, thread);
        else if (l->in > 0 && l->out > 0 && (job->op->weight.wanted || job->squares))
            square += by_blocks(job, sample, group, thread);
        if (l->out > 0 && (job->op->bias.wanted || (job->squares && l->bias))) {
            double bias = sum_bias(job, sample, group, thread);
            square += l->bias ? bias : 0;
        }
    }
    job->square[sample] = square;
}

const struct cpu_sample_family cpu_sample_products = {plan_products, each_products, sum_products};
