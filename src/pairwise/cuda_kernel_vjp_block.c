/*
 * cuda_kernel_vjp_block.c - a block of the kernel matrix as operations of its own
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kernel_vjp.h"

bool cuda_vjp_next(struct vjp_job *job)
{
    struct vjp_block *b = &job->block;
    int64_t m = job->kernel.x.rows, n = job->kernel.y.rows;
    bool first = b->rows == 0 && b->cols == 0;

    if (!first) {
        b->j += b->cols;
        if (b->j >= n)
            b->i += b->rows, b->j = 0;
        if (b->i >= m)
            return false;
    }
    b->rows = m - b->i < job->block_rows ? m - b->i : job->block_rows;
    b->cols = n - b->j < job->block_cols ? n - b->j : job->block_cols;
    return b->rows > 0 || b->cols > 0; /* once without rows or without columns: zeros */
}

/* ---- Parts as operations --------------------------------------------------------------------- */

static struct gram_cdist_grad_op gradient_of(const struct vjp_job *job, bool of_x)
{
    return gram_vjp_gradient(&job->kernel, &job->block, of_x, of_x ? &job->to_x : &job->to_y,
                             job->scratch, job->scratch ? job->scratch + job->constants : NULL);
}

gram_status cuda_vjp_kernel(const struct vjp_job *job, gram_kernel_output output)
{
    const struct gram_cdist_op op =
        gram_vjp_kernel(&job->kernel, &job->block, output, job->scratch);

    return cuda_cdist_queue(job->g, &op);
}

gram_status cuda_vjp_gradients(const struct vjp_job *job)
{
    const struct gram_view *wanted[] = {&job->to_y, &job->to_x};

    for (int of_x = 0; of_x < 2; of_x++) {
        struct gram_cdist_grad_op op = gradient_of(job, of_x);
        bool add = of_x ? job->block.j > 0 : job->block.i > 0;
        struct cuda_grad_plan plan;
        if (!wanted[of_x]->data)
            continue;
        cuda_cdist_grad_plan(&op, add, job->processors, &plan);
        TRY(cuda_cdist_grad_queue(job->g, &plan, job->scratch + job->more));
    }
    return GRAM_OK;
}

size_t cuda_vjp_block_workspace(const struct vjp_job *job, const struct gram_kernel_vjp_op *op)
{
    const bool wanted[] = {op->want_y, op->want_x};
    size_t most = 0;

    for (int of_x = 0; of_x < 2; of_x++) {
        const struct gram_cdist_grad_op grad = gradient_of(job, of_x);
        struct cuda_grad_plan plan;
        cuda_cdist_grad_plan(&grad, false, job->processors, &plan);
        if (wanted[of_x] && plan.bytes > most)
            most = plan.bytes;
    }
    return most;
}
