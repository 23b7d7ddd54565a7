#include "cli/niah/prose.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "cli/niah/needle.h"
#include "cli/niah/quote.h"
#include "cli/niah/tasks.h"

namespace recollect::cli::niah {
namespace {

constexpr int64_t kTokens = 64;       // of a continuation
constexpr int64_t kCycleTokens = 20;  // that may go round in a circle
constexpr int64_t kLongestCycle = 3;
constexpr int64_t kRunWords = 4;
constexpr int64_t kValueDigits = 5;  // more than a year has
constexpr int64_t kSlot = 60;        // bytes of a key or value at most
constexpr int kPromptTries = 1000;   // to find a prompt that no shard's end cuts

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

class Prose : public Task {
 public:
  Prose(const TaskOptions& options, const Material& material)
      : options_(options), forms_(material.phrases) {}

  std::string name() const override { return "prose"; }
  std::vector<Variant> variants() const override {
    return {{0, "greedy"}, {1, "greedy, docs"}, {2, "sampled"}, {3, "sampled, docs"}};
  }
  bool hides() const override { return false; }
  int64_t least_documents() const override { return 2; }  // one to begin from, one to mount

  absl::StatusOr<Question> Make(const Draw& draw) override {
    for (int t = 0; t < kPromptTries; ++t) {
      const Place at = draw.haystack.At(t == 0 ? draw.depth : draw.random.Unit());
      const std::string& text = draw.haystack.shards()[at.shard];
      const auto words = WordsFrom(text, at.begin, options_.cue_words + kTokens);
      if (std::ssize(words) < options_.cue_words + kTokens) continue;
      const int64_t begin = words.front().begin, end = words[options_.cue_words - 1].end;
      Question question;
      question.prompt = text.substr(begin, end - begin);
      question.expected = {text.substr(end, words.back().end - end)};
      question.gold = {{{at.shard, begin, end}, begin, end}};
      return question;
    }
    return absl::InvalidArgumentError(absl::StrCat("prose: no document of the haystack has ",
                                                   options_.cue_words, " words (--cue-words) with ",
                                                   kTokens, " others behind them"));
  }

  // The document that the prompt is of is never mounted: the model would quote it.
  absl::Status Run(const Asker& asker, const Question& question, const Volumes& volumes,
                   Sample* sample) const override {
    Volumes mounted;
    if (absl::EndsWith(sample->variant, "docs")) mounted = volumes;
    if (!mounted.empty()) mounted.erase(mounted.begin() + question.gold.front().place.shard);
    v1::Sampling sampling;
    if (absl::StartsWith(sample->variant, "sampled")) {
      sampling.set_temperature(0.8f);
      sampling.set_top_p(0.9f);
      sampling.set_seed(Crc32(question.prompt));
    }
    ASSIGN_OR_RETURN(const client::GenerateResult result,
                     asker.Continue(question.prompt, mounted, sampling, kTokens));
    const std::string text = question.expected.front().substr(0, result.text.size());
    sample->question = question.prompt;
    sample->value = text;
    sample->answer = result.text;
    const bool form = forms_.In(result.text), cycle = Cycles(result.tokens, kCycleTokens);
    sample->right = !form && !cycle;
    sample->numbers = {{"cycles", cycle ? 1 : 0},
                       {"forms", form ? 1 : 0},
                       {"forms in the text", forms_.In(text) ? 1 : 0},
                       {"repeats", ShareOfRepeats(result.text)},
                       {"repeats in the text", ShareOfRepeats(text)},
                       {"digits", ShareOfDigits(result.text)},
                       {"digits in the text", ShareOfDigits(text)}};
    return absl::OkStatus();
  }

 private:
  const TaskOptions& options_;
  const TrainedForms forms_;
};

}  // namespace

TrainedForms::TrainedForms(const Phrases& phrases) {
  const PhraseList& trained = phrases.trained;
  for (const auto* list : {&trained.needles, &trained.questions, &phrases.more}) {
    for (const std::string& wording : *list) {
      if (!absl::StrContains(wording, "{noun}")) continue;
      for (const std::string& noun : trained.nouns) {
        const std::string of_noun = absl::StrReplaceAll(wording, {{"{noun}", noun}});
        const std::string cut = absl::StrReplaceAll(of_noun, {{"{key}", "\n"}, {"{value}", "\n"}});
        wordings_.push_back(absl::StrSplit(cut, '\n', absl::SkipWhitespace()));
      }
    }
  }
}

bool TrainedForms::In(std::string_view text) const {
  int64_t digits = 0;
  for (const char c : text) {
    digits =
        !absl::ascii_isalnum(static_cast<unsigned char>(c)) ? 0 : digits + (IsDigit(c) ? 1 : 0);
    if (digits >= kValueDigits) return true;
  }
  return std::any_of(wordings_.begin(), wordings_.end(), [&](const auto& parts) {
    for (size_t first = text.find(parts.front()); first != std::string_view::npos;
         first = text.find(parts.front(), first + 1)) {
      size_t end = first + parts.front().size();
      bool all = true;
      for (size_t p = 1; all && p < parts.size(); ++p) {
        const size_t at = text.substr(0, end + kSlot + parts[p].size()).find(parts[p], end);
        all = at != std::string_view::npos;
        end = at + parts[p].size();
      }
      if (all) return true;
    }
    return false;
  });
}

bool Cycles(std::span<const int32_t> tokens, int64_t length) {
  for (int64_t period = 1; period <= kLongestCycle; ++period) {
    int64_t repeated = 0;
    for (int64_t i = period; i < std::ssize(tokens); ++i) {
      repeated = tokens[i] == tokens[i - period] ? repeated + 1 : 0;
      if (repeated > length) return true;
    }
  }
  return false;
}

double ShareOfRepeats(std::string_view text) {
  std::vector<std::string_view> words;
  for (const WordPlace& word : WordsFrom(text, 0, std::ssize(text))) {
    words.push_back(text.substr(word.begin, word.end - word.begin));
  }
  std::set<std::vector<std::string_view>> runs;
  int64_t count = 0;
  for (auto word = words.begin(); words.end() - word >= kRunWords; ++word, ++count) {
    runs.emplace(word, word + kRunWords);
  }
  return count == 0 ? 0 : 1 - static_cast<double>(runs.size()) / static_cast<double>(count);
}

double ShareOfDigits(std::string_view text) {
  if (text.empty()) return 0;
  return static_cast<double>(std::count_if(text.begin(), text.end(), IsDigit)) /
         static_cast<double>(text.size());
}

std::unique_ptr<Task> MakeProse(const TaskOptions& options, const Material& material) {
  return std::make_unique<Prose>(options, material);
}

}  // namespace recollect::cli::niah
