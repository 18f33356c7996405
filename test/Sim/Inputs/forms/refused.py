#!/usr/bin/env python3
"""The simulator refuses every instruction form that ptxas refuses, target by target.

usage: refused.py DIR [--all]

forms.txt lists the forms and verdicts.txt what ptxas 13.0 said about them (probe.py). Every
form that ptxas refuses for a target is parsed by flamia-sim, which must refuse it too: for
sm_90a, sm_100, sm_100a and sm_103a, with --all for all but sm_80, whose differences are not
followed. Where refusal depends on values, the error comes at run time; KNOWN lists those.
"""
import concurrent.futures
import os
import subprocess
import sys

import probe

# Refused when executed: .maxnreg of the probing entries is 128.
KNOWN = {"setmaxnreg.dec.sync.aligned.u32 232;", "setmaxnreg.dec.sync.aligned.u32 256;"}


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    archs = probe.ARCHS[1:] if "--all" in sys.argv else ["sm_90a", "sm_100", "sm_100a", "sm_103a"]
    pairs = [(form, arch) for form, takes in probe.recorded().items() for arch in archs
             if arch not in takes and form not in KNOWN]

    def accepted(job):
        number, (form, arch) = job
        path = os.path.join(folder, f"{number}.ptx")
        with open(path, "w") as f:
            f.write(probe.head(arch) + probe.entry(0, form, first="bra done;"))
        with open(path + ".json", "w") as f:
            f.write(f'{{"ptx": "{number}.ptx", "entry": "k0", "params": []}}')
        run = subprocess.run(["flamia-sim", "--launch=" + path + ".json"], capture_output=True, text=True)
        # An accepted module ends with the complaint that the parameter is missing.
        if run.returncode == 1 and f"{number}.ptx:" in run.stderr and " parameters, but " not in run.stderr:
            return None
        return f"{arch} takes '{form}': {run.stderr.strip()[-160:]}"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [w for w in pool.map(accepted, enumerate(pairs)) if w]
    print("\n".join(wrong))
    print(f"{len(pairs)} refusals, {len(wrong)} missed")
    sys.exit(1 if wrong or len(pairs) < 500 else 0)


if __name__ == "__main__":
    main()
