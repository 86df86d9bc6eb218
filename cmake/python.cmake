# python.cmake - the Python package: the extension gram._core, with the library inside
#
# GRAM_PYTHON=ON builds it into ${CMAKE_BINARY_DIR}/python, where `PYTHONPATH=build/python` finds
# it; `pip install .` does so through scikit-build-core (pyproject.toml) and takes what is installed
# here as the component python.  Python3_EXECUTABLE says whose headers are taken; what is built
# serves every CPython from 3.11 on.

set(GRAM_PYTHON_DEFAULT OFF)
if(SKBUILD)
    set(GRAM_PYTHON_DEFAULT ON)
endif()
option(GRAM_PYTHON_MPI "Put the transport over MPI into the wheel, which is for this MPI then" OFF)
option(GRAM_PYTHON "Build the Python package" ${GRAM_PYTHON_DEFAULT})
if(NOT GRAM_PYTHON)
    return()
endif()

find_package(Python3 3.11 COMPONENTS Interpreter Development.Module)
if(NOT Python3_FOUND)
    message(FATAL_ERROR "gram: the Python package needs CPython 3.11 or newer with its headers, "
        "which Debian and Ubuntu have in python3-dev, and Fedora in python3-devel")
endif()
set(GRAM_PYTHON_FOLDER ${CMAKE_BINARY_DIR}/python/gram)
file(GLOB GRAM_PYTHON_SOURCES CONFIGURE_DEPENDS python/core/*.c)
file(GLOB GRAM_PYTHON_FILES CONFIGURE_DEPENDS
    python/gram/*.py python/gram/*.pyi python/gram/py.typed)

add_library(gram_python MODULE ${GRAM_PYTHON_SOURCES})
target_compile_definitions(gram_python PRIVATE Py_LIMITED_API=0x030B0000)
target_include_directories(gram_python SYSTEM PRIVATE ${Python3_INCLUDE_DIRS})
target_link_libraries(gram_python PRIVATE gram_flags gram_static gram_blas Threads::Threads)
set_target_properties(gram_python PROPERTIES
    PREFIX "" OUTPUT_NAME _core SUFFIX .abi3.so
    LIBRARY_OUTPUT_DIRECTORY ${GRAM_PYTHON_FOLDER})
if(APPLE)
    target_link_options(gram_python PRIVATE -undefined dynamic_lookup)
endif()
if(GRAM_BLAS STREQUAL "scipy-openblas32") # which lies beside us in site-packages
    set_target_properties(gram_python PROPERTIES
        INSTALL_RPATH "$ORIGIN/../scipy_openblas32/lib" INSTALL_RPATH_USE_LINK_PATH OFF)
endif()

# The Python files beside it, so that the build folder is a package.
file(GLOB GRAM_COMPAT_FILES CONFIGURE_DEPENDS python/gram/compat/*.py python/gram/compat/*.pyi)
file(MAKE_DIRECTORY ${GRAM_PYTHON_FOLDER}/compat)
add_custom_target(gram_python_files ALL DEPENDS ${GRAM_PYTHON_FILES} ${GRAM_COMPAT_FILES} VERBATIM
    COMMAND ${CMAKE_COMMAND} -E copy_if_different ${GRAM_PYTHON_FILES} ${GRAM_PYTHON_FOLDER}
    COMMAND ${CMAKE_COMMAND} -E copy_if_different ${GRAM_COMPAT_FILES} ${GRAM_PYTHON_FOLDER}/compat)
add_dependencies(gram_python gram_python_files)

# All that a wheel holds.
add_custom_target(python_package DEPENDS gram_python)
install(TARGETS gram_python LIBRARY DESTINATION gram COMPONENT python EXCLUDE_FROM_ALL)
if(TARGET gram_cuda)
    add_dependencies(python_package gram_cuda)
    install(TARGETS gram_cuda LIBRARY DESTINATION gram COMPONENT python EXCLUDE_FROM_ALL)
endif()
if(GRAM_PYTHON_MPI AND TARGET gram_mpi)
    add_dependencies(python_package gram_mpi)
    install(TARGETS gram_mpi LIBRARY DESTINATION gram COMPONENT python EXCLUDE_FROM_ALL)
endif()
