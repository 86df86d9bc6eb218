/*
 * cpu_krylov.h - the Krylov solver's tall matrices on the CPU
 *
 * V, Q and W are stored by rows: the elements of one row lie together.  Sums over n have a fixed
 * number of parts, so results do not depend on the number of threads.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_KRYLOV_H
#define GRAM_CPU_KRYLOV_H
#include "core/blas.h"
#include "core/threads.h"
#include "krylov.h"

enum {
    KRYLOV_PARTS = 6, /* of sums over n */
    KRYLOV_ROWS = 512 /* of V that are turned at a time */
};

extern const struct krylov_ops cpu_krylov_ops;
#endif
