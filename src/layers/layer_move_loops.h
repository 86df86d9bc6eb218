/*
 * layer_move_loops.h - template: parts of a layer's tensors, of one dtype, and their sums; outputs
 *
 * Parameters: SOURCE, stored, real, LOAD, STORE: see each_dtype.h.
 *
 * SPDX-License-Identifier: MIT
 */

/* to[i * ld + j] = factor * from[outer i][inner j]. */
static void CAT(move_rows, SOURCE)(const struct move *m)
{
    const stored *from = (const stored *)m->from;
    int64_t step = cpu_axes_step(m->inner);
    real factor = (real)m->factor;

    for (int64_t i = 0; i < m->outer_count; i++) {
        const stored *row = from + cpu_axes_at(m->outer, m->outer_first + i);
        real *to = (real *)m->to + i * m->ld;
        for (int64_t j = 0, run; j < m->inner_count; j += run) {
            const stored *at = row + cpu_axes_at(m->inner, m->inner_first + j);
            run = cpu_axes_run(m->inner, m->inner_first + j, m->inner_count - j);
            if (step == 1)
                for (int64_t k = 0; k < run; k++)
                    to[j + k] = factor * LOAD(at[k]);
            else
                for (int64_t k = 0; k < run; k++)
                    to[j + k] = factor * LOAD(at[k * step]);
        }
    }
}

/* Places [first, first + count) of one row of places: zeros beside the image. */
static void CAT(move_places, SOURCE)(const struct places *p, real factor, const stored *row,
                                     real *to)
{
    int64_t i = 0;

    for (; i < p->low; i++)
        to[i] = 0;
    if (p->step == 1)
        for (const stored *at = row + p->start; i < p->high; i++)
            to[i] = factor * LOAD(at[i]);
    else
        for (; i < p->high; i++)
            to[i] = factor * LOAD(row[p->start + i * p->step]);
    for (; i < p->count; i++)
        to[i] = 0;
}

/* The same of patches; outer are features of patches, inner positions. */
static void CAT(move_patches, SOURCE)(const struct move *m)
{
    const struct gram_layer_op *l = m->layer;

    for (int64_t i = 0; i < m->outer_count; i++) {
        struct patch patch = patch_of(m, m->outer_first + i);
        real *to = (real *)m->to + i * m->ld;
        for (int64_t j = 0, run; j < m->inner_count; j += run) {
            struct places p = places_of(l, &patch, m->inner_first + j, m->inner_count - j);
            run = p.count;
            CAT(move_places, SOURCE)
            (&p, (real)m->factor, (const stored *)m->from + p.offset, to + j);
        }
    }
}

/* sums[j] = sum_i from[outer i][inner j]. */
static void CAT(sum_outer, SOURCE)(const struct move *m)
{
    int64_t step = cpu_axes_step(m->inner);
    double *sums = m->to;

    memset(sums, 0, (size_t)m->inner_count * sizeof *sums);
    for (int64_t i = 0; i < m->outer_count; i++) {
        const stored *row = (const stored *)m->from + cpu_axes_at(m->outer, m->outer_first + i);
        for (int64_t j = 0, run; j < m->inner_count; j += run) {
            const stored *at = row + cpu_axes_at(m->inner, m->inner_first + j);
            run = cpu_axes_run(m->inner, m->inner_first + j, m->inner_count - j);
            for (int64_t k = 0; k < run; k++)
                sums[j + k] += (double)LOAD(at[k * step]);
        }
    }
}

/* sums[i] = sum_j from[outer i][inner j]. */
static void CAT(sum_inner, SOURCE)(const struct move *m)
{
    int64_t step = cpu_axes_step(m->inner);
    double *sums = m->to;

    for (int64_t i = 0; i < m->outer_count; i++) {
        const stored *row = (const stored *)m->from + cpu_axes_at(m->outer, m->outer_first + i);
        double sum = 0;
        for (int64_t j = 0, run; j < m->inner_count; j += run) {
            const stored *at = row + cpu_axes_at(m->inner, m->inner_first + j);
            run = cpu_axes_run(m->inner, m->inner_first + j, m->inner_count - j);
            for (int64_t k = 0; k < run; k++)
                sum += (double)LOAD(at[k * step]);
        }
        sums[i] = sum;
    }
}

/* sums[i] = the sum over positions of feature i of the patches. */
static void CAT(sum_patches, SOURCE)(const struct move *m)
{
    const struct gram_layer_op *l = m->layer;
    double *sums = m->to;

    for (int64_t i = 0; i < m->outer_count; i++) {
        struct patch patch = patch_of(m, m->outer_first + i);
        double sum = 0;
        for (int64_t j = 0, run; j < m->inner_count; j += run) {
            struct places p = places_of(l, &patch, m->inner_first + j, m->inner_count - j);
            const stored *row = (const stored *)m->from + p.offset + p.start;
            run = p.count;
            for (int64_t k = p.low; k < p.high; k++)
                sum += (double)LOAD(row[k * p.step]);
        }
        sums[i] = sum;
    }
}

/* Numbers to an output: out = add * out + scale * from. */
static void CAT(store, SOURCE)(const struct cpu_layer_store *s, const void *from, int64_t ld)
{
    const struct gram_layer_output *out = s->out;
    int64_t step = cpu_axes_step(&out->col);
    real scale = (real)s->scale, add = (real)s->add;

    for (int64_t i = 0; i < s->rows; i++) {
        const real *row = (const real *)from + i * ld;
        stored *to = (stored *)(void *)out->data + s->sample * out->sample_stride +
                     cpu_axes_at(&out->row, s->row + i);
        for (int64_t j = 0, run; j < s->cols; j += run) {
            stored *at = to + cpu_axes_at(&out->col, s->col + j);
            run = cpu_axes_run(&out->col, s->col + j, s->cols - j);
            if (s->add == 0)
                for (int64_t k = 0; k < run; k++)
                    at[k * step] = STORE(scale * row[j + k]);
            else
                for (int64_t k = 0; k < run; k++)
                    at[k * step] = STORE(add * LOAD(at[k * step]) + scale * row[j + k]);
        }
    }
}
