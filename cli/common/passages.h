// Passages that an answer was given, as people read them: whole sentences, neighbours as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/client.h"

namespace recollect::cli {

struct Passage {
  std::string document;
  int64_t begin = 0, end = 0;  // bytes of the document's text
  float weight = 0;            // of its blocks together, up to 1
  std::string quote = {};      // v1::Hit::quote of these, a line each
};

// The blocks that `retrievals` cite, first those that the answer quotes, then the heaviest.
// Blocks that follow each other in a document are one passage; a block that was read at several
// steps has its largest weight. Blocks of less than a fifth of the heaviest one's weight are left
// out, unless they are quoted.
std::vector<Passage> PassagesOf(
    const google::protobuf::RepeatedPtrField<v1::Retrieval>& retrievals);

// text[begin, end) with the rest of the sentences, or lines, that it cuts at its ends; with an
// ellipsis at an end where `text` does not have their rest.
std::string WholeSentences(absl::string_view text, size_t begin, size_t end);

// The lines of `text`, but for empty ones, broken between words where they are longer than `width`
// characters, each behind `indent`.
std::string Wrapped(absl::string_view text, size_t width, absl::string_view indent);

// Prints the three heaviest passages that an answer was given, each below its document; or that no
// document was read, where the model says so.
void PrintPassages(client::Client& client,
                   const google::protobuf::RepeatedPtrField<v1::Retrieval>& retrievals,
                   std::FILE* out);

}  // namespace recollect::cli
