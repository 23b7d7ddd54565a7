// What everything around the layers needs of a model: its config, tokenizer and fingerprint, and
// the parts that the host computes wherever the layers run. The layers themselves are CpuModel's
// (model/cpu/cpu_model.h), which is a Model, or those of a DeviceModel
// (model/device/device_model.h) made from one.
#ifndef RECOLLECT_MODEL_MODEL_H_
#define RECOLLECT_MODEL_MODEL_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "model/config/config.h"

namespace recollect::model {

class Lexicon;
class Pointer;
class SafetensorsFile;
class Tokenizer;
struct EncodedChunk;

// INVALID_ARGUMENT, naming tokenizer.model, unless it has as many pieces as the config says and
// control symbols at its ids. REQUIRES: `config` is ParseConfig's.
absl::Status CheckTokenizer(const Tokenizer& tokenizer, const ModelConfig& config);

// Immutable after Load; thread-safe.
class Model {
 public:
  // Reads config.json, what there is of lexicon, pointer and successor biases in
  // model.safetensors, and, where present, tokenizer.model. `dtype` is the number format of the
  // products, whoever runs them. All problems of the files are reported in one INVALID_ARGUMENT:
  // each missing, unexpected or misshapen tensor with both shapes.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const std::string& directory,
                                                     DType dtype = DType::kFloat32);
  virtual ~Model();

  const ModelConfig& config() const;
  const Tokenizer* tokenizer() const;  // null where the directory has none
  DType dtype() const;
  int64_t parameters() const;  // the tied embedding counted once
  // Bytes of weights in RAM: those of the lexicon and the pointer.
  virtual int64_t weight_bytes() const;

  // Hex SHA-256 over weights, config, tokenizer, ingest pattern, record layout version and number
  // format: stored with every document; memory written under another one is refused.
  const std::string& fingerprint() const;

  // Optional parts of retrieval and of the head; null or empty if the model has none.
  const Lexicon* lexicon() const;
  const Pointer* pointer() const;
  std::span<const float> successor_biases() const;  // by group

  // Adds to a chunk what depends on its token ids, in a model that uses them: the lexical part of
  // its landmark key, and its tokens. `tokens` ends with the chunk's own tokens; before them are
  // those that precede it in its document or session, as many as the pointer reaches or as there
  // are.
  void AddTokens(std::span<const int32_t> tokens, EncodedChunk& chunk) const;

 protected:
  Model();
  // Loads all of the above and returns the file of weights, whose tensors are those of the config.
  absl::StatusOr<SafetensorsFile> Read(const std::string& directory, DType dtype);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_MODEL_H_
