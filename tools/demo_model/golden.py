"""Write greedy continuations of the demo files as test vectors.

    python3 golden.py --out demo-golden.json demo-f16.gguf ...

Each case has a text prompt (special tokens written out), its token ids and the
next ids under greedy decoding with float32 arithmetic on the dequantised weights.
`margin` is the smallest gap between the two best logits on the way: a
continuation is only a fair test where it is not tiny.
"""

import argparse
import json
import os

import torch

from generate import chat_prompt
from infer import open_gguf

SCENE = ("Mia went to the lake. She found a red kite. Ben was in the barn.\n"
         "What colour was the kite?")
PROMPTS = ["<|endoftext|>Once upon a time",
           chat_prompt([("Tell me a story about a fox.", None)]),
           chat_prompt([("What is 3 + 4?", "7"), (SCENE, None)], "You are a helpful assistant.")]


@torch.no_grad()
def continuation(model, ids, count):
    """(ids, smallest margin) of `count` greedy steps; end tokens do not stop."""
    ids, margin, out = list(ids), float("inf"), []
    for _ in range(count):
        best = model(torch.tensor([ids]))[0, -1].topk(2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        out.append(int(best.indices[0]))
        ids.append(out[-1])
    return out, margin


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--out", required=True)
    p.add_argument("--count", type=int, default=32)
    p.add_argument("models", nargs="+")
    args = p.parse_args()
    torch.set_num_threads(1)
    result = {}
    for path in args.models:
        model, tok = open_gguf(path)
        cases = result[os.path.basename(path)] = []
        for prompt in PROMPTS:
            ids = tok.encode(prompt)
            out, margin = continuation(model, ids, args.count)
            cases.append({"prompt": prompt, "ids": ids, "greedy": out, "margin": round(margin, 4),
                          "text": tok.decode(out, specials=True)})
    with open(args.out, "w", encoding="utf-8") as f:
        body = ",\n".join(
            f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]"
            for name, cases in result.items())
        f.write("{\n" + body + "\n}\n")


if __name__ == "__main__":
    main()
