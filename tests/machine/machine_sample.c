/*
 * machine_sample.c - made-up tables, and machines trained on them
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_sample.h"
#include <math.h>
#include <stdlib.h>

void *must_allocate(size_t bytes)
{
    void *memory = calloc(1, bytes + 1);

    if (!memory)
        exit(EXIT_FAILURE);
    return memory;
}

struct sample sample_make(struct harness *h, int64_t rows)
{
    static const char *const colors[] = {"red", "green", "blue"};
    static const char *const kinds[] = {"ant", "bee", "cat"};
    struct sample s = {.rows = rows};

    s.a = must_allocate((size_t)rows * sizeof *s.a);
    s.noise = must_allocate((size_t)rows * sizeof *s.noise);
    s.y = must_allocate((size_t)rows * sizeof *s.y);
    s.color = must_allocate((size_t)rows * sizeof *s.color);
    s.kind = must_allocate((size_t)rows * sizeof *s.kind);
    for (int64_t i = 0; i < rows; i++) {
        int color = (int)(3 * test_uniform(h));
        s.a[i] = 4 * test_uniform(h) - 2;
        s.noise[i] = test_uniform(h);
        s.color[i] = colors[color];
        s.y[i] = 10 + sin(2 * s.a[i]) + (color == 0) + 0.02 * (test_uniform(h) - 0.5);
        s.kind[i] = kinds[s.a[i] < -0.6 ? 0 : s.a[i] < 0.6 ? 1 : 2];
    }
    s.column[0] = (gram_column){"a", s.a, NULL};
    s.column[1] = (gram_column){"noise", s.noise, NULL};
    s.column[2] = (gram_column){"color", NULL, s.color};
    s.number = (gram_column){"y", s.y, NULL};
    s.label = (gram_column){"kind", NULL, s.kind};
    return s;
}

const gram_table *table_of(struct sample *s)
{
    s->table = (gram_table){s->rows, 3, s->column};
    return &s->table;
}

void sample_destroy(struct sample *s)
{
    free(s->a);
    free(s->noise);
    free(s->y);
    free((void *)s->color);
    free((void *)s->kind);
}

gram_machine *sample_fit(struct harness *h, struct sample *s, const gram_column *target,
                         const gram_machine_options *options)
{
    const gram_machine_options fixed = SAMPLE_OPTIONS;
    gram_machine *m = NULL;

    options = options ? options : &fixed;
    CHECK(h, gram_machine_fit(h->g, table_of(s), target, options, &m) == GRAM_OK, "%s",
          gram_message(h->g));
    if (!m)
        exit(EXIT_FAILURE);
    return m;
}

double sample_score(struct harness *h, const gram_machine *m, struct sample *s,
                    const gram_column *target)
{
    gram_machine_score result = {.size = sizeof result};

    CHECK(h, gram_machine_evaluate(h->g, m, table_of(s), target, &result) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, result.rows == s->rows, "%lld rows", (long long)result.rows);
    return result.score;
}

void expect_alike(struct harness *h, const gram_machine *m1, const gram_machine *m2,
                  struct sample *s, double bound)
{
    double *f1 = must_allocate((size_t)s->rows * sizeof *f1), worst = 0;
    double *f2 = must_allocate((size_t)s->rows * sizeof *f2);
    gram_tensor t1 = gram_vector(f1, s->rows, GRAM_F64), t2 = gram_vector(f2, s->rows, GRAM_F64);

    CHECK(h,
          gram_machine_predict(h->g, m1, table_of(s), &t1) == GRAM_OK &&
              gram_machine_predict(h->g, m2, table_of(s), &t2) == GRAM_OK,
          "%s", gram_message(h->g));
    for (int64_t i = 0; i < s->rows; i++)
        worst = fmax(worst, fabs(f1[i] - f2[i]));
    CHECK(h, worst <= bound, "predictions differ by %g, bound %g", worst, bound);
    free(f1);
    free(f2);
}
