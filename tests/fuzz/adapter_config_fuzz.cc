// The input is the text of a memory.json, beside a small base.
#include "model/config/adapter_config.h"
#include "model/config/llama_config.h"
#include "model/weights/adapter_weights.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/support/tiny_llama.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace recollect;
  static const model::ModelConfig base = model::LlamaConfigFromHub(TinyLlamaConfig()).value();
  model::ModelConfig config = base;
  const absl::Status status = model::AddAdapter(std::string(fuzz::AsText(data, size)), config);
  if (!status.ok()) {
    fuzz::CheckRefusal(status, {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  RECOLLECT_CHECK(config.has_adapter() && config.documents() == DocumentKind::kChunks);
  RECOLLECT_CHECK(config.layers() == base.layers() && config.n_low < config.layers());
  RECOLLECT_CHECK(config.adapter.segment_tokens >= config.chunk_tokens);
  RECOLLECT_CHECK(config.min_chunk_tokens <= config.chunk_tokens);
  constexpr int kMaxLayers = 64;  // the names of thousands of tensors take their time
  if (config.encoder_layers <= kMaxLayers) {
    RECOLLECT_CHECK(!model::AdapterTensors(config).empty());
  }
  return 0;
}
