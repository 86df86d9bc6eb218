/*
 * cpu_kron.c - gram_kron, gram_kron_trace and gram_kron_logdet on the CPU
 *
 * Of the product every row is an outer product of two short rows.  The factors are taken apart in
 * the middle: a row of out is left (x) right, where left is the product of a row of each of the
 * first factors and right that of the others, both about as long as the root of a row.  A
 * column-major out is written as the product of the transposes.
 *
 * Trace and determinant come factor by factor:
 *   trace = product of the traces
 *   det   = product of det(F_i)^(n / n_i), n the order of the product, n_i that of F_i
 * Sums and factorisations are in f64 (integers: modulo 2^64), whatever the dtype.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/scratch.h"
#include "core/threads.h"
#include "cpu/cpu.h"
#include "kron.h"
#include <math.h>

/* ---- The product ---------------------------------------------------------------------------- */

enum {
    TASK_ELEMENTS = 32768 /* of out that a thread takes at a time: tens of microseconds */
};

/* A row of a factor. */
struct kron_row {
    const void *data;
    int64_t cols, stride;
};

struct kron_outer {
    const void *left, *right;
    int64_t left_count, right_count;
    void *out;
    int64_t stride;
};

#define TEMPLATE "kron/kron_expand_loops.h"
#define HALVES   1
#define INTEGERS 1
#include "cpu/each_dtype.h"

static const struct {
    void (*expand)(const struct kron_row *rows, int count, void *to);
    void (*outer)(const struct kron_outer *o);
    size_t element; /* bytes of the arithmetic's type */
} loops[] = {
    [GRAM_F32] = { expand_f32,  outer_f32, 4},
      [GRAM_F64] = { expand_f64,  outer_f64, 8},
    [GRAM_F16] = { expand_f16,  outer_f16, 4},
      [GRAM_BF16] = {expand_bf16, outer_bf16, 4},
    [GRAM_I32] = { expand_i32,  outer_i32, 4},
      [GRAM_I64] = { expand_i64,  outer_i64, 8},
};

struct kron_plan {
    gram_context *g;
    struct gram_kron_op op;             /* its matrices transposed if out is column-major */
    int split;                          /* factors before it are the left ones */
    int64_t left, right;                /* lengths of their rows */
    int64_t rows_at_once, left_at_once; /* of a task */
    int64_t row_tasks, left_tasks;      /* of an item */
    size_t right_at, bytes_per_thread;
    char *scratch;
};

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

static bool is_empty(const struct gram_kron_op *op)
{
    return op->batch.count == 0 || op->out.rows == 0 || op->out.cols == 0;
}

/* op is not empty. */
static void make_plan(const struct gram_kron_op *op, struct kron_plan *p)
{
    size_t element = loops[op->out.dtype].element;

    *p = (struct kron_plan){.op = *op, .split = op->count - 1};
    /* One row, as a diagonal is, may have any stride. */
    if (op->out.rows > 1 && magnitude(op->out.row_stride) < magnitude(op->out.col_stride)) {
        gram_view_transpose(&p->op.out);
        for (int i = 0; i < op->count; i++)
            gram_view_transpose(&p->op.factor[i]);
    }
    p->right = p->op.factor[p->split].cols;
    p->left = p->op.out.cols / p->right;
    while (p->split > 0 && p->right < p->left) {
        p->right *= p->op.factor[--p->split].cols;
        p->left = p->op.out.cols / p->right;
    }
    p->left_at_once = gram_most(TASK_ELEMENTS / p->right, 1);
    p->left_tasks = gram_ceil_div(p->left, p->left_at_once);
    p->rows_at_once = gram_most(TASK_ELEMENTS / p->op.out.cols, 1);
    p->row_tasks = gram_ceil_div(p->op.out.rows, p->rows_at_once);
    p->right_at = gram_round64((size_t)p->left * element);
    p->bytes_per_thread = p->right_at + gram_round64((size_t)p->right * element);
}

/* The rows of the factors that a row of the product is made of. */
static void find_rows(const struct kron_plan *p, int64_t item, int64_t row, struct kron_row *rows)
{
    for (int f = p->op.count - 1; f >= 0; f--) {
        const struct gram_view *v = &p->op.factor[f];
        int64_t size = (int64_t)gram_dtype_size(v->dtype);
        rows[f] = (struct kron_row){
            .data = gram_view_item(v, &p->op.batch, item) + row % v->rows * v->row_stride * size,
            .cols = v->cols,
            .stride = v->col_stride,
        };
        row /= v->rows;
    }
}

/* Columns of a row of the product: those of the left factors from first on. */
static void fill_row(const struct kron_plan *p, int64_t item, int64_t row, int64_t first,
                     char *scratch)
{
    const struct gram_view *out = &p->op.out;
    struct kron_row rows[GRAM_MAX_FACTORS];
    int64_t size = (int64_t)gram_dtype_size(out->dtype);
    struct kron_outer o = {
        .left = scratch + first * (int64_t)loops[out->dtype].element,
        .right = scratch + p->right_at,
        .left_count = gram_least(p->left - first, p->left_at_once),
        .right_count = p->right,
        .stride = out->col_stride,
    };

    o.out = gram_view_item(out, &p->op.batch, item) +
            (row * out->row_stride + first * p->right * out->col_stride) * size;
    find_rows(p, item, row, rows);
    loops[out->dtype].expand(rows, p->split, scratch);
    loops[out->dtype].expand(rows + p->split, p->op.count - p->split, scratch + p->right_at);
    loops[out->dtype].outer(&o);
}

static void fill_rows(void *arg, int64_t index, int thread)
{
    const struct kron_plan *p = arg;
    int64_t start = gram_trace_begin(p->g);
    int64_t first = index % p->left_tasks * p->left_at_once, rest = index / p->left_tasks;
    int64_t row = rest % p->row_tasks * p->rows_at_once, item = rest / p->row_tasks;
    int64_t end = gram_least(row + p->rows_at_once, p->op.out.rows);

    for (; row < end; row++)
        fill_row(p, item, row, first, p->scratch + (size_t)thread * p->bytes_per_thread);
    gram_trace_end(p->g, "kron rows", thread, start);
}

gram_status cpu_kron(gram_context *g, const struct gram_kron_op *op)
{
    struct gram_layout layout = {0};
    struct kron_plan plan;

    if (is_empty(op))
        return GRAM_OK;
    make_plan(op, &plan);
    plan.g = g;
    gram_take_many(&layout, &plan.scratch, (size_t)g->threads, plan.bytes_per_thread);
    TRY(gram_layout_open(g, &layout));
    gram_parallel_for(g, op->batch.count * plan.row_tasks * plan.left_tasks, fill_rows, &plan);
    return GRAM_OK;
}

static double value_at(const struct gram_view *v, const char *item, int64_t i, int64_t j)
{
    int64_t at = i * v->row_stride + j * v->col_stride;

    return v->dtype == GRAM_F32 ? (double)((const float *)(const void *)item)[at]
                                : ((const double *)(const void *)item)[at];
}

static void store_number(const struct gram_view *v, const struct gram_batch *batch, int64_t item,
                         double value)
{
    void *to = gram_view_item(v, batch, item);

    if (v->dtype == GRAM_F32)
        *(float *)to = (float)value;
    else
        *(double *)to = value;
}

/* ---- Trace --------------------------------------------------------------------------------- */

static double trace_of(const struct gram_view *f, const char *item)
{
    double sum = 0;

    for (int64_t i = 0; i < f->rows; i++)
        sum += value_at(f, item, i, i);
    return sum;
}

static uint64_t integer_trace_of(const struct gram_view *f, const char *item)
{
    uint64_t sum = 0;

    for (int64_t i = 0; i < f->rows; i++) {
        int64_t at = i * (f->row_stride + f->col_stride);
        sum += f->dtype == GRAM_I32 ? (uint64_t)((const int32_t *)(const void *)item)[at]
                                    : ((const uint64_t *)(const void *)item)[at];
    }
    return sum;
}

gram_status cpu_kron_trace(gram_context *g, const struct gram_kron_number_op *op)
{
    bool whole = op->out.dtype == GRAM_I32 || op->out.dtype == GRAM_I64;

    (void)g;
    for (int64_t item = 0; item < op->batch.count; item++) {
        double value = 1;
        uint64_t integer = 1;
        for (int i = 0; i < op->count; i++) {
            const struct gram_view *f = &op->factor[i];
            if (whole)
                integer *= integer_trace_of(f, gram_view_item(f, &op->batch, item));
            else
                value *= trace_of(f, gram_view_item(f, &op->batch, item));
        }
        if (op->out.dtype == GRAM_I32)
            *(uint32_t *)(void *)gram_view_item(&op->out, &op->batch, item) = (uint32_t)integer;
        else if (whole)
            *(uint64_t *)(void *)gram_view_item(&op->out, &op->batch, item) = integer;
        else
            store_number(&op->out, &op->batch, item, value);
    }
    return GRAM_OK;
}

/* ---- Determinant --------------------------------------------------------------------------- */

static int64_t largest_order(const struct gram_kron_number_op *op)
{
    int64_t most = 0;

    for (int i = 0; i < op->count; i++)
        most = gram_most(most, op->factor[i].rows);
    return most;
}

/* log |det F| of a factor, by LU in scratch; its sign to *sign. */
static double logdet_of(const struct gram_view *f, const char *item, double *lu, int32_t *pivots,
                        double *sign)
{
    int64_t n = f->rows;
    double sum = 0;

    *sign = 1;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            lu[j * n + i] = value_at(f, item, i, j);
    gram_blas_getrf(GRAM_F64, n, lu, n, pivots);
    for (int64_t i = 0; i < n; i++) {
        double d = lu[i * (n + 1)];
        if (pivots[i] != i + 1)
            *sign = -*sign;
        *sign *= d > 0 ? 1 : d < 0 ? -1 : d; /* 0 and NaN stay */
        sum += log(fabs(d));
    }
    return sum;
}

/* Whether a factor is there once more or less often matters for the sign alone. */
static void item_logdet(const struct gram_kron_number_op *op, int64_t item, double *lu,
                        int32_t *pivots)
{
    double sum = 0, sign = 1, own;

    for (int i = 0; op->order > 0 && i < op->count; i++) {
        const struct gram_view *f = &op->factor[i];
        int64_t times = op->order / f->rows;
        double part = logdet_of(f, gram_view_item(f, &op->batch, item), lu, pivots, &own);
        sum += (double)times * part;
        sign *= times % 2 == 0 ? own * own : own;
    }
    /* A singular factor makes the product singular; what is NaN stays NaN. */
    store_number(&op->out, &op->batch, item, sign == 0 ? -INFINITY : isnan(sign) ? sign : sum);
    if (op->has_sign)
        store_number(&op->sign, &op->batch, item, sign);
}

gram_status cpu_kron_logdet(gram_context *g, const struct gram_kron_number_op *op)
{
    struct gram_layout layout = {0};
    const int64_t n = largest_order(op);
    double *lu = NULL; /* of one factor at a time */
    int32_t *pivots = NULL;

    if (!gram_blas_fits(n, n, 0) || n > INT32_MAX / 4)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "a factor has %lld rows, which is more than BLAS can count", (long long)n);
    if (op->order > 0) {
        gram_take(&layout, &lu, (size_t)(n * n) * sizeof(double));
        gram_take(&layout, &pivots, (size_t)n * sizeof(int32_t));
    }
    TRY(gram_layout_open(g, &layout));
    gram_blas_threads(g);
    for (int64_t item = 0; item < op->batch.count; item++)
        item_logdet(op, item, lu, pivots);
    return GRAM_OK;
}
