// The weights of a checkpoint by name, and a record of which were asked for and what was wrong with
// them. Private to convert/.
#ifndef RECOLLECT_CONVERT_STATE_DICT_H_
#define RECOLLECT_CONVERT_STATE_DICT_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "convert/torch_checkpoint.h"

namespace recollect::convert {

// An extent that may be any.
inline constexpr int64_t kAnyExtent = -1;

// Borrows from the checkpoint and from `problems`, to which every finding is added.
class StateDict {
 public:
  // The dict under "task", or the file's own dict when that is one of weights. Wrappers' marks
  // ("_orig_mod.") are dropped from the names.
  StateDict(const TorchCheckpoint& checkpoint, std::vector<std::string>& problems);

  // nullptr when there is none; does not count as asked for.
  const TensorRef* Find(const std::string& name) const;
  // Extent `axis` of a tensor that is there and has it, else `otherwise`.
  int64_t Extent(const std::string& name, size_t axis, int64_t otherwise) const;

  // Asks for a tensor of this shape. A finding when it is missing, misshapen, of a type that is no
  // weight, not contiguous, or without its data; then the result is an empty tensor.
  TensorRef Take(const std::string& name, const std::vector<int64_t>& shape);

  // Every tensor that was not asked for is a finding.
  void ReportLeftOver() const;

  // One more than the largest i in a name that begins with `prefix` and "i.".
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
