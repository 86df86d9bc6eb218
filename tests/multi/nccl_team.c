/*
 * nccl_team.c - ranks over NCCL, a thread and a GPU each, and their parts of a product
 *
 * SPDX-License-Identifier: MIT
 */
#include "nccl_team.h"
#include "check/harness/device_memory.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int nccl_gpus(struct harness *h)
{
    gram_info info = {.size = sizeof info};

    CHECK(h, gram_context_info(h->g, &info) == GRAM_OK, "%s", gram_message(h->g));
    return info.cuda_devices < NCCL_MOST ? info.cuda_devices : NCCL_MOST;
}

/* ---- Ranks ---------------------------------------------------------------------------------- */

void nccl_connect(struct harness *h, struct nccl_team *t, const gram_nccl_options *options)
{
    gram_context *contexts[NCCL_MOST] = {NULL};
    gram_communicator *c[NCCL_MOST];

    for (int i = 0; i < t->ranks; i++)
        contexts[i] = t->rank[i].g;
    CHECK(h, gram_communicator_create_nccl_all(contexts, t->ranks, options, c) == GRAM_OK, "%s",
          gram_message(contexts[0]));
    for (int i = 0; i < t->ranks; i++) {
        t->rank[i].c = c[i];
        CHECK(h,
              c[i] && gram_communicator_rank(c[i]) == i && gram_communicator_size(c[i]) == t->ranks,
              "rank %d", i);
    }
}

/* Of this device, kept: where streams are emulated, devices share the default one. */
static void *stream_of(struct harness *h, int device)
{
    static void *streams[NCCL_MOST];

    if (!streams[device] && CHECK(h, device_open(device), "no device %d", device))
        streams[device] = device_stream();
    CHECK(h, streams[device], "no stream on device %d", device);
    return streams[device];
}

void nccl_begin(struct harness *h, struct nccl_team *t, int ranks)
{
    *t = (struct nccl_team){.ranks = ranks};
    for (int i = 0; i < ranks; i++) {
        gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
        o.device = (gram_device){GRAM_CUDA, i};
        o.stream = stream_of(h, i);
        CHECK(h, gram_context_create(&o, &t->rank[i].g) == GRAM_OK, "%s", gram_message(NULL));
    }
    nccl_connect(h, t, NULL);
}

void nccl_disconnect(struct nccl_team *t)
{
    for (int i = 0; i < t->ranks; i++) {
        gram_communicator_destroy(t->rank[i].c);
        t->rank[i].c = NULL;
    }
}

void nccl_end(struct nccl_team *t)
{
    nccl_disconnect(t);
    for (int i = 0; i < t->ranks; i++)
        gram_context_destroy(t->rank[i].g);
}

/* ---- Problems on the GPUs -------------------------------------------------------------------- */

static char *first_byte(const struct test_tensor *t)
{
    return (char *)t->mapping + sysconf(_SC_PAGESIZE);
}

static size_t byte_count(const struct test_tensor *t)
{
    return t->mapping_bytes - 2 * (size_t)sysconf(_SC_PAGESIZE);
}

static void send(struct harness *h, struct nccl_rank *r, struct test_tensor *from,
                 gram_tensor *part)
{
    void *memory = NULL;

    CHECK(h,
          gram_memory_allocate(r->g, byte_count(from), &memory) == GRAM_OK &&
              gram_memory_copy(r->g, memory, first_byte(from), byte_count(from)) == GRAM_OK,
          "%s", gram_message(r->g));
    r->tensor[r->tensors] = from;
    r->there[r->tensors++] = memory;
    part->data = memory ? (char *)memory + ((char *)part->data - first_byte(from)) : NULL;
    part->device = gram_context_device(r->g);
}

static void fetch(struct harness *h, struct nccl_rank *r)
{
    CHECK(h, gram_context_synchronize(r->g) == GRAM_OK, "%s", gram_message(r->g));
    for (int i = 0; i < r->tensors; i++) {
        struct test_tensor *t = r->tensor[i];
        CHECK(h, gram_memory_copy(r->g, first_byte(t), r->there[i], byte_count(t)) == GRAM_OK, "%s",
              gram_message(r->g));
        CHECK(h, gram_context_synchronize(r->g) == GRAM_OK, "%s", gram_message(r->g));
        gram_memory_free(r->g, r->there[i], byte_count(t));
    }
    r->tensors = 0;
}

void nccl_set(struct harness *h, struct nccl_team *t, const struct kron_parts_row *row, int number,
              gram_kron_split split)
{
    for (int i = 0; i < t->ranks; i++) {
        struct nccl_rank *r = &t->rank[i];
        struct kron_parts *p = &r->p;
        harness_seed(h, "nccl_kron", number);
        kron_parts_make(h, p, row);
        CHECK(h,
              gram_kron_matmul(h->g, &p->x.t, p->factors, p->count, &p->options, &p->whole.t) ==
                  GRAM_OK,
              "%s", gram_message(h->g));
        kron_parts_spoil(p);
        kron_parts_take(h, p, r->c, split);
        send(h, r, &p->x, &p->my_x);
        send(h, r, &p->y, &p->my_y);
        if (row->beta != 0)
            send(h, r, &p->z, &p->my_z);
        for (int f = 0; f < p->count; f++) {
            r->factor[f] = p->factor[f].t;
            send(h, r, &p->factor[f], &r->factor[f]);
            r->factors[f] = &r->factor[f];
        }
    }
}

void *nccl_run(void *rank)
{
    struct nccl_rank *r = rank;

    r->status =
        gram_kron_matmul_multi(r->g, &r->p.my_x, r->factors, r->p.count, &r->p.options, &r->p.my_y);
    return NULL;
}

static void multiply(struct harness *h, struct nccl_team *t)
{
    for (int i = 1; i < t->ranks; i++)
        if (pthread_create(&t->rank[i].thread, NULL, nccl_run, &t->rank[i]) != 0)
            exit(CHECK(h, false, "no thread"));
    nccl_run(&t->rank[0]);
    for (int i = 1; i < t->ranks; i++)
        (void)pthread_join(t->rank[i].thread, NULL);
}

void nccl_drop(struct harness *h, struct nccl_team *t)
{
    for (int i = 0; i < t->ranks; i++) {
        fetch(h, &t->rank[i]);
        kron_parts_drop(h, &t->rank[i].p);
    }
}

void nccl_all_succeed(struct harness *h, struct nccl_team *t)
{
    multiply(h, t);
    for (int i = 0; i < t->ranks; i++) {
        struct nccl_rank *r = &t->rank[i];
        CHECK(h, r->status == GRAM_OK, "rank %d: %s", i, gram_message(r->g));
        fetch(h, r);
        kron_parts_compare(h, &r->p);
    }
    nccl_drop(h, t);
}

void nccl_all_refuse(struct harness *h, struct nccl_team *t, gram_status status, const char *own,
                     const char *other)
{
    multiply(h, t);
    for (int i = 0; i < t->ranks; i++) {
        struct nccl_rank *r = &t->rank[i];
        const char *text = i == 0 ? own : other;
        CHECK(h, r->status == status, "rank %d: %s: %s", i, gram_status_name(r->status),
              gram_message(r->g));
        CHECK(h, strstr(gram_message(r->g), text), "rank %d: \"%s\", expected \"%s\"", i,
              gram_message(r->g), text);
        fetch(h, r);
        for (int64_t e = 0; e < test_count(&r->p.y.t); e++)
            if (!CHECK(h, test_at(&r->p.y.t, e) == 77, "rank %d: y was written", i))
                break;
    }
    nccl_drop(h, t);
}
