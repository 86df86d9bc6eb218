/*
 * expression_program.c - from the nodes of an expression to the program of its value or a
 * derivative: the nodes that it needs, in an order, with registers
 *
 * SPDX-License-Identifier: MIT
 */
#include "expression.h"
#include <string.h>

/* ---- The order of nodes ---------------------------------------------------------------------- */

static int arity_of(const struct gram_node *node)
{
    return gram_op_arity((enum gram_op)node->op);
}

/* What compact() keeps on its way down to the nodes that need no others. */
struct walk {
    int need[GRAM_EXPRESSION_NODES];      /* about as many registers for a node and its arguments */
    int16_t path[GRAM_EXPRESSION_NODES];  /* from the root to the node at hand */
    int16_t moved[GRAM_EXPRESSION_NODES]; /* new places, -1: none yet */
    struct gram_node node[GRAM_EXPRESSION_NODES]; /* at the old places */
};

/* Registers as if no value had two uses (Sethi and Ullman, The generation of optimal code for
 * arithmetic expressions, Journal of the ACM 17 (1970)). */
static void find_needs(const struct gram_expression *e, int root, int *need)
{
    for (int i = 0; i <= root; i++) {
        const struct gram_node *node = &e->node[i];
        int most = 0, same = 0;

        for (int k = 0; k < arity_of(node); k++) {
            int of_arg = need[node->arg[k]];
            same = of_arg > most ? 1 : same + (of_arg == most && most > 0);
            most = of_arg > most ? of_arg : most;
        }
        need[i] = node->uniform || node->op == GRAM_OP_S ? 0 : most + (same != 1);
    }
}

/* The argument that comes next before a node, -1: all have places; with longest the one that needs
 * most, since the values of the others then need not wait for it. */
static int next_argument(const struct walk *w, int node, bool longest)
{
    int next = -1;

    for (int k = 0; k < arity_of(&w->node[node]); k++) {
        int arg = w->node[node].arg[k];
        if (w->moved[arg] < 0 &&
            (next < 0 || (longest && w->need[next] > 0 && w->need[arg] > w->need[next])))
            next = arg;
    }
    return next;
}

/* How the nodes of a program follow each other. */
enum order {
    AS_WRITTEN,     /* as the text has them, and derivatives behind it */
    CLOSE_TO_USE,   /* the arguments of a node just before it, if they have no place yet */
    LONGEST_TO_USE, /* the same, with the argument first that needs most registers */
    ORDERS
};

/* Marks what root needs by a place that is no more than a mark. */
static void mark_used(struct walk *w, int root)
{
    for (int i = 0; i <= root; i++)
        w->moved[i] = -1;
    w->moved[root] = 0;
    for (int i = root; i >= 0; i--)
        for (int k = 0; w->moved[i] >= 0 && k < arity_of(&w->node[i]); k++)
            w->moved[w->node[i].arg[k]] = 0;
}

/* The next node of e is a node of w, whose arguments have places. */
static void place_node(struct walk *w, int node, struct gram_expression *e)
{
    struct gram_node *to = &e->node[e->count];

    *to = w->node[node];
    for (int k = 0; k < arity_of(to); k++)
        to->arg[k] = w->moved[to->arg[k]];
    w->moved[node] = (int16_t)e->count++;
}

/* Fills e with the nodes of w that root needs, in an order; root becomes the last one. */
static void arrange(struct walk *w, int root, enum order order, struct gram_expression *e)
{
    int depth = 0;

    e->count = 0;
    mark_used(w, root);
    if (order == AS_WRITTEN) {
        for (int i = 0; i <= root; i++)
            if (w->moved[i] >= 0)
                place_node(w, i, e);
        return;
    }
    for (int i = 0; i <= root; i++)
        w->moved[i] = -1;
    w->path[depth++] = (int16_t)root;
    while (depth > 0) {
        const int node = w->path[depth - 1], next = next_argument(w, node, order == LONGEST_TO_USE);
        if (next >= 0)
            w->path[depth++] = (int16_t)next;
        else
            place_node(w, node, e), depth--;
    }
}

/* ---- What the program says of |x| and |y| ---------------------------------------------------- */

static bool commutes(enum gram_op op)
{
    return op == GRAM_OP_ADD || op == GRAM_OP_MULTIPLY || op == GRAM_OP_EQUAL ||
           op == GRAM_OP_NOT_EQUAL;
}

/* A node with |x| and |y| exchanged, whose arguments are, in this order; -1: there is no room. */
static int exchanged(struct gram_expression *e, int node, const int *of)
{
    const struct gram_node n = e->node[node];
    const enum gram_op op = (enum gram_op)n.op;
    int arg[3] = {n.arg[0], n.arg[1], n.arg[2]}; /* a parameter's says which */

    if (op == GRAM_OP_NORM_X || op == GRAM_OP_NORM_Y)
        return gram_expression_node(e, op == GRAM_OP_NORM_X ? GRAM_OP_NORM_Y : GRAM_OP_NORM_X, 0, 0,
                                    0);
    if (n.uniform || arity_of(&n) == 0)
        return node;
    for (int k = 0; k < arity_of(&n); k++)
        arg[k] = of[n.arg[k]];
    if (commutes(op) && arg[0] == n.arg[1] && arg[1] == n.arg[0])
        return node;
    return gram_expression_node(e, op, arg[0], arg[1], arg[2]);
}

/* True if the program comes out as it was where |x| and |y| are exchanged.  False may be wrong:
 * then both halves of a symmetric matrix are computed.  Nodes are added, which nothing uses. */
static bool mirrors(struct gram_expression *e, int root, int *of)
{
    for (int i = 0; i <= root; i++) {
        of[i] = exchanged(e, i, of);
        if (of[i] < 0)
            return false;
    }
    return of[root] == root;
}

static bool has(const struct gram_expression *e, enum gram_op op, enum gram_op other)
{
    for (int i = 0; i < e->count; i++)
        if (e->node[i].op == op || e->node[i].op == other)
            return true;
    return false;
}

static bool has_norms(const struct gram_expression *e)
{
    return has(e, GRAM_OP_NORM_X, GRAM_OP_NORM_Y);
}

static bool has_sums(const struct gram_expression *e)
{
    return has(e, GRAM_OP_SUM, GRAM_OP_SQUARES);
}

/* Gives registers to the nodes that depend on s, a norm or a sum; s itself has none.  False if
 * there are not enough. */
static bool allocate(struct gram_expression *e, int *last)
{
    uint64_t used = 0;

    for (int i = 0; i < e->count; i++) {
        last[i] = i;
        for (int k = 0; k < arity_of(&e->node[i]); k++)
            last[e->node[i].arg[k]] = i;
    }
    e->registers = e->powers = 0;
    for (int i = 0; i < e->count; i++) {
        struct gram_node *node = &e->node[i];
        if (node->uniform || node->op == GRAM_OP_S)
            continue;
        for (int k = 0; k < arity_of(node); k++) {
            const struct gram_node *arg = &e->node[node->arg[k]];
            if (last[node->arg[k]] == i && !arg->uniform && arg->op != GRAM_OP_S)
                used &= ~(UINT64_C(1) << arg->at);
        }
        if (used == UINT64_MAX)
            return false;
        node->at = (int16_t)__builtin_ctzll(~used);
        used |= UINT64_C(1) << node->at;
        if (node->at >= e->registers)
            e->registers = node->at + 1;
        e->powers += node->op == GRAM_OP_POW && e->node[node->arg[1]].uniform;
    }
    return true;
}

_Static_assert(GRAM_EXPRESSION_REGISTERS == 64, "allocate() keeps them in 64 bits");

/* The program of root in the first order that has few enough values at a time; false: none has. */
static bool settle(struct gram_expression *e, int root, struct walk *w, int *last)
{
    memcpy(w->node, e->node, (size_t)(root + 1) * sizeof *w->node);
    find_needs(e, root, w->need);
    for (int order = 0; order < ORDERS; order++) {
        arrange(w, root, (enum order)order, e);
        if (allocate(e, last))
            return true;
    }
    return false;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

enum {
    KINDS = 6 /* of programs: by s, by |x|, by |y|, by two sums, and all others */
};

struct gram_expression_memory {
    struct gram_expression program[KINDS];
    struct walk walk;
    int per_node[GRAM_EXPRESSION_NODES];
};

static struct gram_expression_memory *memory_of(gram_context *g)
{
    if (!g->expressions)
        g->expressions = gram_alloc(g, sizeof *g->expressions);
    return g->expressions;
}

void gram_expression_release(gram_context *g)
{
    if (g->expressions)
        gram_free(g, g->expressions, sizeof *g->expressions);
    g->expressions = NULL;
}

static int kind_of(int by)
{
    return by == GRAM_EXPRESSION_BY_S         ? 0
           : by == GRAM_EXPRESSION_BY_NORM_X  ? 1
           : by == GRAM_EXPRESSION_BY_NORM_Y  ? 2
           : by == GRAM_EXPRESSION_BY_SUM     ? 3
           : by == GRAM_EXPRESSION_BY_SQUARES ? 4
                                              : 5;
}

/* ---- The whole program ----------------------------------------------------------------------- */

static gram_status make(gram_context *g, const gram_kernel_options *options, int by,
                        struct gram_expression *e)
{
    struct gram_expression_memory *memory = g->expressions;
    int root;

    TRY(gram_expression_parse(g, options, e, &root));
    e->of_norms = has_norms(e);
    e->of_sums = has_sums(e);
    if (by != GRAM_EXPRESSION_ITSELF)
        root = gram_expression_derivative(e, root, by, memory->per_node);
    if (root < 0)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "the derivative of options.expression needs more than %d operations",
                         (int)GRAM_EXPRESSION_NODES);
    e->mirrors = !e->of_norms || mirrors(e, root, memory->per_node);
    if (!settle(e, root, &memory->walk, memory->per_node))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "options.expression needs more than %d intermediate values at once",
                         (int)GRAM_EXPRESSION_REGISTERS);
    e->norms = has_norms(e);
    e->sums = has_sums(e);
    return GRAM_OK;
}

gram_status gram_expression_compile(gram_context *g, const gram_kernel_options *options, int by,
                                    struct gram_expression **e)
{
    if (!memory_of(g))
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "no memory for the program of options.expression");
    *e = &g->expressions->program[kind_of(by)];
    return make(g, options, by, *e);
}
