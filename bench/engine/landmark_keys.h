// Landmark keys of a text as ingest makes them, and queries as sessions ask them, kept in files so
// that they are made once.
#ifndef RECOLLECT_BENCH_ENGINE_LANDMARK_KEYS_H_
#define RECOLLECT_BENCH_ENGINE_LANDMARK_KEYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/numeric/bf16.h"
#include "engine/backend/loaded_model.h"

namespace recollect::bench {

enum class QueryKind : int64_t {
  kPasskey,  // asks for a code that a sentence of the text gave
  kQuote,    // the first half of a block
  kRunning,  // a landmark of a text that is read, not of the keys' text
};

struct RealQuery {
  QueryKind kind = QueryKind::kRunning;
  int64_t gold = -1;     // the chunk that answers it; -1: none does
  std::vector<float> u;  // [d_k]
};

struct LandmarkSet {
  int64_t d_k = 0;
  std::vector<Bf16> keys;  // [chunks, d_k]
  std::vector<RealQuery> queries;
  int64_t chunks() const { return static_cast<int64_t>(keys.size()) / d_k; }
};

// Adds the keys of `text`, a document of its own, with sentences that give codes, and the queries
// of the questions for those and for quotes.
void AddText(const engine::LoadedModel& model, const std::string& text, LandmarkSet& set);

// Adds the queries of a session that reads `text`.
void AddReading(const engine::LoadedModel& model, const std::string& text, LandmarkSet& set);

// FILE holds keys, FILE.queries the queries. Append adds to what is there, and chunks of queries
// are numbered on.
void Append(const LandmarkSet& set, const std::string& file);
LandmarkSet Load(const std::string& file, int64_t d_k);

}  // namespace recollect::bench

#endif  // RECOLLECT_BENCH_ENGINE_LANDMARK_KEYS_H_
