// The input is two bytes, which choose a rule and where the text is cut, and the text.
#include <iterator>

#include "tests/fuzz/tokenizer_checks.h"
#include "tests/support/tiny_bpe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using recollect::model::PreTokenizer;
  static const auto& tokenizers =
      *new std::vector<std::unique_ptr<recollect::model::BpeTokenizer>>([] {
        std::vector<std::unique_ptr<recollect::model::BpeTokenizer>> all;
        for (const PreTokenizer rule : {PreTokenizer::kGpt2, PreTokenizer::kSmollm,
                                        PreTokenizer::kLlamaBpe, PreTokenizer::kQwen2}) {
          all.push_back(recollect::TinyBpeTokenizer(rule));
        }
        return all;
      }());
  if (size < 2) return 0;
  const auto& tokenizer = *tokenizers[data[0] % tokenizers.size()];
  const std::string_view text = recollect::fuzz::AsText(data + 2, size - 2);
  recollect::fuzz::CheckTokenizer(tokenizer, text, data[1], /*whole_text=*/false);
  if (const auto ids = tokenizer.Encode(text); ids.ok()) {
    for (const int32_t id : *ids) RECOLLECT_CHECK(tokenizer.ControlName(id).empty());
  }
  return 0;
}
