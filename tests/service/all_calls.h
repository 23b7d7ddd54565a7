// Makes every call of the service's client, for tests of who may call what.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "client/client.h"
#include "tests/support/fake_engine.h"

namespace recollect {

// Returns the file of a document 'a/file'.
inline std::string DocumentFile() {
  FakeEngine engine;
  engine.AddDocument("a/file", "text of it");
  const auto out = engine.ExportDocument("a/file");
  std::string file;
  for (std::string bytes = (*out)->Next().value(); !bytes.empty(); bytes = (*out)->Next().value())
    file += bytes;
  return file;
}

// Makes every call of the client, without arguments that matter; returns what each says.
inline std::map<std::string, absl::Status> AllCalls(client::Client& client, const std::string& id) {
  v1::RetrieveRequest retrieve;
  retrieve.mutable_session()->add_mounts(id);
  retrieve.mutable_query()->set_text("x");
  v1::ScoreRequest score;
  score.mutable_session()->add_mounts(id);
  score.mutable_prompt()->set_text("x");
  v1::SessionOptions session;
  session.add_mounts(id);
  v1::GenerateRequest generate;
  *generate.mutable_session() = session;
  generate.mutable_prompt()->set_text("x");
  v1::SetMetadataRequest metadata;
  metadata.set_id(id);
  metadata.set_metadata("{}");
  v1::SaveSessionRequest save;
  save.set_session_id(99);
  save.set_document_id(id + "z");
  return {{"GetDocument", client.GetDocument(id).status()},
          {"ListDocuments", client.ListAllDocuments().status()},
          {"ListIngests", client.ListIngests().status()},
          {"ReadText", client.ReadText(id, 0, 1).status()},
          {"ExportDocument",
           client.ExportDocument(id, [](const std::string&) { return absl::OkStatus(); }).status()},
          {"Retrieve", client.Retrieve(retrieve).status()},
          {"Generate", client.Generate(generate).status()},
          {"OpenSession", client.OpenSession(session).status()},
          {"GetSession", client.GetSession(99).status()},
          {"CloseSession", client.CloseSession(99)},
          {"SaveSession", client.SaveSession(save).status()},
          {"Score", client.Score(score).status()},
          {"GetStats", client.GetStats().status()},
          {"Ingest", client.IngestText(id + "x", client::ReadFrom("text")).status()},
          {"ImportDocument",
           client.ImportDocument(id + "y", client::ReadFrom(DocumentFile())).status()},
          {"RefreshDocument", client.RefreshDocument(id).status()},
          {"SetMetadata", client.SetMetadata(metadata).status()},
          {"DeleteDocument", client.DeleteDocument(id)},
          {"CreateBackup", client.CreateBackup({}).status()},
          {"ListBackups", client.ListBackups().status()}};
}

}  // namespace recollect
