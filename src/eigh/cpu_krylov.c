/*
 * cpu_krylov.c - the Krylov solver's tall matrices on the CPU, and products of a stored matrix
 *
 * A stored symmetric matrix is cut into square blocks on one side of its diagonal; each is read
 * from memory once and used twice, as itself and transposed (symmetric_tile.h), so a product moves
 * half the matrix.  Blocks are dealt to a fixed number of parts with a sum of their own each, which
 * are added up at the end: the same result for any number of threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_krylov.h"
#include "core/blas.h"
#include "core/random.h"
#include "core/threads.h"
#include "cpu/cpu_kernels.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    PARTS = 6,       /* of sums over n */
    TURN_ROWS = 512, /* of V that are turned at a time */
    EDGE = 256       /* of a block: x and y of its columns take 32 KiB */
};

/* ---- Numbers of the dtype and doubles -------------------------------------------------------- */

static double get(const struct krylov *z, const char *from, int64_t i)
{
    return z->dtype == GRAM_F32 ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

static void put(const struct krylov *z, char *to, int64_t i, double value)
{
    if (z->dtype == GRAM_F32)
        ((float *)to)[i] = (float)value;
    else
        ((double *)to)[i] = value;
}

static size_t bytes_of(const struct krylov *z, int64_t elements)
{
    return (size_t)elements * z->element;
}

/* The small matrix of a part, of most by block elements at least. */
static char *small_of(const struct krylov *z, int64_t part)
{
    return z->small + (size_t)part * gram_round64(bytes_of(z, z->most * z->block));
}

/* Rows of a part. */
static void part_rows(const struct krylov *z, int64_t part, int64_t *first, int64_t *rows)
{
    int64_t each = gram_ceil_div(z->n, PARTS);

    *first = gram_least(part * each, z->n);
    *rows = gram_least(each, z->n - *first);
}

/* ---- Sums over rows -------------------------------------------------------------------------- */

/* One product of a tall matrix with another. */
struct tall {
    const struct krylov *z;
    int64_t dim, cols;
    bool own; /* W^T W instead of V^T W */
};

static void project_part(void *arg, int64_t part, int thread)
{
    const struct tall *job = arg;
    const struct krylov *z = job->z;
    int64_t first, rows, ld = job->own ? job->cols : z->most;
    struct gram_blas_matrix left, right;

    (void)thread;
    part_rows(z, part, &first, &rows);
    left = (struct gram_blas_matrix){(job->own ? z->w : z->v) + bytes_of(z, first * ld), ld, false};
    right = (struct gram_blas_matrix){z->w + bytes_of(z, first * job->cols), job->cols, true};
    gram_blas_gemm(z->dtype, (int64_t[3]){job->dim, job->cols, rows}, 1, left, right, 0,
                   small_of(z, part), job->dim);
}

static void project(const struct tall *job, double *h)
{
    const struct krylov *z = job->z;

    if (job->dim == 0)
        return;
    gram_blas_for(z->g, PARTS, project_part, (void *)job);
    for (int64_t i = 0; i < job->dim * job->cols; i++) {
        h[i] = get(z, small_of(z, 0), i);
        for (int64_t part = 1; part < PARTS; part++)
            h[i] += get(z, small_of(z, part), i);
    }
}

static void project_out(const struct krylov *z, int64_t dim, int64_t cols, double *h)
{
    project(&(struct tall){z, dim, cols, false}, h);
}

static void gram_of(const struct krylov *z, int64_t cols, double *gram)
{
    project(&(struct tall){z, cols, cols, true}, gram);
}

static void subtract_part(void *arg, int64_t part, int thread)
{
    const struct tall *job = arg;
    const struct krylov *z = job->z;
    const struct gram_blas_matrix h = {small_of(z, 0), job->dim, true};
    int64_t first, rows;

    (void)thread;
    part_rows(z, part, &first, &rows);
    gram_blas_gemm(z->dtype, (int64_t[3]){job->cols, rows, job->dim}, -1, h,
                   (struct gram_blas_matrix){z->v + bytes_of(z, first * z->most), z->most, false},
                   1, z->w + bytes_of(z, first * job->cols), job->cols);
}

static void subtract(const struct krylov *z, int64_t dim, int64_t cols, const double *h)
{
    struct tall job = {z, dim, cols, false};

    if (dim == 0)
        return;
    for (int64_t i = 0; i < dim * cols; i++)
        put(z, small_of(z, 0), i, h[i]);
    gram_blas_for(z->g, PARTS, subtract_part, &job);
}

/* ---- Columns --------------------------------------------------------------------------------- */

static gram_status append(struct krylov *z, int64_t at)
{
    for (int64_t row = 0; row < z->n; row++)
        memcpy(z->v + bytes_of(z, row * z->most + at), z->q + bytes_of(z, row * z->width),
               bytes_of(z, z->width));
    return GRAM_OK;
}

static gram_status extract(struct krylov *z, int64_t at, int64_t cols)
{
    for (int64_t row = 0; row < z->n; row++)
        memcpy(z->q + bytes_of(z, row * cols), z->v + bytes_of(z, row * z->most + at),
               bytes_of(z, cols));
    return GRAM_OK;
}

static gram_status residuals_of(struct krylov *z, int64_t at, int64_t cols, double *values,
                                double *residuals)
{
    for (int64_t c = 0; c < cols; c++) {
        double value = 0, length = 0, sum = 0;
        for (int64_t row = 0; row < z->n; row++) {
            double v = get(z, z->v, row * z->most + at + c);
            value += v * get(z, z->w, row * cols + c);
            length += v * v;
        }
        value /= length;
        for (int64_t row = 0; row < z->n; row++) {
            double r = get(z, z->w, row * cols + c) - value * get(z, z->v, row * z->most + at + c);
            sum += r * r;
        }
        values[c] = value;
        residuals[c] = sqrt(sum / length);
    }
    return GRAM_OK;
}

static gram_status turn(struct krylov *z, int64_t dim, int64_t cols, const double *s)
{
    char *turned = z->w, *rotation = z->small;
    int64_t most_rows = gram_least(TURN_ROWS, gram_most(1, z->n * z->block / cols));

    for (int64_t c = 0; c < cols; c++)
        for (int64_t i = 0; i < dim; i++)
            put(z, rotation, c * dim + i, s[c * z->most + i]);
    for (int64_t first = 0; first < z->n; first += most_rows) {
        int64_t rows = gram_least(most_rows, z->n - first);
        char *v = z->v + bytes_of(z, first * z->most);
        gram_blas_gemm(z->dtype, (int64_t[3]){cols, rows, dim}, 1,
                       (struct gram_blas_matrix){rotation, dim, true},
                       (struct gram_blas_matrix){v, z->most, false}, 0, turned, cols);
        for (int64_t row = 0; row < rows; row++)
            memcpy(v + bytes_of(z, row * z->most), turned + bytes_of(z, row * cols),
                   bytes_of(z, cols));
    }
    return GRAM_OK;
}

/* ---- Orthonormal blocks ---------------------------------------------------------------------- */

/* Normal numbers by the polar method (Marsaglia and Bray, 1964). */
static double normal(uint64_t *state)
{
    double x, y, r;

    do {
        x = 2 * gram_random_unit(state) - 1;
        y = 2 * gram_random_unit(state) - 1;
        r = x * x + y * y;
    } while (r >= 1 || r == 0);
    return x * sqrt(-2 * log(r) / r);
}

static gram_status fill_random(struct krylov *z, int64_t cols)
{
    for (int64_t i = 0; i < z->n * cols; i++)
        put(z, z->w, i, normal(&z->random));
    return GRAM_OK;
}

/* W m for an m of width by width in doubles, to Q. */
struct combine {
    const struct krylov *z;
    const double *m;
};

static void combine_part(void *arg, int64_t part, int thread)
{
    const struct combine *job = arg;
    const struct krylov *z = job->z;
    int64_t first, rows, b = z->width;

    (void)thread;
    part_rows(z, part, &first, &rows);
    gram_blas_gemm(z->dtype, (int64_t[3]){b, rows, b}, 1,
                   (struct gram_blas_matrix){small_of(z, 0), b, true},
                   (struct gram_blas_matrix){z->w + bytes_of(z, first * b), b, false}, 0,
                   z->q + bytes_of(z, first * b), b);
}

/*
 * One round: m such that the columns of W m are orthonormal where the Gram matrix says that W has
 * directions, and 0 elsewhere.  Gives the number of directions that are missing; *least is the
 * smallest eigenvalue of the Gram matrix of W's columns at length 1, or a length^2 if that is less:
 * far below 1 if W has lost what it had before.  -1: not a number.
 */
static int64_t whiten(struct krylov *z, double *m, double *least)
{
    double eps = z->dtype == GRAM_F32 ? FLT_EPSILON : DBL_EPSILON;
    int64_t b = z->width, missing = 0;
    double *gram = z->s, *scale = z->s + b * b, *w = scale + b; /* s is free here */

    gram_of(z, b, gram);
    *least = INFINITY;
    for (int64_t i = 0; i < b; i++) {
        double length = gram[i * b + i];
        if (!isfinite(length))
            return -1;
        *least = fmin(*least, length);
        scale[i] = length > 0 ? 1 / sqrt(length) : 0;
        scale[i] = isfinite(scale[i]) ? scale[i] : 0;
    }
    for (int64_t j = 0; j < b; j++)
        for (int64_t i = 0; i < b; i++)
            gram[j * b + i] *= scale[i] * scale[j];
    if (!gram_krylov_small_eigh(z, b, gram, b, w))
        return -1;
    *least = fmin(*least, w[0]);
    for (int64_t j = 0; j < b; j++) {
        bool there = w[j] > 32 * (double)b * eps;
        missing += !there;
        for (int64_t i = 0; i < b; i++)
            m[j * b + i] = there ? scale[i] * gram[j * b + i] / sqrt(w[j]) : 0;
    }
    return missing;
}

/* Q = W m, random in the first columns, which m leaves empty; then Q and W change places. */
static void combine(struct krylov *z, const double *m, int64_t missing)
{
    struct combine job = {z, m};
    int64_t b = z->width;
    char *q = z->q;

    for (int64_t i = 0; i < b * b; i++)
        put(z, small_of(z, 0), i, m[i]);
    gram_blas_for(z->g, PARTS, combine_part, &job);
    for (int64_t row = 0; row < z->n; row++)
        for (int64_t c = 0; c < missing; c++)
            put(z, q, row * b + c, normal(&z->random));
    z->q = z->w;
    z->w = q;
}

static gram_status orthonormalise(struct krylov *z, int64_t dim)
{
    enum {
        ROUNDS = 8 /* two are the rule, random columns take two more */
    };
    double *h = z->other, *m = z->mix, least = 0;

    for (int round = 0; round < ROUNDS; round++) {
        int64_t missing;
        if (round > 0) {
            project_out(z, dim, z->width, h);
            subtract(z, dim, z->width, h);
        }
        missing = whiten(z, m, &least);
        if (missing < 0) {
            z->not_finite = true;
            return GRAM_OK;
        }
        combine(z, m, missing);
        if (round > 0 && missing == 0 && least > 0.5)
            break;
    }
    memcpy(z->q, z->w, bytes_of(z, z->n * z->width));
    return GRAM_OK;
}

/* ---- The table ------------------------------------------------------------------------------- */

/* The small matrices are those of the parts, or a rotation. */
static void take(struct krylov *z, struct gram_layout *l)
{
    const size_t block = bytes_of(z, z->n * z->block);
    const size_t part = gram_round64(bytes_of(z, z->most * z->block));
    const size_t rotation = bytes_of(z, z->most * gram_most(z->keep, z->block));

    gram_take(l, &z->v, bytes_of(z, z->n * z->most));
    gram_take(l, &z->q, block);
    gram_take(l, &z->w, block);
    gram_take(l, &z->small, gram_most_bytes(PARTS * part, rotation));
}

static gram_status expand(struct krylov *z, int64_t dim, int64_t cols)
{
    gram_blas_one_thread(); /* multiply may have changed it */
    project_out(z, dim, cols, z->column);
    subtract(z, dim, cols, z->column);
    gram_of(z, cols, z->gram);
    return GRAM_OK;
}

static gram_status fetch(struct krylov *z)
{
    (void)z;
    return GRAM_OK;
}

const struct krylov_ops cpu_krylov_ops = {
    .take = take,
    .append = append,
    .extract = extract,
    .random = fill_random,
    .project = expand,
    .orthonormalise = orthonormalise,
    .fetch = fetch,
    .residuals = residuals_of,
    .turn = turn,
};

/* ---- Products of a stored matrix ------------------------------------------------------------- */

static size_t rows_bytes(int64_t n)
{
    return (size_t)n * SYMMETRIC_ROW_BYTES;
}

/* Rows and columns of the largest block, and the bytes of a copy of it. */
static int64_t edge_of(const struct gram_symmetric *a)
{
    return gram_least(EDGE, a->view.rows);
}

static size_t block_bytes(const struct gram_symmetric *a)
{
    return gram_round64((size_t)(edge_of(a) * edge_of(a)) * gram_dtype_size(a->view.dtype));
}

void gram_symmetric_take(struct gram_symmetric *a, struct gram_layout *l)
{
    gram_take(l, &a->x, rows_bytes(a->view.rows));
    gram_take_many(l, &a->sums, PARTS, rows_bytes(a->view.rows));
    gram_take_many(l, &a->blocks, PARTS, block_bytes(a));
    gram_take_many(l, &a->others, PARTS, rows_bytes(edge_of(a)));
}

int64_t gram_symmetric_columns(gram_dtype dtype)
{
    return SYMMETRIC_ROW_BYTES / (int64_t)gram_dtype_size(dtype);
}

static char *sum_of(const struct gram_symmetric *a, int64_t part)
{
    return a->sums + (size_t)part * rows_bytes(a->view.rows);
}

static char *block_of(const struct gram_symmetric *a, int64_t part)
{
    return a->blocks + (size_t)part * block_bytes(a);
}

static double number_at(gram_dtype dtype, const char *from, int64_t i)
{
    return dtype == GRAM_F32 ? (double)((const float *)(const void *)from)[i]
                             : ((const double *)(const void *)from)[i];
}

static void put_number(gram_dtype dtype, char *to, int64_t i, double value)
{
    if (dtype == GRAM_F32)
        ((float *)(void *)to)[i] = (float)value;
    else
        ((double *)(void *)to)[i] = value;
}

/* The block of rows from i and columns from j on: where it is, or a copy. */
static void take_block(const struct gram_symmetric *a, int64_t part, const int64_t ij[2],
                       struct gram_symmetric_block *block)
{
    const struct gram_view *v = &a->view;
    int64_t size = (int64_t)gram_dtype_size(v->dtype);
    const char *from = v->data + (ij[0] * v->row_stride + ij[1] * v->col_stride) * size;
    char *to = block_of(a, part);

    block->a = from;
    block->lda = v->row_stride;
    if (v->col_stride == 1)
        return;
    for (int64_t r = 0; r < block->rows; r++)
        for (int64_t c = 0; c < block->cols; c++)
            put_number(v->dtype, to, r * block->cols + c,
                       number_at(v->dtype, from, r * v->row_stride + c * v->col_stride));
    block->a = to;
    block->lda = block->cols;
}

/* A block on the diagonal: a copy of its stored half, half of the diagonal itself, since it counts
 * twice. */
static void take_diagonal(const struct gram_symmetric *a, int64_t part, int64_t i,
                          struct gram_symmetric_block *block)
{
    const struct gram_view *v = &a->view;
    int64_t size = (int64_t)gram_dtype_size(v->dtype);
    const char *from = v->data + i * (v->row_stride + v->col_stride) * size;
    char *to = block_of(a, part);

    memset(to, 0, (size_t)(block->rows * block->cols * size));
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t first = a->uplo == GRAM_LOWER ? 0 : r, at = r * block->cols,
                end = a->uplo == GRAM_LOWER ? r + 1 : block->cols;
        if (v->col_stride == 1)
            memcpy(to + (at + first) * size, from + (r * v->row_stride + first) * size,
                   (size_t)((end - first) * size));
        for (int64_t c = first; v->col_stride != 1 && c < end; c++)
            put_number(v->dtype, to, at + c,
                       number_at(v->dtype, from, r * v->row_stride + c * v->col_stride));
        put_number(v->dtype, to, at + r, number_at(v->dtype, to, at + r) / 2);
    }
    block->a = to;
    block->lda = block->cols;
}

/* The kernel cannot add to one place in two ways: the transpose's product takes a detour. */
static void add_diagonal(const struct gram_symmetric *a, int64_t part, int64_t i,
                         struct gram_symmetric_block *block)
{
    gram_dtype dtype = a->view.dtype;
    int64_t count = block->rows * gram_symmetric_columns(dtype);
    char *to = block->y_j, *other = a->others + (size_t)part * rows_bytes(edge_of(a));

    take_diagonal(a, part, i, block);
    memset(other, 0, rows_bytes(block->rows));
    block->y_j = other;
    a->kernel(block);
    for (int64_t e = 0; e < count; e++)
        put_number(dtype, to, e, number_at(dtype, to, e) + number_at(dtype, other, e));
}

static void add_block(const struct gram_symmetric *a, int64_t part, int64_t i, int64_t j)
{
    const int64_t n = a->view.rows, ij[2] = {i, j};
    struct gram_symmetric_block block = {
        .rows = gram_least(EDGE, n - i),
        .cols = gram_least(EDGE, n - j),
        .x_i = a->x + rows_bytes(i),
        .x_j = a->x + rows_bytes(j),
        .y_i = sum_of(a, part) + rows_bytes(i),
        .y_j = sum_of(a, part) + rows_bytes(j),
    };

    if (i == j) {
        add_diagonal(a, part, i, &block);
        return;
    }
    take_block(a, part, ij, &block);
    a->kernel(&block);
}

static void multiply_part(void *arg, int64_t part, int thread)
{
    const struct gram_symmetric *a = arg;
    int64_t number = 0, blocks = gram_ceil_div(a->view.rows, EDGE);

    (void)thread;
    memset(sum_of(a, part), 0, rows_bytes(a->view.rows));
    for (int64_t i = 0; i < blocks; i++)
        for (int64_t j = 0; j <= i; j++, number++) {
            if (number % PARTS != part)
                continue;
            if (a->uplo == GRAM_LOWER)
                add_block(a, part, i * EDGE, j * EDGE);
            else
                add_block(a, part, j * EDGE, i * EDGE);
        }
}

/* A share of the rows on their way in, scaled, or out: the sum of the parts, scaled. */
struct move {
    const struct gram_symmetric *a;
    int64_t columns;
    const char *in;
    char *out; /* or NULL */
};

static void move_share(void *arg, int64_t share, int thread)
{
    const struct move *m = arg;
    const struct gram_symmetric *a = m->a;
    gram_dtype dtype = a->view.dtype;
    int64_t n = a->view.rows, each = gram_ceil_div(n, PARTS), b = m->columns,
            width = gram_symmetric_columns(dtype);
    int64_t first = gram_least(share * each, n), end = gram_least(first + each, n);

    (void)thread;
    if (!m->out)
        memset(a->x + rows_bytes(first), 0, rows_bytes(end - first));
    for (int64_t r = first; r < end; r++)
        for (int64_t c = 0; c < b; c++) {
            double sum = 0;
            if (!m->out) {
                put_number(dtype, a->x, r * width + c,
                           a->scale * number_at(dtype, m->in, r * b + c));
                continue;
            }
            for (int64_t part = 0; part < PARTS; part++)
                sum += number_at(dtype, sum_of(a, part), r * width + c);
            put_number(dtype, m->out, r * b + c, a->scale * sum);
        }
}

gram_status gram_symmetric_multiply(void *user, int64_t columns, const void *in, void *out)
{
    struct gram_symmetric *a = user;
    struct move move = {.a = a, .columns = columns, .in = in};

    gram_parallel_for(a->g, PARTS, move_share, &move);
    gram_parallel_for(a->g, PARTS, multiply_part, a);
    move.out = out;
    gram_parallel_for(a->g, PARTS, move_share, &move);
    return GRAM_OK;
}

/* The largest magnitude in some rows of the triangle. */
struct largest {
    const struct gram_symmetric *a;
    double most[PARTS]; /* INFINITY where something is not finite */
};

static void largest_part(void *arg, int64_t part, int thread)
{
    struct largest *job = arg;
    const struct gram_symmetric *a = job->a;
    const struct gram_view *v = &a->view;
    double most = 0;

    (void)thread;
    for (int64_t i = part; i < v->rows; i += PARTS) {
        int64_t first = a->uplo == GRAM_LOWER ? 0 : i,
                end = a->uplo == GRAM_LOWER ? i + 1 : v->rows;
        for (int64_t j = first; j < end; j++) {
            double value =
                fabs(number_at(v->dtype, v->data, i * v->row_stride + j * v->col_stride));
            most = value <= most ? most : value; /* NaN stays */
        }
    }
    job->most[part] = isfinite(most) ? most : INFINITY;
}

bool gram_symmetric_prepare(struct gram_symmetric *a)
{
    struct largest job = {.a = a};
    int exponent, far = a->view.dtype == GRAM_F32 ? 40 : 300;
    double most = 0;

    if (a->view.row_stride == 1 && a->view.col_stride != 1) { /* the same matrix by its columns */
        a->view.row_stride = a->view.col_stride;
        a->view.col_stride = 1;
        a->uplo = a->uplo == GRAM_LOWER ? GRAM_UPPER : GRAM_LOWER;
    }
    a->kernel = gram_cpu_kernels_of(a->g)->symmetric_block[a->view.dtype];
    gram_parallel_for(a->g, PARTS, largest_part, &job);
    for (int i = 0; i < PARTS; i++)
        most = fmax(most, job.most[i]);
    a->scale = 1;
    if (!isfinite(most))
        return false;
    frexp(most, &exponent);
    if (most > 0 && (exponent > far || exponent < -far))
        a->scale = ldexp(1, -exponent / 2);
    return true;
}
