/*
 * harness_problem.c - one problem of `gram check|bench|profile`, where the context computes
 *
 * A problem is made in the host's memory.  For a GPU each of its tensors gets a copy there, and the
 * two change places: run sees the copies, error sees what came back.
 *
 * SPDX-License-Identifier: MIT
 */
#include "harness_problem.h"
#include <math.h>

int problem_status(gram_status status)
{
    return status == GRAM_OUT_OF_MEMORY ? HARNESS_NO_MEMORY
           : status == GRAM_OK          ? HARNESS_RIGHT
                                        : HARNESS_WRONG;
}

/* From the first byte to the last one; problems have no negative strides. */
static size_t byte_count(const gram_tensor *t)
{
    int64_t last = 0;

    for (int d = 0; d < t->ndim; d++) {
        if (t->shape[d] == 0)
            return 0;
        last += (t->shape[d] - 1) * t->stride[d];
    }
    return (size_t)(last + 1) * gram_dtype_size(t->dtype);
}

static void change_places(struct problem *p)
{
    for (int i = 0; i < p->count; i++) {
        gram_tensor now = *p->made.tensors[i];
        *p->made.tensors[i] = p->other[i];
        p->other[i] = now;
    }
}

/* Copies every tensor to its other side, and waits. */
static gram_status copy_all(struct harness *h, const struct problem *p)
{
    gram_status status = GRAM_OK;

    for (int i = 0; i < p->count && status == GRAM_OK; i++) {
        const gram_tensor *from = p->made.tensors[i];
        status = gram_memory_copy(h->g, p->other[i].data, from->data, byte_count(from));
    }
    return status == GRAM_OK ? gram_context_synchronize(h->g) : status;
}

/* The copies of a problem whose tensors are on the host. */
static void free_copies(struct harness *h, struct problem *p)
{
    for (int i = 0; i < p->count; i++)
        gram_memory_free(h->g, p->other[i].data, byte_count(&p->other[i]));
    p->count = 0;
}

gram_status problem_send(struct harness *h, struct problem *p)
{
    gram_status status = GRAM_OK;

    if (h->device.type == GRAM_CPU)
        return GRAM_OK;
    for (int i = 0; i < CASE_TENSORS && p->made.tensors[i] && status == GRAM_OK; i++) {
        gram_tensor *copy = &p->other[i];
        *copy = *p->made.tensors[i];
        copy->device = h->device;
        status = gram_memory_allocate(h->g, byte_count(copy), &copy->data);
        p->count += status == GRAM_OK;
    }
    if (status == GRAM_OK)
        status = copy_all(h, p);
    if (status == GRAM_OK)
        change_places(p);
    else
        free_copies(h, p);
    return status;
}

gram_status problem_fetch(struct harness *h, struct problem *p)
{
    gram_status status = copy_all(h, p);

    change_places(p);
    free_copies(h, p);
    return status;
}

int problem_open(struct harness *h, const struct request *r, struct problem *p)
{
    gram_status status;

    *p = (struct problem){.count = 0};
    harness_seed(h, r->op->name, 0);
    h->where = r->op->name;
    if (!r->op->prepare(h, &r->args, &p->made)) {
        /* Behind what prepare has said. */
        fprintf(stderr, "%s: this problem could not be made\n", r->op->name);
        return h->no_memory ? HARNESS_NO_MEMORY : HARNESS_USAGE;
    }
    status = problem_send(h, p);
    if (status == GRAM_OK)
        return HARNESS_RIGHT;
    fprintf(stderr, "%s\n", gram_message(h->g));
    p->made.destroy(p->made.state);
    return problem_status(status);
}

gram_status problem_run(struct harness *h, struct problem *p)
{
    gram_status status = p->made.run(h->g, p->made.state);

    if (status == GRAM_OK)
        status = gram_context_synchronize(h->g);
    if (status == GRAM_OUT_OF_MEMORY && !*gram_message(h->g))
        (void)harness_no_memory(h, "the work"); /* it was no call of the library */
    else if (status != GRAM_OK)
        fprintf(stderr, "%s\n", gram_message(h->g));
    return status;
}

double problem_error(struct harness *h, struct problem *p)
{
    double error = INFINITY;

    if (copy_all(h, p) != GRAM_OK) {
        fprintf(stderr, "%s\n", gram_message(h->g));
        return error;
    }
    change_places(p);
    error = p->made.error(h, p->made.state);
    change_places(p);
    return error;
}

void problem_close(struct harness *h, struct problem *p)
{
    change_places(p);
    free_copies(h, p);
    p->made.destroy(p->made.state);
}
