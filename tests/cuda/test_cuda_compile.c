/*
 * test_cuda_compile.c - every kind of kernel compiles for every chip, without a device
 *
 * NVRTC needs none.  A kernel that takes more registers than its line in cuda_registers.txt allows
 * is a failure, and so is one that uses local memory (a spill, or an array that is indexed at run
 * time) but for the bytes that its line allows: those that were measured to be the faster for it.
 * --rewrite writes the table: what a kernel takes, rounded up to what a chip hands out.  --all
 * compiles every kernel for every chip; any other word those whose line holds it (`make test`:
 * sm_90a; `make check`: all).  --keep FOLDER writes what was compiled there: NUMBER.cubin, and what
 * it is in NUMBER.txt.  Without NVRTC: skipped.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/process.h"
#include "cuda_jobs.h"
#include "cuda_kept_compiler.h"
#include <elf.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum {
    MOST_THREADS = 16,
    REGISTER_STEP = 8 /* registers are handed out to a warp in steps of so many a thread */
};

static bool rewrite;
static const char *only = ""; /* jobs whose name holds it */
static const char *kept_in;   /* the folder of --keep, NULL without */

/* ---- What a cubin says of itself ------------------------------------------------------------ */

/*
 * The largest value of an attribute of a kernel, -1 if there is none.  A cubin is an ELF file;
 * section .nv.info is a list of attributes: format, number, size, then size bytes in format 4.
 * Those that are wanted hold two words: a symbol and the value.
 */
static int64_t attribute_of(const struct jit_code *code, int number)
{
    const Elf64_Ehdr *file = (const void *)code->bytes;
    const Elf64_Shdr *sections = (const void *)(code->bytes + file->e_shoff);
    const char *names = code->bytes + sections[file->e_shstrndx].sh_offset;
    int64_t most = -1;

    for (int i = 0; i < file->e_shnum; i++) {
        const char *at = code->bytes + sections[i].sh_offset, *end = at + sections[i].sh_size;
        if (strcmp(names + sections[i].sh_name, ".nv.info") != 0)
            continue;
        while (at + 4 <= end) {
            uint16_t size;
            uint32_t words[2];
            memcpy(&size, at + 2, sizeof size);
            if (at[0] == 4 && at[1] == number && size >= sizeof words) {
                memcpy(words, at + 4, sizeof words);
                most = (int64_t)words[1] > most ? (int64_t)words[1] : most;
            }
            at += 4 + (at[0] == 4 ? size : 0);
        }
    }
    return most;
}

enum {
    FRAME_SIZE = 0x11,    /* bytes of local memory a thread */
    REGISTER_COUNT = 0x2f /* a thread */
};

/* ---- The work ------------------------------------------------------------------------------- */

/* The first job that wants what NVRTC makes for this one: all kernels of a file with the same
 * defines are one program, and its numbers are those of the hungriest. */
static int first_alike(const struct job *jobs, int i)
{
    for (int k = 0; k < i; k++)
        if (jobs[k].chip == jobs[i].chip &&
            strcmp(jobs[k].request.file, jobs[i].request.file) == 0 &&
            strcmp(jobs[k].request.defines, jobs[i].request.defines) == 0 &&
            strstr(jobs[k].name, only))
            return k;
    return i;
}

struct work {
    const struct cuda_compiler *compiler;
    struct job *jobs;
    int count;
    atomic_int next;
};

static bool write_kept(int number, const char *ending, const char *bytes, size_t size)
{
    char path[4096];
    FILE *file;
    bool written;

    snprintf(path, sizeof path, "%s/%d.%s", kept_in, number, ending);
    file = fopen(path, "wb");
    written = file && fwrite(bytes, 1, size, file) == size;
    return file && fclose(file) == 0 && written;
}

/* The code, and four lines: the chip, the file, the defines, the job's name. */
static bool keep(const struct job *job, int number, const struct jit_code *code)
{
    char text[2 * LINE + CUDA_TEXT_BYTES];
    int length = snprintf(text, sizeof text, "%s\n%s\n%s\n%s\n", job->chip, job->request.file,
                          job->request.defines, job->name);

    return length < (int)sizeof text && write_kept(number, "cubin", code->bytes, code->size) &&
           write_kept(number, "txt", text, (size_t)length);
}

static void *compile(void *arg)
{
    struct work *work = arg;
    gram_context g = {.call = "compile", .process = gram_process()};

    for (int i; (i = atomic_fetch_add(&work->next, 1)) < work->count;) {
        struct job *job = &work->jobs[i];
        struct jit_code code;
        if (!strstr(job->name, only) || first_alike(work->jobs, i) != i)
            continue;
        job->status = gram_jit_compile(&g, work->compiler, &job->request, job->chip, &code);
        if (job->status == GRAM_OK) {
            job->frame = attribute_of(&code, FRAME_SIZE);
            job->registers = attribute_of(&code, REGISTER_COUNT);
        } else
            memcpy(job->message, g.message, sizeof job->message);
        if (job->status == GRAM_OK && kept_in && !keep(job, i, &code)) {
            job->status = GRAM_IO;
            snprintf(job->message, sizeof job->message, "not written to %s", kept_in);
        }
        free(code.bytes);
    }
    return NULL;
}

static void compile_all(struct work *work)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t thread[MOST_THREADS];
    int started = 0;

    while (started + 1 < processors && started < MOST_THREADS &&
           pthread_create(&thread[started], NULL, compile, work) == 0)
        started++;
    (void)compile(work);
    for (int i = 0; i < started; i++)
        (void)pthread_join(thread[i], NULL);
    for (int i = 0; i < work->count; i++) {
        const struct job *done = &work->jobs[first_alike(work->jobs, i)];
        struct job *job = &work->jobs[i];
        job->status = done->status, job->frame = done->frame, job->registers = done->registers;
        memcpy(job->message, done->message, sizeof job->message);
    }
}

/* ---- The table of registers ----------------------------------------------------------------- */

static FILE *open_table(const char *mode)
{
    const char *source = getenv("GRAM_SOURCE_DIR");
    char path[4096];

    snprintf(path, sizeof path, "%s/tests/cuda/cuda_registers.txt", source ? source : ".");
    return fopen(path, mode);
}

/* "registers name" or, with bytes of local memory, "registers+bytes name", one a line; 0: no line
 * has the name.  With --all the first word of names, the chip, does not count. */
static int64_t budget_of(FILE *table, const char *name, int64_t *frame)
{
    const char *wanted = all ? strchr(name, ' ') : name;
    char line[LINE];
    int64_t budget = 0;

    *frame = 0;
    rewind(table);
    while (budget == 0 && fgets(line, sizeof line, table)) {
        char *rest;
        long registers = strtol(line, &rest, 10), bytes = 0;
        if (*rest == '+')
            bytes = strtol(rest + 1, &rest, 10);
        rest[strcspn(rest, "\n")] = '\0';
        if (*rest != ' ')
            continue;
        rest = all ? strchr(rest + 1, ' ') : rest + 1;
        if (rest && strcmp(rest, wanted) == 0)
            budget = registers, *frame = bytes;
    }
    return budget;
}

static void write_table(struct harness *h, const struct work *work)
{
    FILE *table = open_table("w");

    if (!CHECK(h, table, "tests/cuda/cuda_registers.txt cannot be written"))
        return;
    fprintf(table, "# Registers a thread that a kernel may take; see test_cuda_compile.c.\n");
    for (int i = 0; i < work->count; i++) {
        int64_t steps = (work->jobs[i].registers + REGISTER_STEP - 1) / REGISTER_STEP;
        fprintf(table, "%d", (int)steps * REGISTER_STEP);
        if (work->jobs[i].frame > 0)
            fprintf(table, "+%d", (int)work->jobs[i].frame);
        fprintf(table, " %s\n", work->jobs[i].name);
    }
    CHECK(h, fclose(table) == 0, "tests/cuda/cuda_registers.txt cannot be written");
}

static void check_job(struct harness *h, const struct job *job, FILE *table)
{
    int64_t budget, frame = 0;

    if (!CHECK(h, job->status == GRAM_OK, "%s: %s", job->name, job->message) || rewrite)
        return;
    budget = budget_of(table, job->name, &frame);
    CHECK(h, job->frame <= frame || (all && frame > 0),
          "%s: %lld bytes of local memory a thread, the table allows %lld", job->name,
          (long long)job->frame, (long long)frame);
    if (all)
        return;
    CHECK(h, budget > 0,
          "%s: no line in tests/cuda/cuda_registers.txt (test_cuda_compile --rewrite)", job->name);
    CHECK(h, budget == 0 || (job->registers > 0 && job->registers <= budget),
          "%s: %lld registers, the table allows %lld", job->name, (long long)job->registers,
          (long long)budget);
}

static void every_kernel_compiles(struct harness *h)
{
    struct work work = {0};
    struct list list = {.g = h->g};
    const char *why;
    FILE *table = NULL;

    work.compiler = gram_cuda_compiler(h->g, &why);
    if (!work.compiler) {
        printf("skipped: %s\n", why);
        exit(77);
    }
    work.compiler = kept_compiler(work.compiler);
    atomic_init(&work.next, 0);
    work.jobs = list.jobs = calloc(most_jobs(), sizeof *work.jobs);
    if (!rewrite)
        table = open_table("r");
    if (!CHECK(h, work.jobs && (table || rewrite), "no memory or no tests/cuda/cuda_registers.txt"))
        exit(1);
    for (; list.chip < CHIPS; list.chip++)
        list_chip(&list);
    work.count = list.count;
    compile_all(&work);
    for (int i = 0; i < work.count; i++)
        if (strstr(work.jobs[i].name, only))
            check_job(h, &work.jobs[i], table);
    if (rewrite)
        write_table(h, &work);
    else
        (void)fclose(table);
    free(work.jobs);
}

/* ---- Other tests ---------------------------------------------------------------------------- */

/* Sources that are wrong are told with the compiler's own words. */
static void the_log_reaches_the_message(struct harness *h)
{
    const struct jit_request request = {.file = "cdist.cu", .kernel = "cdist", .defines = "-DTM=3"};
    const char *why;
    const struct cuda_compiler *compiler = gram_cuda_compiler(h->g, &why);
    struct jit_code code;
    gram_status status;

    h->g->call = "compile";
    status = gram_jit_compile(h->g, compiler, &request, "sm_90", &code);
    CHECK(h, status == GRAM_UNSUPPORTED && !code.bytes, "TM=3 gives %s", gram_status_name(status));
    CHECK(h, strstr(gram_message(h->g), "TM must be 8, 4 or 2"), "%s", gram_message(h->g));
}

/* GRAM_JIT_DEBUG: code that a debugger understands, under a key of its own. */
static void code_for_a_debugger(struct harness *h)
{
    const struct jit_request request = {
        .file = "agop.cu", .kernel = "agop_sum", .defines = "-DREAL=float"};
    char plain[JIT_KEY_BYTES], debug[JIT_KEY_BYTES];
    const char *why;
    const struct cuda_compiler *compiler = gram_cuda_compiler(h->g, &why);
    struct jit_code code = {0}, slow = {0};

    h->g->call = "compile";
    gram_jit_key(h->g, compiler, &request, "sm_90", plain);
    CHECK(h, gram_jit_compile(h->g, compiler, &request, "sm_90", &code) == GRAM_OK, "%s",
          gram_message(h->g));
    h->g->debug_jit = true;
    gram_jit_key(h->g, compiler, &request, "sm_90", debug);
    CHECK(h, gram_jit_compile(h->g, compiler, &request, "sm_90", &slow) == GRAM_OK, "%s",
          gram_message(h->g));
    h->g->debug_jit = false;
    CHECK(h, strcmp(plain, debug) != 0, "one key: %s", debug);
    CHECK(h, slow.bytes && memmem(slow.bytes, slow.size, ".debug_line", 11), "no lines");
    CHECK(h, code.bytes && !memmem(code.bytes, code.size, ".debug_line", 11), "lines");
    free(code.bytes);
    free(slow.bytes);
}

static void chips_that_are_newer(struct harness *h)
{
    const char *why;
    const struct cuda_compiler *compiler = gram_cuda_compiler(h->g, &why);
    char chip[32];

    gram_jit_chip(compiler, 90, chip, sizeof chip);
    CHECK(h, strncmp(chip, "sm_90", 5) == 0, "%s", chip);
    gram_jit_chip(compiler, 990, chip, sizeof chip);
    CHECK(h, strncmp(chip, "compute_", 8) == 0 && strcmp(chip, "compute_990") != 0, "%s", chip);
}

static const struct test_function tests[] = {
    {      "every_kernel_compiles",       every_kernel_compiles},
    {"the_log_reaches_the_message", the_log_reaches_the_message},
    {        "code_for_a_debugger",         code_for_a_debugger},
    {       "chips_that_are_newer",        chips_that_are_newer},
};

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--rewrite") == 0)
            rewrite = true;
        else if (strcmp(argv[i], "--all") == 0)
            all = true;
        else if (strcmp(argv[i], "--keep") == 0 && i + 1 < argc)
            kept_in = argv[++i];
        else
            only = argv[i];
    return harness_run_tests(tests, LENGTH(tests));
}
