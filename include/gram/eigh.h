/*
 * eigh.h - eigenvalues and eigenvectors of symmetric matrices, operators and kernels
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_EIGH_H
#define GRAM_PUBLIC_EIGH_H
#include "core.h"
#include "pairwise.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif
