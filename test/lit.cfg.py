"""lit configuration of flamia's tests of IR and tools.

A missing tool is an error here (the setup script installs every one of them), so that a
test never turns quietly green.
"""
import os
import sys

import lit.formats

config.name = "flamia"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test", ".ptx"]
config.excludes = ["Inputs", "Unit", "CMakeLists.txt", "lit.cfg.py"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.flamia_obj_root, "test")

tools = os.path.join(config.flamia_obj_root, "bin")
path = [tools, config.llvm_tools_dir, "/usr/local/cuda/bin", os.environ["PATH"]]
config.environment["PATH"] = os.pathsep.join(path)
for name in ("HOME", "CUDA_HOME", "FLAMIA_PTXAS", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
# Folded dead check prefixes and leaked variables are bugs.
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --allow-unused-prefixes=false"
for tool in ("FileCheck", "not", "split-file"):
    if not os.path.exists(os.path.join(config.llvm_tools_dir, tool)):
        lit_config.fatal("%s is missing from %s: run scripts/setup.sh" % (tool, config.llvm_tools_dir))

config.substitutions.append(("%python", sys.executable))
config.substitutions.append(("%kernels", os.path.join(config.flamia_src_root, "kernels")))
config.substitutions.append(("%src", config.flamia_src_root))
config.substitutions.append(("%obj", config.flamia_obj_root))
config.substitutions.append(("%llvm_dir", os.path.join(config.llvm_tools_dir, "..", "lib", "cmake", "llvm")))

# Long-running tests live in folders named Slow and run only under scripts/test-slow.sh.
if not lit_config.params.get("slow"):
    config.excludes.append("Slow")
