// What a model predicts at each position of given sequences, for comparisons with other programs:
//
//   llama_rows logits MODEL fp32 IDS OUT    fp32 logits [positions, vocabulary] of all sequences
//   llama_rows choices MODEL quantized IDS OUT    text: at each position the likeliest token, and
//   by
//                                           how much its logit is above that of the next id
//
//   llama_rows ids MODEL fp32 TEXT OUT      text: the ids of a text
//
// IDS has a sequence of token ids a line.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/io/file.h"
#include "base/status.h"
#include "model/cpu/cpu_model.h"
#include "model/text/tokenizer.h"
#include "tests/support/reference_sequence.h"

namespace recollect {
namespace {

absl::StatusOr<DType> DTypeNamed(const std::string& name) {
  for (const DType dtype : {DType::kFloat32, DType::kBf16, DType::kQuantized}) {
    if (name == DTypeName(dtype)) return dtype;
  }
  return absl::InvalidArgumentError("dtype " + name);
}

std::vector<std::vector<int32_t>> ReadSequences(const std::string& path) {
  std::vector<std::vector<int32_t>> sequences;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream numbers(line);
    std::vector<int32_t>& ids = sequences.emplace_back();
    for (int32_t id; numbers >> id;) ids.push_back(id);
  }
  return sequences;
}

void WriteChoices(const std::vector<int32_t>& ids, const std::vector<float>& logits,
                  std::ofstream& out) {
  const size_t width = logits.size() / ids.size();
  for (size_t row = 0; row < ids.size(); ++row) {
    const auto begin = logits.begin() + static_cast<ptrdiff_t>(row * width);
    const auto best = std::max_element(begin, begin + static_cast<ptrdiff_t>(width));
    const size_t next = row + 1 < ids.size() ? static_cast<size_t>(ids[row + 1]) : 0;
    out << best - begin << ' ' << *best - begin[static_cast<ptrdiff_t>(next)] << '\n';
  }
}

absl::Status WriteIds(const std::string& path, const std::string& text, std::ofstream& out) {
  ASSIGN_OR_RETURN(const auto model, model::Model::Load(path));
  ASSIGN_OR_RETURN(const std::string contents, ReadWholeFile(text));
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, model->tokenizer()->Encode(contents));
  for (const int32_t id : ids) out << id << ' ';
  return absl::OkStatus();
}

absl::Status Run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 6) return absl::InvalidArgumentError("expected 5 arguments");
  if (arguments[1] == "ids") {
    std::ofstream ids(arguments[5]);
    return WriteIds(arguments[2], arguments[4], ids);
  }
  ASSIGN_OR_RETURN(const DType dtype, DTypeNamed(arguments[3]));
  ASSIGN_OR_RETURN(const auto model, model::CpuModel::Load(arguments[2], dtype));
  std::ofstream out(arguments[5], std::ios::binary);
  for (const std::vector<int32_t>& ids : ReadSequences(arguments[4])) {
    const std::vector<float> logits = RunTokens(*model, model->config().local, ids, 64);
    if (arguments[1] == "choices") {
      WriteChoices(ids, logits, out);
    } else {
      out.write(reinterpret_cast<const char*>(logits.data()),
                static_cast<std::streamsize>(logits.size() * sizeof(float)));
    }
  }
  out.close();
  return out.good() ? absl::OkStatus() : absl::InternalError(arguments[5] + " cannot be written");
}

}  // namespace
}  // namespace recollect

int main(int argc, char** argv) {
  const absl::Status status = recollect::Run({argv, argv + argc});
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
