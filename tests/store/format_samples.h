// Records of every type and version, for the tests of their layouts.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "store/format.h"
#include "tests/store/store_testing.h"

namespace recollect::store {

inline DocumentInfo SampleInfo() {
  DocumentInfo info;
  info.id = "moby dick";
  info.owner = OwnerId{42};
  info.fingerprint = "0123abcd";
  info.from_tokens = true;
  info.bytes = 1;
  info.tokens = 2;
  info.chunks = 3;
  info.created_unix_ms = 1717770000000;
  info.stored_bytes = 5;
  info.sha256 = std::string(64, 'f');
  return info;
}

inline IngestState SampleIngest() {
  IngestState state;
  state.progress.id = "moby dick";
  state.progress.owner = OwnerId{42};
  state.progress.fingerprint = "0123abcd";
  state.progress.input_offset = 9;
  state.progress.bytes = 8;
  state.progress.tokens = 7;
  state.progress.chunks = 6;
  state.width = 256;
  state.d_k = 128;
  state.chunk_bytes = 5000;
  return state;
}

inline constexpr int32_t kTokens[] = {0, 1, -1, 8191, 1 << 30};
inline constexpr Bf16 kKeys[] = {{0x3f80}, {0xbf80}, {0x0000}, {0x7f7f}, {0x0001}, {0x8000}};

// Holds one record, under its key.
struct Sample {
  std::string key;
  std::string record;
  std::function<absl::Status(absl::string_view key, absl::string_view record)> decode;
};

template <typename Decode>
auto Named(Decode decode) {
  return [decode](absl::string_view key, absl::string_view record) {
    return decode(key, record, "the record").status();
  };
}

inline std::map<std::string, Sample> Samples() {
  const std::string piece = PieceKey(OwnerId{42}, 7);
  const std::string document = DocumentKey("moby dick");
  const std::string removed = RemovedKey(OwnerId{42});
  const std::string ingest = IngestKey("moby dick");
  const std::string resume = ResumeKey(OwnerId{42});
  return {
      {"meta",
       {MetaKey(), EncodeMeta(MetaKey(), {1, 4097}),
        [](auto key, auto record) { return DecodeMeta(key, record).status(); }}},
      {"document", {document, EncodeDocument(document, SampleInfo()), Named(DecodeDocument)}},
      {"removed", {removed, EncodeRemoved(removed, SampleInfo()), Named(DecodeRemoved)}},
      {"ingest", {ingest, EncodeIngest(ingest, SampleIngest()), Named(DecodeIngest)}},
      {"resume", {resume, EncodeResume(resume, "opaque"), Named(DecodeResume)}},
      {"text", {piece, EncodeText(piece, "Call me Ishmael."), Named(DecodeText)}},
      {"tokens", {piece, EncodeTokens(piece, kTokens), Named(DecodeTokens)}},
      {"chunk", {piece, EncodeChunk(piece, MakeChunk(1, 7, 4, 3)), Named(DecodeChunk)}},
      {"landmarks", {piece, EncodeLandmarks(piece, kKeys, 3), Named(DecodeLandmarks)}},
  };
}

template <typename T>
T AsPrefix(T document) {
  document.chunks = 0;
  document.pattern = "(window 8)";
  document.state_bytes = 1 << 21;
  document.first_state_part = 3;
  return document;
}

// The records of prefixes: what is of version 2, and parts of a state.
inline std::map<std::string, Sample> PrefixSamples() {
  const auto with_info = [](const std::string& key, auto encode, auto decode) {
    return Sample{key, encode(key, AsPrefix(SampleInfo())), Named(decode)};
  };
  const std::string ingest = IngestKey("moby dick"), piece = PieceKey(OwnerId{42}, 7);
  IngestState state = SampleIngest();
  state.progress = AsPrefix(state.progress);
  return {
      {"document", with_info(DocumentKey("moby dick"), EncodeDocument, DecodeDocument)},
      {"removed", with_info(RemovedKey(OwnerId{42}), EncodeRemoved, DecodeRemoved)},
      {"ingest", {ingest, EncodeIngest(ingest, state), Named(DecodeIngest)}},
      {"state", {piece, EncodeState(piece, "bytes of a state"), Named(DecodeState)}},
  };
}

// Records that count the catalog's changes.
inline std::map<std::string, Sample> CountSamples() {
  const CatalogRecord catalog{.changes = 9, .documents = 2, .names = 1ull << 33};
  const HeadRecord head{catalog, 12, 3412, 0x9f00c0de};
  return {
      {"catalog", {CatalogKey(), EncodeCatalog(CatalogKey(), catalog), Named(DecodeCatalog)}},
      {"head", {HeadKey(), EncodeHead(HeadKey(), head), Named(DecodeHead)}},
  };
}

// A piece of an index.
inline std::map<std::string, Sample> IndexSamples() {
  const std::string piece = PieceKey(OwnerId{42}, kFirstIndexPiece + 1);
  const IndexPiece index{kIndexPieceBytes + 8, 0x9f00c0de, "an index"};
  return {{"index", {piece, EncodeIndex(piece, index), Named(DecodeIndex)}}};
}

inline ChunkRecord SmallChunk(bool tokens) {
  ChunkRecord chunk = MakeChunk(1, 7, 40, 2);
  MakeMxInt8(chunk);
  if (tokens) chunk.tokens = {5, 6, 7};
  return chunk;
}

// Chunks of MXINT8 numbers.
inline std::map<std::string, Sample> SmallChunkSamples() {
  const std::string piece = PieceKey(OwnerId{42}, 7);
  return {
      {"small-chunk", {piece, EncodeChunk(piece, SmallChunk(false)), Named(DecodeChunk)}},
      {"small-chunk-tokens", {piece, EncodeChunk(piece, SmallChunk(true)), Named(DecodeChunk)}},
  };
}

// Documents that are kept as text, their chunks, and refreshes.
inline std::map<std::string, Sample> TextSamples() {
  const std::string piece = PieceKey(OwnerId{42}, 7), document = DocumentKey("moby dick"),
                    removed = RemovedKey(OwnerId{42}), ingest = IngestKey("moby dick");
  DocumentInfo info = SampleInfo();
  info.text = true;
  IngestState refresh = SampleIngest(), prefix = SampleIngest();
  refresh.progress.replaces = OwnerId{17};
  prefix.progress = AsPrefix(refresh.progress);
  return {
      {"text-chunk", {piece, EncodeChunk(piece, MakeChunk(1, 7, 0, 3)), Named(DecodeChunk)}},
      {"text-document", {document, EncodeDocument(document, info), Named(DecodeDocument)}},
      {"text-removed", {removed, EncodeRemoved(removed, info), Named(DecodeRemoved)}},
      {"refresh", {ingest, EncodeIngest(ingest, refresh), Named(DecodeIngest)}},
      {"prefix-refresh", {ingest, EncodeIngest(ingest, prefix), Named(DecodeIngest)}},
  };
}

// Documents with metadata, one of each kind. A removed one has none any more.
inline std::map<std::string, Sample> MetadataSamples() {
  const std::string document = DocumentKey("moby dick");
  DocumentInfo chunks = SampleInfo();
  chunks.metadata = R"({"year":1851})";
  DocumentInfo text = chunks;
  text.text = true;
  const DocumentInfo prefix = AsPrefix(chunks);
  return {
      {"described", {document, EncodeDocument(document, chunks), Named(DecodeDocument)}},
      {"described-text", {document, EncodeDocument(document, text), Named(DecodeDocument)}},
      {"described-prefix", {document, EncodeDocument(document, prefix), Named(DecodeDocument)}},
  };
}

inline std::vector<std::pair<std::string, Sample>> AllSamples() {
  const auto samples = Samples(), prefix = PrefixSamples(), counts = CountSamples(),
             indexes = IndexSamples(), small = SmallChunkSamples(), text = TextSamples(),
             described = MetadataSamples();
  std::vector<std::pair<std::string, Sample>> all(samples.begin(), samples.end());
  all.insert(all.end(), prefix.begin(), prefix.end());
  all.insert(all.end(), counts.begin(), counts.end());
  all.insert(all.end(), indexes.begin(), indexes.end());
  all.insert(all.end(), small.begin(), small.end());
  all.insert(all.end(), text.begin(), text.end());
  all.insert(all.end(), described.begin(), described.end());
  return all;
}

}  // namespace recollect::store
