#include "model/gguf_parts.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace recollect::model {
namespace {

constexpr std::string_view kForm = "-00001-of-00003.gguf";  // with any digits
constexpr size_t kDigits = 5;

}  // namespace

std::optional<GgufPartName> ParseGgufPartName(const std::string& path) {
  if (path.size() < kForm.size()) return std::nullopt;
  const std::string end = path.substr(path.size() - kForm.size());
  const auto fits = [](char form, char c) {
    return absl::ascii_isdigit(form) ? absl::ascii_isdigit(c) : c == form;
  };
  if (!std::equal(kForm.begin(), kForm.end(), end.begin(), fits)) return std::nullopt;
  GgufPartName name{.stem = path.substr(0, path.size() - kForm.size())};
  name.part = std::stoll(end.substr(kForm.find("00001"), kDigits));
  name.count = std::stoll(end.substr(kForm.find("00003"), kDigits));
  return name.part >= 1 && name.part <= name.count ? std::optional(name) : std::nullopt;
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
