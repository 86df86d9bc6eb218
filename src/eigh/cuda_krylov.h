/*
 * cuda_krylov.h - the Krylov solver's tall matrices on the device, and products with them
 *
 * V, Q and W are stored by columns.  The device's context is current in every call.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_KRYLOV_H
#define GRAM_CUDA_KRYLOV_H
#include "cuda/cublas.h"
#include "cuda/cuda_ops.h"
#include "krylov.h"
#include "krylov_params.h"

/* What a step finds: V^T W, the Gram matrix of W, and what two rounds of krylov_whiten did. */
struct cuda_krylov_news {
    char *column, *gram;
    struct krylov_found *found;
};

/* struct krylov's device: small matrices in its scratch, and what the host has of them. */
struct cuda_krylov {
    struct cuda_blas *blas;
    struct cuda_krylov_news news;
    char *column, *other_gram, *mix, *rotation, *values;
    double *residuals;
    int *order;
    char *staging; /* on the host; told: where the news lie in it */
    struct cuda_krylov_news told;
    size_t news_bytes;
    bool has_gram; /* the Gram matrix of W is known */
    bool fetched;  /* staging holds what the device last found */
};

extern const struct krylov_ops cuda_krylov_ops;
/* Takes the host's memory beside that of gram_krylov_take; to be placed once it is there. */
void cuda_krylov_take_staging(struct krylov *z, struct gram_layout *l);
void cuda_krylov_place_staging(struct krylov *z);
/* Brings values (of the dtype) and the order of V's columns, k of each on the host, to the
 * device's. */
gram_status cuda_krylov_send(struct krylov *z, const void *values, const int32_t *order);
#endif
