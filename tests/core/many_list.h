/*
 * many_list.h - a list of matrices for tests of calls that several contexts share, its checks
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_MANY_LIST_H
#define GRAM_TEST_MANY_LIST_H
#include "check/harness/harness.h"

enum {
    MANY_COUNT = 9,
    MANY_MOST = 70,
    MANY_CONTEXTS = 4,
    MANY_ROOM = MANY_MOST * MANY_MOST * 2,
    MANY_UNTOUCHED = 77
};

extern const int64_t many_orders[MANY_COUNT];

/* One matrix with everything that a call makes of it, in f64, on the CPU. */
struct many_entry {
    double a[MANY_ROOM], v[MANY_ROOM], w[MANY_MOST], error;
    int64_t found;
    int32_t info;
    gram_tensor ta, tv, tw, ti, tf, te;
};

struct many_list {
    struct many_entry *entry;
    const gram_tensor *a[MANY_COUNT];
    gram_tensor *values[MANY_COUNT], *vectors[MANY_COUNT], *info[MANY_COUNT], *found[MANY_COUNT],
        *error[MANY_COUNT];
    gram_many_item items[MANY_COUNT];
    gram_many many;
};

struct many_contexts {
    gram_context *g[MANY_CONTEXTS];
    gram_group group;
};

/* Element i, j of a matrix of the list, which is positive definite. */
double many_element(int64_t index, int64_t i, int64_t j);
double *many_at(const gram_tensor *t, int64_t i, int64_t j);
/* A new list; false without memory.  free(l->entry) */
bool many_fill(struct harness *h, struct many_list *l);
void many_check_pairs(struct harness *h, const struct many_list *l, int k);
void many_check_shares(struct harness *h, const struct many_list *l, const gram_group *group);
/* Whether the tests run on a CUDA device. */
bool many_on_cuda(void);
/* So many contexts of a thread each; on CUDA the devices in turn. */
bool many_open(struct harness *h, struct many_contexts *c, int count, bool cuda);
void many_close(struct many_contexts *c);
#endif
