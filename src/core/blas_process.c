/*
 * blas_process.c - what of BLAS belongs to the process: the number of its threads and its buffers
 *
 * OpenBLAS has one number of threads for the whole process; its openblas_set_num_threads_local is
 * no more than a set that says what was there before, but where OpenMP makes the threads.  So a
 * call borrows the number: it is set, and set back when the last of the calls that overlap ends.
 * A program that reads it between calls of libgram finds what it has set.  A program that calls the
 * same OpenBLAS from another thread meanwhile may compute that call with our number of threads, and
 * of two calls of libgram that overlap and want different numbers one may compute with the other's:
 * only the time differs, and the order of sums.  Who promises the same bits takes care that such
 * calls wait for each other (gram_blas_take_turns).
 *
 * Buffers are taken before OpenBLAS needs them where address space is limited.  A buffer that a
 * call of OpenBLAS has used stays mapped for the next, so as many as are held at once are there for
 * as many calls at once.  The threads of OpenBLAS map theirs when they begin: in the constructor of
 * the library, or when openblas_set_num_threads asks for more of them; they meet here before memory
 * is given to anything else.
 *
 * SPDX-License-Identifier: MIT
 */
#include "blas_process.h"
#include "blas.h"
#include "process.h"
#include "threads.h"
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

/* ---- Buffers --------------------------------------------------------------------------------- */

/* OpenBLAS only, and of its versions not all. */
void B(openblas_set_num_threads)(int threads) __attribute__((weak));
int B(openblas_get_num_threads)(void) __attribute__((weak));
void *B(blas_memory_alloc)(int place) __attribute__((weak));
void B(blas_memory_free)(void *buffer) __attribute__((weak));
int B(gotoblas_pthread)(int threads, void (*body)(void *), void *arg, int stride)
    __attribute__((weak));
extern int B(blas_num_threads) __attribute__((weak)); /* it has made, the caller's included */
extern int B(blas_server_avail) __attribute__((weak));
void B(dtrsm_)(const char *side, const char *uplo, const char *trans, const char *diag,
               const bint *m, const bint *n, const double *alpha, const double *a, const bint *lda,
               double *b, const bint *ldb, size_t, size_t, size_t, size_t);

#define MIB ((size_t)1 << 20)
#ifdef __powerpc64__
static const size_t buffer_bytes = 256 * MIB;
#else
static const size_t buffer_bytes = 128 * MIB; /* of x86-64 and s390; others have less */
#endif

static const int64_t patience = 5000000000; /* nanoseconds for threads that have begun to run */

atomic_bool gram_blas_memory_limited;
static _Thread_local bool inside;

static struct {   /* under GRAM_LOCK_BLAS */
    int owner;    /* a child of fork() has none of the calls that were under way */
    int asked;    /* threads of the largest context that was looked at */
    int callers;  /* buffers of calls; 0: none is taken */
    int threads;  /* BLAS may use */
    int busy;     /* calls under way */
    bool meeting; /* one was begun that has not ended in time */
    pthread_cond_t free_buffer;
} memory = {.free_buffer = PTHREAD_COND_INITIALIZER};

static struct {
    int threads;
    atomic_int present;
    atomic_bool given_up, over;
} meeting;

static void lock_memory(void)
{
    (void)pthread_mutex_lock(&gram_process()->lock[GRAM_LOCK_BLAS]);
    if (memory.owner != gram_process()->children) {
        memory.owner = gram_process()->children;
        memory.busy = 0;
        memory.meeting = false;
        (void)pthread_cond_init(&memory.free_buffer, NULL);
    }
}

static void unlock_memory(void)
{
    (void)pthread_mutex_unlock(&gram_process()->lock[GRAM_LOCK_BLAS]);
}

/* ---- What there is --------------------------------------------------------------------------- */

/* The system maps no more than it can hold: vm.overcommit_memory is 2. */
static bool never_overcommits(void)
{
    static atomic_int kept; /* the character, once it was read */
    int mode = atomic_load(&kept);

    if (!mode) {
        FILE *file = fopen("/proc/sys/vm/overcommit_memory", "re");
        mode = file ? fgetc(file) : EOF;
        if (file)
            fclose(file);
        atomic_store(&kept, mode);
    }
    return mode == '2';
}

static rlim_t address_limit(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_AS, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

static bool room_for(size_t bytes)
{
    void *memory_there =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return memory_there != MAP_FAILED && munmap(memory_there, bytes) == 0;
}

static size_t stack_bytes(void)
{
    pthread_attr_t attributes;
    size_t bytes = 0;

    if (pthread_attr_init(&attributes) == 0) {
        (void)pthread_attr_getstacksize(&attributes, &bytes);
        (void)pthread_attr_destroy(&attributes);
    }
    return bytes + MIB; /* a guard page, and what malloc wants for it */
}

/* The threads that OpenBLAS has made, and the caller. */
static int threads_made(void)
{
    return &B(blas_num_threads) ? B(blas_num_threads) : B(openblas_get_num_threads)();
}

void gram_blas_memory_detect(void)
{
    bool is_limited = address_limit() != RLIM_INFINITY || never_overcommits();

    if (is_limited && B(openblas_set_num_threads) && B(openblas_get_num_threads))
        atomic_store(&gram_blas_memory_limited, true);
}

/* ---- The threads of OpenBLAS have their buffers ---------------------------------------------- */

/* Stays until every thread has come, so that none comes twice. */
static void meet(void *arg)
{
    (void)arg;
    atomic_fetch_add(&meeting.present, 1);
    while (atomic_load(&meeting.present) < meeting.threads && !atomic_load(&meeting.given_up))
        sched_yield();
}

static void *hold_meeting(void *arg)
{
    (void)B(gotoblas_pthread)(meeting.threads, meet, arg, 0);
    atomic_store(&meeting.over, true);
    return NULL;
}

/* On a thread of its own, which waits for those that never get a buffer. */
static bool begin_meeting(int threads)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    bool begun;

    meeting.threads = threads;
    atomic_store(&meeting.present, 0);
    atomic_store(&meeting.given_up, false);
    atomic_store(&meeting.over, false);
    if (pthread_attr_init(&attributes) != 0)
        return false;
    (void)pthread_attr_setstacksize(&attributes, MIB);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    begun = pthread_create(&thread, &attributes, hold_meeting, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return begun;
}

/* True once all `threads` have come, each with its buffer. */
static bool have_met(int threads)
{
    int64_t start = gram_nanoseconds();

    if (threads <= 1 || !B(gotoblas_pthread))
        return true;
    if (!memory.meeting && !begin_meeting(threads))
        return false;
    memory.meeting = true;
    while (!atomic_load(&meeting.over) && !atomic_load(&meeting.given_up)) {
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        if (gram_nanoseconds() - start > patience)
            atomic_store(&meeting.given_up, true);
    }
    memory.meeting = !atomic_load(&meeting.over);
    return !memory.meeting;
}

/* ---- Taking buffers -------------------------------------------------------------------------- */

/* What threads need beyond what there is. */
static size_t bytes_of(int threads, int made)
{
    size_t bytes = 0;

    if (threads > memory.callers)
        bytes += (size_t)(threads - memory.callers) * buffer_bytes;
    if (threads > made)
        bytes += (size_t)(threads - made) * (buffer_bytes + stack_bytes());
    return bytes;
}

/* Has OpenBLAS map buffers for `count` calls at once.  Returns for how many it did. */
static int take_buffers(int count)
{
    void *buffer[GRAM_MAX_THREADS];
    double one = 1, b = 1;
    bint n = 1;
    int taken = 0;

    if (!B(blas_memory_alloc) || !B(blas_memory_free)) {
        B(dtrsm_)("R", "L", "T", "N", &n, &n, &one, &one, &n, &b, &n, 1, 1, 1, 1);
        return 1;
    }
    while (taken < count && (buffer[taken] = B(blas_memory_alloc)(0)))
        taken++;
    for (int i = 0; i < taken; i++)
        B(blas_memory_free)(buffer[i]);
    return taken;
}

/* The number of threads of BLAS stays as it is. */
static int make_threads(int wanted, int made)
{
    int before = B(openblas_get_num_threads)(), present;

    if (wanted <= made || !B(gotoblas_pthread))
        return made;
    B(openblas_set_num_threads)(wanted);
    present = B(openblas_get_num_threads)(); /* it may have a limit of its own */
    B(openblas_set_num_threads)(before);
    return present > made && have_met(present) ? present : made;
}

static bool take(int wanted)
{
    int made = threads_made(), threads = wanted, taken;

    /* A thread of OpenBLAS that has no buffer yet would get the one that was seen to be there. */
    if (memory.callers == 0 &&
        (!room_for(buffer_bytes) || !have_met(made) || !room_for(buffer_bytes)))
        return false;
    if (memory.busy > 0) /* what they will use is not known */
        return true;
    while (threads > 1 && !room_for(2 * bytes_of(threads, made)))
        threads--;
    if (threads > memory.callers) {
        taken = take_buffers(threads);
        memory.callers = taken > memory.callers ? taken : memory.callers;
    }
    memory.threads = make_threads(threads, made);
    memory.asked = wanted;
    return memory.callers > 0;
}

gram_status gram_blas_memory_reserve(gram_context *g)
{
    bool taken = true;

    lock_memory();
    if (g->threads > memory.asked)
        taken = take(g->threads);
    unlock_memory();
    if (taken)
        return GRAM_OK;
    if (address_limit() == RLIM_INFINITY)
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "BLAS needs a buffer of %zu MiB, which the system does not grant "
                         "(vm.overcommit_memory is 2)",
                         buffer_bytes / MIB);
    return gram_fail(g, GRAM_OUT_OF_MEMORY,
                     "BLAS needs a buffer of %zu MiB, which the limit of %llu MiB of address space "
                     "(ulimit -v) does not leave",
                     buffer_bytes / MIB, (unsigned long long)(address_limit() / MIB));
}

/* ---- Around calls ---------------------------------------------------------------------------- */

static void enter_memory(void)
{
    lock_memory();
    if (memory.callers > 0) {
        while (memory.busy >= memory.callers)
            (void)pthread_cond_wait(&memory.free_buffer, &gram_process()->lock[GRAM_LOCK_BLAS]);
        memory.busy++;
        inside = true;
    }
    unlock_memory();
}

static void leave_memory(void)
{
    if (!inside)
        return;
    inside = false;
    lock_memory();
    if (memory.busy > 0)
        memory.busy--;
    (void)pthread_cond_signal(&memory.free_buffer);
    unlock_memory();
}

int gram_blas_memory_threads(void)
{
    int threads = INT_MAX;

    if (!gram_blas_memory_is_limited())
        return threads;
    lock_memory();
    if (memory.threads > 0)
        threads = memory.threads;
    unlock_memory();
    return threads;
}

/* OpenBLAS ends its threads after this, and would wait for ever for one that wants a buffer. */
__attribute__((destructor)) static void leave_threads(void)
{
    gram_blas_memory_detect();
    if (gram_blas_memory_is_limited() && &B(blas_server_avail) && threads_made() > 1 &&
        !room_for(buffer_bytes))
        B(blas_server_avail) = 0;
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* What one thread does before another is woken: 128^3 take 30 to 70 us, about as long as a thread
 * that sleeps needs to come. */
static const double small_work = 128.0 * 128 * 128;

/* The threads of calls of this thread; 0: whatever is set, which in a loop is 1. */
static _Thread_local int wanted;

static struct {          /* under GRAM_LOCK_BLAS */
    int owner;           /* a child of fork() has none of the calls that were under way */
    int calls;           /* that have borrowed the number */
    int before, present; /* the number before them, and as they have left it */
    int promises;        /* of who wants calls to have their own number */
    uint64_t came, went; /* calls that wait for it, in order */
    bool kept;           /* before is not to be read again: nobody has set the number back */
    pthread_cond_t ended;
} loan = {.ended = PTHREAD_COND_INITIALIZER};

/* The loans of this thread, inside of which others do not wait. */
static _Thread_local int lent_here;

static void lock_loan(void)
{
    pthread_mutex_lock(&gram_process()->lock[GRAM_LOCK_BLAS]);
}

static void unlock_loan(void)
{
    pthread_mutex_unlock(&gram_process()->lock[GRAM_LOCK_BLAS]);
}

/* Nobody who waits, calls or has promised anything is in the child of fork(). */
static void forget_other_process(void)
{
    if (loan.owner == gram_process()->children)
        return;
    loan.owner = gram_process()->children;
    loan.kept = loan.calls > 0;
    loan.calls = loan.promises = lent_here = 0;
    loan.went = loan.came;
    (void)pthread_cond_init(&loan.ended, NULL);
}

/* Until the calls that want another number have ended, and those that came before have begun. */
static void wait_for_turn(int threads)
{
    const uint64_t turn = loan.came++;

    while (turn != loan.went || (loan.calls > 0 && loan.present != threads))
        (void)pthread_cond_wait(&loan.ended, &gram_process()->lock[GRAM_LOCK_BLAS]);
    loan.went++;
    (void)pthread_cond_broadcast(&loan.ended);
}

void gram_blas_take_turns(bool on)
{
    lock_loan();
    forget_other_process();
    if (on)
        loan.promises++;
    else if (loan.promises > 0)
        loan.promises--;
    unlock_loan();
}

/* False if there is no such number.  A call borrows it even where it is already the one that is
 * wanted: else the end of another call, which had set it, would change it in the middle of ours. */
static bool borrow(int threads)
{
    if (!B(openblas_set_num_threads) || !B(openblas_get_num_threads))
        return false;
    lock_loan();
    forget_other_process();
    if (loan.promises > 0 && lent_here == 0)
        wait_for_turn(threads);
    if (loan.calls == 0 && !loan.kept)
        loan.before = B(openblas_get_num_threads)();
    loan.kept = false;
    loan.calls++;
    lent_here++;
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
    lent_here -= lent_here > 0;
    if (--loan.calls == 0 && B(openblas_get_num_threads)() == loan.present)
        B(openblas_set_num_threads)(loan.before);
    if (loan.came != loan.went)
        (void)pthread_cond_broadcast(&loan.ended);
    unlock_loan();
}

bool gram_blas_begin(double work)
{
    const bool limited = gram_blas_memory_is_limited();
    const int most = limited ? gram_blas_memory_threads() : INT_MAX;
    const int threads = work <= small_work ? 1 : wanted;
    const bool lent = wanted > 0 && borrow(threads < most ? threads : most);

    if (limited) /* behind the loan: who waits for that holds no buffer */
        enter_memory();
    return lent;
}

void gram_blas_end(bool lent)
{
    if (gram_blas_memory_is_limited())
        leave_memory();
    if (lent)
        give_back();
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
