/*
 * layers.h - layers of networks: gradients of every sample, natural gradients, K-FAC and EKFAC
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_LAYERS_H
#define GRAM_PUBLIC_LAYERS_H
#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Layers of networks -------------------------------------------------------------------- */

typedef enum gram_layer_kind {
    GRAM_LAYER_LINEAR = 0,
    GRAM_LAYER_CONVOLUTION = 1,
    GRAM_LAYER_EMBEDDING = 2,
    GRAM_LAYER_NORM = 3,
    GRAM_LAYER_GROUP_NORM = 4, /* instance normalisation: as many groups as channels */
} gram_layer_kind;

/*
 * A layer of a network, described by its inputs (the activations a) and by the gradients g of a
 * loss with respect to its outputs, for N samples.  With S positions in any number of dimensions
 * (none: one position), the shapes are:
 *   GRAM_LAYER_LINEAR: a (N, S..., I), g (N, S..., O), weight (O, I), bias (O);
 *   GRAM_LAYER_CONVOLUTION: a (N, I, X...), g (N, O, Y...), weight (O, I / groups, kernel...), bias
 *     (O), X, Y and kernel of `spatial` dimensions, Y = (X + 2 padding - dilation (kernel - 1) - 1)
 *     / stride + 1, rounded down; the positions S are Y;
 *   GRAM_LAYER_EMBEDDING: a (N, S...) of i32 or i64, the rows, g (N, S..., O), weight (rows, O);
 *   GRAM_LAYER_NORM: a (N, S..., D...), g the same shape, weight and bias (D...), D of `normalized`
 *     dimensions, over which an example's position has its mean and its variance;
 *   GRAM_LAYER_GROUP_NORM: a (N, I, S...), g the same shape, weight and bias (I), mean and variance
 *     over the positions and the channels of one of `groups` groups.
 * a and g have the same dtype, f32, f64, f16 or bf16 (except for the rows of an embedding), and any
 * strides.  Members that a kind does not use are not read.
 */
typedef struct gram_layer {
    size_t size;
    gram_layer_kind kind;
    int bias;    /* 1: the layer has a bias */
    int spatial; /* 1, 2 or 3: the number of spatial dimensions of the next four members */
    int64_t kernel[3], stride[3], padding[3], dilation[3];
    int64_t groups;
    int64_t rows;        /* of the table of an embedding */
    int64_t padding_row; /* the row without a gradient; negative: none */
    int normalized;      /* at least 1 */
    double epsilon;      /* added to the variance; above 0 */
} gram_layer;

/* clang-format off */
#define GRAM_LAYER_INIT                                                                            \
    {sizeof(gram_layer), GRAM_LAYER_LINEAR, 0, 2, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1,   \
     0, -1, 1, 1e-5}
/* clang-format on */

/* The method for the norms of linear layers and convolutions. */
typedef enum gram_sample_method {
    GRAM_SAMPLE_AUTO = 0,   /* ghost norms if 2 S^2 <= I O and there is one group */
    GRAM_SAMPLE_GHOST = 1,  /* from products of positions: |W|^2 = <a a^T, g g^T> */
    GRAM_SAMPLE_BLOCKS = 2, /* from blocks of the gradient, one at a time */
} gram_sample_method;

typedef struct gram_sample_grad_options {
    size_t size;
    double scale; /* a finite factor of g: N if the loss is a mean over the samples */
    double clip;  /* the largest norm C that a sample adds to a sum; 0: no limit */
    /* (N), with the dtype of the outputs, finite, instead of clip: the factor of each sample in
     * a sum.  With it, a norm over several layers can give all of them the same factor.  NULL:
     * 1, or from clip. */
    const gram_tensor *coefficients;
    int accumulate; /* norms become sqrt(norms^2 + n^2), with n of this layer; sums are added */
    gram_sample_method method;
} gram_sample_grad_options;

/* clang-format off */
#define GRAM_SAMPLE_GRAD_OPTIONS_INIT                                                              \
    {sizeof(gram_sample_grad_options), 1, 0, NULL, 0, GRAM_SAMPLE_AUTO}
/* clang-format on */

/* The outputs of gram_sample_grad; those that are NULL are not computed. */
typedef struct gram_sample_grads {
    gram_tensor *weight, *bias;         /* (N, shape of the weight), (N, shape of the bias) */
    gram_tensor *norms;                 /* (N) */
    gram_tensor *sum_weight, *sum_bias; /* the shapes of weight and bias */
} gram_sample_grads;

/*
 * The gradients of the loss of each sample with respect to the parameters of one layer, from a and
 * g:
 *   linear:         weight[n, o, i] = sum_s g[n, s, o] a[n, s, i],  bias[n, o] = sum_s g[n, s, o];
 *   convolution:    the same with the patch of a at position s for a[n, s, :], group by group;
 *   embedding:      weight[n, r, o] = sum over the s with a[n, s] = r of g[n, s, o];
 *   normalisations: weight[n, d] = sum_s g[n, s, d] x[n, s, d],  bias[n, d] = sum_s g[n, s, d],
 *                   x = (a - mean) / sqrt(variance + epsilon);
 * all times options.scale.  norms[n] is the Euclidean norm of weight[n] and, where layer.bias is
 * set, of bias[n] together.  The sums are
 *   sum_weight = sum_n c[n] weight[n],
 *   sum_bias   = sum_n c[n] bias[n],
 *   c[n]       = the given coefficient, else 1, or with clip C min(1, C / (|sample n| + 1e-6)),
 * where | | is the norm of this layer alone.  A sample with c = 0 is left out, whatever its values.
 * With clip, a sample whose norm is not finite is left out too, so that the norm of a sum is at
 * most N C; norms shows which samples those are.  For norms over several layers, collect them with
 * accumulate, and then pass coefficients.
 *
 * Outputs are f64 if g is f64, and f32 otherwise.  They have any strides, and overlap nothing.  The
 * gradient and the norm of a sample depend only on that sample (a NaN affects no other), and not on
 * the number of threads.  The norm of a sample takes S^2 (I + O) or S I O operations, whichever is
 * less, and never stores N gradients.  Scratch holds, for each thread, blocks of patches (of at
 * most 2 MiB or 256 positions) and of gradients, and one gradient if sums are requested (in f64 for
 * an embedding).  The square of a ghost norm has an absolute error of about S eps sum_st |a_s .
 * a_t| |g_s . g_t|.  Norms and statistics are summed in f64.  A row of an embedding that is not in
 * its table gives GRAM_INVALID_ARGUMENT.
 *
 * On CUDA, calls only enqueue work, and results have the same bits in every run.  Patches are
 * created in shared memory.  Scratch holds one number per tile of 64 by 64 for a norm, at most 8
 * such tiles per multiprocessor for sums, two i32 per position for an embedding, and two f64 per
 * mean for normalisations.  f32 is multiplied in f32.  The values of coefficients are not checked,
 * and a row that is not in its table cannot be refused: the norm of the sample is NaN, and sums
 * omit that position.  GRAM_UNSUPPORTED: there are more than 2^30 positions, or more than 2^31
 * samples, or features of all groups.
 *
 * Ghost norms: Li et al., Large language models can be strong differentially private learners,
 * ICLR 2022; the choice: Bu et al., Scalable and efficient training of large convolutional neural
 * networks with differential privacy, NeurIPS 2022.
 */
GRAM_API gram_status gram_sample_grad(gram_context *g, const gram_layer *layer,
                                      const gram_tensor *activations, const gram_tensor *gradients,
                                      const gram_sample_grad_options *options,
                                      const gram_sample_grads *out);

GRAM_API gram_status gram_sample_grad_workspace(gram_context *g, const gram_layer *layer,
                                                const gram_tensor *activations,
                                                const gram_tensor *gradients,
                                                const gram_sample_grad_options *options,
                                                const gram_sample_grads *out, gram_workspace *need);

/* The meaning of positions that share a weight: terms of a sum (EXPAND), or parts of one term
 * (REDUCE). */
typedef enum gram_kfac_setting {
    GRAM_KFAC_EXPAND = 0,
    GRAM_KFAC_REDUCE = 1,
} gram_kfac_setting;

typedef struct gram_kfac_factors_options {
    size_t size;
    gram_kfac_setting setting;
    double scale; /* a factor of g: N R if the loss is a mean over N samples with R terms each */
    double keep;  /* 0 to 1: a factor becomes keep * old + (1 - keep) * new */
} gram_kfac_factors_options;

/* clang-format off */
#define GRAM_KFAC_FACTORS_OPTIONS_INIT                                                             \
    {sizeof(gram_kfac_factors_options), GRAM_KFAC_EXPAND, 1, 0}
/* clang-format on */

/*
 * The Kronecker factors of a layer's curvature, F ~ N B (x) A on [W b] for a summed loss (B (x) A
 * for the mean), from a and g as gram_sample_grad takes them.  a' is the patch or row a, followed
 * by a 1 if layer.bias is set (the columns are in the order of those of W, then the bias):
 *   GRAM_KFAC_EXPAND: A = 1 / (N S) sum_{n,s} a'[n,s] a'[n,s]^T,
 *                     B = 1 / N     sum_{n,s} g[n,s] g[n,s]^T;
 *   GRAM_KFAC_REDUCE: A = 1 / N     sum_n u[n] u[n]^T,  u[n] = 1 / S sum_s a'[n,s],
 *                     B = 1 / N     sum_n v[n] v[n]^T,  v[n] = sum_s g[n,s].
 * g is the gradient of the sum of the samples' losses.  The gradient of another loss is first
 * multiplied by options.scale: for a mean over N samples the scale is N, and for a mean that also
 * runs over the R terms of each sample (for example, tokens) it is N R.
 *
 * a_factor is I' by I', where I' = I + bias (for a convolution, I / groups times the size of the
 * kernel, + bias), and b_factor is O by O.  A convolution with several groups has one factor of
 * each kind per group: (groups, I', I') and (groups, O / groups, O / groups).  The A of an
 * embedding is diagonal, and is given as a vector with one element per row; in the reduce setting,
 * it is only the diagonal of A.  The padding row counts neither in A nor in B.  Normalisations have
 * no factors.  a_factor or b_factor may be NULL, and so may then the tensor from which it is
 * computed.  The factors are f64 if g (or a) is f64, and f32 otherwise, with any strides.  Both
 * triangles are written, and are exactly symmetric if they were so before.  If N or S is 0, a
 * factor is multiplied by keep.  With keep 0, factors are not read.  Patches are never stored,
 * except on the CPU in blocks of 2 MiB or 256 positions.  A row of an embedding that is not in its
 * table gives GRAM_INVALID_ARGUMENT; on a CUDA device, where the call does not wait, it makes all
 * of a_factor NaN.
 *
 * CPU and CUDA.  On CUDA, a factor is summed in f32 (f64) in tiles of 64 by 64, with positions in
 * shared memory.  cuBLAS computes it if there are 64 features or more, and if g or a is stored as a
 * matrix with the dtype of the factor, or with a 16-bit dtype and an f32 factor.  Scratch holds the
 * lower triangle of a factor, several times if there are many positions and few features, and for
 * REDUCE the sums of the samples.
 *
 * Martens and Grosse, Optimizing neural networks with Kronecker-factored approximate curvature,
 * ICML 2015; Eschenhagen et al., Kronecker-factored approximate curvature for modern neural network
 * architectures, NeurIPS 2023.
 */
GRAM_API gram_status gram_kfac_factors(gram_context *g, const gram_layer *layer,
                                       const gram_tensor *activations, const gram_tensor *gradients,
                                       const gram_kfac_factors_options *options,
                                       gram_tensor *a_factor, gram_tensor *b_factor);

GRAM_API gram_status gram_kfac_factors_workspace(gram_context *g, const gram_layer *layer,
                                                 const gram_tensor *activations,
                                                 const gram_tensor *gradients,
                                                 const gram_kfac_factors_options *options,
                                                 const gram_tensor *a_factor,
                                                 const gram_tensor *b_factor, gram_workspace *need);

/* ---- Natural gradients --------------------------------------------------------------------- */

/*
 * The natural gradient of a small model:
 *   out = (J^T J / N + damping I)^-1 v.
 * The rows of J are the gradients of the log likelihoods of N samples with respect to all P
 * parameters.  For the exact Fisher matrix they are the rows of the Jacobians of the outputs,
 * multiplied by factors of the Hessian of the likelihood and by sqrt(rows / samples).
 *
 * gradients is N by P, and v and out have P elements (out may be v itself).  All are f32 or all are
 * f64, with any strides.  Batches of gradients, v and damping broadcast.  damping > 0.  N = 0 gives
 * v / damping.  info is NULL, or int32 with one value per item: 0, or i > 0 if the factorisation
 * broke down at order i (NaN counts as such).  The out of such an item is NaN, and the others are
 * unaffected.  The status is GRAM_OK if info was given, and GRAM_NUMERICAL otherwise.  On a CUDA
 * device the call does not wait: the status does not depend on numbers, and damping in a tensor is
 * not checked.
 *
 * The method is a Cholesky factorisation of the smaller Gram matrix, which is P by P or, if P > N,
 * N by N (Sherman, Morrison, Woodbury).  The latter costs N^2 P:
 *   out = (v - J^T (J J^T / N + damping I)^-1 J v / N) / damping.
 * The relative error is of the order of eps times the condition of J^T J / N + damping I.  Scratch
 * holds the matrix (for all items on a device), a copy of gradients that have no unit stride, and
 * vectors.  CPU and CUDA; sizes are at most 2^31 - 1.  Amari, Natural gradient works efficiently in
 * learning, Neural Computation 10 (1998).
 */
GRAM_API gram_status gram_natural_gradient(gram_context *g, const gram_tensor *gradients,
                                           const gram_tensor *v, gram_scalar damping,
                                           gram_tensor *out, gram_tensor *info);

GRAM_API gram_status gram_natural_gradient_workspace(gram_context *g, const gram_tensor *gradients,
                                                     const gram_tensor *v, gram_scalar damping,
                                                     const gram_tensor *out, gram_workspace *need);

/* ---- K-FAC --------------------------------------------------------------------------------- */

/* The state of K-FAC: second moments of the layers of a network, and their inverses. */
typedef struct gram_kfac gram_kfac;

typedef enum gram_kfac_damping {
    GRAM_KFAC_FACTORED = 0, /* each factor is damped by itself, with Cholesky factorisations */
    GRAM_KFAC_EXACT = 1,    /* the Kronecker product is damped, in its eigenvectors */
} gram_kfac_damping;

typedef struct gram_kfac_options {
    size_t size;
    int corrected; /* 1: EKFAC, with eigenvalues from gradients of samples; needs EXACT */
    gram_kfac_damping damping;
    double lambda;             /* added to the curvature, above 0 */
    double decay;              /* of the factors' averages, 0 to 1 */
    double kl_clip;            /* bounds the directions through nu, see gram_kfac_create; 0: none */
    gram_kfac_setting setting; /* see gram_kfac_factors */
    double scale;              /* see gram_kfac_factors */
    gram_dtype
        state; /* of averages, inverses and work: GRAM_F64, or GRAM_F32 for half the memory */
} gram_kfac_options;

/* clang-format off */
#define GRAM_KFAC_OPTIONS_INIT                                                                     \
    {sizeof(gram_kfac_options), 0, GRAM_KFAC_FACTORED, 1e-3, 0.95, 1e-3, GRAM_KFAC_EXPAND, 1,      \
     GRAM_F64}
/* clang-format on */

/*
 * K-FAC and EKFAC.  F is B (x) A for each layer separately:
 *   direction = (F + lambda I)^-1 gradient.
 *
 * gram_kfac_create creates the state for count layers (linear layers, convolutions, and embeddings
 * without a bias; others give GRAM_UNSUPPORTED).  inputs[i] and outputs[i] are I and O of layer i
 * (the inputs of an embedding are not read).  All numbers and the arithmetic with them have the
 * dtype options.state.  A layer with factors of order m and n has, for each of its groups, 2 (m^2 +
 * n^2) + m + n numbers (an embedding 2 n^2 + 2 m + n), and m n more with corrected.  In addition
 * there are the gradients of all layers once, and four work areas as large as the largest matrix,
 * with at least 65536 numbers.  Each of these three sizes is rounded up to 16 numbers.  All of this
 * is allocated here; later calls only take scratch from their context.  *out is NULL on an error.
 *
 * gram_kfac_update takes the activations and gradients of layer `index`, as gram_kfac_factors does,
 * and moves the averages of A and B towards their factors.  The k'th update is
 *   A <- keep A + (1 - keep) A_new,  keep = min(1 - 1 / k, decay),  and B likewise.
 * If the new factors are not finite, nothing changes except skipped in gram_kfac_info, so that NaN
 * does not spoil the averages.  With corrected, it moves the eigenvalues
 *   s[i][j] = E_n[(qb_i^T G_n qa_j)^2]
 * in the same way, where G_n is the gradient of sample n in [W b] (not for embeddings).  These
 * averages begin again when the eigenvectors change.  The eigenvectors are multiplied by the
 * positions of a linear layer if that is cheaper, and by the gradients of the samples otherwise, in
 * blocks that fit into the work areas.  gram_kfac_feed takes new A and B from the caller (for
 * example, sums over processes) in the shapes of gram_kfac_factors; either may be NULL.  A number
 * that is too large for the dtype of the state is not finite.
 *
 * gram_kfac_refresh computes the inverses of the factors, or their eigenvectors and eigenvalues:
 *   FACTORED: (A + pi sqrt(lambda) I)^-1,
 *             (B + sqrt(lambda) / pi I)^-1,  pi^2 = (tr A / m) / (tr B / n);
 *   EXACT:    A = Qa diag(da) Qa^T,
 *             B = Qb diag(db) Qb^T,          s = db da^T.
 * m and n are the orders of A and B.  pi is limited to 1e-4 to 1e4, and is 1 if a trace is 0.  The
 * number that is added to the diagonal of a factor is at least 4 eps times its trace (of all
 * groups), with the eps of options.state, since smaller numbers are lost to rounding.  If the
 * Cholesky factorisation breaks down, and for EXACT, eigenvalues below 0 count as 0.  A layer whose
 * factors have no inverse keeps the previous inverses, and is counted in failed of gram_kfac_info.
 *
 * gram_kfac_precondition computes the directions.  M is [W b] of the gradient of a layer, s is the
 * average of gram_kfac_update if options.corrected is set, and / is applied element by element:
 *   FACTORED: V = B^-1 M A^-1, with the inverses that refresh made,
 *   EXACT:    V = Qb ((Qb^T M Qa) / (s + lambda)) Qa^T,
 *   direction = nu V,  nu = min(1, sqrt(kl_clip / |sum lr^2 <V, M>|)),
 * The sum runs over all layers, and lr is learning_rate, which is used only for nu.  Before the
 * first refresh, V = M.  weights and biases have count entries each, with the shapes of the
 * parameters (biases, or one of its entries, is NULL if there is no bias); all are f32 or f64, with
 * any strides.  to_weights and to_biases receive the directions, and may be the gradients
 * themselves.  If a gradient is not finite, the call gives GRAM_NUMERICAL and writes nothing.
 *
 * gram_kfac_set changes lambda, decay, kl_clip and scale between calls.  If damping is FACTORED, a
 * new lambda takes effect with the next refresh.  A change of any other option is refused.
 *
 * gram_kfac_save writes the state as a safetensors file, completely or not at all.  gram_kfac_load
 * reads it into an object with the same layers and options (including state), which is unchanged on
 * an error.  gram_kfac_state_at returns part `index` of the state with its name ("0.a", "0.b",
 * "0.a_inverse" or "0.a_vectors", ..., "0.counts"), as a view that lives as long as the object; an
 * index behind the last part gives GRAM_INVALID_ARGUMENT.  gram_kfac_put sets a part from a dense
 * tensor on the CPU, with the dtype and shape of gram_kfac_state_at, with finite numbers and
 * possible counts; it waits.  On a device, this is the only way to change counts, of which the host
 * keeps a copy; other numbers may also be written through the view.
 *
 * CPU and CUDA.  On a device, the state and all tensors are in its memory.  Every call takes the
 * context that created the object (others are refused), and the object must be destroyed before
 * that context.  On the CPU, any context may be used, one at a time.  On a device, update, feed,
 * refresh and precondition only queue work, and decisions are made on the device.  Updates that are
 * not finite are left out.  A layer with a factor that has no Cholesky factorisation keeps its
 * previous inverses, and counts as failed.  If a gradient is not finite, all directions and nu are
 * 0, the call counts as skipped, and the status is GRAM_OK.  get, save and load wait.  Files are
 * the same on every device.  The four calls that queue work can be captured in a graph once each
 * has run in the form in which it is captured (refresh then uses the drivers of gram_eigh that can
 * be captured).  The work that a call queues depends on whether the layer has been refreshed: a
 * graph that was captured before the first refresh has no corrections, and its directions are the
 * gradients.
 *
 * Martens and Grosse, ICML 2015; George et al., Fast approximate natural gradient descent in a
 * Kronecker-factored eigenbasis, NeurIPS 2018.
 */
GRAM_API gram_status gram_kfac_create(gram_context *g, const gram_layer *const *layers,
                                      const int64_t *inputs, const int64_t *outputs, int64_t count,
                                      const gram_kfac_options *options, gram_kfac **out);
GRAM_PUBLIC void gram_kfac_destroy(gram_kfac *kfac);
GRAM_API gram_status gram_kfac_set(gram_context *g, gram_kfac *kfac,
                                   const gram_kfac_options *options);
GRAM_API gram_status gram_kfac_update(gram_context *g, gram_kfac *kfac, int64_t index,
                                      const gram_tensor *activations, const gram_tensor *gradients);
GRAM_API gram_status gram_kfac_feed(gram_context *g, gram_kfac *kfac, int64_t index,
                                    const gram_tensor *a_factor, const gram_tensor *b_factor);
GRAM_API gram_status gram_kfac_refresh(gram_context *g, gram_kfac *kfac);
GRAM_API gram_status gram_kfac_precondition(gram_context *g, gram_kfac *kfac, double learning_rate,
                                            const gram_tensor *const *weights,
                                            const gram_tensor *const *biases,
                                            gram_tensor *const *to_weights,
                                            gram_tensor *const *to_biases);
GRAM_API gram_status gram_kfac_save(gram_context *g, const gram_kfac *kfac, const char *path);
GRAM_API gram_status gram_kfac_load(gram_context *g, gram_kfac *kfac, const char *path);
GRAM_API gram_status gram_kfac_state_at(gram_context *g, gram_kfac *kfac, int64_t index,
                                        const char **name, gram_tensor *view);
GRAM_API gram_status gram_kfac_put(gram_context *g, gram_kfac *kfac, int64_t index,
                                   const gram_tensor *part);

/* Statistics of a K-FAC object.  Counts begin when it is created, and are not saved. */
typedef struct gram_kfac_info {
    size_t size; /* set by the caller to sizeof(gram_kfac_info) */
    int64_t layers, parameters;
    int64_t bytes;   /* of all memory */
    int64_t states;  /* the number of parts for gram_kfac_state_at */
    int64_t skipped; /* updates that were not finite; on a device also directions */
    int64_t failed;  /* layers that kept their inverses in a refresh */
    double nu;       /* of the last precondition; 1 before */
} gram_kfac_info;

/* Fills in the members of info that info->size covers. */
GRAM_API gram_status gram_kfac_get(gram_context *g, const gram_kfac *kfac, gram_kfac_info *info);

#ifdef __cplusplus
}
#endif
#endif
