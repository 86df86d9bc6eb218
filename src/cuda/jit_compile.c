/*
 * jit_compile.c - device code through NVRTC, and the line that names the result
 *
 * SPDX-License-Identifier: MIT
 */
#include "jit.h"
#include "sha256.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_FORMAT = 2, /* of the key and of what is stored under it */
    MOST_OPTIONS = 40,
    MOST_HEADERS = 96,
    MOST_ARCHS = 64
};

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
        gram_sha256(own->text, strlen(own->text), text);
    snprintf(name, bytes, "%016llx%s%s", hash, own->name ? "." : "", text);
}

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

void gram_jit_chip_for(const struct jit_request *request, const char *chip, char *out, size_t size)
{
    snprintf(out, size, "%s%s", chip, request->chip_alone ? "a" : "");
}

const char *gram_jit_extra_options(const gram_context *g)
{
    return g->debug_jit ? " --device-debug" : "";
}

void gram_jit_key(const gram_context *g, const struct cuda_compiler *compiler,
                  const struct jit_request *request, const char *chip, char key[JIT_KEY_BYTES])
{
    char sources[SHA256_TEXT + 20];
    int major = 0, minor = 0;

    name_sources(request, sources, sizeof sources);
    (void)compiler->version(&major, &minor);
    snprintf(key, JIT_KEY_BYTES, "%d %s %s nvrtc%d.%d %s%s %s", (int)KEY_FORMAT, request->file,
             chip, major, minor, request->defines, gram_jit_extra_options(g), sources);
}

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
                       compiler->error_string(result), log ? log : "no log");
    free(log);
    return status;
}

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
    return gram_fail(g, GRAM_UNSUPPORTED, "NVRTC gives no code: %s",
                     compiler->error_string(result));
}

/* .h or .cuh: the others are the kernels, which nothing includes. */
static bool is_header(const char *name)
{
    return name[strlen(name) - 1] == 'h';
}

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
    snprintf(words, sizeof words, "%s%s", request->defines, gram_jit_extra_options(g));
    options[count++] = arch;
    options[count++] = "--std=c++17";
    options[count++] = "--disable-warnings";
    if (g->log && strncmp(chip, "sm_", 3) == 0)
        options[count++] = "--ptxas-options=-v"; /* registers and spills, told in the log */
    count += split(words, options + count, MOST_OPTIONS - count, g->debug_jit);
    result = compiler->create(&program, text, request->file, headers, texts, names);
    if (result != NVRTC_SUCCESS)
        return gram_fail(g, GRAM_UNSUPPORTED, "NVRTC takes no program: %s",
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
