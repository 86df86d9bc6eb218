# embed.cmake - writes a C file that holds the device code: texts, hashes, and the plain kernels
#
#   cmake -DOUTPUT= -DFILES= -P embed.cmake
#
# The hash of a file is that of its own text and of all files that it includes, directly or not: a
# change of one file changes the hashes of those that it belongs to, and no others.  Every `#include
# "name"` counts, whether or not the options of a kernel reach it.
#
# A plain kernel is an extern "C" __global__ function of a .cu file whose header comment says
# "Parameters (-D): REAL.", so that the file is compiled with -DREAL=float and -DREAL=double alone.

cmake_minimum_required(VERSION 3.18)

foreach(file ${FILES})
    get_filename_component(name ${file} NAME)
    list(APPEND names ${name})
    set(path_${name} ${file})
    file(SHA256 ${file} sha_${name})
    file(STRINGS ${file} lines REGEX "^[ \t]*#[ \t]*include[ \t]*\"")
    set(includes_${name} "")
    foreach(line ${lines})
        string(REGEX REPLACE ".*\"([^\"]*/)?([^\"/]+)\".*" "\\2" included "${line}")
        list(APPEND includes_${name} ${included})
    endforeach()
endforeach()

# The first 16 digits of the SHA-256 of a list of files with their own ones, in the order of names.
function(hash_files files result)
    list(SORT files)
    set(text "")
    foreach(name ${files})
        string(APPEND text "${name} ${sha_${name}}\n")
    endforeach()
    string(SHA256 hash "${text}")
    string(SUBSTRING ${hash} 0 16 hash)
    set(${result} ${hash} PARENT_SCOPE)
endfunction()

# A file and what it includes, as far as it is embedded.
function(find_closure name result)
    set(found ${name})
    set(waiting ${name})
    while(waiting)
        list(POP_FRONT waiting next)
        foreach(included ${includes_${next}})
            if(included IN_LIST names AND NOT included IN_LIST found)
                list(APPEND found ${included})
                list(APPEND waiting ${included})
            endif()
        endforeach()
    endwhile()
    set(${result} ${found} PARENT_SCOPE)
endfunction()

# Lines of a table: the plain kernels of a file.
function(find_plain_kernels name result)
    set(rows "")
    file(READ ${path_${name}} text)
    if(name MATCHES "\\.cu$" AND NOT text MATCHES "Parameters \\(-D\\)")
        message(FATAL_ERROR
            "${name}: the header comment does not say \"Parameters (-D): REAL.\" or else")
    endif()
    if(name MATCHES "\\.cu$" AND text MATCHES "Parameters \\(-D\\): REAL\\.")
        string(REGEX MATCHALL "extern \"C\" __global__[^{;]*" heads "${text}")
        foreach(head ${heads})
            string(REGEX REPLACE ".*[^A-Za-z0-9_]([A-Za-z0-9_]+)\\(const .*" "\\1"
                function "${head}")
            string(APPEND rows "    {\"${name}\", \"${function}\"},\n")
        endforeach()
    endif()
    set(${result} "${rows}" PARENT_SCOPE)
endfunction()

set(arrays "")
set(sources "")
set(kernels "")
foreach(name ${names})
    string(MAKE_C_IDENTIFIER ${name} identifier)
    file(READ ${path_${name}} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
    string(APPEND arrays "static const char ${identifier}[] = {\n${bytes}0};\n")
    find_closure(${name} closure)
    hash_files("${closure}" hash)
    string(APPEND sources "    {\"${name}\", ${identifier}, 0x${hash}u},\n")
    find_plain_kernels(${name} rows)
    string(APPEND kernels "${rows}")
endforeach()
hash_files("${names}" all)
file(WRITE ${OUTPUT}
    "#include \"cuda/launch.h\"\n${arrays}"
    "const struct cuda_source gram_cuda_sources[] = {\n${sources}    {0, 0, 0},\n};\n"
    "const uint64_t gram_cuda_sources_hash = 0x${all}u;\n"
    "const struct cuda_kernel cuda_plain_kernels[] = {\n${kernels}    {0, 0},\n};\n")
