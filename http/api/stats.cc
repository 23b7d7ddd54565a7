#include "engine/stats.h"

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/io/process.h"
#include "http/api/handlers.h"
#include "model/model.h"
#include "nlohmann/json.hpp"

namespace recollect::http {
namespace {

// Names of ModelInfo in proto/recollect/v1/admin.proto.
nlohmann::ordered_json ToJson(const model::Model& model) {
  const model::ModelConfig& config = model.config();
  nlohmann::ordered_json out = {{"architecture", config.architecture},
                                {"fingerprint", model.fingerprint()},
                                {"dtype", DTypeName(model.dtype())},
                                {"parameters", model.parameters()},
                                {"weight_bytes", model.weight_bytes()},
                                {"vocab_size", config.vocab_size},
                                {"has_tokenizer", model.tokenizer() != nullptr},
                                {"width", config.d},
                                {"layers", config.layers()},
                                {"lower_layers", config.n_low},
                                {"groups", config.groups.size()},
                                {"retrieved_chunks", config.n_ret},
                                {"retrieval_width", config.key_width()}};
  if (config.context > 0) out["context"] = config.context;
  if (config.max_context > 0) out["max_context"] = config.max_context;
  return out;
}

}  // namespace

absl::Status Stats(Runtime& runtime, const Request&, const std::shared_ptr<Answer>& answer) {
  nlohmann::ordered_json out = {{"object", "stats"}};
  const engine::EngineStats stats = runtime.engine.stats();
  engine::VisitFields(stats, [&out](const engine::Statistic& statistic, const auto& value) {
    out[statistic.name] = value;
  });
  out["resident_bytes"] = ReadProcess().resident_bytes;
  out["uptime_s"] = absl::ToDoubleSeconds(SteadyNow() - runtime.start);
  out["model"] = {{"name", runtime.options.model_name}};
  if (runtime.options.model != nullptr) out["model"].update(ToJson(*runtime.options.model));
  out["model"]["index"] = stats.index;
  answer->Send(200, "application/json",
               out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return absl::OkStatus();
}

}  // namespace recollect::http
