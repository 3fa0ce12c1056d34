"""Train a demo model on generated text within a budget of wall time.

    python3 train.py --model dense --tokenizer tokenizer.json --out dense.pt --minutes 45

Documents are generated as training goes, so no text is seen twice on purpose.
They are packed whole into rows; attention does not cross documents.
"""

import argparse
import os
import random
import time

import torch
import torch.nn.functional as F

from generate import document
from model import Model, load, preset, save
from muon import Muon
from tokenizer import Tokenizer


class Packer:
    """Rows of whole documents, with targets, loss weights and document numbers."""

    def __init__(self, tok, seed, heldout=False, drill=False):
        self.tok, self.heldout, self.drill = tok, heldout, drill
        self.rng = random.Random(seed)
        self.pool = []

    def document(self):
        """Token ids and per-token loss weights of a new document."""
        ids, weights = [], []
        for text, weight in document(self.rng, self.heldout, self.drill):
            part = self.tok.encode(text)
            ids += part
            weights += [weight] * len(part)
        return ids, weights

    def row(self, length):
        """Fill one row; longer documents are left out, the rest is padded with weight 0."""
        ids, weights, docs = [], [], []
        while True:
            while len(self.pool) < 48:
                d = self.document()
                if len(d[0]) <= length + 1:
                    self.pool.append(d)
            room = length + 1 - len(ids)
            fits = [i for i, d in enumerate(self.pool) if len(d[0]) <= room]
            if not fits:
                break
            # Any document that fits; near the end the longest one.
            pick = max(fits, key=lambda i: len(self.pool[i][0])) if room < 130 else fits[0]
            d = self.pool.pop(pick)
            docs += [len(docs)] * len(d[0])
            ids += d[0]
            weights += [0.0] + d[1][1:]
        pad = length + 1 - len(ids)
        return (ids + [self.tok.bos] * pad, weights + [0.0] * pad, docs + [-1] * pad)

    def batch(self, rows, length):
        """Inputs, targets, weights [B, T] and the additive mask [B, 1, T, T]."""
        filled = [self.row(length) for _ in range(rows)]
        ids, weights, docs = (torch.tensor(x) for x in zip(*filled))
        docs = docs[:, :-1]
        same = (docs[:, None, :, None] == docs[:, None, None, :]).tril()
        mask = torch.zeros(same.shape).masked_fill_(~same, float("-inf"))
        return ids[:, :-1], ids[:, 1:], weights[:, 1:], mask


def losses(model, batch):
    """Weighted mean loss, and the unweighted mean over the full-weight tokens."""
    ids, targets, weights, mask = batch
    keep = weights.reshape(-1).nonzero()[:, 0]
    h = model.hidden(ids, mask).reshape(ids.numel(), -1).index_select(0, keep)
    logits = h @ model.token_embd.weight.t()
    each = F.cross_entropy(logits, targets.reshape(-1)[keep], reduction="none")
    w = weights.reshape(-1)[keep]
    return (each * w).sum() / w.sum(), each.detach()[w >= 1].mean()


@torch.no_grad()
def evaluate(model, batches):
    """Mean full-weight loss over fixed batches."""
    model.eval()
    total = sum(losses(model, b)[1].item() for b in batches) / len(batches)
    model.train()
    return total


def learning_rate(progress, peak):
    """Linear warm-up over 3 % of the budget, then linear decay to zero."""
    return peak * min(progress / 0.03, (1 - progress) / 0.97)


def make_optimizers(model, muon):
    """AdamW; or Muon for the matrices of the blocks and AdamW for the rest."""
    matrices, others, vectors = [], [], []
    for name, p in model.named_parameters():
        if p.dim() < 2:
            vectors.append(p)
        elif "token_embd" in name or "ffn_gate_inp" in name:
            others.append(p)
        else:
            matrices.append(p)
    if not muon:
        others += matrices
    adam = torch.optim.AdamW([{"params": others, "weight_decay": 0.05},
                              {"params": vectors, "weight_decay": 0.0}],
                             lr=0.0, betas=(0.9, 0.98), eps=1e-9, foreach=True)
    return [adam, Muon(matrices, lr=0.0, weight_decay=0.05)] if muon else [adam]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--model", choices=["dense", "moe"], required=True)
    p.add_argument("--tokenizer", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--minutes", type=float, required=True)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--tokens", type=int, default=4096, help="tokens per step")
    p.add_argument("--long-from", type=float, default=0.6,
                   help="share of the budget after which rows have 512 instead of 256 tokens")
    p.add_argument("--balance", type=float, default=0.01, help="weight of the load-balancing loss")
    p.add_argument("--muon", action="store_true", help="train the matrices with Muon")
    p.add_argument("--drill", action="store_true", help="mostly questions, fewer stories")
    p.add_argument("--init", help="start from the weights of this checkpoint")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(args.seed)
    tok = Tokenizer.load(args.tokenizer)
    seen = 0
    if args.init:
        model, before = load(args.init)
        seen = before["tokens"]
        model.train()
    else:
        model = Model(preset(args.model, len(tok.tokens)))
    optimizers = make_optimizers(model, args.muon)
    print(f"{sum(x.numel() for x in model.parameters())} parameters", flush=True)

    data = Packer(tok, args.seed, drill=args.drill)
    held = Packer(tok, 999, heldout=True)
    checks = [held.batch(16, 256) for _ in range(3)]
    start = last_save = last_log = time.time()
    step = logged = 0
    recent = []
    while True:
        progress = (time.time() - start) / (60 * args.minutes)
        if progress >= 1:
            break
        length = 512 if progress >= args.long_from else 256
        for opt in optimizers:
            for group in opt.param_groups:
                group["lr"] = learning_rate(progress, args.lr)
        batch = data.batch(args.tokens // length, length)
        loss, plain = losses(model, batch)
        total = loss + args.balance * model.balance() if model.cfg.moe else loss
        model.zero_grad(set_to_none=True)
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in optimizers:
            opt.step()
        step += 1
        seen += args.tokens
        logged += args.tokens
        recent.append(plain.item())
        now = time.time()
        if now - last_log > 30:
            line = (f"{(now - start) / 60:6.2f} min  step {step}  tokens {seen / 1e6:.2f} M  "
                    f"{logged / (now - last_log):.0f} tok/s  loss {sum(recent) / len(recent):.4f}")
            if model.cfg.moe:
                loads = [b.ffn.load for b in model.blk]
                line += "  expert load " + " ".join(
                    f"{100 * x.min():.1f}-{100 * x.max():.1f}%" for x in loads)
            print(line, flush=True)
            last_log, logged, recent = now, 0, []
        if step % 500 == 0:
            print(f"held-out {evaluate(model, checks):.4f}", flush=True)
        if now - last_save > 150:
            save(args.out + ".tmp", model, tokens=seen, steps=step, minutes=(now - start) / 60)
            os.replace(args.out + ".tmp", args.out)
            last_save = now
    save(args.out, model, tokens=seen, steps=step, minutes=args.minutes)
    print(f"done: {step} steps, {seen} tokens, held-out {evaluate(model, checks):.4f}", flush=True)


if __name__ == "__main__":
    main()
