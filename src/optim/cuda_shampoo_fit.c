/*
 * cuda_shampoo_fit.c - does a root that was taken earlier still fit its factor? (options.skip)
 *
 * |X^(q/2) (L + ridge I)^k X^(q/2) - I| of all items of a batch by products of cuBLAS; kept says on
 * the device what came of it, and optimizer_store_roots heeds it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_optimizer.h"

static const struct cuda_kernel optimizer_unpack_items = {"optimizer_matrix.cu",
                                                          "optimizer_unpack_items"};
static const struct cuda_kernel shampoo_fits = {"shampoo.cu", "shampoo_fits"};
static const struct cuda_kernel shampoo_largest = {"shampoo.cu", "shampoo_largest"};
static const struct cuda_kernel shampoo_shift = {"shampoo.cu", "shampoo_shift"};

enum {
    SQUARES = 4, /* matrices of an item: shifted, root, and two that products go to in turn */
    MOST_BLOCKS = 1 << 16
};

struct run {
    const struct cuda_optimizer_job *job;
    const struct cuda_optimizer_kind *kind;
    struct shampoo_fit fit;
};

size_t cuda_shampoo_fit_bytes(const struct cuda_optimizer_kind *kind, int64_t n, int64_t items)
{
    const size_t size = gram_dtype_size(kind->work), count = (size_t)items;

    return SQUARES * gram_round64(count * (size_t)(n * n) * size) +
           gram_round64(2 * count * (size_t)n * size) + gram_round64(count * sizeof(double)) +
           CUDA_BLAS_BYTES;
}

static gram_status multiply(const struct run *run, const struct cuda_blas *blas, const char *a,
                            const char *b, char *to)
{
    const int64_t n = run->fit.n;
    struct cuda_gemm gemm = {
        .dtype = run->kind->work,
        .compute = gram_cuda_compute_of(run->kind->work),
        .n = n,
        .ld = n,
        .count = run->fit.items,
        .a = a,
        .b = b,
        .alpha = 1,
    };

    gemm.c = to;
    return gram_cuda_gemm(run->job->g, blas, &gemm);
}

static gram_status launch(struct run *run, const struct cuda_kernel *kernel, int64_t blocks)
{
    return cuda_optimizer_launch(run->job, run->kind->work, kernel, blocks, &run->fit);
}

/* y = X^(q/2) (L + ridge I)^k X^(q/2), but for the order of the factors, which commute. */
static gram_status make_product(struct run *run, const struct cuda_blas *blas, const char *root,
                                char *y, char *z)
{
    const struct gram_optimizer_block *b = run->kind->block;
    const char *shifted = run->fit.matrix, *at = shifted;
    char *other;

    for (int i = 1; i < b->numerator; i++, at = z, other = y, y = z, z = other)
        TRY(multiply(run, blas, shifted, at, z));
    for (int i = 0; i < b->denominator; i++, at = z, other = y, y = z, z = other)
        TRY(multiply(run, blas, i % 2 ? at : root, i % 2 ? root : at, z));
    run->fit.matrix = y;
    return GRAM_OK;
}

gram_status cuda_shampoo_fit(const struct cuda_optimizer_job *job,
                             const struct cuda_optimizer_kind *kind,
                             const struct optimizer_roots *r, char *memory)
{
    const gram_optimizer_options *o = &job->o->options;
    const int64_t n = r->a.n, all = r->items * n * n;
    const size_t size = gram_dtype_size(kind->work), matrix = gram_round64((size_t)all * size);
    char *root = memory + matrix, *vectors = memory + SQUARES * matrix;
    char *largest = vectors + gram_round64((size_t)(2 * r->items * n) * size);
    const struct gram_matrix_power_op op =
        gram_optimizer_power(job->o, kind->block, n, kind->work, r->items);
    struct run run = {
        .job = job,
        .kind = kind,
        .fit = {.n = n,
                .items = r->items,
                .factor = r->a.matrix,
                .matrix = memory,
                .vectors = vectors,
                .largest = (double *)(void *)largest,
                .kept = r->kept,
                .epsilon = o->epsilon,
                .relative = o->epsilon_relative != 0,
                .least = cuda_matrix_power_least_ridge(job->g, &op),
                .skip = o->skip},
    };
    struct optimizer_roots roots = *r;
    struct cuda_blas *blas;

    roots.a.is_root = 1;
    roots.a.matrix = root;
    TRY(gram_cuda_blas(job->g, largest + gram_round64((size_t)r->items * sizeof(double)), &blas));
    TRY(cuda_optimizer_launch(job, kind->work, &optimizer_unpack_items,
                              r->items * cuda_optimizer_pairs(n), &roots));
    TRY(launch(&run, &shampoo_largest, r->items));
    TRY(launch(&run, &shampoo_shift,
               gram_least(gram_ceil_div(all, OPTIMIZER_THREADS), MOST_BLOCKS)));
    TRY(make_product(&run, blas, root, memory + 2 * matrix, memory + 3 * matrix));
    return launch(&run, &shampoo_fits, r->items);
}
