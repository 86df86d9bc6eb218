# embed.cmake - writes a C file with the texts of other files, and a hash of their names and texts:
# cmake -DOUTPUT= -DFILES= -P

set(arrays "")
set(table "")
set(hashes "")
foreach(file ${FILES})
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name} identifier)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
    string(APPEND arrays "static const char ${identifier}[] = {\n${bytes}0};\n")
    file(SHA256 ${file} hash)
    string(APPEND hashes "${name} ${hash}\n")
    string(APPEND table "    {\"${name}\", ${identifier}},\n")
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING ${hash} 0 16 hash)
file(WRITE ${OUTPUT}
    "#include \"cuda/jit.h\"\n${arrays}const struct cuda_source gram_cuda_sources[] = {\n${table}"
    "    {0, 0},\n};\nconst uint64_t gram_cuda_sources_hash = 0x${hash}u;\n")
