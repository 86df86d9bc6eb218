/*
 * cpu_kernel_matmul.c - products with kernel matrices on the CPU, a block of the matrix at a time
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
#include "pairwise.h"

enum {
    EDGE = 384, /* rows and columns of a block, which stays in L2: 512 is as fast in f32, 1.4 times
                   slower in f64, 1024 1.5 and 2.2 times slower (Zen 4, 16 columns of v) */
    CHUNK = 128 /* rows of a product that one thread does */
};

struct matmul_job {
    gram_context *g;
    struct gram_cdist_op kernel; /* of the item */
    struct gram_view v, out;     /* of the item */
    bool symmetric;
    int64_t edge; /* rows and columns of a whole block */
    int64_t element;
    /* Scratch: the block, rows of v that BLAS cannot read in place, the product, and what the
     * kernel needs itself. */
    size_t v_at, product_at, more, total;
    char *scratch;
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
    op.out = gram_view_dense(job->scratch, job->out.dtype, job->rows, job->cols);
    return op;
}

/* Scratch of the kernels of all shapes of blocks. */
static size_t kernel_workspace(const struct matmul_job *of)
{
    struct matmul_job job = *of;
    int64_t m = job.out.rows, n = job.v.rows;
    const int64_t rows[] = {gram_least(m, job.edge), m % job.edge},
                  cols[] = {gram_least(n, job.edge), n % job.edge};
    size_t most = 0;

    for (int i = 0; i < 8; i++) {
        struct gram_cdist_op op;
        job.rows = rows[i & 1], job.cols = cols[i >> 1 & 1];
        job.i = 0, job.j = i >> 2; /* on the diagonal, and not */
        op = block_of(&job);
        if (op.symmetric && job.rows != job.cols)
            continue;
        most = gram_most_bytes(most, cpu_cdist_workspace(job.g, &op));
    }
    return most;
}

/* The work of an item, with the layout of scratch, which depends on no item's data. */
static struct matmul_job make_job(const gram_context *g, const struct gram_kernel_matmul_op *op,
                                  int64_t item)
{
    const struct gram_batch *batch = &op->kernel.batch;
    struct matmul_job job = {
        .g = (gram_context *)g,
        .kernel = gram_cdist_alone(&op->kernel, item),
        .v = gram_view_alone(&op->v, batch, item),
        .out = gram_view_alone(&op->out, batch, item),
        .symmetric = gram_cdist_mirrors(&op->kernel),
        .element = (int64_t)gram_dtype_size(op->out.dtype),
        .edge = EDGE,
    };
    int64_t rows = gram_least(job.out.rows, job.edge), cols = gram_least(job.v.rows, job.edge);
    size_t row_bytes = (size_t)(job.v.cols * job.element);

    job.v_at = gram_round64((size_t)(rows * cols * job.element));
    job.product_at = job.v_at + gram_round64((size_t)gram_most(rows, cols) * row_bytes);
    job.more = job.product_at + gram_round64((size_t)gram_most(rows, cols) * row_bytes);
    job.total = job.more + kernel_workspace(&job);
    return job;
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
    char *to = job->scratch + job->v_at;

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
    const struct gram_blas_matrix a = {job->scratch + first * step * job->element, job->cols,
                                       !job->transposed};
    char *product = job->scratch + job->product_at + first * columns * job->element;
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

static void run_block(struct matmul_job *job)
{
    struct gram_cdist_op op = block_of(job);
    struct cdist_plan plan;

    cpu_cdist_plan(job->g, &op, &plan);
    cpu_cdist_run(&plan, job->scratch + job->more);
    multiply(job, false);
    if (job->symmetric && job->i != job->j)
        multiply(job, true);
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

static gram_status run_item(struct matmul_job *job)
{
    int64_t m = job->out.rows, n = job->v.rows;

    for (job->i = 0; job->i < m; job->i += job->edge) {
        job->rows = gram_least(job->edge, m - job->i);
        for (job->j = job->symmetric ? job->i : 0; job->j < n; job->j += job->edge) {
            job->cols = gram_least(job->edge, n - job->j);
            if (gram_cancelled(job->g))
                return gram_fail(job->g, GRAM_CANCELLED, "cancelled");
            run_block(job);
        }
    }
    return GRAM_OK;
}

/* True if out has no elements. */
static bool is_empty(const struct gram_kernel_matmul_op *op)
{
    return op->kernel.batch.count == 0 || op->out.rows == 0 || op->out.cols == 0;
}

size_t cpu_kernel_matmul_workspace(const gram_context *g, const struct gram_kernel_matmul_op *op)
{
    return is_empty(op) ? 0 : make_job(g, op, 0).total;
}

gram_status cpu_kernel_matmul_in(gram_context *g, const struct gram_kernel_matmul_op *op,
                                 void *scratch)
{
    for (int64_t item = 0; !is_empty(op) && item < op->kernel.batch.count; item++) {
        struct matmul_job job = make_job(g, op, item);
        job.scratch = scratch;
        if (!op->accumulate)
            zero(&job);
        TRY(run_item(&job));
    }
    return GRAM_OK;
}

gram_status cpu_kernel_matmul(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    void *scratch;

    TRY(gram_scratch(g, cpu_kernel_matmul_workspace(g, op), &scratch));
    return cpu_kernel_matmul_in(g, op, scratch);
}
