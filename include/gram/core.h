/*
 * core.h - status, tensors, contexts: what every call of libgram takes and gives
 *
 * Every other header of gram/ includes this one.  gram.h describes the rules that all calls share.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_CORE_H
#define GRAM_PUBLIC_CORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GRAM_PUBLIC __attribute__((visibility("default")))
#define GRAM_API    __attribute__((visibility("default"), warn_unused_result))

/* The OPTIONS_INIT macros: a struct of zeros whose member size is set.  In C++ this is a value,
 * since designated initializers are recent there, and compilers warn of members left out. */
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
    GRAM_INVALID_ARGUMENT = 1, /* a shape, dtype, value or overlap that is not allowed */
    GRAM_UNSUPPORTED = 2,      /* valid, but this device or build does not offer it */
    GRAM_OUT_OF_MEMORY = 3,    /* an allocation failed, or a given workspace is too small */
    GRAM_CANCELLED = 4,        /* gram_context_cancel() was called */
    GRAM_IO = 5,               /* a file could not be read or written */
    GRAM_BAD_DATA = 6,         /* a file or a table holds something that cannot be understood */
    GRAM_NUMERICAL = 7,        /* the numbers do not allow it; gram.h describes the outputs */
    GRAM_DEVICE_FAILED = 8,    /* the device or its driver reported an error */
} gram_status;

/* The version of the library at run time, for example "0.1.0". */
GRAM_PUBLIC const char *gram_version(void);

/* The name of a status, for example "GRAM_OK"; "unknown status" for any other number. */
GRAM_PUBLIC const char *gram_status_name(gram_status status);

/* ---- Tensors ------------------------------------------------------------------------------ */

typedef enum gram_dtype {
    GRAM_F32 = 1,
    GRAM_F64 = 2,
    GRAM_F16 = 3,  /* IEEE binary16 */
    GRAM_BF16 = 4, /* bfloat16 */
    GRAM_I32 = 5,
    GRAM_I64 = 6,
    GRAM_U8 = 7, /* bytes: only of bits that are packed, see gram_distance.bits */
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
 * A view of an array that the caller owns.  The last dimensions are those of the formula (rows,
 * then columns).  All dimensions before them form a batch, and follow NumPy's broadcasting rules.
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

/* The number of bytes per element; 0 for an unknown dtype. */
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
    case GRAM_U8:
        return 1;
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
 * A number, or a tensor with one value per item: f32 or f64, on the device of the call, with a
 * shape that broadcasts over the batch of the call.  Numbers and values in CPU tensors are refused
 * if they are outside the documented range.  Values in a tensor on another device cannot be checked
 * at the call; an item whose value is out of range gets NaN.
 */
typedef struct gram_scalar {
    double value;
    const gram_tensor *tensor; /* NULL: use value */
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
typedef enum gram_uplo {
    GRAM_LOWER = 0,
    GRAM_UPPER = 1,
} gram_uplo;

/* ---- Contexts ----------------------------------------------------------------------------- */

typedef struct gram_context gram_context;

/* One traced piece of work inside a call.  Times are nanoseconds of CLOCK_MONOTONIC. */
typedef struct gram_trace_event {
    const char *name; /* static string */
    int thread;       /* 0 is the caller */
    int64_t start_ns, duration_ns;
} gram_trace_event;

/* How a context is created.  A member that is 0 or NULL selects its default. */
typedef struct gram_context_options {
    size_t size;
    gram_device device;
    /* 0: GRAM_NUM_THREADS if it is set.  Otherwise the least of the number of processors that this
     * process may run on, the quota of its cgroup, and those of OMP_NUM_THREADS,
     * OPENBLAS_NUM_THREADS, MKL_NUM_THREADS, LOKY_MAX_CPU_COUNT and PYTHON_CPU_COUNT that are set.
     */
    int threads;
    const char *cpu_isa; /* "base", "avx2" or "avx512"; NULL: GRAM_CPU_ISA, else the best */
    /* The allocator of host memory; NULL: aligned_alloc and free.  allocate returns memory that is
     * aligned to 64 bytes, or NULL.  It may be called from any thread that uses the context. */
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
    /* Called for every traced piece of work, by several threads at once; NULL: no tracing. */
    void (*trace)(void *trace_user, const gram_trace_event *event);
    void *trace_user;
    void *stream; /* CUDA: the cudaStream_t on which work is queued.  It belongs to the caller, and
                     must outlive the context.  NULL: the default stream */
    size_t scratch_limit; /* the most bytes of scratch that the context may use; 0: no limit */
    /* CUDA: the allocator of scratch on the device; NULL: the driver's pool.  allocate_device
     * returns memory that is aligned to 64 bytes, or NULL, for work on stream.  release_device is
     * called when that work has been queued, which may be before it is done.  Memory that is
     * allocated while stream is being captured must live as long as the graph, even after it has
     * been released.  Both may be called from any thread that uses the context. */
    void *(*allocate_device)(void *device_user, size_t bytes, void *stream);
    void (*release_device)(void *device_user, void *memory, size_t bytes, void *stream);
    void *device_user;
} gram_context_options;

/* clang-format off */
#define GRAM_CONTEXT_OPTIONS_INIT GRAM_SIZED_(gram_context_options)
/* clang-format on */

/*
 * Creates a context.  On an error *out is NULL, and gram_message(NULL) returns the message, which
 * is the last one of the calling thread.
 */
GRAM_API gram_status gram_context_create(const gram_context_options *options, gram_context **out);

/* Frees the context, its threads and its scratch memory.  NULL is allowed here, as in every
 * function that destroys or frees something. */
GRAM_PUBLIC void gram_context_destroy(gram_context *g);

/*
 * The error message of the last call with this context, for example "gram_cdist: x has 2 columns
 * but y has 5".  It is empty if that call succeeded, and is valid until the next call with this
 * context.  gram_message(NULL) returns the message of the calling thread's last call that had no
 * context to hold one: a gram_context_create (empty if it succeeded), or any call whose context, or
 * the plan, module or group in its place, was NULL.  Functions that return no status leave the
 * message unchanged, and so do gram_context_synchronize and gram_memory_copy when they succeed, so
 * that a caller can fetch the outputs of a failed call before it reads the message.
 */
GRAM_PUBLIC const char *gram_message(const gram_context *g);

/*
 * Scratch memory comes from the context's arena, which grows as needed and keeps its size.  This
 * call replaces the arena by the caller's memory, until it is called with NULL.  A call that needs
 * more scratch than that fails with GRAM_OUT_OF_MEMORY, and writes nothing.  memory must be aligned
 * to 64 bytes, and continues to belong to the caller.  NULL also frees the memory of the arena; the
 * next call that needs scratch grows it again.
 *
 * CUDA: the arena and the caller's memory are on the device.  The arena grows in the order of the
 * stream, without waiting.  A captured graph continues to use the memory with which it was
 * captured: the context (or the caller's memory) must outlive the graph, and the graph must not be
 * replayed while other work of the context runs on another stream.
 */
GRAM_API gram_status gram_context_use_workspace(gram_context *g, void *memory, size_t bytes);

/* The exact amount of scratch that a call needs, as its gram_<op>_workspace query returns it.  A
 * query does not read the data. */
typedef struct gram_workspace {
    size_t host_bytes;
    size_t device_bytes;
} gram_workspace;

/*
 * Waits for all work that is queued on the context's stream, and reports errors of that work.
 * After a device fault, every further call with the context gives GRAM_DEVICE_FAILED. On the CPU,
 * every call has finished when it returns.
 */
GRAM_API gram_status gram_context_synchronize(gram_context *g);

/*
 * Asks a running call of this context to stop; that call returns GRAM_CANCELLED as soon as it can.
 * This function is safe in a signal handler and from another thread.  If no call is running, the
 * request applies to the next call that can be cancelled.
 */
GRAM_PUBLIC void gram_context_cancel(gram_context *g);

/* The device for which the context was created; the CPU if g is NULL. */
GRAM_PUBLIC gram_device gram_context_device(const gram_context *g);

/* What this machine and this context offer. */
typedef struct gram_info {
    size_t size; /* set by the caller to sizeof(gram_info) */
    const char *version;
    const char *cpu_isa;      /* instruction set in use */
    const char *cpu_isas;     /* all that this processor has, best first, separated by spaces */
    const char *blas;         /* for example "OpenBLAS 0.3.21 ..." */
    int threads;              /* of this context */
    int cuda_devices;         /* the number of devices that this build and machine can use */
    int64_t memory_total;     /* bytes, of the host */
    int64_t memory_available; /* bytes, at present, within the limits of the process */
    /* For a CUDA context; otherwise NULL and 0. */
    const char *device_name;
    int64_t device_memory_total, device_memory_available; /* bytes */
} gram_info;

/* Fills in the members of info that info->size covers.  The strings live as long as the context. */
GRAM_API gram_status gram_context_info(gram_context *g, gram_info *info);

/* The recommended device: a CUDA device that works, or else the CPU. */
GRAM_PUBLIC gram_device gram_best_device(void);

/*
 * Views a DLPack tensor (a pointer to a DLTensor, see gram/dlpack.h) without a copy.  Strides that
 * are NULL mean row-major.  GRAM_UNSUPPORTED: libgram does not support the dtype, the number of
 * lanes or the device.
 */
GRAM_API gram_status gram_tensor_from_dlpack(gram_context *g, const void *dl_tensor,
                                             gram_tensor *out);

/* ---- Several contexts ----------------------------------------------------------------------- */

/* Contexts that share the work of one call.  They must be distinct, and usually each of them has
 * its own device.  No other thread may use any of them during the call. */
typedef struct gram_group {
    size_t size;
    gram_context *const *contexts; /* the first one holds the error message */
    int64_t count;                 /* at least 1 */
    const double *speeds; /* gram_*_many: relative speed of each, above 0; NULL: all equal */
    int force;            /* gram_eigh_multi: 1: even if one device alone would be faster */
} gram_group;

/* clang-format off */
#define GRAM_GROUP_INIT GRAM_SIZED_(gram_group)
/* clang-format on */

/* ---- What calls share ----------------------------------------------------------------------- */

/* A call whose arguments have been checked; gram_eigh_plan and others create it. */
typedef struct gram_plan gram_plan;

/* The processes that share the work of a call (multi.h). */
typedef struct gram_communicator gram_communicator;

#ifdef __cplusplus
}
#endif
#endif
