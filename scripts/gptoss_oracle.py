"""gptoss_oracle.py - the GPT-OSS forward pass in float64, as the definition says it: slow, short, and
written without looking at the C code, so that the two can be compared. Used by make-model."""
import math

import numpy as np


def yarn(a):
    """(concentration, inverse frequencies). The correction bounds are not rounded."""
    i = np.arange(a.head_dim // 2)
    plain = a.theta ** (-2 * i / a.head_dim)
    if a.factor <= 1:
        return 1.0, plain

    def bound(turns):
        return a.head_dim / 2 * math.log(a.original / (turns * 2 * math.pi)) / math.log(a.theta)

    low, high = max(bound(a.beta_fast), 0), min(bound(a.beta_slow), a.head_dim - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((i - low) / (high - low), 0, 1)
    return 0.1 * math.log(a.factor) + 1, plain * (ramp / a.factor + 1 - ramp)


def rms(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def rotate(x, cos, sin):
    """x [token][head][dim]: the pairs are (i, i + dim/2)."""
    u, v = np.split(x, 2, axis=-1)
    return np.concatenate([u * cos - v * sin, v * cos + u * sin], -1)


def attend(a, q, k, v, sinks, window):
    """Softmax over the visible keys and one sink per query head, which has no value."""
    n, group = len(q), a.q_heads // a.kv_heads
    age = np.arange(n)[:, None] - np.arange(n)[None]  # of a key, seen from a query
    visible = (age >= 0) & (age < window)
    out = np.zeros_like(q)
    for h in range(a.q_heads):
        score = q[:, h] @ k[:, h // group].T / math.sqrt(a.head_dim)
        score = np.where(visible, score, -np.inf)
        top = np.maximum(score.max(1), sinks[h])
        e = np.exp(score - top[:, None])
        out[:, h] = e @ v[:, h // group] / (e.sum(1) + np.exp(sinks[h] - top))[:, None]
    return out.reshape(n, -1)


def route(a, r):
    """(experts, weights, smallest gap to the first expert that was not chosen)."""
    order = np.argsort(-r, 1, kind="stable")  # a tie goes to the lower index
    value = np.take_along_axis(r, order, 1)
    margin = (value[:, a.top - 1] - value[:, a.top]).min() if a.top < a.experts else math.inf
    w = np.exp(value[:, :a.top] - value[:, :1])
    return order[:, :a.top], w / w.sum(1, keepdims=True), margin


def swiglu(u, limit=7.0, alpha=1.702):
    gate, up = np.minimum(u[..., 0::2], limit), np.clip(u[..., 1::2], -limit, limit)
    return gate / (1 + np.exp(-alpha * gate)) * (up + 1)


def experts_of(a, layer, w, expert, x):
    """What the experts add to the rows of x, and the router's margin."""
    p = f"{layer}."
    h = rms(x, w(p + "mlp_norm"), a.eps)
    chosen, share, margin = route(a, h @ w(p + "router").T + w(p + "router_bias"))
    bias1, bias2 = w(p + "gate_up_bias"), w(p + "down_bias")
    out = np.zeros_like(x)
    for e in np.unique(chosen):
        gate_up, down = expert(layer, e)
        rows, slot = np.nonzero(chosen == e)
        y = swiglu(h[rows] @ gate_up.T + bias1[e]) @ down.T + bias2[e]
        out[rows] += share[rows, slot][:, None] * y
    return out, margin


def forward(a, w, expert, ids):
    """Logits [len(ids)][vocab] and the smallest router margin. `w(name)` gives a dense tensor,
    `expert(layer, e)` the gate_up (rows interleaved) and down matrices, all float64."""
    n, smallest = len(ids), math.inf
    c, inv = yarn(a)
    angle = np.arange(n)[:, None, None] * inv
    cos, sin = c * np.cos(angle), c * np.sin(angle)
    x = w("embed")[ids]
    for layer in range(a.layers):
        p = f"{layer}."
        h = rms(x, w(p + "attn_norm"), a.eps)
        q, k, v = ((h @ w(p + t).T + w(p + t + "_bias")).reshape(n, -1, a.head_dim) for t in "qkv")
        window = a.window if layer % 2 == 0 else n
        o = attend(a, rotate(q, cos, sin), rotate(k, cos, sin), v, w(p + "sinks"), window)
        x = x + o @ w(p + "o").T + w(p + "o_bias")
        y, margin = experts_of(a, layer, w, expert, x)
        x, smallest = x + y, min(smallest, margin)
    return rms(x, w("norm"), a.eps) @ w("head").T, float(smallest)
