/*
 * core.h - status, tensors, contexts: what every call of libgram takes and gives
 *
 * Every other header of gram/ includes this one.  gram.h says what holds for all calls.
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
    GRAM_NUMERICAL = 7,        /* numbers broke down: gram.h says what is left of outputs */
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
typedef enum gram_uplo {
    GRAM_LOWER = 0,
    GRAM_UPPER = 1,
} gram_uplo;

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

/* ---- What calls share ----------------------------------------------------------------------- */

/* A call that has been checked, and what it will do; made by gram_eigh_plan and others. */
typedef struct gram_plan gram_plan;

/* The processes that share the work of a call (multi.h). */
typedef struct gram_communicator gram_communicator;

#ifdef __cplusplus
}
#endif
#endif
