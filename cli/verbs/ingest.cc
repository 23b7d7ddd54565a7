#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "cli/common/connection.h"
#include "cli/common/json.h"
#include "cli/common/metadata_flags.h"
#include "cli/common/progress.h"
#include "cli/common/room.h"
#include "cli/common/session_options.h"
#include "cli/common/text_encoding.h"
#include "cli/common/text_source.h"
#include "cli/verbs/verbs.h"

namespace recollect::cli {
namespace {

// Between two estimates of an input of unknown size, at least.
constexpr int64_t kAskTokens = 20000;

struct IngestOptions {
  std::string id;
  std::string path;
  bool tokens = false;
  bool replace = false, append = false;
  std::vector<std::string> metadata;
  int retries = 10;
  SessionFlags session;  // its pattern
};

std::string Note(const v1::IngestProgress& progress) {
  const std::string chunks =
      progress.chunks() > 0 ? absl::StrFormat(", %d chunks", progress.chunks()) : "";
  return absl::StrFormat("%d tokens%s, %.0f tokens/s", progress.tokens(), chunks,
                         progress.tokens_per_s());
}

absl::StatusOr<std::vector<int32_t>> ParseTokens(const std::string& text) {
  std::vector<int32_t> tokens;
  for (const absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(" \t\r\n,"), absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(word, &tokens.emplace_back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", tokens.size() - 1, ": '", word, "' is not a number"));
    }
  }
  return tokens;
}

// Of so many tokens, in the longest blocks: what they take at least.
absl::Status CheckRoomForTokens(client::Client& client, const std::string& path, int64_t tokens) {
  const auto stats = client.GetStats();
  const auto model = client.GetModel();
  if (!stats.ok() || !model.ok()) return absl::OkStatus();  // not for this key: it will show
  const Room room = RoomFor(*model, *stats, {0, tokens, tokens / kMaxChunkTokens});
  return CheckRoom(path, *stats, room, room);
}

absl::StatusOr<std::optional<std::string>> MetadataOf(const IngestOptions& options) {
  if (options.metadata.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(const Json metadata, MetadataFromFlags("--metadata", options.metadata));
  return metadata.dump();
}

absl::StatusOr<v1::Document> IngestTokens(client::Client& client, const IngestOptions& options,
                                          const v1::SessionOptions& session) {
  ASSIGN_OR_RETURN(const auto metadata, MetadataOf(options));
  ASSIGN_OR_RETURN(const std::string text, ReadInput(options.path));
  ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, ParseTokens(text));
  RETURN_IF_ERROR(CheckRoomForTokens(client, options.path, std::ssize(tokens)));
  ProgressBar bar(options.id, static_cast<int64_t>(tokens.size()));
  const auto progress = [&](const v1::IngestProgress& p) {
    bar.Update(p.accepted_offset(), Note(p));
  };
  return client.IngestTokens(options.id, tokens, progress,
                             {session, options.replace, options.append, metadata});
}

// Of `size` bytes of text, by what the model has read of it; 0: unknown, so of what it has read.
absl::Status CheckRoomForRest(client::Client& client, const std::string& path, int64_t size,
                              const v1::IngestProgress& progress) {
  const auto stats = client.GetStats();
  const auto model = client.GetModel();
  if (!stats.ok() || !model.ok()) return absl::OkStatus();  // not for this key: it will show
  const TextSize read{progress.bytes(), progress.tokens(), progress.chunks()};
  if (size == 0) {
    const std::string what = absl::StrCat(path, " up to byte ", progress.bytes());
    return CheckRoom(what, *stats, {}, RoomFor(*model, *stats, read));
  }
  const int64_t left = std::max<int64_t>(0, size - progress.accepted_offset());
  return CheckRoom(path, *stats, RoomFor(*model, *stats, ScaledToBytes(read, left)),
                   RoomFor(*model, *stats, ScaledToBytes(read, size)));
}

// Resumes where the server has committed; tries again when the connection breaks and the input can
// be read again.
absl::StatusOr<v1::Document> IngestText(client::Client& client, const IngestOptions& options,
                                        const v1::SessionOptions& session) {
  ASSIGN_OR_RETURN(const auto metadata, MetadataOf(options));
  ASSIGN_OR_RETURN(const auto source, TextSource::Open(options.path));
  ProgressBar bar(options.id, source->size());
  absl::Status room;   // for the whole, as soon as it can be told
  int64_t ask_at = 1;  // tokens
  bool ended = false;  // all of the input is sent
  Utf8Check encoding(options.path);
  const auto reader = [&](int64_t offset, int64_t limit) -> absl::StatusOr<std::string> {
    RETURN_IF_ERROR(room);
    auto read = source->Read(offset, limit);
    ended = read.ok() && read->empty();
    if (read.ok()) RETURN_IF_ERROR(encoding.Take(offset, *read));
    return read;
  };
  int64_t committed = 0;
  absl::Status broken;  // the connection, since the last answer of a server
  const auto progress = [&](const v1::IngestProgress& p) {
    if (!broken.ok()) {
      // Another server, or the same one, says how far it has what was sent to the one before.
      std::fprintf(stderr,
                   "recollect: the ingest of '%s' was broken off (%s) and goes on at byte %lld; "
                   "%lld were committed before\n",
                   options.id.c_str(), std::string(broken.message()).c_str(),
                   static_cast<long long>(p.committed_offset()), static_cast<long long>(committed));
      broken = absl::OkStatus();
    }
    committed = p.committed_offset();
    if (p.tokens() >= ask_at) {
      // Where the size is unknown, again after a while: the budget may be passed by then.
      ask_at = source->size() > 0 ? std::numeric_limits<int64_t>::max()
                                  : p.tokens() + std::max(kAskTokens, p.tokens() / 16);
      room = CheckRoomForRest(client, options.path, source->size(), p);
    }
    bar.Update(p.accepted_offset(), Note(p));
  };
  for (int retry = 0;; ++retry) {
    auto document = client.IngestText(options.id, reader, progress,
                                      {session, options.replace, options.append, metadata});
    if (options.append && ended && absl::IsUnavailable(document.status())) {
      return Annotate(document.status(),
                      absl::StrCat("document '", options.id, "' may have been appended to"));
    }
    // ABORTED: the stream that broke off may still hold the id for a moment.
    const bool temporary =
        absl::IsUnavailable(document.status()) || absl::IsAborted(document.status());
    if (temporary && (!source->seekable() || retry >= options.retries)) {
      const std::string kept =
          committed > 0 ? absl::StrCat(", committed up to byte ", committed) : "";
      return Annotate(document.status(), absl::StrCat("document '", options.id, "'", kept,
                                                      ", run the same command again to continue"));
    }
    if (absl::IsInvalidArgument(document.status())) {
      return Annotate(document.status(),
                      absl::StrCat("document '", options.id, "' from ", options.path));
    }
    if (!temporary) return document;
    if (absl::IsUnavailable(document.status())) broken = document.status();
    absl::SleepFor(absl::Milliseconds(200 << std::min(retry, 6)));
  }
}

// The name of the file is the id unless another is given, as in the Python client.
absl::StatusOr<std::string> IdOf(const IngestOptions& options) {
  if (!options.id.empty()) return options.id;
  const std::string name = std::filesystem::path(options.path).filename().string();
  if (options.path != "-" && !name.empty()) return name;
  return absl::InvalidArgumentError(
      absl::StrCat("--id is required: '", options.path, "' has no name"));
}

absl::Status Ingest(const Options& common, const IngestOptions& given) {
  IngestOptions options = given;
  ASSIGN_OR_RETURN(options.id, IdOf(given));
  RETURN_IF_ERROR(CheckUtf8("--id", options.id));
  ASSIGN_OR_RETURN(const v1::SessionOptions session, ToSessionOptions(options.session));
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common, /*needs_no_document=*/true));
  const auto document = options.tokens ? IngestTokens(connection->client(), options, session)
                                       : IngestText(connection->client(), options, session);
  if (absl::IsAlreadyExists(document.status()) && !options.append) {
    return absl::AlreadyExistsError(
        absl::StrCat(document.status().message(),
                     "; --replace puts the new text in its place, --append goes on at its end"));
  }
  RETURN_IF_ERROR(document.status());
  if (common.json) {
    PrintJson(ToJson(*document));
  } else {
    const std::string kept = document->kind() == v1::DOCUMENT_KIND_PREFIX
                                 ? absl::StrCat("a prefix under ", document->pattern())
                                 : absl::StrCat(document->chunks(), " chunks");
    std::printf("%s: %lld bytes, %lld tokens, %s, %.1f MiB stored\n", document->id().c_str(),
                static_cast<long long>(document->bytes()),
                static_cast<long long>(document->tokens()), kept.c_str(),
                static_cast<double>(document->stored_bytes()) / (1 << 20));
  }
  return absl::OkStatus();
}

}  // namespace

void AddIngest(CLI::App& app, Command& command) {
  CLI::App* verb = app.add_subcommand(
      "ingest", "Read a document once and keep it; resumes an interrupted ingest");
  auto options = std::make_shared<IngestOptions>();
  verb->add_option("--id", options->id,
                   "Name of the document, without commas (default: the name of FILE)")
      ->type_name("NAME");
  verb->add_option("FILE", options->path, "UTF-8 text, or - for standard input")->required();
  verb->add_flag("--tokens", options->tokens,
                 "FILE contains token ids as decimal numbers instead of text");
  verb->add_flag("--replace", options->replace,
                 "Put the document in the place of the one of that name when it is whole; until "
                 "then sessions mount the old one. Begins at the start of FILE");
  verb->add_flag("--append", options->append,
                 "Go on with FILE at the end of the document of that name, if there is one; until "
                 "all of it is read sessions mount the shorter one")
      ->excludes("--replace");
  AddRepeated(*verb, "--metadata", options->metadata,
              "Metadata to find the document by; repeat the option. Takes the place of what it has")
      ->type_name("KEY=VALUE|JSON");
  verb->add_option("--retries", options->retries,
                   "Reconnections after a broken connection, 10 of them over a minute; not for "
                   "standard input")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  AddPatternFlags(*verb, options->session);
  verb->footer(
      "\nExamples:\n"
      "  recollect ingest --id moby moby-dick.txt\n"
      "  recollect ingest minutes.txt\n"
      "  xz -dc books.txt.xz | recollect ingest --id books -\n"
      "  recollect ingest --id books --append emma.txt\n"
      "  recollect ingest --id emma emma.txt --metadata year=1815 --metadata author=Austen\n"
      "  recollect ingest --model models/ratplus-5m --id moby moby-dick.txt --dilation 16\n"
      "\n"
      "A model without landmarks keeps a document as the beginning of a session (a prefix),\n"
      "under the pattern of these options; --mount it with the same options. A model with\n"
      "landmarks takes none. After an interruption run the same command again: it continues from\n"
      "the last commit. If the document already exists, whole or in part, the command succeeds\n"
      "if the content is the same; otherwise the exit code is 7 (ALREADY_EXISTS).\n" +
      std::string(kCommonHelp));
  RunWith(*verb, command, options, &Ingest);
}

}  // namespace recollect::cli
