"""Train the tokenizer on generated text and write it as JSON."""

import argparse
import random

from generate import document
from tokenizer import Tokenizer, train_bpe


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", required=True)
    p.add_argument("--vocab", type=int, default=1024)
    p.add_argument("--documents", type=int, default=12000)
    p.add_argument("--seed", type=int, default=7)
    args = p.parse_args()
    rng = random.Random(args.seed)
    texts = ["".join(t for t, _ in document(rng)) for _ in range(args.documents)]
    tokens, merges = train_bpe(texts, args.vocab)
    tok = Tokenizer(tokens, merges)
    tok.save(args.out)
    sample = "".join(texts[:500])
    ids = tok.encode(sample)
    assert tok.decode(ids, specials=True) == sample
    print(f"{len(tokens)} tokens, {len(merges)} merges, "
          f"{len(sample) / len(ids):.2f} characters per token")


if __name__ == "__main__":
    main()
