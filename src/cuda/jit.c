/*
 * jit.c - from a request to code: the key, the cache, else the compiler
 *
 * A kernel is compiled for the chip of its device, from sources that the library contains.  What is
 * made goes to a cache on disk, whose key has everything that the code depends on, so that a change
 * of the library, the compiler or the chip needs no cleaning up.
 *
 * SPDX-License-Identifier: MIT
 */
#include "jit.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_FORMAT = 2, /* of the key and of what is stored under it */
    MOST_OPTIONS = 40,
    MOST_HEADERS = 96,
    MOST_ARCHS = 64
};

/* ---- SHA-256 (FIPS 180-4, section 6.2) ------------------------------------------------------- */

enum {
    BLOCK = 64,
    ROUNDS = 64,
    SHA256_TEXT = 65 /* hexadecimal digits and an end */
};

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t constants[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turned(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

static void schedule(const unsigned char *block, uint32_t w[ROUNDS])
{
    for (int i = 0; i < 16; i++, block += 4)
        w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 |
               block[3];
    for (int i = 16; i < ROUNDS; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) +
               (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
    }
}

/* a to h of the standard are v[0] to v[7]. */
static void add_block(const unsigned char *block, uint32_t hash[8])
{
    uint32_t w[ROUNDS], v[8];

    schedule(block, w);
    memcpy(v, hash, sizeof v);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t e = v[4], a = v[0];
        uint32_t first = v[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) +
                         ((e & v[5]) ^ (~e & v[6])) + constants[i] + w[i];
        uint32_t second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) +
                          ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += first;
        v[0] = first + second;
    }
    for (int i = 0; i < 8; i++)
        hash[i] += v[i];
}

/* The digits of the SHA-256 of a text. */
static void hash_text(const void *data, size_t bytes, char text[SHA256_TEXT])
{
    /* Of the square roots of the first 8 primes. */
    uint32_t hash[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const unsigned char *from = data;
    unsigned char last[2 * BLOCK] = {0};
    size_t whole = bytes / BLOCK, rest = bytes % BLOCK, end = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;

    for (size_t i = 0; i < whole; i++)
        add_block(from + i * BLOCK, hash);
    if (rest > 0)
        memcpy(last, from + whole * BLOCK, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++) /* the length in bits, the highest byte first */
        last[end - 1 - (size_t)i] = (unsigned char)((uint64_t)bytes * 8 >> 8 * i);
    for (size_t at = 0; at < end; at += BLOCK)
        add_block(last + at, hash);
    for (int i = 0; i < 8; i++)
        snprintf(text + (ptrdiff_t)8 * i, 9, "%08x", (unsigned)hash[i]);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* What tells the texts apart that a kernel is made from.  Of the library's own it is a number that
 * the build has made: that of the kernel's file and of what it includes, or of all files for the
 * text of a caller, which may include any.  Of a caller's text it is the SHA-256 too, since whoever
 * chooses the text of an expression or of a module could choose one with the number of another. */
static void name_sources(const struct jit_request *request, char *name, size_t bytes)
{
    const struct cuda_source *own = &request->own;
    unsigned long long hash = gram_cuda_sources_hash;
    char text[SHA256_TEXT] = "";

    for (const struct cuda_source *s = gram_cuda_sources; s->name; s++)
        if (strcmp(s->name, request->file) == 0 && !(own->name && strcmp(own->name, s->name) == 0))
            hash = s->hash;
    if (own->name)
        hash_text(own->text, strlen(own->text), text);
    snprintf(name, bytes, "%016llx%s%s", hash, own->name ? "." : "", text);
}

/* A compiler that is older than the GPU makes text (PTX) for the newest chip that it knows, and the
 * driver compiles that for the GPU. */
void gram_jit_chip(const struct cuda_compiler *compiler, int arch, char *chip, size_t size)
{
    int archs[MOST_ARCHS], count = 0, newest = 0;
    bool known = false;

    if (compiler->arch_count(&count) == NVRTC_SUCCESS && count <= MOST_ARCHS &&
        compiler->archs(archs) == NVRTC_SUCCESS)
        for (int i = 0; i < count; i++) {
            known |= archs[i] == arch;
            newest = archs[i] <= arch && archs[i] > newest ? archs[i] : newest;
        }
    snprintf(chip, size, known || !newest ? "sm_%d" : "compute_%d",
             known || !newest ? arch : newest);
}

/* The instructions of sm_90a are in no other chip, so a kernel that uses them says so. */
void gram_jit_chip_for(const struct jit_request *request, const char *chip, char *out, size_t size)
{
    snprintf(out, size, "%s%s", chip, request->chip_alone ? "a" : "");
}

/* What the compiler is told beside the options, for a context's settings. */
static const char *extra_options(const gram_context *g)
{
    return g->debug_jit ? " --device-debug" : "";
}

/* Whatever can change the code is in the key, so that an entry never has to be checked: file, chip,
 * compiler, options and sources. */
void gram_jit_key(const gram_context *g, const struct cuda_compiler *compiler,
                  const struct jit_request *request, const char *chip, char key[JIT_KEY_BYTES])
{
    char sources[SHA256_TEXT + 20];
    int major = 0, minor = 0;

    name_sources(request, sources, sizeof sources);
    (void)compiler->version(&major, &minor);
    snprintf(key, JIT_KEY_BYTES, "%d %s %s nvrtc%d.%d %s%s %s", (int)KEY_FORMAT, request->file,
             chip, major, minor, request->defines, extra_options(g), sources);
}

/* The key is taken apart in place, for a listing of the cache. */
bool gram_jit_entry_of_key(char *key, gram_cache_entry *entry)
{
    const char **const parts[] = {NULL, &entry->kernel, &entry->chip, &entry->compiler};
    char *hash;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *blank = strchr(key, ' ');
        if (!blank)
            return false;
        *blank = '\0';
        if (parts[i])
            *parts[i] = key;
        key = blank + 1;
    }
    hash = strrchr(key, ' ');
    if (hash)
        *hash = '\0';
    entry->options = hash ? key : "";
    return true;
}

/* ---- The compiler ---------------------------------------------------------------------------- */

/* Cuts text into words in place; returns their number.  A level of optimization has no place beside
 * --device-debug. */
static int split(char *text, const char **words, int most, bool debug)
{
    static const char level[] = "--ptxas-options=-O";
    char *rest = NULL;
    int count = 0;

    for (char *word = strtok_r(text, " ", &rest); word && count < most;
         word = strtok_r(NULL, " ", &rest))
        if (!debug || strncmp(word, level, strlen(level)) != 0)
            words[count++] = word;
    return count;
}

/* What the compiler said; NULL if nothing. */
static char *log_of(const struct cuda_compiler *compiler, nvrtcProgram program)
{
    char *log = NULL;
    size_t size = 0;

    if (compiler->log_size(program, &size) == NVRTC_SUCCESS && size > 1)
        log = calloc(1, size + 1);
    if (log && compiler->log(program, log) == NVRTC_SUCCESS)
        return log;
    free(log);
    return NULL;
}

/* Every line of the compiler's is one of the log. */
static void tell(const gram_context *g, const struct cuda_compiler *compiler, nvrtcProgram program)
{
    char *log = g->log ? log_of(compiler, program) : NULL, *rest = NULL;

    for (char *line = log ? strtok_r(log, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        gram_log(g, "%s", line);
    free(log);
}

/* The first lines of the log that name an error fit into a message. */
static gram_status compile_failed(gram_context *g, const struct cuda_compiler *compiler,
                                  nvrtcProgram program, nvrtcResult result, const char *file)
{
    char *log = log_of(compiler, program);
    gram_status status;

    status = gram_fail(g, GRAM_UNSUPPORTED, "NVRTC cannot compile %s (%s): %s", file,
                       compiler->error_string(result), log ? log : "there is no log");
    free(log);
    return status;
}

/* Machine code for a chip that the compiler knows, else text for the driver. */
static gram_status take_code(gram_context *g, const struct cuda_compiler *compiler,
                             nvrtcProgram program, bool machine_code, struct jit_code *out)
{
    nvrtcResult result = machine_code ? compiler->cubin_size(program, &out->size)
                                      : compiler->ptx_size(program, &out->size);

    if (result == NVRTC_SUCCESS) {
        out->bytes = malloc(out->size ? out->size : 1);
        if (!out->bytes)
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes for a kernel",
                             out->size);
        result = machine_code ? compiler->cubin(program, out->bytes)
                              : compiler->ptx(program, out->bytes);
    }
    if (result == NVRTC_SUCCESS)
        return GRAM_OK;
    free(out->bytes);
    *out = (struct jit_code){0};
    return gram_fail(g, GRAM_UNSUPPORTED, "NVRTC returned no code: %s",
                     compiler->error_string(result));
}

/* .h or .cuh: the others are the kernels, which nothing includes. */
static bool is_header(const char *name)
{
    return name[strlen(name) - 1] == 'h';
}

/* All headers are handed over: NVRTC takes from them what the kernel includes, and reads no
 * files. */
gram_status gram_jit_compile(gram_context *g, const struct cuda_compiler *compiler,
                             const struct jit_request *request, const char *chip,
                             struct jit_code *out)
{
    const char *options[MOST_OPTIONS], *names[MOST_HEADERS], *texts[MOST_HEADERS], *text = NULL;
    char arch[64], words[1024];
    int count = 0, headers = 0;
    nvrtcProgram program;
    nvrtcResult result;
    gram_status status;

    *out = (struct jit_code){0};
    if (request->own.name && strcmp(request->own.name, request->file) == 0)
        text = request->own.text;
    else if (request->own.name)
        names[headers] = request->own.name, texts[headers++] = request->own.text;
    for (const struct cuda_source *s = gram_cuda_sources; s->name; s++) {
        if (strcmp(s->name, request->file) == 0)
            text = text ? text : s->text;
        else if (is_header(s->name) && headers == MOST_HEADERS)
            return gram_fail(g, GRAM_UNSUPPORTED, "more than %d headers of device code",
                             (int)MOST_HEADERS);
        else if (is_header(s->name))
            names[headers] = s->name, texts[headers++] = s->text;
    }
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", chip);
    snprintf(words, sizeof words, "%s%s", request->defines, extra_options(g));
    options[count++] = arch;
    options[count++] = "--std=c++17";
    options[count++] = "--disable-warnings";
    if (g->log && strncmp(chip, "sm_", 3) == 0)
        options[count++] = "--ptxas-options=-v"; /* registers and spills, told in the log */
    count += split(words, options + count, MOST_OPTIONS - count, g->debug_jit);
    result = compiler->create(&program, text, request->file, headers, texts, names);
    if (result != NVRTC_SUCCESS)
        return gram_fail(g, GRAM_UNSUPPORTED, "NVRTC did not accept the program: %s",
                         compiler->error_string(result));
    result = compiler->compile(program, count, options);
    tell(g, compiler, program);
    if (result != NVRTC_SUCCESS)
        status = compile_failed(g, compiler, program, result, request->file);
    else
        status = take_code(g, compiler, program, strncmp(chip, "sm_", 3) == 0, out);
    (void)compiler->destroy(&program);
    return status;
}

/* ---- Code ------------------------------------------------------------------------------------ */

/* From the cache, or made and put there.  That an entry cannot be kept is no failure: the kernel is
 * there. */
gram_status gram_jit_code(gram_context *g, const struct cuda_device *device,
                          const struct jit_request *request, struct jit_code *code)
{
    const char *why;
    const struct cuda_compiler *compiler = gram_cuda_compiler(g, &why);
    char arch[32], chip[33], key[JIT_KEY_BYTES], not_kept[256];
    const int64_t start = gram_nanoseconds();

    if (!compiler)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s", why);
    gram_jit_chip(compiler, device->arch, arch, sizeof arch);
    gram_jit_chip_for(request, arch, chip, sizeof chip);
    gram_jit_key(g, compiler, request, chip, key);
    if (gram_jit_cache_get(g, key, code)) {
        gram_log(g, "kernel from the cache, %.1f ms: %s", gram_milliseconds_since(start), key);
        return GRAM_OK;
    }
    if (g->no_jit)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "GRAM_JIT is off, and the cache does not have the kernel %s", key);
    TRY(gram_jit_compile(g, compiler, request, chip, code));
    gram_log(g, "kernel compiled, %.1f ms: %s", gram_milliseconds_since(start), key);
    (void)gram_jit_cache_put(g, key, code, not_kept, sizeof not_kept);
    return GRAM_OK;
}
