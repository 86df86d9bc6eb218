/*
 * many_list.c - a list of matrices for tests of calls that several contexts share, its checks
 *
 * SPDX-License-Identifier: MIT
 */
#include "many_list.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const int64_t many_orders[MANY_COUNT] = {5, 40, 3, MANY_MOST, 17, 40, 1, 64, 33};

double many_element(int64_t index, int64_t i, int64_t j)
{
    return (i == j ? 3 + (double)(i + index) : 0) + 1 / (double)(1 + i + j);
}

/* Odd ones have columns one after the other and gaps between them. */
static gram_tensor matrix_of(double *data, int64_t n, bool odd)
{
    gram_tensor t = gram_matrix(data, n, n, GRAM_F64);

    if (odd)
        t.stride[0] = 1, t.stride[1] = n + 3;
    return t;
}

double *many_at(const gram_tensor *t, int64_t i, int64_t j)
{
    return (double *)t->data + i * t->stride[0] + j * t->stride[1];
}

bool many_fill(struct harness *h, struct many_list *l)
{
    *l = (struct many_list){.many = GRAM_MANY_INIT};
    l->entry = calloc(MANY_COUNT, sizeof *l->entry);
    if (!CHECK(h, l->entry, "no memory") || !l->entry)
        return false;
    for (int k = 0; k < MANY_COUNT; k++) {
        struct many_entry *e = &l->entry[k];
        e->ta = matrix_of(e->a, many_orders[k], k % 2);
        e->tv = matrix_of(e->v, many_orders[k], k % 3 == 1);
        e->tw = gram_vector(e->w, many_orders[k], GRAM_F64);
        e->ti = gram_vector(&e->info, 1, GRAM_I32);
        e->tf = gram_vector(&e->found, 1, GRAM_I64);
        e->te = gram_vector(&e->error, 1, GRAM_F64);
        e->ti.ndim = e->tf.ndim = e->te.ndim = 0;
        for (int i = 0; i < MANY_ROOM; i++)
            e->a[i] = e->v[i] = MANY_UNTOUCHED;
        for (int64_t i = 0; i < many_orders[k]; i++)
            for (int64_t j = 0; j < many_orders[k]; j++)
                *many_at(&e->ta, i, j) = j <= i ? many_element(k, i, j) : NAN;
        l->a[k] = &e->ta, l->values[k] = &e->tw, l->vectors[k] = &e->tv;
        l->info[k] = &e->ti, l->found[k] = &e->tf, l->error[k] = &e->te;
        e->info = MANY_UNTOUCHED;
    }
    l->many.count = MANY_COUNT;
    l->many.items = l->items;
    return true;
}

/* |A V - V W| and the elements that lie between the columns of V. */
void many_check_pairs(struct harness *h, const struct many_list *l, int k)
{
    const struct many_entry *e = &l->entry[k];
    int64_t n = many_orders[k];
    double worst = 0;

    CHECK(h, l->items[k].status == GRAM_OK && !l->items[k].message[0], "%d: %s", k,
          l->items[k].message);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t s = 0; s < n; s++)
                sum += many_element(k, i, s) * *many_at(&e->tv, s, j);
            worst = fmax(worst, fabs(sum - e->w[j] * *many_at(&e->tv, i, j)));
        }
    CHECK(h, worst < 100 * (double)n * (double)n * DBL_EPSILON, "%d: residual %g", k, worst);
    CHECK(h, e->info == 0, "%d: info %d", k, (int)e->info);
    for (int64_t j = 0; k % 3 == 1 && j < n; j++)
        for (int64_t i = n; i < n + 3; i++)
            CHECK(h, *many_at(&e->tv, i, j) == MANY_UNTOUCHED, "%d: between the columns", k);
}

/* Who takes which, found anew: the longest that is left, to whoever ends first with it. */
void many_check_shares(struct harness *h, const struct many_list *l, const gram_group *group)
{
    double load[MANY_CONTEXTS] = {0};
    bool taken[MANY_COUNT] = {false};

    for (int round = 0; round < MANY_COUNT; round++) {
        int longest = -1, best = 0;
        for (int k = 0; k < MANY_COUNT; k++)
            if (!taken[k] && (longest < 0 || many_orders[k] > many_orders[longest]))
                longest = k;
        taken[longest] = true;
        double cost = pow((double)many_orders[longest], 3), soonest = INFINITY;
        for (int c = 0; c < group->count; c++) {
            double end = (load[c] + cost) / (group->speeds ? group->speeds[c] : 1);
            if (end < soonest)
                soonest = end, best = c;
        }
        load[best] += cost;
        CHECK(h, l->items[longest].context == best, "matrix %d is with context %d, not %d", longest,
              (int)l->items[longest].context, best);
    }
}

/* ---- Contexts ------------------------------------------------------------------------------- */

bool many_on_cuda(void)
{
    const char *device = getenv("GRAM_TEST_DEVICE");

    return device && strcmp(device, "cuda") == 0 && gram_best_device().type == GRAM_CUDA;
}

void many_close(struct many_contexts *c)
{
    for (int i = 0; i < MANY_CONTEXTS; i++)
        gram_context_destroy(c->g[i]);
}

/* So many contexts of a thread each; on CUDA the devices in turn. */
bool many_open(struct harness *h, struct many_contexts *c, int count, bool cuda)
{
    gram_info info = {.size = sizeof info};

    *c = (struct many_contexts){.group = GRAM_GROUP_INIT};
    CHECK(h, gram_context_info(h->g, &info) == GRAM_OK, "%s", gram_message(h->g));
    for (int i = 0; i < count; i++) {
        gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
        o.threads = 1;
        if (cuda)
            o.device = (gram_device){GRAM_CUDA, i % info.cuda_devices};
        if (!CHECK(h, gram_context_create(&o, &c->g[i]) == GRAM_OK, "%s", gram_message(NULL))) {
            many_close(c);
            return false;
        }
    }
    c->group.contexts = c->g;
    c->group.count = count;
    return true;
}
