/*
 * address_space.h - how the command starts when the address space is limited, as by ulimit -v
 *
 * OpenBLAS creates a thread for every processor before main() begins, each with a buffer of 128
 * MiB.  If it cannot get these buffers, it ends the program, or its threads ask for them for ever.
 * If the buffers would take more than half of the address space, the program is therefore started
 * again with one thread of OpenBLAS.  The library creates more threads when it needs them and there
 * is room.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_ADDRESS_SPACE_H
#define GRAM_CLI_ADDRESS_SPACE_H

/* Runs before the constructors of libraries: the C library is not ready, so only system calls can
 * be used. */
void address_space_before_libraries(int argc, char **argv, char **environment);

/* Is called at the beginning of main(): gives the environment the values that the user has set. */
void address_space_restore(void);
#endif
