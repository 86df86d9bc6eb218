/*
 * cache.h - kernels compiled ahead: what the fronts of operations hand to the cache
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CACHE_H
#define GRAM_CACHE_H
#include "backend.h"

/* Compiles the kernels that op takes, or with NULL the common ones, as gram_cache_warm says.  A
 * call of the library has begun. */
gram_status gram_cache_warm_op(gram_context *g, const struct gram_cdist_op *op,
                               const gram_warm_options *options);
#endif
