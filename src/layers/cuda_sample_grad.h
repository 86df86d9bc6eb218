/*
 * cuda_sample_grad.h - how the files of gram_sample_grad on the device divide the work
 *
 * First every sample is dealt with for itself: its gradient goes to where it is wanted and the
 * squares of its parts to a table in scratch, in places of their own.  From these one kernel makes
 * norms and the factors of the samples, and with them the sums are made, in parts that are added in
 * order: results do not depend on what runs when.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_SAMPLE_GRAD_H
#define GRAM_CUDA_SAMPLE_GRAD_H
#include "cuda/cuda_ops.h"
#include "layer.h"
#include "sample_params.h"

/* Sums over the positions of all samples in `count` parts of `length` positions. */
struct cuda_sample_parts {
    int64_t count, length;
};

struct cuda_sample_job {
    gram_context *g;
    const struct gram_sample_grad_op *op;
    bool each, squares, sums; /* what is wanted: something of each sample; its norm; sums */
    bool ghost, mma;          /* norms without gradients; tiles by tensor cores */
    int64_t product_squares, row_squares; /* of a sample: of its weight's tiles; of its rows */
    struct cuda_sample_parts product_parts, row_parts;
    int64_t span; /* positions of an embedding that are linked for sums */
    size_t squares_at, factors_at, moments_at, partial_at[2], head_at, next_at, bytes;
    struct sample_params params;
    char *scratch;
};

/* One family of layers: sizes in a job, the samples, the sums. */
struct cuda_sample_family {
    void (*plan)(struct cuda_sample_job *job);
    gram_status (*each)(struct cuda_sample_job *job);
    gram_status (*sums)(struct cuda_sample_job *job);
};

extern const struct cuda_sample_family cuda_sample_products, cuda_sample_affine, cuda_sample_table;

/* Queues a kernel of `blocks` blocks with the job's parameters. */
gram_status cuda_sample_launch(struct cuda_sample_job *job, enum cuda_variant_file kernel,
                               struct sample_params *p, int64_t blocks);
/* An output for kernels, and none. */
struct sample_output cuda_sample_output(const struct gram_layer_output *out);
/* How to cut sums so that `tiles` blocks a part fill the device. */
struct cuda_sample_parts cuda_sample_cut(const struct cuda_sample_job *job, int64_t tiles,
                                         int64_t least);
/* Blocks of sample_affine and their launches: biases, or all of a normalisation. */
int64_t cuda_sample_row_tiles(const struct cuda_sample_job *job);
gram_status cuda_sample_rows_each(struct cuda_sample_job *job);
gram_status cuda_sample_rows_sums(struct cuda_sample_job *job);
/* Adds up the parts of partial[which], rows by cols. */
gram_status cuda_sample_reduce(struct cuda_sample_job *job, int which, int64_t rows, int64_t cols,
                               const struct cuda_sample_parts *parts);
#endif
