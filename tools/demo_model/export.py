"""Write a checkpoint as a GGUF file.

    python3 export.py --checkpoint dense.pt --tokenizer tokenizer.json --type q8_0 --out demo.gguf
"""

import argparse

import gguf
from model import gguf_names, load
from tokenizer import SPECIALS, Tokenizer

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
TYPES = {"f16": (gguf.F16, 1), "q8_0": (gguf.Q8_0, 7)}  # tensor type, general.file_type


def metadata(cfg, tok, file_type):
    """All metadata of a model."""
    a = cfg.arch
    name = "Strata demo MoE" if cfg.moe else "Strata demo"
    yield "general.architecture", gguf.STRING, a
    yield "general.name", gguf.STRING, name
    yield "general.description", gguf.STRING, "Short stories and simple questions"
    yield "general.license", gguf.STRING, "mit"
    yield "general.file_type", gguf.U32, file_type
    yield "general.quantization_version", gguf.U32, 2
    yield f"{a}.block_count", gguf.U32, cfg.layers
    yield f"{a}.context_length", gguf.U32, cfg.context
    yield f"{a}.embedding_length", gguf.U32, cfg.width
    yield f"{a}.feed_forward_length", gguf.U32, cfg.ffn * max(1, cfg.experts_used)
    yield f"{a}.attention.head_count", gguf.U32, cfg.heads
    yield f"{a}.attention.head_count_kv", gguf.U32, cfg.kv_heads
    yield f"{a}.attention.key_length", gguf.U32, cfg.head_dim
    yield f"{a}.attention.value_length", gguf.U32, cfg.head_dim
    yield f"{a}.attention.layer_norm_rms_epsilon", gguf.FLOAT, cfg.eps
    yield f"{a}.rope.dimension_count", gguf.U32, cfg.head_dim
    yield f"{a}.rope.freq_base", gguf.FLOAT, cfg.rope_base
    if cfg.moe:
        yield f"{a}.expert_count", gguf.U32, cfg.experts
        yield f"{a}.expert_used_count", gguf.U32, cfg.experts_used
        yield f"{a}.expert_feed_forward_length", gguf.U32, cfg.ffn
    yield f"{a}.vocab_size", gguf.U32, cfg.vocab
    t = "tokenizer.ggml."
    yield t + "model", gguf.STRING, "gpt2"
    yield t + "pre", gguf.STRING, "qwen2"
    yield t + "tokens", (gguf.ARRAY, gguf.STRING), tok.tokens
    yield t + "token_type", (gguf.ARRAY, gguf.I32), [3 if x in SPECIALS else 1 for x in tok.tokens]
    yield t + "merges", (gguf.ARRAY, gguf.STRING), [" ".join(m) for m in tok.merges]
    yield t + "bos_token_id", gguf.U32, tok.bos
    yield t + "eos_token_id", gguf.U32, tok.im_end
    yield t + "padding_token_id", gguf.U32, tok.bos
    yield t + "add_bos_token", gguf.BOOL, True
    yield t + "add_eos_token", gguf.BOOL, False
    yield "tokenizer.chat_template", gguf.STRING, TEMPLATE


def tensors(model, kind):
    """Tensors in file order; norms and the router stay F32."""
    for name, tensor in gguf_names(model):
        full = tensor.dim() < 2 or "ffn_gate_inp" in name
        yield name, tensor.numpy(), gguf.F32 if full else kind


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--checkpoint", required=True)
    p.add_argument("--tokenizer", required=True)
    p.add_argument("--type", choices=TYPES, required=True)
    p.add_argument("--out", required=True)
    args = p.parse_args()
    model, info = load(args.checkpoint)
    kind, file_type = TYPES[args.type]
    gguf.write(args.out, list(metadata(model.cfg, Tokenizer.load(args.tokenizer), file_type)),
               list(tensors(model, kind)))
    print(f"{args.out}: {sum(x.numel() for x in model.parameters())} parameters, "
          f"{info['tokens']} tokens seen")


if __name__ == "__main__":
    main()
