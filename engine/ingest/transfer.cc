#include "engine/ingest/transfer.h"

#include <utility>

#include "base/memory.h"
#include "base/status.h"
#include "engine/step/limits.h"
#include "model/text/tokenizer.h"
#include "store/document_transfer.h"

namespace recollect::engine {
namespace {

class Export final : public ExportStream {
 public:
  Export(store::DocumentReader& store, Counters& counters, int64_t key_width, Pin pin,
         store::DocumentInfo document)
      : counters_(counters), pin_(std::move(pin)), export_(store, std::move(document), key_width) {}

  const store::DocumentInfo& document() const override { return export_.document(); }
  absl::StatusOr<std::string> Next() override {
    absl::StatusOr<std::string> bytes = OrExhausted("an export", [&] { return export_.Next(); });
    counters_.CountError(bytes.status());
    return bytes;
  }

 private:
  Counters& counters_;
  const Pin pin_;
  store::DocumentExport export_;
};

store::ImportRules Rules(const model::Model& model) {
  const model::ModelConfig& config = model.config();
  return {.fingerprint = std::string(model.fingerprint()),
          .width = config.documents() == DocumentKind::kText ? 0 : config.state_width(),
          .key_width = config.key_width(),
          .vocab_size = config.vocab_size,
          .chunk_tokens = config.chunk_tokens,
          .kind = config.documents(),
          .pointer = config.pointer.reach > 0 || config.has_adapter(),
          .find_invalid_utf8 = model::FindInvalidUtf8};
}

class Import final : public ImportStream {
 public:
  Import(const model::Model& model, store::IngestWriter& store, const std::string& id,
         IdCheck may_have, IngestRegistry::ImportPlace place)
      : may_have_(std::move(may_have)),
        place_(std::move(place)),
        import_(store, Rules(model), id, [this](const store::DocumentInfo& document) {
          if (may_have_ != nullptr) RETURN_IF_ERROR(may_have_(document.id));
          RETURN_IF_ERROR(CheckNewDocumentId(document.id));
          return place_->Take(document.id, document.bytes);
        }) {}

  absl::Status Append(absl::string_view bytes) override {
    RETURN_IF_ERROR(failed_);
    failed_ = OrExhausted("an import", [&] { return import_.Append(bytes); });
    return failed_;
  }
  absl::StatusOr<store::DocumentInfo> Finish() override {
    RETURN_IF_ERROR(failed_);
    absl::StatusOr<store::DocumentInfo> document =
        OrExhausted("an import", [&] { return import_.Finish(); });
    if (document.ok()) place_->Published(document->id);
    failed_ =
        document.ok() ? absl::FailedPreconditionError("the import is finished") : document.status();
    return document;
  }

 private:
  absl::Status failed_;
  const IdCheck may_have_;
  const IngestRegistry::ImportPlace place_;  // given back after what was written has gone
  store::DocumentImport import_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExportStream>> BeginExport(const model::Model& model,
                                                          store::Catalog& catalog,
                                                          store::DocumentReader& reader,
                                                          Counters& counters, Pin pin) {
  const store::DocumentInfo& info = pin->info();
  RETURN_IF_ERROR(CheckModel(info, model.fingerprint()));
  // The pin may be older than the metadata.
  store::DocumentInfo document = info;
  if (const auto now = catalog.Get(info.id); now.ok() && now->owner == info.owner) {
    document.metadata = now->metadata;
  }
  return std::make_unique<Export>(reader, counters, model.config().key_width(), std::move(pin),
                                  std::move(document));
}

std::unique_ptr<ImportStream> BeginImport(const model::Model& model, store::IngestWriter& store,
                                          const std::string& id, IdCheck may_have,
                                          IngestRegistry::ImportPlace place) {
  return std::make_unique<Import>(model, store, id, std::move(may_have), std::move(place));
}

}  // namespace recollect::engine
