# install.cmake - what `cmake --install` puts where, the CMake package and the pkg-config file

include(CMakePackageConfigHelpers)

set(GRAM_CMAKE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/gram)
install(TARGETS ${GRAM_INSTALLED} EXPORT gramTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/gram DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.h")
install(EXPORT gramTargets NAMESPACE gram:: DESTINATION ${GRAM_CMAKE_FOLDER})

# What a program that links libgram.a needs besides: the libraries, as linker arguments.
get_target_property(GRAM_PRIVATE_LIBRARIES gram_blas INTERFACE_LINK_LIBRARIES)
set(GRAM_PRIVATE_LIBRARIES ${GRAM_PRIVATE_LIBRARIES} ${CMAKE_THREAD_LIBS_INIT} -lm)
list(TRANSFORM GRAM_PRIVATE_LIBRARIES REPLACE "^([A-Za-z0-9_]+)$" "-l\\1")
string(REPLACE ";" " " GRAM_PRIVATE_LIBRARIES "${GRAM_PRIVATE_LIBRARIES}")

configure_package_config_file(packaging/gramConfig.cmake.in gramConfig.cmake
    INSTALL_DESTINATION ${GRAM_CMAKE_FOLDER})
set(GRAM_COMPATIBILITY SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(GRAM_COMPATIBILITY SameMinorVersion)
endif()
write_basic_package_version_file(gramConfigVersion.cmake COMPATIBILITY ${GRAM_COMPATIBILITY})
install(FILES ${CMAKE_BINARY_DIR}/gramConfig.cmake ${CMAKE_BINARY_DIR}/gramConfigVersion.cmake
    DESTINATION ${GRAM_CMAKE_FOLDER})
file(RELATIVE_PATH GRAM_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(packaging/gram.pc.in gram.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/gram.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET gram_program)
    install(TARGETS gram_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(GRAM_GENERATED)
    install(FILES ${CMAKE_BINARY_DIR}/gram.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${CMAKE_BINARY_DIR}/gram.bash RENAME gram
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${CMAKE_BINARY_DIR}/_gram DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${CMAKE_BINARY_DIR}/gram.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(FILES LICENSE README.md NEWS.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
