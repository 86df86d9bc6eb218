/*
 * cuda_kron_memo.c - the plans of the last products: making one takes longer than a launch
 *
 * A plan depends on sizes, strides, and how addresses are aligned.  Calls that agree in these share
 * a plan and the kernels that it has found.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron.h"
#include <string.h>

enum {
    KEPT = 8,
    ALIGNED = 16, /* bytes: addresses count modulo this */
};

struct entry {
    bool used;
    int choice;
    struct gram_kron_matmul_op op; /* its addresses count only modulo ALIGNED */
    struct cuda_kron_plan plan;
};

struct cuda_kron_memo {
    int next; /* the entry that is overwritten next */
    struct entry at[KEPT];
};

static bool same_alignment(const char *a, const char *b)
{
    return !a == !b && (uintptr_t)a % ALIGNED == (uintptr_t)b % ALIGNED;
}

static bool same_strides(const int64_t *a, const int64_t *b, int count)
{
    for (int d = 0; d < count; d++)
        if (a[d] != b[d])
            return false;
    return true;
}

static bool same_view(const struct gram_view *a, const struct gram_view *b, int ndim)
{
    if (!a->data && !b->data)
        return true;
    return a->dtype == b->dtype && a->rows == b->rows && a->cols == b->cols &&
           a->row_stride == b->row_stride && a->col_stride == b->col_stride &&
           same_alignment(a->data, b->data) && same_strides(a->batch_stride, b->batch_stride, ndim);
}

/* Numbers count with their values: alpha 1 and beta 0 have plans of their own. */
static bool same_number(const struct gram_hyper *a, const struct gram_hyper *b)
{
    return !a->tensor.data == !b->tensor.data && (a->tensor.data || a->value == b->value);
}

static bool same_op(const struct gram_kron_matmul_op *a, const struct gram_kron_matmul_op *b)
{
    const int ndim = a->batch.ndim;

    if (a->count != b->count || a->in_place != b->in_place || a->after != b->after ||
        ndim != b->batch.ndim || !same_strides(a->batch.shape, b->batch.shape, ndim) ||
        !same_view(&a->x, &b->x, ndim) || !same_view(&a->y, &b->y, ndim) ||
        !same_view(&a->z, &b->z, ndim) || !same_number(&a->alpha, &b->alpha) ||
        !same_number(&a->beta, &b->beta))
        return false;
    for (int f = 0; f < a->count; f++)
        if (!same_view(&a->factor[f], &b->factor[f], ndim))
            return false;
    return true;
}

struct cuda_kron_plan *cuda_kron_remembered(gram_context *g, const struct gram_kron_matmul_op *op,
                                            int choice)
{
    struct cuda_device *device = g->device;
    struct cuda_kron_memo *memo = device->kron;
    struct entry *entry;

    if (!memo) {
        memo = device->kron = gram_alloc(g, sizeof *memo);
        if (!memo) {
            (void)gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *memo);
            return NULL;
        }
        memset(memo, 0, sizeof *memo);
    }
    for (entry = memo->at; entry < memo->at + KEPT; entry++)
        if (entry->used && entry->choice == choice && same_op(&entry->op, op)) {
            cuda_kron_plan_of(op, &entry->plan);
            return &entry->plan;
        }
    entry = &memo->at[memo->next];
    memo->next = (memo->next + 1) % KEPT;
    entry->used = true, entry->choice = choice, entry->op = *op;
    cuda_kron_plan(device, op, choice, &entry->plan);
    return &entry->plan;
}

void cuda_kron_forget(gram_context *g, struct cuda_device *device)
{
    if (device->kron)
        gram_free(g, device->kron, sizeof *device->kron);
    device->kron = NULL;
}
