// The samples that a run of niah has answered so far, in a file beside its report, so that the same
// command goes on after an interruption. Lines of JSON: first what determines the samples, then one
// sample each.
#ifndef RECOLLECT_CLI_NIAH_ANSWERED_H_
#define RECOLLECT_CLI_NIAH_ANSWERED_H_

#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/json.h"
#include "cli/niah/report.h"

namespace recollect::cli::niah {

// Not thread-safe.
class Answered {
 public:
  // Reads the file, or begins it. `run`: an object of all that determines the samples, by the names
  // of the flags. FAILED_PRECONDITION: the file is of another run; names what differs, with both
  // values. INVALID_ARGUMENT: it cannot be read or written, or is no such file. A last line that
  // was cut off is dropped.
  static absl::StatusOr<std::unique_ptr<Answered>> Open(const std::string& path, const Json& run);

  // The sample, if an earlier run has answered it; otherwise null. Valid as long as this exists.
  const Sample* Find(const std::string& name) const;
  // Is in the file when this returns.
  absl::Status Add(const std::string& name, const Sample& sample);
  // Once the report is written: nothing is left to resume.
  void Remove();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  explicit Answered(std::string path) : path_(std::move(path)) {}
  absl::Status Read(const std::string& text, const Json& run);
  absl::Status Append(const Json& line);

  const std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::map<std::string, Sample> samples_;
};

// All fields of a sample, and back. INVALID_ARGUMENT: one is missing or of another type.
Json SampleToJson(const Sample& sample);
absl::StatusOr<Sample> SampleFromJson(const Json& json);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_ANSWERED_H_
