/*
 * agop_pair.cuh - the tiles on and below the diagonal, row by row: (0, 0), (1, 0), (1, 1), (2, 0)
 *
 * SPDX-License-Identifier: MIT
 */

static __device__ void find_pair(long long at, long long *row, long long *col)
{
    long long r = (long long)((sqrt(8 * (double)at + 1) - 1) / 2);

    while (r * (r + 1) / 2 > at)
        r--;
    while ((r + 1) * (r + 2) / 2 <= at)
        r++;
    *row = r;
    *col = at - r * (r + 1) / 2;
}
