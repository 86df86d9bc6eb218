/*
 * backend.h - the table each device fills in, and the operations it is asked for
 *
 * Private: a plugin is built from this tree and refused unless its version is ours.  Arguments are
 * already validated; a backend reports only what it alone can know.  Every operation has its struct
 * and its line in ops.def; it takes its scratch, and answers workspace queries, by scratch.h.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_BACKEND_H
#define GRAM_BACKEND_H
#include "expression.h"
#include "threads.h"
#include "view.h"

/* ---- Products of matrices ------------------------------------------------------------------ */

/* out = alpha a b + beta c */
struct gram_matmul_batched_op {
    struct gram_batch batch;
    struct gram_view a, b, out;
    struct gram_view c; /* where has_c: beta may be other than 0 */
    bool has_c, c_is_out;
    struct gram_hyper alpha, beta;
};

/* The same in pieces of no more than memory bytes; host_*: of the CPU's memory, on a device */
struct gram_matmul_chunked_op {
    struct gram_matmul_batched_op product;
    bool host_a, host_b, host_c, host_out;
    size_t memory;
    gram_loop *parallel; /* gram_parallel_for */
};

/* Whether there is nothing to compute. */
static inline bool gram_matmul_is_empty(const struct gram_matmul_batched_op *op)
{
    return op->batch.count == 0 || op->out.rows == 0 || op->out.cols == 0;
}

/* out^T = alpha b^T a^T + beta c^T */
static inline void gram_matmul_transpose(struct gram_matmul_batched_op *op)
{
    struct gram_view a = op->a;

    op->a = op->b;
    op->b = a;
    gram_view_transpose(&op->a);
    gram_view_transpose(&op->b);
    gram_view_transpose(&op->c);
    gram_view_transpose(&op->out);
}

/* l = beta l + weight x x^T, weight being alpha, or (1 - beta) alpha unless sum */
struct gram_syrk_ema_op {
    struct gram_batch batch;
    struct gram_view x, l; /* packed: l is a vector */
    struct gram_view info; /* where has_info */
    bool packed, sum, keep, has_info;
    struct gram_hyper beta, alpha;
};

/* (gradients^T gradients / rows + damping I) out = v */
struct gram_natural_gradient_op {
    struct gram_batch batch;
    struct gram_view gradients, v, out; /* v and out: vectors */
    struct gram_view info;              /* where has_info */
    bool has_info;
    struct gram_hyper damping;
};

/* ---- Solves -------------------------------------------------------------------------------- */

struct gram_solve_op {
    struct gram_batch batch;
    struct gram_view a, b, x;
    struct gram_view info, pivots; /* where has_info, has_pivots */
    struct gram_view factor;       /* where has_factor */
    bool has_info, has_pivots, has_factor;
    bool factored;            /* a is the factor */
    bool factor_is_a, x_is_b; /* in place */
    gram_uplo uplo;
    /* rcond, jitter and refine: */
    bool has_rcond, has_jittered, has_backward, has_refinings, refine;
    struct gram_view rcond, jittered, backward, refinings;
    const double *jitter;
    int jitters;
};

/* Leave-one-out residuals of kernel ridge regression: see gram_krr_path. */
struct gram_krr_path_op {
    struct gram_batch batch;
    struct gram_view k, y;
    struct gram_view weights; /* where has_weights */
    struct gram_view loo;     /* planes: of the ridges */
    /* Where their flags are set; planes, or rows of error, spread and offset: of the ridges. */
    struct gram_view error, spread, alpha, offset, info;
    bool has_weights, has_error, has_spread, has_alpha, has_offset, has_info;
    const double *ridges;
    int64_t count; /* of the ridges */
    gram_uplo uplo;
    gram_krr_path_method method; /* never AUTO */
    gram_krr_intercept intercept;
};

/* ---- Kronecker products -------------------------------------------------------------------- */

struct gram_kron_op {
    struct gram_batch batch;
    struct gram_view factor[GRAM_MAX_FACTORS], out;
    int count; /* of factors */
};

/* y = alpha x (factor[0] (x) factor[1] (x) ...) + beta z; factors on the left are seen as their
 * transposes on the right of the transposes of x, y and z. */
struct gram_kron_matmul_op {
    struct gram_batch batch;
    struct gram_view x, y;
    struct gram_view z; /* data NULL only where beta is the number 0, or z is empty */
    struct gram_view factor[GRAM_MAX_FACTORS];
    int count;     /* of factors */
    bool in_place; /* y is x */
    struct gram_hyper alpha, beta;
    int64_t after; /* indices behind those of the factors in a row of x and y; CUDA, 0: none */
};

/*
 * A tensor of any strides and [plane][item][row][column] without gaps: how the parts of a product
 * that several processes share are gathered for an exchange and put where they belong after it.
 */
struct gram_kron_move_op {
    struct gram_batch batch;
    struct gram_view view;  /* f32, f64, i32 or i64; planes, rows and columns of an item */
    void *dense;            /* element 0 of the other */
    bool gather;            /* dense = view; else view = dense + beta z */
    struct gram_view z;     /* as view; data NULL: none */
    struct gram_hyper beta; /* of z */
};

/* y = alpha x (factor 1 (x) ... (x) factor N), whatever the side: see kron_matmul_vjp.c */
struct gram_kron_matmul_vjp_op {
    struct gram_batch batch;
    struct gram_view x, factor[GRAM_MAX_FACTORS], grad;
    int count; /* of factors */
    struct gram_hyper alpha;
    /* Gradients, where wanted: stride 0 along the batch where they are summed over it. */
    struct gram_view to_x, to_factor[GRAM_MAX_FACTORS];
    bool want_x, want_factor[GRAM_MAX_FACTORS];
};

/* The trace, or the logarithm of the determinant, of a product of square factors. */
struct gram_kron_number_op {
    struct gram_batch batch;
    struct gram_view factor[GRAM_MAX_FACTORS], sign, out;
    int count;     /* of factors */
    int64_t order; /* of the product */
    bool has_sign;
};

/* x (factor 1 (x) ... (x) factor N) + shift x = b, whatever the side: see kron_solve.c */
struct gram_kron_solve_op {
    struct gram_batch batch;
    struct gram_view factor[GRAM_MAX_FACTORS], b, x, info;
    int count; /* of factors */
    gram_kron_method method;
    gram_uplo uplo;
    struct gram_hyper shift;
    bool has_info;
};

/* ---- Pairs of rows -------------------------------------------------------------------- */

/* How p = 2 is computed; anything but AUTO is for tests. */
enum gram_cdist_form {
    GRAM_FORM_AUTO,      /* whichever is faster here */
    GRAM_FORM_DIRECT,    /* a sum of squared differences */
    GRAM_FORM_EXPANSION, /* |x|^2 + |y|^2 - 2 x.y */
};

/* How a GPU multiplies by a kernel matrix; anything but AUTO is for tests and measurements. */
enum gram_matmul_form {
    GRAM_MATMUL_AUTO,   /* whichever is faster by the count */
    GRAM_MATMUL_PANELS, /* panels of the matrix in memory */
    GRAM_MATMUL_FUSED,  /* elements in registers, where they can be */
    GRAM_MATMUL_BLOCKS, /* the same, with one block of rows in each round of scratch */
    GRAM_MATMUL_TENSOR, /* the same with inner products by tensor cores, where they can be */
    GRAM_MATMUL_TENSOR_BLOCKS,
};

enum {
    GRAM_HYPERS = 9
};

/* A metric of rows.  weights: one row of k numbers per item; data NULL: all are 1. */
struct gram_metric_op {
    gram_distance_kind kind;
    bool no_root;
    bool prepared; /* CUDA: x, y and weights are those that metric_rows.cu wrote */
    struct gram_view weights;
    int64_t bits; /* of a row of bytes; 0: rows have numbers */
};

/*
 * out[i][j] = f(outer(sum_k step(x[i][k], y[j][k]))) + r on the diagonal: serves gram_cdist
 * (function GRAM_IDENTITY, outer power 1/p) and gram_kernel.
 */
struct gram_cdist_op {
    struct gram_batch batch;
    struct gram_view x, y, out;
    bool symmetric; /* x and y are one matrix, item by item */
    gram_inner inner;
    bool root; /* the outer power is 1/p (p = 0 and INFINITY: none) */
    gram_function function;
    gram_kernel_output output;
    union {
        struct {
            struct gram_hyper p;           /* the inner power: 0 .. INFINITY */
            struct gram_hyper outer_power; /* where root is not set */
            struct gram_hyper bandwidth, exponent, alpha, gamma, coef0, degree, regularization;
        };
        struct gram_hyper hyper[GRAM_HYPERS]; /* the same, one after the other */
    };
    /* GRAM_EXPRESSION: f, or f' where the output is the weight; else NULL */
    const struct gram_expression *expression;
    struct gram_hyper parameter[GRAM_MAX_PARAMETERS];
    int parameters;
    int64_t row_offset, column_offset;
    struct gram_view lengths; /* of coordinates, a vector: the front's, which divides x and y by
                                 them (lengths.c); data NULL where a backend gets the work */
    /* What takes the place of the sum of |d|^p; MINKOWSKI without weights: nothing does.  Metrics
     * that are a p-norm of other rows have its p. */
    struct gram_metric_op metric;
    bool condensed; /* out has no rows: see gram_condensed_at */
};

/* out = (in - centre) / lengths, column by column; out may be in */
struct gram_lengths_divide_op {
    const char *name; /* of in, for messages */
    struct gram_batch batch;
    struct gram_view in, out; /* out: f32 or f64; in: the same, or halves for f32 */
    struct gram_view lengths; /* a vector of out's dtype */
    struct gram_view centre;  /* a row of in's dtype, whose elements beyond GRAM_FAR_AWAY, or that
                                 are NaN, count as 0; data NULL: none */
};

/* Points that are as far from the origin as this are not moved to it. */
#define GRAM_FAR_AWAY 1e30

/* out[k] = -(sum_i x[i][k] to_x[i][k] + sum_j y[j][k] to_y[j][k]) / lengths[k], all of one dtype */
struct gram_lengths_grad_op {
    struct gram_batch batch;
    struct gram_view x, to_x, y, to_y;
    struct gram_view lengths, out; /* vectors */
};

/* The nearest rows of y of each row of x: see gram/nearest.h. */
struct gram_nearest_op {
    struct gram_cdist_op distance;               /* its out is not set */
    struct gram_view indices, distances, counts; /* where has_*; counts: a vector */
    bool has_indices, has_distances, has_counts;
    bool exclude_self;
    int64_t self;  /* row i of x is row self + i of y, where it is excluded */
    int64_t count; /* of the neighbours to store */
    double radius; /* INFINITY: none */
    void (*progress)(void *user, double fraction); /* or NULL */
    void *progress_user;
};

/* What is made of the rows of a kernel matrix: see gram/nearest.h. */
struct gram_kernel_reduce_op {
    struct gram_cdist_op kernel; /* its out is not set */
    gram_reduction what;
    double scale;
    struct gram_view v;            /* of GRAM_REDUCE_SOFTMAX */
    struct gram_view log_weights;  /* vectors, of the soft ones */
    struct gram_view out, indices; /* where has_*; vectors, but for GRAM_REDUCE_SOFTMAX */
    bool has_log_weights, has_out, has_indices;
    double *logarithms; /* of every row of every item, of the soft ones; NULL: not wanted */
};

struct gram_median_op {
    struct gram_batch batch;
    struct gram_view x, out;
    struct gram_hyper p;
    bool root;
    int64_t rows; /* to draw; no more than x has */
    uint64_t seed;
};

struct gram_kernel_matmul_op {
    struct gram_cdist_op kernel; /* its out is not set */
    struct gram_view v, out;
    bool accumulate;
    /* parts > 1: the sums of part number `part` of the pairs of a matrix that mirrors itself; the
     * sums of all parts add up to the product.  There is one item then, whose out lies without gaps
     * row by row, and is not accumulated. */
    int part, parts;
};

/* What a soft reduction of the kernel's rows adds to the gradients of a product: see
 * kernel_reduce_vjp.c. */
struct gram_soft_op {
    gram_reduction what; /* 0: there is none */
    double scale;
    struct gram_view log_weights, to_log_weights; /* vectors */
    bool has_log_weights, want_log_weights;
    /* Scratch of the front: the logarithm of every row of every item, without gaps, and of
     * GRAM_REDUCE_SOFTMAX the averages. */
    double *logarithms;
    struct gram_view averages;
};

struct gram_kernel_vjp_op {
    struct gram_cdist_op kernel; /* its out is not set */
    /* What multiplies x and y themselves in their gradients: values of these expressions; NULL:
     * nothing does. */
    const struct gram_expression *by_norm[2];
    /* What multiplies sgn(x_k - y_k) and x_k - y_k there, beside what s gives. */
    const struct gram_expression *by_sum[2];
    struct gram_view grad;
    struct gram_view x, y, bandwidth, regularization; /* gradients; data NULL: not wanted */
    bool want_x, want_y, want_bandwidth, want_regularization;
    struct gram_view lengths; /* the front's alone */
    bool want_lengths;
    /* Of gram_kernel_matmul_vjp: grad is m by r, and the cotangent of the kernel is grad v^T. */
    bool of_product;
    bool whole; /* y is x, whose gradient is the sum of both, in x */
    struct gram_view v, to_v;
    bool want_v; /* of a product: the front's alone */
    /* Of to_v, with x and y exchanged: the front's alone; of a reduction, itself.  NULL: no
     * expression. */
    const struct gram_expression *value;
    struct gram_soft_op soft; /* of_product too; of a logarithm, grad is a column, v is empty */
};

struct gram_cdist_grad_op {
    struct gram_batch batch;
    struct gram_view a, b, c, d, out; /* out: planes o, rows n, columns m */
    struct gram_hyper p;
};

struct gram_agop_op {
    struct gram_batch batch;
    struct gram_view a, b, c, d, out; /* diagonal: out is a vector */
    struct gram_hyper p;
    bool diagonal, accumulate;
    int64_t points;
};

/* LAPACK's symmetric eigenproblem of small matrices of doubles, on one thread of the host: for
 * backends that have no LAPACK of their own.  solve: 0, or LAPACK's info; see gram_blas_syevd. */
struct gram_small_eigh {
    void (*sizes)(int64_t n, int64_t *lwork, int64_t *liwork);
    int (*solve)(int64_t n, double *a, int64_t ld, double *w, double *work, int64_t lwork,
                 int32_t *iwork, int64_t liwork);
};

struct gram_eigh_op {
    struct gram_batch batch;
    struct gram_view a, values;   /* values: a vector */
    struct gram_view vectors;     /* where has_vectors */
    struct gram_view info, found; /* where has_info, has_found */
    bool has_vectors, has_info, has_found;
    bool in_place; /* vectors is a */
    gram_uplo uplo;
    bool by_value;        /* pairs with lower < value <= upper, as many as values has room for */
    double lower, upper;  /* else */
    int64_t first, count; /* these, counted in ascending order from 0 */
    gram_eigh_driver driver;
    gram_eigh_driver tuned; /* that AUTO takes if it does what is asked; AUTO: the table's */
    bool background;        /* what keeps the calling thread is done by one of the context's */
    /* Of GRAM_EIGH_DRIVER_KRYLOV. */
    double tolerance;
    int64_t products;
    uint64_t seed;
    const gram_operator *apply;                  /* the matrix, where a has no data; or NULL */
    const struct gram_kernel_matmul_op *product; /* its kernel is the matrix; or NULL */
    const struct gram_small_eigh *small_eigh;
    gram_eigh_report *report; /* or NULL */
};

struct gram_matrix_power_op {
    struct gram_batch batch;
    struct gram_view a, out;
    struct gram_view info, error; /* where has_info, has_error */
    bool has_info, has_error;
    int numerator, denominator; /* without a common factor; the denominator is positive */
    bool is_real;               /* the power is any number, and they are its sign and 1 */
    double power;               /* where is_real */
    double floor;               /* times the largest eigenvalue; 0: none */
    gram_power_method method;
    gram_power_precision precision;
    gram_uplo uplo;
    struct gram_hyper ridge;
    bool ridge_relative, keep;
    bool factor;                 /* a is a sum of squares: below 0 there is rounding alone */
    double condition, tolerance; /* 0: from the ridge; INFINITY: any */
    int iterations;
};

static inline double gram_power_exponent(const struct gram_matrix_power_op *op)
{
    return op->is_real ? op->power : (double)op->numerator / op->denominator;
}

struct gram_sample_grad_op; /* layer.h has both */
struct gram_kfac_factors_op;
struct gram_kfac_pass;
struct gram_scratch_before; /* scratch.h */

enum {
    GRAM_MODULE_OPTIONS_BYTES = 512,
    GRAM_KERNEL_NAME_BYTES = 128
};

struct gram_module_op {
    const char *source, *name, *options;
};

struct gram_launch_op {
    const char *kernel;
    unsigned grid[3], block[3];
    size_t shared_bytes;
    void *const *arguments;
};

/* What the backend's own modules begin with. */
struct gram_module {
    gram_context *g;
};

struct gram_optimizer_op; /* optimizer.h */
struct gram_krr_passes;   /* krr_passes.h */
struct gram_eigh_multi;   /* eigh.h */

struct gram_backend {
    const char *version; /* GRAM_VERSION where it was built; another one is refused */
    const char *name;    /* for messages: "the CPU" */

    /* Completes a new context; its failures are told by the context's message. */
    gram_status (*open)(gram_context *g);
    /* Undoes open, also one that failed.  NULL: there is nothing to undo. */
    void (*close)(gram_context *g);
    /* Fills in the device's part of gram_info. */
    void (*describe)(const gram_context *g, gram_info *info);
    /* A number below 2^16 for what measured times depend on. */
    uint64_t (*machine)(const gram_context *g);

    /* The device's part of scratch.h: gram_layout_open, gram_scratch_lend, gram_scratch_return. */
    gram_status (*scratch)(gram_context *g, size_t bytes, void **out);
    void (*scratch_lend)(gram_context *g, void *memory, size_t bytes,
                         struct gram_scratch_before *before);
    void (*scratch_return)(gram_context *g, const struct gram_scratch_before *before);

    /* What kernel ridge regression is made of: a table of its own. */
    const struct gram_krr_passes *krr;

    /* ---- Services of a device with memory of its own; the CPU has NULL ---- */

    /* Waits for what is queued, and gives what failed since it was asked last. */
    gram_status (*synchronize)(gram_context *g);
    /* How many devices of this kind can be used here. */
    int (*devices)(const gram_context *g);
    /* The functions of memory.c, in the order of the context's stream. */
    gram_status (*memory_allocate)(gram_context *g, size_t bytes, void **out);
    void (*memory_free)(gram_context *g, void *memory);
    gram_status (*memory_zero)(gram_context *g, void *memory, size_t bytes);
    gram_status (*memory_copy)(gram_context *g, void *to, const void *from, size_t bytes);
    /* Refuses memory that the device cannot read. */
    gram_status (*check_pointer)(gram_context *g, const char *name, const struct gram_view *v);
    /* gram_context_use_workspace for the memory of the device. */
    gram_status (*use_workspace)(gram_context *g, void *memory, size_t bytes);
    /* Gives back what scratch has grown to, unless a captured graph may use it. */
    void (*release_scratch)(gram_context *g);
    /* The cache of compiled kernels, for a context of any device: see device.h.  op NULL: the
     * common kernels. */
    void (*cache_info)(const gram_context *g, gram_cache *cache);
    gram_status (*cache_list)(gram_context *g, gram_cache_visit visit, void *user);
    gram_status (*cache_clear)(gram_context *g, const char *pattern, int64_t *removed);
    gram_status (*cache_warm)(gram_context *g, const struct gram_cdist_op *op,
                              const gram_warm_options *options);
    /* Device code of the caller's own: gram_module_compile and what follows it. */
    gram_status (*module_compile)(gram_context *g, const struct gram_module_op *op,
                                  gram_module **out);
    gram_status (*module_launch)(gram_module *module, const struct gram_launch_op *op);
    void (*module_destroy)(gram_module *module);
    /* Waits for eigh in the background; NULL: a call has finished when it returns. */
    gram_status (*eigh_wait)(gram_context *g);
    /* One matrix on the devices of several contexts (eigh.h).  The first gives the bytes of
     * each device, one per context, and of a panel on the CPU.  The second computes the values of
     * an item, and what its info gets.  The third stores its vectors from first on, and NaN behind
     * the last of them. */
    gram_status (*eigh_multi_workspace)(const struct gram_eigh_multi *m, size_t *device_bytes,
                                        size_t *panel_bytes);
    gram_status (*eigh_multi_solve)(struct gram_eigh_multi *m, int64_t item, int *outcome);
    gram_status (*eigh_multi_store)(const struct gram_eigh_multi *m, int64_t item, int64_t first,
                                    int64_t stored);
    /* What the backend keeps of a new optimizer; close undoes it, also after a failure. */
    gram_status (*optimizer_open)(gram_context *g, gram_optimizer *o);
    void (*optimizer_close)(gram_optimizer *o);

    /* ---- What a backend may offer; NULL: it does not ---- */

    /* Measures the candidates for a problem, and keeps the fastest for later calls. */
    gram_status (*tune)(gram_context *g, const struct gram_cdist_op *op, gram_tuning *result);
    gram_status (*tune_kron)(gram_context *g, const struct gram_kron_matmul_op *op,
                             gram_kron_tuning *result);

    /* ---- The operations, of ops.def ---- */
#define GRAM_OP(name, op, devices) gram_status (*name)(gram_context * g, const struct op *work);
#include "ops.def"
};

extern const struct gram_backend gram_cpu_backend;

/* A plugin: its file, the name of its table, whose first member is its version, and what messages
 * call it. */
struct gram_plugin {
    const char *file, *table, *what;
};

/* plugin.c: the table of a plugin; its handle goes to *handle, for dlclose.  NULL if it cannot be
 * loaded, with the reason in why. */
const void *gram_plugin_open(const gram_context *g, const struct gram_plugin *plugin, void **handle,
                             char *why, size_t why_bytes);

/* The same of the CUDA plugin. */
const struct gram_backend *gram_plugin_load(const gram_context *g, void **handle, char *why,
                                            size_t why_bytes);

/* Compiles the kernels that op takes, or with NULL the common ones, as gram_cache_warm says.  A
 * call of the library has begun. */
gram_status gram_cache_warm_op(gram_context *g, const struct gram_cdist_op *op,
                               const gram_warm_options *options);
#endif
