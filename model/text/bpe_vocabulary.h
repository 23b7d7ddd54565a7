// The vocabulary of a byte-level BPE as files hold it, read from a GGUF file's metadata or from the
// Hugging Face layout's tokenizer.json. BpeTokenizer checks and uses it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/pre_tokenizer.h"
#include "model/text/token_type.h"

namespace recollect::model {

class GgufMetadata;

struct BpeVocabulary {
  // The tokens by id. Normal tokens are in GPT-2's printable alphabet of bytes ("Ġthe"), others as
  // they are.
  std::vector<std::string> tokens;
  std::vector<TokenType> types;     // as many
  std::vector<std::string> merges;  // "Ġ the", in order of priority
  PreTokenizer pre = PreTokenizer::kGpt2;
  // A pre-token that equals a token becomes that token, whatever the merges would make of it.
  bool ignore_merges = false;
  int32_t bos = -1, eos = -1, unk = -1;  // -1: the file names none
  bool add_bos = false;                  // the file asks for `bos` before a text

  // Reads `tokenizer.ggml.*`. INVALID_ARGUMENT names the key and what it holds, also for a
  // tokenizer that is not byte-level BPE ("gpt2").
  static absl::StatusOr<BpeVocabulary> FromGguf(const GgufMetadata& metadata);

  // Reads a tokenizer.json: the model of type BPE, its merges as strings or pairs, added tokens
  // (special ones become control tokens), and the pre-tokenizer's rule, known by its structure.
  // `bos`, `eos` and `unk` are not in such a file. INVALID_ARGUMENT names the part that is not
  // byte-level BPE with one of the four rules, and what it is.
  static absl::StatusOr<BpeVocabulary> FromTokenizerJson(std::string_view json);
};

}  // namespace recollect::model
