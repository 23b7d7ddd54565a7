#include "http/api/encode.h"

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

}  // namespace recollect::http
