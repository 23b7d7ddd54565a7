#include "engine/backend/cpu/cpu_backend.h"

#include <algorithm>
#include <utility>

#include "engine/backend/cpu/adapter_readers.h"
#include "engine/backend/cpu/cpu_landmarks.h"
#include "engine/backend/cpu/cpu_memory_encoder.h"
#include "engine/backend/cpu/cpu_rows.h"
#include "engine/backend/sampler.h"

namespace recollect::engine {
namespace {

// Rows of logits a thread makes at a time.
constexpr int64_t kHeadRows = 16;

void KeepOpenResiduals(const PieceRows& piece, int64_t d) {
  const std::vector<float>& rows = RowsOf(piece);
  std::vector<float>& open = SequenceOf(piece).open_residuals;
  if (!piece.closed.empty()) open.clear();
  open.insert(open.end(), rows.begin() + piece.open_row * d, rows.end());
}

}  // namespace

CpuBackend::CpuBackend(std::shared_ptr<const model::CpuModel> model,
                       std::shared_ptr<ComputeThreads> threads)
    : model_(std::move(model)),
      threads_(std::move(threads)),
      lanes_(*model_, *threads_),
      worker_rows_(threads_->contexts.size()),
      worker_logits_(threads_->contexts.size()),
      worker_samples_(threads_->contexts.size()) {}

absl::StatusOr<std::unique_ptr<SequenceState>> CpuBackend::NewSequence(
    const model::LocalPatterns& patterns) {
  return std::make_unique<CpuSequence>(model::LocalState::Create(
      model_->config(), patterns, model_->config().layers(), model_->cache_dtype()));
}

absl::StatusOr<std::unique_ptr<MemoryEncoder>> CpuBackend::NewEncoder(
    const model::LocalPatterns& patterns) {
  return std::make_unique<CpuMemoryEncoder>(*model_, patterns, *threads_);
}

absl::Status CpuBackend::RunLower(std::span<PieceRows* const> pieces) {
  for (PieceRows* piece : pieces) {
    if (piece->residuals == nullptr) piece->residuals = std::make_unique<CpuResiduals>();
    RowsOf(*piece).resize(static_cast<size_t>(piece->rows() * model_->config().d));
    model_->Embed(piece->ids, RowsOf(*piece).data());
  }
  lanes_.Run(pieces, 0, model_->config().n_low, -1);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<model::EncodedChunk>> CpuBackend::EncodeClosed(
    std::span<PieceRows* const> pieces) {
  struct Job {
    const PieceRows* piece;
    const ClosedBlock* closed;
  };
  std::vector<Job> jobs;
  for (const PieceRows* piece : pieces) {
    for (const ClosedBlock& closed : piece->closed) jobs.push_back({piece, &closed});
  }
  const int64_t d = model_->config().d;
  std::vector<model::EncodedChunk> chunks(jobs.size());
  threads_->pool.ParallelFor(static_cast<int64_t>(jobs.size()), [&](int64_t i, int worker) {
    const auto& [piece, closed] = jobs[static_cast<size_t>(i)];
    const float* rows = RowsOf(*piece).data() + closed->first_row * d;
    std::vector<float> joined;
    if (closed->rows_before > 0) {
      const std::vector<float>& before = SequenceOf(*piece).open_residuals;
      joined.assign(before.begin(), before.begin() + closed->rows_before * d);
      joined.insert(joined.end(), rows, rows + (closed->rows - closed->rows_before) * d);
      rows = joined.data();
    }
    chunks[static_cast<size_t>(i)] =
        model_->EncodeChunk(threads_->context(worker), rows, static_cast<int>(closed->rows - 1));
  });
  for (const PieceRows* piece : pieces) KeepOpenResiduals(*piece, d);
  return chunks;
}

absl::Status CpuBackend::Queries(int group, std::span<const QueryRow> rows) {
  const auto ask = [&](int64_t i, int worker) {
    const QueryRow& query = rows[static_cast<size_t>(i)];
    if (model_->config().has_adapter()) {
      const std::span<const int32_t> ids = query.piece->ids;
      kernels::OpContext& ctx = threads_->context(worker);
      const float* h = RowsOf(*query.piece).data();
      if (query.question != nullptr)
        *query.question =
            model_->AskReader(ctx, h + (query.row + 1 - query.question_rows) * model_->config().d,
                              query.question_rows);
      const int64_t end = query.row + 1, begin = FirstAsking(query);
      return model_->RecallQuery(
          ctx, h + begin * model_->config().d,
          ids.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
          query.u.data());
    }
    model_->Query(threads_->context(worker), group,
                  RowsOf(*query.piece).data() + query.row * model_->config().d, query.u.data());
  };
  if (rows.size() == 1 && model_->shares_products()) {
    threads_->LeadTeam([&](int worker) { ask(0, worker); });
  } else {
    threads_->pool.ParallelFor(static_cast<int64_t>(rows.size()), ask);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ProjectedMemory>> CpuBackend::Project(
    std::span<const ChunkToProject> chunks) {
  std::vector<ProjectedMemory> projected(chunks.size());
  threads_->pool.ParallelFor(static_cast<int64_t>(chunks.size()), [&](int64_t i, int worker) {
    const auto& [record, uploaded, for_reader_alone] = chunks[static_cast<size_t>(i)];
    kernels::OpContext& ctx = threads_->context(worker);
    const auto memory = std::make_shared<const model::Memory>(
        for_reader_alone ? model_->ProjectForReader(ctx, record->states, record->rows)
                         : model_->ProjectMemory(ctx, record->states, record->rows));
    projected[static_cast<size_t>(i)] = {memory->view(), memory->pointer_keys.data(),
                                         memory->reader_rows.data(), memory, memory->bytes()};
  });
  return projected;
}

// The pointer head asks with a row as it was before the upper layers.
void CpuBackend::AskPointer(PieceRows& piece, int worker) {
  const int64_t d = model_->config().d, d_p = model_->config().adapter.d_pointer;
  std::vector<float>& queries = static_cast<CpuResiduals&>(*piece.residuals).pointer_queries;
  queries.resize(piece.head.size() * static_cast<size_t>(d_p));
  for (size_t i = 0; i < piece.head.size(); ++i) {
    model_->PointerQuery(threads_->context(worker), RowsOf(piece).data() + piece.head[i].row * d,
                         queries.data() + static_cast<int64_t>(i) * d_p);
  }
}

absl::Status CpuBackend::RunGroup(std::span<PieceRows* const> pieces, int group) {
  std::vector<PieceRows*> copying;
  for (PieceRows* piece : pieces) {
    const bool copies = model_->config().has_adapter() && piece->segments.back().memory != nullptr;
    if (copies && !piece->head.empty()) copying.push_back(piece);
  }
  const auto ask = [&](int worker) {
    for (PieceRows* piece : copying) AskPointer(*piece, worker);
  };
  lanes_.Run(pieces, model_->config().first_layer_of_group(group),
             model_->config().groups[static_cast<size_t>(group)].layers, group,
             copying.empty() ? nullptr : std::function<void(int)>(ask));
  return absl::OkStatus();
}

absl::StatusOr<model::Reading> CpuBackend::Read(const model::ReaderQuestion& question) {
  return ReadOn(*threads_, *model_, question);
}

std::vector<std::vector<float>> CpuBackend::Rerank(std::span<const model::RerankerText> texts) {
  return RerankOn(*threads_, *model_, texts);
}

absl::Status CpuBackend::RunHead(std::span<PieceRows* const> pieces) {
  struct Item {
    PieceRows* piece;
    const HeadRow* head;
  };
  std::vector<Item> items;
  for (PieceRows* piece : pieces) {
    for (const HeadRow& head : piece->head) items.push_back({piece, &head});
  }
  const int64_t d_p = model_->config().adapter.d_pointer;
  const int64_t d = model_->config().d, vocab = model_->config().vocab_size;
  const int64_t count = static_cast<int64_t>(items.size());
  if (count == 0) return absl::OkStatus();
  const int64_t share = (count + threads_->pool.threads() - 1) / threads_->pool.threads();
  const int64_t tile =
      model_->shares_products() ? kHeadRows : std::clamp<int64_t>(share, 1, kHeadRows);
  const auto run = [&](int64_t t, int worker) {
    const int64_t begin = t * tile, rows = std::min(tile, count - begin);
    std::vector<float>& in = worker_rows_[static_cast<size_t>(worker)];
    std::vector<float>& logits = worker_logits_[static_cast<size_t>(worker)];
    in.resize(static_cast<size_t>(kHeadRows * d));
    logits.resize(static_cast<size_t>(kHeadRows * vocab));
    for (int64_t r = 0; r < rows; ++r) {
      const Item& item = items[static_cast<size_t>(begin + r)];
      std::copy_n(RowsOf(*item.piece).data() + item.head->row * d, d, in.data() + r * d);
    }
    kernels::OpContext& ctx = threads_->context(worker);
    model_->Logits(ctx, in.data(), rows, logits.data());
    if (model_->pointer() != nullptr) {
      for (int64_t r = 0; r < rows; ++r) {
        kernels::MixPointed(ctx, vocab, model_->config().unk_id,
                            items[static_cast<size_t>(begin + r)].head->pointed,
                            logits.data() + r * vocab);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      const auto& [piece, head] = items[static_cast<size_t>(begin + r)];
      if (!head->copied.empty()) {
        const auto& asked = static_cast<const CpuResiduals&>(*piece->residuals).pointer_queries;
        model_->MixCopied(ctx, in.data() + r * d, asked.data() + (head - piece->head.data()) * d_p,
                          head->copied, logits.data() + r * vocab);
      }
      const auto row = std::span<const float>(logits).subspan(static_cast<size_t>(r * vocab),
                                                              static_cast<size_t>(vocab));
      if (piece->choose) {
        piece->choose(*head, kernels::Sample(row, piece->sampling, NeverChosenOf(model_->config()),
                                             worker_samples_[static_cast<size_t>(worker)]));
      } else {
        piece->consume(*head, row);
      }
    }
  };
  if (count <= tile && model_->shares_products()) {
    threads_->LeadTeam([&](int worker) { run(0, worker); });
  } else {
    threads_->pool.ParallelFor((count + tile - 1) / tile, run);
  }
  return absl::OkStatus();
}

LoadedModel OnCpu(std::shared_ptr<const model::CpuModel> model, int threads) {
  const auto shared = std::make_shared<ComputeThreads>(threads);
  const model::ModelConfig& config = model->config();
  const kernels::SketchShape keys = config.landmarks()
                                        ? kernels::SketchShape{config.key_width(), config.d_r}
                                        : kernels::SketchShape{};
  return {model, std::make_shared<CpuBackend>(model, shared),
          std::make_shared<CpuLandmarks>(shared, keys),
          /*lists=*/nullptr, std::shared_ptr<ThreadPool>(shared, &shared->pool)};
}

}  // namespace recollect::engine
