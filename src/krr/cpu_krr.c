/*
 * cpu_krr.c - kernel ridge regression on the CPU: its passes
 *
 * The matrix is stored as the blocks of its lower triangle, and a product reads each block twice:
 * as it is for the rows of the block, transposed for its columns.  No two tasks write to one place,
 * so no result depends on which thread does what.
 *
 * The preconditioner has the Cholesky factor of its inner matrix.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/threads.h"
#include "cpu/cpu_kernels.h"
#include "cpu/move.h"
#include "krr_passes.h"
#include <math.h>
#include <string.h>

#define TEMPLATE "krr/cg_loops.h"
#define HALVES   0
#define INTEGERS 0
#include "cpu/each_dtype.h"

enum {
    DENSE_ROWS = 6000, /* up to here n^3 / 3 flops are quicker than the preconditioner's setup */
    BLOCK_ENTRIES = 1 << 22, /* of the kernel matrix of points and centres: 16 MiB in f32 */
    BLOCK_ROWS = 1024,       /* of a block: its kernel matrix takes long against a call */
    PART_ROWS = 96,    /* of a product that are one task: whole groups of gemm_skinny_tile.h's rows,
                          and enough tasks for many threads where there are few rows */
    PAD_BYTES = 64,    /* behind each row of a block: rows 4096 bytes apart share cache sets */
    CHUNK = 1024,      /* rows of F that are widened, or multiplied by one thread, at a time */
    SOLVED_COLUMNS = 4 /* that one thread solves for */
};

/* ---- Rows ------------------------------------------------------------------------------------ */

/* One row of z = x W. */
static void map_row(void *arg, int64_t row, int thread)
{
    const struct krr_map *op = arg;
    int64_t first = row * op->width;

    (void)thread;
    for (int64_t j = 0; j < op->width; j++) {
        double v = 0;
        if (op->full)
            for (int64_t i = 0; i < op->width; i++)
                v += krr_element(op->dtype, op->x, first + i) * op->w[i * op->width + j];
        else
            v = krr_element(op->dtype, op->x, first + j) * op->w[j];
        krr_set_element(op->dtype, op->z, first + j, v);
    }
}

static gram_status map(gram_context *g, const struct krr_map *op)
{
    struct krr_map copy = *op;

    gram_parallel_for(g, op->rows, map_row, &copy);
    return GRAM_OK;
}

static gram_status widen(gram_context *g, gram_dtype dtype, int64_t count, const void *from,
                         double *out)
{
    (void)g;
    for (int64_t i = 0; i < count; i++)
        out[i] = from ? krr_element(dtype, from, i) : 0;
    return GRAM_OK;
}

static gram_status gather(gram_context *g, const struct krr_gather *op)
{
    size_t bytes = (size_t)op->width * gram_dtype_size(op->dtype);

    (void)g;
    for (int64_t i = 0; i < op->count; i++)
        memcpy((char *)op->out + (size_t)i * bytes,
               (const char *)op->x + (size_t)op->index[i] * bytes, bytes);
    return GRAM_OK;
}

static gram_status add_diagonal(gram_context *g, const struct krr_diagonal *op)
{
    (void)g;
    for (int64_t i = 0; i < op->rows; i++) {
        int64_t at = i * (op->rows + 1);
        krr_set_element(op->dtype, op->matrix, at,
                        krr_element(op->dtype, op->matrix, at) + op->add[i]);
    }
    return GRAM_OK;
}

struct widen_job {
    gram_dtype dtype;
    int64_t columns;
    const void *from;
    double *to;
};

static void widen_row(void *arg, int64_t row, int thread)
{
    const struct widen_job *job = arg;
    int64_t first = row * job->columns;

    (void)thread;
    for (int64_t i = first; i < first + job->columns; i++)
        job->to[i] = krr_element(job->dtype, job->from, i);
}

static size_t combine_bytes(int64_t rows, int64_t terms, int64_t outputs)
{
    return gram_round64((size_t)(rows * terms) * sizeof(double)) +
           gram_round64((size_t)(terms * outputs) * sizeof(double));
}

/* The product is in f64: coefficients of both signs cancel to a small part of their size, and f32
 * sums would depend on how many points are predicted at a time. */
static gram_status combine(gram_context *g, const struct krr_combine *op)
{
    double *matrix = op->scratch;
    double *alpha = matrix + gram_round64((size_t)(op->rows * op->terms) * sizeof(double)) / 8;
    struct widen_job rows = {op->dtype, op->terms, op->matrix, matrix};
    struct widen_job outputs = {op->dtype, op->terms, op->alpha, alpha};

    gram_parallel_for(g, op->outputs, widen_row, &outputs);
    gram_parallel_for(g, op->rows, widen_row, &rows);
    gram_blas_threads(g);
    gram_blas_gemm(GRAM_F64, (int64_t[3]){op->rows, op->outputs, op->terms}, 1,
                   (struct gram_blas_matrix){matrix, op->terms, true},
                   (struct gram_blas_matrix){alpha, op->terms, false}, 0, op->out, op->ld);
    return GRAM_OK;
}

/* ---- Products with the matrix ---------------------------------------------------------------- */

/* The vectors of a product that are multiplied now lie in strips (cpu_kernels.h), behind
 * the matrix's blocks, and so do their products. */
struct multiply_job {
    const struct krr_product *op;
    gemm_skinny_kernel *multiply_block;
    int64_t first, count; /* columns that are multiplied now */
    int strips;
    char *vectors, *product;
};

/* Bytes of the vectors that the matrix is multiplied by at a time, or of their products. */
static size_t strip_bytes(int64_t n)
{
    return (size_t)n * 2 * GEMM_SKINNY_BYTES;
}

static size_t multiply_bytes(int64_t n)
{
    return 2 * strip_bytes(n);
}

/* The numbers of a row of strips. */
static int64_t strip_width(gram_dtype dtype, int strips)
{
    return strips * (int64_t)(GEMM_SKINNY_BYTES / gram_dtype_size(dtype));
}

static char *strip_at(const struct multiply_job *job, char *strips, int64_t row)
{
    return strips + (size_t)(row * job->strips) * GEMM_SKINNY_BYTES;
}

/* Copies the rows of v that belong to block i into strips, with zeros beyond the columns. */
static void load_strips(void *arg, int64_t i, int thread)
{
    const struct multiply_job *job = arg;
    const struct krr_matrix *k = job->op->k;
    int64_t width = strip_width(k->dtype, job->strips), n = k->n, first = i * k->size;
    char *to = strip_at(job, job->vectors, first);

    (void)thread;
    memset(to, 0, (size_t)(krr_block_rows(k, i) * job->strips) * GEMM_SKINNY_BYTES);
    for (int64_t j = 0; j < job->count; j++)
        for (int64_t r = 0; r < krr_block_rows(k, i); r++)
            krr_set_element(k->dtype, to, r * width + j,
                            krr_element(k->dtype, job->op->v, (job->first + j) * n + first + r));
}

/* out = ridge * v + product for some rows. */
static void store_rows(const struct multiply_job *job, int64_t first, int64_t count,
                       const char *product)
{
    const struct krr_product *op = job->op;
    gram_dtype dtype = op->k->dtype;
    int64_t width = strip_width(dtype, job->strips);

    for (int64_t j = 0; j < job->count; j++)
        for (int64_t r = 0; r < count; r++) {
            int64_t row = first + r, at = (job->first + j) * op->k->n + row;

            krr_set_element(dtype, op->product, at,
                            op->ridge[row] * krr_element(dtype, op->v, at) +
                                krr_element(dtype, product, r * width + j));
        }
}

static int64_t parts_of_block(const struct krr_matrix *k)
{
    return gram_ceil_div(k->size, PART_ROWS);
}

/* Some rows of a block i of the product: the matrix left of the diagonal as it is, below it
 * transposed. */
static void multiply_rows(void *arg, int64_t task, int thread)
{
    const struct multiply_job *job = arg;
    const struct krr_matrix *k = job->op->k;
    int64_t i = task / parts_of_block(k), first = task % parts_of_block(k) * PART_ROWS;
    int64_t count = gram_least(krr_block_rows(k, i) - first, PART_ROWS);
    size_t size = gram_dtype_size(k->dtype);
    char *product = strip_at(job, job->product, i * k->size + first);

    (void)thread;
    if (count <= 0) /* the last block may have fewer */
        return;
    memset(product, 0, (size_t)(count * job->strips) * GEMM_SKINNY_BYTES);
    for (int64_t j = 0; j < k->count; j++) {
        const struct gemm_skinny_op op = {
            .dtype = k->dtype,
            .rows = i >= j ? count : krr_block_rows(k, j),
            .cols = i >= j ? krr_block_rows(k, j) : count,
            .lda = k->ld,
            .strips = job->strips,
            .transposed = i < j,
            .a = i >= j ? krr_block(k, i, j) + (size_t)(first * k->ld) * size
                        : krr_block(k, j, i) + (size_t)first * size,
            .v = strip_at(job, job->vectors, j * k->size),
            .out = product,
        };

        job->multiply_block(&op);
    }
    store_rows(job, i * k->size + first, count, product);
}

static gram_status multiply(gram_context *g, const struct krr_product *op)
{
    const struct krr_matrix *k = op->k;
    struct multiply_job job = {.op = op,
                               .multiply_block = gram_cpu_kernels_of(g)->gemm_skinny[k->dtype],
                               .vectors = k->extra,
                               .product = k->extra + strip_bytes(k->n)};
    int64_t most = strip_width(k->dtype, 2);

    for (; job.first < op->columns; job.first += most) {
        job.count = gram_least(most, op->columns - job.first);
        job.strips = job.count > most / 2 ? 2 : 1;
        gram_parallel_for(g, k->count, load_strips, &job);
        gram_parallel_for(g, k->count * parts_of_block(k), multiply_rows, &job);
    }
    return GRAM_OK;
}

/* ---- Conjugate gradients --------------------------------------------------------------------- */

static void step_column(void *arg, int64_t place, int thread)
{
    const struct krr_cg_step *op = arg;

    (void)thread;
    if (op->dtype == GRAM_F32)
        step_f32(op, place);
    else
        step_f64(op, place);
}

/* Columns run side by side, each summed in one order. */
static gram_status cg_step(gram_context *g, const struct krr_cg_step *op)
{
    struct krr_cg_step copy = *op;

    gram_parallel_for(g, op->columns, step_column, &copy);
    return GRAM_OK;
}

static gram_status move(gram_context *g, const struct krr_move *op)
{
    const struct cpu_move m = {
        .to = op->to,
        .from = op->from,
        .to_stride = {  op->to_stride[0],   op->to_stride[1]},
        .from_stride = {op->from_stride[0], op->from_stride[1]},
        .rows = op->rows,
        .cols = op->columns
    };

    cpu_move_parallel(g, op->dtype, &m);
    return GRAM_OK;
}

/* ---- The preconditioner ---------------------------------------------------------------------- */

static gram_status whiten(gram_context *g, const struct krr_whiten *op)
{
    gram_blas_threads(g);
    for (int64_t i = 0; i < op->count * op->count; i++)
        krr_set_element(op->dtype, op->scratch, i, op->lower[i]);
    gram_blas_trsm(op->dtype, op->n, op->count, op->scratch, op->count, op->columns, op->n);
    for (int64_t j = 0; j < op->count; j++)
        for (int64_t i = 0; i < op->n; i++) {
            double v = krr_element(op->dtype, op->columns, j * op->n + i);
            op->diagonal[i] -= v * v;
        }
    for (int64_t i = 0; i < op->n; i++)
        op->diagonal[i] = op->diagonal[i] > 0 ? op->diagonal[i] : 0;
    return GRAM_OK;
}

static int64_t chunks_of(int64_t n)
{
    return gram_ceil_div(n, CHUNK);
}

/* inner = the lower triangle of F^T F.  In double: rounding of f32 sums would be as large as lambda
 * where the kernel matrix has a large norm. */
static gram_status multiply_factor(gram_context *g, const struct krr_preconditioner *p,
                                   double *inner)
{
    size_t bytes = (size_t)(CHUNK * p->rank) * sizeof(double);
    double *chunk = gram_alloc(g, bytes);

    if (!chunk)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    memset(inner, 0, (size_t)(p->rank * p->rank) * sizeof *inner);
    gram_blas_threads(g);
    for (int64_t first = 0; first < p->n; first += CHUNK) {
        int64_t rows = gram_least(p->n - first, CHUNK);

        for (int64_t j = 0; j < p->rank; j++)
            for (int64_t i = 0; i < rows; i++)
                chunk[j * rows + i] = krr_element(p->dtype, p->factor.data, j * p->n + first + i);
        gram_blas_syrk(GRAM_F64, GRAM_LOWER, p->rank, rows, 1,
                       (struct gram_blas_matrix){chunk, rows, true}, 1, inner, p->rank);
    }
    gram_free(g, chunk, bytes);
    return GRAM_OK;
}

static gram_status factorise(gram_context *g, struct krr_preconditioner *p)
{
    double *inner = p->inner.data;

    TRY(multiply_factor(g, p, inner));
    TRY(krr_add_ranks(g, p, inner, p->rank * p->rank));
    for (int64_t i = 0; i < p->rank; i++)
        inner[i * p->rank + i] += p->lambda;
    if (p->rank > 0 && gram_blas_potrf(GRAM_F64, GRAM_LOWER, p->rank, inner, p->rank))
        p->rank = 0;
    return GRAM_OK;
}

/* One application: v to out, by chunks of rows. */
struct apply_job {
    const struct krr_preconditioner *p;
    const char *v;
    char *out;
    char *product; /* rank by columns for every chunk, dtype */
    double *wide;  /* rank by columns */
};

/* Rounded up so that doubles can follow; room for one also where there are no rows. */
static size_t product_bytes(int64_t n, int64_t rank, int64_t columns, gram_dtype dtype)
{
    const int64_t count = gram_most(chunks_of(n), 1) * rank * columns;

    return ((size_t)count * gram_dtype_size(dtype) + 7) / 8 * 8;
}

static size_t apply_bytes(int64_t n, int64_t rank, int64_t columns, gram_dtype dtype)
{
    return product_bytes(n, rank, columns, dtype) + (size_t)(rank * columns) * sizeof(double);
}

/* A chunk's part of F^T v. */
static void multiply_chunk(void *arg, int64_t chunk, int thread)
{
    const struct apply_job *job = arg;
    const struct krr_preconditioner *p = job->p;
    size_t size = gram_dtype_size(p->dtype), first = (size_t)(chunk * CHUNK) * size;
    int64_t rows = gram_least(p->n - chunk * CHUNK, CHUNK);

    (void)thread;
    gram_blas_gemm(p->dtype, (int64_t[3]){p->rank, p->columns, rows}, 1,
                   (struct gram_blas_matrix){(char *)p->factor.data + first, p->n, true},
                   (struct gram_blas_matrix){job->v + first, p->n, false}, 0,
                   job->product + (size_t)(chunk * p->rank * p->columns) * size, p->rank);
}

/* Some columns of F^T v, from the chunks' products. */
static void add_columns(void *arg, int64_t task, int thread)
{
    const struct apply_job *job = arg;
    const struct krr_preconditioner *p = job->p;
    const int64_t first = task * SOLVED_COLUMNS, total = p->rank * p->columns;
    const int64_t end = gram_least(p->columns, first + SOLVED_COLUMNS) * p->rank;

    (void)thread;
    for (int64_t i = first * p->rank; i < end; i++) {
        job->wide[i] = 0;
        for (int64_t c = 0; c < chunks_of(p->n); c++)
            job->wide[i] += krr_element(p->dtype, job->product, c * total + i);
    }
}

/* Some columns of (F^T F + lambda)^-1 F^T v, to the first of the products. */
static void solve_columns(void *arg, int64_t task, int thread)
{
    const struct apply_job *job = arg;
    const struct krr_preconditioner *p = job->p;
    const int64_t first = task * SOLVED_COLUMNS;
    const int64_t columns = gram_least(p->columns - first, SOLVED_COLUMNS);
    const int64_t end = (first + columns) * p->rank;

    (void)thread;
    gram_blas_potrs(GRAM_F64, GRAM_LOWER, p->rank, columns, p->inner.data, p->rank,
                    job->wide + first * p->rank, p->rank);
    for (int64_t i = first * p->rank; i < end; i++)
        krr_set_element(p->dtype, job->product, i, job->wide[i]);
}

/* A chunk's rows of (v - F t) / lambda; t is the first of the products. */
static void finish_chunk(void *arg, int64_t chunk, int thread)
{
    const struct apply_job *job = arg;
    const struct krr_preconditioner *p = job->p;
    size_t size = gram_dtype_size(p->dtype), first = (size_t)(chunk * CHUNK) * size;
    int64_t rows = gram_least(p->n - chunk * CHUNK, CHUNK);

    (void)thread;
    for (int64_t j = 0; j < p->columns; j++)
        memcpy(job->out + first + (size_t)(j * p->n) * size,
               job->v + first + (size_t)(j * p->n) * size, (size_t)rows * size);
    if (p->rank > 0)
        gram_blas_gemm(p->dtype, (int64_t[3]){rows, p->columns, p->rank}, -KRR_KEEP,
                       (struct gram_blas_matrix){(char *)p->factor.data + first, p->n, false},
                       (struct gram_blas_matrix){job->product, p->rank, false}, 1, job->out + first,
                       p->n);
    for (int64_t j = 0; j < p->columns; j++)
        for (int64_t i = j * p->n + chunk * CHUNK; i < j * p->n + chunk * CHUNK + rows; i++)
            krr_set_element(p->dtype, job->out, i, krr_element(p->dtype, job->out, i) / p->lambda);
}

static gram_status apply(gram_context *g, const struct krr_preconditioner *p, const void *v,
                         void *out)
{
    char *product = p->scratch.data;
    void *wide = product + product_bytes(p->n, p->rank, p->columns, p->dtype);
    struct apply_job job = {p, v, out, product, wide};
    const int64_t chunks = chunks_of(p->n), tasks = gram_ceil_div(p->columns, SOLVED_COLUMNS);

    if (p->rank > 0) {
        gram_blas_for(g, chunks, multiply_chunk, &job);
        gram_blas_for(g, tasks, add_columns, &job);
        TRY(krr_add_ranks(g, p, wide, p->rank * p->columns));
        gram_blas_for(g, tasks, solve_columns, &job);
    }
    gram_blas_for(g, chunks, finish_chunk, &job);
    return GRAM_OK;
}

/* The same of vectors in f64, where F is f32. */
struct wide_job {
    const struct krr_preconditioner *p;
    const double *v;
    double *out;
    double *product; /* rank by columns for every chunk */
};

static void multiply_wide_chunk(void *arg, int64_t chunk, int thread)
{
    const struct wide_job *job = arg;
    const struct krr_preconditioner *p = job->p;
    const int64_t first = chunk * CHUNK, rows = gram_least(p->n - first, CHUNK);
    double *product = job->product + chunk * p->rank * p->columns;

    (void)thread;
    for (int64_t k = 0; k < p->rank; k++)
        for (int64_t j = 0; j < p->columns; j++) {
            const float *f = (const float *)p->factor.data + k * p->n + first;
            const double *v = job->v + j * p->n + first;
            double s[8] = {0};
            int64_t i = 0;

            for (; i + 8 <= rows; i += 8)
                for (int l = 0; l < 8; l++)
                    s[l] += (double)f[i + l] * v[i + l];
            for (; i < rows; i++)
                s[0] += (double)f[i] * v[i];
            product[j * p->rank + k] =
                ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
        }
}

static void finish_wide_chunk(void *arg, int64_t chunk, int thread)
{
    const struct wide_job *job = arg;
    const struct krr_preconditioner *p = job->p;
    const int64_t first = chunk * CHUNK, rows = gram_least(p->n - first, CHUNK);

    (void)thread;
    for (int64_t j = 0; j < p->columns; j++) {
        double *out = job->out + j * p->n + first;

        memcpy(out, job->v + j * p->n + first, (size_t)rows * sizeof *out);
        for (int64_t k = 0; k < p->rank; k++) {
            const float *f = (const float *)p->factor.data + k * p->n + first;
            const double t = KRR_KEEP * job->product[j * p->rank + k];

            for (int64_t i = 0; i < rows; i++)
                out[i] -= t * (double)f[i];
        }
        for (int64_t i = 0; i < rows; i++)
            out[i] /= p->lambda;
    }
}

static gram_status apply_wide(gram_context *g, const struct krr_preconditioner *p, const double *v,
                              double *out)
{
    const int64_t chunks = chunks_of(p->n), total = p->rank * p->columns;
    const size_t bytes = (size_t)(chunks * total + 1) * sizeof(double);
    struct wide_job job = {.p = p, .v = v, .product = gram_alloc(g, bytes)};

    job.out = out;
    if (!job.product)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    if (p->rank > 0) {
        gram_parallel_for(g, chunks, multiply_wide_chunk, &job);
        for (int64_t i = total; i < chunks * total; i++)
            job.product[i % total] += job.product[i];
        gram_blas_potrs(GRAM_F64, GRAM_LOWER, p->rank, p->columns, p->inner.data, p->rank,
                        job.product, p->rank);
    }
    gram_parallel_for(g, chunks, finish_wide_chunk, &job);
    gram_free(g, job.product, bytes);
    return GRAM_OK;
}

const struct gram_krr_passes cpu_krr_passes = {
    .dense_rows = DENSE_ROWS,
    .block_entries = BLOCK_ENTRIES,
    .block_rows = BLOCK_ROWS,
    .pad_bytes = PAD_BYTES,
    .map = map,
    .gather = gather,
    .combine = combine,
    .combine_bytes = combine_bytes,
    .add_diagonal = add_diagonal,
    .widen = widen,
    .multiply_bytes = multiply_bytes,
    .multiply = multiply,
    .cg_step = cg_step,
    .move = move,
    .whiten = whiten,
    .factorise = factorise,
    .apply_cost = 60, /* F passes through the caches twice */
    .apply_bytes = apply_bytes,
    .apply = apply,
    .apply_wide = apply_wide,
};
