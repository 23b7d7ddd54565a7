// The input is two bytes, which choose a tokenizer and where the text is cut, and the text.
#include "tests/fuzz/tokenizer_checks.h"
#include "tests/support/tiny_model.h"

namespace {

std::unique_ptr<recollect::model::Tokenizer> Load(const char* name) {
  auto tokenizer =
      recollect::model::Tokenizer::Load(recollect::SourceDir() + "/tests/support/" + name);
  RECOLLECT_CHECK(tokenizer.ok());
  return *std::move(tokenizer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto& tiny = *new auto(Load("tiny_tokenizer.model"));
  static const auto& llama = *new auto(Load("llama_tokenizer.model"));
  if (size < 2) return 0;
  const bool whole_text = data[0] % 2 == 1;
  recollect::fuzz::CheckTokenizer(whole_text ? *llama : *tiny,
                                  recollect::fuzz::AsText(data + 2, size - 2), data[1], whole_text);
  return 0;
}
