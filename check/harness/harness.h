/*
 * harness.h - one table of cases per operation, run as checks, benchmarks and profiles
 *
 * Each check/case_<op>.c defines one `const struct case_op case_<op>` with a table of rows: small
 * problems, each with the reason why it exists, checked against check/reference on every
 * instruction set.  The same file builds a problem of any sizes for `gram check OP SIZES`, `gram
 * bench` and `gram profile`.  Cases see only gram.h and reference.h.  The build makes harness_ops,
 * the list of all operations, from the names of these files: another one needs no other edit.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_HARNESS_H
#define GRAM_HARNESS_H
#include "gram/gram.h"
#include <stdbool.h>
#include <stdio.h>

/* What a case runs with: a context on one instruction set, and the count of what failed. */
struct harness {
    gram_context *g;
    const char *isa;
    int threads;
    int checks, failures;
    const char *where;  /* label of the row or problem now running, for messages */
    uint64_t random;    /* state of the generator; set from the row, so rows are independent */
    int printed;        /* failures of this row that were printed: the first few are */
    bool no_memory;     /* what failed did so for lack of memory */
    gram_device device; /* of g */
    uint64_t numbers;   /* a hash of what checks are given to print, for a trace */
    int64_t number_count;
};

/* Counts a check; on failure prints where, the condition's text and the message, and goes on. */
#define CHECK(h, condition, ...) \
  harness_check((h), (condition), __FILE__, __LINE__, #condition, __VA_ARGS__)
__attribute__((format(printf, 6, 7))) bool harness_check(struct harness *h, bool ok,
                                                         const char *file, int line,
                                                         const char *text, const char *format, ...);

#define LENGTH(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- Test data ---------------------------------------------------------------------------- */

enum layout {
    ROW_MAJOR,
    COLUMN_MAJOR,  /* the last two dimensions swapped in memory */
    PADDED,        /* every dimension longer in memory than in shape */
    EVERY_SECOND,  /* last stride is 2: no unit stride at all */
    REVERSED,      /* negative strides in the last two dimensions */
    ROWS_REPEATED, /* stride 0 between rows: one row seen many times (inputs only) */
    MISALIGNED,    /* row-major, one element past a 64-byte boundary */
};

/*
 * A tensor in guarded memory: the pages before and after cannot be touched, bytes in between that
 * are not elements hold a canary.  destroy checks the canaries (and, if frozen was called, that no
 * element changed).
 */
struct test_tensor {
    gram_tensor t;
    void *mapping;
    size_t mapping_bytes, offset, bytes;
    void *frozen; /* copy of the bytes at freeze time */
};

/* shape has ndim sizes (0 allowed).  Elements are undefined (a canary pattern) until filled. */
void test_tensor_create(struct harness *h, struct test_tensor *out, gram_dtype dtype,
                        enum layout layout, int ndim, const int64_t *shape);
void test_tensor_freeze(struct test_tensor *t);
void test_tensor_destroy(struct harness *h, struct test_tensor *t, const char *name);

/*
 * The tensor where h's context wants it: itself on the CPU, else a copy in the device's memory, the
 * bytes around it included.  fetch brings the bytes back, so that what the device wrote, and where
 * it should not have, is seen as on the CPU.  Both say false when the device refuses.
 */
struct test_copy {
    gram_tensor t;
    void *memory;
};
bool test_send(struct harness *h, const struct test_tensor *from, struct test_copy *to);
bool test_fetch(struct harness *h, struct test_tensor *to, struct test_copy *from);

/* What GRAM_TEST_DEVICE asks for, the CPU without it; ends the process if it is not here. */
gram_device test_asked_device(void);
/* A context of the first GPU that queues on this stream (NULL: its own); NULL if there is none. */
gram_context *test_cuda_context(struct harness *h, void *stream);

/* Calls in exactly the scratch that the workspace query names, in memory of h's context; one byte
 * less must be refused.  call answers the query where need is not NULL.  False: it failed. */
typedef gram_status test_call(struct harness *h, void *problem, gram_workspace *need);
bool test_in_exact_scratch(struct harness *h, test_call *call, void *problem);

/* The same where the context's device is: sends the tensors of all pairs, calls, brings them back.
 * A pair whose own is NULL is left out.  False: something of it failed. */
struct test_pair {
    struct test_tensor *own;
    struct test_copy *there;
};
bool test_call_there(struct harness *h, const struct test_pair *pairs, int count, test_call *call,
                     void *problem);

/* Uniform in [low, high), rounded to the dtype; every element of t, in index order. */
void test_fill_uniform(struct harness *h, struct test_tensor *t, double low, double high);
void test_fill_normal(struct harness *h, struct test_tensor *t, double mean, double deviation);
/* Small integers in [0, count): ties everywhere. */
void test_fill_integers(struct harness *h, struct test_tensor *t, int count);

/* One element as double, by index (ndim indices), any dtype; and its assignment with rounding. */
double test_get(const gram_tensor *t, const int64_t *index);
void test_set(const gram_tensor *t, const int64_t *index, double value);
/* The item'th element in row-major order of the indices, and the number of elements. */
double test_at(const gram_tensor *t, int64_t item);
void test_put(const gram_tensor *t, int64_t item, double value);
int64_t test_count(const gram_tensor *t);
void *test_address(const gram_tensor *t, int64_t item);
/* 2^-23, 2^-52, 2^-10, 2^-7 for f32, f64, f16, bf16. */
double test_eps(gram_dtype dtype);

double test_uniform(struct harness *h); /* [0, 1) */

/* Whether to compare an element of so many, each of which takes so many steps of a reference: all,
 * or, where that is minutes under a sanitizer, a part that no pattern of blocks misses. */
bool test_sampled(int64_t element, int64_t elements, int64_t steps);

/* ---- Operations --------------------------------------------------------------------------- */

/* Sizes and parameters of one problem, from the command line. */
struct case_args {
    const int64_t *sizes;  /* as many as case_op.sizes names, or more where it is open */
    const int64_t *widths; /* Q of each size PxQ where it is open, else P */
    int size_count;
    gram_dtype dtype;          /* parameter dtype=, f32 by default */
    const char *const *params; /* "p=1.3", "layout=column", ..., NULL at the end */
};

/* The text after "name=" in params, or otherwise; and the same as a number. */
const char *case_param(const struct case_args *args, const char *name, const char *otherwise);
double case_number(const struct case_args *args, const char *name, double otherwise);

enum {
    CASE_TENSORS = 2 * (GRAM_MAX_FACTORS + 2) /* of kron_matmul_vjp */
};

/* One problem, allocated and filled; what gram bench and profile run again and again. */
struct case_problem {
    void *state;
    /* What run computes on, in the state, NULL after the last: a GPU gets copies of all of them. */
    gram_tensor *tensors[CASE_TENSORS];
    gram_status (*run)(gram_context *g, void *state);
    /* Largest error of the last run over its bound, on all outputs or a seeded sample: <= 1 is
     * right.  In double, against the reference. */
    double (*error)(struct harness *h, void *state);
    void (*destroy)(void *state);
    double work;      /* of one run, in units; 0: none worth naming */
    const char *unit; /* of work: "m n k steps", "flop" */
    double bytes;     /* least memory traffic of one run */
};

struct harness_options;

struct case_op {
    const char *name;   /* "cdist" */
    const char *sizes;  /* "M N K": names of the sizes that check, bench and profile take */
    const char *params; /* "p=2 dtype=f32 symmetric=0": all parameters with their defaults */
    bool open;          /* the last size may come more than once, as P or PxQ */
    int rows;           /* of the table */
    void (*label)(int row, char *text, size_t size); /* "13 17 5 f32 p=1 padded", why it exists */
    void (*check)(struct harness *h, int row);
    /* False with a message on stderr if the arguments make no problem. */
    bool (*prepare)(struct harness *h, const struct case_args *args, struct case_problem *out);
    /* `gram check` and `gram bench` with sizes, where an operation has its own; else NULL.  They
     * return an exit status. */
    int (*compare)(const struct case_args *args, const struct harness_options *options);
    int (*bench)(const struct case_args *args, const struct harness_options *options);
};

extern const struct case_op *const harness_ops[]; /* NULL at the end */
const struct case_op *harness_find(const char *name);

/* ---- Tests that are no tables --------------------------------------------------------------- */

struct test_function {
    const char *name;
    void (*run)(struct harness *h);
};

/* Runs each with a context of 2 threads on the best instruction set; prints "N passed, N failed"
 * and returns an exit status. */
int harness_run_tests(const struct test_function *tests, int count);
/* The same with a context of the device that GRAM_TEST_DEVICE asks for. */
int harness_run_tests_where_asked(const struct test_function *tests, int count);
/* The same, of which a GPU that is asked for runs the first `on_gpu` alone; device_memory.h is open
 * there. */
int harness_run_tests_or_some(const struct test_function *tests, int count, int on_gpu);
/* The same on each instruction set of this machine. */
int harness_run_tests_each_isa(const struct test_function *tests, int count);

/* ---- Entry points of `gram check|bench|profile` and of the test runner --------------------- */

/* Each returns an exit status (0: right) and writes to stdout; argv holds what follows the
 * command's name: OP, sizes, name=value parameters.  threads 0 and isa NULL: the defaults (check:
 * every instruction set in turn). */
struct harness_options {
    const char *isa;
    int threads;
    bool json;
    double seconds;     /* bench: least total time; 0: 0.5 s and 5 repeats */
    const char *trace;  /* profile: the file to write */
    gram_device device; /* where it runs; every instruction set is of the CPU */
};

/* Says on stderr that there is no memory for what, and notes it; false. */
bool harness_no_memory(struct harness *h, const char *what);
/* The same in functions that cannot fail: ends the process, as a command ends that lacks memory. */
_Noreturn void harness_end_without_memory(const char *what);

/* Opens a context (isa NULL: the best one); false with a message on stderr. */
bool harness_open(struct harness *h, const struct harness_options *options, const char *isa);
void harness_close(struct harness *h);
/* Starts the generator anew for a row, or for anything that has a name and a number. */
void harness_seed(struct harness *h, const char *name, int row);
/* Checks one row of an operation's table; true if nothing failed. */
bool harness_run_row(struct harness *h, const struct case_op *op, int row);
struct harness_count {
    int passed, failed; /* runs of rows */
    bool no_memory;     /* for a context */
};

/* Checks a row (-1: all) of an operation's table on each instruction set.  False with a message on
 * stderr if a context could not be had. */
bool harness_run_table(const struct case_op *op, int row, const struct harness_options *options,
                       struct harness_count *count);
/* Calls body with a context on options->isa, or on each instruction set of this machine in turn.
 * Returns the number of failed checks; if a context could not be had, -1, and -2 if it was for lack
 * of memory. */
int harness_each_isa(const struct harness_options *options,
                     void (*body)(struct harness *h, void *arg), void *arg);

int harness_main_check(int argc, char *const *argv, const struct harness_options *options);
int harness_main_bench(int argc, char *const *argv, const struct harness_options *options);
int harness_main_profile(int argc, char *const *argv, const struct harness_options *options);
#endif
