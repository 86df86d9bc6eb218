/*
 * cpu_kron_matmul_dtype.h - template: the passes of one dtype, with the vectors that suit their
 * sizes
 *
 * Parameters, undefined again at the end: DTYPE (f32, f64, i32, i64) and real.
 *
 * SPDX-License-Identifier: MIT
 */
#define KERNEL(name) CAT(CAT(name, DTYPE), ISA)

#define WIDTH full
#define BYTES VBYTES
#include "kron_matmul_tile.h"

#if KRON_FEW_BYTES < VBYTES
#  define WIDTH few
#  define BYTES KRON_FEW_BYTES
#  include "kron_matmul_tile.h"
#  define FEW(name) CAT(CAT(CAT(name, DTYPE), few), ISA)
#endif
#define FULL(name) CAT(CAT(CAT(name, DTYPE), full), ISA)

static void KERNEL(kron_columns)(const struct gram_kron_pass *pass)
{
    const int64_t lanes = VBYTES / sizeof(real);

#ifdef FEW
    if (pass->cols < lanes) {
        if (pass->cols <= (int64_t)(KRON_FEW_BYTES / sizeof(real)))
            FEW(kron_narrow)(pass);
        else
            FEW(kron_wide)(pass);
        return;
    }
#endif
    if (pass->cols <= lanes)
        FULL(kron_narrow)(pass);
    else
        FULL(kron_wide)(pass);
}

static void KERNEL(kron_slices)(const struct gram_kron_pass *pass)
{
#ifdef FEW
    if (pass->outs < (int64_t)(VBYTES / sizeof(real))) {
        FEW(kron_slices)(pass);
        return;
    }
#endif
    FULL(kron_slices)(pass);
}

static const struct gram_kron_kernels KERNEL(kron) = {
    .rows = KRON_ROWS,
    .lanes = VBYTES / sizeof(real),
    .few_lanes = KRON_FEW_BYTES / sizeof(real),
    .columns = KERNEL(kron_columns),
    .slices = KERNEL(kron_slices),
};

#undef KERNEL
#undef FULL
#undef FEW
#undef DTYPE
#undef real
