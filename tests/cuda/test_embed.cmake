# test_embed.cmake - cmake/embed.cmake: whose hash a change of one file changes, and plain kernels
#
#   cmake -DSOURCE=<the repository> -DFOLDER=<to work in> -P test_embed.cmake

cmake_minimum_required(VERSION 3.18)

# Embeds the files of the folder, and sets hash_<name> of each, with _ for other characters than
# those of C, hash_all and the table of plain kernels.
macro(embed)
    file(GLOB files ${FOLDER}/*.cu ${FOLDER}/*.cuh)
    execute_process(COMMAND ${CMAKE_COMMAND} -DOUTPUT=${FOLDER}/out.c "-DFILES=${files}"
            -P ${SOURCE}/cmake/embed.cmake
        RESULT_VARIABLE result ERROR_VARIABLE said)
    if(result EQUAL 0)
        foreach(name a_cu b_cu own_cu c_cuh d_cuh)
            file(STRINGS ${FOLDER}/out.c line REGEX ", ${name}, 0x")
            string(REGEX REPLACE ".*, 0x([0-9a-f]+)u.*" "\\1" hash_${name} "${line}")
        endforeach()
        file(STRINGS ${FOLDER}/out.c hash_all REGEX "gram_cuda_sources_hash")
        file(STRINGS ${FOLDER}/out.c plain REGEX "^    {\"[^\"]*\", \"")
    endif()
endmacro()

# Changes the text of a file, and fails unless the hashes of exactly these files change with it.
function(check_change file)
    embed()
    foreach(name a_cu b_cu own_cu c_cuh d_cuh)
        set(before_${name} ${hash_${name}})
    endforeach()
    set(before_all ${hash_all})
    file(APPEND ${FOLDER}/${file} "// a comment\n")
    embed()
    foreach(name a_cu b_cu own_cu c_cuh d_cuh)
        if(name IN_LIST ARGN AND hash_${name} STREQUAL before_${name})
            message(SEND_ERROR "${file} changes, but not the hash of ${name}")
        elseif(NOT name IN_LIST ARGN AND NOT hash_${name} STREQUAL before_${name})
            message(SEND_ERROR "${file} changes, and so does the hash of ${name}")
        endif()
    endforeach()
    if(hash_all STREQUAL before_all)
        message(SEND_ERROR "${file} changes, but not the hash of all files")
    endif()
endfunction()

file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
file(WRITE ${FOLDER}/d.cuh "/* d */\n")
file(WRITE ${FOLDER}/c.cuh "#if X\n#  include \"d.cuh\"\n#endif\n")
file(WRITE ${FOLDER}/a.cu
    "/* Parameters (-D): REAL. */\n#include \"cuda/c.cuh\"\n#include \"elsewhere.h\"\n"
    "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
    "    first(const __grid_constant__ params a)\n{\n    f(a);\n}\n"
    "extern \"C\" __global__ void __launch_bounds__(THREADS, 2) second(const params a)\n{\n}\n")
file(WRITE ${FOLDER}/b.cu "/* Parameters (-D): REAL.  It is not used. */\n#include \"d.cuh\"\n"
    "extern \"C\" __global__ void third(const params a) {}\n")
file(WRITE ${FOLDER}/own.cu "/* Parameters (-D): REAL and ORDER. */\n"
    "extern \"C\" __global__ void fourth(const params a) {}\n")

embed()
set(expected "    {\"a.cu\", \"first\"}," "    {\"a.cu\", \"second\"},"
    "    {\"b.cu\", \"third\"},")
if(NOT plain STREQUAL expected)
    message(SEND_ERROR "the plain kernels are ${plain}")
endif()
check_change(own.cu own_cu)
check_change(a.cu a_cu)
check_change(c.cuh c_cuh a_cu)
check_change(d.cuh d_cuh c_cuh a_cu b_cu)

file(WRITE ${FOLDER}/b.cu "/* This header does not name the options. */\n")
embed()
if(result EQUAL 0 OR NOT said MATCHES "b.cu: the header comment does not say")
    message(SEND_ERROR "a .cu file without a word of its options is embedded: ${said}")
endif()
