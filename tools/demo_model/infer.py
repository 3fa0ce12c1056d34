"""Load a GGUF file into the PyTorch model and decode greedily.

The weights are the values in the file (dequantised), the arithmetic is float32.
"""

import torch

from gguf import Reader
from model import Config, Model, gguf_names
from tokenizer import Tokenizer


def open_gguf(path):
    """(model, tokenizer) of a demo GGUF file."""
    r = Reader(path)
    m = r.metadata
    a = m["general.architecture"]

    def key(name, default=0):
        return m.get(f"{a}.{name}", default)

    experts = key("expert_count")
    cfg = Config(a, len(m["tokenizer.ggml.tokens"]), key("block_count"), key("embedding_length"),
                 key("attention.head_count"), key("attention.head_count_kv"),
                 key("attention.key_length"),
                 key("expert_feed_forward_length") if experts else key("feed_forward_length"),
                 experts, key("expert_used_count"), key("rope.freq_base"), key("context_length"),
                 key("attention.layer_norm_rms_epsilon"))
    model = Model(cfg).eval()
    with torch.no_grad():
        named = dict(gguf_names(model))
        if named.keys() != r.tensors.keys():
            raise ValueError("unexpected tensors")
        for name, tensor in named.items():
            tensor.copy_(torch.from_numpy(r.tensors[name]))
    merges = [x.split(" ", 1) for x in m["tokenizer.ggml.merges"]]
    return model, Tokenizer(m["tokenizer.ggml.tokens"], merges)


@torch.no_grad()
def greedy(model, tok, prompts, limit):
    """Greedy continuations (lists of ids) of equally treated prompts, as one batch.

    Prompts are right-padded; a finished row (end of turn or of document) stops.
    """
    rows = [list(p) for p in prompts]
    out = [[] for _ in rows]
    alive = list(range(len(rows)))
    for _ in range(limit):
        if not alive:
            break
        longest = max(len(rows[i]) for i in alive)
        ids = torch.tensor([rows[i] + [tok.bos] * (longest - len(rows[i])) for i in alive])
        logits = model(ids)
        nxt = [int(logits[j, len(rows[i]) - 1].argmax()) for j, i in enumerate(alive)]
        for i, n in zip(alive, nxt):
            out[i].append(n)
            rows[i].append(n)
        alive = [i for i, n in zip(alive, nxt) if n not in (tok.bos, tok.im_end)]
    return out
