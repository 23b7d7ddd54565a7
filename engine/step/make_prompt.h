// Turns a caller's prompt into the tokens that its request runs: tokenises text, renders a
// conversation by the model's chat template, and, where documents are mounted as text
// (MountAs::kText), puts their best blocks in front.
//
// The same conversation with the same documents has the same tokens in every call: each of its
// questions keeps the blocks that were found for it. So a conversation's next turn begins with the
// tokens of the turn before, and only its new tokens run (session/prompt_cache.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/thread_pool.h"
#include "engine/session/mounts.h"
#include "engine/types.h"
#include "model/model.h"
#include "store/document_store.h"

namespace recollect::engine {

// The inputs of MakePrompt besides the prompt: the store, and the session with its mounts.
struct PromptSource {
  store::DocumentReader& store;
  ThreadPool* threads = nullptr;      // of searches; null: the caller's
  bool continues = false;             // the session begins with a prefix, whose text it follows
  int64_t positions = 0;              // that the session has read
  std::vector<Pin> text_mounts = {};  // documents mounted as text
  int64_t text_tokens = 0;            // SessionOptions::text_tokens
};

struct MadePrompt {
  std::vector<int32_t> tokens;
  int64_t dropped_messages = 0;  // Usage::dropped_messages
  // The blocks of text_mounts in front of the prompt, or of a conversation's last question; the
  // best hits come first. Absent without such mounts.
  std::optional<Retrieval> retrieval = {};
};

// Makes the tokens. `answer_tokens`: the most that will be generated; a conversation leaves room
// for them in the model's context, at most a quarter of it. A conversation that does not fit loses
// its oldest turns, but never its system message or last turn. INVALID_ARGUMENT: as PromptTokens;
// roles in an order that the template does not have; a last turn that does not fit (names both
// numbers). FAILED_PRECONDITION: the model has no chat template. Fails as RetrieveText. Blocks on
// the disk.
absl::StatusOr<MadePrompt> MakePrompt(const model::Model& model, const Prompt& prompt,
                                      const PromptSource& source, int64_t answer_tokens);

}  // namespace recollect::engine
