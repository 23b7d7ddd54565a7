// Sentences of a text: what an answer quotes. Their ends are those of Unicode's rules (UAX #29) as
// ICU has them for English, which knows its abbreviations.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace recollect::model {

// Bytes of a text.
struct TextRange {
  size_t begin = 0, end = 0;
};

// Returns the bytes from the beginning of the sentence in which `part` begins to the end of the one
// in which it ends; blanks at its own ends do not count. A line of a list or a table is a sentence,
// too. REQUIRES: `part` is not empty, and within `text`, of which not all bytes need to be UTF-8.
TextRange SentenceAround(std::string_view text, TextRange part);

// Returns the sentences that are not blank in `part`, as SentenceAround has them, in order.
std::vector<TextRange> SentencesIn(std::string_view text, TextRange part);

// Whether a sentence is an item of a list: a line that begins with a mark such as "-", or a number.
bool IsListItem(std::string_view sentence);

// Returns a sentence of `text` that ends with a colon, or a heading of a list, together with what
// follows: the list up to its last item, or the lines up to an empty one. Any other sentence as it
// is. The items of a list begin with marks such as "-", or with labels such as "Monday:", of which
// a heading needs two.
TextRange WithList(std::string_view text, TextRange sentence);

// Returns `text` with a space for each end of a line at which a sentence was broken by hand: behind
// a long line that does not end a sentence, in front of a letter, which may be indented. Bytes keep
// their places.
std::string Unbroken(std::string text);

// Returns where the clauses of a sentence of `text` begin, behind commas and the like, but for
// those that begin behind the byte `place`: ascending, first the sentence's own beginning.
std::vector<size_t> ClauseBegins(std::string_view text, TextRange sentence, size_t place);

// Returns what joins a sentence of `text` to the one before it: a blank, or the end of a line where
// a paragraph ends, or a line that ends no sentence. 0 if there is more between them than blanks.
char JointOf(std::string_view text, TextRange before, TextRange sentence);

// Returns the words of a sentence in one line, without the mark of a list before them.
std::string InOneLine(std::string_view sentence);

}  // namespace recollect::model
