#include "cli/common/usage.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace recollect::cli {
namespace {

// Damerau and Levenshtein's, where no letter is changed twice.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t other = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, other});
      const bool turned = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (turned) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last.swap(row);
  }
  return last[b.size()];
}

const CLI::App* LastVerb(const CLI::App& app) {
  const CLI::App* last = &app;
  while (!last->get_subcommands().empty()) last = last->get_subcommands().front();
  return last;
}

std::vector<std::string> Verbs(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

// The options of a verb, and those of all.
std::vector<std::string> Flags(const CLI::App& app, const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::App* with : {&app, &verb}) {
    for (const CLI::Option* option : with->get_options())
      for (const std::string& name : option->get_lnames())
        names.push_back(absl::StrCat("--", name));
  }
  return names;
}

std::string Meant(const std::string& nearest) {
  return nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?");
}

// Commands and options as other programs call them, and as this one does.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"add", "ingest"},
    {"ask", "chat"},
    {"delete", "docs delete"},
    {"list", "docs list"},
    {"ls", "docs list"},
    {"models", "model list"},
    {"pull", "model add"},
    {"query", "retrieve"},
    {"rm", "docs delete"},
    {"run", "chat"},
    {"search", "retrieve"},
    {"show", "docs get"},
    {"upload", "ingest"},
    {"version", "--version"},
    {"--docs", "--mount"},
    {"--document", "--mount"},
    {"--host", "--http-listen"},
    {"--http", "--http-listen"},
    {"--listen", "--http-listen"},
    {"--n-predict", "--max-tokens"},
    {"--port", "--http-listen"},
};

// What stands for the first unknown argument elsewhere, or is near to one.
std::string Suggestion(const CLI::App& app, const std::vector<std::string>& unknown) {
  const CLI::App* verb = LastVerb(app);
  for (const std::string& argument : unknown) {
    const bool flag = absl::StartsWith(argument, "-");
    const std::string name = argument.substr(0, flag ? argument.find('=') : argument.npos);
    const std::vector<std::string> known = flag ? Flags(app, *verb) : Verbs(*verb);
    for (const auto& [theirs, ours] : kElsewhere) {
      const bool here = flag ? std::count(known.begin(), known.end(), ours) > 0 : !known.empty();
      if (name == theirs && here) return Meant(std::string(ours));
    }
    if (const std::string nearest = Nearest(name, known); !nearest.empty()) return Meant(nearest);
  }
  return "";
}

bool TakesText(const CLI::App& verb) {
  const std::vector<const CLI::Option*> options = verb.get_options();
  return std::any_of(options.begin(), options.end(), [](const CLI::Option* option) {
    return option->get_positional() && option->get_type_name() == "TEXT";
  });
}

// What a verb does not know, in the order in which it was given.
std::string NotExpected(const CLI::App& app, const CLI::App& verb,
                        const std::vector<std::string>& unknown) {
  const std::string what = absl::StrCat("not expected: ", absl::StrJoin(unknown, " "));
  const std::string suggestion = Suggestion(app, unknown);
  const std::vector<std::string> verbs = Verbs(verb);
  if (!suggestion.empty() || absl::StartsWith(unknown.front(), "-")) return what + suggestion;
  if (TakesText(verb)) return absl::StrCat(what, "; a text of several words stands in quotes");
  return verbs.empty() ? what : absl::StrCat(what, "; commands are ", absl::StrJoin(verbs, ", "));
}

// CLI11 says "Could not convert: --temperature = hot", and not to what. Options of whole numbers
// check them before.
std::string NotConverted(absl::string_view message) {
  if (!absl::ConsumePrefix(&message, "Could not convert: ")) return std::string(message);
  const std::pair<std::string, std::string> given =
      absl::StrSplit(message, absl::MaxSplits(" = ", 1));
  return absl::StrCat(given.first, ": '", given.second, "' is not a number, or out of range");
}

}  // namespace

std::string Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kMaxBytes = 64;  // of a name; what is longer is none
  if (word.size() > kMaxBytes) return "";
  std::string nearest;
  size_t least = 1 + std::max<size_t>(1, word.size() / 3);
  for (const std::string& candidate : candidates) {
    const size_t distance = Distance(word, candidate);
    if (distance >= least) continue;
    least = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string Explain(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool required = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  // Of a verb that it does not know CLI11 says only that one is required.
  const CLI::App* verb = LastVerb(app);
  const bool no_verb = required && verb->get_require_subcommand_min() > 0;
  if (unknown.empty() || (!extras && !no_verb)) return NotConverted(error.what());
  return NotExpected(app, *verb, unknown);
}

absl::StatusOr<std::vector<std::string>> Arguments(const CLI::App& app, int argc,
                                                   const char* const* argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (arguments.empty() || arguments.front() != "help") return arguments;
  arguments.erase(arguments.begin());
  const CLI::App* at = &app;
  for (const std::string& name : arguments) {
    const std::vector<std::string> verbs = Verbs(*at);
    if (std::find(verbs.begin(), verbs.end(), name) == verbs.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "there is no command '", name, "' to help with", Meant(Nearest(name, verbs))));
    }
    at = at->get_subcommand(name);
  }
  arguments.emplace_back("--help");
  return arguments;
}

}  // namespace recollect::cli
