#include "model/gguf_parts.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace recollect::model {
namespace {

constexpr size_t kDigits = 5;

// Takes text of a known size from the end.
std::string_view TakeLast(std::string_view& text, size_t size) {
  const std::string_view last = text.substr(text.size() - std::min(size, text.size()));
  text.remove_suffix(last.size());
  return last;
}

std::optional<int64_t> TakeNumber(std::string_view& text) {
  const std::string_view digits = TakeLast(text, kDigits);
  int64_t number = 0;
  const bool read = digits.size() == kDigits &&
                    std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) &&
                    absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &number);
  return read ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<GgufPartName> ParseGgufPartName(const std::string& path) {
  std::string_view rest = path;
  if (TakeLast(rest, 5) != ".gguf") return std::nullopt;
  const std::optional<int64_t> count = TakeNumber(rest);
  if (!count.has_value() || TakeLast(rest, 4) != "-of-") return std::nullopt;
  const std::optional<int64_t> part = TakeNumber(rest);
  if (!part.has_value() || TakeLast(rest, 1) != "-") return std::nullopt;
  if (*part < 1 || *part > *count) return std::nullopt;
  return GgufPartName{std::string(rest), *part, *count};
}

std::string GgufPartPath(const std::string& stem, int64_t part, int64_t count) {
  return absl::StrCat(stem, "-", absl::Dec(part, absl::kZeroPad5), "-of-",
                      absl::Dec(count, absl::kZeroPad5), ".gguf");
}

std::vector<std::string> GgufPartPaths(const std::string& path) {
  const std::optional<GgufPartName> name = ParseGgufPartName(path);
  if (!name.has_value()) return {path};
  std::vector<std::string> paths;
  for (int64_t part = 1; part <= name->count; ++part) {
    paths.push_back(GgufPartPath(name->stem, part, name->count));
  }
  return paths;
}

}  // namespace recollect::model
