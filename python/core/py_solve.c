/*
 * py_solve.c - gram.solve_cholesky and gram.solve_lu
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    A,
    B,
    FACTORED,
    FACTOR,
    INFO,
    OUT,
    RCOND,
    REFINE,
    BACKWARD,
    REFININGS,
    LAST, /* lower, or pivots */
    LU_COUNT,
    JITTER = LU_COUNT,
    JITTERED,
    COUNT,
    MOST_JITTERS = 64
};

#define COMMON_WORDS                                                                     \
  PY_a, PY_b, PY_factored, PY_factor, PY_info, PY_out, PY_rcond, PY_refine, PY_backward, \
      PY_refinings

static const unsigned char cholesky_words[] = {COMMON_WORDS, PY_lower, PY_jitter, PY_jittered};
static const struct py_signature cholesky = {"gram.solve_cholesky", cholesky_words, COUNT, 2, 2};
static const unsigned char lu_words[] = {COMMON_WORDS, PY_pivots};
static const struct py_signature lu = {"gram.solve_lu", lu_words, LU_COUNT, 2, 2};

struct system {
    gram_tensor *a, *b, *info, *x;
    gram_solve_options options;
    double jitters[MOST_JITTERS];
    bool is_vector; /* b is one right-hand side without a dimension for it */
};

/* The list of jitters, which the options then point to. */
static int read_jitters(PyObject *value, struct system *s)
{
    PyObject *list;
    Py_ssize_t count;
    int failed = 0;

    if (!py_given(value))
        return 0;
    list = PySequence_Check(value) ? PySequence_Tuple(value) : NULL;
    count = list ? PyTuple_Size(list) : -1;
    if (count < 0 || count > MOST_JITTERS) {
        Py_XDECREF(list);
        PyErr_Format(PyExc_TypeError, "%s: jitter is %R, expected a sequence of at most %d numbers",
                     cholesky.name, value, (int)MOST_JITTERS);
        return -1;
    }
    for (int i = 0; i < count && !failed; i++)
        failed = py_double(cholesky.name, "jitter", PyTuple_GetItem(list, i), &s->jitters[i]);
    Py_DECREF(list);
    s->options.jitter = s->jitters;
    s->options.jitters = (int)count;
    return failed;
}

/* Reads the outputs that report on a solve, besides info. */
static int read_reports(struct py_call *call, PyObject *const *v, bool is_lu, struct system *s)
{
    gram_solve_options *o = &s->options;

    if (py_side_output(call, "rcond", v[RCOND], &o->rcond) ||
        py_side_output(call, "backward", v[BACKWARD], &o->backward) ||
        py_side_output(call, "refinings", v[REFININGS], &o->refinings))
        return -1;
    return is_lu ? 0 : py_side_output(call, "jittered", v[JITTERED], &o->jittered);
}

static int read_system(struct py_call *call, PyObject *const *v, bool is_lu, struct system *s)
{
    bool factored = false, lower = true, refine = false;

    s->options = (gram_solve_options)GRAM_SOLVE_OPTIONS_INIT;
    s->info = NULL;
    if (py_bool(call->function, "factored", v[FACTORED], &factored) ||
        py_bool(call->function, "refine", v[REFINE], &refine) ||
        (!is_lu &&
         (py_bool(call->function, "lower", v[LAST], &lower) || read_jitters(v[JITTER], s))))
        return -1;
    s->options.factored = factored;
    s->options.refine = refine;
    s->options.uplo = lower ? GRAM_LOWER : GRAM_UPPER;
    s->a = py_input(call, "a", v[A]);
    s->b = s->a ? py_input(call, "b", v[B]) : NULL;
    if (!s->b || py_side_output(call, "factor", v[FACTOR], &s->options.factor) ||
        (is_lu && py_side_output(call, "pivots", v[LAST], &s->options.pivots)) ||
        py_side_output(call, "info", v[INFO], &s->info) || read_reports(call, v, is_lu, s))
        return -1;
    s->is_vector = s->b->ndim == 1;
    return py_place(call);
}

static int make_output(struct py_call *call, PyObject *value, struct system *s)
{
    struct py_shape shape = {.dtype = s->b->dtype};

    if (s->is_vector)
        py_as_column(s->b);
    py_batch(&shape, s->a, 2);
    py_batch(&shape, s->b, 2);
    py_append(&shape, s->b->ndim >= 2 ? s->b->shape[s->b->ndim - 2] : 0);
    if (!s->is_vector)
        py_append(&shape, s->b->ndim >= 2 ? s->b->shape[s->b->ndim - 1] : 0);
    s->x = py_output(call, "out", value, &shape);
    if (!s->x)
        return -1;
    if (s->is_vector)
        py_as_column(s->x);
    return 0;
}

static PyObject *solve(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                       const struct py_signature *signature, bool query)
{
    bool is_lu = signature == &lu;
    struct system s;
    struct py_call call;
    PyObject *v[COUNT];
    gram_status status;

    if (py_begin(&call, module, signature, args, nargs, kwnames, v))
        return NULL;
    call.query = query;
    if (read_system(&call, v, is_lu, &s) || make_output(&call, v[OUT], &s))
        return py_fail(&call);
    if (query)
        status = (is_lu ? gram_solve_lu_workspace : gram_solve_cholesky_workspace)(
            call.g, s.a, s.b, &s.options, s.x, &call.need);
    else
        PY_WORK(status, (is_lu ? gram_solve_lu : gram_solve_cholesky)(call.g, s.a, s.b, &s.options,
                                                                      s.x, s.info));
    return py_end(&call, status);
}

const char py_solve_cholesky_doc[] =
    "solve_cholesky" PY_TEXT_solve_cholesky
    "Solves a @ x = b for a symmetric positive definite a by the Cholesky factorisation\n"
    "(LAPACK).\n\n"
    "a is (..., n, n), of which one triangle is read.  b is (..., n, r), or (n,) for one\n"
    "right-hand side.  x has the shape of b, broadcast with the batch of a.  All arrays are\n"
    "float32, or all are float64, with any strides.  out may be b itself.  factor, which is\n"
    "an array like a (or a itself), receives the factor; factored=True takes it in the place\n"
    "of a.  info, int32 with the shape of the batch, receives 0, or i > 0 if the leading\n"
    "minor of order i is not positive definite; that item of x is then nan.\n\n"
    "The following have one value per item, on the CPU and on a GPU.  rcond receives the\n"
    "estimates of LAPACK for the reciprocal condition numbers.  jitter is an ascending\n"
    "sequence of numbers s, of which the first is used for which a + s I can be factored;\n"
    "jittered receives it.  refine=True factors float64 in float32 and refines to the\n"
    "accuracy of float64: backward receives the backward errors, and refinings (int32) the\n"
    "numbers of steps, or -1 where a factor in float64 was necessary.\n\n"
    "Raises gram.LinAlgError if a is not positive definite and info is not given, ValueError\n"
    "for shapes and dtypes that do not fit, and TypeError for arguments that are not arrays.\n"
    "Sources: LAPACK; Carson and Higham, SIAM J. Sci.  Comput. 39, 2017 (refine).\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.solve_cholesky(np.array([[4.0, 2.0], [2.0, 3.0]]), np.array([8.0, 8.0]))\n"
    "array([1., 2.])\n"
    ">>> jittered = np.empty(())\n"
    ">>> ones = np.ones((2, 2))\n"
    ">>> gram.solve_cholesky(ones, ones, jitter=[0, 1], jittered=jittered).round(3)[0]\n"
    "array([0.333, 0.333])\n"
    ">>> jittered.item()\n"
    "1.0\n";

const char py_solve_lu_doc[] =
    "solve_lu" PY_TEXT_solve_lu
    "Solves a @ x = b for any square a by LU factorisation with partial pivoting (LAPACK).\n\n"
    "The same as gram.solve_cholesky, except that all of a is read, that factor needs pivots,\n"
    "int32 (..., n), and that factored=True takes both.  info = i > 0 means that U[i, i] is\n"
    "exactly zero or nan.\n\n"
    "Raises gram.LinAlgError if a is singular and info is not given, ValueError for shapes\n"
    "and dtypes that do not fit, and TypeError for arguments that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.solve_lu(np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([[4.0], [3.0]])).tolist()\n"
    "[[3.0], [2.0]]\n";

PyObject *py_solve_cholesky(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    return solve(module, args, nargs, kwnames, &cholesky, false);
}

PyObject *py_solve_cholesky_workspace(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                                      PyObject *kwnames)
{
    return solve(module, args, nargs, kwnames, &cholesky, true);
}

PyObject *py_solve_lu(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return solve(module, args, nargs, kwnames, &lu, false);
}

PyObject *py_solve_lu_workspace(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                                PyObject *kwnames)
{
    return solve(module, args, nargs, kwnames, &lu, true);
}
