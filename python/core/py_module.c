/*
 * py_module.c - gram.Module: CUDA kernels of the user's own
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_types.h"

struct module_object {
    PyObject head;
    struct py_state *state; /* of the module gram._core, which owner keeps alive */
    PyObject *owner;
    struct py_idle context; /* its own, for as long as it lives */
    gram_module *module;
};

enum {
    MOST_ARGUMENTS = PY_MOST_ARRAYS
};

static PyObject *module_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"source", "name", "options", "device", "stream", NULL};
    gram_module_options options = GRAM_MODULE_OPTIONS_INIT;
    PyObject *device = NULL, *stream = NULL, *owner = PyType_GetModule(type);
    struct module_object *self;
    struct py_state *state;
    const char *source;
    gram_status status;

    if (!owner ||
        !PyArg_ParseTupleAndKeywords(args, kwargs, "s|zzOO:Module", (char **)names, &source,
                                     &options.name, &options.options, &device, &stream))
        return NULL;
    state = py_state_of(owner);
    self = py_new(type);
    if (!self)
        return NULL;
    self->state = state;
    self->owner = Py_NewRef(owner);
    self->context = (struct py_idle){
        .threads = state->threads, .device = {GRAM_CUDA, 0}
    };
    if (device && py_device("gram.Module", device, &self->context.device))
        goto failed;
    if (py_given(stream)) {
        self->context.stream = PyLong_AsVoidPtr(stream);
        if (PyErr_Occurred())
            goto failed;
    }
    self->context.g = py_take_context(state, self->context.device, self->context.stream, false);
    if (!self->context.g)
        goto failed;
    PY_WORK(status, gram_module_compile(self->context.g, source, &options, &self->module));
    if (status == GRAM_OK)
        return (PyObject *)self;
    py_raise(state, self->context.g, status);
failed:
    Py_DECREF(self);
    return NULL;
}

static void module_dealloc(PyObject *object)
{
    struct module_object *self = (struct module_object *)object;
    gram_status status = GRAM_OK;

    if (self->module) {
        PY_WORK(status, gram_context_synchronize(self->context.g));
        gram_module_destroy(self->module);
    }
    if (self->context.g && status == GRAM_OK)
        py_give_context(self->state, &self->context);
    else if (self->context.g)
        gram_context_destroy(self->context.g);
    py_delete(object, self->owner);
}

/* Reads one to three whole numbers. */
static int read_sizes(const char *name, PyObject *value, int64_t out[3])
{
    Py_ssize_t count;
    PyObject *item;
    int failed = 0;

    out[0] = out[1] = out[2] = 1;
    if (PyLong_Check(value))
        return py_int64("gram.Module.launch", name, value, out);
    count = PySequence_Size(value);
    if (count < 1 || count > 3) {
        PyErr_Format(PyExc_TypeError, "gram.Module.launch: %s is %R, expected 1 to 3 numbers", name,
                     value);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count && !failed; i++) {
        item = PySequence_GetItem(value, i);
        failed = item ? py_int64("gram.Module.launch", name, item, &out[i]) : -1;
        Py_XDECREF(item);
    }
    return failed;
}

/* The values of a kernel's parameters: pointers of arrays, int64, double, or numbers of ctypes or
 * NumPy. */
struct launch {
    union {
        void *pointer;
        int64_t whole;
        double number;
    } value[MOST_ARGUMENTS];
    void *address[MOST_ARGUMENTS];
    Py_buffer view[MOST_ARGUMENTS];
    int count, views;
};

static int read_argument(struct py_call *call, PyObject *value, struct launch *l)
{
    int i = l->count++;
    struct py_type type;
    gram_tensor *t;

    l->address[i] = &l->value[i];
    if (PyFloat_Check(value))
        return py_double(call->function, "an argument", value, &l->value[i].number);
    if (PyLong_Check(value))
        return py_int64(call->function, "an argument", value, &l->value[i].whole);
    if (py_type_of(call->state, value, &type))
        return -1;
    if (PyObject_CheckBuffer(value) && !type.is_cuda) { /* a number of ctypes or NumPy: its bytes */
        const Py_buffer *view = &l->view[l->views];
        if (PyObject_GetBuffer(value, &l->view[l->views], PyBUF_RECORDS_RO))
            return -1;
        l->views++;
        l->address[i] = view->buf;
        if (view->ndim == 0)
            return 0;
        PyErr_Format(PyExc_TypeError,
                     "%s: an argument is an array on the CPU, expected an array on the GPU, or a "
                     "number",
                     call->function);
        return -1;
    }
    t = py_inout(call, "an argument", value);
    if (!t)
        return -1;
    l->value[i].pointer = t->data;
    return 0;
}

static int read_arguments(struct py_call *call, PyObject *tuple, struct launch *l)
{
    Py_ssize_t count = PyTuple_Size(tuple);

    if (count > MOST_ARGUMENTS) {
        PyErr_Format(PyExc_ValueError,
                     "gram.Module.launch: there are %zd arguments, expected at most %d", count,
                     (int)MOST_ARGUMENTS);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (read_argument(call, PyTuple_GetItem(tuple, i), l))
            return -1;
    return 0;
}

static PyObject *module_launch(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"kernel",    "grid",         "block",
                                        "arguments", "shared_bytes", NULL};
    struct module_object *self = (struct module_object *)object;
    PyObject *grid, *block, *arguments = NULL, *tuple;
    int64_t blocks[3], threads[3];
    unsigned long long shared = 0;
    gram_status status = GRAM_INVALID_ARGUMENT;
    struct launch l = {.count = 0};
    struct py_call call;
    const char *kernel;
    int failed;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sOO|OK:launch", (char **)names, &kernel, &grid,
                                     &block, &arguments, &shared) ||
        read_sizes("grid", grid, blocks) || read_sizes("block", block, threads) ||
        py_open(&call, self->state, "gram.Module.launch"))
        return NULL;
    tuple = arguments ? PySequence_Tuple(arguments) : PyTuple_New(0);
    failed = tuple ? read_arguments(&call, tuple, &l) : -1;
    if (!failed)
        PY_WORK(status, gram_kernel_launch(self->module, kernel, blocks, threads, (size_t)shared,
                                           l.address));
    while (l.views)
        PyBuffer_Release(&l.view[--l.views]);
    Py_XDECREF(tuple);
    py_close(&call);
    if (!failed && status != GRAM_OK)
        py_raise(self->state, self->context.g, status);
    if (failed || status != GRAM_OK)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *module_synchronize(PyObject *object, PyObject *unused)
{
    struct module_object *self = (struct module_object *)object;
    gram_status status;

    (void)unused;
    PY_WORK(status, gram_context_synchronize(self->context.g));
    if (status == GRAM_OK)
        Py_RETURN_NONE;
    py_raise(self->state, self->context.g, status);
    return NULL;
}

static const char module_doc[] =
    "Module(source, name=None, options=None, device=\"cuda\", stream=None)\n--\n\n"
    "CUDA kernels of your own, compiled through the cache of the library's kernels.\n\n"
    "source is CUDA C++ whose kernels are declared extern \"C\" __global__.  options is a\n"
    "string such as \"-DNAME=VALUE --use_fast_math\", and stream is the number of the stream\n"
    "on which kernels are queued.  launch(kernel, grid, block, arguments=(), shared_bytes=0)\n"
    "queues a kernel.  grid and block are one to three numbers.  An argument is an array on\n"
    "the GPU (its pointer is passed), an int (as int64), a float (as double), or a number of\n"
    "NumPy or ctypes, which is passed with its own type; arrays have any dtype.\n"
    "synchronize() waits.\n\n"
    "Raises NotImplementedError if there is no GPU or if the source does not compile, and\n"
    "ValueError for an option that is not allowed.\n\n"
    ">>> import gram\n"
    ">>> if len(gram.devices()) > 1:\n"
    "...     module = gram.Module('extern \"C\" __global__ void f() {}')\n"
    "...     module.launch(\"f\", 1, 1)\n"
    "...     module.synchronize()\n";

static PyMethodDef methods[] = {
    {     "launch", (PyCFunction)(void (*)(void))module_launch, METH_VARARGS | METH_KEYWORDS,
     "launch(kernel, grid, block, arguments=(), shared_bytes=0)\n--\n\n"
     "Queues a kernel on the stream; nothing is waited for."                                      },
    {"synchronize",                         module_synchronize,                  METH_NOARGS,
     "synchronize()\n--\n\nWaits for what is queued and raises RuntimeError if it went wrong."    },
    {         NULL,                                       NULL,                            0, NULL},
};

static PyType_Slot slots[] = {
    {    Py_tp_new,     (void *)module_new},
    {Py_tp_dealloc, (void *)module_dealloc},
    {Py_tp_methods,        (void *)methods},
    {    Py_tp_doc,     (void *)module_doc},
    {            0,                   NULL},
};

PyType_Spec py_module_spec = {
    .name = "gram.Module",
    .basicsize = sizeof(struct module_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};
