/*
 * fake_fault.c - says which thread of which kernel touched what, and ends the launch
 *
 * SPDX-License-Identifier: MIT
 */
#include "fake_block.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static struct sigaction segv_before, bus_before;
static char signal_stack[64 * 1024];

/* Goes on in fake_abandon, as if the thread had called it. */
static bool leave_kernel(ucontext_t *context)
{
#if defined(__x86_64__)
    greg_t *r = context->uc_mcontext.gregs;
    r[REG_RSP] = ((r[REG_RSP] - 256) & ~(greg_t)15) - 8; /* as behind a call */
    r[REG_RIP] = (greg_t)(uintptr_t)fake_abandon;
    return true;
#elif defined(__aarch64__)
    context->uc_mcontext.sp = (context->uc_mcontext.sp - 256) & ~15ull;
    context->uc_mcontext.pc = (uintptr_t)fake_abandon;
    return true;
#else
    (void)context;
    return false;
#endif
}

/* The host waits for the kernel here, so that stdio is not in use. */
static void explain(int number, siginfo_t *info, void *context)
{
    char where[256], what[256];
    bool overflow = fake_is_guard(info->si_addr);

    fake_where(where, sizeof where);
    fake_memory_explain(info->si_addr, what, sizeof what);
    fprintf(stderr, "fake CUDA: %s: touches %p, %s\n", where, info->si_addr, // NOLINT
            overflow ? "the end of its stack" : what);
    if (overflow || !fake_block.current ||
        !leave_kernel(context)) /* then the fault repeats, and ends the process */
        (void)sigaction(number, number == SIGSEGV ? &segv_before : &bus_before, NULL);
}

void fake_fault_watch(bool on)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack}, before = {0};

    if (!on) {
        (void)sigaction(SIGSEGV, &segv_before, NULL);
        (void)sigaction(SIGBUS, &bus_before, NULL);
        return;
    }
    if (sigaltstack(NULL, &before) == 0 && (before.ss_flags & SS_DISABLE))
        (void)sigaltstack(&stack, NULL);
    action.sa_sigaction = explain;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGSEGV, &action, &segv_before);
    (void)sigaction(SIGBUS, &action, &bus_before);
}
