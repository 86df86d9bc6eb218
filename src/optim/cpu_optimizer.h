/*
 * cpu_optimizer.h - a step of an optimizer on the CPU: what its files share
 *
 * Several blocks are done at a time, on a thread each, or one after the other with all of BLAS's
 * threads where there are few: a block is only ever touched by one thread.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_OPTIMIZER_H
#define GRAM_CPU_OPTIMIZER_H
#include "core/scratch.h"
#include "cpu/cpu.h"
#include "optimizer_step.h"

/* Loops over n numbers of f32 or f64 (sums in double). */
struct cpu_optimizer_math {
    double (*squares)(int64_t n, const void *x);              /* sum of x^2 */
    void (*scale)(int64_t n, double s, void *x);              /* x *= s */
    void (*add)(int64_t n, double s, const void *y, void *x); /* x += s y */
    /* g, m = scale (b3 m + (1 - b3) g), b1 m + (1 - b1) g */
    void (*filter)(int64_t n, const double b[2], double scale, void *m, void *g);
    void (*second)(int64_t n, double keep, double take, const void *g, void *v); /* v of g^2 */
    /* to = f / (sqrt(v scale) + epsilon) */
    void (*adapt)(int64_t n, double scale, double epsilon, const void *f, const void *v, void *to);
    /* b = momentum b + take p, then p = b, or p + momentum b */
    void (*momentum)(int64_t n, double momentum, double take, bool nesterov, void *b, void *p);
    double (*dot)(int64_t n, const void *x, const void *y);
    /* to[b][j][a] = from[b][order[j]][a] */
    void (*permute)(const struct cpu_mode *mode, const int32_t *order, const void *from, void *to);
    double (*off_diagonal)(int64_t n, const void *a); /* sum of a[i][j]^2 over i != j, a n by n */
    bool (*finite)(int64_t n, const void *x);
    void (*widen)(int64_t n, const void *from, double *to);
    void (*narrow)(int64_t n, const double *from, void *to);
};

/* A block in a pass, in the hands of one thread; alone: the only one, which may start loops. */
struct cpu_optimizer_unit {
    struct gram_optimizer_group all; /* the first member: passes are given its address */
    bool alone;
    gram_optimizer *o;
    const struct gram_optimizer_parameter *p;
    const struct gram_optimizer_block *b;
    const struct cpu_optimizer_math *math;
    gram_dtype work;
    int64_t t; /* this step of the parameter, from 1 */
    /* The thread's scratch: g, where the gradient is gathered and the direction ends, and two
     * arrays as long; then, of the method, moments that are loaded (Muon's scratch lies in the
     * place of the first one), and a matrix. */
    void *g, *spare[2], *moment, *second, *matrix;
    void *x, *to;        /* X of optimizer_step.h, and where the next product of it goes */
    const void *grafted; /* the graft's step, as long as it is the direction; or NULL */
    double graft;        /* its norm, once X is another direction */
    bool still;          /* SOAP's first step: no decay and no momentum either, it moves nothing */
};

/* What a method is on the CPU beside its passes.  Nothing but refresh_bytes may fail. */
struct cpu_optimizer_method {
    /* Takes the scratch of a block beyond g and spare. */
    void (*take)(const gram_optimizer *o, const struct gram_optimizer_block *b,
                 struct gram_layout *l, struct cpu_optimizer_unit *u);
    /* Scratch of a refresh, and whether sizes can be done at all. */
    gram_status (*refresh_bytes)(gram_context *g, const gram_optimizer *o, size_t *bytes);
};

extern const struct cpu_optimizer_method cpu_shampoo, cpu_soap, cpu_muon;

/* A refresh of roots or bases. */
struct cpu_optimizer_step {
    const struct gram_optimizer_job *job;
    const char *rests; /* a flag a parameter: no gradient, or none that is finite */
    char *scratch;     /* refresh_bytes() of the method */
};

void cpu_shampoo_refresh(const struct cpu_optimizer_step *s);
void cpu_soap_refresh(const struct cpu_optimizer_step *s);
/* X = X made orthogonal; it may lie elsewhere afterwards. */
void cpu_muon_run(struct cpu_optimizer_unit *u);

/* The bytes of a slot whose numbers are not of the dtype of the arithmetic and have to be loaded;
 * else 0. */
static inline size_t cpu_optimizer_loaded_bytes(const struct gram_optimizer_slot *slot,
                                                gram_dtype work)
{
    bool loaded = slot->dtype && slot->dtype != work;

    return loaded ? (size_t)slot->count * gram_dtype_size(work) : 0;
}

const struct cpu_optimizer_math *cpu_optimizer_math(gram_dtype work);

/* A slot to and from numbers of work.  A packed one is a matrix there, row-major: the upper
 * triangle after a load, both with mirror; a store reads the upper one.  Others are moved as they
 * are. */
void cpu_optimizer_load(const gram_optimizer *o, const struct gram_optimizer_slot *s,
                        gram_dtype work, bool mirror, void *to);
void cpu_optimizer_store(const gram_optimizer *o, const struct gram_optimizer_slot *s,
                         gram_dtype work, void *from);

/* cpu_optimizer_open returns the numbers of a slot in the dtype `work`: their place in the state,
 * or `memory`, into which it loads them (symmetric matrices with both triangles).
 * cpu_optimizer_close stores numbers that were loaded. */
void *cpu_optimizer_open(const gram_optimizer *o, const struct gram_optimizer_slot *slot,
                         gram_dtype work, void *memory);
void cpu_optimizer_close(const gram_optimizer *o, const struct gram_optimizer_slot *slot,
                         gram_dtype work, void *data);

/* ---- Muon: a matrix -------------------------------------------------------------------------- */

/* A dense row-major matrix, not empty, and how it is treated. */
struct muon_matrix {
    gram_dtype dtype;
    int64_t rows, cols;
    int steps;
    double least; /* the norm that it is divided by is at least this */
};

/* Scratch, a multiple of 64 bytes. */
size_t cpu_muon_bytes(const struct muon_matrix *m);

/* gram_muon_orthogonalise of x, which is destroyed.  spare has its size, and the function returns
 * the one of the two that has the result. */
void *cpu_muon_orthogonalise(const struct muon_matrix *m, void *x, void *spare, void *scratch);

/* True if the context's instruction set has products of bf16: AVX512_BF16. */
bool cpu_muon_bf16_runs(const gram_context *g);

/* Scratch of a matrix of f32, a multiple of 64 bytes. */
size_t cpu_muon_bf16_bytes(const struct muon_matrix *m);

/* x becomes what cpu_muon_orthogonalise makes of it, to 8 bits; threads: in loops of g's threads.
 */
void cpu_muon_bf16(gram_context *g, bool threads, const struct muon_matrix *m, float *x,
                   void *scratch);

/* ---- SOAP: a factor and its basis ------------------------------------------------------------ */

/* A basis q is n by n, and its row j is vector number j: coordinate j of x is
 *   sum_i q[j][i] x[i].
 * Tensors, factors and bases are dense, row-major, and of one dtype, f32 or f64. */
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
#endif
