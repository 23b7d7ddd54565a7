// The contents of the golden data directory tests/golden/data_directory, and how they are read:
// shared by the program that writes it and the test that opens it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "nlohmann/json.hpp"
#include "store/document_store.h"

namespace recollect::engine {

// Returns a path below tests/golden/data_directory.
std::string GoldenPath(const std::string& name);

// The documents of two golden cases, whose generated tokens the oracle has computed: chunks of
// drt-paper, and the first half of a sequence of RAT+ as a prefix. Then a text read by the shipped
// model, and an interrupted ingest of drt-paper.
inline constexpr char kChunksCase[] = "families/drt_paper_flushes";
inline constexpr char kPrefixCase[] = "ratplus/tokens";
inline constexpr char kPrefixPattern[] = "hybrid";  // of the case
inline constexpr char kText[] =
    "The pass key of Ahab is 48213. Remember it: 48213 is the pass key of Ahab.\n"
    "All that day the ship lay still, and nobody spoke of the whale. Towards evening a wind came "
    "up "
    "from the west, and the crew set the sails and went on.\n"
    "In the morning the captain stood on the deck again, with the glass at his eye, as he had "
    "stood "
    "every morning since they left the harbour.\n";
inline constexpr char kQuestion[] = "The pass key of Ahab is";

struct GoldenCase {
  std::string model;                            // its directory
  std::vector<std::vector<int32_t>> documents;  // token ids
  SessionOptions session;                       // without mounts
  nlohmann::json events;                        // of the session that asks
  std::vector<int32_t> generated;               // after the events and a flush
};
GoldenCase ChunksCase();
GoldenCase PrefixCase();
std::string ShippedModel();

// Opens an engine of that model, in fp32, on the store in `directory`.
std::unique_ptr<Engine> OpenEngine(const std::string& model, const std::string& directory);

// Runs the case's session with `mounts` and returns the tokens that follow.
std::vector<int32_t> RunSession(Engine& engine, const GoldenCase& golden,
                                const std::vector<std::string>& mounts);
// Returns the shipped model's answer to kQuestion with the document mounted, as text.
std::string Answer(Engine& engine, const std::string& document);

// Returns all that is stored: each document's entry in the catalog, its text and token ids, and
// SHA-256 of its other records; unfinished ingests likewise. `widths`: the widths of landmark keys,
// by fingerprint.
nlohmann::json Contents(store::DocumentStore& store, const nlohmann::json& widths);

}  // namespace recollect::engine
