// The tensors of a checkpoint, checked against the config and packed for the matrix products.
// Private to model/ and its tests; names and shapes are those of docs/model-format.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "kernels/gemm/gemm.h"
#include "model/config/config.h"
#include "model/weights/embedding_rows.h"
#include "model/weights/tensor_file.h"

namespace recollect::model {

struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
};

// Every tensor that a checkpoint of this config has, in the order of docs/model-format.md.
std::vector<TensorSpec> ExpectedTensors(const ModelConfig& config);

// Rows of a mixer's first projection: o, q, k, v, g (RAT+); z, v, g of all heads, q, k of the
// shared ones (RAT); q of all heads, k, v of the key-value heads (attention, RAttention).
int64_t MixerInputRows(const ModelConfig& config, const MixerConfig& mixer);

// Returns slopes [heads]: 2^(-8 (h + 1) / heads).
std::vector<float> AlibiSlopes(int heads);

// S_0 [heads, 2 head_dim, head_dim] = Σ_m φ(k_m) v_mᵀ of a head's learned tokens: a constant, added
// whenever S is read. keys, values [heads, learned_tokens, head_dim].
std::vector<float> LearnedSum(const ModelConfig& config, const MixerConfig& mixer,
                              const std::vector<float>& keys, const std::vector<float>& values);

// How weights lie in RAM. On a device they are DeviceTensors (model/device/device_weights.h).
struct HostTensors {
  using Vector = std::vector<float>;
  using Matrix = kernels::PackedMatrix;
  using Rows = EmbeddingRows;
};

// Additional weights of RAttention's linear branch.
template <typename T>
struct ResidualWeightsOf {
  typename T::Vector swa_norm{};            // [H, dh]; empty without a window
  typename T::Vector rla_norm{};            // [H, dh]
  typename T::Vector q_scale{}, k_scale{};  // [dh] with qk_scale
  typename T::Vector initial{};             // S_0 [H, 2 dh, dh] with learned tokens
};

template <typename T>
struct MixerWeightsOf {
  MixerConfig config;
  typename T::Vector norm{};              // [d]
  typename T::Matrix in_proj;             // [MixerInputRows, d]
  typename T::Vector gate_bias{};         // [D]; empty if there is none
  typename T::Vector q_norm{}, k_norm{};  // [dh] with qk_norm
  typename T::Vector alibi_slopes{};      // [H] with positions "alibi"
  std::optional<ResidualWeightsOf<T>> residual;
  typename T::Matrix out_proj;  // [d, D]
};

// Rows of an FFN's first projection for an inner width of `ffn`.
constexpr int64_t FfnInputRows(FfnKind kind, int64_t ffn) {
  return kind == FfnKind::kGelu ? ffn : 2 * ffn;
}

template <typename T>
struct FfnWeightsOf {
  FfnKind kind = FfnKind::kSwiGlu;
  typename T::Vector norm{};    // [d]
  typename T::Matrix in_proj;   // [2 F, d]: gate, up; [F, d] with GELU
  typename T::Matrix out_proj;  // [d, F]
};

template <typename T>
struct GcaWeightsOf {
  float norm_eps = 0;
  int memory_layer = 0;         // which of the pairs K, V of Memory it reads
  typename T::Vector norm{};    // [d]
  typename T::Matrix q_proj;    // [D, d]
  typename T::Matrix out_proj;  // [d, D]
};

template <typename T>
struct LayerWeightsOf {
  MixerWeightsOf<T> mixer;
  std::optional<GcaWeightsOf<T>> gca;
  FfnWeightsOf<T> ffn;
};

template <typename T>
struct QueryWeightsOf {
  typename T::Vector norm{};               // [d]
  std::optional<typename T::Matrix> proj;  // [d_r, d]: W_h; absent without score projections
};

template <typename T>
struct EncoderLayerWeightsOf {
  typename T::Vector attn_norm{};    // [d]
  typename T::Matrix attn_in_proj;   // [3 D, d]: q, k, v
  typename T::Matrix attn_out_proj;  // [d, D]
  FfnWeightsOf<T> ffn;
};

template <typename T>
struct EncoderWeightsOf {
  typename T::Vector cls{}, in_norm{}, out_norm{};  // [d] each; cls empty with "stream"
  std::optional<typename T::Matrix> carry_proj;     // [d, d]; absent without encoder_carry
  std::vector<EncoderLayerWeightsOf<T>> layers;
  std::optional<typename T::Matrix> landmark_proj;  // [d_r, d]: W_l; absent as W_h
};

template <typename T>
struct MemoryWeightsOf {
  typename T::Matrix k_proj, v_proj;            // [Dkv, d]
  std::optional<typename T::Matrix> gate_proj;  // [Dkv, d]; absent without key recurrence
};

template <typename T>
struct WeightsOf {
  typename T::Rows embed{};  // [vocab_size, d]
  typename T::Matrix head;   // the same tensor, or its own where the config has no tied head
  std::vector<LayerWeightsOf<T>> layers;
  std::vector<QueryWeightsOf<T>> queries;  // one per group
  // Both empty in a family without landmarks.
  EncoderWeightsOf<T> encoder;
  MemoryWeightsOf<T> memory;
  typename T::Vector final_norm{};  // [d]
};

using ResidualWeights = ResidualWeightsOf<HostTensors>;
using MixerWeights = MixerWeightsOf<HostTensors>;
using FfnWeights = FfnWeightsOf<HostTensors>;
using GcaWeights = GcaWeightsOf<HostTensors>;
using LayerWeights = LayerWeightsOf<HostTensors>;
using QueryWeights = QueryWeightsOf<HostTensors>;
using EncoderLayerWeights = EncoderLayerWeightsOf<HostTensors>;
using EncoderWeights = EncoderWeightsOf<HostTensors>;
using MemoryWeights = MemoryWeightsOf<HostTensors>;

// The projections of a chunk's K, V for one layer.
struct AdapterMemoryWeights {
  std::vector<float> norm;               // [d]
  kernels::PackedMatrix k_proj, v_proj;  // [Dkv, d]
};

// The reader of an adapter (docs/llama.md, "Reader"). Norms use kAdapterNormEps.
struct ReaderWeights {
  kernels::PackedMatrix states_proj;    // [c, state_width]
  kernels::PackedMatrix question_proj;  // [c, d]
  kernels::PackedMatrix ask_proj;       // [c, c]
  kernels::PackedMatrix mix_proj;       // [c, 3 c + kReaderMarks]
  std::vector<EncoderLayerWeights> layers;
  std::vector<float> out_norm;            // [c]
  std::vector<float> out_proj, out_bias;  // [2, c], [2]: begins, ends
  std::vector<float> nothing_proj;        // [c]
  float nothing_bias = 0;
};

// A change of low rank of a matrix W [n, k]: it multiplies as W + up · down.
struct LowRank {
  kernels::PackedMatrix down, up;  // [rank, k], [n, rank]
};
struct MixerChange {
  LowRank in_proj, out_proj;
};

// The reranker of an adapter (docs/llama.md, "Reranker"). All else is the base's lowest layers.
struct RerankerWeights {
  std::vector<MixerChange> changes;  // by layer
  std::vector<float> head;           // [d]
  float bias = 0;
};

// The weights of an adapter besides the layers' GCA (docs/llama.md, "Memory adapter"). Norms
// use kAdapterNormEps.
struct AdapterWeights {
  std::vector<float> cls;  // [2, d]: of a block, of a query
  std::vector<EncoderLayerWeights> layers;
  std::vector<float> out_norm;                        // [d]
  kernels::PackedMatrix states_proj;                  // [d, d]
  kernels::PackedMatrix landmark_proj, query_proj;    // [d_r, d]
  std::vector<float> key_word_proj, query_word_proj;  // [d]
  std::vector<float> key_word_bias, query_word_bias;  // [words]
  std::vector<float> score_scale;                     // [2]: of the dense, the sparse part
  std::vector<float> score_mix_proj, score_mix_bias;  // [2, d], [2]
  std::vector<float> nothing_proj;                    // [d]
  float nothing_bias = 0;
  std::vector<AdapterMemoryWeights> memory;                    // by AdapterConfig::gca_layers
  kernels::PackedMatrix pointer_key_proj, pointer_query_proj;  // [d_p, d]
  float pointer_scale = 0, pointer_evidence = 0, pointer_gate_bias = 0;
  std::vector<float> pointer_gate_proj;  // [d]
  ReaderWeights reader;                  // empty without one
  RerankerWeights reranker;              // likewise
};

struct Weights : WeightsOf<HostTensors> {
  AdapterWeights adapter;  // empty without one
  int64_t bytes = 0;       // of all tensors in memory
};

// Returns INVALID_ARGUMENT with every missing, unexpected or misshapen tensor at once. `redundant`:
// whether a tensor that is not expected does no harm.
absl::Status CheckTensors(const TensorFile& file, const std::vector<TensorSpec>& expected,
                          const std::function<bool(const std::string& name)>& redundant = {});

// Whether a tensor of the file is in blocks, which kQuantized multiplies as they are.
bool HasBlocks(const TensorFile& file);

// Reads and packs the weights. REQUIRES: CheckTensors(file, ExpectedTensors(config)) returned OK,
// and for kBf16 a CPU that has it. With kQuantized a matrix that is not in blocks is packed as
// bf16, or as fp32 where the CPU has no bf16. INVALID_ARGUMENT: a number that is not finite.
// `adapter`: the tensors of the config's adapter; null: it has none.
absl::StatusOr<Weights> LoadWeights(const TensorFile& file, const TensorFile* adapter,
                                    const ModelConfig& config, DType dtype);

}  // namespace recollect::model
