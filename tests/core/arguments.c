/*
 * arguments.c - see arguments.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "arguments.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static gram_status call_cdist(gram_context *g, struct arguments *a)
{
    return gram_cdist(g, a->arg[0], a->arg[1], a->p, &a->cdist, a->arg[2]);
}

static gram_status call_kernel(gram_context *g, struct arguments *a)
{
    return gram_kernel(g, a->arg[0], a->arg[1], a->kernel_options, a->arg[2]);
}

static gram_status call_median(gram_context *g, struct arguments *a)
{
    return gram_median_distance(g, a->arg[0], a->p, &a->median, a->arg[1]);
}

static gram_status call_nearest(gram_context *g, struct arguments *a)
{
    return gram_nearest(g, a->arg[0], a->arg[1], a->p, &a->nearest, a->arg[2], a->arg[3]);
}

static gram_status call_reduce(gram_context *g, struct arguments *a)
{
    return gram_kernel_reduce(g, a->arg[0], a->arg[1], a->kernel_options, GRAM_REDUCE_MIN, NULL,
                              &a->reduce, a->arg[2], a->arg[3]);
}

static gram_status call_matmul(gram_context *g, struct arguments *a)
{
    return gram_kernel_matmul(g, a->arg[0], a->arg[1], a->kernel_options, a->arg[2], &a->matmul,
                              a->arg[3]);
}

static gram_status call_vjp(gram_context *g, struct arguments *a)
{
    gram_kernel_grads grads = {.x = a->arg[3], .y = a->arg[4]};

    return gram_kernel_vjp(g, a->arg[0], a->arg[1], a->kernel_options, a->arg[2], &grads);
}

static gram_status call_matmul_vjp(gram_context *g, struct arguments *a)
{
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;

    grads.x = a->arg[4], grads.v = a->arg[5];
    return gram_kernel_matmul_vjp(g, a->arg[0], a->arg[1], a->kernel_options, a->arg[2], a->arg[3],
                                  &grads);
}

static gram_status call_reduce_vjp(gram_context *g, struct arguments *a)
{
    gram_kernel_reduce_grads grads = GRAM_KERNEL_REDUCE_GRADS_INIT;

    grads.x = a->arg[4], grads.v = a->arg[5];
    return gram_kernel_reduce_vjp(g, a->arg[0], a->arg[1], a->kernel_options, GRAM_REDUCE_SOFTMAX,
                                  a->arg[2], &a->reduce, a->arg[3], &grads);
}

static gram_status call_cdist_grad(gram_context *g, struct arguments *a)
{
    return gram_cdist_grad(g, a->arg[0], a->arg[1], a->arg[2], a->arg[3], a->p, a->arg[4]);
}

static gram_status call_agop(gram_context *g, struct arguments *a)
{
    return gram_agop(g, a->arg[0], a->arg[1], a->arg[2], a->arg[3], a->p, &a->agop, a->arg[4]);
}

static gram_status call_cholesky(gram_context *g, struct arguments *a)
{
    return gram_solve_cholesky(g, a->arg[0], a->arg[1], &a->solve, a->arg[2], a->arg[3]);
}

static gram_status call_lu(gram_context *g, struct arguments *a)
{
    return gram_solve_lu(g, a->arg[0], a->arg[1], &a->solve, a->arg[2], a->arg[3]);
}

static gram_status call_eigh(gram_context *g, struct arguments *a)
{
    return gram_eigh(g, a->arg[0], NULL, a->arg[1], a->arg[2], a->arg[3]);
}

static gram_status call_kron(gram_context *g, struct arguments *a)
{
    return gram_kron(g, (const gram_tensor *[]){a->arg[0], a->arg[1]}, 2, a->arg[2]);
}

static gram_status call_kron_matmul(gram_context *g, struct arguments *a)
{
    gram_kron_options options = GRAM_KRON_OPTIONS_INIT;

    options.beta = gram_number(1);
    options.z = a->arg[3];
    return gram_kron_matmul(g, a->arg[0], (const gram_tensor *[]){a->arg[1], a->arg[2]}, 2,
                            &options, a->arg[4]);
}

static gram_status call_kron_matmul_vjp(gram_context *g, struct arguments *a)
{
    const gram_kron_grads grads = {.x = a->arg[3], .factors = &a->arg[4]};

    return gram_kron_matmul_vjp(g, a->arg[0], (const gram_tensor *[]){a->arg[1]}, 1, NULL,
                                a->arg[2], &grads);
}

static gram_status call_power(gram_context *g, struct arguments *a)
{
    return gram_matrix_power(g, a->arg[0], &a->power, a->arg[1], a->arg[2]);
}

static gram_status call_krr_path(gram_context *g, struct arguments *a)
{
    return gram_krr_path(g, a->arg[0], a->arg[1], a->ridges, 2, &a->path, a->arg[2], a->arg[3]);
}

static gram_status call_kron_diagonal(gram_context *g, struct arguments *a)
{
    return gram_kron_diagonal(g, (const gram_tensor *[]){a->arg[0], a->arg[1]}, 2, a->arg[2]);
}

static gram_status call_kron_trace(gram_context *g, struct arguments *a)
{
    return gram_kron_trace(g, (const gram_tensor *[]){a->arg[0]}, 1, a->arg[1]);
}

static gram_status call_kron_logdet(gram_context *g, struct arguments *a)
{
    return gram_kron_logdet(g, (const gram_tensor *[]){a->arg[0]}, 1, a->arg[1], a->arg[2]);
}

static gram_status call_kron_solve(gram_context *g, struct arguments *a)
{
    return gram_kron_solve(g, (const gram_tensor *[]){a->arg[0]}, 1, a->arg[1], NULL, a->arg[2],
                           a->arg[3]);
}

const struct operation operations[] = {
    {            "gram_cdist",call_cdist,                                  {"x 4 3", "y? 5 3", "out! 4 5"}                              },
    {           "gram_kernel",        call_kernel,                                  {"x 4 3", "y? 5 3", "out! 4 5"}},
    {  "gram_median_distance",        call_median,                                           {"x~ 2 4 3", "out! 2"}},
    {          "gram_nearest",       call_nearest,         {"x 4 3", "y?^ 5 3", "indices!? 4 2", "distances!? 4 2"}},
    {    "gram_kernel_reduce",        call_reduce,                   {"x 4 3", "y?^ 5 3", "out!? 4", "indices!? 4"}},
    {    "gram_kernel_matmul",        call_matmul,                         {"x 4 3", "y? 5 3", "v 5 2", "out! 4 2"}},
    {       "gram_kernel_vjp",           call_vjp,            {"x 4 3", "y? 5 3", "grad 4 5", "x!? 4 3", "y!? 5 3"}},
    {"gram_kernel_matmul_vjp",
     call_matmul_vjp,   {"x 4 3", "y? 5 3", "v 5 2", "grad 4 2", "x!? 4 3", "v!? 5 2"}                             },
    {"gram_kernel_reduce_vjp",
     call_reduce_vjp,   {"x 4 3", "y? 5 3", "v 5 2", "grad 4 2", "x!? 4 3", "v!? 5 2"}                             },
    {       "gram_cdist_grad",    call_cdist_grad,               {"a 6 4", "b 3 6", "c 2 6", "d 3 4", "out! 2 3 4"}},
    {             "gram_agop",          call_agop,                {"a 6 4", "b 3 6", "c^ 2 6", "d 3 4", "out! 3 3"}},
    {   "gram_solve_cholesky",      call_cholesky,                           {"a 4 4", "b 4 2", "x! 4 2", "info!?"}},
    {         "gram_solve_lu",            call_lu,                           {"a 4 4", "b 4 2", "x! 4 2", "info!?"}},
    {             "gram_eigh",          call_eigh,                {"a 4 4", "values! 4", "vectors!? 4 4", "info!?"}},
    {     "gram_matrix_power",         call_power,                                  {"a 4 4", "out! 4 4", "info!?"}},
    {         "gram_krr_path",      call_krr_path,                       {"k 4 4", "y 4 2", "loo! 2 4 2", "info!?"}},
    {             "gram_kron",          call_kron,                       {"factors 2 3", "factors 4 2", "out! 8 6"}},
    {      "gram_kron_matmul",
     call_kron_matmul,       {"x 3 8", "factors 2 3", "factors 4 2", "z 3 6", "y! 3 6"}                            },
    {  "gram_kron_matmul_vjp",
     call_kron_matmul_vjp, {"x 4 3", "factors 3 2", "grad 4 2", "x!? 4 3", "factors!? 3 2"}                        },
    {    "gram_kron_diagonal", call_kron_diagonal,                         {"factors 2 2", "factors 3 3", "out! 6"}},
    {       "gram_kron_trace",    call_kron_trace,                                          {"factors 3 3", "out!"}},
    {      "gram_kron_logdet",   call_kron_logdet,                                {"factors 3 3", "sign!?", "out!"}},
    {       "gram_kron_solve",    call_kron_solve,                     {"factors 3 3", "b 2 3", "x! 2 3", "info!?"}},
    {                    NULL,               NULL,                                                           {NULL}},
};

bool tensor_spec_read(const struct operation *o, int i, struct tensor_spec *s)
{
    const char *text = i < MAX_ARGUMENTS ? o->tensors[i] : NULL;
    size_t length;

    *s = (struct tensor_spec){.ndim = 0};
    if (!text)
        return false;
    length = strcspn(text, "!?~^ ");
    memcpy(s->name, text, length);
    s->output = strchr(text, '!') != NULL;
    s->optional = strchr(text, '?') != NULL;
    s->alone = strchr(text, '~') != NULL;
    s->first_alone = strchr(text, '^') != NULL;
    for (text += strcspn(text, " "); *text; text += strcspn(text + 1, " ") + 1)
        s->shape[s->ndim++] = strtol(text + 1, NULL, 10);
    return true;
}

enum {
    BYTES = 4096 /* behind each tensor: more than any of them needs */
};
static _Alignas(64) unsigned char memory[MAX_ARGUMENTS][BYTES];

void make_valid(const struct operation *o, struct arguments *a)
{
    struct tensor_spec s;

    *a = (struct arguments){
        .p = gram_number(1.5),
        .kernel = GRAM_KERNEL_OPTIONS_INIT,
        .cdist = GRAM_CDIST_OPTIONS_INIT,
        .median = GRAM_MEDIAN_OPTIONS_INIT,
        .nearest = GRAM_NEAREST_OPTIONS_INIT,
        .reduce = GRAM_KERNEL_REDUCE_OPTIONS_INIT,
        .agop = GRAM_AGOP_OPTIONS_INIT,
        .matmul = GRAM_KERNEL_MATMUL_OPTIONS_INIT,
        .solve = GRAM_SOLVE_OPTIONS_INIT,
        .power = GRAM_MATRIX_POWER_OPTIONS_INIT,
        .path = GRAM_KRR_PATH_OPTIONS_INIT,
        .ridges = {0.5, 2},
    };
    a->kernel.function = GRAM_LAPLACE;
    a->kernel_options = &a->kernel;
    for (int i = 0; tensor_spec_read(o, i, &s); i++) {
        gram_tensor *t = a->arg[i] = &a->t[i];
        int64_t step = 1;
        t->data = memory[i];
        t->dtype = strcmp(s.name, "info") == 0      ? GRAM_I32
                   : strcmp(s.name, "indices") == 0 ? GRAM_I64
                                                    : GRAM_F32;
        t->ndim = s.ndim;
        for (int d = t->ndim - 1; d >= 0; d--) {
            t->shape[d] = s.shape[d];
            t->stride[d] = step;
            step *= t->shape[d];
        }
        for (int64_t e = 0, n = test_count(t); e < n; e++)
            test_put(t, e, e % 5 == 0 ? 9 : 0.25 * (double)(e % 7)); /* a: large diagonal */
    }
}

/* True if text has the word, not as a part of another one; an empty word is always there. */
static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);

    if (length == 0)
        return true;
    for (const char *at = text; (at = strstr(at, word)); at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length]))
            return true;
    return false;
}

void refuses(struct harness *h, const struct operation *o, struct arguments *a,
             const char *argument, const char *what)
{
    static unsigned char before[MAX_ARGUMENTS][BYTES];
    const char *message;
    gram_status status;

    memcpy(before, memory, sizeof memory);
    status = o->call(h->g, a);
    message = gram_message(h->g);
    CHECK(h, status == GRAM_INVALID_ARGUMENT, "%s, %s %s: %s \"%s\"", o->name, argument, what,
          gram_status_name(status), message);
    CHECK(h, memcmp(before, memory, sizeof memory) == 0, "%s, %s %s: memory was written", o->name,
          argument, what);
    if (status == GRAM_OK)
        return;
    CHECK(h, strncmp(message, o->name, strlen(o->name)) == 0, "\"%s\" of %s", message, o->name);
    CHECK(h, has_word(message + strlen(o->name), argument), "%s, %s %s: \"%s\" does not name it",
          o->name, argument, what, message);
}

const struct operation *operation_named(const char *name)
{
    for (int i = 0; operations[i].name; i++)
        if (strcmp(operations[i].name, name) == 0)
            return &operations[i];
    return NULL;
}
