/*
 * case_sample_grad.c - the rows of gram_sample_grad
 *
 * A block of patches has 256 positions or more (up to 2 MiB), one of a gradient 16 features or more
 * (up to 1 MiB), a tile of ghost norms 256 positions, a step of an embedding's sum 64 columns, and
 * sums behind normalisations 8 lanes.  On CUDA a tile of a product is 64 by 64, its step 16, 64
 * of what is summed over are looked up at a time, masks have 64 places of a kernel, sums are cut
 * into parts of 64 positions (biases: 256) or more, and 8192 positions of an embedding are linked
 * at a time.
 *
 * SPDX-License-Identifier: MIT
 */
#include "sample_grad_problem.h"

#define NORM(samples, from) .kind = GRAM_LAYER_NORM, .n = (samples), .in = (from), .out = (from)
#define GROUPS(samples, from, count) \
  .kind = GRAM_LAYER_GROUP_NORM, .n = (samples), .in = (from), .out = (from), .groups = (count)

/* clang-format off */
static const struct sample_row rows[] = {
    {{LINEAR(1, 1, 1), .dtype = GRAM_F32}, .why = "smallest"},
    {{LINEAR(5, 4, 3), .bias = true, .dtype = GRAM_F64}, .why = "no sequence"},
    {{LINEAR(5, 40, 33), .bias = true, .dtype = GRAM_F32}, .wanted = NORMS,
     .why = "norms of one position"},
    {{LINEAR(3, 20, 13), .dims = 1, .size = {7}, .bias = true, .dtype = GRAM_F64},
     .why = "a sequence"},
    {{LINEAR(3, 20, 13), .dims = 1, .size = {7}, .bias = true, .dtype = GRAM_F64},
     .wanted = NORMS, .why = "ghost norms of a sequence"},
    {{LINEAR(3, 5, 4), .dims = 1, .size = {30}, .bias = true, .dtype = GRAM_F64}, .wanted = NORMS,
     .why = "norms by blocks of a long sequence"},
    {{LINEAR(2, 6, 5), .dims = 1, .size = {530}, .dtype = GRAM_F32}, .wanted = NORMS,
     .method = GRAM_SAMPLE_GHOST, .why = "three tiles of positions"},
    {{LINEAR(2, 6, 5), .dims = 1, .size = {530}, .layout = {EVERY_SECOND, COLUMN_MAJOR},
      .bias = true, .dtype = GRAM_F64}, .wanted = NORMS, .method = GRAM_SAMPLE_GHOST,
     .why = "tiles of no unit stride"},
    {{LINEAR(2, 700, 30), .dims = 1, .size = {1000}, .dtype = GRAM_F32}, .wanted = NORMS | SUM_WEIGHT,
     .method = GRAM_SAMPLE_BLOCKS, .clip = 2, .why = "blocks of positions"},
    {{LINEAR(2, 148, 150), .dims = 1, .size = {70}, .dtype = GRAM_F32}, .wanted = NORMS,
     .why = "ghost norms of many features, wide copies of one side"},
    {{LINEAR(2, 150, 148), .dims = 1, .size = {70}, .dtype = GRAM_F64}, .wanted = NORMS,
     .why = "the same of the other side"},
    {{LINEAR(2, 20000, 20), .dtype = GRAM_F32}, .wanted = WEIGHT | NORMS, .why = "two blocks of W"},
    {{LINEAR(2, 20000, 20), .out_layout = EVERY_SECOND, .dtype = GRAM_F32},
     .wanted = WEIGHT | NORMS, .why = "two blocks of W through scratch"},
    {{LINEAR(3, 9, 8), .dims = 2, .size = {3, 4}, .layout = {PADDED, PADDED}, .bias = true,
      .out_layout = PADDED, .dtype = GRAM_F32}, .why = "two dimensions with gaps"},
    {{LINEAR(3, 9, 8), .dims = 3, .size = {2, 3, 2}, .layout = {COLUMN_MAJOR, REVERSED},
      .bias = true, .out_layout = COLUMN_MAJOR, .dtype = GRAM_F64}, .why = "three dimensions"},
    {{LINEAR(3, 9, 8), .dims = 1, .size = {5}, .layout = {ROWS_REPEATED, MISALIGNED},
      .out_layout = REVERSED, .bias = true, .dtype = GRAM_F32}, .why = "one row seen often"},
    {{LINEAR(4, 12, 10), .dims = 1, .size = {6}, .bias = true, .dtype = GRAM_F16},
     .clip = 1.5, .why = "halves"},
    {{LINEAR(4, 12, 10), .dims = 1, .size = {6}, .bias = true, .dtype = GRAM_BF16}, .wanted = NORMS,
     .why = "bfloat16"},
    {{LINEAR(6, 8, 7), .dims = 1, .size = {3}, .bias = true, .dtype = GRAM_F64}, .clip = 5,
     .scale = 6, .why = "clipped, of a mean"},
    {{LINEAR(6, 8, 7), .dims = 1, .size = {3}, .bias = true, .dtype = GRAM_F32},
     .coefficients = true, .why = "given coefficients, one of them 0"},
    {{LINEAR(6, 8, 7), .dims = 1, .size = {3}, .bias = true, .nan = true, .dtype = GRAM_F32},
     .coefficients = true, .why = "NaN in the sample left out"},
    {{LINEAR(4, 8, 7), .dims = 1, .size = {3}, .bias = true, .nan = true, .dtype = GRAM_F64},
     .clip = 3, .why = "NaN in one sample, which is not in the sum"},
    {{LINEAR(4, 30, 27), .dims = 1, .size = {3}, .nan = true, .dtype = GRAM_F32}, .wanted = NORMS,
     .why = "NaN stays in its ghost norm"},
    {{LINEAR(5, 8, 7), .dims = 1, .size = {3}, .bias = true, .dtype = GRAM_F64},
     .accumulate = true, .clip = 2, .why = "added to what there was"},
    {{LINEAR(3, 66, 65), .dims = 1, .size = {200}, .bias = true, .dtype = GRAM_F32}, .clip = 40,
     .wanted = NORMS | SUM_WEIGHT | SUM_BIAS, .why = "four tiles, sums in parts"},
    {{LINEAR(0, 8, 7), .dims = 1, .size = {3}, .bias = true, .dtype = GRAM_F64},
     .why = "no samples"},
    {{LINEAR(3, 8, 7), .dims = 1, .size = {0}, .bias = true, .dtype = GRAM_F64},
     .why = "no positions"},
    {{LINEAR(3, 8, 7), .dims = 1, .size = {0}, .dtype = GRAM_F64}, .wanted = NORMS,
     .why = "norms of no positions"},
    {{LINEAR(3, 0, 7), .dims = 1, .size = {2}, .bias = true, .dtype = GRAM_F64},
     .why = "no input features: only the bias"},
    {{LINEAR(3, 8, 0), .dims = 1, .size = {2}, .bias = true, .dtype = GRAM_F32},
     .why = "no output features"},
    {{CONVOLUTION(3, 2, 4, 1), .size = {9}, .kernel = {3}, .bias = true, .dtype = GRAM_F64},
     .why = "one dimension"},
    {{CONVOLUTION(2, 3, 5, 2), .size = {7, 6}, .kernel = {3, 2}, .padding = {1, 1},
      .stride = {2, 1}, .bias = true, .dtype = GRAM_F32}, .clip = 4, .why = "two dimensions"},
    {{CONVOLUTION(2, 3, 5, 2), .size = {7, 8}, .kernel = {3, 3}, .padding = {4, 2},
      .dilation = {2, 3}, .stride = {1, 3}, .dtype = GRAM_F64}, .why = "dilation, wide padding"},
    {{CONVOLUTION(2, 4, 6, 2), .size = {5, 5}, .kernel = {3, 3}, .padding = {1, 1}, .groups = 2,
      .bias = true, .dtype = GRAM_F64}, .clip = 3, .why = "two groups"},
    {{CONVOLUTION(3, 6, 6, 2), .size = {5, 4}, .kernel = {3, 3}, .padding = {1, 1}, .groups = 6,
      .bias = true, .dtype = GRAM_F32}, .wanted = NORMS | SUM_WEIGHT | SUM_BIAS, .clip = 1,
     .why = "a group a channel"},
    {{CONVOLUTION(2, 2, 3, 3), .size = {4, 3, 5}, .kernel = {2, 3, 2}, .padding = {1, 0, 1},
      .stride = {1, 1, 2}, .bias = true, .dtype = GRAM_F64}, .why = "three dimensions"},
    {{CONVOLUTION(2, 3, 4, 2), .size = {5, 6}, .kernel = {3, 3}, .layout = {COLUMN_MAJOR, REVERSED},
      .out_layout = COLUMN_MAJOR, .bias = true, .dtype = GRAM_F32}, .why = "strides"},
    {{CONVOLUTION(2, 3, 4, 2), .size = {5, 6}, .kernel = {3, 3}, .layout = {EVERY_SECOND, PADDED},
      .out_layout = PADDED, .padding = {1, 2}, .dtype = GRAM_BF16}, .why = "gaps, bfloat16"},
    {{CONVOLUTION(3, 7, 6, 2), .size = {3, 4}, .bias = true, .dtype = GRAM_F32},
     .why = "a kernel of one position"},
    {{CONVOLUTION(3, 6, 9, 2), .size = {3, 4}, .groups = 3, .layout = {PADDED, COLUMN_MAJOR},
      .dtype = GRAM_F64}, .why = "the same in groups"},
    {{CONVOLUTION(2, 40, 50, 2), .size = {4, 4}, .kernel = {3, 3}, .bias = true, .dtype = GRAM_F32},
     .wanted = NORMS, .why = "ghost norms of patches"},
    {{CONVOLUTION(2, 2, 2, 2), .size = {24, 23}, .kernel = {3, 3}, .padding = {1, 1},
      .dtype = GRAM_F64}, .wanted = NORMS, .method = GRAM_SAMPLE_GHOST, .why = "tiles of patches"},
    {{CONVOLUTION(2, 4, 6, 2), .size = {9, 10}, .kernel = {3, 2}, .groups = 2, .padding = {1, 1},
      .dtype = GRAM_F32}, .wanted = NORMS, .method = GRAM_SAMPLE_GHOST, .why = "tiles of two groups"},
    {{CONVOLUTION(2, 300, 3, 2), .size = {20, 21}, .kernel = {3, 3}, .padding = {1, 1},
      .dtype = GRAM_F32}, .wanted = NORMS | SUM_WEIGHT, .method = GRAM_SAMPLE_BLOCKS, .clip = 1,
     .why = "blocks of patches"},
    {{CONVOLUTION(2, 9, 68, 2), .size = {10, 14}, .kernel = {3, 3}, .padding = {1, 1},
      .bias = true, .dtype = GRAM_F32}, .wanted = WEIGHT | NORMS, .why = "tiles of many positions"},
    {{CONVOLUTION(2, 9, 68, 2), .size = {10, 14}, .kernel = {1, 1}, .dtype = GRAM_F32},
     .wanted = WEIGHT, .why = "wide copies of planes"},
    {{CONVOLUTION(2, 2, 3, 2), .size = {11, 12}, .kernel = {8, 9}, .padding = {4, 4},
      .dilation = {1, 2}, .dtype = GRAM_F32}, .wanted = WEIGHT | NORMS,
     .why = "a kernel of more places than a mask has bits"},
    {{CONVOLUTION(3, 2, 2, 2), .size = {4, 4}, .kernel = {3, 3}, .nan = true, .dtype = GRAM_F64},
     .clip = 1, .why = "NaN in one sample"},
    {{CONVOLUTION(2, 2, 3, 2), .size = {2, 5}, .kernel = {3, 3}, .bias = true, .dtype = GRAM_F64},
     .why = "no room for the kernel"},
    {{CONVOLUTION(2, 2, 3, 2), .size = {4, 4}, .kernel = {5, 5}, .padding = {2, 2}, .bias = true,
      .stride = {9, 9}, .dtype = GRAM_F64}, .why = "one place"},
    {{EMBEDDING(3, 5, 4, GRAM_I64), .dims = 1, .size = {6}, .dtype = GRAM_F32}, .clip = 3,
     .why = "rows that come again"},
    {{EMBEDDING(4, 5, 70, GRAM_I32), .dims = 2, .size = {2, 3}, .padding_row = 3, .dtype = GRAM_F64,
      .layout = {EVERY_SECOND, COLUMN_MAJOR}, .out_layout = REVERSED}, .accumulate = true,
     .clip = 2, .why = "a padding row, strides"},
    {{EMBEDDING(4, 5, 3, GRAM_I32), .dtype = GRAM_BF16}, .coefficients = true,
     .why = "one row a sample"},
    {{EMBEDDING(9, 5, 3, GRAM_I32), .dims = 1, .size = {1000}, .dtype = GRAM_F32}, .clip = 100,
     .wanted = NORMS | SUM_WEIGHT, .why = "sums of more positions than are linked at a time"},
    {{EMBEDDING(3, 4, 3, GRAM_I64), .dims = 1, .size = {3}, .nan = true, .dtype = GRAM_F32},
     .clip = 1, .why = "NaN in one sample"},
    {{EMBEDDING(3, 4, 3, GRAM_I64), .dims = 1, .size = {0}, .dtype = GRAM_F32},
     .why = "no positions"},
    {{NORM(3, 11), .dims = 1, .size = {4}, .bias = true, .dtype = GRAM_F32}, .clip = 2,
     .why = "a sequence"},
    {{NORM(20, 5), .bias = true, .dtype = GRAM_F64}, .clip = 0.5, .accumulate = true,
     .why = "more samples than lanes"},
    {{NORM(3, 9), .dims = 1, .size = {300}, .bias = true, .dtype = GRAM_F32}, .clip = 20,
     .why = "sums in parts"},
    {{NORM(3, 5), .dims = 1, .size = {3}, .normalized = 2, .dtype = GRAM_F64,
      .layout = {COLUMN_MAJOR, EVERY_SECOND}, .out_layout = COLUMN_MAJOR}, .coefficients = true,
     .why = "two dimensions of features"},
    {{NORM(3, 5), .dims = 2, .size = {2, 2}, .nan = true, .bias = true, .dtype = GRAM_F16},
     .clip = 1, .why = "halves, NaN in one sample"},
    {{GROUPS(3, 6, 2), .dims = 2, .size = {3, 4}, .bias = true, .dtype = GRAM_F32}, .clip = 1,
     .why = "two groups"},
    {{GROUPS(3, 4, 4), .dims = 1, .size = {7}, .bias = true, .dtype = GRAM_F64,
      .layout = {REVERSED, PADDED}}, .scale = -3, .why = "instances"},
    {{GROUPS(3, 4, 1), .dims = 3, .size = {2, 1, 3}, .dtype = GRAM_BF16}, .why = "one group"},
    {{GROUPS(2, 4, 2), .dims = 1, .size = {0}, .bias = true, .dtype = GRAM_F32},
     .why = "no positions"},
};
/* clang-format on */

static void label(int row, char *text, size_t size)
{
    layer_label(&rows[row].layer, rows[row].why, text, size);
}

static void check(struct harness *h, int row)
{
    sample_row_check(h, &rows[row]);
}

const struct case_op case_sample_grad = {
    .name = "sample_grad",
    .sizes = "N S I O",
    .params = "dtype=f32 bias=1",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = sample_prepare,
};
