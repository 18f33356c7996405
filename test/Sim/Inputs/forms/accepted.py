#!/usr/bin/env python3
"""The simulator takes every instruction form that ptxas takes, but for those that it refuses on purpose.

usage: accepted.py DIR

REFUSED lists what docs/simulator.md names under Limits; each of these must be refused by name.
"""
import os
import re
import subprocess
import sys

import probe

REFUSED = re.compile(
    r"^(v(add|sub|absdiff|min|max|shl|mad|set|avrg)[24]?\.|tex\.|suld\.|istypep|wmma|wgmma|multimem|tcgen05\.mma\.(ws|sp)"
    r"|(st|red)\.async\.mmio|mma\S*\.(s4|u4|b1|f64)\.|mma\.sync\.aligned\.m8n8k4|mma\S*kind::"
    r"|cp\.async\.bulk\.tensor\S*im2col|mov\.u32 r0, %(envreg3|pm0)|mov\.b64 \{r0, r1\}, %clock64|multimem)")


def run(folder, name, text):
    path = os.path.join(folder, name)
    with open(path + ".ptx", "w") as f:
        f.write(text)
    with open(path + ".json", "w") as f:
        f.write(f'{{"ptx": "{name}.ptx", "entry": "none", "params": []}}')
    return subprocess.run(["flamia-sim", "--launch=" + path + ".json"], capture_output=True, text=True).stderr


def main():
    folder, wrong = sys.argv[1], 0
    os.makedirs(folder, exist_ok=True)
    takes = probe.recorded()
    for arch in ("sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a"):
        chosen = [f for f in takes if arch in takes[f] and not REFUSED.match(f)]
        # A module is refused at its first bad entry: leave that out and go on.
        while chosen:
            error = run(folder, arch, probe.head(arch) + "".join(probe.entry(n, f) for n, f in enumerate(chosen)))
            m = re.search(r"\.ptx:(\d+): error: (.*)", error)
            if not m:
                if "none" not in error:
                    print(f"{arch}: expected a complaint about the entry's name, but got {error}")
                    wrong += 1
                break
            index = (int(m.group(1)) - 4) // 4
            print(f"{arch} refuses '{chosen[index]}': {m.group(2)}")
            wrong += 1
            del chosen[index]
        print(f"{arch}: {len(chosen)} forms")
    for n, form in enumerate(f for f in takes if "sm_100a" in takes[f] and REFUSED.match(f)):
        error = run(folder, f"refused{n}", probe.head("sm_100a") + probe.entry(0, form))
        if f"refused{n}.ptx:6: error: " not in error:
            print(f"expected an error in line 6 for '{form}', but got {error}")
            wrong += 1
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
