/*
 * move_loops.h - template: columns of a strided move
 *
 * Parameters, undefined again at the end:
 *   NAME         the function
 *   to_type      an element that is written
 *   from_type    an element that is read
 *   VALUE(t, f)  what becomes of the element t when f comes to it
 *
 * SPDX-License-Identifier: MIT
 */
static void NAME(const struct cpu_move *m, int64_t first, int64_t last)
{
    const int64_t down = m->to_stride[0], from_down = m->from_stride[0];
    const bool runs = down == 1 && from_down == 1;
    const int64_t height = runs ? m->rows : TILE;

    for (int64_t top = 0; top < m->rows; top += height) {
        const struct span rows = {top, gram_least(top + height, m->rows)};
        for (int64_t j = first; j < last; j++) {
            const struct span span = rows_of_column(m, j, rows);
            to_type *to = (to_type *)m->to + j * m->to_stride[1];
            const from_type *from =
                (const from_type *)m->from + (m->order ? m->order[j] : j) * m->from_stride[1];
            if (runs)
                for (int64_t i = span.first; i < span.end; i++)
                    to[i] = VALUE(to[i], from[i]);
            else
                for (int64_t i = span.first; i < span.end; i++)
                    to[i * down] = VALUE(to[i * down], from[i * from_down]);
        }
    }
}

#undef NAME
#undef to_type
#undef from_type
#undef VALUE
