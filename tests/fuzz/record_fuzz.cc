// The input is a type, a version and a payload: a store's record, whose checksum is right. And, as
// a whole, a record as a broken disk gives it.
#include <functional>

#include "store/format.h"
#include "store/rados/records.h"
#include "store/record.h"
#include "tests/fuzz/fuzzing.h"

namespace {

using namespace recollect;                // NOLINT
using namespace recollect::store;         // NOLINT
using namespace recollect::store::rados;  // NOLINT

constexpr char kKey[] = "key", kWhat[] = "the record";

// A stored ingest goes on by a chunk and becomes a document. Of numbers up to those of documents of
// terabytes: what a record says else with a right checksum is another writer's.
void CheckIngest(const IngestState& state) {
  constexpr int64_t kMax = int64_t{1} << 40, kWidest = int64_t{1} << 16;
  const IngestProgress& progress = state.progress;
  for (const int64_t count :
       {progress.input_offset, progress.bytes, progress.tokens, progress.chunks,
        progress.state_bytes, progress.first_state_part, state.chunk_bytes}) {
    if (count > kMax) return;
  }
  if (state.width > kWidest || state.d_k > kWidest) return;
  IngestBatch batch;
  batch.input_offset = progress.input_offset;
  batch.tokens = {1, 2};
  batch.text = "ab";
  if (progress.pattern.empty()) {
    ChunkRecord& chunk = batch.chunks.emplace_back();
    chunk.rows = 2;
    // After chunks without states there are no others, and none has a key.
    if (progress.chunks == 0 || state.width > 0) {
      chunk.states.resize(static_cast<size_t>(2 * std::max<int64_t>(state.width, 1)));
      batch.landmark_keys.resize(static_cast<size_t>(std::max<int64_t>(state.d_k, 1)));
    }
  }
  const auto next = Advance(state, batch);
  RECOLLECT_CHECK(next.ok());
  const DocumentInfo info = MakeDocument(*next, "hash");
  RECOLLECT_CHECK(info.tokens == progress.tokens + 2 && info.bytes == progress.bytes + 2);
  RECOLLECT_CHECK(info.stored_bytes >= StoredBytes(state));
  const auto put = PutPart(state, 0, 1);
  RECOLLECT_CHECK(put.ok() != progress.pattern.empty());
}

// What a record decodes to, encoded again.
using Again = absl::StatusOr<std::string>;

template <typename T, typename Encode>
Again EncodeAgain(const absl::StatusOr<T>& decoded, Encode encode) {
  if (!decoded.ok()) return decoded.status();
  return encode(kKey, *decoded);
}

Again Decode(uint8_t type, absl::string_view record) {
  switch (static_cast<RecordType>(type)) {
    case RecordType::kMeta:
      return EncodeAgain(DecodeMeta(kKey, record), EncodeMeta);
    case RecordType::kDocument:
      return EncodeAgain(DecodeDocument(kKey, record, kWhat), EncodeDocument);
    case RecordType::kIngest: {
      const auto state = DecodeIngest(kKey, record, kWhat);
      if (state.ok()) CheckIngest(*state);
      return EncodeAgain(state, EncodeIngest);
    }
    case RecordType::kResume:
      return EncodeAgain(DecodeResume(kKey, record, kWhat), EncodeResume);
    case RecordType::kText:
      return EncodeAgain(DecodeText(kKey, record, kWhat), EncodeText);
    case RecordType::kTokens:
      return EncodeAgain(DecodeTokens(kKey, record, kWhat), EncodeTokens);
    case RecordType::kChunk:
      return EncodeAgain(DecodeChunk(kKey, record, kWhat), EncodeChunk);
    case RecordType::kLandmarks:
      return EncodeAgain(DecodeLandmarks(kKey, record, kWhat),
                         [](absl::string_view key, const LandmarkSegment& segment) {
                           return EncodeLandmarks(key, segment.keys, segment.d_k);
                         });
    case RecordType::kRemoved:
      return EncodeAgain(DecodeRemoved(kKey, record, kWhat), EncodeRemoved);
    case RecordType::kState:
      return EncodeAgain(DecodeState(kKey, record, kWhat), EncodeState);
    case RecordType::kCatalog:
      return EncodeAgain(DecodeCatalog(kKey, record, kWhat), EncodeCatalog);
    case RecordType::kHead:
      return EncodeAgain(DecodeHead(kKey, record, kWhat), EncodeHead);
    case RecordType::kIndex:
      return EncodeAgain(DecodeIndex(kKey, record, kWhat), EncodeIndex);
    case RecordType::kPool: {
      const auto pool = DecodePool(kKey, record, kWhat);
      if (pool.ok() && pool->version != kPoolVersion)
        return absl::FailedPreconditionError("a pool of another version");
      return EncodeAgain(pool, EncodePool);
    }
    case RecordType::kCursor:
      return EncodeAgain(DecodeCursor(kKey, record, kWhat), EncodeCursor);
    case RecordType::kExtents:
      return EncodeAgain(DecodeExtents(kKey, record, kWhat), EncodeExtents);
    case RecordType::kCached:
      return EncodeAgain(DecodeCached(kKey, record, kWhat), EncodeCached);
    case RecordType::kIndexHead:
      return EncodeAgain(DecodeIndexHead(kKey, record, kWhat), EncodeIndexHead);
    case RecordType::kFileHead:  // these two are of document_file_fuzz.cc
    case RecordType::kFileEnd:
      break;
  }
  return absl::DataLossError("no record has this type");
}

// As any type it is refused, or gives the same bytes again; the latter as one at most.
void CheckRecord(absl::string_view record) {
  int decoded = 0;
  for (uint8_t type = 0; type <= static_cast<uint8_t>(RecordType::kCached); ++type) {
    const Again again = Decode(type, record);
    if (again.ok()) {
      RECOLLECT_CHECK(*again == record);
      ++decoded;
    } else {
      // Of the meta record: a newer version of the software.
      fuzz::CheckRefusal(again.status(),
                         {absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition});
    }
  }
  RECOLLECT_CHECK(decoded <= 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  CheckRecord({reinterpret_cast<const char*>(data), size});
  if (size < 2) return 0;
  RecordWriter writer(static_cast<RecordType>(data[0]), size, /*version=*/data[1]);
  writer.Raw(data + 2, size - 2);
  CheckRecord(std::move(writer).Finish(kKey));
  return 0;
}
