/*
 * fake_fiber.c - stacks that take turns on one thread of the host
 *
 * On x86-64 a switch is the registers that a call preserves; elsewhere it is swapcontext, whose
 * system call makes it fifty times slower.  AddressSanitizer is told, since it keeps a shadow of
 * every stack.
 *
 * SPDX-License-Identifier: MIT
 */
#include "fake_fiber.h"
#include <stdint.h>
#include <sys/mman.h>

#ifdef FAKE_SANITIZED
void __sanitizer_start_switch_fiber(void **save, const void *bottom, size_t bytes);
void __sanitizer_finish_switch_fiber(void *saved, const void **bottom, size_t *bytes);
#else
#  define __sanitizer_start_switch_fiber(save, bottom, bytes)   ((void)(save))
#  define __sanitizer_finish_switch_fiber(saved, bottom, bytes) ((void)(saved))
#endif

/* Of the host's stack, for the sanitizer; one launch runs at a time. */
static struct {
    const void *bottom;
    size_t bytes;
    void (*entry)(void);
} host;

bool fiber_create(struct fiber *fiber)
{
    const size_t bytes = FIBER_GUARD + FIBER_STACK;
    char *memory;

    if (fiber->stack)
        return true;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
    if (memory == MAP_FAILED)
        return false;
    if (mprotect(memory, FIBER_GUARD, PROT_NONE) != 0)
        return munmap(memory, bytes), false;
    fiber->stack = memory + FIBER_GUARD;
    return true;
}

static void begin(void)
{
    __sanitizer_finish_switch_fiber(NULL, &host.bottom, &host.bytes);
    host.entry();
}

#ifdef FAKE_FIBER_PORTABLE
static void exchange(struct fiber *from, struct fiber *to)
{
    (void)swapcontext(&from->context, &to->context);
}

static void set_up(struct fiber *fiber)
{
    (void)getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = FIBER_STACK;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, begin, 0);
}
#else
void fake_fiber_exchange(void **from, void *to);
__asm__(
    ".text\n"
    ".hidden fake_fiber_exchange\n"
    ".type fake_fiber_exchange, @function\n"
    "fake_fiber_exchange:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n"
    "    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n"
    "    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    ret\n"
    ".size fake_fiber_exchange, . - fake_fiber_exchange\n");

static void exchange(struct fiber *from, struct fiber *to)
{
    fake_fiber_exchange(&from->top, to->top);
}

static void set_up(struct fiber *fiber)
{
    /* What the switch pops: 6 registers, where to return to, and a word that puts the stack where a
     * called function expects it. */
    uintptr_t *top = (uintptr_t *)(fiber->stack + FIBER_STACK) - 8;

    for (int i = 0; i < 8; i++)
        top[i] = 0;
    top[6] = (uintptr_t)begin;
    fiber->top = top;
}
#endif

void fiber_prepare(struct fiber *fiber, void (*entry)(void))
{
    host.entry = entry;
    set_up(fiber);
}

void fiber_switch(struct fiber *from, struct fiber *to, bool ends)
{
    __sanitizer_start_switch_fiber(ends ? NULL : &from->sanitizer,
                                   to->stack ? to->stack : host.bottom,
                                   to->stack ? (size_t)FIBER_STACK : host.bytes);
    exchange(from, to);
    __sanitizer_finish_switch_fiber(from->sanitizer, NULL, NULL);
}
