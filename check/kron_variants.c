/*
 * kron_variants.c - the variants of kron_variants.h
 *
 *   naive     the sums of the definition, in double
 *   explicit  the Kronecker product written out, then one matrix product
 *   shuffle   for each factor a matrix product and a transposition, as GPyTorch has it; its
 * backward pass goes back through what the forward one kept gram      gram_kron_matmul and
 * gram_kron_matmul_vjp
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_variants.h"
#include "check/reference/reference.h"
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ELEMENTS = 1 << 26, /* of a product that is written out */
};
static const double most_terms = 4e9; /* of naive sums: a minute */

static gram_tensor turned(gram_tensor t)
{
    gram_tensor turned = t;

    turned.shape[0] = t.shape[1], turned.shape[1] = t.shape[0];
    turned.stride[0] = t.stride[1], turned.stride[1] = t.stride[0];
    return turned;
}

/* From the right. */
static gram_tensor view(const struct kron_problem *p, const gram_tensor *t)
{
    return p->side == GRAM_LEFT ? turned(*t) : *t;
}

static bool any_size(const struct kron_problem *p)
{
    (void)p;
    return true;
}

/* ---- naive --------------------------------------------------------------------------------- */

static bool fits_naive(const struct kron_problem *p)
{
    return (double)p->m * (double)p->k * (double)p->j * (p->count + 1) < most_terms;
}

static double factors_at(const struct kron_problem *p, int64_t k, int64_t j)
{
    double value = 1;

    for (int f = p->count - 1; f >= 0; f--) {
        gram_tensor factor = view(p, &p->factor[f]);
        value *= test_get(&factor, (int64_t[]){k % p->p[f], j % p->q[f]});
        k /= p->p[f], j /= p->q[f];
    }
    return value;
}

static gram_status naive_forward(gram_context *g, const struct kron_problem *p,
                                 struct kron_result *out)
{
    gram_tensor x = view(p, &p->x), y = view(p, &out->y);
    double *column = malloc((size_t)(p->k + 1) * sizeof *column);

    (void)g;
    if (!column)
        return GRAM_OUT_OF_MEMORY;
    for (int64_t j = 0; j < p->j; j++) {
        for (int64_t k = 0; k < p->k; k++)
            column[k] = factors_at(p, k, j);
        for (int64_t m = 0; m < p->m; m++) {
            double sum = 0;
            for (int64_t k = 0; k < p->k; k++)
                sum += test_get(&x, (int64_t[]){m, k}) * column[k];
            test_set(&y, (int64_t[]){m, j}, sum);
        }
    }
    free(column);
    return GRAM_OK;
}

/* A matrix from the right as doubles, or zeros for its gradient. */
static double *doubles(const gram_tensor *t, bool zeros)
{
    int64_t cols = t->shape[1], count = test_count(t);
    double *values = calloc((size_t)count + 1, sizeof *values);

    for (int64_t e = 0; values && !zeros && e < count; e++)
        values[e] = test_get(t, (int64_t[]){e / cols, e % cols});
    return values;
}

/* Rounds values to a gradient and frees them. */
static void round_to(gram_tensor t, double *values)
{
    int64_t cols = t.shape[1];

    for (int64_t e = 0; e < test_count(&t); e++)
        test_set(&t, (int64_t[]){e / cols, e % cols}, values[e]);
    free(values);
}

static gram_status naive_backward(gram_context *g, const struct kron_problem *p,
                                  struct kron_result *out)
{
    gram_tensor x = view(p, &p->x), grad = view(p, &p->grad);
    double *from[GRAM_MAX_FACTORS], *to[GRAM_MAX_FACTORS], *to_x = doubles(&x, true);
    struct reference_kron_vjp in = {.count = p->count, .rows = p->m, .alpha = 1};
    double *x_values = doubles(&x, false), *grad_values = doubles(&grad, false);
    bool there = to_x && x_values && grad_values;

    (void)g;
    for (int i = 0; i < p->count; i++) {
        gram_tensor factor = view(p, &p->factor[i]);
        from[i] = doubles(&factor, false), to[i] = doubles(&factor, true);
        in.factor[i] = from[i], in.size[i][0] = p->p[i], in.size[i][1] = p->q[i];
        there = there && from[i] && to[i];
    }
    in.x = x_values, in.grad = grad_values;
    if (there)
        reference_kron_matmul_vjp(&in, to_x, to);
    for (int i = 0; i < p->count; i++) {
        if (there)
            round_to(view(p, &out->factor[i]), to[i]);
        else
            free(to[i]);
        free(from[i]);
    }
    if (there)
        round_to(view(p, &out->x), to_x);
    else
        free(to_x);
    free(x_values);
    free(grad_values);
    return there ? GRAM_OK : GRAM_OUT_OF_MEMORY;
}

/* ---- explicit ------------------------------------------------------------------------------ */

static bool fits_explicit(const struct kron_problem *p)
{
    return p->k == 0 || p->j <= MOST_ELEMENTS / p->k;
}

static void *keep(void **kept, int64_t elements, gram_dtype dtype)
{
    if (!*kept)
        *kept = malloc((size_t)elements * gram_dtype_size(dtype) + 1);
    return *kept;
}

static gram_kron_options options_of(const struct kron_problem *p)
{
    gram_kron_options options = GRAM_KRON_OPTIONS_INIT;

    options.side = p->side;
    return options;
}

static void list_factors(const struct kron_problem *p, const gram_tensor **factors)
{
    for (int i = 0; i < p->count; i++)
        factors[i] = &p->factor[i];
}

/* The product as it stands in the formula. */
static gram_tensor whole(const struct kron_problem *p, void *memory)
{
    bool left = p->side == GRAM_LEFT;

    return gram_matrix(memory, left ? p->j : p->k, left ? p->k : p->j, p->dtype);
}

static gram_status explicit_forward(gram_context *g, const struct kron_problem *p,
                                    struct kron_result *out)
{
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    gram_kron_options options = options_of(p);
    gram_tensor product = whole(p, keep(&out->kept[0], p->k * p->j, p->dtype));
    gram_status status;

    list_factors(p, factors);
    if (!product.data)
        return GRAM_OUT_OF_MEMORY;
    status = gram_kron(g, factors, p->count, &product);
    if (status != GRAM_OK)
        return status;
    return gram_kron_matmul(g, &p->x, (const gram_tensor *[]){&product}, 1, &options, &out->y);
}

/* The gradient of a factor from that of the product: a sum over all other indices. */
static gram_status collect(const struct kron_problem *p, const gram_tensor *of_product, int f,
                           gram_tensor to)
{
    double *sum = doubles(&to, true);

    if (!sum)
        return GRAM_OUT_OF_MEMORY;
    for (int64_t e = 0; e < p->k * p->j; e++) {
        int64_t k = e / p->j, j = e % p->j, at = 0;
        double value = test_get(of_product, (int64_t[]){k, j});
        for (int i = p->count - 1; i >= 0; i--) {
            gram_tensor factor = view(p, &p->factor[i]);
            if (i == f)
                at = k % p->p[i] * p->q[i] + j % p->q[i];
            else
                value *= test_get(&factor, (int64_t[]){k % p->p[i], j % p->q[i]});
            k /= p->p[i], j /= p->q[i];
        }
        sum[at] += value;
    }
    round_to(to, sum);
    return GRAM_OK;
}

static gram_status explicit_backward(gram_context *g, const struct kron_problem *p,
                                     struct kron_result *out)
{
    gram_kron_options options = options_of(p);
    gram_tensor product = whole(p, out->kept[0]);
    gram_tensor to = whole(p, keep(&out->kept[1], p->k * p->j, p->dtype)),
                from_right = view(p, &to);
    const gram_kron_grads grads = {.x = &out->x, .factors = (gram_tensor *[]){&to}};
    gram_status status;

    if (!to.data)
        return GRAM_OUT_OF_MEMORY;
    status = gram_kron_matmul_vjp(g, &p->x, (const gram_tensor *[]){&product}, 1, &options,
                                  &p->grad, &grads);
    for (int i = 0; status == GRAM_OK && i < p->count; i++)
        status = collect(p, &from_right, i, view(p, &out->factor[i]));
    return status;
}

/* ---- shuffle ------------------------------------------------------------------------------- */

/* to = from with any strides, a tile at a time. */
static void copy(const gram_tensor *from, const gram_tensor *to)
{
    size_t size = gram_dtype_size(from->dtype);
    const int64_t tile = 16;

    for (int64_t top = 0; top < from->shape[0]; top += tile)
        for (int64_t left = 0; left < from->shape[1]; left += tile)
            for (int64_t i = top; i < top + tile && i < from->shape[0]; i++)
                for (int64_t j = left; j < left + tile && j < from->shape[1]; j++)
                    memcpy((char *)to->data +
                               (i * to->stride[0] + j * to->stride[1]) * (int64_t)size,
                           (const char *)from->data +
                               (i * from->stride[0] + j * from->stride[1]) * (int64_t)size,
                           size);
}

/* Elements of step i, before factor i is applied; i = -1: of the result. */
static int64_t elements_at(const struct kron_problem *p, int i)
{
    int64_t all = p->m;

    for (int f = 0; f < p->count; f++)
        all *= f <= i ? p->p[f] : p->q[f];
    return all;
}

/* Before factor i: rows of p[i]; kept[i + 1], and the result at kept[0]. */
static gram_tensor step_at(const struct kron_problem *p, struct kron_result *out, int i)
{
    int64_t last = i < 0 ? p->m : p->p[i], all = elements_at(p, i);

    return gram_matrix(keep(&out->kept[i + 1], all, p->dtype), last > 0 ? all / last : 0, last,
                       p->dtype);
}

static gram_status shuffle_forward(gram_context *g, const struct kron_problem *p,
                                   struct kron_result *out)
{
    gram_tensor x = view(p, &p->x), y = turned(view(p, &out->y));
    gram_tensor in =
        gram_matrix(keep(&out->kept[p->count], p->m * p->k, p->dtype), p->m, p->k, p->dtype);
    gram_status status = in.data ? GRAM_OK : GRAM_OUT_OF_MEMORY;

    if (in.data)
        copy(&x, &in);
    for (int i = p->count - 1; status == GRAM_OK && i >= 0; i--) {
        gram_tensor from = step_at(p, out, i), next = step_at(p, out, i - 1), to, back;
        gram_tensor factor = view(p, &p->factor[i]);
        if (!from.data || !next.data)
            return GRAM_OUT_OF_MEMORY;
        to = gram_matrix(malloc((size_t)(from.shape[0] * p->q[i]) * gram_dtype_size(p->dtype) + 1),
                         from.shape[0], p->q[i], p->dtype);
        status = to.data
                     ? gram_kron_matmul(g, &from, (const gram_tensor *[]){&factor}, 1, NULL, &to)
                     : GRAM_OUT_OF_MEMORY;
        back = turned(gram_matrix(next.data, p->q[i], from.shape[0], p->dtype));
        if (status == GRAM_OK)
            copy(&to, &back);
        free(to.data);
    }
    in = gram_matrix(out->kept[0], p->j, p->m, p->dtype);
    if (status == GRAM_OK)
        copy(&in, &y);
    return status;
}

static gram_status shuffle_backward(gram_context *g, const struct kron_problem *p,
                                    struct kron_result *out)
{
    gram_tensor to_x = view(p, &out->x), grad = turned(view(p, &p->grad));
    size_t size = gram_dtype_size(p->dtype), most = 1;
    gram_status status = GRAM_OK;
    gram_tensor first, result;
    char *now, *turn;

    for (int i = -1; i < p->count; i++)
        most = (size_t)elements_at(p, i) > most ? (size_t)elements_at(p, i) : most;
    now = malloc(2 * most * size);
    if (!now)
        return GRAM_OUT_OF_MEMORY;
    turn = now + most * size;
    first = gram_matrix(now, p->j, p->m, p->dtype);
    copy(&grad, &first);
    for (int i = 0; status == GRAM_OK && i < p->count; i++) {
        gram_tensor x = step_at(p, out, i), factor = view(p, &p->factor[i]);
        gram_tensor from = turned(gram_matrix(now, p->q[i], x.shape[0], p->dtype));
        gram_tensor of_y = gram_matrix(turn, x.shape[0], p->q[i], p->dtype);
        gram_tensor of_x = gram_matrix(now, x.shape[0], p->p[i], p->dtype);
        gram_tensor of_factor = view(p, &out->factor[i]);
        const gram_kron_grads grads = {.x = &of_x, .factors = (gram_tensor *[]){&of_factor}};
        copy(&from, &of_y);
        status =
            gram_kron_matmul_vjp(g, &x, (const gram_tensor *[]){&factor}, 1, NULL, &of_y, &grads);
    }
    result = gram_matrix(now, p->m, p->k, p->dtype);
    if (status == GRAM_OK)
        copy(&result, &to_x);
    free(now);
    return status;
}

/* ---- gram ---------------------------------------------------------------------------------- */

static gram_status gram_forward(gram_context *g, const struct kron_problem *p,
                                struct kron_result *out)
{
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    gram_kron_options options = options_of(p);

    list_factors(p, factors);
    return gram_kron_matmul(g, &p->x, factors, p->count, &options, &out->y);
}

static gram_status gram_backward(gram_context *g, const struct kron_problem *p,
                                 struct kron_result *out)
{
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    gram_tensor *to[GRAM_MAX_FACTORS];
    gram_kron_options options = options_of(p);
    const gram_kron_grads grads = {.x = &out->x, .factors = to};

    list_factors(p, factors);
    for (int i = 0; i < p->count; i++)
        to[i] = &out->factor[i];
    return gram_kron_matmul_vjp(g, &p->x, factors, p->count, &options, &p->grad, &grads);
}

const struct kron_variant kron_variants[] = {
    {   "naive",    naive_forward,    naive_backward,    fits_naive},
    {"explicit", explicit_forward, explicit_backward, fits_explicit},
    { "shuffle",  shuffle_forward,  shuffle_backward,      any_size},
    {    "gram",     gram_forward,     gram_backward,      any_size},
    {      NULL,             NULL,              NULL,          NULL},
};

const struct kron_variant *find_kron_variant(const char *name)
{
    for (int i = 0; kron_variants[i].name; i++)
        if (strcmp(kron_variants[i].name, name) == 0)
            return &kron_variants[i];
    return NULL;
}
