#include "convert/hub_plan.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "convert/hub_config.h"
#include "convert/state_dict.h"

namespace recollect::convert {
namespace {

// Of every published model; none of it is in their configurations.
constexpr int kUnkId = 0, kEosId = 2;
constexpr double kNormEps = 1e-6;
// Of every published model; used where the checkpoint has no configuration.
constexpr int64_t kHeadDim = 128;
constexpr int64_t kContext = 4096;
constexpr double kRopeBase = 10000.0;
constexpr int64_t kHybridWindow = 1024;

// Far above any model, far below where a product of two sizes could overflow.
constexpr int64_t kMaxSize = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 4096;

// In a message: of one tensor's name with a large number, each layer before it is missing.
constexpr std::ptrdiff_t kMaxShown = 50;

constexpr char kEmbedding[] = "embedding.wte.weight";
constexpr char kHead[] = "head.lm_head.weight";

class Planner {
 public:
  Planner(const TorchCheckpoint& checkpoint, const PlanOptions& options)
      : options_(options),
        weights_(checkpoint, problems_),
        config_(ReadHubConfig(checkpoint.tree(),
                              checkpoint.tree().Find(checkpoint.tree().root(), "config"),
                              problems_)) {
    const Value* step = checkpoint.tree().Find(checkpoint.tree().root(), "step");
    if (step != nullptr && std::holds_alternative<int64_t>(*step))
      plan_.step = std::get<int64_t>(*step);
  }

  absl::StatusOr<ImportPlan> Run() {
    if (!config_.present) Assume("the checkpoint has no configuration; sizes come from the shapes");
    if (ReadSizes()) {
      TakeOuter();
      for (int64_t i = 0; i < layers_; ++i) TakeLayer(i);
      Copy("backbone.ln.weight", "final_norm.weight", {d_});
      weights_.ReportLeftOver();
      options_.family == HubFamily::kRatPlus ? WriteRatPlusConfig() : WriteRatConfig();
    }
    if (problems_.empty()) return std::move(plan_);
    const auto shown = problems_.begin() + std::min(std::ssize(problems_), kMaxShown);
    return absl::InvalidArgumentError(
        absl::StrCat(problems_.size(), problems_.size() == 1 ? " problem: " : " problems: ",
                     absl::StrJoin(problems_.begin(), shown, "; "),
                     shown == problems_.end() ? "" : "; and so on"));
  }

 private:
  void Problem(std::string text) { problems_.push_back(std::move(text)); }
  void Assume(std::string text) { plan_.assumptions.push_back(std::move(text)); }

  // What the configuration says must be what the shapes say.
  void Compare(const char* what, const std::optional<int64_t>& said, int64_t found) {
    if (said.has_value() && *said != found)
      Problem(
          absl::StrCat(what, " is ", *said, " in the configuration, ", found, " in the shapes"));
  }
  // What the configuration, or else an option, or else every published model says.
  int64_t Choose(const char* what, const std::optional<int64_t>& said,
                 const std::optional<int64_t>& option, int64_t otherwise) {
    if (said.has_value() && option.has_value() && *said != *option)
      Problem(absl::StrCat(what, " is ", *said, " in the configuration, ", *option, " by option"));
    if (said.has_value() || option.has_value()) return said.has_value() ? *said : *option;
    Assume(absl::StrCat(what, " ", otherwise));
    return otherwise;
  }

  // False when the sizes make no model; then there is nothing to compare tensors with.
  bool ReadSizes();
  void TakeOuter();
  void TakeLayer(int64_t layer);
  void TakeRatPlusMixer(int64_t layer, const std::string& in, const std::string& out);
  void TakeRatMixer(const std::string& in, const std::string& out);
  void Copy(const std::string& from, const std::string& to, const std::vector<int64_t>& shape) {
    plan_.tensors.push_back({{to, shape}, {weights_.Take(from, shape)}, 0});
  }
  void WriteSizes(const char* architecture);
  void WriteRatPlusConfig();
  void WriteRatConfig();
  void CheckPositions(absl::string_view expected);
  nlohmann::ordered_json PatternValue(const char* what, const std::optional<PerLayer>& said,
                                      int64_t otherwise);

  const PlanOptions options_;
  std::vector<std::string> problems_;
  StateDict weights_;
  const HubConfig config_;
  ImportPlan plan_;
  int64_t vocab_ = 0, d_ = 0, ffn_ = 0, layers_ = 0, head_dim_ = 0;
  bool recurrence_ = true;          // RAT+
  int64_t query_rows_ = 0;          // RAT: of the shared queries, as many as of the keys
  std::vector<bool> is_attention_;  // RAT, by layer: local attention or RAT
};

bool Planner::ReadSizes() {
  // Any of several tensors can tell a size, so that one that is missing does not hide the others.
  vocab_ = weights_.Extent(kEmbedding, 0,
                           weights_.Extent(kHead, 0, config_.vocab_size.value_or(kAnyExtent)));
  d_ = weights_.Extent("backbone.ln.weight", 0,
                       weights_.Extent(kEmbedding, 1, config_.d.value_or(kAnyExtent)));
  ffn_ = weights_.Extent("backbone.layers.0.hidden_layer.fc1.weight", 0,
                         config_.ffn.value_or(kAnyExtent));
  layers_ = config_.layers.value_or(weights_.CountLayers("backbone.layers."));
  head_dim_ = Choose("head_dim", config_.head_dim, options_.head_dim, kHeadDim);
  if (layers_ < 1 || layers_ > kMaxLayers || d_ < 1 || std::max({d_, vocab_, ffn_}) > kMaxSize) {
    Problem(absl::StrCat(
        "no model of these sizes: ", layers_, " layers (backbone.layers.*), width ", d_,
        " (backbone.ln.weight), vocabulary ", vocab_, " (", kEmbedding, "), ffn ", ffn_));
    return false;
  }
  if (head_dim_ < 1 || head_dim_ % 2 != 0 || d_ % head_dim_ != 0) {
    Problem(absl::StrCat("head_dim is ", head_dim_, ", expected an even divisor of the width ", d_,
                         "; name the right one with --head-dim"));
    head_dim_ = d_;  // some divisor, so that the rest can be looked at
  } else {
    Compare("num_head", config_.heads, d_ / head_dim_);
  }
  Compare("d_model", config_.d, d_);
  Compare("d_ffn", config_.ffn, ffn_);
  Compare("vocab_size", config_.vocab_size, vocab_);
  return true;
}

void Planner::TakeOuter() {
  plan_.embedding = weights_.Take(kEmbedding, {vocab_, d_});
  plan_.head = weights_.Take(kHead, {vocab_, d_});
  plan_.tensors.push_back({{"embed.weight", {vocab_, d_}}, {plan_.embedding}, 0});
}

void Planner::TakeLayer(int64_t layer) {
  const std::string in = absl::StrCat("backbone.layers.", layer, ".");
  const std::string out = absl::StrCat("layers.", layer, ".");
  Copy(in + "seq_layer.input_norm.weight", out + "mixer_norm.weight", {d_});
  if (options_.family == HubFamily::kRatPlus) {
    TakeRatPlusMixer(layer, in + "seq_layer.", out + "mixer.");
  } else {
    TakeRatMixer(in + "seq_layer.", out + "mixer.");
  }
  Copy(in + "seq_layer.out_proj.weight", out + "mixer.out_proj.weight", {d_, d_});
  Copy(in + "hidden_layer.ln.weight", out + "ffn_norm.weight", {d_});
  Copy(in + "hidden_layer.fc1.weight", out + "ffn.in_proj.weight", {ffn_, d_});
  Copy(in + "hidden_layer.fc2.weight", out + "ffn.out_proj.weight", {d_, ffn_});
}

// Rows o, q, k, v, g. Older checkpoints keep g in a tensor of its own; a model without recurrence
// has none, and gets rows of zeros that are never read.
void Planner::TakeRatPlusMixer(int64_t layer, const std::string& in, const std::string& out) {
  const std::string name = in + "in_proj.weight";
  const bool separate = weights_.Find(in + "fgate_proj.weight") != nullptr;
  const bool four = weights_.Extent(name, 0, 0) == 4 * d_;
  const bool recurrence = config_.recurrence.value_or(separate || !four);
  if (layer == 0) recurrence_ = recurrence;
  if (recurrence != recurrence_) Problem(absl::StrCat(in, ": gates in some layers only"));
  OutputTensor tensor{{out + "in_proj.weight", {5 * d_, d_}}, {}, 0};
  const bool whole = recurrence && !separate && !four;
  tensor.parts.push_back(weights_.Take(name, {(whole ? 5 : 4) * d_, d_}));
  if (recurrence && !whole) {
    tensor.parts.push_back(weights_.Take(in + "fgate_proj.weight", {d_, d_}));
  } else if (!recurrence) {
    tensor.zero_items = d_ * d_;
  }
  plan_.tensors.push_back(std::move(tensor));
}

// Rows z, v, g, q, k, as published. A layer of local attention has no gate; its rows are published
// as v, q, k and written as q, k, v.
void Planner::TakeRatMixer(const std::string& in, const std::string& out) {
  const std::string name = in + "in_proj.weight";
  const int64_t rows = weights_.Extent(name, 0, 0);
  const bool attention = rows == 3 * d_ && weights_.Find(in + "gate_bias") == nullptr;
  is_attention_.push_back(attention);
  if (attention) {
    OutputTensor tensor{{out + "in_proj.weight", {rows, d_}}, {}, 0};
    const TensorRef published = weights_.Take(name, {rows, d_});
    for (const int64_t block : {1, 2, 0}) {
      TensorRef part = published;
      part.offset += block * d_ * d_;
      part.shape = {d_, d_};
      tensor.parts.push_back(std::move(part));
    }
    plan_.tensors.push_back(std::move(tensor));
    return;
  }
  if (query_rows_ == 0) query_rows_ = (rows - 3 * d_) / 2;
  if (query_rows_ <= 0 || query_rows_ % head_dim_ != 0 || d_ % query_rows_ != 0) {
    Problem(absl::StrCat(name, " has ", rows, " rows, expected 3 * ", d_,
                         " + 2 * groups * head_dim ", head_dim_));
    query_rows_ = 0;
    weights_.Take(name, {kAnyExtent, d_});
  } else {
    Copy(name, out + "in_proj.weight", {3 * d_ + 2 * query_rows_, d_});
  }
  Copy(in + "gate_bias", out + "gate_bias", {d_});
}

void Planner::WriteSizes(const char* architecture) {
  auto& config = plan_.config;
  config["format_version"] = 1;
  config["architecture"] = architecture;
  config["vocab_size"] = vocab_;
  config["unk_id"] = kUnkId;
  config["eos_id"] = kEosId;
  config["d"] = d_;
  config["heads"] = d_ / head_dim_;
  config["head_dim"] = head_dim_;
  config["ffn"] = ffn_;
  config["layers"] = layers_;
  config["context"] = Choose("context", config_.context, std::nullopt, kContext);
  if (!config_.rope_base.has_value()) Assume("rope_base 10000");
  config["rope_base"] = config_.rope_base.value_or(kRopeBase);
  config["norm_eps"] = kNormEps;
}

nlohmann::ordered_json Planner::PatternValue(const char* what, const std::optional<PerLayer>& said,
                                             int64_t otherwise) {
  if (!said.has_value()) {
    Assume(absl::StrCat("local.", what, " ", otherwise));
    return otherwise;
  }
  if (!said->list) return said->values.front();
  if (static_cast<int64_t>(said->values.size()) != layers_) {
    Problem(absl::StrCat("the configuration has ", said->values.size(), " values of ", what,
                         ", expected one or ", layers_));
  }
  return said->values;
}

void Planner::WriteRatPlusConfig() {
  WriteSizes("ratplus");
  CheckPositions("rope");
  if (!config_.recurrence.has_value()) {
    Assume(recurrence_ ? "recurrence true: there are gates"
                       : "recurrence false: there are no gates");
  }
  auto& config = plan_.config;
  config["recurrence"] = recurrence_;
  config["local"]["window"] = PatternValue("window", config_.window, 0);
  config["local"]["dilation"] = PatternValue("dilation", config_.dilation, 1);
  config["local"]["initial"] = PatternValue("initial", config_.initial, 0);
  std::set<int64_t> adapted;
  if (!config_.dilation.has_value()) adapted = {1};
  if (config_.dilation.has_value())
    adapted.insert(config_.dilation->values.begin(), config_.dilation->values.end());
  adapted.erase(-1);  // off
  if (config_.joint_train) adapted.insert(1);
  config["adapted_dilations"] = adapted;
}

// The mixers know one encoding each: RAT RoPE at the chunk's index, RAT+ and attention RoPE at the
// token's. Others were trained with, "empty" among them, which is none.
void Planner::CheckPositions(absl::string_view expected) {
  if (!config_.positions.has_value()) return;
  const std::string& name = *config_.positions;
  if (name == expected || (name == "rope_interrope" && expected == "interrope")) return;
  Problem(absl::StrCat("config.model.embedding.pe._name_ is \"", Printable(name), "\", expected \"",
                       expected, "\""));
}

void Planner::WriteRatConfig() {
  const auto attentions = std::count(is_attention_.begin(), is_attention_.end(), true);
  const bool hybrid = attentions > 0;
  if (attentions == layers_) Problem("no layer has a gate_bias, expected at least one RAT layer");
  WriteSizes(hybrid ? "rat-swa" : "rat");
  Assume(absl::StrCat("norm_eps ", kNormEps));
  if (!config_.activation.has_value()) Assume("ffn_kind gelu");
  Assume("rope_pairs half");
  plan_.config["ffn_kind"] = "gelu";
  plan_.config["rope_pairs"] = "half";
  if (!config_.positions.has_value()) Assume("positions rope");
  CheckPositions(hybrid ? "rope_interrope" : "interrope");
  const int64_t shared_heads = query_rows_ / head_dim_;
  if (shared_heads > 0) Compare("ngroups", config_.shared_heads, shared_heads);
  nlohmann::ordered_json rat = {
      {"kind", "rat"}, {"chunk", nullptr}, {"shared_heads", shared_heads}, {"positions", "rope"}};
  if (!config_.chunk.has_value() && !options_.chunk.has_value()) {
    Problem("neither configuration nor shapes tell the chunk length; name it with --chunk");
  } else {
    rat["chunk"] = Choose("chunk", config_.chunk, options_.chunk, 0);
  }
  nlohmann::ordered_json attention = {{"kind", "attention"}, {"window", nullptr}};
  if (hybrid) {
    attention["window"] = Choose("window", config_.attention_window, std::nullopt, kHybridWindow);
  }
  attention["positions"] = "rope";

  // Layer i takes mixers[i mod n], with the smallest n that gives every layer its kind.
  auto period = is_attention_.begin() + 1;
  while (!std::equal(period, is_attention_.end(), is_attention_.begin())) ++period;
  plan_.config["mixers"] = nlohmann::ordered_json::array();
  for (auto layer = is_attention_.begin(); layer != period; ++layer)
    plan_.config["mixers"].push_back(*layer ? attention : rat);
}

}  // namespace

int64_t ImportPlan::parameters() const {
  int64_t count = 0;
  for (const OutputTensor& tensor : tensors) {
    int64_t size = 1;
    for (const int64_t extent : tensor.header.shape) size *= extent;
    count += size;
  }
  return count;
}

absl::StatusOr<ImportPlan> PlanImport(const TorchCheckpoint& checkpoint,
                                      const PlanOptions& options) {
  return Planner(checkpoint, options).Run();
}

}  // namespace recollect::convert
