"""Plain facts to hide between the sentences of books, each with a question in the fact's own words and one in others.

Names are made up, so that neither a book nor a model's training has the answer. The questions in other words share the name with the fact and
little else: that is what a vector search is for.
"""
import random

# The fact, a question that repeats its words up to the answer, a question in other words. {p}: place, {a}: answer.
FORMS = [
    ("The keeper of the lighthouse at {p} was called {a}.", "The keeper of the lighthouse at {p} was called", "Who looked after the beacon near {p}?"),
    ("{a} built the old stone bridge at {p}.", "Who built the old stone bridge at {p}? The old stone bridge at {p} was built by",
     "Whose work was the ancient river crossing of {p}?"),
    ("The physician of {p} in those years was Doctor {a}.", "The physician of {p} in those years was Doctor", "Who healed the sick people of {p}?"),
    ("At {p} the ferry belonged to a man named {a}.", "At {p} the ferry belonged to a man named", "Who owned the boat that carried travellers over at {p}?"),
    ("The richest merchant of {p} was {a}.", "The richest merchant of {p} was", "Which trader had the most money in {p}?"),
    ("The horse that won the race at {p} was named {a}.", "The horse that won the race at {p} was named", "Which steed came in first at {p}?"),
    ("The bells of {p} were cast by {a}.", "The bells of {p} were cast by", "Who made what rings in the tower of {p}?"),
    ("The schoolmaster of {p} was {a}.", "The schoolmaster of {p} was", "Who taught the children in {p}?"),
    ("The mill at {p} was burned down by {a}.", "The mill at {p} was burned down by", "Who set fire to the place where {p} ground its corn?"),
    ("The judge who sat at {p} was {a}.", "The judge who sat at {p} was", "Who decided the lawsuits in {p}?"),
]
SYLLABLES = [["Bar", "Cal", "Dor", "Fen", "Gor", "Hal", "Kes", "Lor", "Mar", "Nor", "Pel", "Quin", "Ros", "Sel", "Tar", "Ver", "Wol", "Yar"],
             ["a", "e", "i", "o", "u"], ["bach", "dell", "fax", "gren", "holm", "kirk", "lund", "mond", "nack", "quist", "rast", "stow", "thorpe", "vane", "wick", "zant"]]


def name(generator):
    return "".join(generator.choice(part) for part in SYLLABLES)


def make(count, text, seed):
    """`count` facts whose places and answers occur neither in the text nor twice: [{fact, answer, own, other}]."""
    generator, taken, found = random.Random(seed), set(), []
    while len(found) < count:
        place, answer = name(generator), name(generator)
        if place == answer or {place, answer} & taken or place in text or answer in text:
            continue
        taken |= {place, answer}
        fact, own, other = (form.format(p=place, a=answer) for form in FORMS[len(found) % len(FORMS)])
        found.append({"fact": fact, "answer": answer, "own": own, "other": other})
    return found


def hide(text, facts):
    """The text with the facts between its sentences, evenly over it."""
    pieces, at = [], 0
    for i, fact in enumerate(facts):
        place = text.find(". ", len(text) * (2 * i + 1) // (2 * len(facts)))
        if place < at:
            continue
        pieces += [text[at:place + 2], fact["fact"], " "]
        at = place + 2
    return "".join([*pieces, text[at:]])
