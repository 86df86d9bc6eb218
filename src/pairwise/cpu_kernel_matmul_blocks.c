/*
 * cpu_kernel_matmul_blocks.c - products with kernel matrices on the CPU, by gram_cdist and BLAS
 *
 * A block of K is computed as gram_kernel does it and multiplied by its rows of v, a chunk of its
 * rows a task; where K is symmetric the block's transpose is multiplied too and only blocks on and
 * above the diagonal are computed.  Blocks come in one order and chunks have one size, so the sums
 * are the same for any number of threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu_cdist.h"
#include "cpu_kernel_matmul.h"
#include "pairwise.h"

enum {
    EDGE = 384, /* rows and columns of a block, which stays in L2: 512 is as fast in f32, 1.4 times
                   slower in f64, 1024 1.5 and 2.2 times slower (Zen 4, 16 columns of v) */
    CHUNK = 128 /* rows of a product that one thread does */
};

struct matmul_job {
    gram_context *g;
    const struct gram_kernel_matmul_op *op;
    struct gram_cdist_op kernel; /* of the item */
    struct gram_view v, out;     /* of the item */
    bool symmetric;
    int64_t edge; /* rows and columns of a whole block */
    int64_t element;
    /* Scratch: the block, rows of v that BLAS cannot read in place, the product, and what the
     * kernel takes itself. */
    char *block, *v_rows, *product, *inner;
    size_t inner_bytes;
    /* Rows [i, i + rows) and columns [j, j + cols) of K. */
    int64_t i, rows, j, cols;
    bool transposed;           /* the block's transpose is at work */
    struct gram_blas_matrix b; /* its rows of v */
};

/* The block as a kernel of its own, with its result in scratch. */
static struct gram_cdist_op block_of(const struct matmul_job *job)
{
    struct gram_cdist_op op = job->kernel;

    op.symmetric = job->symmetric && job->i == job->j;
    op.row_offset += job->i;
    op.column_offset += job->j;
    op.x = gram_view_rows(&op.x, job->i, job->rows);
    op.y = gram_view_rows(&op.y, job->j, job->cols);
    op.out = gram_view_dense(job->block, job->out.dtype, job->rows, job->cols);
    return op;
}

/* Finds the scratch of the kernels of all shapes of blocks. */
static gram_status measure_kernels(struct matmul_job *of)
{
    struct matmul_job job = *of;
    int64_t m = job.out.rows, n = job.v.rows;
    const int64_t rows[] = {gram_least(m, job.edge), m % job.edge},
                  cols[] = {gram_least(n, job.edge), n % job.edge};

    for (int i = 0; i < 8; i++) {
        struct gram_cdist_op op;
        size_t bytes;
        job.rows = rows[i & 1], job.cols = cols[i >> 1 & 1];
        job.i = 0, job.j = i >> 2; /* on the diagonal, and not */
        op = block_of(&job);
        if (op.symmetric && job.rows != job.cols)
            continue;
        TRY(gram_measure(job.g, &bytes, cpu_cdist(job.g, &op)));
        of->inner_bytes = gram_most_bytes(of->inner_bytes, bytes);
    }
    return GRAM_OK;
}

static void set_item(struct matmul_job *job, int64_t item)
{
    const struct gram_batch *batch = &job->op->kernel.batch;

    job->kernel = gram_cdist_alone(&job->op->kernel, item);
    job->v = gram_view_alone(&job->op->v, batch, item);
    job->out = gram_view_alone(&job->op->out, batch, item);
}

static gram_status open_job(gram_context *g, const struct gram_kernel_matmul_op *op,
                            struct matmul_job *job)
{
    const int64_t rows = gram_least(op->out.rows, EDGE), cols = gram_least(op->v.rows, EDGE);
    struct gram_layout layout = {0};
    size_t element, row_bytes;

    *job = (struct matmul_job){
        .g = g,
        .op = op,
        .symmetric = gram_cdist_mirrors(&op->kernel),
        .element = (int64_t)gram_dtype_size(op->out.dtype),
        .edge = EDGE,
    };
    set_item(job, 0);
    TRY(measure_kernels(job));
    element = (size_t)job->element;
    row_bytes = (size_t)gram_most(rows, cols) * (size_t)op->v.cols * element;
    gram_take(&layout, &job->block, (size_t)(rows * cols) * element);
    gram_take(&layout, &job->v_rows, row_bytes);
    gram_take(&layout, &job->product, row_bytes);
    gram_take(&layout, &job->inner, job->inner_bytes);
    return gram_layout_open(g, &layout);
}

static void copy_element(const struct matmul_job *job, char *to, const char *from)
{
    if (job->element == sizeof(float))
        *(float *)to = *(const float *)from;
    else
        *(double *)to = *(const double *)from;
}

/* Rows [first, first + rows) of v as BLAS reads them: where they are if a stride is 1, else
 * copied. */
static struct gram_blas_matrix operand(const struct matmul_job *job, int64_t first, int64_t rows)
{
    const struct gram_view *v = &job->v;
    const char *data = v->data + first * v->row_stride * job->element;
    char *to = job->v_rows;

    if (v->row_stride == 1 && v->col_stride >= rows && gram_blas_fits(v->col_stride, 0, 0))
        return (struct gram_blas_matrix){data, v->col_stride, false};
    if (v->col_stride == 1 && v->row_stride >= v->cols && gram_blas_fits(v->row_stride, 0, 0) &&
        v->cols > 1)
        return (struct gram_blas_matrix){data, v->row_stride, true};
    for (int64_t c = 0; c < v->cols; c++)
        for (int64_t r = 0; r < rows; r++)
            copy_element(job, to + (c * rows + r) * job->element,
                         data + (r * v->row_stride + c * v->col_stride) * job->element);
    return (struct gram_blas_matrix){to, rows, false};
}

/* A chunk of the rows of the product of the block, or of its transpose, added to out. */
static void multiply_chunk(void *arg, int64_t index, int thread)
{
    const struct matmul_job *job = arg;
    const struct gram_view *out = &job->out;
    int64_t all = job->transposed ? job->cols : job->rows,
            terms = job->transposed ? job->rows : job->cols;
    int64_t first = index * CHUNK, rows = gram_least(CHUNK, all - first), columns = job->v.cols;
    int64_t step = job->transposed ? 1 : job->cols, origin = job->transposed ? job->j : job->i;
    const struct gram_blas_matrix a = {job->block + first * step * job->element, job->cols,
                                       !job->transposed};
    char *product = job->product + first * columns * job->element;
    char *to = out->data + (origin + first) * out->row_stride * job->element;

    (void)thread;
    gram_blas_gemm(out->dtype, (int64_t[3]){rows, columns, terms}, 1, a, job->b, 0, product, rows);
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++) {
            char *at = to + (r * out->row_stride + c * out->col_stride) * job->element;
            const char *from = product + (c * rows + r) * job->element;
            if (job->element == sizeof(float))
                *(float *)at += *(const float *)from;
            else
                *(double *)at += *(const double *)from;
        }
}

static void multiply(struct matmul_job *job, bool transposed)
{
    job->transposed = transposed;
    job->b = transposed ? operand(job, job->i, job->rows) : operand(job, job->j, job->cols);
    gram_blas_for(job->g, gram_ceil_div(transposed ? job->cols : job->rows, CHUNK), multiply_chunk,
                  job);
}

static gram_status run_block(struct matmul_job *job)
{
    const struct gram_cdist_op op = block_of(job);

    TRY(cpu_cdist_in(job->g, &op, job->inner, job->inner_bytes));
    multiply(job, false);
    if (job->symmetric && job->i != job->j)
        multiply(job, true);
    return GRAM_OK;
}

static void zero(const struct matmul_job *job)
{
    static const double nothing = 0;
    const struct gram_view *out = &job->out;

    for (int64_t r = 0; r < out->rows; r++)
        for (int64_t c = 0; c < out->cols; c++)
            copy_element(job,
                         out->data + (r * out->row_stride + c * out->col_stride) * job->element,
                         (const char *)&nothing);
}

/* The blocks of the parts take turns. */
static bool is_mine(const struct matmul_job *job, int64_t block)
{
    return job->op->parts <= 1 || block % job->op->parts == job->op->part;
}

static gram_status run_item(struct matmul_job *job)
{
    int64_t m = job->out.rows, n = job->v.rows, block = 0;

    for (job->i = 0; job->i < m; job->i += job->edge) {
        job->rows = gram_least(job->edge, m - job->i);
        for (job->j = job->symmetric ? job->i : 0; job->j < n; job->j += job->edge) {
            job->cols = gram_least(job->edge, n - job->j);
            if (gram_cancelled(job->g))
                return gram_fail(job->g, GRAM_CANCELLED, "cancelled");
            if (is_mine(job, block++))
                TRY(run_block(job));
        }
    }
    return GRAM_OK;
}

gram_status cpu_kernel_matmul_blocks(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    struct matmul_job job;

    TRY(open_job(g, op, &job));
    for (int64_t item = 0; item < op->kernel.batch.count; item++) {
        set_item(&job, item);
        if (!op->accumulate)
            zero(&job);
        TRY(run_item(&job));
    }
    return GRAM_OK;
}
