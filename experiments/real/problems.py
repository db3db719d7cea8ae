"""Writes the word problems of this folder: `python problems.py > problems.jsonl`.

Each is one addition or subtraction of numbers below ten; the answer is computed, and the same seed
gives the same problems.
"""

import json
import random

NAMES = ("Ann", "Ben", "Eva", "Ida", "Leo", "Max", "Mia", "Tom")
THINGS = ("pens", "eggs", "nuts", "keys", "figs", "hats", "cups", "jars")


def problems(*, count: int = 64, seed: int = 0) -> list[dict[str, str]]:
    """Returns `count` different problems with their answers."""
    rng, found = random.Random(seed), dict[str, str]()
    while len(found) < count:
        name, thing, has = rng.choice(NAMES), rng.choice(THINGS), rng.randint(2, 9)
        gets = rng.random() < 0.5
        other = rng.randint(1, 9 if gets else has)
        done = "gets" if gets else "loses"
        asked = f"{name} has {has} {thing} and {done} {other}. How many {thing} has {name} now?"
        found[asked] = str(has + other if gets else has - other)
    return [{"question": asked, "answer": answer} for asked, answer in found.items()]


if __name__ == "__main__":
    for row in problems():
        print(json.dumps(row))
