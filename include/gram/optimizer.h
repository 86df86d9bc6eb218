/*
 * optimizer.h - second-order optimizers: Shampoo, SOAP and Muon
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_OPTIMIZER_H
#define GRAM_PUBLIC_OPTIMIZER_H
#include "core.h"
#include "linalg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Second-order optimizers -------------------------------------------------------------- */

typedef enum gram_optimizer_method {
    GRAM_SHAMPOO = 0,
    GRAM_SOAP = 1,
    GRAM_MUON = 2,
} gram_optimizer_method;

/* Whose step length a Shampoo block takes: the direction is scaled to the norm that the method of
 * this name would give it. */
typedef enum gram_graft {
    GRAM_GRAFT_NONE = 0,
    GRAM_GRAFT_SGD = 1,     /* M */
    GRAM_GRAFT_ADAGRAD = 2, /* M / (sqrt(V) + graft_epsilon), V the sum of all G^2 */
    GRAM_GRAFT_RMSPROP = 3, /* the same, V = graft_beta2 V + (1 - graft_beta2) G^2 */
    GRAM_GRAFT_ADAM = 4,    /* the same with V / (1 - graft_beta2^t) */
} gram_graft;

typedef enum gram_weight_decay {
    GRAM_DECAY_DECOUPLED = 0, /* weight_decay W is added to the direction */
    GRAM_DECAY_L2 = 1,        /* weight_decay W is added to the gradient */
} gram_weight_decay;

/* What becomes of a gradient that holds a NaN or an infinity, or whose sum of squares overflows. */
typedef enum gram_not_finite {
    GRAM_NOT_FINITE_SKIP = 0, /* its parameter and all its state rest; the report counts it */
    GRAM_NOT_FINITE_FAIL = 1, /* GRAM_NUMERICAL, nothing changes */
} gram_not_finite;

/* The comments give Shampoo's defaults; gram_optimizer_defaults has those of the others. */
typedef struct gram_optimizer_options {
    size_t size;
    gram_optimizer_method method;
    int bias_correction;  /* 1 */
    double learning_rate; /* 0.01; finite, >= 0 */
    double beta1;         /* of the first moment, [0, 1); 0.9; 0: none */
    double beta2;         /* of the statistics, (0, 1]; 1: their sum */
    double beta3;         /* of the filter, [0, 1); negative: beta1 */
    double shampoo_beta;  /* of SOAP's factors, [0, 1); negative: beta2 */
    double epsilon;       /* added to the eigenvalues of the factors, >= 0; 1e-12; see r below */
    int epsilon_relative; /* epsilon is times the largest eigenvalue; 0 */
    int nesterov;         /* 0 */
    double momentum;      /* of the directions, [0, 1); 0: none */
    double dampening;     /* [0, 1); 0 */
    double weight_decay;  /* >= 0; 0 */
    gram_weight_decay decay;
    gram_graft graft;                  /* GRAM_GRAFT_ADAM; others than Shampoo: NONE */
    double graft_beta2, graft_epsilon; /* [0, 1) and >= 0; 0.999 and 1e-8 */
    int64_t block;                     /* largest side of a factor; 1024 */
    int64_t start;                     /* the first step that preconditions; 0: refresh */
    int64_t refresh;                   /* n: roots are taken every n-th step; 10 */
    int merge;       /* dimensions of 1 are dropped, small ones merged from the right while their
                        product is at most block; 1 */
    int stagger;     /* block i's roots at steps t with t + i divisible by refresh; 0 */
    double exponent; /* e of the roots L^-e, k / q with whole k and q up to 64; 0: 1 / (2 order) */
    double skip;     /* no refresh where |X^(q/2) (L + r I)^k X^(q/2) - I|_F of the root at
                        hand is at most skip sqrt(n); 0: always refresh */
    gram_power_method root; /* GRAM_POWER_AUTO */
    int failures;           /* refreshes that may fail in a row, keeping the previous root; 3 */
    gram_dtype state;       /* f32, f64, or bf16 (M and B; matrices and V stay f32); 0: the
                               parameter's, f32 for halves */
    int packed;             /* symmetric state as triangles, half the bytes; 1 */
    int steps;              /* Muon's Newton-Schulz steps; 5 */
    int one_dimensional;    /* SOAP: vectors have a basis too; 0 */
    int normalize;          /* SOAP: directions are scaled to a root mean square of 1; 0 */
    gram_not_finite not_finite;
    int64_t rank, ranks; /* this process does its share of the blocks; 0 of 1 */
    /* In f32: what the products of statistics and directions, and what roots (as the options of
     * gram_matrix_power have it) are computed in.  The CPU takes F32, but for Muon's AUTO. */
    gram_power_precision precision; /* GRAM_POWER_PRECISION_AUTO: Muon by products of bf16 (sm_80
                                       on; CPUs with AVX512_BF16); Shampoo and SOAP as near as F32,
                                       directions of two and more dimensions with sides from 64 on
                                       by three products of f16 (sm_80 on).  TF32: 11 bits */
    gram_power_precision root_precision;
    int64_t statistics; /* n: Shampoo's factors take in the first and every n-th gradient; 1 */
} gram_optimizer_options;

/* clang-format off */
#define GRAM_OPTIMIZER_OPTIONS_INIT                                                                \
    {sizeof(gram_optimizer_options), GRAM_SHAMPOO, 1, 0.01, 0.9, 1, -1, -1, 1e-12, 0, 0, 0, 0, 0,  \
     GRAM_DECAY_DECOUPLED, GRAM_GRAFT_ADAM, 0.999, 1e-8, 1024, 0, 10, 1, 0, 0, 0, GRAM_POWER_AUTO, \
     3, (gram_dtype)0, 1, 5, 0, 0, GRAM_NOT_FINITE_SKIP, 0, 1, GRAM_POWER_PRECISION_AUTO,          \
     GRAM_POWER_PRECISION_AUTO, 1}
/* clang-format on */

/* Fills options, as much of it as options->size covers, with the defaults of a method: those of the
 * implementations that its formula is after.  False: no such method, or NULL. */
GRAM_PUBLIC int gram_optimizer_defaults(gram_optimizer_method method,
                                        gram_optimizer_options *options);

/* What a step did. */
typedef struct gram_optimizer_report {
    size_t size;          /* set by the caller */
    int64_t skipped;      /* parameters that rested because their gradients were not finite */
    int64_t refreshed;    /* factors whose root (or basis) was taken anew */
    int64_t kept;         /* factors that were due and still fitted: options.skip */
    int64_t failed;       /* factors whose root could not be taken: they keep the previous one */
    int64_t first_failed; /* parameter of the first of them, or -1 */
} gram_optimizer_report;

typedef struct gram_optimizer_info {
    size_t size;  /* set by the caller */
    int64_t step; /* calls that did one */
    int64_t parameters, blocks;
    int64_t own_blocks; /* that this rank does */
    int64_t states;     /* named tensors: gram_optimizer_state_at */
    int64_t bytes;      /* of all of them, as allocated */
} gram_optimizer_info;

/*
 * An optimizer of a list of parameters: formulas, shapes and all state.  It holds no parameter and
 * belongs to no context, but allocates as the one it was made with does; one thread at a time.
 *
 * CUDA: state is in the memory of the device, parameters, gradients and directions too; the
 * optimizer belongs to the context that made it, and has to be destroyed before it.  A step is
 * queued and returns: which gradients are not finite and which roots could be taken is the device's
 * to know, until a report is asked for, which waits.  Without one, roots that fail again and again
 * keep the previous one and no step is refused for them, and a step whose gradient was not finite
 * still counts when the next statistics and roots are due.  A step can be captured in a CUDA graph:
 * options, whether roots are taken, and all addresses are those of the capture; with statistics
 * above 1 factors take a gradient in where roots are taken, and only there; report must be NULL and
 * not_finite GRAM_NOT_FINITE_SKIP; the first step of a parameter with SOAP is refused there, and
 * the one after it waits to see whether there was one.  GRAM_NOT_FINITE_FAIL waits before anything
 * is written.  Roots and bases that still fit (options.skip) are left in place by the device, after
 * the new ones were made: that saves no time.  GRAM_POWER_AUTO is as gram_matrix_power
 * has it.  What SOAP cannot do in f32 has failed, and is not tried in f64.
 */
typedef struct gram_optimizer gram_optimizer;

/*
 * Makes an optimizer of count parameters, of which only shapes and dtypes are read: f32, f64, f16
 * or bf16, 0 to GRAM_MAX_DIMS dimensions, any sizes.  All state is allocated here; later calls take
 * scratch from the context's arena, before anything is written.  options NULL: Shampoo's defaults.
 * *out is NULL on an error.
 *
 * Shampoo (Gupta, Koren and Singer 2018, in the form of Shi et al. 2023): a parameter's shape is
 * merged and cut into blocks of at most options.block along each dimension.  A step t of a block W
 * of order o (its number of dimensions; a scalar has one of size 1) with gradient G is:
 *   G += weight_decay W                                               (GRAM_DECAY_L2)
 *   L_k = beta2 L_k + (1 - beta2) G_k G_k^T, or L_k += G_k G_k^T where beta2 is 1, G_k being G
 *         with dimension k as rows and all others as columns; where t = 1 or t is divisible by
 *         statistics: n times so far, n being t / statistics rounded down, and one more where
 *         statistics is above 1;
 *   V   = the graft's second moment of G;
 *   X_k = (max(A, 0) + r I)^(-1 / (2 o)), A = L_k / (1 - beta2^n), when t is due: t = start, or
 *         t > start and t divisible by refresh (with stagger: t + the block's number); I before the
 *         first, and where L_k is 0 and epsilon too;
 *   F   = beta3 M + (1 - beta3) G, divided by 1 - beta3 beta1^(t - 1);
 *   M   = beta1 M + (1 - beta1) G;
 *   P   = F times X_k along every dimension k; where t < start the graft's step (F without one)
 *   P  *= |graft(F)| / (|P| + 1e-16), the norms being the block's;
 *   P  += weight_decay W                                              (GRAM_DECAY_DECOUPLED)
 *   B   = momentum B + (1 - dampening) P, P = B, or P + momentum B with nesterov;
 *   W  -= learning_rate P.
 * Divisions by 1 - beta^t are bias_correction's.  t counts the steps of the parameter itself.
 *
 * Factors are of any rank: max takes what rounding has put below 0 for 0, and, m being the largest
 * eigenvalue of A, r = max(epsilon, rho m), or max(epsilon, rho) m where epsilon is relative.  rho
 * is what rounding leaves of an eigenvalue of 0: for L_k of f32 2^-20, and 2^-16 for roots that
 * are taken by iterations in f32; for f64 n 2^-50 with EIGH, n being the side, and 2^-40 with
 * iterations.  The iterations, which know no max, take r at least twice the magnitude of A's least
 * eigenvalue where that is negative; m and it are then Ritz values of 32 Lanczos steps.  So a root
 * fails where L_k holds a NaN or an infinity, and nowhere else.
 *
 * SOAP (Vyas et al. 2024): Adam in the eigenbases of Shampoo's factors.  A parameter, merged, is
 * one block; a dimension of more than options.block has no L_k and Q_k, nor has a vector or a
 * scalar without one_dimensional.  The first step makes L_k as below from L_k = 0, and Q_k, whose
 * rows are the eigenvectors of L_k, that of the largest eigenvalue first; it moves nothing.  The
 * s'th step after it is, with b = shampoo_beta:
 *   G  += weight_decay W                                               (GRAM_DECAY_L2)
 *   L_k = b L_k + (1 - b) G_k G_k^T;
 *   F   = G times Q_k along every dimension k;
 *   M   = beta1 M + (1 - beta1) F;
 *   V   = beta2 V + (1 - beta2) F^2;
 *   P   = M / (sqrt(V) + epsilon), times Q_k^T along every dimension k;
 *   P  /= 1e-30 + the root mean square of P                            (normalize)
 *   P  *= sqrt(1 - beta2^s) / (1 - beta1^s)                            (bias_correction)
 *   P   = (1 - learning_rate weight_decay) P + weight_decay W          (GRAM_DECAY_DECOUPLED)
 *   B   = momentum B + (1 - dampening) P, P = B, or P + momentum B with nesterov;
 *   W  -= learning_rate P;
 *   Q_k, where s is divisible by refresh (with stagger: s + the block's number): the rows q of Q_k
 *         are sorted by falling q L_k q^T, and V with them; the new Q_k is the rows of Q_k L_k,
 *         made orthonormal from the first to the last; M is brought into its coordinates.
 * options.skip leaves a Q_k in place while the off-diagonal part of Q_k L_k Q_k^T has a Frobenius
 * norm of at most skip times that of the whole.  In f32, a factor that LAPACK gives up and a
 * product that overflows are tried again in f64.
 *
 * Muon (Jordan et al. 2024): a parameter of two dimensions or more is one matrix of n rows, its
 * first dimension, and m columns:
 *   G  += weight_decay W                                               (GRAM_DECAY_L2)
 *   B   = momentum B + (1 - dampening) G, X = B, or G + momentum B with nesterov;
 *   X  /= max(|X|, epsilon);
 *   X   = 3.4445 X + (-4.7750 A + 2.0315 A^2) X, A = X X^T, options.steps times;
 *   P   = sqrt(max(1, n / m)) X;
 *   P  += weight_decay W                                               (GRAM_DECAY_DECOUPLED)
 *   W  -= learning_rate P.
 * Vectors and scalars take Adam's step with beta1, beta2, epsilon and bias_correction; they mostly
 * want another learning rate, and then an optimizer of their own.
 *
 * State, each tensor rounded up to 64 bytes: a block of sides d_k has two symmetric matrices of
 * order d_k for each k (packed: d_k (d_k + 1) / 2 elements, the rows of the upper triangle one
 * after the other), M where beta1 or beta3 is not 0, B where momentum is not 0, V for grafts beyond
 * SGD; SOAP: one such matrix and Q_k, which is not symmetric, for each k that has a basis, M, V,
 * and B where momentum is not 0; Muon: B as M, where momentum is not 0, or Adam's M and V; and 8
 * bytes for each parameter and each block.
 *
 * ranks > 1: blocks are shared out by n^3, largest first, and this rank has the state of its own
 * blocks alone.  The gradients must be those of all ranks, the same everywhere.
 */
GRAM_API gram_status gram_optimizer_create(gram_context *g, const gram_optimizer_options *options,
                                           const gram_tensor *const *parameters, int64_t count,
                                           gram_optimizer **out);

/* NULL is allowed. */
GRAM_PUBLIC void gram_optimizer_destroy(gram_optimizer *o);

/*
 * Does a step and gives its directions: parameter -= learning_rate * direction is left to the
 * caller.  parameters, gradients and directions are as many as at the creation, with the shapes of
 * the parameters, any strides, each of f32, f64, f16 or bf16.  gradients[i] NULL: parameter i and
 * its state rest, and directions[i], which may be NULL then, is 0.  A direction may be its gradient
 * itself; it must overlap nothing else.  The direction of a block of another rank is 0, so that the
 * directions of all ranks add up to that of one.  report may be NULL.
 *
 * GRAM_NUMERICAL, before anything changes: a gradient that is not finite, where
 * options.not_finite says so; or a root that failed more than options.failures times in a row,
 * until gram_optimizer_set changes epsilon, epsilon_relative, root or failures.  Unless a call
 * returns GRAM_OK, neither directions nor state have changed.
 */
GRAM_API gram_status gram_optimizer_direction(gram_context *g, gram_optimizer *o,
                                              const gram_tensor *const *parameters,
                                              const gram_tensor *const *gradients,
                                              gram_tensor *const *directions,
                                              gram_optimizer_report *report);

/* The same, and parameter -= learning_rate * direction in place.  ranks must be 1. */
GRAM_API gram_status gram_optimizer_step(gram_context *g, gram_optimizer *o,
                                         gram_tensor *const *parameters,
                                         const gram_tensor *const *gradients,
                                         gram_optimizer_report *report);

/* Scratch of a step, exact: it depends on no tensor. */
GRAM_API gram_status gram_optimizer_workspace(gram_context *g, const gram_optimizer *o,
                                              gram_workspace *need);

/*
 * Changes options between steps: all but method, graft, block, merge, state, packed, rank, ranks,
 * and whether beta1, beta3 and momentum are 0, which decide what state there is.
 */
GRAM_API gram_status gram_optimizer_set(gram_context *g, gram_optimizer *o,
                                        const gram_optimizer_options *options);

/* The options as they are now, and what the optimizer consists of; either may be NULL. */
GRAM_API gram_status gram_optimizer_get(gram_context *g, const gram_optimizer *o,
                                        gram_optimizer_options *options, gram_optimizer_info *info);

/*
 * The state tensor number index, 0 <= index < info.states, as a view into the optimizer that a
 * caller may read and, between steps, write; name and view live as long as the optimizer.  CUDA:
 * its data are the device's, and the next step waits to see what was written.  Names:
 * "step" (i64, one number), "steps" (i64, one a parameter), "failures" (i64, one a block), then for
 * parameter p and block b "p.b.factor.k" (L_k), "p.b.root.k" (X_k; SOAP: Q_k), "p.b.moment" (M),
 * "p.b.velocity" (B) and "p.b.second" (V).  Blocks are counted from 0 in each parameter, in the
 * order of their first elements; those of other ranks have no tensors.
 */
GRAM_API gram_status gram_optimizer_state_at(gram_context *g, gram_optimizer *o, int64_t index,
                                             const char **name, gram_tensor *view);

/*
 * The state as a safetensors file with the names of gram_optimizer_state_at, and back into an
 * optimizer that was created with the same parameters and the same options (as far as they decide
 * what state there is; the others are the caller's).  Saving writes a temporary file beside path
 * and renames it: path is the old file or the whole new one.  A file that does not fit, is damaged
 * or holds numbers that no step can leave is GRAM_BAD_DATA, and the optimizer is as it was.
 */
GRAM_API gram_status gram_optimizer_save(gram_context *g, const gram_optimizer *o,
                                         const char *path);
GRAM_API gram_status gram_optimizer_load(gram_context *g, gram_optimizer *o, const char *path);

#ifdef __cplusplus
}
#endif
#endif
