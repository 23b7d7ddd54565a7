#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "cli/common/connection.h"
#include "cli/common/flags.h"
#include "cli/common/json.h"
#include "cli/common/metadata_flags.h"
#include "cli/verbs/verbs.h"
#include "model/text/printable.h"

namespace recollect::cli {
namespace {

constexpr int64_t kReadBytes = 1 << 20;  // the server's limit for one call

struct DocsOptions {
  std::vector<std::string> ids;
  std::vector<std::string> deleted;      // of `docs delete`
  std::vector<std::string> where;        // of `docs list`
  std::vector<std::string> set, remove;  // of `docs metadata`
  bool replace = false;                  // likewise
  int64_t begin = 0;
  int64_t end = -1;
};

absl::StatusOr<std::string> IdOf(const DocsOptions& options) {
  RETURN_IF_ERROR(CheckUtf8("ID", options.ids.front()));
  return options.ids.front();
}

// Of a document or an unfinished ingest.
template <typename T>
std::string Chunks(const T& of) {
  return of.kind() == v1::DOCUMENT_KIND_PREFIX ? "prefix" : absl::StrCat(of.chunks());
}

// A hybrid's pattern is pages long, and metadata may be: `docs get` has all of it.
std::string Short(const std::string& text) {
  constexpr size_t kBytes = 100;
  if (text.size() <= kBytes) return text;
  size_t end = kBytes;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "…";
}

// `fingerprint`: of the model that there is.
void PrintRow(const v1::Document& d, const std::string& fingerprint) {
  const std::string id = model::EscapeInvisible(d.id());
  if (d.has_damage()) {
    absl::PrintF("%-24s DAMAGED  %s\n", id, d.damage());
    return;
  }
  const std::string other =
      d.fingerprint() == fingerprint
          ? ""
          : absl::StrCat("  of another model, ", d.fingerprint().substr(0, 12), ": docs refresh");
  const std::string metadata =
      d.metadata().empty() ? "" : absl::StrCat("  ", Short(model::EscapeInvisible(d.metadata())));
  absl::PrintF("%-24s %12d %11d %9s %10.1f  %s  %s%s%s\n", id, d.bytes(), d.tokens(), Chunks(d),
               static_cast<double>(d.stored_bytes()) / (1 << 20),
               absl::FormatTime("%Y-%m-%d %H:%M", absl::FromUnixMillis(d.created_unix_ms()),
                                absl::LocalTimeZone()),
               Short(d.pattern()), metadata, other);
}

absl::Status ListDocuments(const Options& common, const DocsOptions& options) {
  ASSIGN_OR_RETURN(const std::string filter, FilterFromFlags("--where", options.where));
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common));
  ASSIGN_OR_RETURN(const auto documents, connection->client().ListAllDocuments(filter));
  std::vector<v1::UnfinishedIngest> ingests;
  if (filter.empty()) {  // they have no metadata yet
    ASSIGN_OR_RETURN(ingests, connection->client().ListIngests());
  }
  ASSIGN_OR_RETURN(const v1::ModelInfo model, connection->client().GetModel());
  if (common.json) {
    PrintJson({{"documents", ToJsonArray(documents)}, {"ingests", ToJsonArray(ingests)}});
    return absl::OkStatus();
  }
  absl::PrintF("%-24s %12s %11s %9s %10s  %s\n", "ID", "BYTES", "TOKENS", "CHUNKS", "STORED MiB",
               "CREATED");
  for (const v1::Document& document : documents) PrintRow(document, model.fingerprint());
  for (const v1::UnfinishedIngest& ingest : ingests) {
    absl::PrintF("%-24s %12d %11d %9s %10s  %s, committed up to %d  %s\n",
                 model::EscapeInvisible(ingest.id()), ingest.bytes(), ingest.tokens(),
                 Chunks(ingest), "", ingest.refresh() ? "refresh, unfinished" : "unfinished",
                 ingest.committed_offset(), Short(ingest.pattern()));
  }
  return absl::OkStatus();
}

absl::Status Get(const Options& common, const DocsOptions& options) {
  ASSIGN_OR_RETURN(const std::string id, IdOf(options));
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common));
  ASSIGN_OR_RETURN(const v1::Document document, connection->client().GetDocument(id));
  common.json ? PrintJson(ToJson(document)) : PrintTable(ToJson(document));
  return absl::OkStatus();
}

// Shows a document's metadata, after a change if one is asked for.
absl::Status Metadata(const Options& common, const DocsOptions& options) {
  ASSIGN_OR_RETURN(const std::string id, IdOf(options));
  ASSIGN_OR_RETURN(Json metadata, MetadataFromFlags("--set", options.set));
  for (const std::string& key : options.remove) {
    RETURN_IF_ERROR(CheckUtf8("--remove", key));
    metadata[key] = nullptr;
  }
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common));
  v1::Document document;
  if (metadata.empty() && !options.replace) {
    ASSIGN_OR_RETURN(document, connection->client().GetDocument(id));
  } else {
    v1::SetMetadataRequest request;
    request.set_id(id);
    request.set_metadata(metadata.dump());
    request.set_patch(!options.replace);
    ASSIGN_OR_RETURN(document, connection->client().SetMetadata(request));
  }
  Json now = ToJson(document);
  now = now.contains("metadata") ? now["metadata"] : Json::object();
  common.json ? PrintJson(now) : PrintTable(now);
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
  ASSIGN_OR_RETURN(const std::string id, IdOf(options));
  ASSIGN_OR_RETURN(const auto connection, Connection::Open(common));
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
  VerbGroup docs(app, command, "docs",
                 "List, show, describe, read, export, import, refresh and delete documents");
  auto options = std::make_shared<DocsOptions>();
  const auto add_id = [&](CLI::App& verb) {
    verb.add_option("ID", options->ids, "Document")
        ->required()
        ->expected(1)
        ->allow_extra_args(false);  // or "[a]" would be read as a list
  };
  CLI::App* list =
      docs.Add("list", "All documents, and ingests that are not finished",
               {"docs list --json", "docs list --where 'year<1850' --where author=Austen"}, options,
               &ListDocuments);
  AddRepeated(*list, "--where", options->where,
              "Only documents whose metadata is so; repeated: and")
      ->type_name("KEY=VALUE|KEY>=VALUE|…|JSON");
  add_id(*docs.Add("get", "Show what the catalog has about one document", {"docs get moby"},
                   options, &Get));
  CLI::App* metadata = docs.Add("metadata", "Show a document's metadata, or set and remove keys",
                                {"docs metadata moby --set year=1851 --set draft=true",
                                 "docs metadata moby --set year=1851 --remove draft"},
                                options, &Metadata);
  add_id(*metadata);
  CLI::Option* removed =
      AddRepeated(*metadata, "--remove", options->remove, "Remove a key; repeat the option")
          ->type_name("KEY");
  AddRepeated(*metadata, "--set", options->set,
              "Set a key to a string, number, true or false; repeat the option")
      ->type_name("KEY=VALUE|JSON");
  metadata
      ->add_flag("--replace", options->replace,
                 "Put what is set in the place of all that the document has")
      ->excludes(removed);
  CLI::App* remove = docs.Add("delete", "Delete documents, and unfinished ingests",
                              {"docs delete moby", "docs delete moby emma"}, options, &Delete);
  AddIds(*remove, options->deleted)->required();
  CLI::App* text = docs.Add("text", "A document's text, or bytes [begin, end) of it",
                            {"docs text moby --begin 1000 --end 2000"}, options, &Text);
  add_id(*text);
  text->add_option("--begin", options->begin, "First byte")->capture_default_str();
  text->add_option("--end", options->end, "Byte after the last (default: all)");
  AddDocsTransfer(docs);
  AddDocsRefresh(docs);
}

}  // namespace recollect::cli
