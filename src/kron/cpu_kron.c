/*
 * cpu_kron.c - gram_kron on the CPU: rows of the product, each an outer product of two short rows
 *
 * The factors are taken apart in the middle: a row of out is left (x) right, where left is the
 * product of a row of each of the first factors and right that of the others, both about as long
 * as the root of a row.  A column-major out is written as the product of the transposes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "cpu/cpu.h"
#include "kron.h"

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

#define TEMPLATE "kron/cpu_kron_expand.h"
#define INTEGERS 1
#include "cpu/each_dtype.h"

static const struct {
    void (*expand)(const struct kron_row *rows, int count, void *to);
    void (*outer)(const struct kron_outer *o);
    size_t element; /* bytes of the arithmetic's type */
} kernels[] = {
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
    size_t element = kernels[op->out.dtype].element;

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
        .left = scratch + first * (int64_t)kernels[out->dtype].element,
        .right = scratch + p->right_at,
        .left_count = gram_least(p->left - first, p->left_at_once),
        .right_count = p->right,
        .stride = out->col_stride,
    };

    o.out = gram_view_item(out, &p->op.batch, item) +
            (row * out->row_stride + first * p->right * out->col_stride) * size;
    find_rows(p, item, row, rows);
    kernels[out->dtype].expand(rows, p->split, scratch);
    kernels[out->dtype].expand(rows + p->split, p->op.count - p->split, scratch + p->right_at);
    kernels[out->dtype].outer(&o);
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
    struct kron_plan plan;
    void *scratch;

    if (is_empty(op))
        return GRAM_OK;
    make_plan(op, &plan);
    TRY(gram_scratch(g, (size_t)g->threads * plan.bytes_per_thread, &scratch));
    plan.g = g;
    plan.scratch = scratch;
    gram_parallel_for(g, op->batch.count * plan.row_tasks * plan.left_tasks, fill_rows, &plan);
    return GRAM_OK;
}

size_t cpu_kron_workspace(const gram_context *g, const struct gram_kron_op *op)
{
    struct kron_plan plan;

    if (is_empty(op))
        return 0;
    make_plan(op, &plan);
    return (size_t)g->threads * plan.bytes_per_thread;
}
