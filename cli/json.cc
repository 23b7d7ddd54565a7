#include "cli/json.h"

#include <cstdio>
#include <string>

#include "model/text/printable.h"

namespace recollect::cli {
namespace {

Json ToJson(const client::LocalPattern& p) {
  return {{"window", p.window}, {"dilation", p.dilation}, {"initial", p.initial}, {"span", p.span}};
}

}  // namespace

Json ToJson(const client::Document& d) {
  if (!d.damage.empty()) return {{"id", d.id}, {"damage", d.damage}};
  Json json = {{"id", d.id},
               {"kind", d.kind},
               {"bytes", d.bytes},
               {"tokens", d.tokens},
               {"chunks", d.chunks},
               {"stored_bytes", d.stored_bytes},
               {"created_unix_ms", d.created_unix_ms},
               {"from_tokens", d.from_tokens},
               {"sha256", d.sha256},
               {"fingerprint", d.fingerprint}};
  if (d.kind == "prefix") {
    json["pattern"] = d.pattern;
    json["state_bytes"] = d.state_bytes;
  }
  return json;
}

Json ToJson(const client::UnfinishedIngest& i) {
  Json json = {{"id", i.id},
               {"kind", i.kind},
               {"committed_offset", i.committed_offset},
               {"bytes", i.bytes},
               {"tokens", i.tokens},
               {"chunks", i.chunks},
               {"from_tokens", i.from_tokens},
               {"fingerprint", i.fingerprint}};
  if (i.kind == "prefix") json["pattern"] = i.pattern;
  return json;
}

Json ToJson(const client::Retrieval& r) {
  Json hits = Json::array();
  for (const client::Hit& hit : r.hits) {
    Json out = {{"document", hit.document}, {"chunk", hit.chunk}, {"score", hit.score},
                {"weight", hit.weight},     {"tier", hit.tier},   {"text_begin", hit.text_begin},
                {"text_end", hit.text_end}};
    if (!hit.text.empty()) out["text"] = hit.text;
    hits.push_back(out);
  }
  return {
      {"position", r.position}, {"group", r.group}, {"candidates", r.candidates}, {"hits", hits}};
}

Json ToJson(const client::Usage& u) {
  return {{"prompt_tokens", u.prompt_tokens},
          {"generated_tokens", u.generated_tokens},
          {"time_to_first_token_ms", u.time_to_first_token_ms},
          {"generation_ms", u.generation_ms}};
}

Json ToJson(const client::GenerateResult& r) {
  Json json = {{"text", r.text},
               {"tokens", r.tokens},
               {"finish_reason", r.finish_reason},
               {"usage", ToJson(r.usage)}};
  if (!r.retrievals.empty()) json["retrievals"] = ToJson(r.retrievals);
  return json;
}

Json ToJson(const client::ScoreResult& r) {
  return {{"tokens", r.tokens},
          {"logprobs", r.logprobs},
          {"argmax", r.argmax},
          {"text_bytes", r.text_bytes}};
}

Json ToJson(const client::ModelInfo& m) {
  Json json = {{"name", m.name},
               {"architecture", m.architecture},
               {"fingerprint", m.fingerprint},
               {"dtype", m.dtype},
               {"parameters", m.parameters},
               {"weight_bytes", m.weight_bytes},
               {"vocab_size", m.vocab_size},
               {"has_tokenizer", m.has_tokenizer},
               {"width", m.width},
               {"layers", m.layers},
               {"lower_layers", m.lower_layers},
               {"groups", m.groups},
               {"retrieved_chunks", m.retrieved_chunks},
               {"retrieval_width", m.retrieval_width}};
  if (m.local) json["local"] = ToJson(*m.local);
  for (const std::vector<client::LocalPattern>& layer : m.layer_patterns) {
    Json heads = Json::array();
    for (const client::LocalPattern& pattern : layer) heads.push_back(ToJson(pattern));
    json["layer_patterns"].push_back(std::move(heads));
  }
  json["dilations"] = m.dilations;
  const auto add_range = [&](const char* name, const std::optional<client::Range>& range) {
    if (range) json[name] = {{"min", range->min}, {"max", range->max}};
  };
  add_range("windows", m.windows);
  add_range("initials", m.initials);
  if (m.context > 0) json["context"] = m.context;
  if (m.max_context > 0) json["max_context"] = m.max_context;
  if (m.top_k) {
    json["top_k"] = {{"block", m.top_k->block}, {"score", m.top_k->score}, {"max", m.top_k->max}};
  }
  return json;
}

Json ToJson(const client::Stats& s) {
  Json json;
  for (const auto& [name, value] : s.counters) json[name] = value;
  for (const auto& [name, value] : s.gauges) json[name] = value;
  for (const auto& [name, value] : s.names) json[name] = value;
  Json rpcs = Json::array();
  for (const client::RpcStats& rpc : s.rpcs) {
    rpcs.push_back({{"method", rpc.method},
                    {"started", rpc.started},
                    {"running", rpc.running},
                    {"codes", rpc.codes},
                    {"total_ms", rpc.total_ms},
                    {"max_ms", rpc.max_ms}});
  }
  json["rpcs"] = rpcs;
  return json;
}

Json ToJson(const absl::Status& status) {
  return {{"error",
           {{"code", absl::StatusCodeToString(status.code())},
            {"message", std::string(status.message())}}}};
}

void PrintJson(const Json& json) {
  const std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::printf("%s\n", line.c_str());
}

void PrintTable(const Json& json) {
  for (const auto& [name, value] : json.items()) {
    std::printf("%-24s %s\n", name.c_str(),
                value.is_string() ? model::EscapeInvisible(value.get<std::string>()).c_str()
                                  : value.dump().c_str());
  }
}

}  // namespace recollect::cli
