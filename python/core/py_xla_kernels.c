/*
 * py_xla_kernels.c - kernel matrices, their products and gradients for gram.jax
 *
 * The options of a kernel are determined when a program is traced (by kernel_numbers, which Python
 * calls), and are passed as integers and numbers. bandwidth and regularization are arrays, the
 * first two of every call.
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_xla.h"
#include <string.h>

enum { /* integers of every kernel; the gradients that are wanted come after them */
    FUNCTION,
    INNER,
    OUTPUT,
    ROW_OFFSET,
    COLUMN_OFFSET,
    INTEGERS,
    WANTED = INTEGERS
};

enum { /* numbers; the values of an expression's parameters come after them */
    P,
    OUTER_POWER,
    EXPONENT,
    ALPHA,
    GAMMA,
    COEF0,
    DEGREE,
    NUMBERS
};

/* The first line of the text is the expression, the others are the names of the parameters; -1 if
 * they are too many. */
static int64_t read_text(char *line, struct py_kernel *k)
{
    int64_t count = 0;

    k->options.expression = line;
    while (*(line += strcspn(line, "\n"))) {
        *line++ = 0;
        if (count == GRAM_MAX_PARAMETERS)
            return -1;
        k->parameters[count++].name = line;
    }
    return count;
}

/* False, and c->wrong is set, if c has something that no kernel has. */
static bool read_kernel(struct py_xla_call *c, struct py_kernel *k)
{
    gram_kernel_options *o = &k->options;
    int64_t count;

    *k = (struct py_kernel){.options = GRAM_KERNEL_OPTIONS_INIT};
    o->function = (gram_function)c->integers[FUNCTION];
    o->inner = (gram_inner)c->integers[INNER];
    o->output = (gram_kernel_output)c->integers[OUTPUT];
    o->row_offset = c->integers[ROW_OFFSET];
    o->column_offset = c->integers[COLUMN_OFFSET];
    o->p = gram_number(c->numbers[P]);
    o->outer_power = gram_number(c->numbers[OUTER_POWER]);
    o->exponent = gram_number(c->numbers[EXPONENT]);
    o->alpha = gram_number(c->numbers[ALPHA]);
    o->gamma = gram_number(c->numbers[GAMMA]);
    o->coef0 = gram_number(c->numbers[COEF0]);
    o->degree = gram_number(c->numbers[DEGREE]);
    o->bandwidth = gram_values(&c->in[0]);
    o->regularization = gram_values(&c->in[1]);
    if (o->function != GRAM_EXPRESSION)
        return true;
    count = read_text(c->text, k);
    c->wrong = count < 0 || c->number_count < NUMBERS + (size_t)count;
    if (c->wrong)
        return false;
    for (int64_t i = 0; i < count; i++)
        k->parameters[i].value = gram_number(c->numbers[NUMBERS + i]);
    o->parameters = k->parameters;
    o->parameter_count = count;
    return true;
}

/* bandwidth, regularization, x, y (optional) -> matrix */
static gram_status matrix(gram_context *g, struct py_xla_call *c)
{
    struct py_kernel k;

    if (!read_kernel(c, &k))
        return GRAM_INVALID_ARGUMENT;
    return gram_kernel(g, &c->in[2], c->in_count > 3 ? &c->in[3] : NULL, &k.options, &c->out[0]);
}

/* bandwidth, regularization, v, x, y (optional) -> product */
static gram_status product(gram_context *g, struct py_xla_call *c)
{
    struct py_kernel k;

    if (!read_kernel(c, &k))
        return GRAM_INVALID_ARGUMENT;
    return gram_kernel_matmul(g, &c->in[3], c->in_count > 4 ? &c->in[4] : NULL, &k.options,
                              &c->in[2], NULL, &c->out[0]);
}

/* bandwidth, regularization, gradient, x, y (optional) -> those of x, y, bandwidth, regularization
 * whose bits are set in the integer after the kernel's, in this order */
static gram_status gradients(gram_context *g, struct py_xla_call *c)
{
    gram_tensor *to[4] = {NULL};
    gram_kernel_grads grads;
    struct py_kernel k;
    int used = 0;

    for (int i = 0; i < 4; i++)
        if (c->integers[WANTED] >> i & 1)
            to[i] = &c->out[used++];
    c->wrong = used != c->out_count;
    if (c->wrong || !read_kernel(c, &k))
        return GRAM_INVALID_ARGUMENT;
    grads =
        (gram_kernel_grads){.x = to[0], .y = to[1], .bandwidth = to[2], .regularization = to[3]};
    return gram_kernel_vjp(g, &c->in[3], c->in_count > 4 ? &c->in[4] : NULL, &k.options, &c->in[2],
                           &grads);
}

/* bandwidth, regularization, gradient, v, x, y (optional) -> the same of the product with v, and
 * that of v last */
static gram_status product_gradients(gram_context *g, struct py_xla_call *c)
{
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;
    gram_tensor **const to[] = {&grads.x, &grads.y, &grads.bandwidth, &grads.regularization,
                                &grads.v};
    struct py_kernel k;
    int used = 0;

    for (int i = 0; i < 5; i++)
        if (c->integers[WANTED] >> i & 1)
            *to[i] = &c->out[used++];
    c->wrong = used != c->out_count;
    if (c->wrong || !read_kernel(c, &k))
        return GRAM_INVALID_ARGUMENT;
    return gram_kernel_matmul_vjp(g, &c->in[4], c->in_count > 5 ? &c->in[5] : NULL, &k.options,
                                  &c->in[3], &c->in[2], &grads);
}

enum { /* integers of a reduction, after the kernel's */
    REDUCTION = INTEGERS,
    OF_PLACES,
    HAS_V,
    HAS_LOG_WEIGHTS,
    REDUCE_INTEGERS
};

/* bandwidth, regularization, v (optional), logarithms of weights (optional), x, y (optional) ->
 * values, or places: each of these is two integers of 32 bits, the lower half first, because a
 * program of JAX may have no wider ones. The last number is the scale. */
static gram_status reduction(gram_context *g, struct py_xla_call *c)
{
    gram_kernel_reduce_options options = GRAM_KERNEL_REDUCE_OPTIONS_INIT;
    const bool of_places = c->integers[OF_PLACES] != 0;
    const gram_tensor *v = NULL;
    gram_tensor places = c->out[0];
    struct py_kernel k;
    int at = 2;

    if (!read_kernel(c, &k))
        return GRAM_INVALID_ARGUMENT;
    if (c->integers[HAS_V])
        v = &c->in[at++];
    if (c->integers[HAS_LOG_WEIGHTS])
        options.log_weights = &c->in[at++];
    c->wrong = at >= c->in_count || c->in_count > at + 2 ||
               c->number_count <= NUMBERS + (size_t)k.options.parameter_count ||
               (of_places && (places.dtype != GRAM_I32 || places.ndim < 1 ||
                              places.shape[places.ndim - 1] != 2));
    if (c->wrong)
        return GRAM_INVALID_ARGUMENT;
    options.scale = c->numbers[NUMBERS + k.options.parameter_count];
    if (of_places) {
        places.dtype = GRAM_I64;
        places.ndim--;
        for (int i = 0; i < places.ndim; i++)
            places.stride[i] /= 2;
    }
    return gram_kernel_reduce(g, &c->in[at], c->in_count > at + 1 ? &c->in[at + 1] : NULL,
                              &k.options, (gram_reduction)c->integers[REDUCTION], v, &options,
                              of_places ? NULL : &c->out[0], of_places ? &places : NULL);
}

/* bandwidth, regularization, gradient, v (optional), logarithms of weights (optional), x, y
 * (optional) -> those of x, y, bandwidth, regularization, v and these logarithms whose bits are set
 * in the integer after a reduction's, in this order. */
static gram_status reduction_gradients(gram_context *g, struct py_xla_call *c)
{
    gram_kernel_reduce_options options = GRAM_KERNEL_REDUCE_OPTIONS_INIT;
    gram_kernel_reduce_grads grads = GRAM_KERNEL_REDUCE_GRADS_INIT;
    gram_tensor **const to[] = {
        &grads.x, &grads.y, &grads.bandwidth, &grads.regularization, &grads.v, &grads.log_weights};
    const gram_tensor *v = NULL;
    struct py_kernel k;
    int at = 3, used = 0;

    for (int i = 0; i < 6; i++)
        if (c->integers[REDUCE_INTEGERS] >> i & 1)
            *to[i] = &c->out[used++];
    c->wrong = used != c->out_count;
    if (c->wrong || !read_kernel(c, &k))
        return GRAM_INVALID_ARGUMENT;
    if (c->integers[HAS_V])
        v = &c->in[at++];
    if (c->integers[HAS_LOG_WEIGHTS])
        options.log_weights = &c->in[at++];
    c->wrong = at >= c->in_count || c->in_count > at + 2 ||
               c->number_count <= NUMBERS + (size_t)k.options.parameter_count;
    if (c->wrong)
        return GRAM_INVALID_ARGUMENT;
    options.scale = c->numbers[NUMBERS + k.options.parameter_count];
    return gram_kernel_reduce_vjp(g, &c->in[at], c->in_count > at + 1 ? &c->in[at + 1] : NULL,
                                  &k.options, (gram_reduction)c->integers[REDUCTION], v, &options,
                                  &c->in[2], &grads);
}

const struct py_xla_operation *py_xla_kernel_operation(const struct xla_text *name)
{
    static const struct py_xla_operation table[] = {
        {           "kernel",              matrix, 3, 4, 1, 1,            INTEGERS,     NUMBERS},
        {    "kernel_matmul",             product, 4, 5, 1, 1,            INTEGERS,     NUMBERS},
        {    "kernel_reduce",           reduction, 3, 6, 1, 1,     REDUCE_INTEGERS, NUMBERS + 1},
        {       "kernel_vjp",           gradients, 4, 5, 1, 4,        INTEGERS + 1,     NUMBERS},
        {"kernel_matmul_vjp",   product_gradients, 5, 6, 1, 5,        INTEGERS + 1,     NUMBERS},
        {"kernel_reduce_vjp", reduction_gradients, 4, 7, 1, 6, REDUCE_INTEGERS + 1, NUMBERS + 1},
        {               NULL,                NULL, 0, 0, 0, 0,                   0,           0},
    };

    return py_xla_find(table, name);
}

/* ---- Options, when a program is traced ---------------------------------------------------- */

static const unsigned char words[] = {PY_KERNEL_WORDS};
static const struct py_signature signature = {"gram.jax.kernel", words, PY_K_COUNT, 3, 0};

/* What a traced program cannot have: numbers that are arrays, derivatives by parameters. */
static int refuse_others(const gram_kernel_options *o)
{
    const struct {
        const char *name;
        const gram_tensor *tensor;
    } numbers[] = {
        {          "p",           o->p.tensor},
        {"outer_power", o->outer_power.tensor},
        {   "exponent",    o->exponent.tensor},
        {      "alpha",       o->alpha.tensor},
        {      "gamma",       o->gamma.tensor},
        {      "coef0",       o->coef0.tensor},
        {     "degree",      o->degree.tensor},
    };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].tensor) {
            PyErr_Format(PyExc_TypeError, "%s: %s is an array, expected a number", signature.name,
                         numbers[i].name);
            return -1;
        }
    if (o->metric) {
        PyErr_Format(PyExc_ValueError,
                     "%s: metric or weights are given, which gram.jax does not offer: kernels of a "
                     "metric have no gradients",
                     signature.name);
        return -1;
    }
    if (o->output == GRAM_PARAMETER_DERIVATIVE) {
        PyErr_Format(PyExc_ValueError,
                     "%s: output is \"parameter-derivative\", which gram.jax does not offer",
                     signature.name);
        return -1;
    }
    for (int64_t i = 0; i < o->parameter_count; i++)
        if (o->parameters[i].value.tensor) {
            PyErr_Format(PyExc_TypeError, "%s: parameter %s is an array, expected a number",
                         signature.name, o->parameters[i].name);
            return -1;
        }
    return 0;
}

/* A tuple of all numbers. */
static PyObject *pack_numbers(const gram_kernel_options *o)
{
    const double fixed[NUMBERS] = {o->p.value,     o->outer_power.value, o->exponent.value,
                                   o->alpha.value, o->gamma.value,       o->coef0.value,
                                   o->degree.value};
    PyObject *tuple = PyTuple_New(NUMBERS + o->parameter_count);

    for (Py_ssize_t i = 0; tuple && i < NUMBERS + o->parameter_count; i++) {
        PyObject *number =
            PyFloat_FromDouble(i < NUMBERS ? fixed[i] : o->parameters[i - NUMBERS].value.value);
        if (!number || PyTuple_SetItem(tuple, i, number))
            Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *py_kernel_numbers(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    PyObject *v[PY_K_COUNT], *numbers = NULL, *result = NULL;
    const gram_kernel_options *o;
    struct py_kernel k;
    struct py_call call;

    if (py_begin(&call, module, &signature, args, nargs, kwnames, v))
        return NULL;
    o = &k.options;
    if (!py_kernel_options(&call, v, &k) && !refuse_others(o))
        numbers = pack_numbers(o);
    if (numbers)
        result = Py_BuildValue("(iiiLL)O", (int)o->function, (int)o->inner, (int)o->output,
                               (long long)o->row_offset, (long long)o->column_offset, numbers);
    Py_XDECREF(numbers);
    py_close(&call);
    return result;
}
