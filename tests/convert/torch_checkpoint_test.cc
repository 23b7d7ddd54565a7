// The container: what torch.save writes is read, and damage is found before or while it is read.
#include "convert/torch_checkpoint.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/convert/convert_testing.h"
#include "tests/golden/hub_weights.h"
#include "tests/support/tiny_model.h"

namespace recollect::convert {
namespace {

using ::testing::HasSubstr;

class TorchCheckpointTest : public ::testing::Test {
 protected:
  std::string path() const {
    return ::testing::TempDir() + "/" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".pt";
  }
  void ExpectRefused(absl::StatusCode code, const std::string& fragment) const {
    const auto checkpoint = TorchCheckpoint::Open(path());
    EXPECT_EQ(checkpoint.status().code(), code) << checkpoint.status();
    EXPECT_THAT(std::string(checkpoint.status().message()), HasSubstr(fragment));
  }
  // Opens the file and reads every tensor of its root dict's "task" to the end.
  absl::Status ReadAll() const {
    const auto checkpoint = TorchCheckpoint::Open(path());
    if (!checkpoint.ok()) return checkpoint.status();
    const PickleTree& tree = (*checkpoint)->tree();
    const Value* task = tree.Find(tree.root(), "task");
    if (task == nullptr || !std::holds_alternative<Dict>(*task)) return absl::OkStatus();
    for (const auto& [key, value] : std::get<Dict>(*task).entries) {
      const TensorRef* tensor = std::get_if<TensorRef>(&tree.at(value));
      if (tensor == nullptr || !tensor->contiguous()) continue;
      auto reader = (*checkpoint)->OpenTensor(*tensor);
      if (!reader.ok()) return reader.status();
      std::vector<std::byte> buffer(64);
      while (true) {
        const auto read = reader->Read(buffer.data(), 64);
        if (!read.ok()) return read.status();
        if (*read == 0) break;
      }
    }
    return absl::OkStatus();
  }

  const std::vector<TestTensor> small_ = {
      {"w", {3}, HubWeights("w", 3), "", "FloatStorage", {}},
      {"v", {2, 2}, HubWeights("v", 4), "", "FloatStorage", {}}};
};

TEST_F(TorchCheckpointTest, ReadsWhatTorchSaved) {
  const auto checkpoint =
      TorchCheckpoint::Open(RECOLLECT_SOURCE_DIR "/tests/golden/hub/ratplus.pt");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const PickleTree& tree = (*checkpoint)->tree();
  EXPECT_EQ(std::get<int64_t>(*tree.Find(tree.root(), "step")), 52452);
  EXPECT_TRUE(std::holds_alternative<Dict>(*tree.Find(tree.root(), "optimizer")));
  const auto& tensor =
      std::get<TensorRef>(*tree.Find(*tree.Find(tree.root(), "task"), "embedding.wte.weight"));
  auto reader = (*checkpoint)->OpenTensor(tensor);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  const auto read = reader->Read(reinterpret_cast<std::byte*>(values.data()),
                                 static_cast<int64_t>(values.size() * sizeof(float)));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(values, HubWeights("embedding.wte.weight", tensor.size()));
}

TEST_F(TorchCheckpointTest, RefusesOtherFiles) {
  const auto missing = TorchCheckpoint::Open(path() + ".none");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  WriteFile(path(), "");
  ExpectRefused(absl::StatusCode::kDataLoss, path() + ": the file is empty: 0 bytes");
  WriteFile(path(),
            "\x80\x02"
            "a pickle without a container, as old versions wrote it");
  ExpectRefused(absl::StatusCode::kInvalidArgument, "zip");
  WriteZip(path(), {{"readme.txt", "no checkpoint"}});
  ExpectRefused(absl::StatusCode::kInvalidArgument, "0 entries */data.pkl");
  WriteZip(path(), {{"a/data.pkl", "N."}, {"b/data.pkl", "N."}});
  ExpectRefused(absl::StatusCode::kInvalidArgument, "2 entries */data.pkl");
  WriteZip(path(), {{"a/data.pkl", "N."}, {"a/byteorder", "big"}});
  ExpectRefused(absl::StatusCode::kInvalidArgument, "byte order \"big\"");
  WriteZip(path(), {{"a/data.pkl", std::string((16 << 20) + 1, 'N')}});
  ExpectRefused(absl::StatusCode::kInvalidArgument, "has 16777217 bytes, limit 16777216");
  WriteZip(path(), {{"a/data.pkl", "N." + std::string(1000, ' ')}}, /*compressed=*/true);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "entry a/data.pkl is compressed");
  WriteZip(path(), {{"a/data.pkl", PickleGlobal("os", "system") + "(tR."}});
  ExpectRefused(absl::StatusCode::kInvalidArgument, path() + ": pickle byte 0: global os.system");
}

TEST_F(TorchCheckpointTest, StoragesMustBeThereAndWhole) {
  const std::string pickle = PickleCheckpoint(small_);
  WriteZip(path(), {{"a/data.pkl", pickle}, {"a/data/0", std::string(12, 'x')}});
  EXPECT_THAT(std::string(ReadAll().message()), HasSubstr("storage 1 is not in the container"));
  WriteZip(path(), {{"a/data.pkl", pickle},
                    {"a/data/0", std::string(11, 'x')},
                    {"a/data/1", std::string(16, 'x')}});
  EXPECT_EQ(ReadAll().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(ReadAll().message()), HasSubstr("storage 0 has 11 bytes, expected 12"));
}

// Or little would ask for much memory.
TEST_F(TorchCheckpointTest, EntriesAreNotLongerThanTheFile) {
  WriteCheckpoint(path(), small_);
  const std::string whole = ReadFile(path());
  // Compressed size, then size, 20 bytes after the begin of an entry of the directory.
  const size_t sizes = whole.find("PK\1\2") + 20;
  for (const char* const damage : {"size", "both"}) {
    SCOPED_TRACE(damage);
    std::string bytes = whole;
    bytes[sizes + 4 + 3] = 0x40;  // a gigabyte more
    if (std::string(damage) == "both") bytes[sizes + 3] = 0x40;
    WriteFile(path(), bytes);
    ExpectRefused(absl::StatusCode::kDataLoss, "are stored in a file of");
  }
}

// libzip's own word for it is that there is no such file.
TEST_F(TorchCheckpointTest, AnEntryWithoutItsOffsetIsDataLoss) {
  WriteCheckpoint(path(), small_);
  std::string bytes = ReadFile(path());
  bytes.replace(bytes.find("PK\1\2") + 42, 4, "\xff\xff\xff\xff");
  WriteFile(path(), bytes);
  ExpectRefused(absl::StatusCode::kDataLoss, "the zip directory is damaged");
}

TEST_F(TorchCheckpointTest, EveryTruncationIsAnError) {
  WriteCheckpoint(path(), small_);
  ASSERT_TRUE(ReadAll().ok()) << ReadAll();
  const std::string whole = ReadFile(path());
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteFile(path(), whole.substr(0, size));
    const absl::Status status = ReadAll();
    EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsInvalidArgument(status)) << size << status;
    if (size >= 4) {
      EXPECT_TRUE(absl::IsDataLoss(status)) << size << status;
    }
  }
}

// A changed byte is an error, or lies where nothing is read from (dates, attributes), or changes a
// name; never a crash, and never other values.
TEST_F(TorchCheckpointTest, FlippedBitsNeverChangeValues) {
  WriteCheckpoint(path(), small_);
  const std::string whole = ReadFile(path());
  const size_t data =
      whole.find(std::string(reinterpret_cast<const char*>(small_[0].values.data()), 12));
  ASSERT_NE(data, std::string::npos);
  for (size_t at = 0; at < whole.size(); ++at) {
    const bool in_data = at >= data && at < data + 12;
    for (int bit = 0; bit < 8; bit += in_data ? 1 : 5) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      WriteFile(path(), bytes);
      const absl::Status status = ReadAll();
      if (in_data) {
        EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << at << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr("CRC"));
      }
    }
  }
}

}  // namespace
}  // namespace recollect::convert
