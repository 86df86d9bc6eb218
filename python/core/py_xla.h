/*
 * py_xla.h - the data that XLA's runtime passes to a foreign function, and how gram.jax reads them
 *
 * The binary interface (version 0) as handlers see it, in our own words, so that the build needs
 * nothing of jaxlib, and one build works with every jaxlib.  Every struct of the interface begins
 * with its size in bytes and a list of extensions; new members are only appended.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_XLA_H
#define PY_XLA_H
#include "gram/gram.h"
#include <stdbool.h>
#include <stddef.h>

struct xla_error; /* made and owned by the runtime; NULL: all is well */

struct xla_extension {
    size_t size;
    int kind;
    struct xla_extension *next;
};

struct xla_version {
    size_t size;
    struct xla_extension *extensions;
    int major, minor;
};

/* What a handler says of itself when it is asked, by an extension of this kind. */
enum {
    XLA_METADATA = 1
};

struct xla_metadata {
    size_t size;
    struct xla_version version;
};

struct xla_metadata_request {
    struct xla_extension head;
    struct xla_metadata *metadata;
};

/* What is said about an error; a code of absl::Status. */
struct xla_error_request {
    size_t size;
    struct xla_extension *extensions;
    const char *message;
    int code;
};

enum xla_code {
    XLA_INVALID_ARGUMENT = 3,
    XLA_OUT_OF_MEMORY = 8,
    XLA_FAILED_PRECONDITION = 9,
    XLA_UNSUPPORTED = 12,
    XLA_INTERNAL = 13
};

struct xla_error_end {
    size_t size;
    struct xla_extension *extensions;
    struct xla_error *error;
};

/* What is asked of the runtime in a call, whose context comes with its frame. */
struct xla_stream {
    size_t size;
    struct xla_extension *extensions;
    void *context;
    void *stream; /* set */
};

struct xla_ordinal {
    size_t size;
    struct xla_extension *extensions;
    void *context;
    int ordinal; /* set: the device's number */
};

struct xla_allocation {
    size_t size;
    struct xla_extension *extensions;
    void *context;
    size_t bytes, alignment;
    void *data; /* set */
};

struct xla_release {
    size_t size;
    struct xla_extension *extensions;
    void *context;
    size_t bytes;
    void *data;
};

/* The runtime's functions, in their order up to the last that is used. */
struct xla_api {
    size_t size;
    struct xla_extension *extensions;
    struct xla_version version;
    const void *internal;
    struct xla_error *(*create_error)(struct xla_error_request *request);
    void (*error_message)(void *);
    void (*destroy_error)(struct xla_error_end *end);
    struct xla_error *(*register_handler)(void *);
    struct xla_error *(*get_stream)(struct xla_stream *stream);
    struct xla_error *(*of_types_and_states[4])(void *);
    struct xla_error *(*allocate)(struct xla_allocation *allocation);
    struct xla_error *(*release)(struct xla_release *release);
    struct xla_error *(*of_threads_futures_and_runs[6])(void *);
    struct xla_error *(*get_ordinal)(struct xla_ordinal *ordinal);
};

/* An array: row-major, without gaps. */
struct xla_buffer {
    size_t size;
    struct xla_extension *extensions;
    int dtype; /* of xla's PrimitiveType */
    void *data;
    int64_t rank;
    int64_t *dims;
};

/* Arguments, and results; kind 1 is a buffer. */
struct xla_values {
    size_t size;
    struct xla_extension *extensions;
    int64_t count;
    int *kinds;
    void **items;
};

struct xla_text {
    const char *at; /* not ended by a 0 */
    size_t length;
};

struct xla_numbers {
    int dtype;
    size_t count;
    void *data;
};

/* Attributes: of kind 1 a struct xla_numbers, of kind 4 a struct xla_text. */
enum {
    XLA_BUFFER = 1,
    XLA_NUMBERS = 1,
    XLA_TEXT = 4
};

struct xla_attributes {
    size_t size;
    struct xla_extension *extensions;
    int64_t count;
    int *kinds;
    struct xla_text **names;
    void **items;
};

struct xla_frame {
    size_t size;
    struct xla_extension *extensions;
    const struct xla_api *api;
    void *context;
    int stage;
    struct xla_values arguments, results;
    struct xla_attributes attributes;
};

/* ---- What is made of it ------------------------------------------------------------------- */

enum {
    PY_XLA_MOST = 18 /* arrays: cotangent, x and 16 factors */
};

/* A call of one operation. */
struct py_xla_call {
    gram_tensor in[PY_XLA_MOST], out[PY_XLA_MOST];
    int in_count, out_count;
    const int64_t *integers;
    const double *numbers;
    size_t integer_count, number_count;
    char *text; /* lines: an expression, then the names of its parameters */
    bool wrong; /* what came is none of the operation's calls; set by run */
};

/* An operation: its arrays, at least and at most, and how many numbers it has at least. */
struct py_xla_operation {
    const char *name;
    gram_status (*run)(gram_context *g, struct py_xla_call *call);
    int in_least, in_most, out_least, out_most;
    size_t integers, numbers;
};

/* py_xla_calls.c, py_xla_kernels.c: NULL where there is none of this name. */
const struct py_xla_operation *py_xla_operation(const struct xla_text *name);
const struct py_xla_operation *py_xla_kernel_operation(const struct xla_text *name);
/* The operation of the name in a table that ends with a name of NULL. */
const struct py_xla_operation *py_xla_find(const struct py_xla_operation *table,
                                           const struct xla_text *name);
/* py_xla_context.c: a context for the time of a call, with what it is found by. */
struct py_xla_context {
    gram_context *g;
    gram_device device;
    void *stream;
    int generation;
    const struct xla_frame *frame; /* of the call */
};

gram_status py_xla_take(const struct xla_frame *frame, gram_device device, void *stream,
                        struct py_xla_context **out);
void py_xla_give(struct py_xla_context *context);
/* How many threads contexts of later calls have; 0: the library's choice. */
void py_xla_set_threads(int threads);

#endif
