"""A plain causal flash attention in Triton: forward, dQ, and dK with dV, in BF16.

One head and one tile of rows a program, exponentials of base 2 (`scale` has log2 e in it). What
bench/compile_time.py compiles for comparison; it is not tuned and nothing runs it.
"""

import triton
import triton.language as tl


@triton.jit
def forward(Q, K, V, O, M, stride, tokens, scale, D: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    start = tl.program_id(0) * R
    head = tl.program_id(1).to(tl.int64) * D
    rows, cols, dims = start + tl.arange(0, R), tl.arange(0, C), tl.arange(0, D)
    at = rows[:, None] * stride + head + dims[None, :]
    q = tl.load(Q + at, mask=rows[:, None] < tokens, other=0.0)
    m = tl.full([R], float("-inf"), tl.float32)
    l = tl.zeros([R], tl.float32)
    acc = tl.zeros([R, D], tl.float32)
    for first in range(0, start + R, C):
        keys = first + cols
        k = tl.load(K + keys[None, :] * stride + head + dims[:, None], mask=keys[None, :] < tokens, other=0.0)
        s = tl.dot(q, k) * scale
        s = tl.where(rows[:, None] >= keys[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        p = tl.exp2(s - top[:, None])
        alpha = tl.exp2(m - top)
        l = l * alpha + tl.sum(p, 1)
        v = tl.load(V + keys[:, None] * stride + head + dims[None, :], mask=keys[:, None] < tokens, other=0.0)
        acc = tl.dot(p.to(tl.bfloat16), v, acc * alpha[:, None])
        m = top
    tl.store(O + at, (acc / l[:, None]).to(tl.bfloat16), mask=rows[:, None] < tokens)
    tl.store(M + tl.program_id(1) * tokens + rows, m + tl.log2(l), mask=rows < tokens)


@triton.jit
def query_gradient(Q, K, V, dO, M, Delta, dQ, stride, tokens, scale, D: tl.constexpr, R: tl.constexpr,
                   C: tl.constexpr):
    start = tl.program_id(0) * R
    head = tl.program_id(1).to(tl.int64) * D
    rows, cols, dims = start + tl.arange(0, R), tl.arange(0, C), tl.arange(0, D)
    at = rows[:, None] * stride + head + dims[None, :]
    inside = rows < tokens
    q = tl.load(Q + at, mask=inside[:, None], other=0.0)
    do = tl.load(dO + at, mask=inside[:, None], other=0.0)
    m = tl.load(M + tl.program_id(1) * tokens + rows, mask=inside, other=0.0)
    delta = tl.load(Delta + tl.program_id(1) * tokens + rows, mask=inside, other=0.0)
    dq = tl.zeros([R, D], tl.float32)
    for first in range(0, start + R, C):
        keys = first + cols
        there = keys[None, :] * stride + head + dims[:, None]
        k = tl.load(K + there, mask=keys[None, :] < tokens, other=0.0)
        v = tl.load(V + there, mask=keys[None, :] < tokens, other=0.0)
        p = tl.exp2(tl.dot(q, k) * scale - m[:, None])
        p = tl.where(rows[:, None] >= keys[None, :], p, 0.0)
        ds = p * (tl.dot(do, v) - delta[:, None])
        dq = tl.dot(ds.to(tl.bfloat16), tl.trans(k), dq)
    tl.store(dQ + at, (dq * scale).to(tl.bfloat16), mask=inside[:, None])


@triton.jit
def key_gradient(Q, K, V, dO, M, Delta, dK, dV, stride, tokens, scale, D: tl.constexpr, R: tl.constexpr,
                 C: tl.constexpr):
    start = tl.program_id(0) * R
    head = tl.program_id(1).to(tl.int64) * D
    keys, cols, dims = start + tl.arange(0, R), tl.arange(0, C), tl.arange(0, D)
    at = keys[:, None] * stride + head + dims[None, :]
    inside = keys < tokens
    k = tl.load(K + at, mask=inside[:, None], other=0.0)
    v = tl.load(V + at, mask=inside[:, None], other=0.0)
    dk = tl.zeros([R, D], tl.float32)
    dv = tl.zeros([R, D], tl.float32)
    for first in range(start, tokens, C):
        rows = first + cols
        there = rows[None, :] * stride + head + dims[:, None]
        q = tl.load(Q + there, mask=rows[None, :] < tokens, other=0.0)
        do = tl.load(dO + there, mask=rows[None, :] < tokens, other=0.0)
        m = tl.load(M + tl.program_id(1) * tokens + rows, mask=rows < tokens, other=0.0)
        delta = tl.load(Delta + tl.program_id(1) * tokens + rows, mask=rows < tokens, other=0.0)
        p = tl.exp2(tl.dot(k, q) * scale - m[None, :])
        p = tl.where(rows[None, :] >= keys[:, None], p, 0.0)
        dv = tl.dot(p.to(tl.bfloat16), tl.trans(do), dv)
        ds = p * (tl.dot(v, do) - delta[None, :])
        dk = tl.dot(ds.to(tl.bfloat16), tl.trans(q), dk)
    tl.store(dK + at, (dk * scale).to(tl.bfloat16), mask=inside[:, None])
    tl.store(dV + at, dv.to(tl.bfloat16), mask=inside[:, None])
