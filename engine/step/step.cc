#include "engine/step/step.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/memory.h"
#include "base/status.h"
#include "engine/step/candidates.h"
#include "engine/step/quotes.h"
#include "model/pointer.h"

namespace recollect::engine {

StepRunner::StepRunner(const model::Model& model, Backend& backend, ChunkTiers& tiers,
                       LandmarkIndex& landmarks, ThreadPool* threads, std::function<void()> fetched)
    : model_(model),
      landmarks_(model.config().landmarks()),
      groups_(static_cast<int>(model.config().groups.size())),
      pointer_(model.pointer()),
      copies_(model.config().has_adapter()),
      backend_(backend),
      tiers_(tiers),
      retriever_(model, backend, landmarks, threads),
      fetched_(std::move(fetched)) {}

void StepRunner::Run(std::span<Piece* const> pieces) {
  const absl::Status ran = OrExhausted("a step", [&] {
    RunStages(pieces);
    return absl::OkStatus();
  });
  for (Piece* piece : pieces) piece->status.Update(ran);
}

void StepRunner::RunStages(std::span<Piece* const> pieces) {
  for (int stage = 0; stage < last_stage(); ++stage) {
    batch_.clear();
    for (Piece* piece : pieces) {
      if (piece->stage == stage && !piece->waiting && piece->status.ok()) batch_.push_back(piece);
    }
    if (batch_.empty()) continue;
    const absl::Status status = RunStage(stage);
    for (Piece* piece : batch_) {
      ++piece->stage;
      piece->status.Update(status);
    }
  }
}

std::span<PieceRows* const> StepRunner::rows() {
  rows_.assign(batch_.begin(), batch_.end());
  return rows_;
}

absl::Status StepRunner::RunStage(int stage) {
  if (stage > groups_) {
    for (Piece* piece : batch_) Point(*piece);
    return backend_.RunHead(rows());
  }
  if (stage == 0) {
    RETURN_IF_ERROR(backend_.RunLower(rows()));
    if (landmarks_) RETURN_IF_ERROR(AddClosedChunks());
  } else {
    RETURN_IF_ERROR(ProjectWanted());
    for (Piece* piece : batch_) {
      retriever_.Attach(*piece, stage - 1);
      RETURN_IF_ERROR(Judge(*piece));
      if (piece->quoted) piece->stage = last_stage();
    }
    std::erase_if(batch_, [](const Piece* piece) { return piece->quoted; });
    if (batch_.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(backend_.RunGroup(rows(), stage - 1));
  }
  return stage < groups_ ? Retrieve(stage) : absl::OkStatus();
}

void StepRunner::Point(Piece& piece) const {
  if (pointer_ == nullptr && !copies_) return;
  std::vector<model::PointerChunk> chunks;
  for (HeadRow& head : piece.head) {
    const auto after = std::ranges::upper_bound(piece.segments, head.row, {}, &Segment::first_row);
    chunks.clear();
    head.copied.clear();
    if (const LandmarkMemory* memory = std::prev(after)->memory.get()) {
      const LandmarkMemory::Group& read = memory->groups.back();
      for (size_t i = 0; i < read.chunks.size(); ++i) {
        const ChunkMemory& chunk = *read.chunks[i];
        if (copies_) {
          head.copied.push_back(
              {chunk.memory.pointer_keys, chunk.tokens, read.retrieved.weights[i]});
          continue;
        }
        chunks.push_back({chunk.tokens, chunk.memory.view.rows, read.retrieved.weights[i]});
      }
    }
    if (pointer_ != nullptr) head.pointed = pointer_->Point(head.recent, chunks);
  }
}

absl::Status StepRunner::Judge(Piece& piece) const {
  if (piece.questions.empty() || piece.selections.empty()) return absl::OkStatus();
  LandmarkMemory& memory = *piece.landmarks[piece.selections.front().landmark].memory;
  RETURN_IF_ERROR(Judge(piece, piece.questions.front(), memory));
  if (piece.questions.size() > 1 && !OwnWordsAreBest(piece.judged)) {
    piece.judged.clear();
    for (const AskedQuestion& part : piece.questions.subspan(1))
      RETURN_IF_ERROR(Judge(piece, part, memory));
  }
  if (OwnWordsAreBest(piece.judged))
    LeaveToModel(piece, memory);
  else
    piece.quoted = piece.ends_with_quote && !piece.judged.empty();
  return absl::OkStatus();
}

absl::Status StepRunner::Judge(Piece& piece, const AskedQuestion& question,
                               const LandmarkMemory& memory) const {
  const int64_t width = model_.config().adapter.reader.width;
  model::ReaderQuestion asked{RowsOf(question, memory.question, width), question.tokens, {}};
  memory.ForEachRead([&](const ChunkRef&, const ChunkMemory& chunk, float weight) {
    asked.blocks.push_back({chunk.memory.reader_rows, chunk.tokens, weight});
  });
  if (asked.blocks.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const model::Reading reading, backend_.Read(asked));
  FoundCandidates found = FindCandidates(model_, piece, question.tokens, memory, reading);
  if (found.candidates.empty()) return absl::OkStatus();
  if (!found.texts.empty()) AddScores(backend_.Rerank(found.texts), found);
  piece.judged.push_back(JudgeCandidates(model_, piece, question.tokens, memory,
                                         piece.selections.front().nothing, reading.nothing,
                                         std::move(found.candidates)));
  return absl::OkStatus();
}

void StepRunner::LeaveToModel(Piece& piece, LandmarkMemory& memory) {
  memory.groups.back() = {};
  if (!piece.with_retrievals) return;
  Retrieval& told = piece.retrievals.back();
  told.nothing = 1;
  for (Hit& hit : told.hits) hit.weight = 0;
}

absl::Status StepRunner::AddClosedChunks() {
  ASSIGN_OR_RETURN(std::vector<model::EncodedChunk> chunks, backend_.EncodeClosed(rows()));
  auto chunk = chunks.begin();
  for (Piece* piece : batch_) {
    for (const ClosedBlock& closed : piece->closed) {
      model::EncodedChunk& encoded = *chunk++;
      if (!piece->status.ok()) continue;
      piece->status = piece->session->AddChunk(closed, std::move(encoded));
    }
  }
  std::erase_if(batch_, [](const Piece* piece) { return !piece->status.ok(); });
  return absl::OkStatus();
}

absl::Status StepRunner::Retrieve(int group) {
  RETURN_IF_ERROR(retriever_.Select(batch_, group));
  for (Piece* piece : batch_) {
    if (!piece->status.ok()) continue;
    const int64_t missing = tiers_.LookUp(piece->wanted);
    for (const WantedChunk& chunk : piece->wanted)
      if (chunk.read_by_model || chunk.read_by_reader)
        piece->slowest = std::max(piece->slowest, chunk.tier);
    if (missing == 0) continue;
    piece->waiting = true;
    std::shared_ptr<void> owner = piece->owner.lock();
    tiers_.Fetch(piece->wanted, [piece, owner, fetched = fetched_](absl::Status status) {
      piece->fetch_status = std::move(status);
      piece->fetch_done = true;
      fetched();
    });
  }
  return absl::OkStatus();
}

bool StepRunner::Resume(Piece& piece) {
  if (!piece.fetch_done.exchange(false)) return false;
  piece.waiting = false;
  piece.status = piece.fetch_status;
  return true;
}

absl::Status StepRunner::ProjectWanted() {
  std::vector<WantedChunk*> todo;
  std::vector<ChunkToProject> chunks;
  for (Piece* piece : batch_) {
    for (WantedChunk& wanted : piece->wanted) {
      if (wanted.memory != nullptr || !(wanted.read_by_model || wanted.read_by_reader)) continue;
      todo.push_back(&wanted);
      chunks.push_back({wanted.record.get(), wanted.uploaded.get(), !wanted.read_by_model});
    }
  }
  if (todo.empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<ProjectedMemory>> memories = backend_.Project(chunks);
  if (absl::IsResourceExhausted(memories.status())) {
    tiers_.DropMemory();
    memories = backend_.Project(chunks);
  }
  RETURN_IF_ERROR(memories.status());
  for (size_t i = 0; i < todo.size(); ++i) {
    tiers_.TakeMemory(*todo[i], std::move((*memories)[i]));
  }
  return absl::OkStatus();
}

}  // namespace recollect::engine
