#include "cli/niah/quote.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "cli/niah/tasks.h"

namespace recollect::cli::niah {
namespace {

constexpr int64_t kFewWords = 5, kManyWords = 20;  // of the continuation
constexpr int kQuoteTries = 1000;                  // to find words that stand in one place only

class Quote : public Task {
 public:
  explicit Quote(const TaskOptions& options) : options_(options) {}

  std::string name() const override { return "quote"; }

  std::vector<Variant> variants() const override {
    const std::vector<std::string> all = {"whole", "thinned", "shuffled"};
    std::vector<Variant> variants;
    for (const std::string& cue : options_.cues) {
      const auto number = std::find(all.begin(), all.end(), cue) - all.begin();
      variants.push_back({static_cast<int>(number), cue});
    }
    return variants;
  }

  bool hides() const override { return false; }
  bool shares() const override { return true; }

  absl::StatusOr<Question> Make(const Draw& draw) override {
    for (int t = 0; t < kQuoteTries; ++t) {
      // The first try at the depth asked for, others anywhere.
      const Place at = draw.haystack.At(t == 0 ? draw.depth : draw.random.Unit());
      const std::string& text = draw.haystack.shards()[at.shard];
      const auto words = WordsFrom(text, at.begin, options_.cue_words + kManyWords);
      if (std::ssize(words) < options_.cue_words + kManyWords) continue;
      const int64_t begin = words.front().begin, end = words[options_.cue_words - 1].end;
      if (draw.haystack.Touches({at.shard, begin, words.back().end})) continue;
      const std::string cue = text.substr(begin, end - begin);
      if (Occurrences(draw.haystack, cue) != 1) continue;
      const std::string next = text.substr(end, words.back().end - end);
      return MakeQuestion(draw, {at.shard, begin, end}, cue, next);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("quote: found no ", options_.cue_words, " words (--cue-words) that stand in ",
                     "the haystack once and have ", kManyWords, " others behind them"));
  }

  absl::Status Run(const Asker& asker, const Question& question, const Volumes& volumes,
                   Sample* sample) const override {
    RETURN_IF_ERROR(asker.Ask(question, volumes, sample));
    if (question.max_tokens == 0) return absl::OkStatus();
    const std::string& next = question.expected.front();
    sample->right = StartsWithWords(sample->answer, next, kFewWords);
    sample->numbers = {
        {"next 20 words", StartsWithWords(sample->answer, next, kManyWords) ? 1 : 0}};
    return absl::OkStatus();
  }

 private:
  // 0, 1 or 2, which stands for more.
  static int Occurrences(const Haystack& haystack, const std::string& cue) {
    int count = 0;
    for (const std::string& text : haystack.shards()) {
      for (size_t at = 0; count < 2 && (at = text.find(cue, at)) != std::string::npos; ++at) {
        ++count;
      }
    }
    return count;
  }

  Question MakeQuestion(const Draw& draw, const Place& place, const std::string& cue,
                        const std::string& next) const {
    Question question;
    question.prompt = cue;
    if (draw.variant.name != "whole") {
      std::vector<std::string> words;
      for (const WordPlace& word : WordsFrom(cue, 0, options_.cue_words)) {
        words.push_back(cue.substr(word.begin, word.end - word.begin));
      }
      question.prompt = absl::StrJoin(draw.variant.name == "thinned" ? Thinned(words, draw.random)
                                                                     : Shuffled(words, draw.random),
                                      " ");
    } else {
      question.expected = {next};
      question.max_tokens = static_cast<int64_t>(next.size()) + 8;  // a token is a byte at least
    }
    if (draw.removed) {
      draw.haystack.Remove({place.shard, place.begin, place.end + std::ssize(next)});
    } else {
      question.gold = {{place, place.begin, place.end}};
    }
    return question;
  }

  const TaskOptions& options_;
};

}  // namespace

std::vector<WordPlace> WordsFrom(std::string_view text, int64_t from, int64_t count) {
  const auto space = [&](int64_t i) {
    return absl::ascii_isspace(static_cast<unsigned char>(text[i]));
  };
  int64_t at = from;
  while (at > 0 && at < std::ssize(text) && !space(at - 1)) ++at;  // the rest of a word
  std::vector<WordPlace> words;
  while (std::ssize(words) < count) {
    while (at < std::ssize(text) && space(at)) ++at;
    if (at >= std::ssize(text)) break;
    const int64_t begin = at;
    while (at < std::ssize(text) && !space(at)) ++at;
    words.push_back({begin, at});
  }
  return words;
}

std::vector<std::string> Thinned(std::vector<std::string> words, Random& random) {
  for (size_t left_out = words.size() / 3; left_out > 0; --left_out) {
    words.erase(words.begin() + random.Below(std::ssize(words)));
  }
  return words;
}

std::vector<std::string> Shuffled(std::vector<std::string> words, Random& random) {
  for (int64_t i = std::ssize(words) - 1; i > 0; --i) {
    std::swap(words[i], words[random.Below(i + 1)]);
  }
  return words;
}

bool StartsWithWords(std::string_view answer, std::string_view expected, int64_t count) {
  const auto ours = WordsFrom(answer, 0, count), theirs = WordsFrom(expected, 0, count);
  if (std::ssize(ours) < count || std::ssize(theirs) < count) return false;
  for (int64_t i = 0; i < count; ++i) {
    if (answer.substr(ours[i].begin, ours[i].end - ours[i].begin) !=
        expected.substr(theirs[i].begin, theirs[i].end - theirs[i].begin)) {
      return false;
    }
  }
  return true;
}

std::unique_ptr<Task> MakeQuote(const TaskOptions& options) {
  return std::make_unique<Quote>(options);
}

}  // namespace recollect::cli::niah
