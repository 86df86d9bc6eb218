/*
 * gram.h - the public API of libgram: Gram matrices built, differentiated, multiplied and solved
 *
 * The table shows what each header is for, and a function to begin with:
 *
 *   distances between the rows of two matrices       pairwise.h   gram_cdist
 *   a kernel matrix, also by a formula of your own   pairwise.h   gram_kernel
 *   a product with a kernel matrix, never stored     pairwise.h   gram_kernel_matmul
 *   the gradient of a kernel matrix                  pairwise.h   gram_kernel_vjp
 *   the gradient and AGOP of a kernel machine        pairwise.h   gram_cdist_grad, gram_agop
 *   a bandwidth from the data                        pairwise.h   gram_median_distance
 *   linear systems, definite or general              linalg.h     gram_solve_cholesky, _lu
 *   products of batches, or larger than the GPU      linalg.h     gram_matmul_batched, _chunked
 *   a running average of X X^T                       linalg.h     gram_syrk_ema
 *   A^(-1/2), A^(-1/4) and other powers              linalg.h     gram_matrix_power
 *   eigenvalues, some or all, of a matrix            eigh.h       gram_eigh
 *   those of an operator or a kernel                 eigh.h       gram_eigh_operator, _kernel
 *   solves by products alone, log-determinants       operator.h   gram_solve_operator
 *   a Kronecker product, multiplied by               kron.h       gram_kron_matmul, _vjp
 *   its inverse, determinant, trace, diagonal        kron.h       gram_kron_solve, _logdet
 *   the gradient of every sample of a layer          layers.h     gram_sample_grad
 *   natural gradients, K-FAC and EKFAC               layers.h     gram_kfac_create
 *   Shampoo, SOAP or Muon                            optimizer.h  gram_optimizer_create
 *   a model of a table, trained and applied          machine.h    gram_machine_fit
 *   leave-one-out errors of a path of ridges         krr.h        gram_krr_path
 *   kernel ridge regression of many rows             krr.h        gram_krr_solve
 *   its rows from an Arrow stream                    krr.h        gram_rows_from_arrow
 *   variances of Gaussian processes                  krr.h        gram_krr_variance
 *   draws of Gaussian processes                      krr.h        gram_krr_samples
 *   a context, a tensor, the message of an error     core.h       gram_context_create
 *   memory of a GPU, kernels compiled ahead, tuning  device.h     gram_memory_allocate, gram_tune
 *   lists of matrices; several GPUs, MPI, NCCL       multi.h      gram_eigh_many
 *
 * This header includes all of them.  A program that needs only one may include that one alone.
 *
 * Every call takes a context and returns a status.  It borrows its tensors for the duration of the
 * call; on an asynchronous device, until the context's stream is synchronised.  After a failure,
 * gram_message() names the function, the argument, the value that was passed and the value that was
 * expected.  A required argument that is NULL, the context included, gives GRAM_INVALID_ARGUMENT.
 * The library never aborts, never exits, installs no signal handler and does not change the
 * floating-point modes.  It prints nothing except the log that GRAM_LOG=debug requests, which goes
 * to standard error.
 *
 * Outputs of a call that fails: GRAM_INVALID_ARGUMENT, GRAM_UNSUPPORTED and GRAM_OUT_OF_MEMORY
 * leave them unchanged.  Some operations take an info tensor (solves, eigh, matrix_power,
 * krr_path, kron_solve, natural_gradient).  When such an operation returns GRAM_NUMERICAL, its
 * outputs are those that the same call writes when it is given info: every item is written, items
 * that failed are NaN (unless an option such as options.keep says otherwise), and the other items
 * are correct.
 * An argument that is solved in place is therefore overwritten.  GRAM_NUMERICAL from an optimizer
 * or from K-FAC means that nothing was changed.  In a call on a list of matrices (gram_eigh_many),
 * each matrix has the outputs that a call of its own would give.  After GRAM_DEVICE_FAILED, outputs
 * are undefined.
 *
 * Threads: a context serves one thread at a time.  Different contexts are independent, and share
 * nothing else.
 *
 * fork(): a child may use and destroy its parent's CPU contexts if no other thread of the parent
 * was in a call with them.  A child may always create contexts of its own, whatever other threads
 * of the parent were doing.  GPU state of the parent does not belong to the child: calls with a GPU
 * context of the parent give GRAM_DEVICE_FAILED, and destroying it frees only its host memory.  A
 * child can create a GPU context only if its parent had not initialised CUDA (which
 * gram_best_device and gram_context_info do).  A child that was forked while a thread of the parent
 * had the cache file open does not use that file.  NCCL and MPI do not work across fork().
 *
 * Environment variables are read when a context is created, and the context keeps copies.  A
 * program that has privileges which its caller lacks (set-user-ID, set-group-ID, file capabilities)
 * reads no environment variable.
 *
 * Binary interface: enum values are explicit and are never reused.  Structs of options begin with
 * their size, which GRAM_<OP>_OPTIONS_INIT sets, and members are only ever appended.  A NULL
 * pointer to options means the defaults.  Sizes, shapes and strides are int64_t, and strides count
 * elements.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_H
#define GRAM_H
#include "core.h"
#include "device.h"
#include "eigh.h"
#include "kron.h"
#include "krr.h"
#include "layers.h"
#include "linalg.h"
#include "machine.h"
#include "multi.h"
#include "nearest.h"
#include "operator.h"
#include "optimizer.h"
#include "pairwise.h"
#endif
