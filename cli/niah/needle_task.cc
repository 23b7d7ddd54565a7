// passkey, distractors, hex: a sentence gives a key a value, a question asks for it.
#include <algorithm>

#include "base/status.h"
#include "cli/niah/needle.h"
#include "cli/niah/tasks.h"

namespace recollect::cli::niah {
namespace {

class Needles : public Task {
 public:
  Needles(NeedleKind kind, const TaskOptions& options, const Material& material)
      : kind_(kind), options_(options), material_(material) {}

  std::string name() const override {
    switch (kind_) {
      case NeedleKind::kPasskey:
        return "passkey";
      case NeedleKind::kDistractors:
        return "distractors";
      case NeedleKind::kHex:
        return "hex";
    }
    return "";
  }

  std::vector<Variant> variants() const override {
    std::vector<Variant> variants;
    for (const bool held_out : options_.held_out) {
      variants.push_back({held_out ? 1 : 0, held_out ? "held-out" : "trained"});
    }
    return variants;
  }

  bool prepares() const override { return kind_ == NeedleKind::kDistractors; }
  bool shares() const override { return true; }

  absl::Status Prepare(const Variant& variant, Random& random, Haystack* haystack) override {
    form_ = DrawForm(variant, random);
    for (int i = 0; i < options_.distractors; ++i) {
      const Needle distractor = MakeNeedle(random, form_, material_.words, &haystack->keys());
      RETURN_IF_ERROR(haystack->Replace(random.Unit(), distractor.sentence).status());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Question> Make(const Draw& draw) override {
    const Form form = prepares() ? form_ : DrawForm(draw.variant, draw.random);
    const Needle needle =
        MakeNeedle(draw.random, form, material_.words, &draw.haystack.keys(), draw.shared);
    Question question;
    question.prompt = needle.question;
    question.expected = {needle.value};
    // A token is a byte at least.
    question.max_tokens = static_cast<int64_t>(needle.value.size()) + 8;
    question.stop = {".", "\n"};
    if (draw.removed) return question;
    ASSIGN_OR_RETURN(const Place place, draw.haystack.Replace(draw.depth, needle.sentence));
    const int64_t begin = place.begin + needle.value_offset;
    question.gold = {{place, begin, begin + static_cast<int64_t>(needle.value.size())}};
    return question;
  }

  absl::Status Run(const Asker& asker, const Question& question, const Volumes& volumes,
                   Sample* sample) const override {
    RETURN_IF_ERROR(asker.Ask(question, volumes, sample));
    sample->right = IsRight(sample->answer, question.expected.front());
    return absl::OkStatus();
  }

 private:
  Form DrawForm(const Variant& variant, Random& random) const {
    const Phrases& phrases = material_.phrases;
    return MakeForm(random, variant.number == 1 ? phrases.held_out : phrases.trained,
                    kind_ == NeedleKind::kHex ? ValueKind::kHex : ValueKind::kDigits,
                    options_.hex_digits);
  }

  const NeedleKind kind_;
  const TaskOptions& options_;
  const Material& material_;
  Form form_;  // of the distractors
};

}  // namespace

std::unique_ptr<Task> MakeNeedles(NeedleKind kind, const TaskOptions& options,
                                  const Material& material) {
  return std::make_unique<Needles>(kind, options, material);
}

}  // namespace recollect::cli::niah
