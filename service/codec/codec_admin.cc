#include <cstdint>
#include <set>
#include <type_traits>

#include "base/check.h"
#include "engine/stats.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "model/model.h"
#include "service/codec/codec.h"

namespace recollect::service {
namespace {

v1::LocalPattern Encode(const model::LocalPattern& pattern) {
  v1::LocalPattern out;
  out.set_window(pattern.window);
  out.set_dilation(pattern.dilation);
  out.set_initial(pattern.initial);
  out.set_span(pattern.span == model::kUnboundedSpan ? -1 : pattern.span);
  return out;
}

v1::Range Encode(const model::AdaptedRange& range) {
  v1::Range out;
  out.set_min(range.low);
  out.set_max(range.high);
  return out;
}

void EncodePatterns(const model::ModelConfig& config, v1::ModelInfo& info) {
  // What every layer and head has by itself, if they agree, may be asked for too.
  std::set<int64_t> dilations(config.adapted_dilations.begin(), config.adapted_dilations.end());
  if (const model::LocalPattern* everywhere = config.local.everywhere()) {
    *info.mutable_local() = Encode(*everywhere);
    dilations.insert(everywhere->dilation);
  } else {
    for (int layer = 0; layer < config.layers(); ++layer) {
      v1::LayerPattern& out = *info.add_layer_patterns();
      for (const model::LocalPattern& pattern : config.local.layer(layer)) {
        *out.add_heads() = Encode(pattern);
      }
    }
  }
  for (const int64_t dilation : dilations) info.add_dilations(dilation);
  if (config.adapted_windows) *info.mutable_windows() = Encode(*config.adapted_windows);
  if (config.adapted_initials) *info.mutable_initials() = Encode(*config.adapted_initials);
}

// REQUIRES: the message has a field of this name and type.
template <typename T>
void SetField(const char* name, const T& value, v1::Stats& out) {
  const google::protobuf::FieldDescriptor* field = v1::Stats::descriptor()->FindFieldByName(name);
  RECOLLECT_CHECK(field != nullptr);
  const google::protobuf::Reflection& reflection = *v1::Stats::GetReflection();
  if constexpr (std::is_same_v<T, bool>) {
    reflection.SetBool(&out, field, value);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    reflection.SetInt64(&out, field, value);
  } else if constexpr (std::is_same_v<T, double>) {
    reflection.SetDouble(&out, field, value);
  } else {
    reflection.SetString(&out, field, value);
  }
}

}  // namespace

v1::ModelInfo Encode(const model::Model& model, const std::string& name) {
  const model::ModelConfig& config = model.config();
  v1::ModelInfo info;
  info.set_name(name);
  info.set_architecture(config.architecture);
  info.set_fingerprint(model.fingerprint());
  info.set_dtype(DTypeName(model.dtype()));
  info.set_parameters(model.parameters());
  info.set_weight_bytes(model.weight_bytes());
  info.set_vocab_size(config.vocab_size);
  info.set_has_tokenizer(model.tokenizer() != nullptr);
  info.set_width(config.d);
  info.set_layers(config.layers());
  info.set_lower_layers(config.n_low);
  info.set_groups(static_cast<int>(config.groups.size()));
  info.set_retrieved_chunks(config.n_ret);
  info.set_retrieval_width(config.key_width());
  EncodePatterns(config, info);
  if (config.context > 0) info.set_context(config.context);
  if (config.max_context > 0) info.set_max_context(config.max_context);
  if (config.top_k.max > 0) {
    info.mutable_top_k()->set_block(config.top_k.block);
    info.mutable_top_k()->set_score(model::BlockScoreName(config.top_k.score));
    info.mutable_top_k()->set_max(config.top_k.max);
  }
  return info;
}

v1::Stats Encode(const engine::EngineStats& stats) {
  v1::Stats out;
  engine::VisitFields(stats, [&out](const engine::Statistic& statistic, const auto& value) {
    SetField(statistic.name, value, out);
  });
  return out;
}

v1::Backup Encode(const store::BackupInfo& info) {
  v1::Backup out;
  out.set_number(info.number);
  if (!info.damage.empty()) {
    out.set_damage(info.damage);
    return out;
  }
  out.set_created_unix_s(info.created_unix_s);
  out.set_bytes(info.bytes);
  out.set_files(info.files);
  out.set_documents(info.documents);
  return out;
}

v1::RpcStats Encode(const std::string& method, const MethodMetrics& metrics) {
  v1::RpcStats out;
  out.set_method(method);
  out.set_started(metrics.started);
  out.set_running(metrics.running);
  for (const auto& [code, count] : metrics.codes) {
    v1::CodeCount& entry = *out.add_codes();
    entry.set_code(absl::StatusCodeToString(code));
    entry.set_count(count);
  }
  out.set_total_ms(absl::ToDoubleMilliseconds(metrics.total));
  out.set_max_ms(absl::ToDoubleMilliseconds(metrics.max));
  return out;
}

}  // namespace recollect::service
