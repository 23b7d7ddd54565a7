#include "cli/niah/answered.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace recollect::cli::niah {
namespace {

constexpr int kFormat = 1;

Json ToJson(const Finding& finding) { return {finding.hit, finding.first, finding.weight}; }

Finding FindingFromJson(const Json& json) {
  return {json.at(0).get<bool>(), json.at(1).get<bool>(), json.at(2).get<double>()};
}

absl::Status Unreadable(const std::string& path, size_t line, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ", line ", line, ": not of a run of niah: ",
                                                 why, "; remove the file, or give another --json"));
}

// OK if the runs are the same.
absl::Status Compare(const std::string& path, const Json& there, const Json& run) {
  for (const auto& [name, value] : run.items()) {
    const Json other = there.contains(name) ? there.at(name) : Json();
    if (other == value) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": an unfinished run with ", name, " ", other.dump(), ", this one has ", value.dump(),
        "; run that command again, remove the file, or give another --json"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Answered>> Answered::Open(const std::string& path, const Json& run) {
  std::unique_ptr<Answered> answered(new Answered(path));
  std::string text;
  if (std::ifstream in(path, std::ios::binary); in) {
    std::ostringstream all;
    all << in.rdbuf();
    text = all.str();
  }
  // What is behind the last end of a line was being written when the run ended.
  const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (whole > 0) RETURN_IF_ERROR(answered->Read(text.substr(0, whole), run));
  std::error_code error;
  if (whole < text.size()) std::filesystem::resize_file(path, whole, error);
  answered->file_.reset(error ? nullptr : std::fopen(path.c_str(), "ab"));
  if (answered->file_ == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot write it: ", error ? error.message() : std::strerror(errno)));
  }
  if (whole == 0) RETURN_IF_ERROR(answered->Append({{"niah", kFormat}, {"run", run}}));
  return answered;
}

absl::Status Answered::Read(const std::string& text, const Json& run) {
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    ++number;
    const Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return Unreadable(path_, number, "no JSON");
    if (number == 1) {
      if (json.value("niah", 0) != kFormat || !json.contains("run")) {
        return Unreadable(path_, number, "no such file of this version");
      }
      RETURN_IF_ERROR(Compare(path_, json.at("run"), run));
      continue;
    }
    if (!json.contains("name") || !json.at("name").is_string() || !json.contains("sample")) {
      return Unreadable(path_, number, "no sample");
    }
    auto sample = SampleFromJson(json.at("sample"));
    if (!sample.ok()) return Unreadable(path_, number, std::string(sample.status().message()));
    samples_.insert_or_assign(json.at("name").get<std::string>(), *std::move(sample));
  }
  return absl::OkStatus();
}

const Sample* Answered::Find(const std::string& name) const {
  const auto found = samples_.find(name);
  return found == samples_.end() ? nullptr : &found->second;
}

absl::Status Answered::Add(const std::string& name, const Sample& sample) {
  return Append({{"name", name}, {"sample", SampleToJson(sample)}});
}

absl::Status Answered::Append(const Json& line) {
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() &&
      std::fflush(file_.get()) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path_, ": cannot write it: ", std::strerror(errno)));
}

void Answered::Remove() { std::remove(path_.c_str()); }

Json SampleToJson(const Sample& s) {
  Json numbers = Json::array(), found = Json::array();
  for (const auto& [name, value] : s.numbers) numbers.push_back({name, value});
  for (const Finding& finding : s.found) found.push_back(ToJson(finding));
  Json json = {{"task", s.task},
               {"variant", s.variant},
               {"tokens_asked", s.tokens_asked},
               {"tokens_mounted", s.tokens_mounted},
               {"documents", s.documents},
               {"depth", s.depth},
               {"question", s.question},
               {"value", s.value},
               {"answer", s.answer},
               {"numbers", numbers},
               {"span", static_cast<int>(s.span)},
               {"crosses_block", s.crosses_block},
               {"found", found},
               {"ingested_tokens", s.ingested_tokens},
               {"ingest_s", s.ingest_s},
               {"answer_ms", s.answer_ms},
               {"generated_tokens", s.generated_tokens},
               {"generation_ms", s.generation_ms}};
  if (s.right.has_value()) json["right"] = *s.right;
  if (s.bm25.has_value()) json["bm25"] = ToJson(*s.bm25);
  return json;
}

absl::StatusOr<Sample> SampleFromJson(const Json& json) {
  try {
    Sample s;
    s.task = json.at("task").get<std::string>();
    s.variant = json.at("variant").get<std::string>();
    s.tokens_asked = json.at("tokens_asked").get<int64_t>();
    s.tokens_mounted = json.at("tokens_mounted").get<int64_t>();
    s.documents = json.at("documents").get<int64_t>();
    s.depth = json.at("depth").get<double>();
    s.question = json.at("question").get<std::string>();
    s.value = json.at("value").get<std::string>();
    s.answer = json.at("answer").get<std::string>();
    for (const Json& number : json.at("numbers")) {
      s.numbers.emplace_back(number.at(0).get<std::string>(), number.at(1).get<double>());
    }
    const int span = json.at("span").get<int>();
    if (span < 0 || span > static_cast<int>(Sample::Span::kUnknown)) {
      return absl::InvalidArgumentError(absl::StrCat("span ", span));
    }
    s.span = static_cast<Sample::Span>(span);
    s.crosses_block = json.at("crosses_block").get<bool>();
    for (const Json& finding : json.at("found")) s.found.push_back(FindingFromJson(finding));
    s.ingested_tokens = json.at("ingested_tokens").get<int64_t>();
    s.ingest_s = json.at("ingest_s").get<double>();
    s.answer_ms = json.at("answer_ms").get<double>();
    s.generated_tokens = json.at("generated_tokens").get<int64_t>();
    s.generation_ms = json.at("generation_ms").get<double>();
    if (json.contains("right")) s.right = json.at("right").get<bool>();
    if (json.contains("bm25")) s.bm25 = FindingFromJson(json.at("bm25"));
    return s;
  } catch (const Json::exception& e) {
    return absl::InvalidArgumentError(e.what());
  }
}

}  // namespace recollect::cli::niah
