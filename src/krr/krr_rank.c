/*
 * krr_rank.c - the rank of a preconditioner by a count of operations
 *
 * A solve begins with a rank of about 8 sqrt(n).  The coefficients of its conjugate gradients make
 * the tridiagonal matrix T of a Lanczos process (Saad, Iterative methods for sparse linear systems,
 * section 6.7), whose eigenvalues lie between those of the preconditioned matrix.  With kappa, the
 * ratio of the largest to the smallest one of T, a further
 *   log(residual / tolerance) / log((sqrt(kappa) + 1) / (sqrt(kappa) - 1))
 * iterations are to come, or more, because T does not know the smallest eigenvalues yet: as many as
 * the fall of r . P^-1 r until now says, but at most twice that number.  With rank R instead of r
 * they are taken to fall by (r / R)^p, where p is the slope by which what is left of the diagonal
 * of K fell from r / 2 to r columns, as they did in experiments with kernels of various smoothness.
 * Columns are appended where the iterations that are saved cost more than they do.
 *
 * What things cost is counted, in multiply-adds of matrix products, and not measured, so that a
 * solve takes the same steps each time.  An element of K costs
 *   12 + 0.8 d for p-norms of 1 and 2 and products, else 30 + 8 d, and 2 for each column,
 * and F^T F in f64 2.2 each where the rest is f32.  That is what a CPU with AVX-512 and an H100
 * have in common within a factor of 2.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_ranks.h"
#include "krr_solve.h"
#include <float.h>
#include <math.h>

enum {
    STEP = 100,        /* of ranks */
    MOST_RANK = 20000, /* whose inverse in f64 has 3 GB */
    FIRST_LOOK = 4,    /* iterations; then 3 / 2 as many each time */
    AGAIN = 3,         /* iterations that a new beginning loses */
    LEAST = 4          /* iterations that are left with any rank */
};

/* ---- What there is memory for ---------------------------------------------------------------- */

/* What a preconditioner of this rank takes at most, while columns are appended to another one. */
static double bytes_of(const gram_context *g, const struct krr_problem *p, int64_t rank)
{
    const struct gram_krr_passes *passes = g->backend->krr;
    const double n = (double)gram_krr_ranks_own(p->ranks, p->n), r = (double)rank,
                 size = (double)gram_dtype_size(p->dtype);
    const double kept =
        n * r * size + 8 * r * r + (double)passes->apply_bytes(p->n, rank, p->columns, p->dtype);

    /* 2^15 rows of f64, and what a factorisation on a GPU takes, when the former one is gone */
    return passes->factorise ? 1.7 * kept : fmax(1.7 * kept, kept + 0x1p18 * r + 56 * r * r);
}

static gram_status room(gram_context *g, const struct krr_problem *p, double *bytes)
{
    int64_t available;

    *bytes = (double)p->options.memory;
    if (p->options.memory > 0)
        return GRAM_OK;
    TRY(gram_memory_available(g, &available));
    *bytes = 0.25 * (double)available;
    return GRAM_OK;
}

gram_status gram_krr_growth_open(gram_context *g, struct krr_problem *p)
{
    struct krr_growth *w = &p->keep.growth;
    double bytes;

    if (!p->keep.file) /* else it says so */
        w->on = p->options.rank == 0;
    if (!w->on)
        return GRAM_OK;
    TRY(room(g, p, &bytes));
    w->most = gram_least(p->n, MOST_RANK);
    while (w->most > STEP && bytes_of(g, p, w->most) > bytes)
        w->most = (w->most - 1) / STEP * STEP;
    return gram_krr_ranks_least(g, p->ranks, &w->most);
}

/* ---- The iteration --------------------------------------------------------------------------- */

void gram_krr_growth_begin(struct krr_growth *w, int64_t column)
{
    w->column = column;
    w->steps = 0;
}

void gram_krr_growth_told(struct krr_growth *w, int64_t column, double rz, double curvature)
{
    if (!w->on || column != w->column || w->steps == KRR_GROWTH_STEPS)
        return;
    w->coefficients[2 * w->steps] = rz;
    w->coefficients[2 * w->steps + 1] = curvature;
    w->steps++;
}

/* T of the coefficients: its diagonal, and the squares of what is beside it. */
struct lanczos {
    int64_t count;
    double diagonal[KRR_GROWTH_STEPS], beside[KRR_GROWTH_STEPS];
};

static void make_lanczos(const struct krr_growth *w, struct lanczos *t)
{
    double before = 0;

    t->count = w->steps;
    for (int64_t i = 0; i < w->steps; i++) {
        const double *c = w->coefficients + 2 * i, inverse = c[1] / c[0];
        const double ratio = i + 1 < w->steps ? c[2] / c[0] : 0;

        t->diagonal[i] = inverse + before;
        t->beside[i] = ratio * inverse * inverse;
        before = ratio * inverse;
    }
}

/* How many eigenvalues are below (Sturm's sequence). */
static int64_t below(const struct lanczos *t, double value)
{
    int64_t count = 0;
    double d = 1;

    for (int64_t i = 0; i < t->count; i++) {
        d = t->diagonal[i] - value - (i > 0 ? t->beside[i - 1] / d : 0);
        if (d == 0)
            d = 0x1p-1000;
        count += d < 0;
    }
    return count;
}

/* The eigenvalue with so many below it, between 0 and the largest sum of a row. */
static double eigenvalue(const struct lanczos *t, int64_t number)
{
    double low = 0, high = 0;

    for (int64_t i = 0; i < t->count; i++) {
        double sum = t->diagonal[i] + sqrt(t->beside[i]) + (i > 0 ? sqrt(t->beside[i - 1]) : 0);
        high = sum > high ? sum : high;
    }
    for (int i = 0; i < 60; i++) {
        const double middle = 0.5 * (low + high);

        if (below(t, middle) > number)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* Iterations that are to come: what T says, or up to twice as many where the iteration went so
 * slowly until now. */
static double iterations_left(const struct krr_growth *w, double excess)
{
    const int64_t last = w->steps - 1;
    const double fall = 0.5 * log(w->coefficients[0] / w->coefficients[2 * last]);
    struct lanczos t;
    double root, least;

    make_lanczos(w, &t);
    root = sqrt(eigenvalue(&t, last) / eigenvalue(&t, 0));
    if (!(root > 1 && excess > 1))
        return 0;
    least = log(excess) / log((root + 1) / (root - 1));
    if (fall * 2 * least <= log(excess) * (double)last)
        return 2 * least;
    return fmax(least, log(excess) * (double)last / fall);
}

/* ---- Costs ----------------------------------------------------------------------------------- */

struct costs {
    const struct krr_problem *p;
    double element, columns, apply; /* of K; at work; of an element of F */
};

static struct costs costs_of(const gram_context *g, const struct krr_problem *p, int64_t columns)
{
    const gram_kernel_options *k = &p->kernel;
    const double d = (double)p->width, norm = k->p.tensor ? 0 : k->p.value;
    const bool quick = !k->metric && k->function != GRAM_EXPRESSION &&
                       (k->inner != GRAM_DIFFERENCE || norm == 1 || norm == 2);

    return (struct costs){.p = p,
                          .columns = (double)columns,
                          .element = quick ? 12 + 0.8 * d : 30 + 8 * d,
                          .apply = g->backend->krr->apply_cost};
}

/* An iteration, with a product and the preconditioner. */
static double iteration(const struct costs *c, double rank)
{
    const double n = (double)c->p->n;

    return n * n * (c->element + 2 * c->columns) +
           (n * rank + 2 * rank * rank) * (c->apply + 2 * (c->columns - 1));
}

/* To go from rank to more. */
static double columns(const struct costs *c, double rank, double more)
{
    const double n = (double)c->p->n, whole = c->p->dtype == GRAM_F32 ? 2.2 : 1.1;

    return n * (more - rank) * (c->element + 100) + n * (more * more - rank * rank) +
           whole * n * more * more + more * more * more;
}

/* The slope of what is left of the diagonal over the last half of the columns, in logarithms. */
static double slope(const struct krr_preconditioner *p)
{
    int64_t half = p->rank / 2;

    while (half > 0 && p->sums[half] == 0)
        half--;
    if (!(p->sums[p->rank] > 0))
        return 0;
    return log(p->sums[half] / p->sums[p->rank]) /
           log((double)p->rank / (double)gram_most(half, 1));
}

static bool is_time(int64_t steps)
{
    int64_t look = FIRST_LOOK;

    while (look < steps)
        look += look / 2;
    return look == steps;
}

/* Whether P is still told from F F^T by the dtype, which has eps of its norm, where so much is left
 * of the diagonal. */
static bool is_told(const struct krr_problem *p, const struct krr_preconditioner *c, double part)
{
    const double eps = p->dtype == GRAM_F32 ? FLT_EPSILON : DBL_EPSILON;
    const double lambda = 0.5 * c->sums[c->rank] * part / (double)c->all;

    return fmax(lambda, p->least_ridge) >= 0.125 * eps * c->sums[0];
}

int64_t gram_krr_growth_rank(const gram_context *g, const struct krr_problem *p,
                             const struct krr_preconditioner *c, int64_t at_work, double excess)
{
    static const double factors[] = {1.5, 2, 3, 4};
    const struct krr_growth *w = &p->keep.growth;
    const struct costs costs = costs_of(g, p, at_work);
    const double rank = (double)c->rank;
    double left, power, before, least;
    int64_t best = 0;

    if (!w->on || w->steps >= KRR_GROWTH_STEPS || !is_time(w->steps) || c->rank >= w->most ||
        c->rank == 0)
        return 0;
    left = iterations_left(w, excess);
    power = slope(c);
    before = left * iteration(&costs, rank);
    least = 0.9 * before; /* else it does not matter */
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        const int64_t more =
            gram_least(gram_ceil_div((int64_t)(factors[i] * rank), STEP) * (int64_t)STEP, w->most);
        const double part = pow(rank / (double)more, power);
        const double cost = columns(&costs, rank, (double)more) +
                            (fmax(left * part, LEAST) + AGAIN) * iteration(&costs, (double)more);

        if (cost < least && is_told(p, c, part)) {
            least = cost;
            best = more;
        }
    }
    return best;
}
