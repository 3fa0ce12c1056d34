"""The two demo architectures in PyTorch: dense `llama` and `qwen3moe`.

Shapes and operation order follow what a GGUF engine computes, so the trained
tensors can be written to a file without any rearrangement.
"""

import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    """Hyperparameters of a demo model."""

    arch: str  # "llama" or "qwen3moe"
    vocab: int
    layers: int
    width: int = 256
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    ffn: int = 512
    experts: int = 0
    experts_used: int = 0
    rope_base: float = 10000.0
    context: int = 512
    eps: float = 1e-5

    @property
    def moe(self):
        """Whether the feed-forward layers are mixtures of experts."""
        return self.experts > 0


def preset(name, vocab):
    """Configuration of the `dense` or `moe` demo model."""
    if name == "dense":
        return Config("llama", vocab, layers=4)
    return Config("qwen3moe", vocab, layers=3, ffn=64, experts=16, experts_used=4, rope_base=1e6,
                  eps=1e-6)


class RMSNorm(nn.Module):
    """Root mean square normalisation over the last dimension."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rope_table(cfg, length):
    """Cosines and sines [length, head_dim / 2] of the rotary embedding."""
    freq = cfg.rope_base ** (-torch.arange(0, cfg.head_dim, 2, dtype=torch.float64) / cfg.head_dim)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * freq
    return angle.cos().float(), angle.sin().float()


def rotate(x, cos, sin, neox):
    """Rotary embedding of x [B, H, T, D]: half-split pairs if neox, else adjacent pairs."""
    if neox:
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class BatchMatmul(torch.autograd.Function):
    """Batched product [N, m, k] @ [N, k, n] as a loop over GEMMs.

    Builds of PyTorch with a generic BLAS run `torch.bmm` far below GEMM speed.
    """

    @staticmethod
    def product(a, b):
        out = a.new_empty(a.shape[0], a.shape[1], b.shape[2])
        for x, y, z in zip(a, b, out):
            torch.mm(x, y, out=z)
        return out

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return BatchMatmul.product(a, b)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return (BatchMatmul.product(grad, b.transpose(1, 2)),
                BatchMatmul.product(a.transpose(1, 2), grad))


class Attention(nn.Module):
    """Grouped-query attention, with per-head QK-norm for qwen3moe."""

    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        q, kv = cfg.heads * cfg.head_dim, cfg.kv_heads * cfg.head_dim
        self.attn_q = nn.Linear(cfg.width, q, bias=False)
        self.attn_k = nn.Linear(cfg.width, kv, bias=False)
        self.attn_v = nn.Linear(cfg.width, kv, bias=False)
        self.attn_output = nn.Linear(q, cfg.width, bias=False)
        self.neox = cfg.arch == "qwen3moe"
        if self.neox:
            self.attn_q_norm = RMSNorm(cfg.head_dim, cfg.eps)
            self.attn_k_norm = RMSNorm(cfg.head_dim, cfg.eps)

    def forward(self, x, mask, cos, sin):
        c = self.cfg
        b, t, _ = x.shape
        q = self.attn_q(x).view(b, t, c.heads, c.head_dim).transpose(1, 2)
        k = self.attn_k(x).view(b, t, c.kv_heads, c.head_dim).transpose(1, 2)
        v = self.attn_v(x).view(b, t, c.kv_heads, c.head_dim).transpose(1, 2)
        if self.neox:
            q, k = self.attn_q_norm(q), self.attn_k_norm(k)
        q = rotate(q, cos, sin, self.neox) / math.sqrt(c.head_dim)
        k = rotate(k, cos, sin, self.neox)
        # The query heads of one KV head are rows of one product.
        group = c.heads // c.kv_heads
        q = q.reshape(b * c.kv_heads, group * t, c.head_dim)
        k = k.reshape(b * c.kv_heads, t, c.head_dim)
        v = v.reshape(b * c.kv_heads, t, c.head_dim)
        s = BatchMatmul.apply(q, k.transpose(1, 2)).view(b, c.heads, t, t) + mask
        p = s.softmax(-1).view(b * c.kv_heads, group * t, t)
        o = BatchMatmul.apply(p, v).view(b, c.heads, t, c.head_dim).transpose(1, 2)
        return self.attn_output(o.reshape(b, t, -1))


class Dense(nn.Module):
    """SwiGLU feed-forward layer."""

    def __init__(self, cfg):
        super().__init__()
        self.ffn_gate = nn.Linear(cfg.width, cfg.ffn, bias=False)
        self.ffn_up = nn.Linear(cfg.width, cfg.ffn, bias=False)
        self.ffn_down = nn.Linear(cfg.ffn, cfg.width, bias=False)

    def forward(self, x):
        return self.ffn_down(F.silu(self.ffn_gate(x)) * self.ffn_up(x))


class Experts(nn.Module):
    """Mixture of SwiGLU experts: softmax over all, top k, renormalised.

    After a forward pass `balance` is the load-balancing loss (1 when even) and
    `load` the share of assignments per expert.
    """

    def __init__(self, cfg):
        super().__init__()
        self.used = cfg.experts_used
        n, e, f = cfg.experts, cfg.width, cfg.ffn
        self.ffn_gate_inp = nn.Linear(e, n, bias=False)
        self.ffn_gate_exps = nn.Parameter(torch.empty(n, f, e))
        self.ffn_up_exps = nn.Parameter(torch.empty(n, f, e))
        self.ffn_down_exps = nn.Parameter(torch.empty(n, e, f))
        self.balance = self.load = None

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        p = self.ffn_gate_inp(x).softmax(-1)
        w, chosen = p.topk(self.used, -1)
        w = w / w.sum(-1, keepdim=True)
        n = p.shape[1]
        flat = chosen.reshape(-1)
        counts = torch.bincount(flat, minlength=n)
        self.load = counts.float() / flat.numel()
        self.balance = n * (self.load * p.mean(0)).sum()
        # Sort the assignments by expert, so that each expert works on one slice.
        order = flat.argsort()
        token = order // self.used
        parts = x.index_select(0, token).split(counts.tolist())
        gates = self.ffn_gate_exps.unbind(0)
        ups = self.ffn_up_exps.unbind(0)
        downs = self.ffn_down_exps.unbind(0)
        outs = [(F.silu(h @ gates[e].t()) * (h @ ups[e].t())) @ downs[e].t()
                for e, h in enumerate(parts)]
        y = torch.cat(outs) * w.reshape(-1).index_select(0, order)[:, None]
        return torch.zeros_like(x).index_add(0, token, y).view(shape)


class Block(nn.Module):
    """Pre-norm transformer block."""

    def __init__(self, cfg):
        super().__init__()
        self.attn_norm = RMSNorm(cfg.width, cfg.eps)
        self.attn = Attention(cfg)
        self.ffn_norm = RMSNorm(cfg.width, cfg.eps)
        self.ffn = Experts(cfg) if cfg.moe else Dense(cfg)

    def forward(self, x, mask, cos, sin):
        x = x + self.attn(self.attn_norm(x), mask, cos, sin)
        return x + self.ffn(self.ffn_norm(x))


class Model(nn.Module):
    """The whole model; the head is tied to the embedding."""

    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.token_embd = nn.Embedding(cfg.vocab, cfg.width)
        self.blk = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.output_norm = RMSNorm(cfg.width, cfg.eps)
        cos, sin = rope_table(cfg, cfg.context)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.init_weights()

    def init_weights(self):
        """Normal initialisation; projections into the residual stream are smaller."""
        scale = 1 / math.sqrt(2 * self.cfg.layers)
        for name, p in self.named_parameters():
            if p.dim() < 2:
                continue
            std = 0.02 if "token_embd" in name else 0.6 / math.sqrt(p.shape[-1])
            if "attn_output" in name or "ffn_down" in name:
                std *= scale
            nn.init.normal_(p, std=std)

    def hidden(self, ids, mask):
        """Final normalised states [B, T, E]; the mask is added to the scores."""
        x = self.token_embd(ids)
        t = ids.shape[1]
        for block in self.blk:
            x = block(x, mask, self.cos[:t], self.sin[:t])
        return self.output_norm(x)

    def forward(self, ids, mask=None):
        """Logits [B, T, V]."""
        if mask is None:
            mask = causal_mask(ids.shape[1])
        return self.hidden(ids, mask) @ self.token_embd.weight.t()

    def balance(self):
        """Mean load-balancing loss of the layers after a forward pass."""
        return sum(b.ffn.balance for b in self.blk) / len(self.blk)


def causal_mask(t):
    """Additive causal mask [t, t]."""
    return torch.full((t, t), float("-inf")).triu(1)


def gguf_names(model):
    """Pairs (GGUF tensor name, tensor) of a model, in file order."""
    for name, tensor in model.state_dict().items():
        name = name.replace(".attn.", ".").replace(".ffn.", ".")
        yield (name if name.endswith(".weight") else name + ".weight"), tensor


def save(path, model, **extra):
    """Write a checkpoint."""
    torch.save({"config": asdict(model.cfg), "weights": model.state_dict(), **extra}, path)


def load(path):
    """Read a checkpoint: (model, everything saved with it)."""
    d = torch.load(path, map_location="cpu")
    model = Model(Config(**d["config"]))
    model.load_state_dict(d["weights"])
    return model.eval(), d
