/*
 * cuda_krylov.c - the Krylov solver's tall matrices on the device
 *
 * Products for a restart are cuBLAS's, those of a step our own.  A step only queues until its
 * numbers, V^T W and what became of the new block, come to the host together: one wait a step.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_krylov.h"
#include "core/random.h"
#include "cuda_eigh.h"
#include <float.h>
#include <math.h>

static const struct cuda_kernel krylov_project = {"krylov_project.cu", "krylov_project"};
static const struct cuda_kernel krylov_subtract = {"krylov_project.cu", "krylov_subtract"};
static const struct cuda_kernel krylov_whiten = {"krylov_basis.cu", "krylov_whiten"};
static const struct cuda_kernel krylov_combine = {"krylov_basis.cu", "krylov_combine"};
static const struct cuda_kernel krylov_residual = {"krylov_basis.cu", "krylov_residual"};
static const struct cuda_kernel krylov_blend = {"krylov_basis.cu", "krylov_blend"};

enum {
    MOST_BLOCKS = 1 << 16 /* beyond these, blocks loop */
};

/* ---- Scratch --------------------------------------------------------------------------------- */

/* These come to the host together, where they lie as they do here. */
static void take_news(const struct krylov *z, struct cuda_krylov_news *news, struct gram_layout *l)
{
    const size_t b = (size_t)z->block, m = (size_t)z->most;

    gram_take_many(l, &news->column, m * b, z->element);
    gram_take_many(l, &news->gram, b * b, z->element);
    gram_take_many(l, &news->found, 2, sizeof(struct krylov_found));
}

/* W is two blocks, or what a restart makes of V. */
static void take(struct krylov *z, struct gram_layout *l)
{
    struct cuda_krylov *d = z->device;
    const size_t n = (size_t)z->n, b = (size_t)z->block, m = (size_t)z->most, k = (size_t)z->k;
    const size_t turned = (size_t)gram_most(2 * z->block, z->keep), size = z->element;

    gram_take_many(l, &z->v, n * m, size);
    gram_take_many(l, &z->q, n * b, size);
    gram_take_many(l, &z->w, n * turned, size);
    take_news(z, &d->news, l);
    gram_take_many(l, &d->column, m * b, size);
    gram_take_many(l, &d->other_gram, b * b, size);
    gram_take_many(l, &d->mix, b * b, size);
    gram_take_many(l, &d->rotation, m * (size_t)z->keep, size);
    gram_take_many(l, &d->residuals, 2 * b, sizeof(double));
    gram_take_many(l, &d->values, k, size);
    gram_take_many(l, &d->order, k, sizeof(int32_t));
}

void cuda_krylov_take_staging(struct krylov *z, struct gram_layout *l)
{
    struct cuda_krylov *d = z->device;
    struct gram_layout news = {0};

    take_news(z, &d->told, &news);
    d->news_bytes = gram_layout_bytes(&news);
    gram_take(l, &d->staging,
              gram_most_bytes(d->news_bytes, (size_t)(z->most * z->keep) * z->element));
}

void cuda_krylov_place_staging(struct krylov *z)
{
    struct cuda_krylov *d = z->device;
    struct gram_layout news = {0};

    take_news(z, &d->told, &news);
    gram_layout_place(&news, d->staging);
}

/* ---- Between host and device ----------------------------------------------------------------- */

static gram_status copy(const struct krylov *z, void *to, const void *from, size_t bytes)
{
    const struct cuda_device *device = z->g->device;

    return gram_cuda_check(z->g, device->driver,
                           device->driver->memory_copy((CUdeviceptr)(uintptr_t)to,
                                                       (CUdeviceptr)(uintptr_t)from, bytes,
                                                       device->stream),
                           "cuMemcpyAsync");
}

/* To the host: waits. */
static gram_status receive(const struct krylov *z, void *to, const void *from, size_t bytes)
{
    const struct cuda_device *device = z->g->device;

    TRY(copy(z, to, from, bytes));
    return gram_cuda_check(z->g, device->driver, device->driver->stream_synchronize(device->stream),
                           "cuStreamSynchronize");
}

static gram_status receive_news(struct krylov *z)
{
    struct cuda_krylov *d = z->device;

    TRY(receive(z, d->staging, d->news.column, d->news_bytes));
    d->fetched = true;
    return GRAM_OK;
}

static void widen(const struct krylov *z, const char *from, int64_t count, double *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = z->dtype == GRAM_F32 ? (double)((const float *)(const void *)from)[i]
                                     : ((const double *)(const void *)from)[i];
}

static gram_status fetch(struct krylov *z)
{
    const struct cuda_krylov *d = z->device;

    if (!d->fetched)
        TRY(receive_news(z));
    widen(z, d->told.column, z->dim * z->last, z->column);
    widen(z, d->told.gram, z->last * z->last, z->gram);
    return GRAM_OK;
}

gram_status cuda_krylov_send(struct krylov *z, const void *values, const int32_t *order)
{
    const struct cuda_krylov *d = z->device;

    TRY(copy(z, d->values, values, (size_t)z->k * z->element));
    return copy(z, d->order, order, (size_t)z->k * sizeof *order);
}

/* ---- Products with V ------------------------------------------------------------------------- */

/* h = V^T W for dim tall columns of V. */
static gram_status project(const struct krylov *z, const char *v, int64_t dim, int64_t cols,
                           void *h)
{
    struct krylov_project_params p = {z->n, dim, cols, v, z->w, h};

    if (dim == 0)
        return GRAM_OK;
    return cuda_launch_plain(z->g, &krylov_project, z->dtype, dim, KRYLOV_LONG, &p);
}

/* W -= V h for the first dim columns of V. */
static gram_status subtract(const struct krylov *z, int64_t dim, int64_t cols, void *h)
{
    struct krylov_project_params p = {z->n, dim, cols, z->v, z->w, h};

    if (dim == 0)
        return GRAM_OK;
    return cuda_launch_plain(z->g, &krylov_subtract, z->dtype,
                             gram_least(gram_ceil_div(z->n, 32), MOST_BLOCKS), KRYLOV_THREADS, &p);
}

/* W = V s for the first dim columns of V. */
static gram_status multiply_basis(const struct krylov *z, int64_t dim, int64_t cols, const char *s)
{
    const struct cuda_krylov *d = z->device;
    const struct cuda_gemm_items product = {
        .dtype = z->dtype,
        .compute = gram_cuda_compute_of(z->dtype),
        .m = z->n,
        .n = cols,
        .k = dim,
        .count = 1,
        .a = {.data = z->v, .ld = z->n},
        .b = {   .data = s,  .ld = dim},
        .c = z->w,
        .ldc = z->n,
        .alpha = 1,
    };

    return gram_cuda_gemm_items(z->g, d->blas, &product);
}

/* h = V^T W, W -= V h, gram = W^T W. */
static gram_status project_out(struct krylov *z, int64_t dim, int64_t cols, char *h, char *gram)
{
    TRY(project(z, z->v, dim, cols, h));
    TRY(subtract(z, dim, cols, h));
    return project(z, z->w, cols, cols, gram);
}

static gram_status project_block(struct krylov *z, int64_t dim, int64_t cols)
{
    struct cuda_krylov *d = z->device;

    d->has_gram = true;
    d->fetched = false;
    return project_out(z, dim, cols, d->news.column, d->news.gram);
}

static gram_status turn(struct krylov *z, int64_t dim, int64_t cols, const double *s)
{
    const struct cuda_krylov *d = z->device;

    for (int64_t c = 0; c < cols; c++)
        for (int64_t i = 0; i < dim; i++) {
            if (z->dtype == GRAM_F32)
                ((float *)(void *)d->staging)[c * dim + i] = (float)s[c * z->most + i];
            else
                ((double *)(void *)d->staging)[c * dim + i] = s[c * z->most + i];
        }
    TRY(copy(z, d->rotation, d->staging, (size_t)(dim * cols) * z->element));
    TRY(multiply_basis(z, dim, cols, d->rotation));
    return copy(z, z->v, z->w, (size_t)(z->n * cols) * z->element);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* Copies are queued on the stream like kernels: they read what the launches before them wrote. */
static gram_status append(struct krylov *z, int64_t at)
{
    return copy(z, z->v + (size_t)(at * z->n) * z->element, z->q,
                (size_t)(z->width * z->n) * z->element);
}

static gram_status extract(struct krylov *z, int64_t at, int64_t cols)
{
    return copy(z, z->q, z->v + (size_t)(at * z->n) * z->element,
                (size_t)(cols * z->n) * z->element);
}

static gram_status whiten(const struct krylov *z, const char *gram, struct krylov_found *found)
{
    double eps = z->dtype == GRAM_F32 ? FLT_EPSILON : DBL_EPSILON;
    const struct cuda_krylov *d = z->device;
    struct krylov_whiten_params p = {
        .columns = z->width,
        .gram = gram,
        .mix = d->mix,
        .found = found,
        .limit = 32 * (double)z->width * eps,
    };

    return cuda_launch_plain(z->g, &krylov_whiten, z->dtype, 1, KRYLOV_WARP, &p);
}

/* W becomes what found says, and Q too if it is wanted; found NULL: random. */
static gram_status combine(struct krylov *z, int64_t cols, const struct krylov_found *found,
                           void *other)
{
    struct cuda_krylov *d = z->device;
    struct krylov_combine_params p = {
        .n = z->n,
        .columns = cols,
        .w = z->w,
        .other = other,
        .mix = found ? d->mix : NULL,
        .found = found,
        .key = gram_random(&z->random),
    };
    int64_t blocks = gram_least(gram_ceil_div(z->n, KRYLOV_THREADS), MOST_BLOCKS);

    d->has_gram = false;
    return cuda_launch_plain(z->g, &krylov_combine, z->dtype, blocks, KRYLOV_THREADS, &p);
}

static gram_status fill_random(struct krylov *z, int64_t cols)
{
    return combine(z, cols, NULL, NULL);
}

/* One round; gives to the second of found what a later one than the first finds. */
static gram_status make_orthonormal(struct krylov *z, int64_t dim, int round)
{
    const struct cuda_krylov *d = z->device;
    struct krylov_found *found = d->news.found + (round > 0);
    char *gram = d->has_gram ? d->news.gram : d->other_gram;

    if (round > 0)
        TRY(project_out(z, dim, z->width, d->column, gram));
    else if (!d->has_gram)
        TRY(project(z, z->w, z->width, z->width, gram));
    TRY(whiten(z, gram, found));
    return combine(z, z->width, found, round > 0 ? z->q : NULL);
}

static gram_status orthonormalise(struct krylov *z, int64_t dim)
{
    enum {
        ROUNDS = 8 /* two are the rule, random columns take two more */
    };
    const struct cuda_krylov *d = z->device;
    const struct krylov_found *found = d->told.found;

    TRY(make_orthonormal(z, dim, 0));
    for (int round = 1; round < ROUNDS; round++) {
        TRY(make_orthonormal(z, dim, round));
        TRY(receive_news(z));
        z->not_finite = z->not_finite || found[0].missing < 0 || found[1].missing < 0;
        if (z->not_finite || (found[1].missing == 0 && found[1].least > 0.5))
            break;
    }
    return GRAM_OK;
}

/* The host needs these numbers to decide, and waits for them. */
static gram_status residuals_of(struct krylov *z, int64_t at, int64_t cols, double *values,
                                double *residuals)
{
    const struct cuda_krylov *d = z->device;
    double *to = d->residuals;
    const double *from = (const double *)(const void *)d->staging;
    struct krylov_residual_params p = {
        .n = z->n,
        .columns = cols,
        .v = z->v + (size_t)(at * z->n) * z->element,
        .w = z->w,
        .values = to,
        .residuals = to + cols,
    };

    TRY(cuda_launch_plain(z->g, &krylov_residual, z->dtype, cols, KRYLOV_SUM, &p));
    TRY(receive(z, d->staging, to, (size_t)(2 * cols) * sizeof *to));
    for (int64_t c = 0; c < cols; c++) {
        values[c] = from[c];
        residuals[c] = from[cols + c];
    }
    return GRAM_OK;
}

static gram_status blend(struct krylov *z, int64_t cols, void *out, char *const in[3],
                         const double by[3])
{
    struct krylov_blend_params p = {
        .count = z->n * cols,
        .out = out,
        .in = {in[0], in[1], in[2]},
        .by = {by[0], by[1], by[2]},
    };

    return cuda_launch_plain(z->g, &krylov_blend, z->dtype,
                             gram_least(gram_ceil_div(p.count, KRYLOV_THREADS), MOST_BLOCKS),
                             KRYLOV_THREADS, &p);
}

const struct krylov_ops cuda_krylov_ops = {
    .take = take,
    .append = append,
    .extract = extract,
    .random = fill_random,
    .project = project_block,
    .orthonormalise = orthonormalise,
    .fetch = fetch,
    .residuals = residuals_of,
    .turn = turn,
    .blend = blend,
};
