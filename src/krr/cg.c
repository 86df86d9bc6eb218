/*
 * cg.c - block conjugate gradients: one product with the matrix serves all columns
 *
 * Each column has its own step lengths, so each converges as if it were alone (Hestenes and
 * Stiefel, 1952; Saad, Iterative methods for sparse linear systems, section 9.2), and leaves when
 * it has: its place is taken by the last column at work.  The residual that the recursion carries
 * drifts from the true one by rounding.  So rounds of iterations begin with the true residuals, and
 * a round also ends where a look at them in between finds that the two differ.
 *
 * A caller who knows a matrix better than its products tell may renew the residuals: before
 * rounding is a large part of one, exact ones take the place of the carried ones, and the
 * directions stay, so that nothing is lost of what the method knows of the matrix (reliable
 * updates: G. Sleijpen and H. van der Vorst, Reliable updated residuals in hybrid Bi-CG methods,
 * Computing 56 (1996)).
 *
 * What is multiplied is the caller's: the stored kernel matrix of a machine (gram_krr_iterate), an
 * operator (solve_operator.c), the samples of a log-determinant (logdet.c).
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_passes.h"
#include "krr_ranks.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* A column leaves at so much of the tolerance. */
static const double leaves_at = 0.7;

/* Residuals are renewed where one is so much of the largest one since they were. */
static const double renewed_at = 0.25;

/* They are lost where rounding is so much of what is renewed; or where the least one of no column
 * has halved for so many iterations and half of those before. */
static const double lost_at = 0.9;

enum {
    PATIENCE = 100,
    RENEWED_STEPS = 5 /* at least, between two renewals, unless the tolerance may be reached */
};

struct cg {
    const struct krr_cg *it;
    struct krr_cg_report *report;
    struct krr_cg_step vectors; /* all but its step */
    void *product;
    double *numbers; /* where the context computes: norm_b, norm_r, rz, curvature, other norms */
    double *host;    /* the same on the host */
    double *before;  /* relative to |b|: the true residual at the beginning of the last round; or
                        the largest one since they were renewed */
    int64_t *which;  /* on the host; vectors.which is where the context computes */
    int64_t *left;   /* columns whose true residual is not yet known to be good enough */
    int64_t waiting; /* how many */
    double end;      /* on the clock of `seconds` */
    bool late;       /* of ranks: the first one was behind its end when numbers came last */
    bool renewed;    /* the carried residuals are the true ones */
    bool lost;       /* rounding of the products keeps the residuals from falling */
    double *least;   /* of each column, relative to |b|: the least residual that was renewed */
    int64_t least_step, renewed_step; /* when one of them halved; when residuals were renewed */
    /* What of a state is not told by the above. */
    enum krr_cg_phase phase;
    int64_t round, step;
};

static size_t vector_bytes(int64_t n, int64_t columns, gram_dtype dtype)
{
    return gram_round64((size_t)(n * columns) * gram_dtype_size(dtype));
}

static size_t product_bytes(const gram_context *g, int64_t n, int64_t columns, gram_dtype dtype)
{
    return vector_bytes(n, columns, g->backend->krr->wide_product ? GRAM_F64 : dtype);
}

size_t gram_krr_cg_bytes(const gram_context *g, int64_t n, int64_t columns, gram_dtype dtype)
{
    return 3 * vector_bytes(n, columns, dtype) + product_bytes(g, n, columns, dtype) +
           (size_t)columns * (5 * sizeof(double) + sizeof(int64_t));
}

/* ---- What is queued -------------------------------------------------------------------------- */

/* Column `at` of some vectors. */
static void *column_of(const struct cg *c, const void *vectors, int64_t at)
{
    return (char *)vectors + (size_t)(at * c->it->n) * gram_dtype_size(c->it->dtype);
}

static gram_status copy_columns(gram_context *g, const struct cg *c, void *to, const void *from,
                                int64_t columns)
{
    return gram_krr_copy(g, to, from, (size_t)(columns * c->it->n) * gram_dtype_size(c->it->dtype));
}

static gram_status step(gram_context *g, const struct cg *c, enum krr_step kind)
{
    struct krr_cg_step op = c->vectors;

    op.step = kind;
    return g->backend->krr->cg_step(g, &op);
}

static gram_status multiply(gram_context *g, const struct cg *c, const void *v)
{
    c->report->products += c->vectors.columns;
    return c->it->multiply(g, c->it->matrix, c->vectors.columns, v, c->product);
}

static gram_status precondition(gram_context *g, const struct cg *c)
{
    int64_t columns = c->vectors.columns;

    if (!c->it->precondition)
        return copy_columns(g, c, c->vectors.z, c->vectors.r, columns);
    return c->it->precondition(g, c->it->preconditioner, columns, c->vectors.r, c->vectors.z);
}

/* r (or another place) = b - A x of the columns at work, from x that is gathered in z. */
static gram_status true_residual(gram_context *g, const struct cg *c, void *r, double *norms)
{
    struct krr_cg_step op = c->vectors;

    for (int64_t j = 0; j < op.columns; j++)
        TRY(copy_columns(g, c, column_of(c, op.z, j), column_of(c, op.x, c->which[j]), 1));
    TRY(multiply(g, c, op.z));
    op.step = KRR_RESIDUAL;
    op.r = r;
    op.norm_r = norms;
    return g->backend->krr->cg_step(g, &op);
}

/* ---- What comes to the host ------------------------------------------------------------------ */

static gram_status send_which(gram_context *g, const struct cg *c)
{
    if (c->vectors.which == c->which)
        return GRAM_OK;
    return gram_krr_store(g, (void *)c->vectors.which, c->which,
                          (size_t)c->vectors.columns * sizeof *c->which);
}

/* The numbers of all columns; waits for a GPU.  Ranks take those of the first one, so that they
 * come to the same decisions. */
static gram_status fetch(gram_context *g, struct cg *c)
{
    const size_t bytes = 5 * (size_t)c->it->columns * sizeof(double);

    TRY(gram_krr_fetch(g, c->host, c->numbers, bytes));
    if (!c->it->ranks)
        return GRAM_OK;
    c->late = gram_seconds() > c->end;
    TRY(gram_krr_ranks_flag(g, c->it->ranks, &c->late));
    TRY(gram_krr_ranks_numbers(g, c->it->ranks, c->host, 5 * c->it->columns));
    return gram_krr_store(g, c->numbers, c->host, bytes);
}

static double norm_b(const struct cg *c, int64_t column)
{
    return c->host[column];
}

static double carried(const struct cg *c, int64_t column)
{
    return c->host[c->it->columns + column];
}

static double rz(const struct cg *c, int64_t column)
{
    return c->host[2 * c->it->columns + column];
}

static double curvature(const struct cg *c, int64_t column)
{
    return c->host[3 * c->it->columns + column];
}

static double looked_at(const struct cg *c, int64_t column)
{
    return c->host[4 * c->it->columns + column];
}

/* Notes why the iteration ends before its time.  Where the caller is lenient the column leaves. */
static bool ends(struct cg *c, enum krr_cg_end why, int64_t column, double number)
{
    if (c->it->lenient) {
        c->host[c->it->columns + column] = 0; /* leave() takes it for solved */
        return false;
    }
    c->report->end = why;
    c->report->column = column;
    c->report->curvature = number;
    return true;
}

static bool stopped(const struct cg *c)
{
    return c->report->end != KRR_CG_REACHED && c->report->end != KRR_CG_STALLED;
}

static bool out_of_time(const struct cg *c)
{
    return c->it->ranks ? c->late : gram_seconds() > c->end;
}

static bool at_limits(const struct cg *c)
{
    return c->report->iterations >= c->it->iterations || out_of_time(c);
}

/* The report's residual is the largest one. */
static void tell(struct cg *c, int64_t column, double residual)
{
    if (residual < c->report->residual)
        return;
    c->report->residual = residual;
    if (!stopped(c))
        c->report->column = column;
}

/* The columns of `left` are those at work. */
static gram_status all_at_work(gram_context *g, struct cg *c)
{
    c->vectors.columns = c->waiting;
    for (int64_t j = 0; j < c->waiting; j++)
        c->which[j] = c->left[j];
    return send_which(g, c);
}

/* ---- What is kept ---------------------------------------------------------------------------- */

/* The largest residual that is carried. */
static double largest(const struct cg *c)
{
    double most = 0;

    for (int64_t j = 0; j < c->it->columns; j++)
        if (norm_b(c, j) > 0)
            most = fmax(most, carried(c, j) / norm_b(c, j));
    return most;
}

/* The numbers of a state; those of columns that were never at work are 0. */
static void collect(const struct cg *c, double *numbers)
{
    const int64_t columns = c->it->columns;

    memset(numbers, 0, 3 * (size_t)columns * sizeof *numbers);
    memcpy(numbers, c->host, 2 * (size_t)columns * sizeof *numbers);
    for (int64_t j = 0; j < c->vectors.columns; j++)
        numbers[2 * columns + c->which[j]] = rz(c, c->which[j]);
    memcpy(numbers + 3 * columns, c->before, (size_t)columns * sizeof *numbers);
    memcpy(numbers + 4 * columns, c->least, (size_t)columns * sizeof *numbers);
}

/* Gives the keeper where the iteration stands. */
static gram_status keep(gram_context *g, struct cg *c, bool limits)
{
    const struct krr_cg *it = c->it;
    const bool copied = g->backend->memory_copy != NULL, inside = c->phase != KRR_CG_BETWEEN;
    const size_t part = (size_t)(it->n * it->columns) * gram_dtype_size(it->dtype);
    const size_t work = (size_t)(it->n * c->vectors.columns) * gram_dtype_size(it->dtype);
    const size_t numbers = gram_round64(5 * (size_t)it->columns * sizeof(double));
    const size_t bytes = numbers + (copied ? part + 2 * work : 0);
    char *memory = gram_alloc(g, bytes), *at;
    struct krr_cg_state s = {.phase = c->phase,
                             .iterations = c->report->iterations,
                             .round = c->round,
                             .step = c->step,
                             .least_step = c->least_step,
                             .renewed_step = c->renewed_step,
                             .working = inside ? c->vectors.columns : 0,
                             .waiting = c->waiting,
                             .which = c->which,
                             .left = c->left,
                             .x = it->x,
                             .r = c->vectors.r,
                             .d = c->vectors.d};
    gram_status status;

    if (!memory)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = fetch(g, c);
    collect(c, (double *)(void *)memory);
    s.numbers = (const double *)(const void *)memory;
    at = memory + numbers;
    if (copied && status == GRAM_OK) {
        status = gram_krr_fetch(g, at, s.x, part);
        s.x = at;
        if (status == GRAM_OK && inside)
            status = gram_krr_fetch(g, at + part, s.r, work);
        s.r = at + part;
        if (status == GRAM_OK && inside)
            status = gram_krr_fetch(g, at + part + work, s.d, work);
        s.d = at + part + work;
    }
    if (status == GRAM_OK)
        status = it->keeper->take(g, it->keeper->user, &s, limits);
    gram_free(g, memory, bytes);
    return status;
}

/* Goes to where a state stands. */
static gram_status go_on(gram_context *g, struct cg *c, const struct krr_cg_state *s)
{
    const struct krr_cg *it = c->it;
    const size_t columns = (size_t)it->columns, element = gram_dtype_size(it->dtype);
    const size_t work = (size_t)(it->n * s->working) * element;

    memcpy(c->host, s->numbers, 3 * columns * sizeof(double));
    memset(c->host + 3 * columns, 0, 2 * columns * sizeof(double));
    memcpy(c->before, s->numbers + 3 * columns, columns * sizeof(double));
    memcpy(c->least, s->numbers + 4 * columns, columns * sizeof(double));
    memcpy(c->which, s->which, columns * sizeof *c->which);
    memcpy(c->left, s->left, columns * sizeof *c->left);
    c->phase = s->phase;
    c->round = s->round;
    c->step = s->step;
    c->least_step = s->least_step;
    c->renewed_step = s->renewed_step;
    c->waiting = s->waiting;
    c->report->iterations = s->iterations;
    TRY(gram_krr_store(g, c->numbers, c->host, 5 * columns * sizeof(double)));
    TRY(gram_krr_store(g, it->x, s->x, (size_t)it->n * columns * element));
    if (s->phase == KRR_CG_BETWEEN)
        return all_at_work(g, c);
    c->vectors.columns = s->working;
    TRY(gram_krr_store(g, c->vectors.r, s->r, work));
    TRY(gram_krr_store(g, c->vectors.d, s->d, work));
    return send_which(g, c);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* The recursion ends below the tolerance, so that the true residual is there as well. */
static bool has_converged(const struct cg *c, int64_t column)
{
    const double wanted = c->it->tolerance * norm_b(c, column);

    if (c->it->renew)
        return c->renewed && carried(c, column) <= wanted;
    return carried(c, column) <= leaves_at * wanted;
}

/* Columns whose recursion is below the tolerance leave the round: the last ones take their places.
 */
static gram_status leave(gram_context *g, struct cg *c)
{
    int64_t before = c->vectors.columns;

    for (int64_t j = c->vectors.columns - 1; j >= 0; j--) {
        int64_t column = c->which[j], last = c->vectors.columns - 1;

        if (!has_converged(c, column))
            continue;
        if (j < last) {
            TRY(copy_columns(g, c, column_of(c, c->vectors.r, j), column_of(c, c->vectors.r, last),
                             1));
            TRY(copy_columns(g, c, column_of(c, c->vectors.d, j), column_of(c, c->vectors.d, last),
                             1));
            c->which[j] = c->which[last];
        }
        c->vectors.columns--;
    }
    return c->vectors.columns < before ? send_which(g, c) : GRAM_OK;
}

/* What the numbers of a column say after an iteration; true where the method ends.  rz of a column
 * that is solved exactly is 0. */
static bool column_broken(struct cg *c, int64_t column)
{
    double r = carried(c, column), product = rz(c, column), energy = curvature(c, column);

    if (!(r < INFINITY && fabs(product) < INFINITY && fabs(energy) < INFINITY))
        return ends(c, KRR_CG_NOT_FINITE, column, 0);
    if (product < 0 || (product == 0 && r > 0))
        return ends(c, KRR_CG_PRECONDITIONER, column, product);
    if (product > 0 && energy <= 0)
        return ends(c, KRR_CG_INDEFINITE, column, energy);
    if (c->it->observe && product > 0)
        c->it->observe(c->it->observer, column, product, energy);
    return false;
}

static bool broken(struct cg *c)
{
    for (int64_t j = 0; j < c->vectors.columns; j++)
        if (column_broken(c, c->which[j]))
            return true;
    return false;
}

/* Whether the true residual of a column at work is more than twice the carried one. */
static gram_status look(gram_context *g, struct cg *c, bool *drifted)
{
    double *other = c->numbers + 4 * c->it->columns;

    TRY(true_residual(g, c, c->vectors.z, other));
    TRY(fetch(g, c));
    for (int64_t j = 0; j < c->vectors.columns; j++)
        if (!(looked_at(c, c->which[j]) <= 2 * carried(c, c->which[j])))
            *drifted = true;
    return GRAM_OK;
}

/* The next direction, where there is none yet. */
static gram_status turn(gram_context *g, struct cg *c)
{
    if (c->phase == KRR_CG_TURNED)
        return GRAM_OK;
    TRY(precondition(g, c));
    TRY(step(g, c, KRR_TURN));
    c->phase = KRR_CG_TURNED;
    return GRAM_OK;
}

/* The coefficients of an iteration. */
static void tell_adviser(const struct cg *c)
{
    const struct krr_cg_adviser *a = c->it->adviser;

    for (int64_t j = 0; a && j < c->vectors.columns; j++)
        a->told(a->user, c->which[j], rz(c, c->which[j]), curvature(c, c->which[j]));
}

/* From the residuals that there are. */
static gram_status begin_again(gram_context *g, struct cg *c)
{
    const struct krr_cg_adviser *a = c->it->adviser;

    TRY(step(g, c, KRR_RESTART));
    c->phase = KRR_CG_READY;
    if (a && c->vectors.columns > 0)
        a->begins(a->user, c->which[0]);
    return GRAM_OK;
}

static gram_status ask_adviser(gram_context *g, struct cg *c)
{
    const struct krr_cg_adviser *a = c->it->adviser;
    double excess = 0;
    bool changed = false;

    if (!a || c->vectors.columns == 0)
        return GRAM_OK;
    for (int64_t j = 0; j < c->vectors.columns; j++)
        excess = fmax(excess, carried(c, c->which[j]) /
                                  (leaves_at * c->it->tolerance * norm_b(c, c->which[j])));
    TRY(a->review(g, a->user, c->vectors.columns, excess, &changed));
    return changed ? begin_again(g, c) : GRAM_OK;
}

/* What of residuals that are renewed at most was wrong, and how far they have fallen. */
static void judge(struct cg *c)
{
    for (int64_t j = 0; j < c->vectors.columns; j++) {
        const int64_t column = c->which[j];
        const double r = carried(c, column), gap = looked_at(c, column);

        c->lost |= !(gap <= lost_at * r || r <= c->it->tolerance * norm_b(c, column));
        c->before[column] = r / norm_b(c, column);
        if (c->before[column] <= 0.5 * c->least[column]) {
            c->least[column] = c->before[column];
            c->least_step = c->step;
        }
    }
    c->lost |= c->step - c->least_step > PATIENCE + c->least_step / 2;
}

/* The largest residuals since they were renewed. */
static void note_largest(struct cg *c)
{
    for (int64_t j = 0; c->it->renew && j < c->vectors.columns; j++) {
        const int64_t column = c->which[j];

        if (carried(c, column) > c->before[column] * norm_b(c, column))
            c->before[column] = carried(c, column) / norm_b(c, column);
    }
}

/* Whether residuals have fallen so far that exact ones are wanted. */
static bool is_due(const struct cg *c)
{
    const double part = c->step - c->renewed_step < RENEWED_STEPS ? 0 : renewed_at;
    bool due;

    if (!c->it->renew || c->renewed || c->phase != KRR_CG_READY)
        return false;
    due = c->step % KRR_CG_CHECK == 0;
    for (int64_t j = 0; j < c->vectors.columns && !due; j++) {
        const int64_t column = c->which[j];
        const double r = carried(c, column) / norm_b(c, column);

        due = r <= leaves_at * c->it->tolerance || r <= part * c->before[column];
    }
    return due;
}

/* The exact residuals of the columns at work, from which the directions go on. */
static gram_status renew(gram_context *g, struct cg *c)
{
    const struct krr_cg *it = c->it;
    double *norms = c->host + it->columns, *gaps = c->host + 4 * it->columns;

    TRY(it->renew(g, it->renewer, c->vectors.columns, c->which, c->vectors.r, norms, gaps));
    if (it->ranks)
        TRY(gram_krr_ranks_numbers(g, it->ranks, c->host, 5 * it->columns));
    TRY(gram_krr_store(g, c->vectors.norm_r, norms, (size_t)it->columns * sizeof *norms));
    c->renewed = true;
    c->renewed_step = c->step;
    ++c->report->iterations; /* limits count its product */
    judge(c);
    return leave(g, c);
}

/* One iteration; *wanted: the keeper wants the state. */
static gram_status iteration(gram_context *g, struct cg *c, bool *wanted)
{
    TRY(turn(g, c));
    TRY(multiply(g, c, c->vectors.d));
    TRY(step(g, c, KRR_DESCEND));
    c->phase = KRR_CG_READY;
    c->renewed = false;
    c->step++;
    ++c->report->iterations;
    TRY(fetch(g, c));
    note_largest(c);
    tell_adviser(c);
    *wanted = c->it->keeper && c->it->keeper->told(g, c->it->keeper->user, largest(c));
    if (c->it->keeper)
        TRY(gram_krr_ranks_flag(g, c->it->ranks, wanted));
    return gram_cancelled(g) ? gram_fail(g, GRAM_CANCELLED, "cancelled") : GRAM_OK;
}

/* Iterates from the true residuals in r, or from a state, until the carried ones are below the
 * tolerance. */
static gram_status one_round(gram_context *g, struct cg *c)
{
    bool drifted = false, wanted = false;

    if (c->phase == KRR_CG_BETWEEN) {
        TRY(begin_again(g, c));
        c->step = 0;
    }
    if (c->phase == KRR_CG_READY) {
        TRY(leave(g, c));
        TRY(ask_adviser(g, c)); /* where a state came before its answer */
    }
    while (c->vectors.columns > 0 && !drifted && !c->lost) {
        if (at_limits(c))
            return c->it->keeper ? keep(g, c, true) : GRAM_OK;
        if (is_due(c)) {
            TRY(renew(g, c));
            continue;
        }
        TRY(iteration(g, c, &wanted));
        if (broken(c))
            return GRAM_OK;
        TRY(leave(g, c));
        if (c->it->check > 0 && c->step % c->it->check == 0 && c->vectors.columns > 0)
            TRY(look(g, c, &drifted));
        if (!drifted)
            TRY(ask_adviser(g, c));
        if (wanted && !drifted)
            TRY(keep(g, c, false));
    }
    return GRAM_OK;
}

/* Whether another round can bring a column forward, whose true residual has just been computed. */
static bool goes_on(struct cg *c, int64_t column, bool may_stall)
{
    double b = norm_b(c, column), residual = b == 0 ? 0 : carried(c, column) / b;

    if (!(b < INFINITY && residual < INFINITY)) {
        if (!stopped(c))
            ends(c, KRR_CG_NOT_FINITE, column, 0);
        return false;
    }
    if (residual > c->it->tolerance && !(may_stall && residual > 0.5 * c->before[column])) {
        c->before[column] = residual;
        return true;
    }
    if (residual > c->it->tolerance && !stopped(c))
        c->report->end = KRR_CG_STALLED;
    tell(c, column, residual);
    return false;
}

/* The columns that go on become those at work: their residuals move to the front. */
static gram_status sort_out(gram_context *g, struct cg *c, bool may_stall)
{
    int64_t kept = 0;

    for (int64_t j = 0; j < c->waiting; j++) {
        if (!goes_on(c, c->which[j], may_stall))
            continue;
        if (kept < j)
            TRY(copy_columns(g, c, column_of(c, c->vectors.r, kept), column_of(c, c->vectors.r, j),
                             1));
        c->left[kept++] = c->which[j];
    }
    c->waiting = kept;
    return all_at_work(g, c);
}

/* What the columns have that are still waiting where the limits end the iteration. */
static void give_up(struct cg *c)
{
    for (int64_t j = 0; j < c->waiting; j++)
        tell(c, c->left[j], c->before[c->left[j]]);
    if (c->waiting > 0 && c->lost)
        c->report->end = KRR_CG_STALLED;
    else if (c->waiting > 0 && !stopped(c))
        c->report->end = out_of_time(c) ? KRR_CG_SECONDS : KRR_CG_ITERATIONS;
}

/* The residuals of the recursion, for a caller who wants the coefficients and not x. */
static void tell_carried(struct cg *c)
{
    for (int64_t j = 0; j < c->it->columns; j++)
        if (norm_b(c, j) > 0)
            tell(c, j, carried(c, j) / norm_b(c, j));
}

/* x = 0 and r = b; a first guess stays, but for columns whose b is 0. */
static gram_status start(gram_context *g, struct cg *c)
{
    struct krr_cg_step op = c->vectors;

    op.step = KRR_START;
    if (c->it->warm)
        op.x = op.d; /* it becomes 0 */
    TRY(g->backend->krr->cg_step(g, &op));
    TRY(fetch(g, c));
    for (int64_t j = 0; c->it->warm && j < c->it->columns; j++)
        if (norm_b(c, j) == 0)
            TRY(copy_columns(g, c, column_of(c, c->vectors.x, j), column_of(c, c->vectors.d, j),
                             1));
    return GRAM_OK;
}

/* All columns, from the first guess. */
static gram_status begin(gram_context *g, struct cg *c)
{
    for (c->waiting = 0; c->waiting < c->it->columns; c->waiting++)
        c->left[c->waiting] = c->waiting, c->least[c->waiting] = DBL_MAX;
    TRY(all_at_work(g, c));
    c->renewed = true;
    return start(g, c);
}

/* The true residuals, and who goes on with them; *more: a round follows. */
static gram_status between(gram_context *g, struct cg *c, bool *more)
{
    bool last = c->round >= c->it->rounds || at_limits(c);

    if ((c->round > 0 && !c->it->renew) || c->it->warm) {
        TRY(true_residual(g, c, c->vectors.r, c->vectors.norm_r));
        TRY(fetch(g, c));
    }
    TRY(sort_out(g, c, c->round > 0 && !last));
    *more = !(c->waiting == 0 || last || stopped(c));
    return GRAM_OK;
}

static gram_status iterate(gram_context *g, struct cg *c)
{
    bool more = true;

    if (c->it->keeper && c->it->keeper->from)
        TRY(go_on(g, c, c->it->keeper->from));
    else
        TRY(begin(g, c));
    for (;; c->round++) {
        if (c->phase == KRR_CG_BETWEEN)
            TRY(between(g, c, &more));
        if (!more)
            break;
        TRY(one_round(g, c));
        if (c->it->observe) {
            tell_carried(c);
            return GRAM_OK;
        }
        c->phase = KRR_CG_BETWEEN;
        TRY(all_at_work(g, c));
    }
    give_up(c);
    return GRAM_OK;
}

/* Where the arrays of a solve lie. */
static void lay_out(const gram_context *g, struct cg *c, char *memory, char *host)
{
    const struct krr_cg *it = c->it;
    int64_t columns = it->columns;
    size_t part = vector_bytes(it->n, columns, it->dtype);
    char *numbers = memory + 3 * part + product_bytes(g, it->n, columns, it->dtype);

    c->product = memory + 3 * part;
    c->numbers = (double *)(void *)numbers;
    c->host = (double *)(void *)host;
    c->before = c->host + 5 * columns;
    c->least = c->before + columns;
    c->which = (int64_t *)(void *)(c->least + columns);
    c->left = c->which + columns;
    c->vectors = (struct krr_cg_step){.dtype = it->dtype,
                                      .n = it->n,
                                      .which = (int64_t *)(void *)(c->numbers + 5 * columns),
                                      .b = it->b,
                                      .x = it->x,
                                      .r = memory,
                                      .z = memory + part,
                                      .d = memory + 2 * part,
                                      .product = c->product,
                                      .ridge = it->ridge,
                                      .norm_b = c->numbers,
                                      .norm_r = c->numbers + columns,
                                      .rz = c->numbers + 2 * columns,
                                      .curvature = c->numbers + 3 * columns};
    if (!g->backend->memory_copy) /* the CPU reads the host's */
        c->vectors.which = c->which;
}

gram_status gram_krr_cg(gram_context *g, const struct krr_cg *it, struct krr_cg_report *report)
{
    size_t host_bytes = 64 + (size_t)it->columns * (7 * sizeof(double) + 2 * sizeof(int64_t));
    struct cg c = {.it = it, .report = report, .end = gram_seconds() + it->seconds};
    struct krr_array memory;
    void *host;
    gram_status status;

    *report = (struct krr_cg_report){0};
    TRY(gram_krr_allocate(g, gram_krr_cg_bytes(g, it->n, it->columns, it->dtype), &memory));
    host = gram_alloc(g, host_bytes);
    if (host) {
        memset(host, 0, host_bytes);
        lay_out(g, &c, memory.data, host);
        status = iterate(g, &c);
        /* Ranks that have failed do not meet any more: their last file is as it was. */
        if (status == GRAM_CANCELLED && it->keeper && !it->ranks &&
            !(c.phase == KRR_CG_BETWEEN && c.round == 0))
            (void)keep(g, &c, false); /* which says itself what went wrong */
    } else
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", host_bytes);
    gram_free(g, host, host_bytes);
    gram_krr_free(g, &memory);
    return status;
}
