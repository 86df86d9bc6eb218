/*
 * harness_problem.h - one problem of `gram check|bench|profile`, where the context computes
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_HARNESS_PROBLEM_H
#define GRAM_HARNESS_PROBLEM_H
#include "harness_args.h"

struct problem {
    struct case_problem made;
    gram_tensor other[CASE_TENSORS]; /* the tensors of made on the side where they are not now */
    int count;                       /* of these: 0 on the CPU */
};

/* Makes what was asked for and sends it where h's context computes; else a status of the entry
 * points, with a message on stderr. */
int problem_open(struct harness *h, const struct request *r, struct problem *p);
/* The two halves of it for whoever has made the tensors: afterwards they are on the GPU, or what is
 * there came back; on the CPU there is nothing to do.  A fetch follows where a send has failed. */
gram_status problem_send(struct harness *h, struct problem *p);
gram_status problem_fetch(struct harness *h, struct problem *p);
/* Runs it, and waits for it; a message on stderr where that fails. */
gram_status problem_run(struct harness *h, struct problem *p);
/* The error of the last run over its bound. */
double problem_error(struct harness *h, struct problem *p);
void problem_close(struct harness *h, struct problem *p);

/* The status of an entry point in which a call of the library ended so. */
int problem_status(gram_status status);
#endif
