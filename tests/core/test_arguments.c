/*
 * test_arguments.c - every operation refuses tensors that it cannot take
 *
 * Each mutation of the table is tried on every tensor of every operation.
 *
 * SPDX-License-Identifier: MIT
 */
#include "arguments.h"
#include <string.h>

static void set_dtype_0(gram_tensor *t)
{
    t->dtype = (gram_dtype)0;
}
static void set_dtype_99(gram_tensor *t)
{
    t->dtype = (gram_dtype)99;
}
static void set_other_dtype(gram_tensor *t)
{
    t->dtype = t->dtype == GRAM_F32 ? GRAM_I64 : GRAM_F32;
}
static void set_double(gram_tensor *t)
{
    t->dtype = GRAM_F64;
}
static void set_half(gram_tensor *t)
{
    t->dtype = GRAM_F16;
}
static void set_device(gram_tensor *t)
{
    t->device = (gram_device){GRAM_CUDA, 0};
}
static void set_device_index(gram_tensor *t)
{
    t->device.index = 1;
}
static void set_ndim_negative(gram_tensor *t)
{
    t->ndim = -1;
}
static void set_ndim_9(gram_tensor *t)
{
    t->ndim = 9;
}
static void set_no_data(gram_tensor *t)
{
    t->data = NULL;
}
static void set_negative(gram_tensor *t)
{
    t->shape[t->ndim - 1] = -1;
}
static void set_longer(gram_tensor *t)
{
    t->shape[t->ndim - 1]++;
}
static void set_taller(gram_tensor *t)
{
    t->shape[0]++;
}
static void set_overflow(gram_tensor *t)
{
    t->shape[0] = INT64_MAX / 2, t->shape[t->ndim - 1] = 7;
}
static void set_overflow_bytes(gram_tensor *t)
{
    t->shape[0] = INT64_MAX / 8;
    t->stride[0] = 4;
}
static void set_overflow_stride(gram_tensor *t)
{
    t->stride[0] = INT64_MAX / 2;
}
static void set_batch(gram_tensor *t)
{
    memmove(t->shape + 1, t->shape, 7 * sizeof *t->shape);
    memmove(t->stride + 1, t->stride, 7 * sizeof *t->stride);
    t->shape[0] = 7, t->stride[0] = 0;
    t->ndim++;
}
static void set_repeated(gram_tensor *t)
{
    t->stride[0] = 0;
}
static void set_interleaved(gram_tensor *t)
{
    t->stride[0] = 1, t->stride[t->ndim - 1] = 1;
}

enum kind {
    ANY,
    MATRIX, /* has a dimension */
    OUTPUT, /* a matrix that is written */
};

static const struct mutation {
    const char *what;
    void (*apply)(gram_tensor *t);
    enum kind kind;
    bool names_other; /* the message may name another argument that it does not fit */
} mutations[] = {
    {          "has dtype 0",         set_dtype_0,    ANY, false},
    {         "has dtype 99",        set_dtype_99,    ANY, false},
    {    "has another dtype",     set_other_dtype,    ANY,  true},
    {               "is f64",          set_double,    ANY,  true},
    {               "is f16",            set_half,    ANY,  true},
    {  "is on a CUDA device",          set_device,    ANY, false},
    { "is on another device",    set_device_index,    ANY, false},
    {    "has -1 dimensions",   set_ndim_negative,    ANY, false},
    {     "has 9 dimensions",          set_ndim_9,    ANY, false},
    {          "has no data",         set_no_data,    ANY, false},
    {  "has a negative size",        set_negative, MATRIX, false},
    {          "is too long",          set_longer, MATRIX,  true},
    {          "is too tall",          set_taller, MATRIX,  true},
    {            "overflows",        set_overflow, MATRIX, false},
    {   "overflows in bytes",  set_overflow_bytes, MATRIX,  true},
    {"overflows by a stride", set_overflow_stride, MATRIX, false},
    {"has a repeated output",        set_repeated, OUTPUT, false},
    {       "is interleaved",     set_interleaved, OUTPUT, false},
    {     "has a batch of 7",           set_batch, OUTPUT, false},
};

static bool applies(const struct tensor_spec *s, const struct mutation *m)
{
    if (s->alone && (m->apply == set_half || m->apply == set_longer))
        return false;
    if (s->first_alone && m->apply == set_taller)
        return false;
    if (m->kind == ANY)
        return true;
    return s->ndim >= 1 && (m->kind == MATRIX || (s->output && s->ndim >= 2));
}

static void every_tensor_of_every_operation(struct harness *h)
{
    for (int n = 0; operations[n].name; n++) {
        const struct operation *o = &operations[n];
        struct tensor_spec s;
        struct arguments a;
        make_valid(o, &a);
        CHECK(h, o->call(h->g, &a) == GRAM_OK, "%s", gram_message(h->g));
        for (int i = 0; tensor_spec_read(o, i, &s); i++) {
            for (int m = 0; m < LENGTH(mutations); m++) {
                make_valid(o, &a);
                if (!applies(&s, &mutations[m]))
                    continue;
                mutations[m].apply(&a.t[i]);
                refuses(h, o, &a, mutations[m].names_other ? "" : s.name, mutations[m].what);
            }
            make_valid(o, &a);
            a.arg[i] = NULL;
            if (!s.optional)
                refuses(h, o, &a, s.name, "is NULL");
        }
    }
}

static void try_overlap(struct harness *h, const struct operation *o, int out, int in)
{
    struct tensor_spec s;
    struct arguments a;

    make_valid(o, &a);
    if (!tensor_spec_read(o, out, &s) || !s.output)
        return;
    a.t[out].data = (float *)a.t[in].data + test_count(&a.t[in]) - 1;
    refuses(h, o, &a, s.name, "begins where another one ends");
    a.t[out].data = (float *)a.t[in].data - (test_count(&a.t[out]) - 1);
    if (in > 0)
        refuses(h, o, &a, s.name, "ends where another one begins");
}

static void outputs_that_overlap_inputs(struct harness *h)
{
    for (int n = 0; operations[n].name; n++)
        for (int out = 0; out < MAX_ARGUMENTS && operations[n].tensors[out]; out++)
            for (int in = 0; in < MAX_ARGUMENTS && operations[n].tensors[in]; in++)
                if (in != out)
                    try_overlap(h, &operations[n], out, in);
}

static const struct test_function tests[] = {
    {"every_tensor_of_every_operation", every_tensor_of_every_operation},
    {    "outputs_that_overlap_inputs",     outputs_that_overlap_inputs},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
