# cmake -DFROM=attention_fwd.mlir -DTO=leaky.mlir -P make_leaky.cmake
#
# Takes the promises out of the kernel: without `flamia.depends` the compiler has
# nothing to prove and inserts no safeguard, so V's 32-token scales leak. The probes
# of the tests must see that (negative control).
file(READ "${FROM}" text)
string(REGEX REPLACE ", flamia\\.depends = {[^}]*}" "" text "${text}")
string(REPLACE ", flamia.original = \"v_bf16\"" "" text "${text}")
if(text MATCHES "flamia\\.(depends|original)")
  message(FATAL_ERROR "promises are left in the kernel")
endif()
file(WRITE "${TO}" "${text}")
