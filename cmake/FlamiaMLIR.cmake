# Targets that link shared libMLIR and libLLVM. A precompiled header holds MLIR's
# heavy headers: without it a conversion source takes 20-30 s, with it 1-5 s.

file(WRITE ${PROJECT_BINARY_DIR}/flamia_pch.cpp "// Owner of the precompiled MLIR header.\n")
add_library(flamia_mlir_pch STATIC ${PROJECT_BINARY_DIR}/flamia_pch.cpp)
target_link_libraries(flamia_mlir_pch PRIVATE flamia_options)
target_include_directories(flamia_mlir_pch SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS})
target_precompile_headers(flamia_mlir_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/MLIRPrecompiled.h)

function(flamia_mlir_target name)
  target_include_directories(${name} SYSTEM PRIVATE ${MLIR_INCLUDE_DIRS})
  target_precompile_headers(${name} REUSE_FROM flamia_mlir_pch)
  target_link_libraries(${name} PRIVATE flamia_options)
endfunction()

# flamia_add_mlir_library(NAME sources... LINK libs... DEPENDS tablegen-targets...)
function(flamia_add_mlir_library name)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  flamia_mlir_target(${name})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# flamia_add_mlir_tool(NAME sources... LINK libs...)
function(flamia_add_mlir_tool name)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  flamia_mlir_target(${name})
  # The precompiled header was made with -fPIC; CMake would give a program -fPIE.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIC)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()
