/*
 * cdist_grad_kernels.h - the gradients' kernels of one dtype: included by kernels_dtype.h
 *
 * SPDX-License-Identifier: MIT
 */

/* Features by vectors of points.  Measured for the sign on Zen 4: 4 x 2, 6 x 2 and 12 x 1 alike. */
#define GRAD_NR 4
#if VBYTES == 64
#  define GRAD_NV 2
#else
#  define GRAD_NV 1
#endif

/* Centres between a weight and its use.  Zen 4, p = 1.3, 10 outputs, ns a step: 6.9 at 0, 6.6 at 2,
 * 5.9 at 4, no better at 8 and 16. */
#define GRAD_LEAD 4

/* ---- Powers of a difference: with OUTPUTS, then alone --------------------------------------- */

#define POWER           sign
#define SIGNED_POWER(d) v_sign(d)
#define STATE           NO_STATE
#define OUTPUTS         2
#include "cdist_grad_tile.h"
#define OUTPUTS 4
#include "cdist_grad_tile.h"
#define OUTPUTS 6
#include "cdist_grad_tile.h"
#define OUTPUTS 8
#include "cdist_grad_tile.h"
#define OUTPUTS 10
#include "cdist_grad_tile.h"
#define OUTPUTS 12
#include "cdist_grad_tile.h"

/* With one coefficient a centre, and the weights of a row. */
#include "cdist_grad_tile.h" // NOLINT(readability-duplicate-include): a template

#define POWER           sqrt
#define SIGNED_POWER(d) (v_sign(d) * v_sqrt(v_abs(d)))
#define STATE           NO_STATE
#include "cdist_grad_tile.h"

#define POWER           square
#define SIGNED_POWER(d) ((d)*v_abs(d))
#define STATE           NO_STATE
#include "cdist_grad_tile.h"

#define POWER           cube
#define SIGNED_POWER(d) ((d) * (d) * (d))
#define STATE           NO_STATE
#include "cdist_grad_tile.h"

#define POWER           linear
#define SIGNED_POWER(d) (d)
#define STATE           NO_STATE
#include "cdist_grad_tile.h"

#define POWER           any
#define SIGNED_POWER(d) v_signed_power(d)
#define STATE           POWER_STATE
#define OUTPUTS         2
#include "cdist_grad_tile.h"
#define OUTPUTS 4
#include "cdist_grad_tile.h"
#define OUTPUTS 6
#include "cdist_grad_tile.h"
#define OUTPUTS 8
#include "cdist_grad_tile.h"
#define OUTPUTS 10
#include "cdist_grad_tile.h"
#define OUTPUTS 12
#include "cdist_grad_tile.h"

/* The same for any power. */
#include "cdist_grad_tile.h" // NOLINT(readability-duplicate-include): a template

#define POWER           wide
#define SIGNED_POWER(d) v_signed_wide_power(d)
#define STATE           WIDE_POWER_STATE
#include "cdist_grad_tile.h"

/* ---- Weights times a cotangent of few factors ------------------------------------------------ */

#include "kernel_matmul_vjp_tile.h"

/* ---- Products with the coefficients, once a number of outputs ------------------------------- */

#define OUTPUTS 2
#include "cdist_grad_tile.h"

#define OUTPUTS 4
#include "cdist_grad_tile.h"

#define OUTPUTS 6
#include "cdist_grad_tile.h"

#define OUTPUTS 8
#include "cdist_grad_tile.h"

#define OUTPUTS 10
#include "cdist_grad_tile.h"

#define OUTPUTS 12
#include "cdist_grad_tile.h"

#define GRAD_OF(power)      CAT(CAT(CAT(cdist_grad, power), DTYPE), ISA)
#define WEIGHTS_OF(power)   CAT(CAT(CAT(CAT(cdist_grad, power), weights), DTYPE), ISA)
#define FEW(power, outputs) CAT(CAT(CAT(CAT(cdist_grad, power), outputs), DTYPE), ISA)
#define FEW_OF(power)                                                                          \
  {                                                                                            \
    FEW(power, 2), FEW(power, 4), FEW(power, 6), FEW(power, 8), FEW(power, 10), FEW(power, 12) \
  }
#define SUM_OF(outputs) CAT(CAT(CAT(cdist_grad_sum, outputs), DTYPE), ISA)

/* clang-format off */
static const struct gram_grad_kernels CAT(CAT(cdist_grad, DTYPE), ISA) = {
    .features = GRAD_NR,
    .width = GRAD_NV * (int)(VBYTES / sizeof(real)),
    .one = {
        [GRAM_GRAD_SIGN]   = GRAD_OF(sign),
        [GRAM_GRAD_SQRT]   = GRAD_OF(sqrt),
        [GRAM_GRAD_SQUARE] = GRAD_OF(square),
        [GRAM_GRAD_CUBE]   = GRAD_OF(cube),
        [GRAM_GRAD_LINEAR] = GRAD_OF(linear),
        [GRAM_GRAD_ANY]    = GRAD_OF(any),
        [GRAM_GRAD_WIDE]   = GRAD_OF(wide),
    },
    .weights = {
        [GRAM_GRAD_SIGN]   = WEIGHTS_OF(sign),
        [GRAM_GRAD_SQRT]   = WEIGHTS_OF(sqrt),
        [GRAM_GRAD_SQUARE] = WEIGHTS_OF(square),
        [GRAM_GRAD_CUBE]   = WEIGHTS_OF(cube),
        [GRAM_GRAD_LINEAR] = WEIGHTS_OF(linear),
        [GRAM_GRAD_ANY]    = WEIGHTS_OF(any),
        [GRAM_GRAD_WIDE]   = WEIGHTS_OF(wide),
    },
    .few = {[GRAM_GRAD_SIGN] = FEW_OF(sign), [GRAM_GRAD_ANY] = FEW_OF(any)},
    .sum = {SUM_OF(2), SUM_OF(4), SUM_OF(6), SUM_OF(8), SUM_OF(10), SUM_OF(12)},
};
/* clang-format on */

#undef SUM_OF
#undef FEW_OF
#undef FEW
#undef WEIGHTS_OF
#undef GRAD_OF
#undef GRAD_LEAD
#undef GRAD_NV
#undef GRAD_NR
