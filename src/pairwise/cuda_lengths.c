/*
 * cuda_lengths.c - points divided by lengths, and gradients of lengths, on the device
 *
 * The points of a call are divided in one launch for each side.  Gradients take two: chunks of rows
 * are summed side by side, and then the chunks of each column, in order.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda/device_view.h"
#include "cuda/launch.h"
#include "lengths_params.h"
#include "pairwise.h"

enum {
    THREADS = 256,
    BLOCKS = 8192,     /* of a launch: several rounds of every chip */
    CHUNK_ROWS = 1024, /* of a chunk at least: 128 rounds of a block */
    MOST_CHUNKS = 256, /* of an item, so that a thread can add them up */
};

static const struct cuda_kernel lengths_divide = {"lengths.cu", "lengths_divide"},
                                lengths_sum = {"lengths.cu", "lengths_sum"},
                                lengths_grad = {"lengths.cu", "lengths_grad"};

static struct lengths_batch batch_of(const struct gram_batch *batch, int64_t cols)
{
    struct lengths_batch b = {.items = batch->count, .cols = cols};

    cuda_set_batch(batch, &b.ndim, b.shape);
    return b;
}

static gram_status launch(gram_context *g, const struct cuda_kernel *kernel, gram_dtype dtype,
                          int64_t blocks, void *params)
{
    gram_status status;
    bool entered;

    if (blocks == 0)
        return GRAM_OK;
    entered = gram_cuda_enter(g->device);
    status = cuda_launch_plain(g, kernel, dtype, gram_least(blocks, BLOCKS), THREADS, params);
    gram_cuda_leave(g->device, entered);
    return status;
}

/* ---- Quotients ------------------------------------------------------------------------------ */

gram_status cuda_lengths_divide(gram_context *g, const struct gram_lengths_divide_op *op)
{
    struct lengths_divide_params params = {
        .batch = batch_of(&op->batch, op->in.cols),
        .in = cuda_device_view(&op->in),
        .out = cuda_device_view(&op->out),
        .lengths = cuda_given_view(&op->lengths, op->lengths.data != NULL),
        .centre = cuda_given_view(&op->centre, op->centre.data != NULL),
        .rows = op->in.rows,
        .stored = (long long)op->in.dtype,
    };
    const int64_t elements = op->batch.count * op->in.rows * op->in.cols;

    TRY(gram_cuda_check_pointer(g, op->name, &op->in));
    if (op->centre.data)
        TRY(gram_cuda_check_pointer(g, "y", &op->centre));
    if (op->lengths.data)
        TRY(gram_cuda_check_pointer(g, "options.lengths", &op->lengths));
    return launch(g, &lengths_divide, op->out.dtype, gram_ceil_div(elements, THREADS), &params);
}

/* ---- Gradients ------------------------------------------------------------------------------ */

gram_status cuda_lengths_grad(gram_context *g, const struct gram_lengths_grad_op *op)
{
    const int64_t rows = op->x.rows + op->y.rows, cols = op->out.cols;
    const int64_t chunk = gram_most(CHUNK_ROWS, gram_ceil_div(rows, MOST_CHUNKS));
    const int64_t chunks = gram_ceil_div(rows, chunk), items = op->batch.count;
    struct lengths_grad_params params = {
        .batch = batch_of(&op->batch, cols),
        .x = cuda_device_view(&op->x),
        .to_x = cuda_device_view(&op->to_x),
        .y = cuda_device_view(&op->y),
        .to_y = cuda_device_view(&op->to_y),
        .lengths = cuda_device_view(&op->lengths),
        .out = cuda_device_view(&op->out),
        .x_rows = op->x.rows,
        .y_rows = op->y.rows,
        .chunks = chunks,
        .chunk = chunk,
    };
    struct gram_layout layout = {0};

    TRY(gram_cuda_check_pointer(g, "grads.lengths", &op->out));
    gram_take_many(&layout, &params.parts, (size_t)(items * chunks), (size_t)cols * sizeof(double));
    TRY(gram_layout_open(g, &layout));
    TRY(launch(g, &lengths_sum, op->out.dtype,
               items * chunks * gram_ceil_div(cols, LENGTHS_COLUMNS), &params));
    return launch(g, &lengths_grad, op->out.dtype, gram_ceil_div(items * cols, THREADS), &params);
}
