# tests.cmake - registers every test with CTest, found by name
#
#   case_<op>      run_cases <op>: the table of one operation on every instruction set
#   *_emulated     the same on the emulation of CUDA, tools/cudaemu
#   test_*         C programs, labelled "c"; exit status 0 means passed
#   fuzz_*         the corpus in tests/corpus/<name> replayed, or with GRAM_FUZZ fuzzing for a while
#   test_*.py      one pytest run a file, labelled "python"; tests/python is about the package
#   example_*      examples/*.c
#   check_*        the quick parts of scripts/check, labelled "check": style, includes, symbols, ...
# The time limits end what hangs: a loaded machine ten times slower than a laptop stays below them.
# A program learns from its environment where things are: GRAM_BUILD_DIR, GRAM_SOURCE_DIR.

set(GRAM_FUZZ_SECONDS 20 CACHE STRING "How long each fuzz target runs")
set(GRAM_TEST_ENVIRONMENT "GRAM_BUILD_DIR=${CMAKE_BINARY_DIR};GRAM_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
list(APPEND GRAM_TEST_ENVIRONMENT "GRAM_PLUGIN_DIR=${CMAKE_BINARY_DIR}")
# What the user has tuned is no matter of the tests.
list(APPEND GRAM_TEST_ENVIRONMENT "GRAM_CACHE_DIR=${CMAKE_BINARY_DIR}/test_cache")
# Where this is set, as in many containers, every one of the Python tests compiles pytest anew.
list(APPEND GRAM_TEST_ENVIRONMENT "PYTHONDONTWRITEBYTECODE=")

function(gram_test name label timeout)
    add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES
        LABELS ${label} TIMEOUT ${timeout} SKIP_RETURN_CODE 77
        ENVIRONMENT "${GRAM_TEST_ENVIRONMENT}")
endfunction()

# What several tests share; check/ has what `gram check` needs too.
file(GLOB GRAM_SUPPORT_SOURCES CONFIGURE_DEPENDS tests/*/*.c)
list(FILTER GRAM_SUPPORT_SOURCES EXCLUDE REGEX
    "/(test|fuzz|wrapped|simulate)[a-z0-9_]*\\.c$|/preload/")
add_library(gram_test_support STATIC ${GRAM_SUPPORT_SOURCES} tools/cudaemu/compile_cache.c)
target_include_directories(gram_test_support PRIVATE include src ${CMAKE_SOURCE_DIR})
target_link_libraries(gram_test_support PRIVATE gram_flags)

function(gram_test_program name)
    add_executable(${name} ${ARGN})
    target_include_directories(${name} PRIVATE
        include src ${CMAKE_SOURCE_DIR} src/cuda)
    target_compile_definitions(${name} PRIVATE GRAM_VERSION="${PROJECT_VERSION}")
    target_link_libraries(${name} PRIVATE gram_flags)
    foreach(library gram_cli gram_test_support gram_cases)
        if(TARGET ${library})
            target_link_libraries(${name} PRIVATE ${library})
        endif()
    endforeach()
    target_link_libraries(${name} PRIVATE
        gram_reference gram_static gram_blas Threads::Threads m ${CMAKE_DL_LIBS})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

if(EXISTS ${CMAKE_SOURCE_DIR}/tests/run_cases.c)
    gram_test_program(run_cases tests/run_cases.c)
    foreach(operation ${GRAM_CASES})
        gram_test(case_${operation} c 5400 run_cases ${operation})
    endforeach()
endif()

if(GRAM_CUDA_FOUND)
    gram_test(test_embed c 120 ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR}
        -DFOLDER=${CMAKE_BINARY_DIR}/tests/embed -P ${CMAKE_SOURCE_DIR}/tests/cuda/test_embed.cmake)
endif()

include(cmake/emulation.cmake)

# Runs a test on the emulation of CUDA.
function(gram_test_emulated name timeout)
    if(GRAM_EMULATION)
        gram_test(${name}_emulated c ${timeout} ${ARGN})
        set_tests_properties(${name}_emulated PROPERTIES
            ENVIRONMENT "${GRAM_TEST_ENVIRONMENT};${GRAM_EMULATION_ENVIRONMENT}")
    endif()
endfunction()

# The tables of what the CUDA backend offers: on a device if there is one, and emulated.
foreach(operation ${GRAM_CASES})
    if(TARGET gram_cuda AND TARGET run_cases)
        gram_test(case_${operation}_cuda c 5400 run_cases ${operation})
        set_tests_properties(case_${operation}_cuda PROPERTIES
            ENVIRONMENT "${GRAM_TEST_ENVIRONMENT};GRAM_TEST_DEVICE=cuda")
        gram_test_emulated(case_${operation} 5400 run_cases ${operation})
    endif()
endforeach()

file(GLOB GRAM_TEST_SOURCES CONFIGURE_DEPENDS tests/*/test_*.c)
if(NOT TARGET gram_cuda)
    list(FILTER GRAM_TEST_SOURCES EXCLUDE REGEX "/test_cuda_[a-z]*\\.c$") # they need its headers
elseif(GRAM_SANITIZE OR GRAM_FUZZ)
    # It is NVRTC that works in there.
    list(FILTER GRAM_TEST_SOURCES EXCLUDE REGEX "/test_cuda_(compile|jit|tune)\\.c$")
endif()
foreach(source ${GRAM_TEST_SOURCES})
    get_filename_component(name ${source} NAME_WE)
    set(words)
    if(name STREQUAL "test_cuda_compile")
        set(words sm_90a) # of all chips: scripts/check chips
    endif()
    gram_test_program(${name} ${source})
    gram_test(${name} c 5400 ${name} ${words})
endforeach()
include(cmake/mpi_tests.cmake)

if(TARGET test_cuda)
    gram_test_emulated(test_cuda 5400 test_cuda)
    gram_test_emulated(test_cuda_graph 5400 test_cuda_graph)
    gram_test_emulated(test_cuda_launches 5400 test_cuda_launches)
    gram_test_emulated(test_cuda_kron 5400 test_cuda_kron)
    gram_test_emulated(test_cuda_kron_plans 5400 test_cuda_kron_plans)
    gram_test_emulated(test_cuda_kernel_tensor 5400 test_cuda_kernel_tensor)
    gram_test_emulated(test_cuda_kernel_matmul_vjp 5400 test_cuda_kernel_matmul_vjp)
    gram_test_emulated(test_cuda_square 5400 test_cuda_square)
    gram_test_emulated(test_cuda_nearest 5400 test_cuda_nearest)
    gram_test_emulated(test_cuda_warm 5400 test_cuda_warm)
    gram_test_emulated(test_cuda_optimizer 5400 test_cuda_optimizer)
    gram_test_emulated(test_cuda_shampoo 5400 test_cuda_shampoo)
    gram_test_emulated(test_cuda_soap 5400 test_cuda_soap)
    gram_test_emulated(test_cuda_chunked 5400 test_cuda_chunked)
    gram_test_emulated(test_many_pairs 5400 test_many_pairs)
    gram_test_emulated(test_cuda_power 5400 test_cuda_power)
    gram_test_emulated(test_cuda_root 5400 test_cuda_root)
    gram_test_emulated(test_device 5400 test_device)
    gram_test_emulated(test_eigh_zoo 5400 test_eigh_zoo)
    gram_test_emulated(test_eigh_krylov 5400 test_eigh_krylov)
    gram_test_emulated(test_eigh_operator 5400 test_eigh_operator)
    gram_test_emulated(test_solve_operator 5400 test_solve_operator)
    gram_test_emulated(test_logdet 5400 test_logdet)
    gram_test_emulated(test_krr_solve 5400 test_krr_solve)
    gram_test_emulated(test_krr_centres 5400 test_krr_centres)
    gram_test_emulated(test_krr_variance 5400 test_krr_variance)
    gram_test_emulated(test_krr_samples 5400 test_krr_samples)
    gram_test_emulated(test_krr_checkpoint 5400 test_krr_checkpoint)
    gram_test_emulated(test_krr_rows 5400 test_krr_rows)
    gram_test_emulated(test_krr_rows_cg 5400 test_krr_rows_cg)
    gram_test_emulated(test_krr_blocks 5400 test_krr_blocks)
    gram_test_emulated(test_krr_rank 5400 test_krr_rank)
    gram_test_emulated(test_solve_extra 5400 test_solve_extra)
    gram_test_emulated(test_solve_refine 5400 test_solve_refine)
    gram_test_emulated(test_cuda_ptx 5400 test_cuda_ptx)
    gram_test_emulated(test_cuda_emulation 5400 test_cuda_emulation)
    gram_test_emulated(test_empty 5400 test_empty)
    gram_test_emulated(test_cuda_fork 5400 test_cuda_fork)
endif()
# On several devices.  The emulated cuSOLVER calls LAPACK side by side: with one number of threads
# for all, since the order of its sums depends on it.
foreach(name test_many test_eigh_multi test_machine_deal test_nccl_kron test_nccl_matmul)
    if(TARGET ${name})
        gram_test_emulated(${name} 5400 ${CMAKE_COMMAND} -E env GRAM_FAKE_CUDA_DEVICES=3
            OPENBLAS_NUM_THREADS=1 $<TARGET_FILE:${name}>)
    endif()
endforeach()
foreach(name test_module test_expression_device test_optimizer test_natural_gradient
        test_kfac_device test_kfac_graph)
    if(TARGET ${name})
        gram_test_emulated(${name} 5400 ${name})
    endif()
endforeach()
if(TARGET gram_cuda)
    foreach(source ${GRAM_TEST_SOURCES}) # those that call the backend's own functions
        get_filename_component(name ${source} NAME_WE)
        if(NOT name MATCHES "^test_cuda_")
            continue()
        endif()
        target_sources(${name} PRIVATE $<TARGET_OBJECTS:gram_cuda_objects>)
        target_include_directories(${name} SYSTEM PRIVATE
            ${GRAM_CUDA_INCLUDE} ${GRAM_NVRTC_INCLUDE})
    endforeach()
    if(TARGET test_cuda_trouble) # libsqlite3 is to find the test's own fcntl and pwrite
        set_target_properties(test_cuda_trouble PROPERTIES ENABLE_EXPORTS ON)
    endif()
    gram_test_program(bench_cuda bench/bench_cuda.c)
    gram_test_program(bench_kernel_matmul bench/bench_kernel_matmul.c)
endif()
gram_test_program(bench_call bench/bench_call.c)
gram_test_program(bench_optimizer bench/bench_optimizer.c)
gram_test_program(bench_eigh_multi bench/bench_eigh_multi.c)
gram_test_program(bench_kron_nccl bench/bench_kron_nccl.c)
gram_test_program(bench_kernel_multi bench/bench_kernel_multi.c)
gram_test_program(simulate_ranks tests/multi/simulate_ranks.c)

# test_calls catches the calls that the cases make (tests/core/wrapped.h); Apple's linker cannot.
if(TARGET test_calls AND NOT APPLE)
    file(GLOB wrapped CONFIGURE_DEPENDS tests/core/wrapped*.c)
    target_sources(test_calls PRIVATE ${wrapped})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${wrapped})
    foreach(source ${wrapped})
        file(STRINGS ${source} lines REGEX "^gram_status __wrap_gram_")
        foreach(line ${lines})
            string(REGEX REPLACE "^gram_status __wrap_(gram_[a-z_]+).*" "\\1" function "${line}")
            target_link_options(test_calls PRIVATE -Wl,--wrap=${function})
        endforeach()
    endforeach()
endif()
# test_kron_check makes one output of a product wrong.
if(TARGET test_kron_check AND NOT APPLE)
    target_link_options(test_kron_check PRIVATE
        -Wl,--wrap=gram_kron_matmul -Wl,--wrap=gram_kron_matmul_vjp)
endif()

# What test_cli_allocations.py and test_allocations.py put before glibc's malloc.
if(CMAKE_SYSTEM_NAME STREQUAL Linux AND NOT GRAM_SANITIZE AND NOT GRAM_FUZZ)
    add_library(failing_malloc MODULE tests/preload/failing_malloc.c)
    target_link_libraries(failing_malloc PRIVATE gram_flags Threads::Threads ${CMAKE_DL_LIBS})
    set_target_properties(failing_malloc PROPERTIES
        PREFIX "" C_VISIBILITY_PRESET default LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endif()

file(GLOB GRAM_FUZZ_SOURCES CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
list(FILTER GRAM_FUZZ_SOURCES EXCLUDE REGEX "/fuzz_replay\\.c$")
foreach(source ${GRAM_FUZZ_SOURCES})
    get_filename_component(name ${source} NAME_WE)
    set(corpus ${CMAKE_SOURCE_DIR}/tests/corpus/${name})
    if(GRAM_FUZZ)
        gram_test_program(${name} ${source})
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
        file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/corpus/${name})
        math(EXPR timeout "${GRAM_FUZZ_SECONDS} * 4 + 1200")
        # New inputs go to the first folder; tests/corpus is only read.
        gram_test(${name} fuzz ${timeout} ${name} -max_total_time=${GRAM_FUZZ_SECONDS}
            -timeout=120 -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1
            -artifact_prefix=${CMAKE_BINARY_DIR}/corpus/
            ${CMAKE_BINARY_DIR}/corpus/${name} ${corpus})
    else()
        gram_test_program(${name} ${source} tests/fuzz/fuzz_replay.c)
        gram_test(${name} c 1200 ${name} ${corpus})
    endif()
endforeach()

# The examples see what a user sees: gram.h and the shared library.
file(GLOB GRAM_EXAMPLES CONFIGURE_DEPENDS examples/*.c)
foreach(source ${GRAM_EXAMPLES})
    get_filename_component(name ${source} NAME_WE)
    add_executable(example_${name} ${source})
    target_link_libraries(example_${name} PRIVATE gram_flags gram m)
    set_target_properties(example_${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
    gram_test(example_${name} c 1200 example_${name} ${CMAKE_BINARY_DIR}/examples/${name}.gram)
endforeach()

if(GRAM_TEST_PYTHON)
    file(GLOB GRAM_PYTHON_TESTS CONFIGURE_DEPENDS tests/*/test_*.py)
    list(FILTER GRAM_PYTHON_TESTS EXCLUDE REGEX "/tests/python/[^/]*$")
    # The files of a test go when it has passed: /tmp may be small.
    set(pytest ${GRAM_TEST_PYTHON} -m pytest -q -p no:cacheprovider
        -o tmp_path_retention_policy=failed --rootdir=${CMAKE_SOURCE_DIR}/tests)
    foreach(source ${GRAM_PYTHON_TESTS})
        get_filename_component(name ${source} NAME_WE)
        gram_test(python_${name} python 10800 ${pytest} ${source})
    endforeach()
    gram_test_emulated(python_test_cli_device 10800 ${pytest}
        ${CMAKE_SOURCE_DIR}/tests/cli/test_cli_device.py)
endif()

# The Python package as it is in the build folder, and PyTorch where scripts/bootstrap has put it.
if(GRAM_TEST_PYTHON AND TARGET gram_python)
    file(GLOB GRAM_PACKAGE_TESTS CONFIGURE_DEPENDS tests/python/test_*.py)
    set(path ${CMAKE_BINARY_DIR}/python:${CMAKE_BINARY_DIR}/torch-packages)
    foreach(source ${GRAM_PACKAGE_TESTS})
        get_filename_component(name ${source} NAME_WE)
        gram_test(python_${name} python 10800 ${pytest} ${source})
        set_tests_properties(python_${name} PROPERTIES
            ENVIRONMENT "${GRAM_TEST_ENVIRONMENT};PYTHONPATH=${path}")
    endforeach()
    foreach(name test_communicator_made test_jax_cuda test_kfac_emulated test_krr_emulated
            test_machine_emulated test_scratch_of_torch)
        gram_test_emulated(python_${name} 10800 ${CMAKE_COMMAND} -E env PYTHONPATH=${path}
            ${pytest} ${CMAKE_SOURCE_DIR}/tests/python/${name}.py)
    endforeach()
endif()

if(NOT GRAM_SANITIZE AND NOT GRAM_FUZZ)
    # The quick parts of scripts/check, in the order in which it lists them; `make check` runs all.
    execute_process(COMMAND ${CMAKE_SOURCE_DIR}/scripts/check --list quick
        OUTPUT_VARIABLE parts OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REPLACE "\n" ";" parts "${parts}")
    foreach(part ${parts})
        gram_test(check_${part} check 21600 ${CMAKE_COMMAND} -E env BUILD=${CMAKE_BINARY_DIR}
            ${CMAKE_SOURCE_DIR}/scripts/check ${part})
    endforeach()
endif()

# The long ones begin first, so that no processor waits for one at the end: processor seconds of a
# run that has nothing kept.  Once CTest has run, it goes by what it has measured.
foreach(cost test_cuda_compile=210 test_calls=100 python_test_jax=90 python_test_optim_ranks=60
        test_cuda_square_emulated=40 case_kernel_vjp_emulated=40 python_test_wheel=36
        case_kron_matmul_emulated=25 python_test_gpytorch=25 python_test_torch=25
        case_kron_matmul_vjp_emulated=25 test_cuda_graph_emulated=22 python_test_examples=22
        python_test_bootstrap=21 case_eigh_emulated=20 python_test_optim_shards=20
        python_test_distributed=15 case_agop_emulated=15
        case_cdist_grad_emulated=15 case_sample_grad_emulated=14 case_kron_matmul_vjp=13
        case_kernel_emulated=10 case_kfac_factors=10 python_test_docstrings=10
        case_solve_lu_emulated=10)
    string(REGEX MATCH "^(.*)=(.*)$" cost ${cost})
    if(TEST ${CMAKE_MATCH_1})
        set_tests_properties(${CMAKE_MATCH_1} PROPERTIES COST ${CMAKE_MATCH_2})
    endif()
endforeach()
