#include "http/api/encode.h"

#include "base/io/paths.h"
#include "base/json.h"

namespace recollect::http {
namespace {

using nlohmann::json;

const char* Name(engine::Tier tier) {
  switch (tier) {
    case engine::Tier::kMemory:
      return "memory";
    case engine::Tier::kStates:
      return "states";
    case engine::Tier::kStore:
      return "store";
  }
  return "unknown";
}

// As an object, which is what the store has checked it to be.
json EncodeMetadata(const std::string& metadata) {
  if (metadata.empty()) return json::object();
  const absl::StatusOr<json> object = ParseJson(metadata);
  return object.ok() ? *object : json::object();
}

}  // namespace

json Encode(const engine::Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.generated_tokens},
          {"total_tokens", usage.prompt_tokens + usage.generated_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

json Encode(const engine::Retrieval& retrieval) {
  json hits = json::array();
  for (const engine::Hit& hit : retrieval.hits) {
    hits.push_back({{"document", hit.document},
                    {"chunk", hit.chunk},
                    {"begin", hit.text_begin},
                    {"end", hit.text_end},
                    {"score", hit.score},
                    {"weight", hit.weight},
                    {"tier", Name(hit.tier)}});
  }
  json encoded = {{"position", retrieval.position},
                  {"group", retrieval.group},
                  {"candidates", retrieval.candidates},
                  {"hits", std::move(hits)}};
  if (retrieval.nothing.has_value()) encoded["nothing"] = *retrieval.nothing;
  return encoded;
}

json EncodeDocument(const store::DocumentInfo& info) {
  json document = {{"id", info.id}, {"object", "document"}};
  if (!info.damage.empty()) {
    document["damage"] = WithoutPaths(info.damage);
    return document;  // the rest is not known
  }
  document.update({{"tokens", info.tokens},
                   {"chunks", info.chunks},
                   {"bytes", info.bytes},
                   {"stored_bytes", info.stored_bytes},
                   {"created", info.created_unix_ms / 1000},
                   {"from_tokens", info.from_tokens},
                   {"sha256", info.sha256},
                   {"fingerprint", info.fingerprint},
                   {"metadata", EncodeMetadata(info.metadata)},
                   {"pattern", info.pattern.empty() ? json(nullptr) : json(info.pattern)}});
  if (!info.pattern.empty()) document["state_bytes"] = info.state_bytes;
  return document;
}

}  // namespace recollect::http
