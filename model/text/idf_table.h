// The words of many texts and in how many blocks of them they are, compiled in
// (cmake/EmbedText.cmake makes the source of model/text/idf.txt, which train/data/idf.py counts).
#pragma once

#include <string_view>

namespace recollect::model {

// The first line: how many blocks there were, and the idf of a word that none of them has. Each
// further line: an idf, and after it the words that have it, in between one blank each. An idf is
// ln(1 + (N - n + 0.5) / (n + 0.5)) in hundredths, of the n blocks among N that have the word.
std::string_view IdfTable();

}  // namespace recollect::model
