// Makes a document of a text that was read and generated here. All that can be wrong with it is
// found before there is any text: from then on the document's id is held by an ordinary ingest.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/streams.h"

namespace recollect::engine {

class Engine;  // engine/engine.h

// Tells what is known of a text before it is written.
struct KnownText {
  absl::string_view text;    // what it begins with
  bool is_all = false;       // nothing follows
  bool is_question = false;  // turns of a conversation, of which the answer follows
};

// Thread-safe, but for Write.
class TextSave final : public RequestHandle, public std::enable_shared_from_this<TextSave> {
 public:
  using Done = std::function<void(absl::StatusOr<store::DocumentInfo>)>;
  // Begins the stream that writes the document; as Engine::BeginIngest, if null.
  using BeginStream = std::function<absl::StatusOr<std::unique_ptr<IngestStream>>(
      const std::string& id, const Origin& origin, const std::optional<Replacement>& replacement)>;

  // Begins the ingest, which appends to the document of that id if its text is what the new one
  // begins with, and replaces it if, of a conversation, it differs from it in the last answer
  // alone; or any with SaveAs::replace. Errors as for Engine::SaveSession. Blocks on the disk.
  static absl::StatusOr<std::shared_ptr<TextSave>> Begin(Engine& engine, const SaveAs& as,
                                                         const Origin& origin,
                                                         const KnownText& known,
                                                         const BeginStream& begin = nullptr);

  // Writes the document. To be called at most once; if never, nothing is left. `done` is called
  // once, never inside this call.
  void Write(std::string text, Done done);
  void Cancel() override;

 private:
  TextSave(std::string id, int64_t kept, std::unique_ptr<IngestStream> stream);
  void Send(int64_t offset);  // the next piece, which begins there
  void End(absl::StatusOr<store::DocumentInfo> result);

  const std::string id_;
  const int64_t kept_;  // bytes that the document has already
  const std::unique_ptr<IngestStream> stream_;
  const std::shared_ptr<RequestHandle> ingest_;  // may be null
  std::string text_;
  Done done_;
};

}  // namespace recollect::engine
