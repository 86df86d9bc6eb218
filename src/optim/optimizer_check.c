/*
 * optimizer_check.c - the tensors of a step of an optimizer: shapes, dtypes, who overlaps whom
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "optimizer.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    NAME_BYTES = 48
};

/* A tensor of list name, which may be read, or is written. */
static gram_status check_one(gram_context *g, const struct gram_optimizer_parameter *p,
                             struct gram_optimizer_range *r)
{
    struct gram_batch batch = {.count = 1};
    struct gram_view view;
    const gram_tensor *t = r->tensor;
    char name[NAME_BYTES];

    (void)snprintf(name, sizeof name, "%s[%lld]", r->list, (long long)r->index);
    if (!t)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL", name);
    TRY(gram_batch_join(g, &batch, name, t, 0));
    if (t->dtype != GRAM_F32 && t->dtype != GRAM_F64 && t->dtype != GRAM_F16 &&
        t->dtype != GRAM_BF16)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s has dtype %s, expected f32, f64, f16 or bf16", name,
                         gram_dtype_name(t->dtype));
    if (t->ndim != p->ndim)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s has %d dimensions, the optimizer was created with %d", name,
                         (int)t->ndim, p->ndim);
    for (int i = 0; i < p->ndim; i++)
        if (t->shape[i] != p->shape[i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "%s has size %lld in dimension %d, the optimizer was created with "
                             "%lld",
                             name, (long long)t->shape[i], i, (long long)p->shape[i]);
    if (r->written)
        TRY(gram_view_of(g, &batch, name, t, 0, GRAM_WRITE, &view));
    gram_tensor_range(t, &r->low, &r->high);
    return GRAM_OK;
}

static int by_address(const void *a, const void *b)
{
    const struct gram_optimizer_range *x = a, *y = b;

    return x->low < y->low ? -1 : x->low > y->low;
}

/* A direction may be the gradient that it is made of. */
static bool may_meet(const struct gram_optimizer_range *a, const struct gram_optimizer_range *b)
{
    bool made_of = a->index == b->index && a->list != b->list &&
                   (a->list[0] == 'g' || b->list[0] == 'g') &&
                   (a->list[0] == 'd' || b->list[0] == 'd');

    return (!a->written && !b->written) || (made_of && gram_tensors_same(a->tensor, b->tensor)) ||
           !gram_tensors_overlap(a->tensor, b->tensor);
}

static gram_status check_apart(gram_context *g, struct gram_optimizer_range *range, size_t count)
{
    qsort(range, count, sizeof *range, by_address);
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count && range[j].low < range[i].high; j++)
            if (!may_meet(&range[i], &range[j])) {
                bool first = range[i].written;
                const struct gram_optimizer_range *a = &range[first ? i : j],
                                                  *b = &range[first ? j : i];
                return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s[%lld] overlaps %s[%lld] in memory",
                                 a->list, (long long)a->index, b->list, (long long)b->index);
            }
    return GRAM_OK;
}

static gram_status take(gram_context *g, const gram_optimizer *o, struct gram_optimizer_range r,
                        size_t *count)
{
    o->range[*count] = r;
    TRY(check_one(g, &o->parameter[r.index], &o->range[*count]));
    (*count)++;
    return GRAM_OK;
}

gram_status gram_optimizer_check(gram_context *g, const struct gram_optimizer_op *op)
{
    const gram_optimizer *o = op->optimizer;
    size_t count = 0;

    if (o->parameters > 0 && (!op->parameters || !op->gradients))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL, expected %lld tensors",
                         op->parameters ? "gradients" : "parameters", (long long)o->parameters);
    for (int64_t i = 0; i < o->parameters; i++) {
        struct gram_optimizer_range r = {.tensor = op->parameters[i],
                                         .list = "parameters",
                                         .index = i,
                                         .written = op->updated != NULL};
        TRY(take(g, o, r, &count));
        if (op->gradients[i]) {
            r = (struct gram_optimizer_range){
                .tensor = op->gradients[i], .list = "gradients", .index = i};
            TRY(take(g, o, r, &count));
        }
        if (op->directions && (op->directions[i] || op->gradients[i])) {
            r = (struct gram_optimizer_range){
                .tensor = op->directions[i], .list = "directions", .index = i, .written = true};
            TRY(take(g, o, r, &count));
        }
    }
    return check_apart(g, o->range, count);
}
