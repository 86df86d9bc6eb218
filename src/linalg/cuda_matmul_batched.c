/*
 * cuda_matmul_batched.c - gram_matmul_batched on the device: products of cuBLAS, runs of items each
 *
 * cuBLAS is column-major: a row-major out is its transpose there, out^T = b^T a^T.  A run is as
 * many of the last dimensions of the batch as lie evenly in all operands.  What has no unit stride
 * is packed, and so is everything where runs would be many and short.  alpha and beta that are
 * tensors are the device's to read: the product then goes to scratch first.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/scratch.h"
#include "cuda/arena.h"
#include "cuda_matmul.h"

enum {
    MOST_RUNS = 64,
    CHUNK_BYTES = 1 << 28 /* of copies: enough to fill any device */
};

struct matmul_job {
    struct gram_matmul_batched_op op; /* out by rows where it can be, its batch without 1s */
    struct cuda_matmul_side a, b;
    bool combine;       /* out is made of a product in scratch */
    int64_t run, chunk; /* items of a run; items of a call of cuBLAS */
    /* Scratch, of the items of a call of cuBLAS: copies of a and b, products, cuBLAS's own. */
    void *packed_a, *packed_b, *product, *blas_memory;
    struct cuda_blas *blas;
};

/* True if items lie evenly from dimension d on, in every operand that is used where it lies. */
static bool is_even(const struct matmul_job *job, int d)
{
    const struct gram_matmul_batched_op *op = &job->op;

    return (job->a.pack || cuda_matmul_even(&op->batch, op->a.batch_stride, d)) &&
           (job->b.pack || cuda_matmul_even(&op->batch, op->b.batch_stride, d)) &&
           (job->combine || cuda_matmul_even(&op->batch, op->out.batch_stride, d));
}

/* Each run is a call of cuBLAS.  Where there would be many short ones, packing everything costs
 * less than launching them. */
static void choose_runs(struct matmul_job *job)
{
    const struct gram_batch *batch = &job->op.batch;
    int d = batch->ndim > 0 ? batch->ndim - 1 : 0;

    while (d > 0 && is_even(job, d - 1))
        d--;
    job->run = 1;
    for (int i = d; i < batch->ndim; i++)
        job->run *= batch->shape[i];
    if (batch->count / job->run <= MOST_RUNS)
        return;
    job->a.pack = job->b.pack = job->combine = true;
    job->run = batch->count;
}

/* Copies are made of a chunk of a run at a time, so that scratch does not grow with the batch. */
static gram_status lay_out(gram_context *g, struct matmul_job *job)
{
    const size_t out =
        (size_t)job->op.out.rows * (size_t)job->op.out.cols * gram_dtype_size(job->op.out.dtype);
    size_t a = job->a.pack ? job->a.item_bytes : 0, b = job->b.pack ? job->b.item_bytes : 0;
    size_t item = a + b + (job->combine ? out : 0), count;
    struct gram_layout layout = {0};

    job->chunk = gram_least(job->run, INT32_MAX);
    if (item > 0)
        job->chunk = gram_least(job->chunk, CHUNK_BYTES / (int64_t)item + 1);
    count = (size_t)job->chunk;
    if (item > SIZE_MAX / 4 / count)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "the size of the copies of a, b and out overflows");
    gram_take(&layout, &job->packed_a, count * a);
    gram_take(&layout, &job->packed_b, count * b);
    gram_take(&layout, &job->product, job->combine ? count * out : 0);
    gram_take(&layout, &job->blas_memory, CUDA_BLAS_BYTES);
    return gram_layout_open(g, &layout);
}

/* Of any operand the elements, so that bytes can be counted. */
static bool fits(const struct gram_view *v)
{
    int64_t count;

    return v->rows <= INT32_MAX && v->cols <= INT32_MAX &&
           !__builtin_mul_overflow(v->rows, v->cols, &count) && count < INT64_MAX / 64;
}

/* cuBLAS counts sizes in 32 bits, and reads numbers from the host alone: both decide here what goes
 * to it directly. */
static gram_status make_job(gram_context *g, const struct gram_matmul_batched_op *op,
                            struct matmul_job *job)
{
    struct gram_matmul_batched_op *own = &job->op;
    int64_t *const strides[] = {own->a.batch_stride,
                                own->b.batch_stride,
                                own->c.batch_stride,
                                own->out.batch_stride,
                                own->alpha.tensor.batch_stride,
                                own->beta.tensor.batch_stride};

    *job = (struct matmul_job){.op = *op};
    if (!fits(&op->a) || !fits(&op->b) || !fits(&op->out))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "a is %lld by %lld and b is %lld by %lld, but cuBLAS takes sizes of at "
                         "most %d",
                         (long long)op->a.rows, (long long)op->a.cols, (long long)op->b.rows,
                         (long long)op->b.cols, INT32_MAX);
    if (!gram_blas_by_rows(&own->out) && gram_blas_direct(&own->out))
        gram_matmul_transpose(own);
    cuda_matmul_squeeze(&own->batch, strides, sizeof strides / sizeof *strides);
    job->a = cuda_matmul_side_of(&own->a);
    job->b = cuda_matmul_side_of(&own->b);
    job->combine = own->alpha.tensor.data || own->beta.tensor.data || own->a.cols == 0 ||
                   !gram_blas_by_rows(&own->out) || !gram_blas_direct(&own->out);
    choose_runs(job);
    return GRAM_OK;
}

/* out = alpha from + beta c of items; from NULL: c alone. */
static gram_status finish(gram_context *g, const struct matmul_job *job, char *from, int64_t first,
                          int64_t count)
{
    const struct gram_matmul_batched_op *op = &job->op;
    const struct gram_view dense = gram_view_dense(from, op->out.dtype, op->out.rows, op->out.cols);
    struct move_params params = {
        .begin = first,
        .count = count,
        .rows = op->out.rows,
        .cols = op->out.cols,
        .to = {cuda_device_view(&op->out),                           0},
        .from = {  cuda_device_view(&dense), op->out.rows * op->out.cols},
        .alpha = cuda_device_number(&op->alpha),
        .beta = cuda_device_number(&op->beta),
    };

    if (op->has_c)
        params.c.view = cuda_device_view(&op->c);
    if (!job->combine)
        params.beta = (struct device_number){.value = 1};
    return cuda_move(g, op->out.dtype, &op->batch, &params);
}

/* One call of cuBLAS, in which a and b are exchanged since it sees transposes. */
static gram_status multiply(gram_context *g, const struct matmul_job *job, int64_t first,
                            int64_t count, char *product)
{
    const struct gram_matmul_batched_op *op = &job->op;
    const struct gram_view *out = &op->out;
    const int last = op->batch.ndim - 1;
    struct cuda_gemm_items gemm = {
        .dtype = out->dtype,
        .compute = gram_cuda_compute_of(out->dtype),
        .m = out->cols,
        .n = out->rows,
        .k = op->a.cols,
        .count = count,
        .a = cuda_matmul_operand(&job->b, &op->batch, first),
        .b = cuda_matmul_operand(&job->a, &op->batch, first),
        .alpha = 1,
    };

    if (job->combine) {
        gemm.c = product;
        gemm.ldc = out->cols;
        gemm.stride_c = out->rows * out->cols;
    } else {
        gemm.c = gram_view_item(out, &op->batch, first);
        gemm.ldc = out->rows == 1 ? out->cols : out->row_stride;
        gemm.stride_c = last >= 0 ? out->batch_stride[last] : 0;
        gemm.alpha = op->alpha.value;
        gemm.beta = op->has_c ? op->beta.value : 0;
    }
    return gram_cuda_gemm_items(g, job->blas, &gemm);
}

/* Items that lie evenly, as many as are packed at a time. */
static gram_status run_piece(gram_context *g, const struct matmul_job *job, int64_t first,
                             int64_t count)
{
    const struct gram_matmul_batched_op *op = &job->op;
    char *product = job->product;

    if (op->a.cols == 0)
        return finish(g, job, NULL, first, count);
    TRY(cuda_matmul_pack(g, &job->a, &op->batch, first, count));
    TRY(cuda_matmul_pack(g, &job->b, &op->batch, first, count));
    if (!job->combine && op->has_c && !op->c_is_out)
        TRY(finish(g, job, NULL, first, count));
    TRY(multiply(g, job, first, count, product));
    return job->combine ? finish(g, job, product, first, count) : GRAM_OK;
}

static gram_status run(gram_context *g, struct matmul_job *job)
{
    TRY(lay_out(g, job));
    job->a.packed = job->packed_a;
    job->b.packed = job->packed_b;
    TRY(gram_cuda_blas(g, job->blas_memory, &job->blas));
    for (int64_t begin = 0; begin < job->op.batch.count; begin += job->run)
        for (int64_t first = 0; first < job->run; first += job->chunk)
            TRY(run_piece(g, job, begin + first, gram_least(job->chunk, job->run - first)));
    return GRAM_OK;
}

gram_status cuda_matmul_batched(gram_context *g, const struct gram_matmul_batched_op *op)
{
    struct matmul_job job;
    gram_status status;
    bool entered;

    if (gram_matmul_is_empty(op))
        return GRAM_OK;
    if (op->a.cols > 0) {
        TRY(gram_cuda_check_pointer(g, "a", &op->a));
        TRY(gram_cuda_check_pointer(g, "b", &op->b));
    }
    TRY(gram_cuda_check_pointer(g, "out", &op->out));
    if (op->has_c)
        TRY(gram_cuda_check_pointer(g, "options.c", &op->c));
    TRY(gram_cuda_check_pointer(g, "options.alpha", &op->alpha.tensor));
    TRY(gram_cuda_check_pointer(g, "options.beta", &op->beta.tensor));
    TRY(make_job(g, op, &job));
    entered = gram_cuda_enter(g->device);
    status = run(g, &job);
    gram_cuda_leave(g->device, entered);
    return status;
}
