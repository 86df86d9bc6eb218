/*
 * mpi_kron_problem.h - products with Kronecker factors of which every rank has a part
 *
 * Every rank makes the whole from one seed.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MPI_KRON_PROBLEM_H
#define GRAM_MPI_KRON_PROBLEM_H
#include "mpi_ranks.h"
#ifdef GRAM_TEST_MPI
#  include <string.h>

/* One product; a size of 0 ends the factors. */
struct row {
    int64_t m, in[6], out[6], items; /* items 0: no batch */
    gram_dtype dtype;
    bool left, transposed; /* the factors are on the left; they are given transposed */
    double alpha, beta;
    enum layout layout; /* of x, y and z */
};

struct problem {
    const struct row *row;
    int count;
    struct test_tensor x, y, z, whole, factor[6];
    const gram_tensor *factors[6];
    gram_kron_options options;
    gram_kron_part part;
    gram_tensor my_x, my_y, my_z;
};

static void make(struct harness *h, struct test_tensor *t, const struct row *row,
                 const int64_t shape[2])
{
    int64_t with_items[3] = {row->items, shape[0], shape[1]};
    bool batch = row->items > 0;

    test_tensor_create(h, t, row->dtype, row->layout, batch ? 3 : 2, batch ? with_items : shape);
    if (row->dtype == GRAM_I32 || row->dtype == GRAM_I64)
        test_fill_integers(h, t, 2000000000);
    else
        test_fill_uniform(h, t, -1, 1);
}

static void setup(struct harness *h, struct problem *p, const struct row *row)
{
    int64_t in = 1, out = 1;

    *p = (struct problem){.row = row, .options = GRAM_KRON_OPTIONS_INIT};
    for (; p->count < 6 && row->in[p->count] > 0; p->count++) {
        struct row plain = {.dtype = row->dtype, .layout = ROW_MAJOR};
        int64_t shape[2] = {row->in[p->count], row->out[p->count]};
        if (row->left != row->transposed)
            shape[0] = row->out[p->count], shape[1] = row->in[p->count];
        make(h, &p->factor[p->count], &plain, shape);
        p->factors[p->count] = &p->factor[p->count].t;
        in *= row->in[p->count], out *= row->out[p->count];
    }
    make(h, &p->x, row, row->left ? (int64_t[]){in, row->m} : (int64_t[]){row->m, in});
    for (int i = 0; i < 3; i++) {
        struct test_tensor *const like[] = {&p->y, &p->z, &p->whole};
        make(h, like[i], row, row->left ? (int64_t[]){out, row->m} : (int64_t[]){row->m, out});
    }
    p->options.alpha.value = row->alpha;
    p->options.beta.value = row->beta;
    p->options.side = row->left ? GRAM_LEFT : GRAM_RIGHT;
    p->options.transpose_factors = row->transposed ? UINT32_MAX : 0;
    if (row->beta != 0)
        p->options.z = &p->z.t;
}

static void drop(struct harness *h, struct problem *p)
{
    struct test_tensor *const all[] = {&p->x, &p->y, &p->z, &p->whole};

    for (int i = 0; i < LENGTH(all); i++)
        test_tensor_destroy(h, all[i], "a tensor");
    for (int i = 0; i < p->count; i++)
        test_tensor_destroy(h, &p->factor[i], "a factor");
}

/* Rows and columns of t, which are exchanged if the factors are on the left. */
static gram_tensor block(const gram_tensor *t, bool left, const int64_t first[2],
                         const int64_t shape[2])
{
    gram_tensor r = *t;
    int64_t offset = 0;

    for (int i = 0; i < 2; i++) {
        int d = t->ndim - 2 + (left ? 1 - i : i);
        r.shape[d] = shape[i];
        offset += first[i] * t->stride[d];
    }
    r.data = (char *)t->data + offset * (int64_t)gram_dtype_size(t->dtype);
    return r;
}

static void take_part(struct harness *h, struct problem *p, gram_kron_split split)
{
    const gram_kron_part *part = &p->part;
    bool left = p->row->left;
    int64_t at[2], shape[2];

    p->options.communicator = mpi_ranks(h);
    p->options.split = split;
    CHECK(h,
          gram_kron_matmul_part(h->g, p->row->m, p->factors, p->count, &p->options, &p->part) ==
              GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, part->split == split, "split %d", (int)part->split);
    at[0] = part->first_row, at[1] = part->first_column;
    shape[0] = part->rows, shape[1] = part->columns;
    p->my_x = block(&p->x.t, left, at, shape);
    at[1] = part->first_out, shape[1] = part->outs;
    p->my_y = block(&p->y.t, left, at, shape);
    p->my_z = block(&p->z.t, left, at, shape);
    if (p->row->beta != 0)
        p->options.z = &p->my_z;
}

/* What a y that nobody has written to holds. */
static void spoil(struct problem *p)
{
    for (int64_t i = 0; i < test_count(&p->y.t); i++)
        test_put(&p->y.t, i, 77);
}

static const struct row square = {
    .m = 6, .in = {6, 6, 6},
         .out = {6, 6, 6},
         .dtype = GRAM_F64, .alpha = 1
};

static void set(struct harness *h, struct problem *p, gram_kron_split split)
{
    harness_seed(h, "mpi_kron", 100);
    setup(h, p, &square);
    take_part(h, p, split);
    spoil(p);
}

static gram_status multiply(struct harness *h, struct problem *p)
{
    return gram_kron_matmul_multi(h->g, &p->my_x, p->factors, p->count, &p->options, &p->my_y);
}

#endif
#endif
