// The JSON that --json prints. Names are those of recollect.v1.
#ifndef RECOLLECT_CLI_JSON_H_
#define RECOLLECT_CLI_JSON_H_

#include <vector>

#include "absl/status/status.h"
#include "client/types.h"
#include "nlohmann/json.hpp"

namespace recollect::cli {

using Json = nlohmann::ordered_json;

Json ToJson(const client::Document& document);
Json ToJson(const client::UnfinishedIngest& ingest);
Json ToJson(const client::Retrieval& retrieval);
Json ToJson(const client::Usage& usage);
Json ToJson(const client::GenerateResult& result);
Json ToJson(const client::ScoreResult& result);
Json ToJson(const client::ModelInfo& info);
Json ToJson(const client::Stats& stats);
Json ToJson(const absl::Status& status);  // {"error": {"code", "message"}}

template <typename T>
Json ToJson(const std::vector<T>& values) {
  Json array = Json::array();
  for (const T& value : values) array.push_back(ToJson(value));
  return array;
}

// One line on standard output. Bytes that are not UTF-8 become U+FFFD.
void PrintJson(const Json& json);
// An object as lines of name and value; nested values as JSON.
void PrintTable(const Json& json);

}  // namespace recollect::cli

#endif  // RECOLLECT_CLI_JSON_H_
