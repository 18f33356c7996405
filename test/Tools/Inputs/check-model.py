"""Checks flamia-model's JSON: counts of PTX and machine code are equal, roles add up."""
import json
import sys

for kernel in json.load(open(sys.argv[1])):
    assert kernel["modelled"] is True
    names = {entry["what"] for entry in kernel["agreement"]}
    assert {"tcgen05.mma", "tcgen05.ld", "tcgen05.st", "ex2"} <= names, names
    for entry in kernel["agreement"]:
        assert entry["ptx"] > 0 and entry["ptx"] == entry["sass"], (kernel["kernel"], entry)
    tile = kernel["tile"]
    for unit, cycles in tile["units"].items():
        parts = sum(role["units"].get(unit, 0) for role in tile["roles"])
        assert abs(parts - cycles) < 1e-6 * cycles, (unit, parts, cycles)
    # No schedule is faster than the busiest unit.
    assert kernel["tile_bound"] == max(tile["units"].values())
    assert kernel["tile_cycles"] >= kernel["tile_bound"]
    assert kernel["tile_chain"] >= 0.95 * max(
        cycles for unit, cycles in tile["units"].items() if unit in ("tensor", "mufu", "alu", "fma")), kernel["kernel"]
    # exp2 alone: 16384 scores at 16 (B200) or 32 (B300) a cycle, and a few a row.
    rate = 16 if kernel["arch"] == "sm_100a" else 32
    assert 0.6 * 16384 / rate <= tile["units"]["mufu"] <= 1.05 * 16384 / rate
