/*
 * cuda_kron_factors.c - the factors of solves and determinants of Kronecker products: see
 * cuda_kron_solve.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron_solve.h"

void cuda_kron_factors_open(struct cuda_kron_factors *s, const struct gram_batch *batch,
                            const struct gram_view *views, int count, int64_t order)
{
    size_t ints = 0;

    *s = (struct cuda_kron_factors){.batch = batch, .count = count, .order = order};
    for (int i = 0; i < count; i++) {
        struct cuda_kron_factor *f = &s->factor[i];
        f->view = &views[i];
        f->own = cuda_kron_own(batch, &views[i]);
        f->code_at = ints * sizeof(int);
        ints += (size_t)f->own.count;
    }
    s->codes_bytes = gram_round64(ints * sizeof(int));
    s->bytes = 2 * s->codes_bytes;
}

void *cuda_kron_at(const struct cuda_kron_factors *s, size_t at, void *otherwise)
{
    return s->memory ? s->memory + at : otherwise;
}

struct gram_view cuda_kron_code(const struct cuda_kron_factors *s, int i)
{
    const struct cuda_kron_factor *f = &s->factor[i];

    return cuda_kron_dense(cuda_kron_at(s, s->codes_at + f->code_at, f->view->data), GRAM_I32,
                           &f->own, 1, 1);
}

void cuda_kron_factors_params(const struct cuda_kron_factors *s, struct kron_solve_params *p)
{
    *p = (struct kron_solve_params){.items = s->batch->count,
                                    .count = s->count,
                                    .order = s->order,
                                    .found = (long long)(s->codes_bytes / sizeof(int))};
    cuda_kron_put_batch(s->batch, &p->ndim, p->shape);
    for (int i = 0; i < s->count; i++) {
        const struct gram_view code = cuda_kron_code(s, i);
        p->factor[i] = cuda_kron_side(s->factor[i].view);
        p->n[i] = s->factor[i].view->rows;
        p->code[i] = cuda_kron_side(&code);
    }
}

gram_status cuda_kron_scan(gram_context *g, const struct cuda_kron_factors *s, int triangle)
{
    const struct cuda_device *device = g->device;
    char *codes = cuda_kron_at(s, s->codes_at, NULL);
    struct kron_solve_params all;

    TRY(gram_cuda_check(g, device->driver,
                        device->driver->memory_set((CUdeviceptr)(uintptr_t)codes, 0,
                                                   2 * s->codes_bytes, device->stream),
                        "cuMemsetD8Async"));
    cuda_kron_factors_params(s, &all);
    for (int i = 0; i < s->count; i++) {
        struct kron_solve_params p = {.items = s->factor[i].own.count,
                                      .count = 1,
                                      .factor = {all.factor[i]},
                                      .n = {all.n[i]},
                                      .code = {all.code[i]},
                                      .triangle = triangle,
                                      .found = all.found};
        cuda_kron_put_batch(&s->factor[i].own, &p.ndim, p.shape);
        TRY(gram_cuda_launch_plain(g, CUDA_VARIANT_KRON_SOLVE_SCAN, s->factor[i].view->dtype,
                                   gram_ceil_div(p.n[0] * p.n[0], KRON_SOLVE_PART) * p.items,
                                   KRON_SOLVE_THREADS, &p));
    }
    return GRAM_OK;
}
