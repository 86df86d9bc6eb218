/*
 * cpu_optimizer.h - a step of an optimizer on the CPU: what its frame gives a method, and asks of
 * it
 *
 * A step goes through the blocks in passes, several blocks at a time on a thread each, or one after
 * the other with all of BLAS's threads where there are few: a block is only ever touched by one
 * thread.  Shampoo: statistics, refresh of the roots, directions.  SOAP: directions, refresh.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_OPTIMIZER_H
#define GRAM_CPU_OPTIMIZER_H
#include "cpu/cpu.h"
#include "cpu/cpu_mode.h"
#include "optimizer.h"

/* Loops over n numbers of f32 or f64 (sums in double). */
struct cpu_optimizer_math {
    double (*squares)(int64_t n, const void *x);              /* sum of x^2 */
    void (*scale)(int64_t n, double s, void *x);              /* x *= s */
    void (*add)(int64_t n, double s, const void *y, void *x); /* x += s y */
    /* g, m = scale (b3 m + (1 - b3) g), b1 m + (1 - b1) g */
    void (*filter)(int64_t n, const double b[2], double scale, void *m, void *g);
    void (*second)(int64_t n, double keep, double take, const void *g, void *v); /* v of g^2 */
    /* to = f / (sqrt(v scale) + epsilon) */
    void (*adapt)(int64_t n, double scale, double epsilon, const void *f, const void *v, void *to);
    /* b = momentum b + take p, then p = b, or p + momentum b */
    void (*momentum)(int64_t n, double momentum, double take, bool nesterov, void *b, void *p);
    double (*dot)(int64_t n, const void *x, const void *y);
    /* to[b][j][a] = from[b][order[j]][a] */
    void (*permute)(const struct cpu_mode *mode, const int32_t *order, const void *from, void *to);
    double (*off_diagonal)(int64_t n, const void *a); /* sum of a[i][j]^2 over i != j, a n by n */
    bool (*finite)(int64_t n, const void *x);
    void (*widen)(int64_t n, const void *from, double *to);
    void (*narrow)(int64_t n, const double *from, void *to);
};

/* A block in a pass, in the hands of one thread; alone: the only one, which may start loops. */
struct cpu_optimizer_unit {
    gram_context *context;
    bool alone;
    gram_optimizer *o;
    const struct gram_optimizer_parameter *p;
    const struct gram_optimizer_block *b;
    const struct cpu_optimizer_math *math;
    gram_dtype work;
    int64_t t;      /* this step of the parameter, from 1 */
    void *g;        /* the gradient, L2 decay included; direction() leaves the direction there */
    void *spare[2]; /* as long as g */
    char *own;      /* unit_bytes() of the method */
    bool still; /* set by direction(): no decay and no momentum either, this step moves nothing */
};

struct cpu_optimizer_step {
    gram_context *g;
    gram_optimizer *o;
    const struct gram_optimizer_op *op;
    const char *rests; /* a flag a parameter: no gradient, or none that is finite */
    char *scratch;     /* of refresh: refresh_bytes() */
    size_t scratch_bytes;
};

/* What a method is on the CPU: cpu_<method>.c.  Nothing but refresh_bytes may fail. */
struct cpu_optimizer_method {
    /* Scratch of a block of its own, beyond g and spare. */
    size_t (*unit_bytes)(const gram_optimizer *o, const struct gram_optimizer_block *b);
    /* Scratch of a refresh, and whether sizes can be done at all.  NULL: there is no refresh. */
    gram_status (*refresh_bytes)(gram_context *g, const gram_optimizer *o, size_t *bytes);
    void (*statistics)(struct cpu_optimizer_unit *u); /* a pass before refresh; or NULL */
    void (*refresh)(const struct cpu_optimizer_step *s);
    void (*direction)(struct cpu_optimizer_unit *u);
    bool refresh_last; /* after the directions */
};

extern const struct cpu_optimizer_method cpu_shampoo, cpu_soap, cpu_muon;

const struct cpu_optimizer_math *cpu_optimizer_math(gram_dtype work);

/* The block of a tensor with the parameter's shape, of any dtype and strides,
 * to and from an array of the dtype work. */
void cpu_optimizer_gather(const struct cpu_optimizer_unit *u, const gram_tensor *t, void *to);
void cpu_optimizer_scatter(const struct cpu_optimizer_unit *u, const void *from, gram_tensor *t);

/* A slot to and from numbers of work.  A packed one is a matrix there, row-major: the upper
 * triangle after a load, both with mirror; a store reads the upper one.  Others are moved as they
 * are. */
void cpu_optimizer_load(const gram_optimizer *o, const struct gram_optimizer_slot *s,
                        gram_dtype work, bool mirror, void *to);
void cpu_optimizer_store(const gram_optimizer *o, const struct gram_optimizer_slot *s,
                         gram_dtype work, const void *from);

/* Has the calls of the context take their scratch from memory, until it is given back: operations
 * inside of an operation. */
struct cpu_optimizer_lent {
    void *scratch;
    size_t bytes;
    bool given;
};

static inline struct cpu_optimizer_lent cpu_optimizer_lend(gram_context *g, void *memory,
                                                           size_t bytes)
{
    struct cpu_optimizer_lent was = {g->scratch, g->scratch_bytes, g->scratch_given};

    g->scratch = memory;
    g->scratch_bytes = bytes;
    g->scratch_given = true;
    return was;
}

static inline void cpu_optimizer_take_back(gram_context *g, struct cpu_optimizer_lent was)
{
    g->scratch = was.scratch;
    g->scratch_bytes = was.bytes;
    g->scratch_given = was.given;
}

/* Every factor of the block = keep factor + take G_k G_k^T, G_k being the
 * gradient with dimension k as rows; matrix has room for the largest, spare[0] is overwritten. */
void cpu_optimizer_accumulate(const struct cpu_optimizer_unit *u, double keep, double take,
                              void *matrix);

/* to = x, with its first dimension multiplied by the symmetric matrix of that order (both
 * triangles) and made the last one; sizes are first by rest.  One such product for each dimension,
 * in order, multiplies along all of them and ends with the shape that it began with. */
void cpu_optimizer_turn(gram_dtype work, int64_t first, int64_t rest, const void *matrix,
                        const void *x, void *to);
#endif
