# cuda.cmake - the CUDA backend, libgram_cuda.so: built where CUDA's headers are found
#
# Only two headers are needed, cuda.h and nvrtc.h, from a toolkit or from NVIDIA's wheels; no
# library of CUDA is linked.  Device code is embedded as text.  The wheels may
# be those that `scripts/bootstrap cuda` puts into the build folder, or, for a variant, into the
# folder above.

option(GRAM_CUDA "Build the CUDA backend where CUDA's headers are found" ON)
set(wheels ${CMAKE_BINARY_DIR}/nvidia ${CMAKE_BINARY_DIR}/../nvidia)
find_path(GRAM_CUDA_INCLUDE NAMES cuda.h PATHS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda ${wheels}
    PATH_SUFFIXES include cu13/include cuda_runtime/include)
find_path(GRAM_NVRTC_INCLUDE NAMES nvrtc.h HINTS ${GRAM_CUDA_INCLUDE}
    PATHS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda ${wheels}
    PATH_SUFFIXES include cu13/include cuda_nvrtc/include)
set(GRAM_CUDA_FOUND no)
if(NOT GRAM_CUDA OR NOT GRAM_CUDA_INCLUDE OR NOT GRAM_NVRTC_INCLUDE)
    return()
endif()
set(GRAM_CUDA_FOUND ${GRAM_CUDA_INCLUDE})

file(GLOB GRAM_CUDA_SOURCES CONFIGURE_DEPENDS src/cuda/*.c src/*/cuda_*.c)
list(REMOVE_DUPLICATES GRAM_CUDA_SOURCES)
file(GLOB GRAM_CUDA_KERNELS CONFIGURE_DEPENDS src/*/*.cu src/*/*.cuh src/*/*_params.h)
set(GRAM_CUDA_EMBEDDED ${CMAKE_BINARY_DIR}/cuda_sources.c)
add_custom_command(OUTPUT ${GRAM_CUDA_EMBEDDED} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${GRAM_CUDA_EMBEDDED} "-DFILES=${GRAM_CUDA_KERNELS}"
        -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${GRAM_CUDA_KERNELS} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    COMMENT "Embedding device code")

# The objects serve the tests too, which compile every kernel without a device.
add_library(gram_cuda_objects OBJECT ${GRAM_CUDA_SOURCES} ${GRAM_CUDA_EMBEDDED})
# Headers of device code name one another as NVRTC finds them, without folders.
target_include_directories(gram_cuda_objects PRIVATE include src src/cuda)
target_include_directories(gram_cuda_objects SYSTEM PUBLIC
    ${GRAM_CUDA_INCLUDE} ${GRAM_NVRTC_INCLUDE})
target_compile_definitions(gram_cuda_objects PRIVATE GRAM_VERSION="${PROJECT_VERSION}")
target_link_libraries(gram_cuda_objects PRIVATE gram_flags Threads::Threads)

add_library(gram_cuda MODULE $<TARGET_OBJECTS:gram_cuda_objects>)
set_target_properties(gram_cuda PROPERTIES LINKER_LANGUAGE C)
target_link_libraries(gram_cuda PRIVATE gram_flags gram_shared Threads::Threads m ${CMAKE_DL_LIBS})
if(NOT APPLE AND NOT GRAM_SANITIZE AND NOT GRAM_FUZZ)
    target_link_options(gram_cuda PRIVATE -Wl,--no-undefined)
endif()
install(TARGETS gram_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
