/*
 * py_functions.h - the functions of gram._core, and the code that those of two sets of points share
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_FUNCTIONS_H
#define PY_FUNCTIONS_H
#include "py_core.h"

/* x and y of a pairwise function; y NULL: x. */
struct py_pair {
    gram_tensor *x, *y;
};

/* Views v[0] and v[1] and begins the shape of the output with their batch and dtype; -1 with an
 * exception.  Where further inputs may promote them, the dtype is that after py_place. */
int py_pair(struct py_call *call, PyObject *const *v, struct py_pair *pair, struct py_shape *shape);
/* The dtype of results for points x. */
gram_dtype py_pair_dtype(const gram_tensor *x);
/* Ends the shape with m and n, and with the dtype after py_place. */
void py_pair_shape(struct py_shape *shape, const gram_tensor *x, const gram_tensor *y);

/* The arguments that describe a kernel, in their order; x and y come first. */
enum py_kernel_argument {
    PY_K_KERNEL = 2,
    PY_K_BANDWIDTH,
    PY_K_P,
    PY_K_EXPONENT,
    PY_K_ALPHA,
    PY_K_GAMMA,
    PY_K_COEF0,
    PY_K_DEGREE,
    PY_K_REGULARIZATION,
    PY_K_ROW_OFFSET,
    PY_K_COLUMN_OFFSET,
    PY_K_OUTER_POWER,
    PY_K_EXPRESSION,
    PY_K_OF,
    PY_K_PARAMETERS,
    PY_K_OUTPUT,
    PY_K_PARAMETER,
    PY_K_LENGTHS,
    PY_K_METRIC,
    PY_K_WEIGHTS,
    PY_K_COUNT
};

#define PY_KERNEL_OPTION_WORDS                                                                  \
  PY_kernel, PY_bandwidth, PY_p, PY_exponent, PY_alpha, PY_gamma, PY_coef0, PY_degree,          \
      PY_regularization, PY_row_offset, PY_column_offset, PY_outer_power, PY_expression, PY_of, \
      PY_parameters, PY_output, PY_parameter, PY_lengths, PY_metric, PY_weights
#define PY_KERNEL_WORDS PY_x, PY_y, PY_KERNEL_OPTION_WORDS

/* A kernel and the memory that its options point to. */
struct py_kernel {
    gram_kernel_options options;
    gram_parameter parameters[GRAM_MAX_PARAMETERS];
    gram_distance metric;
};

/* Of packed bits; before py_pair, which then takes bytes. */
int py_bits(struct py_call *call, PyObject *value, gram_distance *metric);

/* The distance that metric and weights describe; *given says whether one of them is there.  has_p:
 * the caller gives p, which only minkowski has.  p itself is left to the caller. */
int py_metric(struct py_call *call, PyObject *name, PyObject *weights, bool has_p,
              gram_distance *metric, bool *given);

int py_kernel_options(struct py_call *call, PyObject *const *v, struct py_kernel *kernel);
/* Joins the batches of the kernel's numbers. */
void py_kernel_batch(struct py_shape *shape, const struct py_kernel *kernel);

/* Views a vector as the only column of a matrix.  The library refuses a tensor with too many
 * dimensions. */
static inline void py_as_column(gram_tensor *t)
{
    if (t->ndim == GRAM_MAX_DIMS)
        return;
    t->shape[t->ndim] = 1;
    t->stride[t->ndim] = 1;
    t->ndim++;
}

/* Views an array that is written besides the results, if it is given.  If it is the same object as
 * an input, it is that input. */
static inline int py_side_output(struct py_call *call, const char *name, PyObject *object,
                                 gram_tensor **out)
{
    if (!py_given(object))
        return 0;
    *out = py_inout(call, name, object);
    return *out ? 0 : -1;
}

/* The viewed factors of a Kronecker product. `list` keeps them alive, and the caller releases
 * it. */
struct py_factors {
    PyObject *list;
    gram_tensor *at[GRAM_MAX_FACTORS];
    int count;
};

int py_factors(struct py_call *call, PyObject *value, struct py_factors *factors);
/* The dtype and the batch that the factors share, to which *shape is set; the products of their
 * numbers of rows and of columns go to *rows and *cols (INT64_MAX where they overflow), unless
 * NULL.
 */
void py_factors_shape(const struct py_factors *factors, struct py_shape *shape, int64_t *rows,
                      int64_t *cols);
/* Right or left; an absent value leaves *side. */
int py_side(const char *function, PyObject *value, gram_side *side);
/* Ends a call on factors, releasing their list; done says whether the library was called. */
PyObject *py_factors_end(struct py_call *call, struct py_factors *factors, bool done,
                         gram_status status);

/* The functions that Python sees, each described by its docstring. */
#define PY_FUNCTION(name) \
  PyObject *name(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)

/* Defines name and name_workspace, which gram.workspace calls: run, whose last argument says
 * whether the workspace is asked for. */
#define PY_WITH_WORKSPACE(name, run)                 \
  PY_FUNCTION(name)                                  \
  {                                                  \
    return run(module, args, nargs, kwnames, false); \
  }                                                  \
  PY_FUNCTION(name##_workspace)                      \
  {                                                  \
    return run(module, args, nargs, kwnames, true);  \
  }

#define PY_QUERY(name) PY_CALL(name) PY_FUNCTION(py_##name##_workspace);
#define PY_CALL(name)                  \
  extern const char py_##name##_doc[]; \
  PY_FUNCTION(py_##name);
#define PY_INNER(name) PY_FUNCTION(py_##name);
#include "py_functions.def"

extern const char py_devices_doc[], py_best_device_doc[], py_set_threads_doc[],
    py_get_threads_doc[], py_info_doc[];

/* py_cache.c: the chips of a call of gram.cache.warm, and the list of what it compiles. */
struct py_warming {
    gram_warm_options options; /* its visit fills the list */
    const char **chips;
    PyObject *tuple, *list;
};
/* chips is NULL, None or a sequence of texts.  On -1 there is an exception, and nothing must be
 * released. */
int py_warming_begin(struct py_warming *w, PyObject *chips);
/* Frees all but the list, which the caller gets.  An error becomes py_end's exception, and NULL. */
PyObject *py_warming_end(struct py_warming *w, struct py_call *call, gram_status status);

PyObject *py_eigh_many(PyObject *module, PyObject *args);
PyObject *py_eigh_multi(PyObject *module, PyObject *args);
PyObject *py_eigh_multi_workspace(PyObject *module, PyObject *args);
PyObject *py_matrix_power_many(PyObject *module, PyObject *args);
PyObject *py_machine_fit(PyObject *module, PyObject *args);
PyObject *py_machine_load(PyObject *module, PyObject *path);
/* kernel_takes(name): the names of the numbers that a kernel has, a list. */
PyObject *py_kernel_takes(PyObject *module, PyObject *name);
PyObject *py_optimizer_create(PyObject *module, PyObject *args);
PyObject *py_optimizer_defaults(PyObject *module, PyObject *method);
PyObject *py_devices(PyObject *module, PyObject *unused);
PyObject *py_best_device(PyObject *module, PyObject *unused);
PyObject *py_set_threads(PyObject *module, PyObject *count);
PyObject *py_get_threads(PyObject *module, PyObject *unused);
PyObject *py_info(PyObject *module, PyObject *unused);
PyObject *py_xla_handlers(PyObject *module, PyObject *unused);

#endif
