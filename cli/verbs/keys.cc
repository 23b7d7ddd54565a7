// Verb keys: create, list, revoke.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "access/key.h"
#include "access/keys_file.h"
#include "base/sha256.h"
#include "base/status.h"
#include "cli/common/flags.h"
#include "cli/common/json.h"
#include "cli/verbs/verbs.h"

namespace recollect::cli {
namespace {

struct KeysOptions {
  access::Key key;
  std::string right = "read";
};

Json KeyJson(const access::Key& key) {
  Json json = {{"name", key.name}, {"right", access::NameOf(key.right)}};
  if (!key.prefix.empty()) json["prefix"] = key.prefix;
  for (const access::QuotaField& field : access::kQuotaFields)
    if (key.quota.*field.value > 0) json[field.name] = key.quota.*field.value;
  return json;
}

absl::Status CheckKeysFile(const Options& common) {
  if (!common.keys_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("name the file of the keys: --keys FILE");
}

absl::Status Create(const Options& common, const KeysOptions& options) {
  RETURN_IF_ERROR(CheckKeysFile(common));
  RETURN_IF_ERROR(CheckUtf8("--prefix", options.key.prefix));
  const std::string secret = access::NewSecret();
  access::Key key = options.key;
  key.sha256 = Sha256Hex(secret);
  key.right = options.right == "full" ? access::Right::kFull : access::Right::kRead;
  RETURN_IF_ERROR(access::AddKey(common.keys_file, key));
  if (common.json) {
    Json json = KeyJson(key);
    json["key"] = secret;
    PrintJson(json);
  } else {
    std::printf("%s\n", secret.c_str());
    std::fprintf(stderr, "Keep it: it is shown only now. A running server takes it on SIGHUP.\n");
  }
  return absl::OkStatus();
}

absl::Status ListKeys(const Options& common, const KeysOptions&) {
  RETURN_IF_ERROR(CheckKeysFile(common));
  ASSIGN_OR_RETURN(const std::vector<access::Key> keys, access::LoadKeys(common.keys_file));
  Json all = Json::array();
  for (const access::Key& key : keys) {
    if (common.json) {
      all.push_back(KeyJson(key));
    } else {
      absl::PrintF("%-24s  %s  %s", key.name, access::NameOf(key.right),
                   key.prefix.empty() ? "all documents" : absl::StrCat(key.prefix, "…"));
      for (const access::QuotaField& field : access::kQuotaFields)
        if (key.quota.*field.value > 0) absl::PrintF("  %s %d", field.name, key.quota.*field.value);
      absl::PrintF("\n");
    }
  }
  if (common.json) PrintJson({{"keys", all}});
  return absl::OkStatus();
}

absl::Status Revoke(const Options& common, const KeysOptions& options) {
  RETURN_IF_ERROR(CheckKeysFile(common));
  RETURN_IF_ERROR(access::RemoveKey(common.keys_file, options.key.name));
  if (!common.json) std::fprintf(stderr, "A running server refuses it from SIGHUP on.\n");
  return absl::OkStatus();
}

}  // namespace

void AddKeys(CLI::App& app, Command& command) {
  VerbGroup keys(app, command, "keys", "Make, list and revoke the API keys of a server",
                 /*help_end=*/"");
  auto options = std::make_shared<KeysOptions>();
  const auto add = [&](const char* name, const char* what, const std::vector<std::string>& examples,
                       absl::Status (*run)(const Options&, const KeysOptions&)) {
    CLI::App* verb = keys.Add(name, what, examples, options, run);
    AddKeysFile(*verb, command.options);
    return verb;
  };
  const auto add_name = [&](CLI::App* verb) {
    verb->add_option("NAME", options->key.name, "Of the key, as logs show it")->required();
  };
  CLI::App* create =
      add("create", "Make a key, and print it: only its hash is kept",
          {"keys create ci --keys /var/lib/recollect-access/keys --right full --prefix team-a/",
           "serve --keys /var/lib/recollect-access/keys --grpc-listen 0.0.0.0:50051"},
          &Create);
  add_name(create);
  create
      ->add_option("--right", options->right,
                   "read: use documents; full: also ingest, delete and back up")
      ->check(CLI::IsMember({"read", "full"}))
      ->capture_default_str();
  create->add_option("--prefix", options->key.prefix,
                     "Only for documents whose ids begin so (default: for all)");
  access::Quota& quota = options->key.quota;
  const auto add_bound = [&](const char* flag, int64_t& value, const char* what) {
    return create->add_option(flag, value, what)->check(CLI::PositiveNumber);
  };
  add_bound("--max-documents", quota.max_documents,
            "Documents whose ids begin with the prefix, at most");
  create
      ->add_option("--max-bytes", quota.max_bytes,
                   "Bytes of text in these documents, at most; k, m and g are 2^10, 2^20 and 2^30")
      ->transform(SizeInBytes())
      ->check(CLI::PositiveNumber);
  add_bound("--max-sessions", quota.max_sessions,
            "Sessions at once, those of single requests included, at most");
  add_bound("--tokens-per-minute", quota.tokens_per_minute,
            "Tokens that the model reads and writes for the key, at most");
  add("list", "All keys, without what they are",
      {"keys list --keys /var/lib/recollect-access/keys"}, &ListKeys);
  add_name(add("revoke", "Take a key out of the file",
               {"keys revoke ci --keys /var/lib/recollect-access/keys && kill -HUP PID"}, &Revoke));
}

}  // namespace recollect::cli
