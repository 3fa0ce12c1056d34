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
# Used only in question scenes, so that copying works beyond the core world.
MORE_GIRLS = ["Alice", "Sara", "Julia", "Maria", "Kate", "Grace", "Helen", "Nina", "Olga",
              "Tina", "Vera", "Linda", "Susan", "Jane", "Eva", "Amy"]
MORE_BOYS = ["Peter", "John", "Paul", "David", "Mark", "Simon", "Adam", "Eric", "Felix",
             "Henry", "Ivan", "Luke", "Martin", "Oliver", "Robert", "Victor"]
MORE_PLACES = {"zoo": "at", "museum": "in", "station": "at", "shop": "in", "office": "in",
               "pool": "at", "castle": "in", "tower": "in", "island": "on", "field": "in"}
MORE_OBJECTS = ["camera", "pencil", "jacket", "bottle", "watch", "ring", "guitar", "bike",
                "chair", "ladder", "mirror", "candle", "letter", "pillow", "hammer", "knife"]
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
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
# One thing that is true of each outdoor place.
SCENERY = {
    "garden": ["The flowers smelled sweet.", "The garden was full of flowers."],
    "park": ["Many children played there.", "The birds sang in the trees."],
    "forest": ["The trees were tall and green.", "It was quiet in the forest."],
    "meadow": ["The grass was soft and green.", "There were flowers everywhere."],
    "village": ["The houses were small and pretty.", "People smiled and said hello."],
    "beach": ["The sand was warm.", "The waves were big and blue."],
    "farm": ["The cows said moo.", "The hens ran around."],
    "hill": ["From there, you could see far away.", "The wind was strong on the hill."],
    "river": ["The water was cold and clear.", "Small fish swam in the water."],
    "lake": ["The water was still and blue.", "Some ducks swam on the lake."],
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

    @property
    def Pos(self):
        """Possessive at the start of a sentence."""
        return cap(self.pos)


def a(phrase):
    """The phrase with its indefinite article."""
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


def cap(text):
    """The text with its first letter in upper case."""
    return text[0].upper() + text[1:]


def at(place):
    """Being at a place: "in the park"."""
    return f"{PLACES.get(place) or MORE_PLACES[place]} the {place}"


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


def stranger(rng, exclude=()):
    """Draw a child with a name from outside the stories."""
    names = {b.name for b in exclude}
    while True:
        she = rng.random() < 0.5
        name = rng.choice(MORE_GIRLS if she else MORE_BOYS)
        if name not in names:
            return Being(name, "girl" if she else "boy", she)


def held_out(*combination):
    """Whether this combination is kept out of the training text (one in twelve)."""
    return zlib.crc32("/".join(combination).encode()) % 12 == 0
