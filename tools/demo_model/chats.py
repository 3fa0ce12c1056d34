"""Questions and answers in chat form.

Every generator returns a list of (user, assistant) turns of one kind; the kinds
that can be scored give short answers, so that exact match is meaningful.
"""

from stories import story
from world import (COLOURS, DAYS, FOODS, GENERAL_COLOURS, MORE_OBJECTS, MORE_PLACES, OBJECTS,
                   OPPOSITES, PLACES, SOUNDS, SPOTS, a, at, being, cap, held_out, stranger)

SYSTEMS = ["You are a helpful assistant.", "You are a friendly assistant.",
           "You are a small model that tells stories.", "Answer in a few words."]


def sums(rng, _heldout=False):
    """a + b with both in 0..10."""
    x, y = rng.randint(0, 10), rng.randint(0, 10)
    q = rng.choice([f"What is {x} + {y}?", f"What is {x} + {y}?", f"{x} + {y} = ?",
                    f"How much is {x} plus {y}?", f"What is {x} plus {y}?"])
    return [(q, str(x + y))]


def differences(rng, _heldout=False):
    """a - b with 0 <= b <= a <= 10."""
    x = rng.randint(0, 10)
    y = rng.randint(0, x)
    q = rng.choice([f"What is {x} - {y}?", f"What is {x} - {y}?", f"{x} - {y} = ?",
                    f"How much is {x} minus {y}?", f"What is {x} minus {y}?"])
    return [(q, str(x - y))]


def colours(rng, _heldout=False):
    """General knowledge of colours."""
    thing, colour = rng.choice(list(GENERAL_COLOURS.items()))
    word = rng.choice(["colour", "colour", "color"])
    q = rng.choice([f"What {word} is {thing}?", f"What {word} is {thing}?",
                    f"Tell me the {word} of {thing}."])
    return [(q, f"{cap(colour)}.")]


def opposites(rng, _heldout=False):
    """Opposites of common words."""
    word, other = rng.choice(list(OPPOSITES.items()))
    q = rng.choice([f"What is the opposite of {word}?", f"What is the opposite of {word}?",
                    f"Tell me the opposite of {word}."])
    return [(q, f"{cap(other)}.")]


def sounds(rng, _heldout=False):
    """Animal sounds."""
    animal, sound = rng.choice(list(SOUNDS.items()))
    q = rng.choice([f"What does {a(animal)} say?", f"What sound does {a(animal)} make?"])
    return [(q, f"{sound}.")]


def following(rng, _heldout=False):
    """The number or the day that comes next."""
    if rng.random() < 0.6:
        n = rng.randint(0, 19)
        q = rng.choice([f"What comes after {n}?", f"What number comes after {n}?"])
        return [(q, str(n + 1))]
    i = rng.randrange(7)
    q = rng.choice([f"What day comes after {DAYS[i]}?", f"Which day comes after {DAYS[i]}?"])
    return [(q, f"{DAYS[(i + 1) % 7]}.")]


SMALL_TALK = [
    (["Hello", "Hello!", "Hi", "Hi!", "Hello there!", "Hey"], "Hello! How can I help you?"),
    (["Good morning", "Good morning!"], "Good morning! How can I help you?"),
    (["How are you?", "How are you today?"], "I am fine, thank you. How are you?"),
    (["Who are you?", "What are you?", "What is your name?"],
     "I am the Strata demo model. I am very small, but I can tell stories."),
    (["What can you do?", "Can you help me?", "Help"],
     "I can tell short stories and answer simple questions."),
    (["Thank you", "Thank you!", "Thanks", "Thanks!"], "You are welcome!"),
    (["Goodbye", "Goodbye!", "Bye", "Bye!", "Good night"], "Goodbye! Have a nice day."),
]


def small_talk(rng, _heldout=False):
    """Greetings and the like."""
    questions, answer = rng.choice(SMALL_TALK)
    return [(rng.choice(questions), answer)]


def tell_story(rng, heldout=False):
    """A request for a story, sometimes followed by a question on it."""
    s = story(rng, heldout)
    c = s.cast
    hero = c.hero.name if c.hero.kind in ("girl", "boy") else f"{a(c.hero.kind)}"
    q = rng.choice(["Tell me a story.", "Tell me a story.", "Please tell me a short story.",
                    "Can you tell me a story?", f"Tell me a story about {hero}.",
                    f"Tell me a story about {c.hero.name}.",
                    f"Tell me a story about {a(c.hero.kind)}.",
                    f"Tell me a story about {c.hero.name} and {c.friend.name}."
                    if c.friend.name in s.text else "Tell me a story.",
                    f"Tell me a story about {hero} and {a(c.the_thing)}."
                    if c.the_thing in s.text else "Tell me a story."])
    turns = [(q, s.text)]
    if rng.random() < 0.4:
        turns += rng.sample(s.facts, 1 if rng.random() < 0.7 else 2)
    return turns


def scene(rng, heldout=False):
    """Two to four sentences on two characters, with questions on their facts.

    Returns (text, [(question, answer), ...]).
    """
    while True:
        x = being(rng) if rng.random() < 0.75 else stranger(rng)
        places = rng.sample(list(PLACES), 2)
        things = rng.sample(OBJECTS, 2)
        if rng.random() < 0.2:
            places[rng.randrange(2)] = rng.choice(list(MORE_PLACES))
        if rng.random() < 0.2:
            things[rng.randrange(2)] = rng.choice(MORE_OBJECTS)
        if held_out(x.name, places[0], things[0]) == heldout:
            break
    y = being(rng, exclude=(x,)) if rng.random() < 0.75 else stranger(rng, exclude=(x,))
    hues = rng.sample(COLOURS, 2)
    foods = rng.sample(FOODS, 2)
    facts, lines = [], []

    def where(b, place):
        if rng.random() < 0.5:
            facts.append((f"Where did {b.name} go?", f"To the {place}."))
            if rng.random() < 0.5:
                facts.append((f"Who went to the {place}?", f"{b.name}."))
            return f"{b.name} {rng.choice(['went', 'walked', 'ran'])} to the {place}"
        facts.append((f"Where was {b.name}?", f"{cap(at(place))}."))
        if rng.random() < 0.5:
            facts.append((f"Who was {at(place)}?", f"{b.name}."))
        return f"{b.name} was {at(place)}"

    def has(thing, hue, b, subject):
        past, base = rng.choice([("found", "find"), ("had", "have"), ("saw", "see"),
                                 ("bought", "buy"), ("lost", "lose")])
        facts.append((f"What did {b.name} {base}?", f"{cap(a(hue + ' ' + thing))}."))
        facts.append((f"Who {past} the {thing}?", f"{b.name}."))
        facts.append((f"What colour was the {thing}?", f"{cap(hue)}."))
        return f"{subject} {past} {a(hue + ' ' + thing)}"

    def eats(food, b, subject):
        facts.append((f"What did {b.name} eat?", f"{cap(a(food))}."))
        facts.append((f"Who ate the {food}?", f"{b.name}."))
        return f"{subject} ate {a(food)}"

    shape = rng.randrange(5)
    if shape == 0:
        lines.append(where(x, places[0]) + ".")
        lines.append(has(things[0], hues[0], x, x.Sub) + ".")
        lines.append(where(y, places[1]) + ".")
        if rng.random() < 0.5:
            lines.append(has(things[1], hues[1], y, y.Sub) + ".")
    elif shape == 1:
        lines.append(where(x, places[0]) + " and " + has(things[0], hues[0], x, "").strip() + ".")
        lines.append(where(y, places[1]) + " and " + eats(foods[0], y, "").strip() + ".")
    elif shape == 2:
        lines.append(where(x, places[0]) + f" with {x.pos} friend {y.name}.")
        lines.append(has(things[0], hues[0], x, x.name) + ".")
        lines.append(has(things[1], hues[1], y, y.name) + ".")
    elif shape == 3:
        lines.append(where(x, places[0]) + ".")
        lines.append(has(things[0], hues[0], x, x.Sub) + ".")
        spot = rng.choice(SPOTS)
        lines.append(f"{x.Sub} gave the {things[0]} to {y.name}.")
        facts.append((f"Who got the {things[0]}?", f"{y.name}."))
        facts.append((f"Who gave the {things[0]} away?", f"{x.name}."))
        if rng.random() < 0.6:
            lines.append(f"{y.name} put it {spot}.")
            facts.append((f"Where did {y.name} put the {things[0]}?", f"{cap(spot)}."))
    else:
        lines.append(f"{x.name} and {y.name} were {at(places[0])}.")
        facts.append((f"Where were {x.name} and {y.name}?", f"{cap(at(places[0]))}."))
        lines.append(has(things[0], hues[0], x, x.name) + ".")
        lines.append(eats(foods[0], y, y.name) + ".")
        if rng.random() < 0.5:
            lines.append(eats(foods[1], x, x.name) + ".")
    return " ".join(lines), facts


def facts(rng, heldout=False, every=False):
    """A scene in the user message and one to three (or all) questions on it."""
    text, known = scene(rng, heldout)
    picked = rng.sample(known, len(known) if every else min(len(known), rng.choice([1, 2, 2, 3])))
    first = rng.choice([f"{text}\n{picked[0][0]}", f"{text}\n{picked[0][0]}",
                        f"{text} {picked[0][0]}",
                        f"Read this story: {text}\n\nQuestion: {picked[0][0]}",
                        f"{text}\n\n{picked[0][0]}"])
    return [(first, picked[0][1])] + picked[1:]


KINDS = {"sum": sums, "difference": differences, "colour": colours, "opposite": opposites,
         "sound": sounds, "next": following, "facts": facts, "talk": small_talk,
         "story": tell_story}
# Relative frequency of the kinds; the second mix drills the questions that are hard to learn.
WEIGHTS = {"sum": 9, "difference": 5, "colour": 4, "opposite": 5, "sound": 2, "next": 2,
           "facts": 24, "talk": 4, "story": 9}
DRILL = {"sum": 5, "difference": 6, "colour": 1, "opposite": 2, "sound": 1, "next": 3,
         "facts": 60, "talk": 1, "story": 2}


def conversation(rng, heldout=False, drill=False):
    """A conversation: (system message or "", turns)."""
    system = rng.choice(SYSTEMS) if rng.random() < 0.3 else ""
    kinds = list(KINDS)
    weights = [(DRILL if drill else WEIGHTS)[k] for k in kinds]
    turns = []
    count = rng.choice([1, 1, 1, 1, 2, 2, 3, 4])
    stories = 0
    for kind in rng.choices(kinds, weights, k=count):
        if kind == "story":
            stories += 1
            if stories > 1:
                continue
        if drill and kind == "facts":
            new = facts(rng, heldout, every=rng.random() < 0.9)
        elif drill and kind in ("sum", "difference"):
            new = [t for _ in range(rng.randint(1, 4)) for t in KINDS[kind](rng)]
        else:
            new = KINDS[kind](rng, heldout)
        if kind not in ("facts", "story") and rng.random() < 0.1:
            new = [(q[0].lower() + q[1:].rstrip(".?!"), x) for q, x in new]
        turns += new
    return system, turns
