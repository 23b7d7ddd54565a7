// The arguments and results of the engine's functions (engine/engine.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "access/account.h"
#include "base/chat_message.h"
#include "base/types.h"

namespace recollect::engine {

// The search of documents' landmark keys. kIvf: approximate in documents of at least 4096 chunks,
// once their index has been made. kAuto: the same, from the size on at which exact search takes
// most of a step that retrieves (kLeastIndexed in engine.cc).
enum class IndexMode { kExact, kIvf, kAuto };

// The format of the chunk states that an ingest stores: as the model computes them, or rounded to 8
// bits, which takes half the space. Documents of both formats can be mounted.
enum class ChunkStatesFormat { kBf16, kMxInt8 };

struct EngineOptions {
  int fetch_threads = 2;  // blocking reads of the store
  // Device tier: landmark keys of mounted documents, and memory K, V of hot chunks. Host tier:
  // chunk states.
  int64_t landmark_budget_bytes = int64_t{1} << 30;
  int64_t memory_budget_bytes = int64_t{256} << 20;
  int64_t chunk_states_budget_bytes = int64_t{512} << 20;
  ChunkStatesFormat chunk_states_format = ChunkStatesFormat::kMxInt8;
  // Local states of all sessions, and of prefixes that are being ingested.
  int64_t state_budget_bytes = int64_t{4} << 30;
  // The part of state_budget_bytes that states of ended requests may keep, for later requests that
  // begin alike, until something else needs it; 0: none are kept.
  int64_t prompt_cache_bytes = int64_t{1} << 30;
  IndexMode index = IndexMode::kExact;
  int64_t index_least_chunks = 0;       // in place of the number of IndexMode; 0: that one
  int64_t ingest_slice_tokens = 1024;   // most tokens of one ingest slice
  int64_t shared_slice_tokens = 128;    // the same where it runs whole, while any session decodes
  int64_t prefill_slice_tokens = 512;   // most prompt tokens of one step, over all sessions
  int64_t commit_tokens = 16384;        // an ingest commits at least this often
  int64_t text_commit_tokens = 262144;  // likewise, of a document that is kept as text
  int64_t max_sessions = 256;
  int64_t max_queued = 256;  // requests waiting; one more is RESOURCE_EXHAUSTED
  int64_t max_batch = 256;   // sessions in one step
  int64_t max_ingests = 64;  // open at once; one more is RESOURCE_EXHAUSTED
  absl::Duration session_ttl = absl::Minutes(30);  // an idle open session is closed
};

struct IngestStatus {
  int64_t committed_offset = 0;               // input a resumed ingest need not send again
  int64_t accepted_offset = 0;                // input accepted so far
  int64_t bytes = 0, tokens = 0, chunks = 0;  // encoded so far, committed or not
  double tokens_per_s = 0;                    // of this stream
  // Hex SHA-256 of the input that earlier streams committed: its bytes, or its token ids as
  // little-endian int32. Empty if nothing was committed.
  std::string committed_sha256;
};

// The origin of an ingest or an open session.
struct Origin {
  std::string peer = {};   // whom places are counted for (access/places.h)
  std::string owner = {};  // returned by GetSession; callers decide who else may use the session
  std::shared_ptr<access::Account> account = {};  // null: nothing is counted
};

enum class SessionId : uint64_t {};

// How a session reads mounted documents: as memory, to which layers attend; as text, the best
// blocks in front of the prompt; or both. kDefault: as memory if the model has one, otherwise as
// text.
enum class MountAs { kDefault, kMemory, kText, kBoth };

// An entry for each layer: one number for all heads, or one for each head.
using LayerNumbers = std::vector<std::vector<int64_t>>;

struct SessionOptions {
  // Document ids, in order. Without landmarks at most one, ingested under the same pattern: the
  // session begins with it as if it had read the document's tokens itself.
  std::vector<std::string> mounts;
  // A filter (store/metadata_filter.h): wildcards among the mounts stand for documents whose
  // metadata matches it. Empty: for all. Documents that are named are mounted in any case.
  std::string mount_filter = {};
  // Replaces the checkpoint's value in every layer and head; must be one the checkpoint was adapted
  // to.
  std::optional<int64_t> dilation = {}, window = {}, initial = {};
  // For hybrids: numbers by layer and head, in place of the single number above; empty: not used.
  LayerNumbers layer_dilations = {}, layer_windows = {}, layer_initials = {};
  std::optional<int64_t> context = {};  // positions to stretch the position encoding to
  int64_t top_k_blocks = 0;             // top-k blocks of each query; 0: none
  bool random_chunks = false;  // control for recall tests: replaces the retrieved chunks by
                               // chunks drawn at random from the same candidates
  MountAs mount_as = MountAs::kDefault;
  int64_t text_tokens = 0;  // the most tokens of blocks that go in front of a prompt as text; 0:
                            // kDefaultTextTokens
  friend bool operator==(const SessionOptions&, const SessionOptions&) = default;
};

// Documents to list: those whose ids begin with `beginning` and whose metadata matches `filter`
// (store/metadata_filter.h), if it is not empty.
struct DocumentSelection {
  std::string beginning = {};
  std::string filter = {};
};

// Whether new metadata takes the place of all that a document has, or of single keys.
enum class MetadataChange { kReplace, kPatch };

struct Sampling {
  double temperature = 0;  // 0: greedy
  double top_p = 1;
  int64_t top_k = 0;  // 0: all
  uint64_t seed = 0;
  // DRY (engine/backend/sampler.h) of the tokens that the request has generated; 0: off.
  double dry_multiplier = 0;
  int64_t dry_allowed_length = 2;
};

inline constexpr int64_t kMaxPromptTokens = 1 << 18;
inline constexpr int64_t kMaxAnswerTokens = 1 << 16;  // GenerateRequest::max_tokens
// The largest number of likeliest tokens at one position, as in OpenAI's chat API (its completions
// have 5).
inline constexpr int64_t kMaxTopLogprobs = 20;

// Hits of a retrieval from documents that are kept as text.
inline constexpr int64_t kDefaultTextHits = 8;

// The most tokens of blocks in front of a prompt, where documents are mounted as text.
inline constexpr int64_t kDefaultTextTokens = 512;

// A prompt is one of text, token ids and a conversation, whose answer is generated. Conversations
// need a model with a chat template (model/text/chat_template.h).
struct Prompt {
  std::string text = {};
  std::vector<int32_t> tokens = {};
  std::vector<ChatMessage> messages = {};
};

// The document that a text which was read and generated here becomes (engine/save_text.h).
struct SaveAs {
  std::string id = {};
  bool replace = false;   // also in place of a document of that id with another text
  std::string peer = {};  // as Origin
};

// All sampled tokens become part of the session, including those of a stop string and what only
// repeats others, but not the end token. After an error in the middle of a step (DATA_LOSS, a full
// disk, a lost device) the session can only be closed, and later requests are FAILED_PRECONDITION.
// After cancellation or a deadline the session keeps what it has processed. Deadlines, including
// Shutdown's, are in SteadyNow() time (base/clock.h).
struct GenerateRequest {
  std::optional<SessionId> session;  // an open session; if absent, a new one with `session_options`
  SessionOptions session_options;
  Prompt prompt;
  // Close the block after the prompt, so that the answer retrieves with all of the prompt. No
  // effect in a family without blocks; the same holds for ScoreRequest::flush_after.
  bool flush = true;
  Sampling sampling;
  int64_t max_tokens = 128;  // 0: only read the prompt
  // Generation ends before the first of these; the stop itself is not emitted. UTF-8.
  std::vector<std::string> stop;
  // The output of a request with otherwise the same fields that was interrupted, perhaps in another
  // process: its tokens are read after the prompt, and generation continues as if it had not been
  // interrupted. They count in max_tokens; neither they nor their text are emitted again. If they
  // complete the request, nothing is generated. OnRetrieval is called for their landmarks.
  std::vector<int32_t> generated = {};
  std::string generated_text = {};
  bool ignore_eos = false;  // treat the end token like any other token
  // End the answer once it only repeats itself (engine/session/repetition.h). Absent: of a
  // conversation, unless ignore_eos is set.
  std::optional<bool> stop_repetition = {};
  // Answer questions about documents by sentences of theirs (engine/step/quotes.h) where that is
  // possible.
  bool quotes = true;
  // OnCandidates is called with those that an answer is chosen among.
  bool with_candidates = false;
  // OnLogprobs is called for each token, with this many of the likeliest; absent: it is not called.
  std::optional<int64_t> logprobs = {};
  // OnRetrieval is called, for landmarks of the prompt too, in order of position, then group.
  bool with_retrievals = false;
  // Prompt and answer become this document once the answer has ended well: without passages and
  // control tokens, a conversation as its turns (base/turns_text.h). Not in an open session.
  std::optional<SaveAs> save_as = {};
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<access::Account> account = {};  // as Origin
};

struct TokenLogprob {
  int32_t token = -1;
  float logprob = 0;  // natural
};

// The log probabilities for a chosen token: the model's own, before temperature, top-k, top-p and
// DRY.
struct ChosenLogprob {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // as many as asked for, or as there are, the likeliest first
};

enum class Tier { kMemory, kStates, kStore };  // fastest first

struct Hit {
  std::string document;  // empty: the session's own chunk
  int64_t chunk = 0;
  float score = 0;  // raw r_e
  float weight = 0;
  int64_t text_begin = 0, text_end = 0;  // byte range in the document's text
  Tier tier = Tier::kMemory;             // the tier it came from
  OwnerId owner{};                       // the chunk's; a later document of that name has another
  // UTF-8: the sentence around this block's words that is the answer, or several, a line each. Such
  // a block may be one that only the adapter's reader has read.
  std::string quote = {};
};

// The chunks that one group retrieved at one landmark position.
struct Retrieval {
  int64_t position = 0;
  int group = 0;
  int64_t candidates = 0;
  std::vector<Hit> hits;  // best first
  // With a memory adapter: the weight of nothing, which with those of all that is read adds up
  // to 1. From 0.5 on no hit is read by the layers: all hits have the weight 0, and what is not
  // quoted is the base model's own. It is 1 where the judge leaves the answer to that, or where
  // there are no blocks.
  std::optional<float> nothing = {};
  bool as_text = false;  // these were put in front of the prompt, which ends at `position`
};

// Candidates for the answer to a question about documents (engine/step/candidates.h).
struct JudgedCandidates {
  struct Candidate {
    std::vector<int32_t> tokens;  // without the end
    std::string text;             // UTF-8: of the tokens
    // An index into `blocks` of a sentence; -1: it says that the documents do not answer; -2: the
    // model's own words, of which nothing is known yet.
    int64_t block = -1;
    float logprob = 0;   // natural: of the reader's likeliest span in the sentence; -15 without one
    float reranked = 0;  // the reranker's score; 0 of the refusal, and where there is none
    double score = 0;    // by the judge: the largest is said
    // Joins a sentence to the candidate before it, which it follows in its document: a blank or the
    // end of a line; 0: it follows none.
    char joint = 0;
  };
  // Sentences, those of a passage in order, the best passage first; then the model's own words and
  // the refusal.
  std::vector<Candidate> candidates;
  std::vector<Hit> blocks;  // what was read, last what only the reader read; without scores
  float unneeded = 0;       // the weight of nothing: how likely no document is needed
  float nothing = 0;        // ln of the probability that the blocks have no answer
};

enum class FinishReason { kMaxTokens, kStop, kEos, kRepetition };

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;     // of the prompt's, those that an earlier request had read
  int64_t dropped_messages = 0;  // of a conversation, the oldest, which had no room
  int64_t generated_tokens = 0;
  absl::Duration time_to_first_token;
  absl::Duration generation_time;  // from the first to the last token
  // With kRepetition: the bytes of the answer, from its first token on, before it only repeats
  // itself. What follows them has been emitted all the same; 0: nothing is repeated.
  int64_t repeats_from = 0;
};

// In an open session the prompt follows the tokens that the session has read and becomes part of
// it, like a prompt of GenerateRequest, except for its last token: this runs with the session's
// next request, so that the first token of that request can be predicted, too. Texts of any length
// are scored piece by piece.
struct ScoreRequest {
  std::optional<SessionId> session;  // an open session; if absent, a new one with `session_options`
  SessionOptions session_options;
  Prompt prompt;  // scored from its first token on
  // Token counts after which the block is closed early, ascending; in an open session not after the
  // last token.
  std::vector<int64_t> flush_after;
  int64_t top_logprobs = 0;  // of so many of the likeliest tokens in each place
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<access::Account> account = {};  // as Origin
};

struct ScoreResult {
  std::vector<int32_t> tokens;
  // For each token: its log probability (natural) given all tokens before it, and the most likely
  // token in its place with its log probability, of the same bits if both are the same token. If no
  // landmark begins the sequence (the family has none, or landmarks end their blocks) and no prefix
  // is mounted, nothing precedes the first token: 0, -1 and 0. The same holds for the first token
  // in an open session that has already run its last token, because the request before was
  // cancelled or ended with a prompt: the row that would predict it has run.
  std::vector<float> logprobs;
  std::vector<int32_t> argmax;
  std::vector<float> argmax_logprobs;
  int64_t text_bytes = 0;
  // [tokens, ScoreRequest::top_logprobs], the likeliest first; {-1, 0} where nothing precedes the
  // token, and where the vocabulary has no more.
  std::vector<TokenLogprob> top = {};
};

struct RetrieveRequest {
  SessionOptions session_options;
  Prompt query;
  // Hits per group; 0: the model's n_ret or, for documents that are kept as text, kDefaultTextHits.
  int64_t k = 0;
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<access::Account> account = {};  // as Origin
};

// The embedding of a text for retrieval: the key of a chunk, or the query of a group of layers
// after it.
enum class EmbeddingKind { kLandmark, kQuery };

struct EmbedRequest {
  SessionOptions session_options;
  Prompt text;
  EmbeddingKind kind = EmbeddingKind::kLandmark;
  int64_t group = 0;  // of a query
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<access::Account> account = {};  // as Origin
};

// The inner product of a query and a landmark is the score that the query's group gives the chunk
// (Hit::score, unless the chunk has it as another's successor).
struct Embedding {
  std::vector<float> values;  // [key_width]
  int64_t tokens = 0;         // of the text
};

struct SessionInfo {
  SessionId id{};
  std::vector<std::string> mounts;
  int64_t positions = 0;
  int64_t own_chunks = 0;
  std::string owner = {};  // as it was opened
};

}  // namespace recollect::engine
