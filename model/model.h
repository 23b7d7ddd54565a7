// The part of a model that does not depend on where its layers run: its config, tokenizer and
// fingerprint, and the parts that the host always computes. The layers themselves are CpuModel's
// (model/cpu/cpu_model.h), which is a Model, or those of a DeviceModel
// (model/device/device_model.h) made from one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "model/config/config.h"

namespace recollect::model {

class ChatTemplate;
class Judge;
class Lexicon;
class Pointer;
class TensorFile;
class Tokenizer;
struct ModelFiles;
class Words;
struct EncodedChunk;

// Returns INVALID_ARGUMENT unless the tokenizer has as many pieces as the config says and control
// symbols at its ids. REQUIRES: `config` is one that was read and checked.
absl::Status CheckTokenizer(const Tokenizer& tokenizer, const ModelConfig& config);

// Immutable after Load; thread-safe.
class Model {
 public:
  // Reads the files at `path`, in any of the three layouts of model_files.h: the config, and the
  // lexicon, pointer, successor biases and tokenizer where the model has them. `dtype` is the
  // number format of the products, whoever runs them. All problems of the weights are reported in
  // one INVALID_ARGUMENT: each missing, unexpected or misshapen tensor with both shapes.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const std::string& path,
                                                     DType dtype = DType::kFloat32);
  virtual ~Model();

  const ModelConfig& config() const;
  const ModelFiles& files() const;     // from which it was loaded
  const Tokenizer* tokenizer() const;  // null where the files have none
  // The token that stands before a text with which a sequence begins, where the files ask for one.
  std::optional<int32_t> begin_token() const;
  // The template of a conversation; null if the files have none or an unknown one: the status says
  // which.
  const ChatTemplate* chat_template() const;
  const absl::Status& chat_template_status() const;
  // Takes the template of this name instead of the files'. Call it before the model is shared.
  // INVALID_ARGUMENT: there is no such template, or the tokenizer, which may be missing, lacks one
  // of its control tokens.
  absl::Status ChooseChatTemplate(std::string_view name);
  DType dtype() const;
  // The number format in which a CPU keeps keys and values between calls; mixers round to it.
  DType cache_dtype() const { return dtype() == DType::kFloat32 ? DType::kFloat32 : DType::kBf16; }
  int64_t parameters() const;  // the tied embedding counted once
  // Bytes in RAM of the weights: here of the lexicon, the pointer and the words.
  virtual int64_t weight_bytes() const;

  // Hex SHA-256 over weights, config, tokenizer, ingest pattern, record layout version and number
  // format: stored with every document; memory written under another one is refused.
  const std::string& fingerprint() const;

  // Optional parts of retrieval and of the head; null or empty if the model has none.
  const Lexicon* lexicon() const;
  const Pointer* pointer() const;
  std::span<const float> successor_biases() const;  // by group
  // With an adapter, the difference by which a retrieved block's successor scores less than the
  // block.
  float successor_distance() const;
  // Chooses among possible answers; null if the model has no such part.
  const Judge* judge() const;
  // The words of the vocabulary, by which documents that are kept as text are searched, and which
  // an adapter weighs; null if the model does neither or has no tokenizer.
  const Words* words() const;

  // Adds to a chunk the parts that depend on its token ids, in a model that uses them: the lexical
  // part of its landmark key, and its tokens. `tokens` ends with the chunk's own tokens; before
  // them are those that precede it in its document or session, as many as the pointer reaches or as
  // there are.
  void AddTokens(std::span<const int32_t> tokens, EncodedChunk& chunk) const;

 protected:
  Model();
  // Loads all of the above and returns the weights, whose tensors are those of the config.
  absl::StatusOr<std::unique_ptr<TensorFile>> Read(const std::string& path, DType dtype);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace recollect::model
