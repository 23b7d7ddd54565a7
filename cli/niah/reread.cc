// reread: bits per byte of a passage with nothing mounted, with the haystack that holds it, and
// with the haystack but for the document that holds it. The first and the last are the controls.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/niah/quote.h"
#include "cli/niah/tasks.h"

namespace recollect::cli::niah {
namespace {

constexpr int kPassageTries = 1000;  // to find a passage that no shard's end cuts

class Reread : public Task {
 public:
  explicit Reread(const TaskOptions& options) : options_(options) {}

  std::string name() const override { return "reread"; }
  std::vector<Variant> variants() const override { return {{0, "passage"}}; }
  bool hides() const override { return false; }
  int64_t least_documents() const override { return 2; }  // one to hold it, one without it

  absl::StatusOr<Question> Make(const Draw& draw) override {
    for (int t = 0; t < kPassageTries; ++t) {
      const Place at = draw.haystack.At(t == 0 ? draw.depth : draw.random.Unit());
      const std::string& text = draw.haystack.shards()[at.shard];
      const auto first = WordsFrom(text, at.begin, 1);
      if (first.empty()) continue;
      const int64_t begin = first.front().begin;
      const auto behind = WordsFrom(text, begin + options_.passage_bytes, 1);
      if (behind.empty()) continue;
      Question question;
      question.prompt = text.substr(begin, behind.front().begin - begin);
      question.gold = {{{at.shard, begin, behind.front().begin}, begin, behind.front().begin}};
      return question;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("reread: no document of the haystack has ", options_.passage_bytes,
                     " bytes (--passage-bytes) with words before and behind them"));
  }

  absl::Status Run(const Asker& asker, const Question& question, const Volumes& volumes,
                   Sample* sample) const override {
    sample->question = question.prompt;
    Volumes others = volumes;
    if (!others.empty()) others.erase(others.begin() + question.gold.front().place.shard);
    ASSIGN_OR_RETURN(const double nothing, asker.BitsPerByte(question.prompt, {}));
    ASSIGN_OR_RETURN(const double mounted, asker.BitsPerByte(question.prompt, volumes));
    ASSIGN_OR_RETURN(const double without, asker.BitsPerByte(question.prompt, others));
    sample->numbers = {{"bits per byte: nothing mounted", nothing},
                       {"its document mounted", mounted},
                       {"others mounted", without}};
    return absl::OkStatus();
  }

 private:
  const TaskOptions& options_;
};

}  // namespace

std::unique_ptr<Task> MakeReread(const TaskOptions& options) {
  return std::make_unique<Reread>(options);
}

}  // namespace recollect::cli::niah
