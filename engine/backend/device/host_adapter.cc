#include "engine/backend/device/host_adapter.h"

#include "base/status.h"

namespace recollect::engine {
namespace {

// Memory K, V on the device, the others in RAM.
struct AdapterMemory {
  std::shared_ptr<kernels::DeviceBuffer> on_device;
  std::vector<Bf16> pointer_keys, reader_rows;
};

}  // namespace

absl::StatusOr<std::vector<float>> HostAdapter::Download(const float* rows, int64_t count) const {
  std::vector<float> in_ram(static_cast<size_t>(count * model_->config().d));
  const auto bytes = static_cast<int64_t>(in_ram.size() * sizeof(float));
  RETURN_IF_ERROR(device_->Download(rows, bytes, in_ram.data()));
  return in_ram;
}

absl::Status HostAdapter::RecallQuery(const float* rows, std::span<const int32_t> tokens,
                                      const QueryRow& query) {
  ASSIGN_OR_RETURN(const std::vector<float> h, Download(rows, std::ssize(tokens)));
  if (query.question != nullptr)
    *query.question = model_->AskReader(
        ctx_, h.data() + (std::ssize(tokens) - query.question_rows) * model_->config().d,
        query.question_rows);
  const int64_t begin = FirstAsking(query);
  model_->RecallQuery(ctx_, h.data() + begin * model_->config().d,
                      tokens.subspan(static_cast<size_t>(begin)), query.u.data());
  return absl::OkStatus();
}

absl::StatusOr<ProjectedMemory> HostAdapter::ProjectMemory(const store::ChunkRecord& record) {
  model::Memory memory = model_->ProjectMemory(ctx_, record.states, record.rows);
  const auto numbers = std::ssize(memory.keys);
  const int64_t bytes = numbers * int64_t{sizeof(Bf16)};
  const auto owner = std::make_shared<AdapterMemory>();
  ASSIGN_OR_RETURN(owner->on_device, device_->Allocate(2 * bytes));
  Bf16* const keys = static_cast<Bf16*>(owner->on_device->data());
  RETURN_IF_ERROR(device_->Upload(memory.keys.data(), bytes, keys));
  RETURN_IF_ERROR(device_->Upload(memory.values.data(), bytes, keys + numbers));
  owner->pointer_keys = std::move(memory.pointer_keys);
  owner->reader_rows = std::move(memory.reader_rows);
  return ProjectedMemory{.view = {keys, keys + numbers, record.rows},
                         .pointer_keys = owner->pointer_keys.data(),
                         .reader_rows = owner->reader_rows.data(),
                         .owner = owner,
                         .bytes = 2 * bytes};
}

ProjectedMemory HostAdapter::ProjectForReader(const store::ChunkRecord& record) {
  const auto owner = std::make_shared<AdapterMemory>();
  owner->reader_rows = model_->ProjectForReader(ctx_, record.states, record.rows).reader_rows;
  return {.view = {}, .reader_rows = owner->reader_rows.data(), .owner = owner};
}

absl::StatusOr<std::vector<float>> HostAdapter::PointerQuery(const float* row) {
  ASSIGN_OR_RETURN(const std::vector<float> h, Download(row, 1));
  std::vector<float> query(static_cast<size_t>(model_->config().adapter.d_pointer));
  model_->PointerQuery(ctx_, h.data(), query.data());
  return query;
}

absl::Status HostAdapter::MixCopied(const float* row, const std::vector<float>& query,
                                    std::span<const model::CopiedChunk> copied, float* logits) {
  ASSIGN_OR_RETURN(const std::vector<float> h, Download(row, 1));
  model_->MixCopied(ctx_, h.data(), query.data(), copied, logits);
  return absl::OkStatus();
}

}  // namespace recollect::engine
