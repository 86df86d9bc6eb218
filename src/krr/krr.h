/*
 * krr.h - kernel ridge regression where a context computes: arrays, work on rows, large solves
 *
 * What kernel machines need beside the operations of gram.h, and the only header of this folder
 * that they include.
 *
 *   krr.c               arrays, work on rows, the stored kernel matrix, a solve from end to end
 *   cg.c                preconditioned conjugate gradients
 *   pivoted_cholesky.c  their preconditioner
 *
 * These are written once.  What a device must bring is the table of krr_passes.h: cpu_krr.c and
 * cuda_krr.c.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRR_H
#define GRAM_KRR_H
#include "gram/gram.h"
#include <stdbool.h>

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* An array where a context computes.  On the CPU an array of the host serves as it is; a GPU gets a
 * copy. */
struct krr_array {
    void *data;
    size_t bytes;
    bool own; /* gram_krr_free frees it */
};

/* Memory with undefined contents. */
gram_status gram_krr_allocate(gram_context *g, size_t bytes, struct krr_array *out);
/* An array of the host: itself, or a copy that has arrived when this returns. */
gram_status gram_krr_send(gram_context *g, const void *host, size_t bytes, struct krr_array *out);
/* Copies from the host; the copy has arrived when this returns. */
gram_status gram_krr_store(gram_context *g, void *to, const void *host, size_t bytes);
/* Waits for what is queued, and copies to the host.  Nothing is copied where host is from. */
gram_status gram_krr_fetch(gram_context *g, void *host, const void *from, size_t bytes);
void gram_krr_free(gram_context *g, struct krr_array *a);

/* A row-major matrix on the context's device. */
gram_tensor gram_krr_matrix(const gram_context *g, const void *data, int64_t rows, int64_t cols,
                            gram_dtype dtype);
/* The same, column-major. */
gram_tensor gram_krr_by_columns(const gram_context *g, const void *data, int64_t rows, int64_t cols,
                                gram_dtype dtype);

/* One element of an array of f32 or f64 on the host, as a double. */
static inline double krr_element(gram_dtype dtype, const void *data, int64_t at)
{
    if (dtype == GRAM_F32)
        return (double)((const float *)data)[at];
    return ((const double *)data)[at];
}

static inline void krr_set_element(gram_dtype dtype, void *data, int64_t at, double value)
{
    if (dtype == GRAM_F32)
        ((float *)data)[at] = (float)value;
    else
        ((double *)data)[at] = value;
}

/* ---- Work on rows ---------------------------------------------------------------------------- */

/* All pointers are where the context computes; matrices are row-major without gaps. */

struct krr_map { /* z = x W, rows by width, with sums in f64; z may be x if W is diagonal */
    gram_dtype dtype;
    int64_t rows, width;
    bool full; /* w is width by width; else it is the diagonal of W */
    const double *w;
    const void *x;
    void *z;
};

struct krr_gather { /* out[i] = x[index[i]] */
    gram_dtype dtype;
    int64_t count, width;
    const int64_t *index;
    const void *x;
    void *out;
};

struct krr_combine { /* out[j * ld + i] = sum_k matrix[i][k] alpha[j][k], in f64 */
    gram_dtype dtype;
    int64_t rows, terms, outputs, ld;
    const void *matrix, *alpha; /* matrix: often that of the kernel of points and centres */
    double *out;
    void *scratch; /* of gram_krr_combine_bytes */
};

gram_status gram_krr_map(gram_context *g, const struct krr_map *op);
gram_status gram_krr_gather(gram_context *g, const struct krr_gather *op);
gram_status gram_krr_combine(gram_context *g, const struct krr_combine *op);
/* Bytes of the scratch of a combination of these sizes. */
size_t gram_krr_combine_bytes(const gram_context *g, int64_t rows, int64_t terms, int64_t outputs);
/* matrix[i][i] += add[i]; add is on the host. */
gram_status gram_krr_add_diagonal(gram_context *g, const gram_tensor *matrix, const double *add);
/* The entries of a kernel matrix that are worth computing at a time, enough for the device. */
int64_t gram_krr_block_entries(const gram_context *g);

/* ---- Solves ---------------------------------------------------------------------------------- */

/* The rows that a preconditioner is made of, in the order of its steps. */
struct krr_pivots {
    int64_t *row, *step; /* room for the rank each; step: how many rows it took */
    int64_t rows, steps; /* 0: they are drawn, and noted here; else these are taken */
};

/* (K + diag(ridge)) X = B: K is the kernel matrix of the rows of x. */
struct krr_ranks;

struct krr_system {
    gram_tensor x; /* n by d, row-major, on the context's device */
    const gram_kernel_options *kernel;
    const double *ridge; /* n numbers on the host */
    const void *b;       /* n by columns, column-major, on the host */
    int64_t columns;
    double tolerance;          /* of |B - A X| / |B|, the largest over the columns */
    bool warm;                 /* out comes with a first guess of X, else with anything */
    uint64_t seed;             /* of the preconditioner */
    int64_t rank;              /* of the preconditioner; 0: the one that pays */
    const double *diagonal;    /* of K, on the host; NULL: it is 1 */
    struct krr_pivots *pivots; /* NULL: drawn, and not noted */
    double memory;             /* bytes that K may take; 0: four fifths of what is available */
    struct krr_ranks *ranks;   /* that have the same system, and share what they can; NULL: none */
    /* out = K[:, row], n by count, where the elements of x are somewhere else; NULL: by x. */
    gram_status (*column)(gram_context *g, void *user, const int64_t *row, int64_t count,
                          const gram_tensor *out);
    void *user;
};

struct krr_report {
    double kernel_seconds, solve_seconds;
    int iterations;
    double residual; /* computed afresh at the end */
    bool stored;     /* K was */
};

/* Most rows for which a factorisation is quicker than the preconditioner's construction. */
int64_t gram_krr_dense_rows(const gram_context *g);

/* Solves down to the tolerance, or as far as most iterations and the rounding of the dtype allow:
 * the report says what was reached.  out is n by columns, column-major, where the context computes.
 */
gram_status gram_krr_stored_solve(gram_context *g, const struct krr_system *system, void *out,
                                  struct krr_report *report);
/* The same by all ranks of a communicator, which all have the whole system, and get all of out; K
 * is not stored.  A failure of one is the call's on all of them. */
gram_status gram_krr_stored_solve_ranks(gram_context *g, gram_communicator *c,
                                        const struct krr_system *system, void *out,
                                        struct krr_report *report);
/* Whether a process alone stores K. */
gram_status gram_krr_is_stored(gram_context *g, const struct krr_system *system, bool *stored);
/* The most memory that such a solve takes beyond its data, and without the kernel matrix. */
size_t gram_krr_stored_bytes(const gram_context *g, int64_t n, int64_t columns, gram_dtype dtype);
size_t gram_krr_products_bytes(const gram_context *g, int64_t n, int64_t columns, gram_dtype dtype);
#endif
