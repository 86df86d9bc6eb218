# isa.cmake - the flags of each src/cpu/isa_<isa>.c, which is compiled for its own instruction set
#
# Everything else is compiled for the oldest processor of the architecture; src/cpu/cpu.c chooses
# at run time.  Assembles GRAM_ISAS, the list for the summary.
#
# The fuzzers read hostile files, not the arithmetic, and clang with the undefined-behaviour
# sanitizer takes minutes for one of these files: there they have the address sanitizer alone.
# GCC with both takes half as long for them with -O1, and checks the same.

set(GRAM_ISAS base)
set(GRAM_ISA_CHECKED "$<$<BOOL:${GRAM_FUZZ}>:-fno-sanitize=undefined>")
if("${GRAM_SANITIZE}" MATCHES address)
    set(GRAM_ISA_CHECKED -O1)
endif()
set_source_files_properties(src/cpu/isa_base.c PROPERTIES COMPILE_OPTIONS "${GRAM_ISA_CHECKED}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(GRAM_FLAGS_avx2 -mavx2 -mfma -mf16c)
    set(GRAM_FLAGS_avx512 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mf16c
        -mprefer-vector-width=512)
    foreach(isa avx2 avx512)
        set_source_files_properties(src/cpu/isa_${isa}.c PROPERTIES
            COMPILE_OPTIONS "${GRAM_FLAGS_${isa}};${GRAM_ISA_CHECKED}")
        list(APPEND GRAM_ISAS ${isa})
    endforeach()
else()
    list(FILTER GRAM_SOURCES EXCLUDE REGEX "/isa_avx[0-9a-z_]*\\.c$")
endif()
