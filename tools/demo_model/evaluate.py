"""Evaluate demo GGUF files: question accuracy, held-out perplexity, samples.

    python3 evaluate.py --questions demo-questions.tsv --heldout demo-heldout.txt demo.gguf ...
"""

import argparse
import math
from collections import defaultdict

import torch

from generate import chat_prompt
from infer import greedy, open_gguf


def read_questions(path):
    """Rows (kind, user message, answer)."""
    with open(path, encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f if line.strip()]
    return [(k, u.replace("\\n", "\n"), x) for k, u, x in rows]


def accuracy(model, tok, rows):
    """({kind: (right, asked)}, wrong rows with the given answer)."""
    score, wrong = defaultdict(lambda: [0, 0]), []
    rows = sorted(rows, key=lambda r: len(r[1]))
    for i in range(0, len(rows), 32):
        part = rows[i:i + 32]
        prompts = [tok.encode(chat_prompt([(user, None)])) for _, user, _ in part]
        for (kind, user, answer), ids in zip(part, greedy(model, tok, prompts, 16)):
            said = tok.decode(ids).strip()
            score[kind][0] += said == answer
            score[kind][1] += 1
            if said != answer:
                wrong.append((kind, user, answer, said))
    return score, wrong


@torch.no_grad()
def perplexity(model, tok, text):
    """Perplexity of the stories (one per line), each as a document of its own."""
    total = count = 0
    for story in text.splitlines():
        ids = torch.tensor([[tok.bos] + tok.encode(story) + [tok.bos]])
        logp = model(ids[:, :-1]).log_softmax(-1)
        total -= logp.gather(2, ids[:, 1:, None]).sum().item()
        count += ids.shape[1] - 1
    return math.exp(total / count), total / count, count


@torch.no_grad()
def expert_usage(model, tok, text):
    """Share of the assignments per expert and layer on the text (MoE only)."""
    model(torch.tensor([[tok.bos] + tok.encode(text)[:500]]))
    return [b.ffn.load for b in model.blk]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--questions", required=True)
    p.add_argument("--heldout", required=True)
    p.add_argument("--errors", action="store_true", help="list the wrong answers")
    p.add_argument("--samples", action="store_true", help="print greedy samples")
    p.add_argument("models", nargs="+")
    args = p.parse_args()
    torch.set_num_threads(1)
    rows = read_questions(args.questions)
    with open(args.heldout, encoding="utf-8") as f:
        text = f.read()
    for path in args.models:
        model, tok = open_gguf(path)
        score, wrong = accuracy(model, tok, rows)
        ppl, loss, count = perplexity(model, tok, text)
        print(f"{path}: held-out loss {loss:.4f}, perplexity {ppl:.3f} over {count} tokens")
        right = sum(s[0] for s in score.values())
        print("  " + ", ".join(f"{k} {s[0]}/{s[1]}" for k, s in score.items())
              + f", all {right}/{len(rows)} ({100 * right / len(rows):.1f} %)")
        if model.cfg.moe:
            for i, load in enumerate(expert_usage(model, tok, text)):
                print(f"  layer {i} expert use in %: " + " ".join(f"{100 * x:.1f}" for x in load))
        if args.errors:
            for kind, user, answer, said in wrong:
                print(f"  {kind}: {user!r} expected {answer!r}, got {said!r}")
        if args.samples:
            prompts = ["<|endoftext|>Once upon a time", "<|endoftext|>One day, Mia",
                       chat_prompt([("Tell me a story about a fox.", None)]),
                       chat_prompt([("Who are you?", None)])]
            for prompt in prompts:
                ids, = greedy(model, tok, [tok.encode(prompt)], 200)
                print("-" * 60 + "\n" + prompt + tok.decode(ids))


if __name__ == "__main__":
    main()
