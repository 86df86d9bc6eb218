/*
 * stream_rows.h - rows copied past the caches: gram_stream_rows of cpu_kernels.h
 *
 * The ends of a row that do not fill an aligned vector are copied as usual.
 *
 * SPDX-License-Identifier: MIT
 */
static void CAT(stream_rows, ISA)(void *to, int64_t to_stride, const void *from,
                                  int64_t from_stride, int64_t count, int64_t bytes)
{
    char *out = to;
    const char *in = from;

    for (int64_t r = 0; r < count; r++, out += to_stride, in += from_stride) {
        int64_t at = -(intptr_t)out & (VBYTES - 1);
        if (at > bytes)
            at = bytes;
        __builtin_memcpy(out, in, (size_t)at);
        for (; at + VBYTES <= bytes; at += VBYTES)
            v_stream(out + at, in + at);
        __builtin_memcpy(out + at, in + at, (size_t)(bytes - at));
    }
    v_stream_end();
}
