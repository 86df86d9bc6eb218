/*
 * test_nccl_matmul.c - gram_kernel_matmul_multi and gram_krr_solve over NCCL, a thread and a GPU a
 * rank: against the CPU, and where a rank fails
 *
 * With as many ranks as there are GPUs, and fewer; the emulation has three.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_parts.h"
#include "matmul_parts.h"
#include "nccl_team.h"
#include <stdlib.h>
#include <string.h>

/* A rank's problem, and the tensors of it that are on its GPU. */
struct place {
    struct harness h; /* of its context */
    struct matmul_parts p;
    struct test_copy there[MATMUL_PARTS_TENSORS];
    gram_context *g;
    gram_status status;
    pthread_t thread;
};

static struct test_tensor *tensor_of(struct matmul_parts *p, int i)
{
    struct test_tensor *const all[MATMUL_PARTS_TENSORS] = {&p->x, &p->y, &p->v, &p->out};

    return all[i];
}

static void set(struct harness *h, struct place *s, const struct nccl_rank *r, int row)
{
    gram_tensor here[MATMUL_PARTS_TENSORS];

    *s = (struct place){.h = *h, .g = r->g};
    harness_seed(h, "nccl_matmul", row);
    matmul_parts_make(h, &s->p, &matmul_parts_table[row]);
    s->h.g = r->g, s->h.device = gram_context_device(r->g), s->h.failures = 0;
    s->g->matmul_form = matmul_parts_table[row].form;
    for (int i = 0; i < MATMUL_PARTS_TENSORS; i++) {
        struct test_tensor *t = tensor_of(&s->p, i);
        here[i] = t->t;
        CHECK(h, test_send(&s->h, t, &s->there[i]), "%s", gram_message(r->g));
        t->t = s->there[i].t;
    }
    matmul_parts_take(&s->p, r->c);
    for (int i = 0; i < MATMUL_PARTS_TENSORS; i++)
        tensor_of(&s->p, i)->t = here[i];
}

static void drop(struct harness *h, struct place *s)
{
    for (int i = 0; i < MATMUL_PARTS_TENSORS; i++)
        CHECK(h, test_fetch(&s->h, tensor_of(&s->p, i), &s->there[i]), "%s", gram_message(s->g));
    h->failures += s->h.failures;
}

static void *run(void *place)
{
    struct place *s = place;

    s->status = matmul_parts_multiply(s->g, &s->p);
    return NULL;
}

static void multiply(struct harness *h, struct place *all, int ranks)
{
    for (int i = 1; i < ranks; i++)
        if (pthread_create(&all[i].thread, NULL, run, &all[i]) != 0)
            exit(CHECK(h, false, "no thread"));
    run(&all[0]);
    for (int i = 1; i < ranks; i++)
        (void)pthread_join(all[i].thread, NULL);
}

/* One row of the table by all ranks. */
static void all_succeed(struct harness *h, struct nccl_team *t, int row)
{
    struct place all[NCCL_MOST];

    set(h, &all[0], &t->rank[0], row);
    for (int i = 1; i < t->ranks; i++)
        set(h, &all[i], &t->rank[i], row);
    multiply(h, all, t->ranks);
    for (int i = 0; i < t->ranks; i++) {
        CHECK(h, all[i].status == GRAM_OK, "rank %d: %s", i, gram_message(all[i].g));
        drop(h, &all[i]);
        matmul_parts_compare(h, &all[i].p);
        matmul_parts_drop(h, &all[i].p);
    }
}

static void parts_make_the_whole(struct harness *h)
{
    for (int ranks = 1; ranks <= nccl_gpus(h); ranks++) {
        struct nccl_team t;
        nccl_begin(h, &t, ranks);
        for (int row = 0; row < MATMUL_PARTS_ROWS; row++) {
            char name[64];
            snprintf(name, sizeof name, "row %d, %d ranks", row, ranks);
            h->where = name;
            all_succeed(h, &t, row);
        }
        nccl_end(&t);
    }
}

/* The backend of rank 0, which is broken. */
static const struct gram_backend *whole;

static gram_status failing_product(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    if (!g->measure)
        return gram_fail(g, GRAM_DEVICE_FAILED, "broken for the test");
    return whole->kernel_matmul(g, op);
}

static void a_rank_that_fails_ends_all(struct harness *h)
{
    for (int way = 0; way < 2; way++) {
        struct gram_backend broken;
        struct place all[NCCL_MOST];
        struct nccl_team t;
        nccl_begin(h, &t, nccl_gpus(h));
        set(h, &all[0], &t.rank[0], 4);
        for (int i = 1; i < t.ranks; i++)
            set(h, &all[i], &t.rank[i], 4);
        whole = all[0].g->backend, broken = *whole;
        broken.kernel_matmul = failing_product;
        if (way == 0)
            all[0].p.my_x.dtype = GRAM_F64 + 100;
        else
            all[0].g->backend = &broken;
        multiply(h, all, t.ranks);
        all[0].g->backend = whole;
        for (int i = 0; i < t.ranks; i++) {
            const char *text = i > 0      ? "rank 0 failed with GRAM_"
                               : way == 0 ? "x has dtype"
                                          : "broken for the test";
            CHECK(h,
                  all[i].status == (way == 0 ? GRAM_INVALID_ARGUMENT : GRAM_DEVICE_FAILED) &&
                      strstr(gram_message(all[i].g), text),
                  "rank %d: %s", i, gram_message(all[i].g));
            drop(h, &all[i]);
            matmul_parts_drop(h, &all[i].p);
        }
        if (way == 1) {
            nccl_disconnect(&t);
            nccl_connect(h, &t, NULL);
        }
        all_succeed(h, &t, 4);
        nccl_end(&t);
    }
}

/* ---- Solves ---------------------------------------------------------------------------------- */

struct solve {
    struct harness h; /* of the rank's context */
    struct krr_parts p;
    struct test_copy there[KRR_PARTS_TENSORS];
    gram_status status;
    pthread_t thread;
};

static struct test_tensor *part_of(struct krr_parts *p, int i)
{
    struct test_tensor *const all[KRR_PARTS_TENSORS] = {&p->x, &p->y, &p->weights, &p->alpha};

    return all[i];
}

static void set_solve(struct harness *h, struct solve *s, const struct nccl_rank *r, int row)
{
    gram_tensor here[KRR_PARTS_TENSORS];

    s->h = *h;
    harness_seed(h, "nccl_krr", row);
    krr_parts_make(h, &s->p, &krr_parts_table[row]);
    s->h.g = r->g, s->h.device = gram_context_device(r->g), s->h.failures = 0;
    for (int i = 0; i < KRR_PARTS_TENSORS; i++) {
        struct test_tensor *t = part_of(&s->p, i);
        here[i] = t->t;
        CHECK(h, test_send(&s->h, t, &s->there[i]), "%s", gram_message(r->g));
        t->t = s->there[i].t;
    }
    krr_parts_take(&s->p, r->c);
    for (int i = 0; i < KRR_PARTS_TENSORS; i++)
        part_of(&s->p, i)->t = here[i];
}

static void *run_solve(void *solve)
{
    struct solve *s = solve;

    s->status = krr_parts_solve(s->h.g, &s->p);
    return NULL;
}

static void solves_are_shared(struct harness *h)
{
    static struct solve all[NCCL_MOST]; /* large */
    struct nccl_team t;

    nccl_begin(h, &t, nccl_gpus(h));
    for (int row = 1; row < 5; row += 3) {
        for (int i = 0; i < t.ranks; i++)
            set_solve(h, &all[i], &t.rank[i], row);
        for (int i = 1; i < t.ranks; i++)
            if (pthread_create(&all[i].thread, NULL, run_solve, &all[i]) != 0)
                exit(CHECK(h, false, "no thread"));
        run_solve(&all[0]);
        for (int i = 0; i < t.ranks; i++) {
            if (i > 0)
                (void)pthread_join(all[i].thread, NULL);
            CHECK(h, all[i].status == GRAM_OK, "rank %d: %s", i, gram_message(all[i].h.g));
            for (int k = 0; k < KRR_PARTS_TENSORS; k++)
                CHECK(h, test_fetch(&all[i].h, part_of(&all[i].p, k), &all[i].there[k]), "%s",
                      gram_message(all[i].h.g));
            krr_parts_compare(h, &all[i].p);
            krr_parts_drop(h, &all[i].p);
        }
    }
    nccl_end(&t);
}

int main(void)
{
    static const struct test_function tests[] = {
        {      "parts make the whole",       parts_make_the_whole},
        {"a rank that fails ends all", a_rank_that_fails_ends_all},
        {         "solves are shared",          solves_are_shared},
    };

    if (gram_best_device().type != GRAM_CUDA) {
        puts("skipped: no CUDA device");
        return 77;
    }
    return harness_run_tests(tests, LENGTH(tests));
}
