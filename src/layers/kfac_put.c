/*
 * kfac_put.c - gram_kfac_put: a part of the state from the caller's numbers
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac.h"
#include <string.h>

/* True if a tensor has the dtype and shape of the view and lies on the CPU without gaps. */
static bool fits(const gram_tensor *t, const gram_tensor *view)
{
    bool same =
        t->dtype == view->dtype && t->ndim == view->ndim && t->data && t->device.type == GRAM_CPU;

    for (int i = 0; same && i < t->ndim; i++)
        same =
            t->shape[i] == view->shape[i] && (t->shape[i] < 2 || t->stride[i] == view->stride[i]);
    return same;
}

gram_status gram_kfac_put(gram_context *g, gram_kfac *kfac, int64_t index, const gram_tensor *part)
{
    const struct kfac_state *s;
    int64_t count = 1;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_kfac_check_context(g, kfac));
    if (index < 0 || index >= kfac->states || !part)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "index is %lld, expected 0 to %lld, and a part that is not NULL",
                         (long long)index, (long long)kfac->states - 1);
    s = &kfac->state[index];
    for (int i = 0; i < s->view.ndim; i++)
        count *= s->view.shape[i];
    if (!fits(part, &s->view))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "part is not %lld numbers of %s on the CPU, dense and shaped as %s is",
                         (long long)count, gram_dtype_name(s->view.dtype), s->name);
    if (part->dtype == GRAM_I64 ? !gram_kfac_counts_hold(part->data)
                                : !gram_kfac_finite(count, part->data, part->dtype, part->dtype))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "part makes no sense as %s", s->name);
    bytes = (size_t)count * gram_dtype_size(s->view.dtype);
    if (!kfac->owner) {
        memmove(s->view.data, part->data, bytes);
        return GRAM_OK;
    }
    TRY(g->backend->memory_copy(g, s->view.data, part->data, bytes));
    TRY(g->backend->synchronize(g));
    if (s->view.dtype == GRAM_I64) {
        int64_t layer = ((const int64_t *)s->view.data - kfac->layer_counts) / KFAC_COUNTS;
        memcpy(kfac->layer[layer].counts, part->data, bytes);
    }
    return GRAM_OK;
}
