# mpi_tests.cmake - tests/multi/test_mpi_*.c on the ranks of MPI; without it they are skipped
#
# More ranks than processors, and root, are what containers have: Open MPI wants to be told of both.
# A rank that waits gives its processor away, so that ranks may be more than processors.

if(NOT TARGET gram_mpi)
    return()
endif()
set(GRAM_MPI_ENVIRONMENT "${GRAM_TEST_ENVIRONMENT};OMPI_ALLOW_RUN_AS_ROOT=1"
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMPI_MCA_mpi_yield_when_idle=1
    OMPI_MCA_plm_rsh_agent=true OMPI_MCA_btl_vader_single_copy_mechanism=none GRAM_NUM_THREADS=2)
if(GRAM_SANITIZE) # Open MPI frees little; the tests count libgram's own blocks
    list(APPEND GRAM_MPI_ENVIRONMENT LSAN_OPTIONS=detect_leaks=0)
endif()
foreach(source ${GRAM_TEST_SOURCES})
    get_filename_component(name ${source} NAME_WE)
    if(NOT name MATCHES "^test_mpi_")
        continue()
    endif()
    target_link_libraries(${name} PRIVATE MPI::MPI_C)
    target_compile_definitions(${name} PRIVATE GRAM_TEST_MPI="${MPIEXEC_EXECUTABLE}")
    set_tests_properties(${name} PROPERTIES TIMEOUT 1200 ENVIRONMENT "${GRAM_MPI_ENVIRONMENT}")
    add_dependencies(${name} gram_mpi)
endforeach()
foreach(name test_mpi_kron test_mpi_machine test_mpi_trouble)
    foreach(ranks 2 3)
        gram_test(${name}_${ranks} c 1200
            ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${name}>)
        set_tests_properties(${name}_${ranks} PROPERTIES
            PROCESSORS ${ranks} ENVIRONMENT "${GRAM_MPI_ENVIRONMENT}")
    endforeach()
endforeach()
foreach(name test_mpi_matmul test_mpi_krr test_mpi_nearest test_mpi_eigh_kernel)
    foreach(ranks 2 3 5)
        gram_test(${name}_${ranks} c 1200
            ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${name}>)
        set_tests_properties(${name}_${ranks} PROPERTIES
            PROCESSORS 2 ENVIRONMENT "${GRAM_MPI_ENVIRONMENT}")
    endforeach()
endforeach()
gram_test_emulated(test_mpi_kron_2 1200
    ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 $<TARGET_FILE:test_mpi_kron>)
if(GRAM_EMULATION)
    set_tests_properties(test_mpi_kron_2_emulated PROPERTIES
        PROCESSORS 2 ENVIRONMENT "${GRAM_MPI_ENVIRONMENT};${GRAM_EMULATION_ENVIRONMENT}")
endif()
foreach(name bench_kron_mpi bench_kernel_mpi)
    gram_test_program(${name} bench/${name}.c)
    target_link_libraries(${name} PRIVATE MPI::MPI_C)
endforeach()
# Four hosts that are network namespaces, where root may make them.
gram_test(test_mpi_namespaces c 300 ${CMAKE_SOURCE_DIR}/tests/multi/namespaces.sh
    $<TARGET_FILE:bench_kernel_mpi> 6000 8 2 1)
set_tests_properties(test_mpi_namespaces PROPERTIES
    PROCESSORS 2 ENVIRONMENT "${GRAM_MPI_ENVIRONMENT}")
