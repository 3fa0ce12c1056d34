#!/usr/bin/env python3
"""Writes tokenizer_pieces.txt: how the models' own patterns cut texts, by another regex engine.

The patterns are those of the published tokenizer files, run by Python's `regex` module as
Hugging Face's `Split(isolated)` runs them: each pattern cuts every piece that the ones before it
left, and what a pattern does not match stays in pieces of its own.

    python3 tests/text/tokenizer_pieces.py > tests/text/tokenizer_pieces.txt

Format: a line `rule`, then per text a line `hex-of-UTF-8 length,length,...` (bytes per piece).
With `--random SEED COUNT` random texts are used in place of the fixed ones.
"""
import random
import sys

import regex

SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
LOWER = r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
LEAD = r"[^\r\n\p{L}\p{N}]?"
PUNCT = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
PUNCT_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def cased(upper, lower, tail):
    return [f"{LEAD}{upper}*{lower}+{tail}", f"{LEAD}{upper}+{lower}*{tail}"]


def one(*alternatives):
    return ["|".join(alternatives)]


LLAMA3 = one(CONTRACTION, LEAD + r"\p{L}+", r"\p{N}{1,3}", PUNCT, SPACES)
RULES = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "llama-bpe": LLAMA3,
    "dbrx": LLAMA3,
    "glm4": LLAMA3,
    "qwen2": one(CONTRACTION, LEAD + r"\p{L}+", r"\p{N}", PUNCT, SPACES),
    "qwen35": one(CONTRACTION, LEAD + r"[\p{L}\p{M}]+", r"\p{N}",
                  r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*", SPACES),
    "gpt-4o": one(*cased(f"[{UPPER}]", f"[{LOWER}]", CONTRACTION + "?"), r"\p{N}{1,3}",
                  PUNCT_SLASH, SPACES),
    "tekken": one(*cased(f"[{UPPER}]", f"[{LOWER}]", ""), r"\p{N}", PUNCT_SLASH, SPACES),
    "kimi-k2": one(r"[\p{Han}]+",
                   *cased(rf"[[{UPPER}]&&[^\p{{Han}}]]", rf"[[{LOWER}]&&[^\p{{Han}}]]",
                          CONTRACTION + "?"), r"\p{N}{1,3}", PUNCT, SPACES),
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
                    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]\^_`{|}\~][A-Za-z]+"""
                    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + SPACES],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+", r"\p{N}"],
    "gpt-2": [GPT2],
    "starcoder": [r"\p{N}", GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
}

TEXTS = [
    "Hello, world! It's 1234567 o'clock; we'Ve, I'LL, she'd 'tis.",
    "  two  spaces   then\ttab\t\tand \n\n  newline  \r\n\r\n end   ",
    "\n", "\n\n\n", " \n \n", "   ", " x", "x ", "\r\n", "\t\n\t x", " \n  \n   y",
    "price: $3.50/kg (50%), 1,234,567.89 + 1e-10 = ?",
    "a/b//c/ d/\n/e \n/", "?!/\n\n/x", "foo//\r\nbar",
    "CamelCaseHTTPServer XMLHttpRequest iPhone aB AB Ab",
    "ÀÉÎ éèêë Ünïcödé naïve Straße ǅ ǆ Ǆ",
    "нещо на Български Привет МИР",
    "こんにちは世界カタカナ漢字とひらがな", "中文和English混合123中文", "한국어 텍스트 조각",
    "עברית שָׁלוֹם العَرَبِيَّة ١٢٣٤", "हिन्दी में कुछ शब्द क्षत्रिय", "ไทยไม่มีช่องว่าง ๑๒๓",
    "កាន់តែពិសេសអាចខលចេញ", "e\u0301a\u0300 \u0301\u0301 x\u0301\u0301y \u0301",
    "🚀 (normal) 😶‍🌫️ ✅ 👨‍👩‍👧‍👦🏳️‍🌈", "½ ² ³ Ⅷ ① ٣ 〇 々 〡〢",
    "def f(x):\n    return x**2  # comment\n\n\nclass A:\n\tpass\n",
    "<|im_start|>user\n<think>", "'S 'T 'RE 'VE 'M 'LL 'D '\u017f don't DON'T dont't",
    "\u00a0nbsp\u00a0\u2003em\u2003\u3000wide\u3000\u0085nel\u2028ls\u2029ps", "\u180e mvs\u180e\u180ex",
    "\u200b zwsp\u200bx\u200d\ufeffbom", "\x00\x01 a\x00b \x7f", "\u0378 unassigned \ue000 private",
    "!!!!!! ------ ======= ''''''``````\"\"\"\"......??????", "«quotes» “curly” ‘single’ —dash– …",
    "x² + y³ ≠ ∑∫√ ∞ ≤ ≥ ∈ ℝ", "_snake_case_ __init__ a_b", "#tag @user $VAR %x &amp; ^caret ~tilde`tick|pipe",
    "1 12 123 1234 12345 123456 1234567", "３.１４ １２３４", "v1.2.3-rc4+build5", "a1b2c3 1a2b3c",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚 𐐷𐐀", "ʰʲˠ ˈstress ːlong", "ªº ⓐⓑ Ⓐ", "Ⅰⅱ ↀ 〹", "、。！？「」・ー〜", "㐀𠀀 豈 ⺀ ⼀ 㐂",
]

POOL = ["a", "b", "z", "A", "Z", "é", "É", "ß", "ǅ", "ʰ", "ª", "я", "Я", "中", "文", "々", "〇", "か", "カ",
        "ー", "가", "ᄀ", "ا", "َ", "ק", "ि", "ह", "ไ", "่", "\u0301", "\u0323", "\u20dd", "0", "1", "9",
        "٣", "½", "Ⅷ", "²", " ", " ", " ", "\t", "\n", "\n", "\r", "\u00a0", "\u3000", "\u2028", "\u0085",
        "\u180e", "\u200b", "'", "'", "s", "t", "re", "VE", "m", "LL", "d", "S", ".", ",", "!", "/", "-",
        "_", "$", "+", "<", "^", "~", "|", "`", "€", "™", "°", "🚀", "\u200d", "\ufe0f", "\x00", "\x7f",
        "\u0378", "\ue000", "\ufffd", "𝔘", "𝟘", "𐐷", "㐀", "⺀", "𠀀", "。", "「", "\u2019", "ſ", "\u212a"]


def cut(patterns, text):
    pieces = [text]
    for pattern in patterns:
        compiled = regex.compile(pattern, regex.V1)
        result = []
        for piece in pieces:
            at = 0
            for match in compiled.finditer(piece):
                if match.start() > at:
                    result.append(piece[at:match.start()])
                if match.end() > match.start():
                    result.append(match.group())
                at = match.end()
            if at < len(piece):
                result.append(piece[at:])
        pieces = result
    return pieces


def main():
    texts = TEXTS
    if len(sys.argv) > 1:
        random.seed(int(sys.argv[2]))
        texts = ["".join(random.choices(POOL, k=random.randint(1, 40)))
                 for _ in range(int(sys.argv[3]))]
    for name, patterns in RULES.items():
        print(name)
        for text in texts:
            lengths = [str(len(piece.encode())) for piece in cut(patterns, text)]
            print(text.encode().hex(), ",".join(lengths))


if __name__ == "__main__":
    main()
