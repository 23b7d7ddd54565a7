#include "cli/niah/records.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "cli/niah/needle.h"
#include "cli/niah/tasks.h"

namespace recollect::cli::niah {
namespace {

constexpr int kTriesPerLength = 16;  // before a key or value gets one more word
constexpr int kMaxTries = 1000;      // there are but 1440 times of day: then one comes twice
constexpr std::string_view kDigitCharacters = "0123456789";
constexpr std::array<const char*, 12> kMonths = {"January",   "February", "March",    "April",
                                                 "May",       "June",     "July",     "August",
                                                 "September", "October",  "November", "December"};

class Records : public Task {
 public:
  Records(const TaskOptions& options, const Material& material)
      : options_(options), material_(material) {}

  std::string name() const override { return "records"; }

  std::vector<Variant> variants() const override {
    std::vector<Variant> variants;
    for (const Shape& shape : RecordShapes()) {
      variants.push_back({static_cast<int>(variants.size()), shape.name});
    }
    return variants;
  }

  // One haystack holds records of all shapes: a sample asks for one of them.
  bool hides() const override { return false; }
  bool prepares() const override { return true; }
  bool shares() const override { return true; }

  absl::Status Prepare(const Variant&, Random& random, Haystack* haystack) override {
    records_.clear();
    first_place_ = std::ssize(haystack->places());
    for (const Shape& shape : RecordShapes()) {
      std::set<std::string> taken(haystack->keys().begin(), haystack->keys().end());
      for (int i = 0; i < RecordsOfAShape(); ++i) {
        records_.push_back(MakeRecord(random, shape, material_.words, &taken));
        RETURN_IF_ERROR(
            Annotate(haystack->Replace(random.Unit(), records_.back().text).status(),
                     absl::StrCat("records: ", options_.distractors, " --distractors of each of ",
                                  RecordShapes().size(), " shapes")));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Question> Make(const Draw& draw) override {
    const auto distance = [&](int64_t i) {
      return std::abs(draw.haystack.DepthOf(draw.haystack.places()[first_place_ + i]) - draw.depth);
    };
    int64_t asked = int64_t{draw.variant.number} * RecordsOfAShape();
    for (int64_t i = asked; i < (draw.variant.number + 1) * RecordsOfAShape(); ++i) {
      if (distance(i) < distance(asked)) asked = i;
    }
    const Record& record = records_[asked];
    const Place place = draw.haystack.places()[first_place_ + asked];
    Question question;
    question.prompt = record.prompt;
    question.expected = {record.value};
    question.max_tokens = std::ssize(record.value) + 8;  // a token is a byte at least
    question.stop = {"\n"};
    if (draw.removed) {
      draw.haystack.Remove(place);
    } else {
      const int64_t begin = place.begin + record.value_offset;
      question.gold = {{place, begin, begin + std::ssize(record.value)}};
    }
    return question;
  }

  absl::Status Run(const Asker& asker, const Question& question, const Volumes& volumes,
                   Sample* sample) const override {
    RETURN_IF_ERROR(asker.Ask(question, volumes, sample));
    sample->right = StartsWithValue(sample->answer, question.expected.front());
    return absl::OkStatus();
  }

 private:
  int RecordsOfAShape() const { return options_.distractors + 1; }

  const TaskOptions& options_;
  const Material& material_;
  std::vector<Record> records_;  // in the haystack, shape by shape
  int64_t first_place_ = 0;      // of theirs among all places of the haystack
};

std::string Join(Random& random, const std::vector<std::string>& words, int64_t count,
                 const char* between, bool capitals) {
  std::vector<std::string> parts;
  for (int64_t i = 0; i < count; ++i) {
    parts.push_back(capitals ? Capitalised(random.Pick(words)) : random.Pick(words));
  }
  return absl::StrJoin(parts, between);
}

// `text` with its fillers drawn, each by itself.
std::string FillIn(Random& random, std::string_view text, const std::vector<std::string>& words) {
  static constexpr std::pair<std::string_view, FieldKind> kFillers[] = {
      {"{number}", FieldKind::kDigits}, {"{word}", FieldKind::kPhrase},
      {"{name}", FieldKind::kName},     {"{date}", FieldKind::kDate},
      {"{time}", FieldKind::kTime},
  };
  std::string filled;
  while (!text.empty()) {
    const auto* const filler =
        std::find_if(std::begin(kFillers), std::end(kFillers),
                     [&](const auto& f) { return text.starts_with(f.first); });
    if (filler == std::end(kFillers)) {
      filled += text.front();
      text.remove_prefix(1);
    } else {
      filled += MakeField(random, filler->second, words, filler->first == "{name}" ? 2 : 1);
      text.remove_prefix(filler->first.size());
    }
  }
  return filled;
}

}  // namespace

std::string MakeField(Random& random, FieldKind kind, const std::vector<std::string>& words,
                      int64_t count) {
  const auto digits = [&](int64_t n) { return random.Characters(n, kDigitCharacters); };
  const auto from = [&](int64_t first, int64_t values) { return first + random.Below(values); };
  switch (kind) {
    case FieldKind::kDigits:
      return random.Characters(from(3, 4), kDigitCharacters);
    case FieldKind::kName:
    case FieldKind::kPlace:
      return Join(random, words, count, " ", true);
    case FieldKind::kWords:
      return Join(random, words, count + from(1, 3), " ", false);
    case FieldKind::kPhrase:
      return Join(random, words, count, " ", false);
    case FieldKind::kDate: {
      const int64_t day = from(1, 28);
      const char* const month = kMonths[random.Below(std::ssize(kMonths))];
      return absl::StrCat(day, " ", month, " ", from(1700, 320));
    }
    case FieldKind::kIsoDate: {
      const int64_t year = from(1700, 320), month = from(1, 12);
      return absl::StrFormat("%d-%02d-%02d", year, month, from(1, 28));
    }
    case FieldKind::kTime: {
      const int64_t hour = from(0, 24);
      return absl::StrFormat("%02d:%02d", hour, from(0, 60));
    }
    case FieldKind::kMoney: {
      const int64_t whole = from(1, 9999);
      return absl::StrFormat("%d.%02d", whole, from(0, 100));
    }
    case FieldKind::kIdentifier: {
      const std::string letters = random.Characters(2, "ABCDEFGHJKLMNPQRSTUVWXYZ");
      return absl::StrCat(letters, "-", digits(4));
    }
    case FieldKind::kConstant:
      return absl::AsciiStrToUpper(Join(random, words, count, "_", false));
    case FieldKind::kHandle: {
      const std::string word = random.Pick(words);
      return absl::StrCat(word, digits(2));
    }
    case FieldKind::kPhone: {
      const std::string area = digits(3), first = digits(3);
      return absl::StrCat("0", area, " ", first, " ", digits(3));
    }
    case FieldKind::kHex:
      return random.Characters(12, "0123456789abcdef");
  }
  return "";
}

std::string MakeNewField(Random& random, FieldKind kind, const std::vector<std::string>& words,
                         std::set<std::string>* taken) {
  std::string field;
  for (int64_t tries = 0; tries < kMaxTries; ++tries) {
    const int64_t count = (kind == FieldKind::kPlace ? 1 : 2) + tries / kTriesPerLength;
    field = MakeField(random, kind, words, count);
    if (taken->insert(absl::AsciiStrToLower(field)).second) break;
  }
  return field;
}

Record MakeRecord(Random& random, const Shape& shape, const std::vector<std::string>& words,
                  std::set<std::string>* taken) {
  const auto with_key = [](const std::string& text, const std::string& key) {
    return absl::StrReplaceAll(text, {{"{key}", key}});
  };
  const std::string key = MakeNewField(random, shape.key, words, taken);
  Record record;
  record.value = MakeNewField(random, shape.value, words, taken);
  const std::string_view whole = shape.record;
  const size_t at = whole.find("{value}");
  const std::string before = with_key(FillIn(random, whole.substr(0, at), words), key);
  const std::string after = with_key(FillIn(random, whole.substr(at + 7), words), key);
  record.text = absl::StrCat(before, record.value, after);
  record.value_offset = std::ssize(before);
  const std::string question = with_key(shape.question, key);
  // White space before a value is for the answer to write.
  record.prompt = std::string(absl::StripAsciiWhitespace(question.empty() ? before : question));
  return record;
}

bool StartsWithValue(std::string_view answer, std::string_view value) {
  const size_t begin = std::min(answer.find_first_not_of(" \t\n"), answer.size());
  answer.remove_prefix(begin);
  if (!answer.starts_with(value)) return false;
  const unsigned char next = answer.size() > value.size() ? answer[value.size()] : ' ';
  return !absl::ascii_isalnum(next);
}

std::unique_ptr<Task> MakeRecords(const TaskOptions& options, const Material& material) {
  return std::make_unique<Records>(options, material);
}

}  // namespace recollect::cli::niah
