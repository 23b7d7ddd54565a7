// What samples add up to: cells by task, size and phrasing, as a table and as JSON.
#ifndef RECOLLECT_CLI_NIAH_REPORT_H_
#define RECOLLECT_CLI_NIAH_REPORT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/json.h"

namespace recollect::cli::niah {

struct Sample {
  std::string task;
  std::string phrasing;  // "trained" or "held-out"
  int64_t tokens_asked = 0;
  int64_t tokens_mounted = 0;
  int64_t documents = 0;
  double depth = 0;
  std::string question, value, answer;
  bool right = false;
  // Where the needle's value lies: in one chunk, across two, or unknown (its chunks were not
  // found).
  enum class Span { kOneChunk, kTwoChunks, kUnknown } span = Span::kUnknown;
  bool crosses_block = false;  // the value does not fit the block after the question
  std::vector<bool> gold_hit;  // per group, at the question's landmark: a chunk with (part of) the
                               // value was retrieved
  std::vector<double> gold_weight;  // per group, their weight together
  int64_t ingested_tokens = 0;      // for this sample
  double ingest_s = 0, answer_ms = 0;
  int64_t generated_tokens = 0;
  double generation_ms = 0;
};

// 95 % Wilson interval of `right` of `count`, as shares.
std::pair<double, double> Interval(int64_t right, int64_t count);

// One line per task, size and phrasing; then straddling needles, crossing answers and depths apart.
std::string FormatTable(const std::vector<Sample>& samples, int depths);
// {"cells": [...], "depths": [...], "samples": [...]}
Json ToJson(const std::vector<Sample>& samples, int depths);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_REPORT_H_
