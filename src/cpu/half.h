/*
 * half.h - f16 and bf16 to and from f32, one number at a time
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_HALF_H
#define GRAM_CPU_HALF_H
#include <stdint.h>
#include <string.h>

static inline float half_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t half_to_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float from_bf16(uint16_t e)
{
    return half_from_bits((uint32_t)e << 16);
}

/* Moves exponent and mantissa in place and rescales by 2^(127 - 15), which is exact, denormals
 * included; infinity and NaN, exponent 31, take the largest exponent. */
static inline float from_f16(uint16_t e)
{
    uint32_t sign = (uint32_t)(e & 0x8000) << 16, rest = (uint32_t)(e & 0x7fff) << 13;
    float scaled = half_from_bits(rest) * 0x1p112f;

    if (rest >= 0x0f800000)
        scaled = half_from_bits(rest | 0x7f800000);
    return sign ? -scaled : scaled;
}

/* To nearest, ties to even: half of the last place that stays, less one where that is even, is
 * added to the bits; a carry raises the exponent by itself.  NaN stays NaN. */
static inline uint16_t to_bf16(float value)
{
    uint32_t bits = half_to_bits(value), rest = bits & 0x7fffffff;
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

    return (uint16_t)(rest > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
}

/* To nearest, ties to even.  Below 2^-14, the least normal number, adding 0.5 has the adder round
 * to a multiple of 2^-24, the least f16, and leaves it in the last bits. */
static inline uint16_t to_f16(float value)
{
    uint32_t bits = half_to_bits(value), rest = bits & 0x7fffffff;
    uint32_t sign = bits >> 16 & 0x8000, small, normal;

    small = half_to_bits(half_from_bits(rest) + 0.5f) - 0x3f000000;
    normal = (rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (rest >= 0x477ff000) /* 65520, which rounds to infinity */
        return (uint16_t)(sign | 0x7c00);
    return (uint16_t)(sign | (rest < 0x38800000 ? small : normal));
}
#endif
