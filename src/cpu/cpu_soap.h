/*
 * cpu_soap.h - what the parts of SOAP share on the CPU
 *
 * A basis q is n by n, row j is its vector number j: q[j][i] x[i] is coordinate j of x.  Tensors,
 * factors and bases are dense, row-major, and of one dtype, f32 or f64.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_SOAP_H
#define GRAM_CPU_SOAP_H
#include "cpu_mode.h"
#include "cpu_optimizer.h"

/* Small loops over n elements, one table a dtype: soap_tile.h. */
struct soap_kernels {
    double (*dot)(int64_t n, const void *x, const void *y);
    /* to[b][j][a] = from[b][order[j]][a] */
    void (*permute)(const struct cpu_mode *mode, const int32_t *order, const void *from, void *to);
    double (*off_diagonal)(int64_t n, const void *a); /* the sum of the squares there, n by n */
    bool (*finite)(int64_t n, const void *x);
    void (*widen)(int64_t n, const void *from, double *to);
    void (*narrow)(int64_t n, const double *from, void *to);
};

extern const struct soap_kernels cpu_soap_f32, cpu_soap_f64;
const struct soap_kernels *cpu_soap_kernels(gram_dtype dtype);

/* ---- cpu_soap_basis.c ------------------------------------------------------------------------ */

enum soap_outcome {
    SOAP_REFRESHED,
    SOAP_KEPT,   /* the old basis still fits */
    SOAP_FAILED, /* the old basis must do */
};

/* A factor, both triangles, and the basis that it has; skip: how much of it may be off the diagonal
 * in this basis, as a part of its norm, for the basis to stay; 0: none may. */
struct soap_factor {
    const void *factor, *q;
    double skip;
};

/* Scratch of both. */
size_t cpu_soap_basis_bytes(int64_t n);

/* q: eigenvectors of a factor, that of the largest eigenvalue first; false: it has none.  An f32
 * factor that LAPACK gives up is tried in f64. */
bool cpu_soap_basis_first(gram_dtype dtype, int64_t n, const void *factor, void *q, void *scratch);

/* Where refreshed, the rows of next are those of q factor, by falling estimates of their
 * eigenvalues, made orthonormal from the first to the last; row j comes from row order[j] of q.  An
 * f32 product that overflows is taken again in f64. */
enum soap_outcome cpu_soap_basis_next(gram_dtype dtype, int64_t n, const struct soap_factor *from,
                                      void *next, int32_t *order, void *scratch);

/* ---- cpu_soap.c ------------------------------------------------------------------------------ */

/* The numbers of a slot, of the dtype work: where they are in the state, or loaded into memory
 * (symmetric ones are whole there); and back from there. */
void *cpu_soap_open(const gram_optimizer *o, const struct gram_optimizer_slot *slot,
                    gram_dtype work, void *memory);
void cpu_soap_close(const gram_optimizer *o, const struct gram_optimizer_slot *slot,
                    gram_dtype work, const void *data);

/* ---- cpu_soap_refresh.c ---------------------------------------------------------------------- */

gram_status cpu_soap_refresh_bytes(gram_context *g, const gram_optimizer *o, size_t *bytes);
void cpu_soap_refresh(const struct cpu_optimizer_step *s);
#endif
