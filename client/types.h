// The messages of recollect.v1 (proto/recollect/v1) as plain structs. Limits and meanings are
// stated there.
#ifndef RECOLLECT_CLIENT_TYPES_H_
#define RECOLLECT_CLIENT_TYPES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace recollect::client {

struct Document {
  std::string id;
  std::string fingerprint;
  bool from_tokens = false;
  int64_t bytes = 0, tokens = 0, chunks = 0;
  int64_t created_unix_ms = 0;
  int64_t stored_bytes = 0;
  std::string sha256;
  std::string damage;       // not empty: the server cannot read the other fields; in lists only
  std::string kind;         // "chunks", "prefix"
  std::string pattern;      // of a prefix
  int64_t state_bytes = 0;  // likewise
};

struct DocumentPage {
  std::vector<Document> documents;
  std::string next_page_token;  // empty: the last page
};

struct UnfinishedIngest {
  std::string id;
  std::string fingerprint;
  bool from_tokens = false;
  int64_t committed_offset = 0;
  int64_t bytes = 0, tokens = 0, chunks = 0;
  std::string kind, pattern;  // as in Document
};

struct IngestProgress {
  int64_t committed_offset = 0, accepted_offset = 0;
  int64_t bytes = 0, tokens = 0, chunks = 0;
  double tokens_per_s = 0;
  std::string committed_sha256;
};

struct SessionOptions {
  std::vector<std::string> mounts;
  std::optional<int64_t> dilation, window, initial;  // unset: the model's
  // Hybrids: an entry for each layer, instead of the number above; an entry has one number for all
  // heads, or one for each head. Empty: not used.
  std::vector<std::vector<int64_t>> layer_dilations, layer_windows, layer_initials;
  std::optional<int64_t> context;  // unset: as trained
  int64_t top_k_blocks = 0;        // 0: none
  bool random_chunks = false;
};

// Text or token ids, not both. Text must be valid UTF-8.
struct Prompt {
  std::string text;
  std::vector<int32_t> tokens;
};

struct Sampling {
  double temperature = 0;
  double top_p = 1;
  int64_t top_k = 0;
  uint64_t seed = 0;
  double dry_multiplier = 0;
  int64_t dry_allowed_length = 2;
};

struct GenerateRequest {
  uint64_t session_id = 0;  // 0: a new session with `session`
  SessionOptions session;
  Prompt prompt;
  bool flush = true;
  Sampling sampling;
  int64_t max_tokens = 128;  // 0: only read the prompt
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool with_retrievals = false;
};

struct Hit {
  std::string document;  // empty: the session's own past
  int64_t chunk = 0;
  float score = 0, weight = 0;
  int64_t text_begin = 0, text_end = 0;
  std::string tier;  // "device", "host", "store"
  std::string text;
};

struct Retrieval {
  int64_t position = 0;
  int group = 0;
  int64_t candidates = 0;
  std::vector<Hit> hits;
};

struct Usage {
  int64_t prompt_tokens = 0, generated_tokens = 0;
  double time_to_first_token_ms = 0;
  double generation_ms = 0;
};

struct GenerateResult {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<Retrieval> retrievals;
  std::string finish_reason;  // "max_tokens", "stop", "eos"
  Usage usage;
};

struct RetrieveRequest {
  SessionOptions session;
  Prompt query;
  int64_t k = 0;
  bool with_text = false;
};

struct Session {
  uint64_t id = 0;
  std::vector<std::string> mounts;
  int64_t positions = 0, own_chunks = 0;
};

struct ScoreRequest {
  SessionOptions session;
  Prompt prompt;
  std::vector<int64_t> flush_after;
};

struct ScoreResult {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<int32_t> argmax;
  int64_t text_bytes = 0;
};

struct LocalPattern {
  int64_t window = 0, dilation = 0, initial = 0, span = 0;
};

struct Range {
  int64_t min = 0, max = 0;  // both included
};

struct ModelInfo {
  std::string name, architecture, fingerprint, dtype;
  int64_t parameters = 0, weight_bytes = 0, vocab_size = 0;
  bool has_tokenizer = false;
  int64_t width = 0;
  int layers = 0, lower_layers = 0, groups = 0, retrieved_chunks = 0;
  int64_t retrieval_width = 0;
  // `local` is the pattern of every layer and head. If layers or heads differ, there is a list of
  // heads for each layer instead; a layer whose heads agree has one entry. Span -1: unbounded.
  std::optional<LocalPattern> local;
  std::vector<std::vector<LocalPattern>> layer_patterns;
  // Values that a session may ask for.
  std::vector<int64_t> dilations;
  std::optional<Range> windows, initials;
  int64_t context = 0;      // positions of a training sequence; 0: unknown
  int64_t max_context = 0;  // the largest context of a session; 0: it may not be set
  struct TopK {
    int64_t block = 0, max = 0;
    std::string score;
  };
  std::optional<TopK> top_k;  // unset: a session may not use top-k blocks
};

struct RpcStats {
  std::string method;
  int64_t started = 0, running = 0;
  std::map<std::string, int64_t> codes;
  double total_ms = 0, max_ms = 0;
};

struct Stats {
  std::map<std::string, int64_t> counters;   // by the names of recollect.v1.Stats
  std::map<std::string, double> gauges;      // likewise: landmark_step_p50_ms, uptime_s …
  std::map<std::string, std::string> names;  // landmark_device, backend
  std::vector<RpcStats> rpcs;
};

}  // namespace recollect::client

#endif  // RECOLLECT_CLIENT_TYPES_H_
