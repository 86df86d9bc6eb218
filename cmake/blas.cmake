# blas.cmake - finds BLAS and LAPACK and describes them as the target gram_blas
#
# GRAM_BLAS=system takes OpenBLAS where it is found and else whatever FindBLAS and FindLAPACK find;
# BLAS_LIBRARIES and LAPACK_LIBRARIES given on the command line are taken as they are.
# GRAM_BLAS=scipy-openblas32 takes the PyPI package of that name, whose symbols carry a prefix:
# src/core/blas.c puts GRAM_BLAS_PREFIX before every name.

add_library(gram_blas INTERFACE)

function(gram_find_scipy_openblas)
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    execute_process(
        COMMAND ${Python3_EXECUTABLE} -c
            "import scipy_openblas32 as b; print(b.get_lib_dir(), b.get_library(), sep=';', end='')"
        OUTPUT_VARIABLE found RESULT_VARIABLE failed ERROR_VARIABLE why)
    if(failed)
        message(FATAL_ERROR "GRAM_BLAS=scipy-openblas32, but ${Python3_EXECUTABLE} cannot import "
            "it; pip install scipy-openblas32, or set Python3_EXECUTABLE.\n${why}")
    endif()
    list(GET found 0 folder)
    list(GET found 1 name)
    find_library(GRAM_SCIPY_OPENBLAS NAMES ${name} PATHS ${folder} NO_DEFAULT_PATH REQUIRED)
    target_link_libraries(gram_blas INTERFACE ${GRAM_SCIPY_OPENBLAS})
    target_compile_definitions(gram_blas INTERFACE GRAM_BLAS_PREFIX=scipy_)
    set(GRAM_BLAS_FOUND ${GRAM_SCIPY_OPENBLAS} PARENT_SCOPE)
endfunction()

function(gram_find_system_blas)
    if(NOT (BLAS_LIBRARIES AND LAPACK_LIBRARIES))
        if(NOT BLA_VENDOR)
            set(BLA_VENDOR OpenBLAS)
            find_package(BLAS QUIET)
            find_package(LAPACK QUIET)
            if(NOT (BLAS_FOUND AND LAPACK_FOUND))
                unset(BLA_VENDOR)
            endif()
        endif()
        if(NOT (BLAS_FOUND AND LAPACK_FOUND))
            find_package(BLAS REQUIRED)
            find_package(LAPACK REQUIRED)
        endif()
    endif()
    set(libraries ${LAPACK_LIBRARIES} ${BLAS_LIBRARIES} ${BLAS_LINKER_FLAGS})
    list(REMOVE_DUPLICATES libraries)
    target_link_libraries(gram_blas INTERFACE ${libraries})
    target_compile_definitions(gram_blas INTERFACE GRAM_BLAS_PREFIX=)
    set(GRAM_BLAS_FOUND "${libraries}" PARENT_SCOPE)
endfunction()

if(GRAM_BLAS STREQUAL "system")
    gram_find_system_blas()
elseif(GRAM_BLAS STREQUAL "scipy-openblas32")
    gram_find_scipy_openblas()
else()
    message(FATAL_ERROR "GRAM_BLAS is '${GRAM_BLAS}', expected system or scipy-openblas32")
endif()
