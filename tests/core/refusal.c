/*
 * refusal.c - tables of calls that must be refused, and of what is said
 *
 * SPDX-License-Identifier: MIT
 */
#include "refusal.h"
#include <string.h>

void refusal_check(struct harness *h, const struct refusal *refusal, gram_status status)
{
    h->where = refusal->says;
    CHECK(h, status == refusal->status, "status %s", gram_status_name(status));
    CHECK(h, strstr(gram_message(h->g), refusal->says) != NULL, "it says \"%s\"",
          gram_message(h->g));
}
