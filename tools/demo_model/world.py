"""The small world of the demo stories: people, animals, places, things.

Everything the generator talks about is listed here, so that the world stays
small enough for a model of a few million parameters to learn completely.
"""

import zlib
from dataclasses import dataclass

GIRLS = ["Mia", "Lily", "Anna", "Rosa", "Nora", "Emma", "Zoe", "Ella", "Lucy", "Ruby"]
BOYS = ["Tom", "Ben", "Max", "Sam", "Leo", "Finn", "Jack", "Oscar", "Noah", "Hugo"]

# Animal characters have their own names.
SHE_ANIMALS = ["Coco", "Daisy", "Poppy", "Pepper"]
HE_ANIMALS = ["Pip", "Bruno", "Momo", "Biscuit"]
ANIMALS = ["cat", "dog", "rabbit", "fox", "bear", "mouse", "duck", "pig",
           "goat", "frog", "owl", "turtle", "squirrel", "hedgehog"]

# place -> preposition used for "being there"
PLACES = {
    "garden": "in", "park": "in", "forest": "in", "meadow": "in", "kitchen": "in",
    "barn": "in", "village": "in", "library": "in", "beach": "at", "market": "at",
    "school": "at", "farm": "on", "hill": "on", "bridge": "on", "river": "by",
    "lake": "by",
}
OUTDOOR = ["garden", "park", "forest", "meadow", "village", "beach", "farm",
           "hill", "river", "lake"]

OBJECTS = ["ball", "kite", "hat", "book", "cup", "key", "boat", "drum", "bell",
           "box", "basket", "lamp", "scarf", "shell", "coin", "doll", "bucket",
           "umbrella", "ribbon", "stone"]
COLOURS = ["red", "blue", "green", "yellow", "white", "black", "brown", "pink",
           "purple", "orange"]
FOODS = ["apple", "pear", "cake", "cookie", "carrot", "plum", "sandwich", "pie"]
SPOTS = ["under the tree", "behind the door", "under the bench", "behind the wall",
         "in the grass", "under the bed", "next to the gate", "behind the stone"]

GENERAL_COLOURS = {
    "grass": "green", "the sky": "blue", "the sun": "yellow", "snow": "white",
    "coal": "black", "a lemon": "yellow", "a banana": "yellow", "a tomato": "red",
    "a strawberry": "red", "a carrot": "orange", "a pumpkin": "orange",
    "chocolate": "brown", "a frog": "green", "a crow": "black", "milk": "white",
    "a leaf": "green", "the sea": "blue", "a cherry": "red", "a plum": "purple",
    "a pig": "pink", "an orange": "orange", "salt": "white", "a bear": "brown",
    "a cloud": "white", "the night": "black", "a cucumber": "green",
}
OPPOSITES = {
    "hot": "cold", "cold": "hot", "big": "small", "small": "big", "up": "down",
    "down": "up", "day": "night", "night": "day", "happy": "sad", "sad": "happy",
    "fast": "slow", "slow": "fast", "old": "young", "young": "old", "new": "old",
    "open": "closed", "closed": "open", "light": "dark", "dark": "light",
    "wet": "dry", "dry": "wet", "high": "low", "low": "high", "left": "right",
    "right": "left", "good": "bad", "bad": "good", "full": "empty",
    "empty": "full", "hard": "soft", "soft": "hard", "early": "late",
    "late": "early", "loud": "quiet", "quiet": "loud", "strong": "weak",
    "weak": "strong", "long": "short", "short": "long", "in": "out", "out": "in",
    "clean": "dirty", "dirty": "clean", "first": "last", "last": "first",
    "black": "white", "white": "black", "near": "far", "far": "near",
}
SOUNDS = {
    "cow": "Moo", "dog": "Woof", "cat": "Meow", "duck": "Quack", "sheep": "Baa",
    "pig": "Oink", "owl": "Hoo", "mouse": "Squeak", "frog": "Croak", "lion": "Roar",
}


@dataclass(frozen=True)
class Being:
    """A named character: a child or an animal."""

    name: str
    kind: str  # "girl", "boy" or an animal
    she: bool

    @property
    def sub(self):
        """Subject pronoun."""
        return "she" if self.she else "he"

    @property
    def Sub(self):
        """Subject pronoun at the start of a sentence."""
        return "She" if self.she else "He"

    @property
    def obj(self):
        """Object pronoun."""
        return "her" if self.she else "him"

    @property
    def pos(self):
        """Possessive."""
        return "her" if self.she else "his"


def a(phrase):
    """The phrase with its indefinite article."""
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


def cap(text):
    """The text with its first letter in upper case."""
    return text[0].upper() + text[1:]


def at(place):
    """Being at a place: "in the park"."""
    return f"{PLACES[place]} the {place}"


def being(rng, exclude=(), children_only=False):
    """Draw a character whose name and kind are not those of `exclude`."""
    names = {b.name for b in exclude}
    kinds = {b.kind for b in exclude}
    while True:
        she = rng.random() < 0.5
        if children_only or rng.random() < 0.62:
            who = Being(rng.choice(GIRLS if she else BOYS), "girl" if she else "boy", she)
            if who.name not in names:
                return who
        else:
            who = Being(rng.choice(SHE_ANIMALS if she else HE_ANIMALS), rng.choice(ANIMALS), she)
            if who.name not in names and who.kind not in kinds:
                return who


def held_out(*combination):
    """Whether this combination is kept out of the training text (one in twelve)."""
    return zlib.crc32("/".join(combination).encode()) % 12 == 0
