# cmake --install and find_package(flamia).
#
# Installed: programs, kernel sources (share/flamia/kernels, where flamia-run looks
# for them), public headers, and the libraries that link no MLIR as flamia::Runtime,
# flamia::CAPI, ... The compiler's own libraries are used through flamiac.

include(CMakePackageConfigHelpers)

set(flamia_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/flamia)

set(flamia_exported flamia_options flamia_llvm_support)
foreach(library Numerics Reference Schedule SimUnits Sim LaunchRecord Runtime Model CAPI)
  if(TARGET Flamia${library})
    target_include_directories(Flamia${library} SYSTEM INTERFACE
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    set_target_properties(Flamia${library} PROPERTIES EXPORT_NAME ${library})
    list(APPEND flamia_exported Flamia${library})
  endif()
endforeach()
install(TARGETS ${flamia_exported} EXPORT flamiaTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT flamiaTargets NAMESPACE flamia:: DESTINATION ${flamia_package_dir})

foreach(tool flamia-run flamia-sim flamia-model flamiac flamia-opt flamia-eval flamia-lsp-server)
  if(TARGET ${tool})
    install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/flamia
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/kernels
  DESTINATION ${CMAKE_INSTALL_DATADIR}/flamia FILES_MATCHING PATTERN "*.mlir" PATTERN "*.md")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/flamia)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/flamiaConfig.cmake.in
  ${PROJECT_BINARY_DIR}/flamiaConfig.cmake INSTALL_DESTINATION ${flamia_package_dir}
  PATH_VARS CMAKE_INSTALL_DATADIR CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/flamiaConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/flamiaConfig.cmake
  ${PROJECT_BINARY_DIR}/flamiaConfigVersion.cmake DESTINATION ${flamia_package_dir})
