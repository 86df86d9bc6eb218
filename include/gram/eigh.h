/*
 * eigh.h - eigenvalues and eigenvectors of symmetric matrices, operators and kernels
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_EIGH_H
#define GRAM_PUBLIC_EIGH_H
#include "core.h"
#include "operator.h"
#include "pairwise.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Symmetric eigenproblems --------------------------------------------------------------- */

/* The pairs to compute.  Eigenvalues are counted from 0, in ascending order. */
typedef enum gram_eigh_select {
    GRAM_EIGH_ALL = 0,
    GRAM_EIGH_INDEX = 1,    /* first to first + count - 1 */
    GRAM_EIGH_VALUE = 2,    /* those with lower < value <= upper */
    GRAM_EIGH_LARGEST = 3,  /* the count largest */
    GRAM_EIGH_SMALLEST = 4, /* the count smallest */
} gram_eigh_select;

/* The methods of gram_eigh. */
typedef enum gram_eigh_driver {
    GRAM_EIGH_DRIVER_AUTO = 0,        /* the one that is expected to be the fastest, or that
                                         gram_tune_eigh has measured to be */
    GRAM_EIGH_DRIVER_CLOSED_FORM = 1, /* n <= 3: a fixed number of steps; many items at once */
    GRAM_EIGH_DRIVER_JACOBI = 2,      /* n <= 32: cyclic Jacobi, many items at once */
    GRAM_EIGH_DRIVER_DIVIDE = 3,      /* LAPACK syevd: all pairs; n <= 32,766.  CUDA: Xsyevd */
    GRAM_EIGH_DRIVER_BISECTION = 4,   /* LAPACK sytrd, stebz, stein, ormtr: a range of pairs.  CUDA:
                                         Xsyevdx, for a range by index, else Xsyevd */
    GRAM_EIGH_DRIVER_KRYLOV = 5,      /* block Lanczos: few pairs at one end of a large matrix */
    GRAM_EIGH_DRIVER_BATCHED = 6,     /* CUDA: cuSOLVER's XsyevBatched; n <= 26,754 */
} gram_eigh_driver;

/* What gram_eigh did. */
typedef struct gram_eigh_report {
    size_t size;             /* set by the caller to sizeof(gram_eigh_report) */
    gram_eigh_driver driver; /* the driver that was used */
    int64_t products;        /* KRYLOV: products with blocks of vectors, for all items */
    double residual;         /* KRYLOV: the largest |A v - w v| / |A| of the pairs */
    int64_t dense;           /* items that KRYLOV gave up, and BISECTION computed */
} gram_eigh_report;

typedef struct gram_eigh_options {
    size_t size;
    gram_uplo uplo;          /* the triangle of a that is read */
    gram_eigh_select select; /* which pairs */
    int64_t first, count;    /* INDEX; LARGEST and SMALLEST: count */
    double lower, upper;     /* VALUE; infinities are allowed */
    gram_tensor *found;      /* VALUE: int64, one count of values per item; otherwise NULL */
    gram_eigh_driver driver; /* GRAM_UNSUPPORTED if it cannot compute this problem */
    /* For KRYLOV. */
    double tolerance;         /* of |A v - w v|, relative to |A|; 0: min(10 n eps, 1e-5) */
    int64_t products;         /* the most products, each with 8 or 16 vectors; 0: see below */
    uint64_t seed;            /* of the random start */
    gram_eigh_report *report; /* receives a report, with any driver; or NULL */
    int background;           /* CUDA, 1: do not keep the calling thread; see gram_eigh_wait */
} gram_eigh_options;

/* clang-format off */
#define GRAM_EIGH_OPTIONS_INIT GRAM_SIZED_(gram_eigh_options)
/* clang-format on */

/*
 * Eigenvalues, in ascending order, and orthonormal eigenvectors of symmetric matrices:
 *   A[...] v_j         = w_j v_j,
 *   values[..., j]     = w_j,
 *   vectors[..., :, j] = v_j.
 *
 * a is n by n, and only its triangle uplo is read; rows and columns are those of the shape,
 * whatever the strides.  values has k elements per item, and vectors (NULL: not wanted) is n by k,
 * where k is n for ALL, and count for INDEX, LARGEST and SMALLEST.  For VALUE the caller chooses k,
 * at most n: found receives the number of values in (lower, upper], the k smallest of these are
 * stored, and the rest of values and vectors is NaN.  All tensors are f32, or all are f64, with any
 * strides and batch.  The outputs have the batch shape of a.  vectors may be a itself (the same
 * data, shape and strides), which is then computed in place.
 *
 * info is NULL, or int32 with one value per item: 0; 1 if the method did not converge; 2 if the
 * triangle holds NaN or infinity.  The values and vectors of an item that failed are NaN (found is
 * 0), and the other items are unaffected.  The status is GRAM_OK if info was given, and
 * GRAM_NUMERICAL otherwise.
 *
 * Matrices are scaled by powers of two, so no intermediate result overflows or underflows.  The
 * error of A V = V W and of the orthogonality of V is of the order of n eps, relative to |A|, for
 * every matrix.  Sources: the closed form takes the outer root of the characteristic cubic and
 * deflates (D. Eberly, "A robust eigensolver for 3x3 symmetric matrices"); Jacobi follows G. Golub
 * and C. Van Loan, "Matrix computations", 8.5; the other drivers are those of LAPACK or cuSOLVER.
 * For scratch, see gram_eigh_workspace.
 *
 * CUDA: only info tells whether an item failed.  CLOSED_FORM, JACOBI and BATCHED only enqueue work,
 * and can be captured in a graph.  DIVIDE and BISECTION keep the calling thread inside cuSOLVER
 * until the device is done, item by item (but see gram_eigh_wait), and give GRAM_UNSUPPORTED during
 * a capture.  KRYLOV does the same, since its calling thread inspects the numbers of each step, and
 * it also gives GRAM_NUMERICAL as described above.  AUTO takes BATCHED for one item with n up to
 * 512, for several items with n up to 256, and for more than 4 + n / 400 items; it does not take
 * KRYLOV with options.background.
 *
 * KRYLOV computes LARGEST, SMALLEST and an INDEX range at one end of the spectrum.  It multiplies
 * by the matrix, of which one triangle is read each time, and needs scratch for about 2 k + 250
 * vectors (f32: 320).  Every pair that it returns has been verified by a product with v itself: |A
 * v - w v| <= tolerance |A|, where |A| is the largest magnitude of a Ritz value.  Multiple
 * eigenvalues are found with their multiplicity.  If the requested pairs do not converge within
 * options.products (0: 1000), info is 1.  AUTO takes KRYLOV if n >= 2000 and k <= n / 200, with
 * max(60, n / 16) products.  If these are not enough, BISECTION computes the item from the
 * beginning, and the report counts it.  gram_eigh_workspace covers both, but a context that owns
 * its scratch allocates the part of BISECTION only if it is needed.  The call can be cancelled.
 * The result does not depend on the number of threads.  CUDA: scratch holds about 4 k + 240 vectors
 * and 4 MiB.  The method is a block version of K. Wu and H. Simon, Thick-restart Lanczos method for
 * large symmetric eigenvalue problems, SIAM J. Matrix Anal.  Appl. 22 (2000).
 */
GRAM_API gram_status gram_eigh(gram_context *g, const gram_tensor *a,
                               const gram_eigh_options *options, gram_tensor *values,
                               gram_tensor *vectors, gram_tensor *info);

/*
 * Waits for a gram_eigh with options.background.  This option applies to DIVIDE or BISECTION of one
 * matrix on CUDA, which keep the thread that calls cuSOLVER until the device is done.  With
 * background, a thread of the context calls cuSOLVER on a stream of its own, which starts after the
 * work that is already on the context's stream.  gram_eigh returns at once, and the caller and its
 * stream can continue.  After gram_eigh_wait, the outputs are available in the order of the
 * context's stream.  gram_context_synchronize, and the next call with the context that needs
 * scratch or cuSOLVER, wait as well.  Until then, a and the outputs must not be used, and no
 * capture may begin.  gram_eigh_wait returns the errors of the background work.  All other calls,
 * including those on the CPU, ignore background, and then there is nothing to wait for.
 */
GRAM_API gram_status gram_eigh_wait(gram_context *g);

GRAM_API gram_status gram_eigh_workspace(gram_context *g, const gram_tensor *a,
                                         const gram_eigh_options *options,
                                         const gram_tensor *values, const gram_tensor *vectors,
                                         gram_workspace *need);

/* The source of an expected time. */
typedef enum gram_time_source {
    GRAM_TIME_UNKNOWN = 0,   /* KRYLOV, which depends on the matrix, if it was not measured */
    GRAM_TIME_MEASURED = 1,  /* gram_tune_eigh, scaled by the operations of this problem */
    GRAM_TIME_ESTIMATED = 2, /* the order of magnitude, from times of all pairs with vectors in
                                f32 on one machine (CPU: a Zen 4 core; CUDA: an H200) */
} gram_time_source;

typedef struct gram_plan_description {
    size_t size;             /* set by the caller to sizeof(gram_plan_description) */
    gram_eigh_driver driver; /* the driver that is tried first */
    int only_enqueues;       /* 1: the call does not wait, and can be captured in a graph */
    gram_workspace need;     /* the scratch that the call needs */
    char text[256];          /* the same in words */
    double seconds;          /* the expected time of a call; NaN: unknown */
    gram_time_source time_source;
    /* For gram_eigh_multi_plan; otherwise 1, the bytes of that device, 0 and "". */
    int devices;
    size_t device_bytes[16]; /* of each, in the order of the group */
    int refused;             /* 1: one device is faster, and execute needs group.force */
    char reason[248];        /* the reason for a refusal; otherwise "" */
} gram_plan_description;

/*
 * Plans gram_eigh(g, a, options, values, vectors, info): it checks all arguments, chooses the
 * driver (or takes options.driver), and determines the scratch, without accessing the data.  The
 * plan keeps copies of the structs, but not of the memory to which they point: the memory of the
 * tensors, options.report and the context must live until the plan is destroyed.  Errors are those
 * of gram_eigh, and GRAM_OUT_OF_MEMORY; *plan is then NULL.
 *
 * gram_plan_describe describes the choice.  gram_plan_execute performs the call, and can be
 * repeated.  It uses the context's scratch, or the memory of gram_context_use_workspace, and needs
 * the bytes that the description states.  gram_plan_destroy accepts NULL.
 */
GRAM_API gram_status gram_eigh_plan(gram_context *g, const gram_tensor *a,
                                    const gram_eigh_options *options, gram_tensor *values,
                                    gram_tensor *vectors, gram_tensor *info, gram_plan **plan);
GRAM_API gram_status gram_plan_describe(const gram_plan *plan, gram_plan_description *description);
GRAM_API gram_status gram_plan_execute(gram_plan *plan);
GRAM_PUBLIC void gram_plan_destroy(gram_plan *plan);

/*
 * gram_eigh of one matrix that all devices of a group share, inside this process, through
 * cusolverMg.  It is meant for matrices that one device cannot hold; the matrices of a batch are
 * computed one after the other.  The contexts are on distinct CUDA devices, at most 16, that can
 * access each other's memory.  Arguments, results and info are those of gram_eigh with the driver
 * DIVIDE. options.driver is AUTO or DIVIDE, and background is ignored.  A range is selected after
 * all pairs have been computed, since cusolverMg offers nothing else.
 *
 * Each tensor lies on the CPU or on any device of the group, with any strides; blocks of 256
 * columns are distributed from there to the devices in turn.  Each device needs scratch for its
 * share of the matrix, for cusolverMg and for one block, and the CPU for one block and the values;
 * see gram_eigh_multi_plan.  Scratch comes from the contexts, or is the memory that
 * gram_context_use_workspace gave each of them, which the other devices must be able to access
 * (memory of cuMemAlloc).
 *
 * The call waits first for the streams of all contexts, and then for the result.  It cannot be
 * captured.  GRAM_UNSUPPORTED: a device is not a CUDA device; cusolverMg is missing; devices cannot
 * access each other's memory; or one device of the group can hold the problem and is known to be
 * faster (the message states the measured times), unless group.force is 1.  The first context keeps
 * the handle of cusolverMg for further calls with the same devices in the same order.
 */
GRAM_API gram_status gram_eigh_multi(const gram_group *group, const gram_tensor *a,
                                     const gram_eigh_options *options, gram_tensor *values,
                                     gram_tensor *vectors, gram_tensor *info);

/*
 * Plans gram_eigh_multi, as gram_eigh_plan plans gram_eigh; the same functions take the plan.  The
 * description has the bytes of each device, and tells whether gram_plan_execute would refuse the
 * call because one device is faster; the plan itself is not refused for that reason.  The contexts
 * must live until the plan is destroyed.
 */
GRAM_API gram_status gram_eigh_multi_plan(const gram_group *group, const gram_tensor *a,
                                          const gram_eigh_options *options, gram_tensor *values,
                                          gram_tensor *vectors, gram_tensor *info,
                                          gram_plan **plan);

/* The result of gram_tune_eigh. */
typedef struct gram_eigh_tuning {
    size_t size;                   /* set by the caller to sizeof(gram_eigh_tuning) */
    int candidates;                /* the number of drivers that were measured */
    int kept;                      /* 1: in the cache, for other processes too; 0: only here */
    gram_eigh_driver driver;       /* the fastest */
    gram_eigh_driver table_driver; /* the library's own choice */
    double driver_seconds[16];     /* of a call with each, by its number; NaN: it cannot compute
                                      this problem, or gave up */
} gram_eigh_tuning;

/*
 * Measures every driver that can compute gram_eigh(g, a, options, values, vectors, info), where
 * options.driver is AUTO.  From then on, AUTO takes the fastest driver for similar problems: those
 * with the same device (CPU: instruction set and number of threads; CUDA: compute capability) and
 * dtype, with vectors or without, at an end of the spectrum or not, with the same three leading
 * bits of n, and with numbers of items and of pairs that are the same when they are rounded up to a
 * power of two (or all pairs).  The time of a driver may depend on the matrix, as that of KRYLOV
 * does, so a should be a typical matrix without NaN.
 *
 * The result is kept in the file of gram_cache_info, also for other processes, and gram_cache_clear
 * removes it.  A plan that was made before keeps its driver, and the answer of an earlier workspace
 * query may be too small.  The call waits for the device.  It overwrites the outputs, but not
 * options.report.  GRAM_INVALID_ARGUMENT: a has no elements, vectors is a, or a driver is given.
 * Other errors are those of gram_eigh.
 */
GRAM_API gram_status gram_tune_eigh(gram_context *g, const gram_tensor *a,
                                    const gram_eigh_options *options, gram_tensor *values,
                                    gram_tensor *vectors, gram_tensor *info,
                                    gram_eigh_tuning *result);

/*
 * The k largest or smallest pairs of a matrix that is defined by its products, computed as
 * gram_eigh does with KRYLOV.  options.select is GRAM_EIGH_LARGEST or GRAM_EIGH_SMALLEST, and
 * options.driver is AUTO or KRYLOV; options.products 0 means 1000.  values has k elements, vectors
 * (NULL: not wanted) is n by k, and info (NULL: not wanted) is one number: 0; 1 if fewer than k
 * pairs converged; 2 if NaN or infinity occurred.  If info is not 0, values and vectors are NaN.
 * The status is then GRAM_OK if info was given, and GRAM_NUMERICAL otherwise.  A must be symmetric,
 * which is not checked.  CUDA: the call keeps the calling thread, and gives GRAM_UNSUPPORTED during
 * a capture.
 */
GRAM_API gram_status gram_eigh_operator(gram_context *g, const gram_operator *a,
                                        const gram_eigh_options *options, gram_tensor *values,
                                        gram_tensor *vectors, gram_tensor *info);

GRAM_API gram_status gram_eigh_operator_workspace(gram_context *g, const gram_operator *a,
                                                  const gram_eigh_options *options,
                                                  const gram_tensor *values,
                                                  const gram_tensor *vectors, gram_workspace *need);

/*
 * The same for the kernel matrix K(x, x) + r I of points, which is never stored.
 * gram_kernel_matmul computes the products, and kernel.output may be any of its outputs.  x is n by
 * d, with any strides.  Batches of x and of the kernel's hyperparameters broadcast.  values,
 * vectors and info have the joint batch; values and vectors have the dtype that the out of
 * gram_kernel would have, and info is int32.  kernel.row_offset and kernel.column_offset must be
 * equal.  GRAM_DISTANCE_KULLBACK_LEIBLER, which is another number the other way round, is refused.
 * An expression of norms must be symmetric in x and y; nothing looks whether it is.  Outputs must
 * not overlap x or the weights of kernel.metric.
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

#ifdef __cplusplus
}
#endif
#endif
