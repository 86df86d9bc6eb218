/*
 * cuda_ops.h - the operations of the CUDA backend
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_OPS_H
#define GRAM_CUDA_OPS_H
#include "launch.h"

/* The operations of ops.def that a GPU offers. */
#define GRAM_CUDA_BOTH(name, op) gram_status cuda_##name(gram_context *g, const struct op *work);
#define GRAM_CUDA_CUDA(name, op) GRAM_CUDA_BOTH(name, op)
#define GRAM_CUDA_CPU(name, op)
#define GRAM_OP(name, op, devices) GRAM_CUDA_##devices(name, op)
#include "core/ops.def"
#undef GRAM_CUDA_BOTH
#undef GRAM_CUDA_CUDA
#undef GRAM_CUDA_CPU

/* cuda_eigh.c: whether kernels of ours solve eigenproblems of order n; larger ones are
 * cuSOLVER's. */
bool cuda_eigh_is_small(int64_t n);

/* cuda_eigh_multi.c */
gram_status cuda_eigh_multi_workspace(const struct gram_eigh_multi *m, size_t *device_bytes,
                                      size_t *panel_bytes);
gram_status cuda_eigh_multi_solve(struct gram_eigh_multi *m, int64_t item, int *outcome);
gram_status cuda_eigh_multi_store(const struct gram_eigh_multi *m, int64_t item, int64_t first,
                                  int64_t stored);

/* cuda_cdist.c */
/* The same as a part of other operations, in two steps.  The first checks what only the device can
 * know.  The second queues one launch, which takes no scratch, while the device is current. */
gram_status cuda_cdist_check(gram_context *g, const struct gram_cdist_op *op);
gram_status cuda_cdist_queue(gram_context *g, const struct gram_cdist_op *op);
/* What the first refuses whatever the device: an expression with too many constants.  For a context
 * of any device. */
gram_status cuda_cdist_check_expression(gram_context *g, const struct gram_cdist_op *op);

/* cuda_metric.c */
/* Runs the work of a call, in which *kernel stands.  Where its metric wants other rows or weights
 * of its own, they are first written into scratch, and *kernel becomes that of them. */
gram_status cuda_metric_call(gram_context *g, struct gram_cdist_op *kernel,
                             gram_status (*run)(gram_context *g, const void *work),
                             const void *work);

/* cuda_warm.c */
gram_status cuda_warm(gram_context *g, const struct gram_cdist_op *op,
                      const gram_warm_options *options);

/* cuda.c */
gram_status cuda_memory_set_bytes(gram_context *g, void *memory, unsigned char byte, size_t bytes);
gram_status cuda_memory_zero(gram_context *g, void *memory, size_t bytes);
gram_status cuda_memory_copy(gram_context *g, void *to, const void *from, size_t bytes);

/* cuda_kron_plan.c: frees the plans of Kronecker products that a context remembers. */
void cuda_kron_forget(gram_context *g, struct cuda_device *device);

/* cuda_optimizer.c and cuda_optimizer_plan.c */
gram_status cuda_optimizer_open(gram_context *g, gram_optimizer *o);
void cuda_optimizer_close(gram_optimizer *o);

/* cuda_solve.c */

/* cuda_matmul_batched.c */

/* cuda_matmul_chunked.c */

/* cuda_matrix_power.c.  _least_ridge is gram_power_least_ridge for the dtype that the device
 * computes in. */
double cuda_matrix_power_least_ridge(const gram_context *g, const struct gram_matrix_power_op *op);

/* cuda_tune.c: measures all tiles for problems like op. */
gram_status cuda_tune(gram_context *g, const struct gram_cdist_op *op, gram_tuning *result);
/* Measures the milliseconds of a run, after another one that compiles and warms up. */
gram_status cuda_tune_time(gram_context *g, gram_status (*run)(gram_context *g, const void *what),
                           const void *what, double *ms);
/* cuda_kron_matmul.c */
gram_status cuda_tune_kron(gram_context *g, const struct gram_kron_matmul_op *op,
                           gram_kron_tuning *result);
#endif
