// A model on a device: the functions of Model (model.h) for rows of many sequences at once, in the
// memory of a kernels::Device. It computes the same formulas in the same order, with one launch or
// two for each operation of a layer, whatever the number of sequences. What differs between
// sequences is in tables, which the host makes for all layers of a call and uploads once. The steps
// of a decode are therefore repetitions of the same launches and run as graphs.
//
// Each row's result has the same bits whatever other rows are in the call and however a sequence is
// divided into calls. The bits are not those of the CPU, since sums have another order. Statuses
// are the device's; after one that is not OK, the states of the call are inconsistent and must not
// be used further.
//
//   device_model.cc       weights, embedding, queries, memory, logits
//   device_layers.cc      decoder layers
//   device_mixer.cc       the layers' mixers
//   device_attention.cc   attention over cached keys and values
//   device_blocks.cc      attention where queries choose blocks
//   device_rattention.cc  RAttention's linear branch
//   device_encoder.cc     chunk encoder
#ifndef RECOLLECT_MODEL_DEVICE_DEVICE_MODEL_H_
#define RECOLLECT_MODEL_DEVICE_DEVICE_MODEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bf16.h"
#include "kernels/cpu/op_context.h"
#include "kernels/device/device.h"
#include "kernels/device/graph_device.h"
#include "model/chunk.h"
#include "model/device/device_state.h"
#include "model/device/device_tables.h"
#include "model/device/device_weights.h"
#include "model/model.h"

namespace recollect::model {

// Consecutive rows of one sequence inside a batch, like Segment. Segments that share a state are
// adjacent.
struct DeviceSegment {
  DeviceState* state = nullptr;
  int64_t rows = 0;                      // at most 64 if they read memory
  const Retrieved* retrieved = nullptr;  // chunks in the device's memory; null or empty: none

  bool reads_memory() const { return retrieved != nullptr && !retrieved->chunks.empty(); }
};

// Rows [d] of a closed block after the last lower layer, landmark and tokens in the sequence's
// order: first those at `before`, then those at `here`, both dense, in device memory.
struct DeviceBlock {
  const float* before = nullptr;
  int64_t rows_before = 0;
  const float* here = nullptr;
  int64_t rows_here = 0;

  int64_t rows() const { return rows_before + rows_here; }  // the landmark and at least a token
};

// Chunk states as they are stored, in RAM: [rows, d].
struct StoredStates {
  std::span<const Bf16> states;
  int rows = 0;
  const kernels::DeviceBuffer* staged = nullptr;  // of StageStates; replaces `states`
};

// Memory K, V of one chunk on the device.
struct DeviceMemory {
  std::shared_ptr<kernels::DeviceBuffer> owner;
  kernels::MemoryView view;
};

// Parts of the tables (device_call.h).
struct AttendedHeads;
struct AttendedRows;
struct BlocksAttention;
struct QkvRows;
struct LinearTables;
struct RowsAttention;

// INVALID_ARGUMENT, naming the size, when a model of this config and number format has sizes that
// the device code does not support.
absl::Status CheckDeviceConfig(const ModelConfig& config, DType dtype);

// One thread at a time, except for StageStates. Borrows the device.
class DeviceModel {
 public:
  // Loads the weights of `directory`, from which `model` was loaded, in the model's number format.
  // Statuses of CheckDeviceConfig; RESOURCE_EXHAUSTED and UNAVAILABLE from the device.
  static absl::StatusOr<std::unique_ptr<DeviceModel>> Load(kernels::Device& device,
                                                           const Model& model,
                                                           const std::string& directory);

  const ModelConfig& config() const { return config_; }
  DType dtype() const { return dtype_; }  // of the products
  kernels::Device& device() const { return under_; }
  const kernels::GraphDevice& graphs() const { return device_; }

  // Runs copies on the device, none of which reads what another writes.
  absl::Status Copy(const std::vector<kernels::DeviceCopy>& copies);

  // h[rows, d] on the device = embedding of ids.
  absl::Status Embed(std::span<const int32_t> ids, float* h);

  // Decoder layers first .. first + count - 1 in place on h[rows, d], rows = sum over segments; the
  // states advance in those layers.
  absl::Status RunLayers(int first, int count, std::span<const DeviceSegment> segments, float* h);

  // Returns each block's landmark key and chunk states, in RAM. REQUIRES: 2 to chunk_tokens + 1
  // rows each.
  absl::StatusOr<std::vector<EncodedChunk>> EncodeChunks(std::span<const DeviceBlock> blocks);

  // u[rows, d_r] in RAM = `group`'s queries for landmark rows [d] on the device.
  absl::Status Queries(int group, std::span<const float* const> rows, float* u);

  // Begins to upload chunk states, concurrently with other work, for a later ProjectMemory.
  // Thread-safe.
  absl::StatusOr<std::shared_ptr<kernels::DeviceBuffer>> StageStates(std::span<const Bf16> states);
  // Returns each chunk's memory K, V, in Bf16.
  absl::StatusOr<std::vector<DeviceMemory>> ProjectMemory(std::span<const StoredStates> chunks);

  // The tokens that the pointer points to from a row, in RAM; not used by a model without a
  // pointer.
  using Pointed = std::span<const kernels::PointedToken>;

  // logits[rows, vocab_size] in RAM of rows [d] on the device after the last layer, mixed with
  // pointed[rows] in a model with a pointer (kernels/pointer_mix/pointer_mix.h).
  absl::Status Logits(std::span<const float* const> rows, std::span<const Pointed> pointed,
                      float* logits);

  // choices[rows] in RAM = Sample (kernels/sample/sample.h) of these logits under settings[rows].
  absl::Status Choices(std::span<const float* const> rows, std::span<const Pointed> pointed,
                       std::span<const kernels::SampleSettings> settings,
                       const kernels::NeverChosen& never, int32_t* choices);

 private:
  // Slots of memory that is kept between calls.
  enum Scratch {
    kNormed,     // rows after RMS, input of a projection
    kProjected,  // output of a first projection
    kQkv,        // queries, keys and values in bf16
    kAttended,   // output of attention
    kSomeHeads,  // attention of some heads, where heads have different patterns
    kInner,      // output of the gate or of the FFN's activation
    kSum,        // a + gca of the "bypass" residual; rows of the chunk encoder
    kKeys,       // keys of the chunk encoder and of memory; queries of GCA
    kValues,     // values likewise; what GCA reads
    kRows,       // gathered rows
    kState,      // recurrence inside chunks; carried rows of the chunk encoder
    kRounded,
    kQueryFeatures,
    kKeyFeatures,
    kRawKeys,
    kLinear,  // output of linear attention
    kLists,   // entries that queries have chosen
    kWorkspace,
    kTables,
    kScratchSlots
  };
  // Tables of a call (device_call.h).
  struct CallTables;
  struct MixerTables;
  struct EncoderTables;

  DeviceModel(kernels::Device& device, const Model& model)
      : under_(device), device_(device), config_(model.config()), dtype_(model.dtype()) {}

  // The memory of `slot`, large enough for the size given; its earlier contents may be lost.
  absl::StatusOr<void*> Bytes(Scratch slot, int64_t bytes);
  absl::StatusOr<float*> Floats(Scratch slot, int64_t count);
  // The same for rows that a product reads.
  absl::StatusOr<kernels::DeviceRows> Operand(Scratch slot, int64_t count);
  // x itself, or its conversion to bf16 in `slot`.
  absl::StatusOr<kernels::DeviceRows> AsOperand(Scratch slot, const float* x, int64_t count);

  // Copies the rows of stored states one after the other to `to`, on the device.
  absl::Status PlaceStates(std::span<const StoredStates> chunks, std::byte* to);

  absl::Status UploadTables(DeviceTables& tables);
  absl::Status Product(const DeviceMatrix& weights, const kernels::DeviceRows& x, int64_t rows,
                       float* y, bool add = false);
  // Copies rows [d] to kRows, one after the other.
  absl::StatusOr<float*> Gather(std::span<const float* const> rows);
  // Logits [rows, vocab_size] of rows [d], in kProjected.
  absl::StatusOr<float*> Scores(std::span<const float* const> rows,
                                std::span<const Pointed> pointed);
  absl::Status MixPointed(std::span<const Pointed> pointed, float* scores);
  // Adds tables of attention; cache entries are `kv_stride` numbers apart.
  RowsAttention BuildRows(const AttendedRows& attended, const AttendedHeads& heads,
                          int64_t kv_stride, DeviceTables& tables);
  // out[rows, heads, head_dim] = attention of queries of these rows and heads, dense. slopes: of
  // ALiBi, or null.
  absl::Status Attend(const RowsAttention& attention, const DeviceTables& tables,
                      const QkvRows& qkv, const float* slopes, float* out);
  // h += FFN(RMS(x)).
  absl::Status RunFfn(const DeviceFfn& weights, FfnKind kind, float eps, const float* x,
                      int64_t rows, float* h);

  absl::Status BuildCall(int first, int count, std::span<const DeviceSegment> runs,
                         CallTables& call);
  absl::Status RunLayer(int layer, const CallTables& call, const MixerTables& mixer, float* h);
  absl::Status BuildGca(std::span<const DeviceSegment> segments, CallTables& call);
  absl::Status RunGca(const DeviceLayer& weights, const CallTables& call, const float* a,
                      float* sum);

  // The width of a row of a mixer's first projection.
  int64_t ProjectedWidth(const MixerConfig& mixer) const;
  absl::Status BuildMixer(int layer, std::span<const DeviceSegment> runs, CallTables& call);
  absl::Status BuildScan(int layer, std::span<const DeviceSegment> runs, CallTables& call);
  absl::Status BuildAttention(int layer, std::span<const DeviceSegment> runs, CallTables& call);
  RowsAttention BuildHeads(const AttendedRows& attended, const AttendedHeads& heads,
                           int64_t first_row, CallTables& call);
  absl::Status RunMixer(const DeviceMixer& weights, const MixerConfig& mixer,
                        const CallTables& call, const MixerTables& tables, float* h);
  absl::Status PlaceHeads(const DeviceMixer& weights, const CallTables& call,
                          const MixerTables& tables);
  absl::Status AttendMixer(const DeviceMixer& weights, const CallTables& call,
                           const MixerTables& tables);

  absl::StatusOr<BlocksAttention> BuildBlocks(int layer, std::span<const DeviceSegment> runs,
                                              int64_t first_row, DeviceTables& tables);
  absl::Status AttendBlocks(const BlocksAttention& blocks, const DeviceTables& tables,
                            const QkvRows& qkv, float* out);

  absl::Status BuildLinear(int layer, std::span<const DeviceSegment> runs, CallTables& call);
  absl::Status BeginLinear(const DeviceMixer& weights, const MixerConfig& mixer,
                           const CallTables& call, const MixerTables& tables);
  absl::Status AddLinear(const DeviceMixer& weights, const MixerConfig& mixer,
                         const CallTables& call, const LinearTables& tables);

  absl::StatusOr<EncoderTables> BuildEncoder(std::span<const DeviceBlock> blocks);
  absl::Status PlaceLandmarks(const EncoderTables& tables);
  absl::Status EncodeLayer(const DeviceEncoderLayer& weights, const EncoderTables& tables);
  absl::StatusOr<std::vector<EncodedChunk>> TakeChunks(std::span<const DeviceBlock> blocks,
                                                       const EncoderTables& tables);

  kernels::Device& under_;
  kernels::GraphDevice device_;  // in front of the device
  const ModelConfig config_;
  const DType dtype_;
  DeviceWeights weights_;
  kernels::OpContext ctx_;  // for what the host computes
  std::array<std::shared_ptr<kernels::DeviceBuffer>, kScratchSlots> scratch_;
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_DEVICE_DEVICE_MODEL_H_
