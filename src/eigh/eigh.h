/*
 * eigh.h - what the fronts of gram_eigh, its plans, its implicit forms and gram_eigh_multi share,
 * and what the last one hands to the backend
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_EIGH_H
#define GRAM_EIGH_H
#include "core/backend.h"
#include "core/view.h"

/* ---- One matrix on several devices ----------------------------------------------------------- */

enum {
    GRAM_MULTI_DEVICES = 16 /* at most, as cusolverMg */
};

struct gram_eigh_multi;

/* What the front does on the CPU, with the threads of the first context. */
struct gram_eigh_multi_host {
    /* The largest magnitude in the lower triangle of an item; NaN or infinity if one is there. */
    double (*largest)(const struct gram_eigh_multi *m, int64_t item);
    /* panel[i + j n] = 2^-exponent a[i][first + j], where i >= first + j, for j < cols. */
    void (*gather)(const struct gram_eigh_multi *m, int64_t item, int64_t first, int64_t cols,
                   void *panel);
    /* vectors[i][first + j] = panel[i + j n] */
    void (*scatter)(const struct gram_eigh_multi *m, int64_t item, int64_t first, int64_t cols,
                    const void *panel);
};

/* A call; the contexts are of the devices that share it.  Between solve and store of an item no
 * context is used for anything else. */
struct gram_eigh_multi {
    gram_context *const *contexts;
    int count;
    gram_dtype dtype;
    int64_t n;
    struct gram_batch batch;
    struct gram_view a,
        vectors;          /* the lower triangle of a is read; vectors: data NULL: not wanted */
    int a_on, vectors_on; /* the context on whose device they are; -1: the CPU */
    bool has_vectors;
    int exponent; /* of the item: solve sets it */
    void *w; /* n values on the CPU, which solve sets: ascending, of the matrix that is scaled */
    void *panel; /* as many bytes on the CPU as the query says */
    const struct gram_eigh_multi_host *host;
};

/* ---- What the fronts share ------------------------------------------------------------------- */

/* Checks the options of the Krylov driver, and takes them to op. */
gram_status gram_eigh_check_krylov(gram_context *g, const gram_eigh_options *o);
void gram_eigh_krylov(const gram_eigh_options *o, gram_eigh_report *report,
                      struct gram_eigh_op *op);
/* The end of a call: fills in the report that its options ask for, as much of it as its size
 * covers, and gives the status. */
gram_status gram_eigh_ended(gram_context *g, gram_status status, const gram_eigh_options *given,
                            const gram_eigh_report *report);

/* The arguments of gram_eigh; info may be NULL. */
struct gram_eigh_call {
    const gram_tensor *a;
    const gram_eigh_options *options;
    const gram_tensor *values, *vectors, *info;
};
/* Checks them, and describes the work; no report is kept. */
gram_status gram_eigh_describe(gram_context *g, const struct gram_eigh_call *call,
                               struct gram_eigh_op *op);
/* Checks them; the driver that would be used, the scratch, and the time that it would take. */
gram_status gram_eigh_query(gram_context *g, const struct gram_eigh_call *call,
                            gram_plan_description *d);

/* A call of gram_eigh or gram_eigh_multi that has been checked. */
struct gram_eigh_planned {
    gram_plan plan;
    gram_group group; /* count 0: the context alone */
    gram_context *contexts[GRAM_MULTI_DEVICES];
    gram_eigh_options options;
    gram_tensor a, values, vectors, info, found;
    bool has_vectors, has_info;
};

/* Makes a plan with copies of the arguments, which have been checked; it executes gram_eigh. */
gram_status gram_eigh_keep(gram_context *g, const struct gram_eigh_call *call,
                           struct gram_eigh_planned **made);

/* eigh_plan.c: what was measured to be fastest for such problems; AUTO: nothing was. */
gram_eigh_driver gram_eigh_time_best(const gram_context *g, const struct gram_eigh_op *op);
/* How long driver is expected to take, and how that is known. */
gram_time_source gram_eigh_time(const gram_context *g, const struct gram_eigh_op *op,
                                gram_eigh_driver driver, double *seconds);
#endif
