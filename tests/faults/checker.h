// Checks a store after any fault: every published document is there, bit for bit, or reported as
// DATA_LOSS; a deleted one is gone; and the store goes on working.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "store/document_store.h"
#include "tests/store/store_testing.h"

namespace recollect::store {

// The expected contents of a directory.
struct Expected {
  std::map<std::string, Content> documents;
  std::vector<std::string> deleted;
  // Documents whose publication or deletion failed: they may be there, but only whole.
  std::map<std::string, Content> unsure = {};
};

// Resolves `unsure` by what the store has.
inline void Settle(DocumentStore& store, Expected* expected) {
  for (const auto& [id, content] : expected->unsure) {
    if (store.Get(id).ok()) {
      expected->documents[id] = content;
    } else {
      expected->documents.erase(id);
    }
  }
  expected->unsure.clear();
}

// The problems found; empty: none.
using Problems = std::vector<std::string>;

// Returns true if the document is whole, false if it is reported as damaged. Anything else is a
// problem.
inline bool CheckDocument(DocumentStore& store, const std::string& id, const Content& content,
                          Problems* problems) {
  const auto info = store.Get(id);
  bool whole = info.ok();
  const auto check = [&](const char* what, const auto& got, const auto& expected) {
    if (got.ok() && *got == expected) return;
    whole = false;
    if (got.ok() || !absl::IsDataLoss(got.status())) {
      problems->push_back(
          absl::StrCat(id, ": ", what, ": ", got.ok() ? "other content" : got.status().ToString()));
    }
  };
  if (!info.ok()) {
    if (!absl::IsDataLoss(info.status())) {
      problems->push_back(absl::StrCat(id, ": missing: ", info.status().ToString()));
    }
    return false;
  }
  const auto chunks = static_cast<int64_t>(content.chunks.size());
  const auto bytes = static_cast<int64_t>(content.text.size());
  const auto tokens = static_cast<int64_t>(content.tokens.size());
  if (info->chunks != chunks || info->bytes != bytes || info->tokens != tokens) {
    problems->push_back(absl::StrCat(id, ": another document of that name"));
    return false;
  }
  check("text", store.ReadText(info->owner, 0, bytes), content.text);
  check("tokens", store.ReadTokens(info->owner, 0, tokens), content.tokens);
  check("keys", store.ReadLandmarkKeys(info->owner, chunks, content.d_k), content.landmark_keys);
  const auto records = store.ReadChunks(AllChunks(info->owner, chunks));
  for (size_t i = 0; i < records.size(); ++i) check("chunk", records[i], content.chunks[i]);
  return whole;
}

// Returns the ids of documents that are reported as damaged.
inline std::vector<std::string> CheckStore(DocumentStore& store, const Expected& expected,
                                           Problems* problems) {
  std::vector<std::string> damaged;
  for (const auto& [id, content] : expected.documents) {
    if (!CheckDocument(store, id, content, problems)) damaged.push_back(id);
  }
  for (const std::string& id : expected.deleted) {
    if (store.Get(id).ok()) problems->push_back(absl::StrCat(id, ": deleted, and back"));
  }
  const auto list = store.List("", 1000);
  if (!list.ok() || list->size() != expected.documents.size()) {
    problems->push_back(absl::StrCat(
        "list: ", list.ok() ? absl::StrCat(list->size(), " documents") : list.status().ToString()));
  }
  return damaged;
}

inline void Require(const absl::Status& status, absl::string_view what, Problems* problems) {
  if (!status.ok()) problems->push_back(absl::StrCat(what, ": ", status.ToString()));
}

// Checks that work goes on: adds new documents and deletes damaged and sound ones, whose space is
// given back meanwhile. Changes `expected` accordingly.
inline void WorkOn(DocumentStore& store, const std::string& name,
                   std::vector<std::string> to_delete, Expected* expected, Problems* problems) {
  const auto remove = [&](const std::string& id) {
    const auto removed = store.Remove(id);
    Require(removed.status(), absl::StrCat("deleting ", id), problems);
    if (!removed.ok()) return;
    if (removed->damage.empty()) {
      Require(store.Free(removed->owner), absl::StrCat("freeing ", id), problems);
    }
    expected->documents.erase(id);
    expected->deleted.push_back(id);
  };
  const auto add = [&](const std::string& id) {
    Content content{.seed = 100 + expected->documents.size(), .width = 64};
    Require(Ingest(store, id, &content, 2, 5, 100, 1000).status(), "ingest", problems);
    expected->documents.insert_or_assign(id, content);
  };
  for (const auto& [id, content] : expected->documents) {  // and one that is sound
    if (std::count(to_delete.begin(), to_delete.end(), id) == 0) {
      to_delete.push_back(id);
      break;
    }
  }
  add(name + "1");
  for (const std::string& id : to_delete) remove(id);
  for (const std::string& id : {name + "2", name + "3"}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the space comes back meanwhile
    add(id);
  }
}

}  // namespace recollect::store
