/*
 * bench_kernel_matmul.c - gram_kernel_matmul on a CUDA device by each of its ways, and its gradient
 * to points
 *
 *   bench_kernel_matmul [SHARE [gradients]]     prints a line a problem and way; SHARE: of the
 *                                               points, 1; gradients: nothing else
 *
 * Points are uniform in the unit cube, y is x, and the bandwidth is 1.  The first call of a way has
 * few points, so that its kernels are there; others are timed by the host's clock, from the call to
 * the end of the device's work.  A call that takes less than 2 seconds is done twice, and
 * the shorter time counts.  64 rows are compared with sums in f64: the error is
 * printed as a multiple of eps sum |K v|, and of the bound of gram.h.  Gradients are those to all
 * points of one set, of which 64 rows are compared likewise; their error is printed as a multiple
 * of eps times the sum of sizes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "gram/gram.h"
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    COLUMNS = 64, /* of v at most */
    ROWS = 64,    /* that are compared */
    THREADS = 16,
    WARM = 3000 /* points of the first call */
};

static const struct problem {
    int64_t n, depth;
    double q; /* 2: Gaussian, 1: Laplace */
} problems[] = {
    {1000000,   3, 2},
    {1000000,  10, 2},
    {1000000,  28, 2},
    { 300000,  90, 2},
    { 300000, 256, 2},
    {1000000,  10, 1},
    {1000000,  28, 1},
    { 300000,  90, 1},
    { 300000, 256, 1},
};

static const struct way {
    const char *name;
    int64_t most_points; /* of slow ways; the time of a pair is printed too */
    int64_t most_depth;
} ways[] = {
    {"tensor", INT64_MAX, INT64_MAX},
    { "fused", INT64_MAX,        43},
    {"panels",    250000, INT64_MAX},
};

static const int64_t columns_of_v[] = {1, 4, 8, 16, COLUMNS};
static const double repeated_seconds = 2;

/* Gradients to x, the whole one of y = x; each way has as many points as take it a second or so. */
static const struct slope {
    struct problem problem;
    int64_t columns;
    const char *way;
} slopes[] = {
    {{1000000, 10, 2},  1,  "fused"},
    { {300000, 10, 2},  1,  "fused"},
    { {300000, 10, 2},  1, "panels"},
    {  {300000, 3, 2},  1,  "fused"},
    { {300000, 28, 2},  1,  "fused"},
    { {300000, 10, 1},  1,  "fused"},
    { {300000, 10, 2}, 16,  "fused"},
    { {100000, 10, 2}, 16, "panels"},
};

/* Points and v on the host and on the device, and what the rows come to. */
struct data {
    const struct problem *problem;
    int64_t n; /* of the problem, or of a slow way */
    float *x, *v, *v_one, *out;
    float *x_there, *v_there, *v_one_there, *out_there;
    double want[ROWS][COLUMNS], size[ROWS][COLUMNS], bound[ROWS][COLUMNS];
};

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- Rows in f64 ----------------------------------------------------------------------------- */

static int64_t row_at(const struct data *d, int row)
{
    return (int64_t)row * (d->n - 1) / (ROWS - 1);
}

/* sum_j K[i, j] v[j], its size, and the bound: the distance, (k + 8) eps + 1e-6, f and sums. */
static void sum_row(struct data *d, int row)
{
    const int64_t k = d->problem->depth;
    const float *x = d->x + row_at(d, row) * k;
    const double eps = (double)FLT_EPSILON, q = d->problem->q;
    const double slope = q * ((double)(k + 8) * eps + 1e-6) + 8 * eps;

    memset(d->want[row], 0, sizeof d->want[row]);
    memset(d->size[row], 0, sizeof d->size[row]);
    memset(d->bound[row], 0, sizeof d->bound[row]);
    for (int64_t j = 0; j < d->n; j++) {
        double s = 0;
        for (int64_t i = 0; i < k; i++) {
            const double e = (double)x[i] - (double)d->x[j * k + i];
            s += e * e;
        }
        const double t = q == 2 ? s / 2 : sqrt(s), f = exp(-t);
        for (int c = 0; c < COLUMNS; c++) {
            const double v = (double)d->v[j * COLUMNS + c];
            d->want[row][c] += f * v;
            d->size[row][c] += fabs(f * v);
            d->bound[row][c] += fabs(f * v) * (t * slope + (double)(d->n + 16) * eps);
        }
    }
}

struct part {
    struct data *data;
    int first;
};

static void *sum_part(void *arg)
{
    const struct part *part = arg;

    for (int row = part->first; row < ROWS; row += THREADS)
        sum_row(part->data, row);
    return NULL;
}

static bool sum_rows(struct data *d)
{
    struct part parts[THREADS];
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        parts[i] = (struct part){d, i};
        if (pthread_create(&threads[i], NULL, sum_part, &parts[i]) != 0)
            return false;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return true;
}

/* ---- Data ------------------------------------------------------------------------------------ */

static float uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (float)(*state >> 40) * 0x1p-24F;
}

static void destroy(struct data *d)
{
    free(d->x), free(d->v), free(d->v_one), free(d->out);
    device_release(d->x_there), device_release(d->v_there);
    device_release(d->v_one_there), device_release(d->out_there);
}

static bool create(struct data *d, const struct problem *p, double share)
{
    const int64_t n = (int64_t)((double)p->n * share), numbers = n * p->depth;
    uint64_t state = 12345;

    *d = (struct data){.problem = p, .n = n};
    d->x = malloc((size_t)numbers * sizeof *d->x);
    d->v = calloc((size_t)n * COLUMNS, sizeof *d->v);
    d->v_one = malloc((size_t)n * sizeof *d->v_one);
    d->out = malloc((size_t)n * COLUMNS * sizeof *d->out);
    d->x_there = device_allocate((size_t)numbers * sizeof *d->x);
    d->v_there = device_allocate((size_t)n * COLUMNS * sizeof *d->v);
    d->v_one_there = device_allocate((size_t)n * sizeof *d->v_one);
    d->out_there = device_allocate((size_t)n * COLUMNS * sizeof *d->out);
    if (!d->x || !d->v || !d->v_one || !d->out || !d->x_there || !d->v_there || !d->v_one_there ||
        !d->out_there)
        return false;
    for (int64_t i = 0; i < numbers; i++)
        d->x[i] = uniform(&state);
    for (int64_t i = 0; i < n * COLUMNS; i++)
        d->v[i] = uniform(&state) - 0.5F;
    for (int64_t i = 0; i < n; i++)
        d->v_one[i] = d->v[i * COLUMNS];
    return device_upload(d->x_there, d->x, (size_t)numbers * sizeof *d->x) &&
           device_upload(d->v_there, d->v, (size_t)n * COLUMNS * sizeof *d->v) &&
           device_upload(d->v_one_there, d->v_one, (size_t)n * sizeof *d->v_one);
}

/* ---- Products -------------------------------------------------------------------------------- */

/* The first columns of v; one is a vector without gaps. */
static gram_tensor columns_of(const struct data *d, int64_t n, int64_t columns)
{
    gram_tensor v = gram_matrix(columns == 1 ? d->v_one_there : d->v_there, n, columns, GRAM_F32);

    if (columns > 1)
        v.stride[0] = COLUMNS;
    return v;
}

/* Seconds of a product of the first n points; negative: it failed, which a line says. */
static double multiply(gram_context *g, const struct data *d, int64_t n, int64_t columns)
{
    const gram_kernel_options kernel =
        d->problem->q == 2 ? gram_gaussian(1) : gram_lpq_laplace(2, 1, 1);
    gram_tensor x = gram_matrix(d->x_there, n, d->problem->depth, GRAM_F32);
    gram_tensor v = columns_of(d, n, columns);
    gram_tensor out = gram_matrix(d->out_there, n, columns, GRAM_F32);
    const double begin = seconds();

    x.device = v.device = out.device = (gram_device){GRAM_CUDA, 0};
    if (gram_kernel_matmul(g, &x, NULL, &kernel, &v, NULL, &out) == GRAM_OK &&
        gram_context_synchronize(g) == GRAM_OK)
        return seconds() - begin;
    printf("%s\n", gram_message(g));
    return -1;
}

/* The largest error of the rows, in units of eps size and of the bound. */
static bool find_errors(struct data *d, int64_t columns, double errors[2])
{
    if (!device_download(d->out, d->out_there, (size_t)(d->n * columns) * sizeof *d->out))
        return false;
    errors[0] = errors[1] = 0;
    for (int row = 0; row < ROWS; row++)
        for (int64_t c = 0; c < columns; c++) {
            const double got = (double)d->out[row_at(d, row) * columns + c];
            const double error = fabs(got - d->want[row][c]);
            errors[0] = fmax(errors[0], error / d->size[row][c] / (double)FLT_EPSILON);
            errors[1] = fmax(errors[1], error / d->bound[row][c]);
            if (isnan(got))
                errors[0] = errors[1] = (double)INFINITY;
        }
    return true;
}

/* One line. */
static bool run(struct data *d, const struct way *way, int64_t columns)
{
    const gram_context_options options = {
        .size = sizeof options, .device = {GRAM_CUDA, 0}
    };
    double time = -1, errors[2];
    gram_context *g = NULL;

    if (setenv("GRAM_KERNEL_MATMUL", way->name, 1) != 0 ||
        gram_context_create(&options, &g) != GRAM_OK)
        printf("%s\n", gram_message(NULL));
    else if (multiply(g, d, d->n < WARM ? d->n : WARM, columns) >= 0)
        time = multiply(g, d, d->n, columns);
    if (time >= 0 && time < repeated_seconds)
        time = fmin(time, multiply(g, d, d->n, columns));
    gram_context_destroy(g);
    if (time < 0 || !find_errors(d, columns, errors))
        return false;
    printf(
        "%-8s d=%-3lld n=%-7lld columns=%-2lld %-6s %9.4f s %8.3f ps a pair   error %6.1f eps "
        "sum |K v|, %.4f of the bound\n",
        d->problem->q == 2 ? "Gaussian" : "Laplace", (long long)d->problem->depth, (long long)d->n,
        (long long)columns, way->name, time, time * 1e12 / ((double)d->n * (double)d->n), errors[0],
        errors[1]);
    (void)fflush(stdout);
    return true;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Of sum_ic grad[i, c] (K v)[i, c] with grad = v: sum_j 2 (v[i] . v[j]) dK[i, j] / dx[i], and the
 * sum of the sizes of its terms. */
static void slope_of_row(const struct data *d, int64_t columns, int64_t i, double *want,
                         double *size)
{
    const int64_t k = d->problem->depth;
    const float *x = d->x + i * k;

    for (int64_t a = 0; a < k; a++)
        want[a] = size[a] = 0;
    for (int64_t j = 0; j < d->n; j++) {
        double s = 0, cotangent = 0;
        for (int64_t a = 0; a < k; a++) {
            const double e = (double)x[a] - (double)d->x[j * k + a];
            s += e * e;
        }
        for (int64_t c = 0; c < columns; c++)
            cotangent += 2 * (double)d->v[i * COLUMNS + c] * (double)d->v[j * COLUMNS + c];
        const double f = d->problem->q == 2 ? exp(-s / 2) : s > 0 ? exp(-sqrt(s)) / sqrt(s) : 0;
        for (int64_t a = 0; a < k; a++) {
            const double term = -f * cotangent * ((double)x[a] - (double)d->x[j * k + a]);
            want[a] += term;
            size[a] += fabs(term);
        }
    }
}

struct slope_part {
    const struct data *data;
    int64_t columns;
    const float *got;
    int first;
    double error; /* in units of eps times the sum of sizes */
};

static void *compare_part(void *arg)
{
    struct slope_part *part = arg;
    const int64_t k = part->data->problem->depth;
    double want[256], size[256];

    for (int row = part->first; row < ROWS; row += THREADS) {
        const int64_t i = row_at(part->data, row);
        slope_of_row(part->data, part->columns, i, want, size);
        for (int64_t a = 0; a < k; a++) {
            const double got = (double)part->got[i * k + a];
            const double error = fabs(got - want[a]) / size[a] / (double)FLT_EPSILON;
            part->error = isnan(got) ? (double)INFINITY : fmax(part->error, error);
        }
    }
    return NULL;
}

static double slope_error(const struct data *d, int64_t columns, const float *got)
{
    struct slope_part parts[THREADS];
    pthread_t threads[THREADS];
    double error = 0;

    for (int i = 0; i < THREADS; i++) {
        parts[i] = (struct slope_part){d, columns, got, i, 0};
        if (pthread_create(&threads[i], NULL, compare_part, &parts[i]) != 0)
            return (double)INFINITY;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        error = fmax(error, parts[i].error);
    }
    return error;
}

/* Seconds of the gradient of the first n points to `to`, with v as the cotangent. */
static double differentiate(gram_context *g, const struct data *d, int64_t n, int64_t columns,
                            float *to)
{
    const gram_kernel_options kernel =
        d->problem->q == 2 ? gram_gaussian(1) : gram_lpq_laplace(2, 1, 1);
    gram_tensor x = gram_matrix(d->x_there, n, d->problem->depth, GRAM_F32);
    gram_tensor v = columns_of(d, n, columns);
    gram_tensor to_x = gram_matrix(to, n, d->problem->depth, GRAM_F32);
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;
    const double begin = seconds();

    grads.x = &to_x;
    x.device = v.device = to_x.device = (gram_device){GRAM_CUDA, 0};
    if (gram_kernel_matmul_vjp(g, &x, NULL, &kernel, &v, &v, &grads) == GRAM_OK &&
        gram_context_synchronize(g) == GRAM_OK)
        return seconds() - begin;
    printf("%s\n", gram_message(g));
    return -1;
}

static bool run_slope(const struct slope *slope, double share)
{
    const gram_context_options options = {
        .size = sizeof options, .device = {GRAM_CUDA, 0}
    };
    struct data d;
    bool right = create(&d, &slope->problem, share);
    const size_t bytes = (size_t)(d.n * slope->problem.depth) * sizeof(float);
    float *got = malloc(bytes), *to = device_allocate(bytes);
    double time = -1, error = (double)INFINITY;
    gram_context *g = NULL;

    right = right && got && to && setenv("GRAM_KERNEL_MATMUL", slope->way, 1) == 0 &&
            gram_context_create(&options, &g) == GRAM_OK;
    if (right && differentiate(g, &d, d.n < WARM ? d.n : WARM, slope->columns, to) >= 0)
        time = differentiate(g, &d, d.n, slope->columns, to);
    if (time >= 0 && time < repeated_seconds)
        time = fmin(time, differentiate(g, &d, d.n, slope->columns, to));
    gram_context_destroy(g);
    if (time >= 0 && device_download(got, to, bytes))
        error = slope_error(&d, slope->columns, got);
    printf(
        "gradient %-8s d=%-3lld n=%-7lld columns=%-2lld %-6s %9.4f s %8.3f ps a pair   error "
        "%6.1f eps sum |terms|\n",
        slope->problem.q == 2 ? "Gaussian" : "Laplace", (long long)slope->problem.depth,
        (long long)d.n, (long long)slope->columns, slope->way, time,
        time * 1e12 / ((double)d.n * (double)d.n), error);
    (void)fflush(stdout);
    free(got);
    device_release(to);
    destroy(&d);
    /* Terms of either sign are added as those of gram.h's bound are, which is (r + 300) eps. */
    return time >= 0 && error <= (double)(slope->columns + 300);
}

/* The ways of a problem: those with the same number of points share the rows in f64. */
static bool run_problem(const struct problem *p, double share)
{
    struct data d;
    bool right = create(&d, p, share) && sum_rows(&d);

    for (int i = 0; right && i < (int)(sizeof ways / sizeof *ways); i++) {
        if (p->depth > ways[i].most_depth)
            continue;
        if (d.n > ways[i].most_points) {
            d.n = ways[i].most_points;
            right = sum_rows(&d);
        }
        for (int c = 0; right && c < (int)(sizeof columns_of_v / sizeof *columns_of_v); c++)
            right = run(&d, &ways[i], columns_of_v[c]);
    }
    destroy(&d);
    return right;
}

int main(int argc, char **argv)
{
    const double share = argc > 1 ? strtod(argv[1], NULL) : 1;
    bool right = true;

    if (gram_best_device().type != GRAM_CUDA || !device_open(0)) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    for (int i = 0; i < (int)(sizeof slopes / sizeof *slopes); i++)
        right = run_slope(&slopes[i], share) && right;
    for (int i = 0; argc <= 2 && i < (int)(sizeof problems / sizeof *problems); i++)
        right = run_problem(&problems[i], share) && right;
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
