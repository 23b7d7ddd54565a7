"""reread: bits per byte of a passage with nothing mounted, with the haystack that holds it, and with the haystack but for the
document that holds it. The first and the last are the controls."""
from niah.errors import InvalidInput
from niah.haystack import Place
from niah.quote import words_from
from niah.task import Gold, Question, Task, Variant

TRIES = 1000  # to find a passage that no shard's end cuts


class Reread(Task):
    name, hides = "reread", False
    least_documents = 2  # one to hold it, one without it

    def __init__(self, options):
        self.options = options

    def variants(self):
        return [Variant(0, "passage")]

    def make(self, draw):
        for attempt in range(TRIES):
            at = draw.haystack.at(draw.depth if attempt == 0 else draw.random.unit())
            text = draw.haystack.shards[at.shard]
            first = words_from(text, at.begin, 1)
            behind = first and words_from(text, first[0].begin + self.options.passage_bytes, 1)
            if behind:
                begin, end = first[0].begin, behind[0].begin
                return Question(text[begin:end].decode(), gold=[Gold(Place(at.shard, begin, end), begin, end)])
        raise InvalidInput(f"reread: no document of the haystack has {self.options.passage_bytes} bytes (--passage-bytes) with words before "
                           "and behind them")

    def run(self, asker, question, volumes, sample):
        sample.question = question.prompt
        holder = question.gold[0].place.shard
        others = volumes[:holder] + volumes[holder + 1:]
        sample.numbers = {"bits per byte: nothing mounted": asker.bits_per_byte(question.prompt, []),
                          "its document mounted": asker.bits_per_byte(question.prompt, volumes),
                          "others mounted": asker.bits_per_byte(question.prompt, others)}
