# programs.cmake - the command line, the tests and the fuzz targets, found by name
#
# check/ is shared: its tables (case_*.c) and the harness go into the command line too, since
# `gram check`, `gram bench` and `gram profile` run what the tests run.  case_<op>.c defines the
# table case_<op>; the list of them, harness_ops, is made of the names of the files.

file(GLOB GRAM_CASE_SOURCES CONFIGURE_DEPENDS check/case_*.c)
set(GRAM_CASES)
foreach(source ${GRAM_CASE_SOURCES})
    get_filename_component(name ${source} NAME_WE)
    string(REPLACE "case_" "" name ${name})
    list(APPEND GRAM_CASES ${name})
endforeach()
string(REGEX REPLACE "([^;]+);?" "extern const struct case_op case_\\1;\n" declared "${GRAM_CASES}")
string(REGEX REPLACE "([^;]+);?" "    &case_\\1,\n" listed "${GRAM_CASES}")
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/harness_ops.c CONTENT
    "#include \"check/harness/harness.h\"\n\n${declared}
const struct case_op *const harness_ops[] = {\n${listed}    NULL,\n};\n")
set_source_files_properties(${CMAKE_BINARY_DIR}/harness_ops.c PROPERTIES GENERATED TRUE)
file(GLOB GRAM_CHECK_SOURCES CONFIGURE_DEPENDS check/*.c check/harness/*.c)
file(GLOB GRAM_CLI_SOURCES CONFIGURE_DEPENDS cli/*.c)
list(FILTER GRAM_CLI_SOURCES EXCLUDE REGEX "/gram\\.c$") # the file with main

if(GRAM_CHECK_SOURCES)
    add_library(gram_cases STATIC ${GRAM_CHECK_SOURCES} ${CMAKE_BINARY_DIR}/harness_ops.c)
    target_include_directories(gram_cases PUBLIC include src ${CMAKE_SOURCE_DIR})
    target_link_libraries(gram_cases PRIVATE gram_flags gram_reference)
endif()

if(GRAM_CLI AND EXISTS ${CMAKE_SOURCE_DIR}/cli/gram.c)
    add_library(gram_cli STATIC ${GRAM_CLI_SOURCES})
    target_include_directories(gram_cli PUBLIC include ${CMAKE_SOURCE_DIR})
    target_compile_definitions(gram_cli PUBLIC GRAM_VERSION="${PROJECT_VERSION}")
    target_link_libraries(gram_cli PRIVATE gram_flags)

    add_executable(gram_program cli/gram.c)
    set_target_properties(gram_program PROPERTIES OUTPUT_NAME gram)
    target_link_libraries(gram_program PRIVATE
        gram_flags gram_cli gram_cases gram_reference ${GRAM_LIBRARY} Threads::Threads m
        ${CMAKE_DL_LIBS})
    if(SKBUILD) # of the wheel: BLAS is where that of gram._core is, beside the package
        set_target_properties(gram_program PROPERTIES
            INSTALL_RPATH "$ORIGIN/../scipy_openblas32/lib" INSTALL_RPATH_USE_LINK_PATH OFF)
    elseif(NOT APPLE)
        set_target_properties(gram_program PROPERTIES
            INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
    endif()
endif()

# In the wheel: gram.__main__ runs it, as the command `gram` and as `python -m gram`.
if(TARGET gram_program AND TARGET python_package)
    add_dependencies(python_package gram_program)
    install(TARGETS gram_program RUNTIME DESTINATION gram COMPONENT python EXCLUDE_FROM_ALL)
endif()

# The manual page and shell completion, written by the program itself from its tables of options.
function(gram_generate file)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/${file} DEPENDS gram_program VERBATIM
        COMMAND sh -c "\"$@\" >${file}" sh $<TARGET_FILE:gram_program> help ${ARGN}
        WORKING_DIRECTORY ${CMAKE_BINARY_DIR} COMMENT "Writing ${file}")
endfunction()

set(GRAM_GENERATED)
if(TARGET gram_program AND NOT CMAKE_CROSSCOMPILING)
    gram_generate(gram.1 --man)
    gram_generate(gram.bash --completion bash)
    gram_generate(_gram --completion zsh)
    gram_generate(gram.fish --completion fish)
    foreach(file gram.1 gram.bash _gram gram.fish)
        list(APPEND GRAM_GENERATED ${CMAKE_BINARY_DIR}/${file})
    endforeach()
endif()

# What users want, without the tests: everything that `cmake --install` copies.
add_custom_target(programs ALL DEPENDS ${GRAM_INSTALLED} ${GRAM_GENERATED})
foreach(target gram_program gram_cuda gram_mpi gram_python)
    if(TARGET ${target})
        add_dependencies(programs ${target})
    endif()
endforeach()

if(NOT GRAM_TESTS)
    return()
endif()
enable_testing()
include(cmake/tests.cmake)
