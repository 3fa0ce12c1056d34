"""Byte-level BPE: training, encoding and decoding (GGUF "gpt2" model, "qwen2" split)."""

import json
from collections import Counter, defaultdict

import regex

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

# contractions, words with one optional lead character, single digits,
# punctuation, newlines, white space
SPLIT = regex.compile(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_alphabet():
    """Printable stand-ins for the 256 bytes, in vocabulary order."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in plain}
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + len(table) - len(plain))
    return table


BYTES = byte_alphabet()
UNBYTES = {c: b for b, c in BYTES.items()}


CUT = regex.compile("(" + "|".join(regex.escape(s) for s in SPECIALS) + ")")


def train_bpe(texts, vocab_size):
    """Learn merges from the texts; returns (tokens, merges)."""
    words = Counter()
    for text in texts:
        for part in CUT.split(text):
            if part not in SPECIALS:
                words.update(SPLIT.findall(part))
    words = Counter({"".join(BYTES[b] for b in w.encode()): n for w, n in words.items()})
    parts = {w: list(w) for w in words}
    tokens = list(BYTES.values())
    merges = []
    pairs, where = Counter(), defaultdict(set)
    for w, n in words.items():
        for p in zip(parts[w], parts[w][1:]):
            pairs[p] += n
            where[p].add(w)
    while len(tokens) < vocab_size - len(SPECIALS) and pairs:
        best = max(pairs, key=lambda p: (pairs[p], p))
        if pairs[best] < 1:
            break
        merges.append(best)
        if best[0] + best[1] not in tokens:
            tokens.append(best[0] + best[1])
        for w in list(where[best]):
            n, old = words[w], parts[w]
            for p in zip(old, old[1:]):
                pairs[p] -= n
                where[p].discard(w)
            parts[w] = merge(old, best)
            for p in zip(parts[w], parts[w][1:]):
                pairs[p] += n
                where[p].add(w)
        pairs.pop(best, None)
    return tokens + SPECIALS, merges


def merge(parts, pair):
    """Join every occurrence of the pair, from the left."""
    out, i = [], 0
    while i < len(parts):
        if i + 1 < len(parts) and (parts[i], parts[i + 1]) == pair:
            out.append(parts[i] + parts[i + 1])
            i += 2
        else:
            out.append(parts[i])
            i += 1
    return out


class Tokenizer:
    """Encoder and decoder over a token list and its merges."""

    def __init__(self, tokens, merges):
        self.tokens, self.merges = tokens, [tuple(m) for m in merges]
        self.ids = {t: i for i, t in enumerate(tokens)}
        self.rank = {m: i for i, m in enumerate(self.merges)}
        self.bos, self.im_start, self.im_end = (self.ids[s] for s in SPECIALS)
        self.cache = {}

    @classmethod
    def load(cls, path):
        """Read the tokenizer from its JSON file."""
        with open(path, encoding="utf-8") as f:
            d = json.load(f)
        return cls(d["tokens"], d["merges"])

    def save(self, path):
        """Write the tokenizer as JSON."""
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"tokens": self.tokens, "merges": self.merges}, f, ensure_ascii=False)

    def piece(self, word):
        """Ids of one pre-split piece."""
        ids = self.cache.get(word)
        if ids is None:
            parts = [BYTES[b] for b in word.encode()]
            while len(parts) > 1:
                best = min(zip(parts, parts[1:]), key=lambda p: self.rank.get(p, 1 << 30))
                if best not in self.rank:
                    break
                parts = merge(parts, best)
            ids = self.cache[word] = [self.ids[p] for p in parts]
        return ids

    def encode(self, text):
        """Ids of a text; special tokens written in the text are recognised."""
        out = []
        for part in CUT.split(text):
            if part in SPECIALS:
                out.append(self.ids[part])
            else:
                for word in SPLIT.findall(part):
                    out += self.piece(word)
        return out

    def decode(self, ids, specials=False):
        """Text of the ids."""
        data = b""
        for i in ids:
            t = self.tokens[i]
            if t in SPECIALS:
                data += t.encode() if specials else b""
            else:
                data += bytes(UNBYTES[c] for c in t)
        return data.decode("utf-8", "replace")
