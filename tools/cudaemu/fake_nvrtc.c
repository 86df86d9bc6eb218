/*
 * fake_nvrtc.c - NVRTC whose machine code is a shared object, made by the host's C++ compiler
 *
 * The sources go to a folder of their own below TMPDIR, "ptx.cuh" replaced by ptx_emulated.h; they
 * are preprocessed, rewritten (fake_rewrite.c) and compiled, unless the cache of all build folders
 * (compile_cache.h) has the result.  Set by CMake: FAKE_CUDA_CXX, FAKE_CUDA_FOLDER (where
 * device_prelude.h is), FAKE_CUDA_FLAGS, FAKE_SANITIZED where those say AddressSanitizer.  The
 * version's minor number is a hash of the emulation, so that a cache of kernels does not outlive
 * it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "fake_cubin.h"
#include "fake_nvrtc_key.h"
#include "fake_rewrite.h"
#include <nvrtc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#ifdef FAKE_SANITIZED
#  define SANITIZED true
#else
#  define SANITIZED false
#endif

enum {
    MOST_WORDS = 96,
    MOST_HEADERS = 96
};

struct _nvrtcProgram {
    char *name, *source, *log;
    int headers;
    char *header_name[MOST_HEADERS], *header[MOST_HEADERS];
    struct fake_cubin *code;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- Files ----------------------------------------------------------------------------------- */

static bool write_file(const char *folder, const char *name, const char *text)
{
    char path[512];
    FILE *file;
    bool written;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "wb");
    if (!file)
        return false;
    written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written;
}

static void remove_file(const char *folder, const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)unlink(path);
}

/* ---- The version ----------------------------------------------------------------------------- */

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = (int)(fake_emulation_hash() & 0x3fffffff);
    return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult result)
{
    switch ((int)result) {
    case NVRTC_SUCCESS:
        return "NVRTC_SUCCESS";
    case NVRTC_ERROR_OUT_OF_MEMORY:
        return "NVRTC_ERROR_OUT_OF_MEMORY";
    case NVRTC_ERROR_INVALID_OPTION:
        return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION:
        return "NVRTC_ERROR_COMPILATION";
    default:
        return "another error of NVRTC";
    }
}

static const int archs[] = {80, 90};

nvrtcResult nvrtcGetNumSupportedArchs(int *count)
{
    *count = (int)(sizeof archs / sizeof *archs);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *out)
{
    memcpy(out, archs, sizeof archs);
    return NVRTC_SUCCESS;
}

/* ---- Programs -------------------------------------------------------------------------------- */

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    nvrtcProgram p = *program;

    for (int i = 0; i < p->headers; i++)
        free(p->header_name[i]), free(p->header[i]);
    free(p->name), free(p->source), free(p->log), free(p->code), free(p);
    *program = NULL;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name,
                               int headers, const char *const *texts, const char *const *names)
{
    nvrtcProgram p = calloc(1, sizeof *p);

    if (!p || headers > MOST_HEADERS || !source) {
        free(p);
        return source ? NVRTC_ERROR_OUT_OF_MEMORY : NVRTC_ERROR_INVALID_INPUT;
    }
    p->source = strdup(source);
    p->name = strdup(name ? name : "default_program");
    for (; p->headers < headers; p->headers++) {
        p->header_name[p->headers] = strdup(names[p->headers]);
        p->header[p->headers] = strdup(texts[p->headers]);
    }
    *program = p;
    return NVRTC_SUCCESS;
}

/* What stands in the place of a header. */
static const char *header_of(const struct _nvrtcProgram *p, int i)
{
    if (strcmp(p->header_name[i], "ptx.cuh") == 0)
        return "#include \"ptx_emulated.h\"\n";
    if (strcmp(p->header_name[i], "ptx_wgmma.cuh") == 0)
        return "#include \"ptx_wgmma_emulated.h\"\n";
    return p->header[i];
}

static bool write_sources(const struct _nvrtcProgram *p, const char *folder)
{
    bool written = write_file(folder, p->name, p->source);
    char unit[512];

    for (int i = 0; i < p->headers; i++)
        written &= write_file(folder, p->header_name[i], header_of(p, i));
    snprintf(unit, sizeof unit, "#include \"device_prelude.h\"\n#include \"%s\"\n", p->name);
    return written && write_file(folder, "unit.cpp", unit);
}

static void remove_sources(const struct _nvrtcProgram *p, const char *folder)
{
    static const char *const names[] = {"unit.cpp", "unit.ii", "kernel.ii", "kernel.so", "log"};

    remove_file(folder, p->name);
    for (int i = 0; i < p->headers; i++)
        remove_file(folder, p->header_name[i]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove_file(folder, names[i]);
    (void)rmdir(folder);
}

/* Runs the compiler in the folder; what it says goes to the file "log" there. */
static bool run(const char *folder, const char *const *words)
{
    posix_spawn_file_actions_t actions;
    int status = -1;
    pid_t child;

    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    (void)posix_spawn_file_actions_addchdir_np(&actions, folder);
    (void)posix_spawn_file_actions_addopen(&actions, 2, "log", 0x241 /* write, create, empty */,
                                           0600);
    if (posix_spawnp(&child, words[0], &actions, NULL, (char *const *)(uintptr_t)words, environ) ==
        0)
        (void)waitpid(child, &status, 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    return status == 0;
}

struct words {
    const char *at[MOST_WORDS];
    int count;
};

static void add(struct words *w, const char *word)
{
    if (w->count < MOST_WORDS - 1)
        w->at[w->count++] = word;
}

/* Adds the words of text, which it cuts into them. */
static void add_all(struct words *w, char *text)
{
    char *rest = NULL;

    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        add(w, word);
}

/* "-D__CUDA_ARCH__=900" of "--gpu-architecture=sm_90". */
static void name_arch(const char *chip, char *define, size_t size)
{
    size_t digits = strcspn(chip, "0123456789");

    snprintf(define, size, "-D__CUDA_ARCH__=%ld0", strtol(chip + digits, NULL, 10));
}

static bool preprocess(const char *folder, int count, const char *const *options, bool *known)
{
    static const char *const silent[] = {
        "--disable-warnings",   "--std=",         "--fmad=",         "--maxrregcount=",
        "--ptxas-options=",     "--device-debug", "-lineinfo",       "-G",
        "--generate-line-info", "--dopt=",        "-default-device",
    };
    struct words w = {
        .at = {FAKE_CUDA_CXX, "-E", "-x", "c++", "-std=c++17", "-w", "-I", FAKE_CUDA_FOLDER, "-I.",
               "-D__CUDACC_RTC__", "unit.cpp", "-o", "unit.ii"},
        .count = 13
    };
    static const char architecture[] = "--gpu-architecture=";
    char arch[32] = "-D__CUDA_ARCH__=900";

#ifdef FAKE_SANITIZED
    add(&w, "-DFAKE_SANITIZED"); /* this step does not know of the sanitizer */
#endif
    *known = true;
    add(&w, arch);
    for (int i = 0; i < count; i++) {
        bool found = strncmp(options[i], "-D", 2) == 0;
        if (found)
            add(&w, options[i]);
        if (strncmp(options[i], architecture, strlen(architecture)) == 0) {
            name_arch(options[i] + strlen(architecture), arch, sizeof arch);
            found = true;
        }
        for (size_t s = 0; s < sizeof silent / sizeof *silent; s++)
            found |= strncmp(options[i], silent[s], strlen(silent[s])) == 0;
        *known &= found;
    }
    return *known && run(folder, w.at);
}

static bool rewrite(const char *folder)
{
    char path[512];
    size_t size = 0;
    char *text = fake_read_file(folder, "unit.ii", &size);
    FILE *file;
    bool written;

    snprintf(path, sizeof path, "%s/kernel.ii", folder);
    file = text ? fopen(path, "wb") : NULL;
    written = file && fake_rewrite(text, !SANITIZED, file);
    free(text);
    return file && fclose(file) == 0 && written;
}

static bool compile(const char *folder)
{
    struct words w = {
        .at = {FAKE_CUDA_CXX, "-x", "c++-cpp-output", "-std=c++17"},
          .count = 4
    };
    char flags[] = FAKE_CUDA_FLAGS;

    add_all(&w, flags);
    add(&w, "kernel.ii"), add(&w, "-o"), add(&w, "kernel.so"), add(&w, "-lm");
    return run(folder, w.at);
}

static bool take_code(struct _nvrtcProgram *p, const char *bytes, size_t size, int count,
                      const char *const *options)
{
    size_t defines = 1;
    char *at;

    for (int i = 0; i < count; i++)
        defines += strncmp(options[i], "-D", 2) == 0 ? strlen(options[i]) + 1 : 0;
    p->code = malloc(sizeof *p->code + size + defines);
    if (!p->code)
        return false;
    memcpy(p->code->magic, FAKE_CUBIN_MAGIC, sizeof p->code->magic);
    p->code->bytes = size, p->code->defines_bytes = defines;
    memcpy(p->code + 1, bytes, size);
    at = (char *)(p->code + 1) + size;
    for (int i = 0; i < count; i++)
        if (strncmp(options[i], "-D", 2) == 0)
            at = stpcpy(stpcpy(at, " "), options[i]);
    *at = '\0';
    return true;
}

static size_t code_bytes(const struct fake_cubin *code)
{
    return sizeof *code + code->bytes + code->defines_bytes;
}

/* The shared object, and the log; NULL if there is none. */
static char *make_code(struct _nvrtcProgram *p, int count, const char *const *options, bool *known,
                       size_t *size)
{
    const char *parent = getenv("TMPDIR");
    char folder[256], *bytes = NULL;
    size_t log_size = 0;
    bool done;

    snprintf(folder, sizeof folder, "%s/fake-nvrtc-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(folder))
        return NULL;
    done = write_sources(p, folder) && preprocess(folder, count, options, known);
    if (done) {
        (void)pthread_mutex_lock(&lock);
        done = rewrite(folder);
        (void)pthread_mutex_unlock(&lock);
    }
    if (done && compile(folder))
        bytes = fake_read_file(folder, "kernel.so", size);
    p->log = fake_read_file(folder, "log", &log_size);
    remove_sources(p, folder);
    return bytes;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int count, const char *const *options)
{
    struct compile_key key = fake_key_begin();
    bool known = true, done;
    size_t size = 0;
    char *bytes;

    free(p->log);
    p->log = NULL;
    compile_key_add(&key, p->name);
    compile_key_add_source(&key, p->source, p->headers, (const char *const *)p->header_name,
                           (const char *const *)p->header);
    for (int i = 0; i < count; i++)
        compile_key_add(&key, options[i]);
    bytes = compile_cache_get(&key, &size);
    if (!bytes) {
        bytes = make_code(p, count, options, &known, &size);
        if (bytes)
            compile_cache_put(&key, bytes, size);
    }
    done = bytes && take_code(p, bytes, size, count, options);
    free(bytes);
    return done ? NVRTC_SUCCESS : known ? NVRTC_ERROR_COMPILATION : NVRTC_ERROR_INVALID_OPTION;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
    *size = program->log ? strlen(program->log) + 1 : 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    size_t size;

    (void)nvrtcGetProgramLogSize(program, &size);
    memcpy(log, program->log ? program->log : "", size);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
    *size = program->code ? code_bytes(program->code) : 0;
    return program->code ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *code)
{
    if (!program->code)
        return NVRTC_ERROR_INVALID_PROGRAM;
    memcpy(code, program->code, code_bytes(program->code));
    return NVRTC_SUCCESS;
}

/* PTX for a newer chip is the same code. */
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *size)
{
    return nvrtcGetCUBINSize(program, size);
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *code)
{
    return nvrtcGetCUBIN(program, code);
}
