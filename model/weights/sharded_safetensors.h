// Reads a checkpoint that is split into several safetensors files, as large published ones are. An
// index, usually model.safetensors.index.json, says in its "weight_map" which file beside it holds
// which tensor.
#ifndef RECOLLECT_MODEL_WEIGHTS_SHARDED_SAFETENSORS_H_
#define RECOLLECT_MODEL_WEIGHTS_SHARDED_SAFETENSORS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/weights/safetensors.h"
#include "model/weights/tensor_file.h"

namespace recollect::model {

// All files of a checkpoint, mapped. Thread-safe once opened.
class ShardedSafetensors final : public TensorFile {
 public:
  // `index` is the path of the index. NOT_FOUND: no index, or a file that it names is not there.
  // INVALID_ARGUMENT: an index without weight_map, a file in another directory, a tensor that is in
  // no file or in another one than the index says, or what SafetensorsFile::Open refuses.
  static absl::StatusOr<ShardedSafetensors> Open(const std::string& index);

  const std::map<std::string, TensorInfo>& tensors() const override { return tensors_; }

  // The paths of the files, by name: with the index, all that the tensors depend on.
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  ShardedSafetensors() = default;
  // Opens one file, whose tensors are those that `places`, files by tensor, has in it.
  absl::Status Add(const std::string& directory, const std::string& shard,
                   const std::map<std::string, std::string>& places);

  std::vector<SafetensorsFile> shards_;
  std::vector<std::string> paths_;
  std::map<std::string, TensorInfo> tensors_;  // into shards_
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_WEIGHTS_SHARDED_SAFETENSORS_H_
