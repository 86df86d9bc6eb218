/*
 * kernels_dtype.h - the micro-kernels of one dtype: included by kernels.h once for each
 *
 * SPDX-License-Identifier: MIT
 */

/* ---- Distance tiles: cdist_tile.h once per step; a product and a sum contract to one fma ----- */

#define METRIC       one
#define TERM         DIFFERENCE
#define STEP(acc, d) v_sum_abs(acc, d)
#define ROWS         MR
#define STATE        NO_STATE
#include "pairwise/cdist_tile.h"

#define METRIC       two
#define TERM         DIFFERENCE
#define STEP(acc, d) ((acc) + (d) * (d))
#define ROWS         MR
#define STATE        NO_STATE
#include "pairwise/cdist_tile.h"

#define METRIC       three
#define TERM         DIFFERENCE
#define STEP(acc, d) ((acc) + v_abs(d) * ((d) * (d)))
#define ROWS         MR
#define STATE        NO_STATE
#include "pairwise/cdist_tile.h"

#define METRIC       four
#define TERM         DIFFERENCE
#define STEP(acc, d) ((acc) + ((d) * (d)) * ((d) * (d)))
#define ROWS         MR
#define STATE        NO_STATE
#include "pairwise/cdist_tile.h"

#define METRIC       half
#define TERM         DIFFERENCE
#define STEP(acc, d) ((acc) + v_sqrt_fast(v_abs(d)))
#define ROWS         MR
#define STATE        NO_STATE
#include "pairwise/cdist_tile.h"

#define METRIC       three_halves
#define TERM         DIFFERENCE
#define STEP(acc, d) ((acc) + v_abs(d) * v_sqrt_fast(v_abs(d)))
#define ROWS         MR
#define STATE        NO_STATE
#include "pairwise/cdist_tile.h"

#define METRIC       power
#define TERM         DIFFERENCE
#define STEP(acc, d) v_power_add(acc, d)
#define ROWS         POWER_ROWS
#define STATE        POWER_STATE
#include "pairwise/cdist_tile.h"

#define METRIC       wide_power
#define TERM         DIFFERENCE
#define STEP(acc, d) v_wide_power_add(acc, d)
#define ROWS         1
#define STATE        WIDE_POWER_STATE
#include "pairwise/cdist_tile.h"

#define METRIC       infinity
#define TERM         DIFFERENCE
#define STEP(acc, d) v_max_bits(acc, v_abs(d))
#define ROWS         MR
#define STATE        NO_STATE
#include "pairwise/cdist_tile.h"

#define METRIC       zero
#define TERM         UNEQUAL
#define STEP(acc, d) ((acc) + (d))
#define ROWS         MR
#define STATE        NO_STATE
#include "pairwise/cdist_tile.h"

#define METRIC       dot
#define TERM         PRODUCT
#define STEP(acc, d) ((acc) + (d))
#define ROWS         MR
#define STATE        NO_STATE
#include "pairwise/cdist_tile.h"

/* ---- Functions of finished sums ------------------------------------------------------------ */

#include "pairwise/covariance_tile.h"

#include "pairwise/cdist_square_tile.h"

/* ---- Selections from finished values -------------------------------------------------------- */

#include "pairwise/nearest_tile.h"
/* ---- Products with kernel matrices ----------------------------------------------------------- */

#include "pairwise/kernel_matmul_tile.h"

/* ---- Reductions of kernel matrices ----------------------------------------------------------- */

#include "pairwise/kernel_reduce_tile.h"

/* ---- Metrics -------------------------------------------------------------------------------- */

#include "pairwise/metric_kernels.h"

/* ---- Gradients ---------------------------------------------------------------------------- */

#include "pairwise/cdist_grad_kernels.h"

/* ---- Small systems ------------------------------------------------------------------------- */

#include "linalg/solve_tile.h"

#include "kron/kron_solve_tile.h"

/* ---- Matrices times a few vectors ------------------------------------------------------------ */

#include "krr/gemm_skinny_tile.h"

/* ---- Symmetric matrices times a few vectors ------------------------------------------------- */

#include "eigh/symmetric_tile.h"

/* ---- Small eigenproblems ------------------------------------------------------------------- */

#include "eigh/eigh_tile.h"

/* ---- Gradients of Kronecker factors ---------------------------------------------------------- */

#define WIDTH full
#define BYTES VBYTES
#include "kron/kron_matmul_vjp_tile.h"

#define WIDTH half
#define BYTES KRON_FEW_BYTES
#include "kron/kron_matmul_vjp_tile.h"
