/*
 * py_kernel_options.c - translates the arguments that describe a kernel to gram_kernel_options
 *
 * The names are those of `gram kernel --kernel`.
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include <math.h>
#include <string.h>

/* The source of a power that is a letter of the formula. */
enum power {
    ONE,
    TWO,
    FROM_P,
    FROM_Q,
    ONE_OVER_P
};

/* The numbers that a kernel has, as bits of the arguments. */
#define BIT(argument) (1U << (argument))
enum {
    L = BIT(PY_K_BANDWIDTH),
    P = BIT(PY_K_P),
    Q = BIT(PY_K_EXPONENT),
    A = BIT(PY_K_ALPHA),
    G = BIT(PY_K_GAMMA) | BIT(PY_K_COEF0),
    D = BIT(PY_K_DEGREE),
    NUMBERS = L | P | Q | A | G | D
};

static const struct {
    gram_function function;
    gram_inner inner;
    enum power p, outer;
    unsigned takes;
} kernels[] = {
    {           GRAM_LAPLACE, GRAM_DIFFERENCE, FROM_P, ONE_OVER_P,     L | P},
    { GRAM_EXPONENTIAL_POWER, GRAM_DIFFERENCE, FROM_P, ONE_OVER_P, L | P | Q},
    { GRAM_EXPONENTIAL_POWER, GRAM_DIFFERENCE, FROM_Q, ONE_OVER_P,     L | Q},
    {          GRAM_GAUSSIAN, GRAM_DIFFERENCE,    TWO,        ONE,     L | P},
    {          GRAM_MATERN32, GRAM_DIFFERENCE, FROM_P, ONE_OVER_P,     L | P},
    {          GRAM_MATERN52, GRAM_DIFFERENCE, FROM_P, ONE_OVER_P,     L | P},
    {GRAM_RATIONAL_QUADRATIC, GRAM_DIFFERENCE,    TWO,        ONE, L | P | A},
    {          GRAM_IDENTITY,        GRAM_DOT,    TWO,        ONE,         0},
    {        GRAM_POLYNOMIAL,        GRAM_DOT,    TWO,        ONE,     G | D},
    {           GRAM_SIGMOID,        GRAM_DOT,    TWO,        ONE,         G},
    {            GRAM_COSINE,        GRAM_DOT,    TWO,        ONE,         0},
    {          GRAM_IDENTITY, GRAM_DIFFERENCE, FROM_P, ONE_OVER_P,         P},
};
static const enum py_word option_words[] = {PY_KERNEL_OPTION_WORDS};
static const char *const kernel_names[] = {"laplace",
                                           "lpq-laplace",
                                           "product-laplace",
                                           "gaussian",
                                           "matern32",
                                           "matern52",
                                           "rational-quadratic",
                                           "linear",
                                           "polynomial",
                                           "sigmoid",
                                           "cosine",
                                           "distance",
                                           NULL};
static const char *const of_names[] = {"distance", "sum", "product", NULL};
static const char *const output_names[] = {"value",
                                           "weight",
                                           "bandwidth-derivative",
                                           "parameter-derivative",
                                           "norm-x-weight",
                                           "norm-y-weight",
                                           "d1-weight",
                                           "d2-weight",
                                           NULL};

/* Takes the parameters of an expression from a dict. */
static int read_parameters(struct py_call *call, PyObject *dict, struct py_kernel *k)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    int count = 0;

    if (!py_given(dict))
        return 0;
    if (!PyDict_Check(dict) || PyDict_Size(dict) > GRAM_MAX_PARAMETERS) {
        PyErr_Format(PyExc_TypeError, "%s: parameters is %R, expected a dict of at most %d names",
                     call->function, dict, GRAM_MAX_PARAMETERS);
        return -1;
    }
    while (PyDict_Next(dict, &at, &name, &value)) {
        gram_parameter *p = &k->parameters[count++];
        if (py_text(call->function, "a name in parameters", name, &p->name) ||
            py_scalar(call, "parameters", value, &p->value))
            return -1;
    }
    k->options.parameters = k->parameters;
    k->options.parameter_count = count;
    return 0;
}

/* Finds the parameter with respect to which the derivative is taken. */
static int read_derivative(struct py_call *call, PyObject *value, struct py_kernel *k)
{
    const char *name = NULL;

    if (py_text(call->function, "parameter", value, &name))
        return -1;
    if ((k->options.output == GRAM_PARAMETER_DERIVATIVE) != (name != NULL)) {
        PyErr_Format(PyExc_ValueError,
                     "%s: parameter is %R, expected a name with output=\"parameter-derivative\", "
                     "and None without",
                     call->function, value ? value : Py_None);
        return -1;
    }
    for (int64_t i = 0; name && i < k->options.parameter_count; i++)
        if (strcmp(k->parameters[i].name, name) == 0) {
            k->options.derivative = i;
            return 0;
        }
    if (name)
        PyErr_Format(PyExc_ValueError, "%s: parameter is %R, expected a name in parameters",
                     call->function, value);
    return name ? -1 : 0;
}

static int read_numbers(struct py_call *call, PyObject *const *v, struct py_kernel *k)
{
    gram_kernel_options *o = &k->options;

    if (py_scalar(call, "bandwidth", v[PY_K_BANDWIDTH], &o->bandwidth) ||
        py_scalar(call, "p", v[PY_K_P], &o->p) ||
        py_scalar(call, "exponent", v[PY_K_EXPONENT], &o->exponent) ||
        py_scalar(call, "alpha", v[PY_K_ALPHA], &o->alpha) ||
        py_scalar(call, "gamma", v[PY_K_GAMMA], &o->gamma) ||
        py_scalar(call, "coef0", v[PY_K_COEF0], &o->coef0) ||
        py_scalar(call, "degree", v[PY_K_DEGREE], &o->degree) ||
        py_scalar(call, "regularization", v[PY_K_REGULARIZATION], &o->regularization) ||
        py_int64(call->function, "row_offset", v[PY_K_ROW_OFFSET], &o->row_offset) ||
        py_int64(call->function, "column_offset", v[PY_K_COLUMN_OFFSET], &o->column_offset))
        return -1;
    if (py_given(v[PY_K_LENGTHS]) && !(o->lengths = py_input(call, "lengths", v[PY_K_LENGTHS])))
        return -1;
    return read_parameters(call, v[PY_K_PARAMETERS], k);
}

/* Sets p and the outer power to those of the kernel's name, unless the caller gives them. */
static int settle_powers(struct py_call *call, PyObject *const *v, gram_kernel_options *o,
                         enum power p, enum power outer)
{
    if (p == FROM_Q)
        o->p = o->exponent;
    if (p == TWO && v[PY_K_P] && !v[PY_K_OUTER_POWER] && o->inner == GRAM_DIFFERENCE &&
        (o->p.tensor || o->p.value != 2)) {
        PyErr_Format(PyExc_ValueError,
                     "%s: p is %R, but this kernel uses the Euclidean distance; give outer_power "
                     "to apply it to another sum",
                     call->function, v[PY_K_P]);
        return -1;
    }
    if (py_given(v[PY_K_OUTER_POWER]))
        return py_scalar(call, "outer_power", v[PY_K_OUTER_POWER], &o->outer_power);
    if (outer != ONE_OVER_P || o->inner != GRAM_DIFFERENCE)
        return 0;
    o->root = o->p.tensor != NULL;
    o->outer_power = gram_number(o->p.value > 0 && isfinite(o->p.value) ? 1 / o->p.value : 1);
    return 0;
}

/* A metric takes the place of the p-norm: s is its distance, or the square where the kernel has the
 * square of one.  -1 with an exception where s is not made of a distance. */
static int settle_metric(struct py_call *call, PyObject *const *v, struct py_kernel *k,
                         enum power p, enum power outer)
{
    gram_kernel_options *o = &k->options;
    const bool minkowski = k->metric.kind == GRAM_DISTANCE_MINKOWSKI;

    if (o->inner == GRAM_DOT || p == FROM_Q || (p == FROM_P && outer == ONE && !minkowski)) {
        PyErr_Format(PyExc_ValueError,
                     "%s: metric or weights are given, but %s is not a function of a distance",
                     call->function, o->expression ? "this expression" : "this kernel");
        return -1;
    }
    k->metric.p = o->p;
    o->metric = &k->metric;
    if (py_given(v[PY_K_OUTER_POWER]))
        return py_scalar(call, "outer_power", v[PY_K_OUTER_POWER], &o->outer_power);
    o->outer_power = outer == ONE_OVER_P ? gram_number(1) : p == TWO ? gram_number(2) : o->p;
    return 0;
}

/* Refuses an argument that would have no effect.  Often it is a name of another package, such as
 * scikit-learn's gamma = 1 / (2 bandwidth^2) of a Gaussian. */
static int refuse_unused(struct py_call *call, PyObject *const *v, unsigned takes, const char *what)
{
    for (int i = PY_K_BANDWIDTH; i <= PY_K_DEGREE; i++) {
        const char *hint = "";
        if (!v[i] || !(NUMBERS & ~takes & BIT(i)))
            continue;
        if (!what)
            hint = i == PY_K_P ? " where it is of the product" : ": give it in parameters";
        else if (i == PY_K_GAMMA && takes & L)
            hint = ": its width is bandwidth";
        PyErr_Format(PyExc_ValueError, "%s: %S is given, but %s%s has no such number%s",
                     call->function, call->state->word[option_words[i - PY_K_KERNEL]],
                     what ? "the kernel " : "an expression", what ? what : "", hint);
        return -1;
    }
    if (what && py_given(v[PY_K_PARAMETERS])) {
        PyErr_Format(PyExc_ValueError, "%s: parameters are given without an expression",
                     call->function);
        return -1;
    }
    return 0;
}

PyObject *py_kernel_takes(PyObject *module, PyObject *name)
{
    const struct py_state *state = py_state_of(module);
    PyObject *list = NULL;
    int kernel = 0;

    if (py_choice("gram", "kernel", name, kernel_names, &kernel))
        return NULL;
    list = PyList_New(0);
    for (int i = PY_K_BANDWIDTH; list && i <= PY_K_DEGREE; i++)
        if (kernels[kernel].takes & BIT(i))
            py_add(&list, Py_NewRef(state->word[option_words[i - PY_K_KERNEL]]));
    return list;
}

int py_kernel_options(struct py_call *call, PyObject *const *v, struct py_kernel *k)
{
    gram_kernel_options *o = &k->options;
    int kernel = 0, of = 0, output = GRAM_VALUE;
    enum power p, outer;
    bool has_metric;

    *k = (struct py_kernel){.options = GRAM_KERNEL_OPTIONS_INIT, .metric = GRAM_DISTANCE_INIT};
    if (py_choice(call->function, "kernel", v[PY_K_KERNEL], kernel_names, &kernel) ||
        py_choice(call->function, "of", v[PY_K_OF], of_names, &of) ||
        py_choice(call->function, "output", v[PY_K_OUTPUT], output_names, &output) ||
        py_text(call->function, "expression", v[PY_K_EXPRESSION], &o->expression) ||
        py_metric(call, v[PY_K_METRIC], v[PY_K_WEIGHTS], v[PY_K_P] != NULL, &k->metric,
                  &has_metric) ||
        read_numbers(call, v, k))
        return -1;
    if (o->expression && py_given(v[PY_K_KERNEL])) {
        PyErr_Format(PyExc_ValueError,
                     "%s: kernel and expression are given, expected only one of them",
                     call->function);
        return -1;
    }
    o->output = (gram_kernel_output)output;
    if (read_derivative(call, v[PY_K_PARAMETER], k))
        return -1;
    if (o->expression) {
        if (refuse_unused(call, v, of == 2 ? 0 : P, NULL))
            return -1;
        o->function = GRAM_EXPRESSION;
        o->inner = of == 2 ? GRAM_DOT : GRAM_DIFFERENCE;
        p = FROM_P;
        outer = of == 0 ? ONE_OVER_P : ONE;
    } else {
        if (refuse_unused(call, v, kernels[kernel].takes, kernel_names[kernel]))
            return -1;
        o->function = kernels[kernel].function;
        o->inner = kernels[kernel].inner;
        p = kernels[kernel].p;
        outer = kernels[kernel].outer;
    }
    return has_metric ? settle_metric(call, v, k, p, outer) : settle_powers(call, v, o, p, outer);
}

static void join(struct py_shape *shape, gram_scalar s)
{
    if (s.tensor)
        py_batch(shape, s.tensor, 0);
}

void py_kernel_batch(struct py_shape *shape, const struct py_kernel *k)
{
    const gram_kernel_options *o = &k->options;

    join(shape, o->p);
    join(shape, o->outer_power);
    join(shape, o->bandwidth);
    join(shape, o->exponent);
    join(shape, o->alpha);
    join(shape, o->gamma);
    join(shape, o->coef0);
    join(shape, o->degree);
    join(shape, o->regularization);
    if (o->lengths)
        py_batch(shape, o->lengths, 1);
    if (o->metric && k->metric.weights)
        py_batch(shape, k->metric.weights, 1);
    for (int64_t i = 0; i < o->parameter_count; i++)
        join(shape, o->parameters[i].value);
}
