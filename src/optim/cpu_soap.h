/*
 * cpu_soap.h - the declarations that the files of SOAP share on the CPU
 *
 * A basis q is n by n, and its row j is vector number j: coordinate j of x is
 *   sum_i q[j][i] x[i].
 * Tensors, factors and bases are dense, row-major, and of one dtype, f32 or f64.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_SOAP_H
#define GRAM_CPU_SOAP_H
#include "cpu/cpu_mode.h"
#include "cpu_optimizer.h"

/* ---- cpu_soap_basis.c ------------------------------------------------------------------------ */

enum soap_outcome {
    SOAP_REFRESHED,
    SOAP_KEPT,   /* the old basis still fits */
    SOAP_FAILED, /* there is no new basis: the old one stays */
};

/* A factor, with both triangles, and its basis.  The basis stays while the off-diagonal part of the
 * factor in it has at most `skip` times the norm of the factor; with 0 it never stays. */
struct soap_factor {
    const void *factor, *q;
    double skip;
};

/* The scratch that each of the two functions below takes. */
size_t cpu_soap_basis_bytes(int64_t n);

/* Sets q to the eigenvectors of a factor, that of the largest eigenvalue first; false: there are
 * none.  An f32 factor that LAPACK gives up is tried in f64. */
bool cpu_soap_basis_first(gram_dtype dtype, int64_t n, const void *factor, void *q, void *scratch);

/* Makes the next basis by a step of power iteration.  Where the outcome is SOAP_REFRESHED, `next`
 * has the rows of the product q factor, sorted by falling estimates of their eigenvalues and made
 * orthonormal from the first to the last; its row j comes from row order[j] of q.  An f32 product
 * that overflows is computed again in f64. */
enum soap_outcome cpu_soap_basis_next(gram_dtype dtype, int64_t n, const struct soap_factor *from,
                                      void *next, int32_t *order, void *scratch);

/* ---- cpu_soap.c ------------------------------------------------------------------------------ */

/* cpu_soap_open returns the numbers of a slot in the dtype `work`: their place in the state, or
 * `memory`, into which it loads them (symmetric matrices with both triangles).  cpu_soap_close
 * stores numbers that were loaded. */
void *cpu_soap_open(const gram_optimizer *o, const struct gram_optimizer_slot *slot,
                    gram_dtype work, void *memory);
void cpu_soap_close(const gram_optimizer *o, const struct gram_optimizer_slot *slot,
                    gram_dtype work, const void *data);

/* ---- cpu_soap_refresh.c ---------------------------------------------------------------------- */

gram_status cpu_soap_refresh_bytes(gram_context *g, const gram_optimizer *o, size_t *bytes);
void cpu_soap_refresh(const struct cpu_optimizer_step *s);
#endif
