/*
 * sha256.c - SHA-256 of a text, as FIPS 180-4 gives it, section 6.2
 *
 * SPDX-License-Identifier: MIT
 */
#include "sha256.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    BLOCK = 64,
    ROUNDS = 64
};

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turned(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

static void schedule(const unsigned char *block, uint32_t w[ROUNDS])
{
    for (int i = 0; i < 16; i++, block += 4)
        w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 |
               block[3];
    for (int i = 16; i < ROUNDS; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) +
               (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
    }
}

/* a to h of the standard are v[0] to v[7]. */
static void add_block(const unsigned char *block, uint32_t hash[8])
{
    uint32_t w[ROUNDS], v[8];

    schedule(block, w);
    memcpy(v, hash, sizeof v);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t e = v[4], a = v[0];
        uint32_t first = v[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) +
                         ((e & v[5]) ^ (~e & v[6])) + constants[i] + w[i];
        uint32_t second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) +
                          ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += first;
        v[0] = first + second;
    }
    for (int i = 0; i < 8; i++)
        hash[i] += v[i];
}

void gram_sha256(const void *data, size_t bytes, char text[SHA256_TEXT])
{
    /* Of the square roots of the first 8 primes. */
    uint32_t hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const unsigned char *from = data;
    unsigned char last[2 * BLOCK] = {0};
    size_t whole = bytes / BLOCK, rest = bytes % BLOCK, end = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;

    for (size_t i = 0; i < whole; i++)
        add_block(from + i * BLOCK, hash);
    if (rest > 0)
        memcpy(last, from + whole * BLOCK, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++) /* the length in bits, the highest byte first */
        last[end - 1 - (size_t)i] = (unsigned char)((uint64_t)bytes * 8 >> 8 * i);
    for (size_t at = 0; at < end; at += BLOCK)
        add_block(last + at, hash);
    for (int i = 0; i < 8; i++)
        snprintf(text + (ptrdiff_t)8 * i, 9, "%08x", (unsigned)hash[i]);
}
