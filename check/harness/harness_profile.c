/*
 * harness_profile.c - `gram profile`: the trace of one warm call, as Chrome and Perfetto read it
 *
 * The file is a JSON array of "complete" events (ph X): name, pid, tid (0 is the caller), ts and
 * dur in microseconds from the beginning of the call.
 *
 * SPDX-License-Identifier: MIT
 */
#include "harness_problem.h"
#include "harness_roof.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct recorder {
    pthread_mutex_t mutex;
    gram_trace_event *events;
    size_t count, room;
    bool on, full;
};

static void record(void *user, const gram_trace_event *event)
{
    struct recorder *r = user;

    pthread_mutex_lock(&r->mutex);
    if (r->on && r->count == r->room && !r->full) {
        size_t room = r->room ? 2 * r->room : 1024;
        gram_trace_event *more = realloc(r->events, room * sizeof *more);
        if (more)
            r->events = more, r->room = room;
        else
            r->full = true;
    }
    if (r->on && r->count < r->room)
        r->events[r->count++] = *event;
    pthread_mutex_unlock(&r->mutex);
}

static bool write_events(FILE *file, const struct recorder *r, const gram_trace_event *call)
{
    fprintf(file, "[\n");
    for (size_t i = 0; i <= r->count; i++) {
        const gram_trace_event *e = i == 0 ? call : &r->events[i - 1];
        fprintf(file, "{\"name\": \"%s\", \"ph\": \"X\", \"pid\": %ld, \"tid\": %d, ", e->name,
                (long)getpid(), e->thread);
        fprintf(file, "\"ts\": %.3f, \"dur\": %.3f}%s\n",
                1e-3 * (double)(e->start_ns - call->start_ns), 1e-3 * (double)e->duration_ns,
                i < r->count ? "," : "");
    }
    fprintf(file, "]\n");
    return fflush(file) == 0 && !ferror(file);
}

/* NULL path: standard output. */
static int save(const char *path, const struct recorder *r, const gram_trace_event *call)
{
    FILE *file = path ? fopen(path, "w") : stdout;
    bool written;

    if (!file) {
        const int error = errno;
        fprintf(stderr, "cannot create %s: %s\n", path, strerror(error));
        return error == ENOMEM ? HARNESS_NO_MEMORY : HARNESS_NO_OUTPUT;
    }
    written = write_events(file, r, call);
    if (path && fclose(file) != 0)
        written = false;
    if (written)
        return HARNESS_RIGHT;
    fprintf(stderr, "cannot write %s: %s\n", path ? path : "standard output", strerror(errno));
    if (path)
        unlink(path); /* half a trace is of no use */
    return HARNESS_IO;
}

/* Time by name, the longest first, all threads together. */
static void print_summary(FILE *out, const struct recorder *r, const gram_trace_event *call)
{
    fprintf(out, "%-32s %10s %12s\n", "", "pieces", "ms");
    fprintf(out, "%-32s %10d %12.3f\n", call->name, 1, 1e-6 * (double)call->duration_ns);
    for (size_t i = 0; i < r->count; i++) {
        int64_t total = 0;
        int pieces = 0;
        bool seen = false;
        for (size_t j = 0; j < r->count; j++) {
            bool same = strcmp(r->events[j].name, r->events[i].name) == 0;
            seen |= same && j < i;
            pieces += same;
            total += same ? r->events[j].duration_ns : 0;
            if (seen)
                break;
        }
        if (!seen)
            fprintf(out, "  %-30s %10d %12.3f\n", r->events[i].name, pieces, 1e-6 * (double)total);
    }
}

static int64_t now_ns(void)
{
    return (int64_t)(harness_seconds() * 1e9);
}

/* On a GPU the pieces are what the host does: it queues the work, and waits for it. */
static gram_status timed_call(struct harness *h, struct problem *problem, struct recorder *r,
                              gram_trace_event *call)
{
    gram_status status;
    int64_t queued, done;

    r->on = true;
    call->start_ns = now_ns();
    status = problem->made.run(h->g, problem->made.state);
    queued = done = now_ns();
    if (status == GRAM_OK && h->device.type != GRAM_CPU) {
        status = gram_context_synchronize(h->g);
        done = now_ns();
        record(r, &(gram_trace_event){.name = "queueing",
                                      .start_ns = call->start_ns,
                                      .duration_ns = queued - call->start_ns});
        record(r, &(gram_trace_event){
                      .name = "waiting", .start_ns = queued, .duration_ns = done - queued});
    }
    call->duration_ns = done - call->start_ns;
    r->on = false;
    return status;
}

static int profile(struct harness *h, const struct request *request, struct recorder *r,
                   const struct harness_options *options)
{
    gram_trace_event call = {.name = request->op->name};
    struct problem problem;
    int result = problem_open(h, request, &problem);
    gram_status status;

    if (result != HARNESS_RIGHT)
        return result;
    status = problem_run(h, &problem);
    if (status != GRAM_OK) {
        problem_close(h, &problem);
        return problem_status(status);
    }
    status = timed_call(h, &problem, r, &call);
    result = problem_status(status);
    if (status != GRAM_OK) {
        fprintf(stderr, "%s\n", gram_message(h->g));
    } else if (r->full) {
        (void)harness_no_memory(h, "the trace");
        result = HARNESS_NO_MEMORY;
    } else {
        result = save(options->trace, r, &call);
    }
    if (result == HARNESS_RIGHT)
        print_summary(options->trace ? stdout : stderr, r, &call);
    problem_close(h, &problem);
    return result;
}

static int profile_request(const struct request *request, void *arg)
{
    const struct harness_options *options = arg;
    struct recorder r = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    struct harness h = {0};
    gram_info info = {.size = sizeof info};
    int status = HARNESS_USAGE;
    gram_status created;

    o.threads = options->threads;
    o.cpu_isa = options->isa;
    o.device = h.device = options->device;
    o.trace = record;
    o.trace_user = &r;
    created = gram_context_create(&o, &h.g);
    if (created != GRAM_OK) {
        fprintf(stderr, "%s\n", gram_message(NULL));
        return created == GRAM_OUT_OF_MEMORY ? HARNESS_NO_MEMORY : HARNESS_USAGE;
    }
    if (gram_context_info(h.g, &info) == GRAM_OK) {
        h.isa = info.cpu_isa;
        h.threads = info.threads;
        status = profile(&h, request, &r, options);
    }
    harness_close(&h);
    free(r.events);
    pthread_mutex_destroy(&r.mutex);
    return status;
}

int harness_main_profile(int argc, char *const *argv, const struct harness_options *options)
{
    struct harness_options copy = *options;

    return request_each(argc, argv, profile_request, &copy);
}
