// Sums up samples in cells by task, size and variant, as a table and as JSON.
#ifndef RECOLLECT_CLI_NIAH_REPORT_H_
#define RECOLLECT_CLI_NIAH_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/json.h"

namespace recollect::cli::niah {

// A task with more variants than this also has a line over all of them, and only that line in the
// parts below the table.
constexpr int64_t kFewVariants = 3;

// Whether a list of hits contains what was asked for.
struct Finding {
  bool hit = false;    // has a chunk with a part of it; of several things, with each
  bool first = false;  // such a chunk is first in the list
  double weight = 0;   // attention weight of all such chunks together
};

struct Sample {
  std::string task;
  std::string variant;  // a wording, a shape of record …
  int64_t tokens_asked = 0;
  int64_t tokens_mounted = 0;
  int64_t documents = 0;
  double depth = 0;
  std::string question, value, answer;
  std::optional<bool> right;  // unset: no answer was asked for
  // Further numbers of the task, by name. Cells contain their means.
  std::vector<std::pair<std::string, double>> numbers;
  // Where the thing asked for is: in one chunk, across two, or nowhere (it was left out).
  enum class Span { kOneChunk, kTwoChunks, kUnknown } span = Span::kUnknown;
  bool crosses_block = false;   // the value does not fit the block after the question
  std::vector<Finding> found;   // by group of layers, at the question's landmark; empty: nothing
                                // to find
  std::optional<Finding> bm25;  // BM25's finding, with as many hits, by the question's words
  int64_t ingested_tokens = 0;  // for this sample
  double ingest_s = 0, answer_ms = 0;
  int64_t generated_tokens = 0;
  double generation_ms = 0;
};

// Returns the index of the sample's stretch among `depths` equal stretches. REQUIRES: depths > 0.
int DepthBucket(const Sample& sample, int depths);

// Returns the 95 % Wilson interval of the share `right` / `count`.
std::pair<double, double> Interval(int64_t right, int64_t count);

// Returns a table: a line per task, size and variant, and a line over all variants if a task has
// more than kFewVariants; then separate lines for straddling needles, crossing answers and depths.
std::string FormatTable(const std::vector<Sample>& samples, int depths);
// Returns {"cells": [...], "by_depth": [...], "samples": [...] …}.
Json ToJson(const std::vector<Sample>& samples, int depths);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_REPORT_H_
