# hardening.cmake - flags that make a defect harder to exploit, and builds that can be repeated
#
# GRAM_HARDEN=ON adds to everything that is compiled and linked here what the compiler knows of:
# canaries on the stack, checked versions of the C library's copies (_FORTIFY_SOURCE), probes of
# every page that a large frame skips, checked targets of indirect calls and jumps, tables of the
# linker that are read-only once a library is loaded.  Distributions that set flags of their own
# (dpkg-buildflags, rpm) lose nothing: theirs come first and say the same.
#
# -ffile-prefix-map leaves the build's folders out of the objects, so that two checkouts in two
# folders give the same bytes; `scripts/check reproducible` builds two and compares them.

option(GRAM_HARDEN "Compile and link with the hardening flags that the compiler knows" ON)
include(CheckCCompilerFlag)
include(CheckLinkerFlag)

foreach(folder ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
    check_c_compiler_flag("-ffile-prefix-map=${folder}=." GRAM_HAS_PREFIX_MAP)
    if(GRAM_HAS_PREFIX_MAP)
        target_compile_options(gram_flags INTERFACE "-ffile-prefix-map=${folder}=.")
    endif()
endforeach()

# Sanitizers bring stronger checks, and intercept what the fortified functions call.
if(NOT GRAM_HARDEN OR GRAM_SANITIZE OR GRAM_FUZZ)
    return()
endif()

include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

set(flags -fstack-protector-strong -fstack-clash-protection)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64|i.86)$")
    list(APPEND flags -fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    list(APPEND flags -mbranch-protection=standard)
endif()
foreach(flag ${flags})
    string(MAKE_C_IDENTIFIER "GRAM_HAS${flag}" has)
    check_c_compiler_flag(${flag} ${has})
    if(${has})
        target_compile_options(gram_flags INTERFACE ${flag})
    endif()
endforeach()
# It needs the optimizer to see the sizes of objects.
if(NOT CMAKE_C_FLAGS MATCHES "_FORTIFY_SOURCE")
    target_compile_options(gram_flags INTERFACE
        $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
        $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
endif()

foreach(flag relro now noexecstack)
    check_linker_flag(C "-Wl,-z,${flag}" GRAM_LINKS_WITH_${flag})
    if(GRAM_LINKS_WITH_${flag})
        target_link_options(gram_flags INTERFACE "-Wl,-z,${flag}")
    endif()
endforeach()
