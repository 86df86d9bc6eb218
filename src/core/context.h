/*
 * context.h - the context: where errors are told, scratch memory lives and threads wait; plans
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CONTEXT_H
#define GRAM_CONTEXT_H
#include "gram/gram.h"
#include <stdatomic.h>
#include <stdbool.h>

struct gram_backend;
struct gram_cpu_kernels;
struct gram_pool;
struct gram_process;

struct gram_context {
    const char *call; /* public function now running; starts every message */
    bool takes_bytes; /* it has packed bits; other functions refuse GRAM_U8 */
    char message[512];
    char fault[320]; /* what the device died of, after which every call fails; "": it lives */
    gram_context_options options;
    const struct gram_backend *backend; /* of options.device; never NULL */
    int threads;
    struct gram_pool *pool; /* made at the first parallel loop: see threads.c */
    int isa;                /* index into the tables that gram_cpu_kernels_at lists */
    const struct gram_cpu_kernels *kernels; /* that table, of a context on the CPU; else NULL */
    int cdist_form;                         /* enum gram_cdist_form of backend.h */
    int matmul_form;                        /* enum gram_matmul_form */
    void *scratch; /* 64-byte aligned, grown on demand, freed with the context */
    size_t scratch_bytes;
    struct gram_expression_memory *expressions; /* made at the first one: see expression.h */
    bool scratch_given; /* by gram_context_use_workspace: never grown, never freed */
    size_t *measure;    /* of a workspace query, where its bytes go (scratch.h); NULL: a call */
    atomic_bool cancelled;
    struct gram_context *whole;   /* whose call this one serves (gram_context_beside), or NULL */
    struct gram_process *process; /* never NULL: see process.h */
    int children;                 /* of the process, when the context was made */
    /* From the environment: see settings.c. */
    bool log;                  /* what happens is told on standard error */
    bool no_jit;               /* kernels come from the cache alone */
    bool debug_jit;            /* kernels are compiled for a debugger */
    int64_t cache_bytes;       /* the most code that the cache keeps */
    const char *plugin_folder; /* where plugins are looked for first; or NULL */
    const char *cuda_folder;   /* where CUDA's libraries are looked for first; or NULL */
    const char *cache_folder;  /* of compiled kernels; NULL: there is none */
    char *texts;               /* what these and options.cpu_isa point into; owned */
    size_t texts_bytes;
    void *plugin; /* handle of the backend's library; or NULL */
    void *device; /* the backend's own; or NULL */
};

/* How every public call begins: messages will name the call, and there is none yet.  Where there is
 * no context the call fails, with a message of the thread's, which speaks of the argument name. */
gram_status gram_begin_as(gram_context *g, const char *call, const char *name);
static inline gram_status gram_begin(gram_context *g, const char *call)
{
    return gram_begin_as(g, call, "g");
}

/* The same for a call that needs no BLAS: other calls have its buffers first (blas_process.h). */
gram_status gram_begin_without_blas(gram_context *g, const char *call);

/* The same for what a program does to see or to clean up what a call has left: the message of that
 * call stays, unless this one fails too. */
gram_status gram_begin_beside(gram_context *g, const char *call, const char *name);

/* Records the message of a failure, behind the name of the call. */
__attribute__((cold, format(printf, 2, 3))) void gram_note(gram_context *g, const char *format,
                                                           ...);

/* Records the message and gives status, so that callers write: return gram_fail(...).  A macro, so
 * that static analysis sees which status it is. */
#define gram_fail(g, status, ...) (gram_note((g), __VA_ARGS__), (gram_status)(status))

/* Tells on standard error what happens, where GRAM_LOG asks for it. */
__attribute__((cold, format(printf, 2, 3))) void gram_log(const gram_context *g, const char *format,
                                                          ...);

/* Memory aligned to 64 bytes from the caller's allocator, NULL if there is none; no message. */
void *gram_alloc(gram_context *g, size_t bytes);
void gram_free(gram_context *g, void *memory, size_t bytes);

/* Scratch in memory of the CPU, which is what scratch.h stands on for a context of the CPU: at
 * least bytes, with undefined contents, valid until the next call. */
gram_status gram_scratch(gram_context *g, size_t bytes, void **out);
struct gram_scratch_before;
void gram_scratch_lend_host(gram_context *g, void *memory, size_t bytes,
                            struct gram_scratch_before *before);
void gram_scratch_return_host(gram_context *g, const struct gram_scratch_before *before);

/* Frees what scratch has grown to, before memory is wanted that dwarfs it; the next call that
 * needs some grows it again.  Scratch that the caller gave stays. */
void gram_scratch_release(gram_context *g);

/* What a workspace query answers: bytes of the memory that the context's device computes in. */
static inline gram_workspace gram_workspace_on(const gram_context *g, size_t bytes)
{
    gram_workspace need = {0};

    *(g->options.device.type == GRAM_CPU ? &need.host_bytes : &need.device_bytes) = bytes;
    return need;
}

/* True once gram_context_cancel was called; long loops ask it between pieces of work. */
static inline bool gram_cancelled(gram_context *g)
{
    return atomic_load_explicit(&g->cancelled, memory_order_relaxed) ||
           (g->whole && atomic_load_explicit(&g->whole->cancelled, memory_order_relaxed));
}

/* A context on the CPU for a part of a call of g, beside which other threads may work on others: it
 * has g's allocator, and hears when g is cancelled.  threads 0: as many as g would have on the CPU.
 * The call destroys it before it ends. */
gram_status gram_context_beside(gram_context *g, int threads, gram_context **out);

/* The end of a call that can be cancelled: it takes the request that ended it. */
static inline gram_status gram_call_ended(gram_context *g, gram_status status)
{
    if (status == GRAM_CANCELLED)
        atomic_store(&g->cancelled, false);
    return status;
}

/* settings.c: completes g->options from the environment and sets g->threads; called once, at
 * creation.  What it keeps is released in any case. */
gram_status gram_settings_apply(gram_context *g);
void gram_settings_release(gram_context *g);

/* A call that has been checked: what every plan begins with. */
struct gram_plan {
    gram_context *g;
    size_t bytes; /* of the whole plan, which begins with this */
    gram_status (*execute)(gram_plan *plan);
    gram_plan_description description;
};

/* Memory for a plan of bytes that begins with a struct gram_plan, zeroed but for g and bytes. */
gram_status gram_plan_allocate(gram_context *g, size_t bytes, gram_plan **plan);

/* Bytes that are available where the context computes; the call keeps its name. */
gram_status gram_memory_available(gram_context *g, int64_t *bytes);

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t gram_nanoseconds(void);
static inline double gram_seconds(void)
{
    return 1e-9 * (double)gram_nanoseconds();
}
static inline double gram_milliseconds_since(int64_t start_ns)
{
    return (double)(gram_nanoseconds() - start_ns) * 1e-6;
}

/* The same when the context traces, else 0. */
int64_t gram_trace_begin(const gram_context *g);
/* Reports what began at start_ns; name is a static string. */
void gram_trace_end(const gram_context *g, const char *name, int thread, int64_t start_ns);

/* Leaves the enclosing function with the status of a call that failed. */
#define TRY(call)                 \
  do {                            \
    gram_status status_ = (call); \
    if (status_ != GRAM_OK)       \
      return status_;             \
  } while (0)

/* ---- Arithmetic of sizes, none of which is negative ------------------------------------------ */

/* The smaller and the larger of two. */
static inline int64_t gram_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t gram_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The larger of two needs of scratch. */
static inline size_t gram_most_bytes(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The blocks of b that hold a, 0 < b: a / b rounded up, without overflow. */
static inline int64_t gram_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* a rounded up to a whole number of blocks of b. */
static inline int64_t gram_round_up(int64_t a, int64_t b)
{
    return gram_ceil_div(a, b) * b;
}

/* Rounds up to a whole number of cache lines: how drivers lay out scratch. */
static inline size_t gram_round64(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}
#endif
