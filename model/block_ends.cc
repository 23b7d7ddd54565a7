#include "model/block_ends.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "model/state/local_state.h"
#include "model/text/tokenizer.h"

namespace recollect::model {
namespace {

// Takes one of `endings` off the end of `text`, if it has one.
bool StripOne(std::string_view* text, std::initializer_list<std::string_view> endings) {
  for (const std::string_view ending : endings) {
    if (!text->ends_with(ending)) continue;
    text->remove_suffix(ending.size());
    return true;
  }
  return false;
}

// Whether a line or a sentence ends between the two texts.
bool EndsBetween(std::string_view before, std::string_view after) {
  if (before.ends_with('\n')) return true;
  while (StripOne(&before, {"\"", "'", ")", "]", "”", "’", "»", "」", "』"})) {
  }
  if (StripOne(&before, {"。", "！", "？"})) return true;
  const bool space = after.starts_with(' ') || after.starts_with('\n');
  return space && StripOne(&before, {".", "!", "?"});
}

// Whether a line or a sentence ends with this token, decoded alone: at its end, before blanks, is
// a full stop, an exclamation or question mark, perhaps with one quote or bracket that closes, or
// among those blanks is the end of a line.
bool EndsWith(std::string_view token) {
  const size_t blanks = token.find_last_not_of(" \t\n\v\f\r") + 1;  // 0: there is nothing else
  if (token.find('\n', blanks) != std::string_view::npos) return true;
  token = token.substr(0, blanks);
  StripOne(&token, {"\"", "'", ")", "”", "’"});
  return StripOne(&token, {".", "!", "?"});
}

// The blocks of documents that are kept as text or read by an adapter (docs/model-format.md): what
// comes after them has no say.
int64_t NextTextBlock(const Tokenizer& tokenizer, std::span<const int32_t> tokens, int64_t least,
                      int64_t most) {
  for (int64_t end = most; end >= least; --end) {
    if (EndsWith(tokenizer.TokenBytes(tokens[static_cast<size_t>(end - 1)]))) return end;
  }
  return most;
}

int64_t MostTokens(const ModelConfig& config) {
  if (config.documents() == DocumentKind::kPrefix) return LayerState::kMaxAppend;
  return config.chunk_tokens;
}

}  // namespace

int64_t NextBlock(const Model& model, std::span<const int32_t> tokens, bool final,
                  int64_t position) {
  const ModelConfig& config = model.config();
  if (config.has_adapter()) {
    const int64_t segment = config.adapter.segment_tokens, left = segment - position % segment;
    final = final || std::ssize(tokens) >= left;
    tokens = tokens.first(static_cast<size_t>(std::min(left, std::ssize(tokens))));
  }
  const int64_t most = MostTokens(config);
  const auto count = std::ssize(tokens);
  const int64_t least = config.min_chunk_tokens;
  if (final && count <= most) return count;
  if (least == 0) return count < most ? 0 : most;
  if (count <= most) return 0;
  if (config.documents() == DocumentKind::kText || config.has_adapter()) {
    return NextTextBlock(*model.tokenizer(), tokens, least, most);
  }
  const auto bytes = [&](int64_t token) {
    return model.tokenizer()->TokenBytes(tokens[static_cast<size_t>(token)]);
  };
  std::string text;
  for (int64_t token = 0; token < most; ++token) text += bytes(token);
  std::string_view before = text;
  for (int64_t end = most; end >= least; --end) {
    if (EndsBetween(before, bytes(end))) return end;
    before.remove_suffix(bytes(end - 1).size());
  }
  return most;
}

}  // namespace recollect::model
