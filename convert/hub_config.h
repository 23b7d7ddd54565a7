// What the configuration that the published trainers pickle beside the weights says, where it says
// something. Keys of old and new trainers are both read. Private to convert/.
#ifndef RECOLLECT_CONVERT_HUB_CONFIG_H_
#define RECOLLECT_CONVERT_HUB_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/pickle.h"

namespace recollect::convert {

// One value for all layers, or one a layer.
struct PerLayer {
  std::vector<int64_t> values;
  bool list = false;
};

struct HubConfig {
  bool present = false;  // a dict with model.backbone; without it all below is empty
  std::optional<int64_t> layers, d, head_dim, heads, ffn, vocab_size, context;
  // RAT and its hybrids; the window is of their attention layers.
  std::optional<int64_t> chunk, shared_heads, attention_window;
  // Of the position encoding, where it is a section, and of the FFN's activation.
  std::optional<std::string> positions, activation;
  std::optional<double> rope_base;
  std::optional<bool> recurrence;
  bool joint_train = false;  // pretraining with D and with 1 in turn
  std::optional<PerLayer> dilation, window, initial;
};

// Reads `config`, which may be nullptr. What has a wrong type, or says that the model is of another
// kind than the engine's (biases, other norms, other activations), is added to `problems`.
HubConfig ReadHubConfig(const PickleTree& tree, const Value* config,
                        std::vector<std::string>& problems);

}  // namespace recollect::convert

#endif  // RECOLLECT_CONVERT_HUB_CONFIG_H_
