/*
 * cpu_layer_store.h - template: numbers to an output of any strides, of one dtype
 *
 * Parameters, undefined again at the end: real, the dtype; NAME, the function's name.
 *
 * SPDX-License-Identifier: MIT
 */

static void NAME(const struct cpu_layer_store *s, const void *from, int64_t ld)
{
    const struct gram_layer_output *out = s->out;
    int64_t step = cpu_axes_step(&out->col);
    real scale = (real)s->scale, add = (real)s->add;

    for (int64_t i = 0; i < s->rows; i++) {
        const real *row = (const real *)from + i * ld;
        real *to = (real *)(void *)out->data + s->sample * out->sample_stride +
                   cpu_axes_at(&out->row, s->row + i);
        for (int64_t j = 0, run; j < s->cols; j += run) {
            real *at = to + cpu_axes_at(&out->col, s->col + j);
            run = cpu_axes_run(&out->col, s->col + j, s->cols - j);
            if (s->add == 0)
                for (int64_t k = 0; k < run; k++)
                    at[k * step] = scale * row[j + k];
            else
                for (int64_t k = 0; k < run; k++)
                    at[k * step] = add * at[k * step] + scale * row[j + k];
        }
    }
}

#undef real
#undef NAME
