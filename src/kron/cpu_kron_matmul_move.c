/*
 * cpu_kron_matmul_move.c - factors, tiles of x and tiles of y of every dtype
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_kron_matmul.h"

#define TEMPLATE "kron/cpu_kron_matmul_move.h"
#define INTEGERS 1
#include "cpu/each_dtype.h"

/* clang-format off */
static const struct kron_moves moves[] = {
    [GRAM_F32] = {4, GRAM_F32, pack_columns_f32, pack_slices_f32, load_f32, store_f32},
    [GRAM_F64] = {8, GRAM_F64, pack_columns_f64, pack_slices_f64, load_f64, store_f64},
    [GRAM_F16] = {4, GRAM_F32, pack_columns_f16, pack_slices_f16, load_f16, store_f16},
    [GRAM_BF16] = {4, GRAM_F32, pack_columns_bf16, pack_slices_bf16, load_bf16, store_bf16},
    [GRAM_I32] = {4, GRAM_I32, pack_columns_i32, pack_slices_i32, load_i32, store_i32},
    [GRAM_I64] = {8, GRAM_I64, pack_columns_i64, pack_slices_i64, load_i64, store_i64},
};
/* clang-format on */

const struct kron_moves *cpu_kron_moves(gram_dtype dtype)
{
    return &moves[dtype];
}
