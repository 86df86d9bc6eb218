/*
 * refusal_spoil.h - template: what spoils calls on square matrices, in rows of struct refusal
 *
 * To be included behind the test's struct call, which has a, info and with_info (tensors; with_info
 * is what the call gets as info) and options with size and uplo.
 *
 * SPDX-License-Identifier: MIT
 */

static inline void not_square(struct call *c)
{
    c->a.shape[c->a.ndim - 2] = 2;
}

static inline void wrong_dtype(struct call *c)
{
    c->a.dtype = GRAM_F16;
}

static inline void bad_uplo(struct call *c)
{
    c->options.uplo = (gram_uplo)7;
}

static inline void bad_size(struct call *c)
{
    c->options.size = 4;
}

static inline void info_of_two(struct call *c)
{
    c->info.ndim = 1;
    c->info.shape[0] = 2;
    c->with_info = &c->info;
}

static inline void info_of_floats(struct call *c)
{
    c->info.dtype = GRAM_F32;
    c->with_info = &c->info;
}
