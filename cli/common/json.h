// The JSON that --json prints: messages of recollect.v1 with their fields' names, in the order in
// which the proto declares them. A field that is not set is left out; a field without presence is
// always there. Enum values are short: TIER_STATES is "states"; 0 and values that the proto does
// not know are "unknown".
#pragma once

#include "absl/status/status.h"
#include "client/client.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace recollect::cli {

using Json = nlohmann::ordered_json;

Json ToJson(const google::protobuf::Message& message);
Json ToJson(const v1::Document& document);  // a damaged one: id and damage; metadata: an object
Json ToJson(const v1::ModelInfo& info);     // patterns of a layer: their list
Json ToJson(const v1::Stats& stats);        // sorted by type, then name; codes: their counts
Json ToJson(const client::GenerateResult& result);
Json ToJson(const absl::Status& status);  // {"error": {"code", "message"}}

// Returns the values of a vector or a repeated field as an array.
template <typename Values>
Json ToJsonArray(const Values& values) {
  Json array = Json::array();
  for (const auto& value : values) array.push_back(ToJson(value));
  return array;
}

// Prints one line on standard output. Bytes that are not UTF-8 become U+FFFD.
void PrintJson(const Json& json);
// Prints an object as lines of name and value; nested values as JSON.
void PrintTable(const Json& json);

}  // namespace recollect::cli
