# symbols.cmake - writes the linker's map: what libgram exports, under one version of the ABI
#
#   cmake -DOUTPUT=gram.map -DVERSION=0.1 "-DHEADERS=a.h;b.h" -P symbols.cmake
#
# The public functions are those that the headers declare with GRAM_API or GRAM_PUBLIC.  All else is
# local to the library, whatever its visibility.  docs/reference/abi.md says what the version
# promises.

set(names)
foreach(header ${HEADERS})
    file(READ ${header} text)
    string(REGEX MATCHALL "\nGRAM_(API|PUBLIC)[^;(]*gram_[a-z0-9_]+\\(" found "${text}")
    foreach(declaration ${found})
        string(REGEX REPLACE ".*[^a-z0-9_](gram_[a-z0-9_]+)\\($" "\\1" name "${declaration}")
        list(APPEND names ${name})
    endforeach()
endforeach()
list(SORT names)
list(REMOVE_DUPLICATES names)
if(NOT names)
    message(FATAL_ERROR "no header declares a public function: ${HEADERS}")
endif()
string(REPLACE ";" ";\n        " names "${names}")
file(WRITE ${OUTPUT}
    "GRAM_${VERSION} {\n    global:\n        ${names};\n    local:\n        *;\n};\n")
