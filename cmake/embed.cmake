# embed.cmake - writes a C file with the texts of other files: cmake -DOUTPUT= -DFILES= -P

set(arrays "")
set(table "")
foreach(file ${FILES})
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name} identifier)
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
    string(APPEND arrays "static const char ${identifier}[] = {\n${bytes}0};\n")
    string(APPEND table "    {\"${name}\", ${identifier}},\n")
endforeach()
file(WRITE ${OUTPUT}
    "#include \"jit.h\"\n${arrays}const struct cuda_source gram_cuda_sources[] = {\n${table}"
    "    {0, 0},\n};\n")
