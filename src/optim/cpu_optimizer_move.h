/*
 * cpu_optimizer_move.h - template: runs of numbers of one dtype to and from f32 and f64
 *
 * Parameters: SOURCE, stored, real, undefined again at the end, LOAD and STORE: see each_dtype.h.
 *
 * SPDX-License-Identifier: MIT
 */

static void CAT(read_f32, SOURCE)(const void *data, int64_t step, int64_t n, void *to)
{
    for (int64_t i = 0; i < n; i++)
        ((float *)to)[i] = (float)LOAD(((const stored *)data)[i * step]);
}

static void CAT(read_f64, SOURCE)(const void *data, int64_t step, int64_t n, void *to)
{
    for (int64_t i = 0; i < n; i++)
        ((double *)to)[i] = (double)LOAD(((const stored *)data)[i * step]);
}

static void CAT(write_f32, SOURCE)(const void *from, int64_t n, void *data, int64_t step)
{
    for (int64_t i = 0; i < n; i++)
        ((stored *)data)[i * step] = STORE((real)((const float *)from)[i]);
}

static void CAT(write_f64, SOURCE)(const void *from, int64_t n, void *data, int64_t step)
{
    for (int64_t i = 0; i < n; i++)
        ((stored *)data)[i * step] = STORE((real)((const double *)from)[i]);
}

#undef SOURCE
#undef stored
#undef real
