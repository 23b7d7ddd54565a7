// The weights of a checkpoint by name, and a record of which were requested and of their problems.
// Private to convert/.
#ifndef RECOLLECT_CONVERT_STATE_DICT_H_
#define RECOLLECT_CONVERT_STATE_DICT_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "convert/torch_checkpoint.h"

namespace recollect::convert {

// Allows any extent.
inline constexpr int64_t kAnyExtent = -1;

// Borrows the checkpoint and `problems`, to which every problem is added.
class StateDict {
 public:
  // Uses the dict under "task", or the file's own dict if that contains weights. Prefixes that
  // wrappers add to names ("_orig_mod.") are removed.
  StateDict(const TorchCheckpoint& checkpoint, std::vector<std::string>& problems);

  // Returns nullptr if there is no such tensor; does not count as a request.
  const TensorRef* Find(const std::string& name) const;
  // Returns extent `axis` of the tensor, or `otherwise` if there is no such tensor or axis.
  int64_t Extent(const std::string& name, size_t axis, int64_t otherwise) const;

  // Requests a tensor of this shape. If it is missing, misshapen, of a type that is no weight, not
  // contiguous, or without its data, adds a problem and returns an empty tensor.
  TensorRef Take(const std::string& name, const std::vector<int64_t>& shape);

  // Adds a problem for every tensor that was not requested.
  void ReportLeftOver() const;

  // Returns one more than the largest i below 4096 in a name that begins with `prefix` and "i."; 0
  // if there is none.
  int64_t CountLayers(const std::string& prefix) const;

 private:
  void Collect(const Dict& dict);

  const TorchCheckpoint& checkpoint_;
  std::vector<std::string>& problems_;
  std::map<std::string, TensorRef> tensors_;
  std::set<std::string> taken_;
};

}  // namespace recollect::convert

#endif  // RECOLLECT_CONVERT_STATE_DICT_H_
