/*
 * kron.h - what the calls on Kronecker products share: their list of factors, and the cut of it
 * that several processes make
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRON_H
#define GRAM_KRON_H
#include "core/backend.h"

/* "factors[3]", in name: for messages. */
enum {
    GRAM_FACTOR_NAME_BYTES = 24
};
const char *gram_factor_name(char name[GRAM_FACTOR_NAME_BYTES], int index);

/* Joins the batch with count factors: 1 to GRAM_MAX_FACTORS matrices of one dtype. */
gram_status gram_factors_join(gram_context *g, struct gram_batch *batch,
                              const gram_tensor *const *factors, int64_t count);

/* Views them along the batch, factor i transposed where transposed has bit i, and gives the product
 * of their rows and of their columns, then. */
gram_status gram_factors_view(gram_context *g, const struct gram_batch *batch,
                              const gram_tensor *const *factors, int64_t count, uint32_t transposed,
                              struct gram_view *views, int64_t size[2]);

/* Refuses an argument that has not the dtype of the factors. */
gram_status gram_factors_dtype(gram_context *g, const char *name, const struct gram_view *v,
                               gram_dtype dtype);

/* Refuses a factor that is not square. */
gram_status gram_factors_square(gram_context *g, const struct gram_view *factors, int count);

/* What gram_kron_matmul is given, and gram_kron_matmul_multi: ranks is 0, or x and y are the part
 * of rank in a split by columns. */
struct gram_kron_args {
    const gram_tensor *x, *const *factors, *y;
    int64_t count;
    int rank, ranks;
};

/* kron_matmul.c: checks everything but the communicator, and describes the product. */
gram_status gram_kron_matmul_describe(gram_context *g, const struct gram_kron_args *args,
                                      const gram_kron_options *options,
                                      struct gram_kron_matmul_op *op);

/* Refuses options.communicator, for calls of one process. */
gram_status gram_kron_check_alone(gram_context *g, const gram_kron_options *options);

/* Refuses an output that overlaps a factor. */
gram_status gram_factors_apart(gram_context *g, const char *out_name, const gram_tensor *out,
                               const gram_tensor *const *factors, int64_t count);

/* ---- kron_matmul_multi.c -------------------------------------------------------------------- */

/* Where the factors are cut, for all ranks alike. */
struct gram_kron_cut {
    int ranks;
    int first;             /* factors of the first group: at least one */
    int64_t in[2], out[2]; /* products of the rows and of the columns of each group */
};

/* A block of indices. */
struct gram_range {
    int64_t first, count;
};

/* Cuts the factors of op; turned: they are still to be transposed. */
void gram_kron_cut(const struct gram_kron_matmul_op *op, bool turned, int ranks,
                   struct gram_kron_cut *cut);

/* Columns of x (sizes is cut->in) or y (cut->out) that a rank has. */
int64_t gram_kron_part_count(const int64_t sizes[2], const struct gram_kron_cut *cut, int rank);
#endif
