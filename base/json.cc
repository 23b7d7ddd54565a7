#include "base/json.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace recollect {
namespace {

using nlohmann::json;

constexpr size_t kMaxShownBytes = 256;  // of a key

std::string Shown(const std::string& key) {
  if (key.size() <= kMaxShownBytes) return key;
  size_t end = kMaxShownBytes;
  while (end > 0 && (static_cast<unsigned char>(key[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(key.substr(0, end), "… (", key.size(), " bytes)");
}

// "[json.exception.parse_error.101] parse error at line 1, column 3: …; last read: '…'; …" without
// its number and from what it quotes on, which may be of any length and a secret.
absl::string_view Reason(absl::string_view what) {
  what = what.substr(0, what.find("; last read"));
  const size_t label = what.find("] ");
  return label == absl::string_view::npos ? what : what.substr(label + 2);
}

// Reads a text without keeping it. It goes on behind the limit, in constant memory but for a bit
// each level, to say how deep the text is.
class Reader final : public nlohmann::json_sax<json> {
 public:
  Reader(size_t bytes, EqualKeys equal) : bytes_(bytes), equal_(equal) {}

  // Once the text has been read.
  absl::Status status() const {
    if (!failed_.ok()) return failed_;
    if (deepest_ > kMaxJsonDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("nested ", deepest_, " deep, expected at most ", kMaxJsonDepth));
    }
    if (!twice_.has_value()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("key \"", Shown(*twice_), "\" appears twice"));
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(binary_t&) override { return true; }  // never of a text
  bool start_object(size_t) override {
    if (WatchesKeys()) keys_.emplace_back();
    return Enter();
  }
  bool key(std::string& name) override {
    if (WatchesKeys() && !twice_.has_value() && !keys_.back().insert(name).second) twice_ = name;
    return true;
  }
  bool end_object() override {
    if (WatchesKeys()) keys_.pop_back();
    return Leave();
  }
  bool start_array(size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }
  bool parse_error(size_t place, const std::string&, const json::exception& error) override {
    constexpr int kNumberOverflow = 406;
    // `place` counts the first byte that does not fit.
    const size_t fitting = place == 0 ? 0 : place - 1;
    failed_ = absl::InvalidArgumentError(
        error.id == kNumberOverflow
            ? "not JSON in UTF-8: it has a number beyond the range of a double"
            : absl::StrCat("not JSON in UTF-8 at byte ", fitting, " of ", bytes_, ": ",
                           Reason(error.what())));
    return false;
  }

 private:
  // Of a text that is too deep nothing else is told.
  bool WatchesKeys() const { return equal_ == EqualKeys::kRefused && deepest_ <= kMaxJsonDepth; }
  bool Enter() {
    deepest_ = std::max(deepest_, ++depth_);
    return true;
  }
  bool Leave() {
    --depth_;
    return true;
  }

  const size_t bytes_;
  const EqualKeys equal_;
  int depth_ = 0, deepest_ = 0;
  std::vector<std::set<std::string>> keys_;  // of the objects around what comes next
  std::optional<std::string> twice_;         // the first such key
  absl::Status failed_;
};

}  // namespace

// Read twice, first without making values. The library's parser with a callback reads once, but
// walks through all of a list at the end of each object in it.
absl::StatusOr<json> ParseJson(absl::string_view text, EqualKeys equal) {
  Reader reader(text.size(), equal);
  json::sax_parse(text.begin(), text.end(), &reader);
  if (absl::Status status = reader.status(); !status.ok()) return status;
  return json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

}  // namespace recollect
