/*
 * distances.c - for each point, its nearest neighbour
 *
 *   cc distances.c $(pkg-config --cflags --libs gram) -o distances
 *
 * SPDX-License-Identifier: MIT
 */
#include <gram/gram.h>
#include <stdio.h>

int main(void)
{
    float points[] = {0, 0, 3, 4, 3, 5, -1, 0}, distance[4 * 4];
    gram_tensor x = gram_matrix(points, 4, 2, GRAM_F32);
    gram_tensor out = gram_matrix(distance, 4, 4, GRAM_F32);
    gram_context *g;

    if (gram_context_create(NULL, &g) != GRAM_OK ||
        gram_cdist(g, &x, NULL, gram_number(2), NULL, &out) != GRAM_OK) {
        fprintf(stderr, "%s\n", gram_message(g));
        gram_context_destroy(g);
        return 1;
    }
    for (int i = 0; i < 4; i++) {
        int nearest = i == 0;
        for (int j = 0; j < 4; j++)
            if (j != i && distance[i * 4 + j] < distance[i * 4 + nearest])
                nearest = j;
        printf("%d: %d at %g\n", i, nearest, (double)distance[i * 4 + nearest]);
    }
    gram_context_destroy(g);
    return 0;
}
