/*
 * cpu_eigh_large.c - eigenproblems for LAPACK: scratch, the way in, one after the other or at once
 *
 * Many matrices of moderate order run one a thread, since LAPACK's own threads gain nothing there.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_eigh_large.h"
#include "core/blas.h"
#include "cpu/cpu_blas_for.h"
#include "cpu/move.h"
#include "linalg/solve_batch.h"

enum {
    MOST_ROWS = 32766, /* syevd counts 2 n^2 words of workspace in 32 bits */
    BATCH_ROWS = 512,  /* largest n that is left to one thread where there are enough items */
};

/* Adds room for numbers of size bytes; all of it becomes SIZE_MAX where that is too much. */
static size_t room(size_t *bytes, int64_t count, size_t size)
{
    size_t at = *bytes, more;

    if (__builtin_mul_overflow((size_t)count, size, &more) || more > SIZE_MAX / 2 ||
        __builtin_add_overflow(at, gram_round64(more), bytes))
        *bytes = SIZE_MAX;
    return at;
}

static struct large_layout lay_out(const struct eigh_plan *plan)
{
    const struct gram_eigh_op *op = plan->op;
    int64_t n = op->a.rows, k = op->values.cols;
    size_t size = gram_dtype_size(op->a.dtype);
    bool divide = plan->driver == GRAM_EIGH_DRIVER_DIVIDE, syevd = divide && op->has_vectors;
    struct large_layout s = {.lwork = gram_blas_eigh_work(n)};

    s.direct = syevd && !op->by_value && k == n && gram_solve_layout(&op->vectors).direct;
    if (syevd)
        gram_blas_syevd_sizes(n, &s.lwork, &s.liwork);
    else
        s.liwork = divide ? 0 : 7 * n;
    s.matrix_at = room(&s.bytes, s.direct ? 0 : n * n, size);
    s.w_at = room(&s.bytes, n, size);
    s.d_at = room(&s.bytes, syevd ? 0 : 3 * n, size);
    s.work_at = room(&s.bytes, s.lwork, size);
    s.integers_at = room(&s.bytes, s.liwork, sizeof(int32_t));
    s.z_at = room(&s.bytes, !divide && op->has_vectors ? n * k : 0, size);
    s.gram_at = room(&s.bytes, !divide && op->has_vectors ? k * k : 0, size);
    return s;
}

/* Items that are worked on at the same time, each by one thread. */
static int at_once(const gram_context *g, const struct eigh_plan *plan)
{
    int64_t n = plan->op->a.rows, count = plan->op->batch.count;

    return n <= BATCH_ROWS && count >= g->threads &&
                   gram_worth_waking(2 * (double)(n * n * n * count))
               ? g->threads
               : 1;
}

static size_t bytes(const gram_context *g, const struct eigh_plan *plan)
{
    size_t total;

    if (__builtin_mul_overflow(lay_out(plan).bytes, (size_t)at_once(g, plan), &total))
        return SIZE_MAX;
    return total;
}

/* Brings the triangle to where LAPACK works, scaled; false if it is not finite. */
static bool load_item(const struct eigh_plan *plan, const struct large_layout *at,
                      struct large_item *m)
{
    const struct gram_eigh_op *op = plan->op;
    bool lower = op->uplo == GRAM_LOWER;
    char *from = cpu_eigh_item(plan, &op->a, m->index);
    struct cpu_move c = {
        .from = from,
        .from_stride = {lower ? op->a.row_stride : op->a.col_stride,
                        lower ? op->a.col_stride : op->a.row_stride},
        .rows = op->a.rows,
        .cols = op->a.rows,
        .part = CPU_MOVE_LOWER,
    };

    m->a = m->s + at->matrix_at;
    m->ld = op->a.rows;
    m->uplo = GRAM_LOWER;
    if (at->direct) {
        struct gram_solve_layout layout = gram_solve_layout(&op->vectors);
        m->a = cpu_eigh_item(plan, &op->vectors, m->index);
        m->ld = layout.ld;
        m->row_major = layout.row_major;
    }
    if (m->a == (void *)from) {
        m->uplo = lower != m->row_major ? GRAM_LOWER : GRAM_UPPER;
    } else {
        c.to = m->a;
        c.to_stride[0] = 1;
        c.to_stride[1] = m->ld;
        cpu_move(op->a.dtype, &c);
    }
    return plan->kernels->scale(op->a.rows, m->a, m->ld, m->uplo, &m->exponent);
}

struct large_loop {
    const gram_context *g;
    struct eigh_plan *plan;
    struct large_layout at;
    char *scratch; /* at.bytes for each thread */
};

static void solve_item(void *arg, int64_t index, int thread)
{
    const struct large_loop *loop = arg;
    struct eigh_plan *plan = loop->plan;
    struct large_item m = {.index = index, .s = loop->scratch + (size_t)thread * loop->at.bytes};
    int64_t start = gram_trace_begin(loop->g);
    enum eigh_outcome done = EIGH_NOT_FINITE;
    bool divide = plan->driver == GRAM_EIGH_DRIVER_DIVIDE;

    if (load_item(plan, &loop->at, &m))
        done = (divide ? cpu_eigh_divide_item : cpu_eigh_bisect_item)(plan, &loop->at, &m);
    if (done != EIGH_DONE)
        cpu_eigh_fail(plan, index, done);
    gram_trace_end(loop->g, divide ? "syevd" : "syevx", thread, start);
}

static void run(gram_context *g, struct eigh_plan *plan, void *scratch)
{
    struct large_loop loop = {.g = g, .plan = plan, .at = lay_out(plan), .scratch = scratch};

    cpu_blas_for(g, at_once(g, plan) > 1, plan->op->batch.count, solve_item, &loop);
}

static bool takes_divide(const struct gram_eigh_op *op)
{
    return op->a.rows <= MOST_ROWS;
}

static bool takes_bisection(const struct gram_eigh_op *op)
{
    (void)op;
    return true;
}

const struct eigh_driver cpu_eigh_divide = {"divide and conquer", takes_divide, bytes, run};
const struct eigh_driver cpu_eigh_bisection = {"bisection", takes_bisection, bytes, run};
