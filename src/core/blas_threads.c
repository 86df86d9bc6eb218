/*
 * blas_threads.c - how many threads BLAS uses: the context's, one, or what the process has set
 *
 * OpenBLAS has one number for the whole process; its openblas_set_num_threads_local is no more than
 * a set that says what was there before, but where OpenMP makes the threads.  So a call borrows the
 * number: it is set, and set back when the last of the calls that overlap ends.  Who reads it
 * between calls of libgram finds what he has set.  A program that calls the same OpenBLAS from
 * another thread meanwhile may compute that call with our number of threads, and of two calls of
 * libgram that overlap and want different numbers one may compute with the other's: only the time
 * differs, and the order of sums.
 *
 * SPDX-License-Identifier: MIT
 */
#include "blas_threads.h"
#include "blas.h"
#include "blas_fortran.h"
#include "blas_memory.h"
#include "process.h"
#include "threads.h"

/* OpenBLAS only; other libraries do not define them. */
void B(openblas_set_num_threads)(int threads) __attribute__((weak));
int B(openblas_get_num_threads)(void) __attribute__((weak));

/* What one thread does before another is woken: 128^3 take 30 to 70 us, about as long as a thread
 * that sleeps needs to come. */
static const double small_work = 128.0 * 128 * 128;

/* The threads of calls of this thread; 0: whatever is set, which in a loop is 1. */
static _Thread_local int wanted;

static struct {          /* under GRAM_LOCK_BLAS */
    int owner;           /* a child of fork() has none of the calls that were under way */
    int calls;           /* that have borrowed the number */
    int before, present; /* the number before them, and as they have left it */
} loan;

static void lock_loan(void)
{
    pthread_mutex_lock(&gram_process()->lock[GRAM_LOCK_BLAS]);
}

static void unlock_loan(void)
{
    pthread_mutex_unlock(&gram_process()->lock[GRAM_LOCK_BLAS]);
}

/* False if there is no such number.  A call borrows it even where it is already the one that is
 * wanted: else the end of another call, which had set it, would change it in the middle of ours. */
static bool borrow(int threads)
{
    if (!B(openblas_set_num_threads) || !B(openblas_get_num_threads))
        return false;
    lock_loan();
    if (loan.calls > 0 && loan.owner != gram_process()->children)
        loan.calls = 0; /* before stays: nobody has set it back */
    else if (loan.calls == 0)
        loan.before = B(openblas_get_num_threads)();
    loan.calls++;
    loan.owner = gram_process()->children;
    loan.present = threads;
    if (B(openblas_get_num_threads)() != threads)
        B(openblas_set_num_threads)(threads);
    unlock_loan();
    return true;
}

/* Who has set another number meanwhile keeps it. */
static void give_back(void)
{
    lock_loan();
    if (--loan.calls == 0 && B(openblas_get_num_threads)() == loan.present)
        B(openblas_set_num_threads)(loan.before);
    unlock_loan();
}

bool gram_blas_begin(double work)
{
    int threads = work <= small_work ? 1 : wanted;

    if (gram_blas_memory_is_limited()) {
        int most = gram_blas_memory_threads();
        threads = threads < most ? threads : most;
        gram_blas_memory_enter();
    }
    return wanted > 0 && borrow(threads);
}

void gram_blas_end(bool lent)
{
    if (lent)
        give_back();
    if (gram_blas_memory_is_limited())
        gram_blas_memory_leave();
}

void gram_blas_threads(const gram_context *g)
{
    wanted = g->threads;
}

void gram_blas_one_thread(void)
{
    wanted = 1;
}

void gram_blas_for(gram_context *g, int64_t count, gram_loop_body *body, void *arg)
{
    int before = wanted;
    bool lent = borrow(1);

    wanted = 0;
    gram_parallel_for(g, count, body, arg);
    wanted = before;
    if (lent)
        give_back();
}
