// The input of a backend: consecutive rows of one sequence that run through the model together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/types.h"
#include "engine/backend/backend.h"
#include "kernels/pointer_mix/pointer_mix.h"
#include "kernels/sample/sample.h"
#include "model/chunk.h"

namespace recollect::engine {

struct ChunkMemory;  // engine/session/tiers.h
using MemoryHandle = std::shared_ptr<const ChunkMemory>;

// The chunks that one landmark retrieved, by group. Rows of later pieces read them, too. Between
// requests only refs and weights are kept (Session::DropMemory); the next piece looks the chunks up
// again.
struct LandmarkMemory {
  struct Group {
    std::vector<ChunkRef> refs;
    model::Retrieved retrieved;
    std::vector<MemoryHandle> chunks;  // keep alive what `retrieved` points to
  };
  std::vector<Group> groups;
  // With a reader, for the request that asked: model::ReaderQuestion::rows, and what only the
  // reader reads, without Retrieved::chunks.
  std::vector<Bf16> question;
  Group more;

  // Calls each(ref, chunk, weight) for all that the reader reads.
  template <typename Each>
  void ForEachRead(const Each& each) const {
    for (const Group* group : {&groups.back(), &more})
      for (size_t i = 0; i < group->chunks.size(); ++i)
        each(group->refs[i], *group->chunks[i], group->retrieved.weights[i]);
  }
};

// Rows of a piece that read the same memory; at most LayerState::kMaxAppend.
struct Segment {
  int64_t first_row = 0;
  int64_t rows = 0;
  std::shared_ptr<LandmarkMemory> memory;  // null: no earlier landmark has retrieved
};

// A block that a landmark of this piece closed: the next chunk.
struct ClosedBlock {
  int64_t rows_before = 0;  // its rows from earlier pieces, kept with the session
  int64_t first_row = 0;    // its first row in this piece
  int64_t rows = 0;         // landmark and tokens
  // The block's tokens, preceded by the tokens that a pointer compares; for its lexical key and its
  // record.
  std::vector<int32_t> tokens;
  int64_t text_begin = 0, text_end = 0;
};

// A row whose logits are needed. `target` and `index` are for the requester only.
struct HeadRow {
  int64_t row = 0;
  int64_t index = 0;
  int32_t target = -1;
  // In a model with a pointer: the tokens up to this row that it compares, and, from the head's
  // stage on, the tokens that it points to.
  std::vector<int32_t> recent = {};
  std::vector<kernels::PointedToken> pointed = {};
  // With an adapter, from the head's stage on: the chunks that its pointer head may copy from.
  std::vector<model::CopiedChunk> copied = {};
};

// The rows of one piece (engine/step/piece.h): the engine's plan, and the state that a backend
// keeps for them between its stages.
struct PieceRows {
  SequenceState* sequence = nullptr;  // of the session
  // Made by the backend; kept for the next rows of the request.
  std::unique_ptr<Residuals> residuals;
  // The backend calls one of the two, whichever is set, once for each head row, on any thread.
  // `choice` is the result of kernels::Sample under `sampling`, so that a device's logits need not
  // be downloaded.
  std::function<void(const HeadRow&, std::span<const float> logits)> consume;
  std::function<void(const HeadRow&, int32_t choice)> choose;
  kernels::SampleSettings sampling;

  int64_t first_position = 0;
  std::vector<int32_t> ids;
  std::vector<Segment> segments;
  std::vector<ClosedBlock> closed;
  int64_t open_row = 0;  // rows from here on belong to the block that is open at the end
  std::vector<HeadRow> head;

  int64_t rows() const { return static_cast<int64_t>(ids.size()); }
};

}  // namespace recollect::engine
