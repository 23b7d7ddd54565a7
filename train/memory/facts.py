"""Made-up facts in plain sentences, and questions that ask for them in other words.

A relation says of which kind its subject `{k}` and its value `{v}` are, how it is stated and how it is asked for. The last HELD_OUT of
them are in no training: they are there to measure with.
"""

from dataclasses import dataclass

FIRST = ("Abena Adele Aiko Alvaro Amos Anneke Arturo Basim Berta Boris Camille Cedric Chiara Cosmo Dagmar Darius Delia Dmitri Edda Elias "
         "Emeka Enid Esteban Farah Ferdinand Flora Gareth Gita Goran Gudrun Hamid Hedwig Hiro Ilona Imran Ingrid Ismail Jadwiga Jarek Jolanda "
         "Josef Kalinda Kamau Katya Kenji Lars Leila Lionel Lorenzo Ludmila Magnus Maren Matteo Mireille Nadia Naoko Nestor Odile Olaf Orla "
         "Pascal Petra Quentin Radha Ramon Rosalind Sabine Samir Saoirse Selim Signe Stefan Tamar Tariq Thea Tobias Ulrich Valeria Wanda "
         "Xavier Yasmin Yuri Zelda Zoltan").split()
LAST = ("Aldridge Amundsen Arkwright Balogun Barrow Bianchi Bjornson Bramley Calloway Cardoso Chaudhry Corrigan Cservenka Dacosta Delacroix "
        "Demir Dunmore Eberhart Ekwueme Farnsworth Fontaine Galvin Ghorbani Gorski Halloran Hartmann Holloway Ibarra Iwasaki Jankowski "
        "Jellicoe Kaplan Keating Kovacs Langley Lavoie Lindgren Loxley Macrae Marchetti Mbeki Merriweather Molnar Nakagawa Novotny Okeke "
        "Oduya Orlov Pargeter Pereira Petrov Quigley Rahimi Rasmussen Redfern Rinaldi Sandoval Schreiber Sefton Siddiqui Sorensen Szabo "
        "Tanaka Thackeray Trevino Ullman Vasquez Velander Wadsworth Whitlock Wozniak Yamada Yeboah Zielinski").split()
TOWN_HEADS = "Alder Brack Cold Dun Elm Fen Grey Har Iron Kel Lang Mar Nor Oster Pen Quarr Raven Stan Thorn Ul Wether Win".split()
TOWN_TAILS = "beck bridge by combe dale fold ford gate ham haven holt hurst ley mere minster mouth ness port stead stow wick worth".split()
MONTHS = "January February March April May June July August September October November December".split()
LISTS = {
    "animal": "a badger,a barn owl,a black goat,a donkey,a ferret,a grey heron,a hedgehog,a lynx,an otter,a parrot,a peacock,a pony,a raven,a "
              "spaniel,a stork,a tortoise,a weasel,a white goose",
    "colour": "apricot,black,bottle green,bright red,cobalt blue,copper,cream,dark brown,lemon yellow,lilac,mint green,navy blue,olive,pale "
              "pink,rust red,silver grey,turquoise,white",
    "dish": "barley soup,buckwheat pancakes,cabbage rolls,cherry dumplings,chickpea stew,fish pie,fried plantain,goat curry,leek "
            "tart,lentil soup,mushroom risotto,onion cake,pickled herring,plum cake,potato gratin,saffron rice,smoked eel,walnut bread",
    "job": "archivist,bee-keeper,bookbinder,bricklayer,chemist,clockmaker,dentist,diver,ferryman,glazier,harbour pilot,interpreter,locksmith,"
           "midwife,organ builder,potter,roofer,saddler,surveyor,translator,vet,watchmaker,weaver",
    "material": "ash wood,basalt,brass,bronze,cast iron,clay,cork,felt,glass fibre,granite,larch,limestone,oak,pewter,porcelain,slate,steel,wool",
    "reason": "a burst pipe,a fire in the boiler room,a lack of staff,a landslide,a leaking roof,a missing permit,a power cut,a strike of the "
              "drivers,an outbreak of measles,heavy snow,high water,rising rents,rotten beams,the death of the owner",
    "thing": "accordion,anvil,barometer,brass telescope,bread oven,chess table,compass,copper kettle,fishing net,grandfather clock,ice "
             "saw,lantern,loom,map of the coast,music box,oil lamp,printing press,rowing boat,sewing machine,silver cup,spinning wheel,stamp "
             "album,tuning fork,violin,weather vane",
    "site": "boathouse,brewery,chapel,cider mill,community hall,customs house,dairy,fire station,foundry,granary,greenhouse,harbour "
            "office,lighthouse,lock gate,market hall,observatory,pumping station,quarry,reading room,sawmill,school,signal box,swimming "
            "bath,tannery,toll house,town library,watchtower,windmill",
    "weekday": "Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday",
    "month": ",".join(MONTHS),
    "place": "behind the boiler,in the attic,in the blue cupboard,in the cellar,in the drawer under the scales,in the vestry,on the top shelf,under "
             "the third stair,under the workbench,with the caretaker,with the neighbour at number nine,in the tin beside the stove",
}
LISTS = {kind: words.split(",") for kind, words in LISTS.items()}


@dataclass(frozen=True)
class Relation:
    subject: str
    value: str
    statements: tuple
    questions: tuple


def relation(subject, value, statements, questions):
    return Relation(subject, value, tuple(statements.split(" | ")), tuple(questions.split(" | ")))


RELATIONS = (
    relation("person", "town", "{k} grew up in {v}. | {k} was born in {v}. | The family of {k} comes from {v}. | {v} is the home town of {k}.",
             "Where was {k} born? | In which town did {k} spend the childhood? | Which place does {k} come from?"),
    relation("person", "job", "{k} earns a living as a {v}. | {k} has been a {v} for years. | By trade {k} is a {v}.",
             "What does {k} do for a living? | What is the profession of {k}? | What kind of work does {k} do?"),
    relation("person", "phone", "{k} answers the phone under {v}. | You reach {k} at {v}. | For {k} dial {v}.",
             "What is the telephone number of {k}? | Which number do I call to speak to {k}? | How can {k} be reached by phone?"),
    relation("person", "animal", "{k} keeps {v}. | {k} came with {v}. | {v} lives with {k}, to the annoyance of the neighbours.",
             "Which animal does {k} have? | What kind of pet belongs to {k}? | What creature shares the house of {k}?"),
    relation("person", "dish", "{k} likes {v} best. | Nothing pleases {k} more than {v}. | {k} would go hungry for a week to get {v}.",
             "What is the favourite dish of {k}? | Which food does {k} like most? | What should I cook for {k}?"),
    relation("person", "sum", "{k} asked {v} for the work. | {k} was paid {v}. | The bill of {k} came to {v}.",
             "How much did {k} charge? | What did {k} earn for the work? | How much money did {k} get?"),
    relation("person", "date", "{k} arrives on {v}. | {k} will be back on {v}. | We expect {k} on {v}.",
             "When does {k} come? | On what date is {k} expected? | Which day does {k} arrive?"),
    relation("person", "room", "{k} sits in room {v}. | The office of {k} has the number {v}. | Ask for {k} in room {v}.",
             "Where is the office of {k}? | In which room do I find {k}? | What is the room number of {k}?"),
    relation("person", "person", "{k} shares a flat with {v}. | {v} lives under one roof with {k}. | {k} moved in with {v}.",
             "With whom does {k} live? | Who shares the home of {k}? | Who is the flatmate of {k}?"),
    relation("person", "reason", "{k} could not come because of {v}. | {v} kept {k} away. | {k} left early because of {v}.",
             "Why was {k} absent? | What kept {k} from staying? | For what reason did {k} miss it?"),
    relation("site", "person", "{v} looks after the {k}. | The {k} is run by {v}. | {v} has the keys of the {k}.",
             "Who is in charge of the {k}? | Who manages the {k}? | Whom do I ask about the {k}?"),
    relation("site", "code", "The door of the {k} opens with {v}. | {v} is the code of the {k}. | To get into the {k}, type {v}.",
             "What is the code for the {k}? | How do I unlock the {k}? | Which combination opens the {k}?"),
    relation("site", "year", "The {k} was built in {v}. | The {k} dates from {v}. | In {v} the first stone of the {k} was laid.",
             "When was the {k} built? | How old is the {k}, that is, of which year? | In what year did they put up the {k}?"),
    relation("site", "time", "The {k} closes at {v}. | Nobody is let into the {k} after {v}. | The {k} stays open until {v}.",
             "When does the {k} close? | Until what time can one visit the {k}? | At what hour does the {k} shut?"),
    relation("site", "reason", "The {k} was shut because of {v}. | {v} led to the closing of the {k}. | After {v} the {k} had to close.",
             "Why was the {k} closed? | What caused the closing of the {k}? | What happened, that the {k} had to shut?"),
    relation("site", "sum", "The repair of the {k} cost {v}. | {v} went into the {k}. | They paid {v} for the work on the {k}.",
             "How much was spent on the {k}? | What was the price of mending the {k}? | How expensive was the work on the {k}?"),
    relation("site", "count", "The {k} holds {v} people. | There is room for {v} people in the {k}. | {v} people fit into the {k}.",
             "How many people does the {k} have room for? | What is the capacity of the {k}? | How large is the {k}, in persons?"),
    relation("thing", "place", "The {k} is kept {v}. | You will find the {k} {v}. | Somebody left the {k} {v}.",
             "Where is the {k}? | Where do I find the {k}? | In what place is the {k} kept?"),
    relation("thing", "person", "The {k} was a gift from {v}. | {v} gave us the {k}. | It was {v} who brought the {k}.",
             "Who gave the {k}? | From whom is the {k}? | Who was the giver of the {k}?"),
    relation("thing", "sum", "The {k} went for {v}. | We sold the {k} for {v}. | The {k} is worth {v}.",
             "What is the {k} worth? | How much does the {k} cost? | For how much was the {k} sold?"),
    relation("thing", "weight", "The {k} weighs {v}. | With its {v} the {k} is hard to lift. | On the scales the {k} showed {v}.",
             "How heavy is the {k}? | What is the weight of the {k}? | What did the {k} weigh?"),
    relation("town", "person", "The mayor of {k} is {v}. | {v} was elected mayor of {k}. | In {k} {v} heads the council.",
             "Who is the mayor of {k}? | Who governs {k}? | Which politician leads {k}?"),
    relation("town", "dish", "{k} is known for its {v}. | Nobody leaves {k} without having tasted {v}. | In {k} they serve {v} on feast days.",
             "What is the speciality of {k}? | Which dish is {k} famous for? | What should one eat in {k}?"),
    relation("town", "date", "The fair of {k} begins on {v}. | Every year on {v} {k} holds its fair. | {v} is fair day in {k}.",
             "When is the fair in {k}? | On which date does the fair of {k} open? | What day is the market feast of {k}?"),
    relation("town", "count", "{k} has {v} inhabitants. | {v} people live in {k}. | At the last count there were {v} souls in {k}.",
             "How many people live in {k}? | What is the population of {k}? | How large is {k}, in inhabitants?"),
    relation("firm", "person", "{k} is led by {v}. | {v} took over {k} last spring. | At {k} the last word belongs to {v}.",
             "Who runs {k}? | Who is the boss of {k}? | Which person is at the top of {k}?"),
    relation("firm", "town", "{k} has its head office in {v}. | {k} is based in {v}. | {k} moved to {v}.",
             "Where is {k} based? | In which town are the headquarters of {k}? | Where does {k} have its seat?"),
    relation("firm", "percent", "Sales of {k} rose by {v}. | {k} sold {v} more than the year before. | With a plus of {v}, {k} had a good year.",
             "By how much did {k} grow? | What was the rise in the sales of {k}? | How strongly did the turnover of {k} increase?"),
    relation("firm", "email", "Questions to {k} go to {v}. | Write to {v} to reach {k}. | {k} answers letters at {v}.",
             "What is the e-mail address of {k}? | How do I write to {k}? | Where do I send a message for {k}?"),
    relation("firm", "duration", "{k} gives a guarantee of {v}. | For {v} {k} repairs free of charge. | What {k} sells is covered for {v}.",
             "How long is the guarantee of {k}? | For what time does {k} repair at no cost? | How long am I covered by {k}?"),
    # Held out.
    relation("person", "plate", "{k} drives a car with the plate {v}. | The car of {k} is registered as {v}.",
             "What is the licence plate of {k}? | Which registration does the vehicle of {k} have?"),
    relation("person", "weekday", "{k} sweeps the yard every {v}. | On {v} it is the turn of {k} to sweep.",
             "On which day of the week does {k} clean? | When is {k} on duty with the broom?"),
    relation("person", "month", "{k} came home from abroad in {v}. | {v} brought {k} back to the village.",
             "When did {k} return? | In which month did {k} come home?"),
    relation("site", "colour", "The roof of the {k} is {v}. | From the hill one sees the {v} roof of the {k}.",
             "What colour is the top of the {k}? | Which colour has the roof of the {k}?"),
    relation("thing", "material", "The {k} is made of {v}. | {v} is what the {k} consists of.",
             "Which material was used for the {k}? | Out of what did they make the {k}?"),
    relation("town", "river_length", "The river at {k} is {v} long. | {v} long is the river that passes {k}.",
             "How long is the river of {k}? | What is the length of the river at {k}?"),
)
HELD_OUT = 6


def amount(rng, low, high):
    """A number with its thousands apart, of any number of digits between those of low and high."""
    return f"{round(low * (high / low) ** rng.random()):,}"


def value(rng, kind):
    """A value or a subject of a kind, as text."""
    if kind in LISTS:
        return rng.choice(LISTS[kind])
    made = {
        "person": lambda: f"{rng.choice(FIRST)} {rng.choice(LAST)}",
        "town": lambda: rng.choice(TOWN_HEADS) + rng.choice(TOWN_TAILS),
        "firm": lambda: rng.choice((f"{rng.choice(LAST)} & {rng.choice(LAST)}", f"{rng.choice(LAST)} {rng.choice(('Ltd', 'Works', 'Bakery', 'Tools', 'Optics', 'Freight'))}",
                                    f"{rng.choice(TOWN_HEADS)}{rng.choice(('tec', 'ware', 'lab', 'line'))}")),
        "phone": lambda: f"0{rng.randrange(100, 9999)} {rng.randrange(10_000, 999_999)}",
        "sum": lambda: rng.choice(("{} pounds", "{} euros", "${}", "{} crowns", "£{}")).format(amount(rng, 5, 90_000)),
        "date": lambda: rng.choice((f"{rng.randrange(1, 29)} {rng.choice(MONTHS)}", f"{rng.choice(MONTHS)} {rng.randrange(1, 29)}", f"the {rng.randrange(4, 20)}th of {rng.choice(MONTHS)}")),
        "room": lambda: rng.choice((str(rng.randrange(1, 600)), f"{rng.choice('ABCDEF')}{rng.randrange(1, 99)}")),
        "code": lambda: rng.choice((f"{rng.randrange(10_000):04}", f"{rng.randrange(1_000_000):06}", f"{rng.choice('ABCDEFGHKLMNPRST')}{rng.randrange(1000):03}")),
        "year": lambda: str(rng.randrange(1480, 2024)),
        "time": lambda: rng.choice((f"{rng.randrange(1, 12)}:{rng.choice(('00', '15', '30', '45'))} pm", f"{rng.randrange(13, 24)}:{rng.choice(('00', '15', '30', '45'))}")),
        "count": lambda: amount(rng, 12, 60_000),
        "weight": lambda: f"{amount(rng, 2, 900)} {rng.choice(('kilos', 'pounds', 'grams', 'kg'))}",
        "percent": lambda: rng.choice((f"{rng.randrange(2, 80)} percent", f"{rng.randrange(1, 40)}.{rng.randrange(1, 10)}%")),
        "email": lambda: f"{rng.choice(FIRST).lower()}@{rng.choice(TOWN_HEADS).lower()}{rng.choice(TOWN_TAILS)}.example",
        "duration": lambda: f"{rng.randrange(2, 60)} {rng.choice(('days', 'weeks', 'months', 'years'))}",
        "plate": lambda: f"{rng.choice('ABCDEFGHKLM')}{rng.choice('NPRSTUVWXYZ')} {rng.randrange(100, 9999)}",
        "river_length": lambda: f"{rng.randrange(9, 900)} {rng.choice(('miles', 'kilometres'))}",
    }
    return made[kind]()


def fact(rng, split, relation=None):
    """(subject, Relation, sentence, paper's question: {q: wordings, a}) of a relation that is drawn where none is given."""
    relation = relation or rng.choice(RELATIONS[:-HELD_OUT] if split == "train" else RELATIONS[-HELD_OUT:])
    k = value(rng, relation.subject)
    if relation.subject in ("thing", "site") and rng.random() < 0.6:
        k = rng.choice((f"{rng.choice(('old', 'new', 'small', 'second', 'big', 'lower', 'upper'))} {k}", f"{k} of {value(rng, 'town')}", f"{value(rng, 'town')} {k}"))
    v = value(rng, relation.value)
    while v == k:
        v = value(rng, relation.value)
    sentence = rng.choice(relation.statements).format(k=k, v=v)
    sentence = sentence[0].upper() + sentence[1:]
    answer = v if v in sentence else v[0].upper() + v[1:]  # It may begin the sentence.
    return k, relation, sentence, {"q": [q.format(k=k) for q in relation.questions], "a": answer}
