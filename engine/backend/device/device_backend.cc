#include "engine/backend/device/device_backend.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "engine/backend/device/device_memory_encoder.h"
#include "engine/backend/rows.h"
#include "engine/backend/sampler.h"

namespace recollect::engine {
namespace {

using kernels::DeviceCopy;

// Rows whose logits there is memory for at a time.
constexpr size_t kHeadRows = 256;

// Rows [d] in a buffer that grows; what it held may be lost.
absl::StatusOr<float*> Rows(kernels::Device& device, int64_t rows, int64_t d,
                            std::shared_ptr<kernels::DeviceBuffer>& buffer) {
  ASSIGN_OR_RETURN(void* const data,
                   kernels::AtLeast(device, rows * d * int64_t{sizeof(float)}, buffer));
  return static_cast<float*>(data);
}

class DeviceSequence final : public SequenceState {
 public:
  DeviceSequence(std::shared_ptr<kernels::Device> on, model::DeviceState fresh)
      : device(std::move(on)), state(std::move(fresh)) {}
  int64_t bytes() const override { return state.bytes() + (open == nullptr ? 0 : open->bytes()); }
  absl::Status Begin(model::LocalState from) override { return state.Begin(*device, from); }
  bool Rewind(int64_t length) override { return state.Rewind(length); }

  const std::shared_ptr<kernels::Device> device;
  model::DeviceState state;
  std::shared_ptr<kernels::DeviceBuffer> open;  // [rows of a full block, d], of which open_rows are
  int64_t open_rows = 0;
};

class DeviceResiduals final : public Residuals {
 public:
  float* data() const { return static_cast<float*>(buffer->data()); }
  std::shared_ptr<kernels::DeviceBuffer> buffer;
  // With an adapter, from the upper layers on: what each head row asks the pointer head.
  std::vector<std::vector<float>> pointer_queries;
};

struct DeviceUploadedStates final : UploadedStates {
  explicit DeviceUploadedStates(std::shared_ptr<const kernels::DeviceBuffer> states)
      : buffer(std::move(states)) {}
  const std::shared_ptr<const kernels::DeviceBuffer> buffer;
};

// A checkpoint may allow choices that no device makes.
absl::Status CheckDevicePatterns(const model::LocalPatterns& patterns) {
  constexpr int64_t kMax = kernels::kMaxDeviceTopK + 1;  // the own block is not searched for
  if (patterns.blocks().count <= kMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("top_k_blocks is ", patterns.blocks().count,
                                                 ", layers on a device allow ", kMax));
}

DeviceSequence& SequenceOf(const PieceRows& piece) {
  return static_cast<DeviceSequence&>(*piece.sequence);
}

float* RowsOf(const PieceRows& piece) {
  return static_cast<const DeviceResiduals&>(*piece.residuals).data();
}

// Between the pieces' rows and those of the batch, side by side.
std::vector<DeviceCopy> CopiesOf(std::span<PieceRows* const> pieces, int64_t d, float* batch,
                                 bool in) {
  std::vector<DeviceCopy> copies;
  for (const PieceRows* piece : pieces) {
    const int64_t count = piece->rows() * d;
    float* const own = RowsOf(*piece);
    copies.push_back({in ? own : batch, in ? batch : own, count * int64_t{sizeof(float)}});
    batch += count;
  }
  return copies;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Backend>> DeviceBackend::Create(
    std::shared_ptr<kernels::Device> device, const model::Model& model,
    std::shared_ptr<const model::CpuModel> adapter, int threads) {
  RECOLLECT_CHECK(model.config().has_adapter() == (adapter != nullptr));
  ASSIGN_OR_RETURN(std::unique_ptr<model::DeviceModel> loaded,
                   model::DeviceModel::Load(*device, model));
  std::shared_ptr<HostAdapter> host;
  if (adapter != nullptr) host = std::make_shared<HostAdapter>(device, std::move(adapter), threads);
  return std::shared_ptr<Backend>(
      new DeviceBackend(std::move(device), std::move(loaded), std::move(host)));
}

absl::StatusOr<std::unique_ptr<SequenceState>> DeviceBackend::NewSequence(
    const model::LocalPatterns& patterns) {
  RETURN_IF_ERROR(CheckDevicePatterns(patterns));
  return std::make_unique<DeviceSequence>(
      device_,
      model::DeviceState(model_->config(), patterns, model_->config().layers(), model_->dtype()));
}

absl::StatusOr<std::unique_ptr<MemoryEncoder>> DeviceBackend::NewEncoder(
    const model::LocalPatterns& patterns) {
  RETURN_IF_ERROR(CheckDevicePatterns(patterns));
  return std::make_unique<DeviceMemoryEncoder>(model_, adapter_, device_, patterns);
}

absl::StatusOr<float*> DeviceBackend::BatchRows(int64_t rows) {
  return Rows(*device_, rows, model_->config().d, batch_);
}

absl::Status DeviceBackend::RunLayers(std::span<PieceRows* const> pieces, int first, int count,
                                      int group, float* h) {
  std::vector<model::DeviceSegment> segments;
  for (PieceRows* piece : pieces) {
    for (const Segment& segment : piece->segments) {
      const bool reads = group >= 0 && segment.memory != nullptr;
      segments.push_back(
          {.state = &SequenceOf(*piece).state,
           .rows = segment.rows,
           .retrieved =
               reads ? &segment.memory->groups[static_cast<size_t>(group)].retrieved : nullptr});
    }
  }
  return model_->RunLayers(first, count, segments, h);
}

absl::Status DeviceBackend::RunLower(std::span<PieceRows* const> pieces) {
  const int64_t d = model_->config().d;
  std::vector<int32_t> ids;
  for (PieceRows* piece : pieces) {
    if (piece->residuals == nullptr) piece->residuals = std::make_unique<DeviceResiduals>();
    RETURN_IF_ERROR(
        Rows(*device_, piece->rows(), d, static_cast<DeviceResiduals&>(*piece->residuals).buffer)
            .status());
    ids.insert(ids.end(), piece->ids.begin(), piece->ids.end());
  }
  ASSIGN_OR_RETURN(float* const h, BatchRows(static_cast<int64_t>(ids.size())));
  RETURN_IF_ERROR(model_->Embed(ids, h));
  RETURN_IF_ERROR(RunLayers(pieces, 0, model_->config().n_low, -1, h));
  return model_->Copy(CopiesOf(pieces, d, h, /*in=*/false));
}

// The pointer head asks with a row as it was before the upper layers.
absl::Status DeviceBackend::AskPointer(PieceRows& piece) {
  auto& queries = static_cast<DeviceResiduals&>(*piece.residuals).pointer_queries;
  queries.clear();
  for (const HeadRow& head : piece.head) {
    ASSIGN_OR_RETURN(queries.emplace_back(),
                     adapter_->PointerQuery(RowsOf(piece) + head.row * model_->config().d));
  }
  return absl::OkStatus();
}

absl::Status DeviceBackend::RunGroup(std::span<PieceRows* const> pieces, int group) {
  const model::ModelConfig& config = model_->config();
  for (PieceRows* piece : pieces) {
    const bool copies = adapter_ != nullptr && piece->segments.back().memory != nullptr;
    if (copies) RETURN_IF_ERROR(AskPointer(*piece));
  }
  int64_t rows = 0;
  for (const PieceRows* piece : pieces) rows += piece->rows();
  ASSIGN_OR_RETURN(float* const h, BatchRows(rows));
  RETURN_IF_ERROR(model_->Copy(CopiesOf(pieces, config.d, h, /*in=*/true)));
  RETURN_IF_ERROR(RunLayers(pieces, config.first_layer_of_group(group),
                            config.groups[static_cast<size_t>(group)].layers, group, h));
  return model_->Copy(CopiesOf(pieces, config.d, h, /*in=*/false));
}

absl::StatusOr<std::vector<model::EncodedChunk>> DeviceBackend::EncodeClosed(
    std::span<PieceRows* const> pieces) {
  const int64_t d = model_->config().d;
  std::vector<model::DeviceBlock> blocks;
  for (const PieceRows* piece : pieces) {
    const DeviceSequence& sequence = SequenceOf(*piece);
    for (const ClosedBlock& closed : piece->closed) {
      const bool begun = closed.rows_before > 0;
      blocks.push_back(
          {.before = begun ? static_cast<const float*>(sequence.open->data()) : nullptr,
           .rows_before = closed.rows_before,
           .here = RowsOf(*piece) + closed.first_row * d,
           .rows_here = closed.rows - closed.rows_before});
    }
  }
  ASSIGN_OR_RETURN(std::vector<model::EncodedChunk> chunks, model_->EncodeChunks(blocks));
  std::vector<DeviceCopy> kept;
  for (const PieceRows* piece : pieces) {
    DeviceSequence& sequence = SequenceOf(*piece);
    if (!piece->closed.empty()) sequence.open_rows = 0;
    const int64_t rows = piece->rows() - piece->open_row;
    ASSIGN_OR_RETURN(float* const open,
                     Rows(*device_, model_->config().chunk_tokens + 1, d, sequence.open));
    if (rows == 0) continue;
    kept.push_back({RowsOf(*piece) + piece->open_row * d, open + sequence.open_rows * d,
                    rows * d * int64_t{sizeof(float)}});
    sequence.open_rows += rows;
  }
  RETURN_IF_ERROR(model_->Copy(kept));
  return chunks;
}

absl::Status DeviceBackend::Queries(int group, std::span<const QueryRow> rows) {
  const model::ModelConfig& config = model_->config();
  if (adapter_ != nullptr) {
    for (const QueryRow& row : rows) {
      const auto tokens = std::span(row.piece->ids).first(static_cast<size_t>(row.row + 1));
      RETURN_IF_ERROR(adapter_->RecallQuery(RowsOf(*row.piece), tokens, row));
    }
    return absl::OkStatus();
  }
  std::vector<const float*> asking;
  for (const QueryRow& row : rows) asking.push_back(RowsOf(*row.piece) + row.row * config.d);
  std::vector<float> queries(rows.size() * static_cast<size_t>(config.d_r));
  RETURN_IF_ERROR(model_->Queries(group, asking, queries.data()));
  const float* u = queries.data();
  for (const QueryRow& row : rows) {
    std::copy_n(u, config.d_r, row.u.begin());
    u += config.d_r;
  }
  return absl::OkStatus();
}

std::vector<std::shared_ptr<const UploadedStates>> DeviceBackend::BeginUpload(
    std::span<const store::ChunkRecord* const> records) {
  if (adapter_ != nullptr) return {};  // ProjectMemory reads RAM
  std::vector<std::span<const Bf16>> states;
  for (const store::ChunkRecord* record : records) states.emplace_back(record->states);
  auto buffers = model_->BeginUpload(states);
  if (!buffers.ok()) return {};
  std::vector<std::shared_ptr<const UploadedStates>> uploaded;
  for (std::shared_ptr<kernels::DeviceBuffer>& buffer : *buffers) {
    uploaded.push_back(std::make_shared<const DeviceUploadedStates>(std::move(buffer)));
  }
  return uploaded;
}

absl::StatusOr<std::vector<ProjectedMemory>> DeviceBackend::Project(
    std::span<const ChunkToProject> chunks) {
  std::vector<ProjectedMemory> projected;
  if (adapter_ != nullptr) {
    for (const ChunkToProject& chunk : chunks) {
      if (chunk.for_reader_alone) {
        projected.push_back(adapter_->ProjectForReader(*chunk.record));
        continue;
      }
      ASSIGN_OR_RETURN(projected.emplace_back(), adapter_->ProjectMemory(*chunk.record));
    }
    return projected;
  }
  std::vector<model::StoredStates> stored;
  for (const auto& [record, uploaded, for_reader_alone] : chunks) {
    stored.push_back({record->states, record->rows,
                      uploaded == nullptr
                          ? nullptr
                          : static_cast<const DeviceUploadedStates*>(uploaded)->buffer.get()});
  }
  ASSIGN_OR_RETURN(std::vector<model::DeviceMemory> memories, model_->ProjectMemory(stored));
  for (model::DeviceMemory& memory : memories) {
    const int64_t bytes = memory.owner->bytes();
    projected.push_back({.view = memory.view, .owner = std::move(memory.owner), .bytes = bytes});
  }
  return projected;
}

absl::StatusOr<model::Reading> DeviceBackend::Read(const model::ReaderQuestion& question) {
  return adapter_->Read(question);
}

std::vector<std::vector<float>> DeviceBackend::Rerank(std::span<const model::RerankerText> texts) {
  return adapter_->Rerank(texts);
}

absl::Status DeviceBackend::RunHead(std::span<PieceRows* const> pieces) {
  const int64_t d = model_->config().d;
  HeadBatch choosing, consuming;
  for (PieceRows* piece : pieces) {
    for (const HeadRow& head : piece->head) {
      // What the adapter's pointer changes is chosen in RAM.
      HeadBatch& batch = piece->choose && head.copied.empty() ? choosing : consuming;
      batch.asked.emplace_back(piece, &head);
      batch.rows.push_back(RowsOf(*piece) + head.row * d);
      batch.pointed.emplace_back(head.pointed);
    }
  }
  RETURN_IF_ERROR(Choose(choosing));
  RETURN_IF_ERROR(Consume(consuming));
  // A prefill that nobody has asked anything yet waits as the rest does, so that the steps of a
  // long prompt are not all queued at once, before those of other sessions.
  return choosing.rows.empty() && consuming.rows.empty() ? device_->Wait() : absl::OkStatus();
}

absl::Status DeviceBackend::Choose(const HeadBatch& batch) {
  std::vector<int32_t> choices(batch.rows.size());
  std::vector<kernels::SampleSettings> settings;
  for (const auto& [piece, head] : batch.asked) settings.push_back(piece->sampling);
  for (size_t begin = 0; begin < batch.rows.size(); begin += kHeadRows) {
    const size_t count = std::min(kHeadRows, batch.rows.size() - begin);
    RETURN_IF_ERROR(model_->Choices(std::span(batch.rows).subspan(begin, count),
                                    std::span(batch.pointed).subspan(begin, count),
                                    std::span(settings).subspan(begin, count),
                                    NeverChosenOf(model_->config()), choices.data() + begin));
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    const auto& [piece, head] = batch.asked[i];
    piece->choose(*head, choices[i]);
  }
  return absl::OkStatus();
}

absl::Status DeviceBackend::Consume(const HeadBatch& batch) {
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  std::vector<float> logits;
  for (size_t begin = 0; begin < batch.rows.size(); begin += kHeadRows) {
    const size_t count = std::min(kHeadRows, batch.rows.size() - begin);
    logits.resize(count * vocab);
    RETURN_IF_ERROR(model_->Logits(std::span(batch.rows).subspan(begin, count),
                                   std::span(batch.pointed).subspan(begin, count), logits.data()));
    for (size_t i = 0; i < count; ++i) {
      const auto& [piece, head] = batch.asked[begin + i];
      const auto row = std::span(logits).subspan(i * vocab, vocab);
      if (!head->copied.empty()) {
        const auto& queries = static_cast<DeviceResiduals&>(*piece->residuals).pointer_queries;
        RETURN_IF_ERROR(adapter_->MixCopied(batch.rows[begin + i],
                                            queries[static_cast<size_t>(head - &piece->head[0])],
                                            head->copied, row.data()));
      }
      if (piece->choose) {
        piece->choose(*head, kernels::Sample(row, piece->sampling, NeverChosenOf(model_->config()),
                                             sampling_));
      } else {
        piece->consume(*head, row);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace recollect::engine
