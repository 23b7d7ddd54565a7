#include "model/weights/reader_weights.h"

#include <string>

#include "model/weights/weights_list.h"
#include "model/weights/weights_reader.h"

namespace recollect::model {
namespace {

constexpr float kRopeBase = 10000;

void AddReader(WeightsReader& list, const ModelConfig& config, ReaderWeights& weights) {
  const ReaderConfig& reader = config.adapter.reader;
  const int64_t c = reader.width;
  const ModelConfig layers = ReaderLayers(reader);
  list.Matrix("states_proj.weight", {c, config.state_width()}, weights.states_proj);
  list.Matrix("question_proj.weight", {c, config.d}, weights.question_proj);
  list.Matrix("ask_proj.weight", {c, c}, weights.ask_proj);
  list.Matrix("mix_proj.weight", {c, 3 * c + kReaderMarks}, weights.mix_proj);
  list.Vector("out_norm.weight", {c}, weights.out_norm);
  list.Vector("out.weight", {2, c}, weights.out_proj);
  list.Vector("out.bias", {2}, weights.out_bias);
  list.Vector("nothing.weight", {1, c}, weights.nothing_proj);
  list.Number("nothing.bias", weights.nothing_bias);
  weights.layers.resize(static_cast<size_t>(reader.layers));
  for (int layer = 0; layer < reader.layers; ++layer) {
    AddEncoderLayer(list, absl::StrCat("layers.", layer, "."), layers, FfnKind::kSwiGlu, reader.ffn,
                    weights.layers[static_cast<size_t>(layer)]);
  }
}

}  // namespace

ModelConfig ReaderLayers(const ReaderConfig& reader) {
  ModelConfig config;
  config.d = reader.width;
  config.heads = config.kv_heads = reader.heads;
  config.head_dim = reader.width / reader.heads;
  config.rope_base = kRopeBase;
  return config;
}

std::vector<TensorSpec> ReaderTensors(const ModelConfig& config) {
  WeightsReader list;
  ReaderWeights none;
  AddReader(list, config, none);
  return list.specs();
}

absl::Status ReadReader(const TensorFile& file, const ModelConfig& config, DType dtype,
                        Weights& weights) {
  WeightsReader list(file, dtype);
  AddReader(list, config, weights.adapter.reader);
  weights.bytes += list.bytes();
  return list.status();
}

}  // namespace recollect::model
