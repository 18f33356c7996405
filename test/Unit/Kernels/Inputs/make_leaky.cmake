# cmake -DFROM=attention_fwd.mlir -DTO=leaky.mlir -P make_leaky.cmake
#
# Takes the promises out of a kernel: without `flamia.depends` the compiler has
# nothing to prove and inserts no safeguard, so V's 32-token scales leak. The probes
# of the tests must see that (negative control).
file(READ "${FROM}" text)
string(REGEX REPLACE ",[ \n]*flamia\\.depends = {[^}]*}" "" text "${text}")
string(REGEX REPLACE ", flamia\\.original(_factor|_with)? = \"[a-z0-9_]*\"" "" text "${text}")
if(text MATCHES "flamia\\.(depends|original)")
  message(FATAL_ERROR "promises are left in the kernel")
endif()
file(WRITE "${TO}" "${text}")
