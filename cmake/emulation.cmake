# emulation.cmake - the fake driver and NVRTC that run device code on the CPU (tools/cudaemu)
#
# Their folder is GRAM_CUDA_LIB_DIR of the tests whose names end in _emulated.  Kernels are compiled
# by the C++ compiler that is found here, when a test wants them, with the sanitizers of this
# build; the results are kept in the build folder, and by content in the cache of all builds
# (tools/cudaemu/compile_cache.h).

set(GRAM_EMULATION no)
if(TARGET gram_cuda)
    if(CMAKE_C_COMPILER_ID MATCHES Clang)
        find_program(GRAM_EMULATION_CXX NAMES clang++ c++ g++)
    else()
        find_program(GRAM_EMULATION_CXX NAMES c++ g++ clang++)
    endif()
endif()
if(NOT GRAM_EMULATION_CXX OR NOT CMAKE_SYSTEM_NAME STREQUAL Linux OR CMAKE_CROSSCOMPILING
        OR GRAM_FUZZ OR "${GRAM_SANITIZE}" MATCHES thread)
    message(STATUS "tests: no emulation of CUDA (it needs CUDA's headers and a C++ compiler)")
    return()
endif()
set(GRAM_EMULATION yes)
message(STATUS "tests: emulation of CUDA with ${GRAM_EMULATION_CXX}")
set(GRAM_EMULATION_FOLDER ${CMAKE_BINARY_DIR}/fake_cuda)

set(flags "-w -O1 -shared -fPIC -fno-strict-aliasing -fno-math-errno -fno-exceptions -fno-rtti")
string(APPEND flags " -ffp-contract=fast -fvisibility=hidden -Wl,-Bsymbolic")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    execute_process(COMMAND grep -qwm1 fma /proc/cpuinfo RESULT_VARIABLE no_fma)
    if(NOT no_fma)
        string(APPEND flags " -mfma") # device code is compiled to fused multiply-adds too
    endif()
endif()
if(GRAM_SANITIZE)
    string(APPEND flags " -g -fsanitize=${GRAM_SANITIZE} -fno-sanitize-recover=all")
endif()

# AddressSanitizer would map a stack of its own, of megabytes, for every thread of a block that
# begins, to see whether it reads what a function has left behind: ninety times slower.
set(GRAM_EMULATION_SANITIZED OFF)
set(no_fake_stacks)
if("${GRAM_SANITIZE}" MATCHES address)
    set(GRAM_EMULATION_SANITIZED ON)
    set(no_fake_stacks --param=asan-use-after-return=0)
    if(CMAKE_C_COMPILER_ID MATCHES Clang)
        set(no_fake_stacks -fsanitize-address-use-after-return=never)
    endif()
    string(APPEND flags " ${no_fake_stacks}")
endif()

# clang compares the type of a called function with that of the call: kernels are found by name and
# started through one type.
if("${GRAM_SANITIZE}" MATCHES undefined AND CMAKE_C_COMPILER_ID MATCHES Clang)
    string(APPEND flags " -fno-sanitize=function")
endif()

foreach(library cuda nvrtc cusolver cusolverMg cublas nccl)
    if(library STREQUAL nvrtc)
        set(sources nvrtc nvrtc_key rewrite)
        set(version 13)
    elseif(library STREQUAL cusolver)
        set(sources cusolver syev)
        set(version 12)
    elseif(library STREQUAL cusolverMg)
        set(sources cusolvermg)
        set(version 12)
    elseif(library STREQUAL cublas)
        set(sources cublas)
        set(version 13)
    elseif(library STREQUAL nccl)
        set(sources nccl)
        set(version 2)
    else()
        set(sources block context copy fault fiber graph memory module stream transfer)
        set(version 1)
    endif()
    list(TRANSFORM sources REPLACE "(.+)" "tools/cudaemu/fake_\\1.c")
    add_library(fake_${library} SHARED ${sources})
    target_include_directories(fake_${library} SYSTEM PRIVATE
        ${GRAM_CUDA_INCLUDE} ${GRAM_NVRTC_INCLUDE})
    target_link_libraries(fake_${library} PRIVATE gram_flags Threads::Threads ${CMAKE_DL_LIBS})
    target_compile_options(fake_${library} PRIVATE ${no_fake_stacks})
    target_compile_definitions(fake_${library} PRIVATE
        FAKE_CUDA_CXX="${GRAM_EMULATION_CXX}" FAKE_CUDA_FLAGS="${flags}"
        FAKE_CUDA_FOLDER="${CMAKE_SOURCE_DIR}/tools/cudaemu"
        $<$<BOOL:${GRAM_EMULATION_SANITIZED}>:FAKE_SANITIZED>)
    set_target_properties(fake_${library} PROPERTIES
        OUTPUT_NAME ${library} SOVERSION ${version} C_VISIBILITY_PRESET default
        LIBRARY_OUTPUT_DIRECTORY ${GRAM_EMULATION_FOLDER})
endforeach()

foreach(library fake_cusolver fake_cusolverMg fake_cublas)
    target_sources(${library} PRIVATE src/core/blas.c tools/cudaemu/fake_blas.c)
    target_include_directories(${library} PRIVATE include src)
    target_link_libraries(${library} PRIVATE fake_cuda gram_blas)
endforeach()

target_link_libraries(fake_nccl PRIVATE fake_cuda)
foreach(library fake_cuda fake_cublas fake_cusolver)
    target_link_libraries(${library} PRIVATE gram_cases) # for its trace.c
endforeach()
target_sources(fake_nvrtc PRIVATE tools/cudaemu/compile_cache.c)

set(GRAM_EMULATION_ENVIRONMENT "GRAM_TEST_DEVICE=cuda;GRAM_TEST_EMULATED=1"
    "GRAM_CUDA_LIB_DIR=${GRAM_EMULATION_FOLDER}"
    "GRAM_CACHE_DIR=${GRAM_EMULATION_FOLDER}/cache")
file(MAKE_DIRECTORY ${GRAM_EMULATION_FOLDER})
