/*
 * krr_solve_cg.c - gram_krr_solve by conjugate gradients over products that are never stored
 *
 * A round solves A e = r for the residual r in f64 of the alpha so far, whose columns are scaled to
 * length 1, in the dtype of x, and adds e to alpha.  A column that is good enough has 0 in r and
 * leaves at once.  The preconditioner serves all rounds.
 *
 * With refinement of f32 a round renews its residuals in f64 while it goes on (cg.c), so that it
 * ends where the tolerance is reached, or where a product in f32 is as wrong as the residual is
 * large: elements of K with an error of e each make a matrix of norm 2 e sqrt(n), which may be more
 * than the least eigenvalue of A, and then no residual in f64 helps.  The next rounds are in f64,
 * products and all, but for the preconditioner.
 *
 * Where a round brings nothing and the ridge is small, the matrix may be singular to working
 * precision, and the targets not in its range.  Rounds then solve with sqrt(eps) max k(x, x) more
 * on the diagonal, which bounds the part of alpha that the matrix does not see.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_ranks.h"
#include "krr_solve.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    MOST_ROUNDS = 3,
    REFINING_ROUNDS = 30,
    SINGULAR_ITERATIONS = 200, /* of a round where the residual may grow without end */
    CG_ROUNDS = 4              /* within one of them, from residuals in its dtype */
};

/* A round in f32 that refinement follows need not go further where alpha is f32, too: its product
 * has some six digits. */
static const double refining_tolerance = 1e-4;

struct rounds {
    struct krr_problem *p;
    enum krr_stage stage; /* of what is gone on from; else KRR_LOOKED_AT */
    gram_tensor points;
    struct krr_kernel kernel; /* of these */
    struct krr_preconditioner preconditioner;
    bool preconditioned;
    double mean;                              /* of the ridge */
    struct krr_array vectors, product, ridge; /* b and x; of f32, on a GPU; on a GPU */
    gram_dtype dtype;                         /* of the vectors: that of x, or f64 */
    void *b, *x;
    void *host; /* one vector array of the dtype, and what apply_narrow needs */
    size_t bytes, host_bytes;
    struct krr_array narrow; /* of f64 vectors: what the preconditioner reads and writes in f32 */
    double *diagonal;        /* n: the ridge, and what is added to it */
    double *scale;           /* per column: what a round divides its residual by; 0: it is done */
    bool shifted;
};

/* ---- What conjugate gradients are given ------------------------------------------------------ */

static gram_status multiply(gram_context *g, void *user, int64_t columns, const void *v, void *out)
{
    struct rounds *r = user;
    struct krr_problem *p = r->p;

    if (p->keep.wide)
        TRY(gram_krr_multiply_wide(g, p, columns, v, out));
    else {
        p->products++;
        TRY(p->rows.read ? gram_krr_rows_multiply(g, p, false, columns, v, out)
                         : gram_krr_kernel_multiply(g, &r->kernel, columns, v, out));
    }
    if (!g->backend->krr->wide_product)
        gram_krr_add_ridge(r->dtype, p->n, columns, r->diagonal, v, out);
    return GRAM_OK;
}

/*
 * P^-1 v of v in f64 by P^-1 in f32, whose sums are in f64: what f32 has of v, and then the rest.
 * Rounding of v alone would be as large as P^-1 v where the norm of P is more than 1 / eps of its
 * least eigenvalue.  Vectors pass through the host, which takes no time beside a product.
 */
static gram_status apply_narrow(gram_context *g, struct rounds *r,
                                const struct krr_preconditioner *p, const void *v, void *out)
{
    const int64_t count = p->n * p->columns, room = p->n * r->p->columns;
    const size_t bytes = (size_t)count * sizeof(float);
    double *wide = r->host, *sum = wide + room;
    float *here = (float *)(sum + room);
    char *to = (char *)r->narrow.data + gram_round64((size_t)room * sizeof *here);

    TRY(gram_krr_fetch(g, wide, v, 2 * bytes));
    memset(sum, 0, 2 * bytes);
    for (int part = 0; part < 2; part++) {
        for (int64_t i = 0; i < count; i++) {
            here[i] = (float)wide[i];
            wide[i] -= (double)here[i];
        }
        TRY(gram_krr_store(g, r->narrow.data, here, bytes));
        TRY(g->backend->krr->apply(g, p, r->narrow.data, to));
        TRY(gram_krr_fetch(g, here, to, bytes));
        for (int64_t i = 0; i < count; i++)
            sum[i] += (double)here[i];
    }
    return gram_krr_store(g, out, sum, 2 * bytes);
}

static gram_status precondition(gram_context *g, void *user, int64_t columns, const void *v,
                                void *out)
{
    struct rounds *r = user;
    struct krr_preconditioner p = r->preconditioner;

    if (p.ranks)
        return gram_krr_ranks_apply(g, &p, columns, v, out);
    p.columns = columns;
    if (r->dtype == p.dtype)
        return g->backend->krr->apply(g, &p, v, out);
    return g->backend->krr->apply_wide ? g->backend->krr->apply_wide(g, &p, v, out)
                                       : apply_narrow(g, r, &p, v, out);
}

/* For so many pivots, where they are kept; those that are there stay. */
static gram_status make_room(gram_context *g, struct krr_problem *p, int64_t rank)
{
    struct krr_checkpoint *c = &p->keep;
    const size_t bytes = 2 * (size_t)rank * sizeof *c->pivots.row;
    int64_t *row;

    if (!c->path || rank == 0)
        return GRAM_OK;
    row = gram_alloc(g, bytes);
    if (!row)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    if (c->pivots.rows > 0) {
        memcpy(row, c->pivots.row, (size_t)c->pivots.rows * sizeof *row);
        memcpy(row + rank, c->pivots.step, (size_t)c->pivots.steps * sizeof *row);
    }
    gram_krr_checkpoint_drop_pivots(g, c);
    c->rank = rank;
    c->pivots.row = row;
    c->pivots.step = row + rank;
    return GRAM_OK;
}

struct krr_system gram_krr_system_of(const gram_context *g, const struct krr_problem *p,
                                     struct krr_pivots *pivots)
{
    return (struct krr_system){.column = p->rows.read ? gram_krr_rows_columns : NULL,
                               .user = (void *)p,
                               .x = gram_krr_matrix(g, p->x.data, p->n, p->width, p->dtype),
                               .kernel = &p->kernel,
                               .ridge = p->ridge,
                               .columns = p->columns,
                               .seed = p->options.seed,
                               .diagonal = p->diagonal,
                               .pivots = pivots,
                               .ranks = p->ranks};
}

static struct krr_pivots *kept_pivots(struct krr_problem *p)
{
    return p->keep.path ? &p->keep.pivots : NULL;
}

static gram_status make_preconditioner(gram_context *g, struct rounds *r)
{
    struct krr_problem *p = r->p;
    struct krr_system system = gram_krr_system_of(g, p, kept_pivots(p));

    TRY(gram_krr_growth_open(g, p));
    if (p->keep.file ? !p->keep.preconditioned : p->options.rank < 0)
        return GRAM_OK;
    system.rank = gram_krr_rank(p->n, p->options.rank);
    if (p->keep.growth.on)
        system.rank = gram_least(system.rank, p->keep.growth.most);
    if (!p->keep.file)
        TRY(make_room(g, p, system.rank));
    r->mean = gram_krr_mean(p->ridge, p->n);
    if (r->preconditioner.n == 0)
        TRY(gram_krr_precondition(g, &system, r->mean, &r->preconditioner));
    r->preconditioned = p->keep.preconditioned = r->preconditioner.rank > 0;
    return GRAM_OK;
}

/* ---- A larger preconditioner ----------------------------------------------------------------- */

static void begins(void *user, int64_t column)
{
    gram_krr_growth_begin(&((struct rounds *)user)->p->keep.growth, column);
}

static void told(void *user, int64_t column, double rz, double curvature)
{
    gram_krr_growth_told(&((struct rounds *)user)->p->keep.growth, column, rz, curvature);
}

/* Pivots are those of the preconditioner at any time, also where it could not be made larger. */
static gram_status grow(gram_context *g, struct rounds *r, int64_t rank, bool *changed)
{
    struct krr_problem *p = r->p;
    struct krr_pivots *pivots = &p->keep.pivots;
    const struct krr_system system = gram_krr_system_of(g, p, kept_pivots(p));
    const int64_t before = r->preconditioner.rank;
    int64_t rows, steps;
    gram_status status = make_room(g, p, rank);

    rows = pivots->rows, steps = pivots->steps;
    if (status == GRAM_OK)
        status = gram_krr_append(g, &system, r->mean, rank, &r->preconditioner);
    if (status == GRAM_OUT_OF_MEMORY && !p->ranks && r->preconditioner.factor.data) {
        p->keep.growth.on = false; /* it goes on with what it has */
        return GRAM_OK;
    }
    *changed = status == GRAM_OK && r->preconditioner.rank > before;
    if (*changed)
        return GRAM_OK;
    pivots->rows = rows, pivots->steps = steps;
    p->keep.growth.on = false; /* nothing is left to be appended */
    return status;
}

static gram_status review(gram_context *g, void *user, int64_t columns, double excess,
                          bool *changed)
{
    struct rounds *r = user;
    const int64_t rank = gram_krr_growth_rank(g, r->p, &r->preconditioner, columns, excess);

    return rank > 0 && r->preconditioned ? grow(g, r, rank, changed) : GRAM_OK;
}

static void free_vectors(gram_context *g, struct rounds *r)
{
    gram_krr_free(g, &r->vectors);
    gram_krr_free(g, &r->product);
    gram_krr_free(g, &r->narrow);
    gram_free(g, r->host, r->host_bytes);
    r->host = NULL;
}

/* Of the dtype of the rounds that follow. */
static gram_status make_vectors(gram_context *g, struct rounds *r)
{
    const struct krr_problem *p = r->p;
    const size_t count = (size_t)(p->n * p->columns);
    const bool splits = p->keep.wide && !g->backend->krr->apply_wide;

    r->dtype = p->keep.wide ? GRAM_F64 : p->dtype;
    r->bytes = count * gram_dtype_size(r->dtype);
    r->host_bytes = r->bytes + (splits ? count * (sizeof(double) + sizeof(float)) : 0);
    r->host = gram_alloc(g, r->host_bytes);
    if (!r->host)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", r->host_bytes);
    TRY(gram_krr_allocate(g, 2 * gram_round64(r->bytes), &r->vectors));
    r->b = r->vectors.data;
    r->x = (char *)r->vectors.data + gram_round64(r->bytes);
    if (splits)
        TRY(gram_krr_allocate(g, 2 * gram_round64(count * sizeof(float)), &r->narrow));
    if (g->backend->krr->wide_product && r->dtype != GRAM_F64)
        TRY(gram_krr_allocate(g, r->bytes, &r->product));
    r->kernel.narrow = r->product.data;
    return GRAM_OK;
}

static gram_status prepare(gram_context *g, struct rounds *r)
{
    struct krr_problem *p = r->p;
    const size_t bytes = (size_t)(p->n + p->columns) * sizeof *r->diagonal;

    r->diagonal = gram_alloc(g, bytes);
    if (!r->diagonal)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    r->scale = r->diagonal + p->n;
    memset(r->scale, 0, (size_t)p->columns * sizeof *r->scale);
    memcpy(r->diagonal, p->ridge, (size_t)p->n * sizeof *r->diagonal);
    TRY(gram_krr_send(g, r->diagonal, (size_t)p->n * sizeof *p->ridge, &r->ridge));
    p->keep.wide = p->keep.file && p->keep.wide; /* rounds may be made more than once */
    TRY(make_vectors(g, r));
    return make_preconditioner(g, r);
}

/* ---- A round --------------------------------------------------------------------------------- */

static bool good_enough(const struct krr_problem *p, int64_t j)
{
    return p->norm_r[j] <= p->target[j];
}

/* Whether a round in f32 has its residuals from f64. */
static bool renews(const struct rounds *r)
{
    return r->p->options.refine && r->dtype == GRAM_F32 && !r->p->narrow_alpha;
}

/* b = r / |r| of the columns that are not good enough; returns the tolerance that they want. */
static double load_residuals(struct rounds *r)
{
    const struct krr_problem *p = r->p;
    double tolerance = 0.9;

    for (int64_t j = 0; j < p->columns; j++) {
        bool done = good_enough(p, j);

        r->scale[j] = done ? 0 : p->norm_r[j];
        if (!done)
            tolerance = fmin(tolerance, 0.9 * p->target[j] / p->norm_r[j]);
        for (int64_t i = j * p->n; i < (j + 1) * p->n; i++)
            krr_set_element(r->dtype, r->host, i, done ? 0 : p->residual[i] / p->norm_r[j]);
    }
    if (p->options.refine && r->dtype == GRAM_F32 && !renews(r))
        tolerance = fmax(tolerance, refining_tolerance);
    return tolerance;
}

/* alpha += |r| e. */
static gram_status add_answer(gram_context *g, struct rounds *r)
{
    struct krr_problem *p = r->p;

    TRY(gram_krr_fetch(g, r->host, r->x, r->bytes));
    for (int64_t j = 0; j < p->columns; j++)
        for (int64_t i = j * p->n; i < (j + 1) * p->n && r->scale[j] > 0; i++)
            p->alpha[i] += r->scale[j] * krr_element(r->dtype, r->host, i);
    return GRAM_OK;
}

/* krr_cg.renew. */
static gram_status renew(gram_context *g, void *user, int64_t working, const int64_t *which,
                         void *residuals, double *norms, double *gaps)
{
    struct rounds *r = user;
    struct krr_problem *p = r->p;
    const size_t bytes = (size_t)(working * p->n) * gram_dtype_size(r->dtype);

    TRY(add_answer(g, r));
    memset(r->host, 0, r->bytes);
    TRY(gram_krr_store(g, r->x, r->host, r->bytes));
    TRY(gram_krr_residual(g, p));
    TRY(gram_krr_fetch(g, r->host, residuals, bytes));
    for (int64_t place = 0; place < working; place++) {
        const int64_t j = which[place];
        double sum = 0;

        for (int64_t i = 0; i < p->n; i++) {
            const double exact = p->residual[j * p->n + i] / r->scale[j];
            const double gap = krr_element(r->dtype, r->host, place * p->n + i) - exact;

            sum += gap * gap;
            krr_set_element(r->dtype, r->host, place * p->n + i, exact);
        }
        norms[j] = p->norm_r[j] / r->scale[j];
        gaps[j] = sqrt(sum);
    }
    return gram_krr_store(g, residuals, r->host, bytes);
}

/* Iterations that the limit of products allows a round.  It needs three further ones: for its own
 * last residual, for the certificate, and for that of the best answer if this one is not it. */
static int64_t iterations_left(const struct krr_problem *p)
{
    return p->options.products - p->products - 3;
}

/* The largest residual over y, of which the iteration tells a part. */
static double scale_of(const struct krr_problem *p)
{
    double most = 0;

    for (int64_t j = 0; j < p->columns; j++)
        if (!good_enough(p, j) && p->norm_y[j] > 0)
            most = fmax(most, p->norm_r[j] / p->norm_y[j]);
    return most;
}

/* Iterates, and adds what it finds to alpha. */
static gram_status improve(gram_context *g, struct rounds *r, struct krr_cg_report *report)
{
    struct krr_problem *p = r->p;
    const bool resumed = r->stage == KRR_ITERATING;
    const struct krr_cg_keeper keeper = gram_krr_checkpoint_keeper(p, resumed);
    const struct krr_cg_adviser adviser = {begins, told, review, r};
    const int64_t left = iterations_left(p), done = resumed ? p->keep.state.iterations : 0;
    const int rounds = left > 2 * CG_ROUNDS && !renews(r) ? CG_ROUNDS : 1;
    struct krr_cg cg = {.dtype = r->dtype,
                        .n = p->n,
                        .columns = p->columns,
                        .multiply = multiply,
                        .matrix = r,
                        .precondition = r->preconditioned ? precondition : NULL,
                        .preconditioner = r,
                        .ridge = r->ridge.data,
                        .b = r->b,
                        .x = r->x,
                        .iterations = done + left - left / KRR_CG_CHECK - (rounds - 1),
                        .rounds = rounds,
                        .check = renews(r) ? 0 : KRR_CG_CHECK,
                        .renew = renews(r) ? renew : NULL,
                        .renewer = r,
                        .keeper = p->keep.path ? &keeper : NULL,
                        .adviser = p->keep.growth.on ? &adviser : NULL,
                        .ranks = p->ranks};

    p->keep.scale = scale_of(p);
    cg.tolerance = load_residuals(r);
    p->keep.part = INT64_MAX;
    if (!r->shifted && gram_krr_singular_ridge(p) > 0 && cg.iterations > SINGULAR_ITERATIONS)
        cg.iterations = p->keep.part = SINGULAR_ITERATIONS;
    cg.seconds = gram_krr_seconds_left(p);
    p->keep.norms = r->scale;
    TRY(gram_krr_store(g, r->b, r->host, r->bytes));
    TRY(gram_krr_cg(g, &cg, report));
    if (report->end == KRR_CG_ITERATIONS && p->keep.part < INT64_MAX)
        report->end = KRR_CG_STALLED; /* the round's own limit is not the caller's */
    return add_answer(g, r);
}

static gram_status one_round(gram_context *g, struct rounds *r, struct krr_cg_report *report)
{
    gram_status status;

    if (r->stage != KRR_TO_LOOK_AT)
        TRY(improve(g, r, report));
    r->stage = KRR_LOOKED_AT;
    status = gram_krr_residual(g, r->p);
    if (status == GRAM_CANCELLED)
        gram_krr_checkpoint_write(g, r->p, KRR_TO_LOOK_AT);
    r->p->keep.norms = r->p->norm_r;
    return status;
}

/* Keeps the better one of two answers; true if the new one is, and by how much. */
static bool keep(struct krr_problem *p, double *excess)
{
    size_t bytes = (size_t)(p->n * p->columns) * sizeof *p->best;
    double now = gram_krr_excess(p);
    bool better = now < *excess;

    if (better) {
        memcpy(p->best, p->alpha, bytes);
        *excess = now;
    } else
        memcpy(p->alpha, p->best, bytes);
    return better;
}

static bool out_of_limits(const struct krr_problem *p)
{
    return iterations_left(p) < 1 || gram_krr_out_of_time(p);
}

/* Whether the next round is to be in f64 because rounding ended this one, in which f64 had its
 * part. */
static bool wants_width(const struct rounds *r, const struct krr_cg_report *last, bool halved)
{
    if (!renews(r))
        return false;
    return last->end == KRR_CG_STALLED || last->end == KRR_CG_INDEFINITE ||
           last->end == KRR_CG_PRECONDITIONER || (last->end == KRR_CG_REACHED && !halved);
}

static gram_status widen(gram_context *g, struct rounds *r)
{
    r->p->keep.wide = true;
    free_vectors(g, r);
    return make_vectors(g, r);
}

/* What bounds the part of alpha that the matrix does not see. */
static double shift_of(const struct rounds *r)
{
    return sqrt(r->dtype == GRAM_F32 ? FLT_EPSILON : DBL_EPSILON) * r->p->most_diagonal;
}

static gram_status add_shift(gram_context *g, struct rounds *r)
{
    struct krr_problem *p = r->p;

    r->shifted = p->keep.shifted = true;
    for (int64_t i = 0; i < p->n; i++)
        r->diagonal[i] += shift_of(r);
    return gram_krr_store(g, r->ridge.data, r->diagonal, (size_t)p->n * sizeof *r->diagonal);
}

/* True if more is on the diagonal now, and was not before. */
static gram_status shift(gram_context *g, struct rounds *r, bool *done)
{
    *done = !r->shifted && r->p->least_ridge < shift_of(r);
    return *done ? add_shift(g, r) : GRAM_OK;
}

static gram_status iterate(gram_context *g, struct rounds *r, struct krr_cg_report *last)
{
    struct krr_problem *p = r->p;
    struct krr_checkpoint *c = &p->keep;
    const int most = p->options.refine ? REFINING_ROUNDS : MOST_ROUNDS;
    double excess = gram_krr_excess(p), before;
    bool on = true, over;

    if (r->stage != KRR_TO_LOOK_AT)
        memcpy(p->best, p->alpha, (size_t)(p->n * p->columns) * sizeof *p->best);
    for (; c->round < most && excess > 1 && on; c->round++) {
        *last = (struct krr_cg_report){.end = KRR_CG_ITERATIONS};
        over = out_of_limits(p);
        TRY(gram_krr_ranks_flag(g, p->ranks, &over));
        if (over) {
            if (iterations_left(p) >= 1)
                last->end = KRR_CG_SECONDS;
            c->kept |= r->stage == KRR_ITERATING;
            break;
        }
        c->kept = false;
        before = excess;
        TRY(one_round(g, r, last));
        if (!keep(p, &excess))
            TRY(gram_krr_residual(g, p)); /* of the best one */
        if (c->kept && excess > 1)
            break;
        if (excess > 1 && wants_width(r, last, excess <= 0.5 * before))
            TRY(widen(g, r));
        else if (last->end == KRR_CG_PRECONDITIONER) /* rounding made it indefinite */
            r->preconditioned = c->preconditioned = false;
        else if (excess > 0.5 * before)
            TRY(shift(g, r, &on));
    }
    c->kept &= excess > 1;
    if (!on)
        c->round = most; /* another call would bring no more */
    gram_krr_checkpoint_write(g, p, KRR_LOOKED_AT);
    return GRAM_OK;
}

/* Where the file stands that is gone on from; the residual is that of the round it is in. */
static gram_status go_on(gram_context *g, struct rounds *r)
{
    struct krr_problem *p = r->p;
    struct krr_checkpoint *c = &p->keep;

    if (!c->file) { /* rounds of one problem may be made more than once */
        c->round = 0;
        c->shifted = c->kept = false;
    }
    c->residual = p->residual;
    c->norms = p->norm_r;
    c->norm_rows = 1;
    r->stage = c->file ? (enum krr_stage)c->stage : KRR_LOOKED_AT;
    if (c->file) {
        memcpy(p->residual, c->residual_before, (size_t)(p->n * p->columns) * sizeof *p->residual);
        memcpy(p->norm_r, c->norms_before, (size_t)p->columns * sizeof *p->norm_r);
    }
    return c->shifted ? add_shift(g, r) : GRAM_OK;
}

gram_status gram_krr_rounds(gram_context *g, struct krr_problem *p, struct krr_cg_report *last,
                            int64_t *rank)
{
    struct rounds r = {
        .p = p,
        .points = gram_krr_matrix(g, p->x.data, p->n, p->width, p->dtype),
        .kernel = {.x = &r.points, .kernel = &p->kernel, .call = p->call, .ranks = p->ranks}
    };
    gram_status status;

    if (p->kept)
        r.preconditioner = *p->kept;
    status = prepare(g, &r);
    if (status == GRAM_OK)
        status = go_on(g, &r);
    if (status == GRAM_OK)
        status = iterate(g, &r, last);
    *rank = r.preconditioner.rank;
    if (p->kept)
        *p->kept = r.preconditioner;
    else
        gram_krr_preconditioner_destroy(g, &r.preconditioner);
    free_vectors(g, &r);
    gram_krr_free(g, &r.ridge);
    gram_free(g, r.diagonal, (size_t)(p->n + p->columns) * sizeof *r.diagonal);
    return status;
}
