/*
 * expression_compile.c - from the text of an expression to its program
 *
 * SPDX-License-Identifier: MIT
 */
#include "expression.h"

static int arity_of(const struct gram_node *node)
{
    return gram_op_arity((enum gram_op)node->op);
}

/* Drops what root does not need; root becomes the last node. */
static void compact(struct gram_expression *e, int root)
{
    bool used[GRAM_EXPRESSION_NODES] = {false};
    int16_t moved[GRAM_EXPRESSION_NODES];
    int count = 0;

    used[root] = true;
    for (int i = root; i >= 0; i--)
        for (int k = 0; used[i] && k < arity_of(&e->node[i]); k++)
            used[e->node[i].arg[k]] = true;
    for (int i = 0; i <= root; i++) {
        struct gram_node node = e->node[i];
        if (!used[i])
            continue;
        for (int k = 0; k < arity_of(&node); k++)
            node.arg[k] = moved[node.arg[k]];
        moved[i] = (int16_t)count;
        e->node[count++] = node;
    }
    e->count = count;
}

/* Gives registers to the nodes that depend on s, which itself has none; false if there are not
 * enough. */
static bool allocate(struct gram_expression *e)
{
    int last[GRAM_EXPRESSION_NODES];
    uint32_t used = 0;

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
                used &= ~(UINT32_C(1) << arg->at);
        }
        if (used == UINT32_MAX)
            return false;
        node->at = (int16_t)__builtin_ctz(~used);
        used |= UINT32_C(1) << node->at;
        if (node->at >= e->registers)
            e->registers = node->at + 1;
        e->powers += node->op == GRAM_OP_POW && e->node[node->arg[1]].uniform;
    }
    return true;
}

_Static_assert(GRAM_EXPRESSION_REGISTERS == 32, "allocate() keeps them in 32 bits");

gram_status gram_expression_compile(gram_context *g, const gram_kernel_options *options, int by,
                                    struct gram_expression *e)
{
    int root;

    TRY(gram_expression_parse(g, options->expression, options->parameters,
                              (int)options->parameter_count, e, &root));
    if (by != GRAM_EXPRESSION_ITSELF)
        root = gram_expression_derivative(e, root, by);
    if (root < 0)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "the derivative of options.expression needs more than %d operations",
                         (int)GRAM_EXPRESSION_NODES);
    compact(e, root);
    if (!allocate(e))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "options.expression needs more than %d intermediate values at once",
                         (int)GRAM_EXPRESSION_REGISTERS);
    return GRAM_OK;
}
