/*
 * cuda_variants.h - the kernels that test_cuda_compile compiles: one line each
 *
 * A problem of gram_cdist, gram_kernel or gram_cdist_grad makes the kernel that its plan chooses.
 * Plain kernels (cuda_plain_kernels) are all compiled without a line here, and so are those that
 * have little more than a dtype (cuda_jobs.h).  Any other kernel is named by its file, its function
 * and its options.  Those marked CLASS stand for their kind on every chip, the others are compiled
 * for sm_90a and one more.  After a change here, or where a kernel takes more registers for a good
 * reason: `build/tests/test_cuda_compile --rewrite`.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_CUDA_VARIANTS_H
#define GRAM_TEST_CUDA_VARIANTS_H
#include "pairwise/cuda_cdist.h"

enum {
    SOME,
    CLASS
};

/* The rest as in a large row-major problem of f32. */
static const struct variant_problem {
    int where;
    double p;
    gram_dtype dtype;
    gram_inner inner;
    gram_function function;
    gram_kernel_output output;
    int64_t rows;       /* 0: 9999 */
    int layout;         /* 0: aligned rows; 1: rows; 2: columns */
    bool root, tensors; /* tensors: the bandwidth is one */
    gram_distance_kind metric;
    bool weighted, condensed; /* weighted: the terms of a metric have weights */
} problems[] = {
  /* clang-format off */
    {.where = SOME, .p = 0},
    {.where = SOME, .p = 0.5, .root = true},
    {.where = CLASS, .p = 1},
    {.where = SOME, .p = 1.5, .root = true},
    {.where = CLASS, .p = 2, .root = true},
    {.where = SOME, .p = 3, .root = true},
    {.where = SOME, .p = 15, .root = true},
    {.where = SOME, .p = 0.7, .root = true},
    {.where = CLASS, .p = 1.3, .root = true},
    {.where = SOME, .p = 7.7, .root = true},
    {.where = SOME, .p = 17.5, .root = true},
    {.where = SOME, .p = (double)__builtin_inff()},
    {.where = CLASS, .p = 1, .layout = 1},
    {.where = CLASS, .p = 1, .layout = 2},
    {.where = SOME, .p = 1.3, .layout = 2, .root = true},
    {.where = SOME, .p = 2, .root = true, .rows = 900},
    {.where = SOME, .p = 2, .root = true, .rows = 9},
    {.where = CLASS, .p = 2, .dtype = GRAM_F16, .root = true},
    {.where = SOME, .p = 1.3, .dtype = GRAM_BF16, .root = true},
    {.where = CLASS, .p = 1, .dtype = GRAM_F64},
    {.where = SOME, .p = 2, .dtype = GRAM_F64, .root = true},
    {.where = CLASS, .p = 1.3, .dtype = GRAM_F64, .root = true},
    {.where = SOME, .p = 0, .dtype = GRAM_F64},
    {.where = SOME, .p = 4, .dtype = GRAM_F64, .layout = 2, .root = true},
    {.where = SOME, .p = 1, .function = GRAM_LAPLACE},
    {.where = CLASS, .p = 2, .function = GRAM_GAUSSIAN},
    {.where = SOME, .p = 1.3, .function = GRAM_EXPONENTIAL_POWER},
    {.where = SOME, .p = 2, .function = GRAM_MATERN32},
    {.where = SOME, .p = 2, .function = GRAM_MATERN52},
    {.where = SOME, .p = 2, .function = GRAM_RATIONAL_QUADRATIC},
    {.where = SOME, .inner = GRAM_DOT, .function = GRAM_POLYNOMIAL},
    {.where = SOME, .inner = GRAM_DOT, .function = GRAM_SIGMOID},
    {.where = CLASS, .inner = GRAM_DOT, .function = GRAM_COSINE},
    {.where = SOME, .inner = GRAM_DOT, .function = GRAM_SIGMOID, .output = GRAM_WEIGHT},
    {.where = SOME, .p = 1.3, .function = GRAM_EXPONENTIAL_POWER, .output = GRAM_WEIGHT},
    {.where = SOME, .p = 2, .function = GRAM_MATERN52, .output = GRAM_WEIGHT},
    {.where = SOME, .p = 2, .function = GRAM_GAUSSIAN, .output = GRAM_BANDWIDTH_DERIVATIVE},
    {.where = CLASS, .p = 2, .function = GRAM_GAUSSIAN, .tensors = true},
    {.where = CLASS, .p = 1.3, .dtype = GRAM_F64, .function = GRAM_EXPONENTIAL_POWER, .tensors = true, .output = GRAM_WEIGHT},
    {.where = SOME, .dtype = GRAM_F64, .inner = GRAM_DOT, .function = GRAM_COSINE},
    {.where = CLASS, .p = 1, .metric = GRAM_DISTANCE_CANBERRA},
    {.where = SOME, .p = 1, .metric = GRAM_DISTANCE_CANBERRA, .weighted = true, .layout = 2},
    {.where = SOME, .p = 1, .metric = GRAM_DISTANCE_CANBERRA, .dtype = GRAM_F64},
    {.where = SOME, .p = 1, .metric = GRAM_DISTANCE_BRAYCURTIS},
    {.where = CLASS, .p = 1, .metric = GRAM_DISTANCE_BRAYCURTIS, .dtype = GRAM_F64},
    {.where = SOME, .p = 1, .metric = GRAM_DISTANCE_HAMMING, .dtype = GRAM_F16},
    {.where = SOME, .p = 1, .metric = GRAM_DISTANCE_JACCARD, .weighted = true},
    {.where = CLASS, .p = 1, .metric = GRAM_DISTANCE_JENSENSHANNON},
    {.where = SOME, .p = 1, .metric = GRAM_DISTANCE_JENSENSHANNON, .dtype = GRAM_F64},
    {.where = SOME, .p = 1, .metric = GRAM_DISTANCE_KULLBACK_LEIBLER},
    {.where = SOME, .p = 1, .metric = GRAM_DISTANCE_KULLBACK_LEIBLER, .dtype = GRAM_F64},
    {.where = SOME, .p = 1, .metric = GRAM_DISTANCE_CHI2, .function = GRAM_LAPLACE},
    {.where = SOME, .p = 1, .metric = GRAM_DISTANCE_HAVERSINE},
    {.where = SOME, .p = 1, .metric = GRAM_DISTANCE_HAVERSINE, .dtype = GRAM_F64},
    {.where = SOME, .p = 1, .metric = GRAM_DISTANCE_NAN_EUCLIDEAN, .weighted = true},
    {.where = CLASS, .p = 2, .metric = GRAM_DISTANCE_COSINE},
    {.where = SOME, .p = 2, .metric = GRAM_DISTANCE_HELLINGER, .dtype = GRAM_F64},
    {.where = SOME, .p = 1.3, .root = true, .condensed = true},
  /* clang-format on */
};

/* A gradient of 10000 centres and points in 128 dimensions. */
static const struct variant_gradient {
    int where;
    double p;
    int64_t outputs;
    gram_dtype dtype; /* 0: f32 */
    int layout;  /* 0: points and features are aligned neighbours; 1: neighbours; 2: centres are */
    bool tensor; /* p is one */
} gradients[] = {
  /* clang-format off */
    {.where = CLASS, .p = 1, .outputs = 1},
    {.where = SOME, .p = 1, .outputs = 1, .layout = 1},
    {.where = SOME, .p = 1, .outputs = 1, .layout = 2},
    {.where = SOME, .p = 1, .outputs = 2},
    {.where = SOME, .p = 1, .outputs = 4},
    {.where = SOME, .p = 1, .outputs = 5, .layout = 2},
    {.where = CLASS, .p = 1, .outputs = 10},
    {.where = SOME, .p = 1, .outputs = 16, .layout = 1},
    {.where = SOME, .p = 1.5, .outputs = 1},
    {.where = SOME, .p = 1.5, .outputs = 10, .layout = 2},
    {.where = CLASS, .p = 2, .outputs = 1},
    {.where = SOME, .p = 2, .outputs = 1, .layout = 2},
    {.where = SOME, .p = 2, .outputs = 2},
    {.where = SOME, .p = 2, .outputs = 4},
    {.where = CLASS, .p = 2, .outputs = 16, .layout = 1},
    {.where = SOME, .p = 3, .outputs = 1},
    {.where = SOME, .p = 16, .outputs = 10, .layout = 2},
    {.where = CLASS, .p = 1.3, .outputs = 1},
    {.where = SOME, .p = 1.3, .outputs = 2, .layout = 2},
    {.where = CLASS, .p = 1.3, .outputs = 10},
    {.where = SOME, .p = 1.3, .outputs = 16},
    {.where = SOME, .p = 7.7, .outputs = 1},
    {.where = SOME, .p = 7.7, .outputs = 10, .layout = 1},
    {.where = SOME, .p = 0.7, .outputs = 1},
    {.where = SOME, .p = 0.7, .outputs = 10, .layout = 2},
    {.where = SOME, .p = 17.5, .outputs = 1},
    {.where = SOME, .p = 1, .tensor = true, .outputs = 10},
    {.where = CLASS, .dtype = GRAM_F64, .p = 1, .outputs = 1},
    {.where = SOME, .dtype = GRAM_F64, .p = 1, .outputs = 8, .layout = 2},
    {.where = SOME, .dtype = GRAM_F64, .p = 2, .outputs = 1},
    {.where = SOME, .dtype = GRAM_F64, .p = 2, .outputs = 4, .layout = 2},
    {.where = SOME, .dtype = GRAM_F64, .p = 1.5, .outputs = 1},
    {.where = SOME, .dtype = GRAM_F64, .p = 4, .outputs = 2, .layout = 1},
    {.where = SOME, .dtype = GRAM_F64, .p = 1.3, .outputs = 1},
    {.where = SOME, .dtype = GRAM_F64, .p = 1.3, .outputs = 8, .layout = 2},
    {.where = SOME, .dtype = GRAM_F64, .p = 1, .tensor = true, .outputs = 3, .layout = 1},
  /* clang-format on */
};

/* Kernels that no plan above chooses; chip: the only one that has it, or NULL. */
static const struct variant_kernel {
    int where;
    const char *file, *kernel, *defines, *chip;
} kernels[] = {
  /* clang-format off */
    {CLASS, "cdist_bits.cu", "cdist_bits", "-DJACCARD=1", NULL},
    {SOME, "cdist_bits.cu", "cdist_bits", "-DJACCARD=0", NULL},
    {CLASS, "metric_rows.cu", "metric_rows", "-DREAL=float -DSTORED=0 -DCHANGE=5", NULL},
    {SOME, "metric_rows.cu", "metric_rows", "-DREAL=double -DSTORED=0 -DCHANGE=4", NULL},
    {SOME, "metric_rows.cu", "metric_rows", "-DREAL=float -DSTORED=3 -DCHANGE=6", NULL},
    {SOME, "metric_rows.cu", "metric_rows", "-DREAL=double -DSTORED=0 -DCHANGE=1", NULL},
    {SOME, "metric_rows.cu", "metric_rows", "-DREAL=float -DSTORED=4 -DCHANGE=8", NULL},
    {SOME, "cdist_reduce.cu", "cdist_reduce", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DTM=2 -DSTEP=5 -DWHOLE=1 -DFRACTION=1 -DX_LOAD=2 -DY_LOAD=2 -DFUNCTION=3 -DOUTPUT=1 -DBASE=3 -DSLOPE=3 -DHYPERS=0 -DLISTED=0", NULL},
    {CLASS, "cdist_reduce.cu", "cdist_reduce", "-DREAL=double -DIS_DOUBLE=1 -DSTORED=0 -DTM=2 -DSTEP=8 -DWHOLE=0 -DFRACTION=0 -DX_LOAD=2 -DY_LOAD=2 -DFUNCTION=6 -DOUTPUT=1 -DBASE=3 -DSLOPE=3 -DHYPERS=0 -DLISTED=0", NULL},
    {CLASS, "kron_matmul.cu", "kron_matmul", "-DREAL=float -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DP_OF=8,8,8 -DQ_OF=8,8,8 -DORDER=2,1,0 -DTB=1 -DTA=16 -DTHREADS=64 -DIN_PLACE=1 -DPADDED=1 -DX_LOAD=4 -DY_LOAD=4", NULL},
    {SOME, "kron_matmul.cu", "kron_matmul", "-DREAL=double -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DP_OF=32,32 -DQ_OF=32,32 -DORDER=1,0 -DTB=4 -DTA=1 -DTHREADS=256 -DIN_PLACE=1 -DPADDED=1 -DX_LOAD=2 -DY_LOAD=2", NULL},
    {SOME, "kron_matmul.cu", "kron_matmul", "-DREAL=float -DWHOLE=0 -DX_KIND=3 -DY_KIND=4 -DF_KIND=3 -DP_OF=12,20,30 -DQ_OF=10,24,25 -DORDER=0,2,1 -DTB=1 -DTA=1 -DTHREADS=256 -DIN_PLACE=0 -DPADDED=0 -DX_LOAD=8 -DY_LOAD=8", NULL},
    {SOME, "kron_matmul.cu", "kron_matmul", "-DREAL=float -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DP_OF=8,8,8,8,8 -DQ_OF=8,8,8,8,8 -DORDER=4,3,2,1,0 -DTB=1 -DTA=1 -DTHREADS=256 -DIN_PLACE=1 -DPADDED=1 -DX_LOAD=4 -DY_LOAD=4", NULL},
    {SOME, "kron_matmul.cu", "kron_matmul", "-DREAL=whole64 -DWHOLE=1 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DP_OF=7,5 -DQ_OF=5,31 -DORDER=0,1 -DTB=8 -DTA=1 -DTHREADS=256 -DIN_PLACE=0 -DPADDED=0 -DX_LOAD=1 -DY_LOAD=1", NULL},
    {CLASS, "kron_matmul_one.cu", "kron_matmul_one", "-DREAL=float -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DBQ=64 -DBN=64 -DBK=16 -DALONG=1", NULL},
    {SOME, "kron_matmul_one.cu", "kron_matmul_one", "-DREAL=double -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DBQ=64 -DBN=64 -DBK=16 -DALONG=0", NULL},
    {SOME, "kron_matmul_one.cu", "kron_matmul_one", "-DREAL=whole64 -DWHOLE=1 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DBQ=16 -DBN=16 -DBK=16 -DALONG=0", NULL},
    {CLASS, "kron_matmul_mma.cu", "kron_matmul_mma", "-DREAL=float -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DDOUBLES=0 -DMT=2 -DNT=4 -DWQ=4 -DALONG=0 -DX_LOAD=4 -DF_LOAD=4", NULL},
    {SOME, "kron_matmul_mma.cu", "kron_matmul_mma", "-DREAL=double -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DDOUBLES=1 -DMT=2 -DNT=4 -DWQ=4 -DALONG=1 -DX_LOAD=2 -DF_LOAD=2", NULL},
    {SOME, "kron_matmul_mma.cu", "kron_matmul_mma", "-DREAL=float -DWHOLE=0 -DX_KIND=3 -DY_KIND=0 -DF_KIND=3 -DDOUBLES=0 -DMT=2 -DNT=4 -DWQ=2 -DALONG=1 -DX_LOAD=1 -DF_LOAD=1", NULL},
    {CLASS, "kron_matmul_tile.cu", "kron_matmul_tile", "-DREAL=float -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DP_OF=8,8,8,8 -DQ_OF=8,8,8,8 -DSTEP_OF=0,2,1 -DWITH_OF=1,2,1 -DTB=1 -DTA=1 -DAFTER=1 -DTHREADS=64 -DBLOCKS=6 -DWIDE=32 -DPLAIN=1 -DLINEAR=1 -DBATCHED=0 -DSTAGES=1 -DMMA=0", NULL},
    {SOME, "kron_matmul_tile.cu", "kron_matmul_tile", "-DREAL=float -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DP_OF=32,32 -DQ_OF=32,32 -DSTEP_OF=1,0 -DWITH_OF=1,1 -DTB=1 -DTA=8 -DAFTER=1024 -DTHREADS=128 -DBLOCKS=3 -DWIDE=32 -DPLAIN=1 -DLINEAR=1 -DBATCHED=0 -DSTAGES=1 -DMMA=0", NULL},
    {SOME, "kron_matmul_tile.cu", "kron_matmul_tile", "-DREAL=double -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DP_OF=16,16,16 -DQ_OF=16,16,16 -DSTEP_OF=0,2,1 -DWITH_OF=1,1,1 -DTB=1 -DTA=1 -DAFTER=1 -DTHREADS=128 -DBLOCKS=2 -DWIDE=16 -DPLAIN=0 -DLINEAR=0 -DBATCHED=1 -DSTAGES=0 -DMMA=0", NULL},
    {SOME, "kron_matmul_tile.cu", "kron_matmul_tile", "-DREAL=whole64 -DWHOLE=1 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DP_OF=8,16 -DQ_OF=8,8 -DSTEP_OF=1,0 -DWITH_OF=1,1 -DTB=1 -DTA=32 -DAFTER=0 -DTHREADS=128 -DBLOCKS=3 -DWIDE=16 -DPLAIN=0 -DLINEAR=1 -DBATCHED=0 -DSTAGES=1 -DMMA=0", NULL},
    {SOME, "kron_matmul_tile.cu", "kron_matmul_tile", "-DREAL=double -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DP_OF=16,16,16 -DQ_OF=16,16,16 -DSTEP_OF=0,2,1 -DWITH_OF=1,1,1 -DGAP_OF=2,4,0 -DSPREAD_OF=2,1,1 -DROW_OF=18,18,18 -DDOUBLES=1 -DTB=1 -DTA=1 -DAFTER=1 -DTHREADS=128 -DBLOCKS=3 -DWIDE=32 -DPLAIN=1 -DLINEAR=1 -DBATCHED=0 -DSTAGES=0 -DMMA=1", NULL},
    {SOME, "kron_matmul_tile.cu", "kron_matmul_tile", "-DREAL=double -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DP_OF=16,16,16 -DQ_OF=16,16,16 -DSTEP_OF=2,1,0 -DWITH_OF=1,1,1 -DGAP_OF=2,2,0 -DSPREAD_OF=2,2,1 -DROW_OF=18,18,18 -DDOUBLES=1 -DTB=1 -DTA=4 -DAFTER=4096 -DTHREADS=512 -DBLOCKS=1 -DWIDE=32 -DPLAIN=1 -DLINEAR=1 -DBATCHED=0 -DSTAGES=0 -DMMA=1", NULL},
    {SOME, "kron_matmul_tile.cu", "kron_matmul_tile", "-DREAL=double -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DP_OF=31,31 -DQ_OF=31,31 -DSTEP_OF=1,0 -DWITH_OF=1,1 -DGAP_OF=5,0 -DSPREAD_OF=1,1 -DROW_OF=34,34 -DDOUBLES=1 -DTB=1 -DTA=31 -DAFTER=0 -DTHREADS=128 -DBLOCKS=2 -DWIDE=32 -DPLAIN=0 -DLINEAR=0 -DBATCHED=1 -DSTAGES=0 -DMMA=1", NULL},
    {SOME, "kron_matmul_tile.cu", "kron_matmul_tile", "-DREAL=float -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DP_OF=32,32,32 -DQ_OF=32,32,32 -DSTEP_OF=0,2,1 -DWITH_OF=1,1,1 -DGAP_OF=4,4,0 -DSPREAD_OF=2,2,1 -DROW_OF=36,36,40 -DDOUBLES=0 -DTB=1 -DTA=1 -DAFTER=1 -DTHREADS=256 -DBLOCKS=1 -DWIDE=64 -DPLAIN=1 -DLINEAR=1 -DBATCHED=0 -DSTAGES=0 -DMMA=1", NULL},
    {SOME, "kron_matmul_tile.cu", "kron_matmul_tile", "-DREAL=float -DWHOLE=0 -DX_KIND=3 -DY_KIND=0 -DF_KIND=3 -DP_OF=16,16 -DQ_OF=16,16 -DSTEP_OF=1,0 -DWITH_OF=1,1 -DGAP_OF=4,4 -DSPREAD_OF=2,2 -DROW_OF=20,20 -DDOUBLES=0 -DTB=1 -DTA=32 -DAFTER=256 -DTHREADS=128 -DBLOCKS=4 -DWIDE=64 -DPLAIN=1 -DLINEAR=1 -DBATCHED=0 -DSTAGES=1 -DMMA=1", NULL},
    {SOME, "kron_matmul_resident.cu", "kron_matmul_resident", "-DREAL=float -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DDOUBLES=0 -DP=128 -DQ=128 -DBQ=128 -DALONG=1 -DE_P=0 -DE_Q=0 -DE_BQ=0 -DWGS=2 -DSTAGES=6 -DF_LOAD=4", "sm_90a"},
    {SOME, "kron_matmul_resident.cu", "kron_matmul_resident", "-DREAL=float -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DDOUBLES=0 -DP=100 -DQ=128 -DBQ=128 -DALONG=0 -DE_P=0 -DE_Q=0 -DE_BQ=0 -DWGS=2 -DSTAGES=6 -DF_LOAD=4", "sm_90a"},
    {SOME, "kron_matmul_resident.cu", "kron_matmul_resident", "-DREAL=float -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DDOUBLES=0 -DP=64 -DQ=64 -DBQ=64 -DALONG=1 -DE_P=0 -DE_Q=0 -DE_BQ=0 -DWGS=3 -DSTAGES=8 -DF_LOAD=4", "sm_90a"},
    {SOME, "kron_matmul_resident.cu", "kron_matmul_resident", "-DREAL=float -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DDOUBLES=0 -DP=64 -DQ=64 -DBQ=64 -DALONG=1 -DE_P=64 -DE_Q=64 -DE_BQ=64 -DWGS=2 -DSTAGES=8 -DF_LOAD=4", "sm_90a"},
    {SOME, "kron_matmul_resident.cu", "kron_matmul_resident", "-DREAL=float -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DDOUBLES=0 -DP=48 -DQ=30 -DBQ=32 -DALONG=0 -DE_P=0 -DE_Q=0 -DE_BQ=0 -DWGS=3 -DSTAGES=8 -DF_LOAD=1", "sm_90a"},
    {SOME, "kron_matmul_resident.cu", "kron_matmul_resident", "-DREAL=float -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DDOUBLES=0 -DP=64 -DQ=64 -DBQ=32 -DALONG=0 -DE_P=0 -DE_Q=0 -DE_BQ=0 -DWGS=1 -DSTAGES=3 -DF_LOAD=4", "sm_90a"},
    {SOME, "kron_matmul_resident.cu", "kron_matmul_resident", "-DREAL=double -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DDOUBLES=1 -DP=128 -DQ=128 -DBQ=128 -DALONG=1 -DE_P=0 -DE_Q=0 -DE_BQ=0 -DWGS=2 -DSTAGES=6 -DF_LOAD=2", "sm_90a"},
    {SOME, "kron_matmul_resident.cu", "kron_matmul_resident", "-DREAL=double -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DDOUBLES=1 -DP=64 -DQ=64 -DBQ=64 -DALONG=0 -DE_P=0 -DE_Q=0 -DE_BQ=0 -DWGS=2 -DSTAGES=8 -DF_LOAD=1", "sm_90a"},
    {SOME, "kron_matmul_resident.cu", "kron_matmul_resident", "-DREAL=double -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DDOUBLES=1 -DP=64 -DQ=64 -DBQ=64 -DALONG=1 -DE_P=64 -DE_Q=64 -DE_BQ=64 -DWGS=2 -DSTAGES=6 -DF_LOAD=2", "sm_90a"},
    {CLASS, "kron_vjp_gradient.cu", "kron_vjp_gradient", "-DREAL=float -DDOUBLES=0 -DMT=4 -DNT=4 -DWP=2 -DWQ=4 -DALONG=0 -DLOAD=4", NULL},
    {SOME, "kron_vjp_gradient.cu", "kron_vjp_gradient", "-DREAL=float -DDOUBLES=0 -DMT=2 -DNT=4 -DWP=2 -DWQ=2 -DALONG=1 -DLOAD=4", NULL},
    {SOME, "kron_vjp_gradient.cu", "kron_vjp_gradient", "-DREAL=float -DDOUBLES=0 -DMT=1 -DNT=2 -DWP=1 -DWQ=1 -DALONG=0 -DLOAD=1", NULL},
    {SOME, "kron_vjp_gradient.cu", "kron_vjp_gradient", "-DREAL=double -DDOUBLES=1 -DMT=2 -DNT=4 -DWP=4 -DWQ=2 -DALONG=0 -DLOAD=2", NULL},
    {SOME, "kron_vjp_gradient.cu", "kron_vjp_gradient", "-DREAL=double -DDOUBLES=1 -DMT=2 -DNT=4 -DWP=2 -DWQ=2 -DALONG=1 -DLOAD=1", NULL},
    {SOME, "kron_solve_pass.cu", "kron_solve_pass", "-DREAL=float -DORDER=32 -DRIGHTS=2 -DSTAGED=1", NULL},
    {SOME, "kron_solve_pass.cu", "kron_solve_pass", "-DREAL=double -DORDER=60 -DRIGHTS=1 -DSTAGED=0", NULL},
    {SOME, "kron_vjp_group.cu", "kron_vjp_group", "-DREAL=float -DDOUBLES=0 -DN_OF=8,8,8 -DTB=8 -DTA=1 -DLOAD=4 -DAHEAD=1 -DBLOCKS=2", NULL},
    {SOME, "kron_vjp_group.cu", "kron_vjp_group", "-DREAL=float -DDOUBLES=0 -DN_OF=16,16 -DTB=1 -DTA=16 -DLOAD=4 -DAHEAD=1 -DBLOCKS=2", NULL},
    {SOME, "kron_vjp_group.cu", "kron_vjp_group", "-DREAL=float -DDOUBLES=0 -DN_OF=32,32 -DTB=4 -DTA=1 -DLOAD=4 -DAHEAD=1 -DBLOCKS=1", NULL},
    {SOME, "kron_vjp_group.cu", "kron_vjp_group", "-DREAL=double -DDOUBLES=1 -DN_OF=32,32 -DTB=4 -DTA=1 -DLOAD=1 -DAHEAD=1 -DBLOCKS=1", NULL},
    {SOME, "kron_vjp_group.cu", "kron_vjp_group", "-DREAL=double -DDOUBLES=1 -DN_OF=8,8,8 -DTB=1 -DTA=8 -DLOAD=2 -DAHEAD=0 -DBLOCKS=2", NULL},
    {CLASS, "kron_expand.cu", "kron_expand", "-DREAL=float -DWHOLE=0 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DFACTORS=2", NULL},
    {SOME, "kron_expand.cu", "kron_expand", "-DREAL=whole64 -DWHOLE=1 -DX_KIND=0 -DY_KIND=0 -DF_KIND=0 -DFACTORS=16", NULL},
    {SOME, "kron_trace.cu", "kron_trace", "-DREAL=float -DSUM=double", NULL},
    {SOME, "kron_trace.cu", "kron_trace", "-DREAL=whole64 -DSUM=whole64", NULL},
    {CLASS, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=2 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=10 -DROWS=4 -DCOLUMNS=1 -DMIRROR=0", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=2 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=3 -DROWS=4 -DCOLUMNS=1 -DMIRROR=0", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=2 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=1 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=28 -DROWS=4 -DCOLUMNS=1 -DMIRROR=0", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=2 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=12 -DROWS=4 -DCOLUMNS=32 -DMIRROR=0", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=5 -DWHOLE=1 -DFRACTION=1 -DFUNCTION=3 -DOUTPUT=0 -DBASE=3 -DSLOPE=0 -DHYPERS=0 -DDEPTH=43 -DROWS=4 -DCOLUMNS=1 -DMIRROR=0", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=3 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=1 -DOUTPUT=0 -DBASE=2 -DSLOPE=0 -DHYPERS=0 -DDEPTH=10 -DROWS=1 -DCOLUMNS=16 -DMIRROR=0", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=5 -DOUTPUT=0 -DBASE=-1 -DSLOPE=0 -DHYPERS=1 -DDEPTH=10 -DROWS=4 -DCOLUMNS=2 -DMIRROR=0", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=7 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=9 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=10 -DROWS=4 -DCOLUMNS=4 -DMIRROR=0", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=5 -DWHOLE=0 -DFRACTION=1 -DFUNCTION=1 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=12 -DROWS=4 -DCOLUMNS=1 -DMIRROR=0", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=3 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=6 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=20 -DROWS=4 -DCOLUMNS=8 -DMIRROR=0", NULL},
    {CLASS, "kernel_matmul.cu", "kernel_matmul", "-DREAL=double -DIS_DOUBLE=1 -DSTORED=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=2 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=10 -DROWS=2 -DCOLUMNS=16 -DMIRROR=0", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=double -DIS_DOUBLE=1 -DSTORED=0 -DSTEP=5 -DWHOLE=1 -DFRACTION=1 -DFUNCTION=3 -DOUTPUT=1 -DBASE=3 -DSLOPE=3 -DHYPERS=0 -DDEPTH=20 -DROWS=2 -DCOLUMNS=8 -DMIRROR=0", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=double -DIS_DOUBLE=1 -DSTORED=0 -DSTEP=7 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=8 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=43 -DROWS=2 -DCOLUMNS=1 -DMIRROR=0", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=double -DIS_DOUBLE=1 -DSTORED=0 -DSTEP=6 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=4 -DOUTPUT=2 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=8 -DROWS=1 -DCOLUMNS=2 -DMIRROR=0", NULL},
    {CLASS, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=2 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=10 -DROWS=4 -DCOLUMNS=1 -DMIRROR=1", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=2 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=1 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=28 -DROWS=4 -DCOLUMNS=1 -DMIRROR=1", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=2 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=22 -DROWS=4 -DCOLUMNS=8 -DMIRROR=1", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=1 -DOUTPUT=0 -DBASE=2 -DSLOPE=0 -DHYPERS=0 -DDEPTH=36 -DROWS=4 -DCOLUMNS=1 -DMIRROR=1", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=5 -DWHOLE=1 -DFRACTION=1 -DFUNCTION=3 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=20 -DROWS=4 -DCOLUMNS=4 -DMIRROR=1", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=6 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=36 -DROWS=2 -DCOLUMNS=1 -DMIRROR=1", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=float -DIS_DOUBLE=0 -DSTORED=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=5 -DOUTPUT=0 -DBASE=-1 -DSLOPE=0 -DHYPERS=1 -DDEPTH=10 -DROWS=4 -DCOLUMNS=2 -DMIRROR=1", NULL},
    {CLASS, "kernel_matmul.cu", "kernel_matmul", "-DREAL=double -DIS_DOUBLE=1 -DSTORED=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=2 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=10 -DROWS=2 -DCOLUMNS=1 -DMIRROR=1", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=double -DIS_DOUBLE=1 -DSTORED=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=2 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DDEPTH=6 -DROWS=2 -DCOLUMNS=8 -DMIRROR=1", NULL},
    {SOME, "kernel_matmul.cu", "kernel_matmul", "-DREAL=double -DIS_DOUBLE=1 -DSTORED=0 -DSTEP=5 -DWHOLE=1 -DFRACTION=1 -DFUNCTION=3 -DOUTPUT=1 -DBASE=3 -DSLOPE=3 -DHYPERS=0 -DDEPTH=20 -DROWS=2 -DCOLUMNS=2 -DMIRROR=1", NULL},
    {CLASS, "kernel_matmul_tensor.cu", "kernel_matmul_tensor", "-DSTORED=0 -DFUNCTION=2 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DCOLUMNS=1 -DMIRROR=1 -DRELAXED=1 -DWIDE=0", NULL},
    {CLASS, "kernel_matmul_tensor.cu", "kernel_matmul_tensor", "-DSTORED=0 -DFUNCTION=2 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DCOLUMNS=8 -DMIRROR=1 -DRELAXED=1 -DWIDE=0", NULL},
    {SOME, "kernel_matmul_tensor.cu", "kernel_matmul_tensor", "-DSTORED=0 -DFUNCTION=2 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DCOLUMNS=1 -DMIRROR=0 -DRELAXED=1 -DWIDE=0", NULL},
    {SOME, "kernel_matmul_tensor.cu", "kernel_matmul_tensor", "-DSTORED=0 -DFUNCTION=1 -DOUTPUT=0 -DBASE=2 -DSLOPE=0 -DHYPERS=0 -DCOLUMNS=4 -DMIRROR=1 -DRELAXED=1 -DWIDE=0", NULL},
    {SOME, "kernel_matmul_tensor.cu", "kernel_matmul_tensor", "-DSTORED=3 -DFUNCTION=5 -DOUTPUT=0 -DBASE=2 -DSLOPE=0 -DHYPERS=0 -DCOLUMNS=2 -DMIRROR=0 -DRELAXED=1 -DWIDE=0", NULL},
    {SOME, "kernel_matmul_tensor.cu", "kernel_matmul_tensor", "-DSTORED=0 -DFUNCTION=4 -DOUTPUT=0 -DBASE=-1 -DSLOPE=0 -DHYPERS=1 -DCOLUMNS=1 -DMIRROR=1 -DRELAXED=1 -DWIDE=0", NULL},
    {SOME, "kernel_matmul_tensor.cu", "kernel_matmul_tensor", "-DSTORED=0 -DFUNCTION=6 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DCOLUMNS=8 -DMIRROR=1 -DRELAXED=0 -DWIDE=0", NULL},
    {SOME, "kernel_matmul_tensor.cu", "kernel_matmul_tensor", "-DSTORED=0 -DFUNCTION=3 -DOUTPUT=1 -DBASE=3 -DSLOPE=3 -DHYPERS=0 -DCOLUMNS=8 -DMIRROR=1 -DRELAXED=0 -DWIDE=0", NULL},
    {SOME, "kernel_matmul_tensor.cu", "kernel_matmul_tensor", "-DSTORED=0 -DFUNCTION=0 -DOUTPUT=0 -DBASE=2 -DSLOPE=0 -DHYPERS=0 -DCOLUMNS=1 -DMIRROR=0 -DRELAXED=0 -DWIDE=0", NULL},
    {CLASS, "kernel_matmul_tensor.cu", "kernel_matmul_tensor", "-DSTORED=0 -DFUNCTION=2 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DCOLUMNS=16 -DMIRROR=0 -DRELAXED=1 -DWIDE=1", NULL},
    {SOME, "kernel_matmul_tensor.cu", "kernel_matmul_tensor", "-DSTORED=0 -DFUNCTION=2 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DCOLUMNS=8 -DMIRROR=0 -DRELAXED=1 -DWIDE=1", NULL},
    {SOME, "kernel_matmul_tensor.cu", "kernel_matmul_tensor", "-DSTORED=0 -DFUNCTION=1 -DOUTPUT=0 -DBASE=2 -DSLOPE=0 -DHYPERS=0 -DCOLUMNS=8 -DMIRROR=0 -DRELAXED=1 -DWIDE=1", NULL},
    {SOME, "kernel_matmul_tensor.cu", "kernel_matmul_tensor", "-DSTORED=3 -DFUNCTION=5 -DOUTPUT=0 -DBASE=2 -DSLOPE=0 -DHYPERS=1 -DCOLUMNS=16 -DMIRROR=0 -DRELAXED=1 -DWIDE=1", NULL},
    {CLASS, "nearest_points.cu", "nearest_begin", "-DSTORED=0", NULL},
    {CLASS, "nearest_points.cu", "nearest_improve", "-DSTORED=0", NULL},
    {SOME, "nearest_points.cu", "nearest_improve", "-DSTORED=3", NULL},
    {CLASS, "nearest_points.cu", "nearest_end", "-DSTORED=0", NULL},
    {SOME, "nearest_points.cu", "nearest_end", "-DSTORED=3", NULL},
    {SOME, "cdist_mma.cu", "cdist_mma", "-DSTORED=0 -DSTEP=4 -DPLANES=2 -DBK=32 -DCORE=1 -DSTAGES=3 -DPROMOTED=0 -DX_LOAD=0 -DY_LOAD=0 -DFUNCTION=0 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DFILTER=1", NULL},
    {CLASS, "cdist_mma.cu", "cdist_mma", "-DSTORED=0 -DSTEP=4 -DPLANES=2 -DBK=32 -DCORE=2 -DSTAGES=4 -DPROMOTED=4 -DX_LOAD=0 -DY_LOAD=0 -DFUNCTION=0 -DOUTPUT=0 -DBASE=0 -DSLOPE=0 -DHYPERS=0 -DFILTER=1", "sm_90a"},
    {CLASS, "kernel_matmul_pack.cu", "kernel_matmul_pack", "-DCOLUMNS=16", NULL},
    {CLASS, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=float -DIS_DOUBLE=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=2 -DBASE=0 -DSLOPE=1 -DHYPERS=0 -DDEPTH=10 -DROWS=4 -DCOLUMNS=1", NULL},
    {SOME, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=float -DIS_DOUBLE=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=2 -DBASE=0 -DSLOPE=1 -DHYPERS=0 -DDEPTH=3 -DROWS=4 -DCOLUMNS=2", NULL},
    {SOME, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=float -DIS_DOUBLE=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=2 -DBASE=0 -DSLOPE=1 -DHYPERS=0 -DDEPTH=26 -DROWS=2 -DCOLUMNS=2", NULL},
    {SOME, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=float -DIS_DOUBLE=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=2 -DBASE=0 -DSLOPE=1 -DHYPERS=0 -DDEPTH=10 -DROWS=2 -DCOLUMNS=32", NULL},
    {SOME, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=float -DIS_DOUBLE=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=1 -DBASE=2 -DSLOPE=3 -DHYPERS=0 -DDEPTH=19 -DROWS=4 -DCOLUMNS=2", NULL},
    {SOME, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=float -DIS_DOUBLE=0 -DSTEP=2 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=1 -DBASE=0 -DSLOPE=1 -DHYPERS=0 -DDEPTH=28 -DROWS=2 -DCOLUMNS=1", NULL},
    {SOME, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=float -DIS_DOUBLE=0 -DSTEP=5 -DWHOLE=1 -DFRACTION=1 -DFUNCTION=3 -DBASE=3 -DSLOPE=3 -DHYPERS=0 -DDEPTH=43 -DROWS=1 -DCOLUMNS=1", NULL},
    {SOME, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=float -DIS_DOUBLE=0 -DSTEP=5 -DWHOLE=0 -DFRACTION=1 -DFUNCTION=1 -DBASE=0 -DSLOPE=1 -DHYPERS=0 -DDEPTH=12 -DROWS=4 -DCOLUMNS=1", NULL},
    {SOME, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=float -DIS_DOUBLE=0 -DSTEP=3 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=6 -DBASE=3 -DSLOPE=3 -DHYPERS=0 -DDEPTH=16 -DROWS=2 -DCOLUMNS=8", NULL},
    {SOME, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=float -DIS_DOUBLE=0 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=5 -DBASE=-1 -DSLOPE=-1 -DHYPERS=1 -DDEPTH=10 -DROWS=4 -DCOLUMNS=2", NULL},
    {SOME, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=float -DIS_DOUBLE=0 -DSTEP=7 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=9 -DBASE=0 -DSLOPE=1 -DHYPERS=0 -DDEPTH=10 -DROWS=2 -DCOLUMNS=4", NULL},
    {CLASS, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=double -DIS_DOUBLE=1 -DSTEP=4 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=2 -DBASE=0 -DSLOPE=1 -DHYPERS=0 -DDEPTH=10 -DROWS=2 -DCOLUMNS=2", NULL},
    {SOME, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=double -DIS_DOUBLE=1 -DSTEP=5 -DWHOLE=1 -DFRACTION=1 -DFUNCTION=3 -DBASE=3 -DSLOPE=3 -DHYPERS=0 -DDEPTH=24 -DROWS=1 -DCOLUMNS=4", NULL},
    {SOME, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=double -DIS_DOUBLE=1 -DSTEP=7 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=8 -DBASE=0 -DSLOPE=1 -DHYPERS=0 -DDEPTH=43 -DROWS=1 -DCOLUMNS=1", NULL},
    {SOME, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=double -DIS_DOUBLE=1 -DSTEP=6 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=4 -DBASE=0 -DSLOPE=1 -DHYPERS=0 -DDEPTH=8 -DROWS=2 -DCOLUMNS=2", NULL},
    {SOME, "kernel_matmul_vjp.cu", "kernel_matmul_vjp", "-DREAL=double -DIS_DOUBLE=1 -DSTEP=1 -DWHOLE=0 -DFRACTION=0 -DFUNCTION=4 -DBASE=3 -DSLOPE=3 -DHYPERS=0 -DDEPTH=12 -DROWS=2 -DCOLUMNS=2", NULL},
  /* clang-format on */
};
#endif
