/*
 * soap_pair.c - SOAP on the CPU and on a GPU side by side, for tests
 *
 * SPDX-License-Identifier: MIT
 */
#include "soap_pair.h"
#include <math.h>
#include <string.h>

static int64_t count_of(const struct soap_row *row)
{
    int64_t count = 1;

    for (int d = 0; d < row->ndim; d++)
        count *= row->shape[d];
    return count;
}

void soap_pair_draw(struct soap_pair *p)
{
    const gram_tensor *t = &p->cpu.tensor[SOAP_GRADIENTS][0];
    const int64_t rest = t->ndim > 0 ? p->count / t->shape[0] : 1;

    for (int c = 0; c < SOAP_COPIES; c++)
        for (int64_t i = 0; i < p->count; i++) {
            const int64_t row = i / rest;
            test_put(&p->cpu.tensor[SOAP_GRADIENTS][c], i,
                     (test_uniform(p->h) - 0.5) * (double)(2 + c + row));
        }
}

static void lay(struct soap_side *s, const struct soap_row *row, char *memory, gram_device device)
{
    s->memory = memory;
    s->report.size = sizeof s->report;
    for (int l = 0; l < SOAP_LISTS; l++)
        for (int c = 0; c < SOAP_COPIES; c++) {
            gram_tensor *t = &s->tensor[l][c];
            int64_t stride = 1;
            *t = (gram_tensor){.data = memory + (size_t)(l * SOAP_COPIES + c) * SOAP_BYTES,
                               .dtype = row->dtype,
                               .device = device,
                               .ndim = row->ndim};
            for (int d = row->ndim - 1; d >= 0; d--) {
                t->shape[d] = row->shape[d];
                t->stride[d] = stride;
                stride *= row->shape[d];
            }
            s->list[l][c] = t;
        }
}

static bool create(struct soap_pair *p, struct soap_side *s, const gram_optimizer_options *options)
{
    return CHECK(p->h,
                 gram_optimizer_create(s->g, options,
                                       (const gram_tensor *const *)s->list[SOAP_VALUES],
                                       SOAP_COPIES, &s->o) == GRAM_OK,
                 "%s", gram_message(s->g));
}

gram_optimizer_options soap_pair_options(const struct soap_row *row)
{
    gram_optimizer_options o = {.size = sizeof o};

    (void)gram_optimizer_defaults(GRAM_SOAP, &o);
    o.refresh = 3;
    o.state = row->state;
    optimizer_change(&o, row->changes);
    return o;
}

bool soap_pair_open(struct harness *h, struct soap_pair *p, const struct soap_row *row,
                    const gram_optimizer_options *options, void *stream)
{
    void *memory = NULL;

    memset(p, 0, sizeof *p);
    p->h = h;
    p->count = count_of(row);
    p->cpu.g = h->g;
    p->gpu.g = test_cuda_context(h, stream);
    if (!p->gpu.g ||
        !CHECK(h, gram_memory_allocate(p->gpu.g, sizeof p->numbers, &memory) == GRAM_OK, "%s",
               gram_message(p->gpu.g)))
        return false;
    lay(&p->cpu, row, (char *)p->numbers, (gram_device){GRAM_CPU, 0});
    lay(&p->gpu, row, memory, (gram_device){GRAM_CUDA, 0});
    for (int c = 0; c < SOAP_COPIES; c++)
        for (int64_t i = 0; i < p->count; i++)
            test_put(&p->cpu.tensor[SOAP_VALUES][c], i, 2 * test_uniform(h) - 1);
    return create(p, &p->cpu, options) && create(p, &p->gpu, options);
}

void soap_pair_close(struct soap_pair *p)
{
    gram_optimizer_destroy(p->cpu.o);
    gram_optimizer_destroy(p->gpu.o);
    if (p->gpu.memory)
        gram_memory_free(p->gpu.g, p->gpu.memory, sizeof p->numbers);
    gram_context_destroy(p->gpu.g);
}

gram_status soap_pair_ask(struct soap_side *s, bool told)
{
    return gram_optimizer_direction(s->g, s->o, (const gram_tensor *const *)s->list[SOAP_VALUES],
                                    (const gram_tensor *const *)s->list[SOAP_GRADIENTS],
                                    s->list[SOAP_DIRECTIONS], told ? &s->report : NULL);
}

bool soap_pair_send(struct soap_pair *p)
{
    return CHECK(p->h,
                 gram_memory_copy(p->gpu.g, p->gpu.memory, p->numbers, sizeof p->numbers) ==
                         GRAM_OK &&
                     gram_context_synchronize(p->gpu.g) == GRAM_OK,
                 "%s", gram_message(p->gpu.g));
}

gram_status soap_pair_step_there(struct soap_pair *p, bool told)
{
    gram_status status;

    if (!soap_pair_send(p))
        return GRAM_DEVICE_FAILED;
    status = soap_pair_ask(&p->gpu, told);
    CHECK(p->h,
          gram_memory_copy(p->gpu.g, p->back, p->gpu.tensor[SOAP_DIRECTIONS][0].data,
                           sizeof p->back) == GRAM_OK &&
              gram_context_synchronize(p->gpu.g) == GRAM_OK,
          "%s", gram_message(p->gpu.g));
    return status;
}

void soap_pair_compare(struct soap_pair *p, int step, double bound)
{
    const gram_optimizer_report *a = &p->cpu.report, *b = &p->gpu.report;

    for (int c = 0; c < SOAP_COPIES; c++)
        for (int64_t i = 0; i < p->count; i++) {
            gram_tensor back = p->cpu.tensor[SOAP_DIRECTIONS][c];
            double expected = test_at(&back, i), got;
            back.data = p->back[c];
            got = test_at(&back, i);
            CHECK(p->h, fabs(got - expected) <= bound, "step %d, %d[%d] is %.10g, not %.10g", step,
                  c, (int)i, got, expected);
        }
    CHECK(p->h,
          a->skipped == b->skipped && a->refreshed == b->refreshed && a->kept == b->kept &&
              a->failed == b->failed && a->first_failed == b->first_failed,
          "step %d: %d skipped, %d refreshed, %d kept, %d failed; the CPU: %d, %d, %d, %d", step,
          (int)b->skipped, (int)b->refreshed, (int)b->kept, (int)b->failed, (int)a->skipped,
          (int)a->refreshed, (int)a->kept, (int)a->failed);
}

bool soap_pair_both(struct soap_pair *p)
{
    return CHECK(p->h, soap_pair_ask(&p->cpu, true) == GRAM_OK, "%s", gram_message(p->cpu.g)) &&
           CHECK(p->h, soap_pair_step_there(p, true) == GRAM_OK, "%s", gram_message(p->gpu.g));
}
