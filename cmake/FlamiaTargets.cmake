# Targets that link no MLIR.

add_library(flamia_options INTERFACE)
target_compile_options(flamia_options INTERFACE
  -Wall -Wextra -Werror -Wno-unused-parameter -fno-rtti)
# Debian's LLVM is built with assertions off; headers must see the same ABI.
separate_arguments(llvm_definitions UNIX_COMMAND "${LLVM_DEFINITIONS}")
target_compile_options(flamia_options INTERFACE ${llvm_definitions})
target_include_directories(flamia_options SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_options(flamia_options INTERFACE -fuse-ld=lld)
if(FLAMIA_SANITIZERS)
  # vptr needs RTTI, which LLVM is built without.
  target_compile_options(flamia_options INTERFACE
    -fsanitize=${FLAMIA_SANITIZERS} -fno-sanitize=vptr -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(flamia_options INTERFACE -fsanitize=${FLAMIA_SANITIZERS} -fno-sanitize=vptr)
endif()
if(FLAMIA_FUZZ)
  target_compile_options(flamia_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(flamia_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# LLVM's Support library, static: JSON, CommandLine, Error, raw_ostream.
# A program links this *or* shared libLLVM (flamia_add_mlir_*), never both.
add_library(flamia_llvm_support INTERFACE)
target_link_libraries(flamia_llvm_support INTERFACE LLVMSupport)

# flamia_add_library(NAME sources... LINK libs...)
function(flamia_add_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE flamia_options)
endfunction()

# flamia_add_tool(NAME sources... LINK libs...)
function(flamia_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} flamia_options)
endfunction()

# flamia_add_unittest(NAME sources... LINK libs...): one GoogleTest program.
# clang and gcc builds of GoogleTest differ in RTTI only through its own types.
function(flamia_add_unittest name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} flamia_options GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    FLAMIA_SOURCE_DIR="${PROJECT_SOURCE_DIR}" FLAMIA_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set_property(GLOBAL APPEND PROPERTY FLAMIA_UNITTESTS ${name})
endfunction()
