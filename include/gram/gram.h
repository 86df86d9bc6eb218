/*
 * gram.h - the public API of libgram: Gram matrices built, differentiated, multiplied and solved
 *
 * Every call takes a context, borrows its tensors for the duration of the call (on an asynchronous
 * device: until the context's stream is synchronised) and returns a status; gram_message() then
 * names the function, the argument, what came and what was expected.  NULL where an argument is
 * needed, a context included, is GRAM_INVALID_ARGUMENT.  The library never aborts, exits, installs
 * a signal handler or changes the floating-point modes, and prints nothing but the log that
 * GRAM_LOG=debug asks for, on standard error.
 *
 * Outputs of a call that fails: GRAM_INVALID_ARGUMENT, GRAM_UNSUPPORTED and GRAM_OUT_OF_MEMORY
 * leave them as they were.  GRAM_NUMERICAL of an operation that takes an info tensor (solves, eigh,
 * matrix_power, kron_solve, natural_gradient) leaves what the same call leaves with info: every
 * item is written, those that failed are NaN (where options.keep or another says nothing else), and
 * the others are right; so an argument that is solved in place is overwritten.  The GRAM_NUMERICAL
 * of optimizers and of K-FAC changes nothing.  A list of matrices (gram_eigh_many) has outputs of
 * each, as if it were called alone.  After GRAM_DEVICE_FAILED outputs are undefined.
 *
 * Threads: a context serves one thread at a time; different contexts are independent; nothing else
 * is shared.
 *
 * fork(): a child may use, and destroy, the contexts of CPUs that its parent had, if no other
 * thread of the parent was in a call with them, and may make its own, whatever other threads of the
 * parent were doing.  What the parent had on a GPU is not the child's: calls with such a context
 * give GRAM_DEVICE_FAILED, destroying it frees its host memory alone, and a child makes contexts on
 * a GPU only where its parent had not begun CUDA (nor asked gram_best_device or gram_context_info).
 * A child that was forked while a thread of the parent had the file of the cache open does without
 * that file.  NCCL and MPI do not go with fork().
 *
 * The environment is read when a context is made, which keeps copies.  A program that has
 * privileges which its caller lacks (set-user-ID, set-group-ID, file capabilities) reads no
 * variable.
 *
 * Binary interface: enum values are explicit and never reused.  Options structs begin with their
 * size, set by GRAM_<OP>_OPTIONS_INIT; members are only ever appended; a NULL pointer to options
 * means the defaults.  Sizes, shapes and strides are int64_t; strides count elements.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_H
#define GRAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GRAM_PUBLIC __attribute__((visibility("default")))
#define GRAM_API    __attribute__((visibility("default"), warn_unused_result))

/* What the OPTIONS_INIT macros are: a struct of zeros that knows its size.  In C++, where
 * designated initializers are new and warn of the members that they leave out, a value. */
#ifdef __cplusplus
extern "C++" {
template <typename T> static inline T gram_sized_()
{
    T t = T();
    t.size = sizeof(T);
    return t;
}
}
#  define GRAM_SIZED_(type) gram_sized_<type>()
#else
/* clang-format off */
#  define GRAM_SIZED_(type) {.size = sizeof(type)}
/* clang-format on */
#endif

/* ---- Status ------------------------------------------------------------------------------- */

typedef enum gram_status {
    GRAM_OK = 0,
    GRAM_INVALID_ARGUMENT = 1, /* a shape, dtype, value or overlap that the function cannot take */
    GRAM_UNSUPPORTED = 2,      /* valid, but this device or build does not offer it */
    GRAM_OUT_OF_MEMORY = 3,    /* an allocation failed, or a given workspace is too small */
    GRAM_CANCELLED = 4,        /* gram_context_cancel() was called */
    GRAM_IO = 5,               /* a file could not be read or written */
    GRAM_BAD_DATA = 6,         /* a file or a table holds something that cannot be understood */
    GRAM_NUMERICAL = 7,        /* numbers broke down: what is left of outputs, see above */
    GRAM_DEVICE_FAILED = 8,    /* the device or its driver reported an error */
} gram_status;

/* Version of the library at run time, as "0.1.0". */
GRAM_PUBLIC const char *gram_version(void);

/* The name of a status, as "GRAM_OK"; "unknown status" for any other number. */
GRAM_PUBLIC const char *gram_status_name(gram_status status);

/* ---- Tensors ------------------------------------------------------------------------------ */

typedef enum gram_dtype {
    GRAM_F32 = 1,
    GRAM_F64 = 2,
    GRAM_F16 = 3,  /* IEEE binary16 */
    GRAM_BF16 = 4, /* bfloat16 */
    GRAM_I32 = 5,
    GRAM_I64 = 6,
} gram_dtype;

typedef enum gram_device_type {
    GRAM_CPU = 0,
    GRAM_CUDA = 1,
} gram_device_type;

typedef struct gram_device {
    gram_device_type type;
    int32_t index; /* 0 on the CPU */
} gram_device;

#define GRAM_MAX_DIMS 8

/*
 * A view of an array that somebody else owns.  The last dimensions are those of the formula (rows,
 * then columns); all dimensions before them are a batch and follow NumPy's broadcasting rules.
 * Strides count elements and may be zero (an input that is broadcast) or negative.
 */
typedef struct gram_tensor {
    void *data;
    gram_dtype dtype;
    gram_device device;
    int32_t ndim;
    int64_t shape[GRAM_MAX_DIMS];
    int64_t stride[GRAM_MAX_DIMS];
} gram_tensor;

/* Bytes of one element, 0 for an unknown dtype. */
static inline size_t gram_dtype_size(gram_dtype dtype)
{
    switch (dtype) {
    case GRAM_F32:
    case GRAM_I32:
        return 4;
    case GRAM_F64:
    case GRAM_I64:
        return 8;
    case GRAM_F16:
    case GRAM_BF16:
        return 2;
    }
    return 0;
}

/* A vector of n elements in CPU memory. */
static inline gram_tensor gram_vector(void *data, int64_t n, gram_dtype dtype)
{
    gram_tensor t = {
        data, dtype, {GRAM_CPU, 0},
          1, {       n  },
          {       1  }
    };
    return t;
}

/* A row-major matrix in CPU memory. */
static inline gram_tensor gram_matrix(void *data, int64_t rows, int64_t cols, gram_dtype dtype)
{
    gram_tensor t = {
        data, dtype, {GRAM_CPU,    0},
          2, {    rows, cols},
          {    cols,    1}
    };
    return t;
}

/* A batch of row-major matrices in CPU memory, one after the other. */
static inline gram_tensor gram_matrices(void *data, int64_t count, int64_t rows, int64_t cols,
                                        gram_dtype dtype)
{
    gram_tensor t = {
        data, dtype, {   GRAM_CPU,    0},
          3, { count, rows,       cols},
          { rows * cols, cols,          1},
    };
    return t;
}

/*
 * A number, or a tensor (f32 or f64, on the device of the call) whose shape broadcasts over the
 * batch of the call: one value an item.  Outside their documented range, numbers and CPU tensors
 * are refused; a value in a tensor on another device cannot be seen at the call, its item gets NaN.
 */
typedef struct gram_scalar {
    double value;
    const gram_tensor *tensor; /* NULL: value is meant */
} gram_scalar;

static inline gram_scalar gram_number(double value)
{
    gram_scalar s = {value, NULL};
    return s;
}

static inline gram_scalar gram_values(const gram_tensor *tensor)
{
    gram_scalar s = {0, tensor};
    return s;
}

/* ---- Contexts ----------------------------------------------------------------------------- */

typedef struct gram_context gram_context;

/* Something that took time inside a call: times in nanoseconds of CLOCK_MONOTONIC. */
typedef struct gram_trace_event {
    const char *name; /* static string */
    int thread;       /* 0 is the caller */
    int64_t start_ns, duration_ns;
} gram_trace_event;

/* How a context is made.  A member that is 0 or NULL asks for its default. */
typedef struct gram_context_options {
    size_t size;
    gram_device device;
    /* 0: GRAM_NUM_THREADS, else the least of the processors this process may run on, its cgroup's
     * quota and OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, MKL_NUM_THREADS, LOKY_MAX_CPU_COUNT and
     * PYTHON_CPU_COUNT where they are set. */
    int threads;
    const char *cpu_isa; /* NULL: GRAM_CPU_ISA, else the best here: "base", "avx2", "avx512" */
    /* Where memory comes from; NULL: aligned_alloc and free.  allocate returns memory aligned to
     * 64 bytes or NULL, and may be called from any thread that uses the context. */
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
    /* Called for every traced piece of work, from several threads at once; NULL: no tracing. */
    void (*trace)(void *trace_user, const gram_trace_event *event);
    void *trace_user;
    void *stream; /* CUDA: the cudaStream_t to queue on, which stays yours and outlives the context;
                     NULL: the default one */
    size_t scratch_limit; /* most bytes of scratch that the context takes; 0: no limit */
    /* CUDA: where scratch on the device comes from; NULL: the driver's pool.  Memory aligned to 64
     * bytes, or NULL, for work that is queued on stream; it is released when that work is queued,
     * not done.  What is allocated while stream is being captured must live as long as the graph,
     * released or not.  Both may be called from any thread that uses the context. */
    void *(*allocate_device)(void *device_user, size_t bytes, void *stream);
    void (*release_device)(void *device_user, void *memory, size_t bytes, void *stream);
    void *device_user;
} gram_context_options;

/* clang-format off */
#define GRAM_CONTEXT_OPTIONS_INIT GRAM_SIZED_(gram_context_options)
/* clang-format on */

/*
 * Creates a context.  *out is NULL on an error; the message is then gram_message(NULL), the last
 * one of the calling thread.
 */
GRAM_API gram_status gram_context_create(const gram_context_options *options, gram_context **out);

/* Frees the context, its threads and its scratch memory.  NULL is allowed, here and wherever
 * something is destroyed or freed. */
GRAM_PUBLIC void gram_context_destroy(gram_context *g);

/*
 * What was wrong with the last call, as "gram_cdist: x has 2 columns but y has 5"; empty if it did
 * not fail.  Valid until the next call with this context.  gram_message(NULL) is the same of the
 * calling thread's last call that had no context to hold a message: a gram_context_create that
 * failed (one that did not makes it empty), and any call whose context, or the plan, module or
 * group in its place, was NULL.  Functions that return no status change no message, nor do
 * gram_context_synchronize and gram_memory_copy unless they fail, so that the outputs of a call
 * that failed can be fetched first.
 */
GRAM_PUBLIC const char *gram_message(const gram_context *g);

/*
 * Scratch memory comes from the context's arena, which grows as needed and keeps its size.  Given
 * memory replaces it until NULL is given: a call that needs more fails with GRAM_OUT_OF_MEMORY,
 * having written nothing.  memory is aligned to 64 bytes and stays the caller's.  NULL also gives
 * back what the arena holds; the next call that needs scratch grows it again.
 *
 * CUDA: the arena, and the given memory, are on the device.  It grows in the order of the stream,
 * without waiting.  A captured graph keeps using the memory it was captured with: the context (or
 * the given memory) must outlive it, and it must not be replayed at the same time as other work of
 * the context on another stream.
 */
GRAM_API gram_status gram_context_use_workspace(gram_context *g, void *memory, size_t bytes);

/* Exact scratch need of a call, from its gram_<op>_workspace query; the data are not read. */
typedef struct gram_workspace {
    size_t host_bytes;
    size_t device_bytes;
} gram_workspace;

/*
 * Waits for all work that is queued on the context's stream, and reports what went wrong in it.
 * After a fault of the device every further call of the context gives GRAM_DEVICE_FAILED.
 * On the CPU every call has finished when it returns.
 */
GRAM_API gram_status gram_context_synchronize(gram_context *g);

/*
 * Asks a running call of this context to stop; it returns GRAM_CANCELLED as soon as it can.  Safe
 * in a signal handler and from another thread.  The request is taken by the call that runs or, if
 * none does, by the next one that can be cancelled (the machine's fit and predict).
 */
GRAM_PUBLIC void gram_context_cancel(gram_context *g);

/* The device that the context was made for; the CPU for NULL. */
GRAM_PUBLIC gram_device gram_context_device(const gram_context *g);

/* What this machine and this context offer. */
typedef struct gram_info {
    size_t size; /* set by the caller to sizeof(gram_info) */
    const char *version;
    const char *cpu_isa;      /* instruction set in use */
    const char *cpu_isas;     /* all that can run here, best first, separated by spaces */
    const char *blas;         /* as "OpenBLAS 0.3.21 ..." */
    int threads;              /* of this context */
    int cuda_devices;         /* that this build and machine can use */
    int64_t memory_total;     /* bytes, of the host */
    int64_t memory_available; /* bytes, now, within the process's limits */
    /* Of a CUDA context; else NULL and 0. */
    const char *device_name;
    int64_t device_memory_total, device_memory_available; /* bytes */
} gram_info;

/* Fills in info, as much of it as info->size covers; the strings live as long as the context. */
GRAM_API gram_status gram_context_info(gram_context *g, gram_info *info);

/* The device a new user should take: a CUDA device that works, else the CPU. */
GRAM_PUBLIC gram_device gram_best_device(void);

/*
 * Memory that the context computes in: of its GPU, in the order of its stream (what was queued
 * before may use the memory until it is done, also after it is freed), or of the CPU.  Aligned to
 * 64 bytes; contents undefined; *out is NULL for 0 bytes and on an error.  To be freed with the
 * same context, before it is destroyed.
 */
GRAM_API gram_status gram_memory_allocate(gram_context *g, size_t bytes, void **out);
GRAM_PUBLIC void gram_memory_free(gram_context *g, void *memory, size_t bytes);

/* The same with contents of zeros, for what is accumulated into (CUDA: set in the order of the
 * stream). */
GRAM_API gram_status gram_memory_allocate_zeros(gram_context *g, size_t bytes, void **out);

/*
 * Copies bytes between the CPU's memory and that of the context's device, in any direction.  On
 * CUDA the copy is queued on the context's stream: keep both memories alive and unchanged, and do
 * not read the copy, until gram_context_synchronize.
 */
GRAM_API gram_status gram_memory_copy(gram_context *g, void *to, const void *from, size_t bytes);

/*
 * Views a DLPack tensor (a pointer to a DLTensor, see gram/dlpack.h) without a copy.  NULL strides
 * mean row-major.  GRAM_UNSUPPORTED: a dtype, lanes or device that libgram does not have.
 */
GRAM_API gram_status gram_tensor_from_dlpack(gram_context *g, const void *dl_tensor,
                                             gram_tensor *out);

/* ---- Several contexts ----------------------------------------------------------------------- */

/* Contexts that share the work of one call: distinct ones, each as a rule with a device of its own.
 * None of them may be used by another thread meanwhile. */
typedef struct gram_group {
    size_t size;
    gram_context *const *contexts; /* what was wrong is the message of the first */
    int64_t count;                 /* at least 1 */
    const double *speeds; /* gram_*_many: how fast each is, above 0, in any unit; NULL: alike */
    int force;            /* gram_eigh_multi: 1: also where one device alone would be faster */
} gram_group;

/* clang-format off */
#define GRAM_GROUP_INIT GRAM_SIZED_(gram_group)
/* clang-format on */

/* ---- Pairwise distances ------------------------------------------------------------------- */

typedef struct gram_cdist_options {
    size_t size;
    int no_root; /* leave the sum as it is: no power 1/p at the end */
} gram_cdist_options;

/* clang-format off */
#define GRAM_CDIST_OPTIONS_INIT GRAM_SIZED_(gram_cdist_options)
/* clang-format on */

/*
 * Pairwise distances:
 *   out[..., i, j] = (sum_k |x[..., i, k] - y[..., j, k]|^p)^(1/p).
 *
 * p > 0; p = 0 counts the coordinates that differ; p = INFINITY is the largest difference.  With
 * no_root the sum itself is returned (p = 0 and INFINITY have no root).  x is m by k, y is n by k,
 * out is m by n; any strides; batches broadcast, p too.  k = 0 gives zero distances; m = 0 or
 * n = 0 an empty result.
 *
 * dtypes: x, y and out all f32 or all f64; or x and y both f16 or both bf16 and out f32.
 * y NULL, or the same data, shape and strides as x: half the work, exactly symmetric, exactly zero
 * diagonal (NaN where the row holds NaN or infinity).  A NaN in a row gives NaN for all distances
 * of that row and for no others.  out must not overlap x, y or itself.
 *
 * Error: every term |d|^p has a relative error of at most 8 eps for 1e-6 <= |d| <= 1e6 and 16 eps
 * over the whole exponent range, denormals included; p = 1, 2, 3, 4, 1/2, 3/2 and INFINITY use no
 * logarithm.  The sum of k terms adds at most k eps, relative; the root divides the sum's error
 * by p and adds 4 eps, in f64 |ln(out)| / 2 eps more unless 1 / p is a binary fraction.  For p = 2
 * the expansion |x|^2 + |y|^2 - 2 x.y is used only where it is faster, on columns shifted by their
 * mean, and entries that it would spoil are recomputed from differences: the relative error of the
 * distance stays below (k + 8) eps + 1e-6 (f32) or + 1e-14 (f64), near and duplicated points
 * included.  eps is 2^-23 (f32), 2^-52 (f64).
 *
 * Range: all of this holds where the terms |d|^p and their sum are normal numbers of out's dtype.
 * For p = 2 that is |d| from 1.1e-19 to 1.8e19 / sqrt(k) in f32, from 1.5e-154 to 1.3e154 / sqrt(k)
 * in f64; for other p from FLT_MIN^(1/p) to (FLT_MAX / k)^(1/p), or DBL_MIN and DBL_MAX; for
 * p = INFINITY everywhere.  A sum beyond the largest number gives infinity; a term below the least
 * counts with what is left of it, or as 0.  Data outside of the range can be multiplied by a power
 * of two before the call, and the distances divided by it.
 */
GRAM_API gram_status gram_cdist(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                gram_scalar p, const gram_cdist_options *options, gram_tensor *out);

GRAM_API gram_status gram_cdist_workspace(gram_context *g, const gram_tensor *x,
                                          const gram_tensor *y, gram_scalar p,
                                          const gram_cdist_options *options, const gram_tensor *out,
                                          gram_workspace *need);

typedef struct gram_median_options {
    size_t size;
    int64_t rows;  /* the most rows that are drawn, without repetition; 0 means 2000 */
    uint64_t seed; /* of the drawing */
    int no_root;
} gram_median_options;

/* clang-format off */
#define GRAM_MEDIAN_OPTIONS_INIT GRAM_SIZED_(gram_median_options)
/* clang-format on */

/*
 * The median distance between the rows of x, the usual first guess of a bandwidth:
 *   out[...] = median over i < j of gram_cdist(x, x, p)[..., i, j],
 * over all rows or over a seeded sample of them.  An even number of distances gives the mean of the
 * middle two; fewer than two rows give NaN; NaN distances are left out.  Scratch holds all
 * distances between the rows that are drawn.  x is m by k; out has the shape of the batch and x's
 * dtype (f32 for f16 and bf16).
 */
GRAM_API gram_status gram_median_distance(gram_context *g, const gram_tensor *x, gram_scalar p,
                                          const gram_median_options *options, gram_tensor *out);

GRAM_API gram_status gram_median_distance_workspace(gram_context *g, const gram_tensor *x,
                                                    gram_scalar p,
                                                    const gram_median_options *options,
                                                    const gram_tensor *out, gram_workspace *need);

/* ---- Kernels ------------------------------------------------------------------------------ */

typedef enum gram_inner {
    GRAM_DIFFERENCE = 1, /* a sum of |x_k - y_k|^p */
    GRAM_DOT = 2,        /* a sum of x_k y_k; p and the outer power are not used */
} gram_inner;

typedef enum gram_function {
    GRAM_IDENTITY = 0,           /* s */
    GRAM_LAPLACE = 1,            /* exp(-s / L) */
    GRAM_GAUSSIAN = 2,           /* exp(-s / (2 L^2)), s the squared distance */
    GRAM_EXPONENTIAL_POWER = 3,  /* exp(-s^q / L^q) */
    GRAM_MATERN32 = 4,           /* (1 + t) exp(-t), t = sqrt(3) s / L */
    GRAM_MATERN52 = 5,           /* (1 + t + t^2 / 3) exp(-t), t = sqrt(5) s / L */
    GRAM_RATIONAL_QUADRATIC = 6, /* (1 + s / (2 alpha L^2))^-alpha, s the squared distance */
    GRAM_POLYNOMIAL = 7,         /* (gamma s + coef0)^degree */
    GRAM_SIGMOID = 8,            /* tanh(gamma s + coef0) */
    GRAM_COSINE = 9,             /* s / (|x| |y|) with GRAM_DOT; 0 where a norm is 0 */
    GRAM_EXPRESSION = 10,        /* options.expression, of s and of options.parameters */
} gram_function;

typedef enum gram_kernel_output {
    GRAM_VALUE = 0,
    /* d k / d x_k = weight * sgn(x_k - y_k) |x_k - y_k|^(p-1) with GRAM_DIFFERENCE, weight * y_k
     * with GRAM_DOT (not for GRAM_COSINE): what gram_cdist_grad takes as a.  0 where s = 0, the
     * convention for the kernels that have no derivative there. */
    GRAM_WEIGHT = 1,
    GRAM_BANDWIDTH_DERIVATIVE = 2, /* d k / d L; not for GRAM_EXPRESSION */
    /* d f / d parameters[derivative].value, of GRAM_EXPRESSION alone */
    GRAM_PARAMETER_DERIVATIVE = 3,
} gram_kernel_output;

/* What an expression can refer to.  name: at most 31 letters, digits and _, no digit first; NULL
 * is "p0" for the first parameter, "p1" for the second, and so on. */
typedef struct gram_parameter {
    const char *name;
    gram_scalar value;
} gram_parameter;

/* Of an expression. */
#define GRAM_MAX_PARAMETERS 8

typedef struct gram_kernel_options {
    size_t size;
    gram_inner inner;
    gram_scalar p;           /* of the inner term: > 0 */
    gram_scalar outer_power; /* s = (inner sum)^outer_power: 1 none, 0.5 a square root */
    gram_function function;
    gram_scalar bandwidth; /* L > 0 */
    gram_scalar exponent;  /* q > 0 */
    gram_scalar alpha;     /* > 0 */
    gram_scalar gamma, coef0, degree;
    gram_scalar regularization; /* r, added where row_offset + i == column_offset + j */
    int64_t row_offset, column_offset;
    gram_kernel_output output; /* regularization is added to GRAM_VALUE only */
    const char *expression;    /* of GRAM_EXPRESSION: see gram_kernel */
    const gram_parameter *parameters;
    int64_t parameter_count; /* at most GRAM_MAX_PARAMETERS */
    int64_t derivative;      /* of GRAM_PARAMETER_DERIVATIVE: which parameter, from 0 */
    /* The outer power is 1 / p of each item (for p = INFINITY none), and outer_power is not used:
     * for p that is a tensor. */
    int root;
} gram_kernel_options;

/* clang-format off */
#define GRAM_KERNEL_OPTIONS_INIT                                                                  \
    {sizeof(gram_kernel_options), GRAM_DIFFERENCE, {2, NULL}, {1, NULL}, GRAM_IDENTITY, {1, NULL}, \
     {1, NULL}, {1, NULL}, {1, NULL}, {0, NULL}, {3, NULL}, {0, NULL}, 0, 0, GRAM_VALUE, NULL,     \
     NULL, 0, 0, 0}
/* clang-format on */

/* The L_pq Laplace kernel exp(-||x - y||_p^q / L^q); q = p is the product Laplace kernel
 * exp(-sum_k |x_k - y_k|^q / L^q).  Positive definite for 0 < q <= p <= 2. */
static inline gram_kernel_options gram_lpq_laplace(double p, double q, double bandwidth)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;
    o.p = gram_number(p);
    o.outer_power = gram_number(1 / p);
    o.function = GRAM_EXPONENTIAL_POWER;
    o.exponent = gram_number(q);
    o.bandwidth = gram_number(bandwidth);
    return o;
}

/* The Gaussian kernel exp(-|x - y|^2 / (2 L^2)). */
static inline gram_kernel_options gram_gaussian(double bandwidth)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;
    o.function = GRAM_GAUSSIAN;
    o.bandwidth = gram_number(bandwidth);
    return o;
}

/*
 * A kernel matrix in one pass:
 *   out[..., i, j] = f(s) + r [row_offset + i == column_offset + j],
 *   s = (sum_k |x[..., i, k] - y[..., j, k]|^p)^outer_power     (GRAM_DIFFERENCE)
 *   s = sum_k x[..., i, k] y[..., j, k]                         (GRAM_DOT).
 *
 * f, its parameters and r are in options (required: not NULL).  Offsets place a tile of a larger
 * matrix: its part of the diagonal is found whatever the layout of out.  Shapes, dtypes, batches,
 * NaN, the symmetric case and the error of the sum are those of gram_cdist; r is added after f,
 * exactly once, on f(0) computed as f of an exact zero.
 *
 * Error of f, given the sum: with t the argument of f, a multiple of a power of the sum (s / L,
 * s / (2 L^2), (s / L)^q, ..., or gamma s + coef0), at most 8 eps (|f| + |t f'(t)|), where
 * |gamma s| + |coef0| stands for |t| in polynomial and sigmoid; and at most 8 eps for the functions
 * of a distance whose largest value is 1, GRAM_LAPLACE to GRAM_RATIONAL_QUADRATIC.  So e^-t has a
 * relative error of 8 (1 + t) eps.  Exponents are rounded to f64, which adds |log sum| 2^-52 times
 * the exponent.  The other outputs have the same bound with themselves for f; below the normal
 * range of the dtype (also where a factor of a weight or derivative is) only the order of magnitude
 * is right, or the result is 0.  The test of these bounds is tests/pairwise/test_kernel_map.c.
 *
 * GRAM_EXPRESSION: f is options.expression, written as in C, as "exp(-s / a) * (1 + b * s)" or
 * "s < 1 ? pow(1 - s, 4) * (4 * s + 1) : 0", with
 *   s, the names of options.parameters, numbers (1, .5, 2e-3)
 *   + - * / < <= > >= == != && || ! ?: and brackets, with C's precedence
 *   exp exp2 expm1 log log2 log1p sqrt pow sin cos sinh cosh tanh fabs fmin fmax
 * All arithmetic is that of out's dtype: 1 / 2 is 0.5.  What depends on parameters alone is
 * computed once an item, in double.  Every operation is wrong by 4 eps at most, pow by 8.  A NaN of
 * s gives NaN, whatever the expression.  An expression has at most 4096 bytes, less than 64
 * brackets in each other, 256 different operations, and needs at most 32 intermediate values at
 * once.  GRAM_WEIGHT and gram_kernel_vjp take the derivative by s, in which fabs has 0 at 0 and a
 * condition the derivative of the branch that it takes.  GRAM_PARAMETER_DERIVATIVE is that by a
 * parameter, where pow(a, b) has 0 by its exponent at a = 0.
 * GRAM_INVALID_ARGUMENT: the expression cannot be read; the message says where.
 */
GRAM_API gram_status gram_kernel(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                 const gram_kernel_options *options, gram_tensor *out);

GRAM_API gram_status gram_kernel_workspace(gram_context *g, const gram_tensor *x,
                                           const gram_tensor *y, const gram_kernel_options *options,
                                           const gram_tensor *out, gram_workspace *need);

typedef struct gram_kernel_matmul_options {
    size_t size;
    int accumulate; /* add to what out holds: a sum of kernels, or of parts of y */
} gram_kernel_matmul_options;

/* clang-format off */
#define GRAM_KERNEL_MATMUL_OPTIONS_INIT GRAM_SIZED_(gram_kernel_matmul_options)
/* clang-format on */

/*
 * Products with a kernel matrix that is never stored:
 *   out[..., i, c] = sum_j K[..., i, j] v[..., j, c],
 *   K = gram_kernel(x, y, kernel).
 * K may be any output of gram_kernel, the weight and the bandwidth derivative too.
 *
 * x is m by k, y is n by k (NULL: x itself), v is n by r, out is m by r; v and out have the dtype
 * that gram_kernel's out would have; any strides; batches of x, y, v and the hyperparameters
 * broadcast (the columns of one v share the work on K, the items of a batch do not).  n = 0 gives
 * zeros.  out must not overlap x, y, v or itself.  Scratch is a block of K, and the same number of
 * rows of v and out.
 *
 * y NULL, or the same data, shape and strides as x: each element of K is computed once for itself
 * and its mirror image, half the work.  The result does not depend on the number of threads.
 * Error: that of gram_kernel's elements, and (n + 8) eps sum_j |K[i, j] v[j, c]|.  A NaN in row i
 * of x gives NaN in row i of out; a NaN in y or v reaches all rows, as in any product.
 *
 * Can be cancelled (gram_context_cancel) while it works, or queues: out then holds a part of the
 * sums, on CUDA what it held before.  CUDA: only enqueues; products are cuBLAS's; the scratch also
 * holds v and out by columns; sizes up to 2^31 - 1.
 */
GRAM_API gram_status gram_kernel_matmul(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                        const gram_kernel_options *kernel, const gram_tensor *v,
                                        const gram_kernel_matmul_options *options,
                                        gram_tensor *out);

GRAM_API gram_status gram_kernel_matmul_workspace(gram_context *g, const gram_tensor *x,
                                                  const gram_tensor *y,
                                                  const gram_kernel_options *kernel,
                                                  const gram_tensor *v,
                                                  const gram_kernel_matmul_options *options,
                                                  const gram_tensor *out, gram_workspace *need);

/* Where the gradients of gram_kernel_vjp go; a NULL one is not computed. */
typedef struct gram_kernel_grads {
    gram_tensor *x;              /* m by k */
    gram_tensor *y;              /* n by k */
    gram_tensor *bandwidth;      /* shape of the batch */
    gram_tensor *regularization; /* shape of the batch */
} gram_kernel_grads;

/*
 * Vector-Jacobian products of gram_kernel (output GRAM_VALUE): with the cotangent grad, m by n,
 *   grads.x[i, k] = sum_j grad[i, j] dK[i, j] / dx[i, k], y alike,
 *   grads.bandwidth = sum_ij grad[i, j] dK[i, j] / dL,
 *   grads.regularization = sum_ij grad[i, j] [row_offset + i == column_offset + j].
 * If x and y are one array its gradient is grads.x + grads.y.  Coordinates that tie, and points
 * that coincide under a kernel without a derivative there, contribute 0.  No m by n matrix is
 * stored.  f32 or f64, one dtype throughout; the gradients' batch shape is that of the call.
 * With p = INFINITY every coordinate whose difference is the largest takes the whole derivative, as
 * in PyTorch, others none (points that coincide: none).  p = 0 has no gradient and is refused, as
 * grads.bandwidth with GRAM_EXPRESSION.
 */
GRAM_API gram_status gram_kernel_vjp(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                     const gram_kernel_options *options, const gram_tensor *grad,
                                     const gram_kernel_grads *grads);

GRAM_API gram_status gram_kernel_vjp_workspace(
    gram_context *g, const gram_tensor *x, const gram_tensor *y, const gram_kernel_options *options,
    const gram_tensor *grad, const gram_kernel_grads *grads, gram_workspace *need);

/* ---- Gradients of kernel machines --------------------------------------------------------- */

/*
 * Gradients of kernel expansions:
 *   out[..., o, n, m] = sum_k c[..., o, k] a[..., k, m] sgn(e) |e|^(p - 1),
 *   e                 = d[..., n, m] - b[..., n, k].
 *
 * a [K, M] kernel weights (gram_kernel with GRAM_WEIGHT), b [N, K] features of the centres,
 * c [O, K] coefficients, d [N, M] features of the points, out [O, N, M]; f32 or f64, one dtype;
 * any strides (so X itself, transposed by its strides, serves as b); batches and p broadcast.
 * p > 0.  A tie d = b contributes 0 for every p.  p = INFINITY: the power is 1 where |d - b|, as a
 * number of the dtype, is the largest of all features of d[:, m] and b[:, k], and 0 elsewhere; a
 * NaN among them gives NaN for all (a tensor p on a device holds finite numbers).
 *
 * With s[n] the mean of b[n, :], p = 2 is computed by matrix products:
 *   out = (d - s) (c a) - (c (b - s)) a.
 * The absolute error is at most
 *   p = 2:   (K + 8) eps sum_k |c a| (|d - s| + |b - s|);
 *            on CUDA in f32, where tensor cores multiply, K 2^-37 max |a[:, m]| max |c[o, :]|
 *            max |b[n, :] - s| more;
 *   other p: (K / 128 + 160) eps sum_k |c a| |d - b|^(p - 1).
 *
 * After Radhakrishnan et al., Mechanism for feature learning in neural networks and
 * backpropagation-free machine learning models, Science 383 (2024).
 */
GRAM_API gram_status gram_cdist_grad(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                     const gram_tensor *c, const gram_tensor *d, gram_scalar p,
                                     gram_tensor *out);

GRAM_API gram_status gram_cdist_grad_workspace(gram_context *g, const gram_tensor *a,
                                               const gram_tensor *b, const gram_tensor *c,
                                               const gram_tensor *d, gram_scalar p,
                                               const gram_tensor *out, gram_workspace *need);

typedef struct gram_agop_options {
    size_t size;
    int diagonal;   /* out is the vector of the N diagonal entries */
    int accumulate; /* add to what out holds: an average over points that come in parts */
    int64_t points; /* divide by this instead of M; 0: M */
} gram_agop_options;

/* clang-format off */
#define GRAM_AGOP_OPTIONS_INIT GRAM_SIZED_(gram_agop_options)
/* clang-format on */

/*
 * The average gradient outer product:
 *   out[..., n, l] = (1 / M) sum_{o, m} g[..., o, n, m] g[..., o, l, m],
 *   g = gram_cdist_grad(a, b, c, d, p), which is never stored whole.
 * out is N by N (both triangles, exactly symmetric), or N with options.diagonal.  Otherwise as
 * gram_cdist_grad; M = 0 gives zeros.
 */
GRAM_API gram_status gram_agop(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                               const gram_tensor *c, const gram_tensor *d, gram_scalar p,
                               const gram_agop_options *options, gram_tensor *out);

GRAM_API gram_status gram_agop_workspace(gram_context *g, const gram_tensor *a,
                                         const gram_tensor *b, const gram_tensor *c,
                                         const gram_tensor *d, gram_scalar p,
                                         const gram_agop_options *options, const gram_tensor *out,
                                         gram_workspace *need);

/* ---- Solves ------------------------------------------------------------------------------- */

typedef enum gram_uplo {
    GRAM_LOWER = 0,
    GRAM_UPPER = 1,
} gram_uplo;

typedef struct gram_solve_options {
    size_t size;
    gram_uplo uplo;      /* Cholesky: the triangle that is read, and where the factor goes */
    int factored;        /* a (and pivots) hold the factor that an earlier call left */
    gram_tensor *factor; /* gets the factor: n by n, a's dtype, unit stride in one of its last two
                            dimensions; a itself: in place, no copy is made; NULL: not wanted */
    gram_tensor *pivots; /* LU: int32, n an item; needed with factor and with factored */
    /* Not with factored: */
    gram_tensor *rcond;     /* gets reciprocal condition numbers, one an item of a, a's dtype */
    const double *jitter;   /* Cholesky: s >= 0, ascending: the first for which a + s I factors */
    int jitters;            /* how many there are; 0: a itself */
    gram_tensor *jittered;  /* gets the s that was taken, one an item of a, a's dtype */
    int refine;             /* f64: factor in f32, refine to the accuracy of f64; no factor */
    gram_tensor *backward;  /* refine: gets the backward errors, f64, one an item of the batch */
    gram_tensor *refinings; /* refine: gets the number of steps, int32, one an item of the batch */
} gram_solve_options;

/* clang-format off */
#define GRAM_SOLVE_OPTIONS_INIT GRAM_SIZED_(gram_solve_options)
/* clang-format on */

/*
 * Solves A x = b for symmetric positive definite A by Cholesky's factorisation (LAPACK potrf and
 * potrs):
 *   x[..., :, j] = A[...]^-1 b[..., :, j].
 *
 * a is n by n: only the triangle uplo is read; rows and columns mean what they say, whatever the
 * strides.  b and x are n by r, right-hand sides in columns, any strides; x may be b itself (same
 * data, shape and strides): in place.  Batches of a and b broadcast.  f32 or f64, one dtype.
 *
 * info: int32, one an item of the batch (its shape), or NULL: 0, or i > 0 if the leading minor of
 * order i is not positive definite (NaN counts as such).  Such an item's x (not its in-place
 * factor) is filled with NaN, the other items are unharmed, and the status is GRAM_OK if info was
 * given, else GRAM_NUMERICAL.
 *
 * factor holds L (or U) in its triangle; the other triangle of the factor is undefined unless it
 * is in place, where it is left as it was.  A scratch copy of one matrix is needed when no factor
 * is asked for or the in-place one has no unit stride; see gram_solve_cholesky_workspace.
 *
 * On request, with scratch for a second copy:
 * - rcond: LAPACK's estimate of 1 / (|A|_1 |A^-1|_1) from the factor (pocon, gecon; with refine of
 *   the f32 factor), 0 where the factorisation broke down.
 * - jitter: A + s I is tried for each s of the list; jittered gets the first that is positive
 *   definite, NaN (and info as ever) where none is.  Everything else is then about A + s I.
 * - refine: A is factored in f32, half of the time of f64, and x is refined with residuals in f64:
 *   steps of all right-hand sides together while the backward error still falls fourfold (as LAPACK
 *   dsposv), then, for the columns that need it, GMRES preconditioned by the f32 factor (Carson and
 *   Higham 2017), flexible (Saad 1993).  The backward error of an item is the largest of its
 *   columns', in infinity norms:
 *     |b - A x| / (|A| |x| + |b|),
 *   infinite where b is not finite; at most sqrt(n) 2^-53 is accepted.  Where that is not reached A
 *   is factored in f64 after all; refinings is then -1, else the number of times that a residual
 *   was computed for some column.
 *
 * CUDA: matrices of order 64 or less in one launch; larger ones side by side, from copies of up to
 * 1 GiB in scratch.  But where the factor goes over a or is given, and for less than 8 matrices for
 * LU, cuSOLVER takes one after the other.  It is opened when the first of these comes, or at most
 * four matrices beyond order 512 (GRAM_UNSUPPORTED where it cannot be), and has scratch of its own.
 * Nothing waits, so without info a failure shows in x alone and the status is GRAM_OK.
 * Right-hand sides that are not columns with unit stride pass through scratch.
 *
 * With rcond, jitter or refine the device decides: the first factorisation of at most four matrices
 * beyond order 512 is cuSOLVER's, those that only some items turn out to need are kernels that end
 * at once for the others.  Refinement then takes at most 10 plain steps and 3 cycles of GMRES of 20
 * vectors, every column by itself; refinings is the largest number of steps of a column.
 */
GRAM_API gram_status gram_solve_cholesky(gram_context *g, const gram_tensor *a,
                                         const gram_tensor *b, const gram_solve_options *options,
                                         gram_tensor *x, gram_tensor *info);

GRAM_API gram_status gram_solve_cholesky_workspace(gram_context *g, const gram_tensor *a,
                                                   const gram_tensor *b,
                                                   const gram_solve_options *options,
                                                   const gram_tensor *x, gram_workspace *need);

/*
 * Solves A x = b for any square A by LU with partial pivoting (LAPACK getrf and getrs).  As
 * gram_solve_cholesky, but the whole of a is read, and info = i > 0 says that U[i, i] is exactly
 * zero or NaN.  factor holds L (unit diagonal) and U; pivots the row exchanges, as LAPACK (1-based)
 * of the factor as it is stored: give both back unchanged with factored.  On CUDA a pivot i that
 * is none cannot be refused at the call: info is then -i and x is NaN.
 */
GRAM_API gram_status gram_solve_lu(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                   const gram_solve_options *options, gram_tensor *x,
                                   gram_tensor *info);

GRAM_API gram_status gram_solve_lu_workspace(gram_context *g, const gram_tensor *a,
                                             const gram_tensor *b,
                                             const gram_solve_options *options,
                                             const gram_tensor *x, gram_workspace *need);

/* ---- Matrix products ------------------------------------------------------------------------ */

typedef struct gram_matmul_options {
    size_t size;
    int transpose_a, transpose_b; /* the matrix is used transposed */
    gram_scalar alpha, beta;      /* finite; one number or one an item */
    const gram_tensor *c;         /* may be out itself; NULL where beta is the number 0 */
} gram_matmul_options;

/* clang-format off */
#define GRAM_MATMUL_OPTIONS_INIT                                                                   \
    {sizeof(gram_matmul_options), 0, 0, {1, NULL}, {0, NULL}, NULL}
/* clang-format on */

/*
 * Products of batches of matrices:
 *   out[..., i, j] = alpha sum_l op(a)[..., i, l] op(b)[..., l, j] + beta c[..., i, j].
 *
 * op(a) is m by k, op(b) k by n, c and out m by n; all f32 or all f64; any strides (also zero and
 * negative ones).  Batches of a, b, c, alpha and beta broadcast, out has the joined one.  Where
 * beta is 0 c is not read, where alpha is 0 a and b need not be.  out may be c itself (the same
 * data, shape and strides) and must overlap nothing else.  k = 0 gives beta c.  A NaN in a row of
 * op(a) stays in that row of out.  options NULL: nothing transposed, alpha 1, beta 0.
 *
 * Error: at most (k + 3) eps times the same formula of absolute values, where nothing overflows.
 *
 * BLAS does the products: many items in parallel with a thread each, few or large ones one after
 * the other with all threads.  A batch of a that meets one b and whose rows lie evenly is one
 * product.  Scratch: copies of matrices without a unit stride, one item for each thread.
 * CUDA: cuBLAS, one call for as many items as lie evenly in memory, f32 in f32; alpha and beta may
 * be tensors of the device, and the call can be captured in a graph.
 * GRAM_UNSUPPORTED: m, n or k above 2^31 - 1.
 */
GRAM_API gram_status gram_matmul_batched(gram_context *g, const gram_tensor *a,
                                         const gram_tensor *b, const gram_matmul_options *options,
                                         gram_tensor *out);

GRAM_API gram_status gram_matmul_batched_workspace(gram_context *g, const gram_tensor *a,
                                                   const gram_tensor *b,
                                                   const gram_matmul_options *options,
                                                   const gram_tensor *out, gram_workspace *need);

/*
 * The same product of operands that may be larger than memory, as files that are mapped into it
 * are: in pieces, no more than memory bytes of a, b, c, out and scratch being worked on at a time
 * (0: half of gram_info's memory_available, on a GPU of its device_memory_available).  A product
 * that fits is one piece, else each item of the batch is split along m and n, so that least is
 * read twice, and along k, whose pieces are summed in out.  The result is that of
 * gram_matmul_batched to rounding, and within its bound.
 * Can be cancelled between pieces (out then holds some of them).  GRAM_INVALID_ARGUMENT: memory for
 * less than one element of each.
 *
 * CUDA: a, b, c and out may each be on the device or the CPU (alpha and beta: on the device).
 * Pieces of the CPU's pass through the device: those of the next product are copied there while one
 * is computed, and the one before is copied back; memory bounds the two copies that this takes of
 * each.  k is split only where 256 rows and columns with all of k do not fit: an element is else
 * one sum, as in the whole product (bit for bit, where cuBLAS takes the same kernel for both).
 * All on the device: the call is queued, and can be captured in a graph.  Else it returns when out
 * is complete, GRAM_UNSUPPORTED while the stream is captured, keeps no scratch, and takes up to 64
 * MiB of pinned memory of the CPU for as long as it runs, none for operands that are pinned
 * themselves (cuMemHostAlloc, cudaHostRegister, torch's pin_memory) and have a unit stride.
 * memory does not count the scratch of a piece's product: 4 MiB of cuBLAS, copies of what the
 * device has without a unit stride.
 */
GRAM_API gram_status gram_matmul_chunked(gram_context *g, const gram_tensor *a,
                                         const gram_tensor *b, const gram_matmul_options *options,
                                         size_t memory, gram_tensor *out);

GRAM_API gram_status gram_matmul_chunked_workspace(gram_context *g, const gram_tensor *a,
                                                   const gram_tensor *b,
                                                   const gram_matmul_options *options,
                                                   size_t memory, const gram_tensor *out,
                                                   gram_workspace *need);

/* How many numbers the upper triangle of a symmetric matrix has.  They are packed row by row: the
 * element i, j of the matrix, with i <= j < n, is number
 *   i (2 n - i - 1) / 2 + j. */
static inline int64_t gram_packed_size(int64_t n)
{
    return n % 2 == 0 ? n / 2 * (n + 1) : (n + 1) / 2 * n;
}

typedef struct gram_syrk_ema_options {
    size_t size;
    int transpose;     /* G^T G instead of G G^T */
    int packed;        /* l holds the upper triangle alone, see gram_packed_size */
    gram_scalar beta;  /* from 0 to 1, one number or one an item */
    gram_scalar alpha; /* finite, one number or one an item */
    int sum;           /* alpha without the factor 1 - beta */
    int keep;          /* an item whose G is not finite leaves l as it is */
} gram_syrk_ema_options;

/* clang-format off */
#define GRAM_SYRK_EMA_OPTIONS_INIT                                                                 \
    {sizeof(gram_syrk_ema_options), 0, 0, {0, NULL}, {1, NULL}, 0, 0}
/* clang-format on */

/*
 * The running average of a Gram matrix, in place:
 *   l <- beta l + (1 - beta) alpha G G^T,
 *   l <- beta l + alpha G G^T               (sum),
 * with G^T G instead of G G^T where transpose is set.
 *
 * x (the matrix G) is m by k, any strides; l is n by n, where n is m, with transpose k; or with
 * packed a vector of gram_packed_size(n) numbers, any strides.  Of l the upper triangle is read
 * (where beta is 0 nothing is) and both are written, exactly symmetric.  f32 or f64, one dtype.
 * The batch of l is the call's: x, beta and alpha broadcast over it.  l must not overlap x.
 *
 * info: int32, one an item, or NULL: 1 where x has a NaN or an infinity, or where the sum of the
 * squares of its elements overflows, else 0.  With keep such an item's l is left as it is: a bad
 * gradient does not poison the average.  The status is GRAM_OK all the same.
 *
 * Error: at most (k + 4) eps times the same formula of absolute values, where nothing overflows.
 * Half the work of a product, by BLAS (syrk and gemm on 256 rows at a time).  Scratch: 256 rows of
 * l, and a copy of an x without a unit stride, for each thread that takes items.  CUDA: the whole
 * product by cuBLAS to scratch, then one kernel adds it; info is the device's, nothing waits.
 * GRAM_UNSUPPORTED: m or k above 2^31 - 1.
 */
GRAM_API gram_status gram_syrk_ema(gram_context *g, const gram_tensor *x,
                                   const gram_syrk_ema_options *options, gram_tensor *l,
                                   gram_tensor *info);

GRAM_API gram_status gram_syrk_ema_workspace(gram_context *g, const gram_tensor *x,
                                             const gram_syrk_ema_options *options,
                                             const gram_tensor *l, gram_workspace *need);

/* ---- Symmetric eigenproblems --------------------------------------------------------------- */

/* Which pairs, eigenvalues counted from 0 in ascending order. */
typedef enum gram_eigh_select {
    GRAM_EIGH_ALL = 0,
    GRAM_EIGH_INDEX = 1,    /* first to first + count - 1 */
    GRAM_EIGH_VALUE = 2,    /* those with lower < value <= upper */
    GRAM_EIGH_LARGEST = 3,  /* the count largest */
    GRAM_EIGH_SMALLEST = 4, /* the count smallest */
} gram_eigh_select;

/* How they are computed. */
typedef enum gram_eigh_driver {
    GRAM_EIGH_DRIVER_AUTO = 0,        /* whichever is expected to be fastest here, or was measured
                                         to be: see gram_tune_eigh */
    GRAM_EIGH_DRIVER_CLOSED_FORM = 1, /* n <= 3: a fixed number of steps; many items at once */
    GRAM_EIGH_DRIVER_JACOBI = 2,      /* n <= 32: cyclic Jacobi, many items at once */
    GRAM_EIGH_DRIVER_DIVIDE = 3,      /* LAPACK syevd: all pairs; n <= 32,766.  CUDA: Xsyevd */
    GRAM_EIGH_DRIVER_BISECTION = 4,   /* LAPACK sytrd, stebz, stein, ormtr: a range of pairs.  CUDA:
                                         Xsyevdx, for a range by index, else Xsyevd */
    GRAM_EIGH_DRIVER_KRYLOV = 5,      /* block Lanczos: few pairs at one end of a large matrix */
    GRAM_EIGH_DRIVER_BATCHED = 6,     /* CUDA: cuSOLVER's XsyevBatched; n <= 26,754 */
} gram_eigh_driver;

/* How it went. */
typedef struct gram_eigh_report {
    size_t size;             /* set by the caller to sizeof(gram_eigh_report) */
    gram_eigh_driver driver; /* that was used */
    int64_t products;        /* KRYLOV: with blocks of vectors, of all items */
    double residual;         /* KRYLOV: the largest |A v - w v| / |A| of its pairs */
    int64_t dense;           /* items that KRYLOV gave up and BISECTION did */
} gram_eigh_report;

typedef struct gram_eigh_options {
    size_t size;
    gram_uplo uplo;          /* the triangle of a that is read */
    gram_eigh_select select; /* which pairs */
    int64_t first, count;    /* INDEX; LARGEST and SMALLEST: count */
    double lower, upper;     /* VALUE; infinities are allowed */
    gram_tensor *found;      /* VALUE: int64, one an item: how many lie there; else NULL */
    gram_eigh_driver driver; /* one that cannot do what is asked: GRAM_UNSUPPORTED */
    /* Of KRYLOV. */
    double tolerance;         /* of |A v - w v|, relative to |A|; 0: min(10 n eps, 1e-5) */
    int64_t products;         /* the most, with blocks of 8 or 16 vectors each; 0: see below */
    uint64_t seed;            /* of the random start */
    gram_eigh_report *report; /* gets how it went, with any driver; or NULL */
    int background;           /* CUDA: 1: do not keep the calling thread; see gram_eigh_wait */
} gram_eigh_options;

/* clang-format off */
#define GRAM_EIGH_OPTIONS_INIT GRAM_SIZED_(gram_eigh_options)
/* clang-format on */

/*
 * Eigenvalues and eigenvectors of symmetric matrices, the values ascending and the vectors
 * orthonormal:
 *   A[...] v_j         = w_j v_j,
 *   values[..., j]     = w_j,
 *   vectors[..., :, j] = v_j.
 *
 * a is n by n: only the triangle uplo is read; rows and columns mean what they say, whatever the
 * strides.  values has k elements an item and vectors (NULL: not wanted) is n by k, where k is n
 * for ALL and count for INDEX, LARGEST and SMALLEST.  For VALUE k is the caller's choice, at most
 * n: found says how many values lie in (lower, upper], the k smallest of these are stored, and what
 * is left of values and vectors is NaN.  f32 or f64, one dtype, any strides and batch; the outputs
 * have the batch shape of a.  vectors may be a itself (same data, shape and strides): in place.
 *
 * info: int32, one an item, or NULL: 0; 1 if the method did not converge; 2 if the triangle holds
 * NaN or infinity.  The values and vectors of such an item are NaN (found is 0), the other items
 * are unharmed, and the status is GRAM_OK if info was given, else GRAM_NUMERICAL.
 *
 * Matrices are scaled by powers of two, so nothing overflows or underflows on the way: the error
 * of A V = V W and of the orthogonality of V is of the order n eps, relative to |A|, whatever the
 * matrix.  Sources: closed form: the outer root of the characteristic cubic, then deflation
 * (D. Eberly, "A robust eigensolver for 3x3 symmetric matrices"); Jacobi: G. Golub and C. Van Loan,
 * "Matrix computations", 8.5; the rest is LAPACK's or cuSOLVER's.  Scratch: see
 * gram_eigh_workspace.
 *
 * CUDA: info alone tells what became of an item.  CLOSED_FORM, JACOBI and BATCHED only enqueue and
 * can be captured in a graph; DIVIDE and BISECTION keep the calling thread inside cuSOLVER until
 * the device is done (but see gram_eigh_wait), item by item, and give GRAM_UNSUPPORTED in a
 * capture.  So does KRYLOV, whose calling thread looks at the numbers of each step; it also gives
 * GRAM_NUMERICAL as above.  AUTO takes BATCHED for one item up to n = 512, several up to n = 256,
 * more than 4 + n / 400; KRYLOV not with options.background.
 *
 * KRYLOV takes LARGEST, SMALLEST and an INDEX range at one end.  It multiplies by the matrix, half
 * of which is read each time, and needs scratch for about 2 k + 250 vectors (f32: 320).  Every pair
 * that it gives has been verified: |A v - w v| <= tolerance |A|, from a product with v itself, |A|
 * being the largest |Ritz value|.  Multiple eigenvalues are found with their copies.  Where the
 * wanted pairs do not converge in options.products (0: 1000) info is 1.  AUTO takes it where n >=
 * 2000 and k <= n / 200, with max(60, n / 16) products; if those do not do, BISECTION starts afresh
 * and the report says so: gram_eigh_workspace answers for both, but a context that owns its scratch
 * takes what BISECTION needs only then.  Can be cancelled.  The result does not depend on the
 * number of threads.  CUDA: scratch for about 4 k + 240 vectors and 4 MiB.  After K. Wu and H.
 * Simon, Thick-restart Lanczos method for large symmetric eigenvalue problems, SIAM J. Matrix Anal.
 * Appl. 22 (2000), in blocks.
 */
GRAM_API gram_status gram_eigh(gram_context *g, const gram_tensor *a,
                               const gram_eigh_options *options, gram_tensor *values,
                               gram_tensor *vectors, gram_tensor *info);

/*
 * Waits for a gram_eigh with options.background: DIVIDE or BISECTION of one matrix on CUDA, which
 * keep the thread that calls cuSOLVER until the device is done.  With background 1 a thread of the
 * context calls it, on a stream of its own that begins behind what the context's stream holds, and
 * gram_eigh returns at once: the caller and its stream go on.  Afterwards (also after
 * gram_context_synchronize, or the next call of the context that needs scratch or cuSOLVER, which
 * wait too) the outputs are there in the order of the context's stream; until then a and they must
 * be left alone, and no capture may begin.  Gives what failed meanwhile.  Everything else, the CPU
 * too, ignores background, and there is nothing to wait for.
 */
GRAM_API gram_status gram_eigh_wait(gram_context *g);

GRAM_API gram_status gram_eigh_workspace(gram_context *g, const gram_tensor *a,
                                         const gram_eigh_options *options,
                                         const gram_tensor *values, const gram_tensor *vectors,
                                         gram_workspace *need);

/* A call that has been checked, and what it will do; made by gram_eigh_plan and others. */
typedef struct gram_plan gram_plan;

/* Where an expected time comes from. */
typedef enum gram_time_source {
    GRAM_TIME_UNKNOWN = 0,   /* KRYLOV, which depends on the matrix, unless it was measured */
    GRAM_TIME_MEASURED = 1,  /* gram_tune_eigh, scaled by the operations of this problem */
    GRAM_TIME_ESTIMATED = 2, /* a table of one machine (CPU: a Zen 4 core; CUDA: an H200), of all
                                pairs with vectors in f32: the order of magnitude */
} gram_time_source;

typedef struct gram_plan_description {
    size_t size;             /* set by the caller to sizeof(gram_plan_description) */
    gram_eigh_driver driver; /* that is tried first */
    int only_enqueues;       /* 1: never keeps the calling thread, can be captured in a graph */
    gram_workspace need;     /* scratch: bytes on the device, on the host */
    char text[256];          /* the same in words */
    double seconds;          /* that a call is expected to take; NaN: unknown */
    gram_time_source time_source;
    /* Of gram_eigh_multi_plan; else 1, that device's bytes, 0 and "". */
    int devices;
    size_t device_bytes[16]; /* of each, in the order of the group */
    int refused;             /* 1: one device alone would be faster: execute needs group.force */
    char reason[248];        /* what says so; else "" */
} gram_plan_description;

/*
 * Plans gram_eigh(g, a, options, values, vectors, info): checks everything, picks the driver (or
 * takes options.driver), and asks for the scratch, all without touching data.  The plan keeps
 * copies of the structs, not of what they point to: the memory of the tensors, options.report, and
 * the context must live until it is destroyed.  Errors are those of gram_eigh, and
 * GRAM_OUT_OF_MEMORY; *plan is NULL then.
 *
 * gram_plan_describe says what was picked.  gram_plan_execute is the call, as often as wanted; its
 * scratch is the context's, or what gram_context_use_workspace gave, of the bytes that the
 * description names.  gram_plan_destroy takes NULL too.
 */
GRAM_API gram_status gram_eigh_plan(gram_context *g, const gram_tensor *a,
                                    const gram_eigh_options *options, gram_tensor *values,
                                    gram_tensor *vectors, gram_tensor *info, gram_plan **plan);
GRAM_API gram_status gram_plan_describe(const gram_plan *plan, gram_plan_description *description);
GRAM_API gram_status gram_plan_execute(gram_plan *plan);
GRAM_PUBLIC void gram_plan_destroy(gram_plan *plan);

/*
 * gram_eigh of one matrix (each of a batch in turn) that all devices of a group share, inside this
 * process, through cusolverMg: for matrices that one device cannot hold.  Contexts are on distinct
 * CUDA devices, at most 16, which can reach each other's memory; arguments, results and info are
 * those of gram_eigh with the driver DIVIDE.  options.driver is AUTO or DIVIDE; background is
 * ignored.  Ranges are chosen from all pairs: cusolverMg has no others.
 *
 * Tensors lie on the CPU or on devices of the group, each where it likes, with any strides; blocks
 * of 256 columns go from there to the devices in turn.  Each device needs scratch for its share of
 * the matrix, for cusolverMg's and for one block, the CPU for one block and the values:
 * gram_eigh_multi_plan.  Scratch is the contexts', or what gram_context_use_workspace gave each,
 * which others must be able to reach (memory of cuMemAlloc).
 *
 * The call waits: first for the streams of all contexts, then for the result.  It cannot be
 * captured.  GRAM_UNSUPPORTED: other devices than CUDA's; no cusolverMg; devices that do not reach
 * each other; and, unless group.force is 1, where one device of the group can hold the problem and
 * is known to be faster: the message says what was measured.  cusolverMg's handle is kept by the
 * first context, for the same devices in the same order.
 */
GRAM_API gram_status gram_eigh_multi(const gram_group *group, const gram_tensor *a,
                                     const gram_eigh_options *options, gram_tensor *values,
                                     gram_tensor *vectors, gram_tensor *info);

/*
 * Plans gram_eigh_multi: like gram_eigh_plan, whose functions take the plan.  The description has
 * the bytes of each device, and whether execute would refuse; making the plan is no refusal.  The
 * contexts must live until the plan is destroyed.
 */
GRAM_API gram_status gram_eigh_multi_plan(const gram_group *group, const gram_tensor *a,
                                          const gram_eigh_options *options, gram_tensor *values,
                                          gram_tensor *vectors, gram_tensor *info,
                                          gram_plan **plan);

/* What gram_tune_eigh found. */
typedef struct gram_eigh_tuning {
    size_t size;                   /* set by the caller to sizeof(gram_eigh_tuning) */
    int candidates;                /* drivers that were measured */
    int kept;                      /* 1: in the cache, for other processes too; 0: for this one */
    gram_eigh_driver driver;       /* the fastest */
    gram_eigh_driver table_driver; /* the library's own choice */
    double driver_seconds[16];     /* a call with each, by its number; NaN: not measured, since it
                                      does not do what is asked, or gave up */
} gram_eigh_tuning;

/*
 * Measures every driver that does gram_eigh(g, a, options, values, vectors, info), where
 * options.driver is AUTO, and has AUTO take the fastest for such problems from then on: the same
 * device (CPU: instruction set and number of threads; CUDA: compute capability), dtype, vectors or
 * none, at an end of the spectrum or not, n with the same three leading bits, and numbers of items
 * and of pairs that are the same to the next power of two (or all pairs).  What a driver takes may
 * depend on the matrix (KRYLOV does): a should be one of those that will come, without NaN.
 *
 * Kept in the file of gram_cache_info, for other processes too; gram_cache_clear forgets it.  A
 * plan made before keeps its driver; a workspace asked for before may be too small.  Waits for the
 * device; the outputs are overwritten, options.report is not.  GRAM_INVALID_ARGUMENT: a has no
 * elements, vectors is a, a driver is given.  Otherwise errors are those of gram_eigh.
 */
GRAM_API gram_status gram_tune_eigh(gram_context *g, const gram_tensor *a,
                                    const gram_eigh_options *options, gram_tensor *values,
                                    gram_tensor *vectors, gram_tensor *info,
                                    gram_eigh_tuning *result);

/*
 * A symmetric matrix that is known by its products: apply computes out = A in, both n by b with b
 * at most 8, row-major, of this dtype (f32 or f64), in memory of the context's device that lives
 * for the call; on CUDA apply queues its work on the context's stream, or waits for its own.  It
 * must not use the context of the call that it serves.  A status other than GRAM_OK ends that call,
 * which returns it.
 */
typedef struct gram_operator {
    int64_t n;
    gram_dtype dtype;
    gram_status (*apply)(void *user, const gram_tensor *in, gram_tensor *out);
    void *user;
} gram_operator;

/*
 * The k largest or smallest pairs of a matrix that is known by its products: gram_eigh with KRYLOV
 * (see there).  options.select is GRAM_EIGH_LARGEST or GRAM_EIGH_SMALLEST, options.driver AUTO or
 * KRYLOV; options.products 0 is 1000.  values has k elements, vectors (NULL: not wanted) is n by k,
 * info (NULL: not wanted) is a number: 0; 1 if fewer than k pairs converged; 2 if NaN or infinity
 * came up.  Values and vectors are NaN then, and the status is GRAM_OK if info was given, else
 * GRAM_NUMERICAL.  A must be symmetric; it is not checked.  CUDA: keeps the calling thread, and
 * gives GRAM_UNSUPPORTED in a capture.
 */
GRAM_API gram_status gram_eigh_operator(gram_context *g, const gram_operator *a,
                                        const gram_eigh_options *options, gram_tensor *values,
                                        gram_tensor *vectors, gram_tensor *info);

GRAM_API gram_status gram_eigh_operator_workspace(gram_context *g, const gram_operator *a,
                                                  const gram_eigh_options *options,
                                                  const gram_tensor *values,
                                                  const gram_tensor *vectors, gram_workspace *need);

/*
 * The same for the kernel matrix K(x, x) + r I of points, which is never stored: products are those
 * of gram_kernel_matmul, with any of its outputs.  x is n by d, any strides; batches of x and of
 * the kernel's hyperparameters broadcast, values, vectors and info have that batch, and the dtype
 * that gram_kernel's out would have (info: int32).  kernel.row_offset and column_offset are equal.
 */
GRAM_API gram_status gram_eigh_kernel(gram_context *g, const gram_tensor *x,
                                      const gram_kernel_options *kernel,
                                      const gram_eigh_options *options, gram_tensor *values,
                                      gram_tensor *vectors, gram_tensor *info);

GRAM_API gram_status gram_eigh_kernel_workspace(gram_context *g, const gram_tensor *x,
                                                const gram_kernel_options *kernel,
                                                const gram_eigh_options *options,
                                                const gram_tensor *values,
                                                const gram_tensor *vectors, gram_workspace *need);

/* ---- Powers of symmetric matrices ---------------------------------------------------------- */

typedef enum gram_power_method {
    GRAM_POWER_AUTO = 0, /* GRAM_POWER_EIGH; CUDA: see there */
    GRAM_POWER_EIGH = 1,
    GRAM_POWER_COUPLED_NEWTON = 2,
    GRAM_POWER_NEWTON_SCHULZ = 3,
    GRAM_POWER_MINIMAX = 4,
} gram_power_method;

/* What the products of matrices of an iteration are computed in; f64 matrices know AUTO and F64. */
typedef enum gram_power_precision {
    GRAM_POWER_PRECISION_AUTO =
        0, /* CPU: a's dtype.  CUDA: F64 where that is as fast as f32 (sm_80,
              sm_90, sm_100: they have tensor cores for f64), else F32 */
    GRAM_POWER_PRECISION_F64 = 1,
    GRAM_POWER_PRECISION_F32 = 2,
    GRAM_POWER_PRECISION_TF32X3 = 3, /* three products of TF32: about 21 bits.  CPU: as F32 */
    GRAM_POWER_PRECISION_TF32 = 4,   /* 11 bits, in the steps whose errors grow by at most 20, the
                                        last ones; F32 in the others.  CPU: as F32 */
} gram_power_precision;

/* What info says of an item. */
typedef enum gram_power_outcome {
    GRAM_POWER_DONE = 0,
    GRAM_POWER_NOT_FINITE = 1,    /* the triangle that is read has a NaN or an infinity */
    GRAM_POWER_NOT_DEFINITE = 2,  /* the power does not exist, see gram_matrix_power */
    GRAM_POWER_NOT_CONVERGED = 3, /* an iteration diverged or came to its end */
    GRAM_POWER_INEXACT = 4,       /* the error estimate is above options.tolerance */
} gram_power_outcome;

typedef struct gram_matrix_power_options {
    size_t size;
    int numerator, denominator; /* the power; denominator 1 to 64; both 0: -1/4 */
    gram_power_method method;
    gram_uplo uplo;     /* the triangle of a that is read */
    gram_scalar ridge;  /* r: added to the diagonal, at least 0, one number or one an item */
    int ridge_relative; /* r is times the largest eigenvalue of a */
    double condition;   /* minimax: a bound of the condition of A + r I; 0: from the ridge */
    int iterations;     /* most steps of an iteration without a fixed number; 0: 100 */
    gram_tensor *error; /* gets the error estimates, one an item, a's dtype; NULL: not wanted */
    double tolerance;   /* the largest error estimate that is accepted; 0: any */
    int keep;           /* an item that is not DONE keeps what out held before */
    gram_power_precision precision;
    double power; /* any number instead of numerator / denominator, which are 0 then; 0: these */
    double floor; /* eigenvalues of A + r I below floor times the largest are raised to it; 0: no */
} gram_matrix_power_options;

/* clang-format off */
#define GRAM_MATRIX_POWER_OPTIONS_INIT GRAM_SIZED_(gram_matrix_power_options)
/* clang-format on */

/*
 * Powers of symmetric positive semidefinite matrices, the inverse fourth root unless options say
 * otherwise:
 *   out = (A + r I)^(numerator / denominator).
 *
 * a is n by n, only its triangle uplo is read; out is n by n and gets both triangles, exactly
 * symmetric; out may be a itself (same data, shape and strides): in place.  Any strides, f32 or
 * f64, one dtype.  a and a tensor of ridges broadcast; out, info and options.error have the joined
 * batch.
 *
 * Methods, with B = A + r I and its condition kappa = largest / smallest eigenvalue:
 * - EIGH, any power, with the eigendecomposition B = V diag(l) V^T:
 *     B^p = V diag(l^p) V^T.
 *   It is always in double (the smallest eigenvalues decide an inverse root, and in f32 they are
 *   noise from kappa 1e5 on).  Negative eigenvalues of A count as 0.  The relative error in the
 *   Frobenius norm is at most eps + 8 n 2^-52 kappa, eps being a's dtype's.  With floor > 0 an
 *   eigenvalue l of A counts as
 *     max(max(l, 0) + r, floor (max(l_max, 0) + r)),
 *   so that matrices of any rank and sign have any power (but for the inverse of a matrix whose
 *   eigenvalues are all 0 or below).  The error is relative to the matrix of these eigenvalues.
 * - COUPLED_NEWTON, any power, with q = denominator, m the largest eigenvalue of B and
 *   z = (q + 1) / (2 m) (Iannazzo 2006; Guo and Higham 2006):
 *     M = z B,  X = z^(1/q) I,  then until M is I
 *     W = (1 + 1/q) I - M / q,  X <- X W,  M <- W^q M.
 *   X tends to B^(-1/q); other powers are products with X and B.
 * - NEWTON_SCHULZ, for denominators 2, 4, 8, 16, 32 and 64, with m as above (Higham 2008, 6.35):
 *     Y = B / m,  Z = I,  then until Z Y is I
 *     E = (3 I - Z Y) / 2,  Y <- Y E,  Z <- E Z.
 *   sqrt(m) Y tends to B^(1/2) and Z / sqrt(m) to B^(-1/2).  Denominators from 4 on take the square
 *   root of the square root, and so on.
 * - MINIMAX: coupled like Newton, with
 *     W = a I + b M,  max |1 - y^(1/q) (a + b y)| the least
 *   over the interval that still holds the eigenvalues y of M; on CUDA in f64 for f32, where the
 *   condition is known beforehand, W = a I + b M + c M^2 in half as many steps.  The number of
 *   steps depends on options.condition alone; there is no test of convergence.  The condition comes
 *   from the ridge where it is 0: 1 + 1 / ridge if that is relative.  Least accurate on the largest
 *   eigenvalues.
 * The iterations work in options.precision and take the largest eigenvalue from 32 Lanczos steps,
 * which never overstate it.  Where kappa eps < 1/100 their relative error in the Frobenius norm is
 * at most (2 kappa + 16 n) eps, with MINIMAX (4 kappa + 16 n) eps, eps being a's dtype's; TF32X3
 * and TF32 promise nothing: ask for the error estimate.
 *
 * options.power is taken as numerator / denominator where it is such a fraction, as -0.25 is; other
 * powers, and a floor, are EIGH's alone, and have no error estimate.
 *
 * The error estimate for a power -k/q is the largest magnitude in P - I, P being the product of q
 * matrices X and k matrices B in an order that keeps it small: B first, then X where the powers of
 * B so far add up to more than 0, else B; the X from the left and from the right in turn, so the B.
 * For -1/4 that is X X B X X.  For a power k/q it is the largest magnitude in X^q - B^k over that
 * in B^k.  It takes q + k products in the precision of the method, whose rounding adds about kappa
 * eps.  It is computed where options.error or options.tolerance asks for it.
 *
 * info: int32, one an item, or NULL: an enum gram_power_outcome.  NOT_DEFINITE: an eigenvalue of A
 * is below -max(4 n eps times the largest magnitude, ridge), or the power is negative and the
 * smallest eigenvalue of B is at most n 2^-52 times the largest (EIGH); or B is zero and the power
 * negative.  Where an iteration meets such a matrix it does not converge.  Items that are not DONE
 * are filled with NaN, INEXACT ones hold what was found, with options.keep both keep what they had;
 * their error estimate is NaN where there is none.  Other items are unharmed.  Without info the
 * status is GRAM_NUMERICAL if any item is not DONE.
 *
 * CPU: several items of order 1024 or less are done in parallel, one thread each, larger ones one
 * after the other with all threads.  EIGH takes n up to 32,000.
 *
 * CUDA: the whole batch step by step, in chunks of about a GiB of scratch; products are cuBLAS's,
 * EIGH is cuSOLVER's XsyevBatched (12.6.2 or newer).  AUTO is COUPLED_NEWTON in f64 where that is
 * as exact and faster: f32 matrices of order 256 and more, a negative power, precision AUTO or F64
 * on sm_80, sm_90 or sm_100, and a bound of kappa of at most 2^24, from options.condition or from a
 * relative ridge of at least 8 n 2^-23; (2 kappa + 16 n) 2^-52 is below f32's eps then.  (CPUs take
 * longer for it than for EIGH.)  Nothing waits, and iterations take a fixed number of steps: those
 * that the condition options.condition needs, else that of a relative ridge given as a number, else
 * 1 / eps; at most options.iterations.  An item that is done before keeps what it has, one that
 * would need more is NOT_CONVERGED.  A ridge in a tensor that is negative or not finite makes its
 * item NOT_FINITE.  Can be captured in a graph after a first call.
 */
GRAM_API gram_status gram_matrix_power(gram_context *g, const gram_tensor *a,
                                       const gram_matrix_power_options *options, gram_tensor *out,
                                       gram_tensor *info);

GRAM_API gram_status gram_matrix_power_workspace(gram_context *g, const gram_tensor *a,
                                                 const gram_matrix_power_options *options,
                                                 const gram_tensor *out, gram_workspace *need);

/* ---- Many matrices on several devices ------------------------------------------------------- */

/* What became of a matrix of a list. */
typedef struct gram_many_item {
    gram_status status;
    int32_t context;   /* of the group, counted from 0, that it was given to */
    char message[248]; /* why it failed; else "" */
} gram_many_item;

typedef struct gram_many {
    size_t size;
    int64_t count;             /* of matrices: the length of every list */
    gram_many_item *items;     /* gets what became of each; or NULL */
    gram_tensor *const *found; /* gram_eigh_many with GRAM_EIGH_VALUE: options.found of each */
    gram_tensor *const *error; /* gram_matrix_power_many: options.error of each; or NULL */
} gram_many;

/* clang-format off */
#define GRAM_MANY_INIT GRAM_SIZED_(gram_many)
/* clang-format on */

/*
 * gram_eigh of many matrices (or batches) of any orders, shared by the contexts of a group: what
 * the call computes for a[i] is gram_eigh(contexts[c], a[i], options, values[i], vectors[i],
 * info[i]).  vectors and info, or elements of them, may be NULL: not wanted.
 *
 * Which context c takes a matrix depends on the sizes alone: the longest first (n^3 times the
 * items of its batch, the first of equal ones first), each to the context that would be done with
 * it soonest by its speed, the first of equal ones.  Each context has a thread for its share, the
 * first one the caller's; where no thread can be had, the caller's does it afterwards.
 *
 * Tensors lie on the CPU or on any CUDA device, also on different ones, whatever their strides;
 * what is not on the device of the matrix's context is copied there and back, which takes memory
 * for it beside the workspace.  A matrix with a tensor on a CUDA device needs a context on one
 * (GRAM_INVALID_ARGUMENT).  Outputs share memory with nothing else, except that vectors[i] may be
 * a[i].
 *
 * The call waits: first for the streams of all contexts, then for the results.  A matrix that fails
 * leaves the others alone; its outputs are as gram_eigh says.  The status and the message are those
 * of the first in the list that failed.  options: found and report must be NULL, background is
 * ignored.  Without a context see gram_message(NULL).  GRAM_OUT_OF_MEMORY, GRAM_INVALID_ARGUMENT:
 * also before anything is done, items is untouched then.
 */
GRAM_API gram_status gram_eigh_many(const gram_group *group, const gram_many *many,
                                    const gram_tensor *const *a, const gram_eigh_options *options,
                                    gram_tensor *const *values, gram_tensor *const *vectors,
                                    gram_tensor *const *info);

/*
 * The same of gram_matrix_power: out[i] is what gram_matrix_power(contexts[c], a[i], options,
 * out[i], info[i]) gives; info, or elements of it, may be NULL.  The ridge is a number;
 * options.error must be NULL (many.error has a tensor for each).
 */
GRAM_API gram_status gram_matrix_power_many(const gram_group *group, const gram_many *many,
                                            const gram_tensor *const *a,
                                            const gram_matrix_power_options *options,
                                            gram_tensor *const *out, gram_tensor *const *info);

/* ---- Kronecker products ------------------------------------------------------------------- */

/* Most factors of one product. */
#define GRAM_MAX_FACTORS 16

/*
 * The Kronecker product of count matrices, written out:
 *   out[..., (i_1, ..., i_N), (j_1, ..., j_N)] = f_1[..., i_1, j_1] * ... * f_N[..., i_N, j_N].
 * The last index of a bracket runs fastest.
 *
 * factors points to 1 to GRAM_MAX_FACTORS matrices of any sizes (0 gives an empty result) and
 * strides, f_n being P_n by Q_n; out is (P_1 ... P_N) by (Q_1 ... Q_N).  Batches broadcast.  All
 * have one dtype: f32, f64, i32 or i64 (which wrap around), f16 or bf16 (multiplied in f32, rounded
 * once).  out must not overlap a factor or itself.
 *
 * Error: N - 1 roundings, in an order that the sizes decide; a product on the way may overflow
 * where the whole one does not.
 */
GRAM_API gram_status gram_kron(gram_context *g, const gram_tensor *const *factors, int64_t count,
                               gram_tensor *out);

GRAM_API gram_status gram_kron_workspace(gram_context *g, const gram_tensor *const *factors,
                                         int64_t count, const gram_tensor *out,
                                         gram_workspace *need);

typedef enum gram_side {
    GRAM_RIGHT = 0,
    GRAM_LEFT = 1,
} gram_side;

/* How x and y lie on the ranks of a communicator: see gram_kron_matmul_multi. */
typedef enum gram_kron_split {
    GRAM_KRON_SPLIT_ROWS = 0,
    GRAM_KRON_SPLIT_COLUMNS = 1,
    GRAM_KRON_SPLIT_AUTO = 2, /* for gram_kron_matmul_part, which then says which of them to take */
} gram_kron_split;

typedef struct gram_communicator gram_communicator;

typedef struct gram_kron_options {
    size_t size;
    gram_side side;             /* where the factors stand */
    int transpose_x;            /* x is used transposed */
    uint32_t transpose_factors; /* bit i: factors[i] is used transposed; UINT32_MAX: all are */
    gram_scalar alpha, beta;    /* finite; of i32 and i64 whole, at most 2^53 in magnitude */
    const gram_tensor *z;       /* may be y itself; NULL where beta is the number 0 */
    /* Of gram_kron_matmul_multi and gram_kron_matmul_part; other calls refuse a communicator. */
    gram_communicator *communicator;
    gram_kron_split split;
} gram_kron_options;

/* clang-format off */
#define GRAM_KRON_OPTIONS_INIT                                                                     \
    {sizeof(gram_kron_options), GRAM_RIGHT, 0, 0, {1, NULL}, {0, NULL}, NULL, NULL, GRAM_KRON_SPLIT_ROWS}
/* clang-format on */

/*
 * Multiplies by a Kronecker product without forming it.  With K = op(f_1) (x) ... (x) op(f_N) as
 * gram_kron writes it out, op(f_n) being P_n by Q_n, P = P_1 ... P_N and Q = Q_1 ... Q_N:
 *   GRAM_RIGHT: y[..., m, :] = alpha op(x)[..., m, :] K + beta z[..., m, :],
 *               op(x) is M by P, y and z are M by Q;
 *   GRAM_LEFT:  y[..., :, m] = alpha K op(x)[..., :, m] + beta z[..., :, m],
 *               op(x) is Q by M, y and z are P by M.
 *
 * factors points to 1 to GRAM_MAX_FACTORS matrices of any sizes; no matrix has to be square.  Any
 * strides; batches of x, the factors, z, alpha and beta broadcast, y has the joined one.  One
 * dtype: f32, f64, i32 or i64 (which wrap around, exactly), f16 or bf16 (computed in f32, rounded
 * once).  Where beta is 0 z is not read; y may be z itself (the same data, shape and strides), or x
 * itself where it is not transposed; it must overlap nothing else.  An empty sum is 0.  options
 * NULL: factors on the right, nothing transposed, alpha 1, beta 0.
 *
 * A row (GRAM_LEFT: a column) of y depends on that of x alone: a NaN stays in its row, and the
 * result is the same, bit by bit, whatever M, the batch, the layouts and the number of threads, on
 * one instruction set.  Error: (P_1 + ... + P_N + 2) eps times the same formula of absolute values,
 * at most, where no number on the way leaves the normal range (GRAM_LEFT: Q_n instead of P_n).
 *
 * Indices are contracted one factor after the other, those that shrink x first: after Fernandes,
 * Plateau and Stewart, Efficient descriptor-vector multiplications in stochastic automata networks,
 * J. ACM 45 (1998).  Several are applied while a part of x is in the cache, as Jangda and Yadav,
 * Fast Kronecker matrix-matrix multiplication on GPUs, PPoPP 2024, do.  Scratch: a few rows of x or
 * y for each thread, and copies of the factors.
 */
GRAM_API gram_status gram_kron_matmul(gram_context *g, const gram_tensor *x,
                                      const gram_tensor *const *factors, int64_t count,
                                      const gram_kron_options *options, gram_tensor *y);

GRAM_API gram_status gram_kron_matmul_workspace(gram_context *g, const gram_tensor *x,
                                                const gram_tensor *const *factors, int64_t count,
                                                const gram_kron_options *options,
                                                const gram_tensor *y, gram_workspace *need);

/*
 * Plans gram_kron_matmul(g, x, factors, count, options, y), for products of the same sizes that are
 * computed often: the arguments are checked here and no more by gram_plan_execute, which computes y
 * from what x, the factors, z, alpha and beta hold then.  The plan keeps copies of the structs, not
 * of the memory they point to.  Errors are those of gram_kron_matmul, and GRAM_OUT_OF_MEMORY; *plan
 * is NULL then.  gram_plan_describe, gram_plan_execute and gram_plan_destroy are those of
 * gram_eigh_plan; of the description driver and seconds tell nothing (0 and NaN).
 *
 * gram_kron_matmul_replace gives a plan other memory: x, factors (count of them) and y of the
 * planned dtype, device, shapes and strides; NULL, of factors or of one of them too, leaves what
 * was planned.  z that was y follows it.  On an error (GRAM_INVALID_ARGUMENT: another layout, y
 * overlaps an input, a plan of another call) the plan is as it was.
 */
GRAM_API gram_status gram_kron_matmul_plan(gram_context *g, const gram_tensor *x,
                                           const gram_tensor *const *factors, int64_t count,
                                           const gram_kron_options *options, gram_tensor *y,
                                           gram_plan **plan);
GRAM_API gram_status gram_kron_matmul_replace(gram_plan *plan, const gram_tensor *x,
                                              const gram_tensor *const *factors, gram_tensor *y);

/*
 * The processes that share the work of a call, made from the caller's MPI communicator: mpi_comm
 * points to an MPI_Comm of bytes = sizeof(MPI_Comm), so that gram.h needs no mpi.h.  MPI must be
 * initialised, and be the one that libgram_mpi.so was built with; that library is opened here, and
 * GRAM_UNSUPPORTED says, on all ranks, that one of them cannot open it.  Every rank of mpi_comm
 * calls this; what it makes has a copy of the communicator, whose messages meet no others.  *out is
 * NULL on an error, which every rank gets if one on which MPI runs fails.
 *
 * g must outlive it.  It serves one call at a time.  Every rank destroys it, before MPI_Finalize;
 * NULL is allowed.
 */
GRAM_API gram_status gram_communicator_create_mpi(gram_context *g, const void *mpi_comm,
                                                  size_t bytes, gram_communicator **out);

/* The same of a communicator's handle in Fortran, an INTEGER: MPI_Comm_c2f(comm), and of mpi4py
 * comm.py2f(). */
GRAM_API gram_status gram_communicator_create_mpi_fortran(gram_context *g, int mpi_comm,
                                                          gram_communicator **out);

/*
 * The same of MPI_COMM_WORLD, for programs that do not call MPI: all processes that mpirun has
 * started, or one without mpirun.  Where MPI has not been initialised it is, in this call
 * (MPI_Init_thread), and ended when the process exits: by MPI_Finalize, which waits for all ranks;
 * with an exit status other than 0 and a communicator that was not destroyed by MPI_Abort, so that
 * no rank waits for one that has failed (glibc's on_exit; elsewhere by MPI_Finalize alone).
 *
 * A rank that cannot load libgram_mpi.so gets GRAM_UNSUPPORTED.  With the two functions above the
 * others get it too.  Here it knows nothing of MPI, and the others wait in MPI_Init until it
 * exits, which mpirun takes as the end of the job.
 */
GRAM_API gram_status gram_communicator_create_mpi_world(gram_context *g, gram_communicator **out);

/* Bytes of an id of NCCL. */
#define GRAM_NCCL_ID_BYTES 128

/*
 * An id for a new communicator over NCCL: GRAM_NCCL_ID_BYTES bytes, made once and brought to all
 * ranks by the caller (a file, a socket, a broadcast).  g is a context of a GPU.  NCCL
 * (libnccl.so.2, 2.14 or newer, as PyTorch's wheels bring it) is opened when it is first needed;
 * GRAM_UNSUPPORTED says that it cannot be.
 */
GRAM_API gram_status gram_nccl_id(gram_context *g, void *id, size_t bytes);

typedef struct gram_nccl_options {
    size_t size;
    double timeout; /* seconds that a rank waits for the others to come; 0: 600; may be infinite */
} gram_nccl_options;

#define GRAM_NCCL_OPTIONS_INIT   \
  {                              \
    sizeof(gram_nccl_options), 0 \
  }

/*
 * Rank `rank` of `size`, whose memory is that of g's GPU: every rank calls this with one id, in
 * processes or in threads of their own, with a GPU each, and waits for the others.  bytes is
 * GRAM_NCCL_ID_BYTES.  options NULL: the defaults.  *out is NULL on an error; a rank that does not
 * come is one for the others when their timeout is over.
 *
 * Calls with such a communicator take the context it was made with, on a thread for each rank.  A
 * call waits until all ranks have come, not for any work of a device: that is queued on the
 * contexts' streams.  A failure that NCCL meets in the background is an error of the next call on
 * all ranks.  After a rank failed behind the first exchange of a call, or a timeout, the
 * communicator is given up (ncclCommAbort): what of it runs on the GPUs ends, and every later call
 * fails.
 */
GRAM_API gram_status gram_communicator_create_nccl(gram_context *g, const void *id, size_t bytes,
                                                   int rank, int size,
                                                   const gram_nccl_options *options,
                                                   gram_communicator **out);

/*
 * The same for all ranks in this process: out[i] is rank i, of contexts[i], each of another GPU.
 * count is 64 at most.  Messages of errors are in contexts[0].
 */
GRAM_API gram_status gram_communicator_create_nccl_all(gram_context *const *contexts, int count,
                                                       const gram_nccl_options *options,
                                                       gram_communicator **out);

/* Every rank destroys its own, before its context and, over MPI, before MPI_Finalize. */
GRAM_PUBLIC void gram_communicator_destroy(gram_communicator *communicator);

/* Of this process, from 0 on, and their number; -1 and 0 of NULL. */
GRAM_PUBLIC int gram_communicator_rank(const gram_communicator *communicator);
GRAM_PUBLIC int gram_communicator_size(const gram_communicator *communicator);

/*
 * The ranks tell each other how they fare, and wait for that: GRAM_OK if status is GRAM_OK on all
 * of them.  A rank whose own is not gets it back, and its context's message stays; the others get
 * that of the rank whose is the worst, in a message that names the rank.
 *
 * For what a caller does by itself on each rank, as reading files.  A rank that cannot even make
 * the arguments of gram_kron_matmul_multi calls this with a failure in its place, which fails on
 * the others then.
 */
GRAM_API gram_status gram_communicator_agree(gram_context *g, gram_communicator *communicator,
                                             gram_status status);

/*
 * Brings bytes of all ranks to rank 0: those of rank 0, then those of rank 1, and so on.  bytes may
 * differ from rank to rank; into has room bytes on rank 0, enough for the sum of all, and is not
 * used on the others.  Memory of the CPU, over MPI.  An error of one rank is one on all of them.
 */
GRAM_API gram_status gram_communicator_gather(gram_context *g, gram_communicator *communicator,
                                              const void *data, size_t bytes, void *into,
                                              size_t room);

/*
 * gram_kron_matmul by the ranks of options.communicator: each calls it with its part of x, y and z,
 * and with the whole factors.  The same product as that of one process, to rounding.
 *
 * GRAM_KRON_SPLIT_ROWS: a rank has any number of rows of op(x), y and z (GRAM_LEFT: columns), none
 * included.  No data are exchanged.  Any device, and any dtype of gram_kron_matmul.
 *
 * GRAM_KRON_SPLIT_COLUMNS: a rank has all rows, and of their columns (GRAM_LEFT: of the columns,
 * the rows) the block that gram_kron_matmul_part names.  The factors are cut into two groups, the
 * first k and the rest.  A block of columns holds whole indices of the second group, which is
 * applied where x lies; one exchange, all to all, then gives each rank whole indices of the first
 * group, for a part of the rows or of what is left; that is applied, and a second exchange puts y
 * where it belongs: two exchanges whatever the number of factors, after Jangda and Yadav, Fast
 * Kronecker matrix-matrix multiplication on GPUs, PPoPP 2024.  With one factor the second group is
 * empty, and with one row and one factor one rank does the work.  f32, f64, i32 and i64; on the
 * CPU over MPI, on GPUs over NCCL; error: as gram_kron_matmul.
 *
 * Factors, alpha, the split, the batch and, by columns, the number of rows must be the same on all
 * ranks; alpha's number and all sizes are compared.  Before each exchange, and before y is written,
 * the ranks agree that none has failed: a bad argument or a failure on one rank ends the call on
 * all of them, on the others with the same status and a message that names the rank; then no y was
 * written (by rows, where it is not an argument or scratch that fails, some may be).  A process
 * that dies is MPI's to deal with: mpirun ends the others.  Every rank must call, with a context
 * and a communicator that are valid.  Over NCCL all of this is about queueing the work, not
 * about its end.
 *
 * Scratch by columns: twice the rank's part of x, of y or of what is between the groups, whichever
 * is the largest, and what gram_kron_matmul needs.
 */
GRAM_API gram_status gram_kron_matmul_multi(gram_context *g, const gram_tensor *x,
                                            const gram_tensor *const *factors, int64_t count,
                                            const gram_kron_options *options, gram_tensor *y);

/* Of this rank; the others are not asked. */
GRAM_API gram_status gram_kron_matmul_multi_workspace(gram_context *g, const gram_tensor *x,
                                                      const gram_tensor *const *factors,
                                                      int64_t count,
                                                      const gram_kron_options *options,
                                                      const gram_tensor *y, gram_workspace *need);

/* A rank's part of a product: of op(x) as GRAM_RIGHT sees it, for GRAM_LEFT of its transpose. */
typedef struct gram_kron_part {
    gram_kron_split split;
    int64_t first_row, rows;       /* of x and y */
    int64_t first_column, columns; /* of x */
    int64_t first_out, outs;       /* columns of y */
} gram_kron_part;

/*
 * Which part of x and y, which have `rows` rows in all, this rank of options.communicator is to
 * have, with options.split.  GRAM_KRON_SPLIT_AUTO takes rows unless the most that a rank gets is
 * over 1.25 times the average, as with fewer rows than ranks.  Rows are spread evenly; any other
 * spread of them is as good to gram_kron_matmul_multi.  Columns depend on the sizes of the factors
 * and on the number of ranks, and are the same if all factors are transposed and x and y change
 * places.
 */
GRAM_API gram_status gram_kron_matmul_part(gram_context *g, int64_t rows,
                                           const gram_tensor *const *factors, int64_t count,
                                           const gram_kron_options *options, gram_kron_part *part);

/* What gram_tune_kron found. */
typedef struct gram_kron_tuning {
    size_t size;        /* set by the caller to sizeof(gram_kron_tuning) */
    int candidates;     /* that were measured */
    int launches;       /* of the fastest: groups of factors */
    int table_launches; /* of the library's own choice */
    int kept;           /* 1: in the cache, for other processes too; 0: for this process */
    double ms;          /* a call */
    double table_ms;    /* a call */
} gram_kron_tuning;

/*
 * Measures groups of factors and tiles on the context's device for gram_kron_matmul(g, x, factors,
 * count, options, y), and has all later calls take the fastest for such problems: the same compute
 * capability (on the CPU the same instruction set and number of threads), dtype, sizes of factors
 * and direction of x and y in memory, and numbers of rows and of items that are the same to the
 * next power of two.  Scratch may then be another.  On a GPU results differ by rounding; on the CPU
 * they keep their bits: the choice is the size of tiles, which seldom gains more than 5 percent.
 * Kept as gram_tune does.  Waits for the device; y is overwritten many times and may not be x.
 * GRAM_INVALID_ARGUMENT: x or y has no elements.
 */
GRAM_API gram_status gram_tune_kron(gram_context *g, const gram_tensor *x,
                                    const gram_tensor *const *factors, int64_t count,
                                    const gram_kron_options *options, gram_tensor *y,
                                    gram_kron_tuning *result);

/* Where the gradients of gram_kron_matmul go: each has the shape of its input. */
typedef struct gram_kron_grads {
    gram_tensor *x;              /* NULL: not wanted */
    gram_tensor *const *factors; /* one a factor, NULL where it is not wanted; NULL: none is */
} gram_kron_grads;

/*
 * The gradients of a number L that depends on y = gram_kron_matmul(x, factors, count, options),
 * given grad = dL/dy.  For y = alpha X (F_1 (x) ... (x) F_N) they are
 *   dL/dX         = alpha grad (F_1 (x) ... (x) F_N)^T,
 *   dL/dF_k[p, q] = alpha sum grad[m, (j_1, ..., j_N)] X[m, (i_1, ..., i_N)]
 *                             prod over n != k of F_n[i_n, j_n],
 *                   the sum being over m and over all i_n and j_n with i_k = p and j_k = q.
 * The gradient of a transposed input is transposed; from the left it is the same.  An input that is
 * broadcast over the batch has its gradient summed over it.  grad has the shape of y; its batch
 * broadcasts.  beta and z of the options have no part in these gradients (dL/dz is beta grad).
 *
 * All tensors are f32, or all f64; integers have no gradients.  Any strides.  No gradient may
 * overlap another tensor.  Sizes of 0 give zeros.
 *
 * Two chains of products with one factor each, from x and from grad, meet at every factor: N - 1
 * products for x, N for grad, of which the last is dL/dX, and one for the gradient of each factor,
 * 3 N - 1 where the call itself takes N.  Each of them is a matrix product, and so is what a
 * second derivative needs: gram_kron_matmul and this call again.  On CUDA nothing waits.
 *
 * Error: that of the sums of these products in the dtype, of as many terms as the matrix products
 * have.  Results do not depend on the number of threads but where BLAS's own sums do (both sizes of
 * a factor 64 or more, or few rows).
 */
GRAM_API gram_status gram_kron_matmul_vjp(gram_context *g, const gram_tensor *x,
                                          const gram_tensor *const *factors, int64_t count,
                                          const gram_kron_options *options, const gram_tensor *grad,
                                          const gram_kron_grads *grads);

GRAM_API gram_status gram_kron_matmul_vjp_workspace(gram_context *g, const gram_tensor *x,
                                                    const gram_tensor *const *factors,
                                                    int64_t count, const gram_kron_options *options,
                                                    const gram_tensor *grad,
                                                    const gram_kron_grads *grads,
                                                    gram_workspace *need);

/*
 * The diagonal of the Kronecker product of square matrices, as gram_kron would write it: out has
 * the batch and the product of the orders as its shape.  dtypes, strides and errors as gram_kron.
 */
GRAM_API gram_status gram_kron_diagonal(gram_context *g, const gram_tensor *const *factors,
                                        int64_t count, gram_tensor *out);

GRAM_API gram_status gram_kron_diagonal_workspace(gram_context *g,
                                                  const gram_tensor *const *factors, int64_t count,
                                                  const gram_tensor *out, gram_workspace *need);

/*
 * The trace of the Kronecker product of square matrices, the product of their traces: one number an
 * item, out has the shape of the batch.  One dtype: f32 or f64 (summed in f64, rounded once), i32
 * or i64 (which wrap around).  The trace of an empty product is 0.  Takes no scratch.
 */
GRAM_API gram_status gram_kron_trace(gram_context *g, const gram_tensor *const *factors,
                                     int64_t count, gram_tensor *out);

/*
 * The logarithm of |det K| of the Kronecker product K of square matrices, and the sign of det K,
 * n_i being the order of F_i and n that of K:
 *   out = sum_i (n / n_i) log |det F_i|.
 * Each factor takes an LU factorisation in f64.  sign is 1, -1, or 0 where K is singular (out is
 * then -infinity), or NULL; both have the shape of the batch.  NaN in a factor gives NaN.  f32 or
 * f64, one dtype.  The determinant of an empty product is 1.  On CUDA nothing waits.
 */
GRAM_API gram_status gram_kron_logdet(gram_context *g, const gram_tensor *const *factors,
                                      int64_t count, gram_tensor *sign, gram_tensor *out);

GRAM_API gram_status gram_kron_logdet_workspace(gram_context *g, const gram_tensor *const *factors,
                                                int64_t count, const gram_tensor *sign,
                                                const gram_tensor *out, gram_workspace *need);

/* How gram_kron_solve divides by the factors. */
typedef enum gram_kron_method {
    GRAM_KRON_LU = 0,       /* any factors */
    GRAM_KRON_CHOLESKY = 1, /* all symmetric positive definite */
    GRAM_KRON_EIGEN = 2,    /* all symmetric; the one that takes a shift */
} gram_kron_method;

typedef struct gram_kron_solve_options {
    size_t size;
    gram_side side; /* where the factors stand */
    gram_kron_method method;
    gram_uplo uplo;    /* of symmetric factors: the triangle that is read */
    gram_scalar shift; /* finite; 0 unless the method is GRAM_KRON_EIGEN */
} gram_kron_solve_options;

/* clang-format off */
#define GRAM_KRON_SOLVE_OPTIONS_INIT GRAM_SIZED_(gram_kron_solve_options)
/* clang-format on */

/*
 * Solves systems with a Kronecker product K = F_1 (x) ... (x) F_N of square matrices, which is
 * never formed, n being the product of the orders n_i:
 *   GRAM_RIGHT: x (K + shift I) = b, b and x are m by n;
 *   GRAM_LEFT:  (K + shift I) x = b, b and x are n by m.
 * Each factor is factorised once, in O(n_i^3), and then applied to every right-hand side, which
 * takes O(n (n_1 + ... + n_N)) each.  With eigenvectors, F_i = V_i diag(w_i) V_i^T,
 *   K + shift I = V (diag(w_1 (x) ... (x) w_N) + shift I) V^T,  V = V_1 (x) ... (x) V_N,
 * as Gaussian processes on grids have it (Saatci, Scalable inference for structured Gaussian
 * process models, 2011).
 *
 * f32 or f64, one dtype; any strides; batches of the factors, b and shift broadcast.  x may be b
 * itself (same data, shape and strides), and must overlap nothing else.
 *
 * info: int32, one an item of the batch (its shape), or NULL: 0; i > 0 if factor i, counted from 1,
 * is singular, not positive definite or, with eigenvectors, not finite; N + 1 if an eigenvalue of
 * K + shift I is exactly 0.  Such an item's x is filled with NaN, the others are unharmed, and the
 * status is GRAM_OK if info was given, else GRAM_NUMERICAL.  On CUDA nothing waits: what became of
 * an item is in info alone, and the status is GRAM_OK.
 *
 * Error: each of the N steps has the residual of its factorisation, so the relative error of x is
 * of the order of eps (n_1 + ... + n_N) times the product of the conditions of the factors.
 */
GRAM_API gram_status gram_kron_solve(gram_context *g, const gram_tensor *const *factors,
                                     int64_t count, const gram_tensor *b,
                                     const gram_kron_solve_options *options, gram_tensor *x,
                                     gram_tensor *info);

GRAM_API gram_status gram_kron_solve_workspace(gram_context *g, const gram_tensor *const *factors,
                                               int64_t count, const gram_tensor *b,
                                               const gram_kron_solve_options *options,
                                               const gram_tensor *x, gram_workspace *need);

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

/* ---- Device code of your own --------------------------------------------------------------- */

/* Kernels that a CUDA context compiled: used with that context, destroyed before it. */
typedef struct gram_module gram_module;

typedef struct gram_module_options {
    size_t size;
    const char *name;    /* in messages and in the cache: letters, digits, _ . -; NULL: module.cu */
    const char *options; /* -DNAME=VALUE -UNAME --use_fast_math --fmad= --maxrregcount=, separated
                            by blanks, less than 512 bytes; NULL: none */
} gram_module_options;

/* clang-format off */
#define GRAM_MODULE_OPTIONS_INIT GRAM_SIZED_(gram_module_options)
/* clang-format on */

/*
 * Compiles CUDA C++ (C++17, no headers but those of NVRTC) for the device of g, through the cache
 * that libgram's own kernels come from: the same source and options are compiled once, by one of
 * your processes.  Kernels are declared extern "C" __global__.  *out is NULL on an error.
 *
 * GRAM_UNSUPPORTED: g is a CPU context, or NVRTC refuses the source: the message holds the
 * beginning of its log, GRAM_LOG=debug shows all of it.  GRAM_INVALID_ARGUMENT: an option that is
 * not listed above, since it could change the code without changing its place in the cache.
 */
GRAM_API gram_status gram_module_compile(gram_context *g, const char *source,
                                         const gram_module_options *options, gram_module **out);

/*
 * Queues a kernel of the module on its context's stream: grid[0] by grid[1] by grid[2] blocks of
 * block[0] by block[1] by block[2] threads, with shared_bytes of dynamic shared memory.  arguments
 * holds the address of the value of each of the kernel's parameters; they are copied.  Nothing is
 * waited for, and the call can be captured in a CUDA graph.  What a kernel does wrong is told by a
 * later call, as gram_context_synchronize.
 */
GRAM_API gram_status gram_kernel_launch(gram_module *module, const char *kernel,
                                        const int64_t grid[3], const int64_t block[3],
                                        size_t shared_bytes, void *const *arguments);

/* Synchronize the context first, and destroy graphs that hold its kernels.  NULL is allowed. */
GRAM_PUBLIC void gram_module_destroy(gram_module *module);

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

/* ---- Kernel machines ---------------------------------------------------------------------- */

/*
 * A column of a table: n numbers (NaN where one is missing), or n texts (NULL where one is
 * missing), which makes it a category.  Exactly one of numbers and labels is set.  Borrowed for
 * the call.
 */
typedef struct gram_column {
    const char *name; /* UTF-8; unique in its table */
    const double *numbers;
    const char *const *labels;
} gram_column;

typedef struct gram_table {
    int64_t rows;
    int64_t columns;
    const gram_column *column;
} gram_table;

typedef enum gram_task {
    GRAM_TASK_AUTO = 0, /* classification for labels and for numbers with two values */
    GRAM_REGRESSION = 1,
    GRAM_CLASSIFICATION = 2,
} gram_task;

typedef enum gram_solver {
    GRAM_SOLVER_AUTO = 0,     /* Cholesky up to 6000 rows, else conjugate gradients; see below */
    GRAM_SOLVER_CHOLESKY = 1, /* exact, n^3 / 3 flops, in place */
    GRAM_SOLVER_CG = 2,       /* preconditioned conjugate gradients down to tolerance */
} gram_solver;

typedef enum gram_transform {
    GRAM_TRANSFORM_AUTO = 0,
    GRAM_TRANSFORM_NONE = 1,
    GRAM_TRANSFORM_LOG = 2,  /* of a positive target: fitted on its logarithm */
    GRAM_TRANSFORM_SQRT = 3, /* of a target that is not negative: fitted on its square root */
} gram_transform;

typedef enum gram_metric {
    GRAM_METRIC_AUTO = 0,     /* a full matrix up to 500 features, else the diagonal */
    GRAM_METRIC_DIAGONAL = 1, /* one weight a feature */
    GRAM_METRIC_FULL = 2,     /* a symmetric matrix */
} gram_metric;

/*
 * How a machine is trained, whose kernel has a learned W:
 *   k(x, z) = exp(-||W (x - z)||_p^q / L^q).
 * 0 (or NULL, AUTO) means the default or, with search, that the search chooses.  Defaults:
 * p = 1.5, q = 1.4, r = 0.01, no feature learning, L the median distance of the training rows (a
 * regression: four times that).
 */
typedef struct gram_machine_options {
    size_t size;
    gram_task task;
    int search;       /* choose what is not given, by validation, within time_limit */
    double p, q;      /* 0 < q <= p <= 2; p = 2, q = 1: Laplace; p = q = 1: L1 Laplace;
                         p = q: product Laplace; p = q = 2: Gaussian with L = sqrt(2) sigma */
    double bandwidth; /* L, in units of the standardised features; 0: from the median distance */
    double regularization; /* r > 0, added to the diagonal of the kernel matrix */
    int iterations;        /* rounds of feature learning; -1: none (kernel ridge regression) */
    gram_metric metric;    /* what feature learning learns */
    double metric_power;   /* W = M^power, M the AGOP over its largest entry; 0: 1/2 for a
                              classification, 1/4 for a regression */
    gram_transform target_transform;
    gram_solver solver;
    double tolerance;     /* of conjugate gradients: relative residual of every right-hand side;
                             0: 1e-3, a classification 1e-2 */
    double validation;    /* fraction of the rows that is held out to choose and to stop early;
                             0: 0.2, and five folds in the search where there are few rows */
    int64_t leaf_rows;    /* the most rows of a leaf; more are split; 0: from the limits */
    int64_t memory_limit; /* bytes; 0: what the machine has available */
    double time_limit;    /* seconds, for search; 0: 300 */
    uint64_t seed;
    gram_dtype dtype;      /* of the kernel matrix: f32 (default) or f64 */
    const double *weights; /* of the rows, > 0, or NULL: all 1; row i's r becomes r / weight */
    /* Called between pieces of work with the fraction done and what is being done; or NULL. */
    void (*progress)(void *progress_user, double fraction, const char *stage);
    void *progress_user;
    int64_t max_categories; /* of a column that are told apart, >= 2; 0: 256 (see below) */
    int64_t metric_rows;    /* most rows of a leaf that its metric is learned from, >= 10; 0: 6000,
                               or 400 an encoded feature if that is more */
} gram_machine_options;

/* clang-format off */
#define GRAM_MACHINE_OPTIONS_INIT GRAM_SIZED_(gram_machine_options)
/* clang-format on */

/* A trained kernel machine: immutable, usable from several threads with a context each. */
typedef struct gram_machine gram_machine;

/*
 * Trains a kernel ridge regression or a Recursive Feature Machine on the rows of a table: a kernel
 * on encoded features, and coefficients alpha from
 *   k(x, z) = exp(-||W (x - z)||_p^q / L^q),
 *   (K + r diag(1 / weights)) alpha = Y.
 * With iterations, W is relearned from the average gradient outer product of the predictor after
 * each solve (gram_agop), and the iterate that is best on the validation rows is kept.  Regression
 * standardises its target; a classification has one column of Y a class.  More rows than leaf_rows
 * are split into a tree of leaves along the leading direction of a first machine's AGOP.
 *
 * Encoding: numbers are shifted and scaled by the training rows' statistics; a missing number
 * takes the training median and, if any was missing in training, sets an indicator feature.  A
 * category is one-hot, exactly; a missing one is a category of its own if any was missing in
 * training.  A category never seen in training, or missing when none was missing in training, is
 * all zeros.  Of a column with more than max_categories of them, the max_categories - 1 most
 * frequent (as often: the first bytewise) keep a feature each, and all others, those never seen
 * included, share one; gram_machine_describe names such columns in most_frequent_categories.
 * Constant columns have no influence.  Rows with a missing target are left out.
 *
 * The same seed, thread count and data give the same bytes.  Peak memory is one matrix of the
 * largest leaf's rows squared plus a tenth (and the process); scratch that the context has grown
 * earlier is freed first.  *out is NULL on an error.
 *
 * CUDA: the same from the CPU's tables, with features, kernel matrices, solves and gradients on the
 * GPU; it waits for them.  GRAM_SOLVER_AUTO is Cholesky up to 16,000 rows, and beyond them where
 * conjugate gradients do not reach tolerance; leaf_rows follows from the memory that is free there,
 * or memory_limit if that is less.
 *
 * After Radhakrishnan et al., Science 383 (2024), and Beaglehole et al., xRFM, arXiv:2508.10053.
 */
GRAM_API gram_status gram_machine_fit(gram_context *g, const gram_table *table,
                                      const gram_column *target,
                                      const gram_machine_options *options, gram_machine **out);

GRAM_PUBLIC void gram_machine_destroy(gram_machine *machine);

/*
 * out: a vector of f64 of the CPU, one a row of the table: the predicted number, or the index of
 * the most probable class.  Features are found in the table by name; a missing column, or one of
 * the other kind (numbers for labels), is an error; other columns are ignored.
 */
GRAM_API gram_status gram_machine_predict(gram_context *g, const gram_machine *machine,
                                          const gram_table *table, gram_tensor *out);

/* out: rows by classes of f64, probabilities that sum to 1.  Classification only. */
GRAM_API gram_status gram_machine_predict_proba(gram_context *g, const gram_machine *machine,
                                                const gram_table *table, gram_tensor *out);

typedef struct gram_machine_score {
    size_t size;        /* set by the caller */
    const char *metric; /* "accuracy" or "rmse": what score is */
    double score;
    int64_t rows;    /* with a target */
    double mae, r2;  /* regression; else NaN */
    double log_loss; /* classification; else NaN */
} gram_machine_score;

/* Compares predictions with the target, a column of the same rows; rows without a target are left
 * out.  A label that was not a class in training counts as wrong. */
GRAM_API gram_status gram_machine_evaluate(gram_context *g, const gram_machine *machine,
                                           const gram_table *table, const gram_column *target,
                                           gram_machine_score *score);

typedef struct gram_machine_feature {
    size_t size; /* set by the caller */
    const char *name;
    int categories;    /* with a feature of their own; 0: a number */
    double importance; /* share of the trace of the AGOP, all features sum to 1 */
} gram_machine_feature;

/* The features in the order of the training table; target's name; classes by index, or NULL for
 * numbers out of range.  Strings live as long as the machine.  Of a machine that is NULL there are
 * 0 features and classes, the strings are NULL and the task is GRAM_TASK_AUTO. */
GRAM_PUBLIC int64_t gram_machine_feature_count(const gram_machine *machine);
GRAM_API gram_status gram_machine_feature_at(gram_context *g, const gram_machine *machine,
                                             int64_t index, gram_machine_feature *feature);
GRAM_PUBLIC const char *gram_machine_target(const gram_machine *machine);
GRAM_PUBLIC gram_task gram_machine_task(const gram_machine *machine);
GRAM_PUBLIC int64_t gram_machine_class_count(const gram_machine *machine);
GRAM_PUBLIC const char *gram_machine_class_name(const gram_machine *machine, int64_t index);
/* 1 if classes are numbers (the target was), so that a caller can print them as it read them. */
GRAM_PUBLIC int gram_machine_classes_are_numbers(const gram_machine *machine);

/* Hyperparameters, validation score and history, seconds of every stage, as a JSON object; lives as
 * long as the machine. */
GRAM_PUBLIC const char *gram_machine_describe(const gram_machine *machine);

/*
 * The model file is safetensors: 8-byte little-endian length, JSON header, raw little-endian data;
 * complete (encoding, categories, classes, tree, coefficients, seeds, version).  Saving writes a
 * temporary file beside path and renames it: path is the old file or the whole new one.  Where the
 * system has them (Linux) the temporary file has no name until it is whole, so that nothing is left
 * of a process that was killed.  A file that is replaced keeps its mode, a new one has that of
 * umask. A link is followed; one to a file that is not there is GRAM_IO.  A machine that could not
 * be loaded again is not saved: GRAM_BAD_DATA.
 */
GRAM_API gram_status gram_machine_save(gram_context *g, const gram_machine *machine,
                                       const char *path);
GRAM_API gram_status gram_machine_load(gram_context *g, const char *path, gram_machine **out);

/* ---- The cache of compiled kernels -------------------------------------------------------- */

/*
 * Device code is compiled when it is first wanted and kept in one file, which all processes of a
 * user share (docs/cuda.md).  These calls take any context, of the CPU too, and need neither a GPU
 * nor a driver.  GRAM_UNSUPPORTED: there is no CUDA backend here.  GRAM_IO: the file cannot be
 * used; gram_cache_info says why and is no error then.  No file is an empty cache.
 */
typedef struct gram_cache {
    size_t size;        /* set by the caller to sizeof(gram_cache) */
    char path[4096];    /* of the file; "" if none can be named */
    char why[512];      /* why kernels are not kept in it; "" if they are */
    int64_t kernels;    /* how many it has */
    int64_t bytes;      /* of their code */
    int64_t most_bytes; /* above this the kernels that were not used for longest go */
    int64_t file_bytes;
    int64_t tuned; /* classes of problems that gram_tune, _eigh and _kron measured */
} gram_cache;

/* A kernel of the cache; the strings are valid until the visit ends. */
typedef struct gram_cache_entry {
    size_t size;          /* sizeof(gram_cache_entry) of the library */
    const char *kernel;   /* the file of its source: "cdist.cu" */
    const char *chip;     /* "sm_90": machine code; "compute_90": PTX */
    const char *compiler; /* "nvrtc13.0" */
    const char *options;  /* of the compiler */
    int64_t bytes;        /* of its code */
    int64_t used;         /* when it was, to the day: seconds since 1970 */
    double compile_ms;    /* gram_cache_warm: how long it took; 0: it was there */
} gram_cache_entry;

/* Called for one kernel after the other; may not call the cache. */
typedef void (*gram_cache_visit)(void *user, const gram_cache_entry *entry);

/* Fills in cache, as much of it as cache->size covers. */
GRAM_API gram_status gram_cache_info(gram_context *g, gram_cache *cache);

/* Visits all kernels, what was used last first. */
GRAM_API gram_status gram_cache_list(gram_context *g, gram_cache_visit visit, void *user);

/*
 * Removes the kernels whose line "kernel chip compiler options" holds the pattern, in which *
 * stands for any text, ? for one character and [...] for a set.  NULL removes everything: what
 * gram_tune measured and a file that was set aside as corrupt too.  The number of kernels that went
 * goes to *removed, which may be NULL.
 */
GRAM_API gram_status gram_cache_clear(gram_context *g, const char *pattern, int64_t *removed);

/*
 * Compiles the common kernels for count chips ("sm_90", "compute_100"), with the context's number
 * of threads, and keeps them: the first calls of later processes then wait for no compiler.  count
 * 0: for the GPUs of this machine.  Needs NVRTC.  visit, which may be NULL, is called for every
 * kernel when it is there, by one thread at a time.  GRAM_INVALID_ARGUMENT: a chip that NVRTC does
 * not know.
 */
GRAM_API gram_status gram_cache_warm(gram_context *g, const char *const *chips, int count,
                                     gram_cache_visit visit, void *user);

typedef struct gram_warm_options {
    size_t size;
    const char *const *chips; /* "sm_90", "compute_100"; NULL with count 0 */
    int count;                /* of chips; 0: the GPUs of this machine */
    gram_cache_visit visit;   /* for every kernel when it is there; NULL: for none */
    void *user;               /* visit's */
} gram_warm_options;

#define GRAM_WARM_OPTIONS_INIT                     \
  {                                                \
    sizeof(gram_warm_options), NULL, 0, NULL, NULL \
  }

/*
 * The same for the kernels that gram_kernel(g, x, y, options, out) takes, of an expression too: for
 * each chip those of its plan for such shapes, strides and dtypes.  The tensors are on the
 * context's device, of the CPU too, and their elements are neither read nor written: as for
 * gram_kernel_workspace any address that is not NULL will do.  Where a GPU of the kind is not here,
 * the plan is one for 100 processors, which decides between tiles alone.  Empty tensors take no
 * kernel.  y, which may be NULL, and options as there; warm NULL: the GPUs of this machine.
 */
GRAM_API gram_status gram_cache_warm_kernel(gram_context *g, const gram_tensor *x,
                                            const gram_tensor *y,
                                            const gram_kernel_options *options,
                                            const gram_tensor *out, const gram_warm_options *warm);

/* What gram_tune found. */
typedef struct gram_tuning {
    size_t size;     /* set by the caller to sizeof(gram_tuning) */
    int candidates;  /* that were measured */
    int tile;        /* of the fastest: rows and columns of out that a block of threads has */
    int table_tile;  /* of the library's own choice */
    double tile_ms;  /* a call */
    double table_ms; /* a call */
    int kept;        /* 1: in the cache, for other processes too; 0: for this process */
} gram_tuning;

/*
 * Measures how the context's GPU computes gram_kernel(g, x, y, options, out) fastest, and has all
 * later calls of gram_kernel and gram_cdist take it for such problems: the same dtypes, p (its
 * whole part, where it is not special) and layouts, and sizes that are the same to the next power
 * of two.  Waits for the device; out is overwritten.  GRAM_UNSUPPORTED: the CPU, where there is no
 * choice.
 */
GRAM_API gram_status gram_tune(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                               const gram_kernel_options *options, gram_tensor *out,
                               gram_tuning *result);

#ifdef __cplusplus
}
#endif
#endif
