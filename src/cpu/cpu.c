/*
 * cpu.c - the CPU's backend table: what it offers, and which tables of micro-kernels can run here
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu.h"
#include "core/blas.h"
#include "cpu_kernels.h"
#include "krr/krr_passes.h"
#include <string.h>
#if defined(__x86_64__)
#  include <cpuid.h>
#endif

/* Every combination that a machine can have, best first, separated by spaces. */
static const struct kernel_list {
    const char *names; /* for gram_info */
    int count;
    const struct gram_cpu_kernels *table[3];
} lists[] = {
#if defined(__x86_64__)
    {"avx512 avx2 base",
                           3, {&gram_cpu_kernels_avx512, &gram_cpu_kernels_avx2, &gram_cpu_kernels_base}                    },
    {       "avx2 base", 2,                           {&gram_cpu_kernels_avx2, &gram_cpu_kernels_base}},
#endif
    {            "base", 1,                                                   {&gram_cpu_kernels_base}},
};

#if defined(__x86_64__)
/* Leaf 1: clang 14's __builtin_cpu_supports does not know f16c. */
static bool has_f16c(void)
{
    unsigned int eax, ebx, ecx, edx;

    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}
#endif

static const struct kernel_list *runnable(void)
{
#if defined(__x86_64__)
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");

    return &lists[avx512 ? 0 : avx2 ? 1 : 2];
#else
    return &lists[0];
#endif
}

const struct gram_cpu_kernels *gram_cpu_kernels_at(int i)
{
    const struct kernel_list *list = runnable();

    return i < list->count ? list->table[i] : NULL;
}

static gram_status open(gram_context *g)
{
    const struct kernel_list *list = runnable();
    const char *wanted = g->options.cpu_isa;

    if (g->options.device.index != 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.device has index %d, expected 0 for the CPU",
                         (int)g->options.device.index);
    g->isa = 0;
    while (wanted && g->isa < list->count && strcmp(wanted, list->table[g->isa]->isa) != 0)
        g->isa++;
    if (g->isa == list->count)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "the instruction set is \"%s\", but this machine can run only: %s", wanted,
                         list->names);
    g->kernels = list->table[g->isa];
    return GRAM_OK;
}

static void describe(const gram_context *g, gram_info *info)
{
    const struct kernel_list *list = runnable();

    info->cpu_isa = list->table[g->isa]->isa;
    info->cpu_isas = list->names;
    info->blas = gram_blas_name();
}

/* The instruction set, and the number of threads, of which there are at most 1024. */
uint64_t cpu_machine(const gram_context *g)
{
    return (uint64_t)g->isa << 11 | (uint64_t)g->threads;
}

const struct gram_backend gram_cpu_backend = {
    .version = GRAM_VERSION,
    .name = "the CPU",
    .open = open,
    .describe = describe,
    .machine = cpu_machine,
    .scratch = gram_scratch,
    .scratch_lend = gram_scratch_lend_host,
    .scratch_return = gram_scratch_return_host,
    .krr = &cpu_krr_passes,
    .tune_kron = cpu_tune_kron,
#define GRAM_CPU_BOTH(name) .name = cpu_##name,
#define GRAM_CPU_CPU(name)  .name = cpu_##name,
#define GRAM_CPU_CUDA(name)
#define GRAM_OP(name, op, devices) GRAM_CPU_##devices(name)
#include "core/ops.def"
#undef GRAM_CPU_BOTH
#undef GRAM_CPU_CPU
#undef GRAM_CPU_CUDA
};
