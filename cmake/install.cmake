# `cmake --install`: the libraries, the public headers, the program, and what find_package(cortiq) and pkg-config read.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(layers base codec cmf text kernels engine convert api)
foreach(layer ${layers})
  set_target_properties(cortiq_${layer} PROPERTIES EXPORT_NAME ${layer})
  target_include_directories(cortiq_${layer} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS cortiq_${layer} EXPORT cortiq-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
add_library(cortiq_library INTERFACE)
target_link_libraries(cortiq_library INTERFACE cortiq_api)
set_target_properties(cortiq_library PROPERTIES EXPORT_NAME cortiq)
install(TARGETS cortiq_library EXPORT cortiq-targets)
install(TARGETS cortiq RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ ${PROJECT_BINARY_DIR}/generated/
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT cortiq-targets NAMESPACE cortiq:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cortiq)
configure_package_config_file(cmake/cortiq-config.cmake.in ${PROJECT_BINARY_DIR}/cortiq-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cortiq)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cortiq-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cortiq-config.cmake ${PROJECT_BINARY_DIR}/cortiq-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cortiq)

# pkg-config knows no layers: the order below is the order in which they need each other.
set(CORTIQ_PC_LIBS
    "-lcortiq_api -lcortiq_engine -lcortiq_convert -lcortiq_kernels -lcortiq_text -lcortiq_cmf -lcortiq_codec -lcortiq_base")
configure_file(cmake/cortiq.pc.in ${PROJECT_BINARY_DIR}/cortiq.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cortiq.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
