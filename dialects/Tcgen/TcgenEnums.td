//===- TcgenEnums.td - Enums of the Tcgen dialect -------------*- tablegen -*-===//

#ifndef TCGEN_ENUMS
#define TCGEN_ENUMS

include "mlir/IR/EnumAttr.td"

def Tcgen_Space : I32EnumAttr<"Space", "memory of a buffer", [
    I32EnumAttrCase<"Smem", 0, "smem">, I32EnumAttrCase<"Tmem", 1, "tmem">]> {
  let cppNamespace = "::flamia::tcgen";
}

def Tcgen_Layout : I32EnumAttr<"Layout", "layout of a buffer", [
    I32EnumAttrCase<"Operand", 0, "operand">,
    I32EnumAttrCase<"Scales", 1, "scales">,
    I32EnumAttrCase<"Lanes", 2, "lanes">,
    I32EnumAttrCase<"Line", 3, "line">]> {
  let cppNamespace = "::flamia::tcgen";
}

def Tcgen_Agent : I32EnumAttr<"Agent", "who signals a channel", [
    I32EnumAttrCase<"Threads", 0, "threads">, I32EnumAttrCase<"Mma", 1, "mma">]> {
  let cppNamespace = "::flamia::tcgen";
}

def Tcgen_Major : I32EnumAttr<"Major", "which axis of an operand image is contracted", [
    I32EnumAttrCase<"K", 0, "k">, I32EnumAttrCase<"MN", 1, "mn">]> {
  let cppNamespace = "::flamia::tcgen";
}

#endif // TCGEN_ENUMS
