// Distinct id types and other types shared by all layers.
#pragma once

#include <cstdint>

namespace recollect {

// Internal number of a document or of a session's own chunks in the store; never reused, never
// shown to users, whose documents have names.
enum class OwnerId : uint64_t {};

// A chunk of an owner; index counts chunks from 0.
struct ChunkRef {
  OwnerId owner{};
  int64_t index = 0;
  friend bool operator==(const ChunkRef&, const ChunkRef&) = default;
};

// The form in which a model keeps a document: chunks of states that retrieval finds by their keys;
// the state of a sequence that begins with the document; or its text alone, cut into blocks that
// are found by their words.
enum class DocumentKind { kChunks, kPrefix, kText };

// Number format of weights and matrix products (docs/numerics.md).
enum class DType {
  kFloat32,
  kBf16,
  kQuantized,  // the blocks of a GGUF file, multiplied as they are; bf16 or fp32 where it has none
};
constexpr const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "fp32";
    case DType::kBf16:
      return "bf16";
    case DType::kQuantized:
      return "quantized";
  }
  return "";
}

inline constexpr int kChunkTokens = 63;      // tokens of a full chunk of the flagship
inline constexpr int kBlockRows = 64;        // landmark position + tokens
inline constexpr int kMaxChunkTokens = 64;   // of any family: DRT as published has 63 or 64
inline constexpr int kMaxPointerReach = 64;  // tokens before a chunk that are kept with it

}  // namespace recollect
