"""Training and held-out documents for the demo models.

Run as a script to look at the text:

    python3 generate.py --count 5 [--heldout] [--seed 1]
"""

import argparse
import random

from chats import KINDS, conversation
from stories import story

BOS, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
# Share of plain stories among the documents (they are the long ones).
STORY_SHARE, DRILL_STORY_SHARE = 0.36, 0.10

# Loss weights by the role of the text.
PLAIN, PROMPT, SHORT_ANSWER = 1.0, 0.15, 3.0


def chat_prompt(turns, system=""):
    """ChatML text of the turns; a turn without an answer leaves the reply open."""
    text = BOS
    if system:
        text += f"{START}system\n{system}{END}\n"
    for user, answer in turns:
        text += f"{START}user\n{user}{END}\n{START}assistant\n"
        if answer is not None:
            text += f"{answer}{END}\n"
    return text


def document(rng, heldout=False, drill=False):
    """One document as a list of (text, loss weight) parts; `drill` stresses questions."""
    if rng.random() < (DRILL_STORY_SHARE if drill else STORY_SHARE):
        return [(BOS, 0.0), (story(rng, heldout).text, PLAIN), (BOS, PLAIN)]
    system, turns = conversation(rng, heldout, drill)
    head = BOS + (f"{START}system\n{system}{END}\n" if system else "")
    parts = []
    for user, answer in turns:
        parts.append((f"{head}{START}user\n{user}{END}\n{START}assistant\n", PROMPT))
        weight = PLAIN if len(answer) > 80 else SHORT_ANSWER
        parts.append((f"{answer}{END}", weight))
        head = "\n"
    return parts


def heldout_stories(seed, characters):
    """About `characters` of held-out stories, each as one paragraph."""
    rng, out = random.Random(seed), []
    while sum(map(len, out)) < characters:
        out.append(story(rng, heldout=True).text.replace("\n\n", " "))
    return out


def questions(seed, counts):
    """Fixed evaluation questions: unique (kind, user message, answer) rows.

    Scenes come from held-out combinations; the finite kinds are sampled.
    """
    rng, rows, seen = random.Random(seed), [], set()
    for kind, count in counts.items():
        while count:
            user, answer = KINDS[kind](rng, True)[0]
            if user not in seen:
                seen.add(user)
                rows.append((kind, user, answer))
                count -= 1
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--count", type=int, default=5)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--heldout", action="store_true")
    args = p.parse_args()
    rng = random.Random(args.seed)
    for _ in range(args.count):
        print("".join(t for t, _ in document(rng, args.heldout)))
        print("-" * 70)


if __name__ == "__main__":
    main()
