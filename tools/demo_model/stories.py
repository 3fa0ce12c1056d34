"""Short stories from plot skeletons.

A `Cast` fixes who, where and what; each plot turns a cast into a list of
paragraph sentences with many surface variants, keeping entities consistent.
A story also carries questions about its own facts.
"""

from dataclasses import dataclass, field

from world import (ANIMALS, COLOURS, FOODS, OBJECTS, OUTDOOR, SCENERY, SPOTS, Being, a, at,
                   being, cap, held_out)


@dataclass
class Cast:
    """Who, where and what of one story."""

    hero: Being
    friend: Being
    animal: str
    place: str
    thing: str
    colour: str
    food: str
    spot: str

    @property
    def the_thing(self):
        """The thing with its colour."""
        return f"{self.colour} {self.thing}"


@dataclass
class Story:
    """A story and (question, answer) pairs on its facts."""

    text: str
    cast: Cast
    facts: list = field(default_factory=list)


def draw_cast(rng, heldout):
    """Draw a cast from the training or from the held-out combinations."""
    while True:
        hero = being(rng)
        place, thing = rng.choice(OUTDOOR), rng.choice(OBJECTS)
        if held_out(hero.name, place) == heldout:
            break
    friend = being(rng, exclude=(hero,))
    animal = rng.choice([x for x in ANIMALS if x not in (hero.kind, friend.kind)])
    return Cast(hero, friend, animal, place, thing, rng.choice(COLOURS),
                rng.choice(FOODS), rng.choice(SPOTS))


def intro(rng, c):
    """Opening sentence(s) that introduce the hero."""
    h = c.hero
    adj = rng.choice(["little", "little", "kind", "brave", "young", "happy"])
    start = rng.choice(["Once upon a time, there was", "Once upon a time, there was",
                        "Once there was", "There once was"])
    lives = "" if rng.random() < 0.6 else f" who lived near the {c.place}"
    first = f"{start} a {adj} {h.kind} named {h.name}{lives}."
    if rng.random() < 0.2:
        first = f"{h.name} was a {adj} {h.kind}{lives}."
    if rng.random() < 0.25:
        first += " " + rng.choice([
            f"{h.name} had a good friend named {c.friend.name}.",
            f"{h.Sub} liked to play and to sing.", f"{h.Sub} liked to run and jump.",
            f"Everybody liked {h.name}.", f"{h.Sub} had a warm heart."])
    return first


def intro_alone(rng, c):
    """An opening that does not mention the friend."""
    while True:
        text = intro(rng, c)
        if c.friend.name not in text:
            return text


def owns(rng, c):
    """The hero owns the thing."""
    h, t = c.hero, c.the_thing
    toy = c.thing in ("ball", "kite", "doll", "boat", "drum")
    return rng.choice([
        f"{h.name} had {a(t)}.",
        f"{h.Sub} had {a(t)} and loved it very much.",
        f"{h.name} loved {h.pos} {t} more than anything.",
        f"{h.Pos} best toy was {a(t)}." if toy else f"{h.Sub} always carried {a(t)}.",
    ])


def goes(rng, c):
    """The hero goes to the place."""
    h = c.hero
    day = rng.choice(["One day", "One day", "One morning", "One sunny day", "One afternoon",
                      "One windy day", "One summer day"])
    first = rng.choice([
        f"{day}, {h.name} went to the {c.place}.",
        f"{day}, {h.sub} walked to the {c.place}.",
        f"{day}, {h.name} was playing {at(c.place)}.",
        f"{day}, {h.name} ran to the {c.place} to play.",
    ])
    return first + (" " + rng.choice(SCENERY[c.place]) if rng.random() < 0.4 else "")


def called(b):
    """A name, with the kind of an animal: "Pip the fox"."""
    return b.name if b.kind in ("girl", "boy") else f"{b.name} the {b.kind}"


def meets(rng, c):
    """The hero meets the friend."""
    h, f = c.hero, c.friend
    return rng.choice([
        f"There {h.sub} met {h.pos} friend {called(f)}.",
        f"{h.Sub} saw {a(f.kind)} named {f.name} there.",
        f"{h.Sub} saw {h.pos} friend {f.name} there.",
    ])


def ending(rng, c, both=True, lesson=None):
    """Closing sentence."""
    h, f = c.hero, c.friend
    options = [
        f"{h.name} went home with a big smile.",
        f"That night, {h.name} slept very well.",
        f"It was a very good day for {h.name}.",
    ]
    if both:
        options += [
            f"From that day on, {h.name} and {f.name} were best friends.",
            f"{h.name} and {f.name} laughed and played until the sun went down.",
            f"They were happy, and they played together every day.",
        ]
    text = rng.choice(options)
    if lesson and rng.random() < 0.35:
        text = f"{h.name} learned that {lesson}. " + text
    return text + (" The end." if rng.random() < 0.3 else "")


def lost_thing(rng, c):
    """The hero loses the thing and the friend finds it."""
    h, f, t = c.hero, c.friend, c.thing
    s = [intro_alone(rng, c), owns(rng, c), goes(rng, c)]
    s.append(rng.choice([
        f"But when {h.sub} looked around, the {t} was gone.",
        f"{h.Sub} played all day, and then {h.sub} could not find the {t}.",
        f"On the way, {h.sub} lost the {t}.",
    ]))
    s.append(rng.choice([f'"Oh no! Where is my {t}?" {h.sub} cried.',
                         f"{h.name} was very sad and started to cry.",
                         f'"I lost my {t}!" said {h.name}.']))
    s.append(rng.choice([f"{cap(a(f.kind))} named {f.name} heard {h.obj} and came to help.",
                         f"Then {a(f.kind)} named {f.name} came along."]))
    s.append(rng.choice([f'"Do not cry," said {f.name}. "I will help you."',
                         f'"Let us look together," said {f.name}.']))
    s.append(rng.choice([f"They looked everywhere. At last, {f.name} found the {t} {c.spot}.",
                         f"They looked here and there, and {f.name} saw the {t} {c.spot}."]))
    s.append(rng.choice([f'"Thank you, {f.name}!" said {h.name}.',
                         f"{h.name} gave {f.name} a big hug."]))
    s.append(ending(rng, c, lesson="friends help each other"))
    facts = [(f"What did {h.name} lose?", f"{cap(a(c.the_thing))}."),
             (f"Who found the {t}?", f"{f.name}."),
             (f"Where was the {t}?", f"{cap(c.spot)}."),
             (f"What colour was the {t}?", f"{cap(c.colour)}.")]
    return s, facts


def sharing(rng, c):
    """The hero shares food with a hungry friend."""
    h, f, food = c.hero, c.friend, c.food
    s = [intro_alone(rng, c), goes(rng, c)]
    s.append(rng.choice([f"{h.Sub} had {a(food)} in {h.pos} bag.",
                         f"{h.Sub} took {a(food)} with {h.obj}.",
                         f"{h.Pos} mother gave {h.obj} {a(food)} for lunch."]))
    s.append(meets(rng, c))
    s.append(rng.choice([f"{f.name} looked sad and hungry.", f'"I am so hungry," said {f.name}.',
                         f"{f.name} had nothing to eat."]))
    s.append(rng.choice([f"{h.name} thought for a moment.", f"{h.name} wanted to help.",
                         f"{h.name} looked at the {food}."]))
    s.append(rng.choice([f'"You can have half of my {food}," {h.sub} said.',
                         f'"Let us share my {food}," said {h.name}.',
                         f"So {h.sub} gave {f.name} half of the {food}."]))
    s.append(rng.choice([f"They sat down and ate the {food} together.",
                         f"The {food} was {'good' if food == 'sandwich' else 'sweet'}, "
                         "and they ate it together."]))
    s.append(rng.choice([f'"Thank you. You are very kind," said {f.name}.',
                         f'{f.name} smiled. "You are a good friend!"']))
    s.append(ending(rng, c, lesson="it is good to share"))
    facts = [(f"What did {h.name} share?", f"{cap(a(food))}."),
             ("Who was hungry?", f"{f.name}."),
             (f"Where was {h.name}?", f"{cap(at(c.place))}.")]
    return s, facts


def stuck_animal(rng, c):
    """The hero helps an animal, which gives a present."""
    h, x, t = c.hero, c.animal, c.thing
    s = [intro_alone(rng, c), goes(rng, c)]
    s.append(rng.choice([f'{h.Sub} heard a small voice. "Help! Help!"',
                         f"Then {h.sub} heard a strange sound."]))
    s.append(rng.choice([f"It was {a(x)}. It was stuck {c.spot}.",
                         f"{h.Sub} found a little {x} {c.spot}. It could not get out."]))
    s.append(rng.choice([f'"Do not be scared," said {h.name}. "I will help you."',
                         f"The {x} was scared, but {h.name} was gentle."]))
    s.append(rng.choice([f"{h.Sub} pulled and pulled, and the {x} was free.",
                         f"Very slowly, {h.sub} lifted the {x} out."]))
    s.append(rng.choice([f"The {x} was so happy that it gave {h.obj} {a(c.the_thing)}.",
                         f'"Thank you!" said the {x}. "Please take this {c.the_thing}."']))
    s.append(rng.choice([f'"It is beautiful!" said {h.name}.', f"{h.name} loved the {t}."]))
    s.append(rng.choice([f"From that day on, {h.name} and the {x} were good friends.",
                         f"The next day, {h.sub} came back to play with the {x}.",
                         ending(rng, c, both=False)]))
    facts = [(f"Who helped the {x}?", f"{h.name}."),
             (f"What did the {x} give {h.name}?", f"{cap(a(c.the_thing))}."),
             (f"Where was the {x}?", f"{cap(c.spot)}."),
             (f"What colour was the {t}?", f"{cap(c.colour)}.")]
    return s, facts


def rainy_day(rng, c):
    """Rain comes; the two find shelter and see a rainbow."""
    h, f = c.hero, c.friend
    s = [intro_alone(rng, c), goes(rng, c), meets(rng, c)]
    s.append(rng.choice([f"They played with {a(c.the_thing)}.",
                         f"{f.name} had {a(c.the_thing)}, and they played with it."]))
    s.append(rng.choice(["Then the sky turned dark, and it started to rain.",
                         "Soon a big cloud came, and the rain fell hard."]))
    s.append(rng.choice([f'"We are getting wet!" said {f.name}.', f'"Run!" said {f.name}.']))
    shelter = rng.choice(["a big tree", "an old barn", "a small house", "a little bridge"])
    under = "Under" if shelter in ("a big tree", "a little bridge") else "In"
    s.append(rng.choice([f"{h.name} saw {shelter}, and they ran to it.",
                         f"They ran to {shelter} and waited there."]))
    s.append(rng.choice(["They told funny stories and were not scared.",
                         "They sang a song and waited for the sun."]))
    s.append(rng.choice(["When the rain stopped, they saw a beautiful rainbow.",
                         "At last the sun came out, and there was a rainbow in the sky."]))
    s.append(rng.choice([f'"Look!" said {h.name}. "It is so pretty!"',
                         f'"The rain is not so bad," said {h.name}.']))
    s.append(ending(rng, c))
    facts = [("What did they play with?", f"{cap(a(c.the_thing))}."),
             ("Where did they wait?", f"{under} {shelter}."),
             ("What did they see?", "A rainbow.")]
    return s, facts


def afraid(rng, c):
    """The hero is afraid of something and overcomes it with the friend."""
    h, f = c.hero, c.friend
    fear, step, done = rng.choice([
        ("the dark", "They took a small lamp and walked into the dark", "looked at the stars"),
        ("the water", "First they put one foot in the water", "jumped in with a big splash"),
        ("high places", "They climbed up one small step at a time", "stood at the very top"),
        ("loud sounds", "First they made a very small sound", "sang a loud song"),
    ])
    s = [intro_alone(rng, c), rng.choice([f"{h.name} was afraid of {fear}.",
                                    f"But {h.sub} was scared of {fear}."])]
    s += [goes(rng, c), meets(rng, c)]
    s.append(rng.choice([f'"Come with me," said {f.name}.', f'"Let us play!" said {f.name}.']))
    s.append(rng.choice([f'"I can not. I am afraid of {fear}," said {h.name}.',
                         f'{h.name} shook {h.pos} head. "I am scared of {fear}."']))
    s.append(rng.choice([f'"I will hold your hand," said {f.name}.',
                         f'"You are brave. I will stay with you," said {f.name}.']))
    s.append(f"{step}. Then {h.name} {done}.")
    s.append(rng.choice([f'"I did it!" said {h.name}.', f"{h.name} was very proud.",
                         f"{h.Sub} was not afraid any more."]))
    s.append(ending(rng, c, lesson="it is good to try"))
    facts = [(f"What was {h.name} afraid of?", f"{cap(fear)}."),
             (f"Who helped {h.name}?", f"{f.name}."),
             (f"Who was afraid?", f"{h.name}.")]
    return s, facts


def birthday(rng, c):
    """The hero looks for a present for somebody."""
    h, f = c.hero, c.friend
    s = [intro(rng, c)]
    s.append(rng.choice([f"Tomorrow was the birthday of {h.pos} friend {f.name}.",
                         f"{h.Pos} friend {f.name} had a birthday."]))
    s.append(rng.choice([f'"What can I give {f.obj}?" {h.name} asked.',
                         f"{h.name} wanted to find a good present."]))
    s.append(rng.choice([f"{h.Sub} went to the {c.place} and looked around.",
                         f"{h.Sub} walked to the {c.place} to look for one."]))
    s.append(rng.choice([f"There, {c.spot}, {h.sub} found {a(c.the_thing)}.",
                         f"{h.Sub} saw {a(c.the_thing)} {c.spot}."]))
    s.append(rng.choice([f"{h.Sub} cleaned it and put it in a box." if c.thing != "box"
                         else f"{h.Sub} cleaned it until it was shiny.",
                         f"{h.Sub} took it home and made it shiny."]))
    s.append(rng.choice([f"At the party, {h.name} gave the {c.thing} to {f.name}.",
                         f'"Happy birthday!" said {h.name}, and gave {f.obj} the {c.thing}.']))
    s.append(rng.choice([f'"I love it! Thank you!" said {f.name}.',
                         f"{f.name} jumped up and down with joy."]))
    s.append(rng.choice([f"Then they all ate {a(c.food)}." if c.food in ("cake", "pie")
                         else "Then they all ate cake.", ""]))
    s.append(ending(rng, c, lesson="giving is fun"))
    facts = [(f"What did {h.name} give {f.name}?", f"{cap(a(c.the_thing))}."),
             (f"Who had a birthday?", f"{f.name}."),
             (f"Where did {h.name} go?", f"To the {c.place}."),
             (f"What colour was the {c.thing}?", f"{cap(c.colour)}.")]
    return s, facts


def quarrel(rng, c):
    """Both want the thing, it breaks, they make up."""
    h, f, t = c.hero, c.friend, c.thing
    s = [intro(rng, c), goes(rng, c)]
    s.append(rng.choice([f"{h.Sub} and {h.pos} friend {f.name} found {a(c.the_thing)} {c.spot}.",
                         f"{h.Pos} friend {f.name} was there too, "
                         f"and they saw {a(c.the_thing)} {c.spot}."]))
    s.append(rng.choice([f'"It is mine!" said {h.name}. "No, it is mine!" said {f.name}.',
                         f'"I saw it first!" said {h.name}. "No, I did!" said {f.name}.']))
    s.append(rng.choice([f"They pulled and pulled until the {t} fell on the ground.",
                         f"They were angry, and the {t} fell down."]))
    s.append(rng.choice([f"{h.name} stopped and felt bad.", "Now they were both sad."]))
    s.append(rng.choice([f'"I am sorry," said {h.name}. "I am sorry too," said {f.name}.',
                         f'"Let us not fight," said {h.name}. "We can share it."']))
    s.append(rng.choice([f"They cleaned the {t} and took turns.",
                         f"They picked up the {t} and shared it."]))
    s.append(ending(rng, c, lesson="it is better to share than to fight"))
    facts = [(f"What did they find?", f"{cap(a(c.the_thing))}."),
             (f"Where was the {t}?", f"{cap(c.spot)}."),
             (f"What colour was the {t}?", f"{cap(c.colour)}.")]
    return s, facts


def race(rng, c):
    """A race that the steady one wins."""
    h, f = c.hero, c.friend
    s = [intro_alone(rng, c), goes(rng, c), meets(rng, c)]
    s.append(rng.choice([f'"Let us have a race," said {f.name}. "I am very fast!"',
                         f'{f.name} said, "I can run faster than you!"']))
    s.append(rng.choice([f"{h.name} was slow, but {h.sub} said yes.",
                         f'"I will try my best," said {h.name}.']))
    s.append("One, two, three, go!" if rng.random() < 0.5 else "They started to run.")
    s.append(rng.choice([f"{f.name} was far ahead and stopped to eat {a(c.food)}.",
                         f"{f.name} ran fast, but then {f.sub} sat down to rest."]))
    s.append(rng.choice([f"{h.name} did not stop. Step by step, {h.sub} went on.",
                         f"{h.name} went on and on and did not give up."]))
    s.append(rng.choice([f"At the end, {h.name} won the race!", f"And so {h.name} won!"]))
    s.append(rng.choice([f'"Well done, {h.name}!" said {f.name}.',
                         f"{f.name} was surprised, but then {f.sub} smiled."]))
    s.append(f"The prize was {a(c.the_thing)}.")
    s.append(ending(rng, c, lesson="you should never give up"))
    facts = [("Who won the race?", f"{h.name}."), ("Who lost the race?", f"{f.name}."),
             ("What was the prize?", f"{cap(a(c.the_thing))}.")]
    return s, facts


def broken(rng, c):
    """The hero breaks something and tells the truth."""
    h, t = c.hero, c.thing
    parent = rng.choice(["mother", "father", "grandmother"])
    they = "She" if parent != "father" else "He"
    s = [intro_alone(rng, c)]
    s.append(rng.choice([f"{h.Pos} {parent} had {a(c.the_thing)}.",
                         f"At home there was {a(c.the_thing)}. It was the {t} of {h.pos} {parent}."]))
    s.append(rng.choice([f"One day, {h.name} took the {t} to the {c.place}.",
                         f"One day, {h.sub} played with the {t} {at(c.place)}."]))
    s.append(rng.choice([f"{h.Sub} fell, and the {t} broke.",
                         f"Crash! The {t} fell down and broke."]))
    s.append(rng.choice([f'"Oh no! What can I do?" {h.sub} thought.',
                         f"{h.name} was scared and wanted to hide the {t}."]))
    s.append(rng.choice([f"But {h.sub} went home and told the truth.",
                         f'But {h.sub} went home and said, "I broke your {t}. I am sorry."']))
    s.append(rng.choice([f"{h.Pos} {parent} was not angry.",
                         f"{h.Pos} {parent} gave {h.obj} a hug."]))
    s.append(rng.choice([f'"It was good to tell me," {they.lower()} said.',
                         f'"Thank you for telling the truth," said {h.pos} {parent}.']))
    s.append(rng.choice([f"Together they fixed the {t}.",
                         f"They fixed the {t} together, and it was like new."]))
    s.append(ending(rng, c, both=False, lesson="it is good to tell the truth"))
    facts = [(f"What did {h.name} break?", f"{cap(a(c.the_thing))}."),
             (f"Who broke the {t}?", f"{h.name}."),
             (f"What colour was the {t}?", f"{cap(c.colour)}.")]
    return s, facts


def seed(rng, c):
    """The hero plants a seed and waits."""
    h, f = c.hero, c.friend
    s = [intro(rng, c)]
    ground = c.spot in ("in the grass", "under the tree", "next to the gate", "behind the wall")
    s.append("One day, " + rng.choice([
        f"{h.sub} and {h.pos} friend {f.name} found a small seed {at(c.place)}.",
        f"{at(c.place)}, {h.pos} friend {f.name} gave {h.obj} a small seed."]))
    s.append(rng.choice([f"{h.name} put it in the ground and gave it water.",
                         f"{h.Sub} planted the seed {c.spot if ground else 'in the ground'}."]))
    s.append(rng.choice(["Every day, the sun was warm and the rain fell.",
                         f"Every morning, {h.sub} came to look at it."]))
    s.append(rng.choice([f'"Nothing will grow," said {f.name}.',
                         f'"Where is your flower?" asked {f.name}.']))
    s.append(rng.choice([f'"We must wait," said {h.name}.', f'"It needs time," said {h.name}.']))
    s.append(rng.choice([f"Then one day, there was {a(c.colour)} flower.",
                         f"At last, a big {c.colour} flower came out of the ground."]))
    s.append(rng.choice([f'"You were right!" said {f.name}.',
                         f'"It is beautiful!" said {f.name}.']))
    s.append(ending(rng, c, lesson="good things take time"))
    facts = [("What colour was the flower?", f"{cap(c.colour)}."),
             ("Who planted the seed?", f"{h.name}.")]
    return s, facts


def strange_noise(rng, c):
    """A strange noise turns out to be harmless."""
    h, f, x = c.hero, c.friend, c.animal
    noise = rng.choice(["Tap, tap, tap",
                        "Bump, bump",
                        "Crack, crack",
                        "Hoo, hoo" if x == "owl" else "Knock, knock"])
    s = [intro(rng, c)]
    s.append("One night, " + rng.choice([
        f"{h.name} and {h.pos} friend {f.name} slept {at(c.place)}.",
        f"{h.sub} walked home from the {c.place} with {h.pos} friend {f.name}."]))
    s.append(rng.choice([f'"{noise}!" There was a strange noise.',
                         f'Then they heard a noise. "{noise}!"']))
    s.append(rng.choice([f'"What is that?" asked {f.name}.',
                         f'"Is it a monster?" asked {f.name}.']))
    s.append(rng.choice([f'"I will go and look," said {h.name}.',
                         f"{h.name} was scared too, but {h.sub} wanted to know."]))
    s.append(rng.choice([f"{h.Sub} took {a(c.colour + ' lamp')} and looked {c.spot}.",
                         f"With {a(c.colour + ' lamp')} in {h.pos} hand, {h.sub} looked {c.spot}."]))
    s.append(rng.choice([f"It was only {a(x)}!",
                         f"There sat a little {x}. It was not a monster at all."]))
    s.append(rng.choice([f"The {x} was looking for food, so they gave it {a(c.food)}.",
                         f"The {x} was lost and cold, so they made it a warm bed."]))
    s.append(rng.choice([f'"Good night, little {x}," said {h.name}.',
                         f"{h.name} and {f.name} laughed and laughed."]))
    s.append(ending(rng, c))
    facts = [("Who made the noise?", f"The {x}."),
             ("What colour was the lamp?", f"{cap(c.colour)}."),
             (f"Where was the {x}?", f"{cap(c.spot)}.")]
    return s, facts


def new_friend(rng, c):
    """Somebody new is shy; the hero invites them to play."""
    h, f = c.hero, c.friend
    s = [intro_alone(rng, c), goes(rng, c)]
    s.append(rng.choice([f"A new {f.kind} named {f.name} sat there alone.",
                         f"{h.Sub} saw {a(f.kind)} {c.spot}. It was {f.name}, who was new there."]))
    s.append(rng.choice([f"{f.name} was shy and did not say a word.",
                         f"{f.name} looked down and was sad."]))
    s.append(rng.choice([f'"Hello! My name is {h.name}. What is your name?" said {h.name}.',
                         f'"Do you want to play with me?" asked {h.name}.']))
    s.append(rng.choice([f'"I am {f.name}. I have no friends here," {f.sub} said.',
                         f'"I do not know anybody here," said {f.name}.']))
    s.append(rng.choice([f'"Now you have me!" said {h.name}, and showed {f.obj} {a(c.the_thing)}.',
                         f"So {h.name} gave {f.obj} {a(c.the_thing)} to play with."]))
    s.append(rng.choice(["They played all day long.",
                         f"They played with the {c.thing} until it was dark."]))
    s.append(rng.choice([f"{f.name} was not shy any more.",
                         f'"You are my first friend here," said {f.name}.']))
    s.append(ending(rng, c, lesson="a kind word can make a friend"))
    facts = [("Who was new?", f"{f.name}."),
             (f"What did {h.name} have?", f"{cap(a(c.the_thing))}."),
             (f"What colour was the {c.thing}?", f"{cap(c.colour)}.")]
    return s, facts


def baking(rng, c):
    """They bake together; something goes wrong and comes right."""
    h, f = c.hero, c.friend
    dish = rng.choice(["cake", "pie", "bread", "soup"])
    some = dish if dish in ("bread", "soup") else a(dish)
    missing = rng.choice(["milk", "salt", "honey", "butter"])
    s = [intro(rng, c)]
    s.append(rng.choice([
        f"One day, {h.sub} wanted to make {some} for {h.pos} friend {f.name}.",
        f"{h.Pos} friend {f.name} was sick, and {h.name} wanted to make {some} for {f.obj}."]))
    s.append(rng.choice([f"But there was no {missing} in the kitchen.",
                         f"{h.Sub} looked in the kitchen, but there was no {missing}."]))
    s.append(rng.choice([f"So {h.sub} took {a(c.colour + ' basket')} "
                         f"and went to the {c.place} to ask for some.",
                         f"{h.Sub} walked to the {c.place} with {a(c.colour + ' basket')}."]))
    s.append(rng.choice([f"There {h.sub} met {a(c.animal)}.", f"{cap(a(c.animal))} came along."]))
    s.append(rng.choice([f'"Do you have some {missing}?" asked {h.name}.',
                         f'"I need {missing} for my {dish}," said {h.name}.']))
    s.append(rng.choice([f'"Yes, take it," said the {c.animal}. "But I would like to eat with you!"',
                         f'The {c.animal} gave {h.obj} a cup of {missing}.']))
    s.append(rng.choice([f"{h.name} ran home and made the {dish}. It smelled so good!",
                         f"At home, {h.sub} made {'' if dish == 'bread' else 'a big, '}warm {dish}."]))
    s.append(rng.choice([f"{h.name}, {f.name} and the {c.animal} ate it all.",
                         f'"This is the best {dish} ever!" said {f.name}.']))
    s.append(ending(rng, c))
    facts = [(f"What did {h.name} make?", f"{cap(some)}."),
             ("What was missing?", f"{cap(missing)}."),
             ("What colour was the basket?", f"{cap(c.colour)}."),
             (f"Who had the {missing}?", f"The {c.animal}.")]
    return s, facts


def wish(rng, c):
    """A wish, and what became of it."""
    h, f, t = c.hero, c.friend, c.thing
    s = [intro_alone(rng, c)]
    s.append(rng.choice([f"{h.name} wanted {a(c.the_thing)} very much.",
                         f"More than anything, {h.sub} wished for {a(c.the_thing)}."]))
    s.append(rng.choice([f"One night, {h.sub} saw a bright star over the {c.place}.",
                         f"One night, {h.sub} looked at the stars {at(c.place)}."]))
    s.append(rng.choice([f'"Dear star, please give me {a(c.the_thing)}," {h.sub} said.',
                         f'"I wish I had {a(c.the_thing)}," {h.sub} said to the star.']))
    s.append(rng.choice([f"In the morning, {h.sub} found {a(c.the_thing)} {c.spot}!",
                         f"The next day, there it was: {a(c.the_thing)} {c.spot}!"]))
    s.append(rng.choice([f"But then {h.sub} saw {h.pos} friend {called(f)}, who was crying.",
                         f"But {h.pos} friend {f.name} was very sad that day."]))
    s.append(rng.choice([f'"I lost my {t}," said {f.name}.',
                         f'"I never had {a(t)}," said {f.name}.']))
    s.append(rng.choice([f'{h.name} thought about it. "You can have mine," {h.sub} said.',
                         f"{h.name} gave the {t} to {f.name}."]))
    s.append(rng.choice([f"{f.name} smiled, and {h.name} felt warm inside.",
                         f'"You are the best friend in the world!" said {f.name}.']))
    s.append(ending(rng, c, lesson="giving is better than having"))
    facts = [(f"What did {h.name} want?", f"{cap(a(c.the_thing))}."),
             (f"Where was the {t}?", f"{cap(c.spot)}."),
             (f"Who got the {t}?", f"{f.name}."), (f"What colour was the {t}?", f"{cap(c.colour)}.")]
    return s, facts


def boat_trip(rng, c):
    """They build a boat, get lost and find the way home."""
    h, f = c.hero, c.friend
    made = rng.choice(["boat", "sled", "cart"])
    s = [intro_alone(rng, c), goes(rng, c), meets(rng, c)]
    s.append(rng.choice([f'"Let us build a {made}!" said {h.name}.',
                         f'"I have an idea. We can build a {made}," said {f.name}.']))
    s.append(rng.choice([f"{f.name} found some wood, and {h.name} found a rope.",
                         "They worked all morning with wood and a rope."]))
    s.append(rng.choice([f"They painted the {made} {c.colour}.",
                         f"The {made} was {c.colour} and very pretty."]))
    s.append(rng.choice(["They went far, far away, and then they did not know the way home.",
                         "They went so far that they were lost."]))
    s.append(rng.choice([f"{cap(a(c.animal))} saw them. \"I know the way,\" it said.",
                         f'They asked {a(c.animal)} for help. "Follow me," said the {c.animal}.']))
    s.append(rng.choice(["Soon they were home again.",
                         f"The {c.animal} took them home before it was dark."]))
    s.append(rng.choice([f'"Thank you, {c.animal}!" they said.',
                         f"They gave the {c.animal} {a(c.food)}."]))
    s.append(ending(rng, c))
    facts = [("What did they build?", f"A {made}."),
             (f"What colour was the {made}?", f"{cap(c.colour)}."),
             ("Who knew the way?", f"The {c.animal}.")]
    return s, facts


PLOTS = [lost_thing, sharing, stuck_animal, rainy_day, afraid, birthday, quarrel,
         race, broken, seed, strange_noise, new_friend, baking, wish, boat_trip]


def story(rng, heldout=False):
    """Generate one story."""
    c = draw_cast(rng, heldout)
    sentences, facts = rng.choice(PLOTS)(rng, c)
    sentences = [x for x in sentences if x]
    text = sentences[0]
    breaks = rng.random() < 0.5
    for i, x in enumerate(sentences[1:], 1):
        gap = "\n\n" if breaks and i in (3, 7) else " "
        text += gap + x
    return Story(text, c, facts)
