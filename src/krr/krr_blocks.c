/*
 * krr_blocks.c - gram_krr_solve by blocks: an answer at any time, of as many passes as there is
 * time for
 *
 * For a block B of rows, drawn without replacement until a pass has taken all of them,
 *
 *   d = (K_BB + D_B)^-1 (y_B - K_Bn point - D_B point_B),   alpha = point + d in B,
 *
 * the alpha that is best in the norm of A = K + D among those that differ from the point in B.  A
 * pass costs one product with K, of which no half is saved.  The squares of what is in brackets,
 * summed over a pass, tell how large the residual is, so that the true one is computed only where
 * the tolerance may be reached, and at the end.
 *
 * The point is accelerated after Nesterov.  With blocks = n / rows and a rate mu,
 *
 *   point = a momentum + (1 - a) alpha,   momentum = b momentum + (1 - b) point + c d,
 *   b = 1 - sqrt(mu / blocks),   c = 1 / sqrt(mu blocks),   a = 1 / (1 + c blocks).
 *
 * Where mu is the part of the error's square that a step without momentum takes at least, a step
 * takes sqrt(mu / blocks) of it.  mu begins at 1 / blocks, which is no acceleration.  What a pass
 * has seen against the one before is q a step; where q is less than mu promises, mu becomes the one
 * that promises q, blocks q^2, at least a quarter of what it was.  On rows of bench/krr.py (n =
 * 4,096, 32 blocks) that is the mu which is best of some that were tried.  Where residuals grow the
 * momentum begins again.
 *
 * A checkpoint is written between two blocks: alpha, the best alpha that was looked at, its
 * residual, the momentum, and where the pass stands.  Another call draws the same blocks from it.
 *
 * Block coordinate descent, or sketch and project with coordinates: R. Gower and P. Richtarik,
 * Randomized iterative methods for linear systems, SIAM J. Matrix Anal. Appl. 36 (2015); S. Tu, R.
 * Roelofs, S. Venkataraman and B. Recht, Large scale kernel learning using block coordinate
 * descent, arXiv:1602.05310 (2016).  Momentum: S. Tu et al., Breaking locality accelerates block
 * Gauss-Seidel, arXiv:1701.03863 (2017); P. Rathore, Z. Frangella and M. Udell, Have ASkotch: a
 * neat solution for large-scale kernel ridge regression, arXiv:2407.10070 (2024), who take mu and
 * blocks of the problem's sizes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "core/random.h"
#include "krr_solve.h"
#include <math.h>
#include <string.h>

enum {
    LEAST_ROWS = 256, /* of a block */
    MOST_ROWS = 4000, /* whose factorisation takes less than the product unless n is small */
    SHARE = 32        /* blocks of a pass, where they are neither smaller nor larger */
};

static const double least_rate = 1e-4; /* of mu, times the number of blocks */

/* What a solve works with.  Arrays of the context's place unless they are of the host. */
struct blocks {
    struct krr_problem *p;
    int64_t rows;             /* of a block */
    int64_t done;             /* rows of order that the pass has taken; n: the next one begins */
    uint64_t random;          /* of which orders are drawn */
    bool wide;                /* products in f64 */
    bool looked;              /* the residual of alpha is known, and alpha is the best one */
    int64_t *order;           /* n, on the host */
    double *seen;             /* per column: squares of the residuals of a pass so far */
    double *before;           /* the same of the pass before, behind seen; 0: there was none */
    double *found;            /* the same of a block */
    double *momentum, *point; /* n by columns, on the host */
    double blocks, rate;      /* rate: mu */
    double *ridge;            /* of a block, on the host */
    double *right;            /* block by columns, on the host */
    void *narrow;             /* n by columns of the product's dtype, on the host */
    void *memory;             /* of these */
    size_t bytes;
    struct krr_array index, x, wide_x, matrix, alpha, product, solution, code;
    double certificate; /* seconds of a true residual */
};

static gram_dtype dtype_of(const struct blocks *w)
{
    return w->wide ? GRAM_F64 : w->p->dtype;
}

static int64_t block_rows(int64_t n)
{
    return gram_least(gram_most(gram_least(n / SHARE, MOST_ROWS), LEAST_ROWS), n);
}

static gram_status blocks_open(gram_context *g, struct blocks *w)
{
    const struct krr_problem *p = w->p;
    const size_t n = (size_t)p->n, columns = (size_t)p->columns, rows = (size_t)w->rows;
    const size_t size = gram_dtype_size(dtype_of(w)), width = (size_t)p->width;
    const size_t more = n * columns * size;
    double *at;

    w->bytes = (n + 3 * columns + rows + (rows + 2 * n) * columns) * sizeof(double) + more;
    w->memory = gram_alloc(g, w->bytes);
    if (!w->memory)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", w->bytes);
    memset(w->memory, 0, w->bytes);
    w->order = w->memory;
    at = (double *)w->memory + n;
    w->seen = at, at += columns;
    w->before = at, at += columns;
    w->found = at, at += columns;
    w->momentum = at, at += n * columns;
    w->point = at, at += n * columns;
    w->ridge = at, at += rows;
    w->right = at, at += rows * columns;
    w->narrow = at;
    for (int64_t i = 0; i < p->n; i++)
        w->order[i] = i;
    TRY(gram_krr_allocate(g, rows * sizeof *w->order, &w->index));
    TRY(gram_krr_allocate(g, rows * width * size, &w->x));
    TRY(gram_krr_allocate(g, rows * width * sizeof(double), &w->wide_x));
    TRY(gram_krr_allocate(g, rows * rows * sizeof(double), &w->matrix));
    TRY(gram_krr_allocate(g, more, &w->alpha));
    TRY(gram_krr_allocate(g, rows * columns * size, &w->product));
    TRY(gram_krr_allocate(g, rows * columns * sizeof(double), &w->solution));
    return gram_krr_allocate(g, sizeof(int32_t), &w->code);
}

static void blocks_close(gram_context *g, struct blocks *w)
{
    gram_krr_free(g, &w->index);
    gram_krr_free(g, &w->x);
    gram_krr_free(g, &w->wide_x);
    gram_krr_free(g, &w->matrix);
    gram_krr_free(g, &w->alpha);
    gram_krr_free(g, &w->product);
    gram_krr_free(g, &w->solution);
    gram_krr_free(g, &w->code);
    if (w->memory)
        gram_free(g, w->memory, w->bytes);
}

/* The rows of a block, of points of a dtype. */
static gram_status gather(gram_context *g, const struct blocks *w, int64_t count, gram_dtype dtype,
                          const struct krr_array *from, const struct krr_array *to)
{
    const struct krr_gather op = {.dtype = dtype,
                                  .count = count,
                                  .width = w->p->width,
                                  .index = w->index.data,
                                  .x = from->data,
                                  .out = to->data};

    return gram_krr_gather(g, &op);
}

/* right = y_B - K_Bn point - D_B point_B. */
static gram_status block_residual(gram_context *g, struct blocks *w, const int64_t *row,
                                  int64_t count)
{
    const struct krr_problem *p = w->p;
    const gram_dtype dtype = dtype_of(w);
    const size_t size = gram_dtype_size(dtype);
    const struct krr_array *points = w->wide ? &p->wide_x : &p->x;
    const gram_tensor x = gram_krr_matrix(g, w->x.data, count, p->width, dtype);
    const gram_tensor all = gram_krr_matrix(g, points->data, p->n, p->width, dtype);
    const gram_tensor alpha = gram_krr_by_columns(g, w->alpha.data, p->n, p->columns, dtype);
    gram_tensor out = gram_krr_by_columns(g, w->product.data, count, p->columns, dtype);

    for (int64_t i = 0; i < p->n * p->columns; i++)
        krr_set_element(dtype, w->narrow, i, w->point[i]);
    TRY(gram_krr_store(g, w->alpha.data, w->narrow, (size_t)(p->n * p->columns) * size));
    TRY(gather(g, w, count, dtype, points, &w->x));
    TRY(gram_kernel_matmul(g, &x, &all, w->wide ? &p->wide_kernel : &p->kernel, &alpha, NULL,
                           &out));
    TRY(gram_krr_fetch(g, w->narrow, w->product.data, (size_t)(count * p->columns) * size));
    memset(w->found, 0, (size_t)p->columns * sizeof *w->found);
    for (int64_t j = 0; j < p->columns; j++)
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = j * p->n + row[i];
            double *r = &w->right[j * count + i];

            *r = p->y[at] - krr_element(dtype, w->narrow, j * count + i) -
                 p->ridge[row[i]] * w->point[at];
            w->found[j] += *r * *r;
        }
    return GRAM_OK;
}

/* right = (K_BB + D_B)^-1 right, in f64. */
static gram_status block_solve(gram_context *g, struct blocks *w, const int64_t *row, int64_t count,
                               int32_t *code)
{
    const struct krr_problem *p = w->p;
    const size_t bytes = (size_t)(count * p->columns) * sizeof(double);
    const gram_tensor x = gram_krr_matrix(g, w->wide_x.data, count, p->width, GRAM_F64);
    gram_tensor k = gram_krr_matrix(g, w->matrix.data, count, count, GRAM_F64);
    gram_tensor b = gram_krr_by_columns(g, w->solution.data, count, p->columns, GRAM_F64);
    const gram_tensor info = {.data = w->code.data, .dtype = GRAM_I32, .device = k.device};
    gram_solve_options options = GRAM_SOLVE_OPTIONS_INIT;

    options.factor = &k;
    for (int64_t i = 0; i < count; i++)
        w->ridge[i] = p->ridge[row[i]];
    TRY(gather(g, w, count, GRAM_F64, &p->wide_x, &w->wide_x));
    TRY(gram_krr_store(g, w->solution.data, w->right, bytes));
    TRY(gram_kernel(g, &x, NULL, &p->wide_kernel, &k));
    TRY(gram_krr_add_diagonal(g, &k, w->ridge));
    TRY(gram_solve_cholesky(g, &k, &b, &options, &b, (gram_tensor *)&info));
    TRY(gram_krr_fetch(g, code, w->code.data, sizeof *code));
    return gram_krr_fetch(g, w->right, w->solution.data, bytes);
}

/* The momentum begins at alpha. */
static void restart(struct blocks *w)
{
    memcpy(w->momentum, w->p->alpha, (size_t)(w->p->n * w->p->columns) * sizeof *w->momentum);
}

static void extrapolate(struct blocks *w)
{
    const struct krr_problem *p = w->p;
    const double a = 1 / (1 + sqrt(w->blocks / w->rate));

    for (int64_t i = 0; i < p->n * p->columns; i++)
        w->point[i] = a * w->momentum[i] + (1 - a) * p->alpha[i];
}

/* Takes what a block wants, which is in right. */
static void step(struct blocks *w, const int64_t *row, int64_t count)
{
    struct krr_problem *p = w->p;
    const double b = 1 - sqrt(w->rate / w->blocks), c = 1 / sqrt(w->rate * w->blocks);

    for (int64_t i = 0; i < p->n * p->columns; i++) {
        w->momentum[i] = b * w->momentum[i] + (1 - b) * w->point[i];
        p->alpha[i] = w->point[i];
    }
    for (int64_t j = 0; j < p->columns; j++) {
        w->seen[j] += w->found[j];
        for (int64_t i = 0; i < count; i++) {
            p->alpha[j * p->n + row[i]] += w->right[j * count + i];
            w->momentum[j * p->n + row[i]] += c * w->right[j * count + i];
        }
    }
    w->done += count;
    w->looked = false;
}

/* The rate that follows from a pass, of the column that is slowest. */
static void set_rate(struct blocks *w)
{
    double part = 0;

    for (int64_t j = 0; j < w->p->columns; j++) {
        if (w->before[j] > 0)
            part = fmax(part, w->seen[j] / w->before[j]);
        w->before[j] = w->seen[j];
    }
    if (part > 1)
        restart(w);
    else if (part > 0) {
        const double q = -log(part) / w->blocks, rate = w->blocks * q * q;

        w->rate = fmin(w->rate, fmax(rate, w->rate / 4));
        w->rate = fmax(w->rate, least_rate / w->blocks);
    }
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

static void keep(gram_context *g, struct blocks *w)
{
    w->p->keep.passes = (struct krr_passes_state){.rows = w->rows,
                                                  .done = w->done,
                                                  .random = w->random,
                                                  .rate = w->rate,
                                                  .momentum = w->momentum,
                                                  .squares = w->seen,
                                                  .order = w->order};
    gram_krr_checkpoint_write(g, w->p, w->looked ? KRR_LOOKED_AT : KRR_TO_LOOK_AT);
}

/* Tells the checkpoint what a block has found, relative to y. */
static void tell(gram_context *g, struct blocks *w)
{
    struct krr_problem *p = w->p;
    const struct krr_cg_keeper keeper = gram_krr_checkpoint_keeper(p, false);
    double most = 0;

    for (int64_t j = 0; j < p->columns; j++)
        if (p->norm_y[j] > 0)
            most = fmax(most, sqrt(w->found[j]) / p->norm_y[j]);
    if (keeper.told(g, keeper.user, most))
        keep(g, w);
}

/* Where the solve begins, or the file stands that is gone on from; alpha and best are there. */
static void begin(struct blocks *w)
{
    struct krr_problem *p = w->p;
    struct krr_checkpoint *c = &p->keep;
    const struct krr_passes_state *s = &c->passes;
    const size_t bytes = (size_t)(p->n * p->columns) * sizeof *p->alpha;

    w->blocks = (double)p->n / (double)w->rows;
    w->looked = !c->file || c->stage == KRR_LOOKED_AT;
    if (c->file) {
        w->done = s->done;
        w->random = s->random;
        w->rate = s->rate;
        memcpy(w->momentum, s->momentum, bytes);
        memcpy(w->seen, s->squares, (size_t)(2 * p->columns) * sizeof *w->seen);
        memcpy(w->order, s->order, (size_t)p->n * sizeof *w->order);
        memcpy(p->residual, c->residual_before, bytes);
        memcpy(p->norm_r, c->norms_before, (size_t)p->columns * sizeof *p->norm_r);
    } else {
        w->done = p->n;
        w->random = p->options.seed;
        w->rate = 1 / w->blocks;
        memcpy(p->best, p->alpha, bytes);
        restart(w);
    }
    c->residual = p->residual;
    c->norms = p->norm_r;
    c->norm_rows = 1;
    c->scale = 1;
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static gram_status one_block(gram_context *g, struct blocks *w, int32_t *code)
{
    struct krr_problem *p = w->p;
    const int64_t *row = w->order + w->done;
    const int64_t count = gram_least(w->rows, p->n - w->done);
    const double start = gram_seconds();

    extrapolate(w);
    TRY(gram_krr_store(g, w->index.data, row, (size_t)count * sizeof *row));
    TRY(block_residual(g, w, row, count));
    TRY(block_solve(g, w, row, count, code));
    g->call = p->call;
    if (*code != 0)
        return GRAM_OK;
    step(w, row, count);
    if (w->done == p->n)
        set_rate(w);
    if (w->certificate == 0) /* f64 takes twice the time at least */
        w->certificate = w->blocks * (w->wide ? 1 : 2) * (gram_seconds() - start);
    tell(g, w);
    return gram_cancelled(g) ? gram_fail(g, GRAM_CANCELLED, "cancelled") : GRAM_OK;
}

/* Whether there is no time for a further block and the last residual. */
static bool is_late(const struct blocks *w)
{
    const struct krr_problem *p = w->p;

    return gram_krr_seconds_left(p) <= (p->options.time_limit > 0 ? 1.2 * w->certificate : 0);
}

/* All blocks once, or those that are left, or those there is time for; *late then. */
static gram_status pass(gram_context *g, struct blocks *w, bool *late, int32_t *code)
{
    struct krr_problem *p = w->p;

    if (w->done == p->n) {
        memset(w->seen, 0, (size_t)p->columns * sizeof *w->seen);
        gram_random_choose(&w->random, w->order, p->n, p->n);
        p->products++;
        w->done = 0;
    }
    while (w->done < p->n && *code == 0) {
        *late = is_late(w);
        if (*late)
            return GRAM_OK;
        TRY(one_block(g, w, code));
    }
    return GRAM_OK;
}

/* Whether the residuals that a pass has seen may be good enough at its end. */
static bool may_be_reached(const struct blocks *w)
{
    for (int64_t j = 0; j < w->p->columns; j++)
        if (!(sqrt(w->seen[j]) <= 1.5 * w->p->target[j]))
            return false;
    return true;
}

/* The true residual; the better one of alpha and best stays in alpha and in best.  The checkpoint
 * is of before, since a limit may be why it is looked at, which another call would not do. */
static gram_status certify(gram_context *g, struct blocks *w, double *excess)
{
    struct krr_problem *p = w->p;
    const size_t bytes = (size_t)(p->n * p->columns) * sizeof *p->best;
    const double start = gram_seconds();
    double now;

    keep(g, w);
    TRY(gram_krr_residual(g, p));
    w->certificate = fmax(w->certificate, gram_seconds() - start);
    w->looked = true;
    now = gram_krr_excess(p);
    if (now < *excess) {
        memcpy(p->best, p->alpha, bytes);
        *excess = now;
        return GRAM_OK;
    }
    memcpy(p->alpha, p->best, bytes);
    restart(w);
    return gram_krr_residual(g, p);
}

static gram_status passes(gram_context *g, struct blocks *w, struct krr_cg_report *last)
{
    struct krr_problem *p = w->p;
    double excess = gram_krr_excess(p);
    gram_status status;
    int32_t code = 0;
    bool late = false;

    last->end = KRR_CG_ITERATIONS;
    while (excess > 1 && !late && code == 0) {
        if (w->done == p->n && !w->looked && may_be_reached(w)) {
            TRY(certify(g, w, &excess));
            continue;
        }
        if (w->done == p->n && p->products + 2 >= p->options.products)
            break;
        status = pass(g, w, &late, &code);
        if (status == GRAM_CANCELLED)
            keep(g, w);
        TRY(status);
    }
    if (late)
        last->end = KRR_CG_SECONDS;
    if (code != 0) {
        last->end = KRR_CG_INDEFINITE;
        last->curvature = 0;
    }
    if (excess > 1 && !w->looked) {
        TRY(certify(g, w, &excess));
        if (excess > 1)
            return GRAM_OK;
    }
    keep(g, w);
    return GRAM_OK;
}

gram_status gram_krr_blocks(gram_context *g, struct krr_problem *p, struct krr_cg_report *last)
{
    struct blocks w = {
        .p = p, .rows = block_rows(p->n), .wide = p->dtype == GRAM_F64 || p->options.refine};
    const double start = gram_seconds();
    gram_status status = GRAM_OK;

    if (p->keep.file)
        w.rows = p->keep.passes.rows;
    else {
        status = gram_krr_first_residual(g, p);
        w.certificate = p->options.warm_start ? gram_seconds() - start : 0; /* not known yet */
    }
    if (status == GRAM_OK)
        status = blocks_open(g, &w);
    if (status == GRAM_OK) {
        begin(&w);
        status = passes(g, &w, last);
    }
    blocks_close(g, &w);
    return status;
}
