#include "model/config/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "model/config/config_fields.h"
#include "model/config/problems.h"

namespace recollect::model {
namespace {

using nlohmann::json;

constexpr int kAdapterFormat = 1;
constexpr size_t kDigestDigits = 64;  // of SHA-256 in hex
constexpr char kShares[] = "score_shares";
constexpr char kJudge[] = "judge";
constexpr char kReader[] = "reader", kReranker[] = "reranker";
constexpr double kMaxShare = 100;
constexpr int kMaxSpans = 20;
constexpr int kMaxSentenceTokens = 256;
constexpr int64_t kMaxUnits = 1024;
constexpr double kMaxMargin = 100;
constexpr int kMaxMoreBlocks = 64;
constexpr int kMaxPassageBlocks = 64;
constexpr int kMaxRerankerTokens = 512;
constexpr double kMaxJudgeWeight = 1e6;

void ReadBase(Fields& base, AdapterConfig& adapter) {
  base.Find("name", false);
  const json* digest = base.Find("sha256", true);
  if (digest != nullptr && digest->is_string() &&
      digest->get_ref<const std::string&>().size() == kDigestDigits) {
    adapter.base_sha256 = digest->get<std::string>();
  } else if (digest != nullptr) {
    base.Expected("sha256", "64 hex digits");
  }
}

void ReadShares(Fields& shares, AdapterConfig& adapter) {
  shares.Number("dense", 0, kMaxShare, adapter.dense_share, /*required=*/true);
  shares.Number("sparse", 0, kMaxShare, adapter.sparse_share, /*required=*/true);
  shares.Number("spellings", 0, kMaxShare, adapter.spelling_share, /*required=*/false);
}

bool IsWeight(const json& value) {
  return value.is_number() && std::abs(value.get<double>()) <= kMaxJudgeWeight;
}

// A list of so many numbers; empty if `value` is none.
std::vector<double> Weights(const json& value, size_t count) {
  if (!value.is_array() || value.size() != count || !std::ranges::all_of(value, IsWeight))
    return {};
  return value.get<std::vector<double>>();
}

// Judges of earlier releases, which chose among other candidates, are not used.
void ReadJudge(Fields& fields, size_t features, JudgeConfig& judge) {
  if (fields.Find("passage_blocks", false) == nullptr) {
    for (const char* key : {"drafts", "draft_tokens", "span_drafts", "features", "sentence_tokens",
                            "margin", "refusal", "linear", "hidden"})
      fields.Find(key, false);
    return;
  }
  const auto names = std::span(CandidateFeature::kNames).first(features);
  const json expected_names(std::vector<std::string>(names.begin(), names.end()));
  const json* known = fields.Find("features", true);
  if (known != nullptr && *known != expected_names)
    fields.Expected("features", expected_names.dump());
  fields.Integer("passage_blocks", 1, kMaxPassageBlocks, true, judge.passage_blocks);
  fields.Integer("sentence_tokens", 1, kMaxSentenceTokens, true, judge.sentence_tokens);
  fields.Number("margin", 0, kMaxMargin, judge.margin);
  const json* refusal = fields.Find("refusal", true);
  if (refusal != nullptr && refusal->is_string() && !refusal->get_ref<const std::string&>().empty())
    judge.refusal = refusal->get<std::string>();
  else if (refusal != nullptr)
    fields.Expected("refusal", "a text");
  if (const json* linear = fields.Find("linear", true)) {
    judge.linear = Weights(*linear, features);
    if (judge.linear.empty()) fields.Expected("linear", absl::StrCat(features, " numbers"));
  }
  const json* hidden = fields.Find("hidden", true);
  if (hidden == nullptr) return;
  const std::string expected =
      absl::StrCat("at most ", kMaxUnits, " lists of ", features + 2,
                   " numbers: a unit's weight, its bias and its weights of the features");
  if (!hidden->is_array() || std::ssize(*hidden) > kMaxUnits)
    return fields.Expected("hidden", expected);
  for (const json& unit : *hidden) {
    const std::vector<double> weights = Weights(unit, features + 2);
    if (weights.empty()) return fields.Expected("hidden", expected);
    judge.hidden.push_back({weights[0], weights[1], {weights.begin() + 2, weights.end()}});
  }
}

void ReadReader(Fields& fields, ReaderConfig& reader) {
  fields.Integer("width", 1, kMaxSize, true, reader.width);
  fields.Integer("heads", 1, std::max(1, reader.width), true, reader.heads);
  if (reader.heads > 0 && reader.width % (2 * reader.heads) != 0)
    fields.Expected("heads", absl::StrCat("heads of an even width of ", reader.width));
  fields.Integer("layers", 1, kMaxLayers, true, reader.layers);
  fields.Integer("ffn", 1, kMaxSize, true, reader.ffn);
  fields.Integer("question_tokens", 1, kMaxChunkTokens, true, reader.question_tokens);
  fields.Integer("more_blocks", 0, kMaxMoreBlocks, true, reader.more_blocks);
  fields.Integer("span_tokens", 1, kMaxChunkTokens, true, reader.span_tokens);
  fields.Integer("spans", 1, kMaxSpans, true, reader.spans);
}

// Those of earlier releases, which read one sentence at a time, are not used.
void ReadReranker(Fields& fields, int layers, RerankerConfig& reranker) {
  if (fields.Find("context_tokens", false) != nullptr) {
    for (const char* key : {"layers", "rank", "sentence_tokens", "question_tokens"})
      fields.Find(key, false);
    return;
  }
  fields.Integer("layers", 1, layers, true, reranker.layers);
  fields.Integer("rank", 1, kMaxSize, true, reranker.rank);
  fields.Integer("sentence_tokens", 1, kMaxRerankerTokens, true, reranker.sentence_tokens);
  fields.Integer("question_tokens", 1, kMaxRerankerTokens, true, reranker.question_tokens);
}

}  // namespace

std::string WithoutQueryKeys(const std::string& text) {
  auto root = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object() ||
      root.erase(kShares) + root.erase(kJudge) + root.erase(kReader) + root.erase(kReranker) == 0)
    return text;
  return absl::StrCat(root.dump(2, ' ', /*ensure_ascii=*/true), "\n");
}

absl::Status AddAdapter(const std::string& text, ModelConfig& config) {
  ASSIGN_OR_RETURN(const json root, ParseJson(text, EqualKeys::kRefused));
  if (!root.is_object()) return absl::InvalidArgumentError("not a JSON object");
  if (config.landmarks() || !config.rewinds()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the base is of family ", config.architecture,
                     ", expected one whose layers keep keys and values by position: llama"));
  }
  std::vector<std::string> problems;
  Fields fields(root, "", problems);
  int format = 0;
  const int layers = config.layers();
  AdapterConfig& adapter = config.adapter;
  fields.Integer("format", kAdapterFormat, kAdapterFormat, true, format);
  fields.Object("base", true, [&](Fields& base) { ReadBase(base, adapter); });
  config.n_low = 0;
  fields.Integer("n_low", 1, layers - 1, true, config.n_low);
  fields.Layers(
      "gca_layers", config.n_low, layers,
      absl::StrCat("ascending layers from n_low, ", config.n_low, ", to the base's ", layers - 1),
      adapter.gca_layers);
  fields.Integer("d_r", 1, kMaxSize, true, config.d_r);
  fields.Integer("d_pointer", 1, kMaxSize, true, adapter.d_pointer);
  fields.Integer("n_ret", 1, kMaxChunkTokens, true, config.n_ret);
  fields.Integer("encoder_layers", 1, kMaxLayers, true, config.encoder_layers);
  fields.Integer("encoder_ffn", 1, kMaxSize, true, adapter.encoder_ffn);
  fields.Integer("words", 1, kMaxSize, true, adapter.words);
  fields.Integer("chunk_tokens", 1, kChunkTokens, true, config.chunk_tokens);
  fields.Integer("min_chunk_tokens", 1, config.chunk_tokens, true, config.min_chunk_tokens);
  fields.Integer("segment_tokens", config.chunk_tokens, kMaxSize, true, adapter.segment_tokens);
  fields.Object(kShares, false, [&](Fields& shares) { ReadShares(shares, adapter); });
  fields.Object(kReader, false, [&](Fields& reader) { ReadReader(reader, adapter.reader); });
  fields.Object(kReranker, false,
                [&](Fields& reranker) { ReadReranker(reranker, config.n_low, adapter.reranker); });
  const size_t features =
      adapter.reranker.exists() ? CandidateFeature::kCount : CandidateFeature::kWithoutReranker;
  fields.Object(kJudge, false, [&](Fields& judge) { ReadJudge(judge, features, adapter.judge); });
  fields.ReportUnknown();
  if (adapter.judge.exists() && !adapter.reader.exists())
    problems.push_back(absl::StrCat(kReader, " is missing, which ", kJudge, " needs"));
  if (config.context > 0 && adapter.segment_tokens > config.context) {
    fields.Expected("segment_tokens",
                    absl::StrCat("at most the base's context of ", config.context));
  }
  if (!problems.empty()) return ProblemsError(problems);
  config.groups = {{.layers = layers - config.n_low, .gca_layers = {}}};
  config.memory_kv_heads = config.kv_heads;
  config.text_documents = false;
  return absl::OkStatus();
}

}  // namespace recollect::model
