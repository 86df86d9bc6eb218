/*
 * cpu_kron_matmul_vjp.c - gram_kron_matmul_vjp on the CPU: a chain of matrix products
 *
 * With factors 1 to N, x is m by (P_1 ... P_N).  Two chains meet at every factor i:
 *   left[i]   x with the factors after i applied:      Q_{i+1} .. Q_N  m  P_1 .. P_i
 *   right[i]  grad with those before i taken back:     Q_i .. Q_N  m  P_1 .. P_{i-1}
 * (dimensions, the last one without gaps).  So left[i] is a matrix S by P_i and right[i] one Q_i
 * by S, with the same S columns or rows, and each step is one product that moves a dimension:
 *   left[i-1]  = F_i^T left[i]^T       (Q_i by S)
 *   gradient   = left[i]^T right[i]^T  (P_i by Q_i)
 *   right[i+1] = right[i]^T F_i^T      (S by P_i); after the last factor it is the gradient to x.
 *
 * Rows are independent but for the sums of the factors' gradients, which run over the rows and over
 * the items of the batch that a factor is broadcast to.  Many rows: each thread takes as many at a
 * time as its share of the cache holds on their whole way.  A unit of them leaves its part of the
 * sums in a slot; the slots of a round are then added to the output in the order of the units, so
 * that results do not depend on the number of threads.  Few rows, or factors whose sums are too
 * large to have often: all threads work on one step after the other.  A step of small factors is
 * then cut along S, always into the same slices; one of large factors is left to BLAS and its
 * threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/scratch.h"
#include "core/threads.h"
#include "cpu/cpu_kernels.h"
#include "cpu/move.h"
#include <string.h>

enum {
    VJP_SLOTS = 64,  /* parts of the work of one round, each with sums of its own */
    VJP_SLICES = 16, /* parts of a step that all threads share */
    VJP_LARGE = 64,  /* rows and columns of factors that BLAS's own threads are good for */
};

/* Where one thread works on some rows: offsets in bytes. */
struct kron_vjp_buffers {
    size_t left[GRAM_MAX_FACTORS], right[2], factor[GRAM_MAX_FACTORS], bytes;
};

struct kron_vjp_plan {
    gram_context *g;
    const struct gram_kron_matmul_vjp_op *op;
    int first, last; /* factors whose gradients are wanted lie between them; none: N, -1 */
    int steps;       /* factors that the chain of grad goes through */
    bool wide;       /* all threads share each step; else each has rows of its own */
    bool x_shared;   /* several items add to one gradient of x */
    int64_t rows;    /* that are worked on at once */
    int64_t unit_rows, units, total; /* a unit: rows of an item that one thread has; all of them */
    int64_t per_row[GRAM_MAX_FACTORS]; /* S of one row */
    struct kron_vjp_buffers at;
    size_t sum_at[GRAM_MAX_FACTORS]; /* of the first slot of sums */
    int64_t slots[GRAM_MAX_FACTORS];
    size_t sums_at, bytes; /* of all scratch */
    char *scratch;
};

/* Some rows of an item on their way through the chains. */
struct kron_vjp_rows {
    const struct kron_vjp_plan *plan;
    char *memory; /* of plan->at */
    int64_t item, row, count;
    int64_t slot; /* of the sums, where the plan is not wide */
    int thread;
    bool accumulate; /* to the sums */
    const char *left[GRAM_MAX_FACTORS], *right;
};

/* ---- How the work is cut -------------------------------------------------------------------- */

static const int64_t most_elements = (int64_t)1 << 48; /* of a row: their bytes can be counted */

enum {
    CHAIN_BYTES = 1 << 20, /* of rows on their way: what a core's second-level cache holds */
    WIDE_BYTES = 16 << 20, /* of those that all threads share: few steps, little overhead */
    SUM_BYTES = 256 << 10, /* of sums that a thread may have of its own */
    UNITS = 16,            /* of an item at most */
    LEAST_UNITS = 8,       /* fewer would leave threads without work */
};

/* Bytes of the sums of one slot of factor i. */
static size_t sum_bytes(const struct gram_kron_matmul_vjp_op *op, int i)
{
    const struct gram_view *f = &op->factor[i];

    return gram_round64((size_t)(f->rows * f->cols) * gram_dtype_size(f->dtype));
}

/* True if a factor has to be packed by rows for BLAS, which cannot take it as it lies. */
static bool is_packed(const struct gram_view *f)
{
    return !gram_blas_direct(f);
}

static void choose_steps(struct kron_vjp_plan *p)
{
    const struct gram_kron_matmul_vjp_op *op = p->op;

    p->first = op->count, p->last = -1;
    for (int i = 0; i < op->count; i++)
        if (op->want_factor[i]) {
            p->first = p->first < i ? p->first : i;
            p->last = i;
        }
    p->steps = op->want_x ? op->count : p->last > 0 ? p->last : 0;
    for (int i = 0; i < op->batch.ndim; i++)
        p->x_shared |= op->want_x && op->batch.shape[i] > 1 && op->to_x.batch_stride[i] == 0;
}

/* Elements a row of left[i] and of right[i], 0 <= i <= N for the latter. */
static int64_t left_elements(const struct kron_vjp_plan *p, int i)
{
    return p->per_row[i] * p->op->factor[i].rows;
}

static int64_t right_elements(const struct kron_vjp_plan *p, int i)
{
    return i < p->op->count ? p->per_row[i] * p->op->factor[i].cols : p->op->x.cols;
}

/* Lays out what a number of rows needs; false if BLAS cannot count it. */
static bool lay_out(struct kron_vjp_plan *p, int64_t rows)
{
    const struct gram_kron_matmul_vjp_op *op = p->op;
    size_t size = gram_dtype_size(op->x.dtype), at = 0, most[2] = {0, 0};

    p->rows = rows;
    for (int i = 0; i < op->count; i++) {
        const struct gram_view *f = &op->factor[i];
        if (p->per_row[i] > INT32_MAX / rows || !gram_blas_fits(f->rows, f->cols, 0))
            return false;
        p->at.factor[i] = at;
        if (is_packed(f))
            at += gram_round64((size_t)(f->rows * f->cols) * size);
        p->at.left[i] = at;
        if (i >= p->first)
            at += gram_round64((size_t)(left_elements(p, i) * rows) * size);
    }
    for (int i = 0; i <= p->steps; i++)
        most[i % 2] = gram_most_bytes(most[i % 2],
                                      gram_round64((size_t)(right_elements(p, i) * rows) * size));
    p->at.right[0] = at;
    p->at.right[1] = at + most[0];
    p->at.bytes = p->at.right[1] + most[1];
    return true;
}

/* How many rows go through the chains in buffers of `bytes` bytes. */
static int64_t rows_in(const struct kron_vjp_plan *p, int64_t bytes)
{
    int64_t elements = 2 * gram_most(p->op->x.cols, p->op->grad.cols);

    for (int i = p->first; i < p->op->count; i++)
        elements += left_elements(p, i);
    return gram_most(
        1, gram_least(p->op->x.rows, bytes / (int64_t)gram_dtype_size(p->op->x.dtype) / elements));
}

static void choose_units(struct kron_vjp_plan *p)
{
    const struct gram_kron_matmul_vjp_op *op = p->op;
    int64_t pieces;
    size_t sums = 0;

    p->rows = rows_in(p, CHAIN_BYTES);
    pieces = gram_ceil_div(op->x.rows, p->rows);
    p->unit_rows = gram_ceil_div(pieces, UNITS) * p->rows;
    p->units = gram_ceil_div(op->x.rows, p->unit_rows);
    p->total = p->units * op->batch.count;
    for (int i = p->first; i <= p->last; i++)
        sums += op->want_factor[i] ? sum_bytes(op, i) : 0;
    p->wide = p->total < LEAST_UNITS || sums > SUM_BYTES;
    if (p->wide)
        p->rows = rows_in(p, WIDE_BYTES);
}

/* GRAM_UNSUPPORTED: a product is larger than BLAS can count. */
static gram_status make_plan(gram_context *g, const struct gram_kron_matmul_vjp_op *op,
                             struct kron_vjp_plan *p)
{
    int64_t after = 1, before = 1;

    *p = (struct kron_vjp_plan){.g = g, .op = op};
    choose_steps(p);
    for (int i = op->count - 1; i >= 0; i--) {
        p->per_row[i] = after;
        after *= op->factor[i].cols;
    }
    for (int i = 0; i < op->count; i++) {
        if (__builtin_mul_overflow(p->per_row[i], before, &p->per_row[i]) ||
            p->per_row[i] > INT32_MAX || p->per_row[i] > most_elements / op->factor[i].rows ||
            p->per_row[i] > most_elements / op->factor[i].cols)
            return gram_fail(g, GRAM_UNSUPPORTED,
                             "an intermediate row has more elements than BLAS can count");
        before *= op->factor[i].rows;
    }
    choose_units(p);
    if (!lay_out(p, p->rows))
        return gram_fail(g, GRAM_UNSUPPORTED, "the factors are larger than BLAS can count");
    p->sums_at = (p->wide ? 1 : (size_t)g->threads) * p->at.bytes;
    p->bytes = p->sums_at;
    for (int i = 0; i < op->count; i++) {
        bool large = op->factor[i].rows >= VJP_LARGE && op->factor[i].cols >= VJP_LARGE;
        p->slots[i] = p->wide ? (large ? 1 : VJP_SLICES) : gram_least(p->total, VJP_SLOTS);
        p->sum_at[i] = p->bytes;
        if (op->want_factor[i])
            p->bytes += (size_t)p->slots[i] * sum_bytes(op, i);
    }
    return GRAM_OK;
}

/* True if item is the first of those that add to an output. */
static bool is_first(const struct gram_view *v, const struct gram_batch *batch, int64_t item)
{
    for (int i = batch->ndim - 1; i >= 0; i--) {
        if (v->batch_stride[i] == 0 && item % batch->shape[i] > 0)
            return false;
        item /= batch->shape[i];
    }
    return true;
}

enum {
    SLICE_WORK = 1 << 16 /* elements that go into and come out of a slice: tens of microseconds */
};

/* ---- Steps --------------------------------------------------------------------------------- */

struct step {
    const struct kron_vjp_rows *rows;
    void (*part)(const struct step *s, int64_t first, int64_t count, int64_t slot);
    const char *name;
    int i;                          /* the factor */
    int64_t p, q, s, size;          /* of it; S of all rows; bytes of an element */
    struct gram_blas_matrix factor; /* q by p for BLAS, to which rows are columns */
    const char *left, *right;
    char *out;
    double alpha;
    int64_t slice; /* of S */
};

static struct gram_blas_matrix factor_of(const struct kron_vjp_rows *r, int i)
{
    const struct gram_kron_matmul_vjp_op *op = r->plan->op;
    const struct gram_view *f = &op->factor[i];

    if (is_packed(f))
        return (struct gram_blas_matrix){r->memory + r->plan->at.factor[i], f->cols, false};
    return gram_blas_transpose_of(f, gram_view_item(f, &op->batch, r->item));
}

/* left[i-1] = F^T left^T: q by s, of which BLAS sees s by q. */
static void contract(const struct step *s, int64_t first, int64_t count, int64_t slot)
{
    struct gram_blas_matrix left = {s->left + first * s->p * s->size, s->p, true};
    struct gram_blas_matrix factor = {s->factor.data, s->factor.ld, !s->factor.transposed};

    (void)slot;
    gram_blas_gemm(s->rows->plan->op->x.dtype, (int64_t[]){count, s->q, s->p}, 1, left, factor, 0,
                   s->out + first * s->size, s->s);
}

/* right[i+1] = right^T F^T: s by p, of which BLAS sees p by s. */
static void take_back(const struct step *s, int64_t first, int64_t count, int64_t slot)
{
    struct gram_blas_matrix right = {s->right + first * s->size, s->s, true};
    struct gram_blas_matrix factor = {s->factor.data, s->factor.ld, !s->factor.transposed};

    (void)slot;
    gram_blas_gemm(s->rows->plan->op->x.dtype, (int64_t[]){s->p, count, s->q}, s->alpha, factor,
                   right, 0, s->out + first * s->p * s->size, s->p);
}

/* The micro-kernel that is faster than BLAS for such a factor, or NULL. */
static gram_kron_gradient_kernel *gradient_kernel(const struct step *s)
{
    const struct kron_vjp_plan *plan = s->rows->plan;
    const struct gram_kron_vjp_kernels *k =
        &gram_cpu_kernels_of(plan->g)->kron_vjp[plan->op->x.dtype];

    if (s->p >= VJP_LARGE && s->q >= VJP_LARGE)
        return NULL;
    return s->p >= k->lanes[0] ? k->gradient[0] : s->p >= k->lanes[1] ? k->gradient[1] : NULL;
}

/* The gradient of the factor, p by q, of which BLAS sees q by p. */
static void gradient(const struct step *s, int64_t first, int64_t count, int64_t slot)
{
    const struct kron_vjp_plan *plan = s->rows->plan;
    size_t bytes = sum_bytes(plan->op, s->i);
    gram_kron_gradient_kernel *add_up = gradient_kernel(s);
    struct gram_blas_matrix right = {s->right + first * s->size, s->s, true};
    struct gram_blas_matrix left = {s->left + first * s->p * s->size, s->p, true};
    const struct gram_kron_gradient t = {
        .depth = count,
        .p = s->p,
        .q = s->q,
        .right_step = s->s,
        .left = left.data,
        .right = right.data,
        .out = s->out + slot * (int64_t)bytes,
        .alpha = s->alpha,
    };

    if (!add_up) {
        gram_blas_gemm(plan->op->x.dtype, (int64_t[]){s->q, s->p, count}, s->alpha, right, left,
                       s->rows->accumulate, t.out, s->q);
        return;
    }
    if (!s->rows->accumulate)
        memset(t.out, 0, bytes);
    add_up(&t);
}

static void run_slice(void *arg, int64_t index, int thread)
{
    const struct step *s = arg;
    gram_context *g = s->rows->plan->g;
    int64_t start = gram_trace_begin(g), first = index * s->slice;

    s->part(s, first, gram_least(s->slice, s->s - first), index);
    gram_trace_end(g, s->name, thread, start);
}

static void run_step(struct step *s)
{
    const struct kron_vjp_plan *plan = s->rows->plan;
    int64_t start = gram_trace_begin(plan->g);
    int64_t slices = gram_ceil_div(s->s * (s->p + s->q), SLICE_WORK);
    bool large = s->p >= VJP_LARGE && s->q >= VJP_LARGE;

    if (plan->wide && !large && slices > 1) {
        s->slice = gram_ceil_div(s->s, gram_least(slices, VJP_SLICES));
        gram_blas_for(plan->g, gram_ceil_div(s->s, s->slice), run_slice, s);
        return;
    }
    if (plan->wide)
        gram_blas_threads(plan->g);
    s->part(s, 0, s->s, plan->wide ? 0 : s->rows->slot);
    gram_trace_end(plan->g, s->name, s->rows->thread, start);
}

/* A step of factor i, before its part, name and output are chosen. */
static struct step step_of(const struct kron_vjp_rows *r, int i)
{
    const struct gram_kron_matmul_vjp_op *op = r->plan->op;

    return (struct step){
        .rows = r,
        .i = i,
        .p = op->factor[i].rows,
        .q = op->factor[i].cols,
        .s = r->count * r->plan->per_row[i],
        .size = (int64_t)gram_dtype_size(op->x.dtype),
        .factor = factor_of(r, i),
        .left = r->left[i],
        .right = r->right,
        .alpha = 1,
    };
}

/* ---- Into the chains and out of them ------------------------------------------------------- */

/* Rows of an item: their address. */
static char *rows_of(const struct kron_vjp_rows *r, const struct gram_view *v)
{
    return gram_view_item(v, &r->plan->op->batch, r->item) +
           r->row * v->row_stride * (int64_t)gram_dtype_size(v->dtype);
}

/* True if the rows follow each other without gaps. */
static bool is_dense(const struct kron_vjp_rows *r, const struct gram_view *v)
{
    return (v->col_stride == 1 || v->cols == 1) && (r->count == 1 || v->row_stride == v->cols);
}

/* Packs rows of an item of a matrix, by rows or by columns. */
static void pack(const struct kron_vjp_rows *r, const struct gram_view *v, int64_t first,
                 int64_t count, bool by_columns, void *to)
{
    const struct cpu_move m = {
        .to = to,
        .from = gram_view_item(v, &r->plan->op->batch, r->item) +
                first * v->row_stride * (int64_t)gram_dtype_size(v->dtype),
        .to_stride = {by_columns ? 1 : v->cols, by_columns ? count : 1},
        .from_stride = {           v->row_stride,          v->col_stride},
        .rows = count,
        .cols = v->cols,
    };

    cpu_move(v->dtype, &m);
}

/* Factors that BLAS cannot take and x by rows, grad by columns, where they do not lie so. */
static void load_rows(struct kron_vjp_rows *r)
{
    const struct kron_vjp_plan *plan = r->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    int64_t start = gram_trace_begin(plan->g);
    int last = op->count - 1;

    for (int i = 0; i < op->count; i++) {
        const struct gram_view *f = &op->factor[i];
        if (is_packed(f))
            pack(r, f, 0, f->rows, false, r->memory + plan->at.factor[i]);
        r->left[i] = r->memory + plan->at.left[i];
    }
    if (plan->first <= last && is_dense(r, &op->x))
        r->left[last] = rows_of(r, &op->x);
    else if (plan->first <= last)
        pack(r, &op->x, r->row, r->count, false, r->memory + plan->at.left[last]);
    r->right = r->memory + plan->at.right[0];
    if (r->count == 1 && is_dense(r, &op->grad))
        r->right = rows_of(r, &op->grad);
    else
        pack(r, &op->grad, r->row, r->count, true, r->memory + plan->at.right[0]);
    gram_trace_end(plan->g, "kron pack", r->thread, start);
}

/* The gradient of x where the chain could not write it in place. */
static void store_x(const struct kron_vjp_rows *r)
{
    const struct gram_kron_matmul_vjp_op *op = r->plan->op;
    int64_t start = gram_trace_begin(r->plan->g);
    const struct cpu_move m = {
        .to = rows_of(r, &op->to_x),
        .from = r->right,
        .to_stride = {op->to_x.row_stride, op->to_x.col_stride},
        .from_stride = {         op->x.cols,                   1},
        .rows = r->count,
        .cols = op->x.cols,
        .add = !is_first(&op->to_x, &op->batch, r->item),
    };

    cpu_move(op->x.dtype, &m);
    gram_trace_end(r->plan->g, "kron unpack", r->thread, start);
}

static void add_gradient(const struct kron_vjp_rows *r, int i, double alpha)
{
    struct step s = step_of(r, i);

    s.part = gradient, s.name = "kron gradient", s.alpha = alpha;
    s.out = r->plan->scratch + r->plan->sum_at[i];
    run_step(&s);
}

/* Takes rows through the chains: adds to sums, writes or adds to the gradient of x. */
static void run_chain(struct kron_vjp_rows *r)
{
    const struct kron_vjp_plan *plan = r->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    double alpha = gram_hyper_at(&op->alpha, &op->batch, r->item);
    bool direct = op->want_x && !plan->x_shared && is_dense(r, &op->to_x);

    load_rows(r);
    for (int i = op->count - 1; i > plan->first; i--) {
        struct step s = step_of(r, i);
        s.part = contract, s.name = "kron contract";
        s.out = r->memory + plan->at.left[i - 1];
        run_step(&s);
    }
    for (int i = 0; i <= plan->last || i < plan->steps; i++) {
        struct step s = step_of(r, i);
        bool to_x = op->want_x && i + 1 == op->count;
        if (op->want_factor[i])
            add_gradient(r, i, alpha);
        if (i >= plan->steps)
            break;
        s.part = take_back, s.name = "kron back", s.alpha = to_x ? alpha : 1;
        s.out = to_x && direct ? rows_of(r, &op->to_x) : r->memory + plan->at.right[(i + 1) % 2];
        run_step(&s);
        r->right = s.out;
    }
    if (op->want_x && !direct)
        store_x(r);
}

enum {
    STORED_ROWS = 64 /* of a gradient that a thread adds up at a time */
};

struct round {
    const struct kron_vjp_plan *plan;
    int64_t base, count; /* units */
    int factor;          /* whose gradient is stored */
};

/* ---- Sums to outputs ----------------------------------------------------------------------- */

/* Adds a slot to the output of an item, or stores it there. */
static void store_slot(const struct round *r, int64_t slot, int64_t item, bool first, int64_t row,
                       int64_t rows)
{
    const struct kron_vjp_plan *plan = r->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    const struct gram_view *to = &op->to_factor[r->factor];
    int64_t size = (int64_t)gram_dtype_size(to->dtype);
    const struct cpu_move m = {
        .to = gram_view_item(to, &op->batch, item) + row * to->row_stride * size,
        .from = plan->scratch + plan->sum_at[r->factor] + (size_t)slot * sum_bytes(op, r->factor) +
                (size_t)(row * to->cols * size),
        .to_stride = {to->row_stride, to->col_stride},
        .from_stride = {      to->cols,              1},
        .rows = rows,
        .cols = to->cols,
        .add = !(first && is_first(to, &op->batch, item)),
    };

    cpu_move(to->dtype, &m);
}

static void store_rows(void *arg, int64_t index, int thread)
{
    const struct round *r = arg;
    const struct kron_vjp_plan *plan = r->plan;
    int64_t row = index * STORED_ROWS;
    int64_t rows = gram_least(STORED_ROWS, plan->op->factor[r->factor].rows - row);

    (void)thread;
    for (int64_t u = 0; plan->wide && u < plan->slots[r->factor]; u++)
        store_slot(r, u, r->base, u == 0, row, rows);
    for (int64_t u = 0; !plan->wide && u < r->count; u++)
        store_slot(r, u, (r->base + u) / plan->units, (r->base + u) % plan->units == 0, row, rows);
}

static void store_sums(struct round *r)
{
    const struct kron_vjp_plan *plan = r->plan;
    int64_t start = gram_trace_begin(plan->g);

    for (r->factor = 0; r->factor < plan->op->count; r->factor++)
        if (plan->op->want_factor[r->factor])
            gram_parallel_for(plan->g, gram_ceil_div(plan->op->factor[r->factor].rows, STORED_ROWS),
                              store_rows, r);
    gram_trace_end(plan->g, "kron sums", 0, start);
}

/* ---- Rows ---------------------------------------------------------------------------------- */

static void run_unit(void *arg, int64_t index, int thread)
{
    const struct round *r = arg;
    const struct kron_vjp_plan *plan = r->plan;
    int64_t unit = r->base + index, first = unit % plan->units * plan->unit_rows;
    int64_t end = gram_least(first + plan->unit_rows, plan->op->x.rows);
    struct kron_vjp_rows rows = {
        .plan = plan,
        .memory = plan->scratch + (size_t)thread * plan->at.bytes,
        .item = unit / plan->units,
        .slot = index,
        .thread = thread,
    };

    for (rows.row = first; rows.row < end; rows.row += rows.count) {
        rows.count = gram_least(plan->rows, end - rows.row);
        rows.accumulate = rows.row > first;
        run_chain(&rows);
    }
}

static void run_rounds(const struct kron_vjp_plan *plan)
{
    struct round r = {.plan = plan};

    for (r.base = 0; r.base < plan->total; r.base += r.count) {
        r.count = gram_least(VJP_SLOTS, plan->total - r.base);
        if (plan->x_shared) /* of one item, or two threads add to one place */
            r.count = gram_least(r.count, plan->units - r.base % plan->units);
        gram_blas_for(plan->g, r.count, run_unit, &r);
        store_sums(&r);
    }
}

/* Slots begin at zero: which of them a step uses depends on its sizes. */
static void run_wide(const struct kron_vjp_plan *plan)
{
    size_t sums = plan->bytes - plan->sums_at;

    for (int64_t item = 0; item < plan->op->batch.count; item++) {
        struct kron_vjp_rows rows = {
            .plan = plan, .memory = plan->scratch, .item = item, .accumulate = true};
        struct round r = {.plan = plan, .base = item, .count = 1};
        if (sums)
            memset(plan->scratch + plan->sums_at, 0, sums);
        for (; rows.row < plan->op->x.rows; rows.row += rows.count) {
            rows.count = gram_least(plan->rows, plan->op->x.rows - rows.row);
            run_chain(&rows);
        }
        store_sums(&r);
    }
}

/* ---- The call ------------------------------------------------------------------------------ */

/* Without rows, columns or items gradients are sums of nothing. */
static bool is_empty(const struct gram_kron_matmul_vjp_op *op)
{
    return op->batch.count == 0 || op->x.rows == 0 || op->x.cols == 0 || op->grad.cols == 0;
}

static void fill_zero(const struct gram_kron_matmul_vjp_op *op, const struct gram_view *v)
{
    static const double zero = 0;
    int64_t size = (int64_t)gram_dtype_size(v->dtype);
    struct gram_batch own = op->batch; /* which may have items where the call has none */

    own.count = 1;
    for (int i = 0; i < own.ndim; i++) {
        own.shape[i] = v->batch_stride[i] == 0 ? 1 : own.shape[i];
        own.count *= own.shape[i];
    }
    for (int64_t item = 0; v->rows * v->cols > 0 && item < own.count; item++)
        for (int64_t i = 0; i < v->rows; i++)
            for (int64_t j = 0; j < v->cols; j++)
                memcpy(gram_view_item(v, &own, item) +
                           (i * v->row_stride + j * v->col_stride) * size,
                       &zero, (size_t)size);
}

gram_status cpu_kron_matmul_vjp(gram_context *g, const struct gram_kron_matmul_vjp_op *op)
{
    struct gram_layout layout = {0};
    struct kron_vjp_plan plan;

    if (is_empty(op)) {
        TRY(gram_layout_open(g, &layout));
        for (int i = 0; i < op->count; i++)
            if (op->want_factor[i])
                fill_zero(op, &op->to_factor[i]);
        if (op->want_x)
            fill_zero(op, &op->to_x);
        return GRAM_OK;
    }
    TRY(make_plan(g, op, &plan));
    gram_take(&layout, &plan.scratch, plan.bytes);
    TRY(gram_layout_open(g, &layout));
    if (plan.wide)
        run_wide(&plan);
    else
        run_rounds(&plan);
    return GRAM_OK;
}
