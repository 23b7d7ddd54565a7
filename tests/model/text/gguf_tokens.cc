// Writes the ids of texts by a GGUF file's vocabulary, for comparison with other programs.
//
//   gguf_tokens FILE.gguf < TEXTS.json > IDS.json
//
// A list of texts in, a list of lists of ids out; null for a text that is refused.
#include <cstdio>
#include <iostream>
#include <string>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "model/text/bpe_tokenizer.h"
#include "model/text/sentencepiece_tokenizer.h"
#include "model/weights/gguf.h"
#include "nlohmann/json.hpp"

namespace recollect::model {
namespace {

absl::StatusOr<std::unique_ptr<Tokenizer>> Open(const std::string& path) {
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  ASSIGN_OR_RETURN(const auto model, file.metadata().GetString("tokenizer.ggml.model"));
  if (model == "llama") {
    ASSIGN_OR_RETURN(auto vocabulary, SentencePieceVocabulary::FromGguf(file.metadata()));
    return SentencePieceTokenizer::Create(std::move(vocabulary));
  }
  ASSIGN_OR_RETURN(BpeVocabulary vocabulary, BpeVocabulary::FromGguf(file.metadata()));
  return BpeTokenizer::Create(std::move(vocabulary));
}

absl::Status Write(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, Open(path));
  nlohmann::json texts, all = nlohmann::json::array();
  std::cin >> texts;
  for (const nlohmann::json& text : texts) {
    const auto ids = tokenizer->Encode(text.get<std::string>());
    all.push_back(ids.ok() ? nlohmann::json(*ids) : nlohmann::json());
  }
  std::cout << all << '\n';
  return absl::OkStatus();
}

}  // namespace
}  // namespace recollect::model

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gguf_tokens FILE.gguf < TEXTS.json\n");
    return 2;
  }
  const absl::Status status = recollect::model::Write(argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
