/*
 * test_many.c - lists of matrices that several contexts share: who takes which, what becomes of
 * each, on contexts of the CPU and, where the tests run on CUDA, of every device there is
 *
 * SPDX-License-Identifier: MIT
 */
#include "failing_alloc.h"
#include "many_list.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static gram_status eigh(const gram_group *group, struct many_list *l,
                        const gram_eigh_options *options)
{
    return gram_eigh_many(group, &l->many, l->a, options, l->values, l->vectors, l->info);
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void shared_by(struct harness *h, int count, bool cuda, const double *speeds)
{
    struct many_contexts c;
    struct many_list l;

    if (!many_fill(h, &l) || !many_open(h, &c, count, cuda)) {
        free(l.entry);
        return;
    }
    c.group.speeds = speeds;
    CHECK(h, eigh(&c.group, &l, NULL) == GRAM_OK, "%s", gram_message(c.g[0]));
    many_check_shares(h, &l, &c.group);
    for (int k = 0; k < MANY_COUNT; k++)
        many_check_pairs(h, &l, k);
    many_close(&c);
    free(l.entry);
}

static void every_number_of_contexts(struct harness *h)
{
    static const double speeds[] = {1, 4, 0.5};

    for (int count = 1; count <= 3; count++)
        shared_by(h, count, false, NULL);
    shared_by(h, 3, false, speeds);
    if (many_on_cuda()) {
        shared_by(h, 1, true, NULL);
        shared_by(h, 3, true, NULL);
    }
}

/* Into the same memory: a BLAS may add in another order at another alignment. */
static void the_same_as_alone(struct harness *h)
{
    struct many_contexts c;
    struct many_list l;
    double w[MANY_MOST], v[MANY_ROOM];

    if (!many_fill(h, &l) || !many_open(h, &c, 2, false)) {
        free(l.entry);
        return;
    }
    CHECK(h, eigh(&c.group, &l, NULL) == GRAM_OK, "%s", gram_message(c.g[0]));
    for (int k = 0; k < MANY_COUNT; k++) {
        struct many_entry *e = &l.entry[k];
        memcpy(w, e->w, sizeof w);
        memcpy(v, e->v, sizeof v);
        memset(e->w, 0, sizeof e->w);
        for (int64_t i = 0; i < many_orders[k]; i++)
            *many_at(&e->tv, i, i) = 0;
        CHECK(h, gram_eigh(c.g[0], l.a[k], NULL, &e->tw, &e->tv, NULL) == GRAM_OK, "%s",
              gram_message(c.g[0]));
        CHECK(h, memcmp(w, e->w, (size_t)many_orders[k] * sizeof *w) == 0, "%d: other values", k);
        CHECK(h, memcmp(v, e->v, sizeof v) == 0, "%d: other vectors", k);
    }
    many_close(&c);
    free(l.entry);
}

/* A matrix that fails for each reason there is; the others are done. */
static void failures(struct harness *h, bool cuda)
{
    struct many_contexts c;
    struct many_list l;

    if (!many_fill(h, &l) || !many_open(h, &c, 2, cuda)) {
        free(l.entry);
        return;
    }
    l.entry[4].tw.shape[0] = 16;
    *many_at(&l.entry[7].ta, 5, 2) = NAN;
    CHECK(h, eigh(&c.group, &l, NULL) == GRAM_INVALID_ARGUMENT, "a list with one of wrong shape");
    CHECK(h,
          strstr(gram_message(c.g[0]), "gram_eigh_many: matrix 4 of the list: gram_eigh: values"),
          "%s", gram_message(c.g[0]));
    CHECK(h,
          l.items[4].status == GRAM_INVALID_ARGUMENT &&
              strstr(l.items[4].message, "values has 16 elements"),
          "%s", l.items[4].message);
    CHECK(h, l.entry[4].v[0] == MANY_UNTOUCHED, "a matrix that was refused was written");
    CHECK(h, l.items[7].status == GRAM_OK && l.entry[7].info == 2 && isnan(l.entry[7].w[0]),
          "info %d", (int)l.entry[7].info);
    for (int k = 0; k < MANY_COUNT; k++)
        if (k != 4 && k != 7)
            many_check_pairs(h, &l, k);
    l.info[7] = NULL;
    l.entry[4].tw.shape[0] = many_orders[4];
    if (!cuda) { /* there info alone tells */
        CHECK(h, eigh(&c.group, &l, NULL) == GRAM_NUMERICAL, "NaN without info");
        CHECK(h, l.items[7].status == GRAM_NUMERICAL && l.items[8].status == GRAM_OK, "%d, %d",
              (int)l.items[7].status, (int)l.items[8].status);
    }
    many_close(&c);
    free(l.entry);
}

static void one_that_fails_leaves_the_others(struct harness *h)
{
    failures(h, false);
    if (many_on_cuda())
        failures(h, true);
}

static void a_range_of_values(struct harness *h, bool cuda)
{
    gram_eigh_options o = GRAM_EIGH_OPTIONS_INIT;
    struct many_contexts c;
    struct many_list l;

    if (!many_fill(h, &l) || !many_open(h, &c, 2, cuda)) {
        free(l.entry);
        return;
    }
    o.select = GRAM_EIGH_VALUE;
    o.lower = 0, o.upper = 10;
    CHECK(h, eigh(&c.group, &l, &o) == GRAM_INVALID_ARGUMENT, "VALUE without many.found");
    l.many.found = l.found;
    CHECK(h, eigh(&c.group, &l, NULL) == GRAM_INVALID_ARGUMENT, "many.found without VALUE");
    CHECK(h, eigh(&c.group, &l, &o) == GRAM_OK, "%s", gram_message(c.g[0]));
    for (int k = 0; k < MANY_COUNT; k++) {
        const struct many_entry *e = &l.entry[k];
        int64_t there = 0;
        while (there < many_orders[k] && e->w[there] <= 10)
            there++;
        CHECK(h, e->found == there && (there == many_orders[k] || isnan(e->w[there])),
              "%d: %lld values are found, %lld are there", k, (long long)e->found,
              (long long)there);
    }
    many_close(&c);
    free(l.entry);
}

static void values_in_an_interval(struct harness *h)
{
    a_range_of_values(h, false);
    if (many_on_cuda())
        a_range_of_values(h, true);
}

/* X X A with X = A^(-1/2). */
static void check_root(struct harness *h, const struct many_entry *e, int k)
{
    int64_t n = many_orders[k], i = n / 2, j = n - 1;
    double sum = 0;

    for (int64_t s = 0; s < n; s++)
        for (int64_t t = 0; t < n; t++)
            sum += *many_at(&e->tv, i, s) * *many_at(&e->tv, s, t) * many_element(k, t, j);
    CHECK(h, fabs(sum - (i == j)) < 1e-10 && e->info == GRAM_POWER_DONE && e->error < 1e-10,
          "%d: %g, info %d, error %g", k, sum, (int)e->info, e->error);
}

static void roots(struct harness *h, bool cuda)
{
    gram_matrix_power_options o = GRAM_MATRIX_POWER_OPTIONS_INIT;
    struct many_contexts c;
    struct many_list l;

    if (!many_fill(h, &l) || !many_open(h, &c, 3, cuda)) {
        free(l.entry);
        return;
    }
    o.numerator = -1, o.denominator = 2;
    l.many.error = l.error;
    *many_at(&l.entry[1].ta, 3, 1) = INFINITY;
    o.keep = 1;
    CHECK(h, gram_matrix_power_many(&c.group, &l.many, l.a, &o, l.vectors, l.info) == GRAM_OK, "%s",
          gram_message(c.g[0]));
    many_check_shares(h, &l, &c.group);
    for (int k = 0; k < MANY_COUNT; k++)
        if (k != 1)
            check_root(h, &l.entry[k], k);
    CHECK(h, l.entry[1].info == GRAM_POWER_NOT_FINITE && l.entry[1].v[0] == MANY_UNTOUCHED,
          "info %d, %g instead of what was kept", (int)l.entry[1].info, l.entry[1].v[0]);
    l.many.error = NULL;
    o.error = &l.entry[0].te;
    CHECK(h,
          gram_matrix_power_many(&c.group, &l.many, l.a, &o, l.vectors, l.info) ==
                  GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(c.g[0]), "gram_matrix_power_many: options.error"),
          "%s", gram_message(c.g[0]));
    many_close(&c);
    free(l.entry);
}

static void inverse_roots(struct harness *h)
{
    roots(h, false);
    if (many_on_cuda())
        roots(h, true);
}

static void refused(struct harness *h, const struct many_contexts *c, struct many_list *l,
                    const char *text)
{
    l->items[0].status = (gram_status)MANY_UNTOUCHED;
    CHECK(h, eigh(&c->group, l, NULL) == GRAM_INVALID_ARGUMENT, "not refused: %s", text);
    CHECK(h, strstr(gram_message(c->g[0]), text), "\"%s\", not \"%s\"", gram_message(c->g[0]),
          text);
    CHECK(h, l->items[0].status == (gram_status)MANY_UNTOUCHED, "items were written");
}

static void what_is_refused(struct harness *h)
{
    const double speeds[] = {1, 0};
    struct many_contexts c;
    struct many_list l;

    if (!many_fill(h, &l) || !many_open(h, &c, 2, false)) {
        free(l.entry);
        return;
    }
    CHECK(h, eigh(NULL, &l, NULL) == GRAM_INVALID_ARGUMENT, "no group");
    c.group.count = 0;
    CHECK(h, eigh(&c.group, &l, NULL) == GRAM_INVALID_ARGUMENT, "no contexts");
    c.group.count = 2;
    c.group.speeds = speeds;
    refused(h, &c, &l, "group.speeds[1] is 0");
    c.group.speeds = NULL;
    c.group.contexts = (gram_context *[]){c.g[0], c.g[0]};
    refused(h, &c, &l, "group.contexts[1] is the same as group.contexts[0]");
    c.group.contexts = (gram_context *[]){c.g[0], NULL};
    refused(h, &c, &l, "group.contexts[1] is NULL");
    c.group.contexts = c.g;
    l.many.count = -1;
    refused(h, &c, &l, "many.count is -1");
    l.many.count = MANY_COUNT;
    l.values[3] = NULL;
    refused(h, &c, &l, "values[3] is NULL");
    l.values[3] = &l.entry[2].tw;
    refused(h, &c, &l, "overlaps values[");
    l.values[3] = &l.entry[3].tw;
    l.entry[5].ta.dtype = (gram_dtype)99;
    refused(h, &c, &l, "a[5] has dtype 99");
    l.entry[5].ta.dtype = GRAM_F64;
    l.entry[5].ta.device.type = GRAM_CUDA;
    refused(h, &c, &l, "matrix 5 of the list is on a CUDA device");
    l.entry[5].ta.device.type = GRAM_CPU;
    l.many.count = 0;
    CHECK(h, eigh(&c.group, &l, NULL) == GRAM_OK, "an empty list: %s", gram_message(c.g[0]));
    many_close(&c);
    free(l.entry);
}

/* Whatever allocation fails, of the tables or in a context: no leak, and the others are done. */
static void without_memory(struct harness *h)
{
    struct failing_alloc alloc = FAILING_ALLOC_INIT;
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    struct many_contexts c;
    struct many_list l;
    gram_status status = GRAM_OUT_OF_MEMORY;

    if (!many_fill(h, &l) || !many_open(h, &c, 2, false)) {
        free(l.entry);
        return;
    }
    gram_context_destroy(c.g[0]);
    c.g[0] = NULL;
    o.threads = 1;
    failing_alloc_use(&alloc, &o);
    CHECK(h, gram_context_create(&o, &c.g[0]) == GRAM_OK, "%s", gram_message(NULL));
    for (int64_t fail_at = 1; status != GRAM_OK && fail_at < 100; fail_at++) {
        memset(l.items, 0, sizeof l.items);
        failing_alloc_reset(&alloc, fail_at);
        status = eigh(&c.group, &l, NULL);
        CHECK(h, status == GRAM_OK || status == GRAM_OUT_OF_MEMORY, "%s", gram_message(c.g[0]));
        for (int k = 0; fail_at > 1 && k < MANY_COUNT; k++)
            if (l.items[k].context == 1 || status == GRAM_OK)
                many_check_pairs(h, &l, k);
    }
    CHECK(h, status == GRAM_OK, "%s", gram_message(c.g[0]));
    many_close(&c);
    CHECK(h, alloc.live == 0 && alloc.wrong_releases == 0, "%lld blocks are left",
          (long long)alloc.live);
    free(l.entry);
}

/* Matrices on devices in turn: each result goes back to where its tensors are. */
static void matrices_on_devices(struct harness *h)
{
    struct many_entry *there[MANY_COUNT] = {NULL};
    struct many_contexts c;
    struct many_list l;

    if (!CHECK(h, many_fill(h, &l), "no memory") || !many_on_cuda() || !many_open(h, &c, 3, true)) {
        free(l.entry);
        return;
    }
    for (int k = 0; k < MANY_COUNT; k += 2) {
        gram_context *g = c.g[k / 2 % 3];
        gram_tensor *const moved[] = {&l.entry[k].ta, &l.entry[k].tv, &l.entry[k].tw,
                                      &l.entry[k].ti};
        void *memory;
        CHECK(h, gram_memory_allocate(g, sizeof(struct many_entry), &memory) == GRAM_OK, "%s",
              gram_message(g));
        CHECK(h, gram_memory_copy(g, memory, &l.entry[k], sizeof(struct many_entry)) == GRAM_OK,
              "%s", gram_message(g));
        there[k] = memory;
        for (int i = 0; i < LENGTH(moved); i++) {
            moved[i]->data = (char *)memory + ((char *)moved[i]->data - (char *)&l.entry[k]);
            moved[i]->device = gram_context_device(g);
        }
    }
    CHECK(h, eigh(&c.group, &l, NULL) == GRAM_OK, "%s", gram_message(c.g[0]));
    for (int k = 0; k < MANY_COUNT; k++) {
        gram_context *g = c.g[k / 2 % 3];
        struct many_entry *e = &l.entry[k];
        if (g && there[k]) {
            CHECK(h,
                  gram_memory_copy(g, e, there[k], offsetof(struct many_entry, ta)) == GRAM_OK &&
                      gram_context_synchronize(g) == GRAM_OK,
                  "%s", gram_message(g));
            gram_memory_free(g, there[k], sizeof(struct many_entry));
            e->tv.data = e->v;
        }
        many_check_pairs(h, &l, k);
    }
    many_close(&c);
    free(l.entry);
}

static const struct test_function tests[] = {
    {        "every_number_of_contexts",         every_number_of_contexts},
    {               "the_same_as_alone",                the_same_as_alone},
    {"one_that_fails_leaves_the_others", one_that_fails_leaves_the_others},
    {           "values_in_an_interval",            values_in_an_interval},
    {                   "inverse_roots",                    inverse_roots},
    {                 "what_is_refused",                  what_is_refused},
    {                  "without_memory",                   without_memory},
    {             "matrices_on_devices",              matrices_on_devices},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
