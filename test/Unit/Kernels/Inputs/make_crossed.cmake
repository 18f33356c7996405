# cmake -DFROM=attention_bwd_dkdv.mlir -DTO=crossed.mlir -P make_crossed.cmake
#
# A backward that in format nvfp4 computes its scores from the E4M3 copies, where the
# forward has E2M1: the probe of consistency must see that (negative control).
file(READ "${FROM}" text)
foreach(pair "%s4, %s8;%s8, %s8" "%c4, %c8;%c8, %c8")
  list(GET pair 0 old)
  list(GET pair 1 new)
  set(before "${text}")
  string(REPLACE "arith.select %nvfp4, ${old}" "arith.select %nvfp4, ${new}" text "${text}")
  if(text STREQUAL before)
    message(FATAL_ERROR "the kernel does not select '${old}'")
  endif()
endforeach()
file(WRITE "${TO}" "${text}")
