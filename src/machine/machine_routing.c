/*
 * machine_routing.c - which leaves a row belongs to, and with what weights
 *
 * At each node a row has a place t on a line.  Hard routing sends it left below the split and right
 * above it, with weights that go over linearly in the band whose rows both sides have learned.
 * Soft routing at a temperature T > 0 gives the right side 1 / (1 + exp(-(t - m) / (T s))), with
 * the middle m of the band and the interquartile range s of the places that were learned.  Leaves
 * below a weight of 1/1000 are left out, and the others share the whole, tree by tree.
 *
 * The temperature is chosen by rows that are held out, from 0 upwards as long as the machine gets
 * better: few leaves are asked about a row where that is soon not so.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_large.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double least = 1e-3; /* weight in a tree */

double gram_machine_node_place(const struct machine_node *node, int64_t width, gram_dtype dtype,
                               const void *x, int64_t row)
{
    double sum = 0;

    for (int64_t j = 0; j < width; j++)
        sum += node->direction[j] * (dtype == GRAM_F32 ? (double)((const float *)x)[row * width + j]
                                                       : ((const double *)x)[row * width + j]);
    return sum;
}

double gram_machine_node_share(const struct machine_node *node, double temperature, double t)
{
    const double width = temperature * node->scale;

    if (width > 0)
        return 1 / (1 + exp((node->low / 2 + node->high / 2 - t) / width));
    if (t <= node->low)
        return 0;
    if (t >= node->high)
        return 1;
    return (t - node->low) / (node->high - node->low);
}

static bool add_place(struct machine_places *p, int64_t leaf, int64_t row, double weight)
{
    if (p->count == p->room) {
        int64_t room = 2 * p->room + 64;
        struct machine_place *at = realloc(p->at, (size_t)room * sizeof *at);
        if (!at)
            return false;
        p->at = at;
        p->room = room;
    }
    p->at[p->count++] = (struct machine_place){leaf, row, weight};
    return true;
}

/* A node or a leaf that waits, and its weight; along: every side above it had half or more. */
struct open {
    int64_t node;
    double weight;
    bool along;
};

/* Down a tree with the row: every node that has a part of it is looked at once.  open holds those
 * that wait, of which none is an ancestor of another, and has room for as many as there are nodes.
 * A row whose place is NaN goes to both sides, and its weights are NaN. */
static bool place_row(const struct machine_tree *tree, int64_t root, gram_dtype dtype,
                      const void *x, int64_t row, struct open *open, struct machine_places *out)
{
    const int64_t first = out->count;
    int64_t waiting = 0;
    double sum = 0;

    open[waiting++] = (struct open){root, 1, true};
    while (waiting > 0) {
        const struct open at = open[--waiting];
        const struct machine_node *node = &tree->node[at.node];
        const double t = gram_machine_node_place(node, tree->width, dtype, x, row);
        const double right = gram_machine_node_share(node, tree->temperature, t);
        const double share[2] = {1 - right, right};

        for (int side = 1; side >= 0; side--) {
            const struct open next = {node->child[side], at.weight * share[side],
                                      at.along && (side ? right > 0.5 : right <= 0.5)};

            if (next.weight == 0 || (tree->temperature > 0 && next.weight < least && !next.along))
                continue;
            if (next.node >= 0)
                open[waiting++] = next;
            else if (!add_place(out, ~next.node, row, next.weight))
                return false;
        }
    }
    for (int64_t i = first; i < out->count; i++)
        sum += out->at[i].weight;
    for (int64_t i = first; i < out->count; i++)
        out->at[i].weight /= tree->temperature > 0 ? sum * tree->trees : tree->trees;
    return true;
}

/* By leaf, and then by row; 0: the same place. */
static int order(const void *a, const void *b)
{
    const struct machine_place *x = a, *y = b;

    if (x->leaf != y->leaf)
        return x->leaf < y->leaf ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

gram_status gram_machine_tree_places(gram_context *g, const struct machine_tree *tree,
                                     gram_dtype dtype, const void *x, int64_t rows,
                                     struct machine_places *out)
{
    struct open *open = malloc(((size_t)tree->count + 1) * sizeof *open);
    bool done = open != NULL;

    *out = (struct machine_places){0};
    for (int64_t row = 0; done && row < rows; row++)
        for (int t = 0; done && t < tree->trees; t++)
            done = place_row(tree, tree->root[t], dtype, x, row, open, out);
    free(open);
    if (done && out->count > 0)
        qsort(out->at, (size_t)out->count, sizeof *out->at, order);
    if (done)
        return GRAM_OK;
    free(out->at);
    *out = (struct machine_places){0};
    return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the leaves of %lld rows",
                     (long long)rows);
}

/* ---- The temperature ------------------------------------------------------------------------- */

static const double temperatures[] = {0, 0.05, 0.1, 0.2, 0.4, 0.8};

/* Rows in leaves at a temperature, and the outputs of each place, side by side. */
struct asked {
    struct machine_places places;
    double *v; /* from malloc */
};

static void asked_close(struct asked *a)
{
    free(a->places.at);
    free(a->v);
    *a = (struct asked){0};
}

/* What the leaf says about rows of valid: places that nobody knows yet. */
static gram_status ask(gram_context *g, const gram_machine *machine,
                       const struct machine_data *valid, const int64_t *place, int64_t count,
                       struct asked *a)
{
    const int64_t outputs = valid->outputs;
    const size_t row = (size_t)valid->width * gram_dtype_size(valid->dtype);
    const size_t bytes = (size_t)(count * outputs) * sizeof(double);
    double *f = gram_alloc(g, bytes + (size_t)count * row);
    char *x = (char *)(f + count * outputs);
    gram_status status;

    if (!f)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)count);
    for (int64_t i = 0; i < count; i++)
        memcpy(x + (size_t)i * row, valid->x + (size_t)a->places.at[place[i]].row * row, row);
    status = gram_machine_leaf_values(g, machine, a->places.at[*place].leaf, count, x, f);
    for (int64_t i = 0; status == GRAM_OK && i < count; i++)
        for (int64_t j = 0; j < outputs; j++)
            a->v[place[i] * outputs + j] = f[j * count + i];
    gram_free(g, f, bytes + (size_t)count * row);
    return status;
}

/* Asks the leaves about all places but those that were asked before, or are known. */
static gram_status ask_more(gram_context *g, const gram_machine *machine,
                            const struct machine_data *valid, const struct machine_left_out *known,
                            const struct asked *before, struct asked *a)
{
    const int64_t count = a->places.count, outputs = valid->outputs;
    const size_t bytes = (size_t)outputs * sizeof *a->v;
    int64_t *place = malloc((size_t)count * sizeof *place + 1), at = 0, waiting = 0;
    gram_status status = GRAM_OK;

    a->v = malloc((size_t)count * bytes + 1);
    if (!place || !a->v)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)count);
    for (int64_t i = 0, k = 0; status == GRAM_OK && i < count; i++) {
        const struct machine_place *p = &a->places.at[i];
        const bool last = i + 1 == count || p[1].leaf != p->leaf;

        if (known && (i == 0 || p[-1].leaf != p->leaf))
            k = known->first[p->leaf];
        while (at < before->places.count && order(&before->places.at[at], p) < 0)
            at++;
        while (known && k < known->first[p->leaf + 1] && known->row[k] < p->row)
            k++;
        if (at < before->places.count && order(&before->places.at[at], p) == 0)
            memcpy(a->v + i * outputs, before->v + at * outputs, bytes);
        else if (known && k < known->first[p->leaf + 1] && known->row[k] == p->row)
            memcpy(a->v + i * outputs, known->f + k * outputs, bytes);
        else
            place[waiting++] = i;
        if (last && waiting > 0) {
            status = ask(g, machine, valid, place, waiting, a);
            waiting = 0;
        }
    }
    free(place);
    return status;
}

/* The outputs of the only leaf. */
static gram_status one_leaf(gram_context *g, const gram_machine *machine,
                            const struct machine_data *valid, const double *base, double *f)
{
    TRY(gram_machine_leaf_values(g, machine, 0, valid->rows, valid->x, f));
    for (int64_t i = 0; base && i < valid->rows * valid->outputs; i++)
        f[i] += base[i];
    return GRAM_OK;
}

/* The outputs at the temperature of the tree. */
static gram_status mix(gram_context *g, const gram_machine *machine,
                       const struct machine_data *valid, const struct machine_left_out *known,
                       const double *base, struct asked *before, double *f)
{
    const int64_t count = valid->rows * valid->outputs;
    struct asked a = {0};
    gram_status status =
        gram_machine_tree_places(g, &machine->tree, valid->dtype, valid->x, valid->rows, &a.places);

    if (status == GRAM_OK)
        status = ask_more(g, machine, valid, known, before, &a);
    for (int64_t i = 0; i < count; i++)
        f[i] = base ? base[i] : 0;
    for (int64_t i = 0; status == GRAM_OK && i < a.places.count; i++)
        for (int64_t j = 0; j < valid->outputs; j++)
            f[j * valid->rows + a.places.at[i].row] +=
                a.places.at[i].weight * a.v[i * valid->outputs + j];
    asked_close(before);
    *before = a;
    return status;
}

gram_status gram_machine_routing_choose(gram_context *g, gram_machine *machine,
                                        const struct machine_data *valid,
                                        const struct machine_left_out *known, const double *base,
                                        double temperature, double *f)
{
    const size_t bytes = (size_t)(valid->rows * valid->outputs) * sizeof(double);
    const bool given = temperature != 0;
    const int count = given ? 1 : (int)(sizeof temperatures / sizeof *temperatures);
    double *tried, least_error = INFINITY, best = 0;
    struct asked asked = {0};
    gram_status status = GRAM_OK;

    if (machine->tree.count == 0)
        return one_leaf(g, machine, valid, base, f);
    tried = gram_alloc(g, bytes);
    if (!tried)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    for (int t = 0; status == GRAM_OK && t < count; t++) {
        double error;

        machine->tree.temperature = given ? fmax(0, temperature) : temperatures[t];
        status = mix(g, machine, valid, known, base, &asked, tried);
        error = status == GRAM_OK ? gram_machine_squared_error(valid, tried) : INFINITY;
        if (t > 0 && !(error < least_error))
            break;
        least_error = error;
        best = machine->tree.temperature;
        memcpy(f, tried, bytes);
    }
    machine->tree.temperature = best;
    asked_close(&asked);
    gram_free(g, tried, bytes);
    return status;
}
