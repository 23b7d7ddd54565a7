// Reads the configuration that the published trainers pickle with the weights; values may be
// missing. Knows the keys of old and new trainers. Private to convert/.
#ifndef RECOLLECT_CONVERT_HUB_CONFIG_H_
#define RECOLLECT_CONVERT_HUB_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/pickle.h"

namespace recollect::convert {

// A value for all layers, or, if `list`, a value for each layer.
struct PerLayer {
  std::vector<int64_t> values;
  bool list = false;
};

struct HubConfig {
  bool present = false;  // a dict with model.backbone was given; otherwise all below is empty
  std::optional<int64_t> layers, d, head_dim, heads, ffn, vocab_size, context;
  // For RAT and its hybrids; the window is that of their attention layers.
  std::optional<int64_t> chunk, shared_heads, attention_window;
  // Names of the position encoding, if it is a section, and of the FFN's activation.
  std::optional<std::string> positions, activation;
  std::optional<double> rope_base;
  std::optional<bool> recurrence;
  bool joint_train = false;  // pretraining alternates dilation D and 1
  std::optional<PerLayer> dilation, window, initial;
};

// Reads `config`, which may be nullptr. Values of a wrong type, or of a kind of model that the
// engine does not support (biases, other norms, other activations), are added to `problems`.
HubConfig ReadHubConfig(const PickleTree& tree, const Value* config,
                        std::vector<std::string>& problems);

}  // namespace recollect::convert

#endif  // RECOLLECT_CONVERT_HUB_CONFIG_H_
