/*
 * cpu_expression.c - an expression with the parameters of an item: constants, code, exponents
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise/cpu_kernel_map.h"
#include <string.h>

size_t gram_evaluation_bytes(const struct gram_expression *e)
{
    return gram_round64(sizeof(struct gram_evaluation)) +
           gram_round64((size_t)e->powers * sizeof(struct gram_raise)) +
           gram_round64((size_t)e->count * sizeof(double)) +
           gram_round64((size_t)e->count * sizeof(struct gram_instruction));
}

static int16_t place(const struct gram_expression *e, int node)
{
    if (e->node[node].uniform)
        return (int16_t)~node;
    return e->node[node].op == GRAM_OP_S ? 0 : (int16_t)(e->node[node].at + 1);
}

struct gram_evaluation *gram_evaluation_prepare(const struct gram_expression *e,
                                                const double *parameters, gram_dtype dtype,
                                                void *memory)
{
    struct gram_evaluation *out = memory;
    char *at = (char *)memory + gram_round64(sizeof *out);
    int16_t powers = 0;

    memset(out, 0, sizeof *out);
    out->raise = (struct gram_raise *)at;
    at += gram_round64((size_t)e->powers * sizeof *out->raise);
    out->constant = (double *)at;
    out->code = (struct gram_instruction *)(at + gram_round64((size_t)e->count * sizeof(double)));
    out->result = place(e, e->count - 1);
    gram_expression_uniform(e, parameters, out->constant);
    for (int i = 0; i < e->count; i++) {
        const struct gram_node *node = &e->node[i];
        struct gram_instruction *to = &out->code[out->count];

        if (node->uniform || node->op == GRAM_OP_S)
            continue;
        *to = (struct gram_instruction){.op = node->op, .to = place(e, i), .raise = -1};
        for (int k = 0; k < gram_op_arity((enum gram_op)node->op); k++)
            to->arg[k] = place(e, node->arg[k]);
        if (node->op == GRAM_OP_POW && to->arg[1] < 0) {
            to->raise = powers++;
            gram_raise_prepare(&out->raise[to->raise], dtype, out->constant[node->arg[1]]);
        }
        out->count++;
    }
    return out;
}
