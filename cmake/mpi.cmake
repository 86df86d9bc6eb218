# mpi.cmake - the transport over MPI, libgram_mpi.so: built where CMake finds MPI
#
# Nothing else is linked with MPI: src/multi/communicator.c opens the library when it is asked for.

option(GRAM_MPI "Build the transport over MPI where MPI is found" ON)
set(GRAM_MPI_FOUND no)
if(SKBUILD AND NOT GRAM_PYTHON_MPI) # a wheel has no use for it
    return()
endif()
# A compiler of MPI without its headers, as in Debian's openmpi-bin alone, ends FindMPI in an error.
find_program(GRAM_MPICC mpicc)
mark_as_advanced(GRAM_MPICC)
set(GRAM_MPI_HEADERS 0)
if(GRAM_MPICC)
    execute_process(COMMAND "${GRAM_MPICC}" -include mpi.h -E -xc /dev/null
        RESULT_VARIABLE GRAM_MPI_HEADERS OUTPUT_QUIET ERROR_QUIET)
endif()
if(GRAM_MPI AND GRAM_MPI_HEADERS EQUAL 0
        AND NOT "${GRAM_SANITIZE}" MATCHES thread) # which does not see into MPI
    find_package(MPI QUIET COMPONENTS C)
endif()
if(NOT MPI_C_FOUND OR NOT GRAM_MPI)
    return()
endif()
list(GET MPI_C_LIBRARIES 0 GRAM_MPI_FOUND)

add_library(gram_mpi MODULE src/multi/mpi.c)
target_include_directories(gram_mpi PRIVATE include src)
target_compile_definitions(gram_mpi PRIVATE GRAM_VERSION="${PROJECT_VERSION}")
target_link_libraries(gram_mpi PRIVATE gram_flags gram_shared MPI::MPI_C)
if(NOT APPLE AND NOT GRAM_SANITIZE AND NOT GRAM_FUZZ)
    target_link_options(gram_mpi PRIVATE -Wl,--no-undefined)
endif()
install(TARGETS gram_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
