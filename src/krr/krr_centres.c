/*
 * krr_centres.c - gram_krr_solve with fewer unknowns than rows: one per centre
 *
 * With S = K_mm + floor I, H = K_mn W K_nm + r S and b = K_mn W y, the answer is H^-1 b.  S = L L^T
 * gives H = L (M + r I) L^T, M = L^-1 K_mn W K_nm L^-T, and near to it
 *   P = L A L^T,   A = (n / m) mean(W) L^T L + r I,
 * which is H if the centres stand for all rows (Rudi, Carratino and Rosasco, FALKON,
 * arXiv:1705.10958).  Conjugate gradients are for Z^T H Z v = Z^T g, where Z Z^T = P^-1, whose
 * matrix is near to I.  Z is made once, in f64; products with K_nm and K_mn have the dtype of the
 * points, and store nothing.  A round solves for the residual g = b - H a of the answer so far,
 * which is computed in f64.
 *
 * The certificate: the error of a is e = H^-1 g, and with q = L^-1 g
 *   |W^(1/2) K_nm e|_2 = |W^(1/2) K_nm L^-T (M + r I)^-1 q|_2 <= |q|_2 / (2 sqrt(r)),
 * since sqrt(s) / (s + r) is at most that, and for any z, since |L^-1 k_m(z)|_2^2 <= k(z, z),
 *   |k_m(z)^T e| <= sqrt(k(z, z)) |q|_2 / r.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_solve.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    MOST_ROUNDS = 4,
    REFINING_ROUNDS = 30,
    CG_ROUNDS = 2,
    FLOORS = 5,     /* that are tried */
    CHUNK = 1 << 20 /* elements that pass through the host at a time */
};

/* Per centre, of the largest k(x, x): well above rounding, so that L^-1 g does not drown in it. */
static const double wide_floor = 0x1p-40;

struct centres {
    struct krr_problem *p;
    int64_t m;
    gram_tensor x, c, wide_x, wide_c; /* points */
    /* m by m, f64: S, row-major; L, row-major; Z, column-major. */
    struct krr_array k, lower, z;
    struct krr_array weights; /* n, f64; data NULL: all are 1 */
    /* Vectors by columns: of the dtype m, n, n, m; of f64 m, m; b and x of the iteration. */
    struct krr_array t, u, weighted, h, wide_t, wide_h, b, v, no_ridge;
    double *reduced;                  /* m by columns, on the host: Z^T g */
    double *host;                     /* the same size */
    double *norm_q, *norm_z, *norm_b; /* of L^-1 g, of Z^T g, and of Z^T b; one per column */
    double *norms;                    /* norm_r and these, for a checkpoint */
    enum krr_stage stage;             /* of what is gone on from; else KRR_LOOKED_AT */
    void *memory;
    size_t bytes;
};

static gram_tensor square(const gram_context *g, const struct centres *w, const struct krr_array *a)
{
    return gram_krr_matrix(g, a->data, w->m, w->m, GRAM_F64);
}

/* ---- Factors --------------------------------------------------------------------------------- */

static gram_status zeros(gram_context *g, int64_t count, struct krr_array *out)
{
    return g->backend->krr->widen(g, GRAM_F64, count, NULL, out->data);
}

/* a + s I = R R^T for the first s of the list; R has zeros above its diagonal.  code: the leading
 * minor that is not positive with any s, or 0. */
static gram_status cholesky(gram_context *g, struct centres *w, const struct krr_array *a,
                            const double *list, struct krr_array *factor, double *used,
                            int32_t *code)
{
    gram_tensor matrix = square(g, w, a), lower = square(g, w, factor);
    gram_tensor any = gram_krr_by_columns(g, w->wide_h.data, w->m, 1, GRAM_F64);
    gram_tensor info = {.dtype = GRAM_I32, .device = matrix.device};
    gram_tensor jitter = {.dtype = GRAM_F64, .device = matrix.device};
    gram_solve_options options = GRAM_SOLVE_OPTIONS_INIT;
    struct krr_array there = {0};
    gram_status status;
    double *rows;
    int64_t step = CHUNK / w->m + 1;
    size_t row = (size_t)w->m * sizeof *rows;

    options.factor = &lower;
    options.jitter = list;
    options.jitters = FLOORS;
    options.jittered = &jitter;
    TRY(gram_krr_allocate(g, 2 * sizeof(double), &there));
    jitter.data = there.data;
    info.data = (char *)there.data + sizeof(double);
    status = zeros(g, w->m, &w->wide_h);
    if (status == GRAM_OK)
        status = gram_solve_cholesky(g, &matrix, &any, &options, &any, &info);
    g->call = w->p->call;
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, code, info.data, sizeof *code);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, used, jitter.data, sizeof *used);
    gram_krr_free(g, &there);
    TRY(status);
    rows = gram_alloc(g, (size_t)step * row);
    if (!rows)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", (size_t)step * row);
    for (int64_t i = 0; i < w->m && status == GRAM_OK && *code == 0; i += step) {
        int64_t count = gram_least(step, w->m - i);
        char *at = (char *)factor->data + (size_t)i * row;

        status = gram_krr_fetch(g, rows, at, (size_t)count * row);
        for (int64_t j = 0; j < count; j++)
            memset(rows + j * w->m + i + j + 1, 0, row - (size_t)(i + j + 1) * sizeof *rows);
        if (status == GRAM_OK)
            status = gram_krr_store(g, at, rows, (size_t)count * row);
    }
    gram_free(g, rows, (size_t)step * row);
    return status;
}

/* z = R^-T z: R^T is the upper factor of an LU factorisation without exchanges. */
static gram_status solve_upper(gram_context *g, struct centres *w, const struct krr_array *lower)
{
    gram_tensor upper = gram_krr_by_columns(g, lower->data, w->m, w->m, GRAM_F64);
    gram_tensor z = gram_krr_by_columns(g, w->z.data, w->m, w->m, GRAM_F64);
    gram_tensor info = {.dtype = GRAM_I32, .device = z.device}, pivots = info;
    gram_solve_options options = GRAM_SOLVE_OPTIONS_INIT;
    size_t bytes = (size_t)(w->m + 1) * sizeof(int32_t);
    struct krr_array there = {0};
    int32_t *order = gram_alloc(g, bytes);
    gram_status status;

    if (!order)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    for (int64_t i = 0; i <= w->m; i++)
        order[i] = (int32_t)(i + 1);
    status = gram_krr_send(g, order, bytes, &there);
    pivots.data = there.data;
    pivots.ndim = 1;
    pivots.shape[0] = w->m, pivots.stride[0] = 1;
    info.data = (int32_t *)there.data + w->m;
    options.factored = 1;
    options.pivots = &pivots;
    if (status == GRAM_OK)
        status = gram_solve_lu(g, &upper, &z, &options, &z, &info);
    g->call = w->p->call;
    if (status == GRAM_OK && g->backend->synchronize)
        status = g->backend->synchronize(g);
    gram_krr_free(g, &there);
    gram_free(g, order, bytes);
    return status;
}

/* z = I. */
static gram_status identity(gram_context *g, struct centres *w, double *ones)
{
    const gram_tensor z = square(g, w, &w->z);

    for (int64_t i = 0; i < w->m; i++)
        ones[i] = 1;
    TRY(zeros(g, w->m * w->m, &w->z));
    return gram_krr_add_diagonal(g, &z, ones);
}

/* Z = L^-T R^-T, where R R^T = A. */
static gram_status make_z(gram_context *g, struct centres *w, struct krr_array *a,
                          struct krr_array *factor)
{
    const struct krr_problem *p = w->p;
    const gram_tensor lower = square(g, w, &w->lower);
    gram_tensor inner = square(g, w, a);
    gram_matmul_options options = GRAM_MATMUL_OPTIONS_INIT;
    double *diagonal = w->host, mean = 0, list[FLOORS] = {0}, used;
    int32_t code = 0;

    for (int64_t i = 0; i < p->n; i++)
        mean += p->ridge[i] / (double)p->n; /* the weights */
    options.transpose_a = 1;
    options.alpha = gram_number(mean * (double)p->n / (double)w->m);
    TRY(gram_matmul_batched(g, &lower, &lower, &options, &inner));
    g->call = p->call;
    for (int64_t i = 0; i < w->m; i++)
        diagonal[i] = p->options.ridge;
    TRY(gram_krr_add_diagonal(g, &inner, diagonal));
    for (int i = 1; i < FLOORS; i++)
        list[i] = pow(100, i - 1) * DBL_EPSILON * (double)w->m *
                  (options.alpha.value * (double)w->m * p->most_diagonal + p->options.ridge);
    TRY(cholesky(g, w, a, list, factor, &used, &code));
    if (code != 0)
        return gram_fail(g, GRAM_NUMERICAL, "the matrix of the centres has no factor");
    TRY(identity(g, w, diagonal));
    TRY(solve_upper(g, w, factor));
    return solve_upper(g, w, &w->lower);
}

/* S, L and Z.  code is not 0 where K_mm is not positive definite. */
static gram_status factorise(gram_context *g, struct centres *w, int32_t *code)
{
    struct krr_problem *p = w->p;
    const bool narrow = p->dtype == GRAM_F32 && !p->options.refine;
    gram_tensor k = square(g, w, &w->k);
    double least = (narrow ? FLT_EPSILON : wide_floor) * (double)w->m *
                   (p->most_diagonal > 0 ? p->most_diagonal : 1);
    size_t bytes = (size_t)(w->m * w->m) * sizeof(double);
    struct krr_array a = {0}, factor = {0};
    double list[FLOORS];
    gram_status status;

    TRY(gram_kernel(g, &w->wide_c, NULL, &p->wide_kernel, &k));
    for (int i = 0; i < FLOORS; i++)
        list[i] = least * pow(10, i);
    TRY(cholesky(g, w, &w->k, list, &w->lower, &p->floor, code));
    if (*code != 0)
        return GRAM_OK;
    for (int64_t i = 0; i < w->m; i++)
        w->host[i] = p->floor;
    TRY(gram_krr_add_diagonal(g, &k, w->host));
    status = gram_krr_allocate(g, bytes, &a);
    if (status == GRAM_OK)
        status = gram_krr_allocate(g, bytes, &factor);
    if (status == GRAM_OK)
        status = make_z(g, w, &a, &factor);
    gram_krr_free(g, &factor);
    gram_krr_free(g, &a);
    return status;
}

/* ---- Products -------------------------------------------------------------------------------- */

/* out = Z v, or Z^T v; f64, m by columns. */
static gram_status apply_z(gram_context *g, const struct centres *w, bool transposed,
                           int64_t columns, const void *v, void *out)
{
    const gram_tensor z = gram_krr_by_columns(g, w->z.data, w->m, w->m, GRAM_F64);
    const gram_tensor from = gram_krr_by_columns(g, v, w->m, columns, GRAM_F64);
    gram_tensor to = gram_krr_by_columns(g, out, w->m, columns, GRAM_F64);
    gram_matmul_options options = GRAM_MATMUL_OPTIONS_INIT;
    gram_status status;

    options.transpose_a = transposed;
    status = gram_matmul_batched(g, &z, &from, &options, &to);
    g->call = w->p->call;
    return status;
}

/* inout += scale S v. */
static gram_status add_inner(gram_context *g, const struct centres *w, double scale,
                             int64_t columns, const void *v, void *inout)
{
    const gram_tensor k = square(g, w, &w->k);
    const gram_tensor from = gram_krr_by_columns(g, v, w->m, columns, GRAM_F64);
    gram_tensor to = gram_krr_by_columns(g, inout, w->m, columns, GRAM_F64);
    gram_matmul_options options = GRAM_MATMUL_OPTIONS_INIT;
    gram_status status;

    options.alpha = gram_number(scale);
    options.beta = gram_number(1);
    options.c = &to;
    status = gram_matmul_batched(g, &k, &from, &options, &to);
    g->call = w->p->call;
    return status;
}

/* out = K(a, b) v of a dtype. */
static gram_status multiply_kernel(gram_context *g, struct centres *w, const gram_tensor *a,
                                   const gram_tensor *b, int64_t columns, const void *v, void *out)
{
    const gram_kernel_options *kernel =
        a->dtype == w->p->dtype ? &w->p->kernel : &w->p->wide_kernel;
    const gram_tensor from = gram_krr_by_columns(g, v, b->shape[0], columns, a->dtype);
    gram_tensor to = gram_krr_by_columns(g, out, a->shape[0], columns, a->dtype);
    gram_status status;

    w->p->products++;
    status = gram_kernel_matmul(g, a, b, kernel, &from, NULL, &to);
    g->call = w->p->call;
    return status;
}

/* t of the dtype of the points from f64; numbers of the size of the centres pass through the
 * host. */
static gram_status narrow(gram_context *g, struct centres *w, int64_t count)
{
    float *out = (float *)(void *)w->host;

    TRY(gram_krr_fetch(g, w->host, w->wide_t.data, (size_t)count * sizeof(double)));
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)w->host[i];
    return gram_krr_store(g, w->t.data, out, (size_t)count * sizeof *out);
}

/* K_mn W K_nm t, of the dtype, to h. */
static gram_status there_and_back(gram_context *g, struct centres *w, int64_t columns,
                                  const void *t, void *h)
{
    const struct krr_problem *p = w->p;
    const struct krr_map weigh = {.dtype = p->dtype,
                                  .rows = columns,
                                  .width = p->n,
                                  .w = w->weights.data,
                                  .x = w->u.data,
                                  .z = w->weighted.data};

    TRY(multiply_kernel(g, w, &w->x, &w->c, columns, t, w->u.data));
    if (w->weights.data)
        TRY(gram_krr_map(g, &weigh));
    return multiply_kernel(g, w, &w->c, &w->x, columns,
                           w->weights.data ? w->weighted.data : w->u.data, h);
}

/* K_mn W K_nm t of rows that are read, to wide_h. */
static gram_status there_and_back_rows(gram_context *g, struct centres *w, int64_t columns,
                                       const void *t)
{
    const struct krr_rows_pass pass = {
        .wide = w->p->dtype == GRAM_F64, .columns = columns, .v = t, .out = w->host};

    TRY(gram_krr_rows_product(g, w->p, &pass));
    return gram_krr_store(g, w->wide_h.data, w->host, (size_t)(w->m * columns) * sizeof *w->host);
}

/* out = Z^T H Z v: the matrix of the iteration. */
static gram_status multiply(gram_context *g, void *user, int64_t columns, const void *v, void *out)
{
    struct centres *w = user;
    const struct krr_problem *p = w->p;
    const int64_t count = w->m * columns;
    const void *t = w->wide_t.data;

    TRY(apply_z(g, w, false, columns, v, w->wide_t.data));
    if (p->dtype == GRAM_F32) {
        TRY(narrow(g, w, count));
        t = w->t.data;
    }
    if (p->rows.read) {
        TRY(there_and_back_rows(g, w, columns, t));
    } else {
        TRY(there_and_back(g, w, columns, t, w->h.data));
        TRY(g->backend->krr->widen(g, p->dtype, count, w->h.data, w->wide_h.data));
    }
    TRY(add_inner(g, w, p->options.ridge, columns, w->wide_t.data, w->wide_h.data));
    return apply_z(g, w, true, columns, w->wide_h.data, out);
}

/* ---- The certificate ------------------------------------------------------------------------- */

/* K_mn W (y - K_nm a) of rows that are read, to p->residual and at[2]. */
/* NOLINTNEXTLINE(readability-non-const-parameter): norm_u is written, by the product */
static gram_status normal_rows(gram_context *g, struct centres *w, double *norm_u,
                               struct krr_array at[3])
{
    struct krr_problem *p = w->p;
    size_t small = (size_t)(w->m * p->columns) * sizeof(double);
    const struct krr_rows_pass pass = {
        .wide = true, .columns = p->columns, .v = at[0].data, .norm_u = norm_u, .out = p->residual};

    TRY(gram_krr_rows_product(g, p, &pass));
    return gram_krr_store(g, at[2].data, p->residual, small);
}

/* g = b - H a to p->residual, where the context computes in f64; norm_u is |W (y - K_nm a)|. */
static gram_status normal_residual(gram_context *g, struct centres *w, struct krr_array at[3],
                                   double *norm_u)
{
    struct krr_problem *p = w->p;
    size_t small = (size_t)(w->m * p->columns) * sizeof(double);
    size_t large = (size_t)(p->n * p->columns) * sizeof(double);

    TRY(gram_krr_allocate(g, small, &at[0]));
    TRY(gram_krr_allocate(g, p->rows.read ? sizeof(double) : large, &at[1]));
    TRY(gram_krr_allocate(g, small, &at[2]));
    TRY(gram_krr_store(g, at[0].data, p->alpha, small));
    if (p->rows.read) {
        TRY(normal_rows(g, w, norm_u, at));
        TRY(add_inner(g, w, -p->options.ridge, p->columns, at[0].data, at[2].data));
        return gram_krr_fetch(g, p->residual, at[2].data, small);
    }
    TRY(multiply_kernel(g, w, &w->wide_x, &w->wide_c, p->columns, at[0].data, at[1].data));
    TRY(gram_krr_fetch(g, p->residual, at[1].data, large));
    for (int64_t j = 0; j < p->columns; j++) {
        double sum = 0;

        for (int64_t i = 0; i < p->n; i++) {
            double *u = &p->residual[j * p->n + i];
            *u = p->ridge[i] * (p->y[j * p->n + i] - *u); /* times the weight */
            sum += *u * *u;
        }
        norm_u[j] = sqrt(sum);
    }
    TRY(gram_krr_store(g, at[1].data, p->residual, large));
    TRY(multiply_kernel(g, w, &w->wide_c, &w->wide_x, p->columns, at[1].data, at[2].data));
    TRY(add_inner(g, w, -p->options.ridge, p->columns, at[0].data, at[2].data));
    return gram_krr_fetch(g, p->residual, at[2].data, small);
}

static double norm(const double *v, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += v[i] * v[i];
    return sqrt(sum);
}

/* |L^-1 g| of every column, with what rounding may have hidden of g, and Z^T g and its norms. */
static gram_status reduce(gram_context *g, struct centres *w, const struct krr_array at[3],
                          const double *norm_u)
{
    const struct krr_problem *p = w->p;
    const gram_tensor lower = square(g, w, &w->lower);
    gram_tensor right = gram_krr_by_columns(g, at[2].data, w->m, p->columns, GRAM_F64);
    gram_tensor answer = gram_krr_by_columns(g, at[0].data, w->m, p->columns, GRAM_F64);
    gram_tensor info = {.dtype = GRAM_I32, .device = right.device, .data = at[1].data};
    gram_solve_options options = GRAM_SOLVE_OPTIONS_INIT;
    size_t bytes = (size_t)(w->m * p->columns) * sizeof(double);
    double most = p->most_diagonal, n = (double)p->n, m = (double)w->m;

    TRY(apply_z(g, w, true, p->columns, at[2].data, at[0].data));
    TRY(gram_krr_fetch(g, w->reduced, at[0].data, bytes));
    options.factored = 1;
    TRY(gram_solve_cholesky(g, &lower, &right, &options, &answer, &info));
    g->call = p->call;
    TRY(gram_krr_fetch(g, w->host, answer.data, bytes));
    for (int64_t j = 0; j < p->columns; j++) {
        const double *of = p->residual + j * w->m, *a = p->alpha + j * w->m;
        double sum = 0, rounding;

        for (int64_t i = 0; i < w->m; i++)
            sum += of[i] * w->host[j * w->m + i];
        rounding = sqrt(n * m) * most * (norm_u[j] + sqrt(n * m) * most * norm(a, w->m)) +
                   p->options.ridge * m * most * norm(a, w->m);
        w->norm_q[j] = sqrt(fmax(0, sum)) + DBL_EPSILON * rounding / sqrt(p->floor);
        w->norm_z[j] = norm(w->reduced + j * w->m, w->m);
    }
    return GRAM_OK;
}

/* The bound of the root mean square of a column. */
static double rms_bound(const struct centres *w, int64_t j)
{
    const struct krr_problem *p = w->p;

    if (w->norm_q[j] == 0)
        return 0;
    return w->norm_q[j] / (2 * sqrt(p->options.ridge * (double)p->n * p->least_weight));
}

/* What alpha is wrong by. */
static gram_status look(gram_context *g, struct centres *w)
{
    struct krr_problem *p = w->p;
    struct krr_array at[3] = {{0}, {0}, {0}};
    gram_status status;

    if (p->narrow_alpha)
        for (int64_t i = 0; i < w->m * p->columns; i++)
            p->alpha[i] = (double)(float)p->alpha[i];
    status = normal_residual(g, w, at, p->norm_y);
    if (status == GRAM_OK)
        status = reduce(g, w, at, p->norm_y);
    for (int i = 0; i < 3; i++)
        gram_krr_free(g, &at[i]);
    for (int64_t j = 0; j < p->columns; j++)
        p->norm_r[j] = p->options.held_out_rmse > 0 ? rms_bound(w, j) : w->norm_z[j];
    return status;
}

static void set_targets(struct centres *w)
{
    struct krr_problem *p = w->p;

    for (int64_t j = 0; j < p->columns; j++)
        p->target[j] = p->options.tolerance *
                       (p->options.held_out_rmse > 0 ? p->options.held_out_rmse : w->norm_b[j]);
}

/* What begin() and look() found, of a file. */
static void go_on(struct centres *w)
{
    struct krr_problem *p = w->p;
    const struct krr_checkpoint *c = &p->keep;
    const size_t row = (size_t)p->columns * sizeof *w->norms;

    memcpy(w->reduced, c->residual_before, (size_t)w->m * row);
    memcpy(p->norm_r, c->norms_before, row);
    memcpy(w->norm_q, c->norms_before + p->columns, 3 * row); /* norm_z and norm_b, too */
    w->stage = (enum krr_stage)c->stage;
    set_targets(w);
}

/* The norms that the tolerance is of, which are those of an alpha of 0. */
static gram_status begin(gram_context *g, struct centres *w)
{
    struct krr_problem *p = w->p;
    size_t bytes = (size_t)(w->m * p->columns) * sizeof(double);

    w->stage = KRR_LOOKED_AT;
    p->keep.residual = w->reduced;
    p->keep.norms = w->norms;
    p->keep.norm_rows = 4;
    if (p->keep.file) {
        go_on(w);
        return GRAM_OK;
    }
    memcpy(p->best, p->alpha, bytes);
    memset(p->alpha, 0, bytes);
    TRY(look(g, w));
    memcpy(w->norm_b, w->norm_z, (size_t)p->columns * sizeof *w->norm_b);
    set_targets(w);
    if (!p->options.warm_start)
        return GRAM_OK;
    memcpy(p->alpha, p->best, bytes);
    return look(g, w);
}

static void bounds(const struct centres *w, gram_krr_report *report)
{
    const struct krr_problem *p = w->p;

    for (int64_t j = 0; j < p->columns; j++) {
        double relative = w->norm_z[j] == 0 ? 0 : w->norm_z[j] / w->norm_b[j];

        report->residual = fmax(report->residual, relative);
        report->residual_rms = fmax(report->residual_rms, w->norm_z[j] / sqrt((double)p->n));
        report->prediction_rms = fmax(report->prediction_rms, rms_bound(w, j));
        if (w->norm_q[j] > 0)
            report->prediction_sup = fmax(report->prediction_sup,
                                          sqrt(p->most_diagonal) * w->norm_q[j] / p->options.ridge);
    }
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* Iterations that the limit of products allows: two products each, and six for residuals. */
static int64_t iterations_left(const struct krr_problem *p)
{
    return (p->options.products - p->products - 6) / 2;
}

/* b = Z^T g / |Z^T g|, or 0 where a column is good enough; returns the tolerance. */
static double load_residuals(struct centres *w)
{
    const struct krr_problem *p = w->p;
    double tolerance = 0.9;

    for (int64_t j = 0; j < p->columns; j++) {
        bool done = p->norm_r[j] <= p->target[j];

        if (!done)
            tolerance = fmin(tolerance, 0.7 * p->target[j] / p->norm_r[j]);
        for (int64_t i = j * w->m; i < (j + 1) * w->m; i++)
            w->host[i] = done || w->norm_z[j] == 0 ? 0 : w->reduced[i] / w->norm_z[j];
    }
    return p->dtype == GRAM_F32 ? fmax(tolerance, 1e-4) : fmax(tolerance, 1e-12);
}

/* What a checkpoint says of the round: the largest residual, of which the iteration tells a part,
 * and norms. */
static void note_round(struct centres *w)
{
    struct krr_problem *p = w->p;
    const size_t row = (size_t)p->columns * sizeof *w->norms;

    p->keep.part = INT64_MAX;
    p->keep.scale = 0;
    for (int64_t j = 0; j < p->columns; j++)
        if (p->norm_r[j] > p->target[j] && w->norm_b[j] > 0)
            p->keep.scale = fmax(p->keep.scale, w->norm_z[j] / w->norm_b[j]);
    memcpy(w->norms, p->norm_r, row);
    memcpy(w->norms + p->columns, w->norm_q, 3 * row);
}

/* Iterates, and adds what it finds to alpha. */
static gram_status improve(gram_context *g, struct centres *w, struct krr_cg_report *report)
{
    struct krr_problem *p = w->p;
    const bool resumed = w->stage == KRR_ITERATING;
    const struct krr_cg_keeper keeper = gram_krr_checkpoint_keeper(p, resumed);
    size_t bytes = (size_t)(w->m * p->columns) * sizeof(double);
    struct krr_cg cg = {.dtype = GRAM_F64,
                        .n = w->m,
                        .columns = p->columns,
                        .multiply = multiply,
                        .matrix = w,
                        .ridge = w->no_ridge.data,
                        .b = w->b.data,
                        .x = w->v.data,
                        .iterations = iterations_left(p),
                        .rounds = 1,
                        .lenient = true,
                        .keeper = p->keep.path ? &keeper : NULL};

    if (cg.iterations > 8 * CG_ROUNDS)
        cg.rounds = CG_ROUNDS, cg.iterations -= CG_ROUNDS - 1;
    if (resumed)
        cg.iterations += p->keep.state.iterations;
    cg.tolerance = load_residuals(w);
    cg.seconds = gram_krr_seconds_left(p);
    TRY(gram_krr_store(g, w->b.data, w->host, bytes));
    TRY(gram_krr_cg(g, &cg, report));
    TRY(apply_z(g, w, false, p->columns, w->v.data, w->wide_t.data));
    TRY(gram_krr_fetch(g, w->host, w->wide_t.data, bytes));
    for (int64_t j = 0; j < p->columns; j++)
        for (int64_t i = j * w->m; i < (j + 1) * w->m; i++)
            p->alpha[i] += p->norm_r[j] <= p->target[j] ? 0 : w->norm_z[j] * w->host[i];
    return GRAM_OK;
}

static gram_status one_round(gram_context *g, struct centres *w, struct krr_cg_report *report)
{
    struct krr_problem *p = w->p;
    gram_status status;

    note_round(w);
    if (w->stage != KRR_TO_LOOK_AT)
        TRY(improve(g, w, report));
    w->stage = KRR_LOOKED_AT;
    status = look(g, w);
    if (status == GRAM_CANCELLED)
        gram_krr_checkpoint_write(g, p, KRR_TO_LOOK_AT);
    return status;
}

static gram_status iterate(gram_context *g, struct centres *w, struct krr_cg_report *last)
{
    struct krr_problem *p = w->p;
    struct krr_checkpoint *c = &p->keep;
    const int most = p->options.refine ? REFINING_ROUNDS : MOST_ROUNDS;
    size_t bytes = (size_t)(w->m * p->columns) * sizeof(double);
    double excess = gram_krr_excess(p);
    bool on = true;

    for (; c->round < most && excess > 1 && on; c->round++) {
        const bool late = gram_krr_out_of_time(p);
        double before = excess;

        *last = (struct krr_cg_report){.end = late ? KRR_CG_SECONDS : KRR_CG_ITERATIONS};
        if (late || iterations_left(p) < 1) {
            c->kept |= w->stage == KRR_ITERATING;
            break;
        }
        c->kept = false;
        if (w->stage != KRR_TO_LOOK_AT)
            memcpy(p->best, p->alpha, bytes);
        TRY(one_round(g, w, last));
        excess = gram_krr_excess(p);
        on = excess <= 0.5 * before;
        if (!(excess < before)) {
            memcpy(p->alpha, p->best, bytes);
            TRY(look(g, w));
        }
        if (c->kept && excess > 1)
            break;
    }
    c->kept &= excess > 1;
    if (!on)
        c->round = most; /* another call would bring no more */
    note_round(w);
    gram_krr_checkpoint_write(g, p, KRR_LOOKED_AT);
    return GRAM_OK;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static gram_status allocate(gram_context *g, struct centres *w)
{
    struct krr_problem *p = w->p;
    size_t small = (size_t)(w->m * p->columns);
    size_t large = p->rows.read ? 0 : (size_t)(p->n * p->columns);
    size_t size = gram_dtype_size(p->dtype), inner = (size_t)(w->m * w->m) * sizeof(double);
    const bool weighted = p->options.weights != NULL;
    /* w->host also has a vector of the centres alone */
    struct {
        struct krr_array *array;
        size_t bytes;
    } const all[] = {
        {       &w->k,                               inner},
        {   &w->lower,                               inner},
        {       &w->z,                               inner},
        {       &w->t,                        small * size},
        {       &w->u,                        large * size},
        {&w->weighted, weighted ? large * size : (size_t)0},
        {       &w->h,                        small * size},
        {  &w->wide_t,              small * sizeof(double)},
        {  &w->wide_h,              small * sizeof(double)},
        {       &w->b,              small * sizeof(double)},
        {       &w->v,              small * sizeof(double)},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        TRY(gram_krr_allocate(g, all[i].bytes, all[i].array));
    TRY(gram_krr_no_ridge(g, w->m, &w->no_ridge));
    if (weighted)
        TRY(gram_krr_send(g, p->ridge, (size_t)p->n * sizeof(double), &w->weights));
    w->bytes = (2 * small + 7 * (size_t)p->columns) * sizeof(double);
    w->memory = gram_alloc(g, w->bytes);
    if (!w->memory)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", w->bytes);
    w->reduced = w->memory;
    w->host = w->reduced + small;
    w->norm_q = w->host + small;
    w->norm_z = w->norm_q + p->columns;
    w->norm_b = w->norm_z + p->columns;
    w->norms = w->norm_b + p->columns;
    return GRAM_OK;
}

static void release(gram_context *g, struct centres *w)
{
    struct krr_array *const all[] = {&w->k, &w->lower,    &w->z,       &w->weights, &w->t,
                                     &w->u, &w->weighted, &w->h,       &w->wide_t,  &w->wide_h,
                                     &w->b, &w->v,        &w->no_ridge};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gram_krr_free(g, all[i]);
    gram_free(g, w->memory, w->bytes);
}

static gram_status run(gram_context *g, struct centres *w, gram_krr_report *report,
                       struct krr_cg_report *last, int32_t *minor)
{
    TRY(allocate(g, w));
    TRY(factorise(g, w, minor));
    if (*minor != 0)
        return GRAM_OK;
    TRY(begin(g, w));
    TRY(iterate(g, w, last));
    bounds(w, report);
    report->floor = w->p->floor;
    return GRAM_OK;
}

gram_status gram_krr_centres(gram_context *g, struct krr_problem *p, gram_krr_report *report,
                             struct krr_cg_report *last, int32_t *minor)
{
    struct centres w = {
        .p = p,
        .m = p->unknowns,
        .x = gram_krr_matrix(g, p->x.data, p->n, p->width, p->dtype),
        .c = gram_krr_matrix(g, p->centres.data, p->unknowns, p->width, p->dtype),
        .wide_x = gram_krr_matrix(g, p->wide_x.data, p->n, p->width, GRAM_F64),
        .wide_c = gram_krr_matrix(g, p->wide_centres.data, p->unknowns, p->width, GRAM_F64)};
    gram_status status = run(g, &w, report, last, minor);

    release(g, &w);
    return status;
}
