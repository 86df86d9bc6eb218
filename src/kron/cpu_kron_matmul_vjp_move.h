/*
 * cpu_kron_matmul_vjp_move.h - template: cpu_kron_matmul_vjp_move of one dtype
 *
 * Parameters, undefined again at the end: SUFFIX names the function, real is the type.
 *
 * SPDX-License-Identifier: MIT
 */
#define CAT_(a, b) a##_##b
#define CAT(a, b)  CAT_(a, b)

static void CAT(move_rows, SUFFIX)(const struct kron_vjp_move *m)
{
    for (int64_t i = 0; i < m->rows; i++) {
        real *to = (real *)m->to + i * m->to_stride[0];
        const real *from = (const real *)m->from + i * m->from_stride[0];
        for (int64_t j = 0; j < m->cols; j++)
            to[j] = m->add ? to[j] + from[j] : from[j];
    }
}

/* In tiles, so that neither side leaves the cache where the other one goes along rows. */
static void CAT(move_tiles, SUFFIX)(const struct kron_vjp_move *m)
{
    const int64_t tile = 16;

    for (int64_t top = 0; top < m->rows; top += tile)
        for (int64_t left = 0; left < m->cols; left += tile)
            for (int64_t i = top; i < m->rows && i < top + tile; i++) {
                real *to = (real *)m->to + i * m->to_stride[0];
                const real *from = (const real *)m->from + i * m->from_stride[0];
                for (int64_t j = left; j < m->cols && j < left + tile; j++)
                    to[j * m->to_stride[1]] =
                        from[j * m->from_stride[1]] + (m->add ? to[j * m->to_stride[1]] : 0);
            }
}

#undef CAT
#undef CAT_
#undef SUFFIX
#undef real
