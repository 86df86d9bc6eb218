/*
 * cuda_ops.h - the operations of the CUDA backend
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_OPS_H
#define GRAM_CUDA_OPS_H
#include "core/cuda_expression.h"
#include "cuda_variant.h"
#include "launch.h"
#include "pairwise/panel_params.h"
#include "pairwise/square_params.h"

/* cuda_launch.c: queues a kernel with its struct of parameters, while the device is current.  More
 * blocks than a launch can have are cut to the most: kernels go on from tile to tile. */
gram_status gram_cuda_launch(gram_context *g, const struct jit_request *request, int64_t blocks,
                             unsigned threads, void *params);

/* The same for a kernel that is loaded already.  It may have dynamic shared memory, and arguments
 * holds the address of each of its parameters. */
gram_status gram_cuda_queue(gram_context *g, CUfunction function, const unsigned grid[3],
                            const unsigned block[3], size_t shared_bytes, void *const *arguments);

/* The same for a kernel that may begin before the kernel that was queued before it has ended.  Such
 * a kernel calls ptx_grid_wait before it reads what the other one writes, and before it writes
 * itself.  Allowed only where device->overlaps is true. */
gram_status gram_cuda_queue_early(gram_context *g, CUfunction function, const unsigned grid[3],
                                  const unsigned block[3], size_t shared_bytes,
                                  void *const *arguments);

/* Packs small numbers side by side into one, the first of them on top.  field holds pairs of a
 * value and the number of its bits. */
uint64_t gram_cuda_pack(const int (*field)[2], size_t count);

/* The request of a kernel that has REAL as its only parameter (-D), and the launch of one. */
struct jit_request gram_cuda_plain_request(enum cuda_variant_file file, gram_dtype dtype);
gram_status gram_cuda_launch_plain(gram_context *g, enum cuda_variant_file file, gram_dtype dtype,
                                   int64_t blocks, unsigned threads, void *params);

/* The operations of ops.def. */
#define GRAM_OP(name, op, devices) gram_status cuda_##name(gram_context *g, const struct op *work);
#include "core/ops.def"

/* cuda_agop.c */
size_t cuda_agop_workspace(const gram_context *g, const struct gram_agop_op *op);

/* cuda_cdist_grad.c */
size_t cuda_cdist_grad_workspace(const gram_context *g, const struct gram_cdist_grad_op *op);

/* cuda_eigh.c */
gram_status cuda_eigh_workspace(gram_context *g, const struct gram_eigh_op *op, size_t *bytes);

/* cuda_eigh_multi.c */
gram_status cuda_eigh_multi_workspace(const struct gram_eigh_multi *m, size_t *device_bytes,
                                      size_t *panel_bytes);
gram_status cuda_eigh_multi_solve(struct gram_eigh_multi *m, int64_t item, int *outcome);
gram_status cuda_eigh_multi_store(const struct gram_eigh_multi *m, int64_t item, int64_t first,
                                  int64_t stored);

/* cuda_module.c */
gram_status cuda_module_compile(gram_context *g, const struct gram_module_op *op,
                                gram_module **out);
gram_status cuda_module_launch(gram_module *module, const struct gram_launch_op *op);
void cuda_module_destroy(gram_module *module);

/* cuda_cdist.c */
size_t cuda_cdist_workspace(const gram_context *g, const struct gram_cdist_op *op);
/* The same as a part of other operations, in two steps.  The first checks what only the device can
 * know.  The second queues one launch, which takes no scratch, while the device is current. */
gram_status cuda_cdist_check(gram_context *g, const struct gram_cdist_op *op);
gram_status cuda_cdist_queue(gram_context *g, const struct gram_cdist_op *op);
/* What the first refuses whatever the device: an expression with too many constants.  For a context
 * of any device. */
gram_status cuda_cdist_check_expression(gram_context *g, const struct gram_cdist_op *op);

/* cuda_median.c */
size_t cuda_median_workspace(const gram_context *g, const struct gram_median_op *op);

/* cuda_kernel_matmul.c */
size_t cuda_kernel_matmul_workspace(const gram_context *g, const struct gram_kernel_matmul_op *op);

/* cuda_kernel_vjp.c */
size_t cuda_kernel_vjp_workspace(const gram_context *g, const struct gram_kernel_vjp_op *op);
struct cuda_cdist_plan;
struct square_list;
/* list has the tiles that a plan for listed tiles computes, in the memory of the device; else it is
 * NULL. */
gram_status cuda_cdist_launch(gram_context *g, struct cuda_cdist_plan *plan,
                              const struct square_list *list);

/* cuda_cdist with tiles of tm; 0 takes the tm that was tuned, else that of the table. */
gram_status cuda_cdist_tiled(gram_context *g, const struct gram_cdist_op *op, int tm);

/* cuda_warm.c */
gram_status cuda_warm(gram_context *g, const struct gram_cdist_op *op,
                      const gram_warm_options *options);

/* cuda.c */
gram_status cuda_memory_set_bytes(gram_context *g, void *memory, unsigned char byte, size_t bytes);
gram_status cuda_memory_zero(gram_context *g, void *memory, size_t bytes);
gram_status cuda_memory_copy(gram_context *g, void *to, const void *from, size_t bytes);

/* cuda_rows.c.  kernel is one of ROWS_MAP, ...; defines receives the text of its -D. */
enum {
    CUDA_ROWS_DEFINES = 64
};
struct jit_request cuda_rows_request(int kernel, gram_dtype dtype, char defines[CUDA_ROWS_DEFINES]);

/* cuda_kron_plan.c: frees the plans of Kronecker products that a context remembers. */
void cuda_kron_forget(gram_context *g, struct cuda_device *device);

/* cuda_optimizer.c and cuda_optimizer_plan.c */
gram_status cuda_optimizer_workspace(gram_context *g, const gram_optimizer *o, size_t *bytes);
gram_status cuda_optimizer_open(gram_context *g, gram_optimizer *o);
void cuda_optimizer_close(gram_optimizer *o);

/* cuda_solve.c */
gram_status cuda_solve_cholesky_workspace(gram_context *g, const struct gram_solve_op *op,
                                          size_t *bytes);
gram_status cuda_solve_lu_workspace(gram_context *g, const struct gram_solve_op *op, size_t *bytes);

/* cuda_matmul_batched.c */
gram_status cuda_matmul_batched_workspace(gram_context *g, const struct gram_matmul_batched_op *op,
                                          size_t *bytes);

/* cuda_matmul_chunked.c */
gram_status cuda_matmul_chunked_workspace(gram_context *g, const struct gram_matmul_chunked_op *op,
                                          size_t *bytes);

/* cuda_matrix_power.c.  _least_ridge is gram_power_least_ridge for the dtype that the device
 * computes in. */
double cuda_matrix_power_least_ridge(const gram_context *g, const struct gram_matrix_power_op *op);
gram_status cuda_matrix_power_workspace(gram_context *g, const struct gram_matrix_power_op *op,
                                        size_t *bytes);

/* cuda_cdist_plan.c chooses the kernel of a problem, and its parameters. */

/* The parameters (-D) of cdist.cu. */
struct cuda_cdist_variant {
    int is_double, half, tm, step, whole, fraction, mix, x_load, y_load, function, output, base,
        slope, hypers, listed, packed;
};

struct cuda_cdist_plan {
    int tile; /* the tm that the variant must have; 0: that of the table */
    struct cuda_cdist_variant variant;
    const struct gram_expression *expression; /* or NULL */
    uint64_t number;                          /* the variant's, by which the kernel is found */
    struct pair_params params;
    int64_t tiles; /* of all items together; 0: there is nothing to do */
};

/* The largest tm that a variant can have. */
int cuda_cdist_most_tile(const struct cuda_cdist_variant *v);
/* Makes the plan for a device with this number of processors. */
void cuda_cdist_plan(const struct gram_cdist_op *op, int processors, struct cuda_cdist_plan *plan);
/* The bytes that tell the kernel of a plan from all others, its expression included.  The function
 * returns how many of them count. */
struct cuda_cdist_identity {
    uint64_t variant, words[CUDA_EXPRESSION_WORDS];
};
size_t cuda_cdist_identify(const struct cuda_cdist_plan *plan, struct cuda_cdist_identity *out);
/* Turns the plan into one that computes only the tiles of a list, which are those of
 * SQUARE_LEFT_ROWS. */
void cuda_cdist_plan_listed(struct cuda_cdist_plan *plan);
/* Turns the plan into one that reads panels of cdist_panels.cu; the caller still has to fill in
 * their addresses.  Where panels do not pay the plan stays as it is, and the result is false. */
bool cuda_cdist_plan_packed(struct cuda_cdist_plan *plan);
/* The request of the kernel, without the text of the expression.  defines has CUDA_CDIST_DEFINES
 * bytes and receives the text of the -D. */
enum {
    CUDA_CDIST_DEFINES = 448
};
struct jit_request cuda_cdist_request(const struct cuda_cdist_plan *plan, char *defines);
/* The bytes of dynamic shared memory that a block needs on a chip, for the panels of x and y. */
size_t cuda_cdist_shared(const struct cuda_cdist_variant *v, int arch);

/* cuda_cdist_split.c computes long sums in pieces.  _bytes is the scratch that this takes, 0 where
 * sums are not cut.  cuda_cdist_split gets the plan of the whole, while the device is current. */
size_t cuda_cdist_split_bytes(const struct gram_cdist_op *op, int processors);
gram_status cuda_cdist_split(gram_context *g, const struct gram_cdist_op *op,
                             const struct cuda_cdist_plan *plan);
/* The kernels of cuda_cdist_split by number, from 0: the whole pieces, a narrower last one and the
 * sum of the pieces.  False after the last. */
bool cuda_cdist_split_request(const struct gram_cdist_op *op, const struct cuda_cdist_plan *plan,
                              int processors, int which, char *defines, struct jit_request *out);

/* cuda_tune.c: measures all tiles for problems like op. */
gram_status cuda_tune(gram_context *g, const struct gram_cdist_op *op, gram_tuning *result);
/* Measures the milliseconds of a run, after another one that compiles and warms up. */
gram_status cuda_tune_time(gram_context *g, gram_status (*run)(gram_context *g, const void *what),
                           const void *what, double *ms);
/* cuda_kron_tune.c */
gram_status cuda_tune_kron(gram_context *g, const struct gram_kron_matmul_op *op,
                           gram_kron_tuning *result);
/* cuda_tune.c: the tm that was fastest for problems like op; 0: none was measured. */
int cuda_tuned_tile(const gram_context *g, const struct gram_cdist_op *op,
                    const struct cuda_cdist_variant *v);

/* cuda_cdist_square.c computes squared distances and inner products by tensor cores.
 * cuda_cdist_squares is true if this pays for the problem of a plan, _bytes is the scratch that it
 * takes, and cuda_cdist_square does it. */
bool cuda_cdist_squares(const gram_context *g, const struct cuda_device *device,
                        const struct cuda_cdist_plan *plan);
size_t cuda_cdist_square_bytes(const struct cuda_device *device, struct cuda_cdist_plan *plan);
gram_status cuda_cdist_square(gram_context *g, struct cuda_cdist_plan *plan);
/* The request of kernel number `which` of these for the device; false: there are no more. */
bool cuda_cdist_square_request(const struct cuda_device *device, struct cuda_cdist_plan *plan,
                               int which, char *defines, struct jit_request *out);
/* cuda_cdist_packed.c writes x and y to panels first.  Its functions are the same three, and the
 * request of the kernel that writes the panels. */
bool cuda_cdist_packs(const gram_context *g, const struct cuda_device *device,
                      const struct cuda_cdist_plan *plan);
size_t cuda_cdist_packed_bytes(const struct cuda_cdist_plan *plan);
gram_status cuda_cdist_packed(gram_context *g, const struct cuda_cdist_plan *plan);
struct jit_request cuda_cdist_panels_request(const struct cuda_cdist_plan *plan, char *defines);
/* cuda_cdist_power.c: fills in the numbers that pair_power.cuh needs for |d|^g, 0 < g < 2. */
void cuda_cdist_power(double g, struct pair_power *power);
#endif
