/*
 * nccl_team.h - ranks over NCCL, a thread and a GPU each, and their parts of a product
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_NCCL_TEAM_H
#define GRAM_TEST_NCCL_TEAM_H
#include "kron_parts.h"
#include <pthread.h>

enum {
    NCCL_MOST = 3
};

/* A rank: its context, and its part of a product with everything it needs on its GPU. */
struct nccl_rank {
    gram_context *g;
    gram_communicator *c;
    struct kron_parts p;
    gram_tensor factor[6];
    const gram_tensor *factors[6];
    struct test_tensor *tensor[9]; /* what is on the GPU, and where */
    void *there[9];
    int tensors;
    gram_status status;
    pthread_t thread;
};

struct nccl_team {
    struct nccl_rank rank[NCCL_MOST];
    int ranks;
};

/* GPUs that the tests use. */
int nccl_gpus(struct harness *h);
void nccl_begin(struct harness *h, struct nccl_team *t, int ranks);
void nccl_end(struct nccl_team *t);
/* New communicators of the contexts that are there, and their end. */
void nccl_connect(struct harness *h, struct nccl_team *t, const gram_nccl_options *options);
void nccl_disconnect(struct nccl_team *t);
/* Every rank's part of one product, made from one seed; the whole is computed here. */
void nccl_set(struct harness *h, struct nccl_team *t, const struct kron_parts_row *row, int number,
              gram_kron_split split);
void nccl_drop(struct harness *h, struct nccl_team *t);
/* A rank's call, alone. */
void *nccl_run(void *rank);
/* Runs what was set, and drops it; y is as it should be on all ranks. */
void nccl_all_succeed(struct harness *h, struct nccl_team *t);
/* Every rank gets status, rank 0 with own in its message, the others with other; nobody writes. */
void nccl_all_refuse(struct harness *h, struct nccl_team *t, gram_status status, const char *own,
                     const char *other);
#endif
