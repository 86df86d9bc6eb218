/*
 * case_kfac_factors.c - the rows of gram_kfac_factors
 *
 * A block of positions has 256 of them or more (up to 2 MiB).
 *
 * SPDX-License-Identifier: MIT
 */
#include "layer_problem.h"
#include <math.h>
#include <stdlib.h>

struct kfac_row {
    struct layer_row layer;
    bool reduced;
    double scale, keep; /* scale 0: 1 */
    int wanted;         /* 0: both; 1: A; 2: B */
    const char *why;
};

/* clang-format off */
static const struct kfac_row rows[] = {
    {{LINEAR(1, 1, 1), .dtype = GRAM_F32}, .why = "smallest"},
    {{LINEAR(6, 5, 4), .bias = true, .dtype = GRAM_F64}, .why = "no sequence"},
    {{LINEAR(6, 5, 4), .dims = 1, .size = {3}, .bias = true, .dtype = GRAM_F32}, .scale = 18,
     .why = "a mean over positions"},
    {{LINEAR(6, 5, 4), .dims = 1, .size = {3}, .bias = true, .dtype = GRAM_F64}, .reduced = true,
     .scale = 6, .why = "reduced"},
    {{LINEAR(4, 9, 7), .dims = 2, .size = {3, 2}, .layout = {COLUMN_MAJOR, EVERY_SECOND},
      .out_layout = PADDED, .bias = true, .dtype = GRAM_F64}, .keep = 0.75,
     .why = "strides, an average that moves"},
    {{LINEAR(4, 9, 7), .dims = 2, .size = {3, 2}, .layout = {PADDED, REVERSED},
      .out_layout = EVERY_SECOND, .dtype = GRAM_F32}, .reduced = true, .keep = 0.5,
     .why = "the same, reduced"},
    {{LINEAR(40, 5, 3), .dims = 1, .size = {200}, .dtype = GRAM_F32}, .why = "two blocks"},
    {{LINEAR(3, 700, 3), .dims = 1, .size = {900}, .dtype = GRAM_F64}, .wanted = 2,
     .why = "only B"},
    {{LINEAR(3, 12, 3), .dims = 1, .size = {4}, .bias = true, .dtype = GRAM_F16}, .wanted = 1,
     .why = "only A, of halves"},
    {{LINEAR(0, 3, 4), .dims = 1, .size = {2}, .bias = true, .dtype = GRAM_F64}, .keep = 0.5,
     .why = "no samples keep their part"},
    {{LINEAR(2, 3, 4), .dims = 1, .size = {0}, .bias = true, .dtype = GRAM_F64},
     .why = "no positions"},
    {{LINEAR(2, 3, 4), .dims = 1, .size = {0}, .bias = true, .dtype = GRAM_F64}, .reduced = true,
     .why = "no positions, reduced"},
    {{LINEAR(2, 0, 4), .bias = true, .dtype = GRAM_F32}, .why = "only the bias"},
    {{LINEAR(2, 3, 0), .dtype = GRAM_F32}, .why = "no outputs"},
    {{CONVOLUTION(3, 2, 4, 1), .size = {9}, .kernel = {3}, .bias = true, .dtype = GRAM_F64},
     .why = "one dimension"},
    {{CONVOLUTION(2, 3, 5, 2), .size = {7, 6}, .kernel = {3, 2}, .padding = {1, 1},
      .stride = {2, 1}, .bias = true, .dtype = GRAM_F32}, .scale = 2, .why = "two dimensions"},
    {{CONVOLUTION(2, 3, 5, 2), .size = {7, 6}, .kernel = {3, 2}, .padding = {1, 1},
      .dilation = {1, 2}, .bias = true, .dtype = GRAM_F64}, .reduced = true, .why = "reduced"},
    {{CONVOLUTION(2, 4, 6, 2), .size = {5, 5}, .kernel = {3, 3}, .padding = {1, 1}, .groups = 2,
      .bias = true, .dtype = GRAM_F64}, .keep = 0.9, .why = "two groups"},
    {{CONVOLUTION(2, 3, 3, 3), .size = {3, 4, 3}, .kernel = {2, 1, 2}, .groups = 3,
      .layout = {REVERSED, COLUMN_MAJOR}, .dtype = GRAM_F32}, .reduced = true,
     .why = "three dimensions, reduced, in groups"},
    {{CONVOLUTION(2, 4, 5, 2), .size = {3, 3}, .bias = true, .dtype = GRAM_BF16},
     .why = "a kernel of one position"},
    {{CONVOLUTION(3, 30, 2, 2), .size = {20, 20}, .kernel = {3, 3}, .padding = {1, 1},
      .dtype = GRAM_F32}, .wanted = 1, .why = "blocks of patches"},
    {{LINEAR(5, 70, 66), .dims = 1, .size = {9}, .bias = true, .dtype = GRAM_F64}, .keep = 0.5,
     .why = "more than a tile"},
    {{LINEAR(5, 70, 66), .dims = 1, .size = {9}, .bias = true, .dtype = GRAM_BF16}, .keep = 0.5,
     .why = "the same, of halves"},
    {{LINEAR(4, 64, 72), .dims = 1, .size = {6}, .layout = {PADDED, ROW_MAJOR},
      .dtype = GRAM_F16}, .scale = 2, .why = "halves with gaps"},
    {{LINEAR(5, 64, 66), .dims = 1, .size = {3}, .dtype = GRAM_F16}, .reduced = true,
     .why = "halves, reduced"},
    {{LINEAR(300, 65, 3), .bias = true, .dtype = GRAM_F32}, .reduced = true, .wanted = 1,
     .why = "more than a tile and a block"},
    {{CONVOLUTION(2, 9, 3, 2), .size = {17, 16}, .kernel = {3, 3}, .padding = {1, 2},
      .stride = {2, 1}, .bias = true, .dtype = GRAM_F64}, .why = "patches of more than a tile"},
    {{EMBEDDING(3, 5, 4, GRAM_I64), .dims = 1, .size = {6}, .dtype = GRAM_F32}, .keep = 0.5,
     .why = "rows"},
    {{EMBEDDING(3, 5, 4, GRAM_I32), .dims = 1, .size = {6}, .padding_row = 2, .dtype = GRAM_F64,
      .layout = {EVERY_SECOND, PADDED}, .out_layout = REVERSED}, .why = "a padding row"},
    {{EMBEDDING(3, 5, 4, GRAM_I32), .dims = 1, .size = {6}, .padding_row = 2, .dtype = GRAM_F64},
     .reduced = true, .why = "the same, reduced"},
};
/* clang-format on */

struct problem {
    const struct kfac_row *row;
    struct layer_problem p;
    struct test_tensor out[2];       /* A, B */
    struct test_copy from[2], to[2]; /* a and g, A and B, where the device is */
    int64_t order[2];
};

static void label(int row, char *text, size_t size)
{
    layer_label(&rows[row].layer, rows[row].why, text, size);
}

static bool wants(const struct kfac_row *row, int side)
{
    return row->wanted == 0 || row->wanted == side + 1;
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    gram_kfac_factors_options o = GRAM_KFAC_FACTORS_OPTIONS_INIT;
    bool table = q->row->layer.kind == GRAM_LAYER_EMBEDDING;
    const gram_tensor *a = wants(q->row, 0) || table ? &q->from[0].t : NULL;
    const gram_tensor *d = wants(q->row, 1) ? &q->from[1].t : NULL;
    gram_tensor *const to[2] = {wants(q->row, 0) ? &q->to[0].t : NULL,
                                wants(q->row, 1) ? &q->to[1].t : NULL};

    o.setting = q->row->reduced ? GRAM_KFAC_REDUCE : GRAM_KFAC_EXPAND;
    o.scale = q->row->scale != 0 ? q->row->scale : 1;
    o.keep = q->row->keep;
    return need ? gram_kfac_factors_workspace(h->g, &q->p.layer, a, d, &o, to[0], to[1], need)
                : gram_kfac_factors(h->g, &q->p.layer, a, d, &o, to[0], to[1]);
}

static bool run_row(struct harness *h, struct problem *q)
{
    const struct test_pair pairs[] = {
        {   &q->p.a, &q->from[0]},
        {   &q->p.d, &q->from[1]},
        {&q->out[0],   &q->to[0]},
        {&q->out[1],   &q->to[1]},
    };

    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

static double before(int64_t element)
{
    return 0.25 * (double)(element % 7);
}

static void create_outputs(struct harness *h, struct problem *q)
{
    const struct reference_layer *r = &q->p.reference;
    bool table = q->row->layer.kind == GRAM_LAYER_EMBEDDING;

    q->order[0] = table ? q->row->layer.in : r->in + q->row->layer.bias;
    q->order[1] = r->out;
    for (int i = 0; i < 2; i++) {
        int64_t shape[3] = {q->p.layer.groups, q->order[i], q->order[i]};
        int first = table && i == 0 ? 2 : shape[0] > 1 ? 0 : 1;
        test_tensor_create(h, &q->out[i], q->p.dtype, q->row->layer.out_layout, 3 - first,
                           shape + first);
        for (int64_t e = 0; q->row->keep > 0 && e < test_count(&q->out[i].t); e++)
            test_put(&q->out[i].t, e, before(e));
    }
}

static void check_factor(struct harness *h, const struct problem *q, int side)
{
    const struct reference_layer *r = &q->p.reference;
    bool table = side == 0 && q->row->layer.kind == GRAM_LAYER_EMBEDDING;
    double scale = side == 1 && q->row->scale != 0 ? q->row->scale : 1, keep = q->row->keep;
    double terms = (double)(r->samples * r->positions + 16);
    int64_t n = q->order[side];

    for (int64_t e = 0; e < test_count(&q->out[side].t); e++) {
        const int64_t at[3] = {e / n / n, table ? e : e / n % n, e % n};
        double want = 0, size = 0, got = test_at(&q->out[side].t, e);
        if (r->samples * r->positions > 0)
            want = reference_kfac_factor(r, q->row->reduced, side == 1,
                                         table ? (int64_t[]){0, e, e} : at, &size);
        want = (keep > 0 ? keep * before(e) : 0) + (1 - keep) * scale * scale * want;
        size = scale * scale * size + 1;
        CHECK(h, fabs(got - want) <= terms * test_eps(q->p.dtype) * size,
              "element %lld of %s is %.9g, expected %.9g", (long long)e, side ? "B" : "A", got,
              want);
    }
}

static void check(struct harness *h, int row)
{
    struct problem q = {.row = &rows[row]};

    layer_create(h, &q.row->layer, &q.p);
    create_outputs(h, &q);
    if (run_row(h, &q))
        for (int i = 0; i < 2; i++)
            if (wants(q.row, i))
                check_factor(h, &q, i);
    test_tensor_destroy(h, &q.out[0], "a_factor");
    test_tensor_destroy(h, &q.out[1], "b_factor");
    layer_destroy(h, &q.p);
}

/* ---- A linear layer of any size ------------------------------------------------------------ */

struct bench {
    struct kfac_row row;
    struct problem q;
};

static gram_status run(gram_context *g, void *state)
{
    struct bench *b = state;
    struct harness h = {.g = g};

    return call(&h, &b->q, NULL);
}

/* Elements here and there. */
static double worst(struct harness *h, void *state)
{
    struct bench *b = state;
    const struct reference_layer *r = &b->q.p.reference;
    double worst = 0;

    for (int i = 0; i < 16; i++) {
        int side = i % 2;
        double n = (double)b->q.order[side], size, want, got;
        const int64_t at[3] = {0, (int64_t)(test_uniform(h) * n), (int64_t)(test_uniform(h) * n)};
        if (n == 0 || r->samples * r->positions == 0)
            continue;
        want = reference_kfac_factor(r, false, side == 1, at, &size);
        got = test_get(&b->q.out[side].t, at + 1);
        worst = fmax(worst, fabs(got - want) / ((double)(r->samples * r->positions + 16) * size *
                                                test_eps(b->q.p.dtype)));
    }
    return worst;
}

static void destroy(void *state)
{
    struct bench *b = state;
    struct harness h = {0};

    test_tensor_destroy(&h, &b->q.out[0], "a_factor");
    test_tensor_destroy(&h, &b->q.out[1], "b_factor");
    layer_destroy(&h, &b->q.p);
    free(b);
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    struct bench *b = layer_bench(h, args, sizeof *b);
    const struct layer_row *l;

    if (!b)
        return false;
    l = &b->row.layer;
    b->q.row = &b->row;
    layer_create(h, l, &b->q.p);
    create_outputs(h, &b->q);
    b->q.from[0].t = b->q.p.a.t, b->q.from[1].t = b->q.p.d.t;
    b->q.to[0].t = b->q.out[0].t, b->q.to[1].t = b->q.out[1].t;
    *out = (struct case_problem){
        .state = b,
        .tensors = {&b->q.from[0].t, &b->q.from[1].t, &b->q.to[0].t, &b->q.to[1].t},
        .run = run,
        .error = worst,
        .destroy = destroy,
        .work = (double)l->n * (double)l->size[0] *
                ((double)l->in * (double)l->in + (double)l->out * (double)l->out),
        .unit = "flop"
    };
    out->bytes = (double)l->n * (double)l->size[0] * (double)(l->in + l->out) *
                 (double)gram_dtype_size(l->dtype);
    return true;
}

const struct case_op case_kfac_factors = {
    .name = "kfac_factors",
    .sizes = "N S I O",
    .params = "dtype=f32 bias=1",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
