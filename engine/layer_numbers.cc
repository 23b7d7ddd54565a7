#include "engine/layer_numbers.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "model/text/printable.h"

namespace recollect::engine {

absl::StatusOr<PatternNumbers> ParsePatternNumbers(absl::string_view what, absl::string_view text) {
  PatternNumbers numbers;
  if (text.empty()) return numbers;
  for (const absl::string_view layer : absl::StrSplit(text, ',')) {
    std::vector<int64_t>& heads = numbers.layers.emplace_back();
    for (const absl::string_view word : absl::StrSplit(layer, '/')) {
      if (!absl::SimpleAtoi(word, &heads.emplace_back())) {
        return absl::InvalidArgumentError(
            absl::StrCat(what, ": '", model::EscapeInvisible(text),
                         "', expected a number, or one for each layer separated by commas, "
                         "or within a layer one for each head separated by slashes"));
      }
    }
  }
  if (numbers.layers.size() == 1 && numbers.layers[0].size() == 1) {
    numbers.everywhere = numbers.layers[0][0];
    numbers.layers.clear();
  }
  return numbers;
}

}  // namespace recollect::engine
