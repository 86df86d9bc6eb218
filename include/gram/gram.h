/*
 * gram.h - the public API of libgram: Gram matrices built, differentiated, multiplied and solved
 *
 * What you want, the header that has it, and the function to begin with:
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
 *   a Kronecker product, multiplied by               kron.h       gram_kron_matmul, _vjp
 *   its inverse, determinant, trace, diagonal        kron.h       gram_kron_solve, _logdet
 *   the gradient of every sample of a layer          layers.h     gram_sample_grad
 *   natural gradients, K-FAC and EKFAC               layers.h     gram_kfac_create
 *   Shampoo, SOAP or Muon                            optimizer.h  gram_optimizer_create
 *   a model of a table, trained and applied          machine.h    gram_machine_fit
 *   a context, a tensor, the message of an error     core.h       gram_context_create
 *   memory of a GPU, kernels compiled ahead, tuning  device.h     gram_memory_allocate, gram_tune
 *   lists of matrices; several GPUs, MPI, NCCL       multi.h      gram_eigh_many
 *
 * This header includes them all; a program that needs one may include that one alone.
 *
 * Every call takes a context, borrows its tensors for the duration of the call (on an asynchronous
 * device: until the context's stream is synchronised) and returns a status; gram_message() then
 * names the function, the argument, what came and what was expected.  NULL where an argument is
 * needed, a context included, is GRAM_INVALID_ARGUMENT.  The library never aborts, exits, installs
 * a signal handler or changes the floating-point modes, and prints nothing but the log that
 * GRAM_LOG=debug asks for, on standard error.
 *
 * Outputs of a call that fails: GRAM_INVALID_ARGUMENT, GRAM_UNSUPPORTED and GRAM_OUT_OF_MEMORY
 * leave them as they were.  GRAM_NUMERICAL of an operation that takes an info tensor (solves, eigh,
 * matrix_power, kron_solve, natural_gradient) leaves what the same call leaves with info: every
 * item is written, those that failed are NaN (where options.keep or another says nothing else), and
 * the others are right; so an argument that is solved in place is overwritten.  The GRAM_NUMERICAL
 * of optimizers and of K-FAC changes nothing.  A list of matrices (gram_eigh_many) has outputs of
 * each, as if it were called alone.  After GRAM_DEVICE_FAILED outputs are undefined.
 *
 * Threads: a context serves one thread at a time; different contexts are independent; nothing else
 * is shared.
 *
 * fork(): a child may use, and destroy, the contexts of CPUs that its parent had, if no other
 * thread of the parent was in a call with them, and may make its own, whatever other threads of the
 * parent were doing.  What the parent had on a GPU is not the child's: calls with such a context
 * give GRAM_DEVICE_FAILED, destroying it frees its host memory alone, and a child makes contexts on
 * a GPU only where its parent had not begun CUDA (nor asked gram_best_device or gram_context_info).
 * A child that was forked while a thread of the parent had the file of the cache open does without
 * that file.  NCCL and MPI do not go with fork().
 *
 * The environment is read when a context is made, which keeps copies.  A program that has
 * privileges which its caller lacks (set-user-ID, set-group-ID, file capabilities) reads no
 * variable.
 *
 * Binary interface: enum values are explicit and never reused.  Options structs begin with their
 * size, set by GRAM_<OP>_OPTIONS_INIT; members are only ever appended; a NULL pointer to options
 * means the defaults.  Sizes, shapes and strides are int64_t; strides count elements.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_H
#define GRAM_H
#include "core.h"
#include "device.h"
#include "eigh.h"
#include "kron.h"
#include "layers.h"
#include "linalg.h"
#include "machine.h"
#include "multi.h"
#include "optimizer.h"
#include "pairwise.h"
#endif
