// The input is the text of a config.json.
#include "model/config/config.h"
#include "model/weights/weights.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/support/tiny_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace recollect;
  const auto config = model::ParseConfig(std::string(fuzz::AsText(data, size)));
  if (!config.ok()) {
    fuzz::CheckRefusal(config.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  // What a checkpoint is trained with is among what it is adapted to.
  RECOLLECT_CHECK(model::ValidatePatterns(*config, config->local).ok());
  RECOLLECT_CHECK(config->layers() >= 1 && config->inner() >= 1);
  RECOLLECT_CHECK(config->RopeBase(config->max_context) >= config->rope_base);
  RECOLLECT_CHECK(config->position_floats() >= 0);
  for (int layer = 0; layer < config->layers(); ++layer) config->parts(layer);
  constexpr int kMaxLayers = 64;  // the names of thousands of tensors take their time
  if (config->layers() + config->encoder_layers <= kMaxLayers) {
    RECOLLECT_CHECK(!model::ExpectedTensors(*config).empty());
  }
  // Written and read again it is the same. The smallest norms' constants are not: as a float they
  // are a little below what a config may say.
  const float kSmallest = 1.001e-12f;
  for (const float eps : {config->norm_eps, config->encoder_norm_eps, config->head_norm_eps}) {
    if (eps != 0 && eps < kSmallest) return 0;
  }
  const std::string written = ConfigJson(*config);
  const auto again = model::ParseConfig(written);
  if (!again.ok())
    std::fprintf(stderr, "%s\n%s\n", again.status().ToString().c_str(), written.c_str());
  RECOLLECT_CHECK(again.ok() && ConfigJson(*again) == written);
  RECOLLECT_CHECK(again->local == config->local && again->layers() == config->layers());
  return 0;
}
