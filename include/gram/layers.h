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
    GRAM_LAYER_GROUP_NORM = 4, /* instance normalisation has as many groups as channels */
} gram_layer_kind;

/*
 * A layer of a network, seen from what goes in (activations a) and from the gradients of a loss
 * with respect to what comes out (g), one sample of N after the other.  Shapes, with S positions in
 * any number of dimensions (none: one position):
 *   GRAM_LAYER_LINEAR: a (N, S..., I), g (N, S..., O), weight (O, I), bias (O);
 *   GRAM_LAYER_CONVOLUTION: a (N, I, X...), g (N, O, Y...), weight (O, I / groups, kernel...), bias
 *     (O), X, Y and kernel of `spatial` dimensions, Y = (X + 2 padding - dilation (kernel - 1) - 1)
 *     / stride + 1, rounded down; the positions S are Y;
 *   GRAM_LAYER_EMBEDDING: a (N, S...) of i32 or i64, the rows, g (N, S..., O), weight (rows, O);
 *   GRAM_LAYER_NORM: a (N, S..., D...), g the same shape, weight and bias (D...), D of `normalized`
 *     dimensions, over which an example's position has its mean and its variance;
 *   GRAM_LAYER_GROUP_NORM: a (N, I, S...), g the same shape, weight and bias (I), mean and variance
 *     over the positions and the channels of one of `groups` groups.
 * a and g have one dtype, f32, f64, f16 or bf16 (but the rows of an embedding), and any strides.
 * Members that a kind does not name are not read.
 */
typedef struct gram_layer {
    size_t size;
    gram_layer_kind kind;
    int bias;    /* it has one */
    int spatial; /* 1, 2 or 3: how many of the following count */
    int64_t kernel[3], stride[3], padding[3], dilation[3];
    int64_t groups;
    int64_t rows;        /* of an embedding's table */
    int64_t padding_row; /* the one without a gradient; negative: every row has one */
    int normalized;      /* at least 1 */
    double epsilon;      /* added to the variance; more than 0 */
} gram_layer;

/* clang-format off */
#define GRAM_LAYER_INIT                                                                            \
    {sizeof(gram_layer), GRAM_LAYER_LINEAR, 0, 2, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1,   \
     0, -1, 1, 1e-5}
/* clang-format on */

/* How the norms of linear layers and convolutions are found. */
typedef enum gram_sample_method {
    GRAM_SAMPLE_AUTO = 0,   /* ghost norms where 2 S^2 <= I O, of one group */
    GRAM_SAMPLE_GHOST = 1,  /* from products of positions: |W|^2 = <a a^T, g g^T> */
    GRAM_SAMPLE_BLOCKS = 2, /* from the gradient, a block of it at a time */
} gram_sample_method;

typedef struct gram_sample_grad_options {
    size_t size;
    double scale; /* multiplies g: N where the loss is a mean over the samples; finite */
    double clip;  /* the largest norm C of what a sample adds to a sum; 0: any */
    /* (N), of the outputs' dtype, finite, instead of clip: what each sample is multiplied by in a
     * sum; a norm over several layers gives all of them one.  NULL: 1, or from clip. */
    const gram_tensor *coefficients;
    int accumulate; /* norms become sqrt(norms^2 + this layer's), sums are added to what they hold
                     */
    gram_sample_method method;
} gram_sample_grad_options;

/* clang-format off */
#define GRAM_SAMPLE_GRAD_OPTIONS_INIT                                                              \
    {sizeof(gram_sample_grad_options), 1, 0, NULL, 0, GRAM_SAMPLE_AUTO}
/* clang-format on */

/* What is wanted of gram_sample_grad; NULL: not wanted. */
typedef struct gram_sample_grads {
    gram_tensor *weight, *bias;         /* (N, the weight's shape), (N, the bias's shape) */
    gram_tensor *norms;                 /* (N) */
    gram_tensor *sum_weight, *sum_bias; /* the shapes of weight and bias */
} gram_sample_grads;

/*
 * The gradients of each sample's loss with respect to the parameters of one layer, from a and g:
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
 * | | being the norm of this layer alone.  A sample with c = 0 is left out, whatever it holds; with
 * clip, so is one whose norm is not finite, so that a sum is never further than N C from 0 (norms
 * tell which those are).  Where norms are shared over layers, gather them with accumulate, then
 * give coefficients.
 *
 * Outputs are f64 where g is, else f32; any strides; they overlap nothing.  A sample's gradient and
 * norm depend on that sample alone (a NaN stays in it) and not on the number of threads.  The norm
 * of a sample takes the cheaper of S^2 (I + O) and S I O operations and never N gradients: scratch
 * is blocks of patches, of at most 2 MiB or 256 positions, and of gradients, for each thread, and
 * one gradient where sums are wanted (an embedding's in f64).  Ghost norms have an absolute error
 * of about S eps sum_st |a_s . a_t| |g_s . g_t| in their square.  Norms and statistics are summed
 * in f64.  GRAM_INVALID_ARGUMENT: also a row of an embedding that is not in its table.
 *
 * On CUDA calls only enqueue, and results are the same bits in every run.  Patches are made in
 * shared memory, and a norm has one number of a tile of 64 by 64 in scratch; sums in parts have, at
 * most, 8 such tiles a processor, an embedding two i32 a position, normalisations two f64 a mean.
 * f32 is multiplied in f32.  The values of coefficients are not looked at, and a row that is not in
 * its table cannot be refused: the sample's norm is NaN, and sums are without that position.
 * GRAM_UNSUPPORTED: more than 2^30 positions, or 2^31 samples or features of all groups.
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

/* What positions share a weight as: in a sum of terms, or as one term. */
typedef enum gram_kfac_setting {
    GRAM_KFAC_EXPAND = 0,
    GRAM_KFAC_REDUCE = 1,
} gram_kfac_setting;

typedef struct gram_kfac_factors_options {
    size_t size;
    gram_kfac_setting setting;
    double scale; /* multiplies g: N R where the loss is a mean over N samples and R terms each */
    double keep;  /* 0 to 1: a factor becomes keep * itself + (1 - keep) * the new one */
} gram_kfac_factors_options;

/* clang-format off */
#define GRAM_KFAC_FACTORS_OPTIONS_INIT                                                             \
    {sizeof(gram_kfac_factors_options), GRAM_KFAC_EXPAND, 1, 0}
/* clang-format on */

/*
 * The Kronecker factors of a layer's curvature, F ~ N B (x) A on [W b] of a summed loss (B (x) A of
 * the mean), from a and g as gram_sample_grad takes them.  a' is the patch or row a with a 1 behind
 * it where layer.bias is set (columns in the order of W's, then the bias):
 *   GRAM_KFAC_EXPAND: A = 1 / (N S) sum_{n,s} a'[n,s] a'[n,s]^T,
 *                     B = 1 / N     sum_{n,s} g[n,s] g[n,s]^T;
 *   GRAM_KFAC_REDUCE: A = 1 / N     sum_n u[n] u[n]^T,  u[n] = 1 / S sum_s a'[n,s],
 *                     B = 1 / N     sum_n v[n] v[n]^T,  v[n] = sum_s g[n,s].
 * g is the gradient of the sum of the samples' losses.  That of another loss is multiplied by
 * options.scale first: a mean over N samples has scale N, and one over the R terms of each of them
 * too (tokens, say) has N R.
 *
 * a_factor is I' by I', I' = I (a convolution: I / groups times the kernel's size) + bias; b_factor
 * O by O.  A convolution of several groups has one of each a group: (groups, I', I') with
 * I / groups, and (groups, O / groups, O / groups).  An embedding's A is diagonal and given as a
 * vector of its rows, in the reduce setting too, where that is its diagonal alone; the padding row
 * counts neither in A nor in B.  Normalisations have no factors.  Either may be NULL, and then what
 * it is made of too.  f64 where g (or a) is, else f32; any strides, both triangles, exactly
 * symmetric if it was before.  N or S of 0 gives keep * itself.  Patches are never stored but, on
 * the CPU, for blocks of 2 MiB or 256 positions.  With keep 0 factors are not read.
 * GRAM_INVALID_ARGUMENT: also a row of an embedding that is not in its table; on a CUDA device,
 * where nothing waits, that makes all of a_factor NaN.
 *
 * CPU and CUDA.  There a factor is summed in f32 (f64) in tiles of 64 by 64, whose positions come
 * through shared memory; where g or a lies as a matrix of the factor's dtype, or of halves whose
 * factor is f32, with 64 features or more it is cuBLAS's product.  Scratch: the lower triangle of a
 * factor, a few times where there are many positions and few features; REDUCE: the samples' sums.
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
 * The rows of J are the gradients of N samples' log likelihoods with respect to all P parameters.
 * For the exact Fisher they are the Jacobians of the outputs times factors of the likelihood's
 * Hessian, a row each, times sqrt(rows / samples).
 *
 * gradients is N by P, v and out have P elements (out may be v itself); f32 or f64, one dtype, any
 * strides; batches of gradients, v and damping broadcast.  damping > 0.  N = 0 gives v / damping.
 * info: int32, one an item, or NULL: 0, or i > 0 where the factorisation broke down at order i (NaN
 * counts as such): that item's out is NaN, others are unharmed, and the status is GRAM_OK if info
 * was given, else GRAM_NUMERICAL.  On a CUDA device nothing waits: the status does not depend on
 * numbers there, and damping in a tensor is not looked at.
 *
 * By Cholesky's factorisation of the smaller Gram matrix: P by P, or where P > N that of N by N
 * (Sherman, Morrison, Woodbury), which costs N^2 P:
 *   out = (v - J^T (J J^T / N + damping I)^-1 J v / N) / damping.
 * The relative error is of the order of eps times the condition of J^T J / N + damping I.  Scratch:
 * the matrix (of all items on a device), a copy of gradients without a unit stride, and vectors.
 * CPU and CUDA; sizes up to 2^31 - 1.  Amari, Natural gradient works efficiently in learning,
 * Neural Computation 10 (1998).
 */
GRAM_API gram_status gram_natural_gradient(gram_context *g, const gram_tensor *gradients,
                                           const gram_tensor *v, gram_scalar damping,
                                           gram_tensor *out, gram_tensor *info);

GRAM_API gram_status gram_natural_gradient_workspace(gram_context *g, const gram_tensor *gradients,
                                                     const gram_tensor *v, gram_scalar damping,
                                                     const gram_tensor *out, gram_workspace *need);

/* ---- K-FAC --------------------------------------------------------------------------------- */

/* The second moments of the layers of a network, and what they make of its gradients. */
typedef struct gram_kfac gram_kfac;

typedef enum gram_kfac_damping {
    GRAM_KFAC_FACTORED = 0, /* each factor has its part, by Cholesky's factorisation */
    GRAM_KFAC_EXACT = 1,    /* of the Kronecker product, in its eigenvectors */
} gram_kfac_damping;

typedef struct gram_kfac_options {
    size_t size;
    int corrected; /* EKFAC: eigenvalues from gradients of samples; damping EXACT */
    gram_kfac_damping damping;
    double lambda;             /* added to the curvature, more than 0 */
    double decay;              /* of the factors' averages, 0 to 1 */
    double kl_clip;            /* bounds the directions through nu, see gram_kfac_create; 0: none */
    gram_kfac_setting setting; /* see gram_kfac_factors */
    double scale;              /* see gram_kfac_factors */
    gram_dtype state; /* of averages, inverses, work: GRAM_F64, or GRAM_F32 for half of it */
} gram_kfac_options;

/* clang-format off */
#define GRAM_KFAC_OPTIONS_INIT                                                                     \
    {sizeof(gram_kfac_options), 0, GRAM_KFAC_FACTORED, 1e-3, 0.95, 1e-3, GRAM_KFAC_EXPAND, 1,      \
     GRAM_F64}
/* clang-format on */

/*
 * K-FAC and EKFAC, with F being B (x) A for every layer by itself:
 *   direction = (F + lambda I)^-1 gradient.
 *
 * create makes the state for count layers (linear, convolution, embedding without a bias; others
 * GRAM_UNSUPPORTED); inputs[i] and outputs[i] are I and O of layer i (an embedding's inputs are not
 * read).  All numbers are of options.state, and so is the arithmetic with them: of a layer with
 * factors of order m and n, in each of its groups, 2 (m^2 + n^2) + m + n (of an embedding 2 n^2 +
 * 2 m + n), with corrected m n more; besides the gradient of all layers once, and four pieces of
 * work as large as the largest matrix, of 65536 numbers at least; each of these three rounded up to
 * 16 numbers.  They are allocated here; later calls take scratch from their context alone.  *out is
 * NULL on an error.
 *
 * update takes what went into layer `index` and the gradients of what came out, as
 * gram_kfac_factors does, and moves the averages of A and B towards the factors of these.  The
 * k'th update is
 *   A <- keep A + (1 - keep) A_new,  keep = min(1 - 1 / k, decay),  and B likewise.
 * Where the new factors are not finite nothing changes but gram_kfac_info's skipped: NaN does not
 * poison the averages.  With corrected it moves the eigenvalues
 *   s[i][j] = E_n[(qb_i^T G_n qa_j)^2]
 * likewise, G_n being the gradient of sample n in [W b] (not of embeddings); these averages begin
 * anew when the eigenvectors do.  A linear layer whose positions are cheaper to multiply by the
 * eigenvectors than its samples' gradients has its positions multiplied, and every other layer the
 * gradients, in blocks that fit into the memory to work in.  feed takes new A and B that the caller
 * has (summed over processes, say) in the shapes of gram_kfac_factors; either may be NULL.  A
 * number that is too large for the dtype of the state is not finite.
 *
 * refresh makes the inverses of the factors, or their eigenvectors and eigenvalues:
 *   FACTORED: (A + pi sqrt(lambda) I)^-1,
 *             (B + sqrt(lambda) / pi I)^-1,  pi^2 = (tr A / m) / (tr B / n);
 *   EXACT:    A = Qa diag(da) Qa^T,
 *             B = Qb diag(db) Qb^T,          s = db da^T.
 * m and n are the orders of A and B.  pi lies within 1e-4 and 1e4, and is 1 where a trace is 0.
 * What is added to a factor is at least 4 eps times its trace (of all groups), below which there is
 * only rounding, eps being that of options.state.  Where Cholesky's factorisation breaks down, and
 * for EXACT, eigenvalues below 0 are taken as 0.  A layer whose factors have no inverse keeps the
 * previous one and is counted in gram_kfac_info's failed.
 *
 * precondition, M being [W b] of the gradient of a layer, s the average of update where
 * options.corrected is set, and / going element by element:
 *   FACTORED: V = B^-1 M A^-1, with the inverses that refresh made,
 *   EXACT:    V = Qb ((Qb^T M Qa) / (s + lambda)) Qa^T,
 *   direction = nu V,  nu = min(1, sqrt(kl_clip / |sum lr^2 <V, M>|)),
 * where the sum goes over all layers and lr is learning_rate, which is used for nu alone.  A layer
 * before its first refresh has V = M.  weights and biases have count entries each, of the
 * parameters' shapes (biases NULL, or an entry, where there is none); f32 or f64, any strides;
 * to_weights and to_biases get the directions and may be the gradients themselves.  GRAM_NUMERICAL,
 * with nothing written, where a gradient is not finite.
 *
 * set changes lambda, decay, kl_clip and scale between calls (lambda counts from the next refresh
 * on where damping is FACTORED); the others are refused where they differ.
 *
 * save writes the state as a safetensors file, whole or not at all; load reads it into an object of
 * the same layers and options (the same state too), which is unchanged on an error.  state_at gives
 * part `index` of the state by name, as a view that lives as long as the object ("0.a", "0.b",
 * "0.a_inverse" or "0.a_vectors", ..., "0.counts"); GRAM_INVALID_ARGUMENT behind the last one.  put
 * takes a part from a dense tensor of the CPU, of the dtype and shape that state_at gives, whose
 * numbers are finite and whose counts could be; it waits.  (On a device it is the way to change
 * counts, of which the host keeps a copy; other numbers may be written through the view.)
 *
 * CPU and CUDA.  On a device the state is in its memory, all tensors are too, and every call takes
 * the context that made the object, which is destroyed before it (others are refused; on the CPU
 * one context at a time).  update, feed, refresh and precondition only queue, and the device
 * decides: what is not finite is left out there; a factor that Cholesky's factorisation refuses
 * keeps the layer's previous inverses and counts as failed; where a gradient is not finite all
 * directions are 0, nu is 0, and the call counts as skipped, the status being GRAM_OK.  get, save
 * and load wait.  Files are the same on every device.  All four can be captured in a graph (for
 * eigenvectors refresh takes the drivers of gram_eigh that can) once each has run as it is
 * captured: what a call queues depends on whether the layer has been refreshed, so that a graph
 * from before the first refresh has no corrections, and directions that are gradients.
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

/* What became of it, counted since it was created (not saved). */
typedef struct gram_kfac_info {
    size_t size; /* set by the caller to sizeof(gram_kfac_info) */
    int64_t layers, parameters;
    int64_t bytes;   /* of all memory */
    int64_t states;  /* parts that gram_kfac_state_at gives */
    int64_t skipped; /* updates that were not finite; on a device directions too */
    int64_t failed;  /* layers in a refresh that kept what they had */
    double nu;       /* of the last precondition; 1 before */
} gram_kfac_info;

/* Fills in info, as much of it as info->size covers. */
GRAM_API gram_status gram_kfac_get(gram_context *g, const gram_kfac *kfac, gram_kfac_info *info);

#ifdef __cplusplus
}
#endif
#endif
