#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "cli/backend.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/text_source.h"
#include "cli/verbs.h"

namespace recollect::cli {
namespace {

struct IngestOptions {
  std::string id;
  std::string path;
  bool tokens = false;
  int retries = 5;
};

std::string Note(const client::IngestProgress& progress) {
  return absl::StrFormat("%d tokens, %d chunks, %.0f tokens/s", progress.tokens, progress.chunks,
                         progress.tokens_per_s);
}

absl::StatusOr<std::vector<int32_t>> ParseTokens(const std::string& text) {
  std::vector<int32_t> tokens;
  for (const absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(" \t\r\n,"), absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(word, &tokens.emplace_back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", tokens.size() - 1, ": '", word, "' is no number"));
    }
  }
  return tokens;
}

absl::StatusOr<client::Document> IngestTokens(client::Client& client,
                                              const IngestOptions& options) {
  ASSIGN_OR_RETURN(const std::string text, ReadInput(options.path));
  ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, ParseTokens(text));
  ProgressBar bar(options.id, static_cast<int64_t>(tokens.size()));
  return client.IngestTokens(options.id, tokens, [&](const client::IngestProgress& p) {
    bar.Update(p.accepted_offset, Note(p));
  });
}

// Resumes where the server has committed; tries again when the connection breaks and the input can
// be read again.
absl::StatusOr<client::Document> IngestText(client::Client& client, const IngestOptions& options) {
  ASSIGN_OR_RETURN(const auto source, TextSource::Open(options.path));
  ProgressBar bar(options.id, source->size());
  const auto reader = [&](int64_t offset, int64_t limit) { return source->Read(offset, limit); };
  const auto progress = [&](const client::IngestProgress& p) {
    bar.Update(p.accepted_offset, Note(p));
  };
  for (int retry = 0;; ++retry) {
    auto document = client.IngestText(options.id, reader, progress);
    // ABORTED: the stream that broke off may still hold the id for a moment.
    const bool temporary =
        absl::IsUnavailable(document.status()) || absl::IsAborted(document.status());
    if (!temporary || !source->seekable() || retry >= options.retries) return document;
    absl::SleepFor(absl::Milliseconds(200 << std::min(retry, 6)));
  }
}

absl::Status Ingest(const Options& common, const IngestOptions& options) {
  RETURN_IF_ERROR(CheckUtf8("--id", options.id));
  ASSIGN_OR_RETURN(const auto backend, Backend::Open(common));
  const auto document = options.tokens ? IngestTokens(backend->client(), options)
                                       : IngestText(backend->client(), options);
  RETURN_IF_ERROR(document.status());
  if (common.json) {
    PrintJson(ToJson(*document));
  } else {
    std::printf("%s: %lld bytes, %lld tokens, %lld chunks, %.1f MiB stored\n", document->id.c_str(),
                static_cast<long long>(document->bytes), static_cast<long long>(document->tokens),
                static_cast<long long>(document->chunks),
                static_cast<double>(document->stored_bytes) / (1 << 20));
  }
  return absl::OkStatus();
}

}  // namespace

void AddIngest(CLI::App& app, Command& command) {
  CLI::App* verb = app.add_subcommand(
      "ingest", "Read a document into memory, once; resumes what was broken off");
  auto options = std::make_shared<IngestOptions>();
  verb->add_option("--id", options->id, "Name of the document")->required()->type_name("NAME");
  verb->add_option("FILE", options->path, "UTF-8 text, or - for standard input")->required();
  verb->add_flag("--tokens", options->tokens,
                 "FILE holds token ids as decimal numbers instead of text");
  verb->add_option("--retries", options->retries,
                   "Reconnections after a broken connection, not for standard input")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  verb->footer(
      "\nExamples:\n"
      "  recollect ingest --id moby moby-dick.txt\n"
      "  xz -dc books.txt.xz | recollect ingest --id books -\n"
      "\n"
      "Run the same command again after an interruption: it goes on where the last commit was. A "
      "document that\n"
      "is already there with the same content is a success; with other content: exit code 7 "
      "(ALREADY_EXISTS).\n" +
      std::string(kCommonHelp));
  verb->callback([&command, options] {
    command.run = [&command, options] { return Ingest(command.options, *options); };
  });
}

}  // namespace recollect::cli
