/*
 * optimizer_step.h - a step of an optimizer, written once, over the passes that a device offers
 *
 * A step goes through the blocks in passes:
 *   1. Parameters without a gradient, or with one that is not finite, are found.  They rest.
 *   2. The factors of blocks whose roots are due take the gradient in (Shampoo).
 *   3. Roots that are due are taken (Shampoo).
 *   4. Every block makes its direction, which is written, or applied to the parameter.
 *   5. Bases that are due are refreshed (SOAP).
 *   6. Steps are counted.
 * The methods (optimizer_step.c) are the same for every device; what they do to the numbers of a
 * group of blocks is the device's (struct gram_optimizer_passes, which cpu_optimizer.c and
 * cuda_optimizer.c fill in).  On a GPU a pass only queues.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_OPTIMIZER_STEP_H
#define GRAM_OPTIMIZER_STEP_H
#include "optimizer.h"

struct gram_optimizer_job {
    gram_context *g;
    gram_optimizer *o;
    const struct gram_optimizer_op *op;
    const struct gram_optimizer_passes *passes;
    bool capturing; /* into a graph, which is replayed for later steps as well */
};

/* Blocks that a pass does together.  On a CPU a group is one block, in the hands of one thread; on
 * a GPU it is a wave of blocks of one kind, whose slots and shape are the same. */
struct gram_optimizer_group {
    const struct gram_optimizer_job *job;
    const struct gram_optimizer_block *b; /* one of them */
    const int64_t *kind;                  /* all blocks of the kind, by their numbers */
    int64_t count;                        /* of the kind */
    bool own; /* this rank does them, and a CPU knows that their parameter does not rest */
};

typedef gram_status gram_optimizer_pass(struct gram_optimizer_group *u);

/* X is the array of a block, which passes change in turn. */
struct gram_optimizer_passes {
    /* Nothing is written before this has found which parameters rest. */
    gram_status (*find_resting)(struct gram_optimizer_job *job);
    /* Body for all groups; without others only for those that this rank does. */
    gram_status (*for_groups)(struct gram_optimizer_job *job, gram_optimizer_pass *body,
                              bool others);
    gram_status (*count_step)(struct gram_optimizer_job *job);

    /* X = the gradient G with L2's decay; 0 where the parameter rests. */
    gram_optimizer_pass *gather;
    /* L_k = keep L_k + take X_k X_k^T for every dimension k with a factor, X_k being X with
     * dimension k as rows. */
    gram_status (*accumulate)(struct gram_optimizer_group *u, double keep, double take);
    /* Shampoo's filter and graft: V and M take X in, X = F, and the graft's step for F is kept. */
    gram_optimizer_pass *filter;
    /* Adam: V and M take X in, X = M / (sqrt(V) + epsilon), with Muon's corrections. */
    gram_optimizer_pass *adapt;
    /* X = X times root k along its first dimension, which becomes the last one: after all k the
     * shape is what it was. */
    gram_status (*multiply_root)(struct gram_optimizer_group *u, int k);
    /* X in the coordinates of basis k, or with back out of them. */
    gram_status (*project)(struct gram_optimizer_group *u, int k, bool back);
    /* X has the norm of the graft's step. */
    gram_optimizer_pass *scale_to_graft;
    /* SOAP: X has its corrections, and with options.normalize a root mean square of 1. */
    gram_optimizer_pass *scale_to_mean;
    /* X = s X. */
    gram_status (*scale)(struct gram_optimizer_group *u, double s);
    /* Muon: B takes X in, X = B, or X + momentum B. */
    gram_optimizer_pass *add_momentum;
    /* Muon: X = gram_muon_orthogonalise(X). */
    gram_optimizer_pass *orthogonalise;
    /* Decoupled decay and the momentum of directions; X is the direction, or where no pass has made
     * one the graft's step, and goes to the caller or changes the parameter:
     *   W = W - learning_rate X. */
    gram_optimizer_pass *finish;

    /* Roots, and bases, that are due, for all groups of this rank. */
    gram_status (*refresh_roots)(struct gram_optimizer_job *job);
    gram_status (*refresh_bases)(struct gram_optimizer_job *job);
};

/* Does the step; job->passes is the device's. */
gram_status gram_optimizer_run(struct gram_optimizer_job *job);

/* True if the factors of a parameter take its gradient in.  In a graph it is that of all steps or
 * of none: where roots are taken. */
bool gram_optimizer_takes_now(const struct gram_optimizer_job *job, int64_t parameter);
/* True if a block's roots are due in this step. */
bool gram_optimizer_due_now(const struct gram_optimizer_job *job,
                            const struct gram_optimizer_block *b);

/* ---- Methods --------------------------------------------------------------------------------- */

/* Does a root X that was taken for the power -k / q fit its factor L (options.skip)?
 *   |X^(q/2) (L + ridge I)^k X^(q/2) - I|_F <= skip sqrt(n)
 * The device shifts L and looks at the product, which is y in the end. */
struct gram_shampoo_product {
    void *shifted, *root; /* L + ridge I, and X */
    void *y, *z;          /* two matrices that products go to in turn */
};

/* to = a b */
typedef gram_status gram_shampoo_product_of(const void *user, const void *a, const void *b,
                                            void *to);

/* Makes the product, but for the order of its factors, which commute. */
gram_status gram_shampoo_multiply(gram_shampoo_product_of *multiply, const void *user,
                                  const struct gram_optimizer_block *b,
                                  struct gram_shampoo_product *p);

/* True if a block's bases are due: the first ones, or in the step that its turn comes. */
bool gram_soap_due(const struct gram_optimizer_job *job, const struct gram_optimizer_block *b);

/* SOAP's next bases Q of factors L of one order.  Outcomes are the device's: a pass leaves alone
 * what has failed or stays as it is, or makes what nobody reads. */
struct gram_soap_basis_ops {
    gram_status (*multiply)(void *of); /* P = Q L */
    gram_status (*rotate)(void *of);   /* R = P Q^T, where judge looks at it */
    /* Those whose P is not finite have failed. */
    gram_status (*check_finite)(void *of);
    /* Those stay whose R is nearly diagonal: |R off the diagonal|_F <= skip |R|_F. */
    gram_status (*judge)(void *of);
    /* The rows of P by falling q L q^T, q being the row of Q. */
    gram_status (*sort)(void *of);
    /* These rows orthonormal, from the first to the last. */
    gram_status (*orthonormalise)(void *of);
};

gram_status gram_soap_iterate(const struct gram_soap_basis_ops *ops, void *of, double skip);

/* One basis of a block or of a batch of blocks, and the moments in its coordinates. */
struct gram_soap_refresh_ops {
    gram_status (*load)(void *of); /* L and Q */
    /* The new basis: first, the eigenvectors of L, else that of gram_soap_iterate.  What has become
     * of it is counted. */
    gram_status (*find_basis)(void *of, bool first);
    gram_status (*load_moments)(void *of); /* M, and V in the order of the new vectors */
    gram_status (*leave_basis)(void *of);  /* M = M times Q^T along the dimension */
    gram_status (*enter_basis)(void *of);  /* M = M times the new Q */
    gram_status (*store_moments)(void *of);
    gram_status (*store)(void *of); /* the new basis, where there is one */
};

gram_status gram_soap_refresh(const struct gram_soap_refresh_ops *ops, void *of, bool first);

/* Muon's orthogonalisation of X, a matrix or several of one shape: what the device does in it. */
struct gram_muon_ops {
    /* X = X / max(|X|, epsilon). */
    gram_status (*normalise)(void *x);
    /* P = a I + b Y + c Y Y of Y = X X^T, X having its smaller side as rows. */
    gram_status (*polynomial)(void *x, double a, double b, double c);
    /* X = P X; last: it is the result. */
    gram_status (*apply)(void *x, bool last);
};

gram_status gram_muon_orthogonalise(const struct gram_muon_ops *ops, void *x, int steps);
#endif
