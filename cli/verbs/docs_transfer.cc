// Verbs docs export and docs import.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "cli/common/connection.h"
#include "cli/common/json.h"
#include "cli/common/progress.h"
#include "cli/common/text_source.h"
#include "cli/verbs/verbs.h"

namespace recollect::cli {
namespace {

constexpr char kStandard[] = "-";  // input, or output

struct TransferOptions {
  std::string id;
  std::string file;
};

// Of what the system says about a file.
absl::Status FileError(const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": ", std::generic_category().message(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  return error == ENOSPC || error == EDQUOT ? absl::ResourceExhaustedError(message)
                                            : absl::UnavailableError(message);
}

// A file that has its name only once it is whole: until then it is called NAME.partial, which goes
// with this object. What a killed process leaves of it is written over.
class NewFile {
 public:
  static absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& path) {
    struct stat there;
    if (lstat(path.c_str(), &there) == 0) {
      return absl::AlreadyExistsError(absl::StrCat(path, " exists: nothing is written over"));
    }
    const std::string partial = path + ".partial";
    // A document as it is: for its owner alone.
    const int file = open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) return FileError(partial, errno);
    return std::unique_ptr<NewFile>(new NewFile(path, partial, file));
  }
  ~NewFile() {
    if (file_ < 0) return;
    close(file_);
    unlink(partial_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  absl::Status Write(const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t written = write(file_, bytes.data() + at, bytes.size() - at);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return FileError(partial_, errno);
      at += static_cast<size_t>(written);
    }
    bytes_ += std::ssize(bytes);
    return absl::OkStatus();
  }
  absl::Status Finish() {
    if (fsync(file_) != 0) return FileError(partial_, errno);
    if (rename(partial_.c_str(), path_.c_str()) != 0) return FileError(path_, errno);
    close(std::exchange(file_, -1));
    return absl::OkStatus();
  }
  int64_t bytes() const { return bytes_; }

 private:
  NewFile(std::string path, std::string partial, int file)
      : path_(std::move(path)), partial_(std::move(partial)), file_(file) {}

  const std::string path_, partial_;
  int file_;
  int64_t bytes_ = 0;
};

std::string MiB(int64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

// Which has nothing but the file: what is told goes to standard error.
absl::Status ExportToOutput(const Options& common, const TransferOptions& options) {
  if (common.json)
    return absl::InvalidArgumentError("--json: standard output is the file itself; name a file");
  if (isatty(STDOUT_FILENO) == 1) {
    return absl::InvalidArgumentError(
        "the file is binary, and standard output a terminal; redirect it, or name a file");
  }
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common));
  return connection->client()
      .ExportDocument(options.id,
                      [](const std::string& bytes) -> absl::Status {
                        if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size())
                          return absl::OkStatus();
                        return FileError("standard output", errno);
                      })
      .status();
}

absl::Status Export(const Options& common, const TransferOptions& options) {
  RETURN_IF_ERROR(CheckUtf8("ID", options.id));
  if (options.file == kStandard) return ExportToOutput(common, options);
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common));
  ASSIGN_OR_RETURN(v1::Document document, connection->client().GetDocument(options.id));
  ASSIGN_OR_RETURN(const auto file, NewFile::Create(options.file));
  {
    // A little more than what is stored: each record has its size before it.
    ProgressBar bar(options.id, document.stored_bytes());
    ASSIGN_OR_RETURN(document, connection->client().ExportDocument(
                                   options.id, [&](const std::string& bytes) -> absl::Status {
                                     RETURN_IF_ERROR(file->Write(bytes));
                                     bar.Update(std::min(file->bytes(), document.stored_bytes()),
                                                MiB(file->bytes()));
                                     return absl::OkStatus();
                                   }));
  }
  RETURN_IF_ERROR(file->Finish());
  if (common.json) {
    PrintJson({{"file", options.file},
               {"bytes", file->bytes()},
               {"document", ToJson(static_cast<const google::protobuf::Message&>(document))}});
  } else {
    absl::PrintF("%s: %s\n", options.file, MiB(file->bytes()));
  }
  return absl::OkStatus();
}

absl::Status Import(const Options& common, const TransferOptions& options) {
  RETURN_IF_ERROR(CheckUtf8("--id", options.id));
  ASSIGN_OR_RETURN(const auto source, TextSource::Open(options.file));
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common, /*needs_no_document=*/true));
  ProgressBar bar(options.file, source->size());
  ASSIGN_OR_RETURN(
      const v1::Document document,
      connection->client().ImportDocument(
          options.id, [&](int64_t offset, int64_t limit) { return source->Read(offset, limit); },
          [&](int64_t accepted) { bar.Update(accepted, MiB(accepted)); }));
  const Json json = ToJson(static_cast<const google::protobuf::Message&>(document));
  common.json ? PrintJson(json) : PrintTable(json);
  return absl::OkStatus();
}

}  // namespace

void AddDocsTransfer(VerbGroup& docs) {
  auto options = std::make_shared<TransferOptions>();
  CLI::App* out =
      docs.Add("export", "Write a document to a file, to import it elsewhere",
               {"docs export moby moby.recollect",
                "docs export moby - --server a:50051 | recollect docs import - --server b:50051"},
               options, &Export);
  out->add_option("ID", options->id, "Document")->required();
  out->add_option("FILE", options->file,
                  "File to make, which must not exist; - for standard output")
      ->required();
  CLI::App* in = docs.Add("import", "Take a document from a file; the model does not read it again",
                          {"docs import moby.recollect --id moby-2",
                           "docs import moby.recollect --server 127.0.0.1:50051"},
                          options, &Import);
  in->add_option("FILE", options->file, "File of docs export; - for standard input")->required();
  in->add_option("--id", options->id, "Its name here (default: the name it had)");
}

}  // namespace recollect::cli
