/*
 * cuda_syrk_ema.c - gram_syrk_ema on the device: products of cuBLAS in scratch, then one kernel
 * that adds them to the averages
 *
 * What is finite is known to the device alone: syrk_ema_check_finite sums squares, and syrk_ema_add
 * decides.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/scratch.h"
#include "cuda/arena.h"
#include "cuda_matmul.h"

static const struct cuda_kernel syrk_ema_check_finite = {"syrk_ema.cu", "syrk_ema_check_finite"};
static const struct cuda_kernel syrk_ema_add = {"syrk_ema.cu", "syrk_ema_add"};

enum {
    CHUNK_BYTES = 1 << 28,   /* of products and copies: enough to fill any device */
    BLOCK_ELEMENTS = 1 << 13 /* of a block of a pass, at least */
};

struct ema_job {
    struct gram_syrk_ema_op op; /* its batch without 1s */
    struct cuda_matmul_side x;
    int64_t run, chunk;
    /* Scratch, of a chunk of items: copies of x, products, sums of squares, cuBLAS's own. */
    void *packed, *product, *blas_memory;
    double *squares;
    struct ema_params params;
    struct cuda_blas *blas;
};

/* Where x has no rows the averages have no elements, but info may still be wanted. */
static bool is_empty(const struct gram_syrk_ema_op *op)
{
    return op->batch.count == 0 || (op->x.rows == 0 && !op->has_info);
}

/* Where x has no rows info is all there is, and no scratch is needed. */
static gram_status lay_out(gram_context *g, struct ema_job *job)
{
    const struct gram_view *x = &job->op.x;
    size_t size = gram_dtype_size(x->dtype), count;
    size_t copy = job->x.pack ? job->x.item_bytes : 0;
    size_t product = (size_t)x->rows * (size_t)x->rows * size;
    size_t item = copy + product + EMA_PARTS * sizeof(double);
    struct gram_layout layout = {0};

    job->chunk = gram_least(job->run, CHUNK_BYTES / (int64_t)item + 1);
    count = (size_t)job->chunk;
    if (item > SIZE_MAX / 4 / count)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "the size of the products of x overflows");
    if (x->rows > 0) {
        gram_take(&layout, &job->packed, count * copy);
        gram_take(&layout, &job->product, count * product);
        gram_take(&layout, &job->squares, count * EMA_PARTS * sizeof(double));
        gram_take(&layout, &job->blas_memory, CUDA_BLAS_BYTES);
    }
    return gram_layout_open(g, &layout);
}

/* A run is as many of the last dimensions of the batch as lie evenly in x, or all of them where x
 * is packed anyway: it is what one call of cuBLAS can take. */
static gram_status make_job(gram_context *g, const struct gram_syrk_ema_op *op, struct ema_job *job)
{
    struct gram_syrk_ema_op *own = &job->op;
    const struct gram_batch *batch = &own->batch;
    int64_t *const strides[] = {own->x.batch_stride, own->l.batch_stride, own->info.batch_stride,
                                own->beta.tensor.batch_stride, own->alpha.tensor.batch_stride};
    int64_t elements;
    int d;

    *job = (struct ema_job){.op = *op};
    if (op->x.rows > INT32_MAX || op->x.cols > INT32_MAX ||
        __builtin_mul_overflow(op->x.rows, gram_most(op->x.rows, op->x.cols), &elements) ||
        elements > INT64_MAX / 64)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "x is %lld by %lld, but cuBLAS takes sizes of at most %d",
                         (long long)op->x.rows, (long long)op->x.cols, INT32_MAX);
    cuda_matmul_squeeze(&own->batch, strides, sizeof strides / sizeof *strides);
    job->x = cuda_matmul_side_of(&own->x);
    d = batch->ndim > 0 ? batch->ndim - 1 : 0;
    while (d > 0 && (job->x.pack || cuda_matmul_even(batch, own->x.batch_stride, d - 1)))
        d--;
    job->run = 1;
    for (int i = d; i < batch->ndim; i++)
        job->run *= batch->shape[i];
    return GRAM_OK;
}

/* The kernels write info where they read other numbers of an item, so that one description
 * serves. */
static struct device_number info_of(const struct gram_syrk_ema_op *op)
{
    struct device_number number = {.data = op->has_info ? op->info.data : NULL};

    for (int d = 0; d < GRAM_MAX_DIMS; d++)
        number.batch_stride[d] = op->info.batch_stride[d];
    return number;
}

/* Blocks are few enough that each has work, and many enough that one large matrix fills the
 * device. */
static void fill_params(struct ema_job *job)
{
    const struct gram_syrk_ema_op *op = &job->op;
    struct ema_params *p = &job->params;
    int64_t most = gram_most(op->x.rows, op->x.cols) * op->x.rows;

    *p = (struct ema_params){
        .ndim = op->batch.ndim,
        .rows = op->x.rows,
        .cols = op->x.cols,
        .x = cuda_device_view(&op->x),
        .l = cuda_device_view(&op->l),
        .info = info_of(op),
        .beta = cuda_device_number(&op->beta),
        .alpha = cuda_device_number(&op->alpha),
        .sum = op->sum,
        .packed = op->packed,
        .keep = op->keep,
        .checked = op->x.rows > 0 && (op->keep || op->has_info),
        .squares = job->squares,
        .product = op->x.cols > 0 ? job->product : NULL,
    };
    for (int d = 0; d < op->batch.ndim; d++)
        p->shape[d] = op->batch.shape[d];
    p->parts = gram_most(1, gram_least(EMA_PARTS, gram_ceil_div(most, BLOCK_ELEMENTS)));
    p->blocks = gram_most(1, gram_ceil_div(op->x.rows * op->x.rows, BLOCK_ELEMENTS));
}

/* The products x x^T of the items, whole: syrk of cuBLAS takes no batches. */
static gram_status multiply(gram_context *g, const struct ema_job *job, int64_t first,
                            int64_t count)
{
    const struct gram_syrk_ema_op *op = &job->op;
    const struct cuda_gemm_side x = cuda_matmul_operand(&job->x, &op->batch, first);
    struct cuda_gemm_items gemm = {
        .dtype = op->x.dtype,
        .compute = gram_cuda_compute_of(op->x.dtype),
        .m = op->x.rows,
        .n = op->x.rows,
        .k = op->x.cols,
        .count = count,
        .a = x,
        .b = x,
        .c = job->product,
        .ldc = op->x.rows,
        .stride_c = op->x.rows * op->x.rows,
        .alpha = 1,
    };

    gemm.a.transposed = !x.transposed;
    return gram_cuda_gemm_items(g, job->blas, &gemm);
}

/* The squares come first, since syrk_ema_add leaves an item alone whose x is not finite. */
static gram_status run_piece(gram_context *g, struct ema_job *job, int64_t first, int64_t count)
{
    const struct gram_syrk_ema_op *op = &job->op;
    struct ema_params *p = &job->params;

    p->begin = first;
    p->count = count;
    if (p->checked)
        TRY(cuda_launch_plain(g, &syrk_ema_check_finite, op->x.dtype, count * p->parts, EMA_THREADS,
                              p));
    if (op->x.rows > 0 && op->x.cols > 0) {
        TRY(cuda_matmul_pack(g, &job->x, &op->batch, first, count));
        TRY(multiply(g, job, first, count));
    }
    return cuda_launch_plain(g, &syrk_ema_add, op->x.dtype, count * p->blocks, EMA_THREADS, p);
}

static gram_status run(gram_context *g, struct ema_job *job)
{
    TRY(lay_out(g, job));
    job->x.packed = job->packed;
    fill_params(job);
    if (job->op.x.rows > 0)
        TRY(gram_cuda_blas(g, job->blas_memory, &job->blas));
    for (int64_t begin = 0; begin < job->op.batch.count; begin += job->run)
        for (int64_t first = 0; first < job->run; first += job->chunk)
            TRY(run_piece(g, job, begin + first, gram_least(job->chunk, job->run - first)));
    return GRAM_OK;
}

gram_status cuda_syrk_ema(gram_context *g, const struct gram_syrk_ema_op *op)
{
    struct ema_job job;
    gram_status status;
    bool entered;

    if (is_empty(op))
        return GRAM_OK;
    if (op->x.cols > 0)
        TRY(gram_cuda_check_pointer(g, "x", &op->x));
    TRY(gram_cuda_check_pointer(g, "l", &op->l));
    if (op->has_info)
        TRY(gram_cuda_check_pointer(g, "info", &op->info));
    TRY(gram_cuda_check_pointer(g, "options.beta", &op->beta.tensor));
    TRY(gram_cuda_check_pointer(g, "options.alpha", &op->alpha.tensor));
    TRY(make_job(g, op, &job));
    entered = gram_cuda_enter(g->device);
    status = run(g, &job);
    gram_cuda_leave(g->device, entered);
    return status;
}
