// Records of chunks, in each of their versions (store/format.h).
#include <utility>

#include "base/check.h"
#include "base/numeric/mxint8.h"
#include "store/format.h"

namespace recollect::store {
namespace {

constexpr size_t kHeaderBytes = 24, kRangeBytes = 20;

uint8_t VersionOf(const ChunkRecord& chunk) {
  if (chunk.states.empty()) return kRangeRecordVersion;
  if (chunk.mxint8) return kMxInt8RecordVersion;
  return chunk.tokens.empty() ? kRecordVersion : kTokensRecordVersion;
}

size_t PayloadBytes(const ChunkRecord& chunk) {
  const uint8_t version = VersionOf(chunk);
  if (version == kRangeRecordVersion) return kRangeBytes;
  const size_t tokens =
      version == kRecordVersion ? 0 : sizeof(uint32_t) + chunk.tokens.size() * sizeof(int32_t);
  return kHeaderBytes + tokens + static_cast<size_t>(chunk.stored_states_bytes());
}

// The rest of a record as MXINT8 numbers; empty if there are not `numbers` of them.
std::vector<Bf16> GetMxInt8(RecordReader& in, uint64_t numbers) {
  const std::vector<uint8_t> bytes = in.Rest<uint8_t>();
  if (numbers > bytes.size() || bytes.size() != MxInt8Bytes(numbers)) return {};
  std::vector<Bf16> states(numbers);
  if (!DecodeMxInt8(bytes, states)) return {};
  return states;
}

void PutStates(const ChunkRecord& chunk, RecordWriter& out) {
  if (!chunk.mxint8) return out.Raw(chunk.states.data(), chunk.states.size() * sizeof(Bf16));
  RECOLLECT_DCHECK(IsMxInt8(chunk.states));
  std::vector<uint8_t> bytes(MxInt8Bytes(chunk.states.size()));
  EncodeMxInt8(chunk.states, bytes);
  out.Raw(bytes.data(), bytes.size());
}

// Whether what follows the text range is states of `rows` rows, and tokens before them as far as
// the version has any.
bool GetStates(RecordReader& in, uint64_t rows, uint64_t width, ChunkRecord& chunk) {
  if (in.version() != kRecordVersion) chunk.tokens = in.Numbers<int32_t>(in.Get<uint32_t>());
  chunk.mxint8 = in.version() == kMxInt8RecordVersion;
  chunk.states = chunk.mxint8 ? GetMxInt8(in, rows * width) : in.Rest<Bf16>();
  const bool has_tokens = in.version() == kTokensRecordVersion || !chunk.tokens.empty();
  return width >= 1 && chunk.states.size() == rows * width &&
         (!has_tokens ||
          (chunk.tokens.size() >= rows && chunk.tokens.size() <= rows + kMaxPointerReach));
}

}  // namespace

std::string EncodeChunk(Bytes key, const ChunkRecord& chunk) {
  RECOLLECT_CHECK(chunk.rows >= 1 && chunk.states.size() % static_cast<size_t>(chunk.rows) == 0);
  const uint8_t version = VersionOf(chunk);
  RecordWriter out(RecordType::kChunk, PayloadBytes(chunk), version);
  out.U32(static_cast<uint64_t>(chunk.rows));
  if (version != kRangeRecordVersion) {
    out.U32(chunk.states.size() / static_cast<size_t>(chunk.rows));
  }
  out.Fields(chunk.text_begin, chunk.text_end);
  if (version == kTokensRecordVersion || version == kMxInt8RecordVersion) {
    out.U32(chunk.tokens.size());
    out.Raw(chunk.tokens.data(), chunk.tokens.size() * sizeof(int32_t));
  }
  PutStates(chunk, out);
  return std::move(out).Finish(key);
}

absl::StatusOr<ChunkRecord> DecodeChunk(Bytes key, Bytes record, Bytes what) {
  const auto read = [](RecordReader& in, ChunkRecord& chunk) {
    const bool states = in.version() != kRangeRecordVersion;
    const auto rows = in.Get<uint32_t>();
    const auto width = states ? in.Get<uint32_t>() : 0;
    in.Fields(chunk.text_begin, chunk.text_end);
    chunk.rows = static_cast<int32_t>(rows);
    return (!states || GetStates(in, rows, width, chunk)) && rows >= 1 && rows <= kMaxChunkTokens &&
           chunk.text_begin <= chunk.text_end;
  };
  return DecodeFields<ChunkRecord>(RecordType::kChunk, key, record, what, read,
                                   kRangeRecordVersion);
}

int64_t ChunkRecordBytes(const ChunkRecord& chunk) {
  return static_cast<int64_t>(kRecordHeaderBytes + PayloadBytes(chunk));
}

}  // namespace recollect::store
