#include "cli/common/passages.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "engine/block_texts.h"
#include "engine/types.h"
#include "model/text/printable.h"
#include "model/text/sentence.h"
#include "service/codec/codec.h"

namespace recollect::cli {
namespace {

constexpr size_t kMaxPassages = 3;     // of one answer, or all that it quotes; --json has all
constexpr int64_t kAroundBytes = 240;  // in which the rest of a sentence is looked for
constexpr size_t kWidth = 100;         // of lines, where there is no terminal
constexpr float kLeastShare = 0.2F;    // of the heaviest block's weight
constexpr absl::string_view kIndent = "    ";

// Code points of UTF-8.
size_t Characters(absl::string_view word) {
  return static_cast<size_t>(
      std::ranges::count_if(word, [](char c) { return (c & 0xc0) != 0x80; }));
}

size_t TerminalWidth(std::FILE* out) {
  winsize size = {};
  const bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
  return known ? std::min<size_t>(size.ws_col, kWidth) : kWidth;
}

// Also what is around it; empty: the document is gone.
std::string TextOf(client::Client& client, const Passage& passage) {
  const auto document = client.GetDocument(passage.document);
  if (!document.ok()) return "";
  const int64_t begin = std::max<int64_t>(passage.begin - kAroundBytes, 0);
  const int64_t end = std::min<int64_t>(passage.end + kAroundBytes, document->bytes());
  const auto text = client.ReadText(passage.document, begin, end);
  if (!text.ok() || passage.end > end) return "";
  // A document's ends are those of a line.
  const std::string lines = model::Unbroken(
      absl::StrCat(begin == 0 ? "\n" : "", *text, end == document->bytes() ? "\n" : ""));
  const int64_t shift = begin == 0 ? 1 : 0;
  return WholeSentences(lines, static_cast<size_t>(passage.begin - begin + shift),
                        static_cast<size_t>(passage.end - begin + shift));
}

}  // namespace

std::vector<Passage> PassagesOf(
    const google::protobuf::RepeatedPtrField<v1::Retrieval>& retrievals) {
  std::map<std::pair<std::string, int64_t>, Passage> blocks;
  for (const v1::Retrieval& retrieval : retrievals) {
    const float least = retrieval.has_nothing() ? engine::kLeastCited : 0;
    for (const v1::Hit& hit : retrieval.hits()) {
      if (hit.document().empty() || (hit.weight() < least && hit.quote().empty())) continue;
      Passage& block = blocks[{hit.document(), hit.text_begin()}];
      block = {hit.document(), hit.text_begin(), hit.text_end(),
               std::max(block.weight, hit.weight()),
               hit.quote().empty() ? block.quote : hit.quote()};
    }
  }
  float most = 0;
  for (const auto& [place, block] : blocks) most = std::max(most, block.weight);
  std::vector<Passage> passages;
  for (const auto& [place, block] : blocks) {
    if (block.weight < kLeastShare * most && block.quote.empty()) continue;
    Passage* const before = passages.empty() ? nullptr : &passages.back();
    if (before != nullptr && before->document == block.document && before->end == block.begin) {
      before->end = block.end;
      before->weight = std::min(before->weight + block.weight, 1.0F);
      const bool both = !before->quote.empty() && !block.quote.empty();
      absl::StrAppend(&before->quote, both ? "\n" : "", block.quote);
    } else {
      passages.push_back(block);
    }
  }
  std::ranges::stable_sort(passages, std::greater(), [](const Passage& passage) {
    return std::pair(!passage.quote.empty(), passage.weight);
  });
  return passages;
}

std::string WholeSentences(absl::string_view text, size_t begin, size_t end) {
  auto [from, to] = model::SentenceAround({text.data(), text.size()}, {begin, end});
  // The ends of `text` may be anywhere in a document.
  const bool cut_before = from == 0 && begin > 0 && text.front() != '\n';
  const bool cut_after = to == text.size() && end < to && text.back() != '\n';
  if (cut_before) from = begin;
  if (cut_after) to = end;
  return absl::StrCat(cut_before ? "… " : "",
                      absl::StripAsciiWhitespace(text.substr(from, to - from)),
                      cut_after ? " …" : "");
}

std::string Wrapped(absl::string_view text, size_t width, absl::string_view indent) {
  std::string lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    size_t used = 0;
    for (const absl::string_view word :
         absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty())) {
      const size_t size = Characters(word);
      const bool fits = used > 0 && indent.size() + used + 1 + size <= width;
      const std::string before = fits ? " " : absl::StrCat(used > 0 ? "\n" : "", indent);
      absl::StrAppend(&lines, before, word);
      used = fits ? used + 1 + size : size;
    }
    lines += '\n';
  }
  return lines;
}

void PrintPassages(client::Client& client,
                   const google::protobuf::RepeatedPtrField<v1::Retrieval>& retrievals,
                   std::FILE* out) {
  std::vector<Passage> passages = PassagesOf(retrievals);
  const bool unread =
      std::any_of(retrievals.begin(), retrievals.end(),
                  [](const v1::Retrieval& one) { return one.has_nothing() && one.nothing() == 1; });
  if (unread && passages.empty()) std::fputs("  (no document was read)\n", out);
  const auto quoted = static_cast<size_t>(std::ranges::count_if(
      passages, [](const Passage& passage) { return !passage.quote.empty(); }));
  passages.resize(std::min(passages.size(), std::max(quoted, kMaxPassages)));
  for (const Passage& passage : passages) {
    const std::string text = TextOf(client, passage);
    const std::string lines = Wrapped(text, TerminalWidth(out), kIndent);
    // The weight is what the model read by, not why a sentence is quoted.
    const std::string weight =
        passage.quote.empty() ? absl::StrFormat(" (%.0f %%)", 100 * passage.weight) : "";
    absl::FPrintF(out, "  %s %s, bytes %d-%d%s%s\n",
                  passage.quote.empty() ? "read in" : "quoted from",
                  model::EscapeInvisible(passage.document), passage.begin, passage.end, weight,
                  text.empty() ? ", which has been deleted" : ":");
    for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
      absl::FPrintF(out, "%s\n",
                    model::EscapeInvisible(service::ValidUtf8({line.data(), line.size()})));
    }
  }
}

}  // namespace recollect::cli
