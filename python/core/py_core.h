/*
 * py_core.h - the state, the calls and the arrays that the files of the extension gram._core share
 *
 * Every function of the module is one py_call: it takes a context, reads the arguments, views the
 * arrays, releases the interpreter's lock, calls the library, and raises its message.  There is no
 * arithmetic here.  The code uses only the stable binary interface (Py_LIMITED_API, which CMake
 * sets), so that one build works with every later CPython.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_CORE_H
#define PY_CORE_H
#include "gram/gram.h"
#include "py_words.h"
#include <Python.h>
#include <stdbool.h>

enum {
    PY_MOST_ARRAYS = 40, /* of one call without py_reserve: factors, and gradients to all of them */
    PY_MOST_TYPES = 8,   /* of arrays that are remembered */
    PY_MOST_IDLE = 16,   /* contexts kept between calls */
    PY_MOST_RESULTS = 18
};

struct py_exchange;

/* The properties of a type of arrays. */
struct py_type {
    PyTypeObject *type;            /* owned, so that its address stays its own */
    const struct py_exchange *api; /* DLPack's C exchange API; NULL: the type has none */
    bool is_torch;                 /* has gradients and lazily negated views */
    bool is_frozen;                /* must not be written, although its data are not marked as
                                    * read-only */
    bool is_masked;                /* may have masked elements */
    bool is_cuda;                  /* its arrays are on a GPU, so its buffer protocol must not be
                                    * used */
};

/* A context that is idle between calls. */
struct py_idle {
    gram_context *g;
    gram_device device;
    void *stream;
    int threads;
    bool of_torch; /* its scratch on the device comes from PyTorch's allocator */
};

struct py_state {
    PyObject *linalg_error;
    PyObject *word[PY_WORD_COUNT];    /* the names of arguments, interned */
    PyObject *requires_grad, *is_neg; /* attributes of a torch.Tensor, interned */
    PyObject *numpy_empty;            /* set when the first NumPy output is made */
    PyObject *numpy_dtype[GRAM_I64 + 1];
    PyTypeObject *machine_type, *pending_type, *optimizer_type, *optimizer_state_type,
        *communicator_type, *memory_type;
    PyObject *helpers; /* the Python module gram._arrays; set when it is first wanted */
    struct py_type types[PY_MOST_TYPES];
    int next_type;
    struct py_idle idle[PY_MOST_IDLE];
    int idle_count;
    int threads; /* of new contexts; 0: the library's choice */
};

/* ---- Arguments ---------------------------------------------------------------------------- */

/* The arguments of a function: its words in the order of the positional arguments. */
struct py_signature {
    const char *name; /* "gram.cdist" */
    const unsigned char *words;
    int count, positional, required;
};

/* Sorts the arguments of a call into values (borrowed; NULL where none came). */
int py_parse(struct py_state *state, const struct py_signature *signature, PyObject *const *args,
             Py_ssize_t nargs, PyObject *kwnames, PyObject **values);

/* Read numbers, truth values and texts.  An absent value leaves *out unchanged. */
int py_double(const char *function, const char *name, PyObject *value, double *out);
int py_int64(const char *function, const char *name, PyObject *value, int64_t *out);
int py_bool(const char *function, const char *name, PyObject *value, bool *out);
int py_text(const char *function, const char *name, PyObject *value, const char **out);
/* Refuses a report that is given and no dict; and writes items, whose reference it takes, into one,
 * where they are NULL by an exception. */
int py_report_dict(const char *function, PyObject *value);
int py_tell(PyObject *dict, PyObject *items);
/* One of the names, which end with NULL ('-' and '_' are the same); its index goes to *out. */
int py_choice(const char *function, const char *name, PyObject *value, const char *const *names,
              int *out);

/* ---- Calls and arrays --------------------------------------------------------------------- */

enum py_hold {
    PY_BORROWED, /* the caller's reference is enough */
    PY_BUFFER,   /* view is to be released */
    PY_CAPSULE,  /* owner is a capsule whose destructor frees the export */
    PY_MANAGED   /* managed is to be deleted */
};

/* The part that an array plays in the choice of the dtype in which a call computes. */
enum py_rank {
    PY_SILENT,   /* an output, or numbers that keep their own dtype */
    PY_OPEN,     /* a list, which has no dtype: it takes that of the others */
    PY_FLOATS,   /* floating-point numbers */
    PY_WHOLE_8,  /* integers of 8 bits, or truth values: fit every floating-point dtype */
    PY_WHOLE_16, /* integers of 16 bits: fit float32 and float64 */
    PY_WHOLE_64, /* integers of 32 or 64 bits: they become float64 */
    PY_FIXED     /* an array that is not converted here: one of PyTorch, JAX or CuPy, or integers
                    that are computed with */
};

/* An array of the caller for the duration of a call. */
struct py_array {
    gram_tensor tensor;
    PyObject *object;    /* borrowed, or made */
    struct py_type type; /* its references are borrowed from the object */
    const char *name;
    PyObject *made; /* owned: the numbers that object was converted to, and is now; or NULL */
    enum py_hold hold;
    enum py_rank rank;
    bool of_bytes; /* uint8 is a dtype of the library, for this argument */
    union {
        Py_buffer view;
        PyObject *capsule;
        void *managed;
    } held;
};

/* An output of a call. */
struct py_result {
    PyObject *array;  /* owned */
    PyObject *finish; /* a function that makes the returned object of it; or NULL */
};

struct py_call {
    struct py_state *state;
    const char *function; /* "gram.cdist" */
    gram_context *g;      /* of device and stream; of the CPU until py_place */
    gram_device device;
    void *stream;
    int threads;
    bool of_torch; /* scratch on the device comes from PyTorch's allocator */
    bool of_bits;  /* x and y of py_pair are bytes */
    bool query;    /* the call is a workspace query, so outputs may be absent */
    gram_workspace need;
    struct py_array own[PY_MOST_ARRAYS];
    struct py_array *array; /* own, or the heap's (py_reserve) */
    int count, most;
    struct py_result result[PY_MOST_RESULTS];
    int result_count;
    bool as_tuple; /* also one result alone */
};

/* Begins a call on the CPU; -1 with an exception if there is no context. */
int py_open(struct py_call *call, struct py_state *state, const char *function);
/* Makes room for `most` arrays instead of PY_MOST_ARRAYS.  It must be called before the first array
 * is viewed; -1 with an exception. */
int py_reserve(struct py_call *call, Py_ssize_t most);
/* Moves a call to another place; `from` must not be closed afterwards. */
void py_move(struct py_call *to, const struct py_call *from);
/* Sorts the arguments into values and begins a call of that signature. */
int py_begin(struct py_call *call, PyObject *module, const struct py_signature *signature,
             PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **values);
/* Releases everything. */
void py_close(struct py_call *call);
/* Ends a call after an exception has been raised; returns NULL. */
PyObject *py_fail(struct py_call *call);
/* Releases everything, and returns the results, or the bytes of a workspace query.  Raises if
 * status is not GRAM_OK. */
PyObject *py_end(struct py_call *call, gram_status status);

/* Views an array; NULL with an exception.  The tensor lives until py_close.  An input that is a
 * list, a table or an array of integers is converted to the dtype of the call's first array where
 * that is float32 or float64, else to float64 (PyTorch's tensors are not), until py_place knows all
 * inputs.  py_raw_input converts no integers. */
gram_tensor *py_input(struct py_call *call, const char *name, PyObject *object);
gram_tensor *py_raw_input(struct py_call *call, const char *name, PyObject *object);
/* The same, which also takes uint8 with the buffer protocol. */
gram_tensor *py_bytes_input(struct py_call *call, const char *name, PyObject *object);
gram_tensor *py_inout(struct py_call *call, const char *name, PyObject *object);
/* Reads a number, or an array whose values broadcast over the batch.  An absent value leaves *out
 * unchanged. */
int py_scalar(struct py_call *call, const char *name, PyObject *value, gram_scalar *out);
/* Is called after all inputs were viewed.  Converts them to one dtype by py_promote, which may
 * change tensors of py_input; checks that they are on the same device, and takes a context of
 * it. */
int py_place(struct py_call *call);
/* The same for calls that accept arrays on the CPU together with arrays on one GPU, of which it
 * then takes a context; without any array on a GPU, of the device `asked`. */
int py_place_most(struct py_call *call, gram_device asked);

/* The dtype and the shape of an output. */
struct py_shape {
    gram_dtype dtype;
    int ndim;
    int64_t size[GRAM_MAX_DIMS];
};

/* The batch that the last-but-core dimensions of tensors broadcast to, in front of shape. */
void py_batch(struct py_shape *shape, const gram_tensor *t, int core);
void py_append(struct py_shape *shape, int64_t size);
/*
 * An output of a call, which becomes one of its results: `object`, viewed for writing, or if it is
 * None, a new array of the shape, of the library of the first array and on its device; for a query,
 * a description without memory.  NULL with an exception.
 */
gram_tensor *py_output(struct py_call *call, const char *name, PyObject *object,
                       const struct py_shape *shape);

/* Whether the argument is given and not None. */
static inline bool py_given(PyObject *value)
{
    return value && value != Py_None;
}

/* The work of a call without the interpreter's lock. */
#define PY_WORK(status, work)                \
  do {                                       \
    Py_BEGIN_ALLOW_THREADS(status) = (work); \
    Py_END_ALLOW_THREADS                     \
  } while (0)

struct py_state *py_state_of(PyObject *module);
/* The attribute of gram._arrays, a new reference. */
PyObject *py_helper(struct py_state *state, const char *name);

/* ---- Objects and lists -------------------------------------------------------------------- */

/* A new object of a type of the module, all zeros; NULL with an exception. */
void *py_new(PyTypeObject *type);
/* The end of a deallocator: releases the owner, which may be NULL, and the object's memory. */
void py_delete(PyObject *object, PyObject *owner);
/* Takes an object, which messages call `what`, for a thread; -1 with an exception if it is busy. */
int py_take(bool *busy, const char *function, const char *what);
/* Begins a call that makes a list, which is returned; NULL with an exception. */
PyObject *py_open_list(struct py_call *call, struct py_state *state, const char *function);
/* Appends an item, whose reference is taken.  If the item is NULL or memory is short, the list is
 * released. */
void py_add(PyObject **list, PyObject *item);
/* Releases everything; returns the list, or raises if status is not GRAM_OK. */
PyObject *py_end_list(struct py_call *call, PyObject *list, gram_status status);
/* The same for a call without a result, which returns None. */
PyObject *py_end_none(struct py_call *call, gram_status status);

/* ---- How the files divide the work --------------------------------------------------------- */

/* py_input.c: converts integers and lists, and the floats that they meet, to the dtype that
 * numpy.result_type gives for all inputs of a call; -1 with an exception. */
int py_promote(struct py_call *call);
/* py_type.c: the properties of an object's type; -1 with an exception that must not be ignored. */
int py_type_of(struct py_state *state, PyObject *object, struct py_type *out);
/* Clears an exception that an object has raised when it was queried; -1 if the exception must not
 * be cleared: KeyboardInterrupt, SystemExit or MemoryError. */
int py_drop_exception(void);
/* The attribute of an object, a new reference.  NULL without an exception if it does not exist, and
 * with one that must not be cleared. */
PyObject *py_attribute(PyObject *object, const char *name);
/* py_buffer.c, py_dlpack.c: return 1 if the object was viewed, 0 if it does not have the protocol,
 * -1 with an exception, and PY_INTEGERS for integers of a dtype that the library may not
 * support. */
enum {
    PY_INTEGERS = 2
};
int py_view_buffer(struct py_call *call, struct py_array *array, bool write);
int py_view_exchange(struct py_call *call, struct py_array *array, bool write);
int py_view_capsule(struct py_call *call, struct py_array *array, bool write);
/* A new array through the exchange API, viewed as array; a new reference or NULL. */
PyObject *py_new_exchanged(struct py_call *call, const struct py_type *type, struct py_array *array,
                           const struct py_shape *shape);
/* The stream on which the library of the array works now. */
int py_current_stream(struct py_call *call, const struct py_array *array, void **stream);
void py_release(struct py_array *array);
/* Raises a TypeError about an array, chained to the exception of its own library; a MemoryError, or
 * an exception that is not derived from Exception, stays as it is.  Returns -1. */
int py_refuse(const struct py_call *call, const struct py_array *array, const char *why);
const char *py_dtype_name(gram_dtype dtype);
/* py_context.c */
gram_context *py_take_context(struct py_state *state, gram_device device, void *stream,
                              bool of_torch);
void py_give_context(struct py_state *state, const struct py_idle *idle);
void py_drop_contexts(struct py_state *state);
/* py_scratch.c: scratch on the device comes from PyTorch's caching allocator. */
void py_scratch_of_torch(gram_context_options *options);
void py_raise(const struct py_state *state, const gram_context *g, gram_status status);
PyObject *py_device_text(gram_device device);
int py_device(const char *function, PyObject *value, gram_device *out);

#endif
