#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "cli/connection.h"
#include "cli/flags.h"
#include "cli/json.h"
#include "cli/verbs.h"
#include "model/text/printable.h"

namespace recollect::cli {
namespace {

constexpr int64_t kReadBytes = 1 << 20;  // the server's limit for one call

struct DocsOptions {
  std::vector<std::string> ids;
  std::vector<std::string> deleted;  // of `docs delete`
  int64_t begin = 0;
  int64_t end = -1;
};

absl::Status CheckIds(const DocsOptions& options) {
  for (const std::string& id : options.ids) RETURN_IF_ERROR(CheckUtf8("ID", id));
  return absl::OkStatus();
}

// Of a document or an unfinished ingest.
template <typename T>
std::string Chunks(const T& of) {
  return of.kind() == v1::DOCUMENT_KIND_PREFIX ? "prefix" : absl::StrCat(of.chunks());
}

// A hybrid's pattern is pages long: `docs get` has all of it.
std::string Short(const std::string& pattern) {
  constexpr size_t kMost = 100;
  return pattern.size() <= kMost ? pattern : pattern.substr(0, kMost) + "…";
}

// `fingerprint`: of the model that there is.
void PrintRow(const v1::Document& d, const std::string& fingerprint) {
  const std::string id = model::EscapeInvisible(d.id());
  if (d.has_damage()) {
    std::printf("%-24s DAMAGED  %s\n", id.c_str(), d.damage().c_str());
    return;
  }
  const std::string other =
      d.fingerprint() == fingerprint
          ? ""
          : absl::StrCat("  of another model, ", d.fingerprint().substr(0, 12), ": docs refresh");
  std::printf("%-24s %12lld %11lld %9s %10.1f  %s  %s%s\n", id.c_str(),
              static_cast<long long>(d.bytes()), static_cast<long long>(d.tokens()),
              Chunks(d).c_str(), static_cast<double>(d.stored_bytes()) / (1 << 20),
              absl::FormatTime("%Y-%m-%d %H:%M", absl::FromUnixMillis(d.created_unix_ms()),
                               absl::LocalTimeZone())
                  .c_str(),
              Short(d.pattern()).c_str(), other.c_str());
}

absl::Status ListDocuments(const Options& common) {
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common));
  ASSIGN_OR_RETURN(const auto documents, connection->client().ListAllDocuments());
  ASSIGN_OR_RETURN(const auto ingests, connection->client().ListIngests());
  ASSIGN_OR_RETURN(const v1::ModelInfo model, connection->client().GetModel());
  if (common.json) {
    PrintJson({{"documents", ToJsonArray(documents)}, {"ingests", ToJsonArray(ingests)}});
    return absl::OkStatus();
  }
  std::printf("%-24s %12s %11s %9s %10s  %s\n", "ID", "BYTES", "TOKENS", "CHUNKS", "STORED MiB",
              "CREATED");
  for (const v1::Document& document : documents) PrintRow(document, model.fingerprint());
  for (const v1::UnfinishedIngest& ingest : ingests) {
    std::printf("%-24s %12lld %11lld %9s %10s  %s, committed up to %lld  %s\n",
                model::EscapeInvisible(ingest.id()).c_str(), static_cast<long long>(ingest.bytes()),
                static_cast<long long>(ingest.tokens()), Chunks(ingest).c_str(), "",
                ingest.refresh() ? "refresh, unfinished" : "unfinished",
                static_cast<long long>(ingest.committed_offset()), Short(ingest.pattern()).c_str());
  }
  return absl::OkStatus();
}

absl::Status Get(const Options& common, const DocsOptions& options) {
  RETURN_IF_ERROR(CheckIds(options));
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common));
  ASSIGN_OR_RETURN(const v1::Document document,
                   connection->client().GetDocument(options.ids.front()));
  common.json ? PrintJson(ToJson(document)) : PrintTable(ToJson(document));
  return absl::OkStatus();
}

absl::Status Delete(const Options& common, const DocsOptions& options) {
  ASSIGN_OR_RETURN(const auto ids, GivenIds(options.deleted));
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common));
  std::vector<std::string> deleted, missing;
  for (const std::string& id : ids) {
    const absl::Status status = connection->client().DeleteDocument(id);
    if (absl::IsNotFound(status)) {
      missing.emplace_back(status.message());
      continue;
    }
    RETURN_IF_ERROR(status);
    deleted.push_back(id);
  }
  if (common.json) PrintJson({{"deleted", deleted}});
  return missing.empty() ? absl::OkStatus() : absl::NotFoundError(absl::StrJoin(missing, "; "));
}

absl::Status Text(const Options& common, const DocsOptions& options) {
  RETURN_IF_ERROR(CheckIds(options));
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common));
  const std::string& id = options.ids.front();
  // Before anything is printed: the server only sees a part at a time.
  ASSIGN_OR_RETURN(const v1::Document document, connection->client().GetDocument(id));
  const int64_t end = options.end < 0 ? document.bytes() : options.end;
  if (options.begin < 0 || options.begin > end || end > document.bytes()) {
    return absl::OutOfRangeError(absl::StrCat("text range [", options.begin, ", ", end,
                                              ") of a document that has ", document.bytes(),
                                              " bytes"));
  }
  std::string all;  // for JSON only; otherwise printed as it comes
  for (int64_t at = options.begin; at < end || at == options.begin; at += kReadBytes) {
    ASSIGN_OR_RETURN(const std::string text,
                     connection->client().ReadText(id, at, std::min(end, at + kReadBytes)));
    if (common.json) {
      all += text;
    } else {
      std::fwrite(text.data(), 1, text.size(), stdout);
    }
  }
  if (common.json) PrintJson({{"id", id}, {"begin", options.begin}, {"end", end}, {"text", all}});
  return absl::OkStatus();
}

}  // namespace

void AddDocs(CLI::App& app, Command& command) {
  CLI::App* docs =
      app.add_subcommand("docs", "List, show, read, export, import, refresh and delete documents");
  docs->require_subcommand(1);
  auto options = std::make_shared<DocsOptions>();
  const auto add = [&](const char* name, const char* what, const char* example, auto run) {
    CLI::App* verb = docs->add_subcommand(name, what);
    verb->footer(absl::StrCat("\nExample:\n  recollect docs ", example, "\n", kCommonHelp));
    verb->callback([&command, run] { command.run = run; });
    return verb;
  };
  add("list", "All documents, and ingests that are not finished", "list --json",
      [&command] { return ListDocuments(command.options); });
  add("get", "Show what the catalog has about one document", "get moby",
      [&command, options] { return Get(command.options, *options); })
      ->add_option("ID", options->ids, "Document")
      ->required()
      ->expected(1)
      ->allow_extra_args(false);  // or "[a]" would be read as a list
  CLI::App* remove = add("delete", "Delete documents, and unfinished ingests", "delete moby emma",
                         [&command, options] { return Delete(command.options, *options); });
  AddIds(*remove, options->deleted)->required();
  CLI::App* text = add("text", "A document's text, or bytes [begin, end) of it",
                       "text moby --begin 1000 --end 2000",
                       [&command, options] { return Text(command.options, *options); });
  text->add_option("ID", options->ids, "Document")
      ->required()
      ->expected(1)
      ->allow_extra_args(false);
  text->add_option("--begin", options->begin, "First byte")->capture_default_str();
  text->add_option("--end", options->end, "Byte after the last (default: all)");
  AddDocsTransfer(*docs, command);
  AddDocsRefresh(*docs, command);
  docs->footer(
      "\nExamples:\n"
      "  recollect docs list --json\n"
      "  recollect docs text moby --begin 1000 --end 2000\n"
      "  recollect docs export moby moby.recollect\n"
      "  recollect docs import moby.recollect --server 127.0.0.1:50051\n"
      "  recollect docs refresh --all\n"
      "  recollect docs delete moby\n" +
      std::string(kCommonHelp));
}

}  // namespace recollect::cli
