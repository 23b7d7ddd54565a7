// Checkpoints made byte by byte, so that a test can make any mistake in one.
#ifndef RECOLLECT_TESTS_CONVERT_CONVERT_TESTING_H_
#define RECOLLECT_TESTS_CONVERT_CONVERT_TESTING_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace recollect::convert {

// Pieces of a pickle. Text becomes BINUNICODE, sizes become BININT.
std::string PickleText(const std::string& text);
std::string PickleInt(int64_t value);
std::string PickleTuple(const std::vector<int64_t>& values);
// GLOBAL 'module name'.
std::string PickleGlobal(const std::string& module, const std::string& name);

// A tensor of a checkpoint to write, in row-major fp32.
struct TestTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
  std::string storage;  // key; empty: its own
  std::string storage_class = "FloatStorage";
  std::vector<int64_t> strides;  // empty: contiguous
};

// _rebuild_tensor_v2 of the tensor, as torch pickles it.
std::string PickleTensor(const TestTensor& tensor, const std::string& key);

// A whole pickle: {"task": {...}} and, unless empty, "config": `config`, itself a pickled value.
std::string PickleCheckpoint(const std::vector<TestTensor>& tensors,
                             const std::string& config = "");

// A zip file of stored (or deflated) entries, in this order. Aborts the test on an error.
void WriteZip(const std::string& path,
              const std::vector<std::pair<std::string, std::string>>& entries,
              bool compressed = false);

// The file torch.save would write: pickle, byte order, one entry a storage.
void WriteCheckpoint(const std::string& path, const std::vector<TestTensor>& tensors,
                     const std::string& config = "");

// All tensors of a RAT+ model of two layers, width 4, vocabulary 400, with the head tied.
std::vector<TestTensor> TinyRatPlus();

}  // namespace recollect::convert

#endif  // RECOLLECT_TESTS_CONVERT_CONVERT_TESTING_H_
