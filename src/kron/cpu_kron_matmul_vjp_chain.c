/*
 * cpu_kron_matmul_vjp_chain.c - the steps of the chains of cpu_kron_matmul_vjp.h, by BLAS and, for
 * gradients of small factors, by kernels of our own
 *
 * Rows that one thread has go through whole steps.  In a wide plan a step of small factors is cut
 * along S, always into the same slices; one of large factors is left to BLAS and its threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/blas_view.h"
#include "core/threads.h"
#include "cpu/cpu_kernels.h"
#include "cpu_kron_matmul_vjp.h"
#include <string.h>

enum {
    SLICE_WORK = 1 << 16 /* elements that go into and come out of a slice: tens of microseconds */
};

#define SUFFIX f32
#define real   float
#include "cpu_kron_matmul_vjp_move.h"

#define SUFFIX f64
#define real   double
#include "cpu_kron_matmul_vjp_move.h"

void cpu_kron_matmul_vjp_move(gram_dtype dtype, const struct kron_vjp_move *m)
{
    bool runs = (m->to_stride[1] == 1 && m->from_stride[1] == 1) || m->cols == 1;

    if (dtype == GRAM_F32)
        (runs ? move_rows_f32 : move_tiles_f32)(m);
    else
        (runs ? move_rows_f64 : move_tiles_f64)(m);
}

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

bool cpu_kron_matmul_vjp_packed(const struct gram_view *f)
{
    return !gram_blas_direct(f);
}

static struct gram_blas_matrix factor_of(const struct kron_vjp_rows *r, int i)
{
    const struct gram_kron_matmul_vjp_op *op = r->plan->op;
    const struct gram_view *f = &op->factor[i];

    if (cpu_kron_matmul_vjp_packed(f))
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

/* The kernel that is faster than BLAS for such a factor, or NULL. */
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
    size_t bytes = cpu_kron_matmul_vjp_sum_bytes(plan->op, s->i);
    gram_kron_gradient_kernel *kernel = gradient_kernel(s);
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

    if (!kernel) {
        gram_blas_gemm(plan->op->x.dtype, (int64_t[]){s->q, s->p, count}, s->alpha, right, left,
                       s->rows->accumulate, t.out, s->q);
        return;
    }
    if (!s->rows->accumulate)
        memset(t.out, 0, bytes);
    kernel(&t);
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
static void bring(const struct kron_vjp_rows *r, const struct gram_view *v, int64_t first,
                  int64_t count, bool by_columns, void *to)
{
    const struct kron_vjp_move m = {
        .to = to,
        .from = gram_view_item(v, &r->plan->op->batch, r->item) +
                first * v->row_stride * (int64_t)gram_dtype_size(v->dtype),
        .to_stride = {by_columns ? 1 : v->cols, by_columns ? count : 1},
        .from_stride = {           v->row_stride,          v->col_stride},
        .rows = count,
        .cols = v->cols,
    };

    cpu_kron_matmul_vjp_move(v->dtype, &m);
}

/* Factors that BLAS cannot take and x by rows, grad by columns, where they do not lie so. */
static void bring_in(struct kron_vjp_rows *r)
{
    const struct kron_vjp_plan *plan = r->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    int64_t start = gram_trace_begin(plan->g);
    int last = op->count - 1;

    for (int i = 0; i < op->count; i++) {
        const struct gram_view *f = &op->factor[i];
        if (cpu_kron_matmul_vjp_packed(f))
            bring(r, f, 0, f->rows, false, r->memory + plan->at.factor[i]);
        r->left[i] = r->memory + plan->at.left[i];
    }
    if (plan->first <= last && is_dense(r, &op->x))
        r->left[last] = rows_of(r, &op->x);
    else if (plan->first <= last)
        bring(r, &op->x, r->row, r->count, false, r->memory + plan->at.left[last]);
    r->right = r->memory + plan->at.right[0];
    if (r->count == 1 && is_dense(r, &op->grad))
        r->right = rows_of(r, &op->grad);
    else
        bring(r, &op->grad, r->row, r->count, true, r->memory + plan->at.right[0]);
    gram_trace_end(plan->g, "kron pack", r->thread, start);
}

/* The gradient of x where the chain could not write it in place. */
static void bring_out(const struct kron_vjp_rows *r)
{
    const struct gram_kron_matmul_vjp_op *op = r->plan->op;
    int64_t start = gram_trace_begin(r->plan->g);
    const struct kron_vjp_move m = {
        .to = rows_of(r, &op->to_x),
        .from = r->right,
        .to_stride = {op->to_x.row_stride, op->to_x.col_stride},
        .from_stride = {         op->x.cols,                   1},
        .rows = r->count,
        .cols = op->x.cols,
        .add = !cpu_kron_matmul_vjp_first(&op->to_x, &op->batch, r->item),
    };

    cpu_kron_matmul_vjp_move(op->x.dtype, &m);
    gram_trace_end(r->plan->g, "kron unpack", r->thread, start);
}

static void add_gradient(const struct kron_vjp_rows *r, int i, double alpha)
{
    struct step s = step_of(r, i);

    s.part = gradient, s.name = "kron gradient", s.alpha = alpha;
    s.out = r->plan->scratch + r->plan->sum_at[i];
    run_step(&s);
}

void cpu_kron_matmul_vjp_chain(struct kron_vjp_rows *r)
{
    const struct kron_vjp_plan *plan = r->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    double alpha = gram_hyper_at(&op->alpha, &op->batch, r->item);
    bool direct = op->want_x && !plan->x_shared && is_dense(r, &op->to_x);

    bring_in(r);
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
        bring_out(r);
}
