/*
 * machine_precondition.c - block random pivoted Cholesky, and its inverse by Woodbury
 *
 * Pivots are drawn a block at a time with probability proportional to what is left of the diagonal,
 * so that large residuals are met early and no n by n matrix is needed: n times rank entries.
 * Chen, Epperly, Tropp and Webber, Randomly pivoted Cholesky, arXiv:2207.06503 (2022); blocks as in
 * Epperly, Tropp and Webber, arXiv:2410.03969 (2024); preconditioning by it: Diaz, Epperly,
 * Frangella, Tropp and Webber, arXiv:2304.12465 (2023).
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_precondition.h"
#include "core/blas.h"
#include "core/random.h"
#include "core/threads.h"
#include "machine_element.h"
#include <math.h>
#include <string.h>

enum {
    BLOCK = 100,      /* pivots a step: large enough for matrix products, small against the rank */
    CHUNK = 1024,     /* rows of F that are widened, or multiplied by one thread, at a time */
    COLUMNS = 4,      /* that one thread solves for */
    MOST_RANK = 1000, /* more costs as much as the iterations it saves */
    LEAST_RANK = 200, /* below about 600 rows everything is one or two steps */
};

/* What a step works with; freed as one. */
struct scratch {
    double *diagonal;   /* n: what is left of K's diagonal */
    char *pivot_rows;   /* BLOCK by d: features of the pivots */
    char *pivot_factor; /* BLOCK by rank: rows of F */
    double *corner;     /* BLOCK by BLOCK */
    char *corner_narrow;
    int64_t pivot[BLOCK];
    char *memory;
    size_t bytes;
};

int64_t gram_machine_preconditioner_rank(int64_t n)
{
    int64_t rank = (int64_t)(8 * sqrt((double)n)) / BLOCK * BLOCK;

    rank = rank < LEAST_RANK ? LEAST_RANK : rank < MOST_RANK ? rank : MOST_RANK;
    return rank < n / 2 ? rank : n / 2;
}

static int64_t chunks_of(int64_t n)
{
    return gram_ceil_div(n, CHUNK);
}

static void set_bytes(struct machine_preconditioner *p)
{
    size_t size = gram_dtype_size(p->dtype);

    p->factor_bytes = (size_t)(p->n * p->rank) * size;
    p->cholesky_bytes = (size_t)(p->rank * p->rank) * sizeof(double);
    p->product_bytes = (size_t)(chunks_of(p->n) * p->rank * p->columns) * size;
    p->wide_bytes = (size_t)(p->rank * p->columns) * sizeof(double);
}

size_t gram_machine_preconditioner_bytes(int64_t n, int64_t columns, gram_dtype dtype)
{
    struct machine_preconditioner p = {
        .n = n, .rank = gram_machine_preconditioner_rank(n), .columns = columns, .dtype = dtype};

    set_bytes(&p);
    return p.factor_bytes + p.cholesky_bytes + p.product_bytes + p.wide_bytes;
}

/* Draws count distinct indices with probability proportional to weight; fewer if fewer weigh. */
static int64_t draw(uint64_t *state, const double *weight, int64_t n, int64_t count, int64_t *out)
{
    int64_t drawn = 0;
    double total = 0;

    for (int64_t i = 0; i < n; i++)
        total += weight[i];
    for (int64_t tries = 0; drawn < count && tries < 4 * count && total > 0; tries++) {
        double left = gram_random_unit(state) * total;
        int64_t i = 0;
        bool known = false;

        while (i < n - 1 && (left -= weight[i]) >= 0)
            i++;
        for (int64_t j = 0; j < drawn; j++)
            known |= out[j] == i;
        if (!known && weight[i] > 0)
            out[drawn++] = i;
    }
    return drawn;
}

/* C = K[:, S] - F F[S, :]^T into the next columns of the factor. */
static gram_status residual_columns(gram_context *g, const gram_tensor *x,
                                    const gram_kernel_options *kernel,
                                    struct machine_preconditioner *p, struct scratch *s,
                                    int64_t done, int64_t count)
{
    size_t size = gram_dtype_size(p->dtype), row = (size_t)x->shape[1] * size;
    char *next = p->factor + (size_t)(done * p->n) * size;
    gram_tensor pivots = gram_matrix(s->pivot_rows, count, x->shape[1], p->dtype);
    gram_tensor columns = gram_matrix(next, p->n, count, p->dtype);

    for (int64_t i = 0; i < count; i++) {
        memcpy(s->pivot_rows + (size_t)i * row, (char *)x->data + (size_t)s->pivot[i] * row, row);
        for (int64_t k = 0; k < done; k++)
            machine_set_element(p->dtype, s->pivot_factor, k * count + i,
                                machine_element(p->dtype, p->factor, k * p->n + s->pivot[i]));
    }
    columns.stride[0] = 1;
    columns.stride[1] = p->n;
    TRY(gram_kernel(g, x, &pivots, kernel, &columns));
    gram_blas_threads(g);
    if (done > 0)
        gram_blas_gemm(p->dtype, (int64_t[3]){p->n, count, done}, -1,
                       (struct gram_blas_matrix){p->factor, p->n, false},
                       (struct gram_blas_matrix){s->pivot_factor, count, true}, 1, next, p->n);
    return GRAM_OK;
}

/* N = C R^-T with R R^T = C[S, :] + jitter; false if it cannot be factored. */
static bool orthogonalise(struct machine_preconditioner *p, struct scratch *s, int64_t done,
                          int64_t count)
{
    char *next = p->factor + (size_t)(done * p->n) * gram_dtype_size(p->dtype);
    double trace = 0;

    for (int64_t j = 0; j < count; j++)
        for (int64_t i = 0; i < count; i++)
            s->corner[j * count + i] = machine_element(p->dtype, next, j * p->n + s->pivot[i]);
    for (int64_t i = 0; i < count; i++)
        trace += s->corner[i * count + i];
    for (int64_t i = 0; i < count; i++) /* 1e-6: above the rounding of f32 columns */
        s->corner[i * count + i] += 1e-6 * trace / (double)count;
    if (gram_blas_potrf(GRAM_F64, GRAM_LOWER, count, s->corner, count))
        return false;
    for (int64_t i = 0; i < count * count; i++)
        machine_set_element(p->dtype, s->corner_narrow, i, s->corner[i]);
    gram_blas_trsm(p->dtype, p->n, count, s->corner_narrow, count, next, p->n);
    for (int64_t j = 0; j < count; j++)
        for (int64_t i = 0; i < p->n; i++) {
            double v = machine_element(p->dtype, next, j * p->n + i);
            s->diagonal[i] -= v * v;
        }
    for (int64_t i = 0; i < p->n; i++)
        s->diagonal[i] = s->diagonal[i] > 0 ? s->diagonal[i] : 0;
    for (int64_t i = 0; i < count; i++)
        s->diagonal[s->pivot[i]] = 0;
    return true;
}

/* Fills F; p->rank becomes the number of columns that could be had. */
static gram_status factorise(gram_context *g, const gram_tensor *x,
                             const gram_kernel_options *kernel, struct machine_preconditioner *p,
                             struct scratch *s, uint64_t seed)
{
    int64_t done = 0;

    for (int64_t i = 0; i < p->n; i++)
        s->diagonal[i] = 1;
    while (done < p->rank) {
        int64_t want = p->rank - done < BLOCK ? p->rank - done : BLOCK;
        int64_t count = draw(&seed, s->diagonal, p->n, want, s->pivot);

        if (count == 0)
            break;
        TRY(residual_columns(g, x, kernel, p, s, done, count));
        if (!orthogonalise(p, s, done, count))
            break;
        done += count;
        if (gram_cancelled(g))
            return gram_fail(g, GRAM_CANCELLED, "cancelled");
    }
    p->rank = done;
    return GRAM_OK;
}

/* cholesky = lower triangle of F^T F.  In double: rounding of f32 sums would be as large as lambda
 * where the kernel matrix has a large norm. */
static gram_status gram_of_factor(gram_context *g, struct machine_preconditioner *p)
{
    size_t bytes = (size_t)(CHUNK * p->rank) * sizeof(double);
    double *chunk = gram_alloc(g, bytes);

    if (!chunk)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    memset(p->cholesky, 0, p->cholesky_bytes);
    gram_blas_threads(g);
    for (int64_t first = 0; first < p->n; first += CHUNK) {
        int64_t rows = p->n - first < CHUNK ? p->n - first : CHUNK;

        for (int64_t j = 0; j < p->rank; j++)
            for (int64_t i = 0; i < rows; i++)
                chunk[j * rows + i] = machine_element(p->dtype, p->factor, j * p->n + first + i);
        gram_blas_syrk(GRAM_F64, GRAM_LOWER, p->rank, rows, 1,
                       (struct gram_blas_matrix){chunk, rows, true}, 1, p->cholesky, p->rank);
    }
    gram_free(g, chunk, bytes);
    return GRAM_OK;
}

/* lambda, and the Cholesky factor of F^T F + lambda I. */
static gram_status finish(gram_context *g, struct machine_preconditioner *p,
                          const struct scratch *s, double ridge)
{
    double left = 0;

    for (int64_t i = 0; i < p->n; i++)
        left += s->diagonal[i];
    p->lambda = fmax(ridge, 0.5 * left / (double)p->n);
    TRY(gram_of_factor(g, p));
    for (int64_t i = 0; i < p->rank; i++)
        p->cholesky[i * p->rank + i] += p->lambda;
    if (p->rank > 0 && gram_blas_potrf(GRAM_F64, GRAM_LOWER, p->rank, p->cholesky, p->rank))
        p->rank = 0; /* rounding made it indefinite: then P = lambda I */
    return GRAM_OK;
}

static gram_status scratch_create(gram_context *g, const struct machine_preconditioner *p,
                                  int64_t d, struct scratch *s)
{
    size_t size = gram_dtype_size(p->dtype), diagonal = gram_round64((size_t)p->n * 8);
    size_t rows = gram_round64((size_t)(BLOCK * d) * size);
    size_t factor = gram_round64((size_t)(BLOCK * p->rank) * size);
    size_t corner = gram_round64((size_t)(BLOCK * BLOCK) * 8);

    s->bytes = diagonal + rows + factor + 2 * corner;
    s->memory = gram_alloc(g, s->bytes);
    if (!s->memory)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", s->bytes);
    s->diagonal = (double *)s->memory;
    s->pivot_rows = s->memory + diagonal;
    s->pivot_factor = s->pivot_rows + rows;
    s->corner = (double *)(s->pivot_factor + factor);
    s->corner_narrow = (char *)s->corner + corner;
    return GRAM_OK;
}

gram_status gram_machine_preconditioner_create(gram_context *g, const gram_tensor *x,
                                               const gram_kernel_options *kernel, double ridge,
                                               int64_t columns, uint64_t seed,
                                               struct machine_preconditioner *out)
{
    struct machine_preconditioner p = {.n = x->shape[0], .columns = columns, .dtype = x->dtype};
    struct scratch s = {0};
    gram_status status;

    p.rank = gram_machine_preconditioner_rank(p.n);
    set_bytes(&p);
    p.factor = gram_alloc(g, p.factor_bytes);
    p.cholesky = gram_alloc(g, p.cholesky_bytes);
    p.product = gram_alloc(g, p.product_bytes);
    p.wide = gram_alloc(g, p.wide_bytes);
    if (!p.factor || !p.cholesky || !p.product || !p.wide)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes for a preconditioner",
                           p.factor_bytes + p.cholesky_bytes + p.product_bytes + p.wide_bytes);
    else
        status = scratch_create(g, &p, x->shape[1], &s);
    if (status == GRAM_OK)
        status = factorise(g, x, kernel, &p, &s, seed);
    if (status == GRAM_OK)
        status = finish(g, &p, &s, ridge);
    gram_free(g, s.memory, s.bytes);
    if (status != GRAM_OK)
        gram_machine_preconditioner_destroy(g, &p);
    *out = p;
    return status;
}

void gram_machine_preconditioner_destroy(gram_context *g, struct machine_preconditioner *p)
{
    gram_free(g, p->factor, p->factor_bytes);
    gram_free(g, p->cholesky, p->cholesky_bytes);
    gram_free(g, p->product, p->product_bytes);
    gram_free(g, p->wide, p->wide_bytes);
    *p = (struct machine_preconditioner){0};
}

/* One application: v to out, by chunks of rows. */
struct apply_job {
    const struct machine_preconditioner *p;
    const char *v;
    char *out;
};

static int64_t chunk_rows(const struct machine_preconditioner *p, int64_t chunk)
{
    int64_t rest = p->n - chunk * CHUNK;

    return rest < CHUNK ? rest : CHUNK;
}

/* A chunk's part of F^T v. */
static void product_of_chunk(void *arg, int64_t chunk, int thread)
{
    const struct apply_job *job = arg;
    const struct machine_preconditioner *p = job->p;
    size_t size = gram_dtype_size(p->dtype), first = (size_t)(chunk * CHUNK) * size;

    (void)thread;
    gram_blas_gemm(p->dtype, (int64_t[3]){p->rank, p->columns, chunk_rows(p, chunk)}, 1,
                   (struct gram_blas_matrix){p->factor + first, p->n, true},
                   (struct gram_blas_matrix){job->v + first, p->n, false}, 0,
                   p->product + (size_t)(chunk * p->rank * p->columns) * size, p->rank);
}

/* A chunk's rows of (v - F t) / lambda; t is in the first of the products. */
static void finish_chunk(void *arg, int64_t chunk, int thread)
{
    const struct apply_job *job = arg;
    const struct machine_preconditioner *p = job->p;
    size_t size = gram_dtype_size(p->dtype), first = (size_t)(chunk * CHUNK) * size;
    int64_t rows = chunk_rows(p, chunk);

    (void)thread;
    for (int64_t j = 0; j < p->columns; j++)
        memcpy(job->out + first + (size_t)(j * p->n) * size,
               job->v + first + (size_t)(j * p->n) * size, (size_t)rows * size);
    if (p->rank > 0) /* the factor just below 1 keeps P^-1 positive definite against rounding */
        gram_blas_gemm(p->dtype, (int64_t[3]){rows, p->columns, p->rank}, -(1 - 1e-6),
                       (struct gram_blas_matrix){p->factor + first, p->n, false},
                       (struct gram_blas_matrix){p->product, p->rank, false}, 1, job->out + first,
                       p->n);
    for (int64_t j = 0; j < p->columns; j++)
        for (int64_t i = j * p->n + chunk * CHUNK; i < j * p->n + chunk * CHUNK + rows; i++)
            machine_set_element(p->dtype, job->out, i,
                                machine_element(p->dtype, job->out, i) / p->lambda);
}

/* Some columns of (F^T F + lambda)^-1 F^T v, from the chunks' products into the first of them. */
static void solve_columns(void *arg, int64_t task, int thread)
{
    const struct apply_job *job = arg;
    const struct machine_preconditioner *p = job->p;
    int64_t first = task * COLUMNS, rest = p->columns - first, end, total = p->rank * p->columns;
    int64_t columns = gram_least(rest, COLUMNS);

    (void)thread;
    end = (first + columns) * p->rank;
    for (int64_t i = first * p->rank; i < end; i++) {
        p->wide[i] = 0;
        for (int64_t c = 0; c < chunks_of(p->n); c++)
            p->wide[i] += machine_element(p->dtype, p->product, c * total + i);
    }
    gram_blas_potrs(GRAM_F64, GRAM_LOWER, p->rank, columns, p->cholesky, p->rank,
                    p->wide + first * p->rank, p->rank);
    for (int64_t i = first * p->rank; i < end; i++)
        machine_set_element(p->dtype, p->product, i, p->wide[i]);
}

void gram_machine_preconditioner_apply(gram_context *g, const struct machine_preconditioner *p,
                                       const void *v, void *out)
{
    struct apply_job job = {p, v, out};
    int64_t chunks = chunks_of(p->n);

    if (p->rank > 0) {
        gram_blas_for(g, chunks, product_of_chunk, &job);
        gram_blas_for(g, gram_ceil_div(p->columns, COLUMNS), solve_columns, &job);
    }
    gram_blas_for(g, chunks, finish_chunk, &job);
}
