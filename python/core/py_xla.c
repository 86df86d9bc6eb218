/*
 * py_xla.c - the handler with which programs of XLA call the library: gram.jax
 *
 * One handler serves all operations.  The attribute "op" names the operation, and "integers",
 * "numbers" and "text" are its options, in the order of py_xla_calls.c and py_xla_kernels.c.  The
 * handler is registered twice: for the CPU and for CUDA, where the work is queued on XLA's stream.
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_xla.h"
#include "py_functions.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAJOR = 0,
    MINOR = 1 /* of the interface, and every later one: minor versions only append */
};

/* ---- Errors ------------------------------------------------------------------------------- */

static struct xla_error *fail(const struct xla_frame *frame, enum xla_code code,
                              const char *message)
{
    struct xla_error_request request = {sizeof request, NULL, message, (int)code};

    return frame->api->create_error(&request);
}

static struct xla_error *fail_with(const struct xla_frame *frame, const gram_context *g,
                                   gram_status status)
{
    const char *message = gram_message(g);
    enum xla_code code = XLA_INTERNAL;
    char text[600];

    if (status == GRAM_INVALID_ARGUMENT || status == GRAM_BAD_DATA)
        code = XLA_INVALID_ARGUMENT;
    else if (status == GRAM_UNSUPPORTED)
        code = XLA_UNSUPPORTED;
    else if (status == GRAM_OUT_OF_MEMORY)
        code = XLA_OUT_OF_MEMORY;
    else if (status == GRAM_NUMERICAL)
        code = XLA_FAILED_PRECONDITION;
    if (strncmp(message, "gram_", 5) == 0) /* the function's name in Python */
        snprintf(text, sizeof text, "gram.jax.%s", message + 5);
    else
        snprintf(text, sizeof text, "%s", message[0] ? message : gram_status_name(status));
    return fail(frame, code, text);
}

static const char other_version[] =
    "gram.jax: the arrays or options of the operation are not those of this version of gram";

/* ---- Arguments ---------------------------------------------------------------------------- */

static int read_dtype(int theirs, gram_dtype *dtype)
{
    static const struct {
        int theirs;
        gram_dtype ours;
    } dtypes[] = {
        {11,  GRAM_F32},
        {12,  GRAM_F64},
        {10,  GRAM_F16},
        {16, GRAM_BF16},
        { 4,  GRAM_I32},
        { 5,  GRAM_I64},
    };

    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].theirs == theirs) {
            *dtype = dtypes[i].ours;
            return 0;
        }
    return -1;
}

static const char *read_tensor(const struct xla_buffer *buffer, gram_device device, gram_tensor *t)
{
    int64_t stride = 1;

    if (read_dtype(buffer->dtype, &t->dtype))
        return "gram.jax: an array has a dtype that gram does not know";
    if (buffer->rank > GRAM_MAX_DIMS)
        return "gram.jax: an array has more than 8 dimensions";
    t->data = buffer->data;
    t->device = device;
    t->ndim = (int32_t)buffer->rank;
    for (int i = t->ndim - 1; i >= 0; i--) {
        t->shape[i] = buffer->dims[i];
        t->stride[i] = stride;
        stride *= buffer->dims[i];
    }
    return NULL;
}

static const char *read_tensors(const struct xla_values *values, gram_device device, int least,
                                int most, gram_tensor *tensors, int *count)
{
    const char *wrong = NULL;

    if (values->count < least || values->count > most)
        return other_version;
    *count = (int)values->count;
    for (int i = 0; i < *count && !wrong; i++)
        wrong = values->kinds[i] == XLA_BUFFER ? read_tensor(values->items[i], device, &tensors[i])
                                               : other_version;
    return wrong;
}

/* The attribute of this name and kind, or NULL. */
static const void *attribute(const struct xla_attributes *a, const char *name, int kind)
{
    for (int64_t i = 0; i < a->count; i++)
        if (a->kinds[i] == kind && a->names[i]->length == strlen(name) &&
            memcmp(a->names[i]->at, name, a->names[i]->length) == 0)
            return a->items[i];
    return NULL;
}

/* Reads the whole call; call->text is to be freed, whatever comes. */
static const char *read_call(const struct xla_frame *frame, const struct py_xla_operation *op,
                             gram_device device, struct py_xla_call *call)
{
    const struct xla_numbers *integers = attribute(&frame->attributes, "integers", XLA_NUMBERS);
    const struct xla_numbers *numbers = attribute(&frame->attributes, "numbers", XLA_NUMBERS);
    const struct xla_text *text = attribute(&frame->attributes, "text", XLA_TEXT);
    gram_dtype whole, real;
    const char *wrong;

    if (!integers || !numbers || !text || read_dtype(integers->dtype, &whole) ||
        read_dtype(numbers->dtype, &real) || whole != GRAM_I64 || real != GRAM_F64 ||
        integers->count < op->integers || numbers->count < op->numbers)
        return other_version;
    call->integers = integers->data;
    call->integer_count = integers->count;
    call->numbers = numbers->data;
    call->number_count = numbers->count;
    call->text = malloc(text->length + 1);
    if (!call->text)
        return "gram.jax: out of memory";
    memcpy(call->text, text->at, text->length);
    call->text[text->length] = 0;
    wrong = read_tensors(&frame->arguments, device, op->in_least, op->in_most, call->in,
                         &call->in_count);
    return wrong ? wrong
                 : read_tensors(&frame->results, device, op->out_least, op->out_most, call->out,
                                &call->out_count);
}

const struct py_xla_operation *py_xla_find(const struct py_xla_operation *table,
                                           const struct xla_text *name)
{
    for (; table->name; table++)
        if (strlen(table->name) == name->length && memcmp(table->name, name->at, name->length) == 0)
            return table;
    return NULL;
}

/* ---- The handlers ------------------------------------------------------------------------- */

/* Is the handler asked what it is?  Then it has said so. */
static bool introduce(const struct xla_frame *frame)
{
    for (struct xla_extension *e = frame->extensions; e; e = e->next)
        if (e->kind == XLA_METADATA) {
            struct xla_metadata *metadata = ((struct xla_metadata_request *)(void *)e)->metadata;
            bool same = frame->api && frame->api->version.major == MAJOR;
            metadata->version.major = MAJOR;
            metadata->version.minor = same ? frame->api->version.minor : MINOR;
            return true;
        }
    return false;
}

static struct xla_error *handle(const struct xla_frame *frame, gram_device device, void *stream)
{
    const struct xla_text *name = attribute(&frame->attributes, "op", XLA_TEXT);
    const struct py_xla_operation *op = name ? py_xla_operation(name) : NULL;
    struct py_xla_call call = {0};
    struct py_xla_context *context;
    struct xla_error *error = NULL;
    const char *wrong;
    gram_status status;

    if (name && !op)
        op = py_xla_kernel_operation(name);
    if (!op)
        return fail(frame, XLA_UNSUPPORTED, "gram.jax: this version of gram has no such operation");
    wrong = read_call(frame, op, device, &call);
    if (wrong) {
        free(call.text);
        return fail(frame, XLA_INVALID_ARGUMENT, wrong);
    }
    status = py_xla_take(frame, device, stream, &context);
    if (status != GRAM_OK) {
        free(call.text);
        return fail_with(frame, NULL, status);
    }
    status = op->run(context->g, &call);
    if (call.wrong)
        error = fail(frame, XLA_INVALID_ARGUMENT, other_version);
    else if (status != GRAM_OK)
        error = fail_with(frame, context->g, status);
    py_xla_give(context);
    free(call.text);
    return error;
}

static struct xla_error *handle_cpu(const struct xla_frame *frame)
{
    if (introduce(frame))
        return NULL;
    return handle(frame, (gram_device){GRAM_CPU, 0}, NULL);
}

static struct xla_error *handle_cuda(const struct xla_frame *frame)
{
    struct xla_stream stream = {sizeof stream, NULL, frame->context, NULL};
    struct xla_ordinal device = {sizeof device, NULL, frame->context, 0};
    const struct xla_api *api = frame->api;
    struct xla_error *error;

    if (introduce(frame))
        return NULL;
    if (api->size < offsetof(struct xla_api, get_ordinal) + sizeof api->get_ordinal)
        return fail(frame, XLA_UNSUPPORTED,
                    "gram.jax on CUDA needs a newer jaxlib, which says on which device a call is");
    error = api->get_stream(&stream);
    if (!error)
        error = api->get_ordinal(&device);
    return error ? error : handle(frame, (gram_device){GRAM_CUDA, device.ordinal}, stream.stream);
}

PyObject *py_xla_handlers(PyObject *module, PyObject *unused)
{
    struct xla_error *(*handlers[])(const struct xla_frame *) = {handle_cpu, handle_cuda};
    void *at[2];

    (void)module, (void)unused;
    memcpy(at, handlers, sizeof at); /* C has no cast from functions to objects */
    return Py_BuildValue("{s:N,s:N}", "cpu", PyCapsule_New(at[0], NULL, NULL), "CUDA",
                         PyCapsule_New(at[1], NULL, NULL));
}
