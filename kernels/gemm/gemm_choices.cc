#include "kernels/gemm/gemm_choices.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/io/file.h"
#include "base/sha256.h"

namespace recollect::kernels {
namespace {

// Changes with the layout of the file, and with anything that makes ChooseGemm choose differently.
constexpr absl::string_view kFormat = "recollect products 1";
constexpr absl::string_view kSum = "sha256 ";
constexpr size_t kHexDigits = 16;  // of one of an algorithm's numbers

std::string Hex(const GemmAlgorithmBytes& algorithm) {
  std::string hex;
  for (const uint64_t number : algorithm)
    absl::StrAppend(&hex, absl::Hex(number, absl::kZeroPad16));
  return hex;
}

bool ParseHex(absl::string_view hex, GemmAlgorithmBytes& algorithm) {
  if (hex.size() != kHexDigits * algorithm.size()) return false;
  for (uint64_t& number : algorithm) {
    if (!absl::SimpleHexAtoi(hex.substr(0, kHexDigits), &number)) return false;
    hex.remove_prefix(kHexDigits);
  }
  return true;
}

// "n k in out add ranges", and for each range "min_rows max_rows algorithm".
std::string LineOf(const GemmShape& shape, const GemmChoice& choice) {
  std::string line = absl::StrCat(shape.n, " ", shape.k, " ", static_cast<int>(shape.in), " ",
                                  static_cast<int>(shape.out), " ", shape.add ? 1 : 0, " ",
                                  choice.plan.ranges.size());
  for (const GemmRange& range : choice.plan.ranges) {
    absl::StrAppend(&line, " ", range.min_rows, " ", range.max_rows, " ",
                    Hex(choice.algorithms[static_cast<size_t>(range.algorithm)]));
  }
  return absl::StrCat(line, "\n");
}

bool ParseShape(const std::vector<absl::string_view>& words, GemmShape& shape) {
  int in = 0, out = 0, add = 0;
  if (!absl::SimpleAtoi(words[0], &shape.n) || !absl::SimpleAtoi(words[1], &shape.k) ||
      !absl::SimpleAtoi(words[2], &in) || !absl::SimpleAtoi(words[3], &out) ||
      !absl::SimpleAtoi(words[4], &add)) {
    return false;
  }
  if (in < 0 || in > 1 || out < 0 || out > 1 || add < 0 || add > 1) return false;
  shape.in = static_cast<DType>(in);
  shape.out = static_cast<DType>(out);
  shape.add = add != 0;
  return true;
}

bool ParseRange(const std::vector<absl::string_view>& words, size_t at, GemmChoice& choice) {
  GemmRange range;
  GemmAlgorithmBytes algorithm;
  if (!absl::SimpleAtoi(words[at], &range.min_rows) ||
      !absl::SimpleAtoi(words[at + 1], &range.max_rows) || !ParseHex(words[at + 2], algorithm)) {
    return false;
  }
  const auto known = std::find(choice.algorithms.begin(), choice.algorithms.end(), algorithm);
  range.algorithm = static_cast<int>(known - choice.algorithms.begin());
  if (known == choice.algorithms.end()) choice.algorithms.push_back(algorithm);
  choice.plan.ranges.push_back(range);
  return true;
}

// Whether a plan is one that products of the shape may have: ChooseGemm tried all of it.
bool IsPlanOf(const GemmShape& shape, const GemmPlan& plan) {
  if (!CheckGemmShape(shape).ok()) return false;
  int64_t below = 0;
  for (const GemmRange& range : plan.ranges) {
    if (range.min_rows <= below || range.max_rows < range.min_rows) return false;
    below = range.max_rows;
  }
  return below <= MostTestedRows(shape);
}

bool ParseLine(absl::string_view line, std::map<GemmShape, GemmChoice>& choices) {
  constexpr size_t kBefore = 6, kEach = 3;
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  GemmShape shape;
  size_t ranges = 0;
  if (words.size() < kBefore || !ParseShape(words, shape) || !absl::SimpleAtoi(words[5], &ranges) ||
      ranges == 0 || words.size() != kBefore + kEach * ranges) {
    return false;
  }
  GemmChoice choice;
  for (size_t i = 0; i < ranges; ++i) {
    if (!ParseRange(words, kBefore + kEach * i, choice)) return false;
  }
  if (!IsPlanOf(shape, choice.plan)) return false;
  choices[shape] = std::move(choice);
  return true;
}

// Returns what the text of a file says; nothing of one that is damaged or has another head.
std::map<GemmShape, GemmChoice> Parse(absl::string_view text, absl::string_view head) {
  const size_t end = text.rfind(kSum);
  if (end == absl::string_view::npos) return {};
  absl::string_view body = text.substr(0, end);
  if (text.substr(end) != absl::StrCat(kSum, Sha256Hex(body), "\n")) return {};
  if (!absl::ConsumePrefix(&body, head)) return {};
  std::map<GemmShape, GemmChoice> choices;
  for (const absl::string_view line : absl::StrSplit(body, '\n', absl::SkipEmpty())) {
    if (!ParseLine(line, choices)) return {};
  }
  return choices;
}

// Writes beside the file and moves there: readers see one or the other.
absl::Status WriteWhole(const std::string& path, absl::string_view text) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const std::string beside = absl::StrCat(path, ".", getpid());
  std::ofstream file(beside, std::ios::binary);
  file << text;
  file.close();
  if (file.good()) std::filesystem::rename(beside, path, error);
  if (file.good() && !error) return absl::OkStatus();
  std::filesystem::remove(beside, error);
  return absl::UnavailableError(absl::StrCat("choices of products: cannot write ", path));
}

}  // namespace

std::string GemmChoicesPath(absl::string_view device, uint64_t library) {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  std::string folder;
  if (cache != nullptr && cache[0] == '/') {
    folder = cache;
  } else if (home != nullptr && home[0] == '/') {
    folder = absl::StrCat(home, "/.cache");
  } else {
    return "";
  }
  std::string name(device);
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.') c = '-';
  }
  return absl::StrCat(folder, "/recollect/products-", name, "-", library, ".txt");
}

GemmChoices::GemmChoices(std::string path, std::string device, uint64_t library)
    : path_(std::move(path)),
      head_(absl::StrCat(kFormat, "\ndevice ", device, "\ncublaslt ", library, "\n")) {
  Read();
}

void GemmChoices::Read() {
  if (path_.empty()) return;
  const absl::StatusOr<std::string> text = ReadWholeFile(path_);
  if (text.ok()) choices_.merge(Parse(*text, head_));
}

std::optional<GemmChoice> GemmChoices::Find(const GemmShape& shape) const {
  const auto found = choices_.find(shape);
  if (found == choices_.end()) return std::nullopt;
  return found->second;
}

absl::Status GemmChoices::Keep(const GemmShape& shape, const GemmChoice& choice) {
  choices_[shape] = choice;
  Read();
  return path_.empty() ? absl::OkStatus() : WriteWhole(path_, Text());
}

std::string GemmChoices::Text() const {
  std::string text = head_;
  for (const auto& [shape, choice] : choices_) absl::StrAppend(&text, LineOf(shape, choice));
  return absl::StrCat(text, kSum, Sha256Hex(text), "\n");
}

}  // namespace recollect::kernels
