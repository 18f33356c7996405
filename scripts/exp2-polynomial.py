#!/usr/bin/env python3
"""Finds the coefficients of include/flamia/Numerics/Exp2.h: the polynomial P of a degree with
P(0) = 1 whose largest relative error against 2^f on [-1/2, 1/2] is smallest.

    exp2-polynomial.py [DEGREE]

Prints the error and the coefficients of 2 P, rounded to float. Needs numpy. P(0) = 1 makes
powers of two exact. The exchange algorithm of Remez,
on (2^f - 1) / f with the weight |f| / 2^f.
"""
import sys

import numpy as np


def fit(degree):
    powers = np.arange(1, degree + 1)
    grid = np.linspace(-0.5, 0.5, 200001)
    points = -0.5 * np.cos(np.pi * np.arange(degree + 1) / degree)
    points[np.abs(points) < 1e-3] = 0.1
    for _ in range(50):
        # P(f) / 2^f - 1 = +-e with the sign of f, in turn.
        rows = [np.append(f**powers / 2.0**f, (-1) ** i * np.sign(f)) for i, f in enumerate(points)]
        solution = np.linalg.solve(np.array(rows), 1 - 2.0**-points)
        coefficients = solution[:degree]
        error = (1 + sum(c * grid**k for c, k in zip(coefficients, powers))) / 2.0**grid - 1
        signed = error * np.sign(grid)
        slope = np.diff(signed)
        peaks = [0] + [i for i in range(1, len(grid) - 1) if slope[i - 1] * slope[i] <= 0 and grid[i] != 0]
        peaks.append(len(grid) - 1)
        chosen = []
        for peak in peaks:
            if chosen and np.sign(signed[peak]) == np.sign(signed[chosen[-1]]):
                if abs(signed[peak]) > abs(signed[chosen[-1]]):
                    chosen[-1] = peak
            else:
                chosen.append(peak)
        while len(chosen) > degree + 1:
            chosen = chosen[1:] if abs(signed[chosen[0]]) < abs(signed[chosen[-1]]) else chosen[:-1]
        if len(chosen) <= degree:
            sys.exit(f"degree {degree}: too few extrema")
        moved = np.max(np.abs(grid[chosen] - points))
        points = grid[chosen]
        if moved < 1e-5:
            break
    return np.append(1.0, coefficients), np.max(np.abs(error))


def main():
    degree = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    coefficients, error = fit(degree)
    print(f"degree {degree}: relative error 2^{np.log2(error):.2f} before rounding")
    for k, c in enumerate(coefficients):
        print(f"f^{k}: {float(np.float32(2 * c)).hex()}")


main()
