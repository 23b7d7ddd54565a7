// ruler: tasks in the wordings of RULER (Hsieh et al. 2024, github.com/NVIDIA/RULER): needles of
// "special magic numbers" among books, repeated sentences or other needles, and chains of
// variables. Right when all expected strings occur in the output, capitals or not.
//
// As there but for: keys are of this tool's words; essays are the given books; the introduction
// before the text is left out, as the text is mounted and not read; needles stand between any two
// words.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "cli/niah/quote.h"
#include "cli/niah/records.h"
#include "cli/niah/tasks.h"

namespace recollect::cli::niah {
namespace {

constexpr std::string_view kSentences =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.\n";
constexpr int64_t kAnswerTokens = 128, kVariableTokens = 30;
constexpr int kLineTries = 1000;  // to find a whole line

enum class Ground { kBooks, kNoise, kNeedles };

struct Kind {
  const char* name;
  Ground ground;
  bool uuid_keys, uuid_values;
  int keys, values;  // asked for; values of each key
  int others;        // needles with other keys, among books
};
constexpr std::array<Kind, 8> kKinds = {{
    {"single-1", Ground::kNoise, false, false, 1, 1, 0},
    {"single-2", Ground::kBooks, false, false, 1, 1, 0},
    {"single-3", Ground::kBooks, false, true, 1, 1, 0},
    {"multikey-1", Ground::kBooks, false, false, 1, 1, 3},
    {"multikey-2", Ground::kNeedles, false, false, 1, 1, 0},
    {"multikey-3", Ground::kNeedles, true, true, 1, 1, 0},
    {"multivalue", Ground::kBooks, false, false, 1, 4, 0},
    {"multiquery", Ground::kBooks, false, false, 4, 1, 0},
}};
constexpr int kVariables = std::ssize(kKinds);  // variant of its own: VAR A = 1, VAR B = VAR A

struct Pair {
  std::string key, value;
};

std::string Uuid(Random& random) {
  std::vector<std::string> parts;
  for (const int digits : {8, 4, 4, 4, 12}) {
    parts.push_back(random.Characters(digits, "0123456789abcdef"));
  }
  parts[2][0] = '4';  // as uuid4 has it
  return absl::StrJoin(parts, "-");
}

// A number of so many digits.
std::string Digits(Random& random, int64_t count) {
  std::string digits = random.Characters(1, "123456789");
  digits += random.Characters(count - 1, "0123456789");
  return digits;
}

class Ruler : public Task {
 public:
  explicit Ruler(const Material& material) : material_(material) {}

  std::string name() const override { return "ruler"; }

  std::vector<Variant> variants() const override {
    std::vector<Variant> variants;
    variants.reserve(std::size(kKinds) + 1);
    for (const Kind& kind : kKinds)
      variants.push_back({static_cast<int>(variants.size()), kind.name});
    variants.push_back({kVariables, "variables"});
    return variants;
  }

  bool prepares() const override { return true; }

  absl::Status Prepare(const Variant& variant, Random& random, Haystack* haystack) override {
    taken_.clear();
    lines_.clear();
    const bool variables = variant.number == kVariables;
    const Kind kind = variables ? kKinds[0] : kKinds[variant.number];
    std::string text;
    while (kind.ground != Ground::kBooks && std::ssize(text) < haystack->bytes()) {
      if (kind.ground == Ground::kNoise) {
        text += kSentences;
        continue;
      }
      const Pair pair = MakePair(random, kind, &taken_);
      const std::string line = Needle(kind, pair);
      lines_[line] = pair;
      absl::StrAppend(&text, line, "\n");
    }
    if (!text.empty()) {
      *haystack = Haystack::Cut(text, 0, haystack->bytes(), std::ssize(haystack->shards()));
    }
    for (int i = 0; i < kind.others; ++i) {
      const std::string needle = Needle(kind, MakePair(random, kind, &taken_));
      RETURN_IF_ERROR(haystack->Replace(random.Unit(), absl::StrCat(" ", needle)).status());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Question> Make(const Draw& draw) override {
    if (draw.variant.number == kVariables) return MakeVariables(draw);
    const Kind& kind = kKinds[draw.variant.number];
    if (kind.ground == Ground::kNeedles) return ChooseLine(draw, kind);
    std::set<std::string> taken = taken_;
    std::vector<Pair> pairs;
    std::vector<std::string> keys;
    for (int k = 0; k < kind.keys; ++k) {
      pairs.push_back(MakePair(draw.random, kind, &taken));
      keys.push_back(pairs.back().key);
      for (int v = 1; v < kind.values; ++v) {
        pairs.push_back({keys.back(), MakePair(draw.random, kind, &taken).value});
      }
    }
    Question question = Ask(kind, keys);
    std::vector<std::pair<double, std::string>> hidden;
    for (const Pair& pair : pairs) {
      question.expected.push_back(pair.value);
      hidden.emplace_back(
          hidden.empty() ? draw.depth : draw.random.Unit(),
          absl::StrCat(kind.ground == Ground::kNoise ? "\n" : " ", Needle(kind, pair)));
    }
    RETURN_IF_ERROR(Hide(draw, hidden, question.expected, &question));
    return question;
  }

  absl::Status Run(const Asker& asker, const Question& question, const Volumes& volumes,
                   Sample* sample) const override {
    RETURN_IF_ERROR(asker.Ask(question, volumes, sample));
    const std::string answer = absl::AsciiStrToLower(sample->answer);
    const auto found = std::count_if(
        question.expected.begin(), question.expected.end(),
        [&](const auto& e) { return absl::StrContains(answer, absl::AsciiStrToLower(e)); });
    sample->right = found == std::ssize(question.expected);
    sample->numbers = {{"strings found", static_cast<double>(found) /
                                             static_cast<double>(question.expected.size())}};
    return absl::OkStatus();
  }

 private:
  Pair MakePair(Random& random, const Kind& kind, std::set<std::string>* taken) const {
    Pair pair;
    pair.key =
        kind.uuid_keys
            ? Uuid(random)
            : absl::StrReplaceAll(MakeNewField(random, FieldKind::kPhrase, material_.words, taken),
                                  {{" ", "-"}});
    pair.value = kind.uuid_values ? Uuid(random) : Digits(random, 7);
    return pair;
  }

  static std::string Needle(const Kind& kind, const Pair& pair) {
    return absl::StrCat("One of the special magic ", kind.uuid_values ? "uuids" : "numbers",
                        " for ", pair.key, " is: ", pair.value, ".");
  }

  static Question Ask(const Kind& kind, const std::vector<std::string>& keys) {
    const bool one = kind.keys * kind.values == 1;
    const std::string type = absl::StrCat(kind.uuid_values ? "uuid" : "number", one ? "" : "s");
    const std::string query = keys.size() == 1
                                  ? keys.front()
                                  : absl::StrCat(absl::StrJoin(keys.begin(), keys.end() - 1, ", "),
                                                 ", and ", keys.back());
    Question question;
    question.prompt =
        absl::StrCat("What ", one ? "is the" : "are all the", " special magic ", type, " for ",
                     query, " mentioned in the provided text? The special ", "magic ", type,
                     " for ", query, " mentioned in the provided ", "text ", one ? "is" : "are");
    question.max_tokens = kAnswerTokens;
    return question;
  }

  // A haystack of needles holds what is asked for already.
  absl::StatusOr<Question> ChooseLine(const Draw& draw, const Kind& kind) const {
    for (int t = 0; t < kLineTries; ++t) {
      const Place at = draw.haystack.At(t == 0 ? draw.depth : draw.random.Unit());
      const std::string& text = draw.haystack.shards()[at.shard];
      const size_t begin = text.find('\n', at.begin);
      const size_t end = begin == std::string::npos ? begin : text.find('\n', begin + 1);
      if (end == std::string::npos) continue;
      const auto line = lines_.find(text.substr(begin + 1, end - begin - 1));
      if (line == lines_.end()) continue;
      const Pair& pair = line->second;
      Question question = Ask(kind, {pair.key});
      question.expected = {pair.value};
      const Place place{at.shard, static_cast<int64_t>(begin), static_cast<int64_t>(end)};
      if (draw.removed) {
        draw.haystack.Remove(place);
      } else {
        question.gold = {{place, place.end - 1 - std::ssize(pair.value), place.end - 1}};
      }
      return question;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("ruler: no document of the haystack has a whole line; needs more --tokens"));
  }

  absl::StatusOr<Question> MakeVariables(const Draw& draw) const {
    const std::string value = Digits(draw.random, 5);
    std::vector<std::string> names;
    names.reserve(2);
    for (int i = 0; i < 2; ++i) {
      names.push_back(draw.random.Characters(5, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
    }
    const double other = draw.random.Unit();
    Question question;
    question.prompt = absl::StrCat(
        "Question: Find all variables that are assigned the value ", value,
        " in the text above. Answer: According to the chain(s) of variable assignment in the text "
        "above, 2 variables are assigned the value ",
        value, ", they are:");
    question.expected = names;
    question.max_tokens = kVariableTokens;
    RETURN_IF_ERROR(
        Hide(draw,
             {{std::min(draw.depth, other), absl::StrCat("\nVAR ", names[0], " = ", value, "\n")},
              {std::max(draw.depth, other),
               absl::StrCat("\nVAR ", names[1], " = VAR ", names[0], "\n")}},
             names, &question));
    return question;
  }

  // Gold is where `strings` stand, each in its sentence.
  static absl::Status Hide(const Draw& draw,
                           const std::vector<std::pair<double, std::string>>& sentences,
                           const std::vector<std::string>& strings, Question* question) {
    if (draw.removed) return absl::OkStatus();
    const size_t before = draw.haystack.places().size();
    for (const auto& [depth, sentence] : sentences) {
      RETURN_IF_ERROR(draw.haystack.Replace(depth, sentence).status());
    }
    for (size_t i = 0; i < sentences.size(); ++i) {
      const Place place = draw.haystack.places()[before + i];
      const auto at = static_cast<int64_t>(sentences[i].second.find(strings[i]));
      const int64_t begin = place.begin + at;
      question->gold.push_back({place, begin, begin + std::ssize(strings[i])});
    }
    return absl::OkStatus();
  }

  const Material& material_;
  std::set<std::string> taken_;        // keys in the haystack
  std::map<std::string, Pair> lines_;  // of a haystack of needles
};

}  // namespace

std::unique_ptr<Task> MakeRuler(const Material& material) {
  return std::make_unique<Ruler>(material);
}

}  // namespace recollect::cli::niah
