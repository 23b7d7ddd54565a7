// config.json of a model directory as a validated struct (docs/model-format.md).
#ifndef RECOLLECT_MODEL_CONFIG_H_
#define RECOLLECT_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace recollect::model {

// Which positions a token attends to (design 2.2). Equality decides whether a stored local state
// can be continued.
struct LocalPattern {
  int64_t window = 128;   // W: {t-W..t}
  int64_t dilation = 16;  // D: p with (p+1) mod D = 0 in [t-C, t-W)
  int64_t initial = 0;    // I: p < I
  int64_t span = 1024;    // C
  friend bool operator==(const LocalPattern&, const LocalPattern&) = default;
};

enum class GcaResidual { kAdd, kBypass };

struct GroupConfig {
  int layers = 1;
  std::vector<int> gca_layers;  // counted within the group, ascending
};

struct ModelConfig {
  std::string architecture;  // "drt"
  int64_t vocab_size = 0;
  int32_t unk_id = 0, lmk_id = 1, eos_id = 2;
  int64_t d = 0;
  int heads = 0;
  int head_dim = 0;
  int64_t ffn = 0;
  int n_low = 0;
  std::vector<GroupConfig> groups;
  int encoder_layers = 1;
  bool encoder_carry = false;  // the CLS row also takes the block's landmark row
  int n_ret = 8;
  int64_t d_r = 0;
  int memory_kv_heads = 0;
  bool memory_key_recurrence = true;
  GcaResidual gca_residual = GcaResidual::kAdd;
  bool recurrence = true;
  double rope_base = 10000.0;
  float norm_eps = 1e-6f;
  LocalPattern local;
  std::vector<int64_t> adapted_dilations;  // what a request may ask for besides local.dilation

  int layers() const;  // n_low + all group layers
  int64_t inner() const { return static_cast<int64_t>(heads) * head_dim; }
  int64_t memory_width() const { return static_cast<int64_t>(memory_kv_heads) * head_dim; }
  int first_layer_of_group(int group) const;  // index among all layers
  bool layer_has_gca(int layer) const;
};

// Parses and validates; INVALID_ARGUMENT lists every problem of the text at once, each with the key
// and both values. Unknown keys are problems too.
absl::StatusOr<ModelConfig> ParseConfig(const std::string& json);

// INVALID_ARGUMENT naming the field when `pattern` is impossible (negative, span < window, dilation
// that does not divide 64 …) or, for a request, not among what the checkpoint was adapted to.
absl::Status ValidatePattern(const ModelConfig& config, const LocalPattern& pattern);

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_CONFIG_H_
