"""Write the fixed evaluation questions and the held-out stories."""

import argparse

from generate import heldout_stories, questions

COUNTS = {"sum": 40, "difference": 30, "colour": 25, "opposite": 25, "sound": 8, "next": 12,
          "facts": 90}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--questions", required=True)
    p.add_argument("--heldout", required=True)
    p.add_argument("--seed", type=int, default=2026)
    args = p.parse_args()
    with open(args.questions, "w", encoding="utf-8") as f:
        for kind, user, answer in questions(args.seed, COUNTS):
            f.write("\t".join((kind, user.replace("\n", "\\n"), answer)) + "\n")
    with open(args.heldout, "w", encoding="utf-8") as f:
        f.writelines(s + "\n" for s in heldout_stories(args.seed, 12000))


if __name__ == "__main__":
    main()
