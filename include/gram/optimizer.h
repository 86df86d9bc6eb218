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

/* The method from which a Shampoo block takes the length of its step.  The direction is scaled
 * to the norm of the direction that this method would give. */
typedef enum gram_graft {
    GRAM_GRAFT_NONE = 0,
    GRAM_GRAFT_SGD = 1,     /* M */
    GRAM_GRAFT_ADAGRAD = 2, /* M / (sqrt(V) + graft_epsilon), with V the sum of all G^2 */
    GRAM_GRAFT_RMSPROP = 3, /* the same, V = graft_beta2 V + (1 - graft_beta2) G^2 */
    GRAM_GRAFT_ADAM = 4,    /* the same with V / (1 - graft_beta2^t) */
} gram_graft;

typedef enum gram_weight_decay {
    GRAM_DECAY_DECOUPLED = 0, /* weight_decay W is added to the direction */
    GRAM_DECAY_L2 = 1,        /* weight_decay W is added to the gradient */
} gram_weight_decay;

/* The treatment of a gradient that holds a NaN or an infinity, or whose sum of squares
 * overflows. */
typedef enum gram_not_finite {
    GRAM_NOT_FINITE_SKIP = 0, /* its parameter and state do not change; the report counts it */
    GRAM_NOT_FINITE_FAIL = 1, /* the call gives GRAM_NUMERICAL, and nothing changes */
} gram_not_finite;

/* Options of an optimizer.  The comments give the defaults of Shampoo; gram_optimizer_defaults
 * has those of all methods. */
typedef struct gram_optimizer_options {
    size_t size;
    gram_optimizer_method method;
    int bias_correction;  /* 1 */
    double learning_rate; /* 0.01; finite, >= 0 */
    double beta1;         /* of the first moment, [0, 1); 0.9; 0: none */
    double beta2;         /* of the statistics, (0, 1]; 1: their sum */
    double beta3;         /* of the filter, [0, 1); negative: beta1 */
    double shampoo_beta;  /* of the factors of SOAP, [0, 1); negative: beta2 */
    double epsilon;       /* added to the eigenvalues of the factors, >= 0; 1e-12; see r below */
    int epsilon_relative; /* epsilon is a multiple of the largest eigenvalue; 0 */
    int nesterov;         /* 0 */
    double momentum;      /* of the directions, [0, 1); 0: none */
    double dampening;     /* [0, 1); 0 */
    double weight_decay;  /* >= 0; 0 */
    gram_weight_decay decay;
    gram_graft graft;                  /* GRAM_GRAFT_ADAM; NONE for other methods than Shampoo */
    double graft_beta2, graft_epsilon; /* [0, 1) and >= 0; 0.999 and 1e-8 */
    int64_t block;                     /* largest side of a factor; 1024 */
    int64_t start;                     /* the first step with a preconditioner; 0: refresh */
    int64_t refresh;                   /* n: roots are computed every n-th step; 10 */
    int merge;       /* dimensions of 1 are dropped, and small ones are merged from the right while
                        their product is at most block; 1 */
    int stagger;     /* roots of block i are computed if refresh divides t + i; 0 */
    double exponent; /* e of the roots L^-e, k / q with k and q from 1 to 64; 0: 1 / (2 order) */
    double skip;     /* no refresh if |X^(q/2) (L + r I)^k X^(q/2) - I|_F of the present root is
                        at most skip sqrt(n); 0: always refresh */
    gram_power_method root; /* GRAM_POWER_AUTO */
    int failures;           /* refreshes that may fail in a row, which keep the previous root; 3 */
    gram_dtype state;       /* f32, f64, or bf16 (only M and B; matrices and V are f32); 0: that
                               of the parameter, but f32 for f16 and bf16 */
    int packed;             /* symmetric state is stored as triangles, in half the bytes; 1 */
    int steps;              /* Newton-Schulz steps of Muon; 5 */
    int one_dimensional;    /* SOAP: vectors also have a basis; 0 */
    int normalize;          /* SOAP: directions are scaled to a root mean square of 1; 0 */
    gram_not_finite not_finite;
    int64_t rank, ranks; /* this process computes its share of the blocks; 0 of 1 */
    /* For f32: the arithmetic of the products in statistics and directions, and that of roots
     * (see the options of gram_matrix_power).  The CPU uses F32, except for AUTO of Muon. */
    gram_power_precision precision; /* GRAM_POWER_PRECISION_AUTO: Muon multiplies in bf16 (from
                                       sm_80; CPUs with AVX512_BF16).  Shampoo and SOAP are as
                                       accurate as F32; directions with two or more dimensions and
                                       sides from 64 take three products of f16 (from sm_80).
                                       TF32: 11 bits */
    gram_power_precision root_precision;
    int64_t statistics; /* n: Shampoo's factors include the first and every n-th gradient; 1 */
} gram_optimizer_options;

/* clang-format off */
#define GRAM_OPTIMIZER_OPTIONS_INIT                                                                \
    {sizeof(gram_optimizer_options), GRAM_SHAMPOO, 1, 0.01, 0.9, 1, -1, -1, 1e-12, 0, 0, 0, 0, 0,  \
     GRAM_DECAY_DECOUPLED, GRAM_GRAFT_ADAM, 0.999, 1e-8, 1024, 0, 10, 1, 0, 0, 0, GRAM_POWER_AUTO, \
     3, (gram_dtype)0, 1, 5, 0, 0, GRAM_NOT_FINITE_SKIP, 0, 1, GRAM_POWER_PRECISION_AUTO,          \
     GRAM_POWER_PRECISION_AUTO, 1}
/* clang-format on */

/* Fills in the members of options that options->size covers with the defaults of a method, which
 * are those of the implementation that its formula follows.  Returns 0 if there is no such
 * method or if options is NULL, and 1 otherwise. */
GRAM_PUBLIC int gram_optimizer_defaults(gram_optimizer_method method,
                                        gram_optimizer_options *options);

/* The report of a step. */
typedef struct gram_optimizer_report {
    size_t size;          /* set by the caller */
    int64_t skipped;      /* parameters left unchanged because their gradients were not finite */
    int64_t refreshed;    /* factors whose root (or basis) was computed */
    int64_t kept;         /* factors that were due, but whose root was kept (options.skip) */
    int64_t failed;       /* factors whose root failed, and which keep the previous one */
    int64_t first_failed; /* parameter of the first of them, or -1 */
} gram_optimizer_report;

typedef struct gram_optimizer_info {
    size_t size;  /* set by the caller */
    int64_t step; /* the number of steps so far */
    int64_t parameters, blocks;
    int64_t own_blocks; /* the blocks that this rank computes */
    int64_t states;     /* the number of tensors for gram_optimizer_state_at */
    int64_t bytes;      /* of all of them, as allocated */
} gram_optimizer_info;

/*
 * An optimizer for a list of parameters.  It has their shapes and all state, but not the
 * parameters.  It does not belong to a context, but allocates memory as the context with which it
 * was created.  One thread may use it at a time.
 *
 * CUDA: state, parameters, gradients and directions are in the memory of the device.  The optimizer
 * belongs to the context that created it, and must be destroyed before it.  A step is queued, and
 * the call returns.  Only the device knows which gradients are not finite and which roots could be
 * computed, unless a report is requested, which waits.  Without a report, a root that fails
 * repeatedly keeps its previous value and no step is refused for it, and a step whose gradient was
 * not finite still counts when the next statistics and roots are due.  A step can be captured in a
 * CUDA graph.  The options, the choice whether roots are computed, and all addresses are then those
 * of the capture.  With statistics above 1, factors include a gradient only where roots are
 * computed.  report must be NULL, and not_finite must be GRAM_NOT_FINITE_SKIP.  With SOAP, the
 * first step of a parameter cannot be captured, and the step after it waits to see whether there
 * was one.  GRAM_NOT_FINITE_FAIL waits before anything is written.  Roots and bases that are still
 * accurate (options.skip) are kept, but the device computes the new ones first, so this saves no
 * time.  GRAM_POWER_AUTO is that of gram_matrix_power.  If SOAP fails in f32, it is not tried in
 * f64.
 */
typedef struct gram_optimizer gram_optimizer;

/*
 * Creates an optimizer for count parameters, of which only shapes and dtypes are read: f32, f64,
 * f16 or bf16, with 0 to GRAM_MAX_DIMS dimensions of any size.  All state is allocated here.  Later
 * calls take scratch from the context's arena, before they write anything.  options NULL means the
 * defaults of Shampoo.  *out is NULL on an error.
 *
 * Shampoo (Gupta, Koren and Singer 2018, in the form of Shi et al. 2023): the dimensions of a
 * parameter are merged, and it is cut into blocks with sides of at most options.block.  For a block
 * W with o dimensions (a scalar has one, of size 1) and the gradient G, step t is:
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
 * Divisions by 1 - beta^t are done only with bias_correction.  t counts the steps of this
 * parameter.
 *
 * Factors may have any rank.  max(A, 0) replaces eigenvalues that rounding has made negative by 0.
 * With m the largest eigenvalue of A, r = max(epsilon, rho m), or max(epsilon, rho) m if epsilon is
 * relative.  rho is the relative size that rounding gives to an eigenvalue of 0.  For an L_k in f32
 * it is 2^-20, and 2^-16 if roots are computed by iterations in f32; for f64 it is n 2^-50 with
 * EIGH, where n is the side, and 2^-40 with iterations.  Iterations do not use max(A, 0).  If the
 * smallest eigenvalue of A is negative, their r is at least twice its magnitude; m and this
 * eigenvalue are then Ritz values of 32 Lanczos steps.  A root therefore fails only if L_k holds a
 * NaN or an infinity.
 *
 * SOAP (Vyas et al. 2024): Adam in the eigenbases of the factors of Shampoo.  A parameter, with
 * merged dimensions, is one block.  A dimension above options.block has no L_k and Q_k; neither has
 * a vector or a scalar without one_dimensional.  The first step computes L_k as below from L_k = 0,
 * and Q_k, whose rows are the eigenvectors of L_k, beginning with that of the largest eigenvalue;
 * it does not change the parameter.  With b = shampoo_beta, the s'th step after it is:
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
 * options.skip keeps a Q_k while the off-diagonal part of Q_k L_k Q_k^T has a Frobenius norm of at
 * most skip times that of the whole matrix.  In f32, a factor for which LAPACK fails and a product
 * that overflows are computed again in f64.
 *
 * Muon (Jordan et al. 2024): a parameter with two or more dimensions is one matrix, with n rows for
 * its first dimension and m columns for the others:
 *   G  += weight_decay W                                               (GRAM_DECAY_L2)
 *   B   = momentum B + (1 - dampening) G, X = B, or G + momentum B with nesterov;
 *   X  /= max(|X|, epsilon);
 *   X   = 3.4445 X + (-4.7750 A + 2.0315 A^2) X, A = X X^T, options.steps times;
 *   P   = sqrt(max(1, n / m)) X;
 *   P  += weight_decay W                                               (GRAM_DECAY_DECOUPLED)
 *   W  -= learning_rate P.
 * Vectors and scalars take a step of Adam with beta1, beta2, epsilon and bias_correction.  They
 * usually need another learning rate, and therefore an optimizer of their own.
 *
 * State (the size of each tensor is rounded up to 64 bytes): with Shampoo, a block with sides d_k
 * has two symmetric matrices of order d_k for each k (packed: d_k (d_k + 1) / 2 elements, the rows
 * of the upper triangle one after the other), M if beta1 or beta3 is not 0, B if momentum is not 0,
 * and V for the grafts other than NONE and SGD.  With SOAP, it has one such matrix and Q_k, which
 * is not symmetric, for each k that has a basis, M, V, and B if momentum is not 0.  With Muon, it
 * has B (stored as M) if momentum is not 0, or M and V of Adam.  There are also 8 bytes per
 * parameter and per block.
 *
 * ranks > 1: blocks are assigned to ranks by their work (n^3), the largest first, and this rank has
 * only the state of its own blocks.  All ranks must pass the same gradients.
 */
GRAM_API gram_status gram_optimizer_create(gram_context *g, const gram_optimizer_options *options,
                                           const gram_tensor *const *parameters, int64_t count,
                                           gram_optimizer **out);

/* Destroys an optimizer.  NULL is allowed. */
GRAM_PUBLIC void gram_optimizer_destroy(gram_optimizer *o);

/*
 * Computes the directions of a step.  The caller then updates parameter -= learning_rate *
 * direction.  parameters, gradients and directions have as many entries as there are parameters,
 * with the shapes of the parameters, any strides, and each with the dtype f32, f64, f16 or bf16.
 * If gradients[i] is NULL, parameter i and its state do not change, and directions[i], which may
 * then be NULL, is 0.  A direction may be its gradient itself, and must overlap nothing else.  The
 * direction of a block of another rank is 0, so that the directions of all ranks sum to that of a
 * single process.  report may be NULL.
 *
 * GRAM_NUMERICAL: a gradient is not finite and options.not_finite is GRAM_NOT_FINITE_FAIL; or a
 * root has failed more than options.failures times in a row, until gram_optimizer_set changes
 * epsilon, epsilon_relative, root or failures.  If a call does not return GRAM_OK, neither
 * directions nor state have changed.
 */
GRAM_API gram_status gram_optimizer_direction(gram_context *g, gram_optimizer *o,
                                              const gram_tensor *const *parameters,
                                              const gram_tensor *const *gradients,
                                              gram_tensor *const *directions,
                                              gram_optimizer_report *report);

/* The same, followed by parameter -= learning_rate * direction in place.  ranks must be 1. */
GRAM_API gram_status gram_optimizer_step(gram_context *g, gram_optimizer *o,
                                         gram_tensor *const *parameters,
                                         const gram_tensor *const *gradients,
                                         gram_optimizer_report *report);

/* The exact scratch of a step, which does not depend on tensors. */
GRAM_API gram_status gram_optimizer_workspace(gram_context *g, const gram_optimizer *o,
                                              gram_workspace *need);

/*
 * Changes options between steps.  These options cannot change, since they determine the state:
 * method, graft, block, merge, state, packed, rank, ranks, and whether beta1, beta3 and momentum
 * are 0.
 */
GRAM_API gram_status gram_optimizer_set(gram_context *g, gram_optimizer *o,
                                        const gram_optimizer_options *options);

/* Returns the current options and the numbers of parameters, blocks and states.  options or info
 * may be NULL. */
GRAM_API gram_status gram_optimizer_get(gram_context *g, const gram_optimizer *o,
                                        gram_optimizer_options *options, gram_optimizer_info *info);

/*
 * Returns state tensor `index`, 0 <= index < info.states, as a view into the optimizer.  The caller
 * may read it and, between steps, write it; name and view live as long as the optimizer.  CUDA: the
 * data are on the device, and the next step waits to see what was written.  The names are "step"
 * (i64, one number), "steps" (i64, one per parameter) and "failures" (i64, one per block); then,
 * for parameter p and block b, "p.b.factor.k" (L_k), "p.b.root.k" (X_k; SOAP: Q_k), "p.b.moment"
 * (M), "p.b.velocity" (B) and "p.b.second" (V).  Blocks are counted from 0 in each parameter, in
 * the order of their first elements.  Blocks of other ranks have no tensors.
 */
GRAM_API gram_status gram_optimizer_state_at(gram_context *g, gram_optimizer *o, int64_t index,
                                             const char **name, gram_tensor *view);

/*
 * Saves the state as a safetensors file with the names of gram_optimizer_state_at, and loads it
 * into an optimizer that was created with the same parameters, and with the same values of the
 * options that determine the state.  Saving writes a temporary file beside path and renames it, so
 * that path is either the old file or the complete new one.  A file that does not match, is
 * damaged, or holds numbers that no step can produce gives GRAM_BAD_DATA, and the optimizer is
 * unchanged.
 */
GRAM_API gram_status gram_optimizer_save(gram_context *g, const gram_optimizer *o,
                                         const char *path);
GRAM_API gram_status gram_optimizer_load(gram_context *g, gram_optimizer *o, const char *path);

#ifdef __cplusplus
}
#endif
#endif
