/*
 * reference.h - every operation as its formula says, one element at a time, in double
 *
 * Slow and obvious: the specification, and the oracle of the tests.  Sees only gram.h.  Tensors of
 * any dtype are read; each function gives one element of one item, or fills arrays of doubles.
 * One file an operation: reference_<op>.c.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_REFERENCE_H
#define GRAM_REFERENCE_H
#include "gram/gram.h"
#include <stdbool.h>

/* Element [item of batch][i][j] of a tensor whose batch dimensions broadcast to batch. */
struct reference_batch {
    int ndim;
    int64_t shape[GRAM_MAX_DIMS];
    int64_t count;
};

/* The joined batch of n tensors, tensor i having core[i] dimensions of its own; NULL ones skipped.
 */
struct reference_batch reference_join(int n, const gram_tensor *const *tensors, const int *core);

/* An element by its core indices (as many as core), at an item of the batch. */
double reference_element(const gram_tensor *t, const struct reference_batch *batch, int64_t item,
                         int core, const int64_t *index);
double reference_scalar(gram_scalar s, const struct reference_batch *batch, int64_t item);

/* reference_cdist.c: out[i, j] of gram_cdist */
double reference_cdist(const gram_tensor *x, const gram_tensor *y, gram_scalar p, int no_root,
                       const struct reference_batch *batch, const int64_t item_ij[3]);

/* reference_nearest.c: of n distances, the indices of the smallest `count` in ascending order, -1
 * where there are no more, and how many there are within the radius.  self is left out. */
int64_t reference_nearest(int64_t n, const double *distances, int64_t self, double radius,
                          int64_t count, int64_t *indices);

/* reference_reduce.c: the extreme of n values and the first place that has it (-1: none), and the
 * logarithm of the sum of exp(scale values[j]) */
double reference_extreme(int64_t n, const double *values, int least, int64_t *index);
double reference_logsumexp(int64_t n, const double *values, double scale);

/* reference_metric.c: out[i, j] of gram_cdist with a metric */
double reference_metric(const gram_tensor *x, const gram_tensor *y, const gram_distance *metric,
                        int no_root, const struct reference_batch *batch, const int64_t item_ij[3]);

/* reference_kernel.c: out[i, j] of gram_kernel, by its parts */
double reference_kernel(const gram_tensor *x, const gram_tensor *y,
                        const gram_kernel_options *options, const struct reference_batch *batch,
                        const int64_t item_ij[3]);
/* An element of x or y, divided by its length if options has lengths. */
double reference_coordinate(const gram_tensor *t, const gram_kernel_options *options,
                            const struct reference_batch *batch, const int64_t item_row_k[3]);
/* The inner sum; magnitude gets the sum of the absolute values of its terms. */
double reference_kernel_sum(const gram_tensor *x, const gram_tensor *y,
                            const gram_kernel_options *options, const struct reference_batch *batch,
                            const int64_t item_ij[3], double *magnitude);
/* What becomes of an inner sum: f, its weight or its bandwidth derivative; no regularization.  With
 * GRAM_COSINE norms is |x| |y|. */
double reference_covariance(const gram_kernel_options *options, const struct reference_batch *batch,
                            int64_t item, double sum, double norms);

/* reference_kernel.c: out[i, c] of gram_kernel_matmul, nothing added; magnitude gets the sum
 * of |v| and of |K v| */
double reference_kernel_matmul(const gram_tensor *x, const gram_tensor *y,
                               const gram_kernel_options *kernel, const gram_tensor *v,
                               const struct reference_batch *batch, const int64_t item_ic[3],
                               double magnitude[2]);

/* reference_cdist.c: the median of n numbers, those that are not NaN; it sorts them */
double reference_median(int64_t n, double *values);

/* The inputs of gram_cdist_grad and gram_agop. */
struct reference_grad {
    const gram_tensor *a, *b, *c, *d;
    gram_scalar p;
};

/* sgn(t) |t|^exponent, 0 where t = 0 */
double reference_signed_power(double t, double exponent);
/* reference_cdist.c: out[o, n, m] of gram_cdist_grad */
double reference_cdist_grad(const struct reference_grad *in, const struct reference_batch *batch,
                            const int64_t item_onm[4]);
/* reference_cdist.c: out[n, l] of gram_agop; points 0: as many as there are */
double reference_agop(const struct reference_grad *in, int64_t points,
                      const struct reference_batch *batch, const int64_t item_nl[3]);

/* reference_kernel_vjp.c: elements of the gradients of gram_kernel_vjp; y is x where it is NULL
 * there.  magnitude gets the sum of the absolute values of the terms. */
struct reference_vjp {
    const gram_tensor *x, *y, *grad;
    const gram_kernel_options *options;
};
/* grads.x (or, of_y, grads.y)[row, k] */
double reference_vjp_points(const struct reference_vjp *in, const struct reference_batch *batch,
                            const int64_t item_row_k[3], bool of_y, double *magnitude);
/* grads.regularization or grads.bandwidth */
double reference_vjp_scalar(const struct reference_vjp *in, const struct reference_batch *batch,
                            int64_t item, bool regularization, double *magnitude);
/* grads.lengths[k]; terms are those of x and y, whose coordinates count from the first row of y for
 * a function of differences */
double reference_vjp_length(const struct reference_vjp *in, const struct reference_batch *batch,
                            const int64_t item_k[2], double *magnitude);

/* reference_matmul_batched.c: out[i, j] of gram_matmul_batched, and of gram_syrk_ema, before being
 * what l held there; options are all given, magnitude gets the same formula of absolute values. */
double reference_matmul_batched(const gram_tensor *a, const gram_tensor *b,
                                const gram_matmul_options *options,
                                const struct reference_batch *batch, const int64_t item_ij[3],
                                double *magnitude);
double reference_syrk_ema(const gram_tensor *x, const gram_syrk_ema_options *options, double before,
                          const struct reference_batch *batch, const int64_t item_ij[3],
                          double *magnitude);

/* reference_kron.c: out[i, j] of gram_kron */
double reference_kron(const gram_tensor *const *factors, int count,
                      const struct reference_batch *batch, const int64_t item_ij[3]);

/* reference_kron.c: y[i, j] of gram_kron_matmul; options are all given */
struct reference_kron_matmul {
    const gram_tensor *x, *const *factors;
    int count;
    const gram_kron_options *options;
};
/* magnitude gets the same formula of absolute values. */
double reference_kron_matmul(const struct reference_kron_matmul *in,
                             const struct reference_batch *batch, const int64_t item_ij[3],
                             double *magnitude);
/* Of integers of at most 2^53, as it wraps around. */
uint64_t reference_kron_matmul_integer(const struct reference_kron_matmul *in,
                                       const struct reference_batch *batch,
                                       const int64_t item_ij[3]);

/* reference_kron.c: one item of gram_kron_matmul_vjp, of a product from the right, as
 * row-major arrays; the gradients are added to to_x and to_factor. */
struct reference_kron_vjp {
    int count;
    int64_t rows, size[GRAM_MAX_FACTORS][2];
    double alpha;
    const double *x, *grad, *factor[GRAM_MAX_FACTORS];
};
void reference_kron_matmul_vjp(const struct reference_kron_vjp *in, double *to_x,
                               double *const *to_factor);

/* reference_soap.c: SOAP of one tensor, row-major arrays of doubles.  Neither the tensor nor a
 * factor has more than REFERENCE_SOAP_MOST elements.  m, v and gg are 0 at first, step too. */
enum {
    REFERENCE_SOAP_MOST = 512
};
struct reference_soap {
    int order;
    int64_t shape[GRAM_MAX_DIMS];
    bool basis[GRAM_MAX_DIMS]; /* false: the dimension keeps its own coordinates */
    double beta1, beta2, shampoo_beta, epsilon;
    int64_t refresh;
    bool bias_correction, normalize;
    int64_t step; /* updates so far */
    double *m, *v;
    double *gg[GRAM_MAX_DIMS], *q[GRAM_MAX_DIMS];
};
/* The first gradient makes the bases and nothing else; each further one gives the update u, of
 * which the learning rate takes its part. */
void reference_soap_begin(struct reference_soap *s, const double *g);
void reference_soap_step(struct reference_soap *s, const double *g, double *u);

/* reference_muon.c: of a row-major matrix, with the bound of reference_soap.c; and Adam. */
struct reference_muon {
    int64_t rows, cols;
    double beta, dampening, epsilon;
    bool nesterov;
    int steps;
    double *momentum; /* 0 at first */
};
void reference_muon_step(struct reference_muon *s, const double *g, double *u);
struct reference_adam {
    double beta1, beta2, epsilon;
    bool bias_correction;
    int64_t step;
    double *m, *v; /* 0 at first */
};
void reference_adam_step(struct reference_adam *s, int64_t n, const double *g, double *u);

/* reference_solve.c: row-major arrays of doubles */
/* b (n by r) becomes a^-1 b by elimination with partial pivoting; a is destroyed. */
void reference_solve(int64_t n, int64_t r, double *a, double *b);
/* The worst column's |a x - b| / (|a| |x|) in the infinity norm, over the first rows of a and b
 * (a sample of a large system); INFINITY where something is NaN. */
double reference_solve_residual(int64_t rows, int64_t n, int64_t r, const double *a,
                                const double *x, const double *b);
/* |l u - a| / |a| in the infinity norm. */
double reference_product_residual(int64_t n, const double *l, const double *u, const double *a);

/* reference_krr_path.c: a fit of kernel ridge regression to one column */
struct reference_krr {
    int64_t n;
    const long double *k, *y, *weights; /* n by n, n, n */
    long double ridge;
    gram_krr_intercept intercept;
};
/* The fit to all rows but one (out -1: to all): alpha has n numbers, 0 for the row that is left
 * out; returned is the intercept, NaN where no rows are left to learn it from.  room has
 * (n + 1) (n + 2) numbers. */
long double reference_krr_fit(const struct reference_krr *r, int64_t out, long double *alpha,
                              long double *room);
/* y_i less what the fit to the other rows predicts there; room has (n + 1) (n + 3) numbers. */
long double reference_krr_residual(const struct reference_krr *r, int64_t i, long double *room);

/* reference_eigh.c: row-major arrays; a has no elements near overflow or underflow */
/* a = v diag(w) v^T, w ascending, vectors in the columns of v; a is destroyed. */
void reference_eigh(int64_t n, long double *a, long double *w, long double *v);
/* The eigenvalues alone, quicker; v has room for 2 n. */
void reference_eigenvalues(int64_t n, long double *a, long double *v, double *w);
/* |a v - v diag(w)| / |a| for k pairs, v n by k; |v^T v - I|; INFINITY where something is NaN. */
double reference_eigh_residual(int64_t n, int64_t k, const double *a, const double *w,
                               const double *v);
double reference_orthogonality(int64_t n, int64_t k, const double *v);

/* reference_matrix_power.c: x = (a + ridge I)^(numerator / denominator), negative eigenvalues of a
 * taken as 0; a is destroyed, v is n by n, w gets the eigenvalues of a, ascending. */
struct reference_matrix_power {
    int64_t n;
    int numerator, denominator;
    double ridge;
    bool relative; /* ridge times the largest eigenvalue */
    bool factor;   /* of an optimizer: a ridge that has a root of any matrix, gram.h */
    double power;  /* instead of the fraction; 0: this */
    double floor;  /* of eigenvalues, times the largest */
};
void reference_matrix_power(const struct reference_matrix_power *p, long double *a, long double *v,
                            long double *w, long double *x);
/* gram_matrix_power's error estimate of x, b being a with its ridge; r is n by n, t has room for
 * that and for 2 n. */
long double reference_matrix_power_error(const struct reference_matrix_power *p,
                                         const long double *b, const long double *x, long double *t,
                                         long double *r);

/*
 * reference_shampoo.c: one parameter under gram_optimizer_step with GRAM_SHAMPOO.  All is a list of
 * doubles in the parameter's row-major order; number is that of its first block in the optimizer.
 */
struct reference_shampoo;
struct reference_shampoo *reference_shampoo_create(const gram_optimizer_options *options, int ndim,
                                                   const int64_t *shape, int64_t number);
void reference_shampoo_destroy(struct reference_shampoo *r);
int64_t reference_shampoo_blocks(const struct reference_shampoo *r);
/* A step: the direction p for parameter w and gradient g; or nothing but zeros, and no step, where
 * g is NULL. */
void reference_shampoo_direction(struct reference_shampoo *r, const double *w, const double *g,
                                 double *p);
/* L_k (or X_k where root is set) of a block, element [i][j]. */
double reference_shampoo_matrix(const struct reference_shampoo *r, int64_t block, int k, bool root,
                                int64_t i, int64_t j);

/* reference_sample_grad.c: a layer with its tensors, and the sizes of one group */
struct reference_layer {
    const gram_layer *layer;
    const gram_tensor *a, *d; /* what goes in, and the gradients of what comes out */
    int64_t samples, positions, in, out;
};
/* Feature f of sample n at position s: of a patch, of one-hot rows, normalised; of a gradient. */
double reference_layer_input(const struct reference_layer *r, const int64_t n_s_f[3],
                             int64_t group);
double reference_layer_gradient(const struct reference_layer *r, const int64_t n_s_o[3],
                                int64_t group);
/* weight[n, o, i] (o of all groups; an embedding's i is the row; a normalisation has no i) and
 * bias[n, o] of gram_sample_grad; magnitude gets the sum of the absolute values of the terms. */
double reference_sample_weight(const struct reference_layer *r, const int64_t n_o_i[3],
                               double *magnitude);
double reference_sample_bias(const struct reference_layer *r, const int64_t n_o[2],
                             double *magnitude);
/* A[i, j] or B[i, j] of gram_kfac_factors; magnitude as above. */
double reference_kfac_factor(const struct reference_layer *r, bool reduced, bool gradients,
                             const int64_t group_ij[3], double *magnitude);
#endif
