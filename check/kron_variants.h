/*
 * kron_variants.h - one product with Kronecker factors, and its gradients, computed in several
 * variants
 *
 * For `gram check|bench|profile kron`: variants share the problem and differ in their results.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRON_VARIANTS_H
#define GRAM_KRON_VARIANTS_H
#include "check/harness/harness.h"

/* Matrices are row-major, as gram_kron_matmul has them.  `from the right` they are what a product
 * from the right has: views, transposed where the factors stand on the left. */
struct kron_problem {
    int count;
    int64_t m, p[GRAM_MAX_FACTORS], q[GRAM_MAX_FACTORS]; /* from the right */
    int64_t k, j;                                        /* products of them */
    gram_dtype dtype;
    gram_side side;
    bool gradients; /* the dtype has them */
    gram_tensor x, grad, factor[GRAM_MAX_FACTORS];
    double flop, bytes; /* of the forward call, and its least traffic */
};

struct kron_result {
    gram_tensor y, x, factor[GRAM_MAX_FACTORS]; /* gradients but for y */
    void *kept[GRAM_MAX_FACTORS + 1];           /* what a variant keeps between its calls */
};

struct kron_variant {
    const char *name;
    gram_status (*forward)(gram_context *g, const struct kron_problem *p, struct kron_result *out);
    gram_status (*backward)(gram_context *g, const struct kron_problem *p, struct kron_result *out);
    /* False where the product is too large for it. */
    bool (*fits)(const struct kron_problem *p);
};

/* "naive", "explicit", "shuffle", "gram"; name NULL at the end. */
extern const struct kron_variant kron_variants[];
const struct kron_variant *find_kron_variant(const char *name);

/* Sizes M, then P or PxQ for each factor; false with a message on stderr. */
bool kron_problem_open(struct harness *h, const struct case_args *args, struct kron_problem *p);
void kron_problem_close(struct kron_problem *p);
bool kron_result_open(const struct kron_problem *p, struct kron_result *r);
void kron_result_close(struct kron_result *r);

/* Output i of a result: y, the gradient of x, of each factor; NULL behind the last one. */
const gram_tensor *kron_output(const struct kron_problem *p, const struct kron_result *r, int i);

/* The largest difference over the largest element of a; NaN counts as infinity. */
double kron_difference(const gram_tensor *a, const gram_tensor *b);
/* What two right answers may differ by: a rounding a term of each factor's sums, and the root of
 * the number of terms for sums over everything else, as errors of random signs add. */
double kron_tolerance(const struct kron_problem *p);

/* The entries of case_kron (kron_tool.c). */
int kron_check(const struct case_args *args, const struct harness_options *options);
int kron_bench(const struct case_args *args, const struct harness_options *options);
bool kron_prepare(struct harness *h, const struct case_args *args, struct case_problem *out);
#endif
